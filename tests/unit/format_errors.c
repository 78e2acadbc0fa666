/* Error texts of the codecs: each names the object, what is wrong with it and what to do; and every failing
 * allocation gives NOMEM with nothing left behind. */
#include "base/buffer.h"
#include "base/checksum.h"
#include "base/env.h"
#include "support/dump.h"
#include "support/sample.h"
#include "support/support.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sample_memory memory;
static lake_env *env;

/* A document with its check, from the members before it. */
static void seal(const char *members, char *text, size_t room) {
  int n = snprintf(text, room, "{\n%s,\n", members);
  snprintf(text + n, room - (size_t)n, "\t\"check\":\t\"%016" PRIx64 "\"\n}\n",
           lki_checksum(text, (size_t)n, 0));
}

static void expect_namespace(const char *members, lake_status want, const char *want_text) {
  char text[4096];
  lake_error err = LAKE_ERROR_INIT;
  lki_schema *schema = NULL;
  seal(members, text, sizeof text);
  lake_bytes bytes = {text, strlen(text)};
  lake_status s = lki_namespace_decode(env, bytes, "lakestream.json", &schema, &err);
  assert_status(s, want, &err);
  if (want_text != NULL) assert_string_equal(err.text, want_text);
  if (want_text != NULL) assert_null(schema);
  lki_schema_free(schema);
}

#define HEAD "\"kind\":\"lakestream-namespace\",\"format\":1,"
#define ID "\"uuid\":\"10325476-98ba-4cfe-8101-020304050607\","
#define MESH "\"mesh\":{\"d\":2,\"c\":1},"
#define SIZES "\"rows_per_slice\":1,\"tail_max\":128,\"version_block\":1024,"
#define WORDS "\"layout\":\"contiguous\",\"codec\":\"none\",\"note\":\"\","

static void namespaces(void **state) {
  (void)state;
  expect_namespace(HEAD ID MESH SIZES WORDS "\"tensors\":[]", LAKE_OK, NULL);
  expect_namespace(HEAD ID MESH SIZES WORDS "\"tensors\":[],\"later\":{\"x\":[1,null]}", LAKE_OK, NULL);
  expect_namespace("\"name\":\"package\"", LAKE_CORRUPT,
                   "lakestream.json: not a Lakestream file: \"kind\" is not \"lakestream-namespace\"");
  expect_namespace("\"kind\":\"lakestream-namespace\",\"format\":2", LAKE_UNSUPPORTED,
                   "lakestream.json: written by a newer Lakestream (format 2); upgrade");
  expect_namespace(HEAD "\"uuid\":7", LAKE_CORRUPT, "lakestream.json: \"uuid\" is not a string");
  expect_namespace(HEAD MESH "\"x\":1", LAKE_CORRUPT, "lakestream.json: \"uuid\" is missing");
  expect_namespace(HEAD "\"uuid\":\"7\"", LAKE_CORRUPT, "lakestream.json: \"uuid\" is not an id");
  expect_namespace(HEAD ID "\"mesh\":[2,1]", LAKE_CORRUPT, "lakestream.json: \"mesh\" is not an object");
  expect_namespace(HEAD ID "\"mesh\":{\"d\":2}", LAKE_CORRUPT, "lakestream.json: \"c\" is missing");
  expect_namespace(HEAD ID "\"mesh\":{\"d\":-2,\"c\":1}", LAKE_CORRUPT,
                   "lakestream.json: \"d\" is not a whole number");
  expect_namespace(HEAD ID "\"mesh\":{\"d\":0,\"c\":1}", LAKE_CORRUPT, "lakestream.json: \"d\" is 0");
  expect_namespace(HEAD ID "\"mesh\":{\"d\":65537,\"c\":1}", LAKE_CORRUPT,
                   "lakestream.json: \"d\" is 65537; at most 65536 is possible");
  expect_namespace(HEAD ID MESH "\"rows_per_slice\":1.5", LAKE_CORRUPT,
                   "lakestream.json: \"rows_per_slice\" is not a whole number");
  expect_namespace(HEAD ID MESH SIZES "\"codec\":\"none\",\"note\":\"\",\"layout\":\"zigzag\"",
                   LAKE_UNSUPPORTED,
                   "lakestream.json: \"layout\" is \"zigzag\", which is not known; upgrade");
  expect_namespace(HEAD ID MESH SIZES "\"codec\":\"lz4\",\"note\":\"\",\"layout\":\"contiguous\"",
                   LAKE_UNSUPPORTED, "lakestream.json: \"codec\" is \"lz4\", which is not known; upgrade");
  expect_namespace(HEAD ID MESH SIZES WORDS "\"tensors\":{}", LAKE_CORRUPT,
                   "lakestream.json: \"tensors\" is not an array of at most 64");
  expect_namespace(HEAD ID MESH SIZES WORDS "\"tensors\":[{\"name\":\"t\",\"dtype\":\"u9\",\"shape\":[]}]",
                   LAKE_UNSUPPORTED,
                   "lakestream.json: tensor 0: \"dtype\" is \"u9\", which is not known; upgrade");
  expect_namespace(HEAD ID MESH SIZES WORDS
                   "\"tensors\":[{\"name\":\"t\",\"dtype\":\"u8\",\"shape\":[\"x\"]}]",
                   LAKE_CORRUPT, "lakestream.json: tensor 0: \"shape\" holds what is not a whole number");
  expect_namespace(HEAD ID MESH SIZES WORDS "\"tensors\":[{\"name\":\"9\",\"dtype\":\"u8\",\"shape\":[]}]",
                   LAKE_CORRUPT,
                   "lakestream.json: tensor 0: a name is [A-Za-z_][A-Za-z0-9_]*, at most 63 characters");
}

