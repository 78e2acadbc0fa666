/* Damaged objects of every kind: each single flipped bit and each truncation is refused, with CORRUPT,
 * UNSUPPORTED or, for text that a caller hands in, INVALID, and what is refused has not made the decoder
 * allocate more than the object's own size calls for. */
#include "base/buffer.h"
#include "base/checksum.h"
#include "base/codec.h"
#include "base/env.h"
#include "format/zstd.h"
#include "support/dump.h"
#include "support/sample.h"
#include "support/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sample_memory memory;
static lake_env *env;
static uint64_t seed;

static void expect_refused(const unsigned char *data, size_t bytes, const char *how, size_t at) {
  /* A fresh block of the exact length, so that the address sanitizer sees a read past its end. */
  unsigned char *copy = malloc(bytes > 0 ? bytes : 1);
  char *text = NULL;
  lake_error err = LAKE_ERROR_INIT;
  assert_non_null(copy);
  memcpy(copy, data, bytes);
  lake_bytes object = {copy, bytes};
  size_t live = memory.live_bytes;
  memory.peak_bytes = live;
  lake_status s = dump_object(env, object, &text, &err);
  if (s != LAKE_CORRUPT && s != LAKE_UNSUPPORTED && s != LAKE_INVALID)
    fail_msg("%s at %zu of %zu: %s %s", how, at, bytes, lake_status_name(s), err.text);
  if (text != NULL) fail_msg("%s at %zu: refused, but filled its output", how, at);
  assert_int_equal(memory.live_bytes, live);
  assert_true(memory.peak_bytes - live <= 512 * 1024); /* zstd's context and an arena's first block */
  assert_true(err.text[0] != 0 && err.status == s);
  free(copy);
}

/* Every bit, every shorter length, and longer ones. */
static void damage(lake_buffer *object) {
  char *text = NULL;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(dump_object(env, lki_buffer_view(object), &text, &err), &err);
  free(text);
  size_t bytes = object->bytes;
  for (size_t i = 0; i < bytes * 8; i++) {
    object->data[i / 8] ^= (unsigned char)(1u << (i % 8));
    expect_refused(object->data, bytes, "bit flipped", i);
    object->data[i / 8] ^= (unsigned char)(1u << (i % 8));
  }
  for (size_t n = 0; n < bytes; n++) expect_refused(object->data, n, "truncated", n);
  for (int i = 0; i < 3; i++) {
    assert_ok(lki_buffer_append(object, "\0x\n" + i, 1, &err), &err);
    expect_refused(object->data, object->bytes, "bytes appended", bytes);
  }
  lki_buffer_free(object);
}

static void manifest(void **state) {
  (void)state;
  for (int k = 0; k < 4; k++) {
    lki_rng rng = {seed + 10 + (uint64_t)k};
    lake_error err = LAKE_ERROR_INIT;
    lake_buffer bytes;
    lki_buffer_init(&bytes, env, (size_t)1 << 20);
    do {
      lki_manifest *m = sample_manifest(env, &rng);
      bytes.bytes = 0;
      assert_ok(lki_manifest_encode(env, m, &bytes, &err), &err);
      lki_manifest_release(m);
    } while (bytes.bytes > 1500); /* small, compressed or not */
    damage(&bytes);
  }
}

static void segment(void **state) {
  (void)state;
  for (int k = 0; k < 4; k++) {
    lki_rng rng = {seed + 20 + (uint64_t)k};
    lake_error err = LAKE_ERROR_INIT;
    lake_buffer bytes;
    lki_buffer_init(&bytes, env, (size_t)1 << 20);
    do {
      lki_segment *s = sample_segment(env, &rng);
      bytes.bytes = 0;
      assert_ok(lki_segment_encode(env, s, &bytes, &err), &err);
      lki_segment_release(s);
    } while (bytes.bytes > 1500);
    damage(&bytes);
  }
}

/* The padding between frames is all of a TGB that no checksum covers; nothing reads it. Frames of a multiple
 * of 64 bytes leave none, and header, frames and footer must then catch every flip. */
