/* Applying a change to a manifest. The same function serves the first try and every rebase: nothing of a lost attempt
 * is carried over but the change itself, so a rebase can neither lose nor repeat what others committed. Pure. */
#include "model/change.h"
#include "base/env.h"
#include "base/planted.h"
#include <inttypes.h>
#include <string.h>

bool lki_descriptor_copy(lki_arena *arena, const lki_descriptor *from, lki_descriptor *to) {
  *to = *from;
  if (from->layout != LKI_LAYOUT_PACKED) return true;
  to->frame_bytes_each = lki_arena_copy(arena, from->frame_bytes_each, sizeof(uint64_t) * from->slice_count);
  return to->frame_bytes_each != NULL;
}

static char *copy_text(lki_arena *arena, const char *text) { return lki_arena_strndup(arena, text, strlen(text)); }

/* Everything of base but the header; room for one more producer and `extra` more descriptors. */
static bool copy_base(lki_manifest *next, const lki_manifest *base, const lki_sealing *sealing, uint32_t extra) {
  lki_arena *arena = &next->arena;
  const uint32_t drop = sealing != NULL ? sealing->tail_drop : 0;
  const uint32_t kept = base->tail_count - drop;
  next->sealed = base->sealed;
  next->first_live_step = base->first_live_step;
  next->next_step = base->next_step;
  next->producer_count = base->producer_count;
  next->producers = lki_arena_alloc(arena, sizeof *next->producers * (base->producer_count + 1u));
  next->segment_count = sealing != NULL ? sealing->segment_count : base->segment_count;
  next->segments = lki_arena_copy(arena, sealing != NULL ? sealing->segments : base->segments,
                                  sizeof *next->segments * next->segment_count);
  next->tail_first_step = base->tail_first_step + drop;
  next->tail_count = kept;
  next->tail = lki_arena_alloc(arena, sizeof *next->tail * (kept + extra + 1u));
  next->quarantine_count = base->quarantine_count;
  next->quarantine = lki_arena_copy(arena, base->quarantine, sizeof *next->quarantine * base->quarantine_count);
  if (next->producers == NULL || next->segments == NULL || next->tail == NULL || next->quarantine == NULL)
    return false;
  for (uint32_t i = 0; i < base->producer_count; i++) {
    lki_producer_entry *p = &next->producers[i];
    *p = base->producers[i];
    p->id = copy_text(arena, p->id);
    p->owner = copy_text(arena, p->owner);
    if (LKI_PLANTED(RETIRED_IS_FORGOTTEN) && p->retired) p->next_seq = p->offset = p->state.bytes = 0;
    p->state.data = lki_arena_copy(arena, p->state.data, p->state.bytes);
    if (p->id == NULL || p->owner == NULL || p->state.data == NULL) return false;
  }
  for (uint32_t i = 0; i < kept; i++)
    if (!lki_descriptor_copy(arena, &base->tail[drop + i], &next->tail[i])) return false;
  return true;
}

static lake_status fenced(const lki_producer_entry *entry, uint64_t epoch, lake_error *err) {
  return lki_fail(err, LAKE_FENCED,
                  "producer %s: epoch %" PRIu64 " is fenced by epoch %" PRIu64
                  ", claimed by %s; stop this process, the newer one goes on",
                  entry->id, epoch, entry->epoch, entry->owner);
}

/* The entry of a writer that holds an epoch; FENCED when another holds a newer one. */
static lake_status own_entry(const lki_manifest *base, const lki_change *change, uint32_t *index, lake_error *err) {
  int64_t i = lki_manifest_find_producer(base, change->producer_id);
  if (i < 0 || base->producers[i].epoch < change->epoch)
    return lki_fail(err, LAKE_INTERNAL,
                    "producer %s: epoch %" PRIu64 " is not in manifest version %" PRIu64
                    "; the claim that was committed is gone",
                    change->producer_id, change->epoch, base->version);
  if (base->producers[i].epoch > change->epoch && !LKI_PLANTED(NOT_FENCED) && !LKI_PLANTED(EPOCH_ADOPTED))
    return fenced(&base->producers[i], change->epoch, err);
  *index = (uint32_t)i;
  return LAKE_OK;
}

static lake_status apply_claim(lki_manifest *next, const lki_change *change, lake_error *err) {
  int64_t i = lki_manifest_find_producer(next, change->producer_id);
  if (i < 0) {
    if (next->producer_count >= LKI_PRODUCER_COUNT_MAX)
      return lki_fail(err, LAKE_INVALID, "producer %s: the map is full at %d producers; start a new namespace",
                      change->producer_id, LKI_PRODUCER_COUNT_MAX);
    i = next->producer_count++;
    next->producers[i].id = copy_text(&next->arena, change->producer_id);
    next->producers[i].state.data = "";
  }
  lki_producer_entry *p = &next->producers[i];
  if (!LKI_PLANTED(CLAIM_KEEPS_EPOCH) || p->epoch == 0) p->epoch++;
  p->retired = false;
  p->last_version = next->version;
  p->owner = copy_text(&next->arena, change->owner);
  return p->id != NULL && p->owner != NULL ? LAKE_OK : lki_fail(err, LAKE_NOMEM, "out of memory for a manifest");
}

