/* Verification. Steps are collected in batches whose TGBs are read by several threads; faults are reported by the
 * calling thread only, in step order. */
#include "verify.h"
#include "base/env.h"
#include "census.h"
#include "format/descriptor.h"
#include "format/names.h"
#include "tgb/tgb.h"
#include "walk.h"
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define BATCH_STEPS 64
#define READ_TRIES 3

/* What is known about a producer while walking. */
typedef struct progress {
  bool seen;
  uint64_t next_seq, epoch;
} progress;

/* One TGB to be read. Copies lie in the batch's arena. */
typedef struct item {
  uint64_t step;
  const char *producer_id;
  lki_descriptor descriptor;
  lake_status status;
  lake_error err;
  uint64_t read_bytes;
} item;

typedef struct verifier {
  lki_cli *cli;
  lake_namespace *ns;
  const lki_verify_options *options;
  lki_verify_fault_fn *on_fault;
  void *ctx;
  lki_verify_result *result;
  lki_census *census;
  lki_manifest *manifest;
  progress *producers;     /* as manifest->producers */
  uint32_t *index_of;      /* producer index in the present holder -> 1 + index in the manifest; 0: not looked up */
  char holder[LKI_NAME_BYTES];
  bool order_known;        /* the walk began at step 0: seqs must begin at 0 */
  bool broken_before;      /* steps were left out: the next seq of a producer is unknown */
  lki_arena arena;         /* of the batch */
  item batch[BATCH_STEPS];
  uint32_t batch_count;
  atomic_uint batch_next;
} verifier;

/* The text behind "prefix: " or "prefix ", or the text itself. */
static const char *behind(const char *text, const char *prefix) {
  const size_t n = strlen(prefix);
  if (strncmp(text, prefix, n) != 0) return text;
  return strncmp(text + n, ": ", 2) == 0 ? text + n + 2 : text[n] == ' ' ? text + n + 1 : text;
}

/* The line names the object and says what to do, so the library's text, which does both, leaves that to it. */
static void fault(verifier *v, const char *kind, const char *object, const char *text, const char *means) {
  static const char advice[] = "; restore the object";
  char own[sizeof((lake_error *)NULL)->text];
  snprintf(own, sizeof own, "%s", behind(behind(text, lki_store_url(v->ns->store)), object));
  const size_t n = strlen(own), m = sizeof advice - 1;
  if (n > m && strcmp(own + n - m, advice) == 0) own[n - m] = 0;
  lki_verify_fault f = {kind, object, own, means};
  v->result->fault_count++;
  v->on_fault(v->ctx, &f);
}

/* ---- one TGB, on a worker thread ---- */

static lake_status check_identity(const verifier *v, const item *it, const lki_tgb_footer *f, const char *name,
                                  lake_error *err) {
  const lki_descriptor *d = &it->descriptor;
  if (f->epoch != d->epoch || f->seq != d->seq || strcmp(f->producer_id, it->producer_id) != 0 ||
      !lki_id_equal(f->namespace_id, v->ns->schema->namespace_id))
    return lki_fail(err, LAKE_CORRUPT, "%s is the object of another TGB", name);
  uint32_t want = v->ns->schema->mesh.d_count * v->ns->schema->mesh.c_count;
  if (f->slice_count != d->slice_count || f->slice_count != want)
    return lki_fail(err, LAKE_CORRUPT, "%s has %u slices, its descriptor says %u, the mesh wants %u", name,
                    f->slice_count, d->slice_count, want);
  for (uint32_t i = 0; d->layout != LKI_LAYOUT_FOOTER && i < f->slice_count; i++) {
    uint64_t said = d->layout == LKI_LAYOUT_UNIFORM ? d->frame_bytes : d->frame_bytes_each[i];
    if (said != f->frame_bytes_each[i])
      return lki_fail(err, LAKE_CORRUPT, "%s slice %u: its frame has %" PRIu64 " bytes, the descriptor says %" PRIu64,
                      name, i, f->frame_bytes_each[i], said);
  }
  return LAKE_OK;
}

