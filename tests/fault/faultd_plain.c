/* The fault server without faults: its create-if-absent is exact under racing threads, and conditions, ranges, listings
 * and uploads are those of the dialect that it speaks. */
#include "support/faultd.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS "x-ms-version: 2021-12-02\r\n"
#define BLOCK_BLOB MS "x-ms-blob-type: BlockBlob\r\n"
#define ABSENT "If-None-Match: *\r\n"
#define GENERATION_0 "x-goog-if-generation-match: 0\r\n"
#define BODY "0123456789"

static int ask(faultd *f, const char *method, const char *target, const char *headers, const char *body) {
  faultd_answer a = faultd_ask(f, method, target, headers, body);
  const int status = a.status;
  assert_true(a.complete);
  faultd_answer_free(&a);
  return status;
}

static void expect(faultd *f, const char *target, const char *headers, int status, const char *body) {
  faultd_answer a = faultd_ask(f, "GET", target, headers, NULL);
  assert_int_equal(a.status, status);
  assert_true(a.complete);
  if (body != NULL) assert_string_equal(a.body, body);
  faultd_answer_free(&a);
}

static void expect_has(faultd *f, const char *method, const char *target, const char *headers, const char *body, int status,
                       const char *part) {
  faultd_answer a = faultd_ask(f, method, target, headers, body);
  assert_int_equal(a.status, status);
  if (strstr(a.body, part) == NULL && strstr(a.head, part) == NULL) print_error("no %s in %s%s\n", part, a.head, a.body);
  assert_true(strstr(a.body, part) != NULL || strstr(a.head, part) != NULL);
  faultd_answer_free(&a);
}

/* ---- races ---- */

#define RACERS 24
#define KEYS 40

typedef struct race {
  faultd *f;
  const char *method, *target, *headers;
  int written, taken;
  unsigned number;
  unsigned won[KEYS];
  pthread_barrier_t *start; /* of each key: all ask at once */
} race;

static void *run_racer(void *arg) {
  race *r = arg;
  for (unsigned i = 0; i < KEYS; i++) {
    char target[128], body[32];
    snprintf(target, sizeof target, "%s-%u", r->target, i);
    snprintf(body, sizeof body, "racer %u", r->number);
    pthread_barrier_wait(r->start);
    faultd_answer a = faultd_ask(r->f, r->method, target, r->headers, body);
    if (a.status == r->written) r->won[i] = 1;
    else if (a.status != r->taken) r->won[i] = 1000; /* asserted by whoever joins */
    faultd_answer_free(&a);
  }
  return NULL;
}

/* Exactly one of the racers is told that it created a key, and the key holds what that one wrote. */
static void race_on(faultd *f, const char *method, const char *target, const char *read_target, const char *headers,
                    int written, int taken) {
  pthread_t threads[RACERS];
  pthread_barrier_t start;
  assert_int_equal(pthread_barrier_init(&start, NULL, RACERS), 0);
  race racers[RACERS];
  for (unsigned i = 0; i < RACERS; i++) {
    racers[i] = (race){f, method, target, headers, written, taken, i, {0}, &start};
    assert_int_equal(pthread_create(&threads[i], NULL, run_racer, &racers[i]), 0);
  }
  for (unsigned i = 0; i < RACERS; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&start);
  for (unsigned key = 0; key < KEYS; key++) {
    unsigned winners = 0;
    char name[128], body[32];
    snprintf(name, sizeof name, "%s-%u", read_target, key);
    for (unsigned i = 0; i < RACERS; i++) {
      winners += racers[i].won[key];
      if (racers[i].won[key]) snprintf(body, sizeof body, "racer %u", i);
    }
    assert_int_equal(winners, 1);
    expect(f, name, MS, 200, body);
  }
}

