/* Object names under a namespace's prefix: docs/format/names.md. Pure. Each fills dst, which has LKI_NAME_BYTES. */
#ifndef LKI_FORMAT_NAMES_H
#define LKI_FORMAT_NAMES_H

#include "model/manifest.h"

#define LKI_NAME_BYTES 512
#define LKI_NAME_NAMESPACE "lakestream.json"
#define LKI_NAME_HINT "manifest/hint"
#define LKI_NAME_MANIFEST_PREFIX "manifest/"
#define LKI_NAME_LINE_PREFIX "boundary/line/"
#define LKI_NAME_PIN_PREFIX "watermark/"

void lki_name_manifest(char *dst, uint64_t version);            /* manifest/<20 digits>.manifest */
bool lki_name_manifest_parse(const char *key, uint64_t *version);
void lki_name_segment(char *dst, const lki_segment_ref *ref);   /* segment/<level>/<20-digit first step>-<20-digit version>-<16 hex>.segment */
bool lki_name_segment_parse(const char *key, lki_segment_ref *ref); /* all but step_count and object_bytes */
/* data/<2 hex of xxh3(producer, epoch, seq)>/<producer>/<10-digit epoch>-<20-digit seq>.tgb */
void lki_name_tgb(char *dst, const char *producer_id, uint64_t epoch, uint64_t seq);
bool lki_name_tgb_parse(const char *key, char *producer_id /* LKI_PRODUCER_ID_BYTES_MAX + 1 */, uint64_t *epoch,
                        uint64_t *seq);
void lki_name_boundary(char *dst, uint64_t block);              /* boundary/<20-digit block> */
/* boundary/line/<20-digit step>-<20-digit version_max>-<16 hex id>: what a reclaimer is about to trim. */
typedef struct lki_line {
  uint64_t step;        /* the first live step that is to be committed */
  uint64_t version_max; /* the last version that may make it so; once that is there the line is void */
  uint64_t id;          /* one for each declaration, so that nobody removes another's */
} lki_line;
void lki_name_line(char *dst, const lki_line *line);
bool lki_name_line_parse(const char *key, lki_line *line);
void lki_name_pin(char *dst, const char *group, const char *checkpoint); /* watermark/<group>/<checkpoint>.json */

/* announce/<producer>/<10-digit epoch>-<20-digit seq>.<body as base64url, or nothing when it is long> */
#define LKI_NAME_ANNOUNCE_PREFIX "announce/"
typedef struct lki_announcement_key {
  char producer_id[LKI_PRODUCER_ID_BYTES_MAX + 1];
  uint64_t epoch, seq;
  unsigned char body[152];
  size_t body_bytes; /* 0: read the object */
} lki_announcement_key;
void lki_name_announcement(char *dst, const char *producer_id, uint64_t epoch, uint64_t seq, lake_bytes body);
bool lki_name_announcement_parse(const char *key, lki_announcement_key *out);

/* [A-Za-z0-9._-], 1 to 64 characters, not beginning with '.'. */
bool lki_name_component_valid(const char *text);

#endif
