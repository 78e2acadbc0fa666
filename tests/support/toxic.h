/* A store that fails on purpose: wraps an in-memory store and injects faults by a script or a seed. For fault tests. */
#ifndef LAKE_TESTS_TOXIC_H
#define LAKE_TESTS_TOXIC_H

#include "support/support.h"

typedef enum toxic_op { TOXIC_GET, TOXIC_PUT, TOXIC_PUT_IF_ABSENT, TOXIC_HEAD, TOXIC_LIST, TOXIC_REMOVE } toxic_op;

typedef enum toxic_kind {
  TOXIC_NONE = 0,
  TOXIC_FAIL_BEFORE,   /* UNAVAILABLE, nothing done */
  TOXIC_FAIL_AFTER,    /* done, then UNCERTAIN */
  TOXIC_EXISTS_AFTER,  /* done, then EXISTS: what a client sees whose transport sent the put twice */
  TOXIC_LATE,          /* answers UNCERTAIN; the put lands at the next operation of any kind */
  TOXIC_TRUNCATE,      /* get: CORRUPT, as the door says of a short body */
  TOXIC_FLIP,          /* get: one bit of the body flipped */
  TOXIC_DENIED         /* DENIED, nothing done */
} toxic_kind;

typedef struct toxic toxic;

/* Asks before every operation what to do to it; called under the store's lock. */
typedef toxic_kind toxic_fn(void *ctx, toxic_op op, const char *key, uint64_t nth);

toxic *toxic_open(lake_env *env, toxic_fn *fn, void *ctx);
lake_store *toxic_store(toxic *t); /* closed with toxic_close */
uint64_t toxic_count(toxic *t);    /* operations so far */
void toxic_close(toxic *t);

#endif
