/* Little-endian cursors over bytes. No allocation except through the buffer. Not thread-safe. */
#include "base/codec.h"
#include "base/buffer.h"
#include <string.h>

void lki_reader_init(lki_reader *reader, lake_bytes bytes) {
  reader->data = bytes.data;
  reader->bytes = bytes.bytes;
  reader->at = 0;
  reader->bad = false;
}

size_t lki_reader_left(const lki_reader *reader) { return reader->bad ? 0 : reader->bytes - reader->at; }

/* n bytes, or NULL and bad. */
static const unsigned char *take(lki_reader *reader, size_t n) {
  if (reader->bad || reader->bytes - reader->at < n) {
    reader->bad = true;
    return NULL;
  }
  const unsigned char *p = reader->data + reader->at;
  reader->at += n;
  return p;
}

static uint64_t take_le(lki_reader *reader, size_t n) {
  const unsigned char *p = take(reader, n);
  uint64_t value = 0;
  if (p != NULL)
    for (size_t i = 0; i < n; i++) value |= (uint64_t)p[i] << (8 * i);
  return value;
}

uint8_t lki_get_u8(lki_reader *reader) { return (uint8_t)take_le(reader, 1); }
uint16_t lki_get_u16(lki_reader *reader) { return (uint16_t)take_le(reader, 2); }
uint32_t lki_get_u32(lki_reader *reader) { return (uint32_t)take_le(reader, 4); }
uint64_t lki_get_u64(lki_reader *reader) { return take_le(reader, 8); }

uint64_t lki_get_varint(lki_reader *reader, uint64_t max) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    const unsigned char *p = take(reader, 1);
    if (p == NULL) return 0;
    uint64_t part = *p & 0x7fu;
    if (shift == 63 && part > 1) break; /* past 64 bits */
    value |= part << shift;
    if ((*p & 0x80u) == 0) {
      if (*p == 0 && shift > 0) break; /* not the shortest form */
      if (value > max) break;
      return value;
    }
  }
  reader->bad = true;
  return 0;
}

lake_bytes lki_get_bytes(lki_reader *reader, size_t bytes) {
  lake_bytes view = {NULL, 0};
  const unsigned char *p = take(reader, bytes);
  if (p != NULL) {
    view.data = p;
    view.bytes = bytes;
  }
  return view;
}

lake_bytes lki_get_blob(lki_reader *reader, size_t max) {
  uint64_t bytes = lki_get_varint(reader, max);
  return lki_get_bytes(reader, (size_t)bytes);
}

void lki_writer_init(lki_writer *writer, lake_buffer *buffer) {
  writer->buffer = buffer;
  writer->status = LAKE_OK;
}

void lki_put_bytes(lki_writer *writer, const void *data, size_t bytes) {
  if (writer->status == LAKE_OK) writer->status = lki_buffer_append(writer->buffer, data, bytes, NULL);
}

static void put_le(lki_writer *writer, uint64_t value, size_t n) {
  unsigned char bytes[8];
  for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)(value >> (8 * i));
  lki_put_bytes(writer, bytes, n);
}

void lki_put_u8(lki_writer *writer, uint8_t value) { put_le(writer, value, 1); }
void lki_put_u16(lki_writer *writer, uint16_t value) { put_le(writer, value, 2); }
void lki_put_u32(lki_writer *writer, uint32_t value) { put_le(writer, value, 4); }
void lki_put_u64(lki_writer *writer, uint64_t value) { put_le(writer, value, 8); }

void lki_put_varint(lki_writer *writer, uint64_t value) {
  unsigned char bytes[10];
  size_t n = 0;
  do {
    bytes[n] = (unsigned char)(value & 0x7fu);
    value >>= 7;
    if (value > 0) bytes[n] |= 0x80u;
    n++;
  } while (value > 0);
  lki_put_bytes(writer, bytes, n);
}

void lki_put_blob(lki_writer *writer, lake_bytes blob) {
  lki_put_varint(writer, blob.bytes);
  lki_put_bytes(writer, blob.data, blob.bytes);
}
