/* Lakestream for MPI programs: liblakestream_mpi. It never initialises or finalises MPI, never touches
 * MPI_COMM_WORLD, duplicates the communicators it is given, and returns the same status on every rank of a
 * collective call. Reads stay collective-free. */
#ifndef LAKESTREAM_MPI_H
#define LAKESTREAM_MPI_H

#include <lakestream/consumer.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The tag of the messages by which the ranks find each other in lake_mpi_group_open(), on the communicator they give. The
 * program sends nothing with it there. */
#define LAKE_MPI_TAG 32749

/* The sizes of the parallel dimensions; a 0 is a 1. */
typedef struct lake_parallel {
  uint32_t tp; /* tensor parallel */
  uint32_t cp; /* context parallel: C */
  uint32_t ep; /* expert parallel: its ranks hold different data, so it multiplies into D as dp does */
  uint32_t dp; /* data parallel: D; 0 with all others set: what remains of the communicator */
  uint32_t pp; /* pipeline parallel */
} lake_parallel;

typedef struct lake_mpi_group lake_mpi_group;

/** Mesh and coordinates from a data-parallel and a context-parallel communicator.
 *  @param dp rank in it is d, size is D.
 *  @param cp rank in it is c, size is C; MPI_COMM_NULL: C = 1.
 *  @param mesh filled. @param coords filled.
 *  Ownership: the communicators stay the caller's. Blocks: no. Threads: as MPI allows. MPI: local.
 *  Errors: INVALID (null communicator).
 */
LAKE_API lake_status lake_mpi_mesh_from_comms(MPI_Comm dp, MPI_Comm cp, lake_mesh *mesh, lake_coords *coords,
                                              lake_error *err);

/** Mesh and coordinates from one communicator and an order such as "tp-cp-dp-pp", the leftmost varying fastest.
 *  @param comm the job's communicator, not necessarily MPI_COMM_WORLD.
 *  @param order names of dimensions joined by '-', each of tp cp ep dp pp at most once; NULL: "tp-cp-ep-dp-pp".
 *  @param parallel the sizes; their product must be the size of comm. A dimension greater than 1 must be in order.
 *  @param mesh filled. @param coords filled.
 *  Ownership: comm stays the caller's. Blocks: no. Threads: as MPI allows. MPI: local.
 *  Errors: INVALID (unknown name, product differs: the text shows both).
 *  Source: Megatron's rank order.
 */
LAKE_API lake_status lake_mpi_mesh_from_order(MPI_Comm comm, const char *order, const lake_parallel *parallel,
                                              lake_mesh *mesh, lake_coords *coords, lake_error *err);

/** Open a consumer on every rank of a communicator and agree on it: same namespace, same cursor, same mesh.
 *  @param comm the ranks that open; duplicated, which takes one collective on it. Its error handler is not called; it is
 *         MPI_ERRORS_RETURN during the call and then what it was.
 *  @param ns this rank's namespace handle.
 *  @param options this rank's options: same mesh and cursor everywhere, coords its own. cursor on rank 0 decides
 *         where another rank passes NULL and rank 0 does not.
 *  @param deadline for the whole call; a rank that does not come is named by TIMEOUT.
 *  @param out the group: communicator plus consumer, set last.
 *  After TIMEOUT comm is as it was: no collective is begun on it before every rank is known to be in this call, so the
 *  program's own collectives go on, and the call may be tried again on it. The ranks find each other by messages of
 *  LAKE_MPI_TAG, of which some may still lie there: only a receive or probe of MPI_ANY_TAG on comm can meet them, so have
 *  none pending during the call and use none there after a TIMEOUT, or give a duplicate. There is one exception: a rank
 *  that is stopped for longer than a quarter of the deadline (at most 2 s) in the moment after all have come. The text
 *  then says "stopped while the communicator was duplicated", and nothing collective works on comm any more.
 *  Ownership: the caller closes it with lake_mpi_group_close(). ns must outlive it.
 *  Blocks: until all ranks agreed or the deadline. Threads: MPI_THREAD_FUNNELED is enough. MPI: collective over comm.
 *  Errors: INVALID (ranks disagree: the text names the first that differs, and on what), else the worst of the
 *  ranks' own; equal on all ranks. On failure no rank keeps a consumer open.
 */
LAKE_API lake_status lake_mpi_group_open(MPI_Comm comm, lake_namespace *ns, const lake_consumer_options *options,
                                         lake_deadline deadline, lake_mpi_group **out, lake_error *err);

/** The group's consumer on this rank.
 *  Ownership: borrowed from the group. Blocks: no. Threads: any. MPI: local. Errors: none.
 */
LAKE_API lake_consumer *lake_mpi_group_consumer(lake_mpi_group *group);

/** Pin a checkpoint at the smallest cursor of all ranks; one rank writes the pin.
 *  @param group_name name of the consumer group. @param checkpoint name of the checkpoint.
 *  @param deadline for the whole call. When it passes, the communicator is not used again and later calls fall back to
 *         one pin per rank, "checkpoint.rank-N", which needs no collective.
 *  Ownership: copied. Blocks: until agreed and written or the deadline. Threads: MPI_THREAD_FUNNELED is enough.
 *  MPI: collective over the group's communicator. Errors: as lake_pin_create(), equal on all ranks; TIMEOUT.
 *  Source: paper section 5.3, equation 11.
 */
LAKE_API lake_status lake_mpi_pin_create(lake_mpi_group *group, const char *group_name, const char *checkpoint,
                                         lake_deadline deadline, lake_error *err);

/** Close the group and its consumer; NULL is accepted.
 *  Ownership: gone. Blocks: as lake_consumer_close(). Threads: one. MPI: collective over comm (it frees the duplicate);
 *  call it before MPI_Finalize. Errors: none.
 */
LAKE_API void lake_mpi_group_close(lake_mpi_group *group);

#ifdef __cplusplus
}
#endif
#endif
