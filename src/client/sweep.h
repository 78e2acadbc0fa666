/* Deleting what lives no more: one pass over the TGBs, one over the segments, one over the old manifests. Each looks
 * only at what is there and at what one manifest says, so it may be ended and begun again anywhere. */
#ifndef LKI_CLIENT_SWEEP_H
#define LKI_CLIENT_SWEEP_H

#include "client/live.h"
#include <lakestream/reclaim.h>

typedef struct lki_sweep {
  lake_namespace *ns;
  const lki_live *live;
  uint64_t version; /* of the manifest that decides; of the one that would, in a dry run */
  bool dry_run;
  lake_deadline deadline;
  lake_reclaim_report *report;
} lki_sweep;

lake_status lki_sweep_run(const lki_sweep *sweep, lake_error *err);

#endif
