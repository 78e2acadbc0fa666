/* The consumer's I/O threads: keep the window in front of the caller filled, within the byte budget, and look for new
 * manifest versions only when the window runs past the one that is known. The step that the caller needs next is
 * always admitted, however small the budget. */
#include "base/planted.h"
#include "client/consumer.h"
#include "format/names.h"
#include <inttypes.h>

#define VIEW_TRIES 3

static bool is_transient(lake_status s) {
  return s == LAKE_UNAVAILABLE || s == LAKE_UNCERTAIN || s == LAKE_TIMEOUT || s == LAKE_AGAIN || s == LAKE_NOMEM;
}

/* Reads one newer version, if there is one. Called and returns with the lock held. */
static void poll_locked(lake_consumer *c) {
  c->synced.polling = true;
  const uint64_t known = c->synced.view->version;
  lki_unlock(c->env, c->synced.lock);
  lake_error err = LAKE_ERROR_INIT;
  lake_deadline deadline = {lki_after_ns(c->env, LKI_STORE_CALL_NS)};
  lki_manifest *view = lki_log_view(c->ns->log); /* another client of this handle may have read on */
  lake_status s = LAKE_OK;
  if (view->version == known) {
    s = lki_log_refresh(c->ns->log, deadline, NULL, &err);
    lki_manifest_release(view);
    view = lki_log_view(c->ns->log);
  }
  lki_lock(c->env, c->synced.lock);
  c->synced.polling = false;
  lki_manifest *old = view;
  if (view->version > known) {
    old = c->synced.view;
    c->synced.view = view;
    c->synced.stats.refresh_count++;
    /* Follow the pace of the commits: half the wait that was needed, so that it is found again if it quickens. */
    c->synced.poll_ns = c->synced.poll_ns / 2 > LKI_POLL_NS_MIN ? c->synced.poll_ns / 2 : LKI_POLL_NS_MIN;
  } else if (c->synced.poll_ns < LKI_POLL_NS_MAX) {
    c->synced.poll_ns += c->synced.poll_ns / 4;
  }
  lki_manifest_release(old);
  if (s == LAKE_OK)
    c->synced.trouble.status = LAKE_OK;
  else
    c->synced.trouble = err;
  const double spread = 0.75 + 0.5 * lki_random_unit(c->env); /* ranks must not poll in step */
  c->synced.poll_at_ns = lki_after_ns(c->env, (uint64_t)((double)c->synced.poll_ns * spread));
  lki_broadcast(c->env, c->synced.work);
  lki_broadcast(c->env, c->synced.progress);
}

/* Waits for room in the budget. False: closing. Lock held. */
static bool admit_locked(lake_consumer *c, lki_slot *slot, uint64_t bytes) {
  while (!c->synced.closing && c->synced.used_bytes > 0 &&
         c->synced.used_bytes + bytes > c->prefetch_bytes_max && slot->step != c->synced.deliver)
    lki_wait(c->env, c->synced.work, c->synced.lock, LKI_NEVER); /* ended by next, release or close */
  if (c->synced.closing) return false;
  slot->reserved_bytes = bytes;
  c->synced.used_bytes += bytes;
  return true;
}

static bool is_quarantined(const lki_manifest *manifest, uint64_t step) {
  for (uint32_t i = 0; i < manifest->quarantine_count; i++)
    if (manifest->quarantine[i] == step) return true;
  return false;
}

/* Bytes that the slice will take: its frame as stored, and the slice itself if that is larger once decompressed. */
static uint64_t slice_cost(const lake_consumer *c, const lki_descriptor *d) {
  uint64_t offset = 0, frame_bytes = 0;
  if (d->layout == LKI_LAYOUT_FOOTER || lki_frame_locate(d, c->slice, &offset, &frame_bytes, NULL) != LAKE_OK)
    frame_bytes = d->object_bytes / d->slice_count;
  const uint64_t slice_bytes = c->ns->schema->slice_bytes;
  return frame_bytes > slice_bytes ? frame_bytes : slice_bytes;
}

