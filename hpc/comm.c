/* Collectives that end at a deadline.
 *
 * Each is a nonblocking MPI collective that is tested until it is done or the time is up. MPI cannot cancel a
 * collective, so on a timeout its request and its buffers are left to MPI for good and the communicator is marked
 * broken: a small, bounded leak in place of a hang or a write into freed memory.
 *
 * Everything is exchanged by gathering one small record of every rank on every rank: each then takes the same
 * decision from the same data, and a rank that did not come is known by its missing record. The linear Iallgatherv
 * is used because a rank's record travels straight to every other one, also while a third one is missing. */
#include "internal.h"
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

lake_status lki_mpi_fail(lake_error *err, lake_status status, const char *format, ...) {
  if (err == NULL) return status;
  char text[sizeof err->text]; /* aside: the arguments may point into *err */
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  for (unsigned char *p = (unsigned char *)text; *p; p++)
    if (*p < 0x20 || *p == 0x7f) *p = ' ';
  memcpy(err->text, text, sizeof text);
  err->status = status;
  return status;
}

lake_status lki_mpi_usable(MPI_Comm comm, const char *what, lake_error *err) {
  int yes = 0;
  if (MPI_Initialized(&yes) != MPI_SUCCESS || !yes)
    return lki_mpi_fail(err, LAKE_INVALID, "%s: MPI is not initialised; call MPI_Init first", what);
  if (MPI_Finalized(&yes) != MPI_SUCCESS || yes)
    return lki_mpi_fail(err, LAKE_INVALID, "%s: MPI is finalized already; call before MPI_Finalize", what);
  if (comm == MPI_COMM_NULL)
    return lki_mpi_fail(err, LAKE_INVALID, "%s: the communicator is MPI_COMM_NULL; pass one this rank is in", what);
  if (MPI_Comm_test_inter(comm, &yes) != MPI_SUCCESS || yes)
    return lki_mpi_fail(err, LAKE_INVALID, "%s: intercommunicators are not supported; merge it first", what);
  return LAKE_OK;
}

uint64_t lki_comm_now_ns(const lki_comm *comm) { return lake_deadline_after_ms(comm->env, 0).at_ns; }

lake_deadline lki_comm_work_deadline(const lki_comm *comm, lake_deadline deadline) {
  uint64_t now = lki_comm_now_ns(comm);
  if (deadline.at_ns <= now) return deadline;
  uint64_t reserve = (deadline.at_ns - now) / 4;
  if (reserve > 2000000000u) reserve = 2000000000u;
  return (lake_deadline){deadline.at_ns - reserve};
}

lake_status lki_mpi_failed(lki_comm *comm, int code, const char *what, lake_error *err) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  comm->broken = true;
  MPI_Error_string(code, text, &length);
  return lki_mpi_fail(err, LAKE_UNAVAILABLE, "rank %d of %d, %s: MPI failed: %.200s; restart the job", comm->rank,
                      comm->rank_count, what, text);
}

/* OK: done. TIMEOUT: not in time, and the request is abandoned. Sleeps between tests: ranks may share a core. */
static lake_status finish(lki_comm *comm, MPI_Request *request, lake_deadline deadline, const char *what,
                          lake_error *err) {
  struct timespec pause = {0, 1000};
  for (int spins = 0;; spins++) {
    int done = 0;
    int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return lki_mpi_failed(comm, code, what, err);
    if (done) return LAKE_OK;
    if (lki_comm_now_ns(comm) >= deadline.at_ns) break;
    if (spins > 100) nanosleep(&pause, NULL);
    if (spins > 100 && pause.tv_nsec < 500000) pause.tv_nsec *= 2;
  }
  comm->broken = true;
  return lki_mpi_fail(err, LAKE_TIMEOUT,
                      "rank %d of %d, %s: the other ranks did not finish in time; the communicator is not used again",
                      comm->rank, comm->rank_count, what);
}

