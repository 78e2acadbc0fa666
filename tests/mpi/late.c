/* A rank that does not come: the others end at their deadline with its number in the text, none hangs, the caller's
 * communicator stays good for its own collectives, and pins fall back to one per rank. The absent rank waits at a barrier of another communicator, so MPI itself is in order. */
#include "common.h"

enum { STEPS = 4 };

/* The caller's own nonblocking collective on its communicator: everyone's value arrives, in rank order. */
static void own_collective(const mt_world *world, MPI_Comm job, int tens) {
  int mine = 10 * tens + world->rank, all[64];
  MPI_Request request;
  CHECK(world->rank_count <= 64);
  for (int r = 0; r < world->rank_count; r++) all[r] = -1;
  CHECK(MPI_Iallgather(&mine, 1, MPI_INT, all, 1, MPI_INT, job, &request) == MPI_SUCCESS);
  uint64_t end_ns = mt_deadline(world).at_ns;
  for (int done = 0; !done;) {
    CHECK(MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(done || lake_deadline_after_ms(world->env, 0).at_ns < end_ns);
  }
  for (int r = 0; r < world->rank_count; r++) CHECK(all[r] == 10 * tens + r);
}

static void on_mpi_error(MPI_Comm *comm, int *code, ...) {
  (void)comm, (void)code;
  mt_fail(__FILE__, __LINE__, "the caller's error handler was called");
}

/* All but one open; the communicator then works as if nothing had been. */
static void absent_at_open(const mt_world *world, lake_namespace *ns, lake_coords coords, int absent) {
  lake_error err = LAKE_ERROR_INIT;
  lake_consumer_options options = LAKE_CONSUMER_OPTIONS_INIT;
  options.coords = coords;
  MPI_Comm job;
  MPI_Errhandler handler, now;
  MPI_Comm_dup(MPI_COMM_WORLD, &job);
  MPI_Comm_create_errhandler(on_mpi_error, &handler);
  MPI_Comm_set_errhandler(job, handler);
  lake_mpi_group *group = NULL;
  char part[64];
  snprintf(part, sizeof part, "rank %d did not come within the deadline", absent);
  if (world->rank != absent) {
    CHECK_STATUS(lake_mpi_group_open(job, ns, &options, lake_deadline_after_ms(world->env, 300), &group, &err),
                 LAKE_TIMEOUT, &err);
    CHECK_TEXT(&err, part);
    CHECK(group == NULL);
  }
  own_collective(world, job, 1);
  /* The late rank finds nobody; and again nothing is left on the communicator. */
  if (world->rank == absent) {
    CHECK_STATUS(lake_mpi_group_open(job, ns, &options, lake_deadline_after_ms(world->env, 300), &group, &err),
                 LAKE_TIMEOUT, &err);
    if (absent != 0) CHECK_TEXT(&err, "rank 0 did not come within the deadline");
  }
  own_collective(world, job, 2);
  MPI_Comm_get_errhandler(job, &now);
  CHECK(now == handler);
  MPI_Errhandler_free(&now);
  /* Now all come, to the same communicator. */
  CHECK_STATUS(lake_mpi_group_open(job, ns, &options, mt_deadline(world), &group, &err), LAKE_OK, &err);
  own_collective(world, job, 3);
  char text[64];
  CHECK(mt_next(world, group, text) == 0);
  lake_mpi_group_close(group);
  MPI_Errhandler_free(&handler);
  MPI_Comm_free(&job);
}

static void absent_at_pin(const mt_world *world, lake_namespace *ns, lake_coords coords, int last) {
  lake_error err = LAKE_ERROR_INIT;
  lake_consumer_options options = LAKE_CONSUMER_OPTIONS_INIT;
  options.coords = coords;
  lake_mpi_group *group = NULL;
  CHECK_STATUS(lake_mpi_group_open(MPI_COMM_WORLD, ns, &options, mt_deadline(world), &group, &err), LAKE_OK, &err);
  if (world->rank != last) {
    CHECK_STATUS(lake_mpi_pin_create(group, "job", "one", lake_deadline_after_ms(world->env, 300), &err), LAKE_TIMEOUT,
                 &err);
    char part[64];
    snprintf(part, sizeof part, "rank %d did not come within the deadline", last);
    CHECK_TEXT(&err, part);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(mt_pin_count(world, "stream", "job") == 0);
  MPI_Barrier(MPI_COMM_WORLD);
  /* From now on each rank guards its own row, without the others. */
  if (world->rank != last) {
    char text[64];
    CHECK(mt_next(world, group, text) == 0);
    CHECK_STATUS(lake_mpi_pin_create(group, "job", "two", mt_deadline(world), &err), LAKE_OK, &err);
    char path[600];
    snprintf(path, sizeof path, "%s/stream/watermark/job/two.rank-%d.json", world->folder, world->rank);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    fclose(file);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(mt_pin_count(world, "stream", "job") == last);
  lake_mpi_group_close(group);
}

int main(int argc, char **argv) {
  mt_world world;
  mt_open(&world, &argc, &argv);
  lake_coords coords;
  lake_mesh mesh = mt_mesh(&world, &coords);
  lake_namespace *ns = mt_stream(&world, "stream", mesh, STEPS);
  int last = world.rank_count - 1;
  if (last > 0) {
    absent_at_open(&world, ns, coords, last);
    absent_at_open(&world, ns, coords, 0);
    absent_at_pin(&world, ns, coords, last);
  }
  lake_namespace_close(ns);
  mt_close(&world);
  return 0;
}
