/* Option parsing and output of `lake`. The state is lki_cli and what getopt keeps. */
#include "cli.h"
#include "base/buffer.h"
#include "base/env.h"
#include "exit.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BYTES_MAX 32
#define JSON_OUT_BYTES_MAX ((size_t)1 << 30)

/* Edits (insert, delete, change) between two short words. */
static size_t edit_distance(const char *a, const char *b) {
  size_t row[WORD_BYTES_MAX + 1], n = strlen(a), m = strlen(b);
  if (n > WORD_BYTES_MAX || m > WORD_BYTES_MAX) return WORD_BYTES_MAX;
  for (size_t j = 0; j <= m; j++) row[j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= m; j++) {
      size_t best = diagonal + (a[i - 1] != b[j - 1]);
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row[m];
}

const char *lki_cli_close_name(const char *word, const char *const *names) {
  const char *best = NULL;
  size_t best_distance = 3;
  for (; *names != NULL; names++) {
    size_t distance = edit_distance(word, *names);
    if (distance < best_distance && distance < strlen(*names)) {
      best = *names;
      best_distance = distance;
    }
  }
  return best;
}

static lake_status unknown_option(const lki_cli *cli, const char *given, const struct option *options, lake_error *err) {
  char word[WORD_BYTES_MAX + 1] = "";
  const char *names[64];
  size_t count = 0;
  if (strncmp(given, "--", 2) == 0) snprintf(word, sizeof word, "%.*s", (int)strcspn(given + 2, "="), given + 2);
  for (; options->name != NULL && count < 63; options++) names[count++] = options->name;
  names[count] = NULL;
  const char *close = *word ? lki_cli_close_name(word, names) : NULL;
  if (close != NULL)
    return lki_fail(err, LAKE_INVALID, "unknown option '%s'; did you mean '--%s'?", given, close);
  return lki_fail(err, LAKE_INVALID, "unknown option '%s'; see lake %s --help", given, cli->command);
}

int lki_cli_option(lki_cli *cli, int argc, char **argv, const struct option *options, const char *usage,
                   lake_error *err) {
  for (;;) {
    opterr = 0;
    int before = optind == 0 ? 1 : optind;
    int value = getopt_long(argc, argv, ":", options, NULL);
    const char *given = optind > 0 && optind <= argc ? argv[optind - 1] : "";
    double seconds = 0;
    switch (value) {
    case -1: return 0;
    case LKI_CLI_HELP:
      fputs(usage, stdout);
      cli->done = true;
      return -1;
    case LKI_CLI_JSON: cli->json = true; break;
    case LKI_CLI_TIMEOUT:
      if (lki_cli_number(optarg, "--timeout", 0, 1e9, &seconds, err) != LAKE_OK) return -1;
      cli->timeout_ms = (uint64_t)(seconds * 1000);
      break;
    case ':':
      lki_fail(err, LAKE_INVALID, "option '%s' wants a value; see lake %s --help", given, cli->command);
      return -1;
    case '?':
      /* A short option leaves optind where it was when more letters follow it. */
      if (strncmp(given, "--", 2) != 0 && before < argc && argv[before][0] == '-') given = argv[before];
      if (optopt != 0 && strncmp(given, "--", 2) == 0)
        lki_fail(err, LAKE_INVALID, "option '%s' takes no value", given);
      else
        (void)unknown_option(cli, given, options, err);
      return -1;
    default: return value;
    }
  }
}

lake_status lki_cli_words(int argc, int min, int max, const char *what, lake_error *err) {
  int left = argc - optind;
  if (left < min) return lki_fail(err, LAKE_INVALID, "%s is missing", what);
  if (left > max) return lki_fail(err, LAKE_INVALID, "too many words; expected %s", what);
  return LAKE_OK;
}

lake_status lki_cli_url(const char *url, lake_error *err) {
  if (strncmp(url, "mem:", 4) != 0) return LAKE_OK;
  return lki_fail(err, LAKE_INVALID, "%s: a mem: store lives and ends with one process, so a command has no use for it; "
                  "write file:FOLDER", url);
}

lake_deadline lki_cli_deadline(const lki_cli *cli) { return lake_deadline_after_ms(cli->env, cli->timeout_ms); }

lake_status lki_cli_u64(const char *text, const char *option, uint64_t min, uint64_t max, uint64_t *out,
                        lake_error *err) {
  char *end = NULL;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != 0 || errno != 0 || value < min || value > max)
    return lki_fail(err, LAKE_INVALID, "%s %s: a whole number from %llu to %llu is wanted", option, text,
                    (unsigned long long)min, (unsigned long long)max);
  *out = value;
  return LAKE_OK;
}

