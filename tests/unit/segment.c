/* A segment is what the reference to it says, or CORRUPT: its steps, its level, its bytes, its namespace. */
#include "base/buffer.h"
#include "base/checksum.h"
#include "format/names.h"
#include "log/log.h"
#include "support/stream.h"
#include "support/tgbs.h"
#include <string.h>

#define STEPS 3

static lake_error err = LAKE_ERROR_INIT;

/* A segment of STEPS descriptors from step 10 on, encoded. */
static void encode(lake_env *env, lki_id namespace_id, uint64_t seq, lake_buffer *bytes) {
  static const char *ids[] = {"p0"};
  lki_descriptor d[STEPS];
  for (uint32_t i = 0; i < STEPS; i++)
    d[i] = (lki_descriptor){.epoch = 1, .seq = seq + i, .slice_count = 1, .footer_bytes = 100, .frame_bytes = 40,
                            .layout = LKI_LAYOUT_UNIFORM, .object_bytes = 228};
  lki_segment *segment = lki_segment_new(env);
  segment->namespace_id = namespace_id;
  segment->first_step = 10;
  segment->step_count = segment->descriptor_count = STEPS;
  segment->descriptors = d;
  segment->producer_count = 1;
  segment->producer_ids = ids;
  lki_buffer_init(bytes, env, 1 << 20);
  assert_ok(lki_segment_encode(env, segment, bytes, &err), &err);
  lki_segment_release(segment);
}

/* Puts the bytes under the reference's name and loads it. */
static lake_status load(lake_namespace *ns, const lki_segment_ref *ref, const lake_buffer *bytes, lki_segment **out) {
  char name[LKI_NAME_BYTES];
  lki_name_segment(name, ref);
  assert_ok(lki_store_put(ns->store, name, lki_buffer_view(bytes), test_deadline(ns->env), &err), &err);
  return lki_log_load_segment(ns->log, ref, test_deadline(ns->env), out, &err);
}

static void refused(lake_namespace *ns, lki_segment_ref ref, const lake_buffer *bytes, const char *text) {
  lki_segment *out = NULL;
  assert_status(load(ns, &ref, bytes, &out), LAKE_CORRUPT, &err);
  if (strstr(err.text, text) == NULL) fail_msg("\"%s\" does not say \"%s\"", err.text, text);
  assert_null(out);
}

static void test_against_ref(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_namespace *ns = tgb_namespace_new(env, "mem:segment", 0, 0);
  lake_buffer bytes, other, foreign;
  encode(env, ns->schema->namespace_id, 0, &bytes);
  encode(env, ns->schema->namespace_id, 1, &other);
  lki_id id = ns->schema->namespace_id;
  id.bytes[3] ^= 1;
  encode(env, id, 0, &foreign);
  assert_int_equal(bytes.bytes, other.bytes);
  const lki_segment_ref ref = {.first_step = 10, .step_count = STEPS, .level = 0, .object_bytes = (uint32_t)bytes.bytes,
                               .version = 7, .checksum = lki_checksum(bytes.data, bytes.bytes, 0)};
  lki_segment *out = NULL;
  assert_ok(load(ns, &ref, &bytes, &out), &err);
  assert_int_equal(out->descriptors[2].seq, 2);
  lki_segment_release(out);

  lki_segment_ref wrong = ref;
  wrong.first_step++;
  refused(ns, wrong, &bytes, "it does not cover the steps that the manifest says");
  wrong = ref;
  wrong.step_count++;
  refused(ns, wrong, &bytes, "it does not cover the steps that the manifest says");
  wrong = ref;
  wrong.level++;
  refused(ns, wrong, &bytes, "it does not cover the steps that the manifest says");
  wrong = ref;
  wrong.object_bytes++;
  refused(ns, wrong, &bytes, "it is not the segment that the manifest refers to");
  refused(ns, ref, &other, "it is not the segment that the manifest refers to"); /* as long, and as whole */
  wrong = ref;
  wrong.checksum = lki_checksum(foreign.data, foreign.bytes, 0);
  wrong.object_bytes = (uint32_t)foreign.bytes;
  refused(ns, wrong, &foreign, "namespace");

  char name[LKI_NAME_BYTES];
  lki_name_segment(name, &ref);
  assert_ok(lki_store_remove(ns->store, name, test_deadline(env), &err), &err);
  out = NULL;
  assert_status(lki_log_load_segment(ns->log, &ref, test_deadline(env), &out, &err), LAKE_CORRUPT, &err);
  assert_non_null(strstr(err.text, "is missing though a manifest refers to it; restore the object"));
  assert_null(out);
  lki_buffer_free(&bytes);
  lki_buffer_free(&other);
  lki_buffer_free(&foreign);
  lake_namespace_close(ns);
  lake_env_close(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_ref)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
