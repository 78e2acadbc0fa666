/* Lines are small objects whose whole meaning is in the name, so that one LIST reads them all. Each declaration has a
 * name of its own: two reclaimers that declare the same step must not take back each other's line. Nothing here reads
 * a clock: a line that a crashed reclaimer left is void once the versions that it speaks of are there. */
#include "client/line.h"
#include "base/env.h"
#include "client/page.h"

lake_status lki_line_put(lake_namespace *ns, uint64_t step, uint64_t version_max, lake_deadline deadline,
                         lki_line *line, lake_error *err) {
  lki_line mine = {step, version_max, lki_random_u64(ns->env)};
  char name[LKI_NAME_BYTES];
  lki_name_line(name, &mine);
  static const char text[] = "reclaim is about to delete what lies below this step\n";
  lake_status s = lki_store_put(ns->store, name, (lake_bytes){text, sizeof text - 1}, deadline, err);
  if (s == LAKE_OK) *line = mine;
  return s;
}

lake_status lki_line_remove(lake_namespace *ns, const lki_line *line, lake_deadline deadline, lake_error *err) {
  char name[LKI_NAME_BYTES];
  lki_name_line(name, line);
  return lki_store_remove(ns->store, name, deadline, err);
}

typedef struct search {
  uint64_t step;
  bool found;
  lki_line line;
} search;

static bool take_above(void *ctx, const char *key, uint64_t object_bytes) {
  (void)object_bytes;
  search *f = ctx;
  lki_line line;
  if (!lki_name_line_parse(key, &line) || line.step <= f->step) return true;
  if (!f->found || line.version_max > f->line.version_max) f->line = line;
  f->found = true;
  return true;
}

lake_status lki_line_find_above(lake_namespace *ns, uint64_t step, lake_deadline deadline, bool *found,
                                lki_line *line, lake_error *err) {
  search f = {.step = step};
  lake_status s = lki_store_list(ns->store, LKI_NAME_LINE_PREFIX, NULL, take_above, &f, deadline, err);
  if (s != LAKE_OK) return s;
  *found = f.found;
  if (f.found) *line = f.line;
  return LAKE_OK;
}

static lki_page_verdict is_decided(void *ctx, const char *key, uint64_t object_bytes) {
  (void)object_bytes;
  const lki_manifest *manifest = ctx;
  lki_line line;
  if (!lki_name_line_parse(key, &line)) return LKI_PAGE_SKIP;
  return line.step <= manifest->first_live_step || line.version_max <= manifest->version ? LKI_PAGE_TAKE : LKI_PAGE_SKIP;
}

lake_status lki_line_remove_decided(lake_namespace *ns, const lki_manifest *manifest, lake_deadline deadline,
                                    lake_error *err) {
  lki_page *page = lki_new(ns->env, sizeof *page);
  if (page == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory while listing lines");
  lki_page_init(page, ns->env);
  lake_status s = LAKE_OK;
  while (s == LAKE_OK && !page->last) { /* each page goes on behind the one before */
    s = lki_page_read(page, ns->store, LKI_NAME_LINE_PREFIX, is_decided, (void *)manifest, deadline, err);
    /* Each of them is void by itself, so that any that a crash leaves is so for the next one too. */
    if (s == LAKE_OK) s = lki_store_remove_many(ns->store, page->keys, page->count, NULL, deadline, err);
  }
  lki_page_free(page);
  lki_free(ns->env, page);
  return s;
}
