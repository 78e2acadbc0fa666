/* Opening settings: what all clouds share. What differs is in settings_s3.c, settings_gcs.c and
 * settings_azure.c. A resolver keeps its first failure, so that the code reads as a list of settings.
 * Immutable once opened. */
#include "store/settings.h"
#include "base/env.h"
#include "base/error.h"
#include "store/resolver.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

static void fail_memory(lki_resolver *r) {
  if (r->status == LAKE_OK) r->status = lki_fail(r->err, LAKE_NOMEM, "store settings: out of memory");
}

const char *lki_arena_format(lki_arena *arena, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int bytes = vsnprintf(NULL, 0, format, args);
  char *text = bytes >= 0 ? lki_arena_alloc(arena, (size_t)bytes + 1) : NULL;
  if (text != NULL) vsnprintf(text, (size_t)bytes + 1, format, again);
  va_end(again);
  va_end(args);
  return text;
}

const char *lki_variable(const char *name) {
  const char *value = lki_getenv(name);
  return value != NULL && value[0] != 0 ? value : NULL;
}

const char *lki_home_path(lki_arena *arena, const char *tail) {
  const char *home = lki_variable("HOME");
  return home != NULL ? lki_arena_format(arena, "%s/%s", home, tail) : NULL;
}

const char *lki_shown_path(lki_arena *arena, const char *path) {
  const char *home = lki_variable("HOME");
  size_t bytes = home != NULL ? strlen(home) : 0;
  const char *shown = NULL;
  if (bytes > 1 && strncmp(path, home, bytes) == 0 && path[bytes] == '/')
    shown = lki_arena_format(arena, "~%s", path + bytes);
  return shown != NULL ? shown : path;
}

const char *lki_config_section(lki_arena *arena, const char *profile) {
  return strcmp(profile, "default") == 0 ? profile : lki_arena_format(arena, "profile %s", profile);
}

void lki_show(lki_resolver *r, const char *name, const char *value, const char *source) {
  lki_settings *s = r->settings;
  if (r->status != LAKE_OK || s->shown_count == LKI_SETTINGS_MAX) return;
  lki_setting *setting = &s->shown[s->shown_count++];
  setting->name = name;
  setting->value = value;
  setting->source = source;
}

lki_found lki_look_up(lki_resolver *r, lki_option option, const char *const *variables) {
  lki_found found = {NULL, NULL};
  if (r->status != LAKE_OK) return found;
  if (option < LKI_OPTION_COUNT && r->url->options[option] != NULL) {
    found.value = r->url->options[option];
    found.source = "URL";
    return found;
  }
  for (; variables != NULL && *variables != NULL; variables++) {
    const char *value = lki_variable(*variables);
    if (value == NULL) continue;
    found.value = lki_arena_strndup(&r->settings->arena, value, strlen(value));
    found.source = *variables;
    if (found.value == NULL) fail_memory(r);
    return found;
  }
  return found;
}

lki_found lki_or_profile(lki_resolver *r, lki_found found, const char *name) {
  lki_settings *s = r->settings;
  if (r->status != LAKE_OK || found.value != NULL || s->config_path == NULL) return found;
  const char *section = lki_config_section(&s->arena, s->profile), *value = NULL;
  if (section == NULL) {
    fail_memory(r);
    return found;
  }
  r->status = lki_profile_get(&s->arena, s->config_path, section, name, &value, r->err);
  if (r->status == LAKE_OK && value == NULL && strcmp(section, "default") == 0) {
    section = "profile default"; /* some tools write it so */
    r->status = lki_profile_get(&s->arena, s->config_path, section, name, &value, r->err);
  }
  if (r->status != LAKE_OK || value == NULL || value[0] == 0) return found;
  found.source = lki_arena_format(&s->arena, "%s [%s]", lki_shown_path(&s->arena, s->config_path), section);
  if (found.source == NULL)
    fail_memory(r);
  else
    found.value = value;
  return found;
}

bool lki_resolve_bool(lki_resolver *r, const char *name, lki_found found, bool other) {
  bool value = other;
  if (r->status == LAKE_OK && found.value != NULL && !lki_parse_bool(found.value, &value))
    r->status = lki_fail(r->err, LAKE_INVALID, "%s (%s): write true or false", found.source, name);
  lki_show(r, name, value ? "true" : "false", found.value != NULL ? found.source : "default");
  return value;
}

const char *lki_resolve_endpoint(lki_resolver *r, lki_found found, bool with_path) {
  const char *endpoint = NULL;
  if (r->status == LAKE_OK && found.value != NULL)
    r->status =
        lki_check_endpoint(&r->settings->arena, found.source, found.value, with_path, &endpoint, r->err);
  return r->status == LAKE_OK ? endpoint : NULL;
}

