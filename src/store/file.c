/* file:/folder, a store in a folder of any POSIX file system (local, NFS, Lustre, GPFS): its table, reading,
 * opening. Writing is in file_put.c, listing in file_list.c; file.h says how the folder is laid out.
 *
 * Reading: an object is opened once and read through its descriptor, so a put that replaces it meanwhile
 * changes nothing; objects are never written in place. Threads: no state but what file.h names. */
#include "store/file.h"
#include "base/buffer.h"
#include "base/env.h"
#include "base/error.h"
#include "store/store.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES_MAX ((size_t)32 << 20) /* between two looks at the deadline */

/* Opens an object. *object_bytes: its size. O_NONBLOCK, since a pipe of that name must not block the reader.
 */
static lake_status open_object(lki_file_store *fs, const char *key, int flags, int *fd,
                               uint64_t *object_bytes, lake_error *err) {
  int root_fd;
  lake_status s = lki_file_root(fs, false, &root_fd, err);
  if (s != LAKE_OK) return s;
  int object_fd = lki_file_open_at(fs, root_fd, key, (flags & O_PATH) != 0 ? flags : flags | O_NONBLOCK);
  if (object_fd < 0) {
    int e = errno;
    /* Below an object there is nothing. */
    if (e == ENOENT || e == ENOTDIR) return lki_file_fail_missing(root_fd, err);
    return lki_file_fail(err, e, "cannot open");
  }
  struct stat st;
  if (fstat(object_fd, &st) != 0) {
    s = lki_file_fail(err, errno, "cannot read its size");
  } else if (S_ISLNK(st.st_mode)) { /* O_PATH opens a link itself where openat2 is not there to refuse it */
    s = lki_file_fail(err, ELOOP, "cannot open");
  } else if (!S_ISREG(st.st_mode)) {
    s = lki_fail(err, LAKE_NOTFOUND,
                 S_ISDIR(st.st_mode) ? "no such object: the name is a folder of others"
                                     : "no such object: the name is neither file nor folder");
  }
  if (s != LAKE_OK) {
    lki_file_close(object_fd);
    return s;
  }
  *fd = object_fd;
  *object_bytes = (uint64_t)st.st_size;
  return LAKE_OK;
}

