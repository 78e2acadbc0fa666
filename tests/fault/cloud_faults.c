/* What the cloud stores make of each of the fault server's 27 faults, on every dialect: the right bytes, or a status
 * that says truly what is known; never wrong bytes, never "created" that is not, never "taken" where it is open. What
 * the commit protocol makes of these statuses is in cloud_commits.c. */
#include "support/clouds.h"

#include "base/buffer.h"
#include "store/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY "0123456789abcdefghijklmnopqrstuvwxyz"
#define BODY_BYTES (sizeof BODY - 1)

typedef struct lab {
  cloud *cloud;
  faultd *f;
  lake_env *env;
  lake_store *store;
} lab;

/* ---- operations ---- */

static lake_bytes view(const char *text) { return (lake_bytes){text, strlen(text)}; }

static lake_status put(lab *l, const char *key, const char *body, lake_error *err) {
  return lki_store_put(l->store, key, view(body), test_deadline(l->env), err);
}

static lake_status create(lab *l, const char *key, const char *body, lake_error *err) {
  return lki_store_put_if_absent(l->store, key, view(body), test_deadline(l->env), err);
}

/* Reads and, when that went well, compares; a failure leaves the buffer as it was. */
static lake_status get_until(lab *l, const char *key, lake_range range, const char *want, lake_deadline deadline, lake_error *err) {
  lake_buffer out;
  lake_object_info info = {12345};
  lki_buffer_init(&out, l->env, 4096);
  const lake_status s = lki_store_get(l->store, key, range, &out, &info, deadline, err);
  if (s == LAKE_OK) {
    assert_int_equal(out.bytes, strlen(want));
    assert_memory_equal(out.data, want, out.bytes);
    assert_int_equal(info.object_bytes, BODY_BYTES);
  } else {
    assert_int_equal(out.bytes, 0);
    assert_int_equal(info.object_bytes, 12345);
    assert_int_equal(err->status, s);
  }
  lki_buffer_free(&out);
  return s;
}

static lake_status get(lab *l, const char *key, lake_range range, const char *want, lake_error *err) {
  return get_until(l, key, range, want, test_deadline(l->env), err);
}

static void expect_body(lab *l) {
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(get(l, "k", lki_range_whole(), BODY, &err), &err);
}

static void expect_missing(lab *l) {
  lake_error err = LAKE_ERROR_INIT;
  assert_status(get(l, "k", lki_range_whole(), BODY, &err), LAKE_NOTFOUND, &err);
}

static bool note_key(void *ctx, const char *key, uint64_t object_bytes) {
  char *keys = ctx;
  assert_int_equal(object_bytes, BODY_BYTES);
  assert_true(strlen(keys) + strlen(key) + 2 < 256);
  strcat(strcat(keys, key), ",");
  return true;
}

static void expect_listing(lab *l, const char *want) {
  lake_error err = LAKE_ERROR_INIT;
  char keys[256] = "";
  assert_ok(lki_store_list(l->store, "", NULL, note_key, keys, test_deadline(l->env), &err), &err);
  assert_string_equal(keys, want);
}

/* ---- a fault on a read: the whole, a part and the end are right all the same ---- */

static void rule(lab *l, const char *text) { faultd_rule(l->f, text); }

static void fired(lab *l, const char *fault, uint64_t count) { assert_int_equal(faultd_fired(l->f, fault), count); }

static void reads_are_right(lab *l, const char *fault, const char *options) {
  const struct { lake_range range; const char *want; } reads[] = {
      {lki_range_whole(), BODY}, {lki_range_exact(3, 7), "3456789"}, {lki_range_suffix(4), "wxyz"}};
  const bool ranged_only = strncmp(fault, "range-", 6) == 0;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(put(l, "k", BODY, &err), &err);
  for (size_t i = ranged_only ? 1 : 0; i < 3; i++) {
    char text[128];
    faultd_reset(l->f);
    snprintf(text, sizeof text, "%s op=get %s", fault, options);
    rule(l, text);
    assert_ok(get(l, "k", reads[i].range, reads[i].want, &err), &err);
    fired(l, fault, 1);
  }
}