static void not_json(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  lki_schema *schema = NULL;
  lake_bytes bytes = {"{\n  \"kind\": }", 14};
  assert_status(lki_namespace_decode(env, bytes, "lakestream.json", &schema, &err), LAKE_CORRUPT, &err);
  assert_string_equal(err.text, "lakestream.json: not valid JSON at line 2 column 11");
  assert_int_equal(err.status, LAKE_CORRUPT);
  char text[4096];
  seal(HEAD ID MESH SIZES WORDS "\"tensors\":[]", text, sizeof text);
  char *d = strstr(text, "\"d\":2");
  d[4] = '3'; /* a careless edit */
  bytes.data = text;
  bytes.bytes = strlen(text);
  assert_status(lki_namespace_decode(env, bytes, "lakestream.json", &schema, &err), LAKE_CORRUPT, &err);
  assert_string_equal(err.text,
                      "lakestream.json: \"check\" does not match: damaged, or changed by hand");
}

static void expect_manifest(lake_buffer *object, size_t bytes, lake_status want, const char *want_text) {
  lake_error err = LAKE_ERROR_INIT;
  lki_manifest *back = NULL;
  lake_bytes view = {object->data, bytes};
  assert_status(lki_manifest_decode(env, view, NULL, "manifest/7", &back, &err), want, &err);
  assert_string_equal(err.text, want_text);
}

static void envelopes(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  lake_buffer bytes;
  lki_rng rng = {5};
  lki_manifest *m = sample_manifest(env, &rng);
  char text[100];
  lki_buffer_init(&bytes, env, 1 << 20);
  assert_ok(lki_manifest_encode(env, m, &bytes, &err), &err);
  lki_manifest_release(m);
  expect_manifest(&bytes, 0, LAKE_CORRUPT, "manifest/7: not a Lakestream manifest (0 bytes, wrong magic)");
  expect_manifest(&bytes, 39, LAKE_CORRUPT, "manifest/7: truncated: 39 bytes");
  snprintf(text, sizeof text, "manifest/7: %zu bytes, where its header says %zu", bytes.bytes - 1,
           bytes.bytes);
  expect_manifest(&bytes, bytes.bytes - 1, LAKE_CORRUPT, text);
  bytes.data[50] ^= 1;
  expect_manifest(&bytes, bytes.bytes, LAKE_CORRUPT, "manifest/7: the checksum does not match");
  bytes.data[50] ^= 1;
  bytes.data[8] = 9;
  expect_manifest(&bytes, bytes.bytes, LAKE_UNSUPPORTED,
                  "manifest/7: written by a newer Lakestream (format 9); upgrade");
  bytes.data[8] = 1;
  bytes.data[12] = 1;
  expect_manifest(&bytes, bytes.bytes, LAKE_CORRUPT, "manifest/7: unknown flags in the manifest's header");
  lki_segment *segment = NULL;
  assert_status(lki_segment_decode(env, lki_buffer_view(&bytes), NULL, "segment/0", &segment, &err),
                LAKE_CORRUPT, &err);
  lki_buffer_free(&bytes);
}

