/* Azure's sources: keys and signatures from the environment, tokens for an application (by its secret or by a
 * federated token, as Kubernetes gives one) and for the identity of a machine. No state. */
#include "base/env.h"
#include "base/error.h"
#include "store/digest.h"
#include "store/request.h"
#include "store/source.h"
#include <string.h>

#define TOKEN_MS 20000
#define MACHINE_MS 3000
#define SCOPE "https://storage.azure.com/.default"
#define RESOURCE "https%3A%2F%2Fstorage.azure.com%2F"
/* Azurite's, the same on every machine and published with it: no secret. */
#define DEVELOPMENT_KEY                                                                                      \
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

static lake_status out_of_memory(lake_error *err) {
  return lki_fail(err, LAKE_NOMEM, "credentials: out of memory");
}

static lake_status take_key(lki_asking *asking, const char *who, const char *key, lake_error *err) {
  unsigned char raw[256];
  asking->found.key_id = lki_keep(asking, asking->settings->account);
  asking->found.secret = lki_keep(asking, key);
  bool good = lki_base64_decode(key, raw, sizeof raw) > 0;
  lki_wipe(raw, sizeof raw);
  if (!good) return lki_fail(err, LAKE_INVALID, "%s: an account's key is base64", who);
  return lki_source_done(asking, who, err);
}

static lake_status take_sas(lki_asking *asking, const char *who, const char *sas, lake_error *err) {
  if (*sas == '?') sas++;
  asking->found.sas = lki_keep(asking, sas);
  if (asking->found.sas == NULL) return out_of_memory(err);
  if (strstr(sas, "sig=") == NULL || strpbrk(sas, "#?") != NULL)
    return lki_fail(err, LAKE_INVALID, "%s: not a shared access signature, which reads sv=...&sig=...", who);
  return lki_source_done(asking, who, err);
}

static lake_status ask_connection_string(lki_asking *asking, lake_error *err) {
  static const char who[] = "AZURE_STORAGE_CONNECTION_STRING";
  const char *text = lki_connection_string(asking->arena, asking->settings->account);
  if (text == NULL && lki_variable(who) != NULL)
    asking->passed_over = "AZURE_STORAGE_CONNECTION_STRING was passed over, since it is of another account";
  if (text == NULL) return LAKE_NOTFOUND;
  const char *key = lki_connection_string_get(asking->arena, text, "AccountKey");
  const char *sas = lki_connection_string_get(asking->arena, text, "SharedAccessSignature");
  if (key == NULL && sas == NULL &&
      lki_connection_string_get(asking->arena, text, "UseDevelopmentStorage") != NULL)
    key = DEVELOPMENT_KEY;
  if (key != NULL) return take_key(asking, who, key, err);
  return sas != NULL ? take_sas(asking, who, sas, err) : LAKE_NOTFOUND;
}

/* Whether the variable `who`, with a key or a signature, is about this account: it belongs to the account that the
 * environment names, if it names one. If not, that is what a user without credentials has to be told. */
static bool variable_applies(lki_asking *asking, const char *who) {
  const char *naming = "AZURE_STORAGE_ACCOUNT", *account = lki_variable(naming);
  if (account == NULL) account = lki_variable(naming = "AZURE_STORAGE_ACCOUNT_NAME");
  if (account == NULL || strcmp(account, asking->settings->account) == 0) return true;
  if (asking->passed_over == NULL)
    asking->passed_over =
        lki_arena_format(asking->arena, "%s was passed over, since %s is another account than %.63s", who, naming,
                         asking->settings->account);
  return false;
}

static lake_status ask_key(lki_asking *asking, lake_error *err) {
  const char *key = lki_variable("AZURE_STORAGE_KEY"), *who = "AZURE_STORAGE_KEY";
  if (key == NULL) {
    who = "AZURE_STORAGE_ACCOUNT_KEY";
    key = lki_variable(who);
  }
  return key != NULL && variable_applies(asking, who) ? take_key(asking, who, key, err) : LAKE_NOTFOUND;
}

