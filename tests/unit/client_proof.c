/* The proof of a store: honest ones pass, each lie is found and called by its name, what says nothing about promises is
 * not taken for a lie, and nothing is left behind. */
#include "support/liar.h"

#include "base/env.h"
#include "base/buffer.h"
#include "client/proof.h"
#include "client/namespace.h"
#include "format/names.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As thorough as the full one, but small enough for valgrind. */
static const lki_proof_options small = {
    .thread_count = 12, .key_count = 12, .list_count = 40, .probe_count = 5, .bulk_bytes = 100000};

static const char *const check_names[] = {"bucket", "create", "race", "read", "list", "remove", "speed"};

static lake_status prove(liar_lie told, const lki_proof_options *options, lki_proof_report *report, lake_error *err, uint64_t *left) {
  lake_env *env = NULL;
  assert_int_equal(lake_env_open(NULL, &env, NULL), LAKE_OK);
  lake_store *a = liar_open(env, "s3://bucket/liar", told, 0), *b = liar_open(env, "s3://bucket/liar", told, 1);
  const lake_status s = lki_store_prove(a, b, options, report, test_deadline(env), err);
  *left = liar_object_count(env);
  lake_store_close(a);
  lake_store_close(b);
  lake_env_close(env);
  return s;
}

static const lki_proof_check *check(const lki_proof_report *report, const char *name) {
  for (uint32_t i = 0; i < report->check_count; i++)
    if (strcmp(report->checks[i].name, name) == 0) return &report->checks[i];
  return NULL;
}

static void test_honest(void **state) {
  (void)state;
  static const lki_proof_options *const sizes[] = {&small, &lki_proof_short, &lki_proof_full};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    lki_proof_report report;
    lake_error err = LAKE_ERROR_INIT;
    uint64_t left = 0;
    assert_ok(prove(LIE_NONE, sizes[i], &report, &err, &left), &err);
    assert_int_equal(left, 0);
    assert_int_equal(report.left_count, 0);
    const bool timed = sizes[i]->probe_count > 0;
    assert_int_equal(report.check_count, timed ? 7 : 6);
    for (uint32_t k = 0; k < report.check_count; k++) {
      assert_string_equal(report.checks[k].name, check_names[k]);
      assert_int_equal(report.checks[k].result, LKI_PROOF_OK);
      assert_int_not_equal(report.checks[k].text[0], 0);
    }
    assert_int_equal(report.get_ns > 0, timed);
    assert_int_equal(report.put_bytes_per_s > 0, timed);
  }
}

/* The stores that are ours. */
static void test_file_and_mem(void **state) {
  (void)state;
  lake_env *env = NULL;
  char url[300];
  snprintf(url, sizeof url, "file:%s/store", test_scratch());
  const char *const urls[] = {"mem:proof", url};
  assert_int_equal(lake_env_open(NULL, &env, NULL), LAKE_OK);
  for (size_t i = 0; i < 2; i++) {
    lake_store *a = NULL, *b = NULL;
    lki_proof_report report;
    lake_error err = LAKE_ERROR_INIT;
    assert_ok(lake_store_open(env, urls[i], &a, &err), &err);
    assert_ok(lake_store_open(env, urls[i], &b, &err), &err);
    assert_false(lki_proof_wanted(lki_store_url(a)));
    assert_ok(lki_store_prove(a, b, &small, &report, test_deadline(env), &err), &err);
    assert_ok(lki_store_prove(a, a, &lki_proof_short, &report, test_deadline(env), &err), &err);
    assert_non_null(strstr(check(&report, "race")->text, "one connection"));
    assert_int_equal(report.left_count, 0);
    lake_store_close(a);
    lake_store_close(b);
  }
  lake_env_close(env);
}

