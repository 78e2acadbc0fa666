/* The rules of the manifest, one at a time: a pair of versions that is right but for one thing is CORRUPT, and the text
 * says for which; what a change may and may not do to a base; who counts as active. */
#include "model/manifest.h"
#include "base/env.h"
#include "model/change.h"
#include "support/stream.h"
#include <string.h>

static lake_env *env;
static lake_error err = LAKE_ERROR_INIT;

static lki_descriptor descriptor_of(uint64_t epoch, uint64_t seq) {
  return (lki_descriptor){.epoch = epoch, .seq = seq, .slice_count = 1, .footer_bytes = 100, .frame_bytes = 40,
                          .layout = LKI_LAYOUT_UNIFORM, .object_bytes = 64 + 64 + 100};
}

static lki_change claim_of(const char *id) {
  return (lki_change){.kind = LKI_CHANGE_CLAIM, .producer_id = id, .owner = "host:1"};
}

static lki_change append_of(const char *id, uint64_t first_seq, const lki_descriptor *d, uint64_t offset,
                            const char *state) {
  return (lki_change){.kind = LKI_CHANGE_APPEND, .producer_id = id, .epoch = d->epoch, .first_seq = first_seq,
                      .descriptor_count = 1, .descriptors = d, .offset = offset, .state = {state, strlen(state)}};
}

static lki_change retire_of(const char *id, uint64_t epoch) {
  return (lki_change){.kind = LKI_CHANGE_RETIRE, .producer_id = id, .epoch = epoch};
}

static lake_status apply(const lki_manifest *base, const lki_change *change, lki_manifest **next) {
  lki_stamp stamp = {.writer = "test"};
  stamp.namespace_id.bytes[0] = 1;
  stamp.attempt.bytes[0] = (unsigned char)(base->version + 1);
  return lki_manifest_apply(env, base, change, NULL, NULL, &stamp, next, &err);
}

/* The next version; takes base. */
static lki_manifest *grow(lki_manifest *base, lki_change change) {
  lki_manifest *next = NULL;
  assert_ok(apply(base, &change, &next), &err);
  lki_manifest_release(base);
  return next;
}

/* Version 5: producers a and b; a has TGBs 0 and 1, b has 0, in the order a b a. */
static lki_manifest *new_base(void) {
  const lki_descriptor d0 = descriptor_of(1, 0), d1 = descriptor_of(1, 1);
  lki_manifest *m = lki_manifest_new(env);
  m->namespace_id.bytes[0] = 1;
  m = grow(m, claim_of("a"));
  m = grow(m, claim_of("b"));
  m = grow(m, append_of("a", 0, &d0, 10, "a0"));
  m = grow(m, append_of("b", 0, &d0, 5, "b0"));
  return grow(m, append_of("a", 1, &d1, 20, "a1"));
}

typedef struct broken_rule {
  void (*fault)(lki_manifest *base, lki_manifest *next);
  const char *text; /* how the error begins */
  lki_change_kind kind; /* of the change that leads from base to next */
} broken_rule;

