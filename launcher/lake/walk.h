/* Walking the steps of one manifest in order: segments of any level, then the tail. One thread. */
#ifndef LKI_LAUNCHER_WALK_H
#define LKI_LAUNCHER_WALK_H

#include "client/namespace.h"

typedef struct lki_walk_step {
  uint64_t step;
  const char *producer_id;
  const lki_descriptor *descriptor;
  const char *holder; /* name of the manifest or segment that lists it */
} lki_walk_step;

/* What a walk calls; each may be NULL but step. A status other than OK ends the walk with it. */
typedef struct lki_walk_visitor {
  void *ctx;
  lake_status (*step)(void *ctx, const lki_walk_step *step, lake_error *err);
  /* A segment was loaded and matches its reference. */
  lake_status (*segment)(void *ctx, const lki_segment_ref *ref, const lki_segment *segment, lake_error *err);
  /* A segment could not be loaded: OK goes on behind it, and its steps are not visited. NULL: the walk ends. */
  lake_status (*broken)(void *ctx, const lki_segment_ref *ref, lake_status status, const lake_error *why,
                        lake_error *err);
  uint64_t timeout_ms; /* for each object */
} lki_walk_visitor;

/* Visits steps [from, to) that the manifest holds. */
lake_status lki_walk(lake_namespace *ns, const lki_manifest *manifest, uint64_t from, uint64_t to,
                     const lki_walk_visitor *visitor, lake_error *err);

#endif
