/* The JSON API of GCS: media and multipart uploads, media, metadata, listings. An object's name is one component of the
 * path, with its slashes encoded. A create has ifGenerationMatch=0 in its query. */
#define _GNU_SOURCE
#include "gcs_json.h"
#include <stdlib.h>
#include <string.h>

#define PAGE_MAX 1000

static const char *const ROOTS[] = {"/storage/v1/b/", "/upload/storage/v1/b/", "/download/storage/v1/b/"};

/* What follows the root, or NULL. */
static const char *below_root(const request *q) {
  for (size_t i = 0; i < sizeof ROOTS / sizeof *ROOTS; i++)
    if (strncmp(q->path, ROOTS[i], strlen(ROOTS[i])) == 0) return q->path + strlen(ROOTS[i]);
  return NULL;
}

bool gcs_json_is(const request *q) { return below_root(q) != NULL; }

static bool is_upload(const request *q) { return strncmp(q->path, "/upload/", 8) == 0; }

static bool param_is(const request *q, const char *name, const char *value) {
  const char *got = request_param(q, name);
  return got != NULL && strcmp(got, value) == 0;
}

void gcs_json_error(reply *r, int status, const char *code, const char *message) {
  static const char *const REASONS[][2] = {
      {"NoSuchKey", "notFound"}, {"NoSuchBucket", "notFound"}, {"PreconditionFailed", "conditionNotMet"},
      {"SlowDown", "rateLimitExceeded"}, {"InternalError", "backendError"}, {"ServiceUnavailable", "backendError"},
      {"AuthenticationRequired", "authError"}, {"AccessDenied", "required"}, {"Conflict", "conflict"},
      {"OperationAborted", "conflict"}};
  const char *reason = "invalid";
  for (size_t i = 0; i < sizeof REASONS / sizeof *REASONS; i++)
    if (strcmp(code, REASONS[i][0]) == 0) reason = REASONS[i][1];
  r->status = status;
  reply_header(r, "Content-Type", "application/json; charset=UTF-8");
  text_add(&r->page, "{\"error\":{\"code\":%d,\"message\":\"", status);
  text_json(&r->page, message);
  text_add(&r->page, "\",\"errors\":[{\"message\":\"");
  text_json(&r->page, message);
  text_add(&r->page, "\",\"domain\":\"global\",\"reason\":\"%s\"}]}}", reason);
}

void gcs_json_classify(request *q) {
  const char *below = below_root(q), *m = q->method;
  const size_t bucket_bytes = strcspn(below, "/");
  const char *rest = below + bucket_bytes; /* "", "/o" or "/o/NAME" */
  const bool listing = strcmp(rest, "/o") == 0, object = strncmp(rest, "/o/", 3) == 0;
  const char *name = request_param(q, "name");
  text path = {0};
  text_put(&path, below, bucket_bytes);
  text_add(&path, "/");
  if (object) text_add(&path, "%s", rest + 3);
  else if (is_upload(q) && name != NULL) text_url(&path, name, ""); /* in the query it is decoded already */
  const bool sound = request_split_path(q, path.data);
  text_free(&path);
  q->op = OP_OTHER;
  if (!sound) return;
  if (strcmp(m, "GET") == 0 && listing) q->op = OP_LIST;
  else if (strcmp(m, "GET") == 0 && object) q->op = param_is(q, "alt", "media") ? OP_GET : OP_HEAD;
  else if (strcmp(m, "DELETE") == 0 && object) q->op = OP_DELETE;
  else if (strcmp(m, "POST") == 0 && is_upload(q) && listing && *q->key)
    q->op = param_is(q, "ifGenerationMatch", "0") ? OP_CREATE : OP_PUT;
  q->conditional = q->op == OP_CREATE;
}

/* ---- objects ---- */

static void put_metadata(text *t, const char *name, const blob *b) {
  text_add(t, "{\"kind\":\"storage#object\",\"name\":\"");
  text_json(t, name);
  text_add(t, "\",\"size\":\"%zu\",\"generation\":\"%llu\",\"metageneration\":\"1\",\"etag\":\"%s\",\"updated\":\"", b->bytes,
           (unsigned long long)b->generation, b->etag);
  text_date_iso(t, b->modified_unix_s);
  text_add(t, "\"}");
}

static void send_json(reply *r) {
  r->status = 200;
  reply_header(r, "Content-Type", "application/json; charset=UTF-8");
}

/* The second part of a multipart/related body, as a blob of its own; NULL when the body is none. */
static blob *second_part(const request *q) {
  const char *type = request_header(q, "content-type"), *boundary = type != NULL ? strstr(type, "boundary=") : NULL;
  if (boundary == NULL) return NULL;
  text mark = {0};
  boundary += strlen("boundary=");
  if (*boundary == '"') boundary++;
  text_add(&mark, "\r\n--%.*s", (int)strcspn(boundary, "\"; "), boundary);
  const char *body = (const char *)q->body->data, *end = body + q->body->bytes;
  const char *second = memmem(body, q->body->bytes, mark.data, mark.bytes);
  const char *begin = second != NULL ? memmem(second + 2, (size_t)(end - second - 2), "\r\n\r\n", 4) : NULL;
  const char *stop = begin != NULL ? memmem(begin + 4, (size_t)(end - begin - 4), mark.data, mark.bytes) : NULL;
  blob *b = NULL;
  if (stop != NULL) {
    b = blob_new((size_t)(stop - begin - 4));
    memcpy(b->data, begin + 4, b->bytes);
  }
  text_free(&mark);
  return b;
}