static lake_status check_frame(const verifier *v, const char *name, lake_bytes frame, lki_frame_key key,
                               lake_error *err) {
  uint64_t slice_bytes = 0, want = v->ns->schema->slice_bytes;
  bool compressed = false;
  lake_status s = lki_frame_check(frame, key, &slice_bytes, &compressed, err);
  if (s == LAKE_OK && want != 0 && slice_bytes != want)
    s = lki_fail(err, LAKE_CORRUPT, "slice %u has %" PRIu64 " bytes, the schema wants %" PRIu64, key.slice, slice_bytes,
                 want);
  if (s == LAKE_OK && compressed) { /* the checksum is of what is stored: see that it opens, too */
    lake_bytes slice;
    void *memory = lki_alloc_aligned(v->cli->env, LKI_BUFFER_ALIGN, (size_t)slice_bytes + 1);
    s = memory == NULL ? lki_fail(err, LAKE_NOMEM, "no memory for a slice of %" PRIu64 " bytes", slice_bytes)
                       : lki_frame_decode(v->cli->env, frame, &slice, memory, (size_t)slice_bytes, err);
    lki_free(v->cli->env, memory);
  }
  if (s != LAKE_OK) lki_error_prefix(err, "%s", name);
  return s;
}

static lake_status check_frames(const verifier *v, const item *it, const char *name, lake_bytes object,
                                const lki_tgb_footer *footer, lake_error *err) {
  lki_descriptor packed = it->descriptor;
  packed.layout = LKI_LAYOUT_PACKED;
  packed.frame_bytes_each = footer->frame_bytes_each;
  uint64_t hash = lki_tgb_hash(&footer->namespace_id, footer->producer_id, footer->epoch, footer->seq);
  lake_status s = LAKE_OK;
  for (uint32_t i = 0; s == LAKE_OK && i < footer->slice_count; i++) {
    uint64_t offset = 0, bytes = 0;
    s = lki_frame_locate(&packed, i, &offset, &bytes, err);
    if (s == LAKE_OK && (offset > object.bytes || bytes > object.bytes - offset))
      s = lki_fail(err, LAKE_CORRUPT, "%s: slice %u lies outside the object", name, i);
    lake_bytes frame = {(const unsigned char *)object.data + offset, (size_t)bytes};
    if (s == LAKE_OK) s = check_frame(v, name, frame, (lki_frame_key){hash, i}, err);
  }
  return s;
}

/* Reads what has to be read once and checks it. */
static lake_status check_object_once(const verifier *v, item *it, const char *name, lake_error *err) {
  const lki_descriptor *d = &it->descriptor;
  bool fast = v->options->fast;
  lake_buffer bytes;
  lake_object_info info = {0};
  lki_arena arena;
  lki_tgb_footer footer;
  lki_arena_init(&arena, v->cli->env);
  lki_buffer_init(&bytes, v->cli->env, (size_t)(fast ? d->footer_bytes : d->object_bytes) + 1);
  lake_status s = lki_store_head(v->ns->store, name, &info, lki_cli_deadline(v->cli), err);
  if (s == LAKE_OK && info.object_bytes != d->object_bytes)
    s = lki_fail(err, LAKE_CORRUPT, "%s has %" PRIu64 " bytes, its descriptor says %" PRIu64, name, info.object_bytes,
                 d->object_bytes);
  if (s == LAKE_OK)
    s = lki_store_get(v->ns->store, name, fast ? lki_range_suffix(d->footer_bytes) : lki_range_whole(), &bytes, NULL,
                      lki_cli_deadline(v->cli), err);
  it->read_bytes = bytes.bytes;
  lake_bytes view = lki_buffer_view(&bytes);
  if (s == LAKE_OK && !fast) s = lki_tgb_header_check(view, name, err);
  if (s == LAKE_OK) s = lki_tgb_footer_decode(v->cli->env, view, d->object_bytes, name, &arena, &footer, err);
  if (s == LAKE_OK) s = check_identity(v, it, &footer, name, err);
  if (s == LAKE_OK && !fast) s = check_frames(v, it, name, view, &footer, err);
  if (s == LAKE_NOTFOUND) s = lki_fail(err, LAKE_CORRUPT, "%s is missing", name);
  lki_arena_free(&arena);
  lki_buffer_free(&bytes);
  return s;
}

static void check_object(const verifier *v, item *it) {
  char name[LKI_NAME_BYTES];
  lki_name_tgb(name, it->producer_id, it->descriptor.epoch, it->descriptor.seq);
  it->status = LAKE_CORRUPT;
  /* A fault may lie on the way: only what fails every time is the object's. */
  for (int i = 0; i < READ_TRIES && it->status == LAKE_CORRUPT; i++)
    it->status = check_object_once(v, it, name, &it->err);
}

static void work(void *arg) {
  verifier *v = arg;
  for (;;) {
    uint32_t i = atomic_fetch_add(&v->batch_next, 1);
    if (i >= v->batch_count) return;
    check_object(v, &v->batch[i]);
  }
}

/* ---- the walk, on the calling thread ---- */

