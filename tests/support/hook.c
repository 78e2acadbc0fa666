#include "support/hook.h"
#include "base/error.h"
#include "store/store.h"
#include <stdatomic.h>
#include <stdlib.h>

typedef struct hook {
  lake_store *inner;
  hook_fn *fn;
  void *ctx;
  atomic_uint_fast64_t count;
} hook;

/* False: the operation is refused, and *s says how it ends. */
static bool ask(hook *h, hook_op op, const char *key, bool *lose, lake_status *s, lake_error *err) {
  const uint64_t nth = atomic_fetch_add(&h->count, 1);
  const hook_verdict verdict = h->fn != NULL ? h->fn(h->ctx, op, key, nth) : HOOK_PASS;
  *lose = verdict == HOOK_LOSE;
  if (verdict == HOOK_DENY) *s = lki_fail(err, LAKE_DENIED, "injected: denied");
  if (verdict == HOOK_DROP) *s = lki_fail(err, LAKE_UNCERTAIN, "injected: no reply");
  return verdict != HOOK_DENY && verdict != HOOK_DROP;
}

static lake_status answer(bool lose, lake_status s, lake_error *err) {
  return lose ? lki_fail(err, LAKE_UNCERTAIN, "injected: reply lost") : s;
}

static lake_status hook_get(void *self, const char *key, lake_range range, lake_buffer *out, lake_object_info *info,
                            lake_deadline deadline, lake_error *err) {
  hook *h = self;
  bool lose;
  lake_status s = LAKE_OK;
  if (!ask(h, HOOK_GET, key, &lose, &s, err)) return s;
  return answer(lose, lki_store_get(h->inner, key, range, out, info, deadline, err), err);
}

static lake_status hook_put(void *self, const char *key, lake_bytes body, lake_deadline deadline, lake_error *err) {
  hook *h = self;
  bool lose;
  lake_status s = LAKE_OK;
  if (!ask(h, HOOK_PUT, key, &lose, &s, err)) return s;
  return answer(lose, lki_store_put(h->inner, key, body, deadline, err), err);
}

static lake_status hook_put_if_absent(void *self, const char *key, lake_bytes body, lake_deadline deadline,
                                      lake_error *err) {
  hook *h = self;
  bool lose;
  lake_status s = LAKE_OK;
  if (!ask(h, HOOK_PUT_IF_ABSENT, key, &lose, &s, err)) return s;
  return answer(lose, lki_store_put_if_absent(h->inner, key, body, deadline, err), err);
}

static lake_status hook_head(void *self, const char *key, lake_object_info *info, lake_deadline deadline,
                             lake_error *err) {
  hook *h = self;
  bool lose;
  lake_status s = LAKE_OK;
  if (!ask(h, HOOK_HEAD, key, &lose, &s, err)) return s;
  return answer(lose, lki_store_head(h->inner, key, info, deadline, err), err);
}

static lake_status hook_list(void *self, const char *prefix, const char *start_after, lake_list_fn *fn, void *ctx,
                             lake_deadline deadline, lake_error *err) {
  hook *h = self;
  bool lose;
  lake_status s = LAKE_OK;
  if (!ask(h, HOOK_LIST, prefix, &lose, &s, err)) return s;
  return answer(lose, lki_store_list(h->inner, prefix, start_after, fn, ctx, deadline, err), err);
}

static lake_status hook_remove(void *self, const char *key, lake_deadline deadline, lake_error *err) {
  hook *h = self;
  bool lose;
  lake_status s = LAKE_OK;
  if (!ask(h, HOOK_REMOVE, key, &lose, &s, err)) return s;
  return answer(lose, lki_store_remove(h->inner, key, deadline, err), err);
}

/* The keys are asked about one by one, from both ends to the middle or from the middle to the ends by turns, so that what
 * is left of a batch that broke off is no run of its first or last keys. One that is denied fails by itself; without a
 * reply, or when that is lost, nobody knows of any. */
static lake_status hook_remove_many(void *self, const char *const *keys, size_t count, bool *gone, lake_deadline deadline,
                                    lake_error *err) {
  hook *h = self;
  const bool inwards = atomic_load(&h->count) % 2 == 0;
  bool *done = calloc(count, sizeof *done), lost = false;
  lake_status worst = LAKE_OK;
  assert_non_null(done);
  for (size_t i = 0; i < count && worst != LAKE_UNCERTAIN; i++) {
    const size_t n = inwards ? i : count - 1 - i, at = n % 2 == 0 ? n / 2 : count - 1 - n / 2;
    bool lose = false;
    lake_status s = LAKE_OK;
    if (ask(h, HOOK_REMOVE, keys[at], &lose, &s, err)) s = lki_store_remove(h->inner, keys[at], deadline, err);
    done[at] = s == LAKE_OK;
    lost = lost || lose;
    if (s != LAKE_OK) worst = s;
  }
  lost = lost || worst == LAKE_UNCERTAIN;
  for (size_t i = 0; i < count && !lost; i++) gone[i] = done[i];
  free(done);
  return lost ? answer(true, LAKE_OK, err) : worst;
}

static void hook_close(void *self) { free(self); }

static const lake_store_ops hook_ops = {
    .size = sizeof(lake_store_ops), .scheme = "hook", .get = hook_get, .put = hook_put,
    .put_if_absent = hook_put_if_absent, .head = hook_head, .list = hook_list, .remove = hook_remove,
    .close = hook_close, .remove_many = hook_remove_many,
};

lake_store *hook_open(lake_env *env, lake_store *inner, hook_fn *fn, void *ctx) {
  hook *h = calloc(1, sizeof *h);
  assert_non_null(h);
  h->inner = inner;
  h->fn = fn;
  h->ctx = ctx;
  lake_store *store = NULL;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lake_store_wrap(env, &hook_ops, h, "hook:", &store, &err), &err);
  return store;
}
