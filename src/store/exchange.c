/* One request to a cloud store: written, signed, sent, judged. What one more request can mend is mended here,
 * each kind once: credentials that have expired, a clock that is off, a bucket that lives in another region.
 * In all three the server has refused the request without carrying it out, so that sending it again is safe
 * for a create too. Nothing else is sent twice here: the door retries (store.c), the log resolves
 * (src/log/commit.c). */
#include "store/cloud.h"
#include "base/env.h"
#include "base/error.h"
#include "store/url.h"
#include <stdio.h>
#include <string.h>

#define NOT_BEFORE_MS_MAX 60000u /* after that a store is asked again, whatever it said */
#define GATE_JITTER_PART 2u /* whoever was kept waits up to the asked time's half longer */
#define GATE_JITTER_MS_MAX 10000u
#define SKEW_S_MIN 60            /* a clock that is less off is not why a request was refused */

lake_status lki_cloud_dialect(lki_cloud_store *store, lake_deadline deadline, const lki_dialect **out,
                              lake_error *err) {
  if (store->settings.cloud != LKI_CLOUD_GCS) {
    *out = store->settings.cloud == LKI_CLOUD_S3 ? &lki_dialect_s3 : &lki_dialect_azure;
    return LAKE_OK;
  }
  const lki_credentials *credentials = NULL;
  lake_status s = lki_credentials_get(store->chain, NULL, deadline, &credentials, err);
  if (s != LAKE_OK) return s;
  *out = credentials->key_id != NULL ? &lki_dialect_gcs_xml : &lki_dialect_gcs_json;
  lki_credentials_release(store->chain, credentials);
  return LAKE_OK;
}

static bool gate_closed(const lki_cloud_store *store) {
  const uint64_t until_ns = atomic_load_explicit((atomic_uint_fast64_t *)(uintptr_t)&store->not_before_ns,
                                                 memory_order_relaxed);
  return until_ns != 0 && lki_now_ns(store->env) < until_ns;
}

/* A store that said when to come back is left alone until then. It said the same to many, in other processes too, who
 * would all come at that moment: so each who was kept waits a while longer, drawn from a part of the time that was asked
 * for, and from no more than half of what the deadline leaves. */
static lake_status wait_for_gate(lki_cloud_store *store, lake_deadline deadline, lake_error *err) {
  const uint64_t until_ns = atomic_load_explicit(&store->not_before_ns, memory_order_relaxed);
  if (until_ns == 0) return LAKE_OK;
  const uint64_t now_ns = lki_now_ns(store->env);
  if (now_ns >= until_ns) return LAKE_OK;
  if (until_ns >= deadline.at_ns)
    return lki_fail(err, LAKE_UNAVAILABLE, "the store asks for no requests for another %llu ms (Retry-After)",
                    (unsigned long long)((until_ns - now_ns) / 1000000));
  uint64_t spread_ns = atomic_load_explicit(&store->gate_ms, memory_order_relaxed) * 1000000u / GATE_JITTER_PART;
  if (spread_ns > (uint64_t)GATE_JITTER_MS_MAX * 1000000u) spread_ns = (uint64_t)GATE_JITTER_MS_MAX * 1000000u;
  if (spread_ns > (deadline.at_ns - until_ns) / 2) spread_ns = (deadline.at_ns - until_ns) / 2;
  lki_sleep_until(store->env, until_ns + (uint64_t)(lki_random_unit(store->env) * (double)spread_ns));
  return LAKE_OK;
}

static void close_gate(lki_cloud_store *store, uint64_t ms) {
  if (ms > NOT_BEFORE_MS_MAX) ms = NOT_BEFORE_MS_MAX;
  const uint64_t until_ns = lki_after_ns(store->env, ms * 1000000);
  atomic_store_explicit(&store->gate_ms, ms, memory_order_relaxed);
  uint_fast64_t old = atomic_load_explicit(&store->not_before_ns, memory_order_relaxed);
  while (old < until_ns && !atomic_compare_exchange_weak(&store->not_before_ns, &old, until_ns)) {
  }
}

static int64_t server_wall_s(const lki_cloud_store *store) {
  return (int64_t)(lki_wall_ns(store->env) / 1000000000u) +
         (int64_t)atomic_load_explicit((atomic_int_fast64_t *)(uintptr_t)&store->skew_s,
                                       memory_order_relaxed);
}

