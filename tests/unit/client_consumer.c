/* The consumer's edges: what does not fit is refused with a text that helps; small budgets work; damage is CORRUPT and
 * passes once it is mended; every layout and codec comes back as it went in. */
#include "base/buffer.h"
#include "base/rng.h"
#include "client/namespace.h"
#include "format/names.h"
#include "tgb/tgb.h"
#include "support/stream.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static lake_error err = LAKE_ERROR_INIT;

static lake_producer *open_producer(lake_env *env, lake_namespace *ns) {
  lake_producer *p = NULL;
  assert_ok(lake_producer_open(ns, "p", NULL, test_deadline(env), NULL, &p, &err), &err);
  return p;
}

static void finish(lake_env *env, lake_namespace *ns, lake_producer *p, bool seal) {
  assert_ok(lake_producer_retire(p, test_deadline(env), &err), &err);
  lake_producer_close(p);
  if (seal) assert_ok(lake_namespace_seal(ns, test_deadline(env), NULL, &err), &err);
}

static void test_refused_at_open(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = test_namespace_new(env, "mem:refused", 4, 2, 0);
  lake_namespace *other = test_namespace_new(env, "mem:other", 4, 2, 0);
  lake_consumer *c = NULL;
  lake_consumer_options o = LAKE_CONSUMER_OPTIONS_INIT;
  o.mesh = (lake_mesh){3, 2};
  assert_status(lake_consumer_open(ns, &o, test_deadline(env), &c, &err), LAKE_INVALID, &err);
  assert_string_equal(err.text, "mesh 3x2 (DxC) does not fit namespace mem:refused, whose mesh is 4x2; run the job with 4 "
                                "data-parallel and 2 context-parallel ranks");
  o.mesh = (lake_mesh){0, 0};
  o.coords = (lake_coords){4, 0};
  assert_status(lake_consumer_open(ns, &o, test_deadline(env), &c, &err), LAKE_INVALID, &err);
  assert_string_equal(err.text, "coordinates (4,0) lie outside the mesh 4x2 (DxC) of mem:refused");
  o.coords = (lake_coords){0, 0};
  o.cursor = "lake1-nonsense";
  assert_status(lake_consumer_open(ns, &o, test_deadline(env), &c, &err), LAKE_INVALID, &err);
  char cursor[LAKE_CURSOR_BYTES];
  assert_ok(lake_consumer_open(other, NULL, test_deadline(env), &c, &err), &err);
  lake_consumer_cursor(c, cursor);
  lake_consumer_close(c);
  c = NULL;
  o.cursor = cursor;
  assert_status(lake_consumer_open(ns, &o, test_deadline(env), &c, &err), LAKE_INVALID, &err);
  assert_non_null(strstr(err.text, "open the namespace that the checkpoint was made from"));
  lki_cursor ahead = {ns->schema->namespace_id, 4 * 7, 0}; /* step 7 of an empty stream */
  lki_cursor_format(&ahead, cursor);
  assert_status(lake_consumer_open(ns, &o, test_deadline(env), &c, &err), LAKE_INVALID, &err);
  assert_non_null(strstr(err.text, "cursor stands at step 7 but mem:refused holds only 0"));
  ahead.row = 2;
  lki_cursor_format(&ahead, cursor);
  assert_status(lake_consumer_open(ns, &o, test_deadline(env), &c, &err), LAKE_INVALID, &err);
  assert_non_null(strstr(err.text, "in the middle of a step"));
  assert_null(c); /* outputs untouched */
  struct {
    lake_consumer_options known;
    uint64_t unknown;
  } grown = {.known = LAKE_CONSUMER_OPTIONS_INIT, .unknown = 1};
  grown.known.size = sizeof grown;
  assert_status(lake_consumer_open(ns, &grown.known, test_deadline(env), &c, &err), LAKE_INVALID, &err);
  lake_namespace *missing = NULL;
  assert_status(lake_namespace_open(env, "mem:nowhere", test_deadline(env), &missing, &err), LAKE_NOTFOUND, &err);
  assert_non_null(strstr(err.text, "no namespace at mem:nowhere"));
  assert_status(lake_namespace_create(env, "mem:other", NULL, test_deadline(env), NULL, &err), LAKE_EXISTS, &err);
  lake_namespace_close(other);
  lake_namespace_close(ns);
  lake_env_close(env);
}