/* A number that only the URL may give, and that was checked there. */
static uint64_t number(lki_resolver *r, lki_option option, const char *name, uint64_t other) {
  uint64_t value = other;
  const char *text = r->url->options[option];
  if (text != NULL) lki_parse_u64(text, 0, UINT64_MAX, &value);
  char shown[24];
  snprintf(shown, sizeof shown, "%" PRIu64, value);
  const char *copy = lki_arena_strndup(&r->settings->arena, shown, strlen(shown));
  if (copy == NULL)
    fail_memory(r);
  else
    lki_show(r, name, copy, text != NULL ? "URL" : "default");
  return value;
}

static void resolve_ca_file(lki_resolver *r) {
  static const char *const of_s3[] = {"AWS_CA_BUNDLE", "SSL_CERT_FILE", NULL}, *const of_others[] = {
                                                                                   "SSL_CERT_FILE", NULL};
  bool s3 = r->settings->cloud == LKI_CLOUD_S3;
  lki_found found = lki_look_up(r, LKI_OPTION_CA_FILE, s3 ? of_s3 : of_others);
  if (s3 && (found.value == NULL || strcmp(found.source, "SSL_CERT_FILE") == 0)) {
    lki_found none = {NULL, NULL};
    lki_found profile = lki_or_profile(r, none, "ca_bundle");
    if (profile.value != NULL) found = profile;
  }
  if (r->status != LAKE_OK) return;
  if (found.value != NULL && access(found.value, R_OK) != 0)
    r->status = lki_fail(r->err, LAKE_INVALID, "%s: certificates cannot be read from \"%.200s\"",
                         found.source, found.value);
  r->settings->ca_file = found.value;
  lki_show(r, "ca_file", found.value != NULL ? found.value : "(the system's)",
           found.value != NULL ? found.source : "default");
}

static void resolve_sizes(lki_resolver *r) {
  lki_settings *s = r->settings;
  s->part_bytes = number(r, LKI_OPTION_PART_MB, "part_mb", 16) * MIB;
  uint64_t multipart_mb = number(r, LKI_OPTION_MULTIPART_MB, "multipart_mb", 64);
  s->multipart_bytes = multipart_mb > 0 ? multipart_mb * MIB : UINT64_MAX;
  s->hedge_percent = (uint32_t)number(r, LKI_OPTION_HEDGE_PERCENT, "hedge_percent", 0);
  s->connections = (uint32_t)number(r, LKI_OPTION_CONNECTIONS, "connections", 0);
}

lake_status lki_settings_open(lake_env *env, const char *url_text, lki_settings *out, lake_error *err) {
  lki_settings s = {0};
  lki_url url;
  lki_arena_init(&s.arena, env);
  lki_resolver r = {.settings = &s, .url = &url, .err = err};
  r.status = lki_url_parse(&s.arena, url_text, &url, err);
  if (r.status != LAKE_OK) goto done;
  s.cloud = url.cloud;
  s.bucket = url.bucket;
  s.prefix = url.prefix;
  lki_show(&r, s.cloud == LKI_CLOUD_AZURE ? "container" : "bucket", s.bucket, "URL");
  lki_show(&r, "prefix", s.prefix, "URL");
  if (s.cloud == LKI_CLOUD_S3) lki_resolve_s3(&r);
  if (s.cloud == LKI_CLOUD_GCS) lki_resolve_gcs(&r);
  if (s.cloud == LKI_CLOUD_AZURE) lki_resolve_azure(&r);
  s.anonymous = lki_resolve_bool(&r, "anonymous", lki_look_up(&r, LKI_OPTION_ANONYMOUS, NULL), false);
  resolve_ca_file(&r);
  resolve_sizes(&r);
done:
  /* A look-up takes a text for which there was no memory for one that is not there: it is told apart here. */
  if (s.arena.failed) r.status = lki_fail(err, LAKE_NOMEM, "store settings: out of memory");
  if (r.status == LAKE_OK)
    *out = s;
  else
    lki_arena_free(&s.arena);
  return r.status;
}

void lki_settings_close(lki_settings *settings) {
  lki_arena_free(&settings->arena);
}

lake_status lki_settings_canonical(lake_env *env, const char *url_text, char **out, lake_error *err) {
  lki_arena arena;
  lki_url url;
  lki_arena_init(&arena, env);
  lake_status s = lki_url_parse(&arena, url_text, &url, err);
  if (s == LAKE_OK) s = lki_url_print(env, &url, out, err);
  lki_arena_free(&arena);
  return s;
}
