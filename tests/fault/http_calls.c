/* The HTTP engine's calls: order, bounds in number and bytes, deadlines, cancellation, the end of the engine,
 * forks, short memory. Each call is over exactly once. */
#include "support/http_fixture.h"
#include "support/scarce.h"
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS 40

/* A call that counts how often it was over. */
typedef struct tracked {
  lki_http_call call;
  fixture *f;
  lake_buffer sink;
  char data[64];
  char url[100];
  atomic_int done_count;
  struct tracked *next; /* submitted by done() */
} tracked;

static void on_done(lki_http_call *call) {
  tracked *t = call->ctx;
  if (t->next != NULL) lki_http_submit(t->f->http, &t->next->call);
  pthread_mutex_lock(&t->f->lock);
  atomic_fetch_add(&t->done_count, 1);
  pthread_cond_broadcast(&t->f->changed);
  pthread_mutex_unlock(&t->f->lock);
}

static tracked *tracked_new(fixture *f, const char *path, uint64_t expect_bytes) {
  tracked *t = calloc(1, sizeof *t);
  assert_non_null(t);
  t->f = f;
  snprintf(t->url, sizeof t->url, "http://127.0.0.1:%u%s", peer_port(f->peer), path);
  lki_buffer_init_fixed(&t->sink, f->env, t->data, sizeof t->data);
  t->call.request = (lki_http_request){.method = "GET",
                                       .url = t->url,
                                       .sink = &t->sink,
                                       .expect_bytes = expect_bytes,
                                       .deadline = test_deadline(f->env)};
  t->call.done = on_done;
  t->call.ctx = t;
  return t;
}

static void wait_done(tracked *t) {
  pthread_mutex_lock(&t->f->lock);
  while (atomic_load(&t->done_count) == 0) pthread_cond_wait(&t->f->changed, &t->f->lock);
  pthread_mutex_unlock(&t->f->lock);
}

static void assert_over(tracked *t, lake_status status) {
  wait_done(t);
  assert_status(t->call.status, status, &t->call.error);
  assert_int_equal(t->done_count, 1);
}

static void test_bounds(void **state, uint32_t per_host, uint64_t budget, uint64_t each, unsigned at_once) {
  fixture *f = *state;
  open_http(f, &(lki_http_options){.per_host_max = per_host, .in_flight_bytes_max = budget});
  tracked *all[CALLS];
  for (int i = 0; i < CALLS; i++) {
    char path[20];
    snprintf(path, sizeof path, "/hold/%c", 'A' + i);
    all[i] = tracked_new(f, path, each);
    lki_http_submit(f->http, &all[i]->call);
  }
  wait_held(f, at_once);
  open_gate(f);
  for (int i = 0; i < CALLS; i++) {
    assert_over(all[i], LAKE_OK);
    assert_int_equal(all[i]->sink.bytes, 2);
    free(all[i]);
  }
  assert_int_equal(f->held_max, at_once);
  if (at_once == 1) /* in the order of submission */
    for (int i = 0; i < CALLS; i++) assert_int_equal(f->order[i], 'A' + i);
  lki_http_stats stats;
  lki_http_stats_get(f->http, &stats);
  assert_true(stats.in_flight_bytes_peak == at_once * each);
  assert_true(stats.connection_count <= (uint64_t)at_once + 2);
}

static void test_per_host(void **state) {
  test_bounds(state, 3, 0, 1000, 3);
}
static void test_one_by_one(void **state) {
  test_bounds(state, 1, 0, 1000, 1);
}
static void test_budget(void **state) {
  test_bounds(state, 0, 1000, 400, 2);
}
/* One is admitted always, however large. */
static void test_larger_than_the_budget(void **state) {
  test_bounds(state, 0, 1000, 5000, 1);
}

/* A full host does not hold up another. */
static void test_hosts_apart(void **state) {
  fixture *f = *state;
  open_http(f, &(lki_http_options){.per_host_max = 1});
  tracked *first = tracked_new(f, "/hold/1", 0), *second = tracked_new(f, "/hold/2", 0);
  lki_http_submit(f->http, &first->call);
  lki_http_submit(f->http, &second->call);
  wait_held(f, 1);
  tracked *other = tracked_new(f, "/x", 0);
  snprintf(other->url, sizeof other->url, "http://localhost:%u/x", peer_port(f->peer));
  lki_http_submit(f->http, &other->call);
  wait_done(other);
  assert_int_equal(second->done_count, 0);
  open_gate(f);
  assert_over(first, LAKE_OK);
  assert_over(second, LAKE_OK);
  free(first);
  free(second);
  free(other);
}

