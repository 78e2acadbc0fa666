/* Names to descriptors for the file: store: opening beneath the root, making folders durably, errors as
 * texts. The kernel confines paths (openat2, RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS); where it cannot, each
 * component is opened by itself with O_NOFOLLOW, which confines a path without ".." just as well. */
#include "base/checksum.h"
#include "base/env.h"
#include "base/error.h"
#include "store/file.h"
#include "store/store.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

lake_status lki_file_fail(lake_error *err, int e, const char *doing) {
  switch (e) {
  case ENOENT:
    return lki_fail(err, LAKE_NOTFOUND, "%s: no such object", doing);
  case ENOSPC:
    return lki_fail(err, LAKE_UNAVAILABLE, "%s: the disk is full: free space; nothing was lost", doing);
  case EDQUOT:
    return lki_fail(err, LAKE_UNAVAILABLE,
                    "%s: the disk quota is used up: free space or raise it; nothing was lost", doing);
  case EROFS:
    return lki_fail(err, LAKE_DENIED,
                    "%s: the file system is mounted read-only; remount it or use another folder", doing);
  case EACCES:
  case EPERM:
    return lki_fail(err, LAKE_DENIED, "%s: permission denied; check owner and mode of the folders", doing);
  case ELOOP:
    return lki_fail(err, LAKE_DENIED,
                    "%s: a symbolic link is in the way; links below the store are not followed", doing);
  case ENOTDIR:
    return lki_fail(err, LAKE_INVALID,
                    "%s: a folder was expected where a file lies: one key is the folder of another", doing);
  case EISDIR:
    return lki_fail(err, LAKE_INVALID, "%s: the name is a folder of other objects; choose another key",
                    doing);
  case ENAMETOOLONG:
    return lki_fail(err, LAKE_INVALID, "%s: the name is too long for this file system", doing);
  case EILSEQ:
  case EINVAL:
    return lki_fail(err, LAKE_INVALID, "%s: this file system does not take such a name or request", doing);
  case EXDEV:
    return lki_fail(err, LAKE_UNSUPPORTED,
                    "%s: another file system is mounted below the store's folder; move it", doing);
  case EMFILE:
  case ENFILE:
    return lki_fail(err, LAKE_UNAVAILABLE, "%s: too many open files; raise the limit (ulimit -n)", doing);
  case ENOMEM:
    return lki_fail(err, LAKE_NOMEM, "%s: out of memory", doing);
  default: {
    const char *text = strerrordesc_np(e);
    return lki_fail(err, LAKE_UNAVAILABLE, "%s: %s", doing, text != NULL ? text : "unknown system error");
  }
  }
}

lake_status lki_file_fail_missing(int root_fd, lake_error *err) {
  struct stat st;
  if (fstat(root_fd, &st) != 0 || st.st_nlink == 0)
    return lki_fail(err, LAKE_UNAVAILABLE,
                    "the store's folder was removed while it was open; open the store again");
  return lki_fail(err, LAKE_NOTFOUND, "no such object");
}

int lki_file_fsync(int fd) {
  int rc;
  do rc = fsync(fd);
  while (rc != 0 && errno == EINTR);
  return rc;
}

void lki_file_close(int fd) {
  if (fd < 0) return;
  int e = errno;
  close(fd);
  errno = e;
}

/* openat(2) again after a signal: opening may block on a network file system. */
static int open_again(int folder_fd, const char *path, int flags) {
  int fd;
  do fd = openat(folder_fd, path, flags | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  return fd;
}

/* With O_DIRECTORY the kernel calls a symbolic link ENOTDIR, like a file; openat2 tells them apart, so do we.
 */
static int open_folder(int folder_fd, const char *name) {
  int fd = open_again(folder_fd, name, FOLDER_FLAGS | O_NOFOLLOW);
  if (fd >= 0 || errno != ENOTDIR) return fd;
  struct stat st;
  errno = fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode) ? ELOOP : ENOTDIR;
  return -1;
}

