/* Memory that fails once, at a chosen allocation, and counts what is not freed. Any thread. */
#ifndef LAKE_TESTS_SCARCE_H
#define LAKE_TESTS_SCARCE_H

#include "support/support.h"
#include <stdatomic.h>

typedef struct scarce {
  atomic_long left; /* allocations that still succeed before one fails; below 0: all do */
  atomic_long live; /* allocations not freed */
} scarce;

/* Allocations of an environment that is opened with these options succeed until scarce_fail_at(). */
lake_env_options scarce_options(scarce *memory);

/* The allocation after `at` more fails, and those after it succeed again. */
void scarce_fail_at(scarce *memory, long at);

/* Whether it came to that. From now on all succeed. */
bool scarce_failed(scarce *memory);

#endif
