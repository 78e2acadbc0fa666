/* The chain of credentials: which source comes first, what is refused, when what was found is asked for
 * again, and what threads see meanwhile. */
#include "support/credentials_fixture.h"

#define PROCESS_OK                                                                                           \
  "printf "                                                                                                  \
  "'{\"Version\":1,\"AccessKeyId\":\"pid\",\"SecretAccessKey\":\"hush-p\",\"SessionToken\":\"hush-ps\"}'"

static void set_env_keys(void) {
  setenv("AWS_ACCESS_KEY_ID", "eid", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "hush-e", 1);
}

/* ---- S3: order ---- */

static void test_s3_order(void **state) {
  (void)state;
  /* From the last source to the first: each new one goes before those there are. */
  refuse_chain("s3://bucket", LAKE_DENIED,
               "AWS_ACCESS_KEY_ID, role_arn, the credentials file, the config file");
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", server_url("/c"), 1);
  rule *container =
      on("GET", "/c", 200, "{\"AccessKeyId\":\"cid\",\"SecretAccessKey\":\"hush-c\",\"Token\":\"hush-t\"}");
  assert_source("s3://bucket", "cid", "hush-c", "the container's credentials");
  assert_int_equal(container->count, 1);
  write_home(".aws/config", "[default]\ncredential_process = " PROCESS_OK "\n");
  assert_source("s3://bucket", "pid", "hush-p", "credential_process of profile default");
  write_home(
      ".aws/config",
      "[default]\naws_access_key_id = fid\naws_secret_access_key = hush-f\ncredential_process = false\n");
  assert_source("s3://bucket", "fid", "hush-f", "~/.aws/config [default]");
  write_home(".aws/credentials", "[default]\naws_access_key_id = sid\naws_secret_access_key = hush-s\n"
                                 "[prod]\naws_access_key_id = qid\naws_secret_access_key = hush-q\n");
  assert_source("s3://bucket", "sid", "hush-s", "~/.aws/credentials [default]");
  setenv("AWS_PROFILE", "prod", 1);
  assert_source("s3://bucket", "qid", "hush-q", "~/.aws/credentials [prod]");
  set_env_keys();
  assert_source("s3://bucket", "eid", "hush-e", "AWS_ACCESS_KEY_ID in the environment");
  /* A profile in the URL is a choice: keys in the environment are not its. */
  assert_source("s3://bucket?profile=prod", "qid", "hush-q", "~/.aws/credentials [prod]");
  assert_source("s3://bucket?anonymous=true", NULL, NULL, "anonymous=true in the URL");
  assert_int_equal(container->count, 1);
}

static void test_s3_sessions(void **state) {
  (void)state;
  set_env_keys();
  open_chain("s3://bucket");
  const lki_credentials *c = get(NULL);
  assert_null(c->session);
  assert_true(c->expires_wall_ns == UINT64_MAX);
  assert_false(c->anonymous);
  put(c);
  setenv("AWS_SESSION_TOKEN", "hush-session", 1);
  open_chain("s3://bucket");
  c = get(NULL);
  assert_string_equal(c->session, "hush-session");
  put(c);
  unsetenv("AWS_ACCESS_KEY_ID");
  refuse_chain("s3://bucket", LAKE_INVALID, "AWS_SECRET_ACCESS_KEY is set without AWS_ACCESS_KEY_ID");
  unsetenv("AWS_SECRET_ACCESS_KEY");
  write_home(".aws/credentials", "[default]\naws_access_key_id = sid\naws_secret_access_key = hush-s\n"
                                 "aws_session_token = hush-file-session\n");
  open_chain("s3://bucket");
  c = get(NULL);
  assert_string_equal(c->session, "hush-file-session");
  put(c);
  write_home(".aws/credentials", "[default]\naws_secret_access_key = hush-s\n");
  refuse_chain("s3://bucket", LAKE_INVALID,
               "~/.aws/credentials [default]: aws_secret_access_key is there without");
  write_home(".aws/credentials", "[default]\naws_access_key_id = sid\naws_secret_access_key = hush s\n");
  refuse_chain("s3://bucket", LAKE_INVALID, "a blank or a control character");
  write_home(".aws/credentials", "[default]\nhush hush\n");
  refuse_chain("s3://bucket", LAKE_INVALID, "line 2");
  setenv("AWS_ACCESS_KEY_ID", "eid\r\nX-Evil: 1", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "hush-e", 1);
  refuse_chain("s3://bucket", LAKE_INVALID, "a blank or a control character");
}

