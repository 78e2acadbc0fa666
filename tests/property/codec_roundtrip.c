/* Every codec: what is decoded equals what was encoded, for random objects within the limits. Equality is
 * that of the dumps, which hold every field. Encoding is a function of the object alone: encoding twice gives
 * equal bytes. */
#include "base/buffer.h"
#include "base/env.h"
#include "format/names.h"
#include "support/dump.h"
#include "support/sample.h"
#include "support/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 300

static lake_env *env;
static uint64_t seed;

static lki_rng rng_for(uint64_t test) {
  lki_rng rng = {seed * 1000003 + test};
  return rng;
}

static void manifests(void **state) {
  (void)state;
  lki_rng rng = rng_for(1);
  for (int i = 0; i < ROUNDS; i++) {
    lake_error err = LAKE_ERROR_INIT;
    lake_buffer bytes;
    lki_manifest *back = NULL, *m = sample_manifest(env, &rng);
    lki_buffer_init(&bytes, env, LKI_MANIFEST_BYTES_MAX);
    assert_ok(lki_buffer_append(&bytes, "kept", 4, &err), &err); /* encoders append */
    assert_ok(lki_manifest_encode(env, m, &bytes, &err), &err);
    assert_memory_equal(bytes.data, "kept", 4);
    lake_bytes object = {bytes.data + 4, bytes.bytes - 4};
    assert_ok(lki_manifest_decode(env, object, &m->namespace_id, "m", &back, &err), &err);
    char *want = dump_manifest(m), *got = dump_manifest(back);
    assert_string_equal(got, want);
    lki_manifest *other = NULL;
    lki_id stranger = sample_id(&rng);
    assert_status(lki_manifest_decode(env, object, &stranger, "m", &other, &err), LAKE_CORRUPT, &err);
    assert_non_null(strstr(err.text, "another namespace"));
    assert_null(other);
    free(want);
    free(got);
    lki_manifest_release(m);
    lki_manifest_release(back);
    lki_buffer_free(&bytes);
  }
}

static void segments(void **state) {
  (void)state;
  lki_rng rng = rng_for(2);
  for (int i = 0; i < ROUNDS; i++) {
    lake_error err = LAKE_ERROR_INIT;
    lake_buffer bytes, again;
    lki_segment *back = NULL, *segment = sample_segment(env, &rng);
    lki_buffer_init(&bytes, env, LKI_SEGMENT_BYTES_MAX);
    lki_buffer_init(&again, env, LKI_SEGMENT_BYTES_MAX);
    assert_ok(lki_segment_encode(env, segment, &bytes, &err), &err);
    assert_ok(lki_segment_decode(env, lki_buffer_view(&bytes), &segment->namespace_id, "s", &back, &err),
              &err);
    char *want = dump_segment(segment), *got = dump_segment(back);
    assert_string_equal(got, want);
    assert_ok(lki_segment_encode(env, back, &again, &err), &err);
    assert_int_equal(again.bytes, bytes.bytes);
    assert_memory_equal(again.data, bytes.data, bytes.bytes);
    free(want);
    free(got);
    lki_segment_release(segment);
    lki_segment_release(back);
    lki_buffer_free(&bytes);
    lki_buffer_free(&again);
  }
}

/* Reads slice i as a consumer does: locate, check, decode. */
static void expect_slice(const lki_descriptor *d, lake_bytes object, uint64_t hash, uint32_t i,
                         lake_bytes want) {
  lake_error err = LAKE_ERROR_INIT;
  lki_frame_key key = {hash, i};
  uint64_t offset = 0, bytes = 0, slice_bytes = 0;
  bool compressed = false;
  lake_bytes got;
  assert_ok(lki_frame_locate(d, i, &offset, &bytes, &err), &err);
  assert_int_equal(offset % 64, 0);
  lake_bytes frame = {(const unsigned char *)object.data + offset, (size_t)bytes};
  assert_ok(lki_frame_check(frame, key, &slice_bytes, &compressed, &err), &err);
  assert_int_equal(slice_bytes, want.bytes);
  void *memory = lki_alloc(env, (size_t)slice_bytes);
  assert_ok(lki_frame_decode(env, frame, &got, memory, (size_t)slice_bytes, &err), &err);
  assert_int_equal(got.bytes, want.bytes);
  if (want.bytes > 0) assert_memory_equal(got.data, want.data, want.bytes);
  if (!compressed) assert_ptr_equal(got.data, frame.data); /* no copy */
  lki_frame_key other_slice = {hash, i + 1}, other_tgb = {hash + 1, i};
  assert_status(lki_frame_check(frame, other_slice, &slice_bytes, &compressed, &err), LAKE_CORRUPT, &err);
  assert_status(lki_frame_check(frame, other_tgb, &slice_bytes, &compressed, &err), LAKE_CORRUPT, &err);
  lki_free(env, memory);
}

