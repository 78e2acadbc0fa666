/* A producer whose attempt is unsettled when a newer incarnation takes its id, or somebody seals the stream: it is told
 * FENCED or END, and which of its TGBs are committed; and UNCERTAIN, once, where the versions that would tell were
 * reclaimed meanwhile. Its store asks before each operation, and the rival acts in between, through another handle. */
#include "client/producer.h"
#include "format/names.h"
#include "support/hook.h"
#include "support/stream.h"
#include "support/tgbs.h"
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define BEFORE 5 /* TGBs that are known to be committed */
#define DOUBTFUL 2

typedef struct scene {
  lake_env *env;
  lake_namespace *rival; /* on the store itself */
  lake_store *hooked;
  lake_namespace *ns; /* on the hook */
  lake_producer *p;
  bool lands; /* the attempt whose reply is lost */
  bool eager; /* the producer commits by itself */
  bool seals; /* the rival, instead of opening the id */
  bool retires; /* the rival retires the id and trims, and the version after that cannot be read */
  uint32_t rival_count; /* TGBs that the rival commits, each in a version */
  bool reclaims_all;    /* versions below the newest; else only the doubtful one */
  atomic_int stage;     /* 0: nothing; 1: the next manifest put loses its reply; 2: it is read back; 3: done */
  char name[LKI_NAME_BYTES]; /* of the doubtful version */
  char barred[LKI_NAME_BYTES]; /* cannot be read for now */
  atomic_bool bars;
  atomic_ullong searched; /* versions from 4 to below it are those that a search reads, of which every other read fails */
  atomic_uint read_count; /* of those */
  hook_op awaited;        /* such an operation on a manifest waits until the producer closes */
  atomic_int closing;     /* 0: nothing; 1: it is awaited; 2: it waits */
  atomic_uint late_count; /* operations on manifests after it */
} scene;

static const lake_mesh mesh = {1, 1};
static lake_error err = LAKE_ERROR_INIT; /* of the test's thread */

static void kill_version(scene *c, uint64_t version) {
  lake_error local = LAKE_ERROR_INIT;
  char name[LKI_NAME_BYTES];
  lki_name_manifest(name, version);
  assert_ok(lki_log_raise(c->rival->log, version, test_deadline(c->env), &local), &local);
  assert_ok(lki_store_remove(c->rival->store, name, test_deadline(c->env), &local), &local);
}

/* What happens while the producer does not know what came of its attempt. */
static void act(scene *c, uint64_t doubtful_version) {
  lake_error local = LAKE_ERROR_INIT;
  lake_producer *p = NULL;
  lake_producer_resume resume;
  if (c->retires) {
    const lki_change changes[] = {{.kind = LKI_CHANGE_RETIRE, .producer_id = "p", .epoch = 1},
                                  {.kind = LKI_CHANGE_TRIM, .first_live_step = 1, .version_max = 1000}};
    for (int i = 0; i < 2; i++) {
      lki_commit_result result;
      assert_ok(lki_log_commit(c->rival->log, &changes[i], "rival", test_deadline(c->env), &result, &local), &local);
      lki_name_manifest(c->barred, result.manifest->version + 1);
      lki_manifest_release(result.manifest);
    }
    atomic_store(&c->bars, true);
  } else if (c->seals) {
    assert_ok(lake_namespace_seal(c->rival, test_deadline(c->env), NULL, &local), &local);
  } else {
    assert_ok(lake_producer_open(c->rival, "p", NULL, test_deadline(c->env), &resume, &p, &local), &local);
    assert_int_equal(resume.seq, BEFORE + (c->lands ? DOUBTFUL : 0));
    for (uint32_t i = 0; i < c->rival_count; i++) {
      assert_ok(test_append(p, mesh, 1, resume.seq + i, test_deadline(c->env), &local), &local);
      assert_ok(lake_producer_flush(p, test_deadline(c->env), &local), &local);
    }
    lake_producer_close(p);
  }
  if (doubtful_version == 0) return;
  lki_manifest *view = lki_log_view(c->rival->log);
  for (uint64_t v = doubtful_version; v < view->version && (v == doubtful_version || c->reclaims_all); v++)
    kill_version(c, v);
  lki_manifest_release(view);
}

static hook_verdict meddle(void *ctx, hook_op op, const char *key, uint64_t nth) {
  (void)nth;
  scene *c = ctx;
  uint64_t version = 0;
  if (!lki_name_manifest_parse(key, &version)) return HOOK_PASS;
  if (atomic_load(&c->closing) == 2) atomic_fetch_add(&c->late_count, 1);
  if (op == c->awaited && atomic_load(&c->closing) == 1) {
    atomic_store(&c->closing, 2);
    while (!atomic_load(&c->p->stop)) sched_yield();
    return op == HOOK_GET ? HOOK_PASS : HOOK_DROP;
  }
  if (op == HOOK_GET && version > 3 && version < atomic_load(&c->searched) && atomic_fetch_add(&c->read_count, 1) % 2 == 1)
    return HOOK_DENY;
  if (op == HOOK_GET && atomic_load(&c->bars) && strcmp(key, c->barred) == 0) return HOOK_DENY;
  if (op == HOOK_PUT_IF_ABSENT && atomic_load(&c->stage) == 1) {
    memcpy(c->name, key, strlen(key) + 1);
    atomic_store(&c->stage, 2);
    return c->lands ? HOOK_LOSE : HOOK_DROP;
  }
  if (op == HOOK_GET && atomic_load(&c->stage) == 2 && strcmp(key, c->name) == 0) {
    atomic_store(&c->stage, 3);
    act(c, version);
  }
  return HOOK_PASS;
}

