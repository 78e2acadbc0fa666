/* The objects by name; see table.h. Entries are kept in order of their names, also those of deleted objects, so that a
 * stale answer can be given about them. */
#include "table.h"
#include "text.h"
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct entry {
  char *name;
  blob *object;   /* NULL: not there */
  blob *previous; /* before the newest change */
  uint64_t changed;
} entry;

typedef struct late_put {
  struct late_put *next;
  char *name;
  blob *object;
  put_condition condition;
} late_put;

typedef struct part {
  struct part *next;
  char *label;
  blob *bytes;
} part;

typedef struct upload {
  struct upload *next;
  char *id, *name;
  part *parts;
} upload;

struct table {
  pthread_mutex_t lock;
  entry **entries;
  size_t count, capacity;
  uint64_t change_count;
  uint64_t upload_count;
  late_put *late;
  upload *uploads;
};

/* ---- blobs ---- */

blob *blob_new(size_t bytes) {
  blob *b = malloc(sizeof *b + bytes);
  if (b == NULL) abort();
  *b = (blob){.refs = 1, .bytes = bytes};
  return b;
}

blob *blob_keep(blob *b) {
  atomic_fetch_add(&b->refs, 1);
  return b;
}

void blob_drop(blob *b) {
  if (b != NULL && atomic_fetch_sub(&b->refs, 1) == 1) free(b);
}

void blob_seal(blob *b) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned digest_bytes = 0;
  EVP_Digest(b->data, b->bytes, digest, &digest_bytes, EVP_md5(), NULL);
  for (unsigned i = 0; i < 16; i++) snprintf(b->etag + 2 * i, 3, "%02x", digest[i]);
}

/* ---- objects ---- */

table *table_new(void) {
  table *t = must_alloc(sizeof *t);
  pthread_mutex_init(&t->lock, NULL);
  return t;
}

