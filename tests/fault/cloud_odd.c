/* What a server says that the fault server never does: refusals that break off, a last reply to an upload that holds
 * anything but its result, a region that is none, lists of uploads that stand still. And a fork while a read is on its
 * way. */
#include "support/cloud_fixture.h"
#include "support/peer.h"
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define BIG_BYTES (((size_t)5 << 20) + 7)
#define DECLARATION "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
#define ERROR(code) DECLARATION "<Error><Code>" code "</Code><Message>m</Message></Error>"

typedef struct lab {
  peer *peer;
  lake_env *env;
  lake_store *store;
  const char *first, *then; /* bodies, or a whole reply where it begins with "HTTP/" */
  const char *counted;      /* in the request line: of these the first one gets `first` */
  atomic_uint count;
  atomic_bool held; /* nothing is answered meanwhile */
} lab;

static bool say(int fd, const char *body) {
  char head[160];
  if (strncmp(body, "HTTP/", 5) == 0) {
    peer_text(fd, body);
    return false;
  }
  snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: %zu\r\n\r\n", strlen(body));
  return peer_text(fd, head) && peer_text(fd, body);
}

static bool answer(void *ctx, const peer_request *request, int fd) {
  lab *l = ctx;
  while (atomic_load(&l->held)) sched_yield();
  char line[600];
  snprintf(line, sizeof line, "%s %s", request->method, request->path);
  if (strstr(line, l->counted) != NULL) return say(fd, atomic_fetch_add(&l->count, 1) == 0 ? l->first : l->then);
  if (strstr(line, "?uploads") != NULL)
    return say(fd, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>");
  return say(fd, "");
}

static void lab_open(lab *l, const char *counted, const char *first, const char *then) {
  char url[160];
  lake_error err = LAKE_ERROR_INIT;
  *l = (lab){.first = first, .then = then, .counted = counted};
  l->peer = peer_open(answer, l);
  cloud_clean_environment();
  setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
  setenv("AWS_SECRET_ACCESS_KEY", CLOUD_SECRET, 1);
  snprintf(url, sizeof url, "s3://bucket/x?endpoint=http://127.0.0.1:%u&multipart_mb=5&part_mb=5", peer_port(l->peer));
  assert_ok(lake_env_open(NULL, &l->env, &err), &err);
  assert_ok(lake_store_open(l->env, url, &l->store, &err), &err);
}

static void lab_close(lab *l) {
  lake_store_close(l->store);
  peer_close(l->peer);
  lake_env_close(l->env);
}

/* ---- refusals that break off ---- */

#define CUT(status) "HTTP/1.1 " status "\r\nContent-Length: 300\r\n\r\n" DECLARATION "<Error>"

static void test_refusal_cut(void **state) {
  (void)state;
  static const char *const replies[] = {CUT("400 Bad Request"), CUT("403 Forbidden"), CUT("404 Not Found")};
  for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
    lab l;
    lake_error err = LAKE_ERROR_INIT;
    lake_buffer out;
    lab_open(&l, "PUT ", replies[i], "");
    assert_status(lki_store_put_if_absent(l.store, "k", cloud_text("v"), test_deadline(l.env), &err), LAKE_UNCERTAIN,
                  &err);
    assert_int_equal(l.count, 1);
    lab_close(&l);
    lab_open(&l, "GET ", replies[i], "text");
    lki_buffer_init(&out, l.env, 64);
    assert_ok(lki_store_get(l.store, "k", lki_range_whole(), &out, NULL, test_deadline(l.env), &err), &err);
    assert_int_equal(out.bytes, 4);
    assert_memory_equal(out.data, "text", 4);
    assert_int_equal(l.count, 2);
    lki_buffer_free(&out);
    lab_close(&l);
  }
}

/* ---- the last reply to an upload in parts ---- */

#define DONE DECLARATION "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"

static void test_upload_done(void **state) {
  (void)state;
  static const struct {
    const char *first;
    unsigned count; /* of last requests: a second one means that the first was not believed */
  } cases[] = {{DONE, 1}, {" \n \n" DONE, 1}, {" \n \n" ERROR("InternalError"), 2}, {"", 2}, {" \n", 2},
               {ERROR("InternalError"), 2}};
  unsigned char *data = calloc(1, BIG_BYTES);
  assert_non_null(data);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    lab l;
    lake_error err = LAKE_ERROR_INIT;
    lab_open(&l, "POST /bucket/x/k?uploadId=", cases[i].first, DONE);
    assert_ok(lki_store_put(l.store, "k", (lake_bytes){data, BIG_BYTES}, test_deadline(l.env), &err), &err);
    if (l.count != cases[i].count) fail_msg("case %zu: %u last requests", i, l.count);
    lab_close(&l);
  }
  free(data);
}

/* An error before which blanks came is one under a good status of any write. */
static void test_blanks_before_error(void **state) {
  (void)state;
  lab l;
  lake_error err = LAKE_ERROR_INIT;
  lab_open(&l, "PUT ", "\r\n" ERROR("InternalError"), "");
  assert_status(lki_store_put_if_absent(l.store, "k", cloud_text("v"), test_deadline(l.env), &err), LAKE_UNCERTAIN, &err);
  assert_non_null(strstr(err.text, "InternalError"));
  lab_close(&l);
}

/* A good status line over a body that is too long to be kept whole: an error may stand behind what was kept. What a good
 * reply of the kind has is enough. */
