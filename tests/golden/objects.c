/* Golden objects: one of each kind, with fixed content. Without arguments: the committed files decode to the
 * committed text, and the encoders make the same bytes again. What holds a zstd frame is compared decoded,
 * since each version of zstd makes its own.
 *
 *   test_golden_objects write DIR          writes the golden objects and their text (for a new format version
 * only) test_golden_objects random SEED DIR    writes random objects and their text, for the second decoder
 */
#include "base/buffer.h"
#include "base/env.h"
#include "support/dump.h"
#include "support/sample.h"
#include "support/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lake_env *env;
static lake_error err;

static const lki_id namespace_id = {
    {0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0x4c, 0xfe, 0x81, 1, 2, 3, 4, 5, 6, 7}};

static void need(lake_status s) {
  if (s == LAKE_OK) return;
  fprintf(stderr, "%s: %s\n", lake_status_name(s), err.text);
  exit(1);
}

static lki_id id_of(unsigned char first) {
  lki_id id;
  for (unsigned i = 0; i < LKI_ID_BYTES; i++) id.bytes[i] = (unsigned char)(first * (i * i + 41 * i + 17));
  return id;
}

/* Four producers' worth of every layout and both shortcuts. */
static const uint64_t packed_frames[4] = {1056, 993, 1100, 32};

static lki_descriptor *fixed_descriptors(lki_arena *arena, uint32_t count) {
  lki_descriptor *d = lki_arena_alloc(arena, count * sizeof *d);
  uint64_t seq[2] = {40, 7};
  for (uint32_t i = 0; i < count; i++) {
    d[i].producer = i % 3 == 2 ? 1 : 0;
    d[i].epoch = d[i].producer == 0 ? 3 : i < 4 ? 1 : 2;
    d[i].seq = seq[d[i].producer]++;
    d[i].slice_count = 4;
    d[i].footer_bytes = 57;
    d[i].layout = i == 1 ? LKI_LAYOUT_PACKED : i == 4 ? LKI_LAYOUT_FOOTER : LKI_LAYOUT_UNIFORM;
    d[i].object_bytes = i == 4 ? 70000 : 64 + 4 * 1088 + 57;
    if (d[i].layout == LKI_LAYOUT_UNIFORM) d[i].frame_bytes = 1056;
    if (i != 1) continue;
    d[i].frame_bytes_each = packed_frames;
    d[i].object_bytes = 64 + 1088 + 1024 + 1152 + 64 + 57;
  }
  return d;
}

static lki_segment_ref *fixed_refs(lki_arena *arena, uint32_t level) {
  lki_segment_ref *refs = lki_arena_alloc(arena, 2 * sizeof *refs);
  for (uint32_t i = 0; i < 2; i++) {
    refs[i].level = level;
    refs[i].first_step = i == 0 ? 100 : 228;
    refs[i].step_count = i == 0 ? 128 : 72;
    refs[i].object_bytes = 900 + i;
    refs[i].version = 3000 + i;
    refs[i].checksum = 0x0123456789abcdef + i;
  }
  return refs;
}

/* tail_count steps from 300 on; long tails compress, short ones do not. */
static void encode_manifest(uint32_t tail_count, lake_buffer *out) {
  lki_manifest *m = lki_manifest_new(env);
  m->namespace_id = namespace_id;
  m->version = 1234567;
  m->attempt = id_of(77);
  m->previous = id_of(91);
  /* The short one has nothing that repeats, so that it stays as it is. */
  m->writer = tail_count < 10 ? "lake seal" : "feeder-1 node7:4242";
  m->sealed = true;
  m->first_live_step = 150;
  m->producer_count = 2;
  m->producers = lki_arena_alloc(&m->arena, 2 * sizeof *m->producers);
  m->segment_count = 2;
  m->segments = fixed_refs(&m->arena, 0);
  m->tail_first_step = 300;
  m->tail_count = tail_count;
  m->next_step = 300 + (uint64_t)tail_count;
  m->tail = fixed_descriptors(&m->arena, tail_count);
  lki_producer_entry first = {"feeder-0",       3,       40,    UINT64_MAX,
                              {"\0\1state", 7}, 1234567, false, tail_count < 10 ? "" : "node7:4242"};
  lki_producer_entry second = {"feeder-1", 2, 7, 0, {NULL, 0}, 99, true, ""};
  for (uint32_t i = 0; i < tail_count; i++) (m->tail[i].producer == 0 ? &first : &second)->next_seq++;
  m->producers[0] = first;
  m->producers[1] = second;
  static uint64_t quarantine[] = {120, 299, 301};
  m->quarantine = quarantine;
  m->quarantine_count = 3;
  need(lki_manifest_encode(env, m, out, &err));
  lki_manifest_release(m);
}

