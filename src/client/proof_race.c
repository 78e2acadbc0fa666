/* A name is created once: one after another, and by many at the same time over two connections. What each writer was
 * told is held against what is there afterwards. */
#include "client/proof_inner.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- twice ---- */

lake_status lki_proof_read_back(lki_proof *p, lake_store *store, const char *key, lake_bytes want, lake_error *err) {
  char got[LKI_PROOF_BODY_BYTES];
  size_t bytes = 0;
  lake_object_info info;
  lake_status s = lki_proof_read(store, key, got, sizeof got, &bytes, lki_proof_until(p), err);
  if (s == LAKE_OK) s = lki_store_head(store, key, &info, lki_proof_until(p), err);
  if (s == LAKE_NOTFOUND) return lki_proof_refute(err, "it says that a name was created, but nothing is there");
  if (s == LAKE_CORRUPT) return lki_proof_refute(err, "a name that was created holds other bytes (%s)", err->text);
  if (s != LAKE_OK) return s;
  if (bytes == want.bytes && memcmp(got, want.data, bytes) == 0) return LAKE_OK;
  return lki_proof_refute(err, "a name that was created holds other bytes: it was written over");
}

lake_status lki_proof_create_for_sure(lki_proof *p, lake_store *store, const char *key, lake_bytes body, lake_error *err) {
  for (int i = 0;; i++) {
    const lake_status s = lki_store_put_if_absent(store, key, body, lki_proof_until(p), err);
    if (s == LAKE_OK || s == LAKE_EXISTS) return s;
    if ((s != LAKE_UNCERTAIN && s != LAKE_UNAVAILABLE && s != LAKE_AGAIN) || i == 7) return s;
    lki_sleep_until(p->env, lki_after_ns(p->env, (uint64_t)(200e6 * (i + 1) * lki_random_unit(p->env))));
    char got[LKI_PROOF_BODY_BYTES];
    size_t bytes = 0;
    lake_error back = LAKE_ERROR_INIT;
    const lake_status r = lki_proof_read(store, key, got, sizeof got, &bytes, lki_proof_until(p), &back);
    if (r == LAKE_OK) return bytes == body.bytes && memcmp(got, body.data, bytes) == 0 ? LAKE_OK : LAKE_EXISTS;
  }
}

lake_status lki_proof_create(lki_proof *p, lake_error *err) {
  char key[LKI_PROOF_KEY_BYTES], first[LKI_PROOF_BODY_BYTES], second[LKI_PROOF_BODY_BYTES];
  const lake_bytes one = lki_proof_body(p, 1, 0, first), two = lki_proof_body(p, 2, 0, second);
  lki_proof_key(p, LKI_PROOF_ONCE, 0, key);
  /* Whoever waits for a version asks for its name before it is there: that answer must not outlive the creation. */
  lake_status s = lki_proof_none(p, key, "an object is found under a name that was never used", err);
  p->no_store = s == LAKE_UNSUPPORTED;
  if (s != LAKE_OK) return s;
  p->written[LKI_PROOF_ONCE] = 1;
  s = lki_proof_create_for_sure(p, p->stores[0], key, one, err);
  if (s == LAKE_EXISTS) {
    s = lki_proof_read_back(p, p->stores[0], key, one, err);
    if (s == LAKE_UNSUPPORTED) return lki_proof_refute(err, "it says that a new name is taken: the condition is turned round");
  }
  if (s == LAKE_OK) s = lki_proof_read_back(p, p->stores[0], key, one, err);
  p->no_store = s == LAKE_UNSUPPORTED;
  if (s == LAKE_OK) s = lki_proof_read_back(p, p->stores[1], key, one, err);
  if (s != LAKE_OK) return s;
  s = lki_proof_create_for_sure(p, p->stores[1], key, two, err);
  if (s == LAKE_OK)
    return lki_proof_refute(err, "a name can be created twice: the condition of a create is ignored (or, on S3, the bucket keeps versions)");
  if (s != LAKE_EXISTS) return s;
  s = lki_proof_read_back(p, p->stores[0], key, one, err);
  if (s == LAKE_OK) s = lki_proof_read_back(p, p->stores[1], key, one, err);
  if (s == LAKE_OK) snprintf(p->said, sizeof p->said, "a name is created once; a second create is refused and changes nothing");
  /* Asked of the first object, and not of a thousand; whether what is removed is gone is another step's. */
  if (s == LAKE_OK) p->keeps_all = lki_store_remove(p->stores[0], key, lki_proof_until(p), NULL) == LAKE_DENIED;
  return s;
}

