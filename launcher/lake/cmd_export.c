/* lake export: the command around export_hdf5.c. */
#include "cli.h"
#ifdef LAKE_HDF5
#include "export_hdf5.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#endif

static const char usage[] =
    "usage: lake export [OPTIONS] URL OUT.h5\n"
    "Writes a range of steps into an HDF5 file that describes itself: a dataset [step, d, c, row, ...] for each tensor,\n"
    "and for each step its number, producer, epoch and seq. Raw slices become byte strings of varying length.\n\n"
    "  --from STEP           first step (the first live one)\n"
    "  --to STEP             end before this step (the end)\n"
    "  --tensors A,B         only these tensors (all)\n"
    "  --force               replace an existing file\n" LKI_CLI_USAGE;

enum { FROM = 1, TO, TENSORS, FORCE };

static const struct option options_table[] = {
    {"from", required_argument, NULL, FROM},       {"to", required_argument, NULL, TO},
    {"tensors", required_argument, NULL, TENSORS}, {"force", no_argument, NULL, FORCE},
    LKI_CLI_OPTIONS,
};

typedef struct arguments {
  uint64_t from, to;
  bool from_given, to_given, force;
  const char *tensors;
} arguments;

static lake_status take(arguments *a, int option, const char *value, lake_error *err) {
  switch (option) {
  case FROM: a->from_given = true; return lki_cli_u64(value, "--from", 0, UINT64_MAX, &a->from, err);
  case TO: a->to_given = true; return lki_cli_u64(value, "--to", 0, UINT64_MAX, &a->to, err);
  case TENSORS: a->tensors = value; return LAKE_OK;
  case FORCE: a->force = true; return LAKE_OK;
  default: return lki_fail(err, LAKE_INTERNAL, "option %d is not handled", option);
  }
}

#ifdef LAKE_HDF5
static lake_status choose_tensors(const lki_schema *schema, const char *list, uint64_t *set, lake_error *err) {
  *set = 0;
  for (uint32_t i = 0; list == NULL && i < schema->tensor_count; i++) *set |= (uint64_t)1 << i;
  for (const char *p = list; p != NULL;) {
    size_t n = strcspn(p, ",");
    uint32_t i = 0;
    while (i < schema->tensor_count &&
           (strlen(schema->tensors[i].name) != n || strncmp(schema->tensors[i].name, p, n) != 0))
      i++;
    if (i == schema->tensor_count)
      return lki_fail(err, LAKE_INVALID, "--tensors: the namespace has no tensor '%.*s'", (int)n, p);
    *set |= (uint64_t)1 << i;
    p = p[n] == ',' ? p + n + 1 : NULL;
  }
  return LAKE_OK;
}

static lake_status choose_steps(const arguments *a, lki_export_request *r, lake_error *err) {
  const lki_manifest *m = r->manifest;
  r->from = a->from_given ? a->from : m->first_live_step;
  r->to = a->to_given ? a->to : m->next_step;
  if (r->from < m->first_live_step)
    return lki_fail(err, LAKE_RECLAIMED, "--from %" PRIu64 ": steps before %" PRIu64 " were reclaimed", r->from,
                    m->first_live_step);
  if (r->to > m->next_step)
    return lki_fail(err, LAKE_INVALID, "--to %" PRIu64 ": only %" PRIu64 " steps are committed", r->to, m->next_step);
  if (r->from > r->to)
    return lki_fail(err, LAKE_INVALID, "steps %" PRIu64 " to %" PRIu64 ": that range is empty", r->from, r->to);
  return LAKE_OK;
}

static lake_status run(lki_cli *cli, const arguments *a, const char *url, const char *path, lake_error *err) {
  lki_export_request r = {.path = path, .force = a->force};
  lki_export_result result = {0, 0};
  lki_manifest *manifest = NULL;
  lki_cli_block_signals(cli);
  lake_status s = lake_namespace_open(cli->env, url, lki_cli_deadline(cli), &r.ns, err);
  if (s == LAKE_OK) s = lki_log_refresh(r.ns->log, lki_cli_deadline(cli), NULL, err);
  if (s == LAKE_OK) {
    r.manifest = manifest = lki_log_view(r.ns->log);
    s = choose_tensors(r.ns->schema, a->tensors, &r.tensor_set, err);
  }
  if (s == LAKE_OK) s = choose_steps(a, &r, err);
  if (s == LAKE_OK) s = lki_export_hdf5(cli, &r, &result, err);
  lki_cli_progress_end(cli);
  if (s == LAKE_OK && cli->json) {
    lki_json *json = lki_json_new_object();
    lki_json_add_string(json, "url", lki_store_url(r.ns->store));
    lki_json_add_string(json, "path", path);
    lki_json_add_u64(json, "from", r.from);
    lki_json_add_u64(json, "to", r.to);
    lki_json_add_u64(json, "step_count", result.step_count);
    lki_json_add_u64(json, "bytes", result.file_bytes);
    s = lki_cli_print(cli, json, err);
  } else if (s == LAKE_OK) {
    printf("exported %" PRIu64 " step%s of %s to %s (%" PRIu64 " bytes)\n", result.step_count,
           result.step_count == 1 ? "" : "s", lki_store_url(r.ns->store), path, result.file_bytes);
  }
  lki_manifest_release(manifest);
  lake_namespace_close(r.ns);
  return s;
}
#else
static lake_status run(lki_cli *cli, const arguments *a, const char *url, const char *path, lake_error *err) {
  (void)cli, (void)a, (void)url, (void)path;
  return lki_fail(err, LAKE_UNSUPPORTED, "this lake was built without HDF5; build it with -DLAKE_HDF5=ON");
}
#endif

lake_status lki_cmd_export(lki_cli *cli, int argc, char **argv, lake_error *err) {
  arguments a = {0};
  int option;
  lake_status s = LAKE_OK;
  while (s == LAKE_OK && (option = lki_cli_option(cli, argc, argv, options_table, usage, err)) != 0) {
    if (option < 0) return cli->done ? LAKE_OK : LAKE_INVALID;
    s = take(&a, option, optarg, err);
  }
  if (s == LAKE_OK) s = lki_cli_words(argc, 2, 2, "a URL and the name of the HDF5 file", err);
  if (s == LAKE_OK) s = lki_cli_url(argv[optind], err);
  return s == LAKE_OK ? run(cli, &a, argv[optind], argv[optind + 1], err) : s;
}
