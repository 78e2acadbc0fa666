/* Multipart uploads in the XML of S3 and GCS. */
#include "s3.h"
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 10000
#define NS "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""

static void no_such_upload(const request *q, reply *r) {
  s3_error(q, r, 404, "NoSuchUpload", "The specified multipart upload does not exist. The upload ID might be invalid.");
}

void s3_upload_begin(server *s, const request *q, reply *r) {
  char id[64];
  upload_begin(s->objects, q->name, id, sizeof id);
  r->status = 200;
  reply_header(r, "Content-Type", "application/xml");
  text_add(&r->page, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<InitiateMultipartUploadResult " NS "><Bucket>");
  text_xml(&r->page, q->bucket);
  text_add(&r->page, "</Bucket><Key>");
  text_xml(&r->page, q->key);
  text_add(&r->page, "</Key><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id);
}

void s3_upload_part(server *s, const request *q, reply *r) {
  const char *number = request_param(q, "partNumber");
  const long n = number != NULL ? strtol(number, NULL, 10) : 0;
  if (n < 1 || n > PARTS_MAX) {
    s3_error(q, r, 400, "InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive");
    return;
  }
  char label[32];
  snprintf(label, sizeof label, "%ld", n);
  if (q->body->etag[0] == 0) blob_seal(q->body);
  if (!upload_part(s->objects, request_param(q, "uploadId"), q->name, label, q->body, true)) {
    no_such_upload(q, r);
    return;
  }
  r->status = 200;
  reply_header(r, "ETag", "\"%s\"", q->body->etag);
}

/* S3's ETag of a whole: the MD5 of the parts' MD5s, and their number. */
static void seal_whole(blob *whole, const text *digests, size_t count) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned bytes = 0;
  text hex = {0};
  EVP_Digest(digests->data, digests->bytes, digest, &bytes, EVP_md5(), NULL);
  text_hex(&hex, digest, 16);
  snprintf(whole->etag, sizeof whole->etag, "%.32s-%zu", hex.data, count);
  text_free(&hex);
}

/* Gathers the parts that the body names, in order. NULL with r filled when they do not make an object. */
static blob *assemble(server *s, const request *q, reply *r, const char *body) {
  blob **parts = must_alloc(PARTS_MAX * sizeof(blob *)), *whole = NULL;
  size_t count = 0;
  text digests = {0};
  const char *code = NULL, *at = body;
  long last = 0;
  for (char *part; code == NULL && count < PARTS_MAX && (part = xml_next(&at, "Part")) != NULL; free(part)) {
    const char *number_at = part, *etag_at = part;
    char *number = xml_next(&number_at, "PartNumber"), *etag = xml_next(&etag_at, "ETag");
    blob *b = number != NULL ? upload_get(s->objects, request_param(q, "uploadId"), q->name, number) : NULL;
    if (b == NULL || etag == NULL || !etag_fits(etag, b)) code = "InvalidPart";
    else if (strtol(number, NULL, 10) <= last) code = "InvalidPartOrder";
    else if (count > 0 && parts[count - 1]->bytes < s->options.part_min) code = "EntityTooSmall";
    if (b != NULL) {
      unsigned char digest[16];
      hex_decode(b->etag, digest, sizeof digest);
      text_put(&digests, digest, sizeof digest);
      parts[count++] = b;
      last = strtol(number, NULL, 10);
    }
    free(number);
    free(etag);
  }
  if (code == NULL && count == 0) code = "MalformedXML";
  if (code == NULL) {
    whole = blob_join(parts, count);
    seal_whole(whole, &digests, count);
  } else {
    for (size_t i = 0; i < count; i++) blob_drop(parts[i]);
    s3_error(q, r, 400, code, "The list of parts does not make an object.");
  }
  text_free(&digests);
  free(parts);
  return whole;
}

void s3_upload_complete(server *s, const request *q, reply *r) {
  const char *id = request_param(q, "uploadId");
  if (!upload_exists(s->objects, id, q->name)) {
    no_such_upload(q, r);
    return;
  }
  char *body = must_copy((const char *)q->body->data, q->body->bytes);
  blob *whole = assemble(s, q, r, body);
  if (whole != NULL && !object_put(s, q, whole)) {
    s3_taken(q, r);
  } else if (whole != NULL) {
    upload_end(s->objects, id, q->name);
    r->status = 200;
    reply_header(r, "Content-Type", "application/xml");
    text_add(&r->page, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<CompleteMultipartUploadResult " NS "><Bucket>");
    text_xml(&r->page, q->bucket);
    text_add(&r->page, "</Bucket><Key>");
    text_xml(&r->page, q->key);
    text_add(&r->page, "</Key><ETag>&quot;%s&quot;</ETag></CompleteMultipartUploadResult>", whole->etag);
  }
  blob_drop(whole);
  free(body);
}

void s3_upload_abort(server *s, const request *q, reply *r) {
  if (upload_end(s->objects, request_param(q, "uploadId"), q->name)) r->status = 204;
  else no_such_upload(q, r);
}
