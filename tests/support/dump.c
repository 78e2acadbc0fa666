#include "support/dump.h"
#include "base/checksum.h"
#include "base/env.h"
#include "base/json.h"
#include "support/support.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes the tree. */
static char *text_of(lki_json *json) {
  lake_buffer out;
  lake_env *env = NULL;
  if (json == NULL || lake_env_open(NULL, &env, NULL) != LAKE_OK) abort();
  lki_buffer_init(&out, env, (size_t)256 << 20);
  if (lki_json_print(json, false, &out, NULL) != LAKE_OK) abort();
  char *text = strndup((const char *)out.data, out.bytes);
  if (text == NULL) abort();
  lki_buffer_free(&out);
  lake_env_close(env);
  lki_json_free(json);
  return text;
}

static lki_json *object_of(const char *kind) {
  lki_json *json = lki_json_new_object();
  lki_json_add_string(json, "object", kind);
  return json;
}

static void add_id(lki_json *json, const char *name, lki_id id) {
  char text[37];
  lki_id_format(id, text);
  lki_json_add_string(json, name, text);
}

static void add_hex64(lki_json *json, const char *name, uint64_t value) {
  char text[17];
  snprintf(text, sizeof text, "%016" PRIx64, value);
  lki_json_add_string(json, name, text);
}

static void add_hex(lki_json *json, const char *name, lake_bytes bytes) {
  char text[2 * 4096 + 1] = "";
  const unsigned char *p = bytes.data;
  if (bytes.bytes > 4096) abort();
  for (size_t i = 0; i < bytes.bytes; i++) snprintf(text + 2 * i, 3, "%02x", p[i]);
  lki_json_add_string(json, name, text);
}

static void add_descriptors(lki_json *json, const char *name, const lki_descriptor *descriptors,
                            uint32_t count) {
  static const char *const layouts[] = {"?", "uniform", "packed", "footer"};
  lki_json *array = lki_json_add_array(json, name);
  for (uint32_t i = 0; i < count; i++) {
    const lki_descriptor *d = &descriptors[i];
    lki_json *item = lki_json_add_object(array, NULL);
    lki_json_add_number(item, "producer", d->producer);
    lki_json_add_u64(item, "epoch", d->epoch);
    lki_json_add_u64(item, "seq", d->seq);
    lki_json_add_u64(item, "object_bytes", d->object_bytes);
    lki_json_add_number(item, "slice_count", d->slice_count);
    lki_json_add_number(item, "footer_bytes", d->footer_bytes);
    lki_json_add_string(item, "layout", layouts[d->layout]);
    if (d->layout == LKI_LAYOUT_UNIFORM) lki_json_add_u64(item, "frame_bytes", d->frame_bytes);
    if (d->layout != LKI_LAYOUT_PACKED) continue;
    lki_json *each = lki_json_add_array(item, "frame_bytes_each");
    for (uint32_t j = 0; j < d->slice_count; j++) lki_json_add_u64(each, NULL, d->frame_bytes_each[j]);
  }
}

static void add_refs(lki_json *json, const char *name, const lki_segment_ref *refs, uint32_t count) {
  lki_json *array = lki_json_add_array(json, name);
  for (uint32_t i = 0; i < count; i++) {
    lki_json *item = lki_json_add_object(array, NULL);
    lki_json_add_number(item, "level", refs[i].level);
    lki_json_add_u64(item, "first_step", refs[i].first_step);
    lki_json_add_u64(item, "step_count", refs[i].step_count);
    lki_json_add_number(item, "object_bytes", refs[i].object_bytes);
    lki_json_add_u64(item, "version", refs[i].version);
    add_hex64(item, "checksum", refs[i].checksum);
  }
}

static void add_producers(lki_json *json, const lki_manifest *m) {
  lki_json *array = lki_json_add_array(json, "producers");
  for (uint32_t i = 0; i < m->producer_count; i++) {
    const lki_producer_entry *p = &m->producers[i];
    lki_json *item = lki_json_add_object(array, NULL);
    lki_json_add_string(item, "id", p->id);
    lki_json_add_u64(item, "epoch", p->epoch);
    lki_json_add_u64(item, "next_seq", p->next_seq);
    lki_json_add_u64(item, "offset", p->offset);
    add_hex(item, "state", p->state);
    lki_json_add_u64(item, "last_version", p->last_version);
    lki_json_add_bool(item, "retired", p->retired);
    lki_json_add_string(item, "owner", p->owner != NULL ? p->owner : "");
  }
}

