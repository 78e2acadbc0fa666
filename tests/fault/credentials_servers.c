/* Servers that give credentials, played by the test: what is asked of each, what is made of its answers, and
 * that its failures name it. */
#include "support/credentials_fixture.h"

#include "base/json.h"
#include "store/digest.h"

static bool asked(const rule *r, const char *part) {
  if (strstr(r->asked, part) != NULL || strstr(r->head, part) != NULL) return true;
  print_message("asked:\n%s%s\n", r->head, r->asked);
  return false;
}

static void assert_bearer(const char *url, const char *bearer, const char *source) {
  open_chain(url);
  const lki_credentials *c = get(NULL);
  assert_string_equal(c->bearer, bearer);
  assert_null(c->secret);
  assert_string_equal(c->source, source);
  put(c);
}

/* ---- AWS: the machine ---- */

#define ROLES "/latest/meta-data/iam/security-credentials/"
#define KEYS                                                                                                 \
  "{\"Code\":\"Success\",\"AccessKeyId\":\"mid\",\"SecretAccessKey\":\"hush-m\",\"Token\":\"hush-t\","       \
  "\"Expiration\":\"2999-01-01T00:00:00Z\"}"

static void test_imds(void **state) {
  (void)state;
  setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server_url(""), 1);
  rule *token = on("PUT", "/latest/api/token", 200, "hush-session");
  rule *keys = on("GET", ROLES "my-role", 200, KEYS);
  rule *roles = on("GET", ROLES, 200, "my-role\n");
  /* AWS_EC2_METADATA_DISABLED: the machine is not asked, nor told as asked, nor is what we leave to AWS's own tool. */
  refuse_chain("s3://bucket", LAKE_DENIED,
               "asked: AWS_ACCESS_KEY_ID, role_arn, the credentials file, the config file, credential_process, "
               "AWS_WEB_IDENTITY_TOKEN_FILE, AWS_CONTAINER_CREDENTIALS_FULL_URI; for what is public");
  assert_int_equal(token->count, 0);
  unsetenv("AWS_EC2_METADATA_DISABLED");
  open_chain("s3://bucket");
  const lki_credentials *c = get(NULL);
  assert_string_equal(c->key_id, "mid");
  assert_string_equal(c->secret, "hush-m");
  assert_string_equal(c->session, "hush-t");
  assert_true(c->expires_wall_ns > lki_wall_ns(t.env) && c->expires_wall_ns < UINT64_MAX);
  assert_string_equal(c->source, "this machine's role");
  put(c);
  assert_true(asked(token, "X-aws-ec2-metadata-token-ttl-seconds: 21600\r\n"));
  assert_true(asked(roles, "X-aws-ec2-metadata-token: hush-session\r\n"));
  assert_true(asked(keys, "X-aws-ec2-metadata-token: hush-session\r\n"));
  keys->body = "{\"Code\":\"AssumeRoleUnauthorizedAccess\",\"Message\":\"hush\"}";
  refuse_chain("s3://bucket", LAKE_UNAVAILABLE, "this machine's role: it has no credentials");
  keys->body = "hush";
  refuse_chain("s3://bucket", LAKE_UNAVAILABLE, "this machine's role: the reply is not JSON");
  keys->status = 503;
  refuse_chain("s3://bucket", LAKE_UNAVAILABLE, "this machine's role: refused with status 503");
  roles->status = 404;
  refuse_chain("s3://bucket", LAKE_DENIED, "no credentials for bucket \"bucket\"");
  token->status = 403;
  refuse_chain("s3://bucket", LAKE_DENIED, "no credentials for bucket \"bucket\"");
  token->status = 500;
  refuse_chain("s3://bucket", LAKE_UNAVAILABLE, "this machine's role: refused with status 500");
  setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://10.1.2.3", 1);
  refuse_chain("s3://bucket", LAKE_INVALID, "https:// only");
  setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1", 1); /* nobody is there */
  refuse_chain("s3://bucket", LAKE_DENIED, "no credentials for bucket \"bucket\"");
  refuse_chain("s3://bucket", LAKE_DENIED, "AWS_CONTAINER_CREDENTIALS_FULL_URI, this machine's role; for what is public");
}

