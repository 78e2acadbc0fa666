/* Finding the newest version without a LIST: a hint that is never trusted, then a galloping probe. Versions are dense,
 * so "v exists and v+1 does not" finds the end. Errors leave the view where it was. */
#include "base/buffer.h"
#include "format/names.h"
#include "log/state.h"
#include "store/checked.h"
#include <inttypes.h>

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
    s = lki_fail(err, LAKE_CORRUPT, "it holds version %" PRIu64 "; restore the object", manifest->version);
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

/* Loads a version and makes it the view. NOTFOUND leaves *err alone: the caller expects it. */
static lake_status step_to(lki_log *log, uint64_t version, lake_deadline deadline, lake_error *err) {
  lki_manifest *manifest = NULL;
  lake_error local = LAKE_ERROR_INIT;
  lake_status s = lki_log_load(log, version, deadline, &manifest, &local);
  if (s == LAKE_OK) lki_log_advance(log, manifest);
  if (s != LAKE_OK && s != LAKE_NOTFOUND) lki_error_copy(err, &local);
  lki_manifest_release(manifest);
  return s;
}

static lake_status exists(lki_log *log, uint64_t version, lake_deadline deadline, bool *yes, lake_error *err) {
  char name[LKI_NAME_BYTES];
  lki_name_manifest(name, version);
  lake_error local = LAKE_ERROR_INIT;
  lake_status s = lki_store_head(log->store, name, NULL, deadline, &local);
  *yes = s == LAKE_OK;
  if (s == LAKE_OK || s == LAKE_NOTFOUND) return LAKE_OK;
  lki_error_copy(err, &local);
  return s;
}

/* The last existing version above `from`, which exists (or is 0). */
static lake_status gallop(lki_log *log, uint64_t from, lake_deadline deadline, uint64_t *newest, lake_error *err) {
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

/* The hint's version if a manifest stands there, else 0. Nothing about the hint is an error. */
static lake_status start_from_hint(lki_log *log, lake_deadline deadline, lake_error *err) {
  lake_buffer bytes;
  lki_buffer_init(&bytes, log->env, 256);
  uint64_t version = 0;
  lake_status s = lki_store_get(log->store, LKI_NAME_HINT, lki_range_whole(), &bytes, NULL, deadline, NULL);
  if (s != LAKE_OK || lki_hint_decode(lki_buffer_view(&bytes), &version, NULL) != LAKE_OK) version = 0;
  lki_buffer_free(&bytes);
  if (version == 0) return LAKE_OK;
  s = step_to(log, version, deadline, err);
  return s == LAKE_NOTFOUND ? LAKE_OK : s;
}

lake_status lki_log_refresh(lki_log *log, lake_deadline deadline, bool *changed, lake_error *err) {
  lki_lock(log->env, log->synced.lock);
  const uint64_t before = log->synced.view->version;
  const bool opened = log->synced.opened;
  lki_unlock(log->env, log->synced.lock);
  if (changed != NULL) *changed = false;

  lake_status s = opened ? LAKE_OK : start_from_hint(log, deadline, err);
  if (s != LAKE_OK) return s;
  lki_manifest *view = lki_log_view(log);
  uint64_t from = view->version;
  lki_manifest_release(view);
  /* A reader is mostly none or one version behind: one read tells. */
  s = step_to(log, from + 1, deadline, err);
  if (s == LAKE_OK) {
    uint64_t newest = 0;
    s = gallop(log, from + 1, deadline, &newest, err);
    if (s == LAKE_OK && newest > from + 1) s = step_to(log, newest, deadline, err);
    if (s == LAKE_NOTFOUND)
      s = lki_fail(err, LAKE_UNAVAILABLE, "manifest version %" PRIu64 " was there and is not; the store is unsteady",
                   newest);
  } else if (s == LAKE_NOTFOUND) {
    s = LAKE_OK;
  }
  if (s != LAKE_OK) return s;
  lki_lock(log->env, log->synced.lock);
  log->synced.opened = true;
  if (changed != NULL) *changed = log->synced.view->version > before;
  lki_unlock(log->env, log->synced.lock);
  return LAKE_OK;
}
