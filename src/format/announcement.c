/* The announcement codec: docs/format/announcement.md. What a committer needs to carry one uploaded TGB of another
 * producer. Where it is short enough it rides in the object's name, so that a LIST brings it. Pure. */
#include "base/checksum.h"
#include "format/descriptor.h"
#include "format/names.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "announce/"
#define INLINE_BYTES_MAX 150 /* 200 characters of base64url */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* base64url without padding (RFC 4648, section 5). */
static void to_text(const unsigned char *data, size_t bytes, char *text) {
  for (size_t i = 0; i < bytes; i += 3) {
    uint32_t group = (uint32_t)data[i] << 16;
    if (i + 1 < bytes) group |= (uint32_t)data[i + 1] << 8;
    if (i + 2 < bytes) group |= data[i + 2];
    const size_t left = bytes - i;
    *text++ = alphabet[group >> 18 & 63];
    *text++ = alphabet[group >> 12 & 63];
    if (left > 1) *text++ = alphabet[group >> 6 & 63];
    if (left > 2) *text++ = alphabet[group & 63];
  }
  *text = 0;
}

static bool from_text(const char *text, unsigned char *data, size_t room, size_t *bytes) {
  uint32_t group = 0, bits = 0;
  size_t n = 0;
  for (; *text != 0; text++) {
    const char *at = strchr(alphabet, *text);
    if (at == NULL) return false;
    group = group << 6 | (uint32_t)(at - alphabet);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    if (n == room) return false;
    data[n++] = (unsigned char)(group >> bits);
    group &= (1u << bits) - 1;
  }
  *bytes = n;
  return bits < 6 && group == 0; /* the only text of these bytes */
}

lake_status lki_announcement_encode(lake_env *env, const lki_announcement *a, lake_buffer *out, lake_error *err) {
  lki_writer writer;
  const size_t start = out->bytes;
  lki_descriptor d = a->descriptor;
  d.producer = 0;
  lki_writer_init(&writer, out);
  lki_put_varint(&writer, a->offset);
  lki_put_blob(&writer, a->state);
  lake_status s = lki_put_descriptors(env, &writer, &d, 1, 1, err);
  if (s != LAKE_OK) return s;
  const uint64_t seed = lki_tgb_hash(&a->namespace_id, a->producer_id, d.epoch, d.seq);
  lki_put_u64(&writer, lki_checksum(out->data + start, out->bytes - start, seed));
  return writer.status == LAKE_OK ? LAKE_OK : lki_fail(err, writer.status, "out of memory for an announcement");
}

lake_status lki_announcement_decode(lake_env *env, lake_bytes bytes, const lki_id *namespace_id,
                                    const lki_announcement_key *key, const char *what, lki_arena *arena,
                                    lki_announcement *out, lake_error *err) {
  if (bytes.bytes < 8) return lki_fail_damaged(what, "announcement", err);
  lki_reader reader, tail;
  lki_reader_init(&reader, (lake_bytes){bytes.data, bytes.bytes - 8});
  lki_reader_init(&tail, (lake_bytes){(const unsigned char *)bytes.data + bytes.bytes - 8, 8});
  const uint64_t seed = lki_tgb_hash(namespace_id, key->producer_id, key->epoch, key->seq);
  if (lki_get_u64(&tail) != lki_checksum(bytes.data, bytes.bytes - 8, seed))
    return lki_fail(err, LAKE_CORRUPT, "%s: the checksum does not match", what);
  lki_announcement a = {.namespace_id = *namespace_id};
  a.offset = lki_get_varint(&reader, UINT64_MAX);
  lake_bytes state = lki_get_blob(&reader, LKI_STATE_BYTES_MAX);
  if (reader.bad) return lki_fail_damaged(what, "announcement", err);
  lki_descriptor *d = NULL;
  lake_status s = lki_get_descriptors(env, &reader, 1, 1, what, arena, &d, err);
  if (s != LAKE_OK) return s;
  if (lki_reader_left(&reader) != 0 || d->epoch != key->epoch || d->seq != key->seq)
    return lki_fail_damaged(what, "announcement", err);
  a.descriptor = *d;
  a.producer_id = lki_arena_strndup(arena, key->producer_id, strlen(key->producer_id));
  a.state = (lake_bytes){lki_arena_copy(arena, state.data, state.bytes), state.bytes};
  if (a.producer_id == NULL || a.state.data == NULL) return lki_fail_memory(what, err);
  *out = a;
  return LAKE_OK;
}

void lki_name_announcement(char *dst, const char *producer_id, uint64_t epoch, uint64_t seq, lake_bytes body) {
  int n = snprintf(dst, LKI_NAME_BYTES, PREFIX "%s/%010" PRIu64 "-%020" PRIu64 ".", producer_id, epoch, seq);
  if (body.bytes <= INLINE_BYTES_MAX) to_text(body.data, body.bytes, dst + n);
}

bool lki_name_announcement_parse(const char *key, lki_announcement_key *out) {
  lki_announcement_key k;
  char again[LKI_NAME_BYTES];
  const size_t prefix = sizeof PREFIX - 1;
  const char *slash = strncmp(key, PREFIX, prefix) == 0 ? strchr(key + prefix, '/') : NULL;
  if (slash == NULL || strlen(key) >= LKI_NAME_BYTES) return false;
  const size_t id_bytes = (size_t)(slash - key) - prefix;
  if (id_bytes > LKI_PRODUCER_ID_BYTES_MAX) return false;
  memcpy(k.producer_id, key + prefix, id_bytes);
  k.producer_id[id_bytes] = 0;
  int used = 0;
  if (!lki_name_component_valid(k.producer_id) ||
      sscanf(slash + 1, "%20" SCNu64 "-%20" SCNu64 ".%n", &k.epoch, &k.seq, &used) != 2 || used == 0)
    return false;
  if (!from_text(slash + 1 + used, k.body, sizeof k.body, &k.body_bytes)) return false;
  lake_bytes body = {k.body, k.body_bytes > 0 ? k.body_bytes : INLINE_BYTES_MAX + 1};
  lki_name_announcement(again, k.producer_id, k.epoch, k.seq, body);
  if (strcmp(again, key) != 0) return false;
  *out = k;
  return true;
}
