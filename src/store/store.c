/* The door to a store. What passes it: keys and ranges that are well formed, and requests that are counted;
 * idempotent ones are tried again when the store is UNAVAILABLE or UNCERTAIN. Invariants: an operation of the
 * table never sees a key or a range that the contract excludes; put_if_absent goes through exactly once. No
 * locks: the counters are atomic and the rest never changes after opening. */
#include "store/store.h"
#include "base/buffer.h"
#include "base/env.h"
#include "base/error.h"
#include "base/planted.h"
#include "store/retry.h"
#include "store/uri.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef atomic_uint_fast64_t counter;

struct lake_store {
  lake_env *env;
  const lake_store_ops *ops;
  void *self;
  char *url;
  lki_retry_budget budget;
  counter get_count, put_count, put_if_absent_count, head_count, list_count, remove_count;
  counter failed_count, read_bytes, written_bytes;
};

/* ---- keys and ranges ---- */

/* One component between slashes: what a file system or a listing could mistake for something else is refused.
 */
static bool component_valid(const char *text, size_t bytes) {
  if (bytes == 0 || bytes > LKI_KEY_COMPONENT_BYTES_MAX) return false;
  if (text[0] != '.') return true;
  if (bytes == 1 || (bytes == 2 && text[1] == '.')) return false;
  return !(bytes >= 6 && memcmp(text, ".lake-", 6) == 0);
}

bool lki_key_valid(const char *key) {
  if (key == NULL) return false;
  size_t total = strnlen(key, LKI_KEY_BYTES_MAX + 1);
  if (total == 0 || total > LKI_KEY_BYTES_MAX) return false;
  for (const char *at = key;;) {
    size_t bytes = strcspn(at, "/");
    if (!component_valid(at, bytes)) return false;
    if (at[bytes] == 0) return true;
    at += bytes + 1;
  }
}

/* A prefix is text, so its last component may be a part of one, or empty; those before it are whole. */
static bool prefix_valid(const char *prefix) {
  if (prefix == NULL || strnlen(prefix, LKI_KEY_BYTES_MAX + 1) > LKI_KEY_BYTES_MAX) return false;
  for (const char *at = prefix;;) {
    size_t bytes = strcspn(at, "/");
    if (at[bytes] == 0) return true;
    if (!component_valid(at, bytes)) return false;
    at += bytes + 1;
  }
}

/* The end of a long text, since the end of a key says more than its beginning, and the cause must fit behind
 * it. */
static const char *tail_text(const char *text, size_t bytes_max) {
  size_t bytes = strlen(text);
  return bytes > bytes_max ? text + bytes - bytes_max : text;
}

#define URL_SHOWN_BYTES 120
#define KEY_SHOWN_BYTES 120

static lake_status failed(const lake_store *store, const char *verb, const char *key, const lake_error *cause,
                          lake_error *err) {
  lake_status status = cause->status; /* err may be NULL: the status is returned all the same */
  lki_error_copy(err, cause);
  lki_error_prefix(err, "%s %s%s%s", verb, tail_text(store->url, URL_SHOWN_BYTES), key[0] != 0 ? ": " : "",
                   tail_text(key, KEY_SHOWN_BYTES));
  return status;
}

static lake_status bad_key(const lake_store *store, const char *verb, const char *key, lake_error *err) {
  return lki_fail(
      err, LAKE_INVALID,
      "%s %s: \"%.120s\" is no key: components joined by '/', none empty, \".\", \"..\" or beginning with "
      "\".lake-\", at most %d bytes each and %d in all",
      verb, tail_text(store->url, URL_SHOWN_BYTES), key != NULL ? key : "", LKI_KEY_COMPONENT_BYTES_MAX,
      LKI_KEY_BYTES_MAX);
}

/* ---- one try of each operation, counted ---- */

