/* The fault server itself: each of its 27 faults fires on each dialect where it makes sense and does what it says, seen
 * over plain sockets. What the library makes of them is in cloud_faults.c. */
#include "support/faultd.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef enum kind { S3, GCS, GCS_JSON, AZURE } kind;
#define LABS 4

typedef struct lab {
  faultd *f;
  kind dialect;
  int written, taken, deleted; /* statuses */
  const char *create;          /* headers */
} lab;

#define BODY "0123456789abcdefghijklmnopqrstuvwxyz"
#define MS "x-ms-version: 2021-12-02\r\nx-ms-blob-type: BlockBlob\r\n"

static lab all_labs[LABS];

/* Where and how a key is asked for; in the JSON API of GCS by other methods and names than elsewhere. */
typedef struct way {
  const char *method;
  char target[256], headers[512];
} way;

static way way_to(const lab *l, const char *method, const char *key, const char *headers) {
  way w = {.method = method};
  const bool put = strcmp(method, "PUT") == 0, create = headers != NULL && headers == l->create;
  if (l->dialect == GCS_JSON && put) {
    w.method = "POST";
    snprintf(w.target, sizeof w.target, "/upload/storage/v1/b/b/o?uploadType=media&name=%s%s", key, create ? headers : "");
    headers = NULL;
  } else if (l->dialect == GCS_JSON) {
    if (strcmp(method, "HEAD") == 0) w.method = "GET";
    snprintf(w.target, sizeof w.target, "/storage/v1/b/b/o/%s%s", key, strcmp(method, "GET") == 0 ? "?alt=media" : "");
  } else {
    snprintf(w.target, sizeof w.target, "%s/b/%s", l->dialect == AZURE ? "/account" : "", key);
  }
  snprintf(w.headers, sizeof w.headers, "%s%s", l->dialect == AZURE ? MS : "", headers != NULL ? headers : "");
  return w;
}

static faultd_answer ask(const lab *l, const char *method, const char *key, const char *headers, const char *body) {
  const way w = way_to(l, method, key, headers);
  return faultd_ask(l->f, w.method, w.target, w.headers, body);
}

static int begin_get(const lab *l, const char *key) {
  const way w = way_to(l, "GET", key, NULL);
  return faultd_send(l->f, w.method, w.target, w.headers, NULL);
}

static int status_of(const lab *l, const char *method, const char *key, const char *headers, const char *body) {
  faultd_answer a = ask(l, method, key, headers, body);
  const int status = a.status;
  faultd_answer_free(&a);
  return status;
}

static int create(const lab *l, const char *key, const char *body) { return status_of(l, "PUT", key, l->create, body); }
static int put(const lab *l, const char *key, const char *body) { return status_of(l, "PUT", key, NULL, body); }
static int get(const lab *l, const char *key) { return status_of(l, "GET", key, NULL, NULL); }

/* The object is this, whole and undisturbed; NULL: there is none. */
static void expect_object(const lab *l, const char *key, const char *body) {
  faultd_answer a = ask(l, "GET", key, NULL, NULL);
  assert_int_equal(a.status, body != NULL ? 200 : 404);
  assert_true(a.complete);
  if (body != NULL) assert_string_equal(a.body, body);
  faultd_answer_free(&a);
}

static bool listed(const lab *l, const char *key) {
  const char *const targets[] = {"/b?list-type=2", "/b?list-type=2", "/storage/v1/b/b/o", "/account/b?restype=container&comp=list"};
  const char *const forms[] = {"<Key>%s</Key>", "<Key>%s</Key>", "\"name\":\"%s\"", "<Name>%s</Name>"};
  const char *target = targets[l->dialect];
  char element[128];
  snprintf(element, sizeof element, forms[l->dialect], key);
  faultd_answer a = faultd_ask(l->f, "GET", target, l->dialect == AZURE ? MS : NULL, NULL);
  assert_int_equal(a.status, 200);
  const bool found = strstr(a.body, element) != NULL;
  faultd_answer_free(&a);
  return found;
}

/* The answer is this status and, where code is given, this error in the dialect's form. */
static void expect_error(const lab *l, faultd_answer a, int status, const char *code) {
  char element[128], header[64];
  assert_int_equal(a.status, status);
  assert_true(a.complete);
  snprintf(element, sizeof element, l->dialect == GCS_JSON ? "\"reason\":\"%s\"" : "<Error><Code>%s</Code>", code);
  assert_non_null(strstr(a.body, element));
  if (l->dialect == AZURE) {
    assert_true(faultd_answer_header(&a, "x-ms-error-code", header, sizeof header));
    assert_string_equal(header, code);
  }
  faultd_answer_free(&a);
}

