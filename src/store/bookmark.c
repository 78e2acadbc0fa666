/* A short list of markers, the one used last in front. Pages that begin at one name have one marker: a newer
 * one takes its place. */
#include "store/bookmark.h"
#include "base/env.h"
#include "base/error.h"
#include <string.h>

#define MARK_COUNT 64u

typedef struct mark {
  char *prefix, *first_name, *marker; /* all or none */
} mark;

struct lki_bookmarks {
  lake_env *env;
  struct {
    lki_mutex *lock;
    mark marks[MARK_COUNT];
  } synced;
};

static void mark_free(lake_env *env, mark *m) {
  lki_free(env, m->prefix);
  lki_free(env, m->first_name);
  lki_free(env, m->marker);
  *m = (mark){NULL, NULL, NULL};
}

lake_status lki_bookmarks_open(lake_env *env, lki_bookmarks **out, lake_error *err) {
  lki_bookmarks *marks = lki_new(env, sizeof *marks);
  if (marks == NULL) return lki_fail(err, LAKE_NOMEM, "store: out of memory");
  marks->env = env;
  marks->synced.lock = lki_mutex_open(env);
  if (marks->synced.lock == NULL) {
    lki_free(env, marks);
    return lki_fail(err, LAKE_NOMEM, "store: out of memory");
  }
  *out = marks;
  return LAKE_OK;
}

void lki_bookmarks_close(lki_bookmarks *marks) {
  if (marks == NULL) return;
  for (uint32_t i = 0; i < MARK_COUNT; i++) mark_free(marks->env, &marks->synced.marks[i]);
  lki_mutex_close(marks->env, marks->synced.lock);
  lki_free(marks->env, marks);
}

static void to_front_locked(lki_bookmarks *marks, uint32_t at) {
  const mark found = marks->synced.marks[at];
  memmove(&marks->synced.marks[1], &marks->synced.marks[0], at * sizeof found);
  marks->synced.marks[0] = found;
}

const char *lki_bookmarks_find(lki_bookmarks *marks, const char *prefix, const char *name, lki_arena *arena) {
  const char *out = NULL;
  lki_lock(marks->env, marks->synced.lock);
  uint32_t best = MARK_COUNT;
  for (uint32_t i = 0; i < MARK_COUNT && marks->synced.marks[i].marker != NULL; i++) {
    const mark *m = &marks->synced.marks[i];
    if (strcmp(m->prefix, prefix) != 0 || strcmp(m->first_name, name) > 0) continue;
    if (best == MARK_COUNT || strcmp(m->first_name, marks->synced.marks[best].first_name) > 0) best = i;
  }
  if (best < MARK_COUNT) {
    const char *marker = marks->synced.marks[best].marker;
    out =
        lki_arena_strndup(arena, marker, strlen(marker)); /* NULL: no memory; then the listing takes longer */
    to_front_locked(marks, best);
  }
  lki_unlock(marks->env, marks->synced.lock);
  return out;
}

void lki_bookmarks_keep(lki_bookmarks *marks, const char *prefix, const char *first_name,
                        const char *marker) {
  lake_env *env = marks->env;
  mark fresh = {lki_strdup(env, prefix), lki_strdup(env, first_name), lki_strdup(env, marker)};
  if (fresh.prefix == NULL || fresh.first_name == NULL || fresh.marker == NULL) {
    mark_free(env, &fresh);
    return;
  }
  lki_lock(env, marks->synced.lock);
  uint32_t at = 0;
  while (at < MARK_COUNT - 1 && marks->synced.marks[at].marker != NULL &&
         (strcmp(marks->synced.marks[at].prefix, prefix) != 0 ||
          strcmp(marks->synced.marks[at].first_name, first_name) != 0))
    at++;
  mark old = marks->synced.marks[at]; /* the same page, an empty place, or the one used longest ago */
  marks->synced.marks[at] = fresh;
  to_front_locked(marks, at);
  lki_unlock(env, marks->synced.lock);
  mark_free(env, &old);
}

void lki_bookmarks_drop(lki_bookmarks *marks, const char *marker) {
  lki_lock(marks->env, marks->synced.lock);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < MARK_COUNT && marks->synced.marks[i].marker != NULL; i++) {
    mark m = marks->synced.marks[i];
    marks->synced.marks[i] = (mark){NULL, NULL, NULL};
    if (strcmp(m.marker, marker) == 0)
      mark_free(marks->env, &m);
    else
      marks->synced.marks[kept++] = m;
  }
  lki_unlock(marks->env, marks->synced.lock);
}