/* Writes the ranks without a record, such as "2, 5 and 11 more". */
static void missing_text(const unsigned char *wire, size_t stride, int rank_count, char *dst, size_t dst_bytes) {
  int missing = 0;
  size_t used = 0;
  dst[0] = '\0';
  for (int r = 0; r < rank_count; r++) {
    /* MPI may still be writing here: the mark is one byte, read once, and only the error's text depends on it. */
    if (((const volatile unsigned char *)wire)[(size_t)r * stride] != 0) continue;
    if (missing++ >= 8 || used + 16 > dst_bytes) continue;
    used += (size_t)snprintf(dst + used, dst_bytes - used, "%s%d", missing > 1 ? ", " : "", r);
  }
  if (missing > 8) snprintf(dst + used, dst_bytes - used, " and %d more", missing - 8);
}

lake_status lki_comm_gather(lki_comm *comm, const void *mine, size_t bytes, void *all, lake_deadline deadline,
                            const char *what, lake_error *err) {
  if (comm->broken)
    return lki_mpi_fail(err, LAKE_TIMEOUT, "rank %d of %d, %s: this communicator timed out before; reopen the group",
                        comm->rank, comm->rank_count, what);
  /* On the wire a record begins with one byte that is never 0: the mark that this rank came. */
  size_t count = (size_t)comm->rank_count, stride = bytes + 1;
  if (stride * count > INT_MAX)
    return lki_mpi_fail(err, LAKE_INVALID, "%s: %d ranks are more than can be gathered", what, comm->rank_count);
  unsigned char *wire = calloc(count + 1, stride);
  int *counts = calloc(count * 2, sizeof *counts);
  lake_status status = LAKE_OK;
  MPI_Request request = MPI_REQUEST_NULL;
  if (wire == NULL || counts == NULL) {
    /* The other ranks cannot be told any more: they end by their deadline. */
    comm->broken = true;
    status = lki_mpi_fail(err, LAKE_NOMEM, "rank %d of %d, %s: no memory", comm->rank, comm->rank_count, what);
    goto done;
  }
  int *displacements = counts + count;
  for (size_t r = 0; r < count; r++) counts[r] = (int)stride, displacements[r] = (int)(r * stride);
  unsigned char *own = wire + count * stride;
  own[0] = 1;
  memcpy(own + 1, mine, bytes);
  int code = MPI_Iallgatherv(own, (int)stride, MPI_BYTE, wire, counts, displacements, MPI_BYTE, comm->comm, &request);
  if (code != MPI_SUCCESS) {
    status = lki_mpi_failed(comm, code, what, err);
    goto done;
  }
  status = finish(comm, &request, deadline, what, err);
  if (status != LAKE_OK) {
    char missing[200];
    missing_text(wire, stride, comm->rank_count, missing, sizeof missing);
    if (status == LAKE_TIMEOUT && missing[0] != '\0')
      lki_mpi_fail(err, LAKE_TIMEOUT, "rank %d of %d, %s: rank %s did not come within the deadline; see that rank's log",
                   comm->rank, comm->rank_count, what, missing);
    return status; /* wire and counts belong to the abandoned request */
  }
  for (size_t r = 0; r < count; r++) memcpy((unsigned char *)all + r * bytes, wire + r * stride + 1, bytes);
done:
  free(counts);
  free(wire);
  return status;
}

