/* A store behind an HTTP API: opening, and the operations of the table that are one request each. Listings,
 * uploads in parts and reads that are asked twice have files of their own. Threads: everything shared is
 * atomic or under synced.lock, which is held for copies only. */
#include "store/cloud.h"
#include "base/env.h"
#include "base/error.h"
#include "store/bookmark.h"
#include "store/digest.h"
#include "store/hedge.h"
#include <stdio.h>
#include <string.h>

#define HEAD_BYTES_MAX ((size_t)256 << 10)

lake_status lki_cloud_name(const lki_cloud_store *store, const char *key,
                           char out[LKI_OBJECT_NAME_BYTES_MAX + 1], lake_error *err) {
  const size_t bytes = strlen(key);
  if (store->settings.cloud == LKI_CLOUD_AZURE && strchr(key, '\\') != NULL)
    return lki_fail(err, LAKE_INVALID, "Azure takes '\\' for '/', so a key cannot have one; choose another");
  if (store->name_prefix_bytes + bytes > LKI_OBJECT_NAME_BYTES_MAX)
    return lki_fail(err, LAKE_INVALID,
                    "the store's prefix and the key have %zu bytes, %d are possible; shorten the prefix",
                    store->name_prefix_bytes + bytes, LKI_OBJECT_NAME_BYTES_MAX);
  memcpy(out, store->name_prefix, store->name_prefix_bytes);
  memcpy(out + store->name_prefix_bytes, key, bytes + 1);
  return LAKE_OK;
}

/* What every operation begins with. */
static lake_status begin(lki_cloud_store *store, lki_verb verb, const char *key, lake_deadline deadline,
                         lki_ask *ask, char name[LKI_OBJECT_NAME_BYTES_MAX + 1], lake_error *err) {
  memset(ask, 0, sizeof *ask);
  ask->verb = verb;
  ask->name = name;
  ask->deadline = deadline;
  lake_status s = lki_check_process(store->env, "the store", err);
  if (s == LAKE_OK) s = lki_cloud_name(store, key, name, err);
  if (s == LAKE_OK) s = lki_cloud_dialect(store, deadline, &ask->dialect, err);
  return s;
}

/* ---- size ---- */

/* A HEAD is answered without a body, so a refusal has no code; the same asked as a read of one byte has. */
static lake_status head_by_range(lki_cloud_store *store, const lki_ask *head, uint64_t *object_bytes,
                                 char etag[128], lake_error *err) {
  unsigned char room[1];
  lake_buffer one;
  lki_buffer_init_fixed(&one, store->env, room, sizeof room);
  lki_http_reply reply;
  lki_ask ask = *head;
  ask.verb = LKI_VERB_GET;
  ask.range = (lake_range){LAKE_RANGE_EXACT, 0, 1};
  ask.sink = &one;
  lake_status s = lki_cloud_exchange(store, &ask, &reply, err);
  if (s == LAKE_OK && reply.range_total == UINT64_MAX)
    return lki_fail(err, LAKE_UNAVAILABLE, "the store does not tell the size of the object");
  if (s == LAKE_CORRUPT && reply.status == 416) { /* not even one byte */
    *object_bytes = 0;
    etag[0] = 0;
    return LAKE_OK;
  }
  if (s != LAKE_OK) return s;
  *object_bytes = reply.range_total;
  memcpy(etag, reply.etag, sizeof reply.etag);
  return LAKE_OK;
}

static lake_status head_ask(lki_cloud_store *store, const lki_ask *ask, uint64_t *object_bytes,
                            char etag[128], lake_error *err) {
  lki_http_reply reply;
  lake_error e = LAKE_ERROR_INIT;
  lake_buffer body;
  lki_buffer_init(&body, store->env, HEAD_BYTES_MAX);
  lki_ask with = *ask;
  if (ask->dialect->head != NULL) with.sink = &body;
  lake_status s = lki_cloud_exchange(store, &with, &reply, &e);
  if (ask->dialect->head != NULL) {
    if (s == LAKE_OK) s = ask->dialect->head(lki_buffer_view(&body), object_bytes, &e);
  } else if (s == LAKE_OK) {
    if (!reply.has_length)
      s = lki_fail(&e, LAKE_UNAVAILABLE, "the store does not tell the size of the object");
    else
      *object_bytes = reply.content_length;
  } else if (reply.status >= 300 && reply.status != 404 && reply.status < 500 && reply.error_code[0] == 0) {
    lki_buffer_free(&body);
    return head_by_range(store, ask, object_bytes, etag, err);
  }
  if (s == LAKE_OK) memcpy(etag, reply.etag, sizeof reply.etag);
  if (s != LAKE_OK) lki_error_copy(err, &e);
  lki_buffer_free(&body);
  return s;
}

