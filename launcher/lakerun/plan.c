/* From a job to the command of one attempt: placeholders, environment, mpirun's options, the remote shell.
 * Pure. */
#include "plan.h"
#include "base/error.h"
#include "expand.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Builds a list of words of known capacity; sticky. */
typedef struct list {
  lki_arena *arena;
  const char **at;
  size_t count;
  size_t capacity;
  bool bad;
} list;

static list list_of(lki_arena *arena, size_t capacity) {
  list out = {.arena = arena, .capacity = capacity};
  out.at = lki_arena_alloc(arena, (capacity + 1) * sizeof *out.at);
  out.bad = out.at == NULL;
  return out;
}

static void push(list *out, const char *word) {
  if (word == NULL || out->count == out->capacity) out->bad = true;
  if (!out->bad) out->at[out->count++] = word;
}

LAKE_PRINTF(2, 3) static char *print(lki_arena *arena, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = NULL;
  int n = vasprintf(&text, format, args);
  va_end(args);
  if (n < 0) return NULL;
  char *copy = lki_arena_strndup(arena, text, (size_t)n);
  free(text);
  return copy;
}

static bool starts(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_mpi_variable(const char *var) {
  return starts(var, "OMPI_") || starts(var, "PMIX_") || starts(var, "PMI_") || starts(var, "ORTE_");
}

/* Is lakerun itself a rank? Then what mpirun left in the environment would be taken for the children's own.
 */
static bool inside_rank(char *const *env) {
  for (; *env != NULL; env++)
    if (starts(*env, "OMPI_COMM_WORLD_RANK=") || starts(*env, "PMIX_RANK=") || starts(*env, "PMI_RANK="))
      return true;
  return false;
}

/* Outside of a rank OMPI_MCA_* and PMIX_MCA_* are a site's settings and stay. */
static bool is_dropped(const char *var, bool in_rank) {
  if (starts(var, "LAKERUN_")) return true;
  if (!is_mpi_variable(var)) return false;
  return in_rank || !(starts(var, "OMPI_MCA_") || starts(var, "PMIX_MCA_"));
}

static bool same_name(const char *a, const char *b) {
  size_t n = strcspn(a, "=");
  return n == strcspn(b, "=") && memcmp(a, b, n) == 0;
}

/* Adds NAME=value, or replaces the value: the later one counts. */
static void set(list *vars, const char *var) {
  for (size_t i = 0; var != NULL && i < vars->count; i++)
    if (same_name(vars->at[i], var)) {
      vars->at[i] = var;
      return;
    }
  push(vars, var);
}

static lake_status build_sets(lki_arena *arena, const lki_job *job, const lki_role *role, size_t index,
                              uint64_t attempt, lki_words *out, lake_error *err) {
  list vars = list_of(arena, job->env.count + role->env.count + 8);
  if (role->kind == LKI_ROLE_MPI && geteuid() == 0) {
    set(&vars, "OMPI_ALLOW_RUN_AS_ROOT=1");
    set(&vars, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
  }
  for (size_t i = 0; i < job->env.count; i++)
    set(&vars, print(arena, "%s=%s", job->env.names[i], job->env.values[i]));
  for (size_t i = 0; i < role->env.count; i++)
    set(&vars, print(arena, "%s=%s", role->env.names[i], role->env.values[i]));
  set(&vars, print(arena, "LAKERUN_JOB=%s", job->name));
  set(&vars, print(arena, "LAKERUN_ROLE=%s", role->name));
  /* Ranks know their own number from MPI. */
  if (role->kind == LKI_ROLE_PROCESS) set(&vars, print(arena, "LAKERUN_INDEX=%zu", index));
  set(&vars, print(arena, "LAKERUN_COUNT=%" PRIu64, role->count));
  set(&vars, print(arena, "LAKERUN_ATTEMPT=%" PRIu64, attempt));
  *out = (lki_words){vars.at, vars.count};
  return vars.bad ? lki_fail(err, LAKE_NOMEM, "out of memory for an environment") : LAKE_OK;
}

static lake_status build_environment(lki_arena *arena, char *const *environ_in, lki_plan *plan,
                                     lake_error *err) {
  size_t inherited = 0;
  while (environ_in[inherited] != NULL) inherited++;
  bool in_rank = inside_rank(environ_in);
  list unsets = list_of(arena, inherited);
  list env = list_of(arena, inherited + plan->sets.count);
  for (size_t i = 0; i < inherited; i++) {
    bool replaced = false;
    for (size_t k = 0; !plan->remote && k < plan->sets.count; k++)
      replaced = replaced || same_name(plan->sets.at[k], environ_in[i]);
    if (replaced) continue;
    if (is_dropped(environ_in[i], in_rank))
      push(&unsets, print(arena, "%.*s", (int)strcspn(environ_in[i], "="), environ_in[i]));
    else
      push(&env, environ_in[i]);
  }
  /* A remote shell does not inherit them: there they are part of the command. */
  for (size_t k = 0; !plan->remote && k < plan->sets.count; k++) push(&env, plan->sets.at[k]);
  plan->unsets = (lki_words){unsets.at, unsets.count};
  plan->envp = (char **)(uintptr_t)env.at;
  return unsets.bad || env.bad ? lki_fail(err, LAKE_NOMEM, "out of memory for an environment") : LAKE_OK;
}

static char *joined(lki_arena *arena, const lki_words *words, const char *separator) {
  lake_buffer out;
  lki_buffer_init(&out, arena->env, (size_t)1 << 20);
  lake_status s = LAKE_OK;
  for (size_t i = 0; i < words->count && s == LAKE_OK; i++) {
    if (i > 0) s = lki_buffer_append(&out, separator, strlen(separator), NULL);
    if (s == LAKE_OK) s = lki_buffer_append(&out, words->at[i], strlen(words->at[i]), NULL);
  }
  char *text = s == LAKE_OK ? lki_arena_strndup(arena, (const char *)out.data, out.bytes) : NULL;
  lki_buffer_free(&out);
  return text;
}

static void push_mpirun(list *argv, const lki_job *job, const lki_role *role, const lki_plan *plan) {
  push(argv, job->mpirun);
  push(argv, "-n");
  push(argv, print(argv->arena, "%" PRIu64, role->count));
  /* Two mpiruns on one machine would both bind to its first core; and ranks may outnumber cores. */
  push(argv, "--oversubscribe");
  push(argv, "--bind-to");
  push(argv, "none");
  push(argv, "--tag-output");
  if (role->cpus != NULL) {
    push(argv, "--cpu-set");
    push(argv, role->cpus);
  }
  if (role->hosts.count > 0) {
    push(argv, "--host");
    push(argv, joined(argv->arena, &role->hosts, ","));
  }
  for (size_t i = 0; i < role->mpirun_args.count; i++) push(argv, role->mpirun_args.at[i]);
  /* For the ranks on other machines; what mpirun reads itself it passes on by itself. */
  for (size_t i = 0; i < plan->sets.count; i++) {
    if (is_mpi_variable(plan->sets.at[i])) continue;
    push(argv, "-x");
    push(argv, print(argv->arena, "%.*s", (int)strcspn(plan->sets.at[i], "="), plan->sets.at[i]));
  }
}

/* The path under which the other machine is to find lakerun: the same as here, unless the job says otherwise.
 */
static const char *remote_lakerun(lki_arena *arena, const lki_job *job) {
  char path[4096];
  if (job->remote_lakerun != NULL) return job->remote_lakerun;
  ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 && (size_t)n < sizeof path ? lki_arena_strndup(arena, path, (size_t)n) : "lakerun";
}

/* On another machine the command runs under a keeper too, so that signals reach it and nothing stays behind.
 */
static void push_remote(list *words, const lki_job *job, const lki_role *role, const lki_plan *plan) {
  push(words, "exec");
  push(words, "env");
  for (size_t i = 0; i < plan->sets.count; i++) push(words, plan->sets.at[i]);
  push(words, remote_lakerun(words->arena, job));
  push(words, "--keep");
  push(words, print(words->arena, "--keep-signal=%s", lki_signal_name(role->drain_signal)));
  push(words, print(words->arena, "--keep-term-ms=%" PRIu64, job->term_ms));
  if (job->workdir != NULL) push(words, print(words->arena, "--keep-workdir=%s", job->workdir));
  if (role->cpus != NULL) push(words, print(words->arena, "--keep-cpus=%s", role->cpus));
  push(words, "--");
}

static char *quoted(lki_arena *arena, const list *words) {
  lake_buffer out;
  lki_buffer_init(&out, arena->env, (size_t)1 << 20);
  lake_status s = words->bad ? LAKE_NOMEM : LAKE_OK;
  for (size_t i = 0; i < words->count && s == LAKE_OK; i++) {
    if (i > 0) s = lki_buffer_append(&out, " ", 1, NULL);
    if (s == LAKE_OK) s = lki_quote(&out, words->at[i], NULL);
  }
  char *text = s == LAKE_OK ? lki_arena_strndup(arena, (const char *)out.data, out.bytes) : NULL;
  lki_buffer_free(&out);
  return text;
}

lake_status lki_plan_build(lki_arena *arena, const lki_job *job, const lki_role *role, size_t index,
                           uint64_t attempt, char *const *environ_in, lki_plan *out, lake_error *err) {
  lki_plan plan = {.role = role};
  if (role->kind == LKI_ROLE_PROCESS && role->hosts.count > 0)
    plan.host = role->hosts.at[index % role->hosts.count];
  plan.remote = !lki_host_is_local(plan.host);
  lake_status s = build_sets(arena, job, role, index, attempt, &plan.sets, err);
  if (s == LAKE_OK) s = build_environment(arena, environ_in, &plan, err);
  if (s != LAKE_OK) return s;
  char *count_text = print(arena, "%" PRIu64, role->count), *index_text = print(arena, "%zu", index);
  char *attempt_text = print(arena, "%" PRIu64, attempt);
  if (count_text == NULL || index_text == NULL || attempt_text == NULL)
    return lki_fail(err, LAKE_NOMEM, "out of memory for a command");
  const lki_place places[] = {{"job", job->name},
                              {"role", role->name},
                              {"count", count_text},
                              {"attempt", attempt_text},
                              {"index", index_text}};
  list argv = list_of(arena, role->command.count + role->mpirun_args.count + 2 * plan.sets.count +
                                 job->remote.count + 32);
  if (plan.remote) push_remote(&argv, job, role, &plan);
  if (role->kind == LKI_ROLE_MPI) push_mpirun(&argv, job, role, &plan);
  for (size_t i = 0; i < role->command.count && !argv.bad; i++)
    push(&argv, lki_expand(arena, role->command.at[i], places, 5, err));
  if (plan.remote) {
    const lki_place host = {"host", plan.host};
    list outer = list_of(arena, job->remote.count + 1);
    for (size_t i = 0; i < job->remote.count && !outer.bad; i++)
      push(&outer, lki_expand(arena, job->remote.at[i], &host, 1, err));
    push(&outer, quoted(arena, &argv));
    argv = outer;
  }
  if (argv.bad) return lki_fail(err, LAKE_NOMEM, "out of memory for a command");
  plan.argv = (char **)(uintptr_t)argv.at;
  *out = plan;
  return LAKE_OK;
}

static lake_status put(lake_buffer *out, const char *text, lake_error *err) {
  return lki_buffer_append(out, text, strlen(text), err);
}

/* A space and the word, quoted. */
static lake_status put_word(lake_buffer *out, const char *prefix, const char *word, lake_error *err) {
  lake_status s = put(out, prefix, err);
  return s == LAKE_OK ? lki_quote(out, word, err) : s;
}

static lake_status put_comment(const lki_plan *plan, const char *label, lake_buffer *out, lake_error *err) {
  const lki_role *role = plan->role;
  char text[160];
  snprintf(text, sizeof text, "# %s", label);
  lake_status s = put(out, text, err);
  snprintf(text, sizeof text, ": %" PRIu64 " rank%s", role->count, role->count > 1 ? "s" : "");
  if (s == LAKE_OK && role->kind == LKI_ROLE_MPI) s = put(out, text, err);
  if (s == LAKE_OK) s = put(out, " on ", err);
  if (s == LAKE_OK && role->kind == LKI_ROLE_PROCESS)
    s = put(out, plan->host != NULL ? plan->host : "localhost", err);
  if (s == LAKE_OK && role->kind == LKI_ROLE_MPI && role->hosts.count == 0) s = put(out, "localhost", err);
  for (size_t i = 0; role->kind == LKI_ROLE_MPI && i < role->hosts.count && s == LAKE_OK; i++) {
    s = put(out, i > 0 ? "," : "", err);
    if (s == LAKE_OK) s = put(out, role->hosts.at[i], err);
  }
  if (s == LAKE_OK && role->cpus != NULL) s = put(out, ", CPUs ", err);
  if (s == LAKE_OK && role->cpus != NULL) s = put(out, role->cpus, err);
  return s == LAKE_OK ? put(out, "\n", err) : s;
}

lake_status lki_plan_print(const lki_plan *plan, const lki_job *job, const char *label, lake_buffer *out,
                           lake_error *err) {
  lake_status s = put_comment(plan, label, out, err);
  if (s == LAKE_OK && job->workdir != NULL && !plan->remote) {
    s = put_word(out, "cd ", job->workdir, err);
    if (s == LAKE_OK) s = put(out, " && ", err);
  }
  if (s == LAKE_OK) s = put(out, "env", err);
  for (size_t i = 0; i < plan->unsets.count && s == LAKE_OK; i++)
    s = put_word(out, " -u ", plan->unsets.at[i], err);
  for (size_t i = 0; i < plan->sets.count && !plan->remote && s == LAKE_OK; i++)
    s = put_word(out, " ", plan->sets.at[i], err);
  /* lakerun sets the affinity itself; in a shell taskset does the same. */
  if (s == LAKE_OK && plan->role->kind == LKI_ROLE_PROCESS && !plan->remote && plan->role->cpus != NULL)
    s = put_word(out, " taskset -c ", plan->role->cpus, err);
  for (char *const *word = plan->argv; *word != NULL && s == LAKE_OK; word++)
    s = put_word(out, " ", *word, err);
  return s == LAKE_OK ? put(out, "\n", err) : s;
}
