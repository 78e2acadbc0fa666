/* An HTTP engine and the server that it talks to, for the fault tests of the engine. What a path does:
 * /raw the bytes that the test set; /hold waits for the gate; /big 64 MiB; /drop no reply; /once a reply, and
 * the next request on the connection is never answered; /early the bytes that the test set, before the body is
 * read, which it is not before the gate opens; others "ok". */
#ifndef LAKE_TESTS_HTTP_FIXTURE_H
#define LAKE_TESTS_HTTP_FIXTURE_H

#include "base/buffer.h"
#include "base/env.h"
#include "store/http.h"
#include "store/store.h"
#include "support/peer.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIG_BYTES ((size_t)64 << 20)

typedef struct fixture {
  lake_env *env;
  peer *peer;
  lki_http *http;
  const char *reply; /* to /raw */
  bool close_after;  /* /raw */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool open_gate; /* /hold answers */
  unsigned held, held_max;
  char last_head[4096]; /* of the request that came last */
  unsigned char *last_body;
  size_t last_body_bytes;
  char order[256]; /* of /hold requests: their last letters */
  size_t big_sent;
} fixture;

static inline bool hold(fixture *f, const peer_request *request, int fd) {
  pthread_mutex_lock(&f->lock);
  size_t n = strlen(f->order);
  if (n + 1 < sizeof f->order) f->order[n] = request->path[strlen(request->path) - 1];
  f->held++;
  if (f->held > f->held_max) f->held_max = f->held;
  pthread_cond_broadcast(&f->changed);
  while (!f->open_gate) pthread_cond_wait(&f->changed, &f->lock);
  f->held--;
  pthread_mutex_unlock(&f->lock);
  return peer_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

static inline bool hold_only(fixture *f) {
  pthread_mutex_lock(&f->lock);
  while (!f->open_gate) pthread_cond_wait(&f->changed, &f->lock);
  pthread_mutex_unlock(&f->lock);
  return false;
}

static inline bool send_big(fixture *f, int fd) {
  static char block[65536];
  char head[100];
  snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", BIG_BYTES);
  bool ok = peer_text(fd, head);
  size_t sent = 0;
  for (; ok && sent < BIG_BYTES; sent += sizeof block) ok = peer_send(fd, block, sizeof block);
  pthread_mutex_lock(&f->lock);
  f->big_sent = sent;
  pthread_cond_broadcast(&f->changed);
  pthread_mutex_unlock(&f->lock);
  return ok;
}

static inline bool answer(void *ctx, const peer_request *request, int fd) {
  fixture *f = ctx;
  pthread_mutex_lock(&f->lock);
  snprintf(f->last_head, sizeof f->last_head, "%s", request->head);
  free(f->last_body);
  f->last_body = malloc(request->body_bytes + 1);
  if (f->last_body == NULL) abort();
  memcpy(f->last_body, request->body, request->body_bytes);
  f->last_body_bytes = request->body_bytes;
  const char *reply = f->reply;
  bool close_after = f->close_after;
  pthread_mutex_unlock(&f->lock);
  if (strncmp(request->path, "/hold", 5) == 0) return hold(f, request, fd);
  if (strncmp(request->path, "/big", 4) == 0) return send_big(f, fd);
  if (strncmp(request->path, "/drop", 5) == 0) return false;
  if (strncmp(request->path, "/once", 5) == 0 && request->nth > 0) return false;
  if (strncmp(request->path, "/early", 6) == 0) return peer_text(fd, reply) && hold_only(f);
  if (strncmp(request->path, "/raw", 4) == 0) return peer_text(fd, reply) && !close_after;
  bool head = strcmp(request->method, "HEAD") == 0;
  return peer_text(fd, head ? "HTTP/1.1 200 OK\r\nContent-Length: 1234567\r\n\r\n"
                            : "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

static inline void open_http(fixture *f, const lki_http_options *options) {
  lake_error err = LAKE_ERROR_INIT;
  lki_http_close(f->http);
  f->http = NULL;
  assert_ok(lki_http_open(f->env, options, &f->http, &err), &err);
}

static inline int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  assert_int_equal(lake_env_open(NULL, &f->env, NULL), LAKE_OK);
  pthread_mutex_init(&f->lock, NULL);
  pthread_cond_init(&f->changed, NULL);
  f->peer = peer_open(answer, f);
  open_http(f, NULL);
  *state = f;
  return 0;
}

static inline void open_gate(fixture *f) {
  pthread_mutex_lock(&f->lock);
  f->open_gate = true;
  pthread_cond_broadcast(&f->changed);
  pthread_mutex_unlock(&f->lock);
}

static inline int teardown(void **state) {
  fixture *f = *state;
  open_gate(f);
  lki_http_close(f->http);
  peer_close(f->peer);
  lake_env_close(f->env);
  pthread_cond_destroy(&f->changed);
  pthread_mutex_destroy(&f->lock);
  free(f->last_body);
  free(f);
  return 0;
}

static inline void wait_held(fixture *f, unsigned count) {
  pthread_mutex_lock(&f->lock);
  while (f->held < count) pthread_cond_wait(&f->changed, &f->lock);
  pthread_mutex_unlock(&f->lock);
}

/* ---- one call ---- */

typedef struct try {
  lake_status status;
  lki_http_reply reply;
  lake_error err;
  char url[200];
  char data[4096];
  lake_buffer sink;
}
try;

static inline void run(fixture *f, try *t, const char *method, const char *path, lki_http_request request) {
  snprintf(t->url, sizeof t->url, "http://127.0.0.1:%u%s", peer_port(f->peer), path);
  request.method = method;
  request.url = t->url;
  request.deadline = test_deadline(f->env);
  t->err = (lake_error)LAKE_ERROR_INIT;
  t->status = lki_http_do(f->http, &request, &t->reply, &t->err);
  if (t->status == LAKE_OK)
    assert_string_equal(t->err.text, "");
  else
    assert_true(t->err.text[0] != 0 && t->err.status == t->status);
}

/* With a sink of data[], which begins with something in it. */
static inline void run_sink(fixture *f, try *t, const char *path, lake_range range) {
  lki_buffer_init_fixed(&t->sink, f->env, t->data, sizeof t->data);
  t->sink.bytes = 7;
  run(f, t, "GET", path, (lki_http_request){.sink = &t->sink, .range = range});
  if (t->status != LAKE_OK) assert_int_equal(t->sink.bytes, 7);
}

static inline void run_raw(fixture *f, try *t, const char *reply, bool close_after, lake_range range) {
  pthread_mutex_lock(&f->lock);
  f->reply = reply;
  f->close_after = close_after;
  pthread_mutex_unlock(&f->lock);
  run_sink(f, t, "/raw", range);
}

#endif
