/* Schemas: defaults, limits with their texts, and where tensors lie in a slice. */
#include "base/env.h"
#include "model/schema.h"
#include "support/support.h"
#include <string.h>

static lake_env *env;
static const lki_id id = {{1, 2, 3}};

static void expect_invalid(const lake_namespace_options *options, const char *text) {
  lake_error err = LAKE_ERROR_INIT;
  lki_schema *schema = NULL;
  assert_status(lki_schema_new(env, options, id, &schema, &err), LAKE_INVALID, &err);
  assert_null(schema);
  if (strstr(err.text, text) == NULL) fail_msg("\"%s\" does not say \"%s\"", err.text, text);
}

static void defaults(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  lki_schema *schema = NULL;
  assert_ok(lki_schema_new(env, NULL, id, &schema, &err), &err);
  assert_true(lki_id_equal(schema->namespace_id, id));
  assert_int_equal(schema->mesh.d_count, 1);
  assert_int_equal(schema->mesh.c_count, 1);
  assert_int_equal(schema->rows_per_slice, 1);
  assert_int_equal(schema->tensor_count, 0);
  assert_int_equal(schema->codec, LAKE_CODEC_NONE);
  assert_int_equal(schema->tail_max, 128);
  assert_string_equal(schema->note, "");
  assert_int_equal(schema->slice_bytes, 0);
  lake_tensor tensors[1];
  uint32_t count = 9;
  assert_status(lki_schema_slice_tensors(schema, NULL, 0, tensors, 1, &count, &err), LAKE_INVALID, &err);
  assert_non_null(strstr(err.text, "raw bytes"));
  assert_int_equal(count, 9);
  lki_schema_free(schema);
  lki_schema_free(NULL);
}

static void slices(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  lki_schema *schema = NULL;
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  lake_tensor_spec specs[3] = {
      {"tokens", LAKE_U16, 2, {3, 5}}, {"flag", LAKE_BOOL, 0, {0}}, {"w", LAKE_F64, 1, {8}}};
  options.rows_per_slice = 7;
  options.tensor_count = 3;
  options.tensors = specs;
  assert_ok(lki_schema_new(env, &options, id, &schema, &err), &err);
  memset(specs, 0, sizeof specs); /* copied */
  static const uint64_t want[3][2] = {{0, 210}, {256, 7}, {320, 448}};
  for (uint32_t i = 0; i < 3; i++) {
    uint64_t offset = 0, bytes = 0;
    lki_schema_tensor_range(schema, i, &offset, &bytes);
    assert_int_equal(offset, want[i][0]);
    assert_int_equal(bytes, want[i][1]);
  }
  assert_int_equal(schema->slice_bytes, 768); /* 256 + 64 + 448: the last ends on the boundary */
  _Alignas(64) static unsigned char slice[832];
  lake_tensor tensors[3];
  uint32_t count = 0;
  assert_ok(lki_schema_slice_tensors(schema, slice, 768, tensors, 3, &count, &err), &err);
  assert_int_equal(count, 3);
  assert_string_equal(tensors[0].name, "tokens");
  assert_int_equal(tensors[0].dtype, LAKE_U16);
  assert_int_equal(tensors[0].rank, 3);
  assert_int_equal(tensors[0].shape[0], 7);
  assert_int_equal(tensors[0].shape[1], 3);
  assert_int_equal(tensors[0].shape[2], 5);
  assert_ptr_equal(tensors[0].data, slice);
  assert_int_equal(tensors[0].bytes, 210);
  assert_int_equal(tensors[1].rank, 1);
  assert_ptr_equal(tensors[1].data, slice + 256);
  assert_ptr_equal(tensors[2].data, slice + 320);
  assert_int_equal(tensors[2].bytes, 448);
  count = 9;
  assert_status(lki_schema_slice_tensors(schema, slice, 767, tensors, 3, &count, &err), LAKE_INVALID, &err);
  assert_status(lki_schema_slice_tensors(schema, slice + 8, 768, tensors, 3, &count, &err), LAKE_INVALID,
                &err);
  assert_status(lki_schema_slice_tensors(schema, slice, 768, tensors, 2, &count, &err), LAKE_INVALID, &err);
  assert_int_equal(count, 9);
  lki_schema_free(schema);
}

