/* A job: what one job file says, checked and complete, with every default filled in. Immutable after reading,
 * but for the counts that --set changes. All text lives in the job's arena. */
#ifndef LAKERUN_JOB_H
#define LAKERUN_JOB_H

#include "base/buffer.h"
#include "base/env.h"
#include <sched.h>

#define LKI_JOB_ROLES_MAX 64
#define LKI_JOB_UNITS_MAX 4096 /* supervised processes in all; also the most ranks of one role */
#define LKI_JOB_WORDS_MAX 4096 /* words of a command, hosts of a role */

typedef struct lki_words {
  const char **at;
  size_t count;
} lki_words;

/* Pairs of NAME and value. */
typedef struct lki_vars {
  const char **names;
  const char **values;
  size_t count;
} lki_vars;

typedef enum lki_role_kind { LKI_ROLE_PROCESS, LKI_ROLE_MPI } lki_role_kind;
typedef enum lki_policy { LKI_POLICY_ON_FAILURE, LKI_POLICY_ALWAYS, LKI_POLICY_NEVER } lki_policy;

typedef struct lki_restart {
  lki_policy policy;
  uint64_t limit; /* failures in a row that are answered by a restart */
  uint64_t backoff_ms;
  uint64_t backoff_ms_max;
  uint64_t healthy_ms; /* an attempt that lived this long ends the row */
  bool fatal[256];     /* exit codes that a retry cannot help */
} lki_restart;

typedef struct lki_role {
  const char *name;
  lki_role_kind kind;
  lki_words command;
  uint64_t count; /* processes, or ranks of the one mpirun */
  lki_words hosts;
  const char *cpus; /* as written; NULL: no set */
  cpu_set_t cpu_set;
  lki_restart restart;
  int drain_signal;
  bool required;
  lki_vars env;
  lki_words mpirun_args;
} lki_role;

typedef struct lki_job {
  lki_arena arena;
  const char *file;
  const char *name;
  const char *workdir; /* NULL: lakerun's own */
  lki_vars env;
  lki_role *roles;
  size_t role_count;
  uint64_t drain_ms;
  uint64_t term_ms;
  uint64_t deadline_ms;       /* 0: none */
  size_t done_when;           /* index of a role, or role_count: see lki_job_decides */
  lki_words remote;           /* the words that run a shell command on {host} */
  const char *remote_lakerun; /* NULL: this very program's path */
  const char *mpirun;
} lki_job;

/* Reads and checks a job file. NOTFOUND: there is no such file; INVALID: what is wrong, with its path. */
lake_status lki_job_open(lake_env *env, const char *file, lki_job *job, lake_error *err);
void lki_job_close(lki_job *job);

/* "ROLE.count=N", from the command line. */
lake_status lki_job_set(lki_job *job, const char *text, lake_error *err);
/* What one role cannot see: the number of units. Called after every lki_job_set. */
lake_status lki_job_check(const lki_job *job, lake_error *err);
/* What this machine must have before anything is started: CPUs (INVALID), commands and folders (NOTFOUND). */
lake_status lki_job_check_machine(const lki_job *job, lake_error *err);

/* Supervised processes of a role: an MPI role is one mpirun. */
size_t lki_role_units(const lki_role *role);
/* Does the job end when this role has finished? done_when says so; without it every MPI role does, and
 * without any MPI role all roles do. */
bool lki_job_decides(const lki_job *job, const lki_role *role);
bool lki_host_is_local(const char *host);

/* Signals by their short name, such as "USR1"; 0: unknown. */
int lki_signal_number(const char *name);
const char *lki_signal_name(int signal); /* "?" when it has none */

/* The JSON half of lki_job_open: fills a job whose arena is ready. */
lake_status lki_job_read(lki_job *job, lake_bytes text, lake_error *err);

/* "0-3,8": CPU numbers and ranges. False: not of that form, or beyond what a cpu_set_t holds. */
bool lki_cpus_parse(const char *text, cpu_set_t *out);
/* The first CPU of the set that this machine does not have online, or -1. `online` gets the list as the
 * kernel writes it. */
int lki_cpus_missing(const cpu_set_t *set, char *online, size_t bytes);

#endif
