/* Writing to the file: store. An object appears under its name in one step, whole and already on the disk:
 *
 *   write .lake-tmp/X, fsync X, link X to the name (put_if_absent) or rename X to it (put), fsync the folder.
 *
 * A loser that sees EXISTS and goes on to write the next name in the same folder syncs that folder too, so an
 * object that was built on is never lost while what was built survives. A process killed on the way leaves at
 * most X behind, which is nobody's object. */
#include "base/env.h"
#include "base/error.h"
#include "store/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITE_BYTES_MAX ((size_t)32 << 20) /* between two looks at the deadline */

void lki_file_unique_name(lki_file_store *fs, char name[LKI_FILE_NAME_BYTES]) {
  snprintf(name, LKI_FILE_NAME_BYTES, "%ld-%016llx", (long)getpid(),
           (unsigned long long)lki_random_u64(fs->env));
}

static lake_status write_all(lki_file_store *fs, int fd, lake_bytes body, lake_deadline deadline,
                             lake_error *err) {
  const unsigned char *p = body.data;
  size_t left = body.bytes;
  while (left > 0) {
    size_t want = left < WRITE_BYTES_MAX ? left : WRITE_BYTES_MAX;
    ssize_t n = write(fd, p, want);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return lki_file_fail(err, errno, "cannot write");
    if (n == 0) return lki_file_fail(err, EIO, "cannot write");
    p += n;
    left -= (size_t)n;
    if (left > 0 && (size_t)n == want && lki_deadline_passed(fs->env, deadline))
      return lki_fail(err, LAKE_TIMEOUT, "the deadline passed with %zu of %zu bytes written",
                      body.bytes - left, body.bytes);
  }
  return LAKE_OK;
}

lake_status lki_file_write_new(lki_file_store *fs, int folder_fd, const char *name, lake_bytes body,
                               lake_deadline deadline, int *fd, lake_error *err) {
  int new_fd;
  do new_fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  while (new_fd < 0 && errno == EINTR);
  if (new_fd < 0) {
    int e = errno;
    if (e == ENOENT)
      return lki_fail(err, LAKE_UNAVAILABLE, "the folder for temporary files was removed; try again");
    return lki_file_fail(err, e, "cannot make a temporary file");
  }
  lake_status s = write_all(fs, new_fd, body, deadline, err);
  if (s == LAKE_OK && lki_file_fsync(new_fd) != 0)
    s = lki_file_fail(err, errno, "cannot bring the bytes to the disk");
  if (s != LAKE_OK) {
    lki_file_close(new_fd);
    unlinkat(folder_fd, name, 0);
    return s;
  }
  *fd = new_fd;
  return LAKE_OK;
}

lake_status lki_file_name_free(int parent_fd, const char *name, lake_error *err) {
  struct stat st;
  if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT ? LAKE_OK : lki_file_fail(err, errno, "cannot look the name up");
  if (S_ISREG(st.st_mode)) return lki_fail(err, LAKE_EXISTS, "an object with this key exists");
  if (S_ISDIR(st.st_mode)) return lki_file_fail(err, EISDIR, "cannot create");
  return lki_fail(err, LAKE_INVALID,
                  "the name belongs to something that is neither file nor folder; remove it");
}

/* Whether the file behind fd is what the name leads to. On NFS the reply to a link or a rename may be lost
 * and the repeated request fails; the inode tells what really happened. */
