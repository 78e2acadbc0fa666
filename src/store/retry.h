/* Waiting between tries of one request: full jitter, doubling from 20 ms to 2 s, a bounded number of tries,
 * never past the deadline. One lki_retry per request; not shared between threads. */
#ifndef LKI_STORE_RETRY_H
#define LKI_STORE_RETRY_H

#include <lakestream/base.h>
#include <stdatomic.h>

#define LKI_RETRY_TRIES_MAX 8

/* What all retries of a store share: tokens. A retry takes some, a success gives some back, and without any there is no
 * retry. A store that is down so gets little more than one request for each call, however many callers it has, while one
 * that fails now and then is never short. The numbers are those of the AWS SDKs' standard mode. Any thread. */
#define LKI_RETRY_TOKENS_MAX 500
#define LKI_RETRY_TOKENS_TRY 5
#define LKI_RETRY_TOKENS_SUCCESS 1

typedef struct lki_retry_budget {
  atomic_int token_count;
} lki_retry_budget;

void lki_retry_budget_init(lki_retry_budget *budget); /* full */

typedef struct lki_retry {
  lake_env *env;
  lki_retry_budget *budget; /* NULL: none */
  lake_deadline deadline;
  uint32_t try_count; /* tries that ended */
} lki_retry;

void lki_retry_init(lki_retry *retry, lake_env *env, lki_retry_budget *budget, lake_deadline deadline);
/* Call after each try, also after the one that went well. True: slept, try again. False: the status is final, or tries,
 * tokens or time are used up. */
bool lki_retry_again(lki_retry *retry, lake_status status);

#endif
