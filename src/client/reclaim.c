/* Reclaim (paper section 5.3, docs/design/0007): find the lowest pin, commit it as the first live step, delete what
 * that leaves unreachable. The order is the point: a line above every pin to come stands durably before the pins are
 * listed for the last time, the step is committed only when no pin stands below it, and nothing is deleted that the
 * committed manifest does not rule out. It may be ended anywhere and run again, by any number at once. No decision
 * reads a clock. */
#include "base/env.h"
#include "client/line.h"
#include "client/pin.h"
#include "client/sweep.h"
#include <inttypes.h>
#include <lakestream/reclaim.h>
#include <string.h>

#define TRIM_TRIES 4
#define LINE_VERSIONS 64u /* that may pass between a line and its commit; four times as many at each further try */
#define LIVE_TRIES 8

typedef struct pin_tally {
  uint64_t first_live_step;
  uint64_t count, void_count;
  uint64_t lowest; /* UINT64_MAX: none */
} pin_tally;

static lake_status count_pin(void *ctx, const char *key, const lki_pin *pin, lake_error *err) {
  (void)key, (void)err;
  pin_tally *t = ctx;
  /* A pin below the first live step was refused to its creator, who crashed before it could take it back. */
  if (pin->step < t->first_live_step) {
    t->void_count++;
    return LAKE_OK;
  }
  t->count++;
  if (pin->step < t->lowest) t->lowest = pin->step;
  return LAKE_OK;
}

static lake_status tally_pins(lake_namespace *ns, uint64_t first_live_step, lake_deadline deadline, pin_tally *tally,
                              lake_error *err) {
  *tally = (pin_tally){.first_live_step = first_live_step, .lowest = UINT64_MAX};
  return lki_pin_visit(ns, count_pin, tally, deadline, err);
}

/* The step to trim to: never above a pin, never beyond the end; without a pin only what the caller named. */
static uint64_t target_step(const pin_tally *pins, uint64_t before_step, const lki_manifest *view) {
  uint64_t step = pins->lowest;
  if (before_step > 0 && before_step < step) step = before_step;
  if (step == UINT64_MAX && before_step == 0) step = 0;
  return step < view->next_step ? step : view->next_step;
}

static lake_status commit_trim(lake_namespace *ns, const lki_line *line, lake_deadline deadline, lake_error *err) {
  char owner[LKI_OWNER_BYTES_MAX];
  lki_owner_text(owner, sizeof owner);
  lki_change change = {.kind = LKI_CHANGE_TRIM, .first_live_step = line->step, .version_max = line->version_max};
  lki_commit_result result;
  lake_status s = lki_log_commit(ns->log, &change, owner, deadline, &result, err);
  lki_manifest_release(result.manifest);
  return s == LAKE_EXISTS ? LAKE_OK : s; /* another has trimmed as far: that is what was wanted */
}

/* One declaration and what came of it. AGAIN: a pin stands below the step, or other writers used up the versions; the
 * line is gone again. */
static lake_status try_trim(lake_namespace *ns, uint64_t step, uint64_t versions, lake_deadline deadline,
                            lake_error *err) {
  lki_manifest *view = lki_log_view(ns->log);
  const uint64_t first_live_step = view->first_live_step, version_max = view->version + versions;
  lki_manifest_release(view);
  lki_line line;
  pin_tally pins;
  lake_status s = lki_line_put(ns, step, version_max, deadline, &line, err);
  if (s != LAKE_OK) return s; /* if it is there all the same, it is void before long */
  s = tally_pins(ns, first_live_step, deadline, &pins, err);
  if (s == LAKE_OK && pins.lowest < step) s = LAKE_AGAIN;
  if (s == LAKE_OK) s = commit_trim(ns, &line, deadline, err);
  if (s == LAKE_OK || s == LAKE_UNCERTAIN) return s; /* decided lines are removed by the next step, or the next call */
  /* Nothing was committed and nothing is on its way. */
  lake_status r = lki_line_remove(ns, &line, deadline, s == LAKE_AGAIN || s == LAKE_FENCED ? err : NULL);
  if (s != LAKE_AGAIN && s != LAKE_FENCED) return s;
  return r == LAKE_OK ? LAKE_AGAIN : r;
}

/* Commits the first live step that the pins allow. Pins and writers that go ahead can make this give up, which loses
 * nothing: the next call trims as far. */
