/* The door of a store over a table that fails as told, on a clock that only the waits move: what is retried,
 * how often, how long, what is counted, and what an error says. */
#include "support/support.h"

#include "base/buffer.h"
#include "base/env.h"
#include "base/error.h"
#include "store/retry.h"
#include "store/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- an environment whose clock only waits move ---- */

typedef struct virtual_clock {
  uint64_t now_ns;
  uint64_t pause_count;
  uint64_t longest_ns;
} virtual_clock;

static virtual_clock clock_state;
static lki_env_ops clock_ops; /* the machine's table but for the clock */

static uint64_t clock_now(void *self) {
  (void)self;
  return clock_state.now_ns;
}

static void clock_sleep(void *self, uint64_t at_ns) {
  (void)self;
  if (at_ns > clock_state.now_ns + clock_state.longest_ns)
    clock_state.longest_ns = at_ns - clock_state.now_ns;
  if (at_ns > clock_state.now_ns) clock_state.now_ns = at_ns;
  clock_state.pause_count++;
}

/* ---- a table that fails as told ---- */

typedef struct faulty {
  lake_status fail_with;
  int fail_count; /* calls that fail before the others succeed */
  int call_count;
  bool closed;
  char last_after[64];
} faulty;

static lake_status answer(faulty *f, lake_error *err) {
  f->call_count++;
  if (f->fail_count <= 0) return LAKE_OK;
  f->fail_count--;
  return lki_fail(err, f->fail_with, "told to fail");
}

static lake_status f_get(void *self, const char *key, lake_range range, lake_buffer *out,
                         lake_object_info *info, lake_deadline deadline, lake_error *err) {
  (void)key, (void)range, (void)deadline;
  lake_status s = answer(self, err);
  if (s != LAKE_OK) return s;
  if (info != NULL) info->object_bytes = 3;
  s = lki_buffer_reserve(out, 3, err);
  if (s == LAKE_OK) {
    memcpy(out->data, "abc", 3);
    out->bytes = 3;
  }
  return s;
}

static lake_status f_put(void *self, const char *key, lake_bytes body, lake_deadline deadline,
                         lake_error *err) {
  (void)key, (void)body, (void)deadline;
  return answer(self, err);
}

static lake_status f_head(void *self, const char *key, lake_object_info *info, lake_deadline deadline,
                          lake_error *err) {
  (void)key, (void)deadline;
  lake_status s = answer(self, err);
  if (s == LAKE_OK) info->object_bytes = 3;
  return s;
}

/* Ten keys k/0 .. k/9; a failing call delivers three of them first. */
static lake_status f_list(void *self, const char *prefix, const char *start_after, lake_list_fn *fn,
                          void *ctx, lake_deadline deadline, lake_error *err) {
  (void)prefix, (void)deadline;
  faulty *f = self;
  snprintf(f->last_after, sizeof f->last_after, "%s", start_after != NULL ? start_after : "(null)");
  int given = 0;
  for (int i = 0; i < 10; i++) {
    char key[8];
    snprintf(key, sizeof key, "k/%d", i);
    if (start_after != NULL && strcmp(key, start_after) <= 0) continue;
    if (f->fail_count > 0 && given == 3) break;
    given++;
    if (!fn(ctx, key, 1)) return LAKE_OK;
  }
  return answer(f, err);
}

static lake_status f_list_disorder(void *self, const char *prefix, const char *start_after, lake_list_fn *fn,
                                   void *ctx, lake_deadline deadline, lake_error *err) {
  (void)self, (void)prefix, (void)start_after, (void)deadline, (void)err;
  if (fn(ctx, "k/2", 1) && fn(ctx, "k/1", 1)) fn(ctx, "k/3", 1);
  return LAKE_OK;
}

static lake_status f_remove(void *self, const char *key, lake_deadline deadline, lake_error *err) {
  (void)key, (void)deadline;
  return answer(self, err);
}