static const char *by_dialect(const lab *l, const char *s3, const char *gcs, const char *json, const char *azure) {
  return l->dialect == S3 ? s3 : l->dialect == GCS ? gcs : l->dialect == GCS_JSON ? json : azure;
}

static const char *internal(const lab *l) { return by_dialect(l, "InternalError", "InternalError", "backendError", "InternalError"); }

/* ---- the faults, each on one dialect; the rule is in force already ---- */

static void drop_request(lab *l) {
  faultd_answer a = ask(l, "PUT", "k", l->create, BODY);
  assert_int_equal(a.status, 0);
  assert_int_equal(a.bytes, 0);
  faultd_answer_free(&a);
  expect_object(l, "k", NULL);
}

static void drop_reply(lab *l) {
  assert_int_equal(create(l, "k", BODY), 0);
  expect_object(l, "k", BODY);
  assert_int_equal(create(l, "k", "other"), l->taken);
}

/* A create that is done twice sees its own work: the reply says that the name is taken. */
static void duplicate(lab *l) {
  assert_int_equal(create(l, "k", BODY), l->taken);
  expect_object(l, "k", BODY);
}

static void late_put(lab *l) {
  assert_int_equal(create(l, "k", BODY), 500);
  assert_false(listed(l, "k"));
  assert_int_equal(get(l, "other"), 404); /* of another name: it does not land */
  assert_false(listed(l, "k"));
  assert_int_equal(get(l, "k"), 404);
  expect_object(l, "k", BODY); /* landed behind that answer */
  assert_int_equal(create(l, "k", "other"), l->taken);
}

/* It lands by its condition: the name has an owner by then. */
static void late_put_too_late(lab *l) {
  assert_int_equal(create(l, "k", BODY), 500);
  assert_int_equal(create(l, "k", "winner"), l->written);
  expect_object(l, "k", "winner");
  assert_int_equal(status_of(l, "DELETE", "k", NULL, NULL), l->deleted);
  assert_int_equal(status_of(l, "HEAD", "k", NULL, NULL), 404);
  expect_object(l, "k", BODY);
}

static void error_500(lab *l) {
  expect_error(l, ask(l, "PUT", "k", NULL, BODY), 500, internal(l));
  expect_object(l, "k", NULL);
}

static void error_500_applied(lab *l) {
  expect_error(l, ask(l, "PUT", "k", NULL, BODY), 500, internal(l));
  expect_object(l, "k", BODY);
}

static void expect_retry_after(lab *l, int status, const char *code) {
  faultd_answer a = ask(l, "GET", "k", NULL, NULL);
  char value[16];
  assert_true(faultd_answer_header(&a, "Retry-After", value, sizeof value));
  assert_string_equal(value, "1");
  expect_error(l, a, status, code);
}

static void slowdown_503(lab *l) { expect_retry_after(l, 503, by_dialect(l, "SlowDown", "ServiceUnavailable", "backendError", "ServerBusy")); }
static void throttle_429(lab *l) { expect_retry_after(l, 429, by_dialect(l, "TooManyRequests", "SlowDown", "rateLimitExceeded", "TooManyRequests")); }

static void conflict_409_undecided(lab *l) {
  expect_error(l, ask(l, "PUT", "k", l->create, BODY), 409,
               by_dialect(l, "ConditionalRequestConflict", "OperationAborted", "conflict", "SystemInUse"));
  expect_object(l, "k", NULL);
  assert_int_equal(create(l, "k", BODY), l->written);
}

static void taken_409(lab *l) {
  assert_int_equal(create(l, "k", BODY), l->written); /* nothing is taken here: the rule waits */
  expect_error(l, ask(l, "PUT", "k", l->create, "other"), 409, by_dialect(l, "ObjectAlreadyExists", "Conflict", "conflict", "BlobAlreadyExists"));
  expect_object(l, "k", BODY);
}

static void taken_304(lab *l) {
  assert_int_equal(create(l, "k", BODY), l->written);
  faultd_answer a = ask(l, "PUT", "k", l->create, "other");
  assert_int_equal(a.status, 304);
  assert_true(a.complete);
  faultd_answer_free(&a);
  expect_object(l, "k", BODY);
}

static void error_200(lab *l) {
  expect_error(l, ask(l, "PUT", "k", NULL, BODY), 200, internal(l));
  expect_object(l, "k", NULL);
}

