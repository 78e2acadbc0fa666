/* The proof's steps in their order, what they share, and the cleaning up. See proof.h. */
#include "client/namespace.h"
#include "client/proof_inner.h"
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

const lki_proof_options lki_proof_full = {.thread_count = 32,
                                          .key_count = 50,
                                          .list_count = 1100,
                                          .probe_count = 21,
                                          .bulk_bytes = 8u << 20,
                                          .sweeps = true};
const lki_proof_options lki_proof_short = {.thread_count = 16, .key_count = 8, .list_count = 24};

bool lki_proof_wanted(const char *url) {
  static const char *const services[] = {"s3:", "gs:", "az:"};
  for (size_t i = 0; i < sizeof services / sizeof services[0]; i++)
    if (strncmp(url, services[i], 3) == 0) return true;
  return false;
}

/* ---- names and bodies ---- */

lake_deadline lki_proof_until(const lki_proof *p) {
  const uint64_t at_ns = p->request_ns > 0 ? lki_after_ns(p->env, p->request_ns) : LKI_NEVER;
  return at_ns < p->deadline.at_ns ? (lake_deadline){at_ns} : p->deadline;
}

void lki_proof_key(const lki_proof *p, lki_proof_kind kind, uint32_t i, char key[LKI_PROOF_KEY_BYTES]) {
  static const char *const folders[LKI_PROOF_KINDS] = {"once", "race", "read", "list", "probe", "bulk"};
  /* The first two of a listing are in the order of bytes, and the other way round where '/' comes before all else. */
  static const char *const first[] = {"0-/0", "0/0"};
  if (kind == LKI_PROOF_LIST && i < sizeof first / sizeof *first)
    snprintf(key, LKI_PROOF_KEY_BYTES, "%s%s/%s", p->report->prefix, folders[kind], first[i]);
  else
    snprintf(key, LKI_PROOF_KEY_BYTES, "%s%s/%05" PRIu32, p->report->prefix, folders[kind], i);
}

lake_bytes lki_proof_body(const lki_proof *p, uint32_t who, uint32_t i, char body[LKI_PROOF_BODY_BYTES]) {
  const int bytes = snprintf(body, LKI_PROOF_BODY_BYTES, "lake doctor %016" PRIx64 ": name %" PRIu32 ", writer %" PRIu32 "\n",
                             p->nonce, i, who);
  return (lake_bytes){body, (size_t)bytes};
}

lake_status lki_proof_read(lake_store *store, const char *key, void *dst, size_t room, size_t *bytes,
                           lake_deadline deadline, lake_error *err) {
  lake_buffer buffer;
  lki_buffer_init_fixed(&buffer, lki_store_env(store), dst, room);
  lake_status s = lki_store_get(store, key, lki_range_whole(), &buffer, NULL, deadline, err);
  if (s == LAKE_OK) *bytes = buffer.bytes;
  return s;
}

/* ---- many requests at once ---- */

typedef struct crew {
  lki_proof *p;
  lki_proof_each_fn *fn;
  void *ctx;
  uint32_t count;
  atomic_uint next;
  atomic_bool failed;
} crew;

typedef struct hand {
  crew *crew;
  lake_store *store;
  lki_thread *thread;
  lake_status status;
  lake_error err;
} hand;

static void work(void *arg) {
  hand *h = arg;
  crew *c = h->crew;
  while (!atomic_load(&c->failed)) {
    const uint32_t i = atomic_fetch_add(&c->next, 1);
    if (i >= c->count) return;
    h->status = c->fn(c->p, h->store, i, c->ctx, &h->err);
    if (h->status != LAKE_OK) atomic_store(&c->failed, true);
  }
}

lake_status lki_proof_each(lki_proof *p, uint32_t count, uint32_t thread_count, lki_proof_each_fn *fn, void *ctx,
                           lake_error *err) {
  hand hands[LKI_PROOF_THREADS_MAX] = {0};
  crew c = {.p = p, .fn = fn, .ctx = ctx, .count = count};
  if (thread_count > LKI_PROOF_THREADS_MAX) thread_count = LKI_PROOF_THREADS_MAX;
  uint32_t started = 0;
  for (; started < thread_count && started < count; started++) {
    hands[started] = (hand){.crew = &c, .store = p->stores[started % 2]};
    hands[started].thread = lki_thread_start(p->env, "lake-proof", work, &hands[started]);
    if (hands[started].thread == NULL) break;
  }
  if (started == 0 && count > 0) { /* no thread to be had: by oneself */
    hands[0] = (hand){.crew = &c, .store = p->stores[0]};
    work(&hands[0]);
    started = 1;
  }
  lake_status s = LAKE_OK;
  for (uint32_t i = 0; i < started; i++) {
    lki_thread_join(p->env, hands[i].thread);
    if (s != LAKE_OK || hands[i].status == LAKE_OK) continue;
    s = hands[i].status;
    lki_error_copy(err, &hands[i].err);
  }
  return s;
}

/* ---- cleaning up ---- */

#define LEFT_BATCH_COUNT 50u /* objects that one thread removes together: one request, where there is one for many */

typedef struct left {
  lki_proof_kind kind;
  atomic_uint count;
  atomic_bool hopeless; /* some could not be removed, for all the tries of the door: neither could the others */
} left;

