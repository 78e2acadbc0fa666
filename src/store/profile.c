/* Reading INI files the way AWS's tools do. What they agree on: sections in brackets, names whatever their
 * case, '#' and
 * ';' begin a comment at the start of a line or after a blank, an indented line belongs to the value above
 * it: a value of its own when that one is empty, else its continuation. Where they differ: a command keeps
 * its '#' and ';' (as in the command line tool, where "a; b" is a command), and of two equal names the last
 * counts.
 *
 * No state. The text of a file is wiped before its memory goes back, since it may hold secrets. */
#include "store/profile.h"
#include "base/env.h"
#include "base/error.h"
#include "base/read_file.h"
#include <string.h>
#include <strings.h>

/* A piece of the file's text. */
typedef struct span {
  const char *at;
  size_t bytes;
} span;

typedef struct parser {
  const char *path;
  const char *section;
  const char *name;
  size_t line;
  bool inside;          /* the section at hand is the one asked for */
  bool in_section;      /* any section has begun */
  bool any_inside;      /* the section was seen */
  span parent;          /* the name above, which a line that is indented deeper belongs to; bytes 0: none */
  size_t parent_indent; /* how deep it is itself: some indent all that is in a section */
  bool parent_empty;    /* its value is empty, so that deeper lines are values of their own */
  bool found;
  span value;
} parser;

static bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static span trim(span s) {
  while (s.bytes > 0 && blank(s.at[0])) {
    s.at++;
    s.bytes--;
  }
  while (s.bytes > 0 && blank(s.at[s.bytes - 1])) s.bytes--;
  return s;
}

static bool equal_name(span s, const char *name, size_t bytes) {
  return s.bytes == bytes && strncasecmp(s.at, name, bytes) == 0;
}

/* Compares what stands in brackets with a section's name, word by word: `profile  "prod"` is "profile prod".
 */
static bool equal_section(span s, const char *section) {
  s = trim(s);
  while (s.bytes > 0 && *section != 0) {
    if (*section == ' ') {
      if (!blank(s.at[0])) return false;
      s = trim(s);
      section++;
    }
    char quote = s.bytes > 0 && (s.at[0] == '"' || s.at[0] == '\'') ? s.at[0] : 0;
    size_t word = 0, want = strcspn(section, quote ? "" : " ");
    span text = {s.at + (quote ? 1 : 0), s.bytes - (quote ? 1 : 0)};
    while (word < text.bytes && (quote ? text.at[word] != quote : !blank(text.at[word]))) word++;
    if (word != want || memcmp(text.at, section, word) != 0) return false;
    size_t used = word + (quote && word < text.bytes ? 1 : 0);
    s.at = text.at + used;
    s.bytes = text.bytes - used;
    section += want;
  }
  return s.bytes == 0 && *section == 0;
}

/* A comment begins after a blank; a command is taken as it is. */
static span strip_comment(span value, span name) {
  static const char command[] = "credential_process";
  if (equal_name(name, command, sizeof command - 1)) return value;
  for (size_t i = 0; i < value.bytes; i++)
    if ((value.at[i] == '#' || value.at[i] == ';') && (i == 0 || blank(value.at[i - 1]))) value.bytes = i;
  return trim(value);
}

static lake_status bad_line(const parser *p, const char *what, lake_error *err) {
  return lki_fail(err, LAKE_INVALID, "file \"%.300s\", line %zu: %s", p->path, p->line, what);
}

static lake_status take_section(parser *p, span line, lake_error *err) {
  const char *close = memchr(line.at, ']', line.bytes);
  if (close == NULL) return bad_line(p, "a section has no closing bracket", err);
  span rest = {close + 1, line.bytes - (size_t)(close + 1 - line.at)};
  rest = trim(rest);
  if (rest.bytes > 0 && rest.at[0] != '#' && rest.at[0] != ';')
    return bad_line(p, "there is text after the section's bracket", err);
  span head = {line.at + 1, (size_t)(close - line.at) - 1};
  p->in_section = true;
  p->inside = equal_section(head, p->section);
  if (p->inside) p->any_inside = true;
  p->parent.bytes = 0;
  return LAKE_OK;
}

/* name = value; false: neither '=' nor ':' is there. */
static bool split(span line, span *name, span *value) {
  size_t i = 0;
  while (i < line.bytes && line.at[i] != '=' && line.at[i] != ':') i++;
  if (i == line.bytes || i == 0) return false;
  span left = {line.at, i}, right = {line.at + i + 1, line.bytes - i - 1};
  *name = trim(left);
  *value = strip_comment(trim(right), *name);
  return true;
}

