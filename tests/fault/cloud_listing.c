/* Listings by servers that the fault server does not play: whose pages do not get on, whose tokens come round again, whose
 * names cannot be read, which have nothing to show for thousands of pages. Each ends, with the reason; what is only odd
 * goes through. */
#include "support/cloud_fixture.h"
#include "support/peer.h"
#include <stdatomic.h>

/* The nth page of a listing, from 0, into room. */
typedef void page_fn(unsigned nth, char *page, size_t room);

typedef struct lab {
  peer *peer;
  lake_env *env;
  lake_store *store;
  page_fn *page;
  atomic_uint count; /* of pages */
  unsigned key_count;
  char last[64];
} lab;

static bool answer(void *ctx, const peer_request *request, int fd) {
  lab *l = ctx;
  char page[4096], head[160];
  (void)request;
  l->page(atomic_fetch_add(&l->count, 1), page, sizeof page);
  snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", strlen(page));
  return peer_text(fd, head) && peer_text(fd, page);
}

static void lab_open(lab *l, cloud_form form, page_fn *page) {
  char url[160];
  lake_error err = LAKE_ERROR_INIT;
  *l = (lab){.page = page};
  l->peer = peer_open(answer, l);
  cloud_clean_environment();
  if (form == FORM_S3) {
    setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", CLOUD_SECRET, 1);
    snprintf(url, sizeof url, "s3://bucket/x?endpoint=http://127.0.0.1:%u", peer_port(l->peer));
  } else {
    setenv("AZURE_STORAGE_ACCOUNT", "acc", 1);
    setenv("AZURE_STORAGE_KEY", CLOUD_SECRET_BASE64, 1);
    snprintf(url, sizeof url, "az://bucket/x?endpoint=http://127.0.0.1:%u/acc", peer_port(l->peer));
  }
  assert_ok(lake_env_open(NULL, &l->env, &err), &err);
  assert_ok(lake_store_open(l->env, url, &l->store, &err), &err);
}

static void lab_close(lab *l) {
  lake_store_close(l->store);
  peer_close(l->peer);
  lake_env_close(l->env);
}

static bool note_key(void *ctx, const char *key, uint64_t object_bytes) {
  lab *l = ctx;
  (void)object_bytes;
  l->key_count++;
  snprintf(l->last, sizeof l->last, "%s", key);
  return true;
}

static lake_status list(lab *l, const char *start_after, lake_error *err) {
  return lki_store_list(l->store, "", start_after, note_key, l, test_deadline(l->env), err);
}

/* ---- pages of S3 ---- */

/* names: what is in <Key>, one after another, a NULL at the end; token: NULL on the last page. */
static void s3_page(char *page, size_t room, const char *const *names, const char *token) {
  size_t used = (size_t)snprintf(page, room, "<ListBucketResult><IsTruncated>%s</IsTruncated>", token != NULL ? "true" : "false");
  if (token != NULL) used += (size_t)snprintf(page + used, room - used, "<NextContinuationToken>%s</NextContinuationToken>", token);
  for (; *names != NULL; names++)
    used += (size_t)snprintf(page + used, room - used, "<Contents><Key>%s</Key><Size>1</Size></Contents>", *names);
  snprintf(page + used, room - used, "</ListBucketResult>");
}

static const char *const NONE[] = {NULL};

/* Two pages of keys by turns: the keys go back. Also for one who begins behind them all, to whom none is handed. */
static void keys_by_turns(unsigned nth, char *page, size_t room) {
  static const char *const odd[] = {"x/a", "x/b", NULL}, *const even[] = {"x/c", "x/d", NULL};
  s3_page(page, room, nth % 2 == 0 ? odd : even, nth % 2 == 0 ? "ONE" : "TWO");
}

static void test_keys_go_back(void **state) {
  (void)state;
  lab l;
  lake_error err = LAKE_ERROR_INIT;
  lab_open(&l, FORM_S3, keys_by_turns);
  assert_status(list(&l, NULL, &err), LAKE_CORRUPT, &err);
  assert_non_null(strstr(err.text, "out of order: \"a\" comes after \"d\""));
  assert_int_equal(l.count, 3);
  assert_int_equal(l.key_count, 4);
  l.count = 0;
  assert_status(list(&l, "m", &err), LAKE_CORRUPT, &err);
  assert_int_equal(l.count, 3);
  assert_int_equal(l.key_count, 4);
  lab_close(&l);
}

/* A token again, from one page to the next or after some, on pages that have nothing. */
static void tokens_by_turns(unsigned nth, char *page, size_t room) {
  static const char *const tokens[] = {"ONE", "TWO", "THREE"};
  s3_page(page, room, NONE, tokens[nth % 3]);
}

static void token_stays(unsigned nth, char *page, size_t room) {
  (void)nth;
  s3_page(page, room, NONE, "STAY");
}

