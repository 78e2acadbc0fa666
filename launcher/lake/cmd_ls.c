/* lake ls: steps, producers, versions of a namespace. Output streams, so that a long history needs little memory. */
#include "cli.h"
#include "client/pin.h"
#include "format/names.h"
#include "inspect_json.h"
#include "walk.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char usage[] = "usage: lake ls [OPTIONS] URL\n"
                            "Lists the committed steps of a namespace, one a line.\n\n"
                            "  --from STEP           first step (the first live one)\n"
                            "  --to STEP             end before this step (the end)\n"
                            "  --limit N             at most N lines (no limit)\n"
                            "  --producers           list the producers instead\n"
                            "  --versions            list the manifest versions there are instead\n"
                            "  --pins                list the pins of all groups instead\n" LKI_CLI_USAGE;

enum { FROM = 1, TO, LIMIT, PRODUCERS, VERSIONS, PINS };

static const struct option options_table[] = {
    {"from", required_argument, NULL, FROM},     {"to", required_argument, NULL, TO},
    {"limit", required_argument, NULL, LIMIT},   {"producers", no_argument, NULL, PRODUCERS},
    {"versions", no_argument, NULL, VERSIONS},   {"pins", no_argument, NULL, PINS},
    LKI_CLI_OPTIONS,
};

typedef struct listing {
  lki_cli *cli;
  lake_namespace *ns;
  lki_manifest *manifest;
  uint64_t from, to, limit;
  bool producers, versions, pins;
  uint64_t line_count;
} listing;

static lake_status print_step(void *ctx, const lki_walk_step *step, lake_error *err) {
  listing *l = ctx;
  const lki_descriptor *d = step->descriptor;
  if (l->line_count == l->limit || lki_cli_stdout_gone()) return LAKE_CANCELED; /* enough: ends the walk */
  bool first = l->line_count++ == 0;
  if (!l->cli->json) {
    printf("%10" PRIu64 "  %-24s %5" PRIu64 " %10" PRIu64 " %12" PRIu64 " %6" PRIu32 "  %s\n", step->step,
           step->producer_id, d->epoch, d->seq, d->object_bytes, d->slice_count, lki_layout_name(d->layout));
    return LAKE_OK;
  }
  lki_json *json = lki_json_new_object();
  lki_inspect_descriptor(json, step->step, step->producer_id, d);
  return lki_cli_print_element(l->cli, json, first, err);
}

/* That a range holds nothing is no fault, but whoever asked for one may have expected something. */
static void note_nothing(const listing *l) {
  const lki_manifest *m = l->manifest;
  if (l->line_count > 0 || l->limit == 0 || (l->from == 0 && l->to == UINT64_MAX)) return;
  char to[24] = "";
  if (l->to != UINT64_MAX) snprintf(to, sizeof to, "%" PRIu64, l->to);
  fprintf(stderr, "lake ls: no committed step in %" PRIu64 "..%s; ", l->from, to);
  if (m->next_step == m->first_live_step)
    fprintf(stderr, "there is none at all\n");
  else
    fprintf(stderr, "the live steps are %" PRIu64 "..%" PRIu64 "\n", m->first_live_step, m->next_step);
}

static lake_status print_steps(listing *l, lake_error *err) {
  if (l->cli->json)
    fputs(", \"steps\": [", stdout);
  else
    printf("%10s  %-24s %5s %10s %12s %6s  %s\n", "step", "producer", "epoch", "seq", "bytes", "slices", "layout");
  lki_walk_visitor visitor = {.ctx = l, .step = print_step, .timeout_ms = l->cli->timeout_ms};
  lake_status s = lki_walk(l->ns, l->manifest, l->from, l->to, &visitor, err);
  if (l->cli->json) fputs(l->line_count > 0 ? "\n]" : "]", stdout);
  if (s == LAKE_OK) note_nothing(l);
  return s == LAKE_CANCELED ? LAKE_OK : s;
}

