/* Slow ranged reads that are asked twice: the second answer is taken when it is the better one, within the share that
 * the user allows, and the first one's late bytes never get into the reader's buffer. */
#include "store/hedge.h"
#include "base/env_posix.h"
#include "support/cloud_fixture.h"

#define OBJECT_BYTES 4096
#define WARM_COUNT 100 /* reads before anything is slow */

static unsigned char object[OBJECT_BYTES];
static const lake_store_ops *ops;
static lki_cloud_store *cloud;
static lake_env *machine; /* the store's */
static lki_env_ops table; /* of its environment */
static void (*on_wait)(void); /* once, when somebody waits for a time */
static const char *key; /* what is read. A leg that was cancelled may reach the server late, and must then neither meet a
                         * rule nor be counted: so each slow read has an object of its own, as rules and counts have */

static bool meddling_wait(void *self, lki_cond *cond, lki_mutex *mutex, uint64_t at_ns) {
  void (*const act)(void) = on_wait;
  if (act != NULL && at_ns != LKI_NEVER) {
    on_wait = NULL;
    act();
  }
  return lki_env_posix_ops()->cond_wait(self, cond, mutex, at_ns);
}

/* The store's own table, without the door and its retries, and the numbers of its hedge. */
static void open_cloud(const char *options) {
  lake_error err = LAKE_ERROR_INIT;
  char url[256];
  void *self = NULL;
  cloud_start(FORM_S3, options, NULL, NULL);
  for (size_t i = 0; i < OBJECT_BYTES; i++) object[i] = (unsigned char)(i * 13 + i / 255);
  static const char *const keys[] = {"warm", "first", "second"};
  for (size_t i = 0; i < 3; i++)
    assert_ok(lki_store_put(c.store, keys[i], (lake_bytes){object, OBJECT_BYTES}, test_deadline(c.env), &err), &err);
  key = "warm";
  snprintf(url, sizeof url, "s3://bucket/x/y?endpoint=%s%s", c.server->url, options);
  lake_env_options o = LAKE_ENV_OPTIONS_INIT;
  table = *lki_env_posix_ops();
  table.cond_wait = meddling_wait;
  assert_ok(lki_env_wrap(&table, lki_env_posix_new(&o), 0, &machine, &err), &err);
  assert_ok(lki_store_cloud_open(machine, url, &ops, &self, &err), &err);
  cloud = self;
}

static void close_cloud(void) {
  ops->close(cloud);
  lake_env_close(machine);
  cloud_stop();
}

static lake_status read_range(size_t offset, size_t bytes, lake_deadline deadline) {
  lake_buffer out;
  lake_error err = LAKE_ERROR_INIT;
  lake_object_info info = {0};
  lki_buffer_init(&out, c.env, bytes);
  lake_status s = ops->get(cloud, key, lki_range_exact(offset, bytes), &out, &info, deadline, &err);
  if (s == LAKE_OK) {
    assert_int_equal(out.bytes, bytes);
    assert_memory_equal(out.data, object + offset, bytes);
    assert_int_equal(info.object_bytes, OBJECT_BYTES);
  } else {
    assert_int_equal(out.bytes, 0);
  }
  lki_buffer_free(&out);
  return cloud_said(s, &err);
}

static void warm_up(void) {
  for (size_t i = 0; i < WARM_COUNT; i++) assert_int_equal(read_range(i, 1000, test_deadline(c.env)), LAKE_OK);
  faultd_reset(c.server);
}

static lki_hedge_stats stats(void) {
  lki_hedge_stats s;
  lki_hedge_stats_get(cloud->hedge, &s);
  return s;
}

/* Two requests, and the answer long before the first one's would have come. */
static void test_slow_read_is_asked_twice(void **state) {
  (void)state;
  static const char *const slow[] = {"stall op=get key=first", "drip op=get key=second arg=1000"};
  static const char *const keys[] = {"first", "second"};
  open_cloud("&hedge_percent=50");
  warm_up();
  const lki_hedge_stats before = stats();
  for (size_t i = 0; i < 2; i++) {
    faultd_reset(c.server);
    faultd_rule(c.server, slow[i]);
    key = keys[i];
    /* The first request ends by itself after this deadline only. */
    assert_int_equal(read_range(100 + i, 2000, test_deadline(c.env)), LAKE_OK);
    assert_int_equal(faultd_log_count(c.server, key), 2);
  }
  assert_int_equal(stats().hedged_count, before.hedged_count + 2);
  /* Which of the two meets the rule is up to the server's threads; mostly it is the first. */
  for (int i = 0; i < 50 && stats().won_count == before.won_count; i++) {
    faultd_reset(c.server);
    faultd_rule(c.server, slow[0]);
    key = keys[0];
    assert_int_equal(read_range(0, 2000, test_deadline(c.env)), LAKE_OK);
  }
  assert_true(stats().won_count > before.won_count);
  close_cloud();
}

