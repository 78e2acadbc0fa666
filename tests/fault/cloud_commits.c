/* The commit protocol over the cloud stores while the fault server misbehaves: whatever becomes of a create's reply, a
 * TGB is committed exactly once and in order; what is read is what was appended; a store that lies about conditions is
 * refused before anything is entrusted to it. Every dialect. */
#include "support/clouds.h"
#include "support/tgbs.h"

#include "base/env.h"
#include "client/proof.h"
#include "format/names.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 64

/* A namespace that two writers have open, and what it must hold. */
typedef struct lab {
  cloud *cloud;
  faultd *f;
  lake_env *env;
  lake_namespace *ns, *other;
  uint32_t epoch, other_epoch;
  tgb_mark marks[STEPS_MAX];
  uint64_t count, seq, other_seq;
} lab;

static void lab_open(lab *l, cloud_kind kind) {
  lake_error err = LAKE_ERROR_INIT;
  memset(l, 0, sizeof *l);
  l->cloud = cloud_start(kind);
  l->f = l->cloud->server;
  assert_ok(lake_env_open(NULL, &l->env, &err), &err);
  l->ns = tgb_namespace_new(l->env, cloud_url(l->cloud, "stream"), 16, 64);
  l->other = tgb_namespace_open(l->env, cloud_url(l->cloud, "stream"));
  l->epoch = (uint32_t)tgb_claim(l->ns, 1);
  l->other_epoch = (uint32_t)tgb_claim(l->other, 2);
}

static void lab_close(lab *l) {
  lake_namespace_close(l->other);
  lake_namespace_close(l->ns);
  lake_env_close(l->env);
  cloud_stop(l->cloud);
}

static void append(lab *l, bool by_other) {
  const tgb_mark mark = by_other ? (tgb_mark){2, l->other_epoch, l->other_seq++} : (tgb_mark){1, l->epoch, l->seq++};
  assert_true(l->count < STEPS_MAX);
  l->marks[l->count++] = mark;
  tgb_append(by_other ? l->other : l->ns, mark);
}

/* A look of one's own, by a reader that has seen nothing of it, finds exactly these steps. */
static void expect_all(lab *l) {
  lake_namespace *fresh = tgb_namespace_open(l->env, cloud_url(l->cloud, "stream"));
  tgb_check_all(fresh, l->marks, l->count);
  lake_namespace_close(fresh);
}

static void rule(lab *l, const char *fault, const char *options) {
  char text[128];
  faultd_reset(l->f);
  snprintf(text, sizeof text, "%s %s", fault, options);
  faultd_rule(l->f, text);
}

/* ---- one fault, one commit: once, whatever the reply was ---- */

typedef struct create_fault {
  const char *fault, *arg;
  bool needs_rival; /* only a name that is taken shows it: the other writer was faster */
} create_fault;

static const create_fault CREATE_FAULTS[] = {
    {"drop-request", "", false}, {"drop-reply", "", false}, {"duplicate", "", false}, {"late-put", "", false},
    {"late-put", "arg=drop", false}, {"error-500", "", false}, {"error-500", "arg=applied", false},
    {"slowdown-503", "", false}, {"slowdown-503", "arg=applied", false}, {"throttle-429", "", false},
    {"conflict-409-undecided", "", false}, {"conflict-409-undecided", "arg=applied", false},
    {"error-200", "", false}, {"error-200", "arg=applied", false}, {"skew", "", false},
    {"taken-409", "", true}, {"taken-304", "", true},
    /* The same when the version was the other's all along. */
    {"drop-reply", "", true}, {"late-put", "", true}, {"error-500", "", true}, {"conflict-409-undecided", "", true},
    {"duplicate", "", true},
};

static void commit_once(lab *l, const create_fault *c) {
  char options[96];
  snprintf(options, sizeof options, "op=create key=" LKI_NAME_MANIFEST_PREFIX " %s", c->arg);
  if (c->needs_rival) append(l, true);
  rule(l, c->fault, options);
  /* The rival's version comes between this one's last look, which finds nothing there, and its create. */
  if (c->needs_rival) faultd_rule(l->f, "stale-manifest key=.manifest");
  append(l, false);
  if (c->needs_rival) assert_int_equal(faultd_fired(l->f, "stale-manifest"), 1);
  assert_true(faultd_fired(l->f, c->fault) >= 1);
  faultd_reset(l->f);
  expect_all(l);
}

/* ---- a read-back that is behind: 404, or what was there before, is no answer about one's own put ---- */

static void commit_once_with_stale_read_back(lab *l) {
  faultd_reset(l->f);
  faultd_rule(l->f, "drop-reply op=create key=" LKI_NAME_MANIFEST_PREFIX "\n"
                    "stale-manifest op=get key=" LKI_NAME_MANIFEST_PREFIX " count=2\n");
  append(l, false);
  assert_int_equal(faultd_fired(l->f, "drop-reply"), 1);
  assert_true(faultd_fired(l->f, "stale-manifest") >= 1);
  faultd_reset(l->f);
  expect_all(l);
}

