/* The second request for a slow ranged read. "Slow" is slower than 95 of the last 100 reads were, or so; the
 * share of reads that are asked twice has a limit, so that a store that is slow as a whole does not get twice
 * the load. Nor is a read asked twice while the store asks for no requests or credentials are renewed, since the reader
 * would have to wait with the second request. That fills a buffer of its own; the reader's is written by one of them
 * only, after the other has ended. Threads: the numbers are under a lock; each read waits on a lock of its own. */
#include "store/hedge.h"
#include "base/env.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

#define SAMPLE_COUNT 128u
#define SAMPLE_COUNT_MIN 32u /* before there are as many, nothing is known about what is slow */
#define RANK_PERCENT 95u
#define RECOMPUTE_EVERY 16u

struct lki_hedge {
  lake_env *env;
  uint32_t percent;
  struct {
    lki_mutex *lock;
    uint64_t samples_ns[SAMPLE_COUNT];
    uint64_t slow_ns; /* 0: not known */
    lki_hedge_stats stats;
  } synced;
};

lake_status lki_hedge_open(lake_env *env, uint32_t percent, lki_hedge **out, lake_error *err) {
  lki_hedge *hedge = lki_new(env, sizeof *hedge);
  if (hedge == NULL) return lki_fail(err, LAKE_NOMEM, "store: out of memory");
  hedge->env = env;
  hedge->percent = percent < 100 ? percent : 100;
  hedge->synced.lock = lki_mutex_open(env);
  if (hedge->synced.lock == NULL) {
    lki_free(env, hedge);
    return lki_fail(err, LAKE_NOMEM, "store: out of memory");
  }
  *out = hedge;
  return LAKE_OK;
}

void lki_hedge_close(lki_hedge *hedge) {
  if (hedge == NULL) return;
  lki_mutex_close(hedge->env, hedge->synced.lock);
  lki_free(hedge->env, hedge);
}

void lki_hedge_stats_get(const lki_hedge *hedge, lki_hedge_stats *stats) {
  lki_lock(hedge->env, hedge->synced.lock);
  *stats = hedge->synced.stats;
  lki_unlock(hedge->env, hedge->synced.lock);
}

/* ---- what is slow ---- */

