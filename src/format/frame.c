/* Frames: docs/format/tgb.md. A slice's stored bytes come first and begin on a 64-byte boundary of the
 * object, so a frame that was read into an aligned buffer holds a slice that needs no copy. Pure. */
#include "format/frame.h"
#include "base/buffer.h"
#include "base/checksum.h"
#include "base/codec.h"
#include "base/env.h"
#include "base/error.h"
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define FRAME_MAGIC 0x4d52464cu /* "LFRM" */
#define CHECKED_BYTES 24        /* of the trailer, before the checksum itself */
#define SLICE_LEVEL 3

uint64_t lki_tgb_hash(const lki_id *namespace_id, const char *producer_id, uint64_t epoch, uint64_t seq) {
  unsigned char bytes[LKI_ID_BYTES + 16 + LKI_PRODUCER_ID_BYTES_MAX];
  lake_buffer fixed;
  lki_writer writer;
  lki_buffer_init_fixed(&fixed, NULL, bytes, sizeof bytes);
  lki_writer_init(&writer, &fixed);
  lki_put_bytes(&writer, namespace_id->bytes, LKI_ID_BYTES);
  lki_put_u64(&writer, epoch);
  lki_put_u64(&writer, seq);
  lki_put_bytes(&writer, producer_id, strlen(producer_id));
  assert(writer.status == LAKE_OK);
  return lki_checksum(fixed.data, fixed.bytes, 0);
}

/* Compressed into out's spare room, or false: it saves less than 1/16. */
static bool append_compressed(lki_compressor *compressor, lake_bytes slice, lake_buffer *out) {
  size_t bytes = 0, room = slice.bytes - slice.bytes / 16;
  if (compressor == NULL || slice.bytes < 16) return false;
  if (!lki_compress(compressor, slice, SLICE_LEVEL, out->data + out->bytes, room, &bytes)) return false;
  out->bytes += bytes;
  return true;
}

lake_status lki_frame_append(lki_compressor *compressor, lake_bytes slice, lki_frame_key key,
                             lake_buffer *out, lake_error *err) {
  size_t start = out->bytes;
  lki_writer writer;
  if (slice.bytes > LKI_SLICE_BYTES_MAX)
    return lki_fail(err, LAKE_INVALID, "slice %" PRIu32 ": %zu bytes; at most 2^40 are possible", key.slice,
                    slice.bytes);
  lake_status s = lki_buffer_reserve(out, start + slice.bytes + LKI_FRAME_TRAILER_BYTES, err);
  if (s != LAKE_OK) return s;
  bool compressed = append_compressed(compressor, slice, out);
  lki_writer_init(&writer, out);
  if (!compressed) lki_put_bytes(&writer, slice.data, slice.bytes);
  lki_put_u32(&writer, FRAME_MAGIC);
  lki_put_u32(&writer, key.slice);
  lki_put_u64(&writer, slice.bytes);
  lki_put_u64(&writer, compressed ? LAKE_CODEC_ZSTD : LAKE_CODEC_NONE); /* one byte and seven zeroes */
  lki_put_u64(&writer, lki_checksum(out->data + start, out->bytes - start, key.tgb_hash));
  assert(writer.status == LAKE_OK); /* the room was reserved */
  return LAKE_OK;
}

lake_status lki_frame_encode(lake_env *env, lake_bytes slice, lki_frame_key key, bool zstd, lake_buffer *out,
                             lake_error *err) {
  lki_compressor *compressor = zstd ? lki_compressor_open(env) : NULL;
  if (zstd && compressor == NULL)
    return lki_fail(err, LAKE_NOMEM, "slice %" PRIu32 ": out of memory", key.slice);
  lake_status s = lki_frame_append(compressor, slice, key, out, err);
  lki_compressor_close(compressor);
  return s;
}

typedef struct trailer {
  uint32_t magic, slice;
  uint64_t slice_bytes, codec, checksum;
} trailer;