lake_status lki_cli_u32(const char *text, const char *option, uint32_t min, uint32_t max, uint32_t *out,
                        lake_error *err) {
  uint64_t value = 0;
  lake_status s = lki_cli_u64(text, option, min, max, &value, err);
  if (s == LAKE_OK) *out = (uint32_t)value;
  return s;
}

lake_status lki_cli_number(const char *text, const char *option, double min, double max, double *out, lake_error *err) {
  char *end = NULL;
  errno = 0;
  double value = strtod(text, &end);
  if (end == text || *end != 0 || !isfinite(value) || value < min || value > max)
    return lki_fail(err, LAKE_INVALID, "%s %s: a number from %g to %g is wanted", option, text, min, max);
  *out = value;
  return LAKE_OK;
}

lake_status lki_cli_mesh(const char *text, lake_mesh *out, lake_error *err) {
  char *end = NULL;
  unsigned long d = text[0] >= '1' && text[0] <= '9' ? strtoul(text, &end, 10) : 0, c = 1;
  if (d > 0 && *end == 'x') c = end[1] >= '1' && end[1] <= '9' ? strtoul(end + 1, &end, 10) : 0;
  if (d == 0 || c == 0 || *end != 0 || d > LAKE_MESH_MAX || c > LAKE_MESH_MAX || d * c > LAKE_MESH_MAX)
    return lki_fail(err, LAKE_INVALID, "--mesh %s: write DxC, such as 4x2; at most %d positions in all", text,
                    LAKE_MESH_MAX);
  *out = (lake_mesh){(uint32_t)d, (uint32_t)c};
  return LAKE_OK;
}

typedef enum print_style { PRETTY, PLAIN, HEAD } print_style;

static lake_status print_tree(lki_cli *cli, lki_json *json, print_style style, lake_error *err) {
  if (json == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory while building JSON");
  lake_buffer text;
  lki_buffer_init(&text, cli->env, JSON_OUT_BYTES_MAX);
  lake_status s = lki_json_print(json, style == PRETTY, &text, err);
  if (s == LAKE_OK) fwrite(text.data, 1, style == HEAD ? text.bytes - 1 : text.bytes, stdout);
  lki_buffer_free(&text);
  lki_json_free(json);
  return s;
}

lake_status lki_cli_print(lki_cli *cli, lki_json *json, lake_error *err) {
  lake_status s = print_tree(cli, json, PRETTY, err);
  if (s == LAKE_OK) cli->reported = true;
  return s;
}

lake_status lki_cli_print_element(lki_cli *cli, lki_json *json, bool first, lake_error *err) {
  if (json != NULL) fputs(first ? "\n  " : ",\n  ", stdout);
  return print_tree(cli, json, PLAIN, err);
}

lake_status lki_cli_print_open(lki_cli *cli, lki_json *json, lake_error *err) {
  lake_status s = print_tree(cli, json, HEAD, err);
  if (s == LAKE_OK) cli->reported = true;
  return s;
}

lake_status lki_cli_print_close(lki_cli *cli, lake_status status, lake_error *err) {
  if (status != LAKE_OK) {
    lki_json *json = lki_json_new_object();
    fputs(", \"error\": ", stdout);
    lki_cli_error_members(json, status, err);
    (void)print_tree(cli, json, PLAIN, NULL);
  }
  fputs("}\n", stdout);
  return status;
}

void lki_cli_block_signals(lki_cli *cli) {
  const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  sigemptyset(&cli->signals);
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    struct sigaction action;
    /* Whoever started this may want some ignored, as nohup does. */
    if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&cli->signals, numbers[i]);
  }
  (void)sigprocmask(SIG_BLOCK, &cli->signals, NULL);
}

