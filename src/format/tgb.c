/* TGB objects: docs/format/tgb.md. Header, frames, footer; the footer repeats who wrote the object and lists
 * every frame, so that an object explains itself without any manifest. Pure. */
#include "base/checksum.h"
#include "base/env.h"
#include "format/descriptor.h"
#include "format/envelope.h"
#include "format/frame.h"
#include "format/names.h"
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define HEADER_MAGIC "LAKE-TGB"
#define HEADER_CHECKED_BYTES 56
#define FOOTER_MAGIC "LAKE-FTR"
#define FOOTER_TRAILER_BYTES 24 /* length, version, flags, magic, checksum */

static lake_status put_header(const lki_id *namespace_id, uint64_t tgb_hash, lake_buffer *out,
                              lake_error *err) {
  size_t start = out->bytes;
  lki_writer writer;
  lake_status s = lki_buffer_reserve(out, start + LKI_TGB_HEADER_BYTES, err);
  if (s != LAKE_OK) return s;
  lki_writer_init(&writer, out);
  lki_put_bytes(&writer, HEADER_MAGIC, 8);
  lki_put_u16(&writer, LKI_FORMAT_VERSION);
  lki_put_u16(&writer, 0);
  lki_put_u32(&writer, 0);
  lki_put_bytes(&writer, namespace_id->bytes, LKI_ID_BYTES);
  lki_put_u64(&writer, tgb_hash);
  lki_put_u64(&writer, 0);
  lki_put_u64(&writer, 0);
  lki_put_u64(&writer, lki_checksum(out->data + start, HEADER_CHECKED_BYTES, 0));
  assert(writer.status == LAKE_OK && out->bytes == start + LKI_TGB_HEADER_BYTES);
  return LAKE_OK;
}

lake_status lki_tgb_header_check(lake_bytes header, const char *what, lake_error *err) {
  const unsigned char *p = header.data;
  lki_reader reader;
  if (header.bytes < LKI_TGB_HEADER_BYTES)
    return lki_fail(err, LAKE_CORRUPT, "%s: truncated: %zu bytes", what, header.bytes);
  if (memcmp(p, HEADER_MAGIC, 8) != 0)
    return lki_fail(err, LAKE_CORRUPT, "%s: not a TGB (wrong magic)", what);
  lki_reader_init(&reader, header);
  lki_get_bytes(&reader, 8);
  lake_status s = lki_format_version_check(lki_get_u16(&reader), what, err);
  if (s != LAKE_OK) return s;
  uint64_t reserved = lki_get_u16(&reader);
  reserved |= lki_get_u32(&reader);
  lki_get_bytes(&reader, LKI_ID_BYTES + 8);
  reserved |= lki_get_u64(&reader);
  reserved |= lki_get_u64(&reader);
  if (lki_get_u64(&reader) != lki_checksum(p, HEADER_CHECKED_BYTES, 0))
    return lki_fail(err, LAKE_CORRUPT, "%s: the header's checksum does not match", what);
  if (reserved != 0) return lki_fail(err, LAKE_CORRUPT, "%s: unknown flags in the header", what);
  return LAKE_OK;
}

/* Appends the frames and lists their lengths. */
static lake_status put_frames(lki_compressor *compressor, const lake_bytes *slices, uint32_t slice_count,
                              uint64_t tgb_hash, size_t object_start, uint64_t *frame_bytes_each,
                              lake_buffer *out, lake_error *err) {
  static const unsigned char zeroes[LKI_FRAME_ALIGN];
  for (uint32_t i = 0; i < slice_count; i++) {
    lki_frame_key key = {tgb_hash, i};
    size_t start = out->bytes;
    lake_status s = lki_frame_append(compressor, slices[i], key, out, err);
    if (s != LAKE_OK) return s;
    frame_bytes_each[i] = out->bytes - start;
    size_t used = out->bytes - object_start;
    s = lki_buffer_append(out, zeroes, (size_t)(lki_frame_align(used) - used), err);
    if (s != LAKE_OK) return s;
  }
  return LAKE_OK;
}

static lake_status put_footer(const lki_tgb_footer *footer, lake_buffer *out, lake_error *err) {
  size_t start = out->bytes;
  lki_writer writer;
  lake_bytes id = {footer->producer_id, strlen(footer->producer_id)};
  lki_writer_init(&writer, out);
  lki_put_bytes(&writer, footer->namespace_id.bytes, LKI_ID_BYTES);
  lki_put_blob(&writer, id);
  lki_put_varint(&writer, footer->epoch);
  lki_put_varint(&writer, footer->seq);
  lki_put_varint(&writer, footer->slice_count);
  lki_put_frame_list(&writer, footer->frame_bytes_each, footer->slice_count);
  lki_put_u32(&writer, (uint32_t)(out->bytes - start + FOOTER_TRAILER_BYTES));
  lki_put_u16(&writer, LKI_FORMAT_VERSION);
  lki_put_u16(&writer, 0);
  lki_put_bytes(&writer, FOOTER_MAGIC, 8);
  if (writer.status == LAKE_OK) lki_put_u64(&writer, lki_checksum(out->data + start, out->bytes - start, 0));
  if (writer.status != LAKE_OK)
    return lki_fail(err, writer.status, "TGB %s %" PRIu64 "-%" PRIu64 ": no room for its footer",
                    footer->producer_id, footer->epoch, footer->seq);
  return LAKE_OK;
}

