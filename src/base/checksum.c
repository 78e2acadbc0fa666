/* XXH3-64, inlined from libxxhash's header so that the compiler picks the vector unit. */
#include "base/checksum.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t lki_checksum(const void *data, size_t bytes, uint64_t seed) {
  return bytes > 0 ? XXH3_64bits_withSeed(data, bytes, seed) : XXH3_64bits_withSeed("", 0, seed);
}
