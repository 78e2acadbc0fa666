/* What a cloud store learns from refusals, within one operation: another region, a clock that is off, credentials that
 * have expired, when to come back. Each is mended once, and also under a create, which must then have been sent for the
 * first time only. */
#include "base/env_posix.h"
#include "store/cloud.h"
#include "support/cloud_fixture.h"

static size_t requests(const char *part) { return faultd_log_count(c.server, part); }

static void put_get(const char *key) {
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(cloud_said(lki_store_put_if_absent(c.store, key, cloud_text("v"), test_deadline(c.env), &err), &err), &err);
  cloud_expect_object(key, "v", 1);
}

static void test_region(void **state) {
  (void)state;
  cloud_start(FORM_S3, "&region=us-east-1", "--region", "eu-test-1");
  put_get("k");
  assert_int_equal(requests("create"), 2); /* 301, then right */
  put_get("l");
  assert_int_equal(requests("create"), 3); /* it is known now */
  lake_store *other = cloud_open_another(c.env, "&region=us-east-1");
  lake_object_info info = {0};
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lki_store_head(other, "k", &info, test_deadline(c.env), &err), &err); /* a HEAD's 301 has no body */
  assert_int_equal(info.object_bytes, 1);
  lake_store_close(other);
  cloud_stop();
}

static void test_skew(void **state) {
  (void)state;
  static const cloud_form forms[] = {FORM_S3, FORM_GCS_XML, FORM_AZURE};
  for (size_t i = 0; i < 3; i++) {
    for (int sign = 0; sign < 2; sign++) {
      cloud_start(forms[i], "", NULL, NULL);
      faultd_rule(c.server, sign ? "skew arg=-960" : "skew arg=960");
      put_get("k");
      assert_int_equal(requests("create"), 2);
      put_get("l");
      assert_int_equal(requests("create"), 3);
      assert_non_null(strstr(c.log, "this machine's clock is"));
      cloud_stop();
    }
  }
}

static void write_profile(const char *path, const char *token) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fprintf(f, "[default]\naws_access_key_id = AKID\naws_secret_access_key = %s\naws_session_token = %s\n", CLOUD_SECRET,
          token);
  assert_int_equal(fclose(f), 0);
}

static void test_expired(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  char path[512], url[256];
  cloud_start(FORM_S3, "", NULL, NULL);
  snprintf(path, sizeof path, "%s/credentials", test_scratch());
  write_profile(path, "hush-1");
  unsetenv("AWS_ACCESS_KEY_ID");
  unsetenv("AWS_SECRET_ACCESS_KEY");
  setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
  lake_store_close(c.store);
  snprintf(url, sizeof url, "s3://bucket/x/y?endpoint=%s", c.server->url);
  assert_ok(lake_store_open(c.env, url, &c.store, &err), &err);
  put_get("k");
  /* The file was renewed by whoever does that; every verb finds out once. */
  static const char *const ops[] = {"create", "get", "head", "list", "delete", "put"};
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
    char rule[64], token[32], key[16], seen[32];
    snprintf(token, sizeof token, "hush-%zu", i + 2);
    snprintf(rule, sizeof rule, "expired-token op=%s", ops[i]);
    snprintf(key, sizeof key, "k%zu", i);
    snprintf(seen, sizeof seen, "\"%s\"", ops[i]);
    write_profile(path, token);
    faultd_reset(c.server);
    faultd_rule(c.server, rule);
    put_get(key);
    lake_object_info info = {0};
    assert_ok(cloud_said(lki_store_head(c.store, key, &info, test_deadline(c.env), &err), &err), &err);
    assert_int_equal(info.object_bytes, 1);
    assert_ok(cloud_said(lki_store_list(c.store, "nothing", NULL, NULL, NULL, test_deadline(c.env), &err), &err), &err);
    assert_ok(cloud_said(lki_store_put(c.store, key, cloud_text("w"), test_deadline(c.env), &err), &err), &err);
    assert_ok(cloud_said(lki_store_remove(c.store, key, test_deadline(c.env), &err), &err), &err);
    assert_int_equal(faultd_fired(c.server, "expired-token"), 1);
    /* A HEAD's refusal does not say why: a read of one byte asks again. */
    assert_int_equal(requests(seen), strcmp(ops[i], "head") == 0 ? 1 : 2);
  }
  /* Who gives the same ones again is denied, and says which source it was. */
  faultd_reset(c.server);
  faultd_rule(c.server, "expired-token op=create count=all");
  lake_status s = lki_store_put_if_absent(c.store, "l", cloud_text("v"), test_deadline(c.env), &err);
  assert_status(cloud_said(s, &err), LAKE_DENIED, &err);
  assert_non_null(strstr(err.text, path));
  assert_true(requests("create") <= 2);
  cloud_stop();
}

