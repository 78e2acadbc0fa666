/* What every store must do when many objects are removed together: those that were named are gone, whether they were
 * there or not, and no other is. */
#include "conformance/stores.h"

#define MANY 2500u

static lake_error err = LAKE_ERROR_INIT;

static void put(fixture *f, const char *key) {
  assert_ok(lki_store_put(f->store, key, text_bytes("x"), test_deadline(f->env), &err), &err);
}

static lake_status remove_many(fixture *f, const char *const *keys, size_t count) {
  return lki_store_remove_many(f->store, keys, count, NULL, test_deadline(f->env), &err);
}

static bool there(fixture *f, const char *key) {
  const lake_status s = lki_store_head(f->store, key, NULL, test_deadline(f->env), &err);
  if (s != LAKE_NOTFOUND) assert_ok(s, &err);
  return s == LAKE_OK;
}

static bool count_key(void *ctx, const char *key, uint64_t object_bytes) {
  (void)key, (void)object_bytes;
  ++*(size_t *)ctx;
  return true;
}

static size_t count_below(fixture *f, const char *prefix) {
  size_t count = 0;
  assert_ok(lki_store_list(f->store, prefix, NULL, count_key, &count, test_deadline(f->env), &err), &err);
  return count;
}

static void test_none(void **state) {
  fixture *f = *state;
  static const char *const absent[] = {"a", "b/c", "d/e/f"};
  put(f, "stays");
  assert_ok(remove_many(f, NULL, 0), &err);
  assert_ok(remove_many(f, absent, 3), &err);
  assert_int_equal(lki_store_remove_many(f->store, absent, 3, NULL, test_deadline(f->env), NULL), LAKE_OK);
  assert_int_equal(count_below(f, ""), 1);
}

static void test_some(void **state) {
  fixture *f = *state;
  static const char *const keys[] = {"d/1", "d/2", "absent", "d/sub/1", "d/absent/too", "e", "d/1"};
  static const char *const stay[] = {"d/10", "d/0", "d/sub/11", "ee", "d2/1"};
  for (size_t i = 0; i < 6; i++)
    if (strstr(keys[i], "absent") == NULL) put(f, keys[i]);
  for (size_t i = 0; i < 5; i++) put(f, stay[i]);
  assert_ok(remove_many(f, keys, 7), &err);
  for (size_t i = 0; i < 6; i++) assert_false(there(f, keys[i]));
  for (size_t i = 0; i < 5; i++) assert_true(there(f, stay[i]));
  assert_int_equal(count_below(f, ""), 5);
  assert_ok(lki_store_put_if_absent(f->store, "d/1", text_bytes("again"), test_deadline(f->env), &err), &err);
  assert_ok(remove_many(f, keys, 1), &err);
  assert_false(there(f, "d/1"));
}

/* Each of these has a twin that a careless reader or writer of names could take for it. */
static void test_odd_names(void **state) {
  fixture *f = *state;
  static const char *const pairs[][2] = {
      {"a&b", "a&amp;b"}, {"a<b", "a&lt;b"}, {"a>b", "a&gt;b"}, {"a]]>b", "a]]&gt;b"}, {"a&#38;b", "a&#39;b"},
      {"a\"b", "a&quot;b"}, {"a'b", "a&apos;b"}, {"a b", "a+b"}, {"a%20b", "a%2520b"}, {" lead", "lead"}, {"trail ", "trail"},
      {"two  blanks", "two blanks"}, {"\xc3\xa9", "e\xcc\x81"}, {"\xf0\x9f\x8c\x8a/\xe6\x97\xa5", "\xf0\x9f\x8c\x8b/\xe6\x97\xa5"},
      {"x/q?y=1&z", "x/q"}, {"hash#tag", "hash"}, {"semi;colon", "semi"}, {"</Key></Object>", "Key"}, {"<!--c-->", "c"},
  };
  enum { PAIRS = sizeof pairs / sizeof pairs[0] };
  for (int way = 0; way < 2; way++) {
    const char *keys[PAIRS];
    for (size_t i = 0; i < PAIRS; i++) {
      put(f, pairs[i][0]);
      put(f, pairs[i][1]);
      keys[i] = pairs[i][way];
    }
    assert_ok(remove_many(f, keys, PAIRS), &err);
    for (size_t i = 0; i < PAIRS; i++) {
      if (there(f, pairs[i][way])) fail_msg("\"%s\" is still there", pairs[i][way]);
      if (!there(f, pairs[i][1 - way])) fail_msg("\"%s\" went with \"%s\"", pairs[i][1 - way], pairs[i][way]);
    }
  }
}

