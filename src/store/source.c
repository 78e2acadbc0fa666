/* What the sources of credentials share: reading files with secrets, asking token servers, checking what
 * came. Secrets that pass through are wiped where the memory is ours. No state. */
#include "store/source.h"
#include "base/env.h"
#include "base/error.h"
#include "base/json.h"
#include "base/read_file.h"
#include "store/digest.h"
#include "store/request.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define SECOND ((uint64_t)1000000000)
#define UNKNOWN_LIFE_S 600 /* of a token whose reply does not say when it ends */

const char *lki_keep(lki_asking *asking, const char *text) {
  return text != NULL ? lki_arena_strndup(asking->arena, text, strlen(text)) : NULL;
}

bool lki_token_valid(const char *text) {
  if (*text == 0) return false;
  for (; *text != 0; text++)
    if ((unsigned char)*text <= 0x20 || (unsigned char)*text >= 0x7f) return false;
  return true;
}

lake_status lki_source_done(lki_asking *asking, const char *who, lake_error *err) {
  const lki_credentials *c = &asking->found;
  const char *const texts[] = {c->key_id, c->secret, c->session, c->bearer, c->sas};
  asking->found.source = lki_keep(asking, who);
  if (asking->found.source == NULL || (c->key_id == NULL) != (c->secret == NULL) ||
      (c->secret == NULL && c->bearer == NULL && c->sas == NULL && !c->anonymous))
    return lki_fail(err, LAKE_NOMEM, "credentials: out of memory");
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    if (texts[i] != NULL && !lki_token_valid(texts[i]))
      return lki_fail(err, LAKE_INVALID,
                      "%s: a key or token is empty, or has a blank or a control character in it", who);
  if ((c->bearer != NULL || c->sas != NULL) && !lki_url_is_safe(asking->settings->endpoint))
    return lki_fail(err, LAKE_INVALID,
                    "%s: a token would go over the network in the clear; the endpoint must be https://", who);
  return LAKE_OK;
}

lake_status lki_secret_file(lki_asking *asking, const char *who, const char *path, const char **out,
                            lake_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  lake_status s = lki_read_file(asking->env, path, LKI_TOKEN_BYTES_MAX, &text, &bytes, err);
  if (s != LAKE_OK) {
    lki_error_prefix(err, "%s", who);
    if (s == LAKE_NOTFOUND && err != NULL)
      err->status = LAKE_DENIED; /* NOTFOUND would mean: not configured */
    return s == LAKE_NOTFOUND ? LAKE_DENIED : s;
  }
  const char *at = text + strspn(text, " \t\r\n");
  size_t used = strlen(at);
  while (used > 0 && strchr(" \t\r\n", at[used - 1]) != NULL) used--;
  char *copy = lki_arena_strndup(asking->arena, at, used);
  lki_wipe(text, bytes);
  lki_free(asking->env, text);
  if (copy == NULL) return lki_fail(err, LAKE_NOMEM, "credentials: out of memory");
  if (!lki_token_valid(copy))
    return lki_fail(err, LAKE_INVALID, "%s: file \"%.200s\" does not hold one token", who, path);
  *out = copy;
  return LAKE_OK;
}

/* Two or four digits. */
static bool digits(const char **at, int count, int *out) {
  int value = 0;
  for (int i = 0; i < count; i++, (*at)++) {
    if (**at < '0' || **at > '9') return false;
    value = value * 10 + (**at - '0');
  }
  *out = value;
  return true;
}

bool lki_parse_time(const char *text, int64_t *out) {
  struct tm tm = {0};
  int hours = 0, minutes = 0, sign = 0;
  const char *at = text;
  if (!digits(&at, 4, &tm.tm_year) || *at++ != '-' || !digits(&at, 2, &tm.tm_mon) || *at++ != '-' ||
      !digits(&at, 2, &tm.tm_mday) || (*at != 'T' && *at != ' '))
    return false;
  at++;
  if (!digits(&at, 2, &tm.tm_hour) || *at++ != ':' || !digits(&at, 2, &tm.tm_min) || *at++ != ':' ||
      !digits(&at, 2, &tm.tm_sec))
    return false;
  if (*at == '.') at += 1 + strspn(at + 1, "0123456789");
  if (*at == '+' || *at == '-') {
    sign = *at++ == '+' ? 1 : -1;
    if (!digits(&at, 2, &hours)) return false;
    if (*at == ':') at++;
    if (!digits(&at, 2, &minutes)) return false;
  } else if (*at++ != 'Z') {
    return false;
  }
  const int day = tm.tm_mday, second = tm.tm_sec;
  bool good = *at == 0 && tm.tm_year >= 1970 && tm.tm_mon >= 1 && tm.tm_mon <= 12 && day >= 1 && day <= 31 &&
              tm.tm_hour <= 23 && tm.tm_min <= 59 && second <= 60 && hours <= 23 && minutes <= 59;
  if (!good) return false;
  tm.tm_year -= 1900;
  tm.tm_mon -= 1;
  tm.tm_sec = 0;
  const int64_t minute_s = (int64_t)timegm(&tm);
  if (tm.tm_mday != day) return false; /* the month is shorter */
  *out = minute_s + second - sign * (hours * 3600 + minutes * 60);
  return true;
}

