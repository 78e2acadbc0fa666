/* What the files of this room share. */
#ifndef LKI_LOG_STATE_H
#define LKI_LOG_STATE_H

#include "base/env.h"
#include "log/log.h"

#define LKI_SEALED_CACHE_COUNT 64
#define LKI_HINT_EVERY 16 /* versions between updates of the hint object */

struct lki_log {
  lake_env *env;
  lake_store *store;
  const lki_schema *schema;
  struct {
    lki_mutex *lock;
    lki_manifest *view;      /* never NULL */
    bool opened;             /* the hint was read once */
    uint64_t tau_ns;         /* of the last attempt, to spread retries */
    lki_segment *root;       /* the root segment used last, or NULL */
    lki_segment_ref root_ref;
    uint32_t sealed_count;   /* refs of segments written by this log, newest overwriting oldest */
    lki_segment_ref sealed[LKI_SEALED_CACHE_COUNT];
  } synced;
};

/* Makes manifest the view if it is newer; takes no reference. */
void lki_log_advance(lki_log *log, lki_manifest *manifest);

#endif
