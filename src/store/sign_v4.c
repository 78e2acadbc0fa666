/* Signatures of version 4, of Amazon and of Google, which are one algorithm with names exchanged ("Signature Version 4
 * signing process", "V4 signing process"). The secret itself is used once a day: the day's key is kept, under the hash
 * of all it was made from, and is wiped when it is replaced. Only the day key is shared between threads. */
#include "base/env.h"
#include "base/error.h"
#include "store/canonical.h"
#include "store/digest.h"
#include "store/sign.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CANONICAL_BYTES_MAX ((size_t)256 * 1024)
#define SECRET_BYTES_MAX 1024
#define SCOPE_BYTES_MAX 200

const lki_v4_family lki_v4_aws = {"AWS4-HMAC-SHA256", "AWS4", "s3", "aws4_request", "x-amz-", true};
const lki_v4_family lki_v4_google = {"GOOG4-HMAC-SHA256", "GOOG4", "storage", "goog4_request", "x-goog-", true};

struct lki_day_key {
  lake_env *env;
  struct {
    lki_mutex *lock;
    bool filled;
    unsigned char made_from[LKI_SHA256_BYTES];
    unsigned char key[LKI_SHA256_BYTES];
  } synced;
};

lki_day_key *lki_day_key_open(lake_env *env) {
  lki_day_key *day = lki_new(env, sizeof *day);
  if (day == NULL) return NULL;
  day->env = env;
  day->synced.lock = lki_mutex_open(env);
  if (day->synced.lock != NULL) return day;
  lki_free(env, day);
  return NULL;
}

void lki_day_key_close(lki_day_key *day) {
  if (day == NULL) return;
  lake_env *env = day->env;
  lki_mutex_close(env, day->synced.lock);
  lki_wipe(day, sizeof *day);
  lki_free(env, day);
}

static lake_bytes text_bytes(const char *text) {
  return (lake_bytes){text, strlen(text)};
}

/* ---- the canonical request ---- */

static bool put_query(lki_writer *w, lki_request *request) {
  lki_pair pairs[LKI_REQUEST_PAIRS_MAX];
  for (size_t i = 0; i < request->query_count; i++) {
    pairs[i].name = lki_percent_encode(&request->arena, request->query[i].name, false);
    pairs[i].value = lki_percent_encode(&request->arena, request->query[i].value, false);
    if (pairs[i].name == NULL || pairs[i].value == NULL) return false;
  }
  lki_pairs_sort(pairs, request->query_count); /* what is sorted is the encoded text */
  for (size_t i = 0; i < request->query_count; i++) {
    if (i > 0) lki_put_text(w, "&");
    lki_put_text(w, pairs[i].name);
    lki_put_text(w, "=");
    lki_put_text(w, pairs[i].value);
  }
  return true;
}

/* Not signed: the signature itself, and what something on the way may add, drop or change. */
static bool is_signed(const char *name) {
  static const char *const not_signed[] = {"authorization", "connection", "expect", "transfer-encoding", "user-agent",
                                           "x-amzn-trace-id"};
  for (size_t i = 0; i < sizeof not_signed / sizeof not_signed[0]; i++)
    if (strcmp(name, not_signed[i]) == 0) return false;
  return true;
}

static size_t signed_pairs(const lki_request *request, lki_pair pairs[LKI_REQUEST_PAIRS_MAX + 1]) {
  size_t count = 0;
  pairs[count++] = (lki_pair){"host", request->host};
  for (size_t i = 0; i < request->header_count; i++) {
    if (strcmp(request->headers[i].name, "host") == 0) pairs[0].value = request->headers[i].value;
    else if (is_signed(request->headers[i].name)) pairs[count++] = request->headers[i];
  }
  lki_pairs_sort(pairs, count);
  return count;
}

