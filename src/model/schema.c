/* What a namespace's slices hold. Invariants: a schema that exists is within every limit; slice_bytes is the
 * sum of its tensors' bytes, each rounded up to LAKE_TENSOR_ALIGN, so the last is padded too. Pure and
 * immutable. */
#include "model/schema.h"
#include "base/env.h"
#include <inttypes.h>
#include <string.h>

#define TAIL_MAX_DEFAULT 128
#define VERSION_BLOCK_DEFAULT 1024
#define SLICE_BYTES_MAX ((uint64_t)1 << 40)

static uint64_t align_up(uint64_t bytes) {
  return (bytes + (LAKE_TENSOR_ALIGN - 1)) & ~(uint64_t)(LAKE_TENSOR_ALIGN - 1);
}

static bool name_valid(const char *name, size_t room) {
  if (memchr(name, 0, room) == NULL || name[0] == 0 || (name[0] >= '0' && name[0] <= '9')) return false;
  for (; *name != 0; name++) {
    char c = *name;
    if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'))
      return false;
  }
  return true;
}

/* Bytes of rows rows of one tensor; 0: above the limit. Every factor is at least 1. */
static uint64_t tensor_bytes(const lake_tensor_spec *spec, uint32_t rows) {
  uint64_t bytes = lake_dtype_bytes(spec->dtype) * (uint64_t)rows;
  for (uint32_t i = 0; i < spec->rank; i++) {
    if (spec->shape[i] > SLICE_BYTES_MAX / bytes) return 0;
    bytes *= spec->shape[i];
  }
  return bytes;
}

static lake_status check_tensor(const lake_tensor_spec *specs, uint32_t i, lake_error *err) {
  const lake_tensor_spec *spec = &specs[i];
  if (!name_valid(spec->name, sizeof spec->name))
    return lki_fail(err, LAKE_INVALID,
                    "tensor %" PRIu32 ": a name is [A-Za-z_][A-Za-z0-9_]*, at most 63 characters", i);
  for (uint32_t j = 0; j < i; j++)
    if (strcmp(specs[j].name, spec->name) == 0)
      return lki_fail(err, LAKE_INVALID, "tensor %" PRIu32 ": the name \"%s\" is taken by tensor %" PRIu32, i,
                      spec->name, j);
  if (lake_dtype_bytes(spec->dtype) == 0)
    return lki_fail(err, LAKE_INVALID, "tensor \"%s\": dtype %d is not known", spec->name, (int)spec->dtype);
  if (spec->rank > LAKE_TENSOR_RANK_MAX)
    return lki_fail(err, LAKE_INVALID, "tensor \"%s\": %" PRIu32 " dimensions; at most %d are possible",
                    spec->name, spec->rank, LAKE_TENSOR_RANK_MAX);
  for (uint32_t j = 0; j < spec->rank; j++)
    if (spec->shape[j] == 0)
      return lki_fail(err, LAKE_INVALID, "tensor \"%s\": dimension %" PRIu32 " is 0", spec->name, j);
  return LAKE_OK;
}

static lake_status check_tensors(const lake_namespace_options *o, uint64_t *slice_bytes, lake_error *err) {
  uint64_t total = 0;
  if (o->tensor_count > LAKE_TENSOR_COUNT_MAX)
    return lki_fail(err, LAKE_INVALID, "%" PRIu32 " tensors; at most %d are possible", o->tensor_count,
                    LAKE_TENSOR_COUNT_MAX);
  if (o->tensor_count > 0 && o->tensors == NULL)
    return lki_fail(err, LAKE_INVALID, "%" PRIu32 " tensors, but tensors is NULL", o->tensor_count);
  if (o->tensor_count == 0 && o->rows_per_slice != 1)
    return lki_fail(err, LAKE_INVALID,
                    "raw slices hold one row, not %" PRIu32 ": declare tensors, or set rows to 1",
                    o->rows_per_slice);
  for (uint32_t i = 0; i < o->tensor_count; i++) {
    lake_status s = check_tensor(o->tensors, i, err);
    if (s != LAKE_OK) return s;
    uint64_t bytes = tensor_bytes(&o->tensors[i], o->rows_per_slice);
    total += align_up(bytes); /* no overflow: 64 times 2^40 */
    if (bytes == 0 || total > SLICE_BYTES_MAX)
      return lki_fail(err, LAKE_INVALID, "tensor \"%s\": the slice grows above 2^40 bytes; use fewer rows",
                      o->tensors[i].name);
  }
  *slice_bytes = total;
  return LAKE_OK;
}

