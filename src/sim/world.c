/* Scheduler, clock and processes of the simulator. A fiber is ready, waits for a time or a signal, or is held because
 * its process is paused. Which ready fiber runs next is drawn from the seed: that is what explores schedules. */
#include "sim/world.h"
#include "sim/fiber.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct block { /* before every allocation of a process, so that a kill frees them all */
  struct block *next, *previous;
  void *base;
} block;

struct lki_thread {
  lki_process *process;
  lki_fiber *fiber;
  lki_thread *next_of_process;
  lki_thread *next_waiter; /* of a mutex, a condition or a join */
  void (*fn)(void *arg);
  void *arg;
  uint64_t ticket;    /* changes whenever it is woken: older timers of it are void */
  lki_cond *waits_on; /* to be taken off its list when the time comes first */
  bool timed_out;
  bool ended;
  lki_thread *joiner;
};

struct lki_mutex {
  lki_thread *holder;
  lki_thread *first, *last;
};

struct lki_cond {
  lki_thread *first;
};

struct lki_process {
  lki_world *world;
  lki_process *next;
  lake_env *env;
  char name[32];
  lki_rng rng;
  uint64_t id;
  lki_thread *threads;
  block blocks; /* head of a ring */
  lki_thread **held;
  size_t held_count, held_capacity;
  bool paused, dead, ended;
  void (*fn)(lki_process *process, void *arg);
  void *arg;
};

typedef struct timer {
  uint64_t at_ns, order;
  lki_thread *thread; /* NULL: an event */
  uint64_t ticket;
  void (*fn)(void *arg);
  void *arg;
} timer;

struct lki_world {
  lki_fiber_pool *pool;
  lki_rng rng;
  uint64_t now_ns, order, process_count;
  lki_process *processes;
  lki_thread *current;
  lki_thread **ready;
  size_t ready_count, ready_capacity;
  timer *timers; /* a heap, earliest first */
  size_t timer_count, timer_capacity;
};

/* The simulator is no library code: a failed allocation of its own ends the run. */
static void *grow(void *array, size_t *capacity, size_t item_bytes) {
  *capacity = *capacity > 0 ? *capacity * 2 : 64;
  array = realloc(array, *capacity * item_bytes);
  if (array == NULL) abort();
  return array;
}

static void make_ready(lki_thread *t) {
  lki_world *w = t->process->world;
  t->ticket++;
  if (t->process->paused) {
    lki_process *p = t->process;
    if (p->held_count == p->held_capacity) p->held = grow(p->held, &p->held_capacity, sizeof(lki_thread *));
    p->held[p->held_count++] = t;
    return;
  }
  if (w->ready_count == w->ready_capacity) w->ready = grow(w->ready, &w->ready_capacity, sizeof(lki_thread *));
  w->ready[w->ready_count++] = t;
}

static bool earlier(const timer *a, const timer *b) {
  return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void push_timer(lki_world *w, timer t) {
  if (w->timer_count == w->timer_capacity) w->timers = grow(w->timers, &w->timer_capacity, sizeof(timer));
  t.order = w->order++;
  size_t i = w->timer_count++;
  for (; i > 0 && earlier(&t, &w->timers[(i - 1) / 2]); i = (i - 1) / 2) w->timers[i] = w->timers[(i - 1) / 2];
  w->timers[i] = t;
}

static timer pop_timer(lki_world *w) {
  timer top = w->timers[0], last = w->timers[--w->timer_count];
  size_t i = 0;
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= w->timer_count) break;
    if (child + 1 < w->timer_count && earlier(&w->timers[child + 1], &w->timers[child])) child++;
    if (!earlier(&w->timers[child], &last)) break;
    w->timers[i] = w->timers[child];
    i = child;
  }
  if (w->timer_count > 0) w->timers[i] = last;
  return top;
}

static void set_timer(lki_thread *t, uint64_t at_ns) {
  if (at_ns == LKI_NEVER) return;
  timer timer_of = {.at_ns = at_ns, .thread = t, .ticket = t->ticket};
  push_timer(t->process->world, timer_of);
}

