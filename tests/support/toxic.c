#include "support/toxic.h"
#include "base/buffer.h"
#include "base/error.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct object {
  struct object *next;
  char *key;
  unsigned char *data;
  size_t bytes;
} object;

struct toxic {
  lake_env *env;
  lake_store *store;
  pthread_mutex_t lock;
  toxic_fn *fn;
  void *ctx;
  uint64_t count;
  object *objects; /* ascending by key */
  object *late;    /* puts-if-absent that land at the next operation */
};

static object **find(toxic *t, const char *key) {
  object **at = &t->objects;
  while (*at != NULL && strcmp((*at)->key, key) < 0) at = &(*at)->next;
  return at;
}

static object *make(const char *key, lake_bytes body) {
  object *o = calloc(1, sizeof *o);
  o->key = strdup(key);
  o->data = malloc(body.bytes + 1);
  if (body.bytes > 0) memcpy(o->data, body.data, body.bytes);
  o->bytes = body.bytes;
  return o;
}

static void drop(object *o) {
  free(o->key);
  free(o->data);
  free(o);
}

static lake_status apply_put(toxic *t, object *o, bool if_absent) {
  object **at = find(t, o->key);
  if (*at != NULL && strcmp((*at)->key, o->key) == 0) {
    if (if_absent) {
      drop(o);
      return LAKE_EXISTS;
    }
    object *old = *at;
    *at = old->next;
    drop(old);
  }
  o->next = *at;
  *at = o;
  return LAKE_OK;
}

static toxic_kind enter(toxic *t, toxic_op op, const char *key) {
  pthread_mutex_lock(&t->lock);
  while (t->late != NULL) {
    object *o = t->late;
    t->late = o->next;
    (void)apply_put(t, o, true);
  }
  const uint64_t nth = t->count++;
  return t->fn != NULL ? t->fn(t->ctx, op, key, nth) : TOXIC_NONE;
}

static lake_status leave(toxic *t, lake_status s) {
  pthread_mutex_unlock(&t->lock);
  return s;
}

static lake_status refuse(toxic *t, toxic_kind kind, lake_error *err) {
  if (kind == TOXIC_DENIED) return leave(t, lki_fail(err, LAKE_DENIED, "injected: denied"));
  if (kind == TOXIC_TRUNCATE) return leave(t, lki_fail(err, LAKE_CORRUPT, "injected: short body"));
  return leave(t, lki_fail(err, LAKE_UNAVAILABLE, "injected: failed before"));
}

static lake_status toxic_get(void *self, const char *key, lake_range range, lake_buffer *out, lake_object_info *info,
                             lake_deadline deadline, lake_error *err) {
  (void)deadline;
  toxic *t = self;
  toxic_kind kind = enter(t, TOXIC_GET, key);
  if (kind != TOXIC_NONE && kind != TOXIC_FLIP) return refuse(t, kind, err);
  object *o = *find(t, key);
  if (o == NULL || strcmp(o->key, key) != 0) return leave(t, lki_fail(err, LAKE_NOTFOUND, "no such object"));
  uint64_t from = 0, bytes = o->bytes;
  if (range.kind == LAKE_RANGE_EXACT) {
    if (range.offset > o->bytes || range.bytes > o->bytes - range.offset)
      return leave(t, lki_fail(err, LAKE_CORRUPT, "object is shorter than the range"));
    from = range.offset;
    bytes = range.bytes;
  } else if (range.kind == LAKE_RANGE_SUFFIX && range.bytes < o->bytes) {
    from = o->bytes - range.bytes;
    bytes = range.bytes;
  }
  lake_status s = lki_buffer_reserve(out, (size_t)bytes, err);
  if (s != LAKE_OK) return leave(t, s);
  if (bytes > 0) memcpy(out->data, o->data + from, (size_t)bytes);
  out->bytes = (size_t)bytes;
  if (kind == TOXIC_FLIP && bytes > 0) out->data[bytes / 2] ^= 0x10;
  if (info != NULL) info->object_bytes = o->bytes;
  return leave(t, LAKE_OK);
}

