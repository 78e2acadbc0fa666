/* Finding the newest version: from the view by a galloping probe, at first from a hint that is never trusted. Versions
 * are dense, so "v exists and v+1 does not" finds the end; what was found is believed only above the boundary. A LIST
 * is made only by an opener that finds its hint old. Errors leave the view where it was. */
#include "base/buffer.h"
#include "base/planted.h"
#include "format/names.h"
#include "log/state.h"
#include "store/checked.h"
#include <inttypes.h>

#define LIST_COUNT_MAX 1000u       /* keys of one page of any store */
#define LOOKS_MAX 4                /* before an attempt is made all the same: others commit faster than we can look */
#define MISSES_BETWEEN_CHECKS 8u /* refreshes that found nothing, to one look at the boundary */

typedef struct manifest_check {
  lki_log *log;
  uint64_t version;
  const char *name;
  lki_manifest *manifest;
} manifest_check;

static lake_status check_manifest(void *ctx, lake_bytes bytes, const lake_object_info *info, lake_error *err) {
  (void)info;
  manifest_check *c = ctx;
  lki_manifest *manifest = NULL;
  lake_status s = lki_manifest_decode(c->log->env, bytes, &c->log->schema->namespace_id, c->name, &manifest, err);
  if (s != LAKE_OK) return s;
  if (manifest->version != c->version) {
    s = lki_fail(err, LAKE_CORRUPT, "it holds version %" PRIu64, manifest->version);
    lki_manifest_release(manifest);
    return s;
  }
  c->manifest = manifest;
  return LAKE_OK;
}

lake_status lki_log_load(lki_log *log, uint64_t version, lake_deadline deadline, lki_manifest **out,
                         lake_error *err) {
  char name[LKI_NAME_BYTES];
  lki_name_manifest(name, version);
  lake_buffer bytes;
  lki_buffer_init(&bytes, log->env, LKI_MANIFEST_BYTES_MAX);
  manifest_check check = {log, version, name, NULL};
  lake_status s =
      lki_store_get_checked(log->store, name, lki_range_whole(), &bytes, check_manifest, &check, deadline, err);
  lki_buffer_free(&bytes);
  if (s == LAKE_OK) *out = check.manifest;
  return s;
}

void lki_log_advance(lki_log *log, lki_manifest *manifest) {
  lki_manifest *old = NULL;
  lki_lock(log->env, log->synced.lock);
  if (manifest->version > log->synced.view->version) {
    old = log->synced.view;
    log->synced.view = lki_manifest_retain(manifest);
  }
  lki_unlock(log->env, log->synced.lock);
  lki_manifest_release(old);
}

lki_manifest *lki_log_view(lki_log *log) {
  lki_lock(log->env, log->synced.lock);
  lki_manifest *view = lki_manifest_retain(log->synced.view);
  lki_unlock(log->env, log->synced.lock);
  return view;
}

/* The next request may be the one that shows where the versions end. */
static void note_look(lki_log *log) {
  lki_lock(log->env, log->synced.lock);
  log->synced.looked_ns = lki_now_ns(log->env);
  lki_unlock(log->env, log->synced.lock);
}

static lake_status exists(lki_log *log, uint64_t version, lake_deadline deadline, bool *yes, lake_error *err) {
  char name[LKI_NAME_BYTES];
  lki_name_manifest(name, version);
  lake_error local = LAKE_ERROR_INIT;
  note_look(log);
  lake_status s = lki_store_head(log->store, name, NULL, deadline, &local);
  *yes = s == LAKE_OK;
  if (s == LAKE_OK || s == LAKE_NOTFOUND) return LAKE_OK;
  lki_error_copy(err, &local);
  return s;
}

lake_status lki_log_gallop(lki_log *log, uint64_t from, lake_deadline deadline, uint64_t *newest, lake_error *err) {
  uint64_t low = from, high = 0; /* low exists; high does not, once it is set */
  for (uint64_t stride = 1; high == 0; stride *= 2) {
    bool yes = false;
    uint64_t probe = stride > UINT64_MAX - from ? UINT64_MAX : from + stride;
    lake_status s = exists(log, probe, deadline, &yes, err);
    if (s != LAKE_OK) return s;
    if (yes)
      low = probe;
    else
      high = probe;
  }
  while (high - low > 1) {
    bool yes = false;
    uint64_t mid = low + (high - low) / 2;
    lake_status s = exists(log, mid, deadline, &yes, err);
    if (s != LAKE_OK) return s;
    if (yes)
      low = mid;
    else
      high = mid;
  }
  *newest = low;
  return LAKE_OK;
}

lake_status lki_log_read_hint(lki_log *log, lake_deadline deadline, uint64_t *version) {
  lake_buffer bytes;
  lki_buffer_init(&bytes, log->env, 256);
  *version = 0;
  lake_status s = lki_store_get(log->store, LKI_NAME_HINT, lki_range_whole(), &bytes, NULL, deadline, NULL);
  if (s == LAKE_OK && lki_hint_decode(lki_buffer_view(&bytes), version, NULL) != LAKE_OK) *version = 0;
  lki_buffer_free(&bytes);
  return s == LAKE_TIMEOUT ? s : LAKE_OK; /* nothing else about the hint is an error */
}