static void f_close(void *self) {
  ((faulty *)self)->closed = true;
}

static const lake_store_ops faulty_ops = {
    .size = sizeof faulty_ops, .scheme = "faulty", .get = f_get, .put = f_put, .put_if_absent = f_put,
    .head = f_head, .list = f_list, .remove = f_remove, .close = f_close,
};

/* ---- the fixture ---- */

typedef struct fixture {
  lake_env *env;
  faulty table;
  lake_store *store;
} fixture;

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  assert_int_equal(lake_env_open(NULL, &f->env, NULL), LAKE_OK);
  clock_ops = *f->env->ops;
  clock_ops.now_ns = clock_now;
  clock_ops.sleep_until = clock_sleep;
  f->env->ops = &clock_ops;
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

static void open_faulty(fixture *f, lake_status fail_with, int fail_count) {
  lake_store_close(f->store);
  f->store = NULL;
  memset(&f->table, 0, sizeof f->table);
  memset(&clock_state, 0, sizeof clock_state);
  f->table.fail_with = fail_with;
  f->table.fail_count = fail_count;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lake_store_wrap(f->env, &faulty_ops, &f->table, "faulty:label", &f->store, &err), &err);
}

static lake_deadline far(void) {
  lake_deadline deadline = {UINT64_MAX};
  return deadline;
}

typedef enum verb { GET, PUT, HEAD, LIST, REMOVE, VERB_COUNT } verb;

typedef struct seen {
  int count;
  char last[8];
  bool disordered;
} seen;

static bool see(void *ctx, const char *key, uint64_t object_bytes) {
  seen *s = ctx;
  (void)object_bytes;
  if (strcmp(key, s->last) <= 0) s->disordered = true;
  snprintf(s->last, sizeof s->last, "%s", key);
  s->count++;
  return true;
}

static lake_status call(fixture *f, verb v, lake_deadline deadline, lake_error *err) {
  lake_buffer out;
  lki_buffer_init(&out, f->env, 100);
  lake_bytes body = {"xyz", 3};
  lake_object_info info = {0};
  seen s = {0};
  lake_status status = LAKE_INTERNAL;
  switch (v) {
  case GET:
    status = lki_store_get(f->store, "k/0", lki_range_whole(), &out, &info, deadline, err);
    break;
  case PUT:
    status = lki_store_put(f->store, "k/0", body, deadline, err);
    break;
  case HEAD:
    status = lki_store_head(f->store, "k/0", &info, deadline, err);
    break;
  case LIST:
    status = lki_store_list(f->store, "k/", NULL, see, &s, deadline, err);
    break;
  case REMOVE:
    status = lki_store_remove(f->store, "k/0", deadline, err);
    break;
  case VERB_COUNT:
    break;
  }
  if (v == GET) assert_int_equal(out.bytes, status == LAKE_OK ? 3 : 0);
  lki_buffer_free(&out);
  return status;
}

static void test_transient_errors_are_retried(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  const lake_status transient[] = {LAKE_UNAVAILABLE, LAKE_UNCERTAIN};
  for (int v = 0; v < VERB_COUNT; v++) {
    for (int i = 0; i < 2; i++) {
      open_faulty(f, transient[i], 3);
      assert_ok(call(f, (verb)v, far(), &err), &err);
      assert_int_equal(f->table.call_count, 4);
      assert_int_equal(clock_state.pause_count, 3);
      lake_store_stats stats;
      lake_store_stats_get(f->store, &stats);
      assert_int_equal(stats.failed_count, 3);
      assert_int_equal(
          stats.get_count + stats.put_count + stats.head_count + stats.list_count + stats.remove_count, 4);
      assert_int_equal(stats.written_bytes, v == PUT ? 3 : 0);
      assert_int_equal(stats.read_bytes, v == GET ? 3 : 0);
    }
  }
}

