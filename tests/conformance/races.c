/* What every store must do when many callers meet: one winner for each name, whole objects only. */
#include "conformance/stores.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define RACER_COUNT 8
#define KEY_COUNT 200

/* What the racers found, in memory that forked processes share. Asserts belong to the parent. */
typedef struct outcome {
  atomic_int ready;             /* racers at the starting line */
  atomic_int at_key[KEY_COUNT]; /* racers that have begun this key */
  pthread_barrier_t barrier;    /* instead, where a server needs the processors that spinning racers would take */
  atomic_int winner_count[KEY_COUNT];
  atomic_int winner[KEY_COUNT];
  atomic_int exists_count[KEY_COUNT];
  atomic_int wrong_count; /* other statuses */
  lake_error first_wrong;
} outcome;

typedef struct racer {
  const fixture *f;
  lake_env *env;
  lake_store *store;
  outcome *out;
  int id;
} racer;

static size_t body_text(char body[300], int id, size_t key) {
  int n = snprintf(body, 300, "racer %d key %zu ", id, key);
  memset(body + n, 'a' + id, (size_t)(290 - n - id));
  return (size_t)(290 - id);
}

/* A server that did not answer in time may have created the object or not. It is asked as a writer would: the same bytes
 * again until somebody owns the name, then whose they are. */
static lake_status settle(racer *r, const char *key, lake_bytes bytes, lake_error *err) {
  lake_status s = LAKE_UNCERTAIN;
  for (int i = 0; i < 20 && (s == LAKE_UNCERTAIN || s == LAKE_UNAVAILABLE); i++)
    s = lki_store_put_if_absent(r->store, key, bytes, test_deadline(r->env), err);
  if (s != LAKE_EXISTS) return s;
  lake_buffer got;
  lki_buffer_init(&got, r->env, 4096);
  s = lki_store_get(r->store, key, lki_range_whole(), &got, NULL, test_deadline(r->env), err);
  if (s == LAKE_OK && (got.bytes != bytes.bytes || memcmp(got.data, bytes.data, got.bytes) != 0)) s = LAKE_EXISTS;
  lki_buffer_free(&got);
  return s;
}

static void race(racer *r) {
  atomic_fetch_add(&r->out->ready, 1);
  while (atomic_load(&r->out->ready) < RACER_COUNT) sched_yield();
  for (size_t k = 0; k < KEY_COUNT; k++) {
    char key[64];
    char body[300];
    snprintf(key, sizeof key, "manifest/%zu/%020zu", k % 5, k);
    lake_bytes bytes = {body, body_text(body, r->id, k)};
    /* All meet at every key: that makes each of them a race. */
    if (r->f->kind == KIND_URL) {
      pthread_barrier_wait(&r->out->barrier);
    } else {
      atomic_fetch_add(&r->out->at_key[k], 1);
      while (atomic_load(&r->out->at_key[k]) < RACER_COUNT) sched_yield();
    }
    lake_error err = LAKE_ERROR_INIT;
    lake_status s = lki_store_put_if_absent(r->store, key, bytes, test_deadline(r->env), &err);
    if (r->f->kind == KIND_URL && (s == LAKE_UNCERTAIN || s == LAKE_UNAVAILABLE)) s = settle(r, key, bytes, &err);
    if (s == LAKE_OK) {
      atomic_fetch_add(&r->out->winner_count[k], 1);
      atomic_store(&r->out->winner[k], r->id);
    } else if (s == LAKE_EXISTS) {
      atomic_fetch_add(&r->out->exists_count[k], 1);
    } else if (atomic_fetch_add(&r->out->wrong_count, 1) == 0) {
      r->out->first_wrong = err;
    }
  }
}

static void *race_thread(void *arg) {
  race(arg);
  return NULL;
}

static outcome *outcome_new(void) {
  outcome *out = mmap(NULL, sizeof *out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(out, MAP_FAILED);
  pthread_barrierattr_t shared;
  assert_int_equal(pthread_barrierattr_init(&shared), 0);
  assert_int_equal(pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED), 0);
  assert_int_equal(pthread_barrier_init(&out->barrier, &shared, RACER_COUNT), 0);
  pthread_barrierattr_destroy(&shared);
  return out;
}

static void check_outcome(fixture *f, outcome *out) {
  if (atomic_load(&out->wrong_count) > 0)
    fail_msg("%d wrong statuses, the first: %s", atomic_load(&out->wrong_count), out->first_wrong.text);
  for (size_t k = 0; k < KEY_COUNT; k++) {
    char key[64];
    char body[300];
    assert_int_equal(atomic_load(&out->winner_count[k]), 1);
    assert_int_equal(atomic_load(&out->exists_count[k]), RACER_COUNT - 1);
    snprintf(key, sizeof key, "manifest/%zu/%020zu", k % 5, k);
    size_t bytes = body_text(body, atomic_load(&out->winner[k]), k);
    assert_object(f, key, body, bytes);
  }
  munmap(out, sizeof *out);
}

