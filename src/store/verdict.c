/* The truth table of replies, for all dialects. Two columns matter: a read that did not deliver may be asked
 * again (UNAVAILABLE); a write whose reply does not tell may have been carried out (UNCERTAIN), and only what
 * a server answers before it looks at the object is a plain no. Pure. */
#include "base/error.h"
#include "store/cloud.h"
#include <string.h>

static bool is_write(lki_verb verb) {
  return verb == LKI_VERB_PUT || verb == LKI_VERB_CREATE || verb == LKI_VERB_REMOVE || verb == LKI_VERB_REMOVE_MANY ||
         verb == LKI_VERB_UPLOAD_PART || verb == LKI_VERB_UPLOAD_COMPLETE;
}

static bool is_one_of(const char *code, const char *const *codes) {
  for (; *codes != NULL; codes++)
    if (strcmp(code, *codes) == 0) return true;
  return false;
}

static const char *const expired_codes[] = {"ExpiredToken",
                                            "ExpiredTokenException",
                                            "TokenRefreshRequired",
                                            "InvalidToken",
                                            "InvalidAccessKeyId",
                                            "InvalidAuthenticationInfo",
                                            NULL};
static const char *const skew_codes[] = {"RequestTimeTooSkewed", "RequestExpired", NULL};
static const char *const region_codes[] = {"PermanentRedirect",
                                           "TemporaryRedirect",
                                           "AuthorizationHeaderMalformed",
                                           "IncorrectEndpoint",
                                           "IllegalLocationConstraintException",
                                           NULL};
/* A body or a header was damaged on the way, or came too slowly: nothing was done. */
static const char *const damaged_codes[] = {"BadDigest",
                                            "InvalidDigest",
                                            "IncompleteBody",
                                            "RequestTimeout",
                                            "Md5Mismatch", "InvalidPart", "InvalidBlockList",
                                            "XAmzContentSHA256Mismatch",
                                            NULL};
static const char *const no_bucket_codes[] = {"NoSuchBucket", "ContainerNotFound", "InvalidBucketName", NULL};

/* Of these the status line says all; of the other refusals the body says which one it is. */
static bool line_tells(int status) {
  return status == 304 || status == 412 || status == 416 || status == 429 || status >= 500;
}

static lki_verdict give(lake_status status, unsigned mend) {
  return (lki_verdict){status, mend};
}

/* "HTTP 503 SlowDown: Please reduce your request rate. (request tx0000…)". Signatures and tokens are never in
 * these. */
static lki_verdict say(const lki_ask *ask, lake_status status, unsigned mend, const char *why,
                       const lki_http_reply *reply, const lki_fault *fault, lake_error *err) {
  (void)ask;
  const bool named = reply->request_id[0] != 0;
  lki_fail(err, status, "%s%sHTTP %d%s%s%s%.160s%s%s%s", why, why[0] ? ": " : "", reply->status,
           fault->code[0] ? " " : "", fault->code, fault->message[0] ? ": " : "", fault->message,
           named ? " (request " : "", reply->request_id, named ? ")" : "");
  return give(status, mend);
}

/* No whole reply came, or not the one that was asked for. */
static lki_verdict unanswered(const lki_ask *ask, lake_status sent, const lki_http_reply *reply,
                              lake_error *err) {
  if (ask->verb == LKI_VERB_GET && ask->range.kind == LAKE_RANGE_EXACT && reply->status == 206 &&
      reply->has_range && reply->range_total != UINT64_MAX &&
      reply->range_total < ask->range.offset + ask->range.bytes) {
    lki_fail(err, LAKE_CORRUPT, "the object is shorter: it has %llu bytes, %llu from %llu were asked",
             (unsigned long long)reply->range_total, (unsigned long long)ask->range.bytes,
             (unsigned long long)ask->range.offset);
    return give(LAKE_CORRUPT, 0);
  }
  if (is_write(ask->verb) && reply->sent && sent != LAKE_CORRUPT &&
      !(sent == LAKE_TIMEOUT && ask->verb != LKI_VERB_CREATE)) {
    lki_error_prefix(err, "no certain answer");
    if (err != NULL) err->status = LAKE_UNCERTAIN;
    return give(LAKE_UNCERTAIN, 0);
  }
  if (err != NULL) err->status = sent;
  return give(sent, 0);
}

