/* The producer's limits and its patience: the byte budget, the ring of pending TGBs, policies that count, and a store
 * that is away for longer than a request is tried. The store asks before each operation, so that a test holds uploads or
 * commits back for as long as it likes. */
#include "client/producer.h"
#include "format/names.h"
#include "support/hook.h"
#include "support/stream.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_OF_ONE (LKI_TGB_HEADER_BYTES + 65536 + 24 + LKI_FRAME_TRAILER_BYTES + LAKE_TENSOR_ALIGN) /* as append reckons */

static const lake_mesh mesh = {1, 1};
static lake_error err = LAKE_ERROR_INIT;

typedef struct scene {
  lake_env *env;
  lake_namespace *inner, *ns;
  lake_store *hooked;
  lake_producer *p;
  uint64_t upload_bytes_max;
  pthread_mutex_t lock;
  pthread_cond_t moved;
  hook_op held_op; /* while `holds`, operations of this kind on these keys wait */
  const char *held_prefix;
  bool holds;
  uint64_t seen;        /* such operations so far */
  bool away;            /* data puts are not answered */
  uint64_t away_count;  /* of those */
  uint64_t over_count;  /* uploads that found the budget exceeded */
  atomic_bool no_memory;
} scene;

static hook_verdict watch(void *ctx, hook_op op, const char *key, uint64_t nth) {
  (void)nth;
  scene *c = ctx;
  hook_verdict verdict = HOOK_PASS;
  const bool uploads = op == HOOK_PUT && strncmp(key, "data/", 5) == 0;
  lake_producer *p = uploads ? c->p : NULL;
  uint64_t upload_bytes = 0;
  if (p != NULL) {
    lki_lock(c->env, p->synced.lock);
    upload_bytes = p->synced.upload_bytes;
    lki_unlock(c->env, p->synced.lock);
  }
  pthread_mutex_lock(&c->lock);
  if (upload_bytes > c->upload_bytes_max) c->over_count++;
  if (uploads && c->away) {
    c->away_count++;
    verdict = HOOK_DROP;
  }
  if (op == c->held_op && c->held_prefix != NULL && strncmp(key, c->held_prefix, strlen(c->held_prefix)) == 0) {
    c->seen++;
    pthread_cond_broadcast(&c->moved);
    while (c->holds) pthread_cond_wait(&c->moved, &c->lock);
  }
  pthread_mutex_unlock(&c->lock);
  return verdict;
}

static void *alloc(void *ctx, size_t align, size_t bytes) {
  scene *c = ctx;
  return atomic_load(&c->no_memory) ? NULL : aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void release(void *ctx, void *p) {
  (void)ctx;
  free(p);
}

static void open_scene(scene *c, const lake_producer_options *o) {
  memset(c, 0, sizeof *c);
  lake_env_options options = LAKE_ENV_OPTIONS_INIT;
  options.alloc = alloc;
  options.free = release;
  options.alloc_ctx = c;
  assert_ok(lake_env_open(&options, &c->env, &err), &err);
  c->upload_bytes_max = o->upload_bytes_max > 0 ? o->upload_bytes_max : UINT64_MAX;
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->moved, NULL);
  c->inner = test_namespace_new(c->env, "mem:producer", 1, 1, 0);
  c->hooked = hook_open(c->env, c->inner->store, watch, c);
  assert_ok(lake_namespace_open_store(c->env, c->hooked, test_deadline(c->env), &c->ns, &err), &err);
  assert_ok(lake_producer_open(c->ns, "p", o, test_deadline(c->env), NULL, &c->p, &err), &err);
}

static void hold(scene *c, hook_op op, const char *prefix, bool holds) {
  pthread_mutex_lock(&c->lock);
  c->held_op = op;
  c->held_prefix = prefix;
  c->holds = holds;
  pthread_cond_broadcast(&c->moved);
  pthread_mutex_unlock(&c->lock);
}

static lake_status append(scene *c, uint64_t seq, lake_deadline deadline) {
  return test_append(c->p, mesh, 0, seq, deadline, &err);
}

static lake_deadline soon(scene *c) { return lake_deadline_after_ms(c->env, 20); }

