/* HTTP/1.1 requests and replies; see http.h. */
#define _GNU_SOURCE
#include "http.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEAD_BYTES_MAX 60000
#define BODY_BYTES_MAX ((size_t)1 << 30)

/* ---- requests ---- */

const char *request_header(const request *q, const char *name) {
  for (size_t i = 0; i < q->header_count; i++)
    if (strcmp(q->headers[i].name, name) == 0) return q->headers[i].value;
  return NULL;
}

const char *request_param(const request *q, const char *name) {
  for (size_t i = 0; i < q->param_count; i++)
    if (strcmp(q->params[i].name, name) == 0) return q->params[i].value;
  return NULL;
}

bool request_has_prefix(const request *q, const char *prefix) {
  for (size_t i = 0; i < q->header_count; i++)
    if (strncmp(q->headers[i].name, prefix, strlen(prefix)) == 0) return true;
  return false;
}

/* Copies the head, up to and without its empty line, into storage; 0 when the peer goes first. */
static int read_head(conn *c, request *q) {
  for (size_t seen = 0;;) {
    const char *begin = c->buffer + c->at;
    const size_t ready = c->end - c->at;
    const char *end = memmem(begin + seen, ready - seen, "\r\n\r\n", 4);
    if (end != NULL) {
      q->storage = must_copy(begin, (size_t)(end - begin) + 2);
      c->at += (size_t)(end - begin) + 4;
      return 1;
    }
    if (ready > HEAD_BYTES_MAX) return 431;
    seen = ready > 3 ? ready - 3 : 0;
    if (!conn_fill(c)) return 0;
  }
}

static bool parse_headers(request *q, char *line) {
  while (*line) {
    char *end = strstr(line, "\r\n");
    if (end == NULL || q->header_count == HEADERS_MAX) return false;
    *end = 0;
    char *colon = strchr(line, ':');
    if (colon == NULL || colon == line) return false;
    *colon = 0;
    for (char *s = line; *s; s++) {
      if (isspace((unsigned char)*s)) return false;
      *s = (char)tolower((unsigned char)*s);
    }
    char *value = colon + 1 + strspn(colon + 1, " \t");
    for (char *s = end; s > value && (s[-1] == ' ' || s[-1] == '\t'); s--) s[-1] = 0;
    q->headers[q->header_count++] = (pair){line, value};
    line = end + 2;
  }
  return true;
}

static bool parse_query(request *q, const char *query) {
  q->query_storage = must_copy(query, strlen(query));
  char *rest = q->query_storage;
  for (char *word; (word = strsep(&rest, "&")) != NULL;) {
    if (*word == 0) continue;
    if (q->param_count == PARAMS_MAX) return false;
    char *value = strchr(word, '=');
    if (value != NULL) *value++ = 0;
    else value = word + strlen(word);
    if (!url_decode(word, true) || !url_decode(value, true)) return false;
    q->params[q->param_count++] = (pair){word, value};
  }
  return true;
}

static bool parse_request_line(request *q) {
  char *line_end = strstr(q->storage, "\r\n");
  *line_end = 0;
  char *target = strchr(q->storage, ' ');
  char *version = target != NULL ? strchr(target + 1, ' ') : NULL;
  if (version == NULL || strncmp(version + 1, "HTTP/1.", 7) != 0 || target[1] != '/') return false;
  *target++ = 0, *version++ = 0;
  q->method = q->storage;
  q->target = target;
  q->keep_alive = strcmp(version, "HTTP/1.1") == 0;
  const char *query = strchr(target, '?');
  q->path = must_copy(target, query != NULL ? (size_t)(query - target) : strlen(target));
  return parse_query(q, query != NULL ? query + 1 : "") && parse_headers(q, line_end + 2);
}

int request_read(conn *c, request *q) {
  *q = (request){0};
  const int status = read_head(c, q);
  if (status != 1) return status;
  if (!parse_request_line(q)) return 400;
  const char *connection = request_header(q, "connection");
  if (connection != NULL && strcasecmp(connection, "close") == 0) q->keep_alive = false;
  if (request_header(q, "transfer-encoding") != NULL) return 501;
  const char *length = request_header(q, "content-length");
  const size_t bytes = length != NULL ? (size_t)strtoull(length, NULL, 10) : 0;
  if (bytes > BODY_BYTES_MAX) return 413;
  const char *expect = request_header(q, "expect");
  if (expect != NULL && strcasecmp(expect, "100-continue") == 0 &&
      !conn_write(c, "HTTP/1.1 100 Continue\r\n\r\n", 25, false))
    return 0;
  q->body = blob_new(bytes);
  return conn_read(c, q->body->data, bytes) ? 1 : 0;
}

void request_free(request *q) {
  blob_drop(q->body);
  free(q->storage);
  free(q->path);
  free(q->query_storage);
  free(q->bucket);
  free(q->key);
  free(q->name);
}

bool request_split_path(request *q, const char *path) {
  const size_t bucket_bytes = strcspn(path, "/");
  q->bucket = must_copy(path, bucket_bytes);
  q->key = must_copy(path + bucket_bytes, strlen(path + bucket_bytes));
  if (*q->key == '/') memmove(q->key, q->key + 1, strlen(q->key));
  if (!url_decode(q->bucket, false) || !url_decode(q->key, false)) return false;
  text name = {0};
  text_add(&name, "%s/%s", q->bucket, q->key);
  q->name = name.data;
  return true;
}

