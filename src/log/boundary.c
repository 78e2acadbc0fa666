/* The boundary: durable marks under which manifest names are dead. Versions are reclaimed in blocks of
 * schema->version_block; before the first name of a block is deleted, boundary/<block> is created, and it stays. A
 * name that was deleted can be created again by a writer that slept through its reclamation, and the store will say
 * that it succeeded; so whoever created or loaded a version looks for its block's mark afterwards, and does not
 * believe what lies under it (I7). One HEAD a commit; nothing here reads a clock. */
#include "base/planted.h"
#include "format/names.h"
#include "log/state.h"
#include <inttypes.h>
#include <string.h>

lake_status lki_log_is_dead(lki_log *log, uint64_t version, lake_deadline deadline, bool *dead, lake_error *err) {
  char name[LKI_NAME_BYTES];
  lki_name_boundary(name, version / log->schema->version_block + LKI_PLANTED(MARK_OF_WRONG_BLOCK));
  lake_error local = LAKE_ERROR_INIT;
  lake_status s = lki_store_head(log->store, name, NULL, deadline, &local);
  if (s != LAKE_OK && s != LAKE_NOTFOUND) {
    lki_error_copy(err, &local);
    return s;
  }
  *dead = s == LAKE_OK;
  return LAKE_OK;
}

lake_status lki_log_raise(lki_log *log, uint64_t block, lake_deadline deadline, lake_error *err) {
  char name[LKI_NAME_BYTES];
  lki_name_boundary(name, block);
  static const char text[] = "the manifest versions of this block are reclaimed; their names must not be used again\n";
  lake_bytes body = {text, sizeof text - 1};
  return lki_store_put(log->store, name, body, deadline, err); /* the same bytes, however often */
}

static bool take_last(void *ctx, const char *key, uint64_t object_bytes) {
  (void)object_bytes;
  uint64_t version = 0;
  if (lki_name_manifest_parse(key, &version)) *(uint64_t *)ctx = version;
  return true;
}

/* Loads `version` and makes it the view if it lives. *found: it does. */
static lake_status try_version(lki_log *log, uint64_t version, lake_deadline deadline, bool *found,
                               lake_error *err) {
  *found = false;
  lki_manifest *manifest = NULL;
  lake_error local = LAKE_ERROR_INIT;
  lake_status s = lki_log_load(log, version, deadline, &manifest, &local);
  if (s == LAKE_NOTFOUND) return LAKE_OK;
  bool dead = false;
  if (s == LAKE_OK) s = lki_log_is_dead(log, version, deadline, &dead, &local);
  if (LKI_PLANTED(ALIVE_UNCHECKED_AFTER_LOAD)) dead = false;
  if (s == LAKE_OK && !dead) {
    lki_log_advance(log, manifest);
    *found = true;
  }
  lki_manifest_release(manifest);
  if (s != LAKE_OK) lki_error_copy(err, &local);
  return s;
}

lake_status lki_log_jump(lki_log *log, lake_deadline deadline, lake_error *err) {
  for (int i = 0; i < 3; i++) { /* reclaim may overtake a slow reader once; thrice is a fault */
    bool found = false;
    uint64_t version = 0;
    lake_status s = lki_log_read_hint(log, deadline, &version);
    if (s == LAKE_OK && version > 0) s = try_version(log, version, deadline, &found, err);
    if (s == LAKE_OK && !found) {
      version = 0;
      s = lki_store_list(log->store, LKI_NAME_MANIFEST_PREFIX, NULL, take_last, &version, deadline, err);
      if (s == LAKE_OK && version > 0) s = try_version(log, version, deadline, &found, err);
    }
    if (s == LAKE_OK && found) {
      uint64_t newest = version;
      s = lki_log_gallop(log, version, deadline, &newest, err);
      if (s == LAKE_OK && newest > version) s = try_version(log, newest, deadline, &found, err);
    }
    if (s != LAKE_OK || found) return s;
  }
  return lki_fail(err, LAKE_UNAVAILABLE, "%s: no live manifest version can be found above the boundary; is %s being "
                  "reclaimed or restored right now?", lki_store_url(log->store), LKI_NAME_MANIFEST_PREFIX);
}
