/* Settings of Google Cloud Storage: the URL, or the emulator that Google's own libraries look for. Used while
 * settings are opened. */
#include "base/error.h"
#include "store/resolver.h"
#include <string.h>

void lki_resolve_gcs(lki_resolver *r) {
  static const char *const variables[] = {"STORAGE_EMULATOR_HOST", NULL};
  lki_settings *s = r->settings;
  lki_found found = lki_look_up(r, LKI_OPTION_ENDPOINT, variables);
  bool emulator = found.value != NULL && strcmp(found.source, "URL") != 0;
  if (emulator && strstr(found.value, "://") == NULL) {
    found.value = lki_arena_format(&s->arena, "http://%s", found.value);
    if (found.value == NULL && r->status == LAKE_OK)
      r->status = lki_fail(r->err, LAKE_INVALID, "STORAGE_EMULATOR_HOST: too long");
  }
  s->emulator = emulator;
  s->endpoint =
      found.value != NULL ? lki_resolve_endpoint(r, found, false) : "https://storage.googleapis.com";
  lki_show(r, "endpoint", s->endpoint, found.value != NULL ? found.source : "default");
  /* Only a part of what HMAC keys sign; the service takes any. */
  const char *region = r->url->options[LKI_OPTION_REGION];
  s->region = region != NULL ? region : "auto";
  lki_show(r, "region", s->region, region != NULL ? "URL" : "default");
  s->path_style = true;
}