/* ---- AWS: containers ---- */

static void test_container(void **state) {
  (void)state;
  rule *r = on("GET", "/creds?x=1", 200, KEYS);
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", server_url("/creds?x=1"), 1);
  setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Basic hush-1", 1);
  open_chain("s3://bucket");
  const lki_credentials *a = get(NULL);
  assert_string_equal(a->key_id, "mid");
  assert_true(asked(r, "Authorization: Basic hush-1\r\n"));
  write_home("token", "hush-2\n");
  setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", home_path("token"), 1);
  assert_none(a, LAKE_DENIED, "the same ones again");
  assert_true(asked(r, "Authorization: hush-2\r\n"));
  write_home("token", "hush-3\n"); /* is read again each time */
  r->body = "{\"AccessKeyId\":\"new\",\"SecretAccessKey\":\"hush-n\",\"Token\":\"hush-t\"}";
  const lki_credentials *b = get(NULL);
  const lki_credentials *c = get(b);
  assert_string_equal(c->key_id, "new");
  assert_true(asked(r, "Authorization: hush-3\r\n"));
  put(a);
  put(b);
  put(c);
  write_home("token", "hush\nhush\n");
  refuse_chain("s3://bucket", LAKE_INVALID, "does not hold one token");
  setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", home_path("none"), 1);
  refuse_chain("s3://bucket", LAKE_DENIED, "the container's credentials: file");
  unsetenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.org/creds",
         1); /* anybody could answer there */
  refuse_chain("s3://bucket", LAKE_INVALID, "https:// only");
  setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "creds", 1);
  refuse_chain("s3://bucket", LAKE_INVALID, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: not a usable address");
}

/* ---- AWS: web identity ---- */

#define STS_REPLY                                                                                            \
  "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"                  \
  "<AssumeRoleWithWebIdentityResult><Credentials><SessionToken>hush-t</SessionToken>"                        \
  "<SecretAccessKey>hush-w</SecretAccessKey><Expiration>2999-01-01T00:00:00.000Z</Expiration>"               \
  "<AccessKeyId>wid</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult></"                         \
  "AssumeRoleWithWebIdentityResponse>"

static void test_web_identity(void **state) {
  (void)state;
  rule *r = on("POST", "/", 200, STS_REPLY);
  setenv("AWS_ENDPOINT_URL_STS", server_url(""), 1);
  setenv("AWS_WEB_IDENTITY_TOKEN_FILE", home_path("jwt"), 1);
  refuse_chain("s3://bucket", LAKE_INVALID, "set AWS_ROLE_ARN");
  setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/train", 1);
  refuse_chain("s3://bucket", LAKE_DENIED, "web identity for arn:aws:iam::1:role/train: file");
  write_home("jwt", "hush.one\n");
  open_chain("s3://bucket");
  const lki_credentials *a = get(NULL);
  assert_string_equal(a->key_id, "wid");
  assert_string_equal(a->secret, "hush-w");
  assert_string_equal(a->session, "hush-t");
  assert_string_equal(a->source, "web identity for arn:aws:iam::1:role/train");
  assert_true(asked(r, "Content-Type: application/x-www-form-urlencoded\r\n"));
  assert_string_equal(r->asked, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15"
                                "&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Ftrain&RoleSessionName=lakestream"
                                "&WebIdentityToken=hush.one");
  write_home("jwt", "hush.two\n");
  assert_none(a, LAKE_DENIED, "the same ones again");
  assert_true(asked(r, "&WebIdentityToken=hush.two"));
  put(a);
  r->body = "<x><AccessKeyId>wid</AccessKeyId><SecretAccessKey>hush</SecretAccessKey></x>";
  refuse_chain("s3://bucket", LAKE_UNAVAILABLE, "the reply holds no credentials");
  r->body = "<x><AccessKeyId>wid</AccessKeyId><SecretAccessKey>hush</Secret";
  refuse_chain("s3://bucket", LAKE_UNAVAILABLE, "web identity for arn:aws:iam::1:role/train");
  r->status = 400;
  r->body = "<ErrorResponse><Error><Code>ExpiredTokenException</Code><Message>hush</Message></Error></"
            "ErrorResponse>";
  refuse_chain("s3://bucket", LAKE_DENIED, "role/train: refused with status 400, ExpiredTokenException");
  r->body =
      "<ErrorResponse><Error><Code>hush hush</Code></Error></ErrorResponse>"; /* no code: not repeated */
  refuse_chain("s3://bucket", LAKE_DENIED, "refused with status 400");
  r->status = 503;
  refuse_chain("s3://bucket", LAKE_UNAVAILABLE, "refused with status 503");
  setenv("AWS_ENDPOINT_URL_STS", "http://sts.example.org", 1);
  refuse_chain("s3://bucket", LAKE_INVALID, "https:// only");
}

