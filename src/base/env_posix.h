/* The machine's own environment table: CLOCK_MONOTONIC, getrandom, pthreads. */
#ifndef LKI_BASE_ENV_POSIX_H
#define LKI_BASE_ENV_POSIX_H

#include "base/env.h"

const lki_env_ops *lki_env_posix_ops(void);
void *lki_env_posix_new(const lake_env_options *options); /* NULL: no memory; closed by the table's close */

#endif