static int open_by_component(int root_fd, const char *path, int flags) {
  int folder_fd = root_fd;
  for (;;) {
    size_t bytes = strcspn(path, "/");
    bool last = path[bytes] == 0;
    char component[LKI_KEY_COMPONENT_BYTES_MAX + 1];
    int fd = -1;
    if (bytes > LKI_KEY_COMPONENT_BYTES_MAX) {
      errno = ENAMETOOLONG;
    } else {
      memcpy(component, path, bytes);
      component[bytes] = 0;
      bool folder = !last || (flags & O_DIRECTORY) != 0;
      fd = folder ? open_folder(folder_fd, component) : open_again(folder_fd, component, flags | O_NOFOLLOW);
    }
    if (folder_fd != root_fd) lki_file_close(folder_fd);
    if (fd < 0 || last) return fd;
    folder_fd = fd;
    path += bytes + 1;
  }
}

int lki_file_open_at(lki_file_store *fs, int root_fd, const char *path, int flags) {
  if (!atomic_load(&fs->no_openat2)) {
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                           .mode = flags & O_CREAT ? 0666 : 0,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    long fd;
    do fd = syscall(SYS_openat2, root_fd, path, &how, sizeof how);
    while (fd < 0 && (errno == EINTR || errno == EAGAIN));
    /* ENOSYS: before Linux 5.6. EPERM: some containers' filters answer so to calls they do not know. */
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return (int)fd;
    atomic_store(&fs->no_openat2, true);
  }
  return open_by_component(root_fd, path, flags);
}

/* Opens a folder in folder_fd, making it if it is missing, and leaves its name durable. A folder that was
 * there may have been made by another process an instant ago, so the fsync is needed for it too. */
static int open_durable_folder(int folder_fd, const char *name) {
  int fd = open_folder(folder_fd, name);
  if (fd < 0 && errno == ENOENT) {
    if (mkdirat(folder_fd, name, 0777) != 0 && errno != EEXIST) return -1;
    fd = open_folder(folder_fd, name);
  }
  if (fd < 0) return -1;
  if (lki_file_fsync(folder_fd) != 0) {
    lki_file_close(fd);
    return -1;
  }
  return fd;
}

/* Makes what is missing of an absolute path without links or dots. */
static int make_root(const char *path) {
  size_t bytes = strlen(path);
  size_t head = bytes;
  char part[PATH_MAX];
  if (bytes >= sizeof part) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(part, path, bytes + 1);
  /* Downwards from the deepest folder that exists: those above may be closed to reading, so fsync skips them.
   */
  int fd = -1;
  for (;;) {
    fd = open_again(AT_FDCWD, head > 0 ? part : "/", FOLDER_FLAGS);
    if (fd >= 0 || errno != ENOENT || head == 0) break;
    while (head > 0 && part[head - 1] != '/') head--;
    while (head > 0 && part[head - 1] == '/') head--;
    part[head] = 0;
  }
  const char *rest = path + head;
  while (fd >= 0) {
    while (*rest == '/') rest++;
    size_t component_bytes = strcspn(rest, "/");
    if (component_bytes == 0) break;
    memcpy(part, rest, component_bytes);
    part[component_bytes] = 0;
    int next_fd = open_durable_folder(fd, part);
    lki_file_close(fd);
    fd = next_fd;
    rest += component_bytes;
  }
  return fd;
}

