/* What a fenced epoch is told of its TGBs is the truth, or that nothing tells: over random histories of claims and
 * commits of several ids, for every epoch that was fenced and from every version at which it may have stood, with
 * versions reclaimed from the old end. Nothing is told wrongly, and while nothing is reclaimed all is told. */
#include "base/buffer.h"
#include "base/rng.h"
#include "log/log.h"
#include "support/hook.h"
#include "support/stream.h"
#include "support/tgbs.h"
#include "format/names.h"
#include <stdio.h>
#include <string.h>

#define IDS 2
#define MOVES 60
#define EPOCHS_MAX (MOVES + 1)

typedef struct life {
  uint64_t claimed_at; /* version */
  uint64_t begin, end; /* its seqs */
} life;

typedef struct history {
  uint64_t epoch[IDS], next_seq[IDS];
  life lives[IDS][EPOCHS_MAX + 1]; /* by epoch, from 1 */
  uint64_t version;
} history;

static void claim(lake_namespace *ns, history *h, uint32_t id) {
  const uint64_t epoch = tgb_claim(ns, id);
  assert_int_equal(epoch, h->epoch[id] + 1);
  h->epoch[id] = epoch;
  h->version++;
  h->lives[id][epoch] = (life){h->version, h->next_seq[id], h->next_seq[id]};
}

static void commit(lake_namespace *ns, history *h, uint32_t id, uint32_t count) {
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(tgb_commit(ns, (tgb_mark){id, (uint32_t)h->epoch[id], h->next_seq[id]}, count, &err), &err);
  h->next_seq[id] += count;
  h->lives[id][h->epoch[id]].end = h->next_seq[id];
  h->version++;
}

static lake_status find_once(lki_log *log, const lki_fenced *fenced, const lki_manifest *newest, lake_deadline deadline,
                             uint64_t *next_seq, lake_error *err) {
  lki_fenced_search search = {0};
  return lki_log_find_fenced(log, fenced, newest, NULL, deadline, &search, next_seq, err);
}

/* Every question that an owner of this epoch could ask. *told counts the answers. */
static void ask(lake_namespace *ns, const history *h, uint32_t id, uint64_t epoch, bool whole, uint64_t *told) {
  lake_error err = LAKE_ERROR_INIT;
  const life *l = &h->lives[id][epoch];
  const uint64_t fenced_at = h->lives[id][epoch + 1].claimed_at;
  char name[16];
  snprintf(name, sizeof name, "p%u", id);
  lki_manifest *newest = lki_log_view(ns->log);
  for (uint64_t own = l->claimed_at; own < fenced_at; own++) {
    for (uint64_t known = l->begin; known <= l->end; known++) {
      const lki_fenced fenced = {name, epoch, own, known};
      uint64_t next_seq = 12345;
      lake_status s = find_once(ns->log, &fenced, newest, test_deadline(ns->env), &next_seq, &err);
      if (s == LAKE_OK) {
        assert_int_equal(next_seq, l->end);
        ++*told;
      } else {
        assert_status(s, LAKE_RECLAIMED, &err);
        assert_false(whole);
        assert_int_equal(next_seq, 12345);
      }
      if (known == l->end && h->next_seq[id] == l->end) assert_int_equal(s, LAKE_OK); /* told without any version */
    }
  }
  lki_manifest_release(newest);
}

static uint64_t ask_all(lake_namespace *ns, const history *h, bool whole) {
  uint64_t told = 0;
  for (uint32_t id = 0; id < IDS; id++)
    for (uint64_t epoch = 1; epoch < h->epoch[id]; epoch++) ask(ns, h, id, epoch, whole, &told);
  return told;
}

/* The name of a dead version was created again, by writers that slept through its reclamation and claim what others have
 * long claimed. */
static void bring_back(lake_namespace *ns, uint64_t version) {
  lake_error err = LAKE_ERROR_INIT;
  lki_manifest *m = NULL;
  lake_buffer bytes;
  char name[LKI_NAME_BYTES];
  lki_buffer_init(&bytes, ns->env, 1 << 20);
  lki_name_manifest(name, version);
  assert_ok(lki_log_load(ns->log, version, test_deadline(ns->env), &m, &err), &err);
  for (uint32_t i = 0; i < m->producer_count; i++) m->producers[i].epoch++;
  assert_ok(lki_manifest_encode(ns->env, m, &bytes, &err), &err);
  assert_ok(lki_store_put(ns->store, name, lki_buffer_view(&bytes), test_deadline(ns->env), &err), &err);
  lki_buffer_free(&bytes);
  lki_manifest_release(m);
}

static void test_histories(void **state) {
  (void)state;
  lki_rng rng = {test_seed()};
  for (int round = 0; round < 6; round++) {
    lake_env *env = test_env();
    lake_namespace *ns = tgb_namespace_new(env, "mem:fenced", 1 + (uint32_t)lki_rng_below(&rng, 6), 1);
    history h = {{0}, {0}, {{{0, 0, 0}}}, 0};
    for (uint32_t id = 0; id < IDS; id++) claim(ns, &h, id);
    for (int move = 0; move < MOVES; move++) {
      const uint32_t id = (uint32_t)lki_rng_below(&rng, IDS);
      if (lki_rng_below(&rng, 4) == 0)
        claim(ns, &h, id);
      else
        commit(ns, &h, id, 1 + (uint32_t)lki_rng_below(&rng, 3));
    }
    uint64_t told = ask_all(ns, &h, true);
    assert_true(told > 0);
    lake_error err = LAKE_ERROR_INIT;
    for (uint64_t version = 0; version < h.version; version += 1 + lki_rng_below(&rng, 12)) {
      for (uint64_t v = 0; v <= version; v++) { /* a block is one version */
        char name[LKI_NAME_BYTES];
        lki_name_manifest(name, v);
        assert_ok(lki_log_raise(ns->log, v, test_deadline(env), &err), &err);
        if (v > 0 && v < version) assert_ok(lki_store_remove(ns->store, name, test_deadline(env), &err), &err);
      }
      if (version > 0) bring_back(ns, version);
      const uint64_t left = ask_all(ns, &h, false);
      assert_true(left <= told);
      told = left;
    }
    lake_namespace_close(ns);
    lake_env_close(env);
  }
}

