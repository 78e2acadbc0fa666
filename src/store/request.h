/* A request before it is sent: method, host, path, query and headers as plain, decoded text, so that it can be signed
 * and then written as a URL with one and the same encoding. Pure: no I/O, no clock. All memory is its arena's. Not
 * thread-safe. */
#ifndef LKI_STORE_REQUEST_H
#define LKI_STORE_REQUEST_H

#include "base/buffer.h"
#include "store/http.h"

#define LKI_REQUEST_PAIRS_MAX 32

typedef struct lki_pair {
  const char *name; /* headers: lower case */
  const char *value;
} lki_pair;

typedef struct lki_request {
  lki_arena arena;
  const char *method;
  const char *origin; /* "https://host:port": no path, no trailing slash */
  const char *host;   /* the Host header: "host", or "host:port" when the port is not the scheme's own */
  const char *path;   /* decoded, from the slash on: "/bucket/some key" */
  lki_pair query[LKI_REQUEST_PAIRS_MAX]; /* decoded */
  size_t query_count;
  lki_pair headers[LKI_REQUEST_PAIRS_MAX];
  size_t header_count;
  lake_bytes body;
  bool failed;     /* lki_request_finish tells */
  const char *why; /* of failed; NULL: no memory */
  const char *url; /* what finish made */
} lki_request;

/* origin and path are copied, method is not. host is derived from origin. */
void lki_request_init(lki_request *request, lake_env *env, const char *method, const char *origin, const char *path);
void lki_request_query(lki_request *request, const char *name, const char *value);  /* copied; value "": "name=" */
/* Copied; replaces an equal name. name: a-z 0-9 - _ . only; value: no control character. */
void lki_request_header(lki_request *request, const char *name, const char *value);
void lki_request_header_drop(lki_request *request, const char *name); /* OK also when there is none */
/* A Range header by this name, RFC 9110 14.1.2; nothing for the whole object. An EXACT range is not empty. */
void lki_request_range(lki_request *request, const char *name, lake_range range);
void lki_request_header_u64(lki_request *request, const char *name, uint64_t value);
/* Fills method, url, headers (with host) and body of `out`, which then borrows from the request. INVALID, NOMEM. */
lake_status lki_request_finish(lki_request *request, lki_http_request *out, lake_error *err);
void lki_request_free(lki_request *request); /* wipes the values first: some are secrets */

/* RFC 3986: everything but A-Z a-z 0-9 - . _ ~ is written %XX (upper case), '/' too unless keep_slash.
 * The text is the arena's; NULL: no memory. */
char *lki_percent_encode(lki_arena *arena, const char *text, bool keep_slash);
/* The reverse, '+' stays '+'. false: a broken escape or %00. dst has room for strlen(text) + 1. */
bool lki_percent_decode(const char *text, char *dst);

#endif