/* A store that always does so is not read from: a refusal that names the object, after a bounded number of tries. */
static void refused_for_ever(lab *l, const char *fault, const char *options, lake_range range) {
  lake_error err = LAKE_ERROR_INIT;
  char text[128];
  faultd_reset(l->f);
  snprintf(text, sizeof text, "%s op=get count=all %s", fault, options);
  rule(l, text);
  assert_status(get(l, "k", range, "", &err), LAKE_UNAVAILABLE, &err);
  assert_non_null(strstr(err.text, "k: "));
  const uint64_t tries = faultd_fired(l->f, fault);
  assert_true(tries >= 2 && tries <= 16);
}

static void short_body(lab *l) { reads_are_right(l, "short-body", ""); }

static void close_delimited(lab *l) {
  reads_are_right(l, "close-delimited", "");
  refused_for_ever(l, "close-delimited", "", lki_range_whole());
}

static void extra_bytes(lab *l) {
  lake_error err = LAKE_ERROR_INIT;
  reads_are_right(l, "extra-bytes", "");
  faultd_reset(l->f);
  rule(l, "extra-bytes arg=range");
  assert_ok(get(l, "k", lki_range_exact(3, 7), "3456789", &err), &err);
  fired(l, "extra-bytes", 1);
}

static void range_ignored(lab *l) {
  reads_are_right(l, "range-ignored", "");
  refused_for_ever(l, "range-ignored", "", lki_range_exact(3, 7));
}

static void range_wrong(lab *l) {
  reads_are_right(l, "range-wrong", "");
  refused_for_ever(l, "range-wrong", "", lki_range_exact(3, 7));
}

static void reset_inside(lab *l) { reads_are_right(l, "reset", ""); }

/* Slow is not wrong; too slow ends at the deadline, with the object's name. */
static void drip(lab *l) {
  lake_error err = LAKE_ERROR_INIT;
  reads_are_right(l, "drip", "arg=2");
  faultd_reset(l->f);
  rule(l, "drip op=get arg=60000 count=all");
  assert_status(get_until(l, "k", lki_range_whole(), "", lake_deadline_after_ms(l->env, 300), &err), LAKE_TIMEOUT, &err);
  assert_non_null(strstr(err.text, "k: "));
}

/* Bytes are checked by whoever knows their checksum: the store delivers what came, in the right number. */
static void bit_flip(lab *l) {
  char flipped[] = BODY;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(put(l, "k", BODY, &err), &err);
  rule(l, "bit-flip op=get");
  flipped[BODY_BYTES / 2] ^= 4;
  const lake_status s = get(l, "k", lki_range_whole(), flipped, &err);
  assert_true(s == LAKE_OK || s == LAKE_CORRUPT || s == LAKE_UNAVAILABLE);
  fired(l, "bit-flip", 1);
  expect_body(l);
}

/* ---- a fault on whatever is repeated by itself ---- */

/* All operations that may be sent again give what they should, each after one of these faults. */
static void repeats_are_right(lab *l, const char *fault, const char *options) {
  const char *const ops[] = {"put", "get", "head", "list", "delete"};
  lake_error err = LAKE_ERROR_INIT;
  for (size_t i = 0; i < 5; i++) {
    char text[64];
    lake_object_info info = {0};
    faultd_reset(l->f);
    snprintf(text, sizeof text, "%s op=%s %s", fault, ops[i], options);
    rule(l, text);
    switch (i) {
    case 0: assert_ok(put(l, "k", BODY, &err), &err); break;
    case 1: expect_body(l); break;
    case 2:
      assert_ok(lki_store_head(l->store, "k", &info, test_deadline(l->env), &err), &err);
      assert_int_equal(info.object_bytes, BODY_BYTES);
      break;
    case 3: expect_listing(l, "k,"); break;
    case 4: assert_ok(lki_store_remove(l->store, "k", test_deadline(l->env), &err), &err); break;
    }
    fired(l, fault, 1);
  }
  faultd_reset(l->f);
  expect_missing(l);
}