uint64_t lki_expires_wall_ns(lake_env *env, int64_t expires_s, int64_t now_s) {
  const uint64_t last_ns = UINT64_MAX - 1; /* the year 2554; one more would mean: never */
  if (now_s < 0) now_s = 0;
  uint64_t from_ns = now_s != 0 ? lki_wall_ns(env) : 0;
  /* By the server's own clock it has so much left; ours may be off by hours. */
  if (expires_s <= now_s) return 0;
  uint64_t left_s = (uint64_t)(expires_s - now_s);
  return left_s < (last_ns - from_ns) / SECOND ? from_ns + left_s * SECOND : last_ns;
}

bool lki_url_is_safe(const char *url) {
  /* What a cloud's machines answer to inside of a machine or of its host, where there is no https. */
  static const char *const hosts[] = {"localhost",      "[::1]",          "169.254.169.254",
                                      "169.254.170.2",  "169.254.170.23", "[fd00:ec2::254]",
                                      "[fd00:ec2::23]", "metadata",       "metadata.google.internal"};
  if (strncasecmp(url, "https://", 8) == 0) return true;
  if (strncasecmp(url, "http://", 7) != 0) return false;
  const char *host = url + 7;
  size_t bytes = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
  for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
    if (strlen(hosts[i]) == bytes && strncasecmp(host, hosts[i], bytes) == 0) return true;
  return strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == bytes;
}

lake_status lki_token_ask(lki_asking *asking, const lki_token_request *request, lki_token_reply *reply,
                          lake_error *err) {
  lki_http_reply http;
  lki_http_request r = {.method = request->method,
                        .url = request->url,
                        .headers = request->headers,
                        .header_count = request->header_count,
                        .sink = &reply->body,
                        .expect_bytes = LKI_TOKEN_BYTES_MAX,
                        .deadline = asking->deadline};
  memset(reply, 0, sizeof *reply);
  memset(&http, 0, sizeof http);
  lki_buffer_init(&reply->body, asking->env, LKI_TOKEN_BYTES_MAX);
  if (!lki_url_is_safe(request->url))
    return lki_fail(err, LAKE_INVALID, "%s: \"%.100s\": tokens are asked for over https:// only",
                    request->who, request->url);
  lake_deadline limit = lake_deadline_after_ms(asking->env, request->timeout_ms);
  if (limit.at_ns < r.deadline.at_ns) r.deadline = limit;
  if (request->body != NULL) {
    r.body.data = request->body;
    r.body.bytes = strlen(request->body);
  }
  lake_status s = lki_http_do(asking->http, &r, &http, err);
  if (s == LAKE_CORRUPT) s = lki_fail(err, LAKE_UNAVAILABLE, "a reply that is too long");
  if (s == LAKE_TIMEOUT && !lki_deadline_passed(asking->env, asking->deadline))
    s = lki_fail(err, LAKE_UNAVAILABLE, "no answer within %" PRIu64 " ms", request->timeout_ms);
  if (s != LAKE_OK) {
    lki_error_prefix(err, "%s", request->who);
    lki_token_reply_free(reply);
    return s;
  }
  reply->status = http.status;
  reply->date_s = http.date_s;
  memcpy(reply->text, http.text, sizeof reply->text);
  reply->text[sizeof reply->text - 1] = 0;
  lki_wipe(http.text, sizeof http.text);
  return LAKE_OK;
}

