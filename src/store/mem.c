/* mem:NAME, a store in this environment's memory, for tests, simulation and trying things out. All who open
 * the same NAME in one lake_env share it, and it lives until lake_env_close(), so its objects outlast every
 * handle.
 *
 * Invariants: keys are kept in ascending byte order; a body never changes once it is reachable. Threads: one
 * lock per store guards the order and the entries; bodies are reference-counted, so that they are copied
 * outside the lock. The ordered map is a skip list, since neither libc nor uthash has a map that can be
 * scanned from a key. A node's height comes from its key's checksum: equal content gives equal shape, and no
 * randomness is drawn from the env. */
#include "base/buffer.h"
#include "base/checksum.h"
#include "base/env.h"
#include "base/error.h"
#include "store/store.h"
#include <stdatomic.h>
#include <string.h>

#define HEIGHT_MAX 24
#define PAGE_KEY_COUNT 64

typedef struct body {
  atomic_uint refs;
  size_t bytes;
  unsigned char data[];
} body;

typedef struct node {
  body *body;
  char *key;
  struct node *next[]; /* as many as the node is high */
} node;

typedef struct mem_store {
  lake_env *env;
  struct mem_store *next; /* in env->mem_stores, guarded by env->lock */
  char *name;
  struct {
    lki_mutex *lock;
    node *head; /* no key: before all */
  } synced;
} mem_store;

static body *body_new(lake_env *env, lake_bytes bytes) {
  body *b = lki_alloc(env, sizeof *b + bytes.bytes);
  if (b == NULL) return NULL;
  atomic_init(&b->refs, 1);
  b->bytes = bytes.bytes;
  if (bytes.bytes > 0) memcpy(b->data, bytes.data, bytes.bytes);
  return b;
}

static void body_release(lake_env *env, body *b) {
  if (b != NULL && atomic_fetch_sub(&b->refs, 1) == 1) lki_free(env, b);
}

static size_t node_height(const char *key) {
  uint64_t x = lki_checksum(key, strlen(key), 0) | ((uint64_t)1 << (HEIGHT_MAX - 1));
  return 1 + (size_t)__builtin_ctzll(x);
}

static node *node_new(lake_env *env, const char *key, size_t height) {
  node *n = lki_new(env, sizeof *n + height * sizeof n->next[0]);
  char *copy = lki_strdup(env, key);
  if (n == NULL || copy == NULL) {
    lki_free(env, copy);
    lki_free(env, n);
    return NULL;
  }
  n->key = copy;
  return n;
}

static void node_free(lake_env *env, node *n) {
  if (n == NULL) return;
  body_release(env, n->body);
  lki_free(env, n->key);
  lki_free(env, n);
}

/* The first node with a key >= key, or NULL. before (NULL accepted) gets the last node before it on each
 * level. */
static node *seek_locked(const mem_store *store, const char *key, node *before[HEIGHT_MAX]) {
  node *at = store->synced.head;
  for (size_t level = HEIGHT_MAX; level-- > 0;) {
    while (at->next[level] != NULL && strcmp(at->next[level]->key, key) < 0) at = at->next[level];
    if (before != NULL) before[level] = at;
  }
  return at->next[0];
}

static node *find_locked(const mem_store *store, const char *key) {
  node *n = seek_locked(store, key, NULL);
  return n != NULL && strcmp(n->key, key) == 0 ? n : NULL;
}

/* ---- operations ---- */

static body *body_of(mem_store *store, const char *key) {
  lki_lock(store->env, store->synced.lock);
  node *n = find_locked(store, key);
  body *b = n != NULL ? n->body : NULL;
  if (b != NULL) atomic_fetch_add(&b->refs, 1);
  lki_unlock(store->env, store->synced.lock);
  return b;
}

