/* Cursor text: "lake1-<32 hex namespace>-<row>-<version>-<8 hex check>", see docs/format/pin.md. What is
 * parsed is formatted again and compared, so that exactly one text stands for a cursor. Pure. */
#include "base/error.h"
#include "format/format.h"
#include "format/text.h"
#include <lakestream/consumer.h>
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "lake1-"

void lki_cursor_format(const lki_cursor *cursor, char *text) {
  int n = snprintf(text, LAKE_CURSOR_BYTES, PREFIX);
  for (int i = 0; i < LKI_ID_BYTES; i++)
    n += snprintf(text + n, LAKE_CURSOR_BYTES - (size_t)n, "%02x", cursor->namespace_id.bytes[i]);
  n += snprintf(text + n, LAKE_CURSOR_BYTES - (size_t)n, "-%" PRIu64 "-%" PRIu64 "-", cursor->row,
                cursor->version);
  n += snprintf(text + n, LAKE_CURSOR_BYTES - (size_t)n, "%08" PRIx32, lki_text_check(text, (size_t)n));
  assert(n < LAKE_CURSOR_BYTES);
}

static bool take_hex_byte(const char **text, unsigned char *byte) {
  unsigned value = 0;
  for (int i = 0; i < 2; i++, (*text)++) {
    char c = **text;
    if (c >= '0' && c <= '9')
      value = value << 4 | (unsigned)(c - '0');
    else if (c >= 'a' && c <= 'f')
      value = value << 4 | (unsigned)(c - 'a' + 10);
    else
      return false;
  }
  *byte = (unsigned char)value;
  return true;
}

static bool take_decimal(const char **text, uint64_t *value) {
  const char *p = *text;
  uint64_t v = 0;
  if (*p++ != '-' || *p < '0' || *p > '9') return false;
  for (; *p >= '0' && *p <= '9'; p++) {
    uint64_t digit = (uint64_t)(*p - '0');
    if (v > (UINT64_MAX - digit) / 10) return false;
    v = v * 10 + digit;
  }
  *text = p;
  *value = v;
  return true;
}

static bool parse(const char *text, lki_cursor *cursor) {
  char again[LAKE_CURSOR_BYTES];
  const char *p = text + strlen(PREFIX);
  for (int i = 0; i < LKI_ID_BYTES; i++)
    if (!take_hex_byte(&p, &cursor->namespace_id.bytes[i])) return false;
  if (!take_decimal(&p, &cursor->row) || !take_decimal(&p, &cursor->version)) return false;
  lki_cursor_format(cursor, again);
  return strcmp(again, text) == 0;
}

lake_status lki_cursor_parse(const char *text, lki_cursor *cursor, lake_error *err) {
  lki_cursor c;
  if (strncmp(text, "lake", 4) == 0 && text[4] >= '2' && text[4] <= '9' && text[5] == '-')
    return lki_fail(err, LAKE_UNSUPPORTED, "cursor: written by a newer Lakestream (format %c); upgrade",
                    text[4]);
  if (strncmp(text, PREFIX, strlen(PREFIX)) != 0)
    return lki_fail(err, LAKE_INVALID, "cursor \"%.40s\": not a Lakestream cursor; one begins with " PREFIX,
                    text);
  if (!parse(text, &c))
    return lki_fail(err, LAKE_INVALID, "cursor \"%.120s\": damaged; copy it whole from where it was saved",
                    text);
  *cursor = c;
  return LAKE_OK;
}
