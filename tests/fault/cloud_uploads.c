/* Objects that go in parts, while the fault server misbehaves at a part or at the last request: whole or not at all, the
 * right bytes, and nothing left behind that costs money. S3, GCS by key and Azure. */
#include "support/clouds.h"

#include "base/buffer.h"
#include "base/env.h"
#include "store/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART_BYTES ((size_t)5 << 20)
#define BODY_BYTES (2 * PART_BYTES + 12345)

typedef struct lab {
  cloud *cloud;
  faultd *f;
  lake_env *env;
  lake_store *store;
  unsigned char *body;
} lab;

static bool count_upload(void *ctx, const char *key, const char *upload_id) {
  (void)upload_id;
  assert_string_equal(key, "big");
  (*(unsigned *)ctx)++;
  return true;
}

/* Azure forgets blocks that are not used by itself. */
static void expect_no_uploads(lab *l) {
  unsigned count = 0;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lki_store_list_uploads(l->store, "", count_upload, &count, test_deadline(l->env), &err), &err);
  assert_int_equal(count, 0);
}

static lake_status put(lab *l, lake_error *err) {
  return lki_store_put(l->store, "big", (lake_bytes){l->body, BODY_BYTES}, test_deadline(l->env), err);
}

static void expect_object(lab *l) {
  lake_buffer out;
  lake_object_info info = {0};
  lake_error err = LAKE_ERROR_INIT;
  lki_buffer_init(&out, l->env, 2 * BODY_BYTES);
  assert_ok(lki_store_get(l->store, "big", lki_range_whole(), &out, &info, test_deadline(l->env), &err), &err);
  assert_int_equal(out.bytes, BODY_BYTES);
  assert_int_equal(info.object_bytes, BODY_BYTES);
  assert_memory_equal(out.data, l->body, BODY_BYTES);
  lki_buffer_free(&out);
}

static void expect_missing(lab *l) {
  lake_object_info info;
  lake_error err = LAKE_ERROR_INIT;
  assert_status(lki_store_head(l->store, "big", &info, test_deadline(l->env), &err), LAKE_NOTFOUND, &err);
}

/* Each once, at a part (the requests that are neither the first nor the last) or at the last request. */
static const char *const ONCE[] = {
    "error-500 op=other skip=1", "drop-reply op=other skip=1", "drop-request op=other skip=2", "slowdown-503 op=other skip=1 arg=0",
    "throttle-429 op=other skip=2 arg=0", "duplicate op=other skip=1", "error-200 op=other skip=1",
    "error-500 op=complete", "error-500 op=complete arg=applied", "drop-request op=complete", "drop-reply op=complete",
    "error-200 op=complete", "error-200 op=complete arg=applied", "conflict-409-undecided op=complete",
    "slowdown-503 op=complete arg=0", "duplicate op=complete",
};

static void put_goes_through(lab *l, const char *rule) {
  char fault[64];
  lake_error err = LAKE_ERROR_INIT;
  snprintf(fault, sizeof fault, "%.*s", (int)strcspn(rule, " "), rule);
  faultd_clear(l->f);
  faultd_rule(l->f, rule);
  assert_ok(put(l, &err), &err);
  assert_int_equal(faultd_fired(l->f, fault), 1);
  assert_true(faultd_log_count(l->f, "\"op\":\"complete\"") >= 1); /* it did go in parts */
  faultd_reset(l->f);
  expect_object(l);
  expect_no_uploads(l);
}

/* For ever: a failure that names the object, nothing there, and all uploads given up. */
static void put_fails(lab *l, const char *rule) {
  lake_error err = LAKE_ERROR_INIT;
  faultd_clear(l->f);
  faultd_rule(l->f, rule);
  const lake_status s = put(l, &err);
  /* TIMEOUT: on a slow machine the deadline comes while a part is on its way, before it is known that it failed. */
  if (s != LAKE_UNAVAILABLE && s != LAKE_TIMEOUT) assert_status(s, LAKE_UNCERTAIN, &err);
  assert_non_null(strstr(err.text, "big: "));
  faultd_reset(l->f);
  expect_missing(l);
  expect_no_uploads(l);
}

static void on_cloud(cloud_kind kind) {
  lab l = {.cloud = cloud_start(kind)};
  lake_error err = LAKE_ERROR_INIT;
  char url[512];
  l.f = l.cloud->server;
  snprintf(url, sizeof url, "%s&part_mb=5&multipart_mb=5", cloud_url(l.cloud, "run"));
  assert_ok(lake_env_open(NULL, &l.env, &err), &err);
  assert_ok(lake_store_open(l.env, url, &l.store, &err), &err);
  l.body = malloc(BODY_BYTES);
  assert_non_null(l.body);
  lki_random(l.env, l.body, BODY_BYTES);
  for (size_t i = 0; i < sizeof ONCE / sizeof *ONCE; i++) {
    print_message("%s: %s\n", l.cloud->name, ONCE[i]);
    put_goes_through(&l, ONCE[i]);
  }
  put_fails(&l, "error-500 op=complete count=all");
  put_fails(&l, kind == CLOUD_AZURE ? "error-500 key=blockid= count=all" : "error-500 key=partNumber= count=all");
  lake_store_close(l.store);
  lake_env_close(l.env);
  free(l.body);
  cloud_stop(l.cloud);
}

int main(void) {
  static const cloud_kind kinds[] = {CLOUD_S3, CLOUD_GCS_KEY, CLOUD_AZURE}; /* those with uploads in parts */
  return cloud_run(on_cloud, kinds, sizeof kinds / sizeof *kinds);
}
