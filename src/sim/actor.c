/* Actors that drive the log directly. Each is one process of a schedule; what it is told it holds against the truth. */
#include "sim/actor.h"
#include "base/buffer.h"
#include "tgb/tgb.h"
#include <inttypes.h>
#include <stdio.h>

#define SECOND LKI_SIM_SECOND
#define MESH_D LKI_SIM_MESH_D
#define OFFSET_PER_TGB LKI_SIM_OFFSET_PER_TGB

lake_deadline lki_sim_in(lki_process *p, uint64_t ns) {
  return (lake_deadline){lki_after_ns(lki_process_env(p), ns)};
}

void lki_sim_nap(lki_process *p, uint64_t ns_max) {
  lake_env *env = lki_process_env(p);
  lki_sleep_until(env, lki_after_ns(env, (uint64_t)((double)ns_max * lki_random_unit(env))));
}

void lki_sim_audit(lki_check *check, lki_process *p, lake_namespace *ns) {
  static const char id[] = "audit";
  const lki_change change = {.kind = LKI_CHANGE_CLAIM, .producer_id = id, .owner = "audit"};
  lake_status s = LAKE_OK;
  uint64_t known = 0;   /* claims that were told to have been made */
  bool certain = true;
  while (s != LAKE_END) {
    lki_sim_nap(p, 3 * SECOND);
    if (certain && lki_check_epoch(check, id) != known)
      lki_check_fail(check, "I5: an attempt was told not to be committed, and is: epoch %" PRIu64 " instead of "
                     "%" PRIu64, lki_check_epoch(check, id), known);
    lake_error err = LAKE_ERROR_INIT;
    lki_commit_result result;
    const uint64_t patience_ns = SECOND / 16 + lki_random_u64(ns->env) % (8 * SECOND >> 3 * (lki_random_u64(ns->env) % 3));
    s = lki_log_try(ns->log, &change, NULL, id, 0, NULL, lki_sim_in(p, patience_ns), &result, &err);
    if (s == LAKE_OK) {
      const uint64_t epoch = result.manifest->producers[lki_manifest_find_producer(result.manifest, id)].epoch;
      if (lki_check_epoch(check, id) != epoch || (certain && epoch != known + 1))
        lki_check_fail(check, "I5: the auditor was told that it claimed epoch %" PRIu64 " after %" PRIu64
                       "; the truth is %" PRIu64, epoch, known, lki_check_epoch(check, id));
      known = epoch;
      certain = true;
    }
    if (s == LAKE_UNCERTAIN || (s != LAKE_OK && result.unsettled)) certain = false;
    if (s == LAKE_CORRUPT || s == LAKE_INTERNAL) lki_check_fail(check, "auditor: %s", err.text);
    lki_manifest_release(result.manifest);
  }
}

/* Uploads seq and describes it. */
static bool lap_upload(lki_process *p, lake_namespace *ns, uint64_t seq, lki_arena *arena, lki_descriptor *d) {
  char text[MESH_D][64];
  lake_bytes slices[MESH_D];
  for (uint32_t i = 0; i < MESH_D; i++) {
    int n = snprintf(text[i], sizeof text[i], "lap 1 %" PRIu64 " %u", seq, i);
    slices[i] = (lake_bytes){text[i], (size_t)n};
  }
  lake_buffer object;
  lki_buffer_init(&object, ns->env, 65536);
  lake_status s = lki_tgb_encode(ns->env, &ns->schema->namespace_id, "lap", 1, seq, slices, MESH_D, false, arena,
                                 &object, d, NULL);
  while (s == LAKE_OK && lki_tgb_write(ns->store, "lap", 1, seq, lki_buffer_view(&object), lki_sim_in(p, 30 * SECOND), NULL) != LAKE_OK)
    lki_sim_nap(p, SECOND);
  lki_buffer_free(&object);
  return s == LAKE_OK;
}

void lki_sim_lap(lki_check *check, lki_process *p, lake_namespace *ns) {
  lki_commit_result result;
  lake_error err = LAKE_ERROR_INIT;
  lki_change claim = {.kind = LKI_CHANGE_CLAIM, .producer_id = "lap", .owner = "lap"};
  lake_status s = lki_log_commit(ns->log, &claim, "lap", lki_sim_in(p, 60 * SECOND), &result, &err);
  lki_manifest_release(result.manifest);
  if (s != LAKE_OK) return;
  lki_arena arena;
  lki_arena_init(&arena, ns->env);
  lki_descriptor d[2];
  for (uint64_t seq = 0; seq < 4 && s == LAKE_OK; seq++) {
    const uint32_t again = seq > 0 ? 1 : 0;
    if (again > 0) d[0] = d[1];
    if (!lap_upload(p, ns, seq, &arena, &d[1])) break;
    lki_change append = {.kind = LKI_CHANGE_APPEND, .producer_id = "lap", .epoch = 1, .first_seq = seq - again,
                         .descriptor_count = 1 + again, .descriptors = again > 0 ? d : &d[1],
                         .offset = (seq + 1) * OFFSET_PER_TGB};
    s = lki_log_commit(ns->log, &append, "lap", lki_sim_in(p, 60 * SECOND), &result, &err);
    lki_manifest_release(result.manifest);
    if (s == LAKE_EXISTS) s = LAKE_OK;
    if (s == LAKE_OK) lki_check_acknowledged(check, "lap", 1, 0, seq + 1);
    if (s == LAKE_CORRUPT || s == LAKE_INTERNAL) lki_check_fail(check, "lapper: %s", err.text);
    lki_sim_nap(p, 2 * SECOND);
  }
  lki_arena_free(&arena);
}
