/* The consumer client: open, next, release, cursor, close. One caller thread in next; I/O threads behind it around one
 * lock. Steps are delivered in order and each exactly once per consumer; a slot is handed to the caller whole, with its
 * part of the budget, and comes back by release. */
#include "base/planted.h"
#include "client/consumer.h"
#include "format/names.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static lake_status check_options(const lake_namespace *ns, lake_consumer_options *o, lake_error *err) {
  const lake_mesh have = ns->schema->mesh;
  if (o->mesh.d_count == 0 && o->mesh.c_count == 0) o->mesh = have;
  if (o->mesh.d_count != have.d_count || o->mesh.c_count != have.c_count)
    return lki_fail(err, LAKE_INVALID,
                    "mesh %ux%u (DxC) does not fit namespace %s, whose mesh is %ux%u; run the job with %u data-parallel "
                    "and %u context-parallel ranks",
                    o->mesh.d_count, o->mesh.c_count, lki_store_url(ns->store), have.d_count, have.c_count,
                    have.d_count, have.c_count);
  if (o->coords.d >= have.d_count || o->coords.c >= have.c_count)
    return lki_fail(err, LAKE_INVALID, "coordinates (%u,%u) lie outside the mesh %ux%u (DxC) of %s", o->coords.d,
                    o->coords.c, have.d_count, have.c_count, lki_store_url(ns->store));
  if (o->prefetch_bytes_max == 0) o->prefetch_bytes_max = (uint64_t)256 << 20;
  if (o->prefetch_steps_max == 0) o->prefetch_steps_max = 16;
  if (o->io_threads == 0) o->io_threads = 4;
  if (o->io_threads > o->prefetch_steps_max) o->io_threads = o->prefetch_steps_max;
  if (o->io_threads > LKI_IO_THREADS_MAX || o->prefetch_steps_max > LKI_PREFETCH_STEPS_MAX_MAX)
    return lki_fail(err, LAKE_INVALID, "consumer: at most %d I/O threads and %u prefetched steps", LKI_IO_THREADS_MAX,
                    LKI_PREFETCH_STEPS_MAX_MAX);
  return LAKE_OK;
}

static void free_consumer(lake_consumer *c) {
  lake_env *env = c->env;
  if (c->synced.slots != NULL)
    for (uint32_t i = 0; i < c->window; i++) lki_slice_free(&c->synced.slots[i].slice);
  while (c->synced.held != NULL) {
    lki_held *held = c->synced.held;
    c->synced.held = held->next;
    lki_slice_free(&held->slice);
    lki_free(env, held);
  }
  lki_manifest_release(c->synced.view);
  lki_steps_close(c->steps);
  lki_free(env, c->synced.slots);
  lki_cond_close(env, c->synced.work);
  lki_cond_close(env, c->synced.progress);
  lki_mutex_close(env, c->synced.lock);
  lki_free(env, c->threads);
  lki_free(env, c->rank_label);
  lki_free(env, c);
}

static lake_consumer *new_consumer(lake_namespace *ns, const lake_consumer_options *o) {
  lake_env *env = ns->env;
  lake_consumer *c = lki_new(env, sizeof *c);
  if (c == NULL) return NULL;
  c->env = env;
  c->ns = ns;
  c->slice = LKI_PLANTED(WRONG_SLICE) ? o->coords.c : o->coords.d * ns->schema->mesh.c_count + o->coords.c;
  c->rows_per_step = (uint64_t)ns->schema->mesh.d_count * ns->schema->rows_per_slice;
  c->prefetch_bytes_max = o->prefetch_bytes_max;
  c->window = o->prefetch_steps_max;
  char label[64];
  snprintf(label, sizeof label, "rank (d=%u,c=%u)", o->coords.d, o->coords.c);
  c->rank_label = lki_strdup(env, o->rank_label != NULL ? o->rank_label : label);
  c->threads = lki_new(env, sizeof(lki_thread *) * o->io_threads);
  c->synced.slots = lki_new(env, sizeof *c->synced.slots * c->window);
  c->synced.lock = lki_mutex_open(env);
  c->synced.work = lki_cond_open(env);
  c->synced.progress = lki_cond_open(env);
  c->synced.poll_ns = LKI_POLL_NS_MIN;
  if (c->rank_label == NULL || c->threads == NULL || c->synced.slots == NULL || c->synced.lock == NULL ||
      c->synced.work == NULL || c->synced.progress == NULL) {
    free_consumer(c);
    return NULL;
  }
  return c;
}