static void version_skipped(lki_manifest *b, lki_manifest *n) { (void)b, n->version++; }
static void other_previous(lki_manifest *b, lki_manifest *n) { (void)b, n->previous.bytes[7] ^= 1; }
static void other_namespace(lki_manifest *b, lki_manifest *n) { (void)b, n->namespace_id.bytes[7] ^= 1; }
static void unsealed(lki_manifest *b, lki_manifest *n) { (void)n, b->sealed = true; }
static void grown_after_seal(lki_manifest *b, lki_manifest *n) { b->sealed = n->sealed = true; }
static void revived_steps(lki_manifest *b, lki_manifest *n) { (void)n, b->first_live_step = 1; }
static void lost_step(lki_manifest *b, lki_manifest *n) { (void)b, n->next_step--, n->tail_count--; }
static void unsealed_tail(lki_manifest *b, lki_manifest *n) { (void)n, b->tail_first_step++, b->tail++, b->tail_count--; }
static void other_producer(lki_manifest *b, lki_manifest *n) { (void)b, n->tail[0].producer = 1; }
static void other_epoch(lki_manifest *b, lki_manifest *n) { (void)b, n->tail[0].epoch++; }
static void other_seq(lki_manifest *b, lki_manifest *n) { (void)b, n->tail[0].seq++; }
static void other_length(lki_manifest *b, lki_manifest *n) { (void)b, n->tail[0].object_bytes++; }
static void other_slices(lki_manifest *b, lki_manifest *n) { (void)b, n->tail[0].slice_count++; }
static void last_changed(lki_manifest *b, lki_manifest *n) { (void)b, n->tail[2].seq++; }
static void sealed_at_once(lki_manifest *b, lki_manifest *n) {
  (void)b;
  n->tail += n->tail_count;
  n->tail_first_step += n->tail_count;
  n->tail_count = 0;
}
static void new_seq_skips(lki_manifest *b, lki_manifest *n) { (void)b, n->tail[3].seq++; }
static void new_of_old_epoch(lki_manifest *b, lki_manifest *n) { b->producers[0].epoch = n->producers[0].epoch = 2; }
static void entry_lost(lki_manifest *b, lki_manifest *n) { (void)b, n->producer_count--; }
static void entry_renamed(lki_manifest *b, lki_manifest *n) { (void)b, n->producers[1].id = "c"; }
static void seq_without_tgb(lki_manifest *b, lki_manifest *n) { (void)b, n->producers[1].next_seq++; }
static void tgb_without_seq(lki_manifest *b, lki_manifest *n) { (void)b, n->producers[0].next_seq--; }
static void epoch_back(lki_manifest *b, lki_manifest *n) { (void)n, b->producers[1].epoch++; }
static void epoch_leaps(lki_manifest *b, lki_manifest *n) { (void)b, n->producers[1].epoch += 2; }
static void offset_back(lki_manifest *b, lki_manifest *n) { (void)b, n->producers[0].offset = 19; }
static void offset_by_itself(lki_manifest *b, lki_manifest *n) { (void)b, n->producers[1].offset++; }
static void state_by_itself(lki_manifest *b, lki_manifest *n) { (void)b, n->producers[1].state.data = "b9"; }
static void state_dropped(lki_manifest *b, lki_manifest *n) { (void)b, n->producers[1].state.bytes = 0; }

static const broken_rule broken_rules[] = {
    {version_skipped, "version 7 follows 5", LKI_CHANGE_APPEND},
    {other_previous, "version 6 does not build on the version 5 read here", LKI_CHANGE_APPEND},
    {other_namespace, "version 6 does not build on the version 5 read here", LKI_CHANGE_APPEND},
    {unsealed, "version 6 goes on after the stream was sealed", LKI_CHANGE_RETIRE},
    {grown_after_seal, "version 6 goes on after the stream was sealed", LKI_CHANGE_APPEND},
    {revived_steps, "first live step moved back", LKI_CHANGE_APPEND},
    {lost_step, "the order shrank from 3 to 2 steps", LKI_CHANGE_RETIRE},
    {unsealed_tail, "the order shrank", LKI_CHANGE_RETIRE},
    {other_producer, "step 0 changed", LKI_CHANGE_RETIRE},
    {other_epoch, "step 0 changed", LKI_CHANGE_RETIRE},
    {other_seq, "step 0 changed", LKI_CHANGE_RETIRE},
    {other_length, "step 0 changed", LKI_CHANGE_RETIRE},
    {other_slices, "step 0 changed", LKI_CHANGE_RETIRE},
    {last_changed, "step 2 changed", LKI_CHANGE_RETIRE},
    {sealed_at_once, "new step 3 was sealed in the commit that added it", LKI_CHANGE_APPEND},
    {new_seq_skips, "producer a: seq 3 follows 2", LKI_CHANGE_APPEND},
    {new_of_old_epoch, "producer a: seq 2 follows 2", LKI_CHANGE_APPEND},
    {entry_lost, "the producer map shrank from 2 to 1", LKI_CHANGE_RETIRE},
    {entry_renamed, "producer entry 1 changed its id from b to c", LKI_CHANGE_RETIRE},
    {seq_without_tgb, "producer b: 0 new TGBs but its seq went from 1 to 2", LKI_CHANGE_APPEND},
    {tgb_without_seq, "producer a: 1 new TGBs but its seq went from 2 to 2", LKI_CHANGE_APPEND},
    {epoch_back, "producer b: epoch or offset moved back", LKI_CHANGE_APPEND},
    {epoch_leaps, "producer b: epoch or offset moved back", LKI_CHANGE_APPEND},
    {offset_back, "producer a: epoch or offset moved back", LKI_CHANGE_APPEND},
    {offset_by_itself, "producer b: offset moved without a TGB", LKI_CHANGE_APPEND},
    {state_by_itself, "producer b: state moved without a TGB", LKI_CHANGE_APPEND},
    {state_dropped, "producer b: state moved without a TGB", LKI_CHANGE_APPEND},
};

