/* Settings of cloud stores: what the URL, the environment and the files say, which comes first, what is
 * refused, and that a refusal never repeats a secret. */
#include "support/support.h"

#include "base/env.h"
#include "store/settings.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static lake_env *env;
static const char *home;

/* Every variable that settings read: no test sees those of the machine. */
static const char *const variables[] = {"AWS_PROFILE",
                                        "AWS_DEFAULT_PROFILE",
                                        "AWS_CONFIG_FILE",
                                        "AWS_SHARED_CREDENTIALS_FILE",
                                        "AWS_ENDPOINT_URL",
                                        "AWS_ENDPOINT_URL_S3",
                                        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
                                        "AWS_REGION",
                                        "AWS_DEFAULT_REGION",
                                        "AWS_CA_BUNDLE",
                                        "AWS_REQUEST_PAYER",
                                        "AWS_USE_FIPS_ENDPOINT",
                                        "AWS_USE_DUALSTACK_ENDPOINT",
                                        "SSL_CERT_FILE",
                                        "STORAGE_EMULATOR_HOST",
                                        "AZURE_STORAGE_ACCOUNT",
                                        "AZURE_STORAGE_ACCOUNT_NAME",
                                        "AZURE_STORAGE_KEY",
                                        "AZURE_STORAGE_SAS_TOKEN",
                                        "AZURE_STORAGE_CONNECTION_STRING",
                                        "AZURE_STORAGE_BLOB_ENDPOINT",
                                        "AZURE_STORAGE_SERVICE_ENDPOINT"};

static int clean(void **state) {
  (void)state;
  char path[4096];
  for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) unsetenv(variables[i]);
  setenv("HOME", home, 1);
  snprintf(path, sizeof path, "%s/.aws/config", home);
  remove(path);
  snprintf(path, sizeof path, "%s/.aws/credentials", home);
  remove(path);
  return 0;
}

static void write_home(const char *name, const char *text) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", home, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
  assert_int_equal(fclose(f), 0);
}

static void open_settings(const char *url, lki_settings *out) {
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lki_settings_open(env, url, out, &err), &err);
}

static const lki_setting *shown(const lki_settings *s, const char *name) {
  for (size_t i = 0; i < s->shown_count; i++)
    if (strcmp(s->shown[i].name, name) == 0) return &s->shown[i];
  fail_msg("setting %s is not shown", name);
  return NULL;
}

static void assert_shown(const lki_settings *s, const char *name, const char *value, const char *source) {
  const lki_setting *setting = shown(s, name);
  assert_string_equal(setting->value, value);
  assert_string_equal(setting->source, source);
}

/* Opens the URL, and asserts the endpoint and where it is from. */
static void assert_endpoint(const char *url, const char *endpoint, const char *source) {
  lki_settings s;
  open_settings(url, &s);
  assert_string_equal(s.endpoint, endpoint);
  assert_shown(&s, "endpoint", endpoint, source);
  lki_settings_close(&s);
}

