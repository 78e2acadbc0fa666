/* What the files of this room share. */
#ifndef LKI_LOG_STATE_H
#define LKI_LOG_STATE_H

#include "base/env.h"
#include "log/log.h"

#define LKI_SEALED_CACHE_COUNT 64
#define LKI_HINT_EVERY 4 /* versions between updates of the hint object: some stores take one write a second a name */

struct lki_log {
  lake_env *env;
  lake_store *store;
  const lki_schema *schema;
  struct {
    lki_mutex *lock;
    lki_manifest *view;      /* never NULL */
    bool opened;             /* the newest version was looked for once */
    uint32_t miss_count;     /* refreshes in a row that found nothing new */
    lake_error cause;        /* of an attempt that is being retried */
    uint64_t looked_ns;      /* when the request was sent that showed the view to be the newest */
    uint64_t lag;            /* versions that the last refresh moved on */
    lki_segment *root;       /* the root segment used last, or NULL */
    lki_segment_ref root_ref;
    uint32_t sealed_count;   /* refs of segments written by this log, newest overwriting oldest */
    lki_segment_ref sealed[LKI_SEALED_CACHE_COUNT];
  } synced;
};

/* Makes manifest the view if it is newer; takes no reference. Only for one that is known to live. */
void lki_log_advance(lki_log *log, lki_manifest *manifest);
/* The hint's version; 0: there is no usable hint. TIMEOUT only. */
lake_status lki_log_read_hint(lki_log *log, lake_deadline deadline, uint64_t *version);

/* The last version that exists, from one that does. */
lake_status lki_log_gallop(lki_log *log, uint64_t from, lake_deadline deadline, uint64_t *newest, lake_error *err);

/* boundary.c. Whether the version's name lies under the boundary; for a version that was created or loaded before. */
lake_status lki_log_is_dead(lki_log *log, uint64_t version, lake_deadline deadline, bool *dead, lake_error *err);
/* Moves the view to the newest live version, wherever it stands. */
lake_status lki_log_jump(lki_log *log, lake_deadline deadline, lake_error *err);

#endif
