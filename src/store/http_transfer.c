/* One libcurl transfer. A body reaches the sink only after the head has been read whole and is what was asked
 * for, so that a wrong reply costs no memory and ends at once; it counts only when its length is the declared
 * one. */
#include "store/http_transfer.h"
#include "base/buffer.h"
#include "base/env.h"
#include "base/error.h"
#include "store/store.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

#define HEADER_COUNT_MAX 128
#define HEADER_BYTES_MAX ((size_t)16384)
#define URL_BYTES_MAX ((size_t)8192)
#define EXPECTED_MAX ((uint64_t)1 << 48)
#define CONNECTION_IDLE_S                                                                                    \
  12L /* below the patience of servers and balancers, so that few reused ones turn out dead */
#define RECEIVE_BYTES (128L * 1024) /* measured: what a reply is copied from should still be in the cache */
#define SEND_BYTES (1024L * 1024)

/* ---- the request ---- */

size_t lki_http_origin_bytes(const char *url) {
  size_t scheme = strncmp(url, "https://", 8) == 0 ? 8 : strncmp(url, "http://", 7) == 0 ? 7 : 0;
  if (scheme == 0) return 0;
  size_t host = strcspn(url + scheme, "/?#");
  if (host == 0 || memchr(url + scheme, '@', host) != NULL)
    return 0; /* no passwords in URLs: they would be shown */
  return scheme + host;
}

static bool is_token(const char *text) {
  if (*text == 0) return false;
  for (; *text != 0; text++)
    if (*text <= ' ' || *text > '~' || strchr("()<>@,;:\\\"/[]?={}", *text) != NULL) return false;
  return true;
}

/* A line break in a value would be a header of somebody else's choice. */
static bool is_value(const char *text) {
  for (; *text != 0; text++)
    if ((unsigned char)*text < 0x20 || *text == 0x7f) return false;
  return true;
}

static bool is_url(const char *url) {
  if (strnlen(url, URL_BYTES_MAX + 1) > URL_BYTES_MAX || lki_http_origin_bytes(url) == 0) return false;
  for (; *url != 0; url++)
    if (*url <= ' ' || *url > '~' || *url == '#') return false;
  return true;
}

static bool known_method(const char *method) {
  static const char *const known[] = {"GET", "HEAD", "PUT", "POST", "DELETE"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(method, known[i]) == 0) return true;
  return false;
}

static bool has_body(const lki_http_request *request) {
  return request->body.bytes > 0 || strcmp(request->method, "PUT") == 0 ||
         strcmp(request->method, "POST") == 0;
}

static lake_status check_request(const lki_http_request *request, lake_error *err) {
  if (request->method == NULL || !known_method(request->method))
    return lki_fail(err, LAKE_INVALID, "HTTP: unknown method");
  if (request->url == NULL || !is_url(request->url))
    return lki_fail(
        err, LAKE_INVALID,
        "HTTP %s: no absolute, encoded http or https URL of at most %zu bytes without a password in it",
        request->method, URL_BYTES_MAX);
  if (request->header_count > HEADER_COUNT_MAX)
    return lki_fail(err, LAKE_INVALID, "HTTP %s: more than %d headers", request->method, HEADER_COUNT_MAX);
  size_t total = 0;
  for (size_t i = 0; i < request->header_count; i++) {
    const lki_http_header *h = &request->headers[i];
    if (!is_token(h->name) || !is_value(h->value))
      return lki_fail(err, LAKE_INVALID,
                      "HTTP %s: header %zu has an impossible name, or a value with a line break",
                      request->method, i);
    total += strlen(h->name) + strlen(h->value);
    if (total > HEADER_BYTES_MAX)
      return lki_fail(err, LAKE_INVALID, "HTTP %s: more than %zu bytes of headers", request->method,
                      HEADER_BYTES_MAX);
  }
  if (request->range.kind != LAKE_RANGE_WHOLE && request->range.bytes == 0)
    return lki_fail(err, LAKE_INVALID, "HTTP %s: an empty range cannot be asked for", request->method);
  if (request->range.kind == LAKE_RANGE_EXACT && request->range.bytes > UINT64_MAX - request->range.offset)
    return lki_fail(err, LAKE_INVALID, "HTTP %s: the range overflows", request->method);
  return LAKE_OK;
}

