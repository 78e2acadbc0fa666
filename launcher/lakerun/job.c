/* Opening a job file, the command line's changes to it, and what can be checked only with all of it or on
 * this machine. Reading its JSON is job_json.c. */
#include "job.h"
#include "base/error.h"
#include "expand.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX ((size_t)1 << 20)

static lake_status slurp(const char *file, lake_buffer *out, lake_error *err) {
  lake_status s = LAKE_OK;
  int fd = open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return lki_fail(err, errno == ENOENT || errno == ENOTDIR ? LAKE_NOTFOUND : LAKE_INVALID,
                    "%s: cannot be opened: %s; give the path of a job file", file, strerror(errno));
  char chunk[16384];
  ssize_t got = 0;
  while (s == LAKE_OK && (got = read(fd, chunk, sizeof chunk)) > 0)
    s = lki_buffer_append(out, chunk, (size_t)got, err);
  if (s != LAKE_OK)
    s = lki_fail(err, LAKE_INVALID, "%s: longer than %zu bytes; is it a job file?", file, FILE_BYTES_MAX);
  if (got < 0) s = lki_fail(err, LAKE_INVALID, "%s: cannot be read: %s", file, strerror(errno));
  close(fd);
  return s;
}

lake_status lki_job_open(lake_env *env, const char *file, lki_job *job, lake_error *err) {
  memset(job, 0, sizeof *job);
  lki_arena_init(&job->arena, env);
  job->file = lki_arena_strndup(&job->arena, file, strlen(file));
  lake_buffer text;
  lki_buffer_init(&text, env, FILE_BYTES_MAX);
  lake_status s =
      job->file != NULL ? slurp(file, &text, err) : lki_fail(err, LAKE_NOMEM, "%s: out of memory", file);
  if (s == LAKE_OK) s = lki_job_read(job, lki_buffer_view(&text), err);
  lki_buffer_free(&text);
  if (s != LAKE_OK) lki_job_close(job);
  return s;
}

void lki_job_close(lki_job *job) {
  lki_arena_free(&job->arena);
}

lake_status lki_job_set(lki_job *job, const char *text, lake_error *err) {
  const char *dot = strchr(text, '.'), *equals = strchr(text, '=');
  if (dot == NULL || equals == NULL || dot > equals || strncmp(dot, ".count=", 7) != 0)
    return lki_fail(err, LAKE_INVALID, "--set %s: write ROLE.count=N", text);
  size_t bytes = (size_t)(dot - text);
  char *end = NULL;
  errno = 0;
  unsigned long count = strtoul(equals + 1, &end, 10);
  if (equals[1] < '0' || equals[1] > '9' || *end != 0 || errno != 0 || count < 1 || count > LKI_JOB_UNITS_MAX)
    return lki_fail(err, LAKE_INVALID, "--set %s: the count must be a number from 1 to %d", text,
                    LKI_JOB_UNITS_MAX);
  for (size_t i = 0; i < job->role_count; i++)
    if (strlen(job->roles[i].name) == bytes && memcmp(job->roles[i].name, text, bytes) == 0) {
      job->roles[i].count = count;
      return LAKE_OK;
    }
  return lki_fail(err, LAKE_INVALID, "--set %s: %s has no role '%.*s'", text, job->file, (int)bytes, text);
}

size_t lki_role_units(const lki_role *role) {
  return role->kind == LKI_ROLE_MPI ? 1 : (size_t)role->count;
}

bool lki_job_decides(const lki_job *job, const lki_role *role) {
  if (job->done_when < job->role_count) return role == &job->roles[job->done_when];
  bool any_mpi = false;
  for (size_t i = 0; i < job->role_count; i++) any_mpi = any_mpi || job->roles[i].kind == LKI_ROLE_MPI;
  return !any_mpi || role->kind == LKI_ROLE_MPI;
}

lake_status lki_job_check(const lki_job *job, lake_error *err) {
  size_t units = 0;
  for (size_t i = 0; i < job->role_count; i++) units += lki_role_units(&job->roles[i]);
  if (units > LKI_JOB_UNITS_MAX)
    return lki_fail(err, LAKE_INVALID,
                    "%s: %zu processes in all; lakerun supervises at most %d: lower the counts", job->file,
                    units, LKI_JOB_UNITS_MAX);
  return LAKE_OK;
}