static void test_threads_one_winner(void **state) {
  fixture *f = *state;
  outcome *out = outcome_new();
  pthread_t threads[RACER_COUNT];
  racer racers[RACER_COUNT];
  for (int i = 0; i < RACER_COUNT; i++) {
    racers[i] = (racer){f, f->env, f->store, out, i};
    assert_int_equal(pthread_create(&threads[i], NULL, race_thread, &racers[i]), 0);
  }
  for (int i = 0; i < RACER_COUNT; i++) pthread_join(threads[i], NULL);
  check_outcome(f, out);
}

static void test_processes_one_winner(void **state) {
  fixture *f = *state;
  if (f->kind == KIND_MEM) skip(); /* lives in one process */
#if defined(__SANITIZE_THREAD__)
  if (f->kind == KIND_URL) skip(); /* its children start threads, which this sanitizer cannot follow after a fork */
#endif
  outcome *out = outcome_new();
  pid_t pids[RACER_COUNT];
  for (int i = 0; i < RACER_COUNT; i++) {
    pids[i] = fork();
    assert_true(pids[i] >= 0);
    if (pids[i] > 0) continue;
    lake_env *env = NULL;
    if (lake_env_open(NULL, &env, NULL) != LAKE_OK) _exit(1);
    racer r = {f, env, open_kind(env, f->kind, f->url), out, i};
    if (r.store == NULL) _exit(1);
    race(&r);
    lake_store_close(r.store);
    lake_env_close(env);
    _exit(0);
  }
  for (int i = 0; i < RACER_COUNT; i++) {
    int code = 0;
    assert_int_equal(waitpid(pids[i], &code, 0), pids[i]);
    assert_int_equal(code, 0);
  }
  check_outcome(f, out);
}

/* ---- whole objects only ---- */

#define BIG_BYTES ((size_t)3 << 20)
#define PUT_COUNT 12
#define READER_COUNT 3

typedef struct watch {
  fixture *f;
  atomic_bool stop;
  atomic_int read_count[READER_COUNT];
  atomic_int torn_count;
  atomic_int failed_count;
} watch;

typedef struct reader_arg {
  watch *w;
  int id;
} reader_arg;

/* An object of generation g is g repeated, of a length that tells g too. */
static size_t generation_bytes(int g) {
  return BIG_BYTES + (size_t)g * 1000;
}

static bool generation_whole(const unsigned char *data, size_t bytes) {
  if (bytes < BIG_BYTES) return false;
  int g = data[0];
  if (bytes != generation_bytes(g)) return false;
  return memcmp(data, data + 1, bytes - 1) == 0; /* all bytes are equal */
}

static void *read_generations(void *arg) {
  reader_arg *r = arg;
  watch *w = r->w;
  lake_buffer out;
  lki_buffer_init(&out, w->f->env, BIG_BYTES * 2);
  while (!atomic_load(&w->stop)) {
    lake_error err = LAKE_ERROR_INIT;
    lake_status s =
        lki_store_get(w->f->store, "gen/x", lki_range_whole(), &out, NULL, test_deadline(w->f->env), &err);
    if (s == LAKE_OK && !generation_whole(out.data, out.bytes)) atomic_fetch_add(&w->torn_count, 1);
    if (s != LAKE_OK && s != LAKE_NOTFOUND) atomic_fetch_add(&w->failed_count, 1);
    if (s == LAKE_OK) atomic_fetch_add(&w->read_count[r->id], 1);
  }
  lki_buffer_free(&out);
  return NULL;
}

static void test_readers_see_whole_objects(void **state) {
  fixture *f = *state;
  watch w;
  memset(&w, 0, sizeof w);
  w.f = f;
  pthread_t threads[READER_COUNT];
  reader_arg args[READER_COUNT];
  for (int i = 0; i < READER_COUNT; i++) {
    args[i] = (reader_arg){&w, i};
    assert_int_equal(pthread_create(&threads[i], NULL, read_generations, &args[i]), 0);
  }
  unsigned char *data = malloc(generation_bytes(PUT_COUNT));
  assert_non_null(data);
  lake_error err = LAKE_ERROR_INIT;
  lake_status s = LAKE_OK;
  for (int g = 1; g <= PUT_COUNT && s == LAKE_OK; g++) {
    memset(data, g, generation_bytes(g));
    lake_bytes body = {data, generation_bytes(g)};
    s = g == 1 ? lki_store_put_if_absent(f->store, "gen/x", body, test_deadline(f->env), &err)
               : lki_store_put(f->store, "gen/x", body, test_deadline(f->env), &err);
    /* Every reader reads this generation or a later look at it, so puts and reads really alternate. */
    for (int i = 0; i < READER_COUNT && s == LAKE_OK; i++) {
      int seen = atomic_load(&w.read_count[i]);
      while (atomic_load(&w.read_count[i]) == seen && atomic_load(&w.failed_count) == 0) sched_yield();
    }
  }
  atomic_store(&w.stop, true);
  for (int i = 0; i < READER_COUNT; i++) pthread_join(threads[i], NULL);
  free(data);
  assert_ok(s, &err);
  assert_int_equal(atomic_load(&w.torn_count), 0);
  assert_int_equal(atomic_load(&w.failed_count), 0);
}

