/* Status to exit code. No state. */
#include "exit.h"

int lki_exit_code(lake_status status) {
  switch (status) {
  case LAKE_OK: return LKI_EXIT_OK;
  case LAKE_INVALID: return LKI_EXIT_USAGE;
  case LAKE_NOTFOUND: return LKI_EXIT_NOTFOUND;
  /* Deleted on purpose, below the boundary: nothing is damaged, so a restore is not what helps. */
  case LAKE_RECLAIMED: return LKI_EXIT_NOTFOUND;
  case LAKE_EXISTS:
  case LAKE_FENCED:
  case LAKE_AGAIN: return LKI_EXIT_CONFLICT;
  /* A program that gets END as an error wanted to append to a sealed stream. */
  case LAKE_END: return LKI_EXIT_CONFLICT;
  case LAKE_UNCERTAIN:
  case LAKE_UNAVAILABLE: return LKI_EXIT_TRANSIENT;
  case LAKE_CORRUPT: return LKI_EXIT_CORRUPT;
  case LAKE_TIMEOUT: return LKI_EXIT_TIMEOUT;
  case LAKE_DENIED: return LKI_EXIT_CREDENTIALS;
  case LAKE_UNSUPPORTED: return LKI_EXIT_UNSUPPORTED;
  case LAKE_CANCELED:
  case LAKE_NOMEM:
  case LAKE_INTERNAL: return LKI_EXIT_OTHER;
  }
  return LKI_EXIT_OTHER;
}

const char *lki_exit_class(int exit_code) {
  static const char *const names[] = {"ok",      "other",   "usage",   "notfound",    "conflict",
                                      "transient", "corrupt", "timeout", "credentials", "unsupported"};
  return exit_code >= 0 && exit_code < (int)(sizeof names / sizeof names[0]) ? names[exit_code] : "other";
}