/* Slices of many lengths, compressible and not, on meshes that give each layout. */
static void layouts_with(lake_codec codec, uint32_t d_count, uint32_t c_count, uint64_t budget) {
  lake_env *env = test_env();
  lki_rng rng = {42};
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.mesh = (lake_mesh){d_count, c_count};
  options.codec = codec;
  lake_namespace *ns = NULL;
  assert_ok(lake_namespace_create(env, "mem:layouts", &options, test_deadline(env), &ns, &err), &err);
  const uint32_t count = d_count * c_count, steps = 6;
  lake_producer *p = open_producer(env, ns);
  unsigned char **want = calloc((size_t)count * steps, sizeof *want);
  lake_bytes *slices = calloc((size_t)count * steps, sizeof *slices);
  for (uint32_t i = 0; i < count * steps; i++) {
    size_t bytes = i % 5 == 0 ? 0 : (size_t)lki_rng_below(&rng, i % 7 == 0 ? 200000 : 3000);
    want[i] = malloc(bytes + 1);
    const bool noise = i % 2 == 0;
    for (size_t k = 0; k < bytes; k++) want[i][k] = noise ? (unsigned char)lki_rng_next(&rng) : (unsigned char)(k / 100);
    slices[i] = (lake_bytes){want[i], bytes};
  }
  for (uint32_t step = 0; step < steps; step++)
    assert_ok(lake_producer_append(p, slices + (size_t)step * count, count, step + 1, (lake_bytes){NULL, 0},
                                   test_deadline(env), &err), &err);
  finish(env, ns, p, true);
  for (uint32_t slice = 0; slice < count; slice += 1 + count / 9) {
    lake_consumer_options o = LAKE_CONSUMER_OPTIONS_INIT;
    o.coords = (lake_coords){slice / c_count, slice % c_count};
    o.prefetch_bytes_max = budget;
    lake_consumer *c = NULL;
    assert_ok(lake_consumer_open(ns, &o, test_deadline(env), &c, &err), &err);
    lake_batch held[3] = {{0}};
    for (uint32_t step = 0; step < steps; step++) {
      lake_consumer_release(c, &held[step % 3]); /* three are held at a time, out of the budget's order */
      assert_ok(lake_consumer_next(c, test_deadline(env), &held[step % 3], &err), &err);
      const lake_bytes *w = &slices[(size_t)step * count + slice];
      assert_int_equal(held[step % 3].bytes, w->bytes);
      if (w->bytes > 0) assert_memory_equal(held[step % 3].data, w->data, w->bytes);
    }
    lake_batch batch;
    assert_status(lake_consumer_next(c, test_deadline(env), &batch, &err), LAKE_END, &err);
    lake_consumer_close(c); /* what was not released goes with it */
  }
  for (uint32_t i = 0; i < count * steps; i++) free(want[i]);
  free(want);
  free(slices);
  lake_namespace_close(ns);
  lake_env_close(env);
}

static void test_layouts(void **state) {
  (void)state;
  layouts_with(LAKE_CODEC_NONE, 2, 2, 0);
  layouts_with(LAKE_CODEC_ZSTD, 2, 2, 0);
  layouts_with(LAKE_CODEC_ZSTD, 40, 16, 0); /* too irregular for the descriptor: the footer is read */
  layouts_with(LAKE_CODEC_ZSTD, 2, 2, 1);   /* a budget smaller than any slice */
}

