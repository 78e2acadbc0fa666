/* The chain: asks the sources in order, hands out snapshots, renews them.
 *
 * A snapshot is renewed from five minutes before its end on (earlier by chance, so that a thousand ranks do
 * not ask at one moment, and not before half of its time has gone). One thread renews at a time, without the
 * lock; others go on with what is still valid, and wait only when nothing is. What failed while something
 * valid is there is tried again after a pause.
 *
 * The lock guards the current snapshot, all counts of references and the state of the renewal. */
#include "store/credentials.h"
#include "base/env.h"
#include "base/error.h"
#include "store/source.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

#define SECOND ((uint64_t)1000000000)
#define MARGIN_NS (300 * SECOND)
#define JITTER_NS (60 * SECOND)
#define PAUSE_NS (30 * SECOND) /* between failed renewals while something valid is there */
#define RENEW_NS (20 * SECOND) /* the longest that one who holds valid ones is kept by a renewal */

/* A snapshot; what callers see comes first. */
typedef struct held {
  lki_credentials credentials;
  lki_arena arena;
  uint64_t reference_count;
  uint64_t renew_wall_ns; /* from then on somebody renews it */
  bool rejected;          /* a store called it expired */
} held;

struct lki_credentials_chain {
  lake_env *env;
  const lki_settings *settings;
  lki_http *http;
  const lki_source *sources;
  struct {
    lki_mutex *lock;
    lki_cond *changed;
    held *current; /* with one reference; NULL: none yet */
    bool renewing;
    uint64_t round_count;    /* renewals that have ended */
    lake_status last_status; /* of the last one */
    lake_error last_error;
    uint64_t retry_at_ns; /* after a failed one */
  } synced;
};

lake_status lki_credentials_open(lake_env *env, const lki_settings *settings, lki_http *http,
                                 lki_credentials_chain **out, lake_error *err) {
  lki_credentials_chain *chain = lki_new(env, sizeof *chain);
  if (chain == NULL) return lki_fail(err, LAKE_NOMEM, "credentials: out of memory");
  chain->env = env;
  chain->settings = settings;
  chain->http = http;
  chain->sources = settings->cloud == LKI_CLOUD_S3    ? lki_sources_s3
                   : settings->cloud == LKI_CLOUD_GCS ? lki_sources_gcs
                                                      : lki_sources_azure;
  chain->synced.lock = lki_mutex_open(env);
  chain->synced.changed = lki_cond_open(env);
  if (chain->synced.lock == NULL || chain->synced.changed == NULL) {
    lki_credentials_close(chain);
    return lki_fail(err, LAKE_NOMEM, "credentials: out of memory");
  }
  *out = chain;
  return LAKE_OK;
}

static void held_free(held *h) {
  if (h == NULL) return;
  lake_env *env = h->arena.env;
  lki_arena_wipe_free(&h->arena);
  lki_free(env, h);
}

static held *unref_locked(held *h) {
  if (h == NULL) return NULL;
  assert(h->reference_count > 0);
  return --h->reference_count == 0 ? h : NULL;
}

void lki_credentials_close(lki_credentials_chain *chain) {
  if (chain == NULL) return;
  held *last = unref_locked(chain->synced.current);
  assert(last == chain->synced.current); /* all snapshots were released */
  held_free(last);
  lki_cond_close(chain->env, chain->synced.changed);
  lki_mutex_close(chain->env, chain->synced.lock);
  lki_free(chain->env, chain);
}

void lki_credentials_release(lki_credentials_chain *chain, const lki_credentials *credentials) {
  if (credentials == NULL) return;
  held *h = (held *)(uintptr_t)credentials; /* it is the first member */
  lki_lock(chain->env, chain->synced.lock);
  h = unref_locked(h);
  lki_unlock(chain->env, chain->synced.lock);
  held_free(h);
}

/* ---- asking ---- */

/* had: there were some before, so that a source has gone away, for a moment as we hope. */
static lake_status nothing_found(const lki_asking *asking, bool had, const char *asked, lake_error *err) {
  const lki_settings *settings = asking->settings;
  return lki_fail(err, had ? LAKE_UNAVAILABLE : LAKE_DENIED,
                  "no credentials for %s \"%.60s\"; asked: %s%s%s; for what is public add ?anonymous=true",
                  settings->cloud == LKI_CLOUD_AZURE ? "container" : "bucket", settings->bucket, asked,
                  asking->passed_over != NULL ? "; " : "", asking->passed_over != NULL ? asking->passed_over : "");
}

