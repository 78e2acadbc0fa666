/* Creating an object only if nobody has, on file systems with neither link(2) nor
 * renameat2(RENAME_NOREPLACE).
 *
 * A claim is a folder .lake-claim/<checksum of key> that holds one file, "body": finished bytes that are
 * about to get the object's name. It is made aside and renamed into place whole; rename(2) of a folder onto
 * one that is not empty fails, so at most one body is pending for a name. Who has the claim looks whether the
 * name is free, and only then renames body to it. Hence:
 *
 *   Two winners are impossible: a claim is taken only when the body before has been moved or withdrawn. If it
 * was moved, the object was there before the look at the name. A body is moved once, since it is reached
 * through the descriptor of its own folder, where a second rename finds nothing. A crash blocks no name:
 * whoever meets a claim with its body moves it on the winner's behalf, and a claim without a body is an empty
 * folder, which a rename replaces. Readers never see a part: the object's name is only ever the target of a
 * rename of finished bytes.
 *
 * Not covered: a put and a remove of one key together with a put_if_absent of it. Lakestream never does that.
 */
#include "base/checksum.h"
#include "base/error.h"
#include "store/file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BODY "body"
#define TRIES_MAX 64 /* each means that somebody's claim came and went since the last */

static void claim_name(const char *key, char name[LKI_FILE_NAME_BYTES]) {
  size_t bytes = strlen(key);
  snprintf(name, LKI_FILE_NAME_BYTES, "%016llx%016llx", (unsigned long long)lki_checksum(key, bytes, 1),
           (unsigned long long)lki_checksum(key, bytes, 2));
}

static int open_folder(int at_fd, const char *name) {
  return openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Somebody has the claim. EXISTS: and the object is there now. OK: the claim is no more; try again. */
static lake_status settle(int claims_fd, const char *claim, int parent_fd, const char *name,
                          lake_error *err) {
  int claim_fd = open_folder(claims_fd, claim);
  if (claim_fd < 0) return errno == ENOENT ? LAKE_OK : lki_file_fail(err, errno, "cannot read a claim");
  struct stat st;
  lake_status s = LAKE_OK;
  if (fstatat(claim_fd, BODY, &st, AT_SYMLINK_NOFOLLOW) == 0) {
    s = lki_file_name_free(parent_fd, name, err);
    if (s == LAKE_OK) {
      if (renameat(claim_fd, BODY, parent_fd, name) == 0)
        s = lki_fail(err, LAKE_EXISTS, "an object with this key exists");
      else if (errno != ENOENT)
        s = lki_file_fail(err, errno, "cannot finish another writer's object");
    }
  }
  lki_file_close(claim_fd);
  return s;
}

/* Makes the claim aside: folder `tmp` in tmp_fd with its body, on the disk. */
static lake_status prepare(lki_file_store *fs, int tmp_fd, const char *tmp, lake_bytes body,
                           lake_deadline deadline, int *claim_fd, int *body_fd, lake_error *err) {
  if (mkdirat(tmp_fd, tmp, 0777) != 0) return lki_file_fail(err, errno, "cannot make a claim");
  lake_status s = LAKE_OK;
  int fd = open_folder(tmp_fd, tmp);
  if (fd < 0) {
    s = lki_file_fail(err, errno, "cannot open a claim");
  } else {
    s = lki_file_write_new(fs, fd, BODY, body, deadline, body_fd, err);
    if (s == LAKE_OK && lki_file_fsync(fd) != 0)
      s = lki_file_fail(err, errno, "cannot bring a claim to the disk");
  }
  *claim_fd = fd;
  return s;
}

/* The claim is won: moves its body to the object's name, unless an object was there already. A helper may
 * have moved the body before us, even when another object has the name by now. */
static lake_status finish(int claim_fd, int body_fd, int parent_fd, const char *name, lake_error *err) {
  lake_status s = lki_file_name_free(parent_fd, name, err);
  if (s == LAKE_OK) {
    if (renameat(claim_fd, BODY, parent_fd, name) != 0 && errno != ENOENT)
      return lki_fail(err, LAKE_UNCERTAIN, "the name is claimed but not given; read the object back");
  } else if (!lki_file_is(body_fd, parent_fd, name) &&
             (unlinkat(claim_fd, BODY, 0) == 0 || errno != ENOENT)) {
    return s;
  }
  return lki_file_sync_folder(parent_fd, err);
}

lake_status lki_file_claim_put(lki_file_store *fs, int root_fd, int parent_fd, const char *key,
                               const char *name, lake_bytes body, lake_deadline deadline, lake_error *err) {
  int tmp_fd = -1;
  int claims_fd = -1;
  int claim_fd = -1;
  int body_fd = -1;
  bool won = false;
  char tmp[LKI_FILE_NAME_BYTES];
  char claim[LKI_FILE_NAME_BYTES];
  lki_file_unique_name(fs, tmp);
  claim_name(key, claim);
  lake_status s = lki_file_own_folder(fs, root_fd, LKI_FILE_TMP, &tmp_fd, err);
  if (s == LAKE_OK) s = lki_file_own_folder(fs, root_fd, LKI_FILE_CLAIM, &claims_fd, err);
  if (s == LAKE_OK) s = prepare(fs, tmp_fd, tmp, body, deadline, &claim_fd, &body_fd, err);
  for (int i = 0; s == LAKE_OK && !won && i < TRIES_MAX; i++) {
    won = renameat(tmp_fd, tmp, claims_fd, claim) == 0;
    if (won) break;
    if (errno == ENOTEMPTY || errno == EEXIST)
      s = settle(claims_fd, claim, parent_fd, name, err);
    else
      s = lki_file_fail(err, errno, "cannot claim the name");
  }
  if (won) {
    s = finish(claim_fd, body_fd, parent_fd, name, err);
    unlinkat(claims_fd, claim, AT_REMOVEDIR); /* refused when the next claim is there already */
  } else {
    if (s == LAKE_OK)
      s = lki_fail(err, LAKE_UNAVAILABLE, "the name is created and removed all the time; try again");
    if (claim_fd >= 0) unlinkat(claim_fd, BODY, 0);
    if (tmp_fd >= 0) unlinkat(tmp_fd, tmp, AT_REMOVEDIR);
  }
  lki_file_close(body_fd);
  lki_file_close(claim_fd);
  lki_file_close(claims_fd);
  lki_file_close(tmp_fd);
  return s;
}