/* One create under one fault: the status, and whether the object is there afterwards. A create is sent once. */
static void create_gives(lab *l, const char *text, lake_status want, bool there) {
  lake_error err = LAKE_ERROR_INIT;
  char fault[64];
  snprintf(fault, sizeof fault, "%.*s", (int)strcspn(text, " "), text);
  faultd_clear(l->f);
  rule(l, text);
  assert_status(create(l, "k", BODY, &err), want, &err);
  if (want != LAKE_OK) assert_non_null(strstr(err.text, "k: "));
  fired(l, fault, 1);
  assert_int_equal(faultd_log_count(l->f, "\"op\":\"create\""), 1);
  faultd_reset(l->f);
  if (there) expect_body(l);
  else expect_missing(l);
}

static void drop_request(lab *l) {
  repeats_are_right(l, "drop-request", "");
  create_gives(l, "drop-request op=create", LAKE_UNCERTAIN, false);
}

static void drop_reply(lab *l) {
  repeats_are_right(l, "drop-reply", "");
  create_gives(l, "drop-reply op=create", LAKE_UNCERTAIN, true);
}

static void duplicate(lab *l) {
  repeats_are_right(l, "duplicate", "");
  create_gives(l, "duplicate op=create", LAKE_EXISTS, true); /* one's own: the log finds that out */
}

static void late_put(lab *l) {
  lake_error err = LAKE_ERROR_INIT;
  for (int dropped = 0; dropped < 2; dropped++) {
    create_gives(l, dropped ? "late-put op=create arg=drop" : "late-put op=create", LAKE_UNCERTAIN, false);
    expect_body(l); /* it landed behind that answer */
    assert_status(create(l, "k", "other", &err), LAKE_EXISTS, &err);
  }
}

static void error_500(lab *l) {
  repeats_are_right(l, "error-500", "");
  create_gives(l, "error-500 op=create", LAKE_UNCERTAIN, false);
  create_gives(l, "error-500 op=create arg=applied", LAKE_UNCERTAIN, true);
  refused_for_ever(l, "error-500", "", lki_range_whole());
}

/* The store says when to come back: it is asked no sooner, by whatever operation. */
static void comes_back(lab *l, const char *text) {
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(put(l, "k", BODY, &err), &err);
  faultd_reset(l->f);
  rule(l, text);
  const lake_deadline soon = lake_deadline_after_ms(l->env, 300);
  assert_status(get_until(l, "k", lki_range_whole(), "", soon, &err), LAKE_UNAVAILABLE, &err);
  assert_int_equal(faultd_log_count(l->f, "\"op\":\"get\""), 1); /* nobody knocked before the time */
  expect_body(l);
}

static void slowdown_503(lab *l) {
  repeats_are_right(l, "slowdown-503", "arg=0");
  create_gives(l, "slowdown-503 op=create arg=0", LAKE_UNCERTAIN, false);
  comes_back(l, "slowdown-503 op=get");
}

static void throttle_429(lab *l) {
  repeats_are_right(l, "throttle-429", "arg=0");
  create_gives(l, "throttle-429 op=create arg=0", LAKE_UNAVAILABLE, false);
  comes_back(l, "throttle-429 op=get");
}

static void conflict_409_undecided(lab *l) {
  lake_error err = LAKE_ERROR_INIT;
  create_gives(l, "conflict-409-undecided op=create", LAKE_UNCERTAIN, false);
  create_gives(l, "conflict-409-undecided op=create arg=applied", LAKE_UNCERTAIN, true);
  faultd_clear(l->f);
  rule(l, "conflict-409-undecided op=put");
  assert_ok(put(l, "k", BODY, &err), &err);
  fired(l, "conflict-409-undecided", 1);
}

/* The name is taken: EXISTS, or not known where such an answer could mean something else; never created. */
static void taken_by(lab *l, const char *fault, lake_status want) {
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(create(l, "k", BODY, &err), &err);
  rule(l, fault);
  assert_status(create(l, "k", "other", &err), want, &err);
  fired(l, fault, 1);
  expect_body(l);
}

static void taken_409(lab *l) { taken_by(l, "taken-409", l->cloud->kind == CLOUD_AZURE ? LAKE_EXISTS : LAKE_UNCERTAIN); }
static void taken_304(lab *l) { taken_by(l, "taken-304", LAKE_EXISTS); }

