/* The truth table of replies: what each status line means to each kind of request, in each dialect. */
#include "base/error.h"
#include "store/cloud.h"
#include "support/support.h"
#include <string.h>

#define S3 (&lki_dialect_s3)
#define GX (&lki_dialect_gcs_xml)
#define GJ (&lki_dialect_gcs_json)
#define AZ (&lki_dialect_azure)

typedef struct row {
  const lki_dialect *dialect;
  lki_verb verb;
  int status;
  const char *code;
  lake_status want;
  unsigned mend;
} row;

#define CRED LKI_MEND_CREDENTIALS
#define SKEW LKI_MEND_SKEW
#define REGION LKI_MEND_REGION

static const row rows[] = {
    /* a create */
    {S3, LKI_VERB_CREATE, 200, "", LAKE_OK, 0},
    {AZ, LKI_VERB_CREATE, 201, "", LAKE_OK, 0},
    {S3, LKI_VERB_CREATE, 200, "InternalError", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_CREATE, 204, "", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_CREATE, 412, "PreconditionFailed", LAKE_EXISTS, 0},
    {S3, LKI_VERB_CREATE, 304, "", LAKE_EXISTS, 0},
    {GX, LKI_VERB_CREATE, 412, "PreconditionFailed", LAKE_EXISTS, 0},
    {GJ, LKI_VERB_CREATE, 412, "conditionNotMet", LAKE_EXISTS, 0},
    {AZ, LKI_VERB_CREATE, 412, "ConditionNotMet", LAKE_EXISTS, 0},
    {S3, LKI_VERB_CREATE, 409, "ConditionalRequestConflict", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_CREATE, 409, "ConcurrentModification", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_CREATE, 409, "BlobAlreadyExists", LAKE_UNCERTAIN, 0}, /* not S3's way to say it */
    {AZ, LKI_VERB_CREATE, 409, "BlobAlreadyExists", LAKE_EXISTS, 0},
    {AZ, LKI_VERB_CREATE, 409, "BlobBeingRehydrated", LAKE_UNCERTAIN, 0},
    {AZ, LKI_VERB_CREATE, 409, "", LAKE_UNCERTAIN, 0},
    {GX, LKI_VERB_CREATE, 429, "SlowDown", LAKE_UNAVAILABLE, 0},
    {S3, LKI_VERB_CREATE, 503, "SlowDown", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_CREATE, 500, "InternalError", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_CREATE, 502, "", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_CREATE, 408, "", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_CREATE, 501, "NotImplemented", LAKE_UNSUPPORTED, 0},
    {S3, LKI_VERB_CREATE, 404, "NoSuchBucket", LAKE_INVALID, 0},
    {S3, LKI_VERB_CREATE, 404, "", LAKE_INVALID, 0},
    {S3, LKI_VERB_CREATE, 404, "NoSuchKey", LAKE_UNCERTAIN, 0},
    {AZ, LKI_VERB_CREATE, 404, "ContainerNotFound", LAKE_INVALID, 0},
    {S3, LKI_VERB_CREATE, 403, "AccessDenied", LAKE_DENIED, SKEW},
    {S3, LKI_VERB_CREATE, 403, "RequestTimeTooSkewed", LAKE_DENIED, SKEW},
    {S3, LKI_VERB_CREATE, 400, "ExpiredToken", LAKE_DENIED, CRED},
    {AZ, LKI_VERB_CREATE, 401, "InvalidAuthenticationInfo", LAKE_DENIED, CRED},
    {GJ, LKI_VERB_CREATE, 401, "authError", LAKE_DENIED, CRED},
    {S3, LKI_VERB_CREATE, 301, "PermanentRedirect", LAKE_INVALID, REGION},
    {S3, LKI_VERB_CREATE, 307, "TemporaryRedirect", LAKE_UNAVAILABLE, REGION},
    {S3, LKI_VERB_CREATE, 400, "AuthorizationHeaderMalformed", LAKE_INVALID, REGION},
    {AZ, LKI_VERB_CREATE, 301, "", LAKE_INVALID, 0},
    {S3, LKI_VERB_CREATE, 400, "BadDigest", LAKE_UNAVAILABLE, 0},
    {S3, LKI_VERB_CREATE, 400, "XAmzContentSHA256Mismatch", LAKE_UNAVAILABLE, 0},
    {S3, LKI_VERB_CREATE, 400, "InvalidArgument", LAKE_INVALID, 0},
    {S3, LKI_VERB_CREATE, 413, "EntityTooLarge", LAKE_INVALID, 0},
    /* a put */
    {S3, LKI_VERB_PUT, 200, "", LAKE_OK, 0},
    {S3, LKI_VERB_PUT, 200, "InternalError", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_PUT, 503, "", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_PUT, 409, "OperationAborted", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_PUT, 429, "", LAKE_UNAVAILABLE, 0},
    {S3, LKI_VERB_UPLOAD_COMPLETE, 200, "InternalError", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_UPLOAD_COMPLETE, 404, "NoSuchUpload", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_UPLOAD_COMPLETE, 400, "InvalidPart", LAKE_UNAVAILABLE, 0},
    {AZ, LKI_VERB_UPLOAD_COMPLETE, 400, "InvalidBlockList", LAKE_UNAVAILABLE, 0},
    {S3, LKI_VERB_UPLOAD_ABORT, 404, "NoSuchUpload", LAKE_OK, 0},
    /* reads */
    {S3, LKI_VERB_GET, 206, "", LAKE_OK, 0},
    {S3, LKI_VERB_GET, 200, "", LAKE_UNAVAILABLE, 0}, /* the whole object for a range */
    {S3, LKI_VERB_GET, 404, "NoSuchKey", LAKE_NOTFOUND, 0},
    {S3, LKI_VERB_GET, 404, "NoSuchBucket", LAKE_INVALID, 0},
    {AZ, LKI_VERB_GET, 404, "ContainerNotFound", LAKE_INVALID, 0},
    {GJ, LKI_VERB_GET, 404, "", LAKE_NOTFOUND, 0},
    {S3, LKI_VERB_GET, 412, "PreconditionFailed", LAKE_UNAVAILABLE, 0},
    {S3, LKI_VERB_GET, 416, "InvalidRange", LAKE_CORRUPT, 0},
    {S3, LKI_VERB_GET, 500, "", LAKE_UNAVAILABLE, 0},
    {S3, LKI_VERB_GET, 503, "SlowDown", LAKE_UNAVAILABLE, 0},
    {S3, LKI_VERB_GET, 403, "InvalidAccessKeyId", LAKE_DENIED, SKEW | CRED},
    {S3, LKI_VERB_HEAD, 404, "", LAKE_NOTFOUND, 0},
    {S3, LKI_VERB_HEAD, 200, "", LAKE_OK, 0},
    {S3, LKI_VERB_REMOVE, 204, "", LAKE_OK, 0},
    {GJ, LKI_VERB_REMOVE, 200, "", LAKE_OK, 0},
    {AZ, LKI_VERB_REMOVE, 202, "", LAKE_OK, 0},
    {S3, LKI_VERB_REMOVE, 404, "NoSuchKey", LAKE_OK, 0},
    {S3, LKI_VERB_REMOVE, 404, "NoSuchBucket", LAKE_INVALID, 0},
    {S3, LKI_VERB_REMOVE, 503, "", LAKE_UNCERTAIN, 0},
    /* many removed with one request: what does not know it, or wants it otherwise, is asked one by one */
    {S3, LKI_VERB_REMOVE_MANY, 200, "", LAKE_OK, 0},
    {S3, LKI_VERB_REMOVE_MANY, 204, "", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_REMOVE_MANY, 200, "InternalError", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_REMOVE_MANY, 500, "InternalError", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_REMOVE_MANY, 503, "SlowDown", LAKE_UNCERTAIN, 0},
    {S3, LKI_VERB_REMOVE_MANY, 429, "", LAKE_UNAVAILABLE, 0},
    {S3, LKI_VERB_REMOVE_MANY, 501, "NotImplemented", LAKE_UNSUPPORTED, 0},
    {S3, LKI_VERB_REMOVE_MANY, 405, "MethodNotAllowed", LAKE_UNSUPPORTED, 0},
    {S3, LKI_VERB_REMOVE_MANY, 400, "InvalidArgument", LAKE_UNSUPPORTED, 0}, /* Google's */
    {S3, LKI_VERB_REMOVE_MANY, 400, "NotImplemented", LAKE_UNSUPPORTED, 0},
    {S3, LKI_VERB_REMOVE_MANY, 400, "MalformedXML", LAKE_UNSUPPORTED, 0},
    {S3, LKI_VERB_REMOVE_MANY, 404, "", LAKE_UNSUPPORTED, 0},
    {S3, LKI_VERB_REMOVE_MANY, 404, "NoSuchBucket", LAKE_INVALID, 0},
    {S3, LKI_VERB_REMOVE_MANY, 400, "BadDigest", LAKE_UNAVAILABLE, 0},
    {S3, LKI_VERB_REMOVE_MANY, 400, "ExpiredToken", LAKE_DENIED, CRED},
    {S3, LKI_VERB_REMOVE_MANY, 403, "AccessDenied", LAKE_DENIED, SKEW},
    {S3, LKI_VERB_REMOVE_MANY, 301, "PermanentRedirect", LAKE_INVALID, REGION},
    {S3, LKI_VERB_REMOVE_MANY, 400, "AuthorizationHeaderMalformed", LAKE_INVALID, REGION},
    {S3, LKI_VERB_LIST, 404, "NoSuchBucket", LAKE_INVALID, 0},
    {S3, LKI_VERB_LIST, 503, "", LAKE_UNAVAILABLE, 0},
};

