/* Checks who asks: an access key's signature (SigV4, GOOG4-HMAC-SHA256, Azure SharedKey), a bearer token, or a SAS (in
 * sas.c). The canonical forms are made anew from what was received, so that a client that signs one thing and sends
 * another is found out. */
#define _GNU_SOURCE
#include "server.h"
#include <ctype.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHA256_BYTES 32

static void sha256_hex(text *t, const void *data, size_t bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned n = 0;
  EVP_Digest(data, bytes, digest, &n, EVP_sha256(), NULL);
  text_hex(t, digest, n);
}

static void hmac(const void *key, size_t key_bytes, const char *data, size_t bytes, unsigned char out[SHA256_BYTES]) {
  unsigned n = SHA256_BYTES;
  HMAC(EVP_sha256(), key, (int)key_bytes, (const unsigned char *)data, bytes, out, &n);
}

/* In the order of names, then values, by bytes. */
static int compare_pairs(const void *a, const void *b) {
  const pair *x = a, *y = b;
  const int by_name = strcmp(x->name, y->name);
  return by_name != 0 ? by_name : strcmp(x->value, y->value);
}

/* ---- version 4, of AWS and of GCS ---- */

typedef struct v4 {
  const char *algorithm, *date_header, *hash_header, *service, *terminator, *key_prefix;
  char date[32], key[256], scope[256], day[16], region[64], signed_headers[2048], signature[80];
} v4;

/* Copies what follows name= in the header, up to a comma. */
static bool field(const char *authorization, const char *name, char *out, size_t out_max) {
  const char *at = strstr(authorization, name);
  if (at == NULL) return false;
  at += strlen(name);
  const size_t bytes = strcspn(at, ", ");
  if (bytes >= out_max) return false;
  memcpy(out, at, bytes);
  out[bytes] = 0;
  return true;
}

static bool parse_v4(v4 *v, const request *q, const char *authorization) {
  char credential[512];
  const char *date = request_header(q, v->date_header);
  if (date == NULL || strlen(date) != 16 || !field(authorization, "Credential=", credential, sizeof credential) ||
      !field(authorization, "SignedHeaders=", v->signed_headers, sizeof v->signed_headers) ||
      !field(authorization, "Signature=", v->signature, sizeof v->signature))
    return false;
  snprintf(v->date, sizeof v->date, "%s", date);
  char *slash = strchr(credential, '/');
  if (slash == NULL) return false;
  *slash = 0;
  if (strlen(credential) >= sizeof v->key || strlen(slash + 1) >= sizeof v->scope) return false;
  memcpy(v->key, credential, strlen(credential) + 1);
  memcpy(v->scope, slash + 1, strlen(slash + 1) + 1);
  char service[16], terminator[32];
  return sscanf(v->scope, "%15[^/]/%63[^/]/%15[^/]/%31s", v->day, v->region, service, terminator) == 4 &&
         strcmp(service, v->service) == 0 && strcmp(terminator, v->terminator) == 0 && strncmp(v->day, v->date, 8) == 0;
}

static void put_query(text *t, const request *q) {
  pair sorted[PARAMS_MAX];
  text encoded[PARAMS_MAX][2] = {0};
  for (size_t i = 0; i < q->param_count; i++) {
    text_url(&encoded[i][0], q->params[i].name, "");
    text_url(&encoded[i][1], q->params[i].value, "");
    sorted[i] = (pair){encoded[i][0].data, encoded[i][1].data != NULL ? encoded[i][1].data : ""};
    if (sorted[i].name == NULL) sorted[i].name = "";
  }
  qsort(sorted, q->param_count, sizeof *sorted, compare_pairs);
  for (size_t i = 0; i < q->param_count; i++) text_add(t, "%s%s=%s", i > 0 ? "&" : "", sorted[i].name, sorted[i].value);
  for (size_t i = 0; i < q->param_count; i++) text_free(&encoded[i][0]), text_free(&encoded[i][1]);
}

/* One line for each signed header; runs of spaces count as one. */
static bool put_signed_headers(text *t, const request *q, const char *names) {
  char *copy = must_copy(names, strlen(names)), *rest = copy;
  bool all = true;
  for (char *name; (name = strsep(&rest, ";")) != NULL;) {
    const char *value = request_header(q, name);
    all = all && value != NULL;
    text_add(t, "%s:", name);
    for (const char *s = value != NULL ? value : ""; *s; s++)
      if (*s != ' ' || s[1] != ' ') text_put(t, s, 1);
    text_add(t, "\n");
  }
  free(copy);
  return all;
}

