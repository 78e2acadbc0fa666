/* lake inspect: any one object, decoded, as an indented JSON document. A local file is read as an object of its folder,
 * so that all kinds go through one path. Nothing is trusted: a damaged object ends in CORRUPT and the reason. */
#include "cli.h"
#include "base/codec.h"
#include "format/names.h"
#include "inspect_json.h"
#include "walk.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char usage[] =
    "usage: lake inspect [OPTIONS] URL [KEY]\n"
    "       lake inspect [OPTIONS] FILE\n"
    "Prints one object decoded, as JSON: a namespace (lakestream.json), manifest, segment, TGB, pin or hint.\n"
    "Without KEY or option it is lakestream.json; FILE is an object's bytes in a local file.\n\n"
    "  --step N              the TGB of step N\n"
    "  --version V           the manifest of version V; 'newest' for the newest\n"
    "  --segment N           the segment that lists step N\n"
    "  --frames              of a TGB: also read and check every frame\n" LKI_CLI_USAGE;

enum { STEP = 1, VERSION, SEGMENT, FRAMES };

static const struct option options_table[] = {
    {"step", required_argument, NULL, STEP},       {"version", required_argument, NULL, VERSION},
    {"segment", required_argument, NULL, SEGMENT}, {"frames", no_argument, NULL, FRAMES},
    LKI_CLI_OPTIONS,
};

#define HEAD_BYTES 64
#define TAIL_BYTES 65536

typedef struct request {
  lki_cli *cli;
  bool by_step, by_version, by_segment, frames;
  uint64_t step, version; /* version 0: the newest */
  lake_store *store;
  char key[LKI_NAME_BYTES * 4];
} request;

static lake_status read_whole(request *r, size_t bytes_max, lake_buffer *out, lake_error *err) {
  lki_buffer_init(out, r->cli->env, bytes_max);
  return lki_store_get(r->store, r->key, lki_range_whole(), out, NULL, lki_cli_deadline(r->cli), err);
}

/* Reads and checks one frame into its entry. */
static lake_status add_frame_check(request *r, const lki_tgb_footer *footer, uint32_t slice, uint64_t offset,
                                   lki_json *frame, lake_error *err) {
  lake_buffer bytes;
  uint64_t slice_bytes = 0;
  bool compressed = false;
  lki_frame_key key = {lki_tgb_hash(&footer->namespace_id, footer->producer_id, footer->epoch, footer->seq), slice};
  lki_buffer_init(&bytes, r->cli->env, (size_t)footer->frame_bytes_each[slice]);
  lake_status s = lki_store_get(r->store, r->key, lki_range_exact(offset, footer->frame_bytes_each[slice]), &bytes, NULL,
                                lki_cli_deadline(r->cli), err);
  if (s == LAKE_OK) {
    s = lki_frame_check(lki_buffer_view(&bytes), key, &slice_bytes, &compressed, err);
    if (s != LAKE_OK) lki_error_prefix(err, "%s", r->key);
  }
  lki_json_add_u64(frame, "slice_bytes", slice_bytes);
  lki_json_add_string(frame, "codec", compressed ? "zstd" : "none");
  lki_buffer_free(&bytes);
  return s;
}

static lake_status add_frames(request *r, const lki_tgb_footer *footer, lki_json *json, lake_error *err) {
  lki_descriptor d = {.slice_count = footer->slice_count, .layout = LKI_LAYOUT_PACKED,
                      .frame_bytes_each = footer->frame_bytes_each};
  lki_json *frames = lki_json_add_array(json, "frames");
  lake_status s = LAKE_OK;
  for (uint32_t i = 0; s == LAKE_OK && i < footer->slice_count; i++) {
    uint64_t offset = 0, bytes = 0;
    s = lki_frame_locate(&d, i, &offset, &bytes, err);
    lki_json *frame = lki_json_add_object(frames, NULL);
    lki_json_add_number(frame, "slice", i);
    lki_json_add_u64(frame, "offset", offset);
    lki_json_add_u64(frame, "bytes", bytes);
    if (s == LAKE_OK && r->frames) s = add_frame_check(r, footer, i, offset, frame, err);
  }
  return s;
}

/* The last bytes of a TGB that hold its footer whole. */
static lake_status read_footer(request *r, lake_buffer *tail, lake_error *err) {
  lki_buffer_init(tail, r->cli->env, LKI_FOOTER_BYTES_MAX);
  lake_status s = lki_store_get(r->store, r->key, lki_range_suffix(TAIL_BYTES), tail, NULL, lki_cli_deadline(r->cli), err);
  if (s != LAKE_OK || tail->bytes < 24) return s;
  lki_reader reader;
  lki_reader_init(&reader, (lake_bytes){tail->data + tail->bytes - 24, 24});
  uint32_t footer_bytes = lki_get_u32(&reader); /* the decoder judges it; here it only says how much to read */
  if (footer_bytes <= tail->bytes || footer_bytes > LKI_FOOTER_BYTES_MAX) return s;
  tail->bytes = 0;
  return lki_store_get(r->store, r->key, lki_range_suffix(footer_bytes), tail, NULL, lki_cli_deadline(r->cli), err);
}