static void test_web_identity_of_profile(void **state) {
  (void)state;
  char config[13000];
  rule *r = on("POST", "/", 200, STS_REPLY);
  setenv("AWS_ENDPOINT_URL_STS", server_url(""), 1);
  write_home("jwt", "hush.one\n");
  snprintf(config, sizeof config,
           "[profile k8s]\nweb_identity_token_file = %s\nrole_arn = arn:1\nrole_session_name = job-7\n",
           home_path("jwt"));
  write_home(".aws/config", config);
  assert_source("s3://bucket?profile=k8s", "wid", "hush-w", "web identity for arn:1");
  assert_true(asked(r, "RoleSessionName=job-7"));
}

/* ---- AWS: roles ---- */

static void assert_role(rule *r, const char *config, const char *key_id, const char *region) {
  char part[200], when[40];
  time_t now = (time_t)(lki_wall_ns(t.env) / 1000000000u);
  struct tm tm;
  write_home(".aws/config", config);
  assert_source("s3://bucket", "wid", "hush-w", "role arn:aws:iam::1:role/x of profile default");
  strftime(when, sizeof when, "%Y%m%d", gmtime_r(&now, &tm));
  snprintf(
      part, sizeof part,
      "AWS4-HMAC-SHA256 Credential=%s/%s/%s/sts/aws4_request, SignedHeaders=content-type;host;x-amz-date",
      key_id, when, region);
  assert_true(asked(r, part));
}

static void test_role(void **state) {
  (void)state;
  rule *r = on("POST", "/", 200, STS_REPLY);
  setenv("AWS_ENDPOINT_URL_STS", server_url(""), 1);
  write_home(".aws/credentials", "[base]\naws_access_key_id = bid\naws_secret_access_key = hush-b\n"
                                 "[default]\naws_access_key_id = did\naws_secret_access_key = hush-d\n");
  assert_role(r,
              "[default]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = base\nregion = "
              "eu-west-1\nexternal_id = e/1\n"
              "duration_seconds = 900\nrole_session_name = me\n",
              "bid", "eu-west-1");
  assert_string_equal(r->asked,
                      "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fx"
                      "&RoleSessionName=me&ExternalId=e%2F1&DurationSeconds=900");
  /* A profile may be its own source. */
  assert_role(r, "[default]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = default\n", "did",
              "us-east-1");
  assert_string_equal(r->asked,
                      "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fx"
                      "&RoleSessionName=lakestream");
  write_home(".aws/config", "[default]\nrole_arn = arn:aws:iam::1:role/x\ncredential_source = Environment\n");
  refuse_chain("s3://bucket", LAKE_DENIED, "credential_source \"Environment\" has no keys");
  /* Keys from a container take on the role, with their session. */
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", server_url("/c"), 1);
  on("GET", "/c", 200, KEYS);
  assert_role(r, "[default]\nrole_arn = arn:aws:iam::1:role/x\ncredential_source = EcsContainer\n", "mid",
              "us-east-1");
  assert_true(asked(r, "x-amz-security-token: hush-t\r\n"));
  r->status = 403;
  r->body = "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>";
  refuse_chain("s3://bucket", LAKE_DENIED,
               "role arn:aws:iam::1:role/x of profile default: refused with status 403, AccessDenied");
  unsigned before = r->count;
  r->headers = "Date: Sat, 01 Jan 2050 00:00:00 GMT\r\n"; /* our clock is off: once more, by theirs */
  refuse_chain("s3://bucket", LAKE_DENIED, "refused with status 403, AccessDenied");
  assert_int_equal(r->count, before + 2);
  assert_true(asked(r, "x-amz-date: 20500101T000000Z\r\n"));
}

