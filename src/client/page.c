/* One LIST a page; it begins behind the last key of the page before. */
#include "client/page.h"
#include "base/error.h"
#include <string.h>

void lki_page_init(lki_page *page, lake_env *env) {
  memset(page, 0, sizeof *page);
  lki_arena_init(&page->arena, env);
}

void lki_page_free(lki_page *page) { lki_arena_free(&page->arena); }

typedef struct reading {
  lki_page *page;
  lki_page_fn *fn;
  void *ctx;
  bool stopped;   /* by the page being full: another one follows */
  bool no_memory;
} reading;

static bool take_key(void *ctx, const char *key, uint64_t object_bytes) {
  reading *r = ctx;
  lki_page *page = r->page;
  if (page->count == LKI_PAGE_KEY_COUNT) {
    r->stopped = true;
    return false;
  }
  const lki_page_verdict verdict = r->fn(r->ctx, key, object_bytes);
  if (verdict == LKI_PAGE_STOP) return false;
  const size_t bytes = strlen(key); /* the door has seen to its length */
  if (verdict == LKI_PAGE_TAKE) {
    char *text = lki_arena_strndup(&page->arena, key, bytes);
    if (text == NULL) {
      r->no_memory = true;
      return false;
    }
    page->object_bytes[page->count] = object_bytes;
    page->keys[page->count++] = text;
  }
  memcpy(page->after, key, bytes + 1);
  return true;
}

lake_status lki_page_read(lki_page *page, lake_store *store, const char *prefix, lki_page_fn *fn, void *ctx,
                          lake_deadline deadline, lake_error *err) {
  lake_env *env = page->arena.env;
  char after[LKI_KEY_BYTES_MAX + 1]; /* the store borrows it while page->after moves on */
  memcpy(after, page->after, sizeof after);
  lki_arena_free(&page->arena);
  lki_arena_init(&page->arena, env);
  page->count = 0;
  reading r = {page, fn, ctx, false, false};
  lake_status s = lki_store_list(store, prefix, after[0] != 0 ? after : NULL, take_key, &r, deadline, err);
  if (s == LAKE_OK && r.no_memory) s = lki_fail(err, LAKE_NOMEM, "out of memory while listing %s", prefix);
  if (s == LAKE_OK) page->last = !r.stopped;
  return s;
}
