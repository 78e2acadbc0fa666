/* Mesh and coordinates from communicators. Local calls: rank and size are read, nothing is communicated. */
#include "internal.h"
#include "order.h"

lake_status lake_mpi_mesh_from_comms(MPI_Comm dp, MPI_Comm cp, lake_mesh *mesh, lake_coords *coords,
                                     lake_error *err) {
  if (mesh == NULL || coords == NULL)
    return lki_mpi_fail(err, LAKE_INVALID, "lake_mpi_mesh_from_comms: mesh and coords must not be NULL");
  lake_status status = lki_mpi_usable(dp, "lake_mpi_mesh_from_comms: dp", err);
  if (status == LAKE_OK && cp != MPI_COMM_NULL) status = lki_mpi_usable(cp, "lake_mpi_mesh_from_comms: cp", err);
  if (status != LAKE_OK) return status;
  int d = 0, c = 0, d_count = 1, c_count = 1;
  MPI_Comm_rank(dp, &d);
  MPI_Comm_size(dp, &d_count);
  if (cp != MPI_COMM_NULL) {
    MPI_Comm_rank(cp, &c);
    MPI_Comm_size(cp, &c_count);
  }
  *mesh = (lake_mesh){(uint32_t)d_count, (uint32_t)c_count};
  *coords = (lake_coords){(uint32_t)d, (uint32_t)c};
  return LAKE_OK;
}

lake_status lake_mpi_mesh_from_order(MPI_Comm comm, const char *order, const lake_parallel *parallel, lake_mesh *mesh,
                                     lake_coords *coords, lake_error *err) {
  if (parallel == NULL || mesh == NULL || coords == NULL)
    return lki_mpi_fail(err, LAKE_INVALID, "lake_mpi_mesh_from_order: parallel, mesh and coords must not be NULL");
  lake_status status = lki_mpi_usable(comm, "lake_mpi_mesh_from_order: comm", err);
  if (status != LAKE_OK) return status;
  int rank = 0, rank_count = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &rank_count);
  const uint32_t sizes[LKI_DIMENSION_COUNT] = {parallel->tp, parallel->cp, parallel->ep, parallel->dp, parallel->pp};
  char why[300];
  status = lki_order_place(order, sizes, (uint32_t)rank, (uint32_t)rank_count, mesh, coords, why);
  return status == LAKE_OK ? LAKE_OK : lki_mpi_fail(err, status, "%s", why);
}