/* Reads the newest manifest and finds the first step. */
static lake_status position(lake_consumer *c, const char *cursor_text, lake_deadline deadline, lake_error *err) {
  lake_status s = lki_steps_open(c->env, c->ns->log, &c->steps, err);
  if (s == LAKE_OK) s = lki_log_catch_up(c->ns->log, deadline, err); /* an old view may say that the reclaimed lives */
  if (s != LAKE_OK) return s;
  lki_manifest *view = c->synced.view = lki_log_view(c->ns->log);
  uint64_t step = view->first_live_step, row = 0;
  if (cursor_text != NULL) {
    s = lake_cursor_parse(c->ns, cursor_text, &row, &step, err);
    if (s != LAKE_OK) return s;
    if (row % c->rows_per_step != 0)
      return lki_fail(err, LAKE_INVALID,
                      "cursor stands at row %" PRIu64 ", in the middle of a step of %" PRIu64
                      " rows; resume with the mesh that wrote it",
                      row, c->rows_per_step);
    if (step > view->next_step)
      return lki_fail(err, LAKE_INVALID,
                      "cursor stands at step %" PRIu64 " but %s holds only %" PRIu64
                      "; it was made from another copy of the namespace",
                      step, lki_store_url(c->ns->store), view->next_step);
    if (step < view->first_live_step)
      return lki_fail(err, LAKE_RECLAIMED,
                      "cursor stands at step %" PRIu64 ", which was reclaimed; the first live one is %" PRIu64
                      ", resume from a checkpoint that is still pinned",
                      step, view->first_live_step);
  }
  c->synced.deliver = c->synced.fetch = step;
  return LAKE_OK;
}

lake_status lake_consumer_open(lake_namespace *ns, const lake_consumer_options *options, lake_deadline deadline,
                               lake_consumer **out, lake_error *err) {
  lake_consumer_options o;
  lake_status s = lki_check_process(ns->env, "the namespace", err);
  if (s == LAKE_OK) s = lki_options_copy(&o, sizeof o, options, "lake_consumer_options", err);
  if (s == LAKE_OK) s = check_options(ns, &o, err);
  if (s != LAKE_OK) return s;
  lake_consumer *c = new_consumer(ns, &o);
  if (c == NULL) return lki_fail(err, LAKE_NOMEM, "consumer: out of memory");
  s = position(c, o.cursor, deadline, err);
  for (uint32_t i = 0; s == LAKE_OK && i < o.io_threads; i++) {
    c->threads[i] = lki_thread_start(c->env, "lake-io", lki_consumer_io_main, c);
    if (c->threads[i] != NULL)
      c->thread_count++;
    else if (i == 0)
      s = lki_fail(err, LAKE_NOMEM, "consumer: threads cannot be started; check ulimit -u and memory");
    else
      break; /* fewer threads are slower, not wrong */
  }
  if (s == LAKE_OK)
    *out = c;
  else
    lake_consumer_close(c);
  return s;
}

void lake_consumer_close(lake_consumer *c) {
  if (c == NULL || lki_check_process(c->env, "", NULL) != LAKE_OK) return; /* a forked child has no threads to end */
  lki_lock(c->env, c->synced.lock);
  c->synced.closing = true;
  lki_broadcast(c->env, c->synced.work);
  lki_unlock(c->env, c->synced.lock);
  for (uint32_t i = 0; i < c->thread_count; i++) lki_thread_join(c->env, c->threads[i]);
  free_consumer(c);
}

