#include "support/support.h"
#include "base/env.h"
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCRATCH_MAX 64
static char *scratch[SCRATCH_MAX];
static int scratch_count;
static pid_t scratch_owner;

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
  (void)st, (void)kind, (void)ftw;
  return remove(path);
}

static void remove_all(void) {
  if (getpid() != scratch_owner) return; /* a forked child ends: the folders are its parent's */
  for (int i = 0; i < scratch_count; i++) nftw(scratch[i], remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *test_scratch(void) {
  const char *base = getenv("TMPDIR");
  char path[512];
  snprintf(path, sizeof path, "%s/lake-test-XXXXXX", base != NULL && *base ? base : "/tmp");
  assert_true(scratch_count < SCRATCH_MAX);
  assert_non_null(mkdtemp(path));
  if (scratch_count == 0) {
    scratch_owner = getpid();
    atexit(remove_all);
  }
  return scratch[scratch_count++] = strdup(path);
}

uint64_t test_seed(void) {
  const char *text = getenv("LAKE_SEED");
  uint64_t seed;
  if (text != NULL && *text) {
    seed = strtoull(text, NULL, 0);
  } else {
    lake_env *env = NULL;
    assert_int_equal(lake_env_open(NULL, &env, NULL), LAKE_OK);
    seed = lki_random_u64(env);
    lake_env_close(env);
  }
  printf("seed: LAKE_SEED=%llu\n", (unsigned long long)seed);
  fflush(stdout);
  return seed;
}

void test_assert_status(lake_status got, lake_status want, const lake_error *err, const char *file, int line) {
  if (got == want) return;
  print_error("status %s, expected %s; error text: %s\n", lake_status_name(got), lake_status_name(want),
              err != NULL ? err->text : "(none)");
  _assert_int_equal(got, want, file, line);
}

lake_deadline test_deadline(lake_env *env) { return lake_deadline_after_ms(env, 60000); }
