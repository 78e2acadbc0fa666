/* What each fault of a server comes to, on every dialect: the outcome of a create, which is never retried, is the truth
 * or UNCERTAIN; a read delivers the right bytes after its retries or says why not. */
#include "support/cloud_fixture.h"

typedef struct create_case {
  const char *rule;
  bool taken;              /* the name is there before */
  lake_status want[FORM_COUNT]; /* s3, gcs by keys, gcs by tokens, azure */
  int there;               /* afterwards our bytes are: 1; are not: 0; the first ones are: 2 */
} create_case;

#define ALL(status) {status, status, status, status}

static const create_case create_cases[] = {
    {"", false, ALL(LAKE_OK), 1},
    {"", true, ALL(LAKE_EXISTS), 2},
    {"drop-request op=create", false, ALL(LAKE_UNCERTAIN), 0},
    {"drop-reply op=create", false, ALL(LAKE_UNCERTAIN), 1},
    {"duplicate op=create", false, ALL(LAKE_EXISTS), 1},
    {"error-500 op=create", false, ALL(LAKE_UNCERTAIN), 0},
    {"error-500 op=create arg=applied", false, ALL(LAKE_UNCERTAIN), 1},
    {"slowdown-503 op=create", false, ALL(LAKE_UNCERTAIN), 0},
    {"throttle-429 op=create", false, ALL(LAKE_UNAVAILABLE), 0},
    {"conflict-409-undecided op=create", false, ALL(LAKE_UNCERTAIN), 0},
    {"taken-409 op=create", true, {LAKE_UNCERTAIN, LAKE_UNCERTAIN, LAKE_UNCERTAIN, LAKE_EXISTS}, 2},
    {"taken-304 op=create", true, ALL(LAKE_EXISTS), 2},
    {"error-200 op=create", false, ALL(LAKE_UNCERTAIN), 0},
    {"error-200 op=create arg=applied", false, ALL(LAKE_UNCERTAIN), 1},
};

static void try_create(cloud_form form, const create_case *k) {
  lake_error err = LAKE_ERROR_INIT;
  faultd_clear(c.server);
  if (k->taken)
    assert_ok(lki_store_put(c.store, "k/1", cloud_text("first"), test_deadline(c.env), &err), &err);
  if (k->rule[0]) faultd_rule(c.server, k->rule);
  lake_status s = cloud_said(
      lki_store_put_if_absent(c.store, "k/1", cloud_text("ours"), test_deadline(c.env), &err), &err);
  if (s != k->want[form])
    fail_msg("%s, \"%s\": %s, expected %s: %s", form_names[form], k->rule, lake_status_name(s),
             lake_status_name(k->want[form]), err.text);
  if (k->rule[0]) assert_int_equal(faultd_log_count(c.server, "create"), 1); /* it was not sent again */
  faultd_reset(c.server);
  if (k->there == 1) cloud_expect_object("k/1", "ours", 4);
  if (k->there == 2) cloud_expect_object("k/1", "first", 5);
  lake_object_info info;
  if (k->there == 0)
    assert_status(lki_store_head(c.store, "k/1", &info, test_deadline(c.env), &err), LAKE_NOTFOUND, &err);
}

static void test_creates(void **state) {
  (void)state;
  for (int form = 0; form < FORM_COUNT; form++) {
    cloud_start((cloud_form)form, "", NULL, NULL);
    for (size_t i = 0; i < sizeof create_cases / sizeof create_cases[0]; i++)
      try_create((cloud_form)form, &create_cases[i]);
    cloud_stop();
  }
}

/* A create that gets no answer is UNCERTAIN at its deadline, not a time-out that one could take for a failure. */
static void test_create_without_answer(void **state) {
  (void)state;
  for (int form = 0; form < FORM_COUNT; form++) {
    lake_error err = LAKE_ERROR_INIT;
    cloud_start((cloud_form)form, "", NULL, NULL);
    faultd_rule(c.server, "stall op=create");
    lake_status s = lki_store_put_if_absent(c.store, "k/1", cloud_text("ours"), lake_deadline_after_ms(c.env, 500), &err);
    assert_status(cloud_said(s, &err), LAKE_UNCERTAIN, &err);
    cloud_stop();
  }
}

