/* The consumer client: one rank's slices, in step order, prefetched. */
#ifndef LAKESTREAM_CONSUMER_H
#define LAKESTREAM_CONSUMER_H

#include <lakestream/namespace.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LAKE_CURSOR_BYTES 128 /* room for a cursor's text and its NUL */

typedef struct lake_consumer lake_consumer;

typedef struct lake_consumer_options {
  uint32_t size;               /* set by LAKE_CONSUMER_OPTIONS_INIT */
  lake_mesh mesh;              /* of the job; {0,0}: the namespace's */
  lake_coords coords;          /* of this rank */
  const char *cursor;          /* where to start; NULL: the first live step */
  uint64_t prefetch_bytes_max; /* slices fetched or in flight; 0: 256 MiB; one step is always admitted */
  uint32_t prefetch_steps_max; /* steps fetched ahead; 0: 16 */
  uint32_t io_threads;         /* slices in flight at once; 0: 4 */
  const char *rank_label;      /* named in errors, such as "rank 3"; NULL: made from coords */
} lake_consumer_options;

#define LAKE_CONSUMER_OPTIONS_INIT {sizeof(lake_consumer_options), {0, 0}, {0, 0}, NULL, 0, 0, 0, NULL}

/* One step's slice for this rank. The bytes stay until lake_consumer_release(). */
typedef struct lake_batch {
  uint64_t step;       /* the job's step: index in the global order */
  const void *data;    /* 64-byte aligned */
  size_t bytes;
  uint32_t tensor_count;       /* 0 when slices are raw */
  const lake_tensor *tensors;  /* views into data */
  void *handle;                /* the library's */
} lake_batch;

typedef struct lake_consumer_stats {
  uint64_t step_count;       /* delivered by next */
  uint64_t delivered_bytes;  /* slice bytes handed out, in memory */
  uint64_t stored_bytes;     /* the same slices as they lie in the store */
  uint64_t wait_ns;          /* spent inside next, all together */
  uint64_t refresh_count;    /* manifest versions read */
} lake_consumer_stats;

/** Open a consumer for one position of the mesh.
 *  @param options NULL: coords (0,0), from the first live step.
 *  @param out the consumer, set last.
 *  Ownership: the caller closes it with lake_consumer_close(). ns must outlive it. Options are copied.
 *  Blocks: until the newest manifest was read or the deadline. Threads: any. MPI: local, collective-free.
 *  Errors: INVALID (mesh or coordinates do not fit, cursor of another namespace or damaged), RECLAIMED (cursor below
 *  the first live step), UNAVAILABLE, CORRUPT, TIMEOUT, NOMEM.
 *  Source: paper section 4.4.
 */
LAKE_API lake_status lake_consumer_open(lake_namespace *ns, const lake_consumer_options *options,
                                        lake_deadline deadline, lake_consumer **out, lake_error *err);

/** The next step's slice.
 *  @param batch filled; it is empty on failure.
 *  Ownership: the library's until lake_consumer_release(). Several batches may be held; they count against the budget.
 *  Blocks: until the slice is here and verified, or the deadline. Threads: one at a time. MPI: local, collective-free.
 *  Errors: END (sealed and read to the end), TIMEOUT (names rank, step, object and the last cause; call again),
 *  CORRUPT, RECLAIMED, UNAVAILABLE.
 *  Source: paper section 4.4.
 */
LAKE_API lake_status lake_consumer_next(lake_consumer *consumer, lake_deadline deadline, lake_batch *batch,
                                        lake_error *err);

/** Give a batch back; its bytes may be reused at once. An empty batch is accepted.
 *  @param batch made empty.
 *  Ownership: back to the library. Blocks: no. Threads: any. MPI: local. Errors: none.
 */
LAKE_API void lake_consumer_release(lake_consumer *consumer, lake_batch *batch);

/** The cursor after the batches that next has delivered: a short printable text without spaces.
 *  @param text room for LAKE_CURSOR_BYTES.
 *  Ownership: copied out. Blocks: no. Threads: one at a time, with next. MPI: local; equal on all ranks at equal steps.
 *  Errors: none.
 */
LAKE_API void lake_consumer_cursor(lake_consumer *consumer, char text[LAKE_CURSOR_BYTES]);

/** Read a cursor's text for this namespace.
 *  @param text from lake_consumer_cursor().
 *  @param row the next row of the whole stream.
 *  @param step the step of the namespace's own mesh that holds it.
 *  Ownership: by value. Blocks: no. Threads: any. MPI: local. Errors: INVALID (damaged, or of another namespace).
 */
LAKE_API lake_status lake_cursor_parse(const lake_namespace *ns, const char *text, uint64_t *row, uint64_t *step,
                                       lake_error *err);

/** Close a consumer; NULL is accepted. Batches not yet released are gone with it.
 *  Ownership: the consumer is gone. Blocks: until its threads ended, at most one store call. Threads: one, the last.
 *  MPI: local. Errors: none.
 */
LAKE_API void lake_consumer_close(lake_consumer *consumer);

/** Read the counters.
 *  @param stats filled.
 *  Ownership: by value. Blocks: no. Threads: any. MPI: local. Errors: none.
 */
LAKE_API void lake_consumer_stats_get(lake_consumer *consumer, lake_consumer_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
