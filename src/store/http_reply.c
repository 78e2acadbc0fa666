/* Parsing what a server says about its reply. Nothing here trusts it: numbers have a limit, texts have a
 * limit and are printable, a header that comes twice with two values is a fault. Pure, not thread-safe. */
#include "store/http_reply.h"
#include <string.h>
#include <strings.h>

/* A piece of a line; the bounds always hold, there is no terminator. */
typedef struct span {
  const char *at;
  size_t bytes;
} span;

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static span trim(span s) {
  while (s.bytes > 0 && is_blank(s.at[0])) {
    s.at++;
    s.bytes--;
  }
  while (s.bytes > 0 && is_blank(s.at[s.bytes - 1])) s.bytes--;
  return s;
}

/* Of a literal text: the lengths, known here, tell most names apart. */
#define same(s, text) ((s).bytes == sizeof(text) - 1 && strncasecmp((s).at, (text), sizeof(text) - 1) == 0)

static bool skip_text(span *s, const char *text) {
  size_t bytes = strlen(text);
  if (s->bytes < bytes || strncasecmp(s->at, text, bytes) != 0) return false;
  s->at += bytes;
  s->bytes -= bytes;
  return true;
}

/* Decimal digits, at least one and up to the limit of a signed number, which is what everybody else can count
 * to. */
static bool take_u64(span *s, uint64_t *out) {
  uint64_t value = 0;
  size_t n = 0;
  while (n < s->bytes && is_digit(s->at[n])) {
    uint64_t digit = (uint64_t)(s->at[n] - '0');
    if (value > ((uint64_t)INT64_MAX - digit) / 10) return false;
    value = value * 10 + digit;
    n++;
  }
  if (n == 0) return false;
  s->at += n;
  s->bytes -= n;
  *out = value;
  return true;
}

static bool whole_u64(span s, uint64_t *out) {
  uint64_t value = 0;
  if (!take_u64(&s, &value) || s.bytes > 0) return false;
  *out = value;
  return true;
}

static bool take_digits(span *s, size_t count, int *out) {
  int value = 0;
  if (s->bytes < count) return false;
  for (size_t i = 0; i < count; i++) {
    if (!is_digit(s->at[i])) return false;
    value = value * 10 + (s->at[i] - '0');
  }
  s->at += count;
  s->bytes -= count;
  *out = value;
  return true;
}

/* Texts that get into errors: printable or not at all, never cut. */
static void store_text(char *dst, size_t room, span s) {
  if (s.bytes >= room) return;
  for (size_t i = 0; i < s.bytes; i++)
    if (s.at[i] < 0x20 || s.at[i] > 0x7e) return;
  memcpy(dst, s.at, s.bytes);
  dst[s.bytes] = 0;
}

/* ---- dates ---- */

static const char *const months[12] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
static const char *const days[7] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                    "Thursday", "Friday", "Saturday"};

typedef struct civil {
  int year, month, day, hour, minute, second; /* month: 1 to 12 */
} civil;

/* Days since 1970-01-01 in the Gregorian calendar, for years from 1 on: whole eras of 400 years have 146,097
 * days, and a year that begins in March has its leap day last. */
