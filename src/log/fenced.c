/* What of a fenced epoch is in the order. An attempt of it that was never settled, or a writer that carried what it
 * had announced, may have brought in more than its owner knows, and the map speaks of the newer epoch only. But the
 * claim of that one carried next_seq over, and nothing of the older epoch comes in after it. So it is told by the tail
 * while that holds the last TGB of the older epoch, and by the first version with the newer epoch: epochs only grow
 * with the versions, so that one is found by halving. The caller keeps how far that has come. */
#include "base/error.h"
#include "log/state.h"
#include <inttypes.h>

/* What one version says. */
typedef struct mark {
  bool newer;       /* than the fenced epoch is the entry's */
  bool certain;     /* end is where the fenced epoch ended; else it lies no higher */
  uint64_t end;
} mark;

static mark mark_of(const lki_manifest *m, const lki_fenced *fenced) {
  const int64_t index = lki_manifest_find_producer(m, fenced->producer_id);
  if (index < 0 || m->producers[index].epoch <= fenced->epoch) return (mark){false, false, 0};
  if (m->producers[index].next_seq <= fenced->known_seq) return (mark){true, true, fenced->known_seq};
  for (uint32_t i = m->tail_count; i-- > 0;) /* the newest that is not of the newer epochs */
    if (m->tail[i].producer == index && m->tail[i].epoch <= fenced->epoch) return (mark){true, true, m->tail[i].seq + 1};
  return (mark){true, false, m->producers[index].next_seq};
}

/* *tells: the version can be read, and is the one that was created first under its name (I7). */
static lake_status read_mark(lki_log *log, uint64_t version, const lki_fenced *fenced, lake_deadline deadline,
                             bool *tells, mark *at, lake_error *err) {
  lki_manifest *manifest = NULL;
  lake_error local = LAKE_ERROR_INIT;
  bool dead = false;
  lake_status s = lki_log_load(log, version, deadline, &manifest, &local);
  if (s == LAKE_OK) s = lki_log_is_dead(log, version, deadline, &dead, &local);
  *tells = s == LAKE_OK && !dead;
  if (*tells) *at = mark_of(manifest, fenced);
  lki_manifest_release(manifest);
  if (s == LAKE_OK || s == LAKE_NOTFOUND || s == LAKE_CORRUPT || s == LAKE_UNSUPPORTED) return LAKE_OK;
  lki_error_copy(err, &local);
  return s;
}

static void begin(const lki_fenced *fenced, const lki_manifest *newest, lki_fenced_search *search) {
  const mark at = mark_of(newest, fenced);
  *search = (lki_fenced_search){.begun = true,
                                .low = fenced->own_version,
                                .high = newest->version,
                                .low_tells = true,
                                .certain = at.certain,
                                .end = at.end};
}

lake_status lki_log_find_fenced(lki_log *log, const lki_fenced *fenced, const lki_manifest *newest,
                                const atomic_bool *stop, lake_deadline deadline, lki_fenced_search *search,
                                uint64_t *next_seq, lake_error *err) {
  if (!search->begun) begin(fenced, newest, search);
  while (!search->certain && search->high - search->low > 1) {
    const uint64_t mid = search->low + (search->high - search->low) / 2;
    mark at = {false, false, 0};
    bool tells = false;
    if (stop != NULL && atomic_load(stop)) return lki_fail(err, LAKE_CANCELED, "the search was ended at version %" PRIu64, mid);
    lake_status s = read_mark(log, mid, fenced, deadline, &tells, &at, err);
    if (s != LAKE_OK) return s;
    if (at.newer) {
      search->high = mid;
      search->certain = at.certain;
      search->end = at.end;
    } else {
      search->low = mid;
      search->low_tells = tells;
    }
  }
  if (!search->certain && !search->low_tells)
    return lki_fail(err, LAKE_RECLAIMED, "producer %s: version %" PRIu64 ", which would tell where epoch %" PRIu64
                    " ended, cannot be read any more", fenced->producer_id, search->low, fenced->epoch);
  *next_seq = search->end;
  return LAKE_OK;
}
