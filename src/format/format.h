/* Bytes <-> model, pure: docs/format/ is normative. Every decoder checks magic, format version, length, checksum and
 * every limit before it allocates, and answers CORRUPT (UNSUPPORTED for a newer version) with the reason. `what` names
 * the object in errors. Encoders append to `out`, whose bytes_max bounds them. */
#ifndef LKI_FORMAT_FORMAT_H
#define LKI_FORMAT_FORMAT_H

#include "model/manifest.h"
#include "format/names.h"
#include "model/schema.h"

#define LKI_FORMAT_VERSION 1
#define LKI_MANIFEST_BYTES_MAX ((size_t)64 << 20)
#define LKI_SEGMENT_BYTES_MAX ((size_t)16 << 20)
#define LKI_TGB_HEADER_BYTES 64
#define LKI_FRAME_TRAILER_BYTES 32
#define LKI_FOOTER_BYTES_MAX ((size_t)2 << 20)
#define LKI_SLICE_BYTES_MAX ((uint64_t)1 << 40)

/* manifest.c; decode runs lki_manifest_check, encode too. namespace_id NULL: any. */
lake_status lki_manifest_encode(lake_env *env, const lki_manifest *manifest, lake_buffer *out, lake_error *err);
lake_status lki_manifest_decode(lake_env *env, lake_bytes bytes, const lki_id *namespace_id, const char *what,
                                lki_manifest **out, lake_error *err);

/* segment.c */
lake_status lki_segment_encode(lake_env *env, const lki_segment *segment, lake_buffer *out, lake_error *err);
lake_status lki_segment_decode(lake_env *env, lake_bytes bytes, const lki_id *namespace_id, const char *what,
                               lki_segment **out, lake_error *err);

/* hint.c: the newest version a writer knew; never trusted. */
lake_status lki_hint_encode(uint64_t version, lake_buffer *out, lake_error *err);
lake_status lki_hint_decode(lake_bytes bytes, uint64_t *version, lake_error *err);

/* frame.c: a slice as it lies in a TGB object: stored bytes, then a 32-byte trailer that says codec, slice index,
 * length in memory and the checksum, seeded by the TGB's identity so that another slice cannot pass for it. */
typedef struct lki_frame_key {
  uint64_t tgb_hash; /* lki_tgb_hash() */
  uint32_t slice;    /* d*C + c */
} lki_frame_key;

uint64_t lki_tgb_hash(const lki_id *namespace_id, const char *producer_id, uint64_t epoch, uint64_t seq);
/* Appends one frame. zstd: try it, keep it only where it saves at least 1/16. */
lake_status lki_frame_encode(lake_env *env, lake_bytes slice, lki_frame_key key, bool zstd, lake_buffer *out,
                             lake_error *err);
/* Verifies a frame in memory. *slice_bytes: its length decoded. */
lake_status lki_frame_check(lake_bytes frame, lki_frame_key key, uint64_t *slice_bytes, bool *compressed,
                            lake_error *err);
/* The slice of a frame that lki_frame_check passed: a view into frame when stored as is, else decompressed into dst,
 * which has room for slice_bytes. */
lake_status lki_frame_decode(lake_env *env, lake_bytes frame, lake_bytes *slice, void *dst, size_t dst_bytes,
                             lake_error *err);

/* tgb.c: header (64 bytes), frames each begun on a 64-byte boundary (zero padding between), footer. */
typedef struct lki_tgb_footer {
  lki_id namespace_id;
  char producer_id[LKI_PRODUCER_ID_BYTES_MAX + 1];
  uint64_t epoch, seq;
  uint32_t slice_count;
  uint64_t *frame_bytes_each; /* slice_count, in the caller's arena */
  uint64_t object_bytes;
} lki_tgb_footer;

/* Encodes a whole TGB object and fills its descriptor but for `producer`; frame_bytes_each lies in arena. */
lake_status lki_tgb_encode(lake_env *env, const lki_id *namespace_id, const char *producer_id, uint64_t epoch,
                           uint64_t seq, const lake_bytes *slices, uint32_t slice_count, bool zstd, lki_arena *arena,
                           lake_buffer *out, lki_descriptor *descriptor, lake_error *err);
/* Decodes the last bytes of an object (at least the footer; the descriptor says how many). */
lake_status lki_tgb_footer_decode(lake_env *env, lake_bytes tail, uint64_t object_bytes, const char *what,
                                  lki_arena *arena, lki_tgb_footer *footer, lake_error *err);
lake_status lki_tgb_header_check(lake_bytes header, const char *what, lake_error *err);
/* Where slice's frame lies, by UNIFORM or PACKED layout (from a footer: fill a PACKED descriptor first). */
lake_status lki_frame_locate(const lki_descriptor *descriptor, uint32_t slice, uint64_t *offset, uint64_t *bytes,
                             lake_error *err);

/* namespace.c: lakestream.json. */
lake_status lki_namespace_encode(const lki_schema *schema, lake_buffer *out, lake_error *err);
lake_status lki_namespace_decode(lake_env *env, lake_bytes bytes, const char *what, lki_schema **out, lake_error *err);

/* pin.c: watermark/<group>/<checkpoint>.json. */
typedef struct lki_pin {
  lki_id namespace_id;
  uint64_t row;
  uint64_t step;    /* first step the checkpoint needs */
  uint64_t version; /* hint */
} lki_pin;
lake_status lki_pin_encode(const lki_pin *pin, lake_buffer *out, lake_error *err);
lake_status lki_pin_decode(lake_bytes bytes, const char *what, lki_pin *pin, lake_error *err);

/* announcement.c: a TGB that is uploaded and not yet committed, for whoever commits next. */
#define LKI_ANNOUNCEMENT_BYTES_MAX 4096
typedef struct lki_announcement {
  lki_id namespace_id;
  const char *producer_id;
  lki_descriptor descriptor; /* with epoch and seq; `producer` is not used */
  uint64_t offset;
  lake_bytes state;
} lki_announcement;
lake_status lki_announcement_encode(lake_env *env, const lki_announcement *announcement, lake_buffer *out,
                                    lake_error *err);
lake_status lki_announcement_decode(lake_env *env, lake_bytes bytes, const lki_id *namespace_id,
                                    const struct lki_announcement_key *key, const char *what, lki_arena *arena,
                                    lki_announcement *out, lake_error *err);

/* cursor.c: "lake1-<32 hex namespace>-<row>-<version>-<8 hex check>". text has LAKE_CURSOR_BYTES. */
typedef struct lki_cursor {
  lki_id namespace_id;
  uint64_t row;
  uint64_t version; /* hint */
} lki_cursor;
void lki_cursor_format(const lki_cursor *cursor, char *text);
lake_status lki_cursor_parse(const char *text, lki_cursor *cursor, lake_error *err);

/* ids.c: "8-4-4-4-12" lower-case hexadecimal; text has 37 bytes. */
void lki_id_format(lki_id id, char *text);
bool lki_id_parse(const char *text, lki_id *id);

#endif
