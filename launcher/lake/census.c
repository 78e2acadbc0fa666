/* The census. Versions and boundary marks are kept as runs, so memory grows with the holes and not with the history.
 * What hint, segments, pins and TGBs know beyond the manifest known at the start is kept as a clue and judged by the
 * manifest found at the end. */
#include "census.h"
#include "base/env.h"
#include "format/names.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RUN_COUNT_MAX ((size_t)1 << 20)
#define CLUE_COUNT_MAX 1000u /* lines are for people: the first ones tell */
#define PIN_BYTES_MAX 65536

typedef struct run {
  uint64_t first, last;
} run;

typedef struct run_list {
  run *items; /* ascending, never touching */
  size_t count, capacity;
} run_list;

typedef enum clue_kind { CLUE_VERSION, CLUE_STEP, CLUE_EPOCH } clue_kind;

/* An object that could only be written when a version like this was there. */
typedef struct clue {
  clue_kind kind;
  uint64_t need; /* version, steps in all, or epoch of the producer in the key */
  char key[LKI_NAME_BYTES];
} clue;

struct lki_census {
  lki_cli *cli;
  lake_namespace *ns;
  lki_manifest *known; /* when it began */
  run_list versions, marks;
  clue *clues;
  uint32_t clue_count;
  bool no_memory, too_many;
};

/* ---- runs ---- */

static void add_to_runs(lki_census *c, run_list *list, uint64_t value) {
  if (list->count > 0 && value == list->items[list->count - 1].last + 1) {
    list->items[list->count - 1].last = value;
    return;
  }
  if (list->count == list->capacity) {
    size_t capacity = list->capacity == 0 ? 16 : list->capacity * 2;
    run *items = capacity > RUN_COUNT_MAX ? NULL : lki_alloc(c->cli->env, capacity * sizeof *items);
    c->too_many |= capacity > RUN_COUNT_MAX;
    c->no_memory |= items == NULL;
    if (items == NULL) return;
    if (list->count > 0) memcpy(items, list->items, list->count * sizeof *items);
    lki_free(c->cli->env, list->items);
    list->items = items;
    list->capacity = capacity;
  }
  list->items[list->count++] = (run){value, value};
}