static void tgbs(void **state) {
  (void)state;
  lki_rng rng = rng_for(3);
  bool seen[4] = {false};
  for (int i = 0; i < ROUNDS; i++) {
    lake_error err = LAKE_ERROR_INIT;
    lki_arena arena;
    lake_buffer out;
    lki_descriptor d = {0};
    lki_tgb_footer footer;
    uint32_t count = 0;
    lki_arena_init(&arena, env);
    lki_buffer_init(&out, env, (size_t)1 << 30);
    lake_bytes *slices = sample_slices(&arena, &rng, &count);
    lki_id id = sample_id(&rng);
    uint64_t epoch = sample_number(&rng, 64), seq = sample_number(&rng, 64);
    assert_ok(lki_tgb_encode(env, &id, "feeder-0", epoch, seq, slices, count, lki_rng_below(&rng, 2) == 0,
                             &arena, &out, &d, &err),
              &err);
    seen[d.layout] = true;
    assert_int_equal(d.object_bytes, out.bytes);
    assert_int_equal(d.slice_count, count);
    assert_ok(lki_tgb_header_check(lki_buffer_view(&out), "t", &err), &err);
    lake_bytes tail = {out.data + out.bytes - d.footer_bytes, d.footer_bytes};
    assert_ok(lki_tgb_footer_decode(env, tail, out.bytes, "t", &arena, &footer, &err), &err);
    assert_string_equal(footer.producer_id, "feeder-0");
    assert_true(footer.epoch == epoch && footer.seq == seq && lki_id_equal(footer.namespace_id, id));
    lki_descriptor listed = d;
    listed.layout = LKI_LAYOUT_PACKED;
    listed.frame_bytes_each = footer.frame_bytes_each;
    uint64_t hash = lki_tgb_hash(&id, "feeder-0", epoch, seq);
    for (uint32_t j = 0; j < count; j++) {
      expect_slice(&listed, lki_buffer_view(&out), hash, j, slices[j]);
      if (d.layout != LKI_LAYOUT_FOOTER) expect_slice(&d, lki_buffer_view(&out), hash, j, slices[j]);
    }
    lki_buffer_free(&out);
    lki_arena_free(&arena);
  }
  assert_true(seen[LKI_LAYOUT_UNIFORM] && seen[LKI_LAYOUT_PACKED]);
}

/* So many uneven slices that no descriptor lists them; and a descriptor at the limit of those that do. */
static void large_mesh(void **state) {
  (void)state;
  static const uint32_t counts[] = {256, 257, 4096, 65536};
  static const lki_layout_kind layouts[] = {LKI_LAYOUT_PACKED, LKI_LAYOUT_FOOTER, LKI_LAYOUT_FOOTER,
                                            LKI_LAYOUT_FOOTER};
  for (int k = 0; k < 4; k++) {
    lake_error err = LAKE_ERROR_INIT;
    lki_arena arena;
    lake_buffer out;
    lki_descriptor d = {0};
    lki_tgb_footer footer;
    lki_id id = {{1}};
    lki_arena_init(&arena, env);
    lki_buffer_init(&out, env, (size_t)1 << 30);
    lake_bytes *slices = lki_arena_alloc(&arena, counts[k] * sizeof *slices);
    unsigned char *zeroes = lki_arena_alloc(&arena, 300);
    for (uint32_t i = 0; i < counts[k]; i++) {
      slices[i].data = zeroes;
      slices[i].bytes = i == 0 ? 0 : 200; /* two bytes each above the smallest, one for that */
    }
    assert_ok(lki_tgb_encode(env, &id, "p", 1, 0, slices, counts[k], false, &arena, &out, &d, &err), &err);
    assert_int_equal(d.layout, layouts[k]);
    assert_ok(lki_tgb_footer_decode(env, lki_buffer_view(&out), out.bytes, "t", &arena, &footer, &err), &err);
    assert_int_equal(footer.slice_count, counts[k]);
    assert_int_equal(footer.frame_bytes_each[0], 32);
    assert_int_equal(footer.frame_bytes_each[counts[k] - 1], 232);
    if (d.layout == LKI_LAYOUT_FOOTER) {
      uint64_t offset = 0, bytes = 0;
      assert_status(lki_frame_locate(&d, 0, &offset, &bytes, &err), LAKE_INVALID, &err);
    }
    lki_buffer_free(&out);
    lki_arena_free(&arena);
  }
}

