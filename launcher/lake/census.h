/* A census of a namespace's names: which manifest versions there are, and which there must have been. Finding the
 * newest version probes single names, so versions lost from the middle or the end look like a shorter stream; only a
 * listing tells. One thread. */
#ifndef LKI_LAUNCHER_CENSUS_H
#define LKI_LAUNCHER_CENSUS_H

#include "cli.h"
#include "client/namespace.h"

typedef struct lki_census lki_census;
typedef void lki_census_fault_fn(void *ctx, const char *kind, const char *object, const char *text, const char *means);

/* Lists the namespace. Whatever version is newest must be looked for afterwards, so that what writers do meanwhile is
 * no fault: everything listed is at most as new as what is found then. */
lake_status lki_census_take(lki_cli *cli, lake_namespace *ns, lki_census **out, lake_error *err);
void lki_census_free(lki_census *census); /* NULL accepted */
/* The newest version below *version that was listed and is alive; false: there is none. */
bool lki_census_before(const lki_census *census, uint64_t *version);
/* Compares with the newest manifest that was found after the census was taken. */
lake_status lki_census_check(const lki_census *census, const lki_manifest *newest, lki_census_fault_fn *fault,
                             void *ctx, lake_error *err);

#endif
