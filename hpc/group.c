/* The group: consumers on all ranks of a communicator that agree on namespace, mesh and cursor.
 * Invariants: a group exists on all ranks or on none (but for ranks that timed out); its consumers began at one row.
 * Reads need no collective; only opening, pinning and closing do. Threading: that of MPI_THREAD_FUNNELED. */
#include "internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char open_what[] = "lake_mpi_group_open";

/* What a rank brings to the opening. */
typedef struct hello {
  uint32_t d_count, c_count, d, c;
  uint32_t has_cursor;
  char uuid[37];
  char cursor[LAKE_CURSOR_BYTES];
  uint64_t row; /* of the cursor */
} hello;

static lake_status options_copy(lake_consumer_options *dst, const lake_consumer_options *options, lake_error *err) {
  *dst = (lake_consumer_options)LAKE_CONSUMER_OPTIONS_INIT;
  if (options == NULL) return LAKE_OK;
  if (options->size < sizeof options->size || options->size > 65536)
    return lki_mpi_fail(err, LAKE_INVALID,
                        "consumer options: size is %u; initialise them with LAKE_CONSUMER_OPTIONS_INIT", options->size);
  const unsigned char *bytes = (const unsigned char *)options;
  for (uint32_t i = sizeof *dst; i < options->size; i++)
    if (bytes[i] != 0)
      return lki_mpi_fail(err, LAKE_INVALID, "consumer options: byte %u is set but this library knows only %zu; upgrade it",
                          i, sizeof *dst);
  memcpy(dst, options, options->size < sizeof *dst ? options->size : sizeof *dst);
  dst->size = sizeof *dst;
  return LAKE_OK;
}

/* This rank's hello. A failure is kept for the agreement, so that the other ranks hear of it. */
static lake_status hello_fill(const lake_namespace *ns, lake_consumer_options *options, hello *mine, lake_error *err) {
  lake_namespace_info info;
  lake_namespace_info_get(ns, &info);
  if (options->mesh.d_count == 0 && options->mesh.c_count == 0) options->mesh = info.mesh;
  lake_mesh mesh = options->mesh;
  lake_coords coords = options->coords;
  if ((uint64_t)mesh.d_count * mesh.c_count - 1 >= LAKE_MESH_MAX)
    return lki_mpi_fail(err, LAKE_INVALID, "mesh %ux%u: both must be at least 1 and their product at most %d",
                        mesh.d_count, mesh.c_count, LAKE_MESH_MAX);
  if (coords.d >= mesh.d_count || coords.c >= mesh.c_count)
    return lki_mpi_fail(err, LAKE_INVALID, "coordinates (%u,%u) lie outside the mesh %ux%u; correct the mesh order",
                        coords.d, coords.c, mesh.d_count, mesh.c_count);
  mine->d_count = mesh.d_count, mine->c_count = mesh.c_count;
  mine->d = coords.d, mine->c = coords.c;
  snprintf(mine->uuid, sizeof mine->uuid, "%s", info.uuid);
  if (options->cursor == NULL) return LAKE_OK;
  uint64_t step = 0;
  lake_status status = lake_cursor_parse(ns, options->cursor, &mine->row, &step, err);
  if (status != LAKE_OK) return status;
  mine->has_cursor = 1;
  snprintf(mine->cursor, sizeof mine->cursor, "%s", options->cursor);
  return LAKE_OK;
}

/* Every position of the mesh by the same number of ranks: a position left out would be data that nobody reads. */
static lake_status coverage_check(const hello *all, int rank_count, lake_error *err) {
  size_t position_count = (size_t)all[0].d_count * all[0].c_count;
  uint32_t *held = calloc(position_count, sizeof *held);
  if (held == NULL) return lki_mpi_fail(err, LAKE_NOMEM, "%s: no memory", open_what);
  for (int r = 0; r < rank_count; r++) held[(size_t)all[r].d * all[0].c_count + all[r].c]++;
  size_t empty = 0, uneven = 0; /* the first of each kind, or position_count */
  while (empty < position_count && held[empty] > 0) empty++;
  while (uneven < position_count && held[uneven] == held[0]) uneven++;
  lake_status status = LAKE_OK;
  if (empty < position_count)
    status = lki_mpi_fail(err, LAKE_INVALID, "no rank reads position (d=%zu, c=%zu) of the mesh %ux%u: its data would be "
                          "lost; correct the coordinates", empty / all[0].c_count, empty % all[0].c_count,
                          all[0].d_count, all[0].c_count);
  else if (uneven < position_count)
    status = lki_mpi_fail(err, LAKE_INVALID, "position (d=%zu, c=%zu) of the mesh %ux%u is read by %u ranks but (d=0, c=0) "
                          "by %u; correct the coordinates", uneven / all[0].c_count, uneven % all[0].c_count,
                          all[0].d_count, all[0].c_count, held[uneven], held[0]);
  free(held);
  return status;
}