static hook_verdict deny_gets(void *ctx, hook_op op, const char *key, uint64_t nth) {
  (void)ctx, (void)nth;
  return op == HOOK_GET && strncmp(key, "manifest/", 9) == 0 ? HOOK_DENY : HOOK_PASS;
}

/* One version that cannot be read for now is no answer; one that is damaged for good is none either. */
static void test_damage(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_error err = LAKE_ERROR_INIT;
  lake_namespace *ns = tgb_namespace_new(env, "mem:damaged", 1, 1);
  history h = {{0}, {0}, {{{0, 0, 0}}}, 0};
  claim(ns, &h, 0);
  commit(ns, &h, 0, 2);
  claim(ns, &h, 0);
  for (int i = 0; i < 4; i++) commit(ns, &h, 0, 1); /* the tail holds one or two TGBs: the claim's version has to tell */
  lki_manifest *newest = lki_log_view(ns->log);
  const lki_fenced fenced = {"p0", 1, 1, 0};
  uint64_t next_seq = 0;
  lake_store *barred = hook_open(env, ns->store, deny_gets, NULL);
  lake_namespace *other = NULL;
  assert_ok(lake_namespace_open_store(env, barred, test_deadline(env), &other, &err), &err);
  assert_status(find_once(other->log, &fenced, newest, test_deadline(env), &next_seq, &err), LAKE_DENIED, &err);
  assert_int_equal(next_seq, 0);
  lake_namespace_close(other);
  lake_store_close(barred);
  assert_ok(find_once(ns->log, &fenced, newest, test_deadline(env), &next_seq, &err), &err);
  assert_int_equal(next_seq, 2);
  char name[LKI_NAME_BYTES];
  for (uint64_t v = 2; v < newest->version; v++) {
    lki_name_manifest(name, v);
    assert_ok(lki_store_put(ns->store, name, (lake_bytes){"x", 1}, test_deadline(env), &err), &err);
  }
  assert_status(find_once(ns->log, &fenced, newest, test_deadline(env), &next_seq, &err), LAKE_RECLAIMED, &err);
  lki_manifest_release(newest);
  lake_namespace_close(ns);
  lake_env_close(env);
}

/* One manifest is read, then none for now. */
static hook_verdict deny_from_second(void *ctx, hook_op op, const char *key, uint64_t nth) {
  uint32_t *read_count = ctx;
  (void)nth;
  if (op != HOOK_GET || strncmp(key, "manifest/", 9) != 0) return HOOK_PASS;
  return ++*read_count > 1 ? HOOK_DENY : HOOK_PASS;
}

/* Calls that have time for one halving each find what one without an end finds, in as many calls as that takes. */
static void test_goes_on(void **state) {
  (void)state;
  lake_env *env = test_env();
  lake_error err = LAKE_ERROR_INIT;
  lake_namespace *ns = tgb_namespace_new(env, "mem:goes-on", 1, 1);
  history h = {{0}, {0}, {{{0, 0, 0}}}, 0};
  claim(ns, &h, 0);
  commit(ns, &h, 0, 2);
  claim(ns, &h, 0);
  for (int i = 0; i < 60; i++) commit(ns, &h, 0, 1);
  lki_manifest *newest = lki_log_view(ns->log);
  const lki_fenced fenced = {"p0", 1, 1, 0};
  uint64_t next_seq = 12345;
  uint32_t read_count = 0, call_count = 0;
  lake_store *barred = hook_open(env, ns->store, deny_from_second, &read_count);
  lake_namespace *other = NULL;
  assert_ok(lake_namespace_open_store(env, barred, test_deadline(env), &other, &err), &err);
  lki_fenced_search search = {0};
  lake_status s = LAKE_DENIED;
  for (; s == LAKE_DENIED && call_count < 20; call_count++) {
    read_count = 0;
    s = lki_log_find_fenced(other->log, &fenced, newest, NULL, test_deadline(env), &search, &next_seq, &err);
    if (s != LAKE_OK) assert_int_equal(next_seq, 12345);
  }
  assert_ok(s, &err);
  assert_int_equal(next_seq, 2);
  assert_in_range(call_count, 3, 7); /* halvings of 62 versions */
  /* Whoever is told to stop asks nothing. */
  atomic_bool stop = true;
  search = (lki_fenced_search){0};
  read_count = 0;
  s = lki_log_find_fenced(other->log, &fenced, newest, &stop, test_deadline(env), &search, &next_seq, &err);
  assert_status(s, LAKE_CANCELED, &err);
  assert_int_equal(read_count, 0);
  lake_namespace_close(other);
  lake_store_close(barred);
  lki_manifest_release(newest);
  lake_namespace_close(ns);
  lake_env_close(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_histories), cmocka_unit_test(test_damage),
                                     cmocka_unit_test(test_goes_on)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
