/* The boundary (I7): a stalled writer that re-creates a reclaimed name is not believed, by itself or by readers; a
 * reader that fell behind finds the end again; and the newest version is found in few requests from any hint. */
#include "base/buffer.h"
#include "base/env.h"
#include "client/namespace.h"
#include "format/names.h"
#include "support/stream.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static lake_error err = LAKE_ERROR_INIT;

static lki_descriptor descriptor_of(uint64_t epoch, uint64_t seq) {
  lki_descriptor d = {.epoch = epoch, .seq = seq, .slice_count = 1, .footer_bytes = 100, .frame_bytes = 40,
                      .layout = LKI_LAYOUT_UNIFORM, .object_bytes = 64 + 64 + 100};
  return d;
}

static lake_status append(lake_namespace *ns, const char *id, uint64_t epoch, uint64_t seq, bool once) {
  lki_descriptor d = descriptor_of(epoch, seq);
  lki_change change = {.kind = LKI_CHANGE_APPEND, .producer_id = id, .epoch = epoch, .first_seq = seq,
                       .descriptor_count = 1, .descriptors = &d, .offset = seq + 1};
  lki_commit_result result;
  lake_status s = once ? lki_log_try(ns->log, &change, NULL, id, 0, NULL, test_deadline(ns->env), &result, &err)
                       : lki_log_commit(ns->log, &change, id, test_deadline(ns->env), &result, &err);
  lki_manifest_release(result.manifest);
  return s;
}

static void claim(lake_namespace *ns, const char *id) {
  lki_change change = {.kind = LKI_CHANGE_CLAIM, .producer_id = id, .owner = "host:1"};
  lki_commit_result result;
  assert_ok(lki_log_commit(ns->log, &change, id, test_deadline(ns->env), &result, &err), &err);
  lki_manifest_release(result.manifest);
}

static lake_namespace *open_again(lake_env *env, const char *url) {
  lake_namespace *ns = NULL;
  assert_ok(lake_namespace_open(env, url, test_deadline(env), &ns, &err), &err);
  return ns;
}

static uint64_t version_of(lake_namespace *ns) {
  lki_manifest *view = lki_log_view(ns->log);
  uint64_t version = view->version;
  lki_manifest_release(view);
  return version;
}

static void reclaim_blocks(lake_namespace *ns, uint64_t blocks) {
  for (uint64_t b = 0; b < blocks; b++) {
    assert_ok(lki_log_raise(ns->log, b, test_deadline(ns->env), &err), &err);
    for (uint64_t v = b * 4; v < (b + 1) * 4; v++) {
      char name[LKI_NAME_BYTES];
      lki_name_manifest(name, v);
      assert_ok(lki_store_remove(ns->store, name, test_deadline(ns->env), &err), &err);
    }
  }
}

static lake_namespace *create(lake_env *env, const char *url) {
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.version_block = 4;
  options.tail_max = 4;
  lake_namespace *ns = NULL;
  assert_ok(lake_namespace_create(env, url, &options, test_deadline(env), &ns, &err), &err);
  return ns;
}

/* Both claim at versions 1 and 2; the sleeper's view stays there while 20 more versions come and 3 blocks go. */
static void test_sleeping_writer(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *worker = create(env, "mem:sleeper");
  lake_namespace *sleeper = open_again(env, "mem:sleeper"), *reader = open_again(env, "mem:sleeper");
  claim(worker, "w");
  claim(sleeper, "z");
  assert_ok(lki_log_refresh(reader->log, test_deadline(env), NULL, &err), &err);
  assert_int_equal(version_of(reader), 2);
  for (uint64_t seq = 0; seq < 20; seq++) assert_ok(append(worker, "w", 1, seq, false), &err);
  reclaim_blocks(worker, 3);
  /* The store says that version 3 was created; the log does not believe it, and goes on from the newest. */
  assert_status(append(sleeper, "z", 1, 0, true), LAKE_AGAIN, &err);
  assert_non_null(strstr(err.text, "version 3 was reclaimed while this writer slept"));
  assert_int_equal(version_of(sleeper), 22);
  /* The reader stands at 2, and a version 3 has come back that even names version 2 as its predecessor. */
  char name[LKI_NAME_BYTES];
  lki_name_manifest(name, 3);
  assert_ok(lki_store_head(reader->store, name, NULL, test_deadline(env), &err), &err);
  assert_ok(lki_log_refresh(reader->log, test_deadline(env), NULL, &err), &err);
  assert_int_equal(version_of(reader), 22);
  assert_ok(append(sleeper, "z", 1, 0, false), &err);
  lki_manifest *view = lki_log_view(sleeper->log);
  assert_int_equal(view->version, 23);
  assert_int_equal(view->next_step, 21);
  assert_int_equal(view->producers[lki_manifest_find_producer(view, "z")].next_seq, 1);
  lki_manifest_release(view);
  lake_namespace_close(reader);
  lake_namespace_close(sleeper);
  lake_namespace_close(worker);
  lake_env_close(env);
}

