/* Real processes on a real store under SIGKILL and SIGSTOP: sixteen producers append and flush, one of them
 * is killed and started again in every cycle, others are stopped while a reclaimer deletes the manifests
 * under them, and some of those find a second process with their id when they go on. In the end the stream
 * holds everything that was acknowledged, once and in order (I2-I5, I7).
 *
 * The store is file: in the scratch folder, or a fresh prefix below LAKE_KILL_URL. LAKE_KILL_RESTART is a shell command
 * that kills the store's server and starts it again: it is run in every cycle. LAKE_KILL_CYCLES (15) and
 * LAKE_KILL_INTERVAL_MS (1000) set how long it goes on; LAKE_SEED replays the choices, though not the scheduler's. The
 * parent keeps no thread, so that it may fork; everything it knows
 * of its children comes through one pipe, whose order is the order of what they were told. */
#include "support/stream.h"

#include "base/env.h"
#include "base/rng.h"
#include "client/namespace.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lakestream/sys/store.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ID_COUNT 16
#define STOPPED_MAX 4
#define TWINS_MAX 12
#define VERSION_BLOCK 8
#define EXIT_FENCED 8
#define EXIT_BROKEN 3
#define HANG_NS ((uint64_t)120 * 1000 * 1000 * 1000) /* nothing waits so long but a hang */

typedef enum word { SAID_OPEN = 1, SAID_ACK, SAID_FENCED, SAID_DONE, SAID_RECLAIMED } word;

/* One line in the pipe; written whole, as it is far below PIPE_BUF. */
typedef struct record {
  uint32_t word;
  uint32_t id;
  int64_t pid;
  uint64_t epoch;
  uint64_t from,
      to; /* OPEN: to is the next seq. ACK: [from, to) are committed. RECLAIMED: to is the boundary block */
} record;

typedef struct content {
  uint32_t id, d;
  uint64_t epoch, seq;
} content;

typedef struct child {
  pid_t pid;
  uint32_t id; /* ID_COUNT: the reclaimer */
  bool alive, stopped, killed;
  uint64_t resume_block; /* a stopped one goes on when the boundary has come so far */
  uint64_t epoch;        /* 0: it has not claimed one yet */
  bool fenced, done;
  int code; /* as waitpid gives it */
} child;

typedef struct ground {
  lake_env *env;
  char url[600];
  const char *restart; /* NULL: the store has no server to kill */
  lki_rng rng;
  int told[2]; /* records, from the children */
  int stop[2]; /* closed by the parent when all shall come to an end */
  child *children;
  uint32_t child_count, child_capacity;
  record *acks;
  size_t ack_count, ack_capacity;
  uint64_t block; /* the boundary, as last told */
  uint64_t kills, pauses, twins, restarts, resumed_past_reclaim;
} ground;

/* --- what the children do --- */

static void tell(const ground *g, record r) {
  r.pid = getpid();
  if (write(g->told[1], &r, sizeof r) != (ssize_t)sizeof r) _exit(EXIT_BROKEN);
}

static void broken(const char *what, uint32_t id, lake_status s, const lake_error *err) {
  fprintf(stderr, "child %u (pid %ld): %s: %s: %s\n", id, (long)getpid(), what, lake_status_name(s),
          err->text);
  _exit(EXIT_BROKEN);
}

/* Waits for the next batch of its input, or for the end. True: the end. */
static bool stop_asked(const ground *g, int timeout_ms) {
  struct pollfd p = {g->stop[0], POLLIN, 0};
  return poll(&p, 1, timeout_ms) > 0;
}

static bool passes(lake_status s) {
  return s == LAKE_TIMEOUT || s == LAKE_UNCERTAIN || s == LAKE_UNAVAILABLE;
}

static lake_namespace *open_namespace(const ground *g, lake_env *env, uint32_t id) {
  lake_error err = LAKE_ERROR_INIT;
  lake_namespace *ns = NULL;
  lake_status s = LAKE_TIMEOUT;
  while (passes(s)) s = lake_namespace_open(env, g->url, test_deadline(env), &ns, &err);
  if (s != LAKE_OK) broken("open namespace", id, s, &err);
  return ns;
}

static void fenced(const ground *g, uint32_t id, uint64_t epoch, const lake_error *err) {
  char name[8];
  snprintf(name, sizeof name, "p%u", id);
  if (strstr(err->text, name) == NULL) broken("FENCED without the id", id, LAKE_FENCED, err);
  tell(g, (record){.word = SAID_FENCED, .id = id, .epoch = epoch});
  _exit(EXIT_FENCED);
}