static uint64_t upload_bytes(scene *c) {
  lki_lock(c->env, c->p->synced.lock);
  const uint64_t bytes = c->p->synced.upload_bytes;
  lki_unlock(c->env, c->p->synced.lock);
  return bytes;
}

/* Flushes, sees that nothing of the budget is left over, and that what was read back is 0 .. count - 1. */
static void close_scene(scene *c, uint64_t count) {
  assert_ok(lake_producer_flush(c->p, test_deadline(c->env), &err), &err);
  assert_int_equal(upload_bytes(c), 0);
  assert_int_equal(c->over_count, 0);
  lake_producer_stats stats;
  lake_producer_stats_get(c->p, &stats);
  assert_int_equal(stats.committed_count, count);
  lake_producer_close(c->p);
  assert_ok(lake_namespace_seal(c->ns, test_deadline(c->env), NULL, &err), &err);
  lake_consumer *consumer = NULL;
  lake_batch batch;
  assert_ok(lake_consumer_open(c->ns, NULL, test_deadline(c->env), &consumer, &err), &err);
  for (uint64_t step = 0; step < count; step++) {
    test_slice slice;
    assert_ok(lake_consumer_next(consumer, test_deadline(c->env), &batch, &err), &err);
    memcpy(&slice, batch.data, sizeof slice);
    assert_int_equal(slice.seq, step);
    lake_consumer_release(consumer, &batch);
  }
  assert_status(lake_consumer_next(consumer, test_deadline(c->env), &batch, &err), LAKE_END, &err);
  lake_consumer_close(consumer);
  lake_namespace_close(c->ns);
  lake_store_close(c->hooked);
  lake_namespace_close(c->inner);
  lake_env_close(c->env);
  pthread_cond_destroy(&c->moved);
  pthread_mutex_destroy(&c->lock);
}

/* As many TGBs as fit are accepted while no upload ends, then none; each that becomes durable makes room. */
static void test_budget(void **state) {
  (void)state;
  lake_producer_options o = LAKE_PRODUCER_OPTIONS_INIT;
  o.upload_bytes_max = 3 * BYTES_OF_ONE + BYTES_OF_ONE / 2;
  scene c;
  open_scene(&c, &o);
  hold(&c, HOOK_PUT, "data/", true);
  for (uint64_t seq = 0; seq < 3; seq++) assert_ok(append(&c, seq, test_deadline(c.env)), &err);
  for (int again = 0; again < 3; again++) { /* a refusal takes nothing */
    assert_status(append(&c, 3, soon(&c)), LAKE_TIMEOUT, &err);
    assert_non_null(strstr(err.text, "producer p: append waited for uploads until its deadline (3 TGBs pending"));
    assert_int_equal(upload_bytes(&c), 3 * BYTES_OF_ONE);
  }
  hold(&c, HOOK_PUT, "data/", false);
  for (uint64_t seq = 3; seq < 20; seq++) assert_ok(append(&c, seq, test_deadline(c.env)), &err);
  close_scene(&c, 20);
}

/* A budget smaller than any TGB lets one pass at a time. */
static void test_budget_of_one(void **state) {
  (void)state;
  lake_producer_options o = LAKE_PRODUCER_OPTIONS_INIT;
  o.upload_bytes_max = 1;
  scene c;
  open_scene(&c, &o);
  c.upload_bytes_max = BYTES_OF_ONE;
  hold(&c, HOOK_PUT, "data/", true);
  assert_ok(append(&c, 0, soon(&c)), &err);
  assert_status(append(&c, 1, soon(&c)), LAKE_TIMEOUT, &err);
  hold(&c, HOOK_PUT, "data/", false);
  for (uint64_t seq = 1; seq < 5; seq++) assert_ok(append(&c, seq, test_deadline(c.env)), &err);
  close_scene(&c, 5);
}