static void choose_layout(const uint64_t *frame_bytes_each, uint32_t slice_count,
                          lki_descriptor *descriptor) {
  bool uniform = true;
  for (uint32_t i = 1; i < slice_count; i++) uniform = uniform && frame_bytes_each[i] == frame_bytes_each[0];
  descriptor->frame_bytes = 0;
  descriptor->frame_bytes_each = NULL;
  if (uniform) {
    descriptor->layout = LKI_LAYOUT_UNIFORM;
    descriptor->frame_bytes = frame_bytes_each[0];
  } else if (lki_frame_list_bytes(frame_bytes_each, slice_count) <= LKI_PACKED_BYTES_MAX) {
    descriptor->layout = LKI_LAYOUT_PACKED;
    descriptor->frame_bytes_each = frame_bytes_each;
  } else {
    descriptor->layout = LKI_LAYOUT_FOOTER;
  }
}

static lake_status check_arguments(const char *producer_id, uint32_t slice_count, lake_error *err) {
  if (!lki_name_component_valid(producer_id))
    return lki_fail(err, LAKE_INVALID, "producer id: 1 to 64 of [A-Za-z0-9._-], not beginning with '.'");
  if (slice_count == 0 || slice_count > LKI_SLICE_COUNT_MAX)
    return lki_fail(err, LAKE_INVALID, "a TGB of %" PRIu32 " slices; 1 to %d are possible", slice_count,
                    LKI_SLICE_COUNT_MAX);
  return LAKE_OK;
}

lake_status lki_tgb_encode(lake_env *env, const lki_id *namespace_id, const char *producer_id, uint64_t epoch,
                           uint64_t seq, const lake_bytes *slices, uint32_t slice_count, bool zstd,
                           lki_arena *arena, lake_buffer *out, lki_descriptor *descriptor, lake_error *err) {
  size_t object_start = out->bytes;
  lki_compressor *compressor = NULL;
  lki_tgb_footer footer;
  memset(&footer, 0, sizeof footer);
  lake_status s = check_arguments(producer_id, slice_count, err);
  if (s != LAKE_OK) return s;
  footer.namespace_id = *namespace_id;
  memcpy(footer.producer_id, producer_id, strlen(producer_id));
  footer.epoch = epoch;
  footer.seq = seq;
  footer.slice_count = slice_count;
  footer.frame_bytes_each = lki_arena_alloc(arena, slice_count * sizeof *footer.frame_bytes_each);
  if (zstd) compressor = lki_compressor_open(env);
  if (footer.frame_bytes_each == NULL || (zstd && compressor == NULL)) {
    s = lki_fail(err, LAKE_NOMEM, "TGB %s %" PRIu64 "-%" PRIu64 ": out of memory", producer_id, epoch, seq);
    goto done;
  }
  uint64_t tgb_hash = lki_tgb_hash(namespace_id, producer_id, epoch, seq);
  s = put_header(namespace_id, tgb_hash, out, err);
  if (s == LAKE_OK)
    s = put_frames(compressor, slices, slice_count, tgb_hash, object_start, footer.frame_bytes_each, out,
                   err);
  size_t footer_start = out->bytes;
  if (s == LAKE_OK) s = put_footer(&footer, out, err);
  if (s != LAKE_OK) goto done;
  assert(out->bytes - footer_start <=
         LKI_FOOTER_BYTES_MAX); /* 2^16 varints of at most 6 bytes, and a little */
  descriptor->epoch = epoch;
  descriptor->seq = seq;
  descriptor->object_bytes = out->bytes - object_start;
  descriptor->slice_count = slice_count;
  descriptor->footer_bytes = (uint32_t)(out->bytes - footer_start);
  choose_layout(footer.frame_bytes_each, slice_count, descriptor);
done:
  if (s != LAKE_OK) out->bytes = object_start;
  lki_compressor_close(compressor);
  return s;
}

