/* What gives credentials: replies of token servers (OAuth 2.0, AWS's containers, machines and STS, Google's
 * and Azure's machines), a command's output, a service account's file. Whatever they say, credentials that
 * are taken can be sent and are those of the input, none are given without their parts, and no error repeats
 * a secret: those of the inputs have "hush" in them. The engine is replaced when this program is linked
 * (CMakeLists.txt): the input is what the server says, its first byte chooses the status. */
#include "base/buffer.h"
#include "base/env.h"
#include "base/error.h"
#include "base/json.h"
#include "store/credentials_aws.h"
#include "store/source.h"
#include "support/fuzz.h"
#include "support/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW_S 1700000000
#define TOKEN "{\"access_token\":\"hush-t\",\"expires_in\":3600}"
#define COMMAND_EVERY 8 /* of the inputs that look like its output: starting a command takes long */

lake_status __wrap_lki_http_do(lki_http *http, const lki_http_request *request, lki_http_reply *reply,
                               lake_error *err);

static struct {
  int status;
  lake_bytes body;
  char token_file[4096], account_file[4096], output_file[4096], config_file[4096];
  unsigned long inputs, taken, accounts, commands, refused;
} t;

/* ---- the server ---- */

static bool ends(const char *text, const char *end) {
  const size_t bytes = strlen(text), end_bytes = strlen(end);
  return bytes >= end_bytes && strcmp(text + bytes - end_bytes, end) == 0;
}

static lake_status answer(const lki_http_request *request, lki_http_reply *reply, int status, lake_bytes body,
                          lake_error *err) {
  reply->status = status;
  reply->sent = true;
  reply->date_s = body.bytes % 2 == 0 ? NOW_S : 0;
  if (status == 200) {
    request->sink->bytes = 0;
    return lki_buffer_append(request->sink, body.data, body.bytes, NULL) == LAKE_OK
               ? LAKE_OK
               : lki_fail(err, LAKE_CORRUPT, "the reply is larger than its sink may grow");
  }
  reply->text_bytes = body.bytes < sizeof reply->text ? body.bytes : sizeof reply->text - 1;
  memcpy(reply->text, body.data, reply->text_bytes);
  return LAKE_OK;
}

lake_status __wrap_lki_http_do(lki_http *http, const lki_http_request *request, lki_http_reply *reply,
                               lake_error *err) {
  static const char role[] = "role";
  (void)http;
  fuzz_expect(lki_url_is_safe(request->url), "a secret is sent in the clear");
  for (const char *at = request->url; *at; at++) /* as the engine would */
    if (*at <= 0x20 || *at >= 0x7f) return lki_fail(err, LAKE_INVALID, "the URL is not usable");
  for (size_t i = 0; i < request->header_count; i++)
    for (const char *at = request->headers[i].value; *at; at++)
      fuzz_expect((unsigned char)*at >= 0x20 && *at != 0x7f, "a control character in a header");
  const bool names = ends(request->url, "/api/token") || ends(request->url, "security-credentials/");
  if (names) return answer(request, reply, 200, (lake_bytes){role, strlen(role)}, err);
  /* The file of an account is the input; then the server is a good one. */
  const char *assertion = request->body.bytes > 0 ? strstr(request->body.data, "assertion=") : NULL;
  if (assertion == NULL &&
      strstr(request->body.bytes > 0 ? request->body.data : "", "refresh_token=") == NULL)
    return answer(request, reply, t.status, t.body, err);
  if (assertion != NULL) {
    const char *first = strchr(assertion, '.'), *second = first != NULL ? strchr(first + 1, '.') : NULL;
    fuzz_expect(second != NULL && strlen(second) > 300, "an assertion without its signature");
  }
  return answer(request, reply, 200, (lake_bytes){TOKEN, strlen(TOKEN)}, err);
}

/* ---- what must hold ---- */

static void check_part(const char *text) {
  fuzz_expect(text == NULL || lki_token_valid(text), "a key or token that cannot be sent");
}

static void check_found(const lki_credentials *found) {
  fuzz_expect(found->source != NULL && found->source[0] != 0, "credentials of nobody");
  fuzz_expect((found->key_id != NULL) == (found->secret != NULL), "half a key");
  fuzz_expect((found->key_id != NULL) != (found->bearer != NULL), "neither a key nor a token, or both");
  fuzz_expect(found->session == NULL || found->key_id != NULL, "a session without a key");
  check_part(found->key_id);
  check_part(found->secret);
  check_part(found->session);
  check_part(found->bearer);
}

/* quiet: nothing of the input may be in the text. A refusal may say its code, which is a server's to choose.
 */