/* What must be signed is: the host and every header of the vendor's own. */
static bool covers(const request *q, const char *names) {
  text list = {0};
  bool good = true;
  text_add(&list, ";%s;", names);
  for (size_t i = 0; i < q->header_count; i++) {
    const char *name = q->headers[i].name;
    if (strcmp(name, "host") != 0 && strncmp(name, "x-amz-", 6) != 0 && strncmp(name, "x-goog-", 7) != 0) continue;
    text needle = {0};
    text_add(&needle, ";%s;", name);
    good = good && strstr(list.data, needle.data) != NULL;
    text_free(&needle);
  }
  text_free(&list);
  return good;
}

static void expected_v4(const server *s, const v4 *v, const text *canonical, text *signature) {
  unsigned char k[SHA256_BYTES];
  text secret = {0}, to_sign = {0};
  text_add(&secret, "%s%s", v->key_prefix, s->options.auth_secret);
  text_add(&to_sign, "%s\n%s\n%s\n", v->algorithm, v->date, v->scope);
  sha256_hex(&to_sign, canonical->data, canonical->bytes);
  hmac(secret.data, secret.bytes, v->day, strlen(v->day), k);
  hmac(k, sizeof k, v->region, strlen(v->region), k);
  hmac(k, sizeof k, v->service, strlen(v->service), k);
  hmac(k, sizeof k, v->terminator, strlen(v->terminator), k);
  hmac(k, sizeof k, to_sign.data, to_sign.bytes, k);
  text_hex(signature, k, sizeof k);
  text_free(&secret);
  text_free(&to_sign);
}

/* The path decoded and encoded again as it must be signed. */
static void put_path(text *t, const request *q) {
  char *path = must_copy(q->path, strlen(q->path));
  if (url_decode(path, false)) text_url(t, path, "/");
  free(path);
}

static bool body_hash_fits(const server *s, const request *q, const char *told) {
  if (strcmp(told, "UNSIGNED-PAYLOAD") == 0) return s->tls != NULL;
  text hash = {0};
  sha256_hex(&hash, q->body->data, q->body->bytes);
  const bool same = strcmp(hash.data, told) == 0;
  text_free(&hash);
  return same;
}

bool sign_check_v4(const server *s, const request *q, const char *authorization, refusal *why) {
  const bool goog = strncmp(authorization, "GOOG4", 5) == 0;
  v4 v = goog ? (v4){"GOOG4-HMAC-SHA256", "x-goog-date", "x-goog-content-sha256", "storage", "goog4_request", "GOOG4", "", "", "", "", "", "", ""}
              : (v4){"AWS4-HMAC-SHA256", "x-amz-date", "x-amz-content-sha256", "s3", "aws4_request", "AWS4", "", "", "", "", "", "", ""};
  const char *hash = request_header(q, v.hash_header);
  *why = REFUSE_SIGNATURE;
  if (hash == NULL || !parse_v4(&v, q, authorization) || !covers(q, v.signed_headers)) return false;
  *why = REFUSE_STRANGER;
  if (strcmp(v.key, s->options.auth_key) != 0) return false;
  *why = REFUSE_REGION;
  if (!goog && s->options.region != NULL && strcmp(v.region, s->options.region) != 0) return false;
  text canonical = {0}, signature = {0};
  text_add(&canonical, "%s\n", q->method);
  put_path(&canonical, q);
  text_add(&canonical, "\n");
  put_query(&canonical, q);
  text_add(&canonical, "\n");
  const bool all = put_signed_headers(&canonical, q, v.signed_headers);
  text_add(&canonical, "\n%s\n%s", v.signed_headers, hash);
  expected_v4(s, &v, &canonical, &signature);
  *why = REFUSE_SIGNATURE;
  bool good = all && strcmp(signature.data, v.signature) == 0;
  if (good && !body_hash_fits(s, q, hash)) {
    *why = REFUSE_BODY_HASH;
    good = false;
  }
  text_free(&canonical);
  text_free(&signature);
  return good;
}

/* ---- Azure SharedKey ---- */

