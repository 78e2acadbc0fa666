/* Azure Blob storage: block blobs by Shared Key, shared access signature or bearer token. What differs from
 * the others: a name that is taken is a 409, there are no suffix ranges, a listing begins only at its
 * beginning or at a marker, and the blocks of an upload that was never finished go away by themselves after a
 * week. No state. */
#include "base/env.h"
#include "base/error.h"
#include "store/cloud.h"
#include "store/digest.h"
#include "store/xml.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SERVICE_VERSION "2021-08-06"
#define BLOCK_ID_BYTES                                                                                       \
  24 /* 16 of the upload, 8 of the part: a multiple of 3, so that base64 needs no filling */
#define BLOCK_ID_TEXT_BYTES (BLOCK_ID_BYTES / 3 * 4 + 1)

/* ---- writing ---- */

/* All ids of a blob must have one length; the upload's own half keeps two uploads of one blob apart. */
static void block_id(const char *upload_id, uint32_t part, char out[BLOCK_ID_TEXT_BYTES]) {
  char text[BLOCK_ID_BYTES + 9];
  snprintf(text, sizeof text, "%.16s%08" PRIu32, upload_id, part);
  lki_base64((lake_bytes){text, BLOCK_ID_BYTES}, out);
}

static const char *method_of(lki_verb verb) {
  switch (verb) {
  case LKI_VERB_HEAD:
    return "HEAD";
  case LKI_VERB_PUT:
  case LKI_VERB_CREATE:
  case LKI_VERB_UPLOAD_PART:
  case LKI_VERB_UPLOAD_COMPLETE:
    return "PUT";
  case LKI_VERB_REMOVE:
    return "DELETE";
  case LKI_VERB_GET:
  case LKI_VERB_LIST:
  case LKI_VERB_VERSIONING:
  case LKI_VERB_REMOVE_MANY: /* never asked of it */
  case LKI_VERB_UPLOAD_BEGIN:
  case LKI_VERB_UPLOAD_ABORT:
  case LKI_VERB_UPLOAD_LIST:
    break;
  }
  return "GET";
}

static void write_query(const lki_ask *ask, lki_request *request) {
  char id[BLOCK_ID_TEXT_BYTES];
  switch (ask->verb) {
  case LKI_VERB_LIST:
    lki_request_query(request, "restype", "container");
    lki_request_query(request, "comp", "list");
    lki_request_query(request, "prefix", ask->prefix);
    if (ask->token != NULL) lki_request_query(request, "marker", ask->token);
    break;
  case LKI_VERB_VERSIONING:
    lki_request_query(request, "restype", "container");
    break;
  case LKI_VERB_UPLOAD_PART:
    block_id(ask->upload_id, ask->part, id);
    lki_request_query(request, "comp", "block");
    lki_request_query(request, "blockid", id);
    break;
  case LKI_VERB_UPLOAD_COMPLETE:
    lki_request_query(request, "comp", "blocklist");
    break;
  case LKI_VERB_GET:
  case LKI_VERB_HEAD:
  case LKI_VERB_PUT:
  case LKI_VERB_CREATE:
  case LKI_VERB_REMOVE:
  case LKI_VERB_REMOVE_MANY: /* never asked of it */
  case LKI_VERB_UPLOAD_BEGIN:
  case LKI_VERB_UPLOAD_ABORT:
  case LKI_VERB_UPLOAD_LIST:
    break;
  }
}

static void write_headers(const lki_cloud_store *store, const lki_ask *ask, lki_request *request) {
  lki_request_header(request, "x-ms-version", SERVICE_VERSION);
  const bool writes = ask->verb == LKI_VERB_PUT || ask->verb == LKI_VERB_CREATE ||
                      ask->verb == LKI_VERB_UPLOAD_PART || ask->verb == LKI_VERB_UPLOAD_COMPLETE;
  if (ask->verb == LKI_VERB_PUT || ask->verb == LKI_VERB_CREATE) {
    lki_request_header(request, "x-ms-blob-type", "BlockBlob");
    lki_request_header(request, "content-type", "application/octet-stream");
  }
  if (ask->verb == LKI_VERB_CREATE) lki_request_header(request, "if-none-match", "*");
  if (writes && store->settings.sse_key != NULL)
    lki_request_header(request, "x-ms-encryption-scope", store->settings.sse_key);
  if (ask->verb != LKI_VERB_GET) return;
  lki_request_range(request, "x-ms-range", ask->range);
  if (ask->etag != NULL) lki_request_header(request, "if-match", ask->etag);
}

static void azure_write(const lki_cloud_store *store, const lki_place *place, const lki_ask *ask,
                        lki_request *request) {
  char path[sizeof place->base + LKI_OBJECT_NAME_BYTES_MAX];
  snprintf(path, sizeof path, "%s%s", place->base, ask->name);
  size_t bytes = strlen(path);
  if (ask->name[0] == 0 && path[bytes - 1] == '/') path[bytes - 1] = 0; /* the container itself */
  lki_request_init(request, store->env, method_of(ask->verb), place->origin, path);
  request->body = ask->body;
  write_query(ask, request);
  write_headers(store, ask, request);
}

/* A shared access signature is a query of its own, already encoded; it joins the request's as what it says.
 */