bool lki_v4_canonical(lki_request *request, const char *payload, const char **canonical, const char **signed_headers) {
  lki_pair pairs[LKI_REQUEST_PAIRS_MAX + 1];
  lki_arena *arena = &request->arena;
  lake_buffer text, names;
  lki_writer w, n;
  lki_buffer_init(&text, arena->env, CANONICAL_BYTES_MAX);
  lki_buffer_init(&names, arena->env, CANONICAL_BYTES_MAX);
  lki_writer_init(&w, &text);
  lki_writer_init(&n, &names);
  const char *path = lki_percent_encode(arena, request->path, true);
  bool ok = path != NULL;
  if (!ok) goto done;
  lki_put_text(&w, request->method);
  lki_put_text(&w, "\n");
  lki_put_text(&w, path);
  lki_put_text(&w, "\n");
  ok = put_query(&w, request);
  if (!ok) goto done;
  lki_put_text(&w, "\n");
  const size_t count = signed_pairs(request, pairs);
  for (size_t i = 0; i < count; i++) {
    lki_put_text(&w, pairs[i].name);
    lki_put_text(&w, ":");
    lki_put_folded(&w, pairs[i].value);
    lki_put_text(&w, "\n");
    if (i > 0) lki_put_text(&n, ";");
    lki_put_text(&n, pairs[i].name);
  }
  const char *names_text = lki_written(&n, arena);
  ok = names_text != NULL;
  if (!ok) goto done;
  lki_put_text(&w, "\n");
  lki_put_text(&w, names_text);
  lki_put_text(&w, "\n");
  lki_put_text(&w, payload);
  const char *whole = lki_written(&w, arena);
  ok = whole != NULL;
  if (!ok) goto done;
  *canonical = whole;
  *signed_headers = names_text;
done:
  lki_buffer_free(&names);
  lki_buffer_free(&text);
  return ok;
}

/* ---- keys ---- */

typedef struct scope {
  char stamp[20]; /* 20130524T000000Z */
  char date[12];  /* 20130524 */
  char text[SCOPE_BYTES_MAX]; /* date/region/service/terminator */
} scope;

static bool scope_fill(scope *s, const lki_v4_family *family, const char *region, int64_t wall_s) {
  const time_t at = (time_t)wall_s;
  struct tm utc;
  if (wall_s < 0 || gmtime_r(&at, &utc) == NULL || utc.tm_year > 9999 - 1900) return false;
  if (strftime(s->stamp, sizeof s->stamp, "%Y%m%dT%H%M%SZ", &utc) == 0) return false;
  memcpy(s->date, s->stamp, 8);
  s->date[8] = 0;
  const int bytes = snprintf(s->text, sizeof s->text, "%s/%s/%s/%s", s->date, region, family->service, family->terminator);
  return bytes > 0 && (size_t)bytes < sizeof s->text;
}

static bool make_key(const lki_v4_family *family, const char *secret, const char *region, const scope *s,
                     unsigned char key[LKI_SHA256_BYTES]) {
  char first[SECRET_BYTES_MAX + 16];
  const int bytes = snprintf(first, sizeof first, "%s%s", family->secret_prefix, secret);
  const lake_bytes link = {key, LKI_SHA256_BYTES};
  unsigned char next[LKI_SHA256_BYTES];
  const char *const steps[] = {region, family->service, family->terminator};
  bool ok = bytes > 0 && (size_t)bytes < sizeof first &&
            lki_hmac_sha256((lake_bytes){first, (size_t)bytes}, text_bytes(s->date), key);
  for (size_t i = 0; ok && i < 3; i++) {
    ok = lki_hmac_sha256(link, text_bytes(steps[i]), next);
    memcpy(key, next, sizeof next);
  }
  lki_wipe(first, sizeof first);
  lki_wipe(next, sizeof next);
  return ok;
}

/* The hash of all that the day's key depends on; the secret is not kept. */
static bool hash_origin(const lki_v4_family *family, const char *secret, const scope *s,
                        unsigned char out[LKI_SHA256_BYTES]) {
  char text[SECRET_BYTES_MAX + SCOPE_BYTES_MAX + 16];
  const int bytes = snprintf(text, sizeof text, "%s\n%s\n%s", family->secret_prefix, s->text, secret);
  const bool ok = bytes > 0 && (size_t)bytes < sizeof text && lki_sha256((lake_bytes){text, (size_t)bytes}, out);
  lki_wipe(text, sizeof text);
  return ok;
}

static bool day_key(lki_day_key *day, const lki_v4_family *family, const char *secret, const char *region,
                    const scope *s, unsigned char key[LKI_SHA256_BYTES]) {
  if (day == NULL) return make_key(family, secret, region, s, key);
  unsigned char made_from[LKI_SHA256_BYTES];
  if (!hash_origin(family, secret, s, made_from)) return false;
  lki_lock(day->env, day->synced.lock);
  const bool found = day->synced.filled && memcmp(day->synced.made_from, made_from, sizeof made_from) == 0;
  if (found) memcpy(key, day->synced.key, sizeof day->synced.key);
  lki_unlock(day->env, day->synced.lock);
  bool ok = found || make_key(family, secret, region, s, key);
  if (ok && !found) {
    lki_lock(day->env, day->synced.lock);
    memcpy(day->synced.made_from, made_from, sizeof made_from);
    memcpy(day->synced.key, key, sizeof day->synced.key);
    day->synced.filled = true;
    lki_unlock(day->env, day->synced.lock);
  }
  return ok;
}

/* ---- signing ---- */