static lki_ask ask_of(const lki_dialect *dialect, lki_verb verb) {
  const bool named = verb != LKI_VERB_LIST && verb != LKI_VERB_REMOVE_MANY;
  lki_ask ask = {.dialect = dialect, .verb = verb, .name = named ? "x/k" : ""};
  if (verb == LKI_VERB_GET) ask.range = lki_range_exact(10, 20);
  return ask;
}

static void test_replies(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const row *r = &rows[i];
    const lki_ask ask = ask_of(r->dialect, r->verb);
    lki_http_reply reply = {.status = r->status, .sent = true};
    lki_fault fault = {0};
    lake_error err = LAKE_ERROR_INIT;
    strncpy(fault.code, r->code, sizeof fault.code - 1);
    const lki_verdict v = lki_verdict_of(&ask, "bucket", LAKE_OK, &reply, &fault, &err);
    if (v.status != r->want || v.mend != r->mend)
      fail_msg("row %zu (verb %d, %d %s): %s mend %u, expected %s mend %u: %s", i, (int)r->verb, r->status, r->code,
               lake_status_name(v.status), v.mend, lake_status_name(r->want), r->mend, err.text);
    if (v.status != LAKE_OK) {
      assert_int_equal(err.status, v.status);
      assert_true(err.text[0] != 0);
    }
  }
}

