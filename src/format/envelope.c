/* The envelope of manifests and segments: docs/format/README.md. Invariant: nothing of the body is looked at,
 * and nothing is allocated, before lengths, limits and the checksum have passed. Pure. */
#include "format/envelope.h"
#include "base/checksum.h"
#include "base/codec.h"
#include "base/env.h"
#include "format/format.h"
#include "format/zstd.h"
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define CHECKED_BYTES 32 /* of the envelope, before the checksum itself */
#define BODY_LEVEL 1 /* bodies are small and mostly incompressible numbers: speed counts, as commits race */

/* The body's checksum is seeded by that of the fields before it, so that one number vouches for both. */
static uint64_t envelope_checksum(const unsigned char *envelope, lake_bytes body) {
  return lki_checksum(body.data, body.bytes, lki_checksum(envelope, CHECKED_BYTES, 0));
}

lake_status lki_format_version_check(uint64_t version, const char *what, lake_error *err) {
  if (version == 0) return lki_fail(err, LAKE_CORRUPT, "%s: format version 0 does not exist", what);
  if (version > LKI_FORMAT_VERSION)
    return lki_fail(err, LAKE_UNSUPPORTED, "%s: written by a newer Lakestream (format %" PRIu64 "); upgrade",
                    what, version);
  return LAKE_OK;
}

static lake_status put_envelope(const lki_envelope_kind *kind, unsigned flags, lake_bytes stored,
                                uint64_t decoded_bytes, lake_buffer *out, lake_error *err) {
  unsigned char head[LKI_ENVELOPE_BYTES];
  lake_buffer fixed;
  lki_writer writer;
  lki_buffer_init_fixed(&fixed, NULL, head, sizeof head);
  lki_writer_init(&writer, &fixed);
  lki_put_bytes(&writer, kind->magic, 8);
  lki_put_u16(&writer, LKI_FORMAT_VERSION);
  lki_put_u16(&writer, (uint16_t)flags);
  lki_put_u32(&writer, 0);
  lki_put_u64(&writer, stored.bytes);
  lki_put_u64(&writer, decoded_bytes);
  lki_put_u64(&writer, envelope_checksum(head, stored));
  assert(writer.status == LAKE_OK && fixed.bytes == sizeof head);
  lake_status s = lki_buffer_reserve(out, out->bytes + sizeof head + stored.bytes, err);
  if (s != LAKE_OK) return s;
  s = lki_buffer_append(out, head, sizeof head, err);
  return s == LAKE_OK ? lki_buffer_append(out, stored.data, stored.bytes, err) : s;
}

lake_status lki_envelope_write(lake_env *env, const lki_envelope_kind *kind, lake_bytes body,
                               lake_buffer *out, lake_error *err) {
  lake_status s = LAKE_OK;
  unsigned char *packed = NULL;
  lki_compressor *compressor = NULL;
  lake_bytes stored = body;
  unsigned flags = 0;
  if (body.bytes > kind->bytes_max)
    return lki_fail(err, LAKE_INVALID, "a %s of %zu bytes; at most %zu are possible", kind->noun, body.bytes,
                    kind->bytes_max);
  if (kind->zstd && body.bytes > 0) {
    size_t bytes = 0;
    packed = lki_alloc(env, body.bytes);
    compressor = lki_compressor_open(env);
    if (packed == NULL || compressor == NULL) {
      s = lki_fail(err, LAKE_NOMEM, "out of memory while encoding a %s", kind->noun);
      goto done;
    }
    if (lki_compress(compressor, body, BODY_LEVEL, packed, body.bytes - 1, &bytes)) {
      stored.data = packed;
      stored.bytes = bytes;
      flags = LKI_ENVELOPE_ZSTD;
    }
  }
  s = put_envelope(kind, flags, stored, body.bytes, out, err);
done:
  lki_compressor_close(compressor);
  lki_free(env, packed);
  return s;
}

typedef struct envelope {
  uint16_t flags;
  uint64_t decoded_bytes;
  lake_bytes stored;
} envelope;

