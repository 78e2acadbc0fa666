/* lake doctor: which settings and credentials are used for a store, where each came from, and whether the store keeps
 * what commits rest on. Writes below doctor/ at the URL and cleans up, also after a signal. Never shows a secret. */
#include "base/env.h"
#include "cli.h"
#include "client/proof.h"
#include "store/credentials.h"
#include "store/http.h"
#include "store/settings.h"
#include "store/uri.h"
#include <dirent.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SKEW_WARN_S 60
#define FEW_COUNT 60 /* listed where no page ends before the full count: folders, and Azure with its 5,000 a page */

static const char usage[] =
    "usage: lake doctor [OPTIONS] URL\n"
    "Tells which settings and credentials are used for a store and where they come from, then checks that the store\n"
    "keeps what Lakestream rests on: a name is created once, by one of many racers, over two connections; ranges,\n"
    "listings and removal are right. Writes some objects below doctor/ at URL, and removes them, with what checks of more\n"
    "than a day ago, which were killed, have left there.\n"
    "A store that fails is refused with exit code 9.\n\n"
    "  --force               a store that fails is only warned of\n" LKI_CLI_USAGE;

enum { FORCE = 1 };

static const struct option options_table[] = {{"force", no_argument, NULL, FORCE}, LKI_CLI_OPTIONS};

typedef struct doctor {
  lki_cli *cli;
  const char *url;
  bool force;
  bool local; /* a store of our own: no settings, no credentials */
  lki_json *json;
  lki_settings settings;
  lki_http *http;
  lki_credentials_chain *chain;
} doctor;

/* ---- what is used ---- */

static void say_settings(doctor *d) {
  lki_json *list = lki_json_add_array(d->json, "settings");
  for (size_t i = 0; i < d->settings.shown_count; i++) {
    const lki_setting *s = &d->settings.shown[i];
    lki_json *item = lki_json_add_object(list, NULL);
    lki_json_add_string(item, "name", s->name);
    lki_json_add_string(item, "value", s->value);
    lki_json_add_string(item, "source", s->source);
    if (!d->cli->json) printf("  %-16s %-44s %s\n", s->name, s->value, s->source);
  }
}

static lake_status say_credentials(doctor *d, lake_error *err) {
  const lki_credentials *credentials = NULL;
  lake_status s = lki_credentials_get(d->chain, NULL, lki_cli_deadline(d->cli), &credentials, err);
  if (s != LAKE_OK) return s;
  lki_json_add_string(d->json, "credentials", credentials->source);
  if (!d->cli->json) printf("  %-16s %s\n", "credentials", credentials->source);
  lki_credentials_release(d->chain, credentials);
  return LAKE_OK;
}

/* Any answer tells the server's time. That there is none is for the check itself to find out. */
static void say_clock(doctor *d) {
  lki_http_reply *reply = calloc(1, sizeof *reply);
  lki_http_request request = {.method = "GET", .url = d->settings.endpoint, .deadline = lki_cli_deadline(d->cli)};
  if (reply != NULL && lki_http_do(d->http, &request, reply, NULL) == LAKE_OK && reply->date_s != 0) {
    const int64_t ahead_s = reply->date_s - (int64_t)(lki_wall_ns(d->cli->env) / 1000000000);
    lki_json_add_number(d->json, "clock_ahead_s", (double)ahead_s);
    if (!d->cli->json && ahead_s == 0) printf("  %-16s the server's agrees with ours\n", "clock");
    if (!d->cli->json && ahead_s != 0)
      printf("  %-16s the server's is %" PRId64 " s %s ours\n", "clock", ahead_s < 0 ? -ahead_s : ahead_s, ahead_s < 0 ? "behind" : "ahead of");
    if (ahead_s >= SKEW_WARN_S || ahead_s <= -SKEW_WARN_S)
      lki_cli_warn(d->cli, "this machine's clock and the server's differ by %" PRId64 " s: signatures may be refused; set the clock",
                   ahead_s < 0 ? -ahead_s : ahead_s);
  }
  free(reply);
}

