/* S3 as AWS, Ceph RGW and others speak it, and the XML API of Google Cloud Storage, which is the same but for
 * the names of its headers (the two families may not be mixed in one request) and for the precondition of a
 * create. No state. */
#include "base/env.h"
#include "base/error.h"
#include "store/cloud.h"
#include "store/xml.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- writing ---- */

static const char *method_of(lki_verb verb) {
  switch (verb) {
  case LKI_VERB_HEAD:
    return "HEAD";
  case LKI_VERB_PUT:
  case LKI_VERB_CREATE:
  case LKI_VERB_UPLOAD_PART:
    return "PUT";
  case LKI_VERB_REMOVE:
  case LKI_VERB_UPLOAD_ABORT:
    return "DELETE";
  case LKI_VERB_UPLOAD_BEGIN:
  case LKI_VERB_UPLOAD_COMPLETE:
  case LKI_VERB_REMOVE_MANY:
    return "POST";
  case LKI_VERB_GET:
  case LKI_VERB_LIST:
  case LKI_VERB_VERSIONING:
  case LKI_VERB_UPLOAD_LIST:
    break;
  }
  return "GET";
}

static void write_range(const lki_ask *ask, lki_request *request) {
  lki_request_range(request, "range", ask->range);
  if (ask->etag != NULL) lki_request_header(request, "if-match", ask->etag);
}

static void write_query(const lki_ask *ask, lki_request *request) {
  char text[24];
  switch (ask->verb) {
  case LKI_VERB_LIST:
    lki_request_query(request, "list-type", "2");
    lki_request_query(request, "prefix", ask->prefix);
    lki_request_query(request, "encoding-type", "url"); /* XML cannot hold every character of a key */
    if (ask->token != NULL)
      lki_request_query(request, "continuation-token", ask->token);
    else if (ask->start_after != NULL)
      lki_request_query(request, "start-after", ask->start_after);
    break;
  case LKI_VERB_UPLOAD_LIST:
    lki_request_query(request, "uploads", ""); /* plain: Ceph would escape the keys, but not say so, nor the markers */
    lki_request_query(request, "prefix", ask->prefix);
    if (ask->token != NULL) lki_request_query(request, "key-marker", ask->token);
    if (ask->token != NULL && ask->upload_id != NULL)
      lki_request_query(request, "upload-id-marker", ask->upload_id);
    break;
  case LKI_VERB_VERSIONING:
    lki_request_query(request, "versioning", "");
    break;
  case LKI_VERB_REMOVE_MANY:
    lki_request_query(request, "delete", "");
    break;
  case LKI_VERB_UPLOAD_BEGIN:
    lki_request_query(request, "uploads", "");
    break;
  case LKI_VERB_UPLOAD_PART:
    snprintf(text, sizeof text, "%" PRIu32, ask->part);
    lki_request_query(request, "partNumber", text);
    lki_request_query(request, "uploadId", ask->upload_id);
    break;
  case LKI_VERB_UPLOAD_COMPLETE:
  case LKI_VERB_UPLOAD_ABORT:
    lki_request_query(request, "uploadId", ask->upload_id);
    break;
  case LKI_VERB_GET:
  case LKI_VERB_HEAD:
  case LKI_VERB_PUT:
  case LKI_VERB_CREATE:
  case LKI_VERB_REMOVE:
    break;
  }
}

static bool makes_object(lki_verb verb) {
  return verb == LKI_VERB_PUT || verb == LKI_VERB_CREATE || verb == LKI_VERB_UPLOAD_BEGIN;
}

static void write_common(const lki_cloud_store *store, const lki_place *place, const lki_ask *ask,
                         lki_request *request) {
  char path[sizeof place->base + LKI_OBJECT_NAME_BYTES_MAX];
  snprintf(path, sizeof path, "%s%s", place->base, ask->name);
  lki_request_init(request, store->env, method_of(ask->verb), place->origin, path);
  request->body = ask->body;
  write_query(ask, request);
  if (ask->verb == LKI_VERB_GET) write_range(ask, request);
  if (makes_object(ask->verb)) lki_request_header(request, "content-type", "application/octet-stream");
  if (ask->verb == LKI_VERB_REMOVE_MANY) {
    lki_request_header(request, "content-type", "application/xml");
    lki_request_header(request, "content-md5", ask->md5);
  }
}

