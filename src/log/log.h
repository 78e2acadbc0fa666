/* The manifest log of a namespace: finding the newest version, loading, and the commit protocol. Nobody else writes a
 * manifest or a segment. One lki_log serves all clients of a namespace handle; safe from any thread.
 *
 * Invariants: a view is replaced only by a newer version (I1, I3); a commit's status equals the truth (I5): OK means
 * that this attempt's manifest is the version, EXISTS that an earlier one made all of the change visible, UNCERTAIN
 * that a later commit or refresh will tell; every other status means that this call made nothing visible. Of an earlier
 * attempt with the same content that is unsettled (UNCERTAIN, or AGAIN because its version was reclaimed while the
 * writer slept) the next one's status does not speak: the producer map does, and after FENCED lki_log_find_fenced. */
#ifndef LKI_LOG_LOG_H
#define LKI_LOG_LOG_H

#include "format/format.h"
#include "model/change.h"
#include "store/store.h"
#include <stdatomic.h>

typedef struct lki_log lki_log;

typedef struct lki_commit_result {
  lki_manifest *manifest;  /* retained: the one that was written (OK), else the newest known; never NULL */
  uint32_t attempt_count;  /* conditional puts sent */
  bool unsettled;          /* the version was reclaimed before it was known whether it was this attempt's */
  uint64_t manifest_bytes; /* of the manifest that was written */
  uint64_t tau_ns;         /* the fragile window: from the look that showed the base to be the newest to the put's end */
} lki_commit_result;

/* schema and store are borrowed and must outlive the log. */
lake_status lki_log_open(lake_store *store, const lki_schema *schema, lki_log **out, lake_error *err);
void lki_log_close(lki_log *log); /* NULL accepted */

/* The newest manifest read so far, retained; version 0 before the first refresh. */
lki_manifest *lki_log_view(lki_log *log);
/* Read forward to the newest version there is. *changed (may be NULL): whether the view moved. */
lake_status lki_log_refresh(lki_log *log, lake_deadline deadline, bool *changed, lake_error *err);
/* As refresh, and certain: afterwards the view is, or is newer than, the newest version there was when this was called.
 * For what must not go by an old view, such as whether a pin holds; a request or two dearer. */
lake_status lki_log_catch_up(lki_log *log, lake_deadline deadline, lake_error *err);
/* One version. NOTFOUND: there is none by that number (version 0 has no object). */
lake_status lki_log_load(lki_log *log, uint64_t version, lake_deadline deadline, lki_manifest **out, lake_error *err);
lake_status lki_log_load_segment(lki_log *log, const lki_segment_ref *ref, lake_deadline deadline, lki_segment **out,
                                 lake_error *err);

/* Refresh for an attempt: until a look finds nothing newer, so that between that look and the put nothing else is asked.
 * *looked_ns: when it was sent; that is where the fragile window begins. */
lake_status lki_log_look(lki_log *log, lake_deadline deadline, uint64_t *looked_ns, lake_error *err);

/* One attempt: apply the change, and the cargo on top (may be NULL), to the newest known manifest and create the next
 * version. looked_ns: from lki_log_look for this attempt; 0: there was none.
 * OK, EXISTS, UNCERTAIN: see above. AGAIN: lost to another writer, or, if result->unsettled, not known; the view
 * is now the winner or newer, but not the newest for certain. FENCED, END,
 * INTERNAL, INVALID: from the change. TIMEOUT, UNAVAILABLE, CORRUPT, NOMEM: nothing was sent. *result is always set;
 * release result->manifest.
 * stop (may be NULL): once it is set, no more than the call to the store that is going on. CANCELED: nothing was sent;
 * UNCERTAIN: it is not read back. */
lake_status lki_log_try(lki_log *log, const lki_change *change, const lki_cargo *cargo, const char *writer,
                        uint64_t looked_ns, const atomic_bool *stop, lake_deadline deadline, lki_commit_result *result,
                        lake_error *err);
/* Writes the hint, which saves later openers a long probe, for every few versions. Best effort, and apart from the
 * attempt, so that nobody waits for it. */
void lki_log_publish(lki_log *log, const lki_manifest *manifest);
/* Why the attempt that is going on right now has no answer yet; status OK: no trouble known. */
void lki_log_cause(lki_log *log, lake_error *cause);
/* Attempts until the change is in or refused, or the deadline, each from a fresh look; waits a random time of up to one
 * turn of the active writers between attempts. Never AGAIN. While one of its attempts is unsettled, UNCERTAIN instead of
 * what says that nothing was done, such as TIMEOUT and DENIED; FENCED and END do not speak of such a one, which has no
 * effect by then. */
lake_status lki_log_commit(lki_log *log, const lki_change *change, const char *writer, lake_deadline deadline,
                           lki_commit_result *result, lake_error *err);

/* A writer whose epoch was found fenced. */
typedef struct lki_fenced {
  const char *producer_id;
  uint64_t epoch;       /* its own */
  uint64_t own_version; /* a version that was seen to have that epoch */
  uint64_t known_seq;   /* all below it are known to be committed */
} lki_fenced;

/* How far the search for the first version with a newer epoch has come. Zero it before the first call. */
typedef struct lki_fenced_search {
  bool begun;
  uint64_t low, high; /* it lies above low, if that could be read, and not above high */
  bool low_tells;
  bool certain; /* high tells where the fenced epoch ended */
  uint64_t end; /* where high says that it ended, or an upper bound */
} lki_fenced_search;

/* fenced.c: what became of its TGBs, for good: those below *next_seq, which is at least known_seq, are committed, and
 * no other. `newest` has a newer epoch. No request while its tail tells; else a load and a look at the boundary for each
 * halving of the versions since own_version. A call that fails leaves in *search what it has found, and the next one goes
 * on from there: with a deadline that one halving fits into, every call gets on. RECLAIMED: what would tell is gone.
 * CANCELED: *stop (may be NULL) was set. */
lake_status lki_log_find_fenced(lki_log *log, const lki_fenced *fenced, const lki_manifest *newest,
                                const atomic_bool *stop, lake_deadline deadline, lki_fenced_search *search,
                                uint64_t *next_seq, lake_error *err);

/* boundary.c: marks a block of versions as dead, durably. Its manifests may be deleted afterwards, not before. */
lake_status lki_log_raise(lki_log *log, uint64_t block, lake_deadline deadline, lake_error *err);

/* seal.c: seals full runs of base's tail and folds full levels; *sealing's segments lie in arena. Writes objects only
 * for runs that this log has not sealed before. */
lake_status lki_log_seal_runs(lki_log *log, const lki_manifest *base, lki_arena *arena, lake_deadline deadline,
                              lki_sealing *sealing, lake_error *err);

#endif
