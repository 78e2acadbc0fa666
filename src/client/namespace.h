/* The namespace handle, as the clients see it. */
#ifndef LKI_CLIENT_NAMESPACE_H
#define LKI_CLIENT_NAMESPACE_H

#include "log/log.h"
#include <lakestream/namespace.h>

struct lake_namespace {
  lake_env *env;
  lake_store *store;
  bool owns_store;
  lki_schema *schema;
  lki_log *log;
};

#endif