static void assert_refused(const char *url, const char *part) {
  lake_error err = LAKE_ERROR_INIT;
  lki_settings s = {.bucket = "untouched"};
  assert_status(lki_settings_open(env, url, &s, &err), LAKE_INVALID, &err);
  assert_string_equal(s.bucket, "untouched");
  if (strstr(err.text, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", err.text, part);
  if (strstr(err.text, "hush") != NULL) fail_msg("\"%s\" tells a secret", err.text);
}

static void assert_canonical(const char *url, const char *want) {
  lake_error err = LAKE_ERROR_INIT;
  char *got = NULL, *again = NULL;
  assert_ok(lki_settings_canonical(env, url, &got, &err), &err);
  assert_string_equal(got, want);
  assert_ok(lki_settings_canonical(env, got, &again, &err), &err);
  assert_string_equal(again, want); /* a fixed point */
  lki_free(env, got);
  lki_free(env, again);
}

static void test_canonical(void **state) {
  (void)state;
  assert_canonical("s3://bucket", "s3://bucket");
  assert_canonical("S3://bucket/", "s3://bucket");
  assert_canonical("s3://bucket/a/b/", "s3://bucket/a/b");
  assert_canonical("s3://bucket/a%20b/c=d/%25/%C3%A9", "s3://bucket/a%20b/c=d/%25/%C3%A9");
  assert_canonical("s3://bucket/a b", "s3://bucket/a%20b");
  assert_canonical("s3://bucket/x?region=eu-west-1&endpoint=http://H:9000/&path_style=1",
                   "s3://bucket/x?endpoint=http://h:9000&path_style=true&region=eu-west-1");
  assert_canonical("s3://bucket/x?&part_mb=0016&", "s3://bucket/x?part_mb=16");
  assert_canonical("s3://bucket/x?endpoint=http%3A%2F%2Fh%3a9000", "s3://bucket/x?endpoint=http://h:9000");
  assert_canonical("s3://bucket/x?sse=aws:kms&sse_key=arn:aws:kms:eu-west-1:1:key/a%26b",
                   "s3://bucket/x?sse=aws:kms&sse_key=arn:aws:kms:eu-west-1:1:key/a%26b");
  assert_canonical("gs://my.bucket_1/run?anonymous=YES", "gs://my.bucket_1/run?anonymous=true");
  assert_canonical("az://data/run?account=acc&endpoint=http://127.0.0.1:10000/acc/",
                   "az://data/run?account=acc&endpoint=http://127.0.0.1:10000/acc");
}

static void test_refused(void **state) {
  (void)state;
  assert_refused("s3:bucket/x", "s3://bucket/prefix");
  assert_refused("s3://", "no bucket is named");
  assert_refused("s3:///x", "no bucket is named");
  assert_refused("az://", "no container is named");
  assert_refused("s3://b", "3 to 255");
  assert_refused("s3://-bad", "3 to 255");
  assert_refused("az://Upper", "lower-case");
  assert_refused("az://a--b", "single dashes");
  assert_refused("s3://bucket/a//b", "\"a//b\" has an empty part; write one '/' where it has two");
  assert_refused("s3://bucket//b", "\"/b\" has an empty part");
  assert_refused("s3://bucket/b//", "\"b/\" has an empty part");
  assert_refused("s3://bucket//", "has an empty part");
  assert_refused("s3://bucket/%2fb", "has an empty part");
  assert_refused("gs://bucket//b", "has an empty part");
  assert_refused("s3://bucket/a/../b", "\"..\"");
  assert_refused("s3://bucket/a/.lake-x", ".lake-");
  assert_refused("s3://bucket/100%", "%25");
  assert_refused("s3://bucket/a%00", "escape");
  assert_refused("s3://bucket/a%0ab", "control character");
  assert_refused("s3://bucket/a#b", "%23");
  assert_refused("s3://bucket/x?regoin=a", "unknown option \"regoin\"");
  assert_refused("s3://bucket/x?account=a", "s3:// has no option account");
  assert_refused("gs://bucket/x?path_style=true", "gs:// has no option path_style");
  assert_refused("s3://bucket/x?region", "has no value");
  assert_refused("s3://bucket/x?region=", "has no value");
  assert_refused("s3://bucket/x?region=a/b", "name of a region");
  assert_refused("s3://bucket/x?region=a&region=b", "given twice");
  assert_refused("s3://bucket/x?path_style=maybe", "true or false");
  assert_refused("s3://bucket/x?part_mb=4", "from 5 to 4000");
  assert_refused("s3://bucket/x?part_mb=4001", "from 5 to 4000");
  assert_refused("s3://bucket/x?part_mb=-1", "from 5 to 4000");
  assert_refused("s3://bucket/x?connections=18446744073709551617", "from 1 to 1024");
  assert_refused("s3://bucket/x?hedge_percent=101", "from 0 to 100");
  assert_refused("s3://bucket/x?sse=DES", "AES256 or aws:kms");
  assert_refused("s3://bucket/x?sse=AES256&sse_key=k", "goes with sse=aws:kms");
  assert_refused("s3://bucket/x?endpoint=h:9000", "begins with https:// or http://");
  assert_refused("s3://bucket/x?endpoint=http://h:0", "https://host:port");
  assert_refused("s3://bucket/x?endpoint=http://h/path", "no path");
  assert_refused("s3://bucket/x?ca_file=/no/such/file", "cannot be read");
  assert_refused("s3://bucket/x?profile=nobody", "no profile \"nobody\"");
  assert_refused("az://data/x", "AZURE_STORAGE_ACCOUNT");
  char long_url[5000];
  memset(long_url, 'a', sizeof long_url);
  memcpy(long_url, "s3://", 5);
  long_url[sizeof long_url - 1] = 0;
  assert_refused(long_url, "longer than");
}

static void test_secrets_in_url(void **state) {
  (void)state;
  assert_refused("s3://AKIA:hush@bucket/x", "without keys");
  assert_refused("s3://AKIA:hush/hush@bucket/x", "without keys");
  assert_refused("s3://bucket/x?aws_secret_access_key=hush", "do not belong into a URL");
  assert_refused("s3://bucket/x?X-Amz-Signature=hush", "do not belong into a URL");
  assert_refused("s3://bucket/x?hush", "unknown option \"...\"");
  assert_refused("s3://bucket/x?hush%2fhush/hush=1", "unknown option \"...\"");
  assert_refused("az://data/x?sv=2021-08-06&sig=hush", "do not belong into a URL");
  assert_refused("az://hush@account/x", "without keys or accounts");
  assert_refused("s3://bucket/x?endpoint=https://user:hush@h", "without user, password");
  setenv("AWS_ENDPOINT_URL", "https://user:hush@h", 1);
  assert_refused("s3://bucket/x", "AWS_ENDPOINT_URL: an endpoint is");
}

static void test_s3_defaults(void **state) {
  (void)state;
  lki_settings s;
  open_settings("s3://my-bucket/run/1", &s);
  assert_int_equal(s.cloud, LKI_CLOUD_S3);
  assert_string_equal(s.bucket, "my-bucket");
  assert_string_equal(s.prefix, "run/1");
  assert_string_equal(s.endpoint, "https://s3.us-east-1.amazonaws.com");
  assert_string_equal(s.region, "us-east-1");
  assert_string_equal(s.profile, "default");
  assert_false(s.path_style || s.anonymous || s.requester_pays || s.emulator);
  assert_null(s.sse);
  assert_null(s.ca_file);
  assert_true(s.part_bytes == (uint64_t)16 << 20);
  assert_true(s.multipart_bytes == (uint64_t)64 << 20);
  assert_int_equal(s.hedge_percent, 0);
  assert_int_equal(s.connections, 0);
  assert_shown(&s, "region", "us-east-1", "default");
  assert_shown(&s, "endpoint", "https://s3.us-east-1.amazonaws.com", "default");
  lki_settings_close(&s);
  open_settings("s3://my-bucket?multipart_mb=0&part_mb=5&hedge_percent=7&connections=9&requester_pays=true",
                &s);
  assert_true(s.multipart_bytes == UINT64_MAX);
  assert_true(s.part_bytes == (uint64_t)5 << 20);
  assert_int_equal(s.hedge_percent, 7);
  assert_int_equal(s.connections, 9);
  assert_true(s.requester_pays);
  assert_shown(&s, "part_mb", "5", "URL");
  lki_settings_close(&s);
}

static void assert_style(const char *url, bool path_style) {
  lki_settings s;
  open_settings(url, &s);
  assert_int_equal(s.path_style, path_style);
  lki_settings_close(&s);
}

static void test_s3_style(void **state) {
  (void)state;
  assert_style("s3://bucket", false);
  assert_style("s3://my.bucket", true); /* the certificate would not match */
  assert_style("s3://My_Bucket", true);
  assert_style("s3://bucket?path_style=true", true);
  assert_style("s3://bucket?endpoint=https://s3.eu-west-1.amazonaws.com", false);
  assert_style("s3://bucket?endpoint=https://s3.cn-north-1.amazonaws.com.cn", false);
  assert_style("s3://bucket?endpoint=https://s3.amazonaws.com.evil.example", true);
  assert_style("s3://bucket?endpoint=https://ceph.site:8443", true);
  assert_style("s3://bucket?endpoint=https://ceph.site:8443&path_style=false", false);
  assert_refused("s3://my.bucket?path_style=false", "cannot be a part of a host name");
  assert_refused("s3://bucket?path_style=false&endpoint=http://10.0.0.1:80", "is an address");
  write_home(".aws/config", "[default]\ns3 =\n  addressing_style = path\n");
  assert_style("s3://bucket", true);
  assert_style("s3://bucket?path_style=false", false);
  write_home(".aws/config", "[default]\ns3 =\n  addressing_style = sideways\n");
  assert_refused("s3://bucket", "auto, path or virtual");
}

static void test_s3_environment(void **state) {
  (void)state;
  lki_settings s;
  setenv("AWS_DEFAULT_REGION", "eu-central-1", 1);
  assert_endpoint("s3://bucket", "https://s3.eu-central-1.amazonaws.com", "default");
  setenv("AWS_REGION", "eu-west-1", 1);
  assert_endpoint("s3://bucket", "https://s3.eu-west-1.amazonaws.com", "default");
  assert_endpoint("s3://bucket?region=cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn", "default");
  setenv("AWS_USE_FIPS_ENDPOINT", "true", 1);
  assert_endpoint("s3://bucket", "https://s3-fips.eu-west-1.amazonaws.com", "default");
  setenv("AWS_USE_DUALSTACK_ENDPOINT", "true", 1);
  assert_endpoint("s3://bucket", "https://s3-fips.dualstack.eu-west-1.amazonaws.com", "default");
  setenv("AWS_ENDPOINT_URL", "http://one:1/", 1);
  assert_endpoint("s3://bucket", "http://one:1", "AWS_ENDPOINT_URL");
  setenv("AWS_ENDPOINT_URL_S3", "http://two:2", 1);
  assert_endpoint("s3://bucket", "http://two:2", "AWS_ENDPOINT_URL_S3");
  assert_endpoint("s3://bucket?endpoint=http://three:3", "http://three:3", "URL");
  setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true", 1);
  assert_endpoint("s3://bucket", "https://s3-fips.dualstack.eu-west-1.amazonaws.com", "default");
  setenv("AWS_REQUEST_PAYER", "requester", 1);
  setenv("AWS_CA_BUNDLE", "/proc/self/status", 1);
  open_settings("s3://bucket", &s);
  assert_true(s.requester_pays);
  assert_shown(&s, "requester_pays", "true", "AWS_REQUEST_PAYER");
  assert_shown(&s, "region", "eu-west-1", "AWS_REGION");
  assert_shown(&s, "ca_file", "/proc/self/status", "AWS_CA_BUNDLE");
  lki_settings_close(&s);
  setenv("AWS_REQUEST_PAYER", "me", 1);
  assert_refused("s3://bucket", "AWS_REQUEST_PAYER");
  unsetenv("AWS_REQUEST_PAYER");
  setenv("AWS_REGION", "eu west", 1);
  assert_refused("s3://bucket", "AWS_REGION: not the name of a region");
  setenv("AWS_REGION", "", 1); /* set to nothing is not set */
  open_settings("s3://bucket", &s);
  assert_shown(&s, "region", "eu-central-1", "AWS_DEFAULT_REGION");
  lki_settings_close(&s);
}

static void test_s3_profiles(void **state) {
  (void)state;
  lki_settings s;
  write_home(".aws/config",
             "[default]\nregion = eu-north-1\n\n[profile prod]\nregion=eu-south-1\nservices = lab\n"
             "endpoint_url = http://all:1\n\n[services lab]\ns3 =\n  endpoint_url = http://lab:2\n");
  write_home(".aws/credentials", "[only-here]\naws_access_key_id = x\n");
  open_settings("s3://bucket", &s);
  assert_shown(&s, "region", "eu-north-1", "~/.aws/config [default]");
  lki_settings_close(&s);
  setenv("AWS_PROFILE", "prod", 1);
  open_settings("s3://bucket", &s);
  assert_shown(&s, "profile", "prod", "AWS_PROFILE");
  assert_false(s.profile_in_url);
  assert_shown(&s, "region", "eu-south-1", "~/.aws/config [profile prod]");
  assert_shown(&s, "endpoint", "http://lab:2", "~/.aws/config [services lab]");
  lki_settings_close(&s);
  open_settings("s3://bucket?profile=only-here", &s);
  assert_true(s.profile_in_url);
  assert_shown(&s, "region", "us-east-1", "default");
  lki_settings_close(&s);
  setenv("AWS_PROFILE", "gone", 1);
  assert_refused("s3://bucket",
                 "AWS_PROFILE: there is no profile \"gone\" in ~/.aws/config or ~/.aws/credentials");
  setenv("AWS_PROFILE", "prod", 1);
  setenv("AWS_CONFIG_FILE", "~/other", 1);
  write_home("other", "[profile prod]\nendpoint_url = http://other:3\n");
  open_settings("s3://bucket", &s);
  assert_shown(&s, "endpoint", "http://other:3", "~/other [profile prod]");
  lki_settings_close(&s);
  write_home("other", "[profile prod]\nhush hush\n");
  assert_refused("s3://bucket", "line 2: not of the form name = value");
  unsetenv("HOME"); /* no home, no files */
  unsetenv("AWS_CONFIG_FILE");
  unsetenv("AWS_PROFILE");
  open_settings("s3://bucket", &s);
  assert_null(s.config_path);
  lki_settings_close(&s);
}

static void test_gcs(void **state) {
  (void)state;
  lki_settings s;
  open_settings("gs://my.bucket/run", &s);
  assert_string_equal(s.endpoint, "https://storage.googleapis.com");
  assert_string_equal(s.region, "auto");
  assert_true(s.path_style);
  assert_false(s.emulator);
  lki_settings_close(&s);
  setenv("STORAGE_EMULATOR_HOST", "127.0.0.1:4443", 1);
  open_settings("gs://bucket", &s);
  assert_shown(&s, "endpoint", "http://127.0.0.1:4443", "STORAGE_EMULATOR_HOST");
  assert_true(s.emulator);
  lki_settings_close(&s);
  setenv("STORAGE_EMULATOR_HOST", "https://h:1/", 1);
  assert_endpoint("gs://bucket", "https://h:1", "STORAGE_EMULATOR_HOST");
  assert_endpoint("gs://bucket?endpoint=http://mine", "http://mine", "URL");
}

static void assert_azure(const char *url, const char *account, const char *endpoint, const char *source) {
  lki_settings s;
  open_settings(url, &s);
  assert_string_equal(s.account, account);
  assert_string_equal(s.endpoint, endpoint);
  assert_shown(&s, "account", account, source);
  lki_settings_close(&s);
}

static void test_azure(void **state) {
  (void)state;
  assert_azure("az://data?account=acc", "acc", "https://acc.blob.core.windows.net", "URL");
  assert_azure("az://data?endpoint=https://acc.blob.core.windows.net", "acc",
               "https://acc.blob.core.windows.net", "URL");
  assert_azure("az://data?account=acc&endpoint=http://127.0.0.1:10000", "acc", "http://127.0.0.1:10000/acc",
               "URL");
  assert_azure("az://data?account=acc&endpoint=http://azurite:10000/other", "acc",
               "http://azurite:10000/other", "URL");
  setenv("AZURE_STORAGE_BLOB_ENDPOINT", "https://blob.site.example", 1);
  setenv("AZURE_STORAGE_ACCOUNT", "mine", 1);
  assert_azure("az://data", "mine", "https://blob.site.example", "AZURE_STORAGE_ACCOUNT");
  setenv("AZURE_STORAGE_CONNECTION_STRING",
         "DefaultEndpointsProtocol=https;AccountName=theirs;AccountKey=aHVzaA==;EndpointSuffix=core."
         "chinacloudapi.cn",
         1);
  assert_azure("az://data", "theirs", "https://theirs.blob.core.chinacloudapi.cn",
               "AZURE_STORAGE_CONNECTION_STRING");
  /* A connection string of another account says nothing about this one. */
  assert_azure("az://data?account=acc", "acc", "https://blob.site.example", "URL");
  setenv("AZURE_STORAGE_CONNECTION_STRING", "BlobEndpoint=http://127.0.0.1:1/theirs;AccountName=theirs", 1);
  assert_azure("az://data", "theirs", "http://127.0.0.1:1/theirs", "AZURE_STORAGE_CONNECTION_STRING");
  setenv("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true", 1);
  assert_azure("az://data", "devstoreaccount1", "http://127.0.0.1:10000/devstoreaccount1",
               "AZURE_STORAGE_CONNECTION_STRING");
  setenv("AZURE_STORAGE_CONNECTION_STRING", "BlobEndpoint=https://h/?sig=hush;SharedAccessSignature=hush", 1);
  assert_refused("az://data", "without user, password");
  /* One that cannot be read is not passed over, neither for other variables nor for the cloud's own endpoint. */
  static const char *const broken[] = {"hush", "AccountName=acc;AccountKey=aHVzaA==;hush",
                                       "AccountName=acc;AccountKey=aHVzaA==;BlobEndpoint", ";;=hush;AccountName=acc"};
  for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
    setenv("AZURE_STORAGE_CONNECTION_STRING", broken[i], 1);
    assert_refused("az://data", "AZURE_STORAGE_CONNECTION_STRING: a part of it is not NAME=VALUE");
    assert_refused("az://data?account=other", "AZURE_STORAGE_CONNECTION_STRING: a part of it is not NAME=VALUE");
  }
  setenv("AZURE_STORAGE_CONNECTION_STRING", "Acount=hush;AccountKey=aHVzaA==", 1);
  assert_refused("az://data", "AZURE_STORAGE_CONNECTION_STRING: it has neither AccountName nor");
  setenv("AZURE_STORAGE_CONNECTION_STRING", " AccountName=acc; AccountKey=aHVzaA== ;\n", 1);
  assert_azure("az://data", "acc", "https://blob.site.example", "AZURE_STORAGE_CONNECTION_STRING");
  unsetenv("AZURE_STORAGE_CONNECTION_STRING");
  setenv("AZURE_STORAGE_ACCOUNT", "No/Such", 1);
  assert_refused("az://data", "AZURE_STORAGE_ACCOUNT: a storage account");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_canonical, clean),      cmocka_unit_test_setup(test_refused, clean),
      cmocka_unit_test_setup(test_secrets_in_url, clean), cmocka_unit_test_setup(test_s3_defaults, clean),
      cmocka_unit_test_setup(test_s3_style, clean),       cmocka_unit_test_setup(test_s3_environment, clean),
      cmocka_unit_test_setup(test_s3_profiles, clean),    cmocka_unit_test_setup(test_gcs, clean),
      cmocka_unit_test_setup(test_azure, clean),
  };
  char folder[4096];
  home = test_scratch();
  snprintf(folder, sizeof folder, "%s/.aws", home);
  if (mkdir(folder, 0700) != 0 || lake_env_open(NULL, &env, NULL) != LAKE_OK) return 1;
  int rc = cmocka_run_group_tests(tests, NULL, NULL);
  lake_env_close(env);
  return rc;
}
