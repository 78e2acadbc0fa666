/* INI files as AWS's tools read them. */
#include "support/support.h"

#include "base/env.h"
#include "store/profile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static lake_env *env;
static char path[4096];

static void write_bytes(const char *text, size_t bytes) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  assert_int_equal(fwrite(text, 1, bytes, f), bytes);
  assert_int_equal(fclose(f), 0);
}

static void write_text(const char *text) {
  write_bytes(text, strlen(text));
}

/* want NULL: it is not there. */
static void assert_value(const char *section, const char *name, const char *want) {
  lki_arena arena;
  const char *got = "untouched";
  lake_error err = LAKE_ERROR_INIT;
  lki_arena_init(&arena, env);
  assert_ok(lki_profile_get(&arena, path, section, name, &got, &err), &err);
  if (want == NULL)
    assert_null(got);
  else if (got == NULL)
    fail_msg("[%s] %s is not there", section, name);
  else
    assert_string_equal(got, want);
  lki_arena_free(&arena);
}

static void assert_bad(const char *text, const char *part) {
  lki_arena arena;
  const char *got = "untouched";
  bool has = true;
  lake_error err = LAKE_ERROR_INIT;
  write_text(text);
  lki_arena_init(&arena, env);
  assert_status(lki_profile_get(&arena, path, "a", "x", &got, &err), LAKE_INVALID, &err);
  assert_string_equal(got, "untouched");
  if (strstr(err.text, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
  if (strstr(err.text, "hush") != NULL) fail_msg("\"%s\" tells a secret", err.text);
  if (strstr(part, "more than one line") == NULL) {
    assert_status(lki_profile_has(env, path, "a", &has, &err), LAKE_INVALID, &err);
    assert_true(has);
  }
  lki_arena_free(&arena);
}

static bool has(const char *section) {
  bool found = false;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lki_profile_has(env, path, section, &found, &err), &err);
  return found;
}

static void test_values(void **state) {
  (void)state;
  write_text("# a comment\n; another\n\n[default]\nregion=eu-west-1\n[a]\n  \t \nx = 1 \ny\t:\t2\nEMPTY =\n"
             "eq = a=b:c\nX2 = last\nx2 = later\n");
  assert_value("default", "region", "eu-west-1");
  assert_value("default", "x", NULL);
  assert_value("a", "x", "1");
  assert_value("a", "X", "1"); /* whatever the case */
  assert_value("a", "y", "2");
  assert_value("a", "empty", "");
  assert_value("a", "eq", "a=b:c");
  assert_value("a", "x2", "later");
  assert_value("A", "x", NULL); /* sections are told apart by case */
  assert_value("b", "x", NULL);
  assert_true(has("default") && has("a"));
  assert_false(has("b"));
}

static void test_comments(void **state) {
  (void)state;
  write_text("[a] # the first\nx = 1 # one\ny = 2;two\nz = 3 ; three\nw = #\n#x = 9\n ;x = 9\n"
             "credential_process = cmd 'a;b' # c ; d\n");
  assert_value("a", "x", "1");
  assert_value("a", "y", "2;two"); /* only after a blank */
  assert_value("a", "z", "3");
  assert_value("a", "w", "");
  assert_value("a", "credential_process", "cmd 'a;b' # c ; d");
}

static void test_sections(void **state) {
  (void)state;
  write_text(
      "[profile  one]\nx = 1\n[ profile\ttwo ]\nx = 2\n[profile \"my own\"]\nx = 3\n[profile 'four']\nx = 4\n"
      "[profile one]\ny = 5\n[profile five six]\nx = 6\n[profiles]\nx = 7\n[profile]\nx = 8\n");
  assert_value("profile one", "x", "1");
  assert_value("profile one", "y", "5"); /* the same section, gone on with */
  assert_value("profile two", "x", "2");
  assert_value("profile my own", "x", "3");
  assert_value("profile four", "x", "4");
  assert_value("profile five six", "x", "6");
  assert_value("profile", "x", "8");
  assert_value("profile on", "x", NULL);
  assert_value("profile onee", "x", NULL);
  assert_value("one", "x", NULL);
  assert_value("profile my", "x", NULL);
  assert_value("profile five", "x", NULL);
}

static void test_nested(void **state) {
  (void)state;
  write_text("[a]\ns3 =\n  addressing_style = path\n\n  # between\n\tmax = 10 # ten\nec2 =\n  "
             "addressing_style = no\nx = 1\n"
             "[b]\ns3=\n");
  assert_value("a", "s3.addressing_style", "path");
  assert_value("a", "S3.Max", "10");
  assert_value("a", "ec2.addressing_style", "no");
  assert_value("a", "addressing_style", NULL);
  assert_value("a", "s3", "");
  assert_value("a", "x", "1");
  assert_value("b", "s3.addressing_style", NULL);
  assert_value("a", "s3.", NULL);
  assert_value("a", ".max", NULL);
}

/* Some indent all that is in a section, and some the sections too. */
static void test_indented(void **state) {
  (void)state;
  write_text("  [a]\n    x = 1\n    s3 =\n      y = 2\n    z = 3\n  [b]\n  x = 4\n");
  assert_value("a", "x", "1");
  assert_value("a", "s3.y", "2");
  assert_value("a", "z", "3");
  assert_value("b", "x", "4");
}

static void test_line_ends(void **state) {
  (void)state;
  write_text("\xef\xbb\xbf[a]\r\nx = 1\r\n\r\ny = 2");
  assert_value("a", "x", "1");
  assert_value("a", "y", "2");
  write_text("");
  assert_value("a", "x", NULL);
  write_text("[a]");
  assert_value("a", "x", NULL);
  assert_true(has("a"));
}

static void test_bad(void **state) {
  (void)state;
  assert_bad("hush = 1\n[a]\nx = 1\n", "line 1: text stands before the first [section]");
  assert_bad("[a\nx = hush\n", "line 1: a section has no closing bracket");
  assert_bad("[a] hush\n", "line 1: there is text after the section's bracket");
  assert_bad("[a]\n\nhush\n", "line 3: not of the form name = value");
  assert_bad("[a]\n= hush\n", "line 2: not of the form name = value");
  assert_bad("[a]\ns3 =\n  hush\n", "line 3: an indented line is not of the form name = value");
  assert_bad("[a]\nx = hush\n  hush\n", "line 3: a value goes on over more than one line");
  char nul[] = "[a]\nx = 1\0hush\n";
  write_bytes(nul, sizeof nul - 1);
  lki_arena arena;
  const char *got = NULL;
  lake_error err = LAKE_ERROR_INIT;
  lki_arena_init(&arena, env);
  assert_status(lki_profile_get(&arena, path, "a", "x", &got, &err), LAKE_INVALID, &err);
  lki_arena_free(&arena);
  /* The long values of other tools are no reason to refuse the file. */
  write_text("[a]\ny = one\n  two\nx = 1\n");
  assert_value("a", "x", "1");
}

static void test_files(void **state) {
  (void)state;
  lki_arena arena;
  const char *got = "untouched";
  lake_error err = LAKE_ERROR_INIT;
  lki_arena_init(&arena, env);
  remove(path);
  assert_value("a", "x", NULL);
  assert_false(has("a"));
  assert_status(lki_profile_get(&arena, test_scratch(), "a", "x", &got, &err), LAKE_INVALID, &err);
  assert_non_null(strstr(err.text, "not a plain file"));
  assert_int_equal(mkfifo(path, 0600), 0); /* nobody writes to it: reading it must not hang */
  assert_status(lki_profile_get(&arena, path, "a", "x", &got, &err), LAKE_INVALID, &err);
  remove(path);
  assert_int_equal(symlink("/dev/null", path), 0); /* as people say: no such file */
  assert_value("a", "x", NULL);
  remove(path);
  assert_int_equal(symlink("/dev/zero", path), 0);
  assert_status(lki_profile_get(&arena, path, "a", "x", &got, &err), LAKE_INVALID, &err);
  assert_non_null(strstr(err.text, "larger than"));
  remove(path);
  write_text("[a]\nx = 1\n");
  assert_int_equal(truncate(path, (off_t)LKI_PROFILE_BYTES_MAX + 1), 0);
  assert_status(lki_profile_get(&arena, path, "a", "x", &got, &err), LAKE_INVALID, &err);
  assert_non_null(strstr(err.text, "larger than"));
  assert_string_equal(got, "untouched");
  char *text = malloc(LKI_PROFILE_BYTES_MAX);
  assert_non_null(text);
  memset(text, '\n', LKI_PROFILE_BYTES_MAX);
  memcpy(text, "[a]\nx = 1", 9);
  write_bytes(text, LKI_PROFILE_BYTES_MAX); /* the largest there may be */
  assert_value("a", "x", "1");
  free(text);
  if (geteuid() != 0) {
    assert_int_equal(chmod(path, 0), 0);
    assert_status(lki_profile_get(&arena, path, "a", "x", &got, &err), LAKE_DENIED, &err);
  }
  lki_arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values), cmocka_unit_test(test_comments),  cmocka_unit_test(test_sections),
      cmocka_unit_test(test_nested), cmocka_unit_test(test_line_ends), cmocka_unit_test(test_indented),
      cmocka_unit_test(test_bad),    cmocka_unit_test(test_files),
  };
  snprintf(path, sizeof path, "%s/file", test_scratch());
  if (lake_env_open(NULL, &env, NULL) != LAKE_OK) return 1;
  int rc = cmocka_run_group_tests(tests, NULL, NULL);
  lake_env_close(env);
  return rc;
}
