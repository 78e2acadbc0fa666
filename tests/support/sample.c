#include "support/sample.h"
#include "base/buffer.h"
#include "base/env.h"
#include "support/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *p) {
  if (p == NULL) abort();
  return p;
}

uint64_t sample_number(lki_rng *rng, unsigned bits_max) {
  unsigned bits = (unsigned)lki_rng_below(rng, bits_max + 1);
  return bits == 0 ? 0 : lki_rng_next(rng) >> (64 - bits);
}

lki_id sample_id(lki_rng *rng) {
  lki_id id;
  for (int i = 0; i < LKI_ID_BYTES; i++) id.bytes[i] = (unsigned char)lki_rng_below(rng, 256);
  return id;
}

static char *sample_text(lki_arena *arena, lki_rng *rng, size_t bytes_max, bool component) {
  static const char alphabet[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:\" \\/\t";
  size_t bytes = component ? 1 + lki_rng_below(rng, bytes_max) : lki_rng_below(rng, bytes_max + 1);
  char *text = must(lki_arena_alloc(arena, bytes + 1));
  for (size_t i = 0; i < bytes; i++)
    text[i] = alphabet[lki_rng_below(rng, component ? 65 : sizeof alphabet - 1)];
  if (component && text[0] == '.') text[0] = 'p';
  return text;
}

static uint64_t align64(uint64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/* A shape that a TGB can have; often that of the one before, as in a run of real ones. */
static void sample_shape(lki_arena *arena, lki_rng *rng, const lki_descriptor *before, lki_descriptor *d) {
  if (before != NULL && lki_rng_below(rng, 3) > 0) {
    uint32_t producer = d->producer;
    uint64_t epoch = d->epoch, seq = d->seq;
    *d = *before;
    d->producer = producer;
    d->epoch = epoch;
    d->seq = seq;
    return;
  }
  d->layout = (lki_layout_kind)(1 + lki_rng_below(rng, 3));
  d->slice_count = 1 + (uint32_t)lki_rng_below(rng, d->layout == LKI_LAYOUT_PACKED ? 60 : 65536);
  d->footer_bytes = 40 + (uint32_t)sample_number(rng, 12);
  if (d->layout == LKI_LAYOUT_UNIFORM) {
    d->frame_bytes = LKI_FRAME_TRAILER_BYTES + sample_number(rng, 40);
    d->object_bytes = 64 + d->slice_count * align64(d->frame_bytes) + d->footer_bytes;
  } else if (d->layout == LKI_LAYOUT_PACKED) {
    uint64_t *each = must(lki_arena_alloc(arena, d->slice_count * sizeof *each)), end = 64;
    for (uint32_t i = 0; i < d->slice_count; i++) {
      each[i] = LKI_FRAME_TRAILER_BYTES + sample_number(rng, 40);
      end += align64(each[i]);
    }
    d->frame_bytes_each = each;
    d->object_bytes = end + d->footer_bytes;
  } else {
    d->object_bytes = 64 + d->footer_bytes + sample_number(rng, 60);
  }
}

/* Descriptors in order; next_seq[producer] moves on, epoch[producer] sometimes rises. */
static lki_descriptor *sample_descriptors(lki_arena *arena, lki_rng *rng, uint32_t count,
                                          uint32_t producer_count, uint64_t *next_seq, uint64_t *epoch) {
  lki_descriptor *descriptors = must(lki_arena_alloc(arena, count * sizeof *descriptors));
  for (uint32_t i = 0; i < count; i++) {
    lki_descriptor *d = &descriptors[i];
    d->producer = (uint32_t)lki_rng_below(rng, producer_count);
    if (lki_rng_below(rng, 10) == 0) epoch[d->producer]++;
    d->epoch = epoch[d->producer];
    d->seq = next_seq[d->producer]++;
    sample_shape(arena, rng, i > 0 ? &descriptors[i - 1] : NULL, d);
  }
  return descriptors;
}

/* References that run on from first_step; returns where they end. */
static uint64_t sample_refs(lki_rng *rng, uint64_t first_step, uint32_t level, lki_segment_ref *refs,
                            uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    refs[i].level =
        level <= LKI_SEGMENT_LEVEL_MAX ? level : (uint32_t)lki_rng_below(rng, LKI_SEGMENT_LEVEL_MAX + 1);
    refs[i].first_step = first_step;
    refs[i].step_count = 1 + sample_number(rng, 30);
    refs[i].object_bytes = 41 + (uint32_t)sample_number(rng, 23);
    refs[i].version = lki_rng_next(rng) >> lki_rng_below(rng, 64);
    refs[i].checksum = lki_rng_next(rng);
    first_step += refs[i].step_count;
  }
  return first_step;
}

static void sample_producers(lki_arena *arena, lki_rng *rng, lki_manifest *m, uint64_t *next_seq,
                             uint64_t *epoch) {
  for (uint32_t i = 0; i < m->producer_count; i++) {
    lki_producer_entry *p = &m->producers[i];
    char id[LKI_PRODUCER_ID_BYTES_MAX + 1];
    snprintf(id, sizeof id, "%s-%u", sample_text(arena, rng, 50, true), i); /* unique by the number */
    p->id = must(lki_arena_strndup(arena, id, strlen(id)));
    p->epoch = epoch[i];
    p->next_seq = next_seq[i];
    p->offset = lki_rng_next(rng) >> lki_rng_below(rng, 64);
    p->state.bytes = lki_rng_below(rng, 4) == 0 ? lki_rng_below(rng, LKI_STATE_BYTES_MAX + 1) : 0;
    unsigned char *state = must(lki_arena_alloc(arena, p->state.bytes));
    for (size_t j = 0; j < p->state.bytes; j++) state[j] = (unsigned char)lki_rng_below(rng, 256);
    p->state.data = state;
    p->last_version = lki_rng_below(rng, m->version + (m->version < UINT64_MAX));
    p->retired = lki_rng_below(rng, 4) == 0;
    p->owner = sample_text(arena, rng, LKI_OWNER_BYTES_MAX, false);
  }
}

lki_manifest *sample_manifest(lake_env *env, lki_rng *rng) {
  lki_manifest *m = must(lki_manifest_new(env));
  uint64_t next_seq[16], epoch[16];
  m->namespace_id = sample_id(rng);
  m->attempt = sample_id(rng);
  m->previous = sample_id(rng);
  m->version = 1 + sample_number(rng, 63);
  m->writer = sample_text(&m->arena, rng, 190, false);
  m->sealed = lki_rng_below(rng, 4) == 0;
  m->producer_count = (uint32_t)lki_rng_below(rng, 16);
  m->producers = must(lki_arena_alloc(&m->arena, m->producer_count * sizeof *m->producers));
  for (int i = 0; i < 16; i++) {
    next_seq[i] = sample_number(rng, 62);
    epoch[i] = 1 + sample_number(rng, 40);
  }
  m->segment_count = (uint32_t)lki_rng_below(rng, 20);
  m->segments = must(lki_arena_alloc(&m->arena, m->segment_count * sizeof *m->segments));
  uint64_t first = sample_number(rng, 50);
  m->tail_first_step = sample_refs(rng, first, LKI_SEGMENT_LEVEL_MAX + 1, m->segments, m->segment_count);
  m->tail_count = m->producer_count > 0 ? (uint32_t)lki_rng_below(rng, 200) : 0;
  m->next_step = m->tail_first_step + m->tail_count;
  m->tail = sample_descriptors(&m->arena, rng, m->tail_count, m->producer_count, next_seq, epoch);
  sample_producers(&m->arena, rng, m, next_seq, epoch);
  m->first_live_step = first + lki_rng_below(rng, m->next_step - first + 1);
  m->quarantine_count = m->next_step > 0 ? (uint32_t)lki_rng_below(rng, 5) : 0;
  m->quarantine = must(lki_arena_alloc(&m->arena, m->quarantine_count * sizeof *m->quarantine));
  uint64_t step = 0;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < m->quarantine_count; i++) {
    uint64_t left = m->next_step - step;
    if (left == 0) break;
    m->quarantine[kept] = step + lki_rng_below(rng, left);
    step = m->quarantine[kept++] + 1;
  }
  m->quarantine_count = kept;
  return m;
}