static void test_tries_are_bounded(void **state) {
  fixture *f = *state;
  for (int v = 0; v < VERB_COUNT; v++) {
    lake_error err = LAKE_ERROR_INIT;
    open_faulty(f, LAKE_UNAVAILABLE, 1000);
    assert_status(call(f, (verb)v, far(), &err), LAKE_UNAVAILABLE, &err);
    assert_int_equal(err.status, LAKE_UNAVAILABLE);
    assert_non_null(strstr(err.text, "faulty:label"));
    assert_non_null(strstr(err.text, "k/"));
    assert_non_null(strstr(err.text, "told to fail"));
    /* A listing that moved on goes on: 3 keys each in the first three calls, then 1, then failures without
     * keys. */
    assert_int_equal(f->table.call_count, LKI_RETRY_TRIES_MAX);
    assert_int_equal(clock_state.pause_count, LKI_RETRY_TRIES_MAX - 1);
    assert_true(clock_state.longest_ns <= 2000000000u);
    assert_true(clock_state.now_ns <= (uint64_t)(20 + 40 + 80 + 160 + 320 + 640 + 1280) * 1000000u);
  }
}

static void test_final_errors_are_not_retried(void **state) {
  fixture *f = *state;
  const lake_status final[] = {LAKE_NOTFOUND, LAKE_EXISTS,  LAKE_INVALID, LAKE_CORRUPT,
                               LAKE_DENIED,   LAKE_TIMEOUT, LAKE_NOMEM,   LAKE_UNSUPPORTED};
  for (int v = 0; v < VERB_COUNT; v++) {
    for (size_t i = 0; i < sizeof final / sizeof final[0]; i++) {
      lake_error err = LAKE_ERROR_INIT;
      open_faulty(f, final[i], 1);
      assert_status(call(f, (verb)v, far(), &err), final[i], &err);
      assert_int_equal(f->table.call_count, 1);
      lake_store_stats stats;
      lake_store_stats_get(f->store, &stats);
      assert_int_equal(stats.failed_count, i < 2 ? 0 : 1);
    }
  }
}

/* Only the commit protocol may decide what an unclear create means. */
static void test_create_is_never_retried(void **state) {
  fixture *f = *state;
  lake_bytes body = {"xyz", 3};
  const lake_status transient[] = {LAKE_UNAVAILABLE, LAKE_UNCERTAIN};
  for (int i = 0; i < 2; i++) {
    lake_error err = LAKE_ERROR_INIT;
    open_faulty(f, transient[i], 1);
    assert_status(lki_store_put_if_absent(f->store, "k/0", body, far(), &err), transient[i], &err);
    assert_int_equal(f->table.call_count, 1);
    assert_int_equal(clock_state.pause_count, 0);
  }
}

/* One try always, and no sleep that ends behind the deadline. */
static void test_deadline_ends_retries(void **state) {
  fixture *f = *state;
  for (int v = 0; v < VERB_COUNT; v++) {
    lake_error err = LAKE_ERROR_INIT;
    lake_deadline now = {0};
    open_faulty(f, LAKE_UNAVAILABLE, 1000);
    assert_status(call(f, (verb)v, now, &err), LAKE_UNAVAILABLE, &err);
    assert_int_equal(f->table.call_count, 1);
    open_faulty(f, LAKE_UNAVAILABLE, 0);
    assert_ok(call(f, (verb)v, now, &err), &err);
    lake_deadline soon = {50000000};
    open_faulty(f, LAKE_UNAVAILABLE, 1000);
    assert_status(call(f, (verb)v, soon, &err), LAKE_UNAVAILABLE, &err);
    assert_true(clock_state.now_ns <= soon.at_ns);
  }
}

static void test_listing_goes_on_behind_its_last_key(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  seen s = {0};
  open_faulty(f, LAKE_UNAVAILABLE, 2);
  assert_ok(lki_store_list(f->store, "k/", NULL, see, &s, far(), &err), &err);
  assert_int_equal(s.count, 10);
  assert_false(s.disordered);
  assert_string_equal(f->table.last_after, "k/5");
}

