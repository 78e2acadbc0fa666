/* Coroutines for the simulator: one OS thread, switches only where a fiber yields. Not thread-safe. */
#ifndef LKI_SIM_FIBER_H
#define LKI_SIM_FIBER_H

typedef struct lki_fiber_pool lki_fiber_pool;
typedef struct lki_fiber lki_fiber;

/* The scheduler's side, and a store of stacks to use again. NULL: no memory. */
lki_fiber_pool *lki_fiber_pool_new(void);
void lki_fiber_pool_free(lki_fiber_pool *pool); /* every fiber was freed before */

/* A fiber that will run fn(arg) when it is first resumed. NULL: no memory. */
lki_fiber *lki_fiber_new(lki_fiber_pool *pool, void (*fn)(void *arg), void *arg);
/* Runs it until it yields or fn returns. Only from the scheduler. */
void lki_fiber_resume(lki_fiber *fiber);
/* Back to the scheduler. Only from inside a fiber. */
void lki_fiber_yield(lki_fiber *fiber);
int lki_fiber_done(const lki_fiber *fiber);
/* Gives the stack back; also of a fiber that has not ended, which then never goes on. */
void lki_fiber_free(lki_fiber_pool *pool, lki_fiber *fiber);

#endif