typedef struct listing {
  uint64_t last;  /* version of the last manifest listed; 0: none */
  uint32_t count;
} listing;

static bool take_key(void *ctx, const char *key, uint64_t object_bytes) {
  (void)object_bytes;
  listing *l = ctx;
  uint64_t version = 0;
  if (!lki_name_manifest_parse(key, &version)) return true;
  l->last = version;
  return ++l->count < LIST_COUNT_MAX;
}

/* The last of a page of versions above `from`; from itself if there is none. *full: there may be more. */
static lake_status list_from(lki_log *log, uint64_t from, lake_deadline deadline, uint64_t *last, bool *full,
                             lake_error *err) {
  char name[LKI_NAME_BYTES];
  lki_name_manifest(name, from);
  listing l = {0, 0};
  lake_status s =
      lki_store_list(log->store, LKI_NAME_MANIFEST_PREFIX, name, take_key, &l, deadline, err);
  if (s != LAKE_OK) return s;
  *last = l.count > 0 ? l.last : from;
  *full = l.count == LIST_COUNT_MAX;
  return LAKE_OK;
}

/* The newest version, from one that exists and may be far behind: pages of a listing, with a wide gallop between the
 * first and the last so that their number grows only with the logarithm of the distance. */
static lake_status find_far(lki_log *log, uint64_t from, lake_deadline deadline, uint64_t *newest, lake_error *err) {
  bool full = false;
  uint64_t low = from;
  lake_status s = list_from(log, from, deadline, &low, &full, err);
  if (s != LAKE_OK || !full) {
    *newest = low;
    return s;
  }
  uint64_t high = 0;
  for (uint64_t stride = LIST_COUNT_MAX; high == 0; stride *= 4) {
    bool yes = false;
    const uint64_t probe = stride > UINT64_MAX - low ? UINT64_MAX : low + stride;
    if ((s = exists(log, probe, deadline, &yes, err)) != LAKE_OK) return s;
    if (!yes)
      high = probe;
    else
      low = probe;
  }
  while (high - low > LIST_COUNT_MAX) {
    bool yes = false;
    const uint64_t mid = low + (high - low) / 2;
    if ((s = exists(log, mid, deadline, &yes, err)) != LAKE_OK) return s;
    if (yes)
      low = mid;
    else
      high = mid;
  }
  return list_from(log, low, deadline, newest, &full, err);
}

/* Takes a loaded version as the view if it lives; else looks for the newest anew. */
static lake_status accept_or_jump(lki_log *log, lki_manifest *manifest, lake_deadline deadline, lake_error *err) {
  bool dead = false;
  lake_status s = lki_log_is_dead(log, manifest->version, deadline, &dead, err);
  if (s != LAKE_OK) return s;
  if (LKI_PLANTED(ALIVE_UNCHECKED_AFTER_LOAD)) dead = false;
  if (dead) return lki_log_jump(log, deadline, err);
  lki_log_advance(log, manifest);
  return LAKE_OK;
}

/* Nothing stands at `version`: that is "nothing new" only if its name is not a reclaimed one. */
static lake_status nothing_at(lki_log *log, uint64_t version, lake_deadline deadline, lake_error *err) {
  bool dead = false;
  lake_status s = lki_log_is_dead(log, version, deadline, &dead, err);
  if (LKI_PLANTED(MISSING_IS_NOTHING_NEW)) dead = false;
  return s == LAKE_OK && dead ? lki_log_jump(log, deadline, err) : s;
}

/* How to look for the newest version. */
typedef struct manner {
  bool use_hint;       /* begin where the hint says: it may be old, ahead, damaged or missing */
  bool may_list;       /* the distance may be large: LIST instead of galloping */
  bool check_boundary; /* ask whether an empty next name is a reclaimed one */
} manner;

/* Finds the newest version from `start`, which exists unless it is 0 or a hint that lies; `start + 1` was loaded. */
static lake_status find_from(lki_log *log, uint64_t next, bool may_list, lake_deadline deadline,
                             lki_manifest **manifest, lake_error *err) {
  uint64_t newest = next;
  lake_status s = may_list ? find_far(log, next, deadline, &newest, err) : lki_log_gallop(log, next, deadline, &newest, err);
  if (s != LAKE_OK || newest == next) return s;
  lki_manifest *newer = NULL;
  s = lki_log_load(log, newest, deadline, &newer, err);
  if (s != LAKE_OK) return s;
  lki_manifest_release(*manifest);
  *manifest = newer;
  return LAKE_OK;
}

