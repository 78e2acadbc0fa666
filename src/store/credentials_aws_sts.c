/* AWS's token service: keys for a while in exchange for a workload's own token (web identity) or for other
 * keys (a role that a profile names). The token file is read each time. No state. */
#include "base/env.h"
#include "base/error.h"
#include "store/credentials_aws.h"
#include "store/digest.h"
#include "store/sign.h"
#include "store/xml.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STS_MS 20000
#define SKEW_S 60 /* from here on a refused signature may be the clock's fault */

static lake_status out_of_memory(lake_error *err) {
  return lki_fail(err, LAKE_NOMEM, "credentials: out of memory");
}

/* ---- web identity ---- */

typedef struct identity {
  const char *token_file, *role, *session_name;
  const char *who;
} identity;

/* A variable, unless the URL names a profile; else the profile's value. */
static lake_status setting(lki_asking *asking, const char *variable, const char *name, const char **out,
                           lake_error *err) {
  const char *value = asking->settings->profile_in_url ? NULL : lki_variable(variable);
  if (value == NULL) return lki_aws_profile(asking, name, out, err);
  *out = lki_keep(asking, value);
  return *out != NULL ? LAKE_OK : out_of_memory(err);
}

static lake_status find_identity(lki_asking *asking, identity *id, lake_error *err) {
  lake_status s =
      setting(asking, "AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file", &id->token_file, err);
  if (s == LAKE_OK && id->token_file == NULL) return LAKE_NOTFOUND;
  if (s == LAKE_OK) s = setting(asking, "AWS_ROLE_ARN", "role_arn", &id->role, err);
  if (s == LAKE_OK) s = setting(asking, "AWS_ROLE_SESSION_NAME", "role_session_name", &id->session_name, err);
  if (s != LAKE_OK) return s;
  if (id->role == NULL)
    return lki_fail(err, LAKE_INVALID, "web identity: a token file is named, but no role: set AWS_ROLE_ARN");
  if (id->session_name == NULL) id->session_name = "lakestream";
  id->who = lki_arena_format(asking->arena, "web identity for %.200s", id->role);
  return id->who != NULL ? LAKE_OK : out_of_memory(err);
}

static lake_status sts_url(lki_asking *asking, const char **out, lake_error *err) {
  static const char *const variables[] = {"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"};
  const char *region = asking->settings->region;
  for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
    const char *value = lki_variable(variables[i]), *endpoint = NULL;
    if (value == NULL) continue;
    lake_status s = lki_check_endpoint(asking->arena, variables[i], value, true, &endpoint, err);
    if (s == LAKE_OK) *out = lki_arena_format(asking->arena, "%s/", endpoint);
    return s == LAKE_OK && *out == NULL ? out_of_memory(err) : s;
  }
  *out = lki_arena_format(asking->arena, "https://sts.%s.amazonaws.com%s/", region,
                          strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
  return *out != NULL ? LAKE_OK : out_of_memory(err);
}

typedef struct sts_reply {
  lki_asking *asking;
  const char *expires;
} sts_reply;

static bool take_element(void *ctx, const char *path, const char *text) {
  sts_reply *reply = ctx;
  lki_credentials *found = &reply->asking->found;
  const char *leaf = lki_xml_leaf(path);
  const char **dst = strcmp(leaf, "AccessKeyId") == 0       ? &found->key_id
                     : strcmp(leaf, "SecretAccessKey") == 0 ? &found->secret
                     : strcmp(leaf, "SessionToken") == 0    ? &found->session
                     : strcmp(leaf, "Expiration") == 0      ? &reply->expires
                                                            : NULL;
  if (dst == NULL) return true;
  *dst = lki_keep(reply->asking, text);
  return *dst != NULL;
}

static lake_status take_sts(lki_asking *asking, const char *who, const lki_token_reply *reply,
                            lake_error *err) {
  const lki_credentials *found = &asking->found;
  sts_reply taken = {asking, NULL};
  int64_t expires_s = 0;
  if (reply->status != 200) return lki_token_refused(who, reply, err);
  lake_status s = lki_xml_walk(asking->env, lki_buffer_view(&reply->body), who, take_element, &taken, err);
  if (s != LAKE_OK) return s;
  if (found->key_id == NULL || found->secret == NULL || found->session == NULL || taken.expires == NULL ||
      !lki_parse_time(taken.expires, &expires_s))
    return lki_fail(err, LAKE_UNAVAILABLE, "%s: the reply holds no credentials", who);
  asking->found.expires_wall_ns = lki_expires_wall_ns(asking->env, expires_s, reply->date_s);
  return lki_source_done(asking, who, err);
}

