/* What `mpirun --tag-output` writes, back into one source per rank. Open MPI 4.1 puts "[job,rank]<stdout>:"
 * before every chunk and after every line end, so a tag may also stand in the middle of a line, after another
 * rank's unfinished one. What follows a line end without a tag is mpirun's own. A tag may be split between
 * two reads. */
#include "output.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Does the text begin a tag? Returns its bytes when it is one, 0 when it cannot become one, -1 when more is
 * needed. */
static int tag_of(const char *text, size_t bytes, size_t *rank) {
  static const char *const ends[] = {"]<stdout>:", "]<stderr>:"};
  size_t i = 0, value = 0;
  if (i < bytes && text[i] != '[') return 0;
  i++;
  for (int number = 0; number < 2; number++) {
    size_t first = i;
    value = 0;
    while (i < bytes && isdigit((unsigned char)text[i]) && i - first < 9)
      value = value * 10 + (size_t)(text[i++] - '0');
    if (i >= bytes) return -1;
    if (i == first) return 0;
    if (number == 0 && text[i++] != ',') return 0;
  }
  for (size_t k = 0; k < 2; k++) {
    size_t end = strlen(ends[k]), have = bytes - i < end ? bytes - i : end;
    if (memcmp(text + i, ends[k], have) != 0) continue;
    *rank = value;
    return have == end ? (int)(i + end) : -1;
  }
  return 0;
}

/* Bytes without a tag in them: up to a line end they belong to the current slot. */
static void plain(lki_stream *stream, const char *data, size_t bytes) {
  while (bytes > 0) {
    const char *end = memchr(data, '\n', bytes);
    size_t part = end != NULL ? (size_t)(end - data) + 1 : bytes;
    lki_stream_put(stream, stream->current, data, part);
    if (end != NULL) stream->current = stream->ranks;
    data += part;
    bytes -= part;
  }
}

void lki_demux_put(lki_stream *stream, const char *data, size_t bytes) {
  while (bytes > 0) {
    if (stream->tag_bytes == 0) {
      const char *start = memchr(data, '[', bytes);
      size_t before = start != NULL ? (size_t)(start - data) : bytes;
      plain(stream, data, before);
      data += before;
      bytes -= before;
      if (bytes == 0) return;
    }
    stream->tag[stream->tag_bytes++] = *data++;
    bytes--;
    size_t rank = 0;
    int tag = tag_of(stream->tag, stream->tag_bytes, &rank);
    if (tag > 0) {
      stream->current = rank < stream->ranks ? rank : stream->ranks;
      stream->tag_bytes = 0;
    } else if (tag == 0 || stream->tag_bytes == sizeof stream->tag) {
      /* The last byte may itself begin a tag. */
      bool again = stream->tag_bytes > 1 && stream->tag[stream->tag_bytes - 1] == '[';
      plain(stream, stream->tag, stream->tag_bytes - (again ? 1 : 0));
      stream->tag_bytes = again ? 1 : 0;
      stream->tag[0] = '[';
    }
  }
}

void lki_demux_finish(lki_stream *stream) {
  plain(stream, stream->tag, stream->tag_bytes);
  stream->tag_bytes = 0;
  stream->current = stream->ranks;
}

void lki_demux_look(lki_stream *stream, const char *line) {
  const char *at = strstr(line, "process rank ");
  int rank = -1;
  if (stream->failed_rank >= 0) return;
  if (at != NULL && sscanf(at, "process rank %d with PID", &rank) != 1) rank = -1;
  at = strstr(line, "Process name: [[");
  if (at != NULL && sscanf(at, "Process name: [[%*d,%*d],%d]", &rank) != 1) rank = -1;
  if (rank >= 0 && (size_t)rank < stream->ranks) stream->failed_rank = rank;
}
