/* What the fault server lets in on Azure and on Google Cloud by a shared access signature and by a bearer token, and
 * with which codes it refuses: those of the services. And what the library makes of such a refusal. */
#include "store/digest.h"
#include "store/store.h"
#include "support/faultd.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET "aHVzaGh1c2hodXNoaHVzaA=="
#define MS "x-ms-version: 2021-08-06\r\n"
#define BLOCK_BLOB MS "x-ms-blob-type: BlockBlob\r\n"
#define PAST "2020-01-01T00:00:00Z"
#define FUTURE "2999-01-01T00:00:00Z"

static void expect(faultd *f, const char *method, const char *target, const char *headers, const char *body, int status,
                   const char *part) {
  faultd_answer a = faultd_ask(f, method, target, headers, body);
  if (a.status != status || strstr(a.body, part) == NULL) print_error("%s: %s%s\n", target, a.head, a.body);
  assert_int_equal(a.status, status);
  assert_non_null(strstr(a.body, part));
  faultd_answer_free(&a);
}

/* The signature of a text, as a value of a query. */
static void sign(const char *text, char out[160]) {
  unsigned char key[64], mac[LKI_SHA256_BYTES];
  char base64[64];
  const long bytes = lki_base64_decode(SECRET, key, sizeof key);
  assert_true(bytes > 0);
  assert_true(lki_hmac_sha256((lake_bytes){key, (size_t)bytes}, (lake_bytes){text, strlen(text)}, mac));
  lki_base64((lake_bytes){mac, sizeof mac}, base64);
  for (const char *at = base64; *at; at++)
    out += sprintf(out, *at == '+' || *at == '/' || *at == '=' ? "%%%02X" : "%c", (unsigned)*at);
}

/* For the container: "sp=...&sig=...". */
static const char *of_container(const char *permissions, const char *begin, const char *end) {
  static char query[600];
  char text[600], signature[160];
  snprintf(text, sizeof text, "%s\n%s\n%s\n/blob/acc/data\n\n\nhttps,http\n2021-08-06\nc\n\n\n\n\n\n\n", permissions, begin, end);
  sign(text, signature);
  snprintf(query, sizeof query, "sp=%s&st=%s&se=%s&spr=https%%2Chttp&sv=2021-08-06&sr=c&sig=%s", permissions, begin, end,
           signature);
  return query;
}

/* For the account. */
static const char *of_account(const char *permissions, const char *types) {
  static char query[600];
  char text[600], signature[160];
  snprintf(text, sizeof text, "acc\n%s\nb\n%s\n%s\n" FUTURE "\n\nhttps\n2021-08-06\n\n", permissions, types, PAST);
  sign(text, signature);
  snprintf(query, sizeof query, "sp=%s&ss=b&srt=%s&st=" PAST "&se=" FUTURE "&spr=https&sv=2021-08-06&sig=%s", permissions,
           types, signature);
  return query;
}

static const char *at(const char *path, const char *query) {
  static char target[900];
  snprintf(target, sizeof target, "%s%s%s", path, strchr(path, '?') != NULL ? "&" : "?", query);
  return target;
}

static void signatures(void **state) {
  (void)state;
  static const char list[] = "/acc/data?restype=container&comp=list";
  faultd *f = faultd_start("azure", "--auth", "acc", SECRET, NULL);
  expect(f, "PUT", at("/acc/data/k", of_container("w", PAST, FUTURE)), BLOCK_BLOB, "body", 201, "");
  expect(f, "PUT", at("/acc/data/new", of_container("c", PAST, FUTURE)), BLOCK_BLOB "If-None-Match: *\r\n", "body", 201, "");
  expect(f, "GET", at("/acc/data/k", of_container("r", PAST, FUTURE)), MS, NULL, 200, "body");
  expect(f, "GET", at(list, of_container("l", PAST, FUTURE)), MS, NULL, 200, "<Name>k</Name>");
  expect(f, "GET", at("/acc/data/k", of_account("r", "o")), MS, NULL, 200, "body");
  expect(f, "GET", at(list, of_account("l", "c")), MS, NULL, 200, "<Name>k</Name>");
  /* and what it does not permit */
  expect(f, "GET", at("/acc/data/k", of_container("wdl", PAST, FUTURE)), MS, NULL, 403, "AuthorizationPermissionMismatch");
  expect(f, "PUT", at("/acc/data/k", of_container("rcdl", PAST, FUTURE)), BLOCK_BLOB, "x", 403, "AuthorizationPermissionMismatch");
  expect(f, "GET", at(list, of_container("rwcd", PAST, FUTURE)), MS, NULL, 403, "AuthorizationPermissionMismatch");
  expect(f, "DELETE", at("/acc/data/k", of_container("rwcl", PAST, FUTURE)), MS, NULL, 403, "AuthorizationPermissionMismatch");
  expect(f, "GET", at(list, of_account("rl", "o")), MS, NULL, 403, "AuthorizationResourceTypeMismatch");
  expect(f, "GET", at("/acc/data/k", of_container("r", PAST, "2020-01-02T00:00:00Z")), MS, NULL, 403, "in the specified time frame");
  expect(f, "GET", at("/acc/data/k", of_container("r", "2998-01-01T00:00:00Z", FUTURE)), MS, NULL, 403, "AuthenticationFailed");
  expect(f, "GET", at("/acc/other/k", of_container("r", PAST, FUTURE)), MS, NULL, 403, "AuthenticationFailed"); /* not its container */
  char changed[900];
  snprintf(changed, sizeof changed, "%s", at("/acc/data/k", of_container("r", PAST, FUTURE)));
  memcpy(strstr(changed, "sp=r"), "sp=w", 4);
  expect(f, "PUT", changed, BLOCK_BLOB, "x", 403, "AuthenticationFailed");
  expect(f, "GET", "/acc/data/k", MS, NULL, 401, "NoAuthenticationInformation");
  expect(f, "GET", at("/acc/data/k", of_container("r", PAST, FUTURE)), MS, NULL, 200, "body"); /* unchanged by all that */
  faultd_stop(f);
}

