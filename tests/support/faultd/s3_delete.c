/* The deletion of many objects with one request, as S3 has it: at most 1,000, with a Content-MD5 or another checksum,
 * quietly or not, and with errors of single keys in a reply that is a 200 all the same. */
#include "s3.h"
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX 1000

static void put_element(text *t, const char *element, const char *value) {
  text_add(t, "<%s>", element);
  text_xml(t, value);
  text_add(t, "</%s>", element);
}

/* Whether this key is to fail, its code, and the name under which that is told: the fault's argument is CODE:PART-OF-THE-KEY,
 * or ?CODE:PART where the name is one that nobody has asked about. */
static bool key_fails(const request *q, const char *key, text *code, text *told) {
  const char *colon = q->key_fault != NULL ? strchr(q->key_fault, ':') : NULL;
  if (colon == NULL || strstr(key, colon + 1) == NULL) return false;
  const bool other = *q->key_fault == '?';
  text_put(code, q->key_fault + other, (size_t)(colon - q->key_fault) - other);
  text_add(told, "%s%s", key, other ? "-" : "");
  return true;
}

static void delete_one(server *s, const request *q, reply *r, const char *key, bool quiet) {
  text name = {0}, code = {0}, told = {0};
  text_add(&name, "%s/%s", q->bucket, key);
  if (key_fails(q, key, &code, &told)) {
    text_add(&r->page, "<Error>");
    put_element(&r->page, "Key", told.data);
    put_element(&r->page, "Code", code.data);
    put_element(&r->page, "Message", "This key was told to fail.");
    text_add(&r->page, "</Error>");
  } else {
    table_remove(s->objects, name.data);
    if (!quiet) {
      text_add(&r->page, "<Deleted>");
      put_element(&r->page, "Key", key);
      text_add(&r->page, "</Deleted>");
    }
  }
  text_free(&name);
  text_free(&code);
  text_free(&told);
}

static size_t key_count(const char *body) {
  size_t count = 0;
  for (char *key; (key = xml_next(&body, "Key")) != NULL; count++) free(key);
  return count;
}

static bool refused(const server *s, const request *q, reply *r) {
  const int status = s3_is_gcs(s) ? 501 : s->options.no_delete_many;
  if (status != 0) /* three ways in which servers say that they do not know it */
    s3_error(q, r, status, status == 400 ? "InvalidArgument" : status == 405 ? "MethodNotAllowed" : "NotImplemented",
             "Objects are deleted one by one here.");
  else if (request_header(q, "content-md5") == NULL && !request_has_prefix(q, "x-amz-checksum-"))
    s3_error(q, r, 400, "InvalidRequest", "Missing required header for this request: Content-MD5 OR x-amz-checksum-*");
  else if (!s3_md5_fits(q))
    s3_error(q, r, 400, "BadDigest", "The Content-MD5 you specified did not match what we received.");
  else
    return false;
  return true;
}

void s3_delete_many(server *s, const request *q, reply *r) {
  if (refused(s, q, r)) return;
  char *body = must_copy((const char *)q->body->data, q->body->bytes);
  const char *at = body;
  const size_t count = key_count(body);
  if (strstr(body, "<Delete") == NULL || strstr(body, "</Delete>") == NULL || count == 0 || count > KEYS_MAX) {
    s3_error(q, r, 400, "MalformedXML", "The XML you provided was not well-formed or did not validate against our schema");
    free(body);
    return;
  }
  char *quiet = xml_next(&at, "Quiet");
  r->status = 200;
  reply_header(r, "Content-Type", "application/xml");
  text_add(&r->page, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                     "<DeleteResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
  at = body;
  for (char *key; (key = xml_next(&at, "Key")) != NULL; free(key))
    delete_one(s, q, r, key, quiet != NULL && strcmp(quiet, "true") == 0);
  text_add(&r->page, "</DeleteResult>");
  free(quiet);
  free(body);
}