lki_segment *sample_segment(lake_env *env, lki_rng *rng) {
  lki_segment *segment = must(lki_segment_new(env));
  uint64_t next_seq[16], epoch[16];
  segment->namespace_id = sample_id(rng);
  segment->first_step = sample_number(rng, 50);
  segment->level = (uint32_t)lki_rng_below(rng, 4);
  if (segment->level > 0) {
    segment->child_count = 1 + (uint32_t)lki_rng_below(rng, 20);
    segment->children =
        must(lki_arena_alloc(&segment->arena, segment->child_count * sizeof *segment->children));
    segment->step_count =
        sample_refs(rng, segment->first_step, segment->level - 1, segment->children, segment->child_count) -
        segment->first_step;
    return segment;
  }
  segment->producer_count = 1 + (uint32_t)lki_rng_below(rng, 16);
  segment->producer_ids = must(lki_arena_alloc(&segment->arena, segment->producer_count * sizeof(char *)));
  for (uint32_t i = 0; i < segment->producer_count; i++)
    segment->producer_ids[i] = sample_text(&segment->arena, rng, 64, true);
  for (int i = 0; i < 16; i++) {
    next_seq[i] = sample_number(rng, 62);
    epoch[i] = 1 + sample_number(rng, 40);
  }
  segment->descriptor_count = 1 + (uint32_t)lki_rng_below(rng, 300);
  segment->step_count = segment->descriptor_count;
  segment->descriptors = sample_descriptors(&segment->arena, rng, segment->descriptor_count,
                                            segment->producer_count, next_seq, epoch);
  return segment;
}