/* Control characters, which XML cannot carry, and what is no text. A server may refuse such a name when it is made. */
static void test_names_that_are_no_text(void **state) {
  fixture *f = *state;
  const char *keys[] = {"a\x01" "b", "a\nb", "a\rb", "a\tb", "a\x7f" "b"};
  static const char *const stay[] = {"ab", "a b", "a"};
  for (size_t i = 0; i < 5; i++)
    if (lki_store_put(f->store, keys[i], text_bytes("x"), test_deadline(f->env), &err) != LAKE_OK) keys[i] = "other";
  for (size_t i = 0; i < 3; i++) put(f, stay[i]);
  assert_ok(remove_many(f, keys, 5), &err);
  for (size_t i = 0; i < 5; i++) assert_false(there(f, keys[i]));
  for (size_t i = 0; i < 3; i++) assert_true(there(f, stay[i]));
}

/* More than one request of any store holds, the longest keys among them. */
static void remove_count(fixture *f, uint32_t count, bool by_length) {
  char (*text)[LKI_KEY_BYTES_MAX + 1] = calloc(count, sizeof *text);
  const char **keys = calloc(count, sizeof *keys);
  assert_true(text != NULL && keys != NULL);
  for (uint32_t i = 0; i < count; i++) {
    const int used = snprintf(text[i], sizeof text[i], "m/%u", i);
    if (by_length) { /* 900 bytes, a character that XML escapes in all of them but the slashes */
      memset(text[i] + used, '&', (size_t)(LKI_KEY_BYTES_MAX - used));
      for (size_t at = 225; at < LKI_KEY_BYTES_MAX; at += 226) text[i][at] = '/';
    }
    keys[i] = text[i];
    if (i % 20 == 0 || i % 1000 == 999 || i + 1 == count) put(f, keys[i]); /* the others were never there */
  }
  put(f, "m/x");
  put(f, "stays");
  assert_ok(remove_many(f, keys, count), &err);
  assert_int_equal(count_below(f, ""), 2);
  assert_true(there(f, "m/x") && there(f, "stays"));
  free(keys);
  free(text);
}

static void test_1001(void **state) { remove_count(*state, 1001, false); }
static void test_2500(void **state) { remove_count(*state, MANY, false); }
static void test_long_keys(void **state) { remove_count(*state, 1000, true); }

/* All are looked at before any goes, those of a later request too. */
static void test_bad_key(void **state) {
  fixture *f = *state;
  static const char *const bad[] = {"", "/", "a//b", "..", "a/../b", ".lake-tmp/x", NULL};
  static const char *keys[MANY];
  put(f, "a");
  for (size_t i = 0; i < MANY; i++) keys[i] = "a";
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    static const size_t at[] = {0, 1, 999, 1000, MANY - 1};
    for (size_t k = 0; k < 5; k++) {
      keys[at[k]] = bad[i];
      assert_status(remove_many(f, keys, MANY), LAKE_INVALID, &err);
      keys[at[k]] = "a";
      assert_true(there(f, "a"));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_none),      cmocka_unit_test(test_some),
      cmocka_unit_test(test_odd_names), cmocka_unit_test(test_names_that_are_no_text),
      cmocka_unit_test(test_1001),      cmocka_unit_test(test_2500),
      cmocka_unit_test(test_long_keys), cmocka_unit_test(test_bad_key),
  };
  return run_on_all_kinds(tests, sizeof tests / sizeof tests[0]);
}
