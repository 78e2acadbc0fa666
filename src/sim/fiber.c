/* Coroutines on ucontext. Stacks are mapped with a guard page below and used again, since a run makes thousands.
 *
 * swapcontext asks the kernel for the signal mask at each switch, a third of the time of a simulation, so it only
 * enters a fiber; from then on _setjmp and _longjmp switch, except under the sanitizers, which follow ucontext only.
 *
 * The sanitizers must hear of each switch, or they take one stack for another: AddressSanitizer needs the bounds of the
 * stack that is switched to, ThreadSanitizer a fiber of its own for each stack. */
#undef _FORTIFY_SOURCE /* its longjmp refuses to go to another stack */
#include "sim/fiber.h"
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FOLLOWED 1
#else
#define FOLLOWED 0
#endif
#define STACK_BYTES ((size_t)160 * 1024)
#define GUARD_BYTES ((size_t)4096)

/* One side of a switch, as the sanitizers know it. */
typedef struct side {
  const void *bottom; /* of its stack; the scheduler's is learned at the first switch away from it */
  size_t bytes;
  void *shadow; /* ASan: its fake stack while it does not run; TSan: its fiber */
} side;

/* Where a side stands while it does not run. */
typedef struct spot {
  ucontext_t context;
#if !FOLLOWED
  jmp_buf jump;
#endif
} spot;

struct lki_fiber {
  struct lki_fiber *next; /* in the pool */
  lki_fiber_pool *pool;
  unsigned char *stack;
  spot spot;
  bool entered;
  void (*fn)(void *arg);
  void *arg;
  bool done;
  side side;
};

struct lki_fiber_pool {
  spot scheduler;
  lki_fiber *idle;
  side side; /* the scheduler's */
};

#if defined(__SANITIZE_ADDRESS__)
static void side_open(lki_fiber *fiber) {
  fiber->side = (side){fiber->stack + GUARD_BYTES, STACK_BYTES - GUARD_BYTES, NULL};
  /* A fiber that was dropped in the middle of a call left the marks of its frames. */
  __asan_unpoison_memory_region(fiber->side.bottom, fiber->side.bytes);
}
static void side_close(lki_fiber *fiber) { __asan_unpoison_memory_region(fiber->side.bottom, fiber->side.bytes); }
/* `ends`: nobody comes back to `from`, so its fake stack goes. */
static void side_leave(side *from, const side *to, bool ends) {
  __sanitizer_start_switch_fiber(ends ? NULL : &from->shadow, to->bottom, to->bytes);
}
/* `from` is where control came from: the first fiber to run learns the scheduler's stack. */
static void side_arrive(const side *to, side *from) {
  const void *bottom = NULL;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(to->shadow, &bottom, &bytes);
  if (from != NULL) from->bottom = bottom, from->bytes = bytes;
}
#elif defined(__SANITIZE_THREAD__)
static void side_open(lki_fiber *fiber) { fiber->side.shadow = __tsan_create_fiber(0); }
static void side_close(lki_fiber *fiber) { __tsan_destroy_fiber(fiber->side.shadow); }
/* Not instrumented: its own return would be booked on the fiber that was switched to. */
__attribute__((no_sanitize_thread)) static void side_leave(side *from, const side *to, bool ends) {
  (void)ends;
  from->shadow = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to->shadow, 0);
}
static void side_arrive(const side *to, side *from) { (void)to, (void)from; }
#else
static void side_open(lki_fiber *fiber) { (void)fiber; }
static void side_close(lki_fiber *fiber) { (void)fiber; }
static void side_leave(side *from, const side *to, bool ends) { (void)from, (void)to, (void)ends; }
static void side_arrive(const side *to, side *from) { (void)to, (void)from; }
#endif

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

/* From `from` to `to`, which has been left before, or, if `first`, is entered. */
static void change_over(spot *from, spot *to, bool first) {
#if FOLLOWED
  (void)first;
  swapcontext(&from->context, &to->context);
#else
  if (_setjmp(from->jump) != 0) return;
  if (first) setcontext(&to->context);
  _longjmp(to->jump, 1);
#endif
}

/* makecontext passes ints, so the pointer travels in halves. */
static void enter(unsigned high, unsigned low) {
  lki_fiber *fiber = (lki_fiber *)(uintptr_t)((uint64_t)high << 32 | low);
  side_arrive(&fiber->side, &fiber->pool->side);
  fiber->fn(fiber->arg);
  fiber->done = true;
  side_leave(&fiber->side, &fiber->pool->side, true);
  change_over(&fiber->spot, &fiber->pool->scheduler, false);
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
  fiber->entered = false;
  side_open(fiber);
  getcontext(&fiber->spot.context);
  fiber->spot.context.uc_stack.ss_sp = fiber->stack + GUARD_BYTES;
  fiber->spot.context.uc_stack.ss_size = STACK_BYTES - GUARD_BYTES;
  fiber->spot.context.uc_link = NULL;
  const uint64_t address = (uint64_t)(uintptr_t)fiber;
  makecontext(&fiber->spot.context, (void (*)(void))enter, 2, (unsigned)(address >> 32), (unsigned)address);
  return fiber;
}

void lki_fiber_resume(lki_fiber *fiber) {
  side_leave(&fiber->pool->side, &fiber->side, false);
  const bool first = !fiber->entered;
  fiber->entered = true;
  change_over(&fiber->pool->scheduler, &fiber->spot, first);
  side_arrive(&fiber->pool->side, NULL);
}

void lki_fiber_yield(lki_fiber *fiber) {
  side_leave(&fiber->side, &fiber->pool->side, false);
  change_over(&fiber->spot, &fiber->pool->scheduler, false);
  side_arrive(&fiber->side, &fiber->pool->side);
}

int lki_fiber_done(const lki_fiber *fiber) { return fiber->done; }

void lki_fiber_free(lki_fiber_pool *pool, lki_fiber *fiber) {
  side_close(fiber);
  fiber->next = pool->idle;
  pool->idle = fiber;
}
