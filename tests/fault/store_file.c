/* The file: store on bad ground: read-only and full disks, links that lead out, truncated and foreign files,
 * a folder that vanishes, claims that a crash left in every state, and writers killed at any point. */
#include "support/support.h"

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

typedef struct fixture {
  lake_env *env;
  char root[PATH_MAX];
  lki_file_store *fs;
  lake_store *store;
} fixture;

static void open_store(fixture *f) {
  const lake_store_ops *ops = NULL;
  void *self = NULL;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lki_store_file_open(f->env, f->root, &ops, &self, &err), &err);
  f->fs = self;
  assert_ok(lake_store_wrap(f->env, ops, self, "file", &f->store, &err), &err);
}

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  assert_int_equal(lake_env_open(NULL, &f->env, NULL), LAKE_OK);
  snprintf(f->root, sizeof f->root, "%s/root", test_scratch());
  open_store(f);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  lake_store_close(f->store);
  lake_env_close(f->env);
  free(f);
  return 0;
}

static lake_bytes text_bytes(const char *text) {
  lake_bytes bytes = {text, strlen(text)};
  return bytes;
}

static lake_status put(fixture *f, const char *key, const char *text, lake_error *err) {
  return lki_store_put(f->store, key, text_bytes(text), test_deadline(f->env), err);
}

static lake_status create(fixture *f, const char *key, const char *text, lake_error *err) {
  return lki_store_put_if_absent(f->store, key, text_bytes(text), test_deadline(f->env), err);
}

static lake_status get(fixture *f, const char *key, char *text, size_t room, lake_error *err) {
  lake_buffer out;
  lki_buffer_init_fixed(&out, f->env, text, room - 1);
  lake_status s = lki_store_get(f->store, key, lki_range_whole(), &out, NULL, test_deadline(f->env), err);
  if (s == LAKE_OK) text[out.bytes] = 0;
  return s;
}

static void assert_text(fixture *f, const char *key, const char *want) {
  char text[256];
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(get(f, key, text, sizeof text, &err), &err);
  assert_string_equal(text, want);
}

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

/* ---- killed writers ---- */

#define KILL_COUNT 100
#define BODY_BYTES ((size_t)60000)

/* A body tells its own length and content: 8 bytes of number, then a pattern that follows from it. */
static void body_fill(unsigned char *body, size_t bytes, uint64_t number) {
  lki_rng rng = {number};
  memcpy(body, &number, sizeof number);
  for (size_t i = 8; i < bytes; i++) body[i] = (unsigned char)lki_rng_next(&rng);
}

static size_t body_bytes(uint64_t number) {
  return BODY_BYTES + (size_t)(number % 1000);
}

static bool body_whole(const unsigned char *body, size_t bytes) {
  static unsigned char want[BODY_BYTES + 1000];
  uint64_t number;
  if (bytes < 8) return false;
  memcpy(&number, body, sizeof number);
  if (bytes != body_bytes(number)) return false;
  body_fill(want, bytes, number);
  return memcmp(want, body, bytes) == 0;
}

typedef struct progress {
  atomic_uint_fast64_t
      next; /* number of the next object; the writer before may have got as far as making it */
} progress;

static void number_key(char key[64], uint64_t number) {
  snprintf(key, 64, "k/%llu/%llu", (unsigned long long)number % 3, (unsigned long long)number);
}

static void write_until_killed(const char *root, lki_file_publish publish, progress *p) {
  static unsigned char body[BODY_BYTES + 1000];
  lake_env *env = NULL;
  const lake_store_ops *ops = NULL;
  void *self = NULL;
  if (lake_env_open(NULL, &env, NULL) != LAKE_OK) _exit(3);
  if (lki_store_file_open(env, root, &ops, &self, NULL) != LAKE_OK) _exit(3);
  atomic_store(&((lki_file_store *)self)->publish, (int)publish);
  for (;;) {
    uint64_t number = atomic_load(&p->next);
    char key[64];
    number_key(key, number);
    lake_bytes bytes = {body, body_bytes(number)};
    body_fill(body, bytes.bytes, number);
    lake_status s = ops->put_if_absent(self, key, bytes, test_deadline(env), NULL);
    if (s != LAKE_OK && s != LAKE_EXISTS)
      _exit(4); /* EXISTS: the writer before was killed behind its create */
    if (ops->put(self, "latest", bytes, test_deadline(env), NULL) != LAKE_OK) _exit(4);
    atomic_store(&p->next, number + 1);
  }
}