static void s3_write(const lki_cloud_store *store, const lki_place *place, const lki_ask *ask,
                     lki_request *request) {
  const lki_settings *settings = &store->settings;
  write_common(store, place, ask, request);
  if (ask->verb == LKI_VERB_CREATE) lki_request_header(request, "if-none-match", "*");
  if (makes_object(ask->verb) && settings->sse != NULL) {
    lki_request_header(request, "x-amz-server-side-encryption", settings->sse);
    if (settings->sse_key != NULL)
      lki_request_header(request, "x-amz-server-side-encryption-aws-kms-key-id", settings->sse_key);
  }
  if (settings->requester_pays) lki_request_header(request, "x-amz-request-payer", "requester");
}

static void gcs_write(const lki_cloud_store *store, const lki_place *place, const lki_ask *ask,
                      lki_request *request) {
  write_common(store, place, ask, request);
  if (ask->verb == LKI_VERB_CREATE) lki_request_header(request, "x-goog-if-generation-match", "0");
  if (makes_object(ask->verb) && store->settings.sse_key != NULL)
    lki_request_header(request, "x-goog-encryption-kms-key-name", store->settings.sse_key);
}

static lake_status s3_sign(lki_cloud_store *store, const lki_place *place, const lki_credentials *credentials,
                           int64_t wall_s, lki_request *request, lake_error *err) {
  /* A payload goes unsigned to spare its hash: not the lists of keys and parts, which are small and name what is done. */
  const bool unsigned_payload = store->https && strcmp(request->method, "POST") != 0;
  return lki_sign_v4(request, &lki_v4_aws, credentials, place->region, wall_s, unsigned_payload, store->day, err);
}

static lake_status gcs_sign(lki_cloud_store *store, const lki_place *place,
                            const lki_credentials *credentials, int64_t wall_s, lki_request *request,
                            lake_error *err) {
  const char *region = place->region[0] != 0 ? place->region : "auto";
  return lki_sign_v4(request, &lki_v4_google, credentials, region, wall_s, store->https, store->day, err);
}

/* ---- reading ---- */

static void take(char *dst, size_t room, const char *text) {
  if (dst[0] == 0) snprintf(dst, room, "%s", text);
}

/* Only what says nothing secret: <StringToSign>, <AWSAccessKeyId> and <Token-0> stand beside these. */
static bool on_fault(void *ctx, const char *path, const char *text) {
  lki_fault *fault = ctx;
  if (strcmp(path, "Error/Code") == 0) take(fault->code, sizeof fault->code, text);
  if (strcmp(path, "Error/Message") == 0) take(fault->message, sizeof fault->message, text);
  if (strcmp(path, "Error/Region") == 0) take(fault->region, sizeof fault->region, text);
  return true;
}

/* The reply keeps the beginning of a body only, so the document may well end in the middle. Blanks before it are what a
 * server sends while it takes its time; they would not be XML. */
static void s3_fault(lake_env *env, const lki_http_reply *reply, lki_fault *fault) {
  const size_t blanks = strspn(reply->text, " \t\r\n");
  if (blanks >= reply->text_bytes) return;
  lake_bytes text = {reply->text + blanks, reply->text_bytes - blanks};
  (void)lki_xml_walk(env, text, "an error", on_fault, fault, NULL);
}

typedef struct list_walk {
  lki_listed *page;
  lki_entry entry;
  bool url_encoded, truncated, good;
  bool sizeless; /* an entry's size is no number */
  bool nameless; /* an entry was */
  const char *root; /* of the document; its first element in each path */
  const char *item; /* "/Contents", "/Upload" */
} list_walk;

