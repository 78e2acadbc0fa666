/* The commit protocol (paper section 5.1, DESIGN of record in docs/design): apply, create the next version if absent,
 * and say truly what came of it. A reply is never believed where it could be about an earlier try of one's own: the
 * name is read back and the unique attempt id compared. Nothing is deleted here, whatever the outcome. */
#include "base/buffer.h"
#include "base/planted.h"
#include "format/names.h"
#include "log/state.h"
#include <inttypes.h>
#include <string.h>

#define HINT_NS ((uint64_t)2 * 1000 * 1000 * 1000) /* for a put that nothing depends on */

lake_status lki_log_open(lake_store *store, const lki_schema *schema, lki_log **out, lake_error *err) {
  lake_env *env = lki_store_env(store);
  lki_log *log = lki_new(env, sizeof *log);
  if (log == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory while opening a log");
  log->env = env;
  log->store = store;
  log->schema = schema;
  log->synced.lock = lki_mutex_open(env);
  log->synced.view = lki_manifest_new(env);
  if (log->synced.lock == NULL || log->synced.view == NULL) {
    lki_log_close(log);
    return lki_fail(err, LAKE_NOMEM, "out of memory while opening a log");
  }
  log->synced.view->namespace_id = schema->namespace_id;
  *out = log;
  return LAKE_OK;
}

void lki_log_close(lki_log *log) {
  if (log == NULL) return;
  lki_manifest_release(log->synced.view);
  lki_segment_release(log->synced.root);
  lki_mutex_close(log->env, log->synced.lock);
  lki_free(log->env, log);
}

/* What the store says about the candidate's name counts only if that name was not a reclaimed one. OK: it was not.
 * AGAIN: it was, and the view has moved to a live version; whether the change is in already, that one tells. */
static lake_status check_alive(lki_log *log, const lki_manifest *candidate, lake_deadline deadline,
                               lki_commit_result *result, lake_error *err) {
  bool dead = false;
  lake_status s = lki_log_is_dead(log, candidate->version, deadline, &dead, err);
  if (s != LAKE_OK || !dead) return s;
  result->unsettled = true;
  s = lki_log_jump(log, deadline, err);
  if (s != LAKE_OK) return s;
  return lki_fail(err, LAKE_AGAIN, "version %" PRIu64 " was reclaimed while this writer slept", candidate->version);
}

/* What stands at the candidate's name. OK: ours. AGAIN: another's, and the view has moved on. NOTFOUND: nothing yet. */
static lake_status read_back(lki_log *log, const lki_manifest *candidate, lake_deadline deadline,
                             lki_commit_result *result, lake_error *err) {
  lki_manifest *found = NULL;
  lake_error local = LAKE_ERROR_INIT;
  lake_status s = lki_log_load(log, candidate->version, deadline, &found, &local);
  const bool missing = s == LAKE_NOTFOUND;
  if (LKI_PLANTED(CONTENT_IS_IDENTITY) && s == LAKE_OK && found->next_step == candidate->next_step &&
      found->sealed == candidate->sealed && strcmp(found->writer, candidate->writer) == 0)
    found->attempt = candidate->attempt;
  if (s == LAKE_OK || missing) s = check_alive(log, candidate, deadline, result, err);
  else lki_error_copy(err, &local);
  if (s == LAKE_OK && missing) s = LAKE_NOTFOUND;
  if (s == LAKE_OK && !lki_id_equal(found->attempt, candidate->attempt)) {
    s = lki_fail(err, LAKE_AGAIN, "version %" PRIu64 " was won by %s", found->version, found->writer);
    if (LKI_PLANTED(STALE_REBASE)) log->synced.view->version = found->version, log->synced.view->attempt = found->attempt;
    lki_log_advance(log, found);
  }
  lki_manifest_release(found);
  return s;
}

void lki_log_cause(lki_log *log, lake_error *cause) {
  lki_lock(log->env, log->synced.lock);
  *cause = log->synced.cause;
  lki_unlock(log->env, log->synced.lock);
}

static void note_cause(lki_log *log, const lake_error *cause) {
  lki_lock(log->env, log->synced.lock);
  if (cause != NULL)
    log->synced.cause = *cause;
  else
    log->synced.cause.status = LAKE_OK;
  lki_unlock(log->env, log->synced.lock);
}

/* The store says that it did nothing, and why it never will. */
static bool is_refusal(lake_status s) {
  return s == LAKE_DENIED || s == LAKE_UNSUPPORTED || s == LAKE_INVALID || s == LAKE_NOMEM;
}

static bool is_set(const atomic_bool *stop) { return stop != NULL && atomic_load(stop); }

/* Creates the candidate's object and resolves what happened: OK, AGAIN, or UNCERTAIN at the deadline. The same bytes
 * go to the same name until someone owns it, since a 404 on the read-back is no answer while a put may be in flight. */
static lake_status put_and_resolve(lki_log *log, const lki_manifest *candidate, lake_bytes bytes,
                                   uint64_t begin_ns, const atomic_bool *stop, lake_deadline deadline,
                                   lki_commit_result *result, lake_error *err) {
  char name[LKI_NAME_BYTES];
  lki_name_manifest(name, candidate->version);
  lake_error cause = LAKE_ERROR_INIT;
  uint64_t wait_ns = 10u * 1000 * 1000;
  bool doubtful = false; /* a put was sent whose outcome its reply did not tell */
  if (is_set(stop)) return lki_fail(err, LAKE_CANCELED, "%s was not written: its writer is closing", name);
  for (;;) {
    lake_error back = LAKE_ERROR_INIT;
    lake_status s = LKI_PLANTED(RETRY_OVERWRITES) && doubtful
                        ? lki_store_put(log->store, name, bytes, deadline, &cause)
                        : lki_store_put_if_absent(log->store, name, bytes, deadline, &cause);
    if (result->attempt_count++ == 0) result->tau_ns = lki_now_ns(log->env) - begin_ns;
    if (LKI_PLANTED(ALIVE_UNCHECKED_AFTER_CREATE) && s == LAKE_OK) return LAKE_OK;
    if (LKI_PLANTED(TAKEN_IS_OURS) && s == LAKE_EXISTS && doubtful) return LAKE_OK;
    if (LKI_PLANTED(TAKEN_IS_LOST) && s == LAKE_EXISTS) return lki_fail(err, LAKE_AGAIN, "planted");
    if (LKI_PLANTED(UNDECIDED_IS_TAKEN) && s == LAKE_UNCERTAIN) return lki_fail(err, LAKE_AGAIN, "planted");
    if (LKI_PLANTED(UNCERTAIN_IS_DONE) && s == LAKE_UNCERTAIN) return LAKE_OK;
    if (LKI_PLANTED(UNCERTAIN_IS_FAILED) && s == LAKE_UNCERTAIN) return lki_fail(err, LAKE_UNAVAILABLE, "planted");
    if (LKI_PLANTED(UNCERTAIN_IS_UNDONE) && s == LAKE_UNCERTAIN) (void)lki_store_remove(log->store, name, deadline, err);
    if (!doubtful && is_refusal(s)) {
      lki_error_copy(err, &cause);
      return s;
    }
    doubtful = true;
    if (is_set(stop)) break;
    s = s == LAKE_OK ? check_alive(log, candidate, deadline, result, &back)
                     : read_back(log, candidate, deadline, result, &back);
    if (s == LAKE_OK || s == LAKE_AGAIN) {
      note_cause(log, NULL);
      if (s == LAKE_AGAIN) lki_error_copy(err, &back);
      return s;
    }
    if (LKI_PLANTED(MISSING_IS_LOST) && s == LAKE_NOTFOUND) return lki_fail(err, LAKE_AGAIN, "planted");
    if (s != LAKE_NOTFOUND) cause = back;
    note_cause(log, &cause); /* whoever waits for this with a shorter deadline can say why */
    if (s == LAKE_CORRUPT || is_set(stop) || lki_deadline_passed(log->env, deadline)) break;
    uint64_t pause_ns = (uint64_t)((double)wait_ns * lki_random_unit(log->env));
    uint64_t until_ns = lki_after_ns(log->env, pause_ns);
    lki_sleep_until(log->env, until_ns < deadline.at_ns ? until_ns : deadline.at_ns);
    if (wait_ns < 1000u * 1000 * 1000) wait_ns *= 2;
  }
  return lki_fail(err, LAKE_UNCERTAIN,
                  "it is not known whether %s was written (%s); nothing was undone: try again to settle it",
                  name, cause.text);
}

void lki_log_publish(lki_log *log, const lki_manifest *manifest) {
  if (manifest->version % LKI_HINT_EVERY != 0) return;
  lake_deadline deadline = {lki_after_ns(log->env, HINT_NS)};
  lake_buffer bytes;
  lki_buffer_init(&bytes, log->env, 256);
  if (lki_hint_encode(manifest->version, &bytes, NULL) == LAKE_OK)
    (void)lki_store_put(log->store, LKI_NAME_HINT, lki_buffer_view(&bytes), deadline, NULL);
  lki_buffer_free(&bytes);
}

/* Sealing failed on a base whose segments are not what they must be. An old base may refer to what was reclaimed
 * since: then the newer view decides. */
static lake_status excuse_old_base(lki_log *log, const lki_manifest *base, lake_deadline deadline, lake_error *err) {
  lake_error local = LAKE_ERROR_INIT;
  lake_status s = lki_log_catch_up(log, deadline, &local);
  if (s != LAKE_OK) { /* not known: a base that may only be old is not called CORRUPT, which would end its writer */
    lki_error_copy(err, &local);
    return s;
  }
  lki_manifest *view = lki_log_view(log);
  const bool moved = view->version > base->version;
  lki_manifest_release(view);
  return moved ? lki_fail(err, LAKE_AGAIN, "version %" PRIu64 " is too old to build on", base->version) : LAKE_CORRUPT;
}

lake_status lki_log_try(lki_log *log, const lki_change *change, const lki_cargo *cargo, const char *writer,
                        uint64_t looked_ns, const atomic_bool *stop, lake_deadline deadline, lki_commit_result *result,
                        lake_error *err) {
  memset(result, 0, sizeof *result);
  lki_manifest *base = NULL, *candidate = NULL;
  lki_arena arena;
  lki_arena_init(&arena, log->env);
  lake_buffer bytes;
  lki_buffer_init(&bytes, log->env, LKI_MANIFEST_BYTES_MAX);
  lki_sealing sealing = {0};
  lki_stamp stamp = {.namespace_id = log->schema->namespace_id, .writer = writer};
  lki_random(log->env, &stamp.attempt, sizeof stamp.attempt);
  if (LKI_PLANTED(ATTEMPT_ID_OF_WRITER)) memset(&stamp.attempt, 0, sizeof stamp.attempt), memcpy(&stamp.attempt, writer, 2);

  lki_lock(log->env, log->synced.lock);
  const bool opened = log->synced.opened;
  lki_unlock(log->env, log->synced.lock);
  lake_status s = opened ? LAKE_OK : lki_log_refresh(log, deadline, NULL, err);
  if (s != LAKE_OK) goto done;
  lki_lock(log->env, log->synced.lock);
  base = lki_manifest_retain(log->synced.view);
  lki_unlock(log->env, log->synced.lock);
  const uint64_t begin_ns = looked_ns > 0 ? looked_ns : lki_now_ns(log->env);
  s = lki_log_seal_runs(log, base, &arena, deadline, &sealing, err);
  if (s == LAKE_CORRUPT) s = excuse_old_base(log, base, deadline, err);
  if (s == LAKE_OK) s = lki_manifest_apply(log->env, base, change, cargo, &sealing, &stamp, &candidate, err);
  if (s == LAKE_OK) s = lki_manifest_encode(log->env, candidate, &bytes, err);
  if (s != LAKE_OK) goto done;
  s = put_and_resolve(log, candidate, lki_buffer_view(&bytes), begin_ns, stop, deadline, result, err);
  if (s == LAKE_OK) {
    result->manifest_bytes = bytes.bytes;
    lki_log_advance(log, candidate);
  }
done:
  result->manifest = s == LAKE_OK ? lki_manifest_retain(candidate) : lki_log_view(log);
  lki_buffer_free(&bytes);
  lki_arena_free(&arena);
  lki_manifest_release(candidate);
  lki_manifest_release(base);
  return s;
}

/* It says that nothing was done, which is true of the last attempt only. */
static bool denies_all(lake_status s) {
  return s == LAKE_TIMEOUT || s == LAKE_UNAVAILABLE || s == LAKE_DENIED || s == LAKE_NOMEM || s == LAKE_CORRUPT ||
         s == LAKE_UNSUPPORTED;
}

/* No attempt won. */
static lake_status give_up(const lki_commit_result *result, lake_error *err) {
  if (result->unsettled)
    return lki_fail(err, LAKE_UNCERTAIN, "an attempt's version was reclaimed before it was known whether it was committed, "
                    "and %u attempts did not settle it (%s); call again", result->attempt_count,
                    err != NULL ? err->text : "");
  return lki_fail(err, LAKE_TIMEOUT, "the commit lost %u races in a row until its deadline, last at version %" PRIu64
                  "; nothing was committed, call again", result->attempt_count, result->manifest->version);
}

lake_status lki_log_commit(lki_log *log, const lki_change *change, const char *writer, lake_deadline deadline,
                           lki_commit_result *result, lake_error *err) {
  uint32_t attempts = 0;
  bool unsettled = false;
  for (;;) { /* bounded by the deadline; every lost race means that another writer won one */
    /* From the newest: a base from before the wait has lost already. */
    uint64_t looked_ns = 0;
    lake_status s = lki_log_look(log, deadline, &looked_ns, err);
    if (s == LAKE_OK) {
      s = lki_log_try(log, change, NULL, writer, looked_ns, NULL, deadline, result, err);
    } else {
      memset(result, 0, sizeof *result);
      result->manifest = lki_log_view(log);
    }
    attempts += result->attempt_count;
    result->attempt_count = attempts;
    unsettled = result->unsettled = unsettled || result->unsettled;
    if (s == LAKE_OK) lki_log_publish(log, result->manifest);
    if (unsettled && denies_all(s)) return give_up(result, err);
    if (s != LAKE_AGAIN) return s;
    if (lki_deadline_passed(log->env, deadline)) return give_up(result, err);
    uint32_t active = lki_manifest_active_producers(result->manifest);
    const uint64_t turn_ns = result->tau_ns * active;
    lki_manifest_release(result->manifest);
    result->manifest = NULL;
    uint64_t until_ns = lki_after_ns(log->env, (uint64_t)((double)turn_ns * lki_random_unit(log->env)));
    lki_sleep_until(log->env, until_ns < deadline.at_ns ? until_ns : deadline.at_ns);
  }
}
