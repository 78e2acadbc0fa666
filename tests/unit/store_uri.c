/* URLs of stores: accepted forms, their canonical text, and a clear refusal of the rest. */
#include "support/support.h"

#include "base/env.h"
#include "store/store.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[PATH_MAX]; /* the working folder of these tests, without links */

static void assert_canonical(const char *url, const char *want) {
  lake_env *env = NULL;
  lake_store *store = NULL;
  lake_error err = LAKE_ERROR_INIT;
  assert_int_equal(lake_env_open(NULL, &env, NULL), LAKE_OK);
  assert_ok(lake_store_open(env, url, &store, &err), &err);
  assert_string_equal(lki_store_url(store), want);
  lake_store_close(store);
  lake_env_close(env);
}

static void assert_refused(const char *url, lake_status want, const char *part) {
  lake_env *env = NULL;
  lake_store *store = (lake_store *)&env;
  lake_error err = LAKE_ERROR_INIT;
  assert_int_equal(lake_env_open(NULL, &env, NULL), LAKE_OK);
  assert_status(lake_store_open(env, url, &store, &err), want, &err);
  assert_ptr_equal(store, (lake_store *)&env); /* untouched */
  if (strstr(err.text, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
  lake_env_close(env);
}

static void assert_in_folder(const char *url, const char *tail) {
  char want[PATH_MAX + 64];
  snprintf(want, sizeof want, "file:%s%s", folder, tail);
  assert_canonical(url, want);
}

static void test_file_forms(void **state) {
  (void)state;
  char url[PATH_MAX + 64];
  static const char *const heads[] = {"", "file:", "file://", "file://localhost", "FILE:", "file:///"};
  for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
    snprintf(url, sizeof url, "%s%s/new/er", heads[i], folder);
    assert_in_folder(url, "/new/er");
  }
  assert_in_folder("./runs/a", "/runs/a");
  assert_in_folder("file:runs/a", "/runs/a");
  assert_in_folder("file:runs//a/./b/", "/runs/a/b");
  assert_in_folder(".", "");
  assert_in_folder("file:.", "");
  assert_in_folder("./here/../runs", "/runs"); /* "here" exists: the system resolves the dots */
  assert_canonical("/", "file:/");
}

static void test_percent_only_in_real_urls(void **state) {
  (void)state;
  char url[PATH_MAX + 64];
  assert_in_folder("./a%20b", "/a%20b");
  assert_in_folder("file:a%20b", "/a%20b");
  snprintf(url, sizeof url, "file://%s/a%%20b%%2Fc", folder);
  assert_in_folder(url, "/a b/c");
  assert_refused("file:///tmp/a%2", LAKE_INVALID, "escape");
  assert_refused("file:///tmp/a%zz", LAKE_INVALID, "escape");
  assert_refused("file:///tmp/a%00b", LAKE_INVALID, "escape");
}

/* Two spellings of one folder are one store. */
static void test_links_are_resolved(void **state) {
  (void)state;
  assert_int_equal(symlink("here", "link"), 0);
  assert_in_folder("./link/run", "/here/run");
  assert_in_folder("file:link", "/here");
}

static void test_refusals(void **state) {
  (void)state;
  assert_refused("", LAKE_INVALID, "empty");
  assert_refused("runs/a", LAKE_INVALID, "./runs/a");
  assert_refused("s4://bucket/x", LAKE_UNSUPPORTED, "mem:NAME");
  assert_refused("nonsense:x", LAKE_UNSUPPORTED, "nonsense");
  assert_refused("file://example.org/x", LAKE_INVALID, "example.org");
  assert_refused("file:", LAKE_INVALID, "no folder");
  assert_refused("file://", LAKE_INVALID, "no folder");
  assert_refused("mem:", LAKE_INVALID, "name");
  assert_refused("./missing/../x", LAKE_INVALID, "..");
  FILE *file = fopen("plain", "w");
  assert_non_null(file);
  fclose(file);
  assert_refused("./plain", LAKE_INVALID, "file");
  assert_refused("./plain/below", LAKE_INVALID, "file");
}

/* Opening makes nothing on the disk. */
static void test_opening_makes_nothing(void **state) {
  (void)state;
  struct stat st;
  assert_in_folder("./lazily/made", "/lazily/made");
  assert_int_not_equal(stat("lazily", &st), 0);
}

/* A name in memory is shared within an environment, outlives its handles, and ends with the environment. */
static void test_mem_is_shared(void **state) {
  (void)state;
  lake_env *env = NULL;
  lake_env *other = NULL;
  lake_store *a = NULL;
  lake_store *b = NULL;
  lake_error err = LAKE_ERROR_INIT;
  lake_object_info info;
  lake_bytes body = {"x", 1};
  assert_int_equal(lake_env_open(NULL, &env, NULL), LAKE_OK);
  assert_int_equal(lake_env_open(NULL, &other, NULL), LAKE_OK);
  assert_ok(lake_store_open(env, "mem:run/one", &a, &err), &err);
  assert_string_equal(lki_store_url(a), "mem:run/one");
  assert_ok(lki_store_put(a, "k", body, test_deadline(env), &err), &err);
  lake_store_close(a);
  assert_ok(lake_store_open(env, "mem:run/one", &a, &err), &err);
  assert_ok(lki_store_head(a, "k", &info, test_deadline(env), &err), &err);
  assert_ok(lake_store_open(env, "mem:run/two", &b, &err), &err);
  assert_status(lki_store_head(b, "k", &info, test_deadline(env), &err), LAKE_NOTFOUND, &err);
  lake_store_close(b);
  assert_ok(lake_store_open(other, "mem:run/one", &b, &err), &err);
  assert_status(lki_store_head(b, "k", &info, test_deadline(other), &err), LAKE_NOTFOUND, &err);
  lake_store_close(b);
  lake_store_close(a);
  lake_env_close(other);
  lake_env_close(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_file_forms),
      cmocka_unit_test(test_percent_only_in_real_urls),
      cmocka_unit_test(test_links_are_resolved),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_opening_makes_nothing),
      cmocka_unit_test(test_mem_is_shared),
  };
  if (realpath(test_scratch(), folder) == NULL || chdir(folder) != 0 || mkdir("here", 0777) != 0) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
