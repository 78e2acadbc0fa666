/* The HTTP engine against a server that answers with any bytes: what it sends, what it believes of a reply, when a
 * connection serves again. */
#include "support/http_fixture.h"
#include <sched.h>

static void test_get(void **state) {
  fixture *f = *state;
  try t;
  run_raw(f, &t,
          "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nETag: \"abc\"\r\nx-amz-request-id: R1\r\n"
          "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nhello",
          false, lki_range_whole());
  assert_ok(t.status, &t.err);
  assert_int_equal(t.reply.status, 200);
  assert_int_equal(t.sink.bytes, 5);
  assert_memory_equal(t.data, "hello", 5);
  assert_true(t.reply.has_length && t.reply.sent && !t.reply.has_range);
  assert_int_equal(t.reply.content_length, 5);
  assert_int_equal(t.reply.body_bytes, 5);
  assert_int_equal(t.reply.date_s, 784111777);
  assert_string_equal(t.reply.etag, "\"abc\"");
  assert_string_equal(t.reply.request_id, "R1");
  run_raw(f, &t,
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\nX: y\r\n\r\n",
          false, lki_range_whole());
  assert_ok(t.status, &t.err);
  assert_int_equal(t.sink.bytes, 7);
  assert_memory_equal(t.data, "abcdefg", 7);
  run_raw(f, &t, "HTTP/1.1 100 Continue\r\nETag: \"no\"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
          false, lki_range_whole());
  assert_ok(t.status, &t.err);
  assert_int_equal(t.reply.status, 200);
  assert_string_equal(t.reply.etag, "");
  run_raw(f, &t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, lki_range_whole());
  assert_ok(t.status, &t.err);
  assert_int_equal(t.sink.bytes, 0);
  /* What is no object goes to the text. */
  run_raw(f, &t, "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n<Error/>\n", false, lki_range_whole());
  assert_ok(t.status, &t.err);
  assert_int_equal(t.reply.status, 404);
  assert_string_equal(t.reply.text, "<Error/>\n");
  assert_int_equal(t.sink.bytes, 7);
  run_raw(f, &t,
          "HTTP/1.1 301 Moved\r\nx-amz-bucket-region: eu-west-1\r\nLocation: "
          "http://127.0.0.1:1/\r\nContent-Length: "
          "0\r\n\r\n",
          false, lki_range_whole());
  assert_ok(t.status, &t.err);
  assert_int_equal(t.reply.status, 301);
  assert_string_equal(t.reply.region, "eu-west-1");
}

static void assert_line(const fixture *f, const char *line) {
  char text[200];
  snprintf(text, sizeof text, "\r\n%s\r\n", line);
  if (strstr(f->last_head, text) == NULL) fail_msg("no line \"%s\" in:\n%s", line, f->last_head);
}

static void assert_no_header(const fixture *f, const char *name) {
  char text[200];
  snprintf(text, sizeof text, "\r\n%s:", name);
  if (strcasestr(f->last_head, text) != NULL) fail_msg("a header %s in:\n%s", name, f->last_head);
}

static void assert_begins(const fixture *f, const char *line) {
  if (strncmp(f->last_head, line, strlen(line)) != 0) fail_msg("not \"%s\" but:\n%s", line, f->last_head);
}

