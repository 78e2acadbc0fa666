/* The stream under a store that fails at random: lost replies, replies about one's own earlier try, puts that land
 * late, short and flipped bodies. Two producers, one reader; what is read must be exactly what was appended (I2-I5). */
#include "base/rng.h"
#include "support/stream.h"
#include "support/toxic.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct weather {
  lki_rng rng;
  bool calm;
  uint64_t fired[16];
} weather;

static toxic_kind storm(void *ctx, toxic_op op, const char *key, uint64_t nth) {
  (void)key, (void)nth;
  weather *w = ctx;
  if (w->calm) return TOXIC_NONE;
  const uint64_t roll = lki_rng_below(&w->rng, 100);
  toxic_kind kind = TOXIC_NONE;
  if (op == TOXIC_GET)
    kind = roll < 4 ? TOXIC_FAIL_BEFORE : roll < 6 ? TOXIC_TRUNCATE : roll < 8 ? TOXIC_FLIP : TOXIC_NONE;
  else if (op == TOXIC_PUT_IF_ABSENT)
    kind = roll < 8    ? TOXIC_FAIL_BEFORE
           : roll < 16 ? TOXIC_FAIL_AFTER
           : roll < 24 ? TOXIC_EXISTS_AFTER
           : roll < 32 ? TOXIC_LATE
                       : TOXIC_NONE;
  else
    kind = roll < 5 ? TOXIC_FAIL_BEFORE : roll < 8 && op == TOXIC_PUT ? TOXIC_FAIL_AFTER : TOXIC_NONE;
  w->fired[kind]++;
  return kind;
}

/* Appends seqs [from, to) and flushes until it is told that all is in. */
static void produce(lake_env *env, lake_producer *p, uint32_t id, uint64_t from, uint64_t to) {
  const lake_mesh mesh = {1, 2};
  lake_error err = LAKE_ERROR_INIT;
  for (uint64_t seq = from; seq < to; seq++) {
    assert_ok(test_append(p, mesh, id, seq, test_deadline(env), &err), &err);
    if (seq % 3 == 0) assert_ok(lake_producer_flush(p, test_deadline(env), &err), &err);
  }
  assert_ok(lake_producer_flush(p, test_deadline(env), &err), &err);
}

static void read_all(lake_namespace *ns, lake_env *env, uint64_t per_producer) {
  lake_error err = LAKE_ERROR_INIT;
  lake_consumer_options o = LAKE_CONSUMER_OPTIONS_INIT;
  o.coords.c = 1;
  lake_consumer *c = NULL;
  assert_ok(lake_consumer_open(ns, &o, test_deadline(env), &c, &err), &err);
  uint64_t next[2] = {0, 0};
  for (uint64_t step = 0; step < 2 * per_producer; step++) {
    lake_batch batch;
    assert_ok(lake_consumer_next(c, test_deadline(env), &batch, &err), &err);
    assert_int_equal(batch.step, step);
    test_slice slice;
    memcpy(&slice, batch.data, sizeof slice);
    assert_true(slice.producer < 2);
    assert_int_equal(slice.c, 1);
    assert_int_equal(slice.seq, next[slice.producer]);
    next[slice.producer]++;
    lake_consumer_release(c, &batch);
  }
  lake_batch batch;
  assert_status(lake_consumer_next(c, test_deadline(env), &batch, &err), LAKE_END, &err);
  lake_consumer_close(c);
}

static void test_storm(void **state) {
  (void)state;
  weather w = {.rng = {test_seed()}};
  for (int round = 0; round < 6; round++) {
    lake_env *env = test_env();
    lake_error err = LAKE_ERROR_INIT;
    w.calm = true;
    toxic *t = toxic_open(env, storm, &w);
    lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
    options.mesh = (lake_mesh){1, 2};
    options.tail_max = 4;
    lake_namespace *ns[2] = {NULL, NULL};
    assert_ok(lake_namespace_create_store(env, toxic_store(t), &options, test_deadline(env), &ns[0], &err), &err);
    assert_ok(lake_namespace_open_store(env, toxic_store(t), test_deadline(env), &ns[1], &err), &err);
    w.calm = false;
    lake_producer *p[2] = {NULL, NULL};
    for (uint32_t i = 0; i < 2; i++)
      assert_ok(lake_producer_open(ns[i], i == 0 ? "a" : "b", NULL, test_deadline(env), NULL, &p[i], &err), &err);
    for (uint64_t seq = 0; seq < 20; seq += 5)
      for (uint32_t i = 0; i < 2; i++) produce(env, p[i], i, seq, seq + 5);
    for (uint32_t i = 0; i < 2; i++) {
      assert_ok(lake_producer_retire(p[i], test_deadline(env), &err), &err);
      lake_producer_close(p[i]);
    }
    assert_ok(lake_namespace_seal(ns[0], test_deadline(env), NULL, &err), &err);
    read_all(ns[1], env, 20);
    lake_namespace_close(ns[1]);
    lake_namespace_close(ns[0]);
    toxic_close(t);
    lake_env_close(env);
  }
  for (int kind = TOXIC_FAIL_BEFORE; kind <= TOXIC_FLIP; kind++) assert_true(w.fired[kind] > 0);
}

