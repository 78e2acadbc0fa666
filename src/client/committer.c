/* The producer's commit thread: when the policy says so, commit every TGB whose object is durable, in seq order. */
#include "base/planted.h"
#include "client/producer.h"
#include <inttypes.h>
#include <string.h>

#define LOOK_NS_MIN ((uint64_t)1000 * 1000 * 1000)
#define LOOK_NS_MAX ((uint64_t)10 * 1000 * 1000 * 1000)
#define ATTEMPT_NS ((uint64_t)8 * 1000 * 1000 * 1000) /* one attempt; also what close may have to wait for, where a store does not answer */

void lki_pending_free(lake_env *env, lki_pending *pending) {
  if (pending == NULL) return;
  lki_buffer_free(&pending->object);
  lki_free(env, pending->announced);
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

/* Its announcement has served; without memory for a note it stays until reclaim finds it. */
static void withdraw_locked(lake_producer *p, lki_pending *pending) {
  if (pending->announced == NULL) return;
  lki_withdrawal *w = lki_alloc(p->env, sizeof *w);
  if (w == NULL) return;
  *w = (lki_withdrawal){p->synced.withdrawals, pending->announced};
  pending->announced = NULL;
  p->synced.withdrawals = w;
}

/* Removes the announcements of what is committed. Called and returns with the lock held. */
static void withdraw_all_locked(lake_producer *p) {
  while (p->synced.withdrawals != NULL && !p->synced.closing) {
    lki_withdrawal *w = p->synced.withdrawals;
    p->synced.withdrawals = w->next;
    lki_unlock(p->env, p->synced.lock);
    lake_deadline deadline = {lki_after_ns(p->env, LKI_STORE_CALL_NS)};
    (void)lki_store_remove(p->ns->store, w->key, deadline, NULL);
    lki_free(p->env, w->key);
    lki_free(p->env, w);
    lki_lock(p->env, p->synced.lock);
  }
}

static void drop_below_locked(lake_producer *p, uint64_t next_seq) {
  while (p->synced.committed < next_seq && p->synced.committed < p->synced.durable_end) {
    lki_pending **slot = &p->synced.ring[p->synced.committed % p->pending_count_max];
    withdraw_locked(p, *slot);
    lki_pending_free(p->env, *slot);
    *slot = NULL;
    p->synced.committed++;
    p->synced.stats.committed_count++;
  }
}

/* Drops what the manifest shows as committed. */
static void settle_locked(lake_producer *p, const lki_manifest *manifest) {
  int64_t i = lki_manifest_find_producer(manifest, p->id);
  if (i < 0 || (manifest->producers[i].epoch != p->epoch && !LKI_PLANTED(SETTLED_BY_ANY_EPOCH))) return;
  if (manifest->version > p->synced.own_version) p->synced.own_version = manifest->version;
  drop_below_locked(p, manifest->producers[i].next_seq + LKI_PLANTED(SETTLED_ONE_TOO_MANY));
}

/* Which seqs are in the order for good, now that a newer epoch has come or the stream was sealed: all below *next_seq.
 * RECLAIMED: nothing tells any more. Called and returns with the lock held, which it drops meanwhile. */
static lake_status find_last_locked(lake_producer *p, lake_status s, const lki_manifest *newest, uint64_t *next_seq,
                                    lake_error *err) {
  const lki_fenced fenced = {p->id, p->epoch, p->synced.own_version, p->synced.committed};
  if (s == LAKE_END) { /* the entry is still ours */
    *next_seq = newest->producers[lki_manifest_find_producer(newest, p->id)].next_seq;
    return LAKE_OK;
  }
  lki_unlock(p->env, p->synced.lock);
  lake_deadline deadline = {lki_after_ns(p->env, ATTEMPT_NS)};
  lake_status told = lki_log_find_fenced(p->ns->log, &fenced, newest, &p->stop, deadline, &p->search, next_seq, err);
  lki_lock(p->env, p->synced.lock);
  return told;
}

/* FENCED or END: whoever is told so is told which TGBs are committed, also those of an attempt that was never settled
 * or of a carrier. Another status: it cannot be told now. Called and returns with the lock held. */
static lake_status settle_last_locked(lake_producer *p, lake_status s, const lki_manifest *newest, lake_error *err) {
  uint64_t next_seq = 0;
  const lake_error why = *err;
  lake_error local = LAKE_ERROR_INIT;
  const lake_status told = find_last_locked(p, s, newest, &next_seq, &local);
  if (told == LAKE_RECLAIMED) {
    p->synced.in_doubt = true;
    return lki_fail(err, s, "%s; whether its TGBs from seq %" PRIu64 " on are committed is not known: the versions that "
                    "would tell were reclaimed", why.text, p->synced.committed);
  }
  if (told != LAKE_OK)
    return lki_fail(err, told, "%s; which of its TGBs are committed cannot be told yet: %s", why.text, local.text);
  if (LKI_PLANTED(FENCED_TELLS_NOTHING)) next_seq = p->synced.committed;
  /* What was carried is durable, though its upload may not have said so yet. */
  while (!p->synced.closing && p->synced.durable_end < next_seq && p->synced.durable_end < p->synced.next)
    lki_wait(p->env, p->synced.progress, p->synced.lock, LKI_NEVER); /* ended by the upload or close */
  drop_below_locked(p, next_seq);
  return lki_fail(err, s, "%s; of its TGBs those below seq %" PRIu64 " are committed and no other", why.text, next_seq);
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

/* What a manifest that this producer did not write shows as committed. */
static void settle_carried_locked(lake_producer *p, const lki_manifest *view) {
  const uint64_t before = p->synced.committed;
  settle_locked(p, view);
  if (p->synced.committed == before) return;
  p->synced.stats.carried_count += p->synced.committed - before;
  lki_broadcast(p->env, p->synced.progress);
}

/* Among others a base from the last attempt is old for certain: read the newest first (Algorithm 1, line 7), and see
 * what others have carried meanwhile. False: nothing is left to commit, or the producer closes. Called and returns with the lock held. */
static bool look_first_locked(lake_producer *p, lki_arena *arena, lki_cargo *cargo, uint64_t *looked_ns) {
  if (p->synced.policy.active <= 1 && !p->synced.last_lost) return true;
  lki_unlock(p->env, p->synced.lock);
  lki_manifest *view = lki_log_view(p->ns->log);
  if (p->carries) *cargo = lki_collect_cargo(p, view, arena); /* before the look: the fragile window stays short */
  lki_manifest_release(view);
  lake_deadline deadline = {lki_after_ns(p->env, LKI_STORE_CALL_NS)};
  if (!atomic_load(&p->stop)) (void)lki_log_look(p->ns->log, deadline, looked_ns, NULL);
  view = lki_log_view(p->ns->log);
  lki_lock(p->env, p->synced.lock);
  settle_carried_locked(p, view);
  lki_manifest_release(view);
  return p->synced.durable_end > p->synced.committed && !p->synced.closing;
}

static uint64_t cargo_taken(const lki_manifest *before, const lki_manifest *after, uint64_t own_count) {
  const uint64_t added = after->next_step - before->next_step;
  return added > own_count ? added - own_count : 0;
}

/* One attempt with all that goes before it. Called and returns with the lock held. */
static void attempt_locked(lake_producer *p) {
  lki_arena arena;
  lki_arena_init(&arena, p->env);
  lki_cargo cargo = {NULL, 0};
  uint64_t looked_ns = 0;
  if (!look_first_locked(p, &arena, &cargo, &looked_ns)) {
    p->synced.last_attempt_ns = lki_now_ns(p->env); /* the next own attempt is a gap away again */
    lki_arena_free(&arena);
    return;
  }
  build_change_locked(p);
  lki_unlock(p->env, p->synced.lock);
  lake_error err = LAKE_ERROR_INIT;
  lki_commit_result result;
  lake_deadline deadline = {lki_after_ns(p->env, ATTEMPT_NS)};
  lki_manifest *base = lki_log_view(p->ns->log);
  lake_status s = lki_log_try(p->ns->log, p->change, &cargo, p->writer, looked_ns, &p->stop, deadline, &result, &err);
  lki_lock(p->env, p->synced.lock);
  if (s == LAKE_FENCED || s == LAKE_END) s = settle_last_locked(p, s, result.manifest, &err);
  if (s == LAKE_OK && result.manifest->version == base->version + 1)
    p->synced.stats.cargo_count += cargo_taken(base, result.manifest, p->change->descriptor_count);
  conclude_locked(p, s, &result, &err);
  if (s == LAKE_OK && !p->synced.closing) {
    lki_unlock(p->env, p->synced.lock);
    lki_log_publish(p->ns->log, result.manifest);
    lki_lock(p->env, p->synced.lock);
  }
  lki_manifest_release(base);
  lki_manifest_release(result.manifest);
  lki_arena_free(&arena);
}

/* When to see whether somebody has carried what is pending, between own attempts: so that it is settled, and its
 * announcements are withdrawn before they pile up in everybody's listing. */
static uint64_t next_look_locked(lake_producer *p) {
  if (!p->carries || p->synced.policy.active <= 1 || p->synced.durable_end == p->synced.committed) return LKI_NEVER;
  return p->synced.look_ns;
}

static void look_locked(lake_producer *p) {
  uint64_t pause_ns = p->synced.policy.gap_ns / 8;
  if (pause_ns < LOOK_NS_MIN) pause_ns = LOOK_NS_MIN;
  if (pause_ns > LOOK_NS_MAX) pause_ns = LOOK_NS_MAX;
  lki_unlock(p->env, p->synced.lock);
  lake_deadline deadline = {lki_after_ns(p->env, LKI_STORE_CALL_NS)};
  (void)lki_log_refresh(p->ns->log, deadline, NULL, NULL);
  lki_manifest *view = lki_log_view(p->ns->log);
  lki_lock(p->env, p->synced.lock);
  settle_carried_locked(p, view);
  p->synced.look_ns = lki_after_ns(p->env, pause_ns + (uint64_t)((double)pause_ns * lki_random_unit(p->env)));
  lki_manifest_release(view);
}

void lki_producer_commit_main(void *arg) {
  lake_producer *p = arg;
  lki_lock(p->env, p->synced.lock);
  while (!p->synced.closing) {
    const uint64_t now_ns = lki_now_ns(p->env);
    const uint64_t at_ns = next_attempt_locked(p), look_ns = next_look_locked(p);
    if (at_ns <= now_ns)
      attempt_locked(p);
    else if (p->synced.withdrawals != NULL)
      withdraw_all_locked(p);
    else if (look_ns <= now_ns)
      look_locked(p);
    else /* ended by upload, flush, close or the time */
      lki_wait(p->env, p->synced.work, p->synced.lock, at_ns < look_ns ? at_ns : look_ns);
  }
  lki_unlock(p->env, p->synced.lock);
}