static bool keep(list_walk *w, const char **place, const char *text) {
  *place = lki_arena_strndup(&w->page->arena, text, strlen(text));
  return *place != NULL;
}

static bool on_item(list_walk *w, const char *leaf, const char *text) {
  if (strcmp(leaf, "Key") == 0) return keep(w, &w->entry.name, text);
  if (strcmp(leaf, "UploadId") == 0) return keep(w, &w->entry.upload_id, text);
  if (strcmp(leaf, "Size") == 0 && !lki_parse_u64(text, 0, INT64_MAX, &w->entry.object_bytes)) w->sizeless = true;
  return true;
}

static bool on_listed(void *ctx, const char *path, const char *text) {
  list_walk *w = ctx;
  const size_t root_bytes = strlen(w->root);
  if (strncmp(path, w->root, root_bytes) != 0) return true;
  const char *rest = path + root_bytes;
  const size_t item_bytes = strlen(w->item);
  if (strncmp(rest, w->item, item_bytes) == 0) {
    if (rest[item_bytes] == '/')
      return strchr(rest + item_bytes + 1, '/') != NULL || on_item(w, rest + item_bytes + 1, text);
    if (rest[item_bytes] != 0) return true;
    if (w->entry.name == NULL) w->nameless = true;
    const bool added = w->entry.name == NULL || lki_listed_add(w->page, &w->entry);
    w->entry = (lki_entry){NULL, 0, NULL};
    return added;
  }
  if (rest[0] == 0) w->good = true;
  if (strcmp(rest, "/EncodingType") == 0) w->url_encoded = strcmp(text, "url") == 0;
  if (strcmp(rest, "/IsTruncated") == 0) w->truncated = strcmp(text, "true") == 0;
  if (strcmp(rest, "/NextContinuationToken") == 0) return keep(w, &w->page->token, text);
  if (strcmp(rest, "/NextKeyMarker") == 0) return keep(w, &w->page->token, text);
  if (strcmp(rest, "/NextUploadIdMarker") == 0) return keep(w, &w->page->token_2, text);
  return true;
}

/* In place; '+' is how some servers write a space. */
static bool decode(const char *text) {
  char *at = (char *)(uintptr_t)text; /* the page's own memory */
  for (char *p = at; *p; p++)
    if (*p == '+') *p = ' ';
  return lki_percent_decode(text, at);
}

static lake_status s3_listed(const lki_ask *ask, lake_bytes body, lki_listed *page, lake_error *err) {
  const bool uploads = ask->verb == LKI_VERB_UPLOAD_LIST;
  list_walk w = {.page = page,
                 .root = uploads ? "ListMultipartUploadsResult" : "ListBucketResult",
                 .item = uploads ? "/Upload" : "/Contents"};
  lake_status s = lki_xml_walk(page->arena.env, body, "a listing", on_listed, &w, err);
  if (s != LAKE_OK) return s;
  if (!w.good)
    return lki_fail(err, LAKE_UNAVAILABLE, "a listing has no <%s>: is the endpoint right?", w.root);
  if (w.sizeless) return lki_fail(err, LAKE_UNAVAILABLE, "a listing has an entry whose size is no number");
  bool readable = !w.nameless;
  const lki_entry *entries = (const lki_entry *)(const void *)page->entries.data;
  const size_t count = page->entries.bytes / sizeof(lki_entry);
  for (size_t i = 0; i < count && w.url_encoded; i++) readable = decode(entries[i].name) && readable;
  if (!readable) return lki_fail(err, LAKE_UNAVAILABLE, "a listing has an entry without a key, or with a broken %%-escape in it");
  if (!w.truncated)
    page->token = page->token_2 = NULL;
  else if (page->token == NULL)
    return lki_fail(err, LAKE_UNAVAILABLE, "a listing goes on but does not say where");
  return LAKE_OK;
}