static lake_status say_all(doctor *d, lake_error *err) {
  lki_http_options options = {.ca_file = d->settings.ca_file};
  lake_status s = lki_http_open(d->cli->env, &options, &d->http, err);
  if (s == LAKE_OK) s = lki_credentials_open(d->cli->env, &d->settings, d->http, &d->chain, err);
  if (s != LAKE_OK) return s;
  say_settings(d);
  (void)fflush(stdout);
  s = say_credentials(d, err);
  if (s == LAKE_OK) say_clock(d);
  return s;
}

/* ---- what the store does ---- */

static void say_report(doctor *d, const lki_proof_report *report) {
  static const char *const results[] = {"ok", "failed", "skipped", "unknown", "warn"};
  lki_json *list = lki_json_add_array(d->json, "checks");
  for (uint32_t i = 0; i < report->check_count; i++) {
    const lki_proof_check *c = &report->checks[i];
    lki_json *item = lki_json_add_object(list, NULL);
    lki_json_add_string(item, "name", c->name);
    lki_json_add_string(item, "result", results[c->result]);
    lki_json_add_string(item, "text", c->text);
    if (!d->cli->json) printf("  %-8s %-7s %s\n", c->name, results[c->result], c->text);
  }
  if (report->get_ns > 0) {
    lki_json *latency = lki_json_add_object(d->json, "latency_ns");
    lki_json_add_u64(latency, "get", report->get_ns);
    lki_json_add_u64(latency, "put", report->put_ns);
  }
  if (report->get_bytes_per_s > 0) {
    lki_json *bandwidth = lki_json_add_object(d->json, "bytes_per_second");
    lki_json_add_u64(bandwidth, "get", report->get_bytes_per_s);
    lki_json_add_u64(bandwidth, "put", report->put_bytes_per_s);
  }
  lki_json_add_u64(d->json, "left_count", report->left_count);
  lki_json_add_u64(d->json, "old_count", report->old_count);
  if (!d->cli->json && report->old_count > 0)
    printf("  removed %" PRIu64 " objects below " LKI_PROOF_PREFIX " that earlier checks, which were killed, had left\n", report->old_count);
}

static int remove_folder(const char *path, const struct stat *info, int kind, struct FTW *at) {
  (void)info, (void)at;
  if (kind == FTW_DP) (void)rmdir(path);
  return 0;
}

/* A store on disk keeps the folders of objects that are gone: these are of no use to anyone. One that is not empty stays. */
static void remove_folders(const char *url, const char *prefix) {
  char path[PATH_MAX];
  if (strncmp(url, "file:", 5) != 0 || snprintf(path, sizeof path, "%s/%s", url + 5, prefix) >= (int)sizeof path) return;
  (void)nftw(path, remove_folder, 16, FTW_DEPTH | FTW_PHYS);
}

/* Also those of old runs, whose objects are gone by now. */
static void remove_all_folders(lake_env *env, const char *url, const char *prefix) {
  char path[PATH_MAX], run[sizeof LKI_PROOF_PREFIX + 300];
  remove_folders(url, prefix);
  if (strncmp(url, "file:", 5) != 0 || snprintf(path, sizeof path, "%s/" LKI_PROOF_PREFIX, url + 5) >= (int)sizeof path) return;
  DIR *folder = opendir(path);
  for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
    snprintf(run, sizeof run, LKI_PROOF_PREFIX "%s/", e->d_name);
    if (lki_proof_run_is_old(env, run)) remove_folders(url, run);
  }
  if (folder != NULL) (void)closedir(folder);
  (void)rmdir(path); /* stays while another check runs */
}

/* The table has the whole text already. */
static void be_short(const doctor *d, const lki_proof_report *report, lake_error *err) {
  for (uint32_t i = 0; i < report->check_count; i++) {
    const lki_proof_check *c = &report->checks[i];
    if (err->status == LAKE_UNSUPPORTED && c->result == LKI_PROOF_FAILED) {
      lki_fail(err, err->status, "%.300s is no store for Lakestream: see \"%s\" above; use another store", d->url, c->name);
      return;
    }
    if (err->status != LAKE_UNSUPPORTED && err->status != LAKE_CANCELED && c->result == LKI_PROOF_SKIPPED) {
      lki_fail(err, err->status, "%.300s: the check \"%s\" could not be carried out: see above", d->url, c->name);
      return;
    }
  }
}

