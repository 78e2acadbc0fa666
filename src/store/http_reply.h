/* The head of an HTTP/1.1 reply: its status line and header lines, one after the other, into a
 * lki_http_reply. Pure: no I/O, no clock, no memory of its own; every limit is checked before anything is
 * stored. Not thread-safe. */
#ifndef LKI_STORE_HTTP_REPLY_H
#define LKI_STORE_HTTP_REPLY_H

#include "store/http.h"

#define LKI_HTTP_HEAD_BYTES_MAX ((size_t)256 * 1024) /* of one call's heads, interim ones included */
#define LKI_HTTP_RETRY_AFTER_MS_MAX ((uint64_t)3600 * 1000)

typedef struct lki_http_head {
  lki_http_reply *reply;
  int64_t wall_s; /* for a Retry-After date without a Date, and the century of a two-digit year */
  size_t bytes;   /* read so far */
  bool whole;     /* the empty line after the head of a final reply came: later lines are trailers */
  bool chunked;
  bool range_seen, range_bad;
  int64_t retry_at_s; /* Retry-After as a date; 0: none */
  const char *fault;  /* what is wrong with the head, or NULL: then the reply may not be believed */
} lki_http_head;

/* Clears the reply. */
void lki_http_head_begin(lki_http_head *head, lki_http_reply *reply, int64_t wall_s);
/* One line, with or without its end. A status line begins anew, since interim replies (1xx) come before the
 * final one. false: head->fault says what is wrong. */
bool lki_http_head_line(lki_http_head *head, const char *line, size_t bytes);

/* A date in any of the three forms of RFC 7231, as seconds since 1970. now_s places a year of two digits.
 * false: none. */
bool lki_http_date_parse(const char *text, size_t bytes, int64_t now_s, int64_t *out);
/* Content-Range: "bytes first-last/total" or "bytes first-last/ *" gives has_range; "bytes * /total" (without
 * the blanks) only range_total, for a 416. false: neither, and nothing is set. */
bool lki_http_range_parse(const char *text, size_t bytes, lki_http_reply *reply);

#endif
