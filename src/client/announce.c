/* Announcements: DAC's gap grows with the number of producers, so that a TGB of one among 128 waits long to be visible.
 * So each tells the others what it has uploaded, and whoever commits takes along what fits. Nothing depends on it:
 * epochs and seqs decide what is carried, and a TGB that nobody carries is committed by its owner. */
#include "base/buffer.h"
#include "base/planted.h"
#include "client/producer.h"
#include "format/names.h"
#include "store/checked.h"
#include <stdlib.h>
#include <string.h>

#define READS_MAX 64 /* announcements too long for their names, read for one commit */

char *lki_announce(lake_producer *p, const lki_pending *pending) {
  char key[LKI_NAME_BYTES];
  lki_announcement a = {.namespace_id = p->ns->schema->namespace_id,
                        .producer_id = p->id,
                        .descriptor = pending->descriptor,
                        .offset = pending->offset,
                        .state = {pending->state, pending->state_bytes}};
  lake_buffer body;
  lki_buffer_init(&body, p->env, LKI_ANNOUNCEMENT_BYTES_MAX);
  lake_deadline deadline = {lki_after_ns(p->env, LKI_STORE_CALL_NS)};
  char *announced = NULL;
  if (lki_announcement_encode(p->env, &a, &body, NULL) == LAKE_OK) {
    lki_name_announcement(key, p->id, p->epoch, pending->seq, lki_buffer_view(&body));
    if (lki_store_put(p->ns->store, key, lki_buffer_view(&body), deadline, NULL) == LAKE_OK)
      announced = lki_strdup(p->env, key);
  }
  lki_buffer_free(&body);
  return announced;
}

typedef struct collection {
  lake_producer *producer;
  const lki_manifest *view;
  lki_arena *arena;
  lki_announcement_key *keys; /* those that may fit, in the order of their names: by producer, epoch, seq */
  uint32_t count, capacity;
} collection;

static bool take_key(void *ctx, const char *key, uint64_t object_bytes) {
  (void)object_bytes;
  collection *c = ctx;
  lki_announcement_key k;
  if (!lki_name_announcement_parse(key, &k) || strcmp(k.producer_id, c->producer->id) == 0) return true;
  int64_t at = lki_manifest_find_producer(c->view, k.producer_id);
  if (at < 0) return true;
  const lki_producer_entry *p = &c->view->producers[at];
  if ((p->epoch != k.epoch && !LKI_PLANTED(CARGO_OF_ANY_EPOCH)) || k.seq < p->next_seq) return true;
  if (c->count == c->capacity) {
    const uint32_t capacity = c->capacity > 0 ? c->capacity * 2 : 64;
    lki_announcement_key *keys = lki_arena_alloc(c->arena, sizeof *keys * capacity);
    if (keys == NULL) return false;
    if (c->count > 0) memcpy(keys, c->keys, sizeof *keys * c->count);
    c->keys = keys;
    c->capacity = capacity;
  }
  c->keys[c->count++] = k;
  return c->count < LKI_COMMIT_TGB_COUNT_MAX / 2;
}

typedef struct read_check {
  collection *collection;
  const lki_announcement_key *key;
  lki_announcement *out;
} read_check;

static lake_status check_read(void *ctx, lake_bytes bytes, const lake_object_info *info, lake_error *err) {
  (void)info;
  read_check *r = ctx;
  lake_producer *p = r->collection->producer;
  return lki_announcement_decode(p->env, bytes, &p->ns->schema->namespace_id, r->key, "announcement",
                                 r->collection->arena, r->out, err);
}

/* The announcement of a key, from its name or by a small read. */
static bool open_key(collection *c, const lki_announcement_key *k, uint32_t *reads, lki_announcement *out) {
  lake_producer *p = c->producer;
  read_check check = {c, k, out};
  if (k->body_bytes > 0) return check_read(&check, (lake_bytes){k->body, k->body_bytes}, NULL, NULL) == LAKE_OK;
  if (++*reads > READS_MAX) return false;
  char name[LKI_NAME_BYTES];
  lake_buffer body;
  lki_buffer_init(&body, p->env, LKI_ANNOUNCEMENT_BYTES_MAX);
  lake_deadline deadline = {lki_after_ns(p->env, LKI_STORE_CALL_NS)};
  lki_name_announcement(name, k->producer_id, k->epoch, k->seq, (lake_bytes){NULL, LKI_ANNOUNCEMENT_BYTES_MAX});
  lake_status s =
      lki_store_get_checked(p->ns->store, name, lki_range_whole(), &body, check_read, &check, deadline, NULL);
  lki_buffer_free(&body);
  return s == LAKE_OK;
}

lki_cargo lki_collect_cargo(lake_producer *p, const lki_manifest *view, lki_arena *arena) {
  collection c = {.producer = p, .view = view, .arena = arena};
  lki_cargo cargo = {NULL, 0};
  lake_deadline deadline = {lki_after_ns(p->env, LKI_STORE_CALL_NS)};
  if (lki_store_list(p->ns->store, LKI_NAME_ANNOUNCE_PREFIX, NULL, take_key, &c, deadline, NULL) != LAKE_OK ||
      c.count == 0)
    return cargo;
  lki_change *appends = lki_arena_alloc(arena, sizeof *appends * c.count);
  if (appends == NULL) return cargo;
  uint32_t reads = 0;
  for (uint32_t i = 0; i < c.count && !atomic_load(&p->stop); i++) {
    const lki_announcement_key *k = &c.keys[i];
    lki_announcement *a = lki_arena_alloc(arena, sizeof *a);
    if (a == NULL || !open_key(&c, k, &reads, a)) continue;
    appends[cargo.count++] = (lki_change){.kind = LKI_CHANGE_APPEND,
                                          .producer_id = a->producer_id,
                                          .epoch = k->epoch,
                                          .first_seq = k->seq,
                                          .descriptor_count = 1,
                                          .descriptors = &a->descriptor,
                                          .offset = a->offset,
                                          .state = a->state};
  }
  cargo.appends = appends;
  return cargo;
}