static lake_status cloud_head(void *self, const char *key, lake_object_info *info, lake_deadline deadline,
                              lake_error *err) {
  char name[LKI_OBJECT_NAME_BYTES_MAX + 1], etag[128];
  lki_ask ask;
  lake_status s = begin(self, LKI_VERB_HEAD, key, deadline, &ask, name, err);
  if (s == LAKE_OK) s = head_ask(self, &ask, &info->object_bytes, etag, err);
  return s;
}

/* ---- reading ---- */

/* The engine has seen to it that the body is whole and the range the one that was asked; a second look costs
 * nothing and a wrong byte here would cost everything. */
static lake_status check_body(const lki_ask *ask, const lki_http_reply *reply, lake_object_info *info,
                              lake_error *err) {
  const uint64_t got = reply->body_bytes;
  uint64_t total = reply->range_total;
  bool right = true;
  if (ask->range.kind == LAKE_RANGE_WHOLE) {
    total = got;
    right = !reply->has_length || reply->content_length == got;
  } else {
    right = reply->has_range && reply->range_last >= reply->range_first &&
            reply->range_last - reply->range_first == got - 1 && total != UINT64_MAX;
    if (ask->range.kind == LAKE_RANGE_EXACT)
      right = right && reply->range_first == ask->range.offset && got == ask->range.bytes;
    else
      right = right && reply->range_last == total - 1 &&
              got == (ask->range.bytes < total ? ask->range.bytes : total);
  }
  if (!right)
    return lki_fail(err, LAKE_UNAVAILABLE,
                    "the store answered with other bytes than were asked (%llu of them)",
                    (unsigned long long)got);
  info->object_bytes = total;
  return LAKE_OK;
}

/* Nothing is where the range is. A store refuses that in one way or another: by a 416, by an empty 206 whose
 * range is impossible, by an empty 200. */
static bool delivers_nothing(const lki_ask *ask, const lki_http_reply *reply) {
  if (ask->range.kind == LAKE_RANGE_WHOLE) return false;
  return reply->status == 416 ||
         ((reply->status == 206 || reply->status == 200) && reply->has_length && reply->content_length == 0);
}

/* Then its size tells: the end of an empty object is read by reading nothing, and what lies beyond the end is
 * missing. */
static lake_status read_nothing(lki_cloud_store *store, const lki_ask *ask, lake_object_info *info,
                                lake_error *err) {
  lki_ask head = *ask;
  head.verb = LKI_VERB_HEAD;
  head.range = (lake_range){LAKE_RANGE_WHOLE, 0, 0};
  head.sink = NULL;
  head.etag = NULL;
  char etag[128];
  uint64_t object_bytes = 0;
  lake_status s = head_ask(store, &head, &object_bytes, etag, err);
  if (s != LAKE_OK) return s;
  if (ask->range.kind == LAKE_RANGE_SUFFIX && object_bytes == 0) {
    ask->sink->bytes = 0;
    info->object_bytes = 0;
    return LAKE_OK;
  }
  if (ask->range.kind == LAKE_RANGE_EXACT && object_bytes < ask->range.offset + ask->range.bytes)
    return lki_fail(err, LAKE_CORRUPT, "the object has %llu bytes, %llu from %llu were asked",
                    (unsigned long long)object_bytes, (unsigned long long)ask->range.bytes,
                    (unsigned long long)ask->range.offset);
  return lki_fail(err, LAKE_UNAVAILABLE, "the store does not deliver bytes that the object has");
}

static lake_status read_once(lki_cloud_store *store, const lki_ask *ask, lake_object_info *info,
                             lake_error *err) {
  lki_http_reply reply;
  const size_t bytes = ask->sink->bytes;
  lake_status s = lki_hedge_exchange(store, ask, &reply, err);
  if (s == LAKE_OK) s = check_body(ask, &reply, info, err);
  if (s == LAKE_OK) {
    ask->sink->bytes = (size_t)reply.body_bytes;
    return LAKE_OK;
  }
  ask->sink->bytes = bytes; /* outputs are untouched on failure */
  if (delivers_nothing(ask, &reply)) return read_nothing(store, ask, info, err);
  if (s == LAKE_CORRUPT && ask->range.kind == LAKE_RANGE_WHOLE && reply.has_length)
    (void)lki_store_fits(ask->sink, reply.content_length, err); /* says it as other stores do */
  return s;
}

