/* Bodies that stores send, read in all dialects: pages of listings, errors, metadata, ids of uploads.
 * Whatever comes, a page is refused or it is whole, and an error says one line. And pages that are written
 * from the input, in XML and in JSON, are read as what was written. */
#include "base/env.h"
#include "base/json.h"
#include "store/cloud.h"
#include "support/fuzz.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIALECTS 4
#define ENTRIES_MAX 32
#define NAME_BYTES_MAX 40

static const lki_dialect *const dialects[DIALECTS] = {&lki_dialect_s3, &lki_dialect_gcs_xml,
                                                      &lki_dialect_gcs_json, &lki_dialect_azure};
static unsigned long pages, faults, sizes, uploads, written;

static void page_init(lki_listed *page) {
  memset(page, 0, sizeof *page);
  lki_arena_init(&page->arena, fuzz_env());
  lki_buffer_init(&page->entries, fuzz_env(), LKI_ENTRY_COUNT_MAX * sizeof(lki_entry));
}

static void page_free(lki_listed *page) {
  lki_buffer_free(&page->entries);
  lki_arena_free(&page->arena);
}

static const lki_entry *entry_at(const lki_listed *page, size_t i) {
  return (const lki_entry *)(const void *)page->entries.data + i;
}

static void expect_one_line(const char *text, const char *why) {
  fuzz_expect(text[0] != 0, why);
  for (; *text; text++) fuzz_expect((unsigned char)*text >= 0x20 && *text != 0x7f, why);
}

/* ---- whatever comes ---- */

static void try_listed(const lki_dialect *dialect, lki_verb verb, lake_bytes body) {
  lake_error err = LAKE_ERROR_INIT;
  lki_listed page;
  const lki_ask ask = {.dialect = dialect, .verb = verb, .name = "", .prefix = ""};
  page_init(&page);
  const lake_status s = dialect->listed(&ask, body, &page, &err);
  if (s == LAKE_OK) {
    pages++;
    for (size_t i = 0; i < page.entries.bytes / sizeof(lki_entry); i++) {
      const lki_entry *entry = entry_at(&page, i);
      fuzz_expect(dialect == &lki_dialect_gcs_json || entry->object_bytes <= INT64_MAX, "a size that nobody wrote");
      fuzz_expect(entry->name != NULL && strlen(entry->name) <= body.bytes,
                  "an entry without a name of the body's");
      fuzz_expect(verb == LKI_VERB_LIST || entry->object_bytes == 0 || entry->upload_id == NULL ||
                      strlen(entry->upload_id) <= body.bytes,
                  "an upload's id that is not the body's");
    }
    fuzz_expect(page.token != NULL || page.token_2 == NULL, "half a token");
    fuzz_expect(page.token == NULL || strlen(page.token) <= body.bytes, "a token that is not the body's");
  } else {
    fuzz_expect(s == LAKE_UNAVAILABLE && err.status == s, lake_status_name(s));
    expect_one_line(err.text, "a refusal that says nothing, or more than a line");
  }
  page_free(&page);
}

