/* The checkers: what must be true after every event, whatever the schedule (I1 to I7 and I9's order). They watch the
 * simulated store from outside and keep the truth: the first manifest ever created under each version's name. */
#ifndef LKI_SIM_CHECK_H
#define LKI_SIM_CHECK_H

#include "model/manifest.h"
#include "sim/store.h"

typedef struct lki_check lki_check;

/* What one step is, by the truth. */
typedef struct lki_true_step {
  uint32_t producer; /* index in the manifest's producer map */
  uint64_t epoch;
  uint64_t seq;
} lki_true_step;

lki_check *lki_check_new(lki_world *world, lki_simstore *store, uint32_t version_block);
void lki_check_free(lki_check *check);

/* The first violation's text, or NULL. */
const char *lki_check_violation(const lki_check *check);
/* For actors: reports a violation of their own. Only the first is kept. */
void lki_check_fail(lki_check *check, const char *format, ...) LAKE_PRINTF(2, 3);

uint64_t lki_check_step_count(const lki_check *check);
bool lki_check_sealed(const lki_check *check);
const lki_true_step *lki_check_step(const lki_check *check, uint64_t step);
/* Committed TGBs of a producer id; 0 for one that never came. */
uint64_t lki_check_committed(const lki_check *check, const char *id);
const char *lki_check_producer_id(const lki_check *check, uint32_t producer);

/* The epoch that the truth has for a producer id; 0: none. */
uint64_t lki_check_epoch(const lki_check *check, const char *id);

/* A producer was told that it holds `epoch` and goes on at `seq` (I4): no other was told that epoch. */
void lki_check_claimed(lki_check *check, const char *id, uint64_t epoch, uint64_t seq);
/* A producer was told that all its seqs below seq_end are committed, under `epoch` since seq_begin (I5). */
void lki_check_acknowledged(lki_check *check, const char *id, uint64_t epoch, uint64_t seq_begin, uint64_t seq_end);
/* A producer was told for good how many of its TGBs under this epoch are committed (I5); certain: that it is exact. */
void lki_check_final(lki_check *check, const char *id, uint64_t epoch, uint64_t count, bool certain);
/* A consumer was given a step that says who made it (I3). */
void lki_check_delivered(lki_check *check, uint64_t step, const char *id, uint64_t epoch, uint64_t seq);
/* A pin holds this step from now on, or no longer (I6). */
void lki_check_pin(lki_check *check, uint64_t step, bool held);

/* A digest of everything that was applied so far: equal for equal histories. */
uint64_t lki_check_digest(const lki_check *check);

#endif