/* An append that finds no memory gives back what it had reserved, and takes no seq. */
static void test_no_memory(void **state) {
  (void)state;
  lake_producer_options o = LAKE_PRODUCER_OPTIONS_INIT;
  o.upload_bytes_max = 2 * BYTES_OF_ONE;
  scene c;
  open_scene(&c, &o);
  assert_ok(append(&c, 0, test_deadline(c.env)), &err);
  assert_ok(lake_producer_flush(c.p, test_deadline(c.env), &err), &err); /* nobody else is at work now */
  atomic_store(&c.no_memory, true);
  for (int again = 0; again < 5; again++) {
    assert_status(append(&c, 1, test_deadline(c.env)), LAKE_NOMEM, &err);
    assert_int_equal(upload_bytes(&c), 0);
  }
  atomic_store(&c.no_memory, false);
  for (uint64_t seq = 1; seq < 4; seq++) assert_ok(append(&c, seq, test_deadline(c.env)), &err);
  close_scene(&c, 4);
}

/* The ring takes pending_count_max TGBs while nothing can be committed, and not one more. */
static void test_ring(void **state) {
  (void)state;
  lake_producer_options o = LAKE_PRODUCER_OPTIONS_INIT;
  o.pending_count_max = 3;
  scene c;
  open_scene(&c, &o);
  hold(&c, HOOK_PUT_IF_ABSENT, "manifest/", true);
  for (uint64_t seq = 0; seq < 3; seq++) assert_ok(append(&c, seq, test_deadline(c.env)), &err);
  assert_status(append(&c, 3, soon(&c)), LAKE_TIMEOUT, &err);
  assert_non_null(strstr(err.text, "producer p: append waited for commits until its deadline (3 TGBs pending"));
  hold(&c, HOOK_PUT_IF_ABSENT, "manifest/", false);
  for (uint64_t seq = 3; seq < 11; seq++) assert_ok(append(&c, seq, test_deadline(c.env)), &err);
  close_scene(&c, 11);
}

/* A policy that waits for more TGBs than the ring holds commits when that is full, rather than never. */
static void test_counting_policy(void **state) {
  (void)state;
  lake_producer_options o = LAKE_PRODUCER_OPTIONS_INIT;
  o.pending_count_max = 4;
  o.policy = LAKE_POLICY_FIXED100;
  scene c;
  open_scene(&c, &o);
  for (uint64_t seq = 0; seq < 11; seq++) assert_ok(append(&c, seq, test_deadline(c.env)), &err);
  lake_producer_stats stats;
  lake_producer_stats_get(c.p, &stats);
  assert_int_equal(stats.committed_count, 8); /* two rings full; the rest waits to be counted */
  assert_int_equal(stats.commit_count, 2);
  close_scene(&c, 11);
}

/* The store is away for longer than one request is tried: the TGB stays, flush says why it is not committed yet, and it
 * is when the store is back. */
static void test_outage(void **state) {
  (void)state;
  lake_producer_options o = LAKE_PRODUCER_OPTIONS_INIT;
  scene c;
  open_scene(&c, &o);
  assert_ok(append(&c, 0, test_deadline(c.env)), &err);
  assert_ok(lake_producer_flush(c.p, test_deadline(c.env), &err), &err);
  hold(&c, HOOK_PUT, "data/", false);
  pthread_mutex_lock(&c.lock);
  c.away = true;
  pthread_mutex_unlock(&c.lock);
  assert_ok(append(&c, 1, test_deadline(c.env)), &err);
  lake_status s = LAKE_TIMEOUT;
  while (s == LAKE_TIMEOUT) s = lake_producer_flush(c.p, soon(&c), &err); /* until a request was given up */
  assert_status(s, LAKE_UNCERTAIN, &err);
  assert_non_null(strstr(err.text, "producer p: 1 TGBs are not known to be committed at the deadline (1 not yet durable); "
                                   "they stay: try again; cause: put hook:: data/"));
  pthread_mutex_lock(&c.lock);
  const uint64_t given_up_after = c.away_count;
  while (c.away_count <= given_up_after) pthread_cond_wait(&c.moved, &c.lock); /* it is sent again all the same */
  c.away = false;
  pthread_mutex_unlock(&c.lock);
  assert_ok(append(&c, 2, test_deadline(c.env)), &err);
  close_scene(&c, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_budget),          cmocka_unit_test(test_budget_of_one),
                                     cmocka_unit_test(test_no_memory),       cmocka_unit_test(test_ring),
                                     cmocka_unit_test(test_counting_policy), cmocka_unit_test(test_outage)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
