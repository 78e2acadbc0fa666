/* Seeded pseudo-random numbers (SplitMix64): for tests and the simulator, where equal seeds must give equal runs. */
#ifndef LKI_BASE_RNG_H
#define LKI_BASE_RNG_H

#include <stdint.h>

typedef struct lki_rng {
  uint64_t state;
} lki_rng;

uint64_t lki_rng_next(lki_rng *rng);
uint64_t lki_rng_below(lki_rng *rng, uint64_t bound); /* bound > 0 */
double lki_rng_unit(lki_rng *rng);                    /* [0, 1) */

#endif