static void test_wrong_secret(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  cloud_start(FORM_S3, "", NULL, NULL);
  setenv("AWS_SECRET_ACCESS_KEY", "hushwronghush", 1);
  char url[256];
  lake_store *store = NULL;
  snprintf(url, sizeof url, "s3://bucket/x?endpoint=%s", c.server->url);
  assert_ok(lake_store_open(c.env, url, &store, &err), &err);
  lake_status s = lki_store_put_if_absent(store, "k", cloud_text("v"), test_deadline(c.env), &err);
  assert_status(cloud_said(s, &err), LAKE_DENIED, &err);
  assert_non_null(strstr(err.text, "SignatureDoesNotMatch"));
  lake_object_info info;
  assert_status(cloud_said(lki_store_head(store, "k", &info, test_deadline(c.env), &err), &err), LAKE_DENIED, &err);
  lake_store_close(store);
  cloud_stop();
}

/* A store that says when to come back is not asked before, by anybody; whoever cannot wait so long is told at once. */
static void test_retry_after(void **state) {
  (void)state;
  for (int form = 0; form < FORM_COUNT; form++) {
    lake_error err = LAKE_ERROR_INIT;
    cloud_start((cloud_form)form, "", NULL, NULL);
    faultd_rule(c.server, "throttle-429 op=create count=1");
    const uint64_t begin_ns = lki_now_ns(c.env);
    lake_status s = lki_store_put_if_absent(c.store, "k", cloud_text("v"), test_deadline(c.env), &err);
    assert_status(cloud_said(s, &err), LAKE_UNAVAILABLE, &err);
    const size_t before = requests("\"op\"");
    assert_int_equal(before, 1);
    s = lki_store_put_if_absent(c.store, "k", cloud_text("v"), lake_deadline_after_ms(c.env, 100), &err);
    assert_status(s, LAKE_UNAVAILABLE, &err);
    assert_non_null(strstr(err.text, "Retry-After"));
    assert_int_equal(requests("\"op\""), before);
    put_get("k");
    assert_true(lki_now_ns(c.env) - begin_ns >= 1000000000u);
    cloud_stop();
  }
}

/* A machine that draws what the test says and whose sleeps are noted, not slept. */
static unsigned char drawn;
static uint64_t slept_until_ns;

static void draw(void *self, void *dst, size_t bytes) {
  (void)self;
  memset(dst, drawn, bytes);
}

static void note_sleep(void *self, uint64_t at_ns) {
  (void)self;
  slept_until_ns = at_ns;
}

/* All who were told to come back come back at moments of their own: within half of what was asked for, and of what their
 * deadline leaves. */
static void test_spread(void **state) {
  (void)state;
  lki_env_ops table = *lki_env_posix_ops();
  lake_env_options o = LAKE_ENV_OPTIONS_INIT;
  lake_error err = LAKE_ERROR_INIT;
  lake_env *env = NULL;
  const lake_store_ops *ops = NULL;
  void *self = NULL;
  char url[256];
  table.random = draw;
  table.sleep_until = note_sleep;
  cloud_start(FORM_S3, "", NULL, NULL);
  assert_ok(lki_env_wrap(&table, lki_env_posix_new(&o), 0, &env, &err), &err);
  snprintf(url, sizeof url, "s3://bucket/x/y?endpoint=%s", c.server->url);
  assert_ok(lki_store_cloud_open(env, url, &ops, &self, &err), &err);
  lki_cloud_store *store = self;
  faultd_rule(c.server, "throttle-429 op=create count=1 arg=8");
  assert_status(ops->put_if_absent(self, "k", cloud_text("v"), test_deadline(env), &err), LAKE_UNAVAILABLE, &err);
  const uint64_t gate_ns = atomic_load(&store->not_before_ns), second_ns = 1000000000u;
  const struct {
    unsigned char draw;
    lake_deadline deadline;
    uint64_t low_ns, high_ns;
  } cases[] = {{0x00, {gate_ns + 60 * second_ns}, 0, 0},
               {0x80, {gate_ns + 60 * second_ns}, 2 * second_ns, 5 * second_ns / 2},
               {0xff, {gate_ns + 60 * second_ns}, 4 * second_ns - 1000, 4 * second_ns},
               {0xff, {gate_ns + second_ns}, second_ns / 2 - 1000, second_ns / 2}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    lake_object_info info;
    drawn = cases[i].draw;
    slept_until_ns = 0;
    assert_status(ops->head(self, "k", &info, cases[i].deadline, &err), LAKE_NOTFOUND, &err);
    assert_in_range(slept_until_ns - gate_ns, cases[i].low_ns, cases[i].high_ns);
  }
  ops->close(self);
  lake_env_close(env);
  cloud_stop();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_region),       cmocka_unit_test(test_skew),        cmocka_unit_test(test_expired),
      cmocka_unit_test(test_wrong_secret), cmocka_unit_test(test_retry_after),
      cmocka_unit_test(test_spread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
