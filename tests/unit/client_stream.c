/* One stream end to end on mem: and file: what is appended is what every position reads, in one order, once. */
#include "support/stream.h"
#include <stdio.h>
#include <string.h>

static void stream_on(const char *url) {
  lake_env *env = test_env();
  lake_error err = LAKE_ERROR_INIT;
  const lake_mesh mesh = {2, 2};
  const uint64_t count = 300;
  lake_namespace *ns = test_namespace_new(env, url, mesh.d_count, mesh.c_count, 16);
  lake_producer *p = NULL;
  lake_producer_resume resume;
  assert_ok(lake_producer_open(ns, "p0", NULL, test_deadline(env), &resume, &p, &err), &err);
  assert_int_equal(resume.epoch, 1);
  assert_int_equal(resume.seq, 0);
  assert_int_equal(resume.offset, 0);
  for (uint64_t seq = 0; seq < count; seq++)
    assert_ok(test_append(p, mesh, 0, seq, test_deadline(env), &err), &err);
  assert_ok(lake_producer_flush(p, test_deadline(env), &err), &err);
  lake_producer_stats stats;
  lake_producer_stats_get(p, &stats);
  assert_int_equal(stats.appended_count, count);
  assert_int_equal(stats.committed_count, count);
  assert_int_equal(stats.attempt_count, stats.commit_count);
  assert_ok(lake_producer_retire(p, test_deadline(env), &err), &err);
  lake_producer_close(p);
  uint64_t steps = 0;
  assert_ok(lake_namespace_seal(ns, test_deadline(env), &steps, &err), &err);
  assert_int_equal(steps, count);
  assert_ok(lake_namespace_seal(ns, test_deadline(env), &steps, &err), &err);

  for (uint32_t i = 0; i < mesh.d_count * mesh.c_count; i++) {
    lake_namespace *reader = NULL; /* a handle of its own: nothing is known but the URL */
    assert_ok(lake_namespace_open(env, url, test_deadline(env), &reader, &err), &err);
    lake_consumer_options o = LAKE_CONSUMER_OPTIONS_INIT;
    o.coords.d = i / mesh.c_count;
    o.coords.c = i % mesh.c_count;
    char cursor[LAKE_CURSOR_BYTES] = "";
    lake_consumer *c = NULL;
    assert_ok(lake_consumer_open(reader, &o, test_deadline(env), &c, &err), &err);
    for (uint64_t step = 0; step < count; step++) {
      if (step == 123) { /* resume in the middle from the cursor's text */
        lake_consumer_cursor(c, cursor);
        lake_consumer_close(c);
        o.cursor = cursor;
        assert_ok(lake_consumer_open(reader, &o, test_deadline(env), &c, &err), &err);
      }
      lake_batch batch;
      assert_ok(lake_consumer_next(c, test_deadline(env), &batch, &err), &err);
      assert_int_equal(batch.step, step);
      assert_int_equal(batch.bytes, sizeof(test_slice));
      assert_int_equal((uintptr_t)batch.data % 64, 0);
      test_slice slice;
      memcpy(&slice, batch.data, sizeof slice);
      assert_int_equal(slice.seq, step);
      assert_int_equal(slice.d, o.coords.d);
      assert_int_equal(slice.c, o.coords.c);
      lake_consumer_release(c, &batch);
    }
    lake_batch batch;
    assert_status(lake_consumer_next(c, test_deadline(env), &batch, &err), LAKE_END, &err);
    lake_consumer_close(c);
    lake_namespace_close(reader);
  }
  lake_namespace_close(ns);
  lake_env_close(env);
}

static void test_mem(void **state) {
  (void)state;
  stream_on("mem:stream");
}

static void test_file(void **state) {
  (void)state;
  stream_on(test_scratch());
}

/* A producer that is opened again goes on behind its last commit; the older incarnation is fenced. */
static void test_resume_and_fence(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_error err = LAKE_ERROR_INIT;
  const lake_mesh mesh = {1, 1};
  lake_namespace *ns = test_namespace_new(env, "mem:fence", 1, 1, 0);
  lake_producer *older = NULL, *newer = NULL;
  lake_producer_resume resume;
  assert_ok(lake_producer_open(ns, "p", NULL, test_deadline(env), NULL, &older, &err), &err);
  for (uint64_t seq = 0; seq < 5; seq++) assert_ok(test_append(older, mesh, 0, seq, test_deadline(env), &err), &err);
  assert_ok(lake_producer_flush(older, test_deadline(env), &err), &err);
  assert_ok(lake_producer_open(ns, "p", NULL, test_deadline(env), &resume, &newer, &err), &err);
  assert_int_equal(resume.epoch, 2);
  assert_int_equal(resume.seq, 5);
  assert_int_equal(resume.offset, 5);
  assert_int_equal(resume.state_bytes, 8);
  uint64_t last = 0;
  memcpy(&last, resume.state, 8);
  assert_int_equal(last, 4);
  (void)test_append(older, mesh, 9, 5, test_deadline(env), &err);
  assert_status(lake_producer_flush(older, test_deadline(env), &err), LAKE_FENCED, &err);
  assert_non_null(strstr(err.text, "producer p: epoch 1 is fenced by epoch 2"));
  assert_status(test_append(older, mesh, 9, 6, test_deadline(env), &err), LAKE_FENCED, &err);
  assert_ok(test_append(newer, mesh, 0, 5, test_deadline(env), &err), &err);
  assert_ok(lake_producer_flush(newer, test_deadline(env), &err), &err);
  lake_producer_close(older);
  lake_producer_close(newer);
  lake_consumer *c = NULL;
  assert_ok(lake_consumer_open(ns, NULL, test_deadline(env), &c, &err), &err);
  for (uint64_t step = 0; step < 6; step++) {
    lake_batch batch;
    assert_ok(lake_consumer_next(c, test_deadline(env), &batch, &err), &err);
    test_slice slice;
    memcpy(&slice, batch.data, sizeof slice);
    assert_int_equal(slice.producer, 0);
    assert_int_equal(slice.seq, step);
    lake_consumer_release(c, &batch);
  }
  /* Nothing more is committed: the deadline ends the wait and says what was missing. */
  lake_batch batch;
  assert_status(lake_consumer_next(c, lake_deadline_after_ms(env, 30), &batch, &err), LAKE_TIMEOUT, &err);
  assert_non_null(strstr(err.text, "rank (d=0,c=0): step 6 of mem:fence is not committed yet"));
  lake_consumer_close(c);
  lake_namespace_close(ns);
  lake_env_close(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mem), cmocka_unit_test(test_file),
                                     cmocka_unit_test(test_resume_and_fence)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
