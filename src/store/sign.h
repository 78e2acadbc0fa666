/* Signing a request: adds the headers (date, payload hash, Authorization) that make a server believe it. Pure but for a
 * cache of day keys; the time is given. Call last, before lki_request_finish. Safe from any thread. */
#ifndef LKI_STORE_SIGN_H
#define LKI_STORE_SIGN_H

#include "store/credentials.h"
#include "store/request.h"

/* The two families of "version 4" signatures. */
typedef struct lki_v4_family {
  const char *algorithm;     /* "AWS4-HMAC-SHA256", "GOOG4-HMAC-SHA256" */
  const char *secret_prefix; /* "AWS4", "GOOG4" */
  const char *service;       /* "s3", "storage" */
  const char *terminator;    /* "aws4_request", "goog4_request" */
  const char *header_prefix; /* "x-amz-", "x-goog-" */
  bool payload_header;       /* the hash of the body is also a header, as S3 and Google want it */
} lki_v4_family;

extern const lki_v4_family lki_v4_aws;
extern const lki_v4_family lki_v4_google;

/* The key of one day, region and service, kept by the store between requests. */
typedef struct lki_day_key lki_day_key;
lki_day_key *lki_day_key_open(lake_env *env); /* NULL: no memory */
void lki_day_key_close(lki_day_key *key);     /* NULL accepted */

/* The path is encoded once and not normalised, as S3 has it. unsigned_payload: the body is not hashed; the transport
 * must be https. wall_s: seconds since 1970, the server's clock as far as known. day NULL: nothing is kept. A request
 * may be signed again, with another time or other credentials. Anonymous: nothing is added. INVALID, NOMEM. */
lake_status lki_sign_v4(lki_request *request, const lki_v4_family *family, const lki_credentials *credentials,
                        const char *region, int64_t wall_s, bool unsigned_payload, lki_day_key *day, lake_error *err);

/* What lki_sign_v4 hashes and signs, given the hash of the body as text; both texts are the request's arena's. For it
 * and for tests. false: no memory. */
bool lki_v4_canonical(lki_request *request, const char *payload, const char **canonical, const char **signed_headers);

/* Azure's Shared Key, for version 2021-08-06 of the service and newer: adds x-ms-date and Authorization; content-length
 * is that of the body. The canonical resource is "/" + account + path, so where the path begins with the account, as
 * with emulators, it is there twice. Anonymous: nothing is added. INVALID, NOMEM. */
lake_status lki_sign_azure(lki_request *request, const lki_credentials *credentials, int64_t wall_s, lake_error *err);

/* What it signs; the text is the request's arena's. For it and for tests. false: no memory. */
bool lki_azure_canonical(lki_request *request, const char *account, const char **out);

/* An assertion for a token endpoint (RFC 7523), signed with RS256: header.claims.signature. Into the arena.
 * key_id may be NULL. INVALID (the key cannot be used), NOMEM. */
lake_status lki_sign_jwt(lki_arena *arena, const char *pem, const char *key_id, const char *claims_json,
                         const char **out, lake_error *err);

#endif