static void tgb(void **state) {
  (void)state;
  for (int zstd = 0; zstd < 2; zstd++) {
    lake_error err = LAKE_ERROR_INIT;
    unsigned char data[4][992];
    lake_bytes slices[4];
    lki_descriptor d = {0};
    lki_arena arena;
    lake_buffer bytes;
    lki_id id = {{7}};
    lki_rng rng = {seed + 30};
    lki_arena_init(&arena, env);
    lki_buffer_init(&bytes, env, (size_t)1 << 20);
    for (int i = 0; i < 4; i++) {
      slices[i].data = data[i];
      slices[i].bytes = 96;
      for (size_t j = 0; j < 96; j++) data[i][j] = (unsigned char)lki_rng_next(&rng);
    }
    assert_ok(lki_tgb_encode(env, &id, "p", 1, 2, slices, 4, zstd != 0, &arena, &bytes, &d, &err), &err);
    lki_arena_free(&arena);
    damage(&bytes);
  }
}

/* One compressed frame by itself. */
static void frame(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  unsigned char data[4000];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i / 100);
  lake_bytes slice = {data, sizeof data};
  lki_frame_key key = {1234567, 3};
  lake_buffer bytes;
  lki_buffer_init(&bytes, env, 8192);
  assert_ok(lki_frame_encode(env, slice, key, true, &bytes, &err), &err);
  assert_true(bytes.bytes < 1000);
  for (size_t i = 0; i < bytes.bytes * 8; i++) {
    uint64_t slice_bytes = 99;
    bool compressed = false;
    bytes.data[i / 8] ^= (unsigned char)(1u << (i % 8));
    assert_status(lki_frame_check(lki_buffer_view(&bytes), key, &slice_bytes, &compressed, &err),
                  LAKE_CORRUPT, &err);
    assert_int_equal(slice_bytes, 99);
    bytes.data[i / 8] ^= (unsigned char)(1u << (i % 8));
  }
  for (size_t n = 0; n < bytes.bytes; n++) {
    uint64_t slice_bytes = 0;
    bool compressed = false;
    lake_bytes cut = {bytes.data, n};
    assert_status(lki_frame_check(cut, key, &slice_bytes, &compressed, &err), LAKE_CORRUPT, &err);
  }
  lki_buffer_free(&bytes);
}

static void texts(void **state) {
  (void)state;
  lki_rng rng = {seed + 40};
  lake_error err = LAKE_ERROR_INIT;
  lake_buffer bytes;
  lki_pin pin = {sample_id(&rng), 12345, 77, 9};
  lki_cursor cursor = {pin.namespace_id, UINT64_MAX, 3};
  char text[LAKE_CURSOR_BYTES];
  lki_schema *schema = sample_schema(env, &rng);
  lki_buffer_init(&bytes, env, (size_t)1 << 20);
  assert_ok(lki_pin_encode(&pin, &bytes, &err), &err);
  damage(&bytes);
  assert_ok(lki_namespace_encode(schema, &bytes, &err), &err);
  if (bytes.bytes < 3000) damage(&bytes);
  bytes.bytes = 0;
  assert_ok(lki_hint_encode(98765, &bytes, &err), &err);
  damage(&bytes);
  lki_cursor_format(&cursor, text);
  assert_ok(lki_buffer_append(&bytes, text, strlen(text), &err), &err);
  for (size_t i = 0; i < bytes.bytes * 8; i++) {
    lki_cursor back;
    char copy[LAKE_CURSOR_BYTES];
    memcpy(copy, text, sizeof copy);
    copy[i / 8] = (char)(copy[i / 8] ^ (1 << (i % 8)));
    lake_status s = lki_cursor_parse(copy, &back, &err);
    assert_true(s == LAKE_INVALID || s == LAKE_UNSUPPORTED);
  }
  lki_buffer_free(&bytes);
  lki_schema_free(schema);
}

