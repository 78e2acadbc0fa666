/* Google Cloud Storage by its JSON API, for bearer tokens and for emulators, which ask for nothing. (With
 * HMAC keys it is the XML API, in s3.c.) A create is an upload of two parts, name and bytes, since that is
 * the form whose precondition every server honours; a put is the bytes alone, which need not be copied. No
 * state. */
#include "base/env.h"
#include "base/error.h"
#include "base/json.h"
#include "store/cloud.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PAGE_BYTES_MAX ((size_t)64 << 20)
#define BOUNDARY_RANDOM_BYTES 16

/* ---- writing ---- */

static const char *method_of(lki_verb verb) {
  switch (verb) {
  case LKI_VERB_PUT:
  case LKI_VERB_CREATE:
    return "POST";
  case LKI_VERB_REMOVE:
    return "DELETE";
  case LKI_VERB_GET:
  case LKI_VERB_HEAD:
  case LKI_VERB_LIST:
  case LKI_VERB_VERSIONING:
  case LKI_VERB_REMOVE_MANY: /* never asked of it */
  case LKI_VERB_UPLOAD_BEGIN:
  case LKI_VERB_UPLOAD_PART:
  case LKI_VERB_UPLOAD_COMPLETE:
  case LKI_VERB_UPLOAD_ABORT:
  case LKI_VERB_UPLOAD_LIST:
    break;
  }
  return "GET";
}

/* multipart/related around the body. The boundary is random, so that no object can hold it but by chance. */
static void write_related(const lki_cloud_store *store, const lki_ask *ask, lki_request *request) {
  unsigned char random[BOUNDARY_RANDOM_BYTES];
  char boundary[2 * BOUNDARY_RANDOM_BYTES + 1], type[128], head[256], tail[64];
  lki_random(store->env, random, sizeof random);
  for (size_t i = 0; i < sizeof random; i++) snprintf(boundary + 2 * i, 3, "%02x", random[i]);
  snprintf(type, sizeof type, "multipart/related; boundary=%s", boundary);
  const size_t head_bytes = (size_t)snprintf(head, sizeof head,
                                             "--%s\r\nContent-Type: application/json\r\n\r\n{}\r\n--%s\r\n"
                                             "Content-Type: application/octet-stream\r\n\r\n",
                                             boundary, boundary);
  const size_t tail_bytes = (size_t)snprintf(tail, sizeof tail, "\r\n--%s--\r\n", boundary);
  const size_t bytes = ask->body.bytes;
  char *text = lki_arena_alloc(&request->arena, head_bytes + bytes + tail_bytes);
  if (text == NULL) {
    request->failed = true; /* no memory, as finish says */
    return;
  }
  memcpy(text, head, head_bytes);
  if (bytes > 0) memcpy(text + head_bytes, ask->body.data, bytes);
  memcpy(text + head_bytes + bytes, tail, tail_bytes);
  lki_request_header(request, "content-type", type);
  request->body = (lake_bytes){text, head_bytes + bytes + tail_bytes};
}

static void json_write(const lki_cloud_store *store, const lki_place *place, const lki_ask *ask,
                       lki_request *request) {
  lki_request_init(request, store->env, method_of(ask->verb), place->origin, "/"); /* the path: json_url */
  if (ask->verb == LKI_VERB_CREATE) write_related(store, ask, request);
  if (ask->verb == LKI_VERB_PUT) {
    request->body = ask->body;
    lki_request_header(request, "content-type", "application/octet-stream");
  }
  if (ask->verb == LKI_VERB_GET) lki_request_range(request, "range", ask->range);
}