/* A body that says "error" under a 200 is no success; of a read's bytes only a range or a listing shows it. */
static void error_200(lab *l) {
  lake_error err = LAKE_ERROR_INIT;
  rule(l, "error-200 op=put");
  assert_ok(put(l, "k", BODY, &err), &err);
  fired(l, "error-200", 1);
  expect_body(l);
  faultd_reset(l->f);
  rule(l, "error-200 op=list\nerror-200 op=get\n");
  expect_listing(l, "k,");
  assert_ok(get(l, "k", lki_range_exact(3, 7), "3456789", &err), &err);
  fired(l, "error-200", 2);
  create_gives(l, "error-200 op=create", LAKE_UNCERTAIN, false);
}

/* ---- staleness ---- */

static void stale_manifest(lab *l) {
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(create(l, "k", BODY, &err), &err);
  rule(l, "stale-manifest op=get");
  expect_missing(l); /* as the store tells it; the log does not take it for an answer about its own put */
  fired(l, "stale-manifest", 1);
  expect_body(l);
}

static void stale_list(lab *l) {
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(put(l, "a", BODY, &err), &err);
  assert_ok(put(l, "b", BODY, &err), &err);
  rule(l, "stale-list");
  expect_listing(l, "a,");
  fired(l, "stale-list", 1);
  expect_listing(l, "a,b,");
}

/* ---- no answer ---- */

static void stall(lab *l) {
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(put(l, "k", BODY, &err), &err);
  rule(l, "stall op=get count=all\nstall op=create\nstall op=list\n");
  assert_status(get_until(l, "k", lki_range_whole(), "", lake_deadline_after_ms(l->env, 300), &err), LAKE_TIMEOUT, &err);
  assert_non_null(strstr(err.text, "k: "));
  const lake_deadline deadline = lake_deadline_after_ms(l->env, 300);
  assert_status(lki_store_put_if_absent(l->store, "new", view(BODY), deadline, &err), LAKE_UNCERTAIN, &err);
  assert_non_null(strstr(err.text, "new: "));
  char keys[256] = "";
  assert_status(lki_store_list(l->store, "", NULL, note_key, keys, lake_deadline_after_ms(l->env, 300), &err), LAKE_TIMEOUT, &err);
  assert_string_equal(keys, "");
  assert_true(faultd_fired(l->f, "stall") >= 3);
  faultd_reset(l->f);
  expect_body(l); /* the others were not held up */
}

/* ---- who asks, and when ---- */

/* The offset is learned from the first refusal: there is exactly one, a create included. */
static void skew(lab *l) {
  lake_error err = LAKE_ERROR_INIT;
  const bool is_signed = l->cloud->kind != CLOUD_GCS_TOKEN;
  const char *const offsets[] = {"skew arg=960", "skew arg=-960"};
  for (size_t i = 0; i < 2; i++) {
    faultd_clear(l->f);
    rule(l, offsets[i]);
    assert_ok(create(l, "k", BODY, &err), &err);
    expect_body(l);
    expect_listing(l, "k,");
    assert_int_equal(faultd_log_count(l->f, "\"status\":403"), is_signed ? 1 : 0);
    assert_true(faultd_fired(l->f, "skew") >= 3);
  }
  faultd_clear(l->f);
}

/* Credentials that others have replaced are read again, once, a create included; where the same ones come again, or there
 * are none, the refusal is told and nothing is tried in vain. */
static void expired_token(lab *l) {
  lake_error err = LAKE_ERROR_INIT;
  const bool renewable = l->cloud->kind == CLOUD_S3;
  assert_ok(put(l, "k", BODY, &err), &err);
  if (renewable) cloud_renew(l->cloud);
  rule(l, "expired-token op=get");
  assert_status(get(l, "k", lki_range_whole(), BODY, &err), renewable ? LAKE_OK : LAKE_DENIED, &err);
  if (renewable) cloud_renew(l->cloud);
  rule(l, "expired-token op=create");
  assert_status(create(l, "new", BODY, &err), renewable ? LAKE_OK : LAKE_DENIED, &err);
  fired(l, "expired-token", 2);
  faultd_reset(l->f);
  rule(l, "expired-token count=all op=get");
  assert_status(get(l, "k", lki_range_whole(), BODY, &err), LAKE_DENIED, &err);
  assert_non_null(strstr(err.text, "k: "));
  assert_true(faultd_fired(l->f, "expired-token") <= 2);
  faultd_reset(l->f);
  expect_body(l); /* they were not thrown away for it */
}

