/* Sweeping by listing: what a LIST shows is judged by its name alone, a page at a time. A name that is not
 * Lakestream's is left alone. Versions go in whole blocks, whose boundary is raised before the first name goes, in
 * ascending order: whoever stands on a lower name can so tell by the next one's block (I7). */
#include "client/sweep.h"
#include "base/env.h"
#include "client/page.h"
#include "format/names.h"

typedef struct tally {
  uint64_t *count, *bytes;
} tally;

static lki_page_verdict by_fate(const lki_sweep *sweep, lki_fate fate, uint64_t object_bytes) {
  if (fate == LKI_FATE_IN_FLIGHT) {
    sweep->report->in_flight_count++;
    sweep->report->in_flight_bytes += object_bytes;
  }
  return fate == LKI_FATE_DEAD ? LKI_PAGE_TAKE : LKI_PAGE_SKIP;
}

static lki_page_verdict judge_tgb(void *ctx, const char *key, uint64_t object_bytes) {
  const lki_sweep *sweep = ctx;
  char id[LKI_PRODUCER_ID_BYTES_MAX + 1];
  uint64_t epoch = 0, seq = 0;
  if (!lki_name_tgb_parse(key, id, &epoch, &seq)) {
    sweep->report->unknown_count++;
    return LKI_PAGE_SKIP;
  }
  return by_fate(sweep, lki_live_tgb(sweep->live, id, epoch, seq), object_bytes);
}

static lki_page_verdict judge_segment(void *ctx, const char *key, uint64_t object_bytes) {
  const lki_sweep *sweep = ctx;
  lki_segment_ref ref;
  if (!lki_name_segment_parse(key, &ref)) {
    sweep->report->unknown_count++;
    return LKI_PAGE_SKIP;
  }
  return by_fate(sweep, lki_live_segment(sweep->live, &ref, sweep->version + 1), object_bytes);
}

/* An announcement has served once its TGB is committed, or can be no more. */
static lki_page_verdict judge_announcement(void *ctx, const char *key, uint64_t object_bytes) {
  (void)object_bytes;
  const lki_sweep *sweep = ctx;
  lki_announcement_key k;
  if (!lki_name_announcement_parse(key, &k)) {
    sweep->report->unknown_count++;
    return LKI_PAGE_SKIP;
  }
  const lki_fate fate = lki_live_tgb(sweep->live, k.producer_id, k.epoch, k.seq);
  return fate == LKI_FATE_IN_FLIGHT ? LKI_PAGE_SKIP : LKI_PAGE_TAKE;
}

/* A whole block stays behind the newest version's own, so that a reader that is a little late still finds its way
 * without a jump. */
static lki_page_verdict judge_manifest(void *ctx, const char *key, uint64_t object_bytes) {
  (void)object_bytes;
  const lki_sweep *sweep = ctx;
  const uint64_t block_versions = sweep->ns->schema->version_block;
  uint64_t version = 0;
  if (!lki_name_manifest_parse(key, &version)) return LKI_PAGE_SKIP; /* the hint */
  return version / block_versions + 2 <= sweep->version / block_versions ? LKI_PAGE_TAKE : LKI_PAGE_STOP;
}

/* Raises the boundary over the block of a manifest's key, unless this sweep did so last. */
static lake_status raise_over(const lki_sweep *sweep, const char *key, uint64_t *raised, lake_error *err) {
  uint64_t version = 0;
  if (!lki_name_manifest_parse(key, &version)) return LAKE_OK;
  const uint64_t block = version / sweep->ns->schema->version_block;
  if (block == *raised) return LAKE_OK;
  lake_status s = lki_log_raise(sweep->ns->log, block, sweep->deadline, err);
  if (s == LAKE_OK) *raised = block;
  return s;
}

static lake_status sweep_prefix(const lki_sweep *sweep, const char *prefix, lki_page_fn *judge, tally deleted,
                                lake_error *err) {
  lki_page *page = lki_new(sweep->ns->env, sizeof *page);
  if (page == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory while sweeping %s", prefix);
  lki_page_init(page, sweep->ns->env);
  uint64_t raised = UINT64_MAX;
  lake_status s = LAKE_OK;
  while (s == LAKE_OK && !page->last) { /* each page goes on behind the one before */
    s = lki_page_read(page, sweep->ns->store, prefix, judge, (void *)sweep, sweep->deadline, err);
    for (uint32_t i = 0; s == LAKE_OK && i < page->count; i++) {
      const lki_page_key *key = &page->keys[i];
      if (!sweep->dry_run) {
        s = raise_over(sweep, key->text, &raised, err);
        if (s == LAKE_OK) s = lki_store_remove(sweep->ns->store, key->text, sweep->deadline, err);
      }
      if (s != LAKE_OK) break;
      ++*deleted.count;
      *deleted.bytes += key->object_bytes;
    }
  }
  lki_page_free(page);
  lki_free(sweep->ns->env, page);
  return s;
}

lake_status lki_sweep_run(const lki_sweep *sweep, lake_error *err) {
  lake_reclaim_report *r = sweep->report;
  lake_status s = sweep_prefix(sweep, "data/", judge_tgb, (tally){&r->tgb_count, &r->tgb_bytes}, err);
  if (s == LAKE_OK)
    s = sweep_prefix(sweep, "segment/", judge_segment, (tally){&r->segment_count, &r->segment_bytes}, err);
  if (s == LAKE_OK)
    s = sweep_prefix(sweep, LKI_NAME_ANNOUNCE_PREFIX, judge_announcement,
                     (tally){&r->announcement_count, &r->announcement_bytes}, err);
  if (s == LAKE_OK)
    s = sweep_prefix(sweep, LKI_NAME_MANIFEST_PREFIX, judge_manifest, (tally){&r->manifest_count, &r->manifest_bytes},
                     err);
  return s;
}