/* The calling fiber waits until make_ready. */
static void block_current(lki_world *w) { lki_fiber_yield(w->current->fiber); }

/* --- the environment's table ------------------------------------------------------------------------------------ */

static uint64_t sim_now_ns(void *self) { return ((lki_process *)self)->world->now_ns; }

static void sim_random(void *self, void *dst, size_t bytes) {
  lki_process *p = self;
  unsigned char *out = dst;
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t value = lki_rng_next(&p->rng);
    memcpy(out + i, &value, bytes - i < 8 ? bytes - i : 8);
  }
}

static void sim_sleep_until(void *self, uint64_t at_ns) {
  lki_world_sleep_until(((lki_process *)self)->world, at_ns);
}

static void *sim_alloc(void *self, size_t align, size_t bytes) {
  lki_process *p = self;
  if (align < 16) align = 16;
  const size_t head = (sizeof(block) + align - 1) / align * align;
  if (bytes > SIZE_MAX / 2) return NULL;
  unsigned char *base = aligned_alloc(align, (head + bytes + align - 1) / align * align);
  if (base == NULL) return NULL;
  block *b = (block *)(void *)(base + head - sizeof(block));
  b->base = base;
  b->next = p->blocks.next;
  b->previous = &p->blocks;
  b->next->previous = b;
  p->blocks.next = b;
  return base + head;
}

static void sim_free(void *self, void *data) {
  (void)self;
  block *b = (block *)data - 1;
  b->next->previous = b->previous;
  b->previous->next = b->next;
  free(b->base);
}

static void sim_log(void *self, lake_log_level level, const char *line) { (void)self, (void)level, (void)line; }

static void thread_main(void *arg) {
  lki_thread *t = arg;
  t->fn(t->arg);
  t->ended = true;
  if (t->joiner != NULL) make_ready(t->joiner);
}

static lki_thread *sim_thread_start(void *self, const char *name, void (*fn)(void *arg), void *arg) {
  (void)name;
  lki_process *p = self;
  lki_thread *t = calloc(1, sizeof *t);
  if (t == NULL) return NULL;
  t->process = p;
  t->fn = fn;
  t->arg = arg;
  t->fiber = lki_fiber_new(p->world->pool, thread_main, t);
  if (t->fiber == NULL) {
    free(t);
    return NULL;
  }
  t->next_of_process = p->threads;
  p->threads = t;
  make_ready(t);
  return t;
}

/* The thread's record lives until its process is freed: timers may still point to it. */
static void sim_thread_join(void *self, lki_thread *thread) {
  lki_process *p = self;
  while (!thread->ended) {
    thread->joiner = p->world->current;
    block_current(p->world);
  }
  if (thread->fiber != NULL) {
    lki_fiber_free(p->world->pool, thread->fiber);
    thread->fiber = NULL;
  }
}

static lki_mutex *sim_mutex_open(void *self) {
  lki_mutex *m = sim_alloc(self, 16, sizeof *m);
  if (m != NULL) memset(m, 0, sizeof *m);
  return m;
}

static void sim_mutex_close(void *self, lki_mutex *mutex) {
  assert(mutex->holder == NULL);
  sim_free(self, mutex);
}

/* Outside of any fiber (set-up code) there is nobody to wait for. */
static void sim_mutex_lock(void *self, lki_mutex *mutex) {
  lki_world *w = ((lki_process *)self)->world;
  if (w->current == NULL) return;
  if (mutex->holder == NULL) {
    mutex->holder = w->current;
    return;
  }
  lki_thread *me = w->current;
  me->next_waiter = NULL;
  if (mutex->first == NULL)
    mutex->first = me;
  else
    mutex->last->next_waiter = me;
  mutex->last = me;
  block_current(w);
  assert(mutex->holder == me);
}

