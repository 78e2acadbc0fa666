/* The file: store on bad ground: read-only and full disks, links that lead out, truncated and foreign files,
 * a folder that vanishes, claims that a crash left in every state. */
#include "support/file_fixture.h"

#include "base/buffer.h"
#include "base/checksum.h"
#include "base/env.h"
#include "base/rng.h"
#include "store/file.h"
#include "store/store.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *in_root(const fixture *f, const char *name) {
  static char path[PATH_MAX + 300];
  snprintf(path, sizeof path, "%s/%s", f->root, name);
  return path;
}

static bool count_key(void *ctx, const char *key, uint64_t object_bytes) {
  (void)key, (void)object_bytes;
  ++*(int *)ctx;
  return true;
}

static int key_count(fixture *f, const char *prefix) {
  int count = 0;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lki_store_list(f->store, prefix, NULL, count_key, &count, test_deadline(f->env), &err), &err);
  return count;
}

/* ---- read-only and full disks: in a child with mounts of its own ---- */

#define CHILD_SKIP 77

/* Runs fn in a forked child whose mounts nobody else sees; its asserts end the child. */
static void in_own_mounts(fixture *f, int (*fn)(fixture *f)) {
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
      _exit(CHILD_SKIP);
    int code = fn(f);
    fflush(NULL);
    _exit(code);
  }
  int code = 0;
  assert_int_equal(waitpid(pid, &code, 0), pid);
  if (WIFEXITED(code) && WEXITSTATUS(code) == CHILD_SKIP) {
    print_message("mounting is not permitted here: skipped\n");
    skip();
  }
  assert_int_equal(code, 0);
}

/* In the child a failed check prints and ends it; cmocka's own way out belongs to the parent. */
#define CHECK(condition)                                                                                     \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      fprintf(stderr, "%s:%d: not so: %s; error text: %s\n", __FILE__, __LINE__, #condition, err.text);      \
      return 1;                                                                                              \
    }                                                                                                        \
  } while (0)

static int read_only_child(fixture *f) {
  lake_error err = LAKE_ERROR_INIT;
  if (mount(f->root, f->root, NULL, MS_BIND, NULL) != 0) return CHILD_SKIP;
  if (mount(NULL, f->root, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) != 0) return CHILD_SKIP;
  lake_store *store = NULL;
  char url[PATH_MAX + 8];
  snprintf(url, sizeof url, "file:%s", f->root);
  CHECK(lake_store_open(f->env, url, &store, &err) == LAKE_OK);
  lake_deadline deadline = test_deadline(f->env);
  lake_buffer out;
  lki_buffer_init(&out, f->env, 100);
  CHECK(lki_store_put(store, "a/new", text_bytes("x"), deadline, &err) == LAKE_DENIED);
  CHECK(strstr(err.text, "read-only") != NULL && strstr(err.text, "a/new") != NULL);
  CHECK(lki_store_put_if_absent(store, "b/new", text_bytes("x"), deadline, &err) == LAKE_DENIED);
  CHECK(strstr(err.text, "read-only") != NULL);
  CHECK(lki_store_put_if_absent(store, "a/b", text_bytes("x"), deadline, &err) == LAKE_EXISTS);
  CHECK(lki_store_remove(store, "a/b", deadline, &err) == LAKE_DENIED);
  CHECK(strstr(err.text, "read-only") != NULL);
  CHECK(lki_store_get(store, "a/b", lki_range_whole(), &out, NULL, deadline, &err) == LAKE_OK);
  CHECK(out.bytes == 4 && memcmp(out.data, "kept", 4) == 0);
  lki_buffer_free(&out);
  lake_store_close(store);
  return 0;
}

static void test_read_only(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(put(f, "a/b", "kept", &err), &err);
  in_own_mounts(f, read_only_child);
}

static void test_folder_without_permission(void **state) {
  fixture *f = *state;
  if (geteuid() == 0) {
    print_message("permissions do not bind root: skipped\n");
    skip();
  }
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(put(f, "a/b", "kept", &err), &err);
  assert_int_equal(chmod(in_root(f, "a"), 0555), 0);
  assert_status(create(f, "a/c", "x", &err), LAKE_DENIED, &err);
  assert_non_null(strstr(err.text, "permission"));
  assert_int_equal(chmod(in_root(f, "a"), 0755), 0);
  assert_ok(create(f, "a/c", "x", &err), &err);
}

