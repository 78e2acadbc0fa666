/* Ids as text: "8-4-4-4-12" lower-case hexadecimal. Pure. */
#include "format/format.h"
#include <string.h>

static bool dash_follows(int byte) {
  return byte == 3 || byte == 5 || byte == 7 || byte == 9;
}

void lki_id_format(lki_id id, char *text) {
  static const char digits[] = "0123456789abcdef";
  for (int i = 0; i < LKI_ID_BYTES; i++) {
    *text++ = digits[id.bytes[i] >> 4];
    *text++ = digits[id.bytes[i] & 15];
    if (dash_follows(i)) *text++ = '-';
  }
  *text = 0;
}

static int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool lki_id_parse(const char *text, lki_id *id) {
  lki_id value;
  if (strlen(text) != 36) return false;
  for (int i = 0; i < LKI_ID_BYTES; i++) {
    int high = digit_value(*text++), low = digit_value(*text++);
    if (high < 0 || low < 0) return false;
    value.bytes[i] = (unsigned char)(high << 4 | low);
    if (dash_follows(i) && *text++ != '-') return false;
  }
  *id = value;
  return true;
}
