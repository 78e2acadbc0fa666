/* Many objects removed with one request, at a server that fails in each way it can: what was named is gone, or the error
 * names one that may not be; only what may be left is sent again; nothing that was not named is ever touched. */
#include "support/cloud_fixture.h"
#include "store/retry.h"
#include "support/scarce.h"

#define COUNT 10u

static lake_error err = LAKE_ERROR_INIT;

static void put(const char *key) {
  assert_ok(lki_store_put(c.store, key, cloud_text("x"), test_deadline(c.env), &err), &err);
}

static bool there(const char *key) {
  const lake_status s = lki_store_head(c.store, key, NULL, test_deadline(c.env), &err);
  assert_true(s == LAKE_OK || s == LAKE_NOTFOUND);
  return s == LAKE_OK;
}

static lake_status remove_until(const char *const *keys, size_t count, lake_deadline deadline) {
  return cloud_said(lki_store_remove_many(c.store, keys, count, NULL, deadline, &err), &err);
}

static lake_status remove_all(const char *const *keys, size_t count) {
  return remove_until(keys, count, test_deadline(c.env));
}

static const char *const keys[COUNT] = {"k/0", "k/1", "k/2", "k/3", "k/4", "k/5", "k/6", "k/7", "k/8", "k/9"};
/* What a mistake could take with them: the prefixes of keys, what keys are prefixes of, and the same outside the store. */
static const char *const others[] = {"k", "k/1/x", "k/33", "x/y/k/3", "other"};
#define OTHER_COUNT (sizeof others / sizeof others[0])

static size_t posts(void) { return faultd_log_count(c.server, "\"method\":\"POST\""); }
static size_t deletes(void) { return faultd_log_count(c.server, "\"method\":\"DELETE\""); }

static void prepare(const char *rules) {
  faultd_clear(c.server);
  for (size_t i = 0; i < COUNT; i++) put(keys[i]);
  for (size_t i = 0; i < OTHER_COUNT; i++) put(others[i]);
  faultd_reset(c.server);
  if (rules[0] != 0) faultd_rule(c.server, rules);
}

/* left: the digits of the keys that are still there. */
static void expect_left(const char *what, const char *left) {
  faultd_reset(c.server);
  for (size_t i = 0; i < COUNT; i++) {
    const bool want = strchr(left, '0' + (int)i) != NULL;
    if (there(keys[i]) != want) fail_msg("%s: %s is %s", what, keys[i], want ? "gone" : "still there");
  }
  for (size_t i = 0; i < OTHER_COUNT; i++)
    if (!there(others[i])) fail_msg("%s: %s was not to be touched", what, others[i]);
}

typedef struct removal_case {
  const char *rules;
  lake_status want;
  const char *named; /* what the error tells; NULL: there is none */
  const char *left;
  size_t post_count, delete_count;
} removal_case;

static const removal_case cases[] = {
    {"", LAKE_OK, NULL, "", 1, 0},
    {"drop-request op=delete", LAKE_OK, NULL, "", 2, 0},
    {"drop-reply op=delete", LAKE_OK, NULL, "", 2, 0},
    {"duplicate op=delete", LAKE_OK, NULL, "", 1, 0},
    {"error-500 op=delete", LAKE_OK, NULL, "", 2, 0},
    {"error-500 op=delete arg=applied", LAKE_OK, NULL, "", 2, 0},
    {"slowdown-503 op=delete arg=0", LAKE_OK, NULL, "", 2, 0},
    {"throttle-429 op=delete arg=0", LAKE_OK, NULL, "", 2, 0},
    {"error-200 op=delete", LAKE_OK, NULL, "", 2, 0},
    {"error-200 op=delete arg=applied", LAKE_OK, NULL, "", 2, 0},
    {"short-body op=delete", LAKE_OK, NULL, "", 2, 0},
    {"close-delimited op=delete", LAKE_OK, NULL, "", 2, 0},
    {"extra-bytes op=delete", LAKE_OK, NULL, "", 1, 0}, /* behind a whole reply, with its Content-Length */
    {"reset op=delete", LAKE_OK, NULL, "", 2, 0},
    {"skew op=delete arg=960", LAKE_OK, NULL, "", 2, 0},
    /* whatever the server says, it never says that it is done */
    {"error-200 op=delete count=2", LAKE_OK, NULL, "", 3, 0},
    {"error-200 op=delete count=3", LAKE_OK, NULL, "", 3, COUNT}, /* what is no reply thrice is not asked for again */
    {"error-200 op=delete count=all", LAKE_UNCERTAIN, "k/0: ", "0123456789", 3, LKI_RETRY_TRIES_MAX},
    {"error-500 op=delete count=all", LAKE_UNCERTAIN, "k/0: ", "0123456789", LKI_RETRY_TRIES_MAX, 0},
    {"close-delimited op=delete count=all", LAKE_UNCERTAIN, "k/0: ", "", LKI_RETRY_TRIES_MAX, 0},
    /* single keys: only they are sent again, so the second rule does not meet the key of its own */
    {"error-200 op=delete arg=InternalError:y/k/3\nerror-200 op=delete count=all arg=InternalError:y/k/5", LAKE_OK, NULL, "", 2, 0},
    {"error-200 op=delete arg=SlowDown:y/k/", LAKE_OK, NULL, "", 2, 0},
    {"error-200 op=delete count=all arg=SlowDown:y/k/3", LAKE_UNAVAILABLE, "k/3: SlowDown", "3", LKI_RETRY_TRIES_MAX, 0},
    {"error-200 op=delete arg=AccessDenied:y/k/3", LAKE_DENIED, "k/3: access denied: AccessDenied", "3", 1, 0},
    {"error-200 op=delete arg=AccessDenied:y/k/", LAKE_DENIED, "k/0: access denied", "0123456789", 1, 0},
    {"error-200 op=delete arg=NoSuchKey:y/k/3", LAKE_OK, NULL, "3", 1, 0}, /* a lie about what is there */
    {"error-200 op=delete arg=MethodNotAllowed:y/k/3", LAKE_OK, NULL, "", 1, 1}, /* not known: a single one tells */
    {"error-200 op=delete arg=?InternalError:y/k/3", LAKE_OK, NULL, "", 1, COUNT}, /* of whom is not known: of anyone */
    /* refused as a whole: a right to remove each object may not be one to such a request */
    {"expired-token op=delete", LAKE_OK, NULL, "", 1, COUNT},
};

