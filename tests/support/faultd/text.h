/* Growing text and the encodings that the wire needs. A text that is all zero is empty and valid; memory that runs out
 * ends the program, as this is a test's tool. Not shared between threads. */
#ifndef FAULTD_TEXT_H
#define FAULTD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct text {
  char *data; /* ends in a zero byte that `bytes` does not count; NULL while empty */
  size_t bytes, capacity;
} text;

void *must_alloc(size_t bytes); /* zeroed */
void *must_grow(void *old, size_t bytes);
char *must_copy(const char *s, size_t bytes); /* with a zero byte at the end */

void text_put(text *t, const void *data, size_t bytes);
void text_add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(text *t);
const char *text_of(const text *t); /* never NULL */

void text_xml(text *t, const char *s);                   /* escaped for XML */
void text_json(text *t, const char *s);                  /* escaped for JSON, without the quotes */
void text_url(text *t, const char *s, const char *keep); /* percent-encoded but for unreserved and `keep` */
void text_hex(text *t, const void *data, size_t bytes);
void text_base64(text *t, const void *data, size_t bytes);
size_t base64_decode(const char *s, unsigned char *out, size_t out_max); /* 0 when it is not base64 */
size_t hex_decode(const char *s, unsigned char *out, size_t out_max);    /* 0 when it is not hex */
/* Decodes in place; '+' becomes a space where plus_is_space. False for a broken escape or a zero byte. */
bool url_decode(char *s, bool plus_is_space);

void text_date_http(text *t, int64_t unix_s);     /* Sun, 29 Nov 2026 21:34:15 GMT */
void text_date_iso(text *t, int64_t unix_s);      /* 2026-11-29T21:34:15.000Z */
bool date_parse(const char *s, int64_t *unix_s);  /* either of the two above, or 20261129T213415Z */

#endif