/* Whether name, below parent when that has any bytes, is what is looked for. */
static bool wanted(const parser *p, span parent, span name) {
  if (!p->inside || p->name == NULL) return false;
  if (parent.bytes == 0) return equal_name(name, p->name, strlen(p->name));
  const char *dot = strchr(p->name, '.');
  return dot != NULL && equal_name(parent, p->name, (size_t)(dot - p->name)) &&
         equal_name(name, dot + 1, strlen(dot + 1));
}

static lake_status take_indented(parser *p, span line, lake_error *err) {
  span name, value, none = {NULL, 0};
  if (p->parent_empty) {
    if (!split(line, &name, &value))
      return bad_line(p, "an indented line is not of the form name = value", err);
    if (wanted(p, p->parent, name)) {
      p->found = true;
      p->value = value;
    }
    return LAKE_OK;
  }
  if (wanted(p, none, p->parent))
    return bad_line(p, "a value goes on over more than one line; write it on one", err);
  return LAKE_OK;
}

static lake_status take_line(parser *p, span raw, lake_error *err) {
  span line = trim(raw), none = {NULL, 0};
  if (line.bytes == 0 || line.at[0] == '#' || line.at[0] == ';') return LAKE_OK;
  size_t indent = (size_t)(line.at - raw.at);
  if (p->parent.bytes > 0 && indent > p->parent_indent) return take_indented(p, line, err);
  if (line.at[0] == '[') return take_section(p, line, err);
  if (!p->in_section) return bad_line(p, "text stands before the first [section]", err);
  span name, value;
  if (!split(line, &name, &value) || name.bytes == 0) return bad_line(p, "not of the form name = value", err);
  p->parent = name;
  p->parent_indent = indent;
  p->parent_empty = value.bytes == 0;
  if (wanted(p, none, name)) {
    p->found = true;
    p->value = value;
  }
  return LAKE_OK;
}

static lake_status parse(parser *p, const char *text, size_t bytes, lake_error *err) {
  const char *end = text + bytes;
  if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3;
  while (text < end) {
    const char *stop = memchr(text, '\n', (size_t)(end - text));
    if (stop == NULL) stop = end;
    span line = {text, (size_t)(stop - text)};
    p->line++;
    if (memchr(line.at, 0, line.bytes) != NULL) return bad_line(p, "a NUL byte", err);
    lake_status s = take_line(p, line, err);
    if (s != LAKE_OK) return s;
    text = stop < end ? stop + 1 : end;
  }
  return LAKE_OK;
}

static lake_status take_value(const parser *p, lki_arena *arena, const char **out, lake_error *err) {
  char *copy = p->found ? lki_arena_strndup(arena, p->value.at, p->value.bytes) : NULL;
  if (p->found && copy == NULL) return lki_fail(err, LAKE_NOMEM, "file \"%.300s\": out of memory", p->path);
  *out = copy;
  return LAKE_OK;
}

lake_status lki_profile_find(lki_arena *arena, lake_bytes text, const char *path, const char *section,
                             const char *name, const char **out, lake_error *err) {
  parser p = {.path = path, .section = section, .name = name};
  lake_status s = parse(&p, text.data, text.bytes, err);
  return s == LAKE_OK ? take_value(&p, arena, out, err) : s;
}

/* The whole file; a file that is not there is an empty one. To be wiped and freed. */
static lake_status read_text(lake_env *env, const char *path, char **text, size_t *bytes, lake_error *err) {
  lake_error why = LAKE_ERROR_INIT;
  lake_status s = lki_read_file(env, path, LKI_PROFILE_BYTES_MAX, text, bytes, &why);
  if (s == LAKE_NOTFOUND) {
    *text = lki_strdup(env, "");
    *bytes = 0;
    return *text != NULL ? LAKE_OK : lki_fail(err, LAKE_NOMEM, "file \"%.300s\": out of memory", path);
  }
  if (s != LAKE_OK) lki_error_copy(err, &why);
  return s;
}

static void free_text(lake_env *env, char *text, size_t bytes) {
  explicit_bzero(text, bytes);
  lki_free(env, text);
}

lake_status lki_profile_get(lki_arena *arena, const char *path, const char *section, const char *name,
                            const char **out, lake_error *err) {
  lake_bytes view = {NULL, 0};
  char *text = NULL;
  lake_status s = read_text(arena->env, path, &text, &view.bytes, err);
  if (s != LAKE_OK) return s;
  view.data = text;
  s = lki_profile_find(arena, view, path, section, name, out, err);
  free_text(arena->env, text, view.bytes);
  return s;
}

lake_status lki_profile_has(lake_env *env, const char *path, const char *section, bool *out,
                            lake_error *err) {
  parser p = {.path = path, .section = section};
  char *text = NULL;
  size_t bytes = 0;
  lake_status s = read_text(env, path, &text, &bytes, err);
  if (s != LAKE_OK) return s;
  s = parse(&p, text, bytes, err);
  if (s == LAKE_OK) *out = p.any_inside;
  free_text(env, text, bytes);
  return s;
}