static void test_faults(void **state) {
  (void)state;
  cloud_start(FORM_S3, "", NULL, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const removal_case *k = &cases[i];
    prepare(k->rules);
    const lake_status s = remove_all(keys, COUNT);
    if (s != k->want)
      fail_msg("\"%s\": %s, expected %s: %s", k->rules, lake_status_name(s), lake_status_name(k->want), err.text);
    if (k->named != NULL && strstr(err.text, k->named) == NULL) fail_msg("\"%s\": no \"%s\" in %s", k->rules, k->named, err.text);
    if (posts() != k->post_count || deletes() != k->delete_count)
      fail_msg("\"%s\": %zu POST and %zu DELETE, expected %zu and %zu", k->rules, posts(), deletes(), k->post_count,
               k->delete_count);
    char fault[64];
    snprintf(fault, sizeof fault, "%.*s", (int)strcspn(k->rules, " "), k->rules);
    if (fault[0] != 0) assert_true(faultd_fired(c.server, fault) >= 1);
    expect_left(k->rules, k->left);
  }
  cloud_stop();
}

static void test_no_answer(void **state) {
  (void)state;
  cloud_start(FORM_S3, "", NULL, NULL);
  prepare("stall op=delete");
  assert_status(remove_until(keys, COUNT, lake_deadline_after_ms(c.env, 300)), LAKE_TIMEOUT, &err);
  assert_non_null(strstr(err.text, "k/0: "));
  expect_left("stall", "0123456789");
  cloud_stop();
}

/* A server that does not know the request is asked once; a store on any other form of cloud never is. */
static void test_one_by_one(void **state) {
  (void)state;
  static const char *const statuses[] = {"400", "405", "501"};
  for (size_t i = 0; i < 3; i++) {
    cloud_start(FORM_S3, "", "--no-delete-many", statuses[i]);
    for (int round = 0; round < 2; round++) {
      prepare("error-500 op=delete skip=3"); /* single ones are tried again by themselves */
      assert_ok(remove_all(keys, COUNT), &err);
      assert_int_equal(posts(), round == 0 ? 1 : 0);
      assert_int_equal(deletes(), COUNT + 1);
      expect_left(statuses[i], "");
      assert_ok(remove_all(keys, COUNT), &err); /* none is there */
    }
    cloud_stop();
  }
  for (int form = FORM_GCS_XML; form < FORM_COUNT; form++) {
    cloud_start((cloud_form)form, "", NULL, NULL);
    prepare("");
    assert_ok(remove_all(keys, COUNT), &err);
    assert_int_equal(posts(), 0);
    assert_int_equal(deletes(), COUNT);
    expect_left(form_names[form], "");
    cloud_stop();
  }
}

