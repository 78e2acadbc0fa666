/* Reading schemas that people wrote. No state. */
#include "schema_text.h"
#include "base/buffer.h"
#include "cli.h"
#include "file_bytes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool lki_schema_text_dtype(const char *name, lake_dtype *dtype) {
  for (lake_dtype t = LAKE_U8; t <= LAKE_BOOL; t++)
    if (strcmp(lake_dtype_name(t), name) == 0) {
      *dtype = t;
      return true;
    }
  return false;
}

lake_status lki_schema_text_codec(const char *name, uint32_t *codec, lake_error *err) {
  if (strcmp(name, "none") == 0)
    *codec = LAKE_CODEC_NONE;
  else if (strcmp(name, "zstd") == 0)
    *codec = LAKE_CODEC_ZSTD;
  else
    return lki_fail(err, LAKE_INVALID, "codec '%s': choose none or zstd", name);
  return LAKE_OK;
}

static lake_status fail_dtype(const char *tensor, const char *dtype, lake_error *err) {
  return lki_fail(err, LAKE_INVALID,
                  "tensor %s: unknown dtype '%s'; choose u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64 or bool", tensor,
                  dtype);
}

lake_status lki_schema_text_tensor(const char *text, lake_tensor_spec *spec, lake_error *err) {
  lake_tensor_spec s = {0};
  const char *colon = strchr(text, ':'), *second = colon != NULL ? strchr(colon + 1, ':') : NULL;
  if (second == NULL)
    return lki_fail(err, LAKE_INVALID, "--tensor %s: write name:dtype:SHAPE, such as tokens:u16:128 or weight:f32:-", text);
  char dtype[16];
  size_t name_bytes = (size_t)(colon - text), dtype_bytes = (size_t)(second - colon - 1);
  if (name_bytes >= sizeof s.name || dtype_bytes >= sizeof dtype)
    return lki_fail(err, LAKE_INVALID, "--tensor %s: name or dtype too long", text);
  memcpy(s.name, text, name_bytes);
  memcpy(dtype, colon + 1, dtype_bytes);
  dtype[dtype_bytes] = 0;
  if (!lki_schema_text_dtype(dtype, &s.dtype)) return fail_dtype(s.name, dtype, err);
  const char *p = second + 1;
  if (strcmp(p, "-") != 0) {
    for (bool more = true; more;) {
      char *end = NULL;
      unsigned long long n = *p >= '1' && *p <= '9' ? strtoull(p, &end, 10) : 0;
      if (n == 0 || (*end != 0 && *end != 'x') || s.rank == LAKE_TENSOR_RANK_MAX)
        return lki_fail(err, LAKE_INVALID, "--tensor %s: SHAPE is 1 to %d numbers joined by x, or - for a scalar", text,
                        LAKE_TENSOR_RANK_MAX);
      s.shape[s.rank++] = n;
      more = *end == 'x';
      p = end + 1;
    }
  }
  *spec = s;
  return LAKE_OK;
}

static lake_status read_tensor(const lki_json *json, lake_tensor_spec *spec, lake_error *err) {
  lake_tensor_spec s = {0};
  const char *name = lki_json_string(lki_json_get(json, "name")), *dtype = lki_json_string(lki_json_get(json, "dtype"));
  const lki_json *shape = lki_json_get(json, "shape");
  if (name == NULL || dtype == NULL || strlen(name) >= sizeof s.name || (shape != NULL && !lki_json_is_array(shape)))
    return lki_fail(err, LAKE_INVALID, "a tensor wants {\"name\": \"...\", \"dtype\": \"...\", \"shape\": [...]}");
  memcpy(s.name, name, strlen(name));
  if (!lki_schema_text_dtype(dtype, &s.dtype)) return fail_dtype(name, dtype, err);
  for (const lki_json *n = lki_json_first(shape); n != NULL; n = lki_json_next(n)) {
    if (s.rank == LAKE_TENSOR_RANK_MAX || !lki_json_u64(n, &s.shape[s.rank]))
      return lki_fail(err, LAKE_INVALID, "tensor %s: shape is at most %d whole numbers", name, LAKE_TENSOR_RANK_MAX);
    s.rank++;
  }
  *spec = s;
  return LAKE_OK;
}