static bool on_versioning(void *ctx, const char *path, const char *text) {
  lki_versioning *versioning = ctx;
  if (strcmp(path, "VersioningConfiguration/Status") != 0) return true;
  if (strcmp(text, "Enabled") == 0) *versioning = LKI_VERSIONING_ON;
  if (strcmp(text, "Suspended") == 0) *versioning = LKI_VERSIONING_SUSPENDED;
  return true;
}

static lake_status s3_versioned(lake_env *env, lake_bytes body, lki_versioning *versioning, lake_error *err) {
  *versioning = LKI_VERSIONING_OFF;
  return lki_xml_walk(env, body, "the versioning status", on_versioning, versioning, err);
}

/* Google says "Suspended" also where versions never were kept, and its deletions leave no markers. */
static lake_status gcs_versioned(lake_env *env, lake_bytes body, lki_versioning *versioning, lake_error *err) {
  lake_status s = s3_versioned(env, body, versioning, err);
  if (s == LAKE_OK && *versioning == LKI_VERSIONING_SUSPENDED) *versioning = LKI_VERSIONING_OFF;
  return s;
}

/* ---- uploads in parts ---- */

typedef struct begun_walk {
  lki_arena *arena;
  const char *upload_id;
} begun_walk;

static bool on_begun(void *ctx, const char *path, const char *text) {
  begun_walk *w = ctx;
  if (strcmp(path, "InitiateMultipartUploadResult/UploadId") != 0 || text[0] == 0) return true;
  w->upload_id = lki_arena_strndup(w->arena, text, strlen(text));
  return w->upload_id != NULL;
}

static lake_status s3_upload_begun(lki_arena *arena, lake_bytes body, const char **upload_id,
                                   lake_error *err) {
  begun_walk w = {arena, NULL};
  lake_status s = lki_xml_walk(arena->env, body, "the reply to a multipart upload", on_begun, &w, err);
  if (s == LAKE_OK && w.upload_id == NULL)
    s = lki_fail(err, LAKE_UNAVAILABLE, "the reply to a multipart upload has no upload id");
  if (s == LAKE_OK) *upload_id = w.upload_id;
  return s;
}

static lake_status s3_upload_manifest(lki_arena *arena, const char *upload_id, char (*etags)[128],
                                      uint32_t count, lake_bytes *out, lake_error *err) {
  (void)upload_id;
  const size_t room = 128 + (size_t)count * (128 + 80);
  char *text = lki_arena_alloc(arena, room);
  if (text == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for the list of %u parts", count);
  size_t used = (size_t)snprintf(text, room, "<CompleteMultipartUpload>");
  for (uint32_t i = 0; i < count; i++) {
    if (etags[i][0] == 0 || strpbrk(etags[i], "<>&") != NULL)
      return lki_fail(err, LAKE_UNAVAILABLE, "part %u of a multipart upload has no usable ETag", i + 1);
    used += (size_t)snprintf(text + used, room - used,
                             "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", i + 1, etags[i]);
  }
  used += (size_t)snprintf(text + used, room - used, "</CompleteMultipartUpload>");
  *out = (lake_bytes){text, used};
  return LAKE_OK;
}

const lki_dialect lki_dialect_s3 = {
    .place = "bucket",
    .suffix = true,
    .region = true,
    .uploads = true,
    .write = s3_write,
    .sign = s3_sign,
    .fault = s3_fault,
    .listed = s3_listed,
    .versioned = s3_versioned,
    .upload_begun = s3_upload_begun,
    .upload_done = "<CompleteMultipartUploadResult",
    .upload_manifest = s3_upload_manifest,
};

const lki_dialect lki_dialect_gcs_xml = {
    .place = "bucket",
    .suffix = true,
    .uploads = true,
    .write = gcs_write,
    .sign = gcs_sign,
    .fault = s3_fault,
    .listed = s3_listed,
    .versioned = gcs_versioned,
    .upload_begun = s3_upload_begun,
    .upload_done = "<CompleteMultipartUploadResult",
    .upload_manifest = s3_upload_manifest,
};