/* A profile that wants what we cannot do does not silently get another's keys. */
static void test_s3_unsupported(void **state) {
  (void)state;
  write_home(".aws/credentials", "[default]\naws_access_key_id = sid\naws_secret_access_key = hush-s\n");
  write_home(".aws/config", "[default]\nrole_arn = arn:1\n");
  refuse_chain("s3://bucket", LAKE_INVALID, "one of source_profile and credential_source");
  write_home(".aws/config",
             "[default]\nrole_arn = arn:1\nsource_profile = a\ncredential_source = Environment\n");
  refuse_chain("s3://bucket", LAKE_INVALID, "one of source_profile and credential_source");
  write_home(".aws/config", "[default]\nrole_arn = arn:1\nsource_profile = default\nmfa_serial = 7\n");
  refuse_chain("s3://bucket", LAKE_UNSUPPORTED, "mfa_serial is left to AWS's own tool");
  write_home(".aws/config",
             "[default]\nrole_arn = arn:1\nsource_profile = b\n[profile b]\nrole_arn = arn:2\n");
  refuse_chain("s3://bucket", LAKE_UNSUPPORTED, "a source_profile with a role of its own");
  write_home(".aws/config", "[default]\nrole_arn = arn:1\nsource_profile = b\n[profile b]\nregion = x\n");
  refuse_chain("s3://bucket", LAKE_DENIED,
               "role arn:1 of profile default: its source_profile \"b\" has no keys");
  write_home(".aws/config", "[profile sso]\nsso_session = mine\n");
  refuse_chain("s3://bucket?profile=sso", LAKE_UNSUPPORTED, "export-credentials --profile sso");
}

/* ---- S3: commands ---- */

static void config_process(const char *command) {
  char text[16384];
  snprintf(text, sizeof text, "[default]\ncredential_process = %s\n", command);
  write_home(".aws/config", text);
}

static void test_process(void **state) {
  (void)state;
  static const char who[] = "credential_process of profile default: ";
  char want[200];
  config_process("echo hush-output; exit 3");
  snprintf(want, sizeof want, "%sit ended with code 3", who);
  refuse_chain("s3://bucket", LAKE_INVALID, want);
  config_process("kill -9 $$");
  snprintf(want, sizeof want, "%sit was ended by signal 9", who);
  refuse_chain("s3://bucket", LAKE_INVALID, want);
  config_process("echo hush-output");
  snprintf(want, sizeof want, "%snot valid JSON", who);
  refuse_chain("s3://bucket", LAKE_INVALID, want);
  config_process("head -c 70000 /dev/zero");
  snprintf(want, sizeof want, "%sit wrote more than 65536 bytes", who);
  refuse_chain("s3://bucket", LAKE_INVALID, want);
  config_process("printf '{\"Version\":2,\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"hush\"}'");
  refuse_chain("s3://bucket", LAKE_INVALID, "not of Version 1");
  config_process("printf '{\"Version\":1,\"SecretAccessKey\":\"hush\"}'");
  refuse_chain("s3://bucket", LAKE_DENIED, "lacks AccessKeyId");
  config_process("printf '{\"Version\":1,\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"hush\","
                 "\"Expiration\":\"2001-01-01T00:00:00Z\"}'");
  refuse_chain("s3://bucket", LAKE_DENIED, "expired already");
  config_process(
      "printf '{\"Version\":1,\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"hush\",\"Expiration\":\"soon\"}'");
  refuse_chain("s3://bucket", LAKE_DENIED, "Expiration is not a time");
  /* Standard input is empty: who asks there gets no answer, rather than the terminal. */
  config_process("cat >/dev/null; " PROCESS_OK " # a comment of the shell");
  assert_source("s3://bucket", "pid", "hush-p", "credential_process of profile default");
}

/* At the deadline all that the command started is gone, and the deadline is not exceeded by waiting for it.
 */
static void test_process_deadline(void **state) {
  (void)state;
  char command[13000];
  lake_error err = LAKE_ERROR_INIT;
  const lki_credentials *c = NULL;
  snprintf(command, sizeof command, "mkfifo %s/p; (cat %s/p) & cat %s/p", t.home, t.home, t.home);
  config_process(command);
  open_chain("s3://bucket");
  lake_deadline soon = lake_deadline_after_ms(t.env, 300);
  assert_status(lki_credentials_get(t.chain, NULL, soon, &c, &err), LAKE_TIMEOUT, &err);
  assert_non_null(strstr(err.text, "was killed"));
}

/* ---- renewal ---- */

