/* The text feeder. What decides the bytes is pure (input, pack, place); this file moves them and keeps the promises:
 * the state that goes with a TGB says where the next one begins, so a kill at any point loses and repeats nothing. */
#include "feed/text.h"
#include "base/checksum.h"
#include "base/env.h"
#include "client/namespace.h"
#include "feed/input.h"
#include "feed/pack.h"
#include "feed/place.h"
#include <fcntl.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WARNINGS_SHOWN 10
#define SLICE_MS 200 /* how long a wait goes on before signals are looked at */

typedef enum why { WHY_NONE, WHY_END, WHY_LIMIT, WHY_DRAIN } why;

typedef struct feeder {
  lki_cli *cli;
  const lki_feed_text_options *options;
  lake_namespace *ns;
  lake_namespace_info info;
  uint32_t seq_len;
  lake_producer *producer;
  lake_producer_resume resume;
  lki_input *input;
  lki_pack pack;
  lake_bytes *slices;
  uint32_t slice_count;
  lki_feed_place place; /* hashes and pass; the rest is made when it is asked for */
  lki_document document;
  bool open_document;   /* document has tokens left */
  uint64_t token;       /* first of them */
  bool pass_was_empty;  /* nothing was delivered since the pass began */
  uint64_t offset;      /* documents consumed, over all passes and incarnations */
  uint64_t seq;         /* of the next TGB */
  uint64_t appended_count;
  bool retired;
  why why;
  sigset_t signals;
  uint64_t warning_count;
  uint64_t start_ns, pace_at_ns;
} feeder;

static void on_skip(void *ctx, const char *line) {
  feeder *f = ctx;
  if (f->warning_count < WARNINGS_SHOWN) lki_cli_warn(f->cli, "%s", line);
  if (f->warning_count++ == WARNINGS_SHOWN) lki_cli_warn(f->cli, "more skipped documents are only counted");
}

/* Did somebody ask for a drain? Waits up to timeout_ns for it. The first signal drains; the next one does what it does
 * to any program. */
static bool drain_asked(feeder *f, uint64_t timeout_ns) {
  if (f->why == WHY_DRAIN) return true;
  struct timespec wait = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
  if (sigtimedwait(&f->signals, NULL, &wait) <= 0) return false;
  f->why = WHY_DRAIN;
  (void)sigprocmask(SIG_UNBLOCK, &f->signals, NULL);
  return true;
}

static lake_status check_fits(const feeder *f, lake_error *err) {
  const lki_feed_text_options *o = f->options;
  const lake_namespace_info *info = &f->info;
  if (o->seq_len != 0 && o->seq_len != f->seq_len)
    return lki_fail(err, LAKE_INVALID, "%s: its sequences have %u tokens and --seq-len says %u", info->url, f->seq_len,
                    o->seq_len);
  if (o->rows != 0 && o->rows != info->rows_per_slice)
    return lki_fail(err, LAKE_INVALID, "%s: its slices have %u rows and --rows says %u", info->url,
                    info->rows_per_slice, o->rows);
  if (o->mesh.d_count != 0 && (o->mesh.d_count != info->mesh.d_count || o->mesh.c_count != info->mesh.c_count))
    return lki_fail(err, LAKE_INVALID, "%s: its mesh is %ux%u and --mesh says %ux%u", info->url, info->mesh.d_count,
                    info->mesh.c_count, o->mesh.d_count, o->mesh.c_count);
  return LAKE_OK;
}