static void test_typed(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_tensor_spec specs[3] = {{"tokens", LAKE_U16, 1, {5}}, {"mask", LAKE_BOOL, 1, {5}}, {"weight", LAKE_F32, 0, {0}}};
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.rows_per_slice = 3;
  options.tensor_count = 3;
  options.tensors = specs;
  lake_namespace *ns = NULL;
  assert_ok(lake_namespace_create(env, "mem:typed", &options, test_deadline(env), &ns, &err), &err);
  lake_namespace_info info;
  lake_namespace_info_get(ns, &info);
  assert_int_equal(info.slice_bytes, 64 + 64 + 64); /* 30, 15 and 12 bytes, each on its 64 */
  lake_tensor t[3];
  uint32_t count = 0;
  unsigned char *slice = aligned_alloc(64, info.slice_bytes);
  assert_ok(lake_slice_tensors(ns, slice, info.slice_bytes, t, 3, &count, &err), &err);
  assert_int_equal(count, 3);
  assert_int_equal(t[0].rank, 2);
  assert_int_equal(t[0].shape[0], 3);
  assert_int_equal(t[0].shape[1], 5);
  assert_int_equal(t[2].rank, 1);
  assert_ptr_equal(t[1].data, slice + 64);
  for (size_t i = 0; i < info.slice_bytes; i++) slice[i] = (unsigned char)i;
  lake_producer *p = open_producer(env, ns);
  lake_bytes one = {slice, info.slice_bytes - 1}, whole = {slice, info.slice_bytes};
  assert_status(lake_producer_append(p, &one, 1, 1, (lake_bytes){NULL, 0}, test_deadline(env), &err), LAKE_INVALID, &err);
  assert_string_equal(err.text, "producer p: slice 0 has 191 bytes, the schema says 192");
  assert_status(lake_producer_append(p, &whole, 2, 1, (lake_bytes){NULL, 0}, test_deadline(env), &err), LAKE_INVALID, &err);
  assert_ok(lake_producer_append(p, &whole, 1, 7, (lake_bytes){NULL, 0}, test_deadline(env), &err), &err);
  assert_status(lake_producer_append(p, &whole, 1, 6, (lake_bytes){NULL, 0}, test_deadline(env), &err), LAKE_INVALID, &err);
  finish(env, ns, p, false);
  lake_consumer *c = NULL;
  assert_ok(lake_consumer_open(ns, NULL, test_deadline(env), &c, &err), &err);
  lake_batch batch;
  assert_ok(lake_consumer_next(c, test_deadline(env), &batch, &err), &err);
  assert_int_equal(batch.tensor_count, 3);
  assert_string_equal(batch.tensors[2].name, "weight");
  assert_ptr_equal(batch.tensors[1].data, (const unsigned char *)batch.data + 64); /* a view, no copy */
  assert_memory_equal(batch.data, slice, info.slice_bytes);
  lake_consumer_release(c, &batch);
  lake_consumer_release(c, &batch); /* an empty batch is accepted */
  lake_consumer_close(c);
  free(slice);
  lake_namespace_close(ns);
  lake_env_close(env);
}