/* Bytes of the UTF-8 character at p; 0: there is none. */
static size_t utf8_bytes(const unsigned char *p) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* a smaller code has a shorter form */
  if (p[0] < 0x80) return 1;
  if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
  size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
  uint32_t code = p[0] & (0xffu >> (n + 1));
  for (size_t i = 1; i < n; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (p[i] & 0x3fu);
  }
  return code < least[n] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff ? 0 : n;
}

/* UTF-8 without control characters other than tab and line feed: the note goes into a JSON file. */
static bool note_valid(const char *note) {
  const unsigned char *p = (const unsigned char *)note;
  while (*p != 0) {
    size_t n = utf8_bytes(p);
    if (n == 0 || (*p < 0x20 && *p != '\t' && *p != '\n') || *p == 0x7f) return false;
    p += n;
  }
  return true;
}

static lake_status check_rest(const lake_namespace_options *o, lake_error *err) {
  if (o->mesh.d_count == 0 || o->mesh.c_count == 0 || o->mesh.d_count > LAKE_MESH_MAX / o->mesh.c_count)
    return lki_fail(err, LAKE_INVALID, "mesh %" PRIu32 "x%" PRIu32 ": both at least 1, D*C at most %d",
                    o->mesh.d_count, o->mesh.c_count, LAKE_MESH_MAX);
  if (o->rows_per_slice > LKI_ROWS_PER_SLICE_MAX)
    return lki_fail(err, LAKE_INVALID, "%" PRIu32 " rows per slice; at most %" PRIu32 " are possible",
                    o->rows_per_slice, LKI_ROWS_PER_SLICE_MAX);
  if (o->codec != LAKE_CODEC_NONE && o->codec != LAKE_CODEC_ZSTD)
    return lki_fail(err, LAKE_INVALID, "codec %" PRIu32 " is not known", o->codec);
  if (o->force > 1) return lki_fail(err, LAKE_INVALID, "force is 0 or 1, not %" PRIu32, o->force);
  if (o->tail_max > LKI_TAIL_MAX_MAX)
    return lki_fail(err, LAKE_INVALID, "tail_max %" PRIu32 "; at most %u is possible", o->tail_max,
                    LKI_TAIL_MAX_MAX);
  if (o->version_block > LKI_VERSION_BLOCK_MAX)
    return lki_fail(err, LAKE_INVALID, "version_block %" PRIu32 "; at most %u is possible", o->version_block,
                    LKI_VERSION_BLOCK_MAX);
  if (strlen(o->note) > LKI_NOTE_BYTES_MAX || !note_valid(o->note))
    return lki_fail(err, LAKE_INVALID, "note: at most %d bytes of UTF-8 without control characters",
                    LKI_NOTE_BYTES_MAX);
  return LAKE_OK;
}

static void apply_defaults(lake_namespace_options *o) {
  if (o->mesh.d_count == 0 && o->mesh.c_count == 0) o->mesh.d_count = o->mesh.c_count = 1;
  if (o->rows_per_slice == 0) o->rows_per_slice = 1;
  if (o->codec == LAKE_CODEC_DEFAULT) o->codec = LAKE_CODEC_NONE;
  if (o->tail_max == 0) o->tail_max = TAIL_MAX_DEFAULT;
  if (o->version_block == 0) o->version_block = VERSION_BLOCK_DEFAULT;
  if (o->note == NULL) o->note = "";
}

