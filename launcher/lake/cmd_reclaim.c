/* lake reclaim: delete what no checkpoint needs. A call of the library that ran into its deadline but got on is
 * followed by the next, so that --timeout bounds the wait without progress and not the work. */
#include "cli.h"
#include <inttypes.h>
#include <lakestream/reclaim.h>
#include <stdio.h>

static const char usage[] =
    "usage: lake reclaim [OPTIONS] URL\n"
    "Deletes what no pin needs: everything below the lowest pin of all groups, what losers and crashed producers left,\n"
    "and old manifest versions. Without a pin no committed step is deleted.\n\n"
    "  --dry-run             delete nothing, say what would be deleted\n"
    "  --before STEP         trim at most up to this step, also without any pin (the lowest pin)\n" LKI_CLI_USAGE;

enum { DRY_RUN = 1, BEFORE };

static const struct option options_table[] = {
    {"dry-run", no_argument, NULL, DRY_RUN}, {"before", required_argument, NULL, BEFORE}, LKI_CLI_OPTIONS};

static uint64_t deleted_count(const lake_reclaim_report *r) {
  return r->tgb_count + r->segment_count + r->announcement_count + r->manifest_count + r->upload_count;
}

static void add(lake_reclaim_report *sum, const lake_reclaim_report *r) {
  lake_reclaim_report last = *r; /* what is seen is the last call's; what was deleted adds up */
  last.tgb_count += sum->tgb_count;
  last.tgb_bytes += sum->tgb_bytes;
  last.segment_count += sum->segment_count;
  last.segment_bytes += sum->segment_bytes;
  last.manifest_count += sum->manifest_count;
  last.manifest_bytes += sum->manifest_bytes;
  last.announcement_count += sum->announcement_count;
  last.announcement_bytes += sum->announcement_bytes;
  last.upload_count += sum->upload_count;
  *sum = last;
}

static lake_status reclaim(lki_cli *cli, lake_namespace *ns, const lake_reclaim_options *o, lake_reclaim_report *sum,
                           lake_error *err) {
  for (;;) { /* each turn deletes something, or is the last */
    lake_reclaim_report r = {0};
    lake_status s = lake_reclaim(ns, o, lki_cli_deadline(cli), &r, err);
    add(sum, &r);
    if (s != LAKE_TIMEOUT || o->dry_run != 0 || deleted_count(&r) == 0) return s;
    lki_cli_progress(cli, "reclaim: %" PRIu64 " objects deleted", deleted_count(sum));
  }
}

static lake_status print_json(lki_cli *cli, const char *url, bool dry_run, const lake_reclaim_report *r, lake_error *err) {
  lki_json *json = lki_json_new_object();
  lki_json_add_string(json, "url", url);
  lki_json_add_bool(json, "dry_run", dry_run);
  lki_json_add_u64(json, "version", r->version);
  lki_json_add_u64(json, "first_live_step", r->first_live_step);
  lki_json_add_u64(json, "next_step", r->next_step);
  lki_json_add_u64(json, "pin_count", r->pin_count);
  if (r->pin_count > 0) lki_json_add_u64(json, "pinned_step", r->pinned_step);
  lki_json_add_u64(json, "void_pin_count", r->void_pin_count);
  const struct {
    const char *name;
    uint64_t count, bytes;
  } kinds[] = {{"tgbs", r->tgb_count, r->tgb_bytes},
               {"segments", r->segment_count, r->segment_bytes},
               {"manifests", r->manifest_count, r->manifest_bytes},
               {"announcements", r->announcement_count, r->announcement_bytes},
               {"in_flight", r->in_flight_count, r->in_flight_bytes}};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    lki_json *kind = lki_json_add_object(json, kinds[i].name);
    lki_json_add_u64(kind, "count", kinds[i].count);
    lki_json_add_u64(kind, "bytes", kinds[i].bytes);
  }
  lki_json_add_u64(json, "upload_count", r->upload_count);
  if (r->upload_error.status != LAKE_OK)
    lki_cli_error_members(lki_json_add_object(json, "upload_error"), r->upload_error.status, &r->upload_error);
  lki_json_add_u64(json, "unknown_count", r->unknown_count);
  return lki_cli_print(cli, json, err);
}