/* Damage in the store: CORRUPT that names the object, as often as it is asked, and right bytes once it is mended. */
static void test_damage(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = test_namespace_new(env, "mem:damage", 1, 1, 0);
  lake_producer *p = open_producer(env, ns);
  for (uint64_t seq = 0; seq < 8; seq++)
    assert_ok(test_append(p, (lake_mesh){1, 1}, 0, seq, test_deadline(env), &err), &err);
  finish(env, ns, p, true);
  char name[LKI_NAME_BYTES];
  lki_name_tgb(name, "p", 1, 3);
  lake_buffer good;
  lki_buffer_init(&good, env, 1 << 20);
  assert_ok(lki_store_get(ns->store, name, lki_range_whole(), &good, NULL, test_deadline(env), &err), &err);
  const int damages = 4;
  for (int damage = 0; damage < damages; damage++) {
    if (damage == 0) assert_ok(lki_store_remove(ns->store, name, test_deadline(env), &err), &err);
    if (damage == 1)
      assert_ok(lki_store_put(ns->store, name, (lake_bytes){good.data, 70}, test_deadline(env), &err), &err);
    if (damage == 2) {
      good.data[64] ^= 1;
      assert_ok(lki_store_put(ns->store, name, lki_buffer_view(&good), test_deadline(env), &err), &err);
      good.data[64] ^= 1;
    }
    if (damage == 3) { /* another TGB's object under this name */
      char other[LKI_NAME_BYTES];
      lki_name_tgb(other, "p", 1, 4);
      lake_buffer bytes;
      lki_buffer_init(&bytes, env, 1 << 20);
      assert_ok(lki_store_get(ns->store, other, lki_range_whole(), &bytes, NULL, test_deadline(env), &err), &err);
      assert_ok(lki_store_put(ns->store, name, lki_buffer_view(&bytes), test_deadline(env), &err), &err);
      lki_buffer_free(&bytes);
    }
    lake_consumer *c = NULL;
    lake_batch batch;
    assert_ok(lake_consumer_open(ns, NULL, test_deadline(env), &c, &err), &err);
    for (uint64_t step = 0; step < 3; step++) {
      assert_ok(lake_consumer_next(c, test_deadline(env), &batch, &err), &err);
      lake_consumer_release(c, &batch);
    }
    for (int again = 0; again < 3; again++) {
      assert_status(lake_consumer_next(c, test_deadline(env), &batch, &err), LAKE_CORRUPT, &err);
      assert_non_null(strstr(err.text, "rank (d=0,c=0) step 3"));
      char *at = strstr(err.text, name);
      assert_non_null(at);
      assert_null(strstr(at + 1, name));
      assert_non_null(strstr(at, "; restore the object"));
      assert_null(batch.handle);
    }
    assert_ok(lki_store_put(ns->store, name, lki_buffer_view(&good), test_deadline(env), &err), &err);
    for (uint64_t step = 3; step < 8; step++) {
      assert_ok(lake_consumer_next(c, test_deadline(env), &batch, &err), &err);
      assert_int_equal(batch.step, step);
      test_slice slice;
      memcpy(&slice, batch.data, sizeof slice);
      assert_int_equal(slice.seq, step);
      lake_consumer_release(c, &batch);
    }
    assert_status(lake_consumer_next(c, test_deadline(env), &batch, &err), LAKE_END, &err);
    lake_consumer_close(c);
  }
  lki_buffer_free(&good);
  lake_namespace_close(ns);
  lake_env_close(env);
}

/* Sealed under a producer: its append ends with END and loses nothing that was committed. */
static void test_sealed_producer(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = test_namespace_new(env, "mem:sealed", 1, 1, 0);
  lake_producer *p = open_producer(env, ns);
  const lake_mesh mesh = {1, 1};
  assert_ok(test_append(p, mesh, 0, 0, test_deadline(env), &err), &err);
  assert_ok(lake_producer_flush(p, test_deadline(env), &err), &err);
  uint64_t steps = 0;
  assert_ok(lake_namespace_seal(ns, test_deadline(env), &steps, &err), &err);
  assert_int_equal(steps, 1);
  assert_ok(test_append(p, mesh, 0, 1, test_deadline(env), &err), &err);
  assert_status(lake_producer_flush(p, test_deadline(env), &err), LAKE_END, &err);
  assert_status(test_append(p, mesh, 0, 2, test_deadline(env), &err), LAKE_END, &err);
  lake_producer_close(p);
  lake_producer *late = NULL;
  assert_status(lake_producer_open(ns, "late", NULL, test_deadline(env), NULL, &late, &err), LAKE_END, &err);
  assert_null(late);
  lake_namespace_close(ns);
  lake_env_close(env);
}

static void test_pins(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = test_namespace_new(env, "mem:pins", 1, 1, 0);
  lake_producer *p = open_producer(env, ns);
  assert_ok(test_append(p, (lake_mesh){1, 1}, 0, 0, test_deadline(env), &err), &err);
  finish(env, ns, p, false);
  char at0[LAKE_CURSOR_BYTES], at1[LAKE_CURSOR_BYTES];
  lake_consumer *c = NULL;
  lake_batch batch;
  assert_ok(lake_consumer_open(ns, NULL, test_deadline(env), &c, &err), &err);
  lake_consumer_cursor(c, at0);
  assert_ok(lake_consumer_next(c, test_deadline(env), &batch, &err), &err);
  lake_consumer_cursor(c, at1);
  lake_consumer_close(c);
  assert_ok(lake_pin_create(ns, "default", "step-1", at1, test_deadline(env), &err), &err);
  assert_ok(lake_pin_create(ns, "default", "step-1", at1, test_deadline(env), &err), &err); /* the same again */
  assert_status(lake_pin_create(ns, "default", "step-1", at0, test_deadline(env), &err), LAKE_EXISTS, &err);
  assert_status(lake_pin_create(ns, "../evil", "step-1", at0, test_deadline(env), &err), LAKE_INVALID, &err);
  assert_status(lake_pin_create(ns, "default", "a/b", at0, test_deadline(env), &err), LAKE_INVALID, &err);
  assert_ok(lake_pin_remove(ns, "default", "step-1", test_deadline(env), &err), &err);
  assert_ok(lake_pin_remove(ns, "default", "step-1", test_deadline(env), &err), &err);
  assert_ok(lake_pin_create(ns, "default", "step-1", at0, test_deadline(env), &err), &err);
  lake_namespace_close(ns);
  lake_env_close(env);
}

