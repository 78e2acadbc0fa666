/* What the MPI tests share. A check that fails prints where and ends the whole job: the other ranks may sit in a
 * collective that would never return. Uses the public API only, as an application would. */
#ifndef LAKE_TESTS_MPI_COMMON_H
#define LAKE_TESTS_MPI_COMMON_H

#include <lakestream/lakestream.h>
#include <lakestream/mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct mt_world {
  int rank, rank_count;
  lake_env *env;
  char folder[256]; /* made by rank 0, the same on all, removed by mt_close() */
} mt_world;

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) mt_fail(__FILE__, __LINE__, #condition);                                                         \
  } while (0)
#define CHECK_STATUS(got, want, err) mt_check_status((got), (want), (err), __FILE__, __LINE__)
#define CHECK_TEXT(err, part) mt_check_text((err), (part), __FILE__, __LINE__)

_Noreturn void mt_fail(const char *file, int line, const char *text);
void mt_check_status(lake_status got, lake_status want, const lake_error *err, const char *file, int line);
void mt_check_text(const lake_error *err, const char *part, const char *file, int line);

void mt_open(mt_world *world, int *argc, char ***argv); /* MPI_Init and a scratch folder */
void mt_close(mt_world *world);                         /* removes the folder, MPI_Finalize */
lake_deadline mt_deadline(const mt_world *world);       /* far enough for any step to succeed */

/* "file:<folder>/<name>"; static storage, valid until the next call. */
const char *mt_url(const mt_world *world, const char *name);
/* Rank 0 writes a sealed raw stream of step_count steps in which the slice of step s at (d,c) is the text "s:d:c";
 * collective. Every rank gets a handle. */
lake_namespace *mt_stream(const mt_world *world, const char *name, lake_mesh mesh, unsigned step_count);
/* Reads one slice and returns its step, its text in `text`; -1 at the end. */
long mt_next(const mt_world *world, lake_mpi_group *group, char text[64]);
/* Pins in a consumer group of the namespace called name. */
int mt_pin_count(const mt_world *world, const char *name, const char *group);
/* A mesh for as many ranks as there are: 1x1, 2x1, 2x2; and this rank's place in it, c fastest. */
lake_mesh mt_mesh(const mt_world *world, lake_coords *coords);

#endif