/* What libcurl would add by itself and nobody has signed: none of it. */
static const char *const unwanted[] = {"Expect:", "Accept:", "Content-Type:"};
#define UNWANTED_COUNT (sizeof unwanted / sizeof *unwanted)

static bool caller_sets(const lki_http_request *request, const char *line) {
  size_t bytes = strlen(line) - 1;
  for (size_t i = 0; i < request->header_count; i++)
    if (strlen(request->headers[i].name) == bytes && strncasecmp(request->headers[i].name, line, bytes) == 0)
      return true;
  return false;
}

static void add_node(lki_http_transfer *t, size_t *count, char *line) {
  struct curl_slist *node = &t->headers[*count];
  node->data = line;
  node->next = NULL;
  if (*count > 0) t->headers[*count - 1].next = node;
  (*count)++;
}

/* With its terminator, which is where the next piece goes. The caller has counted. */
static char *put_text(char *at, const char *text) {
  size_t bytes = strlen(text);
  memcpy(at, text, bytes + 1);
  return at + bytes;
}

/* One block holds the list and its lines. */
static lake_status make_headers(lki_http_transfer *t, lake_error *err) {
  const lki_http_request *request = &t->call->request;
  size_t bytes = (request->header_count + UNWANTED_COUNT) * sizeof(struct curl_slist);
  size_t texts = bytes, count = 0;
  for (size_t i = 0; i < request->header_count; i++)
    bytes += strlen(request->headers[i].name) + strlen(request->headers[i].value) + 3;
  for (size_t i = 0; i < UNWANTED_COUNT; i++) bytes += strlen(unwanted[i]) + 1;
  t->block = lki_alloc(t->env, bytes);
  if (t->block == NULL) return lki_fail(err, LAKE_NOMEM, "HTTP %s: out of memory", request->method);
  t->headers = t->block;
  char *at = (char *)t->block + texts;
  for (size_t i = 0; i < request->header_count; i++) {
    const lki_http_header *h = &request->headers[i];
    if (strcasecmp(h->name, "Content-Length") == 0) continue; /* libcurl knows it, and better */
    add_node(t, &count, at);
    at = put_text(at, h->name);
    /* "name;" is how libcurl is told to send an empty value; "name:" would remove the header. */
    at = put_text(at, h->value[0] != 0 ? ": " : ";");
    at = put_text(at, h->value) + 1;
  }
  for (size_t i = 0; i < UNWANTED_COUNT; i++) {
    if (caller_sets(request, unwanted[i])) continue;
    size_t n = strlen(unwanted[i]) + 1;
    memcpy(at, unwanted[i], n);
    add_node(t, &count, at);
    at += n;
  }
  return LAKE_OK;
}

lake_status lki_http_transfer_open(lki_http_transfer *t, lake_env *env, lki_http_call *call,
                                   lake_error *err) {
  memset(t, 0, sizeof *t);
  t->env = env;
  t->call = call;
  lki_http_head_begin(&t->head, &call->reply, 0);
  lake_status s = check_request(&call->request, err);
  if (s != LAKE_OK) return s;
  const lki_http_request *request = &call->request;
  uint64_t expected = 0;
  if (request->sink != NULL) {
    expected = request->expect_bytes != 0 ? request->expect_bytes : 65536;
    if (request->range.kind != LAKE_RANGE_WHOLE) expected = request->range.bytes;
  }
  if (expected > EXPECTED_MAX) expected = EXPECTED_MAX; /* sums of them do not overflow */
  t->charged_bytes = expected + request->body.bytes;
  return make_headers(t, err);
}

void lki_http_transfer_close(lki_http_transfer *t) {
  lki_free(t->env, t->block);
  t->block = NULL;
}

/* ---- what is accepted of the reply ---- */