/* A step that readers must not deliver: the one before it comes, it is refused by name, and a cursor behind it goes on. */
static void test_quarantine(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = test_namespace_new(env, "mem:quarantine", 1, 1, 0), *reader = NULL;
  lake_producer *p = open_producer(env, ns);
  for (uint64_t seq = 0; seq < 4; seq++)
    assert_ok(test_append(p, (lake_mesh){1, 1}, 0, seq, test_deadline(env), &err), &err);
  finish(env, ns, p, true);
  lki_manifest *m = lki_log_view(ns->log);
  uint64_t quarantine[] = {1, 2};
  m->quarantine = quarantine;
  m->quarantine_count = 2;
  m->previous = m->attempt;
  m->attempt.bytes[0] ^= 1;
  m->version++;
  char name[LKI_NAME_BYTES], cursor[LAKE_CURSOR_BYTES];
  lki_name_manifest(name, m->version);
  lake_buffer bytes;
  lki_buffer_init(&bytes, env, 1 << 20);
  assert_ok(lki_manifest_encode(env, m, &bytes, &err), &err);
  assert_ok(lki_store_put_if_absent(ns->store, name, lki_buffer_view(&bytes), test_deadline(env), &err), &err);
  lki_buffer_free(&bytes);
  lki_manifest_release(m);
  assert_ok(lake_namespace_open(env, "mem:quarantine", test_deadline(env), &reader, &err), &err);
  lake_consumer_options o = LAKE_CONSUMER_OPTIONS_INIT;
  lake_consumer *c = NULL;
  lake_batch batch;
  assert_ok(lake_consumer_open(reader, &o, test_deadline(env), &c, &err), &err);
  assert_ok(lake_consumer_next(c, test_deadline(env), &batch, &err), &err);
  assert_int_equal(batch.step, 0);
  lake_consumer_release(c, &batch);
  for (int again = 0; again < 2; again++) {
    assert_status(lake_consumer_next(c, test_deadline(env), &batch, &err), LAKE_CORRUPT, &err);
    assert_string_equal(err.text, "rank (d=0,c=0) step 1: step 1 is quarantined; start after it");
  }
  lake_consumer_close(c);
  const lki_cursor behind = {ns->schema->namespace_id, 3, 0};
  lki_cursor_format(&behind, cursor);
  o.cursor = cursor;
  assert_ok(lake_consumer_open(reader, &o, test_deadline(env), &c, &err), &err);
  assert_ok(lake_consumer_next(c, test_deadline(env), &batch, &err), &err);
  assert_int_equal(batch.step, 3);
  lake_consumer_close(c);
  lake_namespace_close(reader);
  lake_namespace_close(ns);
  lake_env_close(env);
}

