/* Running a command line of the user's own and reading what it says. */
#ifndef LKI_BASE_COMMAND_H
#define LKI_BASE_COMMAND_H

#include "base/env.h"

/* Runs `command` by /bin/sh -c, with an empty standard input and our standard error, in a process group of
 * its own, and gives what it wrote to standard output, terminated; the caller frees it with lki_free. The
 * command may begin with secrets and its output may be one: the error names neither. INVALID: it ended with
 * another code than 0, or by a signal, or wrote more than bytes_max; TIMEOUT: it was still running at the
 * deadline, and was killed with all that it had started; NOMEM; UNAVAILABLE: no process could be started. */
lake_status lki_command_output(lake_env *env, const char *command, size_t bytes_max, lake_deadline deadline,
                               char **out, size_t *bytes, lake_error *err);

#endif
