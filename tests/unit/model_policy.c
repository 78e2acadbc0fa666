/* DAC against its equations worked by hand, and the baselines' rules. */
#include "model/policy.h"
#include "support/support.h"
#include <math.h>

static void near(double got, double want) {
  if (fabs(got - want) > 1e-6 * fabs(want)) fail_msg("got %.9g, want %.9g", got, want);
}

static void test_dac(void **state) {
  (void)state;
  lki_policy p;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lki_policy_init(&p, LKI_POLICY_DAC, 0, 0, 0, 0, &err), &err);
  assert_true(lki_policy_due(&p, 0, 1)); /* gap 0 at first: Algorithm 1, line 2 */
  assert_false(lki_policy_due(&p, 0, 0));
  lki_policy_observe(&p, 60000000, true, 1, 0);
  near((double)p.gap_ns, 540e6); /* alone: Eq. 8, (1 - 0.1) * 60 ms / 0.1 */
  lki_policy_observe(&p, 60000000, false, 32, 0);
  near(p.tau_ns, 60e6);
  near((double)p.gap_ns, 31 * 60e6 / 0.05129329438755058 - 60e6); /* Eq. 7, -ln(0.95) */
  lki_policy_observe(&p, 160000000, true, 1, 0.5);
  near(p.tau_ns, 80e6);                       /* Eq. 6: 0.8 * 60 + 0.2 * 160 */
  near((double)p.gap_ns, 720e6 * 1.05);       /* Eq. 10: jitter 0.1 * 0.5 */
  assert_false(lki_policy_due(&p, p.gap_ns - 1, 1000));
  assert_true(lki_policy_due(&p, p.gap_ns, 1));
  near((double)lki_policy_hurry_ns(&p, 0.5), 40e6);
}

/* Producers that start together part at once: the first gap lies anywhere below the target. */
static void test_first_gap(void **state) {
  (void)state;
  lki_policy p;
  assert_ok(lki_policy_init(&p, LKI_POLICY_DAC, 0, 0, 0, 0, NULL), NULL);
  lki_policy_observe(&p, 60000000, true, 1, 0.75);
  near((double)p.gap_ns, 540e6 * 0.25);
  lki_policy_observe(&p, 60000000, true, 1, 0.75);
  near((double)p.gap_ns, 540e6 * 1.075);
}

/* A single stalled attempt does not put the next one off for ever; a cost that stays is followed. */
static void test_stall(void **state) {
  (void)state;
  lki_policy p;
  assert_ok(lki_policy_init(&p, LKI_POLICY_DAC, 0, 0, 0, 0, NULL), NULL);
  lki_policy_observe(&p, 100000000000, true, 8, 0);
  near(p.tau_ns, 1e9);
  assert_ok(lki_policy_init(&p, LKI_POLICY_DAC, 0, 0, 0, 0, NULL), NULL);
  lki_policy_observe(&p, 60000000, true, 8, 0);
  const uint64_t usual_ns = p.gap_ns;
  lki_policy_observe(&p, 100000000000, true, 8, 0);
  near((double)p.gap_ns, 1.6 * (double)usual_ns); /* 0.8 + 0.2 * 4 */
  for (int i = 0; i < 20; i++) lki_policy_observe(&p, 600000000, true, 8, 0);
  assert_true(p.tau_ns > 590e6 && p.tau_ns < 610e6);
}

static void test_baselines(void **state) {
  (void)state;
  lki_policy p;
  assert_ok(lki_policy_init(&p, LKI_POLICY_NAIVE, 0, 0, 0, 0, NULL), NULL);
  assert_true(lki_policy_due(&p, 0, 1));
  assert_ok(lki_policy_init(&p, LKI_POLICY_FIXED10, 0, 0, 0, 0, NULL), NULL);
  assert_false(lki_policy_due(&p, UINT64_MAX, 9));
  assert_true(lki_policy_due(&p, 0, 10));
  assert_ok(lki_policy_init(&p, LKI_POLICY_FIXED100, 0, 0, 0, 0, NULL), NULL);
  assert_false(lki_policy_due(&p, UINT64_MAX, 99));
  assert_true(lki_policy_due(&p, 0, 100));
  assert_ok(lki_policy_init(&p, LKI_POLICY_INCR, 0, 0, 0, 0, NULL), NULL);
  lki_policy_observe(&p, 1, false, 4, 0);
  lki_policy_observe(&p, 1, true, 4, 0);
  assert_false(lki_policy_due(&p, 0, 10));
  assert_true(lki_policy_due(&p, 0, 11));
  assert_ok(lki_policy_init(&p, LKI_POLICY_AIMD, 0, 0, 0, 0, NULL), NULL);
  lki_policy_observe(&p, 1, true, 4, 0);
  assert_false(lki_policy_due(&p, 0, 10));
  assert_true(lki_policy_due(&p, 0, 11));
  lki_policy_observe(&p, 1, false, 4, 0);
  assert_false(lki_policy_due(&p, 0, 5));
  assert_true(lki_policy_due(&p, 0, 6));
}

static void test_bad_parameters(void **state) {
  (void)state;
  lki_policy p;
  lake_error err = LAKE_ERROR_INIT;
  assert_status(lki_policy_init(&p, LKI_POLICY_DAC, 1, 0, 0, 0, &err), LAKE_INVALID, &err);
  assert_status(lki_policy_init(&p, LKI_POLICY_DAC, 0, -0.1, 0, 0, &err), LAKE_INVALID, &err);
  assert_status(lki_policy_init(&p, LKI_POLICY_DAC, 0, 0, 1.5, 0, &err), LAKE_INVALID, &err);
  assert_status(lki_policy_init(&p, LKI_POLICY_DAC, 0, 0, 0, NAN, &err), LAKE_INVALID, &err);
  assert_status(lki_policy_init(&p, 77, 0, 0, 0, 0, &err), LAKE_INVALID, &err);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_dac), cmocka_unit_test(test_stall), cmocka_unit_test(test_first_gap),
                                     cmocka_unit_test(test_baselines),
                                     cmocka_unit_test(test_bad_parameters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
