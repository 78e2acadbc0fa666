/* Listing the file: store in ascending byte order of whole keys, by walking the tree with a stack of its own.
 *
 * Within a folder, names are sorted with '/' behind those of folders: "a.x" comes before "a/b" since '.' <
 * '/', which a plain sort of names would turn around. Folders that cannot hold a wanted key are not opened.
 * What disappears while the walk runs is skipped. Each folder is read whole before any of it is delivered, so
 * the callback may write to the store. Threads: a walk belongs to one call. */
#include "base/buffer.h"
#include "base/env.h"
#include "base/error.h"
#include "store/file.h"
#include "store/store.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX (LKI_KEY_BYTES_MAX / 2 + 1) /* a component and its slash have two bytes at least */

typedef struct level {
  lki_arena arena;    /* holds the names */
  const char **names; /* sorted; a folder's ends with '/' */
  size_t name_count;
  size_t name_capacity;
  size_t at;
  size_t path_bytes; /* of walk.path that are this folder's, its slash included */
  int fd;
} level;

typedef struct walk {
  lki_file_store *fs;
  int root_fd;
  const char *prefix;
  size_t prefix_bytes;
  const char *after; /* "" : from the first */
  size_t depth;
  level *levels[DEPTH_MAX];
  char path[LKI_KEY_BYTES_MAX + 2];
} walk;

/* Could a key that begins with path (a folder, slash included) be wanted? */
static bool folder_wanted(const walk *w, const char *path, size_t bytes) {
  size_t common = bytes < w->prefix_bytes ? bytes : w->prefix_bytes;
  if (memcmp(path, w->prefix, common) != 0) return false;
  /* All of its keys are greater than path itself; they are all past when path is smaller and no beginning of
   * after. */
  return strncmp(path, w->after, bytes) >= 0;
}

