/* The manifest as a value: life, lookups, and the checks that every manifest and every pair of successive manifests
 * must pass. Pure. A snapshot is immutable once it is shared; the reference count is atomic. */
#include "model/manifest.h"
#include "base/env.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

lki_manifest *lki_manifest_new(lake_env *env) {
  lki_manifest *manifest = lki_new(env, sizeof *manifest);
  if (manifest == NULL) return NULL;
  atomic_init(&manifest->refs, 1);
  lki_arena_init(&manifest->arena, env);
  manifest->writer = "";
  return manifest;
}

lki_manifest *lki_manifest_retain(lki_manifest *manifest) {
  atomic_fetch_add_explicit(&manifest->refs, 1, memory_order_relaxed);
  return manifest;
}

void lki_manifest_release(lki_manifest *manifest) {
  if (manifest == NULL || atomic_fetch_sub_explicit(&manifest->refs, 1, memory_order_acq_rel) != 1) return;
  lake_env *env = manifest->arena.env;
  lki_arena_free(&manifest->arena);
  lki_free(env, manifest);
}

lki_segment *lki_segment_new(lake_env *env) {
  lki_segment *segment = lki_new(env, sizeof *segment);
  if (segment == NULL) return NULL;
  atomic_init(&segment->refs, 1);
  lki_arena_init(&segment->arena, env);
  return segment;
}

lki_segment *lki_segment_retain(lki_segment *segment) {
  atomic_fetch_add_explicit(&segment->refs, 1, memory_order_relaxed);
  return segment;
}

void lki_segment_release(lki_segment *segment) {
  if (segment == NULL || atomic_fetch_sub_explicit(&segment->refs, 1, memory_order_acq_rel) != 1) return;
  lake_env *env = segment->arena.env;
  lki_arena_free(&segment->arena);
  lki_free(env, segment);
}

int64_t lki_manifest_find_producer(const lki_manifest *manifest, const char *id) {
  for (uint32_t i = 0; i < manifest->producer_count; i++)
    if (strcmp(manifest->producers[i].id, id) == 0) return (int64_t)i;
  return -1;
}

const lki_segment_ref *lki_segment_ref_find(const lki_segment_ref *refs, uint32_t count, uint64_t step) {
  uint32_t low = 0, high = count; /* the first ref that ends after step lies in [low, high] */
  while (low < high) {
    uint32_t mid = low + (high - low) / 2;
    if (refs[mid].first_step + refs[mid].step_count <= step)
      low = mid + 1;
    else
      high = mid;
  }
  return low < count && refs[low].first_step <= step ? &refs[low] : NULL;
}

static lake_status check_descriptors(const lki_descriptor *descriptors, uint32_t count, uint32_t producer_count,
                                     lake_error *err) {
  if (count > LKI_DESCRIPTOR_COUNT_MAX) return lki_fail(err, LAKE_CORRUPT, "%u descriptors in one run", count);
  for (uint32_t i = 0; i < count; i++) {
    const lki_descriptor *d = &descriptors[i];
    const char *fault = NULL;
    if (d->producer >= producer_count)
      fault = "names a producer that is not in the table";
    else if (d->slice_count == 0 || d->slice_count > LKI_SLICE_COUNT_MAX)
      fault = "has an impossible slice count";
    else if (d->object_bytes == 0 || d->footer_bytes == 0 || d->footer_bytes >= d->object_bytes)
      fault = "has impossible lengths";
    else if (d->layout != LKI_LAYOUT_UNIFORM && d->layout != LKI_LAYOUT_PACKED && d->layout != LKI_LAYOUT_FOOTER)
      fault = "has an unknown layout";
    else if (d->layout == LKI_LAYOUT_UNIFORM && (d->frame_bytes == 0 || d->frame_bytes >= d->object_bytes))
      fault = "has an impossible frame length";
    else if (d->epoch == 0)
      fault = "has no epoch";
    if (fault != NULL) return lki_fail(err, LAKE_CORRUPT, "descriptor %u %s", i, fault);
  }
  return LAKE_OK;
}

