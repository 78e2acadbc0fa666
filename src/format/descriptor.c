/* Descriptors, frame lists and segment references: docs/format/manifest.md. What follows from what came
 * before is not written: a producer's next seq, the shape of the descriptor just before, a reference's first
 * step. Invariant: an array is allocated only after its count was found to fit into the bytes that are left.
 * Pure. */
#include "format/descriptor.h"
#include "base/env.h"
#include <inttypes.h>
#include <string.h>

#define HEAD_LAYOUT 3u /* bits 0 and 1: lki_layout_kind */
#define HEAD_NEXT 4u   /* epoch and seq follow from the producer's last descriptor here */
#define HEAD_SAME 8u   /* the shape is that of the descriptor just before; UNIFORM only */
#define DESCRIPTOR_BYTES_MIN 2
#define SEGMENT_REF_BYTES_MIN 11
#define FRAME_BYTES_MAX (LKI_SLICE_BYTES_MAX + LKI_FRAME_TRAILER_BYTES)

lake_status lki_fail_damaged(const char *what, const char *part, lake_error *err) {
  return lki_fail(err, LAKE_CORRUPT, "%s: damaged: %s", what, part);
}

lake_status lki_fail_memory(const char *what, lake_error *err) {
  return lki_fail(err, LAKE_NOMEM, "%s: out of memory while decoding", what);
}

char *lki_get_text(lki_reader *reader, size_t max, lki_arena *arena) {
  lake_bytes blob = lki_get_blob(reader, max);
  if (reader->bad) return NULL;
  if (blob.bytes > 0 && memchr(blob.data, 0, blob.bytes) != NULL) {
    reader->bad = true;
    return NULL;
  }
  return lki_arena_strndup(arena, blob.data, blob.bytes);
}

static uint64_t smallest(const uint64_t *numbers, uint32_t count) {
  uint64_t least = UINT64_MAX;
  for (uint32_t i = 0; i < count; i++)
    if (numbers[i] < least) least = numbers[i];
  return least;
}

void lki_put_frame_list(lki_writer *writer, const uint64_t *frame_bytes_each, uint32_t slice_count) {
  uint64_t base = smallest(frame_bytes_each, slice_count);
  lki_put_varint(writer, base);
  for (uint32_t i = 0; i < slice_count; i++) lki_put_varint(writer, frame_bytes_each[i] - base);
}

static size_t varint_bytes(uint64_t value) {
  size_t n = 1;
  for (; value >= 0x80; value >>= 7) n++;
  return n;
}

size_t lki_frame_list_bytes(const uint64_t *frame_bytes_each, uint32_t slice_count) {
  uint64_t base = smallest(frame_bytes_each, slice_count);
  size_t bytes = varint_bytes(base);
  for (uint32_t i = 0; i < slice_count; i++) bytes += varint_bytes(frame_bytes_each[i] - base);
  return bytes;
}

uint64_t lki_frames_end(const uint64_t *frame_bytes_each, uint32_t slice_count) {
  uint64_t end = LKI_TGB_HEADER_BYTES; /* no overflow: 2^16 frames of at most 2^40 bytes and a little */
  for (uint32_t i = 0; i < slice_count; i++) end += lki_frame_align(frame_bytes_each[i]);
  return end;
}

lake_status lki_get_frame_list(lki_reader *reader, uint32_t slice_count, size_t bytes_max, const char *what,
                               lki_arena *arena, uint64_t **out, lake_error *err) {
  size_t start = reader->at;
  uint64_t base = lki_get_varint(reader, FRAME_BYTES_MAX);
  if (reader->bad || base < LKI_FRAME_TRAILER_BYTES || slice_count > lki_reader_left(reader))
    return lki_fail_damaged(what, "frame list", err);
  uint64_t *each = lki_arena_alloc(arena, (size_t)slice_count * sizeof *each);
  if (each == NULL) return lki_fail_memory(what, err);
  for (uint32_t i = 0; i < slice_count; i++) each[i] = base + lki_get_varint(reader, FRAME_BYTES_MAX - base);
  if (reader->bad || reader->at - start > bytes_max || smallest(each, slice_count) != base)
    return lki_fail_damaged(what, "frame list", err);
  *out = each;
  return LAKE_OK;
}

/* Is the descriptor what a TGB can be? For UNIFORM and PACKED the object's length follows from the frames. */
static bool descriptor_fits(const lki_descriptor *d) {
  if (d->slice_count == 0 || d->slice_count > LKI_SLICE_COUNT_MAX) return false;
  if (d->footer_bytes == 0 || d->footer_bytes > LKI_FOOTER_BYTES_MAX) return false;
  uint64_t end = 0;
  switch (d->layout) {
  case LKI_LAYOUT_UNIFORM:
    if (d->frame_bytes < LKI_FRAME_TRAILER_BYTES || d->frame_bytes > FRAME_BYTES_MAX) return false;
    end = LKI_TGB_HEADER_BYTES + d->slice_count * lki_frame_align(d->frame_bytes);
    return d->object_bytes == end + d->footer_bytes;
  case LKI_LAYOUT_PACKED:
    for (uint32_t i = 0; i < d->slice_count; i++)
      if (d->frame_bytes_each[i] < LKI_FRAME_TRAILER_BYTES || d->frame_bytes_each[i] > FRAME_BYTES_MAX)
        return false;
    return d->object_bytes == lki_frames_end(d->frame_bytes_each, d->slice_count) + d->footer_bytes &&
           lki_frame_list_bytes(d->frame_bytes_each, d->slice_count) <= LKI_PACKED_BYTES_MAX;
  case LKI_LAYOUT_FOOTER:
    return d->object_bytes >= LKI_TGB_HEADER_BYTES + (uint64_t)d->footer_bytes;
  }
  return false;
}