/* ---- Google ---- */

/* The key of RFC 7515, appendix A.2, in the JSON of a service account. */
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

static void write_account(const char *url) {
  char text[4096];
  snprintf(text, sizeof text,
           "{\"type\":\"service_account\",\"client_email\":\"me@project\",\"private_key_id\":\"k1\",\"token_"
           "uri\":\"%s\","
           "\"private_key\":\"" PEM "\"}",
           url);
  write_home("key.json", text);
  setenv("GOOGLE_APPLICATION_CREDENTIALS", home_path("key.json"), 1);
}

/* The claims of the assertion that was sent last. */
static lki_json *claims_of(const rule *r) {
  const char *at = strstr(r->asked, "assertion=");
  char text[2048];
  unsigned char raw[2048];
  lki_json *json = NULL;
  lake_error err = LAKE_ERROR_INIT;
  assert_non_null(at);
  at = strchr(at, '.');
  assert_non_null(at);
  size_t bytes = strcspn(at + 1, ".");
  assert_true(bytes + 4 < sizeof text);
  memcpy(text, at + 1, bytes);
  for (size_t i = 0; i < bytes; i++) text[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
  while (bytes % 4 != 0) text[bytes++] = '=';
  text[bytes] = 0;
  long used = lki_base64_decode(text, raw, sizeof raw);
  assert_true(used > 0);
  lake_bytes view = {raw, (size_t)used};
  assert_ok(lki_json_parse(view, "claims", &json, &err), &err);
  return json;
}

static double claim(const rule *r, const char *name) {
  lki_json *json = claims_of(r);
  double value = 0;
  assert_true(lki_json_number(lki_json_get(json, name), &value));
  lki_json_free(json);
  return value;
}

static void test_service_account(void **state) {
  (void)state;
  rule *r = on("POST", "/token", 200,
               "{\"access_token\":\"hush-bearer\",\"expires_in\":3599,\"token_type\":\"Bearer\"}");
  write_account(server_url("/token"));
  assert_bearer("gs://bucket", "hush-bearer", "GOOGLE_APPLICATION_CREDENTIALS");
  assert_true(asked(r, "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="));
  lki_json *claims = claims_of(r);
  assert_string_equal(lki_json_string(lki_json_get(claims, "iss")), "me@project");
  assert_string_equal(lki_json_string(lki_json_get(claims, "aud")), server_url("/token"));
  assert_string_equal(lki_json_string(lki_json_get(claims, "scope")),
                      "https://www.googleapis.com/auth/devstorage.read_write");
  lki_json_free(claims);
  double now_s = (double)(lki_wall_ns(t.env) / 1000000000u);
  assert_true(claim(r, "iat") <= now_s && claim(r, "iat") > now_s - 60);
  assert_true(claim(r, "exp") - claim(r, "iat") == 3600);
  r->body = "{\"access_token\":\"\"}";
  refuse_chain("gs://bucket", LAKE_UNAVAILABLE, "no access_token");
  r->body = "{\"access_token\":\"hush\\u000a\"}";
  refuse_chain("gs://bucket", LAKE_UNAVAILABLE, "no access_token");
  r->status = 401;
  r->body = "{\"error\":\"invalid_client\",\"error_description\":\"hush\"}";
  refuse_chain("gs://bucket", LAKE_DENIED,
               "GOOGLE_APPLICATION_CREDENTIALS: refused with status 401, invalid_client");
  write_account("http://example.org/token");
  refuse_chain("gs://bucket", LAKE_INVALID, "https:// only");
}

/* The token ends by our clock after the seconds that the server counts. */
static void test_token_life(void **state) {
  (void)state;
  rule *r = on("POST", "/token", 200, "{\"access_token\":\"hush-1\",\"expires_in\":\"3600\"}");
  write_account(server_url("/token"));
  open_chain("gs://bucket");
  put(get(NULL));
  move_clock_s(3000);
  put(get(NULL));
  assert_int_equal(r->count, 1);
  move_clock_s(500);
  r->body = "{\"access_token\":\"hush-2\",\"expires_in\":3600}";
  const lki_credentials *c = get(NULL);
  assert_string_equal(c->bearer, "hush-2");
  assert_int_equal(r->count, 2);
  put(c);
}

/* A clock that is off makes an assertion that is refused: the second one is of the server's time. */
static void test_assertion_clock(void **state) {
  (void)state;
  rule *r = on("POST", "/token", 400, "{\"error\":\"invalid_grant\"}");
  r->headers = "Date: Sat, 01 Jan 2050 00:00:00 GMT\r\n";
  write_account(server_url("/token"));
  refuse_chain("gs://bucket", LAKE_DENIED, "refused with status 400, invalid_grant");
  assert_int_equal(r->count, 2);
  assert_true(claim(r, "iat") == 2524608000.0);
}

static void test_user_file(void **state) {
  (void)state;
  char text[1000];
  rule *r = on("POST", "/t", 200, "{\"access_token\":\"hush-user\",\"expires_in\":3599}");
  snprintf(text, sizeof text,
           "{\"type\":\"authorized_user\",\"client_id\":\"id\",\"client_secret\":\"hush+s\",\"refresh_"
           "token\":\"1//hush\","
           "\"token_uri\":\"%s\"}",
           server_url("/t"));
  mkdir(home_path(".config"), 0700);
  mkdir(home_path(".config/gcloud"), 0700);
  write_home(".config/gcloud/application_default_credentials.json", text);
  assert_bearer("gs://bucket", "hush-user", "~/.config/gcloud/application_default_credentials.json");
  assert_string_equal(
      r->asked, "grant_type=refresh_token&client_id=id&client_secret=hush%2Bs&refresh_token=1%2F%2Fhush");
  refuse_chain("gs://bucket?endpoint=http://storage.example.org", LAKE_INVALID, "in the clear");
}

static void test_google_machine(void **state) {
  (void)state;
  char host[40];
  snprintf(host, sizeof host, "127.0.0.1:%u", peer_port(t.server));
  setenv("GCE_METADATA_HOST", host, 1);
  rule *r = on("GET", "/computeMetadata/v1/instance/service-accounts/default/token?scopes=", 200,
               "{\"access_token\":\"hush-gce\",\"expires_in\":1200}");
  refuse_chain("gs://bucket", LAKE_DENIED, "no credentials"); /* NO_GCE_CHECK */
  unsetenv("NO_GCE_CHECK");
  assert_bearer("gs://bucket", "hush-gce", "this machine's account");
  assert_true(asked(r, "Metadata-Flavor: Google\r\n"));
  r->status = 404;
  refuse_chain("gs://bucket", LAKE_DENIED, "no credentials for bucket \"bucket\"");
  r->status = 500;
  refuse_chain("gs://bucket", LAKE_UNAVAILABLE, "this machine's account: refused with status 500");
  setenv("GCE_METADATA_HOST", "127.0.0.1:1", 1);
  refuse_chain("gs://bucket", LAKE_UNAVAILABLE, "this machine's account");
}

/* ---- Azure ---- */

static void set_application(void) {
  setenv("AZURE_AUTHORITY_HOST", server_url("/"), 1);
  setenv("AZURE_TENANT_ID", "tenant/1", 1);
  setenv("AZURE_CLIENT_ID", "client", 1);
}

static void test_client_secret(void **state) {
  (void)state;
  rule *r =
      on("POST", "/tenant%2F1/oauth2/v2.0/token", 200, "{\"access_token\":\"hush-app\",\"expires_in\":3599}");
  setenv("AZURE_CLIENT_SECRET", "hush~s/1", 1);
  refuse_chain("az://data?account=acc", LAKE_INVALID, "needs AZURE_TENANT_ID and AZURE_CLIENT_ID");
  set_application();
  assert_bearer("az://data?account=acc", "hush-app", "AZURE_CLIENT_SECRET");
  assert_string_equal(r->asked, "grant_type=client_credentials&client_id=client"
                                "&scope=https%3A%2F%2Fstorage.azure.com%2F.default&client_secret=hush~s%2F1");
  refuse_chain("az://data?account=acc&endpoint=http://azurite:10000", LAKE_INVALID, "in the clear");
  r->status = 401;
  r->body =
      "{\"error\":\"invalid_client\",\"error_description\":\"AADSTS7000215: Invalid client secret hush.\"}";
  refuse_chain("az://data?account=acc", LAKE_DENIED,
               "AZURE_CLIENT_SECRET: refused with status 401, AADSTS7000215");
}

static void test_federated(void **state) {
  (void)state;
  rule *r =
      on("POST", "/tenant%2F1/oauth2/v2.0/token", 200, "{\"access_token\":\"hush-fed\",\"expires_in\":3599}");
  set_application();
  setenv("AZURE_FEDERATED_TOKEN_FILE", home_path("token"), 1);
  refuse_chain("az://data?account=acc", LAKE_DENIED, "AZURE_FEDERATED_TOKEN_FILE: file");
  write_home("token", "hush.a\n");
  open_chain("az://data?account=acc");
  const lki_credentials *a = get(NULL);
  assert_true(
      asked(r, "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer"));
  assert_true(asked(r, "client_assertion=hush.a"));
  write_home("token", "hush.b\n");
  r->body = "{\"access_token\":\"hush-fed-2\",\"expires_in\":3599}";
  const lki_credentials *b = get(a);
  assert_string_equal(b->bearer, "hush-fed-2");
  assert_true(asked(r, "client_assertion=hush.b"));
  put(a);
  put(b);
}

static void test_azure_machine(void **state) {
  (void)state;
  rule *r =
      on("GET",
         "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fstorage.azure.com%2F",
         200, "{\"access_token\":\"hush-vm\",\"expires_in\":\"3599\"}");
  rule *app =
      on("GET", "/msi?api-version=2019-08-01&resource=https%3A%2F%2Fstorage.azure.com%2F&client_id=me", 200,
         "{\"access_token\":\"hush-app\",\"expires_on\":\"4102444800\"}");
  setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", server_url(""), 1);
  assert_bearer("az://data?account=acc", "hush-vm", "this machine's identity");
  assert_true(asked(r, "Metadata: true\r\n"));
  r->status = 400;
  refuse_chain("az://data?account=acc", LAKE_DENIED, "no credentials for container \"data\"");
  r->status = 500;
  refuse_chain("az://data?account=acc", LAKE_UNAVAILABLE, "this machine's identity: refused with status 500");
  setenv("IDENTITY_ENDPOINT", server_url("/msi"), 1);
  setenv("IDENTITY_HEADER", "hush-header", 1);
  setenv("AZURE_CLIENT_ID", "me", 1);
  assert_bearer("az://data?account=acc", "hush-app", "this machine's identity");
  assert_true(asked(app, "X-IDENTITY-HEADER: hush-header\r\n"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      credentials_test(test_imds),          credentials_test(test_container),
      credentials_test(test_web_identity),  credentials_test(test_web_identity_of_profile),
      credentials_test(test_role),          credentials_test(test_service_account),
      credentials_test(test_token_life),    credentials_test(test_assertion_clock),
      credentials_test(test_user_file),     credentials_test(test_google_machine),
      credentials_test(test_client_secret), credentials_test(test_federated),
      credentials_test(test_azure_machine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