static void test_deadlines(void **state) {
  fixture *f = *state;
  open_http(f, &(lki_http_options){.per_host_max = 1});
  tracked *running = tracked_new(f, "/hold/1", 0), *waiting = tracked_new(f, "/hold/2", 0);
  tracked *patient = tracked_new(f, "/x", 0), *late = tracked_new(f, "/x", 0);
  running->call.request.deadline = lake_deadline_after_ms(f->env, 300);
  lki_http_submit(f->http, &running->call);
  wait_held(f, 1);
  waiting->call.request.deadline = lake_deadline_after_ms(f->env, 50);
  lki_http_submit(f->http, &patient->call);
  lki_http_submit(f->http, &waiting->call);
  assert_over(waiting, LAKE_TIMEOUT);
  assert_false(waiting->call.reply.sent);
  assert_non_null(strstr(waiting->call.error.text, "waited for its turn"));
  assert_int_equal(patient->done_count, 0);
  assert_over(running, LAKE_TIMEOUT);
  assert_true(running->call.reply.sent);
  assert_non_null(strstr(running->call.error.text, "the deadline passed"));
  assert_over(patient, LAKE_OK);
  late->call.request.deadline = lake_deadline_after_ms(f->env, 0);
  lki_http_submit(f->http, &late->call);
  assert_over(late, LAKE_TIMEOUT);
  free(running);
  free(waiting);
  free(patient);
  free(late);
}

/* Who waits in lki_http_do() waits his turn like all others. */
static void *do_one(void *arg) {
  tracked *t = arg;
  t->call.status = lki_http_do(t->f->http, &t->call.request, &t->call.reply, &t->call.error);
  return NULL;
}

static void test_do_waits(void **state) {
  fixture *f = *state;
  open_http(f, &(lki_http_options){.per_host_max = 1});
  tracked *running = tracked_new(f, "/hold/1", 0), *late = tracked_new(f, "/hold/2", 0);
  tracked *next = tracked_new(f, "/hold/3", 0), *last = tracked_new(f, "/x", 0);
  lki_http_submit(f->http, &running->call);
  wait_held(f, 1);
  late->call.request.deadline = lake_deadline_after_ms(f->env, 50);
  do_one(late);
  assert_status(late->call.status, LAKE_TIMEOUT, &late->call.error);
  assert_false(late->call.reply.sent);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, do_one, next), 0);
  open_gate(f);
  pthread_join(thread, NULL);
  assert_status(next->call.status, LAKE_OK, &next->call.error);
  assert_over(running, LAKE_OK);
  assert_string_equal(f->order, "13");
  last->call.request.deadline = lake_deadline_after_ms(f->env, 0);
  do_one(last);
  assert_status(last->call.status, LAKE_TIMEOUT, &last->call.error);
  assert_int_equal(f->held_max, 1);
  free(running);
  free(late);
  free(next);
  free(last);
}

/* A server that says nothing for long ends a try before the deadline does. */
static void test_stall(void **state) {
  fixture *f = *state;
  open_http(f, &(lki_http_options){.stall_ms = 1000});
  tracked *t = tracked_new(f, "/hold/1", 0);
  lki_http_submit(f->http, &t->call);
  assert_over(t, LAKE_UNAVAILABLE);
  assert_true(t->call.reply.sent);
  assert_false(lki_deadline_passed(f->env, t->call.request.deadline));
  free(t);
}

static void test_cancel(void **state) {
  fixture *f = *state;
  open_http(f, &(lki_http_options){.per_host_max = 1});
  tracked *running = tracked_new(f, "/hold/1", 0), *waiting = tracked_new(f, "/hold/2", 0);
  tracked *over = tracked_new(f, "/x", 0);
  lki_http_submit(f->http, &over->call);
  assert_over(over, LAKE_OK);
  lki_http_submit(f->http, &running->call);
  lki_http_submit(f->http, &waiting->call);
  wait_held(f, 1);
  lki_http_cancel(f->http, &over->call);
  lki_http_cancel(f->http, &waiting->call);
  assert_over(waiting, LAKE_TIMEOUT);
  assert_false(waiting->call.reply.sent);
  assert_int_equal(running->done_count, 0);
  lki_http_cancel(f->http, &running->call);
  assert_over(running, LAKE_TIMEOUT);
  assert_true(running->call.reply.sent);
  assert_non_null(strstr(running->call.error.text, "cancelled"));
  lki_http_cancel(f->http, &running->call);
  assert_over(over, LAKE_OK);
  free(running);
  free(waiting);
  free(over);
}

