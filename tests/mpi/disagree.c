/* Groups that must not open: the ranks disagree, or one of them fails. All ranks get one status and one text, no rank
 * keeps a consumer, and the same communicator opens a good group right after. */
#include "common.h"

enum { STEPS = 4 };

/* Every rank has the same status and the same text, and *out is untouched. */
static void refused(const mt_world *world, lake_namespace *ns, const lake_consumer_options *options, lake_status want,
                    const char *part) {
  lake_error err = LAKE_ERROR_INIT;
  lake_mpi_group *group = (lake_mpi_group *)(uintptr_t)&err;
  lake_status got = lake_mpi_group_open(MPI_COMM_WORLD, ns, options, mt_deadline(world), &group, &err);
  CHECK_STATUS(got, want, &err);
  CHECK_TEXT(&err, part);
  CHECK(group == (lake_mpi_group *)(uintptr_t)&err);
  char text[sizeof err.text];
  memcpy(text, err.text, sizeof text);
  MPI_Bcast(text, (int)sizeof text, MPI_CHAR, 0, MPI_COMM_WORLD);
  CHECK(strcmp(text, err.text) == 0);
}

static void cursors(const mt_world *world, lake_namespace *ns, lake_coords coords, int last) {
  lake_error err = LAKE_ERROR_INIT;
  lake_consumer_options options = LAKE_CONSUMER_OPTIONS_INIT;
  options.coords = coords;
  lake_mpi_group *group = NULL;
  char text[64], at_0[LAKE_CURSOR_BYTES], at_1[LAKE_CURSOR_BYTES];
  CHECK_STATUS(lake_mpi_group_open(MPI_COMM_WORLD, ns, &options, mt_deadline(world), &group, &err), LAKE_OK, &err);
  lake_consumer_cursor(lake_mpi_group_consumer(group), at_0);
  CHECK(mt_next(world, group, text) == 0);
  lake_consumer_cursor(lake_mpi_group_consumer(group), at_1);
  lake_mpi_group_close(group);
  if (last > 0) {
    options.cursor = world->rank == last ? at_1 : at_0;
    char part[128];
    snprintf(part, sizeof part, "disagree on the cursor: rank %d begins at row %d, rank 0 at row 0", last,
             world->rank_count >= 2 ? 2 : 1);
    refused(world, ns, &options, LAKE_INVALID, part);
    options.cursor = world->rank == last ? at_1 : NULL;
    refused(world, ns, &options, LAKE_INVALID, "rank 0 has none; give the cursor to rank 0");
  }
  /* One rank's cursor is damaged: its own text reaches all. */
  char damaged[LAKE_CURSOR_BYTES];
  memcpy(damaged, at_0, sizeof damaged);
  damaged[strlen(damaged) - 1] = damaged[strlen(damaged) - 1] == '0' ? '1' : '0';
  options.cursor = world->rank == last ? damaged : at_0;
  char part[32];
  snprintf(part, sizeof part, "rank %d of %d: ", last, world->rank_count);
  refused(world, ns, &options, LAKE_INVALID, part);
}

static void meshes(const mt_world *world, lake_namespace *ns, lake_mesh mesh, lake_coords coords, int last) {
  lake_consumer_options options = LAKE_CONSUMER_OPTIONS_INIT;
  options.coords = coords;
  options.mesh = mesh;
  if (last > 0) {
    if (world->rank == last) options.mesh.d_count *= 2;
    refused(world, ns, &options, LAKE_INVALID, "disagree on the mesh: rank");
    options.mesh = mesh;
    if (world->rank == last) options.coords = (lake_coords){0, 0};
    refused(world, ns, &options, LAKE_INVALID, "no rank reads position (d=1");
  }
  options.coords = coords;
  if (world->rank == last) options.coords.d = mesh.d_count;
  refused(world, ns, &options, LAKE_INVALID, "lie outside the mesh");
  if (world->rank_count == 4) {
    /* Three ranks at one position and one at the other. */
    options.mesh = (lake_mesh){2, 1};
    options.coords = (lake_coords){world->rank == 3, 0};
    refused(world, ns, &options, LAKE_INVALID, "position (d=1, c=0) of the mesh 2x1 is read by 1 ranks but (d=0, c=0) by 3");
  }
}

static void namespaces(const mt_world *world, lake_namespace *ns, lake_mesh mesh, lake_coords coords, int last) {
  lake_consumer_options options = LAKE_CONSUMER_OPTIONS_INIT;
  options.coords = coords;
  lake_namespace *other = mt_stream(world, "other", mesh, STEPS);
  if (last > 0)
    refused(world, world->rank == last ? other : ns, &options, LAKE_INVALID, "the ranks opened different namespaces: rank");
  lake_namespace_close(other);
  refused(world, world->rank == last ? NULL : ns, &options, LAKE_INVALID, "ns and out must not be NULL");
}

/* The last rank sees a copy of the namespace in which every manifest is cut short: only it cannot open. */
static void one_cannot(const mt_world *world, lake_namespace *ns, lake_coords coords, int last) {
  lake_error err = LAKE_ERROR_INIT;
  lake_namespace *damaged = NULL;
  if (world->rank == last) {
    char command[1200];
    snprintf(command, sizeof command, "cp -r '%s/stream' '%s/cut' && truncate -s 10 '%s'/cut/manifest/*", world->folder,
             world->folder, world->folder);
    CHECK(system(command) == 0);
    CHECK_STATUS(lake_namespace_open(world->env, mt_url(world, "cut"), mt_deadline(world), &damaged, &err), LAKE_OK, &err);
  }
  lake_consumer_options options = LAKE_CONSUMER_OPTIONS_INIT;
  options.coords = coords;
  char part[32];
  snprintf(part, sizeof part, "rank %d of %d: ", last, world->rank_count);
  refused(world, damaged != NULL ? damaged : ns, &options, LAKE_CORRUPT, part);
  lake_namespace_close(damaged);
  /* What was refused leaves the communicator as good as new. */
  lake_mpi_group *group = NULL;
  CHECK_STATUS(lake_mpi_group_open(MPI_COMM_WORLD, ns, &options, mt_deadline(world), &group, &err), LAKE_OK, &err);
  char text[64];
  CHECK(mt_next(world, group, text) == 0);
  lake_mpi_group_close(group);
}

int main(int argc, char **argv) {
  mt_world world;
  mt_open(&world, &argc, &argv);
  lake_coords coords;
  lake_mesh mesh = mt_mesh(&world, &coords);
  lake_namespace *ns = mt_stream(&world, "stream", mesh, STEPS);
  int last = world.rank_count - 1;
  cursors(&world, ns, coords, last);
  meshes(&world, ns, mesh, coords, last);
  namespaces(&world, ns, mesh, coords, last);
  one_cannot(&world, ns, coords, last);
  lake_namespace_close(ns);
  mt_close(&world);
  return 0;
}
