/* DAC and its baselines. Equations refer to the paper, section 5.2. */
#include "model/policy.h"
#include <math.h>

/* One attempt that a stalled process or store drew out for a minute would, taken as it is, put the next one off for the
 * better part of an hour among 32 producers, and so on, since only attempts bring the estimate down again. So a single
 * observation counts at most this many times the estimate; a cost that really grows is followed within a few. */
#define TAU_GROWTH_MAX 4.0
#define TAU_FIRST_NS_MAX 1e9
#define GAP_NS_MAX 3600e9 /* an hour: whatever the budgets ask for */

lake_status lki_policy_init(lki_policy *policy, uint32_t kind, double epsilon, double delta, double alpha, double rho,
                            lake_error *err) {
  lki_policy p = {.kind = (lki_policy_kind)kind, .active = 1, .interval = 1};
  p.epsilon = epsilon == 0 ? 0.05 : epsilon;
  p.delta = delta == 0 ? 0.1 : delta;
  p.alpha = alpha == 0 ? 0.2 : alpha;
  p.rho = rho == 0 ? 0.1 : rho;
  if (kind > LKI_POLICY_AIMD) return lki_fail(err, LAKE_INVALID, "commit policy %u is unknown", kind);
  if (!(p.epsilon > 0 && p.epsilon < 1 && p.delta > 0 && p.delta < 1 && p.alpha > 0 && p.alpha <= 1 && p.rho >= 0 &&
        p.rho <= 1))
    return lki_fail(err, LAKE_INVALID, "DAC: epsilon, delta in (0,1), alpha in (0,1], rho in [0,1]; got %g %g %g %g",
                    p.epsilon, p.delta, p.alpha, p.rho);
  if (kind == LKI_POLICY_FIXED10 || kind == LKI_POLICY_INCR || kind == LKI_POLICY_AIMD) p.interval = 10;
  if (kind == LKI_POLICY_FIXED100) p.interval = 100;
  *policy = p;
  return LAKE_OK;
}

static bool paces_by_gap(const lki_policy *policy) {
  return policy->kind == LKI_POLICY_DAC || policy->kind == LKI_POLICY_CARRY;
}

void lki_policy_observe(lki_policy *policy, uint64_t tau_ns, bool won, uint32_t active, double unit) {
  /* Eq. 6, whatever the outcome. The first observation is taken whole: from zero the average would need a dozen
   * attempts to reach the truth and meanwhile ask for gaps that are far too short. */
  const bool first = policy->tau_ns == 0;
  double observed = (double)tau_ns;
  const double believable = first ? TAU_FIRST_NS_MAX : policy->tau_ns * TAU_GROWTH_MAX;
  if (observed > believable) observed = believable;
  policy->tau_ns = first ? observed : (1 - policy->alpha) * policy->tau_ns + policy->alpha * observed;
  policy->active = active;
  if (paces_by_gap(policy)) {
    double conflict = ((double)active - 1) * policy->tau_ns / -log1p(-policy->epsilon) - policy->tau_ns; /* Eq. 7 */
    double cost = (1 - policy->delta) * policy->tau_ns / policy->delta;                                  /* Eq. 8 */
    double gap = fmax(fmax(conflict, 0), cost);                                                          /* Eq. 9 */
    /* Producers that a job starts together attempt together, and the jitter of Eq. 10 needs many rounds to part them;
     * the Poisson model of Eq. 2 supposes that they are apart. So the first gap is anywhere below the target. */
    const double spread = first ? 1 - unit : 1 + policy->rho * unit;
    policy->gap_ns = (uint64_t)fmin(gap * spread, GAP_NS_MAX);                                         /* Eq. 10 */
  } else if (policy->kind == LKI_POLICY_INCR) {
    if (!won) policy->interval += 1;
  } else if (policy->kind == LKI_POLICY_AIMD) {
    /* Section 7.1: the interval grows by an addend on success and is halved on conflict. */
    policy->interval = won ? policy->interval + 1 : fmax(1, policy->interval / 2);
  }
}

bool lki_policy_due(const lki_policy *policy, uint64_t since_ns, uint64_t pending) {
  if (pending == 0) return false;
  if (paces_by_gap(policy)) return since_ns >= policy->gap_ns;
  return (double)pending >= policy->interval;
}

uint64_t lki_policy_hurry_ns(const lki_policy *policy, double unit) {
  return (uint64_t)(policy->tau_ns * (double)policy->active * unit);
}
