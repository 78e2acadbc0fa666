/* INI files of sections and values as the clouds' own tools write them: ~/.aws/config, ~/.aws/credentials,
 * ~/.boto,
 * ~/.azure/config. Stateless: each question reads the file, so that an answer is as new as the file. Safe
 * from any thread. */
#ifndef LKI_STORE_PROFILE_H
#define LKI_STORE_PROFILE_H

#include "base/buffer.h"

#define LKI_PROFILE_BYTES_MAX ((size_t)1 << 20)

/* One value. *out NULL: the file, the section or the name is not there. The text is the arena's.
 * section: "default", "profile prod"; blanks and quotes within the brackets are not told apart.
 * name: whatever its case; "s3.addressing_style" is the value of an indented line below "s3 =".
 * A file that is too large or that cannot be parsed is INVALID, with the line's number and never its text. */
lake_status lki_profile_get(lki_arena *arena, const char *path, const char *section, const char *name,
                            const char **out, lake_error *err);
/* The same out of a text; path is for the error only. */
lake_status lki_profile_find(lki_arena *arena, lake_bytes text, const char *path, const char *section,
                             const char *name, const char **out, lake_error *err);
/* Whether there is such a section. */
lake_status lki_profile_has(lake_env *env, const char *path, const char *section, bool *out, lake_error *err);

#endif