/* A header whose lengths are absurd but whose checksum is right: refused before anything is allocated. */
static void absurd_lengths(void **state) {
  (void)state;
  static const uint64_t absurd[] = {0,
                                    1,
                                    (uint64_t)LKI_MANIFEST_BYTES_MAX,
                                    (uint64_t)LKI_MANIFEST_BYTES_MAX + 1,
                                    UINT32_MAX,
                                    UINT64_MAX - 39,
                                    UINT64_MAX};
  lki_rng rng = {seed + 50};
  lake_error err = LAKE_ERROR_INIT;
  lake_buffer bytes;
  lki_manifest *m = sample_manifest(env, &rng), *back = NULL;
  lki_buffer_init(&bytes, env, (size_t)1 << 20);
  assert_ok(lki_manifest_encode(env, m, &bytes, &err), &err);
  uint64_t body_bytes = bytes.bytes - 40;
  for (int field = 16; field <= 24; field += 8) {
    for (size_t i = 0; i < sizeof absurd / sizeof absurd[0]; i++) {
      unsigned char kept[40];
      memcpy(kept, bytes.data, sizeof kept);
      for (int j = 0; j < 8; j++) bytes.data[field + j] = (unsigned char)(absurd[i] >> (8 * j));
      uint64_t sum = lki_checksum(bytes.data + 40, body_bytes, lki_checksum(bytes.data, 32, 0));
      for (int j = 0; j < 8; j++) bytes.data[32 + j] = (unsigned char)(sum >> (8 * j));
      size_t live = memory.live_bytes, count = memory.alloc_count;
      memory.peak_bytes = live;
      lake_status s = lki_manifest_decode(env, lki_buffer_view(&bytes), NULL, "m", &back, &err);
      assert_status(s, LAKE_CORRUPT, &err);
      assert_int_equal(memory.peak_bytes, live);
      assert_int_equal(memory.alloc_count, count);
      memcpy(bytes.data, kept, sizeof kept);
    }
  }
  lki_manifest_release(m);
  lki_buffer_free(&bytes);
}

static void put_u64(unsigned char *p, uint64_t value) {
  for (int j = 0; j < 8; j++) p[j] = (unsigned char)(value >> (8 * j));
}

/* Bytes after the zstd frame, which a decompressor would skip, under a checksum that is right. */
static void frame_with_more(void **state) {
  (void)state;
  static const unsigned char skippable[8] = {0x50, 0x2a, 0x4d, 0x18};
  lake_error err = LAKE_ERROR_INIT;
  unsigned char data[4000] = {0}, changed[4000];
  lake_bytes slice = {data, sizeof data};
  lki_frame_key key = {99, 0};
  uint64_t slice_bytes = 0;
  bool compressed = false;
  lake_buffer bytes;
  lki_buffer_init(&bytes, env, 8192);
  assert_ok(lki_frame_encode(env, slice, key, true, &bytes, &err), &err);
  for (size_t more = 0; more <= sizeof skippable; more += sizeof skippable) {
    size_t stored = bytes.bytes - 32, total = bytes.bytes + more;
    memcpy(changed, bytes.data, stored);
    memcpy(changed + stored, skippable, more);
    memcpy(changed + stored + more, bytes.data + stored, 32);
    put_u64(changed + total - 8, lki_checksum(changed, total - 8, key.tgb_hash));
    lake_bytes view = {changed, total};
    lake_status s = lki_frame_check(view, key, &slice_bytes, &compressed, &err);
    assert_status(s, more == 0 ? LAKE_OK : LAKE_CORRUPT, &err);
  }
  /* A length that no zstd frame of this size can make, and one that it does not make. */
  static const uint64_t lengths[] = {0, 3999, 4001, (uint64_t)1 << 40, UINT64_MAX};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    memcpy(changed, bytes.data, bytes.bytes);
    put_u64(changed + bytes.bytes - 24, lengths[i]);
    put_u64(changed + bytes.bytes - 8, lki_checksum(changed, bytes.bytes - 8, key.tgb_hash));
    lake_bytes view = {changed, bytes.bytes};
    assert_status(lki_frame_check(view, key, &slice_bytes, &compressed, &err), LAKE_CORRUPT, &err);
  }
  /* A zstd frame whose header claims 2^39 bytes, and whose one block holds a single byte. */
  static const unsigned char boast[] = {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0,  0,
                                        0x80, 0,    0,    0,    0x0b, 0, 0, 'x'};
  memcpy(changed, boast, sizeof boast);
  memcpy(changed + sizeof boast, bytes.data + bytes.bytes - 32, 32);
  size_t total = sizeof boast + 32;
  put_u64(changed + total - 24, (uint64_t)1 << 39);
  put_u64(changed + total - 8, lki_checksum(changed, total - 8, key.tgb_hash));
  lake_bytes view = {changed, total};
  assert_status(lki_frame_check(view, key, &slice_bytes, &compressed, &err), LAKE_CORRUPT, &err);
  lki_buffer_free(&bytes);
}

