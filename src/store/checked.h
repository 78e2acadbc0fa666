/* Reading an object that can be checked: what fails its check is fetched anew, since the fault may lie on the way, and
 * is CORRUPT only when it fails every time. The one loop for every reader of the library. */
#ifndef LKI_STORE_CHECKED_H
#define LKI_STORE_CHECKED_H

#include "store/store.h"

#define LKI_READ_TRIES 3

/* Looks at what was read; CORRUPT asks for another try, any other status is final. What it makes on OK is the result;
 * on failure it leaves nothing behind. */
typedef lake_status lki_check_fn(void *ctx, lake_bytes bytes, const lake_object_info *info, lake_error *err);

/* Gets into `buffer`, whose content is replaced by each try, and checks. CORRUPT names URL and key once (the check's
 * text may begin with the key or not) and ends in what to do. */
lake_status lki_store_get_checked(lake_store *store, const char *key, lake_range range, lake_buffer *buffer,
                                  lki_check_fn *check, void *ctx, lake_deadline deadline, lake_error *err);

#endif
