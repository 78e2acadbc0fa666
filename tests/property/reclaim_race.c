/* Reclaim against everybody else, by schedules: A does so many store operations, B so many, then A to its end, then B;
 * or three parties take turns. All numbers of operations are tried. Whoever was told that its pin holds finds its
 * data; two reclaimers do no harm to each other; an upload in flight is never eaten (I6); a producer that commits
 * meanwhile loses nothing. The parties are threads, of which one runs at a time. */
#include "base/env.h"
#include "format/names.h"
#include "support/hook.h"
#include "support/stream.h"
#include "support/tgbs.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define STEPS 21u /* committed before the race */
#define PARTIES 3
#define PIECES 7

/* Who may run: party `turn`, for `left` more operations. */
typedef struct baton {
  pthread_mutex_t lock;
  pthread_cond_t moved;
  int piece;
  struct {
    int party;
    uint64_t operations;
  } pieces[PIECES]; /* the last is whoever is left */
  bool done[PARTIES];
} baton;

typedef struct party {
  baton *baton;
  int number;
  lake_env *env;
  const char *url;
  lake_status (*act)(struct party *p, lake_namespace *ns);
  lake_status status;
  lake_error err;
  uint64_t operation_count;
} party;

static void settle_locked(baton *b) {
  while (b->piece < PIECES - 1 && (b->done[b->pieces[b->piece].party] || b->pieces[b->piece].operations == 0)) b->piece++;
  pthread_cond_broadcast(&b->moved);
}

static hook_verdict await_turn(void *ctx, hook_op op, const char *key, uint64_t nth) {
  (void)op, (void)key, (void)nth;
  party *p = ctx;
  baton *b = p->baton;
  pthread_mutex_lock(&b->lock);
  settle_locked(b);
  while (b->pieces[b->piece].party != p->number) pthread_cond_wait(&b->moved, &b->lock);
  b->pieces[b->piece].operations--;
  p->operation_count++;
  pthread_mutex_unlock(&b->lock);
  return HOOK_PASS;
}

/* Between operations a party may still run beside the other; that touches nothing shared but the store, whose next
 * operation waits. */
static void *party_main(void *arg) {
  party *p = arg;
  lake_store *inner = NULL;
  lake_namespace *ns = NULL;
  assert_ok(lake_store_open(p->env, p->url, &inner, &p->err), &p->err);
  lake_store *store = hook_open(p->env, inner, await_turn, p);
  p->status = lake_namespace_open_store(p->env, store, test_deadline(p->env), &ns, &p->err);
  if (p->status == LAKE_OK) p->status = p->act(p, ns);
  pthread_mutex_lock(&p->baton->lock);
  p->baton->done[p->number] = true;
  settle_locked(p->baton);
  pthread_mutex_unlock(&p->baton->lock);
  lake_namespace_close(ns);
  lake_store_close(store);
  lake_store_close(inner);
  return NULL;
}

static lake_status act_pin(party *p, lake_namespace *ns) {
  return tgb_pin(ns, "racer", 7, lake_deadline_after_ms(p->env, 0), &p->err);
}

static lake_status act_reclaim(party *p, lake_namespace *ns) {
  return lake_reclaim(ns, NULL, test_deadline(p->env), NULL, &p->err);
}

/* A producer with one TGB uploaded commits it, and another. */
static lake_status act_commit(party *p, lake_namespace *ns) {
  lake_status s = tgb_commit(ns, (tgb_mark){1, 1, STEPS}, 1, &p->err);
  if (s != LAKE_OK) return s;
  tgb_upload(ns, (tgb_mark){1, 1, STEPS + 1});
  return tgb_commit(ns, (tgb_mark){1, 1, STEPS + 1}, 1, &p->err);
}

typedef struct race {
  lake_env *env;
  lake_namespace *ns; /* undisturbed */
  tgb_mark marks[STEPS + 2];
  party a, b, c;
} race;

typedef lake_status act_fn(party *p, lake_namespace *ns);

/* Runs the acts (c may be NULL) by a schedule on a fresh stream that is pinned at step 15. */
static void race_start(race *r, act_fn *a, act_fn *b, act_fn *c, baton *stick) {
  lake_error err = LAKE_ERROR_INIT;
  r->env = test_env();
  r->ns = tgb_namespace_new(r->env, "mem:race", 4, 4);
  tgb_claim(r->ns, 1);
  for (uint64_t i = 0; i < STEPS; i++) tgb_append(r->ns, r->marks[i] = (tgb_mark){1, 1, i});
  for (uint64_t i = STEPS; i < STEPS + 2; i++) r->marks[i] = (tgb_mark){1, 1, i};
  tgb_upload(r->ns, r->marks[STEPS]);
  assert_ok(tgb_pin(r->ns, "base", 15, test_deadline(r->env), &err), &err);
  pthread_mutex_init(&stick->lock, NULL);
  pthread_cond_init(&stick->moved, NULL);
  stick->done[2] = c == NULL;
  r->a = (party){stick, 0, r->env, "mem:race", a, LAKE_OK, LAKE_ERROR_INIT, 0};
  r->b = (party){stick, 1, r->env, "mem:race", b, LAKE_OK, LAKE_ERROR_INIT, 0};
  r->c = (party){stick, 2, r->env, "mem:race", c, LAKE_OK, LAKE_ERROR_INIT, 0};
  pthread_t b_thread, c_thread;
  assert_int_equal(pthread_create(&b_thread, NULL, party_main, &r->b), 0);
  if (c != NULL) assert_int_equal(pthread_create(&c_thread, NULL, party_main, &r->c), 0);
  party_main(&r->a);
  pthread_join(b_thread, NULL);
  if (c != NULL) pthread_join(c_thread, NULL);
  pthread_cond_destroy(&stick->moved);
  pthread_mutex_destroy(&stick->lock);
}