lake_status lki_file_root(lki_file_store *fs, bool create, int *fd, lake_error *err) {
  int root_fd = atomic_load(&fs->root_fd);
  if (root_fd >= 0) {
    *fd = root_fd;
    return LAKE_OK;
  }
  int e = 0;
  lki_lock(fs->env, fs->lock);
  root_fd = atomic_load(&fs->root_fd);
  if (root_fd < 0) {
    root_fd = create ? make_root(fs->root) : open_again(AT_FDCWD, fs->root, FOLDER_FLAGS);
    e = errno;
    if (root_fd >= 0) atomic_store(&fs->root_fd, root_fd);
  }
  lki_unlock(fs->env, fs->lock);
  if (root_fd < 0) {
    if (e == ENOENT && create)
      return lki_fail(err, LAKE_NOTFOUND, "the store's folder cannot be made there; choose another place");
    if (e == ENOENT) return lki_fail(err, LAKE_NOTFOUND, "no such object: the store's folder does not exist");
    if (e == ENOTDIR) return lki_fail(err, LAKE_INVALID, "the store's path is a file; name a folder");
    return lki_file_fail(err, e,
                         create ? "cannot make the store's folder" : "cannot open the store's folder");
  }
  *fd = root_fd;
  return LAKE_OK;
}

lake_status lki_file_own_folder(lki_file_store *fs, int root_fd, const char *name, int *fd, lake_error *err) {
  (void)fs;
  int folder_fd = open_folder(root_fd, name);
  if (folder_fd < 0 && errno == ENOENT) folder_fd = open_durable_folder(root_fd, name);
  if (folder_fd < 0) {
    int e = errno;
    if (e == ENOENT) return lki_file_fail_missing(root_fd, err);
    return lki_file_fail(err, e, "cannot make the folder for temporary files");
  }
  *fd = folder_fd;
  return LAKE_OK;
}

/* Whether the way from the root to a folder is known to be durable. What is remembered says that a name was
 * synced once; only somebody who deletes folders by hand can make that untrue. */
static uint64_t durable_mark(const char *path, size_t bytes) {
  uint64_t mark = lki_checksum(path, bytes, 0);
  return mark != 0 ? mark : 1;
}

static int make_parent(int root_fd, const char *path, size_t bytes) {
  int folder_fd = root_fd;
  size_t at = 0;
  while (at < bytes) {
    char component[LKI_KEY_COMPONENT_BYTES_MAX + 1];
    size_t component_bytes = strcspn(path + at, "/");
    memcpy(component, path + at, component_bytes);
    component[component_bytes] = 0;
    int fd = open_durable_folder(folder_fd, component);
    if (folder_fd != root_fd) lki_file_close(folder_fd);
    if (fd < 0) return -1;
    folder_fd = fd;
    at += component_bytes + 1;
  }
  return folder_fd;
}

lake_status lki_file_open_parent(lki_file_store *fs, const char *key, bool create, int *fd, const char **name,
                                 lake_error *err) {
  int root_fd;
  lake_status s = lki_file_root(fs, create, &root_fd, err);
  if (s != LAKE_OK) return s;
  const char *slash = strrchr(key, '/');
  int folder_fd = -1;
  if (slash == NULL) {
    *name = key;
    folder_fd = open_again(root_fd, ".", FOLDER_FLAGS);
    if (folder_fd < 0) return lki_file_fail(err, errno, "cannot open the store's folder");
  } else {
    size_t bytes = (size_t)(slash - key);
    char parent[LKI_KEY_BYTES_MAX + 1];
    memcpy(parent, key, bytes);
    parent[bytes] = 0;
    uint64_t mark = durable_mark(parent, bytes);
    atomic_uint_fast64_t *slot = &fs->durable[mark & (LKI_FILE_DURABLE_COUNT - 1)];
    bool known = atomic_load(slot) == mark;
    *name = slash + 1;
    errno = ENOENT;
    if (!create || known) folder_fd = lki_file_open_at(fs, root_fd, parent, FOLDER_FLAGS);
    if (folder_fd < 0 && create && errno == ENOENT) {
      folder_fd = make_parent(root_fd, parent, bytes);
      if (folder_fd >= 0) atomic_store(slot, mark);
    }
    if (folder_fd < 0) {
      int e = errno;
      if (e == ENOENT) return lki_file_fail_missing(root_fd, err);
      return lki_file_fail(err, e,
                           create ? "cannot make the object's folder" : "cannot open the object's folder");
    }
  }
  *fd = folder_fd;
  return LAKE_OK;
}
