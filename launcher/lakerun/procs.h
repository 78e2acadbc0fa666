/* The direct children of this process, as /proc shows them, and what is done with all of them at once. A
 * process that is a child subreaper inherits the orphans of everything it started, so by ending its children
 * until none is left it ends all its descendants, whatever sessions or groups they put themselves into. A
 * child that was not waited for keeps its number, so signalling direct children is free of races. */
#ifndef LAKERUN_PROCS_H
#define LAKERUN_PROCS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Calls fn for each direct child that is no zombie; returns how many there are. fn may be NULL. */
size_t lki_procs_children(void (*fn)(void *ctx, pid_t child), void *ctx);
/* Sends the signal to each of them. */
size_t lki_procs_signal_children(int signal);

#endif
