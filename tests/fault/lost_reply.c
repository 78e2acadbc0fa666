/* Objects that are created once, under a store whose reply is lost: a namespace and a pin. What landed is recognised as
 * one's own, what did not is created, and what cannot be known is UNCERTAIN and settled by the next call. */
#include "base/error.h"
#include "client/namespace.h"
#include "format/names.h"
#include "support/hook.h"
#include "support/stream.h"
#include "support/tgbs.h"
#include <string.h>

static lake_error err = LAKE_ERROR_INIT;

typedef struct weather {
  const char *prefix;   /* of the keys that it is about */
  hook_verdict put;     /* of the first put_count puts-if-absent */
  uint64_t put_count;
  bool deny_gets;
  uint64_t puts;
} weather;

static hook_verdict blow(void *ctx, hook_op op, const char *key, uint64_t nth) {
  (void)nth;
  weather *w = ctx;
  if (strncmp(key, w->prefix, strlen(w->prefix)) != 0) return HOOK_PASS;
  if (op == HOOK_GET && w->deny_gets) return HOOK_DENY;
  if (op != HOOK_PUT_IF_ABSENT || w->puts >= w->put_count) return HOOK_PASS;
  w->puts++;
  return w->put;
}

static void uuid_of(const lake_namespace *ns, char uuid[37]) {
  lake_namespace_info info;
  lake_namespace_info_get(ns, &info);
  memcpy(uuid, info.uuid, sizeof info.uuid);
}

/* The reply of the first puts is lost, whether they landed or not: created, and it is the one that was asked for. */
static void test_namespace_created(void **state) {
  (void)state;
  static const weather weathers[] = {{LKI_NAME_NAMESPACE, HOOK_LOSE, 1, false, 0}, {LKI_NAME_NAMESPACE, HOOK_DROP, 1, false, 0},
                                     {LKI_NAME_NAMESPACE, HOOK_DROP, 4, false, 0}};
  for (size_t i = 0; i < sizeof weathers / sizeof *weathers; i++) {
    lake_env *env = test_env();
    weather w = weathers[i];
    lake_store *inner = NULL;
    assert_ok(lake_store_open(env, "mem:lost", &inner, &err), &err);
    lake_store *store = hook_open(env, inner, blow, &w);
    lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
    options.note = "mine";
    lake_namespace *ns = NULL, *other = NULL;
    assert_ok(lake_namespace_create_store(env, store, &options, test_deadline(env), &ns, &err), &err);
    assert_int_equal(w.puts, w.put_count);
    char mine[37], there[37];
    assert_ok(lake_namespace_open_store(env, inner, test_deadline(env), &other, &err), &err);
    uuid_of(ns, mine);
    uuid_of(other, there);
    assert_string_equal(mine, there);
    lake_namespace_info info;
    lake_namespace_info_get(other, &info);
    assert_string_equal(info.note, "mine");
    lake_namespace_close(other);
    lake_namespace_close(ns);
    lake_store_close(store);
    lake_store_close(inner);
    lake_env_close(env);
  }
}

/* Somebody else's is EXISTS, however one's own reply was lost, and is left as it was. */
static void test_namespace_taken(void **state) {
  (void)state;
  lake_env *env = test_env();
  weather w = {LKI_NAME_NAMESPACE, HOOK_LOSE, 9, false, 0};
  lake_namespace *first = tgb_namespace_new(env, "mem:taken", 0, 0), *ns = NULL;
  lake_store *store = hook_open(env, first->store, blow, &w);
  char theirs[37];
  uuid_of(first, theirs);
  assert_status(lake_namespace_create_store(env, store, NULL, test_deadline(env), &ns, &err), LAKE_EXISTS, &err);
  assert_int_equal(w.puts, 1);
  assert_non_null(strstr(err.text, theirs));
  assert_null(ns);
  lake_store_close(store);
  lake_namespace_close(first);
  lake_env_close(env);
}

