/* lakestream.json: docs/format/namespace.md. Members that are not known are ignored, so that later versions
 * can add some; what is known must be right. The model's own limits have the last word. Pure. */
#include "base/error.h"
#include "base/json.h"
#include "format/format.h"
#include "format/text.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KIND "lakestream-namespace"
#define LAYOUT "contiguous"

static const char *codec_name(lake_codec codec) {
  return codec == LAKE_CODEC_ZSTD ? "zstd" : "none";
}

#define CHECK_PASSED "passed"
#define CHECK_FORCED "forced"

/* Only where somebody asked: most stores have nothing to prove. */
static bool add_store_check(lki_json *json, lki_store_mark mark) {
  if (mark == LKI_STORE_UNPROVEN) return true;
  return lki_json_add_string(json, "store_check", mark == LKI_STORE_PROVEN ? CHECK_PASSED : CHECK_FORCED) != NULL;
}

/* Absent, or a word that a later version may add: as if nobody had asked. */
static lki_store_mark take_store_check(const lki_json *json) {
  const char *word = lki_json_string(lki_json_get(json, "store_check"));
  if (word != NULL && strcmp(word, CHECK_PASSED) == 0) return LKI_STORE_PROVEN;
  if (word != NULL && strcmp(word, CHECK_FORCED) == 0) return LKI_STORE_FORCED;
  return LKI_STORE_UNPROVEN;
}

static bool add_tensors(lki_json *json, const lki_schema *schema) {
  lki_json *tensors = lki_json_add_array(json, "tensors");
  bool built = tensors != NULL;
  for (uint32_t i = 0; built && i < schema->tensor_count; i++) {
    const lake_tensor_spec *spec = &schema->tensors[i];
    lki_json *tensor = lki_json_add_object(tensors, NULL);
    built = lki_json_add_string(tensor, "name", spec->name) &&
            lki_json_add_string(tensor, "dtype", lake_dtype_name(spec->dtype));
    lki_json *shape = lki_json_add_array(tensor, "shape");
    built = built && shape != NULL;
    for (uint32_t j = 0; built && j < spec->rank; j++)
      built = lki_json_add_u64(shape, NULL, spec->shape[j]) != NULL;
  }
  return built;
}

lake_status lki_namespace_encode(const lki_schema *schema, lake_buffer *out, lake_error *err) {
  char id[37];
  lki_id_format(schema->namespace_id, id);
  lki_json *json = lki_json_new_object();
  bool built = lki_json_add_string(json, "kind", KIND) &&
               lki_json_add_number(json, "format", LKI_FORMAT_VERSION) &&
               lki_json_add_string(json, "uuid", id);
  lki_json *mesh = lki_json_add_object(json, "mesh");
  built = built && lki_json_add_number(mesh, "d", schema->mesh.d_count) &&
          lki_json_add_number(mesh, "c", schema->mesh.c_count) &&
          lki_json_add_number(json, "rows_per_slice", schema->rows_per_slice) &&
          lki_json_add_string(json, "layout", LAYOUT) &&
          lki_json_add_string(json, "codec", codec_name(schema->codec)) &&
          lki_json_add_number(json, "tail_max", schema->tail_max) &&
          lki_json_add_number(json, "version_block", schema->version_block) && add_tensors(json, schema) &&
          lki_json_add_string(json, "note", schema->note) && add_store_check(json, schema->store_mark);
  lake_status s =
      built ? lki_json_seal(json, out, err) : lki_fail(err, LAKE_NOMEM, "out of memory for lakestream.json");
  lki_json_free(json);
  return s;
}

static lake_status take_u32(const lki_json *json, const char *name, uint32_t max, const char *what,
                            uint32_t *value, lake_error *err) {
  uint64_t v = 0;
  lake_status s = lki_json_take_u64(json, name, max, what, &v, err);
  if (s == LAKE_OK && v == 0) s = lki_fail(err, LAKE_CORRUPT, "%s: \"%s\" is 0", what, name);
  if (s == LAKE_OK) *value = (uint32_t)v;
  return s;
}

static lake_status take_dtype(const lki_json *json, const char *what, lake_dtype *dtype, lake_error *err) {
  const char *name = NULL;
  lake_status s = lki_json_take_string(json, "dtype", what, &name, err);
  if (s != LAKE_OK) return s;
  for (int i = LAKE_U8; i <= LAKE_BOOL; i++) {
    if (strcmp(name, lake_dtype_name((lake_dtype)i)) != 0) continue;
    *dtype = (lake_dtype)i;
    return LAKE_OK;
  }
  return lki_fail(err, LAKE_UNSUPPORTED, "%s: \"dtype\" is \"%.20s\", which is not known; upgrade", what,
                  name);
}

static lake_status take_tensor(const lki_json *json, const char *what, lake_tensor_spec *spec,
                               lake_error *err) {
  const char *name = NULL;
  lake_status s = lki_json_take_string(json, "name", what, &name, err);
  if (s != LAKE_OK) return s;
  size_t bytes = strlen(name);
  if (bytes >= sizeof spec->name) return lki_fail(err, LAKE_CORRUPT, "%s: \"name\" is too long", what);
  memcpy(spec->name, name, bytes + 1);
  s = take_dtype(json, what, &spec->dtype, err);
  if (s != LAKE_OK) return s;
  const lki_json *shape = lki_json_get(json, "shape");
  if (!lki_json_is_array(shape) || lki_json_count(shape) > LAKE_TENSOR_RANK_MAX)
    return lki_fail(err, LAKE_CORRUPT, "%s: \"shape\" is not an array of at most %d", what,
                    LAKE_TENSOR_RANK_MAX);
  for (const lki_json *child = lki_json_first(shape); child != NULL; child = lki_json_next(child))
    if (!lki_json_u64(child, &spec->shape[spec->rank++]))
      return lki_fail(err, LAKE_CORRUPT, "%s: \"shape\" holds what is not a whole number", what);
  return LAKE_OK;
}

