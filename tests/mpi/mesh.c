/* Mesh and coordinates from communicators; and that nothing works before MPI_Init and after MPI_Finalize. */
#include "common.h"

static void from_comms(const mt_world *world) {
  lake_error err = LAKE_ERROR_INIT;
  lake_mesh mesh = {0, 0};
  lake_coords place, coords = {9, 9};
  lake_mesh want = mt_mesh(world, &place);
  MPI_Comm dp, cp;
  MPI_Comm_split(MPI_COMM_WORLD, (int)place.c, (int)place.d, &dp);
  MPI_Comm_split(MPI_COMM_WORLD, (int)place.d, (int)place.c, &cp);
  CHECK_STATUS(lake_mpi_mesh_from_comms(dp, cp, &mesh, &coords, &err), LAKE_OK, &err);
  CHECK(mesh.d_count == want.d_count && mesh.c_count == want.c_count);
  CHECK(coords.d == place.d && coords.c == place.c);
  CHECK_STATUS(lake_mpi_mesh_from_comms(MPI_COMM_WORLD, MPI_COMM_NULL, &mesh, &coords, &err), LAKE_OK, &err);
  CHECK((int)mesh.d_count == world->rank_count && mesh.c_count == 1 && (int)coords.d == world->rank && coords.c == 0);
  coords.d = 77;
  CHECK_STATUS(lake_mpi_mesh_from_comms(MPI_COMM_NULL, cp, &mesh, &coords, &err), LAKE_INVALID, &err);
  CHECK_TEXT(&err, "MPI_COMM_NULL");
  CHECK(coords.d == 77);
  MPI_Comm_free(&dp);
  MPI_Comm_free(&cp);
}

static void from_order(const mt_world *world) {
  lake_error err = LAKE_ERROR_INIT;
  lake_mesh mesh = {0, 0};
  lake_coords coords = {9, 9};
  lake_parallel parallel = {.tp = 1, .cp = 1, .dp = (uint32_t)world->rank_count};
  CHECK_STATUS(lake_mpi_mesh_from_order(MPI_COMM_WORLD, "dp-tp-cp", &parallel, &mesh, &coords, &err), LAKE_OK, &err);
  CHECK((int)mesh.d_count == world->rank_count && (int)coords.d == world->rank && coords.c == 0);
  parallel.dp = 5;
  CHECK_STATUS(lake_mpi_mesh_from_order(MPI_COMM_WORLD, NULL, &parallel, &mesh, &coords, &err), LAKE_INVALID, &err);
  char part[64];
  snprintf(part, sizeof part, "need 5 ranks but the communicator has %d", world->rank_count);
  CHECK_TEXT(&err, part);
  if (world->rank_count == 4) {
    /* In another communicator than the world, ranks turned round. */
    MPI_Comm turned;
    MPI_Comm_split(MPI_COMM_WORLD, 0, 3 - world->rank, &turned);
    lake_parallel two = {.tp = 2, .cp = 2};
    CHECK_STATUS(lake_mpi_mesh_from_order(turned, NULL, &two, &mesh, &coords, &err), LAKE_OK, &err);
    CHECK(mesh.d_count == 1 && mesh.c_count == 2 && coords.d == 0 && (int)coords.c == (3 - world->rank) / 2);
    MPI_Comm_free(&turned);
  }
}

static void outside_mpi(const char *part) {
  lake_error err = LAKE_ERROR_INIT;
  lake_mesh mesh;
  lake_coords coords;
  lake_parallel parallel = {.dp = 1};
  lake_mpi_group *group = NULL;
  lake_status from_order_status = lake_mpi_mesh_from_order(MPI_COMM_WORLD, NULL, &parallel, &mesh, &coords, &err);
  lake_status open_status =
      lake_mpi_group_open(MPI_COMM_WORLD, NULL, NULL, (lake_deadline){0}, &group, from_order_status ? &err : NULL);
  if (from_order_status == LAKE_INVALID && open_status == LAKE_INVALID && strstr(err.text, part) != NULL) return;
  fprintf(stderr, "outside MPI: %s, %s\n", lake_status_name(open_status), err.text);
  _Exit(1);
}

int main(int argc, char **argv) {
  outside_mpi("MPI is not initialised");
  mt_world world;
  mt_open(&world, &argc, &argv);
  from_comms(&world);
  from_order(&world);
  mt_close(&world);
  outside_mpi("MPI is finalized already");
  return 0;
}
