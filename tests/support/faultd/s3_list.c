/* Listings, in the XML of S3 and GCS. */
#include "s3.h"
#include <stdlib.h>
#include <string.h>

#define PAGE_MAX 1000
#define NS "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""

static void put_name(text *t, const char *element, const char *name, bool url) {
  text_add(t, "<%s>", element);
  if (url) text_url(t, name, "/");
  else text_xml(t, name);
  text_add(t, "</%s>", element);
}

/* Continuation tokens are the hex of the last key: opaque, and harmless in a query. */
static char *token_key(const char *token) {
  const size_t bytes = strlen(token) / 2;
  char *key = must_alloc(bytes + 1);
  if (hex_decode(token, (unsigned char *)key, bytes) == bytes && bytes > 0) return key;
  free(key);
  return NULL;
}

static char *join(const char *bucket, const char *key) {
  text t = {0};
  text_add(&t, "%s/%s", bucket, key);
  return t.data;
}

static void put_rows(text *page, const table_rows *rows, size_t skip, bool url) {
  for (size_t i = 0; i < rows->count; i++) {
    const blob *object = rows->at[i].object;
    text_add(page, "<Contents>");
    put_name(page, "Key", rows->at[i].name + skip, url);
    text_add(page, "<LastModified>");
    text_date_iso(page, object->modified_unix_s);
    text_add(page, "</LastModified><ETag>&quot;%s&quot;</ETag><Size>%zu</Size><StorageClass>STANDARD</StorageClass></Contents>",
             object->etag, object->bytes);
  }
}

void s3_list(server *s, const request *q, reply *r) {
  const char *prefix = request_param(q, "prefix"), *after = request_param(q, "start-after");
  const char *token = request_param(q, "continuation-token"), *encoding = request_param(q, "encoding-type");
  const bool url = encoding != NULL && strcmp(encoding, "url") == 0;
  char *token_text = token != NULL ? token_key(token) : NULL;
  const char *list_type = request_param(q, "list-type");
  if ((token != NULL && token_text == NULL) || strcmp(list_type, "2") != 0) {
    s3_error(q, r, 400, "InvalidArgument", "The continuation token provided is incorrect");
    free(token_text);
    return;
  }
  if (request_param(q, "delimiter") != NULL) {
    s3_error(q, r, 501, "NotImplemented", "No delimiters in this double.");
    free(token_text);
    return;
  }
  if (token_text != NULL) after = token_text;
  char *full_prefix = join(q->bucket, prefix != NULL ? prefix : ""), *full_after = after != NULL ? join(q->bucket, after) : NULL;
  const size_t limit = page_limit(s, request_param(q, "max-keys"), PAGE_MAX);
  table_rows rows = table_list(s->objects, &(table_query){.prefix = full_prefix, .after = full_after, .max = limit, .undo = q->list_undo});
  const size_t skip = strlen(q->bucket) + 1;
  r->status = 200;
  reply_header(r, "Content-Type", "application/xml");
  text_add(&r->page, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult " NS ">");
  put_name(&r->page, "Name", q->bucket, false);
  put_name(&r->page, "Prefix", prefix != NULL ? prefix : "", url);
  text_add(&r->page, "<KeyCount>%zu</KeyCount><MaxKeys>%zu</MaxKeys>", rows.count, limit);
  if (url) text_add(&r->page, "<EncodingType>url</EncodingType>");
  text_add(&r->page, "<IsTruncated>%s</IsTruncated>", rows.more ? "true" : "false");
  if (rows.more && rows.count > 0) {
    const char *last = rows.at[rows.count - 1].name + skip;
    text_add(&r->page, "<NextContinuationToken>");
    text_hex(&r->page, last, strlen(last));
    text_add(&r->page, "</NextContinuationToken>");
  }
  put_rows(&r->page, &rows, skip, url);
  text_add(&r->page, "</ListBucketResult>");
  table_rows_free(&rows);
  free(full_prefix);
  free(full_after);
  free(token_text);
}

/* ---- uploads that are not finished ---- */

typedef struct upload_page {
  text *page;
  size_t skip;
} upload_page;

static void put_upload(void *ctx, const char *id, const char *name) {
  const upload_page *p = ctx;
  text_add(p->page, "<Upload>");
  put_name(p->page, "Key", name + p->skip, false);
  text_add(p->page, "<UploadId>%s</UploadId><Initiated>2026-01-01T00:00:00.000Z</Initiated></Upload>", id);
}

void s3_list_uploads(server *s, const request *q, reply *r) {
  const char *prefix = request_param(q, "prefix");
  char *full_prefix = join(q->bucket, prefix != NULL ? prefix : "");
  upload_page page = {&r->page, strlen(q->bucket) + 1};
  r->status = 200;
  reply_header(r, "Content-Type", "application/xml");
  text_add(&r->page, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListMultipartUploadsResult " NS ">");
  put_name(&r->page, "Bucket", q->bucket, false);
  put_name(&r->page, "Prefix", prefix != NULL ? prefix : "", false);
  text_add(&r->page, "<MaxUploads>1000</MaxUploads><IsTruncated>false</IsTruncated>");
  upload_each(s->objects, full_prefix, put_upload, &page);
  text_add(&r->page, "</ListMultipartUploadsResult>");
  free(full_prefix);
}
