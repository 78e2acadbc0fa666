/* The packer: hand-made cases, then random documents against a second, plain packer. */
#include "support/support.h"
#include "base/rng.h"
#include "feed/pack.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BOS = LKI_TOKEN_BOS, EOS = LKI_TOKEN_EOS, PAD = LKI_TOKEN_PAD };

typedef struct row_token {
  int token, label, position, segment, mask;
} row_token;

static lake_bytes text(const char *s) { return (lake_bytes){s, strlen(s)}; }

/* Token `column` of row `row` of the whole TGB, read the way a consumer reads it: slice, tensor, element. */
static row_token token_at(const lki_pack *pack, uint64_t row, uint64_t column) {
  lake_bytes slices[64];
  assert_true(pack->mesh.d_count * pack->mesh.c_count <= 64);
  lki_pack_slices(pack, slices);
  uint64_t chunk = pack->seq_len / pack->mesh.c_count, d = row / pack->rows, c = column / chunk;
  const unsigned char *slice = slices[d * pack->mesh.c_count + c].data;
  uint64_t n = pack->rows * chunk, i = row % pack->rows * chunk + column % chunk;
  uint64_t labels = (n * 2 + 63) / 64 * 64, positions = labels * 2, fours = (n * 4 + 63) / 64 * 64;
  uint16_t u16[2];
  int32_t i32[2];
  memcpy(&u16[0], slice + i * 2, 2);
  memcpy(&u16[1], slice + labels + i * 2, 2);
  memcpy(&i32[0], slice + positions + i * 4, 4);
  memcpy(&i32[1], slice + positions + fours + i * 4, 4);
  return (row_token){u16[0], u16[1], i32[0], i32[1], slice[positions + 2 * fours + i]};
}

static void assert_row(const lki_pack *pack, uint64_t row, const row_token *want, size_t count) {
  assert_int_equal(pack->seq_len, count);
  for (size_t i = 0; i < count; i++) {
    row_token got = token_at(pack, row, i);
    if (memcmp(&got, &want[i], sizeof got) != 0)
      fail_msg("row %llu column %zu: %d %d %d %d %d, expected %d %d %d %d %d", (unsigned long long)row, i, got.token,
               got.label, got.position, got.segment, got.mask, want[i].token, want[i].label, want[i].position,
               want[i].segment, want[i].mask);
  }
}

static void test_two_documents(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  lki_pack pack;
  assert_ok(lki_pack_init(&pack, (lake_mesh){1, 1}, 1, 8, &err), &err);
  assert_int_equal(lki_pack_document(&pack, text("ab"), 0), 4);
  assert_int_equal(lki_pack_document(&pack, text("c"), 0), 3);
  const row_token want[] = {{BOS, 'a', 0, 1, 1}, {'a', 'b', 1, 1, 1}, {'b', EOS, 2, 1, 1}, {EOS, PAD, 3, 1, 0},
                            {BOS, 'c', 0, 2, 1}, {'c', EOS, 1, 2, 1}, {EOS, PAD, 2, 2, 0}, {PAD, PAD, 0, 0, 0}};
  assert_row(&pack, 0, want, 8);
  assert_false(lki_pack_full(&pack));
  assert_int_equal(pack.token_count, 7);
  lki_pack_fini(&pack);
}

/* A document goes on in the next row: its label crosses, its position starts anew. */
static void test_across_rows(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  lki_pack pack;
  assert_ok(lki_pack_init(&pack, (lake_mesh){1, 1}, 2, 4, &err), &err);
  assert_int_equal(lki_pack_document(&pack, text("abcde"), 0), 7);
  assert_int_equal(lki_pack_document(&pack, text("z"), 0), 1);
  assert_true(lki_pack_full(&pack));
  const row_token first[] = {{BOS, 'a', 0, 1, 1}, {'a', 'b', 1, 1, 1}, {'b', 'c', 2, 1, 1}, {'c', 'd', 3, 1, 1}};
  const row_token second[] = {{'d', 'e', 0, 1, 1}, {'e', EOS, 1, 1, 1}, {EOS, PAD, 2, 1, 0}, {BOS, 'z', 0, 2, 1}};
  assert_row(&pack, 0, first, 4);
  assert_row(&pack, 1, second, 4);
  /* The next TGB begins where this one ended and needs nothing else. */
  lki_pack_reset(&pack);
  assert_int_equal(lki_pack_document(&pack, text("z"), 1), 3);
  const row_token third[] = {{'z', EOS, 0, 1, 1}, {EOS, PAD, 1, 1, 0}, {PAD, PAD, 0, 0, 0}, {PAD, PAD, 0, 0, 0}};
  assert_row(&pack, 0, third, 4);
  lki_pack_fini(&pack);
}

/* The same with every token placed alone: slow and plain. */
static void plain_pack(row_token *rows, uint64_t token_count, uint32_t seq_len, const lake_bytes *documents, size_t count) {
  uint64_t at = 0;
  int segment = 0, position = 0;
  for (uint64_t i = 0; i < token_count; i++) rows[i] = (row_token){PAD, PAD, 0, 0, 0};
  for (size_t k = 0; k < count; k++) {
    const unsigned char *bytes = documents[k].data;
    size_t n = documents[k].bytes;
    for (size_t t = 0; t < n + 2 && at < token_count; t++, at++) {
      if (at % seq_len == 0) segment = 0;
      if (at % seq_len == 0 || t == 0) {
        segment++;
        position = 0;
      }
      int token = t == 0 ? BOS : t <= n ? bytes[t - 1] : EOS;
      int label = t + 1 <= n ? bytes[t] : t == n ? EOS : PAD;
      rows[at] = (row_token){token, label, position++, segment, label != PAD};
    }
  }
}

