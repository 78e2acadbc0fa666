/* Parsing the head of a reply: dates in three forms, Content-Range, Retry-After, and what is a fault. */
#include "store/http_reply.h"
#include "support/support.h"
#include <stdio.h>
#include <string.h>

#define NOW_S 1700000000 /* 2023-11-14 22:13:20 */

static int64_t date(const char *text) {
  int64_t s = -1;
  return lki_http_date_parse(text, strlen(text), NOW_S, &s) ? s : -1;
}

static void test_dates(void **state) {
  (void)state;
  assert_int_equal(date("Sun, 06 Nov 1994 08:49:37 GMT"), 784111777);
  assert_int_equal(date("Sunday, 06-Nov-94 08:49:37 GMT"), 784111777);
  assert_int_equal(date("Sun Nov  6 08:49:37 1994"), 784111777);
  assert_int_equal(date("Sun Nov 16 08:49:37 1994"), 784111777 + 10 * 86400);
  assert_int_equal(date("  sun, 06 nov 1994 08:49:37 gmt "), 784111777);
  assert_int_equal(date("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
  assert_int_equal(date("Tue, 29 Feb 2000 12:00:00 GMT"), 951825600);
  assert_int_equal(date("Thu, 29 Feb 2024 23:59:59 GMT"), 1709251199);
  assert_int_equal(date("Fri, 31 Dec 9999 23:59:59 GMT"), 253402300799);
  assert_int_equal(date("Sat, 31 Dec 2016 23:59:60 GMT"), 1483228800); /* a leap second */
  /* Two digits: within fifty years of now. */
  assert_int_equal(date("Monday, 01-Jan-73 00:00:00 GMT"), 3250454400);  /* 2073 */
  assert_int_equal(date("Monday, 01-Jan-74 00:00:00 GMT"), 126230400);   /* 1974 */
  assert_int_equal(date("Saturday, 01-Jan-00 00:00:00 GMT"), 946684800); /* 2000 */
  static const char *const bad[] = {
      "",
      "Sun",
      "Sun,",
      "0",
      "Sun, 06 Nov 1994 08:49:37",
      "Sun, 06 Nov 1994 08:49:37 UTC",
      "Sun, 06 Nov 1994 08:49:37 GMT+1",
      "Sun, 6 Nov 1994 08:49:37 GMT",
      "Sun, 00 Nov 1994 08:49:37 GMT",
      "Sun, 31 Nov 1994 08:49:37 GMT",
      "Sun, 29 Feb 1900 08:49:37 GMT",
      "Sun, 29 Feb 2023 08:49:37 GMT",
      "Sun, 06 Foo 1994 08:49:37 GMT",
      "Sun, 06 Nov 0000 08:49:37 GMT",
      "Sun, 06 Nov 1994 24:49:37 GMT",
      "Sun, 06 Nov 1994 08:60:37 GMT",
      "Sun, 06 Nov 1994 08:49:61 GMT",
      "Foo, 06 Nov 1994 08:49:37 GMT",
      "Sun, 06-Nov-94 08:49:37 GMT",
      "Sunday, 06-Nov-1994 08:49:37 GMT",
      "Sunday, 06 Nov 1994 08:49:37 GMT",
      "Sun Nov 6 08:49:37 1994",
      "Sun Nov  6 08:49:37 1994 GMT",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (date(bad[i]) != -1) fail_msg("a date: \"%s\"", bad[i]);
}

/* Every day of 400 years and more, in all forms, against a calendar that counts. */
static void test_every_day(void **state) {
  (void)state;
  static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int64_t want = 0;
  for (int year = 1970; year < 2400; year++) {
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    for (int month = 0; month < 12; month++) {
      int days = lengths[month] + (leap && month == 1);
      for (int day = 1; day <= days; day++) {
        char text[64];
        snprintf(text, sizeof text, "Sun, %02d %s %04d 00:00:00 GMT", day, months[month], year);
        if (date(text) != want) fail_msg("%s", text);
        want += 86400;
      }
    }
  }
}

static bool range(const char *text, lki_http_reply *reply) {
  memset(reply, 0, sizeof *reply);
  reply->range_total = UINT64_MAX;
  return lki_http_range_parse(text, strlen(text), reply);
}

static void test_content_range(void **state) {
  (void)state;
  lki_http_reply r;
  assert_true(range("bytes 0-9/100", &r) && r.has_range);
  assert_true(r.range_first == 0 && r.range_last == 9 && r.range_total == 100);
  assert_true(range(" BYTES 5-5/* ", &r) && r.has_range);
  assert_true(r.range_first == 5 && r.range_last == 5 && r.range_total == UINT64_MAX);
  assert_true(range("bytes */0", &r) && !r.has_range && r.range_total == 0);
  assert_true(range("bytes 9223372036854775805-9223372036854775806/9223372036854775807", &r) && r.has_range);
  static const char *const bad[] = {
      "",
      "bytes",
      "bytes ",
      "bytes 0-9",
      "bytes 0-9/",
      "bytes 0-9/10x",
      "bytes 0-9/9",
      "bytes 9-0/100",
      "bytes -9/100",
      "bytes 0-/100",
      "bytes */*",
      "bytes 0-9/-1",
      "bytes 0 - 9/100",
      "bytes=0-9/100",
      "items 0-9/100",
      "bytes 0-9223372036854775808/9223372036854775809",
      "bytes 18446744073709551615-18446744073709551616/*",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (range(bad[i], &r)) fail_msg("a range: \"%s\"", bad[i]);
    assert_true(!r.has_range && r.range_total == UINT64_MAX);
  }
}

/* A whole head, line by line; the text ends without the empty line. */
static bool parse(lki_http_head *head, lki_http_reply *reply, const char *text) {
  lki_http_head_begin(head, reply, NOW_S);
  for (const char *at = text; *at != 0;) {
    const char *end = strchr(at, '\n') + 1;
    if (!lki_http_head_line(head, at, (size_t)(end - at))) return false;
    at = end;
  }
  return lki_http_head_line(head, "\r\n", 2);
}

static void test_head(void **state) {
  (void)state;
  lki_http_head head;
  lki_http_reply r;
  assert_true(parse(&head, &r,
                    "HTTP/1.1 206 Partial Content\r\nContent-Length:  10 \r\ncontent-range: bytes 0-9/20\r\n"
                    "ETag: \"x\"\r\nx-ms-request-id: id1\r\nx-ms-error-code: BlobNotFound\r\n"
                    "x-amz-bucket-region: us-west-2\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
  assert_true(head.whole && !head.chunked && r.status == 206 && r.has_length && r.content_length == 10);
  assert_true(r.has_range && r.range_last == 9 && r.date_s == 784111777);
  assert_string_equal(r.etag, "\"x\"");
  assert_string_equal(r.request_id, "id1");
  assert_string_equal(r.error_code, "BlobNotFound");
  assert_string_equal(r.region, "us-west-2");
  /* Trailers change nothing any more. */
  assert_true(lki_http_head_line(&head, "Content-Length: 99\r\n", 20));
  assert_int_equal(r.content_length, 10);
  /* An interim reply is forgotten. */
  assert_true(parse(&head, &r, "HTTP/1.1 103 Early\r\nETag: \"no\"\r\n\r\nHTTP/1.1 200\r\n"));
  assert_true(head.whole && r.status == 200 && r.etag[0] == 0 && !r.has_length);
  assert_true(parse(&head, &r, "HTTP/1.1 100 Continue\r\n") && !head.whole);
  /* A chunked body has no other length. */
  assert_true(parse(&head, &r, "HTTP/1.1 200 OK\nContent-Length: 3\nTransfer-Encoding: Chunked\n"));
  assert_true(head.chunked && !r.has_length && r.content_length == 0);
  assert_true(parse(&head, &r, "HTTP/1.1 200 OK\nContent-Length: 3\nContent-Length: 3\n") && r.has_length);
  /* Two ranges are none, and a third does not make it good again. */
  assert_true(parse(&head, &r,
                    "HTTP/1.1 206 P\nContent-Range: bytes 0-1/9\nContent-Range: bytes 0-2/9\nContent-Range: "
                    "bytes 0-2/9\n"));
  assert_true(!r.has_range && r.range_total == UINT64_MAX);
  /* Texts: whole or not at all, printable. */
  char line[400] = "ETag: ";
  memset(line + 6, 'e', 200);
  memcpy(line + 206, "\r\n", 2);
  lki_http_head_begin(&head, &r, NOW_S);
  assert_true(lki_http_head_line(&head, "HTTP/1.1 200 OK\r\n", 17) && lki_http_head_line(&head, line, 208));
  assert_string_equal(r.etag, "");
  assert_true(lki_http_head_line(&head, "ETag: \"a\x01\"\r\n", 12));
  assert_string_equal(r.etag, "");
}

static void test_faults(void **state) {
  (void)state;
  lki_http_head head;
  lki_http_reply r;
  static const char *const bad[] = {
      "HTTP/2.0 200 OK\r\n",
      "HTTP/1.1 20 OK\r\n",
      "HTTP/1.1 099 OK\r\n",
      "HTTP/1.1 2000 OK\r\n",
      "HTTP/1.1  200 OK\r\n",
      "HTTP/1.1\r\n",
      "http/1.1 200 OK\r\n",
      "X: y\r\n",
      "HTTP/1.1 200 OK\r\nX y\r\n",
      "HTTP/1.1 200 OK\r\nX: y\r\n z: a\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: \r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (parse(&head, &r, bad[i])) fail_msg("no fault in: %s", bad[i]);
    assert_true(head.fault != NULL && !head.whole);
  }
  /* A head without an end. */
  lki_http_head_begin(&head, &r, NOW_S);
  assert_true(lki_http_head_line(&head, "HTTP/1.1 200 OK\r\n", 17));
  size_t lines = 0;
  while (lki_http_head_line(&head, "X: 0123456789\r\n", 15)) lines++;
  assert_int_equal(lines, (LKI_HTTP_HEAD_BYTES_MAX - 17) / 15);
}

static uint64_t retry_after(const char *lines) {
  lki_http_head head;
  lki_http_reply r;
  char text[300];
  snprintf(text, sizeof text, "HTTP/1.1 503 Slow Down\r\n%s", lines);
  assert_true(parse(&head, &r, text));
  return r.retry_after_ms;
}

static void test_retry_after(void **state) {
  (void)state;
  assert_int_equal(retry_after(""), 0);
  assert_int_equal(retry_after("Retry-After: 7\r\n"), 7000);
  assert_int_equal(retry_after("Retry-After: 0\r\n"), 0);
  assert_int_equal(retry_after("Retry-After: 3601\r\n"), 3600000);
  assert_int_equal(retry_after("Retry-After: 9223372036854775807\r\n"), 3600000);
  assert_int_equal(retry_after("Retry-After: soon\r\n"), 0);
  assert_int_equal(retry_after("Retry-After: -7\r\n"), 0);
  /* A date counts from the server's own, in either order, else from ours. */
  assert_int_equal(
      retry_after("Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:49:57 GMT\r\n"),
      20000);
  assert_int_equal(
      retry_after("Retry-After: Sun, 06 Nov 1994 08:49:57 GMT\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
      20000);
  assert_int_equal(retry_after("Retry-After: Tue, 14 Nov 2023 22:13:25 GMT\r\n"), 5000);
  assert_int_equal(retry_after("Retry-After: Tue, 14 Nov 2023 22:13:15 GMT\r\n"), 0);
  assert_int_equal(retry_after("Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n"), 3600000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dates), cmocka_unit_test(test_every_day), cmocka_unit_test(test_content_range),
      cmocka_unit_test(test_head),  cmocka_unit_test(test_faults),    cmocka_unit_test(test_retry_after),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
