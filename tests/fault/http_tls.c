/* TLS: whom the HTTP engine talks to, and whom it refuses without having said a word. */
#include "base/env.h"
#include "store/http.h"
#include "support/support.h"
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct fixture {
  lake_env *env;
  pid_t server;
  int server_input;
  char ca_file[PATH_MAX];
  int good, name, expired, stranger, old, cut; /* ports */
  atomic_int warning_count;
} fixture;

static void count_warnings(void *ctx, lake_log_level level, const char *line) {
  fixture *f = ctx;
  if (level == LAKE_LOG_WARN && strstr(line, "certificates are not verified") != NULL)
    atomic_fetch_add(&f->warning_count, 1);
}

static void start_server(fixture *f, const char *folder) {
  int in[2], out[2];
  char script[PATH_MAX], name[32];
  const char *source = getenv("LAKE_SOURCE_DIR");
  snprintf(script, sizeof script, "%s/tests/support/tls_peer.py", source != NULL ? source : ".");
  assert_int_equal(pipe(in), 0);
  assert_int_equal(pipe(out), 0);
  f->server = fork();
  if (f->server == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    close(in[1]);
    execlp("python3", "python3", "-Wignore", script, folder, (char *)NULL);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  f->server_input = in[1];
  FILE *lines = fdopen(out[0], "r");
  assert_non_null(lines);
  int port = 0, n;
  while ((n = fscanf(lines, "%31s", name)) == 1 && strcmp(name, "ready") != 0) {
    assert_int_equal(fscanf(lines, "%d", &port), 1);
    const struct {
      const char *name;
      int *port;
    } places[] = {{"good", &f->good},         {"name", &f->name}, {"expired", &f->expired},
                  {"stranger", &f->stranger}, {"old", &f->old},   {"cut", &f->cut}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
      if (strcmp(places[i].name, name) == 0) *places[i].port = port;
  }
  assert_int_equal(n, 1);
  fclose(lines);
}

static int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  lake_env_options options = LAKE_ENV_OPTIONS_INIT;
  options.log = count_warnings;
  options.log_ctx = f;
  options.log_level = LAKE_LOG_WARN;
  assert_int_equal(lake_env_open(&options, &f->env, NULL), LAKE_OK);
  const char *folder = test_scratch();
  snprintf(f->ca_file, sizeof f->ca_file, "%s/ca.pem", folder);
  start_server(f, folder);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  close(f->server_input);
  waitpid(f->server, NULL, 0);
  lake_env_close(f->env);
  free(f);
  return 0;
}

static lki_http *open_http(fixture *f, const char *ca_file, bool insecure) {
  lki_http *http = NULL;
  lake_error err = LAKE_ERROR_INIT;
  lki_http_options options = {.ca_file = ca_file, .insecure = insecure};
  assert_ok(lki_http_open(f->env, &options, &http, &err), &err);
  return http;
}

static lake_status get(fixture *f, lki_http *http, const char *host, int port, bool fresh,
                       lki_http_reply *reply, lake_error *err) {
  char url[100];
  snprintf(url, sizeof url, "https://%s:%d/key", host, port);
  lki_http_request request = {.method = "GET", .url = url, .fresh = fresh, .deadline = test_deadline(f->env)};
  lake_status s = lki_http_do(http, &request, reply, err);
  if (s == LAKE_OK) {
    assert_int_equal(reply->status, 200);
    assert_string_equal(reply->text, "ok");
  }
  return s;
}

static void test_good(void **state) {
  fixture *f = *state;
  lki_http *http = open_http(f, f->ca_file, false);
  lki_http_reply reply;
  lki_http_stats stats;
  lake_error err = LAKE_ERROR_INIT;
  for (int i = 0; i < 3; i++) {
    assert_ok(get(f, http, "localhost", f->good, false, &reply, &err), &err);
    assert_ok(get(f, http, "127.0.0.1", f->good, false, &reply, &err), &err);
    assert_ok(get(f, http, "localhost", f->good, true, &reply, &err), &err);
  }
  lki_http_stats_get(http, &stats);
  assert_int_equal(stats.connection_count, 5);
  lki_http_close(http);
  assert_int_equal(f->warning_count, 0);
}

/* Refused, said why in words, and not a byte of the request was sent. */
static void assert_refused(fixture *f, const char *ca_file, const char *host, int port, lake_status status,
                           const char *text) {
  lki_http *http = open_http(f, ca_file, false);
  lki_http_reply reply;
  for (int i = 0; i < 2; i++) {
    lake_error err = LAKE_ERROR_INIT;
    assert_status(get(f, http, host, port, i == 1, &reply, &err), status, &err);
    assert_false(reply.sent);
    if (strcasestr(err.text, text) == NULL) fail_msg("\"%s\" is not in: %s", text, err.text);
    assert_non_null(strstr(err.text, "/key: "));
  }
  lki_http_close(http);
}

static void test_bad(void **state) {
  fixture *f = *state;
  assert_refused(f, f->ca_file, "localhost", f->name, LAKE_DENIED,
                 "matches target host name 'localhost'");
  assert_refused(f, f->ca_file, "127.0.0.1", f->name, LAKE_DENIED,
                 "matches target host name '127.0.0.1'");
  assert_refused(f, f->ca_file, "localhost", f->expired, LAKE_DENIED, "certificate has expired");
  assert_refused(f, f->ca_file, "localhost", f->stranger, LAKE_DENIED, "self-signed certificate");
  assert_refused(f, f->ca_file, "localhost", f->old, LAKE_DENIED, "protocol");
  assert_refused(f, f->ca_file, "localhost", f->stranger, LAKE_DENIED, f->ca_file); /* what was held against it */
  assert_refused(f, NULL, "localhost", f->good, LAKE_DENIED, "the CA file (the system's; ca_file= in the URL names another)");
  assert_refused(f, NULL, "localhost", f->good, LAKE_DENIED, "certificate"); /* our CA is not the system's */
  assert_refused(f, f->ca_file, "localhost", f->cut, LAKE_UNAVAILABLE, "try again");
  assert_refused(f, "/nowhere/ca.pem", "localhost", f->good, LAKE_INVALID, "/nowhere/ca.pem");
}

/* Only who asks for it gets an unverified peer, and is told. TLS below 1.2 stays refused. */
static void test_insecure(void **state) {
  fixture *f = *state;
  lki_http *http = open_http(f, NULL, true);
  lki_http_reply reply;
  lake_error err = LAKE_ERROR_INIT;
  assert_int_equal(f->warning_count, 1);
  assert_ok(get(f, http, "localhost", f->stranger, false, &reply, &err), &err);
  assert_ok(get(f, http, "localhost", f->name, false, &reply, &err), &err);
  assert_status(get(f, http, "localhost", f->old, false, &reply, &err), LAKE_DENIED, &err);
  lki_http_close(http);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_good, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bad, setup, teardown),
      cmocka_unit_test_setup_teardown(test_insecure, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
