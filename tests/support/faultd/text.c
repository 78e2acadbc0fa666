/* Growing text and the encodings that the wire needs; see text.h. */
#define _GNU_SOURCE
#include "text.h"
#include <ctype.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void *must_alloc(size_t bytes) {
  void *p = calloc(1, bytes ? bytes : 1);
  if (p == NULL) abort();
  return p;
}

void *must_grow(void *old, size_t bytes) {
  void *p = realloc(old, bytes);
  if (p == NULL) abort();
  return p;
}

char *must_copy(const char *s, size_t bytes) {
  char *copy = must_alloc(bytes + 1);
  memcpy(copy, s, bytes);
  return copy;
}

static void reserve(text *t, size_t more) {
  const size_t need = t->bytes + more + 1;
  if (need <= t->capacity) return;
  t->capacity = need < 256 ? 256 : need * 2;
  t->data = must_grow(t->data, t->capacity);
}

void text_put(text *t, const void *data, size_t bytes) {
  reserve(t, bytes);
  if (bytes > 0) memcpy(t->data + t->bytes, data, bytes);
  t->bytes += bytes;
  t->data[t->bytes] = 0;
}

void text_add(text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const int bytes = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (bytes < 0) abort();
  reserve(t, (size_t)bytes);
  va_start(args, format);
  vsnprintf(t->data + t->bytes, (size_t)bytes + 1, format, args);
  va_end(args);
  t->bytes += (size_t)bytes;
}

void text_free(text *t) {
  free(t->data);
  *t = (text){0};
}

const char *text_of(const text *t) { return t->data != NULL ? t->data : ""; }

void text_xml(text *t, const char *s) {
  for (; *s; s++) {
    const unsigned char c = (unsigned char)*s;
    if (c == '<') text_add(t, "&lt;");
    else if (c == '>') text_add(t, "&gt;");
    else if (c == '&') text_add(t, "&amp;");
    else if (c == '"') text_add(t, "&quot;");
    else if (c < 0x20) text_add(t, "&#x%x;", c);
    else text_put(t, s, 1);
  }
}

void text_json(text *t, const char *s) {
  for (; *s; s++) {
    const unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') text_add(t, "\\%c", c);
    else if (c < 0x20) text_add(t, "\\u%04x", c);
    else text_put(t, s, 1);
  }
}

void text_url(text *t, const char *s, const char *keep) {
  for (; *s; s++) {
    const unsigned char c = (unsigned char)*s;
    if (isalnum(c) || strchr("-._~", c) != NULL || strchr(keep, c) != NULL) text_put(t, s, 1);
    else text_add(t, "%%%02X", c);
  }
}

void text_hex(text *t, const void *data, size_t bytes) {
  const unsigned char *at = data;
  for (size_t i = 0; i < bytes; i++) text_add(t, "%02x", at[i]);
}

void text_base64(text *t, const void *data, size_t bytes) {
  reserve(t, (bytes + 2) / 3 * 4 + 1);
  t->bytes += (size_t)EVP_EncodeBlock((unsigned char *)t->data + t->bytes, data, (int)bytes);
}

size_t base64_decode(const char *s, unsigned char *out, size_t out_max) {
  const size_t bytes = strlen(s);
  if (bytes == 0 || bytes % 4 != 0 || bytes / 4 * 3 > out_max) return 0;
  const int n = EVP_DecodeBlock(out, (const unsigned char *)s, (int)bytes);
  if (n < 0) return 0;
  return (size_t)n - (s[bytes - 1] == '=') - (s[bytes - 2] == '=');
}

static int hex_digit(int c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = tolower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t hex_decode(const char *s, unsigned char *out, size_t out_max) {
  const size_t bytes = strlen(s) / 2;
  if (strlen(s) % 2 != 0 || bytes > out_max) return 0;
  for (size_t i = 0; i < bytes; i++) {
    const int high = hex_digit(s[2 * i]), low = hex_digit(s[2 * i + 1]);
    if (high < 0 || low < 0) return 0;
    out[i] = (unsigned char)(high * 16 + low);
  }
  return bytes;
}

bool url_decode(char *s, bool plus_is_space) {
  char *to = s;
  for (; *s; s++, to++) {
    *to = *s == '+' && plus_is_space ? ' ' : *s;
    if (*s != '%') continue;
    const int high = hex_digit((unsigned char)s[1]), low = high < 0 ? -1 : hex_digit((unsigned char)s[2]);
    if (low < 0 || high * 16 + low == 0) return false;
    *to = (char)(high * 16 + low);
    s += 2;
  }
  *to = 0;
  return true;
}

/* ---- dates; names are spelt out, since a locale must not change what is sent ---- */

static const char *const DAYS[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const char *const MONTHS[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

void text_date_http(text *t, int64_t unix_s) {
  const time_t when = (time_t)unix_s;
  struct tm tm;
  gmtime_r(&when, &tm);
  text_add(t, "%s, %02d %s %d %02d:%02d:%02d GMT", DAYS[tm.tm_wday], tm.tm_mday, MONTHS[tm.tm_mon], tm.tm_year + 1900,
           tm.tm_hour, tm.tm_min, tm.tm_sec);
}

void text_date_iso(text *t, int64_t unix_s) {
  const time_t when = (time_t)unix_s;
  struct tm tm;
  gmtime_r(&when, &tm);
  text_add(t, "%d-%02d-%02dT%02d:%02d:%02d.000Z", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
           tm.tm_sec);
}

bool date_parse(const char *s, int64_t *unix_s) {
  struct tm tm = {0};
  char month[4] = "";
  if (sscanf(s, "%4d%2d%2dT%2d%2d%2dZ", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6 &&
      sscanf(s, "%4d-%2d-%2dT%2d:%2d:%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6) {
    if (sscanf(s, "%*3s, %2d %3s %4d %2d:%2d:%2d GMT", &tm.tm_mday, month, &tm.tm_year, &tm.tm_hour, &tm.tm_min,
               &tm.tm_sec) != 6)
      return false;
    for (tm.tm_mon = 1; tm.tm_mon <= 12 && strcmp(MONTHS[tm.tm_mon - 1], month) != 0;) tm.tm_mon++;
  }
  if (tm.tm_mon < 1 || tm.tm_mon > 12) return false;
  tm.tm_year -= 1900;
  tm.tm_mon -= 1;
  *unix_s = (int64_t)timegm(&tm);
  return true;
}
