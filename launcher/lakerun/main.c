/* lakerun: the command line. What it does is in docs/man/lakerun.1. */
#include "base/error.h"
#include "keeper.h"
#include "plan.h"
#include "supervise.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_USAGE 2
#define EXIT_NOT_FOUND 3
#define SETS_MAX 64

static const char usage[] =
    "usage: lakerun [--dry-run] [--json FILE] [--set ROLE.count=N]... JOB.json\n"
    "\n"
    "Runs one training job: the trainers as one MPI job, every producer as a supervised process of its own.\n"
    "\n"
    "  -n, --dry-run           print the exact commands and start nothing\n"
    "      --json FILE         write the summary of the run to FILE, as JSON\n"
    "      --set ROLE.count=N  another number of processes or ranks than the job file says\n"
    "  -h, --help              show this text\n"
    "  -V, --version           show the version\n"
    "\n"
    "SIGINT, SIGTERM, SIGHUP and SIGUSR1 drain the job: drain signal, deadline, TERM, deadline, KILL.\n"
    "A second SIGINT goes on to TERM, a third to KILL.\n"
    "Exit codes: 0 finished or drained, 1 other, 2 usage or bad job file, 3 not found, 7 deadline, else that "
    "of the\n"
    "role that failed; 128 + signal when it was stopped and not everything drained by itself. See "
    "lakerun(1).\n";

typedef struct command_line {
  const char *job;
  const char *json;
  const char *sets[SETS_MAX];
  size_t set_count;
  bool dry_run;
  bool keep;
  lki_keeper keeper;
  cpu_set_t cpus;
} command_line;

static int complain(const lake_error *err) {
  fprintf(stderr, "lakerun: %s\n", err->text);
  return err->status == LAKE_NOTFOUND ? EXIT_NOT_FOUND : err->status == LAKE_INVALID ? EXIT_USAGE : 1;
}

LAKE_PRINTF(1, 2) static int misuse(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("lakerun: ", stderr);
  vfprintf(stderr, format, args);
  fputs("; see lakerun --help\n", stderr);
  va_end(args);
  return EXIT_USAGE;
}

enum { OPTION_JSON = 256, OPTION_SET, OPTION_KEEP, OPTION_SIGNAL, OPTION_TERM, OPTION_WORKDIR, OPTION_CPUS };

/* The options that lakerun gives itself on another machine. False: a bad value. */
static bool keep_option(command_line *line, int option, const char *value) {
  lki_keeper *keeper = &line->keeper;
  char *end = NULL;
  switch (option) {
  case OPTION_KEEP:
    line->keep = true;
    return true;
  case OPTION_SIGNAL:
    keeper->drain_signal = lki_signal_number(value);
    return keeper->drain_signal > 0;
  case OPTION_WORKDIR:
    keeper->workdir = value;
    return true;
  case OPTION_CPUS:
    keeper->cpus = &line->cpus;
    return lki_cpus_parse(value, &line->cpus);
  default:
    errno = 0;
    keeper->term_ms = strtoull(value, &end, 10);
    return errno == 0 && end != value && *end == 0;
  }
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, command_line *line) {
  static const struct option options[] = {{"dry-run", no_argument, NULL, 'n'},
                                          {"json", required_argument, NULL, OPTION_JSON},
                                          {"set", required_argument, NULL, OPTION_SET},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'V'},
                                          {"keep", no_argument, NULL, OPTION_KEEP},
                                          {"keep-signal", required_argument, NULL, OPTION_SIGNAL},
                                          {"keep-term-ms", required_argument, NULL, OPTION_TERM},
                                          {"keep-workdir", required_argument, NULL, OPTION_WORKDIR},
                                          {"keep-cpus", required_argument, NULL, OPTION_CPUS},
                                          {NULL, 0, NULL, 0}};
  opterr = 0;
  for (int option = 0; (option = getopt_long(argc, argv, "+:nhV", options, NULL)) != -1;) {
    switch (option) {
    case 'n':
      line->dry_run = true;
      break;
    case OPTION_JSON:
      line->json = optarg;
      break;
    case 'h':
      fputs(usage, stdout);
      return 0;
    case 'V':
      printf("lakerun %s\n", lake_version_string());
      return 0;
    case OPTION_SET:
      if (line->set_count == SETS_MAX) return misuse("more than %d --set", SETS_MAX);
      line->sets[line->set_count++] = optarg;
      break;
    case '?':
      return misuse("unknown option '%s'", argv[optind - 1]);
    case ':':
      return misuse("option '%s' needs a value", argv[optind - 1]);
    default:
      if (!keep_option(line, option, optarg)) return misuse("'%s' is no value for that option", optarg);
    }
  }
  if (line->keep) return optind < argc ? -1 : misuse("--keep needs a command");
  if (argc - optind != 1)
    return misuse(optind == argc ? "give a job file" : "give one job file, not %d", argc - optind);
  line->job = argv[optind];
  return -1;
}