/* What the caller waits for, as far as it is known: for the deadline's error. */
static lake_status timed_out_locked(lake_consumer *c, const lki_slot *slot, lake_error *err) {
  const uint64_t step = c->synced.deliver;
  if (slot->stage == LKI_SLOT_FETCHING && slot->step == step)
    return lki_fail(err, LAKE_TIMEOUT, "%s: step %" PRIu64 " of %s is committed but its slice in %s is not here yet%s%s; "
                    "call again, or look at the store", c->rank_label, step, lki_store_url(c->ns->store),
                    slot->name[0] != 0 ? slot->name : "its object", slot->error.text[0] != 0 ? "; cause: " : "", slot->error.text);
  const lake_error *trouble = &c->synced.trouble;
  return lki_fail(err, LAKE_TIMEOUT, "%s: step %" PRIu64 " of %s is not committed yet (version %" PRIu64 " has %" PRIu64
                  " steps)%s%s; call again, or look at the producers", c->rank_label, step,
                  lki_store_url(c->ns->store), c->synced.view->version, c->synced.view->next_step,
                  trouble->status != LAKE_OK ? "; last poll: " : "", trouble->status != LAKE_OK ? trouble->text : "");
}

/* Waits until the next slot is ready. Lock held. */
static lake_status await_locked(lake_consumer *c, lake_deadline deadline, lake_error *err) {
  for (;;) {
    lki_slot *slot = &c->synced.slots[c->synced.deliver % c->window];
    const bool taken = c->synced.fetch > c->synced.deliver;
    if (taken && slot->stage == LKI_SLOT_READY) return LAKE_OK;
    if (taken && slot->stage == LKI_SLOT_FAILED) {
      lki_error_copy(err, &slot->error);
      lki_error_prefix(err, "%s step %" PRIu64, c->rank_label, c->synced.deliver);
      slot->reported = true;
      return slot->error.status;
    }
    if (c->synced.view->sealed && c->synced.deliver + LKI_PLANTED(END_ONE_EARLY) >= c->synced.view->next_step)
      return lki_fail(err, LAKE_END, "the stream is sealed at %" PRIu64 " steps and read to its end",
                      c->synced.view->next_step);
    /* Nothing is left to deliver and the way on is barred for good: waiting would only hide it. */
    const lake_status barred = c->synced.trouble.status;
    if (!taken && (barred == LAKE_CORRUPT || barred == LAKE_UNSUPPORTED || barred == LAKE_DENIED)) {
      lki_error_copy(err, &c->synced.trouble);
      lki_error_prefix(err, "%s step %" PRIu64, c->rank_label, c->synced.deliver);
      return barred;
    }
    if (!lki_wait(c->env, c->synced.progress, c->synced.lock, deadline.at_ns) &&
        lki_deadline_passed(c->env, deadline) && slot->stage != LKI_SLOT_READY)
      return timed_out_locked(c, slot, err);
  }
}

/* A step whose failure the caller has seen is tried once more, in the caller's own thread: the I/O threads may all be
 * waiting for room behind it. Lock held. */
static void retry_failed_locked(lake_consumer *c, lake_deadline deadline) {
  lki_slot *slot = &c->synced.slots[c->synced.deliver % c->window];
  if (c->synced.fetch <= c->synced.deliver || slot->stage != LKI_SLOT_FAILED || !slot->reported) return;
  c->synced.used_bytes -= slot->reserved_bytes;
  *slot = (lki_slot){.stage = LKI_SLOT_FETCHING, .step = c->synced.deliver};
  (void)lki_consumer_fetch_locked(c, slot, deadline);
  if (slot->stage == LKI_SLOT_FETCHING) slot->stage = LKI_SLOT_FAILED; /* no thread will go on with it */
}