static void one_winner(void **state) {
  (void)state;
  faultd *s3 = faultd_start("s3", NULL), *gcs = faultd_start("gcs", NULL), *azure = faultd_start("azure", NULL);
  race_on(s3, "PUT", "/b/race", "/b/race", ABSENT, 200, 412);
  race_on(gcs, "PUT", "/b/race", "/b/race", GENERATION_0, 200, 412);
  race_on(gcs, "POST", "/upload/storage/v1/b/b/o?uploadType=media&ifGenerationMatch=0&name=json", "/b/json", NULL, 200, 412);
  race_on(azure, "PUT", "/a/b/race", "/a/b/race", BLOCK_BLOB ABSENT, 201, 409);
  /* The check can fail: where the condition is ignored there are more winners, and they are counted. */
  faultd_rule(s3, "ignore-condition count=all");
  assert_int_equal(ask(s3, "PUT", "/b/race-0", ABSENT, "late"), 200);
  faultd_stop(s3);
  faultd_stop(gcs);
  faultd_stop(azure);
}

/* ---- dialects ---- */

static void s3_objects(void **state) {
  (void)state;
  faultd *f = faultd_start("s3", "--region", "eu-test-1", NULL);
  assert_int_equal(ask(f, "PUT", "/b/dir/k%3D%40%20%2B%25%C3%BC", NULL, BODY), 200);
  expect(f, "/b/dir/k=@%20+%25%c3%bc", NULL, 200, BODY); /* however it is escaped, it is one key */
  expect(f, "/b/k", NULL, 404, NULL);
  expect_has(f, "GET", "/b/k", NULL, NULL, 404, "<Code>NoSuchKey</Code>");
  expect_has(f, "GET", "/no-such-bucket/k", NULL, NULL, 404, "<Code>NoSuchBucket</Code>");
  assert_int_equal(ask(f, "PUT", "/b/k", ABSENT, BODY), 200);
  expect_has(f, "PUT", "/b/k", ABSENT, "other", 412, "<Code>PreconditionFailed</Code>");
  assert_int_equal(ask(f, "PUT", "/b/k", GENERATION_0, BODY), 200); /* not this dialect's condition */
  expect(f, "/b/k", "Range: bytes=2-4\r\n", 206, "234");
  expect(f, "/b/k", "Range: bytes=7-\r\n", 206, "789");
  expect(f, "/b/k", "Range: bytes=-3\r\n", 206, "789");
  expect(f, "/b/k", "Range: bytes=-30\r\n", 206, BODY);
  expect(f, "/b/k", "Range: bytes=8-30\r\n", 206, "89");
  expect(f, "/b/k", "Range: bytes=5-4\r\n", 200, BODY);
  expect(f, "/b/k", "Range: bytes=0-1,3-4\r\n", 200, BODY);
  expect_has(f, "GET", "/b/k", "Range: bytes=10-11\r\n", NULL, 416, "<Code>InvalidRange</Code>");
  expect_has(f, "GET", "/b/k", "Range: bytes=10-11\r\n", NULL, 416, "Content-Range: bytes */10\r\n");
  expect_has(f, "HEAD", "/b/k", NULL, NULL, 200, "Content-Length: 10\r\n");
  expect(f, "/b/k", "If-Match: \"781e5e245d69b566979b86e28d23f2c7\"\r\n", 200, BODY); /* the MD5 of the body */
  expect(f, "/b/k", "If-Match: \"881e5e245d69b566979b86e28d23f2c7\"\r\n", 412, NULL);
  expect(f, "/b/k", "If-None-Match: \"781e5e245d69b566979b86e28d23f2c7\"\r\n", 304, NULL);
  assert_int_equal(ask(f, "PUT", "/b/k", "Content-MD5: eB5eJF1ptWaXm4bijSPyxw==\r\n", BODY), 200);
  expect_has(f, "PUT", "/b/k", "Content-MD5: eB5eJF1ptWaXm4bijSPyxw==\r\n", "other", 400, "<Code>BadDigest</Code>");
  expect_has(f, "GET", "/b?versioning", NULL, NULL, 200, "<VersioningConfiguration xmlns");
  expect_has(f, "GET", "/b?location", NULL, NULL, 200, ">eu-test-1</LocationConstraint>");
  expect_has(f, "HEAD", "/b", NULL, NULL, 200, "x-amz-bucket-region: eu-test-1\r\n");
  assert_int_equal(ask(f, "DELETE", "/b/k", NULL, NULL), 204);
  assert_int_equal(ask(f, "DELETE", "/b/k", NULL, NULL), 204);
  assert_int_equal(ask(f, "PUT", "/b/empty", NULL, ""), 200);
  expect(f, "/b/empty", NULL, 200, "");
  expect(f, "/b/empty", "Range: bytes=0-0\r\n", 416, NULL);
  expect(f, "/b/empty", "Range: bytes=-1\r\n", 416, NULL);
  faultd_stop(f);
}

