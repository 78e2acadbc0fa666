/* Sealing as a property: whatever the run length and however many TGBs a commit adds, every step is found again
 * through tail, segments and roots, and a manifest stays within its bounds. */
#include "base/env.h"
#include "base/rng.h"
#include "client/namespace.h"
#include "client/steps.h"
#include "support/stream.h"
#include <stdio.h>

static void seal_with(lake_env *env, lki_rng *rng, uint32_t tail_max, uint64_t steps, uint32_t batch_max) {
  lake_error err = LAKE_ERROR_INIT;
  lake_deadline deadline = test_deadline(env);
  char url[64];
  snprintf(url, sizeof url, "mem:seal-%u-%llu-%u", tail_max, (unsigned long long)steps, batch_max);
  lake_namespace *ns = test_namespace_new(env, url, 1, 1, tail_max);
  lki_commit_result result;
  lki_change claim = {.kind = LKI_CHANGE_CLAIM, .producer_id = "p", .owner = "host:1"};
  assert_ok(lki_log_commit(ns->log, &claim, "p", deadline, &result, &err), &err);
  lki_manifest_release(result.manifest);
  lki_descriptor *d = lki_new(env, sizeof *d * batch_max);
  for (uint64_t seq = 0; seq < steps;) {
    uint32_t n = 1 + (uint32_t)lki_rng_below(rng, batch_max);
    for (uint32_t i = 0; i < n; i++)
      d[i] = (lki_descriptor){.epoch = 1, .seq = seq + i, .slice_count = 1, .footer_bytes = 100, .frame_bytes = 64 + (seq + i) % 7,
                              .layout = LKI_LAYOUT_UNIFORM, .object_bytes = 64 + ((64 + (seq + i) % 7 + 63) / 64 * 64) + 100};
    lki_change append = {.kind = LKI_CHANGE_APPEND, .producer_id = "p", .epoch = 1, .first_seq = seq,
                         .descriptor_count = n, .descriptors = d, .offset = seq + n};
    assert_ok(lki_log_commit(ns->log, &append, "p", deadline, &result, &err), &err);
    assert_true(result.manifest->segment_count <= LKI_SEGMENT_FANOUT);
    assert_true(result.manifest->tail_count < 2 * tail_max + n);
    lki_manifest_release(result.manifest);
    seq += n;
    steps = steps < seq ? seq : steps;
  }
  lki_free(env, d);

  /* A reader with a handle of its own finds every step, in order and at random. */
  lake_namespace *reader = NULL;
  assert_ok(lake_namespace_open(env, url, deadline, &reader, &err), &err);
  assert_ok(lki_log_refresh(reader->log, deadline, NULL, &err), &err);
  lki_manifest *view = lki_log_view(reader->log);
  assert_int_equal(view->next_step, steps);
  lki_steps *index = NULL;
  assert_ok(lki_steps_open(env, reader->log, &index, &err), &err);
  for (uint64_t i = 0; i < 2 * steps; i++) {
    uint64_t step = i < steps ? i : lki_rng_below(rng, steps);
    lki_step_ref ref = {0};
    assert_ok(lki_steps_find(index, view, step, deadline, &ref, &err), &err);
    assert_int_equal(ref.descriptor->seq, step);
    assert_int_equal(ref.descriptor->frame_bytes, 64 + step % 7);
    assert_string_equal(ref.producer_id, "p");
    lki_step_ref_release(&ref);
  }
  lki_step_ref ref = {0};
  assert_int_equal(lki_steps_find(index, view, steps, deadline, &ref, &err), LAKE_AGAIN);
  lki_steps_close(index);
  lki_manifest_release(view);
  lake_namespace_close(reader);
  lake_namespace_close(ns);
}

static void test_seal(void **state) {
  (void)state;
  lake_env *env = test_env();
  lki_rng rng = {test_seed()};
  seal_with(env, &rng, 1, 700, 1);
  seal_with(env, &rng, 2, 3000, 9);
  seal_with(env, &rng, 4, 5000, 3);
  seal_with(env, &rng, 16, 5000, 100);
  seal_with(env, &rng, 128, 9000, 1000);
  lake_env_close(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_seal)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
