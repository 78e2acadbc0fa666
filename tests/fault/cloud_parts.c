/* Large objects: uploads in parts, what becomes of those that fail, and what reclaim makes of those that nobody
 * finishes. Listings over several pages, and where they go on. */
#include "client/namespace.h"
#include "format/names.h"
#include "support/cloud_fixture.h"
#include "support/tgbs.h"
#include <lakestream/reclaim.h>

#define PART_BYTES ((size_t)5 << 20)
#define BIG_BYTES (5 * PART_BYTES + 12345)

static unsigned char *big_object(void) {
  unsigned char *data = malloc(BIG_BYTES);
  assert_non_null(data);
  for (size_t i = 0; i < BIG_BYTES; i++) data[i] = (unsigned char)(i * 31 + i / 4093);
  return data;
}

static size_t requests(const char *part) { return faultd_log_count(c.server, part); }

static bool count_upload(void *ctx, const char *key, const char *upload_id) {
  (void)key, (void)upload_id;
  ++*(size_t *)ctx;
  return true;
}

static size_t unfinished(const char *prefix) {
  lake_error err = LAKE_ERROR_INIT;
  size_t count = 0;
  assert_ok(lki_store_list_uploads(c.store, prefix, count_upload, &count, test_deadline(c.env), &err), &err);
  return count;
}

static void put_big(const unsigned char *data, const char *rule, lake_status want) {
  lake_error err = LAKE_ERROR_INIT;
  faultd_reset(c.server);
  if (rule[0]) faultd_rule(c.server, rule);
  lake_bytes body = {data, BIG_BYTES};
  lake_status s = cloud_said(lki_store_put(c.store, "big/1", body, test_deadline(c.env), &err), &err);
  if (s != want) fail_msg("%s, \"%s\": %s %s", form_names[c.form], rule, lake_status_name(s), err.text);
}

static void test_parts(void **state) {
  (void)state;
  static const cloud_form forms[] = {FORM_S3, FORM_GCS_XML, FORM_AZURE};
  unsigned char *data = big_object();
  for (size_t i = 0; i < 3; i++) {
    const char *part = forms[i] == FORM_AZURE ? "comp=block&" : "partNumber=";
    cloud_start(forms[i], "&multipart_mb=5&part_mb=5", NULL, NULL);
    put_big(data, "", LAKE_OK);
    cloud_expect_object("big/1", data, BIG_BYTES);
    faultd_reset(c.server);
    /* One part fails in passing: it alone is sent again. */
    put_big(data, "error-500 op=other key=big skip=2 count=1", LAKE_OK);
    assert_int_equal(faultd_fired(c.server, "error-500"), 1);
    assert_true(requests(part) <= 7);
    cloud_expect_object("big/1", data, BIG_BYTES);
    /* An error inside the good reply to the last request: the whole is sent again. */
    put_big(data, "error-200 op=complete count=1", LAKE_OK);
    assert_int_equal(faultd_fired(c.server, "error-200"), 1);
    cloud_expect_object("big/1", data, BIG_BYTES);
    assert_int_equal(unfinished(""), 0);
    cloud_stop();
  }
  free(data);
}

/* A single put stays one request, also of a large object where the dialect has nothing else. */
static void test_no_parts(void **state) {
  (void)state;
  unsigned char *data = big_object();
  cloud_start(FORM_GCS_JSON, "&multipart_mb=5&part_mb=5", NULL, NULL);
  put_big(data, "", LAKE_OK);
  assert_int_equal(requests("\"op\""), 1);
  cloud_expect_object("big/1", data, BIG_BYTES);
  cloud_stop();
  cloud_start(FORM_S3, "", NULL, NULL);
  put_big(data, "", LAKE_OK);
  assert_int_equal(requests("\"op\""), 1);
  cloud_stop();
  free(data);
}

/* An upload that comes to nothing is given up; the object is what it was. */
static void test_abort(void **state) {
  (void)state;
  unsigned char *data = big_object();
  lake_error err = LAKE_ERROR_INIT;
  cloud_start(FORM_S3, "&multipart_mb=5&part_mb=5", NULL, NULL);
  assert_ok(lki_store_put(c.store, "big/1", cloud_text("old"), test_deadline(c.env), &err), &err);
  static const char *const rules[] = {"expired-token op=complete count=all", "expired-token op=other skip=3 count=1"};
  for (size_t i = 0; i < 2; i++) put_big(data, rules[i], LAKE_DENIED);
  faultd_reset(c.server);
  assert_int_equal(unfinished(""), 0);
  cloud_expect_object("big/1", "old", 3);
  cloud_stop();
  free(data);
}

/* ---- reclaim ---- */

static void begin_upload(const char *key) {
  char target[512];
  /* The server looks at signatures; a request without one is refused, so the store's own server was started without. */
  snprintf(target, sizeof target, "/bucket/x/y/%s?uploads", key);
  faultd_answer a = faultd_ask(c.server, "POST", target, NULL, "");
  assert_int_equal(a.status, 200);
  faultd_answer_free(&a);
}

static void begin_tgb_upload(uint32_t producer, uint32_t epoch, uint64_t seq) {
  char id[32], key[LKI_NAME_BYTES];
  snprintf(id, sizeof id, "p%u", producer);
  lki_name_tgb(key, id, epoch, seq);
  begin_upload(key);
}