static void limits_of_mesh_and_rest(void **state) {
  (void)state;
  lake_namespace_options o = LAKE_NAMESPACE_OPTIONS_INIT;
  o.mesh.d_count = 4;
  expect_invalid(&o, "mesh 4x0");
  o.mesh.c_count = 65536;
  expect_invalid(&o, "D*C at most 65536");
  o.mesh.d_count = 65536, o.mesh.c_count = 65536; /* 2^32 wraps */
  expect_invalid(&o, "D*C at most 65536");
  o.mesh.d_count = 1, o.mesh.c_count = 1, o.codec = 3;
  expect_invalid(&o, "codec 3");
  o.codec = 0, o.tail_max = 8193;
  expect_invalid(&o, "tail_max 8193; at most 8192");
  o.tail_max = 0, o.rows_per_slice = 2;
  expect_invalid(&o, "raw slices hold one row, not 2");
  o.rows_per_slice = (1u << 24) + 1;
  expect_invalid(&o, "at most 16777216");
  char note[1026];
  memset(note, 'n', sizeof note);
  note[1025] = 0;
  o.rows_per_slice = 0, o.note = note;
  expect_invalid(&o, "note: at most 1024 bytes");
  static const char *const notes[] = {"bell\a",           "\xff",         "\xc3",
                                      "\xc0\x80",         "\xe0\x80\x80", "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80", "\xc3\xa4\x80", "\x7f"};
  for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++) {
    o.note = notes[i];
    expect_invalid(&o, "UTF-8");
  }
  static const char *const good[] = {"a\tb\n", "\xc3\xa4", "\xe2\x80\x93", "\xf0\x9f\x8c\x8a",
                                     "\xef\xbf\xbd"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    lki_schema *schema = NULL;
    o.note = good[i];
    assert_int_equal(lki_schema_new(env, &o, id, &schema, NULL), LAKE_OK);
    assert_string_equal(schema->note, good[i]);
    lki_schema_free(schema);
  }
  struct {
    lake_namespace_options known;
    uint64_t later;
  } longer = {LAKE_NAMESPACE_OPTIONS_INIT, 1};
  longer.known.size = sizeof longer;
  expect_invalid(&longer.known, "upgrade");
}

static void limits_of_tensors(void **state) {
  (void)state;
  lake_namespace_options o = LAKE_NAMESPACE_OPTIONS_INIT;
  lake_tensor_spec specs[65];
  memset(specs, 0, sizeof specs);
  for (int i = 0; i < 65; i++) {
    specs[i].name[0] = (char)(i < 26 ? 'a' + i : i < 52 ? 'A' + i - 26 : '_');
    specs[i].name[1] = (char)(i < 52 ? 0 : 'a' + i - 52);
    specs[i].dtype = LAKE_U8;
  }
  o.tensor_count = 65;
  o.tensors = specs;
  expect_invalid(&o, "65 tensors; at most 64");
  o.tensors = NULL, o.tensor_count = 1;
  expect_invalid(&o, "tensors is NULL");
  o.tensors = specs, o.tensor_count = 64;
  lki_schema *schema = NULL;
  assert_int_equal(lki_schema_new(env, &o, id, &schema, NULL), LAKE_OK);
  assert_int_equal(schema->slice_bytes, 64 * 64);
  lki_schema_free(schema);
  o.tensor_count = 2;
  static const char *const bad[] = {"", "0a", "a-b", "a b", "\xc3\xa4"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    memset(specs[1].name, 0, sizeof specs[1].name);
    memcpy(specs[1].name, bad[i], strlen(bad[i]));
    expect_invalid(&o, "tensor 1: a name is");
  }
  memset(specs[1].name, 'x', sizeof specs[1].name); /* not terminated */
  expect_invalid(&o, "tensor 1: a name is");
  memcpy(specs[1].name, "a", 2);
  expect_invalid(&o, "\"a\" is taken by tensor 0");
  memcpy(specs[1].name, "b", 2);
  specs[1].dtype = (lake_dtype)14;
  expect_invalid(&o, "dtype 14");
  specs[1].dtype = (lake_dtype)0;
  expect_invalid(&o, "dtype 0");
  specs[1].dtype = LAKE_F64, specs[1].rank = 8;
  expect_invalid(&o, "8 dimensions; at most 7");
  specs[1].rank = 1;
  expect_invalid(&o, "dimension 0 is 0");
  specs[1].shape[0] = UINT64_MAX;
  expect_invalid(&o, "above 2^40");
  specs[1].rank = 2, specs[1].shape[0] = (uint64_t)1 << 32,
  specs[1].shape[1] = (uint64_t)1 << 32; /* 2^64 wraps */
  expect_invalid(&o, "above 2^40");
  specs[1].rank = 1, specs[1].shape[0] = (uint64_t)1 << 37; /* 2^40 by itself, not with the other tensor */
  expect_invalid(&o, "above 2^40");
  o.tensors = specs + 1, o.tensor_count = 1;
  assert_int_equal(lki_schema_new(env, &o, id, &schema, NULL), LAKE_OK);
  assert_true(schema->slice_bytes == (uint64_t)1 << 40);
  lki_schema_free(schema);
}

static void dtypes(void **state) {
  (void)state;
  static const char *const names[] = {"?",   "u8",  "i8",   "u16", "i16", "u32",  "i32", "u64",
                                      "i64", "f16", "bf16", "f32", "f64", "bool", "?"};
  static const size_t bytes[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 0};
  for (int i = 0; i <= 14; i++) {
    assert_string_equal(lake_dtype_name((lake_dtype)i), names[i]);
    assert_int_equal(lake_dtype_bytes((lake_dtype)i), bytes[i]);
  }
  assert_string_equal(lake_dtype_name((lake_dtype)-1), "?");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults),
      cmocka_unit_test(slices),
      cmocka_unit_test(limits_of_mesh_and_rest),
      cmocka_unit_test(limits_of_tensors),
      cmocka_unit_test(dtypes),
  };
  if (lake_env_open(NULL, &env, NULL) != LAKE_OK) return 1;
  int rc = cmocka_run_group_tests(tests, NULL, NULL);
  lake_env_close(env);
  return rc;
}
