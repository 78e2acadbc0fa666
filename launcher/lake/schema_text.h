/* A schema as people write it: `name:dtype:SHAPE` on the command line, or a JSON file. Pure but for reading the file. */
#ifndef LKI_LAUNCHER_SCHEMA_TEXT_H
#define LKI_LAUNCHER_SCHEMA_TEXT_H

#include "base/error.h"
#include "base/json.h"
#include <lakestream/lakestream.h>

#define LKI_NOTE_TEXT_BYTES 1025

/* Room for what namespace options point to. */
typedef struct lki_schema_room {
  lake_tensor_spec tensors[LAKE_TENSOR_COUNT_MAX];
  char note[LKI_NOTE_TEXT_BYTES];
} lki_schema_room;

/* "tokens:u16:128", "image:u8:3x224x224", "weight:f32:-" (a scalar a row). */
lake_status lki_schema_text_tensor(const char *text, lake_tensor_spec *spec, lake_error *err);
bool lki_schema_text_dtype(const char *name, lake_dtype *dtype);
lake_status lki_schema_text_codec(const char *name, uint32_t *codec, lake_error *err);
/* A JSON object: {"mesh": {"d": 4, "c": 2} or "4x2", "rows_per_slice": 8, "codec": "zstd", "tail_max": 128, "version_block": 1024, "note": "...",
 * "tensors": [{"name": "tokens", "dtype": "u16", "shape": [128]}]}. Every member may be absent; an unknown one is refused,
 * but for those that say which namespace a lakestream.json is, so that one can be used for the next run. */
lake_status lki_schema_text_file(lake_env *env, const char *path, lki_schema_room *room,
                                 lake_namespace_options *options, lake_error *err);

#endif