static lake_status read_all(lki_file_store *fs, int fd, unsigned char *data, size_t bytes, uint64_t offset,
                            lake_deadline deadline, lake_error *err) {
  size_t done = 0;
  while (done < bytes) {
    size_t want = bytes - done < READ_BYTES_MAX ? bytes - done : READ_BYTES_MAX;
    ssize_t n = pread(fd, data + done, want, (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return lki_file_fail(err, errno, "cannot read");
    if (n == 0)
      return lki_fail(err, LAKE_CORRUPT,
                      "the object ends at byte %llu, %llu were expected; somebody truncated the file",
                      (unsigned long long)(offset + done), (unsigned long long)(offset + bytes));
    done += (size_t)n;
    if (done < bytes && (size_t)n == want && lki_deadline_passed(fs->env, deadline))
      return lki_fail(err, LAKE_TIMEOUT, "the deadline passed with %zu of %zu bytes read", done, bytes);
  }
  return LAKE_OK;
}

static lake_status file_get(void *self, const char *key, lake_range range, lake_buffer *out,
                            lake_object_info *info, lake_deadline deadline, lake_error *err) {
  lki_file_store *fs = self;
  int fd = -1;
  uint64_t object_bytes = 0;
  lake_status s = open_object(fs, key, O_RDONLY, &fd, &object_bytes, err);
  if (s != LAKE_OK) return s;
  uint64_t offset = 0;
  uint64_t bytes = object_bytes;
  if (range.kind == LAKE_RANGE_EXACT) {
    offset = range.offset;
    bytes = range.bytes;
    if (offset > object_bytes || bytes > object_bytes - offset) {
      s = lki_fail(err, LAKE_CORRUPT, "the object has %llu bytes, %llu from %llu were asked",
                   (unsigned long long)object_bytes, (unsigned long long)bytes, (unsigned long long)offset);
      goto done;
    }
  } else if (range.kind == LAKE_RANGE_SUFFIX && range.bytes < object_bytes) {
    offset = object_bytes - range.bytes;
    bytes = range.bytes;
  }
  s = lki_store_fits(out, bytes, err);
  if (s == LAKE_OK) s = lki_buffer_reserve(out, (size_t)bytes, err);
  if (s == LAKE_OK) s = read_all(fs, fd, out->data, (size_t)bytes, offset, deadline, err);
  if (s != LAKE_OK) goto done;
  out->bytes = (size_t)bytes;
  if (info != NULL) info->object_bytes = object_bytes;
done:
  lki_file_close(fd);
  return s;
}

static lake_status file_head(void *self, const char *key, lake_object_info *info, lake_deadline deadline,
                             lake_error *err) {
  (void)deadline;
  int fd = -1;
  uint64_t object_bytes = 0;
  lake_status s = open_object(self, key, O_PATH, &fd, &object_bytes, err);
  if (s != LAKE_OK) return s;
  lki_file_close(fd);
  info->object_bytes = object_bytes;
  return LAKE_OK;
}

static lake_status file_put(void *self, const char *key, lake_bytes body, lake_deadline deadline,
                            lake_error *err) {
  return lki_file_put(self, key, body, deadline, err);
}

static lake_status file_put_if_absent(void *self, const char *key, lake_bytes body, lake_deadline deadline,
                                      lake_error *err) {
  return lki_file_put_if_absent(self, key, body, deadline, err);
}

static lake_status file_list(void *self, const char *prefix, const char *start_after, lake_list_fn *fn,
                             void *ctx, lake_deadline deadline, lake_error *err) {
  return lki_file_list(self, prefix, start_after, fn, ctx, deadline, err);
}

/* The folder stays, even when it is empty now: somebody may be about to create in it. No fsync: what comes
 * back after a power loss is the same object once more, and whoever removes may simply do it again. */
static lake_status file_remove(void *self, const char *key, lake_deadline deadline, lake_error *err) {
  (void)deadline;
  lki_file_store *fs = self;
  int parent_fd = -1;
  const char *name = NULL;
  lake_error e = LAKE_ERROR_INIT;
  lake_status s = lki_file_open_parent(fs, key, false, &parent_fd, &name, &e);
  /* No folder, or an object where a folder would have to be: then there is no such object, which is what was
   * wanted. */
  if (s == LAKE_NOTFOUND || s == LAKE_INVALID) return LAKE_OK;
  if (s != LAKE_OK) {
    lki_error_copy(err, &e);
    return s;
  }
  if (unlinkat(parent_fd, name, 0) != 0 && errno != ENOENT) {
    int cause = errno;
    struct stat st;
    bool folder = fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
    if (!folder)
      s = lki_file_fail(err, cause, "cannot remove"); /* a folder holds other objects; there is no such one */
  }
  lki_file_close(parent_fd);
  return s;
}

static void file_close(void *self) {
  lki_file_store *fs = self;
  lki_file_close(atomic_load(&fs->root_fd));
  lki_mutex_close(fs->env, fs->lock);
  lki_free(fs->env, fs->root);
  lki_free(fs->env, fs);
}

static const lake_store_ops file_ops = {
    .size = sizeof file_ops, .scheme = "file", .get = file_get, .put = file_put,
    .put_if_absent = file_put_if_absent, .head = file_head, .list = file_list, .remove = file_remove,
    .close = file_close,
};

lake_status lki_store_file_open(lake_env *env, const char *path, const lake_store_ops **ops, void **self,
                                lake_error *err) {
  lki_file_store *fs = lki_new(env, sizeof *fs);
  if (fs == NULL) return lki_fail(err, LAKE_NOMEM, "store file:%.120s: out of memory", path);
  fs->env = env;
  atomic_init(&fs->root_fd, -1);
  fs->root = lki_strdup(env, path);
  fs->lock = lki_mutex_open(env);
  if (fs->root == NULL || fs->lock == NULL) {
    file_close(fs);
    return lki_fail(err, LAKE_NOMEM, "store file:%.120s: out of memory", path);
  }
  /* A folder that does not exist yet is made by the first write; anything else is said now. */
  int fd;
  lake_error e = LAKE_ERROR_INIT;
  lake_status s = lki_file_root(fs, false, &fd, &e);
  if (s != LAKE_OK && s != LAKE_NOTFOUND) {
    file_close(fs);
    return lki_fail(err, s, "store file:%.120s: %s", path, e.text);
  }
  *ops = &file_ops;
  *self = fs;
  return LAKE_OK;
}