static void test_what_is_sent(void **state) {
  fixture *f = *state;
  try t;
  const lki_http_header headers[] = {{"x-one", "1"},
                                     {"x-empty", ""},
                                     {"Host", "bucket.example"},
                                     {"content-length", "99"},
                                     {"Range", "bytes=0-1"}};
  size_t bytes = (size_t)3 << 20;
  unsigned char *body = malloc(bytes);
  assert_non_null(body);
  for (size_t i = 0; i < bytes; i++) body[i] = (unsigned char)(i * 7 >> 8 ^ i);
  run(f, &t, "PUT", "/a/../b/%2e%2e/c%20d?x=1",
      (lki_http_request){.headers = headers, .header_count = 5, .body = {body, bytes}});
  assert_ok(t.status, &t.err);
  assert_begins(f, "PUT /a/../b/%2e%2e/c%20d?x=1 HTTP/1.1\r\n");
  assert_line(f, "x-one: 1");
  assert_line(f, "x-empty:");
  assert_line(f, "Host: bucket.example");
  assert_line(f, "Content-Length: 3145728");
  assert_line(f, "Range: bytes=0-1");
  assert_int_equal(f->last_body_bytes, bytes);
  assert_memory_equal(f->last_body, body, bytes);
  static const char *const none[] = {"Expect", "Accept", "Accept-Encoding", "Content-Type",
                                     "Transfer-Encoding"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_no_header(f, none[i]);
  free(body);
  const char *const empty[] = {"PUT", "POST"};
  for (size_t i = 0; i < 2; i++) {
    run(f, &t, empty[i], "/x", (lki_http_request){0});
    assert_ok(t.status, &t.err);
    assert_begins(f, empty[i]);
    assert_line(f, "Content-Length: 0");
    assert_no_header(f, "Content-Type");
  }
  run(f, &t, "DELETE", "/x", (lki_http_request){0});
  assert_ok(t.status, &t.err);
  assert_begins(f, "DELETE /x HTTP/1.1");
  assert_no_header(f, "Content-Length");
  run(f, &t, "HEAD", "/x", (lki_http_request){0});
  assert_ok(t.status, &t.err);
  assert_begins(f, "HEAD /x HTTP/1.1");
  assert_int_equal(t.reply.content_length, 1234567);
  assert_int_equal(t.reply.body_bytes, 0);
  run(f, &t, "POST", "/x", (lki_http_request){.body = {"ab", 2}});
  assert_ok(t.status, &t.err);
  assert_line(f, "Content-Length: 2");
  run(f, &t, "GET", "/x", (lki_http_request){0});
  assert_ok(t.status, &t.err);
  assert_begins(f, "GET /x HTTP/1.1");
  assert_no_header(f, "Content-Length");
  assert_string_equal(t.reply.text, "ok");
  assert_int_equal(peer_connection_count(f->peer), 1);
}

static void test_requests_refused(void **state) {
  fixture *f = *state;
  try t;
  const lki_http_header bad[] = {{"x", "a\r\ny: b"}, {"x y", "a"}, {"", "a"}, {"x:", "a"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    run(f, &t, "GET", "/x", (lki_http_request){.headers = &bad[i], .header_count = 1});
    assert_status(t.status, LAKE_INVALID, &t.err);
  }
  run(f, &t, "BREW", "/x", (lki_http_request){0});
  assert_status(t.status, LAKE_INVALID, &t.err);
  run(f, &t, "GET", "/x y", (lki_http_request){0});
  assert_status(t.status, LAKE_INVALID, &t.err);
  static const char *const urls[] = {"http://user:secret@127.0.0.1/", "ftp://127.0.0.1/", "http:///x", "/x",
                                     ""};
  for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
    lki_http_request request = {.method = "GET", .url = urls[i], .deadline = test_deadline(f->env)};
    assert_status(lki_http_do(f->http, &request, &t.reply, &t.err), LAKE_INVALID, &t.err);
    assert_null(strstr(t.err.text, "secret"));
  }
  assert_int_equal(peer_connection_count(f->peer), 0);
}

/* ---- replies that may not be believed ---- */

static void test_ranges(void **state) {
  fixture *f = *state;
  const lake_range exact = lki_range_exact(10, 5), suffix = lki_range_suffix(5), whole = lki_range_whole();
#define PART(range, length, body)                                                                            \
  "HTTP/1.1 206 P\r\nContent-Range: " range "\r\nContent-Length: " length "\r\n\r\n" body
  const struct {
    lake_range range;
    lake_status status;
    const char *reply;
    const char *text; /* of the error, or the body */
  } cases[] = {
      {exact, LAKE_OK, PART("bytes 10-14/100", "5", "abcde"), "abcde"},
      {exact, LAKE_OK, PART("bytes 10-14/15", "5", "abcde"), "abcde"},
      {exact, LAKE_OK, PART("bytes 10-14/*", "5", "abcde"), "abcde"},
      {exact, LAKE_OK, PART("Bytes 10-14/*", "5", "abcde"), "abcde"},
      {exact, LAKE_UNAVAILABLE, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde", "the range was ignored"},
      {exact, LAKE_UNAVAILABLE, "HTTP/1.1 206 P\r\nContent-Length: 5\r\n\r\nabcde",
       "without a good Content-Range"},
      {exact, LAKE_UNAVAILABLE, PART("bytes 9-13/100", "5", "abcde"), "9-13 came"},
      {exact, LAKE_UNAVAILABLE, PART("bytes 10-15/100", "6", "abcdef"), "10-15 came"},
      {exact, LAKE_UNAVAILABLE, PART("bytes 10-13/100", "4", "abcd"), "10-13 came"},
      {exact, LAKE_UNAVAILABLE, PART("bytes 10-13/*", "4", "abcd"), "10-13 came"},
      {exact, LAKE_CORRUPT, PART("bytes 10-13/14", "4", "abcd"), "the object has 14 bytes"},
      {exact, LAKE_UNAVAILABLE, PART("bytes 10-14/12", "5", "abcde"), "without a good Content-Range"},
      {exact, LAKE_UNAVAILABLE, PART("bytes 10-14/100\r\nContent-Range: bytes 0-4/100", "5", "abcde"),
       "good Content-Range"},
      {exact, LAKE_UNAVAILABLE, PART("bytes 10-14/100", "6", "abcdef"), "do not agree"},
      {exact, LAKE_UNAVAILABLE, PART("bytes 10-14/100", "4", "abcd"), "do not agree"},
      {exact, LAKE_UNAVAILABLE,
       "HTTP/1.1 206 P\r\nContent-Range: bytes 10-14/100\r\nTransfer-Encoding: "
       "chunked\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n",
       "more came"},
      {exact, LAKE_UNAVAILABLE,
       "HTTP/1.1 206 P\r\nContent-Range: bytes 10-14/100\r\nTransfer-Encoding: "
       "chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
       "has not its declared length"},
      {exact, LAKE_OK,
       "HTTP/1.1 206 P\r\nContent-Range: bytes 10-14/100\r\nTransfer-Encoding: "
       "chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
       "abcde"},
      {suffix, LAKE_OK, PART("bytes 95-99/100", "5", "abcde"), "abcde"},
      {suffix, LAKE_OK, PART("bytes 0-2/3", "3", "abc"), "abc"},
      {suffix, LAKE_UNAVAILABLE, PART("bytes 94-98/100", "5", "abcde"), "94-98 came"},
      {suffix, LAKE_UNAVAILABLE, PART("bytes 0-4/100", "5", "abcde"), "0-4 came"},
      {suffix, LAKE_UNAVAILABLE, PART("bytes 96-99/100", "4", "abcd"), "96-99 came"},
      {suffix, LAKE_UNAVAILABLE, PART("bytes 95-99/*", "5", "abcde"), "without its size"},
      {suffix, LAKE_UNAVAILABLE, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "the range was ignored"},
      {whole, LAKE_UNAVAILABLE, PART("bytes 0-4/100", "5", "abcde"), "though the whole was asked"},
      {whole, LAKE_UNAVAILABLE, PART("bytes 0-4/5", "5", "abcde"), "though the whole was asked"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    try t;
    run_raw(f, &t, cases[i].reply, false, cases[i].range);
    if (t.status != cases[i].status) print_error("case %zu\n", i);
    assert_status(t.status, cases[i].status, &t.err);
    if (t.status == LAKE_OK) {
      assert_int_equal(t.sink.bytes, strlen(cases[i].text));
      assert_memory_equal(t.data, cases[i].text, t.sink.bytes);
    } else if (strstr(t.err.text, cases[i].text) == NULL) {
      fail_msg("case %zu: \"%s\" is not in: %s", i, cases[i].text, t.err.text);
    }
  }
  try t;
  run_raw(f, &t, "HTTP/1.1 416 R\r\nContent-Range: bytes */12\r\nContent-Length: 0\r\n\r\n", false, exact);
  assert_ok(t.status, &t.err);
  assert_true(t.reply.status == 416 && !t.reply.has_range);
  assert_int_equal(t.reply.range_total, 12);
}

/* The whole object instead of a part of it is not even read. */
static void test_ignored_range_is_cheap(void **state) {
  fixture *f = *state;
  try t;
  run_sink(f, &t, "/big", lki_range_exact(0, 10));
  assert_status(t.status, LAKE_UNAVAILABLE, &t.err);
  assert_non_null(strstr(t.err.text, "the range was ignored"));
  pthread_mutex_lock(&f->lock);
  while (f->big_sent == 0) pthread_cond_wait(&f->changed, &f->lock);
  assert_true(f->big_sent < BIG_BYTES / 2);
  pthread_mutex_unlock(&f->lock);
  run_sink(f, &t, "/big", lki_range_whole()); /* larger than the sink */
  assert_status(t.status, LAKE_CORRUPT, &t.err);
}

static void test_broken_replies(void **state) {
  fixture *f = *state;
  static char endless[300000];
  memset(endless, 'a', sizeof endless - 1);
  memcpy(endless, "HTTP/1.1 200 OK\r\nx: ", 20);
  for (size_t i = 1000; i + 20 < sizeof endless; i += 1000) memcpy(endless + i, "\r\nx: ", 5);
  const struct {
    const char *reply;
    const char *text;
  } cases[] = {
      {"", ""},
      {"HTTP/1.1 200 OK\r\nContent-Le", ""},
      {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", ""},
      {"HTTP/1.1 200 OK\r\n\r\nabc", "does not say how long"},
      {"HTTP/1.0 200 OK\r\n\r\nabc", "does not say how long"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", ""},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", ""},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
       "was not asked for"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "two different"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 3x\r\n\r\nabc", "no number"},
      {"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabc", ""},
      {"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 3\r\n\r\nabc", ""},
      {"HTTP/1.1 2000 OK\r\nContent-Length: 3\r\n\r\nabc", ""},
      {"HTTP/3.7 200 OK\r\nContent-Length: 3\r\n\r\nabc", ""},
      {"just text\r\n\r\n", ""},
      {endless, "too long"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    try t;
    run_raw(f, &t, cases[i].reply, true, lki_range_whole());
    if (t.status != LAKE_UNAVAILABLE) print_error("case %zu\n", i);
    assert_status(t.status, LAKE_UNAVAILABLE, &t.err);
    assert_true(t.reply.sent);
    if (strstr(t.err.text, cases[i].text) == NULL)
      fail_msg("case %zu: \"%s\" is not in: %s", i, cases[i].text, t.err.text);
  }
}

/* The text of an error says what was asked of whom, and nothing that was signed. */
static void test_error_text(void **state) {
  fixture *f = *state;
  try t;
  const lki_http_header header = {"Authorization", "SECRET1"};
  run(f, &t, "GET", "/drop/some%20key?X-Amz-Signature=SECRET2",
      (lki_http_request){.headers = &header, .header_count = 1, .fresh = true});
  assert_status(t.status, LAKE_UNAVAILABLE, &t.err);
  char want[100];
  snprintf(want, sizeof want, "GET http://127.0.0.1:%u/drop/some%%20key: ", peer_port(f->peer));
  assert_memory_equal(t.err.text, want, strlen(want));
  assert_null(strstr(t.err.text, "SECRET"));
  assert_non_null(strstr(t.err.text, "; try again"));
}

/* ---- connections ---- */

static void test_connections(void **state) {
  fixture *f = *state;
  try t;
  lki_http_stats stats;
  for (int i = 0; i < 5; i++) {
    run_sink(f, &t, "/x", lki_range_whole());
    assert_ok(t.status, &t.err);
  }
  assert_int_equal(peer_connection_count(f->peer), 1);
  for (int i = 0; i < 3; i++) {
    run(f, &t, "PUT", "/x", (lki_http_request){.body = {"abc", 3}, .fresh = true});
    assert_ok(t.status, &t.err);
  }
  assert_int_equal(peer_connection_count(f->peer), 4);
  run_sink(f, &t, "/x", lki_range_whole());
  assert_int_equal(peer_connection_count(f->peer), 4);
  lki_http_stats_get(f->http, &stats);
  assert_int_equal(stats.call_count, 9);
  assert_int_equal(stats.connection_count, 4);
  assert_int_equal(stats.reused_count, 5);
  assert_true(stats.in_flight_bytes_peak >= 3);
  while (peer_open_count(f->peer) != 1) sched_yield(); /* a connection that was used fresh is closed */
}

static void test_dead_connections(void **state) {
  fixture *f = *state;
  try t;
  for (int i = 0; i < 20; i++) { /* each leaves a connection that will not serve again */
    run_sink(f, &t, "/once", lki_range_whole());
    assert_ok(t.status, &t.err);
    assert_memory_equal(t.data, "ok", 2);
  }
  /* A body goes out again from its beginning. */
  run(f, &t, "PUT", "/once", (lki_http_request){.body = {"abc", 3}});
  assert_ok(t.status, &t.err);
  assert_int_equal(f->last_body_bytes, 3);
  assert_memory_equal(f->last_body, "abc", 3);
  unsigned before = peer_request_count(f->peer);
  run(f, &t, "PUT", "/drop", (lki_http_request){.body = {"abc", 3}, .fresh = true});
  assert_status(t.status, LAKE_UNAVAILABLE, &t.err);
  assert_true(t.reply.sent && t.reply.status == 0);
  assert_int_equal(peer_request_count(f->peer), before + 1); /* sent once, and never again by itself */
  assert_memory_equal(f->last_body, "abc", 3);
}

/* Nothing was done with bytes that never went out, whatever the server says. That it refuses them it may say at once. */
static void test_answer_before_the_body(void **state) {
  fixture *f = *state;
  static const struct {
    const char *reply;
    lake_status status;
    int code;
  } cases[] = {{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", LAKE_UNAVAILABLE, 200},
               {"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", LAKE_UNAVAILABLE, 201},
               {"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", LAKE_OK, 403}};
  unsigned char *body = calloc(1, BIG_BYTES); /* more than the sockets' buffers hold */
  assert_non_null(body);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    try t;
    f->reply = cases[i].reply;
    run(f, &t, "PUT", "/early", (lki_http_request){.body = {body, BIG_BYTES}, .fresh = i == 0});
    assert_status(t.status, cases[i].status, &t.err);
    assert_true(t.reply.sent);
    assert_int_equal(t.reply.status, cases[i].code);
    if (t.status != LAKE_OK) assert_non_null(strstr(t.err.text, "before the request was sent whole"));
  }
  free(body);
}

static void test_nobody_there(void **state) {
  fixture *f = *state;
  try t;
  unsigned port = peer_port(f->peer);
  peer_close(f->peer);
  f->peer = peer_open(answer, f);
  snprintf(t.url, sizeof t.url, "http://127.0.0.1:%u/x", port);
  lki_http_request request = {.method = "GET", .url = t.url, .deadline = test_deadline(f->env)};
  assert_status(lki_http_do(f->http, &request, &t.reply, &t.err), LAKE_UNAVAILABLE, &t.err);
  assert_false(t.reply.sent);
  assert_int_equal(t.reply.status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_get, setup, teardown),
      cmocka_unit_test_setup_teardown(test_what_is_sent, setup, teardown),
      cmocka_unit_test_setup_teardown(test_requests_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(test_ranges, setup, teardown),
      cmocka_unit_test_setup_teardown(test_ignored_range_is_cheap, setup, teardown),
      cmocka_unit_test_setup_teardown(test_broken_replies, setup, teardown),
      cmocka_unit_test_setup_teardown(test_error_text, setup, teardown),
      cmocka_unit_test_setup_teardown(test_connections, setup, teardown),
      cmocka_unit_test_setup_teardown(test_dead_connections, setup, teardown),
      cmocka_unit_test_setup_teardown(test_answer_before_the_body, setup, teardown),
      cmocka_unit_test_setup_teardown(test_nobody_there, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
