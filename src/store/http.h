/* The HTTP engine: the one door to libcurl. A few I/O threads each own a multi handle; a call is given to one of them
 * and is completed exactly once. It knows HTTP/1.1 and nothing of stores, keys or signatures.
 *
 * What it insists on: no redirect is followed, nothing is sent twice by itself on a `fresh` call, a body counts only
 * when it is complete by its declared length, a ranged call only with 206 and the range that was asked, TLS 1.2 or
 * newer with a verified peer. Bytes are bounded: a call is admitted when its bodies fit into the budget (one always
 * is), and its sink grows only then; a reply that turns out larger than was expected is charged as it comes. A request
 * that is not `fresh` may go out again by itself when a connection that was kept turns out to be dead before a byte of
 * the reply. Proxies are those of the environment (https_proxy, no_proxy ...). Every function is safe from any thread. */
#ifndef LKI_STORE_HTTP_H
#define LKI_STORE_HTTP_H

#include <lakestream/sys/store.h>

#define LKI_HTTP_TEXT_BYTES_MAX 2048

typedef struct lki_http lki_http;

/* All zero: the defaults. Texts are copied. */
typedef struct lki_http_options {
  uint32_t thread_count;        /* 2 */
  uint32_t per_host_max;        /* calls in flight to one host: 256 */
  uint64_t in_flight_bytes_max; /* request bodies and expected replies of admitted calls: 256 MiB */
  uint64_t connect_ms;          /* 10,000 */
  uint64_t stall_ms;            /* less than 1 byte a second for this long ends a try: 30,000 */
  const char *ca_file;          /* NULL: the system's */
  bool insecure;                /* do not verify the peer; for tests and doctor only, logged as a warning */
} lki_http_options;

/* A header line of a request, or what a signer needs of one. Borrowed. */
typedef struct lki_http_header {
  const char *name;
  const char *value;
} lki_http_header;

typedef struct lki_http_request {
  const char *method; /* "GET", "HEAD", "PUT", "POST", "DELETE" */
  const char *url;    /* absolute and encoded: sent as it is */
  const lki_http_header *headers;
  size_t header_count;
  lake_bytes body;
  lake_buffer *sink;     /* the body of a 200 or 206, from data[0]; NULL: it goes to reply.text as others do (to 1 MiB) */
  lake_range range;      /* what the headers ask for; WHOLE: a 200 is wanted, else a 206 with this very range */
  uint64_t expect_bytes; /* of the reply, for the budget, where the range does not tell; 0: 64 KiB */
  bool fresh;            /* on a connection that has not been used, which is closed afterwards */
  lake_deadline deadline;
} lki_http_request;

typedef struct lki_http_reply {
  int status;    /* of the status line; 0: there was none */
  bool sent;     /* a byte of the request may have reached the server, so it may have been carried out */
  bool has_length;
  uint64_t content_length;
  uint64_t body_bytes; /* received */
  bool has_range;      /* Content-Range, which then is well formed */
  /* total: UINT64_MAX when it says '*' or nothing; "bytes * /total" (without the blanks) of a 416 gives it alone. */
  uint64_t range_first, range_last, range_total;
  int64_t date_s;         /* Date, since 1970; 0: none */
  uint64_t retry_after_ms; /* Retry-After in seconds or as a date; 0: none; at most one hour */
  char etag[128];         /* with its quotes; "": none or too long, as below */
  char request_id[80];    /* x-amz-request-id, x-ms-request-id, x-guploader-uploadid */
  char error_code[80];    /* x-ms-error-code */
  char region[40];        /* x-amz-bucket-region */
  size_t text_bytes;
  char text[LKI_HTTP_TEXT_BYTES_MAX]; /* the beginning of a body that did not go to the sink, terminated */
} lki_http_reply;

/* One call. The caller owns it and all it borrows, and neither moves nor changes it until done() has been called. */
typedef struct lki_http_call {
  lki_http_request request;
  /* Exactly once, on an I/O thread, no lock held; may submit, must not wait. A call that cannot even be queued (INVALID,
   * NOMEM, in a forked child) is over before lki_http_submit() returns: hold no lock there that done() takes. */
  void (*done)(struct lki_http_call *call);
  void *ctx;
  /* Set before done(). OK: a whole, well-formed reply came, whatever its status. UNAVAILABLE: not; reply.sent tells
   * whether the request may have been carried out. TIMEOUT: the deadline passed or the call was cancelled; likewise.
   * CORRUPT: the object is larger than the sink may grow, or is known to end before the range does. DENIED: the peer's
   * certificate, or a TLS older than 1.2. INVALID: the request, or the CA file. NOMEM. Unless it is OK the sink keeps
   * its length, not its content. */
  lake_status status;
  lki_http_reply reply;
  lake_error error;
  void *inner; /* the engine's */
} lki_http_call;

typedef struct lki_http_stats {
  uint64_t call_count, connection_count, reused_count, in_flight_bytes_peak;
} lki_http_stats;

lake_status lki_http_open(lake_env *env, const lki_http_options *options, lki_http **out, lake_error *err);
void lki_http_close(lki_http *http); /* cancels what is left, waits for the threads; NULL accepted */
void lki_http_submit(lki_http *http, lki_http_call *call);
void lki_http_cancel(lki_http *http, lki_http_call *call); /* it completes soon; nothing happens if it has */
/* Waits for it. Over http the transfer runs on the caller's own thread, once it is admitted; must not be under way when
 * the engine is closed. */
lake_status lki_http_do(lki_http *http, const lki_http_request *request, lki_http_reply *reply, lake_error *err);
void lki_http_stats_get(const lki_http *http, lki_http_stats *stats);

#endif