lake_status lki_comm_bcast(lki_comm *comm, void *data, size_t bytes, int root, lake_deadline deadline,
                           const char *what, lake_error *err) {
  if (comm->broken)
    return lki_mpi_fail(err, LAKE_TIMEOUT, "rank %d of %d, %s: this communicator timed out before; reopen the group",
                        comm->rank, comm->rank_count, what);
  unsigned char *wire = malloc(bytes);
  if (wire == NULL) {
    comm->broken = true;
    return lki_mpi_fail(err, LAKE_NOMEM, "rank %d of %d, %s: no memory", comm->rank, comm->rank_count, what);
  }
  memcpy(wire, data, bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_Ibcast(wire, (int)bytes, MPI_BYTE, root, comm->comm, &request);
  if (code != MPI_SUCCESS) {
    free(wire);
    return lki_mpi_failed(comm, code, what, err);
  }
  lake_status status = finish(comm, &request, deadline, what, err);
  if (status != LAKE_OK) return status; /* wire belongs to the abandoned request */
  memcpy(data, wire, bytes);
  free(wire);
  return LAKE_OK;
}

lake_status lki_comm_agree(lki_comm *comm, lake_status mine, const lake_error *own, lake_deadline deadline,
                           const char *what, lake_error *err) {
  int32_t value = (int32_t)mine;
  int32_t *all = calloc((size_t)comm->rank_count, sizeof *all);
  if (all == NULL) {
    comm->broken = true;
    return lki_mpi_fail(err, LAKE_NOMEM, "rank %d of %d, %s: no memory", comm->rank, comm->rank_count, what);
  }
  lake_status status = lki_comm_gather(comm, &value, sizeof value, all, deadline, what, err);
  int worst = 0;
  for (int r = 1; status == LAKE_OK && r < comm->rank_count; r++)
    if (all[r] > all[worst]) worst = r;
  lake_status agreed = (lake_status)all[worst];
  free(all);
  if (status != LAKE_OK) return status;
  if (agreed == LAKE_OK) return LAKE_OK;
  /* Only a failure needs the text, so only a failure pays for it. */
  lki_outcome outcome = {(int32_t)mine, {0}};
  if (own != NULL) memcpy(outcome.text, own->text, sizeof outcome.text);
  status = lki_comm_bcast(comm, &outcome, sizeof outcome, worst, deadline, what, err);
  if (status != LAKE_OK) return status;
  outcome.text[sizeof outcome.text - 1] = '\0';
  return lki_mpi_fail(err, agreed, "rank %d of %d: %.440s", worst, comm->rank_count, outcome.text);
}

/* All ranks are in here, so only one that stops right now can keep the others waiting. */
static lake_status duplicate(lki_comm *comm, MPI_Comm parent, lake_deadline deadline, const char *what, lake_error *err) {
  /* MPI writes the handle when the duplication is done, which may be after this frame is gone. */
  MPI_Comm *dup = malloc(sizeof *dup);
  if (dup == NULL)
    return lki_mpi_fail(err, LAKE_NOMEM, "rank %d of %d, %s: no memory", comm->rank, comm->rank_count, what);
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_Comm_idup(parent, dup, &request);
  if (code != MPI_SUCCESS) {
    free(dup);
    return lki_mpi_failed(comm, code, what, err);
  }
  lake_status status = finish(comm, &request, deadline, what, err);
  if (status == LAKE_TIMEOUT)
    lki_mpi_fail(err, status, "rank %d of %d, %s: a rank stopped while the communicator was duplicated; no collective "
                 "works on it any more: end the job", comm->rank, comm->rank_count, what);
  if (status != LAKE_OK) return status; /* dup belongs to the abandoned request */
  comm->comm = *dup;
  free(dup);
  MPI_Comm_set_errhandler(comm->comm, MPI_ERRORS_RETURN);
  return LAKE_OK;
}

lake_status lki_comm_open(lki_comm *comm, MPI_Comm parent, lake_env *env, lake_deadline deadline, const char *what,
                          lake_error *err) {
  *comm = (lki_comm){MPI_COMM_NULL, 0, 1, env, false};
  MPI_Errhandler kept = MPI_ERRHANDLER_NULL;
  int code = MPI_Comm_get_errhandler(parent, &kept);
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
  if (code == MPI_SUCCESS) code = MPI_Comm_rank(parent, &comm->rank);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(parent, &comm->rank_count);
  lake_status status = code == MPI_SUCCESS ? LAKE_OK : lki_mpi_failed(comm, code, what, err);
  if (status == LAKE_OK) {
    lki_comm here = {parent, comm->rank, comm->rank_count, env, false};
    status = lki_comm_arrive(&here, deadline, what, err);
  }
  if (status == LAKE_OK) status = duplicate(comm, parent, deadline, what, err);
  if (kept != MPI_ERRHANDLER_NULL) {
    MPI_Comm_set_errhandler(parent, kept);
    MPI_Errhandler_free(&kept);
  }
  return status;
}

void lki_comm_close(lki_comm *comm) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  /* A broken one may still be in use by a late rank's collective, and after MPI_Finalize there is nothing to free. */
  if (comm->comm != MPI_COMM_NULL && !comm->broken && !finalized) MPI_Comm_free(&comm->comm);
  comm->comm = MPI_COMM_NULL;
}