/* What XML cannot carry, or a reader could take for another name, goes by itself. */
static void test_odd_names(void **state) {
  (void)state;
  static const char *const odd[] = {"a\x01" "b", "a\nb", "a\rb", "a\tb", "a\x7f" "b", "\xff", "\xc0\xaf", "\xed\xa0\x80",
                                    "\xef\xbf\xbf", "a\xc2\x85" "b", "\xf4\x90\x80\x80", "tail "};
  static const char *const plain[] = {"a&b", "a<b", "a>b", "a]]>b", "a\"b", "a'b", "a&amp;b", "a b", "\xc3\xa4", "\xe2\x80\xa8",
                                      "\xf0\x9f\x8c\x8a", "%41", "a+b", " head"};
  static const char *const stay[] = {"ab", "a\xc2\xa0" "b", "A", "tail", "head", "a", "b", "amp", "a&amp;amp;b", "a\xcc\x88"};
  enum { ODD = sizeof odd / sizeof odd[0], PLAIN = sizeof plain / sizeof plain[0], STAY = sizeof stay / sizeof stay[0] };
  const char *all[ODD + PLAIN];
  for (size_t i = 0; i < ODD; i++) all[i] = odd[i];
  for (size_t i = 0; i < PLAIN; i++) all[ODD + i] = plain[i];
  cloud_start(FORM_S3, "", NULL, NULL);
  for (size_t i = 0; i < ODD + PLAIN; i++) put(all[i]);
  for (size_t i = 0; i < STAY; i++) put(stay[i]);
  faultd_reset(c.server);
  assert_ok(remove_all(all, ODD + PLAIN), &err);
  assert_int_equal(posts(), 1);
  assert_int_equal(deletes(), ODD);
  for (size_t i = 0; i < ODD + PLAIN; i++)
    if (there(all[i])) fail_msg("\"%s\" is still there", all[i]);
  for (size_t i = 0; i < STAY; i++)
    if (!there(stay[i])) fail_msg("\"%s\" was not to be touched", stay[i]);
  cloud_stop();
}

/* At most 1,000 keys and half a MiB a request; its payload is signed, and whoever asks pays where that is wanted. */
static void test_requests(void **state) {
  (void)state;
  enum { MANY = 2500, LONG = 300 };
  static char text[MANY][901];
  static const char *many[MANY];
  cloud_start(FORM_S3, "&requester_pays=true&sse=AES256", NULL, NULL);
  for (size_t i = 0; i < MANY; i++) {
    snprintf(text[i], sizeof text[i], "m/%zu", i);
    many[i] = text[i];
  }
  for (size_t i = 0; i < MANY; i += 100) put(many[i]);
  faultd_reset(c.server);
  assert_ok(remove_all(many, MANY), &err);
  assert_int_equal(posts(), 3);
  assert_int_equal(faultd_log_count(c.server, "\"content-md5\":\""), 3);
  assert_int_equal(faultd_log_count(c.server, "\"x-amz-request-payer\":\"requester\""), 3);
  assert_int_equal(faultd_log_count(c.server, "UNSIGNED-PAYLOAD"), 0);
  assert_int_equal(faultd_log_count(c.server, "server-side-encryption"), 0); /* refused where nothing is written */
  for (size_t i = 0; i < MANY; i += 100) assert_false(there(many[i]));
  for (size_t i = 0; i < LONG; i++) { /* 4,500 bytes each, escaped */
    memset(text[i], '&', 900);
    for (size_t at = 224; at < 900; at += 225) text[i][at] = '/';
    snprintf(text[i] + 893, 8, "%07zu", i);
  }
  put(many[0]);
  put(many[LONG - 1]);
  faultd_reset(c.server);
  assert_ok(remove_all(many, LONG), &err);
  assert_int_equal(posts(), 3);
  assert_false(there(many[0]) || there(many[LONG - 1]));
  faultd_reset(c.server);
  assert_ok(remove_all(NULL, 0), &err);
  assert_int_equal(posts() + deletes(), 0);
  lake_store_stats stats;
  lake_store_stats_get(c.store, &stats);
  assert_int_equal(stats.remove_count, 3 + 1); /* of the store: one for each thousand keys */
  cloud_stop();
}

/* Out of memory at any allocation it says so, or did it all the same; nothing else is touched, and all is given back. */
static void test_no_memory(void **state) {
  (void)state;
  static scarce memory;
  size_t failed = 0;
  bool reached = true;
  cloud_start(FORM_S3, "", NULL, NULL);
  for (long at = 0; reached; at++) {
    lake_env_options o = scarce_options(&memory);
    lake_env *env = NULL;
    prepare("");
    assert_int_equal(lake_env_open(&o, &env, NULL), LAKE_OK);
    lake_store *store = cloud_open_another(env, "");
    assert_ok(lki_store_remove(store, "warm", test_deadline(env), &err), &err); /* the day's key, a connection */
    scarce_fail_at(&memory, at);
    const lake_status s = lki_store_remove_many(store, keys, COUNT, NULL, test_deadline(env), &err);
    reached = scarce_failed(&memory);
    if (s != LAKE_OK) {
      assert_true(s == LAKE_NOMEM || s == LAKE_UNAVAILABLE || s == LAKE_UNCERTAIN);
      failed++;
      assert_ok(lki_store_remove_many(store, keys, COUNT, NULL, test_deadline(env), &err), &err);
    }
    expect_left("out of memory", "");
    lake_store_close(store);
    lake_env_close(env);
    assert_int_equal(atomic_load(&memory.live), 0);
  }
  assert_true(failed >= 5);
  cloud_stop();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_faults), cmocka_unit_test(test_no_answer),
                                     cmocka_unit_test(test_one_by_one), cmocka_unit_test(test_odd_names),
                                     cmocka_unit_test(test_requests), cmocka_unit_test(test_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
