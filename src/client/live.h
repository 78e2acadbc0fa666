/* What lives as one manifest tells: the TGBs of its live steps, and the segments that lead to them. Immutable once
 * opened; any thread. */
#ifndef LKI_CLIENT_LIVE_H
#define LKI_CLIENT_LIVE_H

#include "client/namespace.h"

typedef struct lki_live lki_live;

typedef enum lki_fate {
  LKI_FATE_LIVE = 0,      /* a live step or a live segment needs it */
  LKI_FATE_IN_FLIGHT = 1, /* a later version may come to need it */
  LKI_FATE_DEAD = 2       /* nobody can reach it, now or ever */
} lki_fate;

/* Reads the segments that hold steps from first_live_step on; manifest must live and stay. CORRUPT also when a segment
 * was reclaimed since the manifest was read. */
lake_status lki_live_open(lake_namespace *ns, lki_manifest *manifest, uint64_t first_live_step,
                          lake_deadline deadline, lki_live **out, lake_error *err);
void lki_live_close(lki_live *live); /* NULL accepted */

lki_fate lki_live_tgb(const lki_live *live, const char *producer_id, uint64_t epoch, uint64_t seq);
/* next_version: versions below it are decided. */
lki_fate lki_live_segment(const lki_live *live, const lki_segment_ref *ref, uint64_t next_version);

#endif