static lake_status create(feeder *f, lake_error *err) {
  const lki_feed_text_options *o = f->options;
  lake_tensor_spec specs[LKI_PACK_TENSOR_COUNT];
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  if (o->seq_len == 0) return lki_fail(err, LAKE_INVALID, "--create wants --seq-len");
  options.mesh = o->mesh.d_count != 0 ? o->mesh : (lake_mesh){1, 1};
  options.rows_per_slice = o->rows;
  options.codec = o->codec;
  options.tensor_count = LKI_PACK_TENSOR_COUNT;
  options.tensors = specs;
  lake_status s = lki_pack_schema(o->seq_len, options.mesh.c_count, specs, err);
  if (s == LAKE_OK) s = lake_namespace_create(f->cli->env, o->url, &options, lki_cli_deadline(f->cli), &f->ns, err);
  lki_cli_other_way(s, "create it all the same with lake init --force; --create has no way to", err);
  /* Another feeder was first: what it made is checked like any other namespace. */
  if (s == LAKE_EXISTS) s = lake_namespace_open(f->cli->env, o->url, lki_cli_deadline(f->cli), &f->ns, err);
  return s;
}

static lake_status open_namespace(feeder *f, lake_error *err) {
  lake_status s = lake_namespace_open(f->cli->env, f->options->url, lki_cli_deadline(f->cli), &f->ns, err);
  if (s == LAKE_NOTFOUND && f->options->create) s = create(f, err);
  if (s != LAKE_OK) return s;
  lake_namespace_info_get(f->ns, &f->info);
  s = lki_pack_schema_fits(&f->info, &f->seq_len, err);
  if (s == LAKE_OK) s = check_fits(f, err);
  if (s == LAKE_OK) s = lki_pack_init(&f->pack, f->info.mesh, f->info.rows_per_slice, f->seq_len, err);
  if (s == LAKE_OK && f->pack.slice_bytes != f->info.slice_bytes)
    s = lki_fail(err, LAKE_INTERNAL, "the packer's slices have %" PRIu64 " bytes and the namespace's %" PRIu64,
                 f->pack.slice_bytes, f->info.slice_bytes);
  if (s != LAKE_OK) return s;
  f->slice_count = f->info.mesh.d_count * f->info.mesh.c_count;
  f->slices = calloc(f->slice_count, sizeof *f->slices);
  return f->slices != NULL ? LAKE_OK : lki_fail(err, LAKE_NOMEM, "no memory for %u slices", f->slice_count);
}

static uint64_t config_hash(const feeder *f) {
  const lki_feed_text_options *o = f->options;
  char text[600];
  int n = snprintf(text, sizeof text, "%" PRIu64 "/%" PRIu64 " %ux%u %u %u %d %" PRIu64 " %.300s", o->index, o->count,
                   f->info.mesh.d_count, f->info.mesh.c_count, f->info.rows_per_slice, f->seq_len, o->invalid_replace,
                   o->document_bytes_max, o->field != NULL ? o->field : "text");
  return lki_checksum(text, (size_t)n, 0);
}

/* What an incarnation of this id left behind. */
typedef struct left {
  uint64_t seq, offset;
  lake_bytes state; /* borrowed */
} left;

/* Goes to where this id stopped, or says why this feeder must not go on from there. */
static lake_status resume(feeder *f, const left *l, lake_error *err) {
  f->seq = l->seq;
  f->offset = l->offset;
  if (l->state.bytes == 0) {
    if (l->seq == 0) return LAKE_OK;
    return lki_fail(err, LAKE_INVALID, "producer %s left no state; it was no text feeder: choose another --id", f->options->id);
  }
  lki_feed_place was;
  lake_status s = lki_feed_place_parse(l->state, &was, err);
  if (s != LAKE_OK) return s;
  if (was.list_hash != f->place.list_hash)
    return lki_fail(err, LAKE_INVALID,
                    "the input of %s changed since it fed TGB %" PRIu64 " (files, their order or sizes); "
                    "restore it, or feed the new input under another --id", f->options->id, f->seq);
  if (was.config_hash != f->place.config_hash)
    return lki_fail(err, LAKE_INVALID,
                    "%s fed before with other options (--index, --count, --field, --invalid or --document-max); "
                    "use the same, or another --id", f->options->id);
  s = lki_input_seek(f->input, was.document, err);
  if (s != LAKE_OK) return s;
  f->place.pass = was.pass;
  f->token = was.token;
  f->open_document = false;
  f->pass_was_empty = was.document.ordinal == 0;
  if (was.token == 0) return LAKE_OK;
  s = lki_input_next(f->input, &f->document, err);
  bool same = s == LAKE_OK && f->document.place.file == was.document.file &&
              f->document.place.at == was.document.at && was.token < lki_pack_document_tokens(f->document.text.bytes);
  if (s != LAKE_OK && s != LAKE_END) return s;
  if (!same)
    return lki_fail(err, LAKE_INVALID, "the input of %s changed: the document it stopped in is not there any more; "
                    "restore it, or feed the new input under another --id", f->options->id);
  f->open_document = true;
  f->pass_was_empty = false;
  return LAKE_OK;
}