static lake_status print_producer(listing *l, const lki_producer_entry *p, bool first, lake_error *err) {
  if (!l->cli->json) {
    printf("%-24s %5" PRIu64 " %10" PRIu64 " %12" PRIu64 " %10" PRIu64 "  %-7s  %s\n", p->id, p->epoch, p->next_seq,
           p->offset, p->last_version, p->retired ? "retired" : "open", p->owner);
    return LAKE_OK;
  }
  lki_json *json = lki_json_new_object();
  lki_inspect_producer(json, p);
  return lki_cli_print_element(l->cli, json, first, err);
}

static lake_status print_producers(listing *l, lake_error *err) {
  if (l->cli->json)
    fputs(", \"producers\": [", stdout);
  else
    printf("%-24s %5s %10s %12s %10s  %-7s  %s\n", "producer", "epoch", "next seq", "offset", "version", "state", "owner");
  lake_status s = LAKE_OK;
  for (uint32_t i = 0; s == LAKE_OK && i < l->manifest->producer_count && i < l->limit; i++)
    s = print_producer(l, &l->manifest->producers[i], i == 0, err);
  if (l->cli->json) fputs(l->manifest->producer_count > 0 ? "\n]" : "]", stdout);
  return s;
}

static bool print_version(void *ctx, const char *key, uint64_t object_bytes) {
  listing *l = ctx;
  uint64_t version = 0;
  if (!lki_name_manifest_parse(key, &version)) return true; /* the hint */
  if (l->line_count == l->limit || lki_cli_stdout_gone()) return false;
  bool first = l->line_count++ == 0;
  if (!l->cli->json) {
    printf("%10" PRIu64 " %12" PRIu64 "  %s\n", version, object_bytes, key);
    return true;
  }
  lki_json *json = lki_json_new_object();
  lki_json_add_u64(json, "version", version);
  lki_json_add_u64(json, "bytes", object_bytes);
  lki_json_add_string(json, "key", key);
  return lki_cli_print_element(l->cli, json, first, NULL) == LAKE_OK;
}

static lake_status print_versions(listing *l, lake_error *err) {
  if (l->cli->json)
    fputs(", \"versions\": [", stdout);
  else
    printf("%10s %12s  %s\n", "version", "bytes", "object");
  lake_status s = lki_store_list(l->ns->store, LKI_NAME_MANIFEST_PREFIX, NULL, print_version, l,
                                 lki_cli_deadline(l->cli), err);
  if (l->cli->json) fputs(l->line_count > 0 ? "\n]" : "]", stdout);
  return s;
}

static lake_status print_pin(void *ctx, const char *key, const lki_pin *pin, lake_error *err) {
  listing *l = ctx;
  if (l->line_count == l->limit || lki_cli_stdout_gone()) return LAKE_CANCELED; /* enough: ends the visit */
  const char *group = key + strlen(LKI_NAME_PIN_PREFIX), *slash = strchr(group, '/');
  const int group_bytes = slash != NULL ? (int)(slash - group) : 0;
  const char *checkpoint = slash != NULL ? slash + 1 : group;
  const size_t bytes = strlen(checkpoint);
  const int checkpoint_bytes = (int)(bytes > 5 && strcmp(checkpoint + bytes - 5, ".json") == 0 ? bytes - 5 : bytes);
  const bool holds = pin->step >= l->manifest->first_live_step, first = l->line_count++ == 0;
  if (!l->cli->json) {
    printf("%10" PRIu64 " %12" PRIu64 "  %-5s  %-16.*s  %.*s\n", pin->step, pin->row, holds ? "holds" : "void", group_bytes,
           group, checkpoint_bytes, checkpoint);
    return LAKE_OK;
  }
  char text[LKI_NAME_BYTES];
  lki_json *json = lki_json_new_object();
  snprintf(text, sizeof text, "%.*s", group_bytes, group);
  lki_json_add_string(json, "group", text);
  snprintf(text, sizeof text, "%.*s", checkpoint_bytes, checkpoint);
  lki_json_add_string(json, "checkpoint", text);
  lki_json_add_u64(json, "step", pin->step);
  lki_json_add_u64(json, "row", pin->row);
  lki_json_add_bool(json, "holds", holds);
  return lki_cli_print_element(l->cli, json, first, err);
}

