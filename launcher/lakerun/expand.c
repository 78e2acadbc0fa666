/* Placeholders and shell quoting. No state. */
#include "expand.h"
#include "base/error.h"
#include <stdio.h>
#include <string.h>

#define EXPANDED_BYTES_MAX ((size_t)1 << 17) /* what Linux takes as one argument */

static lake_status unknown(const char *name, size_t bytes, const lki_place *places, size_t place_count,
                           lake_error *err) {
  char list[160] = "";
  size_t used = 0;
  for (size_t i = 0; i < place_count && used < sizeof list; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, " {%s}", places[i].name);
  return lki_fail(err, LAKE_INVALID, "unknown placeholder {%.*s}; known here:%s; write {{ for a brace",
                  (int)(bytes < 40 ? bytes : 40), name, list);
}

/* Appends the value of the placeholder that starts at *p, and moves *p past it. */
static lake_status place(lake_buffer *out, const char **p, const lki_place *places, size_t place_count,
                         lake_error *err) {
  const char *name = *p + 1;
  const char *end = strchr(name, '}');
  if (end == NULL) return lki_fail(err, LAKE_INVALID, "{ without }; write {{ for a brace");
  size_t bytes = (size_t)(end - name);
  *p = end + 1;
  for (size_t i = 0; i < place_count; i++)
    if (strlen(places[i].name) == bytes && memcmp(places[i].name, name, bytes) == 0)
      return lki_buffer_append(out, places[i].value, strlen(places[i].value), err);
  return unknown(name, bytes, places, place_count, err);
}

char *lki_expand(lki_arena *arena, const char *text, const lki_place *places, size_t place_count,
                 lake_error *err) {
  lake_buffer out;
  lki_buffer_init(&out, arena->env, EXPANDED_BYTES_MAX);
  lake_status s = LAKE_OK;
  char *done = NULL;
  for (const char *p = text; *p != 0 && s == LAKE_OK;) {
    size_t plain = strcspn(p, "{");
    s = lki_buffer_append(&out, p, plain, err);
    p += plain;
    if (s != LAKE_OK || *p == 0) break;
    if (p[1] == '{') {
      s = lki_buffer_append(&out, "{", 1, err);
      p += 2;
    } else {
      s = place(&out, &p, places, place_count, err);
    }
  }
  if (s == LAKE_OK) {
    done = lki_arena_strndup(arena, out.bytes > 0 ? (const char *)out.data : "", out.bytes);
    if (done == NULL) lki_fail(err, LAKE_NOMEM, "out of memory for a command");
  }
  lki_buffer_free(&out);
  return done;
}

lake_status lki_quote(lake_buffer *out, const char *word, lake_error *err) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./,:=@%^";
  size_t bytes = strlen(word);
  if (bytes > 0 && strspn(word, plain) == bytes) return lki_buffer_append(out, word, bytes, err);
  lake_status s = lki_buffer_append(out, "'", 1, err);
  for (const char *p = word; *p != 0 && s == LAKE_OK;) {
    size_t run = strcspn(p, "'");
    s = lki_buffer_append(out, p, run, err);
    p += run;
    /* Within quotes nothing stands for a quote: leave them, write one, enter again. */
    if (s == LAKE_OK && *p == '\'') {
      s = lki_buffer_append(out, "'\\''", 4, err);
      p++;
    }
  }
  if (s == LAKE_OK) s = lki_buffer_append(out, "'", 1, err);
  return s;
}