/* The object is there; the answer to a GET, with a rule in force by now, has this status and this many bytes of body. */
static faultd_answer spoilt(lab *l, const char *range, int status, size_t bytes) {
  assert_int_equal(put(l, "k", BODY), l->written);
  char header[64] = "";
  if (range != NULL) snprintf(header, sizeof header, "Range: bytes=%s\r\n", range);
  assert_int_equal(get(l, "missing"), 404); /* an error has no body to spoil */
  faultd_answer a = ask(l, "GET", "k", header, NULL);
  assert_int_equal(a.status, status);
  assert_int_equal(a.bytes, bytes);
  return a;
}

static void short_body(lab *l) {
  faultd_answer a = spoilt(l, NULL, 200, 18);
  assert_false(a.complete);
  assert_non_null(strstr(a.head, "Content-Length: 36\r\n"));
  assert_memory_equal(a.body, BODY, 18);
  faultd_answer_free(&a);
  expect_object(l, "k", BODY);
}

static void close_delimited(lab *l) {
  char length[32];
  faultd_answer a = spoilt(l, NULL, 200, 18);
  assert_false(faultd_answer_header(&a, "Content-Length", length, sizeof length));
  assert_non_null(strstr(a.head, "Connection: close\r\n"));
  faultd_answer_free(&a);
  expect_object(l, "k", BODY);
}

static void extra_bytes(lab *l) {
  faultd_answer a = spoilt(l, "2-5", 206, 4 + 7);
  assert_non_null(strstr(a.head, "Content-Length: 4\r\n"));
  assert_memory_equal(a.body, "2345surplus", 11);
  faultd_answer_free(&a);
}

static void extra_bytes_of_range(lab *l) {
  faultd_answer a = spoilt(l, "2-5", 206, 4 + 7);
  assert_non_null(strstr(a.head, "Content-Range: bytes 2-12/36\r\n"));
  assert_true(a.complete);
  assert_memory_equal(a.body, BODY + 2, 11);
  faultd_answer_free(&a);
}

static void range_ignored(lab *l) {
  char told[32];
  faultd_answer a = spoilt(l, "2-5", 200, 36);
  assert_false(faultd_answer_header(&a, "Content-Range", told, sizeof told));
  assert_string_equal(a.body, BODY);
  faultd_answer_free(&a);
}

static void range_wrong(lab *l) {
  faultd_answer a = spoilt(l, "2-5", 206, 4);
  assert_non_null(strstr(a.head, "Content-Range: bytes 3-6/36\r\n"));
  faultd_answer_free(&a);
}

static void bit_flip(lab *l) {
  faultd_answer a = spoilt(l, NULL, 200, 36);
  assert_true(a.complete);
  assert_int_equal(a.body[18], BODY[18] ^ 4);
  a.body[18] = BODY[18];
  assert_string_equal(a.body, BODY);
  faultd_answer_free(&a);
  expect_object(l, "k", BODY);
}

static void stale_manifest(lab *l) {
  assert_int_equal(put(l, "k", BODY), l->written);
  assert_int_equal(get(l, "k"), 404); /* just written: not seen yet */
  assert_int_equal(put(l, "k", "newer"), l->written);
  expect_object(l, "k", BODY); /* twice in the rule */
  expect_object(l, "k", "newer");
}

static void stale_list(lab *l) {
  assert_int_equal(put(l, "a", BODY), l->written);
  assert_int_equal(put(l, "b", BODY), l->written);
  assert_false(listed(l, "b"));
  assert_true(listed(l, "b"));
  faultd_rule(l->f, "stale-list");
  assert_int_equal(status_of(l, "DELETE", "a", NULL, NULL), l->deleted);
  assert_true(listed(l, "a")); /* the other way round: what is gone is seen still */
  assert_false(listed(l, "a"));
}

static void reset_inside(lab *l) {
  assert_int_equal(put(l, "k", BODY), l->written);
  faultd_answer a = ask(l, "GET", "k", NULL, NULL);
  assert_true(a.reset);
  assert_false(a.complete);
  faultd_answer_free(&a);
  expect_object(l, "k", BODY);
}

/* Every byte comes by itself, which shows in the number of reads that the body needs: two at most without the fault. A
 * busy machine may join many bytes in one read. */
