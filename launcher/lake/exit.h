/* The one table from a status to a program's exit code and its class: the same for every program of the project. Pure. */
#ifndef LKI_LAUNCHER_EXIT_H
#define LKI_LAUNCHER_EXIT_H

#include <lakestream/base.h>

enum {
  LKI_EXIT_OK = 0,
  LKI_EXIT_OTHER = 1,
  LKI_EXIT_USAGE = 2,
  LKI_EXIT_NOTFOUND = 3,
  LKI_EXIT_CONFLICT = 4,
  LKI_EXIT_TRANSIENT = 5,
  LKI_EXIT_CORRUPT = 6,
  LKI_EXIT_TIMEOUT = 7,
  LKI_EXIT_CREDENTIALS = 8,
  LKI_EXIT_UNSUPPORTED = 9
};

int lki_exit_code(lake_status status);
const char *lki_exit_class(int exit_code); /* "ok", "usage", "notfound", ...; static */

#endif
