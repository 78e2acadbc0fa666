/* Sinks and streams. Single-threaded, as all of lakerun is. */
#include "output.h"
#include "base/env.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LKI_READ_BYTES 65536

void lki_sink_init(lki_sink *sink, int fd) {
  const char *no_color = lki_getenv("NO_COLOR");
  memset(sink, 0, sizeof *sink);
  sink->fd = fd;
  sink->colour = isatty(fd) && (no_color == NULL || no_color[0] == 0);
}

void lki_sink_free(lki_sink *sink) {
  free(sink->data);
  sink->data = NULL;
  sink->bytes = sink->capacity = 0;
}

bool lki_sink_full(const lki_sink *sink) {
  return sink->bytes >= LKI_SINK_BYTES_MAX;
}

void lki_sink_raw(lki_sink *sink, const char *text, size_t bytes) {
  if (sink->gone) return;
  if (sink->capacity - sink->bytes < bytes) {
    /* Streams stop at LKI_SINK_BYTES_MAX, at their end at LKI_SINK_BYTES_LAST; our own lines are few. */
    size_t capacity = sink->capacity == 0 ? 65536 : sink->capacity * 2;
    while (capacity - sink->bytes < bytes) capacity *= 2;
    char *data = realloc(sink->data, capacity);
    if (data == NULL) return; /* a lost line is better than a lost job */
    sink->data = data;
    sink->capacity = capacity;
  }
  memcpy(sink->data + sink->bytes, text, bytes);
  sink->bytes += bytes;
}

void lki_sink_write(lki_sink *sink) {
  size_t want = sink->bytes < PIPE_BUF ? sink->bytes : PIPE_BUF;
  ssize_t n = want > 0 ? write(sink->fd, sink->data, want) : 0;
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n < 0) {
    sink->gone = true;
    sink->bytes = 0;
    return;
  }
  sink->bytes -= (size_t)n;
  memmove(sink->data, sink->data + n, sink->bytes);
}

void lki_sink_say(lki_sink *sink, const char *format, ...) {
  char text[1024] = "lakerun: ";
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text + 9, sizeof text - 10, format, args);
  va_end(args);
  size_t bytes = n < 0 ? 0 : (size_t)n < sizeof text - 10 ? (size_t)n : sizeof text - 11;
  text[9 + bytes] = '\n';
  lki_sink_raw(sink, text, 10 + bytes);
}

bool lki_stream_init(lki_stream *stream, lki_sink *sink, const char *role, unsigned colour, char mark,
                     long index, size_t ranks) {
  memset(stream, 0, sizeof *stream);
  stream->fd = -1;
  stream->sink = sink;
  stream->role = role;
  stream->colour = colour;
  stream->mark = mark;
  stream->index = index;
  stream->ranks = ranks;
  stream->current = ranks; /* mpirun's own, or the only one */
  stream->failed_rank = -1;
  stream->slots = calloc(ranks + 1, sizeof *stream->slots);
  return stream->slots != NULL;
}

void lki_stream_free(lki_stream *stream) {
  for (size_t i = 0; stream->slots != NULL && i <= stream->ranks; i++) free(stream->slots[i].data);
  free(stream->slots);
  stream->slots = NULL;
  if (stream->fd >= 0) close(stream->fd);
  stream->fd = -1;
}

/* Prints a slot's bytes as one line: "role.index | text". Pieces after the first of a cut line carry + as
 * their mark. */
static void print_slot(lki_stream *stream, size_t which, bool whole) {
  static const char *const colours[] = {"\033[36m", "\033[33m", "\033[32m",
                                        "\033[35m", "\033[34m", "\033[31m"};
  lki_slot *slot = &stream->slots[which];
  lki_sink *sink = stream->sink;
  char prefix[96];
  long number = stream->ranks > 0 && which < stream->ranks ? (long)which : stream->index;
  const char *on = sink->colour ? colours[stream->colour % (sizeof colours / sizeof colours[0])] : "";
  const char *off = sink->colour ? "\033[0m" : "";
  char mark = slot->cut ? '+' : stream->mark;
  int n = number >= 0 ? snprintf(prefix, sizeof prefix, "%s%s.%ld %c%s ", on, stream->role, number, mark, off)
                      : snprintf(prefix, sizeof prefix, "%s%s %c%s ", on, stream->role, mark, off);
  lki_sink_raw(sink, prefix, (size_t)n);
  lki_sink_raw(sink, slot->data != NULL ? slot->data : "", slot->bytes);
  lki_sink_raw(sink, "\n", 1);
  if (stream->ranks > 0 && which == stream->ranks && slot->data != NULL && slot->bytes < LKI_LINE_BYTES_MAX) {
    slot->data[slot->bytes] = 0;
    lki_demux_look(stream, slot->data);
  }
  slot->bytes = 0;
  slot->cut = !whole;
}

/* \n ends a line, and so does \r, with which progress bars rewrite theirs; \r\n is one end, and \r alone no
 * empty line. */
void lki_stream_put(lki_stream *stream, size_t which, const char *data, size_t bytes) {
  lki_slot *slot = &stream->slots[which];
  if (slot->data == NULL && (slot->data = malloc(LKI_LINE_BYTES_MAX)) == NULL) return;
  for (size_t i = 0; i < bytes; i++) {
    char c = data[i];
    if (c == '\n') {
      if (!slot->after_return) print_slot(stream, which, true);
      slot->after_return = false;
      continue;
    }
    if (c == '\r') {
      if (slot->bytes > 0) {
        print_slot(stream, which, true);
        slot->after_return = true;
      }
      continue;
    }
    slot->after_return = false;
    if (slot->bytes == LKI_LINE_BYTES_MAX) print_slot(stream, which, false);
    slot->data[slot->bytes++] = c;
  }
}

bool lki_stream_read(lki_stream *stream) {
  char data[LKI_READ_BYTES];
  ssize_t n = read(stream->fd, data, sizeof data);
  if (n > 0) {
    if (stream->ranks > 0)
      lki_demux_put(stream, data, (size_t)n);
    else
      lki_stream_put(stream, 0, data, (size_t)n);
    return true;
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  close(stream->fd);
  stream->fd = -1;
  return false;
}

void lki_stream_finish(lki_stream *stream) {
  /* The writers are gone or, orphans of a killed keeper, about to go: what they wrote before is what a pipe holds. */
  const int held_bytes = stream->fd >= 0 ? fcntl(stream->fd, F_GETPIPE_SZ) : 0;
  int reads = held_bytes > 0 ? held_bytes / LKI_READ_BYTES + 1 : 1;
  /* A reader that sleeps through many restarts loses the last words of some, rather than that we grow without end. */
  while (stream->fd >= 0 && reads-- > 0 && stream->sink->bytes < LKI_SINK_BYTES_LAST && lki_stream_read(stream)) continue;
  if (stream->fd >= 0) close(stream->fd);
  stream->fd = -1;
  if (stream->ranks > 0) lki_demux_finish(stream);
  for (size_t i = 0; i <= stream->ranks; i++)
    if (stream->slots[i].bytes > 0) print_slot(stream, i, true);
  for (size_t i = 0; i <= stream->ranks; i++) stream->slots[i].cut = stream->slots[i].after_return = false;
}