/* Refs run without a gap from the first one's beginning; *end is where they stop. */
static lake_status check_refs(const lki_segment_ref *refs, uint32_t count, uint64_t *end, lake_error *err) {
  if (count > LKI_SEGMENT_REF_COUNT_MAX) return lki_fail(err, LAKE_CORRUPT, "%u segment references", count);
  for (uint32_t i = 0; i < count; i++) {
    const lki_segment_ref *r = &refs[i];
    if (r->step_count == 0 || r->level > LKI_SEGMENT_LEVEL_MAX || r->object_bytes == 0 ||
        r->step_count > UINT64_MAX - r->first_step)
      return lki_fail(err, LAKE_CORRUPT, "segment reference %u is impossible", i);
    if (i > 0 && r->first_step != *end)
      return lki_fail(err, LAKE_CORRUPT, "segment reference %u begins at step %" PRIu64 ", not %" PRIu64, i,
                      r->first_step, *end);
    *end = r->first_step + r->step_count;
  }
  return LAKE_OK;
}

/* The newest descriptor of each producer in the tail must be the one that its entry counts last: seq, and so the
 * whole run before it, ties the map to the order (I4). */
static lake_status check_tail_against_map(const lki_manifest *m, lake_error *err) {
  lake_status s = LAKE_OK;
  lake_env *env = m->arena.env;
  uint64_t *expected = lki_alloc(env, sizeof *expected * (m->producer_count + 1u));
  if (expected == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory while checking a manifest");
  for (uint32_t i = 0; i < m->producer_count; i++) expected[i] = m->producers[i].next_seq;
  for (uint32_t i = m->tail_count; i-- > 0;) {
    const lki_descriptor *d = &m->tail[i];
    const lki_producer_entry *p = &m->producers[d->producer];
    if (expected[d->producer] == 0 || d->seq != expected[d->producer] - 1 || d->epoch > p->epoch) {
      s = lki_fail(err, LAKE_CORRUPT,
                   "step %" PRIu64 " is seq %" PRIu64 " epoch %" PRIu64
                   " of producer %s, whose map entry calls for seq %" PRIu64 " - 1 and epoch at most %" PRIu64,
                   m->tail_first_step + i, d->seq, d->epoch, p->id, expected[d->producer], p->epoch);
      break;
    }
    expected[d->producer]--;
  }
  lki_free(env, expected);
  return s;
}

static int by_id(const void *a, const void *b) {
  return strcmp((*(const lki_producer_entry *const *)a)->id, (*(const lki_producer_entry *const *)b)->id);
}

/* No id stands in the map twice: else one producer could be two. */
static lake_status check_ids(const lki_manifest *m, lake_error *err) {
  lake_status s = LAKE_OK;
  lake_env *env = m->arena.env;
  const lki_producer_entry **sorted = lki_alloc(env, sizeof *sorted * (m->producer_count + 1u));
  if (sorted == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory while checking a manifest");
  for (uint32_t i = 0; i < m->producer_count; i++) sorted[i] = &m->producers[i];
  if (m->producer_count > 1) qsort(sorted, m->producer_count, sizeof *sorted, by_id);
  for (uint32_t i = 1; i < m->producer_count && s == LAKE_OK; i++)
    if (strcmp(sorted[i - 1]->id, sorted[i]->id) == 0)
      s = lki_fail(err, LAKE_CORRUPT, "producer %s stands in the map twice", sorted[i]->id);
  lki_free(env, sorted);
  return s;
}

static lake_status check_producers(const lki_manifest *m, lake_error *err) {
  if (m->producer_count > LKI_PRODUCER_COUNT_MAX)
    return lki_fail(err, LAKE_CORRUPT, "%u producers in the map", m->producer_count);
  for (uint32_t i = 0; i < m->producer_count; i++) {
    const lki_producer_entry *p = &m->producers[i];
    if (p->id == NULL || p->id[0] == 0 || strlen(p->id) > LKI_PRODUCER_ID_BYTES_MAX ||
        p->state.bytes > LKI_STATE_BYTES_MAX || p->epoch == 0 || p->last_version > m->version)
      return lki_fail(err, LAKE_CORRUPT, "producer entry %u is impossible", i);
  }
  return LAKE_OK;
}

lake_status lki_manifest_check(const lki_manifest *m, lake_error *err) {
  uint64_t end = m->tail_first_step;
  lake_status s = check_producers(m, err);
  if (s == LAKE_OK) s = check_refs(m->segments, m->segment_count, &end, err);
  if (s == LAKE_OK) s = check_descriptors(m->tail, m->tail_count, m->producer_count, err);
  if (s != LAKE_OK) return s;
  if (end != m->tail_first_step)
    return lki_fail(err, LAKE_CORRUPT, "segments end at step %" PRIu64 ", the tail begins at %" PRIu64, end,
                    m->tail_first_step);
  if (m->tail_count > UINT64_MAX - m->tail_first_step || m->tail_first_step + m->tail_count != m->next_step)
    return lki_fail(err, LAKE_CORRUPT, "the tail ends at step %" PRIu64 ", the manifest says %" PRIu64,
                    m->tail_first_step + m->tail_count, m->next_step);
  uint64_t first = m->segment_count > 0 ? m->segments[0].first_step : m->tail_first_step;
  if (m->first_live_step > m->next_step || first > m->first_live_step)
    return lki_fail(err, LAKE_CORRUPT, "first live step %" PRIu64 " lies outside [%" PRIu64 ", %" PRIu64 "]",
                    m->first_live_step, first, m->next_step);
  for (uint32_t i = 0; i < m->quarantine_count; i++)
    if (m->quarantine[i] >= m->next_step || (i > 0 && m->quarantine[i] <= m->quarantine[i - 1]))
      return lki_fail(err, LAKE_CORRUPT, "quarantined step %" PRIu64 " is out of order", m->quarantine[i]);
  s = check_ids(m, err);
  return s == LAKE_OK ? check_tail_against_map(m, err) : s;
}

lake_status lki_segment_check(const lki_segment *segment, lake_error *err) {
  if (segment->level > LKI_SEGMENT_LEVEL_MAX || segment->step_count == 0)
    return lki_fail(err, LAKE_CORRUPT, "segment of level %u with %" PRIu64 " steps", segment->level,
                    segment->step_count);
  if (segment->level == 0) {
    if (segment->child_count != 0 || segment->descriptor_count != segment->step_count)
      return lki_fail(err, LAKE_CORRUPT, "segment holds %u descriptors for %" PRIu64 " steps",
                      segment->descriptor_count, segment->step_count);
    return check_descriptors(segment->descriptors, segment->descriptor_count, segment->producer_count, err);
  }
  uint64_t end = 0;
  lake_status s = check_refs(segment->children, segment->child_count, &end, err);
  if (s != LAKE_OK) return s;
  if (segment->descriptor_count != 0 || segment->child_count == 0 ||
      segment->children[0].first_step != segment->first_step || end != segment->first_step + segment->step_count)
    return lki_fail(err, LAKE_CORRUPT, "the children of a segment do not cover its steps");
  for (uint32_t i = 0; i < segment->child_count; i++)
    if (segment->children[i].level >= segment->level)
      return lki_fail(err, LAKE_CORRUPT, "a level %u segment refers to one of level %u", segment->level,
                      segment->children[i].level);
  return LAKE_OK;
}

static bool same_tgb(const lki_descriptor *a, const lki_descriptor *b) {
  return a->producer == b->producer && a->epoch == b->epoch && a->seq == b->seq &&
         a->object_bytes == b->object_bytes && a->slice_count == b->slice_count;
}

/* What was committed stays as it was: compared where both inline tails hold it. */
static lake_status check_order_kept(const lki_manifest *base, const lki_manifest *next, lake_error *err) {
  if (next->next_step < base->next_step || next->tail_first_step < base->tail_first_step)
    return lki_fail(err, LAKE_CORRUPT, "the order shrank from %" PRIu64 " to %" PRIu64 " steps", base->next_step,
                    next->next_step);
  for (uint64_t step = next->tail_first_step; step < base->next_step; step++)
    if (!same_tgb(&base->tail[step - base->tail_first_step], &next->tail[step - next->tail_first_step]))
      return lki_fail(err, LAKE_CORRUPT, "step %" PRIu64 " changed", step);
  return LAKE_OK;
}

/* How many descriptors of `next` at or after base's end belong to producer i, and that their seqs run on from where
 * the base stood, in the entry's epoch. */
static lake_status count_new(const lki_manifest *base, const lki_manifest *next, uint32_t i, uint64_t *count,
                             lake_error *err) {
  uint64_t seq = i < base->producer_count ? base->producers[i].next_seq : 0;
  const uint64_t first = seq;
  for (uint64_t step = base->next_step; step < next->next_step; step++) {
    if (step < next->tail_first_step)
      return lki_fail(err, LAKE_CORRUPT, "new step %" PRIu64 " was sealed in the commit that added it", step);
    const lki_descriptor *d = &next->tail[step - next->tail_first_step];
    if (d->producer != i) continue;
    if (d->seq != seq || d->epoch != next->producers[i].epoch)
      return lki_fail(err, LAKE_CORRUPT, "producer %s: seq %" PRIu64 " follows %" PRIu64, next->producers[i].id,
                      d->seq, seq);
    seq++;
  }
  *count = seq - first;
  return LAKE_OK;
}

static lake_status check_map_moved_on(const lki_manifest *base, const lki_manifest *next, lake_error *err) {
  if (next->producer_count < base->producer_count)
    return lki_fail(err, LAKE_CORRUPT, "the producer map shrank from %u to %u", base->producer_count,
                    next->producer_count);
  for (uint32_t i = 0; i < next->producer_count; i++) {
    static const lki_producer_entry nobody = {.id = NULL};
    const lki_producer_entry *old = i < base->producer_count ? &base->producers[i] : &nobody;
    const lki_producer_entry *new = &next->producers[i];
    uint64_t added = 0;
    lake_status s = count_new(base, next, i, &added, err);
    if (s != LAKE_OK) return s;
    if (old->id != NULL && strcmp(old->id, new->id) != 0)
      return lki_fail(err, LAKE_CORRUPT, "producer entry %u changed its id from %s to %s", i, old->id, new->id);
    if (new->next_seq != old->next_seq + added)
      return lki_fail(err, LAKE_CORRUPT, "producer %s: %" PRIu64 " new TGBs but its seq went from %" PRIu64
                      " to %" PRIu64, new->id, added, old->next_seq, new->next_seq);
    if (new->epoch < old->epoch || new->epoch > old->epoch + 1 || new->offset < old->offset)
      return lki_fail(err, LAKE_CORRUPT, "producer %s: epoch or offset moved back", new->id);
    if (added == 0 && new->offset != old->offset)
      return lki_fail(err, LAKE_CORRUPT, "producer %s: offset moved without a TGB", new->id);
    if (added == 0 && (new->state.bytes != old->state.bytes ||
                       (new->state.bytes > 0 && memcmp(new->state.data, old->state.data, new->state.bytes) != 0)))
      return lki_fail(err, LAKE_CORRUPT, "producer %s: state moved without a TGB", new->id);
  }
  return LAKE_OK;
}

lake_status lki_manifest_check_successor(const lki_manifest *base, const lki_manifest *next, lake_error *err) {
  if (next->version != base->version + 1)
    return lki_fail(err, LAKE_CORRUPT, "version %" PRIu64 " follows %" PRIu64, next->version, base->version);
  if (!lki_id_equal(next->previous, base->attempt) ||
      (base->version > 0 && !lki_id_equal(next->namespace_id, base->namespace_id)))
    return lki_fail(err, LAKE_CORRUPT, "version %" PRIu64 " does not build on the version %" PRIu64 " read here",
                    next->version, base->version);
  if (base->sealed && (!next->sealed || next->next_step != base->next_step))
    return lki_fail(err, LAKE_CORRUPT, "version %" PRIu64 " goes on after the stream was sealed", next->version);
  if (next->first_live_step < base->first_live_step)
    return lki_fail(err, LAKE_CORRUPT, "first live step moved back");
  lake_status s = check_order_kept(base, next, err);
  return s == LAKE_OK ? check_map_moved_on(base, next, err) : s;
}