/* A does so many operations, B so many, then A to its end, then B. */
static void race_run(race *r, act_fn *a, act_fn *b, uint64_t a_operations, uint64_t b_operations) {
  baton stick = {.pieces = {{0, a_operations}, {1, b_operations}, {0, UINT64_MAX}, {2, 0}, {2, 0}, {2, 0}, {1, UINT64_MAX}}};
  race_start(r, a, b, NULL, &stick);
}

static void race_end(race *r) {
  lake_namespace_close(r->ns);
  lake_env_close(r->env);
}

static void count(lake_status s, unsigned outcomes[3]) {
  if (s == LAKE_OK) outcomes[0]++;
  if (s == LAKE_RECLAIMED) outcomes[1]++;
  if (s == LAKE_UNCERTAIN) outcomes[2]++;
}

/* What the pin was told is so, now and after another reclaim; an answer that was left open can be had now. */
static void check_pin(race *r, const party *pinner, uint64_t a_operations, uint64_t b_operations) {
  lake_error err = LAKE_ERROR_INIT;
  lake_status told = pinner->status;
  if (told != LAKE_OK && told != LAKE_RECLAIMED && told != LAKE_UNCERTAIN)
    fail_msg("schedule %u/%u: the pin was told %s: %s", (unsigned)a_operations, (unsigned)b_operations,
             lake_status_name(told), pinner->err.text);
  if (told == LAKE_UNCERTAIN) told = tgb_pin(r->ns, "racer", 7, test_deadline(r->env), &err);
  for (int i = 0; i < 2; i++) {
    const uint64_t first = tgb_check_all(r->ns, r->marks, STEPS);
    if (told == LAKE_OK && first > 7)
      fail_msg("schedule %u/%u: the pin at step 7 holds, but step %u is the first live one", (unsigned)a_operations,
               (unsigned)b_operations, (unsigned)first);
    if (told == LAKE_RECLAIMED) assert_int_equal(first, 15);
    assert_ok(lake_reclaim(r->ns, NULL, test_deadline(r->env), NULL, &err), &err);
  }
  assert_int_equal(tgb_check_all(r->ns, r->marks, STEPS), told == LAKE_OK ? 7 : 15);
  assert_int_equal(tgb_count_objects(r->ns, "watermark/").count, told == LAKE_OK ? 2 : 1);
  assert_int_equal(tgb_count_objects(r->ns, "boundary/line/").count, 0);
  assert_int_equal(tgb_count_objects(r->ns, "data/").count, STEPS + 1 - (told == LAKE_OK ? 7 : 15));
}

static void test_pin_against_reclaim(void **state) {
  (void)state;
  unsigned outcomes[2][3] = {{0}}, schedules = 0;
  for (int order = 0; order < 2; order++) {
    uint64_t a_count = UINT64_MAX, b_count = UINT64_MAX;
    for (uint64_t i = 0; i < a_count; i++) {
      b_count = UINT64_MAX;
      for (uint64_t k = 0; k < b_count; k++, schedules++) {
        race r;
        race_run(&r, order == 0 ? act_reclaim : act_pin, order == 0 ? act_pin : act_reclaim, i, k);
        const party *pinner = order == 0 ? &r.b : &r.a, *reclaimer = order == 0 ? &r.a : &r.b;
        assert_ok(reclaimer->status, &reclaimer->err);
        count(pinner->status, outcomes[order]);
        check_pin(&r, pinner, i, k);
        if (r.b.operation_count < k) b_count = k;
        if (r.a.operation_count < i) a_count = i;
        race_end(&r);
      }
    }
  }
  printf("%u schedules; reclaim first: %u hold, %u reclaimed, %u open; pin first: %u, %u, %u\n", schedules, outcomes[0][0],
         outcomes[0][1], outcomes[0][2], outcomes[1][0], outcomes[1][1], outcomes[1][2]);
  for (int order = 0; order < 2; order++) assert_true(outcomes[order][0] > 0 && outcomes[order][1] > 0);
  assert_true(outcomes[0][2] > 0);
}

/* A reclaimer stands somewhere on its way, and a second one; a pin comes and stops; the second goes on; and then the
 * pin is told first. */
