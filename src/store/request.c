/* Requests as decoded text, and their one encoding. What goes wrong while a request is built is kept and told at the
 * end, so that callers need not ask after each line. Values may be secrets: they are wiped when they are let go. */
#include "store/request.h"
#include "base/codec.h"
#include "base/env.h"
#include "base/error.h"
#include "store/digest.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define URL_BYTES_MAX ((size_t)64 * 1024)

/* ---- percent encoding ---- */

static bool unreserved(unsigned char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

char *lki_percent_encode(lki_arena *arena, const char *text, bool keep_slash) {
  static const char digits[] = "0123456789ABCDEF";
  size_t bytes = 1;
  for (const char *at = text; *at; at++) bytes += unreserved((unsigned char)*at) || (keep_slash && *at == '/') ? 1 : 3;
  char *out = lki_arena_alloc(arena, bytes);
  if (out == NULL) return NULL;
  char *dst = out;
  for (const char *at = text; *at; at++) {
    const unsigned char c = (unsigned char)*at;
    if (unreserved(c) || (keep_slash && c == '/')) {
      *dst++ = (char)c;
      continue;
    }
    *dst++ = '%';
    *dst++ = digits[c >> 4];
    *dst++ = digits[c & 15];
  }
  return out; /* terminated: the arena zeroes */
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool lki_percent_decode(const char *text, char *dst) {
  while (*text) {
    if (*text != '%') {
      *dst++ = *text++;
      continue;
    }
    const int high = hex_digit(text[1]);
    const int low = high < 0 ? -1 : hex_digit(text[2]);
    if (low < 0 || high * 16 + low == 0) return false;
    *dst++ = (char)(high * 16 + low);
    text += 3;
  }
  *dst = 0;
  return true;
}

/* ---- building ---- */

static void fail(lki_request *request, const char *why) {
  if (request->failed) return; /* the first cause is the one to tell */
  request->failed = true;
  request->why = why;
}

static const char *copy(lki_request *request, const char *text) {
  const char *out = lki_arena_strndup(&request->arena, text, strlen(text));
  if (out == NULL) fail(request, NULL);
  return out;
}

static void wipe(const char *value) {
  /* The text is the arena's own: const only for those who read it. */
  if (value != NULL) lki_wipe((char *)(uintptr_t)value, strlen(value));
}

/* The Host header that belongs to an origin: a port that is the scheme's own is not written there. */
static const char *host_of(lki_request *request, const char *origin) {
  const bool https = strncmp(origin, "https://", 8) == 0;
  if (!https && strncmp(origin, "http://", 7) != 0) {
    fail(request, "the origin is not http:// or https://");
    return NULL;
  }
  const char *host = origin + (https ? 8 : 7);
  size_t bytes = strlen(host);
  const char *port = https ? ":443" : ":80";
  const size_t port_bytes = strlen(port);
  if (bytes > port_bytes && strcmp(host + bytes - port_bytes, port) == 0) bytes -= port_bytes;
  bool plain = bytes > 0 && host[0] != ':';
  for (size_t i = 0; i < bytes; i++) /* "@" would be a password in the open, "/" a path that nobody signs */
    plain = plain && host[i] > 0x20 && host[i] != 0x7f && strchr("/?#@\\", host[i]) == NULL;
  if (!plain) {
    fail(request, "the origin is not scheme://host or scheme://host:port");
    return NULL;
  }
  const char *out = lki_arena_strndup(&request->arena, host, bytes);
  if (out == NULL) fail(request, NULL);
  return out;
}

void lki_request_init(lki_request *request, lake_env *env, const char *method, const char *origin, const char *path) {
  memset(request, 0, sizeof *request);
  lki_arena_init(&request->arena, env);
  request->method = method;
  request->origin = copy(request, origin);
  request->path = copy(request, path);
  request->host = host_of(request, origin);
  if (path[0] != '/') fail(request, "the path does not begin with '/'");
}

void lki_request_query(lki_request *request, const char *name, const char *value) {
  if (request->query_count == LKI_REQUEST_PAIRS_MAX) {
    fail(request, "too many query parameters");
    return;
  }
  lki_pair pair = {copy(request, name), copy(request, value)};
  if (name[0] == 0) fail(request, "a query parameter without a name");
  if (!request->failed) request->query[request->query_count++] = pair;
}

static bool header_name_good(const char *name) {
  static const char token[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
  return name[0] != 0 && name[strspn(name, token)] == 0;
}

/* No line break or other control character gets into a header: it could be a header of somebody else's. */
static bool header_value_good(const char *value) {
  for (const unsigned char *p = (const unsigned char *)value; *p; p++)
    if ((*p < 0x20 && *p != '\t') || *p == 0x7f) return false;
  return true;
}

void lki_request_header(lki_request *request, const char *name, const char *value) {
  if (!header_name_good(name)) {
    fail(request, "a header name that is empty or has other characters than a-z 0-9 - _ .");
    return;
  }
  if (!header_value_good(value)) {
    fail(request, "a header value with a control character");
    return;
  }
  size_t i = 0;
  while (i < request->header_count && strcmp(request->headers[i].name, name) != 0) i++;
  if (i == LKI_REQUEST_PAIRS_MAX) {
    fail(request, "too many headers");
    return;
  }
  lki_pair pair = {i < request->header_count ? request->headers[i].name : copy(request, name), copy(request, value)};
  if (request->failed) return;
  if (i < request->header_count) wipe(request->headers[i].value);
  if (i == request->header_count) request->header_count++;
  request->headers[i] = pair;
}

void lki_request_header_drop(lki_request *request, const char *name) {
  for (size_t i = 0; i < request->header_count; i++) {
    if (strcmp(request->headers[i].name, name) != 0) continue;
    wipe(request->headers[i].value);
    request->headers[i] = request->headers[--request->header_count];
    return;
  }
}

void lki_request_header_u64(lki_request *request, const char *name, uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, value);
  lki_request_header(request, name, text);
}

void lki_request_range(lki_request *request, const char *name, lake_range range) {
  char text[64];
  if (range.kind == LAKE_RANGE_WHOLE) return;
  if (range.kind == LAKE_RANGE_EXACT)
    snprintf(text, sizeof text, "bytes=%" PRIu64 "-%" PRIu64, range.offset, range.offset + range.bytes - 1);
  else
    snprintf(text, sizeof text, "bytes=-%" PRIu64, range.bytes);
  lki_request_header(request, name, text);
}

/* ---- the end ---- */

static const char *url_of(lki_request *request) {
  lki_arena *arena = &request->arena;
  lake_buffer text;
  lki_writer w;
  lki_buffer_init(&text, arena->env, URL_BYTES_MAX);
  lki_writer_init(&w, &text);
  lki_put_bytes(&w, request->origin, strlen(request->origin));
  const char *path = lki_percent_encode(arena, request->path, true);
  if (path != NULL) lki_put_bytes(&w, path, strlen(path));
  else fail(request, NULL);
  for (size_t i = 0; i < request->query_count && !request->failed; i++) {
    const char *name = lki_percent_encode(arena, request->query[i].name, false);
    const char *value = lki_percent_encode(arena, request->query[i].value, false);
    if (name == NULL || value == NULL) {
      fail(request, NULL);
      break;
    }
    lki_put_bytes(&w, i == 0 ? "?" : "&", 1);
    lki_put_bytes(&w, name, strlen(name));
    lki_put_bytes(&w, "=", 1);
    lki_put_bytes(&w, value, strlen(value));
    wipe(value);
  }
  if (w.status != LAKE_OK) fail(request, w.status == LAKE_NOMEM ? NULL : "the URL is too long");
  const char *url = NULL;
  if (!request->failed) {
    url = lki_arena_strndup(arena, (const char *)text.data, text.bytes);
    if (url == NULL) fail(request, NULL);
  }
  if (text.data != NULL) lki_wipe(text.data, text.bytes);
  lki_buffer_free(&text);
  return url;
}

lake_status lki_request_finish(lki_request *request, lki_http_request *out, lake_error *err) {
  const char *url = request->failed ? NULL : url_of(request);
  lki_http_header *headers = NULL;
  if (!request->failed) {
    headers = lki_arena_alloc(&request->arena, (request->header_count + 1) * sizeof *headers);
    if (headers == NULL) fail(request, NULL);
  }
  for (size_t i = 0; i < request->header_count && !request->failed; i++) {
    /* The transport would leave it out, and what is signed must be sent. */
    const char *value = request->headers[i].value;
    if (value[strspn(value, " \t")] == 0) fail(request, "a header with an empty value");
    headers[i] = (lki_http_header){request->headers[i].name, request->headers[i].value};
  }
  if (request->failed) {
    const char *origin = request->origin != NULL ? request->origin : "", *path = request->path != NULL ? request->path : "";
    if (request->why == NULL)
      return lki_fail(err, LAKE_NOMEM, "%s %.100s%.200s: out of memory for the request", request->method, origin, path);
    return lki_fail(err, LAKE_INVALID, "%s %.100s%.200s: no request can be made: %s", request->method, origin, path,
                    request->why);
  }
  /* Said in so many words: it is signed, so the transport may not have its own idea of it. */
  headers[request->header_count] = (lki_http_header){"host", request->host};
  request->url = url;
  out->method = request->method;
  out->url = url;
  out->headers = headers;
  out->header_count = request->header_count + 1;
  out->body = request->body;
  return LAKE_OK;
}

void lki_request_free(lki_request *request) {
  for (size_t i = 0; i < request->header_count; i++) wipe(request->headers[i].value);
  for (size_t i = 0; i < request->query_count; i++) wipe(request->query[i].value);
  wipe(request->url);
  request->url = NULL;
  request->header_count = 0;
  request->query_count = 0;
  lki_arena_free(&request->arena);
}