static void put_ms_headers(text *t, const request *q) {
  pair sorted[HEADERS_MAX];
  size_t count = 0;
  for (size_t i = 0; i < q->header_count; i++)
    if (strncmp(q->headers[i].name, "x-ms-", 5) == 0) sorted[count++] = q->headers[i];
  qsort(sorted, count, sizeof *sorted, compare_pairs);
  for (size_t i = 0; i < count; i++) text_add(t, "%s:%s\n", sorted[i].name, sorted[i].value);
}

/* "/account/account/container/blob" where the account is in the path, as with emulators, then the query by lines. */
static void put_resource(text *t, const server *s, const request *q) {
  pair sorted[PARAMS_MAX];
  text_add(t, "/%s%s", s->options.auth_key, q->path);
  memcpy(sorted, q->params, q->param_count * sizeof *sorted);
  qsort(sorted, q->param_count, sizeof *sorted, compare_pairs);
  for (size_t i = 0; i < q->param_count; i++) {
    text name = {0};
    for (const char *c = sorted[i].name; *c; c++) text_add(&name, "%c", tolower((unsigned char)*c));
    text_add(t, "\n%s:%s", text_of(&name), sorted[i].value);
    text_free(&name);
  }
}

bool sign_check_azure(const server *s, const request *q, const char *authorization, refusal *why) {
  static const char *const NAMES[] = {"content-encoding", "content-language", "content-length", "content-md5", "content-type",
                                      "date", "if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"};
  const char *colon = strchr(authorization, ':'), *account = authorization + strlen("SharedKey ");
  *why = REFUSE_STRANGER;
  if (colon == NULL || (size_t)(colon - account) != strlen(s->options.auth_key) ||
      strncmp(account, s->options.auth_key, (size_t)(colon - account)) != 0)
    return false;
  text to_sign = {0}, expected = {0};
  text_add(&to_sign, "%s\n", q->method);
  for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
    const char *value = request_header(q, NAMES[i]);
    if (value != NULL && strcmp(NAMES[i], "content-length") == 0 && strcmp(value, "0") == 0) value = NULL;
    if (strcmp(NAMES[i], "date") == 0 && request_header(q, "x-ms-date") != NULL) value = NULL;
    text_add(&to_sign, "%s\n", value != NULL ? value : "");
  }
  put_ms_headers(&to_sign, q);
  put_resource(&to_sign, s, q);
  unsigned char key[256], k[SHA256_BYTES];
  hmac(key, base64_decode(s->options.auth_secret, key, sizeof key), to_sign.data, to_sign.bytes, k);
  text_base64(&expected, k, sizeof k);
  *why = REFUSE_SIGNATURE;
  const bool good = strcmp(expected.data, colon + 1) == 0;
  text_free(&to_sign);
  text_free(&expected);
  return good;
}

/* ---- which of them ---- */

static bool token_fits(const server *s, const char *got) {
  return s->options.token == NULL || (got != NULL && strcmp(got, s->options.token) == 0);
}

bool auth_check(const server *s, const request *q, int64_t now_unix_s, refusal *why) {
  const char *authorization = request_header(q, "authorization");
  if (s->options.auth_key == NULL && s->options.token == NULL) return true;
  *why = REFUSE_EXPIRED;
  if (authorization != NULL && strncmp(authorization, "Bearer ", 7) == 0)
    return s->options.token != NULL && token_fits(s, authorization + 7);
  if (s->options.dialect == &dialect_azure && authorization == NULL && request_param(q, "sig") != NULL)
    return sas_check(s, q, now_unix_s, why);
  *why = REFUSE_ANONYMOUS;
  if (authorization == NULL || s->options.auth_key == NULL) return false;
  if (s->options.dialect == &dialect_azure) {
    if (strncmp(authorization, "SharedKey ", 10) == 0) return sign_check_azure(s, q, authorization, why);
  } else if (strncmp(authorization, "AWS4-HMAC-SHA256 ", 17) == 0 || strncmp(authorization, "GOOG4-HMAC-SHA256 ", 18) == 0) {
    if (!sign_check_v4(s, q, authorization, why)) return false;
    *why = REFUSE_EXPIRED;
    return token_fits(s, request_header(q, "x-amz-security-token"));
  }
  *why = REFUSE_SIGNATURE;
  return false;
}
