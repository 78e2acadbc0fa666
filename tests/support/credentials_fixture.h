/* For tests of credentials: a clean environment, a home, a wall clock that can be moved, a log that is kept,
 * a server that answers by rules. Every secret of these tests has "hush" in it, so that the end of each test
 * can assert that no line of the log and no error told one. */
#ifndef LAKE_TESTS_CREDENTIALS_FIXTURE_H
#define LAKE_TESTS_CREDENTIALS_FIXTURE_H

#include "base/env.h"
#include "base/env_posix.h"
#include "store/credentials.h"
#include "support/peer.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RULES_MAX 8

/* What the server says to a method and the beginning of a path. */
typedef struct rule {
  const char *method, *path;
  int status;
  const char *headers; /* whole lines with \r\n */
  const char *body;
  unsigned count;   /* requests so far */
  char head[4096];  /* of the last one */
  char asked[8192]; /* its body */
} rule;

static struct {
  lake_env *env;
  const char *home;
  peer *server;
  lki_http *http;
  lki_settings settings;
  lki_credentials_chain *chain;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool gate_shut; /* replies wait */
  unsigned at_gate;
  rule rules[RULES_MAX];
  size_t rule_count;
  char log[65536];
  size_t log_bytes;
  atomic_int_fast64_t wall_offset_ns;
  lki_env_ops ops;
} t = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static inline uint64_t moved_wall_ns(void *self) {
  return lki_env_posix_ops()->wall_ns(self) + (uint64_t)atomic_load(&t.wall_offset_ns);
}

static inline void move_clock_s(int64_t seconds) {
  atomic_fetch_add(&t.wall_offset_ns, seconds * 1000000000);
}

static inline void keep_line(void *ctx, lake_log_level level, const char *line) {
  (void)ctx, (void)level;
  pthread_mutex_lock(&t.lock);
  size_t bytes = strlen(line);
  if (t.log_bytes + bytes + 2 < sizeof t.log) {
    memcpy(t.log + t.log_bytes, line, bytes);
    t.log_bytes += bytes;
    t.log[t.log_bytes++] = '\n';
    t.log[t.log_bytes] = 0;
  }
  pthread_mutex_unlock(&t.lock);
}

static inline bool logged(const char *part) {
  pthread_mutex_lock(&t.lock);
  bool found = strstr(t.log, part) != NULL;
  pthread_mutex_unlock(&t.lock);
  return found;
}

static inline const char *reason(int status) {
  return status == 200 ? "OK" : "No";
}

/* The rules are touched under the lock only; the test's own hold of them is ordered by exchange(). */
static inline bool serve(void *ctx, const peer_request *request, int fd) {
  (void)ctx;
  char reply[9000];
  pthread_mutex_lock(&t.lock);
  rule *r = NULL;
  for (size_t i = 0; i < t.rule_count && r == NULL; i++)
    if (strcmp(t.rules[i].method, request->method) == 0 &&
        strncmp(t.rules[i].path, request->path, strlen(t.rules[i].path)) == 0)
      r = &t.rules[i];
  if (r != NULL) {
    r->count++;
    snprintf(r->head, sizeof r->head, "%s", request->head);
    snprintf(r->asked, sizeof r->asked, "%.*s", (int)request->body_bytes, (const char *)request->body);
  }
  t.at_gate++;
  pthread_cond_broadcast(&t.changed);
  while (t.gate_shut) pthread_cond_wait(&t.changed, &t.lock);
  t.at_gate--;
  int status = r != NULL ? r->status : 404;
  const char *body = r != NULL && r->body != NULL ? r->body : "";
  const char *headers = r != NULL && r->headers != NULL ? r->headers : "";
  snprintf(reply, sizeof reply, "HTTP/1.1 %d %s\r\n%sContent-Length: %zu\r\n\r\n%s", status, reason(status),
           headers, strlen(body), body);
  pthread_mutex_unlock(&t.lock);
  return peer_text(fd, reply);
}

/* What the test wrote into a rule is seen by the server from here on, and the other way round. */
static inline void exchange(void) {
  pthread_mutex_lock(&t.lock);
  pthread_mutex_unlock(&t.lock);
}

static inline rule *on(const char *method, const char *path, int status, const char *body) {
  assert_true(t.rule_count < RULES_MAX);
  rule *r = &t.rules[t.rule_count++];
  memset(r, 0, sizeof *r);
  r->method = method;
  r->path = path;
  r->status = status;
  r->body = body;
  return r;
}

static inline void set_gate(bool shut) {
  pthread_mutex_lock(&t.lock);
  t.gate_shut = shut;
  pthread_cond_broadcast(&t.changed);
  pthread_mutex_unlock(&t.lock);
}

static inline void wait_at_gate(unsigned count) {
  pthread_mutex_lock(&t.lock);
  while (t.at_gate < count) pthread_cond_wait(&t.changed, &t.lock);
  pthread_mutex_unlock(&t.lock);
}

/* "http://127.0.0.1:PORT" and the path, in memory that lives on; a few at a time. */
static inline const char *server_url(const char *path) {
  static char texts[4][256];
  static unsigned next;
  char *text = texts[next++ % 4];
  snprintf(text, sizeof texts[0], "http://127.0.0.1:%u%s", peer_port(t.server), path);
  return text;
}