/* The name of an object is one component of the path here, slashes and all, which a request cannot write. */
static const char *json_url(const lki_cloud_store *store, const lki_place *place, const lki_ask *ask,
                            lki_arena *arena) {
  char *name = lki_percent_encode(arena, ask->name, false);
  char *prefix = lki_percent_encode(arena, ask->prefix != NULL ? ask->prefix : "", false);
  char *start = lki_percent_encode(arena, ask->start_after != NULL ? ask->start_after : "", false);
  char *token = lki_percent_encode(arena, ask->token != NULL ? ask->token : "", false);
  char *key =
      lki_percent_encode(arena, store->settings.sse_key != NULL ? store->settings.sse_key : "", false);
  if (name == NULL || prefix == NULL || start == NULL || token == NULL || key == NULL) return NULL;
  const char *bucket = store->settings.bucket;
  const size_t room = sizeof place->origin + strlen(bucket) + strlen(name) + strlen(prefix) + strlen(start) +
                      strlen(token) + strlen(key) + 256;
  char *url = lki_arena_alloc(arena, room);
  if (url == NULL) return NULL;
  switch (ask->verb) {
  case LKI_VERB_GET:
    snprintf(url, room, "%s/storage/v1/b/%s/o/%s?alt=media", place->origin, bucket, name);
    break;
  case LKI_VERB_HEAD:
    snprintf(url, room, "%s/storage/v1/b/%s/o/%s?fields=size,generation", place->origin, bucket, name);
    break;
  case LKI_VERB_PUT:
  case LKI_VERB_CREATE:
    snprintf(url, room, "%s/upload/storage/v1/b/%s/o?uploadType=%s&name=%s%s%s%s", place->origin, bucket,
             ask->verb == LKI_VERB_PUT ? "media" : "multipart", name,
             ask->verb == LKI_VERB_PUT ? "" : "&ifGenerationMatch=0", key[0] ? "&kmsKeyName=" : "", key);
    break;
  case LKI_VERB_LIST:
    snprintf(url, room, "%s/storage/v1/b/%s/o?prefix=%s%s%s%s%s&fields=items(name,size),nextPageToken",
             place->origin, bucket, prefix, start[0] ? "&startOffset=" : "", start,
             token[0] ? "&pageToken=" : "", token);
    break;
  case LKI_VERB_VERSIONING:
    snprintf(url, room, "%s/storage/v1/b/%s", place->origin, bucket);
    break;
  case LKI_VERB_REMOVE:
  case LKI_VERB_REMOVE_MANY: /* never asked of it */
  case LKI_VERB_UPLOAD_BEGIN:
  case LKI_VERB_UPLOAD_PART:
  case LKI_VERB_UPLOAD_COMPLETE:
  case LKI_VERB_UPLOAD_ABORT:
  case LKI_VERB_UPLOAD_LIST:
    snprintf(url, room, "%s/storage/v1/b/%s/o/%s", place->origin, bucket, name);
    break;
  }
  return url;
}

static lake_status json_sign(lki_cloud_store *store, const lki_place *place,
                             const lki_credentials *credentials, int64_t wall_s, lki_request *request,
                             lake_error *err) {
  (void)store, (void)place, (void)wall_s;
  if (credentials->bearer == NULL)
    return lki_fail(err, LAKE_DENIED, "the credentials changed from a token to a key; open the store again");
  lki_request_bearer(request, credentials->bearer);
  return LAKE_OK;
}

/* ---- reading ---- */

/* {"error": {"code": 404, "message": "…", "errors": [{"reason": "notFound"}]}}. The kept beginning of a long body does
 * not parse, and then says nothing; a whole one that does not parse is not this service's (such as a proxy's page), which
 * matters under a good status. A missing bucket and a missing object have the same reason. */
static void json_fault(lake_env *env, const lki_http_reply *reply, lki_fault *fault) {
  (void)env;
  lki_json *json = NULL;
  if (reply->text_bytes == 0) return;
  if (lki_json_parse((lake_bytes){reply->text, reply->text_bytes}, "an error", &json, NULL) != LAKE_OK) {
    if (reply->status < 300 && reply->body_bytes <= reply->text_bytes) snprintf(fault->code, sizeof fault->code, "NotJson");
    return;
  }
  const lki_json *error = lki_json_get(json, "error");
  const char *message = lki_json_string(lki_json_get(error, "message"));
  const lki_json *first = lki_json_first(lki_json_get(error, "errors"));
  const char *reason = first != NULL ? lki_json_string(lki_json_get(first, "reason")) : NULL;
  if (message != NULL) snprintf(fault->message, sizeof fault->message, "%s", message);
  if (error != NULL) snprintf(fault->code, sizeof fault->code, "%s", reason != NULL ? reason : "error");
  if (reply->status == 404 && message != NULL && strstr(message, "bucket does not exist") != NULL)
    snprintf(fault->code, sizeof fault->code, "NoSuchBucket");
  lki_json_free(json);
}