static void put_object(server *s, const request *q, reply *r) {
  const char *generation = request_param(q, "ifGenerationMatch");
  blob *b = NULL;
  if (generation != NULL && q->op != OP_CREATE) {
    gcs_json_error(r, 501, "NotImplemented", "Only ifGenerationMatch=0 is known to this double.");
    return;
  }
  if (param_is(q, "uploadType", "media")) b = blob_keep(q->body);
  else if (param_is(q, "uploadType", "multipart")) b = second_part(q);
  if (b == NULL) {
    gcs_json_error(r, 400, "InvalidArgument", "No media upload, and no multipart/related upload that can be read.");
  } else {
    if (b->etag[0] == 0) blob_seal(b);
    if (object_put(s, q, b)) {
      put_metadata(&r->page, q->key, b);
      send_json(r);
    } else {
      gcs_json_error(r, 412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.");
      r->taken = true;
    }
  }
  blob_drop(b);
}

static void get_object(server *s, const request *q, reply *r) {
  blob *object = object_get(s, q);
  if (object == NULL) {
    gcs_json_error(r, 404, "NoSuchKey", "No such object.");
    r->missing = true;
    return;
  }
  if (q->op == OP_HEAD) {
    put_metadata(&r->page, q->key, object);
    send_json(r);
    blob_drop(object);
    return;
  }
  reply_header(r, "Content-Type", "application/octet-stream");
  reply_header(r, "ETag", "\"%s\"", object->etag);
  reply_header(r, "x-goog-generation", "%llu", (unsigned long long)object->generation);
  if (!object_send(q, r, object, request_header(q, "range"))) gcs_json_error(r, 416, "InvalidRange", "Request range not satisfiable");
}

/* ---- buckets ---- */

static char *token_key(const char *token) {
  char *key = must_alloc(strlen(token) / 2 + 1);
  hex_decode(token, (unsigned char *)key, strlen(token) / 2);
  return key;
}

static void list(server *s, const request *q, reply *r) {
  const char *prefix = request_param(q, "prefix"), *from = request_param(q, "startOffset"), *token = request_param(q, "pageToken");
  text full_prefix = {0}, full_from = {0}, full_after = {0};
  text_add(&full_prefix, "%s/%s", q->bucket, prefix != NULL ? prefix : "");
  if (from != NULL) text_add(&full_from, "%s/%s", q->bucket, from);
  if (token != NULL) {
    char *last = token_key(token);
    text_add(&full_after, "%s/%s", q->bucket, last);
    free(last);
  }
  const size_t limit = page_limit(s, request_param(q, "maxResults"), PAGE_MAX), skip = strlen(q->bucket) + 1;
  table_rows rows = table_list(s->objects, &(table_query){full_prefix.data, full_after.data, full_from.data, limit, q->list_undo});
  send_json(r);
  text_add(&r->page, "{\"kind\":\"storage#objects\"");
  for (size_t i = 0; i < rows.count; i++) {
    text_add(&r->page, i == 0 ? ",\"items\":[" : ",");
    put_metadata(&r->page, rows.at[i].name + skip, rows.at[i].object);
  }
  if (rows.count > 0) text_add(&r->page, "]");
  if (rows.more && rows.count > 0) {
    const char *last = rows.at[rows.count - 1].name + skip;
    text_add(&r->page, ",\"nextPageToken\":\"");
    text_hex(&r->page, last, strlen(last));
    text_add(&r->page, "\"");
  }
  text_add(&r->page, "}");
  table_rows_free(&rows);
  text_free(&full_prefix);
  text_free(&full_from);
  text_free(&full_after);
}

static void describe_bucket(const server *s, const request *q, reply *r) {
  send_json(r);
  text_add(&r->page, "{\"kind\":\"storage#bucket\",\"name\":\"");
  text_json(&r->page, q->bucket);
  text_add(&r->page, "\",\"versioning\":{\"enabled\":%s}}", s->options.versioned ? "true" : "false");
}

void gcs_json_answer(server *s, request *q, reply *r) {
  if (q->name == NULL) gcs_json_error(r, 400, "InvalidURI", "The name cannot be decoded.");
  else if (strcmp(q->bucket, "no-such-bucket") == 0) gcs_json_error(r, 404, "NoSuchBucket", "The specified bucket does not exist.");
  else if (q->op == OP_LIST && request_param(q, "delimiter") == NULL) list(s, q, r);
  else if (q->op == OP_GET || q->op == OP_HEAD) get_object(s, q, r);
  else if (q->op == OP_PUT || q->op == OP_CREATE) put_object(s, q, r);
  else if (q->op == OP_DELETE && table_remove(s->objects, q->name)) r->status = 204;
  else if (q->op == OP_DELETE) gcs_json_error(r, 404, "NoSuchKey", "No such object.");
  else if (strcmp(q->method, "GET") == 0 && *q->key == 0) describe_bucket(s, q, r);
  else gcs_json_error(r, 501, "NotImplemented", "Not known to this double.");
}