/* The body under an envelope that is right; refused before more than an arena's first block was asked for. */
static void expect_body_refused(const char *magic, lake_buffer *body, const char *reason) {
  lake_error err = LAKE_ERROR_INIT;
  unsigned char object[2000] = {0};
  char *text = NULL;
  assert_true(body->bytes <= sizeof object - 40);
  memcpy(object, magic, 8);
  object[8] = 1;
  put_u64(object + 16, body->bytes);
  put_u64(object + 24, body->bytes);
  memcpy(object + 40, body->data, body->bytes);
  put_u64(object + 32, lki_checksum(body->data, body->bytes, lki_checksum(object, 32, 0)));
  size_t live = memory.live_bytes;
  memory.peak_bytes = live;
  lake_bytes view = {object, 40 + body->bytes};
  assert_status(dump_object(env, view, &text, &err), LAKE_CORRUPT, &err);
  if (strstr(err.text, reason) == NULL) fail_msg("\"%s\" does not say \"%s\"", err.text, reason);
  assert_true(memory.peak_bytes - live <= 16384);
  body->bytes = 0;
}

/* The first fields of a manifest, up to the producer count. */
static void put_manifest_head(lki_writer *w, uint64_t next_step) {
  static const unsigned char ids[48];
  lki_put_bytes(w, ids, sizeof ids);
  lki_put_varint(w, 1); /* version */
  lki_put_u8(w, 0);
  lki_put_varint(w, 0); /* writer */
  lki_put_varint(w, next_step);
  lki_put_varint(w, 0); /* first live step */
}

/* The largest counts that the limits allow, with no bytes behind them. */
static void absurd_counts(void **state) {
  (void)state;
  static const unsigned char id[16];
  lake_buffer body;
  lki_writer w;
  lki_buffer_init(&body, env, 1500);
  lki_writer_init(&w, &body);
  put_manifest_head(&w, 0);
  lki_put_varint(&w, LKI_PRODUCER_COUNT_MAX);
  expect_body_refused("LAKE-MAN", &body, "more producers");
  put_manifest_head(&w, 0);
  lki_put_varint(&w, 0);
  lki_put_varint(&w, 0);
  lki_put_varint(&w, LKI_SEGMENT_REF_COUNT_MAX);
  expect_body_refused("LAKE-MAN", &body, "more segment references");
  put_manifest_head(&w, 100000);
  lki_put_varint(&w, 0);
  lki_put_varint(&w, 100000 - LKI_DESCRIPTOR_COUNT_MAX);
  lki_put_varint(&w, 0);
  lki_put_varint(&w, LKI_DESCRIPTOR_COUNT_MAX);
  expect_body_refused("LAKE-MAN", &body, "more descriptors");
  put_manifest_head(&w, 0);
  for (int i = 0; i < 4; i++) lki_put_varint(&w, 0);
  lki_put_varint(&w, LKI_QUARANTINE_COUNT_MAX);
  expect_body_refused("LAKE-MAN", &body, "quarantine");
  for (int level = 0; level < 2; level++) {
    lki_put_bytes(&w, id, sizeof id);
    lki_put_varint(&w, (uint64_t)level);
    lki_put_varint(&w, 0); /* first step */
    lki_put_varint(&w, level == 0 ? LKI_PRODUCER_COUNT_MAX : LKI_SEGMENT_REF_COUNT_MAX);
    expect_body_refused("LAKE-SEG", &body, level == 0 ? "more producers" : "more segment references");
  }
  lki_put_bytes(&w, id, sizeof id);
  for (int i = 0; i < 3; i++) lki_put_varint(&w, i < 2 ? 0 : 1);
  lki_put_blob(&w, (lake_bytes){"p", 1});
  lki_put_varint(&w, 1); /* one descriptor, of the most slices */
  lki_put_u8(&w, LKI_LAYOUT_PACKED);
  for (int i = 0; i < 3; i++) lki_put_varint(&w, i < 2 ? (uint64_t)i : 0);
  lki_put_varint(&w, LKI_SLICE_COUNT_MAX);
  lki_put_varint(&w, 100);
  lki_put_varint(&w, 100);
  expect_body_refused("LAKE-SEG", &body, "frame list");
  assert_int_equal(w.status, LAKE_OK);
  lki_buffer_free(&body);
}

