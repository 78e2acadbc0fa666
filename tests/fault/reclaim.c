/* Reclaim that is ended, refused or lied to at every single store operation, or runs out of memory at every
 * allocation: what lives is whole at that moment, and a run after it brings the very end that an undisturbed one does. */
#include "base/env.h"
#include "format/names.h"
#include "support/hook.h"
#include "support/sample.h"
#include "support/stream.h"
#include "support/tgbs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 45u
#define KEYS_BYTES 65536

static lake_error err = LAKE_ERROR_INIT;

typedef struct world {
  lake_env *env;
  lake_namespace *ns;
  tgb_mark marks[STEPS];
} world;

/* Two incarnations, orphans of the older, an upload of the newer, segments of several levels, versions of several
 * blocks, two pins of which the lower was just taken away. */
static void world_open(world *w, lake_env *env) {
  w->env = env;
  w->ns = tgb_namespace_new(env, "mem:world", 2, 4);
  tgb_claim(w->ns, 1);
  for (uint32_t i = 0; i < STEPS; i++) {
    if (i == 20) {
      tgb_upload(w->ns, (tgb_mark){1, 1, 20});
      tgb_upload(w->ns, (tgb_mark){1, 1, 21});
      assert_int_equal(tgb_claim(w->ns, 1), 2);
    }
    tgb_append(w->ns, w->marks[i] = (tgb_mark){1, i < 20 ? 1 : 2, i});
  }
  tgb_upload(w->ns, (tgb_mark){1, 2, STEPS});
  assert_ok(tgb_pin(w->ns, "old", 3, test_deadline(env), &err), &err);
  assert_ok(tgb_pin(w->ns, "new", 31, test_deadline(env), &err), &err);
  assert_ok(lake_reclaim(w->ns, NULL, test_deadline(env), NULL, &err), &err);
  tgb_upload(w->ns, (tgb_mark){1, 1, 22});
  tgb_unpin(w->ns, "old");
}

static void world_close(world *w) {
  lake_namespace_close(w->ns);
  lake_env_close(w->env);
}

/* The names that are there, one a line; a segment's without the checksum, which covers the namespace's id. */
static bool add_key(void *ctx, const char *key, uint64_t object_bytes) {
  (void)object_bytes;
  char *text = ctx;
  size_t at = strlen(text), bytes = strlen(key);
  if (strncmp(key, "segment/", 8) == 0) bytes = (size_t)(strrchr(key, '-') - key);
  assert_true(at + bytes + 2 < KEYS_BYTES);
  memcpy(text + at, key, bytes);
  memcpy(text + at + bytes, "\n", 2);
  return true;
}

static char *keys_of(world *w) {
  char *text = calloc(1, KEYS_BYTES);
  assert_non_null(text);
  assert_ok(lki_store_list(w->ns->store, "", NULL, add_key, text, test_deadline(w->env), &err), &err);
  return text;
}

typedef enum disturbance { NOTHING, END, REFUSE, LOSE } disturbance;

typedef struct meddler {
  world *w;
  disturbance kind;
  uint64_t at, count;
} meddler;

static hook_verdict meddle(void *ctx, hook_op op, const char *key, uint64_t nth) {
  meddler *m = ctx;
  m->count = nth + 1;
  uint64_t version = 0;
  if (op == HOOK_REMOVE && lki_name_manifest_parse(key, &version)) { /* I7: the boundary first */
    char mark[LKI_NAME_BYTES];
    lki_name_boundary(mark, version / 4);
    assert_ok(lki_store_head(m->w->ns->store, mark, NULL, test_deadline(m->w->env), &err), &err);
  }
  if (m->kind == NOTHING || nth < m->at || (nth > m->at && m->kind != END)) return HOOK_PASS;
  return m->kind == LOSE ? HOOK_LOSE : HOOK_DENY;
}

static lake_status reclaim_through(meddler *m, lake_reclaim_report *report) {
  lake_store *store = hook_open(m->w->env, m->w->ns->store, meddle, m);
  lake_namespace *ns = NULL;
  lake_status s = lake_namespace_open_store(m->w->env, store, test_deadline(m->w->env), &ns, &err);
  /* A commit whose store does not answer any more is pursued to the deadline: here there is none to wait for. */
  if (s == LAKE_OK) s = lake_reclaim(ns, NULL, lake_deadline_after_ms(m->w->env, m->kind == END ? 0 : 60000), report, &err);
  lake_namespace_close(ns);
  lake_store_close(store);
  return s;
}

