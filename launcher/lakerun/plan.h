/* A plan: exactly what one attempt of one unit executes. Pure: it reads the job and the environment it is
 * given, and starts nothing. Lives in the arena that the caller gives, freed as a whole. */
#ifndef LAKERUN_PLAN_H
#define LAKERUN_PLAN_H

#include "job.h"

typedef struct lki_plan {
  const lki_role *role;
  const char *host; /* NULL: here */
  bool remote;
  char **argv;    /* ends with NULL */
  char **envp;    /* the whole environment, ends with NULL */
  lki_words sets; /* "NAME=value" that lakerun adds or changes (for a remote unit they are in its command) */
  lki_words unsets; /* names of the inherited environment that are taken away */
} lki_plan;

/* index: of the unit in its role. environ: "NAME=value" strings, ends with NULL. */
lake_status lki_plan_build(lki_arena *arena, const lki_job *job, const lki_role *role, size_t index,
                           uint64_t attempt, char *const *environ_in, lki_plan *out, lake_error *err);
/* Appends the plan as two lines: a comment, and a command that a shell runs. */
lake_status lki_plan_print(const lki_plan *plan, const lki_job *job, const char *label, lake_buffer *out,
                           lake_error *err);

#endif
