/* The pin of a checkpoint: the smallest row of all ranks, written by one rank (paper, equation 11).
 * Invariant: who is told OK knows that every rank's row is at or above the pin. The minimum is taken over gathered
 * rows rather than by MPI_MIN, since only so can a rank that does not come be named. */
#include "internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char pin_what[] = "lake_mpi_pin_create";

/* What a rank brings to a pin. The names ride along, so that two ranks pinning different things are told. */
typedef struct row_record {
  char group_name[72];
  char checkpoint[72];
  uint64_t row;
} row_record;

/* Without the communicator each rank guards its own row: never less than the one pin would have kept. */
static lake_status pin_alone(lake_mpi_group *group, const char *group_name, const char *checkpoint, const char *cursor,
                             lake_deadline deadline, lake_error *err) {
  char name[128];
  snprintf(name, sizeof name, "%.80s.rank-%d", checkpoint, group->comm.rank);
  return lake_pin_create(group->ns, group_name, name, cursor, deadline, err);
}

/* Compares what the ranks gave and finds the writer: the first rank with the smallest row. */
static lake_status writer_choose(const row_record *all, int rank_count, int *writer, lake_error *err) {
  int smallest = 0;
  for (int r = 1; r < rank_count; r++) {
    if (strcmp(all[r].group_name, all[0].group_name) != 0 || strcmp(all[r].checkpoint, all[0].checkpoint) != 0)
      return lki_mpi_fail(err, LAKE_INVALID,
                          "%s: the ranks disagree: rank %d pins \"%s\" in group \"%s\", rank 0 pins \"%s\" in \"%s\"",
                          pin_what, r, all[r].checkpoint, all[r].group_name, all[0].checkpoint, all[0].group_name);
    if (all[r].row < all[smallest].row) smallest = r;
  }
  *writer = smallest;
  return LAKE_OK;
}

lake_status lake_mpi_pin_create(lake_mpi_group *group, const char *group_name, const char *checkpoint,
                                lake_deadline deadline, lake_error *err) {
  if (group == NULL) return lki_mpi_fail(err, LAKE_INVALID, "%s: group must not be NULL", pin_what);
  lki_comm *comm = &group->comm;
  lake_status status = lki_mpi_usable(comm->comm, pin_what, err);
  if (status != LAKE_OK) return status;
  if (group_name == NULL) group_name = "";
  if (checkpoint == NULL) checkpoint = "";
  char cursor[LAKE_CURSOR_BYTES];
  lake_consumer_cursor(group->consumer, cursor);
  if (comm->broken) return pin_alone(group, group_name, checkpoint, cursor, deadline, err);

  lake_error own = LAKE_ERROR_INIT;
  row_record mine;
  memset(&mine, 0, sizeof mine);
  snprintf(mine.group_name, sizeof mine.group_name, "%s", group_name);
  snprintf(mine.checkpoint, sizeof mine.checkpoint, "%s", checkpoint);
  uint64_t step = 0;
  row_record *all = calloc((size_t)comm->rank_count, sizeof *all);
  lake_status parsed = all != NULL ? lake_cursor_parse(group->ns, cursor, &mine.row, &step, &own)
                                   : lki_mpi_fail(&own, LAKE_NOMEM, "%s: no memory", pin_what);
  status = lki_comm_agree(comm, parsed, &own, deadline, pin_what, err);
  if (status == LAKE_OK) status = lki_comm_gather(comm, &mine, sizeof mine, all, deadline, pin_what, err);
  int writer = 0;
  if (status == LAKE_OK) status = writer_choose(all, comm->rank_count, &writer, err);
  free(all);
  if (status != LAKE_OK) return status;

  lki_outcome outcome = {LAKE_OK, {0}};
  if (comm->rank == writer) {
    outcome.status = (int32_t)lake_pin_create(group->ns, group_name, checkpoint, cursor,
                                              lki_comm_work_deadline(comm, deadline), &own);
    memcpy(outcome.text, own.text, sizeof outcome.text);
  }
  status = lki_comm_bcast(comm, &outcome, sizeof outcome, writer, deadline, pin_what, err);
  if (status != LAKE_OK) return status;
  outcome.text[sizeof outcome.text - 1] = '\0';
  if (outcome.status == LAKE_OK) return LAKE_OK;
  return lki_mpi_fail(err, (lake_status)outcome.status, "rank %d of %d: %.440s", writer, comm->rank_count, outcome.text);
}
