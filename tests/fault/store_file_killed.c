/* The file: store under SIGKILL: writers killed at any point leave no partial object and block no name. */
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

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_killed_writers_link),
      TEST(test_killed_writers_rename),
      TEST(test_killed_writers_claim),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