static void test_successor(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof broken_rules / sizeof *broken_rules; i++) {
    const broken_rule *r = &broken_rules[i];
    const lki_descriptor d2 = descriptor_of(1, 2);
    const lki_change change = r->kind == LKI_CHANGE_APPEND ? append_of("a", 2, &d2, 21, "a2") : retire_of("a", 1);
    lki_manifest *base = new_base(), *next = NULL;
    assert_ok(apply(base, &change, &next), &err);
    assert_ok(lki_manifest_check_successor(base, next, &err), &err);
    r->fault(base, next);
    assert_status(lki_manifest_check_successor(base, next, &err), LAKE_CORRUPT, &err);
    if (strncmp(err.text, r->text, strlen(r->text)) != 0) fail_msg("\"%s\", not \"%s\"", err.text, r->text);
    lki_manifest_release(next);
    lki_manifest_release(base);
  }
}

/* A newcomer begins at epoch 1; the empty beginning has no namespace of its own. */
static void test_newcomer(void **state) {
  (void)state;
  lki_manifest *base = lki_manifest_new(env), *next = NULL;
  const lki_change claim = claim_of("a");
  assert_ok(apply(base, &claim, &next), &err);
  assert_int_equal(next->producers[0].epoch, 1);
  next->producers[0].epoch = 2;
  assert_status(lki_manifest_check_successor(base, next, &err), LAKE_CORRUPT, &err);
  assert_string_equal(err.text, "producer a: epoch or offset moved back");
  lki_manifest_release(next);
  lki_manifest_release(base);
}

/* The tail and the map are one: the newest TGB of each producer is the one that its entry counts last. */
static void test_tail_against_map(void **state) {
  (void)state;
  static const struct {
    uint64_t next_seq, epoch; /* of a's entry, whose TGBs are 0 and 1 of epoch 1 */
    uint64_t middle_seq;      /* of its first TGB in the tail */
    const char *text;
  } cases[] = {
      {3, 1, 0, "step 2 is seq 1 epoch 1 of producer a, whose map entry calls for seq 3 - 1 and epoch at most 1"},
      {1, 1, 0, "step 2 is seq 1 epoch 1 of producer a, whose map entry calls for seq 1 - 1 and epoch at most 1"},
      {2, 1, 1, "step 0 is seq 1 epoch 1 of producer a, whose map entry calls for seq 1 - 1 and epoch at most 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lki_manifest *m = new_base();
    assert_ok(lki_manifest_check(m, &err), &err);
    m->producers[0].next_seq = cases[i].next_seq;
    m->producers[0].epoch = cases[i].epoch;
    m->tail[0].seq = cases[i].middle_seq;
    assert_status(lki_manifest_check(m, &err), LAKE_CORRUPT, &err);
    assert_string_equal(err.text, cases[i].text);
    lki_manifest_release(m);
  }
  lki_manifest *m = new_base();
  m->tail[2].epoch = 2; /* newer than whoever owns the id */
  assert_status(lki_manifest_check(m, &err), LAKE_CORRUPT, &err);
  assert_string_equal(err.text, "step 2 is seq 1 epoch 2 of producer a, whose map entry calls for seq 2 - 1 and epoch at "
                                "most 1");
  lki_manifest_release(m);
}

/* Everything of an entry but what the change is about stays, for its owner and for the others. */
static void assert_same_entry(const lki_producer_entry *a, const lki_producer_entry *b) {
  assert_string_equal(a->id, b->id);
  assert_string_equal(a->owner, b->owner);
  assert_int_equal(a->epoch, b->epoch);
  assert_int_equal(a->next_seq, b->next_seq);
  assert_int_equal(a->offset, b->offset);
  assert_int_equal(a->retired, b->retired);
  assert_int_equal(a->last_version, b->last_version);
  assert_int_equal(a->state.bytes, b->state.bytes);
  if (a->state.bytes > 0) assert_memory_equal(a->state.data, b->state.data, a->state.bytes);
}

static void test_others_are_kept(void **state) {
  (void)state;
  const lki_descriptor d2 = descriptor_of(1, 2);
  const lki_change changes[] = {append_of("a", 2, &d2, 21, "a2"), claim_of("a"), retire_of("a", 1), claim_of("c"),
                                {.kind = LKI_CHANGE_SEAL}, {.kind = LKI_CHANGE_TRIM, .first_live_step = 1, .version_max = 9}};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    lki_manifest *base = new_base(), *next = NULL;
    base = grow(base, retire_of("b", 1));
    base->producers[0].owner = "near:1"; /* so that no text stands twice */
    base->producers[1].owner = "far:2";
    assert_ok(apply(base, &changes[i], &next), &err);
    assert_same_entry(&next->producers[1], &base->producers[1]);
    if (changes[i].producer_id == NULL || changes[i].producer_id[0] == 'c')
      assert_same_entry(&next->producers[0], &base->producers[0]);
    lki_manifest_release(next);
    lki_manifest_release(base);
  }
}