/* What the descriptors before one make known. */
typedef struct history {
  struct last {
    uint64_t epoch, seq;
    bool seen;
  } * last; /* per producer */
  const lki_descriptor *before;
} history;

static bool follows(const history *h, const lki_descriptor *d) {
  const struct last *last = &h->last[d->producer];
  return last->seen && last->epoch == d->epoch && last->seq < UINT64_MAX && last->seq + 1 == d->seq;
}

static bool same_shape(const history *h, const lki_descriptor *d) {
  const lki_descriptor *b = h->before;
  return b != NULL && d->layout == LKI_LAYOUT_UNIFORM && b->layout == LKI_LAYOUT_UNIFORM &&
         d->slice_count == b->slice_count && d->footer_bytes == b->footer_bytes &&
         d->frame_bytes == b->frame_bytes;
}

static void remember(history *h, const lki_descriptor *d) {
  h->last[d->producer].seen = true;
  h->last[d->producer].epoch = d->epoch;
  h->last[d->producer].seq = d->seq;
  h->before = d;
}

static void put_descriptor(lki_writer *writer, const history *h, const lki_descriptor *d) {
  bool next = follows(h, d), same = same_shape(h, d);
  lki_put_u8(writer, (uint8_t)((unsigned)d->layout | (next ? HEAD_NEXT : 0u) | (same ? HEAD_SAME : 0u)));
  lki_put_varint(writer, d->producer);
  if (!next) {
    lki_put_varint(writer, d->epoch);
    lki_put_varint(writer, d->seq);
  }
  if (same) return;
  lki_put_varint(writer, d->slice_count);
  lki_put_varint(writer, d->footer_bytes);
  if (d->layout == LKI_LAYOUT_UNIFORM) lki_put_varint(writer, d->frame_bytes);
  if (d->layout == LKI_LAYOUT_PACKED) lki_put_frame_list(writer, d->frame_bytes_each, d->slice_count);
  if (d->layout == LKI_LAYOUT_FOOTER) lki_put_varint(writer, d->object_bytes);
}

static lake_status history_init(history *h, lake_env *env, uint32_t producer_count, lake_error *err) {
  h->before = NULL;
  h->last = lki_new(env, producer_count * sizeof *h->last);
  return h->last != NULL ? LAKE_OK
                         : lki_fail(err, LAKE_NOMEM, "out of memory for %u descriptors", producer_count);
}

lake_status lki_put_descriptors(lake_env *env, lki_writer *writer, const lki_descriptor *descriptors,
                                uint32_t count, uint32_t producer_count, lake_error *err) {
  history h;
  lake_status s = history_init(&h, env, producer_count, err);
  for (uint32_t i = 0; s == LAKE_OK && i < count; i++) {
    const lki_descriptor *d = &descriptors[i];
    if (d->producer >= producer_count || !descriptor_fits(d)) {
      s = lki_fail(err, LAKE_INVALID, "descriptor %u (seq %" PRIu64 "): its lengths do not fit together", i,
                   d->seq);
      break;
    }
    put_descriptor(writer, &h, d);
    remember(&h, d);
  }
  lki_free(env, h.last);
  return s;
}

static lake_status get_shape(lki_reader *reader, const char *what, lki_arena *arena, lki_descriptor *d,
                             lake_error *err) {
  uint64_t *each = NULL;
  d->slice_count = (uint32_t)lki_get_varint(reader, LKI_SLICE_COUNT_MAX);
  d->footer_bytes = (uint32_t)lki_get_varint(reader, LKI_FOOTER_BYTES_MAX);
  if (reader->bad || d->slice_count == 0) return lki_fail_damaged(what, "descriptor", err);
  switch (d->layout) {
  case LKI_LAYOUT_UNIFORM:
    d->frame_bytes = lki_get_varint(reader, FRAME_BYTES_MAX);
    d->object_bytes =
        LKI_TGB_HEADER_BYTES + d->slice_count * lki_frame_align(d->frame_bytes) + d->footer_bytes;
    return LAKE_OK;
  case LKI_LAYOUT_PACKED: {
    lake_status s = lki_get_frame_list(reader, d->slice_count, LKI_PACKED_BYTES_MAX, what, arena, &each, err);
    if (s != LAKE_OK) return s;
    d->frame_bytes_each = each;
    d->object_bytes = lki_frames_end(each, d->slice_count) + d->footer_bytes;
    return LAKE_OK;
  }
  case LKI_LAYOUT_FOOTER:
    d->object_bytes = lki_get_varint(reader, UINT64_MAX);
    return LAKE_OK;
  }
  return lki_fail_damaged(what, "descriptor", err);
}

