#include "support/clouds.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY "AKIAEXAMPLE"
#define SECRET "c2VjcmV0LW9mLWEtdGVzdC1hbmQtb2Ytbm9ib2R5" /* base64, as Azure's are; any text for the others */

static const char *const names[CLOUD_COUNT] = {"s3", "gcs by key", "gcs by token", "azure"};

static const char *const variables[] = {
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "GOOGLE_ACCESS_KEY_ID",
    "GOOGLE_SECRET_ACCESS_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST", "BOTO_CONFIG", "CLOUDSDK_CONFIG",
    "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_SAS_TOKEN",
    "http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"};

static void clear_environment(void) {
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
  setenv("HOME", test_scratch(), 1);
  setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  setenv("NO_GCE_CHECK", "true", 1);
}

void cloud_renew(cloud *c) {
  char fresh[sizeof c->file + 8];
  snprintf(fresh, sizeof fresh, "%s.new", c->file);
  FILE *file = fopen(fresh, "w");
  assert_non_null(file);
  fprintf(file, "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\naws_session_token = token-%u\n", KEY, SECRET,
          ++c->renewals);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(rename(fresh, c->file), 0);
}

cloud *cloud_start(cloud_kind kind) {
  cloud *c = calloc(1, sizeof *c);
  assert_non_null(c);
  c->kind = kind;
  c->name = names[kind];
  clear_environment();
  switch (kind) {
  case CLOUD_S3:
    c->server = faultd_start("s3", "--auth", KEY, SECRET, "--region", "us-east-1", NULL);
    snprintf(c->file, sizeof c->file, "%s/credentials", test_scratch());
    setenv("AWS_SHARED_CREDENTIALS_FILE", c->file, 1);
    cloud_renew(c);
    break;
  case CLOUD_GCS_KEY:
    c->server = faultd_start("gcs", "--auth", KEY, SECRET, NULL);
    setenv("GOOGLE_ACCESS_KEY_ID", KEY, 1);
    setenv("GOOGLE_SECRET_ACCESS_KEY", SECRET, 1);
    break;
  case CLOUD_GCS_TOKEN:
    c->server = faultd_start("gcs", NULL);
    setenv("STORAGE_EMULATOR_HOST", c->server->url, 1);
    break;
  case CLOUD_AZURE:
    c->server = faultd_start("azure", "--auth", "account", SECRET, NULL);
    setenv("AZURE_STORAGE_KEY", SECRET, 1);
    break;
  case CLOUD_COUNT: fail();
  }
  return c;
}

void cloud_stop(cloud *c) {
  if (c == NULL) return;
  faultd_stop(c->server);
  free(c);
}

const char *cloud_url(cloud *c, const char *prefix) {
  const char *endpoint = c->server->url;
  switch (c->kind) {
  case CLOUD_S3: snprintf(c->url, sizeof c->url, "s3://bucket/%s?endpoint=%s", prefix, endpoint); break;
  case CLOUD_GCS_KEY: snprintf(c->url, sizeof c->url, "gs://bucket/%s?endpoint=%s", prefix, endpoint); break;
  case CLOUD_GCS_TOKEN: snprintf(c->url, sizeof c->url, "gs://bucket/%s", prefix); break;
  case CLOUD_AZURE: snprintf(c->url, sizeof c->url, "az://container/%s?account=account&endpoint=%s", prefix, endpoint); break;
  case CLOUD_COUNT: break;
  }
  return c->url;
}

typedef struct cloud_test {
  void (*test)(cloud_kind kind);
  cloud_kind kind;
} cloud_test;

static void on_one(void **state) {
  const cloud_test *t = *state;
  t->test(t->kind);
}

int cloud_run(void (*test)(cloud_kind kind), const cloud_kind *kinds, size_t count) {
  cloud_test states[CLOUD_COUNT];
  struct CMUnitTest tests[CLOUD_COUNT];
  assert_true(count > 0 && count <= CLOUD_COUNT);
  for (size_t i = 0; i < count; i++) {
    states[i] = (cloud_test){test, kinds[i]};
    tests[i] = (struct CMUnitTest){.name = names[kinds[i]], .test_func = on_one, .initial_state = &states[i]};
  }
  return _cmocka_run_group_tests("clouds", tests, count, NULL, NULL);
}

int cloud_run_all(void (*test)(cloud_kind kind)) {
  static const cloud_kind all[] = {CLOUD_S3, CLOUD_GCS_KEY, CLOUD_GCS_TOKEN, CLOUD_AZURE};
  return cloud_run(test, all, sizeof all / sizeof *all);
}