static lake_status apply_append(lki_manifest *next, const lki_change *change, uint32_t index, lake_error *err) {
  lki_producer_entry *p = &next->producers[index];
  if (change->first_seq > p->next_seq || change->offset < p->offset)
    return lki_fail(err, LAKE_INTERNAL,
                    "producer %s: seq %" PRIu64 " offset %" PRIu64 " cannot follow seq %" PRIu64 " offset %" PRIu64,
                    p->id, change->first_seq, change->offset, p->next_seq, p->offset);
  /* What an earlier attempt of this writer already made visible is skipped; the rest follows on. */
  uint64_t skip = p->next_seq - change->first_seq;
  if (LKI_PLANTED(REBASE_REPEATS)) skip = 0;
  if (LKI_PLANTED(REBASE_SKIPS_ONE) && p->last_version < next->version - 1) skip++;
  for (; skip < change->descriptor_count; skip++) {
    lki_descriptor *d = &next->tail[next->tail_count];
    if (!lki_descriptor_copy(&next->arena, &change->descriptors[skip], d))
      return lki_fail(err, LAKE_NOMEM, "out of memory for a manifest");
    d->producer = index;
    if (LKI_PLANTED(EPOCH_ADOPTED)) d->epoch = p->epoch;
    next->tail_count++;
    next->next_step++;
    p->next_seq++;
  }
  if (!LKI_PLANTED(OFFSET_LEFT_BEHIND)) p->offset = change->offset;
  if (LKI_PLANTED(STATE_LEFT_BEHIND) && p->state.bytes > 0) return LAKE_OK;
  p->state.bytes = change->state.bytes;
  p->state.data = lki_arena_copy(&next->arena, change->state.data, change->state.bytes);
  p->retired = false;
  p->last_version = next->version;
  return p->state.data != NULL ? LAKE_OK : lki_fail(err, LAKE_NOMEM, "out of memory for a manifest");
}

static lake_status precheck_trim(const lki_manifest *base, const lki_change *change, lake_error *err) {
  if (base->first_live_step >= change->first_live_step) return LAKE_EXISTS;
  if (change->first_live_step > base->next_step)
    return lki_fail(err, LAKE_INVALID, "the stream ends at step %" PRIu64 "; step %" PRIu64 " cannot be its first live one",
                    base->next_step, change->first_live_step);
  if (base->version >= change->version_max)
    return lki_fail(err, LAKE_FENCED, "trimming to step %" PRIu64 " was declared up to version %" PRIu64
                    ", and version %" PRIu64 " is there; declare it anew",
                    change->first_live_step, change->version_max, base->version);
  return LAKE_OK;
}

/* Drops what lies wholly below the first live step. A segment stays while any of its steps lives, so its beginning
 * may lie below; the tail is cut when it is sealed. */
static void apply_trim(lki_manifest *next, uint64_t first_live_step) {
  next->first_live_step = first_live_step;
  uint32_t dead = 0;
  while (dead < next->segment_count &&
         next->segments[dead].first_step + next->segments[dead].step_count <= first_live_step)
    dead++;
  next->segments += dead;
  next->segment_count -= dead;
  dead = 0;
  while (dead < next->quarantine_count && next->quarantine[dead] < first_live_step) dead++;
  next->quarantine += dead;
  next->quarantine_count -= dead;
}

/* Whether there is anything to do, before a manifest is built for it. */
static lake_status precheck(const lki_manifest *base, const lki_change *change, uint32_t *index, lake_error *err) {
  lake_status s = LAKE_OK;
  if (change->kind == LKI_CHANGE_APPEND || change->kind == LKI_CHANGE_RETIRE) {
    s = own_entry(base, change, index, err);
    if (s != LAKE_OK) return s;
    const lki_producer_entry *p = &base->producers[*index];
    if (change->kind == LKI_CHANGE_RETIRE && p->retired) return LAKE_EXISTS;
    if (change->kind == LKI_CHANGE_APPEND && change->first_seq + change->descriptor_count <= p->next_seq)
      return LAKE_EXISTS;
  }
  if (change->kind == LKI_CHANGE_SEAL && base->sealed) return LAKE_EXISTS;
  if (change->kind == LKI_CHANGE_TRIM) return precheck_trim(base, change, err);
  if (base->sealed && change->kind != LKI_CHANGE_RETIRE && !LKI_PLANTED(SEALED_TAKES_APPENDS))
    return lki_fail(err, LAKE_END, "the stream was sealed at %" PRIu64 " steps; nothing can be appended",
                    base->next_step);
  return LAKE_OK;
}