/* Everything is over when close returns: what runs, what waits, and what a done() submits meanwhile. */
static void test_close(void **state) {
  fixture *f = *state;
  for (uint32_t threads = 1; threads <= 3; threads++) {
    open_http(f, &(lki_http_options){.per_host_max = 4, .thread_count = threads});
    tracked *all[CALLS];
    for (int i = 0; i < CALLS; i++) all[i] = tracked_new(f, "/hold/1", 0);
    for (int i = 0; i < CALLS / 2; i++) {
      all[i]->next = all[CALLS / 2 + i];
      lki_http_submit(f->http, &all[i]->call);
    }
    wait_held(f, 4 * threads); /* those of the rounds before are still held */
    lki_http_close(f->http);
    f->http = NULL;
    for (int i = 0; i < CALLS; i++) {
      assert_int_equal(all[i]->done_count, 1);
      assert_status(all[i]->call.status, LAKE_TIMEOUT, &all[i]->call.error);
      free(all[i]);
    }
  }
  lki_http_close(NULL);
}

/* ---- many threads ---- */

#define WORKERS 8
#define ROUNDS 100

typedef struct worker {
  fixture *f;
  pthread_t thread;
  unsigned number, ok, cancelled, wrong;
} worker;

/* Half of them wait in lki_http_do(), which runs them on their own thread. */
static void *work(void *arg) {
  worker *w = arg;
  for (unsigned i = 0; i < ROUNDS; i++) {
    tracked *t = tracked_new(w->f, "/x", 1 + i * 10);
    if ((i + w->number) % 2 == 0) {
      lake_status s = lki_http_do(w->f->http, &t->call.request, &t->call.reply, &t->call.error);
      if (s == LAKE_OK && t->sink.bytes == 2 && memcmp(t->data, "ok", 2) == 0)
        w->ok++;
      else
        w->wrong++;
      free(t);
      continue;
    }
    t->call.request.fresh = i % 16 == 3;
    lki_http_submit(w->f->http, &t->call);
    if (i % 8 == w->number) lki_http_cancel(w->f->http, &t->call);
    wait_done(t);
    if (t->call.status == LAKE_OK && t->sink.bytes == 2 && memcmp(t->data, "ok", 2) == 0)
      w->ok++;
    else if (t->call.status == LAKE_TIMEOUT && i % 8 == w->number)
      w->cancelled++;
    else
      w->wrong++;
    if (atomic_load(&t->done_count) != 1) w->wrong++;
    free(t);
  }
  return NULL;
}

