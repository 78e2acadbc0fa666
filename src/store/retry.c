/* The pause between tries. It is drawn from [0, limit) with a doubling limit ("full jitter"), so that many
 * clients that failed together do not come back together. */
#include "store/retry.h"
#include "base/env.h"

#define PAUSE_NS_MIN 20000000u
#define PAUSE_NS_MAX 2000000000u

void lki_retry_budget_init(lki_retry_budget *budget) { atomic_init(&budget->token_count, LKI_RETRY_TOKENS_MAX); }

static void give_tokens(lki_retry_budget *budget, int count) {
  if (budget == NULL) return;
  int old = atomic_load_explicit(&budget->token_count, memory_order_relaxed);
  int fresh;
  do {
    if (old == LKI_RETRY_TOKENS_MAX) return; /* the common case writes nothing */
    fresh = old + count < LKI_RETRY_TOKENS_MAX ? old + count : LKI_RETRY_TOKENS_MAX;
  } while (!atomic_compare_exchange_weak_explicit(&budget->token_count, &old, fresh, memory_order_relaxed,
                                                  memory_order_relaxed));
}

static bool take_tokens(lki_retry_budget *budget) {
  if (budget == NULL) return true;
  int old = atomic_load_explicit(&budget->token_count, memory_order_relaxed);
  do {
    if (old < LKI_RETRY_TOKENS_TRY) return false;
  } while (!atomic_compare_exchange_weak_explicit(&budget->token_count, &old, old - LKI_RETRY_TOKENS_TRY,
                                                  memory_order_relaxed, memory_order_relaxed));
  return true;
}

void lki_retry_init(lki_retry *retry, lake_env *env, lki_retry_budget *budget, lake_deadline deadline) {
  retry->env = env;
  retry->budget = budget;
  retry->deadline = deadline;
  retry->try_count = 0;
}

bool lki_retry_again(lki_retry *retry, lake_status status) {
  retry->try_count++;
  if (status != LAKE_UNAVAILABLE && status != LAKE_UNCERTAIN) {
    /* The store answered. A retry that was answered has its tokens back. */
    if (status != LAKE_TIMEOUT) give_tokens(retry->budget, retry->try_count > 1 ? LKI_RETRY_TOKENS_TRY : LKI_RETRY_TOKENS_SUCCESS);
    return false;
  }
  if (retry->try_count >= LKI_RETRY_TRIES_MAX) return false;
  uint64_t limit_ns = (uint64_t)PAUSE_NS_MIN << (retry->try_count - 1);
  if (limit_ns > PAUSE_NS_MAX) limit_ns = PAUSE_NS_MAX;
  uint64_t at_ns = lki_after_ns(retry->env, (uint64_t)(lki_random_unit(retry->env) * (double)limit_ns));
  if (at_ns >= retry->deadline.at_ns) return false; /* sleeping past the deadline would help nobody */
  if (!take_tokens(retry->budget)) return false;
  lki_sleep_until(retry->env, at_ns);
  return true;
}