static void s3_listings(void **state) {
  (void)state;
  faultd *f = faultd_start("s3", "--page", "2", NULL);
  const char *const keys[] = {"p/b", "p/a", "p/c%20%26", "q/x", "p/d%C3%BC"};
  for (size_t i = 0; i < 5; i++) {
    char target[64];
    snprintf(target, sizeof target, "/b/%s", keys[i]);
    assert_int_equal(ask(f, "PUT", target, NULL, BODY), 200);
  }
  expect_has(f, "GET", "/b?list-type=2&prefix=p%2F", NULL, NULL, 200,
             "<KeyCount>2</KeyCount><MaxKeys>2</MaxKeys><IsTruncated>true</IsTruncated>"
             "<NextContinuationToken>702f62</NextContinuationToken><Contents><Key>p/a</Key>");
  expect_has(f, "GET", "/b?list-type=2&prefix=p%2F&continuation-token=702f62", NULL, NULL, 200, "<Contents><Key>p/c &amp;</Key>");
  expect_has(f, "GET", "/b?list-type=2&prefix=p%2F&start-after=p%2Fb&encoding-type=url", NULL, NULL, 200,
             "<IsTruncated>false</IsTruncated><Contents><Key>p/c%20%26</Key>");
  expect_has(f, "GET", "/b?list-type=2&prefix=p%2F&start-after=p%2Fb&encoding-type=url", NULL, NULL, 200, "<Key>p/d%C3%BC</Key>");
  expect_has(f, "GET", "/b?list-type=2&prefix=p%2F&max-keys=1", NULL, NULL, 200, "<KeyCount>1</KeyCount>");
  expect_has(f, "GET", "/b?list-type=2&prefix=z", NULL, NULL, 200, "<KeyCount>0</KeyCount>");
  expect_has(f, "GET", "/b?list-type=2&continuation-token=zz", NULL, NULL, 400, "InvalidArgument");
  const char *many = "<Delete><Object><Key>p/a</Key></Object><Object><Key>p/c &amp;</Key></Object><Object><Key>none</Key></Object></Delete>";
  expect_has(f, "POST", "/b?delete", NULL, many, 400, "InvalidRequest");
  expect_has(f, "POST", "/b?delete", "x-amz-checksum-crc32: AAAAAA==\r\n", many, 200, "<Deleted><Key>p/c &amp;</Key></Deleted>");
  const char *again = "<Delete><Quiet>true</Quiet><Object><Key>none</Key></Object></Delete>";
  expect_has(f, "POST", "/b?delete", "Content-MD5: AAAAAAAAAAAAAAAAAAAAAA==\r\n", again, 400, "BadDigest");
  expect_has(f, "POST", "/b?delete", "Content-MD5: EbEGci02/MgzJf5s2F+5Dg==\r\n", again, 200, "2006-03-01/\"></DeleteResult>");
  faultd_rule(f, "error-200 op=delete arg=SlowDown:on");
  expect_has(f, "POST", "/b?delete", "x-amz-checksum-crc32: AAAAAA==\r\n", again, 200, "<Error><Key>none</Key><Code>SlowDown</Code>");
  expect_has(f, "POST", "/b?delete", "x-amz-checksum-crc32: AAAAAA==\r\n", "<Delete></Delete>", 400, "MalformedXML");
  expect_has(f, "GET", "/b?list-type=2&prefix=p%2F", NULL, NULL, 200, "<Contents><Key>p/b</Key>");
  expect(f, "/b/p/a", NULL, 404, NULL);
  faultd_stop(f);
}

/* The upload id that begins a multipart upload of this target. */
static void begin_upload(faultd *f, const char *target, char id[64]) {
  char with_query[128];
  snprintf(with_query, sizeof with_query, "%s?uploads", target);
  faultd_answer a = faultd_ask(f, "POST", with_query, NULL, "");
  const char *at = strstr(a.body, "<UploadId>");
  assert_non_null(at);
  assert_int_equal(sscanf(at, "<UploadId>%63[^<]", id), 1);
  faultd_answer_free(&a);
}