static void encode_segment(uint32_t level, lake_buffer *out) {
  static const char *ids[] = {"feeder-0", "feeder-1"};
  lki_segment *s = lki_segment_new(env);
  s->namespace_id = namespace_id;
  s->level = level;
  s->first_step = 100;
  if (level > 0) {
    s->child_count = 2;
    s->children = fixed_refs(&s->arena, level - 1);
    s->step_count = 200;
  } else {
    s->producer_count = 2;
    s->producer_ids = ids;
    s->descriptor_count = 8;
    s->step_count = 8;
    s->descriptors = fixed_descriptors(&s->arena, 8);
  }
  need(lki_segment_encode(env, s, out, &err));
  lki_segment_release(s);
}

static void encode_tgb(bool zstd, lake_buffer *out) {
  unsigned char runs[300];
  lki_descriptor d = {0};
  lki_arena arena;
  for (size_t i = 0; i < sizeof runs; i++) runs[i] = (unsigned char)(i / 50);
  lake_bytes slices[4] = {{"first slice", 11}, {NULL, 0}, {runs, 300}, {runs + 7, 64}};
  lki_arena_init(&arena, env);
  need(lki_tgb_encode(env, &namespace_id, "feeder-0", 3, 40, slices, 4, zstd, &arena, out, &d, &err));
  lki_arena_free(&arena);
}

static void encode_namespace(bool typed, lki_store_mark mark, lake_buffer *out) {
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  lake_tensor_spec specs[3] = {
      {"tokens", LAKE_U16, 1, {129}}, {"mask", LAKE_BOOL, 1, {128}}, {"weight", LAKE_F32, 0, {0}}};
  lki_schema *schema = NULL;
  if (typed) {
    options.mesh.d_count = 4;
    options.mesh.c_count = 2;
    options.rows_per_slice = 8;
    options.tensor_count = 3;
    options.tensors = specs;
    options.codec = LAKE_CODEC_ZSTD;
    options.tail_max = 64;
    options.note = "English text,\n\"packed\" \xe2\x80\x93 128 tokens";
  }
  need(lki_schema_new(env, &options, namespace_id, &schema, &err));
  schema->store_mark = mark;
  need(lki_namespace_encode(schema, out, &err));
  lki_schema_free(schema);
}

static void encode(const char *name, lake_buffer *out) {
  lki_pin pin = {namespace_id, UINT64_MAX, 36028797018963967, 1234567};
  lki_cursor cursor = {namespace_id, 1000000007, 42};
  char text[LAKE_CURSOR_BYTES];
  lki_cursor_format(&cursor, text);
  if (strcmp(name, "plain.manifest") == 0) encode_manifest(5, out);
  if (strcmp(name, "zstd.manifest") == 0) encode_manifest(60, out);
  if (strcmp(name, "level0.segment") == 0) encode_segment(0, out);
  if (strcmp(name, "level2.segment") == 0) encode_segment(2, out);
  if (strcmp(name, "plain.tgb") == 0) encode_tgb(false, out);
  if (strcmp(name, "zstd.tgb") == 0) encode_tgb(true, out);
  if (strcmp(name, "typed.namespace") == 0) encode_namespace(true, LKI_STORE_UNPROVEN, out);
  if (strcmp(name, "raw.namespace") == 0) encode_namespace(false, LKI_STORE_UNPROVEN, out);
  if (strcmp(name, "proven.namespace") == 0) encode_namespace(false, LKI_STORE_PROVEN, out);
  if (strcmp(name, "forced.namespace") == 0) encode_namespace(true, LKI_STORE_FORCED, out);
  if (strcmp(name, "row.pin") == 0) need(lki_pin_encode(&pin, out, &err));
  if (strcmp(name, "version.hint") == 0) need(lki_hint_encode(1234567, out, &err));
  if (strcmp(name, "row.cursor") == 0) need(lki_buffer_append(out, text, strlen(text), &err));
}

static const char *const names[] = {"plain.manifest", "zstd.manifest", "level0.segment",  "level2.segment",
                                    "plain.tgb",      "zstd.tgb",      "typed.namespace", "raw.namespace",
                                    "row.pin",        "version.hint",  "row.cursor",      "proven.namespace",
                                    "forced.namespace"};
#define NAME_COUNT (sizeof names / sizeof names[0])

static void read_file(const char *name, const char *suffix, lake_buffer *out) {
  char path[1000], chunk[4096];
  const char *source = getenv("LAKE_SOURCE_DIR");
  snprintf(path, sizeof path, "%s/tests/golden/data/%s%s", source != NULL ? source : ".", name, suffix);
  FILE *f = fopen(path, "rb");
  if (f == NULL) fail_msg("%s: cannot be read", path);
  for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;) need(lki_buffer_append(out, chunk, n, &err));
  fclose(f);
}