static bool is_good(const lki_ask *ask, int status) {
  switch (ask->verb) {
  case LKI_VERB_GET:
    return status == (ask->range.kind == LAKE_RANGE_WHOLE ? 200 : 206);
  case LKI_VERB_PUT:
  case LKI_VERB_CREATE:
  case LKI_VERB_UPLOAD_PART:
  case LKI_VERB_UPLOAD_COMPLETE:
    return status == 200 || status == 201;
  case LKI_VERB_REMOVE:
    return status == 200 || status == 202 || status == 204;
  case LKI_VERB_UPLOAD_ABORT:
    return status == 200 || status == 204;
  case LKI_VERB_REMOVE_MANY:
  case LKI_VERB_HEAD:
  case LKI_VERB_LIST:
  case LKI_VERB_VERSIONING:
  case LKI_VERB_UPLOAD_BEGIN:
  case LKI_VERB_UPLOAD_LIST:
    return status == 200;
  }
  return false;
}

/* The precondition of a create, or of a read by tag, does not hold. */
static lki_verdict precondition(const lki_ask *ask, const lki_http_reply *reply, const lki_fault *fault,
                                lake_error *err) {
  if (ask->verb == LKI_VERB_CREATE) {
    lki_fail(err, LAKE_EXISTS, "an object with this key exists");
    return give(LAKE_EXISTS, 0);
  }
  if (ask->verb == LKI_VERB_GET)
    return say(ask, LAKE_UNAVAILABLE, 0, "the object was replaced while it was read", reply, fault, err);
  return say(ask, is_write(ask->verb) ? LAKE_UNCERTAIN : LAKE_UNAVAILABLE, 0, "", reply, fault, err);
}

static lki_verdict conflict(const lki_ask *ask, const lki_http_reply *reply, const lki_fault *fault,
                            lake_error *err) {
  const char *taken = ask->dialect->taken_code;
  if (taken != NULL && strcmp(fault->code, taken) == 0) return precondition(ask, reply, fault, err);
  return say(ask, is_write(ask->verb) ? LAKE_UNCERTAIN : LAKE_UNAVAILABLE, 0, "undecided", reply, fault, err);
}

static lki_verdict missing(const lki_ask *ask, const char *bucket, const lki_http_reply *reply,
                           const lki_fault *fault, lake_error *err) {
  if (ask->verb == LKI_VERB_CREATE && strcmp(fault->code, "NoSuchKey") == 0) /* a delete came between */
    return say(ask, LAKE_UNCERTAIN, 0, "undecided", reply, fault, err);
  if (ask->verb == LKI_VERB_REMOVE_MANY && !is_one_of(fault->code, no_bucket_codes))
    return say(ask, LAKE_UNSUPPORTED, 0, "the store does not know the request", reply, fault, err);
  const bool whole = ask->name[0] == 0 || ask->verb == LKI_VERB_PUT || ask->verb == LKI_VERB_CREATE ||
                     ask->verb == LKI_VERB_UPLOAD_BEGIN || is_one_of(fault->code, no_bucket_codes);
  if (whole) {
    lki_fail(err, LAKE_INVALID, "there is no %s \"%.80s\" (HTTP 404 %s); create it, or correct the URL",
             ask->dialect->place, bucket, fault->code);
    return give(LAKE_INVALID, 0);
  }
  if (ask->verb == LKI_VERB_REMOVE || ask->verb == LKI_VERB_UPLOAD_ABORT) return give(LAKE_OK, 0);
  if (ask->verb == LKI_VERB_UPLOAD_PART || ask->verb == LKI_VERB_UPLOAD_COMPLETE)
    return say(ask, LAKE_UNCERTAIN, 0, "the upload is gone", reply, fault, err);
  lki_fail(err, LAKE_NOTFOUND, "no such object");
  return give(LAKE_NOTFOUND, 0);
}

