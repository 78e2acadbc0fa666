/* The step index: from a step to its descriptor, through the manifest's tail or its segments. Keeps the segments used
 * last. Safe from any thread. */
#ifndef LKI_CLIENT_STEPS_H
#define LKI_CLIENT_STEPS_H

#include "log/log.h"

typedef struct lki_steps lki_steps;

/* A descriptor, kept alive by what holds it. */
typedef struct lki_step_ref {
  const lki_descriptor *descriptor;
  const char *producer_id;
  lki_manifest *manifest; /* one of the two is set and retained */
  lki_segment *segment;
} lki_step_ref;

lake_status lki_steps_open(lake_env *env, lki_log *log, lki_steps **out, lake_error *err);
void lki_steps_close(lki_steps *steps); /* NULL accepted */

/* OK: *ref is filled; release it. AGAIN: the manifest does not reach the step. RECLAIMED: it lies below the first live
 * step. Else what reading a segment gave. */
lake_status lki_steps_find(lki_steps *steps, lki_manifest *manifest, uint64_t step, lake_deadline deadline,
                           lki_step_ref *ref, lake_error *err);
void lki_step_ref_release(lki_step_ref *ref); /* leaves it empty; an empty one is accepted */

#endif
