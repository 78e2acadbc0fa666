/* Reclaim: deletes what no checkpoint needs any more, and what nobody can reach. */
#ifndef LAKESTREAM_RECLAIM_H
#define LAKESTREAM_RECLAIM_H

#include <lakestream/namespace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lake_reclaim_options {
  uint32_t size;        /* set by LAKE_RECLAIM_OPTIONS_INIT */
  uint32_t dry_run;     /* not 0: write and delete nothing, report what would be deleted */
  uint64_t before_step; /* trim at most up to this step, also without any pin; 0: up to the lowest pin, if there is one */
} lake_reclaim_options;

#define LAKE_RECLAIM_OPTIONS_INIT {sizeof(lake_reclaim_options), 0, 0}

/* What one call has deleted (dry_run: would delete), and what it has seen. */
typedef struct lake_reclaim_report {
  uint64_t version;         /* of the manifest that decided */
  uint64_t first_live_step; /* nothing below it is left */
  uint64_t next_step;       /* steps committed so far */
  uint64_t pin_count;       /* pins that hold */
  uint64_t pinned_step;     /* the lowest of them; UINT64_MAX: none */
  uint64_t void_pin_count;  /* pins below the first live step: they hold nothing, and are not removed */
  uint64_t tgb_count, tgb_bytes;             /* deleted */
  uint64_t segment_count, segment_bytes;     /* deleted */
  uint64_t manifest_count, manifest_bytes;   /* deleted */
  uint64_t in_flight_count, in_flight_bytes; /* TGBs and segments kept because they may yet be committed */
  uint64_t unknown_count;                    /* objects among them whose names are not Lakestream's: left alone */
  uint64_t announcement_count, announcement_bytes; /* deleted: left by producers that did not come to withdraw them */
  uint64_t upload_count; /* given up: uploads in parts that nobody will finish, of objects that could be deleted */
  lake_error upload_error; /* why some of those stay: the store refused to list or end them (all else is done, and the
                              call is OK). status OK: nothing was refused */
} lake_reclaim_report;

/** Delete what no pin needs (everything below the lowest pin of all groups), what losers and crashed producers left,
 *  and old manifest versions. It may be ended at any point and run again, by any number of processes at once. Whoever
 *  reads without a pin, below the lowest one, finds its steps reclaimed.
 *  @param options NULL: trim up to the lowest pin; without a pin no committed step is deleted.
 *  @param report filled, also on failure: what was done for certain until then. May be NULL.
 *  Ownership: none passes. Blocks: until all is deleted or the deadline; calling again goes on. Threads: any.
 *  MPI: local; one rank is enough.
 *  Errors: CORRUPT (a pin cannot be read: nothing is deleted while it stands; or a segment is damaged), INVALID,
 *  UNCERTAIN (call again), UNAVAILABLE, DENIED, TIMEOUT, NOMEM.
 *  Source: paper section 5.3.
 */
LAKE_API lake_status lake_reclaim(lake_namespace *ns, const lake_reclaim_options *options, lake_deadline deadline,
                                  lake_reclaim_report *report, lake_error *err);

#ifdef __cplusplus
}
#endif
#endif
