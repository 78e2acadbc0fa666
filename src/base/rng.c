/* SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). */
#include "base/rng.h"
#include <assert.h>

uint64_t lki_rng_next(lki_rng *rng) {
  uint64_t z = (rng->state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t lki_rng_below(lki_rng *rng, uint64_t bound) {
  assert(bound > 0);
  uint64_t limit = UINT64_MAX - UINT64_MAX % bound; /* reject the uneven rest */
  uint64_t value;
  do value = lki_rng_next(rng);
  while (value >= limit);
  return value % bound;
}

double lki_rng_unit(lki_rng *rng) { return (double)(lki_rng_next(rng) >> 11) * 0x1p-53; }
