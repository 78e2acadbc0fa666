/* Supervision: units, the roles' records and the one loop. Single-threaded: poll over a signalfd, the
 * children's pipes and our own output. */
#ifndef LAKERUN_SUPERVISE_H
#define LAKERUN_SUPERVISE_H

#include "job.h"
#include "output.h"
#include <sys/resource.h>
#include <sys/types.h>

typedef enum lki_unit_state {
  LKI_UNIT_WAITING, /* for its start or restart */
  LKI_UNIT_RUNNING,
  LKI_UNIT_FINISHED,   /* exit 0 by itself */
  LKI_UNIT_FAILED,     /* not started again */
  LKI_UNIT_DRAINED,    /* exit 0 after the drain signal */
  LKI_UNIT_UNDRAINED,  /* ended in the drain, but not with exit 0 */
  LKI_UNIT_TERMINATED, /* needed TERM, and ended of it or by itself */
  LKI_UNIT_KILLED,     /* ended by KILL after TERM, or would not end at all */
  LKI_UNIT_STOPPED,    /* was not running when the job stopped */
} lki_unit_state;

/* One failure that lakerun did not cause. */
typedef struct lki_failure {
  bool any;
  int status; /* as waitpid gives it */
  size_t index;
  long rank; /* -1: unknown, or no MPI role */
  uint64_t attempt;
  uint64_t ran_ms;
  uint64_t wall_ns;
} lki_failure;

typedef struct lki_unit {
  const lki_role *role;
  struct lki_record *record;
  size_t index;
  char label[48]; /* "feeder.0", "trainer" */
  lki_unit_state state;
  uint64_t attempt;      /* of the next start, or of the running one; from 0 */
  uint64_t failures;     /* in a row */
  lki_failure row_first; /* the first of that row */
  uint64_t start_at_ns;
  uint64_t started_ns;
  pid_t pid;   /* of its keeper */
  bool reaped; /* the keeper's end is in last_status, but not dealt with yet */
  int control;
  bool heard; /* the keeper told the command's pid, or never will */
  lki_stream out;
  lki_stream err;
  bool ended; /* at least one attempt has: last_status is set */
  int last_status;
} lki_unit;

/* What the report says of a role. */
typedef struct lki_record {
  uint64_t starts;
  uint64_t restarts;
  uint64_t failures;
  lki_failure first;
} lki_record;

typedef enum lki_phase {
  LKI_PHASE_RUN,
  LKI_PHASE_DRAIN,
  LKI_PHASE_TERM,
  LKI_PHASE_KILL,
  LKI_PHASE_GIVEN_UP
} lki_phase;
typedef enum lki_reason {
  LKI_REASON_DONE,
  LKI_REASON_SIGNAL,
  LKI_REASON_FAILED,
  LKI_REASON_DEADLINE,
  LKI_REASON_BROKEN
} lki_reason;

typedef struct lki_run {
  lake_env *env;
  const lki_job *job;
  lki_unit *units;
  size_t unit_count;
  lki_record *records; /* one per role */
  lki_sink out;
  lki_sink err;
  int signal_fd;
  lki_phase phase;
  uint64_t phase_end_ns;
  uint64_t begin_ns;
  uint64_t end_ns;
  lki_reason reason;
  int stop_signal;           /* LKI_REASON_SIGNAL */
  const lki_unit *stop_unit; /* LKI_REASON_FAILED */
  int stop_code;             /* LKI_REASON_FAILED */
  struct rlimit files;       /* as inherited: what children get back */
  pid_t foreign[64];         /* children that were there before us, by an exec */
  size_t foreign_count;
} lki_run;

lake_status lki_run_open(lake_env *env, const lki_job *job, lki_run *run, lake_error *err);
/* Runs the job to its end; everything is reaped then. */
void lki_run_loop(lki_run *run);
int lki_run_exit_code(const lki_run *run);
void lki_run_close(lki_run *run);

/* Units (unit.c). */
lake_status lki_unit_init(lki_run *run, lki_unit *unit, const lki_role *role, size_t index, lake_error *err);
void lki_unit_start(lki_run *run, lki_unit *unit);
void lki_unit_tell(lki_unit *unit, char byte);    /* a byte of keeper.h; nothing when it does not run */
void lki_unit_hear(lki_run *run, lki_unit *unit); /* the command's pid, from its keeper */
void lki_unit_ended(lki_run *run, lki_unit *unit, int status);

/* 128 + signal, or the exit code. */
int lki_status_code(int status);
/* "exit 4" or "signal KILL". */
void lki_status_text(int status, char *dst, size_t bytes);
/* Begins the drain, if nothing did before. */
void lki_run_stop(lki_run *run, lki_reason reason);

/* The end (report.c): a table on the sink; the same for machines into an open file. */
void lki_report_print(lki_run *run);
lake_status lki_report_json(const lki_run *run, lake_buffer *out, lake_error *err);

#endif
