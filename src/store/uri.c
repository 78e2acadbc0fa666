/* URLs of stores. Pure text but for file:, where the part of the path that exists is resolved on the disk.
 * No state; safe from any thread. */
#include "store/uri.h"
#include "base/env.h"
#include "base/error.h"
#include "store/request.h"
#include "store/cloud.h"
#include "store/store.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MEM_NAME_BYTES_MAX 240
#define KNOWN_SCHEMES                                                                                                  \
  "file:/folder, file:folder, /folder, ./folder, mem:NAME, s3://bucket/prefix, gs://bucket/prefix, "                    \
  "az://container/prefix"

typedef struct scheme {
  const char *name;
  bool whole; /* both get the URL with its scheme, not just what follows the colon */
  lake_status (*canonical)(lake_env *env, const char *rest, char **out, lake_error *err);
  lake_status (*open)(lake_env *env, const char *rest, const lake_store_ops **ops, void **self,
                      lake_error *err);
} scheme;

static lake_status join(lake_env *env, const char *head, const char *tail, char **out, lake_error *err) {
  size_t head_bytes = strlen(head);
  size_t tail_bytes = strlen(tail);
  char *text = lki_alloc(env, head_bytes + tail_bytes + 1);
  if (text == NULL) return lki_fail(err, LAKE_NOMEM, "store URL: out of memory");
  memcpy(text, head, head_bytes);
  memcpy(text + head_bytes, tail, tail_bytes + 1);
  *out = text;
  return LAKE_OK;
}

static lake_status mem_canonical(lake_env *env, const char *name, char **out, lake_error *err) {
  size_t bytes = strlen(name);
  if (bytes == 0 || bytes > MEM_NAME_BYTES_MAX)
    return lki_fail(err, LAKE_INVALID,
                    "store URL \"mem:%.60s\": give a name of 1 to %d bytes, such as mem:test", name,
                    MEM_NAME_BYTES_MAX);
  return join(env, "mem:", name, out, err);
}

/* Appends the components of rest to path, without empty ones and dots. Nothing of rest exists on the disk, so
 * ".." has no meaning there and is refused. */
static bool append_components(char path[PATH_MAX], const char *rest) {
  size_t used = strlen(path);
  if (used == 1) used = 0; /* the root folder: its slash comes with the first component */
  while (*rest) {
    size_t bytes = strcspn(rest, "/");
    bool skip = bytes == 0 || (bytes == 1 && rest[0] == '.');
    if (bytes == 2 && rest[0] == '.' && rest[1] == '.') return false;
    if (!skip) {
      if (used + 1 + bytes >= PATH_MAX) return false;
      path[used++] = '/';
      memcpy(path + used, rest, bytes);
      used += bytes;
      path[used] = 0;
    }
    rest += bytes;
    while (*rest == '/') rest++;
  }
  return true;
}

/* The deepest part of path that exists is resolved by the system, links and all; the rest, which the first
 * write will make, is appended as text. */
static lake_status resolve_path(const char *path, char out[PATH_MAX], lake_error *err) {
  char full[PATH_MAX];
  size_t used = 0;
  if (path[0] != '/') {
    if (getcwd(full, sizeof full) == NULL)
      return lki_fail(err, LAKE_INVALID,
                      "store URL \"file:%.200s\": the working folder is gone; give an absolute path", path);
    used = strlen(full);
    full[used++] = '/';
  }
  size_t bytes = strlen(path);
  if (used + bytes + 1 >= sizeof full)
    return lki_fail(err, LAKE_INVALID, "store URL: the path is longer than %d bytes", PATH_MAX - 1);
  memcpy(full + used, path, bytes + 1);
  size_t head = used + bytes; /* full[0..head) is tried */
  for (;;) {
    char rest[PATH_MAX];
    memcpy(rest, full + head, strlen(full + head) + 1);
    char saved = full[head];
    full[head] = 0;
    bool found = realpath(head > 0 ? full : "/", out) != NULL;
    int e = errno;
    full[head] = saved;
    if (found) {
      if (append_components(out, rest)) return LAKE_OK;
      return lki_fail(err, LAKE_INVALID,
                      "store URL \"file:%.200s\": \"..\" below a folder that does not exist, or too long",
                      path);
    }
    if (e == EACCES)
      return lki_fail(err, LAKE_DENIED, "store URL \"file:%.200s\": no permission to search its folders",
                      path);
    if ((e != ENOENT && e != ENOTDIR) || head == 0)
      return lki_fail(err, e == ENOTDIR || e == ENAMETOOLONG || e == ELOOP ? LAKE_INVALID : LAKE_UNAVAILABLE,
                      "store URL \"file:%.200s\": %s", path, strerrordesc_np(e));
    while (head > 0 && full[head - 1] == '/') head--;
    while (head > 0 && full[head - 1] != '/') head--;
  }
}

