/* Credentials and where they come from: a chain of sources, asked in order until one has some. What it finds
 * is refreshed before it expires and read again when a store says that it has expired. A snapshot is
 * immutable and counted by reference. No secret ever gets into a text, an error or a log line. Safe from any
 * thread; a refresh blocks only those that have nothing valid. */
#ifndef LKI_STORE_CREDENTIALS_H
#define LKI_STORE_CREDENTIALS_H

#include "store/http.h"
#include "store/settings.h"

typedef struct lki_credentials {
  const char *key_id;       /* S3 access key, HMAC key of GCS, account name of Azure; NULL: none */
  const char *secret;       /* its secret; Azure: the account key in base64 */
  const char *session;      /* session token of S3, or NULL */
  const char *bearer;       /* OAuth2 access token, or NULL */
  const char *sas;          /* Azure's shared access signature without the '?', or NULL */
  bool anonymous;           /* requests are not signed */
  uint64_t expires_wall_ns; /* UINT64_MAX: never */
  const char *source; /* for people: "AWS_ACCESS_KEY_ID in the environment", "~/.aws/credentials [prod]" */
} lki_credentials;

typedef struct lki_credentials_chain lki_credentials_chain;

/* settings and http must outlive the chain. Asks nothing yet. */
lake_status lki_credentials_open(lake_env *env, const lki_settings *settings, lki_http *http,
                                 lki_credentials_chain **out, lake_error *err);
void lki_credentials_close(lki_credentials_chain *chain); /* NULL accepted */
/* A snapshot that is valid now; the caller releases it. `rejected`: a snapshot that the store has just called
 * expired or wrong, so that the sources are asked again (once for all who come with the same one), or NULL.
 * DENIED: no source has any, with the list of sources tried; UNAVAILABLE, TIMEOUT: a source could not be
 * reached. */
lake_status lki_credentials_get(lki_credentials_chain *chain, const lki_credentials *rejected,
                                lake_deadline deadline, const lki_credentials **out, lake_error *err);
/* What is there and valid, without asking anybody; false: nothing is, or it is being renewed, or due to be. */
bool lki_credentials_peek(lki_credentials_chain *chain, const lki_credentials **out);
void lki_credentials_release(lki_credentials_chain *chain,
                             const lki_credentials *credentials); /* NULL accepted */
/* Blots out what a text repeats of their secrets: a server, or a proxy before it, may put into its message what it was
 * sent. Also where the text ends within one. NULL accepted. */
void lki_credentials_blot(const lki_credentials *credentials, char *text);

#endif
