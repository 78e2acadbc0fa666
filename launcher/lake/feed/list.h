/* The files below some paths, in byte order, each once. Built once, then read only. */
#ifndef LKI_FEED_LIST_H
#define LKI_FEED_LIST_H

#include "base/error.h"

typedef struct lki_list_file {
  char *path;
  uint64_t bytes;
} lki_list_file;

typedef struct lki_list {
  lki_list_file *files;
  size_t count, capacity;
} lki_list;

/* Called with a line about what is passed over. */
typedef void lki_list_warn_fn(void *ctx, const char *line);

/* Folders are walked with a stack of at most depth_max levels. Symbolic links to files are followed, links to folders
 * only where given as a path, so that no loop is walked; a link in a folder that leads nowhere is passed over, and warn
 * (NULL: none) is told. INVALID, NOTFOUND, DENIED, UNAVAILABLE, NOMEM. */
lake_status lki_list_build(const char *const *paths, size_t path_count, size_t depth_max, size_t count_max,
                           lki_list_warn_fn *warn, void *ctx, lki_list *list, lake_error *err);
void lki_list_free(lki_list *list);

#endif