/* Index of the first entry whose name is not less. */
static size_t lower_bound(const table *t, const char *name) {
  size_t low = 0, high = t->count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (strcmp(t->entries[middle]->name, name) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

static entry *find(const table *t, const char *name) {
  const size_t at = lower_bound(t, name);
  return at < t->count && strcmp(t->entries[at]->name, name) == 0 ? t->entries[at] : NULL;
}

static entry *find_or_make(table *t, const char *name) {
  entry *e = find(t, name);
  if (e != NULL) return e;
  if (t->count == t->capacity) {
    t->capacity = t->capacity ? 2 * t->capacity : 64;
    t->entries = must_grow(t->entries, t->capacity * sizeof *t->entries);
  }
  const size_t at = lower_bound(t, name);
  memmove(t->entries + at + 1, t->entries + at, (t->count - at) * sizeof *t->entries);
  t->count++;
  e = must_alloc(sizeof *e);
  e->name = must_copy(name, strlen(name));
  return t->entries[at] = e;
}

/* Takes the reference of `object`. */
static void change(table *t, entry *e, blob *object) {
  blob_drop(e->previous);
  e->previous = e->object;
  e->object = object;
  e->changed = ++t->change_count;
}

static bool put_locked(table *t, const char *name, blob *b, put_condition condition) {
  const entry *old = find(t, name);
  const bool present = old != NULL && old->object != NULL;
  if ((condition == PUT_IF_ABSENT && present) || (condition == PUT_IF_PRESENT && !present)) return false;
  if (b->generation == 0) { /* bytes that are applied twice stay the same object */
    b->generation = 1000000000000000u + t->change_count;
    b->modified_unix_s = (int64_t)time(NULL);
    if (b->etag[0] == 0) snprintf(b->etag, sizeof b->etag, "0x%llX", (unsigned long long)b->generation);
  }
  change(t, find_or_make(t, name), blob_keep(b));
  return true;
}

bool table_put(table *t, const char *name, blob *b, put_condition condition) {
  pthread_mutex_lock(&t->lock);
  const bool done = put_locked(t, name, b, condition);
  pthread_mutex_unlock(&t->lock);
  return done;
}

static blob *get(table *t, const char *name, bool stale) {
  pthread_mutex_lock(&t->lock);
  const entry *e = find(t, name);
  blob *b = e == NULL ? NULL : stale ? e->previous : e->object;
  if (b != NULL) blob_keep(b);
  pthread_mutex_unlock(&t->lock);
  return b;
}

blob *table_get(table *t, const char *name) { return get(t, name, false); }
blob *table_get_stale(table *t, const char *name) { return get(t, name, true); }

bool table_remove(table *t, const char *name) {
  pthread_mutex_lock(&t->lock);
  entry *e = find(t, name);
  const bool present = e != NULL && e->object != NULL;
  if (present) change(t, e, NULL);
  pthread_mutex_unlock(&t->lock);
  return present;
}

void table_hold(table *t, const char *name, blob *b, put_condition condition) {
  late_put *late = must_alloc(sizeof *late);
  late->name = must_copy(name, strlen(name));
  late->object = blob_keep(b);
  late->condition = condition;
  pthread_mutex_lock(&t->lock);
  late->next = t->late;
  t->late = late;
  pthread_mutex_unlock(&t->lock);
}

static void late_free(late_put *late) {
  blob_drop(late->object);
  free(late->name);
  free(late);
}

void table_land(table *t, const char *name) {
  pthread_mutex_lock(&t->lock);
  for (late_put **at = &t->late; *at != NULL;) {
    late_put *late = *at;
    if (strcmp(late->name, name) != 0) {
      at = &late->next;
      continue;
    }
    *at = late->next;
    put_locked(t, name, late->object, late->condition);
    late_free(late);
  }
  pthread_mutex_unlock(&t->lock);
}

/* ---- listings ---- */

/* The change number from which on a stale listing does not see changes. */
static uint64_t horizon(const table *t, const table_query *query, size_t begin) {
  uint64_t limit = UINT64_MAX;
  for (unsigned i = 0; i < query->undo; i++) {
    uint64_t newest = 0;
    for (size_t at = begin; at < t->count; at++) {
      const entry *e = t->entries[at];
      if (strncmp(e->name, query->prefix, strlen(query->prefix)) != 0) break;
      if (e->changed < limit && e->changed > newest) newest = e->changed;
    }
    if (newest == 0) break;
    limit = newest;
  }
  return limit;
}

table_rows table_list(table *t, const table_query *query) {
  table_rows rows = {0};
  size_t capacity = 0;
  const size_t prefix_bytes = strlen(query->prefix);
  pthread_mutex_lock(&t->lock);
  const size_t begin = lower_bound(t, query->prefix);
  const uint64_t limit = horizon(t, query, begin);
  for (size_t at = begin; at < t->count; at++) {
    const entry *e = t->entries[at];
    if (strncmp(e->name, query->prefix, prefix_bytes) != 0) break;
    if (query->after != NULL && strcmp(e->name, query->after) <= 0) continue;
    if (query->from != NULL && strcmp(e->name, query->from) < 0) continue;
    blob *object = e->changed >= limit ? e->previous : e->object;
    if (object == NULL) continue;
    if (rows.count == query->max) {
      rows.more = true;
      break;
    }
    if (rows.count == capacity) {
      capacity = capacity ? 2 * capacity : 64;
      rows.at = must_grow(rows.at, capacity * sizeof *rows.at);
    }
    rows.at[rows.count++] = (table_row){must_copy(e->name, strlen(e->name)), blob_keep(object)};
  }
  pthread_mutex_unlock(&t->lock);
  return rows;
}

void table_rows_free(table_rows *rows) {
  for (size_t i = 0; i < rows->count; i++) {
    free(rows->at[i].name);
    blob_drop(rows->at[i].object);
  }
  free(rows->at);
  *rows = (table_rows){0};
}

/* ---- uploads ---- */

static upload *upload_find(const table *t, const char *id, const char *name) {
  upload *u = t->uploads;
  while (u != NULL && (strcmp(u->id, id) != 0 || strcmp(u->name, name) != 0)) u = u->next;
  return u;
}

static upload *upload_make(table *t, const char *id, const char *name) {
  upload *u = must_alloc(sizeof *u);
  u->id = must_copy(id, strlen(id));
  u->name = must_copy(name, strlen(name));
  u->next = t->uploads;
  return t->uploads = u;
}

void upload_begin(table *t, const char *name, char *id, size_t id_max) {
  pthread_mutex_lock(&t->lock);
  snprintf(id, id_max, "upload-%llu", (unsigned long long)++t->upload_count);
  upload_make(t, id, name);
  pthread_mutex_unlock(&t->lock);
}

bool upload_part(table *t, const char *id, const char *name, const char *label, blob *b, bool must_exist) {
  pthread_mutex_lock(&t->lock);
  upload *u = upload_find(t, id, name);
  if (u == NULL && !must_exist) u = upload_make(t, id, name);
  if (u != NULL) {
    part *p = u->parts;
    while (p != NULL && strcmp(p->label, label) != 0) p = p->next;
    if (p == NULL) {
      p = must_alloc(sizeof *p);
      p->label = must_copy(label, strlen(label));
      p->next = u->parts;
      u->parts = p;
    }
    blob_drop(p->bytes);
    p->bytes = blob_keep(b);
  }
  pthread_mutex_unlock(&t->lock);
  return u != NULL;
}

blob *upload_get(table *t, const char *id, const char *name, const char *label) {
  blob *b = NULL;
  pthread_mutex_lock(&t->lock);
  const upload *u = upload_find(t, id, name);
  for (const part *p = u != NULL ? u->parts : NULL; p != NULL; p = p->next)
    if (strcmp(p->label, label) == 0) b = blob_keep(p->bytes);
  pthread_mutex_unlock(&t->lock);
  return b;
}

bool upload_exists(table *t, const char *id, const char *name) {
  pthread_mutex_lock(&t->lock);
  const bool found = upload_find(t, id, name) != NULL;
  pthread_mutex_unlock(&t->lock);
  return found;
}

static void upload_free(upload *u) {
  while (u->parts != NULL) {
    part *p = u->parts;
    u->parts = p->next;
    blob_drop(p->bytes);
    free(p->label);
    free(p);
  }
  free(u->id);
  free(u->name);
  free(u);
}

bool upload_end(table *t, const char *id, const char *name) {
  pthread_mutex_lock(&t->lock);
  upload *u = upload_find(t, id, name);
  for (upload **at = &t->uploads; *at != NULL && u != NULL; at = &(*at)->next)
    if (*at == u) {
      *at = u->next;
      break;
    }
  pthread_mutex_unlock(&t->lock);
  if (u != NULL) upload_free(u);
  return u != NULL;
}

void upload_each(table *t, const char *prefix, upload_fn *fn, void *ctx) {
  pthread_mutex_lock(&t->lock);
  for (const upload *u = t->uploads; u != NULL; u = u->next)
    if (strncmp(u->name, prefix, strlen(prefix)) == 0) fn(ctx, u->id, u->name);
  pthread_mutex_unlock(&t->lock);
}

void table_clear(table *t) {
  pthread_mutex_lock(&t->lock);
  for (size_t i = 0; i < t->count; i++) {
    blob_drop(t->entries[i]->object);
    blob_drop(t->entries[i]->previous);
    free(t->entries[i]->name);
    free(t->entries[i]);
  }
  t->count = 0;
  while (t->late != NULL) {
    late_put *late = t->late;
    t->late = late->next;
    late_free(late);
  }
  while (t->uploads != NULL) {
    upload *u = t->uploads;
    t->uploads = u->next;
    upload_free(u);
  }
  pthread_mutex_unlock(&t->lock);
}
