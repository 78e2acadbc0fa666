/* From what a user typed to a store: URL forms, their canonical text, and which file opens them. */
#ifndef LKI_STORE_URI_H
#define LKI_STORE_URI_H

#include <lakestream/sys/store.h>

/* The canonical URL of what was typed: "mem:NAME", "file:/absolute/path" with links and dots resolved, or a cloud URL, so
 * that two spellings of one store print alike. INVALID (malformed), UNSUPPORTED (unknown scheme), NOMEM. */
lake_status lki_uri_canonical(lake_env *env, const char *url, char **out, lake_error *err);

/* Opens a canonical URL. */
lake_status lki_uri_open(lake_env *env, const char *canonical, const lake_store_ops **ops, void **self,
                         lake_error *err);

#endif
