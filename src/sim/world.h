/* The simulated machine room: a virtual clock, one seed, and processes whose lake_env runs on fibers. The library's own
 * code runs in it unchanged. A process can be paused for as long as one likes and go on, or be killed at any point: its
 * threads never run again and its memory is freed. Equal seeds give equal runs. One OS thread. */
#ifndef LKI_SIM_WORLD_H
#define LKI_SIM_WORLD_H

#include "base/env.h"
#include "base/rng.h"

typedef struct lki_world lki_world;
typedef struct lki_process lki_process;

lki_world *lki_world_new(uint64_t seed); /* NULL: no memory */
void lki_world_free(lki_world *world);   /* kills what still runs */

uint64_t lki_world_now_ns(const lki_world *world);
lki_rng *lki_world_rng(lki_world *world);

/* A process that runs fn(process, arg) in its first thread. NULL: no memory. */
lki_process *lki_world_spawn(lki_world *world, const char *name, void (*fn)(lki_process *process, void *arg),
                             void *arg);
lake_env *lki_process_env(lki_process *process);
lki_world *lki_process_world(lki_process *process);
const char *lki_process_name(const lki_process *process);
bool lki_process_ended(const lki_process *process); /* its first thread returned, or it was killed */
void lki_process_kill(lki_process *process);        /* not from inside it */
void lki_process_pause(lki_process *process);
void lki_process_resume(lki_process *process);
bool lki_process_paused(const lki_process *process);

/* fn(arg) at a time of the virtual clock, outside of any process. */
void lki_world_at(lki_world *world, uint64_t at_ns, void (*fn)(void *arg), void *arg);
/* Blocks the calling fiber: for the simulated store. */
void lki_world_sleep_until(lki_world *world, uint64_t at_ns);
/* The process whose fiber runs; NULL in an event. */
lki_process *lki_world_current(lki_world *world);

/* Runs until nothing is left to do before until_ns, or stop() says so (checked between switches; may be NULL).
 * Returns how many switches were made. */
uint64_t lki_world_run(lki_world *world, uint64_t until_ns, bool (*stop)(void *arg), void *arg);

#endif
