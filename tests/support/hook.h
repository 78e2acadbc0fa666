/* A store that asks before every operation: wraps another, forwards what is let through. For tests that interleave,
 * crash or fail at a chosen operation. The question is asked without a lock, so it may use other handles of the inner
 * store, or wait. */
#ifndef LAKE_TESTS_HOOK_H
#define LAKE_TESTS_HOOK_H

#include "support/support.h"

/* HOOK_REMOVE: also each key of a removal of many. */
typedef enum hook_op { HOOK_GET, HOOK_PUT, HOOK_PUT_IF_ABSENT, HOOK_HEAD, HOOK_LIST, HOOK_REMOVE } hook_op;

typedef enum hook_verdict {
  HOOK_PASS = 0,
  HOOK_DENY,  /* DENIED, nothing done: the door does not retry it */
  HOOK_LOSE,  /* done, then UNCERTAIN */
  HOOK_DROP   /* nothing done, then UNCERTAIN */
} hook_verdict;

/* nth counts from 0. */
typedef hook_verdict hook_fn(void *ctx, hook_op op, const char *key, uint64_t nth);

/* Asserts; close with lake_store_close(), which leaves inner open. */
lake_store *hook_open(lake_env *env, lake_store *inner, hook_fn *fn, void *ctx);

#endif