/* The next document, over as many passes as were asked for; END: no more. */
static lake_status next_document(feeder *f, lake_error *err) {
  for (;;) {
    lake_status s = lki_input_next(f->input, &f->document, err);
    if (s == LAKE_OK) {
      f->open_document = true;
      f->token = 0;
      f->pass_was_empty = false;
      return LAKE_OK;
    }
    bool again = f->options->pass_count == 0 || f->place.pass + 1 < f->options->pass_count;
    /* An input without one usable document would go round for ever. */
    if (s != LAKE_END || !again || f->pass_was_empty) return s;
    s = lki_input_seek(f->input, (lki_input_place){0, 0, 0}, err);
    if (s != LAKE_OK) return s;
    f->place.pass++;
    f->pass_was_empty = true;
  }
}

/* Fills one TGB; END: the input ended and the TGB is as full as it gets. */
static lake_status fill(feeder *f, lake_error *err) {
  lki_pack_reset(&f->pack);
  while (!lki_pack_full(&f->pack)) {
    lake_status s = f->open_document ? LAKE_OK : next_document(f, err);
    if (s != LAKE_OK) return s;
    f->token = lki_pack_document(&f->pack, f->document.text, f->token);
    if (f->token == lki_pack_document_tokens(f->document.text.bytes)) {
      f->open_document = false;
      f->token = 0;
      f->offset++;
    }
  }
  return LAKE_OK;
}

/* Appends the packed TGB. *appended false with OK: a drain was asked for while there was no room. */
static lake_status append(feeder *f, bool *appended, lake_error *err) {
  char state[LKI_FEED_STATE_BYTES];
  f->place.document = f->open_document ? f->document.place : lki_input_place_get(f->input);
  f->place.token = f->token;
  lake_bytes state_view = {state, lki_feed_place_format(&f->place, state)};
  lki_pack_slices(&f->pack, f->slices);
  uint64_t committed = UINT64_MAX, patience = 0;
  *appended = false;
  for (;;) {
    lake_status s = lake_producer_append(f->producer, f->slices, f->slice_count, f->offset, state_view,
                                         lake_deadline_after_ms(f->cli->env, SLICE_MS), err);
    if (s == LAKE_OK) {
      *appended = true;
      f->appended_count++;
      f->seq++;
      return LAKE_OK;
    }
    if (s != LAKE_TIMEOUT) return s;
    if (drain_asked(f, 0)) return LAKE_OK;
    /* A full pipe is no failure while commits go through. */
    lake_producer_stats stats;
    lake_producer_stats_get(f->producer, &stats);
    if (stats.committed_count != committed) patience = lki_after_ns(f->cli->env, f->cli->timeout_ms * 1000000u);
    committed = stats.committed_count;
    if (lki_now_ns(f->cli->env) >= patience) return s;
  }
}

static bool limit_reached(const feeder *f) {
  const lki_feed_text_options *o = f->options;
  return (o->limit_tgb_count != 0 && f->appended_count >= o->limit_tgb_count) ||
         (o->max_tgb_count != 0 && f->seq >= o->max_tgb_count);
}

