/* The proof of a store: honest ones pass, each lie is found and called by its name, what says nothing about promises is
 * not taken for a lie, and nothing is left behind. */
#include "support/liar.h"

#include "base/env.h"
#include "client/proof.h"
#include <stdio.h>
#include <string.h>

/* As thorough as the full one, but small enough for valgrind. */
static const lki_proof_options small = {
    .thread_count = 12, .key_count = 12, .list_count = 40, .probe_count = 5, .bulk_bytes = 100000};

static const char *const check_names[] = {"create", "race", "read", "list", "remove", "speed"};

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
    assert_int_equal(report.check_count, timed ? 6 : 5);
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
    assert_false(lki_proof_wanted(a));
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
      {LIE_RANGE_SHIFTED, "read", "4096 bytes from byte 1: byte 0 is wrong"},
      {LIE_RANGE_WHOLE, "read", "1 bytes from byte 0: 100003 came"},
      {LIE_RANGE_REFUSED, "read", "not delivered"},
      {LIE_RANGE_PAST_END, "read", "past the end"},
      {LIE_SUFFIX_IS_HEAD, "read", "the last 1 bytes: byte 0 is wrong"},
      {LIE_HEAD_SIZE, "read", "is said to have 100004"},
      {LIE_REMOVE_NOTHING, "remove", "still there"},
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

  assert_status(prove(TRUE_BUSY, &small, &report, &err, &left), LAKE_UNAVAILABLE, &err);
  assert_non_null(strstr(err.text, "\"race\""));
  assert_int_equal(check(&report, "race")->result, LKI_PROOF_SKIPPED);
  assert_null(check(&report, "read")); /* the rest was not asked */
  assert_int_equal(left, 0);

  assert_status(prove(TRUE_CREATE_DENIED, &small, &report, &err, &left), LAKE_DENIED, &err);
  assert_int_equal(left, 0);

  assert_ok(prove(TRUE_REMOVE_DENIED, &small, &report, &err, &left), &err);
  assert_non_null(strstr(check(&report, "remove")->text, "may not remove"));
  assert_true(left > 0);
  assert_true(report.left_count >= left); /* what was never written counts, too: it was not asked */
}

static bool stop_at(void *ctx) {
  return --*(int *)ctx < 0;
}

static void test_stopped(void **state) {
  (void)state;
  for (int at = 0; at < 3; at++) {
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_honest),  cmocka_unit_test(test_file_and_mem), cmocka_unit_test(test_lies),
      cmocka_unit_test(test_no_lies), cmocka_unit_test(test_stopped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
