/* Dates that servers write: those of HTTP in three forms, Retry-After, and those of ISO 8601 in credentials.
 * What is accepted is what this very moment is written as, by the C library's calendar, which is not the one
 * that reads HTTP's; and every moment is accepted in every form. */
#include "store/http_reply.h"
#include "store/source.h"
#include "support/fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define NOW_S 1700000000
#define LAST_S ((int64_t)253402300799) /* the end of the year 9999 */
#define TEXT_BYTES 64

static unsigned long http_dates, iso_times, waits;

static struct tm civil(int64_t s) {
  const time_t t = (time_t)s;
  struct tm tm;
  fuzz_expect(gmtime_r(&t, &tm) != NULL, "a moment without a date");
  return tm;
}

/* ---- HTTP ---- */

enum { FIXDATE, RFC850, ASCTIME, FORMS };

/* `second`: the one that is written, which in a leap second is 60. */
static void print_http(int form, int64_t s, int second, char out[TEXT_BYTES]) {
  static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                     "Thursday", "Friday", "Saturday"};
  const struct tm tm = civil(s);
  const char *day = days[tm.tm_wday], *month = months[tm.tm_mon];
  const int year = tm.tm_year + 1900;
  if (form == FIXDATE)
    snprintf(out, TEXT_BYTES, "%.3s, %02d %s %04d %02d:%02d:%02d GMT", day, tm.tm_mday, month, year,
             tm.tm_hour, tm.tm_min, second);
  if (form == RFC850)
    snprintf(out, TEXT_BYTES, "%s, %02d-%s-%02d %02d:%02d:%02d GMT", day, tm.tm_mday, month, year % 100,
             tm.tm_hour, tm.tm_min, second);
  if (form == ASCTIME)
    snprintf(out, TEXT_BYTES, "%.3s %s %2d %02d:%02d:%02d %04d", day, month, tm.tm_mday, tm.tm_hour,
             tm.tm_min, second, year);
}

/* But for the day of the week, which is redundant and which nobody should be refused for; a day below 10 may
 * have a zero before it in asctime's form. */
static bool same_date(const char *text, size_t bytes, const char *printed, int form) {
  const size_t from = strcspn(text, ", "), printed_from = strcspn(printed, ", ");
  char copy[TEXT_BYTES];
  if (bytes >= sizeof copy || from > bytes) return false;
  memcpy(copy, text, bytes);
  copy[bytes] = 0;
  if (form == ASCTIME && bytes > 8 && copy[8] == '0' && printed[8] == ' ') copy[8] = ' ';
  return strcasecmp(copy + from, printed + printed_from) == 0;
}

static void check_http(const char *text, size_t bytes, int64_t s) {
  char printed[TEXT_BYTES], copy[TEXT_BYTES];
  fuzz_expect(s <= LAST_S + 1, "a date behind the last");
  while (bytes > 0 && (text[0] == ' ' || text[0] == '\t')) text++, bytes--;
  while (bytes > 0 && (text[bytes - 1] == ' ' || text[bytes - 1] == '\t')) bytes--;
  fuzz_expect(bytes < sizeof copy, "a date that long");
  memcpy(copy, text, bytes);
  copy[bytes] = 0;
  const bool leap = strstr(copy, ":60") != NULL && civil(s).tm_sec == 0;
  bool same = false;
  for (int form = 0; form < FORMS && !same; form++) {
    print_http(form, leap ? s - 1 : s, leap ? 60 : civil(s).tm_sec, printed);
    same = same_date(copy, bytes, printed, form);
  }
  fuzz_expect(same, copy);
}

static bool try_http(const char *text, size_t bytes, int64_t *out) {
  if (!lki_http_date_parse(text, bytes, NOW_S, out)) return false;
  check_http(text, bytes, *out);
  return true;
}

/* ---- Retry-After ---- */

static uint64_t expected_wait_ms(const char *text, size_t bytes) {
  uint64_t s = 0, max_s = LKI_HTTP_RETRY_AFTER_MS_MAX / 1000;
  int64_t at_s = 0;
  while (bytes > 0 && (text[0] == ' ' || text[0] == '\t')) text++, bytes--;
  while (bytes > 0 && (text[bytes - 1] == ' ' || text[bytes - 1] == '\t')) bytes--;
  if (lki_http_date_parse(text, bytes, NOW_S, &at_s)) {
    s = at_s > NOW_S ? (uint64_t)(at_s - NOW_S) : 0;
    return (s < max_s ? s : max_s) * 1000;
  }
  bool overflow = false;
  for (size_t i = 0; i < bytes; i++) {
    if (text[i] < '0' || text[i] > '9') return 0;
    const uint64_t digit = (uint64_t)(text[i] - '0');
    overflow = overflow || s > ((uint64_t)INT64_MAX - digit) / 10;
    if (!overflow) s = s * 10 + digit;
  }
  if (overflow) return 0; /* no number that anybody means */
  return (s < max_s ? s : max_s) * 1000;
}

