/* The producer client: open (claim an epoch), append, flush, retire, close. One caller thread; behind it upload threads
 * and one commit thread, all around one lock. A TGB keeps its seq from append to commit; nothing accepted is dropped
 * while the producer lives, and what was not committed when it dies is invisible and will be made again from the
 * committed offset. */
#include "base/planted.h"
#include "client/producer.h"
#include "client/trust.h"
#include "format/names.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static lake_status check_options(lake_producer_options *o, lki_policy *policy, lake_error *err) {
  if (o->upload_threads == 0) o->upload_threads = 4;
  if (o->upload_bytes_max == 0) o->upload_bytes_max = (uint64_t)256 << 20;
  if (o->pending_count_max == 0) o->pending_count_max = 4096;
  if (o->upload_threads > LKI_UPLOAD_THREADS_MAX || o->pending_count_max > LKI_PENDING_COUNT_MAX_MAX)
    return lki_fail(err, LAKE_INVALID, "producer: at most %d upload threads and %u pending TGBs",
                    LKI_UPLOAD_THREADS_MAX, LKI_PENDING_COUNT_MAX_MAX);
  return lki_policy_init(policy, o->policy, o->epsilon, o->delta, o->alpha, o->rho, err);
}

/* Frees whatever a half-made or stopped producer holds; its threads are joined. */
static void free_producer(lake_producer *p) {
  lake_env *env = p->env;
  if (p->synced.ring != NULL)
    for (uint64_t seq = p->synced.committed; seq < p->synced.next; seq++)
      lki_pending_free(env, p->synced.ring[seq % p->pending_count_max]);
  lki_free(env, p->synced.ring);
  while (p->synced.withdrawals != NULL) {
    lki_withdrawal *w = p->synced.withdrawals;
    p->synced.withdrawals = w->next;
    lki_free(env, w->key);
    lki_free(env, w);
  }
  lki_cond_close(env, p->synced.work);
  lki_cond_close(env, p->synced.progress);
  lki_mutex_close(env, p->synced.lock);
  lki_free(env, p->upload_threads);
  lki_free(env, p->descriptors);
  lki_free(env, p->change);
  lki_free(env, p->id);
  lki_free(env, p);
}

static lake_producer *new_producer(lake_namespace *ns, const char *id, const lake_producer_options *o,
                                   const lki_policy *policy) {
  lake_env *env = ns->env;
  lake_producer *p = lki_new(env, sizeof *p);
  if (p == NULL) return NULL;
  p->env = env;
  p->ns = ns;
  p->upload_bytes_max = o->upload_bytes_max;
  p->pending_count_max = o->pending_count_max;
  p->synced.policy = *policy;
  p->carries = policy->kind == LKI_POLICY_CARRY;
  p->id = lki_strdup(env, id);
  p->upload_threads = lki_new(env, sizeof(lki_thread *) * o->upload_threads);
  p->change = lki_new(env, sizeof *p->change);
  p->descriptors = lki_alloc(env, sizeof *p->descriptors * LKI_COMMIT_TGB_COUNT_MAX);
  p->synced.ring = lki_new(env, sizeof(lki_pending *) * o->pending_count_max);
  p->synced.lock = lki_mutex_open(env);
  p->synced.work = lki_cond_open(env);
  p->synced.progress = lki_cond_open(env);
  if (p->id == NULL || p->upload_threads == NULL || p->change == NULL || p->descriptors == NULL ||
      p->synced.ring == NULL || p->synced.lock == NULL || p->synced.work == NULL || p->synced.progress == NULL) {
    free_producer(p);
    return NULL;
  }
  return p;
}

