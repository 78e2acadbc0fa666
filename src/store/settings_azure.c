/* Settings of Azure Blob Storage: account and endpoint, from the URL, a connection string or single
 * variables, by the names of Azure's own tools. Used while settings are opened. */
#include "base/error.h"
#include "store/resolver.h"
#include <string.h>
#include <strings.h>

#define SEPARATORS "; \t\r\n" /* of the parts of a connection string */
#define DEVELOPMENT_ENDPOINT "http://127.0.0.1:10000/" LKI_AZURE_DEVELOPMENT_ACCOUNT

const char *lki_connection_string_get(lki_arena *arena, const char *text, const char *name) {
  size_t name_bytes = strlen(name);
  while (*text != 0) {
    text += strspn(text, SEPARATORS);
    size_t bytes = strcspn(text, ";");
    /* Only the first '=' divides: keys in base64 end with some. */
    if (bytes > name_bytes && text[name_bytes] == '=' && strncasecmp(text, name, name_bytes) == 0)
      return lki_arena_strndup(arena, text + name_bytes + 1, bytes - name_bytes - 1);
    text += bytes;
  }
  return NULL;
}

static bool development(lki_arena *arena, const char *text) {
  const char *value = lki_connection_string_get(arena, text, "UseDevelopmentStorage");
  return value != NULL && strcasecmp(value, "true") == 0;
}

static const char *connection_account(lki_arena *arena, const char *text) {
  return development(arena, text) ? LKI_AZURE_DEVELOPMENT_ACCOUNT
                                  : lki_connection_string_get(arena, text, "AccountName");
}

const char *lki_connection_string(lki_arena *arena, const char *account) {
  const char *text = lki_variable("AZURE_STORAGE_CONNECTION_STRING");
  if (text == NULL || account == NULL) return text;
  /* With a signature in it, a connection string need not name its account. */
  const char *its = connection_account(arena, text);
  return its == NULL || strcmp(its, account) == 0 ? text : NULL;
}

/* Passing over a connection string that cannot be read would send the request to somewhere else. */
static void check_connection_string(lki_resolver *r) {
  static const char *const telling[] = {"AccountName", "BlobEndpoint", "SharedAccessSignature"};
  const char *text = lki_variable("AZURE_STORAGE_CONNECTION_STRING");
  if (text == NULL || r->status != LAKE_OK) return;
  bool good = true, tells = development(&r->settings->arena, text);
  for (size_t i = 0; i < sizeof telling / sizeof telling[0]; i++)
    tells = tells || lki_connection_string_get(&r->settings->arena, text, telling[i]) != NULL;
  for (const char *at = text + strspn(text, SEPARATORS); *at != 0; at += strspn(at, SEPARATORS)) {
    const size_t bytes = strcspn(at, ";"), name_bytes = strcspn(at, "=;");
    good = good && name_bytes > 0 && name_bytes < bytes;
    at += bytes;
  }
  if (!good) /* nothing of it is repeated: it holds a key */
    r->status = lki_fail(r->err, LAKE_INVALID,
                         "AZURE_STORAGE_CONNECTION_STRING: a part of it is not NAME=VALUE; copy it whole, as in "
                         "AccountName=...;AccountKey=...");
  else if (!tells)
    r->status = lki_fail(r->err, LAKE_INVALID,
                         "AZURE_STORAGE_CONNECTION_STRING: it has neither AccountName nor BlobEndpoint nor "
                         "SharedAccessSignature; copy it whole");
}

static lki_found resolve_account(lki_resolver *r) {
  static const char *const variables[] = {"AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME", NULL};
  lki_settings *s = r->settings;
  lki_found found = lki_look_up(r, LKI_OPTION_ACCOUNT, NULL);
  if (found.value != NULL) return found;
  const char *text = lki_connection_string(&s->arena, NULL);
  if (text != NULL) {
    found.value = connection_account(&s->arena, text);
    found.source = "AZURE_STORAGE_CONNECTION_STRING";
  }
  return found.value != NULL ? found : lki_look_up(r, LKI_OPTION_COUNT, variables);
}