static lake_status flush_batch(verifier *v, lake_error *err) {
  lki_thread *threads[LKI_VERIFY_JOBS_MAX] = {NULL};
  atomic_store(&v->batch_next, 0);
  for (uint32_t i = 1; i < v->options->jobs && i < v->batch_count; i++)
    threads[i] = lki_thread_start(v->cli->env, "verify", work, v);
  work(v);
  for (uint32_t i = 0; i < LKI_VERIFY_JOBS_MAX; i++) lki_thread_join(v->cli->env, threads[i]);
  lake_status s = LAKE_OK;
  for (uint32_t i = 0; i < v->batch_count; i++) {
    item *it = &v->batch[i];
    v->result->tgb_count++;
    v->result->read_bytes += it->read_bytes;
    if (!v->options->fast) v->result->slice_count += it->descriptor.slice_count;
    if (it->status == LAKE_OK) continue;
    if (it->status == LAKE_CORRUPT) {
      char name[LKI_NAME_BYTES], means[120];
      lki_name_tgb(name, it->producer_id, it->descriptor.epoch, it->descriptor.seq);
      snprintf(means, sizeof means, "step %" PRIu64 " cannot be read; restore the object", it->step);
      fault(v, "tgb", name, it->err.text, means);
    } else if (s == LAKE_OK) {
      s = it->status;
      lki_error_copy(err, &it->err);
    }
  }
  v->batch_count = 0;
  lki_arena_free(&v->arena);
  lki_arena_init(&v->arena, v->cli->env);
  return s;
}

static bool quarantined(const lki_manifest *m, uint64_t step) {
  uint32_t low = 0, high = m->quarantine_count;
  while (low < high) {
    uint32_t mid = low + (high - low) / 2;
    if (m->quarantine[mid] < step)
      low = mid + 1;
    else
      high = mid;
  }
  return low < m->quarantine_count && m->quarantine[low] == step;
}

/* The manifest's entry of a step's producer; NULL: it has none. */
static progress *find_producer(verifier *v, const lki_walk_step *step, const lki_producer_entry **entry) {
  uint32_t at = step->descriptor->producer;
  if (strcmp(v->holder, step->holder) != 0) {
    snprintf(v->holder, sizeof v->holder, "%s", step->holder);
    memset(v->index_of, 0, sizeof *v->index_of * LKI_PRODUCER_COUNT_MAX);
  }
  if (v->index_of[at] == 0) {
    int64_t found = lki_manifest_find_producer(v->manifest, step->producer_id);
    if (found < 0) return NULL;
    v->index_of[at] = (uint32_t)found + 1;
  }
  *entry = &v->manifest->producers[v->index_of[at] - 1];
  return &v->producers[v->index_of[at] - 1];
}

/* I4: each producer's seqs are 0, 1, 2, ..., and its epochs never go back. */
static void check_order(verifier *v, const lki_walk_step *step) {
  const lki_producer_entry *entry = NULL;
  const lki_descriptor *d = step->descriptor;
  char object[LKI_NAME_BYTES], text[200];
  snprintf(object, sizeof object, "step %" PRIu64, step->step);
  progress *p = find_producer(v, step, &entry);
  if (p == NULL) {
    snprintf(text, sizeof text, "producer %.64s is not in the producer map", step->producer_id);
    fault(v, "order", object, text, "this producer could start over and repeat its input");
    return;
  }
  uint64_t want = p->seen ? p->next_seq : v->order_known ? 0 : d->seq;
  if (v->broken_before && d->seq > want) want = d->seq;
  if (d->seq != want) {
    snprintf(text, sizeof text, "producer %.64s has seq %" PRIu64 " where %" PRIu64 " is due", step->producer_id, d->seq,
             want);
    fault(v, "order", object, text, d->seq < want ? "a TGB is in the stream twice" : "a TGB of this producer is lost");
  }
  if (p->seen && d->epoch < p->epoch) {
    snprintf(text, sizeof text, "producer %.64s goes back from epoch %" PRIu64 " to %" PRIu64, step->producer_id, p->epoch,
             d->epoch);
    fault(v, "order", object, text, "a fenced incarnation committed");
  }
  if (d->epoch > entry->epoch || d->seq >= entry->next_seq) {
    snprintf(text, sizeof text, "producer %.64s: epoch %" PRIu64 " seq %" PRIu64 " is beyond what the producer map holds",
             step->producer_id, d->epoch, d->seq);
    fault(v, "producer", object, text, "this producer would repeat TGBs when it opens again");
  }
  *p = (progress){true, d->seq + 1, d->epoch};
}