/* Waits until the next TGB is due. */
static void pace(feeder *f) {
  if (f->options->rate <= 0) return;
  uint64_t now = lki_now_ns(f->cli->env);
  if (f->pace_at_ns > now) (void)drain_asked(f, f->pace_at_ns - now);
  if (f->pace_at_ns < now) f->pace_at_ns = now;
  f->pace_at_ns += (uint64_t)(1e9 / f->options->rate);
}

/* An input of which all was skipped is not the one that was meant: that must not pass for a finished feeder. */
static lake_status check_usable(const feeder *f, lake_error *err) {
  const lki_input_counts counts = lki_input_counts_get(f->input);
  if (f->seq > 0 || counts.document_count > 0 || counts.skipped_count == 0) return LAKE_OK;
  return lki_fail(err, LAKE_INVALID, "not one usable document: all %" PRIu64 " of %s were skipped (see the warnings); "
                  "give another input or other options", counts.skipped_count, f->options->id);
}

/* Appends until something ends it; f->why says what. */
static lake_status feed(feeder *f, lake_error *err) {
  while (f->why == WHY_NONE) {
    if (limit_reached(f)) {
      f->why = WHY_LIMIT;
      break;
    }
    if (drain_asked(f, 0)) break;
    lake_status s = fill(f, err);
    if (s != LAKE_OK && s != LAKE_END) return s;
    bool ended = s == LAKE_END, appended = true;
    if (!ended || (f->pack.token_count > 0 && !f->options->tail_drop)) {
      pace(f);
      if (f->why == WHY_DRAIN) break;
      s = append(f, &appended, err);
      if (s != LAKE_OK || !appended) return s;
    }
    if (ended) {
      s = check_usable(f, err);
      if (s != LAKE_OK) return s;
      f->why = WHY_END;
    }
    lki_cli_progress(f->cli, "%s: %" PRIu64 " TGBs, %" PRIu64 " documents", f->options->id, f->seq, f->offset);
  }
  return LAKE_OK;
}

/* Everything appended becomes visible; a finished id retires. */
static lake_status finish(feeder *f, lake_error *err) {
  const lki_feed_text_options *o = f->options;
  bool all = f->why == WHY_END || (f->why == WHY_LIMIT && o->max_tgb_count != 0 && f->seq >= o->max_tgb_count);
  lake_deadline deadline = lki_cli_deadline(f->cli);
  lake_status s;
  do
    s = all ? lake_producer_retire(f->producer, deadline, err) : lake_producer_flush(f->producer, deadline, err);
  while (s == LAKE_UNCERTAIN && !lki_deadline_passed(f->cli->env, deadline));
  f->retired = all && s == LAKE_OK;
  return s;
}

static const char *why_name(why w, lake_status status) {
  if (status != LAKE_OK) return "failed";
  return w == WHY_END ? "end" : w == WHY_LIMIT ? "limit" : "drained";
}

typedef struct summary {
  lake_producer_stats producer;
  lake_store_stats store;
  lki_input_counts input;
  double seconds, success_percent, mb_per_second;
} summary;

static summary sum_up(const feeder *f) {
  summary m = {0};
  lake_producer_stats_get(f->producer, &m.producer);
  lake_namespace_stats_get(f->ns, &m.store);
  m.input = lki_input_counts_get(f->input);
  m.seconds = (double)(lki_now_ns(f->cli->env) - f->start_ns) / 1e9;
  m.success_percent = m.producer.attempt_count == 0
                          ? 100
                          : 100.0 * (double)m.producer.commit_count / (double)m.producer.attempt_count;
  m.mb_per_second = f->appended_count > 0 && m.seconds > 0 ? (double)m.store.written_bytes / 1e6 / m.seconds : 0;
  return m;
}