/* Claims the next epoch; fills resume from the manifest that was written. The threads are there already, idle. */
static lake_status claim(lake_producer *p, lake_deadline deadline, lake_producer_resume *resume, lake_error *err) {
  char owner[LKI_OWNER_BYTES_MAX];
  lki_owner_text(owner, sizeof owner);
  snprintf(p->writer, sizeof p->writer, "%s %s", p->id, owner);
  lki_change change = {.kind = LKI_CHANGE_CLAIM, .producer_id = p->id, .owner = owner};
  lki_commit_result result;
  if (LKI_PLANTED(RESUME_BEFORE_CLAIM)) (void)lki_log_refresh(p->ns->log, deadline, NULL, NULL);
  lki_manifest *before = LKI_PLANTED(RESUME_BEFORE_CLAIM) ? lki_log_view(p->ns->log) : NULL;
  lake_status s = lki_log_commit(p->ns->log, &change, p->writer, deadline, &result, err);
  if (s == LAKE_OK) {
    const lki_producer_entry *e = &result.manifest->producers[lki_manifest_find_producer(result.manifest, p->id)];
    memset(resume, 0, sizeof *resume);
    resume->epoch = e->epoch;
    if (before != NULL && lki_manifest_find_producer(before, p->id) >= 0)
      e = &before->producers[lki_manifest_find_producer(before, p->id)];
    resume->seq = e->next_seq;
    if (LKI_PLANTED(SEQ_REUSED) && resume->seq > 0) resume->seq--;
    resume->offset = e->offset;
    resume->state_bytes = e->state.bytes;
    if (e->state.bytes > 0) memcpy(resume->state, e->state.data, e->state.bytes);
    lki_lock(p->env, p->synced.lock);
    p->epoch = resume->epoch;
    p->synced.committed = p->synced.durable_end = p->synced.upload_next = p->synced.next = resume->seq;
    p->synced.own_version = result.manifest->version;
    p->synced.last_offset = e->offset;
    p->synced.policy.active = lki_manifest_active_producers(result.manifest);
    lki_unlock(p->env, p->synced.lock);
  } else {
    lki_error_prefix(err, "producer %s at %s", p->id, lki_store_url(p->ns->store));
  }
  lki_manifest_release(before);
  lki_manifest_release(result.manifest);
  return s;
}

static bool start_threads(lake_producer *p, uint32_t upload_threads) {
  p->commit_thread = lki_thread_start(p->env, "lake-commit", lki_producer_commit_main, p);
  if (p->commit_thread == NULL) return false;
  for (uint32_t i = 0; i < upload_threads; i++) {
    p->upload_threads[i] = lki_thread_start(p->env, "lake-upload", lki_producer_upload_main, p);
    if (p->upload_threads[i] == NULL) return i > 0; /* fewer threads are slower, not wrong */
    p->upload_thread_count++;
  }
  return true;
}

lake_status lake_producer_open(lake_namespace *ns, const char *id, const lake_producer_options *options,
                               lake_deadline deadline, lake_producer_resume *resume, lake_producer **out,
                               lake_error *err) {
  lake_producer_options o;
  lki_policy policy;
  lake_producer_resume at;
  lake_status s = lki_check_process(ns->env, "the namespace", err);
  if (s == LAKE_OK) s = lki_options_copy(&o, sizeof o, options, "lake_producer_options", err);
  if (s == LAKE_OK) s = check_options(&o, &policy, err);
  if (s != LAKE_OK) return s;
  if (id == NULL || !lki_name_component_valid(id))
    return lki_fail(err, LAKE_INVALID,
                    "producer id \"%s\" must be 1 to 64 of [A-Za-z0-9._-], not beginning with '.'",
                    id != NULL ? id : "");
  s = lki_trust_check(ns, deadline, err);
  if (s != LAKE_OK) return s;
  lake_producer *p = new_producer(ns, id, &o, &policy);
  if (p == NULL) return lki_fail(err, LAKE_NOMEM, "producer %s: out of memory", id);
  /* The claim comes last: it fences whoever had the id, and may not be followed by a failure. */
  if (start_threads(p, o.upload_threads))
    s = claim(p, deadline, &at, err);
  else
    s = lki_fail(err, LAKE_NOMEM, "producer %s: threads cannot be started; check ulimit -u and memory", id);
  if (s != LAKE_OK) {
    lake_producer_close(p);
    return s;
  }
  if (resume != NULL) *resume = at;
  *out = p;
  return LAKE_OK;
}