static void schemas(void **state) {
  (void)state;
  lki_rng rng = rng_for(4);
  for (int i = 0; i < ROUNDS; i++) {
    lake_error err = LAKE_ERROR_INIT;
    lake_buffer bytes;
    lki_schema *back = NULL, *schema = sample_schema(env, &rng);
    lki_buffer_init(&bytes, env, (size_t)1 << 20);
    assert_ok(lki_namespace_encode(schema, &bytes, &err), &err);
    assert_ok(lki_namespace_decode(env, lki_buffer_view(&bytes), "lakestream.json", &back, &err), &err);
    char *want = dump_schema(schema), *got = dump_schema(back);
    assert_string_equal(got, want);
    free(want);
    free(got);
    lki_schema_free(schema);
    lki_schema_free(back);
    lki_buffer_free(&bytes);
  }
}

static void pins_cursors_hints(void **state) {
  (void)state;
  lki_rng rng = rng_for(5);
  for (int i = 0; i < ROUNDS; i++) {
    lake_error err = LAKE_ERROR_INIT;
    lake_buffer bytes;
    char text[LAKE_CURSOR_BYTES];
    lki_pin back,
        pin = {sample_id(&rng), sample_number(&rng, 64), sample_number(&rng, 64), sample_number(&rng, 64)};
    lki_cursor again, cursor = {pin.namespace_id, pin.row, pin.version};
    uint64_t version = 0;
    lki_buffer_init(&bytes, env, 4096);
    assert_ok(lki_pin_encode(&pin, &bytes, &err), &err);
    assert_ok(lki_pin_decode(lki_buffer_view(&bytes), "pin", &back, &err), &err);
    assert_true(lki_id_equal(back.namespace_id, pin.namespace_id) && back.row == pin.row &&
                back.step == pin.step && back.version == pin.version);
    lki_cursor_format(&cursor, text);
    assert_ok(lki_cursor_parse(text, &again, &err), &err);
    assert_true(lki_id_equal(again.namespace_id, pin.namespace_id) && again.row == pin.row &&
                again.version == pin.version);
    bytes.bytes = 0;
    assert_ok(lki_hint_encode(pin.version, &bytes, &err), &err);
    assert_ok(lki_hint_decode(lki_buffer_view(&bytes), &version, &err), &err);
    assert_true(version == pin.version);
    lki_buffer_free(&bytes);
  }
}

static void names(void **state) {
  (void)state;
  lki_rng rng = rng_for(6);
  for (int i = 0; i < ROUNDS; i++) {
    char name[LKI_NAME_BYTES], id[LKI_PRODUCER_ID_BYTES_MAX + 1];
    uint64_t version = 0, epoch = 0, seq = 0, want = sample_number(&rng, 64), other = sample_number(&rng, 64);
    lki_name_manifest(name, want);
    assert_true(lki_name_manifest_parse(name, &version));
    assert_true(version == want);
    lki_name_tgb(name, "a.b-c_D9", want, other);
    assert_true(lki_name_tgb_parse(name, id, &epoch, &seq));
    assert_string_equal(id, "a.b-c_D9");
    assert_true(epoch == want && seq == other);
    name[5] = name[5] == 'f' ? 'e' : 'f'; /* the wrong spread is another name */
    assert_false(lki_name_tgb_parse(name, id, &epoch, &seq));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(manifests),  cmocka_unit_test(segments), cmocka_unit_test(tgbs),
      cmocka_unit_test(large_mesh), cmocka_unit_test(schemas),  cmocka_unit_test(pins_cursors_hints),
      cmocka_unit_test(names),
  };
  seed = test_seed();
  if (lake_env_open(NULL, &env, NULL) != LAKE_OK) return 1;
  int rc = cmocka_run_group_tests(tests, NULL, NULL);
  lake_env_close(env);
  return rc;
}
