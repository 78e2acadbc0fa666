/* What every command of `lake` shares: the context of one invocation, option parsing, output.
 *
 * Data goes to stdout, all else to stderr. With --json stdout holds exactly one JSON document, on failure too.
 * One thread, but for warnings, which any thread may give. */
#ifndef LKI_LAUNCHER_CLI_H
#define LKI_LAUNCHER_CLI_H

#include "base/error.h"
#include "base/json.h"
#include <getopt.h>
#include <lakestream/lakestream.h>
#include <signal.h>

typedef struct lki_cli {
  lake_env *env;
  const char *command; /* "ls"; NULL before one is known */
  bool json;           /* --json */
  uint64_t timeout_ms; /* --timeout */
  bool done;           /* --help was answered: the command returns OK at once */
  bool reported;       /* the JSON document is on stdout, verdict included */
  bool progress;       /* stderr is a terminal */
  uint64_t progress_at_ns;
  bool progress_open;  /* a progress line stands unfinished */
  sigset_t signals;    /* held back, for a command that has to clean up */
  int signal;          /* the one that came; the program ends by it once its line is said */
} lki_cli;

/* A command's own options end with LKI_CLI_OPTIONS. Values of its own options are 1 .. 99. */
#define LKI_CLI_HELP 1000
#define LKI_CLI_JSON 1001
#define LKI_CLI_TIMEOUT 1002
#define LKI_CLI_OPTIONS                                                                                               \
  {"help", no_argument, NULL, LKI_CLI_HELP}, {"json", no_argument, NULL, LKI_CLI_JSON},                                \
      {"timeout", required_argument, NULL, LKI_CLI_TIMEOUT}, {NULL, 0, NULL, 0}
#define LKI_CLI_USAGE                                                                                                 \
  "  --timeout SECONDS     longest wait for the store without progress (60)\n"                                         \
  "  --json                one JSON document on stdout\n"                                                              \
  "  --help                this text\n"

typedef lake_status lki_cli_command_fn(lki_cli *cli, int argc, char **argv, lake_error *err);
lki_cli_command_fn lki_cmd_init, lki_cmd_feed, lki_cmd_ls, lki_cmd_inspect, lki_cmd_verify, lki_cmd_seal,
    lki_cmd_export, lki_cmd_reclaim, lki_cmd_sim, lki_cmd_doctor;

/* The next option's value, 0 at the end, -1 on a wrong one (err is filled) or when --help was answered (cli->done). */
int lki_cli_option(lki_cli *cli, int argc, char **argv, const struct option *options, const char *usage,
                   lake_error *err);
/* After the options: exactly or at least `min` and at most `max` words are left at argv[optind]. */
lake_status lki_cli_words(int argc, int min, int max, const char *what, lake_error *err);
/* The name among `names` (NULL-terminated) that a mistyped word is close to, or NULL. */
const char *lki_cli_close_name(const char *word, const char *const *names);

/* Refuses a URL of which nothing would be left, or is there, when this process ends. */
lake_status lki_cli_url(const char *url, lake_error *err);
lake_deadline lki_cli_deadline(const lki_cli *cli);
lake_status lki_cli_u64(const char *text, const char *option, uint64_t min, uint64_t max, uint64_t *out,
                        lake_error *err);
lake_status lki_cli_u32(const char *text, const char *option, uint32_t min, uint32_t max, uint32_t *out,
                        lake_error *err);
lake_status lki_cli_number(const char *text, const char *option, double min, double max, double *out, lake_error *err);
lake_status lki_cli_mesh(const char *text, lake_mesh *out, lake_error *err); /* "DxC" or "D" */

/* Prints a tree to stdout and frees it; a NULL tree is NOMEM. */
lake_status lki_cli_print(lki_cli *cli, lki_json *json, lake_error *err);
/* The same on one line and without counting as the report: an element of a streamed array. */
lake_status lki_cli_print_element(lki_cli *cli, lki_json *json, bool first, lake_error *err);
/* A document whose last member streams: open prints the tree without its closing brace and frees it; close prints the
 * error of a status that is not OK, and the brace, and returns that status. */
lake_status lki_cli_print_open(lki_cli *cli, lki_json *json, lake_error *err);
lake_status lki_cli_print_close(lki_cli *cli, lake_status status, lake_error *err);
/* Holds back INT, TERM and HUP, before any other thread starts; signal says whether one came (its number) or not (0).
 * The program ends by that signal when main returns, and a second one is not held back. */
void lki_cli_block_signals(lki_cli *cli);
int lki_cli_signal(lki_cli *cli);
bool lki_cli_stdout_gone(void); /* nobody reads any more: stop early */
void lki_cli_warn(lki_cli *cli, const char *format, ...) LAKE_PRINTF(2, 3);
/* At most twice a second, on a terminal only. */
void lki_cli_progress(lki_cli *cli, const char *format, ...) LAKE_PRINTF(2, 3);
void lki_cli_progress_end(lki_cli *cli);
/* Where a store was refused for what it does not keep: the error's advice ends with how to go on all the same. */
void lki_cli_other_way(lake_status status, const char *way, lake_error *err);
/* Fills the object that stands under "error". */
void lki_cli_error_members(lki_json *json, lake_status status, const lake_error *err);

/* What a namespace is, as JSON members of parent. */
void lki_cli_namespace_json(lki_json *parent, const lake_namespace_info *info);

#endif