static void sim_mutex_unlock(void *self, lki_mutex *mutex) {
  lki_world *w = ((lki_process *)self)->world;
  if (w->current == NULL) return;
  assert(mutex->holder == w->current);
  lki_thread *next = mutex->first;
  mutex->holder = next;
  if (next == NULL) return;
  mutex->first = next->next_waiter;
  make_ready(next);
}

static lki_cond *sim_cond_open(void *self) {
  lki_cond *c = sim_alloc(self, 16, sizeof *c);
  if (c != NULL) memset(c, 0, sizeof *c);
  return c;
}

static void sim_cond_close(void *self, lki_cond *cond) {
  assert(cond->first == NULL);
  sim_free(self, cond);
}

static bool sim_cond_wait(void *self, lki_cond *cond, lki_mutex *mutex, uint64_t at_ns) {
  lki_world *w = ((lki_process *)self)->world;
  lki_thread *me = w->current;
  if (at_ns <= w->now_ns) return false;
  sim_mutex_unlock(self, mutex);
  me->next_waiter = cond->first;
  cond->first = me;
  me->waits_on = cond;
  me->timed_out = false;
  set_timer(me, at_ns);
  block_current(w);
  sim_mutex_lock(self, mutex);
  return !me->timed_out;
}

static void take_off(lki_cond *cond, lki_thread *t) {
  lki_thread **at = &cond->first;
  while (*at != t) at = &(*at)->next_waiter;
  *at = t->next_waiter;
  t->waits_on = NULL;
}

static void sim_cond_signal(void *self, lki_cond *cond) {
  (void)self;
  lki_thread *t = cond->first;
  if (t == NULL) return;
  take_off(cond, t);
  make_ready(t);
}

static void sim_cond_broadcast(void *self, lki_cond *cond) {
  while (cond->first != NULL) sim_cond_signal(self, cond);
}

static uint64_t sim_process_id(void *self) { return ((lki_process *)self)->id; }
static void sim_close(void *self) { (void)self; }

static const lki_env_ops sim_ops = {
    sim_now_ns,       sim_now_ns,     sim_random,      sim_sleep_until, sim_alloc,       sim_free,
    sim_log,          sim_thread_start, sim_thread_join, sim_mutex_open,  sim_mutex_close, sim_mutex_lock,
    sim_mutex_unlock, sim_cond_open,  sim_cond_close,  sim_cond_wait,   sim_cond_signal, sim_cond_broadcast,
    sim_process_id,   sim_close,      NULL,            NULL,
};

/* --- world and processes ---------------------------------------------------------------------------------------- */

lki_world *lki_world_new(uint64_t seed) {
  lki_world *w = calloc(1, sizeof *w);
  if (w == NULL) return NULL;
  lki_owner_fix("simulated"); /* a host's name and pid would make histories differ */
  w->rng.state = seed;
  w->now_ns = 1000000000u; /* not 0, which means "never" in places */
  w->pool = lki_fiber_pool_new();
  if (w->pool == NULL) {
    free(w);
    return NULL;
  }
  return w;
}

static void free_process(lki_process *p) {
  for (lki_thread *t = p->threads; t != NULL;) {
    lki_thread *next = t->next_of_process;
    if (t->fiber != NULL) lki_fiber_free(p->world->pool, t->fiber);
    free(t);
    t = next;
  }
  while (p->blocks.next != &p->blocks) sim_free(p, p->blocks.next + 1);
  free(p->held);
  free(p);
}

void lki_world_free(lki_world *w) {
  if (w == NULL) return;
  while (w->processes != NULL) {
    lki_process *p = w->processes;
    w->processes = p->next;
    free_process(p);
  }
  lki_fiber_pool_free(w->pool);
  free(w->ready);
  free(w->timers);
  free(w);
}

uint64_t lki_world_now_ns(const lki_world *w) { return w->now_ns; }
lki_rng *lki_world_rng(lki_world *w) { return &w->rng; }
lki_process *lki_world_current(lki_world *w) { return w->current != NULL ? w->current->process : NULL; }

static void process_main(void *arg) {
  lki_process *p = arg;
  p->fn(p, p->arg);
  p->ended = true;
}