static lake_status json_listed(const lki_ask *ask, lake_bytes body, lki_listed *page, lake_error *err) {
  (void)ask;
  lki_json *json = NULL;
  lake_status s = lki_json_parse_max(body, PAGE_BYTES_MAX, "a listing", &json, err);
  if (s == LAKE_NOMEM) return s;
  /* Under a good status too: a page without items is an empty one, an error is none. */
  if (s != LAKE_OK || !lki_json_is_object(json) || lki_json_get(json, "error") != NULL) {
    lki_json_free(json);
    return lki_fail(err, LAKE_UNAVAILABLE,
                    "a listing is not the JSON that was expected: is the endpoint right?");
  }
  for (const lki_json *item = lki_json_first(lki_json_get(json, "items")); item != NULL && s == LAKE_OK;
       item = lki_json_next(item)) {
    const char *name = lki_json_string(lki_json_get(item, "name"));
    lki_entry entry = {NULL, 0, NULL};
    if (name == NULL || !lki_json_u64(lki_json_get(item, "size"), &entry.object_bytes)) {
      s = lki_fail(err, LAKE_UNAVAILABLE, "an entry of a listing has no name or no size");
      break;
    }
    entry.name = lki_arena_strndup(&page->arena, name, strlen(name));
    if (entry.name == NULL || !lki_listed_add(page, &entry))
      s = lki_fail(err, LAKE_NOMEM, "out of memory for a page of a listing");
  }
  const char *token = lki_json_string(lki_json_get(json, "nextPageToken"));
  if (s == LAKE_OK && token != NULL) {
    page->token = lki_arena_strndup(&page->arena, token, strlen(token));
    if (page->token == NULL) s = lki_fail(err, LAKE_NOMEM, "out of memory for a page of a listing");
  }
  lki_json_free(json);
  return s;
}

static lake_status json_head(lake_bytes body, uint64_t *object_bytes, lake_error *err) {
  lki_json *json = NULL;
  uint64_t bytes = 0;
  lake_status s = lki_json_parse(body, "an object's metadata", &json, err);
  if (s == LAKE_OK && !lki_json_u64(lki_json_get(json, "size"), &bytes)) s = LAKE_UNAVAILABLE;
  lki_json_free(json);
  if (s == LAKE_NOMEM) return s;
  if (s != LAKE_OK) return lki_fail(err, LAKE_UNAVAILABLE, "the store does not tell the size of the object");
  *object_bytes = bytes;
  return LAKE_OK;
}

static lake_status json_versioned(lake_env *env, lake_bytes body, lki_versioning *versioning, lake_error *err) {
  (void)env;
  lki_json *json = NULL;
  bool enabled = false;
  lake_status s = lki_json_parse(body, "the bucket's metadata", &json, err);
  if (s == LAKE_OK) (void)lki_json_bool(lki_json_get(lki_json_get(json, "versioning"), "enabled"), &enabled);
  lki_json_free(json);
  if (s == LAKE_OK) *versioning = enabled ? LKI_VERSIONING_ON : LKI_VERSIONING_OFF;
  return s == LAKE_OK || s == LAKE_NOMEM ? s : LAKE_UNAVAILABLE;
}

const lki_dialect lki_dialect_gcs_json = {
    .place = "bucket",
    .suffix = true,
    .write = json_write,
    .sign = json_sign,
    .url = json_url,
    .fault = json_fault,
    .listed = json_listed,
    .put_done = "\"storage#object\"", /* its kind; in an error's text the quotes would be escaped */
    .head = json_head,
    .versioned = json_versioned,
};