static lake_status append_one(lake_env *env, lake_producer *p, uint32_t id, uint64_t epoch, uint64_t seq,
                              lake_error *err) {
  content c[2] = {{id, 0, epoch, seq}, {id, 1, epoch, seq}};
  lake_bytes slices[2] = {{&c[0], sizeof c[0]}, {&c[1], sizeof c[1]}};
  lake_bytes state = {&seq, sizeof seq};
  return lake_producer_append(p, slices, 2, seq + 1, state, lake_deadline_after_ms(env, 5000), err);
}

static lake_producer *open_producer(lake_env *env, lake_namespace *ns, uint32_t id,
                                    lake_producer_resume *resume) {
  char name[8];
  snprintf(name, sizeof name, "p%u", id);
  lake_producer_options o = LAKE_PRODUCER_OPTIONS_INIT;
  o.upload_threads = 2;
  lake_error err = LAKE_ERROR_INIT;
  lake_producer *p = NULL;
  lake_status s = LAKE_TIMEOUT;
  while (passes(s)) s = lake_producer_open(ns, name, &o, lake_deadline_after_ms(env, 5000), resume, &p, &err);
  if (s != LAKE_OK) broken("open producer", id, s, &err);
  uint64_t last = 0;
  if (resume->state_bytes == sizeof last) memcpy(&last, resume->state, sizeof last);
  if (resume->offset != resume->seq || (resume->seq > 0 && last != resume->seq - 1))
    broken("offset and state are not those of the last seq", id, LAKE_INTERNAL, &err);
  return p;
}

/* Appends and flushes until it is stopped; the last thing that it does is to append one TGB more and flush
 * it, so that a process which was fenced cannot end without learning it. */
static void produce(const ground *g, uint32_t id) {
  lake_env *env = test_env();
  lki_rng rng = {lki_random_u64(env)};
  lake_namespace *ns = open_namespace(g, env, id);
  lake_producer_resume resume;
  lake_producer *p = open_producer(env, ns, id, &resume);
  tell(g, (record){.word = SAID_OPEN, .id = id, .epoch = resume.epoch, .to = resume.seq});
  lake_error err = LAKE_ERROR_INIT;
  uint64_t seq = resume.seq;
  for (bool last = false; !last;) {
    last = stop_asked(g, (int)lki_rng_below(&rng, 200));
    for (uint64_t n = 1 + lki_rng_below(&rng, 3); n > 0;) {
      lake_status s = append_one(env, p, id, resume.epoch, seq, &err);
      if (s == LAKE_FENCED) fenced(g, id, resume.epoch, &err);
      if (s != LAKE_OK && !passes(s)) broken("append", id, s, &err);
      if (s != LAKE_OK) continue;
      seq++;
      n--;
    }
    lake_status s = LAKE_TIMEOUT;
    while (passes(s)) s = lake_producer_flush(p, lake_deadline_after_ms(env, 5000), &err);
    if (s == LAKE_FENCED) fenced(g, id, resume.epoch, &err);
    if (s != LAKE_OK) broken("flush", id, s, &err);
    tell(g, (record){.word = SAID_ACK, .id = id, .epoch = resume.epoch, .from = resume.seq, .to = seq});
  }
  lake_producer_close(p);
  lake_namespace_close(ns);
  lake_env_close(env);
  tell(g, (record){.word = SAID_DONE, .id = id, .epoch = resume.epoch});
}

static void reclaim(const ground *g) {
  lake_env *env = test_env();
  lake_namespace *ns = open_namespace(g, env, ID_COUNT);
  while (!stop_asked(g, 100)) {
    lake_error err = LAKE_ERROR_INIT;
    lake_reclaim_report report;
    lake_status s = lake_reclaim(ns, NULL, test_deadline(env), &report, &err);
    /* Of the versions' blocks, the newest one and the one before it stay. */
    if (s == LAKE_OK && report.manifest_count > 0)
      tell(g, (record){.word = SAID_RECLAIMED, .id = ID_COUNT, .to = report.version / VERSION_BLOCK - 1});
    if (s != LAKE_OK && !passes(s)) broken("reclaim", ID_COUNT, s, &err);
  }
  lake_namespace_close(ns);
  lake_env_close(env);
}

/* --- the parent: starting, hearing, striking --- */

static void start(ground *g, uint32_t id) {
  if (g->child_count == g->child_capacity) {
    g->child_capacity = g->child_capacity * 2 + 64;
    g->children = realloc(g->children, g->child_capacity * sizeof *g->children);
    assert_non_null(g->children);
  }
  fflush(NULL);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
    if (getppid() != parent) _exit(EXIT_BROKEN);
    close(g->told[0]);
    close(g->stop[1]);
    if (id == ID_COUNT)
      reclaim(g);
    else
      produce(g, id);
    _exit(0);
  }
  g->children[g->child_count++] = (child){.pid = pid, .id = id, .alive = true};
}

