/* Whether a store keeps what the commit protocol rests on: a name is created once and by one, also in a race and over
 * two connections; ranges are those asked for; a listing shows what was written and not what was removed. A store that
 * says it does and does not (conditions ignored or turned round, copies that differ) loses data without an error, so it
 * is asked before anything is entrusted to it. Everything is written below doctor/<second>-<random>/ and removed again. */
#ifndef LKI_CLIENT_PROOF_H
#define LKI_CLIENT_PROOF_H

#include "store/store.h"

#define LKI_PROOF_PREFIX "doctor/"
#define LKI_PROOF_CHECKS_MAX 8
#define LKI_PROOF_RUN_BYTES 40

typedef struct lki_proof_options {
  uint32_t thread_count; /* racers; at most 64 */
  uint32_t key_count;    /* names they race for */
  uint32_t list_count;   /* objects of the listing; more than 1,000 take several pages on a real store */
  uint32_t probe_count;  /* small requests that are timed; 0: speed is not measured */
  uint32_t bulk_bytes;   /* of an object for the estimate of bandwidth */
  bool sweeps;           /* removes what checks of more than a day ago have left, if the store passes */
  uint64_t request_ms;   /* longest wait for one request; 0: only the deadline bounds it */
  bool (*stop)(void *ctx); /* asked between requests of the caller's thread: clean up and return CANCELED; NULL: never */
  void *ctx;
} lki_proof_options;

extern const lki_proof_options lki_proof_full;  /* what `lake doctor` does */
extern const lki_proof_options lki_proof_short; /* what a namespace asks for by itself: a second or two */

/* UNKNOWN: could not be seen, which is no failure. WARN: kept, but something else will not work. */
typedef enum lki_proof_result {
  LKI_PROOF_OK,
  LKI_PROOF_FAILED,
  LKI_PROOF_SKIPPED,
  LKI_PROOF_UNKNOWN,
  LKI_PROOF_WARN
} lki_proof_result;

typedef struct lki_proof_check {
  const char *name; /* "bucket", "create", "race", "read", "list", "remove", "speed" */
  lki_proof_result result;
  char text[500];   /* what was seen, one line */
} lki_proof_check;

typedef struct lki_proof_report {
  lki_proof_check checks[LKI_PROOF_CHECKS_MAX];
  uint32_t check_count;
  uint64_t get_ns, put_ns;                 /* medians of small requests; 0: not measured */
  uint64_t get_bytes_per_s, put_bytes_per_s; /* of several streams at once; 0: not measured */
  char prefix[LKI_PROOF_RUN_BYTES]; /* what all keys began with, '/' at the end */
  uint64_t left_count; /* objects that could not be removed again */
  uint64_t old_count;  /* objects of earlier checks, which were killed, that were removed */
} lki_proof_report;

/* Asks the store through both handles (they may be the same one; two connections prove more). report: filled also on
 * failure, as far as it came. UNSUPPORTED: the store answers but does not keep its promises; the text says which and
 * what to do. What may not be removed again is written in small numbers only, and speed is not measured then. Any other failure says nothing about them: UNAVAILABLE, DENIED, TIMEOUT, NOMEM, CANCELED. Blocks. */
lake_status lki_store_prove(lake_store *a, lake_store *b, const lki_proof_options *options, lki_proof_report *report,
                            lake_deadline deadline, lake_error *err);

/* proof_left.c. Whether a key, or its beginning up to the run's '/', is of a check that began more than a day ago. */
bool lki_proof_run_is_old(lake_env *env, const char *key);

/* Whether the store of a canonical URL has to prove itself: it is a service that somebody else runs. */
bool lki_proof_wanted(const char *url);

#endif
