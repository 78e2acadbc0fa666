/* HTTP/1.1 requests and replies. A request and its reply belong to the thread of their connection. */
#ifndef FAULTD_HTTP_H
#define FAULTD_HTTP_H

#include "table.h"
#include "text.h"
#include "wire.h"

typedef struct pair {
  char *name, *value;
} pair;

/* What a request does, for rules. A create is a put with a condition that lets only the first pass. */
typedef enum op { OP_GET, OP_PUT, OP_CREATE, OP_HEAD, OP_LIST, OP_DELETE, OP_COMPLETE, OP_OTHER, OP_COUNT } op;

#define HEADERS_MAX 100
#define PARAMS_MAX 64

typedef struct request {
  char *storage;           /* the head, cut into what the pointers below point to */
  const char *method;
  char *target;            /* as sent */
  char *path;              /* as sent, without the query */
  pair headers[HEADERS_MAX]; /* names in lower case */
  size_t header_count;
  char *query_storage;
  pair params[PARAMS_MAX]; /* decoded */
  size_t param_count;
  blob *body;              /* one reference */
  bool keep_alive;
  /* Set by the dialect. */
  op op;
  bool conditional; /* it may only create */
  char *bucket; /* "" for none; owned */
  char *key;    /* "" for none; owned */
  char *name;   /* "bucket/key"; owned */
  /* Set by faults. */
  bool condition_ignored, condition_inverted, stale, held;
  unsigned list_undo;
  const char *key_fault; /* CODE:PART, for keys among many; borrowed; NULL: none */
} request;

/* The body is a page, or `bytes` bytes of an object from `from` on. */
typedef struct reply {
  int status;
  text headers; /* whole lines */
  text page;
  blob *object; /* one reference */
  size_t from, bytes;
  bool ranged;           /* 206 with a Content-Range */
  bool no_body;          /* the lengths are told, the body is not sent: the reply to HEAD */
  bool taken;            /* a condition refused what was to be created */
  bool missing;          /* 404 about this very object */
  uint64_t range_lie;    /* added to the offsets that Content-Range tells */
} reply;

/* How the body is sent. */
typedef enum body_shape {
  BODY_TRUE, BODY_SHORT, BODY_CLOSE_DELIMITED, BODY_EXTRA, BODY_FLIPPED, BODY_RESET, BODY_DRIP
} body_shape;

/* 1: a request; 0: the peer has gone; an HTTP status: the request is no HTTP. */
int request_read(conn *c, request *q);
void request_free(request *q);
const char *request_header(const request *q, const char *name); /* NULL when it is not there */
const char *request_param(const request *q, const char *name);  /* "" without a value, NULL when not there */
bool request_has_prefix(const request *q, const char *prefix);  /* a header whose name begins so */
/* Cuts the path behind the first slash into bucket and key and decodes them; false when an escape is broken. */
bool request_split_path(request *q, const char *path);

typedef enum range_kind { RANGE_NONE, RANGE_SOME, RANGE_OUTSIDE } range_kind;
/* Of "bytes=..." about an object of so many bytes. What is no single valid range counts as none, by the RFC. */
range_kind range_parse(const char *value, size_t object_bytes, size_t *from, size_t *bytes);

void reply_header(reply *r, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
void reply_free(reply *r);
/* False when the connection cannot be used again; BODY_RESET leaves the reset itself to the caller. drip_ms is the time
 * from one byte to the next. */
bool reply_send(conn *c, const request *q, reply *r, body_shape shape, int drip_ms, int64_t date_unix_s);

#endif