static lake_status trim(lake_namespace *ns, const lake_reclaim_options *o, lake_deadline deadline,
                        lake_reclaim_report *report, uint64_t *step, lake_error *err) {
  uint64_t versions = LINE_VERSIONS;
  for (int i = 0; i < TRIM_TRIES; i++, versions *= 4) {
    lki_manifest *view = lki_log_view(ns->log);
    pin_tally pins;
    lake_status s = tally_pins(ns, view->first_live_step, deadline, &pins, err);
    const uint64_t target = s == LAKE_OK ? target_step(&pins, o->before_step, view) : 0;
    const bool useful = target > view->first_live_step;
    *step = useful ? target : view->first_live_step;
    lki_manifest_release(view);
    if (s != LAKE_OK) return s;
    report->pin_count = pins.count;
    report->void_pin_count = pins.void_count;
    report->pinned_step = pins.lowest;
    if (!useful || o->dry_run) return LAKE_OK;
    s = try_trim(ns, target, versions, deadline, err);
    if (s == LAKE_AGAIN) s = lki_log_catch_up(ns->log, deadline, err);
    else return s;
    if (s != LAKE_OK) return s;
  }
  return LAKE_OK;
}

/* Finds what lives by the newest manifest. While this reads its segments another reclaimer may delete some of them:
 * then a newer manifest is there, which does without. */
static lake_status find_live(lake_namespace *ns, bool dry_run, uint64_t dry_step, lake_deadline deadline,
                             lki_manifest **manifest, lki_live **live, lake_error *err) {
  for (int i = 0;; i++) {
    lki_manifest *view = lki_log_view(ns->log);
    lake_error local = LAKE_ERROR_INIT;
    lake_status s = lki_live_open(ns, view, dry_run && dry_step > view->first_live_step ? dry_step : view->first_live_step,
                                  deadline, live, &local);
    if (s == LAKE_OK) {
      *manifest = view;
      return LAKE_OK;
    }
    const uint64_t version = view->version;
    lki_manifest_release(view);
    bool moved = false;
    if (s == LAKE_CORRUPT && i < LIVE_TRIES) {
      lake_error unknown = LAKE_ERROR_INIT;
      lake_status caught_up = lki_log_catch_up(ns->log, deadline, &unknown);
      view = lki_log_view(ns->log);
      moved = caught_up == LAKE_OK && view->version > version;
      lki_manifest_release(view);
      if (caught_up != LAKE_OK) { /* what may only be old is not called CORRUPT */
        s = caught_up;
        local = unknown;
      }
    }
    if (moved) continue;
    lki_error_copy(err, &local);
    return s;
  }
}

static lake_status reclaim(lake_namespace *ns, const lake_reclaim_options *o, lake_deadline deadline,
                           lake_reclaim_report *report, lake_error *err) {
  lki_manifest *manifest = NULL;
  lki_live *live = NULL;
  uint64_t step = 0;
  lake_status s = lki_log_catch_up(ns->log, deadline, err);
  if (s == LAKE_OK) s = trim(ns, o, deadline, report, &step, err);
  if (s == LAKE_OK) s = find_live(ns, o->dry_run != 0, step, deadline, &manifest, &live, err);
  if (s != LAKE_OK) goto done;
  /* A dry run judges as the version would that it does not write. */
  const bool unwritten = o->dry_run != 0 && step > manifest->first_live_step;
  report->version = manifest->version;
  report->first_live_step = unwritten ? step : manifest->first_live_step;
  report->next_step = manifest->next_step;
  if (o->dry_run == 0) s = lki_line_remove_decided(ns, manifest, deadline, err);
  if (s != LAKE_OK) goto done;
  const lki_sweep sweep = {ns, live, manifest->version + (unwritten ? 1 : 0), o->dry_run != 0, deadline, report};
  s = lki_sweep_run(&sweep, err);
done:
  lki_live_close(live);
  lki_manifest_release(manifest);
  return s;
}

lake_status lake_reclaim(lake_namespace *ns, const lake_reclaim_options *options, lake_deadline deadline,
                         lake_reclaim_report *report, lake_error *err) {
  lake_reclaim_options o;
  lake_reclaim_report local = {.pinned_step = UINT64_MAX};
  lake_status s = lki_check_process(ns->env, "the namespace", err);
  if (s == LAKE_OK) s = lki_options_copy(&o, sizeof o, options, "lake_reclaim_options", err);
  if (s == LAKE_OK) s = reclaim(ns, &o, deadline, &local, err);
  if (s != LAKE_OK) lki_error_prefix(err, "reclaiming %s", lki_store_url(ns->store));
  if (report != NULL) *report = local;
  return s;
}
