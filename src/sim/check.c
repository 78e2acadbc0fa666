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
#define CLAIMS_MAX 4096
#define REFS_MAX 512 /* segment refs that wait to be checked */

typedef struct told_claim {
  char id[LKI_PRODUCER_ID_BYTES_MAX + 1];
  uint64_t epoch;
} told_claim;

struct lki_check {
  lki_world *world;
  lki_simstore *store;
  lake_env *env; /* a machine's own, for decoding */
  uint32_t version_block;
  lki_manifest *truth; /* the newest genuine manifest; version 0 at first */
  lki_true_step *steps;
  size_t step_capacity;
  told_claim claims[CLAIMS_MAX];
  uint32_t claim_count;
  uint64_t *segments; /* checksums of those that were compared with the steps */
  size_t segment_count, segment_capacity;
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
    lake_bytes body = {NULL, 0};
    if (!lki_simstore_peek(c->store, name, &body))
      lki_check_fail(c, "I2: version %" PRIu64 " makes step %" PRIu64 " visible but %s is not there", m->version, step,
                     name);
    else if (body.bytes != d->object_bytes)
      lki_check_fail(c, "I2: version %" PRIu64 " says that %s has %" PRIu64 " bytes; it has %zu", m->version, name,
                     d->object_bytes, body.bytes);
  }
}

static bool is_checked(lki_check *c, uint64_t checksum) {
  for (size_t i = 0; i < c->segment_count; i++)
    if (c->segments[i] == checksum) return true;
  if (c->segment_count == c->segment_capacity) {
    c->segment_capacity = c->segment_capacity > 0 ? c->segment_capacity * 2 : 64;
    c->segments = realloc(c->segments, c->segment_capacity * sizeof *c->segments);
    if (c->segments == NULL) abort();
  }
  c->segments[c->segment_count++] = checksum;
  return false;
}

/* I3: what was sealed says of each step what the truth says. */
static void check_sealed_steps(lki_check *c, const lki_segment *segment, const char *name) {
  for (uint32_t i = 0; i < segment->descriptor_count; i++) {
    const lki_descriptor *d = &segment->descriptors[i];
    const uint64_t step = segment->first_step + i;
    const char *id = segment->producer_ids[d->producer];
    const lki_true_step *t = &c->steps[step];
    if (step >= c->truth->next_step)
      lki_check_fail(c, "I3: %s seals step %" PRIu64 ", which is not committed", name, step);
    else if (strcmp(id, lki_check_producer_id(c, t->producer)) != 0 || d->epoch != t->epoch || d->seq != t->seq)
      lki_check_fail(c, "I3: %s says that step %" PRIu64 " is %s/%" PRIu64 "/%" PRIu64 ", the truth is %s/%" PRIu64
                     "/%" PRIu64, name, step, id, d->epoch, d->seq, lki_check_producer_id(c, t->producer), t->epoch,
                     t->seq);
  }
}

/* I2 and I3 of everything sealed that a manifest can reach and that was not looked at before. */
static void check_segments(lki_check *c, const lki_manifest *m) {
  lki_segment_ref waiting[REFS_MAX];
  uint32_t count = 0;
  for (uint32_t i = 0; i < m->segment_count && count < REFS_MAX; i++) waiting[count++] = m->segments[i];
  while (count > 0) {
    const lki_segment_ref ref = waiting[--count];
    if (is_checked(c, ref.checksum)) continue;
    char name[LKI_NAME_BYTES];
    lki_name_segment(name, &ref);
    lake_bytes body = {NULL, 0};
    lki_segment *segment = NULL;
    lake_error err = LAKE_ERROR_INIT;
    if (!lki_simstore_peek(c->store, name, &body)) {
      lki_check_fail(c, "I2: version %" PRIu64 " reaches %s, which is not there", m->version, name);
      continue;
    }
    if (lki_segment_decode(c->env, body, NULL, name, &segment, &err) != LAKE_OK) {
      lki_check_fail(c, "I3: %s", err.text);
      continue;
    }
    if (segment->first_step != ref.first_step || segment->step_count != ref.step_count)
      lki_check_fail(c, "I3: %s does not cover the steps that its reference says", name);
    check_sealed_steps(c, segment, name);
    for (uint32_t i = 0; i < segment->child_count && count < REFS_MAX; i++) waiting[count++] = segment->children[i];
    lki_segment_release(segment);
  }
}

/* I3 and I4 without the library's paired check: the truth's order only grows, and each producer's epoch and seq go on
 * where the truth has them. */
