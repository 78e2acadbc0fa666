/* UTF-8 checks. No state. */
#include "feed/utf8.h"
#include <string.h>

static bool tail(unsigned char c) { return (c & 0xc0) == 0x80; }

size_t lki_utf8_character(const unsigned char *s, size_t n) {
  if (n >= 1 && s[0] < 0x80) return 1;
  if (n >= 2 && s[0] >= 0xc2 && s[0] <= 0xdf && tail(s[1])) return 2;
  if (n >= 3 && s[0] >= 0xe0 && s[0] <= 0xef && tail(s[1]) && tail(s[2])) {
    if (s[0] == 0xe0 && s[1] < 0xa0) return 0; /* overlong */
    if (s[0] == 0xed && s[1] > 0x9f) return 0; /* surrogate */
    return 3;
  }
  if (n >= 4 && s[0] >= 0xf0 && s[0] <= 0xf4 && tail(s[1]) && tail(s[2]) && tail(s[3])) {
    if (s[0] == 0xf0 && s[1] < 0x90) return 0;
    if (s[0] == 0xf4 && s[1] > 0x8f) return 0;
    return 4;
  }
  return 0;
}

size_t lki_utf8_valid_bytes(lake_bytes text) {
  const unsigned char *s = text.data;
  size_t at = 0;
  while (at < text.bytes) {
    size_t n = lki_utf8_character(s + at, text.bytes - at);
    if (n == 0) break;
    at += n;
  }
  return at;
}

size_t lki_utf8_replace(lake_bytes text, unsigned char *dst) {
  const unsigned char *s = text.data;
  size_t used = 0;
  for (size_t at = 0; at < text.bytes;) {
    size_t n = lki_utf8_character(s + at, text.bytes - at);
    memcpy(dst + used, n > 0 ? (const void *)(s + at) : "\xef\xbf\xbd", n > 0 ? n : 3);
    used += n > 0 ? n : 3;
    at += n > 0 ? n : 1;
  }
  return used;
}
