/* The consumer's byte budget: never above it, always one step, and nothing of it is lost by failures. The store looks at
 * the budget whenever a slice is about to be read. */
#include "client/consumer.h"
#include "store/retry.h"
#include "support/hook.h"
#include "support/stream.h"
#include "support/tgbs.h"
#include <stdatomic.h>
#include <string.h>

#define STEPS 24

static lake_error err = LAKE_ERROR_INIT;

typedef struct scene {
  lake_env *env;
  lake_namespace *inner, *ns;
  lake_store *hooked;
  _Atomic(lake_consumer *) consumer;
  uint64_t bytes_max;
  atomic_uint reads, over;    /* slices read, of them above bytes_max */
  atomic_uint denials, drops; /* reads that will be denied, not be answered */
} scene;

static uint64_t used(scene *c) {
  lake_consumer *consumer = atomic_load(&c->consumer);
  lki_lock(c->env, consumer->synced.lock);
  const uint64_t bytes = consumer->synced.used_bytes;
  lki_unlock(c->env, consumer->synced.lock);
  return bytes;
}

static hook_verdict watch(void *ctx, hook_op op, const char *key, uint64_t nth) {
  (void)nth;
  scene *c = ctx;
  if (op != HOOK_GET || strncmp(key, "data/", 5) != 0) return HOOK_PASS;
  atomic_fetch_add(&c->reads, 1);
  if (atomic_load(&c->consumer) != NULL && used(c) > c->bytes_max) atomic_fetch_add(&c->over, 1);
  if (atomic_load(&c->drops) > 0) {
    atomic_fetch_sub(&c->drops, 1);
    return HOOK_DROP;
  }
  if (atomic_load(&c->denials) == 0) return HOOK_PASS;
  atomic_fetch_sub(&c->denials, 1);
  return HOOK_DENY;
}

/* A sealed stream of STEPS raw slices; returns the bytes that each takes as stored. */
static uint64_t open_scene(scene *c, lake_codec codec) {
  memset(c, 0, sizeof *c);
  c->env = test_env();
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.codec = codec;
  assert_ok(lake_namespace_create(c->env, "mem:window", &options, test_deadline(c->env), &c->inner, &err), &err);
  lake_producer *p = NULL;
  assert_ok(lake_producer_open(c->inner, "p", NULL, test_deadline(c->env), NULL, &p, &err), &err);
  static unsigned char content[5000];
  for (uint64_t seq = 0; seq < STEPS; seq++) {
    content[0] = (unsigned char)seq;
    const lake_bytes slice = {content, sizeof content};
    assert_ok(lake_producer_append(p, &slice, 1, seq + 1, (lake_bytes){NULL, 0}, test_deadline(c->env), &err), &err);
  }
  assert_ok(lake_producer_retire(p, test_deadline(c->env), &err), &err);
  lake_producer_close(p);
  assert_ok(lake_namespace_seal(c->inner, test_deadline(c->env), NULL, &err), &err);
  lki_manifest *view = lki_log_view(c->inner->log);
  const uint64_t frame_bytes = view->tail[0].frame_bytes;
  lki_manifest_release(view);
  c->hooked = hook_open(c->env, c->inner->store, watch, c);
  assert_ok(lake_namespace_open_store(c->env, c->hooked, test_deadline(c->env), &c->ns, &err), &err);
  return frame_bytes;
}

static void start(scene *c, uint64_t bytes_max, uint64_t limit, uint32_t io_threads) {
  lake_consumer_options o = LAKE_CONSUMER_OPTIONS_INIT;
  o.prefetch_bytes_max = bytes_max;
  o.io_threads = io_threads;
  c->bytes_max = limit;
  lake_consumer *consumer = NULL;
  assert_ok(lake_consumer_open(c->ns, &o, test_deadline(c->env), &consumer, &err), &err);
  atomic_store(&c->consumer, consumer);
}

static void next(scene *c, uint64_t step, lake_batch *batch) {
  assert_ok(lake_consumer_next(c->consumer, test_deadline(c->env), batch, &err), &err);
  assert_int_equal(batch->step, step);
  assert_int_equal(batch->bytes, 5000);
  assert_int_equal(*(const unsigned char *)batch->data, step);
}

static void close_scene(scene *c) {
  lake_batch batch;
  assert_status(lake_consumer_next(c->consumer, test_deadline(c->env), &batch, &err), LAKE_END, &err);
  assert_int_equal(used(c), 0);
  assert_int_equal(atomic_load(&c->over), 0);
  lake_consumer_close(c->consumer);
  lake_namespace_close(c->ns);
  lake_store_close(c->hooked);
  lake_namespace_close(c->inner);
  lake_env_close(c->env);
}