bool lki_host_is_local(const char *host) {
  char name[256] = "";
  return host == NULL || strcmp(host, "localhost") == 0 ||
         (gethostname(name, sizeof name - 1) == 0 && strcmp(name, host) == 0);
}

/* Does any of the role run here? */
static bool role_is_local(const lki_role *role) {
  bool local = role->hosts.count == 0;
  for (size_t i = 0; i < role->hosts.count; i++) {
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(role->hosts.at[i], ":"), role->hosts.at[i]);
    local = local || lki_host_is_local(name);
  }
  return local;
}

static const char *var_of(const lki_job *job, const lki_role *role, const char *name) {
  const char *value = lki_getenv(name);
  for (size_t i = 0; i < job->env.count; i++)
    if (strcmp(job->env.names[i], name) == 0) value = job->env.values[i];
  for (size_t i = 0; role != NULL && i < role->env.count; i++)
    if (strcmp(role->env.names[i], name) == 0) value = role->env.values[i];
  return value;
}

static bool can_run(const char *workdir, const char *folder, size_t bytes, const char *program) {
  char path[4096];
  bool relative = bytes == 0 || folder[0] != '/';
  int n = snprintf(path, sizeof path, "%s%s%.*s%s%s", relative && workdir != NULL ? workdir : "",
                   relative && workdir != NULL ? "/" : "", (int)bytes, folder, bytes > 0 ? "/" : "", program);
  struct stat st;
  return n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
         access(path, X_OK) == 0;
}

/* As execvp will look for it, from the folder that the child will be in. */
static bool is_found(const lki_job *job, const lki_role *role, const char *program) {
  if (program[0] == '/') return can_run(NULL, "", 0, program);
  if (strchr(program, '/') != NULL) return can_run(job->workdir, "", 0, program);
  const char *path = var_of(job, role, "PATH");
  if (path == NULL) path = "/bin:/usr/bin";
  for (;;) {
    size_t bytes = strcspn(path, ":");
    if (bytes > 0 ? can_run(job->workdir, path, bytes, program) : can_run(job->workdir, ".", 1, program))
      return true;
    if (path[bytes] == 0) return false;
    path += bytes + 1;
  }
}

static lake_status check_role(const lki_job *job, const lki_role *role, lake_error *err) {
  char online[1024] = "";
  int cpu = role->cpus != NULL && role_is_local(role)
                ? lki_cpus_missing(&role->cpu_set, online, sizeof online)
                : -1;
  if (cpu >= 0)
    return lki_fail(err, LAKE_INVALID, "%s: roles.%s.cpus: there is no CPU %d here; this machine has %s",
                    job->file, role->name, cpu, online);
  const char *program = role->kind == LKI_ROLE_MPI ? job->mpirun : role->command.at[0];
  bool local = role->kind == LKI_ROLE_MPI || role_is_local(role);
  /* A name with placeholders is known only when it is started; exec reports it then. */
  if (local && (role->kind == LKI_ROLE_MPI || strchr(program, '{') == NULL) && !is_found(job, role, program))
    return lki_fail(err, LAKE_NOTFOUND,
                    "%s: roles.%s: there is no program '%s' to run; install it, or give its path", job->file,
                    role->name, program);
  if (role->kind == LKI_ROLE_MPI && role_is_local(role) && strchr(role->command.at[0], '{') == NULL &&
      !is_found(job, role, role->command.at[0]))
    return lki_fail(err, LAKE_NOTFOUND,
                    "%s: roles.%s.command: there is no program '%s' to run; install it, or give its path",
                    job->file, role->name, role->command.at[0]);
  return LAKE_OK;
}

lake_status lki_job_check_machine(const lki_job *job, lake_error *err) {
  struct stat st;
  if (job->workdir != NULL && (stat(job->workdir, &st) != 0 || !S_ISDIR(st.st_mode)))
    return lki_fail(err, LAKE_NOTFOUND, "%s: workdir: there is no folder '%s'; make it first", job->file,
                    job->workdir);
  lake_status s = LAKE_OK;
  for (size_t i = 0; i < job->role_count && s == LAKE_OK; i++) s = check_role(job, &job->roles[i], err);
  return s;
}

int lki_signal_number(const char *name) {
  for (int i = 1; i < NSIG; i++) {
    const char *known = sigabbrev_np(i);
    if (known != NULL && strcmp(known, name) == 0) return i;
  }
  return 0;
}

const char *lki_signal_name(int signal) {
  const char *name = sigabbrev_np(signal);
  return name != NULL ? name : "?";
}