static child *by_pid(ground *g, int64_t pid) {
  for (uint32_t i = g->child_count; i > 0; i--)
    if (g->children[i - 1].pid == pid) return &g->children[i - 1];
  fail_msg("a record of pid %" PRId64 ", which is nobody's", pid);
  return NULL;
}

static void hear(ground *g, const record *r) {
  child *c = by_pid(g, r->pid);
  assert_int_equal(c->id, r->id);
  assert_false(c->fenced); /* whoever was fenced says nothing any more */
  if (r->word == SAID_OPEN) c->epoch = r->epoch;
  if (r->word == SAID_FENCED) c->fenced = true;
  if (r->word == SAID_DONE) c->done = true;
  if (r->word == SAID_RECLAIMED && r->to > g->block) g->block = r->to;
  if (r->word != SAID_ACK) return;
  if (g->ack_count == g->ack_capacity) {
    g->ack_capacity = g->ack_capacity * 2 + 1024;
    g->acks = realloc(g->acks, g->ack_capacity * sizeof *g->acks);
    assert_non_null(g->acks);
  }
  g->acks[g->ack_count++] = *r;
}

static void go_on(ground *g, child *c) {
  if (!c->alive || !c->stopped) return;
  c->stopped = false;
  assert_int_equal(kill(c->pid, SIGCONT), 0);
  if (g->block >= c->resume_block) g->resumed_past_reclaim++;
}

/* Hears records until the time, and notices who ended; lets those go on whose pause is over. */
static void listen_until(ground *g, uint64_t at_ns) {
  for (;;) {
    const uint64_t now_ns = lki_now_ns(g->env);
    struct pollfd p = {g->told[0], POLLIN, 0};
    const int left_ms =
        now_ns >= at_ns ? 0 : (int)((at_ns - now_ns) / 1000000u < 50 ? (at_ns - now_ns) / 1000000u : 50);
    if (poll(&p, 1, left_ms) > 0) {
      record r;
      assert_int_equal(read(g->told[0], &r, sizeof r), sizeof r);
      hear(g, &r);
      if (lki_now_ns(g->env) < at_ns + 1000000000u) continue; /* a busy pipe may not hold up the strokes */
    }
    for (uint32_t i = 0; i < g->child_count; i++) {
      child *c = &g->children[i];
      if (c->alive && c->stopped && g->block >= c->resume_block) go_on(g, c);
      if (c->alive && waitpid(c->pid, &c->code, WNOHANG) == c->pid) c->alive = false;
    }
    if (now_ns >= at_ns) return;
  }
}

static uint32_t count_stopped(const ground *g) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->child_count; i++) n += g->children[i].alive && g->children[i].stopped;
  return n;
}

static uint32_t count_alive(const ground *g) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->child_count; i++) n += g->children[i].alive;
  return n;
}

/* A random live process of an id (ID_COUNT: the reclaimer); NULL: none. */
static child *pick(ground *g, uint32_t id) {
  child *found = NULL;
  uint64_t seen = 0;
  for (uint32_t i = 0; i < g->child_count; i++) {
    child *c = &g->children[i];
    if (c->alive && c->id == id && lki_rng_below(&g->rng, ++seen) == 0) found = c;
  }
  return found;
}

static void slay(ground *g, child *c) {
  if (c == NULL) return;
  const uint32_t id = c->id;
  assert_int_equal(kill(c->pid, SIGKILL), 0);
  assert_int_equal(waitpid(c->pid, &c->code, 0), c->pid);
  c->alive = c->stopped = false;
  c->killed = true;
  g->kills++;
  start(g, id); /* also beside a zombie: the newest epoch is always that of a process which lives */
}

static void halt(ground *g, child *c) {
  if (c == NULL || c->stopped || count_stopped(g) >= STOPPED_MAX) return;
  const uint32_t id = c->id;
  assert_int_equal(kill(c->pid, SIGSTOP), 0);
  c->stopped = true;
  c->resume_block = g->block + 1 + lki_rng_below(&g->rng, lki_rng_below(&g->rng, 4) == 0 ? 100 : 16);
  g->pauses++;
  if (lki_rng_below(&g->rng, 2) == 0 && count_alive(g) < ID_COUNT + 1 + TWINS_MAX) {
    start(g, id); /* a supervisor takes it for dead: it is a zombie when it goes on */
    g->twins++;
  }
}

