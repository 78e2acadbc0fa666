/* Sweeping by listing: what a LIST shows is judged by its name alone, a page at a time, and the dead ones of a page go
 * as one batch. A name that is not Lakestream's is left alone.
 *
 * A batch has no order, and a crash may leave any part of it. What is swept does not mind:
 * - A TGB, a segment or an announcement is dead by what one committed manifest says of its name, whatever else is there:
 *   nobody who holds that manifest or a later one gets to it, whoever holds an earlier one takes any of them that is
 *   missing for reclaimed, and the next run judges those that stayed the same way.
 * - Versions go in whole blocks. The boundary is raised over each block of a page, in ascending order, before the first
 *   name of that page goes (I7). Wherever a version is missing, its own block and all below it are so under the boundary
 *   already: a reader that comes to the gap from below, or to a version between two gaps, looks at the mark of the block
 *   in which it stands and jumps; a writer that fills the gap looks there too. Which names of these blocks are still
 *   there tells nobody anything. */
#include "client/sweep.h"
#include "base/env.h"
#include "base/error.h"
#include "base/planted.h"
#include "client/page.h"
#include "format/names.h"
#include <string.h>

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

/* Deletes the page's objects. What went is told also when not all did: who calls again with the next deadline has to see
 * that this call got on. */
static lake_status sweep_page(const lki_sweep *sweep, const lki_page *page, tally deleted, lake_error *err) {
  bool gone[LKI_PAGE_KEY_COUNT];
  lake_status s = LAKE_OK;
  if (!sweep->dry_run)
    s = lki_store_remove_many(sweep->ns->store, page->keys, page->count, gone, sweep->deadline, err);
  for (uint32_t i = 0; i < page->count; i++) {
    if (!sweep->dry_run && !gone[i]) continue;
    ++*deleted.count;
    *deleted.bytes += page->object_bytes[i];
  }
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
    for (uint32_t i = 0; s == LAKE_OK && i < page->count && !sweep->dry_run && !LKI_PLANTED(RECLAIM_BEFORE_MARK); i++)
      s = raise_over(sweep, page->keys[i], &raised, err);
    if (s == LAKE_OK) s = sweep_page(sweep, page, deleted, err);
  }
  lki_page_free(page);
  lki_free(sweep->ns->env, page);
  return s;
}

/* ---- uploads in parts ---- */

#define UPLOAD_BATCH_COUNT 256u
#define UPLOAD_ROUND_COUNT 1000u

typedef struct dead_upload {
  const char *key, *upload_id;
} dead_upload;

/* What one listing has found, at most a batch of them; the texts are the arena's. */
typedef struct uploads {
  const lki_sweep *sweep;
  lki_arena arena;
  uint32_t count;
  dead_upload dead[UPLOAD_BATCH_COUNT];
  bool full, no_memory;
} uploads;

/* Of a key that could not be deleted itself nothing is touched: its upload may be on its way, even one that is live,
 * since a put may be sent again. */
static bool is_dead_key(const lki_sweep *sweep, const char *key) {
  char id[LKI_PRODUCER_ID_BYTES_MAX + 1];
  uint64_t epoch = 0, seq = 0;
  lki_segment_ref ref;
  if (lki_name_tgb_parse(key, id, &epoch, &seq)) return lki_live_tgb(sweep->live, id, epoch, seq) == LKI_FATE_DEAD;
  if (lki_name_segment_parse(key, &ref))
    return lki_live_segment(sweep->live, &ref, sweep->version + 1) == LKI_FATE_DEAD;
  return false;
}

static bool take_upload(void *ctx, const char *key, const char *upload_id) {
  uploads *u = ctx;
  if (!is_dead_key(u->sweep, key)) return true;
  if (u->sweep->dry_run) {
    u->sweep->report->upload_count++;
    return true;
  }
  u->full = u->count == UPLOAD_BATCH_COUNT;
  if (u->full) return false;
  dead_upload *d = &u->dead[u->count];
  d->key = lki_arena_strndup(&u->arena, key, strlen(key));
  d->upload_id = lki_arena_strndup(&u->arena, upload_id, strlen(upload_id));
  u->no_memory = d->key == NULL || d->upload_id == NULL;
  if (!u->no_memory) u->count++;
  return !u->no_memory;
}

static lake_status sweep_upload_batch(uploads *u, const char *prefix, lake_error *err) {
  const lki_sweep *sweep = u->sweep;
  u->count = 0;
  u->full = false;
  lki_arena_init(&u->arena, sweep->ns->env);
  lake_status s = lki_store_list_uploads(sweep->ns->store, prefix, take_upload, u, sweep->deadline, err);
  if (s == LAKE_OK && u->no_memory) s = lki_fail(err, LAKE_NOMEM, "out of memory while sweeping uploads of %s", prefix);
  for (uint32_t i = 0; i < u->count && s == LAKE_OK; i++) {
    s = lki_store_abort_upload(sweep->ns->store, u->dead[i].key, u->dead[i].upload_id, sweep->deadline, err);
    if (s == LAKE_OK) sweep->report->upload_count++;
  }
  lki_arena_free(&u->arena);
  return s;
}

/* A batch at a time, since what was given up is not in the next listing. Rights to list uploads are apart from those to
 * objects, and all else is done by now: a refusal is told in the report, and is not a failed reclaim. */
static lake_status sweep_uploads(const lki_sweep *sweep, const char *prefix, lake_error *err) {
  uploads *u = lki_new(sweep->ns->env, sizeof *u);
  if (u == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory while sweeping uploads of %s", prefix);
  u->sweep = sweep;
  lake_error e = LAKE_ERROR_INIT;
  lake_status s = LAKE_OK;
  for (uint32_t round = 0; round < UPLOAD_ROUND_COUNT && s == LAKE_OK && (round == 0 || u->full); round++)
    s = sweep_upload_batch(u, prefix, &e);
  lki_free(sweep->ns->env, u);
  if (s == LAKE_OK || s == LAKE_NOMEM || s == LAKE_TIMEOUT) {
    if (s != LAKE_OK) lki_error_copy(err, &e);
    return s;
  }
  lki_note(sweep->ns->env, LAKE_LOG_WARN, "reclaim: unfinished uploads stay until a later run: %s", e.text);
  if (sweep->report->upload_error.status == LAKE_OK) sweep->report->upload_error = e;
  return LAKE_OK;
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
  if (s == LAKE_OK) s = sweep_uploads(sweep, "data/", err);
  if (s == LAKE_OK) s = sweep_uploads(sweep, "segment/", err);
  return s;
}
