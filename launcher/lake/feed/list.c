/* Walking folders. No state beyond the list. */
#include "feed/list.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct level {
  DIR *dir;
  size_t path_bytes; /* of the folder in walk.path */
} level;

typedef struct walk {
  lki_list *list;
  size_t count_max, depth, depth_max;
  level *levels;
  lki_list_warn_fn *warn;
  void *ctx;
  char path[8192];
} walk;

static lake_status fail_errno(lake_error *err, const char *path, int code) {
  lake_status s = code == ENOENT || code == ENOTDIR ? LAKE_NOTFOUND
                  : code == EACCES || code == EPERM ? LAKE_DENIED
                  : code == ENOMEM                  ? LAKE_NOMEM
                                                    : LAKE_UNAVAILABLE;
  return lki_fail(err, s, "input %s: %s", path, strerror(code));
}

static lake_status add_file(walk *w, const char *path, uint64_t bytes, lake_error *err) {
  lki_list *list = w->list;
  if (list->count == w->count_max)
    return lki_fail(err, LAKE_INVALID, "input: more than %zu files; pack them into JSONL files", w->count_max);
  if (list->count == list->capacity) {
    size_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
    lki_list_file *files = realloc(list->files, capacity * sizeof *files);
    if (files == NULL) return lki_fail(err, LAKE_NOMEM, "no memory for the list of input files");
    list->files = files;
    list->capacity = capacity;
  }
  char *copy = strdup(path);
  if (copy == NULL) return lki_fail(err, LAKE_NOMEM, "no memory for the list of input files");
  list->files[list->count++] = (lki_list_file){copy, bytes};
  return LAKE_OK;
}

static lake_status push(walk *w, size_t path_bytes, lake_error *err) {
  if (w->depth == w->depth_max)
    return lki_fail(err, LAKE_INVALID, "input %s: folders nested deeper than %zu", w->path, w->depth_max);
  DIR *dir = opendir(w->path);
  if (dir == NULL) return fail_errno(err, w->path, errno);
  w->levels[w->depth++] = (level){dir, path_bytes};
  return LAKE_OK;
}

/* One link that leads nowhere is no reason to feed nothing at all. */
static void pass_over(const walk *w) {
  char line[600];
  snprintf(line, sizeof line, "skipped %.500s: a symbolic link that leads to no file", w->path);
  if (w->warn != NULL) w->warn(w->ctx, line);
}

static lake_status visit(walk *w, const char *name, lake_error *err) {
  size_t base = w->levels[w->depth - 1].path_bytes, name_bytes = strlen(name);
  bool slash = base > 0 && w->path[base - 1] != '/';
  if (base + slash + name_bytes >= sizeof w->path)
    return lki_fail(err, LAKE_INVALID, "input %.200s...: path longer than %zu bytes", w->path, sizeof w->path - 1);
  if (slash) w->path[base] = '/';
  memcpy(w->path + base + slash, name, name_bytes + 1);
  struct stat st;
  if (lstat(w->path, &st) != 0) return fail_errno(err, w->path, errno);
  if (S_ISDIR(st.st_mode)) return push(w, base + slash + name_bytes, err);
  if (S_ISLNK(st.st_mode) && stat(w->path, &st) != 0) {
    if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) return fail_errno(err, w->path, errno);
    pass_over(w);
    return LAKE_OK;
  }
  return S_ISREG(st.st_mode) ? add_file(w, w->path, (uint64_t)st.st_size, err) : LAKE_OK;
}

static lake_status walk_folder(walk *w, lake_error *err) {
  lake_status s = push(w, strlen(w->path), err);
  while (s == LAKE_OK && w->depth > 0) {
    level *top = &w->levels[w->depth - 1];
    errno = 0;
    struct dirent *entry = readdir(top->dir);
    w->path[top->path_bytes] = 0;
    if (entry == NULL) {
      if (errno != 0) s = fail_errno(err, w->path, errno);
      closedir(top->dir);
      w->depth--;
    } else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
      s = visit(w, entry->d_name, err);
    }
  }
  while (w->depth > 0) closedir(w->levels[--w->depth].dir);
  return s;
}

static lake_status add_path(walk *w, const char *path, lake_error *err) {
  struct stat st;
  if (stat(path, &st) != 0) return fail_errno(err, path, errno);
  if (S_ISREG(st.st_mode)) return add_file(w, path, (uint64_t)st.st_size, err);
  if (!S_ISDIR(st.st_mode)) return lki_fail(err, LAKE_INVALID, "input %s: neither a file nor a folder", path);
  if (strlen(path) >= sizeof w->path) return fail_errno(err, path, ENAMETOOLONG);
  memcpy(w->path, path, strlen(path) + 1);
  return walk_folder(w, err);
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const lki_list_file *)a)->path, ((const lki_list_file *)b)->path);
}

lake_status lki_list_build(const char *const *paths, size_t path_count, size_t depth_max, size_t count_max,
                           lki_list_warn_fn *warn, void *ctx, lki_list *list, lake_error *err) {
  lki_list built = {0};
  lake_status s = LAKE_OK;
  walk *w = calloc(1, sizeof *w);
  level *levels = calloc(depth_max, sizeof *levels);
  if (w == NULL || levels == NULL) {
    s = lki_fail(err, LAKE_NOMEM, "no memory to walk the input folders");
    goto done;
  }
  w->list = &built;
  w->count_max = count_max;
  w->depth_max = depth_max;
  w->levels = levels;
  w->warn = warn;
  w->ctx = ctx;
  for (size_t i = 0; s == LAKE_OK && i < path_count; i++) s = add_path(w, paths[i], err);
  if (s != LAKE_OK) goto done;
  if (built.count > 0) qsort(built.files, built.count, sizeof *built.files, by_path);
  /* A file given twice, or also found in a folder that was given, is one file. */
  size_t kept = 0;
  for (size_t i = 0; i < built.count; i++) {
    if (kept > 0 && strcmp(built.files[kept - 1].path, built.files[i].path) == 0)
      free(built.files[i].path);
    else
      built.files[kept++] = built.files[i];
  }
  built.count = kept;
  *list = built;
  memset(&built, 0, sizeof built);
done:
  lki_list_free(&built);
  free(levels);
  free(w);
  return s;
}

void lki_list_free(lki_list *list) {
  for (size_t i = 0; i < list->count; i++) free(list->files[i].path);
  free(list->files);
  memset(list, 0, sizeof *list);
}