typedef struct silence {
  lki_verb verb;
  lake_status sent_status;
  bool sent;
  lake_status want;
} silence;

/* No reply, or a broken one: what may have been carried out is UNCERTAIN, all else is what the engine said. */
static const silence silences[] = {
    {LKI_VERB_CREATE, LAKE_UNAVAILABLE, true, LAKE_UNCERTAIN}, {LKI_VERB_CREATE, LAKE_UNAVAILABLE, false, LAKE_UNAVAILABLE},
    {LKI_VERB_CREATE, LAKE_TIMEOUT, true, LAKE_UNCERTAIN},     {LKI_VERB_CREATE, LAKE_TIMEOUT, false, LAKE_TIMEOUT},
    {LKI_VERB_CREATE, LAKE_NOMEM, true, LAKE_UNCERTAIN},       {LKI_VERB_CREATE, LAKE_NOMEM, false, LAKE_NOMEM},
    {LKI_VERB_CREATE, LAKE_DENIED, false, LAKE_DENIED},        {LKI_VERB_PUT, LAKE_UNAVAILABLE, true, LAKE_UNCERTAIN},
    {LKI_VERB_PUT, LAKE_TIMEOUT, true, LAKE_TIMEOUT},          {LKI_VERB_REMOVE, LAKE_UNAVAILABLE, true, LAKE_UNCERTAIN},
    {LKI_VERB_REMOVE_MANY, LAKE_UNAVAILABLE, true, LAKE_UNCERTAIN}, {LKI_VERB_REMOVE_MANY, LAKE_TIMEOUT, true, LAKE_TIMEOUT},
    {LKI_VERB_GET, LAKE_UNAVAILABLE, true, LAKE_UNAVAILABLE},  {LKI_VERB_GET, LAKE_TIMEOUT, true, LAKE_TIMEOUT},
    {LKI_VERB_LIST, LAKE_UNAVAILABLE, true, LAKE_UNAVAILABLE}, {LKI_VERB_GET, LAKE_CORRUPT, true, LAKE_CORRUPT},
};

