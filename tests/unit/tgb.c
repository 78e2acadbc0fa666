/* A TGB's object is the one that its descriptor means: a footer of another producer, epoch, seq, namespace, size or mesh
 * is refused, whole as it may be, and so is a slice that is looked up by it. */
#include "tgb/tgb.h"
#include "base/buffer.h"
#include "base/env.h"
#include "format/names.h"
#include "support/stream.h"
#include <string.h>

#define SLICES 400 /* irregular, so that only the footer lists the frames */

static lake_error err = LAKE_ERROR_INIT;

typedef struct object {
  lake_env *env;
  lake_store *store;
  lki_id namespace_id;
  lki_descriptor descriptor;
  lki_arena arena;
  lake_buffer bytes;
} object;

static void make(object *o) {
  static unsigned char content[SLICES * 3];
  lake_bytes slices[SLICES];
  for (size_t i = 0; i < SLICES; i++) slices[i] = (lake_bytes){content, i * 3 % 1000};
  for (size_t i = 0; i < sizeof content; i++) content[i] = (unsigned char)i;
  o->env = test_env();
  o->namespace_id.bytes[0] = 9;
  lki_arena_init(&o->arena, o->env);
  lki_buffer_init(&o->bytes, o->env, 1 << 24);
  assert_ok(lake_store_open(o->env, "mem:tgb", &o->store, &err), &err);
  assert_ok(lki_tgb_encode(o->env, &o->namespace_id, "a", 3, 5, slices, SLICES, false, &o->arena, &o->bytes,
                           &o->descriptor, &err), &err);
  assert_int_equal(o->descriptor.layout, LKI_LAYOUT_FOOTER);
}

/* The same object under the name of `producer_id` and d. */
static void put_as(object *o, const char *producer_id, const lki_descriptor *d) {
  assert_ok(lki_tgb_write(o->store, producer_id, d->epoch, d->seq, lki_buffer_view(&o->bytes), test_deadline(o->env), &err),
            &err);
}

static void refused(object *o, const lki_id *namespace_id, const char *producer_id, lki_descriptor d, const char *text) {
  const lki_tgb_ref ref = {namespace_id, producer_id, &d};
  lki_tgb_footer footer = {.seq = 77};
  lki_slice slice = {0};
  put_as(o, producer_id, &d);
  assert_status(lki_tgb_read_footer(o->store, &ref, test_deadline(o->env), &o->arena, &footer, &err), LAKE_CORRUPT, &err);
  if (strstr(err.text, text) == NULL) fail_msg("\"%s\" does not say \"%s\"", err.text, text);
  assert_int_equal(footer.seq, 77); /* untouched */
  assert_status(lki_tgb_read_slice(o->store, &ref, 1, test_deadline(o->env), &slice, &err), LAKE_CORRUPT, &err);
  assert_null(slice.memory);
}

static void test_footer_identity(void **state) {
  (void)state;
  static const char other[] = "it is another TGB's object";
  object o;
  memset(&o, 0, sizeof o);
  make(&o);
  const lki_tgb_ref ref = {&o.namespace_id, "a", &o.descriptor};
  lki_tgb_footer footer;
  lki_slice slice = {0};
  put_as(&o, "a", &o.descriptor);
  assert_ok(lki_tgb_read_footer(o.store, &ref, test_deadline(o.env), &o.arena, &footer, &err), &err);
  assert_int_equal(footer.slice_count, SLICES);
  assert_string_equal(footer.producer_id, "a");
  assert_ok(lki_tgb_read_slice(o.store, &ref, 7, test_deadline(o.env), &slice, &err), &err);
  assert_int_equal(slice.view.bytes, 21);
  lki_slice_free(&slice);

  refused(&o, &o.namespace_id, "b", o.descriptor, other);
  lki_descriptor d = o.descriptor;
  d.epoch++;
  refused(&o, &o.namespace_id, "a", d, other);
  d = o.descriptor;
  d.seq++;
  refused(&o, &o.namespace_id, "a", d, other);
  d = o.descriptor;
  d.slice_count--;
  refused(&o, &o.namespace_id, "a", d, other);
  d = o.descriptor;
  d.object_bytes += 64;
  refused(&o, &o.namespace_id, "a", d, "bytes, its descriptor says");
  lki_id namespace_id = o.namespace_id;
  namespace_id.bytes[15] ^= 1;
  refused(&o, &namespace_id, "a", o.descriptor, other);

  lki_arena_free(&o.arena);
  lki_buffer_free(&o.bytes);
  lake_store_close(o.store);
  lake_env_close(o.env);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_footer_identity)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
