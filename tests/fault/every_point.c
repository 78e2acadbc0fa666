/* One fault at every point of a stream's life: the nth allocation or the nth store call fails, for n = 1, 2,
 * 3, ... until a whole life passes without meeting the fault. A call that fails says so in one line, leaves
 * its outputs as they were, and goes through when it is made again; in the end the stream holds what was
 * acknowledged, once and in order, and no memory is left.
 *
 * A fault strikes once, or lasts until a call of the API has failed of it (an outage): the first shows what
 * retries hide, the second what they cannot. Threads make n mean another point in each run; all are met all
 * the same. The clock runs CLOCK_FACTOR times as fast as the world's, so that backoffs take no time. */
#include "support/stream.h"
#include "support/toxic.h"

#include "base/env.h"
#include "base/env_posix.h"
#include "base/error.h"
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_FACTOR 300u
#define LONG_MS 18000000u /* a minute of the world's time */
#define SHORT_MS 6000u    /* what a call waits before and in an outage */
#define ROUNDS 4          /* flushes of each producer */
#define TGBS_PER_ROUND 3
#define TGBS (ROUNDS * TGBS_PER_ROUND)
#define WINDOW                                                                                               \
  4 /* steps fetched ahead: in an outage each of them may fail, and says so when its turn comes */
#define PINNED 5 /* first step that stays */
#define POINTS_MAX 20000

typedef enum fault_kind { FAULT_ALLOC = 100 /* above every toxic_kind */ } fault_kind;

static const char *fault_name(int kind) {
  static const char *const names[] = {"none",        "fails before", "reply lost", "taken by itself",
                                      "lands later", "short body",   "bit flip",   "denied"};
  return kind == FAULT_ALLOC ? "allocation" : names[kind];
}

typedef struct fault {
  int kind; /* toxic_kind or FAULT_ALLOC */
  bool lasts;
  atomic_long left; /* points to pass before it strikes; below 0: it is over, or has not begun */
  atomic_bool struck, healed;
  atomic_long live; /* allocations not freed */
} fault;

typedef struct life {
  fault *f;
  long at;
  lake_env *env;
  toxic *t;
  lake_namespace *ns[2]; /* two processes, as it were */
  lake_producer *p[2];
  uint64_t seq[2]; /* appended by this incarnation, or before it */
  uint32_t failed_count;
  uint32_t
      early_count; /* calls that ran into a short deadline though nothing was wrong but the machine busy */
} life;

/* --- the world --- */

/* Whether this point is the one. */
static bool strikes(fault *f) {
  if (atomic_load(&f->healed)) return false;
  if (f->lasts && atomic_load(&f->struck)) return true;
  if (atomic_fetch_sub(&f->left, 1) != 1) return false;
  atomic_store(&f->struck, true);
  return true;
}