/* The same decision on every rank, since all see the same hellos. */
static lake_status hellos_check(const hello *all, int rank_count, lake_error *err) {
  for (int r = 1; r < rank_count; r++) {
    if (strcmp(all[r].uuid, all[0].uuid) != 0)
      return lki_mpi_fail(err, LAKE_INVALID, "the ranks opened different namespaces: rank %d has %s, rank 0 has %s; pass "
                          "the same URL everywhere", r, all[r].uuid, all[0].uuid);
    if (all[r].d_count != all[0].d_count || all[r].c_count != all[0].c_count)
      return lki_mpi_fail(err, LAKE_INVALID, "the ranks disagree on the mesh: rank %d has %ux%u, rank 0 has %ux%u; pass "
                          "the same mesh everywhere", r, all[r].d_count, all[r].c_count, all[0].d_count, all[0].c_count);
    if (all[r].has_cursor && !all[0].has_cursor)
      return lki_mpi_fail(err, LAKE_INVALID, "the ranks disagree on the cursor: rank %d begins at row %llu, rank 0 has "
                          "none; give the cursor to rank 0", r, (unsigned long long)all[r].row);
    if (all[r].has_cursor && all[r].row != all[0].row)
      return lki_mpi_fail(err, LAKE_INVALID, "the ranks disagree on the cursor: rank %d begins at row %llu, rank 0 at row "
                          "%llu; resume all ranks from one checkpoint", r, (unsigned long long)all[r].row,
                          (unsigned long long)all[0].row);
  }
  return coverage_check(all, rank_count, err);
}

static lake_status hellos_agree(lake_mpi_group *group, hello *mine, lake_deadline deadline, lake_error *err) {
  hello *all = calloc((size_t)group->comm.rank_count, sizeof *all);
  lake_error own = LAKE_ERROR_INIT;
  lake_status status = all != NULL ? LAKE_OK : lki_mpi_fail(&own, LAKE_NOMEM, "%s: no memory", open_what);
  status = lki_comm_agree(&group->comm, status, &own, deadline, open_what, err);
  if (status == LAKE_OK)
    status = lki_comm_gather(&group->comm, mine, sizeof *mine, all, deadline, open_what, err);
  if (status == LAKE_OK) status = hellos_check(all, group->comm.rank_count, err);
  if (status == LAKE_OK) *mine = all[0]; /* rank 0's cursor decides */
  free(all);
  return status;
}

/* This rank's consumer; its outcome is not agreed yet. */
static lake_status consumer_open(lake_mpi_group *group, lake_consumer_options *options, const char *cursor,
                                 lake_deadline deadline, lake_error *err) {
  char label[64];
  snprintf(label, sizeof label, "rank %d of %d", group->comm.rank, group->comm.rank_count);
  if (options->rank_label == NULL) options->rank_label = label;
  options->cursor = cursor;
  lake_status status =
      lake_consumer_open(group->ns, options, lki_comm_work_deadline(&group->comm, deadline), &group->consumer, err);
  if (options->rank_label == label) options->rank_label = NULL;
  return status;
}

/* Opens all consumers at one row. Without a cursor rank 0 opens first and the others follow at its row: each would
 * else find a first live step of its own while a reclaim runs. */
static lake_status consumers_open(lake_mpi_group *group, lake_consumer_options *options, const hello *first,
                                  lake_deadline deadline, lake_error *err) {
  lki_comm *comm = &group->comm;
  lake_error own = LAKE_ERROR_INIT;
  lake_status status = LAKE_OK;
  char cursor[LAKE_CURSOR_BYTES];
  memcpy(cursor, first->cursor, sizeof cursor);
  if (!first->has_cursor) {
    if (comm->rank == 0) {
      status = consumer_open(group, options, NULL, deadline, &own);
      if (status == LAKE_OK) lake_consumer_cursor(group->consumer, cursor);
    }
    status = lki_comm_agree(comm, status, &own, deadline, open_what, err);
    if (status == LAKE_OK) status = lki_comm_bcast(comm, cursor, sizeof cursor, 0, deadline, open_what, err);
    if (status != LAKE_OK) return status;
  }
  if (group->consumer == NULL) status = consumer_open(group, options, cursor, deadline, &own);
  return lki_comm_agree(comm, status, &own, deadline, open_what, err);
}

lake_status lake_mpi_group_open(MPI_Comm comm, lake_namespace *ns, const lake_consumer_options *options,
                                lake_deadline deadline, lake_mpi_group **out, lake_error *err) {
  lake_status status = lki_mpi_usable(comm, open_what, err);
  if (status != LAKE_OK) return status;
  lake_mpi_group *group = calloc(1, sizeof *group);
  if (group == NULL) return lki_mpi_fail(err, LAKE_NOMEM, "%s: no memory", open_what);
  group->ns = ns;
  group->comm.comm = MPI_COMM_NULL;
  lake_consumer_options copy;
  hello mine;
  memset(&mine, 0, sizeof mine);
  status = lake_env_open(NULL, &group->env, err);
  if (status != LAKE_OK) goto done;
  status = lki_comm_open(&group->comm, comm, group->env, deadline, open_what, err);
  if (status != LAKE_OK) goto done;

  /* From here on a rank's own failure is carried into the agreement: leaving alone would strand the others. */
  lake_error own = LAKE_ERROR_INIT;
  if (ns == NULL || out == NULL) {
    status = lki_mpi_fail(&own, LAKE_INVALID, "%s: ns and out must not be NULL", open_what);
  } else {
    status = options_copy(&copy, options, &own);
    if (status == LAKE_OK) status = hello_fill(ns, &copy, &mine, &own);
  }
  status = lki_comm_agree(&group->comm, status, &own, deadline, open_what, err);
  if (status == LAKE_OK) status = hellos_agree(group, &mine, deadline, err);
  if (status == LAKE_OK) status = consumers_open(group, &copy, &mine, deadline, err);
  if (status == LAKE_OK) {
    *out = group;
    group = NULL;
  }
done:
  lake_mpi_group_close(group);
  return status;
}

lake_consumer *lake_mpi_group_consumer(lake_mpi_group *group) { return group->consumer; }

void lake_mpi_group_close(lake_mpi_group *group) {
  if (group == NULL) return;
  lake_consumer_close(group->consumer);
  lki_comm_close(&group->comm);
  lake_env_close(group->env);
  free(group);
}
