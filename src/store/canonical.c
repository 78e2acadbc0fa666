/* Parts of canonical texts. No state. */
#include "store/canonical.h"
#include <string.h>

static int order(const lki_pair *a, const lki_pair *b) {
  const int names = strcmp(a->name, b->name);
  return names != 0 ? names : strcmp(a->value, b->value);
}

void lki_pairs_sort(lki_pair *pairs, size_t count) {
  for (size_t i = 1; i < count; i++) { /* at most LKI_REQUEST_PAIRS_MAX of them, mostly in order already */
    const lki_pair pair = pairs[i];
    size_t j = i;
    for (; j > 0 && order(&pairs[j - 1], &pair) > 0; j--) pairs[j] = pairs[j - 1];
    pairs[j] = pair;
  }
}

void lki_put_text(lki_writer *writer, const char *text) {
  lki_put_bytes(writer, text, strlen(text));
}

void lki_put_folded(lki_writer *writer, const char *text) {
  static const char blanks[] = " \t";
  text += strspn(text, blanks);
  while (*text) {
    const size_t word = strcspn(text, blanks);
    lki_put_bytes(writer, text, word);
    text += word;
    text += strspn(text, blanks);
    if (*text) lki_put_text(writer, " ");
  }
}

const char *lki_written(const lki_writer *writer, lki_arena *arena) {
  if (writer->status != LAKE_OK) return NULL;
  return lki_arena_strndup(arena, (const char *)writer->buffer->data, writer->buffer->bytes);
}
