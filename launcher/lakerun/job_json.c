/* The JSON of a job file into a lki_job. Strict: a member that is not known, is there twice or has the wrong
 * type is refused with its path. The first error wins; every reader does nothing after it, so the callers ask
 * once. */
#include "base/error.h"
#include "base/json.h"
#include "expand.h"
#include "job.h"
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

typedef struct source {
  lki_job *job;
  lake_error *err;
  lake_status status;
  char path[160]; /* of the object being read; "" at the top */
} source;

LAKE_PRINTF(3, 4) static void fail(source *in, const char *member, const char *format, ...) {
  if (in->status != LAKE_OK) return;
  char text[400];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  bool deep = in->path[0] != 0;
  in->status = lki_fail(in->err, LAKE_INVALID, "%s: %s%s%.60s%s%s", in->job->file, in->path,
                        deep && member[0] != 0 ? "." : "", member, deep || member[0] != 0 ? ": " : "", text);
}

static void *room(source *in, size_t bytes) {
  void *p = in->status == LAKE_OK ? lki_arena_alloc(&in->job->arena, bytes > 0 ? bytes : 1) : NULL;
  if (p == NULL && in->status == LAKE_OK)
    in->status = lki_fail(in->err, LAKE_NOMEM, "%s: out of memory", in->job->file);
  return p;
}

static const char *copy(source *in, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *p = room(in, bytes);
  if (p != NULL) memcpy(p, text, bytes);
  return p;
}