static lake_status prepare(lki_cloud_store *store, const lki_ask *ask, bool waits, lki_try *t, lake_error *err) {
  if (!waits && (gate_closed(store) || !lki_credentials_peek(store->chain, &t->credentials)))
    return lki_fail(err, LAKE_AGAIN, "the store may not be asked at once");
  lake_status s = waits ? wait_for_gate(store, ask->deadline, err) : LAKE_OK;
  if (s == LAKE_OK && waits) s = lki_credentials_get(store->chain, t->rejected, ask->deadline, &t->credentials, err);
  if (s != LAKE_OK) return s;
  lki_lock(store->env, store->synced.lock);
  t->place = store->synced.place;
  lki_unlock(store->env, store->synced.lock);
  t->wall_s = server_wall_s(store);
  ask->dialect->write(store, &t->place, ask, &t->request);
  if (!t->credentials->anonymous)
    s = ask->dialect->sign(store, &t->place, t->credentials, t->wall_s, &t->request, err);
  if (s == LAKE_OK) s = lki_request_finish(&t->request, &t->http, err);
  if (s != LAKE_OK) return s;
  if (ask->dialect->url != NULL) {
    const char *url = ask->dialect->url(store, &t->place, ask, &t->request.arena);
    if (url == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for a URL");
    t->http.url = url;
  }
  t->http.sink = ask->sink;
  t->http.range = ask->range;
  t->http.fresh = ask->verb == LKI_VERB_CREATE;
  t->http.deadline = ask->deadline;
  if (ask->sink != NULL && ask->range.kind == LAKE_RANGE_WHOLE)
    t->http.expect_bytes = ask->sink->bytes_max < (1u << 20) ? ask->sink->bytes_max : 1u << 20;
  return LAKE_OK;
}

/* What a try holds but for what it has learned. */
static void drop(lki_cloud_store *store, lki_try *t) {
  if (t->prepared) lki_request_free(&t->request);
  t->prepared = false;
  lki_credentials_release(store->chain, t->credentials);
  t->credentials = NULL;
}

static lake_status try_prepare(lki_cloud_store *store, const lki_ask *ask, bool waits, lki_try *t, lake_error *err) {
  memset(&t->request, 0, sizeof t->request);
  memset(&t->http, 0, sizeof t->http);
  t->prepared = true;
  lake_status s = prepare(store, ask, waits, t, err);
  if (s != LAKE_OK) drop(store, t);
  return s;
}

lake_status lki_try_prepare(lki_cloud_store *store, const lki_ask *ask, lki_try *t, lake_error *err) {
  return try_prepare(store, ask, true, t, err);
}

lake_status lki_try_prepare_now(lki_cloud_store *store, const lki_ask *ask, lki_try *t, lake_error *err) {
  return try_prepare(store, ask, false, t, err);
}

void lki_try_release(lki_cloud_store *store, lki_try *t) {
  drop(store, t);
  lki_credentials_release(store->chain, t->rejected);
  t->rejected = NULL;
}

/* Amazon's hosts have the region in their names, "s3.REGION.amazonaws.com" and its sisters; no other host is ever taken
 * from a reply, since the next request will carry a signature. */
void lki_place_move(lki_place *place, const char *region) {
  static const char global[] = "s3.amazonaws.com";
  char old[64], origin[sizeof place->origin];
  snprintf(old, sizeof old, ".%s.amazonaws.com", place->region);
  const char *at = strstr(place->origin, old);
  size_t old_bytes = strlen(place->region) + 1; /* what is replaced: ".REGION" */
  if (at == NULL) {
    at = strstr(place->origin, global);
    if (at != NULL) at += 2; /* behind "s3" */
    old_bytes = 0;
  }
  snprintf(place->region, sizeof place->region, "%s", region);
  if (at == NULL) return;
  int n = snprintf(origin, sizeof origin, "%.*s.%s%s", (int)(at - place->origin), place->origin, region, at + old_bytes);
  if (n > 0 && (size_t)n < sizeof origin) memcpy(place->origin, origin, (size_t)n + 1);
}

static bool learn_region(lki_cloud_store *store, const lki_try *t, const char *region) {
  if (strcmp(region, t->place.region) == 0) return false;
  /* It becomes a part of a host's name: with a '/' in it the host would be one that the reply chose. */
  if (lki_check_region("", region, NULL) != LAKE_OK) return false;
  lki_lock(store->env, store->synced.lock);
  lki_place *place = &store->synced.place;
  const bool first =
      strcmp(place->region, t->place.region) == 0; /* else another thread has learned meanwhile */
  if (first) lki_place_move(place, region);
  lki_unlock(store->env, store->synced.lock);
  if (first)
    lki_note(store->env, LAKE_LOG_INFO, "store: bucket %s is in region %s", store->settings.bucket, region);
  return true;
}

static bool learn_skew(lki_cloud_store *store, const lki_try *t, int64_t date_s) {
  if (date_s == 0) return false;
  const int64_t off_s = date_s - t->wall_s;
  if (off_s > -SKEW_S_MIN && off_s < SKEW_S_MIN) return false;
  const int64_t skew_s = date_s - (int64_t)(lki_wall_ns(store->env) / 1000000000u);
  atomic_store_explicit(&store->skew_s, skew_s, memory_order_relaxed);
  lki_note(store->env, LAKE_LOG_WARN,
           "store: bucket %s: this machine's clock is %lld s %s the store's; set it", store->settings.bucket,
           (long long)(skew_s < 0 ? -skew_s : skew_s), skew_s < 0 ? "ahead of" : "behind");
  return true;
}

static bool mend(lki_cloud_store *store, lki_try *t, unsigned kinds, const lki_http_reply *reply,
                 const lki_fault *fault) {
  kinds &= ~t->mended;
  if ((kinds & LKI_MEND_SKEW) != 0 && learn_skew(store, t, reply->date_s)) {
    t->mended |= LKI_MEND_SKEW;
    return true;
  }
  if ((kinds & LKI_MEND_REGION) != 0 &&
      learn_region(store, t, reply->region[0] ? reply->region : fault->region)) {
    t->mended |= LKI_MEND_REGION;
    return true;
  }
  if ((kinds & LKI_MEND_CREDENTIALS) != 0 && t->credentials != NULL && !t->credentials->anonymous) {
    t->mended |= LKI_MEND_CREDENTIALS;
    t->rejected = t->credentials;
    t->credentials = NULL;
    return true;
  }
  return false;
}

bool lki_try_again(lki_cloud_store *store, const lki_ask *ask, lki_try *t, lake_status sent,
                   const lki_http_reply *reply, lake_status *out, lake_error *err) {
  lki_fault fault;
  memset(&fault, 0, sizeof fault);
  if (reply->status >= 300 || reply->text_bytes > 0) ask->dialect->fault(store->env, reply, &fault);
  if (fault.code[0] == 0) snprintf(fault.code, sizeof fault.code, "%s", reply->error_code);
  if ((reply->status == 429 || reply->status == 503) && reply->retry_after_ms > 0)
    close_gate(store, reply->retry_after_ms);
  const lki_verdict verdict = lki_verdict_of(ask, store->settings.bucket, sent, reply, &fault, err);
  *out = verdict.status;
  if (verdict.status == LAKE_DENIED && reply->status > 0 && t->credentials != NULL && t->credentials->anonymous)
    lki_error_prefix(err, "without credentials");
  else if (verdict.status == LAKE_DENIED && reply->status > 0 && t->credentials != NULL)
    lki_error_prefix(err, "with credentials of %.100s", t->credentials->source);
  if (err != NULL) lki_credentials_blot(t->credentials, err->text);
  const bool again = verdict.mend != 0 && mend(store, t, verdict.mend, reply, &fault);
  drop(store, t);
  return again;
}

lake_status lki_cloud_exchange(lki_cloud_store *store, const lki_ask *ask, lki_http_reply *reply,
                               lake_error *err) {
  lki_try t;
  memset(&t, 0, sizeof t);
  lake_error e = LAKE_ERROR_INIT, before = LAKE_ERROR_INIT;
  lake_status s;
  bool again = true;
  while (again) {
    memset(reply, 0, sizeof *reply);
    s = lki_try_prepare(store, ask, &t, &e);
    if (s == LAKE_DENIED && t.rejected != NULL && before.status == s) /* there are no others: why the store refuses these says more */
      lki_fail(&e, s, "%.380s; its source gives the same ones again", before.text);
    if (s != LAKE_OK) break;
    s = lki_http_do(store->http, &t.http, reply, &e);
    again = lki_try_again(store, ask, &t, s, reply, &s, &e);
    if (again) before = e;
  }
  lki_try_release(store, &t);
  if (s != LAKE_OK) lki_error_copy(err, &e);
  return s;
}
