/* Settings of S3, in the order and by the names of AWS's own tools: the URL, the environment, the profile in
 * the config file, and of endpoints also the section [services x] that the profile names. Used while settings
 * are opened. */
#include "base/error.h"
#include "store/resolver.h"
#include <string.h>

static void fail_memory(lki_resolver *r) {
  if (r->status == LAKE_OK) r->status = lki_fail(r->err, LAKE_NOMEM, "store settings: out of memory");
}

static const char *file_path(lki_resolver *r, const char *variable, const char *tail) {
  lki_arena *arena = &r->settings->arena;
  const char *given = lki_variable(variable);
  if (given == NULL) return lki_home_path(arena, tail);
  if (given[0] == '~' && given[1] == '/') return lki_home_path(arena, given + 2);
  const char *copy = lki_arena_strndup(arena, given, strlen(given));
  if (copy == NULL) fail_memory(r);
  return copy;
}

/* A profile that was asked for by name and that is nowhere is a mistake, not the default one. */
static void check_profile(lki_resolver *r, const char *source) {
  lki_settings *s = r->settings;
  bool in_config = false, in_credentials = false;
  const char *section = lki_config_section(&s->arena, s->profile);
  if (section == NULL) fail_memory(r);
  if (r->status == LAKE_OK && s->config_path != NULL)
    r->status = lki_profile_has(s->arena.env, s->config_path, section, &in_config, r->err);
  if (r->status == LAKE_OK && s->credentials_path != NULL)
    r->status = lki_profile_has(s->arena.env, s->credentials_path, s->profile, &in_credentials, r->err);
  if (r->status != LAKE_OK || in_config || in_credentials || strcmp(s->profile, "default") == 0) return;
  r->status = lki_fail(
      r->err, LAKE_INVALID, "%s: there is no profile \"%.80s\" in %.100s or %.100s", source, s->profile,
      s->config_path != NULL ? lki_shown_path(&s->arena, s->config_path) : "~/.aws/config",
      s->credentials_path != NULL ? lki_shown_path(&s->arena, s->credentials_path) : "~/.aws/credentials");
}

