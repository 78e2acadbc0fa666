/* Documents out of files. The open file is read through zlib, which passes plain files through as they are. */
#include "feed/input.h"
#include "base/checksum.h"
#include "base/json.h"
#include "feed/list.h"
#include "feed/utf8.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define BLOCK_BYTES ((size_t)256 << 10)

typedef struct bytes_room {
  unsigned char *data;
  size_t bytes, capacity;
} bytes_room;

struct lki_input {
  lki_list list;
  lki_input_options options;
  char *field;
  lki_input_place place; /* of the next document */
  gzFile file;           /* of place.file; NULL: not open */
  unsigned char *block;  /* what was read ahead; its first byte not used is at place.at */
  size_t block_at, block_bytes;
  bool block_last;       /* the file ends with this block */
  bytes_room line;       /* raw bytes of the document being read */
  bytes_room replaced;
  lki_json *json;        /* holds the text delivered last */
  lki_input_counts counts;
};

static bool ends_with(const char *path, const char *suffix) {
  size_t n = strlen(path), m = strlen(suffix);
  return n >= m && strcmp(path + n - m, suffix) == 0;
}

static const char *path_now(const lki_input *in) { return in->list.files[in->place.file].path; }

static void warn(lki_input *in, const char *reason) {
  in->counts.skipped_count++;
  if (in->options.warn == NULL) return;
  char line[600];
  snprintf(line, sizeof line, "skipped document %llu (%.300s, byte %llu): %.120s",
           (unsigned long long)in->place.ordinal, path_now(in), (unsigned long long)in->place.at, reason);
  in->options.warn(in->options.ctx, line);
}

static void close_file(lki_input *in) {
  if (in->file != NULL) gzclose_r(in->file);
  in->file = NULL;
  in->block_at = in->block_bytes = 0;
  in->block_last = false;
}

static lake_status open_file(lki_input *in, lake_error *err) {
  if (in->file != NULL) return LAKE_OK;
  in->file = gzopen(path_now(in), "rbe");
  if (in->file == NULL)
    return lki_fail(err, errno == EACCES || errno == EPERM ? LAKE_DENIED : LAKE_UNAVAILABLE, "input %s: %s",
                    path_now(in), strerror(errno));
  (void)gzbuffer(in->file, (unsigned)BLOCK_BYTES);
  if (in->place.at > 0 && gzseek(in->file, (z_off_t)in->place.at, SEEK_SET) != (z_off_t)in->place.at) {
    close_file(in);
    return lki_fail(err, LAKE_CORRUPT, "input %s: cannot go to byte %llu, where this feeder stopped", path_now(in),
                    (unsigned long long)in->place.at);
  }
  return LAKE_OK;
}

/* Reads the next block when the present one is used up. */
static lake_status fill_block(lki_input *in, lake_error *err) {
  if (in->block_at < in->block_bytes || in->block_last) return LAKE_OK;
  int got = gzread(in->file, in->block, (unsigned)BLOCK_BYTES);
  int code = Z_OK;
  const char *text = gzerror(in->file, &code);
  /* A stream cut short ends quietly in gzread: only the error code tells. */
  if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
    if (code == Z_ERRNO)
      return lki_fail(err, LAKE_UNAVAILABLE, "input %s: %s", path_now(in), strerror(errno));
    return lki_fail(err, LAKE_CORRUPT, "input %s: %s; restore the file or take it out of the input", path_now(in),
                    code == Z_BUF_ERROR ? "the compressed file is cut short" : text);
  }
  in->block_at = 0;
  in->block_bytes = (size_t)got;
  in->block_last = got == 0;
  return LAKE_OK;
}

static lake_status room_append(bytes_room *room, const void *data, size_t bytes, lake_error *err) {
  if (room->capacity - room->bytes < bytes) {
    size_t capacity = room->capacity < 4096 ? 4096 : room->capacity * 2;
    if (capacity < room->bytes + bytes) capacity = room->bytes + bytes;
    unsigned char *grown = realloc(room->data, capacity);
    if (grown == NULL) return lki_fail(err, LAKE_NOMEM, "no memory for a document of %zu bytes", capacity);
    room->data = grown;
    room->capacity = capacity;
  }
  memcpy(room->data + room->bytes, data, bytes);
  room->bytes += bytes;
  return LAKE_OK;
}

/* Reads up to and including `stop` (-1: to the end of the file) and says how many bytes that took. They are kept in
 * in->line only where wanted and not above the limit. *ended: the file ended before the stop. */