/* A read failed in a way that reclaim explains, if it has been here since the view was read: the step is gone, or its
 * segment was replaced. Then the newest version tells (RECLAIMED), or shows another way (AGAIN); else the failure is
 * what it seems. Called and returns with the lock held, which it drops meanwhile. */
static lake_status look_again_locked(lake_consumer *c, uint64_t step, uint64_t view_version, lake_deadline deadline,
                                     lake_error *err) {
  lki_unlock(c->env, c->synced.lock);
  lake_error local = LAKE_ERROR_INIT;
  lake_status s = lki_log_catch_up(c->ns->log, deadline, &local);
  lki_manifest *view = lki_log_view(c->ns->log);
  lki_lock(c->env, c->synced.lock);
  if (s != LAKE_OK) { /* not known: what may only be reclaimed is not called CORRUPT */
    lki_error_copy(err, &local);
    lki_manifest_release(view);
    return s;
  }
  s = LAKE_CORRUPT;
  if (step < view->first_live_step)
    s = lki_fail(err, LAKE_RECLAIMED, "it was reclaimed, the first live step is %" PRIu64 "; resume from a live pin",
                 view->first_live_step);
  else if (view->version > view_version)
    s = LAKE_AGAIN;
  lki_manifest *old = view;
  if (view->version > c->synced.view->version) {
    old = c->synced.view;
    c->synced.view = view;
    c->synced.stats.refresh_count++;
  }
  lki_manifest_release(old);
  return s;
}

/* Finds the step's TGB (*found) and reads this rank's slice of it, by a view. Called and returns with the lock held. */
static lake_status read_by_view_locked(lake_consumer *c, lki_slot *slot, lki_manifest *view, lake_deadline deadline,
                                       bool *found, lake_error *err) {
  lki_unlock(c->env, c->synced.lock);
  lki_step_ref ref = {0};
  lki_slice slice = {0};
  lake_status s = is_quarantined(view, slot->step)
                      ? lki_fail(err, LAKE_CORRUPT, "step %" PRIu64 " is quarantined; start after it", slot->step)
                      : lki_steps_find(c->steps, view, slot->step, deadline, &ref, err);
  *found = s == LAKE_OK;
  const uint64_t cost = s == LAKE_OK ? slice_cost(c, ref.descriptor) : 0;
  lki_lock(c->env, c->synced.lock);
  if (s == LAKE_OK) lki_name_tgb(slot->name, ref.producer_id, ref.descriptor->epoch, ref.descriptor->seq);
  if (s == LAKE_OK && slot->reserved_bytes == 0 && !admit_locked(c, slot, cost)) s = LAKE_CANCELED;
  lki_unlock(c->env, c->synced.lock);
  if (s == LAKE_OK) {
    lki_tgb_ref tgb = {&c->ns->schema->namespace_id, ref.producer_id, ref.descriptor};
    if (ref.descriptor->slice_count <= c->slice)
      s = lki_fail(err, LAKE_CORRUPT, "step %" PRIu64 " has %u slices, slice %u is asked for", slot->step,
                   ref.descriptor->slice_count, c->slice);
    else
      s = lki_tgb_read_slice(c->ns->store, &tgb, c->slice, deadline, &slice, err);
    const uint64_t want = c->ns->schema->slice_bytes;
    if (s == LAKE_OK && want > 0 && slice.view.bytes != want) {
      s = lki_fail(err, LAKE_CORRUPT, "step %" PRIu64 ": the slice has %zu bytes, the schema says %" PRIu64,
                   slot->step, slice.view.bytes, want);
      lki_slice_free(&slice);
    }
  }
  lki_step_ref_release(&ref);
  lki_lock(c->env, c->synced.lock);
  if (s == LAKE_OK) {
    slot->slice = slice;
    /* What a compressed slice takes is known only now. */
    const uint64_t taken = slice.view.bytes > slice.stored_bytes ? slice.view.bytes : slice.stored_bytes;
    c->synced.used_bytes += taken - slot->reserved_bytes;
    slot->reserved_bytes = taken;
  }
  return s;
}

