/* lake init: create a namespace. */
#include "cli.h"
#include "feed/pack.h"
#include "schema_text.h"
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: lake init [OPTIONS] URL\n"
    "Creates the namespace at URL: one stream of batches. It must not exist yet.\n\n"
    "  --mesh DxC            data-parallel replicas by context-parallel ranks (1x1)\n"
    "  --rows R              rows (samples) a slice (1)\n"
    "  --tensor N:T:SHAPE    a tensor of each row, such as tokens:u16:128 or weight:f32:- for a scalar; repeat it.\n"
    "                        With C > 1 SHAPE is one context-parallel rank's part. None: slices are raw bytes\n"
    "  --schema FILE.json    all of the above from a file, such as another namespace's lakestream.json\n"
    "  --text-seq-len S      the five tensors that `lake feed text` makes, for sequences of S tokens\n"
    "  --codec none|zstd     how slices are stored (none)\n"
    "  --tail-max K          descriptors kept inline in a manifest (128)\n"
    "  --version-block N     manifest versions that are reclaimed together (1024)\n"
    "  --note TEXT           kept with the namespace\n"
    "  --force               also on a service that fails the check of lake doctor\n" LKI_CLI_USAGE;

enum { MESH = 1, ROWS, TENSOR, SCHEMA, TEXT_SEQ_LEN, CODEC, TAIL_MAX, VERSION_BLOCK, NOTE, FORCE };

static const struct option options_table[] = {
    {"mesh", required_argument, NULL, MESH},
    {"rows", required_argument, NULL, ROWS},
    {"tensor", required_argument, NULL, TENSOR},
    {"schema", required_argument, NULL, SCHEMA},
    {"text-seq-len", required_argument, NULL, TEXT_SEQ_LEN},
    {"codec", required_argument, NULL, CODEC},
    {"tail-max", required_argument, NULL, TAIL_MAX},
    {"version-block", required_argument, NULL, VERSION_BLOCK},
    {"note", required_argument, NULL, NOTE},
    {"force", no_argument, NULL, FORCE},
    LKI_CLI_OPTIONS,
};

typedef struct request {
  lki_schema_room room;
  lake_namespace_options options;
  const char *schema_path;
  uint32_t text_seq_len;
  uint32_t tensor_count; /* given by --tensor */
} request;

static lake_status take_tensor(request *r, const char *text, lake_error *err) {
  if (r->tensor_count == LAKE_TENSOR_COUNT_MAX)
    return lki_fail(err, LAKE_INVALID, "more than %d tensors", LAKE_TENSOR_COUNT_MAX);
  return lki_schema_text_tensor(text, &r->room.tensors[r->tensor_count++], err);
}

static lake_status take(request *r, int option, const char *value, lake_error *err) {
  switch (option) {
  case MESH: return lki_cli_mesh(value, &r->options.mesh, err);
  case ROWS: return lki_cli_u32(value, "--rows", 1, UINT32_MAX, &r->options.rows_per_slice, err);
  case TENSOR: return take_tensor(r, value, err);
  case SCHEMA: r->schema_path = value; return LAKE_OK;
  case TEXT_SEQ_LEN: return lki_cli_u32(value, "--text-seq-len", 1, LKI_SEQ_LEN_MAX, &r->text_seq_len, err);
  case CODEC: return lki_schema_text_codec(value, &r->options.codec, err);
  case TAIL_MAX: return lki_cli_u32(value, "--tail-max", 1, UINT32_MAX, &r->options.tail_max, err);
  case VERSION_BLOCK:
    return lki_cli_u32(value, "--version-block", 1, UINT32_MAX, &r->options.version_block, err);
  case NOTE: r->options.note = value; return LAKE_OK;
  case FORCE: r->options.force = 1; return LAKE_OK;
  default: return lki_fail(err, LAKE_INTERNAL, "option %d is not handled", option);
  }
}

/* What the file says, then what the command line says, which wins. */
static lake_status settle(lki_cli *cli, request *r, lake_error *err) {
  if ((r->schema_path != NULL) + (r->text_seq_len > 0) + (r->tensor_count > 0) > 1)
    return lki_fail(err, LAKE_INVALID, "--tensor, --schema and --text-seq-len each give the tensors; choose one");
  lake_status s = LAKE_OK;
  if (r->schema_path != NULL) {
    lake_namespace_options file = LAKE_NAMESPACE_OPTIONS_INIT;
    s = lki_schema_text_file(cli->env, r->schema_path, &r->room, &file, err);
    if (s != LAKE_OK) return s;
    if (r->options.mesh.d_count != 0) file.mesh = r->options.mesh;
    if (r->options.rows_per_slice != 0) file.rows_per_slice = r->options.rows_per_slice;
    if (r->options.codec != 0) file.codec = r->options.codec;
    if (r->options.tail_max != 0) file.tail_max = r->options.tail_max;
    if (r->options.version_block != 0) file.version_block = r->options.version_block;
    if (r->options.note != NULL) file.note = r->options.note;
    file.force = r->options.force;
    r->options = file;
  }
  if (r->options.mesh.d_count == 0) r->options.mesh = (lake_mesh){1, 1};
  if (r->text_seq_len > 0) {
    s = lki_pack_schema(r->text_seq_len, r->options.mesh.c_count, r->room.tensors, err);
    r->tensor_count = LKI_PACK_TENSOR_COUNT;
  }
  if (r->tensor_count > 0) {
    r->options.tensor_count = r->tensor_count;
    r->options.tensors = r->room.tensors;
  }
  return s;
}

static lake_status report(lki_cli *cli, const lake_namespace_info *info, lake_error *err) {
  if (cli->json) {
    lki_json *json = lki_json_new_object();
    lki_cli_namespace_json(json, info);
    return lki_cli_print(cli, json, err);
  }
  printf("created %s: namespace %s, mesh %ux%u, %u row%s a slice, ", info->url, info->uuid, info->mesh.d_count,
         info->mesh.c_count, info->rows_per_slice, info->rows_per_slice == 1 ? "" : "s");
  if (info->tensor_count == 0)
    printf("raw slices\n");
  else
    printf("%u tensor%s, %llu bytes a slice\n", info->tensor_count, info->tensor_count == 1 ? "" : "s",
           (unsigned long long)info->slice_bytes);
  return LAKE_OK;
}

lake_status lki_cmd_init(lki_cli *cli, int argc, char **argv, lake_error *err) {
  request r = {.options = LAKE_NAMESPACE_OPTIONS_INIT};
  int option;
  lake_status s = LAKE_OK;
  while (s == LAKE_OK && (option = lki_cli_option(cli, argc, argv, options_table, usage, err)) != 0) {
    if (option < 0) return cli->done ? LAKE_OK : LAKE_INVALID;
    s = take(&r, option, optarg, err);
  }
  if (s == LAKE_OK) s = lki_cli_words(argc, 1, 1, "the URL of the new namespace", err);
  if (s == LAKE_OK) s = lki_cli_url(argv[optind], err);
  if (s == LAKE_OK) s = settle(cli, &r, err);
  if (s != LAKE_OK) return s;
  lake_namespace *ns = NULL;
  s = lake_namespace_create(cli->env, argv[optind], &r.options, lki_cli_deadline(cli), &ns, err);
  lki_cli_other_way(s, "create it all the same with --force; LAKESTREAM_FORCE is for producers", err);
  if (s != LAKE_OK) return s;
  lake_namespace_info info;
  lake_namespace_info_get(ns, &info);
  s = report(cli, &info, err);
  lake_namespace_close(ns);
  return s;
}
