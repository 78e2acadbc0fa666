/* When a store has to prove itself: before a namespace is created on a service, which its lakestream.json then tells;
 * and before a process produces into a namespace that does not. */
#ifndef LKI_CLIENT_TRUST_H
#define LKI_CLIENT_TRUST_H

#include "client/namespace.h"

/* Sets the mark of a schema that is about to be written. reopen: the store's URL may be opened once more, for the proof
 * over two connections. UNSUPPORTED: the store failed, and nobody forces it. */
lake_status lki_trust_new(lake_store *store, bool reopen, lki_schema *schema, lake_deadline deadline, lake_error *err);
/* Asks the store of a namespace that is not marked, once for each handle. UNSUPPORTED: it failed, and
 * LAKESTREAM_FORCE is not set to 1. */
lake_status lki_trust_check(lake_namespace *ns, lake_deadline deadline, lake_error *err);

#endif