/* Its commit won, the reply was lost, and by the time it asks the version is reclaimed: EXISTS, not again. */
static void test_won_then_reclaimed(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *worker = create(env, "mem:won"), *other = open_again(env, "mem:won");
  claim(worker, "w");
  assert_ok(lki_log_refresh(other->log, test_deadline(env), NULL, &err), &err);
  for (uint64_t seq = 0; seq < 20; seq++) assert_ok(append(worker, "w", 1, seq, false), &err);
  reclaim_blocks(worker, 3);
  assert_status(append(other, "w", 1, 0, true), LAKE_AGAIN, &err);
  assert_int_equal(append(other, "w", 1, 0, false), LAKE_EXISTS);
  lake_namespace_close(other);
  lake_namespace_close(worker);
  lake_env_close(env);
}

static void test_reader_left_behind(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *worker = create(env, "mem:behind"), *reader = open_again(env, "mem:behind");
  claim(worker, "w");
  assert_ok(lki_log_refresh(reader->log, test_deadline(env), NULL, &err), &err);
  for (uint64_t seq = 0; seq < 20; seq++) assert_ok(append(worker, "w", 1, seq, false), &err);
  reclaim_blocks(worker, 3);
  /* 404 at the next version is not "nothing new", however often it was so before. */
  for (int i = 0; i < 10 && version_of(reader) == 1; i++)
    assert_ok(lki_log_refresh(reader->log, test_deadline(env), NULL, &err), &err);
  assert_int_equal(version_of(reader), 21);
  lake_namespace_close(reader);
  lake_namespace_close(worker);
  lake_env_close(env);
}

static void put_hint(lake_namespace *ns, const char *text) {
  assert_ok(lki_store_put(ns->store, LKI_NAME_HINT, (lake_bytes){text, strlen(text)}, test_deadline(ns->env), &err),
            &err);
}

static void test_hints_that_lie(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *worker = create(env, "mem:hints");
  claim(worker, "w");
  for (uint64_t seq = 0; seq < 20; seq++) assert_ok(append(worker, "w", 1, seq, false), &err);
  reclaim_blocks(worker, 3);
  for (int i = 0; i < 6; i++) {
    if (i == 0) assert_ok(lki_store_remove(worker->store, LKI_NAME_HINT, test_deadline(env), &err), &err);
    if (i == 1) put_hint(worker, "rubbish");
    if (i > 1) {
      const uint64_t versions[] = {2, 5, 1000000, UINT64_MAX}; /* reclaimed, reclaimed, ahead, absurd */
      lake_buffer text;
      lki_buffer_init(&text, env, 256);
      assert_ok(lki_hint_encode(versions[i - 2], &text, &err), &err);
      assert_ok(lki_store_put(worker->store, LKI_NAME_HINT, lki_buffer_view(&text), test_deadline(env), &err), &err);
      lki_buffer_free(&text);
    }
    lake_namespace *reader = open_again(env, "mem:hints");
    assert_ok(lki_log_refresh(reader->log, test_deadline(env), NULL, &err), &err);
    assert_int_equal(version_of(reader), 21);
    lake_namespace_close(reader);
  }
  lake_namespace_close(worker);
  lake_env_close(env);
}

