/* Where listings were left. Azure goes on with a listing only by an opaque marker, never from a key; who
 * comes back for the keys behind the last one it saw would have to read everything before them again. A few
 * markers are kept, each with the first name of the page that it leads to: the nearest one below is where to
 * begin. A marker that is gone costs requests, never keys. Safe from any thread. */
#ifndef LKI_STORE_BOOKMARK_H
#define LKI_STORE_BOOKMARK_H

#include "base/buffer.h"

typedef struct lki_bookmarks lki_bookmarks;

lake_status lki_bookmarks_open(lake_env *env, lki_bookmarks **out, lake_error *err);
void lki_bookmarks_close(lki_bookmarks *marks); /* NULL accepted */
/* The marker of a page of `prefix` that begins at or below `name`, into the arena; NULL: begin at the
 * beginning. */
const char *lki_bookmarks_find(lki_bookmarks *marks, const char *prefix, const char *name, lki_arena *arena);
void lki_bookmarks_keep(lki_bookmarks *marks, const char *prefix, const char *first_name, const char *marker);
void lki_bookmarks_drop(lki_bookmarks *marks, const char *marker); /* the server does not know it any more */

#endif
