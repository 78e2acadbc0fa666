/* The checkers. They read manifests with the library's decoder and its paired checks, but keep a truth of their own:
 * the order of steps as the first creations of manifest names made it. One OS thread, outside of all processes. */
#include "sim/check.h"
#include "base/checksum.h"
#include "base/error.h"
#include "format/format.h"
#include "format/names.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PINS_MAX 256

struct lki_check {
  lki_world *world;
  lki_simstore *store;
  lake_env *env; /* a machine's own, for decoding */
  uint32_t version_block;
  lki_manifest *truth; /* the newest genuine manifest; version 0 at first */
  lki_true_step *steps;
  size_t step_capacity;
  uint64_t pins[PINS_MAX];
  uint32_t pin_count;
  uint64_t digest;
  char violation[600];
};

void lki_check_fail(lki_check *c, const char *format, ...) {
  if (c->violation[0] != 0) return;
  va_list args;
  va_start(args, format);
  int n = snprintf(c->violation, sizeof c->violation, "at %.6f s: ", (double)lki_world_now_ns(c->world) / 1e9);
  vsnprintf(c->violation + n, sizeof c->violation - (size_t)n, format, args);
  va_end(args);
}

static void mix(lki_check *c, const char *what, const char *key, lake_bytes body) {
  c->digest = lki_checksum(what, strlen(what), c->digest);
  c->digest = lki_checksum(key, strlen(key), c->digest);
  const uint64_t at_ns = lki_world_now_ns(c->world);
  c->digest = lki_checksum(&at_ns, sizeof at_ns, c->digest);
  c->digest = lki_checksum(body.data, body.bytes, c->digest);
}

static bool block_is_marked(lki_check *c, uint64_t version) {
  char name[LKI_NAME_BYTES];
  lki_name_boundary(name, version / c->version_block);
  return lki_simstore_has(c->store, name);
}

/* I2: what a manifest makes visible is in the store. */
static void check_durable(lki_check *c, const lki_manifest *m) {
  for (uint64_t step = c->truth->next_step; step < m->next_step; step++) {
    const lki_descriptor *d = &m->tail[step - m->tail_first_step];
    char name[LKI_NAME_BYTES];
    lki_name_tgb(name, m->producers[d->producer].id, d->epoch, d->seq);
    if (!lki_simstore_has(c->store, name))
      lki_check_fail(c, "I2: version %" PRIu64 " makes step %" PRIu64 " visible but %s is not there", m->version, step,
                     name);
  }
  for (uint32_t i = 0; i < m->segment_count; i++) {
    char name[LKI_NAME_BYTES];
    lki_name_segment(name, &m->segments[i]);
    if (!lki_simstore_has(c->store, name))
      lki_check_fail(c, "I2: version %" PRIu64 " refers to %s, which is not there", m->version, name);
  }
}

static void add_steps(lki_check *c, const lki_manifest *m) {
  for (uint64_t step = c->truth->next_step; step < m->next_step; step++) {
    if (step >= c->step_capacity) {
      c->step_capacity = c->step_capacity > 0 ? c->step_capacity * 2 : 256;
      c->steps = realloc(c->steps, c->step_capacity * sizeof *c->steps);
      if (c->steps == NULL) abort();
    }
    const lki_descriptor *d = &m->tail[step - m->tail_first_step];
    c->steps[step] = (lki_true_step){d->producer, d->epoch, d->seq};
  }
}

static void manifest_written(lki_check *c, uint64_t version, const char *key, lake_bytes body, bool existed) {
  if (existed) {
    lki_check_fail(c, "I1: %s was overwritten", key);
    return;
  }
  if (version <= c->truth->version) { /* its name was deleted: somebody slept through that */
    if (!block_is_marked(c, version)) lki_check_fail(c, "I7: %s came back though no boundary lies above it", key);
    return;
  }
  if (version != c->truth->version + 1) {
    lki_check_fail(c, "I1: %s was created but version %" PRIu64 " is the newest", key, c->truth->version);
    return;
  }
  lake_error err = LAKE_ERROR_INIT;
  lki_manifest *m = NULL;
  lake_status s = lki_manifest_decode(c->env, body, NULL, key, &m, &err);
  if (s == LAKE_OK) s = lki_manifest_check_successor(c->truth, m, &err);
  if (s != LAKE_OK) {
    lki_check_fail(c, "I3/I4: %s", err.text);
    lki_manifest_release(m);
    return;
  }
  check_durable(c, m);
  add_steps(c, m);
  lki_manifest_release(c->truth);
  c->truth = m;
}

static void written(void *ctx, const char *key, lake_bytes body, bool existed) {
  lki_check *c = ctx;
  uint64_t version = 0;
  mix(c, existed ? "replace" : "create", key, body);
  if (lki_name_manifest_parse(key, &version)) manifest_written(c, version, key, body, existed);
}