/* "GET https://host/path": never the query, which may hold a signature. */
#define SHOWN_BYTES 240
static const char *shown(const lki_http_transfer *t, char text[SHOWN_BYTES]) {
  const char *url = t->call->request.url;
  size_t bytes = strcspn(url, "?");
  size_t origin = lki_http_origin_bytes(url);
  const size_t room = SHOWN_BYTES - 16;
  if (bytes <= room)
    snprintf(text, SHOWN_BYTES, "%s %.*s", t->call->request.method, (int)bytes, url);
  else if (origin <= room / 2) /* the end of a path says more than its beginning */
    snprintf(text, SHOWN_BYTES, "%s %.*s...%.*s", t->call->request.method, (int)origin, url,
             (int)(room - origin - 3), url + bytes - (room - origin - 3));
  else
    snprintf(text, SHOWN_BYTES, "%s ...%.*s", t->call->request.method, (int)(room - 3),
             url + bytes - (room - 3));
  return text;
}

static bool refuse(lki_http_transfer *t, lake_status status, const char *why) {
  char text[SHOWN_BYTES];
  if (t->refused == LAKE_OK) t->refused = lki_fail(&t->why, status, "%s: %s", shown(t, text), why);
  return false;
}

/* A 206 must be the very range. An object that is known to end before the range does is CORRUPT to a reader
 * who was told by another object what is in it. */
static bool check_range(lki_http_transfer *t) {
  const lki_http_reply *reply = t->head.reply;
  const lake_range *range = &t->call->request.range;
  char why[200];
  if (!reply->has_range)
    return refuse(t, LAKE_UNAVAILABLE,
                  "a part came without a good Content-Range; try again, or check the store");
  uint64_t first = range->offset, last = range->offset + range->bytes - 1;
  if (range->kind == LAKE_RANGE_SUFFIX) {
    if (reply->range_total == UINT64_MAX)
      return refuse(t, LAKE_UNAVAILABLE,
                    "the end of the object came without its size; try again, or check the store");
    last = reply->range_total - 1;
    first = reply->range_total > range->bytes ? reply->range_total - range->bytes : 0;
  }
  uint64_t part_bytes = reply->range_last - reply->range_first + 1;
  if (reply->range_first == first && reply->range_last < last &&
      reply->range_last + 1 == reply->range_total) {
    snprintf(why, sizeof why, "the object has %llu bytes, %llu from %llu were asked; restore the object",
             (unsigned long long)reply->range_total, (unsigned long long)range->bytes,
             (unsigned long long)first);
    return refuse(t, LAKE_CORRUPT, why);
  }
  if (reply->range_first != first || reply->range_last != last) {
    snprintf(why, sizeof why, "bytes %llu-%llu were asked, %llu-%llu came; try again, or check the store",
             (unsigned long long)first, (unsigned long long)last, (unsigned long long)reply->range_first,
             (unsigned long long)reply->range_last);
    return refuse(t, LAKE_UNAVAILABLE, why);
  }
  if (reply->has_length && reply->content_length != part_bytes)
    return refuse(t, LAKE_UNAVAILABLE,
                  "Content-Length and Content-Range do not agree; try again, or check the store");
  t->want_bytes = part_bytes;
  return true;
}

static bool prepare_sink(lki_http_transfer *t) {
  lake_buffer *sink = t->call->request.sink;
  t->to_sink = true;
  t->sink_bytes = sink->bytes;
  uint64_t bytes = t->want_bytes != UINT64_MAX ? t->want_bytes : 0;
  char text[SHOWN_BYTES];
  if (lki_store_fits(sink, bytes, &t->why) != LAKE_OK) {
    t->refused = LAKE_CORRUPT;
    lki_error_prefix(&t->why, "%s", shown(t, text));
    return false;
  }
  uint64_t charged = t->charged_bytes - t->call->request.body.bytes;
  if (bytes > charged) t->charge(t, bytes - charged);
  sink->bytes = 0; /* what it held is not wanted any more, so it need not move when the buffer grows */
  if (lki_buffer_reserve(sink, (size_t)bytes, NULL) != LAKE_OK) {
    sink->bytes = t->sink_bytes;
    return refuse(t, LAKE_NOMEM, "out of memory for its body");
  }
  return true;
}

