/* For tests of the cloud stores on the fault server: one server and one store in one of the forms in which the library
 * speaks to a cloud, in a clean environment, with every line of the log kept. Every secret has "hush" in it, so that the
 * end of each test can assert that no line and no error told one. */
#ifndef LAKE_TESTS_CLOUD_FIXTURE_H
#define LAKE_TESTS_CLOUD_FIXTURE_H

#include "base/buffer.h"
#include "base/env.h"
#include "store/store.h"
#include "support/faultd.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum cloud_form { FORM_S3, FORM_GCS_XML, FORM_GCS_JSON, FORM_AZURE, FORM_COUNT } cloud_form;

static const char *const form_names[FORM_COUNT] = {"s3", "gcs by keys", "gcs by tokens", "azure"};

#define CLOUD_SECRET "hushhushhushhush"
#define CLOUD_SECRET_BASE64 "aHVzaGh1c2hodXNoaHVzaA=="

static struct {
  cloud_form form;
  lake_env *env;
  faultd *server;
  lake_store *store;
  pthread_mutex_t lock;
  size_t log_bytes;
  char log[1 << 20];
} c = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline void cloud_keep_line(void *ctx, lake_log_level level, const char *line) {
  (void)ctx, (void)level;
  pthread_mutex_lock(&c.lock);
  const int n = snprintf(c.log + c.log_bytes, sizeof c.log - c.log_bytes, "%s\n", line);
  if (n > 0 && (size_t)n < sizeof c.log - c.log_bytes) c.log_bytes += (size_t)n;
  pthread_mutex_unlock(&c.lock);
}

static inline void assert_no_secret(const char *text) {
  if (strstr(text, "hush") != NULL || strstr(text, "aHVza") != NULL) fail_msg("a secret in: %s", text);
}

static inline void cloud_clean_environment(void) {
  static const char *const names[] = {
      "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION",
      "AWS_DEFAULT_REGION", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_SECRET",
      "STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_ACCESS_KEY_ID", "GOOGLE_SECRET_ACCESS_KEY",
      "http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unsetenv(names[i]);
  setenv("AWS_CONFIG_FILE", "/dev/null", 1);
  setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
  setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
}

/* options: of the URL, "&name=value" each, or "". The store is c.store; asserts. */
static inline lake_store *cloud_open_another(lake_env *env, const char *options) {
  char url[512];
  lake_store *store = NULL;
  lake_error err = LAKE_ERROR_INIT;
  cloud_clean_environment();
  switch (c.form) {
  case FORM_S3:
    setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", CLOUD_SECRET, 1);
    snprintf(url, sizeof url, "s3://bucket/x/y?endpoint=%s%s", c.server->url, options);
    break;
  case FORM_GCS_XML:
    setenv("GOOGLE_ACCESS_KEY_ID", "GOOGID", 1);
    setenv("GOOGLE_SECRET_ACCESS_KEY", CLOUD_SECRET, 1);
    snprintf(url, sizeof url, "gs://bucket/x/y?endpoint=%s%s", c.server->url, options);
    break;
  case FORM_GCS_JSON:
    setenv("STORAGE_EMULATOR_HOST", c.server->url, 1);
    snprintf(url, sizeof url, "gs://bucket/x/y%s%s", options[0] ? "?" : "", options[0] ? options + 1 : "");
    break;
  case FORM_AZURE:
    setenv("AZURE_STORAGE_ACCOUNT", "acc", 1);
    setenv("AZURE_STORAGE_KEY", CLOUD_SECRET_BASE64, 1);
    snprintf(url, sizeof url, "az://bucket/x/y?endpoint=%s/acc%s", c.server->url, options);
    break;
  case FORM_COUNT: break;
  }
  assert_ok(lake_store_open(env, url, &store, &err), &err);
  return store;
}

/* A server of this form's dialect, which looks at signatures where there are any, with one option more, and a store on
 * it. */
static inline void cloud_start(cloud_form form, const char *options, const char *flag, const char *value) {
  static const char *const dialects[FORM_COUNT] = {"s3", "gcs", "gcs", "azure"};
  static const char *const ids[FORM_COUNT] = {"AKID", "GOOGID", NULL, "acc"};
  const char *secret = form == FORM_AZURE ? CLOUD_SECRET_BASE64 : CLOUD_SECRET;
  lake_env_options o = LAKE_ENV_OPTIONS_INIT;
  o.log_level = LAKE_LOG_DEBUG;
  o.log = cloud_keep_line;
  c.form = form;
  c.log_bytes = 0;
  c.log[0] = 0;
  assert_int_equal(lake_env_open(&o, &c.env, NULL), LAKE_OK);
  if (ids[form] != NULL) c.server = faultd_start(dialects[form], "--auth", ids[form], secret, flag, value, NULL);
  else c.server = faultd_start(dialects[form], flag, value, NULL);
  c.store = cloud_open_another(c.env, options);
}

static inline void cloud_stop(void) {
  lake_store_close(c.store);
  faultd_stop(c.server);
  lake_env_close(c.env);
  assert_no_secret(c.log);
}

static inline lake_bytes cloud_text(const char *text) { return (lake_bytes){text, strlen(text)}; }

/* The status of one operation; its error must tell no secret. */
static inline lake_status cloud_said(lake_status s, const lake_error *err) {
  if (s != LAKE_OK) assert_no_secret(err->text);
  return s;
}

static inline void cloud_expect_object(const char *key, const void *data, size_t bytes) {
  lake_buffer out;
  lake_error err = LAKE_ERROR_INIT;
  lki_buffer_init(&out, c.env, (size_t)64 << 20);
  assert_ok(lki_store_get(c.store, key, lki_range_whole(), &out, NULL, test_deadline(c.env), &err), &err);
  assert_int_equal(out.bytes, bytes);
  if (bytes > 0) assert_memory_equal(out.data, data, bytes);
  lki_buffer_free(&out);
}

#endif