/* Finds the footer at the end of tail and verifies it; *body: what comes before its trailer. */
static lake_status check_footer(lake_bytes tail, const char *what, lake_bytes *body, lake_error *err) {
  lki_reader reader;
  const unsigned char *end = (const unsigned char *)tail.data + tail.bytes;
  if (tail.bytes < FOOTER_TRAILER_BYTES)
    return lki_fail(err, LAKE_CORRUPT, "%s: truncated: %zu bytes hold no footer", what, tail.bytes);
  lake_bytes trailer = {end - FOOTER_TRAILER_BYTES, FOOTER_TRAILER_BYTES};
  lki_reader_init(&reader, trailer);
  uint32_t footer_bytes = lki_get_u32(&reader);
  uint16_t version = lki_get_u16(&reader), flags = lki_get_u16(&reader);
  lake_bytes magic = lki_get_bytes(&reader, 8);
  uint64_t checksum = lki_get_u64(&reader);
  if (memcmp(magic.data, FOOTER_MAGIC, 8) != 0)
    return lki_fail(err, LAKE_CORRUPT, "%s: no footer ends here (wrong magic): truncated, or not a TGB",
                    what);
  lake_status s = lki_format_version_check(version, what, err);
  if (s != LAKE_OK) return s;
  if (footer_bytes < FOOTER_TRAILER_BYTES || footer_bytes > LKI_FOOTER_BYTES_MAX || footer_bytes > tail.bytes)
    return lki_fail(err, LAKE_CORRUPT, "%s: a footer of %" PRIu32 " bytes is not possible in %zu", what,
                    footer_bytes, tail.bytes);
  if (lki_checksum(end - footer_bytes, footer_bytes - 8, 0) != checksum)
    return lki_fail(err, LAKE_CORRUPT, "%s: the footer's checksum does not match", what);
  if (flags != 0) return lki_fail(err, LAKE_CORRUPT, "%s: unknown flags in the footer", what);
  body->data = end - footer_bytes;
  body->bytes = footer_bytes - FOOTER_TRAILER_BYTES;
  return LAKE_OK;
}

lake_status lki_tgb_footer_decode(lake_env *env, lake_bytes tail, uint64_t object_bytes, const char *what,
                                  lki_arena *arena, lki_tgb_footer *footer, lake_error *err) {
  lki_reader reader;
  lake_bytes body;
  lki_tgb_footer f;
  (void)env;
  memset(&f, 0, sizeof f);
  lake_status s = check_footer(tail, what, &body, err);
  if (s != LAKE_OK) return s;
  lki_reader_init(&reader, body);
  lake_bytes namespace_id = lki_get_bytes(&reader, LKI_ID_BYTES);
  lake_bytes producer_id = lki_get_blob(&reader, LKI_PRODUCER_ID_BYTES_MAX);
  f.epoch = lki_get_varint(&reader, UINT64_MAX);
  f.seq = lki_get_varint(&reader, UINT64_MAX);
  f.slice_count = (uint32_t)lki_get_varint(&reader, LKI_SLICE_COUNT_MAX);
  if (reader.bad || f.slice_count == 0) return lki_fail_damaged(what, "footer", err);
  memcpy(f.namespace_id.bytes, namespace_id.data, LKI_ID_BYTES);
  memcpy(f.producer_id, producer_id.data, producer_id.bytes);
  if (strlen(f.producer_id) != producer_id.bytes || !lki_name_component_valid(f.producer_id))
    return lki_fail_damaged(what, "producer id in the footer", err);
  s = lki_get_frame_list(&reader, f.slice_count, LKI_FOOTER_BYTES_MAX, what, arena, &f.frame_bytes_each, err);
  if (s != LAKE_OK) return s;
  if (lki_reader_left(&reader) != 0) return lki_fail_damaged(what, "bytes after the footer's list", err);
  f.object_bytes = lki_frames_end(f.frame_bytes_each, f.slice_count) + body.bytes + FOOTER_TRAILER_BYTES;
  if (f.object_bytes != object_bytes)
    return lki_fail(err, LAKE_CORRUPT, "%s: %" PRIu64 " bytes, where its footer says %" PRIu64, what,
                    object_bytes, f.object_bytes);
  *footer = f;
  return LAKE_OK;
}

lake_status lki_frame_locate(const lki_descriptor *descriptor, uint32_t slice, uint64_t *offset,
                             uint64_t *bytes, lake_error *err) {
  if (slice >= descriptor->slice_count)
    return lki_fail(err, LAKE_INVALID, "slice %" PRIu32 ": the TGB has %" PRIu32, slice,
                    descriptor->slice_count);
  switch (descriptor->layout) {
  case LKI_LAYOUT_UNIFORM:
    *offset = LKI_TGB_HEADER_BYTES + slice * lki_frame_align(descriptor->frame_bytes);
    *bytes = descriptor->frame_bytes;
    return LAKE_OK;
  case LKI_LAYOUT_PACKED:
    *offset = lki_frames_end(descriptor->frame_bytes_each, slice);
    *bytes = descriptor->frame_bytes_each[slice];
    return LAKE_OK;
  case LKI_LAYOUT_FOOTER:
    break;
  }
  return lki_fail(err, LAKE_INVALID, "slice %" PRIu32 ": only the footer knows where it lies", slice);
}