/* The head is whole: is this what was asked for? */
static bool check_head(lki_http_transfer *t) {
  const lki_http_request *request = &t->call->request;
  const lki_http_reply *reply = t->head.reply;
  bool head_only = strcmp(request->method, "HEAD") == 0;
  bool success = reply->status >= 200 && reply->status < 300;
  t->want_bytes = reply->has_length ? reply->content_length : UINT64_MAX;
  if (head_only || reply->status == 204 || reply->status == 304) {
    t->want_bytes = 0;
    return true;
  }
  /* Whatever ends with the connection may have been cut anywhere. An error's text is for people. */
  if (success && !reply->has_length && !t->head.chunked)
    return refuse(t, LAKE_UNAVAILABLE,
                  "the reply does not say how long it is; try again, or check the store");
  if (request->sink == NULL || (reply->status != 200 && reply->status != 206)) return true;
  if (request->range.kind == LAKE_RANGE_WHOLE && reply->status == 206)
    return refuse(t, LAKE_UNAVAILABLE,
                  "a part came though the whole was asked; try again, or check the store");
  if (request->range.kind != LAKE_RANGE_WHOLE && reply->status == 200)
    return refuse(t, LAKE_UNAVAILABLE, "the range was ignored; try again, or check the store");
  if (reply->status == 206 && !check_range(t)) return false;
  return prepare_sink(t);
}

/* ---- libcurl's callbacks ---- */

static size_t on_header(char *line, size_t size, size_t count, void *ctx) {
  lki_http_transfer *t = ctx;
  size_t bytes = size * count;
  bool was_whole = t->head.whole;
  if (!lki_http_head_line(&t->head, line, bytes)) {
    char why[120];
    snprintf(why, sizeof why, "the reply cannot be used: %s; try again, or check the server", t->head.fault);
    refuse(t, LAKE_UNAVAILABLE, why);
    return 0;
  }
  if (t->head.whole && !was_whole && !check_head(t)) return 0;
  return bytes;
}

static bool take_text(lki_http_transfer *t, const char *data, size_t bytes) {
  lki_http_reply *reply = t->head.reply;
  size_t room = LKI_HTTP_TEXT_BYTES_MAX - 1 - reply->text_bytes;
  size_t n = bytes < room ? bytes : room;
  memcpy(reply->text + reply->text_bytes, data, n);
  reply->text_bytes += n;
  reply->text[reply->text_bytes] = 0;
  if (t->got_bytes + bytes > LKI_HTTP_TEXT_READ_MAX)
    return refuse(t, LAKE_UNAVAILABLE, "the reply's body is larger than any that has been asked for");
  return true;
}

static bool take_body(lki_http_transfer *t, const char *data, size_t bytes) {
  lake_buffer *sink = t->call->request.sink;
  if (bytes > t->want_bytes - t->got_bytes)
    return refuse(t, LAKE_UNAVAILABLE, "more came than was announced; try again, or check the store");
  size_t need = (size_t)t->got_bytes + bytes;
  if (need > sink->capacity) { /* only a chunked body grows here */
    if (need > sink->bytes_max)
      return refuse(t, LAKE_CORRUPT, "the object is longer than such an object may be; restore it");
    sink->bytes = (size_t)t->got_bytes;
    if (lki_buffer_reserve(sink, need, NULL) != LAKE_OK)
      return refuse(t, LAKE_NOMEM, "out of memory for its body");
    uint64_t charged = t->charged_bytes - t->call->request.body.bytes;
    if (sink->capacity > charged) t->charge(t, sink->capacity - charged);
  }
  memcpy(sink->data + t->got_bytes, data, bytes);
  return true;
}

