/* AWS's sources without a server: the environment, the files with profiles, the command that a profile names.
 * In the order and by the rules of AWS's command line tool. */
#include "base/command.h"
#include "base/env.h"
#include "base/error.h"
#include "store/credentials_aws.h"
#include "store/digest.h"
#include <string.h>

#define COMMAND_MS 60000

static lake_status out_of_memory(lake_error *err) {
  return lki_fail(err, LAKE_NOMEM, "credentials: out of memory");
}

lake_status lki_aws_profile(lki_asking *asking, const char *name, const char **out, lake_error *err) {
  const lki_settings *settings = asking->settings;
  *out = NULL;
  if (settings->config_path == NULL) return LAKE_OK;
  const char *section = lki_config_section(asking->arena, settings->profile);
  if (section == NULL) return out_of_memory(err);
  lake_status s = lki_profile_get(asking->arena, settings->config_path, section, name, out, err);
  if (s == LAKE_OK && *out == NULL && strcmp(section, "default") == 0)
    s = lki_profile_get(asking->arena, settings->config_path, "profile default", name, out, err);
  if (s == LAKE_OK && *out == NULL && settings->credentials_path != NULL)
    s = lki_profile_get(asking->arena, settings->credentials_path, settings->profile, name, out, err);
  if (s == LAKE_OK && *out != NULL && **out == 0) *out = NULL;
  return s;
}

/* ---- environment ---- */

