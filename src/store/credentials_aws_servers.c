/* AWS's sources that are servers: STS for a workload's own identity, the agent of a container, the machine's
 * metadata. What is sent to them and what they say is checked before it is used. No state. */
#include "base/env.h"
#include "base/error.h"
#include "store/credentials_aws.h"
#include <string.h>
#include <strings.h>

#define CONTAINER_MS 5000
#define MACHINE_MS 1000 /* it is next door, or it is not there */

static lake_status out_of_memory(lake_error *err) {
  return lki_fail(err, LAKE_NOMEM, "credentials: out of memory");
}

/* ---- what containers and machines answer ---- */

static lake_status take_reply(lki_asking *asking, const char *who, const lki_token_reply *reply,
                              lake_error *err) {
  lki_json *json = NULL;
  if (reply->status != 200) return lki_token_refused(who, reply, err);
  if (lki_json_parse(lki_buffer_view(&reply->body), who, &json, err) != LAKE_OK)
    return lki_fail(err, LAKE_UNAVAILABLE, "%s: the reply is not JSON", who);
  const char *code = lki_json_string(lki_json_get(json, "Code"));
  lake_status s = code != NULL && strcmp(code, "Success") != 0
                      ? lki_fail(err, LAKE_UNAVAILABLE, "%s: it has no credentials at the moment", who)
                      : lki_aws_take_json(asking, who, json, reply->date_s, err);
  lki_json_free(json);
  return s;
}

/* ---- containers ---- */

static lake_status container_url(lki_asking *asking, const char **out, lake_error *err) {
  const char *relative = lki_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const char *full = lki_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (relative == NULL && full == NULL) return LAKE_NOTFOUND;
  const char *text = relative != NULL ? relative : full;
  if (!lki_token_valid(text) || strlen(text) > 800 || (relative != NULL && relative[0] != '/'))
    return lki_fail(err, LAKE_INVALID, "%s: not a usable address",
                    relative != NULL ? "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
                                     : "AWS_CONTAINER_CREDENTIALS_FULL_URI");
  *out = lki_arena_format(asking->arena, "%s%s", relative != NULL ? "http://169.254.170.2" : "", text);
  return *out != NULL ? LAKE_OK : out_of_memory(err);
}

lake_status lki_aws_container(lki_asking *asking, lake_error *err) {
  static const char who[] = "the container's credentials";
  const char *file = lki_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"), *token = NULL;
  lki_token_request request = {.who = who, .method = "GET", .timeout_ms = CONTAINER_MS};
  lki_token_reply reply;
  lake_status s = container_url(asking, &request.url, err);
  if (s != LAKE_OK) return s;
  if (file != NULL) {
    s = lki_secret_file(asking, who, file, &token, err);
    if (s != LAKE_OK) return s;
  } else {
    token = lki_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  }
  for (const char *at = token; at != NULL && *at != 0;
       at++) /* "Basic abc=" is one, so a blank may be in it */
    if ((unsigned char)*at < 0x20 || (unsigned char)*at >= 0x7f)
      return lki_fail(err, LAKE_INVALID, "AWS_CONTAINER_AUTHORIZATION_TOKEN: a control character in it");
  lki_http_header headers[2] = {{"Accept", "application/json"}, {"Authorization", token}};
  request.headers = headers;
  request.header_count = token != NULL ? 2 : 1;
  s = lki_token_ask(asking, &request, &reply, err);
  if (s != LAKE_OK) return s;
  s = take_reply(asking, who, &reply, err);
  lki_token_reply_free(&reply);
  return s;
}

/* ---- the machine (IMDSv2) ---- */

static const char machine[] = "this machine's role";

static lake_status machine_base(lki_asking *asking, const char **out, lake_error *err) {
  const char *given = lki_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  const char *mode = lki_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
  *out = mode != NULL && strcasecmp(mode, "ipv6") == 0 ? "http://[fd00:ec2::254]" : "http://169.254.169.254";
  return given != NULL
             ? lki_check_endpoint(asking->arena, "AWS_EC2_METADATA_SERVICE_ENDPOINT", given, true, out, err)
             : LAKE_OK;
}