static lake_status print_pins(listing *l, lake_error *err) {
  if (l->cli->json)
    fputs(", \"pins\": [", stdout);
  else
    printf("%10s %12s  %-5s  %-16s  %s\n", "step", "row", "state", "group", "checkpoint");
  lake_status s = lki_pin_visit(l->ns, print_pin, l, lki_cli_deadline(l->cli), err);
  if (l->cli->json) fputs(l->line_count > 0 ? "\n]" : "]", stdout);
  return s == LAKE_CANCELED ? LAKE_OK : s;
}

/* What stands before the list. In JSON the object is left open for it. */
static lake_status print_head(listing *l, lake_error *err) {
  lake_namespace_info info;
  lake_namespace_info_get(l->ns, &info);
  const lki_manifest *m = l->manifest;
  if (!l->cli->json) {
    printf("%s  version %" PRIu64 "  steps %" PRIu64 "..%" PRIu64 "  %s  mesh %ux%u  producers %u  segments %u\n",
           info.url, m->version, m->first_live_step, m->next_step, m->sealed ? "sealed" : "open", info.mesh.d_count,
           info.mesh.c_count, m->producer_count, m->segment_count);
    return LAKE_OK;
  }
  lki_json *json = lki_json_new_object();
  lki_cli_namespace_json(json, &info);
  lki_json_add_u64(json, "version", m->version);
  lki_json_add_u64(json, "first_live_step", m->first_live_step);
  lki_json_add_u64(json, "next_step", m->next_step);
  lki_json_add_bool(json, "sealed", m->sealed);
  lki_json_add_number(json, "producer_count", m->producer_count);
  lki_json_add_number(json, "segment_count", m->segment_count);
  lki_json_add_number(json, "quarantine_count", m->quarantine_count);
  return lki_cli_print_open(l->cli, json, err);
}

static lake_status list(listing *l, lake_error *err) {
  lake_status s = print_head(l, err);
  if (s != LAKE_OK) return s;
  s = l->producers  ? print_producers(l, err)
      : l->versions ? print_versions(l, err)
      : l->pins     ? print_pins(l, err)
                    : print_steps(l, err);
  if (l->cli->json) return lki_cli_print_close(l->cli, s, err);
  return s;
}

static lake_status take(listing *l, int option, const char *value, lake_error *err) {
  switch (option) {
  case FROM: return lki_cli_u64(value, "--from", 0, UINT64_MAX, &l->from, err);
  case TO: return lki_cli_u64(value, "--to", 0, UINT64_MAX, &l->to, err);
  case LIMIT: return lki_cli_u64(value, "--limit", 0, UINT64_MAX, &l->limit, err);
  case PRODUCERS: l->producers = true; return LAKE_OK;
  case VERSIONS: l->versions = true; return LAKE_OK;
  case PINS: l->pins = true; return LAKE_OK;
  default: return lki_fail(err, LAKE_INTERNAL, "option %d is not handled", option);
  }
}

lake_status lki_cmd_ls(lki_cli *cli, int argc, char **argv, lake_error *err) {
  listing l = {.cli = cli, .to = UINT64_MAX, .limit = UINT64_MAX};
  int option;
  lake_status s = LAKE_OK;
  while (s == LAKE_OK && (option = lki_cli_option(cli, argc, argv, options_table, usage, err)) != 0) {
    if (option < 0) return cli->done ? LAKE_OK : LAKE_INVALID;
    s = take(&l, option, optarg, err);
  }
  if (s == LAKE_OK) s = lki_cli_words(argc, 1, 1, "the URL of a namespace", err);
  if (s == LAKE_OK) s = lki_cli_url(argv[optind], err);
  if (s == LAKE_OK && l.producers + l.versions + l.pins > 1)
    s = lki_fail(err, LAKE_INVALID, "--producers, --versions and --pins: choose one");
  if (s == LAKE_OK) s = lake_namespace_open(cli->env, argv[optind], lki_cli_deadline(cli), &l.ns, err);
  if (s == LAKE_OK) s = lki_log_refresh(l.ns->log, lki_cli_deadline(cli), NULL, err);
  if (s == LAKE_OK) {
    l.manifest = lki_log_view(l.ns->log);
    s = list(&l, err);
  }
  lki_manifest_release(l.manifest);
  lake_namespace_close(l.ns);
  return s;
}
