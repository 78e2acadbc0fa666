/* lake: the command line of Lakestream. Finds the command, runs it, turns its status into output and an exit code. */
#include "base/env.h"
#include "cli.h"
#include "exit.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
  const char *name;
  lki_cli_command_fn *run;
  const char *what;
} commands[] = {
    {"init", lki_cmd_init, "create a namespace"},
    {"feed", lki_cmd_feed, "produce batches from text"},
    {"ls", lki_cmd_ls, "list steps, producers or versions"},
    {"inspect", lki_cmd_inspect, "print any object of a namespace"},
    {"verify", lki_cmd_verify, "check every object and every promise of a namespace"},
    {"doctor", lki_cmd_doctor, "check a store, and tell where its settings come from"},
    {"seal", lki_cmd_seal, "end a stream"},
    {"reclaim", lki_cmd_reclaim, "delete what no checkpoint needs"},
    {"sim", lki_cmd_sim, "simulate commit policies"},
    {"export", lki_cmd_export, "write steps into an HDF5 file"},
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static void print_usage(FILE *to) {
  fputs("usage: lake COMMAND [OPTIONS] ...\n       lake --version | --help\n\ncommands:\n", to);
  for (size_t i = 0; i < COMMAND_COUNT; i++) fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].what);
  fputs("\n`lake COMMAND --help` tells more. A URL is file:/absolute/folder, file:relative/folder, a path that begins\n"
        "with '/' or '.', s3://bucket/prefix, gs://bucket/prefix or az://container/prefix, with settings and credentials\n"
        "as docs/STORES.md says (installed as share/doc/lakestream/STORES.md).\n\n"
        "exit codes: 0 fine, 1 other, 2 usage, 3 not found, 4 conflict or fenced, 5 transient, 6 corrupt,\n"
        "            7 timeout, 8 credentials, 9 unsupported\n",
        to);
}

/* By lake_log_level: as LAKESTREAM_LOG names it, and before a line. */
static const char *const level_words[][2] = {{"error", "error"}, {"warn", "warning"}, {"info", "info"}, {"debug", "debug"}};

static void log_line(void *ctx, lake_log_level level, const char *line) {
  (void)ctx;
  fprintf(stderr, "lake: %s: %s\n", level_words[level][1], line);
}

/* LAKESTREAM_LOG, if it is set. */
static lake_status log_level(uint32_t *out, lake_error *err) {
  const char *text = lki_getenv("LAKESTREAM_LOG");
  if (text == NULL || text[0] == 0) return LAKE_OK;
  for (uint32_t i = 0; i < sizeof level_words / sizeof level_words[0]; i++) {
    if (strcmp(text, level_words[i][0]) != 0) continue;
    *out = i;
    return LAKE_OK;
  }
  return lki_fail(err, LAKE_INVALID, "LAKESTREAM_LOG=%.40s: choose error, warn, info or debug", text);
}

static lake_status unknown_command(const char *word, lake_error *err) {
  const char *names[COMMAND_COUNT + 1];
  for (size_t i = 0; i < COMMAND_COUNT; i++) names[i] = commands[i].name;
  names[COMMAND_COUNT] = NULL;
  const char *close = lki_cli_close_name(word, names);
  if (close != NULL) return lki_fail(err, LAKE_INVALID, "unknown command '%s'; did you mean '%s'?", word, close);
  return lki_fail(err, LAKE_INVALID, "unknown command '%s'; see lake --help", word);
}

/* Runs what argv asks for. */
static lake_status run(lki_cli *cli, int argc, char **argv, lake_error *err) {
  if (argc < 2) {
    print_usage(stderr);
    return lki_fail(err, LAKE_INVALID, "a command is missing");
  }
  const char *word = argv[1];
  if (strcmp(word, "--version") == 0) {
    printf("lake %s\n", lake_version_string());
    return LAKE_OK;
  }
  static char help_option[] = "--help";
  bool help = strcmp(word, "help") == 0;
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || (help && argc == 2)) {
    print_usage(stdout);
    return LAKE_OK;
  }
  if (word[0] == '-') return lki_fail(err, LAKE_INVALID, "unknown option '%s'; see lake --help", word);
  if (help) word = argv[2];
  for (size_t i = 0; i < COMMAND_COUNT; i++) {
    if (strcmp(word, commands[i].name) != 0) continue;
    cli->command = commands[i].name;
    optind = 0; /* begins anew, GNU's way */
    if (!help) return commands[i].run(cli, argc - 1, argv + 1, err);
    char *help_argv[] = {argv[2], help_option, NULL};
    return commands[i].run(cli, 2, help_argv, err);
  }
  return unknown_command(word, err);
}

/* Says what went wrong on stderr and, with --json, on stdout. */
static void report_failure(lki_cli *cli, lake_status status, const lake_error *err) {
  fprintf(stderr, "lake%s%s: %s\n", cli->command != NULL ? " " : "", cli->command != NULL ? cli->command : "",
          err->text[0] != 0 ? err->text : lake_status_name(status));
  if (!cli->json || cli->reported) return;
  lki_json *json = lki_json_new_object();
  lki_cli_error_members(lki_json_add_object(json, "error"), status, err);
  (void)lki_cli_print(cli, json, NULL);
}

/* Did stdout fail because its reader has seen enough, as `head` does? That is no failure. */
static bool reader_gone(void) {
  struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int main(int argc, char **argv) {
  lake_error err = LAKE_ERROR_INIT;
  lki_cli cli = {.timeout_ms = 60000, .progress = isatty(STDERR_FILENO) == 1};
  /* A reader that went away shows as EPIPE on stdout, not as a death in the middle of a commit. */
  (void)signal(SIGPIPE, SIG_IGN);
  /* Nor is a limit on the size of files: it is an error of the write. */
  (void)signal(SIGXFSZ, SIG_IGN);
  /* An error in an option must come out as JSON also when --json stands after it. */
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (strcmp(argv[i], "--json") == 0) cli.json = true;

  lake_env_options options = LAKE_ENV_OPTIONS_INIT;
  options.log_level = LAKE_LOG_WARN;
  options.log = log_line;
  lake_status bad_level = log_level(&options.log_level, &err);
  lake_status status = lake_env_open(&options, &cli.env, &err);
  if (status == LAKE_OK) status = bad_level;
  if (status == LAKE_OK) status = run(&cli, argc, argv, &err);
  lki_cli_progress_end(&cli);
  errno = 0;
  bool out_failed = fflush(stdout) != 0 || ferror(stdout) != 0;
  int code = errno;
  if (status != LAKE_OK) {
    report_failure(&cli, status, &err);
    (void)fflush(stdout);
  } else if (out_failed && !reader_gone()) {
    /* Which error it was is only known if it came last. */
    fprintf(stderr, "lake %s: writing to stdout: %s; the output is cut short\n", cli.command != NULL ? cli.command : "",
            code != 0 ? strerror(code) : "no room, or an error, on the way");
    status = LAKE_UNAVAILABLE;
  }
  lake_env_close(cli.env);
  if (cli.signal != 0) { /* so that a shell or a supervisor sees what happened */
    (void)signal(cli.signal, SIG_DFL);
    (void)raise(cli.signal);
  }
  return lki_exit_code(status);
}
