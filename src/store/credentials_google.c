/* Google's sources: HMAC keys, the files that Google's tools write (a service account's key, a user's refresh
 * token), and the metadata server of its machines. No state. */
#include "base/env.h"
#include "base/error.h"
#include "base/json.h"
#include "base/read_file.h"
#include "store/digest.h"
#include "store/sign.h"
#include "store/source.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TOKEN_MS 20000
#define METADATA_MS 3000
#define SCOPE "https://www.googleapis.com/auth/devstorage.read_write"
#define TOKEN_URL "https://oauth2.googleapis.com/token"
#define LIFE_S 3600
#define SKEW_S 60 /* from here on a refused assertion may be the clock's fault */

static lake_status out_of_memory(lake_error *err) {
  return lki_fail(err, LAKE_NOMEM, "credentials: out of memory");
}

/* ---- keys ---- */

static lake_status ask_hmac(lki_asking *asking, lake_error *err) {
  const char *key_id = lki_variable("GOOGLE_ACCESS_KEY_ID"),
             *secret = lki_variable("GOOGLE_SECRET_ACCESS_KEY");
  if (key_id == NULL && secret == NULL) return LAKE_NOTFOUND;
  if (key_id == NULL || secret == NULL)
    return lki_fail(err, LAKE_INVALID,
                    "of GOOGLE_ACCESS_KEY_ID and GOOGLE_SECRET_ACCESS_KEY only one is set");
  asking->found.key_id = lki_keep(asking, key_id);
  asking->found.secret = lki_keep(asking, secret);
  return lki_source_done(asking, "GOOGLE_ACCESS_KEY_ID in the environment", err);
}

static lake_status ask_boto(lki_asking *asking, lake_error *err) {
  static const char section[] = "Credentials";
  const char *path = lki_variable("BOTO_CONFIG"), *key_id = NULL, *secret = NULL;
  if (path == NULL) path = lki_home_path(asking->arena, ".boto");
  if (path == NULL) return LAKE_NOTFOUND;
  lake_status s = lki_profile_get(asking->arena, path, section, "gs_access_key_id", &key_id, err);
  if (s == LAKE_OK) s = lki_profile_get(asking->arena, path, section, "gs_secret_access_key", &secret, err);
  if (s != LAKE_OK) return s;
  if (key_id == NULL || secret == NULL) return LAKE_NOTFOUND; /* the file is mostly about other things */
  asking->found.key_id = key_id;
  asking->found.secret = secret;
  const char *who =
      lki_arena_format(asking->arena, "%.200s [Credentials]", lki_shown_path(asking->arena, path));
  return who != NULL ? lki_source_done(asking, who, err) : out_of_memory(err);
}

/* An emulator wants no credentials, and must not be shown any. */
static lake_status ask_emulator(lki_asking *asking, lake_error *err) {
  if (!asking->settings->emulator) return LAKE_NOTFOUND;
  asking->found.anonymous = true;
  return lki_source_done(asking, "STORAGE_EMULATOR_HOST needs none", err);
}

/* ---- files ---- */

/* A text of the file that must be there; NULL: it is not, and *s says so. */
static const char *need(const lki_json *json, const char *name, const char *who, lake_status *s,
                        lake_error *err) {
  const char *text = lki_json_string(lki_json_get(json, name));
  if (text != NULL && *text != 0) return text;
  if (*s == LAKE_OK) *s = lki_fail(err, LAKE_INVALID, "%s: the file has no \"%s\"", who, name);
  return NULL;
}

static lake_status post_form(lki_asking *asking, const char *who, const char *url, const lake_buffer *form,
                             lki_token_reply *reply, lake_error *err) {
  static const lki_http_header headers[] = {{"Content-Type", "application/x-www-form-urlencoded"}};
  lki_token_request request = {.who = who,
                               .method = "POST",
                               .url = url,
                               .headers = headers,
                               .header_count = 1,
                               .body = (const char *)form->data,
                               .timeout_ms = TOKEN_MS};
  return lki_token_ask(asking, &request, reply, err);
}

static void form_free(lake_buffer *form) {
  if (form->data != NULL) lki_wipe(form->data, form->bytes);
  lki_buffer_free(form);
}

