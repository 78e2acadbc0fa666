/* Waiting between tries of one request: full jitter, doubling from 20 ms to 2 s, a bounded number of tries,
 * never past the deadline. One lki_retry per request; not shared between threads. */
#ifndef LKI_STORE_RETRY_H
#define LKI_STORE_RETRY_H

#include <lakestream/base.h>

#define LKI_RETRY_TRIES_MAX 8

typedef struct lki_retry {
  lake_env *env;
  lake_deadline deadline;
  uint32_t try_count; /* tries that ended */
} lki_retry;

void lki_retry_init(lki_retry *retry, lake_env *env, lake_deadline deadline);
/* Call after each try. True: slept, try again. False: the status is final, or tries or time are used up. */
bool lki_retry_again(lki_retry *retry, lake_status status);

#endif