/* Nothing is done, nothing is tried again, and it is said what has to be granted. */
static void deny(lab *l) {
  static const char *const reads[] = {"may not read objects here; grant", "may not write objects here; grant"};
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(put(l, "k", BODY, &err), &err);
  rule(l, "deny-403 op=get");
  assert_status(get(l, "k", lki_range_whole(), BODY, &err), LAKE_DENIED, &err);
  if (l->cloud->kind != CLOUD_GCS_TOKEN) assert_non_null(strstr(err.text, reads[0]));
  rule(l, "deny-403 op=create");
  assert_status(create(l, "new", BODY, &err), LAKE_DENIED, &err);
  if (l->cloud->kind != CLOUD_GCS_TOKEN) assert_non_null(strstr(err.text, reads[1]));
  assert_non_null(strstr(err.text, "access denied: "));
  fired(l, "deny-403", 2);
  expect_body(l);
}

/* ---- stores that must not be used: found out by lki_store_prove, in cloud_commits.c; here what they do ---- */

static void ignore_condition(lab *l) {
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(create(l, "k", "other", &err), &err);
  rule(l, "ignore-condition");
  assert_ok(create(l, "k", BODY, &err), &err); /* a lie that no single answer shows */
  fired(l, "ignore-condition", 1);
  expect_body(l);
  assert_status(create(l, "k", "third", &err), LAKE_EXISTS, &err);
}

static void invert_condition(lab *l) {
  lake_error err = LAKE_ERROR_INIT;
  rule(l, "invert-condition");
  assert_status(create(l, "k", BODY, &err), LAKE_EXISTS, &err);
  fired(l, "invert-condition", 1);
  expect_missing(l);
}

/* ---- all of them ---- */

static const struct {
  const char *name;
  void (*check)(lab *l);
} CASES[] = {
    {"drop-request", drop_request}, {"drop-reply", drop_reply}, {"duplicate", duplicate}, {"late-put", late_put},
    {"error-500", error_500}, {"slowdown-503", slowdown_503}, {"throttle-429", throttle_429},
    {"conflict-409-undecided", conflict_409_undecided}, {"taken-409", taken_409}, {"taken-304", taken_304},
    {"error-200", error_200}, {"short-body", short_body}, {"close-delimited", close_delimited},
    {"extra-bytes", extra_bytes}, {"range-ignored", range_ignored}, {"range-wrong", range_wrong}, {"bit-flip", bit_flip},
    {"stale-manifest", stale_manifest}, {"stale-list", stale_list}, {"reset", reset_inside}, {"drip", drip},
    {"stall", stall}, {"skew", skew}, {"expired-token", expired_token}, {"deny-403", deny}, {"ignore-condition", ignore_condition},
    {"invert-condition", invert_condition},
};
_Static_assert(sizeof CASES / sizeof *CASES == 27, "one case a fault");

static void on_cloud(cloud_kind kind) {
  lab l = {.cloud = cloud_start(kind)};
  const char *only = getenv("LAKE_FAULT"); /* one of them, to look at */
  l.f = l.cloud->server;
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    if (only != NULL && strcmp(only, CASES[i].name) != 0) continue;
    print_message("%s: %s\n", l.cloud->name, CASES[i].name);
    lake_error err = LAKE_ERROR_INIT;
    assert_ok(lake_env_open(NULL, &l.env, &err), &err);
    assert_ok(lake_store_open(l.env, cloud_url(l.cloud, "run"), &l.store, &err), &err);
    faultd_clear(l.f);
    CASES[i].check(&l);
    lake_store_close(l.store);
    lake_env_close(l.env);
  }
  cloud_stop(l.cloud);
}

int main(void) {
  return cloud_run_all(on_cloud);
}
