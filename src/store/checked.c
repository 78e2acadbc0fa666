/* The one loop around reads that are verified. */
#include "store/checked.h"
#include "base/buffer.h"
#include "base/error.h"
#include <string.h>

/* One text for every reader: the object once, whether or not the check named it, and what to do. What the store itself
 * found out names it already. */
static void say(const lake_store *store, const char *key, bool by_check, lake_error *err) {
  if (err == NULL) return;
  const char *text = err->text;
  const size_t n = strlen(key);
  if (!by_check) {
    lki_fail(err, LAKE_CORRUPT, "%s; restore the object", text);
    return;
  }
  if (strncmp(text, key, n) == 0 && strncmp(text + n, ": ", 2) == 0) text += n + 2;
  lki_fail(err, LAKE_CORRUPT, "%s: %s: %s; restore the object", lki_store_url(store), key, text);
}

lake_status lki_store_get_checked(lake_store *store, const char *key, lake_range range, lake_buffer *buffer,
                                  lki_check_fn *check, void *ctx, lake_deadline deadline, lake_error *err) {
  lake_status s = LAKE_CORRUPT;
  bool read = false;
  for (int i = 0; i < LKI_READ_TRIES && s == LAKE_CORRUPT; i++) {
    lake_object_info info = {0};
    buffer->bytes = 0;
    s = lki_store_get(store, key, range, buffer, &info, deadline, err);
    read = s == LAKE_OK;
    if (read) s = check(ctx, lki_buffer_view(buffer), &info, err);
  }
  if (s == LAKE_CORRUPT) say(store, key, read, err);
  return s;
}