static lake_status inspect_tgb(request *r, lake_bytes head, uint64_t object_bytes, lki_json *json, lake_error *err) {
  lake_buffer tail;
  lki_arena arena;
  lki_tgb_footer footer;
  char uuid[37];
  lki_arena_init(&arena, r->cli->env);
  lake_status s = read_footer(r, &tail, err);
  if (s == LAKE_OK) s = lki_tgb_header_check(head, r->key, err);
  if (s == LAKE_OK)
    s = lki_tgb_footer_decode(r->cli->env, lki_buffer_view(&tail), object_bytes, r->key, &arena, &footer, err);
  if (s == LAKE_OK) {
    lki_json_add_string(json, "kind", "tgb");
    lki_id_format(footer.namespace_id, uuid);
    lki_json_add_string(json, "namespace", uuid);
    lki_json_add_string(json, "producer", footer.producer_id);
    lki_json_add_u64(json, "epoch", footer.epoch);
    lki_json_add_u64(json, "seq", footer.seq);
    lki_json_add_u64(json, "bytes", object_bytes);
    lki_json_add_number(json, "slice_count", footer.slice_count);
    s = add_frames(r, &footer, json, err);
  }
  lki_arena_free(&arena);
  lki_buffer_free(&tail);
  return s;
}

static lake_status inspect_manifest(request *r, lki_json *json, lake_error *err) {
  lake_buffer bytes;
  lki_manifest *manifest = NULL;
  lake_status s = read_whole(r, LKI_MANIFEST_BYTES_MAX, &bytes, err);
  if (s == LAKE_OK) s = lki_manifest_decode(r->cli->env, lki_buffer_view(&bytes), NULL, r->key, &manifest, err);
  if (s == LAKE_OK) {
    lki_inspect_manifest(json, manifest);
    lki_json_add_u64(json, "bytes", bytes.bytes);
  }
  lki_manifest_release(manifest);
  lki_buffer_free(&bytes);
  return s;
}

static lake_status inspect_segment(request *r, lki_json *json, lake_error *err) {
  lake_buffer bytes;
  lki_segment *segment = NULL;
  lake_status s = read_whole(r, LKI_SEGMENT_BYTES_MAX, &bytes, err);
  if (s == LAKE_OK) s = lki_segment_decode(r->cli->env, lki_buffer_view(&bytes), NULL, r->key, &segment, err);
  if (s == LAKE_OK) lki_inspect_segment(json, segment);
  lki_segment_release(segment);
  lki_buffer_free(&bytes);
  return s;
}

static void add_schema(lki_json *json, const lki_schema *schema, const char *url) {
  lake_namespace_info info = {.mesh = schema->mesh, .rows_per_slice = schema->rows_per_slice,
                              .tensor_count = schema->tensor_count, .tensors = schema->tensors, .codec = schema->codec,
                              .tail_max = schema->tail_max,
                              .version_block = schema->version_block, .slice_bytes = schema->slice_bytes, .note = schema->note,
                              .url = url};
  lki_id_format(schema->namespace_id, info.uuid);
  lki_json_add_string(json, "kind", "namespace");
  lki_cli_namespace_json(json, &info);
}

/* A JSON object or the hint: which one it is, its "kind" tells. */
static lake_status inspect_text(request *r, lki_json *json, lake_error *err) {
  lake_buffer bytes;
  lki_json *document = NULL;
  lake_status s = read_whole(r, LKI_JSON_BYTES_MAX, &bytes, err);
  if (s != LAKE_OK) goto done;
  lake_bytes view = lki_buffer_view(&bytes);
  if (view.bytes > 0 && ((const char *)view.data)[0] == 'l') {
    uint64_t version = 0;
    s = lki_hint_decode(view, &version, err);
    lki_json_add_string(json, "kind", "hint");
    lki_json_add_u64(json, "version", version);
    goto done;
  }
  s = lki_json_parse(view, r->key, &document, err);
  if (s != LAKE_OK) {
    if (err != NULL) err->status = LAKE_CORRUPT;
    s = LAKE_CORRUPT;
    goto done;
  }
  const char *kind = lki_json_string(lki_json_get(document, "kind"));
  if (kind != NULL && strcmp(kind, "lakestream-pin") == 0) {
    lki_pin pin;
    s = lki_pin_decode(view, r->key, &pin, err);
    if (s == LAKE_OK) lki_inspect_pin(json, &pin);
  } else {
    lki_schema *schema = NULL;
    s = lki_namespace_decode(r->cli->env, view, r->key, &schema, err);
    const char *check = lki_json_string(lki_json_get(document, "store_check"));
    if (s == LAKE_OK) add_schema(json, schema, lki_store_url(r->store));
    if (s == LAKE_OK && check != NULL) lki_json_add_string(json, "store_check", check); /* see lake doctor */
    lki_schema_free(schema);
  }
done:
  lki_json_free(document);
  lki_buffer_free(&bytes);
  return s;
}