/* A listing that is behind hides no version from whoever opens. */
static void open_with_stale_list(lab *l) {
  append(l, false);
  rule(l, "stale-list", "count=all arg=3");
  expect_all(l);
  append(l, true);
  expect_all(l);
}

/* ---- reads ---- */

static const char *const READ_FAULTS[] = {"drop-request", "drop-reply", "error-500", "slowdown-503", "short-body",
                                          "close-delimited", "extra-bytes", "range-ignored", "range-wrong", "reset",
                                          "error-200", "bit-flip"};

/* A step's slice under one fault on the TGB: what was appended, or CORRUPT where the bytes came as told; never others. */
static void read_under(lab *l, const char *fault) {
  const uint64_t step = l->count - 1;
  tgb_mark mark = {0};
  lake_error err = LAKE_ERROR_INIT;
  rule(l, fault, "op=get key=data/");
  const lake_status s = tgb_read(l->ns, step, &mark, &err);
  if (strcmp(fault, "range-ignored") != 0 && strcmp(fault, "range-wrong") != 0)
    assert_int_equal(faultd_fired(l->f, fault), 1);
  if (s != LAKE_OK) {
    assert_string_equal(fault, "bit-flip");
    assert_status(s, LAKE_CORRUPT, &err);
    assert_non_null(strstr(err.text, "data/")); /* the object is named */
  } else {
    assert_memory_equal(&mark, &l->marks[step], sizeof mark);
  }
  faultd_reset(l->f);
  assert_ok(tgb_read(l->ns, step, &mark, &err), &err); /* nothing wrong was kept */
  assert_memory_equal(&mark, &l->marks[step], sizeof mark);
}

/* A manifest with a flipped bit is never taken for one: whoever opens gets the truth or CORRUPT, and the truth after. */
static void open_under_bit_flip(lab *l) {
  lake_error err = LAKE_ERROR_INIT;
  lake_namespace *fresh = NULL;
  rule(l, "bit-flip", "op=get key=.manifest");
  lake_status s = lake_namespace_open(l->env, cloud_url(l->cloud, "stream"), test_deadline(l->env), &fresh, &err);
  tgb_mark mark = {0};
  if (s == LAKE_OK) s = lki_log_catch_up(fresh->log, test_deadline(l->env), &err);
  assert_int_equal(faultd_fired(l->f, "bit-flip"), 1);
  if (s != LAKE_OK) assert_status(s, LAKE_CORRUPT, &err);
  faultd_reset(l->f);
  if (fresh != NULL) {
    assert_ok(tgb_read(fresh, l->count - 1, &mark, &err), &err);
    assert_memory_equal(&mark, &l->marks[l->count - 1], sizeof mark);
    tgb_check_all(fresh, l->marks, l->count);
  }
  lake_namespace_close(fresh);
  expect_all(l);
}

/* ---- stores that lie ---- */

/* The proof fails for what it is, and no namespace is made there. */
static void refused_store(cloud_kind kind, const char *fault) {
  lake_error err = LAKE_ERROR_INIT;
  lake_env *env = NULL;
  cloud *c = cloud_start(kind);
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  lake_namespace *ns = NULL;
  char text[64];
  assert_ok(lake_env_open(NULL, &env, &err), &err);
  snprintf(text, sizeof text, "%s count=all", fault);
  faultd_rule(c->server, text);
  assert_status(lake_namespace_create(env, cloud_url(c, "stream"), &options, test_deadline(env), &ns, &err), LAKE_UNSUPPORTED, &err);
  assert_null(ns);
  print_message("%s: %s: %s\n", c->name, fault, err.text);
  assert_true(faultd_fired(c->server, fault) >= 1);
  faultd_reset(c->server);
  assert_status(lake_namespace_open(env, cloud_url(c, "stream"), test_deadline(env), &ns, &err), LAKE_NOTFOUND, &err);
  lake_env_close(env);
  cloud_stop(c);
}

static void on_cloud(cloud_kind kind) {
  lab l;
  lab_open(&l, kind);
  for (size_t i = 0; i < sizeof CREATE_FAULTS / sizeof *CREATE_FAULTS; i++) {
    print_message("%s: %s %s%s\n", l.cloud->name, CREATE_FAULTS[i].fault, CREATE_FAULTS[i].arg,
                  CREATE_FAULTS[i].needs_rival ? " with a rival" : "");
    commit_once(&l, &CREATE_FAULTS[i]);
  }
  commit_once_with_stale_read_back(&l);
  open_with_stale_list(&l);
  faultd_reset(l.f);
  for (size_t i = 0; i < sizeof READ_FAULTS / sizeof *READ_FAULTS; i++) {
    print_message("%s: reading with %s\n", l.cloud->name, READ_FAULTS[i]);
    read_under(&l, READ_FAULTS[i]);
  }
  open_under_bit_flip(&l);
  lab_close(&l);
  refused_store(kind, "ignore-condition");
  refused_store(kind, "invert-condition");
}

int main(void) {
  return cloud_run_all(on_cloud);
}
