/* The walk. An explicit stack stands in for recursion: level n only refers to level n-1, so its depth is bounded. */
#include "walk.h"
#include "format/names.h"
#include <inttypes.h>

#define DEPTH_MAX (LKI_SEGMENT_LEVEL_MAX + 2)

typedef struct frame {
  lki_segment *segment; /* owned; NULL for the manifest's own refs */
  const lki_segment_ref *refs;
  uint32_t count, next;
} frame;

typedef struct walk {
  lake_namespace *ns;
  uint64_t from, to;
  const lki_walk_visitor *visitor;
  frame stack[DEPTH_MAX];
  uint32_t depth;
} walk;

static lake_status visit_run(const walk *w, const lki_descriptor *descriptors, uint32_t count, uint64_t first_step,
                             const char *const *ids, const lki_producer_entry *entries, const char *holder,
                             lake_error *err) {
  lake_status s = LAKE_OK;
  uint32_t i = w->from > first_step ? (uint32_t)(w->from - first_step < count ? w->from - first_step : count) : 0;
  for (; s == LAKE_OK && i < count && first_step + i < w->to; i++) {
    uint32_t p = descriptors[i].producer;
    lki_walk_step step = {first_step + i, ids != NULL ? ids[p] : entries[p].id, &descriptors[i], holder};
    s = w->visitor->step(w->visitor->ctx, &step, err);
  }
  return s;
}

static lake_status enter(walk *w, const lki_segment_ref *ref, lake_error *err) {
  char name[LKI_NAME_BYTES];
  lki_segment *segment = NULL;
  lake_error why = LAKE_ERROR_INIT;
  lki_name_segment(name, ref);
  lake_status s =
      lki_log_load_segment(w->ns->log, ref, lake_deadline_after_ms(w->ns->env, w->visitor->timeout_ms), &segment, &why);
  if (s != LAKE_OK) {
    if (w->visitor->broken != NULL) return w->visitor->broken(w->visitor->ctx, ref, s, &why, err);
    lki_error_copy(err, &why);
    return s;
  }
  if (w->visitor->segment != NULL) s = w->visitor->segment(w->visitor->ctx, ref, segment, err);
  if (s == LAKE_OK && segment->level > 0 && w->depth < DEPTH_MAX) {
    w->stack[w->depth++] = (frame){segment, segment->children, segment->child_count, 0};
    return LAKE_OK;
  }
  if (s == LAKE_OK && segment->level == 0)
    s = visit_run(w, segment->descriptors, segment->descriptor_count, segment->first_step, segment->producer_ids, NULL,
                  name, err);
  lki_segment_release(segment);
  return s;
}

lake_status lki_walk(lake_namespace *ns, const lki_manifest *manifest, uint64_t from, uint64_t to,
                     const lki_walk_visitor *visitor, lake_error *err) {
  /* Below the first live step segments may be gone, though a root still refers to them. */
  if (from < manifest->first_live_step) from = manifest->first_live_step;
  walk w = {.ns = ns, .from = from, .to = to, .visitor = visitor};
  lake_status s = LAKE_OK;
  w.stack[w.depth++] = (frame){NULL, manifest->segments, manifest->segment_count, 0};
  while (s == LAKE_OK && w.depth > 0) {
    frame *top = &w.stack[w.depth - 1];
    if (top->next == top->count) {
      lki_segment_release(top->segment);
      w.depth--;
      continue;
    }
    const lki_segment_ref *ref = &top->refs[top->next++];
    if (ref->first_step < to && ref->first_step + ref->step_count > from) s = enter(&w, ref, err);
  }
  while (w.depth > 0) lki_segment_release(w.stack[--w.depth].segment);
  if (s != LAKE_OK) return s;
  char name[LKI_NAME_BYTES];
  lki_name_manifest(name, manifest->version);
  return visit_run(&w, manifest->tail, manifest->tail_count, manifest->tail_first_step, NULL, manifest->producers,
                   name, err);
}