static lake_status toxic_write(toxic *t, toxic_op op, const char *key, lake_bytes body, lake_error *err) {
  toxic_kind kind = enter(t, op, key);
  if (kind == TOXIC_FAIL_BEFORE || kind == TOXIC_DENIED) return refuse(t, kind, err);
  object *o = make(key, body);
  if (kind == TOXIC_LATE) {
    o->next = t->late;
    t->late = o;
    return leave(t, lki_fail(err, LAKE_UNCERTAIN, "injected: no reply yet"));
  }
  lake_status s = apply_put(t, o, op == TOXIC_PUT_IF_ABSENT);
  if (kind == TOXIC_FAIL_AFTER) return leave(t, lki_fail(err, LAKE_UNCERTAIN, "injected: reply lost"));
  if (kind == TOXIC_EXISTS_AFTER && op == TOXIC_PUT_IF_ABSENT) s = LAKE_EXISTS;
  return leave(t, s == LAKE_OK ? s : lki_fail(err, s, "the name is taken"));
}

static lake_status toxic_put(void *self, const char *key, lake_bytes body, lake_deadline deadline, lake_error *err) {
  (void)deadline;
  return toxic_write(self, TOXIC_PUT, key, body, err);
}

static lake_status toxic_put_if_absent(void *self, const char *key, lake_bytes body, lake_deadline deadline,
                                       lake_error *err) {
  (void)deadline;
  return toxic_write(self, TOXIC_PUT_IF_ABSENT, key, body, err);
}

static lake_status toxic_head(void *self, const char *key, lake_object_info *info, lake_deadline deadline,
                              lake_error *err) {
  (void)deadline;
  toxic *t = self;
  toxic_kind kind = enter(t, TOXIC_HEAD, key);
  if (kind != TOXIC_NONE) return refuse(t, kind, err);
  object *o = *find(t, key);
  if (o == NULL || strcmp(o->key, key) != 0) return leave(t, lki_fail(err, LAKE_NOTFOUND, "no such object"));
  if (info != NULL) info->object_bytes = o->bytes;
  return leave(t, LAKE_OK);
}

static lake_status toxic_list(void *self, const char *prefix, const char *start_after, lake_list_fn *fn, void *ctx,
                              lake_deadline deadline, lake_error *err) {
  (void)deadline;
  toxic *t = self;
  toxic_kind kind = enter(t, TOXIC_LIST, prefix);
  if (kind != TOXIC_NONE) return refuse(t, kind, err);
  for (object *o = t->objects; o != NULL; o = o->next) {
    if (strncmp(o->key, prefix, strlen(prefix)) != 0) continue;
    if (start_after != NULL && strcmp(o->key, start_after) <= 0) continue;
    if (!fn(ctx, o->key, o->bytes)) break;
  }
  return leave(t, LAKE_OK);
}

static lake_status toxic_remove(void *self, const char *key, lake_deadline deadline, lake_error *err) {
  (void)deadline;
  toxic *t = self;
  toxic_kind kind = enter(t, TOXIC_REMOVE, key);
  if (kind != TOXIC_NONE) return refuse(t, kind, err);
  object **at = find(t, key);
  if (*at != NULL && strcmp((*at)->key, key) == 0) {
    object *old = *at;
    *at = old->next;
    drop(old);
  }
  return leave(t, LAKE_OK);
}

static void toxic_end(void *self) { (void)self; }

static const lake_store_ops toxic_ops = {
    .size = sizeof(lake_store_ops), .scheme = "toxic", .get = toxic_get, .put = toxic_put,
    .put_if_absent = toxic_put_if_absent, .head = toxic_head, .list = toxic_list,
    .remove = toxic_remove, .close = toxic_end,
};

toxic *toxic_open(lake_env *env, toxic_fn *fn, void *ctx) {
  toxic *t = calloc(1, sizeof *t);
  t->env = env;
  t->fn = fn;
  t->ctx = ctx;
  pthread_mutex_init(&t->lock, NULL);
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lake_store_wrap(env, &toxic_ops, t, "toxic:", &t->store, &err), &err);
  return t;
}

lake_store *toxic_store(toxic *t) { return t->store; }

uint64_t toxic_count(toxic *t) {
  pthread_mutex_lock(&t->lock);
  uint64_t count = t->count;
  pthread_mutex_unlock(&t->lock);
  return count;
}

void toxic_close(toxic *t) {
  lake_store_close(t->store);
  while (t->objects != NULL) {
    object *o = t->objects;
    t->objects = o->next;
    drop(o);
  }
  while (t->late != NULL) {
    object *o = t->late;
    t->late = o->next;
    drop(o);
  }
  pthread_mutex_destroy(&t->lock);
  free(t);
}
