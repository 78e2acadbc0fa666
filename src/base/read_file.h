/* Small files of the machine, read whole: settings, credentials, tokens. Not the way to a store's objects. */
#ifndef LKI_BASE_READ_FILE_H
#define LKI_BASE_READ_FILE_H

#include "base/env.h"

/* The content, terminated by a NUL that *bytes (NULL accepted) does not count; the caller frees it with
 * lki_free. The error names the path and nothing of what is in it. NOTFOUND: no such file; DENIED: no
 * permission; INVALID: not a plain file, or larger than bytes_max; UNAVAILABLE: the disk. */
lake_status lki_read_file(lake_env *env, const char *path, size_t bytes_max, char **out, size_t *bytes,
                          lake_error *err);

#endif
