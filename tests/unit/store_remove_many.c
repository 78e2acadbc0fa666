/* The door to removals of many: in batches, the rest given again, and one by one where a table cannot do it. The clock is
 * the test's own. */
#include "base/env.h"
#include "base/error.h"
#include "store/retry.h"
#include "store/store.h"
#include "support/support.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a clock that stands still but for sleepers ---- */

static struct {
  uint64_t now_ns;
  int pause_count;
} clock_state;
static lki_env_ops clock_ops; /* the machine's table but for the clock */

static uint64_t clock_now(void *self) {
  (void)self;
  return clock_state.now_ns;
}

static void clock_sleep(void *self, uint64_t at_ns) {
  (void)self;
  if (at_ns > clock_state.now_ns) clock_state.now_ns = at_ns;
  clock_state.pause_count++;
}

static int setup(void **state) {
  lake_env *env = NULL;
  assert_int_equal(lake_env_open(NULL, &env, NULL), LAKE_OK);
  clock_ops = *env->ops;
  clock_ops.now_ns = clock_now;
  clock_ops.sleep_until = clock_sleep;
  env->ops = &clock_ops;
  *state = env;
  return 0;
}

static int teardown(void **state) {
  lake_env_close(*state);
  return 0;
}

/* ---- the table ---- */

#define MANY 2500

/* A table that removes some of each batch, or refuses to; one that is removed by itself is counted apart. */
typedef struct remover {
  lake_status say;      /* at the first `say_count` calls; OK afterwards */
  int say_count;
  size_t take_every;    /* of a call that fails, every n-th key goes all the same; 0: none */
  int call_count, single_count;
  size_t batch_counts[16];
  unsigned char removed[MANY]; /* how often, by the number in the key */
  int last_single;
  bool disordered; /* single ones did not come in the order of the keys */
} remover;

static size_t number_of(const char *key) { return (size_t)strtoul(strrchr(key, '/') + 1, NULL, 10); }

static lake_status r_remove(void *self, const char *key, lake_deadline deadline, lake_error *err) {
  (void)deadline, (void)err;
  remover *r = self;
  const int number = (int)number_of(key);
  r->disordered = r->disordered || (r->single_count > 0 && number <= r->last_single);
  r->last_single = number;
  r->single_count++;
  r->removed[number]++;
  return LAKE_OK;
}

static lake_status r_remove_many(void *self, const char *const *keys, size_t count, bool *gone, lake_deadline deadline,
                                 lake_error *err) {
  (void)deadline;
  remover *r = self;
  assert_true(count >= 1 && count <= LAKE_REMOVE_MANY_MAX && r->call_count < 16);
  r->batch_counts[r->call_count] = count;
  const bool fails = r->call_count++ < r->say_count;
  for (size_t i = 0; i < count; i++) {
    assert_false(gone[i]);
    gone[i] = !fails || (r->take_every > 0 && i % r->take_every == 0);
    if (gone[i]) r->removed[number_of(keys[i])]++;
  }
  return fails ? lki_fail(err, r->say, "k/77: told to fail") : LAKE_OK;
}

static void r_close(void *self) { (void)self; }

/* What is not asked here. */
static lake_status r_get(void *self, const char *key, lake_range range, lake_buffer *out, lake_object_info *info,
                         lake_deadline deadline, lake_error *err) {
  (void)self, (void)range, (void)out, (void)info, (void)deadline;
  return lki_fail(err, LAKE_INTERNAL, "%s", key);
}

static lake_status r_put(void *self, const char *key, lake_bytes body, lake_deadline deadline, lake_error *err) {
  (void)self, (void)body, (void)deadline;
  return lki_fail(err, LAKE_INTERNAL, "%s", key);
}

static lake_status r_head(void *self, const char *key, lake_object_info *info, lake_deadline deadline, lake_error *err) {
  (void)self, (void)info, (void)deadline;
  return lki_fail(err, LAKE_INTERNAL, "%s", key);
}

static lake_status r_list(void *self, const char *prefix, const char *start_after, lake_list_fn *fn, void *ctx,
                          lake_deadline deadline, lake_error *err) {
  (void)self, (void)start_after, (void)fn, (void)ctx, (void)deadline;
  return lki_fail(err, LAKE_INTERNAL, "%s", prefix);
}

static const lake_store_ops r_ops = {
    .size = sizeof(lake_store_ops), .scheme = "table", .get = r_get, .put = r_put, .put_if_absent = r_put, .head = r_head,
    .list = r_list, .remove = r_remove, .close = r_close, .remove_many = r_remove_many,
};

