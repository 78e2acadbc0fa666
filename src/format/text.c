/* Checks of the text formats: docs/format/README.md. JSON documents end in a member "check" with a fixed
 * layout, so that a flipped bit or a careless edit is found though the text stays readable. Pure. */
#include "format/text.h"
#include "base/buffer.h"
#include "base/checksum.h"
#include "format/envelope.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SEAL_FORMAT "\t\"check\":\t\"%016" PRIx64 "\"\n}\n"
#define SEAL_BYTES 31

uint32_t lki_text_check(const char *text, size_t bytes) {
  return (uint32_t)lki_checksum(text, bytes, 0);
}

lake_status lki_json_seal(const lki_json *json, lake_buffer *out, lake_error *err) {
  size_t start = out->bytes;
  char seal[SEAL_BYTES + 1];
  lake_status s = lki_json_print(json, true, out, err);
  if (s == LAKE_OK) {
    assert(out->bytes - start > 3 && memcmp(out->data + out->bytes - 3, "\n}\n", 3) == 0);
    out->bytes -= 3;
    s = lki_buffer_append(out, ",\n", 2, err);
  }
  if (s == LAKE_OK) {
    int n = snprintf(seal, sizeof seal, SEAL_FORMAT, lki_checksum(out->data + start, out->bytes - start, 0));
    assert(n == SEAL_BYTES);
    s = lki_buffer_append(out, seal, (size_t)n, err);
  }
  if (s != LAKE_OK) out->bytes = start;
  return s;
}

lake_status lki_json_seal_check(lake_bytes bytes, const char *what, lake_error *err) {
  char seal[SEAL_BYTES + 1];
  if (bytes.bytes > SEAL_BYTES) {
    size_t checked = bytes.bytes - SEAL_BYTES;
    snprintf(seal, sizeof seal, SEAL_FORMAT, lki_checksum(bytes.data, checked, 0));
    if (memcmp((const char *)bytes.data + checked, seal, SEAL_BYTES) == 0) return LAKE_OK;
  }
  return lki_fail(err, LAKE_CORRUPT, "%s: \"check\" does not match: damaged, or changed by hand",
                  what);
}

lake_status lki_json_open(lake_bytes bytes, const char *kind, const char *what, lki_json **out,
                          lake_error *err) {
  lki_json *json = NULL;
  uint64_t version = 0;
  lake_status s = lki_json_parse(bytes, what, &json, err);
  if (s == LAKE_INVALID && err != NULL) err->status = LAKE_CORRUPT; /* the text stays: it says where */
  if (s != LAKE_OK) return s == LAKE_INVALID ? LAKE_CORRUPT : s;
  const char *found = lki_json_string(lki_json_get(json, "kind"));
  if (found == NULL || strcmp(found, kind) != 0)
    s = lki_fail(err, LAKE_CORRUPT, "%s: not a Lakestream file: \"kind\" is not \"%s\"", what, kind);
  if (s == LAKE_OK) s = lki_json_take_u64(json, "format", UINT64_MAX, what, &version, err);
  if (s == LAKE_OK) s = lki_format_version_check(version, what, err);
  if (s == LAKE_OK)
    *out = json;
  else
    lki_json_free(json);
  return s;
}

lake_status lki_json_take_u64(const lki_json *json, const char *name, uint64_t max, const char *what,
                              uint64_t *value, lake_error *err) {
  const lki_json *member = lki_json_get(json, name);
  uint64_t v = 0;
  if (member == NULL) return lki_fail(err, LAKE_CORRUPT, "%s: \"%s\" is missing", what, name);
  if (!lki_json_u64(member, &v))
    return lki_fail(err, LAKE_CORRUPT, "%s: \"%s\" is not a whole number", what, name);
  if (v > max)
    return lki_fail(err, LAKE_CORRUPT, "%s: \"%s\" is %" PRIu64 "; at most %" PRIu64 " is possible", what,
                    name, v, max);
  *value = v;
  return LAKE_OK;
}

lake_status lki_json_take_string(const lki_json *json, const char *name, const char *what, const char **value,
                                 lake_error *err) {
  const lki_json *member = lki_json_get(json, name);
  if (member == NULL) return lki_fail(err, LAKE_CORRUPT, "%s: \"%s\" is missing", what, name);
  const char *text = lki_json_string(member);
  if (text == NULL) return lki_fail(err, LAKE_CORRUPT, "%s: \"%s\" is not a string", what, name);
  *value = text;
  return LAKE_OK;
}