static size_t on_body(char *data, size_t size, size_t count, void *ctx) {
  lki_http_transfer *t = ctx;
  size_t bytes = size * count;
  if (t->refused != LAKE_OK || !t->head.whole) return 0;
  if (!(t->to_sink ? take_body(t, data, bytes) : take_text(t, data, bytes))) return 0;
  t->got_bytes += bytes;
  return bytes;
}

static size_t on_read(char *dst, size_t size, size_t count, void *ctx) {
  lki_http_transfer *t = ctx;
  lake_bytes body = t->call->request.body;
  size_t bytes = size * count, left = body.bytes - t->given_bytes;
  if (bytes > left) bytes = left;
  if (bytes > 0) memcpy(dst, (const char *)body.data + t->given_bytes, bytes);
  t->given_bytes += bytes;
  return bytes;
}

/* libcurl begins again when a reused connection turns out to be dead. */
static int on_seek(void *ctx, curl_off_t offset, int origin) {
  lki_http_transfer *t = ctx;
  if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > t->call->request.body.bytes)
    return CURL_SEEKFUNC_FAIL;
  t->given_bytes = (size_t)offset;
  return CURL_SEEKFUNC_OK;
}

/* There is a connection, and the request goes out over it next. */
static int on_ready(void *ctx, char *peer_ip, char *own_ip, int peer_port, int own_port) {
  lki_http_transfer *t = ctx;
  (void)peer_ip, (void)own_ip, (void)peer_port, (void)own_port;
  t->send_count++;
  return CURL_PREREQFUNC_OK;
}

/* ---- the handle ---- */

CURL *lki_http_easy_open(const lki_http_options *options, CURLSH *share) {
  CURL *easy = curl_easy_init();
  if (easy == NULL) return NULL;
  CURLcode c = CURLE_OK;
#define SET(option, value)                                                                                   \
  if (c == CURLE_OK) c = curl_easy_setopt(easy, option, value)
  SET(CURLOPT_NOSIGNAL, 1L);
  SET(CURLOPT_QUICK_EXIT, 1L); /* a slow name server must not hold the thread when a deadline passes */
  SET(CURLOPT_SHARE, share);
  SET(CURLOPT_PROTOCOLS_STR, "http,https");
  SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  SET(CURLOPT_FOLLOWLOCATION, 0L);
  SET(CURLOPT_FAILONERROR, 0L);
  SET(CURLOPT_PATH_AS_IS, 1L);
  SET(CURLOPT_HTTP_CONTENT_DECODING, 0L);
  SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  SET(CURLOPT_NOPROGRESS, 1L);
  SET(CURLOPT_USERAGENT, "lakestream");
  SET(CURLOPT_MAXAGE_CONN, CONNECTION_IDLE_S);
  SET(CURLOPT_BUFFERSIZE, RECEIVE_BYTES);
  SET(CURLOPT_UPLOAD_BUFFERSIZE, SEND_BYTES);
  SET(CURLOPT_TCP_KEEPALIVE, 1L);
  SET(CURLOPT_TCP_KEEPIDLE, 30L);
  SET(CURLOPT_TCP_KEEPINTVL, 15L);
  SET(CURLOPT_CONNECTTIMEOUT_MS, (long)options->connect_ms);
  SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
  SET(CURLOPT_LOW_SPEED_TIME, (long)((options->stall_ms + 999) / 1000));
  SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
  SET(CURLOPT_SSL_VERIFYPEER, options->insecure ? 0L : 1L);
  SET(CURLOPT_SSL_VERIFYHOST, options->insecure ? 0L : 2L);
  if (options->ca_file != NULL) {
    SET(CURLOPT_CAINFO, options->ca_file);
    SET(CURLOPT_CAPATH, NULL); /* these and no others */
  }
  SET(CURLOPT_HEADERFUNCTION, on_header);
  SET(CURLOPT_WRITEFUNCTION, on_body);
  SET(CURLOPT_READFUNCTION, on_read);
  SET(CURLOPT_SEEKFUNCTION, on_seek);
  SET(CURLOPT_PREREQFUNCTION, on_ready);
  if (c == CURLE_OK) return easy;
  curl_easy_cleanup(easy);
  return NULL;
}

