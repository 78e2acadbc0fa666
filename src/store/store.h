/* The door to a store for the rest of the library: checks keys and ranges, counts requests, retries what may be
 * retried, dispatches. Errors name the URL and the key. Safe from any thread. */
#ifndef LKI_STORE_STORE_H
#define LKI_STORE_STORE_H

#include <lakestream/store.h>

#define LKI_KEY_BYTES_MAX 900
#define LKI_KEY_COMPONENT_BYTES_MAX 240

/* As the members of lake_store_ops, by the contract there. get, put, head, list, remove and remove_many are retried on UNAVAILABLE
 * and UNCERTAIN with full jitter until the deadline or the attempt limit, then the last error is returned.
 * put_if_absent is never retried here: src/log/ resolves its outcome. Retries have a budget for the whole store: see
 * store/retry.h. */
lake_status lki_store_get(lake_store *store, const char *key, lake_range range, lake_buffer *out,
                          lake_object_info *info, lake_deadline deadline, lake_error *err);
lake_status lki_store_put(lake_store *store, const char *key, lake_bytes body, lake_deadline deadline,
                          lake_error *err);
lake_status lki_store_put_if_absent(lake_store *store, const char *key, lake_bytes body, lake_deadline deadline,
                                    lake_error *err);
lake_status lki_store_head(lake_store *store, const char *key, lake_object_info *info, lake_deadline deadline,
                           lake_error *err);
lake_status lki_store_list(lake_store *store, const char *prefix, const char *start_after, lake_list_fn *fn,
                           void *ctx, lake_deadline deadline, lake_error *err);
lake_status lki_store_remove(lake_store *store, const char *key, lake_deadline deadline, lake_error *err);
/* Deletes any number of objects, none too; no order is kept among them. INVALID, before anything is deleted: one of the
 * keys is none. On another failure some may be gone; the same keys may be given again. By remove, in the order of the
 * keys, where the table has no remove_many. gone (may be NULL) says of each key, on failure too, whether it was deleted
 * for sure. */
lake_status lki_store_remove_many(lake_store *store, const char *const *keys, size_t count, bool *gone,
                                  lake_deadline deadline, lake_error *err);

/* The members that a table may lack: then no uploads, and OK. Tried again as the others, but for
 * list_uploads. */
lake_status lki_store_list_uploads(lake_store *store, const char *prefix, lake_upload_fn *fn, void *ctx,
                                   lake_deadline deadline, lake_error *err);
lake_status lki_store_abort_upload(lake_store *store, const char *key, const char *upload_id, lake_deadline deadline,
                                   lake_error *err);
lake_status lki_store_check(lake_store *store, lake_deadline deadline, lake_error *err);

/* For stores: whether what an object delivers is what its reader can expect. CORRUPT: it is longer than such an object
 * may be. */
lake_status lki_store_fits(const lake_buffer *out, uint64_t bytes, lake_error *err);

lake_env *lki_store_env(const lake_store *store);
const char *lki_store_url(const lake_store *store); /* for people; never holds a secret */
bool lki_key_valid(const char *key);

static inline lake_range lki_range_whole(void) {
  lake_range range = {LAKE_RANGE_WHOLE, 0, 0};
  return range;
}
static inline lake_range lki_range_exact(uint64_t offset, uint64_t bytes) {
  lake_range range = {LAKE_RANGE_EXACT, offset, bytes};
  return range;
}
static inline lake_range lki_range_suffix(uint64_t bytes) {
  lake_range range = {LAKE_RANGE_SUFFIX, 0, bytes};
  return range;
}

/* The stores behind lake_store_open, each in its file: fill *ops and *self from what follows the scheme's colon. */
lake_status lki_store_mem_open(lake_env *env, const char *name, const lake_store_ops **ops, void **self,
                               lake_error *err);
lake_status lki_store_file_open(lake_env *env, const char *path, const lake_store_ops **ops, void **self,
                                lake_error *err);

#endif
