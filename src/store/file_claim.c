/* Creating an object only if nobody has, on file systems with neither link(2) nor
 * renameat2(RENAME_NOREPLACE).
 *
 * A claim is a folder .lake-claim/<checksum of key> that holds two files: "body", the finished bytes, and
 * "held-<unique>", which stays. It is made aside and renamed into place whole: rename(2) of a folder onto one
 * that is not empty fails, so of all racers exactly one wins, and what it won is complete. The winner then
 * renames body to the object's name. Hence:
 *
 *   Two winners are impossible: a claim is never empty while its object lives, and a body is moved once,
 * since it is reached through the descriptor of its own folder and its second rename finds nothing. A crash
 * blocks no name: whoever meets a claim that still has its body moves it on the winner's behalf. One that has
 *   neither body nor object belongs to an object that was removed; it is cleared by the unique name of its
 * held file, so that a slow helper cannot clear the claim that came after. Readers never see a part: the
 * object's name is only ever the target of a rename of finished bytes.
 *
 * Not covered: a put and a remove of one key together with a put_if_absent of it. Lakestream never does that.
 */
#include "base/checksum.h"
#include "base/error.h"
#include "store/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BODY "body"
#define HELD_PREFIX "held-"
#define TRIES_MAX 64 /* each means that somebody removed the object since the last */

static void claim_name(const char *key, char name[LKI_FILE_NAME_BYTES]) {
  size_t bytes = strlen(key);
  snprintf(name, LKI_FILE_NAME_BYTES, "%016llx%016llx", (unsigned long long)lki_checksum(key, bytes, 1),
           (unsigned long long)lki_checksum(key, bytes, 2));
}