static void check_refusal(lake_status s, const lake_error *err, bool quiet) {
  t.refused++;
  if (s == LAKE_NOTFOUND) return; /* not configured */
  fuzz_expect(s == LAKE_DENIED || s == LAKE_UNAVAILABLE || s == LAKE_INVALID || s == LAKE_UNSUPPORTED,
              lake_status_name(s));
  fuzz_expect(err->status == s && err->text[0] != 0, "the error is not filled");
  for (const char *at = err->text; *at; at++)
    fuzz_expect((unsigned char)*at >= 0x20 && *at != 0x7f, "an error of more than a line");
  fuzz_expect(!quiet || strstr(err->text, "hush") == NULL, err->text);
}

/* A member's text as it is in the input, read again; "": none, or empty. */
static bool is_member(const lki_json *json, const char *name, const char *text) {
  const char *member = lki_json_string(lki_json_get(json, name));
  if (member != NULL && member[0] == 0) member = NULL;
  return text == NULL ? member == NULL : member != NULL && strcmp(member, text) == 0;
}

static void check_json(const lki_credentials *found, lake_bytes body) {
  lki_json *json = NULL;
  fuzz_expect(lki_json_parse(body, "it", &json, NULL) == LAKE_OK, "credentials from what is no JSON");
  if (found->bearer != NULL) {
    fuzz_expect(is_member(json, "access_token", found->bearer), "another token than was given");
  } else {
    fuzz_expect(is_member(json, "AccessKeyId", found->key_id), "another key than was given");
    fuzz_expect(is_member(json, "SecretAccessKey", found->secret), "another secret than was given");
    fuzz_expect(is_member(json, "SessionToken", found->session) || is_member(json, "Token", found->session),
                "another session than was given");
    fuzz_expect(!is_member(json, "Expiration", NULL) || found->expires_wall_ns == UINT64_MAX,
                "an end that nobody said");
  }
  lki_json_free(json);
}

static void check_sts(const lki_credentials *found) {
  fuzz_expect(found->session != NULL && found->expires_wall_ns != UINT64_MAX,
              "a role for ever, or without a session");
}

/* ---- one source ---- */

typedef enum from { REPLY, STS, ACCOUNT, OUTPUT } from;

/* A token_uri is shown when it is refused; it is no secret, though a mutation may copy one into it. */
static bool names_secret_address(lake_bytes body) {
  lki_json *json = NULL;
  if (lki_json_parse(body, "it", &json, NULL) != LAKE_OK) return false;
  const char *url = lki_json_string(lki_json_get(json, "token_uri"));
  const bool is = url != NULL && strstr(url, "hush") != NULL;
  lki_json_free(json);
  return is;
}

static void try_source(lki_source_fn *ask, from kind) {
  lake_error err = LAKE_ERROR_INIT;
  lki_arena arena;
  lki_arena_init(&arena, fuzz_env());
  const lki_settings settings = {.endpoint = "https://store.example",
                                 .region = "eu-west-1",
                                 .account = "acc",
                                 .profile = "default",
                                 .config_path = t.config_file};
  lki_asking asking = {.env = fuzz_env(), .settings = &settings, .arena = &arena};
  asking.deadline = (lake_deadline){LKI_NEVER};
  asking.found.expires_wall_ns = UINT64_MAX;
  const lake_status s = ask(&asking, &err);
  if (s == LAKE_OK) {
    t.taken++;
    check_found(&asking.found);
    fuzz_expect(kind == ACCOUNT || kind == OUTPUT || t.status == 200, "credentials from a refusal");
    if (kind == STS) check_sts(&asking.found);
    if (kind == REPLY || kind == OUTPUT) check_json(&asking.found, t.body);
    if (kind == ACCOUNT) {
      t.accounts++;
      fuzz_expect(strcmp(asking.found.bearer, "hush-t") == 0, "another token than the server gave");
    }
    if (kind == OUTPUT) t.commands++;
  } else {
    check_refusal(s, &err,
                  kind == ACCOUNT ? !names_secret_address(t.body) : kind == OUTPUT || t.status == 200);
  }
  lki_arena_wipe_free(&arena);
}

static lki_source_fn *source(const lki_source *list, const char *name) {
  while (list->name != NULL && strcmp(list->name, name) != 0) list++;
  fuzz_expect(list->name != NULL, name);
  return list->ask;
}

static void write_file(const char *path, const void *data, size_t bytes) {
  FILE *f = fopen(path, "wb");
  fuzz_expect(f != NULL && fwrite(data, 1, bytes, f) == bytes && fclose(f) == 0, path);
}

