/* Groups that open: each slice is read exactly once, the stream ends at one step for all, ranks that differ only in tp
 * share a slice, and a group lives in any communicator. */
#include "common.h"

enum { STEPS = 12 };

/* Reads to the end; marks what was read in seen[step*positions + position]. */
static long read_all(const mt_world *world, lake_mpi_group *group, lake_mesh mesh, lake_coords coords, int *seen) {
  long steps = 0;
  char text[64], want[64];
  for (long step; (step = mt_next(world, group, text)) >= 0; steps++) {
    CHECK(step < STEPS);
    snprintf(want, sizeof want, "%ld:%u:%u", step, coords.d, coords.c);
    CHECK(strcmp(text, want) == 0);
    seen[(uint32_t)step * mesh.d_count * mesh.c_count + coords.d * mesh.c_count + coords.c]++;
  }
  return steps;
}

static void everything_once(const mt_world *world, lake_namespace *ns, lake_mesh mesh, lake_coords coords) {
  lake_error err = LAKE_ERROR_INIT;
  lake_consumer_options options = LAKE_CONSUMER_OPTIONS_INIT;
  options.coords = coords; /* the mesh is the namespace's */
  lake_mpi_group *group = NULL;
  CHECK_STATUS(lake_mpi_group_open(MPI_COMM_WORLD, ns, &options, mt_deadline(world), &group, &err), LAKE_OK, &err);
  int seen[STEPS * 4] = {0};
  long steps = read_all(world, group, mesh, coords, seen), least = 0, most = 0;
  MPI_Allreduce(&steps, &least, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&steps, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
  CHECK(least == STEPS && most == STEPS);
  MPI_Allreduce(MPI_IN_PLACE, seen, STEPS * 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (uint32_t i = 0; i < STEPS * mesh.d_count * mesh.c_count; i++) CHECK(seen[i] == 1);
  lake_mpi_group_close(group);
}

/* Two ranks (tp) at each position. */
static void shared_slices(const mt_world *world) {
  lake_error err = LAKE_ERROR_INIT;
  lake_parallel parallel = {.tp = world->rank_count > 1 ? 2 : 1};
  lake_consumer_options options = LAKE_CONSUMER_OPTIONS_INIT;
  CHECK_STATUS(lake_mpi_mesh_from_order(MPI_COMM_WORLD, "tp-cp-dp-pp", &parallel, &options.mesh, &options.coords, &err),
               LAKE_OK, &err);
  lake_namespace *ns = mt_stream(world, "shared", options.mesh, STEPS);
  lake_mpi_group *group = NULL;
  CHECK_STATUS(lake_mpi_group_open(MPI_COMM_WORLD, ns, &options, mt_deadline(world), &group, &err), LAKE_OK, &err);
  int seen[STEPS * 4] = {0};
  read_all(world, group, options.mesh, options.coords, seen);
  MPI_Allreduce(MPI_IN_PLACE, seen, STEPS * 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (uint32_t i = 0; i < STEPS * options.mesh.d_count; i++) CHECK(seen[i] == (int)parallel.tp);
  lake_mpi_group_close(group);
  lake_namespace_close(ns);
}

/* Each rank is a whole job of its own: nothing outside the communicator takes part. */
static void own_communicator(const mt_world *world) {
  lake_error err = LAKE_ERROR_INIT;
  lake_namespace *ns = mt_stream(world, "own", (lake_mesh){1, 1}, STEPS);
  MPI_Comm alone;
  MPI_Comm_split(MPI_COMM_WORLD, world->rank, 0, &alone);
  if (world->rank != 1) { /* rank 1 never takes part */
    lake_mpi_group *group = NULL;
    CHECK_STATUS(lake_mpi_group_open(alone, ns, NULL, mt_deadline(world), &group, &err), LAKE_OK, &err);
    int seen[STEPS] = {0};
    CHECK(read_all(world, group, (lake_mesh){1, 1}, (lake_coords){0, 0}, seen) == STEPS);
    lake_mpi_group_close(group);
  }
  MPI_Comm_free(&alone);
  lake_namespace_close(ns);
}

/* Rank 0's cursor decides where the others have none. */
static void cursor_of_rank_0(const mt_world *world, lake_namespace *ns, lake_coords coords) {
  lake_error err = LAKE_ERROR_INIT;
  lake_consumer_options options = LAKE_CONSUMER_OPTIONS_INIT;
  options.coords = coords;
  lake_mpi_group *group = NULL;
  char text[64], cursor[LAKE_CURSOR_BYTES];
  CHECK_STATUS(lake_mpi_group_open(MPI_COMM_WORLD, ns, &options, mt_deadline(world), &group, &err), LAKE_OK, &err);
  for (long s = 0; s < 5; s++) CHECK(mt_next(world, group, text) == s);
  lake_consumer_cursor(lake_mpi_group_consumer(group), cursor);
  lake_mpi_group_close(group);
  options.cursor = world->rank == 0 ? cursor : NULL;
  CHECK_STATUS(lake_mpi_group_open(MPI_COMM_WORLD, ns, &options, mt_deadline(world), &group, &err), LAKE_OK, &err);
  CHECK(mt_next(world, group, text) == 5);
  lake_mpi_group_close(group);
}

int main(int argc, char **argv) {
  mt_world world;
  mt_open(&world, &argc, &argv);
  lake_coords coords;
  lake_mesh mesh = mt_mesh(&world, &coords);
  lake_namespace *ns = mt_stream(&world, "stream", mesh, STEPS);
  everything_once(&world, ns, mesh, coords);
  cursor_of_rank_0(&world, ns, coords);
  lake_namespace_close(ns);
  shared_slices(&world);
  own_communicator(&world);
  lake_mpi_group_close(NULL);
  mt_close(&world);
  return 0;
}