static void s3_uploads(void **state) {
  const char *const dialects[] = {"s3", "gcs"};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    faultd *f = faultd_start(dialects[i], "--part-min", "5", NULL);
    char id[64], target[160], list[512], tag_1[64], tag_2[64];
    begin_upload(f, "/b/big", id);
    const char *const parts[] = {"first", "2nd"};
    char *const tags[] = {tag_1, tag_2};
    for (int n = 0; n < 2; n++) {
      snprintf(target, sizeof target, "/b/big?partNumber=%d&uploadId=%s", n + 1, id);
      faultd_answer a = faultd_ask(f, "PUT", target, NULL, parts[n]);
      assert_int_equal(a.status, 200);
      assert_true(faultd_answer_header(&a, "ETag", tags[n], 64));
      faultd_answer_free(&a);
    }
    expect(f, "/b/big", NULL, 404, NULL);
    expect_has(f, "GET", "/b?uploads&prefix=bi", NULL, NULL, 200, "<Upload><Key>big</Key><UploadId>");
    snprintf(target, sizeof target, "/b/big?uploadId=%s", id);
    const char *const form = "<CompleteMultipartUpload><Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>"
                             "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part></CompleteMultipartUpload>";
    snprintf(list, sizeof list, form, 1, tag_1, 2, "\"wrong\"");
    expect_has(f, "POST", target, NULL, list, 400, "<Code>InvalidPart</Code>");
    snprintf(list, sizeof list, form, 2, tag_2, 1, tag_1);
    expect_has(f, "POST", target, NULL, list, 400, "<Code>InvalidPartOrder</Code>");
    snprintf(list, sizeof list, form, 1, tag_1, 2, tag_2);
    expect_has(f, "POST", target, NULL, list, 200, "<CompleteMultipartUploadResult");
    expect(f, "/b/big", NULL, 200, "first2nd");
    expect_has(f, "POST", target, NULL, list, 404, "<Code>NoSuchUpload</Code>");
    begin_upload(f, "/b/big", id);
    snprintf(target, sizeof target, "/b/big?partNumber=1&uploadId=%s", id);
    assert_int_equal(ask(f, "PUT", target, NULL, "first"), 200);
    snprintf(target, sizeof target, "/b/big?uploadId=%s", id);
    snprintf(list, sizeof list, "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part></CompleteMultipartUpload>", tag_1);
    if (i == 0) expect_has(f, "POST", target, ABSENT, list, 412, "<Code>PreconditionFailed</Code>");
    assert_int_equal(ask(f, "DELETE", target, NULL, NULL), 204);
    assert_int_equal(ask(f, "DELETE", target, NULL, NULL), 404);
    faultd_stop(f);
  }
}

static void gcs_objects(void **state) {
  (void)state;
  faultd *f = faultd_start("gcs", NULL);
  assert_int_equal(ask(f, "PUT", "/b/k", GENERATION_0, BODY), 200);
  expect_has(f, "PUT", "/b/k", GENERATION_0, "other", 412, "<Code>PreconditionFailed</Code>");
  expect(f, "/b/k", NULL, 200, BODY);
  assert_int_equal(ask(f, "PUT", "/b/k", ABSENT, "other"), 200); /* ignored here */
  expect(f, "/b/k", "Range: bytes=-2\r\n", 206, "er");
  expect_has(f, "HEAD", "/b/k", NULL, NULL, 200, "x-goog-generation: ");
  expect_has(f, "PUT", "/b/k", GENERATION_0 "x-amz-date: 20260101T000000Z\r\n", BODY, 400, "<Code>ExcessHeaderValues</Code>");
  assert_int_equal(ask(f, "DELETE", "/b/k", NULL, NULL), 204);
  assert_int_equal(ask(f, "DELETE", "/b/k", NULL, NULL), 404);
  faultd_stop(f);
}

#define UPLOAD "/upload/storage/v1/b/b/o?uploadType="
#define OBJECT "/storage/v1/b/b/o"

