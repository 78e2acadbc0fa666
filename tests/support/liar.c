#include "support/liar.h"
#include "base/buffer.h"
#include "base/error.h"
#include "store/store.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct liar {
  lake_env *env;
  lake_store *inner;
  liar_lie lie;
  uint32_t connection;
  atomic_uint count;
} liar;

static bool race(const char *key) {
  return strstr(key, "/race/") != NULL;
}

static lake_status past_end(liar *l, const char *key, lake_range range, lake_buffer *out, lake_object_info *info,
                            lake_deadline deadline, lake_error *err) {
  lake_object_info all = {0};
  lake_status s = lki_store_head(l->inner, key, &all, deadline, err);
  if (s != LAKE_OK || range.offset + range.bytes <= all.object_bytes)
    return s != LAKE_OK ? s : lki_store_get(l->inner, key, range, out, info, deadline, err);
  s = lki_store_get(l->inner, key, lki_range_exact(range.offset, all.object_bytes - range.offset), out, info, deadline, err);
  if (s == LAKE_OK) out->bytes = (size_t)range.bytes;
  return s;
}

/* The first time for this key, told by a mark beside it, so that it is the same over both connections. */
static bool first_time(liar *l, const char *key, lake_deadline deadline) {
  char mark[200];
  lake_bytes none = {"", 0};
  snprintf(mark, sizeof mark, "liar/%s", key);
  return lki_store_put_if_absent(l->inner, mark, none, deadline, NULL) == LAKE_OK;
}

/* Whether nothing was there when this key was asked for first. */
static bool stays_empty(liar *l, const char *key, lake_deadline deadline) {
  char mark[200];
  lake_object_info info;
  if (lki_store_head(l->inner, key, &info, deadline, NULL) == LAKE_NOTFOUND) (void)first_time(l, key, deadline);
  snprintf(mark, sizeof mark, "liar/%s", key);
  return lki_store_head(l->inner, mark, &info, deadline, NULL) == LAKE_OK;
}

static lake_status liar_get(void *self, const char *key, lake_range range, lake_buffer *out, lake_object_info *info,
                            lake_deadline deadline, lake_error *err) {
  liar *l = self;
  if (l->lie == LIE_OTHER_COPY && l->connection == 1) return lki_fail(err, LAKE_NOTFOUND, "not here yet");
  if (l->lie == LIE_GET_STAYS_EMPTY && stays_empty(l, key, deadline)) return lki_fail(err, LAKE_NOTFOUND, "not here");
  if (range.kind == LAKE_RANGE_EXACT) {
    if (l->lie == LIE_RANGE_SHIFTED && range.bytes == 4096) range.offset++;
    if (l->lie == LIE_RANGE_WHOLE) range = lki_range_whole();
    if (l->lie == LIE_RANGE_REFUSED) return lki_fail(err, LAKE_CORRUPT, "the whole came for a range");
    if (l->lie == LIE_RANGE_PAST_END) return past_end(l, key, range, out, info, deadline, err);
  }
  if (l->lie == LIE_SUFFIX_IS_HEAD && range.kind == LAKE_RANGE_SUFFIX && range.bytes < 50000)
    range = lki_range_exact(0, range.bytes);
  return lki_store_get(l->inner, key, range, out, info, deadline, err);
}

static lake_status liar_put(void *self, const char *key, lake_bytes body, lake_deadline deadline, lake_error *err) {
  liar *l = self;
  return lki_store_put(l->inner, key, body, deadline, err);
}

/* Only the removal creates the name of an object of the list. */
static bool recreated(const char *key) {
  return strstr(key, "/list/") != NULL;
}

static lake_status create_in_doubt(liar *l, const char *key, lake_bytes body, lake_deadline deadline, lake_error *err) {
  const unsigned n = atomic_fetch_add(&l->count, 1);
  const lake_status s = lki_store_put_if_absent(l->inner, key, body, deadline, err);
  if (n % 3 == 1) return lki_fail(err, LAKE_UNCERTAIN, "the reply was lost");
  if (n % 3 == 2 && s == LAKE_OK) return lki_fail(err, LAKE_EXISTS, "taken, by an earlier try of one's own");
  return s;
}

static lake_status liar_put_if_absent(void *self, const char *key, lake_bytes body, lake_deadline deadline,
                                      lake_error *err) {
  liar *l = self;
  lake_object_info info;
  switch (l->lie) {
  case LIE_CONDITION_IGNORED: return lki_store_put(l->inner, key, body, deadline, err);
  case LIE_CONDITION_INVERTED:
    if (lki_store_head(l->inner, key, &info, deadline, NULL) == LAKE_OK) return lki_store_put(l->inner, key, body, deadline, err);
    return lki_fail(err, LAKE_EXISTS, "taken");
  case LIE_TAKEN_BY_NOBODY:
    if (race(key)) return lki_fail(err, LAKE_EXISTS, "taken");
    break;
  case TRUE_BUSY:
    if (race(key)) return lki_fail(err, LAKE_UNAVAILABLE, "slow down");
    break;
  case LIE_NAME_SPENT:
    if (recreated(key)) return lki_fail(err, LAKE_EXISTS, "taken");
    break;
  case LIE_REMOVED_RETURNS:
    if (!recreated(key)) break;
    (void)lki_store_put(l->inner, key, (lake_bytes){"old", 3}, deadline, NULL);
    return lki_fail(err, LAKE_EXISTS, "taken");
  case TRUE_RECREATE_UNDECIDED:
    if (recreated(key) && first_time(l, key, deadline)) return lki_fail(err, LAKE_UNCERTAIN, "undecided");
    break;
  case TRUE_RECREATE_BUSY:
    if (recreated(key) && first_time(l, key, deadline)) return lki_fail(err, LAKE_UNAVAILABLE, "slow down");
    break;
  case TRUE_CREATE_DENIED: return lki_fail(err, LAKE_DENIED, "not allowed");
  case TRUE_REPLIES_LOST: return create_in_doubt(l, key, body, deadline, err);
  default: break;
  }
  const lake_status s = lki_store_put_if_absent(l->inner, key, body, deadline, err);
  if (s != LAKE_EXISTS) return s;
  if (l->lie == LIE_TWO_WINNERS && race(key) && first_time(l, key, deadline)) return LAKE_OK;
  if (l->lie == LIE_OVERWRITTEN && race(key) && first_time(l, key, deadline)) (void)lki_store_put(l->inner, key, body, deadline, NULL);
  return s;
}