static void *faulty_alloc(void *ctx, size_t align, size_t bytes) {
  fault *f = ctx;
  if (f->kind == FAULT_ALLOC && strikes(f)) return NULL;
  atomic_fetch_add(&f->live, 1);
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void faulty_free(void *ctx, void *p) {
  if (p == NULL) return;
  atomic_fetch_sub(&((fault *)ctx)->live, 1);
  free(p);
}

static toxic_kind faulty_call(void *ctx, toxic_op op, const char *key, uint64_t nth) {
  (void)op, (void)key, (void)nth;
  fault *f = ctx;
  return f->kind != FAULT_ALLOC && strikes(f) ? (toxic_kind)f->kind : TOXIC_NONE;
}

static uint64_t fast_now_ns(void *self) {
  return lki_env_posix_ops()->now_ns(self) * CLOCK_FACTOR;
}

static void fast_sleep_until(void *self, uint64_t at_ns) {
  lki_env_posix_ops()->sleep_until(self, at_ns / CLOCK_FACTOR + 1);
}

static bool fast_cond_wait(void *self, lki_cond *cond, lki_mutex *mutex, uint64_t at_ns) {
  return lki_env_posix_ops()->cond_wait(self, cond, mutex,
                                        at_ns == LKI_NEVER ? at_ns : at_ns / CLOCK_FACTOR + 1);
}

static lake_status open_env(fault *f, lake_env **out, lake_error *err) {
  static lki_env_ops ops;
  ops = *lki_env_posix_ops();
  ops.now_ns = fast_now_ns;
  ops.sleep_until = fast_sleep_until;
  ops.cond_wait = fast_cond_wait;
  lake_env_options o = LAKE_ENV_OPTIONS_INIT;
  o.alloc = faulty_alloc;
  o.free = faulty_free;
  o.alloc_ctx = f;
  void *self = lki_env_posix_new(&o);
  if (self == NULL)
    return lki_fail(err, LAKE_NOMEM, "environment: out of memory"); /* as lake_env_open says it */
  lake_status s = lki_env_wrap(&ops, self, 0, out, err);
  if (s != LAKE_OK) ops.close(self);
  return s;
}

/* --- calls that may fail --- */

static lake_deadline limit(const life *l) {
  const bool patient = !l->f->lasts || atomic_load(&l->f->healed);
  return lake_deadline_after_ms(l->env, patient ? LONG_MS : (uint64_t)SHORT_MS << l->early_count);
}

/* What a fault may look like to a caller who waited out its deadline, or was told at once. */
static bool may_be(const fault *f, lake_status s) {
  switch (f->kind) {
  case FAULT_ALLOC:
    return s == LAKE_NOMEM || (f->lasts && (s == LAKE_TIMEOUT || s == LAKE_UNCERTAIN));
  case TOXIC_DENIED:
    return s == LAKE_DENIED || s == LAKE_TIMEOUT || s == LAKE_UNCERTAIN;
  case TOXIC_FLIP:
  case TOXIC_TRUNCATE:
    return s == LAKE_CORRUPT || s == LAKE_UNAVAILABLE || s == LAKE_TIMEOUT || s == LAKE_UNCERTAIN;
  default:
    return s == LAKE_UNAVAILABLE || s == LAKE_TIMEOUT || s == LAKE_UNCERTAIN;
  }
}

/* Judges a call: true if it went through. After a failure the weather clears. */
static bool passed(life *l, const char *call, lake_status s, lake_error *err) {
  if (s == LAKE_OK) return true;
  const fault *f = l->f;
  const char *why = NULL;
  if (f->lasts && s == LAKE_TIMEOUT && !atomic_load(&f->struck) && l->early_count < 12) {
    l->early_count++;
    return false;
  }
  if (!atomic_load(&f->struck))
    why = "failed without a fault";
  else if (!may_be(f, s))
    why = "failed with an odd status";
  else if (err->status != s)
    why = "does not say in its error what it returns";
  else if (err->text[0] == 0 || strchr(err->text, '\n') != NULL)
    why = "does not say in one line what failed";
  else if (l->failed_count > 0 && !(f->lasts && l->failed_count <= WINDOW))
    why = "failed again after the fault was over";
  if (why != NULL)
    fail_msg("%s %s: %s: %s (point %ld, fault: %s%s)", call, why, lake_status_name(s), err->text, l->at,
             fault_name(f->kind), f->lasts ? ", lasting" : "");
  l->failed_count++;
  atomic_store(&l->f->healed, true);
  *err = (lake_error)LAKE_ERROR_INIT;
  return false;
}

static void *const untouched = (void *)(uintptr_t)0x5a5a;

/* An output pointer after a call. */
static void check_out(lake_status s, const void *out) {
  if (s == LAKE_OK)
    assert_ptr_not_equal(out, untouched);
  else
    assert_ptr_equal(out, untouched);
}

static void open_world(life *l) {
  lake_error err = LAKE_ERROR_INIT;
  lake_status s = LAKE_NOMEM;
  while (s != LAKE_OK) {
    l->env = untouched;
    s = open_env(l->f, &l->env, &err);
    check_out(s, l->env);
    (void)passed(l, "env open", s, &err);
  }
}

static void create(life *l, lake_store *store) {
  lake_error err = LAKE_ERROR_INIT;
  lake_namespace_options o = LAKE_NAMESPACE_OPTIONS_INIT;
  o.mesh = (lake_mesh){1, 2};
  o.tail_max = 1;
  o.version_block = 4;
  lake_status s = LAKE_NOMEM;
  bool uncertain = false;
  for (;;) {
    l->ns[0] = untouched;
    s = lake_namespace_create_store(l->env, store, &o, limit(l), &l->ns[0], &err);
    check_out(s, l->ns[0]);
    if (s == LAKE_EXISTS && uncertain) break; /* the try before came through after all */
    if (passed(l, "namespace create", s, &err)) return;
    uncertain = s == LAKE_UNCERTAIN || s == LAKE_UNAVAILABLE || s == LAKE_TIMEOUT;
  }
  err = (lake_error)LAKE_ERROR_INIT;
  l->ns[0] = untouched;
  s = lake_namespace_open_store(l->env, store, limit(l), &l->ns[0], &err);
  check_out(s, l->ns[0]);
  assert_ok(s, &err);
}

static lake_namespace *open_ns(life *l, lake_store *store) {
  lake_error err = LAKE_ERROR_INIT;
  for (;;) {
    lake_namespace *ns = untouched;
    lake_status s = lake_namespace_open_store(l->env, store, limit(l), &ns, &err);
    check_out(s, ns);
    if (passed(l, "namespace open", s, &err)) return ns;
  }
}

static void open_producer(life *l, uint32_t i) {
  lake_producer_options o = LAKE_PRODUCER_OPTIONS_INIT;
  o.upload_threads = 2;
  o.pending_count_max = 8;
  lake_error err = LAKE_ERROR_INIT;
  for (;;) {
    lake_producer_resume resume, blank;
    memset(&blank, 0x5a, sizeof blank);
    resume = blank;
    l->p[i] = untouched;
    lake_status s = lake_producer_open(l->ns[i], i == 0 ? "a" : "b", &o, limit(l), &resume, &l->p[i], &err);
    check_out(s, l->p[i]);
    if (s != LAKE_OK) assert_memory_equal(&resume, &blank, sizeof blank);
    if (!passed(l, "producer open", s, &err)) continue;
    assert_true(resume.seq <= l->seq[i]);
    assert_int_equal(resume.offset, resume.seq);
    /* NOMEM has changed nothing: no epoch was claimed by the open that failed. */
    if (l->f->kind == FAULT_ALLOC && !l->f->lasts) assert_int_equal(resume.epoch, 1);
    l->seq[i] = resume.seq;
    return;
  }
}

/* CORRUPT ends a producer for good; what was not committed is appended again by the next. */
static void reopen(life *l, uint32_t i, lake_status s) {
  if (s != LAKE_CORRUPT) return;
  lake_producer_close(l->p[i]);
  open_producer(l, i);
}

/* Until the producer was told that all of its TGBs below `goal` are committed. */
static void produce(life *l, uint32_t i, uint64_t goal) {
  const lake_mesh mesh = {1, 2};
  lake_error err = LAKE_ERROR_INIT;
  for (bool flushed = false; !flushed;) {
    lake_status s = LAKE_OK;
    while (l->seq[i] < goal && s == LAKE_OK) {
      s = test_append(l->p[i], mesh, i, l->seq[i], limit(l), &err);
      if (passed(l, "append", s, &err)) l->seq[i]++;
    }
    if (s == LAKE_OK) {
      s = lake_producer_flush(l->p[i], limit(l), &err);
      flushed = passed(l, "flush", s, &err);
    }
    reopen(l, i, s);
  }
}

static void retire(life *l, uint32_t i) {
  lake_error err = LAKE_ERROR_INIT;
  for (;;) {
    lake_status s = lake_producer_retire(l->p[i], limit(l), &err);
    if (passed(l, "retire", s, &err)) return;
    reopen(l, i, s);
  }
}

static lake_consumer *open_consumer(life *l, lake_namespace *ns) {
  lake_consumer_options o = LAKE_CONSUMER_OPTIONS_INIT;
  o.coords.c = 1;
  o.io_threads = 2;
  o.prefetch_steps_max = WINDOW;
  lake_error err = LAKE_ERROR_INIT;
  for (;;) {
    lake_consumer *c = untouched;
    lake_status s = lake_consumer_open(ns, &o, limit(l), &c, &err);
    check_out(s, c);
    if (passed(l, "consumer open", s, &err)) return c;
  }
}

/* Reads steps [from, to): each producer's TGBs once and in order. */
static void read_steps(life *l, lake_consumer *c, uint64_t from, uint64_t to, uint64_t next[2]) {
  lake_error err = LAKE_ERROR_INIT;
  for (uint64_t step = from; step < to;) {
    lake_batch batch;
    const lake_batch empty = {0};
    lake_status s = lake_consumer_next(c, limit(l), &batch, &err);
    if (s != LAKE_OK) assert_memory_equal(&batch, &empty, sizeof empty);
    if (!passed(l, "next", s, &err)) continue;
    assert_int_equal(batch.step, step++);
    test_slice slice;
    assert_int_equal(batch.bytes, sizeof slice);
    memcpy(&slice, batch.data, sizeof slice);
    assert_true(slice.producer < 2);
    assert_int_equal(slice.c, 1);
    assert_int_equal(slice.seq, next[slice.producer]++);
    lake_consumer_release(c, &batch);
  }
}

static void read_end(life *l, lake_consumer *c) {
  lake_error err = LAKE_ERROR_INIT;
  for (;;) {
    lake_batch batch;
    lake_status s = lake_consumer_next(c, limit(l), &batch, &err);
    if (s == LAKE_END) return;
    assert_false(passed(l, "next at the end", s, &err));
  }
}

static void pin(life *l, const char *cursor) {
  lake_error err = LAKE_ERROR_INIT;
  while (!passed(l, "pin create", lake_pin_create(l->ns[1], "g", "c1", cursor, limit(l), &err), &err)) {
  }
}

static void unpin(life *l) {
  lake_error err = LAKE_ERROR_INIT;
  while (!passed(l, "pin remove", lake_pin_remove(l->ns[0], "g", "c1", limit(l), &err), &err)) {
  }
}

static void seal(life *l) {
  lake_error err = LAKE_ERROR_INIT;
  for (;;) {
    uint64_t steps = 77777;
    lake_status s = lake_namespace_seal(l->ns[1], limit(l), &steps, &err);
    assert_int_equal(steps, s == LAKE_OK ? 2 * TGBS : 77777);
    if (passed(l, "seal", s, &err)) return;
  }
}

/* Trims up to the pin, and deletes what is under it. */
static void reclaim(life *l) {
  lake_error err = LAKE_ERROR_INIT;
  for (;;) {
    lake_reclaim_report report;
    lake_status s = lake_reclaim(l->ns[0], NULL, limit(l), &report, &err);
    if (!passed(l, "reclaim", s, &err)) continue;
    assert_int_equal(report.first_live_step, PINNED);
    return;
  }
}

/* With the fault over and a fresh handle: all that was acknowledged, which is all, once and in order. */
static void check_stream(life *l, lake_store *store, const uint64_t pinned[2]) {
  lake_error err = LAKE_ERROR_INIT;
  lake_namespace *ns = open_ns(l, store);
  lake_consumer *c = open_consumer(l, ns);
  uint64_t next[2] = {pinned[0], pinned[1]};
  read_steps(l, c, PINNED, 2 * TGBS, next);
  read_end(l, c);
  assert_int_equal(next[0], TGBS);
  assert_int_equal(next[1], TGBS);
  lake_consumer_close(c);
  lake_producer *p = NULL;
  assert_status(lake_producer_open(ns, "a", NULL, limit(l), NULL, &p, &err), LAKE_END, &err);
  lake_namespace_close(ns);
}

/* A whole life with a fault at one point. False: it was not met. */
static bool live_once(int kind, bool lasts, long at) {
  fault f = {.kind = kind, .lasts = lasts};
  atomic_store(&f.left, at);
  life l = {.f = &f, .at = at};
  open_world(&l);
  const bool healed = atomic_exchange(&f.healed, true); /* the store is the test's own */
  l.t = toxic_open(l.env, faulty_call, &f);
  atomic_store(&f.healed, healed);
  lake_store *store = toxic_store(l.t);
  create(&l, store);
  l.ns[1] = open_ns(&l, store);
  open_producer(&l, 0);
  open_producer(&l, 1);
  for (uint64_t round = 1; round <= ROUNDS; round++)
    for (uint32_t i = 0; i < 2; i++) produce(&l, i, round * TGBS_PER_ROUND);
  retire(&l, 0);
  lake_consumer *c = open_consumer(&l, l.ns[1]);
  uint64_t next[2] = {0, 0};
  read_steps(&l, c, 0, PINNED, next);
  const uint64_t pinned[2] = {next[0], next[1]};
  char cursor[LAKE_CURSOR_BYTES];
  lake_consumer_cursor(c, cursor);
  pin(&l, cursor);
  reclaim(&l);
  seal(&l);
  read_steps(&l, c, PINNED, 2 * TGBS, next);
  read_end(&l, c);
  unpin(&l);
  lake_consumer_close(c);
  for (uint32_t i = 0; i < 2; i++) lake_producer_close(l.p[i]);
  for (uint32_t i = 0; i < 2; i++) lake_namespace_close(l.ns[i]);
  const bool met = atomic_load(&f.struck);
  atomic_store(&f.healed, true);
  check_stream(&l, store, pinned);
  toxic_close(l.t);
  lake_env_close(l.env);
  if (atomic_load(&f.live) != 0)
    fail_msg("%ld allocations are left (point %ld, fault: %s%s)", atomic_load(&f.live), at, fault_name(kind),
             lasts ? ", lasting" : "");
  return met;
}

static void every_point(int kind, bool lasts) {
  const char *from = getenv("LAKE_POINT"); /* to look at one that failed */
  long at = from != NULL && *from ? strtol(from, NULL, 10) : 1;
  while (live_once(kind, lasts, at)) assert_true(++at < POINTS_MAX);
  printf("fault: %s%s: %ld points\n", fault_name(kind), lasts ? ", lasting" : "", at - 1);
  assert_true(at > 50);
}

static void test_alloc_fails_once(void **state) {
  (void)state;
  every_point(FAULT_ALLOC, false);
}

static void test_memory_runs_out(void **state) {
  (void)state;
  every_point(FAULT_ALLOC, true);
}

static void test_call_fails_once(void **state) {
  (void)state;
  for (int kind = TOXIC_FAIL_BEFORE; kind <= TOXIC_DENIED; kind++) every_point(kind, false);
}

static void test_store_goes_away(void **state) {
  (void)state;
  const int kinds[] = {TOXIC_FAIL_BEFORE, TOXIC_FAIL_AFTER, TOXIC_LATE, TOXIC_FLIP, TOXIC_DENIED};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) every_point(kinds[i], true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_alloc_fails_once), cmocka_unit_test(test_memory_runs_out),
      cmocka_unit_test(test_call_fails_once), cmocka_unit_test(test_store_goes_away)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
