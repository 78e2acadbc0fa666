/* A feeder's input: files and folders as one ordered list of documents.
 *
 * Every regular file below the given paths, in byte order of the path, is the list; ".jsonl" and ".jsonl.gz" hold one
 * document a line, anything else is one document. Each document has an ordinal, counted over the whole list whether or
 * not it turns out to be usable, so that feeder i of n takes ordinals i, i+n, ... without reading the others' bytes.
 * A place names a document by file and byte, so a restart goes straight to it. One thread at a time. */
#ifndef LKI_FEED_INPUT_H
#define LKI_FEED_INPUT_H

#include "base/error.h"
#include <lakestream/base.h>

#define LKI_INPUT_FILE_COUNT_MAX ((size_t)1 << 24)
#define LKI_INPUT_DEPTH_MAX 256
#define LKI_INPUT_DOCUMENT_BYTES_MAX ((size_t)1 << 30)

typedef struct lki_input lki_input;

typedef struct lki_input_options {
  const char *field;    /* of a JSON line that holds the text; NULL: "text" */
  bool invalid_replace; /* bytes that are not UTF-8 become U+FFFD; else such a document is skipped */
  uint64_t index;       /* of this feeder */
  uint64_t count;       /* of feeders */
  size_t document_bytes_max; /* 0: LKI_INPUT_DOCUMENT_BYTES_MAX; a longer document is skipped */
  void (*warn)(void *ctx, const char *line); /* one call per document or link skipped; NULL: none */
  void *ctx;
} lki_input_options;

/* Where a document begins. */
typedef struct lki_input_place {
  uint64_t file;    /* index in the list */
  uint64_t ordinal; /* of the next document */
  uint64_t at;      /* byte in the (decompressed) file */
} lki_input_place;

typedef struct lki_document {
  lki_input_place place;
  lake_bytes text; /* borrowed until the next call */
} lki_document;

typedef struct lki_input_counts {
  uint64_t document_count; /* delivered */
  uint64_t empty_count;    /* own documents without a byte: nothing to learn from, passed over silently */
  uint64_t skipped_count;  /* own documents that could not be used: not UTF-8, not JSON, no such field, too long */
  uint64_t replaced_count; /* own documents in which bytes were replaced */
} lki_input_counts;

/* Lists the files. INVALID: no files, or a path that is neither file nor folder; NOTFOUND: no such path. */
lake_status lki_input_open(const char *const *paths, size_t path_count, const lki_input_options *options,
                           lki_input **out, lake_error *err);
void lki_input_close(lki_input *input); /* NULL accepted */

/* The next own document at or after the present place. END: no more. CORRUPT: a compressed file is damaged;
 * UNAVAILABLE or DENIED: a file cannot be read. */
lake_status lki_input_next(lki_input *input, lki_document *document, lake_error *err);
/* Where the document after the last one begins. */
lki_input_place lki_input_place_get(const lki_input *input);
/* Go to a place that lki_input_next or lki_input_place_get gave. INVALID: it lies outside the list. */
lake_status lki_input_seek(lki_input *input, lki_input_place place, lake_error *err);

/* Hash of the list: every path with its size. A changed input has another hash. */
uint64_t lki_input_hash(const lki_input *input);
size_t lki_input_file_count(const lki_input *input);
lki_input_counts lki_input_counts_get(const lki_input *input);

#endif
