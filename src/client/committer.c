/* The producer's commit thread: when the policy says so, commit every TGB whose object is durable, in seq order. */
#include "base/planted.h"
#include "client/producer.h"
#include <inttypes.h>
#include <string.h>

void lki_pending_free(lake_env *env, lki_pending *pending) {
  if (pending == NULL) return;
  lki_buffer_free(&pending->object);
  lki_arena_free(&pending->arena);
  lki_free(env, pending);
}

/* When to attempt next: 0 is now, LKI_NEVER is "when something changes". */
static uint64_t next_attempt_locked(lake_producer *p) {
  const uint64_t pending = p->synced.durable_end - p->synced.committed;
  if (pending == 0 || p->synced.fatal.status != LAKE_OK) return LKI_NEVER;
  const lki_policy *policy = &p->synced.policy;
  const uint64_t now_ns = lki_now_ns(p->env);
  const uint64_t since_ns = p->synced.last_attempt_ns == 0 ? LKI_NEVER : now_ns - p->synced.last_attempt_ns;
  uint64_t at_ns = LKI_NEVER;
  if (lki_policy_due(policy, since_ns, pending))
    at_ns = 0;
  else if (policy->gap_ns > 0)
    at_ns = p->synced.last_attempt_ns + policy->gap_ns;
  const bool full = pending >= LKI_COMMIT_TGB_COUNT_MAX || pending >= p->pending_count_max;
  if (full && policy->gap_ns == 0) at_ns = 0; /* a counting policy may not starve on a full ring */
  if (p->synced.flush_waiters > 0 && p->synced.durable_end == p->synced.next) {
    uint64_t hurry_ns = p->synced.last_lost ? p->synced.last_attempt_ns + p->synced.hurry_ns : 0;
    if (hurry_ns < at_ns) at_ns = hurry_ns;
  }
  if (at_ns < p->synced.retry_ns) at_ns = p->synced.retry_ns;
  return at_ns;
}

static void build_change_locked(lake_producer *p) {
  uint64_t count = p->synced.durable_end - p->synced.committed;
  if (count > LKI_COMMIT_TGB_COUNT_MAX) count = LKI_COMMIT_TGB_COUNT_MAX;
  lki_pending *last = NULL;
  for (uint64_t i = 0; i < count; i++) {
    last = p->synced.ring[(p->synced.committed + i) % p->pending_count_max];
    p->descriptors[i] = last->descriptor;
  }
  *p->change = (lki_change){.kind = LKI_CHANGE_APPEND,
                            .producer_id = p->id,
                            .epoch = p->epoch,
                            .first_seq = p->synced.committed,
                            .descriptor_count = (uint32_t)count,
                            .descriptors = p->descriptors,
                            .offset = LKI_PLANTED(OFFSET_AHEAD) ? p->synced.last_offset : last->offset,
                            .state = {last->state, last->state_bytes}};
}

/* Drops what the manifest shows as committed. */
static void settle_locked(lake_producer *p, const lki_manifest *manifest) {
  int64_t i = lki_manifest_find_producer(manifest, p->id);
  if (i < 0 || (manifest->producers[i].epoch != p->epoch && !LKI_PLANTED(SETTLED_BY_ANY_EPOCH))) return;
  const uint64_t next_seq = manifest->producers[i].next_seq + LKI_PLANTED(SETTLED_ONE_TOO_MANY);
  while (p->synced.committed < next_seq && p->synced.committed < p->synced.durable_end) {
    lki_pending **slot = &p->synced.ring[p->synced.committed % p->pending_count_max];
    lki_pending_free(p->env, *slot);
    *slot = NULL;
    p->synced.committed++;
    p->synced.stats.committed_count++;
  }
}

static bool is_final(lake_status s) {
  return s == LAKE_FENCED || s == LAKE_END || s == LAKE_CORRUPT || s == LAKE_INTERNAL || s == LAKE_INVALID ||
         s == LAKE_UNSUPPORTED;
}

static void conclude_locked(lake_producer *p, lake_status s, const lki_commit_result *result, const lake_error *err) {
  const uint64_t now_ns = lki_now_ns(p->env);
  const bool won = s == LAKE_OK || s == LAKE_EXISTS;
  p->synced.last_attempt_ns = now_ns;
  p->synced.stats.attempt_count++;
  if (won || s == LAKE_AGAIN) {
    p->synced.last_lost = !won;
    lki_policy_observe(&p->synced.policy, result->tau_ns, won, lki_manifest_active_producers(result->manifest),
                       lki_random_unit(p->env));
    p->synced.hurry_ns = lki_policy_hurry_ns(&p->synced.policy, lki_random_unit(p->env));
    p->synced.retry_ns = 0;
    p->synced.trouble.status = LAKE_OK;
    settle_locked(p, result->manifest); /* on a lost race too: an earlier UNCERTAIN attempt of ours may be in it */
  }
  if (won) {
    p->synced.stats.commit_count++;
    if (result->manifest_bytes > 0) p->synced.stats.manifest_bytes = result->manifest_bytes;
  } else if (is_final(s)) {
    p->synced.fatal = *err;
  } else if (s != LAKE_AGAIN) {
    p->synced.trouble = *err;
    p->synced.trouble_count++;
    p->synced.retry_ns = now_ns + 50u * 1000 * 1000 + (uint64_t)(200e6 * lki_random_unit(p->env));
  }
  p->synced.stats.gap_ns = p->synced.policy.gap_ns;
  lki_broadcast(p->env, p->synced.work);
  lki_broadcast(p->env, p->synced.progress);
}

void lki_producer_commit_main(void *arg) {
  lake_producer *p = arg;
  lki_lock(p->env, p->synced.lock);
  while (!p->synced.closing) {
    const uint64_t at_ns = next_attempt_locked(p);
    if (at_ns > lki_now_ns(p->env)) {
      lki_wait(p->env, p->synced.work, p->synced.lock, at_ns); /* ended by upload, flush, close or the time */
      continue;
    }
    build_change_locked(p);
    const bool crowded = p->synced.policy.active > 1;
    lki_unlock(p->env, p->synced.lock);
    lake_error err = LAKE_ERROR_INIT;
    lki_commit_result result;
    lake_deadline deadline = {lki_after_ns(p->env, LKI_STORE_CALL_NS)};
    /* Among others a base from the last attempt is old for certain: read the newest first (Algorithm 1, line 7). */
    if (crowded) (void)lki_log_refresh(p->ns->log, deadline, NULL, NULL);
    lake_status s = lki_log_try(p->ns->log, p->change, p->writer, deadline, &result, &err);
    lki_lock(p->env, p->synced.lock);
    conclude_locked(p, s, &result, &err);
    lki_manifest_release(result.manifest);
  }
  lki_unlock(p->env, p->synced.lock);
}