/* ---- a race ---- */

typedef struct race {
  lki_proof *p;
  uint32_t racer_count, key_count;
  unsigned char *told; /* told[racer * key_count + key]: a lake_status */
  struct {
    lki_mutex *lock;
    lki_cond *all_here;
    uint32_t here_count, turn;
  } synced;
} race;

typedef struct racer {
  race *race;
  uint32_t index;
  lki_thread *thread;
} racer;

/* All go for the next name at once. A thread that failed to start is not waited for. */
static void line_up(race *r) {
  lake_env *env = r->p->env;
  lki_lock(env, r->synced.lock);
  const uint32_t turn = r->synced.turn;
  if (++r->synced.here_count == r->racer_count) {
    r->synced.here_count = 0;
    r->synced.turn++;
    lki_broadcast(env, r->synced.all_here);
  }
  while (turn == r->synced.turn) (void)lki_wait(env, r->synced.all_here, r->synced.lock, LKI_NEVER);
  lki_unlock(env, r->synced.lock);
}

static void run(void *arg) {
  racer *me = arg;
  race *r = me->race;
  lki_proof *p = r->p;
  for (uint32_t k = 0; k < r->key_count; k++) {
    char key[LKI_PROOF_KEY_BYTES], text[LKI_PROOF_BODY_BYTES];
    lki_proof_key(p, LKI_PROOF_RACE, k, key);
    const lake_bytes body = lki_proof_body(p, me->index, k, text);
    line_up(r);
    const lake_status s = lki_store_put_if_absent(p->stores[me->index % 2], key, body, lki_proof_until(p), NULL);
    r->told[(size_t)me->index * r->key_count + k] = (unsigned char)s;
  }
}

/* Which racer's body is at a name: its number; racer_count, nobody's; or NOTFOUND and the like. */
static lake_status owner_of(const race *r, lake_store *store, uint32_t k, uint32_t *owner, lake_error *err) {
  char key[LKI_PROOF_KEY_BYTES], got[LKI_PROOF_BODY_BYTES], text[LKI_PROOF_BODY_BYTES];
  size_t bytes = 0;
  lki_proof_key(r->p, LKI_PROOF_RACE, k, key);
  const lake_status s = lki_proof_read(store, key, got, sizeof got, &bytes, lki_proof_until(r->p), err);
  if (s != LAKE_OK) return s;
  for (*owner = 0; *owner < r->racer_count; ++*owner) {
    const lake_bytes body = lki_proof_body(r->p, *owner, k, text);
    if (bytes == body.bytes && memcmp(got, body.data, bytes) == 0) break;
  }
  return LAKE_OK;
}

static uint32_t told(const race *r, uint32_t k, lake_status status) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < r->racer_count; i++) count += r->told[(size_t)i * r->key_count + k] == (unsigned char)status;
  return count;
}

/* Holds what was told about a name against what is there. A create whose reply was lost may own it, also if the reply to
 * its second try said that the name is taken. *open: nobody got it, and nobody was told otherwise. */