static lake_status get_descriptor(lki_reader *reader, const history *h, uint32_t producer_count,
                                  const char *what, lki_arena *arena, lki_descriptor *d, lake_error *err) {
  uint8_t head = lki_get_u8(reader);
  d->layout = (lki_layout_kind)(head & HEAD_LAYOUT);
  d->producer = (uint32_t)lki_get_varint(reader, UINT32_MAX);
  if (reader->bad || d->producer >= producer_count || (head & ~(HEAD_LAYOUT | HEAD_NEXT | HEAD_SAME)) != 0)
    return lki_fail_damaged(what, "descriptor", err);
  const struct last *last = &h->last[d->producer];
  if ((head & HEAD_NEXT) != 0) {
    if (!last->seen || last->seq == UINT64_MAX) return lki_fail_damaged(what, "descriptor", err);
    d->epoch = last->epoch;
    d->seq = last->seq + 1;
  } else {
    d->epoch = lki_get_varint(reader, UINT64_MAX);
    d->seq = lki_get_varint(reader, UINT64_MAX);
  }
  if ((head & HEAD_SAME) != 0) {
    if (h->before == NULL || h->before->layout != LKI_LAYOUT_UNIFORM || d->layout != LKI_LAYOUT_UNIFORM)
      return lki_fail_damaged(what, "descriptor", err);
    d->slice_count = h->before->slice_count;
    d->footer_bytes = h->before->footer_bytes;
    d->frame_bytes = h->before->frame_bytes;
    d->object_bytes = h->before->object_bytes;
  } else {
    lake_status s = get_shape(reader, what, arena, d, err);
    if (s != LAKE_OK) return s;
  }
  if (reader->bad || !descriptor_fits(d)) return lki_fail_damaged(what, "descriptor", err);
  return LAKE_OK;
}

lake_status lki_get_descriptors(lake_env *env, lki_reader *reader, uint32_t count, uint32_t producer_count,
                                const char *what, lki_arena *arena, lki_descriptor **out, lake_error *err) {
  if (count > LKI_DESCRIPTOR_COUNT_MAX || count > lki_reader_left(reader) / DESCRIPTOR_BYTES_MIN)
    return lki_fail_damaged(what, "more descriptors than it has bytes for", err);
  history h;
  lake_status s = history_init(&h, env, producer_count, err);
  if (s != LAKE_OK) return s;
  lki_descriptor *descriptors = lki_arena_alloc(arena, count * sizeof *descriptors);
  if (descriptors == NULL) s = lki_fail_memory(what, err);
  for (uint32_t i = 0; s == LAKE_OK && i < count; i++) {
    s = get_descriptor(reader, &h, producer_count, what, arena, &descriptors[i], err);
    if (s == LAKE_OK) remember(&h, &descriptors[i]);
  }
  lki_free(env, h.last);
  if (s == LAKE_OK) *out = descriptors;
  return s;
}

void lki_put_segment_refs(lki_writer *writer, const lki_segment_ref *refs, uint32_t count) {
  lki_put_varint(writer, count);
  for (uint32_t i = 0; i < count; i++) {
    lki_put_varint(writer, refs[i].level);
    lki_put_varint(writer, refs[i].step_count);
    lki_put_varint(writer, refs[i].object_bytes);
    lki_put_varint(writer, refs[i].version);
    lki_put_u64(writer, refs[i].checksum);
  }
}

lake_status lki_get_segment_refs(lki_reader *reader, uint64_t first_step, uint32_t count_max,
                                 const char *what, lki_arena *arena, lki_segment_ref **out, uint32_t *count,
                                 lake_error *err) {
  uint32_t n = (uint32_t)lki_get_varint(reader, count_max);
  if (reader->bad || n > lki_reader_left(reader) / SEGMENT_REF_BYTES_MIN)
    return lki_fail_damaged(what, "more segment references than it has bytes for", err);
  lki_segment_ref *refs = lki_arena_alloc(arena, n * sizeof *refs);
  if (refs == NULL) return lki_fail_memory(what, err);
  for (uint32_t i = 0; i < n; i++) {
    refs[i].level = (uint32_t)lki_get_varint(reader, LKI_SEGMENT_LEVEL_MAX);
    refs[i].first_step = first_step;
    refs[i].step_count = lki_get_varint(reader, UINT64_MAX - first_step);
    refs[i].object_bytes = (uint32_t)lki_get_varint(reader, LKI_SEGMENT_BYTES_MAX + 40);
    refs[i].version = lki_get_varint(reader, UINT64_MAX);
    refs[i].checksum = lki_get_u64(reader);
    if (reader->bad || refs[i].step_count == 0) return lki_fail_damaged(what, "segment reference", err);
    first_step += refs[i].step_count;
  }
  *out = refs;
  *count = n;
  return LAKE_OK;
}