/* Everything that can be known without decompressing. */
static lake_status check_envelope(const lki_envelope_kind *kind, lake_bytes bytes, const char *what,
                                  envelope *out, lake_error *err) {
  lki_reader reader;
  lki_reader_init(&reader, bytes);
  lake_bytes magic = lki_get_bytes(&reader, 8);
  if (reader.bad || memcmp(magic.data, kind->magic, 8) != 0)
    return lki_fail(err, LAKE_CORRUPT, "%s: not a Lakestream %s (%zu bytes, wrong magic)", what, kind->noun,
                    bytes.bytes);
  if (bytes.bytes < LKI_ENVELOPE_BYTES)
    return lki_fail(err, LAKE_CORRUPT, "%s: truncated: %zu bytes", what, bytes.bytes);
  lake_status s = lki_format_version_check(lki_get_u16(&reader), what, err);
  if (s != LAKE_OK) return s;
  out->flags = lki_get_u16(&reader);
  uint32_t reserved = lki_get_u32(&reader);
  uint64_t stored_bytes = lki_get_u64(&reader);
  out->decoded_bytes = lki_get_u64(&reader);
  uint64_t checksum = lki_get_u64(&reader);
  if (reserved != 0 || (out->flags & ~(kind->zstd ? LKI_ENVELOPE_ZSTD : 0u)) != 0)
    return lki_fail(err, LAKE_CORRUPT, "%s: unknown flags in the %s's header", what, kind->noun);
  if (stored_bytes > kind->bytes_max || out->decoded_bytes > kind->bytes_max)
    return lki_fail(err, LAKE_CORRUPT,
                    "%s: claims %" PRIu64 " bytes, %" PRIu64 " decoded; at most %zu are possible", what,
                    stored_bytes, out->decoded_bytes, kind->bytes_max);
  if (bytes.bytes - LKI_ENVELOPE_BYTES != stored_bytes)
    return lki_fail(err, LAKE_CORRUPT, "%s: %zu bytes, where its header says %" PRIu64, what, bytes.bytes,
                    stored_bytes + LKI_ENVELOPE_BYTES);
  out->stored = lki_get_bytes(&reader, (size_t)stored_bytes);
  if (envelope_checksum(bytes.data, out->stored) != checksum)
    return lki_fail(err, LAKE_CORRUPT, "%s: the checksum does not match", what);
  return LAKE_OK;
}

lake_status lki_envelope_read(const lki_envelope_kind *kind, lake_bytes bytes, const char *what,
                              lake_buffer *scratch, lake_bytes *body, lake_error *err) {
  envelope e = {0, 0, {NULL, 0}};
  lake_status s = check_envelope(kind, bytes, what, &e, err);
  if (s != LAKE_OK) return s;
  if ((e.flags & LKI_ENVELOPE_ZSTD) == 0) {
    if (e.decoded_bytes != e.stored.bytes)
      return lki_fail(err, LAKE_CORRUPT, "%s: stored as is, but %zu bytes decode to %" PRIu64, what,
                      e.stored.bytes, e.decoded_bytes);
    *body = e.stored;
    return LAKE_OK;
  }
  if (!lki_compressed_check(e.stored, e.decoded_bytes))
    return lki_fail(err, LAKE_CORRUPT, "%s: the compressed body is not one of %" PRIu64 " bytes", what,
                    e.decoded_bytes);
  s = lki_buffer_reserve(scratch, (size_t)e.decoded_bytes, err);
  if (s != LAKE_OK) return s;
  s = lki_decompress(scratch->env, e.stored, scratch->data, (size_t)e.decoded_bytes);
  if (s == LAKE_NOMEM) return lki_fail(err, s, "%s: out of memory while decompressing", what);
  if (s != LAKE_OK) return lki_fail(err, s, "%s: the compressed body is damaged", what);
  scratch->bytes = (size_t)e.decoded_bytes;
  *body = lki_buffer_view(scratch);
  return LAKE_OK;
}