static void test_random_against_plain(void **state) {
  (void)state;
  lki_rng rng = {test_seed()};
  for (int round = 0; round < 300; round++) {
    lake_error err = LAKE_ERROR_INIT;
    lake_mesh mesh = {(uint32_t)lki_rng_below(&rng, 4) + 1, (uint32_t)lki_rng_below(&rng, 4) + 1};
    uint32_t rows = (uint32_t)lki_rng_below(&rng, 3) + 1;
    uint32_t seq_len = mesh.c_count * ((uint32_t)lki_rng_below(&rng, 9) + 1);
    uint64_t token_count = (uint64_t)mesh.d_count * rows * seq_len, row_count = token_count / seq_len;
    lki_pack pack;
    lake_bytes documents[64];
    static unsigned char bytes[4096];
    size_t count = lki_rng_below(&rng, 64), used = 0;
    for (size_t i = 0; i < count; i++) {
      documents[i] = (lake_bytes){bytes + used, lki_rng_below(&rng, 40)};
      for (size_t k = 0; k < documents[i].bytes; k++) bytes[used++] = (unsigned char)lki_rng_next(&rng);
    }
    row_token *want = malloc(token_count * sizeof *want);
    assert_non_null(want);
    plain_pack(want, token_count, seq_len, documents, count);
    assert_ok(lki_pack_init(&pack, mesh, rows, seq_len, &err), &err);
    for (size_t i = 0; i < count; i++) {
      uint64_t taken = lki_pack_document(&pack, documents[i], 0);
      assert_true(taken == lki_pack_document_tokens(documents[i].bytes) || lki_pack_full(&pack));
    }
    for (uint64_t row = 0; row < row_count; row++) assert_row(&pack, row, want + row * seq_len, seq_len);
    lki_pack_fini(&pack);
    free(want);
  }
}

static void test_schema(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  lake_tensor_spec specs[LKI_PACK_TENSOR_COUNT];
  assert_status(lki_pack_schema(130, 4, specs, &err), LAKE_INVALID, &err);
  assert_non_null(strstr(err.text, "the nearest that does is 132"));
  assert_ok(lki_pack_schema(128, 4, specs, &err), &err);
  assert_int_equal(specs[0].shape[0], 32);
  lake_namespace_info info = {.mesh = {2, 4}, .rows_per_slice = 1, .tensor_count = 5, .tensors = specs, .url = "mem:x"};
  uint32_t seq_len = 0;
  assert_ok(lki_pack_schema_fits(&info, &seq_len, &err), &err);
  assert_int_equal(seq_len, 128);
  specs[2].dtype = LAKE_I64;
  assert_status(lki_pack_schema_fits(&info, &seq_len, &err), LAKE_INVALID, &err);
  assert_non_null(strstr(err.text, "position_ids:i64"));
  specs[2].dtype = LAKE_I32;
  specs[4].shape[0] = 31;
  assert_status(lki_pack_schema_fits(&info, &seq_len, &err), LAKE_INVALID, &err);
  info.tensor_count = 4;
  assert_status(lki_pack_schema_fits(&info, &seq_len, &err), LAKE_INVALID, &err);
}

/* The packer's own idea of a slice must be the namespace's. */
static void test_slice_bytes_are_the_schema_s(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  lake_env *env = NULL;
  assert_ok(lake_env_open(NULL, &env, &err), &err);
  for (uint32_t c = 1; c <= 5; c++)
    for (uint32_t rows = 1; rows <= 3; rows++) {
      lake_tensor_spec specs[LKI_PACK_TENSOR_COUNT];
      lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
      lki_schema *schema = NULL;
      lki_pack pack;
      lki_id id = {{1}};
      assert_ok(lki_pack_schema(c * 7, c, specs, &err), &err);
      options.mesh = (lake_mesh){2, c};
      options.rows_per_slice = rows;
      options.tensor_count = LKI_PACK_TENSOR_COUNT;
      options.tensors = specs;
      assert_ok(lki_schema_new(env, &options, id, &schema, &err), &err);
      assert_ok(lki_pack_init(&pack, options.mesh, rows, c * 7, &err), &err);
      assert_int_equal(pack.slice_bytes, schema->slice_bytes);
      for (uint32_t i = 0; i < LKI_PACK_TENSOR_COUNT; i++) {
        uint64_t offset = 0, bytes = 0;
        lki_schema_tensor_range(schema, i, &offset, &bytes);
        assert_int_equal(pack.tensor_offset[i], offset);
      }
      lki_pack_fini(&pack);
      lki_schema_free(schema);
    }
  lake_env_close(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_two_documents),        cmocka_unit_test(test_across_rows),
      cmocka_unit_test(test_random_against_plain), cmocka_unit_test(test_schema),
      cmocka_unit_test(test_slice_bytes_are_the_schema_s),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