/* A script: the nth put-if-absent of a manifest gets this fault. */
typedef struct script {
  toxic_kind kind;
  uint64_t at, seen;
} script;

static toxic_kind once(void *ctx, toxic_op op, const char *key, uint64_t nth) {
  (void)nth;
  script *s = ctx;
  if (op != TOXIC_PUT_IF_ABSENT || strncmp(key, "manifest/", 9) != 0) return TOXIC_NONE;
  return s->seen++ == s->at ? s->kind : TOXIC_NONE;
}

/* Put landed, reply lost or EXISTS about one's own: COMMITTED, once, in one commit. */
static void test_own_put_comes_back(void **state) {
  (void)state;
  const toxic_kind kinds[] = {TOXIC_FAIL_AFTER, TOXIC_EXISTS_AFTER, TOXIC_LATE, TOXIC_FAIL_BEFORE};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    lake_env *env = test_env();
    lake_error err = LAKE_ERROR_INIT;
    script s = {kinds[i], 1, 0};
    toxic *t = toxic_open(env, once, &s);
    lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
    options.mesh = (lake_mesh){1, 2};
    lake_namespace *ns = NULL;
    assert_ok(lake_namespace_create_store(env, toxic_store(t), &options, test_deadline(env), &ns, &err), &err);
    lake_producer *p = NULL;
    assert_ok(lake_producer_open(ns, "p", NULL, test_deadline(env), NULL, &p, &err), &err);
    produce(env, p, 0, 0, 1);
    lake_producer_stats stats;
    lake_producer_stats_get(p, &stats);
    assert_int_equal(stats.committed_count, 1);
    assert_int_equal(stats.attempt_count, 1); /* resolved within the attempt */
    lake_producer_close(p);
    uint64_t steps = 0;
    assert_ok(lake_namespace_seal(ns, test_deadline(env), &steps, &err), &err);
    assert_int_equal(steps, 1);
    lake_namespace_close(ns);
    toxic_close(t);
    lake_env_close(env);
  }
}

static toxic_kind deny_data(void *ctx, toxic_op op, const char *key, uint64_t nth) {
  (void)nth;
  return *(bool *)ctx && op == TOXIC_PUT && strncmp(key, "data/", 5) == 0 ? TOXIC_DENIED : TOXIC_NONE;
}

static toxic_kind deny_manifests(void *ctx, toxic_op op, const char *key, uint64_t nth) {
  (void)ctx, (void)nth;
  return op == TOXIC_PUT_IF_ABSENT && strncmp(key, "manifest/", 9) == 0 ? TOXIC_DENIED : TOXIC_NONE;
}

/* A put that the store refuses is no riddle: the refusal is told at once, not UNCERTAIN at the deadline. */
static void test_commit_denied(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_error err = LAKE_ERROR_INIT;
  toxic *t = toxic_open(env, deny_manifests, NULL);
  lake_namespace *ns = NULL;
  lake_producer *p = NULL;
  assert_ok(lake_namespace_create_store(env, toxic_store(t), NULL, test_deadline(env), &ns, &err), &err);
  assert_status(lake_namespace_seal(ns, test_deadline(env), NULL, &err), LAKE_DENIED, &err);
  assert_status(lake_producer_open(ns, "p", NULL, test_deadline(env), NULL, &p, &err), LAKE_DENIED, &err);
  lake_namespace_close(ns);
  toxic_close(t);
  lake_env_close(env);
}

/* No rights to write: flush says so at once, the TGB stays, and goes through once the rights are there. */
static void test_denied_then_granted(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_error err = LAKE_ERROR_INIT;
  bool denied = true;
  toxic *t = toxic_open(env, deny_data, &denied);
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.mesh = (lake_mesh){1, 2};
  lake_namespace *ns = NULL;
  assert_ok(lake_namespace_create_store(env, toxic_store(t), &options, test_deadline(env), &ns, &err), &err);
  lake_producer *p = NULL;
  assert_ok(lake_producer_open(ns, "p", NULL, test_deadline(env), NULL, &p, &err), &err);
  const lake_mesh mesh = {1, 2};
  assert_ok(test_append(p, mesh, 0, 0, test_deadline(env), &err), &err);
  assert_status(lake_producer_flush(p, test_deadline(env), &err), LAKE_DENIED, &err);
  __atomic_store_n(&denied, false, __ATOMIC_SEQ_CST);
  lake_status s = LAKE_DENIED;
  for (int i = 0; i < 1000 && s == LAKE_DENIED; i++) s = lake_producer_flush(p, test_deadline(env), &err);
  assert_ok(s, &err);
  lake_producer_close(p);
  lake_namespace_close(ns);
  toxic_close(t);
  lake_env_close(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_own_put_comes_back), cmocka_unit_test(test_denied_then_granted),
                                     cmocka_unit_test(test_commit_denied),
                                     cmocka_unit_test(test_storm)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