static lake_status read_until(lki_input *in, int stop, bool wanted, uint64_t *taken, bool *ended, lake_error *err) {
  in->line.bytes = 0;
  *taken = 0;
  *ended = false;
  for (bool found = false; !found;) {
    lake_status s = fill_block(in, err);
    if (s != LAKE_OK) return s;
    size_t left = in->block_bytes - in->block_at;
    if (left == 0) {
      *ended = true;
      return LAKE_OK;
    }
    const unsigned char *from = in->block + in->block_at;
    const unsigned char *hit = stop >= 0 ? memchr(from, stop, left) : NULL;
    size_t use = hit != NULL ? (size_t)(hit - from) + 1 : left;
    found = hit != NULL;
    *taken += use;
    if (wanted && *taken <= in->options.document_bytes_max + 1) {
      s = room_append(&in->line, from, use, err);
      if (s != LAKE_OK) return s;
    }
    in->block_at += use;
  }
  return LAKE_OK;
}

/* cJSON hands out C strings: a NUL in one would cut the text short unseen. */
static bool has_escaped_nul(lake_bytes line) {
  const char *s = line.data;
  for (size_t i = 0; i + 5 < line.bytes; i++) {
    if (s[i] != '\\') continue;
    if (memcmp(s + i + 1, "u0000", 5) == 0) return true;
    i++;
  }
  return false;
}

static lake_status replace_bad(lki_input *in, lake_bytes *text, lake_error *err) {
  size_t most = text->bytes * 3;
  if (in->replaced.capacity < most) {
    unsigned char *grown = realloc(in->replaced.data, most);
    if (grown == NULL) return lki_fail(err, LAKE_NOMEM, "no memory for a document of %zu bytes", most);
    in->replaced.data = grown;
    in->replaced.capacity = most;
  }
  in->replaced.bytes = lki_utf8_replace(*text, in->replaced.data);
  in->counts.replaced_count++;
  *text = (lake_bytes){in->replaced.data, in->replaced.bytes};
  return LAKE_OK;
}

/* The text of a JSON line. *usable false: the document is not counted as delivered (a warning says why, if one is due). */
static void text_of_line(lki_input *in, lake_bytes line, lake_bytes *text, bool *usable) {
  lki_json_free(in->json);
  in->json = NULL;
  *usable = false;
  const char *reason = NULL;
  if (has_escaped_nul(line))
    reason = "its JSON holds the character U+0000";
  else if (lki_json_parse_max(line, line.bytes, "line", &in->json, NULL) != LAKE_OK || !lki_json_is_object(in->json))
    reason = "not a JSON object";
  const char *value = reason == NULL ? lki_json_string(lki_json_get(in->json, in->field)) : NULL;
  if (reason == NULL && value == NULL) reason = "no text in that field (--field names it)";
  if (reason != NULL) {
    warn(in, reason);
    return;
  }
  *text = (lake_bytes){value, strlen(value)};
  *usable = true;
}

static bool blank(lake_bytes line) {
  const unsigned char *s = line.data;
  for (size_t i = 0; i < line.bytes; i++)
    if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r') return false;
  return true;
}

/* Makes the document's text of the raw bytes that were read for it. */
static lake_status deliver(lki_input *in, bool is_line, uint64_t taken, lki_document *document, bool *usable,
                           lake_error *err) {
  *usable = false;
  lake_bytes text = {in->line.data, in->line.bytes};
  if (is_line && text.bytes > 0 && in->line.data[text.bytes - 1] == '\n') text.bytes--;
  if (taken > in->options.document_bytes_max) {
    warn(in, "longer than --document-max");
    return LAKE_OK;
  }
  if (is_line ? blank(text) : text.bytes == 0) {
    in->counts.empty_count++;
    return LAKE_OK;
  }
  lake_status s = LAKE_OK;
  if (lki_utf8_valid_bytes(text) < text.bytes) {
    if (!in->options.invalid_replace) {
      warn(in, "not UTF-8 (--invalid replace keeps it)");
      return LAKE_OK;
    }
    s = replace_bad(in, &text, err);
    if (s != LAKE_OK) return s;
  }
  *usable = true;
  if (is_line) text_of_line(in, text, &text, usable);
  if (*usable && text.bytes == 0) {
    in->counts.empty_count++;
    *usable = false;
  }
  document->place = in->place;
  document->text = text;
  return LAKE_OK;
}

static void next_file(lki_input *in) {
  close_file(in);
  in->place.file++;
  in->place.at = 0;
}