lake_status lki_schema_new(lake_env *env, const lake_namespace_options *options, lki_id namespace_id,
                           lki_schema **out, lake_error *err) {
  lake_namespace_options o;
  uint64_t slice_bytes = 0;
  lake_status s = lki_options_copy(&o, sizeof o, options, "lake_namespace_options", err);
  if (s != LAKE_OK) return s;
  apply_defaults(&o);
  s = check_rest(&o, err);
  if (s == LAKE_OK) s = check_tensors(&o, &slice_bytes, err);
  if (s != LAKE_OK) return s;
  lki_schema *schema = lki_new(env, sizeof *schema);
  if (schema == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for a schema");
  lki_arena_init(&schema->arena, env);
  schema->namespace_id = namespace_id;
  schema->mesh = o.mesh;
  schema->rows_per_slice = o.rows_per_slice;
  schema->tensor_count = o.tensor_count;
  schema->codec = (lake_codec)o.codec;
  schema->tail_max = o.tail_max;
  schema->version_block = o.version_block;
  schema->slice_bytes = slice_bytes;
  schema->store_mark = o.force != 0 ? LKI_STORE_FORCED : LKI_STORE_UNPROVEN;
  schema->tensors = lki_arena_copy(&schema->arena, o.tensors, o.tensor_count * sizeof *o.tensors);
  schema->note = lki_arena_strndup(&schema->arena, o.note, strlen(o.note));
  if (schema->tensors == NULL || schema->note == NULL) {
    lki_schema_free(schema);
    return lki_fail(err, LAKE_NOMEM, "out of memory for a schema");
  }
  *out = schema;
  return LAKE_OK;
}

void lki_schema_free(lki_schema *schema) {
  if (schema == NULL) return;
  lake_env *env = schema->arena.env;
  lki_arena_free(&schema->arena);
  lki_free(env, schema);
}

void lki_schema_tensor_range(const lki_schema *schema, uint32_t i, uint64_t *offset, uint64_t *bytes) {
  uint64_t at = 0;
  for (uint32_t j = 0; j < i; j++) at += align_up(tensor_bytes(&schema->tensors[j], schema->rows_per_slice));
  *offset = at;
  *bytes = tensor_bytes(&schema->tensors[i], schema->rows_per_slice);
}

lake_status lki_schema_slice_tensors(const lki_schema *schema, const void *slice, size_t slice_bytes,
                                     lake_tensor *tensors, uint32_t capacity, uint32_t *count,
                                     lake_error *err) {
  if (schema->tensor_count == 0)
    return lki_fail(err, LAKE_INVALID, "the namespace declares no tensors: its slices are raw bytes");
  if (slice_bytes != schema->slice_bytes || (uintptr_t)slice % LAKE_TENSOR_ALIGN != 0)
    return lki_fail(err, LAKE_INVALID,
                    "a slice of this namespace is %" PRIu64 " bytes on a %d-byte boundary, not %zu",
                    schema->slice_bytes, LAKE_TENSOR_ALIGN, slice_bytes);
  if (capacity < schema->tensor_count)
    return lki_fail(err, LAKE_INVALID, "room for %" PRIu32 " tensors; there are %" PRIu32, capacity,
                    schema->tensor_count);
  uint64_t at = 0;
  for (uint32_t i = 0; i < schema->tensor_count; i++) {
    const lake_tensor_spec *spec = &schema->tensors[i];
    uint64_t bytes = tensor_bytes(spec, schema->rows_per_slice);
    memset(&tensors[i], 0, sizeof tensors[i]);
    tensors[i].name = spec->name;
    tensors[i].dtype = spec->dtype;
    tensors[i].rank = spec->rank + 1;
    tensors[i].shape[0] = schema->rows_per_slice;
    memcpy(&tensors[i].shape[1], spec->shape, spec->rank * sizeof spec->shape[0]);
    tensors[i].data = (const unsigned char *)slice + at;
    tensors[i].bytes = (size_t)bytes;
    at += align_up(bytes);
  }
  *count = schema->tensor_count;
  return LAKE_OK;
}