range_kind range_parse(const char *value, size_t object_bytes, size_t *from, size_t *bytes) {
  *from = 0, *bytes = object_bytes;
  if (value == NULL || strncmp(value, "bytes=", 6) != 0) return RANGE_NONE;
  const char *s = value + 6;
  char *end = NULL;
  if (*s == '-' && isdigit((unsigned char)s[1])) {
    const size_t last = strtoull(s + 1, &end, 10);
    if (*end) return RANGE_NONE;
    if (last == 0 || object_bytes == 0) return RANGE_OUTSIDE;
    *bytes = last < object_bytes ? last : object_bytes;
    *from = object_bytes - *bytes;
    return RANGE_SOME;
  }
  if (!isdigit((unsigned char)*s)) return RANGE_NONE;
  const size_t first = strtoull(s, &end, 10);
  size_t last = SIZE_MAX;
  if (*end++ != '-') return RANGE_NONE;
  if (*end) {
    if (!isdigit((unsigned char)*end)) return RANGE_NONE;
    last = strtoull(end, &end, 10);
    if (*end || last < first) return RANGE_NONE;
  }
  if (first >= object_bytes) return RANGE_OUTSIDE;
  if (last >= object_bytes) last = object_bytes - 1;
  *from = first, *bytes = last - first + 1;
  return RANGE_SOME;
}

/* ---- replies ---- */

void reply_header(reply *r, const char *name, const char *format, ...) {
  char value[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(value, sizeof value, format, args);
  va_end(args);
  text_add(&r->headers, "%s: %s\r\n", name, value);
}

void reply_free(reply *r) {
  text_free(&r->headers);
  text_free(&r->page);
  blob_drop(r->object);
  r->object = NULL;
}

static const char *reason(int status) {
  switch (status) {
  case 200: return "OK";
  case 201: return "Created";
  case 202: return "Accepted";
  case 204: return "No Content";
  case 206: return "Partial Content";
  case 304: return "Not Modified";
  case 400: return "Bad Request";
  case 403: return "Forbidden";
  case 404: return "Not Found";
  case 409: return "Conflict";
  case 412: return "Precondition Failed";
  case 416: return "Requested Range Not Satisfiable";
  case 429: return "Too Many Requests";
  case 500: return "Internal Server Error";
  case 503: return "Service Unavailable";
  default: return "Status";
  }
}

static void put_head(text *head, const reply *r, size_t body_bytes, body_shape shape, bool close, int64_t date_unix_s) {
  text_add(head, "HTTP/1.1 %d %s\r\nDate: ", r->status, reason(r->status));
  text_date_http(head, date_unix_s);
  text_add(head, "\r\n%s", text_of(&r->headers));
  if (r->ranged)
    text_add(head, "Content-Range: bytes %llu-%llu/%zu\r\n", (unsigned long long)(r->from + r->range_lie),
             (unsigned long long)(r->from + r->range_lie + r->bytes - 1), r->object->bytes);
  if (shape != BODY_CLOSE_DELIMITED && r->status != 204 && r->status != 304)
    text_add(head, "Content-Length: %zu\r\n", body_bytes);
  text_add(head, close ? "Connection: close\r\n\r\n" : "\r\n");
}

static bool drip(conn *c, const unsigned char *body, size_t bytes, int ms) {
  for (size_t i = 0; i < bytes; i++)
    if (!conn_wait(c, ms) || !conn_write(c, body + i, 1, false)) return false;
  return true;
}

/* Everything but the head; says whether the connection lives on. */
static bool send_body(conn *c, const unsigned char *body, size_t bytes, body_shape shape, int drip_ms) {
  const size_t half = bytes / 2;
  unsigned char flipped;
  switch (shape) {
  case BODY_SHORT:
  case BODY_CLOSE_DELIMITED:
  case BODY_RESET:
    conn_write(c, body, half, false);
    return false;
  case BODY_EXTRA:
    if (conn_write(c, body, bytes, true)) conn_write(c, "surplus", 7, false);
    return false;
  case BODY_FLIPPED:
    flipped = (unsigned char)(body[half] ^ 4u);
    return conn_write(c, body, half, true) && conn_write(c, &flipped, 1, half + 1 < bytes) &&
           conn_write(c, body + half + 1, bytes - half - 1, false);
  case BODY_DRIP: return drip(c, body, bytes, drip_ms);
  case BODY_TRUE: break;
  }
  return conn_write(c, body, bytes, false);
}

bool reply_send(conn *c, const request *q, reply *r, body_shape shape, int drip_ms, int64_t date_unix_s) {
  const unsigned char *body = r->object != NULL ? r->object->data + r->from : (const unsigned char *)text_of(&r->page);
  const size_t bytes = r->object != NULL ? r->bytes : r->page.bytes;
  const bool bodiless = r->no_body || r->status == 204 || r->status == 304;
  const bool close = !q->keep_alive || shape == BODY_CLOSE_DELIMITED;
  text head = {0};
  put_head(&head, r, bytes, shape, close, date_unix_s);
  const bool now = bodiless || bytes == 0 || shape == BODY_DRIP;
  bool alive = conn_write(c, head.data, head.bytes, !now);
  if (alive && !bodiless && bytes > 0) alive = send_body(c, body, bytes, shape, drip_ms);
  text_free(&head);
  return alive && !close;
}
