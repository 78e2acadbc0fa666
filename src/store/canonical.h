/* What the canonical texts of the signatures have in common. Pure. */
#ifndef LKI_STORE_CANONICAL_H
#define LKI_STORE_CANONICAL_H

#include "base/codec.h"
#include "store/request.h"

void lki_pairs_sort(lki_pair *pairs, size_t count); /* by name, then by value, in byte order */
void lki_put_text(lki_writer *writer, const char *text);
void lki_put_folded(lki_writer *writer, const char *text); /* no blanks at the ends, one where there are several */
/* Text of what was written; NULL: no memory. */
const char *lki_written(const lki_writer *writer, lki_arena *arena);

#endif