/* Uploads of keys that could be deleted themselves go; those that may yet be finished, and others', stay. */
static void test_reclaim(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  cloud_start(FORM_GCS_JSON, "", NULL, NULL); /* the environment; the server is another */
  lake_store_close(c.store);
  faultd_stop(c.server);
  c.form = FORM_S3;
  c.server = faultd_start("s3", "--page", "3", NULL);
  c.store = cloud_open_another(c.env, "");
  char url[256];
  snprintf(url, sizeof url, "s3://bucket/x/y?endpoint=%s", c.server->url);
  lake_namespace *ns = tgb_namespace_new(c.env, url, 4, 4);
  assert_int_equal(tgb_claim(ns, 1), 1);
  for (uint64_t seq = 0; seq < 4; seq++) tgb_append(ns, (tgb_mark){1, 1, seq});
  begin_tgb_upload(1, 1, 2); /* live: its put was sent again */
  begin_tgb_upload(1, 1, 4); /* on its way */
  begin_tgb_upload(9, 1, 0); /* its claim is on its way */
  begin_upload("data/notes");
  begin_upload("elsewhere/notes");
  lake_reclaim_options o = LAKE_RECLAIM_OPTIONS_INIT;
  lake_reclaim_report r;
  assert_ok(lake_reclaim(ns, &o, test_deadline(c.env), &r, &err), &err);
  assert_int_equal(r.upload_count, 0);
  assert_int_equal(unfinished(""), 5);
  assert_int_equal(tgb_claim(ns, 1), 2); /* epoch 1 is fenced: seq 4 of it can never be committed */
  begin_tgb_upload(1, 1, 4);             /* twice, and of a zombie */
  o.dry_run = 1;
  assert_ok(lake_reclaim(ns, &o, test_deadline(c.env), &r, &err), &err);
  assert_int_equal(r.upload_count, 2);
  assert_int_equal(unfinished(""), 6);
  o.dry_run = 0;
  /* Whoever may not list uploads reclaims all else, and the log says what stays. */
  faultd_rule(c.server, "error-500 op=other count=all");
  assert_ok(lake_reclaim(ns, &o, test_deadline(c.env), &r, &err), &err);
  assert_int_equal(r.upload_count, 0);
  assert_true(faultd_fired(c.server, "error-500") > 0);
  assert_non_null(strstr(c.log, "unfinished uploads stay"));
  assert_int_not_equal(r.upload_error.status, LAKE_OK);
  assert_non_null(strstr(r.upload_error.text, "upload"));
  faultd_reset(c.server);
  assert_ok(lake_reclaim(ns, &o, test_deadline(c.env), &r, &err), &err);
  assert_int_equal(r.upload_count, 2);
  assert_int_equal(unfinished(""), 4);
  /* What was live is not any more. */
  o.before_step = 4;
  assert_ok(lake_reclaim(ns, &o, test_deadline(c.env), &r, &err), &err);
  assert_int_equal(r.upload_count, 1);
  assert_int_equal(unfinished("data/"), 2);
  assert_int_equal(unfinished(""), 3);
  lake_namespace_close(ns);
  cloud_stop();
}

/* ---- listings ---- */

typedef struct seen {
  size_t count;
  char last[64];
} seen;

static bool see(void *ctx, const char *key, uint64_t object_bytes) {
  seen *s = ctx;
  assert_int_equal(object_bytes, strlen(key));
  assert_true(strcmp(key, s->last) > 0);
  snprintf(s->last, sizeof s->last, "%s", key);
  s->count++;
  return true;
}

static bool see_ten(void *ctx, const char *key, uint64_t object_bytes) {
  return see(ctx, key, object_bytes) && ((seen *)ctx)->count < 10;
}

static void test_pages(void **state) {
  (void)state;
  for (int form = 0; form < FORM_COUNT; form++) {
    lake_error err = LAKE_ERROR_INIT;
    cloud_start((cloud_form)form, "", "--page", "7");
    for (int i = 0; i < 60; i++) {
      char key[32];
      snprintf(key, sizeof key, "l/%02d +%%&", i);
      assert_ok(lki_store_put(c.store, key, cloud_text(key), test_deadline(c.env), &err), &err);
    }
    seen s = {0};
    faultd_reset(c.server);
    assert_ok(lki_store_list(c.store, "l/", NULL, see, &s, test_deadline(c.env), &err), &err);
    assert_int_equal(s.count, 60);
    assert_int_equal(requests("\"list\""), 9);
    /* In steps of ten, each going on where the one before was left: no step reads everything before it again. */
    char after[64] = "";
    size_t total = 0;
    faultd_reset(c.server);
    for (int step = 0; step < 7; step++) {
      s = (seen){0};
      snprintf(s.last, sizeof s.last, "%s", after);
      assert_ok(lki_store_list(c.store, "l/", after[0] ? after : NULL, see_ten, &s, test_deadline(c.env), &err), &err);
      snprintf(after, sizeof after, "%s", s.last);
      total += s.count;
    }
    assert_int_equal(total, 60);
    if (requests("\"list\"") > 7 * 3) fail_msg("%s: %zu requests", form_names[form], requests("\"list\""));
    /* A page that fails is asked for again, and no key comes twice. */
    s = (seen){0};
    faultd_reset(c.server);
    faultd_rule(c.server, "error-500 op=list skip=3 count=1\nshort-body op=list skip=5 count=1");
    assert_ok(lki_store_list(c.store, "l/", NULL, see, &s, test_deadline(c.env), &err), &err);
    assert_int_equal(s.count, 60);
    cloud_stop();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parts),   cmocka_unit_test(test_no_parts), cmocka_unit_test(test_abort),
      cmocka_unit_test(test_reclaim), cmocka_unit_test(test_pages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