static lake_status judge(const race *r, uint32_t k, bool *open, lake_error *err) {
  uint32_t owner = 0, other = 0;
  const uint32_t won = told(r, k, LAKE_OK), taken = told(r, k, LAKE_EXISTS);
  if (told(r, k, LAKE_DENIED) > 0) return lki_fail(err, LAKE_DENIED, "creating an object is not allowed");
  if (won > 1)
    return lki_proof_refute(err, "%" PRIu32 " of %" PRIu32 " writers were each told that they created one and the same name", won, r->racer_count);
  lake_status s = owner_of(r, r->p->stores[0], k, &owner, err);
  if (s == LAKE_NOTFOUND && won == 0 && taken == 0) {
    *open = true;
    return LAKE_OK;
  }
  if (s == LAKE_NOTFOUND)
    return lki_proof_refute(err, "it says that a name %s, but nothing is there", won > 0 ? "was created" : "is taken");
  if (s == LAKE_OK) s = owner_of(r, r->p->stores[1], k, &other, err);
  if (s == LAKE_NOTFOUND) return lki_proof_refute(err, "an object is there over one connection and not over another");
  if (s == LAKE_CORRUPT) return lki_proof_refute(err, "a name that was created holds other bytes (%s)", err->text);
  if (s != LAKE_OK) return s;
  if (owner != other) return lki_proof_refute(err, "a name that was created once holds different bytes over two connections");
  if (owner == r->racer_count) return lki_proof_refute(err, "a name that was created holds bytes that nobody wrote");
  if (won == 1 && r->told[(size_t)owner * r->key_count + k] != LAKE_OK)
    return lki_proof_refute(err, "a writer was told that it created a name, but another's bytes are there");
  return LAKE_OK;
}

static lake_status judge_all(race *r, lake_error *err) {
  uint32_t open_count = 0;
  for (uint32_t k = 0; k < r->key_count; k++) {
    bool open = false;
    const lake_status s = judge(r, k, &open, err);
    if (s != LAKE_OK) return s;
    open_count += open;
  }
  /* A service may be slow to accept so many writes of one name, and say so. It has to let most through. */
  if (open_count * 2 > r->key_count)
    return lki_fail(err, LAKE_UNAVAILABLE, "of %" PRIu32 " names that writers raced for, %" PRIu32 " were created by nobody; try again when the store is less busy",
                    r->key_count, open_count);
  snprintf(r->p->said, sizeof r->p->said, "%" PRIu32 " names, %" PRIu32 " writers at once over %s: one owner each", r->key_count - open_count, r->racer_count,
           r->p->stores[0] != r->p->stores[1] ? "two connections" : "one connection");
  return LAKE_OK;
}

static lake_status run_all(race *r, racer *racers, lake_error *err) {
  lake_env *env = r->p->env;
  uint32_t started = 0;
  /* Nobody gets past the first line-up before the number of racers is settled. */
  lki_lock(env, r->synced.lock);
  for (; started < r->p->options->thread_count && started < LKI_PROOF_THREADS_MAX; started++) {
    racers[started] = (racer){.race = r, .index = started};
    racers[started].thread = lki_thread_start(env, "lake-proof", run, &racers[started]);
    if (racers[started].thread == NULL) break;
  }
  r->racer_count = started;
  if (started > 0) r->p->written[LKI_PROOF_RACE] = r->key_count;
  lki_unlock(env, r->synced.lock);
  for (uint32_t i = 0; i < started; i++) lki_thread_join(env, racers[i].thread);
  if (started < 2) return lki_fail(err, LAKE_NOMEM, "no threads to race with could be started");
  return LAKE_OK;
}

lake_status lki_proof_race(lki_proof *p, lake_error *err) {
  lake_env *env = p->env;
  racer racers[LKI_PROOF_THREADS_MAX];
  race r = {.p = p, .key_count = lki_proof_count(p, p->options->key_count)};
  lake_status s = LAKE_NOMEM;
  r.told = lki_new(env, (size_t)LKI_PROOF_THREADS_MAX * r.key_count);
  r.synced.lock = lki_mutex_open(env);
  r.synced.all_here = lki_cond_open(env);
  if (r.told == NULL || r.synced.lock == NULL || r.synced.all_here == NULL)
    lki_fail(err, s, "out of memory");
  else
    s = run_all(&r, racers, err);
  if (s == LAKE_OK) s = judge_all(&r, err);
  lki_cond_close(env, r.synced.all_here);
  lki_mutex_close(env, r.synced.lock);
  lki_free(env, r.told);
  return s;
}
