/* What the files of liblakestream_mpi share: collectives that end at a deadline, and the group.
 * Threading: as MPI_THREAD_FUNNELED asks, every function runs on the thread that may call MPI. */
#ifndef LKI_HPC_INTERNAL_H
#define LKI_HPC_INTERNAL_H

#include <lakestream/mpi.h>

/* A duplicated communicator whose collectives never block for ever. Once one of them did not end in time the
 * communicator is broken: other ranks may still be inside it, so nothing is started on it again. */
typedef struct lki_comm {
  MPI_Comm comm; /* MPI_COMM_NULL until opened */
  int rank;
  int rank_count;
  lake_env *env; /* borrowed: its clock */
  bool broken;
} lki_comm;

struct lake_mpi_group {
  lki_comm comm;
  lake_env *env;       /* owned: deadlines are points on the machine's monotonic clock, the same in every environment */
  lake_namespace *ns;  /* borrowed */
  lake_consumer *consumer;
};

/* One rank's outcome, as the ranks exchange it. */
typedef struct lki_outcome {
  int32_t status;
  char text[500];
} lki_outcome;

/* Sets *err (NULL accepted) and returns status. */
lake_status lki_mpi_fail(lake_error *err, lake_status status, const char *format, ...) LAKE_PRINTF(3, 4);
/* The same for an MPI error code; comm is broken then. */
lake_status lki_mpi_failed(lki_comm *comm, int code, const char *what, lake_error *err);
/* INVALID unless MPI is initialised and not finalised and comm is an intracommunicator. */
lake_status lki_mpi_usable(MPI_Comm comm, const char *what, lake_error *err);

/* Collective over parent: duplicates it. `what` names the caller's step in errors. No collective is begun on parent
 * unless all ranks are there; errors of MPI on it are returned, whatever its error handler is. */
lake_status lki_comm_open(lki_comm *comm, MPI_Comm parent, lake_env *env, lake_deadline deadline, const char *what,
                          lake_error *err);
/* Every rank calls it on the caller's own communicator, where only messages of LAKE_MPI_TAG are used. OK: every rank
 * is here and gets OK. TIMEOUT names the ranks that did not come. */
lake_status lki_comm_arrive(lki_comm *comm, lake_deadline deadline, const char *what, lake_error *err);
/* Collective over comm unless broken. */
void lki_comm_close(lki_comm *comm);
/* Collective: all[r*bytes ...] is what rank r gave as `mine`. TIMEOUT names the ranks that did not come. */
lake_status lki_comm_gather(lki_comm *comm, const void *mine, size_t bytes, void *all, lake_deadline deadline,
                            const char *what, lake_error *err);
/* Collective: data of root to all. */
lake_status lki_comm_bcast(lki_comm *comm, void *data, size_t bytes, int root, lake_deadline deadline,
                           const char *what, lake_error *err);
/* Collective: every rank gives its own status and error and gets the worst (the highest value) of all, with the text
 * of the first rank that has it. */
lake_status lki_comm_agree(lki_comm *comm, lake_status mine, const lake_error *own, lake_deadline deadline,
                           const char *what, lake_error *err);
uint64_t lki_comm_now_ns(const lki_comm *comm);
/* The deadline for a rank's own work inside a collective call: earlier, so that the outcome can still be agreed. */
lake_deadline lki_comm_work_deadline(const lki_comm *comm, lake_deadline deadline);

#endif
