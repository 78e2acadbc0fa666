/* Sealing: full runs of committed descriptors leave the inline tail for a segment, and once a manifest refers to more
 * than LKI_SEGMENT_FANOUT segments they all go under one root segment, whose children are folded by level like the
 * digits of a number. So a manifest's size does not depend on the history at all, a root's only on its logarithm, and
 * any step is found by reading one segment a level. Only what the base has already committed is sealed, and a
 * segment's name is made of its content, so two writers that seal the same run write the same object, and a rebase
 * finds the work done. */
#include "base/checksum.h"
#include "base/planted.h"
#include "format/names.h"
#include "log/state.h"
#include "store/checked.h"
#include <inttypes.h>
#include <string.h>

#define RUN_COUNT_MAX 16u /* segments of level 0 that one attempt writes */

static bool find_sealed(lki_log *log, const lki_segment *segment, uint64_t version, lki_segment_ref *ref) {
  bool found = false;
  lki_lock(log->env, log->synced.lock);
  uint32_t held = log->synced.sealed_count < LKI_SEALED_CACHE_COUNT ? log->synced.sealed_count
                                                                     : LKI_SEALED_CACHE_COUNT;
  for (uint32_t i = 0; i < held && !found; i++) {
    const lki_segment_ref *r = &log->synced.sealed[i];
    if (r->level == segment->level && r->first_step == segment->first_step && r->step_count == segment->step_count &&
        r->version == version) {
      *ref = *r;
      found = true;
    }
  }
  lki_unlock(log->env, log->synced.lock);
  return found;
}

static void remember_sealed(lki_log *log, const lki_segment_ref *ref) {
  lki_lock(log->env, log->synced.lock);
  log->synced.sealed[log->synced.sealed_count++ % LKI_SEALED_CACHE_COUNT] = *ref;
  lki_unlock(log->env, log->synced.lock);
}

/* Writes a segment that was sealed from `version`, unless this log has done so before; its ref is complete on return. */
static lake_status write_segment(lki_log *log, const lki_segment *segment, uint64_t version, lake_deadline deadline,
                                 lki_segment_ref *ref, lake_error *err) {
  if (find_sealed(log, segment, version, ref)) return LAKE_OK;
  lake_buffer bytes;
  lki_buffer_init(&bytes, log->env, LKI_SEGMENT_BYTES_MAX);
  lake_status s = lki_segment_encode(log->env, segment, &bytes, err);
  if (s == LAKE_OK) {
    ref->level = segment->level;
    ref->first_step = segment->first_step;
    ref->step_count = segment->step_count;
    ref->object_bytes = (uint32_t)bytes.bytes;
    ref->version = version;
    ref->checksum = lki_checksum(bytes.data, bytes.bytes, 0);
    char name[LKI_NAME_BYTES];
    lki_name_segment(name, ref);
    if (LKI_PLANTED(SEGMENT_NOT_DURABLE)) remember_sealed(log, ref);
    s = lki_store_put(log->store, name, lki_buffer_view(&bytes), deadline, err);
  }
  lki_buffer_free(&bytes);
  if (s == LAKE_OK) remember_sealed(log, ref);
  return s;
}

/* The dictionary: ids in order of first appearance, so that equal runs give equal bytes. */
static bool build_dictionary(lki_segment *segment, const lki_manifest *base) {
  uint32_t *index_of = lki_arena_alloc(&segment->arena, sizeof *index_of * (base->producer_count + 1u));
  segment->producer_ids = lki_arena_alloc(&segment->arena, sizeof *segment->producer_ids * segment->descriptor_count);
  if (index_of == NULL || segment->producer_ids == NULL) return false;
  for (uint32_t i = 0; i < segment->descriptor_count; i++) {
    lki_descriptor *d = &segment->descriptors[i];
    if (index_of[d->producer] == 0) {
      segment->producer_ids[segment->producer_count] = base->producers[d->producer].id;
      index_of[d->producer] = ++segment->producer_count;
    }
    d->producer = LKI_PLANTED(SEGMENT_ID_MIXED) ? segment->producer_count - 1 : index_of[d->producer] - 1;
  }
  return true;
}

static lake_status seal_tail(lki_log *log, const lki_manifest *base, uint32_t at, uint32_t count,
                             lake_deadline deadline, lki_segment_ref *ref, lake_error *err) {
  lake_status s = LAKE_NOMEM;
  lki_segment *segment = lki_segment_new(log->env);
  if (segment == NULL) goto done;
  segment->namespace_id = log->schema->namespace_id;
  segment->first_step = base->tail_first_step + at;
  segment->step_count = segment->descriptor_count = count;
  segment->descriptors = lki_arena_copy(&segment->arena, &base->tail[at + LKI_PLANTED(SEAL_SHIFTED)],
                                        sizeof *base->tail * count);
  if (segment->descriptors == NULL || !build_dictionary(segment, base)) goto done;
  s = write_segment(log, segment, base->version, deadline, ref, err);
done:
  if (s == LAKE_NOMEM) s = lki_fail(err, LAKE_NOMEM, "out of memory while sealing a segment");
  lki_segment_release(segment);
  return s;
}