static bool object_wanted(const walk *w, const char *key) {
  return strncmp(key, w->prefix, w->prefix_bytes) == 0 && strcmp(key, w->after) > 0;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool level_add(lake_env *env, level *l, const char *name, bool folder) {
  if (l->name_count == l->name_capacity) {
    size_t capacity = l->name_capacity > 0 ? l->name_capacity * 2 : 64;
    const char **names = lki_alloc(env, capacity * sizeof *names);
    if (names == NULL) return false;
    if (l->name_count > 0) memcpy(names, l->names, l->name_count * sizeof *names);
    lki_free(env, l->names);
    l->names = names;
    l->name_capacity = capacity;
  }
  size_t bytes = strlen(name);
  char *copy = lki_arena_alloc(&l->arena, bytes + 2);
  if (copy == NULL) return false;
  memcpy(copy, name, bytes);
  if (folder) copy[bytes] = '/';
  l->names[l->name_count++] = copy;
  return true;
}

/* Adds one entry of a folder if a wanted key may come of it. False: no memory. */
static bool level_entry(walk *w, level *l, const struct dirent *entry) {
  const char *name = entry->d_name;
  size_t bytes = strlen(name);
  if (l->path_bytes + bytes > LKI_KEY_BYTES_MAX || bytes > LKI_KEY_COMPONENT_BYTES_MAX) return true;
  if (name[0] == '.' && (name[1] == 0 || strcmp(name, "..") == 0 || strncmp(name, ".lake-", 6) == 0))
    return true;
  bool folder = entry->d_type == DT_DIR;
  if (entry->d_type == DT_UNKNOWN) {
    struct stat st;
    if (fstatat(l->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return true;
    folder = S_ISDIR(st.st_mode);
    if (!folder && !S_ISREG(st.st_mode)) return true;
  } else if (!folder && entry->d_type != DT_REG) {
    return true; /* links, pipes and the like are no objects */
  }
  memcpy(w->path + l->path_bytes, name, bytes);
  w->path[l->path_bytes + bytes] = folder ? '/' : 0;
  w->path[l->path_bytes + bytes + 1] = 0;
  bool wanted = folder ? folder_wanted(w, w->path, l->path_bytes + bytes + 1) : object_wanted(w, w->path);
  return !wanted || level_add(w->fs->env, l, name, folder);
}

static void level_free(lake_env *env, level *l) {
  if (l == NULL) return;
  lki_file_close(l->fd);
  lki_free(env, l->names);
  lki_arena_free(&l->arena);
  lki_free(env, l);
}

static lake_status level_read(walk *w, level *l, lake_error *err) {
  int fd = openat(l->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
  if (dir == NULL) {
    int e = errno;
    lki_file_close(fd);
    if (e == ENOENT || e == ESTALE) return LAKE_OK; /* removed since it was opened */
    return lki_file_fail(err, e, "cannot read a folder");
  }
  lake_status s = LAKE_OK;
  while (s == LAKE_OK) {
    errno = 0;
    struct dirent *entry = readdir(dir);
    if (entry == NULL) {
      if (errno != 0 && errno != ENOENT) s = lki_file_fail(err, errno, "cannot read a folder");
      break;
    }
    if (!level_entry(w, l, entry)) s = lki_fail(err, LAKE_NOMEM, "out of memory for a listing");
  }
  closedir(dir);
  if (s == LAKE_OK && l->name_count > 1) qsort(l->names, l->name_count, sizeof l->names[0], by_name);
  return s;
}

/* Goes down into the folder w->path[0 .. path_bytes), whose slash is the last byte; 0: the root. */
static lake_status descend(walk *w, size_t path_bytes, lake_error *err) {
  if (w->depth == DEPTH_MAX) return LAKE_OK; /* no key is that deep */
  char folder[LKI_KEY_BYTES_MAX + 2];
  memcpy(folder, w->path, path_bytes);
  folder[path_bytes > 0 ? path_bytes - 1 : 0] = 0;
  int fd = lki_file_open_at(w->fs, w->root_fd, path_bytes > 0 ? folder : ".", O_RDONLY | O_DIRECTORY);
  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return LAKE_OK;
    return lki_file_fail(err, errno, "cannot open a folder");
  }
  level *l = lki_new(w->fs->env, sizeof *l);
  if (l == NULL) {
    lki_file_close(fd);
    return lki_fail(err, LAKE_NOMEM, "out of memory for a listing");
  }
  lki_arena_init(&l->arena, w->fs->env);
  l->fd = fd;
  l->path_bytes = path_bytes;
  w->levels[w->depth++] = l;
  return level_read(w, l, err);
}

/* Delivers or enters the next name of the deepest folder. *stop: the callback has enough. */
static lake_status step(walk *w, lake_list_fn *fn, void *ctx, bool *stop, lake_error *err) {
  level *l = w->levels[w->depth - 1];
  if (l->at == l->name_count) {
    level_free(w->fs->env, l);
    w->depth--;
    return LAKE_OK;
  }
  const char *name = l->names[l->at++];
  size_t bytes = strlen(name);
  memcpy(w->path + l->path_bytes, name, bytes + 1);
  if (name[bytes - 1] == '/') return descend(w, l->path_bytes + bytes, err);
  struct stat st;
  if (fstatat(l->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT || errno == ESTALE) return LAKE_OK;
    return lki_file_fail(err, errno, "cannot look an object up");
  }
  /* A folder that changed while it was read may show a name twice. */
  bool again = l->at > 1 && strcmp(l->names[l->at - 2], name) == 0;
  if (S_ISREG(st.st_mode) && !again) *stop = !fn(ctx, w->path, (uint64_t)st.st_size);
  return LAKE_OK;
}

lake_status lki_file_list(lki_file_store *fs, const char *prefix, const char *start_after, lake_list_fn *fn,
                          void *ctx, lake_deadline deadline, lake_error *err) {
  int root_fd;
  lake_status s = lki_file_root(fs, false, &root_fd, err);
  if (s == LAKE_NOTFOUND) return LAKE_OK; /* nothing was ever written */
  if (s != LAKE_OK) return s;
  walk *w = lki_new(fs->env, sizeof *w);
  if (w == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for a listing");
  w->fs = fs;
  w->root_fd = root_fd;
  w->prefix = prefix;
  w->prefix_bytes = strlen(prefix);
  w->after = start_after != NULL ? start_after : "";
  const char *slash = strrchr(prefix, '/');
  size_t first_bytes = slash != NULL ? (size_t)(slash - prefix) + 1 : 0;
  memcpy(w->path, prefix, first_bytes);
  bool stop = false;
  uint64_t step_count = 0;
  s = descend(w, first_bytes, err);
  while (s == LAKE_OK && !stop && w->depth > 0) {
    s = step(w, fn, ctx, &stop, err);
    if ((++step_count & 255) == 0 && s == LAKE_OK && !stop && lki_deadline_passed(fs->env, deadline))
      s = lki_fail(err, LAKE_TIMEOUT, "the deadline passed while listing");
  }
  while (w->depth > 0) level_free(fs->env, w->levels[--w->depth]);
  lki_free(fs->env, w);
  return s;
}