/* A container whose credentials end in so many seconds by the test's clock. */
static void container_body(char body[300], const char *id, int64_t seconds) {
  time_t ends = (time_t)(lki_wall_ns(t.env) / 1000000000u) + seconds;
  char when[40];
  struct tm tm;
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&ends, &tm));
  snprintf(body, 300,
           "{\"AccessKeyId\":\"%s\",\"SecretAccessKey\":\"hush\",\"Token\":\"hush-t\",\"Expiration\":\"%s\"}",
           id, when);
}

static rule *open_container(char body[300], const char *id, int64_t seconds) {
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", server_url("/c"), 1);
  container_body(body, id, seconds);
  rule *r = on("GET", "/c", 200, body);
  open_chain("s3://bucket");
  return r;
}

static void assert_id(const lki_credentials *rejected, const char *id) {
  const lki_credentials *c = get(rejected);
  assert_string_equal(c->key_id, id);
  put(c);
}

static void test_renewed_before_end(void **state) {
  (void)state;
  char body[300];
  rule *r = open_container(body, "one", 3600);
  assert_id(NULL, "one");
  container_body(body, "two", 7200);
  move_clock_s(3600 - 300 - 60 - 10); /* before the margin and its jitter */
  assert_id(NULL, "one");
  assert_int_equal(r->count, 1);
  move_clock_s(80); /* after both */
  assert_id(NULL, "two");
  assert_id(NULL, "two");
  assert_int_equal(r->count, 2);
}

/* Short-lived ones are not asked for at each request. */
static void test_short_life(void **state) {
  (void)state;
  char body[300];
  rule *r = open_container(body, "one", 100);
  assert_id(NULL, "one");
  move_clock_s(40);
  assert_id(NULL, "one");
  assert_int_equal(r->count, 1);
  move_clock_s(20);
  container_body(body, "two", 100);
  assert_id(NULL, "two");
  assert_int_equal(r->count, 2);
}

static void test_renewal_fails(void **state) {
  (void)state;
  char body[300];
  rule *r = open_container(body, "one", 3600);
  assert_id(NULL, "one");
  move_clock_s(3600 - 200);
  r->status = 500;
  assert_id(NULL, "one"); /* what is valid goes on */
  assert_int_equal(r->count, 2);
  assert_true(logged(
      "could not be renewed; those there are go on: the container's credentials: refused with status 500"));
  assert_id(NULL, "one");
  assert_int_equal(r->count, 2); /* not at each request */
  move_clock_s(300);             /* now it has ended */
  assert_none(NULL, LAKE_UNAVAILABLE, "the container's credentials: refused with status 500");
  unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  assert_none(NULL, LAKE_UNAVAILABLE, "no credentials"); /* there were some: it may come back */
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", server_url("/c"), 1);
  r->status = 200;
  container_body(body, "two", 3600);
  assert_id(NULL, "two");
}

/* A machine whose clock is hours off still knows how long its credentials are good. */
static void test_wrong_clock(void **state) {
  (void)state;
  char body[300], date[100];
  rule *r = open_container(body, "one", 3600);
  time_t now = (time_t)(lki_wall_ns(t.env) / 1000000000u);
  struct tm tm;
  strftime(date, sizeof date, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", gmtime_r(&now, &tm));
  r->headers = date;
  move_clock_s(6 * 3600); /* by our clock they have ended long ago */
  assert_id(NULL, "one");
  move_clock_s(3000);
  assert_id(NULL, "one");
  assert_int_equal(r->count, 1);
}

/* ---- rejected by a store ---- */

static void test_rejected(void **state) {
  (void)state;
  char body[300];
  rule *r = open_container(body, "one", 3600);
  const lki_credentials *a = get(NULL), *b = get(NULL);
  assert_ptr_equal(a, b);
  container_body(body, "two", 3600);
  assert_id(a, "two"); /* asked again */
  assert_id(b, "two"); /* once for all who come with the same one */
  assert_id(NULL, "two");
  assert_int_equal(r->count, 2);
  put(a);
  put(b);
  a = get(NULL);
  assert_none(a, LAKE_DENIED, "which gives the same ones again");
  assert_int_equal(r->count, 3);
  r->status = 403;
  put(a);
  a = get(NULL);
  assert_none(a, LAKE_DENIED, "refused with status 403");
  put(a);
}

static void test_file_is_read_again(void **state) {
  (void)state;
  write_home(".aws/credentials", "[default]\naws_access_key_id = one\naws_secret_access_key = hush-1\n");
  open_chain("s3://bucket");
  const lki_credentials *a = get(NULL);
  assert_string_equal(a->key_id, "one");
  write_home(".aws/credentials", "[default]\naws_access_key_id = two\naws_secret_access_key = hush-2\n");
  assert_id(NULL, "one");
  assert_id(a, "two");
  assert_string_equal(a->secret, "hush-1"); /* a snapshot does not change */
  put(a);
}

/* ---- threads ---- */

#define THREADS 8

static void *get_one(void *arg) {
  const lki_credentials **out = arg;
  lake_error err = LAKE_ERROR_INIT;
  if (lki_credentials_get(t.chain, NULL, test_deadline(t.env), out, &err) != LAKE_OK) *out = NULL;
  return NULL;
}

static void test_one_asks_for_all(void **state) {
  (void)state;
  char body[300];
  pthread_t threads[THREADS];
  const lki_credentials *got[THREADS] = {0};
  rule *r = open_container(body, "one", 3600);
  set_gate(true);
  for (size_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, get_one, &got[i]), 0);
  wait_at_gate(1);
  set_gate(false);
  for (size_t i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_non_null(got[i]);
    assert_ptr_equal(got[i], got[0]);
  }
  assert_int_equal(r->count, 1);
  for (size_t i = 0; i < THREADS; i++) put(got[i]);
}

