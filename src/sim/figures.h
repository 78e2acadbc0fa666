/* Figures of a commit policy on a simulated store: hours of virtual time for `lake sim` and docs/PERFORMANCE.md. */
#ifndef LKI_SIM_FIGURES_H
#define LKI_SIM_FIGURES_H

#include "sim/store.h"

typedef struct lki_figures_options {
  uint64_t seed;
  uint32_t policy; /* lake_commit_policy */
  uint32_t producers;
  double hours;
  double warmup_s;     /* not counted */
  uint64_t tgb_bytes;
  double rate;         /* TGBs a second that each producer makes; 0: as fast as it can write them */
  double latency_ms;   /* of one store operation, to and fro */
  double bandwidth_mb_s; /* of one connection */
  double jitter;       /* an operation takes 1 to 1 + jitter times as long */
  double epsilon, delta, alpha, rho; /* 0: the policy's defaults */
  /* The paper's system: each producer writes and commits in one loop (Algorithm 1), and every manifest costs as much as
   * one that lists every TGB so far, entry_bytes each. Else the library's own client, on manifests as they are. */
  bool full_list;
  uint64_t entry_bytes;
} lki_figures_options;

typedef struct lki_figures {
  uint64_t attempts, commits;
  double success_pct;
  double ingest_mb_s;              /* TGBs made visible in the window, times their size */
  double ingest_first_hour_mb_s, ingest_last_hour_mb_s;
  double visible_p50_s, visible_p95_s; /* from the TGB's object being durable to its being committed */
  double manifest_bytes_first, manifest_bytes_last; /* mean of the first and of the last hundred commits */
  uint64_t tgbs;
  lki_sim_counts counts;
  double cpu_s;
} lki_figures;

/* False with text in err: the options make no sense. */
lake_status lki_figures_run(const lki_figures_options *options, lki_figures *figures, lake_error *err);

#endif
