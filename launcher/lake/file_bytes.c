/* Reading a local file. No state. */
#include "file_bytes.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

lake_status lki_file_read(const char *path, lake_buffer *out, lake_error *err) {
  FILE *file = fopen(path, "rbe");
  if (file == NULL)
    return lki_fail(err,
                    errno == ENOENT || errno == ENOTDIR ? LAKE_NOTFOUND
                    : errno == EACCES                   ? LAKE_DENIED
                                                        : LAKE_UNAVAILABLE,
                    "%s: %s", path, strerror(errno));
  char block[16384];
  lake_status s = LAKE_OK;
  for (size_t got = 1; s == LAKE_OK && got > 0;) {
    got = fread(block, 1, sizeof block, file);
    if (got > 0) s = lki_buffer_append(out, block, got, err);
  }
  if (s != LAKE_OK) lki_error_prefix(err, "%s", path);
  if (s == LAKE_OK && ferror(file)) s = lki_fail(err, LAKE_UNAVAILABLE, "%s: %s", path, strerror(errno));
  fclose(file);
  return s;
}
