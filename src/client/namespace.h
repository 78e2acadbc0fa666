/* The namespace handle, as the clients see it. */
#ifndef LKI_CLIENT_NAMESPACE_H
#define LKI_CLIENT_NAMESPACE_H

#include "log/log.h"
#include <lakestream/namespace.h>

#define LKI_STORE_CALL_NS ((uint64_t)30 * 1000 * 1000 * 1000) /* bound of one background store call */

struct lake_namespace {
  lake_env *env;
  lake_store *store;
  bool owns_store;
  lki_schema *schema;
  _Atomic(bool) store_proven; /* by this process; see trust.h */
  lki_log *log;
};

#endif