/* I6: a TGB may go if no pin needs it and nobody can commit it any more. */
static void tgb_removed(lki_check *c, const char *key, const char *id, uint64_t epoch, uint64_t seq) {
  int64_t i = lki_manifest_find_producer(c->truth, id);
  const lki_producer_entry *p = i >= 0 ? &c->truth->producers[i] : NULL;
  if (p == NULL || epoch > p->epoch || (epoch == p->epoch && seq >= p->next_seq)) {
    lki_check_fail(c, "I6: %s was deleted but may still be committed", key);
    return;
  }
  for (uint64_t step = 0; step < c->truth->next_step; step++) {
    const lki_true_step *t = &c->steps[step];
    if (t->producer != (uint32_t)i || t->seq != seq || t->epoch != epoch) continue;
    if (step >= c->truth->first_live_step)
      lki_check_fail(c, "I6: %s is live step %" PRIu64 " and was deleted", key, step);
    for (uint32_t k = 0; k < c->pin_count; k++)
      if (step >= c->pins[k]) lki_check_fail(c, "I6: %s is pinned step %" PRIu64 " and was deleted", key, step);
  }
}

static void removed(void *ctx, const char *key) {
  lki_check *c = ctx;
  uint64_t version = 0, epoch = 0, seq = 0;
  char id[LKI_PRODUCER_ID_BYTES_MAX + 1];
  mix(c, "remove", key, (lake_bytes){NULL, 0});
  if (lki_name_manifest_parse(key, &version)) {
    if (!block_is_marked(c, version)) lki_check_fail(c, "I7: %s was deleted before its boundary was raised", key);
    if (version >= c->truth->version) lki_check_fail(c, "I6: %s is the newest manifest and was deleted", key);
  } else if (lki_name_tgb_parse(key, id, &epoch, &seq)) {
    tgb_removed(c, key, id, epoch, seq);
  } else if (strcmp(key, LKI_NAME_NAMESPACE) == 0) {
    lki_check_fail(c, "I6: %s was deleted", key);
  }
}

lki_check *lki_check_new(lki_world *world, lki_simstore *store, uint32_t version_block) {
  lki_check *c = calloc(1, sizeof *c);
  if (c == NULL) return NULL;
  c->world = world;
  c->store = store;
  c->version_block = version_block;
  if (lake_env_open(NULL, &c->env, NULL) != LAKE_OK || (c->truth = lki_manifest_new(c->env)) == NULL) abort();
  lki_simstore_observe(store, (lki_sim_observer){written, removed, c});
  return c;
}

void lki_check_free(lki_check *c) {
  if (c == NULL) return;
  lki_manifest_release(c->truth);
  lake_env_close(c->env);
  free(c->steps);
  free(c);
}

const char *lki_check_violation(const lki_check *c) { return c->violation[0] != 0 ? c->violation : NULL; }
uint64_t lki_check_step_count(const lki_check *c) { return c->truth->next_step; }
bool lki_check_sealed(const lki_check *c) { return c->truth->sealed; }
const lki_true_step *lki_check_step(const lki_check *c, uint64_t step) { return &c->steps[step]; }
const char *lki_check_producer_id(const lki_check *c, uint32_t producer) { return c->truth->producers[producer].id; }

uint64_t lki_check_committed(const lki_check *c, const char *id) {
  int64_t i = lki_manifest_find_producer(c->truth, id);
  return i >= 0 ? c->truth->producers[i].next_seq : 0;
}

void lki_check_acknowledged(lki_check *c, const char *id, uint64_t epoch, uint64_t seq_begin, uint64_t seq_end) {
  int64_t i = lki_manifest_find_producer(c->truth, id);
  if (i < 0 || c->truth->producers[i].next_seq < seq_end) {
    lki_check_fail(c, "I5: %s was told that seq %" PRIu64 " is committed; the truth has %" PRIu64, id, seq_end - 1,
                   lki_check_committed(c, id));
    return;
  }
  for (uint64_t step = 0; step < c->truth->next_step; step++) {
    const lki_true_step *t = &c->steps[step];
    if (t->producer == (uint32_t)i && t->seq >= seq_begin && t->seq < seq_end && t->epoch != epoch)
      lki_check_fail(c, "I5: %s epoch %" PRIu64 " was told that seq %" PRIu64 " is its own; epoch %" PRIu64
                     " committed it", id, epoch, t->seq, t->epoch);
  }
}

void lki_check_delivered(lki_check *c, uint64_t step, const char *id, uint64_t epoch, uint64_t seq) {
  if (step >= c->truth->next_step) {
    lki_check_fail(c, "I2: step %" PRIu64 " was delivered but is not committed", step);
    return;
  }
  const lki_true_step *t = &c->steps[step];
  const char *want = c->truth->producers[t->producer].id;
  if (strcmp(want, id) != 0 || t->epoch != epoch || t->seq != seq)
    lki_check_fail(c, "I3: step %" PRIu64 " was delivered as %s/%" PRIu64 "/%" PRIu64 ", the truth is %s/%" PRIu64
                   "/%" PRIu64, step, id, epoch, seq, want, t->epoch, t->seq);
}

void lki_check_pin(lki_check *c, uint64_t step, bool held) {
  if (held && c->pin_count < PINS_MAX) c->pins[c->pin_count++] = step;
  for (uint32_t i = 0; !held && i < c->pin_count; i++) {
    if (c->pins[i] != step) continue;
    c->pins[i] = c->pins[--c->pin_count];
    return;
  }
}

uint64_t lki_check_digest(const lki_check *c) { return c->digest; }
