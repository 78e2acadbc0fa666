/* A producer's committed seqs are dense and in step order (I4), so those of its live steps are one range, cut only
 * where its epoch changed: a run for each epoch says it all, however many steps live. The walk reads each live segment
 * once and holds a path of them at a time. */
#include "client/live.h"
#include "base/buffer.h"
#include "base/env.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX (LKI_SEGMENT_LEVEL_MAX + 2)
#define NO_RUN UINT32_MAX

/* Live TGBs of one producer in one epoch: seqs first_seq .. end_seq - 1. */
typedef struct run {
  uint64_t epoch, first_seq, end_seq;
  uint32_t older; /* the producer's run before this, or NO_RUN */
} run;

typedef struct producer {
  const char *id;
  uint32_t index;  /* in the manifest */
  uint32_t newest; /* run, or NO_RUN */
} producer;

struct lki_live {
  lake_env *env;
  lki_manifest *manifest;
  uint64_t first_live_step;
  lki_arena arena;
  uint32_t producer_count;
  producer *producers; /* by id */
  uint32_t run_count, run_capacity;
  run *runs;
  uint32_t ref_count, ref_capacity;
  lki_segment_ref *refs; /* of live segments, sorted once all are found */
};

static lake_status no_memory(lake_error *err) {
  return lki_fail(err, LAKE_NOMEM, "out of memory while looking for what lives");
}

static int by_id(const void *a, const void *b) {
  return strcmp(((const producer *)a)->id, ((const producer *)b)->id);
}

