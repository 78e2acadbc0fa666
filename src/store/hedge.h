/* Asking a slow ranged read a second time. Most reads of a store take a few milliseconds and one in a hundred
 * takes a hundred times as long; the second request nearly always meets another machine. Off unless the user
 * allows a share of reads to be doubled. Safe from any thread. */
#ifndef LKI_STORE_HEDGE_H
#define LKI_STORE_HEDGE_H

#include "store/cloud.h"

/* percent: of ranged reads that may be asked twice, 1 to 100. */
lake_status lki_hedge_open(lake_env *env, uint32_t percent, lki_hedge **out, lake_error *err);
void lki_hedge_close(lki_hedge *hedge); /* NULL accepted */

typedef struct lki_hedge_stats {
  uint64_t read_count, hedged_count, won_count; /* won: by the second request */
} lki_hedge_stats;

void lki_hedge_stats_get(const lki_hedge *hedge, lki_hedge_stats *stats);

/* As lki_cloud_exchange, for a GET. */
lake_status lki_hedge_exchange(lki_cloud_store *store, const lki_ask *ask, lki_http_reply *reply,
                               lake_error *err);

#endif