lki_process *lki_world_spawn(lki_world *w, const char *name, void (*fn)(lki_process *process, void *arg), void *arg) {
  lki_process *p = calloc(1, sizeof *p);
  if (p == NULL) return NULL;
  p->world = w;
  p->blocks.next = p->blocks.previous = &p->blocks;
  p->rng.state = lki_rng_next(&w->rng);
  p->id = ++w->process_count;
  p->fn = fn;
  p->arg = arg;
  snprintf(p->name, sizeof p->name, "%s", name);
  if (lki_env_wrap(&sim_ops, p, 0, &p->env, NULL) != LAKE_OK || sim_thread_start(p, "main", process_main, p) == NULL) {
    free_process(p);
    return NULL;
  }
  p->next = w->processes;
  w->processes = p;
  return p;
}

lake_env *lki_process_env(lki_process *p) { return p->env; }
lki_world *lki_process_world(lki_process *p) { return p->world; }
const char *lki_process_name(const lki_process *p) { return p->name; }
bool lki_process_ended(const lki_process *p) { return p->ended || p->dead; }
bool lki_process_paused(const lki_process *p) { return p->paused; }

/* The record stays, since timers and the ready list may point to its threads; memory and stacks go. */
void lki_process_kill(lki_process *p) {
  lki_world *w = p->world;
  assert(w->current == NULL || w->current->process != p);
  if (p->dead) return;
  p->dead = true;
  for (lki_thread *t = p->threads; t != NULL; t = t->next_of_process) {
    if (t->fiber != NULL) lki_fiber_free(w->pool, t->fiber);
    t->fiber = NULL;
    t->ticket++;
  }
  while (p->blocks.next != &p->blocks) sim_free(p, p->blocks.next + 1);
}

void lki_process_pause(lki_process *p) { p->paused = true; }

void lki_process_resume(lki_process *p) {
  p->paused = false;
  size_t count = p->held_count;
  p->held_count = 0;
  for (size_t i = 0; i < count; i++) make_ready(p->held[i]);
}

void lki_world_at(lki_world *w, uint64_t at_ns, void (*fn)(void *arg), void *arg) {
  timer t = {.at_ns = at_ns > w->now_ns ? at_ns : w->now_ns, .fn = fn, .arg = arg};
  push_timer(w, t);
}

void lki_world_sleep_until(lki_world *w, uint64_t at_ns) {
  if (w->current == NULL) return; /* set-up code outside of the clock */
  set_timer(w->current, at_ns > w->now_ns ? at_ns : w->now_ns);
  block_current(w);
}

static void fire(lki_world *w) {
  timer t = pop_timer(w);
  if (t.at_ns > w->now_ns) w->now_ns = t.at_ns;
  if (t.thread == NULL) {
    t.fn(t.arg);
    return;
  }
  if (t.ticket != t.thread->ticket || t.thread->process->dead) return;
  if (t.thread->waits_on != NULL) {
    take_off(t.thread->waits_on, t.thread);
    t.thread->timed_out = true;
  }
  make_ready(t.thread);
}

static void run_one(lki_world *w) {
  size_t i = (size_t)lki_rng_below(&w->rng, w->ready_count);
  lki_thread *t = w->ready[i];
  w->ready[i] = w->ready[--w->ready_count];
  if (t->process->dead || t->fiber == NULL) return;
  if (t->process->paused) {
    make_ready(t); /* held from now on */
    return;
  }
  w->current = t;
  lki_fiber_resume(t->fiber);
  w->current = NULL;
}

uint64_t lki_world_run(lki_world *w, uint64_t until_ns, bool (*stop)(void *arg), void *arg) {
  uint64_t switches = 0;
  for (;;) {
    if (stop != NULL && stop(arg)) break;
    if (w->ready_count > 0) {
      run_one(w);
      switches++;
      continue;
    }
    if (w->timer_count == 0 || w->timers[0].at_ns > until_ns) break;
    fire(w);
  }
  return switches;
}