static inline const char *home_path(const char *name) {
  static char texts[4][4096];
  static unsigned next;
  char *text = texts[next++ % 4];
  snprintf(text, sizeof texts[0], "%s/%s", t.home, name);
  return text;
}

static inline void write_home(const char *name, const char *text) {
  FILE *f = fopen(home_path(name), "w");
  assert_non_null(f);
  assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
  assert_int_equal(fclose(f), 0);
}

static inline void close_chain(void) {
  if (t.chain == NULL) return;
  lki_credentials_close(t.chain);
  lki_settings_close(&t.settings);
  t.chain = NULL;
}

static inline void open_chain(const char *url) {
  lake_error err = LAKE_ERROR_INIT;
  close_chain();
  assert_ok(lki_settings_open(t.env, url, &t.settings, &err), &err);
  assert_ok(lki_credentials_open(t.env, &t.settings, t.http, &t.chain, &err), &err);
}

/* Credentials that must be there; to be released. */
static inline const lki_credentials *get(const lki_credentials *rejected) {
  const lki_credentials *c = NULL;
  lake_error err = LAKE_ERROR_INIT;
  exchange();
  lake_status s = lki_credentials_get(t.chain, rejected, test_deadline(t.env), &c, &err);
  exchange();
  assert_ok(s, &err);
  assert_non_null(c);
  if (strstr(c->source, "hush") != NULL) fail_msg("the source's name tells a secret: %s", c->source);
  return c;
}

static inline void put(const lki_credentials *c) {
  lki_credentials_release(t.chain, c);
}

/* A failure that names what it should, and no secret. */
static inline void assert_none(const lki_credentials *rejected, lake_status want, const char *part) {
  const lki_credentials *c = (const lki_credentials *)&t;
  lake_error err = LAKE_ERROR_INIT;
  exchange();
  lake_status s = lki_credentials_get(t.chain, rejected, test_deadline(t.env), &c, &err);
  exchange();
  assert_status(s, want, &err);
  assert_ptr_equal(c, (const lki_credentials *)&t); /* untouched */
  if (strstr(err.text, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
  if (strstr(err.text, "hush") != NULL) fail_msg("\"%s\" tells a secret", err.text);
}

/* Opens the chain, and asserts whose credentials come first. */
static inline void assert_source(const char *url, const char *key_id, const char *secret,
                                 const char *source) {
  open_chain(url);
  const lki_credentials *c = get(NULL);
  assert_string_equal(c->key_id != NULL ? c->key_id : "(none)", key_id != NULL ? key_id : "(none)");
  assert_string_equal(c->secret != NULL ? c->secret : "(none)", secret != NULL ? secret : "(none)");
  assert_string_equal(c->source, source);
  put(c);
}

static inline void refuse_chain(const char *url, lake_status want, const char *part) {
  open_chain(url);
  assert_none(NULL, want, part);
}

static inline int fixture_setup(void **state) {
  (void)state;
  lake_env_options options = LAKE_ENV_OPTIONS_INIT;
  options.log_level = LAKE_LOG_DEBUG;
  options.log = keep_line;
  lake_error err = LAKE_ERROR_INIT;
  static const char *const keep[] = {"PATH",         "TMPDIR",        "LAKE_BIN",    "ASAN_OPTIONS",
                                     "TSAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"};
  enum { KEPT = sizeof keep / sizeof keep[0] };
  char saved[KEPT][4096];
  for (size_t i = 0; i < KEPT; i++)
    snprintf(saved[i], sizeof saved[i], "%s", getenv(keep[i]) != NULL ? getenv(keep[i]) : "");
  clearenv(); /* no variable of the machine gives anything here */
  for (size_t i = 0; i < KEPT; i++)
    if (saved[i][0] != 0) setenv(keep[i], saved[i], 1);
  t.home = test_scratch();
  setenv("HOME", t.home, 1);
  setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  setenv("NO_GCE_CHECK", "true", 1);
  mkdir(home_path(".aws"), 0700);
  t.ops = *lki_env_posix_ops();
  t.ops.wall_ns = moved_wall_ns;
  atomic_store(&t.wall_offset_ns, 0);
  t.log_bytes = t.rule_count = t.at_gate = 0;
  t.log[0] = 0;
  t.gate_shut = false;
  void *self = lki_env_posix_new(&options);
  assert_non_null(self);
  assert_ok(lki_env_wrap(&t.ops, self, options.log_level, &t.env, &err), &err);
  assert_ok(lki_http_open(t.env, NULL, &t.http, &err), &err);
  t.server = peer_open(serve, NULL);
  return 0;
}

static inline int fixture_teardown(void **state) {
  (void)state;
  set_gate(false);
  close_chain();
  lki_http_close(t.http);
  peer_close(t.server);
  lake_env_close(t.env);
  if (strstr(t.log, "hush") != NULL) fail_msg("the log tells a secret:\n%s", t.log);
  return 0;
}

#define credentials_test(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

#endif
