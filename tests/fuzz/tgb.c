/* TGB objects: header, footer and frames, as they are and with the checksums put right. */
#include "base/buffer.h"
#include "base/checksum.h"
#include "base/env.h"
#include "support/fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long accepted;

static void put_u64(uint8_t *p, uint64_t value) {
  for (int i = 0; i < 8; i++) p[i] = (uint8_t)(value >> (8 * i));
}

static void try_frame(lake_bytes frame, lki_frame_key key) {
  lake_error err = LAKE_ERROR_INIT;
  uint64_t slice_bytes = 0;
  bool compressed = false;
  lake_bytes slice = {NULL, 0};
  lake_status s = lki_frame_check(frame, key, &slice_bytes, &compressed, &err);
  if (s != LAKE_OK) {
    fuzz_expect_refusal(s, &err);
    return;
  }
  fuzz_expect(compressed || slice_bytes + LKI_FRAME_TRAILER_BYTES == frame.bytes,
              "a raw slice of another length");
  if (slice_bytes > 1 << 26) return; /* true to what its zstd frame claims; the caller's limit decides */
  void *memory = lki_alloc(fuzz_env(), (size_t)slice_bytes);
  s = lki_frame_decode(fuzz_env(), frame, &slice, memory, (size_t)slice_bytes, &err);
  if (s == LAKE_OK) {
    accepted++;
    fuzz_expect(slice.bytes == slice_bytes, "a slice of another length");
  } else {
    fuzz_expect_refusal(s, &err);
  }
  lki_free(fuzz_env(), memory);
}

static void try_object(uint8_t *data, size_t bytes, bool repair) {
  lake_error err = LAKE_ERROR_INIT;
  lki_arena arena;
  lki_tgb_footer footer;
  lake_bytes object = {data, bytes};
  lki_arena_init(&arena, fuzz_env());
  lake_status s = lki_tgb_header_check(object, "fuzz", &err);
  if (s != LAKE_OK) fuzz_expect_refusal(s, &err);
  s = lki_tgb_footer_decode(fuzz_env(), object, bytes, "fuzz", &arena, &footer, &err);
  if (s != LAKE_OK) fuzz_expect_refusal(s, &err);
  uint64_t offset = 0, frame_bytes = 0;
  for (uint32_t i = 0; s == LAKE_OK && i < footer.slice_count; i++) {
    lki_descriptor d = {.slice_count = footer.slice_count,
                        .layout = LKI_LAYOUT_PACKED,
                        .frame_bytes_each = footer.frame_bytes_each};
    lki_frame_key key = {lki_tgb_hash(&footer.namespace_id, footer.producer_id, footer.epoch, footer.seq), i};
    fuzz_expect(lki_frame_locate(&d, i, &offset, &frame_bytes, &err) == LAKE_OK, err.text);
    fuzz_expect(offset + frame_bytes <= bytes, "a frame past the object's end");
    lake_bytes frame = {data + offset, (size_t)frame_bytes};
    if (repair) {
      size_t n = frame.bytes - 8;
      put_u64(data + offset + n, lki_checksum(frame.data, n, key.tgb_hash));
    }
    try_frame(frame, key);
  }
  lki_arena_free(&arena);
  fuzz_expect_nothing_left();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
  if (copy == NULL) abort();
  memcpy(copy, data, bytes);
  try_object(copy, bytes, false);
  lake_bytes whole = {copy, bytes};
  lki_frame_key key = {7, 0};
  try_frame(whole, key);
  if (bytes >= 24) {
    size_t footer_bytes = 0;
    for (int i = 3; i >= 0; i--) footer_bytes = footer_bytes << 8 | copy[bytes - 24 + (size_t)i];
    if (footer_bytes >= 24 && footer_bytes <= bytes) {
      size_t start = bytes - footer_bytes;
      memcpy(copy + bytes - 16, "LAKE-FTR", 8);
      put_u64(copy + bytes - 8, lki_checksum(copy + start, footer_bytes - 8, 0));
      try_object(copy, bytes, true);
    }
  }
  free(copy);
  return 0;
}

#ifndef LAKE_LIBFUZZER
int main(int argc, char **argv) {
  static const char *const suffixes[] = {".tgb", NULL};
  int rc = fuzz_main(argc, argv, suffixes);
  printf("%lu accepted\n", accepted);
  fuzz_expect(argc > 1 || accepted > 100, "hardly any input was accepted");
  return rc;
}
#endif