/* The cost of an undisturbed run, for docs/design/0007, and its end. */
static char *undisturbed(uint64_t *operation_count) {
  world w;
  world_open(&w, test_env());
  meddler m = {&w, NOTHING, 0, 0};
  lake_reclaim_report r;
  assert_ok(reclaim_through(&m, &r), &err);
  assert_int_equal(r.first_live_step, 31);
  assert_int_equal(r.tgb_count, 28 + 1);
  assert_int_equal(tgb_check_all(w.ns, w.marks, STEPS), 31);
  *operation_count = m.count;
  char *keys = keys_of(&w);
  world_close(&w);
  return keys;
}

static void disturb_everywhere(disturbance kind) {
  uint64_t operation_count = 0, failed = 0;
  char *want = undisturbed(&operation_count);
  for (uint64_t at = 0; at < operation_count; at++) {
    world w;
    world_open(&w, test_env());
    meddler m = {&w, kind, at, 0};
    lake_reclaim_report report = {0};
    const tgb_totals before = tgb_count_objects(w.ns, "data/");
    lake_status s = reclaim_through(&m, &report);
    /* Also of a page of which some went, so that whoever calls again sees that it got on. */
    const tgb_totals after = tgb_count_objects(w.ns, "data/");
    assert_int_equal(report.tgb_count, before.count - after.count);
    assert_int_equal(report.tgb_bytes, before.bytes - after.bytes);
    if (kind == LOSE) assert_ok(s, &err);
    if (s != LAKE_OK) {
      failed++;
      assert_true(s == LAKE_DENIED || (kind == END && s == LAKE_UNCERTAIN));
      assert_non_null(strstr(err.text, "injected: denied"));
    }
    const uint64_t first = tgb_check_all(w.ns, w.marks, STEPS);
    assert_true(first == 3 || first == 31);
    meddler again = {&w, NOTHING, 0, 0};
    assert_ok(reclaim_through(&again, NULL), &err);
    assert_int_equal(tgb_check_all(w.ns, w.marks, STEPS), 31);
    char *got = keys_of(&w);
    assert_string_equal(got, want);
    free(got);
    world_close(&w);
  }
  printf("%llu operations, %llu runs failed\n", (unsigned long long)operation_count, (unsigned long long)failed);
  assert_true(kind == LOSE ? failed == 0 : failed > operation_count / 2);
  free(want);
}

static void test_ended(void **state) {
  (void)state;
  disturb_everywhere(END);
}

static void test_refused(void **state) {
  (void)state;
  disturb_everywhere(REFUSE);
}

static void test_replies_lost(void **state) {
  (void)state;
  disturb_everywhere(LOSE);
}

static void test_out_of_memory(void **state) {
  (void)state;
  size_t failed = 0;
  for (size_t at = 1;; at++) {
    sample_memory memory = {0};
    world w;
    world_open(&w, sample_env(&memory));
    memory.alloc_count = 0;
    memory.fail_at = at;
    lake_namespace *ns = NULL;
    lake_status s = lake_namespace_open(w.env, "mem:world", test_deadline(w.env), &ns, &err);
    if (s == LAKE_OK) s = lake_reclaim(ns, NULL, test_deadline(w.env), NULL, &err);
    lake_namespace_close(ns);
    memory.fail_at = 0;
    assert_true(s == LAKE_OK || s == LAKE_NOMEM);
    failed += s != LAKE_OK;
    const uint64_t first = tgb_check_all(w.ns, w.marks, STEPS);
    assert_true(first == 3 || first == 31);
    assert_ok(lake_reclaim(w.ns, NULL, test_deadline(w.env), NULL, &err), &err);
    assert_int_equal(tgb_check_all(w.ns, w.marks, STEPS), 31);
    assert_int_equal(tgb_count_objects(w.ns, "data/").count, STEPS + 1 - 31);
    world_close(&w);
    assert_int_equal(memory.live_count, 0);
    if (s == LAKE_OK) break;
  }
  printf("%zu allocations failed\n", failed);
  assert_true(failed > 50);
}

static void read_through(lake_env *env, lake_consumer *c, const tgb_mark *marks, uint64_t from, uint64_t to) {
  for (uint64_t step = from; step < to; step++) {
    lake_batch batch;
    assert_ok(lake_consumer_next(c, test_deadline(env), &batch, &err), &err);
    assert_int_equal(batch.step, step);
    assert_memory_equal(batch.data, &marks[step], sizeof marks[step]);
    lake_consumer_release(c, &batch);
  }
}

/* A reader whose view's versions, roots and boundary are long gone reads on, as its pin says; one without a pin is told
 * what happened to its step. A writer with such a view commits. */
