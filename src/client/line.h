/* Lines: what reclaim is about to trim, declared durably before it lists the pins (docs/design/0007). */
#ifndef LKI_CLIENT_LINE_H
#define LKI_CLIENT_LINE_H

#include "client/namespace.h"
#include "format/names.h"

/* Declares that the first live step may become `step` in a version up to version_max; *line is then its own. */
lake_status lki_line_put(lake_namespace *ns, uint64_t step, uint64_t version_max, lake_deadline deadline,
                         lki_line *line, lake_error *err);
/* Takes a line back: only by who put it, once it cannot be committed any more, or when it is decided. */
lake_status lki_line_remove(lake_namespace *ns, const lki_line *line, lake_deadline deadline, lake_error *err);

/* Of the lines above `step`, the one that stays good for the most versions. *found: there is one. */
lake_status lki_line_find_above(lake_namespace *ns, uint64_t step, lake_deadline deadline, bool *found,
                                lki_line *line, lake_error *err);
/* Removes the lines that manifest, which lives, has decided: at or below its first live step, or void. */
lake_status lki_line_remove_decided(lake_namespace *ns, const lki_manifest *manifest, lake_deadline deadline,
                                    lake_error *err);

#endif