static void test_silence(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof silences / sizeof silences[0]; i++) {
    const silence *q = &silences[i];
    const lki_ask ask = ask_of(S3, q->verb);
    for (int status = 0; status <= 206; status += 206) { /* nothing came, or a head whose body broke off */
      lki_http_reply reply = {.status = status, .sent = q->sent};
      lki_fault fault = {0};
      lake_error err = LAKE_ERROR_INIT;
      lki_fail(&err, q->sent_status, "what the engine said");
      const lki_verdict v = lki_verdict_of(&ask, "bucket", q->sent_status, &reply, &fault, &err);
      if (v.status != q->want) fail_msg("row %zu: %s", i, lake_status_name(v.status));
      assert_int_equal(v.mend, 0);
      assert_int_equal(err.status, q->want);
      assert_non_null(strstr(err.text, "what the engine said"));
    }
  }
}

/* A refusal that broke off before it said which one it is: it may have been any, also one that a retry mends. */
static void test_cut(void **state) {
  (void)state;
  static const struct {
    lki_verb verb;
    int status;
    const char *code;
    lake_status want;
  } cuts[] = {
      {LKI_VERB_CREATE, 400, "", LAKE_UNCERTAIN},   {LKI_VERB_CREATE, 400, "ExpiredToken", LAKE_DENIED},
      {LKI_VERB_CREATE, 403, "", LAKE_UNCERTAIN},   {LKI_VERB_CREATE, 404, "", LAKE_UNCERTAIN},
      {LKI_VERB_CREATE, 409, "", LAKE_UNCERTAIN},   {LKI_VERB_CREATE, 412, "", LAKE_EXISTS},
      {LKI_VERB_CREATE, 304, "", LAKE_EXISTS},      {LKI_VERB_CREATE, 429, "", LAKE_UNAVAILABLE},
      {LKI_VERB_CREATE, 503, "", LAKE_UNCERTAIN},   {LKI_VERB_GET, 404, "", LAKE_UNAVAILABLE},
      {LKI_VERB_GET, 404, "NoSuchKey", LAKE_NOTFOUND}, {LKI_VERB_GET, 416, "", LAKE_CORRUPT},
      {LKI_VERB_REMOVE, 404, "", LAKE_UNCERTAIN},
  };
  for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
    const lki_ask ask = ask_of(S3, cuts[i].verb);
    lki_http_reply reply = {.status = cuts[i].status, .sent = true};
    lki_fault fault = {0};
    lake_error err = LAKE_ERROR_INIT;
    strncpy(fault.code, cuts[i].code, sizeof fault.code - 1);
    lki_fail(&err, LAKE_UNAVAILABLE, "what the engine said");
    const lki_verdict v = lki_verdict_of(&ask, "bucket", LAKE_UNAVAILABLE, &reply, &fault, &err);
    if (v.status != cuts[i].want) fail_msg("row %zu: %s", i, lake_status_name(v.status));
    assert_int_equal(err.status, cuts[i].want);
  }
}

