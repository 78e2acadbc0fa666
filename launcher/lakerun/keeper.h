/* A keeper: a small process between lakerun and one attempt's command. It starts the command in a process
 * group of its own, obeys what lakerun writes on the control descriptor, and ends only when everything that
 * the command started is gone; then it ends as the command did. When the control descriptor reaches its end,
 * because lakerun was killed, it ends the command by itself: TERM, a wait, KILL. So nothing is ever left
 * running, even after SIGKILL on lakerun.
 *
 * The same keeper runs on another machine (`lakerun --keep`), its control descriptor being the standard input
 * that the remote shell connects. Single-threaded; the process of lki_keeper_run does nothing else. */
#ifndef LAKERUN_KEEPER_H
#define LAKERUN_KEEPER_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* What lakerun writes, one byte each. */
#define LKI_KEEP_DRAIN 'D' /* the drain signal to the command's process */
#define LKI_KEEP_TERM 'T'  /* TERM to its group */
#define LKI_KEEP_KILL 'K'  /* KILL to all that is left */

#define LKI_EXIT_NOT_FOUND 127   /* the shell's convention: there is no such program */
#define LKI_EXIT_NOT_STARTED 126 /* it is there and cannot be run */

typedef struct lki_keeper {
  char *const *argv;
  char *const *envp;
  const char *workdir;   /* NULL: stay */
  const cpu_set_t *cpus; /* NULL: as inherited */
  int control;           /* read here; a socket also gets the command's pid as an int */
  bool tell_pid;
  bool relay;     /* the command is a remote shell: pass the bytes on to its standard input */
  bool as_signal; /* end by the signal that ended the command; else exit with 128 + signal */
  int drain_signal;
  int death_signal; /* what the command gets should the keeper itself be killed */
  uint64_t term_ms;
} lki_keeper;

/* Makes this process the keeper. SIGCHLD must have its default disposition. Never returns. */
_Noreturn void lki_keeper_run(const lki_keeper *keeper);

#endif
