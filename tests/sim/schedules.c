/* Seeded schedules: LAKE_SCHEDULES of them from LAKE_SEED on; by default 10,000 from 1 on, and fewer under a sanitizer. A
 * violation prints the seed and the command that replays it; with LAKE_TRACE=1 the history is written to standard output.
 * CTest runs this twice, with other seeds, for 20,000 schedules in all. */
#include "sim/schedule.h"
#include "support/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_line(void *ctx, const char *line) {
  (void)ctx;
  puts(line);
}

static uint64_t env_number(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text != NULL && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void test_schedules(void **state) {
  (void)state;
  const char *sanitizer = getenv("LAKE_SANITIZE");
  const uint64_t count = env_number("LAKE_SCHEDULES", sanitizer != NULL && *sanitizer ? 300 : 10000);
  const uint64_t first = env_number("LAKE_SEED", 1);
  lki_schedule_options o = {0};
  if (getenv("LAKE_TRACE") != NULL) o.trace = print_line;
  lki_sim_counts all = {0};
  uint64_t steps = 0, kills = 0, pauses = 0, fenced = 0, in_doubt = 0, switches = 0;
  for (uint64_t i = 0; i < count; i++) {
    lki_schedule_report r;
    if (!lki_schedule_run(first + i, &o, &r))
      fail_msg("%s\nreplay: LAKE_SEED=%llu LAKE_SCHEDULES=1 LAKE_TRACE=1 test_sim_schedules", r.violation,
               (unsigned long long)(first + i));
    steps += r.step_count;
    kills += r.kill_count;
    pauses += r.pause_count;
    fenced += r.fenced_count;
    in_doubt += r.in_doubt_count;
    switches += r.switches;
    all.put_if_absent += r.counts.put_if_absent;
    all.taken += r.counts.taken;
    all.remove_many += r.counts.remove_many;
    all.remove_part += r.counts.remove_part;
    for (int f = 0; f < 6; f++) all.fired[f] += r.counts.fired[f];
  }
  printf("%llu schedules, %llu steps, %llu kills, %llu pauses, %llu fenced, %llu in doubt, %llu switches, %llu conditional puts, %llu "
         "taken, %llu removals of many, %llu of them in part; faults", (unsigned long long)count, (unsigned long long)steps, (unsigned long long)kills,
         (unsigned long long)pauses, (unsigned long long)fenced, (unsigned long long)in_doubt,
         (unsigned long long)switches, (unsigned long long)all.put_if_absent, (unsigned long long)all.taken,
         (unsigned long long)all.remove_many, (unsigned long long)all.remove_part);
  for (int f = 0; f < 6; f++) printf(" %llu", (unsigned long long)all.fired[f]);
  printf("\n");
  if (count < 100) return;
  assert_true(kills > 0 && pauses > 0 && fenced > 0 && all.taken > 0);
  assert_true(all.remove_many > all.remove_part && all.remove_part > 0);
  for (int f = 0; f < 6; f++) assert_true(all.fired[f] > 0);
}

static void test_equal_seeds(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 5; seed++) {
    lki_schedule_report a, b, c;
    assert_true(lki_schedule_run(seed, NULL, &a));
    assert_true(lki_schedule_run(seed, NULL, &b));
    assert_true(lki_schedule_run(seed + 1000, NULL, &c));
    assert_int_equal(a.digest, b.digest);
    assert_int_equal(a.switches, b.switches);
    assert_int_equal(a.virtual_ns, b.virtual_ns);
    assert_true(a.digest != c.digest);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equal_seeds), cmocka_unit_test(test_schedules)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
