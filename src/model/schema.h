/* What a namespace's slices hold: identity, mesh, rows, tensors. Immutable once made. Pure. */
#ifndef LKI_MODEL_SCHEMA_H
#define LKI_MODEL_SCHEMA_H

#include "model/manifest.h"
#include <lakestream/namespace.h>

#define LKI_ROWS_PER_SLICE_MAX ((uint32_t)1 << 24)
#define LKI_TAIL_MAX_MAX 8192u
#define LKI_VERSION_BLOCK_MAX (1u << 20)
#define LKI_NOTE_BYTES_MAX 1024

/* Whether the store has shown that it keeps the promises that commits rest on, before the namespace was created there. */
typedef enum lki_store_mark {
  LKI_STORE_UNPROVEN, /* it was not asked: there was no need, or nobody knew to */
  LKI_STORE_PROVEN,
  LKI_STORE_FORCED    /* whoever created the namespace did not want to know */
} lki_store_mark;

typedef struct lki_schema {
  lki_arena arena; /* holds tensors and note */
  lki_id namespace_id;
  lake_mesh mesh;
  uint32_t rows_per_slice;
  uint32_t tensor_count;
  const lake_tensor_spec *tensors;
  lake_codec codec; /* NONE or ZSTD */
  uint32_t tail_max;
  uint32_t version_block; /* manifest versions reclaimed together, under one boundary mark */
  const char *note;     /* never NULL */
  uint64_t slice_bytes; /* of a typed slice; 0: raw */
  lki_store_mark store_mark;
} lki_schema;

/* From options (defaults applied) and an id; checks every limit. INVALID with the reason. */
lake_status lki_schema_new(lake_env *env, const lake_namespace_options *options, lki_id namespace_id, lki_schema **out,
                           lake_error *err);
void lki_schema_free(lki_schema *schema); /* NULL accepted */

/* Offset and length in bytes of tensor i in a slice. */
void lki_schema_tensor_range(const lki_schema *schema, uint32_t i, uint64_t *offset, uint64_t *bytes);
/* Fills views; see lake_slice_tensors. */
lake_status lki_schema_slice_tensors(const lki_schema *schema, const void *slice, size_t slice_bytes,
                                     lake_tensor *tensors, uint32_t capacity, uint32_t *count, lake_error *err);

#endif