static void drip(lab *l) {
  assert_int_equal(put(l, "k", BODY), l->written);
  char byte[64];
  const int fd = begin_get(l, "k");
  size_t reads = 0, bytes = 0;
  for (ssize_t n; (n = recv(fd, byte, sizeof byte, 0)) > 0; bytes += (size_t)n) reads++;
  close(fd);
  assert_true(bytes > 36);
  assert_true(reads > 3);
}

static void stall(lab *l) {
  assert_int_equal(put(l, "k", BODY), l->written);
  char byte;
  const int fd = begin_get(l, "k");
  while (faultd_fired(l->f, "stall") == 0) poll(NULL, 0, 1);
  assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1); /* open and silent */
  assert_true(errno == EAGAIN || errno == EWOULDBLOCK);
  assert_int_equal(get(l, "k"), 200); /* the others are served */
  assert_int_equal(faultd_log_count(l->f, "\"ended\":false"), 1);
  close(fd);
  while (faultd_log_count(l->f, "\"ended\":false") > 0) poll(NULL, 0, 1);
}

static void skew(lab *l) {
  const char *names[] = {[S3] = "x-amz-date", [GCS] = "x-goog-date", [GCS_JSON] = "x-goog-date", [AZURE] = "x-ms-date"};
  faultd_answer a = ask(l, "GET", "k", NULL, NULL);
  char date[64], header[128];
  assert_int_equal(a.status, 404); /* not signed: only the Date is off */
  assert_true(faultd_answer_header(&a, "Date", date, sizeof date));
  faultd_answer_free(&a);
  snprintf(header, sizeof header, "%s: %s\r\n", names[l->dialect], date);
  assert_int_equal(status_of(l, "GET", "k", header, NULL), 404); /* signed by the server's clock */
  faultd_reset(l->f);
  a = ask(l, "GET", "k", NULL, NULL);
  assert_true(faultd_answer_header(&a, "Date", date, sizeof date));
  faultd_answer_free(&a);
  faultd_rule(l->f, "skew");
  snprintf(header, sizeof header, "%s: %s\r\n", names[l->dialect], date);
  expect_error(l, ask(l, "GET", "k", header, NULL), 403, by_dialect(l, "RequestTimeTooSkewed", "RequestTimeTooSkewed", "invalid", "AuthenticationFailed"));
}

static void expired_token(lab *l) {
  expect_error(l, ask(l, "GET", "k", NULL, NULL), l->dialect == S3 ? 400 : 401,
               by_dialect(l, "ExpiredToken", "AuthenticationRequired", "authError", "InvalidAuthenticationInfo"));
  assert_int_equal(get(l, "k"), 404);
}

static void deny(lab *l) {
  expect_error(l, ask(l, "GET", "k", NULL, NULL), 403,
               by_dialect(l, "AccessDenied", "AccessDenied", "required", "AuthorizationPermissionMismatch"));
  assert_int_equal(get(l, "k"), 404);
}

static void ignore_condition(lab *l) {
  assert_int_equal(create(l, "k", BODY), l->written);
  assert_int_equal(create(l, "k", "second"), l->written); /* both in the rule */
  expect_object(l, "k", "second");
  assert_int_equal(create(l, "k", "third"), l->taken);
}

static void invert_condition(lab *l) {
  assert_int_equal(create(l, "k", BODY), l->taken);
  expect_object(l, "k", NULL);
  assert_int_equal(put(l, "k", BODY), l->written);
  assert_int_equal(create(l, "k", "second"), l->written);
  expect_object(l, "k", "second");
}

/* ---- all of them on all dialects ---- */

static const struct {
  const char *name, *options;
  void (*check)(lab *l);
  uint64_t fired;
} CASES[] = {
    {"drop-request", "", drop_request, 1},
    {"drop-reply", "op=create", drop_reply, 1},
    {"duplicate", "op=create", duplicate, 1},
    {"late-put", "", late_put, 1},
    {"late-put", "key=k", late_put_too_late, 1},
    {"error-500", "key=/k", error_500, 1},
    {"error-500", "op=put arg=applied", error_500_applied, 1},
    {"slowdown-503", "", slowdown_503, 1},
    {"throttle-429", "", throttle_429, 1},
    {"conflict-409-undecided", "", conflict_409_undecided, 1},
    {"taken-409", "", taken_409, 1},
    {"taken-304", "", taken_304, 1},
    {"error-200", "", error_200, 1},
    {"short-body", "", short_body, 1},
    {"close-delimited", "", close_delimited, 1},
    {"extra-bytes", "", extra_bytes, 1},
    {"extra-bytes", "arg=range", extra_bytes_of_range, 1},
    {"range-ignored", "", range_ignored, 1},
    {"range-wrong", "", range_wrong, 1},
    {"bit-flip", "", bit_flip, 1},
    {"stale-manifest", "count=2", stale_manifest, 2},
    {"stale-list", "", stale_list, 2},
    {"reset", "", reset_inside, 1},
    {"drip", "arg=5", drip, 1},
    {"stall", "op=get", stall, 1},
    {"skew", "", skew, 1},
    {"expired-token", "", expired_token, 1},
    {"deny-403", "", deny, 1},
    {"ignore-condition", "count=2", ignore_condition, 2},
    {"invert-condition", "count=2", invert_condition, 2},
};
#define CASE_COUNT (sizeof CASES / sizeof *CASES)