static lake_status check_slices(const lake_producer *p, const lake_bytes *slices, uint32_t slice_count,
                                uint64_t offset, lake_bytes state, uint64_t *bytes, lake_error *err) {
  const lki_schema *schema = p->ns->schema;
  const uint32_t want = schema->mesh.d_count * schema->mesh.c_count;
  if (slice_count != want)
    return lki_fail(err, LAKE_INVALID, "producer %s: %u slices given, the mesh %ux%u needs %u", p->id, slice_count,
                    schema->mesh.d_count, schema->mesh.c_count, want);
  if (state.bytes > LAKE_PRODUCER_STATE_BYTES_MAX)
    return lki_fail(err, LAKE_INVALID, "producer %s: state of %zu bytes; at most %d are kept", p->id, state.bytes,
                    LAKE_PRODUCER_STATE_BYTES_MAX);
  if (offset < p->synced.last_offset) /* only this caller writes it */
    return lki_fail(err, LAKE_INVALID, "producer %s: offset %" PRIu64 " is before %" PRIu64, p->id, offset,
                    p->synced.last_offset);
  if (slices == NULL || (state.data == NULL && state.bytes > 0))
    return lki_fail(err, LAKE_INVALID, "producer %s: NULL where slices or state should be", p->id);
  if (p->retired)
    return lki_fail(err, LAKE_INVALID, "producer %s was retired; close it and open the id again to go on", p->id);
  uint64_t total = LKI_TGB_HEADER_BYTES + 65536;
  for (uint32_t i = 0; i < slice_count; i++) {
    if (schema->slice_bytes > 0 && slices[i].bytes != schema->slice_bytes)
      return lki_fail(err, LAKE_INVALID, "producer %s: slice %u has %zu bytes, the schema says %" PRIu64, p->id, i,
                      slices[i].bytes, schema->slice_bytes);
    if (slices[i].data == NULL && slices[i].bytes > 0)
      return lki_fail(err, LAKE_INVALID, "producer %s: slice %u has %zu bytes but no data", p->id, i, slices[i].bytes);
    if (slices[i].bytes > LKI_SLICE_BYTES_MAX)
      return lki_fail(err, LAKE_INVALID, "producer %s: slice %u has %zu bytes, too many", p->id, i, slices[i].bytes);
    total += slices[i].bytes + LKI_FRAME_TRAILER_BYTES + LAKE_TENSOR_ALIGN;
  }
  *bytes = total;
  return LAKE_OK;
}

/* Waits until one more TGB of `bytes` may be accepted; on OK its room is reserved. Lock held. */
static lake_status admit_locked(lake_producer *p, uint64_t bytes, lake_deadline deadline, lake_error *err) {
  for (;;) {
    if (p->synced.fatal.status != LAKE_OK) {
      lki_error_copy(err, &p->synced.fatal);
      return p->synced.fatal.status;
    }
    const bool ring_full = p->synced.next - p->synced.committed >= p->pending_count_max;
    const bool bytes_full = p->synced.upload_bytes > 0 && p->synced.upload_bytes + bytes > p->upload_bytes_max;
    if (!ring_full && !bytes_full) {
      p->synced.upload_bytes += bytes;
      return LAKE_OK;
    }
    if (!lki_wait(p->env, p->synced.progress, p->synced.lock, deadline.at_ns) &&
        lki_deadline_passed(p->env, deadline))
      return lki_fail(err, LAKE_TIMEOUT,
                      "producer %s: append waited for %s until its deadline (%" PRIu64 " TGBs pending%s%s); call again",
                      p->id, ring_full ? "commits" : "uploads", p->synced.next - p->synced.committed,
                      p->synced.trouble.status != LAKE_OK ? "; last failure: " : "",
                      p->synced.trouble.status != LAKE_OK ? p->synced.trouble.text : "");
  }
}

/* Encodes the TGB that will have this seq. Only the calling thread assigns seqs, so none is taken meanwhile. */
static lake_status encode_pending(lake_producer *p, uint64_t seq, const lake_bytes *slices, uint32_t slice_count,
                                  uint64_t bytes, lki_pending **out, lake_error *err) {
  const lki_schema *schema = p->ns->schema;
  lki_pending *item = lki_new(p->env, sizeof *item);
  if (item == NULL) return lki_fail(err, LAKE_NOMEM, "producer %s: out of memory for a TGB", p->id);
  lki_arena_init(&item->arena, p->env);
  lki_buffer_init(&item->object, p->env, SIZE_MAX / 2);
  item->seq = seq;
  lake_status s = lki_buffer_reserve(&item->object, (size_t)bytes, err);
  if (s == LAKE_OK)
    s = lki_tgb_encode(p->env, &schema->namespace_id, p->id, p->epoch, seq, slices, slice_count,
                       schema->codec == LAKE_CODEC_ZSTD, &item->arena, &item->object, &item->descriptor, err);
  if (s == LAKE_OK)
    *out = item;
  else
    lki_pending_free(p->env, item);
  return s;
}

lake_status lake_producer_append(lake_producer *p, const lake_bytes *slices, uint32_t slice_count, uint64_t offset,
                                 lake_bytes state, lake_deadline deadline, lake_error *err) {
  uint64_t bytes = 0;
  lake_status s = lki_check_process(p->env, "the producer", err);
  if (s == LAKE_OK) s = check_slices(p, slices, slice_count, offset, state, &bytes, err);
  if (s != LAKE_OK) return s;
  lki_lock(p->env, p->synced.lock);
  s = admit_locked(p, bytes, deadline, err);
  const uint64_t seq = p->synced.next;
  lki_unlock(p->env, p->synced.lock);
  if (s != LAKE_OK) return s;

  lki_pending *item = NULL;
  s = encode_pending(p, seq, slices, slice_count, bytes, &item, err);
  lki_lock(p->env, p->synced.lock);
  p->synced.upload_bytes -= bytes;
  if (s == LAKE_OK) {
    item->offset = offset;
    item->state_bytes = state.bytes;
    if (state.bytes > 0) memcpy(item->state, state.data, state.bytes);
    p->synced.upload_bytes += item->object.capacity;
    p->synced.ring[seq % p->pending_count_max] = item;
    p->synced.next++;
    p->synced.last_offset = offset;
    p->synced.stats.appended_count++;
    lki_broadcast(p->env, p->synced.work);
  }
  lki_unlock(p->env, p->synced.lock);
  return s;
}