/* A second request that fails does not spoil the first one, nor the other way round. */
static void test_one_leg_fails(void **state) {
  (void)state;
  open_cloud("&hedge_percent=50");
  warm_up();
  key = "first";
  faultd_rule(c.server, "drip op=get key=first arg=2 count=1\nerror-500 op=get key=first skip=1 count=1");
  assert_int_equal(read_range(7, 400, test_deadline(c.env)), LAKE_OK);
  assert_int_equal(faultd_fired(c.server, "error-500"), 1);
  faultd_reset(c.server);
  key = "second";
  faultd_rule(c.server, "stall op=get key=second count=1\nerror-500 op=get key=second count=1");
  /* The leg that is refused does not end the read; the other's end does. Of two failures the first leg's is told, which
   * is mostly the one that got no answer. */
  const lake_deadline deadline = lake_deadline_after_ms(c.env, 1500);
  const lake_status s = read_range(7, 400, deadline);
  assert_true(s == LAKE_TIMEOUT || s == LAKE_UNAVAILABLE);
  assert_true(lki_deadline_passed(c.env, deadline));
  assert_int_equal(faultd_fired(c.server, "error-500"), 1);
  close_cloud();
}

static void test_share_is_kept(void **state) {
  (void)state;
  open_cloud("&hedge_percent=2");
  warm_up();
  const lki_hedge_stats before = stats();
  assert_true(before.hedged_count <= 2);
  const uint64_t left = WARM_COUNT * 2 / 100 - before.hedged_count;
  key = "first";
  faultd_rule(c.server, "stall op=get key=first count=all");
  for (int i = 0; i < 4; i++) assert_int_equal(read_range(0, 10, lake_deadline_after_ms(c.env, 300)), LAKE_TIMEOUT);
  assert_int_equal(stats().hedged_count - before.hedged_count, left);
  assert_int_equal(faultd_log_count(c.server, key), 4 + left);
  close_cloud();
}

static void test_off(void **state) {
  (void)state;
  open_cloud("");
  assert_null(cloud->hedge);
  for (size_t i = 0; i < WARM_COUNT; i++) assert_int_equal(read_range(i, 1000, test_deadline(c.env)), LAKE_OK);
  faultd_reset(c.server);
  faultd_rule(c.server, "stall op=get count=1");
  assert_int_equal(read_range(0, 10, lake_deadline_after_ms(c.env, 300)), LAKE_TIMEOUT);
  assert_int_equal(faultd_log_count(c.server, "\"get\""), 1);
  close_cloud();
}

/* What one request mends, a hedged one mends too. */
static void test_mends(void **state) {
  (void)state;
  open_cloud("&hedge_percent=50");
  faultd_rule(c.server, "skew arg=960");
  assert_int_equal(read_range(3, 300, test_deadline(c.env)), LAKE_OK);
  assert_int_equal(faultd_log_count(c.server, "\"get\""), 2);
  close_cloud();
}

static void close_gate(void) { atomic_store(&cloud->not_before_ns, lki_after_ns(machine, (uint64_t)3600 * 1000000000u)); }

/* While the store asks for no requests a slow read is not asked twice, nor does it wait for the time when it might be,
 * and its share is left for others. */
static void test_not_while_the_gate_is_closed(void **state) {
  (void)state;
  open_cloud("&hedge_percent=50");
  warm_up();
  const lki_hedge_stats before = stats();
  key = "first";
  faultd_rule(c.server, "drip op=get key=first arg=2 count=1");
  on_wait = close_gate;
  assert_int_equal(read_range(0, 400, lake_deadline_after_ms(machine, (uint64_t)7200 * 1000)), LAKE_OK);
  assert_null(on_wait);
  assert_true(lki_now_ns(machine) < atomic_load(&cloud->not_before_ns));
  assert_int_equal(faultd_log_count(c.server, key), 1);
  assert_int_equal(stats().hedged_count, before.hedged_count);
  close_cloud();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_slow_read_is_asked_twice), cmocka_unit_test(test_one_leg_fails),
      cmocka_unit_test(test_share_is_kept),            cmocka_unit_test(test_off),
      cmocka_unit_test(test_mends),                    cmocka_unit_test(test_not_while_the_gate_is_closed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
