/* The one loop around reads that are verified. */
#include "store/checked.h"
#include "base/buffer.h"
#include "base/error.h"

lake_status lki_store_get_checked(lake_store *store, const char *key, lake_range range, lake_buffer *buffer,
                                  lki_check_fn *check, void *ctx, lake_deadline deadline, lake_error *err) {
  lake_status s = LAKE_CORRUPT;
  for (int i = 0; i < LKI_READ_TRIES && s == LAKE_CORRUPT; i++) {
    lake_object_info info = {0};
    buffer->bytes = 0;
    s = lki_store_get(store, key, range, buffer, &info, deadline, err);
    if (s != LAKE_OK) continue;
    s = check(ctx, lki_buffer_view(buffer), &info, err);
    if (s == LAKE_CORRUPT) lki_error_prefix(err, "%s: %s", lki_store_url(store), key);
  }
  return s;
}
