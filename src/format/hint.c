/* The hint object: "lakehint1-<version>-<8 hex check>\n", one line that a person can read too. It is
 * overwritten without any condition, so a reader only begins its search there and never believes it. Pure. */
#include "base/buffer.h"
#include "base/error.h"
#include "format/format.h"
#include "format/text.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "lakehint1-"
#define HINT_BYTES 48 /* room for the longest: 10 + 20 + 1 + 8 + 1, and a NUL */

static size_t format_hint(uint64_t version, char *text) {
  int n = snprintf(text, HINT_BYTES, PREFIX "%" PRIu64 "-", version);
  n += snprintf(text + n, HINT_BYTES - (size_t)n, "%08" PRIx32 "\n", lki_text_check(text, (size_t)n));
  return (size_t)n;
}

lake_status lki_hint_encode(uint64_t version, lake_buffer *out, lake_error *err) {
  char text[HINT_BYTES];
  return lki_buffer_append(out, text, format_hint(version, text), err);
}

lake_status lki_hint_decode(lake_bytes bytes, uint64_t *version, lake_error *err) {
  const char *p = bytes.data;
  char again[HINT_BYTES];
  size_t at = strlen(PREFIX);
  uint64_t v = 0;
  if (bytes.bytes <= at || bytes.bytes >= HINT_BYTES || memcmp(p, PREFIX, at) != 0)
    return lki_fail(err, LAKE_CORRUPT, "manifest/hint: not a hint (%zu bytes)", bytes.bytes);
  for (; at < bytes.bytes && p[at] >= '0' && p[at] <= '9'; at++) v = v * 10 + (uint64_t)(p[at] - '0');
  /* A wrapped or padded number does not format to the same text again. */
  if (format_hint(v, again) != bytes.bytes || memcmp(again, p, bytes.bytes) != 0)
    return lki_fail(err, LAKE_CORRUPT, "manifest/hint: damaged");
  *version = v;
  return LAKE_OK;
}