/* The gateway dies with requests in its hands: what they did is for everybody to find out. */
static void strike_server(ground *g) {
  if (g->restart == NULL) return;
  assert_int_equal(system(g->restart), 0);
  g->restarts++;
}

static void strike(ground *g, uint64_t cycle) {
  slay(g, pick(g, (uint32_t)lki_rng_below(&g->rng, ID_COUNT)));
  if (cycle % 5 == 4) slay(g, pick(g, ID_COUNT));
  for (uint64_t n = lki_rng_below(&g->rng, 3); n > 0; n--)
    halt(g, pick(g, (uint32_t)lki_rng_below(&g->rng, ID_COUNT)));
  strike_server(g);
}

static bool all_opened(const ground *g) {
  for (uint32_t i = 0; i < g->child_count; i++)
    if (g->children[i].alive && g->children[i].id < ID_COUNT && g->children[i].epoch == 0) return false;
  return true;
}

/* After a wait that only a hang outlasts: nobody of `what` may be left. */
static void check_none_left(const ground *g, bool left, const char *what) {
  if (!left) return;
  for (uint32_t i = 0; i < g->child_count; i++) {
    const child *c = &g->children[i];
    if (c->alive)
      print_error("p%u, pid %ld, epoch %" PRIu64 "%s\n", c->id, (long)c->pid, c->epoch,
                  c->stopped ? ", stopped" : "");
  }
  fail_msg("%s", what);
}

/* All go on, claim, write their last, and end. */
static void finish(ground *g) {
  for (uint32_t i = 0; i < g->child_count; i++) go_on(g, &g->children[i]);
  const uint64_t hang_ns = lki_after_ns(g->env, HANG_NS);
  while (!all_opened(g) && lki_now_ns(g->env) < hang_ns) listen_until(g, lki_after_ns(g->env, 20000000u));
  check_none_left(g, !all_opened(g), "some of these never opened");
  close(g->stop[1]);
  while (count_alive(g) > 0 && lki_now_ns(g->env) < hang_ns) listen_until(g, lki_after_ns(g->env, 20000000u));
  check_none_left(g, count_alive(g) > 0, "these do not end");
  close(g->told[1]);
  record r;
  while (read(g->told[0], &r, sizeof r) == (ssize_t)sizeof r) hear(g, &r);
}

/* --- the checks --- */

/* Everybody ended as it had to: killed; FENCED if a newer epoch was claimed; else by itself, having written
 * all. */
static void check_ends(ground *g, uint64_t *fenced_count) {
  uint64_t newest[ID_COUNT] = {0};
  for (uint32_t i = 0; i < g->child_count; i++) {
    const child *c = &g->children[i];
    if (c->id < ID_COUNT && c->epoch > newest[c->id]) newest[c->id] = c->epoch;
  }
  uint32_t done = 0;
  for (uint32_t i = 0; i < g->child_count; i++) {
    const child *c = &g->children[i];
    if (c->killed) {
      assert_true(WIFSIGNALED(c->code) || WIFEXITED(c->code)); /* it may have ended by itself just before */
      if (WIFSIGNALED(c->code)) assert_int_equal(WTERMSIG(c->code), SIGKILL);
    } else {
      assert_true(WIFEXITED(c->code));
    }
    if (!WIFEXITED(c->code)) continue;
    const int want = c->id < ID_COUNT && c->epoch < newest[c->id] ? EXIT_FENCED : 0;
    if (WEXITSTATUS(c->code) != want)
      fail_msg("p%u, pid %ld, epoch %" PRIu64 " of %" PRIu64 " exited with %d", c->id, (long)c->pid, c->epoch,
               c->id < ID_COUNT ? newest[c->id] : 0, WEXITSTATUS(c->code));
    assert_int_equal(c->fenced, want == EXIT_FENCED);
    *fenced_count += c->fenced;
    done += c->done;
  }
  assert_int_equal(done, ID_COUNT);
}

typedef struct history {
  uint64_t count, capacity;
  uint64_t *epochs; /* by seq: whose the committed TGB is */
} history;

static void take(history *h, uint64_t epoch) {
  if (h->count == h->capacity) {
    h->capacity = h->capacity * 2 + 1024;
    h->epochs = realloc(h->epochs, h->capacity * sizeof *h->epochs);
    assert_non_null(h->epochs);
  }
  h->epochs[h->count++] = epoch;
}

