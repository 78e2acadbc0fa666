/* A TGB in the store: writing its object, reading one slice of it. Bytes and no decisions. Safe from any thread. */
#ifndef LKI_TGB_TGB_H
#define LKI_TGB_TGB_H

#include "format/format.h"
#include "store/store.h"

/* One slice in memory. */
typedef struct lki_slice {
  lake_env *env;
  unsigned char *memory; /* owned, 64-byte aligned */
  lake_bytes view;       /* the slice, in memory */
  uint64_t stored_bytes; /* of its frame */
} lki_slice;

/* Which TGB, and how to find its slices. producer_id and descriptor are borrowed. */
typedef struct lki_tgb_ref {
  const lki_id *namespace_id;
  const char *producer_id;
  const lki_descriptor *descriptor;
} lki_tgb_ref;

/* Writes an encoded TGB under its name. Write-once by construction: the name holds the epoch and the seq, and one
 * incarnation sends only one content for a seq; so sending again is harmless. */
lake_status lki_tgb_write(lake_store *store, const char *producer_id, uint64_t epoch, uint64_t seq, lake_bytes object,
                          lake_deadline deadline, lake_error *err);

/* Reads and verifies slice index `slice` with one ranged read (two where only the footer lists the frames).
 * CORRUPT also when the object is missing or shorter than its descriptor says. */
lake_status lki_tgb_read_slice(lake_store *store, const lki_tgb_ref *tgb, uint32_t slice, lake_deadline deadline,
                               lki_slice *out, lake_error *err);
void lki_slice_free(lki_slice *slice); /* leaves it empty; an empty one is accepted */

/* Reads the footer with one suffix read. frame_bytes_each lies in arena. */
lake_status lki_tgb_read_footer(lake_store *store, const lki_tgb_ref *tgb, lake_deadline deadline, lki_arena *arena,
                                lki_tgb_footer *footer, lake_error *err);

#endif