static void append(scene *c, uint64_t from, uint64_t count) {
  for (uint64_t seq = from; seq < from + count; seq++)
    assert_ok(test_append(c->p, mesh, 0, seq, test_deadline(c->env), &err), &err);
}

static void open_scene(scene *c) {
  c->env = test_env();
  c->rival = tgb_namespace_new(c->env, "mem:fenced", 1, 1);
  c->hooked = hook_open(c->env, c->rival->store, meddle, c);
  assert_ok(lake_namespace_open_store(c->env, c->hooked, test_deadline(c->env), &c->ns, &err), &err);
  lake_producer_options o = LAKE_PRODUCER_OPTIONS_INIT;
  /* FIXED100 commits nothing but what a flush asks for, all of it at once. */
  o.policy = c->eager ? LAKE_POLICY_NAIVE : LAKE_POLICY_FIXED100;
  assert_ok(lake_producer_open(c->ns, "p", &o, test_deadline(c->env), NULL, &c->p, &err), &err);
  assert_int_equal(c->p->synced.own_version, 1); /* its claim */
  append(c, 0, BEFORE);
  assert_ok(lake_producer_flush(c->p, test_deadline(c->env), &err), &err);
  if (!c->eager) assert_int_equal(c->p->synced.own_version, 2);
}

/* Appends the doubtful ones; their attempt loses its reply, and the rival acts before it is settled. */
static lake_status flush_doubtful(scene *c) {
  append(c, BEFORE, DOUBTFUL);
  atomic_store(&c->stage, 1);
  return lake_producer_flush(c->p, test_deadline(c->env), &err);
}

static void close_scene(scene *c, uint64_t committed_count) {
  lake_producer_stats stats;
  lake_producer_stats_get(c->p, &stats);
  assert_int_equal(stats.committed_count, committed_count);
  lake_producer_close(c->p);
  lake_namespace_close(c->ns);
  lake_store_close(c->hooked);
  lake_namespace_close(c->rival);
  lake_env_close(c->env);
}

#define TOLD(seq) "; of its TGBs those below seq " seq " are committed and no other"

/* The rival has committed nothing, a little or much; its claim's version stands. What landed is committed, so that is
 * what its flush says; whatever comes after it is FENCED. */
static void test_told(void **state) {
  (void)state;
  for (uint32_t rival_count = 0; rival_count < 9; rival_count += 4)
    for (int lands = 0; lands < 2; lands++) {
      scene c = {.lands = lands != 0, .rival_count = rival_count};
      open_scene(&c);
      assert_status(flush_doubtful(&c), lands != 0 ? LAKE_OK : LAKE_FENCED, &err);
      assert_int_equal(atomic_load(&c.stage), 3);
      assert_status(test_append(c.p, mesh, 0, 9, test_deadline(c.env), &err), LAKE_FENCED, &err);
      assert_non_null(strstr(err.text, "producer p: epoch 1 is fenced by epoch 2"));
      assert_non_null(strstr(err.text, lands != 0 ? TOLD("7") : TOLD("5")));
      assert_status(lake_producer_flush(c.p, test_deadline(c.env), &err), lands != 0 ? LAKE_OK : LAKE_FENCED, &err);
      close_scene(&c, BEFORE + (lands != 0 ? DOUBTFUL : 0));
    }
}

/* All that would tell was reclaimed: it is not called committed, nor not committed. */
static void test_in_doubt(void **state) {
  (void)state;
  for (int lands = 0; lands < 2; lands++) {
    scene c = {.lands = lands != 0, .rival_count = 9, .reclaims_all = true};
    open_scene(&c);
    assert_status(flush_doubtful(&c), LAKE_UNCERTAIN, &err);
    assert_int_equal(err.status, LAKE_UNCERTAIN);
    assert_non_null(strstr(err.text, "producer p: epoch 1 is fenced by epoch 2"));
    assert_non_null(strstr(err.text, "; whether its TGBs from seq 5 on are committed is not known"));
    assert_status(lake_producer_flush(c.p, test_deadline(c.env), &err), LAKE_FENCED, &err);
    assert_status(test_append(c.p, mesh, 0, 9, test_deadline(c.env), &err), LAKE_FENCED, &err);
    close_scene(&c, BEFORE);
  }
}