bool lki_file_is(int fd, int parent_fd, const char *name) {
  struct stat mine;
  struct stat named;
  return fstat(fd, &mine) == 0 && fstatat(parent_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

/* Errors after which the name was certainly not given. Others may come from a server that did it. */
static bool definite(int e) {
  switch (e) {
  case EEXIST:
  case ENOSPC:
  case EDQUOT:
  case EROFS:
  case EACCES:
  case EPERM:
  case ENOTDIR:
  case EISDIR:
  case EXDEV:
  case ENAMETOOLONG:
  case EMLINK:
  case ELOOP:
  case ENOMEM:
  case EINVAL:
  case EOPNOTSUPP:
  case ENOSYS:
  case ENOTEMPTY:
    return true;
  default:
    return false;
  }
}

static bool cannot_link(int e) {
  /* EXDEV: BeeGFS links only within one folder. EMLINK: a file system where each file has one name. */
  return e == EPERM || e == EOPNOTSUPP || e == ENOSYS || e == EMLINK || e == EXDEV;
}

static lake_status fail_publish(lake_error *err, int e, const char *doing) {
  if (definite(e)) return lki_file_fail(err, e, doing);
  const char *text = strerrordesc_np(e);
  return lki_fail(err, LAKE_UNCERTAIN, "%s: %s; it may have happened: read the object back", doing,
                  text != NULL ? text : "unknown system error");
}

/* Gives the temporary its name if nobody has it. LAKE_UNSUPPORTED with *try_claim: only a claim can do it
 * here. */
static lake_status publish_new(lki_file_store *fs, int tmp_fd, const char *tmp, int fd, int parent_fd,
                               const char *name, bool *try_claim, lake_error *err) {
  int e = EPERM;
  if (atomic_load(&fs->publish) == LKI_PUBLISH_LINK) {
    if (linkat(tmp_fd, tmp, parent_fd, name, 0) == 0) return LAKE_OK;
    e = errno;
    if (lki_file_is(fd, parent_fd, name)) return LAKE_OK;
    if (cannot_link(e)) atomic_store(&fs->publish, LKI_PUBLISH_RENAME);
  }
  if (cannot_link(e) && atomic_load(&fs->publish) == LKI_PUBLISH_RENAME) {
    if (renameat2(tmp_fd, tmp, parent_fd, name, RENAME_NOREPLACE) == 0) return LAKE_OK;
    e = errno;
    if (lki_file_is(fd, parent_fd, name)) return LAKE_OK;
    if (e == EINVAL || e == ENOSYS || e == EOPNOTSUPP) {
      atomic_store(&fs->publish, LKI_PUBLISH_CLAIM);
      *try_claim = true;
      return LAKE_UNSUPPORTED;
    }
  }
  if (e != EEXIST) return fail_publish(err, e, "cannot create");
  /* Taken a moment ago; if the name is free again, it was an object that somebody removed since. */
  lake_status s = lki_file_name_free(parent_fd, name, err);
  return s != LAKE_OK
             ? s
             : lki_fail(err, LAKE_EXISTS, "an object with this key existed and was removed meanwhile");
}

lake_status lki_file_sync_folder(int parent_fd, lake_error *err) {
  if (lki_file_fsync(parent_fd) == 0) return LAKE_OK;
  const char *text = strerrordesc_np(errno);
  return lki_fail(err, LAKE_UNCERTAIN,
                  "the object is in place but may not survive a power loss: fsync of its folder: %s",
                  text != NULL ? text : "unknown system error");
}

lake_status lki_file_put_if_absent(lki_file_store *fs, const char *key, lake_bytes body,
                                   lake_deadline deadline, lake_error *err) {
  int root_fd = -1;
  int parent_fd = -1;
  int tmp_fd = -1;
  int fd = -1;
  bool try_claim = false;
  const char *name = NULL;
  char tmp[LKI_FILE_NAME_BYTES];
  lake_status s = lki_file_open_parent(fs, key, true, &parent_fd, &name, err);
  if (s != LAKE_OK) return s;
  /* Most losers of a race come late: this look saves them the write and its fsync. */
  s = lki_file_name_free(parent_fd, name, err);
  if (s == LAKE_OK) s = lki_file_root(fs, true, &root_fd, err);
  if (s != LAKE_OK) goto done;
  if (atomic_load(&fs->publish) != LKI_PUBLISH_CLAIM) {
    s = lki_file_own_folder(fs, root_fd, LKI_FILE_TMP, &tmp_fd, err);
    if (s != LAKE_OK) goto done;
    lki_file_unique_name(fs, tmp);
    s = lki_file_write_new(fs, tmp_fd, tmp, body, deadline, &fd, err);
    if (s != LAKE_OK) goto done;
    s = publish_new(fs, tmp_fd, tmp, fd, parent_fd, name, &try_claim, err);
    unlinkat(tmp_fd, tmp, 0); /* gone already where rename(2) published it */
    if (s == LAKE_OK) s = lki_file_sync_folder(parent_fd, err);
    if (!try_claim) goto done;
  }
  s = lki_file_claim_put(fs, root_fd, parent_fd, key, name, body, deadline, err);
done:
  lki_file_close(fd);
  lki_file_close(tmp_fd);
  lki_file_close(parent_fd);
  return s;
}

lake_status lki_file_put(lki_file_store *fs, const char *key, lake_bytes body, lake_deadline deadline,
                         lake_error *err) {
  int root_fd = -1;
  int parent_fd = -1;
  int tmp_fd = -1;
  int fd = -1;
  const char *name = NULL;
  char tmp[LKI_FILE_NAME_BYTES];
  lake_status s = lki_file_open_parent(fs, key, true, &parent_fd, &name, err);
  if (s == LAKE_OK) s = lki_file_root(fs, true, &root_fd, err);
  if (s != LAKE_OK) goto done;
  /* Where names are claimed, a new name is claimed for a put too: else it could land beside a create that
   * won. */
  if (atomic_load(&fs->publish) == LKI_PUBLISH_CLAIM && lki_file_name_free(parent_fd, name, err) == LAKE_OK) {
    s = lki_file_claim_put(fs, root_fd, parent_fd, key, name, body, deadline, err);
    if (s != LAKE_EXISTS) goto done;
  }
  s = lki_file_own_folder(fs, root_fd, LKI_FILE_TMP, &tmp_fd, err);
  if (s != LAKE_OK) goto done;
  lki_file_unique_name(fs, tmp);
  s = lki_file_write_new(fs, tmp_fd, tmp, body, deadline, &fd, err);
  if (s != LAKE_OK) goto done;
  if (renameat(tmp_fd, tmp, parent_fd, name) != 0) {
    int e = errno;
    if (!lki_file_is(fd, parent_fd, name)) {
      s = fail_publish(err, e == EEXIST || e == ENOTEMPTY ? EISDIR : e, "cannot replace");
      unlinkat(tmp_fd, tmp, 0);
      goto done;
    }
  }
  s = lki_file_sync_folder(parent_fd, err);
done:
  lki_file_close(fd);
  lki_file_close(tmp_fd);
  lki_file_close(parent_fd);
  return s;
}
