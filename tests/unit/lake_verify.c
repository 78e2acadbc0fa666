/* verify on a stream whose order is broken. Producers cannot make one, nor can the manifest's own check pass one in its
 * tail, so the segments and the manifest are made by hand, each whole and checksummed. */
#include "support/support.h"
#include "base/buffer.h"
#include "base/checksum.h"
#include "client/namespace.h"
#include "format/names.h"
#include "tgb/tgb.h"
#include "verify.h"
#include <stdio.h>
#include <string.h>

#define FAULTS_MAX 16

typedef struct fixture {
  lake_env *env;
  lake_namespace *ns;
  lki_cli cli;
  lki_arena arena;
  char faults[FAULTS_MAX][300];
  uint32_t fault_count;
} fixture;

static void on_fault(void *ctx, const lki_verify_fault *fault) {
  fixture *f = ctx;
  assert_true(f->fault_count < FAULTS_MAX);
  snprintf(f->faults[f->fault_count++], sizeof f->faults[0], "%s %s: %s; %s", fault->kind, fault->object, fault->text,
           fault->means);
}

static void open_fixture(fixture *f, const char *name) {
  lake_error err = LAKE_ERROR_INIT;
  memset(f, 0, sizeof *f);
  assert_ok(lake_env_open(NULL, &f->env, &err), &err);
  assert_ok(lake_namespace_create(f->env, name, NULL, test_deadline(f->env), &f->ns, &err), &err);
  f->cli = (lki_cli){.env = f->env, .command = "verify", .timeout_ms = 60000};
  lki_arena_init(&f->arena, f->env);
}

static void close_fixture(fixture *f) {
  lki_arena_free(&f->arena);
  lake_namespace_close(f->ns);
  lake_env_close(f->env);
}

/* A TGB whose object lies in the store. */
static lki_descriptor put_tgb(fixture *f, uint32_t producer, const char *id, uint64_t epoch, uint64_t seq) {
  lake_error err = LAKE_ERROR_INIT;
  lake_bytes slice = {"slice", 5};
  lake_buffer object;
  lki_descriptor d = {0};
  lki_buffer_init(&object, f->env, 1 << 20);
  assert_ok(lki_tgb_encode(f->env, &f->ns->schema->namespace_id, id, epoch, seq, &slice, 1, false, &f->arena, &object, &d,
                           &err), &err);
  d.producer = producer;
  assert_ok(lki_tgb_write(f->ns->store, id, epoch, seq, lki_buffer_view(&object), test_deadline(f->env), &err), &err);
  lki_buffer_free(&object);
  return d;
}

static void put(fixture *f, const char *key, lake_buffer *bytes) {
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lki_store_put(f->ns->store, key, lki_buffer_view(bytes), test_deadline(f->env), &err), &err);
}

static lki_segment_ref put_segment(fixture *f, const char **ids, uint32_t id_count, lki_descriptor *descriptors,
                                   uint32_t count) {
  lake_error err = LAKE_ERROR_INIT;
  char key[LKI_NAME_BYTES];
  lake_buffer bytes;
  lki_buffer_init(&bytes, f->env, LKI_SEGMENT_BYTES_MAX);
  lki_segment *segment = lki_segment_new(f->env);
  assert_non_null(segment);
  segment->namespace_id = f->ns->schema->namespace_id;
  segment->step_count = segment->descriptor_count = count;
  segment->descriptors = descriptors;
  segment->producer_count = id_count;
  segment->producer_ids = ids;
  assert_ok(lki_segment_encode(f->env, segment, &bytes, &err), &err);
  lki_segment_ref ref = {0, count, 0, (uint32_t)bytes.bytes, 0, lki_checksum(bytes.data, bytes.bytes, 0)};
  lki_name_segment(key, &ref);
  put(f, key, &bytes);
  lki_segment_release(segment);
  lki_buffer_free(&bytes);
  return ref;
}

/* Version 1: the segment, one step behind it, and a producer map. */
static void put_manifest(fixture *f, lki_segment_ref *ref, lki_descriptor *tail, lki_producer_entry *producers,
                         uint32_t producer_count) {
  lake_error err = LAKE_ERROR_INIT;
  char key[LKI_NAME_BYTES];
  lake_buffer bytes;
  lki_buffer_init(&bytes, f->env, LKI_MANIFEST_BYTES_MAX);
  lki_manifest *m = lki_manifest_new(f->env);
  assert_non_null(m);
  m->namespace_id = f->ns->schema->namespace_id;
  m->version = 1;
  m->attempt.bytes[0] = 1;
  m->writer = "test";
  m->producers = producers;
  m->producer_count = producer_count;
  m->segments = ref;
  m->segment_count = 1;
  m->tail_first_step = ref->step_count;
  m->tail = tail;
  m->tail_count = 1;
  m->next_step = ref->step_count + 1;
  assert_ok(lki_manifest_encode(f->env, m, &bytes, &err), &err);
  lki_name_manifest(key, 1);
  put(f, key, &bytes);
  lki_manifest_release(m);
  lki_buffer_free(&bytes);
}