static void test_lies(void **state) {
  (void)state;
  static const struct {
    liar_lie lie;
    const char *check, *words;
  } cases[] = {
      {LIE_CONDITION_IGNORED, "create", "created twice"},
      {LIE_CONDITION_INVERTED, "create", "turned round"},
      {LIE_TWO_WINNERS, "race", "2 of 12 writers were each told"},
      {LIE_OVERWRITTEN, "race", "another's bytes are there"},
      {LIE_TAKEN_BY_NOBODY, "race", "says that a name is taken, but nothing is there"},
      {LIE_OTHER_COPY, "create", "nothing is there"},
      {LIE_LIST_MISSES, "list", "comes its end where"},
      {LIE_LIST_REMOVED, "remove", "a listing is not what was written and not removed"},
      {LIE_LIST_SIZE, "list", "after 0 entries"},
      {LIE_LIST_BY_FOLDER, "list", "keys are not in the order of their bytes"},
      {LIE_RANGE_SHIFTED, "read", "4096 bytes from byte 1: byte 0 is wrong"},
      {LIE_RANGE_WHOLE, "read", "1 bytes from byte 0: 100003 came"},
      {LIE_RANGE_REFUSED, "read", "not delivered"},
      {LIE_RANGE_PAST_END, "read", "past the end"},
      {LIE_SUFFIX_IS_HEAD, "read", "the last 1 bytes: byte 0 is wrong"},
      {LIE_HEAD_SIZE, "read", "is said to have 100004"},
      {LIE_REMOVE_NOTHING, "remove", "still there"},
      {LIE_GET_STAYS_EMPTY, "create", "was created, but nothing is there"},
      {LIE_HEAD_STAYS_EMPTY, "create", "was created, but nothing is there"},
      {LIE_NAME_SPENT, "remove", "cannot be created again"},
      {LIE_REMOVED_RETURNS, "remove", "cannot be created again"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    lki_proof_report report;
    lake_error err = LAKE_ERROR_INIT;
    uint64_t left = 0;
    const lake_status s = prove(cases[i].lie, &small, &report, &err, &left);
    if (s != LAKE_UNSUPPORTED) fail_msg("lie %d: %s: %s", (int)cases[i].lie, lake_status_name(s), err.text);
    const lki_proof_check *found = check(&report, cases[i].check);
    assert_non_null(found);
    assert_int_equal(found->result, LKI_PROOF_FAILED);
    if (strstr(found->text, cases[i].words) == NULL) fail_msg("lie %d: \"%s\" is not about \"%s\"", (int)cases[i].lie, found->text, cases[i].words);
    assert_non_null(strstr(err.text, "s3://bucket/liar is no store for Lakestream: "));
    assert_non_null(strstr(err.text, "use another store"));
    if (cases[i].lie != LIE_REMOVE_NOTHING) assert_int_equal(left, 0);
    /* The short one finds all of them, too. */
    assert_int_equal(prove(cases[i].lie, &lki_proof_short, &report, &err, &left), LAKE_UNSUPPORTED);
  }
}

static void test_no_lies(void **state) {
  (void)state;
  lki_proof_report report;
  lake_error err = LAKE_ERROR_INIT;
  uint64_t left = 0;
  assert_ok(prove(TRUE_REPLIES_LOST, &small, &report, &err, &left), &err);
  assert_int_equal(left, 0);

  for (liar_lie told = TRUE_RECREATE_UNDECIDED; told <= TRUE_RECREATE_BUSY; told++) {
    assert_ok(prove(told, &small, &report, &err, &left), &err);
    assert_int_equal(left, 0);
  }

  assert_status(prove(TRUE_BUSY, &small, &report, &err, &left), LAKE_UNAVAILABLE, &err);
  assert_non_null(strstr(err.text, "\"race\""));
  assert_int_equal(check(&report, "race")->result, LKI_PROOF_SKIPPED);
  assert_null(check(&report, "read")); /* the rest was not asked */
  assert_int_equal(left, 0);

  assert_status(prove(TRUE_CREATE_DENIED, &small, &report, &err, &left), LAKE_DENIED, &err);
  assert_int_equal(left, 0);

  assert_ok(prove(TRUE_REMOVE_DENIED, &small, &report, &err, &left), &err);
  assert_non_null(strstr(check(&report, "remove")->text, "may not remove"));
  assert_int_equal(check(&report, "remove")->result, LKI_PROOF_WARN);
  assert_int_equal(check(&report, "speed")->result, LKI_PROOF_SKIPPED);
  assert_true(left > 0 && left < 20); /* little was written, once the first could not be removed */
  assert_true(report.left_count >= left); /* what was never written counts, too: it was not asked */
}

static bool stop_at(void *ctx) {
  return --*(int *)ctx < 0;
}

static void test_stopped(void **state) {
  (void)state;
  for (int at = 0; at < 4; at++) {
    lki_proof_options options = small;
    lki_proof_report report;
    lake_error err = LAKE_ERROR_INIT;
    uint64_t left = 0;
    int turns = at;
    options.stop = stop_at;
    options.ctx = &turns;
    assert_status(prove(LIE_NONE, &options, &report, &err, &left), LAKE_CANCELED, &err);
    assert_int_equal(left, 0);
    assert_int_equal(report.check_count, at);
  }
}

/* ---- when a namespace asks ---- */

typedef struct place {
  lake_env *env;
  lake_store *store;
} place;

static void place_open(place *p, const char *label, liar_lie told) {
  assert_int_equal(lake_env_open(NULL, &p->env, NULL), LAKE_OK);
  p->store = liar_open(p->env, label, told, 0);
}

static void place_close(place *p) {
  lake_store_close(p->store);
  lake_env_close(p->env);
}

static lake_status create(place *p, uint32_t force, lake_namespace **ns, lake_error *err) {
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.force = force;
  return lake_namespace_create_store(p->env, p->store, &options, test_deadline(p->env), ns, err);
}

static lake_status produce(place *p, lake_namespace *ns, lake_error *err) {
  lake_producer *producer = NULL;
  const lake_status s = lake_producer_open(ns, "p", NULL, test_deadline(p->env), NULL, &producer, err);
  lake_producer_close(producer);
  return s;
}

static void assert_mark(place *p, lki_store_mark want, const char *text) {
  lake_namespace *ns = NULL;
  char bytes[4096] = "";
  lake_buffer buffer;
  lki_buffer_init_fixed(&buffer, p->env, bytes, sizeof bytes - 1);
  assert_int_equal(lake_namespace_open_store(p->env, p->store, test_deadline(p->env), &ns, NULL), LAKE_OK);
  assert_int_equal(ns->schema->store_mark, want);
  lake_namespace_close(ns);
  assert_int_equal(lki_store_get(p->store, LKI_NAME_NAMESPACE, lki_range_whole(), &buffer, NULL, test_deadline(p->env), NULL), LAKE_OK);
  assert_int_equal(strstr(bytes, "store_check") != NULL, text != NULL);
  if (text != NULL) assert_non_null(strstr(bytes, text));
}

/* Asked once, when the namespace is created: whoever produces later finds the mark. */
static void test_created_on_service(void **state) {
  (void)state;
  place p;
  lake_namespace *ns = NULL;
  lake_error err = LAKE_ERROR_INIT;
  lake_store_stats before, after;
  place_open(&p, "s3://bucket/liar", LIE_NONE);
  assert_ok(create(&p, 0, &ns, &err), &err);
  assert_int_equal(liar_object_count(p.env), 1);
  assert_mark(&p, LKI_STORE_PROVEN, "\"passed\"");
  lake_store_stats_get(p.store, &before);
  assert_true(before.put_if_absent_count > 100);
  assert_ok(produce(&p, ns, &err), &err);
  lake_store_stats_get(p.store, &after);
  assert_true(after.put_if_absent_count - before.put_if_absent_count < 4);
  /* A second one there is refused for what it is, without another proof, and without a create that might overwrite. */
  lake_store_stats_get(p.store, &before);
  assert_status(create(&p, 0, NULL, &err), LAKE_EXISTS, &err);
  lake_store_stats_get(p.store, &after);
  assert_int_equal(after.put_if_absent_count - before.put_if_absent_count, 0);
  lake_namespace_close(ns);
  place_close(&p);
}

static void test_refused_and_forced(void **state) {
  (void)state;
  place p;
  lake_namespace *ns = NULL;
  lake_error err = LAKE_ERROR_INIT;
  place_open(&p, "gs://bucket/liar", LIE_TWO_WINNERS);
  assert_status(create(&p, 0, &ns, &err), LAKE_UNSUPPORTED, &err);
  assert_null(ns);
  assert_non_null(strstr(err.text, "is no store for Lakestream"));
  assert_int_equal(liar_object_count(p.env), 0);
  assert_status(create(&p, 2, &ns, &err), LAKE_INVALID, &err);
  assert_ok(create(&p, 1, &ns, &err), &err);
  assert_mark(&p, LKI_STORE_FORCED, "\"forced\"");
  assert_ok(produce(&p, ns, &err), &err);
  assert_status(create(&p, 1, NULL, &err), LAKE_EXISTS, &err);
  lake_namespace_close(ns);
  place_close(&p);
  /* What is no lie is no reason to refuse for good, nor to be forced. */
  place_open(&p, "az://c/liar", TRUE_BUSY);
  ns = NULL;
  assert_status(create(&p, 1, &ns, &err), LAKE_UNAVAILABLE, &err);
  assert_int_equal(liar_object_count(p.env), 0);
  place_close(&p);
}

/* A namespace that no one asked about: its producers do, each process once. */
static void test_unmarked(void **state) {
  (void)state;
  place p, honest;
  lake_namespace *ns = NULL;
  lake_error err = LAKE_ERROR_INIT;
  lake_store_stats before, after;
  place_open(&p, "mem:liar", LIE_NONE); /* ours: nothing to prove */
  assert_ok(create(&p, 0, NULL, &err), &err);
  assert_mark(&p, LKI_STORE_UNPROVEN, NULL);
  honest = (place){p.env, liar_open(p.env, "s3://bucket/liar", LIE_NONE, 0)};
  assert_ok(lake_namespace_open_store(p.env, honest.store, test_deadline(p.env), &ns, &err), &err);
  lake_store_stats_get(honest.store, &before);
  assert_int_equal(before.put_if_absent_count, 0); /* reading asks nothing */
  assert_ok(produce(&honest, ns, &err), &err);
  lake_store_stats_get(honest.store, &after);
  assert_true(after.put_if_absent_count > 100);
  assert_ok(produce(&honest, ns, &err), &err);
  lake_store_stats_get(honest.store, &before);
  assert_true(before.put_if_absent_count - after.put_if_absent_count < 4);
  lake_namespace_close(ns);
  lake_store_close(honest.store);
  place bad = {p.env, liar_open(p.env, "s3://bucket/liar", LIE_CONDITION_IGNORED, 0)};
  assert_ok(lake_namespace_open_store(p.env, bad.store, test_deadline(p.env), &ns, &err), &err);
  assert_status(produce(&bad, ns, &err), LAKE_UNSUPPORTED, &err);
  assert_int_equal(setenv("LAKESTREAM_FORCE", "0", 1), 0);
  assert_status(produce(&bad, ns, &err), LAKE_UNSUPPORTED, &err);
  assert_int_equal(setenv("LAKESTREAM_FORCE", "1", 1), 0);
  assert_ok(produce(&bad, ns, &err), &err);
  assert_int_equal(unsetenv("LAKESTREAM_FORCE"), 0);
  lake_namespace_close(ns);
  lake_store_close(bad.store);
  place_close(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_honest),  cmocka_unit_test(test_file_and_mem), cmocka_unit_test(test_lies),
      cmocka_unit_test(test_no_lies), cmocka_unit_test(test_stopped),
      cmocka_unit_test(test_created_on_service), cmocka_unit_test(test_refused_and_forced), cmocka_unit_test(test_unmarked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