/* Encoders refuse what no reader would take, and leave their output as it was. */
static void encoders_refuse(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  lake_buffer out;
  lki_arena arena;
  lki_descriptor d = {0};
  lki_id id = {{1}};
  lake_bytes slice = {"0123456789", 10};
  lki_arena_init(&arena, env);
  lki_buffer_init(&out, env, 150); /* header and frame, but no footer */
  assert_ok(lki_buffer_append(&out, "kept", 4, &err), &err);
  assert_status(lki_tgb_encode(env, &id, "p", 1, 0, &slice, 1, false, &arena, &out, &d, &err), LAKE_INVALID,
                &err);
  assert_int_equal(out.bytes, 4);
  assert_int_equal(d.object_bytes, 0);
  assert_status(lki_tgb_encode(env, &id, "../p", 1, 0, &slice, 1, false, &arena, &out, &d, &err),
                LAKE_INVALID, &err);
  assert_status(lki_tgb_encode(env, &id, "p", 1, 0, &slice, 0, false, &arena, &out, &d, &err), LAKE_INVALID,
                &err);
  lki_manifest *m = lki_manifest_new(env);
  assert_status(lki_manifest_encode(env, m, &out, &err), LAKE_INVALID, &err); /* version 0 */
  assert_int_equal(out.bytes, 4);
  lki_manifest_release(m);
  lki_buffer_free(&out);
  lki_arena_free(&arena);
}

/* One pass through every codec; the status of the first that failed. */
static lake_status all_codecs(lki_manifest *m, lki_segment *segment, lake_error *err) {
  static unsigned char runs[5000];
  lake_bytes slices[2] = {{runs, sizeof runs}, {"x", 1}};
  lki_id id = {{1}};
  lki_arena arena;
  lake_buffer out[3];
  lki_descriptor d = {0};
  char *text = NULL;
  lki_arena_init(&arena, env);
  for (int i = 0; i < 3; i++) lki_buffer_init(&out[i], env, 1 << 20);
  lake_status s = lki_manifest_encode(env, m, &out[0], err);
  if (s == LAKE_OK) s = lki_segment_encode(env, segment, &out[1], err);
  if (s == LAKE_OK) s = lki_tgb_encode(env, &id, "p", 1, 0, slices, 2, true, &arena, &out[2], &d, err);
  for (int i = 0; s == LAKE_OK && i < 3; i++) {
    s = dump_object(env, lki_buffer_view(&out[i]), &text, err);
    free(text);
    text = NULL;
  }
  for (int i = 0; i < 3; i++) lki_buffer_free(&out[i]);
  lki_arena_free(&arena);
  return s;
}

static void no_memory(void **state) {
  (void)state;
  lki_rng rng = {6};
  lake_error err = LAKE_ERROR_INIT;
  lki_manifest *m = sample_manifest(env, &rng);
  lki_segment *segment = sample_segment(env, &rng);
  lki_env_drop_kept(env);
  size_t live = memory.live_count, failed = 0;
  lake_status s = LAKE_NOMEM;
  for (size_t n = 1; s != LAKE_OK; n++) {
    memory.alloc_count = 0;
    memory.fail_at = n;
    s = all_codecs(m, segment, &err);
    memory.fail_at = 0;
    lki_env_drop_kept(env); /* so that the next pass makes its contexts too */
    assert_int_equal(memory.live_count, live);
    if (s == LAKE_OK) break;
    assert_status(s, LAKE_NOMEM, &err);
    assert_int_equal(err.status, LAKE_NOMEM);
    failed++;
  }
  assert_true(failed >= 10);
  lki_manifest_release(m);
  lki_segment_release(segment);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(namespaces),      cmocka_unit_test(not_json),  cmocka_unit_test(envelopes),
      cmocka_unit_test(encoders_refuse), cmocka_unit_test(no_memory),
  };
  env = sample_env(&memory);
  int rc = cmocka_run_group_tests(tests, NULL, NULL);
  lake_env_close(env);
  return rc;
}
