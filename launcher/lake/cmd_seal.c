/* lake seal: end a stream. */
#include "cli.h"
#include <stdio.h>

static const char usage[] = "usage: lake seal [OPTIONS] URL\n"
                            "Ends the stream: nothing is appended afterwards, and every reader ends at the same last step.\n"
                            "Sealing a sealed stream is fine.\n\n" LKI_CLI_USAGE;

static const struct option options_table[] = {LKI_CLI_OPTIONS};

lake_status lki_cmd_seal(lki_cli *cli, int argc, char **argv, lake_error *err) {
  if (lki_cli_option(cli, argc, argv, options_table, usage, err) != 0) return cli->done ? LAKE_OK : LAKE_INVALID;
  lake_status s = lki_cli_words(argc, 1, 1, "the URL of a namespace", err);
  if (s != LAKE_OK) return s;
  s = lki_cli_url(argv[optind], err);
  if (s != LAKE_OK) return s;
  lake_namespace *ns = NULL;
  uint64_t step_count = 0;
  s = lake_namespace_open(cli->env, argv[optind], lki_cli_deadline(cli), &ns, err);
  if (s != LAKE_OK) return s;
  s = lake_namespace_seal(ns, lki_cli_deadline(cli), &step_count, err);
  lake_namespace_info info;
  lake_namespace_info_get(ns, &info);
  if (s == LAKE_OK && cli->json) {
    lki_json *json = lki_json_new_object();
    lki_json_add_string(json, "url", info.url);
    lki_json_add_bool(json, "sealed", true);
    lki_json_add_u64(json, "step_count", step_count);
    s = lki_cli_print(cli, json, err);
  } else if (s == LAKE_OK) {
    printf("sealed %s at %llu step%s\n", info.url, (unsigned long long)step_count, step_count == 1 ? "" : "s");
  }
  lake_namespace_close(ns);
  return s;
}