/* Where a store knows no suffix: its size first, then that very object's end. */
static lake_status read_suffix(lki_cloud_store *store, lki_ask *ask, lake_object_info *info,
                               lake_error *err) {
  lki_ask head = *ask;
  head.verb = LKI_VERB_HEAD;
  head.range = (lake_range){LAKE_RANGE_WHOLE, 0, 0};
  head.sink = NULL;
  char etag[128];
  uint64_t object_bytes = 0;
  lake_status s = head_ask(store, &head, &object_bytes, etag, err);
  if (s != LAKE_OK) return s;
  const uint64_t bytes = ask->range.bytes < object_bytes ? ask->range.bytes : object_bytes;
  s = lki_store_fits(ask->sink, bytes, err);
  if (s != LAKE_OK) return s;
  if (bytes == 0) {
    ask->sink->bytes = 0;
    info->object_bytes = object_bytes;
    return LAKE_OK;
  }
  ask->etag = etag[0] != 0 ? etag : NULL;
  ask->range = (lake_range){LAKE_RANGE_EXACT, object_bytes - bytes, bytes};
  return read_once(store, ask, info, err);
}

static lake_status cloud_get(void *self, const char *key, lake_range range, lake_buffer *out,
                             lake_object_info *info, lake_deadline deadline, lake_error *err) {
  char name[LKI_OBJECT_NAME_BYTES_MAX + 1];
  lki_ask ask;
  lake_object_info found = {0};
  lake_status s = begin(self, LKI_VERB_GET, key, deadline, &ask, name, err);
  if (s != LAKE_OK) return s;
  ask.range = range;
  ask.sink = out;
  if (range.kind == LAKE_RANGE_EXACT && range.offset + range.bytes > INT64_MAX)
    s = read_nothing(self, &ask, &found, err); /* no server counts so far; some then ignore the range */
  else if (range.kind == LAKE_RANGE_SUFFIX && !ask.dialect->suffix)
    s = read_suffix(self, &ask, &found, err);
  else
    s = read_once(self, &ask, &found, err);
  if (s == LAKE_OK && info != NULL) *info = found;
  return s;
}

/* ---- writing ---- */

static lake_status cloud_put(void *self, const char *key, lake_bytes body, lake_deadline deadline,
                             lake_error *err) {
  lki_cloud_store *store = self;
  char name[LKI_OBJECT_NAME_BYTES_MAX + 1];
  lki_ask ask;
  lki_http_reply reply;
  lake_status s = begin(store, LKI_VERB_PUT, key, deadline, &ask, name, err);
  if (s != LAKE_OK) return s;
  if (body.bytes > store->settings.multipart_bytes && ask.dialect->upload_manifest != NULL)
    return lki_cloud_put_parts(store, ask.dialect, name, body, deadline, err);
  ask.body = body;
  return lki_cloud_exchange(store, &ask, &reply, err);
}

static lake_status cloud_put_if_absent(void *self, const char *key, lake_bytes body, lake_deadline deadline,
                                       lake_error *err) {
  char name[LKI_OBJECT_NAME_BYTES_MAX + 1];
  lki_ask ask;
  lki_http_reply reply;
  lake_status s = begin(self, LKI_VERB_CREATE, key, deadline, &ask, name, err);
  if (s != LAKE_OK) return s;
  ask.body = body;
  return lki_cloud_exchange(self, &ask, &reply, err);
}

static lake_status cloud_remove(void *self, const char *key, lake_deadline deadline, lake_error *err) {
  char name[LKI_OBJECT_NAME_BYTES_MAX + 1];
  lki_ask ask;
  lki_http_reply reply;
  lake_status s = begin(self, LKI_VERB_REMOVE, key, deadline, &ask, name, err);
  if (s == LAKE_OK) s = lki_cloud_exchange(self, &ask, &reply, err);
  return s;
}

/* ---- the bucket's settings ---- */

void lki_request_bearer(lki_request *request, const char *token) {
  static const char scheme[] = "Bearer ";
  const size_t bytes = sizeof scheme + strlen(token);
  char *text = lki_arena_alloc(&request->arena, bytes);
  if (text == NULL) {
    request->failed = true;
    return;
  }
  snprintf(text, bytes, "%s%s", scheme, token);
  lki_request_header(request, "authorization", text);
  lki_wipe(text, bytes);
}

