/* Coroutines on ucontext. Stacks are mapped with a guard page below and used again, since a run makes thousands. */
#include "sim/fiber.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#define STACK_BYTES ((size_t)160 * 1024)
#define GUARD_BYTES ((size_t)4096)

struct lki_fiber {
  struct lki_fiber *next; /* in the pool */
  lki_fiber_pool *pool;
  unsigned char *stack;
  ucontext_t context;
  void (*fn)(void *arg);
  void *arg;
  bool done;
};

struct lki_fiber_pool {
  ucontext_t scheduler;
  lki_fiber *idle;
};

lki_fiber_pool *lki_fiber_pool_new(void) { return calloc(1, sizeof(lki_fiber_pool)); }

void lki_fiber_pool_free(lki_fiber_pool *pool) {
  while (pool != NULL && pool->idle != NULL) {
    lki_fiber *fiber = pool->idle;
    pool->idle = fiber->next;
    munmap(fiber->stack, STACK_BYTES);
    free(fiber);
  }
  free(pool);
}

/* makecontext passes ints, so the pointer travels in halves. */
static void enter(unsigned high, unsigned low) {
  lki_fiber *fiber = (lki_fiber *)(uintptr_t)((uint64_t)high << 32 | low);
  fiber->fn(fiber->arg);
  fiber->done = true;
  swapcontext(&fiber->context, &fiber->pool->scheduler);
}

lki_fiber *lki_fiber_new(lki_fiber_pool *pool, void (*fn)(void *arg), void *arg) {
  lki_fiber *fiber = pool->idle;
  if (fiber != NULL) {
    pool->idle = fiber->next;
  } else {
    fiber = calloc(1, sizeof *fiber);
    if (fiber == NULL) return NULL;
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, GUARD_BYTES, PROT_NONE) != 0) {
      free(fiber);
      return NULL;
    }
    fiber->stack = stack;
  }
  fiber->pool = pool;
  fiber->fn = fn;
  fiber->arg = arg;
  fiber->done = false;
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack + GUARD_BYTES;
  fiber->context.uc_stack.ss_size = STACK_BYTES - GUARD_BYTES;
  fiber->context.uc_link = NULL;
  const uint64_t address = (uint64_t)(uintptr_t)fiber;
  makecontext(&fiber->context, (void (*)(void))enter, 2, (unsigned)(address >> 32), (unsigned)address);
  return fiber;
}

void lki_fiber_resume(lki_fiber *fiber) { swapcontext(&fiber->pool->scheduler, &fiber->context); }
void lki_fiber_yield(lki_fiber *fiber) { swapcontext(&fiber->context, &fiber->pool->scheduler); }
int lki_fiber_done(const lki_fiber *fiber) { return fiber->done; }

void lki_fiber_free(lki_fiber_pool *pool, lki_fiber *fiber) {
  fiber->next = pool->idle;
  pool->idle = fiber;
}
