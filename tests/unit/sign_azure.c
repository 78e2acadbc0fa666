/* Azure's Shared Key: the texts that its documentation shows, and whole signatures, checked with another implementation,
 * under the key that every emulator knows. */
#include "support/support.h"

#include "base/env.h"
#include "store/sign.h"
#include <string.h>

#define AT 1435361952 /* Fri, 26 Jun 2015 23:39:12 GMT */

static const lki_credentials emulator = {
    .key_id = "devstoreaccount1",
    .secret = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
};

static lake_env *env;

static const char *header(const lki_request *request, const char *name) {
  for (size_t i = 0; i < request->header_count; i++)
    if (strcmp(request->headers[i].name, name) == 0) return request->headers[i].value;
  return NULL;
}

static void assert_canonical(lki_request *request, const char *account, const char *want) {
  const char *got = NULL;
  assert_true(lki_azure_canonical(request, account, &got));
  assert_string_equal(got, want);
  lki_request_free(request);
}

/* "Constructing the signature string" and "Constructing the canonicalized resource string". */
static void test_documented_texts(void **state) {
  (void)state;
  lki_request r;
  lki_request_init(&r, env, "GET", "https://myaccount.blob.core.windows.net", "/mycontainer");
  lki_request_query(&r, "restype", "container");
  lki_request_query(&r, "comp", "metadata");
  lki_request_query(&r, "timeout", "20");
  lki_request_header(&r, "x-ms-version", "2015-02-21");
  lki_request_header(&r, "x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT");
  assert_canonical(&r, "myaccount",
                   "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n"
                   "/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20");

  lki_request_init(&r, env, "GET", "https://myaccount.blob.core.windows.net", "/mycontainer");
  lki_request_query(&r, "restype", "container");
  lki_request_query(&r, "comp", "list");
  lki_request_query(&r, "include", "snapshots");
  lki_request_query(&r, "include", "metadata");
  lki_request_query(&r, "include", "uncommittedblobs");
  lki_request_header(&r, "x-ms-date", "d");
  assert_canonical(&r, "myaccount",
                   "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:d\n/myaccount/mycontainer\ncomp:list\n"
                   "include:metadata,snapshots,uncommittedblobs\nrestype:container");

  lki_request_init(&r, env, "PUT", "http://127.0.0.1:10000", "/devstoreaccount1/mycontainer/my blob");
  lki_request_header(&r, "content-type", "text/plain; charset=UTF-8");
  lki_request_header(&r, "date", "left out");
  lki_request_header(&r, "x-ms-date", "d");
  lki_request_header(&r, "x-ms-meta-m1", "  a  \t b ");
  lki_request_header(&r, "x-ms-blob-type", "BlockBlob");
  lki_request_header(&r, "if-none-match", "*");
  lki_request_header(&r, "range", "bytes=0-9");
  lki_request_query(&r, "Comp", "BLOCK");
  r.body = (lake_bytes){"hello world", 11};
  assert_canonical(&r, "devstoreaccount1",
                   "PUT\n\n\n11\n\ntext/plain; charset=UTF-8\n\n\n\n*\n\nbytes=0-9\nx-ms-blob-type:BlockBlob\nx-ms-date:d\n"
                   "x-ms-meta-m1:a b\n/devstoreaccount1/devstoreaccount1/mycontainer/my%20blob\ncomp:BLOCK");
}

static void sign_and_check(lki_request *request, const char *want) {
  lake_error err = LAKE_ERROR_INIT;
  lki_request_header(request, "x-ms-version", "2021-08-06");
  for (int i = 0; i < 2; i++) { /* a second time gives the same, as a second try does */
    assert_ok(lki_sign_azure(request, &emulator, AT, &err), &err);
    assert_string_equal(header(request, "x-ms-date"), "Fri, 26 Jun 2015 23:39:12 GMT");
    assert_string_equal(header(request, "authorization"), want);
  }
  lki_request_free(request);
}

static void test_signatures(void **state) {
  (void)state;
  lki_request r;
  lki_request_init(&r, env, "PUT", "http://127.0.0.1:10000", "/devstoreaccount1/container/a b=@+%~\xe2\x98\x83//x");
  lki_request_header(&r, "x-ms-blob-type", "BlockBlob");
  lki_request_header(&r, "if-none-match", "*");
  lki_request_header(&r, "content-type", "application/octet-stream");
  r.body = (lake_bytes){"12345", 5};
  sign_and_check(&r, "SharedKey devstoreaccount1:rw0EaxfwtI9b1uFpRZ2RO2JYFoqtv+E5T649OFCMNP4=");

  lki_request_init(&r, env, "GET", "https://devstoreaccount1.blob.core.windows.net", "/container");
  lki_request_query(&r, "restype", "container");
  lki_request_query(&r, "comp", "list");
  lki_request_query(&r, "prefix", "a/b c");
  lki_request_query(&r, "maxresults", "5");
  lki_request_query(&r, "include", "");
  sign_and_check(&r, "SharedKey devstoreaccount1:J1xKsB2hOD24v2JsoQvLbgNBBwndKQ0mBBXn/6IM160=");

  lki_request_init(&r, env, "GET", "https://devstoreaccount1.blob.core.windows.net", "/container/key");
  lki_request_header(&r, "x-ms-range", "bytes=0-9");
  lki_request_header(&r, "x-ms-meta-a-b", "1"); /* behind the next one: hyphens hardly count */
  lki_request_header(&r, "x-ms-metaaa", "2");
  lki_request_header(&r, "if-match", "\"0x8D\"");
  sign_and_check(&r, "SharedKey devstoreaccount1:RN+KvrdfpKpHBfu0zbxfEEXRlmhnuXKMpFFyfbabPsc=");
}

static void test_refusals(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  lki_request r;
  lki_credentials c = {.key_id = "account"};
  lki_request_init(&r, env, "GET", "https://account.blob.core.windows.net", "/container/key");
  assert_status(lki_sign_azure(&r, &c, AT, &err), LAKE_INVALID, &err);
  c.secret = "not base64!";
  assert_status(lki_sign_azure(&r, &c, AT, &err), LAKE_INVALID, &err);
  assert_null(strstr(err.text, "not base64!"));
  c.secret = "";
  assert_status(lki_sign_azure(&r, &c, AT, &err), LAKE_INVALID, &err);
  assert_status(lki_sign_azure(&r, &emulator, -1, &err), LAKE_INVALID, &err);
  assert_int_equal(r.header_count, 0); /* nothing changed */
  c.anonymous = true;
  assert_ok(lki_sign_azure(&r, &c, AT, &err), &err);
  assert_int_equal(r.header_count, 0);
  lki_request_free(&r);
}

static int open_env(void **state) {
  (void)state;
  return lake_env_open(NULL, &env, NULL) == LAKE_OK ? 0 : -1;
}

static int close_env(void **state) {
  (void)state;
  lake_env_close(env);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_documented_texts), cmocka_unit_test(test_signatures),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, open_env, close_env);
}