/* Index of the first run that ends at or after value; the count if there is none. */
static size_t find_run(const run_list *list, uint64_t value) {
  size_t low = 0, high = list->count;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    if (list->items[mid].last < value)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static bool is_dead(const lki_census *c, uint64_t version) {
  uint64_t block = version / c->ns->schema->version_block;
  size_t at = find_run(&c->marks, block);
  return at < c->marks.count && c->marks.items[at].first <= block;
}

bool lki_census_before(const lki_census *census, uint64_t *version) {
  const uint64_t below = *version;
  size_t at = below == 0 ? 0 : find_run(&census->versions, below - 1);
  uint64_t v = 0;
  if (below > 0 && at < census->versions.count && census->versions.items[at].first < below)
    v = below - 1;
  else if (at > 0)
    v = census->versions.items[at - 1].last;
  /* Blocks die in order: below a dead version everything is. */
  if (v == 0 || is_dead(census, v)) return false;
  *version = v;
  return true;
}

/* ---- taking it ---- */

static void add_clue(lki_census *c, clue_kind kind, uint64_t need, const char *key) {
  if (c->clue_count == CLUE_COUNT_MAX) return;
  clue *u = &c->clues[c->clue_count++];
  *u = (clue){.kind = kind, .need = need};
  snprintf(u->key, sizeof u->key, "%s", key);
}

static bool on_manifest(void *ctx, const char *key, uint64_t object_bytes) {
  lki_census *c = ctx;
  uint64_t version = 0;
  (void)object_bytes;
  if (lki_name_manifest_parse(key, &version) && version > 0) add_to_runs(c, &c->versions, version);
  return !c->no_memory;
}

static bool on_mark(void *ctx, const char *key, uint64_t object_bytes) {
  lki_census *c = ctx;
  char again[LKI_NAME_BYTES];
  uint64_t block = 0;
  (void)object_bytes;
  if (sscanf(key, "boundary/%20" SCNu64, &block) != 1) return true;
  lki_name_boundary(again, block);
  if (strcmp(again, key) != 0) return true;
  add_to_runs(c, &c->marks, block);
  return !c->no_memory;
}

static bool on_segment(void *ctx, const char *key, uint64_t object_bytes) {
  lki_census *c = ctx;
  lki_segment_ref ref;
  (void)object_bytes;
  if (lki_name_segment_parse(key, &ref) && ref.version > c->known->version) add_clue(c, CLUE_VERSION, ref.version, key);
  return true;
}

static uint64_t known_epoch(const lki_manifest *m, const char *producer_id) {
  const int64_t at = lki_manifest_find_producer(m, producer_id);
  return at < 0 ? 0 : m->producers[at].epoch;
}

/* One clue for each producer is enough: the one with its newest epoch. */
static bool on_tgb(void *ctx, const char *key, uint64_t object_bytes) {
  lki_census *c = ctx;
  char id[LKI_PRODUCER_ID_BYTES_MAX + 1], other[LKI_PRODUCER_ID_BYTES_MAX + 1];
  uint64_t epoch = 0, seq = 0, e = 0, q = 0;
  (void)object_bytes;
  if (!lki_name_tgb_parse(key, id, &epoch, &seq) || epoch <= known_epoch(c->known, id)) return true;
  for (uint32_t i = 0; i < c->clue_count; i++) {
    clue *u = &c->clues[i];
    if (u->kind != CLUE_EPOCH || !lki_name_tgb_parse(u->key, other, &e, &q) || strcmp(other, id) != 0) continue;
    if (epoch > u->need) {
      u->need = epoch;
      snprintf(u->key, sizeof u->key, "%s", key);
    }
    return true;
  }
  add_clue(c, CLUE_EPOCH, epoch, key);
  return true;
}

typedef struct pin_list {
  lki_census *census;
  lake_status status;
  lake_error *err;
} pin_list;

/* A pin that went away meanwhile is none; one that cannot be decoded tells nothing here. */
static bool on_pin(void *ctx, const char *key, uint64_t object_bytes) {
  pin_list *l = ctx;
  lki_census *c = l->census;
  lki_pin pin;
  lake_buffer bytes;
  lake_error local = LAKE_ERROR_INIT;
  if (object_bytes > PIN_BYTES_MAX) return true;
  lki_buffer_init(&bytes, c->cli->env, PIN_BYTES_MAX);
  lake_status s =
      lki_store_get(c->ns->store, key, lki_range_whole(), &bytes, NULL, lki_cli_deadline(c->cli), &local);
  if (s == LAKE_OK && lki_pin_decode(lki_buffer_view(&bytes), key, &pin, NULL) == LAKE_OK &&
      lki_id_equal(pin.namespace_id, c->ns->schema->namespace_id)) {
    if (pin.version > c->known->version)
      add_clue(c, CLUE_VERSION, pin.version, key);
    else if (pin.step > c->known->next_step)
      add_clue(c, CLUE_STEP, pin.step, key);
  }
  lki_buffer_free(&bytes);
  if (s == LAKE_OK || s == LAKE_NOTFOUND) return true;
  l->status = s;
  lki_error_copy(l->err, &local);
  return false;
}

static lake_status read_hint(lki_census *c, lake_error *err) {
  uint64_t version = 0;
  lake_buffer bytes;
  lki_buffer_init(&bytes, c->cli->env, 256);
  lake_error local = LAKE_ERROR_INIT;
  lake_status s =
      lki_store_get(c->ns->store, LKI_NAME_HINT, lki_range_whole(), &bytes, NULL, lki_cli_deadline(c->cli), &local);
  if (s == LAKE_OK && lki_hint_decode(lki_buffer_view(&bytes), &version, NULL) == LAKE_OK &&
      version > c->known->version)
    add_clue(c, CLUE_VERSION, version, LKI_NAME_HINT);
  lki_buffer_free(&bytes);
  if (s == LAKE_TIMEOUT || s == LAKE_UNAVAILABLE || s == LAKE_DENIED) {
    lki_error_copy(err, &local);
    return s;
  }
  return LAKE_OK;
}

static lake_status list_all(lki_census *c, lake_error *err) {
  pin_list pins = {c, LAKE_OK, err};
  /* Manifests before marks: a name that was seen missing because it is reclaimed has its mark by then. */
  const struct {
    const char *prefix;
    lake_list_fn *fn;
    void *ctx;
  } lists[] = {{LKI_NAME_MANIFEST_PREFIX, on_manifest, c},
               {"boundary/", on_mark, c},
               {"segment/", on_segment, c},
               {"data/", on_tgb, c},
               {"watermark/", on_pin, &pins}};
  lake_status s = LAKE_OK;
  for (size_t i = 0; s == LAKE_OK && i < sizeof lists / sizeof lists[0]; i++) {
    lki_cli_progress(c->cli, "verify: listing %s", lists[i].prefix);
    s = lki_store_list(c->ns->store, lists[i].prefix, NULL, lists[i].fn, lists[i].ctx, lki_cli_deadline(c->cli), err);
  }
  if (s == LAKE_OK) s = pins.status;
  if (s == LAKE_OK) s = read_hint(c, err);
  if (s == LAKE_OK && c->too_many)
    return lki_fail(err, LAKE_UNSUPPORTED, "manifest/ or boundary/ has more than %zu holes", RUN_COUNT_MAX / 2);
  if (s == LAKE_OK && c->no_memory) return lki_fail(err, LAKE_NOMEM, "no memory for a census of the versions");
  if (s == LAKE_OK && c->marks.count > 0) {
    char name[LKI_NAME_BYTES];
    const uint64_t block = c->marks.items[c->marks.count - 1].last, size = c->ns->schema->version_block;
    lki_name_boundary(name, block);
    /* The newest version is never reclaimed, so there was one above every mark. */
    if (block < UINT64_MAX / size - 1 && (block + 1) * size > c->known->version)
      add_clue(c, CLUE_VERSION, (block + 1) * size, name);
  }
  return s;
}

lake_status lki_census_take(lki_cli *cli, lake_namespace *ns, lki_census **out, lake_error *err) {
  lki_census *c = lki_new(cli->env, sizeof *c);
  if (c == NULL) return lki_fail(err, LAKE_NOMEM, "no memory for a census of the versions");
  c->cli = cli;
  c->ns = ns;
  c->known = lki_log_view(ns->log);
  c->clues = lki_new(cli->env, sizeof *c->clues * CLUE_COUNT_MAX);
  lake_status s = c->clues == NULL ? lki_fail(err, LAKE_NOMEM, "no memory for a census of the versions")
                                   : list_all(c, err);
  if (s == LAKE_OK)
    *out = c;
  else
    lki_census_free(c);
  return s;
}

void lki_census_free(lki_census *census) {
  if (census == NULL) return;
  lake_env *env = census->cli->env;
  lki_manifest_release(census->known);
  lki_free(env, census->versions.items);
  lki_free(env, census->marks.items);
  lki_free(env, census->clues);
  lki_free(env, census);
}

/* ---- judging ---- */

typedef struct judge {
  const lki_census *c;
  const lki_manifest *newest;
  lki_census_fault_fn *fault;
  void *ctx;
} judge;

/* A version that is not there though `why`, which may stand between two versions or behind the newest. */
static void report(const judge *j, uint64_t first, const char *why, bool behind) {
  char name[LKI_NAME_BYTES], means[200];
  lki_name_manifest(name, first);
  if (behind)
    snprintf(means, sizeof means, "whatever was committed after version %" PRIu64 " is lost to readers; restore the object",
             j->newest->version);
  else
    snprintf(means, sizeof means, "a reader that stands before it sees nothing newer; restore the object");
  j->fault(j->ctx, "manifest", name, why, means);
}

/* A listing is no snapshot: only what is still missing is missing. */
static lake_status still_missing(const judge *j, uint64_t version, bool *yes, lake_error *err) {
  char name[LKI_NAME_BYTES];
  lake_error local = LAKE_ERROR_INIT;
  lki_name_manifest(name, version);
  lake_status s = lki_store_head(j->c->ns->store, name, NULL, lki_cli_deadline(j->c->cli), &local);
  *yes = s == LAKE_NOTFOUND;
  if (s == LAKE_OK || s == LAKE_NOTFOUND) return LAKE_OK;
  lki_error_copy(err, &local);
  return s;
}

/* Versions first .. last were not listed, but the one after them was: those above the boundary must be there. */
static lake_status judge_hole(const judge *j, uint64_t first, uint64_t last, lake_error *err) {
  const uint64_t size = j->c->ns->schema->version_block;
  const run_list *marks = &j->c->marks;
  while (first <= last) {
    const uint64_t block = first / size;
    const size_t at = find_run(marks, block);
    uint64_t end = last;
    if (at < marks->count && marks->items[at].first <= block) { /* reclaimed */
      if (marks->items[at].last >= last / size) return LAKE_OK;
      first = (marks->items[at].last + 1) * size;
      continue;
    }
    if (at < marks->count && marks->items[at].first <= last / size) end = marks->items[at].first * size - 1;
    bool missing = false;
    lake_status s = still_missing(j, first, &missing, err);
    if (s == LAKE_OK && !missing) s = still_missing(j, end, &missing, err);
    if (s != LAKE_OK) return s;
    char why[120];
    if (first == end)
      snprintf(why, sizeof why, "it is missing, yet version %" PRIu64 " is there", last + 1);
    else
      snprintf(why, sizeof why, "it and all to version %" PRIu64 " are missing, yet version %" PRIu64 " is there", end,
               last + 1);
    if (missing) report(j, first, why, last + 1 > j->newest->version);
    first = end + 1;
  }
  return LAKE_OK;
}

static void judge_clue(const judge *j, const clue *u) {
  const lki_manifest *m = j->newest;
  char why[LKI_NAME_BYTES + 160], id[LKI_PRODUCER_ID_BYTES_MAX + 1] = "";
  uint64_t epoch = 0, seq = 0;
  switch (u->kind) {
  case CLUE_VERSION:
    if (u->need <= m->version) return;
    snprintf(why, sizeof why, "it is missing, yet %s knows of version %" PRIu64, u->key, u->need);
    break;
  case CLUE_STEP:
    if (u->need <= m->next_step) return;
    snprintf(why, sizeof why, "it is missing, yet %s needs step %" PRIu64 " and %" PRIu64 " are committed", u->key,
             u->need, m->next_step);
    break;
  case CLUE_EPOCH:
    (void)lki_name_tgb_parse(u->key, id, &epoch, &seq);
    if (u->need <= known_epoch(m, id)) return;
    snprintf(why, sizeof why, "it is missing, yet %s is of an epoch that no version before claims", u->key);
    break;
  }
  report(j, m->version + 1, why, true);
}

lake_status lki_census_check(const lki_census *census, const lki_manifest *newest, lki_census_fault_fn *fault,
                             void *ctx, lake_error *err) {
  const judge j = {census, newest, fault, ctx};
  const run_list *versions = &census->versions;
  uint64_t due = 1;
  for (size_t i = 0; i < versions->count; i++) {
    lake_status s = due < versions->items[i].first ? judge_hole(&j, due, versions->items[i].first - 1, err) : LAKE_OK;
    if (s != LAKE_OK) return s;
    due = versions->items[i].last + 1;
  }
  for (uint32_t i = 0; i < census->clue_count; i++) judge_clue(&j, &census->clues[i]);
  return LAKE_OK;
}