/* frame.bytes is at least LKI_FRAME_TRAILER_BYTES. */
static trailer read_trailer(lake_bytes frame) {
  lki_reader reader;
  trailer t;
  lake_bytes bytes = {(const unsigned char *)frame.data + frame.bytes - LKI_FRAME_TRAILER_BYTES,
                      LKI_FRAME_TRAILER_BYTES};
  lki_reader_init(&reader, bytes);
  t.magic = lki_get_u32(&reader);
  t.slice = lki_get_u32(&reader);
  t.slice_bytes = lki_get_u64(&reader);
  t.codec = lki_get_u64(&reader);
  t.checksum = lki_get_u64(&reader);
  return t;
}

lake_status lki_frame_check(lake_bytes frame, lki_frame_key key, uint64_t *slice_bytes, bool *compressed,
                            lake_error *err) {
  if (frame.bytes < LKI_FRAME_TRAILER_BYTES)
    return lki_fail(err, LAKE_CORRUPT, "frame of slice %" PRIu32 ": truncated: %zu bytes", key.slice,
                    frame.bytes);
  trailer t = read_trailer(frame);
  lake_bytes stored = {frame.data, frame.bytes - LKI_FRAME_TRAILER_BYTES};
  if (t.magic != FRAME_MAGIC)
    return lki_fail(err, LAKE_CORRUPT, "frame of slice %" PRIu32 ": no frame ends here (wrong magic)",
                    key.slice);
  if (t.slice != key.slice)
    return lki_fail(err, LAKE_CORRUPT, "frame of slice %" PRIu32 ": holds slice %" PRIu32, key.slice,
                    t.slice);
  if (lki_checksum(frame.data, stored.bytes + CHECKED_BYTES, key.tgb_hash) != t.checksum)
    return lki_fail(err, LAKE_CORRUPT,
                    "frame of slice %" PRIu32 ": the checksum does not match (damaged, or of another TGB)",
                    key.slice);
  if (t.codec != LAKE_CODEC_NONE && t.codec != LAKE_CODEC_ZSTD)
    return lki_fail(err, LAKE_UNSUPPORTED,
                    "frame of slice %" PRIu32 ": written by a newer Lakestream (codec %" PRIu64 "); upgrade",
                    key.slice, t.codec);
  bool zstd = t.codec == LAKE_CODEC_ZSTD;
  bool fits = t.slice_bytes <= LKI_SLICE_BYTES_MAX &&
              (zstd ? lki_compressed_check(stored, t.slice_bytes) : t.slice_bytes == stored.bytes);
  if (!fits)
    return lki_fail(err, LAKE_CORRUPT,
                    "frame of slice %" PRIu32 ": %zu stored bytes do not make the %" PRIu64 " it claims",
                    key.slice, stored.bytes, t.slice_bytes);
  *slice_bytes = t.slice_bytes;
  *compressed = zstd;
  return LAKE_OK;
}

lake_status lki_frame_decode(lake_env *env, lake_bytes frame, lake_bytes *slice, void *dst, size_t dst_bytes,
                             lake_error *err) {
  assert(frame.bytes >= LKI_FRAME_TRAILER_BYTES);
  trailer t = read_trailer(frame);
  lake_bytes stored = {frame.data, frame.bytes - LKI_FRAME_TRAILER_BYTES};
  if (t.codec == LAKE_CODEC_NONE) {
    *slice = stored;
    return LAKE_OK;
  }
  if (t.slice_bytes > dst_bytes)
    return lki_fail(err, LAKE_INVALID, "frame of slice %" PRIu32 ": %" PRIu64 " bytes do not fit into %zu",
                    t.slice, t.slice_bytes, dst_bytes);
  lake_status s = lki_decompress(env, stored, dst, (size_t)t.slice_bytes);
  if (s == LAKE_NOMEM) return lki_fail(err, s, "frame of slice %" PRIu32 ": out of memory", t.slice);
  if (s != LAKE_OK) return lki_fail(err, s, "frame of slice %" PRIu32 ": cannot be decompressed", t.slice);
  slice->data = dst;
  slice->bytes = (size_t)t.slice_bytes;
  return LAKE_OK;
}