static void print_text(const char *url, bool dry_run, const lake_reclaim_report *r) {
  const char *verb = dry_run ? "would delete" : "deleted";
  printf("%s  version %" PRIu64 "  steps %" PRIu64 "..%" PRIu64 "  pins %" PRIu64, url, r->version, r->first_live_step,
         r->next_step, r->pin_count);
  if (r->pin_count > 0) printf(", the lowest at step %" PRIu64, r->pinned_step);
  printf("\n%s %" PRIu64 " TGBs (%" PRIu64 " bytes), %" PRIu64 " segments (%" PRIu64 " bytes), %" PRIu64
         " manifests (%" PRIu64 " bytes)\n",
         verb, r->tgb_count, r->tgb_bytes, r->segment_count, r->segment_bytes, r->manifest_count, r->manifest_bytes);
  if (r->announcement_count > 0)
    printf("%s %" PRIu64 " announcements of TGBs (%" PRIu64 " bytes)\n", verb, r->announcement_count, r->announcement_bytes);
  if (r->upload_count > 0) printf("%s the parts of %" PRIu64 " unfinished uploads\n", verb, r->upload_count);
  if (r->upload_error.status != LAKE_OK)
    printf("left unfinished uploads in parts alone, as far as there are any: %s\n", r->upload_error.text);
  printf("kept %" PRIu64 " that may yet be committed (%" PRIu64 " bytes)\n", r->in_flight_count, r->in_flight_bytes);
}

static lake_status say(lki_cli *cli, const char *url, bool dry_run, const lake_reclaim_report *report,
                       lake_error *err) {
  if (report->void_pin_count > 0)
    lki_cli_warn(cli, "%" PRIu64 " pins lie below the first live step and hold nothing; see lake ls --pins",
                 report->void_pin_count);
  if (report->unknown_count > 0)
    lki_cli_warn(cli, "%" PRIu64 " objects have names that are not Lakestream's; they were left alone",
                 report->unknown_count);
  if (cli->json) return print_json(cli, url, dry_run, report, err);
  print_text(url, dry_run, report);
  return LAKE_OK;
}

static lake_status take(int option, const char *value, lake_reclaim_options *o, lake_error *err) {
  switch (option) {
  case DRY_RUN: o->dry_run = 1; return LAKE_OK;
  case BEFORE: return lki_cli_u64(value, "--before", 1, UINT64_MAX, &o->before_step, err);
  default: return lki_fail(err, LAKE_INTERNAL, "option %d is not handled", option);
  }
}

lake_status lki_cmd_reclaim(lki_cli *cli, int argc, char **argv, lake_error *err) {
  lake_reclaim_options o = LAKE_RECLAIM_OPTIONS_INIT;
  int option;
  lake_status s = LAKE_OK;
  while (s == LAKE_OK && (option = lki_cli_option(cli, argc, argv, options_table, usage, err)) != 0) {
    if (option < 0) return cli->done ? LAKE_OK : LAKE_INVALID;
    s = take(option, optarg, &o, err);
  }
  if (s == LAKE_OK) s = lki_cli_words(argc, 1, 1, "the URL of a namespace", err);
  if (s == LAKE_OK) s = lki_cli_url(argv[optind], err);
  if (s != LAKE_OK) return s;
  lake_namespace *ns = NULL;
  s = lake_namespace_open(cli->env, argv[optind], lki_cli_deadline(cli), &ns, err);
  if (s != LAKE_OK) return s;
  lake_reclaim_report report = {0};
  s = reclaim(cli, ns, &o, &report, err);
  lki_cli_progress_end(cli);
  lake_namespace_info info;
  lake_namespace_info_get(ns, &info);
  if (s == LAKE_OK) s = say(cli, info.url, o.dry_run != 0, &report, err);
  lake_namespace_close(ns);
  return s;
}