static void tokens(void **state) {
  (void)state;
  faultd *f = faultd_start("azure", "--token", "TOKEN", NULL);
  expect(f, "GET", "/acc/data/k", MS "Authorization: Bearer TOKEN\r\n", NULL, 404, "BlobNotFound");
  expect(f, "GET", "/acc/data/k", MS "Authorization: Bearer OTHER\r\n", NULL, 401, "InvalidAuthenticationInfo");
  expect(f, "GET", "/acc/data/k", MS, NULL, 401, "NoAuthenticationInformation");
  faultd_stop(f);
  f = faultd_start("azure", "--auth", "acc", SECRET, NULL); /* knows keys, and no token */
  expect(f, "GET", "/acc/data/k", MS "Authorization: Bearer TOKEN\r\n", NULL, 401, "InvalidAuthenticationInfo");
  faultd_stop(f);
  f = faultd_start("gcs", "--token", "TOKEN", NULL);
  expect(f, "GET", "/storage/v1/b/data/o/k?alt=media", "Authorization: Bearer TOKEN\r\n", NULL, 404, "notFound");
  expect(f, "GET", "/storage/v1/b/data/o/k?alt=media", "Authorization: Bearer OTHER\r\n", NULL, 401, "authError");
  faultd_stop(f);
}

static void give_token(const char *sas, lake_env *env, faultd *f, lake_status want, const char *part) {
  char url[300];
  lake_store *store = NULL;
  lake_error err = LAKE_ERROR_INIT;
  setenv("AZURE_STORAGE_SAS_TOKEN", sas, 1);
  snprintf(url, sizeof url, "az://data/run?account=acc&endpoint=%s", f->url);
  assert_ok(lake_store_open(env, url, &store, &err), &err);
  lake_status s = lki_store_put_if_absent(store, "key", (lake_bytes){"body", 4}, test_deadline(env), &err);
  assert_status(s, want, &err);
  if (want != LAKE_OK) {
    if (strstr(err.text, part) == NULL) print_error("%s\n", err.text);
    assert_non_null(strstr(err.text, part));
    assert_null(strstr(err.text, strstr(sas, "sig=") + 4));
  }
  lake_store_close(store);
}

static void what_the_library_says(void **state) {
  (void)state;
  lake_env *env = NULL;
  char wrong[600];
  assert_ok(lake_env_open(NULL, &env, NULL), NULL);
  unsetenv("AZURE_STORAGE_KEY");
  unsetenv("AZURE_STORAGE_ACCOUNT");
  unsetenv("AZURE_STORAGE_CONNECTION_STRING");
  faultd *f = faultd_start("azure", "--auth", "acc", SECRET, NULL);
  give_token(of_container("rl", PAST, FUTURE), env, f, LAKE_DENIED, "AuthorizationPermissionMismatch");
  give_token(of_container("rwcdl", PAST, "2020-01-02T00:00:00Z"), env, f, LAKE_DENIED, "AuthenticationFailed");
  snprintf(wrong, sizeof wrong, "%s", of_container("rwcdl", PAST, FUTURE));
  char *sig = strstr(wrong, "sig=") + 4;
  *sig = *sig == 'A' ? 'B' : 'A';
  give_token(wrong, env, f, LAKE_DENIED, "AuthenticationFailed");
  give_token(of_container("rwcdl", PAST, FUTURE), env, f, LAKE_OK, "");
  faultd_stop(f);
  lake_env_close(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(signatures), cmocka_unit_test(tokens),
                                     cmocka_unit_test(what_the_library_says)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
