/* Random objects from a seed, within every limit: for round trips, the second decoder and fuzzing. */
#ifndef LAKE_TESTS_SAMPLE_H
#define LAKE_TESTS_SAMPLE_H

#include "base/rng.h"
#include "format/format.h"

/* A number whose length in bits is random, so that short and long ones both come. */
uint64_t sample_number(lki_rng *rng, unsigned bits_max);
lki_id sample_id(lki_rng *rng);

/* Each ends the program when memory is short; the caller releases what it gets. */
lki_manifest *sample_manifest(lake_env *env, lki_rng *rng);
lki_segment *sample_segment(lake_env *env, lki_rng *rng);
lki_schema *sample_schema(lake_env *env, lki_rng *rng);

/* Slices of a TGB in one arena: empty ones, long ones, ones that compress, equal lengths or not. */
lake_bytes *sample_slices(lki_arena *arena, lki_rng *rng, uint32_t *slice_count);

/* An environment that counts its memory and can be told to fail: NULL from allocation number fail_at on (0:
 * never). The counts cover all since they were last zeroed. */
typedef struct sample_memory {
  size_t live_bytes, live_count; /* allocated and not freed */
  size_t peak_bytes;
  size_t alloc_count;
  size_t fail_at;
} sample_memory;
lake_env *sample_env(sample_memory *memory);

#endif