static void check_grows(lki_check *c, const lki_manifest *m) {
  const lki_manifest *t = c->truth;
  if (m->next_step < t->next_step || (t->sealed && (m->next_step != t->next_step || !m->sealed)))
    lki_check_fail(c, "I3: version %" PRIu64 " has %" PRIu64 " steps after %" PRIu64 "%s", m->version, m->next_step,
                   t->next_step, t->sealed ? " of a sealed stream" : "");
  uint64_t end = m->segment_count > 0 ? m->segments[0].first_step : m->tail_first_step;
  for (uint32_t i = 0; i < m->segment_count; i++)
    end = m->segments[i].first_step == end ? end + m->segments[i].step_count : UINT64_MAX;
  bool whole = end == m->tail_first_step && end <= t->next_step && end + m->tail_count == m->next_step &&
               m->producer_count >= t->producer_count;
  for (uint32_t i = 0; i < m->tail_count; i++) whole = whole && m->tail[i].producer < m->producer_count;
  if (!whole) {
    lki_check_fail(c, "I3: version %" PRIu64 " lost steps or producers: segments to %" PRIu64 ", tail of %u from %" PRIu64
                   ", %" PRIu64 " steps in all, %u producers after %u", m->version, end, m->tail_count,
                   m->tail_first_step, m->next_step, m->producer_count, t->producer_count);
    return;
  }
  for (uint64_t step = m->tail_first_step; step < t->next_step && step < m->next_step; step++) {
    const lki_descriptor *d = &m->tail[step - m->tail_first_step];
    if (d->producer != c->steps[step].producer || d->epoch != c->steps[step].epoch || d->seq != c->steps[step].seq)
      lki_check_fail(c, "I3: version %" PRIu64 " changed step %" PRIu64, m->version, step);
  }
  for (uint32_t i = 0; i < m->producer_count; i++) {
    const lki_producer_entry *now = &m->producers[i];
    const bool known = i < t->producer_count;
    uint64_t seq = known ? t->producers[i].next_seq : 0;
    const uint64_t epoch = known ? t->producers[i].epoch : 0;
    for (uint64_t step = t->next_step; step < m->next_step; step++) {
      const lki_descriptor *d = &m->tail[step - m->tail_first_step];
      if (d->producer != i) continue;
      if (d->seq != seq || d->epoch != now->epoch)
        lki_check_fail(c, "I4: version %" PRIu64 " commits %s/%" PRIu64 "/%" PRIu64 ", the truth calls for %" PRIu64
                       "/%" PRIu64, m->version, now->id, d->epoch, d->seq, now->epoch, seq);
      seq++;
    }
    if (now->next_seq != seq || now->epoch < epoch || now->epoch > epoch + 1 ||
        (known && strcmp(now->id, t->producers[i].id) != 0))
      lki_check_fail(c, "I4: version %" PRIu64 " has %s at epoch %" PRIu64 " seq %" PRIu64 ", the truth at %" PRIu64
                     " and %" PRIu64, m->version, now->id, now->epoch, now->next_seq, epoch, seq);
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
  if (s == LAKE_OK) check_grows(c, m);
  if (s == LAKE_OK) s = lki_manifest_check_successor(c->truth, m, &err);
  if (s != LAKE_OK) {
    lki_check_fail(c, "I3/I4: %s", err.text);
  }
  if (lki_check_violation(c) != NULL) {
    lki_manifest_release(m);
    return;
  }
  check_durable(c, m);
  check_segments(c, m);
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
  free(c->segments);
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

uint64_t lki_check_epoch(const lki_check *c, const char *id) {
  int64_t i = lki_manifest_find_producer(c->truth, id);
  return i >= 0 ? c->truth->producers[i].epoch : 0;
}

void lki_check_claimed(lki_check *c, const char *id, uint64_t epoch, uint64_t seq) {
  for (uint32_t i = 0; i < c->claim_count; i++)
    if (c->claims[i].epoch == epoch && strcmp(c->claims[i].id, id) == 0)
      lki_check_fail(c, "I4: two processes were told that they hold epoch %" PRIu64 " of %s", epoch, id);
  if (c->claim_count < CLAIMS_MAX) {
    told_claim *told = &c->claims[c->claim_count++];
    snprintf(told->id, sizeof told->id, "%s", id);
    told->epoch = epoch;
  }
  const uint64_t true_epoch = lki_check_epoch(c, id), true_seq = lki_check_committed(c, id);
  if (true_epoch < epoch || (true_epoch == epoch && true_seq != seq))
    lki_check_fail(c, "I4: %s was told epoch %" PRIu64 " and seq %" PRIu64 ", the truth is %" PRIu64 " and %" PRIu64,
                   id, epoch, seq, true_epoch, true_seq);
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

void lki_check_final(lki_check *c, const char *id, uint64_t epoch, uint64_t count, bool certain) {
  const int64_t i = lki_manifest_find_producer(c->truth, id);
  uint64_t true_count = 0;
  for (uint64_t step = 0; step < c->truth->next_step; step++)
    if (c->steps[step].producer == i && c->steps[step].epoch == epoch) true_count++;
  if (count > true_count || (certain && count < true_count))
    lki_check_fail(c, "I5: %s epoch %" PRIu64 " was told at its end that %" PRIu64 " of its TGBs are committed; the truth "
                   "is %" PRIu64, id, epoch, count, true_count);
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