static void read_stream(ground *g, uint64_t step_count, history histories[ID_COUNT]) {
  lake_error err = LAKE_ERROR_INIT;
  lake_namespace *ns = open_namespace(g, g->env, 0);
  lake_consumer_options o = LAKE_CONSUMER_OPTIONS_INIT;
  o.coords.d = 1;
  lake_consumer *consumer = NULL;
  assert_ok(lake_consumer_open(ns, &o, test_deadline(g->env), &consumer, &err), &err);
  lake_batch batch;
  for (uint64_t step = 0; step < step_count; step++) {
    assert_ok(lake_consumer_next(consumer, test_deadline(g->env), &batch, &err), &err);
    assert_int_equal(batch.step, step);
    content c;
    assert_int_equal(batch.bytes, sizeof c);
    memcpy(&c, batch.data, sizeof c);
    assert_true(c.id < ID_COUNT);
    assert_int_equal(c.d, 1);
    history *h = &histories[c.id];
    assert_int_equal(c.seq, h->count); /* no gap, no repeat */
    if (h->count > 0) assert_true(c.epoch >= h->epochs[h->count - 1]);
    take(h, c.epoch);
    lake_consumer_release(consumer, &batch);
  }
  assert_status(lake_consumer_next(consumer, test_deadline(g->env), &batch, &err), LAKE_END, &err);
  lake_consumer_close(consumer);
  lake_namespace_close(ns);
}

/* Everything that a flush acknowledged is there, and it is what that very process appended. */
static void check_acks(const ground *g, const history histories[ID_COUNT]) {
  for (size_t i = 0; i < g->ack_count; i++) {
    const record *a = &g->acks[i];
    const history *h = &histories[a->id];
    if (a->to > h->count)
      fail_msg("p%u was told that %" PRIu64 " TGBs are committed, the stream has %" PRIu64, a->id, a->to,
               h->count);
    for (uint64_t seq = a->from; seq < a->to; seq++) assert_int_equal(h->epochs[seq], a->epoch);
  }
}

static uint64_t number(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text != NULL && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void test_kill_cycles(void **state) {
  (void)state;
  const uint64_t cycles = number("LAKE_KILL_CYCLES", 15);
  const uint64_t interval_ns = number("LAKE_KILL_INTERVAL_MS", 1000) * 1000000u;
  ground g = {.env = test_env(), .rng = {test_seed()}};
  lake_error err = LAKE_ERROR_INIT;
  const char *base = getenv("LAKE_KILL_URL");
  if (base != NULL)
    snprintf(g.url, sizeof g.url, "%s/t%016" PRIx64, base, lki_random_u64(g.env));
  else
    snprintf(g.url, sizeof g.url, "file:%s/stream", test_scratch());
  g.restart = getenv("LAKE_KILL_RESTART");
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.mesh = (lake_mesh){2, 1};
  options.tail_max = 16;
  options.version_block = VERSION_BLOCK;
  assert_ok(lake_namespace_create(g.env, g.url, &options, test_deadline(g.env), NULL, &err), &err);
  assert_int_equal(pipe2(g.told, O_CLOEXEC), 0); /* a server that is started meanwhile must not hold them open */
  assert_int_equal(pipe2(g.stop, O_CLOEXEC), 0);
  for (uint32_t id = 0; id <= ID_COUNT; id++) start(&g, id);
  uint64_t at_ns = lki_now_ns(g.env);
  for (uint64_t cycle = 0; cycle < cycles; cycle++) {
    at_ns += interval_ns;
    listen_until(&g, at_ns);
    strike(&g, cycle);
  }
  finish(&g);

  uint64_t steps = 0, fenced_count = 0;
  check_ends(&g, &fenced_count);
  lake_namespace *ns = open_namespace(&g, g.env, 0);
  assert_ok(lake_namespace_seal(ns, test_deadline(g.env), &steps, &err), &err);
  lki_manifest *view = lki_log_view(ns->log);
  history histories[ID_COUNT] = {{0}};
  read_stream(&g, steps, histories);
  check_acks(&g, histories);
  printf("%" PRIu64 " kills, %" PRIu64 " pauses (%" PRIu64 " across a reclaim), %" PRIu64
         " zombies started, %" PRIu64 " fenced, the server killed %" PRIu64 " times; %zu acknowledgements, %" PRIu64 " TGBs, version %" PRIu64
         ", boundary at block %" PRIu64 "\n",
         g.kills, g.pauses, g.resumed_past_reclaim, g.twins, fenced_count, g.restarts, g.ack_count, steps, view->version,
         g.block);
  assert_true(g.kills >= cycles);
  assert_true(g.block > 0);
  lki_manifest_release(view);
  lake_namespace_close(ns);
  for (int i = 0; i < ID_COUNT; i++) free(histories[i].epochs);
  free(g.children);
  free(g.acks);
  close(g.told[0]);
  close(g.stop[0]);
  lake_env_close(g.env);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kill_cycles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
