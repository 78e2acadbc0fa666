/* XML by expat. The path and the text of the innermost element are kept in two buffers with limits; an
 * element's text is its own only, since no reply of a store mixes text and children. Entities cannot be
 * declared, so a document never grows while it is read. One walk is one thread's. */
#include "store/xml.h"
#include "base/buffer.h"
#include "base/env.h"
#include "base/error.h"
#include <expat.h>
#include <string.h>

#define DEPTH_MAX 16
#define FEED_BYTES_MAX ((size_t)1 << 20)

typedef struct walk {
  XML_Parser parser;
  lki_xml_fn *fn;
  void *ctx;
  const char *fault; /* why the walk was ended; NULL: it was not */
  bool no_memory;
  lake_buffer text;
  size_t depth;
  size_t path_bytes;
  char path[LKI_XML_PATH_BYTES_MAX];
} walk;

static void stop(walk *w, const char *fault) {
  if (w->fault == NULL) w->fault = fault;
  XML_StopParser(w->parser, XML_FALSE);
}

static void stop_no_memory(walk *w) {
  w->no_memory = true;
  stop(w, "out of memory");
}

/* Appends "/name" and gives the length before; SIZE_MAX: no room. A prefix of a namespace means nothing here;
 * a name that is nothing but a prefix, which XML without namespaces allows, stays whole. */
static size_t path_push(walk *w, const char *mark, const char *name) {
  const char *colon = strrchr(name, ':');
  if (colon != NULL && colon[1] != 0) name = colon + 1;
  const size_t before = w->path_bytes;
  const size_t mark_bytes = before == 0 ? 0 : strlen(mark);
  const size_t name_bytes = strlen(name);
  if (before + mark_bytes + name_bytes + 1 > sizeof w->path) return SIZE_MAX;
  memcpy(w->path + before, mark, mark_bytes);
  memcpy(w->path + before + mark_bytes, name, name_bytes + 1);
  w->path_bytes = before + mark_bytes + name_bytes;
  return before;
}

static void path_cut(walk *w, size_t bytes) {
  w->path_bytes = bytes;
  w->path[bytes] = 0;
}

static void hand_out(walk *w, const char *text) {
  if (w->fault == NULL && !w->fn(w->ctx, w->path, text)) stop_no_memory(w);
}

static void XMLCALL on_start(void *data, const XML_Char *name, const XML_Char **attributes) {
  walk *w = data;
  if (w->fault != NULL) return;
  if (++w->depth > DEPTH_MAX || path_push(w, "/", name) == SIZE_MAX) {
    stop(w, "nested too deep");
    return;
  }
  for (; attributes[0] != NULL && w->fault == NULL; attributes += 2) {
    const size_t before = path_push(w, "/@", attributes[0]);
    if (before == SIZE_MAX) {
      stop(w, "a name that is too long");
      return;
    }
    hand_out(w, attributes[1]);
    path_cut(w, before);
  }
  w->text.bytes = 0;
}

static void XMLCALL on_end(void *data, const XML_Char *name) {
  (void)name;
  walk *w = data;
  if (w->fault != NULL) return;
  if (lki_buffer_append(&w->text, "", 1, NULL) != LAKE_OK) {
    stop(w, "a text that is too long");
    return;
  }
  hand_out(w, (const char *)w->text.data);
  w->text.bytes = 0;
  w->depth--;
  char *slash = strrchr(w->path, '/');
  path_cut(w, slash != NULL ? (size_t)(slash - w->path) : 0);
}

static void XMLCALL on_text(void *data, const XML_Char *text, int bytes) {
  walk *w = data;
  if (w->fault != NULL) return;
  lake_status s = lki_buffer_append(&w->text, text, (size_t)bytes, NULL);
  if (s == LAKE_NOMEM) stop_no_memory(w);
  if (s != LAKE_OK) stop(w, "a text that is too long");
}

static void XMLCALL on_doctype(void *data, const XML_Char *name, const XML_Char *system,
                               const XML_Char *public, int internal) {
  (void)name, (void)system, (void)public, (void)internal;
  stop(data, "a document type, which no store sends");
}

/* In pieces, since expat counts bytes in an int. */
static bool feed(walk *w, lake_bytes document) {
  const char *at = document.data;
  size_t left = document.bytes;
  for (;;) {
    const size_t bytes = left < FEED_BYTES_MAX ? left : FEED_BYTES_MAX;
    const bool last = bytes == left;
    if (XML_Parse(w->parser, at, (int)bytes, last) != XML_STATUS_OK) return false;
    if (last) return true;
    at += bytes;
    left -= bytes;
  }
}

lake_status lki_xml_walk(lake_env *env, lake_bytes document, const char *what, lki_xml_fn *fn, void *ctx,
                         lake_error *err) {
  lake_status s = LAKE_OK;
  walk *w = lki_new(env, sizeof *w);
  if (w == NULL) return lki_fail(err, LAKE_NOMEM, "%s: out of memory", what);
  w->fn = fn;
  w->ctx = ctx;
  lki_buffer_init(&w->text, env, LKI_XML_TEXT_BYTES_MAX);
  w->parser = XML_ParserCreate("UTF-8");
  if (w->parser == NULL) {
    s = lki_fail(err, LAKE_NOMEM, "%s: out of memory", what);
    goto done;
  }
  XML_SetUserData(w->parser, w);
  XML_SetElementHandler(w->parser, on_start, on_end);
  XML_SetCharacterDataHandler(w->parser, on_text);
  XML_SetStartDoctypeDeclHandler(w->parser, on_doctype);
  if (feed(w, document)) goto done;
  const enum XML_Error code = XML_GetErrorCode(w->parser);
  if (w->no_memory || code == XML_ERROR_NO_MEMORY)
    s = lki_fail(err, LAKE_NOMEM, "%s: out of memory", what);
  else
    s = lki_fail(err, LAKE_UNAVAILABLE, "%s is not the XML that was expected: line %lu: %s", what,
                 (unsigned long)XML_GetCurrentLineNumber(w->parser),
                 w->fault != NULL ? w->fault : XML_ErrorString(code));
done:
  if (w->parser != NULL) XML_ParserFree(w->parser);
  lki_buffer_free(&w->text);
  lki_free(env, w);
  return s;
}

const char *lki_xml_leaf(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}