static int64_t days_from_civil(int64_t year, int64_t month, int64_t day) {
  if (month <= 2) year--;
  int64_t era = year / 400;
  int64_t year_of_era = year - era * 400;
  int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

static bool civil_seconds(const civil *c, int64_t *out) {
  static const int month_days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  bool leap = (c->year % 4 == 0 && c->year % 100 != 0) || c->year % 400 == 0;
  if (c->year < 1 || c->month < 1 || c->month > 12 || c->day < 1) return false;
  if (c->day > month_days[c->month - 1] + (leap && c->month == 2 ? 1 : 0)) return false;
  if (c->hour > 23 || c->minute > 59 || c->second > 60) return false; /* 60: a leap second */
  *out = days_from_civil(c->year, c->month, c->day) * 86400 + c->hour * 3600 + c->minute * 60 + c->second;
  return true;
}

static bool take_month(span *s, int *out) {
  for (int i = 0; i < 12; i++) {
    if (!skip_text(s, months[i])) continue;
    *out = i + 1;
    return true;
  }
  return false;
}

static bool take_time(span *s, civil *c) {
  return take_digits(s, 2, &c->hour) && skip_text(s, ":") && take_digits(s, 2, &c->minute) &&
         skip_text(s, ":") && take_digits(s, 2, &c->second);
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
static bool parse_fixdate(span s, civil *c) {
  return skip_text(&s, ", ") && take_digits(&s, 2, &c->day) && skip_text(&s, " ") &&
         take_month(&s, &c->month) && skip_text(&s, " ") && take_digits(&s, 4, &c->year) &&
         skip_text(&s, " ") && take_time(&s, c) && skip_text(&s, " GMT") && s.bytes == 0;
}

/* "Sunday, 06-Nov-94 08:49:37 GMT". A year that seems more than 50 years ahead is of the century before. */
static bool parse_rfc850(span s, int64_t now_s, civil *c) {
  bool ok = skip_text(&s, ", ") && take_digits(&s, 2, &c->day) && skip_text(&s, "-") &&
            take_month(&s, &c->month) && skip_text(&s, "-") && take_digits(&s, 2, &c->year) &&
            skip_text(&s, " ") && take_time(&s, c) && skip_text(&s, " GMT") && s.bytes == 0;
  if (!ok) return false;
  if (now_s < 0) now_s = 0;
  int64_t now_year = 1970 + now_s / 31556952; /* the mean Gregorian year */
  if (now_year > 9000) now_year = 9000;
  int year = (int)(now_year / 100 * 100) + c->year;
  if (year > now_year + 50) year -= 100;
  if (year <= now_year - 50) year += 100;
  c->year = year;
  return true;
}

/* "Sun Nov  6 08:49:37 1994" */
static bool parse_asctime(span s, civil *c) {
  if (!skip_text(&s, " ") || !take_month(&s, &c->month) || !skip_text(&s, " ")) return false;
  bool day = skip_text(&s, " ") ? take_digits(&s, 1, &c->day) : take_digits(&s, 2, &c->day);
  return day && skip_text(&s, " ") && take_time(&s, c) && skip_text(&s, " ") &&
         take_digits(&s, 4, &c->year) && s.bytes == 0;
}

bool lki_http_date_parse(const char *text, size_t bytes, int64_t now_s, int64_t *out) {
  span s = trim((span){text, bytes});
  civil c = {0};
  for (size_t i = 0; i < 7; i++) {
    span rest = s;
    if (skip_text(&rest, days[i])) return parse_rfc850(rest, now_s, &c) && civil_seconds(&c, out);
    if (s.bytes < 3 || strncasecmp(s.at, days[i], 3) != 0) continue;
    rest = (span){s.at + 3, s.bytes - 3};
    bool ok = parse_fixdate(rest, &c) || parse_asctime(rest, &c);
    return ok && civil_seconds(&c, out);
  }
  return false;
}

/* ---- single headers ---- */

bool lki_http_range_parse(const char *text, size_t bytes, lki_http_reply *reply) {
  span s = trim((span){text, bytes});
  uint64_t first = 0, last = 0, total = UINT64_MAX;
  if (!skip_text(&s, "bytes ")) return false;
  if (skip_text(&s, "*/")) {
    if (!whole_u64(s, &total)) return false;
    reply->range_total = total;
    return true;
  }
  if (!take_u64(&s, &first) || !skip_text(&s, "-") || !take_u64(&s, &last) || !skip_text(&s, "/"))
    return false;
  if (!same(s, "*") && !whole_u64(s, &total)) return false;
  if (first > last || last >= total) return false;
  reply->has_range = true;
  reply->range_first = first;
  reply->range_last = last;
  reply->range_total = total;
  return true;
}

static void read_range(lki_http_head *head, span value) {
  lki_http_reply *reply = head->reply;
  lki_http_reply found = {.range_total = UINT64_MAX};
  bool good = !head->range_bad && lki_http_range_parse(value.at, value.bytes, &found);
  if (good && head->range_seen)
    good = found.has_range == reply->has_range && found.range_first == reply->range_first &&
           found.range_last == reply->range_last && found.range_total == reply->range_total;
  head->range_seen = true;
  head->range_bad = !good;
  reply->has_range = good && found.has_range;
  reply->range_first = good ? found.range_first : 0;
  reply->range_last = good ? found.range_last : 0;
  reply->range_total = good ? found.range_total : UINT64_MAX;
}

static bool read_length(lki_http_head *head, span value) {
  lki_http_reply *reply = head->reply;
  uint64_t length = 0;
  if (!whole_u64(value, &length))
    head->fault = "its Content-Length is no number";
  else if (reply->has_length && reply->content_length != length)
    head->fault = "it has two different Content-Lengths";
  if (head->fault != NULL) return false;
  reply->has_length = true;
  reply->content_length = length;
  return true;
}

static bool read_encoding(lki_http_head *head, span value) {
  if (same(value, "chunked"))
    head->chunked = true;
  else if (!same(value, "identity"))
    head->fault = "its Transfer-Encoding was not asked for";
  return head->fault == NULL;
}

static void read_retry_after(lki_http_head *head, span value) {
  uint64_t seconds = 0;
  int64_t at_s = 0;
  if (whole_u64(value, &seconds)) {
    uint64_t max_s = LKI_HTTP_RETRY_AFTER_MS_MAX / 1000;
    head->reply->retry_after_ms = (seconds < max_s ? seconds : max_s) * 1000;
  } else if (lki_http_date_parse(value.at, value.bytes, head->wall_s, &at_s) && at_s > 0) {
    head->retry_at_s = at_s;
  }
}

static bool read_header(lki_http_head *head, span name, span value) {
  lki_http_reply *reply = head->reply;
  int64_t date_s = 0;
  if (same(name, "Content-Length")) return read_length(head, value);
  if (same(name, "Transfer-Encoding")) return read_encoding(head, value);
  if (same(name, "Content-Range"))
    read_range(head, value);
  else if (same(name, "Date") && lki_http_date_parse(value.at, value.bytes, head->wall_s, &date_s))
    reply->date_s = date_s;
  else if (same(name, "Retry-After"))
    read_retry_after(head, value);
  else if (same(name, "ETag"))
    store_text(reply->etag, sizeof reply->etag, value);
  else if (same(name, "x-amz-request-id") || same(name, "x-ms-request-id") ||
           same(name, "x-guploader-uploadid"))
    store_text(reply->request_id, sizeof reply->request_id, value);
  else if (same(name, "x-ms-error-code"))
    store_text(reply->error_code, sizeof reply->error_code, value);
  else if (same(name, "x-amz-bucket-region"))
    store_text(reply->region, sizeof reply->region, value);
  return true;
}

/* ---- the head ---- */

static void clear(lki_http_head *head) {
  lki_http_reply *reply = head->reply;
  memset(reply, 0, sizeof *reply);
  reply->range_total = UINT64_MAX;
  head->whole = false;
  head->chunked = false;
  head->range_seen = false;
  head->range_bad = false;
  head->retry_at_s = 0;
}

void lki_http_head_begin(lki_http_head *head, lki_http_reply *reply, int64_t wall_s) {
  memset(head, 0, sizeof *head);
  head->reply = reply;
  head->wall_s = wall_s;
  clear(head);
}

static bool read_status(lki_http_head *head, span line) {
  int major = 0, minor = 0, status = 0;
  clear(head);
  bool ok = skip_text(&line, "HTTP/") && take_digits(&line, 1, &major) && skip_text(&line, ".") &&
            take_digits(&line, 1, &minor) && skip_text(&line, " ") && take_digits(&line, 3, &status) &&
            (line.bytes == 0 || is_blank(line.at[0])) && major == 1 && status >= 100;
  if (ok)
    head->reply->status = status;
  else
    head->fault = "its status line is not that of HTTP/1.x";
  return ok;
}

/* The empty line. What depends on two headers is decided here, since they come in any order. */
static void finish(lki_http_head *head) {
  lki_http_reply *reply = head->reply;
  if (reply->status < 200) return; /* an interim reply: the real one follows */
  head->whole = true;
  if (head->chunked) { /* RFC 7230, 3.3.3: then the length says nothing */
    reply->has_length = false;
    reply->content_length = 0;
  }
  if (head->retry_at_s == 0) return;
  int64_t now_s = reply->date_s != 0 ? reply->date_s : head->wall_s;
  uint64_t ahead_s = head->retry_at_s > now_s ? (uint64_t)head->retry_at_s - (uint64_t)now_s : 0;
  uint64_t max_s = LKI_HTTP_RETRY_AFTER_MS_MAX / 1000;
  reply->retry_after_ms = (ahead_s < max_s ? ahead_s : max_s) * 1000;
}

bool lki_http_head_line(lki_http_head *head, const char *line, size_t bytes) {
  if (head->fault != NULL) return false;
  if (bytes > LKI_HTTP_HEAD_BYTES_MAX - head->bytes) {
    head->fault = "its head is too long";
    return false;
  }
  head->bytes += bytes;
  if (head->whole) return true; /* trailers tell us nothing */
  span s = {line, bytes};
  if (s.bytes > 0 && s.at[s.bytes - 1] == '\n') s.bytes--;
  if (s.bytes > 0 && s.at[s.bytes - 1] == '\r') s.bytes--;
  if (s.bytes >= 5 && memcmp(s.at, "HTTP/", 5) == 0) return read_status(head, s);
  if (head->reply->status == 0) {
    head->fault = "it has no status line";
    return false;
  }
  if (s.bytes == 0) {
    finish(head);
    return true;
  }
  const char *colon = memchr(s.at, ':', s.bytes);
  if (colon == NULL || is_blank(s.at[0])) {
    head->fault = colon == NULL ? "it has a header line without a colon" : "it has a folded header line";
    return false;
  }
  span name = {s.at, (size_t)(colon - s.at)};
  span value = trim((span){colon + 1, s.bytes - name.bytes - 1});
  return read_header(head, trim(name), value);
}