lake_status lake_producer_flush(lake_producer *p, lake_deadline deadline, lake_error *err) {
  lake_status s = lki_check_process(p->env, "the producer", err);
  if (s != LAKE_OK) return s;
  lki_lock(p->env, p->synced.lock);
  const uint64_t target = p->synced.next;
  const uint64_t trouble_before = p->synced.trouble_count;
  p->synced.flush_waiters++;
  lki_broadcast(p->env, p->synced.work);
  while (p->synced.committed < target && !(LKI_PLANTED(FLUSH_AT_DURABLE) && p->synced.durable_end >= target)) {
    if (p->synced.fatal.status != LAKE_OK) {
      lki_error_copy(err, &p->synced.fatal);
      s = p->synced.in_doubt ? LAKE_UNCERTAIN : p->synced.fatal.status;
      if (err != NULL) err->status = s;
      p->synced.in_doubt = false; /* once: whoever calls again is told to stop */
      break;
    }
    /* Waiting does not help against missing rights: tell now. */
    if (p->synced.trouble.status == LAKE_DENIED && p->synced.trouble_count > trouble_before) {
      lki_error_copy(err, &p->synced.trouble);
      s = LAKE_DENIED;
      break;
    }
    if (!lki_wait(p->env, p->synced.progress, p->synced.lock, deadline.at_ns) &&
        lki_deadline_passed(p->env, deadline) && p->synced.committed < target) {
      lake_error cause = p->synced.trouble;
      if (cause.status == LAKE_OK) lki_log_cause(p->ns->log, &cause); /* the log's lock is a leaf */
      const lake_error *trouble = &cause;
      s = trouble->status == LAKE_OK ? LAKE_TIMEOUT : trouble->status;
      lki_fail(err, s, "producer %s: %" PRIu64 " TGBs are not known to be committed at the deadline (%" PRIu64
               " not yet durable); they stay: try again%s%s", p->id, target - p->synced.committed,
               p->synced.durable_end < target ? target - p->synced.durable_end : 0,
               trouble->status != LAKE_OK ? "; cause: " : "", trouble->status != LAKE_OK ? trouble->text : "");
      break;
    }
  }
  p->synced.flush_waiters--;
  lki_unlock(p->env, p->synced.lock);
  return s;
}

lake_status lake_producer_retire(lake_producer *p, lake_deadline deadline, lake_error *err) {
  lake_status s = lake_producer_flush(p, deadline, err);
  if (s != LAKE_OK) return s;
  lki_change change = {.kind = LKI_CHANGE_RETIRE, .producer_id = p->id, .epoch = p->epoch};
  lki_commit_result result;
  s = lki_log_commit(p->ns->log, &change, p->writer, deadline, &result, err);
  lki_manifest_release(result.manifest);
  if (s == LAKE_OK || s == LAKE_EXISTS) p->retired = true;
  return s == LAKE_EXISTS ? LAKE_OK : s;
}

void lake_producer_close(lake_producer *p) {
  if (p == NULL || lki_check_process(p->env, "", NULL) != LAKE_OK) return; /* a forked child has no threads to end */
  lki_lock(p->env, p->synced.lock);
  p->synced.closing = true;
  atomic_store(&p->stop, true);
  lki_broadcast(p->env, p->synced.work);
  lki_broadcast(p->env, p->synced.progress);
  lki_unlock(p->env, p->synced.lock);
  lki_thread_join(p->env, p->commit_thread);
  for (uint32_t i = 0; i < p->upload_thread_count; i++) lki_thread_join(p->env, p->upload_threads[i]);
  free_producer(p);
}

void lake_producer_stats_get(lake_producer *p, lake_producer_stats *stats) {
  memset(stats, 0, sizeof *stats);
  if (lki_check_process(p->env, "", NULL) != LAKE_OK) return;
  lki_lock(p->env, p->synced.lock);
  *stats = p->synced.stats;
  lki_unlock(p->env, p->synced.lock);
}
