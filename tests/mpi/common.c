#include "common.h"
#include <dirent.h>
#include <ftw.h>
#include <unistd.h>

void mt_fail(const char *file, int line, const char *text) {
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fprintf(stderr, "%s:%d: rank %d: failed: %s\n", file, line, rank, text);
  fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

void mt_check_status(lake_status got, lake_status want, const lake_error *err, const char *file, int line) {
  if (got == want) return;
  char text[700];
  snprintf(text, sizeof text, "status %s, expected %s; error text: %s", lake_status_name(got), lake_status_name(want),
           err->text);
  mt_fail(file, line, text);
}

void mt_check_text(const lake_error *err, const char *part, const char *file, int line) {
  if (strstr(err->text, part) != NULL) return;
  char text[900];
  snprintf(text, sizeof text, "\"%s\" is not in the error text: %s", part, err->text);
  mt_fail(file, line, text);
}

void mt_open(mt_world *world, int *argc, char ***argv) {
  int provided = 0;
  MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
  memset(world, 0, sizeof *world);
  MPI_Comm_rank(MPI_COMM_WORLD, &world->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world->rank_count);
  CHECK(lake_env_open(NULL, &world->env, NULL) == LAKE_OK);
  if (world->rank == 0) {
    const char *base = getenv("TMPDIR");
    snprintf(world->folder, sizeof world->folder, "%s/lake-mpi-XXXXXX", base != NULL && *base ? base : "/tmp");
    CHECK(mkdtemp(world->folder) != NULL);
  }
  MPI_Bcast(world->folder, (int)sizeof world->folder, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
  (void)st, (void)kind, (void)ftw;
  return remove(path);
}

void mt_close(mt_world *world) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (world->rank == 0) nftw(world->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  lake_env_close(world->env);
  if (world->rank == 0) puts("passed");
  MPI_Finalize();
}

lake_deadline mt_deadline(const mt_world *world) { return lake_deadline_after_ms(world->env, 60000); }

const char *mt_url(const mt_world *world, const char *name) {
  static char url[400];
  snprintf(url, sizeof url, "file:%s/%s", world->folder, name);
  return url;
}

static void write_stream(const mt_world *world, const char *name, lake_mesh mesh, unsigned step_count) {
  lake_error err = LAKE_ERROR_INIT;
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.mesh = mesh;
  lake_namespace *ns = NULL;
  lake_producer *producer = NULL;
  lake_producer_resume resume;
  CHECK_STATUS(lake_namespace_create(world->env, mt_url(world, name), &options, mt_deadline(world), &ns, &err), LAKE_OK,
               &err);
  CHECK_STATUS(lake_producer_open(ns, "feeder", NULL, mt_deadline(world), &resume, &producer, &err), LAKE_OK, &err);
  char texts[64][32];
  lake_bytes slices[64];
  uint32_t count = mesh.d_count * mesh.c_count;
  CHECK(count <= 64);
  for (unsigned s = 0; s < step_count; s++) {
    for (uint32_t i = 0; i < count; i++) {
      snprintf(texts[i], sizeof texts[i], "%u:%u:%u", s, i / mesh.c_count, i % mesh.c_count);
      slices[i] = (lake_bytes){texts[i], strlen(texts[i]) + 1};
    }
    CHECK_STATUS(lake_producer_append(producer, slices, count, s + 1, (lake_bytes){NULL, 0}, mt_deadline(world), &err),
                 LAKE_OK, &err);
  }
  CHECK_STATUS(lake_producer_retire(producer, mt_deadline(world), &err), LAKE_OK, &err);
  lake_producer_close(producer);
  uint64_t sealed = 0;
  CHECK_STATUS(lake_namespace_seal(ns, mt_deadline(world), &sealed, &err), LAKE_OK, &err);
  CHECK(sealed == step_count);
  lake_namespace_close(ns);
}

lake_namespace *mt_stream(const mt_world *world, const char *name, lake_mesh mesh, unsigned step_count) {
  if (world->rank == 0) write_stream(world, name, mesh, step_count);
  MPI_Barrier(MPI_COMM_WORLD);
  lake_error err = LAKE_ERROR_INIT;
  lake_namespace *ns = NULL;
  CHECK_STATUS(lake_namespace_open(world->env, mt_url(world, name), mt_deadline(world), &ns, &err), LAKE_OK, &err);
  return ns;
}

long mt_next(const mt_world *world, lake_mpi_group *group, char text[64]) {
  lake_error err = LAKE_ERROR_INIT;
  lake_batch batch;
  memset(&batch, 0, sizeof batch);
  lake_consumer *consumer = lake_mpi_group_consumer(group);
  lake_status status = lake_consumer_next(consumer, mt_deadline(world), &batch, &err);
  if (status == LAKE_END) return -1;
  CHECK_STATUS(status, LAKE_OK, &err);
  CHECK(batch.bytes > 0 && batch.bytes <= 64);
  memcpy(text, batch.data, batch.bytes);
  long step = (long)batch.step;
  lake_consumer_release(consumer, &batch);
  return step;
}

int mt_pin_count(const mt_world *world, const char *name, const char *group) {
  char path[500];
  snprintf(path, sizeof path, "%s/%s/watermark/%s", world->folder, name, group);
  DIR *dir = opendir(path);
  if (dir == NULL) return 0;
  int count = 0;
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) count += entry->d_name[0] != '.';
  closedir(dir);
  return count;
}

lake_mesh mt_mesh(const mt_world *world, lake_coords *coords) {
  lake_mesh mesh = {world->rank_count >= 2 ? 2 : 1, world->rank_count == 4 ? 2 : 1};
  *coords = (lake_coords){(uint32_t)world->rank / mesh.c_count, (uint32_t)world->rank % mesh.c_count};
  return mesh;
}
