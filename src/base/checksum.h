/* XXH3-64 of bytes (xxHash specification 0.1.1, seed as given). One algorithm everywhere: see docs/design. */
#ifndef LKI_BASE_CHECKSUM_H
#define LKI_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t lki_checksum(const void *data, size_t bytes, uint64_t seed);

#endif