static lake_status inspect_object(request *r, lki_json *json, lake_error *err) {
  lake_object_info info = {0};
  lake_buffer head;
  lki_buffer_init(&head, r->cli->env, HEAD_BYTES);
  lki_json_add_string(json, "key", r->key);
  lake_status s = lki_store_head(r->store, r->key, &info, lki_cli_deadline(r->cli), err);
  uint64_t head_bytes = info.object_bytes < HEAD_BYTES ? info.object_bytes : HEAD_BYTES;
  if (s == LAKE_OK && head_bytes == 0) s = lki_fail(err, LAKE_CORRUPT, "%s: the object is empty", r->key);
  if (s == LAKE_OK)
    s = lki_store_get(r->store, r->key, lki_range_exact(0, head_bytes), &head, NULL, lki_cli_deadline(r->cli), err);
  if (s != LAKE_OK) goto done;
  lake_bytes view = lki_buffer_view(&head);
  const char *p = view.data;
  size_t n = strlen(r->key);
  bool named_tgb = n > 4 && strcmp(r->key + n - 4, ".tgb") == 0;
  if ((view.bytes >= 8 && memcmp(p, "LAKE-TGB", 8) == 0) || named_tgb)
    s = inspect_tgb(r, view, info.object_bytes, json, err);
  else if (view.bytes >= 8 && memcmp(p, "LAKE-MAN", 8) == 0)
    s = inspect_manifest(r, json, err);
  else if (view.bytes >= 8 && memcmp(p, "LAKE-SEG", 8) == 0)
    s = inspect_segment(r, json, err);
  else if (p[0] == '{' || p[0] == 'l')
    s = inspect_text(r, json, err);
  else
    s = lki_fail(err, LAKE_CORRUPT, "%s: not an object of Lakestream (%" PRIu64 " bytes that begin with none of its magics)",
                 r->key, info.object_bytes);
  /* A hint is only a hint, and is written anew. */
  if (s == LAKE_CORRUPT && strcmp(r->key, LKI_NAME_HINT) != 0) s = lki_fail(err, s, "%s; restore the object", err->text);
done:
  lki_buffer_free(&head);
  return s;
}

static lake_status note_step(void *ctx, const lki_walk_step *step, lake_error *err) {
  request *r = ctx;
  (void)err;
  if (r->by_step) lki_name_tgb(r->key, step->producer_id, step->descriptor->epoch, step->descriptor->seq);
  if (r->by_segment && strncmp(step->holder, LKI_NAME_MANIFEST_PREFIX, strlen(LKI_NAME_MANIFEST_PREFIX)) != 0)
    snprintf(r->key, sizeof r->key, "%s", step->holder);
  return LAKE_OK;
}

/* Finds the object of a step, a segment or the newest manifest. */
static lake_status find_key(request *r, lake_error *err) {
  lake_namespace *ns = NULL;
  lki_manifest *manifest = NULL;
  lki_walk_visitor visitor = {.ctx = r, .step = note_step, .timeout_ms = r->cli->timeout_ms};
  lake_status s = lake_namespace_open_store(r->cli->env, r->store, lki_cli_deadline(r->cli), &ns, err);
  if (s == LAKE_OK) s = lki_log_refresh(ns->log, lki_cli_deadline(r->cli), NULL, err);
  if (s != LAKE_OK) goto done;
  manifest = lki_log_view(ns->log);
  if (r->by_version) {
    if (manifest->version == 0) s = lki_fail(err, LAKE_NOTFOUND, "nothing was committed yet: there is no manifest");
    lki_name_manifest(r->key, manifest->version);
    goto done;
  }
  if (r->step >= manifest->next_step)
    s = lki_fail(err, LAKE_NOTFOUND, "step %" PRIu64 " is not there: %" PRIu64 " steps are committed", r->step,
                 manifest->next_step);
  else if (r->step < manifest->first_live_step)
    s = lki_fail(err, LAKE_RECLAIMED, "step %" PRIu64 " was reclaimed: the first live one is %" PRIu64, r->step,
                 manifest->first_live_step);
  else
    s = lki_walk(ns, manifest, r->step, r->step + 1, &visitor, err);
  if (s == LAKE_OK && r->key[0] == 0)
    s = lki_fail(err, LAKE_NOTFOUND, "step %" PRIu64 " is still listed by the manifest itself, in no segment", r->step);
done:
  lki_manifest_release(manifest);
  lake_namespace_close(ns);
  return s;
}

