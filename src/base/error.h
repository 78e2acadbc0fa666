/* Filling a lake_error: one line, always terminated, never longer than its room; control characters are replaced. */
#ifndef LKI_BASE_ERROR_H
#define LKI_BASE_ERROR_H

#include <lakestream/base.h>
#include <stdarg.h>

/* Sets *err (NULL accepted) and returns status, so that `return lki_fail(...)` reads well. */
lake_status lki_fail(lake_error *err, lake_status status, const char *format, ...) LAKE_PRINTF(3, 4);
/* Puts "context: " before the text that is there, keeping the status. */
void lki_error_prefix(lake_error *err, const char *format, ...) LAKE_PRINTF(2, 3);
void lki_error_copy(lake_error *dst, const lake_error *src); /* either may be NULL */

/* Options structs grow by appending. Checks `size` and copies into a zeroed struct of known_bytes; unknown bytes
 * that are not zero are INVALID. options NULL leaves the zeroes. */
lake_status lki_options_copy(void *dst, size_t known_bytes, const void *options, const char *what, lake_error *err);

#endif