static lake_status on_step(void *ctx, const lki_walk_step *step, lake_error *err) {
  verifier *v = ctx;
  v->result->step_count++;
  check_order(v, step);
  lki_cli_progress(v->cli, "verify: step %" PRIu64 " of %" PRIu64 ", %" PRIu64 " faults", step->step,
                   v->manifest->next_step, v->result->fault_count);
  if (quarantined(v->manifest, step->step)) {
    v->result->quarantined_count++;
    return LAKE_OK;
  }
  item *it = &v->batch[v->batch_count];
  memset(it, 0, sizeof *it);
  it->step = step->step;
  it->descriptor = *step->descriptor;
  it->producer_id = lki_arena_strndup(&v->arena, step->producer_id, strlen(step->producer_id));
  if (step->descriptor->frame_bytes_each != NULL)
    it->descriptor.frame_bytes_each = lki_arena_copy(&v->arena, step->descriptor->frame_bytes_each,
                                                     step->descriptor->slice_count * sizeof(uint64_t));
  if (it->producer_id == NULL || (step->descriptor->frame_bytes_each != NULL && it->descriptor.frame_bytes_each == NULL))
    return lki_fail(err, LAKE_NOMEM, "no memory for a batch of steps");
  return ++v->batch_count == BATCH_STEPS ? flush_batch(v, err) : LAKE_OK;
}

static lake_status on_segment(void *ctx, const lki_segment_ref *ref, const lki_segment *segment, lake_error *err) {
  verifier *v = ctx;
  lake_error local = LAKE_ERROR_INIT;
  char name[LKI_NAME_BYTES];
  (void)err;
  v->result->segment_count++;
  v->result->read_bytes += ref->object_bytes;
  lki_name_segment(name, ref);
  if (lki_segment_check(segment, &local) != LAKE_OK)
    fault(v, "segment", name, local.text, "its steps may be read wrongly");
  return LAKE_OK;
}

static lake_status on_broken(void *ctx, const lki_segment_ref *ref, lake_status status, const lake_error *why,
                             lake_error *err) {
  verifier *v = ctx;
  char name[LKI_NAME_BYTES], means[160];
  if (status != LAKE_CORRUPT) {
    lki_error_copy(err, why);
    return status;
  }
  lki_name_segment(name, ref);
  snprintf(means, sizeof means, "steps %" PRIu64 " to %" PRIu64 " cannot be found; restore the object", ref->first_step,
           ref->first_step + ref->step_count - 1);
  fault(v, "segment", name, why->text, means);
  v->broken_before = true;
  return LAKE_OK;
}

/* ---- the manifests ---- */

static void on_census_fault(void *ctx, const char *kind, const char *object, const char *text, const char *means) {
  fault(ctx, kind, object, text, means);
}

/* The versions before the newest: each can be read and leads to the next. Which are missing the census tells. */
static lake_status check_chain(verifier *v, lake_error *err) {
  lki_manifest *next = lki_manifest_retain(v->manifest);
  uint64_t version = next->version, oldest = v->options->chain < version ? version - v->options->chain : 1;
  lake_status s = LAKE_OK;
  while (s == LAKE_OK && lki_census_before(v->census, &version) && version >= oldest) {
    lki_manifest *base = NULL;
    lake_error local = LAKE_ERROR_INIT;
    char name[LKI_NAME_BYTES];
    lki_name_manifest(name, version);
    lki_cli_progress(v->cli, "verify: manifest version %" PRIu64, version);
    s = lki_log_load(v->ns->log, version, lki_cli_deadline(v->cli), &base, &local);
    if (s == LAKE_CORRUPT)
      fault(v, "manifest", name, local.text, "this version cannot be read; newer ones stand by themselves; restore the object");
    if (s == LAKE_CORRUPT || s == LAKE_NOTFOUND) { /* not found: reclaimed since it was listed */
      s = LAKE_OK;
      continue;
    }
    if (s != LAKE_OK) {
      lki_error_copy(err, &local);
      break;
    }
    v->result->manifest_count++;
    lki_name_manifest(name, next->version);
    if (version + 1 == next->version && lki_manifest_check_successor(base, next, &local) != LAKE_OK)
      fault(v, "chain", name, local.text, "what was visible before changed: readers disagree");
    lki_manifest_release(next);
    next = base;
  }
  lki_manifest_release(next);
  return s;
}

