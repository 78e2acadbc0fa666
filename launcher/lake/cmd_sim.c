/* lake sim: commit policies on a simulated store, hours in seconds. */
#include "cli.h"
#include "sim/figures.h"
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: lake sim [OPTIONS]\n"
    "Runs the library's own producers on a simulated object store and a virtual clock, once a policy, and prints what\n"
    "each achieves. Equal options and seed give equal figures.\n\n"
    "  --policy P,P,...      of dac carry naive fixed10 fixed100 incr aimd (dac,carry)\n"
    "  --producers N         processes that append (32)\n"
    "  --hours H             virtual hours that are counted (1)\n"
    "  --warmup SECONDS      virtual time before that (300)\n"
    "  --tgb-bytes B         size of a TGB (1000000)\n"
    "  --rate R              TGBs a second of each producer; 0: as fast as it can write (0.5)\n"
    "  --latency-ms L        one store operation without its bytes (60)\n"
    "  --bandwidth-mb-s M    of one connection (100)\n"
    "  --jitter J            an operation takes 1 to 1+J times as long (0.5)\n"
    "  --epsilon E           DAC's conflict budget (0.05)\n"
    "  --full-list           the paper's system: write and commit in one loop, manifests that list every TGB\n"
    "  --entry-bytes B       what a listed TGB adds to such a manifest (2: a TGB of equal slices in the format here)\n"
    "  --seed N              (1)\n"
    "  --json                one JSON document on stdout\n"
    "  --help                this text\n";

enum { POLICY = 1, PRODUCERS, HOURS, WARMUP, TGB_BYTES, RATE, LATENCY, BANDWIDTH, JITTER, EPSILON, FULL_LIST, ENTRY_BYTES, SEED };

static const struct option options_table[] = {
    {"policy", required_argument, NULL, POLICY},       {"producers", required_argument, NULL, PRODUCERS},
    {"hours", required_argument, NULL, HOURS},         {"warmup", required_argument, NULL, WARMUP},
    {"tgb-bytes", required_argument, NULL, TGB_BYTES}, {"rate", required_argument, NULL, RATE},
    {"latency-ms", required_argument, NULL, LATENCY},  {"bandwidth-mb-s", required_argument, NULL, BANDWIDTH},
    {"jitter", required_argument, NULL, JITTER},       {"epsilon", required_argument, NULL, EPSILON},
    {"full-list", no_argument, NULL, FULL_LIST},       {"entry-bytes", required_argument, NULL, ENTRY_BYTES},
    {"seed", required_argument, NULL, SEED},           LKI_CLI_OPTIONS};

static const struct {
  const char *name;
  lake_commit_policy policy;
} policies[] = {{"dac", LAKE_POLICY_DAC},         {"carry", LAKE_POLICY_CARRY},     {"naive", LAKE_POLICY_NAIVE},
                {"fixed10", LAKE_POLICY_FIXED10}, {"fixed100", LAKE_POLICY_FIXED100}, {"incr", LAKE_POLICY_INCR},
                {"aimd", LAKE_POLICY_AIMD}};
#define POLICY_COUNT (sizeof policies / sizeof policies[0])

static lake_status take_option(int option, const char *value, lki_figures_options *o, const char **list,
                               lake_error *err) {
  switch (option) {
  case POLICY: *list = value; return LAKE_OK;
  case PRODUCERS: return lki_cli_u32(value, "--producers", 1, 4096, &o->producers, err);
  case HOURS: return lki_cli_number(value, "--hours", 0.001, 60, &o->hours, err);
  case WARMUP: return lki_cli_number(value, "--warmup", 0, 1e6, &o->warmup_s, err);
  case TGB_BYTES: return lki_cli_u64(value, "--tgb-bytes", 1, UINT64_MAX / 2, &o->tgb_bytes, err);
  case RATE: return lki_cli_number(value, "--rate", 0, 1e6, &o->rate, err);
  case LATENCY: return lki_cli_number(value, "--latency-ms", 0.001, 1e6, &o->latency_ms, err);
  case BANDWIDTH: return lki_cli_number(value, "--bandwidth-mb-s", 0.001, 1e9, &o->bandwidth_mb_s, err);
  case JITTER: return lki_cli_number(value, "--jitter", 0, 100, &o->jitter, err);
  case EPSILON: return lki_cli_number(value, "--epsilon", 0.0001, 0.9999, &o->epsilon, err);
  case FULL_LIST: o->full_list = true; return LAKE_OK;
  case ENTRY_BYTES: return lki_cli_u64(value, "--entry-bytes", 1, 1000000, &o->entry_bytes, err);
  case SEED: return lki_cli_u64(value, "--seed", 0, UINT64_MAX, &o->seed, err);
  }
  return LAKE_INTERNAL;
}

