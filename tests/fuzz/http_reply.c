/* What a server says of its reply: status line, headers, dates, ranges. */
#include "store/http_reply.h"
#include "support/fuzz.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOW_S 1700000000
#define DATE_S_MAX ((int64_t)253402300800) /* the leap second at the end of the year 9999 */

static unsigned long heads, dates, ranges;

static void check_text(const char *text, size_t room) {
  size_t bytes = strnlen(text, room);
  fuzz_expect(bytes < room, "a text without an end");
  for (size_t i = 0; i < bytes; i++)
    fuzz_expect(text[i] >= 0x20 && text[i] <= 0x7e, "a text that is not printable");
}

static void check_reply(const lki_http_reply *r) {
  fuzz_expect(r->status == 0 || (r->status >= 100 && r->status <= 999), "status");
  fuzz_expect(!r->has_range || (r->range_first <= r->range_last && r->range_last < r->range_total), "range");
  fuzz_expect(r->range_total <= (uint64_t)INT64_MAX || r->range_total == UINT64_MAX, "range without an end");
  fuzz_expect(!r->has_length ? r->content_length == 0 : r->content_length <= (uint64_t)INT64_MAX, "length");
  fuzz_expect(r->retry_after_ms <= LKI_HTTP_RETRY_AFTER_MS_MAX, "Retry-After");
  fuzz_expect(r->date_s <= DATE_S_MAX, "date");
  check_text(r->etag, sizeof r->etag);
  check_text(r->request_id, sizeof r->request_id);
  check_text(r->error_code, sizeof r->error_code);
  check_text(r->region, sizeof r->region);
}

static void try_head(const char *data, size_t bytes) {
  lki_http_head head;
  lki_http_reply reply;
  lki_http_head_begin(&head, &reply, NOW_S);
  bool ok = true;
  for (size_t at = 0; ok && at < bytes;) {
    const char *end = memchr(data + at, '\n', bytes - at);
    size_t line_bytes = end != NULL ? (size_t)(end + 1 - (data + at)) : bytes - at;
    ok = lki_http_head_line(&head, data + at, line_bytes);
    fuzz_expect(ok == (head.fault == NULL), "a fault and no answer, or an answer and a fault");
    check_reply(&reply);
    at += line_bytes;
  }
  fuzz_expect(!head.whole || reply.status >= 200, "an interim reply is no reply");
  fuzz_expect(!head.whole || !head.chunked || !reply.has_length, "two lengths");
  if (head.whole) heads++;
}

/* What is accepted is what the same moment is written as. */
static void try_date(const char *data, size_t bytes) {
  int64_t s = 0, again = 0;
  char text[64];
  struct tm tm;
  if (!lki_http_date_parse(data, bytes, NOW_S, &s)) return;
  dates++;
  time_t t = (time_t)s;
  fuzz_expect(s <= DATE_S_MAX && gmtime_r(&t, &tm) != NULL, "a date out of bounds");
  if (s == DATE_S_MAX) return;
  fuzz_expect(strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0, "strftime");
  if (tm.tm_year + 1900 < 1000) return; /* %Y does not write four digits then */
  fuzz_expect(lki_http_date_parse(text, strlen(text), NOW_S, &again) && again == s, text);
}

static void try_range(const char *data, size_t bytes) {
  lki_http_reply reply = {.range_total = UINT64_MAX}, again = reply;
  char text[100], total[32] = "*";
  if (!lki_http_range_parse(data, bytes, &reply)) {
    fuzz_expect(!reply.has_range && reply.range_total == UINT64_MAX, "a refused range was set");
    return;
  }
  ranges++;
  check_reply(&reply);
  if (!reply.has_range) return;
  if (reply.range_total != UINT64_MAX) snprintf(total, sizeof total, "%" PRIu64, reply.range_total);
  snprintf(text, sizeof text, "bytes %" PRIu64 "-%" PRIu64 "/%s", reply.range_first, reply.range_last, total);
  fuzz_expect(lki_http_range_parse(text, strlen(text), &again) && memcmp(&again, &reply, sizeof again) == 0,
              text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  try_head((const char *)data, bytes);
  try_date((const char *)data, bytes);
  try_range((const char *)data, bytes);
  return 0;
}

#ifndef LAKE_LIBFUZZER
int main(int argc, char **argv) {
  static const char *const texts[] = {
      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nETag: \"abc\"\r\nx-amz-request-id: A1\r\n\r\n",
      "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/20\r\nContent-Length: 10\r\n"
      "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Slow Down\r\nRetry-After: 7\r\n"
      "Transfer-Encoding: chunked\r\n\r\nX-Trailer: y\r\n\r\n",
      "HTTP/1.1 503 x\nRetry-After: Sun, 06 Nov 1994 08:49:57 GMT\nDate: Sunday, 06-Nov-94 08:49:37 GMT\n\n",
      "HTTP/1.1 409 Conflict\r\nx-ms-request-id: 1\r\nx-ms-error-code: "
      "BlobAlreadyExists\r\nx-guploader-uploadid: u\r\n\r\n",
      "HTTP/1.0 301 Moved\r\nx-amz-bucket-region: eu-west-1\r\n\r\n",
      "Sun, 06 Nov 1994 08:49:37 GMT",
      "Sunday, 06-Nov-94 08:49:37 GMT",
      "Sun Nov  6 08:49:37 1994",
      "Thu, 29 Feb 2024 23:59:60 GMT",
      "bytes 0-9/20",
      "bytes 9223372036854775805-9223372036854775806/9223372036854775807",
      "bytes 5-5/*",
      "bytes */77",
      NULL,
  };
  int rc = fuzz_main_texts(argc, argv, texts);
  printf("%lu whole heads, %lu dates, %lu ranges\n", heads, dates, ranges);
  fuzz_expect(argc > 1 || (heads > 500 && dates > 20 && ranges > 20), "hardly any input was accepted");
  return rc;
}
#endif