static lake_status mem_get(void *self, const char *key, lake_range range, lake_buffer *out,
                           lake_object_info *info, lake_deadline deadline, lake_error *err) {
  (void)deadline;
  mem_store *store = self;
  body *b = body_of(store, key);
  if (b == NULL) return lki_fail(err, LAKE_NOTFOUND, "no such object");
  size_t offset = 0;
  size_t bytes = b->bytes;
  lake_status s = LAKE_OK;
  if (range.kind == LAKE_RANGE_EXACT) {
    if (range.offset > b->bytes || range.bytes > b->bytes - range.offset) {
      s = lki_fail(err, LAKE_CORRUPT, "the object has %zu bytes, %llu from %llu were asked", b->bytes,
                   (unsigned long long)range.bytes, (unsigned long long)range.offset);
      goto done;
    }
    offset = (size_t)range.offset;
    bytes = (size_t)range.bytes;
  } else if (range.kind == LAKE_RANGE_SUFFIX && range.bytes < b->bytes) {
    offset = b->bytes - (size_t)range.bytes;
    bytes = (size_t)range.bytes;
  }
  s = lki_store_fits(out, bytes, err);
  if (s == LAKE_OK) s = lki_buffer_reserve(out, bytes, err);
  if (s != LAKE_OK) goto done;
  if (bytes > 0) memcpy(out->data, b->data + offset, bytes);
  out->bytes = bytes;
  if (info != NULL) info->object_bytes = b->bytes;
done:
  body_release(store->env, b);
  return s;
}

static lake_status write_object(mem_store *store, const char *key, lake_bytes bytes, bool replace,
                                lake_error *err) {
  lake_env *env = store->env;
  size_t height = node_height(key);
  node *fresh = node_new(env, key, height);
  body *b = body_new(env, bytes);
  body *old = NULL;
  lake_status s = LAKE_OK;
  if (fresh == NULL || b == NULL) {
    s = lki_fail(err, LAKE_NOMEM, "out of memory for %zu bytes", bytes.bytes);
    goto done;
  }
  lki_lock(env, store->synced.lock);
  node *before[HEIGHT_MAX];
  node *n = seek_locked(store, key, before);
  if (n == NULL || strcmp(n->key, key) != 0) {
    for (size_t level = 0; level < height; level++) {
      fresh->next[level] = before[level]->next[level];
      before[level]->next[level] = fresh;
    }
    fresh->body = b;
    fresh = NULL;
    b = NULL;
  } else if (replace) {
    old = n->body;
    n->body = b;
    b = NULL;
  } else {
    s = LAKE_EXISTS;
  }
  lki_unlock(env, store->synced.lock);
  if (s == LAKE_EXISTS) lki_fail(err, s, "an object with this key exists");
done:
  body_release(env, old);
  body_release(env, b);
  node_free(env, fresh);
  return s;
}

static lake_status mem_put(void *self, const char *key, lake_bytes bytes, lake_deadline deadline,
                           lake_error *err) {
  (void)deadline;
  return write_object(self, key, bytes, true, err);
}

static lake_status mem_put_if_absent(void *self, const char *key, lake_bytes bytes, lake_deadline deadline,
                                     lake_error *err) {
  (void)deadline;
  return write_object(self, key, bytes, false, err);
}

static lake_status mem_head(void *self, const char *key, lake_object_info *info, lake_deadline deadline,
                            lake_error *err) {
  (void)deadline;
  mem_store *store = self;
  body *b = body_of(store, key);
  if (b == NULL) return lki_fail(err, LAKE_NOTFOUND, "no such object");
  info->object_bytes = b->bytes;
  body_release(store->env, b);
  return LAKE_OK;
}

static lake_status mem_remove(void *self, const char *key, lake_deadline deadline, lake_error *err) {
  (void)deadline, (void)err;
  mem_store *store = self;
  lki_lock(store->env, store->synced.lock);
  node *before[HEIGHT_MAX];
  node *n = seek_locked(store, key, before);
  if (n != NULL && strcmp(n->key, key) == 0) {
    size_t height = node_height(key);
    for (size_t level = 0; level < height; level++) before[level]->next[level] = n->next[level];
  } else {
    n = NULL;
  }
  lki_unlock(store->env, store->synced.lock);
  node_free(store->env, n);
  return LAKE_OK;
}

typedef struct page {
  size_t count;
  char keys[PAGE_KEY_COUNT][LKI_KEY_BYTES_MAX + 1];
  uint64_t object_bytes[PAGE_KEY_COUNT];
} page;

/* Keys are copied out page by page, since a callback must not run under the lock. from is included when it
 * exists only if inclusive. */