/* Bodies that say the same in another way, or more than there is to say. */
static void other_forms(void **state) {
  (void)state;
  static const unsigned char id[16];
  lake_buffer body;
  lki_writer w;
  lki_buffer_init(&body, env, 1500);
  lki_writer_init(&w, &body);
  put_manifest_head(&w, 0);
  for (int i = 0; i < 5; i++) lki_put_varint(&w, 0);
  lki_put_u8(&w, 0); /* one byte more than the quarantine's count */
  expect_body_refused("LAKE-MAN", &body, "bytes after its end");
  for (int above = 1; above >= 0; above--) {
    lki_put_bytes(&w, id, sizeof id);
    lki_put_varint(&w, 0);
    lki_put_varint(&w, 0);
    lki_put_varint(&w, 1);
    lki_put_blob(&w, (lake_bytes){"p", 1});
    lki_put_varint(&w, 1);
    lki_put_u8(&w, LKI_LAYOUT_PACKED);
    lki_put_varint(&w, 0);
    lki_put_varint(&w, 1);   /* epoch */
    lki_put_varint(&w, 0);   /* seq */
    lki_put_varint(&w, 2);   /* slices */
    lki_put_varint(&w, 100); /* footer bytes */
    lki_put_varint(&w, 100); /* not the smallest: both frames have more */
    lki_put_varint(&w, (uint64_t)above);
    lki_put_varint(&w, 2);
    if (above == 0) lki_put_u8(&w, 0);
    expect_body_refused("LAKE-SEG", &body, above == 1 ? "frame list" : "bytes after its end");
  }
  lki_buffer_free(&body);
}

/* A true zstd frame of more than a manifest may hold, under an envelope that is right. */
static void too_much_inside(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  size_t bytes = LKI_MANIFEST_BYTES_MAX + 1, stored = 0;
  lki_manifest *back = NULL;
  unsigned char *zeroes = calloc(1, bytes), *object = calloc(1, 1 << 20);
  lki_compressor *compressor = lki_compressor_open(env);
  assert_true(zeroes != NULL && object != NULL && compressor != NULL);
  lake_bytes content = {zeroes, bytes};
  assert_true(lki_compress(compressor, content, 1, object + 40, (1 << 20) - 40, &stored));
  lki_compressor_close(compressor);
  memcpy(object, "LAKE-MAN\1\0\1", 11);
  put_u64(object + 16, stored);
  put_u64(object + 24, bytes);
  put_u64(object + 32, lki_checksum(object + 40, stored, lki_checksum(object, 32, 0)));
  lake_bytes view = {object, 40 + stored};
  size_t count = memory.alloc_count;
  assert_status(lki_manifest_decode(env, view, NULL, "m", &back, &err), LAKE_CORRUPT, &err);
  assert_non_null(strstr(err.text, "at most 67108864 are possible"));
  assert_int_equal(memory.alloc_count, count);
  free(zeroes);
  free(object);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(manifest),       cmocka_unit_test(segment),     cmocka_unit_test(tgb),
      cmocka_unit_test(frame),          cmocka_unit_test(texts),       cmocka_unit_test(frame_with_more),
      cmocka_unit_test(absurd_counts),  cmocka_unit_test(other_forms), cmocka_unit_test(too_much_inside),
      cmocka_unit_test(absurd_lengths),
  };
  seed = test_seed();
  env = sample_env(&memory);
  int rc = cmocka_run_group_tests(tests, NULL, NULL);
  lake_env_close(env);
  if (memory.live_count != 0) {
    fprintf(stderr, "%zu allocations leaked\n", memory.live_count);
    rc = 1;
  }
  return rc;
}