static void test_disordered_listing_is_refused(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  lake_store_ops ops = faulty_ops;
  ops.list = f_list_disorder;
  seen s = {0};
  faulty table = {0};
  lake_store *store = NULL;
  assert_ok(lake_store_wrap(f->env, &ops, &table, "liar", &store, &err), &err);
  assert_status(lki_store_list(store, "k/", NULL, see, &s, far(), &err), LAKE_CORRUPT, &err);
  assert_int_equal(s.count, 1);
  assert_status(lki_store_list(store, "other/", NULL, see, &s, far(), &err), LAKE_CORRUPT, &err);
  assert_int_equal(s.count, 1);
  lake_store_close(store);
}

/* An error's cause is readable however long the names are. */
static void test_long_names_leave_room_for_the_cause(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  char label[600];
  char key[LKI_KEY_BYTES_MAX];
  memset(label, 'l', sizeof label);
  label[sizeof label - 1] = 0;
  memset(key, 'k', sizeof key);
  for (size_t i = 200; i < sizeof key - 2; i += 200) key[i] = '/';
  key[sizeof key - 1] = 0;
  faulty table = {.fail_with = LAKE_DENIED, .fail_count = 1};
  lake_store *store = NULL;
  lake_bytes body = {"x", 1};
  assert_ok(lake_store_wrap(f->env, &faulty_ops, &table, label, &store, &err), &err);
  assert_status(lki_store_put(store, key, body, far(), &err), LAKE_DENIED, &err);
  assert_non_null(strstr(err.text, "told to fail"));
  lake_store_close(store);
}

/* ---- the budget of retries ---- */

/* A store that is down is asked little more than once a call; one that recovers has its retries back. */
static void test_retries_have_a_budget(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  open_faulty(f, LAKE_UNAVAILABLE, 1000000);
  const int retries = LKI_RETRY_TOKENS_MAX / LKI_RETRY_TOKENS_TRY;
  for (int i = 0; i < 1000; i++) assert_status(call(f, (verb)(i % VERB_COUNT), far(), &err), LAKE_UNAVAILABLE, &err);
  assert_int_equal(f->table.call_count, 1000 + retries);
  /* Each success is a fifth of a retry. */
  f->table.fail_count = 0;
  f->table.call_count = 0;
  for (int i = 0; i < 2 * LKI_RETRY_TOKENS_TRY; i++) assert_ok(call(f, GET, far(), &err), &err);
  f->table.fail_count = 1000000;
  assert_status(call(f, GET, far(), &err), LAKE_UNAVAILABLE, &err);
  assert_int_equal(f->table.call_count, 2 * LKI_RETRY_TOKENS_TRY + 3);
  assert_status(call(f, GET, far(), &err), LAKE_UNAVAILABLE, &err);
  assert_int_equal(f->table.call_count, 2 * LKI_RETRY_TOKENS_TRY + 4);
  /* That an object is missing is an answer as well. */
  f->table.fail_with = LAKE_NOTFOUND;
  f->table.fail_count = LKI_RETRY_TOKENS_TRY;
  for (int i = 0; i < LKI_RETRY_TOKENS_TRY; i++) assert_status(call(f, HEAD, far(), &err), LAKE_NOTFOUND, &err);
  f->table.fail_with = LAKE_UNCERTAIN;
  f->table.fail_count = 1;
  assert_ok(call(f, PUT, far(), &err), &err);
}

/* One that fails now and then is never short: a retry that is answered gives back what it took. */
static void test_passing_failures_cost_nothing(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  open_faulty(f, LAKE_UNAVAILABLE, 0);
  for (int i = 0; i < 1000; i++) {
    f->table.fail_count = 1;
    assert_ok(call(f, GET, far(), &err), &err);
  }
  assert_int_equal(f->table.call_count, 2000);
}