static void test_pin_between_reclaimers(void **state) {
  (void)state;
  unsigned outcomes[3] = {0}, schedules = 0;
  for (uint64_t i = 6; i < 15; i++)
    for (uint64_t k = 0; k < 11; k++)
      for (uint64_t j = 1; j < 6; j++)
        for (uint64_t l = 0; l < 11; l++, schedules++) {
          race r;
          baton stick = {.pieces = {{0, i}, {2, k}, {1, j}, {2, l}, {1, UINT64_MAX}, {0, UINT64_MAX}, {2, UINT64_MAX}}};
          race_start(&r, act_reclaim, act_pin, act_reclaim, &stick);
          assert_ok(r.a.status, &r.a.err);
          assert_ok(r.c.status, &r.c.err);
          count(r.b.status, outcomes);
          check_pin(&r, &r.b, i * 100 + j, k * 100 + l);
          race_end(&r);
        }
  printf("%u schedules: %u hold, %u reclaimed, %u open\n", schedules, outcomes[0], outcomes[1], outcomes[2]);
  assert_true(outcomes[0] > 0 && outcomes[1] > 0 && outcomes[2] > 0);
}

/* The same pin is created twice. What one caller was told does not change by what the other is told. */
static void test_pin_twice(void **state) {
  (void)state;
  unsigned outcomes[3] = {0}, both = 0;
  for (uint64_t i = 3; i < 20; i++)
    for (uint64_t j = 1; j < 8; j++)
      for (uint64_t k = 0; k < 12; k++) {
        race r;
        baton stick = {.pieces = {{0, i}, {1, j}, {0, k}, {2, UINT64_MAX}, {1, UINT64_MAX}, {2, 0}, {0, UINT64_MAX}}};
        race_start(&r, act_reclaim, act_pin, act_pin, &stick);
        assert_ok(r.a.status, &r.a.err);
        count(r.b.status, outcomes);
        count(r.c.status, outcomes);
        both += r.b.status == LAKE_UNCERTAIN && r.c.status == LAKE_OK;
        if (r.c.status != LAKE_UNCERTAIN) check_pin(&r, &r.c, i * 100 + j, k);
        else check_pin(&r, &r.b, i * 100 + j, k);
        race_end(&r);
      }
  printf("%u hold, %u reclaimed, %u open; %u times one was told to ask again and the other that it holds\n", outcomes[0],
         outcomes[1], outcomes[2], both);
  assert_true(both > 0);
}

static void test_two_reclaimers(void **state) {
  (void)state;
  unsigned schedules = 0;
  uint64_t a_count = UINT64_MAX;
  for (uint64_t i = 0; i < a_count; i++) {
    uint64_t b_count = UINT64_MAX;
    for (uint64_t k = 0; k < b_count; k += 3, schedules++) {
      race r;
      lake_error err = LAKE_ERROR_INIT;
      race_run(&r, act_reclaim, act_reclaim, i, k);
      assert_ok(r.a.status, &r.a.err);
      assert_ok(r.b.status, &r.b.err);
      assert_int_equal(tgb_check_all(r.ns, r.marks, STEPS), 15);
      assert_ok(lake_reclaim(r.ns, NULL, test_deadline(r.env), NULL, &err), &err);
      assert_int_equal(tgb_count_objects(r.ns, "boundary/line/").count, 0);
      assert_int_equal(tgb_count_objects(r.ns, "data/").count, STEPS + 1 - 15);
      if (r.b.operation_count < k) b_count = k;
      if (r.a.operation_count < i) a_count = i;
      race_end(&r);
    }
  }
  printf("%u schedules\n", schedules);
}

static void test_commits_go_on(void **state) {
  (void)state;
  unsigned schedules = 0;
  for (int order = 0; order < 2; order++) {
    uint64_t a_count = UINT64_MAX;
    for (uint64_t i = 0; i < a_count; i++) {
      uint64_t b_count = UINT64_MAX;
      for (uint64_t k = 0; k < b_count; k += 3, schedules++) {
        race r;
        lake_error err = LAKE_ERROR_INIT;
        race_run(&r, order == 0 ? act_reclaim : act_commit, order == 0 ? act_commit : act_reclaim, i, k);
        assert_ok(r.a.status, &r.a.err);
        assert_ok(r.b.status, &r.b.err);
        assert_int_equal(tgb_check_all(r.ns, r.marks, STEPS + 2), 15);
        assert_ok(lake_reclaim(r.ns, NULL, test_deadline(r.env), NULL, &err), &err);
        assert_int_equal(tgb_count_objects(r.ns, "data/").count, STEPS + 2 - 15);
        if (r.b.operation_count < k) b_count = k;
        if (r.a.operation_count < i) a_count = i;
        race_end(&r);
      }
    }
  }
  printf("%u schedules\n", schedules);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pin_against_reclaim),
      cmocka_unit_test(test_pin_between_reclaimers),
      cmocka_unit_test(test_pin_twice),
      cmocka_unit_test(test_two_reclaimers),
      cmocka_unit_test(test_commits_go_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
