/* When to try a commit: DAC (paper, Algorithm 1) and the paper's baselines behind one interface. Pure: time comes in
 * as durations, randomness as a number in [0, 1). */
#ifndef LKI_MODEL_POLICY_H
#define LKI_MODEL_POLICY_H

#include "base/error.h"

typedef enum lki_policy_kind {
  LKI_POLICY_CARRY = 0, /* paces as DAC does */
  LKI_POLICY_DAC = 1, LKI_POLICY_NAIVE = 2, LKI_POLICY_FIXED10 = 3, LKI_POLICY_FIXED100 = 4, LKI_POLICY_INCR = 5,
  LKI_POLICY_AIMD = 6
} lki_policy_kind;

typedef struct lki_policy {
  lki_policy_kind kind;
  double epsilon, delta, alpha, rho;
  double tau_ns;      /* the estimate of the fragile window (Eq. 6) */
  uint32_t active;    /* N */
  double interval;    /* TGBs a commit, for the counting policies */
  uint64_t gap_ns;    /* wait after an attempt before the next one; 0 for the counting policies */
} lki_policy;

/* Zero in a parameter: its default. INVALID: a parameter outside (0, 1), or an unknown kind. */
lake_status lki_policy_init(lki_policy *policy, uint32_t kind, double epsilon, double delta, double alpha, double rho,
                            lake_error *err);
/* After an attempt that took tau_ns, among `active` producers; unit in [0, 1). */
void lki_policy_observe(lki_policy *policy, uint64_t tau_ns, bool won, uint32_t active, double unit);
/* Whether `pending` TGBs are due, since_ns after the last attempt ended. */
bool lki_policy_due(const lki_policy *policy, uint64_t since_ns, uint64_t pending);
/* The wait between attempts of a writer that someone waits for (flush, claim, seal): spread over one turn of
 * everybody who is active, not over the gap. */
uint64_t lki_policy_hurry_ns(const lki_policy *policy, double unit);

#endif
