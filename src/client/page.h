/* A listing in pages of keys that somebody wants: for those who talk to the store about each key, which may not be
 * done while the store is listing. One thread. */
#ifndef LKI_CLIENT_PAGE_H
#define LKI_CLIENT_PAGE_H

#include "base/buffer.h"
#include "store/store.h"

#define LKI_PAGE_KEY_COUNT 1000u

typedef enum lki_page_verdict {
  LKI_PAGE_SKIP = 0,
  LKI_PAGE_TAKE = 1,
  LKI_PAGE_STOP = 2 /* neither this key nor any after it is wanted */
} lki_page_verdict;

typedef lki_page_verdict lki_page_fn(void *ctx, const char *key, uint64_t object_bytes);

typedef struct lki_page {
  lki_arena arena; /* of the keys */
  uint32_t count;
  const char *keys[LKI_PAGE_KEY_COUNT]; /* ascending */
  uint64_t object_bytes[LKI_PAGE_KEY_COUNT]; /* of each one's object */
  bool last;                       /* no page follows */
  char after[LKI_KEY_BYTES_MAX + 1]; /* where the next page begins; "": at the first key */
} lki_page;

void lki_page_init(lki_page *page, lake_env *env);
void lki_page_free(lki_page *page);
/* The next page in place of this one. fn sees each key once, and may not call the store. */
lake_status lki_page_read(lki_page *page, lake_store *store, const char *prefix, lki_page_fn *fn, void *ctx,
                          lake_deadline deadline, lake_error *err);

#endif