/* Not known by the deadline: UNCERTAIN. The same call made again is told that there is one; it is opened. */
static void test_namespace_uncertain(void **state) {
  (void)state;
  lake_env *env = test_env();
  weather w = {LKI_NAME_NAMESPACE, HOOK_LOSE, 1, true, 0};
  lake_store *inner = NULL;
  assert_ok(lake_store_open(env, "mem:uncertain", &inner, &err), &err);
  lake_store *store = hook_open(env, inner, blow, &w);
  lake_namespace *ns = NULL;
  assert_status(lake_namespace_create_store(env, store, NULL, lake_deadline_after_ms(env, 30), &ns, &err), LAKE_UNCERTAIN,
                &err);
  assert_int_equal(err.status, LAKE_UNCERTAIN);
  assert_non_null(strstr(err.text, "it is not known whether the namespace at hook: was created"));
  assert_null(ns);
  w.deny_gets = false;
  assert_status(lake_namespace_create_store(env, store, NULL, test_deadline(env), &ns, &err), LAKE_EXISTS, &err);
  assert_ok(lake_namespace_open_store(env, store, test_deadline(env), &ns, &err), &err);
  lake_namespace_close(ns);
  lake_store_close(store);
  lake_store_close(inner);
  lake_env_close(env);
}

static void test_namespace_refused(void **state) {
  (void)state;
  lake_env *env = test_env();
  weather w = {LKI_NAME_NAMESPACE, HOOK_DENY, 1, false, 0};
  lake_store *inner = NULL;
  assert_ok(lake_store_open(env, "mem:refused", &inner, &err), &err);
  lake_store *store = hook_open(env, inner, blow, &w);
  lake_namespace *ns = NULL;
  assert_status(lake_namespace_create_store(env, store, NULL, test_deadline(env), &ns, &err), LAKE_DENIED, &err);
  assert_int_equal(w.puts, 1);
  assert_null(ns);
  lake_store_close(store);
  lake_store_close(inner);
  lake_env_close(env);
}

/* A pin whose put was not answered: it landed and holds; it did not, and is UNCERTAIN until the next call. */
static void test_pin(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *inner = tgb_namespace_new(env, "mem:pin", 0, 0), *ns = NULL;
  assert_int_equal(tgb_claim(inner, 0), 1);
  for (uint64_t seq = 0; seq < 3; seq++) tgb_append(inner, (tgb_mark){0, 1, seq});
  weather w = {LKI_NAME_PIN_PREFIX, HOOK_LOSE, 1, false, 0};
  lake_store *store = hook_open(env, inner->store, blow, &w);
  assert_ok(lake_namespace_open_store(env, store, test_deadline(env), &ns, &err), &err);
  assert_ok(tgb_pin(ns, "landed", 1, test_deadline(env), &err), &err);
  assert_int_equal(w.puts, 1);
  assert_status(tgb_pin(ns, "landed", 2, test_deadline(env), &err), LAKE_EXISTS, &err);

  w = (weather){LKI_NAME_PIN_PREFIX, HOOK_DROP, 1, false, 0};
  assert_status(tgb_pin(ns, "dropped", 1, test_deadline(env), &err), LAKE_UNCERTAIN, &err);
  assert_int_equal(err.status, LAKE_UNCERTAIN);
  assert_non_null(strstr(err.text, "it is not known whether watermark/g/dropped.json was written; call again"));
  assert_int_equal(tgb_count_objects(inner, LKI_NAME_PIN_PREFIX).count, 1);
  assert_ok(tgb_pin(ns, "dropped", 1, test_deadline(env), &err), &err);
  assert_int_equal(tgb_count_objects(inner, LKI_NAME_PIN_PREFIX).count, 2);

  tgb_unpin(inner, "landed"); /* somebody else's pin of the same checkpoint, at another row, while the reply was lost */
  assert_ok(tgb_pin(inner, "landed", 2, test_deadline(env), &err), &err);
  w = (weather){LKI_NAME_PIN_PREFIX, HOOK_LOSE, 1, false, 0};
  assert_status(tgb_pin(ns, "landed", 1, test_deadline(env), &err), LAKE_EXISTS, &err);
  assert_non_null(strstr(err.text, "is already pinned at row 2, not 1"));
  lake_namespace_close(ns);
  lake_store_close(store);
  lake_namespace_close(inner);
  lake_env_close(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_namespace_created), cmocka_unit_test(test_namespace_taken),
                                     cmocka_unit_test(test_namespace_uncertain), cmocka_unit_test(test_namespace_refused),
                                     cmocka_unit_test(test_pin)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