static int full_disk_child(fixture *f) {
  lake_error err = LAKE_ERROR_INIT;
  char url[PATH_MAX + 8];
  static unsigned char body[100000];
  memset(body, 'd', sizeof body);
  lake_bytes bytes = {body, sizeof body};
  if (mkdir(f->root, 0777) != 0 || mount("tmpfs", f->root, "tmpfs", 0, "size=1m") != 0) return CHILD_SKIP;
  snprintf(url, sizeof url, "file:%s", f->root);
  lake_store *store = NULL;
  CHECK(lake_store_open(f->env, url, &store, &err) == LAKE_OK);
  lake_deadline now = {0}; /* no retries: the disk stays full */
  char key[64];
  int stored = 0;
  lake_status s = LAKE_OK;
  for (; stored < 100; stored++) {
    snprintf(key, sizeof key, "d/%03d", stored);
    s = lki_store_put_if_absent(store, key, bytes, now, &err);
    if (s != LAKE_OK) break;
  }
  CHECK(s == LAKE_UNAVAILABLE && stored >= 5 && stored <= 10);
  CHECK(strstr(err.text, "disk is full") != NULL && strstr(err.text, key) != NULL);
  CHECK(lki_store_put(store, "d/000", bytes, now, &err) == LAKE_UNAVAILABLE); /* the old one stays */
  lake_object_info info;
  CHECK(lki_store_head(store, key, &info, now, &err) == LAKE_NOTFOUND);
  lake_buffer out;
  lki_buffer_init(&out, f->env, sizeof body);
  for (int i = 0; i < stored; i++) {
    char old[64];
    snprintf(old, sizeof old, "d/%03d", i);
    CHECK(lki_store_get(store, old, lki_range_whole(), &out, NULL, now, &err) == LAKE_OK);
    CHECK(out.bytes == sizeof body && memcmp(out.data, body, sizeof body) == 0);
  }
  /* The failed writes left nothing behind: removing one object makes room for exactly one. */
  CHECK(lki_store_remove(store, "d/000", now, &err) == LAKE_OK);
  CHECK(lki_store_put_if_absent(store, key, bytes, now, &err) == LAKE_OK);
  CHECK(rmdir(in_root(f, LKI_FILE_TMP)) == 0); /* empty */
  lki_buffer_free(&out);
  lake_store_close(store);
  return 0;
}

static void test_full_disk(void **state) {
  in_own_mounts(*state, full_disk_child);
}

static int no_descriptors_child(fixture *f) {
  lake_error err = LAKE_ERROR_INIT;
  lake_deadline now = {0};
  struct rlimit limit = {0, 0}; /* nothing more can be opened */
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return CHILD_SKIP;
  CHECK(lki_store_put_if_absent(f->store, "a/new", text_bytes("x"), now, &err) == LAKE_UNAVAILABLE);
  CHECK(strstr(err.text, "ulimit") != NULL);
  lake_object_info info;
  CHECK(lki_store_head(f->store, "a/b", &info, now, &err) == LAKE_UNAVAILABLE);
  return 0;
}

static void test_no_descriptors(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(put(f, "a/b", "kept", &err), &err);
  in_own_mounts(f, no_descriptors_child);
  assert_int_equal(key_count(f, ""), 1);
}

/* ---- links and foreign files ---- */

static void check_links(fixture *f) {
  lake_error err = LAKE_ERROR_INIT;
  char outside[PATH_MAX];
  char secret[PATH_MAX + 16];
  snprintf(outside, sizeof outside, "%s", test_scratch());
  snprintf(secret, sizeof secret, "%s/secret", outside);
  FILE *file = fopen(secret, "w");
  assert_non_null(file);
  fputs("secret", file);
  fclose(file);
  assert_ok(put(f, "in", "inside", &err), &err);
  assert_int_equal(symlink(outside, in_root(f, "folder")), 0);
  assert_int_equal(symlink(secret, in_root(f, "object")), 0);
  assert_int_equal(symlink("in", in_root(f, "near")), 0); /* one that stays inside is not followed either */
  char text[64];
  lake_object_info info;
  assert_status(get(f, "folder/secret", text, sizeof text, &err), LAKE_DENIED, &err);
  assert_non_null(strstr(err.text, "symbolic link"));
  assert_status(get(f, "object", text, sizeof text, &err), LAKE_DENIED, &err);
  assert_status(get(f, "near", text, sizeof text, &err), LAKE_DENIED, &err);
  assert_status(lki_store_head(f->store, "object", &info, test_deadline(f->env), &err), LAKE_DENIED, &err);
  assert_status(put(f, "folder/new", "x", &err), LAKE_DENIED, &err);
  assert_status(create(f, "folder/new", "x", &err), LAKE_DENIED, &err);
  assert_status(create(f, "folder/deep/new", "x", &err), LAKE_DENIED, &err);
  assert_status(create(f, "object", "x", &err), LAKE_INVALID, &err);
  assert_status(lki_store_remove(f->store, "folder/secret", test_deadline(f->env), &err), LAKE_DENIED, &err);
  assert_int_equal(key_count(f, ""), 1);
  assert_int_equal(key_count(f, "folder/"), 0);
  assert_ok(put(f, "object", "mine", &err), &err); /* replaces the link, not what it leads to */
  assert_text(f, "object", "mine");
  file = fopen(secret, "r");
  assert_non_null(file);
  assert_non_null(fgets(text, sizeof text, file));
  fclose(file);
  assert_string_equal(text, "secret");
  snprintf(secret, sizeof secret, "%s/new", outside);
  assert_int_not_equal(access(secret, F_OK), 0);
}