/* Commits a TGB that no producer client would make. */
static void commit_odd(lake_namespace *ns, const lake_bytes *slices, uint32_t slice_count) {
  lki_descriptor d;
  lki_arena arena;
  lake_buffer object;
  lki_commit_result result;
  lki_arena_init(&arena, ns->env);
  lki_buffer_init(&object, ns->env, 1 << 20);
  lki_change claim = {.kind = LKI_CHANGE_CLAIM, .producer_id = "odd", .owner = "host:1"};
  assert_ok(lki_log_commit(ns->log, &claim, "odd", test_deadline(ns->env), &result, &err), &err);
  lki_manifest_release(result.manifest);
  assert_ok(lki_tgb_encode(ns->env, &ns->schema->namespace_id, "odd", 1, 0, slices, slice_count, false, &arena, &object, &d,
                           &err), &err);
  assert_ok(lki_tgb_write(ns->store, "odd", 1, 0, lki_buffer_view(&object), test_deadline(ns->env), &err), &err);
  lki_change append = {.kind = LKI_CHANGE_APPEND, .producer_id = "odd", .epoch = 1, .descriptor_count = 1, .descriptors = &d,
                       .offset = 1};
  assert_ok(lki_log_commit(ns->log, &append, "odd", test_deadline(ns->env), &result, &err), &err);
  lki_manifest_release(result.manifest);
  lki_buffer_free(&object);
  lki_arena_free(&arena);
}

/* A whole TGB that is not what the namespace says is CORRUPT when it is read, whoever wrote it. */
static void test_against_schema(void **state) {
  (void)state;
  lake_tensor_spec spec = {"tokens", LAKE_U16, 1, {32}};
  unsigned char content[128] = {0};
  static const struct {
    uint32_t slice_count, d;
    size_t bytes;
    const char *text;
  } cases[] = {{2, 0, 128, "step 0: the slice has 128 bytes, the schema says 64"},
               {2, 1, 32, "step 0: the slice has 32 bytes, the schema says 64"},
               {1, 1, 64, "step 0 has 1 slices, slice 1 is asked for"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lake_env *env = test_env();
    lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
    options.mesh = (lake_mesh){2, 1};
    options.tensor_count = 1;
    options.tensors = &spec;
    lake_namespace *ns = NULL;
    assert_ok(lake_namespace_create(env, "mem:schema", &options, test_deadline(env), &ns, &err), &err);
    const lake_bytes slices[2] = {{content, cases[i].bytes}, {content, cases[i].bytes}};
    commit_odd(ns, slices, cases[i].slice_count);
    lake_consumer_options o = LAKE_CONSUMER_OPTIONS_INIT;
    o.coords.d = cases[i].d;
    lake_consumer *c = NULL;
    lake_batch batch;
    assert_ok(lake_consumer_open(ns, &o, test_deadline(env), &c, &err), &err);
    assert_status(lake_consumer_next(c, test_deadline(env), &batch, &err), LAKE_CORRUPT, &err);
    if (strstr(err.text, cases[i].text) == NULL) fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].text);
    assert_null(batch.handle);
    lake_consumer_close(c);
    lake_namespace_close(ns);
    lake_env_close(env);
  }
}

/* A child that was forked after opening gets a clear error at once; its parent goes on. */
static void test_fork(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = test_namespace_new(env, "mem:fork", 1, 1, 0);
  lake_producer *p = open_producer(env, ns);
  lake_consumer *c = NULL;
  lake_batch batch;
  assert_ok(lake_consumer_open(ns, NULL, test_deadline(env), &c, &err), &err);
  pid_t pid = fork();
  if (pid == 0) {
    bool right = lake_consumer_next(c, test_deadline(env), &batch, &err) == LAKE_INVALID &&
                 strcmp(err.text, "the consumer was opened before fork(); open environment and handles in the child itself") == 0 &&
                 test_append(p, (lake_mesh){1, 1}, 0, 0, test_deadline(env), &err) == LAKE_INVALID &&
                 lake_producer_flush(p, test_deadline(env), &err) == LAKE_INVALID;
    lake_consumer_close(c);
    lake_producer_close(p);
    _exit(right ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  assert_ok(test_append(p, (lake_mesh){1, 1}, 0, 0, test_deadline(env), &err), &err);
  assert_ok(lake_consumer_next(c, test_deadline(env), &batch, &err), &err);
  lake_consumer_close(c);
  lake_producer_close(p);
  lake_namespace_close(ns);
  lake_env_close(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refused_at_open), cmocka_unit_test(test_layouts), cmocka_unit_test(test_typed),
      cmocka_unit_test(test_damage),          cmocka_unit_test(test_pins),    cmocka_unit_test(test_sealed_producer),
      cmocka_unit_test(test_quarantine),      cmocka_unit_test(test_against_schema),
      cmocka_unit_test(test_fork),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
