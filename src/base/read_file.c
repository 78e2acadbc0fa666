/* Reading a small file whole. No state; safe from any thread. */
#include "base/read_file.h"
#include "base/error.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static lake_status refuse(const char *path, int e, lake_error *err) {
  lake_status status = LAKE_UNAVAILABLE;
  if (e == ENOENT || e == ENOTDIR) status = LAKE_NOTFOUND;
  if (e == EACCES || e == EPERM) status = LAKE_DENIED;
  if (e == ELOOP || e == ENAMETOOLONG) status = LAKE_INVALID;
  return lki_fail(err, status, "file \"%.300s\": %s", path, strerrordesc_np(e));
}

/* Up to room bytes from a file that may shrink or grow meanwhile; -1 with errno set. */
static ssize_t read_all(int fd, char *dst, size_t room) {
  size_t used = 0;
  while (used < room) {
    ssize_t n = read(fd, dst + used, room - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    used += (size_t)n;
  }
  return (ssize_t)used;
}

lake_status lki_read_file(lake_env *env, const char *path, size_t bytes_max, char **out, size_t *bytes,
                          lake_error *err) {
  lake_status s = LAKE_OK;
  char *text = NULL;
  struct stat st;
  ssize_t used = 0;
  /* Not blocking: a named pipe without a writer must not hang us, it is refused below. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return refuse(path, errno, err);
  if (fstat(fd, &st) != 0) {
    s = refuse(path, errno, err);
    goto done;
  }
  if (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode)) { /* /dev/null is how one says "none" */
    s = lki_fail(err, LAKE_INVALID, "file \"%.300s\": not a plain file", path);
    goto done;
  }
  /* One byte more than allowed tells a file that is too large, whatever its size was a moment ago. */
  size_t room = bytes_max + 1;
  if (S_ISREG(st.st_mode) && st.st_size >= 0 && (uint64_t)st.st_size < bytes_max) room = (size_t)st.st_size + 1;
  text = lki_alloc(env, room + 1);
  if (text == NULL) {
    s = lki_fail(err, LAKE_NOMEM, "file \"%.300s\": out of memory", path);
    goto done;
  }
  used = read_all(fd, text, room);
  if (used < 0) {
    s = refuse(path, errno, err);
    goto done;
  }
  if ((size_t)used > bytes_max) {
    s = lki_fail(err, LAKE_INVALID, "file \"%.300s\": larger than the %zu bytes that are read of such a file",
                 path, bytes_max);
    goto done;
  }
  if (room <= bytes_max && (size_t)used == room) {
    s = lki_fail(err, LAKE_UNAVAILABLE, "file \"%.300s\": it grew while it was read; try again", path);
    goto done;
  }
  text[used] = 0;
  if (bytes != NULL) *bytes = (size_t)used;
  *out = text;
  text = NULL;
done:
  lki_free(env, text);
  close(fd);
  return s;
}