static lake_status ask_sources(lki_credentials_chain *chain, bool had, lake_deadline deadline, held *h,
                               lake_error *err) {
  lki_asking asking = {.env = chain->env,
                       .settings = chain->settings,
                       .http = chain->http,
                       .deadline = deadline,
                       .arena = &h->arena};
  asking.found.expires_wall_ns = UINT64_MAX;
  char asked[360] = "";
  size_t used = 0;
  lake_status s = LAKE_NOTFOUND;
  if (chain->settings->anonymous) {
    asking.found.anonymous = true;
    asking.found.source = "anonymous=true in the URL";
    s = LAKE_OK;
  }
  for (const lki_source *source = chain->sources; s == LAKE_NOTFOUND && source->name != NULL; source++) {
    asking.switched_off = false;
    s = source->ask(&asking, err);
    if (s == LAKE_NOTFOUND && !asking.switched_off && source->name[0] != 0 && used < sizeof asked)
      used += (size_t)snprintf(asked + used, sizeof asked - used, "%s%s", used > 0 ? ", " : "", source->name);
  }
  /* For want of memory a source may look as if it were not there. */
  if (h->arena.failed) s = lki_fail(err, LAKE_NOMEM, "credentials: out of memory");
  if (s == LAKE_OK) h->credentials = asking.found;
  return s == LAKE_NOTFOUND ? nothing_found(&asking, had, asked, err) : s;
}

/* From when on a snapshot that ends is renewed. */
static uint64_t renewal(lake_env *env, uint64_t now, uint64_t expires) {
  if (expires == UINT64_MAX) return UINT64_MAX;
  uint64_t left = expires > now ? expires - now : 0;
  uint64_t margin = MARGIN_NS + (uint64_t)(lki_random_unit(env) * (double)JITTER_NS);
  return expires - (margin < left / 2 ? margin : left / 2);
}

/* New credentials with one reference. No lock held: this reads files, runs commands and asks servers. */
static lake_status load(lki_credentials_chain *chain, bool had, lake_deadline deadline, held **out,
                        lake_error *err) {
  held *h = lki_new(chain->env, sizeof *h);
  if (h == NULL) return lki_fail(err, LAKE_NOMEM, "credentials: out of memory");
  lki_arena_init(&h->arena, chain->env);
  lake_status s = ask_sources(chain, had, deadline, h, err);
  uint64_t now = lki_wall_ns(chain->env);
  if (s == LAKE_OK && h->credentials.expires_wall_ns <= now)
    s = lki_fail(err, LAKE_DENIED,
                 "%s: what it gave has expired already; renew it, or set this machine's clock",
                 h->credentials.source);
  if (s != LAKE_OK) {
    held_free(h);
    return s;
  }
  h->reference_count = 1;
  h->renew_wall_ns = renewal(chain->env, now, h->credentials.expires_wall_ns);
  *out = h;
  return LAKE_OK;
}