/* The next name of a list with commas; *list moves on. */
static lake_status take_policy(const char **list, size_t *index, lake_error *err) {
  const size_t n = strcspn(*list, ",");
  for (size_t i = 0; i < POLICY_COUNT; i++) {
    if (strlen(policies[i].name) != n || strncmp(policies[i].name, *list, n) != 0) continue;
    *index = i;
    *list += n + ((*list)[n] == ',');
    return LAKE_OK;
  }
  return lki_fail(err, LAKE_INVALID, "--policy: '%.*s' is none of dac carry naive fixed10 fixed100 incr aimd", (int)n,
                  *list);
}

static void add_figures(lki_json *parent, const char *name, const lki_figures *f) {
  lki_json *j = lki_json_add_object(parent, NULL);
  lki_json_add_string(j, "policy", name);
  lki_json_add_u64(j, "attempts", f->attempts);
  lki_json_add_u64(j, "commits", f->commits);
  lki_json_add_number(j, "success_pct", f->success_pct);
  lki_json_add_number(j, "ingest_mb_s", f->ingest_mb_s);
  lki_json_add_number(j, "ingest_first_hour_mb_s", f->ingest_first_hour_mb_s);
  lki_json_add_number(j, "ingest_last_hour_mb_s", f->ingest_last_hour_mb_s);
  lki_json_add_number(j, "visible_p50_s", f->visible_p50_s);
  lki_json_add_number(j, "visible_p95_s", f->visible_p95_s);
  lki_json_add_number(j, "manifest_bytes_first", f->manifest_bytes_first);
  lki_json_add_number(j, "manifest_bytes_last", f->manifest_bytes_last);
  lki_json *requests = lki_json_add_object(j, "requests");
  lki_json_add_u64(requests, "get", f->counts.get);
  lki_json_add_u64(requests, "put", f->counts.put);
  lki_json_add_u64(requests, "put_if_absent", f->counts.put_if_absent);
  lki_json_add_u64(requests, "head", f->counts.head);
  lki_json_add_u64(requests, "list", f->counts.list);
  lki_json_add_u64(requests, "remove", f->counts.remove);
  lki_json_add_number(j, "cpu_s", f->cpu_s);
}

static void print_figures(const char *name, const lki_figures *f) {
  printf("%-9s %9llu %9llu %7.1f%% %10.1f %9.1f %9.1f %9.2f %9.2f %11.0f %11.0f %7.1f\n", name,
         (unsigned long long)f->attempts, (unsigned long long)f->commits, f->success_pct, f->ingest_mb_s,
         f->ingest_first_hour_mb_s, f->ingest_last_hour_mb_s, f->visible_p50_s, f->visible_p95_s,
         f->manifest_bytes_first, f->manifest_bytes_last, f->cpu_s);
  fflush(stdout);
}

lake_status lki_cmd_sim(lki_cli *cli, int argc, char **argv, lake_error *err) {
  lki_figures_options o = {.seed = 1, .producers = 32, .hours = 1, .warmup_s = 300, .tgb_bytes = 1000000, .rate = 0.5,
                           .latency_ms = 60, .bandwidth_mb_s = 100, .jitter = 0.5, .entry_bytes = 2};
  const char *list = "dac,carry";
  int option;
  while ((option = lki_cli_option(cli, argc, argv, options_table, usage, err)) > 0) {
    lake_status s = take_option(option, optarg, &o, &list, err);
    if (s != LAKE_OK) return s;
  }
  if (option < 0) return cli->done ? LAKE_OK : LAKE_INVALID;
  lake_status s = lki_cli_words(argc, 0, 0, "no further word", err);
  lki_json *json = cli->json ? lki_json_new_object() : NULL;
  lki_json *array = lki_json_add_array(json, "policies");
  if (!cli->json)
    printf("policy     attempts   commits  success   MB/s all   1st hour last hour   p50 s     p95 s  manifest B   at the end   cpu s\n");
  while (s == LAKE_OK && *list != 0) {
    size_t i = 0;
    lki_figures f;
    s = take_policy(&list, &i, err);
    if (s != LAKE_OK) break;
    o.policy = policies[i].policy;
    lki_cli_progress(cli, "simulating %s", policies[i].name);
    s = lki_figures_run(&o, &f, err);
    if (s == LAKE_OK && cli->json)
      add_figures(array, policies[i].name, &f);
    else if (s == LAKE_OK)
      print_figures(policies[i].name, &f);
  }
  if (s == LAKE_OK && cli->json) return lki_cli_print(cli, json, err);
  lki_json_free(json);
  return s;
}