static int open_folder(int at_fd, const char *name) {
  return openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool exists(int folder_fd, const char *name) {
  struct stat st;
  return fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool same_file(int fd, int parent_fd, const char *name) {
  struct stat mine;
  struct stat named;
  return fstat(fd, &mine) == 0 && fstatat(parent_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

/* Clears a claim whose object is gone. Each step names this very claim; only an empty folder is removed by
 * name. */
static void clear(int claims_fd, const char *claim, int claim_fd) {
  int fd = openat(claim_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
  if (dir == NULL) {
    lki_file_close(fd);
    return;
  }
  for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
    if (strncmp(entry->d_name, HELD_PREFIX, sizeof HELD_PREFIX - 1) == 0)
      unlinkat(claim_fd, entry->d_name, 0);
  closedir(dir);
  unlinkat(claims_fd, claim, AT_REMOVEDIR);
}

/* Somebody has the claim. EXISTS: and the object is there now. OK: it was left over and is cleared; try
 * again. */
static lake_status settle(int claims_fd, const char *claim, int parent_fd, const char *name,
                          lake_error *err) {
  int claim_fd = open_folder(claims_fd, claim);
  if (claim_fd < 0) return errno == ENOENT ? LAKE_OK : lki_file_fail(err, errno, "cannot read a claim");
  lake_status s;
  if (exists(claim_fd, BODY)) {
    s = lki_file_name_free(parent_fd, name, err);
    if (s == LAKE_OK) {
      if (renameat(claim_fd, BODY, parent_fd, name) != 0 && errno != ENOENT)
        s = lki_file_fail(err, errno, "cannot finish another writer's object");
      else
        s = lki_fail(err, LAKE_EXISTS, "an object with this key exists");
    }
  } else {
    s = lki_file_name_free(parent_fd, name, err);
    if (s == LAKE_OK) clear(claims_fd, claim, claim_fd);
  }
  lki_file_close(claim_fd);
  return s;
}

/* Makes the claim aside: folder `tmp` in tmp_fd, with body and held file, on the disk. */
static lake_status prepare(lki_file_store *fs, int tmp_fd, const char *tmp, const char *held, lake_bytes body,
                           lake_deadline deadline, int *claim_fd, int *body_fd, lake_error *err) {
  if (mkdirat(tmp_fd, tmp, 0777) != 0) return lki_file_fail(err, errno, "cannot make a claim");
  int held_fd = -1;
  *claim_fd = open_folder(tmp_fd, tmp);
  if (*claim_fd < 0) return lki_file_fail(err, errno, "cannot open a claim");
  lake_bytes none = {NULL, 0};
  lake_status s = lki_file_write_new(fs, *claim_fd, BODY, body, deadline, body_fd, err);
  if (s == LAKE_OK) s = lki_file_write_new(fs, *claim_fd, held, none, deadline, &held_fd, err);
  if (s == LAKE_OK && lki_file_fsync(*claim_fd) != 0)
    s = lki_file_fail(err, errno, "cannot bring a claim to the disk");
  lki_file_close(held_fd);
  return s;
}

/* The claim is won. Somebody may have put the object without a claim, or a helper may have moved the body
 * already. */
static lake_status finish(int claims_fd, const char *claim, int claim_fd, const char *held, int body_fd,
                          int parent_fd, const char *name, lake_error *err) {
  lake_status s = lki_file_name_free(parent_fd, name, err);
  if (s == LAKE_OK) {
    if (renameat(claim_fd, BODY, parent_fd, name) != 0 && errno != ENOENT)
      return lki_fail(err, LAKE_UNCERTAIN, "the name is claimed but not given; read the object back");
  } else if (!same_file(body_fd, parent_fd, name) && (unlinkat(claim_fd, BODY, 0) == 0 || errno != ENOENT)) {
    unlinkat(claim_fd, held, 0);
    unlinkat(claims_fd, claim, AT_REMOVEDIR);
    return s;
  }
  if (lki_file_fsync(parent_fd) != 0)
    return lki_fail(err, LAKE_UNCERTAIN,
                    "the object is in place but may not survive a power loss: fsync failed");
  return LAKE_OK;
}

lake_status lki_file_claim_put(lki_file_store *fs, int root_fd, int parent_fd, const char *key,
                               const char *name, lake_bytes body, lake_deadline deadline, lake_error *err) {
  int tmp_fd = -1, claims_fd = -1, claim_fd = -1, body_fd = -1;
  bool won = false;
  char tmp[LKI_FILE_NAME_BYTES], claim[LKI_FILE_NAME_BYTES], held[2 * LKI_FILE_NAME_BYTES];
  lki_file_unique_name(fs, tmp);
  claim_name(key, claim);
  snprintf(held, sizeof held, HELD_PREFIX "%s", tmp);
  lake_status s = lki_file_own_folder(fs, root_fd, LKI_FILE_TMP, &tmp_fd, err);
  if (s == LAKE_OK) s = lki_file_own_folder(fs, root_fd, LKI_FILE_CLAIM, &claims_fd, err);
  if (s == LAKE_OK) s = prepare(fs, tmp_fd, tmp, held, body, deadline, &claim_fd, &body_fd, err);
  for (int i = 0; s == LAKE_OK && !won && i < TRIES_MAX; i++) {
    won = renameat(tmp_fd, tmp, claims_fd, claim) == 0;
    if (won) break;
    if (errno == ENOTEMPTY || errno == EEXIST)
      s = settle(claims_fd, claim, parent_fd, name, err);
    else
      s = lki_file_fail(err, errno, "cannot claim the name");
  }
  if (won)
    s = finish(claims_fd, claim, claim_fd, held, body_fd, parent_fd, name, err);
  else if (s == LAKE_OK)
    s = lki_fail(err, LAKE_UNAVAILABLE, "the name is created and removed all the time; try again");
  if (!won && claim_fd >= 0) {
    unlinkat(claim_fd, BODY, 0);
    unlinkat(claim_fd, held, 0);
    unlinkat(tmp_fd, tmp, AT_REMOVEDIR);
  }
  lki_file_close(body_fd);
  lki_file_close(claim_fd);
  lki_file_close(claims_fd);
  lki_file_close(tmp_fd);
  return s;
}

lake_status lki_file_claim_remove(lki_file_store *fs, int root_fd, int parent_fd, const char *key,
                                  const char *name, lake_error *err) {
  char claim[LKI_FILE_NAME_BYTES];
  claim_name(key, claim);
  int claims_fd = lki_file_open_at(fs, root_fd, LKI_FILE_CLAIM, O_RDONLY | O_DIRECTORY);
  int claim_fd = claims_fd >= 0 ? open_folder(claims_fd, claim) : -1;
  lake_status s = LAKE_OK;
  if (unlinkat(parent_fd, name, 0) != 0 && errno != ENOENT) {
    int e = errno;
    /* A folder of that name holds other objects; an object of that name does not exist. */
    struct stat st;
    bool folder = fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
    if (!folder) s = lki_file_fail(err, e, "cannot remove");
  } else if (claim_fd >= 0 && !exists(claim_fd, BODY)) {
    clear(claims_fd, claim, claim_fd);
  }
  lki_file_close(claim_fd);
  lki_file_close(claims_fd);
  return s;
}