/* Whoever will not wait is given what is there as long as nobody has to ask for it. */
static bool peek(void) {
  const lki_credentials *c = NULL;
  const bool there = lki_credentials_peek(t.chain, &c);
  assert_int_equal(there, c != NULL);
  if (there) put(c);
  return there;
}

static void test_others_go_on(void **state) {
  (void)state;
  char body[300];
  pthread_t renewer;
  const lki_credentials *renewed = NULL;
  rule *r = open_container(body, "one", 3600);
  assert_false(peek());
  assert_id(NULL, "one");
  assert_true(peek());
  move_clock_s(3600 - 200);
  assert_false(peek());
  assert_int_equal(r->count, 1);
  container_body(body, "two", 3600);
  set_gate(true);
  assert_int_equal(pthread_create(&renewer, NULL, get_one, &renewed), 0);
  wait_at_gate(1);
  for (int i = 0; i < 100; i++) assert_id(NULL, "one"); /* nobody waits while it is valid */
  assert_false(peek());
  set_gate(false);
  pthread_join(renewer, NULL);
  assert_non_null(renewed);
  assert_string_equal(renewed->key_id, "two");
  assert_int_equal(r->count, 2);
  assert_true(peek());
  put(renewed);
}

static void test_waiter_has_its_deadline(void **state) {
  (void)state;
  char body[300];
  pthread_t first;
  const lki_credentials *got = NULL, *none = NULL;
  lake_error err = LAKE_ERROR_INIT;
  open_container(body, "one", 3600);
  set_gate(true);
  assert_int_equal(pthread_create(&first, NULL, get_one, &got), 0);
  wait_at_gate(1);
  lake_deadline soon = lake_deadline_after_ms(t.env, 50);
  assert_status(lki_credentials_get(t.chain, NULL, soon, &none, &err), LAKE_TIMEOUT, &err);
  assert_null(none);
  set_gate(false);
  pthread_join(first, NULL);
  assert_non_null(got);
  put(got);
}

/* ---- Google and Azure without a server ---- */

static void test_gcs_keys(void **state) {
  (void)state;
  refuse_chain("gs://bucket", LAKE_DENIED,
               "GOOGLE_ACCESS_KEY_ID, STORAGE_EMULATOR_HOST, GOOGLE_APPLICATION_CREDENTIALS");
  write_home(".boto", "[Credentials]\ngs_access_key_id = bid\ngs_secret_access_key = hush-b\n");
  assert_source("gs://bucket", "bid", "hush-b", "~/.boto [Credentials]");
  setenv("GOOGLE_APPLICATION_CREDENTIALS", home_path("none.json"), 1);
  refuse_chain("gs://bucket", LAKE_DENIED, "GOOGLE_APPLICATION_CREDENTIALS: file");
  write_home("key.json", "{\"type\":\"external_account\"}");
  setenv("GOOGLE_APPLICATION_CREDENTIALS", home_path("key.json"), 1);
  refuse_chain("gs://bucket", LAKE_UNSUPPORTED, "service account");
  write_home("key.json", "{\"type\":\"service_account\",\"client_email\":\"me\"}");
  refuse_chain("gs://bucket", LAKE_INVALID, "no \"private_key\"");
  write_home("key.json", "{\"type\":\"service_account\",\"client_email\":\"me\",\"private_key\":\"hush\"}");
  refuse_chain("gs://bucket", LAKE_INVALID, "GOOGLE_APPLICATION_CREDENTIALS: ");
  write_home("key.json", "hush");
  refuse_chain("gs://bucket", LAKE_INVALID, "not valid JSON");
  setenv("STORAGE_EMULATOR_HOST", "127.0.0.1:1", 1);
  assert_source("gs://bucket", NULL, NULL, "STORAGE_EMULATOR_HOST needs none");
  setenv("GOOGLE_ACCESS_KEY_ID", "gid", 1);
  refuse_chain("gs://bucket", LAKE_INVALID, "only one is set");
  setenv("GOOGLE_SECRET_ACCESS_KEY", "hush-g", 1);
  assert_source("gs://bucket", "gid", "hush-g", "GOOGLE_ACCESS_KEY_ID in the environment");
}