static void fill_page(mem_store *store, const char *prefix, const char *from, bool inclusive, page *p) {
  size_t prefix_bytes = strlen(prefix);
  p->count = 0;
  lki_lock(store->env, store->synced.lock);
  node *n = seek_locked(store, from, NULL);
  if (n != NULL && !inclusive && strcmp(n->key, from) == 0) n = n->next[0];
  for (; n != NULL && p->count < PAGE_KEY_COUNT && strncmp(n->key, prefix, prefix_bytes) == 0;
       n = n->next[0]) {
    memcpy(p->keys[p->count], n->key, strlen(n->key) + 1);
    p->object_bytes[p->count++] = n->body->bytes;
  }
  lki_unlock(store->env, store->synced.lock);
}

static lake_status mem_list(void *self, const char *prefix, const char *start_after, lake_list_fn *fn,
                            void *ctx, lake_deadline deadline, lake_error *err) {
  (void)deadline;
  mem_store *store = self;
  page *p = lki_alloc(store->env, sizeof *p);
  if (p == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for a listing");
  char from[LKI_KEY_BYTES_MAX + 1];
  bool inclusive = start_after == NULL || strcmp(start_after, prefix) < 0;
  const char *first = inclusive ? prefix : start_after;
  memcpy(from, first, strlen(first) + 1);
  bool more = true;
  while (more) {
    fill_page(store, prefix, from, inclusive, p);
    more = p->count == PAGE_KEY_COUNT;
    bool stopped = false;
    for (size_t i = 0; i < p->count && !stopped; i++) stopped = !fn(ctx, p->keys[i], p->object_bytes[i]);
    if (stopped) more = false;
    if (p->count > 0) memcpy(from, p->keys[p->count - 1], sizeof from);
    inclusive = false;
  }
  lki_free(store->env, p);
  return LAKE_OK;
}

/* The store belongs to the environment: a handle owns nothing of it. */
static void mem_close(void *self) {
  (void)self;
}

static const lake_store_ops mem_ops = {
    .size = sizeof mem_ops, .scheme = "mem", .get = mem_get, .put = mem_put,
    .put_if_absent = mem_put_if_absent, .head = mem_head, .list = mem_list, .remove = mem_remove,
    .close = mem_close,
};

/* ---- the stores of an environment ---- */

static void mem_free(mem_store *store) {
  lake_env *env = store->env;
  node *n = store->synced.head != NULL ? store->synced.head->next[0] : NULL;
  while (n != NULL) {
    node *next = n->next[0];
    node_free(env, n);
    n = next;
  }
  lki_free(env, store->synced.head);
  lki_mutex_close(env, store->synced.lock);
  lki_free(env, store->name);
  lki_free(env, store);
}

static void stores_close(lake_env *env) {
  mem_store *store = env->mem_stores;
  env->mem_stores = NULL;
  while (store != NULL) {
    mem_store *next = store->next;
    mem_free(store);
    store = next;
  }
}

static mem_store *mem_new(lake_env *env, const char *name) {
  mem_store *store = lki_new(env, sizeof *store);
  if (store == NULL) return NULL;
  store->env = env;
  store->name = lki_strdup(env, name);
  store->synced.lock = lki_mutex_open(env);
  store->synced.head =
      lki_new(env, sizeof *store->synced.head + HEIGHT_MAX * sizeof store->synced.head->next[0]);
  if (store->name != NULL && store->synced.lock != NULL && store->synced.head != NULL) return store;
  mem_free(store);
  return NULL;
}

lake_status lki_store_mem_open(lake_env *env, const char *name, const lake_store_ops **ops, void **self,
                               lake_error *err) {
  lki_lock(env, env->lock);
  mem_store *store = env->mem_stores;
  while (store != NULL && strcmp(store->name, name) != 0) store = store->next;
  if (store == NULL) {
    store = mem_new(env, name);
    if (store != NULL) {
      store->next = env->mem_stores;
      env->mem_stores = store;
      env->mem_stores_close = stores_close;
    }
  }
  lki_unlock(env, env->lock);
  if (store == NULL) return lki_fail(err, LAKE_NOMEM, "store mem:%.120s: out of memory", name);
  *ops = &mem_ops;
  *self = store;
  return LAKE_OK;
}
