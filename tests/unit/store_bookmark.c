/* Where listings of Azure were left: the nearest page at or below a name, of this prefix, and no other. */
#include "base/env.h"
#include "store/bookmark.h"
#include "support/support.h"
#include <stdio.h>
#include <string.h>

static void test_bookmarks(void **state) {
  (void)state;
  lake_env *env = NULL;
  lki_bookmarks *marks = NULL;
  lki_arena arena;
  lake_error err = LAKE_ERROR_INIT;
  assert_int_equal(lake_env_open(NULL, &env, NULL), LAKE_OK);
  assert_ok(lki_bookmarks_open(env, &marks, &err), &err);
  lki_arena_init(&arena, env);
  assert_null(lki_bookmarks_find(marks, "p/", "p/5", &arena));
  for (int i = 1; i <= 9; i++) {
    char name[16], marker[16];
    snprintf(name, sizeof name, "p/%d", i);
    snprintf(marker, sizeof marker, "m%d", i);
    lki_bookmarks_keep(marks, "p/", name, marker);
  }
  lki_bookmarks_keep(marks, "q/", "p/55", "other prefix");
  assert_string_equal(lki_bookmarks_find(marks, "p/", "p/5", &arena), "m5");
  assert_string_equal(lki_bookmarks_find(marks, "p/", "p/59", &arena), "m5");
  assert_string_equal(lki_bookmarks_find(marks, "p/", "z", &arena), "m9");
  assert_null(lki_bookmarks_find(marks, "p/", "p/", &arena));
  lki_bookmarks_keep(marks, "p/", "p/5", "newer");
  assert_string_equal(lki_bookmarks_find(marks, "p/", "p/59", &arena), "newer");
  lki_bookmarks_drop(marks, "newer");
  assert_string_equal(lki_bookmarks_find(marks, "p/", "p/59", &arena), "m4");
  /* The list is short: those that nobody came back to make room. */
  for (int i = 0; i < 500; i++) {
    char name[16], marker[16];
    snprintf(name, sizeof name, "r/%03d", i);
    snprintf(marker, sizeof marker, "r%d", i);
    lki_bookmarks_keep(marks, "r/", name, marker);
    assert_string_equal(lki_bookmarks_find(marks, "p/", "p/1", &arena), "m1"); /* in use, so it stays */
  }
  assert_string_equal(lki_bookmarks_find(marks, "r/", "r/499", &arena), "r499");
  assert_null(lki_bookmarks_find(marks, "r/", "r/100", &arena));
  assert_string_equal(lki_bookmarks_find(marks, "p/", "p/9", &arena), "m1");
  lki_arena_free(&arena);
  lki_bookmarks_close(marks);
  lake_env_close(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bookmarks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