static void verify(fixture *f) {
  lake_error err = LAKE_ERROR_INIT;
  lki_verify_options options = {.to = UINT64_MAX, .chain = 1, .jobs = 3};
  lki_verify_result result;
  assert_ok(lki_verify(&f->cli, f->ns, &options, on_fault, f, &result, &err), &err);
  assert_int_equal(result.fault_count, f->fault_count);
  for (uint32_t i = 0; i < f->fault_count; i++) printf("  %s\n", f->faults[i]);
}

static void assert_fault(const fixture *f, uint32_t i, const char *want) {
  assert_true(i < f->fault_count);
  assert_string_equal(f->faults[i], want);
}

static lki_producer_entry entry(const char *id, uint64_t epoch, uint64_t next_seq) {
  return (lki_producer_entry){.id = id, .epoch = epoch, .next_seq = next_seq, .offset = next_seq, .last_version = 1,
                              .owner = "test"};
}

static void test_good(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, "mem:good");
  const char *ids[] = {"a", "b"};
  lki_descriptor d[] = {put_tgb(&f, 0, "a", 1, 0), put_tgb(&f, 1, "b", 1, 0), put_tgb(&f, 0, "a", 2, 1)};
  lki_descriptor tail = put_tgb(&f, 1, "a", 2, 2); /* the manifest numbers its producers otherwise than the segment */
  lki_producer_entry producers[] = {entry("b", 1, 1), entry("a", 2, 3)};
  lki_segment_ref ref = put_segment(&f, ids, 2, d, 3);
  put_manifest(&f, &ref, &tail, producers, 2);
  verify(&f);
  assert_int_equal(f.fault_count, 0);
  close_fixture(&f);
}

static void test_order(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, "mem:order");
  const char *ids[] = {"a"};
  lki_descriptor d[] = {put_tgb(&f, 0, "a", 1, 0), put_tgb(&f, 0, "a", 2, 1), put_tgb(&f, 0, "a", 2, 1),
                        put_tgb(&f, 0, "a", 1, 3)};
  lki_descriptor tail = put_tgb(&f, 0, "a", 2, 4);
  lki_producer_entry producers[] = {entry("a", 2, 5), entry("b", 1, 2)};
  lki_segment_ref ref = put_segment(&f, ids, 1, d, 4);
  put_manifest(&f, &ref, &tail, producers, 2);
  verify(&f);
  assert_int_equal(f.fault_count, 4);
  assert_fault(&f, 0, "order step 2: producer a has seq 1 where 2 is due; a TGB is in the stream twice");
  assert_fault(&f, 1, "order step 3: producer a has seq 3 where 2 is due; a TGB of this producer is lost");
  assert_fault(&f, 2, "order step 3: producer a goes back from epoch 2 to 1; a fenced incarnation committed");
  assert_fault(&f, 3, "producer b: the producer map says 2 TGBs, the steps hold 0; TGBs of this producer are lost from "
                      "the stream");
  close_fixture(&f);
}

static void test_producer_map(void **state) {
  (void)state;
  fixture f;
  open_fixture(&f, "mem:map");
  const char *ids[] = {"ghost", "a"};
  lki_descriptor d[] = {put_tgb(&f, 0, "ghost", 1, 0), put_tgb(&f, 1, "a", 3, 0)};
  lki_descriptor tail = put_tgb(&f, 0, "a", 2, 1);
  lki_producer_entry producers[] = {entry("a", 2, 2)};
  lki_segment_ref ref = put_segment(&f, ids, 2, d, 2);
  put_manifest(&f, &ref, &tail, producers, 1);
  verify(&f);
  assert_int_equal(f.fault_count, 5);
  /* Their epochs are claimed nowhere: a manifest that does may be lost. */
  static const char *const tgbs[] = {"data/8e/a/0000000003-00000000000000000000.tgb",
                                     "data/92/ghost/0000000001-00000000000000000000.tgb"};
  for (uint32_t i = 0; i < 2; i++) {
    char want[300];
    snprintf(want, sizeof want, "manifest manifest/00000000000000000002.manifest: it is missing, yet %s is of an epoch "
             "that no version before claims; whatever was committed after version 1 is lost to readers; restore the object",
             tgbs[i]);
    assert_fault(&f, i, want);
  }
  assert_fault(&f, 2, "order step 0: producer ghost is not in the producer map; this producer could start over and "
                      "repeat its input");
  assert_fault(&f, 3, "producer step 1: producer a: epoch 3 seq 0 is beyond what the producer map holds; this producer "
                      "would repeat TGBs when it opens again");
  close_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_order),
                                     cmocka_unit_test(test_producer_map)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
