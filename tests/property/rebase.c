/* Rebase as a property: writers that start from stale manifests, lose, rebase, and do not always know whether their
 * last attempt won. Whatever the order, every TGB is committed once and in its producer's order, epochs fence, and
 * every step stays what it was (I1, I3, I4). Pure model, no store. */
#include "base/env.h"
#include "base/rng.h"
#include "model/change.h"
#include "support/stream.h"
#include <stdlib.h>
#include <string.h>

#define WRITERS 5
#define ROUNDS 400

typedef struct writer {
  char id[8];
  uint64_t epoch;     /* 0: has not claimed */
  uint64_t known_seq; /* what it knows to be committed */
  uint64_t base;      /* index of the manifest it starts from; never before known_at */
  uint64_t known_at;  /* index of the manifest that taught it epoch and known_seq */
} writer;

typedef struct world {
  lake_env *env;
  lki_rng rng;
  lki_manifest **versions; /* [0] is the empty beginning */
  uint64_t count;
} world;

static lki_stamp stamp_of(world *w) {
  lki_stamp stamp = {.writer = "test"};
  stamp.namespace_id.bytes[0] = 1;
  for (int i = 0; i < LKI_ID_BYTES; i++) stamp.attempt.bytes[i] = (unsigned char)lki_rng_next(&w->rng);
  return stamp;
}

static lki_descriptor descriptor_of(uint64_t epoch, uint64_t seq) {
  lki_descriptor d = {.epoch = epoch, .seq = seq, .slice_count = 1, .footer_bytes = 100, .frame_bytes = 40,
                      .layout = LKI_LAYOUT_UNIFORM, .object_bytes = 64 + 64 + 100};
  return d;
}

/* Applies until the change is in or refused: as the log does, but from the writer's own stale base first. */
static lake_status commit(world *w, writer *me, const lki_change *change, lake_error *err) {
  for (int i = 0; i < 3; i++) {
    lki_stamp stamp = stamp_of(w);
    lki_manifest *next = NULL;
    lki_manifest *base = w->versions[me->base];
    lake_status s = lki_manifest_apply(w->env, base, change, NULL, NULL, &stamp, &next, err);
    if (s != LAKE_OK) return s;
    if (me->base == w->count - 1) {
      w->versions = realloc(w->versions, sizeof(lki_manifest *) * (w->count + 1));
      w->versions[w->count++] = next;
      me->base = w->count - 1;
      return LAKE_OK;
    }
    lki_manifest_release(next); /* the name was taken */
    me->base = w->count - 1;
  }
  fail_msg("a rebase on the newest manifest lost without a competitor");
  return LAKE_INTERNAL;
}

static void turn(world *w, writer *me) {
  lake_error err = LAKE_ERROR_INIT;
  if (me->epoch == 0 || lki_rng_below(&w->rng, 12) == 0) { /* (re)start: claim, and go on from what is committed */
    lki_change claim = {.kind = LKI_CHANGE_CLAIM, .producer_id = me->id, .owner = "host:1"};
    assert_ok(commit(w, me, &claim, &err), &err);
    const lki_manifest *m = w->versions[me->base];
    const lki_producer_entry *p = &m->producers[lki_manifest_find_producer(m, me->id)];
    me->epoch = p->epoch;
    me->known_seq = p->next_seq;
    me->known_at = me->base;
    return;
  }
  lki_descriptor d[4];
  const uint32_t n = 1 + (uint32_t)lki_rng_below(&w->rng, 4);
  for (uint32_t i = 0; i < n; i++) d[i] = descriptor_of(me->epoch, me->known_seq + i);
  lki_change append = {.kind = LKI_CHANGE_APPEND, .producer_id = me->id, .epoch = me->epoch,
                       .first_seq = me->known_seq, .descriptor_count = n, .descriptors = d,
                       .offset = me->known_seq + n, .state = {"x", 1}};
  lake_status s = commit(w, me, &append, &err);
  if (s == LAKE_FENCED) {
    me->epoch = 0;
    return;
  }
  /* EXISTS: the attempt whose reply was lost had won; the same TGBs are not committed again. */
  assert_true(s == LAKE_OK || s == LAKE_EXISTS);
  const bool reply_lost = lki_rng_below(&w->rng, 4) == 0;
  if (!reply_lost) {
    me->known_seq += n;
    me->known_at = me->base;
  }
  if (reply_lost && lki_rng_below(&w->rng, 2) == 0) {
    /* It asks again with the same TGBs, from a base that may be older still. */
    me->base -= lki_rng_below(&w->rng, me->base - me->known_at + 1);
    s = commit(w, me, &append, &err);
    assert_true(s == LAKE_EXISTS || s == LAKE_FENCED);
    me->known_seq += n;
    me->known_at = me->base;
  }
}

static void check_history(const world *w) {
  const lki_manifest *last = w->versions[w->count - 1];
  lake_error err = LAKE_ERROR_INIT;
  uint64_t *next = calloc(last->producer_count, sizeof *next);
  for (uint32_t i = 0; i < last->tail_count; i++) {
    const lki_descriptor *d = &last->tail[i];
    assert_int_equal(d->seq, next[d->producer]);
    next[d->producer]++;
  }
  for (uint32_t i = 0; i < last->producer_count; i++) assert_int_equal(next[i], last->producers[i].next_seq);
  for (uint64_t v = 1; v < w->count; v++) {
    assert_ok(lki_manifest_check(w->versions[v], &err), &err);
    assert_ok(lki_manifest_check_successor(w->versions[v - 1], w->versions[v], &err), &err);
    for (uint32_t i = 0; i < w->versions[v]->tail_count; i++)
      assert_int_equal(w->versions[v]->tail[i].seq, last->tail[i].seq);
  }
  free(next);
}

static void test_rebase(void **state) {
  (void)state;
  world w = {.env = test_env(), .rng = {test_seed()}};
  for (int round = 0; round < 20; round++) {
    w.versions = malloc(sizeof(lki_manifest *));
    w.versions[0] = lki_manifest_new(w.env);
    w.versions[0]->namespace_id.bytes[0] = 1;
    w.count = 1;
    writer writers[WRITERS * 2] = {{{0}, 0, 0, 0, 0}};
    for (int i = 0; i < WRITERS * 2; i++) /* two processes share each id: they fence each other */
      writers[i].id[0] = (char)('a' + i % WRITERS);
    for (int i = 0; i < ROUNDS; i++) turn(&w, &writers[lki_rng_below(&w.rng, WRITERS * 2)]);
    check_history(&w);
    for (uint64_t v = 0; v < w.count; v++) lki_manifest_release(w.versions[v]);
    free(w.versions);
  }
  lake_env_close(w.env);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rebase)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