/* The version that would tell cannot be read for now: the next flush asks again. */
static void test_asked_again(void **state) {
  (void)state;
  scene c = {.rival_count = 9};
  open_scene(&c);
  const uint64_t own = c.p->synced.own_version;
  act(&c, 0);
  lki_manifest *view = lki_log_view(c.rival->log);
  lki_name_manifest(c.barred, own + (view->version - own) / 2);
  lki_manifest_release(view);
  atomic_store(&c.bars, true);
  append(&c, BEFORE, 1);
  assert_status(lake_producer_flush(c.p, test_deadline(c.env), &err), LAKE_DENIED, &err);
  assert_non_null(strstr(err.text, "is fenced by epoch 2"));
  assert_non_null(strstr(err.text, "; which of its TGBs are committed cannot be told yet: "));
  atomic_store(&c.bars, false);
  lake_status s = LAKE_DENIED;
  while (s == LAKE_DENIED) s = lake_producer_flush(c.p, test_deadline(c.env), &err);
  assert_status(s, LAKE_FENCED, &err);
  assert_non_null(strstr(err.text, TOLD("5")));
  close_scene(&c, BEFORE);
}

/* The search for the version that would tell gets on, though of the versions that it reads every other one fails. */
static void test_search_gets_on(void **state) {
  (void)state;
  scene c = {.rival_count = 40};
  open_scene(&c);
  act(&c, 0);
  lki_manifest *view = lki_log_view(c.rival->log);
  atomic_store(&c.searched, view->version);
  lki_manifest_release(view);
  append(&c, BEFORE, 1);
  lake_status s = LAKE_DENIED;
  for (int i = 0; i < 100 && s == LAKE_DENIED; i++) s = lake_producer_flush(c.p, test_deadline(c.env), &err);
  assert_status(s, LAKE_FENCED, &err);
  assert_non_null(strstr(err.text, TOLD("5")));
  assert_true(atomic_load(&c.read_count) > 4); /* halvings of some 40 versions */
  close_scene(&c, BEFORE);
}

/* A producer that closes asks for nothing more, neither while it looks for where its epoch ended nor while an attempt is
 * in doubt. */
static void close_at(hook_op awaited, bool fenced) {
  scene c = {.rival_count = 40, .eager = true, .awaited = awaited};
  open_scene(&c);
  if (fenced) act(&c, 0);
  atomic_store(&c.closing, 1);
  append(&c, BEFORE, 1);
  while (atomic_load(&c.closing) != 2) sched_yield();
  close_scene(&c, BEFORE);
  assert_int_equal(c.late_count, 0);
}

static void test_close(void **state) {
  (void)state;
  close_at(HOOK_GET, true);
  close_at(HOOK_PUT_IF_ABSENT, false);
}

/* Sealed meanwhile: what landed is committed, and the rest never will be. */
static void test_sealed(void **state) {
  (void)state;
  for (int lands = 0; lands < 2; lands++) {
    scene c = {.lands = lands != 0, .seals = true};
    open_scene(&c);
    assert_status(flush_doubtful(&c), lands != 0 ? LAKE_OK : LAKE_END, &err);
    assert_int_equal(atomic_load(&c.stage), 3);
    if (lands == 0) assert_non_null(strstr(err.text, "; nothing can be appended" TOLD("5")));
    close_scene(&c, BEFORE + (lands != 0 ? DOUBTFUL : 0));
  }
}

/* Not only producers: a seal whose version was reclaimed before it was settled, by a caller that may not read on. That
 * the last look did nothing does not mean that nothing was done. */
static void test_sealed_in_doubt(void **state) {
  (void)state;
  for (int lands = 0; lands < 2; lands++) {
    scene c = {.lands = lands != 0, .retires = true};
    uint64_t step_count = 0;
    open_scene(&c);
    atomic_store(&c.stage, 1);
    assert_status(lake_namespace_seal(c.ns, test_deadline(c.env), &step_count, &err), LAKE_UNCERTAIN, &err);
    assert_int_equal(err.status, LAKE_UNCERTAIN);
    assert_int_equal(atomic_load(&c.stage), 3);
    assert_non_null(strstr(err.text, "reclaimed before it was known whether it was committed"));
    assert_non_null(strstr(err.text, c.barred)); /* and why it was not settled */
    assert_int_equal(step_count, 0);
    lake_error local = LAKE_ERROR_INIT;
    assert_ok(lki_log_catch_up(c.rival->log, test_deadline(c.env), &local), &local);
    lki_manifest *view = lki_log_view(c.rival->log);
    assert_int_equal(view->sealed, lands != 0);
    lki_manifest_release(view);
    atomic_store(&c.bars, false);
    assert_ok(lake_namespace_seal(c.ns, test_deadline(c.env), &step_count, &err), &err);
    assert_int_equal(step_count, BEFORE);
    close_scene(&c, BEFORE);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_told), cmocka_unit_test(test_in_doubt),
                                     cmocka_unit_test(test_asked_again), cmocka_unit_test(test_search_gets_on),
                                     cmocka_unit_test(test_close), cmocka_unit_test(test_sealed),
                                     cmocka_unit_test(test_sealed_in_doubt)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
