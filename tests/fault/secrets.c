/* No secret gets into a log line or an error, at any level: every operation under every fault of the fault
 * server, with credentials that are accepted, refused and expired, on each dialect; and a server that repeats
 * all it was sent. Every secret here has "hush" in it, or is the base64 of something that begins so. */
#include "support/credentials_fixture.h"

#include "base/buffer.h"
#include "store/store.h"
#include "support/faultd.h"

static const char *const faults[] = {"drop-request",
                                     "drop-reply",
                                     "duplicate",
                                     "late-put",
                                     "error-500",
                                     "slowdown-503",
                                     "throttle-429",
                                     "taken-409",
                                     "taken-304",
                                     "error-200",
                                     "short-body",
                                     "conflict-409-undecided",
                                     "extra-bytes",
                                     "bit-flip",
                                     "close-delimited",
                                     "range-wrong",
                                     "range-ignored",
                                     "stale-manifest",
                                     "stale-list",
                                     "reset",
                                     "drip",
                                     "stall",
                                     "skew",
                                     "expired-token",
                                     "ignore-condition",
                                     "invert-condition"};

static unsigned failed_count;

static void look(lake_status s, const lake_error *err) {
  if (s == LAKE_OK) return;
  failed_count++;
  if (strstr(err->text, "hush") != NULL || strstr(err->text, "aHVzaC") != NULL)
    fail_msg("an error tells a secret: %s", err->text);
}

static bool ignore_key(void *ctx, const char *key, uint64_t object_bytes) {
  (void)ctx, (void)key, (void)object_bytes;
  return true;
}

/* Every operation once. */
static void all_operations(lake_store *store, uint64_t timeout_ms) {
  lake_bytes body = {"0123456789abcdef", 16};
  lake_buffer out;
  lake_object_info info;
  lake_error err = LAKE_ERROR_INIT;
  for (int i = 0; i < 6; i++) {
    lake_deadline deadline = lake_deadline_after_ms(t.env, timeout_ms);
    lki_buffer_init(&out, t.env, 1000);
    lake_status s = i == 0   ? lki_store_put(store, "run/a", body, deadline, &err)
                    : i == 1 ? lki_store_put_if_absent(store, "run/manifest/1", body, deadline, &err)
                    : i == 2
                        ? lki_store_get(store, "run/a", lki_range_exact(3, 5), &out, &info, deadline, &err)
                    : i == 3 ? lki_store_head(store, "run/a", &info, deadline, &err)
                    : i == 4 ? lki_store_list(store, "run/", NULL, ignore_key, NULL, deadline, &err)
                             : lki_store_remove(store, "run/a", deadline, &err);
    look(s, &err);
    lki_buffer_free(&out);
  }
}

#define AMPLE_MS 60000
#define SHORT_MS 100 /* the faults that never end run into it */

static void open_and_work(const char *url, uint64_t timeout_ms) {
  lake_store *store = NULL;
  lake_error err = LAKE_ERROR_INIT;
  lake_status s = lake_store_open(t.env, url, &store, &err);
  look(s, &err);
  if (s != LAKE_OK) fail_msg("cannot open %s: %s", url, err.text);
  all_operations(store, timeout_ms);
  lake_store_close(store);
}

/* Whatever the log holds is looked at when the fixture is taken down; this also finds base64. */
static void check_log(void) {
  if (strstr(t.log, "aHVzaC") != NULL) fail_msg("the log tells a secret:\n%s", t.log);
  assert_true(t.log_bytes > 0); /* the level is DEBUG: failed requests are there */
}

static void under_all_faults(faultd *f, const char *url) {
  char text[100];
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    snprintf(text, sizeof text, "%s count=all\n", faults[i]);
    faultd_clear(f);
    faultd_rule(f, text);
    open_and_work(url, SHORT_MS);
  }
  check_log();
}

static void test_s3(void **state) {
  (void)state;
  faultd *f =
      faultd_start("s3", "--auth", "AKIDEXAMPLE", "hush-secret-key", "--token", "hush-session-token", NULL);
  setenv("AWS_ENDPOINT_URL", f->url, 1);
  setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "hush-secret-key", 1);
  setenv("AWS_SESSION_TOKEN", "hush-session-token", 1);
  failed_count = 0;
  open_and_work("s3://bucket", AMPLE_MS);
  assert_int_equal(failed_count, 0); /* the credentials are right */
  under_all_faults(f, "s3://bucket");
  assert_true(failed_count > 50);
  setenv("AWS_SECRET_ACCESS_KEY", "hush-wrong-key", 1);
  open_and_work("s3://bucket", SHORT_MS);
  setenv("AWS_SESSION_TOKEN", "hush-wrong-token", 1);
  open_and_work("s3://bucket", SHORT_MS);
  faultd_stop(f);
}

