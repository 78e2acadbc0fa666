/* Checkpoints of train_lm: one file each, complete or not there.
 *
 * A file is written under another name, synced and renamed; it ends with a checksum of all before it, so what a crash
 * or a full disk left is recognised and passed over. Only rank 0 calls these. One thread. */
#ifndef LM_CHECKPOINT_H
#define LM_CHECKPOINT_H

#include "lm_model.h"
#include <lakestream/lakestream.h>

/* Everything besides the weights that a resumed run needs to go on as if it had not stopped. */
typedef struct lm_state {
  uint64_t step;        /* the next one; all before it are in the weights */
  uint64_t data_digest; /* of all rows used so far */
  uint64_t seed;
  double rate, momentum;
  double loss; /* of the last step; 0 when there was none */
  char uuid[40]; /* of the namespace */
  char cursor[LAKE_CURSOR_BYTES];
} lm_state;

/* Sets *err (NULL accepted) and returns status. */
lake_status lm_fail(lake_error *err, lake_status status, const char *format, ...) LAKE_PRINTF(3, 4);

/* Writes <folder>/ckpt-<step>.bin; the folder is made if missing. */
lake_status lm_checkpoint_save(const char *folder, const lm_state *state, const lm_model *model, lake_error *err);

/* Loads the newest complete checkpoint into model and *state; what is damaged is warned of on stderr and passed over.
 * *state holds what the run expects (uuid, seed, rate, momentum): INVALID if the newest complete checkpoint is another
 * namespace's or another model's. NOTFOUND: there is none. On failure nothing changed. */
lake_status lm_checkpoint_load_newest(const char *folder, lm_state *state, lm_model *model, lake_error *err);

/* Of the checkpoints keeps the one just saved and the newest others that can be read, `keep` in all; calls forget(ctx,
 * step) for each that is older than these, readable or not, and removes it where that returns true. One that cannot be
 * read and is newer stays: it counts as nothing, was warned of at the resume, and the run will come past it. Removes what
 * an interrupted save left. */
void lm_checkpoint_prune(const char *folder, uint64_t saved, uint32_t keep, bool (*forget)(void *ctx, uint64_t step),
                         void *ctx);

#endif