/* 400, 401, 403 and redirections: refused before the object was looked at. */
static lki_verdict refused(const lki_ask *ask, const lki_http_reply *reply, const lki_fault *fault,
                           lake_error *err) {
  unsigned mend = 0;
  const int status = reply->status;
  if (ask->dialect->region &&
      (is_one_of(fault->code, region_codes) || reply->region[0] != 0 || fault->region[0] != 0))
    mend |= LKI_MEND_REGION;
  if (status == 403 || is_one_of(fault->code, skew_codes)) mend |= LKI_MEND_SKEW;
  if (status == 401 || is_one_of(fault->code, expired_codes)) mend |= LKI_MEND_CREDENTIALS;
  if (status < 400) {
    const bool transient = status == 307 || status == 503;
    return say(ask, transient ? LAKE_UNAVAILABLE : LAKE_INVALID, mend,
               transient ? "redirected"
                         : "redirected, which is not followed; correct the endpoint or the region",
               reply, fault, err);
  }
  if (is_one_of(fault->code, damaged_codes)) return say(ask, LAKE_UNAVAILABLE, mend, "", reply, fault, err);
  if (is_one_of(fault->code, no_bucket_codes)) return say(ask, LAKE_INVALID, mend, "", reply, fault, err);
  if (status == 401 || status == 403 || is_one_of(fault->code, expired_codes) ||
      is_one_of(fault->code, skew_codes))
    return say(ask, LAKE_DENIED, mend, "access denied", reply, fault, err);
  /* Who does not know it says 405, or, as Google does, 400 InvalidArgument; who wants it otherwise, a 400 of many names.
   * Removing one by one is right in each case. */
  if (ask->verb == LKI_VERB_REMOVE_MANY && !is_one_of(fault->code, region_codes))
    return say(ask, LAKE_UNSUPPORTED, mend, "the store does not know the request", reply, fault, err);
  return say(ask, LAKE_INVALID, mend, "the store does not accept the request", reply, fault, err);
}

/* A good status line, and yet: an error stands in the body, or may stand in that part of it which was not kept. */
static bool is_spoilt(const lki_ask *ask, const lki_http_reply *reply, const lki_fault *fault) {
  if (ask->sink != NULL || ask->verb == LKI_VERB_GET) return false;
  if (fault->code[0] != 0) return true;
  const char *mark = ask->verb == LKI_VERB_UPLOAD_COMPLETE ? ask->dialect->upload_done
                     : ask->verb == LKI_VERB_PUT || ask->verb == LKI_VERB_CREATE ? ask->dialect->put_done
                                                                                  : NULL;
  const bool cut = reply->body_bytes > reply->text_bytes;
  return cut && (mark == NULL || strstr(reply->text, mark) == NULL);
}

lki_verdict lki_verdict_of(const lki_ask *ask, const char *bucket, lake_status sent,
                           const lki_http_reply *reply, const lki_fault *fault, lake_error *err) {
  const int status = reply->status;
  const lake_status doubtful = is_write(ask->verb) ? LAKE_UNCERTAIN : LAKE_UNAVAILABLE;
  if (status == 0 || (sent != LAKE_OK && status < 300)) return unanswered(ask, sent, reply, err);
  if (sent != LAKE_OK && fault->code[0] == 0 && !line_tells(status)) return unanswered(ask, sent, reply, err);
  if (is_good(ask, status)) {
    if (!is_spoilt(ask, reply, fault)) return give(LAKE_OK, 0);
    return say(ask, doubtful, 0, fault->code[0] ? "an error inside a good reply" : "a good reply too long to be read", reply,
               fault, err);
  }
  switch (status) {
  case 304:
  case 412:
    return precondition(ask, reply, fault, err);
  case 404:
    return missing(ask, bucket, reply, fault, err);
  case 409:
    return conflict(ask, reply, fault, err);
  case 416:
    return say(ask, LAKE_CORRUPT, 0, "the object is shorter than what was asked of it", reply, fault, err);
  case 429:
    return say(ask, LAKE_UNAVAILABLE, 0, "too many requests", reply, fault, err);
  case 408:
    return say(ask, doubtful, 0, "", reply, fault, err);
  case 501:
    return say(ask, LAKE_UNSUPPORTED, 0, "the store cannot do this", reply, fault, err);
  default:
    break;
  }
  if (status >= 300 && status < 500) return refused(ask, reply, fault, err);
  return say(ask, doubtful, 0, status < 300 ? "an answer that was not expected" : "", reply, fault, err);
}