int lki_cli_signal(lki_cli *cli) {
  if (cli->signal != 0) return cli->signal;
  const struct timespec now = {0, 0};
  const int number = sigtimedwait(&cli->signals, NULL, &now);
  if (number <= 0) return 0;
  cli->signal = number;
  (void)sigprocmask(SIG_UNBLOCK, &cli->signals, NULL);
  return number;
}

bool lki_cli_stdout_gone(void) { return ferror(stdout) != 0; }

void lki_cli_progress_end(lki_cli *cli) {
  if (cli->progress_open) fputs("\r\033[K", stderr);
  cli->progress_open = false;
}

void lki_cli_warn(lki_cli *cli, const char *format, ...) {
  char text[600];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "%slake %s: warning: %s\n", cli->progress_open ? "\r\033[K" : "", cli->command, text);
}

void lki_cli_progress(lki_cli *cli, const char *format, ...) {
  if (!cli->progress) return;
  uint64_t now = lki_now_ns(cli->env);
  if (now < cli->progress_at_ns) return;
  cli->progress_at_ns = now + 500000000u;
  char text[200];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "\r\033[K%s", text);
  fflush(stderr);
  cli->progress_open = true;
}

void lki_cli_other_way(lake_status status, const char *way, lake_error *err) {
  if (status != LAKE_UNSUPPORTED || strstr(err->text, "is no store for Lakestream") == NULL) return;
  /* The library's own advice is the last clause: this becomes a part of it, and must not be what is cut off. */
  char *advice = strstr(err->text, "; use another store (lake doctor tells more)");
  size_t used = advice != NULL ? (size_t)(advice - err->text) : strlen(err->text);
  char tail[200];
  int bytes = snprintf(tail, sizeof tail, "; use another store (lake doctor tells more), or %s (man lake)", way);
  if (bytes < 0 || (size_t)bytes >= sizeof tail) return;
  if (used + (size_t)bytes >= sizeof err->text) used = sizeof err->text - (size_t)bytes - 1;
  memcpy(err->text + used, tail, (size_t)bytes + 1);
}

void lki_cli_error_members(lki_json *json, lake_status status, const lake_error *err) {
  int code = lki_exit_code(status);
  lki_json_add_string(json, "status", lake_status_name(status));
  lki_json_add_string(json, "class", lki_exit_class(code));
  lki_json_add_number(json, "exit_code", code);
  lki_json_add_string(json, "text", err->text);
}

void lki_cli_namespace_json(lki_json *parent, const lake_namespace_info *info) {
  lki_json *ns = lki_json_add_object(parent, "namespace");
  lki_json_add_string(ns, "url", info->url);
  lki_json_add_string(ns, "uuid", info->uuid);
  lki_json *mesh = lki_json_add_object(ns, "mesh");
  lki_json_add_number(mesh, "d", info->mesh.d_count);
  lki_json_add_number(mesh, "c", info->mesh.c_count);
  lki_json_add_number(ns, "rows_per_slice", info->rows_per_slice);
  lki_json_add_u64(ns, "slice_bytes", info->slice_bytes);
  lki_json_add_string(ns, "codec", info->codec == LAKE_CODEC_ZSTD ? "zstd" : "none");
  lki_json_add_number(ns, "tail_max", info->tail_max);
  lki_json_add_number(ns, "version_block", info->version_block);
  lki_json *tensors = lki_json_add_array(ns, "tensors");
  for (uint32_t i = 0; i < info->tensor_count; i++) {
    lki_json *tensor = lki_json_add_object(tensors, NULL);
    lki_json_add_string(tensor, "name", info->tensors[i].name);
    lki_json_add_string(tensor, "dtype", lake_dtype_name(info->tensors[i].dtype));
    lki_json *shape = lki_json_add_array(tensor, "shape");
    for (uint32_t k = 0; k < info->tensors[i].rank; k++) lki_json_add_u64(shape, NULL, info->tensors[i].shape[k]);
  }
  lki_json_add_string(ns, "note", info->note);
}