static void try_fault(const lki_dialect *dialect, lake_bytes body) {
  static const int statuses[] = {200, 301, 400, 401, 403, 404, 409, 412, 416, 429, 500, 503};
  static const lki_verb verbs[] = {LKI_VERB_GET, LKI_VERB_CREATE, LKI_VERB_REMOVE, LKI_VERB_UPLOAD_COMPLETE};
  lki_http_reply reply;
  lki_fault fault;
  memset(&reply, 0, sizeof reply);
  memset(&fault, 0, sizeof fault);
  reply.text_bytes = body.bytes < sizeof reply.text ? body.bytes : sizeof reply.text - 1;
  memcpy(reply.text, body.data, reply.text_bytes);
  reply.sent = true;
  const size_t some = body.bytes % (sizeof statuses / sizeof statuses[0]);
  for (size_t i = 0; i < 2; i++) {
    reply.status = i == 0 ? 404 : statuses[some];
    memset(&fault, 0, sizeof fault);
    dialect->fault(fuzz_env(), &reply, &fault);
    fuzz_expect(memchr(fault.code, 0, sizeof fault.code) != NULL &&
                    memchr(fault.message, 0, sizeof fault.message) != NULL &&
                    memchr(fault.region, 0, sizeof fault.region) != NULL,
                "a text without an end");
    if (fault.code[0] != 0) faults++;
    for (size_t k = 0; k < sizeof verbs / sizeof verbs[0]; k++) {
      lake_error err = LAKE_ERROR_INIT;
      const lki_ask ask = {.dialect = dialect, .verb = verbs[k], .name = "key"};
      const lki_verdict verdict = lki_verdict_of(&ask, "bucket", LAKE_OK, &reply, &fault, &err);
      fuzz_expect(verdict.status != LAKE_NOMEM && verdict.status != LAKE_INTERNAL, "an impossible verdict");
      fuzz_expect(verdict.status != LAKE_OK || reply.status == 200 || reply.status == 404,
                  "a failure that is none");
      fuzz_expect(verbs[k] != LKI_VERB_CREATE || verdict.status != LAKE_EXISTS || reply.status == 409 ||
                      reply.status == 412,
                  "taken, by what does not tell that");
      if (verdict.status == LAKE_OK) continue;
      fuzz_expect(err.status == verdict.status, "an error that is another's");
      expect_one_line(err.text, "an error that says nothing, or more than a line");
    }
  }
}

static void try_others(const lki_dialect *dialect, lake_bytes body) {
  lake_error err = LAKE_ERROR_INIT;
  uint64_t object_bytes = 77;
  lki_versioning versioning = LKI_VERSIONING_OFF;
  const char *upload_id = NULL;
  lki_arena arena;
  lki_arena_init(&arena, fuzz_env());
  if (dialect->head != NULL) {
    const lake_status s = dialect->head(body, &object_bytes, &err);
    fuzz_expect(s == LAKE_OK || (s == LAKE_UNAVAILABLE && object_bytes == 77), "a length of a refused body");
    if (s == LAKE_OK) sizes++;
  }
  if (dialect->versioned != NULL) {
    const lake_status s = dialect->versioned(fuzz_env(), body, &versioning, &err);
    fuzz_expect(s == LAKE_OK || s == LAKE_UNAVAILABLE, lake_status_name(s));
  }
  if (dialect->upload_begun != NULL) {
    const lake_status s = dialect->upload_begun(&arena, body, &upload_id, &err);
    fuzz_expect(s == LAKE_OK ? upload_id != NULL && upload_id[0] != 0
                             : s == LAKE_UNAVAILABLE && upload_id == NULL,
                "an upload with no id, or an id of none");
    if (s == LAKE_OK) uploads++;
  }
  lki_arena_free(&arena);
}

/* ---- what was written is what is read ---- */

typedef struct wanted {
  char name[NAME_BYTES_MAX + 1];
  uint64_t object_bytes;
} wanted;

/* Names of what XML and JSON have marks of their own for, and of two bytes at once; sizes of every length. */
static size_t make_wanted(const uint8_t *data, size_t bytes, wanted *out) {
  static const char *const pieces[] = {"a",
                                       "Z",
                                       "9",
                                       "/",
                                       "&",
                                       "<",
                                       ">",
                                       "\"",
                                       "'",
                                       "%",
                                       "+",
                                       " ",
                                       "\\",
                                       ";",
                                       ".",
                                       "-",
                                       "]",
                                       "]>",
                                       "\xc3\xa9",
                                       "\xe2\x82\xac",
                                       "\xf0\x9f\x8c\x8a",
                                       "%20",
                                       "&amp;"};
  size_t count = 0, at = 0;
  while (count < ENTRIES_MAX && at + 2 < bytes) {
    wanted *w = &out[count++];
    size_t used = 0;
    for (size_t n = 1 + data[at++] % 8; n > 0 && at < bytes; n--, at++) {
      const char *piece = pieces[data[at] % (sizeof pieces / sizeof pieces[0])];
      memcpy(w->name + used, piece, strlen(piece));
      used += strlen(piece);
    }
    w->name[used] = 0;
    uint64_t size = 0;
    for (size_t n = at < bytes ? data[at] % 9 : 0; n > 0 && at < bytes; n--, at++)
      size = size << 8 | data[at];
    w->object_bytes = size & INT64_MAX;
    if (used == 0) count--;
  }
  return count;
}