static void set_up(void) {
  static const char *const gone[] = {"AWS_PROFILE",
                                     "AZURE_CLIENT_ID",
                                     "NO_GCE_CHECK",
                                     "AWS_EC2_METADATA_DISABLED",
                                     "IDENTITY_ENDPOINT",
                                     "IDENTITY_HEADER",
                                     "AZURE_POD_IDENTITY_AUTHORITY_HOST",
                                     "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                     "AWS_ENDPOINT_URL_STS",
                                     "AWS_ENDPOINT_URL"};
  char text[5000];
  const char *folder = test_scratch();
  for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) unsetenv(gone[i]);
  snprintf(t.token_file, sizeof t.token_file, "%.4000s/token", folder);
  snprintf(t.account_file, sizeof t.account_file, "%.4000s/account", folder);
  snprintf(t.output_file, sizeof t.output_file, "%.4000s/output", folder);
  snprintf(t.config_file, sizeof t.config_file, "%.4000s/config", folder);
  write_file(t.token_file, "hush-w", 6);
  snprintf(text, sizeof text, "[default]\ncredential_process = cat '%s'\n", t.output_file);
  write_file(t.config_file, text, strlen(text));
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://localhost/keys", 1);
  setenv("AWS_WEB_IDENTITY_TOKEN_FILE", t.token_file, 1);
  setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
  setenv("GOOGLE_APPLICATION_CREDENTIALS", t.account_file, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  if (t.config_file[0] == 0) set_up();
  const int first = bytes > 0 ? data[0] : 0;
  t.status = first == '4' ? 403 : first == '5' ? 503 : first == '9' ? 404 : 200;
  t.body = t.status == 200 ? (lake_bytes){data, bytes} : (lake_bytes){data + 1, bytes - 1};
  try_source(lki_aws_container, REPLY);
  try_source(lki_aws_machine, REPLY);
  try_source(lki_aws_web_identity, STS);
  try_source(source(lki_sources_gcs, "this machine's account"), REPLY);
  try_source(source(lki_sources_azure, "this machine's identity"), REPLY);
  write_file(t.account_file, data, bytes);
  try_source(source(lki_sources_gcs, "GOOGLE_APPLICATION_CREDENTIALS"), ACCOUNT);
  if (bytes > 9 && memcmp(data, "{\"Version", 9) == 0 && t.inputs++ % COMMAND_EVERY == 0) {
    write_file(t.output_file, data, bytes);
    try_source(source(lki_sources_s3, "credential_process"), OUTPUT);
  }
  fuzz_expect_nothing_left();
  return 0;
}

#ifndef LAKE_LIBFUZZER
/* The key of RFC 7515, appendix A.2, which everybody knows. */
#define PEM                                                                                                  \
  "-----BEGIN PRIVATE KEY-----\\n"                                                                           \
  "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCh+BYK4uPJtGXO\\n"                                      \
  "jS1lYmM2K5J9vinh8CR3/BYlzJChNuOL2TSXxbbqY913EeZ8dCn5VrD7io8ImtxL\\n"                                      \
  "aYk8wTM/U+3QGbh3hCUv7JFP5IV3aVlL6kKA0ywPVb9ilE8TA5a8bpvfbr3SvaNn\\n"                                      \
  "juygxmj3AbONv/s4yDQs4v5tJ/reSlpIdJed1LnPmt7Ex1sFhSwsD174pcF1A5L5\\n"                                      \
  "ROjtZMEQxrZHYJqkeDrrnGya11UxMFBji4NmXG9veoKjlnAqH2QbgtPr8jkiGUkf\\n"                                      \
  "toaHLFcW9Qr4NY2ai50Xw0Byj3+H2JoY2PyrZ62EWQwuz3WTOTY8BwNNb2BvniHg\\n"                                      \
  "VFbK5emhAgMBAAECggEAEq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyW\\n"                                      \
  "PEAeP88vLNO97IjlA7/GQ5sLKMgvfTeXZx9SE+7YwVol2NXOoAJe46sui395IW/G\\n"                                      \
  "O+pWJ1O0BkTGoVEn2bKVRUCgu+GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzj\\n"                                      \
  "kn439X0M/V51gfpRLI9JYanrC4D4qAdGcopV/0ZHHzQlBjudU2QvXt4ehNYTCBr6\\n"                                      \
  "XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl/x/jTj3ccPDVZFD9pIuhLhBOneufuBiB\\n"                                      \
  "4cS98l2SR/RQyGWSeWjnczT0QU91p1DhOVRuOopznQKBgQDgHMQQ60imZV1URk0K\\n"                                      \
  "pLttoLhyt3SmqdEf/kgHePDdtzEafpAu+cS191R2JiuoF2yzWXnwFDcqGigp5BNr\\n"                                      \
  "0AHQfD8/Lk8l1Mk09jxxCfui5nYooNyac8YFjm3vItzVCVDnEd3BbVWG8qf6deqE\\n"                                      \
  "lMGAg+C2V0L4oNXnP7LZcPAZRwKBgQC5A8R+CZW2MvRTLLHzwZkUXV866cff7tx6\\n"                                      \
  "kqa0finGG0KgeqlaZPxgCZnFp7AeAcCMtiynVlJ7vMVgePsLq6XtON4tB5kP9jAP\\n"                                      \
  "rq3rbAOal78eUH5OcED6eNuCV8ixEu1eWcPNCS/l1OW1EnXUEoEHKl54Xrrz2uNw\\n"                                      \
  "kgMTP1FZ1wKBgAcCn1dwJKufzBWQxWQp1vsM5fggqPN1qGb5y0MAk3g7/Ls5bkUp\\n"                                      \
  "5u9SN0Ai3Ya6hNnvWJMb7sXQX6U/zyO2M/hTip7tUeh7CXgwo59dkpN75gJLVds2\\n"                                      \
  "9+DAncu3KXU4f2Fa+7bLNrur53k8KwPOq2bbuTG69QtV7Jr5MR0AHWKNAoGBAIf/\\n"                                      \
  "evpitUf+4JYbLpvNXWcY052Mpz22aR84mY3nh3F2LF2mjMJDpTg7FmuyPcVw6EcG\\n"                                      \
  "yoAe9fa65iNqCq+jdw6PVNGo2hxfjSiZ8IIzHdsPXI89//pMjZcQK9r+CCoRjaZj\\n"                                      \
  "OYiIDktVWZzmevJuv6WywUqd57LE3Zar3dLSIkx1AoGAIYd7DHOhrWvxkwPQsRM2\\n"                                      \
  "tOgrjbcrfvtQJipd+DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd/QJQ3\\n"                                      \
  "ydy5cY7YIBi87w93IKLEdfnbJtoOPLUW0ITrJReOgo1cq9SbsxYawBgfp/gh6A56\\n"                                      \
  "03k2+ZQwVK0JKSHuLFkuQ3U=\\n"                                                                              \
  "-----END PRIVATE KEY-----\\n"