/* Polls for the event: the threads have fetched ahead as far as they may. */
static void await_used(scene *c, uint64_t bytes) {
  lake_consumer *consumer = atomic_load(&c->consumer);
  lki_lock(c->env, consumer->synced.lock);
  while (consumer->synced.used_bytes < bytes)
    (void)lki_wait(c->env, consumer->synced.progress, consumer->synced.lock, lki_after_ns(c->env, 1000000));
  assert_int_equal(consumer->synced.used_bytes, bytes);
  lki_unlock(c->env, consumer->synced.lock);
}

/* Three steps fit: three are fetched ahead, with the one that the caller holds among them, and never more. */
static void test_never_above(void **state) {
  (void)state;
  scene c;
  const uint64_t frame_bytes = open_scene(&c, LAKE_CODEC_NONE);
  start(&c, 3 * frame_bytes + frame_bytes / 2, 3 * frame_bytes + frame_bytes / 2, 1);
  for (uint64_t step = 0; step < STEPS; step++) {
    lake_batch batch;
    const uint64_t left = STEPS - step;
    await_used(&c, (left < 3 ? left : 3) * frame_bytes);
    next(&c, step, &batch);
    assert_int_equal(used(&c), (left < 3 ? left : 3) * frame_bytes); /* the caller's counts as well */
    assert_true(atomic_load(&c.reads) <= step + 3);
    lake_consumer_release(c.consumer, &batch);
  }
  assert_int_equal(atomic_load(&c.reads), STEPS);
  close_scene(&c);
}

/* However small the budget is, and whatever the caller holds, the next step comes; nothing is fetched beyond it. */
static void test_always_one(void **state) {
  (void)state;
  for (uint32_t io_threads = 1; io_threads <= 4; io_threads += 3) {
    scene c;
    (void)open_scene(&c, LAKE_CODEC_NONE);
    start(&c, 1, UINT64_MAX, io_threads);
    lake_batch held[STEPS];
    for (uint64_t step = 0; step < STEPS; step++) next(&c, step, &held[step]);
    for (uint64_t step = 0; step < STEPS; step++) lake_consumer_release(c.consumer, &held[step]);
    close_scene(&c);
  }
}

/* Compressed slices take more once they are here; what they took comes back all the same. */
static void test_compressed(void **state) {
  (void)state;
  scene c;
  assert_true(open_scene(&c, LAKE_CODEC_ZSTD) < 5000);
  start(&c, 20000, UINT64_MAX, 4);
  for (uint64_t step = 0; step < STEPS; step++) {
    lake_batch batch;
    next(&c, step, &batch);
    assert_true(used(&c) >= 5000);
    lake_consumer_release(c.consumer, &batch);
  }
  close_scene(&c);
}

/* Reads that fail for good, seen by the caller and tried again by it, leave nothing behind in the budget. */
static void test_failures(void **state) {
  (void)state;
  scene c;
  const uint64_t frame_bytes = open_scene(&c, LAKE_CODEC_NONE);
  atomic_store(&c.denials, 9);
  start(&c, 3 * frame_bytes, 3 * frame_bytes, 1);
  uint32_t failed = 0;
  for (uint64_t step = 0; step < STEPS; step++) {
    lake_batch batch;
    lake_status s;
    while ((s = lake_consumer_next(c.consumer, test_deadline(c.env), &batch, &err)) != LAKE_OK) {
      assert_status(s, LAKE_DENIED, &err);
      failed++;
    }
    assert_int_equal(batch.step, step);
    assert_true(used(&c) <= 3 * frame_bytes);
    lake_consumer_release(c.consumer, &batch);
  }
  assert_int_equal(failed, 9); /* each was told once */
  assert_int_equal(atomic_load(&c.reads), STEPS + 9);
  close_scene(&c);
}

/* A store that is away for longer than one request is tried: the step is read when it is back, and has its room once. */
static void test_outage(void **state) {
  (void)state;
  scene c;
  const uint64_t frame_bytes = open_scene(&c, LAKE_CODEC_NONE);
  atomic_store(&c.drops, LKI_RETRY_TRIES_MAX + 1);
  start(&c, 3 * frame_bytes, 3 * frame_bytes, 1);
  for (uint64_t step = 0; step < STEPS; step++) {
    lake_batch batch;
    next(&c, step, &batch);
    lake_consumer_release(c.consumer, &batch);
  }
  assert_int_equal(atomic_load(&c.reads), STEPS + LKI_RETRY_TRIES_MAX + 1);
  close_scene(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_never_above), cmocka_unit_test(test_always_one),
                                     cmocka_unit_test(test_compressed), cmocka_unit_test(test_failures),
                                     cmocka_unit_test(test_outage)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