static void test_gcs(void **state) {
  (void)state;
  faultd *f = faultd_start("gcs", "--auth", "GOOGKEY", "hush-secret-key", NULL);
  char url[200];
  snprintf(url, sizeof url, "gs://bucket?endpoint=%s", f->url);
  setenv("GOOGLE_ACCESS_KEY_ID", "GOOGKEY", 1);
  setenv("GOOGLE_SECRET_ACCESS_KEY", "hush-secret-key", 1);
  failed_count = 0;
  open_and_work(url, AMPLE_MS);
  assert_int_equal(failed_count, 0);
  under_all_faults(f, url);
  assert_true(failed_count > 50);
  faultd_stop(f);
}

static void test_azure(void **state) {
  (void)state;
  /* "hush-account-key", "hush-other-key" */
  static const char key[] = "aHVzaC1hY2NvdW50LWtleQ==", other[] = "aHVzaC1vdGhlci1rZXk=";
  faultd *f = faultd_start("azure", "--auth", "account", key, NULL);
  char url[200];
  snprintf(url, sizeof url, "az://bucket?account=account&endpoint=%s", f->url);
  setenv("AZURE_STORAGE_KEY", key, 1);
  failed_count = 0;
  open_and_work(url, AMPLE_MS);
  assert_int_equal(failed_count, 0);
  under_all_faults(f, url);
  assert_true(failed_count > 50);
  setenv("AZURE_STORAGE_KEY", other, 1);
  open_and_work(url, SHORT_MS);
  unsetenv("AZURE_STORAGE_KEY");
  setenv("AZURE_STORAGE_SAS_TOKEN",
         "sv=2021-12-02&ss=b&srt=sco&sp=rwdlac&se=2099-01-01&sig=hush%2Bsignature%3D", 1);
  open_and_work(url, SHORT_MS); /* in the query of every request */
  check_log();
  faultd_stop(f);
}

/* ---- a server that repeats what it was sent ---- */

static bool repeat(void *ctx, const peer_request *request, int fd) {
  (void)ctx;
  char body[8192], head[200];
  snprintf(body, sizeof body, "<Error><Code>AccessDenied</Code><Message>%s", strchr(request->head, '\n') + 1);
  const char *shown[] = {"authorization: ", "Authorization: ", "x-amz-security-token: ", "GET "};
  for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
    const char *at = strstr(request->head, shown[i]);
    if (at == NULL) continue;
    snprintf(body, sizeof body,
             "<Error><Code>AccessDenied</Code><Message>who are you, %.*s</Message></Error>",
             (int)strcspn(at, "\r&"), at);
    if (i < 3) break;
  }
  /* & would begin an entity: the fields of a signature are told one by one */
  const char *sig = strstr(request->path, "sig=");
  if (sig != NULL)
    snprintf(body, sizeof body, "<Error><Code>AccessDenied</Code><Message>%.*s</Message></Error>",
             (int)strcspn(sig, "&"), sig);
  snprintf(head, sizeof head, "HTTP/1.1 403 No\r\nContent-Length: %zu\r\n\r\n", strlen(body));
  return peer_text(fd, head) && peer_text(fd, body);
}

static void test_repeated(void **state) {
  (void)state;
  peer *p = peer_open(repeat, NULL);
  char url[200];
  lake_store *store = NULL;
  lake_error err = LAKE_ERROR_INIT;
  lake_object_info info;
  lake_buffer out;
  setenv("AZURE_STORAGE_SAS_TOKEN", "sv=2021-12-02&sig=hushsignaturehushsignature", 1);
  snprintf(url, sizeof url, "az://bucket?account=account&endpoint=http://127.0.0.1:%u", peer_port(p));
  assert_ok(lake_store_open(t.env, url, &store, &err), &err);
  lki_buffer_init(&out, t.env, 1000);
  assert_status(lki_store_get(store, "a", lki_range_whole(), &out, &info, test_deadline(t.env), &err),
                LAKE_DENIED, &err);
  look(LAKE_DENIED, &err);
  assert_non_null(strstr(err.text, "sig=****")); /* it was repeated, and blotted out */
  lake_store_close(store);
  peer_close(p);
}

static void test_blot(void **state) {
  (void)state;
  lki_credentials c = {
      .secret = "hushhushhush", .session = "tok", .bearer = "hush.bearer.token", .sas = "a=b&sig=hushsig1&c"};
  char text[] = "x hushhushhush y hushhush z hushhus tok hush.bearer.tok hushsig1 hush.bea";
  lki_credentials_blot(&c, text);
  assert_string_equal(text, "x ************ y ******** z hushhus *** *************** ******** ********");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      credentials_test(test_s3),       credentials_test(test_gcs),  credentials_test(test_azure),
      credentials_test(test_repeated), cmocka_unit_test(test_blot),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