/* Claiming, retired before or not, raises the epoch and keeps where the producer stood. */
static void test_claim(void **state) {
  (void)state;
  for (int retired = 0; retired < 2; retired++) {
    lki_manifest *m = new_base();
    if (retired) m = grow(m, retire_of("a", 1));
    assert_int_equal(m->producers[0].retired, retired);
    lki_change claim = claim_of("a");
    claim.owner = "other:2";
    m = grow(m, claim);
    const lki_producer_entry *p = &m->producers[0];
    assert_int_equal(m->producer_count, 2);
    assert_int_equal(p->epoch, 2);
    assert_int_equal(p->next_seq, 2);
    assert_int_equal(p->offset, 20);
    assert_int_equal(p->state.bytes, 2);
    assert_memory_equal(p->state.data, "a1", 2);
    assert_false(p->retired);
    assert_string_equal(p->owner, "other:2");
    assert_int_equal(p->last_version, m->version);
    lki_manifest_release(m);
  }
}

static void refused(const lki_manifest *base, lki_change change, lake_status want, const char *text) {
  lki_manifest *next = NULL;
  assert_status(apply(base, &change, &next), want, &err);
  if (text != NULL) assert_string_equal(err.text, text);
  assert_null(next);
}

/* An offset or a seq that does not follow is a bug of the writer, and nothing is written. */
static void test_append_refused(void **state) {
  (void)state;
  lki_manifest *m = new_base();
  const lki_descriptor d2 = descriptor_of(1, 2), d3 = descriptor_of(1, 3), d0 = descriptor_of(2, 2);
  refused(m, append_of("a", 2, &d2, 19, "a2"), LAKE_INTERNAL, "producer a: seq 2 offset 19 cannot follow seq 2 offset 20");
  refused(m, append_of("a", 3, &d3, 30, "a3"), LAKE_INTERNAL, "producer a: seq 3 offset 30 cannot follow seq 2 offset 20");
  refused(m, append_of("a", 2, &d0, 30, "a2"), LAKE_INTERNAL, NULL); /* of an epoch that nobody claimed */
  m = grow(m, append_of("a", 2, &d2, 20, "a2")); /* the same offset is allowed */
  lki_manifest_release(m);
}

/* A sealed stream takes nothing new; what is in already is EXISTS, not END: its owner is told the truth. */
static void test_sealed(void **state) {
  (void)state;
  lki_manifest *m = grow(new_base(), (lki_change){.kind = LKI_CHANGE_SEAL});
  const lki_descriptor d1 = descriptor_of(1, 1), d2 = descriptor_of(1, 2);
  assert_true(m->sealed);
  refused(m, append_of("a", 1, &d1, 20, "a1"), LAKE_EXISTS, NULL);
  refused(m, append_of("a", 2, &d2, 21, "a2"), LAKE_END, "the stream was sealed at 3 steps; nothing can be appended");
  refused(m, claim_of("a"), LAKE_END, NULL);
  refused(m, (lki_change){.kind = LKI_CHANGE_SEAL}, LAKE_EXISTS, NULL);
  m = grow(m, retire_of("a", 1));
  refused(m, retire_of("a", 1), LAKE_EXISTS, NULL);
  assert_true(m->sealed);
  lki_manifest_release(m);
}

/* Active: committed within 32 versions and four for each live producer, and not retired; at least one. */
static void test_active_producers(void **state) {
  (void)state;
  lki_producer_entry entries[5] = {{.id = "a", .last_version = 1000}, {.id = "b", .last_version = 1000 - 44},
                                   {.id = "c", .last_version = 1000 - 45}, {.id = "d", .last_version = 1000, .retired = true},
                                   {.id = "e", .last_version = 999, .retired = true}};
  lki_manifest m = {.version = 1000, .producer_count = 5, .producers = entries};
  assert_int_equal(lki_manifest_active_producers(&m), 2);
  entries[4].retired = false; /* one live producer more widens the window by four */
  assert_int_equal(lki_manifest_active_producers(&m), 4);
  m.version = 2000;
  assert_int_equal(lki_manifest_active_producers(&m), 1);
  m.producer_count = 0;
  assert_int_equal(lki_manifest_active_producers(&m), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_successor),       cmocka_unit_test(test_newcomer),
      cmocka_unit_test(test_tail_against_map), cmocka_unit_test(test_others_are_kept),
      cmocka_unit_test(test_claim),           cmocka_unit_test(test_append_refused),
      cmocka_unit_test(test_sealed),          cmocka_unit_test(test_active_producers),
  };
  env = test_env();
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  lake_env_close(env);
  return failed;
}
