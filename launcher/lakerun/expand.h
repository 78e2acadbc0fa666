/* Text with {placeholders}, and quoting for a shell. No state. */
#ifndef LAKERUN_EXPAND_H
#define LAKERUN_EXPAND_H

#include "base/buffer.h"

typedef struct lki_place {
  const char *name;
  const char *value;
} lki_place;

/* Replaces each {name}; "{{" is a brace. Returns a string of the arena, or NULL with the reason in err:
 * INVALID (an unknown or unclosed placeholder) or NOMEM. */
char *lki_expand(lki_arena *arena, const char *text, const lki_place *places, size_t place_count,
                 lake_error *err);

/* Appends word to out so that a POSIX shell reads it back as one word; plain words stay as they are. */
lake_status lki_quote(lake_buffer *out, const char *word, lake_error *err);

#endif