static void test_old_views(void **state) {
  (void)state;
  static tgb_mark marks[400];
  lake_env *env = test_env();
  lake_namespace *ns = tgb_namespace_new(env, "mem:views", 2, 4);
  tgb_claim(ns, 1);
  for (uint32_t i = 0; i < 60; i++) tgb_append(ns, marks[i] = (tgb_mark){1, 1, i});
  lake_namespace *reader_ns = tgb_namespace_open(env, "mem:views"), *loose_ns = tgb_namespace_open(env, "mem:views");
  lake_namespace *writer_ns = tgb_namespace_open(env, "mem:views");
  tgb_claim(writer_ns, 2);
  char text[LAKE_CURSOR_BYTES];
  lki_cursor cursor = {ns->schema->namespace_id, 10, 0};
  lki_cursor_format(&cursor, text);
  assert_ok(lake_pin_create(ns, "g", "start", text, test_deadline(env), &err), &err);
  lake_consumer_options o = LAKE_CONSUMER_OPTIONS_INIT;
  o.prefetch_steps_max = 1;
  lake_consumer *pinned = NULL, *loose = NULL;
  assert_ok(lake_consumer_open(loose_ns, &o, test_deadline(env), &loose, &err), &err);
  o.cursor = text;
  assert_ok(lake_consumer_open(reader_ns, &o, test_deadline(env), &pinned, &err), &err);
  read_through(env, pinned, marks, 10, 12);
  read_through(env, loose, marks, 0, 2);
  for (uint32_t i = 60; i < 300; i++) tgb_append(ns, marks[i] = (tgb_mark){1, 1, i});
  assert_ok(lake_reclaim(ns, NULL, test_deadline(env), NULL, &err), &err);
  lki_manifest *view = lki_log_view(reader_ns->log);
  char name[LKI_NAME_BYTES];
  lki_name_segment(name, &view->segments[0]); /* the root that the reader's view refers to */
  assert_status(lki_store_head(ns->store, name, NULL, test_deadline(env), &err), LAKE_NOTFOUND, &err);
  lki_manifest_release(view);
  read_through(env, pinned, marks, 12, 300);
  lake_batch batch;
  lake_status s = LAKE_OK;
  for (uint64_t step = 2; s == LAKE_OK; step++) { /* one step may have been on its way already */
    s = lake_consumer_next(loose, test_deadline(env), &batch, &err);
    if (s == LAKE_OK) assert_memory_equal(batch.data, &marks[step], sizeof marks[step]);
    if (s == LAKE_OK) lake_consumer_release(loose, &batch);
  }
  assert_status(s, LAKE_RECLAIMED, &err);
  assert_non_null(strstr(err.text, "rank (d=0,c=0) step "));
  assert_non_null(strstr(err.text, "was reclaimed, the first live"));
  tgb_append(writer_ns, marks[300] = (tgb_mark){2, 1, 0});
  assert_int_equal(tgb_check_all(ns, marks, 301), 10);
  lake_consumer_close(loose);
  lake_consumer_close(pinned);
  lake_namespace_close(writer_ns);
  lake_namespace_close(loose_ns);
  lake_namespace_close(reader_ns);
  lake_namespace_close(ns);
  lake_env_close(env);
}

/* Writers that slept since any version at all: what they would seal from is gone, and they commit all the same. */
static void test_old_bases(void **state) {
  (void)state;
  enum { SLEEPERS = 24 };
  static tgb_mark marks[400];
  lake_env *env = test_env();
  lake_namespace *ns = tgb_namespace_new(env, "mem:bases", 2, 4), *sleepers[SLEEPERS];
  tgb_claim(ns, 1);
  for (uint32_t i = 0; i < 60; i++) tgb_append(ns, marks[i] = (tgb_mark){1, 1, i});
  for (uint32_t i = 0; i < SLEEPERS; i++) {
    sleepers[i] = tgb_namespace_open(env, "mem:bases");
    assert_ok(lki_log_refresh(sleepers[i]->log, test_deadline(env), NULL, &err), &err);
    tgb_append(ns, marks[60 + i] = (tgb_mark){1, 1, 60 + i});
  }
  for (uint32_t i = 60 + SLEEPERS; i < 300; i++) tgb_append(ns, marks[i] = (tgb_mark){1, 1, i});
  lake_reclaim_options o = LAKE_RECLAIM_OPTIONS_INIT;
  o.before_step = 290;
  assert_ok(lake_reclaim(ns, &o, test_deadline(env), NULL, &err), &err);
  for (uint32_t i = 0; i < SLEEPERS; i++) {
    assert_int_equal(tgb_claim(sleepers[i], 100 + i), 1);
    lake_namespace_close(sleepers[i]);
  }
  assert_int_equal(tgb_check_all(ns, marks, 300), 290);
  lake_namespace_close(ns);
  lake_env_close(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ended),         cmocka_unit_test(test_refused),   cmocka_unit_test(test_replies_lost),
      cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_old_views),
      cmocka_unit_test(test_old_bases),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
