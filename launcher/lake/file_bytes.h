/* A local file as bytes. */
#ifndef LKI_LAUNCHER_FILE_BYTES_H
#define LKI_LAUNCHER_FILE_BYTES_H

#include "base/buffer.h"
#include "base/error.h"

/* Appends the whole file; INVALID when it is longer than the buffer may grow. NOTFOUND, DENIED, UNAVAILABLE. */
lake_status lki_file_read(const char *path, lake_buffer *out, lake_error *err);

#endif
