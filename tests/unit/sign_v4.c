/* Signatures of version 4 against published ones: Amazon's test suite for the algorithm, the examples of the S3
 * documentation, and what must hold beyond them: odd keys, one encoding for the URL and the signature, no secret kept. */
#include "support/support.h"

#include "base/env.h"
#include "store/digest.h"
#include "store/cloud.h"
#include "store/sign.h"
#include <stdio.h>
#include <string.h>

/* The suite signs for a service called "service", which does not want the hash of the body as a header. */
static const lki_v4_family suite = {"AWS4-HMAC-SHA256", "AWS4", "service", "aws4_request", "x-amz-", false};

#define SUITE_TIME 1440938160 /* 20150830T123600Z */
#define S3_TIME 1369353600    /* 20130524T000000Z */

static const lki_credentials suite_credentials = {.key_id = "AKIDEXAMPLE",
                                                  .secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"};
static const lki_credentials s3_credentials = {.key_id = "AKIAIOSFODNN7EXAMPLE",
                                               .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};

static lake_env *env;

static const char *header(const lki_request *request, const char *name) {
  for (size_t i = 0; i < request->header_count; i++)
    if (strcmp(request->headers[i].name, name) == 0) return request->headers[i].value;
  return NULL;
}

static void assert_signature(lki_request *request, const char *names, const char *signature) {
  const char *line = header(request, "authorization");
  char want[800];
  assert_non_null(line);
  snprintf(want, sizeof want, ", SignedHeaders=%s, Signature=%s", names, signature);
  assert_string_equal(strstr(line, ", SignedHeaders="), want);
  lki_request_free(request);
}

static void sign_suite(lki_request *request) {
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lki_sign_v4(request, &suite, &suite_credentials, "us-east-1", SUITE_TIME, false, NULL, &err), &err);
}

static void sign_s3(lki_request *request) {
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lki_sign_v4(request, &lki_v4_aws, &s3_credentials, "us-east-1", S3_TIME, false, NULL, &err), &err);
}

static lki_request suite_request(const char *method, const char *path) {
  lki_request r;
  lki_request_init(&r, env, method, "https://example.amazonaws.com", path);
  return r;
}