static void try_wait(const char *text, size_t bytes) {
  char line[256];
  lki_http_head head;
  lki_http_reply reply;
  if (bytes > 200 || memchr(text, '\n', bytes) != NULL || memchr(text, '\r', bytes) != NULL) return;
  const int line_bytes = snprintf(line, sizeof line, "Retry-After: ");
  memcpy(line + line_bytes, text, bytes);
  lki_http_head_begin(&head, &reply, NOW_S);
  fuzz_expect(lki_http_head_line(&head, "HTTP/1.1 503 x", 14), "a status line");
  fuzz_expect(lki_http_head_line(&head, line, (size_t)line_bytes + bytes), "a header");
  fuzz_expect(lki_http_head_line(&head, "", 0) && head.whole, "the end of a head");
  fuzz_expect(reply.retry_after_ms == expected_wait_ms(text, bytes), "Retry-After is another than was said");
  if (reply.retry_after_ms > 0) waits++;
}

/* ---- ISO 8601 ---- */

static void check_iso(const char *text, int64_t s) {
  char printed[TEXT_BYTES], given[20];
  const char *zone = text + strlen("2026-01-31T12:00:00");
  fuzz_expect(strlen(text) > 19, "a time that short");
  if (*zone == '.') zone += 1 + strspn(zone + 1, "0123456789");
  int hours = 0, minutes = 0;
  if (*zone != 'Z')
    fuzz_expect(sscanf(zone + 1, zone[3] == ':' ? "%2d:%2d" : "%2d%2d", &hours, &minutes) == 2, "an offset");
  const int64_t local = s + (*zone == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
  memcpy(given, text, 19);
  given[19] = 0;
  if (given[10] == ' ') given[10] = 'T';
  const bool leap = strcmp(given + 17, "60") == 0;
  const struct tm tm = civil(leap ? local - 1 : local);
  snprintf(printed, sizeof printed, "%04d-%02d-%02dT%02d:%02d:%02d", tm.tm_year + 1900, tm.tm_mon + 1,
           tm.tm_mday, tm.tm_hour, tm.tm_min, leap ? 60 : tm.tm_sec);
  fuzz_expect(strcmp(given, printed) == 0, given);
}

static void try_iso(const char *text) {
  int64_t s = 0;
  if (!lki_parse_time(text, &s)) return;
  iso_times++;
  check_iso(text, s);
}

/* ---- every moment in every form ---- */

static void try_moment(uint64_t number) {
  char text[TEXT_BYTES];
  const int64_t s = (int64_t)(number % (uint64_t)(LAST_S + 1));
  int64_t again = -1;
  const struct tm tm = civil(s);
  for (int form = 0; form < FORMS; form++) {
    if (form == RFC850 && (s < NOW_S - (int64_t)49 * 31556952 || s > NOW_S + (int64_t)49 * 31556952))
      continue;
    print_http(form, s, tm.tm_sec, text);
    fuzz_expect(try_http(text, strlen(text), &again) && again == s, text);
  }
  snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
           tm.tm_hour, tm.tm_min, tm.tm_sec);
  fuzz_expect(lki_parse_time(text, &again) && again == s, text);
}

/* The first bytes are a moment, too. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  uint64_t number = 0;
  int64_t s = 0;
  char *text = malloc(bytes + 1);
  if (text == NULL) abort();
  memcpy(text, data, bytes);
  text[bytes] = 0;
  memcpy(&number, data, bytes < sizeof number ? bytes : sizeof number);
  try_moment(number);
  if (try_http(text, bytes, &s)) http_dates++;
  try_wait(text, bytes);
  try_iso(text);
  free(text);
  return 0;
}

#ifndef LAKE_LIBFUZZER
int main(int argc, char **argv) {
  static const char *const texts[] = {"Sun, 06 Nov 1994 08:49:37 GMT",
                                      "Sunday, 06-Nov-94 08:49:37 GMT",
                                      "Sun Nov  6 08:49:37 1994",
                                      "Thu, 29 Feb 2024 23:59:60 GMT",
                                      "Tue, 14 Nov 2023 22:14:20 GMT",
                                      "Tuesday, 14-Nov-23 22:30:00 GMT",
                                      "Fri Dec 31 23:59:60 9999",
                                      "120",
                                      "3599",
                                      "9223372036854775807",
                                      "2026-01-31T12:00:00Z",
                                      "2024-02-29 23:59:60Z",
                                      "2026-01-31T12:00:00.123+01:30",
                                      "1970-01-01T00:00:00-2359",
                                      "9999-12-31T23:59:59.999999999Z",
                                      NULL};
  int rc = fuzz_main_texts(argc, argv, texts);
  fprintf(stderr, "%lu dates of HTTP, %lu of ISO 8601, %lu times to wait\n", http_dates, iso_times, waits);
  fuzz_expect(argc > 1 || (http_dates > 200 && iso_times > 100 && waits > 100),
              "hardly any input was accepted");
  return rc;
}
#endif
