/* One seeded schedule: producers, zombies, consumers and a reclaimer on a store that fails, with processes paused and
 * killed at random; then the weather clears, everybody finishes, and the checkers have the last word. */
#ifndef LKI_SIM_SCHEDULE_H
#define LKI_SIM_SCHEDULE_H

#include "sim/store.h"

typedef struct lki_schedule_options {
  uint32_t producers; /* 0: 2 to 8, by the seed */
  uint32_t consumers; /* 0: 4 to 16, by the seed */
  uint32_t tgbs;      /* each producer's; 0: 4 to 14, by the seed */
  bool calm;          /* no faults, no kills, no pauses */
  void (*trace)(void *ctx, const char *line); /* NULL: none */
  void *trace_ctx;
} lki_schedule_options;

typedef struct lki_schedule_report {
  char violation[600]; /* "": none */
  uint64_t digest;     /* of the history */
  uint64_t switches, virtual_ns, step_count, kill_count, pause_count, fenced_count, in_doubt_count;
  lki_sim_counts counts;
} lki_schedule_report;

/* True: no violation. */
bool lki_schedule_run(uint64_t seed, const lki_schedule_options *options, lki_schedule_report *report);

#endif