/* After a walk over everything: the producer map must agree with what was found. */
static void check_producers(verifier *v) {
  for (uint32_t i = 0; i < v->manifest->producer_count; i++) {
    const lki_producer_entry *entry = &v->manifest->producers[i];
    uint64_t found = v->producers[i].seen ? v->producers[i].next_seq : 0;
    if (!v->producers[i].seen && !v->order_known) continue;
    if (found == entry->next_seq || v->broken_before) continue;
    char text[160];
    snprintf(text, sizeof text, "the producer map says %" PRIu64 " TGBs, the steps hold %" PRIu64, entry->next_seq, found);
    fault(v, "producer", entry->id, text, "TGBs of this producer are lost from the stream");
  }
}

/* A range that was asked for holds steps: "no fault" about nothing would be believed. */
static lake_status check_range(const verifier *v, lake_error *err) {
  const uint64_t from = v->options->from, to = v->options->to, next = v->manifest->next_step;
  if (from == 0 && to == UINT64_MAX) return LAKE_OK;
  if (to != UINT64_MAX && to > next)
    return lki_fail(err, LAKE_INVALID, "--to %" PRIu64 ": only %" PRIu64 " steps are committed", to, next);
  if (from >= next)
    return lki_fail(err, LAKE_INVALID, "--from %" PRIu64 ": only %" PRIu64 " steps are committed", from, next);
  if (from >= to)
    return lki_fail(err, LAKE_INVALID, "steps %" PRIu64 " to %" PRIu64 ": that range is empty", from, to);
  if (to <= v->manifest->first_live_step)
    return lki_fail(err, LAKE_RECLAIMED, "--to %" PRIu64 ": steps before %" PRIu64 " were reclaimed", to,
                    v->manifest->first_live_step);
  return LAKE_OK;
}

static lake_status verify_steps(verifier *v, lake_error *err) {
  const lki_manifest *m = v->manifest;
  uint64_t from = v->options->from > m->first_live_step ? v->options->from : m->first_live_step;
  uint64_t to = v->options->to < m->next_step ? v->options->to : m->next_step;
  lki_walk_visitor visitor = {v, on_step, on_segment, on_broken, v->cli->timeout_ms};
  v->order_known = from == 0;
  lake_status s = lki_walk(v->ns, m, from, to, &visitor, err);
  lake_status t = flush_batch(v, s == LAKE_OK ? err : NULL);
  if (s == LAKE_OK) s = t;
  if (s == LAKE_OK && to == m->next_step) check_producers(v);
  return s;
}

lake_status lki_verify(lki_cli *cli, lake_namespace *ns, const lki_verify_options *options,
                       lki_verify_fault_fn *on_fault, void *ctx, lki_verify_result *result, lake_error *err) {
  lake_status s = LAKE_OK;
  memset(result, 0, sizeof *result);
  verifier *v = lki_new(cli->env, sizeof *v);
  if (v == NULL) return lki_fail(err, LAKE_NOMEM, "no memory for verification");
  v->cli = cli;
  v->ns = ns;
  v->options = options;
  v->on_fault = on_fault;
  v->ctx = ctx;
  v->result = result;
  lki_arena_init(&v->arena, cli->env);
  s = lki_log_refresh(ns->log, lki_cli_deadline(cli), NULL, err);
  if (s == LAKE_OK) s = lki_census_take(cli, ns, &v->census, err);
  if (s == LAKE_OK) s = lki_log_catch_up(ns->log, lki_cli_deadline(cli), err); /* see lki_census_take */
  if (s != LAKE_OK) goto done;
  v->manifest = lki_log_view(ns->log);
  result->version = v->manifest->version;
  s = check_range(v, err);
  if (s != LAKE_OK) goto done;
  v->producers = lki_new(cli->env, sizeof *v->producers * (v->manifest->producer_count + 1u));
  v->index_of = lki_new(cli->env, sizeof *v->index_of * LKI_PRODUCER_COUNT_MAX);
  if (v->producers == NULL || v->index_of == NULL) {
    s = lki_fail(err, LAKE_NOMEM, "no memory for verification");
    goto done;
  }
  if (v->manifest->version > 0) {
    result->manifest_count = 1; /* the refresh decoded and checked it */
    s = check_chain(v, err);
  }
  if (s == LAKE_OK) s = lki_census_check(v->census, v->manifest, on_census_fault, v, err);
  if (s == LAKE_OK) s = verify_steps(v, err);
done:
  lki_census_free(v->census);
  lki_manifest_release(v->manifest);
  lki_free(cli->env, v->producers);
  lki_free(cli->env, v->index_of);
  lki_arena_free(&v->arena);
  lki_free(cli->env, v);
  return s;
}