static bool same_text(const char *a, const char *b) {
  return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool same(const lki_credentials *a, const lki_credentials *b) {
  return same_text(a->key_id, b->key_id) && same_text(a->secret, b->secret) &&
         same_text(a->session, b->session) && same_text(a->bearer, b->bearer) && same_text(a->sas, b->sas) &&
         a->anonymous == b->anonymous;
}

/* ---- handing out ---- */

static bool usable_locked(const lki_credentials_chain *chain, uint64_t now) {
  const held *h = chain->synced.current;
  return h != NULL && !h->rejected && now < h->credentials.expires_wall_ns;
}

static const lki_credentials *take_locked(lki_credentials_chain *chain) {
  held *h = chain->synced.current;
  h->reference_count++;
  return &h->credentials;
}

/* Waits for the renewal that another thread has under way. OK: look again. Else its failure, which is ours as
 * well: to ask once more at once would only make a herd. */
static lake_status wait_locked(lki_credentials_chain *chain, lake_deadline deadline, lake_error *err) {
  uint64_t round = chain->synced.round_count;
  while (chain->synced.renewing && chain->synced.round_count == round)
    if (!lki_wait(chain->env, chain->synced.changed, chain->synced.lock, deadline.at_ns))
      return lki_fail(err, LAKE_TIMEOUT,
                      "credentials for \"%.60s\": another thread was still asking for them",
                      chain->settings->bucket);
  /* A deadline shorter than ours says nothing about what we can get. */
  if (chain->synced.last_status == LAKE_OK || chain->synced.last_status == LAKE_TIMEOUT) return LAKE_OK;
  lki_error_copy(err, &chain->synced.last_error);
  return chain->synced.last_status;
}

/* Renews, without the lock meanwhile. What failed is noted once, here, when something valid goes on serving.
 */
static lake_status renew_locked(lki_credentials_chain *chain, lake_deadline deadline, bool usable,
                                lake_error *err) {
  lake_env *env = chain->env;
  held *fresh = NULL, *old = NULL;
  lake_error why = LAKE_ERROR_INIT;
  bool had = chain->synced.current != NULL;
  chain->synced.renewing = true;
  lki_unlock(env, chain->synced.lock);
  if (usable && lki_after_ns(env, RENEW_NS) < deadline.at_ns) deadline.at_ns = lki_after_ns(env, RENEW_NS);
  lake_status s = load(chain, had, deadline, &fresh, &why);
  if (s == LAKE_OK)
    lki_note(env, LAKE_LOG_INFO, "credentials for \"%.60s\" from %s", chain->settings->bucket,
             fresh->credentials.source);
  else if (usable)
    lki_note(env, LAKE_LOG_WARN, "credentials could not be renewed; those there are go on: %s", why.text);
  lki_lock(env, chain->synced.lock);
  if (s == LAKE_OK) {
    old = unref_locked(chain->synced.current);
    chain->synced.current = fresh;
  } else {
    chain->synced.retry_at_ns = lki_after_ns(env, PAUSE_NS);
    lki_error_copy(err, &why);
  }
  chain->synced.renewing = false;
  chain->synced.round_count++;
  chain->synced.last_status = s;
  chain->synced.last_error = why;
  lki_broadcast(env, chain->synced.changed);
  if (old != NULL) {
    lki_unlock(env, chain->synced.lock);
    held_free(old);
    lki_lock(env, chain->synced.lock);
  }
  return s;
}

static lake_status get_locked(lki_credentials_chain *chain, lake_deadline deadline,
                              const lki_credentials **out, lake_error *err) {
  for (;;) {
    uint64_t now = lki_wall_ns(chain->env);
    bool usable = usable_locked(chain, now);
    bool due = usable && now >= chain->synced.current->renew_wall_ns && !chain->synced.renewing &&
               lki_now_ns(chain->env) >= chain->synced.retry_at_ns;
    if (usable && !due) break;
    lake_status s = usable || !chain->synced.renewing ? renew_locked(chain, deadline, usable, err)
                                                      : wait_locked(chain, deadline, err);
    if (s != LAKE_OK && !usable_locked(chain, lki_wall_ns(chain->env))) return s;
  }
  *out = take_locked(chain);
  return LAKE_OK;
}

bool lki_credentials_peek(lki_credentials_chain *chain, const lki_credentials **out) {
  lki_lock(chain->env, chain->synced.lock);
  const uint64_t now = lki_wall_ns(chain->env);
  const bool good = !chain->synced.renewing && usable_locked(chain, now) && now < chain->synced.current->renew_wall_ns;
  if (good) *out = take_locked(chain);
  lki_unlock(chain->env, chain->synced.lock);
  return good;
}

lake_status lki_credentials_get(lki_credentials_chain *chain, const lki_credentials *rejected,
                                lake_deadline deadline, const lki_credentials **out, lake_error *err) {
  const lki_credentials *got = NULL;
  lake_error why = LAKE_ERROR_INIT;
  lki_lock(chain->env, chain->synced.lock);
  /* Whoever comes with an older one than the current only has to be told of the current one. */
  bool mine =
      rejected != NULL && chain->synced.current != NULL && rejected == &chain->synced.current->credentials;
  if (mine) chain->synced.current->rejected = true;
  lake_status s = get_locked(chain, deadline, &got, &why);
  lki_unlock(chain->env, chain->synced.lock);
  if (s != LAKE_OK) lki_error_copy(err, &why);
  if (s == LAKE_OK && rejected != NULL && same(got, rejected)) {
    s = lki_fail(err, LAKE_DENIED,
                 "the store refuses the credentials from %s, which gives the same ones again; renew them",
                 got->source);
    lki_credentials_release(chain, got);
    return s;
  }
  if (s == LAKE_OK) *out = got;
  return s;
}

/* ---- texts ---- */

#define TELLTALE_BYTES 8 /* of a secret that is longer: from so many on a text is taken to repeat it */

static void blot_one(char *text, const char *secret, size_t bytes) {
  size_t least = bytes < TELLTALE_BYTES ? bytes : TELLTALE_BYTES;
  if (bytes == 0) return;
  for (char *at = text; *at != 0; at++) {
    size_t n = 0;
    while (n < bytes && at[n] == secret[n]) n++;
    if (n >= least) memset(at, '*', n);
  }
}

void lki_credentials_blot(const lki_credentials *credentials, char *text) {
  if (credentials == NULL) return;
  const char *const secrets[] = {credentials->secret, credentials->session, credentials->bearer,
                                 credentials->sas};
  for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++)
    if (secrets[i] != NULL) blot_one(text, secrets[i], strlen(secrets[i]));
  /* Of a shared access signature this is what nobody may know, wherever it stands among its fields. */
  const char *sig = credentials->sas != NULL ? strstr(credentials->sas, "sig=") : NULL;
  if (sig != NULL) blot_one(text, sig + 4, strcspn(sig + 4, "&"));
}