static lki_json *summary_json(const feeder *f, const summary *m, lake_status status, const lake_error *err) {
  lki_json *json = lki_json_new_object();
  lki_json_add_string(json, "url", f->info.url);
  lki_json_add_string(json, "id", f->options->id);
  lki_json_add_u64(json, "index", f->options->index);
  lki_json_add_u64(json, "count", f->options->count);
  lki_json_add_string(json, "reason", why_name(f->why, status));
  lki_json_add_bool(json, "retired", f->retired);
  lki_json_add_u64(json, "epoch", f->resume.epoch);
  lki_json_add_u64(json, "first_seq", f->resume.seq);
  lki_json_add_u64(json, "next_seq", f->seq);
  lki_json_add_u64(json, "tgb_count", f->appended_count);
  lki_json_add_u64(json, "committed_count", m->producer.committed_count);
  lki_json_add_u64(json, "attempt_count", m->producer.attempt_count);
  lki_json_add_u64(json, "commit_count", m->producer.commit_count);
  lki_json_add_number(json, "success_percent", m->success_percent);
  lki_json_add_u64(json, "written_bytes", m->store.written_bytes);
  lki_json_add_number(json, "seconds", m->seconds);
  lki_json_add_number(json, "mb_per_second", m->mb_per_second);
  lki_json_add_u64(json, "gap_ns", m->producer.gap_ns);
  lki_json_add_u64(json, "manifest_bytes", m->producer.manifest_bytes);
  lki_json_add_u64(json, "document_count", m->input.document_count);
  lki_json_add_u64(json, "offset", f->offset);
  lki_json_add_u64(json, "empty_count", m->input.empty_count);
  lki_json_add_u64(json, "skipped_count", m->input.skipped_count);
  lki_json_add_u64(json, "replaced_count", m->input.replaced_count);
  if (status != LAKE_OK) lki_cli_error_members(lki_json_add_object(json, "error"), status, err);
  return json;
}