bool lki_http_transfer_begin(lki_http_transfer *t, CURL *easy) {
  const lki_http_request *request = &t->call->request;
  CURLcode c = CURLE_OK;
  lki_http_head_begin(&t->head, &t->call->reply, (int64_t)(lki_wall_ns(t->env) / 1000000000u));
  t->easy = easy;
  t->curl_text[0] = 0;
  bool upload = has_body(request);
  bool head_only = strcmp(request->method, "HEAD") == 0;
  SET(CURLOPT_URL, request->url);
  SET(CURLOPT_HTTPHEADER, t->headers);
  /* The handle may have served another method before: the order undoes that. */
  SET(CURLOPT_NOBODY, 0L);
  SET(CURLOPT_UPLOAD, upload ? 1L : 0L);
  if (!upload) SET(CURLOPT_HTTPGET, 1L);
  SET(CURLOPT_NOBODY, head_only ? 1L : 0L);
  SET(CURLOPT_CUSTOMREQUEST, head_only ? NULL : request->method);
  SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)(upload ? request->body.bytes : 0));
  SET(CURLOPT_FRESH_CONNECT, request->fresh ? 1L : 0L);
  SET(CURLOPT_FORBID_REUSE, request->fresh ? 1L : 0L);
  SET(CURLOPT_ERRORBUFFER, t->curl_text);
  SET(CURLOPT_PRIVATE, t);
  SET(CURLOPT_HEADERDATA, t);
  SET(CURLOPT_WRITEDATA, t);
  SET(CURLOPT_READDATA, t);
  SET(CURLOPT_SEEKDATA, t);
  SET(CURLOPT_PREREQDATA, t);
  long timeout_ms = 0; /* none */
  if (request->deadline.at_ns != LKI_NEVER) {
    uint64_t now_ns = lki_now_ns(t->env);
    uint64_t left_ms =
        request->deadline.at_ns > now_ns ? (request->deadline.at_ns - now_ns) / 1000000u + 1 : 1;
    timeout_ms = left_ms < INT32_MAX ? (long)left_ms : INT32_MAX;
  }
  SET(CURLOPT_TIMEOUT_MS, timeout_ms);
  return c == CURLE_OK;
}
#undef SET

/* ---- the end ---- */

/* libcurl has one code for many ends of a handshake. OpenSSL's own complaints are about what the peer is and
 * stay as they are; a connection that broke may do better next time. */
static bool handshake_refused(const char *text) {
  return strstr(text, "SSL routines") != NULL && strstr(text, "unexpected eof") == NULL;
}

static lake_status status_of(const lki_http_transfer *t, CURLcode code) {
  switch (code) {
  case CURLE_OK:
    return LAKE_OK;
  case CURLE_OPERATION_TIMEDOUT:
    /* Its own clock may be a moment ahead of ours. */
    return t->call->request.deadline.at_ns <= lki_after_ns(t->env, 2000000) ? LAKE_TIMEOUT : LAKE_UNAVAILABLE;
  case CURLE_PEER_FAILED_VERIFICATION:
  case CURLE_SSL_CERTPROBLEM:
  case CURLE_SSL_CIPHER:
  case CURLE_SSL_ISSUER_ERROR:
  case CURLE_SSL_INVALIDCERTSTATUS:
    return LAKE_DENIED;
  case CURLE_SSL_CONNECT_ERROR:
    return handshake_refused(t->curl_text) ? LAKE_DENIED : LAKE_UNAVAILABLE;
  case CURLE_SSL_CACERT_BADFILE:
  case CURLE_URL_MALFORMAT:
    return LAKE_INVALID;
  case CURLE_OUT_OF_MEMORY:
    return LAKE_NOMEM;
  default:
    return LAKE_UNAVAILABLE;
  }
}

