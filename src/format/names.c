/* Object names: docs/format/names.md. A parsed name is formatted again and compared, so that exactly one text
 * names an object. Pure. */
#include "format/names.h"
#include "base/checksum.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool lki_name_component_valid(const char *text) {
  size_t n = 0;
  for (; text[n] != 0; n++) {
    char c = text[n];
    bool fine = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
                c == '_' || c == '-';
    if (!fine || n >= 64) return false;
  }
  return n > 0 && text[0] != '.';
}

/* Digits at *text, as many as there are; false: none, or past 64 bits. */
static bool take_number(const char **text, uint64_t *value) {
  const char *p = *text;
  uint64_t v = 0;
  if (*p < '0' || *p > '9') return false;
  for (; *p >= '0' && *p <= '9'; p++) {
    uint64_t digit = (uint64_t)(*p - '0');
    if (v > (UINT64_MAX - digit) / 10) return false;
    v = v * 10 + digit;
  }
  *text = p;
  *value = v;
  return true;
}

void lki_name_manifest(char *dst, uint64_t version) {
  snprintf(dst, LKI_NAME_BYTES, LKI_NAME_MANIFEST_PREFIX "%020" PRIu64 ".manifest", version);
}

bool lki_name_manifest_parse(const char *key, uint64_t *version) {
  char again[LKI_NAME_BYTES];
  uint64_t v = 0;
  size_t prefix = strlen(LKI_NAME_MANIFEST_PREFIX);
  if (strncmp(key, LKI_NAME_MANIFEST_PREFIX, prefix) != 0) return false;
  const char *p = key + prefix;
  if (!take_number(&p, &v)) return false;
  lki_name_manifest(again, v);
  if (strcmp(again, key) != 0) return false;
  *version = v;
  return true;
}

void lki_name_segment(char *dst, const lki_segment_ref *ref) {
  snprintf(dst, LKI_NAME_BYTES, "segment/%" PRIu32 "/%020" PRIu64 "-%020" PRIu64 "-%016" PRIx64 ".segment",
           ref->level, ref->first_step, ref->version, ref->checksum);
}

static bool take_hex(const char **text, uint64_t *value) {
  uint64_t v = 0;
  for (int i = 0; i < 16; i++, ++*text) {
    const char c = **text;
    if (c >= '0' && c <= '9')
      v = v << 4 | (uint64_t)(c - '0');
    else if (c >= 'a' && c <= 'f')
      v = v << 4 | (uint64_t)(c - 'a' + 10);
    else
      return false;
  }
  *value = v;
  return true;
}

bool lki_name_segment_parse(const char *key, lki_segment_ref *ref) {
  char again[LKI_NAME_BYTES];
  lki_segment_ref r = {0};
  uint64_t level = 0;
  const char *p = key;
  if (strncmp(p, "segment/", 8) != 0) return false;
  p += 8;
  if (!take_number(&p, &level) || level > LKI_SEGMENT_LEVEL_MAX || *p++ != '/') return false;
  r.level = (uint32_t)level;
  if (!take_number(&p, &r.first_step) || *p++ != '-' || !take_number(&p, &r.version) || *p++ != '-' ||
      !take_hex(&p, &r.checksum))
    return false;
  lki_name_segment(again, &r);
  if (strcmp(again, key) != 0) return false;
  *ref = r;
  return true;
}

void lki_name_boundary(char *dst, uint64_t block) {
  snprintf(dst, LKI_NAME_BYTES, "boundary/%020" PRIu64, block);
}

void lki_name_line(char *dst, const lki_line *line) {
  snprintf(dst, LKI_NAME_BYTES, LKI_NAME_LINE_PREFIX "%020" PRIu64 "-%020" PRIu64 "-%016" PRIx64, line->step,
           line->version_max, line->id);
}

bool lki_name_line_parse(const char *key, lki_line *line) {
  char again[LKI_NAME_BYTES];
  lki_line l = {0};
  const size_t prefix = strlen(LKI_NAME_LINE_PREFIX);
  if (strncmp(key, LKI_NAME_LINE_PREFIX, prefix) != 0) return false;
  const char *p = key + prefix;
  if (!take_number(&p, &l.step) || *p++ != '-' || !take_number(&p, &l.version_max) || *p++ != '-' ||
      !take_hex(&p, &l.id))
    return false;
  lki_name_line(again, &l);
  if (strcmp(again, key) != 0) return false;
  *line = l;
  return true;
}

/* The spread byte comes first in the name, so that a store that splits its load by key prefix can. */
void lki_name_tgb(char *dst, const char *producer_id, uint64_t epoch, uint64_t seq) {
  char rest[LKI_NAME_BYTES - 16];
  assert(lki_name_component_valid(producer_id));
  int n = snprintf(rest, sizeof rest, "%s/%010" PRIu64 "-%020" PRIu64, producer_id, epoch, seq);
  assert(n > 0 && (size_t)n < sizeof rest);
  unsigned spread = (unsigned)(lki_checksum(rest, (size_t)n, 0) & 0xff);
  snprintf(dst, LKI_NAME_BYTES, "data/%02x/%s.tgb", spread, rest);
}

bool lki_name_tgb_parse(const char *key, char *producer_id, uint64_t *epoch, uint64_t *seq) {
  char again[LKI_NAME_BYTES], id[LKI_PRODUCER_ID_BYTES_MAX + 1];
  uint64_t e = 0, q = 0;
  if (strncmp(key, "data/", 5) != 0 || strlen(key) < 8 || key[7] != '/') return false;
  const char *p = key + 8, *slash = strchr(p, '/');
  if (slash == NULL || slash - p > LKI_PRODUCER_ID_BYTES_MAX) return false;
  memcpy(id, p, (size_t)(slash - p));
  id[slash - p] = 0;
  p = slash + 1;
  if (!lki_name_component_valid(id) || !take_number(&p, &e) || *p++ != '-' || !take_number(&p, &q))
    return false;
  lki_name_tgb(again, id, e, q);
  if (strcmp(again, key) != 0) return false;
  memcpy(producer_id, id, strlen(id) + 1);
  *epoch = e;
  *seq = q;
  return true;
}

void lki_name_pin(char *dst, const char *group, const char *checkpoint) {
  assert(lki_name_component_valid(group) && lki_name_component_valid(checkpoint));
  snprintf(dst, LKI_NAME_BYTES, LKI_NAME_PIN_PREFIX "%s/%s.json", group, checkpoint);
}