static lake_status ask_sas(lki_asking *asking, lake_error *err) {
  static const char who[] = "AZURE_STORAGE_SAS_TOKEN";
  const char *sas = lki_variable(who);
  return sas != NULL && variable_applies(asking, who) ? take_sas(asking, who, sas, err) : LAKE_NOTFOUND;
}

/* ---- tokens ---- */

static lake_status authority_url(lki_asking *asking, const char *tenant, const char **out, lake_error *err) {
  const char *given = lki_variable("AZURE_AUTHORITY_HOST"), *host = "https://login.microsoftonline.com";
  if (given != NULL) {
    const char *text =
        strstr(given, "://") != NULL ? given : lki_arena_format(asking->arena, "https://%.200s", given);
    if (text == NULL) return out_of_memory(err);
    lake_status s = lki_check_endpoint(asking->arena, "AZURE_AUTHORITY_HOST", text, false, &host, err);
    if (s != LAKE_OK) return s;
  }
  char *encoded = lki_percent_encode(asking->arena, tenant, false);
  *out = encoded != NULL ? lki_arena_format(asking->arena, "%s/%s/oauth2/v2.0/token", host, encoded) : NULL;
  return *out != NULL ? LAKE_OK : out_of_memory(err);
}

/* Posts the form and takes the token. The form is wiped and freed. */
static lake_status ask_token(lki_asking *asking, const char *who, const char *tenant, lake_buffer *form,
                             lake_status s, lake_error *err) {
  static const lki_http_header headers[] = {{"Content-Type", "application/x-www-form-urlencoded"}};
  lki_token_reply reply;
  lki_token_request request = {
      .who = who, .method = "POST", .headers = headers, .header_count = 1, .timeout_ms = TOKEN_MS};
  if (s == LAKE_OK) s = authority_url(asking, tenant, &request.url, err);
  if (s == LAKE_OK) {
    request.body = (const char *)form->data;
    s = lki_token_ask(asking, &request, &reply, err);
    if (s == LAKE_OK) {
      s = lki_token_take(asking, who, &reply, err);
      lki_token_reply_free(&reply);
    }
  }
  if (form->data != NULL) lki_wipe(form->data, form->bytes);
  lki_buffer_free(form);
  return s;
}

static lake_status begin_form(lki_asking *asking, const char *client, lake_buffer *form, lake_error *err) {
  lki_buffer_init(form, asking->env, 4 * LKI_TOKEN_BYTES_MAX);
  lake_status s = lki_form_add(form, asking->arena, "grant_type", "client_credentials", err);
  if (s == LAKE_OK) s = lki_form_add(form, asking->arena, "client_id", client, err);
  return s == LAKE_OK ? lki_form_add(form, asking->arena, "scope", SCOPE, err) : s;
}

static lake_status ask_client_secret(lki_asking *asking, lake_error *err) {
  static const char who[] = "AZURE_CLIENT_SECRET";
  const char *secret = lki_variable(who), *tenant = lki_variable("AZURE_TENANT_ID");
  const char *client = lki_variable("AZURE_CLIENT_ID");
  lake_buffer form;
  if (secret == NULL) return LAKE_NOTFOUND;
  if (tenant == NULL || client == NULL)
    return lki_fail(err, LAKE_INVALID, "%s needs AZURE_TENANT_ID and AZURE_CLIENT_ID beside it", who);
  lake_status s = begin_form(asking, client, &form, err);
  if (s == LAKE_OK) s = lki_form_add(&form, asking->arena, "client_secret", secret, err);
  return ask_token(asking, who, tenant, &form, s, err);
}

static lake_status ask_federated(lki_asking *asking, lake_error *err) {
  static const char who[] = "AZURE_FEDERATED_TOKEN_FILE";
  const char *file = lki_variable(who), *tenant = lki_variable("AZURE_TENANT_ID");
  const char *client = lki_variable("AZURE_CLIENT_ID"), *token = NULL;
  lake_buffer form;
  if (file == NULL) return LAKE_NOTFOUND;
  if (tenant == NULL || client == NULL)
    return lki_fail(err, LAKE_INVALID, "%s needs AZURE_TENANT_ID and AZURE_CLIENT_ID beside it", who);
  lake_status s = lki_secret_file(asking, who, file, &token, err);
  if (s != LAKE_OK) return s;
  s = begin_form(asking, client, &form, err);
  if (s == LAKE_OK)
    s = lki_form_add(&form, asking->arena, "client_assertion_type",
                     "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", err);
  if (s == LAKE_OK) s = lki_form_add(&form, asking->arena, "client_assertion", token, err);
  return ask_token(asking, who, tenant, &form, s, err);
}

