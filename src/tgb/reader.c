/* Reading one slice: range from the descriptor, one request, every byte checked before it is handed on. A reply that
 * fails its checks is fetched again, since the fault may lie on the way; after LKI_READ_TRIES it is CORRUPT. */
#include "base/buffer.h"
#include "base/env.h"
#include "format/names.h"
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

lake_status lki_tgb_read_footer(lake_store *store, const lki_tgb_ref *tgb, lake_deadline deadline, lki_arena *arena,
                                lki_tgb_footer *footer, lake_error *err) {
  const lki_descriptor *d = tgb->descriptor;
  char name[LKI_NAME_BYTES];
  lki_name_tgb(name, tgb->producer_id, d->epoch, d->seq);
  lake_buffer bytes;
  lki_buffer_init(&bytes, lki_store_env(store), LKI_FOOTER_BYTES_MAX);
  lake_status s = LAKE_CORRUPT;
  for (int i = 0; i < LKI_READ_TRIES && s == LAKE_CORRUPT; i++) {
    lake_object_info info = {0};
    bytes.bytes = 0;
    s = lki_store_get(store, name, lki_range_suffix(d->footer_bytes), &bytes, &info, deadline, err);
    if (s == LAKE_NOTFOUND) s = missing(name, err);
    if (s == LAKE_OK && info.object_bytes != d->object_bytes)
      s = lki_fail(err, LAKE_CORRUPT, "%s has %" PRIu64 " bytes, its descriptor says %" PRIu64 "; restore the object",
                   name, info.object_bytes, d->object_bytes);
    if (s == LAKE_OK)
      s = lki_tgb_footer_decode(lki_store_env(store), lki_buffer_view(&bytes), d->object_bytes, name, arena, footer,
                                err);
    if (s == LAKE_OK &&
        (footer->epoch != d->epoch || footer->seq != d->seq || footer->slice_count != d->slice_count ||
         !lki_id_equal(footer->namespace_id, *tgb->namespace_id) || strcmp(footer->producer_id, tgb->producer_id) != 0))
      s = lki_fail(err, LAKE_CORRUPT, "%s is another TGB's object; restore the object", name);
  }
  lki_buffer_free(&bytes);
  return s;
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

/* Checks the frame in `memory` and turns it into a slice; *out owns memory only on OK and only if it is a view. */
static lake_status open_frame(lake_env *env, unsigned char *memory, uint64_t frame_bytes, lki_frame_key key,
                              lki_slice *out, lake_error *err) {
  lake_bytes frame = {memory, (size_t)frame_bytes};
  uint64_t slice_bytes = 0;
  bool compressed = false;
  lake_status s = lki_frame_check(frame, key, &slice_bytes, &compressed, err);
  if (s != LAKE_OK) return s;
  lki_slice slice = {.env = env, .stored_bytes = frame_bytes, .memory = memory};
  if (compressed) {
    slice.memory = lki_alloc_aligned(env, LKI_BUFFER_ALIGN, (size_t)slice_bytes);
    if (slice.memory == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for %" PRIu64 " bytes", slice_bytes);
  }
  s = lki_frame_decode(env, frame, &slice.view, compressed ? slice.memory : NULL, (size_t)slice_bytes, err);
  if (s == LAKE_OK)
    *out = slice;
  else if (compressed)
    lki_free(env, slice.memory);
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
  lki_frame_key key = {lki_tgb_hash(tgb->namespace_id, tgb->producer_id, d->epoch, d->seq), slice};
  lki_slice slice_out = {0};
  s = LAKE_CORRUPT;
  for (int i = 0; i < LKI_READ_TRIES && s == LAKE_CORRUPT; i++) {
    lake_buffer buffer;
    lki_buffer_init_fixed(&buffer, env, memory, (size_t)frame_bytes);
    s = lki_store_get(store, name, lki_range_exact(offset, frame_bytes), &buffer, NULL, deadline, err);
    if (s == LAKE_NOTFOUND) s = missing(name, err);
    if (s == LAKE_OK) {
      s = open_frame(env, memory, frame_bytes, key, &slice_out, err);
      if (s != LAKE_OK) lki_error_prefix(err, "%s slice %u", name, slice);
    }
  }
  if (slice_out.memory != memory) lki_free(env, memory);
  if (s == LAKE_OK) *out = slice_out;
  return s;
}