lake_status lki_aws_environment(lki_asking *asking, lake_error *err) {
  if (asking->settings->profile_in_url)
    return LAKE_NOTFOUND; /* somebody asked for that profile, not for these */
  const char *key_id = lki_variable("AWS_ACCESS_KEY_ID"), *secret = lki_variable("AWS_SECRET_ACCESS_KEY");
  const char *session = lki_variable("AWS_SESSION_TOKEN");
  if (session == NULL) session = lki_variable("AWS_SECURITY_TOKEN");
  if (key_id == NULL && secret == NULL) return LAKE_NOTFOUND;
  if (key_id == NULL || secret == NULL)
    return lki_fail(err, LAKE_INVALID, "%s is set without %s",
                    key_id != NULL ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                    key_id != NULL ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
  asking->found.key_id = lki_keep(asking, key_id);
  asking->found.secret = lki_keep(asking, secret);
  asking->found.session = lki_keep(asking, session);
  if (session != NULL && asking->found.session == NULL) return out_of_memory(err);
  return lki_source_done(asking, "AWS_ACCESS_KEY_ID in the environment", err);
}

/* ---- files ---- */

/* Keys in one section of one file. */
static lake_status keys(lki_asking *asking, const char *path, const char *section, lake_error *err) {
  const char *key_id = NULL, *secret = NULL, *session = NULL;
  if (path == NULL) return LAKE_NOTFOUND;
  lake_status s = lki_profile_get(asking->arena, path, section, "aws_access_key_id", &key_id, err);
  if (s == LAKE_OK) s = lki_profile_get(asking->arena, path, section, "aws_secret_access_key", &secret, err);
  if (s == LAKE_OK) s = lki_profile_get(asking->arena, path, section, "aws_session_token", &session, err);
  if (s != LAKE_OK) return s;
  bool has_id = key_id != NULL && *key_id != 0, has_secret = secret != NULL && *secret != 0;
  if (!has_id && !has_secret) return LAKE_NOTFOUND;
  const char *who = lki_arena_format(asking->arena, "%s [%s]", lki_shown_path(asking->arena, path), section);
  if (who == NULL) return out_of_memory(err);
  if (!has_id || !has_secret)
    return lki_fail(err, LAKE_INVALID, "%s: %s is there without %s", who,
                    has_id ? "aws_access_key_id" : "aws_secret_access_key",
                    has_id ? "aws_secret_access_key" : "aws_access_key_id");
  asking->found.key_id = key_id;
  asking->found.secret = secret;
  asking->found.session = session != NULL && *session != 0 ? session : NULL;
  return lki_source_done(asking, who, err);
}

static lake_status ask_credentials_file(lki_asking *asking, lake_error *err) {
  return keys(asking, asking->settings->credentials_path, asking->settings->profile, err);
}

static lake_status ask_config_file(lki_asking *asking, lake_error *err) {
  const lki_settings *settings = asking->settings;
  const char *section = lki_config_section(asking->arena, settings->profile);
  if (section == NULL) return out_of_memory(err);
  lake_status s = keys(asking, settings->config_path, section, err);
  return s == LAKE_NOTFOUND && strcmp(section, "default") == 0
             ? keys(asking, settings->config_path, "profile default", err)
             : s;
}

/* ---- the JSON in which commands, containers and machines give keys ---- */

static const char *member(const lki_json *json, const char *name) {
  const char *text = lki_json_string(lki_json_get(json, name));
  return text != NULL && *text != 0 ? text : NULL;
}

lake_status lki_aws_take_json(lki_asking *asking, const char *who, const lki_json *json, int64_t now_s,
                              lake_error *err) {
  const char *session = member(json, "SessionToken"), *expires = member(json, "Expiration");
  if (session == NULL) session = member(json, "Token");
  int64_t expires_s = 0;
  if (member(json, "AccessKeyId") == NULL || member(json, "SecretAccessKey") == NULL)
    return lki_fail(err, LAKE_DENIED, "%s: the answer lacks AccessKeyId or SecretAccessKey", who);
  if (expires != NULL && !lki_parse_time(expires, &expires_s))
    return lki_fail(err, LAKE_DENIED, "%s: the answer's Expiration is not a time", who);
  asking->found.key_id = lki_keep(asking, member(json, "AccessKeyId"));
  asking->found.secret = lki_keep(asking, member(json, "SecretAccessKey"));
  asking->found.session = lki_keep(asking, session);
  if (session != NULL && asking->found.session == NULL) return out_of_memory(err);
  if (expires != NULL) asking->found.expires_wall_ns = lki_expires_wall_ns(asking->env, expires_s, now_s);
  return lki_source_done(asking, who, err);
}

/* ---- credential_process ---- */

static lake_status ask_command(lki_asking *asking, lake_error *err) {
  const char *command = NULL;
  char *text = NULL;
  size_t bytes = 0;
  uint64_t version = 0;
  lki_json *json = NULL;
  lake_status s = lki_aws_profile(asking, "credential_process", &command, err);
  if (s != LAKE_OK) return s;
  if (command == NULL) return LAKE_NOTFOUND;
  const char *who =
      lki_arena_format(asking->arena, "credential_process of profile %s", asking->settings->profile);
  if (who == NULL) return out_of_memory(err);
  lake_deadline limit = lake_deadline_after_ms(asking->env, COMMAND_MS);
  if (asking->deadline.at_ns < limit.at_ns) limit = asking->deadline;
  s = lki_command_output(asking->env, command, LKI_TOKEN_BYTES_MAX, limit, &text, &bytes, err);
  if (s != LAKE_OK) {
    lki_error_prefix(err, "%s", who);
    return s;
  }
  lake_bytes view = {text, bytes};
  s = lki_json_parse(view, who, &json, err);
  if (s == LAKE_OK && (!lki_json_u64(lki_json_get(json, "Version"), &version) || version != 1))
    s = lki_fail(err, LAKE_INVALID, "%s: its output is not of Version 1", who);
  if (s == LAKE_OK) s = lki_aws_take_json(asking, who, json, 0, err);
  lki_json_free(json);
  lki_wipe(text, bytes);
  lki_free(asking->env, text);
  return s;
}

/* ---- what a profile may ask for and we cannot do: said, rather than passed over in favour of somebody
 * else's keys ---- */

lake_status lki_aws_unsupported(lki_asking *asking, const char *name, lake_error *err) {
  return lki_fail(err, LAKE_UNSUPPORTED,
                  "profile %.60s: %s is left to AWS's own tool; name a profile that has credential_process = "
                  "aws configure "
                  "export-credentials --profile %.60s",
                  asking->settings->profile, name, asking->settings->profile);
}

static lake_status ask_sso(lki_asking *asking, lake_error *err) {
  static const char *const names[] = {"sso_session", "sso_start_url", "login_session"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *value = NULL;
    lake_status s = lki_aws_profile(asking, names[i], &value, err);
    if (s != LAKE_OK) return s;
    if (value != NULL) return lki_aws_unsupported(asking, names[i], err);
  }
  return LAKE_NOTFOUND;
}

lake_status lki_aws_keys_of_profile(lki_asking *asking, lake_error *err) {
  static lki_source_fn *const sources[] = {ask_credentials_file, ask_config_file, ask_command,
                                           lki_aws_web_identity, ask_sso};
  lake_status s = LAKE_NOTFOUND;
  for (size_t i = 0; s == LAKE_NOTFOUND && i < sizeof sources / sizeof sources[0]; i++)
    s = sources[i](asking, err);
  return s;
}

const lki_source lki_sources_s3[] = {
    {"AWS_ACCESS_KEY_ID", lki_aws_environment},
    {"role_arn", lki_aws_role}, /* before the keys beside it, which are those of another */
    {"the credentials file", ask_credentials_file},
    {"the config file", ask_config_file},
    {"credential_process", ask_command},
    {"AWS_WEB_IDENTITY_TOKEN_FILE", lki_aws_web_identity},
    {"", ask_sso},
    {"AWS_CONTAINER_CREDENTIALS_FULL_URI", lki_aws_container},
    {"this machine's role", lki_aws_machine},
    {NULL, NULL},
};