static int by_value(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static void note_latency(lki_hedge *hedge, uint64_t ns) {
  uint64_t sorted[SAMPLE_COUNT];
  lki_lock(hedge->env, hedge->synced.lock);
  const uint64_t nth = hedge->synced.stats.read_count++;
  hedge->synced.samples_ns[nth % SAMPLE_COUNT] = ns;
  const uint64_t count = nth + 1 < SAMPLE_COUNT ? nth + 1 : SAMPLE_COUNT;
  if (count >= SAMPLE_COUNT_MIN && (nth + 1) % RECOMPUTE_EVERY == 0) {
    memcpy(sorted, hedge->synced.samples_ns, (size_t)count * sizeof sorted[0]);
    qsort(sorted, (size_t)count, sizeof sorted[0], by_value);
    hedge->synced.slow_ns = sorted[count * RANK_PERCENT / 100];
  }
  lki_unlock(hedge->env, hedge->synced.lock);
}

static uint64_t slow_after_ns(lki_hedge *hedge) {
  lki_lock(hedge->env, hedge->synced.lock);
  const uint64_t ns = hedge->synced.slow_ns;
  lki_unlock(hedge->env, hedge->synced.lock);
  return ns;
}

/* For one that was not sent. */
static void return_budget(lki_hedge *hedge) {
  lki_lock(hedge->env, hedge->synced.lock);
  hedge->synced.stats.hedged_count--;
  lki_unlock(hedge->env, hedge->synced.lock);
}

static bool take_budget(lki_hedge *hedge) {
  lki_lock(hedge->env, hedge->synced.lock);
  lki_hedge_stats *stats = &hedge->synced.stats;
  const bool granted = (stats->hedged_count + 1) * 100 <= stats->read_count * hedge->percent;
  if (granted) stats->hedged_count++;
  lki_unlock(hedge->env, hedge->synced.lock);
  return granted;
}

/* ---- the two requests ---- */

typedef struct pair pair;

typedef struct leg {
  pair *pair;
  bool sent, done; /* done: guarded by the pair's lock */
  lki_ask ask;
  lki_try t;
  lki_http_call call;
} leg;

struct pair {
  lki_cloud_store *store;
  lki_mutex *lock;
  lki_cond *cond;
  leg legs[2];
};

static void leg_done(lki_http_call *call) {
  leg *l = call->ctx;
  lki_lock(l->pair->store->env, l->pair->lock);
  l->done = true;
  lki_signal(l->pair->store->env, l->pair->cond);
  lki_unlock(l->pair->store->env, l->pair->lock);
}

static lake_status send_leg(pair *p, leg *l, const lki_ask *ask, lake_buffer *sink, bool waits, lake_error *err) {
  l->pair = p;
  l->ask = *ask;
  l->ask.sink = sink;
  lake_status s = waits ? lki_try_prepare(p->store, &l->ask, &l->t, err) : lki_try_prepare_now(p->store, &l->ask, &l->t, err);
  if (s != LAKE_OK) return s;
  l->call.request = l->t.http;
  l->call.done = leg_done;
  l->call.ctx = l;
  l->sent = true;
  lki_http_submit(p->store->http, &l->call);
  return LAKE_OK;
}

/* Until a leg is done, or the time comes: then -1. A leg that failed does not end the wait while the other
 * runs. */
static int wait_for_leg(pair *p, uint64_t until_ns) {
  lake_env *env = p->store->env;
  int found = -1;
  bool in_time = true;
  lki_lock(env, p->lock);
  while (found < 0 && in_time) {
    bool running = false;
    for (int i = 0; i < 2; i++) {
      if (!p->legs[i].sent) continue;
      running = running || !p->legs[i].done;
      if (p->legs[i].done && p->legs[i].call.status == LAKE_OK && p->legs[i].call.reply.status == 206)
        found = i;
    }
    if (found < 0 && !running) found = 0;
    if (found < 0) in_time = lki_wait(env, p->cond, p->lock, until_ns);
  }
  lki_unlock(env, p->lock);
  return found;
}

static void end_leg(pair *p, leg *l) {
  lake_env *env = p->store->env;
  if (!l->sent) return;
  lki_http_cancel(p->store->http, &l->call);
  lki_lock(env, p->lock);
  while (!l->done) (void)lki_wait(env, p->cond, p->lock, LKI_NEVER); /* a cancelled call completes soon */
  lki_unlock(env, p->lock);
}

static lake_status copy_out(const lake_buffer *from, const lki_http_reply *reply, lake_buffer *to,
                            lake_error *err) {
  const size_t bytes = (size_t)reply->body_bytes;
  lake_status s = lki_buffer_reserve(to, bytes, err);
  if (s != LAKE_OK) return s;
  if (bytes > 0) memcpy(to->data, from->data, bytes);
  to->bytes = bytes;
  return LAKE_OK;
}

/* One try of the request, maybe by two legs. true: nothing to mend; *out is the outcome. */
static bool try_pair(pair *p, const lki_ask *ask, lake_buffer *spare, lki_http_reply *reply, lake_status *out,
                     lake_error *err) {
  lki_hedge *hedge = p->store->hedge;
  const uint64_t slow_ns = slow_after_ns(hedge);
  const uint64_t begin_ns = lki_now_ns(p->store->env);
  leg *first = &p->legs[0], *second = &p->legs[1];
  *out = send_leg(p, first, ask, ask->sink, true, err);
  if (*out != LAKE_OK) return true;
  int winner = wait_for_leg(p, slow_ns != 0 ? lki_after_ns(p->store->env, slow_ns) : LKI_NEVER);
  if (winner < 0) {
    if (take_budget(hedge) && send_leg(p, second, ask, spare, false, NULL) != LAKE_OK)
      return_budget(hedge); /* without it the first goes on alone */
    winner = wait_for_leg(p, LKI_NEVER);
  }
  end_leg(p, first);
  end_leg(p, second);
  leg *won = &p->legs[winner];
  *reply = won->call.reply;
  lki_error_copy(err, &won->call.error);
  const bool again = lki_try_again(p->store, &won->ask, &won->t, won->call.status, reply, out, err);
  if (again) return false;
  if (*out == LAKE_OK) note_latency(hedge, lki_now_ns(p->store->env) - begin_ns);
  if (*out == LAKE_OK && winner == 1) {
    *out = copy_out(spare, reply, ask->sink, err);
    lki_lock(hedge->env, hedge->synced.lock);
    hedge->synced.stats.won_count++;
    lki_unlock(hedge->env, hedge->synced.lock);
  }
  return true;
}

lake_status lki_hedge_exchange(lki_cloud_store *store, const lki_ask *ask, lki_http_reply *reply,
                               lake_error *err) {
  if (store->hedge == NULL || ask->range.kind == LAKE_RANGE_WHOLE)
    return lki_cloud_exchange(store, ask, reply, err);
  lake_env *env = store->env;
  memset(reply, 0, sizeof *reply);
  pair *p = lki_new(env, sizeof *p);
  if (p == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for a request");
  p->store = store;
  p->lock = lki_mutex_open(env);
  p->cond = lki_cond_open(env);
  lake_buffer spare;
  lki_buffer_init(&spare, env, ask->sink->bytes_max);
  lake_error e = LAKE_ERROR_INIT;
  lake_status s = LAKE_OK;
  if (p->lock == NULL || p->cond == NULL) {
    s = lki_fail(&e, LAKE_NOMEM, "out of memory for a request");
    goto done;
  }
  while (!try_pair(p, ask, &spare, reply, &s, &e)) {
    lki_try_release(store, &p->legs[1].t);
    memset(&p->legs[1], 0, sizeof p->legs[1]);
    memset(&p->legs[0].call, 0, sizeof p->legs[0].call);
    p->legs[0].sent = p->legs[0].done = false;
  }
done:
  for (int i = 0; i < 2; i++) lki_try_release(store, &p->legs[i].t);
  if (s != LAKE_OK) lki_error_copy(err, &e);
  lki_buffer_free(&spare);
  lki_cond_close(env, p->cond);
  lki_mutex_close(env, p->lock);
  lki_free(env, p);
  return s;
}