/* The same objects by the JSON API. */
static void gcs_json(void **state) {
  (void)state;
  faultd *f = faultd_start("gcs", "--page", "2", NULL);
  const char *related = "--X\r\nContent-Type: application/json\r\n\r\n{}\r\n--X\r\nContent-Type: application/octet-stream\r\n\r\n"
                        BODY "\r\n--X--\r\n";
  const char *empty = "--X\r\nContent-Type: application/json\r\n\r\n{}\r\n--X\r\nContent-Type: a/b\r\n\r\n\r\n--X--\r\n";
  const char *type = "Content-Type: multipart/related; boundary=X\r\n";
  expect_has(f, "POST", UPLOAD "multipart&name=d%2Fk%2B&ifGenerationMatch=0", type, related, 200, "\"size\":\"10\"");
  expect_has(f, "POST", UPLOAD "multipart&name=d%2Fk%2B&ifGenerationMatch=0", type, related, 412, "\"reason\":\"conditionNotMet\"");
  expect_has(f, "POST", UPLOAD "multipart&name=empty&ifGenerationMatch=0", type, empty, 200, "\"size\":\"0\"");
  expect_has(f, "POST", UPLOAD "multipart&name=x", type, BODY, 400, "\"reason\":\"invalid\"");
  expect(f, "/b/d/k+", NULL, 200, BODY);
  expect(f, OBJECT "/d%2Fk%2B?alt=media", NULL, 200, BODY);
  expect(f, OBJECT "/d%2Fk%2B?alt=media", "Range: bytes=-3\r\n", 206, "789");
  expect(f, OBJECT "/d%2Fk%2B?alt=media", "Range: bytes=10-\r\n", 416, NULL);
  expect_has(f, "GET", OBJECT "/d%2Fk%2B", NULL, NULL, 200, "\"name\":\"d/k+\",\"size\":\"10\"");
  expect_has(f, "GET", OBJECT "/none?alt=media", NULL, NULL, 404, "\"reason\":\"notFound\"");
  assert_int_equal(ask(f, "POST", UPLOAD "media&name=z", NULL, BODY), 200);
  expect_has(f, "GET", OBJECT, NULL, NULL, 200, "\"nextPageToken\":\"656d707479\"");
  expect_has(f, "GET", OBJECT "?pageToken=656d707479", NULL, NULL, 200, "\"items\":[{\"kind\":\"storage#object\",\"name\":\"z\"");
  expect_has(f, "GET", OBJECT "?prefix=d%2F", NULL, NULL, 200, "\"items\":[{\"kind\":\"storage#object\",\"name\":\"d/k+\"");
  expect_has(f, "GET", OBJECT "?startOffset=empty", NULL, NULL, 200, "\"items\":[{\"kind\":\"storage#object\",\"name\":\"empty\"");
  expect_has(f, "GET", "/storage/v1/b/b", NULL, NULL, 200, "\"versioning\":{\"enabled\":false}");
  assert_int_equal(ask(f, "DELETE", OBJECT "/z", NULL, NULL), 204);
  assert_int_equal(ask(f, "DELETE", OBJECT "/z", NULL, NULL), 404);
  faultd_stop(f);
}