/* ---- reads ---- */

static const char *const read_rules[] = {
    "short-body op=get", "close-delimited op=get", "extra-bytes op=get", "extra-bytes op=get arg=range",
    "range-ignored op=get", "range-wrong op=get", "reset op=get", "drop-request op=get", "drop-reply op=get",
    "error-500 op=get", "slowdown-503 op=get", "throttle-429 op=get", "error-200 op=get"};

static void test_ranged_reads(void **state) {
  (void)state;
  static unsigned char data[50000];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 7 + i / 251);
  for (int form = 0; form < FORM_COUNT; form++) {
    lake_error err = LAKE_ERROR_INIT;
    cloud_start((cloud_form)form, "", NULL, NULL);
    assert_ok(lki_store_put(c.store, "r", (lake_bytes){data, sizeof data}, test_deadline(c.env), &err), &err);
    for (size_t i = 0; i < sizeof read_rules / sizeof read_rules[0]; i++) {
      lake_buffer out;
      lake_object_info info = {0};
      lki_buffer_init(&out, c.env, 20000);
      faultd_reset(c.server);
      faultd_rule(c.server, read_rules[i]);
      lake_status s =
          lki_store_get(c.store, "r", lki_range_exact(12345, 20000), &out, &info, test_deadline(c.env), &err);
      if (s != LAKE_OK) fail_msg("%s, \"%s\": %s", form_names[form], read_rules[i], err.text);
      assert_int_equal(out.bytes, 20000);
      assert_memory_equal(out.data, data + 12345, 20000);
      assert_int_equal(info.object_bytes, sizeof data);
      char fault[64];
      snprintf(fault, sizeof fault, "%.*s", (int)strcspn(read_rules[i], " "), read_rules[i]);
      assert_int_equal(faultd_fired(c.server, fault), 1);
      lki_buffer_free(&out);
    }
    cloud_stop();
  }
}

/* What never comes right is never delivered. */
static void test_reads_that_stay_wrong(void **state) {
  (void)state;
  for (int form = 0; form < FORM_COUNT; form++) {
    lake_error err = LAKE_ERROR_INIT;
    cloud_start((cloud_form)form, "", NULL, NULL);
    assert_ok(lki_store_put(c.store, "r", cloud_text("0123456789abcdef"), test_deadline(c.env), &err), &err);
    static const char *const rules[] = {"range-ignored op=get count=all", "range-wrong op=get count=all",
                                        "short-body op=get count=all"};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
      lake_buffer out;
      lki_buffer_init(&out, c.env, 100);
      faultd_reset(c.server);
      faultd_rule(c.server, rules[i]);
      lake_status s = lki_store_get(c.store, "r", lki_range_exact(4, 8), &out, NULL,
                                    lake_deadline_after_ms(c.env, 1500), &err);
      if (s != LAKE_UNAVAILABLE && s != LAKE_TIMEOUT)
        fail_msg("%s, \"%s\": %s %s", form_names[form], rules[i], lake_status_name(s), err.text);
      assert_int_equal(out.bytes, 0);
      lki_buffer_free(&out);
    }
    cloud_stop();
  }
}