static lake_status look(lki_log *log, uint64_t from, manner how, lake_deadline deadline, lake_error *err) {
  uint64_t start = from, hint = 0;
  lki_manifest *manifest = NULL;
  lake_error local = LAKE_ERROR_INIT;
  lake_status s = how.use_hint ? lki_log_read_hint(log, deadline, &hint) : LAKE_OK;
  if (s != LAKE_OK) return lki_fail(err, s, "reading %s: the deadline passed", LKI_NAME_HINT);
  if (hint > start && hint < UINT64_MAX) start = hint;
  note_look(log);
  s = lki_log_load(log, start + 1, deadline, &manifest, &local);
  if (s == LAKE_NOTFOUND && start == from)
    return how.check_boundary ? nothing_at(log, start + 1, deadline, err) : LAKE_OK;
  if (s == LAKE_NOTFOUND)
    s = lki_log_load(log, start, deadline, &manifest, &local);
  else if (s == LAKE_OK || s == LAKE_CORRUPT) {
    /* A damaged version is in nobody's way unless it is the newest. */
    lake_error beyond = LAKE_ERROR_INIT;
    lake_status found = find_from(log, start + 1, how.may_list, deadline, &manifest, &beyond);
    if (found != LAKE_OK) local = beyond;
    if (found != LAKE_OK || manifest != NULL) s = found;
  }
  if (s == LAKE_OK)
    s = accept_or_jump(log, manifest, deadline, err);
  else if (s == LAKE_NOTFOUND) /* the hint lied, or reclaim went by meanwhile */
    s = lki_log_jump(log, deadline, err);
  else {
    if (s == LAKE_CORRUPT) lki_error_prefix(&local, "the newest version cannot be read");
    lki_error_copy(err, &local);
  }
  lki_manifest_release(manifest);
  return s;
}

lake_status lki_log_refresh(lki_log *log, lake_deadline deadline, bool *changed, lake_error *err) {
  lki_lock(log->env, log->synced.lock);
  const uint64_t before = log->synced.view->version;
  const bool opened = log->synced.opened;
  /* A name that stays empty is looked up under the boundary now and then: a reader that fell behind must notice. A
   * reader that was far behind last time, as a writer among many is, begins at the hint. */
  const manner how = {.use_hint = !opened || log->synced.lag > 2,
                      .may_list = !opened,
                      .check_boundary = !opened || log->synced.miss_count % MISSES_BETWEEN_CHECKS == 1};
  lki_unlock(log->env, log->synced.lock);
  if (changed != NULL) *changed = false;
  lake_status s = look(log, before, how, deadline, err);
  if (s != LAKE_OK) return s;
  lki_lock(log->env, log->synced.lock);
  const bool moved = log->synced.view->version > before;
  log->synced.lag = log->synced.view->version - before;
  log->synced.opened = true;
  log->synced.miss_count = moved ? 0 : log->synced.miss_count + 1;
  lki_unlock(log->env, log->synced.lock);
  if (changed != NULL) *changed = moved;
  return LAKE_OK;
}

lake_status lki_log_look(lki_log *log, lake_deadline deadline, uint64_t *looked_ns, lake_error *err) {
  bool moved = true;
  lake_status s = LAKE_OK;
  for (int i = 0; i < LOOKS_MAX && moved && s == LAKE_OK; i++) s = lki_log_refresh(log, deadline, &moved, err);
  lki_lock(log->env, log->synced.lock);
  if (s == LAKE_OK) *looked_ns = log->synced.looked_ns;
  lki_unlock(log->env, log->synced.lock);
  return s;
}

/* A listing may be behind what is there: only the name itself tells whether it is empty. */
static lake_status look_beyond_list(lki_log *log, lake_deadline deadline, lake_error *err) {
  lki_manifest *view = lki_log_view(log);
  const uint64_t listed = view->version;
  lki_manifest_release(view);
  const manner by_name = {.use_hint = false, .may_list = false, .check_boundary = true};
  return look(log, listed, by_name, deadline, err);
}

lake_status lki_log_catch_up(lki_log *log, lake_deadline deadline, lake_error *err) {
  lki_lock(log->env, log->synced.lock);
  const bool opened = log->synced.opened;
  const manner how = {.use_hint = !opened || log->synced.lag > 2, .may_list = !opened, .check_boundary = true};
  lki_unlock(log->env, log->synced.lock);
  for (int i = 0; i < 3; i++) { /* reclaim may overtake a slow reader once; thrice is a fault */
    lki_manifest *view = lki_log_view(log);
    const uint64_t before = view->version;
    lki_manifest_release(view);
    lake_status s = look(log, before, how, deadline, err);
    if (s == LAKE_OK && how.may_list) s = look_beyond_list(log, deadline, err);
    if (s != LAKE_OK) return s;
    view = lki_log_view(log);
    const uint64_t after = view->version;
    lki_manifest_release(view);
    /* The name after the view was seen empty during this call. It was not yet used, rather than used and deleted, if
     * its block lives even now: blocks die in order, and before any of their names is deleted. */
    bool dead = false;
    s = lki_log_is_dead(log, after + 1, deadline, &dead, err);
    if (s != LAKE_OK) return s;
    if (dead) continue;
    lki_lock(log->env, log->synced.lock);
    log->synced.opened = true;
    if (after > before) log->synced.miss_count = 0;
    lki_unlock(log->env, log->synced.lock);
    return LAKE_OK;
  }
  return lki_fail(err, LAKE_UNAVAILABLE, "%s: the newest version moves faster than it can be read; try again",
                  lki_store_url(log->store));
}