lki_schema *sample_schema(lake_env *env, lki_rng *rng) {
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  lake_tensor_spec specs[8];
  lki_schema *schema = NULL;
  lki_arena arena;
  lki_arena_init(&arena, env);
  memset(specs, 0, sizeof specs);
  options.mesh.d_count = 1 + (uint32_t)lki_rng_below(rng, 256);
  options.mesh.c_count = 1 + (uint32_t)lki_rng_below(rng, 256);
  options.tensor_count = (uint32_t)lki_rng_below(rng, 9);
  options.tensors = specs;
  options.rows_per_slice = options.tensor_count > 0 ? 1 + (uint32_t)sample_number(rng, 10) : 1;
  options.codec = (uint32_t)lki_rng_below(rng, 3);
  options.tail_max = (uint32_t)lki_rng_below(rng, LKI_TAIL_MAX_MAX + 1);
  options.version_block = (uint32_t)lki_rng_below(rng, LKI_VERSION_BLOCK_MAX + 1);
  options.note =
      lki_rng_below(rng, 2) == 0 ? sample_text(&arena, rng, LKI_NOTE_BYTES_MAX, false) : "gr\xc3\xbc\xc3\x9f";
  for (uint32_t i = 0; i < options.tensor_count; i++) {
    snprintf(specs[i].name, sizeof specs[i].name, "t_%u", i);
    specs[i].dtype = (lake_dtype)(1 + lki_rng_below(rng, 13));
    specs[i].rank = (uint32_t)lki_rng_below(rng, LAKE_TENSOR_RANK_MAX + 1);
    for (uint32_t j = 0; j < specs[i].rank; j++) specs[i].shape[j] = 1 + lki_rng_below(rng, 8);
  }
  if (lki_schema_new(env, &options, sample_id(rng), &schema, NULL) != LAKE_OK) abort();
  lki_arena_free(&arena);
  return schema;
}

lake_bytes *sample_slices(lki_arena *arena, lki_rng *rng, uint32_t *slice_count) {
  uint32_t count = 1 + (uint32_t)lki_rng_below(rng, 40);
  bool equal = lki_rng_below(rng, 3) == 0;
  size_t bytes = (size_t)sample_number(rng, 12);
  lake_bytes *slices = must(lki_arena_alloc(arena, count * sizeof *slices));
  for (uint32_t i = 0; i < count; i++) {
    slices[i].bytes = equal ? bytes : (size_t)sample_number(rng, 12);
    unsigned char *data = must(lki_arena_alloc(arena, slices[i].bytes));
    bool noise = lki_rng_below(rng, 2) == 0;
    for (size_t j = 0; j < slices[i].bytes; j++)
      data[j] = (unsigned char)(noise ? lki_rng_next(rng) : (j / 16) & 0xff);
    slices[i].data = data;
  }
  *slice_count = count;
  return slices;
}

/* The size of each block stands in front of it, in room that keeps the alignment. */
static void *counting_alloc(void *ctx, size_t align, size_t bytes) {
  sample_memory *memory = ctx;
  memory->alloc_count++;
  if (memory->fail_at > 0 && memory->alloc_count >= memory->fail_at) return NULL;
  size_t room = align > 64 ? align : 64;
  unsigned char *p = aligned_alloc(room, (room + bytes + room - 1) / room * room);
  if (p == NULL) return NULL;
  size_t note[2] = {bytes, room};
  memcpy(p + room - sizeof note, note, sizeof note);
  memory->live_bytes += bytes;
  memory->live_count++;
  if (memory->live_bytes > memory->peak_bytes) memory->peak_bytes = memory->live_bytes;
  return p + room;
}

static void counting_free(void *ctx, void *p) {
  sample_memory *memory = ctx;
  size_t note[2];
  if (p == NULL) return;
  memcpy(note, (unsigned char *)p - sizeof note, sizeof note);
  memory->live_bytes -= note[0];
  memory->live_count--;
  free((unsigned char *)p - note[1]);
}

lake_env *sample_env(sample_memory *memory) {
  lake_env_options options = LAKE_ENV_OPTIONS_INIT;
  lake_env *env = NULL;
  memset(memory, 0, sizeof *memory);
  options.alloc = counting_alloc;
  options.free = counting_free;
  options.alloc_ctx = memory;
  if (lake_env_open(&options, &env, NULL) != LAKE_OK) abort();
  return env;
}