typedef struct whole_check {
  fixture *f;
  lake_buffer out;
  int count;
  int broken_count;
} whole_check;

static bool check_whole(void *ctx, const char *key, uint64_t object_bytes) {
  whole_check *w = ctx;
  lake_error err = LAKE_ERROR_INIT;
  w->count++;
  lake_status s =
      lki_store_get(w->f->store, key, lki_range_whole(), &w->out, NULL, test_deadline(w->f->env), &err);
  if (s != LAKE_OK || w->out.bytes != object_bytes || !body_whole(w->out.data, w->out.bytes)) {
    print_error("%s: %s %s\n", key, lake_status_name(s), err.text);
    w->broken_count++;
  }
  return true;
}

/* What the dead writer may have been at is absent or whole. */
static void check_after_kill(whole_check *w, uint64_t number) {
  char key[64];
  number_key(key, number);
  const char *const keys[] = {key, "latest"};
  for (int i = 0; i < 2; i++) {
    lake_object_info info = {0};
    lake_error err = LAKE_ERROR_INIT;
    lake_status s = lki_store_head(w->f->store, keys[i], &info, test_deadline(w->f->env), &err);
    if (s == LAKE_NOTFOUND) continue;
    assert_ok(s, &err);
    check_whole(w, keys[i], info.object_bytes);
  }
  assert_int_equal(w->broken_count, 0);
}

static void check_killed_writers(fixture *f, lki_file_publish publish) {
  progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(p, MAP_FAILED);
  lki_rng rng = {test_seed()};
  whole_check w = {.f = f};
  lki_buffer_init(&w.out, f->env, (size_t)1 << 20);
  fflush(NULL);
  for (int i = 0; i < KILL_COUNT; i++) {
    uint64_t goal = atomic_load(&p->next) + lki_rng_below(&rng, 3);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) write_until_killed(f->root, publish, p);
    int code = 0;
    pid_t ended = 0;
    while (atomic_load(&p->next) < goal && (ended = waitpid(pid, &code, WNOHANG)) == 0) sched_yield();
    for (uint64_t yields = lki_rng_below(&rng, 400); yields > 0; yields--) sched_yield();
    if (ended == 0) {
      kill(pid, SIGKILL);
      assert_int_equal(waitpid(pid, &code, 0), pid);
    }
    assert_true(
        WIFSIGNALED(code)); /* it did not end by itself: every writer succeeded after the kill before */
    assert_int_equal(WTERMSIG(code), SIGKILL);
    check_after_kill(&w, atomic_load(&p->next));
  }
  w.count = 0;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lki_store_list(f->store, "", NULL, check_whole, &w, test_deadline(f->env), &err), &err);
  assert_int_equal(w.broken_count, 0);
  /* Every acknowledged object is there: numbers below next, and "latest". */
  uint64_t next = atomic_load(&p->next);
  for (uint64_t number = 0; number < next; number++) {
    char key[64];
    lake_object_info info;
    number_key(key, number);
    assert_ok(lki_store_head(f->store, key, &info, test_deadline(f->env), &err), &err);
    assert_int_equal(info.object_bytes, body_bytes(number));
  }
  assert_true(next > 20);
  assert_true((uint64_t)w.count >= next);
  lki_buffer_free(&w.out);
  munmap(p, sizeof *p);
}

static void test_killed_writers_link(void **state) {
  check_killed_writers(*state, LKI_PUBLISH_LINK);
}
static void test_killed_writers_rename(void **state) {
  check_killed_writers(*state, LKI_PUBLISH_RENAME);
}
static void test_killed_writers_claim(void **state) {
  check_killed_writers(*state, LKI_PUBLISH_CLAIM);
}

int main(void) {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
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
      TEST(test_killed_writers_link),
      TEST(test_killed_writers_rename),
      TEST(test_killed_writers_claim),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