static void test_tokens_come_again(void **state) {
  (void)state;
  static const struct {
    page_fn *page;
    const char *token;
    unsigned count_max;
  } cases[] = {{token_stays, "token \"STAY\" again", 2}, {tokens_by_turns, "\" again", 8}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    lab l;
    lake_error err = LAKE_ERROR_INIT;
    lab_open(&l, FORM_S3, cases[i].page);
    /* The door begins a listing that failed anew, a few times. */
    assert_status(list(&l, NULL, &err), LAKE_UNAVAILABLE, &err);
    assert_non_null(strstr(err.text, "goes round in circles"));
    assert_non_null(strstr(err.text, cases[i].token));
    assert_int_equal(l.key_count, 0);
    assert_true(l.count <= 10 * cases[i].count_max);
    lab_close(&l);
  }
}

/* Pages without a key, each with another token: some hundred of them are a server that looks for something. */
static void empty_then_key(unsigned nth, char *page, size_t room) {
  static const char *const key[] = {"x/k", NULL}, *const foreign[] = {"x/folder/", NULL};
  char token[32];
  snprintf(token, sizeof token, "T%u", nth);
  s3_page(page, room, nth == 500 ? key : nth % 2 == 0 ? NONE : foreign, nth == 500 ? NULL : token);
}

static void empty_for_ever(unsigned nth, char *page, size_t room) {
  char token[32];
  snprintf(token, sizeof token, "T%u", nth);
  s3_page(page, room, NONE, token);
}

static void test_empty_pages(void **state) {
  (void)state;
  lab l;
  lake_error err = LAKE_ERROR_INIT;
  lab_open(&l, FORM_S3, empty_then_key);
  assert_ok(list(&l, NULL, &err), &err);
  assert_int_equal(l.count, 501);
  assert_int_equal(l.key_count, 1);
  assert_string_equal(l.last, "k");
  lab_close(&l);
  lab_open(&l, FORM_S3, empty_for_ever);
  assert_status(list(&l, NULL, &err), LAKE_CORRUPT, &err);
  assert_non_null(strstr(err.text, "10001 pages in a row without a key"));
  assert_non_null(strstr(err.text, "token \"T10000\""));
  assert_int_equal(l.count, 10001);
  lab_close(&l);
}

/* ---- names ---- */

static void broken_s3(unsigned nth, char *page, size_t room) {
  (void)nth;
  snprintf(page, room,
           "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
           "<Contents><Key>x/a%%2</Key><Size>1</Size></Contents></ListBucketResult>");
}

static void nameless_s3(unsigned nth, char *page, size_t room) {
  (void)nth;
  snprintf(page, room, "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>");
}

#define BLOBS(inner) "\xef\xbb\xbf<EnumerationResults><Blobs>" inner "</Blobs><NextMarker/></EnumerationResults>"
#define BLOB(encoded, name) \
  "<Blob><Name" encoded ">" name "</Name><Properties><Content-Length>1</Content-Length></Properties></Blob>"

static void broken_azure(unsigned nth, char *page, size_t room) {
  (void)nth;
  snprintf(page, room, "%s", BLOBS(BLOB("", "x/a") BLOB(" Encoded=\"true\"", "x/b%zz") BLOB("", "x/c")));
}

static void nameless_azure(unsigned nth, char *page, size_t room) {
  (void)nth;
  snprintf(page, room, "%s", BLOBS("<Blob><Properties/></Blob>"));
}

static void good_azure(unsigned nth, char *page, size_t room) {
  (void)nth;
  snprintf(page, room, "%s", BLOBS(BLOB("", "x/a%zz") BLOB(" Encoded=\"true\"", "x/b%2501")));
}

static void test_names(void **state) {
  (void)state;
  static const struct {
    cloud_form form;
    page_fn *page;
    const char *words;
  } cases[] = {{FORM_S3, broken_s3, "broken %-escape"},
               {FORM_S3, nameless_s3, "without a key"},
               {FORM_AZURE, broken_azure, "broken %-escape"},
               {FORM_AZURE, nameless_azure, "without a name"}};
  lab l;
  lake_error err = LAKE_ERROR_INIT;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    lab_open(&l, cases[i].form, cases[i].page);
    assert_status(list(&l, NULL, &err), LAKE_UNAVAILABLE, &err);
    assert_non_null(strstr(err.text, cases[i].words));
    assert_int_equal(l.key_count, 0); /* a page is handed out whole or not at all */
    lab_close(&l);
  }
  lab_open(&l, FORM_AZURE, good_azure);
  assert_ok(list(&l, NULL, &err), &err);
  assert_int_equal(l.key_count, 2);
  assert_string_equal(l.last, "b%01");
  lab_close(&l);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_keys_go_back), cmocka_unit_test(test_tokens_come_again),
                                     cmocka_unit_test(test_empty_pages), cmocka_unit_test(test_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