static lake_status file_canonical(lake_env *env, const char *rest, char **out, lake_error *err) {
  char path[PATH_MAX];
  const char *given = rest;
  if (rest[0] == '/' && rest[1] == '/') {
    /* file://host/path: a real URL, so escapes are decoded; another machine's disk is not reachable. */
    const char *host = rest + 2;
    size_t host_bytes = strcspn(host, "/");
    bool local = host_bytes == 0 || (host_bytes == 9 && strncasecmp(host, "localhost", 9) == 0);
    if (!local)
      return lki_fail(err, LAKE_INVALID,
                      "store URL \"file:%.200s\": host \"%.*s\" is another machine; write file:/path", rest,
                      (int)(host_bytes < 60 ? host_bytes : 60), host);
    if (strlen(host) >= sizeof path || !lki_percent_decode(host + host_bytes, path))
      return lki_fail(err, LAKE_INVALID, "store URL \"file:%.200s\": broken %%-escape or too long", rest);
    given = path;
  }
  if (given[0] == 0)
    return lki_fail(err, LAKE_INVALID, "store URL \"file:%.200s\": no folder is named; write file:/path",
                    rest);
  char resolved[PATH_MAX];
  lake_status s = resolve_path(given, resolved, err);
  return s == LAKE_OK ? join(env, "file:", resolved, out, err) : s;
}

static const scheme schemes[] = {
    {"file", false, file_canonical, lki_store_file_open},
    {"mem", false, mem_canonical, lki_store_mem_open},
    {"s3", true, lki_settings_canonical, lki_store_cloud_open},
    {"gs", true, lki_settings_canonical, lki_store_cloud_open},
    {"az", true, lki_settings_canonical, lki_store_cloud_open},
};

static const scheme *scheme_find(const char *url, size_t bytes) {
  for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
    if (strlen(schemes[i].name) == bytes && strncasecmp(schemes[i].name, url, bytes) == 0) return &schemes[i];
  return NULL;
}

lake_status lki_uri_canonical(lake_env *env, const char *url, char **out, lake_error *err) {
  if (url == NULL || url[0] == 0)
    return lki_fail(err, LAKE_INVALID, "store URL is empty; known forms: " KNOWN_SCHEMES);
  if (url[0] == '/' || url[0] == '.') {
    char resolved[PATH_MAX];
    lake_status s = resolve_path(url, resolved, err);
    return s == LAKE_OK ? join(env, "file:", resolved, out, err) : s;
  }
  const char *colon = strchr(url, ':');
  if (colon == NULL)
    return lki_fail(err, LAKE_INVALID,
                    "store URL \"%.200s\" has no scheme; a folder is written ./%.100s or file:%.100s", url,
                    url, url);
  const scheme *found = scheme_find(url, (size_t)(colon - url));
  if (found == NULL)
    return lki_fail(err, LAKE_UNSUPPORTED, "store URL \"%.*s:\": unknown scheme; known forms: " KNOWN_SCHEMES,
                    (int)(colon - url > 60 ? 60 : colon - url), url);
  return found->canonical(env, found->whole ? url : colon + 1, out, err);
}

lake_status lki_uri_open(lake_env *env, const char *canonical, const lake_store_ops **ops, void **self,
                         lake_error *err) {
  const char *colon = strchr(canonical, ':');
  const scheme *found = colon != NULL ? scheme_find(canonical, (size_t)(colon - canonical)) : NULL;
  if (found == NULL) return lki_fail(err, LAKE_INTERNAL, "store URL \"%.200s\" is not canonical", canonical);
  return found->open(env, found->whole ? canonical : colon + 1, ops, self, err);
}