static void test_links_lead_nowhere(void **state) {
  check_links(*state);
}

static void test_links_lead_nowhere_on_old_kernels(void **state) {
  fixture *f = *state;
  atomic_store(&f->fs->no_openat2, true);
  check_links(f);
}

static void test_own_folder_is_a_link(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  const char *outside = test_scratch();
  assert_int_equal(mkdir(f->root, 0777), 0);
  assert_int_equal(symlink(outside, in_root(f, LKI_FILE_TMP)), 0);
  assert_status(create(f, "a", "x", &err), LAKE_DENIED, &err);
  assert_status(put(f, "a", "x", &err), LAKE_DENIED, &err);
  assert_int_equal(rmdir(outside), 0); /* nothing came in */
  assert_int_equal(mkdir(outside, 0777), 0);
}

static void test_truncated_object(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(create(f, "a/b", "0123456789", &err), &err);
  assert_int_equal(truncate(in_root(f, "a/b"), 7), 0);
  char room[64];
  lake_buffer out;
  lki_buffer_init_fixed(&out, f->env, room, sizeof room);
  assert_status(
      lki_store_get(f->store, "a/b", lki_range_exact(0, 10), &out, NULL, test_deadline(f->env), &err),
      LAKE_CORRUPT, &err);
  assert_non_null(strstr(err.text, "7 bytes"));
  assert_int_equal(out.bytes, 0);
  assert_ok(lki_store_get(f->store, "a/b", lki_range_exact(0, 7), &out, NULL, test_deadline(f->env), &err),
            &err);
}

/* What is no regular file is no object, and never blocks a reader. */
static void test_foreign_files(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(create(f, "a/b", "x", &err), &err);
  assert_int_equal(mkfifo(in_root(f, "a/pipe"), 0666), 0);
  char text[64];
  assert_status(get(f, "a/pipe", text, sizeof text, &err), LAKE_NOTFOUND, &err);
  assert_status(get(f, "a", text, sizeof text, &err), LAKE_NOTFOUND, &err);
  assert_status(create(f, "a/pipe", "x", &err), LAKE_INVALID, &err);
  assert_int_equal(key_count(f, ""), 1);
}

static void test_root_vanishes(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  lake_deadline now = {0};
  char text[64];
  assert_ok(create(f, "b", "x", &err), &err);
  assert_int_equal(unlink(in_root(f, "b")), 0);
  assert_int_equal(rmdir(in_root(f, LKI_FILE_TMP)), 0);
  assert_int_equal(rmdir(f->root), 0);
  lake_buffer out;
  lki_buffer_init_fixed(&out, f->env, text, sizeof text);
  assert_status(lki_store_get(f->store, "b", lki_range_whole(), &out, NULL, now, &err), LAKE_UNAVAILABLE,
                &err);
  assert_non_null(strstr(err.text, "removed"));
  assert_status(lki_store_put(f->store, "b", text_bytes("x"), now, &err), LAKE_UNAVAILABLE, &err);
  assert_status(lki_store_put_if_absent(f->store, "c/d", text_bytes("x"), now, &err), LAKE_UNAVAILABLE, &err);
  assert_non_null(strstr(err.text, "removed"));
}

