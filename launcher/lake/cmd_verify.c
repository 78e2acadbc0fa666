/* lake verify: the command around verify.c. */
#include "cli.h"
#include "verify.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: lake verify [OPTIONS] URL\n"
    "Reads a namespace and checks it: the newest manifest and the one before it, that no version is missing, all\n"
    "segments, every TGB's footer and the checksum of every slice, and that each producer's TGBs are in the stream once,\n"
    "in order and without a gap.\n"
    "Exit code 6 if anything is at fault; each fault is one line: what is at fault, what was found, what it means.\n\n"
    "  --from STEP           first step (the first live one)\n"
    "  --to STEP             end before this step (the end)\n"
    "  --fast                read footers only, not the slices\n"
    "  --chain N|all         manifest versions before the newest to check (1)\n"
    "  --jobs N              TGBs read at once (4)\n" LKI_CLI_USAGE;

enum { FROM = 1, TO, FAST, CHAIN, JOBS };

static const struct option options_table[] = {
    {"from", required_argument, NULL, FROM},   {"to", required_argument, NULL, TO},
    {"fast", no_argument, NULL, FAST},         {"chain", required_argument, NULL, CHAIN},
    {"jobs", required_argument, NULL, JOBS},   LKI_CLI_OPTIONS,
};

#define FAULTS_IN_JSON_MAX 10000

typedef struct report {
  lki_cli *cli;
  lki_json *json, *faults;
  uint64_t count;
} report;

static void on_fault(void *ctx, const lki_verify_fault *fault) {
  report *r = ctx;
  if (!r->cli->json) {
    lki_cli_progress_end(r->cli);
    printf("fault: %s %s: %s; %s\n", fault->kind, fault->object, fault->text, fault->means);
    return;
  }
  if (r->count++ >= FAULTS_IN_JSON_MAX) return;
  lki_json *json = lki_json_add_object(r->faults, NULL);
  lki_json_add_string(json, "kind", fault->kind);
  lki_json_add_string(json, "object", fault->object);
  lki_json_add_string(json, "text", fault->text);
  lki_json_add_string(json, "means", fault->means);
}

static lake_status print_result(report *r, lake_namespace *ns, const lki_verify_result *v, lake_error *err) {
  lake_namespace_info info;
  lake_namespace_info_get(ns, &info);
  if (!r->cli->json) {
    const struct {
      uint64_t count;
      const char *noun;
    } parts[] = {{v->step_count, "step"}, {v->manifest_count, "manifest"}, {v->segment_count, "segment"},
                 {v->tgb_count, "TGB"},   {v->slice_count, "slice"}};
    printf("%s: version %" PRIu64 ", ", info.url, v->version);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
      printf("%" PRIu64 " %s%s, ", parts[i].count, parts[i].noun, parts[i].count == 1 ? "" : "s");
    printf("%" PRIu64 " bytes read: ", v->read_bytes);
    if (v->fault_count == 0)
      printf("no fault\n");
    else
      printf("%" PRIu64 " fault%s\n", v->fault_count, v->fault_count == 1 ? "" : "s");
    return LAKE_OK;
  }
  lki_json_add_string(r->json, "url", info.url);
  lki_json_add_string(r->json, "uuid", info.uuid);
  lki_json_add_u64(r->json, "version", v->version);
  lki_json_add_u64(r->json, "step_count", v->step_count);
  lki_json_add_u64(r->json, "manifest_count", v->manifest_count);
  lki_json_add_u64(r->json, "segment_count", v->segment_count);
  lki_json_add_u64(r->json, "tgb_count", v->tgb_count);
  lki_json_add_u64(r->json, "slice_count", v->slice_count);
  lki_json_add_u64(r->json, "quarantined_count", v->quarantined_count);
  lki_json_add_u64(r->json, "read_bytes", v->read_bytes);
  lki_json_add_u64(r->json, "fault_count", v->fault_count);
  lki_json_add_bool(r->json, "ok", v->fault_count == 0);
  lki_json *json = r->json;
  r->json = NULL;
  return lki_cli_print(r->cli, json, err);
}

static lake_status take(lki_verify_options *o, int option, const char *value, lake_error *err) {
  switch (option) {
  case FROM: return lki_cli_u64(value, "--from", 0, UINT64_MAX, &o->from, err);
  case TO: return lki_cli_u64(value, "--to", 0, UINT64_MAX, &o->to, err);
  case FAST: o->fast = true; return LAKE_OK;
  case CHAIN:
    o->chain = UINT64_MAX;
    if (strcmp(value, "all") == 0 || lki_cli_u64(value, "--chain", 0, UINT64_MAX, &o->chain, NULL) == LAKE_OK)
      return LAKE_OK;
    return lki_fail(err, LAKE_INVALID, "--chain %s: 'all' or a whole number is wanted", value);
  case JOBS: return lki_cli_u32(value, "--jobs", 1, LKI_VERIFY_JOBS_MAX, &o->jobs, err);
  default: return lki_fail(err, LAKE_INTERNAL, "option %d is not handled", option);
  }
}

lake_status lki_cmd_verify(lki_cli *cli, int argc, char **argv, lake_error *err) {
  lki_verify_options o = {.to = UINT64_MAX, .chain = 1, .jobs = 4};
  lki_verify_result result;
  report r = {.cli = cli};
  lake_namespace *ns = NULL;
  int option;
  lake_status s = LAKE_OK;
  while (s == LAKE_OK && (option = lki_cli_option(cli, argc, argv, options_table, usage, err)) != 0) {
    if (option < 0) return cli->done ? LAKE_OK : LAKE_INVALID;
    s = take(&o, option, optarg, err);
  }
  if (s == LAKE_OK) s = lki_cli_words(argc, 1, 1, "the URL of a namespace", err);
  if (s == LAKE_OK) s = lki_cli_url(argv[optind], err);
  if (s != LAKE_OK) return s;
  r.json = lki_json_new_object();
  r.faults = lki_json_add_array(r.json, "faults");
  s = lake_namespace_open(cli->env, argv[optind], lki_cli_deadline(cli), &ns, err);
  if (s == LAKE_OK) s = lki_verify(cli, ns, &o, on_fault, &r, &result, err);
  lki_cli_progress_end(cli);
  if (s == LAKE_OK) s = print_result(&r, ns, &result, err);
  if (s == LAKE_OK && result.fault_count > 0)
    s = lki_fail(err, LAKE_CORRUPT, "%" PRIu64 " fault%s in %s", result.fault_count, result.fault_count == 1 ? "" : "s",
                 argv[optind]);
  lki_json_free(r.json);
  lake_namespace_close(ns);
  return s;
}