/* Moves the ready slot's slice to the caller. Lock held. */
static lake_status hand_over_locked(lake_consumer *c, lki_held *held, lake_batch *batch, lake_error *err) {
  lki_slot *slot = &c->synced.slots[c->synced.deliver % c->window];
  const lki_schema *schema = c->ns->schema;
  uint32_t tensor_count = 0;
  if (schema->tensor_count > 0) {
    lake_status s = lki_schema_slice_tensors(schema, slot->slice.view.data, slot->slice.view.bytes, held->tensors,
                                             schema->tensor_count, &tensor_count, err);
    if (s != LAKE_OK) return s;
  }
  held->slice = slot->slice;
  held->reserved_bytes = slot->reserved_bytes;
  held->next = c->synced.held;
  held->previous = NULL;
  if (held->next != NULL) held->next->previous = held;
  c->synced.held = held;
  batch->step = slot->step;
  batch->data = held->slice.view.data;
  batch->bytes = held->slice.view.bytes;
  batch->tensor_count = tensor_count;
  batch->tensors = tensor_count > 0 ? held->tensors : NULL;
  batch->handle = held;
  c->synced.stats.step_count++;
  c->synced.stats.delivered_bytes += held->slice.view.bytes;
  c->synced.stats.stored_bytes += held->slice.stored_bytes;
  *slot = (lki_slot){.stage = LKI_SLOT_EMPTY};
  c->synced.deliver++;
  lki_broadcast(c->env, c->synced.work);
  return LAKE_OK;
}

lake_status lake_consumer_next(lake_consumer *c, lake_deadline deadline, lake_batch *batch, lake_error *err) {
  const uint64_t begin_ns = lki_now_ns(c->env);
  memset(batch, 0, sizeof *batch);
  lake_status s = lki_check_process(c->env, "the consumer", err);
  if (s != LAKE_OK) return s;
  lki_held *held = lki_new(c->env, sizeof *held + sizeof(lake_tensor) * c->ns->schema->tensor_count);
  if (held == NULL) return lki_fail(err, LAKE_NOMEM, "%s: out of memory for a batch", c->rank_label);
  lki_lock(c->env, c->synced.lock);
  retry_failed_locked(c, deadline);
  s = await_locked(c, deadline, err);
  if (s == LAKE_OK) s = hand_over_locked(c, held, batch, err);
  c->synced.stats.wait_ns += lki_now_ns(c->env) - begin_ns;
  lki_unlock(c->env, c->synced.lock);
  if (s != LAKE_OK) lki_free(c->env, held);
  return s;
}

void lake_consumer_release(lake_consumer *c, lake_batch *batch) {
  lki_held *held = batch->handle;
  memset(batch, 0, sizeof *batch);
  if (held == NULL || lki_check_process(c->env, "", NULL) != LAKE_OK) return;
  lki_lock(c->env, c->synced.lock);
  if (held->previous != NULL)
    held->previous->next = held->next;
  else
    c->synced.held = held->next;
  if (held->next != NULL) held->next->previous = held->previous;
  c->synced.used_bytes -= held->reserved_bytes;
  lki_broadcast(c->env, c->synced.work);
  lki_unlock(c->env, c->synced.lock);
  lki_slice_free(&held->slice);
  lki_free(c->env, held);
}

void lake_consumer_cursor(lake_consumer *c, char text[LAKE_CURSOR_BYTES]) {
  text[0] = 0;
  if (lki_check_process(c->env, "", NULL) != LAKE_OK) return;
  lki_lock(c->env, c->synced.lock);
  lki_cursor cursor = {c->ns->schema->namespace_id, c->synced.deliver * c->rows_per_step, 0};
  if (LKI_PLANTED(CURSOR_AT_PREFETCH)) cursor.row = c->synced.fetch * c->rows_per_step;
  if (LKI_PLANTED(CURSOR_ONE_BACK) && cursor.row > 0) cursor.row -= c->rows_per_step;
  lki_unlock(c->env, c->synced.lock);
  lki_cursor_format(&cursor, text);
}

void lake_consumer_stats_get(lake_consumer *c, lake_consumer_stats *stats) {
  memset(stats, 0, sizeof *stats);
  if (lki_check_process(c->env, "", NULL) != LAKE_OK) return;
  lki_lock(c->env, c->synced.lock);
  *stats = c->synced.stats;
  lki_unlock(c->env, c->synced.lock);
}
