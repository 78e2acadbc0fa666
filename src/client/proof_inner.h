/* What the files of the proof share. One lki_proof is used by the caller's thread; the threads it starts use only what
 * does not change meanwhile, and each its own results. */
#ifndef LKI_CLIENT_PROOF_INNER_H
#define LKI_CLIENT_PROOF_INNER_H

#include "base/buffer.h"
#include "base/env.h"
#include "base/error.h"
#include "client/proof.h"

#define LKI_PROOF_KEY_BYTES 64
#define LKI_PROOF_BODY_BYTES 96
#define LKI_PROOF_THREADS_MAX 64
#define LKI_PROOF_FEW 8u /* objects of a kind that may not be removed again */

/* The objects of each step are numbered, so that all can be removed again without a listing, which is what is on trial. */
typedef enum lki_proof_kind { LKI_PROOF_ONCE, LKI_PROOF_RACE, LKI_PROOF_READ, LKI_PROOF_LIST, LKI_PROOF_PROBE, LKI_PROOF_BULK, LKI_PROOF_KINDS } lki_proof_kind;

typedef struct lki_proof {
  lake_env *env;
  lake_store *stores[2];
  const lki_proof_options *options;
  lki_proof_report *report;
  lake_deadline deadline; /* of the whole */
  uint64_t request_ns;    /* longest wait for one request; 0: until the deadline */
  uint64_t nonce;
  uint32_t written[LKI_PROOF_KINDS]; /* numbers below it may be there */
  bool keeps_all;         /* these credentials may not remove: write little */
  bool no_store;          /* what a create said has nothing to do with what is there: nothing else is worth asking */
  lki_proof_result result; /* of the step that runs, if it returns OK; OK on entry */
  char said[400];         /* what the step that runs has to say */
} lki_proof;

/* proof_left.c. The prefix of a run that begins now. */
void lki_proof_name_run(lake_env *env, uint64_t nonce, char prefix[LKI_PROOF_RUN_BYTES]);
/* Removes what earlier runs have left; best effort. */
void lki_proof_sweep(lki_proof *p);
/* How many objects of a kind are written: `wanted`, or few where they would stay. */
static inline uint32_t lki_proof_count(const lki_proof *p, uint32_t wanted) {
  return p->keeps_all && wanted > LKI_PROOF_FEW ? LKI_PROOF_FEW : wanted;
}
/* When the request that begins now has to be through. */
lake_deadline lki_proof_until(const lki_proof *p);
void lki_proof_key(const lki_proof *p, lki_proof_kind kind, uint32_t i, char key[LKI_PROOF_KEY_BYTES]);
/* A body that tells who wrote it. */
lake_bytes lki_proof_body(const lki_proof *p, uint32_t who, uint32_t i, char body[LKI_PROOF_BODY_BYTES]);
/* The whole object into a fixed buffer of `room` bytes. */
lake_status lki_proof_read(lake_store *store, const char *key, void *dst, size_t room, size_t *bytes,
                           lake_deadline deadline, lake_error *err);
/* Creates a name, and asks until it is known what came of it: OK, by us; EXISTS, by another, or by an earlier try of ours.
 * A service may refuse a create for a while, such as one that follows on a removal, and keep its promises all the same. */
lake_status lki_proof_create_for_sure(lki_proof *p, lake_store *store, const char *key, lake_bytes body, lake_error *err);
/* Refutes the store, in these words, if anything is found at a name, over either connection. */
lake_status lki_proof_none(lki_proof *p, const char *key, const char *refutation, lake_error *err);
/* Refutes the store unless `want` is what is at a name. */
lake_status lki_proof_read_back(lki_proof *p, lake_store *store, const char *key, lake_bytes want, lake_error *err);
/* Calls fn for 0 .. count-1 from a few threads, over both stores by turns; the first failure ends it and is returned. */
typedef lake_status lki_proof_each_fn(lki_proof *p, lake_store *store, uint32_t i, void *ctx, lake_error *err);
lake_status lki_proof_each(lki_proof *p, uint32_t count, uint32_t thread_count, lki_proof_each_fn *fn, void *ctx,
                           lake_error *err);
/* "the store answers but …": a failure of the store's promises. */
#define lki_proof_refute(err, ...) lki_fail((err), LAKE_UNSUPPORTED, __VA_ARGS__)

/* The steps. OK: kept. UNSUPPORTED: refuted, err says how. Else: it could not be found out. */
lake_status lki_proof_create(lki_proof *p, lake_error *err);
lake_status lki_proof_race(lki_proof *p, lake_error *err);
lake_status lki_proof_ranges(lki_proof *p, lake_error *err);
lake_status lki_proof_listing(lki_proof *p, lake_error *err);
lake_status lki_proof_removal(lki_proof *p, lake_error *err);
lake_status lki_proof_speed(lki_proof *p, lake_error *err);

#endif
