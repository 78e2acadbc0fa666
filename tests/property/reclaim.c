/* Reclaim, undisturbed: pins keep what they need, everything else goes, nothing that is on its way is touched, and
 * what remains does not grow with the history. */
#include "base/env.h"
#include "client/namespace.h"
#include "format/names.h"
#include "support/stream.h"
#include "support/tgbs.h"
#include <stdio.h>
#include <string.h>

static lake_error err = LAKE_ERROR_INIT;

static lake_reclaim_report reclaim(lake_namespace *ns, bool dry_run, uint64_t before_step) {
  lake_reclaim_options o = LAKE_RECLAIM_OPTIONS_INIT;
  o.dry_run = dry_run;
  o.before_step = before_step;
  lake_reclaim_report report;
  assert_ok(lake_reclaim(ns, &o, test_deadline(ns->env), &report, &err), &err);
  return report;
}

/* One producer, a TGB a step. */
static void append_steps(lake_namespace *ns, tgb_mark *marks, uint64_t from, uint64_t to) {
  for (uint64_t step = from; step < to; step++) {
    marks[step] = (tgb_mark){1, 1, step};
    tgb_append(ns, marks[step]);
  }
}

static void test_pins_keep(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = tgb_namespace_new(env, "mem:pins", 4, 4);
  static tgb_mark marks[100];
  assert_int_equal(tgb_claim(ns, 1), 1);
  append_steps(ns, marks, 0, 100);
  /* No pin: no committed step goes. */
  lake_reclaim_report r = reclaim(ns, false, 0);
  assert_int_equal(r.first_live_step, 0);
  assert_int_equal(r.tgb_count, 0);
  assert_int_equal(r.pinned_step, UINT64_MAX);
  assert_int_equal(tgb_check_all(ns, marks, 100), 0);
  assert_ok(tgb_pin(ns, "a", 30, test_deadline(env), &err), &err);
  assert_ok(tgb_pin(ns, "b", 57, test_deadline(env), &err), &err);
  assert_ok(tgb_pin(ns, "c", 91, test_deadline(env), &err), &err);
  r = reclaim(ns, false, 0);
  assert_int_equal(r.pin_count, 3);
  assert_int_equal(r.pinned_step, 30);
  assert_int_equal(r.tgb_count, 30);
  assert_int_equal(tgb_check_all(ns, marks, 100), 30);
  assert_int_equal(tgb_count_objects(ns, "data/").count, 70);
  /* Again: nothing to do. What the trimming version replaced goes now, if anything. */
  r = reclaim(ns, false, 0);
  assert_int_equal(r.tgb_count, 0);
  assert_int_equal(r.first_live_step, 30);
  /* A named step is bounded by the pins. */
  r = reclaim(ns, false, 80);
  assert_int_equal(r.first_live_step, 30);
  tgb_unpin(ns, "a");
  r = reclaim(ns, false, 50);
  assert_int_equal(r.first_live_step, 50);
  r = reclaim(ns, false, 0);
  assert_int_equal(r.first_live_step, 57);
  assert_int_equal(tgb_check_all(ns, marks, 100), 57);
  /* What is gone is told as gone: to a pin, which leaves nothing behind, and to a reader. */
  assert_status(tgb_pin(ns, "late", 56, test_deadline(env), &err), LAKE_RECLAIMED, &err);
  assert_string_equal(err.text, "watermark/g/late.json: step 56 was reclaimed, the first live one is 57; resume from a "
                                "checkpoint that is still pinned, and pin that");
  assert_int_equal(tgb_count_objects(ns, "watermark/").count, 2);
  tgb_mark mark;
  assert_status(tgb_read(ns, 56, &mark, &err), LAKE_RECLAIMED, &err);
  assert_ok(tgb_pin(ns, "exact", 57, test_deadline(env), &err), &err);
  lake_namespace_close(ns);
  lake_env_close(env);
}

