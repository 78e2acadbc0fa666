/* What is a key: the door's check, at its limits. */
#include "support/support.h"

#include "store/store.h"
#include <string.h>

static void test_valid(void **state) {
  (void)state;
  static const char *const good[] = {"a",     "a/b/c",       "...",     ".a",  "..a",      "a..",
                                     ".lake", ".lakestream", "a/.lake", "x=y", "\xc3\xa9", " "};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
    if (!lki_key_valid(good[i])) fail_msg("\"%s\" was refused", good[i]);
}

static void test_invalid(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",          "/",   "/a",   "a/",     "a//b",  ".",      "..",          "a/.",
      "a/..",      "./a", "../a", "a/../b", "a/./b", ".lake-", ".lake-tmp/x", "a/.lake-claim",
      "a/.lake-/b"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    if (lki_key_valid(bad[i])) fail_msg("\"%s\" was accepted", bad[i]);
  assert_false(lki_key_valid(NULL));
}

static void test_lengths(void **state) {
  (void)state;
  char key[LKI_KEY_BYTES_MAX + 2];
  memset(key, 'k', sizeof key);
  key[LKI_KEY_COMPONENT_BYTES_MAX] = 0;
  assert_true(lki_key_valid(key));
  key[LKI_KEY_COMPONENT_BYTES_MAX] = 'k';
  key[LKI_KEY_COMPONENT_BYTES_MAX + 1] = 0;
  assert_false(lki_key_valid(key));
  memset(key, 'k', sizeof key);
  for (size_t i = 200; i < LKI_KEY_BYTES_MAX - 1; i += 200) key[i] = '/';
  key[LKI_KEY_BYTES_MAX] = 0;
  assert_true(lki_key_valid(key));
  key[LKI_KEY_BYTES_MAX] = 'k';
  key[LKI_KEY_BYTES_MAX + 1] = 0;
  assert_false(lki_key_valid(key));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_valid),
      cmocka_unit_test(test_invalid),
      cmocka_unit_test(test_lengths),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