/* A body as one word, in the arena; NULL: it is not one. */
static const char *word(lki_asking *asking, const lki_token_reply *reply) {
  const char *text = (const char *)reply->body.data;
  size_t bytes = 0;
  while (bytes < reply->body.bytes && (unsigned char)text[bytes] > 0x20 && (unsigned char)text[bytes] < 0x7f)
    bytes++;
  return bytes > 0 ? lki_arena_strndup(asking->arena, text, bytes) : NULL;
}

/* The session token. NOTFOUND: this is no such machine. */
static lake_status machine_token(lki_asking *asking, const char *base, const char **out, lake_error *err) {
  static const lki_http_header headers[] = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}};
  lake_error why = LAKE_ERROR_INIT;
  lki_token_reply reply;
  lki_token_request request = {.who = machine, .method = "PUT", .headers = headers, .header_count = 1};
  request.url = lki_arena_format(asking->arena, "%s/latest/api/token", base);
  if (request.url == NULL) return out_of_memory(err);
  lake_status s = LAKE_UNAVAILABLE;
  /* Twice: when a thousand ranks start at one moment, the first answer may take longer than a second. */
  for (uint64_t tries = 1; tries <= 2 && s == LAKE_UNAVAILABLE; tries++) {
    request.timeout_ms = MACHINE_MS * tries;
    s = lki_token_ask(asking, &request, &reply, &why);
  }
  if (s == LAKE_TIMEOUT || s == LAKE_UNAVAILABLE) return LAKE_NOTFOUND;
  if (s != LAKE_OK) {
    lki_error_copy(err, &why);
    return s;
  }
  if (reply.status == 200) *out = word(asking, &reply);
  s = reply.status >= 500 || reply.status == 429 ? lki_token_refused(machine, &reply, err)
      : *out != NULL                             ? LAKE_OK
                                                 : LAKE_NOTFOUND;
  lki_token_reply_free(&reply);
  return s;
}

static lake_status machine_get(lki_asking *asking, const char *base, const char *token, const char *role,
                               lki_token_reply *reply, lake_error *err) {
  const lki_http_header headers[] = {{"X-aws-ec2-metadata-token", token}};
  lki_token_request request = {
      .who = machine, .method = "GET", .headers = headers, .header_count = 1, .timeout_ms = MACHINE_MS};
  request.url =
      lki_arena_format(asking->arena, "%s/latest/meta-data/iam/security-credentials/%s", base, role);
  return request.url != NULL ? lki_token_ask(asking, &request, reply, err) : out_of_memory(err);
}

lake_status lki_aws_machine(lki_asking *asking, lake_error *err) {
  const char *base = NULL, *token = NULL, *role = NULL;
  const char *disabled = lki_variable("AWS_EC2_METADATA_DISABLED");
  lki_token_reply reply;
  asking->switched_off = disabled != NULL && strcasecmp(disabled, "true") == 0;
  if (asking->switched_off) return LAKE_NOTFOUND;
  lake_status s = machine_base(asking, &base, err);
  if (s == LAKE_OK) s = machine_token(asking, base, &token, err);
  if (s == LAKE_OK) s = machine_get(asking, base, token, "", &reply, err);
  if (s != LAKE_OK) return s;
  if (reply.status == 404) s = LAKE_NOTFOUND; /* a machine without a role */
  if (reply.status != 200 && reply.status != 404) s = lki_token_refused(machine, &reply, err);
  if (reply.status == 200) role = word(asking, &reply);
  lki_token_reply_free(&reply);
  if (s == LAKE_OK && role == NULL) s = LAKE_NOTFOUND;
  if (s == LAKE_OK) s = machine_get(asking, base, token, role, &reply, err);
  if (s != LAKE_OK) return s;
  s = take_reply(asking, machine, &reply, err);
  lki_token_reply_free(&reply);
  return s;
}