static lake_status liar_head(void *self, const char *key, lake_object_info *info, lake_deadline deadline, lake_error *err) {
  liar *l = self;
  if (l->lie == LIE_HEAD_STAYS_EMPTY && stays_empty(l, key, deadline)) return lki_fail(err, LAKE_NOTFOUND, "not here");
  const lake_status s = lki_store_head(l->inner, key, info, deadline, err);
  if (s == LAKE_OK && l->lie == LIE_HEAD_SIZE) info->object_bytes++;
  return s;
}

typedef struct listing {
  liar *liar;
  lake_list_fn *fn;
  void *ctx;
  char held[200]; /* one entry back, for the newest is the last */
  uint64_t held_bytes;
} listing;

static bool list_one(void *ctx, const char *key, uint64_t object_bytes) {
  listing *g = ctx;
  if (strncmp(key, "liar/", 5) == 0) return true;
  if (g->liar->lie == LIE_LIST_SIZE) object_bytes++;
  if (g->liar->lie == LIE_LIST_BY_FOLDER) { /* "0-/0" comes behind "0/0" */
    if (strstr(key, "/list/0-/") == NULL && g->held[0] == 0) return g->fn(g->ctx, key, object_bytes);
    if (g->held[0] != 0) {
      char held[sizeof g->held];
      memcpy(held, g->held, sizeof held);
      g->held[0] = 0;
      return g->fn(g->ctx, key, object_bytes) && g->fn(g->ctx, held, g->held_bytes);
    }
    snprintf(g->held, sizeof g->held, "%s", key);
    g->held_bytes = object_bytes;
    return true;
  }
  if (g->liar->lie != LIE_LIST_MISSES) return g->fn(g->ctx, key, object_bytes);
  const bool more = g->held[0] == 0 || g->fn(g->ctx, g->held, g->held_bytes);
  snprintf(g->held, sizeof g->held, "%s", key);
  g->held_bytes = object_bytes;
  return more;
}

static lake_status liar_list(void *self, const char *prefix, const char *start_after, lake_list_fn *fn, void *ctx,
                             lake_deadline deadline, lake_error *err) {
  liar *l = self;
  listing g = {.liar = l, .fn = fn, .ctx = ctx};
  return lki_store_list(l->inner, prefix, start_after, list_one, &g, deadline, err);
}

static lake_status liar_remove(void *self, const char *key, lake_deadline deadline, lake_error *err) {
  liar *l = self;
  const bool listed = strstr(key, "/list/00003") != NULL;
  if (l->lie == TRUE_REMOVE_DENIED) return lki_fail(err, LAKE_DENIED, "not allowed");
  if (l->lie == LIE_REMOVE_NOTHING || (l->lie == LIE_LIST_REMOVED && listed && first_time(l, key, deadline))) return LAKE_OK;
  return lki_store_remove(l->inner, key, deadline, err);
}

static void liar_close(void *self) {
  liar *l = self;
  lake_store_close(l->inner);
  free(l);
}

static const lake_store_ops ops = {
    .size = sizeof ops,
    .scheme = "liar",
    .get = liar_get,
    .put = liar_put,
    .put_if_absent = liar_put_if_absent,
    .head = liar_head,
    .list = liar_list,
    .remove = liar_remove,
    .close = liar_close,
};

lake_store *liar_open(lake_env *env, const char *label, liar_lie told, uint32_t connection) {
  liar *l = calloc(1, sizeof *l);
  lake_store *store = NULL;
  assert_non_null(l);
  l->env = env;
  l->lie = told;
  l->connection = connection;
  assert_int_equal(lake_store_open(env, "mem:liar", &l->inner, NULL), LAKE_OK);
  assert_int_equal(lake_store_wrap(env, &ops, l, label, &store, NULL), LAKE_OK);
  return store;
}

static bool count_one(void *ctx, const char *key, uint64_t object_bytes) {
  (void)object_bytes;
  if (strncmp(key, "liar/", 5) != 0) ++*(uint64_t *)ctx;
  return true;
}

uint64_t liar_object_count(lake_env *env) {
  lake_store *store = NULL;
  uint64_t count = 0;
  assert_int_equal(lake_store_open(env, "mem:liar", &store, NULL), LAKE_OK);
  assert_int_equal(lki_store_list(store, "", NULL, count_one, &count, test_deadline(env), NULL), LAKE_OK);
  lake_store_close(store);
  return count;
}
