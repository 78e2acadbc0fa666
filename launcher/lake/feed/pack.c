/* The packer. No state beyond lki_pack. */
#include "feed/pack.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS, LABELS, POSITION_IDS, SEGMENT_IDS, LOSS_MASK };

static const struct {
  const char *name;
  lake_dtype dtype;
} tensors[LKI_PACK_TENSOR_COUNT] = {
    [TOKENS] = {"tokens", LAKE_U16},           [LABELS] = {"labels", LAKE_U16},
    [POSITION_IDS] = {"position_ids", LAKE_I32}, [SEGMENT_IDS] = {"segment_ids", LAKE_I32},
    [LOSS_MASK] = {"loss_mask", LAKE_U8},
};

lake_status lki_pack_schema(uint32_t seq_len, uint32_t c_count, lake_tensor_spec specs[LKI_PACK_TENSOR_COUNT],
                            lake_error *err) {
  if (c_count == 0 || seq_len == 0 || seq_len > LKI_SEQ_LEN_MAX)
    return lki_fail(err, LAKE_INVALID, "sequence length %u: choose 1 to %u", seq_len, LKI_SEQ_LEN_MAX);
  if (seq_len % c_count != 0)
    return lki_fail(err, LAKE_INVALID, "sequence length %u does not divide among C = %u ranks; the nearest that does is %u",
                    seq_len, c_count, (seq_len + c_count - 1) / c_count * c_count);
  memset(specs, 0, sizeof(lake_tensor_spec) * LKI_PACK_TENSOR_COUNT);
  for (int i = 0; i < LKI_PACK_TENSOR_COUNT; i++) {
    memcpy(specs[i].name, tensors[i].name, strlen(tensors[i].name) + 1);
    specs[i].dtype = tensors[i].dtype;
    specs[i].rank = 1;
    specs[i].shape[0] = seq_len / c_count;
  }
  return LAKE_OK;
}

lake_status lki_pack_schema_fits(const lake_namespace_info *info, uint32_t *seq_len, lake_error *err) {
  static const char advice[] = "feed into a namespace made by `lake init --text-seq-len` or `lake feed text --create`";
  if (info->tensor_count != LKI_PACK_TENSOR_COUNT)
    return lki_fail(err, LAKE_INVALID, "%s: its schema has %u tensor%s and the text feeder makes %d; %s", info->url,
                    info->tensor_count, info->tensor_count == 1 ? "" : "s", LKI_PACK_TENSOR_COUNT, advice);
  uint64_t chunk = info->tensors[0].rank == 1 ? info->tensors[0].shape[0] : 0;
  for (int i = 0; i < LKI_PACK_TENSOR_COUNT; i++) {
    const lake_tensor_spec *spec = &info->tensors[i];
    if (strcmp(spec->name, tensors[i].name) != 0 || spec->dtype != tensors[i].dtype)
      return lki_fail(err, LAKE_INVALID, "%s: tensor %d of its schema is %s:%s and the text feeder makes %s:%s; %s",
                      info->url, i, spec->name, lake_dtype_name(spec->dtype), tensors[i].name,
                      lake_dtype_name(tensors[i].dtype), advice);
    if (spec->rank != 1 || spec->shape[0] != chunk)
      return lki_fail(err, LAKE_INVALID, "%s: tensor %s of its schema is not one sequence long as the others are; %s",
                      info->url, spec->name, advice);
  }
  uint64_t whole = chunk * info->mesh.c_count;
  if (chunk == 0 || chunk > LKI_SEQ_LEN_MAX || whole > LKI_SEQ_LEN_MAX)
    return lki_fail(err, LAKE_INVALID, "%s: sequences of %llu tokens; the text feeder makes 1 to %u", info->url,
                    (unsigned long long)whole, LKI_SEQ_LEN_MAX);
  *seq_len = (uint32_t)whole;
  return LAKE_OK;
}

static uint64_t align64(uint64_t bytes) { return (bytes + LAKE_TENSOR_ALIGN - 1) / LAKE_TENSOR_ALIGN * LAKE_TENSOR_ALIGN; }