int main(int argc, char **argv) {
  static const char *const texts[] = {
      "{\"access_token\":\"hush-token.x_y\",\"expires_in\":3599,\"token_type\":\"Bearer\"}",
      "{\"access_token\":\"hush-token\",\"expires_in\":\"86399\",\"expires_on\":\"1700003600\"}",
      "{\"Version\":1,\"AccessKeyId\":\"AKIDEXAMPLE\",\"SecretAccessKey\":\"hush/"
      "secret+\",\"SessionToken\":\"hush-session==\","
      "\"Expiration\":\"2026-01-31T12:00:00Z\"}",
      "{\"Code\":\"Success\",\"Type\":\"AWS-HMAC\",\"AccessKeyId\":\"ASIA1\",\"SecretAccessKey\":\"hush\","
      "\"Token\":\"hush-t\","
      "\"Expiration\":\"2026-01-31T12:00:00.5+01:00\"}",
      "{\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"hush\"}",
      "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><"
      "AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>hush-w</"
      "SecretAccessKey>"
      "<SessionToken>hush-s</SessionToken><Expiration>2026-01-31T12:00:00.000Z</Expiration></Credentials>"
      "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
      "4{\"error\":\"invalid_grant\",\"error_description\":\"hush\"}",
      "4<ErrorResponse><Error><Code>AccessDenied</Code><Message>hush</Message></Error></ErrorResponse>",
      "4{\"error\":\"invalid_client\",\"error_description\":\"AADSTS7000215: hush\"}",
      "5{\"Code\":\"AssumeRoleUnauthorizedAccess\",\"Message\":\"hush\"}",
      "9not found",
      "{\"type\":\"service_account\",\"client_email\":\"a@b.example\",\"private_key_id\":\"1\",\"private_"
      "key\":\"" PEM "\",\"token_uri\":\"https://oauth2.example/token\"}",
      "{\"type\":\"authorized_user\",\"client_id\":\"i\",\"client_secret\":\"hush-c\",\"refresh_token\":"
      "\"hush-r\"}",
      NULL};
  int rc = fuzz_main_texts(argc, argv, texts);
  fprintf(stderr, "%lu taken, %lu of accounts, %lu of commands, %lu refused\n", t.taken, t.accounts,
          t.commands, t.refused);
  fuzz_expect(argc > 1 || (t.taken > 500 && t.accounts > 20 && t.commands > 0 && t.refused > 1000),
              "hardly any input was accepted");
  return rc;
}
#endif