static void test_many_threads(void **state) {
  fixture *f = *state;
  open_http(f, &(lki_http_options){.per_host_max = 5, .in_flight_bytes_max = 3000, .thread_count = 3});
  worker workers[WORKERS];
  unsigned ok = 0, cancelled = 0;
  for (unsigned i = 0; i < WORKERS; i++) {
    workers[i] = (worker){.f = f, .number = i};
    assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (unsigned i = 0; i < WORKERS; i++) {
    pthread_join(workers[i].thread, NULL);
    assert_int_equal(workers[i].wrong, 0);
    ok += workers[i].ok;
    cancelled += workers[i].cancelled;
  }
  assert_int_equal(ok + cancelled, WORKERS * ROUNDS);
  lki_http_stats stats;
  lki_http_stats_get(f->http, &stats);
  assert_int_equal(stats.call_count, WORKERS * ROUNDS);
  assert_true(stats.in_flight_bytes_peak <= 3000);
}

#define CALLERS 60

typedef struct caller {
  fixture *f;
  pthread_t thread;
  lake_status status;
  lake_error err;
} caller;

static unsigned over_count; /* of callers, under the fixture's lock */

static void *call_and_hold(void *arg) {
  caller *c = arg;
  tracked *t = tracked_new(c->f, "/hold", 64);
  c->status = lki_http_do(c->f->http, &t->call.request, &t->call.reply, &c->err);
  pthread_mutex_lock(&c->f->lock);
  over_count++;
  pthread_cond_broadcast(&c->f->changed);
  pthread_mutex_unlock(&c->f->lock);
  free(t);
  return NULL;
}

/* A process that may open few descriptors still has them for its connections: here two for each, since the server is in
 * it, too. */
static void test_few_descriptors(void **state) {
  fixture *f = *state;
  struct rlimit before, few;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  few = before;
  few.rlim_cur = 200;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  open_http(f, NULL);
  caller callers[CALLERS];
  over_count = 0;
  for (unsigned i = 0; i < CALLERS; i++) {
    callers[i] = (caller){.f = f};
    assert_int_equal(pthread_create(&callers[i].thread, NULL, call_and_hold, &callers[i]), 0);
  }
  pthread_mutex_lock(&f->lock);
  while (f->held + over_count < CALLERS) pthread_cond_wait(&f->changed, &f->lock);
  f->open_gate = true;
  pthread_cond_broadcast(&f->changed);
  pthread_mutex_unlock(&f->lock);
  for (unsigned i = 0; i < CALLERS; i++) pthread_join(callers[i].thread, NULL);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (unsigned i = 0; i < CALLERS; i++) assert_status(callers[i].status, LAKE_OK, &callers[i].err);
  assert_int_equal(f->held_max, CALLERS);
}

/* ---- forks and memory ---- */

static void test_fork(void **state) {
  fixture *f = *state;
  tracked *t = tracked_new(f, "/x", 0);
  pid_t child = fork();
  if (child == 0) {
    lake_error err = LAKE_ERROR_INIT;
    lki_http_reply reply;
    bool ok = lki_http_do(f->http, &t->call.request, &reply, &err) == LAKE_INVALID &&
              strstr(err.text, "fork") != NULL;
    lki_http_submit(f->http, &t->call);
    ok = ok && t->done_count == 1 && t->call.status == LAKE_INVALID;
    lki_http_cancel(f->http, &t->call);
    lki_http_close(f->http);
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  lki_http_submit(f->http, &t->call); /* nothing of the parent's was touched */
  assert_over(t, LAKE_OK);
  free(t);
}

static lake_status get_with(fixture *f, const lake_env_options *options, lake_error *err) {
  lake_env *env = NULL;
  lki_http *http = NULL;
  lki_http_reply reply;
  lake_buffer sink;
  char url[100];
  snprintf(url, sizeof url, "http://127.0.0.1:%u/x", peer_port(f->peer));
  lake_status s = lake_env_open(options, &env, err);
  if (s != LAKE_OK) return s;
  lki_buffer_init(&sink, env, 1000);
  s = lki_http_open(env, &(lki_http_options){.ca_file = "/dev/null"}, &http, err);
  if (s == LAKE_OK) {
    lki_http_request request = {.method = "GET", .url = url, .sink = &sink, .deadline = test_deadline(env)};
    s = lki_http_do(http, &request, &reply, err);
    if (s == LAKE_OK)
      assert_true(sink.bytes == 2 && memcmp(sink.data, "ok", 2) == 0);
    else
      assert_int_equal(sink.bytes, 0);
  }
  lki_http_close(http);
  lki_buffer_free(&sink);
  lake_env_close(env);
  return s;
}

static void test_short_memory(void **state) {
  fixture *f = *state;
  lake_status s = LAKE_NOMEM;
  long point = 0;
  while (s != LAKE_OK) {
    scarce memory;
    lake_error err = LAKE_ERROR_INIT;
    const lake_env_options options = scarce_options(&memory);
    scarce_fail_at(&memory, point++);
    s = get_with(f, &options, &err);
    if (s != LAKE_OK) assert_status(s, LAKE_NOMEM, &err);
    assert_int_equal(atomic_load(&memory.live), 0);
    assert_true(point < 200);
  }
  assert_true(point > 15); /* it did fail at many points before */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_per_host, setup, teardown),
      cmocka_unit_test_setup_teardown(test_one_by_one, setup, teardown),
      cmocka_unit_test_setup_teardown(test_budget, setup, teardown),
      cmocka_unit_test_setup_teardown(test_larger_than_the_budget, setup, teardown),
      cmocka_unit_test_setup_teardown(test_hosts_apart, setup, teardown),
      cmocka_unit_test_setup_teardown(test_deadlines, setup, teardown),
      cmocka_unit_test_setup_teardown(test_do_waits, setup, teardown),
      cmocka_unit_test_setup_teardown(test_stall, setup, teardown),
      cmocka_unit_test_setup_teardown(test_cancel, setup, teardown),
      cmocka_unit_test_setup_teardown(test_close, setup, teardown),
      cmocka_unit_test_setup_teardown(test_many_threads, setup, teardown),
      cmocka_unit_test_setup_teardown(test_few_descriptors, setup, teardown),
      cmocka_unit_test_setup_teardown(test_fork, setup, teardown),
      cmocka_unit_test_setup_teardown(test_short_memory, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
