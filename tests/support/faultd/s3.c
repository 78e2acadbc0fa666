/* The S3 dialect: objects, and the way to the other files. Path style /bucket/key, or virtual-host style where the host
 * is BUCKET.localhost. */
#define _GNU_SOURCE
#include "s3.h"
#include <ctype.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

bool s3_is_gcs(const server *s) { return s->options.dialect == &dialect_gcs; }

void s3_error(const request *q, reply *r, int status, const char *code, const char *message) {
  r->status = status;
  reply_header(r, "Content-Type", "application/xml");
  text_add(&r->page, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>%s</Code><Message>%s</Message>", code, message);
  text_add(&r->page, "<Resource>");
  text_xml(&r->page, q->path);
  text_add(&r->page, "</Resource><RequestId>faultd</RequestId><HostId>faultd</HostId></Error>");
}

void s3_no_such_key(const request *q, reply *r) {
  s3_error(q, r, 404, "NoSuchKey", "The specified key does not exist.");
  r->missing = true;
}

void s3_taken(const request *q, reply *r) {
  s3_error(q, r, 412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold");
  r->taken = true;
}

char *xml_next(const char **at, const char *name) {
  text open = {0}, close = {0}, value = {0};
  text_add(&open, "<%s>", name);
  text_add(&close, "</%s>", name);
  const char *begin = strstr(*at, open.data), *end = begin != NULL ? strstr(begin, close.data) : NULL;
  if (end != NULL) {
    text_add(&value, "%s", "");
    for (const char *s = begin + open.bytes; s < end; s++) {
      static const char *const ESCAPES[][2] = {{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}};
      const char *plain = s;
      size_t skip = 0;
      for (size_t i = 0; i < 5; i++)
        if (strncmp(s, ESCAPES[i][0], strlen(ESCAPES[i][0])) == 0)
          plain = ESCAPES[i][1], skip = strlen(ESCAPES[i][0]) - 1;
      text_put(&value, plain, 1);
      s += skip;
    }
    *at = end + close.bytes;
  }
  text_free(&open);
  text_free(&close);
  return value.data;
}

/* ---- which request it is ---- */

/* The path with the bucket in front, when the host names it: "b.localhost:80" and "/k" are "b/k". */
static char *full_path(const request *q) {
  text path = {0};
  const char *host = request_header(q, "host");
  const char *dot = host != NULL ? strstr(host, ".localhost") : NULL;
  if (dot != NULL) text_put(&path, host, (size_t)(dot - host));
  text_add(&path, "%s", dot != NULL ? q->path : q->path + 1);
  return path.data;
}

void s3_classify(const server *s, request *q, bool create) {
  char *path = full_path(q);
  const bool sound = request_split_path(q, path);
  free(path);
  q->op = OP_OTHER;
  if (!sound) return;
  const bool object = *q->key != 0;
  const char *m = q->method;
  if (strcmp(m, "GET") == 0) {
    if (object) q->op = request_param(q, "uploadId") == NULL ? OP_GET : OP_OTHER;
    else if (request_param(q, "list-type") != NULL || request_param(q, "uploads") != NULL) q->op = OP_LIST;
  } else if (strcmp(m, "HEAD") == 0) {
    if (object) q->op = OP_HEAD;
  } else if (strcmp(m, "PUT") == 0) {
    if (object && request_param(q, "uploadId") == NULL) q->op = create ? OP_CREATE : OP_PUT;
  } else if (strcmp(m, "DELETE") == 0) {
    if (object && request_param(q, "uploadId") == NULL) q->op = OP_DELETE;
  } else if (strcmp(m, "POST") == 0) {
    if (object && request_param(q, "uploadId") != NULL) q->op = OP_COMPLETE;
    else if (!object && request_param(q, "delete") != NULL) q->op = OP_DELETE;
  }
  /* GCS knows no conditions on multipart uploads. */
  q->conditional = create && (q->op == OP_CREATE || (q->op == OP_COMPLETE && !s3_is_gcs(s)));
}

static void classify(const server *s, request *q) {
  const char *condition = request_header(q, "if-none-match");
  s3_classify(s, q, condition != NULL && strcmp(condition, "*") == 0);
}

/* ---- objects ---- */

static void add_object_headers(const server *s, reply *r, const blob *object) {
  text date = {0};
  text_date_http(&date, object->modified_unix_s);
  reply_header(r, "Last-Modified", "%s", date.data);
  reply_header(r, "ETag", "\"%s\"", object->etag);
  reply_header(r, "Accept-Ranges", "bytes");
  reply_header(r, "Content-Type", "binary/octet-stream");
  if (s3_is_gcs(s)) {
    reply_header(r, "x-goog-generation", "%llu", (unsigned long long)object->generation);
    reply_header(r, "x-goog-stored-content-length", "%zu", object->bytes);
  }
  text_free(&date);
}

/* GET and HEAD. */
static void get_object(server *s, const request *q, reply *r) {
  blob *object = object_get(s, q);
  if (object == NULL) {
    s3_no_such_key(q, r);
    return;
  }
  const char *match = request_header(q, "if-match"), *none = request_header(q, "if-none-match");
  const char *generation = s3_is_gcs(s) ? request_header(q, "x-goog-if-generation-match") : NULL;
  if ((match != NULL && !etag_fits(match, object)) ||
      (generation != NULL && strtoull(generation, NULL, 10) != object->generation)) {
    s3_error(q, r, 412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold");
    blob_drop(object);
  } else if (none != NULL && etag_fits(none, object)) {
    r->status = 304;
    blob_drop(object);
  } else {
    add_object_headers(s, r, object);
    if (object_send(q, r, object, request_header(q, "range"))) return;
    s3_error(q, r, 416, "InvalidRange", "The requested range is not satisfiable");
  }
}

bool s3_md5_fits(const request *q) {
  const char *told = request_header(q, "content-md5");
  unsigned char want[24], got[EVP_MAX_MD_SIZE];
  unsigned bytes = 0;
  if (told == NULL) return true;
  if (base64_decode(told, want, sizeof want) != 16) return false;
  EVP_Digest(q->body->data, q->body->bytes, got, &bytes, EVP_md5(), NULL);
  return memcmp(want, got, 16) == 0;
}

static void put_object(server *s, const request *q, reply *r) {
  if (request_header(q, "x-amz-copy-source") != NULL || request_header(q, "if-match") != NULL) {
    s3_error(q, r, 501, "NotImplemented", "A header you provided implies functionality that is not implemented");
    return;
  }
  if (!s3_md5_fits(q)) {
    s3_error(q, r, 400, "BadDigest", "The Content-MD5 you specified did not match what we received.");
    return;
  }
  if (q->body->etag[0] == 0) blob_seal(q->body);
  if (!object_put(s, q, q->body)) {
    s3_taken(q, r);
    return;
  }
  r->status = 200;
  reply_header(r, "ETag", "\"%s\"", q->body->etag);
  if (s3_is_gcs(s)) reply_header(r, "x-goog-generation", "%llu", (unsigned long long)q->body->generation);
}

static void delete_object(server *s, const request *q, reply *r) {
  const bool present = table_remove(s->objects, q->name);
  if (!present && s3_is_gcs(s)) s3_no_such_key(q, r); /* S3 does not tell */
  else r->status = 204;
}

/* ---- buckets ---- */

static void answer_bucket(server *s, request *q, reply *r) {
  const char *m = q->method;
  const char *const ns = "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"";
  const bool get = strcmp(m, "GET") == 0;
  r->status = 200;
  if (get && request_param(q, "list-type") != NULL) s3_list(s, q, r);
  else if (get && request_param(q, "uploads") != NULL) s3_list_uploads(s, q, r);
  else if (get && request_param(q, "versioning") != NULL)
    text_add(&r->page, "<VersioningConfiguration %s>%s</VersioningConfiguration>", ns,
             s->options.versioned ? "<Status>Enabled</Status>" : s->options.suspended ? "<Status>Suspended</Status>" : "");
  else if (get && request_param(q, "location") != NULL)
    text_add(&r->page, "<LocationConstraint %s>%s</LocationConstraint>", ns, s->options.region != NULL ? s->options.region : "");
  else if (strcmp(m, "HEAD") == 0 || strcmp(m, "PUT") == 0)
    reply_header(r, "x-amz-bucket-region", "%s", s->options.region != NULL ? s->options.region : "us-east-1");
  else if (strcmp(m, "DELETE") == 0) r->status = 204;
  else if (strcmp(m, "POST") == 0 && request_param(q, "delete") != NULL) s3_delete_many(s, q, r);
  else s3_error(q, r, 501, "NotImplemented", "Not known to this double.");
}

void s3_answer(server *s, request *q, reply *r) {
  const bool upload = request_param(q, "uploadId") != NULL;
  const char *m = q->method;
  if (q->name == NULL) s3_error(q, r, 400, "InvalidURI", "Couldn't parse the specified URI.");
  else if (strcmp(q->bucket, "no-such-bucket") == 0)
    s3_error(q, r, 404, "NoSuchBucket", "The specified bucket does not exist");
  else if (*q->key == 0) answer_bucket(s, q, r);
  else if (q->op == OP_GET || q->op == OP_HEAD) get_object(s, q, r);
  else if (strcmp(m, "PUT") == 0 && upload) s3_upload_part(s, q, r);
  else if (strcmp(m, "PUT") == 0) put_object(s, q, r);
  else if (strcmp(m, "DELETE") == 0 && upload) s3_upload_abort(s, q, r);
  else if (strcmp(m, "DELETE") == 0) delete_object(s, q, r);
  else if (strcmp(m, "POST") == 0 && upload) s3_upload_complete(s, q, r);
  else if (strcmp(m, "POST") == 0 && request_param(q, "uploads") != NULL) s3_upload_begin(s, q, r);
  else s3_error(q, r, 501, "NotImplemented", "Not known to this double.");
}

const dialect dialect_s3 = {
    .name = "s3",
    .classify = classify,
    .answer = s3_answer,
    .error = s3_error,
    .refusals = {
        [REFUSE_BROKEN] = {500, "InternalError", "We encountered an internal error. Please try again."},
        [REFUSE_SLOWDOWN] = {503, "SlowDown", "Please reduce your request rate."},
        [REFUSE_THROTTLED] = {429, "TooManyRequests", "Please reduce your request rate."},
        [REFUSE_UNDECIDED] = {409, "ConditionalRequestConflict", "A conflicting conditional operation is currently in progress "
                                                                 "against this resource. Please try again."},
        [REFUSE_TAKEN_409] = {409, "ObjectAlreadyExists", "The object already exists."},
        [REFUSE_SKEWED] = {403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large."},
        [REFUSE_EXPIRED] = {400, "ExpiredToken", "The provided token has expired."},
        [REFUSE_ANONYMOUS] = {403, "AccessDenied", "Access Denied"},
        [REFUSE_PERMISSION] = {403, "AccessDenied", "Access Denied"},
        [REFUSE_STRANGER] = {403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."},
        [REFUSE_SIGNATURE] = {403, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you "
                                                            "provided. Check your key and signing method."},
        [REFUSE_BODY_HASH] = {400, "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed."},
        [REFUSE_REGION] = {301, "PermanentRedirect", "The bucket you are attempting to access must be addressed using the specified endpoint."},
    },
};