static lake_status add_sas(const char *sas, lki_request *request, lake_error *err) {
  char *text = lki_arena_strndup(&request->arena, sas, strlen(sas));
  if (text == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for a signature");
  lake_status s = LAKE_OK;
  for (char *at = text; at != NULL && *at && s == LAKE_OK;) {
    char *next = strchr(at, '&');
    if (next != NULL) *next++ = 0;
    char *value = strchr(at, '=');
    if (value != NULL) *value++ = 0;
    char *name = at;
    at = next;
    if (name[0] == 0) continue;
    if (!lki_percent_decode(name, name) || (value != NULL && !lki_percent_decode(value, value)))
      s = lki_fail(err, LAKE_INVALID, "the shared access signature has a broken %%-escape; copy it again");
    else
      lki_request_query(request, name, value != NULL ? value : "");
  }
  lki_wipe(text, strlen(sas));
  return s;
}

static lake_status azure_sign(lki_cloud_store *store, const lki_place *place,
                              const lki_credentials *credentials, int64_t wall_s, lki_request *request,
                              lake_error *err) {
  (void)store, (void)place;
  if (credentials->sas != NULL) return add_sas(credentials->sas, request, err);
  if (credentials->bearer != NULL) {
    lki_request_bearer(request, credentials->bearer);
    return LAKE_OK;
  }
  return lki_sign_azure(request, credentials, wall_s, err);
}

/* ---- reading ---- */

/* Only what says nothing secret: <AuthenticationErrorDetail> has the text that was signed. The message goes
 * on with the request's id and time on lines of their own, which are said elsewhere. */
static bool on_fault(void *ctx, const char *path, const char *text) {
  lki_fault *fault = ctx;
  if (strcmp(path, "Error/Code") == 0) snprintf(fault->code, sizeof fault->code, "%s", text);
  if (strcmp(path, "Error/Message") == 0)
    snprintf(fault->message, sizeof fault->message, "%.*s", (int)strcspn(text, "\r\n"), text);
  return true;
}

static void azure_fault(lake_env *env, const lki_http_reply *reply, lki_fault *fault) {
  const char *text = reply->text;
  size_t bytes = reply->text_bytes;
  if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3, bytes -= 3;
  if (bytes > 0) (void)lki_xml_walk(env, (lake_bytes){text, bytes}, "an error", on_fault, fault, NULL);
  if (fault->code[0] == 0) snprintf(fault->code, sizeof fault->code, "%s", reply->error_code);
}

typedef struct list_walk {
  lki_listed *page;
  lki_entry entry;
  bool encoded; /* this name is: it holds what XML cannot */
  bool good;
  bool unreadable; /* a blob without a name, or one with a broken escape, or a size that is no number */
} list_walk;

static bool on_listed(void *ctx, const char *path, const char *text) {
  static const char blob[] = "EnumerationResults/Blobs/Blob";
  list_walk *w = ctx;
  if (strcmp(path, "EnumerationResults") == 0) w->good = true;
  if (strcmp(path, "EnumerationResults/NextMarker") == 0 && text[0] != 0) {
    w->page->token = lki_arena_strndup(&w->page->arena, text, strlen(text));
    return w->page->token != NULL;
  }
  if (strncmp(path, blob, sizeof blob - 1) != 0) return true;
  const char *rest = path + sizeof blob - 1;
  if (rest[0] == 0) {
    /* Its name is decoded here, where it is known for certain whether it has to be. */
    const char *name = w->entry.name;
    if (name == NULL || (w->encoded && !lki_percent_decode(name, (char *)(uintptr_t)name))) w->unreadable = true;
    const bool added = name == NULL || lki_listed_add(w->page, &w->entry);
    w->entry = (lki_entry){NULL, 0, NULL};
    w->encoded = false;
    return added;
  }
  if (strcmp(rest, "/Name/@Encoded") == 0) w->encoded = strcmp(text, "true") == 0;
  if (strcmp(rest, "/Properties/Content-Length") == 0 && !lki_parse_u64(text, 0, INT64_MAX, &w->entry.object_bytes))
    w->unreadable = true;
  if (strcmp(rest, "/Name") != 0) return true;
  w->entry.name = lki_arena_strndup(&w->page->arena, text, strlen(text));
  return w->entry.name != NULL;
}

static lake_status azure_listed(const lki_ask *ask, lake_bytes body, lki_listed *page, lake_error *err) {
  (void)ask;
  const char *text = body.data;
  if (body.bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) body = (lake_bytes){text + 3, body.bytes - 3};
  list_walk w = {.page = page};
  lake_status s = lki_xml_walk(page->arena.env, body, "a listing", on_listed, &w, err);
  if (s == LAKE_OK && !w.good)
    s = lki_fail(err, LAKE_UNAVAILABLE, "a listing has no <EnumerationResults>: is the endpoint right?");
  if (s == LAKE_OK && w.unreadable)
    s = lki_fail(err, LAKE_UNAVAILABLE,
                 "a listing has a blob without a name, or with a broken %%-escape in it or a size that is no number");
  return s;
}

/* ---- uploads in blocks ---- */

static lake_status azure_upload_manifest(lki_arena *arena, const char *upload_id, char (*etags)[128],
                                         uint32_t count, lake_bytes *out, lake_error *err) {
  (void)etags;
  const size_t room = 128 + (size_t)count * (BLOCK_ID_TEXT_BYTES + 32);
  char *text = lki_arena_alloc(arena, room);
  if (text == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for the list of %u blocks", count);
  size_t used = (size_t)snprintf(text, room, "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
  for (uint32_t part = 1; part <= count; part++) {
    char id[BLOCK_ID_TEXT_BYTES];
    block_id(upload_id, part, id);
    used += (size_t)snprintf(text + used, room - used, "<Uncommitted>%s</Uncommitted>", id);
  }
  used += (size_t)snprintf(text + used, room - used, "</BlockList>");
  *out = (lake_bytes){text, used};
  return LAKE_OK;
}

const lki_dialect lki_dialect_azure = {
    .place = "container",
    .taken_code = "BlobAlreadyExists",
    .write = azure_write,
    .sign = azure_sign,
    .fault = azure_fault,
    .listed = azure_listed,
    .upload_manifest = azure_upload_manifest,
};