static void every_fault_fires(void **state) {
  for (size_t n = 0; n < LABS; n++) {
    lab *l = &all_labs[n];
    for (size_t i = 0; i < CASE_COUNT; i++) {
      char rule[128];
      snprintf(rule, sizeof rule, "%s %s", CASES[i].name, CASES[i].options);
      print_message("%s: %s\n", by_dialect(l, "s3", "gcs", "gcs, JSON", "azure"), rule);
      faultd_clear(l->f);
      faultd_rule(l->f, rule);
      CASES[i].check(l);
      assert_int_equal(faultd_fired(l->f, CASES[i].name), CASES[i].fired);
    }
  }
  (void)state;
}

/* The list above leaves none out. */
static void every_fault_has_a_case(void **state) {
  faultd_answer a = faultd_ask(all_labs[0].f, "GET", "/_faults", NULL, NULL);
  size_t count = 0;
  for (const char *at = a.body; (at = strchr(at, '"')) != NULL; count++) {
    const char *end = strchr(at + 1, '"');
    bool found = false;
    assert_non_null(end);
    for (size_t i = 0; i < CASE_COUNT; i++)
      found = found || (strlen(CASES[i].name) == (size_t)(end - at - 1) && strncmp(CASES[i].name, at + 1, (size_t)(end - at - 1)) == 0);
    assert_true(found);
    at = end + 1;
  }
  assert_int_equal(count, 27);
  faultd_answer_free(&a);
  (void)state;
}

/* Rules: skip, count, op and key choose; what is no rule is refused whole. */
static void rules_choose(void **state) {
  lab *l = &all_labs[0];
  faultd_clear(l->f);
  faultd_rule(l->f, "error-500 op=put key=chosen skip=1 count=2\nslowdown-503 op=delete\n");
  const int want[] = {200, 500, 500, 200};
  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(put(l, "other", BODY), 200);
    assert_int_equal(put(l, "chosen", BODY), want[i]);
    assert_int_equal(get(l, "chosen"), 200);
  }
  assert_int_equal(status_of(l, "DELETE", "chosen", NULL, NULL), 503);
  assert_int_equal(faultd_fired(l->f, "error-500"), 2);
  const char *const bad[] = {"error-501", "error-500 op=putt", "error-500 count=x", "error-500 often", "taken-409 op=get",
                             "error-500\nerror-500 skip=-1"};
  faultd_reset(l->f);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    faultd_answer a = faultd_ask(l->f, "POST", "/_faults", NULL, bad[i]);
    assert_int_equal(a.status, 400);
    assert_non_null(strstr(a.body, "no rule: "));
    faultd_answer_free(&a);
  }
  assert_int_equal(get(l, "other"), 200); /* none of them is in force */
  (void)state;
}

static int start(void **state) {
  (void)state;
  const char *const names[] = {"s3", "gcs", "gcs", "azure"};
  for (size_t i = 0; i < LABS; i++) {
    all_labs[i] = (lab){faultd_start(names[i], NULL), (kind)i, 200, 412, 204, "If-None-Match: *\r\n"};
    if (all_labs[i].dialect == GCS_JSON) all_labs[i].create = "&ifGenerationMatch=0";
    if (all_labs[i].dialect == GCS) all_labs[i].create = "x-goog-if-generation-match: 0\r\n";
    if (all_labs[i].dialect == AZURE) all_labs[i].written = 201, all_labs[i].taken = 409, all_labs[i].deleted = 202;
  }
  return 0;
}

static int stop(void **state) {
  (void)state;
  for (size_t i = 0; i < LABS; i++) faultd_stop(all_labs[i].f);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_fault_fires), cmocka_unit_test(every_fault_has_a_case),
                                     cmocka_unit_test(rules_choose)};
  return cmocka_run_group_tests(tests, start, stop);
}
