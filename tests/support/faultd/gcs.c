/* The GCS dialect: its XML API here, its JSON API in gcs_json.c, told apart by the path. What is not here is as in S3. Its condition is x-goog-if-generation-match: 0, it
 * ignores If-None-Match on what is put, and headers of the two kinds may not be mixed. */
#include "gcs_json.h"
#include "s3.h"
#include <string.h>

static void classify(const server *s, request *q) {
  if (gcs_json_is(q)) {
    gcs_json_classify(q);
    return;
  }
  const char *generation = request_header(q, "x-goog-if-generation-match");
  s3_classify(s, q, generation != NULL && strcmp(generation, "0") == 0);
}

static void answer(server *s, request *q, reply *r) {
  const char *generation = request_header(q, "x-goog-if-generation-match");
  if (gcs_json_is(q)) gcs_json_answer(s, q, r);
  else if (request_has_prefix(q, "x-amz-") && request_has_prefix(q, "x-goog-"))
    s3_error(q, r, 400, "ExcessHeaderValues", "Multiple header values where one was expected.");
  else if (q->op == OP_PUT && generation != NULL)
    s3_error(q, r, 501, "NotImplemented", "Only x-goog-if-generation-match: 0 is known to this double.");
  else s3_answer(s, q, r);
}

static void error(const request *q, reply *r, int status, const char *code, const char *message) {
  if (gcs_json_is(q)) gcs_json_error(r, status, code, message);
  else s3_error(q, r, status, code, message);
}

const dialect dialect_gcs = {
    .name = "gcs",
    .classify = classify,
    .answer = answer,
    .error = error,
    .refusals = {
        [REFUSE_BROKEN] = {500, "InternalError", "We encountered an internal error. Please try again."},
        [REFUSE_SLOWDOWN] = {503, "ServiceUnavailable", "Service unavailable. Please try again."},
        [REFUSE_THROTTLED] = {429, "SlowDown", "The object exceeded the rate limit for object mutation operations "
                                               "(create, update, and delete). Please reduce your request rate."},
        [REFUSE_UNDECIDED] = {409, "OperationAborted", "A conflicting conditional operation is currently in progress."},
        [REFUSE_TAKEN_409] = {409, "Conflict", "The object already exists."},
        [REFUSE_SKEWED] = {403, "RequestTimeTooSkewed", "The difference between the request time and the server's time is too large."},
        [REFUSE_EXPIRED] = {401, "AuthenticationRequired", "Authentication required: the access token has expired."},
        [REFUSE_ANONYMOUS] = {403, "AccessDenied", "Anonymous caller does not have access to this bucket."},
        [REFUSE_PERMISSION] = {403, "AccessDenied", "Access Denied"},
        [REFUSE_STRANGER] = {403, "InvalidSecurity", "The provided security credentials are not valid."},
        [REFUSE_SIGNATURE] = {403, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided."},
        [REFUSE_BODY_HASH] = {400, "InvalidArgument", "The body is not the one whose hash was signed."},
        [REFUSE_REGION] = {301, "PermanentRedirect", "The bucket must be addressed at another endpoint."},
    },
};