/* A form with what every request has; to be freed by form_free. */
static lake_status form_begin(lki_asking *asking, const char *action, const identity *id, lake_buffer *form,
                              lake_error *err) {
  lki_buffer_init(form, asking->env, 4 * LKI_TOKEN_BYTES_MAX);
  lake_status s = lki_form_add(form, asking->arena, "Action", action, err);
  if (s == LAKE_OK) s = lki_form_add(form, asking->arena, "Version", "2011-06-15", err);
  if (s == LAKE_OK) s = lki_form_add(form, asking->arena, "RoleArn", id->role, err);
  return s == LAKE_OK ? lki_form_add(form, asking->arena, "RoleSessionName", id->session_name, err) : s;
}

static void form_free(lake_buffer *form) {
  if (form->data != NULL) lki_wipe(form->data, form->bytes);
  lki_buffer_free(form);
}

lake_status lki_aws_web_identity(lki_asking *asking, lake_error *err) {
  static const lki_http_header headers[] = {{"Content-Type", "application/x-www-form-urlencoded"}};
  identity id = {0};
  const char *token = NULL;
  lki_token_reply reply;
  lki_token_request request = {.method = "POST", .headers = headers, .header_count = 1, .timeout_ms = STS_MS};
  lake_buffer form = {0};
  lake_status s = find_identity(asking, &id, err);
  if (s == LAKE_OK) s = lki_secret_file(asking, id.who, id.token_file, &token, err);
  if (s == LAKE_OK) s = sts_url(asking, &request.url, err);
  if (s != LAKE_OK) return s;
  s = form_begin(asking, "AssumeRoleWithWebIdentity", &id, &form, err);
  if (s == LAKE_OK) s = lki_form_add(&form, asking->arena, "WebIdentityToken", token, err);
  if (s == LAKE_OK) {
    request.who = id.who;
    request.body = (const char *)form.data;
    s = lki_token_ask(asking, &request, &reply, err);
  }
  form_free(&form);
  if (s != LAKE_OK) return s;
  s = take_sts(asking, id.who, &reply, err);
  lki_token_reply_free(&reply);
  return s;
}

/* ---- a role with the keys of another profile ---- */

typedef struct role {
  identity id;
  const char *source_profile, *credential_source, *external_id, *duration, *mfa;
} role;

static lake_status find_role(lki_asking *asking, role *r, lake_error *err) {
  lake_status s = lki_aws_profile(asking, "role_arn", &r->id.role, err);
  if (s == LAKE_OK && r->id.role == NULL) return LAKE_NOTFOUND;
  if (s == LAKE_OK) s = lki_aws_profile(asking, "web_identity_token_file", &r->id.token_file, err);
  if (s == LAKE_OK && r->id.token_file != NULL) return LAKE_NOTFOUND; /* that source comes later */
  if (s == LAKE_OK) s = lki_aws_profile(asking, "role_session_name", &r->id.session_name, err);
  if (s == LAKE_OK) s = lki_aws_profile(asking, "source_profile", &r->source_profile, err);
  if (s == LAKE_OK) s = lki_aws_profile(asking, "credential_source", &r->credential_source, err);
  if (s == LAKE_OK) s = lki_aws_profile(asking, "external_id", &r->external_id, err);
  if (s == LAKE_OK) s = lki_aws_profile(asking, "duration_seconds", &r->duration, err);
  if (s == LAKE_OK) s = lki_aws_profile(asking, "mfa_serial", &r->mfa, err);
  if (s != LAKE_OK) return s;
  if (r->mfa != NULL) return lki_aws_unsupported(asking, "mfa_serial", err);
  if ((r->source_profile == NULL) == (r->credential_source == NULL))
    return lki_fail(
        err, LAKE_INVALID,
        "profile %.60s: beside role_arn there must be one of source_profile and credential_source",
        asking->settings->profile);
  if (r->id.session_name == NULL) r->id.session_name = "lakestream";
  r->id.who =
      lki_arena_format(asking->arena, "role %.200s of profile %.60s", r->id.role, asking->settings->profile);
  return r->id.who != NULL ? LAKE_OK : out_of_memory(err);
}