static int compare(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int by_name(const void *a, const void *b) {
  const lki_segment_ref *x = a, *y = b;
  if (x->level != y->level) return compare(x->level, y->level);
  if (x->first_step != y->first_step) return compare(x->first_step, y->first_step);
  if (x->version != y->version) return compare(x->version, y->version);
  return compare(x->checksum, y->checksum);
}

static producer *find_producer(const lki_live *live, const char *id) {
  const producer key = {.id = id};
  return bsearch(&key, live->producers, live->producer_count, sizeof key, by_id);
}

/* Room for one more element; the old array stays in the arena, which bounds the waste to as much again. */
static void *grown(lki_live *live, void *array, uint32_t count, uint32_t *capacity, size_t element_bytes) {
  if (count < *capacity) return array;
  const uint32_t more = *capacity > 0 ? *capacity * 2 : 64;
  void *fresh = lki_arena_alloc(&live->arena, element_bytes * more);
  if (fresh == NULL) return NULL;
  if (count > 0) memcpy(fresh, array, element_bytes * count);
  *capacity = more;
  return fresh;
}

static lake_status add_tgb(lki_live *live, producer *p, const lki_descriptor *d, lake_error *err) {
  if (p->newest != NO_RUN) {
    run *r = &live->runs[p->newest];
    if (d->seq != r->end_seq || d->epoch < r->epoch)
      return lki_fail(err, LAKE_CORRUPT, "producer %s: seq %" PRIu64 " follows seq %" PRIu64 " in the order; run lake verify",
                      p->id, d->seq, r->end_seq - 1);
    if (d->epoch == r->epoch) {
      r->end_seq++;
      return LAKE_OK;
    }
  }
  run *runs = grown(live, live->runs, live->run_count, &live->run_capacity, sizeof *runs);
  if (runs == NULL) return no_memory(err);
  live->runs = runs;
  live->runs[live->run_count] = (run){d->epoch, d->seq, d->seq + 1, p->newest};
  p->newest = live->run_count++;
  return LAKE_OK;
}

/* The live part of a run of descriptors that begins at first_step. ids: the segment's table, or NULL for the manifest. */
static lake_status add_descriptors(lki_live *live, const lki_descriptor *descriptors, uint32_t count,
                                   uint64_t first_step, const char *const *ids, lake_error *err) {
  uint32_t i = 0;
  if (live->first_live_step > first_step)
    i = live->first_live_step - first_step < count ? (uint32_t)(live->first_live_step - first_step) : count;
  for (; i < count; i++) {
    const uint32_t at = descriptors[i].producer;
    const char *id = ids != NULL ? ids[at] : live->manifest->producers[at].id;
    producer *p = find_producer(live, id);
    if (p == NULL)
      return lki_fail(err, LAKE_CORRUPT, "step %" PRIu64 " is of producer %s, which is not in the map; run lake verify",
                      first_step + i, id);
    lake_status s = add_tgb(live, p, &descriptors[i], err);
    if (s != LAKE_OK) return s;
  }
  return LAKE_OK;
}

typedef struct frame {
  lki_segment *segment; /* owned; NULL for the manifest's own refs */
  const lki_segment_ref *refs;
  uint32_t count, next;
} frame;

static lake_status enter(lki_live *live, lki_log *log, const lki_segment_ref *ref, frame *stack, uint32_t *depth,
                         lake_deadline deadline, lake_error *err) {
  lki_segment_ref *refs = grown(live, live->refs, live->ref_count, &live->ref_capacity, sizeof *refs);
  if (refs == NULL) return no_memory(err);
  live->refs = refs;
  live->refs[live->ref_count++] = *ref;
  lki_segment *segment = NULL;
  lake_status s = lki_log_load_segment(log, ref, deadline, &segment, err);
  if (s != LAKE_OK) return s;
  if (segment->level > 0 && *depth < DEPTH_MAX) { /* levels fall on the way down, so the stack is deep enough */
    stack[(*depth)++] = (frame){segment, segment->children, segment->child_count, 0};
    return LAKE_OK;
  }
  s = add_descriptors(live, segment->descriptors, segment->descriptor_count, segment->first_step,
                      segment->producer_ids, err);
  lki_segment_release(segment);
  return s;
}

static lake_status walk(lki_live *live, lki_log *log, lake_deadline deadline, lake_error *err) {
  const lki_manifest *m = live->manifest;
  frame stack[DEPTH_MAX];
  uint32_t depth = 0;
  stack[depth++] = (frame){NULL, m->segments, m->segment_count, 0};
  lake_status s = LAKE_OK;
  while (s == LAKE_OK && depth > 0) {
    frame *top = &stack[depth - 1];
    if (top->next == top->count) {
      lki_segment_release(top->segment);
      depth--;
      continue;
    }
    const lki_segment_ref *ref = &top->refs[top->next++];
    if (ref->first_step + ref->step_count > live->first_live_step) s = enter(live, log, ref, stack, &depth, deadline, err);
  }
  while (depth > 0) lki_segment_release(stack[--depth].segment);
  return s == LAKE_OK ? add_descriptors(live, m->tail, m->tail_count, m->tail_first_step, NULL, err) : s;
}

lake_status lki_live_open(lake_namespace *ns, lki_manifest *manifest, uint64_t first_live_step,
                          lake_deadline deadline, lki_live **out, lake_error *err) {
  lki_live *live = lki_new(ns->env, sizeof *live);
  if (live == NULL) return no_memory(err);
  live->env = ns->env;
  live->manifest = lki_manifest_retain(manifest);
  live->first_live_step = first_live_step;
  lki_arena_init(&live->arena, ns->env);
  live->producers = lki_arena_alloc(&live->arena, sizeof *live->producers * (manifest->producer_count + 1u));
  lake_status s = live->producers != NULL ? LAKE_OK : no_memory(err);
  if (s == LAKE_OK) {
    live->producer_count = manifest->producer_count;
    for (uint32_t i = 0; i < live->producer_count; i++)
      live->producers[i] = (producer){manifest->producers[i].id, i, NO_RUN};
    qsort(live->producers, live->producer_count, sizeof *live->producers, by_id);
    s = walk(live, ns->log, deadline, err);
  }
  if (s == LAKE_OK) {
    if (live->ref_count > 0) qsort(live->refs, live->ref_count, sizeof *live->refs, by_name);
    *out = live;
  } else {
    lki_live_close(live);
  }
  return s;
}

void lki_live_close(lki_live *live) {
  if (live == NULL) return;
  lki_manifest_release(live->manifest);
  lki_arena_free(&live->arena);
  lki_free(live->env, live);
}

lki_fate lki_live_tgb(const lki_live *live, const char *producer_id, uint64_t epoch, uint64_t seq) {
  const producer *p = find_producer(live, producer_id);
  if (p == NULL) return LKI_FATE_IN_FLIGHT; /* its claim may be on its way, or newer than this manifest */
  for (uint32_t i = p->newest; i != NO_RUN; i = live->runs[i].older) {
    const run *r = &live->runs[i];
    if (r->epoch == epoch && seq >= r->first_seq && seq < r->end_seq) return LKI_FATE_LIVE;
  }
  /* An older epoch is fenced for ever; a seq that was committed in this one lies below the first live step. Nothing
   * else is decided: the producer may have uploaded it a moment ago and commit it in the next. */
  const lki_producer_entry *entry = &live->manifest->producers[p->index];
  const bool decided = epoch < entry->epoch || (epoch == entry->epoch && seq < entry->next_seq);
  return decided ? LKI_FATE_DEAD : LKI_FATE_IN_FLIGHT;
}

lki_fate lki_live_segment(const lki_live *live, const lki_segment_ref *ref, uint64_t next_version) {
  if (live->ref_count > 0 && bsearch(ref, live->refs, live->ref_count, sizeof *ref, by_name) != NULL) return LKI_FATE_LIVE;
  /* Only the version after the one it was sealed from could have brought it in. What a live root still refers to but
   * lies wholly below the first live step is dead too: nobody goes down there, and the next root leaves it out. */
  return ref->version + 1 < next_version ? LKI_FATE_DEAD : LKI_FATE_IN_FLIGHT;
}