static lake_status remove_some(lki_proof *p, lake_store *store, uint32_t batch, void *ctx, lake_error *err) {
  left *l = ctx;
  char texts[LEFT_BATCH_COUNT][LKI_PROOF_KEY_BYTES];
  const char *keys[LEFT_BATCH_COUNT];
  const uint32_t first = batch * LEFT_BATCH_COUNT;
  uint32_t count = 0;
  (void)err;
  for (; count < LEFT_BATCH_COUNT && first + count < p->written[l->kind]; count++) {
    lki_proof_key(p, l->kind, first + count, texts[count]);
    keys[count] = texts[count];
  }
  if (p->keeps_all || atomic_load(&l->hopeless) ||
      lki_store_remove_many(store, keys, count, NULL, lki_proof_until(p), NULL) != LAKE_OK) {
    atomic_fetch_add(&l->count, count);
    atomic_store(&l->hopeless, true);
  }
  return LAKE_OK;
}

/* Has time of its own, since the deadline may be what ended the proof. */
static void clean_up(lki_proof *p) {
  left l = {0};
  p->deadline.at_ns = LKI_NEVER;
  p->request_ns = LKI_STORE_CALL_NS;
  for (int kind = 0; kind < LKI_PROOF_KINDS; kind++) {
    l.kind = (lki_proof_kind)kind;
    (void)lki_proof_each(p, (p->written[kind] + LEFT_BATCH_COUNT - 1) / LEFT_BATCH_COUNT, 16, remove_some, &l, NULL);
  }
  p->report->left_count = atomic_load(&l.count);
  if (p->report->left_count > 0)
    lki_note(p->env, LAKE_LOG_WARN, "%s: %" PRIu64 " objects below %s could not be removed; remove them by hand",
             lki_store_url(p->stores[0]), p->report->left_count, p->report->prefix);
}

/* ---- the whole ---- */

static void note_check(lki_proof *p, const char *name, lki_proof_result result, const char *text) {
  lki_proof_check *check = &p->report->checks[p->report->check_count++];
  check->name = name;
  check->result = result;
  snprintf(check->text, sizeof check->text, "%s", text);
}

/* What can be read off the settings of the bucket, such as versions of names. */
static lake_status ask_bucket(lki_proof *p, lake_error *err) {
  if (!lki_proof_wanted(lki_store_url(p->stores[0]))) return LAKE_OK;
  const lake_status s = lki_store_check(p->stores[0], lki_proof_until(p), err);
  if (s == LAKE_OK) snprintf(p->said, sizeof p->said, "no setting of the bucket is known to stand in the way");
  if (s != LAKE_NOTFOUND) return s;
  p->result = LKI_PROOF_UNKNOWN; /* the creates decide */
  snprintf(p->said, sizeof p->said, "%.390s", err->text);
  return LAKE_OK;
}

static const struct step {
  const char *name;
  lake_status (*run)(lki_proof *p, lake_error *err);
} steps[] = {{"bucket", ask_bucket},       {"create", lki_proof_create},  {"race", lki_proof_race},
             {"read", lki_proof_ranges},   {"list", lki_proof_listing},   {"remove", lki_proof_removal},
             {"speed", lki_proof_speed}};

/* A refuted promise does not end the proof: the other steps say more about the store. */
static lake_status run_steps(lki_proof *p, lake_error *err) {
  lake_status verdict = LAKE_OK;
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    lake_error e = LAKE_ERROR_INIT;
    if (p->options->stop != NULL && p->options->stop(p->options->ctx))
      return lki_fail(err, LAKE_CANCELED, "%s: the check was ended before it was through", lki_store_url(p->stores[0]));
    p->said[0] = 0;
    p->result = LKI_PROOF_OK;
    const lake_status s = steps[i].run(p, &e);
    if (s == LAKE_OK) {
      if (p->said[0] != 0) note_check(p, steps[i].name, p->result, p->said);
      continue;
    }
    if (s != LAKE_UNSUPPORTED) {
      note_check(p, steps[i].name, LKI_PROOF_SKIPPED, e.text);
      if (verdict != LAKE_OK) return verdict; /* a store that lies may well be in no state for the rest */
      lki_error_prefix(&e, "the check \"%s\" could not be carried out", steps[i].name);
      lki_error_copy(err, &e);
      return s;
    }
    note_check(p, steps[i].name, LKI_PROOF_FAILED, e.text);
    if (verdict == LAKE_OK)
      verdict = lki_fail(err, LAKE_UNSUPPORTED, "%s is no store for Lakestream: %.300s; use another store (lake doctor tells more)", lki_store_url(p->stores[0]), e.text);
    if (p->no_store) break;
  }
  return verdict;
}

lake_status lki_store_prove(lake_store *a, lake_store *b, const lki_proof_options *options, lki_proof_report *report,
                            lake_deadline deadline, lake_error *err) {
  lake_env *env = lki_store_env(a);
  lki_proof p = {.env = env, .stores = {a, b}, .options = options, .report = report, .deadline = deadline,
                 .request_ns = options->request_ms * 1000000, .nonce = lki_random_u64(env)};
  memset(report, 0, sizeof *report);
  lki_proof_name_run(env, p.nonce, report->prefix);
  const lake_status s = run_steps(&p, err);
  clean_up(&p);
  if (s == LAKE_OK && options->sweeps) lki_proof_sweep(&p);
  return s;
}