/* Once nothing is pinned and all is named, only the order's bookkeeping is left, however long the history was. */
static tgb_totals remains_after(lake_env *env, const char *url, uint64_t steps) {
  static tgb_mark marks[2000];
  lake_namespace *ns = tgb_namespace_new(env, url, 4, 8);
  tgb_claim(ns, 1);
  append_steps(ns, marks, 0, steps);
  assert_ok(tgb_pin(ns, "a", steps / 2, test_deadline(env), &err), &err);
  reclaim(ns, false, UINT64_MAX);
  tgb_unpin(ns, "a");
  assert_int_equal(reclaim(ns, false, UINT64_MAX).first_live_step, steps);
  reclaim(ns, false, UINT64_MAX);
  assert_int_equal(tgb_count_objects(ns, "data/").count, 0);
  assert_int_equal(tgb_count_objects(ns, "segment/").count, 0);
  assert_int_equal(tgb_count_objects(ns, "watermark/").count, 0);
  assert_int_equal(tgb_count_objects(ns, "boundary/line/").count, 0);
  tgb_totals t = tgb_count_objects(ns, "manifest/");
  /* The stream goes on behind it. */
  append_steps(ns, marks, steps, steps + 20);
  assert_int_equal(tgb_check_all(ns, marks, steps + 20), steps);
  lake_namespace_close(ns);
  return t;
}

static void test_baseline(void **state) {
  (void)state;
  lake_env *env = test_env();
  const tgb_totals small = remains_after(env, "mem:base1", 102), large = remains_after(env, "mem:base2", 1902);
  assert_int_equal(small.count, large.count); /* the distances to the block's end are equal: 1902 - 102 is 225 blocks */
  assert_true(large.bytes <= small.bytes + small.bytes / 10); /* numbers grow longer */
  lake_env_close(env);
}

static void test_orphans(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = tgb_namespace_new(env, "mem:orphans", 4, 4);
  static tgb_mark marks[40];
  uint64_t n = 0;
  assert_int_equal(tgb_claim(ns, 1), 1);
  for (; n < 10; n++) tgb_append(ns, marks[n] = (tgb_mark){1, 1, n});
  for (uint64_t seq = 10; seq < 13; seq++) tgb_upload(ns, (tgb_mark){1, 1, seq}); /* and the producer dies */
  tgb_upload(ns, (tgb_mark){7, 1, 0});                                            /* its claim is on its way */
  lake_reclaim_report r = reclaim(ns, false, 0);
  assert_int_equal(r.tgb_count, 0);
  assert_int_equal(r.in_flight_count, 4);
  assert_int_equal(tgb_claim(ns, 1), 2);
  /* The newer incarnation makes the same seqs; the older one's can never be committed. */
  for (uint64_t seq = 10; seq < 12; seq++) tgb_upload(ns, (tgb_mark){1, 2, seq});
  r = reclaim(ns, false, 0);
  assert_int_equal(r.tgb_count, 3);
  assert_int_equal(r.in_flight_count, 3);
  assert_ok(tgb_commit(ns, (tgb_mark){1, 2, 10}, 2, &err), &err);
  for (; n < 12; n++) marks[n] = (tgb_mark){1, 2, n};
  assert_int_equal(tgb_check_all(ns, marks, 12), 0);
  assert_int_equal(tgb_claim(ns, 7), 1);
  assert_ok(tgb_commit(ns, (tgb_mark){7, 1, 0}, 1, &err), &err);
  marks[n++] = (tgb_mark){7, 1, 0};
  assert_int_equal(tgb_check_all(ns, marks, n), 0);
  /* A zombie uploads once more: what was never committed, and what was, in the epoch that committed it. */
  tgb_upload(ns, (tgb_mark){1, 1, 11});
  tgb_upload(ns, (tgb_mark){1, 1, 4});
  r = reclaim(ns, false, 0);
  assert_int_equal(r.tgb_count, 1);
  assert_int_equal(tgb_check_all(ns, marks, n), 0);
  assert_int_equal(tgb_count_objects(ns, "data/").count, n);
  /* A name that is not ours stays. */
  assert_ok(lki_store_put(ns->store, "data/notes.txt", (lake_bytes){"x", 1}, test_deadline(env), &err), &err);
  assert_ok(lki_store_put(ns->store, "segment/0/notes", (lake_bytes){"x", 1}, test_deadline(env), &err), &err);
  r = reclaim(ns, false, UINT64_MAX);
  assert_int_equal(r.unknown_count, 2);
  assert_int_equal(r.tgb_count, n);
  assert_int_equal(tgb_count_objects(ns, "data/").count, 1);
  lake_namespace_close(ns);
  lake_env_close(env);
}