/* The keys that may take on the role, into `found` of a round of their own. */
static lake_status find_source(lki_asking *asking, const role *r, lki_credentials *out, lake_error *err) {
  lki_settings settings = *asking->settings;
  lki_asking inner = *asking;
  lake_status s = LAKE_NOTFOUND;
  inner.settings = &settings;
  if (r->source_profile != NULL) {
    const char *nested = NULL;
    settings.profile = r->source_profile;
    settings.profile_in_url = true;
    if (strcmp(r->source_profile, asking->settings->profile) != 0)
      s = lki_aws_profile(&inner, "role_arn", &nested, err);
    if (s != LAKE_OK && s != LAKE_NOTFOUND) return s;
    if (nested != NULL) return lki_aws_unsupported(asking, "a source_profile with a role of its own", err);
    s = lki_aws_keys_of_profile(&inner, err);
  } else if (strcmp(r->credential_source, "Environment") == 0) {
    settings.profile_in_url = false;
    s = lki_aws_environment(&inner, err);
  } else if (strcmp(r->credential_source, "Ec2InstanceMetadata") == 0) {
    s = lki_aws_machine(&inner, err);
  } else if (strcmp(r->credential_source, "EcsContainer") == 0) {
    s = lki_aws_container(&inner, err);
  }
  if (s == LAKE_NOTFOUND)
    return lki_fail(err, LAKE_DENIED, "%s: its %s \"%.60s\" has no keys", r->id.who,
                    r->source_profile != NULL ? "source_profile" : "credential_source",
                    r->source_profile != NULL ? r->source_profile : r->credential_source);
  *out = inner.found;
  return s;
}

/* Sends the form, signed with these keys at this time. */
static lake_status ask_signed(lki_asking *asking, const char *who, const lki_credentials *keys,
                              const lake_buffer *form, int64_t now_s, lki_token_reply *reply,
                              lake_error *err) {
  static const lki_v4_family sts = {.algorithm = "AWS4-HMAC-SHA256",
                                    .secret_prefix = "AWS4",
                                    .service = "sts",
                                    .terminator = "aws4_request",
                                    .header_prefix = "x-amz-"};
  const char *url = NULL;
  lki_request signing;
  lki_http_request signed_request;
  lake_status s = sts_url(asking, &url, err);
  if (s != LAKE_OK) return s;
  const char *path = strchr(strstr(url, "://") + 3, '/');
  const char *origin = lki_arena_strndup(asking->arena, url, (size_t)(path - url));
  if (origin == NULL) return out_of_memory(err);
  lki_request_init(&signing, asking->env, "POST", origin, path);
  lki_request_header(&signing, "content-type", "application/x-www-form-urlencoded");
  signing.body.data = form->data;
  signing.body.bytes = form->bytes - 1; /* the NUL is not sent */
  s = lki_sign_v4(&signing, &sts, keys, asking->settings->region, now_s, false, NULL, err);
  if (s == LAKE_OK) s = lki_request_finish(&signing, &signed_request, err);
  if (s == LAKE_OK) {
    lki_token_request request = {.who = who,
                                 .method = "POST",
                                 .url = url,
                                 .headers = signed_request.headers,
                                 .header_count = signed_request.header_count,
                                 .body = (const char *)form->data,
                                 .timeout_ms = STS_MS};
    s = lki_token_ask(asking, &request, reply, err);
  } else {
    lki_error_prefix(err, "%s", who);
  }
  lki_request_free(&signing);
  return s;
}

static lake_status assume(lki_asking *asking, const role *r, const lki_credentials *keys, lake_error *err) {
  lki_token_reply reply;
  lake_buffer form;
  int64_t now_s = (int64_t)(lki_wall_ns(asking->env) / 1000000000u);
  lake_status s = form_begin(asking, "AssumeRole", &r->id, &form, err);
  if (s == LAKE_OK && r->external_id != NULL)
    s = lki_form_add(&form, asking->arena, "ExternalId", r->external_id, err);
  if (s == LAKE_OK && r->duration != NULL)
    s = lki_form_add(&form, asking->arena, "DurationSeconds", r->duration, err);
  if (s == LAKE_OK) s = ask_signed(asking, r->id.who, keys, &form, now_s, &reply, err);
  if (s == LAKE_OK && reply.status == 403 && reply.date_s > 0 &&
      llabs((long long)(reply.date_s - now_s)) > SKEW_S) {
    now_s = reply.date_s; /* signed by their clock */
    lki_token_reply_free(&reply);
    s = ask_signed(asking, r->id.who, keys, &form, now_s, &reply, err);
  }
  form_free(&form);
  if (s != LAKE_OK) return s;
  s = take_sts(asking, r->id.who, &reply, err);
  lki_token_reply_free(&reply);
  return s;
}

lake_status lki_aws_role(lki_asking *asking, lake_error *err) {
  role r = {0};
  lki_credentials keys;
  lake_status s = find_role(asking, &r, err);
  if (s == LAKE_OK) s = find_source(asking, &r, &keys, err);
  return s == LAKE_OK ? assume(asking, &r, &keys, err) : s;
}