/* One line, in one write, so that several feeders may share the file. */
static lake_status append_stats(const feeder *f, lki_json *json, lake_error *err) {
  lake_buffer line;
  lki_buffer_init(&line, f->cli->env, LKI_JSON_BYTES_MAX);
  lake_status s = lki_json_print(json, false, &line, err);
  if (s == LAKE_OK) s = lki_buffer_append(&line, "\n", 1, err);
  int fd = s == LAKE_OK ? open(f->options->stats_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
  if (s == LAKE_OK && (fd < 0 || write(fd, line.data, line.bytes) != (ssize_t)line.bytes))
    s = lki_fail(err, LAKE_UNAVAILABLE, "--stats-file %s: %s", f->options->stats_path, strerror(errno));
  if (fd >= 0) close(fd);
  lki_buffer_free(&line);
  return s;
}

static const char *plural(uint64_t count) { return count == 1 ? "" : "s"; }

static lake_status report(const feeder *f, lake_status status, lake_error *err) {
  summary m = sum_up(f);
  lake_status s = status;
  lki_cli_progress_end(f->cli);
  if (f->options->stats_path != NULL) {
    lki_json *json = summary_json(f, &m, status, err);
    lake_error local = LAKE_ERROR_INIT;
    lake_status t = append_stats(f, json, &local);
    lki_json_free(json);
    if (t != LAKE_OK) lki_cli_warn(f->cli, "%s", local.text);
  }
  if (status != LAKE_OK) return status;
  if (f->cli->json) return lki_cli_print(f->cli, summary_json(f, &m, status, err), err);
  printf("%s: %" PRIu64 " TGB%s fed, next is %" PRIu64 " (%s); ", f->options->id, f->appended_count,
         plural(f->appended_count), f->seq, why_name(f->why, status));
  if (m.producer.attempt_count == 0)
    printf("nothing to commit; ");
  else
    printf("%" PRIu64 " commit%s of %" PRIu64 " attempt%s (%.1f %%); ", m.producer.commit_count,
           plural(m.producer.commit_count), m.producer.attempt_count, plural(m.producer.attempt_count),
           m.success_percent);
  /* Without a TGB, what was written is the claim of the id, and a rate of it says nothing. */
  if (f->appended_count > 0) printf("%" PRIu64 " bytes, %.2f MB/s; ", m.store.written_bytes, m.mb_per_second);
  printf("%" PRIu64 " document%s, %" PRIu64 " skipped\n", m.input.document_count, plural(m.input.document_count),
         m.input.skipped_count);
  return s;
}

/* Before any thread of the library starts, so that all of them leave these signals to drain_asked. */
static void block_signals(feeder *f) {
  sigemptyset(&f->signals);
  sigaddset(&f->signals, SIGTERM);
  sigaddset(&f->signals, SIGINT);
  sigaddset(&f->signals, SIGUSR1);
  (void)sigprocmask(SIG_BLOCK, &f->signals, NULL);
}

/* Claims the epoch of the id and stands where it stopped. Claiming fences a feeder of this id that still runs, so what
 * would be refused is found out first, on the newest manifest; the claim only repeats it if that feeder went on. */
static lake_status claim(feeder *f, lake_error *err) {
  const char *id = f->options->id;
  lake_status s = lki_log_refresh(f->ns->log, lki_cli_deadline(f->cli), NULL, err);
  if (s != LAKE_OK) return s;
  lki_manifest *m = lki_log_view(f->ns->log);
  const int64_t at = lki_manifest_find_producer(m, id);
  left before = {0, 0, {NULL, 0}};
  if (at >= 0) before = (left){m->producers[at].next_seq, m->producers[at].offset, m->producers[at].state};
  s = resume(f, &before, err);
  if (s != LAKE_OK) goto done;
  lake_producer_options options = LAKE_PRODUCER_OPTIONS_INIT;
  s = lake_producer_open(f->ns, id, &options, lki_cli_deadline(f->cli), &f->resume, &f->producer, err);
  lki_cli_other_way(s, "feed it all the same with LAKESTREAM_FORCE=1", err);
  if (s != LAKE_OK || f->resume.seq == before.seq) goto done;
  left now = {f->resume.seq, f->resume.offset, {f->resume.state, f->resume.state_bytes}};
  s = resume(f, &now, err);
done:
  lki_manifest_release(m);
  return s;
}

static lake_status open_all(feeder *f, lake_error *err) {
  const lki_feed_text_options *o = f->options;
  lki_input_options input = {.field = o->field, .invalid_replace = o->invalid_replace, .index = o->index,
                             .count = o->count, .document_bytes_max = (size_t)o->document_bytes_max,
                             .warn = on_skip, .ctx = f};
  lake_status s = lki_input_open(o->inputs, o->input_count, &input, &f->input, err);
  if (s == LAKE_OK) s = open_namespace(f, err);
  if (s != LAKE_OK) return s;
  f->place.list_hash = lki_input_hash(f->input);
  f->place.config_hash = config_hash(f);
  f->pass_was_empty = true;
  return claim(f, err);
}

lake_status lki_feed_text(lki_cli *cli, const lki_feed_text_options *options, lake_error *err) {
  feeder f = {.cli = cli, .options = options, .start_ns = lki_now_ns(cli->env)};
  block_signals(&f);
  lake_status s = open_all(&f, err);
  bool opened = s == LAKE_OK;
  if (opened) {
    s = feed(&f, err);
    /* What was appended before the input failed is good and becomes visible all the same. */
    lake_error local = LAKE_ERROR_INIT;
    lake_status t = finish(&f, s == LAKE_OK ? err : &local);
    if (s == LAKE_OK) s = t;
    s = report(&f, s, err);
  }
  lake_producer_close(f.producer);
  free(f.slices);
  lki_pack_fini(&f.pack);
  lake_namespace_close(f.ns);
  lki_input_close(f.input);
  return s;
}