static lake_status read_tensors(const lki_json *json, lki_schema_room *room, lake_namespace_options *options,
                                lake_error *err) {
  if (!lki_json_is_array(json)) return lki_fail(err, LAKE_INVALID, "tensors is an array");
  uint32_t count = 0;
  lake_status s = LAKE_OK;
  for (const lki_json *t = lki_json_first(json); t != NULL && s == LAKE_OK; t = lki_json_next(t)) {
    if (count == LAKE_TENSOR_COUNT_MAX)
      return lki_fail(err, LAKE_INVALID, "more than %d tensors", LAKE_TENSOR_COUNT_MAX);
    s = read_tensor(t, &room->tensors[count++], err);
  }
  if (s != LAKE_OK) return s;
  options->tensor_count = count;
  options->tensors = room->tensors;
  return LAKE_OK;
}

static bool read_u32(const lki_json *json, uint32_t *out) {
  uint64_t value = 0;
  if (!lki_json_u64(json, &value) || value > UINT32_MAX) return false;
  *out = (uint32_t)value;
  return true;
}

static lake_status read_mesh(const lki_json *json, lake_mesh *mesh, lake_error *err) {
  lake_mesh m = {0, 0};
  if (lki_json_string(json) != NULL) return lki_cli_mesh(lki_json_string(json), mesh, err);
  if (!read_u32(lki_json_get(json, "d"), &m.d_count) || !read_u32(lki_json_get(json, "c"), &m.c_count))
    return lki_fail(err, LAKE_INVALID, "mesh is \"DxC\" or {\"d\": D, \"c\": C}");
  *mesh = m;
  return LAKE_OK;
}

static lake_status read_member(const lki_json *json, lki_schema_room *room, lake_namespace_options *options,
                               lake_error *err) {
  const char *name = lki_json_name(json), *text = lki_json_string(json);
  if (strcmp(name, "mesh") == 0) return read_mesh(json, &options->mesh, err);
  if (strcmp(name, "tensors") == 0) return read_tensors(json, room, options, err);
  if (strcmp(name, "codec") == 0 && text != NULL) return lki_schema_text_codec(text, &options->codec, err);
  if (strcmp(name, "rows_per_slice") == 0 && read_u32(json, &options->rows_per_slice)) return LAKE_OK;
  if (strcmp(name, "tail_max") == 0 && read_u32(json, &options->tail_max)) return LAKE_OK;
  if (strcmp(name, "version_block") == 0 && read_u32(json, &options->version_block)) return LAKE_OK;
  if (strcmp(name, "note") == 0 && text != NULL && strlen(text) < sizeof room->note) {
    memcpy(room->note, text, strlen(text) + 1);
    options->note = room->note;
    return LAKE_OK;
  }
  /* What a lakestream.json also says; none of it is the next namespace's. */
  static const char *const passed_over[] = {"kind", "format", "uuid", "layout", "check", "store_check"};
  for (size_t i = 0; i < sizeof passed_over / sizeof passed_over[0]; i++)
    if (strcmp(name, passed_over[i]) == 0) return LAKE_OK;
  return lki_fail(err, LAKE_INVALID, "member '%s' is unknown or of the wrong type", name);
}

lake_status lki_schema_text_file(lake_env *env, const char *path, lki_schema_room *room,
                                 lake_namespace_options *options, lake_error *err) {
  lake_buffer bytes;
  lki_buffer_init(&bytes, env, LKI_JSON_BYTES_MAX);
  lki_json *json = NULL;
  lake_namespace_options read = *options;
  lake_status s = lki_file_read(path, &bytes, err);
  if (s == LAKE_OK) s = lki_json_parse(lki_buffer_view(&bytes), path, &json, err);
  if (s == LAKE_OK && !lki_json_is_object(json)) s = lki_fail(err, LAKE_INVALID, "%s: not a JSON object", path);
  if (s == LAKE_OK)
    for (const lki_json *member = lki_json_first(json); member != NULL && s == LAKE_OK; member = lki_json_next(member)) {
      s = read_member(member, room, &read, err);
      if (s != LAKE_OK) lki_error_prefix(err, "%s", path);
    }
  if (s == LAKE_OK) *options = read;
  lki_json_free(json);
  lki_buffer_free(&bytes);
  return s;
}
