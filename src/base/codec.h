/* Little-endian cursors: a reader that cannot run past its end, and a writer onto a lake_buffer. Errors are sticky:
 * after the first one every get returns 0 and every put does nothing, and the caller asks once at the end. */
#ifndef LKI_BASE_CODEC_H
#define LKI_BASE_CODEC_H

#include <lakestream/sys/store.h>

typedef struct lki_reader {
  const unsigned char *data;
  size_t bytes;
  size_t at;
  bool bad; /* ran past the end, or a varint longer than 10 bytes or above its limit */
} lki_reader;

void lki_reader_init(lki_reader *reader, lake_bytes bytes);
size_t lki_reader_left(const lki_reader *reader);
uint8_t lki_get_u8(lki_reader *reader);
uint16_t lki_get_u16(lki_reader *reader);
uint32_t lki_get_u32(lki_reader *reader);
uint64_t lki_get_u64(lki_reader *reader);
uint64_t lki_get_varint(lki_reader *reader, uint64_t max); /* LEB128, shortest form only */
lake_bytes lki_get_bytes(lki_reader *reader, size_t bytes); /* a view; empty when bad */
/* Varint length (at most max), then that many bytes. */
lake_bytes lki_get_blob(lki_reader *reader, size_t max);

typedef struct lki_writer {
  lake_buffer *buffer;
  lake_status status; /* OK until a put failed */
} lki_writer;

void lki_writer_init(lki_writer *writer, lake_buffer *buffer);
void lki_put_u8(lki_writer *writer, uint8_t value);
void lki_put_u16(lki_writer *writer, uint16_t value);
void lki_put_u32(lki_writer *writer, uint32_t value);
void lki_put_u64(lki_writer *writer, uint64_t value);
void lki_put_varint(lki_writer *writer, uint64_t value);
void lki_put_bytes(lki_writer *writer, const void *data, size_t bytes);
void lki_put_blob(lki_writer *writer, lake_bytes blob);

#endif
