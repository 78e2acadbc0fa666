/* lake feed: producers. The only kind so far is text. */
#include "cli.h"
#include "feed/input.h"
#include "feed/pack.h"
#include "feed/text.h"
#include "schema_text.h"
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: lake feed text [OPTIONS] URL INPUT...\n"
    "Packs text into batches and publishes them. An INPUT is a file or a folder, walked in byte order; FILE.jsonl holds\n"
    "one document a line, any other file is one document; either may be gzip-compressed (.gz). Started again with the\n"
    "same --id it goes on exactly where it stopped. SIGTERM, SIGINT and SIGUSR1 drain: what is appended is committed,\n"
    "the rest is left to the next start.\n\n"
    "  --id NAME             stable name of this producer (needed)\n"
    "  --index I --count N   take the documents whose number is I modulo N (0, 1)\n"
    "  --seq-len S           tokens in a sequence (the namespace's)\n"
    "  --rows R              sequences a slice (the namespace's)\n"
    "  --create              create the namespace if there is none: with --seq-len, --rows, --mesh DxC, --codec\n"
    "  --mesh DxC            data-parallel replicas by context-parallel ranks (the namespace's, or 1x1)\n"
    "  --codec none|zstd     where --create creates (none)\n"
    "  --field NAME          member of a JSON line that holds the text (text)\n"
    "  --invalid skip|replace  documents that are not UTF-8: leave out, or put U+FFFD for each bad byte (skip)\n"
    "  --document-max BYTES  longer documents are left out (1073741824)\n"
    "  --tail pad|drop       the last, partly filled TGB (pad)\n"
    "  --epochs N            passes over the input; 0: for ever (1)\n"
    "  --rate TGBS           at most so many TGBs a second\n"
    "  --limit-tgbs N        stop after N TGBs of this run\n"
    "  --max-tgbs N          stop when this id has fed N TGBs in all\n"
    "  --stats-file FILE     append the summary as a JSON line\n" LKI_CLI_USAGE;

enum { ID = 1, INDEX, COUNT, SEQ_LEN, ROWS, CREATE, MESH, CODEC, FIELD, INVALID_TEXT, DOCUMENT_MAX, TAIL, EPOCHS, RATE,
       LIMIT_TGBS, MAX_TGBS, STATS_FILE };

static const struct option options_table[] = {
    {"id", required_argument, NULL, ID},
    {"index", required_argument, NULL, INDEX},
    {"count", required_argument, NULL, COUNT},
    {"seq-len", required_argument, NULL, SEQ_LEN},
    {"rows", required_argument, NULL, ROWS},
    {"create", no_argument, NULL, CREATE},
    {"mesh", required_argument, NULL, MESH},
    {"codec", required_argument, NULL, CODEC},
    {"field", required_argument, NULL, FIELD},
    {"invalid", required_argument, NULL, INVALID_TEXT},
    {"document-max", required_argument, NULL, DOCUMENT_MAX},
    {"tail", required_argument, NULL, TAIL},
    {"epochs", required_argument, NULL, EPOCHS},
    {"rate", required_argument, NULL, RATE},
    {"limit-tgbs", required_argument, NULL, LIMIT_TGBS},
    {"max-tgbs", required_argument, NULL, MAX_TGBS},
    {"stats-file", required_argument, NULL, STATS_FILE},
    LKI_CLI_OPTIONS,
};

/* One of two words; *second: it was the second. */
static lake_status take_choice(const char *value, const char *option, const char *a, const char *b, bool *second,
                               lake_error *err) {
  if (strcmp(value, a) != 0 && strcmp(value, b) != 0)
    return lki_fail(err, LAKE_INVALID, "%s %s: choose %s or %s", option, value, a, b);
  *second = strcmp(value, b) == 0;
  return LAKE_OK;
}

static lake_status take(lki_feed_text_options *o, int option, const char *value, lake_error *err) {
  switch (option) {
  case ID: o->id = value; return LAKE_OK;
  case INDEX: return lki_cli_u64(value, "--index", 0, UINT32_MAX, &o->index, err);
  case COUNT: return lki_cli_u64(value, "--count", 1, UINT32_MAX, &o->count, err);
  case SEQ_LEN: return lki_cli_u32(value, "--seq-len", 1, LKI_SEQ_LEN_MAX, &o->seq_len, err);
  case ROWS: return lki_cli_u32(value, "--rows", 1, UINT32_MAX, &o->rows, err);
  case CREATE: o->create = true; return LAKE_OK;
  case MESH: return lki_cli_mesh(value, &o->mesh, err);
  case CODEC: return lki_schema_text_codec(value, &o->codec, err);
  case FIELD: o->field = value; return LAKE_OK;
  case INVALID_TEXT: return take_choice(value, "--invalid", "skip", "replace", &o->invalid_replace, err);
  case DOCUMENT_MAX:
    return lki_cli_u64(value, "--document-max", 1, LKI_INPUT_DOCUMENT_BYTES_MAX, &o->document_bytes_max, err);
  case TAIL: return take_choice(value, "--tail", "pad", "drop", &o->tail_drop, err);
  case EPOCHS: return lki_cli_u64(value, "--epochs", 0, UINT32_MAX, &o->pass_count, err);
  case RATE: return lki_cli_number(value, "--rate", 0, 1e9, &o->rate, err);
  case LIMIT_TGBS: return lki_cli_u64(value, "--limit-tgbs", 1, UINT64_MAX, &o->limit_tgb_count, err);
  case MAX_TGBS: return lki_cli_u64(value, "--max-tgbs", 1, UINT64_MAX, &o->max_tgb_count, err);
  case STATS_FILE: o->stats_path = value; return LAKE_OK;
  default: return lki_fail(err, LAKE_INTERNAL, "option %d is not handled", option);
  }
}

lake_status lki_cmd_feed(lki_cli *cli, int argc, char **argv, lake_error *err) {
  lki_feed_text_options o = {.count = 1, .pass_count = 1, .document_bytes_max = LKI_INPUT_DOCUMENT_BYTES_MAX};
  int option;
  lake_status s = LAKE_OK;
  while (s == LAKE_OK && (option = lki_cli_option(cli, argc, argv, options_table, usage, err)) != 0) {
    if (option < 0) return cli->done ? LAKE_OK : LAKE_INVALID;
    s = take(&o, option, optarg, err);
  }
  if (s == LAKE_OK && argc - optind >= 1 && strcmp(argv[optind], "text") != 0)
    s = lki_fail(err, LAKE_INVALID, "unknown kind of feeder '%s'; write: lake feed text URL INPUT...", argv[optind]);
  if (s == LAKE_OK) s = lki_cli_words(argc, 3, INT32_MAX, "the kind of feeder (text), a URL or an INPUT", err);
  if (s == LAKE_OK && o.id == NULL) s = lki_fail(err, LAKE_INVALID, "--id NAME is missing");
  if (s == LAKE_OK) s = lki_cli_url(argv[optind + 1], err);
  if (s != LAKE_OK) return s;
  o.url = argv[optind + 1];
  o.inputs = (const char *const *)argv + optind + 2;
  o.input_count = (size_t)(argc - optind - 2);
  return lki_feed_text(cli, &o, err);
}
