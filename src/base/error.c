/* Errors as one line of text. No state. */
#include "base/error.h"
#include <stdio.h>
#include <string.h>

static const char *const status_names[] = {
    "OK",     "INVALID", "EXISTS",  "NOTFOUND", "AGAIN", "END",         "UNCERTAIN", "UNAVAILABLE", "FENCED",
    "RECLAIMED", "CORRUPT", "TIMEOUT", "CANCELED", "NOMEM", "UNSUPPORTED", "DENIED",    "INTERNAL",
};

const char *lake_status_name(lake_status status) {
  size_t i = (size_t)status;
  return i < sizeof status_names / sizeof status_names[0] ? status_names[i] : "UNKNOWN";
}

/* One line, whatever a store or a file name put into it. */
static void one_line(char *text) {
  for (unsigned char *p = (unsigned char *)text; *p; p++)
    if (*p < 0x20 || *p == 0x7f) *p = ' ';
}

lake_status lki_fail(lake_error *err, lake_status status, const char *format, ...) {
  if (err != NULL) {
    /* The arguments may point into *err itself, so format aside. */
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    one_line(text);
    memcpy(err->text, text, sizeof text);
    err->status = status;
  }
  return status;
}

void lki_error_prefix(lake_error *err, const char *format, ...) {
  if (err == NULL) return;
  char text[sizeof err->text];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  /* A text that grows too long loses its end: the context before it says where to look. */
  size_t used = strlen(text), room = sizeof text - 1 - used;
  if (room > 2) {
    memcpy(text + used, ": ", 2);
    size_t rest = strlen(err->text);
    if (rest > room - 2) rest = room - 2;
    memcpy(text + used + 2, err->text, rest);
    text[used + 2 + rest] = 0;
  }
  one_line(text);
  memcpy(err->text, text, sizeof text);
}

void lki_error_copy(lake_error *dst, const lake_error *src) {
  if (dst != NULL && src != NULL) *dst = *src;
}

lake_status lki_options_copy(void *dst, size_t known_bytes, const void *options, const char *what, lake_error *err) {
  memset(dst, 0, known_bytes);
  if (options == NULL) {
    uint32_t size = (uint32_t)known_bytes;
    memcpy(dst, &size, sizeof size);
    return LAKE_OK;
  }
  uint32_t size = 0;
  memcpy(&size, options, sizeof size);
  if (size < sizeof size || size > 65536)
    return lki_fail(err, LAKE_INVALID, "%s: size is %u; initialise the struct with its INIT macro", what, size);
  const unsigned char *bytes = options;
  for (size_t i = known_bytes; i < size; i++)
    if (bytes[i] != 0)
      return lki_fail(err, LAKE_INVALID, "%s: byte %zu is set but this library knows only %zu bytes; upgrade it",
                      what, i, known_bytes);
  memcpy(dst, options, size < known_bytes ? size : known_bytes);
  return LAKE_OK;
}