/* A segment that a writer sealed but could not bring in. */
static void test_lost_segment(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = tgb_namespace_new(env, "mem:lostseg", 4, 4);
  static tgb_mark marks[40];
  tgb_claim(ns, 1);
  append_steps(ns, marks, 0, 8); /* the next commit seals */
  lki_manifest *view = lki_log_view(ns->log);
  lki_arena arena;
  lki_arena_init(&arena, env);
  lki_sealing sealing;
  assert_ok(lki_log_seal_runs(ns->log, view, &arena, test_deadline(env), &sealing, &err), &err);
  assert_int_equal(sealing.segment_count, 1);
  assert_int_equal(sealing.segments[0].version, view->version);
  /* It may yet be brought in by the next version. */
  lake_reclaim_report r = reclaim(ns, false, 0);
  assert_int_equal(r.segment_count, 0);
  assert_int_equal(r.in_flight_count, 1);
  lki_arena_free(&arena);
  lki_manifest_release(view);
  /* Another handle's commit brings in its own, which is the same object; a loser's of other bytes is not. */
  lake_namespace *other = tgb_namespace_open(env, "mem:lostseg");
  marks[8] = (tgb_mark){1, 1, 8};
  tgb_append(other, marks[8]);
  assert_int_equal(tgb_count_objects(ns, "segment/").count, 1);
  lki_segment_ref lost = {.level = 0, .first_step = 0, .version = 9, .checksum = 12345};
  char name[LKI_NAME_BYTES];
  lki_name_segment(name, &lost);
  assert_ok(lki_store_put(ns->store, name, (lake_bytes){"x", 1}, test_deadline(env), &err), &err);
  r = reclaim(ns, false, 0);
  assert_int_equal(r.segment_count, 1);
  assert_int_equal(r.segment_bytes, 1);
  assert_int_equal(tgb_check_all(ns, marks, 9), 0);
  lake_namespace_close(other);
  lake_namespace_close(ns);
  lake_env_close(env);
}

static void test_dry_run(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = tgb_namespace_new(env, "mem:dry", 4, 4);
  static tgb_mark marks[50];
  tgb_claim(ns, 1);
  append_steps(ns, marks, 0, 50);
  tgb_upload(ns, (tgb_mark){1, 1, 50});
  assert_ok(tgb_pin(ns, "a", 33, test_deadline(env), &err), &err);
  reclaim(ns, false, 10); /* so that there was something before */
  const tgb_totals before = tgb_count_objects(ns, "");
  lake_reclaim_report dry = reclaim(ns, true, 0);
  const tgb_totals after = tgb_count_objects(ns, "");
  assert_int_equal(before.count, after.count);
  assert_int_equal(before.bytes, after.bytes);
  assert_int_equal(tgb_check_all(ns, marks, 50), 10);
  lake_reclaim_report wet = reclaim(ns, false, 0);
  dry.version++; /* the version that the dry run did not write */
  assert_memory_equal(&dry, &wet, sizeof dry);
  assert_int_equal(wet.tgb_count, 23);
  assert_true(wet.segment_count > 0);
  lake_namespace_close(ns);
  lake_env_close(env);
}

