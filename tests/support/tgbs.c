#include "support/tgbs.h"
#include "base/buffer.h"
#include "base/env.h"
#include "client/steps.h"
#include "support/stream.h"
#include "tgb/tgb.h"
#include <stdio.h>
#include <string.h>

lake_namespace *tgb_namespace_new(lake_env *env, const char *url, uint32_t tail_max, uint32_t version_block) {
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.tail_max = tail_max;
  options.version_block = version_block;
  lake_namespace *ns = NULL;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lake_namespace_create(env, url, &options, test_deadline(env), &ns, &err), &err);
  return ns;
}

lake_namespace *tgb_namespace_open(lake_env *env, const char *url) {
  lake_namespace *ns = NULL;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lake_namespace_open(env, url, test_deadline(env), &ns, &err), &err);
  return ns;
}

static void id_of(uint32_t producer, char id[16]) { snprintf(id, 16, "p%u", producer); }

uint64_t tgb_claim(lake_namespace *ns, uint32_t producer) {
  char id[16];
  id_of(producer, id);
  lake_error err = LAKE_ERROR_INIT;
  lki_change change = {.kind = LKI_CHANGE_CLAIM, .producer_id = id, .owner = "host:1"};
  lki_commit_result result;
  assert_ok(lki_log_commit(ns->log, &change, id, test_deadline(ns->env), &result, &err), &err);
  const uint64_t epoch = result.manifest->producers[lki_manifest_find_producer(result.manifest, id)].epoch;
  lki_manifest_release(result.manifest);
  return epoch;
}

/* Encodes the TGB of a mark; write: and puts it. */
static lki_descriptor make(lake_namespace *ns, tgb_mark mark, bool write) {
  char id[16];
  id_of(mark.producer, id);
  lake_error err = LAKE_ERROR_INIT;
  lake_bytes slice = {&mark, sizeof mark};
  lki_descriptor d;
  lki_arena arena;
  lake_buffer object;
  lki_arena_init(&arena, ns->env);
  lki_buffer_init(&object, ns->env, 1 << 20);
  assert_ok(lki_tgb_encode(ns->env, &ns->schema->namespace_id, id, mark.epoch, mark.seq, &slice, 1, false, &arena, &object,
                           &d, &err), &err);
  assert_int_equal(d.layout, LKI_LAYOUT_UNIFORM); /* so nothing of the descriptor lies in the arena */
  if (write)
    assert_ok(lki_tgb_write(ns->store, id, mark.epoch, mark.seq, lki_buffer_view(&object), test_deadline(ns->env), &err),
              &err);
  lki_buffer_free(&object);
  lki_arena_free(&arena);
  return d;
}

void tgb_upload(lake_namespace *ns, tgb_mark mark) { (void)make(ns, mark, true); }

lake_status tgb_commit(lake_namespace *ns, tgb_mark mark, uint32_t count, lake_error *err) {
  enum { COUNT_MAX = 64 };
  lki_descriptor descriptors[COUNT_MAX];
  assert_true(count <= COUNT_MAX);
  char id[16];
  id_of(mark.producer, id);
  for (uint32_t i = 0; i < count; i++)
    descriptors[i] = make(ns, (tgb_mark){mark.producer, mark.epoch, mark.seq + i}, false);
  lki_change change = {.kind = LKI_CHANGE_APPEND, .producer_id = id, .epoch = mark.epoch, .first_seq = mark.seq,
                       .descriptor_count = count, .descriptors = descriptors, .offset = mark.seq + count};
  lki_commit_result result;
  lake_status s = lki_log_commit(ns->log, &change, id, test_deadline(ns->env), &result, err);
  lki_manifest_release(result.manifest);
  return s;
}

void tgb_append(lake_namespace *ns, tgb_mark mark) {
  lake_error err = LAKE_ERROR_INIT;
  tgb_upload(ns, mark);
  assert_ok(tgb_commit(ns, mark, 1, &err), &err);
}

static lake_status read_step(lake_namespace *ns, lki_steps *steps, lki_manifest *view, uint64_t step, tgb_mark *mark,
                             lake_error *err) {
  lki_step_ref ref = {0};
  lki_slice slice = {0};
  lake_status s = lki_steps_find(steps, view, step, test_deadline(ns->env), &ref, err);
  if (s == LAKE_OK) {
    lki_tgb_ref tgb = {&ns->schema->namespace_id, ref.producer_id, ref.descriptor};
    s = lki_tgb_read_slice(ns->store, &tgb, 0, test_deadline(ns->env), &slice, err);
  }
  if (s == LAKE_OK) {
    assert_int_equal(slice.view.bytes, sizeof *mark);
    memcpy(mark, slice.view.data, sizeof *mark);
  }
  lki_slice_free(&slice);
  lki_step_ref_release(&ref);
  return s;
}

lake_status tgb_read(lake_namespace *ns, uint64_t step, tgb_mark *mark, lake_error *err) {
  lki_steps *steps = NULL;
  assert_ok(lki_steps_open(ns->env, ns->log, &steps, err), err);
  assert_ok(lki_log_catch_up(ns->log, test_deadline(ns->env), err), err);
  lki_manifest *view = lki_log_view(ns->log);
  lake_status s = read_step(ns, steps, view, step, mark, err);
  lki_manifest_release(view);
  lki_steps_close(steps);
  return s;
}

uint64_t tgb_check_all(lake_namespace *ns, const tgb_mark *marks, uint64_t next_step) {
  lake_error err = LAKE_ERROR_INIT;
  lki_steps *steps = NULL;
  assert_ok(lki_steps_open(ns->env, ns->log, &steps, &err), &err);
  assert_ok(lki_log_catch_up(ns->log, test_deadline(ns->env), &err), &err);
  lki_manifest *view = lki_log_view(ns->log);
  assert_int_equal(view->next_step, next_step);
  const uint64_t first = view->first_live_step;
  for (uint64_t step = first; step < next_step; step++) {
    tgb_mark mark = {0};
    assert_ok(read_step(ns, steps, view, step, &mark, &err), &err);
    assert_int_equal(mark.producer, marks[step].producer);
    assert_int_equal(mark.epoch, marks[step].epoch);
    assert_int_equal(mark.seq, marks[step].seq);
  }
  lki_manifest_release(view);
  lki_steps_close(steps);
  return first;
}

lake_status tgb_pin(lake_namespace *ns, const char *name, uint64_t step, lake_deadline deadline, lake_error *err) {
  char text[LAKE_CURSOR_BYTES];
  lki_cursor cursor = {ns->schema->namespace_id, step, 0};
  lki_cursor_format(&cursor, text);
  return lake_pin_create(ns, "g", name, text, deadline, err);
}

void tgb_unpin(lake_namespace *ns, const char *name) {
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lake_pin_remove(ns, "g", name, test_deadline(ns->env), &err), &err);
}

static bool add(void *ctx, const char *key, uint64_t object_bytes) {
  (void)key;
  tgb_totals *t = ctx;
  t->count++;
  t->bytes += object_bytes;
  return true;
}

tgb_totals tgb_count_objects(lake_namespace *ns, const char *prefix) {
  tgb_totals t = {0, 0};
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lki_store_list(ns->store, prefix, NULL, add, &t, test_deadline(ns->env), &err), &err);
  return t;
}