/* Many may use a bucket and not look at it: that says nothing about it, unlike a key or a secret that is wrong. */
static lake_status not_seen(lki_cloud_store *store, const lki_ask *ask, const lki_http_reply *reply, lake_status s,
                            lake_error *err) {
  lki_fault fault;
  memset(&fault, 0, sizeof fault);
  ask->dialect->fault(store->env, reply, &fault);
  if (s == LAKE_UNSUPPORTED)
    return lki_fail(err, LAKE_NOTFOUND, "the store does not tell the bucket's versioning (HTTP %d%s%s)", reply->status,
                    fault.code[0] ? " " : "", fault.code);
  if (s != LAKE_DENIED || !lki_verdict_missing_right(reply, &fault)) return s;
  return lki_fail(err, LAKE_NOTFOUND,
                  "these credentials may not see the bucket's versioning (HTTP %d %s; grant %s)", reply->status, fault.code,
                  ask->dialect == &lki_dialect_s3 ? "s3:GetBucketVersioning" : "storage.buckets.get");
}

lake_status lki_cloud_check(void *self, lake_deadline deadline, lake_error *err) {
  lki_cloud_store *store = self;
  lki_http_reply reply;
  lki_ask ask = {.verb = LKI_VERB_VERSIONING, .name = "", .deadline = deadline};
  lake_status s = lki_check_process(store->env, "the store", err);
  if (s == LAKE_OK) s = lki_cloud_dialect(store, deadline, &ask.dialect, err);
  if (s != LAKE_OK || ask.dialect->versioned == NULL) return s;
  lki_versioning versioning = LKI_VERSIONING_OFF;
  lake_buffer body;
  lki_buffer_init(&body, store->env, HEAD_BYTES_MAX);
  ask.sink = &body;
  s = lki_cloud_exchange(store, &ask, &reply, err);
  if (s == LAKE_OK)
    s = ask.dialect->versioned(store->env, lki_buffer_view(&body), &versioning, err);
  else
    s = not_seen(store, &ask, &reply, s, err);
  lki_buffer_free(&body);
  if (s == LAKE_OK && versioning == LKI_VERSIONING_ON)
    s = lki_fail(
        err, LAKE_UNSUPPORTED,
        "bucket %s keeps old versions: Ceph's gateway then creates a name that is taken, and nowhere does "
        "reclaim free anything; use a bucket without versioning",
        store->settings.bucket);
  if (s == LAKE_OK && versioning == LKI_VERSIONING_SUSPENDED)
    s = lki_fail(
        err, LAKE_UNSUPPORTED,
        "versioning of bucket %s is suspended, which is not off: what is deleted leaves a marker for ever, and "
        "Ceph's gateway then refuses to create the name again; use a bucket that never was versioned",
        store->settings.bucket);
  return s;
}

/* ---- opening ---- */

/* "https://host:port/path" gives the origin and where its path begins. */
static const char *split_endpoint(const char *endpoint, size_t *origin_bytes) {
  const char *host = strstr(endpoint, "://");
  host = host != NULL ? host + 3 : endpoint;
  *origin_bytes = (size_t)(host - endpoint) + strcspn(host, "/");
  return endpoint + *origin_bytes;
}

static lake_status make_place(const lki_settings *settings, lki_place *place, lake_error *err) {
  size_t origin_bytes = 0;
  const char *endpoint = settings->endpoint;
  const char *path = split_endpoint(endpoint, &origin_bytes);
  const int path_bytes =
      (int)(strlen(path) > 0 && path[strlen(path) - 1] == '/' ? strlen(path) - 1 : strlen(path));
  const bool in_path = settings->path_style || settings->cloud != LKI_CLOUD_S3;
  int origin = 0, base = 0;
  if (in_path) {
    origin = snprintf(place->origin, sizeof place->origin, "%.*s", (int)origin_bytes, endpoint);
    base = snprintf(place->base, sizeof place->base, "%.*s/%s/", path_bytes, path, settings->bucket);
  } else {
    const char *host = strstr(endpoint, "://");
    const size_t scheme_bytes = host != NULL ? (size_t)(host + 3 - endpoint) : 0;
    origin = snprintf(place->origin, sizeof place->origin, "%.*s%s.%.*s", (int)scheme_bytes, endpoint,
                      settings->bucket, (int)(origin_bytes - scheme_bytes), endpoint + scheme_bytes);
    base = snprintf(place->base, sizeof place->base, "%.*s/", path_bytes, path);
  }
  const int region =
      snprintf(place->region, sizeof place->region, "%s", settings->region != NULL ? settings->region : "");
  if (origin < 0 || (size_t)origin >= sizeof place->origin || base < 0 ||
      (size_t)base >= sizeof place->base || region < 0 || (size_t)region >= sizeof place->region)
    return lki_fail(err, LAKE_INVALID, "store URL: the endpoint, the bucket or the region is too long");
  return LAKE_OK;
}