static void add(counter *c, uint64_t n) {
  atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

static uint64_t load(const counter *c) {
  /* C11 has no load from a const atomic on all compilers; the cast changes nothing. */
  return atomic_load_explicit((counter *)(uintptr_t)c, memory_order_relaxed);
}

/* Every try passes here when it ends. A table that forgets to set the error's status must not turn it into
 * OK. */
static lake_status note(lake_store *store, counter *c, lake_status status, lake_error *err) {
  add(c, 1);
  if (status == LAKE_OK) return status;
  err->status = status;
  if (status != LAKE_EXISTS && status != LAKE_NOTFOUND) {
    add(&store->failed_count, 1);
    lki_note(store->env, LAKE_LOG_DEBUG, "store %s: %s: %s", store->url, lake_status_name(status), err->text);
  }
  return status;
}

lake_status lki_store_put(lake_store *store, const char *key, lake_bytes body, lake_deadline deadline,
                          lake_error *err) {
  if (!lki_key_valid(key)) return bad_key(store, "put", key, err);
  lki_retry retry;
  lki_retry_init(&retry, store->env, &store->budget, deadline);
  lake_error e = LAKE_ERROR_INIT;
  lake_status s;
  do {
    s = note(store, &store->put_count, store->ops->put(store->self, key, body, deadline, &e), &e);
    if (LKI_PLANTED(PUT_UNCERTAIN_IS_DURABLE) && s == LAKE_UNCERTAIN) s = LAKE_OK;
  } while (lki_retry_again(&retry, s));
  if (s != LAKE_OK) return failed(store, "put", key, &e, err);
  add(&store->written_bytes, body.bytes);
  return LAKE_OK;
}

lake_status lki_store_put_if_absent(lake_store *store, const char *key, lake_bytes body,
                                    lake_deadline deadline, lake_error *err) {
  if (!lki_key_valid(key)) return bad_key(store, "put_if_absent", key, err);
  lake_error e = LAKE_ERROR_INIT;
  lake_status s = note(store, &store->put_if_absent_count,
                       store->ops->put_if_absent(store->self, key, body, deadline, &e), &e);
  if (s != LAKE_OK) return failed(store, "put_if_absent", key, &e, err);
  add(&store->written_bytes, body.bytes);
  return LAKE_OK;
}

lake_status lki_store_head(lake_store *store, const char *key, lake_object_info *info, lake_deadline deadline,
                           lake_error *err) {
  if (!lki_key_valid(key)) return bad_key(store, "head", key, err);
  lki_retry retry;
  lki_retry_init(&retry, store->env, &store->budget, deadline);
  lake_error e = LAKE_ERROR_INIT;
  lake_object_info found = {0};
  lake_status s;
  do {
    s = note(store, &store->head_count, store->ops->head(store->self, key, &found, deadline, &e), &e);
  } while (lki_retry_again(&retry, s));
  if (s != LAKE_OK) return failed(store, "head", key, &e, err);
  if (info != NULL) *info = found;
  return LAKE_OK;
}

/* HTTP has no way to ask for an empty range (S3 answers it with the whole object), so it is asked as a head.
 */
static lake_status get_empty(lake_store *store, const char *key, lake_range range, lake_buffer *out,
                             lake_object_info *info, lake_deadline deadline, lake_error *err) {
  lake_object_info found = {0};
  lake_status s = lki_store_head(store, key, &found, deadline, err);
  if (s != LAKE_OK) return s;
  if (range.kind == LAKE_RANGE_EXACT && range.offset > found.object_bytes)
    return lki_fail(err, LAKE_CORRUPT, "get %s: %s: the object has %llu bytes, byte %llu was asked",
                    tail_text(store->url, URL_SHOWN_BYTES), tail_text(key, KEY_SHOWN_BYTES),
                    (unsigned long long)found.object_bytes, (unsigned long long)range.offset);
  out->bytes = 0;
  if (info != NULL) *info = found;
  return LAKE_OK;
}

lake_status lki_store_get(lake_store *store, const char *key, lake_range range, lake_buffer *out,
                          lake_object_info *info, lake_deadline deadline, lake_error *err) {
  if (!lki_key_valid(key)) return bad_key(store, "get", key, err);
  if (range.kind == LAKE_RANGE_EXACT && range.bytes > UINT64_MAX - range.offset)
    return lki_fail(err, LAKE_INVALID, "get %s: the range %llu+%llu overflows",
                    tail_text(key, KEY_SHOWN_BYTES), (unsigned long long)range.offset,
                    (unsigned long long)range.bytes);
  if (range.kind == LAKE_RANGE_EXACT && range.bytes > out->bytes_max)
    return lki_fail(err, LAKE_INVALID, "get %s: %llu bytes do not fit into a buffer of at most %zu",
                    tail_text(key, KEY_SHOWN_BYTES), (unsigned long long)range.bytes, out->bytes_max);
  if (range.kind != LAKE_RANGE_WHOLE && range.bytes == 0)
    return get_empty(store, key, range, out, info, deadline, err);
  lki_retry retry;
  lki_retry_init(&retry, store->env, &store->budget, deadline);
  lake_error e = LAKE_ERROR_INIT;
  lake_status s;
  do {
    s = note(store, &store->get_count, store->ops->get(store->self, key, range, out, info, deadline, &e), &e);
  } while (lki_retry_again(&retry, s));
  if (s != LAKE_OK) return failed(store, "get", key, &e, err);
  add(&store->read_bytes, out->bytes);
  return LAKE_OK;
}

lake_status lki_store_remove(lake_store *store, const char *key, lake_deadline deadline, lake_error *err) {
  if (!lki_key_valid(key)) return bad_key(store, "remove", key, err);
  lki_retry retry;
  lki_retry_init(&retry, store->env, &store->budget, deadline);
  lake_error e = LAKE_ERROR_INIT;
  lake_status s;
  do {
    s = note(store, &store->remove_count, store->ops->remove(store->self, key, deadline, &e), &e);
  } while (lki_retry_again(&retry, s));
  return s == LAKE_OK ? LAKE_OK : failed(store, "remove", key, &e, err);
}

/* ---- listing ---- */

/* What a listing has delivered so far: a retry goes on behind it, so that no key is delivered twice. */
typedef struct listing {
  lake_list_fn *fn;
  void *ctx;
  const char *prefix;
  size_t prefix_bytes;
  bool stopped;   /* by fn */
  bool misplaced; /* the store listed a key out of order or outside the prefix */
  char last[LKI_KEY_BYTES_MAX + 1];
} listing;

static bool deliver(void *ctx, const char *key, uint64_t object_bytes) {
  listing *l = ctx;
  size_t bytes = strnlen(key, LKI_KEY_BYTES_MAX + 1);
  bool ordered = l->last[0] == 0 || strcmp(key, l->last) > 0;
  if (!ordered || bytes > LKI_KEY_BYTES_MAX || strncmp(key, l->prefix, l->prefix_bytes) != 0) {
    l->misplaced = true;
    return false;
  }
  memcpy(l->last, key, bytes + 1);
  if (l->fn(l->ctx, key, object_bytes)) return true;
  l->stopped = true;
  return false;
}

lake_status lki_store_list(lake_store *store, const char *prefix, const char *start_after, lake_list_fn *fn,
                           void *ctx, lake_deadline deadline, lake_error *err) {
  if (!prefix_valid(prefix)) return bad_key(store, "list", prefix, err);
  size_t after_bytes = start_after != NULL ? strnlen(start_after, LKI_KEY_BYTES_MAX + 1) : 0;
  if (after_bytes > LKI_KEY_BYTES_MAX) return bad_key(store, "list", start_after, err);
  listing l = {.fn = fn, .ctx = ctx, .prefix = prefix, .prefix_bytes = strlen(prefix)};
  if (after_bytes > 0) memcpy(l.last, start_after, after_bytes + 1);
  lki_retry retry;
  lki_retry_init(&retry, store->env, &store->budget, deadline);
  lake_error e = LAKE_ERROR_INIT;
  lake_status s;
  do {
    char after[LKI_KEY_BYTES_MAX + 1]; /* the table borrows it while deliver() writes l.last */
    memcpy(after, l.last, sizeof after);
    s = store->ops->list(store->self, prefix, after[0] ? after : NULL, deliver, &l, deadline, &e);
    if (l.misplaced)
      s = lki_fail(&e, LAKE_CORRUPT, "the store lists keys out of order or outside the prefix");
    note(store, &store->list_count, s, &e);
  } while (!l.stopped && lki_retry_again(&retry, s));
  if (s != LAKE_OK && !l.stopped) return failed(store, "list", prefix, &e, err);
  return LAKE_OK;
}

/* ---- what a table may lack ---- */

/* Whether a table has a member that was appended later. */
#define HAS(ops, member) \
  ((ops)->size >= offsetof(lake_store_ops, member) + sizeof((ops)->member) && (ops)->member != NULL)

lake_status lki_store_list_uploads(lake_store *store, const char *prefix, lake_upload_fn *fn, void *ctx,
                                   lake_deadline deadline, lake_error *err) {
  if (!prefix_valid(prefix)) return bad_key(store, "list uploads", prefix, err);
  if (!HAS(store->ops, list_uploads)) return LAKE_OK;
  /* Not retried: fn may have seen some of them. Whoever lists uploads cleans up, and comes again. */
  lake_error e = LAKE_ERROR_INIT;
  lake_status s = note(store, &store->list_count,
                       store->ops->list_uploads(store->self, prefix, fn, ctx, deadline, &e), &e);
  return s == LAKE_OK ? LAKE_OK : failed(store, "list uploads", prefix, &e, err);
}

lake_status lki_store_abort_upload(lake_store *store, const char *key, const char *upload_id, lake_deadline deadline,
                                   lake_error *err) {
  if (!lki_key_valid(key)) return bad_key(store, "abort upload", key, err);
  if (!HAS(store->ops, abort_upload)) return LAKE_OK;
  lki_retry retry;
  lki_retry_init(&retry, store->env, &store->budget, deadline);
  lake_error e = LAKE_ERROR_INIT;
  lake_status s;
  do {
    s = note(store, &store->remove_count, store->ops->abort_upload(store->self, key, upload_id, deadline, &e), &e);
  } while (lki_retry_again(&retry, s));
  return s == LAKE_OK ? LAKE_OK : failed(store, "abort upload", key, &e, err);
}

lake_status lki_store_check(lake_store *store, lake_deadline deadline, lake_error *err) {
  if (!HAS(store->ops, check)) return LAKE_OK;
  lki_retry retry;
  lki_retry_init(&retry, store->env, &store->budget, deadline);
  lake_error e = LAKE_ERROR_INIT;
  lake_status s;
  do {
    s = note(store, &store->get_count, store->ops->check(store->self, deadline, &e), &e);
  } while (lki_retry_again(&retry, s));
  return s == LAKE_OK ? LAKE_OK : failed(store, "check", "", &e, err);
}

/* ---- many at once ---- */

typedef struct batch {
  size_t count;
  const char *keys[LAKE_REMOVE_MANY_MAX]; /* those that may still be there */
  size_t places[LAKE_REMOVE_MANY_MAX];    /* each one's among those that the caller has given */
  bool gone[LAKE_REMOVE_MANY_MAX];
  bool *told; /* the caller's, of all; NULL: it does not ask */
} batch;

static void batch_begin(batch *b, const char *const *keys, size_t first, size_t count) {
  b->count = count;
  for (size_t i = 0; i < count; i++) {
    b->keys[i] = keys[first + i];
    b->places[i] = first + i;
  }
}

static void tell_gone(const batch *b, size_t i) {
  if (b->told != NULL) b->told[b->places[i]] = true;
}

static void batch_drop_gone(batch *b) {
  size_t kept = 0;
  for (size_t i = 0; i < b->count; i++) {
    if (b->gone[i]) {
      tell_gone(b, i);
      continue;
    }
    b->places[kept] = b->places[i];
    b->keys[kept++] = b->keys[i];
  }
  b->count = kept;
}

/* One try of the table. What it cannot do is no failure of the store, and a refusal that took no request is no request. */
static lake_status batch_try(lake_store *store, batch *b, lake_deadline deadline, lake_error *e) {
  const size_t before = b->count;
  memset(b->gone, 0, sizeof b->gone);
  const lake_status s = store->ops->remove_many(store->self, b->keys, b->count, b->gone, deadline, e);
  if (s == LAKE_OK) memset(b->gone, 1, sizeof b->gone);
  batch_drop_gone(b);
  if (b->count == 0) return note(store, &store->remove_count, LAKE_OK, e);
  if (s != LAKE_UNSUPPORTED) return note(store, &store->remove_count, s, e);
  if (b->count < before) add(&store->remove_count, 1);
  return s;
}

/* By one's own, in the order of the keys. */
static lake_status remove_each(lake_store *store, batch *b, lake_deadline deadline, lake_error *err) {
  lake_status s = LAKE_OK;
  for (size_t i = 0; i < b->count && s == LAKE_OK; i++) {
    s = lki_store_remove(store, b->keys[i], deadline, err);
    if (s == LAKE_OK) tell_gone(b, i);
  }
  return s;
}

static lake_status remove_batch(lake_store *store, batch *b, lake_deadline deadline, lake_error *err) {
  lki_retry retry;
  lki_retry_init(&retry, store->env, &store->budget, deadline);
  lake_error e = LAKE_ERROR_INIT;
  lake_status s;
  do {
    s = batch_try(store, b, deadline, &e);
  } while (lki_retry_again(&retry, s));
  if (s != LAKE_UNSUPPORTED) return s == LAKE_OK ? s : failed(store, "remove many", "", &e, err);
  return remove_each(store, b, deadline, err);
}

lake_status lki_store_remove_many(lake_store *store, const char *const *keys, size_t count, bool *gone,
                                  lake_deadline deadline, lake_error *err) {
  lake_status s = LAKE_OK;
  if (gone != NULL) memset(gone, 0, count * sizeof *gone);
  for (size_t i = 0; i < count; i++)
    if (!lki_key_valid(keys[i])) return bad_key(store, "remove many", keys[i], err);
  batch *b = count > 0 ? lki_new(store->env, sizeof *b) : NULL;
  if (count > 0 && b == NULL) return lki_fail(err, LAKE_NOMEM, "remove many %s: out of memory", store->url);
  if (b != NULL) b->told = gone;
  const bool together = HAS(store->ops, remove_many);
  for (size_t at = 0; at < count && s == LAKE_OK; at += LAKE_REMOVE_MANY_MAX) {
    batch_begin(b, keys, at, count - at < LAKE_REMOVE_MANY_MAX ? count - at : LAKE_REMOVE_MANY_MAX);
    s = together ? remove_batch(store, b, deadline, err) : remove_each(store, b, deadline, err);
  }
  lki_free(store->env, b);
  return s;
}

/* ---- open and close ---- */

static bool table_complete(const lake_store_ops *ops) {
  return ops != NULL && ops->size >= offsetof(lake_store_ops, list_uploads) && ops->scheme != NULL && ops->get != NULL &&
         ops->put != NULL && ops->put_if_absent != NULL && ops->head != NULL && ops->list != NULL &&
         ops->remove != NULL && ops->close != NULL;
}

lake_status lake_store_wrap(lake_env *env, const lake_store_ops *ops, void *self, const char *label,
                            lake_store **out, lake_error *err) {
  if (env == NULL || label == NULL || out == NULL || !table_complete(ops))
    return lki_fail(err, LAKE_INVALID, "store: the operations table must have its size and every member set");
  lake_store *store = lki_new(env, sizeof *store);
  char *url = lki_strdup(env, label);
  if (store == NULL || url == NULL) {
    lki_free(env, url);
    lki_free(env, store);
    return lki_fail(err, LAKE_NOMEM, "store %.120s: out of memory", label);
  }
  store->env = env;
  store->ops = ops;
  store->self = self;
  store->url = url;
  lki_retry_budget_init(&store->budget);
  *out = store;
  return LAKE_OK;
}

lake_status lake_store_open(lake_env *env, const char *url, lake_store **out, lake_error *err) {
  if (env == NULL || out == NULL)
    return lki_fail(err, LAKE_INVALID, "store: no environment or no place for the result");
  char *canonical = NULL;
  const lake_store_ops *ops = NULL;
  void *self = NULL;
  lake_status s = lki_uri_canonical(env, url, &canonical, err);
  if (s == LAKE_OK) s = lki_uri_open(env, canonical, &ops, &self, err);
  if (s == LAKE_OK) {
    s = lake_store_wrap(env, ops, self, canonical, out, err);
    if (s != LAKE_OK) ops->close(self);
  }
  lki_free(env, canonical);
  return s;
}

void lake_store_close(lake_store *store) {
  if (store == NULL) return;
  store->ops->close(store->self);
  lake_env *env = store->env;
  lki_free(env, store->url);
  lki_free(env, store);
}

void lake_store_stats_get(const lake_store *store, lake_store_stats *stats) {
  stats->get_count = load(&store->get_count);
  stats->put_count = load(&store->put_count);
  stats->put_if_absent_count = load(&store->put_if_absent_count);
  stats->head_count = load(&store->head_count);
  stats->list_count = load(&store->list_count);
  stats->remove_count = load(&store->remove_count);
  stats->failed_count = load(&store->failed_count);
  stats->read_bytes = load(&store->read_bytes);
  stats->written_bytes = load(&store->written_bytes);
}

lake_env *lki_store_env(const lake_store *store) {
  return store->env;
}
const char *lki_store_url(const lake_store *store) {
  return store->url;
}

lake_status lki_store_fits(const lake_buffer *out, uint64_t bytes, lake_error *err) {
  if (bytes <= out->bytes_max) return LAKE_OK;
  return lki_fail(err, LAKE_CORRUPT, "%llu bytes where at most %zu are possible; restore the object",
                  (unsigned long long)bytes, out->bytes_max);
}