static lake_status take_tensors(const lki_json *json, const char *what, lake_tensor_spec *specs,
                                uint32_t *count, lake_error *err) {
  const lki_json *tensors = lki_json_get(json, "tensors");
  if (!lki_json_is_array(tensors) || lki_json_count(tensors) > LAKE_TENSOR_COUNT_MAX)
    return lki_fail(err, LAKE_CORRUPT, "%s: \"tensors\" is not an array of at most %d", what,
                    LAKE_TENSOR_COUNT_MAX);
  uint32_t i = 0;
  for (const lki_json *child = lki_json_first(tensors); child != NULL; child = lki_json_next(child), i++) {
    char name[256];
    snprintf(name, sizeof name, "%.200s: tensor %" PRIu32, what, i);
    lake_status s = take_tensor(child, name, &specs[i], err);
    if (s != LAKE_OK) return s;
  }
  *count = i;
  return LAKE_OK;
}

static lake_status take_words(const lki_json *json, const char *what, lake_namespace_options *options,
                              lake_error *err) {
  const char *layout = NULL, *codec = NULL;
  lake_status s = lki_json_take_string(json, "layout", what, &layout, err);
  if (s == LAKE_OK) s = lki_json_take_string(json, "codec", what, &codec, err);
  if (s == LAKE_OK) s = lki_json_take_string(json, "note", what, &options->note, err);
  if (s != LAKE_OK) return s;
  if (strcmp(layout, LAYOUT) != 0)
    return lki_fail(err, LAKE_UNSUPPORTED, "%s: \"layout\" is \"%.20s\", which is not known; upgrade", what,
                    layout);
  options->codec = LAKE_CODEC_NONE;
  if (strcmp(codec, codec_name(LAKE_CODEC_ZSTD)) == 0)
    options->codec = LAKE_CODEC_ZSTD;
  else if (strcmp(codec, codec_name(LAKE_CODEC_NONE)) != 0)
    return lki_fail(err, LAKE_UNSUPPORTED, "%s: \"codec\" is \"%.20s\", which is not known; upgrade", what,
                    codec);
  return LAKE_OK;
}

static lake_status take_all(const lki_json *json, const char *what, lki_id *id,
                            lake_namespace_options *options, lake_tensor_spec *specs, lake_error *err) {
  const char *uuid = NULL;
  lake_status s = lki_json_take_string(json, "uuid", what, &uuid, err);
  if (s == LAKE_OK && !lki_id_parse(uuid, id))
    s = lki_fail(err, LAKE_CORRUPT, "%s: \"uuid\" is not an id", what);
  const lki_json *mesh = lki_json_get(json, "mesh");
  if (s == LAKE_OK && !lki_json_is_object(mesh))
    s = lki_fail(err, LAKE_CORRUPT, "%s: \"mesh\" is not an object", what);
  if (s == LAKE_OK) s = take_u32(mesh, "d", LAKE_MESH_MAX, what, &options->mesh.d_count, err);
  if (s == LAKE_OK) s = take_u32(mesh, "c", LAKE_MESH_MAX, what, &options->mesh.c_count, err);
  if (s == LAKE_OK)
    s = take_u32(json, "rows_per_slice", LKI_ROWS_PER_SLICE_MAX, what, &options->rows_per_slice, err);
  if (s == LAKE_OK) s = take_u32(json, "tail_max", LKI_TAIL_MAX_MAX, what, &options->tail_max, err);
  if (s == LAKE_OK)
    s = take_u32(json, "version_block", LKI_VERSION_BLOCK_MAX, what, &options->version_block, err);
  if (s == LAKE_OK) s = take_words(json, what, options, err);
  if (s == LAKE_OK) s = take_tensors(json, what, specs, &options->tensor_count, err);
  options->tensors = specs;
  return s;
}

lake_status lki_namespace_decode(lake_env *env, lake_bytes bytes, const char *what, lki_schema **out,
                                 lake_error *err) {
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  lake_tensor_spec specs[LAKE_TENSOR_COUNT_MAX];
  lki_json *json = NULL;
  lki_id id;
  memset(specs, 0, sizeof specs);
  lake_status s = lki_json_open(bytes, KIND, what, &json, err);
  if (s == LAKE_OK) s = take_all(json, what, &id, &options, specs, err);
  if (s == LAKE_OK) s = lki_json_seal_check(bytes, what, err);
  if (s == LAKE_OK && (s = lki_schema_new(env, &options, id, out, err)) != LAKE_OK) {
    lki_error_prefix(err, "%s", what);
    if (s == LAKE_INVALID) { /* the model refuses what a caller asks for; here it is a file that is wrong */
      s = LAKE_CORRUPT;
      if (err != NULL) err->status = s;
    }
  }
  if (s == LAKE_OK) (*out)->store_mark = take_store_check(json);
  lki_json_free(json);
  return s;
}