/* Reads this rank's slice of the slot's step. Called and returns with the lock held. */
static lake_status read_locked(lake_consumer *c, lki_slot *slot, lake_deadline deadline, lake_error *err) {
  for (int i = 0;; i++) { /* a few views at most: versions that come on cannot make a damaged object whole */
    lki_manifest *view = lki_manifest_retain(c->synced.view);
    const uint64_t view_version = view->version;
    bool found = false;
    lake_status s = read_by_view_locked(c, slot, view, deadline, &found, err);
    if (s == LAKE_CORRUPT && !is_quarantined(view, slot->step))
      s = look_again_locked(c, slot->step, view_version, deadline, err);
    lki_manifest_release(view);
    if (s != LAKE_AGAIN) return s;
    if (found || i == VIEW_TRIES) return LAKE_CORRUPT;
  }
}

lake_status lki_consumer_fetch_locked(lake_consumer *c, lki_slot *slot, lake_deadline deadline) {
  lake_error err = LAKE_ERROR_INIT;
  lake_status s = read_locked(c, slot, deadline, &err);
  slot->error = err;
  slot->error.status = s;
  if (s == LAKE_OK)
    slot->stage = LKI_SLOT_READY;
  else if (!is_transient(s) || c->synced.closing)
    slot->stage = LKI_SLOT_FAILED;
  lki_broadcast(c->env, c->synced.progress);
  return s;
}

/* Fills a slot, retrying what may pass. Lock held on entry and return. */
static void fill_locked(lake_consumer *c, lki_slot *slot) {
  uint64_t backoff_ns = 50u * 1000 * 1000;
  for (;;) { /* ended by success, a final failure or close */
    lake_deadline deadline = {lki_after_ns(c->env, LKI_STORE_CALL_NS)};
    (void)lki_consumer_fetch_locked(c, slot, deadline);
    if (slot->stage != LKI_SLOT_FETCHING) return;
    if (LKI_PLANTED(RETRY_MOVES_ON) && slot->step + 1 < c->synced.view->next_step) slot->step++;
    const uint64_t until_ns =
        lki_after_ns(c->env, backoff_ns / 2 + (uint64_t)((double)(backoff_ns / 2) * lki_random_unit(c->env)));
    if (backoff_ns < (uint64_t)5 * 1000 * 1000 * 1000) backoff_ns *= 2;
    while (!c->synced.closing && lki_wait(c->env, c->synced.work, c->synced.lock, until_ns)) {
    }
  }
}

void lki_consumer_io_main(void *arg) {
  lake_consumer *c = arg;
  lki_lock(c->env, c->synced.lock);
  while (!c->synced.closing) {
    const uint64_t step = c->synced.fetch;
    uint64_t wake_ns = LKI_NEVER;
    if (step < c->synced.deliver + c->window + LKI_PLANTED(RING_OVERRUN)) {
      if (step < c->synced.view->next_step) {
        lki_slot *slot = &c->synced.slots[step % c->window];
        *slot = (lki_slot){.stage = LKI_SLOT_FETCHING, .step = step};
        c->synced.fetch++;
        fill_locked(c, slot);
        continue;
      }
      if (!c->synced.view->sealed && !c->synced.polling) {
        if (lki_now_ns(c->env) >= c->synced.poll_at_ns) {
          poll_locked(c);
          continue;
        }
        wake_ns = c->synced.poll_at_ns;
      }
    }
    lki_wait(c->env, c->synced.work, c->synced.lock, wake_ns); /* ended by next, release, a poll, close or the time */
  }
  lki_unlock(c->env, c->synced.lock);
}