static void test_damaged_pin(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = tgb_namespace_new(env, "mem:badpin", 4, 4);
  lake_namespace *other = tgb_namespace_new(env, "mem:badpin2", 4, 4);
  static tgb_mark marks[30];
  tgb_claim(ns, 1);
  append_steps(ns, marks, 0, 30);
  assert_ok(tgb_pin(ns, "good", 20, test_deadline(env), &err), &err);
  tgb_claim(other, 1);
  const lki_pin theirs = {other->schema->namespace_id, 25, 25, 0};
  lake_buffer bytes;
  lki_buffer_init(&bytes, env, 65536);
  assert_ok(lki_pin_encode(&theirs, &bytes, &err), &err);
  const lake_bytes bodies[] = {{"rubbish", 7}, {"", 0}, lki_buffer_view(&bytes)};
  const tgb_totals before = tgb_count_objects(ns, "data/");
  for (int i = 0; i < 3; i++) {
    assert_ok(lki_store_put(ns->store, "watermark/g/bad.json", bodies[i], test_deadline(env), &err), &err);
    lake_reclaim_options o = LAKE_RECLAIM_OPTIONS_INIT;
    lake_reclaim_report report;
    assert_status(lake_reclaim(ns, &o, test_deadline(env), &report, &err), LAKE_CORRUPT, &err);
    assert_non_null(strstr(err.text, "watermark/g/bad.json"));
    assert_non_null(strstr(err.text, "nothing is reclaimed while a pin cannot be read"));
    assert_int_equal(tgb_count_objects(ns, "data/").count, before.count);
    assert_int_equal(tgb_count_objects(ns, "boundary/").count, 0);
  }
  tgb_unpin(ns, "bad");
  assert_int_equal(reclaim(ns, false, 0).first_live_step, 20);
  lki_buffer_free(&bytes);
  lake_namespace_close(other);
  lake_namespace_close(ns);
  lake_env_close(env);
}

/* A reclaimer crashed between its line and its commit. A pin below its line waits for the versions that the line was
 * meant for, whoever makes them, and no clock; reclaim clears it away once it is void. */
static void test_left_over_line(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = tgb_namespace_new(env, "mem:line", 4, 4);
  static tgb_mark marks[30];
  tgb_claim(ns, 1);
  append_steps(ns, marks, 0, 20); /* version 21 */
  const lki_line line = {15, 23, 99};
  char name[LKI_NAME_BYTES];
  lki_name_line(name, &line);
  assert_string_equal(name, "boundary/line/00000000000000000015-00000000000000000023-0000000000000063");
  assert_ok(lki_store_put(ns->store, name, (lake_bytes){"x", 1}, test_deadline(env), &err), &err);
  assert_ok(tgb_pin(ns, "above", 15, lake_deadline_after_ms(env, 0), &err), &err);
  assert_status(tgb_pin(ns, "below", 14, lake_deadline_after_ms(env, 0), &err), LAKE_UNCERTAIN, &err);
  assert_non_null(strstr(err.text, "reclaim is about to trim to step 15 (undecided up to version 23, now 21)"));
  /* Its pin stands all the same: nobody who lists it trims past it. */
  lake_reclaim_report r = reclaim(ns, false, 0); /* version 22 */
  assert_int_equal(r.first_live_step, 14);
  assert_int_equal(tgb_count_objects(ns, "boundary/line/").count, 1);
  assert_status(tgb_pin(ns, "below", 14, lake_deadline_after_ms(env, 0), &err), LAKE_UNCERTAIN, &err);
  append_steps(ns, marks, 20, 21); /* version 23 */
  assert_ok(tgb_pin(ns, "below", 14, lake_deadline_after_ms(env, 0), &err), &err);
  /* The crashed one was only asleep: it is too late. */
  lki_change change = {.kind = LKI_CHANGE_TRIM, .first_live_step = line.step, .version_max = line.version_max};
  lki_commit_result result;
  assert_status(lki_log_commit(ns->log, &change, "sleeper", test_deadline(env), &result, &err), LAKE_FENCED, &err);
  assert_non_null(strstr(err.text, "was declared up to version 23, and version 23 is there"));
  lki_manifest_release(result.manifest);
  reclaim(ns, false, 0);
  assert_int_equal(tgb_count_objects(ns, "boundary/line/").count, 0);
  assert_int_equal(tgb_check_all(ns, marks, 21), 14);
  lake_namespace_close(ns);
  lake_env_close(env);
}

