/* Requests: what is built is what is sent, and what cannot be sent is refused with the reason. */
#include "support/scarce.h"

#include "base/env.h"
#include "store/request.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lake_env *env;

static void assert_refused(lki_request *r, const char *part) {
  lake_error err = LAKE_ERROR_INIT;
  lki_http_request out = {.url = "untouched"};
  assert_status(lki_request_finish(r, &out, &err), LAKE_INVALID, &err);
  if (strstr(err.text, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
  assert_string_equal(out.url, "untouched");
  lki_request_free(r);
}

static void test_finish(void **state) {
  (void)state;
  lki_request r;
  lki_http_request out = {0};
  lake_error err = LAKE_ERROR_INIT;
  char origin[] = "http://127.0.0.1:9000", path[] = "/bucket/a key", name[] = "x-one", value[] = "1";
  lki_request_init(&r, env, "PUT", origin, path);
  lki_request_query(&r, "b", "");
  lki_request_query(&r, "a", "1/2 &=+");
  lki_request_query(&r, "b", "again");
  lki_request_header(&r, name, value);
  lki_request_header(&r, "x-two", "2");
  lki_request_header(&r, "x-one", "one\tand more");
  lki_request_header_u64(&r, "x-three", UINT64_MAX);
  lki_request_header_drop(&r, "x-two");
  lki_request_header_drop(&r, "x-four");
  memset(origin, 'z', sizeof origin - 1); /* all were copied */
  memset(path, 'z', sizeof path - 1);
  memset(name, 'z', sizeof name - 1);
  r.body = (lake_bytes){"body", 4};
  assert_ok(lki_request_finish(&r, &out, &err), &err);
  assert_string_equal(out.method, "PUT");
  assert_string_equal(out.url, "http://127.0.0.1:9000/bucket/a%20key?b=&a=1%2F2%20%26%3D%2B&b=again");
  assert_int_equal(out.header_count, 3);
  assert_string_equal(out.headers[0].name, "x-one");
  assert_string_equal(out.headers[0].value, "one\tand more");
  assert_string_equal(out.headers[1].name, "x-three");
  assert_string_equal(out.headers[1].value, "18446744073709551615");
  assert_string_equal(out.headers[2].name, "host");
  assert_string_equal(out.headers[2].value, "127.0.0.1:9000");
  assert_ptr_equal(out.body.data, r.body.data);
  lki_request_free(&r);
  lki_request_free(&r); /* nothing is left to free */
}

static void test_host(void **state) {
  (void)state;
  static const struct {
    const char *origin, *host;
  } cases[] = {{"https://h.example", "h.example"},         {"https://h.example:443", "h.example"},
               {"https://h.example:80", "h.example:80"},   {"http://h.example:80", "h.example"},
               {"http://h.example:443", "h.example:443"},  {"http://[::1]:8080", "[::1]:8080"},
               {"http://h.example:8080", "h.example:8080"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    lki_request r;
    lki_request_init(&r, env, "GET", cases[i].origin, "/");
    assert_false(r.failed);
    assert_string_equal(r.host, cases[i].host);
    lki_request_free(&r);
  }
  static const char *const bad[] = {"", "h.example", "ftp://h", "https://", "https://u:p@h", "https://h/", "https://h?x", "https://h\r\nx: y", "http://:80"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    lki_request r;
    lki_request_init(&r, env, "GET", bad[i], "/");
    assert_refused(&r, "origin");
  }
}

static void test_refusals(void **state) {
  (void)state;
  static const char *const names[] = {"", "Upper", "a b", "a:b", "a\n", "caf\xc3\xa9"};
  static const char *const values[] = {"a\r\nx-evil: 1", "a\n", "a\x01", "a\x7f"};
  lki_request r;
  lki_request_init(&r, env, "GET", "https://h", "no-slash");
  assert_refused(&r, "'/'");
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    lki_request_init(&r, env, "GET", "https://h", "/");
    lki_request_header(&r, names[i], "1");
    assert_refused(&r, "header name");
  }
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    lki_request_init(&r, env, "GET", "https://h", "/");
    lki_request_header(&r, "x", values[i]);
    assert_refused(&r, "control character");
  }
  lki_request_init(&r, env, "GET", "https://h", "/");
  lki_request_header(&r, "x", "");
  assert_refused(&r, "empty value");
  lki_request_init(&r, env, "GET", "https://h", "/");
  lki_request_query(&r, "", "x");
  assert_refused(&r, "without a name");
  lki_request_init(&r, env, "GET", "https://h", "/");
  for (int i = 0; i <= LKI_REQUEST_PAIRS_MAX; i++) lki_request_query(&r, "n", "v");
  assert_refused(&r, "too many query");
  lki_request_init(&r, env, "GET", "https://h", "/");
  for (int i = 0; i <= LKI_REQUEST_PAIRS_MAX; i++) {
    char name[16];
    snprintf(name, sizeof name, "h%d", i);
    lki_request_header(&r, name, "v");
  }
  assert_refused(&r, "too many headers");
  static char long_path[70000];
  memset(long_path, '/', sizeof long_path - 1);
  lki_request_init(&r, env, "GET", "https://h", long_path);
  assert_refused(&r, "too long");
}

/* Whatever allocation fails: NOMEM, and nothing leaks (asan). */
static void test_no_memory(void **state) {
  (void)state;
  scarce memory;
  const lake_env_options options = scarce_options(&memory);
  lake_env *poor = NULL;
  assert_int_equal(lake_env_open(&options, &poor, NULL), LAKE_OK);
  static char value[10000];
  memset(value, 'v', sizeof value - 1);
  lake_status s = LAKE_NOMEM;
  for (size_t room = 0; s != LAKE_OK; room++) {
    assert_true(room < 100);
    lki_request r;
    lki_http_request out = {0};
    lake_error err = LAKE_ERROR_INIT;
    scarce_fail_at(&memory, (long)room);
    lki_request_init(&r, poor, "GET", "https://h", "/");
    lki_request_query(&r, "q", value);
    lki_request_header(&r, "h", value);
    s = lki_request_finish(&r, &out, &err);
    if (s != LAKE_OK) assert_status(s, LAKE_NOMEM, &err);
    lki_request_free(&r);
  }
  scarce_failed(&memory);
  lake_env_close(poor);
  assert_int_equal(atomic_load(&memory.live), 0);
}

static int open_env(void **state) {
  (void)state;
  return lake_env_open(NULL, &env, NULL) == LAKE_OK ? 0 : -1;
}

static int close_env(void **state) {
  (void)state;
  lake_env_close(env);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_finish),   cmocka_unit_test(test_host),
      cmocka_unit_test(test_refusals), cmocka_unit_test(test_no_memory),
  };
  return cmocka_run_group_tests(tests, open_env, close_env);
}
