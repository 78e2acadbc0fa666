/* The Azure dialect: block blobs at /account/container/blob, as emulators have it. A name that is taken is a 409
 * BlobAlreadyExists; there are no suffix ranges. */
#define _GNU_SOURCE
#include "s3.h"
#include <stdlib.h>
#include <string.h>

#define PAGE_MAX 5000
#define BLOCKS_MAX 50000
#define BLOCKS "blocks" /* the upload under which a blob's blocks are kept */

static void error(const request *q, reply *r, int status, const char *code, const char *message) {
  (void)q;
  r->status = status;
  reply_header(r, "Content-Type", "application/xml");
  reply_header(r, "x-ms-error-code", "%s", code);
  reply_header(r, "x-ms-version", "2021-12-02");
  text_add(&r->page, "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>%s</Code><Message>%s\nRequestId:faultd</Message></Error>",
           code, message);
}

static bool param_is(const request *q, const char *name, const char *value) {
  const char *got = request_param(q, name);
  return got != NULL && strcmp(got, value) == 0;
}

static void classify(const server *s, request *q) {
  (void)s;
  const char *account_end = strchr(q->path + 1, '/');
  const char *none = request_header(q, "if-none-match"), *m = q->method;
  const bool create = none != NULL && strcmp(none, "*") == 0;
  q->op = OP_OTHER;
  if (account_end == NULL || !request_split_path(q, account_end + 1)) return;
  if (*q->key == 0) {
    if (strcmp(m, "GET") == 0 && param_is(q, "comp", "list")) q->op = OP_LIST;
    return;
  }
  const char *comp = request_param(q, "comp");
  if (strcmp(m, "GET") == 0 && comp == NULL) q->op = OP_GET;
  else if (strcmp(m, "HEAD") == 0) q->op = OP_HEAD;
  else if (strcmp(m, "DELETE") == 0) q->op = OP_DELETE;
  else if (strcmp(m, "PUT") == 0 && comp == NULL) q->op = create ? OP_CREATE : OP_PUT;
  else if (strcmp(m, "PUT") == 0 && strcmp(comp, "blocklist") == 0) q->op = OP_COMPLETE;
  q->conditional = create && (q->op == OP_CREATE || q->op == OP_COMPLETE);
}

static void not_found(const request *q, reply *r) {
  error(q, r, 404, "BlobNotFound", "The specified blob does not exist.");
  r->missing = true;
}

static void stored(const request *q, reply *r, const blob *b) {
  text date = {0};
  (void)q;
  text_date_http(&date, b->modified_unix_s);
  r->status = 201;
  reply_header(r, "ETag", "\"%s\"", b->etag);
  reply_header(r, "Last-Modified", "%s", date.data);
  reply_header(r, "x-ms-request-server-encrypted", "true");
  text_free(&date);
}

static void put_whole(server *s, const request *q, reply *r, blob *b) {
  if (object_put(s, q, b)) {
    stored(q, r, b);
    return;
  }
  error(q, r, 409, "BlobAlreadyExists", "The specified blob already exists.");
  r->taken = true;
}

/* ---- blobs ---- */