/* A segment of refs over `refs`, one level above the highest of them. */
static lake_status write_parent(lki_log *log, const lki_segment_ref *refs, uint32_t count, uint64_t version,
                                lake_deadline deadline, lki_segment_ref *ref, lki_segment **parent, lake_error *err) {
  lki_segment *segment = lki_segment_new(log->env);
  if (segment == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory while folding segments");
  segment->namespace_id = log->schema->namespace_id;
  for (uint32_t i = 0; i < count; i++)
    if (refs[i].level >= segment->level) segment->level = refs[i].level + 1;
  segment->first_step = refs[0].first_step;
  segment->step_count = refs[count - 1].first_step + refs[count - 1].step_count - refs[0].first_step;
  segment->child_count = count;
  segment->children = lki_arena_copy(&segment->arena, refs, sizeof *refs * count);
  lake_status s = LAKE_OK;
  if (segment->children == NULL)
    s = lki_fail(err, LAKE_NOMEM, "out of memory while folding segments");
  else
    s = write_segment(log, segment, version, deadline, ref, err);
  if (s == LAKE_OK && parent != NULL)
    *parent = segment;
  else
    lki_segment_release(segment);
  return s;
}

/* Keeps a root for the next seal; takes the reference. */
static void keep_root(lki_log *log, const lki_segment_ref *ref, lki_segment *root) {
  lki_lock(log->env, log->synced.lock);
  lki_segment *old = log->synced.root;
  log->synced.root = root;
  log->synced.root_ref = *ref;
  lki_unlock(log->env, log->synced.lock);
  lki_segment_release(old);
}

static lake_status load_root(lki_log *log, const lki_segment_ref *ref, lake_deadline deadline, lki_segment **out,
                             lake_error *err) {
  lki_segment *root = NULL;
  lki_lock(log->env, log->synced.lock);
  const lki_segment_ref *have = &log->synced.root_ref;
  if (log->synced.root != NULL && have->checksum == ref->checksum && have->first_step == ref->first_step &&
      have->step_count == ref->step_count)
    root = lki_segment_retain(log->synced.root);
  lki_unlock(log->env, log->synced.lock);
  if (root == NULL) {
    lake_status s = lki_log_load_segment(log, ref, deadline, &root, err);
    if (s != LAKE_OK) return s;
    keep_root(log, ref, lki_segment_retain(root));
  }
  *out = root;
  return LAKE_OK;
}

/* How many of the refs, which are in step order, lie wholly below the first live step. */
static uint32_t count_dead(const lki_segment_ref *refs, uint32_t count, uint64_t first_live_step) {
  uint32_t dead = 0;
  while (dead < count && refs[dead].first_step + refs[dead].step_count <= first_live_step) dead++;
  return dead;
}

/* Puts all refs under one root: the live children of the old root, if there is one, and the others, folded by level.
 * Every ref holds a live step, so the old root has a live child. */
static lake_status reroot(lki_log *log, lki_arena *arena, const lki_segment_ref *refs, uint32_t count,
                          const lki_manifest *base, lake_deadline deadline, lki_segment_ref *root_ref,
                          lake_error *err) {
  const uint64_t version = base->version;
  lki_segment *root = NULL;
  lake_status s = refs[0].level > 0 ? load_root(log, &refs[0], deadline, &root, err) : LAKE_OK;
  if (s != LAKE_OK) return s;
  const uint32_t dead = root != NULL ? count_dead(root->children, root->child_count, base->first_live_step) : 0;
  uint32_t inherited = root != NULL ? root->child_count - dead : 0, n = inherited, skip = root != NULL ? 1 : 0;
  lki_segment_ref *children = lki_arena_alloc(arena, sizeof *children * (inherited + count));
  if (children == NULL) s = lki_fail(err, LAKE_NOMEM, "out of memory while folding segments");
  if (s == LAKE_OK && inherited > 0) memcpy(children, root->children + dead, sizeof *children * inherited);
  for (uint32_t i = skip; s == LAKE_OK && i < count; i++) children[n++] = refs[i];
  while (s == LAKE_OK) { /* each fold removes refs, so this ends */
    uint32_t first = 0, fold_count = 0;
    lki_segments_foldable(children, n, &first, &fold_count);
    if (fold_count == 0) break;
    lki_segment_ref parent;
    s = write_parent(log, &children[first], fold_count, version, deadline, &parent, NULL, err);
    if (s != LAKE_OK) break;
    children[first] = parent;
    memmove(&children[first + 1], &children[first + fold_count], sizeof *children * (n - first - fold_count));
    n -= fold_count - 1;
  }
  if (LKI_PLANTED(ROOT_FORGETS_CHILD)) n--;
  lki_segment *fresh = NULL;
  if (s == LAKE_OK) s = write_parent(log, children, n, version, deadline, root_ref, &fresh, err);
  if (s == LAKE_OK) keep_root(log, root_ref, fresh);
  lki_segment_release(root);
  return s;
}

lake_status lki_log_seal_runs(lki_log *log, const lki_manifest *base, lki_arena *arena, lake_deadline deadline,
                              lki_sealing *sealing, lake_error *err) {
  uint32_t run = log->schema->tail_max;
  /* One run stays inline, so that readers near the end need no segment. A tail that one large commit made far too long
   * goes into fewer and longer runs, so that an attempt never has more than RUN_COUNT_MAX segments to write. */
  uint32_t run_count = base->tail_count >= 2 * run ? base->tail_count / run - 1 : 0;
  if (run_count > RUN_COUNT_MAX) {
    run *= (run_count + RUN_COUNT_MAX - 1) / RUN_COUNT_MAX;
    run_count = (base->tail_count - log->schema->tail_max) / run;
  }
  const uint64_t first_live_step = base->first_live_step;
  const uint32_t dead = count_dead(base->segments, base->segment_count, first_live_step);
  uint32_t count = base->segment_count - dead;
  lki_segment_ref *refs = lki_arena_alloc(arena, sizeof *refs * (count + run_count + 1u));
  if (refs == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory while sealing");
  if (count > 0) memcpy(refs, base->segments + dead, sizeof *refs * count);
  for (uint32_t i = 0; i < run_count; i++) {
    /* A run that was trimmed needs no segment; whatever lies before it is dead too, and gone from refs. */
    if (base->tail_first_step + (i + 1) * (uint64_t)run <= first_live_step) continue;
    lake_status s = seal_tail(log, base, i * run, run, deadline, &refs[count], err);
    if (s != LAKE_OK) return s;
    count++;
  }
  if (count > LKI_SEGMENT_FANOUT) {
    lki_segment_ref root_ref;
    lake_status s = reroot(log, arena, refs, count, base, deadline, &root_ref, err);
    if (s != LAKE_OK) return s;
    refs[0] = root_ref;
    count = 1;
  }
  sealing->tail_drop = run_count * run + (LKI_PLANTED(SEAL_DROPS_ONE) && run_count > 0);
  sealing->segment_count = count;
  sealing->segments = refs;
  return LAKE_OK;
}

typedef struct segment_check {
  lki_log *log;
  const lki_segment_ref *ref;
  const char *name;
  lki_segment *segment;
} segment_check;

static lake_status check_segment(void *ctx, lake_bytes bytes, const lake_object_info *info, lake_error *err) {
  (void)info;
  segment_check *c = ctx;
  const lki_segment_ref *ref = c->ref;
  if (bytes.bytes != ref->object_bytes || lki_checksum(bytes.data, bytes.bytes, 0) != ref->checksum)
    return lki_fail(err, LAKE_CORRUPT, "it is not the segment that the manifest refers to");
  lki_segment *segment = NULL;
  lake_status s = lki_segment_decode(c->log->env, bytes, &c->log->schema->namespace_id, c->name, &segment, err);
  if (s != LAKE_OK) return s;
  if (segment->level != ref->level || segment->first_step != ref->first_step ||
      segment->step_count != ref->step_count) {
    lki_segment_release(segment);
    return lki_fail(err, LAKE_CORRUPT, "it does not cover the steps that the manifest says");
  }
  c->segment = segment;
  return LAKE_OK;
}

lake_status lki_log_load_segment(lki_log *log, const lki_segment_ref *ref, lake_deadline deadline, lki_segment **out,
                                 lake_error *err) {
  char name[LKI_NAME_BYTES];
  lki_name_segment(name, ref);
  lake_buffer bytes;
  lki_buffer_init(&bytes, log->env, LKI_SEGMENT_BYTES_MAX);
  segment_check check = {log, ref, name, NULL};
  lake_status s =
      lki_store_get_checked(log->store, name, lki_range_whole(), &bytes, check_segment, &check, deadline, err);
  lki_buffer_free(&bytes);
  if (s == LAKE_NOTFOUND)
    s = lki_fail(err, LAKE_CORRUPT, "%s is missing though a manifest refers to it; restore the object", name);
  if (s == LAKE_OK) *out = check.segment;
  return s;
}
