/* What all connections share, and what a dialect is. The options never change once the server runs; the rest looks
 * after itself. */
#ifndef FAULTD_SERVER_H
#define FAULTD_SERVER_H

#include "faults.h"

/* Why a request is refused, whatever the dialect calls it. */
typedef enum refusal {
  REFUSE_BROKEN,     /* 500 */
  REFUSE_SLOWDOWN,   /* 503 with Retry-After */
  REFUSE_THROTTLED,  /* 429 */
  REFUSE_UNDECIDED,  /* 409: a race is not over */
  REFUSE_TAKEN_409,
  REFUSE_SKEWED,     /* the request's date is too far from the server's */
  REFUSE_EXPIRED,    /* the token has expired */
  REFUSE_ANONYMOUS,  /* no credentials */
  REFUSE_STRANGER,   /* credentials of nobody that is known */
  REFUSE_SIGNATURE,  /* they do not fit */
  REFUSE_BODY_HASH,  /* the body is not the one that was signed */
  REFUSE_REGION,     /* 301: the bucket is in another region */
  REFUSE_TIMES,      /* a shared access signature's time is over, or not yet come; Azure's only, as the next two */
  REFUSE_RESOURCE,   /* it is for another kind of thing */
  REFUSE_PERMISSION, /* it does not permit this */
  REFUSE_LIMIT
} refusal;

typedef struct refusal_text {
  int status;
  const char *code, *message;
} refusal_text;

typedef struct server server;

typedef struct dialect {
  const char *name;
  void (*classify)(const server *s, request *q); /* sets op, bucket, key, name */
  void (*answer)(server *s, request *q, reply *r);
  void (*error)(const request *q, reply *r, int status, const char *code, const char *message);
  refusal_text refusals[REFUSE_LIMIT];
} dialect;

extern const dialect dialect_s3, dialect_gcs, dialect_azure;

typedef struct server_options {
  const dialect *dialect;
  int port;
  int delay_ms;
  const char *tls_cert, *tls_key;
  const char *auth_key, *auth_secret; /* NULL: anybody may do anything */
  const char *token;                  /* session token, or bearer token */
  const char *region;
  size_t page_max;                    /* rows in a page of a listing; 0: as the dialect's */
  size_t part_min;                    /* bytes of a part of a multipart upload that is not the last */
  bool versioned, suspended;
  int no_delete_many;                 /* the status that refuses "?delete" as not known here; 0: it is known */
} server_options;

typedef struct request_log request_log;

struct server {
  server_options options;
  table *objects;
  faults *rules;
  request_log *log;
  SSL_CTX *tls;
  atomic_ullong request_count;
};

void serve_connection(server *s, conn *c); /* until the peer or a fault ends it; closes it */
void control_answer(server *s, request *q, reply *r);

/* False, with the refusal, when the request does not prove whom it comes from. now_unix_s is the server's clock. */
bool auth_check(const server *s, const request *q, int64_t now_unix_s, refusal *why);
/* The signatures' checks, each of its kind of Authorization header. */
bool sign_check_v4(const server *s, const request *q, const char *authorization, refusal *why);
bool sign_check_azure(const server *s, const request *q, const char *authorization, refusal *why);

/* A shared access signature; sas.c. */
bool sas_check(const server *s, const request *q, int64_t now_unix_s, refusal *why);

void refuse(const server *s, const request *q, reply *r, refusal why);

/* ---- for dialects ---- */

/* Puts by the request's condition and faults; false: taken. */
bool object_put(server *s, const request *q, blob *b);
/* The object as this request is to see it, or NULL. */
blob *object_get(server *s, const request *q);
/* Fills a reply to GET or HEAD with an object, whose reference it takes, and a range; false: the range is outside. */
bool object_send(const request *q, reply *r, blob *object, const char *range);
size_t page_limit(const server *s, const char *asked, size_t most);
/* Joins parts into one sealed blob, whose ETag it does not set; drops the parts. */
blob *blob_join(blob **parts, size_t count);
/* Compares an If-Match or If-None-Match value with an ETag: "*" and quotes are understood. */
bool etag_fits(const char *value, const blob *object);

/* ---- the log of requests ---- */

request_log *request_log_new(void);
uint64_t request_log_add(request_log *l, const conn *c, const request *q); /* an id for request_log_end */
void request_log_end(request_log *l, uint64_t id, int status, fault before, fault after);
void request_log_report(request_log *l, text *json);
void request_log_reset(request_log *l);

#endif