/* What is asked where nothing is. */
static void test_edges(void **state) {
  (void)state;
  const struct {
    const char *key;
    lake_range range;
    lake_status want;
    size_t bytes, object_bytes;
  } cases[] = {
      {"empty", lki_range_suffix(10), LAKE_OK, 0, 0},
      {"empty", lki_range_exact(0, 1), LAKE_CORRUPT, 0, 0},
      {"ten", lki_range_suffix(3), LAKE_OK, 3, 10},
      {"ten", lki_range_suffix(10), LAKE_OK, 10, 10},
      {"ten", lki_range_suffix(11), LAKE_OK, 10, 10},
      {"ten", lki_range_exact(9, 1), LAKE_OK, 1, 10},
      {"ten", lki_range_exact(9, 2), LAKE_CORRUPT, 0, 0},
      {"ten", lki_range_exact(10, 1), LAKE_CORRUPT, 0, 0},
      {"ten", lki_range_exact(20, 5), LAKE_CORRUPT, 0, 0},
      {"ten", lki_range_exact(UINT64_MAX - 20, 10), LAKE_CORRUPT, 0, 0},
      {"none", lki_range_suffix(3), LAKE_NOTFOUND, 0, 0},
      {"none", lki_range_exact(0, 3), LAKE_NOTFOUND, 0, 0},
  };
  for (int form = 0; form < FORM_COUNT; form++) {
    lake_error err = LAKE_ERROR_INIT;
    cloud_start((cloud_form)form, "", NULL, NULL);
    assert_ok(lki_store_put(c.store, "empty", cloud_text(""), test_deadline(c.env), &err), &err);
    assert_ok(lki_store_put(c.store, "ten", cloud_text("0123456789"), test_deadline(c.env), &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
      unsigned char room[32];
      lake_buffer out;
      lake_object_info info = {99};
      lki_buffer_init_fixed(&out, c.env, room, sizeof room);
      out.bytes = 7;
      lake_status s = lki_store_get(c.store, cases[i].key, cases[i].range, &out, &info, test_deadline(c.env), &err);
      if (s != cases[i].want)
        fail_msg("%s, case %zu: %s %s", form_names[form], i, lake_status_name(s), s == LAKE_OK ? "" : err.text);
      assert_int_equal(out.bytes, s == LAKE_OK ? cases[i].bytes : 7);
      assert_int_equal(info.object_bytes, s == LAKE_OK ? cases[i].object_bytes : 99);
      if (s == LAKE_OK) assert_memory_equal(out.data, &"0123456789"[10 - cases[i].bytes], cases[i].bytes);
    }
    cloud_stop();
  }
}

/* ---- a bucket that is not there ---- */

static void test_no_bucket(void **state) {
  (void)state;
  for (int form = 0; form < FORM_COUNT; form++) {
    lake_error err = LAKE_ERROR_INIT;
    char url[256];
    lake_store *store = NULL;
    lake_buffer out;
    cloud_start((cloud_form)form, "", NULL, NULL);
    lki_buffer_init(&out, c.env, 100);
    const bool azure = form == FORM_AZURE;
    const char *name = azure ? "no-such-container" : "no-such-bucket";
    snprintf(url, sizeof url, "%s://%s/x?endpoint=%s%s", azure ? "az" : form == FORM_S3 ? "s3" : "gs", name,
             c.server->url, azure ? "/acc" : "");
    if (form == FORM_GCS_JSON) snprintf(url, sizeof url, "gs://no-such-bucket/x");
    assert_ok(lake_store_open(c.env, url, &store, &err), &err);
    lake_status s = lki_store_put_if_absent(store, "k", cloud_text("v"), test_deadline(c.env), &err);
    if (s != LAKE_INVALID) fail_msg("%s: %s %s", form_names[form], lake_status_name(s), err.text);
    assert_non_null(strstr(err.text, name));
    assert_non_null(strstr(err.text, "create it, or correct the URL"));
    assert_status(lki_store_put(store, "k", cloud_text("v"), test_deadline(c.env), &err), LAKE_INVALID, &err);
    assert_status(lki_store_get(store, "k", lki_range_whole(), &out, NULL, test_deadline(c.env), &err), LAKE_INVALID,
                  &err);
    lake_store_close(store);
    lki_buffer_free(&out);
    cloud_stop();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_creates),           cmocka_unit_test(test_create_without_answer),
      cmocka_unit_test(test_ranged_reads),      cmocka_unit_test(test_reads_that_stay_wrong),
      cmocka_unit_test(test_edges),             cmocka_unit_test(test_no_bucket),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
