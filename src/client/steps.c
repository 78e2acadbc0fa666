/* The step index. Segments are immutable, so a cached one never has to be checked again. */
#include "client/steps.h"
#include "base/env.h"
#include <inttypes.h>
#include <string.h>

#define SEGMENT_CACHE_COUNT 16

typedef struct cached {
  uint32_t level;
  uint64_t first_step;
  uint64_t checksum;
  uint64_t used; /* tick of the last use */
  lki_segment *segment;
} cached;

struct lki_steps {
  lake_env *env;
  lki_log *log;
  struct {
    lki_mutex *lock;
    uint64_t tick;
    cached entries[SEGMENT_CACHE_COUNT];
  } synced;
};

lake_status lki_steps_open(lake_env *env, lki_log *log, lki_steps **out, lake_error *err) {
  lki_steps *steps = lki_new(env, sizeof *steps);
  if (steps == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for a step index");
  steps->env = env;
  steps->log = log;
  steps->synced.lock = lki_mutex_open(env);
  if (steps->synced.lock == NULL) {
    lki_free(env, steps);
    return lki_fail(err, LAKE_NOMEM, "out of memory for a step index");
  }
  *out = steps;
  return LAKE_OK;
}

void lki_steps_close(lki_steps *steps) {
  if (steps == NULL) return;
  for (int i = 0; i < SEGMENT_CACHE_COUNT; i++) lki_segment_release(steps->synced.entries[i].segment);
  lki_mutex_close(steps->env, steps->synced.lock);
  lki_free(steps->env, steps);
}

static lki_segment *find_cached(lki_steps *steps, const lki_segment_ref *ref) {
  lki_segment *found = NULL;
  lki_lock(steps->env, steps->synced.lock);
  for (int i = 0; i < SEGMENT_CACHE_COUNT && found == NULL; i++) {
    cached *c = &steps->synced.entries[i];
    if (c->segment != NULL && c->checksum == ref->checksum && c->first_step == ref->first_step &&
        c->level == ref->level) {
      c->used = ++steps->synced.tick;
      found = lki_segment_retain(c->segment);
    }
  }
  lki_unlock(steps->env, steps->synced.lock);
  return found;
}

static void keep_cached(lki_steps *steps, const lki_segment_ref *ref, lki_segment *segment) {
  lki_lock(steps->env, steps->synced.lock);
  cached *oldest = &steps->synced.entries[0];
  for (int i = 1; i < SEGMENT_CACHE_COUNT; i++)
    if (steps->synced.entries[i].used < oldest->used) oldest = &steps->synced.entries[i];
  lki_segment *evicted = oldest->segment;
  *oldest = (cached){ref->level, ref->first_step, ref->checksum, ++steps->synced.tick, lki_segment_retain(segment)};
  lki_unlock(steps->env, steps->synced.lock);
  lki_segment_release(evicted);
}

static lake_status get_segment(lki_steps *steps, const lki_segment_ref *ref, lake_deadline deadline,
                               lki_segment **out, lake_error *err) {
  *out = find_cached(steps, ref);
  if (*out != NULL) return LAKE_OK;
  lake_status s = lki_log_load_segment(steps->log, ref, deadline, out, err);
  if (s == LAKE_OK) keep_cached(steps, ref, *out);
  return s;
}

/* Walks down from a ref to the level-0 segment that holds the step. */
static lake_status descend(lki_steps *steps, const lki_segment_ref *top, uint64_t step, lake_deadline deadline,
                           lki_segment **out, lake_error *err) {
  lki_segment *segment = NULL;
  lake_status s = get_segment(steps, top, deadline, &segment, err);
  while (s == LAKE_OK && segment->level > 0) { /* each turn goes one level down */
    const lki_segment_ref *child = lki_segment_ref_find(segment->children, segment->child_count, step);
    lki_segment *below = NULL;
    s = child != NULL ? get_segment(steps, child, deadline, &below, err)
                      : lki_fail(err, LAKE_CORRUPT, "step %" PRIu64 " is in no segment", step);
    lki_segment_release(segment);
    segment = below;
  }
  if (s == LAKE_OK) *out = segment;
  return s;
}

lake_status lki_steps_find(lki_steps *steps, lki_manifest *manifest, uint64_t step, lake_deadline deadline,
                           lki_step_ref *ref, lake_error *err) {
  if (step >= manifest->next_step) return LAKE_AGAIN;
  if (step < manifest->first_live_step)
    return lki_fail(err, LAKE_RECLAIMED,
                    "step %" PRIu64 " was reclaimed, the first live one is %" PRIu64 "; resume from a live pin", step,
                    manifest->first_live_step);
  lki_step_ref found = {0};
  if (step >= manifest->tail_first_step) {
    found.descriptor = &manifest->tail[step - manifest->tail_first_step];
    found.producer_id = manifest->producers[found.descriptor->producer].id;
    found.manifest = lki_manifest_retain(manifest);
  } else {
    const lki_segment_ref *top = lki_segment_ref_find(manifest->segments, manifest->segment_count, step);
    if (top == NULL) return lki_fail(err, LAKE_CORRUPT, "step %" PRIu64 " is in no segment", step);
    lake_status s = descend(steps, top, step, deadline, &found.segment, err);
    if (s != LAKE_OK) return s;
    found.descriptor = &found.segment->descriptors[step - found.segment->first_step];
    found.producer_id = found.segment->producer_ids[found.descriptor->producer];
  }
  *ref = found;
  return LAKE_OK;
}

void lki_step_ref_release(lki_step_ref *ref) {
  lki_manifest_release(ref->manifest);
  lki_segment_release(ref->segment);
  memset(ref, 0, sizeof *ref);
}