char *dump_manifest(const lki_manifest *m) {
  lki_json *json = object_of("manifest");
  add_id(json, "namespace", m->namespace_id);
  add_id(json, "attempt", m->attempt);
  add_id(json, "previous", m->previous);
  lki_json_add_u64(json, "version", m->version);
  lki_json_add_bool(json, "sealed", m->sealed);
  lki_json_add_string(json, "writer", m->writer);
  lki_json_add_u64(json, "next_step", m->next_step);
  lki_json_add_u64(json, "first_live_step", m->first_live_step);
  add_producers(json, m);
  add_refs(json, "segments", m->segments, m->segment_count);
  lki_json_add_u64(json, "tail_first_step", m->tail_first_step);
  add_descriptors(json, "tail", m->tail, m->tail_count);
  lki_json *quarantine = lki_json_add_array(json, "quarantine");
  for (uint32_t i = 0; i < m->quarantine_count; i++) lki_json_add_u64(quarantine, NULL, m->quarantine[i]);
  return text_of(json);
}

char *dump_segment(const lki_segment *segment) {
  lki_json *json = object_of("segment");
  add_id(json, "namespace", segment->namespace_id);
  lki_json_add_number(json, "level", segment->level);
  lki_json_add_u64(json, "first_step", segment->first_step);
  lki_json_add_u64(json, "step_count", segment->step_count);
  if (segment->level > 0) {
    add_refs(json, "children", segment->children, segment->child_count);
    return text_of(json);
  }
  lki_json *ids = lki_json_add_array(json, "producers");
  for (uint32_t i = 0; i < segment->producer_count; i++)
    lki_json_add_string(ids, NULL, segment->producer_ids[i]);
  add_descriptors(json, "descriptors", segment->descriptors, segment->descriptor_count);
  return text_of(json);
}

char *dump_schema(const lki_schema *schema) {
  lki_json *json = object_of("namespace");
  add_id(json, "uuid", schema->namespace_id);
  lki_json *mesh = lki_json_add_object(json, "mesh");
  lki_json_add_number(mesh, "d", schema->mesh.d_count);
  lki_json_add_number(mesh, "c", schema->mesh.c_count);
  lki_json_add_number(json, "rows_per_slice", schema->rows_per_slice);
  lki_json_add_string(json, "codec", schema->codec == LAKE_CODEC_ZSTD ? "zstd" : "none");
  lki_json_add_number(json, "tail_max", schema->tail_max);
  lki_json_add_number(json, "version_block", schema->version_block);
  lki_json *tensors = lki_json_add_array(json, "tensors");
  for (uint32_t i = 0; i < schema->tensor_count; i++) {
    const lake_tensor_spec *spec = &schema->tensors[i];
    uint64_t offset = 0, bytes = 0;
    lki_schema_tensor_range(schema, i, &offset, &bytes);
    lki_json *item = lki_json_add_object(tensors, NULL);
    lki_json_add_string(item, "name", spec->name);
    lki_json_add_string(item, "dtype", lake_dtype_name(spec->dtype));
    lki_json *shape = lki_json_add_array(item, "shape");
    for (uint32_t j = 0; j < spec->rank; j++) lki_json_add_u64(shape, NULL, spec->shape[j]);
    lki_json_add_u64(item, "offset", offset);
    lki_json_add_u64(item, "bytes", bytes);
  }
  lki_json_add_u64(json, "slice_bytes", schema->slice_bytes);
  lki_json_add_string(json, "note", schema->note);
  if (schema->store_mark != LKI_STORE_UNPROVEN)
    lki_json_add_string(json, "store_check", schema->store_mark == LKI_STORE_PROVEN ? "passed" : "forced");
  return text_of(json);
}

char *dump_pin(const lki_pin *pin) {
  lki_json *json = object_of("pin");
  add_id(json, "namespace", pin->namespace_id);
  lki_json_add_u64(json, "row", pin->row);
  lki_json_add_u64(json, "step", pin->step);
  lki_json_add_u64(json, "version", pin->version);
  return text_of(json);
}

char *dump_cursor(const lki_cursor *cursor) {
  lki_json *json = object_of("cursor");
  add_id(json, "namespace", cursor->namespace_id);
  lki_json_add_u64(json, "row", cursor->row);
  lki_json_add_u64(json, "version", cursor->version);
  return text_of(json);
}

char *dump_hint(uint64_t version) {
  lki_json *json = object_of("hint");
  lki_json_add_u64(json, "version", version);
  return text_of(json);
}

/* One frame of a TGB, verified and, when compressed, decompressed. */
static lake_status add_slice(lake_env *env, lki_json *slices, lake_bytes frame, lki_frame_key key,
                             uint64_t offset, lake_error *err) {
  uint64_t slice_bytes = 0;
  bool compressed = false;
  lake_bytes slice = {NULL, 0};
  void *memory = NULL;
  lake_status s = lki_frame_check(frame, key, &slice_bytes, &compressed, err);
  if (s == LAKE_OK && compressed && (memory = lki_alloc(env, (size_t)slice_bytes)) == NULL) s = LAKE_NOMEM;
  if (s == LAKE_OK) s = lki_frame_decode(env, frame, &slice, memory, (size_t)slice_bytes, err);
  if (s == LAKE_OK) {
    lki_json *item = lki_json_add_object(slices, NULL);
    lki_json_add_u64(item, "offset", offset);
    lki_json_add_u64(item, "frame_bytes", frame.bytes);
    lki_json_add_string(item, "codec", compressed ? "zstd" : "none");
    lki_json_add_u64(item, "slice_bytes", slice_bytes);
    add_hex64(item, "content", lki_checksum(slice.data, slice.bytes, 0));
  }
  lki_free(env, memory);
  return s;
}

