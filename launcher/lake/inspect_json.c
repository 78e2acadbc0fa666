/* Objects as JSON. No state. A tree that could not be completed shows when it is printed. */
#include "inspect_json.h"
#include "format/names.h"
#include <string.h>

const char *lki_layout_name(lki_layout_kind layout) {
  switch (layout) {
  case LKI_LAYOUT_UNIFORM: return "uniform";
  case LKI_LAYOUT_PACKED: return "packed";
  case LKI_LAYOUT_FOOTER: return "footer";
  }
  return "?";
}

void lki_inspect_descriptor(lki_json *json, uint64_t step, const char *producer_id, const lki_descriptor *d) {
  lki_json_add_u64(json, "step", step);
  if (producer_id != NULL) lki_json_add_string(json, "producer", producer_id);
  lki_json_add_u64(json, "epoch", d->epoch);
  lki_json_add_u64(json, "seq", d->seq);
  lki_json_add_u64(json, "bytes", d->object_bytes);
  lki_json_add_number(json, "slice_count", d->slice_count);
  lki_json_add_string(json, "layout", lki_layout_name(d->layout));
}

/* A state that is text is shown as it is, any other by its length. */
static bool printable(lake_bytes state) {
  const unsigned char *s = state.data;
  for (size_t i = 0; i < state.bytes; i++)
    if (s[i] < 0x20 || s[i] > 0x7e) return false;
  return state.bytes > 0;
}

void lki_inspect_producer(lki_json *json, const lki_producer_entry *p) {
  lki_json_add_string(json, "id", p->id);
  lki_json_add_u64(json, "epoch", p->epoch);
  lki_json_add_u64(json, "next_seq", p->next_seq);
  lki_json_add_u64(json, "offset", p->offset);
  lki_json_add_u64(json, "last_version", p->last_version);
  lki_json_add_bool(json, "retired", p->retired);
  lki_json_add_string(json, "owner", p->owner);
  lki_json_add_u64(json, "state_bytes", p->state.bytes);
  if (printable(p->state)) {
    char text[LKI_STATE_BYTES_MAX + 1];
    memcpy(text, p->state.data, p->state.bytes);
    text[p->state.bytes] = 0;
    lki_json_add_string(json, "state", text);
  }
}

static void add_id(lki_json *json, const char *name, lki_id id) {
  char text[37];
  lki_id_format(id, text);
  lki_json_add_string(json, name, text);
}

static void add_refs(lki_json *json, const char *name, const lki_segment_ref *refs, uint32_t count) {
  lki_json *list = lki_json_add_array(json, name);
  for (uint32_t i = 0; i < count; i++) {
    char key[LKI_NAME_BYTES];
    lki_json *ref = lki_json_add_object(list, NULL);
    lki_name_segment(key, &refs[i]);
    lki_json_add_string(ref, "key", key);
    lki_json_add_number(ref, "level", refs[i].level);
    lki_json_add_u64(ref, "first_step", refs[i].first_step);
    lki_json_add_u64(ref, "step_count", refs[i].step_count);
    lki_json_add_u64(ref, "bytes", refs[i].object_bytes);
  }
}

void lki_inspect_manifest(lki_json *json, const lki_manifest *m) {
  lki_json_add_string(json, "kind", "manifest");
  add_id(json, "namespace", m->namespace_id);
  lki_json_add_u64(json, "version", m->version);
  add_id(json, "attempt", m->attempt);
  add_id(json, "previous", m->previous);
  lki_json_add_string(json, "writer", m->writer);
  lki_json_add_bool(json, "sealed", m->sealed);
  lki_json_add_u64(json, "first_live_step", m->first_live_step);
  lki_json_add_u64(json, "next_step", m->next_step);
  lki_json *producers = lki_json_add_array(json, "producers");
  for (uint32_t i = 0; i < m->producer_count; i++)
    lki_inspect_producer(lki_json_add_object(producers, NULL), &m->producers[i]);
  add_refs(json, "segments", m->segments, m->segment_count);
  lki_json_add_u64(json, "tail_first_step", m->tail_first_step);
  lki_json *tail = lki_json_add_array(json, "tail");
  for (uint32_t i = 0; i < m->tail_count; i++)
    lki_inspect_descriptor(lki_json_add_object(tail, NULL), m->tail_first_step + i,
                           m->producers[m->tail[i].producer].id, &m->tail[i]);
  lki_json *quarantine = lki_json_add_array(json, "quarantine");
  for (uint32_t i = 0; i < m->quarantine_count; i++) lki_json_add_u64(quarantine, NULL, m->quarantine[i]);
}

void lki_inspect_segment(lki_json *json, const lki_segment *g) {
  lki_json_add_string(json, "kind", "segment");
  add_id(json, "namespace", g->namespace_id);
  lki_json_add_number(json, "level", g->level);
  lki_json_add_u64(json, "first_step", g->first_step);
  lki_json_add_u64(json, "step_count", g->step_count);
  if (g->level > 0) {
    add_refs(json, "segments", g->children, g->child_count);
    return;
  }
  lki_json *steps = lki_json_add_array(json, "steps");
  for (uint32_t i = 0; i < g->descriptor_count; i++)
    lki_inspect_descriptor(lki_json_add_object(steps, NULL), g->first_step + i,
                           g->producer_ids[g->descriptors[i].producer], &g->descriptors[i]);
}

void lki_inspect_pin(lki_json *json, const lki_pin *pin) {
  lki_json_add_string(json, "kind", "pin");
  add_id(json, "namespace", pin->namespace_id);
  lki_json_add_u64(json, "row", pin->row);
  lki_json_add_u64(json, "step", pin->step);
  lki_json_add_u64(json, "version", pin->version);
}