/* One candidate: read or passed over. *usable: document holds it. */
static lake_status step(lki_input *in, lki_document *document, bool *usable, lake_error *err) {
  const char *path = path_now(in);
  bool lines = ends_with(path, ".jsonl") || ends_with(path, ".jsonl.gz");
  bool own = in->place.ordinal % in->options.count == in->options.index;
  *usable = false;
  if (!lines && !own) { /* the whole file is one document of another feeder */
    in->place.ordinal++;
    next_file(in);
    return LAKE_OK;
  }
  lake_status s = open_file(in, err);
  if (s != LAKE_OK) return s;
  uint64_t taken = 0;
  bool ended = false;
  s = read_until(in, lines ? '\n' : -1, own, &taken, &ended, err);
  if (s != LAKE_OK) {
    close_file(in); /* what was read ahead no longer matches the place */
    return s;
  }
  if (lines && ended && taken == 0) { /* the file's end is no document */
    next_file(in);
    return LAKE_OK;
  }
  if (own) s = deliver(in, lines, taken, document, usable, err);
  if (s != LAKE_OK) {
    close_file(in);
    return s;
  }
  in->place.ordinal++;
  in->place.at += taken;
  if (!lines) next_file(in);
  return LAKE_OK;
}

lake_status lki_input_next(lki_input *in, lki_document *document, lake_error *err) {
  lki_document found = {{0, 0, 0}, {NULL, 0}};
  bool usable = false;
  while (!usable) {
    if (in->place.file >= in->list.count) return LAKE_END;
    lake_status s = step(in, &found, &usable, err);
    if (s != LAKE_OK) return s;
  }
  in->counts.document_count++;
  *document = found;
  return LAKE_OK;
}

lki_input_place lki_input_place_get(const lki_input *in) { return in->place; }

lake_status lki_input_seek(lki_input *in, lki_input_place place, lake_error *err) {
  if (place.file > in->list.count || (place.file == in->list.count && place.at != 0))
    return lki_fail(err, LAKE_INVALID, "input: file %llu of %zu does not exist; the input is not the one that was fed before",
                    (unsigned long long)place.file, in->list.count);
  close_file(in);
  in->place = place;
  return LAKE_OK;
}

uint64_t lki_input_hash(const lki_input *in) {
  uint64_t hash = lki_checksum("", 0, in->list.count);
  for (size_t i = 0; i < in->list.count; i++) {
    const lki_list_file *file = &in->list.files[i];
    hash = lki_checksum(file->path, strlen(file->path), hash);
    hash = lki_checksum("", 0, hash ^ (file->bytes + 1));
  }
  return hash;
}

size_t lki_input_file_count(const lki_input *in) { return in->list.count; }
lki_input_counts lki_input_counts_get(const lki_input *in) { return in->counts; }

lake_status lki_input_open(const char *const *paths, size_t path_count, const lki_input_options *options,
                           lki_input **out, lake_error *err) {
  if (options->count == 0 || options->index >= options->count)
    return lki_fail(err, LAKE_INVALID, "feeder index %llu of %llu: the index counts from 0",
                    (unsigned long long)options->index, (unsigned long long)options->count);
  lki_input *in = calloc(1, sizeof *in);
  if (in == NULL) return lki_fail(err, LAKE_NOMEM, "no memory for the input");
  in->options = *options;
  if (in->options.document_bytes_max == 0) in->options.document_bytes_max = LKI_INPUT_DOCUMENT_BYTES_MAX;
  in->field = strdup(options->field != NULL ? options->field : "text");
  in->block = malloc(BLOCK_BYTES);
  lake_status s = LAKE_OK;
  if (in->field == NULL || in->block == NULL) s = lki_fail(err, LAKE_NOMEM, "no memory for the input");
  if (s == LAKE_OK)
    s = lki_list_build(paths, path_count, LKI_INPUT_DEPTH_MAX, LKI_INPUT_FILE_COUNT_MAX, options->warn,
                       options->ctx, &in->list, err);
  if (s == LAKE_OK && in->list.count == 0)
    s = lki_fail(err, LAKE_INVALID, "input: not one file in %s%s", path_count > 0 ? paths[0] : "the empty list",
                 path_count > 1 ? " and the other paths" : "");
  if (s != LAKE_OK) {
    lki_input_close(in);
    return s;
  }
  *out = in;
  return LAKE_OK;
}

void lki_input_close(lki_input *in) {
  if (in == NULL) return;
  close_file(in);
  lki_json_free(in->json);
  free(in->replaced.data);
  free(in->line.data);
  free(in->block);
  free(in->field);
  lki_list_free(&in->list);
  free(in);
}
