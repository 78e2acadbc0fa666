/* Append and rebase as pure functions: what a writer wants done, applied to whichever manifest is newest. */
#ifndef LKI_MODEL_CHANGE_H
#define LKI_MODEL_CHANGE_H

#include "model/manifest.h"

typedef enum lki_change_kind {
  LKI_CHANGE_CLAIM = 1,  /* take the next epoch of producer_id */
  LKI_CHANGE_APPEND = 2, /* add a run of TGBs */
  LKI_CHANGE_RETIRE = 3, /* mark producer_id as finished */
  LKI_CHANGE_SEAL = 4,   /* end the stream */
  LKI_CHANGE_TRIM = 5    /* raise the first live step; also of a sealed stream */
} lki_change_kind;

typedef struct lki_change {
  lki_change_kind kind;
  const char *producer_id;           /* CLAIM, APPEND, RETIRE */
  uint64_t epoch;                    /* APPEND, RETIRE: the writer's own */
  const char *owner;                 /* CLAIM */
  uint64_t first_seq;                /* APPEND: seq of descriptors[0] */
  uint32_t descriptor_count;         /* APPEND */
  const lki_descriptor *descriptors; /* APPEND; `producer` is ignored */
  uint64_t offset;                   /* APPEND: after the last descriptor */
  lake_bytes state;                  /* APPEND */
  uint64_t first_live_step;          /* TRIM */
  uint64_t version_max;              /* TRIM: no version above it may make the change */
} lki_change;

/* Segments sealed since the base was read: the refs that the next version holds instead of the base's, covering also
 * the first tail_drop descriptors of its tail. */
typedef struct lki_sealing {
  uint32_t tail_drop;
  uint32_t segment_count;
  const lki_segment_ref *segments;
} lki_sealing;

/* Who writes the next version. */
typedef struct lki_stamp {
  lki_id namespace_id;
  lki_id attempt;
  const char *writer;
} lki_stamp;

/* What the committer carries for others along with its own change: APPENDs, each applied where its epoch is the entry's
 * and its first seq is exactly the next one, and passed over otherwise. */
typedef struct lki_cargo {
  const lki_change *appends;
  uint32_t count;
} lki_cargo;

/* Applies a change to base, and the cargo on top. sealing and cargo may be NULL.
 * OK: *out is version base+1, unshared, checked against base. EXISTS: base has all of the change already (a rebase
 * that finds its own commit). FENCED: a newer epoch owns the id, or the time to trim is over. END: the stream is
 * sealed. INTERNAL: the first seq is beyond the recorded next one. INVALID: the first live step would lie beyond the
 * end. NOMEM. */
lake_status lki_manifest_apply(lake_env *env, const lki_manifest *base, const lki_change *change,
                               const lki_cargo *cargo, const lki_sealing *sealing, const lki_stamp *stamp,
                               lki_manifest **out, lake_error *err);

/* Producers that have committed within the last versions and have not retired: DAC's N, at least 1. */
uint32_t lki_manifest_active_producers(const lki_manifest *manifest);

/* The run of refs that should be folded into one of the next level: *first and *count; count 0: none. */
void lki_segments_foldable(const lki_segment_ref *refs, uint32_t count, uint32_t *first, uint32_t *fold_count);

/* Deep copy of a descriptor into an arena; false: no memory. */
bool lki_descriptor_copy(lki_arena *arena, const lki_descriptor *from, lki_descriptor *to);

#endif
