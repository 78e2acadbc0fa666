/* Every allocation of every store operation fails once: the answer is NOMEM, nothing has changed, and the
 * same call goes through afterwards. Leaks show under the asan preset. */
#include "support/scarce.h"

#include "base/buffer.h"
#include "store/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool count_key(void *ctx, const char *key, uint64_t object_bytes) {
  (void)key, (void)object_bytes;
  ++*(int *)ctx;
  return true;
}

typedef enum verb { OPEN, PUT_NEW, PUT_OLD, CREATE, GET, HEAD, LIST, REMOVE, VERB_COUNT } verb;

typedef struct fixture {
  scarce memory;
  lake_env *env;
  lake_store *store;
  const char *url;
  char fresh[32]; /* a key not used before */
} fixture;

static lake_status call(fixture *f, verb v, lake_error *err) {
  lake_deadline deadline = test_deadline(f->env);
  lake_bytes body = {"new", 3};
  lake_buffer out;
  lake_object_info info;
  lake_store *second = NULL;
  int count = 0;
  lake_status s = LAKE_INTERNAL;
  lki_buffer_init(&out, f->env, 100);
  switch (v) {
  case OPEN:
    s = lake_store_open(f->env, f->url, &second, err);
    break;
  case PUT_NEW:
    s = lki_store_put(f->store, f->fresh, body, deadline, err);
    break;
  case PUT_OLD:
    s = lki_store_put(f->store, "a/put", body, deadline, err);
    break;
  case CREATE:
    s = lki_store_put_if_absent(f->store, f->fresh, body, deadline, err);
    break;
  case GET:
    s = lki_store_get(f->store, "a/old", lki_range_whole(), &out, NULL, deadline, err);
    break;
  case HEAD:
    s = lki_store_head(f->store, "a/old", &info, deadline, err);
    break;
  case LIST:
    s = lki_store_list(f->store, "a/", NULL, count_key, &count, deadline, err);
    break;
  case REMOVE:
    s = lki_store_remove(f->store, "a/old", deadline, err);
    break;
  case VERB_COUNT:
    break;
  }
  if (v == LIST && s == LAKE_OK) assert_int_equal(count, 2);
  if (v == GET && s == LAKE_OK) assert_int_equal(out.bytes, 3);
  lake_store_close(second);
  lki_buffer_free(&out);
  return s;
}

static void check(const char *url) {
  static fixture f;
  memset(&f, 0, sizeof f);
  f.url = url;
  const lake_env_options options = scarce_options(&f.memory);
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lake_env_open(&options, &f.env, &err), &err);
  assert_ok(lake_store_open(f.env, url, &f.store, &err), &err);
  lake_bytes old = {"old", 3};
  for (int v = 0; v < VERB_COUNT; v++) {
    bool failed = true;
    for (long at = 0; failed; at++) {
      assert_true(at < 1000);
      assert_ok(lki_store_put(f.store, "a/old", old, test_deadline(f.env), &err), &err);
      assert_ok(lki_store_put(f.store, "a/put", old, test_deadline(f.env), &err), &err);
      snprintf(f.fresh, sizeof f.fresh, "f%d/%ld", v, at);
      scarce_fail_at(&f.memory, at);
      lake_status s = call(&f, (verb)v, &err);
      failed = scarce_failed(&f.memory); /* else the call needed fewer allocations */
      if (!failed) {
        assert_ok(s, &err);
        break;
      }
      lake_object_info info;
      assert_status(s, LAKE_NOMEM, &err);
      assert_status(lki_store_head(f.store, f.fresh, &info, test_deadline(f.env), &err), LAKE_NOTFOUND, &err);
      assert_ok(lki_store_head(f.store, "a/old", &info, test_deadline(f.env), &err), &err);
      assert_ok(call(&f, (verb)v, &err), &err);
    }
  }
  lake_store_close(f.store);
  lake_env_close(f.env);
  assert_int_equal(atomic_load(&f.memory.live), 0);
}

static void test_mem(void **state) {
  (void)state;
  check("mem:scarce");
}

static void test_file(void **state) {
  (void)state;
  char url[600];
  snprintf(url, sizeof url, "file:%s/root", test_scratch());
  check(url);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mem), cmocka_unit_test(test_file)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