static void test_suite(void **state) {
  (void)state;
  static const struct {
    const char *method, *path;
    lki_pair query[2];
    const char *signature;
  } cases[] = {
      {"GET", "/", {{0}}, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"POST", "/", {{0}}, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
      {"GET", "/", {{"Param1", "value1"}}, "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
      {"GET", "/", {{"Param2", "value2"}, {"Param1", "value1"}},
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"GET", "/", {{"Param1", "value2"}, {"Param1", "value1"}},
       "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694"},
      {"GET", "/\xe1\x88\xb4", {{0}}, "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
      {"GET", "/", {{"\xe1\x88\xb4", "bar"}}, "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
      {"GET", "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", {{0}},
       "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    lki_request r = suite_request(cases[i].method, cases[i].path);
    for (size_t q = 0; q < 2 && cases[i].query[q].name != NULL; q++)
      lki_request_query(&r, cases[i].query[q].name, cases[i].query[q].value);
    sign_suite(&r);
    assert_signature(&r, "host;x-amz-date", cases[i].signature);
  }
}

static void test_suite_headers(void **state) {
  (void)state;
  lki_request r = suite_request("GET", "/");
  lki_request_header(&r, "my-header1", " value1");
  lki_request_header(&r, "my-header2", " \"a   b   c\"");
  sign_suite(&r);
  assert_signature(&r, "host;my-header1;my-header2;x-amz-date",
                   "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736");
  r = suite_request("POST", "/");
  lki_request_header(&r, "content-type", "application/x-www-form-urlencoded");
  r.body = (lake_bytes){"Param1=value1", 13};
  sign_suite(&r);
  assert_signature(&r, "content-type;host;x-amz-date",
                   "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a");
}

/* The token of temporary credentials is a signed header. */
static void test_suite_token(void **state) {
  (void)state;
  lki_credentials c = suite_credentials;
  c.session =
      "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwt"
      "hAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVX"
      "AkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
  lki_request r = suite_request("POST", "/");
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lki_sign_v4(&r, &suite, &c, "us-east-1", SUITE_TIME, false, NULL, &err), &err);
  assert_string_equal(header(&r, "x-amz-security-token"), c.session);
  assert_signature(&r, "host;x-amz-date;x-amz-security-token",
                   "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead");
}

static lki_request s3_request(const char *method, const char *path) {
  lki_request r;
  lki_request_init(&r, env, method, "https://examplebucket.s3.amazonaws.com:443", path);
  return r;
}

static void test_s3_documented(void **state) {
  (void)state;
  lki_request r = s3_request("GET", "/test.txt");
  lki_request_header(&r, "range", "bytes=0-9");
  sign_s3(&r);
  assert_string_equal(header(&r, "x-amz-content-sha256"), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  assert_string_equal(header(&r, "x-amz-date"), "20130524T000000Z");
  assert_string_equal(header(&r, "authorization"),
                      "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
                      "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
                      "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  lki_request_free(&r);

  r = s3_request("PUT", "/test$file.text");
  lki_request_header(&r, "date", "Fri, 24 May 2013 00:00:00 GMT");
  lki_request_header(&r, "x-amz-storage-class", "REDUCED_REDUNDANCY");
  r.body = (lake_bytes){"Welcome to Amazon S3.", 21};
  sign_s3(&r);
  assert_string_equal(header(&r, "x-amz-content-sha256"), "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
  assert_signature(&r, "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
                   "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");

  r = s3_request("GET", "/");
  lki_request_query(&r, "lifecycle", "");
  sign_s3(&r);
  assert_signature(&r, "host;x-amz-content-sha256;x-amz-date",
                   "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");

  r = s3_request("GET", "/");
  lki_request_query(&r, "prefix", "J");
  lki_request_query(&r, "max-keys", "2");
  sign_s3(&r);
  assert_signature(&r, "host;x-amz-content-sha256;x-amz-date",
                   "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

/* Google's: the same algorithm, every name exchanged. */
static void test_google(void **state) {
  (void)state;
  lki_request r;
  lake_error err = LAKE_ERROR_INIT;
  const char *canonical = NULL, *names = NULL;
  lki_request_init(&r, env, "PUT", "https://storage.googleapis.com", "/example-bucket/cat pics/tabby.jpeg");
  lki_request_header(&r, "x-goog-if-generation-match", "0");
  r.body = (lake_bytes){"meow", 4};
  assert_ok(lki_sign_v4(&r, &lki_v4_google, &s3_credentials, "auto", 1575148501, true, NULL, &err), &err);
  assert_string_equal(header(&r, "x-goog-date"), "20191130T211501Z");
  assert_string_equal(header(&r, "x-goog-content-sha256"), "UNSIGNED-PAYLOAD");
  assert_null(header(&r, "x-amz-date"));
  assert_true(lki_v4_canonical(&r, "UNSIGNED-PAYLOAD", &canonical, &names));
  assert_string_equal(canonical, "PUT\n/example-bucket/cat%20pics/tabby.jpeg\n\nhost:storage.googleapis.com\n"
                                 "x-goog-content-sha256:UNSIGNED-PAYLOAD\nx-goog-date:20191130T211501Z\n"
                                 "x-goog-if-generation-match:0\n\n"
                                 "host;x-goog-content-sha256;x-goog-date;x-goog-if-generation-match\nUNSIGNED-PAYLOAD");
  const char *line = header(&r, "authorization");
  const char *head = "GOOG4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20191130/auto/storage/goog4_request, "
                     "SignedHeaders=host;x-goog-content-sha256;x-goog-date;x-goog-if-generation-match, Signature=";
  assert_memory_equal(line, head, strlen(head));
  assert_int_equal(strlen(line), strlen(head) + 64);
  lki_request_free(&r);
}

/* What is signed is what is sent, byte for byte, and nothing is normalised. */
static void test_odd_keys(void **state) {
  (void)state;
  static const struct {
    const char *key, *encoded;
  } cases[] = {
      {"/b/a=b", "/b/a%3Db"},
      {"/b/a@b", "/b/a%40b"},
      {"/b/a b", "/b/a%20b"},
      {"/b/a+b", "/b/a%2Bb"},
      {"/b/100%", "/b/100%25"},
      {"/b/%2F", "/b/%252F"},
      {"/b/~x", "/b/~x"},
      {"/b//x//", "/b//x//"},
      {"/b/./../x", "/b/./../x"},
      {"/b/caf\xc3\xa9 \xe2\x98\x83", "/b/caf%C3%A9%20%E2%98%83"},
      {"/b/!*'();:&$,?#[]\"<>\\^`{|}", "/b/%21%2A%27%28%29%3B%3A%26%24%2C%3F%23%5B%5D%22%3C%3E%5C%5E%60%7B%7C%7D"},
      {"/b/\x01\x7f", "/b/%01%7F"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    lki_request r;
    lki_http_request out = {0};
    lake_error err = LAKE_ERROR_INIT;
    const char *canonical = NULL, *names = NULL;
    char want[300];
    lki_request_init(&r, env, "GET", "http://127.0.0.1:9000", cases[i].key);
    lki_request_query(&r, "prefix", cases[i].key);
    sign_s3(&r);
    assert_true(lki_v4_canonical(&r, "x", &canonical, &names));
    snprintf(want, sizeof want, "GET\n%s\nprefix=", cases[i].encoded);
    assert_memory_equal(canonical, want, strlen(want));
    assert_non_null(strstr(canonical, "\nhost:127.0.0.1:9000\n"));
    assert_ok(lki_request_finish(&r, &out, &err), &err);
    snprintf(want, sizeof want, "http://127.0.0.1:9000%s?prefix=%%2Fb%%2F", cases[i].encoded);
    assert_memory_equal(out.url, want, strlen(want));
    lki_request_free(&r);
  }
}

/* Signed again, as each try is: the new time counts, and a token that is gone is gone. */
static void test_sign_again(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  lki_day_key *day = lki_day_key_open(env);
  lki_credentials token = s3_credentials;
  token.session = "token";
  assert_non_null(day);
  lki_request r = s3_request("GET", "/test.txt");
  lki_request_header(&r, "range", "bytes=0-9");
  assert_ok(lki_sign_v4(&r, &lki_v4_aws, &token, "us-east-1", S3_TIME + 86400, false, day, &err), &err);
  assert_string_equal(header(&r, "x-amz-date"), "20130525T000000Z");
  for (int i = 0; i < 2; i++) { /* made, then kept */
    assert_ok(lki_sign_v4(&r, &lki_v4_aws, &s3_credentials, "us-east-1", S3_TIME, false, day, &err), &err);
    assert_null(header(&r, "x-amz-security-token"));
    assert_non_null(strstr(header(&r, "authorization"), "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"));
  }
  /* The kept key is only for the secret, region, day and service that it was made for. */
  token = s3_credentials;
  token.secret = suite_credentials.secret;
  lki_request_header_drop(&r, "range");
  char lines[4][400];
  for (int i = 0; i < 2; i++) {
    lki_day_key *kept = i == 0 ? day : NULL;
    assert_ok(lki_sign_v4(&r, &lki_v4_aws, &token, "us-east-1", S3_TIME, false, kept, &err), &err);
    snprintf(lines[i], sizeof lines[i], "%s", header(&r, "authorization"));
    assert_ok(lki_sign_v4(&r, &lki_v4_aws, &token, "eu-west-1", S3_TIME, false, kept, &err), &err);
    snprintf(lines[i + 2], sizeof lines[i + 2], "%s", header(&r, "authorization"));
  }
  assert_string_equal(lines[0], lines[1]);
  assert_string_equal(lines[2], lines[3]);
  assert_string_not_equal(lines[0], lines[2]);
  lki_request_free(&r);
  lki_day_key_close(day);
}

/* cmocka's assertions are for the test's own thread only, so the threads count. */
typedef struct signer {
  lki_day_key *day;
  const char *want[2];
  int wrong_count;
} signer;

static void sign_many(void *arg) {
  signer *s = arg;
  for (int i = 0; i < 300; i++) { /* two days by turns: the threads replace each other's key all the time */
    lki_request r = s3_request("GET", "/test.txt");
    lki_request_header(&r, "range", "bytes=0-9");
    if (lki_sign_v4(&r, &lki_v4_aws, &s3_credentials, "us-east-1", S3_TIME + 86400 * (i % 2), false, s->day, NULL) != LAKE_OK ||
        strcmp(header(&r, "authorization"), s->want[i % 2]) != 0)
      s->wrong_count++;
    lki_request_free(&r);
  }
}

static void test_threads(void **state) {
  (void)state;
  lki_request r[2];
  lki_thread *threads[4];
  signer signers[4];
  lki_day_key *day = lki_day_key_open(env);
  assert_non_null(day);
  for (int i = 0; i < 2; i++) {
    r[i] = s3_request("GET", "/test.txt");
    lki_request_header(&r[i], "range", "bytes=0-9");
    assert_ok(lki_sign_v4(&r[i], &lki_v4_aws, &s3_credentials, "us-east-1", S3_TIME + 86400 * i, false, NULL, NULL), NULL);
  }
  for (int i = 0; i < 4; i++) {
    signers[i] = (signer){day, {header(&r[0], "authorization"), header(&r[1], "authorization")}, 0};
    threads[i] = lki_thread_start(env, "sign", sign_many, &signers[i]);
    assert_non_null(threads[i]);
  }
  for (int i = 0; i < 4; i++) {
    lki_thread_join(env, threads[i]);
    assert_int_equal(signers[i].wrong_count, 0);
  }
  lki_request_free(&r[0]);
  lki_request_free(&r[1]);
  lki_day_key_close(day);
}

static void test_refusals(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  lki_credentials none = {0};
  char long_region[300];
  memset(long_region, 'r', sizeof long_region);
  long_region[sizeof long_region - 1] = 0;
  lki_request r;
  lki_request_init(&r, env, "GET", "http://127.0.0.1:9000", "/");
  assert_status(lki_sign_v4(&r, &lki_v4_aws, &none, "us-east-1", S3_TIME, false, NULL, &err), LAKE_INVALID, &err);
  assert_status(lki_sign_v4(&r, &lki_v4_aws, &s3_credentials, "us-east-1", S3_TIME, true, NULL, &err), LAKE_INVALID, &err);
  assert_non_null(strstr(err.text, "https"));
  assert_status(lki_sign_v4(&r, &lki_v4_aws, &s3_credentials, long_region, S3_TIME, false, NULL, &err), LAKE_INVALID, &err);
  assert_status(lki_sign_v4(&r, &lki_v4_aws, &s3_credentials, "us-east-1", -1, false, NULL, &err), LAKE_INVALID, &err);
  assert_int_equal(r.header_count, 0); /* nothing changed */
  none.anonymous = true;
  assert_ok(lki_sign_v4(&r, &lki_v4_aws, &none, "us-east-1", S3_TIME, false, NULL, &err), &err);
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

/* Over https the hash of an object is spared; a list of what is to be done is small, and signed. */
static void test_payload_of_lists(void **state) {
  (void)state;
  static lki_cloud_store store;
  const lki_place place = {.origin = "https://s3.example.org", .base = "/b/", .region = "us-east-1"};
  const char *const methods[] = {"PUT", "POST"};
  lake_error err = LAKE_ERROR_INIT;
  for (int https = 0; https < 2; https++) {
    for (int i = 0; i < 2; i++) {
      lki_request request;
      lki_request_init(&request, env, methods[i], https ? place.origin : "http://s3.example.org", "/b/");
      request.body = (lake_bytes){"<Delete/>", 9};
      store.env = env;
      store.https = https;
      assert_ok(lki_dialect_s3.sign(&store, &place, &s3_credentials, S3_TIME, &request, &err), &err);
      const bool is_unsigned = strcmp(header(&request, "x-amz-content-sha256"), "UNSIGNED-PAYLOAD") == 0;
      assert_int_equal(is_unsigned, https && i == 0);
      lki_request_free(&request);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_suite),         cmocka_unit_test(test_suite_headers), cmocka_unit_test(test_suite_token),
      cmocka_unit_test(test_s3_documented), cmocka_unit_test(test_google),        cmocka_unit_test(test_odd_keys),
      cmocka_unit_test(test_sign_again),    cmocka_unit_test(test_threads),       cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_payload_of_lists),
  };
  return cmocka_run_group_tests(tests, open_env, close_env);
}