/* What the assertion says of itself: who asks, for what, whom, and when. */
static lake_status print_claims(const char *email, const char *url, int64_t now_s, lake_buffer *out,
                                lake_error *err) {
  lki_json *json = lki_json_new_object();
  bool good = lki_json_add_string(json, "iss", email) != NULL &&
              lki_json_add_string(json, "scope", SCOPE) != NULL &&
              lki_json_add_string(json, "aud", url) != NULL &&
              lki_json_add_number(json, "iat", (double)now_s) != NULL &&
              lki_json_add_number(json, "exp", (double)(now_s + LIFE_S)) != NULL;
  lake_status s = good ? lki_json_print(json, false, out, err) : out_of_memory(err);
  if (s == LAKE_OK) s = lki_buffer_append(out, "", 1, err);
  lki_json_free(json);
  return s;
}

typedef struct account {
  const char *who, *email, *pem, *key_id, *url;
} account;

/* Asks with an assertion of this time. */
static lake_status assert_once(lki_asking *asking, const account *a, int64_t now_s, lki_token_reply *reply,
                               lake_error *err) {
  const char *assertion = NULL;
  lake_buffer claims, form;
  lki_buffer_init(&claims, asking->env, LKI_TOKEN_BYTES_MAX);
  lki_buffer_init(&form, asking->env, 4 * LKI_TOKEN_BYTES_MAX);
  lake_status s = print_claims(a->email, a->url, now_s, &claims, err);
  if (s == LAKE_OK) {
    s = lki_sign_jwt(asking->arena, a->pem, a->key_id, (const char *)claims.data, &assertion, err);
    if (s != LAKE_OK) lki_error_prefix(err, "%s", a->who);
  }
  if (s == LAKE_OK)
    s = lki_form_add(&form, asking->arena, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer", err);
  if (s == LAKE_OK) s = lki_form_add(&form, asking->arena, "assertion", assertion, err);
  if (s == LAKE_OK) s = post_form(asking, a->who, a->url, &form, reply, err);
  form_free(&form);
  lki_buffer_free(&claims);
  return s;
}

static lake_status ask_service_account(lki_asking *asking, const char *who, const lki_json *json,
                                       lake_error *err) {
  lake_status s = LAKE_OK;
  lki_token_reply reply;
  account a = {.who = who};
  a.email = need(json, "client_email", who, &s, err);
  a.pem = need(json, "private_key", who, &s, err);
  a.url = lki_json_string(lki_json_get(json, "token_uri"));
  a.key_id = lki_json_string(lki_json_get(json, "private_key_id"));
  if (a.url == NULL) a.url = TOKEN_URL;
  if (s != LAKE_OK) return s;
  int64_t now_s = (int64_t)(lki_wall_ns(asking->env) / 1000000000u);
  s = assert_once(asking, &a, now_s, &reply, err);
  if (s == LAKE_OK && reply.status >= 400 && reply.status < 404 && reply.date_s != 0 &&
      llabs((long long)(reply.date_s - now_s)) > SKEW_S) {
    /* The assertion is good for an hour by their clock, not by ours. */
    now_s = reply.date_s;
    lki_token_reply_free(&reply);
    s = assert_once(asking, &a, now_s, &reply, err);
  }
  if (s != LAKE_OK) return s;
  s = lki_token_take(asking, who, &reply, err);
  lki_token_reply_free(&reply);
  return s;
}

static lake_status ask_user(lki_asking *asking, const char *who, const lki_json *json, lake_error *err) {
  lake_status s = LAKE_OK;
  lki_token_reply reply;
  lake_buffer form;
  const char *url = lki_json_string(lki_json_get(json, "token_uri"));
  const char *id = need(json, "client_id", who, &s, err), *secret = need(json, "client_secret", who, &s, err);
  const char *token = need(json, "refresh_token", who, &s, err);
  lki_buffer_init(&form, asking->env, 4 * LKI_TOKEN_BYTES_MAX);
  if (s == LAKE_OK) s = lki_form_add(&form, asking->arena, "grant_type", "refresh_token", err);
  if (s == LAKE_OK) s = lki_form_add(&form, asking->arena, "client_id", id, err);
  if (s == LAKE_OK) s = lki_form_add(&form, asking->arena, "client_secret", secret, err);
  if (s == LAKE_OK) s = lki_form_add(&form, asking->arena, "refresh_token", token, err);
  if (s == LAKE_OK) {
    s = post_form(asking, who, url != NULL ? url : TOKEN_URL, &form, &reply, err);
    if (s == LAKE_OK) {
      s = lki_token_take(asking, who, &reply, err);
      lki_token_reply_free(&reply);
    }
  }
  form_free(&form);
  return s;
}

static lake_status ask_file(lki_asking *asking, const char *who, const char *path, lake_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  lki_json *json = NULL;
  lake_status s = lki_read_file(asking->env, path, LKI_TOKEN_BYTES_MAX, &text, &bytes, err);
  if (s != LAKE_OK) {
    lki_error_prefix(err, "%s", who);
    return s;
  }
  lake_bytes view = {text, bytes};
  s = lki_json_parse(view, who, &json, err);
  lki_wipe(text, bytes);
  lki_free(asking->env, text);
  if (s != LAKE_OK) return s;
  const char *type = need(json, "type", who, &s, err);
  if (s == LAKE_OK && strcmp(type, "service_account") == 0)
    s = ask_service_account(asking, who, json, err);
  else if (s == LAKE_OK && strcmp(type, "authorized_user") == 0)
    s = ask_user(asking, who, json, err);
  else if (s == LAKE_OK)
    s = lki_fail(err, LAKE_UNSUPPORTED,
                 "%s: of its type we cannot make tokens; use a service account's key file", who);
  lki_json_free(json);
  return s;
}

static lake_status ask_named_file(lki_asking *asking, lake_error *err) {
  const char *path = lki_variable("GOOGLE_APPLICATION_CREDENTIALS");
  if (path == NULL) return LAKE_NOTFOUND;
  lake_error why = LAKE_ERROR_INIT;
  lake_status s = ask_file(asking, "GOOGLE_APPLICATION_CREDENTIALS", path, &why);
  if (s == LAKE_OK) return s;
  lki_error_copy(err, &why);
  return s == LAKE_NOTFOUND ? lki_fail(err, LAKE_DENIED, "%s", why.text) : s;
}

/* The file that `gcloud auth application-default login` writes. */
static lake_status ask_default_file(lki_asking *asking, lake_error *err) {
  static const char name[] = "application_default_credentials.json";
  const char *folder = lki_variable("CLOUDSDK_CONFIG");
  const char *path =
      folder != NULL ? lki_arena_format(asking->arena, "%s/%s", folder, name)
                     : lki_home_path(asking->arena, ".config/gcloud/application_default_credentials.json");
  if (path == NULL) return LAKE_NOTFOUND;
  lake_error why = LAKE_ERROR_INIT;
  lake_status s = ask_file(asking, lki_shown_path(asking->arena, path), path, &why);
  if (s != LAKE_OK && s != LAKE_NOTFOUND) lki_error_copy(err, &why);
  return s;
}

/* ---- the machine ---- */

static lake_status ask_machine(lki_asking *asking, lake_error *err) {
  static const char who[] = "this machine's account";
  static const lki_http_header headers[] = {{"Metadata-Flavor", "Google"}};
  const char *host = lki_variable("GCE_METADATA_HOST"), *off = lki_variable("NO_GCE_CHECK"), *base = NULL;
  lake_error why = LAKE_ERROR_INIT;
  lki_token_reply reply;
  lki_token_request request = {
      .who = who, .method = "GET", .headers = headers, .header_count = 1, .timeout_ms = METADATA_MS};
  asking->switched_off = off != NULL && strcasecmp(off, "true") == 0;
  if (asking->switched_off) return LAKE_NOTFOUND;
  base = lki_arena_format(asking->arena, "http://%.200s", host != NULL ? host : "metadata.google.internal");
  if (base == NULL) return out_of_memory(err);
  lake_status s = lki_check_endpoint(asking->arena, "GCE_METADATA_HOST", base, false, &base, err);
  if (s != LAKE_OK) return s;
  request.url = lki_arena_format(
      asking->arena, "%s/computeMetadata/v1/instance/service-accounts/default/token?scopes=" SCOPE, base);
  if (request.url == NULL) return out_of_memory(err);
  s = lki_token_ask(asking, &request, &reply, &why);
  if (host == NULL && (s == LAKE_UNAVAILABLE || s == LAKE_TIMEOUT))
    return LAKE_NOTFOUND; /* not one of Google's */
  if (s != LAKE_OK) {
    lki_error_copy(err, &why);
    return s;
  }
  s = reply.status == 404 ? LAKE_NOTFOUND
                          : lki_token_take(asking, who, &reply, err); /* 404: it has no account */
  lki_token_reply_free(&reply);
  return s;
}

const lki_source lki_sources_gcs[] = {
    {"GOOGLE_ACCESS_KEY_ID", ask_hmac},
    {"STORAGE_EMULATOR_HOST", ask_emulator},
    {"GOOGLE_APPLICATION_CREDENTIALS", ask_named_file},
    {"gcloud's default file", ask_default_file},
    {"~/.boto", ask_boto},
    {"this machine's account", ask_machine},
    {NULL, NULL},
};