static void put(lake_buffer *out, const char *text) {
  fuzz_expect(lki_buffer_append(out, text, strlen(text), NULL) == LAKE_OK, "no room");
}

static void put_xml(lake_buffer *out, const char *text) {
  for (; *text; text++) {
    const char one[2] = {*text, 0};
    put(out, *text == '&'   ? "&amp;"
             : *text == '<' ? "&lt;"
             : *text == '>' ? "&gt;"
             : *text == '"' ? "&#34;"
                            : one);
  }
}

static void put_size(lake_buffer *out, uint64_t bytes) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, bytes);
  put(out, text);
}

static void write_s3(lake_buffer *out, const wanted *list, size_t count, bool encoded, const char *token) {
  lki_arena arena;
  lki_arena_init(&arena, fuzz_env());
  put(out, "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
  if (encoded) put(out, "<EncodingType>url</EncodingType>");
  for (size_t i = 0; i < count; i++) {
    put(out, "<Contents><Key>");
    put_xml(out, encoded ? lki_percent_encode(&arena, list[i].name, true) : list[i].name);
    put(out, "</Key><Owner><ID>Key</ID></Owner><Size>");
    put_size(out, list[i].object_bytes);
    put(out, "</Size></Contents>");
  }
  put(out, token != NULL ? "<IsTruncated>true</IsTruncated><NextContinuationToken>"
                         : "<IsTruncated>false</IsTruncated>");
  if (token != NULL) put_xml(out, token), put(out, "</NextContinuationToken>");
  put(out, "</ListBucketResult>");
  lki_arena_free(&arena);
}

static void write_azure(lake_buffer *out, const wanted *list, size_t count, bool encoded, const char *token) {
  lki_arena arena;
  lki_arena_init(&arena, fuzz_env());
  put(out, "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults "
           "ServiceEndpoint=\"x\"><Blobs>");
  for (size_t i = 0; i < count; i++) {
    put(out, encoded ? "<Blob><Name Encoded=\"true\">" : "<Blob><Name>");
    put_xml(out, encoded ? lki_percent_encode(&arena, list[i].name, true) : list[i].name);
    put(out, "</Name><Properties><Content-Length>");
    put_size(out, list[i].object_bytes);
    put(out, "</Content-Length></Properties></Blob>");
  }
  put(out, "</Blobs><NextMarker>");
  if (token != NULL) put_xml(out, token);
  put(out, "</NextMarker></EnumerationResults>");
  lki_arena_free(&arena);
}

static void write_json(lake_buffer *out, const wanted *list, size_t count, const char *token) {
  lki_json *json = lki_json_new_object(), *items = lki_json_add_array(json, "items");
  bool good = items != NULL;
  for (size_t i = 0; i < count && good; i++) {
    lki_json *item = lki_json_add_object(items, NULL);
    good = lki_json_add_string(item, "name", list[i].name) != NULL &&
           lki_json_add_u64(item, "size", list[i].object_bytes) != NULL;
  }
  if (token != NULL) good = good && lki_json_add_string(json, "nextPageToken", token) != NULL;
  fuzz_expect(good && lki_json_print(json, false, out, NULL) == LAKE_OK, "JSON that cannot be written");
  lki_json_free(json);
}

static void check_written(const lki_dialect *dialect, lake_bytes body, const wanted *list, size_t count,
                          const char *token) {
  lake_error err = LAKE_ERROR_INIT;
  lki_listed page;
  const lki_ask ask = {.dialect = dialect, .verb = LKI_VERB_LIST, .name = "", .prefix = ""};
  page_init(&page);
  fuzz_expect(dialect->listed(&ask, body, &page, &err) == LAKE_OK, err.text);
  fuzz_expect(page.entries.bytes == count * sizeof(lki_entry), "more or fewer entries than were written");
  for (size_t i = 0; i < count; i++) {
    fuzz_expect(strcmp(entry_at(&page, i)->name, list[i].name) == 0, list[i].name);
    fuzz_expect(entry_at(&page, i)->object_bytes == list[i].object_bytes, "another size than was written");
  }
  const char *got = page.token != NULL && page.token[0] != 0 ? page.token : NULL;
  fuzz_expect(token == NULL ? got == NULL : got != NULL && strcmp(got, token) == 0,
              "another token than was written");
  page_free(&page);
}

static void try_written(const uint8_t *data, size_t bytes) {
  static wanted list[ENTRIES_MAX];
  const size_t count = make_wanted(data, bytes, list);
  const char *token = count > 1 ? list[count - 1].name : NULL;
  lake_buffer text;
  lki_buffer_init(&text, fuzz_env(), (size_t)1 << 20);
  for (int form = 0; form < 5; form++) {
    text.bytes = 0;
    if (form < 2) write_s3(&text, list, count, form == 1, token);
    if (form == 2 || form == 3) write_azure(&text, list, count, form == 3, token);
    if (form == 4) write_json(&text, list, count, token);
    check_written(form < 2   ? dialects[form]
                  : form < 4 ? &lki_dialect_azure
                             : &lki_dialect_gcs_json,
                  lki_buffer_view(&text), list, count, token);
  }
  if (count > 0) written++;
  lki_buffer_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  const lake_bytes body = {data, bytes};
  for (size_t i = 0; i < DIALECTS; i++) {
    try_listed(dialects[i], LKI_VERB_LIST, body);
    if (dialects[i]->uploads) try_listed(dialects[i], LKI_VERB_UPLOAD_LIST, body);
    try_fault(dialects[i], body);
    try_others(dialects[i], body);
  }
  try_written(data, bytes);
  fuzz_expect_nothing_left();
  return 0;
}

#ifndef LAKE_LIBFUZZER
int main(int argc, char **argv) {
  static const char *const texts[] = {
      "<?xml version=\"1.0\"?><ListBucketResult "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><IsTruncated>true"
      "</IsTruncated><NextContinuationToken>t</NextContinuationToken><EncodingType>url</"
      "EncodingType><Contents><Key>a%2Fb"
      "</Key><Size>12</Size></Contents><Contents><Key>c+d</Key><Size>07</Size></Contents></ListBucketResult>",
      "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k</"
      "NextKeyMarker><NextUploadIdMarker>u"
      "</NextUploadIdMarker><Upload><Key>k</Key><UploadId>u</UploadId></Upload></ListMultipartUploadsResult>",
      "\xef\xbb\xbf<EnumerationResults ServiceEndpoint=\"http://x/\"><Blobs><Blob><Name "
      "Encoded=\"true\">a%20b</Name>"
      "<Properties><Content-Length>3</Content-Length></Properties></Blob></Blobs><NextMarker>2!76!x</"
      "NextMarker>"
      "</EnumerationResults>",
      "{\"items\":[{\"name\":\"a\\u00e9/b\",\"size\":\"9223372036854775807\"},{\"name\":\"c\",\"size\":0}],"
      "\"nextPageToken\":\"CgFj\"}",
      "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
      "<EnumerationResults><Blobs><Blob><Name>a</Name><Properties><Content-Length>-1</Content-Length></Properties></Blob>"
      "</Blobs></EnumerationResults>",
      "<Error><Code>SlowDown</Code><Message>Please\nreduce</Message><Region>eu-west-1</Region></Error>",
      "\n <Error><Code>NoSuchBucket</Code><Message>The bucket does not exist</Message></Error>",
      "<?xml version=\"1.0\"?><Error><Code>BlobAlreadyExists</Code><Message>The specified "
      "blob\nRequestId:1</Message></Error>",
      "{\"error\":{\"code\":404,\"message\":\"The specified bucket does not "
      "exist.\",\"errors\":[{\"reason\":\"notFound\"}]}}",
      "{\"size\":\"12\",\"generation\":\"1\"}",
      "{\"versioning\":{\"enabled\":true}}",
      "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
      "<InitiateMultipartUploadResult><UploadId>2~x</UploadId></InitiateMultipartUploadResult>",
      NULL};
  int rc = fuzz_main_texts(argc, argv, texts);
  fprintf(stderr, "%lu pages, %lu errors, %lu sizes, %lu uploads; %lu pages written\n", pages, faults, sizes,
          uploads, written);
  fuzz_expect(argc > 1 || (pages > 200 && faults > 500 && sizes > 20 && uploads > 10 && written > 1000),
              "hardly any input was accepted");
  return rc;
}
#endif
