/* Every allocation of settings and credentials fails once: the answer is NOMEM, nothing is left behind,
 * outputs are untouched, and the same call goes through afterwards. */
#include "support/scarce.h"

#include "base/env.h"
#include "store/credentials.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Opens, gets and closes everything once. */
static lake_status all(lake_env *env, const char *url, lake_error *err) {
  lki_settings settings = {.bucket = "untouched"};
  lki_credentials_chain *chain = NULL;
  const lki_credentials *c = NULL;
  char *canonical = NULL;
  lake_status s = lki_settings_canonical(env, url, &canonical, err);
  if (s != LAKE_OK) {
    assert_null(canonical);
    return s;
  }
  s = lki_settings_open(env, canonical, &settings, err);
  lki_free(env, canonical);
  if (s != LAKE_OK) {
    assert_string_equal(settings.bucket, "untouched");
    return s;
  }
  s = lki_credentials_open(env, &settings, NULL, &chain, err);
  if (s == LAKE_OK) s = lki_credentials_get(chain, NULL, test_deadline(env), &c, err);
  if (s == LAKE_OK)
    assert_true(c->secret != NULL || c->sas != NULL);
  else
    assert_null(c);
  if (c != NULL) lki_credentials_release(chain, c);
  lki_credentials_close(chain);
  lki_settings_close(&settings);
  return s;
}

static void fail_each(const char *url) {
  lake_env *env = NULL;
  lake_error err = LAKE_ERROR_INIT;
  scarce memory;
  const lake_env_options options = scarce_options(&memory);
  assert_ok(lake_env_open(&options, &env, &err), &err);
  const long before = atomic_load(&memory.live);
  assert_ok(all(env, url, &err), &err);
  long failed = 0;
  for (long n = 0;; n++, failed++) {
    scarce_fail_at(&memory, n);
    lake_status s = all(env, url, &err);
    assert_int_equal(atomic_load(&memory.live), before);
    if (!scarce_failed(&memory)) { /* there are no more */
      assert_ok(s, &err);
      break;
    }
    assert_status(s, LAKE_NOMEM, &err);
  }
  if (failed < 5) fail_msg("%s: only %ld allocations", url, failed);
  lake_env_close(env);
}

static void test_s3(void **state) {
  (void)state;
  char folder[4096], path[4200];
  const char *home = test_scratch();
  snprintf(folder, sizeof folder, "%s/.aws", home);
  setenv("HOME", home, 1);
  assert_int_equal(mkdir(folder, 0700), 0);
  snprintf(path, sizeof path, "%s/config", folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs("[profile a]\nregion = eu-west-1\nservices = s\naws_access_key_id = i\naws_secret_access_key = k\n"
        "aws_session_token = t\ns3 =\n  addressing_style = path\n[services s]\ns3 =\n  endpoint_url = "
        "http://h\n",
        f);
  assert_int_equal(fclose(f), 0);
  fail_each("s3://bucket/prefix?profile=a");
  snprintf(path, sizeof path, "%s/credentials", folder);
  f = fopen(path, "w");
  assert_non_null(f);
  fputs("[default]\ncredential_process = printf "
        "'{\"Version\":1,\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"k\"}'\n",
        f);
  assert_int_equal(fclose(f), 0);
  fail_each("s3://bucket/prefix");
  setenv("AWS_ACCESS_KEY_ID", "i", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "k", 1);
  setenv("AWS_SESSION_TOKEN", "t", 1);
  fail_each("s3://bucket/prefix?region=x&part_mb=5");
}

static void test_gcs(void **state) {
  (void)state;
  setenv("GOOGLE_ACCESS_KEY_ID", "i", 1);
  setenv("GOOGLE_SECRET_ACCESS_KEY", "k", 1);
  fail_each("gs://bucket/prefix");
}

static void test_azure(void **state) {
  (void)state;
  setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=x", 1);
  fail_each("az://data/prefix?account=a");
  setenv("AZURE_STORAGE_CONNECTION_STRING",
         "AccountName=a;AccountKey=aHVzaA==;EndpointSuffix=core.windows.net", 1);
  fail_each("az://data/prefix");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_s3),
      cmocka_unit_test(test_gcs),
      cmocka_unit_test(test_azure),
  };
  static const char *const variables[] = {
      "AWS_PROFILE", "AWS_CONFIG_FILE",       "AWS_SHARED_CREDENTIALS_FILE", "AWS_ENDPOINT_URL",
      "AWS_REGION",  "STORAGE_EMULATOR_HOST", "AZURE_STORAGE_ACCOUNT",       "AZURE_STORAGE_BLOB_ENDPOINT"};
  for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) unsetenv(variables[i]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