/* A range that goes beyond the object is answered with what there is. */
static void test_shorter(void **state) {
  (void)state;
  const lki_ask ask = ask_of(S3, LKI_VERB_GET); /* 20 bytes from 10 */
  lki_http_reply reply = {.status = 206, .sent = true, .has_range = true, .range_first = 10, .range_last = 24, .range_total = 25};
  lki_fault fault = {0};
  lake_error err = LAKE_ERROR_INIT;
  assert_int_equal(lki_verdict_of(&ask, "b", LAKE_UNAVAILABLE, &reply, &fault, &err).status, LAKE_CORRUPT);
  assert_string_equal(err.text, "the object is shorter: it has 25 bytes, 20 from 10 were asked");
  reply.range_total = 30; /* long enough: then the reply was wrong */
  assert_int_equal(lki_verdict_of(&ask, "b", LAKE_UNAVAILABLE, &reply, &fault, &err).status, LAKE_UNAVAILABLE);
  reply.range_total = UINT64_MAX;
  assert_int_equal(lki_verdict_of(&ask, "b", LAKE_UNAVAILABLE, &reply, &fault, &err).status, LAKE_UNAVAILABLE);
}

static void test_text(void **state) {
  (void)state;
  const lki_ask ask = ask_of(S3, LKI_VERB_GET);
  lki_http_reply reply = {.status = 503, .sent = true, .request_id = "tx0001"};
  lki_fault fault = {.code = "SlowDown", .message = "Please reduce your request rate."};
  lake_error err = LAKE_ERROR_INIT;
  lki_verdict_of(&ask, "b", LAKE_OK, &reply, &fault, &err);
  assert_string_equal(err.text, "HTTP 503 SlowDown: Please reduce your request rate. (request tx0001)");
}

/* ---- another region ---- */

static void moves(const char *origin, const char *from, const char *to, const char *want) {
  lki_place place = {.base = "/"};
  strncpy(place.origin, origin, sizeof place.origin - 1);
  strncpy(place.region, from, sizeof place.region - 1);
  lki_place_move(&place, to);
  assert_string_equal(place.origin, want);
  assert_string_equal(place.region, to);
}

static void test_regions(void **state) {
  (void)state;
  moves("https://b.s3.us-east-1.amazonaws.com", "us-east-1", "eu-west-1", "https://b.s3.eu-west-1.amazonaws.com");
  moves("https://s3.us-east-1.amazonaws.com", "us-east-1", "eu-west-1", "https://s3.eu-west-1.amazonaws.com");
  moves("https://b.s3.amazonaws.com", "us-east-1", "eu-west-1", "https://b.s3.eu-west-1.amazonaws.com");
  moves("https://b.s3.dualstack.us-east-1.amazonaws.com", "us-east-1", "a-1", "https://b.s3.dualstack.a-1.amazonaws.com");
  moves("https://s3-fips.us-east-1.amazonaws.com", "us-east-1", "a-1", "https://s3-fips.a-1.amazonaws.com");
  moves("https://s3.cn-north-1.amazonaws.com.cn", "cn-north-1", "cn-west-1", "https://s3.cn-west-1.amazonaws.com.cn");
  moves("https://ceph.site:8443", "us-east-1", "site", "https://ceph.site:8443"); /* never another host */
}

/* A server may name its region in every reply: that is no region that is wrong. */
static void test_region_named(void **state) {
  (void)state;
  const lki_ask ask = ask_of(S3, LKI_VERB_REMOVE_MANY);
  const lki_fault fault = {0};
  lake_error err = LAKE_ERROR_INIT;
  lki_http_reply reply = {.status = 405, .sent = true};
  strncpy(reply.region, "us-east-1", sizeof reply.region - 1);
  assert_status(lki_verdict_of(&ask, "bucket", LAKE_OK, &reply, &fault, &err).status, LAKE_UNSUPPORTED, &err);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_replies), cmocka_unit_test(test_silence), cmocka_unit_test(test_cut),
                                     cmocka_unit_test(test_shorter), cmocka_unit_test(test_text),
                                     cmocka_unit_test(test_regions), cmocka_unit_test(test_region_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