/* A damaged version in the middle stops nobody, wherever the hint stands; a damaged newest one is told. */
static void test_damaged_in_the_middle(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *worker = create(env, "mem:middle");
  claim(worker, "w");
  for (uint64_t seq = 0; seq < 9; seq++) assert_ok(append(worker, "w", 1, seq, false), &err);
  for (uint64_t damaged = 2; damaged <= 10; damaged++) {
    lake_namespace *old = open_again(env, "mem:middle");
    assert_ok(lki_log_refresh(old->log, test_deadline(env), NULL, &err), &err);
    char name[LKI_NAME_BYTES];
    lake_buffer good;
    lki_buffer_init(&good, env, 65536);
    lki_name_manifest(name, damaged);
    assert_ok(lki_store_get(worker->store, name, lki_range_whole(), &good, NULL, test_deadline(env), &err), &err);
    assert_ok(lki_store_put(worker->store, name, (lake_bytes){"damage", 6}, test_deadline(env), &err), &err);
    for (uint64_t hint = damaged > 1 ? damaged - 1 : 1; hint <= damaged; hint++) {
      lake_buffer text;
      lki_buffer_init(&text, env, 256);
      assert_ok(lki_hint_encode(hint, &text, &err), &err);
      assert_ok(lki_store_put(worker->store, LKI_NAME_HINT, lki_buffer_view(&text), test_deadline(env), &err), &err);
      lki_buffer_free(&text);
      lake_namespace *reader = open_again(env, "mem:middle");
      lake_status s = lki_log_refresh(reader->log, test_deadline(env), NULL, &err);
      assert_status(s, damaged < 10 ? LAKE_OK : LAKE_CORRUPT, &err);
      if (s == LAKE_OK) assert_int_equal(version_of(reader), 10);
      lake_namespace_close(reader);
    }
    assert_ok(lki_store_put(worker->store, name, lki_buffer_view(&good), test_deadline(env), &err), &err);
    lki_buffer_free(&good);
    lake_namespace_close(old);
  }
  lake_namespace_close(worker);
  lake_env_close(env);
}

/* A new reader opens in at most 4 + log2(distance from the hint) requests, at version 100,000 and from any distance. */
static void test_few_requests(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.version_block = 1u << 20;
  lake_namespace *worker = NULL;
  assert_ok(lake_namespace_create(env, "mem:few", &options, test_deadline(env), &worker, &err), &err);
  claim(worker, "w");
  const uint64_t last = 100000;
  for (uint64_t seq = 0; seq + 1 < last; seq++) assert_ok(append(worker, "w", 1, seq, false), &err);
  assert_int_equal(version_of(worker), last);
  const uint64_t distances[] = {0, 1, 2, 3, 4, 7, 15, 16, 100, 999, 1000, 1001, 1002, 1500, 2001, 5000, 30000, 65536, 99999};
  for (size_t i = 0; i < sizeof distances / sizeof distances[0]; i++) {
    lake_buffer text;
    lki_buffer_init(&text, env, 256);
    assert_ok(lki_hint_encode(last - distances[i], &text, &err), &err);
    assert_ok(lki_store_put(worker->store, LKI_NAME_HINT, lki_buffer_view(&text), test_deadline(env), &err), &err);
    lki_buffer_free(&text);
    lake_namespace *reader = open_again(env, "mem:few");
    lake_store_stats before, after;
    lake_namespace_stats_get(reader, &before);
    assert_ok(lki_log_refresh(reader->log, test_deadline(env), NULL, &err), &err);
    lake_namespace_stats_get(reader, &after);
    assert_int_equal(version_of(reader), last);
    const uint64_t requests = after.get_count - before.get_count + after.head_count - before.head_count +
                              after.list_count - before.list_count;
    const double allowed = 4 + (distances[i] > 1 ? log2((double)distances[i]) : 0);
    printf("distance %llu: %llu requests, %.1f allowed\n", (unsigned long long)distances[i],
           (unsigned long long)requests, allowed);
    assert_true((double)requests <= allowed);
    lake_namespace_close(reader);
  }
  lake_namespace_close(worker);
  lake_env_close(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sleeping_writer),    cmocka_unit_test(test_won_then_reclaimed),
      cmocka_unit_test(test_reader_left_behind), cmocka_unit_test(test_hints_that_lie),
      cmocka_unit_test(test_damaged_in_the_middle), cmocka_unit_test(test_few_requests),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