/* ---- the machine's identity ---- */

static lake_status machine_url(lki_asking *asking, const char *endpoint, bool service, const char **out,
                               lake_error *err) {
  const char *client = lki_variable("AZURE_CLIENT_ID");
  char *encoded = client != NULL ? lki_percent_encode(asking->arena, client, false) : NULL;
  *out = lki_arena_format(asking->arena, "%s?api-version=%s&resource=%s%s%s", endpoint,
                          service ? "2019-08-01" : "2018-02-01", RESOURCE,
                          encoded != NULL ? "&client_id=" : "", encoded != NULL ? encoded : "");
  return *out != NULL && (client == NULL || encoded != NULL) ? LAKE_OK : out_of_memory(err);
}

/* An app or a function has an endpoint of its own, a machine the one that all machines have. */
static lake_status ask_machine(lki_asking *asking, lake_error *err) {
  static const char who[] = "this machine's identity";
  const char *endpoint = lki_variable("IDENTITY_ENDPOINT"), *header = lki_variable("IDENTITY_HEADER");
  const char *host = lki_variable("AZURE_POD_IDENTITY_AUTHORITY_HOST"), *base = "http://169.254.169.254";
  bool service = endpoint != NULL && header != NULL;
  lake_error why = LAKE_ERROR_INIT;
  lki_token_reply reply;
  lki_http_header headers[1] = {{service ? "X-IDENTITY-HEADER" : "Metadata", service ? header : "true"}};
  lki_token_request request = {
      .who = who, .method = "GET", .headers = headers, .header_count = 1, .timeout_ms = MACHINE_MS};
  lake_status s = LAKE_OK;
  if (!service && host != NULL)
    s = lki_check_endpoint(asking->arena, "AZURE_POD_IDENTITY_AUTHORITY_HOST", host, false, &base, err);
  if (s == LAKE_OK && service &&
      (!lki_token_valid(header) || !lki_token_valid(endpoint) || strpbrk(endpoint, "?#@") != NULL))
    s = lki_fail(err, LAKE_INVALID, "IDENTITY_ENDPOINT, IDENTITY_HEADER: not usable");
  if (s == LAKE_OK && !service) {
    endpoint = lki_arena_format(asking->arena, "%s/metadata/identity/oauth2/token", base);
    if (endpoint == NULL) s = out_of_memory(err);
  }
  if (s == LAKE_OK) s = machine_url(asking, endpoint, service, &request.url, err);
  if (s != LAKE_OK) return s;
  s = lki_token_ask(asking, &request, &reply, &why);
  if (!service && host == NULL && (s == LAKE_UNAVAILABLE || s == LAKE_TIMEOUT))
    return LAKE_NOTFOUND; /* not Azure's */
  if (s != LAKE_OK) {
    lki_error_copy(err, &why);
    return s;
  }
  /* A machine without an identity, or another cloud's. */
  bool none = !service && reply.status >= 400 && reply.status < 500 && reply.status != 429;
  s = none ? LAKE_NOTFOUND : lki_token_take(asking, who, &reply, err);
  lki_token_reply_free(&reply);
  return s;
}

const lki_source lki_sources_azure[] = {
    {"AZURE_STORAGE_CONNECTION_STRING", ask_connection_string},
    {"AZURE_STORAGE_KEY", ask_key},
    {"AZURE_STORAGE_SAS_TOKEN", ask_sas},
    {"AZURE_CLIENT_SECRET", ask_client_secret},
    {"AZURE_FEDERATED_TOKEN_FILE", ask_federated},
    {"this machine's identity", ask_machine},
    {NULL, NULL},
};