/* A pin below the first live step, left by a creator that crashed before it learnt so, holds nothing up. */
static void test_void_pin(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = tgb_namespace_new(env, "mem:voidpin", 4, 4);
  static tgb_mark marks[30];
  tgb_claim(ns, 1);
  append_steps(ns, marks, 0, 30);
  reclaim(ns, false, 20);
  const lki_pin pin = {ns->schema->namespace_id, 5, 5, 0};
  lake_buffer bytes;
  lki_buffer_init(&bytes, env, 65536);
  assert_ok(lki_pin_encode(&pin, &bytes, &err), &err);
  assert_ok(lki_store_put(ns->store, "watermark/g/crashed.json", lki_buffer_view(&bytes), test_deadline(env), &err), &err);
  assert_ok(tgb_pin(ns, "good", 25, test_deadline(env), &err), &err);
  lake_reclaim_report r = reclaim(ns, false, 0);
  assert_int_equal(r.void_pin_count, 1);
  assert_int_equal(r.pin_count, 1);
  assert_int_equal(r.first_live_step, 25);
  lki_buffer_free(&bytes);
  lake_namespace_close(ns);
  lake_env_close(env);
}

/* A sealed stream is reclaimed like any other, to its end. */
static void test_sealed(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = tgb_namespace_new(env, "mem:sealed", 4, 4);
  static tgb_mark marks[30];
  tgb_claim(ns, 1);
  append_steps(ns, marks, 0, 30);
  assert_ok(lake_namespace_seal(ns, test_deadline(env), NULL, &err), &err);
  assert_ok(tgb_pin(ns, "end", 30, test_deadline(env), &err), &err);
  lake_reclaim_report r = reclaim(ns, false, 0);
  assert_int_equal(r.first_live_step, 30);
  assert_int_equal(r.tgb_count, 30);
  lki_manifest *view = lki_log_view(ns->log);
  assert_true(view->sealed);
  assert_int_equal(view->next_step, 30);
  lki_manifest_release(view);
  lake_namespace_close(ns);
  lake_env_close(env);
}

/* 10^4 steps with two rolling pins: what the store holds, and what a commit writes, stays what it was. */
static void test_bounded(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = tgb_namespace_new(env, "mem:bounded", 16, 64);
  static tgb_mark marks[10000];
  tgb_claim(ns, 1);
  tgb_totals all_first = {0, 0}, manifests_first = {0, 0};
  for (uint64_t step = 0; step < 10000; step += 100) {
    append_steps(ns, marks, step, step + 100);
    char name[32];
    snprintf(name, sizeof name, "s%llu", (unsigned long long)step);
    assert_ok(tgb_pin(ns, name, step, test_deadline(env), &err), &err);
    if (step >= 200) {
      snprintf(name, sizeof name, "s%llu", (unsigned long long)(step - 200));
      tgb_unpin(ns, name);
    }
    reclaim(ns, false, 0);
    const tgb_totals all = tgb_count_objects(ns, ""), manifests = tgb_count_objects(ns, "manifest/");
    const tgb_totals marks_only = tgb_count_objects(ns, "boundary/"); /* one a block for ever, by design */
    if (step == 1000) {
      all_first = (tgb_totals){all.count - marks_only.count, all.bytes - marks_only.bytes};
      manifests_first = manifests;
    }
    if (step < 1000) continue;
    assert_true(all.count - marks_only.count <= all_first.count + 70);
    assert_true((double)(all.bytes - marks_only.bytes) <= 1.3 * (double)all_first.bytes);
    assert_true((double)manifests.bytes / (double)manifests.count <=
                1.2 * (double)manifests_first.bytes / (double)manifests_first.count);
  }
  assert_int_equal(tgb_check_all(ns, marks, 10000), 9800);
  /* Nor does a root refer to what is long dead: at most one folded child reaches down. */
  lki_manifest *view = lki_log_view(ns->log);
  assert_true(view->segment_count > 0 && view->segments[0].first_step >= 8000);
  lki_manifest_release(view);
  lake_namespace_close(ns);
  lake_env_close(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pins_keep),   cmocka_unit_test(test_baseline), cmocka_unit_test(test_orphans),
      cmocka_unit_test(test_lost_segment), cmocka_unit_test(test_dry_run),  cmocka_unit_test(test_damaged_pin),
      cmocka_unit_test(test_left_over_line), cmocka_unit_test(test_void_pin),
      cmocka_unit_test(test_sealed),      cmocka_unit_test(test_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
