/* The objects: names ("bucket/key") to immutable bytes, with a create-if-absent that is exact however many threads
 * race. Also what is not yet an object: puts that land late, parts of multipart uploads, uncommitted blocks. All
 * functions take the table's lock themselves and may be called from any thread; a blob never changes once it is in a
 * table and is counted by references. */
#ifndef FAULTD_TABLE_H
#define FAULTD_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct blob {
  atomic_uint refs;
  size_t bytes;
  uint64_t generation;   /* set when it becomes an object, unique and growing */
  int64_t modified_unix_s;
  char etag[64];         /* without quotes; made of the generation where nobody set it before */
  unsigned char data[];
} blob;

blob *blob_new(size_t bytes); /* one reference, bytes not set */
blob *blob_keep(blob *b);
void blob_drop(blob *b); /* NULL is fine */
/* Sets the ETag to the MD5 of the bytes. */
void blob_seal(blob *b);

typedef struct table table;
table *table_new(void);

typedef enum put_condition { PUT_ALWAYS, PUT_IF_ABSENT, PUT_IF_PRESENT } put_condition;

/* False when the condition refused it; the table takes a reference of its own otherwise. */
bool table_put(table *t, const char *name, blob *b, put_condition condition);
blob *table_get(table *t, const char *name);       /* a reference, or NULL */
blob *table_get_stale(table *t, const char *name); /* what the newest change of this name replaced, or NULL */
bool table_remove(table *t, const char *name);     /* whether it was there */
void table_clear(table *t);

/* A put that is applied by table_land, by its condition, once somebody has been told that the name is not there. */
void table_hold(table *t, const char *name, blob *b, put_condition condition);
void table_land(table *t, const char *name);

typedef struct table_row {
  char *name;
  blob *object;
} table_row;

typedef struct table_rows {
  table_row *at;
  size_t count;
  bool more; /* there are rows after the last one */
} table_rows;

/* Rows whose name begins with prefix, is greater than after (NULL: from the first) or, where from is set, not less; at
 * most max. The newest `undo` changes under the prefix are not seen yet: a stale listing. */
typedef struct table_query {
  const char *prefix, *after, *from;
  size_t max;
  unsigned undo;
} table_query;
table_rows table_list(table *t, const table_query *query);
void table_rows_free(table_rows *rows);

/* ---- uploads: parts by label (a part number, a block id) under an id of their own ---- */

/* A fresh id for this name, in static storage of the upload; NULL from the others when there is no such upload. */
void upload_begin(table *t, const char *name, char *id, size_t id_max);
/* Under this id, begun before where must_exist is set and made when it is not there otherwise. */
bool upload_part(table *t, const char *id, const char *name, const char *label, blob *b, bool must_exist);
blob *upload_get(table *t, const char *id, const char *name, const char *label); /* a reference, or NULL */
bool upload_exists(table *t, const char *id, const char *name);
bool upload_end(table *t, const char *id, const char *name); /* forgets it; whether it was there */
typedef void upload_fn(void *ctx, const char *id, const char *name);
void upload_each(table *t, const char *prefix, upload_fn *fn, void *ctx); /* fn is called under the lock */

#endif