static lake_status remove_k(lake_env *env, remover *r, uint32_t table_bytes, size_t count, lake_error *err) {
  static char text[MANY][24];
  static const char *keys[MANY];
  static bool gone[MANY];
  lake_store_ops ops = r_ops;
  lake_store *store = NULL;
  ops.size = table_bytes;
  for (size_t i = 0; i < count; i++) {
    snprintf(text[i], sizeof text[i], "k/%zu", i);
    keys[i] = text[i];
  }
  memset(&clock_state, 0, sizeof clock_state);
  assert_ok(lake_store_wrap(env, &ops, r, "table:", &store, err), err);
  const lake_status s = lki_store_remove_many(store, keys, count, gone, (lake_deadline){UINT64_MAX}, err);
  for (size_t i = 0; i < count; i++) assert_int_equal(gone[i], r->removed[i] > 0); /* on failure, too */
  lake_store_stats stats;
  lake_store_stats_get(store, &stats);
  const bool refused = r->say == LAKE_UNSUPPORTED; /* no failure of the store; a request only if it did something */
  assert_int_equal(stats.failed_count, refused ? 0 : r->call_count < r->say_count ? r->call_count : r->say_count);
  assert_int_equal(stats.remove_count,
                   r->single_count + r->call_count - (refused && r->take_every == 0 ? r->say_count : 0));
  lake_store_close(store);
  return s;
}

static void expect_removed_once(const remover *r, size_t count) {
  for (size_t i = 0; i < MANY; i++) assert_int_equal(r->removed[i], i < count ? 1 : 0);
}

static void test_many_go_in_batches(void **state) {
  lake_env *env = *state;
  lake_error err = LAKE_ERROR_INIT;
  const uint32_t whole = sizeof(lake_store_ops);
  remover r = {0};
  assert_ok(remove_k(env, &r, whole, MANY, &err), &err);
  expect_removed_once(&r, MANY);
  assert_int_equal(r.call_count, 3);
  assert_int_equal(r.batch_counts[0] + r.batch_counts[1] + r.batch_counts[2], MANY);
  r = (remover){0};
  assert_ok(remove_k(env, &r, whole, 0, &err), &err);
  assert_int_equal(r.call_count + r.single_count, 0);
  /* A table from before there was such a thing is asked one by one, in order. */
  r = (remover){0};
  assert_ok(remove_k(env, &r, offsetof(lake_store_ops, remove_many), 10, &err), &err);
  expect_removed_once(&r, 10);
  assert_int_equal(r.call_count, 0);
  assert_int_equal(r.single_count, 10);
  assert_false(r.disordered);
}

/* Only what may be left is given again, and what the table cannot do goes one by one. */
static void test_the_rest_is_given_again(void **state) {
  lake_env *env = *state;
  lake_error err = LAKE_ERROR_INIT;
  const uint32_t whole = sizeof(lake_store_ops);
  const lake_status transient[] = {LAKE_UNAVAILABLE, LAKE_UNCERTAIN};
  for (int i = 0; i < 2; i++) {
    remover r = {.say = transient[i], .say_count = 2, .take_every = 3};
    assert_ok(remove_k(env, &r, whole, 27, &err), &err);
    expect_removed_once(&r, 27);
    assert_int_equal(r.call_count, 3);
    assert_int_equal(r.batch_counts[1], 18);
    assert_int_equal(r.batch_counts[2], 12);
    assert_int_equal(r.single_count, 0);
    assert_int_equal(clock_state.pause_count, 2);
  }
  for (size_t every = 0; every < 4; every++) {
    remover r = {.say = LAKE_UNSUPPORTED, .say_count = 1, .take_every = every};
    assert_ok(remove_k(env, &r, whole, 30, &err), &err);
    expect_removed_once(&r, 30);
    assert_int_equal(r.call_count, 1);
    assert_int_equal(r.single_count, every == 0 ? 30 : 30 - (int)((30 + every - 1) / every));
    assert_false(r.disordered);
    assert_int_equal(clock_state.pause_count, 0);
  }
  remover r = {.say = LAKE_UNAVAILABLE, .say_count = 1000, .take_every = 2};
  assert_status(remove_k(env, &r, whole, 1200, &err), LAKE_UNAVAILABLE, &err);
  assert_int_equal(r.call_count, LKI_RETRY_TRIES_MAX);
  assert_non_null(strstr(err.text, "table:: k/77: told to fail"));
  assert_int_equal(r.removed[1100], 0); /* no other batch is begun */
  r = (remover){.say = LAKE_DENIED, .say_count = 1000, .take_every = 2};
  assert_status(remove_k(env, &r, whole, 1200, &err), LAKE_DENIED, &err);
  assert_int_equal(r.call_count, 1);
}

static void *(*alloc)(void *self, size_t align, size_t bytes);

static void *no_memory(void *self, size_t align, size_t bytes) {
  (void)self, (void)align, (void)bytes;
  return NULL;
}

static void test_no_memory(void **state) {
  lake_env *env = *state;
  static char text[] = "k/0";
  const char *keys[] = {text};
  lake_error err = LAKE_ERROR_INIT;
  remover r = {0};
  lake_store *store = NULL;
  assert_ok(lake_store_wrap(env, &r_ops, &r, "table:", &store, &err), &err);
  alloc = clock_ops.alloc;
  clock_ops.alloc = no_memory;
  assert_status(lki_store_remove_many(store, keys, 1, NULL, (lake_deadline){UINT64_MAX}, &err), LAKE_NOMEM, &err);
  clock_ops.alloc = alloc;
  assert_int_equal(r.call_count, 0);
  lake_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_many_go_in_batches, setup, teardown),
      cmocka_unit_test_setup_teardown(test_the_rest_is_given_again, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
