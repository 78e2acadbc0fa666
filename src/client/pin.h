/* Pins, as reclaim and the tools see them. */
#ifndef LKI_CLIENT_PIN_H
#define LKI_CLIENT_PIN_H

#include "client/namespace.h"

typedef lake_status lki_pin_fn(void *ctx, const char *key, const lki_pin *pin, lake_error *err);

/* Reads every pin of every group. CORRUPT: an object under watermark/ is no pin of this namespace; it is named, and as
 * long as it stands nobody knows what it asks for. */
lake_status lki_pin_visit(lake_namespace *ns, lki_pin_fn *fn, void *ctx, lake_deadline deadline, lake_error *err);

#endif
