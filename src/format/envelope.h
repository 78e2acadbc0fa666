/* The envelope of manifests and segments: 40 bytes that say what a body is, how long, and its checksum. Pure.
 */
#ifndef LKI_FORMAT_ENVELOPE_H
#define LKI_FORMAT_ENVELOPE_H

#include "base/buffer.h"
#include "base/error.h"

#define LKI_ENVELOPE_BYTES 40
#define LKI_ENVELOPE_ZSTD 1u /* flag: the body is one zstd frame */

typedef struct lki_envelope_kind {
  char magic[9]; /* 8 bytes and a NUL */
  const char *noun;
  size_t bytes_max; /* of the body, stored and decoded */
  bool zstd;        /* may the body be compressed? */
} lki_envelope_kind;

/* Appends envelope and body; the body is compressed where the kind allows it and that makes it smaller. */
lake_status lki_envelope_write(lake_env *env, const lki_envelope_kind *kind, lake_bytes body,
                               lake_buffer *out, lake_error *err);
/* Verifies a whole object. *body views into bytes, or into scratch, which was initialised by the caller and
 * is to be freed by it. */
lake_status lki_envelope_read(const lki_envelope_kind *kind, lake_bytes bytes, const char *what,
                              lake_buffer *scratch, lake_bytes *body, lake_error *err);

/* The version field of any object: CORRUPT for 0, UNSUPPORTED for a newer one. */
lake_status lki_format_version_check(uint64_t version, const char *what, lake_error *err);

#endif