static void azure_blobs(void **state) {
  (void)state;
  faultd *f = faultd_start("azure", "--page", "2", NULL);
  expect_has(f, "PUT", "/a/c/k", MS, BODY, 400, "MissingRequiredHeader");
  expect_has(f, "GET", "/a/c/k", NULL, NULL, 400, "MissingRequiredHeader");
  expect_has(f, "GET", "/a/c/k", MS, NULL, 404, "x-ms-error-code: BlobNotFound\r\n");
  assert_int_equal(ask(f, "PUT", "/a/c/k", BLOCK_BLOB ABSENT, BODY), 201);
  expect_has(f, "PUT", "/a/c/k", BLOCK_BLOB ABSENT, "other", 409, "<Code>BlobAlreadyExists</Code>");
  assert_int_equal(ask(f, "PUT", "/a/c/k", BLOCK_BLOB, BODY), 201);
  expect(f, "/a/c/k", MS "x-ms-range: bytes=2-4\r\n", 206, "234");
  expect(f, "/a/c/k", MS "Range: bytes=2-4\r\n", 206, "234");
  expect(f, "/a/c/k", MS "Range: bytes=-3\r\n", 200, BODY);
  expect(f, "/a/c/k", MS "x-ms-range: bytes=-3\r\n", 400, NULL);
  expect_has(f, "GET", "/a/c/k", MS "x-ms-range: bytes=10-11\r\n", NULL, 416, "InvalidRange");
  expect_has(f, "HEAD", "/a/c/k", MS, NULL, 200, "Content-Length: 10\r\n");
  expect(f, "/a/c/k", MS "If-Match: \"0x1\"\r\n", 412, NULL);
  assert_int_equal(ask(f, "PUT", "/a/c/big?comp=block&blockid=QUFB", BLOCK_BLOB, "first"), 201);
  assert_int_equal(ask(f, "PUT", "/a/c/big?comp=block&blockid=QUFC", BLOCK_BLOB, "2nd"), 201);
  assert_int_equal(ask(f, "PUT", "/a/c/big?comp=block&blockid=!", BLOCK_BLOB, "2nd"), 400);
  expect(f, "/a/c/big", MS, 404, NULL);
  expect_has(f, "PUT", "/a/c/big?comp=blocklist", MS, "<BlockList><Latest>QUFD</Latest></BlockList>", 400, "InvalidBlockList");
  const char *list = "<?xml version=\"1.0\"?><BlockList><Latest>QUFC</Latest><Latest>QUFB</Latest></BlockList>";
  assert_int_equal(ask(f, "PUT", "/a/c/big?comp=blocklist", MS ABSENT, list), 201);
  expect(f, "/a/c/big", MS, 200, "2ndfirst");
  expect_has(f, "PUT", "/a/c/big?comp=blocklist", MS ABSENT, list, 409, "BlobAlreadyExists");
  assert_int_equal(ask(f, "PUT", "/a/c/z", BLOCK_BLOB, BODY), 201);
  expect_has(f, "GET", "/a/c?restype=container&comp=list", MS, NULL, 200, "<NextMarker>6b</NextMarker>");
  expect_has(f, "GET", "/a/c?restype=container&comp=list&marker=6b", MS, NULL, 200, "<Blobs><Blob><Name>z</Name>");
  expect_has(f, "GET", "/a/c?restype=container&comp=list&prefix=b", MS, NULL, 200, "<Content-Length>8</Content-Length>");
  expect_has(f, "GET", "/a/c?restype=container&comp=list&startFrom=k", MS, NULL, 200, "<Blobs><Blob><Name>k</Name>");
  assert_int_equal(ask(f, "DELETE", "/a/c/k", MS, NULL), 202);
  expect_has(f, "DELETE", "/a/c/k", MS, NULL, 404, "BlobNotFound");
  faultd_stop(f);
}

/* ---- who asks ---- */

static void strangers_are_refused(void **state) {
  (void)state;
  faultd *f = faultd_start("s3", "--auth", "KEY", "not-a-secret", "--token", "TOKEN", NULL);
  expect_has(f, "GET", "/b/k", NULL, NULL, 403, "<Code>AccessDenied</Code>");
  expect_has(f, "GET", "/b/k", "Authorization: AWS4-HMAC-SHA256 Credential=KEY/20260101/r/s3/aws4_request, "
             "SignedHeaders=host, Signature=00\r\n", NULL, 403, "<Code>SignatureDoesNotMatch</Code>");
  expect_has(f, "GET", "/b/k", "Authorization: Bearer OTHER\r\n", NULL, 400, "<Code>ExpiredToken</Code>");
  assert_int_equal(ask(f, "GET", "/b/k", "Authorization: Bearer TOKEN\r\n", NULL), 404);
  assert_int_equal(ask(f, "GET", "/b/k?X-Amz-Signature=abc&x=1", "x-amz-security-token: TOKEN\r\n", NULL), 403);
  char *log = faultd_log(f);
  assert_non_null(strstr(log, "\"authorization\":\"present\""));
  assert_non_null(strstr(log, "X-Amz-Signature=***&x=1"));
  assert_null(strstr(log, "TOKEN"));
  assert_null(strstr(log, "OTHER"));
  assert_null(strstr(log, "abc"));
  free(log);
  faultd_stop(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_winner), cmocka_unit_test(s3_objects),  cmocka_unit_test(s3_listings), cmocka_unit_test(s3_uploads),
      cmocka_unit_test(gcs_objects), cmocka_unit_test(gcs_json), cmocka_unit_test(azure_blobs), cmocka_unit_test(strangers_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