static bool hash_text(lake_bytes data, char hex[2 * LKI_SHA256_BYTES + 1]) {
  unsigned char hash[LKI_SHA256_BYTES];
  if (!lki_sha256(data, hash)) return false;
  lki_hex(hash, sizeof hash, hex);
  return true;
}

/* value NULL: an earlier signature's header goes. */
static void set(lki_request *request, const lki_v4_family *family, const char *name, const char *value) {
  char full[64];
  snprintf(full, sizeof full, "%s%s", family->header_prefix, name);
  if (value != NULL) lki_request_header(request, full, value);
  else lki_request_header_drop(request, full);
}

static bool sign_text(const char *stamp_line, const char *canonical, const unsigned char key[LKI_SHA256_BYTES],
                      char signature[2 * LKI_SHA256_BYTES + 1]) {
  char hash[2 * LKI_SHA256_BYTES + 1], text[SCOPE_BYTES_MAX + 160];
  unsigned char mac[LKI_SHA256_BYTES];
  if (!hash_text(text_bytes(canonical), hash)) return false;
  const int bytes = snprintf(text, sizeof text, "%s\n%s", stamp_line, hash);
  if (bytes < 0 || (size_t)bytes >= sizeof text) return false;
  if (!lki_hmac_sha256((lake_bytes){key, LKI_SHA256_BYTES}, (lake_bytes){text, (size_t)bytes}, mac)) return false;
  lki_hex(mac, sizeof mac, signature);
  return true;
}

static bool authorize(lki_request *request, const lki_v4_family *family, const char *key_id, const scope *s,
                      const char *canonical, const char *names, const unsigned char key[LKI_SHA256_BYTES]) {
  char signature[2 * LKI_SHA256_BYTES + 1], head[SCOPE_BYTES_MAX + 64];
  snprintf(head, sizeof head, "%s\n%s\n%s", family->algorithm, s->stamp, s->text);
  if (!sign_text(head, canonical, key, signature)) return false;
  const size_t room = strlen(key_id) + strlen(names) + SCOPE_BYTES_MAX + 200;
  char *line = lki_arena_alloc(&request->arena, room);
  if (line == NULL) return false;
  snprintf(line, room, "%s Credential=%s/%s, SignedHeaders=%s, Signature=%s", family->algorithm, key_id, s->text, names,
           signature);
  lki_request_header(request, "authorization", line);
  return true;
}

lake_status lki_sign_v4(lki_request *request, const lki_v4_family *family, const lki_credentials *credentials,
                        const char *region, int64_t wall_s, bool unsigned_payload, lki_day_key *day, lake_error *err) {
  if (credentials->anonymous) return LAKE_OK;
  if (credentials->key_id == NULL || credentials->secret == NULL)
    return lki_fail(err, LAKE_INVALID, "signing a request: the credentials have no access key");
  if (strlen(credentials->secret) > SECRET_BYTES_MAX || strlen(credentials->key_id) > SECRET_BYTES_MAX)
    return lki_fail(err, LAKE_INVALID, "signing a request: the access key is longer than %d bytes", SECRET_BYTES_MAX);
  if (unsigned_payload && (request->origin == NULL || strncmp(request->origin, "https://", 8) != 0))
    return lki_fail(err, LAKE_INVALID, "signing a request: a body may go unsigned over https only");
  scope s;
  if (!scope_fill(&s, family, region, wall_s))
    return lki_fail(err, LAKE_INVALID, "signing a request: region \"%.60s\" is too long or the time out of range", region);

  char payload[2 * LKI_SHA256_BYTES + 1] = "UNSIGNED-PAYLOAD";
  if (!unsigned_payload && !hash_text(request->body, payload))
    return lki_fail(err, LAKE_INTERNAL, "signing a request: SHA-256 is not to be had from OpenSSL");
  set(request, family, "date", s.stamp);
  set(request, family, "content-sha256", family->payload_header ? payload : NULL);
  set(request, family, "security-token", credentials->session);
  if (request->failed) return LAKE_OK; /* told by lki_request_finish */

  unsigned char key[LKI_SHA256_BYTES];
  const char *canonical = NULL, *names = NULL;
  lake_status status = LAKE_OK;
  if (!day_key(day, family, credentials->secret, region, &s, key))
    status = lki_fail(err, LAKE_INTERNAL, "signing a request: HMAC-SHA-256 is not to be had from OpenSSL");
  else if (!lki_v4_canonical(request, payload, &canonical, &names) ||
           !authorize(request, family, credentials->key_id, &s, canonical, names, key))
    status = lki_fail(err, LAKE_NOMEM, "signing a request: out of memory");
  lki_wipe(key, sizeof key);
  return status;
}