static void cloud_close(void *self) {
  lki_cloud_store *store = self;
  /* A forked child has none of the threads that may hold, or wait for, what is closed here. */
  if (store == NULL || lki_check_process(store->env, "", NULL) != LAKE_OK) return;
  lake_env *env = store->env;
  lki_credentials_close(store->chain);
  lki_http_close(store->http);
  lki_hedge_close(store->hedge);
  lki_bookmarks_close(store->bookmarks);
  lki_day_key_close(store->day);
  lki_mutex_close(env, store->synced.lock);
  lki_settings_close(&store->settings);
  lki_free(env, store);
}

#define CLOUD_OPS(text, many)                                                                                     \
  {                                                                                                          \
    .size = sizeof(lake_store_ops), .scheme = (text), .get = cloud_get, .put = cloud_put,                    \
    .put_if_absent = cloud_put_if_absent, .head = cloud_head, .list = lki_cloud_list,                        \
    .remove = cloud_remove, .close = cloud_close, .list_uploads = lki_cloud_list_uploads,                    \
    .abort_upload = lki_cloud_abort_upload, .check = lki_cloud_check, .remove_many = (many)                  \
  }

static const lake_store_ops cloud_ops[] = {
    [LKI_CLOUD_S3] = CLOUD_OPS("s3", lki_s3_remove_many),
    [LKI_CLOUD_GCS] = CLOUD_OPS("gs", NULL),
    [LKI_CLOUD_AZURE] = CLOUD_OPS("az", NULL),
};

static lake_status open_parts(lki_cloud_store *store, const char *url, lake_error *err) {
  lake_env *env = store->env;
  lake_status s = lki_settings_open(env, url, &store->settings, err);
  if (s != LAKE_OK) return s;
  const lki_settings *settings = &store->settings;
  s = make_place(settings, &store->synced.place, err);
  if (s != LAKE_OK) return s;
  const size_t bytes = strlen(settings->prefix);
  if (bytes + 2 > sizeof store->name_prefix)
    return lki_fail(err, LAKE_INVALID, "store URL: the prefix is longer than a store accepts");
  memcpy(store->name_prefix, settings->prefix, bytes);
  if (bytes > 0) store->name_prefix[bytes] = '/';
  store->name_prefix_bytes = bytes > 0 ? bytes + 1 : 0;
  store->https = strncmp(settings->endpoint, "https://", 8) == 0;
  lki_http_options options = {.per_host_max = settings->connections, .ca_file = settings->ca_file};
  s = lki_http_open(env, &options, &store->http, err);
  if (s == LAKE_OK) s = lki_credentials_open(env, settings, store->http, &store->chain, err);
  if (s == LAKE_OK && settings->hedge_percent > 0)
    s = lki_hedge_open(env, settings->hedge_percent, &store->hedge, err);
  if (s == LAKE_OK && settings->cloud == LKI_CLOUD_AZURE) s = lki_bookmarks_open(env, &store->bookmarks, err);
  return s;
}

lake_status lki_store_cloud_open(lake_env *env, const char *url, const lake_store_ops **ops, void **self,
                                 lake_error *err) {
  lki_cloud_store *store = lki_new(env, sizeof *store);
  if (store == NULL) return lki_fail(err, LAKE_NOMEM, "store: out of memory");
  store->env = env;
  store->day = lki_day_key_open(env);
  store->synced.lock = lki_mutex_open(env);
  lake_status s = LAKE_OK;
  if (store->day == NULL || store->synced.lock == NULL) s = lki_fail(err, LAKE_NOMEM, "store: out of memory");
  if (s == LAKE_OK) s = open_parts(store, url, err);
  if (s != LAKE_OK) {
    cloud_close(store);
    return s;
  }
  *ops = &cloud_ops[store->settings.cloud];
  *self = store;
  return LAKE_OK;
}