/* Refuses what is not an object, unknown members and repeated ones. names ends with NULL. */
static void members(source *in, const lki_json *json, const char *const *names) {
  if (!lki_json_is_object(json)) {
    fail(in, "", "must be an object");
    return;
  }
  uint64_t seen = 0;
  for (const lki_json *child = lki_json_first(json); child != NULL; child = lki_json_next(child)) {
    size_t i = 0;
    while (names[i] != NULL && strcmp(names[i], lki_json_name(child)) != 0) i++;
    if (names[i] == NULL) {
      char known[240] = "";
      size_t used = 0;
      for (size_t n = 0; names[n] != NULL && used < sizeof known; n++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", n > 0 ? ", " : "", names[n]);
      fail(in, lki_json_name(child), "unknown member (known here: %s)", known);
      return;
    }
    if (seen & (UINT64_C(1) << i)) fail(in, names[i], "is there twice; keep one");
    seen |= UINT64_C(1) << i;
  }
}

static const char *get_text(source *in, const lki_json *json, const char *name, const char *otherwise) {
  const lki_json *value = lki_json_get(json, name);
  if (value == NULL || in->status != LAKE_OK) return otherwise;
  const char *text = lki_json_string(value);
  if (text != NULL && text[0] != 0) return copy(in, text);
  fail(in, name, text == NULL ? "must be a string" : "must not be empty; leave it out instead");
  return otherwise;
}

static uint64_t get_u64(source *in, const lki_json *json, const char *name, uint64_t min, uint64_t max,
                        uint64_t otherwise) {
  const lki_json *value = lki_json_get(json, name);
  uint64_t number = 0;
  if (value == NULL || in->status != LAKE_OK) return otherwise;
  if (lki_json_string(value) == NULL && lki_json_u64(value, &number) && number >= min && number <= max)
    return number;
  fail(in, name, "must be a whole number from %llu to %llu", (unsigned long long)min,
       (unsigned long long)max);
  return otherwise;
}

static bool get_bool(source *in, const lki_json *json, const char *name, bool otherwise) {
  const lki_json *value = lki_json_get(json, name);
  if (value != NULL && in->status == LAKE_OK && !lki_json_bool(value, &otherwise))
    fail(in, name, "must be true or false");
  return otherwise;
}

static lki_words get_words(source *in, const lki_json *json, const char *name) {
  lki_words words = {NULL, 0};
  const lki_json *value = lki_json_get(json, name);
  if (value == NULL || in->status != LAKE_OK) return words;
  size_t count = lki_json_count(value);
  if (!lki_json_is_array(value) || count == 0 || count > LKI_JOB_WORDS_MAX) {
    fail(in, name, "must be an array of 1 to %d strings", LKI_JOB_WORDS_MAX);
    return words;
  }
  words.at = room(in, count * sizeof *words.at);
  for (const lki_json *word = lki_json_first(value); word != NULL && in->status == LAKE_OK;
       word = lki_json_next(word)) {
    const char *text = lki_json_string(word);
    if (text == NULL)
      fail(in, name, "word %zu must be a string", words.count);
    else
      words.at[words.count++] = copy(in, text);
  }
  return words;
}

static bool is_variable(const char *name) {
  if (!isalpha((unsigned char)name[0]) && name[0] != '_') return false;
  for (const char *p = name; *p != 0; p++)
    if (!isalnum((unsigned char)*p) && *p != '_') return false;
  return true;
}

static lki_vars get_vars(source *in, const lki_json *json, const char *name) {
  lki_vars vars = {NULL, NULL, 0};
  const lki_json *value = lki_json_get(json, name);
  if (value == NULL || in->status != LAKE_OK) return vars;
  if (!lki_json_is_object(value)) {
    fail(in, name, "must be an object of strings");
    return vars;
  }
  size_t count = lki_json_count(value);
  vars.names = room(in, count * sizeof *vars.names);
  vars.values = room(in, count * sizeof *vars.values);
  for (const lki_json *var = lki_json_first(value); var != NULL && in->status == LAKE_OK;
       var = lki_json_next(var)) {
    const char *key = lki_json_name(var), *text = lki_json_string(var);
    char member[100];
    snprintf(member, sizeof member, "%s.%.50s", name, key);
    if (!is_variable(key)) fail(in, member, "is no name of an environment variable");
    if (strncmp(key, "LAKERUN_", 8) == 0)
      fail(in, member, "lakerun sets the LAKERUN_ variables itself; choose another name");
    if (text == NULL) fail(in, member, "must be a string");
    for (size_t i = 0; i < vars.count; i++)
      if (strcmp(vars.names[i], key) == 0) fail(in, member, "is there twice; keep one");
    if (in->status != LAKE_OK) break;
    vars.names[vars.count] = copy(in, key);
    vars.values[vars.count++] = copy(in, text);
  }
  return vars;
}

/* Index of the text among names (NULL ends them). */
static size_t get_choice(source *in, const lki_json *json, const char *name, const char *const *names,
                         size_t otherwise) {
  const lki_json *value = lki_json_get(json, name);
  if (value == NULL || in->status != LAKE_OK) return otherwise;
  const char *text = lki_json_string(value);
  char list[120] = "";
  size_t used = 0;
  for (size_t i = 0; names[i] != NULL && used < sizeof list; i++) {
    if (text != NULL && strcmp(text, names[i]) == 0) return i;
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", names[i]);
  }
  fail(in, name, "must be one of: %s", list);
  return otherwise;
}

static void read_fatal(source *in, const lki_json *json, lki_restart *restart) {
  /* Not 3: what is not there yet may be made by another role. The restarts in a row are limited anyway. */
  static const uint8_t defaults[] = {2, 4, 6, 8, 9, 126, 127};
  const lki_json *value = lki_json_get(json, "fatal");
  if (value == NULL) {
    for (size_t i = 0; i < sizeof defaults; i++) restart->fatal[defaults[i]] = true;
    return;
  }
  if (!lki_json_is_array(value)) fail(in, "fatal", "must be an array of exit codes");
  for (const lki_json *code = lki_json_first(value); code != NULL && in->status == LAKE_OK;
       code = lki_json_next(code)) {
    uint64_t number = 0;
    if (lki_json_string(code) == NULL && lki_json_u64(code, &number) && number >= 1 && number <= 255)
      restart->fatal[number] = true;
    else
      fail(in, "fatal", "must hold exit codes from 1 to 255");
  }
}

static void read_restart(source *in, const lki_json *json, lki_role *role) {
  static const char *const known[] = {"policy",     "limit", "backoff_ms", "backoff_max_ms",
                                      "healthy_ms", "fatal", NULL};
  static const char *const policies[] = {"on-failure", "always", "never", NULL};
  const lki_json *value = lki_json_get(json, "restart");
  size_t path = strlen(in->path);
  snprintf(in->path + path, sizeof in->path - path, ".restart");
  if (value != NULL) members(in, value, known);
  lki_restart *restart = &role->restart;
  restart->policy = (lki_policy)get_choice(in, value, "policy", policies, LKI_POLICY_ON_FAILURE);
  restart->limit = get_u64(in, value, "limit", 0, 1000000, role->kind == LKI_ROLE_MPI ? 3 : 10);
  restart->backoff_ms = get_u64(in, value, "backoff_ms", 0, 3600000, 200);
  restart->backoff_ms_max = get_u64(in, value, "backoff_max_ms", 0, 3600000,
                                    restart->backoff_ms > 10000 ? restart->backoff_ms : 10000);
  restart->healthy_ms = get_u64(in, value, "healthy_ms", 0, 86400000, 60000);
  if (restart->backoff_ms_max < restart->backoff_ms)
    fail(in, "backoff_max_ms", "must not be below backoff_ms");
  read_fatal(in, value, restart);
  in->path[path] = 0;
}

static void read_drain_signal(source *in, const lki_json *json, lki_role *role) {
  bool mpi = role->kind == LKI_ROLE_MPI;
  const char *name = get_text(in, json, "drain_signal", mpi ? "USR1" : "TERM");
  role->drain_signal = lki_signal_number(name);
  int n = role->drain_signal;
  if (mpi && n != SIGUSR1 && n != SIGUSR2)
    fail(in, "drain_signal", "must be USR1 or USR2: mpirun forwards no other to its ranks");
  if (n != SIGTERM && n != SIGINT && n != SIGHUP && n != SIGQUIT && n != SIGUSR1 && n != SIGUSR2)
    fail(in, "drain_signal", "must be one of: TERM, INT, HUP, QUIT, USR1, USR2");
}

static bool host_name_ok(const char *host, size_t bytes) {
  if (bytes == 0 || !isalnum((unsigned char)host[0])) return false;
  for (size_t i = 0; i < bytes; i++)
    if (!isalnum((unsigned char)host[i]) && strchr("._-", host[i]) == NULL) return false;
  return true;
}

/* A host may start with a letter or digit only: what begins with a dash would be an option of ssh. */
static void check_hosts(source *in, const lki_role *role) {
  for (size_t i = 0; i < role->hosts.count && in->status == LAKE_OK; i++) {
    const char *host = role->hosts.at[i];
    size_t name = strcspn(host, ":");
    const char *slots = host[name] == ':' ? host + name + 1 : NULL;
    if (!host_name_ok(host, name)) fail(in, "hosts", "'%.40s' is no host name", host);
    if (slots != NULL && role->kind == LKI_ROLE_PROCESS)
      fail(in, "hosts",
           "'%.40s': slots (:N) are for roles of kind mpi; name a host twice to give it two processes", host);
    if (slots != NULL && (slots[0] == 0 || strspn(slots, "0123456789") != strlen(slots) || strlen(slots) > 6))
      fail(in, "hosts", "'%.40s': the slots after : must be a number", host);
  }
}

static void check_command(source *in, const lki_role *role) {
  static const lki_place all[] = {
      {"job", "-"}, {"role", "-"}, {"count", "0"}, {"attempt", "0"}, {"index", "0"}};
  size_t known = role->kind == LKI_ROLE_MPI ? 4 : 5;
  if (role->command.count == 0)
    fail(in, "command", "is missing; give the program and its arguments as an array");
  for (size_t i = 0; i < role->command.count && in->status == LAKE_OK; i++) {
    lake_error why = LAKE_ERROR_INIT;
    char *text = lki_expand(&in->job->arena, role->command.at[i], all, known, &why);
    char member[32];
    snprintf(member, sizeof member, "command[%zu]", i);
    if (text == NULL) fail(in, member, "%s", why.text);
    if (i == 0 && text != NULL && text[0] == 0) fail(in, member, "the program's name is empty");
  }
}

static void read_role(source *in, const lki_json *json, lki_role *role) {
  static const char *const known[] = {"kind",         "command",  "count", "hosts",       "cpus", "restart",
                                      "drain_signal", "required", "env",   "mpirun_args", NULL};
  static const char *const kinds[] = {"process", "mpi", NULL};
  members(in, json, known);
  if (lki_json_get(json, "kind") == NULL) fail(in, "kind", "is missing; it is process or mpi");
  role->kind = (lki_role_kind)get_choice(in, json, "kind", kinds, 0);
  role->command = get_words(in, json, "command");
  role->count = get_u64(in, json, "count", 1, LKI_JOB_UNITS_MAX, 1);
  role->hosts = get_words(in, json, "hosts");
  role->cpus = get_text(in, json, "cpus", NULL);
  role->required = get_bool(in, json, "required", true);
  role->env = get_vars(in, json, "env");
  if (role->kind != LKI_ROLE_MPI && lki_json_get(json, "mpirun_args") != NULL)
    fail(in, "mpirun_args", "is for roles of kind mpi");
  role->mpirun_args = get_words(in, json, "mpirun_args");
  read_drain_signal(in, json, role);
  read_restart(in, json, role);
  check_command(in, role);
  check_hosts(in, role);
  if (role->cpus != NULL && !lki_cpus_parse(role->cpus, &role->cpu_set))
    fail(in, "cpus", "'%.40s' is no set of CPUs; write numbers and ranges such as 0-3,8", role->cpus);
}

/* Role names become prefixes and file names of the user's, so they stay short and plain. */
static bool role_name_ok(const char *name) {
  size_t bytes = strlen(name);
  return bytes > 0 && bytes <= 32 && islower((unsigned char)name[0]) &&
         strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == bytes;
}

static void read_roles(source *in, const lki_json *json) {
  const lki_json *roles = lki_json_get(json, "roles");
  lki_job *job = in->job;
  size_t count = lki_json_count(roles);
  if (!lki_json_is_object(roles) || count == 0 || count > LKI_JOB_ROLES_MAX)
    fail(in, "roles", "must be an object of 1 to %d roles", LKI_JOB_ROLES_MAX);
  job->roles = room(in, count * sizeof *job->roles);
  for (const lki_json *child = lki_json_first(roles); child != NULL && in->status == LAKE_OK;
       child = lki_json_next(child)) {
    snprintf(in->path, sizeof in->path, "roles.%.60s", lki_json_name(child));
    if (!role_name_ok(lki_json_name(child)))
      fail(in, "", "a role's name is a lower-case letter, then up to 31 of a-z 0-9 _ -");
    for (size_t i = 0; i < job->role_count; i++)
      if (strcmp(job->roles[i].name, lki_json_name(child)) == 0) fail(in, "", "is there twice; keep one");
    lki_role *role = &job->roles[job->role_count];
    role->name = copy(in, lki_json_name(child));
    read_role(in, child, role);
    if (in->status == LAKE_OK) job->role_count++;
  }
  in->path[0] = 0;
}

static void read_remote(source *in, const lki_json *json) {
  static const char *const ssh[] = {"ssh", "-oBatchMode=yes", "{host}"};
  static const lki_place host = {"host", "host"};
  lki_words *remote = &in->job->remote;
  *remote = get_words(in, json, "remote");
  if (remote->count == 0) *remote = (lki_words){(const char **)(uintptr_t)ssh, 3};
  bool named = false;
  for (size_t i = 0; i < remote->count && in->status == LAKE_OK; i++) {
    lake_error why = LAKE_ERROR_INIT;
    if (lki_expand(&in->job->arena, remote->at[i], &host, 1, &why) == NULL)
      fail(in, "remote", "%s", why.text);
    named = named || strstr(remote->at[i], "{host}") != NULL;
  }
  if (!named) fail(in, "remote", "must name {host} in one of its words");
}

lake_status lki_job_read(lki_job *job, lake_bytes text, lake_error *err) {
  static const char *const known[] = {"name",    "env",         "workdir",   "roles",  "drain_ms",
                                      "term_ms", "deadline_ms", "done_when", "remote", "remote_lakerun",
                                      "mpirun",  NULL};
  source in = {.job = job, .err = err, .status = LAKE_OK};
  lki_json *json = NULL;
  lake_status s = lki_json_parse(text, job->file, &json, err);
  if (s != LAKE_OK) return s;
  members(&in, json, known);
  job->name = get_text(&in, json, "name", "job");
  job->env = get_vars(&in, json, "env");
  job->workdir = get_text(&in, json, "workdir", NULL);
  job->drain_ms = get_u64(&in, json, "drain_ms", 0, 86400000, 10000);
  job->term_ms = get_u64(&in, json, "term_ms", 0, 86400000, 3000);
  job->deadline_ms = get_u64(&in, json, "deadline_ms", 0, UINT64_C(31536000000), 0);
  job->remote_lakerun = get_text(&in, json, "remote_lakerun", NULL);
  job->mpirun = get_text(&in, json, "mpirun", "mpirun");
  read_remote(&in, json);
  read_roles(&in, json);
  const char *done_when = get_text(&in, json, "done_when", NULL);
  job->done_when = 0;
  while (done_when != NULL && job->done_when < job->role_count &&
         strcmp(job->roles[job->done_when].name, done_when) != 0)
    job->done_when++;
  if (done_when == NULL)
    job->done_when = job->role_count;
  else if (job->done_when == job->role_count)
    fail(&in, "done_when", "there is no role '%.40s'", done_when);
  lki_json_free(json);
  return in.status;
}