static void get_blob(server *s, const request *q, reply *r) {
  const char *match = request_header(q, "if-match"), *none = request_header(q, "if-none-match");
  const char *ms_range = request_header(q, "x-ms-range"), *range = request_header(q, "range");
  blob *object = object_get(s, q);
  if (object == NULL) {
    not_found(q, r);
    return;
  }
  if (ms_range != NULL && strncmp(ms_range, "bytes=-", 7) == 0) {
    error(q, r, 400, "InvalidHeaderValue", "The value for one of the HTTP headers is not in the correct format.");
  } else if (match != NULL && !etag_fits(match, object)) {
    error(q, r, 412, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met.");
  } else if (none != NULL && etag_fits(none, object)) {
    r->status = 304;
  } else {
    if (ms_range != NULL) range = ms_range;
    else if (range != NULL && strncmp(range, "bytes=-", 7) == 0) range = NULL; /* ignored: the whole blob */
    if (q->op == OP_HEAD) range = NULL;
    stored(q, r, object);
    reply_header(r, "x-ms-blob-type", "BlockBlob");
    reply_header(r, "x-ms-version", "2021-12-02");
    reply_header(r, "Accept-Ranges", "bytes");
    reply_header(r, "Content-Type", "application/octet-stream");
    if (object_send(q, r, object, range)) return;
    error(q, r, 416, "InvalidRange", "The range specified is invalid for the current size of the resource.");
    return;
  }
  blob_drop(object);
}

static void put_blob(server *s, const request *q, reply *r) {
  const char *type = request_header(q, "x-ms-blob-type");
  if (type == NULL) error(q, r, 400, "MissingRequiredHeader", "x-ms-blob-type is mandatory for this request.");
  else if (strcmp(type, "BlockBlob") != 0) error(q, r, 400, "InvalidHeaderValue", "This double knows block blobs only.");
  else if (request_header(q, "content-length") == NULL)
    error(q, r, 411, "MissingContentLengthHeader", "Content-Length is mandatory.");
  else put_whole(s, q, r, q->body);
}

static void put_block(server *s, const request *q, reply *r) {
  const char *id = request_param(q, "blockid");
  unsigned char decoded[96];
  if (id == NULL || strlen(id) > 128 || base64_decode(id, decoded, sizeof decoded) == 0) {
    error(q, r, 400, "InvalidQueryParameterValue", "A block id is the base64 of at most 64 bytes.");
    return;
  }
  upload_part(s->objects, BLOCKS, q->name, id, q->body, false);
  r->status = 201;
}

static void put_block_list(server *s, const request *q, reply *r) {
  char *body = must_copy((const char *)q->body->data, q->body->bytes), *id = NULL;
  blob **blocks = must_alloc(BLOCKS_MAX * sizeof *blocks);
  size_t count = 0;
  bool good = true;
  for (const char *at = body; good && count < BLOCKS_MAX; free(id)) {
    id = xml_next(&at, "Latest");
    if (id == NULL) id = xml_next(&at, "Uncommitted");
    if (id == NULL) break;
    blob *b = upload_get(s->objects, BLOCKS, q->name, id);
    good = b != NULL;
    if (good) blocks[count++] = b;
  }
  if (good) {
    blob *whole = blob_join(blocks, count);
    put_whole(s, q, r, whole);
    blob_drop(whole);
  } else {
    for (size_t i = 0; i < count; i++) blob_drop(blocks[i]);
    error(q, r, 400, "InvalidBlockList", "The specified block list is invalid.");
  }
  free(blocks);
  free(body);
}

/* ---- containers ---- */

static void put_element(text *t, const char *name, const char *value) {
  text_add(t, "<%s>", name);
  text_xml(t, value);
  text_add(t, "</%s>", name);
}

/* XML 1.0 cannot hold control characters: such a name is sent encoded and says so. */
static void put_name(text *t, const char *name) {
  bool plain = true;
  for (const char *at = name; *at; at++) plain = plain && (unsigned char)*at >= 0x20;
  if (plain) {
    put_element(t, "Name", name);
    return;
  }
  text_add(t, "<Name Encoded=\"true\">");
  text_url(t, name, "/");
  text_add(t, "</Name>");
}

static void put_rows(text *page, const table_rows *rows, size_t skip) {
  text_add(page, "<Blobs>");
  for (size_t i = 0; i < rows->count; i++) {
    const blob *object = rows->at[i].object;
    text_add(page, "<Blob>");
    put_name(page, rows->at[i].name + skip);
    text_add(page, "<Properties><Last-Modified>");
    text_date_http(page, object->modified_unix_s);
    text_add(page, "</Last-Modified><Etag>%s</Etag><Content-Length>%zu</Content-Length><BlobType>BlockBlob</BlobType>"
                   "</Properties></Blob>", object->etag, object->bytes);
  }
  text_add(page, "</Blobs>");
}

static void list(server *s, const request *q, reply *r) {
  const char *prefix = request_param(q, "prefix"), *marker = request_param(q, "marker");
  const char *from = request_param(q, "startFrom"); /* the first name that may come, itself included */
  text full_prefix = {0}, full_from = {0}, full_after = {0};
  text_add(&full_prefix, "%s/%s", q->bucket, prefix != NULL ? prefix : "");
  if (from != NULL) text_add(&full_from, "%s/%s", q->bucket, from);
  if (marker != NULL && *marker) {
    char *last = must_alloc(strlen(marker) / 2 + 1);
    hex_decode(marker, (unsigned char *)last, strlen(marker) / 2);
    text_add(&full_after, "%s/%s", q->bucket, last);
    free(last);
  }
  const size_t limit = page_limit(s, request_param(q, "maxresults"), PAGE_MAX), skip = strlen(q->bucket) + 1;
  table_rows rows = table_list(s->objects, &(table_query){full_prefix.data, full_after.data, full_from.data, limit, q->list_undo});
  r->status = 200;
  reply_header(r, "Content-Type", "application/xml");
  text_add(&r->page, "<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"http://127.0.0.1/\" ContainerName=\"");
  text_xml(&r->page, q->bucket);
  text_add(&r->page, "\">");
  put_element(&r->page, "Prefix", prefix != NULL ? prefix : "");
  put_element(&r->page, "Marker", marker != NULL ? marker : "");
  text_add(&r->page, "<MaxResults>%zu</MaxResults>", limit);
  put_rows(&r->page, &rows, skip);
  text_add(&r->page, "<NextMarker>");
  if (rows.more && rows.count > 0) {
    const char *last = rows.at[rows.count - 1].name + skip;
    text_hex(&r->page, last, strlen(last));
  }
  text_add(&r->page, "</NextMarker></EnumerationResults>");
  table_rows_free(&rows);
  text_free(&full_prefix);
  text_free(&full_from);
  text_free(&full_after);
}

static void answer_container(server *s, request *q, reply *r) {
  if (strcmp(q->bucket, "no-such-container") == 0)
    error(q, r, 404, "ContainerNotFound", "The specified container does not exist.");
  else if (!param_is(q, "restype", "container"))
    error(q, r, 400, "InvalidQueryParameterValue", "restype=container is missing.");
  else if (q->op == OP_LIST && request_param(q, "delimiter") == NULL) list(s, q, r);
  else if (q->op == OP_LIST) error(q, r, 400, "UnsupportedQueryParameter", "No delimiters in this double.");
  else r->status = strcmp(q->method, "PUT") == 0 ? 201 : strcmp(q->method, "DELETE") == 0 ? 202 : 200;
}

static void answer(server *s, request *q, reply *r) {
  const char *comp = request_param(q, "comp");
  if (request_header(q, "x-ms-version") == NULL && request_param(q, "sv") == NULL)
    error(q, r, 400, "MissingRequiredHeader", "x-ms-version is mandatory for this request.");
  else if (q->name == NULL) error(q, r, 400, "InvalidUri", "The requested URI does not represent any resource on the server.");
  else if (*q->key == 0 || strcmp(q->bucket, "no-such-container") == 0) answer_container(s, q, r);
  else if (q->op == OP_GET || q->op == OP_HEAD) get_blob(s, q, r);
  else if (q->op == OP_COMPLETE) put_block_list(s, q, r);
  else if (q->op == OP_PUT || q->op == OP_CREATE) put_blob(s, q, r);
  else if (strcmp(q->method, "PUT") == 0 && strcmp(comp, "block") == 0) put_block(s, q, r);
  else if (q->op != OP_DELETE) error(q, r, 400, "UnsupportedHttpVerb", "Not known to this double.");
  else if (table_remove(s->objects, q->name)) r->status = 202;
  else not_found(q, r);
}

const dialect dialect_azure = {
    .name = "azure",
    .classify = classify,
    .answer = answer,
    .error = error,
    .refusals = {
        [REFUSE_BROKEN] = {500, "InternalError", "The server encountered an internal error. Please retry the request."},
        [REFUSE_SLOWDOWN] = {503, "ServerBusy", "The server is currently unable to receive requests. Please retry your request."},
        [REFUSE_THROTTLED] = {429, "TooManyRequests", "Too many requests have been received."},
        [REFUSE_UNDECIDED] = {409, "SystemInUse", "The specified blob is in use by the system."},
        [REFUSE_TAKEN_409] = {409, "BlobAlreadyExists", "The specified blob already exists."},
        [REFUSE_SKEWED] = {403, "AuthenticationFailed", "Server failed to authenticate the request: the date header is too old or too new."},
        [REFUSE_EXPIRED] = {401, "InvalidAuthenticationInfo", "Lifetime validation failed. The token is expired."},
        [REFUSE_ANONYMOUS] = {401, "NoAuthenticationInformation", "Server failed to authenticate the request."},
        [REFUSE_STRANGER] = {403, "AuthenticationFailed", "Server failed to authenticate the request: the account is not known."},
        [REFUSE_SIGNATURE] = {403, "AuthenticationFailed", "Server failed to authenticate the request. Make sure the value of the "
                                                           "Authorization header is formed correctly including the signature."},
        [REFUSE_BODY_HASH] = {400, "Md5Mismatch", "The body is not the one that was told."},
        [REFUSE_REGION] = {400, "InvalidUri", "Wrong endpoint."},
        [REFUSE_TIMES] = {403, "AuthenticationFailed", "Signature not valid in the specified time frame."},
        [REFUSE_RESOURCE] = {403, "AuthorizationResourceTypeMismatch", "This request is not authorized to perform this "
                                                                       "operation using this resource type."},
        [REFUSE_PERMISSION] = {403, "AuthorizationPermissionMismatch", "This request is not authorized to perform this "
                                                                       "operation using this permission."},
    },
};
