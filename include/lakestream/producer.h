/* The producer client: append whole batches, have them committed exactly once. */
#ifndef LAKESTREAM_PRODUCER_H
#define LAKESTREAM_PRODUCER_H

#include <lakestream/namespace.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LAKE_PRODUCER_STATE_BYTES_MAX 256

typedef struct lake_producer lake_producer;

typedef struct lake_producer_options {
  uint32_t size;              /* set by LAKE_PRODUCER_OPTIONS_INIT */
  uint32_t upload_threads;    /* objects in upload at once; 0: 4 */
  uint64_t upload_bytes_max;  /* bytes encoded and not yet durable; 0: 256 MiB; one TGB is always admitted */
  uint32_t pending_count_max; /* TGBs appended and not yet committed; 0: 4096 */
  uint32_t policy;            /* when to commit: lake_commit_policy; 0: CARRY */
  double epsilon;             /* DAC conflict budget; 0: 0.05 */
  double delta;               /* DAC duty budget; 0: 0.1 */
  double alpha;               /* DAC averaging weight; 0: 0.2 */
  double rho;                 /* DAC jitter; 0: 0.1 */
} lake_producer_options;

#define LAKE_PRODUCER_OPTIONS_INIT {sizeof(lake_producer_options), 0, 0, 0, 0, 0, 0, 0, 0}

/* Commit policies. CARRY is the product's, DAC the paper's; the others are the paper's baselines, for measurement: they
 * count TGBs, and commit the last few only when flush asks for it. */
typedef enum lake_commit_policy {
  LAKE_POLICY_CARRY = 0,    /* DAC, and each commit carries what the others have announced */
  LAKE_POLICY_DAC = 1,      /* the paper's Algorithm 1 */
  LAKE_POLICY_NAIVE = 2,    /* commit every TGB */
  LAKE_POLICY_FIXED10 = 3,  /* every 10 TGBs */
  LAKE_POLICY_FIXED100 = 4, /* every 100 TGBs */
  LAKE_POLICY_INCR = 5,     /* start at 10, one more on each conflict */
  LAKE_POLICY_AIMD = 6      /* additive increase on success, half on conflict, as the paper's section 7.1 */
} lake_commit_policy;

/* Where a producer stands when it opens: everything before this is committed, nothing after it is. */
typedef struct lake_producer_resume {
  uint64_t epoch;  /* of this incarnation; 1 for the first */
  uint64_t seq;    /* of the next TGB; 0 for the first */
  uint64_t offset; /* in the producer's own input, as last committed; 0 for the first */
  size_t state_bytes;
  unsigned char state[LAKE_PRODUCER_STATE_BYTES_MAX]; /* opaque, as last committed */
} lake_producer_resume;

typedef struct lake_producer_stats {
  uint64_t appended_count;  /* TGBs accepted by append */
  uint64_t committed_count; /* of them, visible */
  uint64_t attempt_count;   /* commit attempts */
  uint64_t commit_count;    /* attempts that won */
  uint64_t gap_ns;          /* the gap that the policy chose last */
  uint64_t manifest_bytes;  /* of the last manifest written */
  uint64_t carried_count;   /* own TGBs that another producer's commit made visible */
  uint64_t cargo_count;     /* others' TGBs that commits of this producer made visible */
} lake_producer_stats;

/** Open a producer: claim the next epoch of its id by a commit; the older incarnation is fenced from then on.
 *  @param id stable name across restarts; [A-Za-z0-9._-], 1 to 64 characters, not beginning with '.'.
 *  @param options NULL for the defaults.
 *  @param resume where to go on in the input.
 *  @param out the producer, set last.
 *  Ownership: the caller closes it with lake_producer_close(). ns must outlive it.
 *  Blocks: until the claim is committed or the deadline. Threads: any. MPI: local.
 *  Errors: INVALID, END (the stream is sealed), UNSUPPORTED (the store does not keep what commits rest on; nothing is
 *  claimed), DENIED, CORRUPT, UNCERTAIN (the claim may be committed: open again), UNAVAILABLE, TIMEOUT, NOMEM.
 *  Source: paper section 5.3; epochs are ours.
 */
LAKE_API lake_status lake_producer_open(lake_namespace *ns, const char *id, const lake_producer_options *options,
                                        lake_deadline deadline, lake_producer_resume *resume, lake_producer **out,
                                        lake_error *err);

/** Append one TGB. Returns once it is accepted; upload and commit go on behind it.
 *  @param slices slices[d*C + c], D*C of them; each has slice_bytes bytes (typed) or any number (raw).
 *  @param slice_count D*C.
 *  @param offset position in the input after this TGB; never smaller than the one before.
 *  @param state opaque bytes kept with offset, handed back by the next open; {NULL, 0} for none.
 *  Ownership: slices and state are copied before the call returns.
 *  Blocks: while the upload budget or the pending limit is used up, until the deadline. Threads: one at a time.
 *  MPI: local. Errors: INVALID, TIMEOUT (nothing was appended: call again), and, for ever after they occurred,
 *  FENCED, END (sealed under us), CORRUPT, INVALID and UNSUPPORTED (of the store). NOMEM appends nothing. The text of
 *  FENCED and END says below which seq this producer's TGBs are committed, for good; committed_count of the stats counts
 *  them.
 *  Source: paper section 4.1.
 */
LAKE_API lake_status lake_producer_append(lake_producer *producer, const lake_bytes *slices, uint32_t slice_count,
                                          uint64_t offset, lake_bytes state, lake_deadline deadline, lake_error *err);

/** Wait until everything appended is committed. Commits without waiting for the gap first.
 *  Ownership: none passes. Blocks: until all is visible or the deadline. Threads: one at a time. MPI: local.
 *  Errors: TIMEOUT or UNCERTAIN (the TGBs stay: call again), FENCED, END, UNAVAILABLE or DENIED (with the store's cause;
 *  call again). OK is told also after FENCED or END if all is committed. UNCERTAIN comes once more before FENCED in the
 *  one case where it cannot be told which TGBs are committed: the versions that would tell were reclaimed while this
 *  process stood still. CORRUPT (a manifest or segment cannot be read), INVALID or UNSUPPORTED (the store will not take
 *  the commit) end the producer, also after UNCERTAIN; they speak of the last attempt only: TGBs of one that was
 *  UNCERTAIN may be committed. Opening the id again tells.
 */
LAKE_API lake_status lake_producer_flush(lake_producer *producer, lake_deadline deadline, lake_error *err);

/** Flush, then mark the id as finished in the producer map; its final offset is kept. Opening the id again revives it.
 *  Ownership: the producer is still to be closed. Blocks: until committed or the deadline. Threads: one at a time.
 *  MPI: local. Errors: as lake_producer_flush().
 */
LAKE_API lake_status lake_producer_retire(lake_producer *producer, lake_deadline deadline, lake_error *err);

/** Close without committing what is still pending (flush first); NULL is accepted.
 *  What a flush has called committed stays so. A commit that is on its way is not waited for: its TGBs may be committed
 *  or not, as after a crash, and opening the id again tells.
 *  Ownership: the producer is gone. Blocks: until its threads ended. They begin nothing new: each ends what it is asking
 *  of the store, which takes 30 s at most where that does not answer. Threads: one, the last.
 *  MPI: local. Errors: none.
 */
LAKE_API void lake_producer_close(lake_producer *producer);

/** Read the counters.
 *  @param stats filled.
 *  Ownership: by value. Blocks: no. Threads: any. MPI: local. Errors: none.
 */
LAKE_API void lake_producer_stats_get(lake_producer *producer, lake_producer_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