static lake_status apply_change(lki_manifest *next, const lki_change *change, uint32_t index, lake_error *err) {
  switch (change->kind) {
  case LKI_CHANGE_CLAIM: return apply_claim(next, change, err);
  case LKI_CHANGE_APPEND: return apply_append(next, change, index, err);
  case LKI_CHANGE_RETIRE:
    next->producers[index].retired = true;
    next->producers[index].last_version = next->version;
    return LAKE_OK;
  case LKI_CHANGE_SEAL: next->sealed = true; return LAKE_OK;
  case LKI_CHANGE_TRIM: apply_trim(next, change->first_live_step); return LAKE_OK;
  }
  return lki_fail(err, LAKE_INTERNAL, "unknown change %d", (int)change->kind);
}

/* What others announced: only what fits exactly, since nobody who could rebase it is asked. */
static lake_status apply_cargo(lki_manifest *next, const lki_cargo *cargo, lake_error *err) {
  for (uint32_t i = 0; i < cargo->count && !next->sealed; i++) {
    const lki_change *append = &cargo->appends[i];
    int64_t index = lki_manifest_find_producer(next, append->producer_id);
    if (index < 0) continue;
    const lki_producer_entry *p = &next->producers[index];
    if (p->next_seq < append->first_seq && LKI_PLANTED(CARGO_OF_ANY_SEQ) && p->epoch == append->epoch)
      next->producers[index].next_seq = append->first_seq;
    if ((p->epoch != append->epoch && !LKI_PLANTED(CARGO_OF_ANY_EPOCH)) || p->next_seq != append->first_seq || append->offset < p->offset) continue;
    lake_status s = apply_append(next, append, (uint32_t)index, err);
    if (s != LAKE_OK) return s;
  }
  return LAKE_OK;
}

static uint32_t added_count(const lki_change *change, const lki_cargo *cargo) {
  uint32_t count = change->kind == LKI_CHANGE_APPEND ? change->descriptor_count : 0;
  for (uint32_t i = 0; cargo != NULL && i < cargo->count; i++) count += cargo->appends[i].descriptor_count;
  return count;
}

lake_status lki_manifest_apply(lake_env *env, const lki_manifest *base, const lki_change *change,
                               const lki_cargo *cargo, const lki_sealing *sealing, const lki_stamp *stamp,
                               lki_manifest **out, lake_error *err) {
  uint32_t index = 0;
  lake_status s = precheck(base, change, &index, err);
  if (s != LAKE_OK) return s;
  lki_manifest *next = lki_manifest_new(env);
  if (next == NULL || !copy_base(next, base, sealing, added_count(change, cargo))) {
    s = lki_fail(err, LAKE_NOMEM, "out of memory for a manifest");
    goto done;
  }
  next->namespace_id = stamp->namespace_id;
  next->version = base->version + 1;
  next->attempt = stamp->attempt;
  next->previous = base->attempt;
  next->writer = copy_text(&next->arena, stamp->writer);
  if (next->writer == NULL) {
    s = lki_fail(err, LAKE_NOMEM, "out of memory for a manifest");
    goto done;
  }
  s = apply_change(next, change, index, err);
  if (s == LAKE_OK && cargo != NULL) s = apply_cargo(next, cargo, err);
  if (s == LAKE_OK && !LKI_PLANTED_BLIND) s = lki_manifest_check(next, err);
  if (s == LAKE_OK && !LKI_PLANTED_BLIND) s = lki_manifest_check_successor(base, next, err);
  if (s == LAKE_OK) {
    *out = next;
    next = NULL;
  } else if (s == LAKE_CORRUPT) {
    /* Not the store's fault: what we were about to write is wrong. */
    lki_error_prefix(err, "refusing to write version %" PRIu64, base->version + 1);
    s = LAKE_INTERNAL;
    if (err != NULL) err->status = s;
  }
done:
  lki_manifest_release(next);
  return s;
}

uint32_t lki_manifest_active_producers(const lki_manifest *manifest) {
  uint32_t live = 0;
  for (uint32_t i = 0; i < manifest->producer_count; i++)
    if (!manifest->producers[i].retired) live++;
  /* Versions are the clock here: in a window of several rounds of everybody, whoever works has committed. */
  const uint64_t window = 32 + (uint64_t)live * 4;
  uint32_t active = 0;
  for (uint32_t i = 0; i < manifest->producer_count; i++) {
    const lki_producer_entry *p = &manifest->producers[i];
    if (!p->retired && p->last_version + window >= manifest->version) active++;
  }
  return active > 0 ? active : 1;
}

void lki_segments_foldable(const lki_segment_ref *refs, uint32_t count, uint32_t *first, uint32_t *fold_count) {
  *first = 0;
  *fold_count = 0;
  /* Levels fall from old to new, so equal levels stand together. The newest full run is folded first. */
  uint32_t end = count;
  while (end > 0) {
    uint32_t begin = end - 1;
    while (begin > 0 && refs[begin - 1].level == refs[end - 1].level) begin--;
    if (end - begin >= LKI_SEGMENT_FANOUT && refs[begin].level < LKI_SEGMENT_LEVEL_MAX) {
      *first = begin;
      *fold_count = LKI_SEGMENT_FANOUT;
      return;
    }
    end = begin;
  }
}