/* ---- what a table may lack ---- */

typedef struct found_uploads {
  int count;
} found_uploads;

static bool find_upload(void *ctx, const char *key, const char *upload_id) {
  assert_string_equal(key, "k/1");
  assert_string_equal(upload_id, "id");
  ((found_uploads *)ctx)->count++;
  return true;
}

static lake_status f_list_uploads(void *self, const char *prefix, lake_upload_fn *fn, void *ctx, lake_deadline deadline,
                                  lake_error *err) {
  (void)deadline;
  assert_string_equal(prefix, "k/");
  lake_status s = answer(self, err);
  if (s == LAKE_OK) fn(ctx, "k/1", "id");
  return s;
}

static lake_status f_abort_upload(void *self, const char *key, const char *upload_id, lake_deadline deadline,
                                  lake_error *err) {
  (void)deadline;
  assert_string_equal(key, "k/1");
  assert_string_equal(upload_id, "id");
  return answer(self, err);
}

static lake_status f_check(void *self, lake_deadline deadline, lake_error *err) {
  (void)deadline;
  return answer(self, err);
}

static void test_later_members(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  lake_store_ops ops = faulty_ops;
  ops.list_uploads = f_list_uploads;
  ops.abort_upload = f_abort_upload;
  ops.check = f_check;
  for (int old = 0; old < 2; old++) { /* a table that ends before them must not be read beyond its end */
    faulty table = {.fail_with = LAKE_UNSUPPORTED};
    found_uploads found = {0};
    lake_store *store = NULL;
    ops.size = old ? offsetof(lake_store_ops, list_uploads) : (uint32_t)sizeof ops;
    assert_ok(lake_store_wrap(f->env, &ops, &table, "table:", &store, &err), &err);
    assert_ok(lki_store_list_uploads(store, "k/", find_upload, &found, far(), &err), &err);
    assert_ok(lki_store_abort_upload(store, "k/1", "id", far(), &err), &err);
    assert_int_equal(found.count, old ? 0 : 1);
    table.fail_count = 1;
    if (old) assert_ok(lki_store_check(store, far(), &err), &err);
    else assert_status(lki_store_check(store, far(), &err), LAKE_UNSUPPORTED, &err);
    assert_int_equal(table.call_count, old ? 0 : 3);
    lake_store_close(store);
  }
}

static void test_incomplete_tables_are_refused(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  lake_store *store = NULL;
  faulty table = {0};
  lake_store_ops ops = faulty_ops;
  ops.size = offsetof(lake_store_ops, list_uploads) - 1;
  assert_status(lake_store_wrap(f->env, &ops, &table, "x", &store, &err), LAKE_INVALID, &err);
  ops = faulty_ops;
  ops.remove = NULL;
  assert_status(lake_store_wrap(f->env, &ops, &table, "x", &store, &err), LAKE_INVALID, &err);
  assert_null(store);
  assert_false(table.closed); /* self stays the caller's */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_transient_errors_are_retried, setup, teardown),
      cmocka_unit_test_setup_teardown(test_tries_are_bounded, setup, teardown),
      cmocka_unit_test_setup_teardown(test_final_errors_are_not_retried, setup, teardown),
      cmocka_unit_test_setup_teardown(test_create_is_never_retried, setup, teardown),
      cmocka_unit_test_setup_teardown(test_deadline_ends_retries, setup, teardown),
      cmocka_unit_test_setup_teardown(test_listing_goes_on_behind_its_last_key, setup, teardown),
      cmocka_unit_test_setup_teardown(test_disordered_listing_is_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_long_names_leave_room_for_the_cause, setup, teardown),
      cmocka_unit_test_setup_teardown(test_retries_have_a_budget, setup, teardown),
      cmocka_unit_test_setup_teardown(test_passing_failures_cost_nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(test_later_members, setup, teardown),
      cmocka_unit_test_setup_teardown(test_incomplete_tables_are_refused, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
