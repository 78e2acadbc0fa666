/* Looking one setting up in the places where it may stand. Used while settings are opened, by one thread; the
 * credentials use the plain look-ups too. */
#ifndef LKI_STORE_RESOLVER_H
#define LKI_STORE_RESOLVER_H

#include "store/settings.h"

/* A value and its place; value NULL: it stands nowhere. Both texts are the arena's. */
typedef struct lki_found {
  const char *value;
  const char *source;
} lki_found;

typedef struct lki_resolver {
  lki_settings *settings;
  const lki_url *url;
  lake_error *err;
  lake_status status; /* the first failure; what is looked up afterwards is not there */
} lki_resolver;

/* The first that has a value: option (or LKI_OPTION_COUNT for none), then the variables, NULL-terminated. A
 * variable that is set to nothing counts as not set. */
lki_found lki_look_up(lki_resolver *resolver, lki_option option, const char *const *variables);
/* The value of name in the profile, from the config file, if `found` is still empty. */
lki_found lki_or_profile(lki_resolver *resolver, lki_found found, const char *name);
/* A value of an environment variable; NULL: not set, or empty. Borrowed. */
const char *lki_variable(const char *name);
/* $HOME/tail in the arena; NULL: there is no home, or no memory. */
const char *lki_home_path(lki_arena *arena, const char *tail);
/* path with "~/" for the home folder, for people. */
const char *lki_shown_path(lki_arena *arena, const char *path);
/* The section of the config file for a profile: "default", "profile prod". NULL: no memory. */
const char *lki_config_section(lki_arena *arena, const char *profile);
/* A text in the arena, as of printf; NULL: no memory. */
const char *lki_arena_format(lki_arena *arena, const char *format, ...) LAKE_PRINTF(2, 3);

/* Notes a setting for people. A found value that is NULL stands for the default, whose text is `value`. */
void lki_show(lki_resolver *resolver, const char *name, const char *value, const char *source);
/* A truth from `found`, or the default; INVALID goes to the resolver. Shown. */
bool lki_resolve_bool(lki_resolver *resolver, const char *name, lki_found found, bool other);
/* found as an endpoint without a trailing slash, or NULL. */
const char *lki_resolve_endpoint(lki_resolver *resolver, lki_found found, bool with_path);

/* What differs between the clouds: endpoint, region, account, style. Each in its file. */
void lki_resolve_s3(lki_resolver *resolver);
void lki_resolve_gcs(lki_resolver *resolver);
void lki_resolve_azure(lki_resolver *resolver);

/* A value of Azure's connection string ("AccountName=…;AccountKey=…"), into the arena. NULL: not there, or no
 * memory. */
const char *lki_connection_string_get(lki_arena *arena, const char *text, const char *name);
/* AZURE_STORAGE_CONNECTION_STRING where it speaks of this account (NULL: of any); else NULL. Borrowed. */
const char *lki_connection_string(lki_arena *arena, const char *account);
#define LKI_AZURE_DEVELOPMENT_ACCOUNT "devstoreaccount1"

#endif