static bool signalled(void *ctx) {
  return lki_cli_signal(ctx) != 0;
}

static lake_status prove(doctor *d, lake_error *err) {
  lake_store *a = NULL, *b = NULL;
  lki_proof_report report = {0};
  lki_proof_options options = lki_proof_full;
  const lake_deadline never = {LKI_NEVER}; /* each request has its own */
  lake_status s = lake_store_open(d->cli->env, d->url, &a, err);
  if (s == LAKE_OK) s = lake_store_open(d->cli->env, d->url, &b, err);
  if (s == LAKE_OK) {
    if (d->local || d->settings.cloud == LKI_CLOUD_AZURE) options.list_count = FEW_COUNT;
    options.request_ms = d->cli->timeout_ms > 0 ? d->cli->timeout_ms : 1;
    options.stop = signalled;
    options.ctx = d->cli;
    s = lki_store_prove(a, b, &options, &report, never, err);
    say_report(d, &report);
    if (s != LAKE_OK && !d->cli->json) be_short(d, &report, err);
    remove_all_folders(d->cli->env, d->url, report.prefix);
  }
  lake_store_close(b);
  lake_store_close(a);
  return s;
}

/* ---- the command ---- */

static lake_status examine(doctor *d, lake_error *err) {
  lake_status s = LAKE_OK;
  lki_json_add_string(d->json, "url", d->url);
  if (!d->cli->json) printf("%s\n", d->url);
  if (!d->local) s = lki_settings_open(d->cli->env, d->url, &d->settings, err);
  if (s != LAKE_OK) return s;
  if (!d->local) s = say_all(d, err);
  if (s == LAKE_OK) s = prove(d, err);
  lki_credentials_close(d->chain);
  lki_http_close(d->http);
  if (!d->local) lki_settings_close(&d->settings);
  return s;
}

static lake_status conclude(doctor *d, lake_status s, const lake_error *cause, lake_error *err) {
  const bool forced = s == LAKE_UNSUPPORTED && d->force;
  lki_json_add_string(d->json, "verdict", s == LAKE_OK ? "ok" : forced ? "forced" : s == LAKE_UNSUPPORTED ? "refused" : "unknown");
  (void)fflush(stdout); /* in a pipe, too, the table comes before what is said of it */
  if (forced) lki_cli_warn(d->cli, "%s; forced: what is committed there may be lost", cause->text);
  if (s != LAKE_OK && !forced) {
    lki_cli_error_members(lki_json_add_object(d->json, "error"), s, cause);
    lki_error_copy(err, cause);
  }
  if (!d->cli->json && s == LAKE_OK) printf("this store keeps what Lakestream needs\n");
  if (forced) s = LAKE_OK;
  if (!d->cli->json) return s;
  const lake_status printed = lki_cli_print(d->cli, d->json, s == LAKE_OK ? err : NULL);
  d->json = NULL;
  return s == LAKE_OK ? printed : s;
}

lake_status lki_cmd_doctor(lki_cli *cli, int argc, char **argv, lake_error *err) {
  doctor d = {.cli = cli};
  int option;
  while ((option = lki_cli_option(cli, argc, argv, options_table, usage, err)) != 0) {
    if (option < 0) return cli->done ? LAKE_OK : LAKE_INVALID;
    if (option == FORCE) d.force = true;
  }
  lake_error cause = LAKE_ERROR_INIT;
  char *url = NULL;
  lake_status s = lki_cli_words(argc, 1, 1, "the URL of a store or namespace", err);
  if (s == LAKE_OK) s = lki_uri_canonical(cli->env, argv[optind], &url, err);
  if (s != LAKE_OK) return s;
  lki_cli_block_signals(cli);
  d.url = url;
  d.local = !lki_proof_wanted(url);
  d.json = lki_json_new_object();
  if (d.json != NULL) {
    s = examine(&d, &cause);
    s = conclude(&d, s, &cause, err);
  } else {
    s = lki_fail(err, LAKE_NOMEM, "out of memory while building JSON");
  }
  lki_json_free(d.json);
  lki_free(cli->env, url);
  return s;
}