static void resolve_profile(lki_resolver *r) {
  static const char *const variables[] = {"AWS_PROFILE", "AWS_DEFAULT_PROFILE", NULL};
  lki_settings *s = r->settings;
  s->config_path = file_path(r, "AWS_CONFIG_FILE", ".aws/config");
  s->credentials_path = file_path(r, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
  lki_found found = lki_look_up(r, LKI_OPTION_PROFILE, variables);
  s->profile = found.value != NULL ? found.value : "default";
  s->profile_in_url = r->url->options[LKI_OPTION_PROFILE] != NULL;
  if (strpbrk(s->profile, "[]\r\n") != NULL && r->status == LAKE_OK)
    r->status = lki_fail(r->err, LAKE_INVALID, "%s: a profile's name holds no brackets", found.source);
  if (found.value != NULL) check_profile(r, found.source);
  lki_show(r, "profile", s->profile, found.value != NULL ? found.source : "default");
}

/* The endpoint of the service in [services x], which the profile names by "services = x"; then of the
 * profile. */
static lki_found profile_endpoint(lki_resolver *r, lki_found found) {
  lki_settings *s = r->settings;
  if (found.value != NULL || s->config_path == NULL) return found;
  lki_found none = {NULL, NULL}, services = lki_or_profile(r, none, "services");
  if (services.value != NULL) {
    const char *section = lki_arena_format(&s->arena, "services %s", services.value), *value = NULL;
    if (section == NULL) fail_memory(r);
    if (r->status == LAKE_OK)
      r->status = lki_profile_get(&s->arena, s->config_path, section, "s3.endpoint_url", &value, r->err);
    if (r->status == LAKE_OK && value != NULL && value[0] != 0) {
      found.source =
          lki_arena_format(&s->arena, "%s [%s]", lki_shown_path(&s->arena, s->config_path), section);
      if (found.source == NULL) fail_memory(r);
      found.value = value;
      return found;
    }
  }
  return lki_or_profile(r, found, "endpoint_url");
}

/* AWS's own host for a region. */
static const char *amazon_endpoint(lki_resolver *r) {
  static const char *const fips[] = {"AWS_USE_FIPS_ENDPOINT", NULL}, *const dual[] = {
                                                                         "AWS_USE_DUALSTACK_ENDPOINT", NULL};
  lki_settings *s = r->settings;
  lki_found use_fips = lki_or_profile(r, lki_look_up(r, LKI_OPTION_COUNT, fips), "use_fips_endpoint");
  lki_found use_dual = lki_or_profile(r, lki_look_up(r, LKI_OPTION_COUNT, dual), "use_dualstack_endpoint");
  bool is_fips = use_fips.value != NULL && lki_resolve_bool(r, "fips", use_fips, false);
  bool is_dual = use_dual.value != NULL && lki_resolve_bool(r, "dualstack", use_dual, false);
  const char *text = lki_arena_format(&s->arena, "https://s3%s%s.%s.amazonaws.com%s", is_fips ? "-fips" : "",
                                      is_dual ? ".dualstack" : "", s->region,
                                      strncmp(s->region, "cn-", 3) == 0 ? ".cn" : "");
  if (text == NULL) fail_memory(r);
  return text;
}

static void resolve_endpoint(lki_resolver *r) {
  static const char *const variables[] = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", NULL};
  static const char *const ignore[] = {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", NULL};
  lki_settings *s = r->settings;
  bool ignored = false;
  lki_found found = lki_look_up(r, LKI_OPTION_ENDPOINT, NULL);
  lki_found say =
      lki_or_profile(r, lki_look_up(r, LKI_OPTION_COUNT, ignore), "ignore_configured_endpoint_urls");
  if (say.value != NULL) ignored = lki_resolve_bool(r, "ignore_configured_endpoint_urls", say, false);
  if (found.value == NULL && !ignored)
    found = profile_endpoint(r, lki_look_up(r, LKI_OPTION_COUNT, variables));
  s->endpoint = found.value != NULL ? lki_resolve_endpoint(r, found, false) : amazon_endpoint(r);
  lki_show(r, "endpoint", s->endpoint, found.value != NULL ? found.source : "default");
}

static void resolve_region(lki_resolver *r) {
  static const char *const variables[] = {"AWS_REGION", "AWS_DEFAULT_REGION", NULL};
  lki_found found = lki_or_profile(r, lki_look_up(r, LKI_OPTION_REGION, variables), "region");
  if (r->status == LAKE_OK && found.value != NULL)
    r->status = lki_check_region(found.source, found.value, r->err);
  r->settings->region = found.value != NULL ? found.value : "us-east-1";
  lki_show(r, "region", r->settings->region, found.value != NULL ? found.source : "default");
}

static bool is_amazon(const char *endpoint) {
  const char *host = strstr(endpoint, "://");
  size_t bytes = host != NULL ? strcspn(host + 3, ":/") : 0;
  static const char *const ends[] = {".amazonaws.com", ".amazonaws.com.cn"};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    size_t n = strlen(ends[i]);
    if (bytes > n && strncmp(host + 3 + bytes - n, ends[i], n) == 0) return true;
  }
  return false;
}

/* Whether the bucket goes into the path. By default only on AWS's own hosts it does not, and there only where
 * the name can be a host's label: a dot in it would not match the certificate. */
static void resolve_style(lki_resolver *r) {
  lki_settings *s = r->settings;
  if (r->status != LAKE_OK) return;
  bool dns = lki_dns_bucket(s->bucket);
  lki_found found = lki_look_up(r, LKI_OPTION_PATH_STYLE, NULL);
  if (found.value == NULL) {
    lki_found style = lki_or_profile(r, found, "s3.addressing_style");
    if (style.value != NULL && strcmp(style.value, "auto") != 0) {
      found.source = style.source;
      if (strcmp(style.value, "path") == 0) found.value = "true";
      if (strcmp(style.value, "virtual") == 0) found.value = "false";
      if (found.value == NULL && r->status == LAKE_OK)
        r->status =
            lki_fail(r->err, LAKE_INVALID, "%s: s3 addressing_style is auto, path or virtual", style.source);
    }
  }
  s->path_style = lki_resolve_bool(r, "path_style", found, !dns || !is_amazon(s->endpoint));
  if (r->status != LAKE_OK || s->path_style) return;
  const char *host = strstr(s->endpoint, "://") + 3;
  if (!dns)
    r->status = lki_fail(r->err, LAKE_INVALID,
                         "%s: bucket \"%.80s\" cannot be a part of a host name; use path_style=true",
                         found.source, s->bucket);
  else if (host[0] == '[' || host[strspn(host, "0123456789.")] == 0 ||
           host[strspn(host, "0123456789.")] == ':')
    r->status = lki_fail(r->err, LAKE_INVALID,
                         "%s: the endpoint is an address, which no bucket's name can precede; "
                         "use path_style=true",
                         found.source);
}

static void resolve_payer(lki_resolver *r) {
  static const char *const variables[] = {"AWS_REQUEST_PAYER", NULL};
  lki_found found = lki_look_up(r, LKI_OPTION_REQUESTER_PAYS, variables);
  if (found.value != NULL && strcmp(found.source, "URL") != 0) {
    if (r->status == LAKE_OK && strcmp(found.value, "requester") != 0)
      r->status = lki_fail(r->err, LAKE_INVALID, "AWS_REQUEST_PAYER: its only value is \"requester\"");
    found.value = "true";
  }
  r->settings->requester_pays = lki_resolve_bool(r, "requester_pays", found, false);
}

void lki_resolve_s3(lki_resolver *r) {
  lki_settings *s = r->settings;
  resolve_profile(r);
  resolve_region(r);
  resolve_endpoint(r);
  resolve_style(r);
  resolve_payer(r);
  s->sse = r->url->options[LKI_OPTION_SSE];
  s->sse_key = r->url->options[LKI_OPTION_SSE_KEY];
  if (s->sse != NULL) lki_show(r, "sse", s->sse, "URL");
  if (s->sse_key != NULL) lki_show(r, "sse_key", s->sse_key, "URL");
}