void lki_token_reply_free(lki_token_reply *reply) {
  if (reply->body.data != NULL) lki_wipe(reply->body.data, reply->body.bytes);
  lki_wipe(reply->text, sizeof reply->text);
  lki_buffer_free(&reply->body);
}

/* ---- replies ---- */

/* Copies what looks like a code: anything else might repeat a secret. */
static void take_code(const char *text, size_t bytes, char dst[64]) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  if (bytes == 0 || bytes > 63 || strspn(text, plain) < bytes) return;
  memcpy(dst, text, bytes);
  dst[bytes] = 0;
}

/* The code of an error: of OAuth, of AWS in JSON or in XML, of Azure within a description. */
static void find_code(const char *text, char dst[64]) {
  static const char *const names[] = {"error", "Code", "code"};
  lake_bytes bytes = {text, strlen(text)};
  lki_json *json = NULL;
  const char *azure = strstr(text, "AADSTS");
  const char *xml = strstr(text, "<Code>");
  dst[0] = 0;
  if (azure != NULL) {
    take_code(azure, 6 + strspn(azure + 6, "0123456789"), dst);
  } else if (xml != NULL) {
    take_code(xml + 6, strcspn(xml + 6, "<"), dst);
  } else if (lki_json_parse(bytes, "reply", &json, NULL) == LAKE_OK) {
    for (size_t i = 0; i < sizeof names / sizeof names[0] && dst[0] == 0; i++) {
      const char *code = lki_json_string(lki_json_get(json, names[i]));
      if (code != NULL) take_code(code, strlen(code), dst);
    }
  }
  lki_json_free(json);
}

lake_status lki_token_refused(const char *who, const lki_token_reply *reply, lake_error *err) {
  char code[64];
  find_code(reply->text, code);
  bool busy = reply->status == 429 || reply->status >= 500;
  return lki_fail(err, busy ? LAKE_UNAVAILABLE : LAKE_DENIED, "%s: refused with status %d%s%s", who,
                  reply->status, code[0] != 0 ? ", " : "", code);
}

lake_status lki_token_take(lki_asking *asking, const char *who, const lki_token_reply *reply,
                           lake_error *err) {
  lki_json *json = NULL;
  uint64_t life_s = 0, ends_s = 0;
  lake_status s = LAKE_OK;
  if (reply->status != 200) return lki_token_refused(who, reply, err);
  if (lki_json_parse(lki_buffer_view(&reply->body), who, &json, err) != LAKE_OK)
    return lki_fail(err, LAKE_UNAVAILABLE, "%s: the reply is not JSON", who);
  const char *token = lki_json_string(lki_json_get(json, "access_token"));
  if (token == NULL || !lki_token_valid(token)) {
    s = lki_fail(err, LAKE_UNAVAILABLE, "%s: the reply holds no access_token", who);
  } else {
    asking->found.bearer = lki_keep(asking, token);
    if (lki_json_u64(lki_json_get(json, "expires_in"), &life_s) && life_s < (uint64_t)INT32_MAX)
      asking->found.expires_wall_ns = lki_wall_ns(asking->env) + life_s * SECOND;
    else if (lki_json_u64(lki_json_get(json, "expires_on"), &ends_s) && ends_s < (uint64_t)INT64_MAX)
      asking->found.expires_wall_ns = lki_expires_wall_ns(asking->env, (int64_t)ends_s, reply->date_s);
    else
      asking->found.expires_wall_ns = lki_wall_ns(asking->env) + UNKNOWN_LIFE_S * SECOND;
  }
  lki_json_free(json);
  return s == LAKE_OK ? lki_source_done(asking, who, err) : s;
}

lake_status lki_form_add(lake_buffer *form, lki_arena *arena, const char *name, const char *value,
                         lake_error *err) {
  char *encoded = lki_percent_encode(arena, value, false);
  if (encoded == NULL) return lki_fail(err, LAKE_NOMEM, "credentials: out of memory");
  if (form->bytes > 0) form->bytes--; /* the NUL of the last call */
  lake_status s = form->bytes > 0 ? lki_buffer_append(form, "&", 1, err) : LAKE_OK;
  if (s == LAKE_OK) s = lki_buffer_append(form, name, strlen(name), err);
  if (s == LAKE_OK) s = lki_buffer_append(form, "=", 1, err);
  if (s == LAKE_OK) s = lki_buffer_append(form, encoded, strlen(encoded) + 1, err);
  lki_wipe(encoded, strlen(encoded));
  return s;
}
