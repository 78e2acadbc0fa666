/* The pause between tries. It is drawn from [0, limit) with a doubling limit ("full jitter"), so that many
 * clients that failed together do not come back together. */
#include "store/retry.h"
#include "base/env.h"

#define PAUSE_NS_MIN 20000000u
#define PAUSE_NS_MAX 2000000000u

void lki_retry_init(lki_retry *retry, lake_env *env, lake_deadline deadline) {
  retry->env = env;
  retry->deadline = deadline;
  retry->try_count = 0;
}

bool lki_retry_again(lki_retry *retry, lake_status status) {
  retry->try_count++;
  if (status != LAKE_UNAVAILABLE && status != LAKE_UNCERTAIN) return false;
  if (retry->try_count >= LKI_RETRY_TRIES_MAX) return false;
  uint64_t limit_ns = (uint64_t)PAUSE_NS_MIN << (retry->try_count - 1);
  if (limit_ns > PAUSE_NS_MAX) limit_ns = PAUSE_NS_MAX;
  uint64_t at_ns = lki_after_ns(retry->env, (uint64_t)(lki_random_unit(retry->env) * (double)limit_ns));
  if (at_ns >= retry->deadline.at_ns) return false; /* sleeping past the deadline would help nobody */
  lki_sleep_until(retry->env, at_ns);
  return true;
}