/* Opens the store and settles the key. */
static lake_status aim(request *r, const char *where, const char *key, lake_error *err) {
  bool chosen = r->by_step || r->by_version || r->by_segment;
  struct stat st;
  if (key != NULL && chosen) return lki_fail(err, LAKE_INVALID, "a KEY and --step, --version or --segment: choose one");
  if (key == NULL && !chosen && stat(where, &st) == 0 && S_ISREG(st.st_mode)) {
    const char *slash = strrchr(where, '/');
    char *folder = slash == NULL ? strdup("./") : strndup(where, (size_t)(slash - where) + 1);
    if (folder == NULL) return lki_fail(err, LAKE_NOMEM, "no memory for a path");
    char *url = NULL;
    if (asprintf(&url, "file:%s", folder) < 0) url = NULL;
    snprintf(r->key, sizeof r->key, "%s", slash == NULL ? where : slash + 1);
    lake_status s = url != NULL ? lake_store_open(r->cli->env, url, &r->store, err)
                                : lki_fail(err, LAKE_NOMEM, "no memory for a path");
    free(url);
    free(folder);
    return s;
  }
  lake_status s = lake_store_open(r->cli->env, where, &r->store, err);
  if (s != LAKE_OK) return s;
  if (r->by_version && r->version > 0) {
    lki_name_manifest(r->key, r->version);
    return LAKE_OK;
  }
  if (chosen) return find_key(r, err);
  snprintf(r->key, sizeof r->key, "%s", key != NULL ? key : LKI_NAME_NAMESPACE);
  return LAKE_OK;
}

/* There is no namespace: opening it tells more than the size of an object does, such as that there is no bucket. */
static lake_status explain_nothing(const request *r, lake_status s, lake_error *err) {
  lake_namespace *ns = NULL;
  lake_error why = LAKE_ERROR_INIT;
  const lake_status told = lake_namespace_open_store(r->cli->env, r->store, lki_cli_deadline(r->cli), &ns, &why);
  lake_namespace_close(ns);
  if (told == LAKE_OK) return s;
  lki_error_copy(err, &why);
  return told;
}

static lake_status take(request *r, int option, const char *value, lake_error *err) {
  switch (option) {
  case STEP: r->by_step = true; return lki_cli_u64(value, "--step", 0, UINT64_MAX - 1, &r->step, err);
  case SEGMENT: r->by_segment = true; return lki_cli_u64(value, "--segment", 0, UINT64_MAX - 1, &r->step, err);
  case VERSION:
    r->by_version = true;
    if (strcmp(value, "newest") == 0) return LAKE_OK;
    return lki_cli_u64(value, "--version", 1, UINT64_MAX, &r->version, err);
  case FRAMES: r->frames = true; return LAKE_OK;
  default: return lki_fail(err, LAKE_INTERNAL, "option %d is not handled", option);
  }
}

lake_status lki_cmd_inspect(lki_cli *cli, int argc, char **argv, lake_error *err) {
  request r = {.cli = cli};
  int option;
  lake_status s = LAKE_OK;
  while (s == LAKE_OK && (option = lki_cli_option(cli, argc, argv, options_table, usage, err)) != 0) {
    if (option < 0) return cli->done ? LAKE_OK : LAKE_INVALID;
    s = take(&r, option, optarg, err);
  }
  if (s == LAKE_OK) s = lki_cli_words(argc, 1, 2, "a URL and perhaps a KEY, or a FILE", err);
  if (s == LAKE_OK) s = lki_cli_url(argv[optind], err);
  if (s == LAKE_OK && r.by_step + r.by_version + r.by_segment > 1)
    s = lki_fail(err, LAKE_INVALID, "--step, --version and --segment: choose one");
  if (s != LAKE_OK) return s;
  lki_json *json = lki_json_new_object();
  s = aim(&r, argv[optind], argc - optind == 2 ? argv[optind + 1] : NULL, err);
  if (s == LAKE_OK) s = inspect_object(&r, json, err);
  if (s == LAKE_NOTFOUND && strcmp(r.key, LKI_NAME_NAMESPACE) == 0) s = explain_nothing(&r, s, err);
  if (s == LAKE_OK)
    s = lki_cli_print(cli, json, err);
  else
    lki_json_free(json);
  lake_store_close(r.store);
  return s;
}