static void golden(void **state) {
  (void)state;
  for (size_t i = 0; i < NAME_COUNT; i++) {
    lake_buffer file, expect, made;
    char *text = NULL, *made_text = NULL;
    lki_buffer_init(&file, env, 1 << 20);
    lki_buffer_init(&expect, env, 1 << 20);
    lki_buffer_init(&made, env, 1 << 20);
    read_file(names[i], "", &file);
    read_file(names[i], ".expect", &expect);
    assert_true(expect.bytes > 1 && expect.data[expect.bytes - 1] == '\n');
    expect.data[expect.bytes - 1] = 0;
    assert_ok(dump_object(env, lki_buffer_view(&file), &text, &err), &err);
    assert_string_equal(text, (const char *)expect.data);
    encode(names[i], &made);
    if (strncmp(names[i], "zstd.", 5) == 0) {
      assert_ok(dump_object(env, lki_buffer_view(&made), &made_text, &err), &err);
      if (strstr(names[i], ".tgb") == NULL) assert_string_equal(made_text, text);
      assert_non_null(strstr(names[i], ".tgb") != NULL ? strstr(made_text, "\"codec\":\"zstd\"") : made_text);
    } else {
      assert_int_equal(made.bytes, file.bytes);
      assert_memory_equal(made.data, file.data, file.bytes);
    }
    free(text);
    free(made_text);
    lki_buffer_free(&file);
    lki_buffer_free(&expect);
    lki_buffer_free(&made);
  }
}

/* Both ways of storing a manifest are among the golden files. */
static void both_kinds_of_body(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    lake_buffer file;
    lki_buffer_init(&file, env, 1 << 20);
    read_file(names[i], "", &file);
    assert_int_equal(file.data[10], i); /* flags */
    lki_buffer_free(&file);
  }
}

static void write_file(const char *folder, const char *name, const char *suffix, lake_bytes bytes) {
  char path[1000];
  snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix);
  FILE *f = fopen(path, "wb");
  if (f == NULL || fwrite(bytes.data, 1, bytes.bytes, f) != bytes.bytes || fclose(f) != 0) {
    perror(path);
    exit(1);
  }
}

static void write_object(const char *folder, const char *name, lake_bytes object) {
  char *text = NULL;
  need(dump_object(env, object, &text, &err));
  write_file(folder, name, "", object);
  text = realloc(text, strlen(text) + 2);
  if (text == NULL) abort();
  strcat(text, "\n");
  lake_bytes line = {text, strlen(text)};
  write_file(folder, name, ".expect", line);
  free(text);
}

static void write_golden(const char *folder) {
  for (size_t i = 0; i < NAME_COUNT; i++) {
    lake_buffer made;
    lki_buffer_init(&made, env, 1 << 20);
    encode(names[i], &made);
    write_object(folder, names[i], lki_buffer_view(&made));
    lki_buffer_free(&made);
  }
}

static void encode_random(int kind, lki_rng *rng, lake_buffer *out) {
  if (kind == 0) {
    lki_manifest *m = sample_manifest(env, rng);
    need(lki_manifest_encode(env, m, out, &err));
    lki_manifest_release(m);
  } else if (kind == 1) {
    lki_segment *s = sample_segment(env, rng);
    need(lki_segment_encode(env, s, out, &err));
    lki_segment_release(s);
  } else if (kind == 2) {
    lki_schema *schema = sample_schema(env, rng);
    schema->store_mark = (lki_store_mark)lki_rng_below(rng, 3);
    need(lki_namespace_encode(schema, out, &err));
    lki_schema_free(schema);
  } else if (kind == 3) {
    lki_pin pin = {sample_id(rng), sample_number(rng, 64), sample_number(rng, 64), sample_number(rng, 64)};
    need(lki_pin_encode(&pin, out, &err));
  } else {
    lki_arena arena;
    lki_descriptor d = {0};
    uint32_t count = 0;
    lki_id id = sample_id(rng);
    lki_arena_init(&arena, env);
    lake_bytes *slices = sample_slices(&arena, rng, &count);
    need(lki_tgb_encode(env, &id, "feeder.0", 1 + sample_number(rng, 30), sample_number(rng, 64), slices,
                        count, lki_rng_below(rng, 2) == 0, &arena, out, &d, &err));
    lki_arena_free(&arena);
  }
}

static void write_random(uint64_t seed, const char *folder) {
  static const char *const kinds[] = {"manifest", "segment", "namespace", "pin", "tgb"};
  lki_rng rng = {seed};
  for (int i = 0; i < 200; i++) {
    char name[64];
    lake_buffer made;
    lki_buffer_init(&made, env, (size_t)64 << 20);
    snprintf(name, sizeof name, "%03d.%s", i, kinds[i % 5]);
    encode_random(i % 5, &rng, &made);
    write_object(folder, name, lki_buffer_view(&made));
    lki_buffer_free(&made);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(golden), cmocka_unit_test(both_kinds_of_body)};
  int rc = 0;
  if (lake_env_open(NULL, &env, NULL) != LAKE_OK) return 1;
  if (argc == 3 && strcmp(argv[1], "write") == 0)
    write_golden(argv[2]);
  else if (argc == 4 && strcmp(argv[1], "random") == 0)
    write_random(strtoull(argv[2], NULL, 0), argv[3]);
  else
    rc = cmocka_run_group_tests(tests, NULL, NULL);
  lake_env_close(env);
  return rc;
}