/* ---- create, remove and list at once ---- */

#define CHURN_ROUNDS 150

typedef struct churn {
  fixture *f;
  atomic_int ready;
  atomic_int created[4]; /* by name: winners that have not begun to remove it */
  atomic_int wrong_count;
  lake_error first_wrong;
} churn;

static void churn_note(churn *c, lake_status s, const lake_error *err) {
  if (s == LAKE_OK || s == LAKE_EXISTS) return;
  if (atomic_fetch_add(&c->wrong_count, 1) == 0) c->first_wrong = *err;
}

static void *churn_thread(void *arg) {
  churn *c = arg;
  int id = atomic_fetch_add(&c->ready, 1);
  while (atomic_load(&c->ready) < RACER_COUNT) sched_yield();
  for (int i = 0; i < CHURN_ROUNDS; i++) {
    char key[32];
    int n = (i + id) % 4;
    snprintf(key, sizeof key, "churn/%d", n);
    lake_error err = LAKE_ERROR_INIT;
    lake_status s =
        lki_store_put_if_absent(c->f->store, key, text_bytes("0123456789"), test_deadline(c->f->env), &err);
    churn_note(c, s, &err);
    if (s != LAKE_OK) continue;
    /* Only who created removes, so whoever creates the name meanwhile is a second winner. */
    if (atomic_fetch_add(&c->created[n], 1) != 0)
      churn_note(c, LAKE_INTERNAL, &(lake_error){LAKE_INTERNAL, "two winners"});
    lake_object_info info;
    churn_note(c, lki_store_head(c->f->store, key, &info, test_deadline(c->f->env), &err), &err);
    atomic_fetch_sub(&c->created[n], 1);
    churn_note(c, lki_store_remove(c->f->store, key, test_deadline(c->f->env), &err), &err);
  }
  return NULL;
}

typedef struct listing_check {
  char last[64];
  int wrong_count;
} listing_check;

static bool check_listed(void *ctx, const char *key, uint64_t object_bytes) {
  listing_check *l = ctx;
  if (strcmp(key, l->last) <= 0 || strncmp(key, "churn/", 6) != 0 || object_bytes != 10) l->wrong_count++;
  snprintf(l->last, sizeof l->last, "%s", key);
  return true;
}

static void test_create_and_remove_churn(void **state) {
  fixture *f = *state;
  churn c;
  memset(&c, 0, sizeof c);
  c.f = f;
  pthread_t threads[RACER_COUNT];
  for (int i = 0; i < RACER_COUNT; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, churn_thread, &c), 0);
  int wrong_count = 0;
  lake_status s = LAKE_OK;
  lake_error err = LAKE_ERROR_INIT;
  for (int i = 0; i < 50 && s == LAKE_OK; i++) {
    listing_check l = {{0}, 0};
    s = lki_store_list(f->store, "", NULL, check_listed, &l, test_deadline(f->env), &err);
    wrong_count += l.wrong_count;
  }
  for (int i = 0; i < RACER_COUNT; i++) pthread_join(threads[i], NULL);
  assert_ok(s, &err);
  assert_int_equal(wrong_count, 0);
  if (atomic_load(&c.wrong_count) > 0)
    fail_msg("%d wrong: %s", atomic_load(&c.wrong_count), c.first_wrong.text);
  for (int n = 0; n < 4; n++) { /* every name is free and can be created */
    char key[32];
    snprintf(key, sizeof key, "churn/%d", n);
    assert_ok(lki_store_put_if_absent(f->store, key, text_bytes("end"), test_deadline(f->env), &err), &err);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_threads_one_winner),
      cmocka_unit_test(test_processes_one_winner),
      cmocka_unit_test(test_readers_see_whole_objects),
      cmocka_unit_test(test_create_and_remove_churn),
  };
  return run_on_all_kinds(tests, sizeof tests / sizeof tests[0]);
}
