/* A rank that does not come: the others end at their deadline with its number in the text, none hangs, and pins fall
 * back to one per rank. The absent rank waits at a barrier of another communicator, so MPI itself is in order. */
#include "common.h"

enum { STEPS = 4 };

static void absent_at_open(const mt_world *world, lake_namespace *ns, lake_coords coords, int last) {
  lake_error err = LAKE_ERROR_INIT;
  lake_consumer_options options = LAKE_CONSUMER_OPTIONS_INIT;
  options.coords = coords;
  MPI_Comm job;
  MPI_Comm_dup(MPI_COMM_WORLD, &job);
  lake_mpi_group *group = NULL;
  if (world->rank != last) {
    CHECK_STATUS(lake_mpi_group_open(job, ns, &options, lake_deadline_after_ms(world->env, 300), &group, &err),
                 LAKE_TIMEOUT, &err);
    char part[64];
    snprintf(part, sizeof part, "rank %d did not come within the deadline", last);
    CHECK_TEXT(&err, part);
    CHECK(group == NULL);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  /* The late rank finds nobody. */
  if (world->rank == last)
    CHECK_STATUS(lake_mpi_group_open(job, ns, &options, lake_deadline_after_ms(world->env, 300), &group, &err),
                 LAKE_TIMEOUT, &err);
  MPI_Barrier(MPI_COMM_WORLD);
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
    absent_at_pin(&world, ns, coords, last);
  }
  lake_namespace_close(ns);
  mt_close(&world);
  return 0;
}