/* The endpoint that a connection string names, or that follows from its suffix. */
static lki_found connection_endpoint(lki_resolver *r, const char *account) {
  lki_arena *arena = &r->settings->arena;
  lki_found found = {NULL, "AZURE_STORAGE_CONNECTION_STRING"};
  const char *text = lki_connection_string(arena, account);
  if (text == NULL) return found;
  if (development(arena, text)) {
    found.value = DEVELOPMENT_ENDPOINT;
    return found;
  }
  found.value = lki_connection_string_get(arena, text, "BlobEndpoint");
  if (found.value != NULL || account == NULL) return found;
  const char *suffix = lki_connection_string_get(arena, text, "EndpointSuffix");
  const char *protocol = lki_connection_string_get(arena, text, "DefaultEndpointsProtocol");
  if (suffix != NULL)
    found.value =
        lki_arena_format(arena, "%s://%s.blob.%s", protocol != NULL ? protocol : "https", account, suffix);
  return found;
}

/* "https://account.blob.core.windows.net": the account, or NULL. */
static const char *account_of_host(lki_arena *arena, const char *endpoint) {
  const char *host = strstr(endpoint, "://") + 3;
  size_t label = strcspn(host, ".:/");
  return strncmp(host + label, ".blob.", 6) == 0 ? lki_arena_strndup(arena, host, label) : NULL;
}

/* A host that is an address or has a single label cannot carry the account in its name: there it is the first
 * part of the path, as with Azurite. */
static bool account_in_path(const char *endpoint) {
  const char *host = strstr(endpoint, "://") + 3;
  size_t bytes = strcspn(host, ":/");
  if (host[0] == '[') return true;
  bool address = strspn(host, "0123456789.") == bytes;
  return address || memchr(host, '.', bytes) == NULL;
}

static void fail_memory(lki_resolver *r) {
  if (r->status == LAKE_OK) r->status = lki_fail(r->err, LAKE_NOMEM, "store settings: out of memory");
}

static void resolve_endpoint(lki_resolver *r, lki_found *account) {
  static const char *const variables[] = {"AZURE_STORAGE_BLOB_ENDPOINT", "AZURE_STORAGE_SERVICE_ENDPOINT",
                                          NULL};
  lki_settings *s = r->settings;
  lki_arena *arena = &s->arena;
  lki_found found = lki_look_up(r, LKI_OPTION_ENDPOINT, NULL);
  if (found.value == NULL) found = connection_endpoint(r, account->value);
  if (found.value == NULL) found = lki_look_up(r, LKI_OPTION_COUNT, variables);
  if (found.value != NULL) s->endpoint = lki_resolve_endpoint(r, found, true);
  if (r->status != LAKE_OK) return;
  if (account->value == NULL && s->endpoint != NULL) {
    account->value = account_of_host(arena, s->endpoint);
    account->source = found.source;
  }
  if (account->value == NULL) {
    r->status =
        lki_fail(r->err, LAKE_INVALID,
                 "store URL \"az:\": no storage account is named; set AZURE_STORAGE_ACCOUNT, or write "
                 "az://container/prefix?account=NAME");
    return;
  }
  if (s->endpoint == NULL) {
    found.source = "default";
    s->endpoint = lki_arena_format(arena, "https://%s.blob.core.windows.net", account->value);
  } else if (strchr(strstr(s->endpoint, "://") + 3, '/') == NULL && account_in_path(s->endpoint)) {
    s->endpoint = lki_arena_format(arena, "%s/%s", s->endpoint, account->value);
  }
  if (s->endpoint == NULL) fail_memory(r);
  lki_show(r, "endpoint", s->endpoint, found.source);
}

void lki_resolve_azure(lki_resolver *r) {
  lki_settings *s = r->settings;
  check_connection_string(r);
  lki_found account = resolve_account(r);
  if (account.value != NULL && r->status == LAKE_OK &&
      (strlen(account.value) > 63 ||
       account.value[strspn(account.value, "abcdefghijklmnopqrstuvwxyz0123456789-")] != 0 ||
       account.value[0] == 0))
    r->status = lki_fail(r->err, LAKE_INVALID,
                         "%s: a storage account's name is lower-case letters and digits", account.source);
  resolve_endpoint(r, &account);
  s->account = account.value;
  s->path_style = true;
  lki_show(r, "account", s->account, account.source);
}
