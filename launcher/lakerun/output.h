/* Output: the bytes of many pipes become whole, prefixed lines on our standard output and error.
 *
 * A sink is one of our two descriptors with a bounded queue before it; it is written only when poll says so,
 * and never more at once than a pipe takes, so a reader that stopped reading cannot stop the supervision:
 * when a queue is full, the children's pipes are left unread until it empties. A sink whose reader is gone
 * swallows everything.
 *
 * A stream is one pipe of a unit. It holds one unfinished line per source: one, or one per rank behind
 * mpirun. */
#ifndef LAKERUN_OUTPUT_H
#define LAKERUN_OUTPUT_H

#include <lakestream/base.h>

#define LKI_LINE_BYTES_MAX ((size_t)16384)   /* a longer line is cut into pieces, each marked + */
#define LKI_SINK_BYTES_MAX ((size_t)1 << 20)  /* above this the children wait */
#define LKI_SINK_BYTES_LAST ((size_t)1 << 23) /* above this the output of those that have ended is lost */

typedef struct lki_sink {
  int fd;
  bool colour;
  bool gone;
  char *data;
  size_t bytes;
  size_t capacity;
} lki_sink;

void lki_sink_init(lki_sink *sink, int fd);
void lki_sink_free(lki_sink *sink);
bool lki_sink_full(const lki_sink *sink);
/* One write of what a pipe surely takes; call it when poll said POLLOUT or an error. */
void lki_sink_write(lki_sink *sink);
/* One line of ours: "lakerun: ...". */
void lki_sink_say(lki_sink *sink, const char *format, ...) LAKE_PRINTF(2, 3);
void lki_sink_raw(lki_sink *sink, const char *text, size_t bytes);

/* An unfinished line. */
typedef struct lki_slot {
  char *data; /* LKI_LINE_BYTES_MAX bytes, once something came */
  size_t bytes;
  bool cut;          /* the line began in an earlier piece */
  bool after_return; /* the last line ended with \r: a \n now belongs to it */
} lki_slot;

#define LKI_TAG_BYTES_MAX 40

typedef struct lki_stream {
  int fd; /* -1: closed */
  lki_sink *sink;
  const char *role;
  char mark; /* | for standard output, ! for standard error */
  unsigned colour;
  long index;                  /* of the unit, or -1 when the label is the role alone */
  size_t ranks;                /* 0: not behind mpirun */
  lki_slot *slots;             /* one; or for each rank one, then mpirun's own */
  size_t current;              /* slot that the next byte belongs to */
  char tag[LKI_TAG_BYTES_MAX]; /* the beginning of what may be a tag */
  size_t tag_bytes;
  long failed_rank; /* the rank that mpirun named as the first to fail, or -1 */
} lki_stream;

/* False: no memory. */
bool lki_stream_init(lki_stream *stream, lki_sink *sink, const char *role, unsigned colour, char mark,
                     long index, size_t ranks);
void lki_stream_free(lki_stream *stream);
/* Reads once from fd. False: there is no more for now, or ever (then fd is -1). */
bool lki_stream_read(lki_stream *stream);
/* Prints what the pipe holds and what is unfinished, and closes. The writers are gone or ending: no more than a pipeful
 * is read. */
void lki_stream_finish(lki_stream *stream);

/* For the demultiplexer: bytes of one source; and mpirun's own complete line. */
void lki_stream_put(lki_stream *stream, size_t slot, const char *data, size_t bytes);
/* Bytes of mpirun --tag-output, split by its tags "[1,R]<stdout>:". */
void lki_demux_put(lki_stream *stream, const char *data, size_t bytes);
void lki_demux_finish(lki_stream *stream);
/* Finds the rank that one of mpirun's own lines blames. */
void lki_demux_look(lki_stream *stream, const char *line);

#endif