/* Somebody cleaned up: folders of ours may go while the store is open. */
static void test_folders_are_made_again(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  for (int i = 0; i < 3; i++) {
    assert_ok(create(f, "a/b/c", "x", &err), &err);
    assert_text(f, "a/b/c", "x");
    assert_ok(lki_store_remove(f->store, "a/b/c", test_deadline(f->env), &err), &err);
    assert_int_equal(rmdir(in_root(f, "a/b")), 0);
    assert_int_equal(rmdir(in_root(f, "a")), 0);
    assert_int_equal(rmdir(in_root(f, LKI_FILE_TMP)), 0);
  }
}

/* ---- claims in every state that a crash can leave ---- */

/* The path of the claim on key m/1, whose object is made and removed to learn it. */
static void claim_path(fixture *f, char path[PATH_MAX]) {
  lake_error err = LAKE_ERROR_INIT;
  atomic_store(&f->fs->publish, LKI_PUBLISH_CLAIM);
  assert_ok(create(f, "m/1", "x", &err), &err);
  assert_ok(lki_store_remove(f->store, "m/1", test_deadline(f->env), &err), &err);
  uint64_t half[2] = {lki_checksum("m/1", 3, 1), lki_checksum("m/1", 3, 2)};
  snprintf(path, PATH_MAX, "%.3000s/%s/%016llx%016llx", f->root, LKI_FILE_CLAIM, (unsigned long long)half[0],
           (unsigned long long)half[1]);
}

static void test_claims_are_given_back(void **state) {
  fixture *f = *state;
  char claim[PATH_MAX];
  claim_path(f, claim);
  assert_int_equal(rmdir(in_root(f, LKI_FILE_CLAIM)), 0); /* empty */
  assert_int_equal(rmdir(in_root(f, LKI_FILE_TMP)), 0);
}

static void test_claim_left_with_its_body(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  char claim[PATH_MAX];
  char body[PATH_MAX + 8];
  char text[64];
  claim_path(f, claim);
  snprintf(body, sizeof body, "%s/body", claim);
  assert_ok(create(f, "m/1", "winner", &err), &err);
  assert_int_equal(mkdir(claim, 0777), 0);
  assert_int_equal(rename(in_root(f, "m/1"), body), 0); /* as if killed between claim and rename */
  assert_status(get(f, "m/1", text, sizeof text, &err), LAKE_NOTFOUND, &err);
  assert_status(create(f, "m/1", "loser", &err), LAKE_EXISTS, &err);
  assert_text(f, "m/1", "winner"); /* the name was not blocked, and the winner stayed */
  assert_status(create(f, "m/1", "loser", &err), LAKE_EXISTS, &err);
  assert_text(f, "m/1", "winner");
}

/* Killed behind its claim, by one who would have lost: the object has come meanwhile. */
static void test_claim_left_by_a_loser(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  char claim[PATH_MAX];
  char body[PATH_MAX + 8];
  claim_path(f, claim);
  snprintf(body, sizeof body, "%s/body", claim);
  assert_ok(create(f, "m/1", "late", &err), &err);
  assert_int_equal(mkdir(claim, 0777), 0);
  assert_int_equal(rename(in_root(f, "m/1"), body), 0);
  atomic_store(&f->fs->publish, LKI_PUBLISH_LINK);
  assert_ok(create(f, "m/1", "winner", &err), &err);
  atomic_store(&f->fs->publish, LKI_PUBLISH_CLAIM);
  assert_status(create(f, "m/1", "loser", &err), LAKE_EXISTS, &err);
  assert_text(f, "m/1", "winner");
}

static void test_claim_left_empty(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  char claim[PATH_MAX];
  claim_path(f, claim);
  assert_int_equal(mkdir(claim, 0777), 0); /* as if killed before its rmdir */
  assert_ok(create(f, "m/1", "next", &err), &err);
  assert_text(f, "m/1", "next");
  assert_int_equal(mkdir(claim, 0777), 0);
  assert_status(create(f, "m/1", "loser", &err), LAKE_EXISTS, &err);
  assert_text(f, "m/1", "next");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_read_only),
      TEST(test_folder_without_permission),
      TEST(test_full_disk),
      TEST(test_no_descriptors),
      TEST(test_links_lead_nowhere),
      TEST(test_links_lead_nowhere_on_old_kernels),
      TEST(test_own_folder_is_a_link),
      TEST(test_truncated_object),
      TEST(test_foreign_files),
      TEST(test_root_vanishes),
      TEST(test_folders_are_made_again),
      TEST(test_claims_are_given_back),
      TEST(test_claim_left_with_its_body),
      TEST(test_claim_left_by_a_loser),
      TEST(test_claim_left_empty),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