#define BLANKS_64 "                                                                "
#define BLANKS_1K BLANKS_64 BLANKS_64 BLANKS_64 BLANKS_64 BLANKS_64 BLANKS_64 BLANKS_64 BLANKS_64 BLANKS_64 BLANKS_64 \
  BLANKS_64 BLANKS_64 BLANKS_64 BLANKS_64 BLANKS_64 BLANKS_64
#define LONG_TEXT BLANKS_1K BLANKS_1K BLANKS_1K

static void test_long_reply(void **state) {
  (void)state;
  static const struct {
    bool google;
    const char *reply;
    lake_status status;
  } cases[] = {
      {true, "{\"error\": {\"code\": 503, \"message\": \"" LONG_TEXT "\"}}", LAKE_UNCERTAIN},
      {true, "{\"error\": {\"code\": 503, \"message\": \"not a \\\"storage#object\\\" " LONG_TEXT "\"}}", LAKE_UNCERTAIN},
      {true, "{\"error\": {\"code\": 503, \"message\": \"short\"}}", LAKE_UNCERTAIN},
      {true, "<html>log in first</html>", LAKE_UNCERTAIN},
      {true, "{\"kind\": \"storage#object\", \"name\": \"" LONG_TEXT "\"}", LAKE_OK},
      {true, "{\"kind\": \"storage#object\"}", LAKE_OK},
      {false, LONG_TEXT ERROR("InternalError"), LAKE_UNCERTAIN},
      {false, DECLARATION "<Error><Resource>" LONG_TEXT "</Resource><Code>InternalError</Code></Error>", LAKE_UNCERTAIN},
      {false, " ", LAKE_OK},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    lab l;
    lake_error err = LAKE_ERROR_INIT;
    lake_store *google = NULL;
    char url[80];
    lab_open(&l, cases[i].google ? "POST " : "PUT ", cases[i].reply, "");
    snprintf(url, sizeof url, "http://127.0.0.1:%u", peer_port(l.peer));
    setenv("STORAGE_EMULATOR_HOST", url, 1);
    assert_ok(lake_store_open(l.env, "gs://bucket/x", &google, &err), &err);
    lake_store *store = cases[i].google ? google : l.store;
    const lake_status s = lki_store_put_if_absent(store, "k", cloud_text("v"), test_deadline(l.env), &err);
    if (s != cases[i].status) fail_msg("case %zu: %d, %s", i, s, err.text);
    assert_int_equal(l.count, 1);
    lake_store_close(google);
    lab_close(&l);
  }
}

/* ---- regions and lists ---- */

/* Nothing is learned from it that would make it worth another try. */
static void test_no_region(void **state) {
  (void)state;
  static const char refusal[] = "HTTP/1.1 400 Bad Request\r\nx-amz-bucket-region: a.example/b\r\nContent-Length: 0\r\n\r\n";
  lab l;
  lake_error err = LAKE_ERROR_INIT;
  lab_open(&l, "PUT ", refusal, refusal);
  assert_status(lki_store_put_if_absent(l.store, "k", cloud_text("v"), test_deadline(l.env), &err), LAKE_INVALID, &err);
  assert_int_equal(l.count, 1);
  lab_close(&l);
}

static bool any_upload(void *ctx, const char *key, const char *upload_id) {
  (void)ctx, (void)key, (void)upload_id;
  return true;
}

#define UPLOADS(next_id) \
  "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>" next_id \
  "</NextUploadIdMarker></ListMultipartUploadsResult>"

static void test_uploads_stand_still(void **state) {
  (void)state;
  lab l;
  lake_error err = LAKE_ERROR_INIT;
  lab_open(&l, "GET ", UPLOADS("1"), UPLOADS("2"));
  assert_status(lki_store_list_uploads(l.store, "", any_upload, NULL, test_deadline(l.env), &err), LAKE_UNAVAILABLE, &err);
  assert_int_equal(l.count, 3); /* "1", "2" and, again, "2" */
  lab_close(&l);
}

/* ---- forks ---- */

static void *read_one(void *arg) {
  lab *l = arg;
  lake_buffer out;
  lake_error err = LAKE_ERROR_INIT;
  lki_buffer_init(&out, l->env, 64);
  lake_status s = lki_store_get(l->store, "k", lki_range_whole(), &out, NULL, test_deadline(l->env), &err);
  lki_buffer_free(&out);
  return s == LAKE_OK ? l : NULL;
}

/* The child may close what it has inherited, whatever the threads were doing that it has not. */
static void test_fork(void **state) {
  (void)state;
  lab l;
  pthread_t reader;
  void *read = NULL;
  lab_open(&l, "GET ", "text", "text");
  atomic_store(&l.held, true);
  assert_int_equal(pthread_create(&reader, NULL, read_one, &l), 0);
  while (peer_request_count(l.peer) == 0) sched_yield();
  pid_t child = fork();
  if (child == 0) {
    lake_error err = LAKE_ERROR_INIT;
    bool ok = lki_store_list_uploads(l.store, "", any_upload, NULL, test_deadline(l.env), &err) == LAKE_INVALID &&
              strstr(err.text, "fork") != NULL;
    lake_store_close(l.store);
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  atomic_store(&l.held, false);
  assert_int_equal(pthread_join(reader, &read), 0);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_ptr_equal(read, &l);
  lab_close(&l);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refusal_cut), cmocka_unit_test(test_upload_done), cmocka_unit_test(test_blanks_before_error), cmocka_unit_test(test_long_reply),
      cmocka_unit_test(test_no_region),   cmocka_unit_test(test_uploads_stand_still), cmocka_unit_test(test_fork),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