lake_status lki_pack_init(lki_pack *pack, lake_mesh mesh, uint32_t rows, uint32_t seq_len, lake_error *err) {
  lki_pack p = {.mesh = mesh, .rows = rows, .seq_len = seq_len};
  if (mesh.d_count == 0 || mesh.c_count == 0 || rows == 0 || seq_len == 0 || seq_len % mesh.c_count != 0)
    return lki_fail(err, LAKE_INVALID, "packer: mesh %ux%u, %u rows of %u tokens do not divide", mesh.d_count,
                    mesh.c_count, rows, seq_len);
  p.chunk_len = seq_len / mesh.c_count;
  p.token_count_max = (uint64_t)mesh.d_count * rows * seq_len;
  for (int i = 0; i < LKI_PACK_TENSOR_COUNT; i++) {
    p.tensor_offset[i] = align64(p.slice_bytes);
    p.slice_bytes = p.tensor_offset[i] + (uint64_t)rows * p.chunk_len * lake_dtype_bytes(tensors[i].dtype);
  }
  p.slice_bytes = align64(p.slice_bytes);
  if (p.token_count_max > ((uint64_t)1 << 34))
    return lki_fail(err, LAKE_INVALID, "a TGB of %llu tokens is more than the text feeder packs; use fewer rows",
                    (unsigned long long)p.token_count_max);
  p.slices = aligned_alloc(LAKE_TENSOR_ALIGN, p.slice_bytes * mesh.d_count * mesh.c_count);
  if (p.slices == NULL)
    return lki_fail(err, LAKE_NOMEM, "no memory for one TGB of %llu tokens", (unsigned long long)p.token_count_max);
  *pack = p;
  lki_pack_reset(pack);
  return LAKE_OK;
}

void lki_pack_fini(lki_pack *pack) {
  free(pack->slices);
  pack->slices = NULL;
}

static unsigned char *tensor_at(const lki_pack *pack, uint64_t slice, int tensor) {
  return pack->slices + slice * pack->slice_bytes + pack->tensor_offset[tensor];
}

void lki_pack_reset(lki_pack *pack) {
  uint64_t slice_count = (uint64_t)pack->mesh.d_count * pack->mesh.c_count;
  memset(pack->slices, 0, pack->slice_bytes * slice_count);
  for (uint64_t slice = 0; slice < slice_count; slice++) {
    uint16_t *tokens = (uint16_t *)(void *)tensor_at(pack, slice, TOKENS);
    uint16_t *labels = (uint16_t *)(void *)tensor_at(pack, slice, LABELS);
    for (uint64_t i = 0; i < (uint64_t)pack->rows * pack->chunk_len; i++) tokens[i] = labels[i] = LKI_TOKEN_PAD;
  }
  pack->token_count = 0;
  pack->segment = 0;
  pack->row_token_at = 0;
}

static uint16_t token_of(lake_bytes document, uint64_t at) {
  if (at == 0) return LKI_TOKEN_BOS;
  if (at <= document.bytes) return ((const unsigned char *)document.data)[at - 1];
  return at == document.bytes + 1 ? LKI_TOKEN_EOS : LKI_TOKEN_PAD;
}

/* Writes `count` tokens of the document; they lie in one chunk of one row. */
static void put_run(lki_pack *pack, lake_bytes document, uint64_t token_at, uint32_t count) {
  uint64_t row = pack->token_count / pack->seq_len;
  uint32_t column = (uint32_t)(pack->token_count % pack->seq_len);
  uint64_t slice = row / pack->rows * pack->mesh.c_count + column / pack->chunk_len;
  uint64_t base = row % pack->rows * pack->chunk_len + column % pack->chunk_len;
  uint16_t *tokens = (uint16_t *)(void *)tensor_at(pack, slice, TOKENS) + base;
  uint16_t *labels = (uint16_t *)(void *)tensor_at(pack, slice, LABELS) + base;
  int32_t *positions = (int32_t *)(void *)tensor_at(pack, slice, POSITION_IDS) + base;
  int32_t *segments = (int32_t *)(void *)tensor_at(pack, slice, SEGMENT_IDS) + base;
  unsigned char *mask = tensor_at(pack, slice, LOSS_MASK) + base;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t at = token_at + i;
    tokens[i] = token_of(document, at);
    labels[i] = token_of(document, at + 1);
    positions[i] = (int32_t)(at - pack->row_token_at);
    segments[i] = pack->segment;
    mask[i] = labels[i] != LKI_TOKEN_PAD;
  }
  pack->token_count += count;
}

uint64_t lki_pack_document(lki_pack *pack, lake_bytes document, uint64_t token_at) {
  uint64_t token_count = lki_pack_document_tokens(document.bytes);
  assert(token_at <= token_count);
  bool first = true;
  while (token_at < token_count && !lki_pack_full(pack)) {
    uint64_t column = pack->token_count % pack->seq_len;
    if (column == 0) pack->segment = 0;
    if (column == 0 || first) {
      pack->segment++;
      pack->row_token_at = token_at;
    }
    first = false;
    uint64_t run = pack->chunk_len - column % pack->chunk_len;
    if (run > token_count - token_at) run = token_count - token_at;
    put_run(pack, document, token_at, (uint32_t)run);
    token_at += run;
  }
  return token_at;
}

void lki_pack_slices(const lki_pack *pack, lake_bytes *slices) {
  for (uint64_t i = 0; i < (uint64_t)pack->mesh.d_count * pack->mesh.c_count; i++)
    slices[i] = (lake_bytes){pack->slices + i * pack->slice_bytes, (size_t)pack->slice_bytes};
}
