/* Reading one slice: range from the descriptor, one request, every byte checked before it is handed on. A reply that
 * fails its checks is fetched again by the one loop of store/checked.c. */
#include "base/buffer.h"
#include "base/env.h"
#include "format/names.h"
#include "store/checked.h"
#include "tgb/tgb.h"
#include <inttypes.h>
#include <string.h>

void lki_slice_free(lki_slice *slice) {
  if (slice->memory != NULL) lki_free(slice->env, slice->memory);
  memset(slice, 0, sizeof *slice);
}

static lake_status missing(const char *name, lake_error *err) {
  return lki_fail(err, LAKE_CORRUPT, "%s is missing though a committed step refers to it; restore the object", name);
}

typedef struct footer_check {
  lake_env *env;
  const lki_tgb_ref *tgb;
  const char *name;
  lki_arena *arena;
  lki_tgb_footer *footer;
} footer_check;

static lake_status check_footer(void *ctx, lake_bytes bytes, const lake_object_info *info, lake_error *err) {
  footer_check *c = ctx;
  const lki_descriptor *d = c->tgb->descriptor;
  if (info->object_bytes != d->object_bytes)
    return lki_fail(err, LAKE_CORRUPT, "it has %" PRIu64 " bytes, its descriptor says %" PRIu64,
                    info->object_bytes, d->object_bytes);
  lki_tgb_footer footer;
  lake_status s = lki_tgb_footer_decode(c->env, bytes, d->object_bytes, c->name, c->arena, &footer, err);
  if (s != LAKE_OK) return s;
  if (footer.epoch != d->epoch || footer.seq != d->seq || footer.slice_count != d->slice_count ||
      !lki_id_equal(footer.namespace_id, *c->tgb->namespace_id) ||
      strcmp(footer.producer_id, c->tgb->producer_id) != 0)
    return lki_fail(err, LAKE_CORRUPT, "it is another TGB's object");
  *c->footer = footer;
  return LAKE_OK;
}

lake_status lki_tgb_read_footer(lake_store *store, const lki_tgb_ref *tgb, lake_deadline deadline, lki_arena *arena,
                                lki_tgb_footer *footer, lake_error *err) {
  const lki_descriptor *d = tgb->descriptor;
  char name[LKI_NAME_BYTES];
  lki_name_tgb(name, tgb->producer_id, d->epoch, d->seq);
  lake_buffer bytes;
  lki_buffer_init(&bytes, lki_store_env(store), LKI_FOOTER_BYTES_MAX);
  footer_check check = {lki_store_env(store), tgb, name, arena, footer};
  lake_status s = lki_store_get_checked(store, name, lki_range_suffix(d->footer_bytes), &bytes, check_footer, &check,
                                        deadline, err);
  lki_buffer_free(&bytes);
  return s == LAKE_NOTFOUND ? missing(name, err) : s;
}

/* Where the frame lies; reads the footer when the descriptor does not list the frames. */
static lake_status locate(lake_store *store, const lki_tgb_ref *tgb, uint32_t slice, lake_deadline deadline,
                          uint64_t *offset, uint64_t *bytes, lake_error *err) {
  if (tgb->descriptor->layout != LKI_LAYOUT_FOOTER)
    return lki_frame_locate(tgb->descriptor, slice, offset, bytes, err);
  lki_arena arena;
  lki_arena_init(&arena, lki_store_env(store));
  lki_tgb_footer footer;
  lake_status s = lki_tgb_read_footer(store, tgb, deadline, &arena, &footer, err);
  if (s == LAKE_OK) {
    lki_descriptor packed = *tgb->descriptor;
    packed.layout = LKI_LAYOUT_PACKED;
    packed.frame_bytes_each = footer.frame_bytes_each;
    s = lki_frame_locate(&packed, slice, offset, bytes, err);
  }
  lki_arena_free(&arena);
  return s;
}

typedef struct frame_check {
  lake_env *env;
  lki_frame_key key;
  unsigned char *memory; /* where the frame was read to; the slice's once it turns out to be a view */
  lki_slice slice;
} frame_check;

/* Checks a frame and turns it into a slice: a view of the memory it was read to, or decompressed beside it. */
static lake_status open_frame(void *ctx, lake_bytes frame, const lake_object_info *info, lake_error *err) {
  (void)info;
  frame_check *c = ctx;
  uint64_t slice_bytes = 0;
  bool compressed = false;
  lake_status s = lki_frame_check(frame, c->key, &slice_bytes, &compressed, err);
  if (s != LAKE_OK) return s;
  lki_slice slice = {.env = c->env, .stored_bytes = frame.bytes, .memory = c->memory};
  if (compressed) {
    slice.memory = lki_alloc_aligned(c->env, LKI_BUFFER_ALIGN, (size_t)slice_bytes);
    if (slice.memory == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for %" PRIu64 " bytes", slice_bytes);
  }
  s = lki_frame_decode(c->env, frame, &slice.view, compressed ? slice.memory : NULL, (size_t)slice_bytes, err);
  if (s == LAKE_OK)
    c->slice = slice;
  else if (compressed)
    lki_free(c->env, slice.memory);
  return s;
}

lake_status lki_tgb_read_slice(lake_store *store, const lki_tgb_ref *tgb, uint32_t slice, lake_deadline deadline,
                               lki_slice *out, lake_error *err) {
  lake_env *env = lki_store_env(store);
  const lki_descriptor *d = tgb->descriptor;
  char name[LKI_NAME_BYTES];
  lki_name_tgb(name, tgb->producer_id, d->epoch, d->seq);
  uint64_t offset = 0, frame_bytes = 0;
  lake_status s = locate(store, tgb, slice, deadline, &offset, &frame_bytes, err);
  if (s != LAKE_OK) return s;
  if (frame_bytes > SIZE_MAX / 2) return lki_fail(err, LAKE_CORRUPT, "%s: slice %u is absurdly long", name, slice);
  unsigned char *memory = lki_alloc_aligned(env, LKI_BUFFER_ALIGN, (size_t)frame_bytes);
  if (memory == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for %" PRIu64 " bytes of a slice", frame_bytes);
  frame_check check = {.env = env, .memory = memory};
  check.key.tgb_hash = lki_tgb_hash(tgb->namespace_id, tgb->producer_id, d->epoch, d->seq);
  check.key.slice = slice;
  lake_buffer buffer;
  lki_buffer_init_fixed(&buffer, env, memory, (size_t)frame_bytes);
  s = lki_store_get_checked(store, name, lki_range_exact(offset, frame_bytes), &buffer, open_frame, &check, deadline,
                            err);
  if (s == LAKE_NOTFOUND) s = missing(name, err);
  if (check.slice.memory != memory) lki_free(env, memory);
  if (s == LAKE_OK)
    *out = check.slice;
  else if (s != LAKE_NOTFOUND)
    lki_error_prefix(err, "slice %u", slice);
  return s;
}
