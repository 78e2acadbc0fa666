/* Descriptors, frame lists and segment references: the parts that manifests, segments and footers share.
 * Pure. */
#ifndef LKI_FORMAT_DESCRIPTOR_H
#define LKI_FORMAT_DESCRIPTOR_H

#include "base/codec.h"
#include "format/format.h"

#define LKI_FRAME_ALIGN 64

static inline uint64_t lki_frame_align(uint64_t bytes) {
  return (bytes + (LKI_FRAME_ALIGN - 1)) & ~(uint64_t)(LKI_FRAME_ALIGN - 1);
}

/* A frame list: the smallest, then what each has above it. Decoded numbers lie in arena. */
void lki_put_frame_list(lki_writer *writer, const uint64_t *frame_bytes_each, uint32_t slice_count);
lake_status lki_get_frame_list(lki_reader *reader, uint32_t slice_count, size_t bytes_max, const char *what,
                               lki_arena *arena, uint64_t **out, lake_error *err);
size_t lki_frame_list_bytes(const uint64_t *frame_bytes_each, uint32_t slice_count);
/* Where the footer begins: after the header and all frames. */
uint64_t lki_frames_end(const uint64_t *frame_bytes_each, uint32_t slice_count);

/* A run of descriptors over a table of producer_count producers. */
lake_status lki_put_descriptors(lake_env *env, lki_writer *writer, const lki_descriptor *descriptors,
                                uint32_t count, uint32_t producer_count, lake_error *err);
lake_status lki_get_descriptors(lake_env *env, lki_reader *reader, uint32_t count, uint32_t producer_count,
                                const char *what, lki_arena *arena, lki_descriptor **out, lake_error *err);

/* A count, then references whose first steps follow from *first_step. */
void lki_put_segment_refs(lki_writer *writer, const lki_segment_ref *refs, uint32_t count);
lake_status lki_get_segment_refs(lki_reader *reader, uint64_t first_step, uint32_t count_max,
                                 const char *what, lki_arena *arena, lki_segment_ref **out, uint32_t *count,
                                 lake_error *err);

/* A blob without NUL bytes as text in arena; NULL after it marked the reader bad or memory was short. */
char *lki_get_text(lki_reader *reader, size_t max, lki_arena *arena);

lake_status lki_fail_damaged(const char *what, const char *part, lake_error *err);
lake_status lki_fail_memory(const char *what, lake_error *err);

#endif