/* The two sides do not mean the same protocol. Servers end a connection for other reasons as well, hence the question. */
static bool speaks_http(const lki_http_transfer *t, CURLcode code) {
  return code == CURLE_SSL_CONNECT_ERROR && strstr(t->curl_text, "wrong version number") != NULL;
}
static bool wants_https(const lki_http_transfer *t, CURLcode code) {
  return strncmp(t->call->request.url, "http:", 5) == 0 &&
         (code == CURLE_GOT_NOTHING || code == CURLE_UNSUPPORTED_PROTOCOL);
}

#define ADVICE_BYTES 320
static const char *advice(const lki_http_transfer *t, lake_status status, CURLcode code, char text[ADVICE_BYTES]) {
  if (speaks_http(t, code)) return "; the server speaks plain http here: write http:// in the endpoint";
  if (wants_https(t, code)) return "; try again, or check the endpoint: does the server want https?";
  switch (status) {
  case LAKE_DENIED:
    snprintf(text, ADVICE_BYTES, "; check the host name, its certificate, TLS 1.2 or newer, and the CA file (%.160s)",
             t->ca_file != NULL ? t->ca_file : "the system's; ca_file= in the URL names another");
    return text;
  case LAKE_INVALID:
    return "; correct the configuration";
  case LAKE_TIMEOUT:
    return "; the server has not answered in time: the deadline passed";
  case LAKE_NOMEM:
    return "";
  default:
    return "; try again, or check host and network";
  }
}

/* A server may answer before it has read the whole request, and libcurl is content with that when the connection is to
 * be closed. Such a refusal stands; what says that something was done to bytes that never went out does not. What libcurl
 * has taken from us may still lie in its own buffer, so it is asked for what it has sent. */
static bool sent_whole(const lki_http_transfer *t) {
  curl_off_t sent = 0;
  if (!has_body(&t->call->request)) return true;
  return curl_easy_getinfo(t->easy, CURLINFO_SIZE_UPLOAD_T, &sent) == CURLE_OK &&
         (uint64_t)sent >= t->call->request.body.bytes;
}

/* Libcurl is content; we look once more at what must hold for every reply that counts. */
static void check_whole(lki_http_transfer *t) {
  if (!t->head.whole)
    refuse(t, LAKE_UNAVAILABLE, "no reply came; try again, or check the server");
  else if (t->want_bytes != UINT64_MAX && t->got_bytes != t->want_bytes)
    refuse(t, LAKE_UNAVAILABLE, "the body has not its declared length; try again, or check the store");
  else if (t->head.reply->status < 300 && !sent_whole(t))
    refuse(t, LAKE_UNAVAILABLE, "a good reply came before the request was sent whole; try again, or check the store");
}

static void conclude(lki_http_transfer *t, lake_status status) {
  lki_http_call *call = t->call;
  lake_buffer *sink = call->request.sink;
  call->status = status;
  call->reply.sent = t->send_count > 0;
  call->reply.body_bytes = t->got_bytes;
  if (t->to_sink) sink->bytes = status == LAKE_OK ? (size_t)t->got_bytes : t->sink_bytes;
  if (status == LAKE_OK) call->error = (lake_error)LAKE_ERROR_INIT;
  if (t->easy != NULL) curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, NULL);
  t->easy = NULL;
}

void lki_http_transfer_end(lki_http_transfer *t, CURLcode code) {
  char text[SHOWN_BYTES], what_to_do[ADVICE_BYTES];
  if (code == CURLE_OK) check_whole(t);
  lake_status status = t->refused;
  if (status != LAKE_OK) {
    lki_error_copy(&t->call->error, &t->why);
  } else {
    status = status_of(t, code);
    const char *what = t->curl_text[0] != 0 ? t->curl_text : curl_easy_strerror(code);
    if (status != LAKE_OK)
      lki_fail(&t->call->error, status, "%s: %.180s%s", shown(t, text), what,
               advice(t, status, code, what_to_do));
  }
  conclude(t, status);
}

void lki_http_transfer_stop(lki_http_transfer *t, lake_status status, const char *why) {
  char text[SHOWN_BYTES];
  lki_fail(&t->call->error, status, "%s: %s", shown(t, text), why);
  conclude(t, status);
}