static void assert_sas(const char *url, const char *sas, const char *source) {
  open_chain(url);
  const lki_credentials *c = get(NULL);
  assert_string_equal(c->sas, sas);
  assert_null(c->secret);
  assert_string_equal(c->source, source);
  put(c);
}

static void test_azure_keys(void **state) {
  (void)state;
  unsetenv("AZURE_STORAGE_ACCOUNT");
  setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", server_url(""), 1); /* nobody's machine */
  refuse_chain("az://data?account=acc", LAKE_DENIED, "AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN");
  setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=2021&sig=hush%3D", 1);
  assert_sas("az://data?account=acc", "sv=2021&sig=hush%3D", "AZURE_STORAGE_SAS_TOKEN");
  refuse_chain("az://data?account=acc&endpoint=http://10.1.2.3:10000", LAKE_INVALID, "in the clear");
  setenv("AZURE_STORAGE_SAS_TOKEN", "hush", 1);
  refuse_chain("az://data?account=acc", LAKE_INVALID,
               "AZURE_STORAGE_SAS_TOKEN: not a shared access signature");
  setenv("AZURE_STORAGE_KEY", "aHVzaA==", 1);
  assert_source("az://data?account=acc", "acc", "aHVzaA==", "AZURE_STORAGE_KEY");
  setenv("AZURE_STORAGE_KEY", "hush!", 1);
  refuse_chain("az://data?account=acc", LAKE_INVALID, "AZURE_STORAGE_KEY: an account's key is base64");
  setenv("AZURE_STORAGE_CONNECTION_STRING",
         "AccountName=acc;AccountKey=aHVzaDI=;EndpointSuffix=core.windows.net", 1);
  assert_source("az://data", "acc", "aHVzaDI=", "AZURE_STORAGE_CONNECTION_STRING");
  setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=acc;SharedAccessSignature=sv=1&sig=hush", 1);
  assert_sas("az://data", "sv=1&sig=hush", "AZURE_STORAGE_CONNECTION_STRING");
  setenv("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true", 1);
  open_chain("az://data");
  const lki_credentials *c = get(NULL);
  assert_string_equal(c->key_id, "devstoreaccount1");
  put(c);
  /* What the environment says of one account does not go to another. */
  setenv("AZURE_STORAGE_ACCOUNT", "mine", 1);
  setenv("AZURE_STORAGE_KEY", "aHVzaA==", 1);
  refuse_chain("az://data?account=theirs", LAKE_DENIED, "no credentials for container \"data\"");
  refuse_chain("az://data?account=theirs", LAKE_DENIED, "AZURE_STORAGE_CONNECTION_STRING was passed over, since it is of another account");
  unsetenv("AZURE_STORAGE_CONNECTION_STRING");
  refuse_chain("az://data?account=theirs", LAKE_DENIED,
               "; AZURE_STORAGE_KEY was passed over, since AZURE_STORAGE_ACCOUNT is another account than theirs; for what");
  unsetenv("AZURE_STORAGE_KEY");
  setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=hush", 1);
  refuse_chain("az://data?account=theirs", LAKE_DENIED, "AZURE_STORAGE_SAS_TOKEN was passed over, since AZURE_STORAGE_ACCOUNT");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      credentials_test(test_s3_order),           credentials_test(test_s3_sessions),
      credentials_test(test_s3_unsupported),     credentials_test(test_process),
      credentials_test(test_process_deadline),   credentials_test(test_renewed_before_end),
      credentials_test(test_short_life),         credentials_test(test_renewal_fails),
      credentials_test(test_wrong_clock),        credentials_test(test_rejected),
      credentials_test(test_file_is_read_again), credentials_test(test_one_asks_for_all),
      credentials_test(test_others_go_on),       credentials_test(test_waiter_has_its_deadline),
      credentials_test(test_gcs_keys),           credentials_test(test_azure_keys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
