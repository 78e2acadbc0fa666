/* Pins of a group: the smallest row of all ranks wins, one pin exists, all ranks get one answer. */
#include "common.h"

enum { STEPS = 8 };

/* The pin stands at this row: pinning it there again is OK, and one row off says where it is. */
static void pinned_at(const mt_world *world, lake_namespace *ns, const char *checkpoint, const char *here,
                      const char *elsewhere, int row) {
  lake_error err = LAKE_ERROR_INIT;
  CHECK_STATUS(lake_pin_create(ns, "job", checkpoint, here, mt_deadline(world), &err), LAKE_OK, &err);
  CHECK_STATUS(lake_pin_create(ns, "job", checkpoint, elsewhere, mt_deadline(world), &err), LAKE_EXISTS, &err);
  char part[64];
  snprintf(part, sizeof part, "pinned at row %d,", row);
  CHECK_TEXT(&err, part);
}

static void smallest_wins(const mt_world *world, lake_namespace *ns, lake_mpi_group *group, uint32_t d_count) {
  lake_error err = LAKE_ERROR_INIT;
  lake_consumer *consumer = lake_mpi_group_consumer(group);
  char text[64], cursors[6][LAKE_CURSOR_BYTES];
  lake_consumer_cursor(consumer, cursors[0]);
  /* The last rank stays at step 2, rank r is at 5 - r. */
  int mine = world->rank == world->rank_count - 1 ? 2 : 5 - world->rank;
  for (int s = 0; s < mine; s++) {
    CHECK(mt_next(world, group, text) == s);
    lake_consumer_cursor(consumer, cursors[s + 1]);
  }
  CHECK_STATUS(lake_mpi_pin_create(group, "job", "step-2", mt_deadline(world), &err), LAKE_OK, &err);
  CHECK(mt_pin_count(world, "stream", "job") == 1);
  pinned_at(world, ns, "step-2", cursors[2], cursors[1], 2 * (int)d_count);
  /* The same again is OK; it is still one pin. */
  CHECK_STATUS(lake_mpi_pin_create(group, "job", "step-2", mt_deadline(world), &err), LAKE_OK, &err);
  CHECK(mt_pin_count(world, "stream", "job") == 1);
  MPI_Barrier(MPI_COMM_WORLD);
  /* The slowest moves on: now the same name would be another row, and every rank is told. */
  for (int s = mine; s < 5; s++) CHECK(mt_next(world, group, text) == s);
  CHECK_STATUS(lake_mpi_pin_create(group, "job", "step-2", mt_deadline(world), &err), LAKE_EXISTS, &err);
  CHECK_TEXT(&err, "rank 0 of");
  CHECK_STATUS(lake_mpi_pin_create(group, "job", "step-5", mt_deadline(world), &err), LAKE_OK, &err);
  CHECK(mt_pin_count(world, "stream", "job") == 2);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void refused(const mt_world *world, lake_mpi_group *group) {
  lake_error err = LAKE_ERROR_INIT;
  if (world->rank_count > 1) {
    CHECK_STATUS(lake_mpi_pin_create(group, "job", world->rank == 1 ? "b" : "a", mt_deadline(world), &err), LAKE_INVALID,
                 &err);
    CHECK_TEXT(&err, "rank 1 pins \"b\" in group \"job\", rank 0 pins \"a\" in \"job\"");
  }
  CHECK_STATUS(lake_mpi_pin_create(group, "job", "a/b", mt_deadline(world), &err), LAKE_INVALID, &err);
  CHECK_TEXT(&err, "a/b");
  CHECK_STATUS(lake_mpi_pin_create(group, NULL, "a", mt_deadline(world), &err), LAKE_INVALID, &err);
  CHECK_STATUS(lake_mpi_pin_create(NULL, "job", "a", mt_deadline(world), &err), LAKE_INVALID, &err);
  CHECK(mt_pin_count(world, "stream", "job") == 2);
}

int main(int argc, char **argv) {
  mt_world world;
  mt_open(&world, &argc, &argv);
  lake_error err = LAKE_ERROR_INIT;
  lake_consumer_options options = LAKE_CONSUMER_OPTIONS_INIT;
  lake_mesh mesh = mt_mesh(&world, &options.coords);
  lake_namespace *ns = mt_stream(&world, "stream", mesh, STEPS);
  lake_mpi_group *group = NULL;
  CHECK_STATUS(lake_mpi_group_open(MPI_COMM_WORLD, ns, &options, mt_deadline(&world), &group, &err), LAKE_OK, &err);
  smallest_wins(&world, ns, group, mesh.d_count);
  refused(&world, group);
  lake_mpi_group_close(group);
  lake_namespace_close(ns);
  mt_close(&world);
  return 0;
}