static lake_status dump_tgb(lake_env *env, lake_bytes object, char **text, lake_error *err) {
  lki_arena arena;
  lki_tgb_footer footer;
  lki_json *json = NULL;
  lki_arena_init(&arena, env);
  lake_status s = lki_tgb_header_check(object, "object", err);
  if (s == LAKE_OK) s = lki_tgb_footer_decode(env, object, object.bytes, "object", &arena, &footer, err);
  if (s != LAKE_OK) goto done;
  json = object_of("tgb");
  add_id(json, "namespace", footer.namespace_id);
  lki_json_add_string(json, "producer", footer.producer_id);
  lki_json_add_u64(json, "epoch", footer.epoch);
  lki_json_add_u64(json, "seq", footer.seq);
  lki_json_add_u64(json, "object_bytes", footer.object_bytes);
  lki_json *slices = lki_json_add_array(json, "slices");
  lki_descriptor d = {.slice_count = footer.slice_count,
                      .layout = LKI_LAYOUT_PACKED,
                      .frame_bytes_each = footer.frame_bytes_each};
  uint64_t hash = lki_tgb_hash(&footer.namespace_id, footer.producer_id, footer.epoch, footer.seq);
  for (uint32_t i = 0; s == LAKE_OK && i < footer.slice_count; i++) {
    lki_frame_key key = {hash, i};
    uint64_t offset = 0, bytes = 0;
    s = lki_frame_locate(&d, i, &offset, &bytes, err);
    lake_bytes frame = {(const unsigned char *)object.data + offset, (size_t)bytes};
    if (s == LAKE_OK) s = add_slice(env, slices, frame, key, offset, err);
  }
  if (s == LAKE_OK) {
    *text = text_of(json);
    json = NULL;
  }
done:
  lki_json_free(json);
  lki_arena_free(&arena);
  return s;
}

static bool begins(lake_bytes object, const char *prefix) {
  size_t n = strlen(prefix);
  return object.bytes >= n && memcmp(object.data, prefix, n) == 0;
}

static lake_status dump_json(lake_env *env, lake_bytes object, char **text, lake_error *err) {
  lki_pin pin;
  lki_schema *schema = NULL;
  lake_status s = lki_namespace_decode(env, object, "object", &schema, err);
  if (s == LAKE_OK) *text = dump_schema(schema);
  lki_schema_free(schema);
  if (s == LAKE_OK || (err != NULL && strstr(err->text, "\"kind\"") == NULL)) return s;
  s = lki_pin_decode(object, "object", &pin, err);
  if (s == LAKE_OK) *text = dump_pin(&pin);
  return s;
}

static lake_status dump_line(lake_bytes object, char **text, lake_error *err) {
  uint64_t version = 0;
  lki_cursor cursor;
  char line[LAKE_CURSOR_BYTES] = "";
  if (begins(object, "lakehint")) {
    lake_status s = lki_hint_decode(object, &version, err);
    if (s == LAKE_OK) *text = dump_hint(version);
    return s;
  }
  if (object.bytes < sizeof line) memcpy(line, object.data, object.bytes);
  if (object.bytes == 0 || strlen(line) != object.bytes)
    return lki_fail(err, LAKE_CORRUPT, "object: of no kind that is known");
  lake_status s = lki_cursor_parse(line, &cursor, err);
  if (s == LAKE_OK) *text = dump_cursor(&cursor);
  return s;
}

lake_status dump_object(lake_env *env, lake_bytes object, char **text, lake_error *err) {
  lake_status s = LAKE_OK;
  if (begins(object, "LAKE-MAN")) {
    lki_manifest *manifest = NULL;
    s = lki_manifest_decode(env, object, NULL, "object", &manifest, err);
    if (s == LAKE_OK) *text = dump_manifest(manifest);
    lki_manifest_release(manifest);
    return s;
  }
  if (begins(object, "LAKE-SEG")) {
    lki_segment *segment = NULL;
    s = lki_segment_decode(env, object, NULL, "object", &segment, err);
    if (s == LAKE_OK) *text = dump_segment(segment);
    lki_segment_release(segment);
    return s;
  }
  if (begins(object, "LAKE-TGB")) return dump_tgb(env, object, text, err);
  if (begins(object, "{")) return dump_json(env, object, text, err);
  return dump_line(object, text, err);
}