static int dry_run(const lki_job *job, lake_env *env) {
  lake_error err = LAKE_ERROR_INIT;
  lake_status s = LAKE_OK;
  for (size_t i = 0; i < job->role_count && s == LAKE_OK; i++)
    for (size_t k = 0; k < lki_role_units(&job->roles[i]) && s == LAKE_OK; k++) {
      const lki_role *role = &job->roles[i];
      char label[64];
      lki_arena arena;
      lake_buffer text;
      lki_plan plan;
      lki_arena_init(&arena, env);
      lki_buffer_init(&text, env, (size_t)4 << 20);
      snprintf(label, sizeof label, role->kind == LKI_ROLE_MPI ? "%s" : "%s.%zu", role->name, k);
      s = lki_plan_build(&arena, job, role, k, 0, environ, &plan, &err);
      if (s == LAKE_OK) s = lki_plan_print(&plan, job, label, &text, &err);
      if (s == LAKE_OK) fwrite(text.data, 1, text.bytes, stdout);
      lki_buffer_free(&text);
      lki_arena_free(&arena);
    }
  if (s == LAKE_OK && fflush(stdout) != 0)
    s = lki_fail(&err, LAKE_INTERNAL, "cannot write the commands: %s", strerror(errno));
  return s == LAKE_OK ? 0 : complain(&err);
}

/* Opened before the run: a summary that cannot be written is better known at its beginning. */
static FILE *open_summary(const char *file, char *temporary, size_t bytes, lake_error *err) {
  int n = snprintf(temporary, bytes, "%s.%d.tmp", file, (int)getpid());
  FILE *f = n > 0 && (size_t)n < bytes ? fopen(temporary, "wxe") : NULL;
  if (f == NULL) lki_fail(err, LAKE_INVALID, "--json %s: cannot be written: %s", file, strerror(errno));
  return f;
}

static lake_status write_summary(const lki_run *run, FILE *f, const char *temporary, const char *file,
                                 lake_error *err) {
  lake_buffer text;
  lki_buffer_init(&text, run->env, (size_t)64 << 20);
  lake_status s = lki_report_json(run, &text, err);
  bool bad = s == LAKE_OK && fwrite(text.data, 1, text.bytes, f) != text.bytes;
  if (fclose(f) != 0 || bad || (s == LAKE_OK && rename(temporary, file) != 0))
    s = lki_fail(err, LAKE_INTERNAL, "--json %s: cannot be written: %s", file, strerror(errno));
  if (s != LAKE_OK) unlink(temporary);
  lki_buffer_free(&text);
  return s;
}

static int run_job(const lki_job *job, lake_env *env, const char *json) {
  lake_error err = LAKE_ERROR_INIT;
  char temporary[4200];
  FILE *summary = NULL;
  lki_run run;
  lake_status s = lki_job_check_machine(job, &err);
  if (s == LAKE_OK && json != NULL &&
      (summary = open_summary(json, temporary, sizeof temporary, &err)) == NULL)
    s = err.status;
  if (s != LAKE_OK) return complain(&err);
  s = lki_run_open(env, job, &run, &err);
  if (s != LAKE_OK) {
    if (summary != NULL) {
      fclose(summary);
      unlink(temporary);
    }
    return complain(&err);
  }
  lki_run_loop(&run);
  int code = lki_run_exit_code(&run);
  if (summary != NULL && write_summary(&run, summary, temporary, json, &err) != LAKE_OK) {
    complain(&err);
    if (code == 0) code = 1;
  }
  lki_run_close(&run);
  return code;
}

static _Noreturn void keep(command_line *line, char **argv) {
  line->keeper.argv = argv;
  line->keeper.envp = environ;
  line->keeper.control = STDIN_FILENO;
  line->keeper.death_signal = SIGKILL;
  lki_keeper_run(&line->keeper);
}

int main(int argc, char **argv) {
  static command_line line = {.keeper = {.drain_signal = SIGTERM, .term_ms = 3000}};
  lake_error err = LAKE_ERROR_INIT;
  lake_env *env = NULL;
  lki_job job;
  /* Our pipes must not become somebody's standard output. */
  for (int fd = open("/dev/null", O_RDWR); fd >= 0; fd = open("/dev/null", O_RDWR))
    if (fd > STDERR_FILENO) {
      close(fd);
      break;
    }
  signal(SIGCHLD, SIG_DFL);
  int code = parse(argc, argv, &line);
  if (code >= 0) return code;
  if (line.keep) keep(&line, argv + optind);
  lake_status s = lake_env_open(NULL, &env, &err);
  if (s != LAKE_OK) return complain(&err);
  s = lki_job_open(env, line.job, &job, &err);
  if (s == LAKE_OK) {
    for (size_t i = 0; i < line.set_count && s == LAKE_OK; i++) s = lki_job_set(&job, line.sets[i], &err);
    if (s == LAKE_OK) s = lki_job_check(&job, &err);
    if (s != LAKE_OK)
      code = complain(&err);
    else
      code = line.dry_run ? dry_run(&job, env) : run_job(&job, env, line.json);
    lki_job_close(&job);
  } else {
    code = complain(&err);
  }
  lake_env_close(env);
  return code;
}
