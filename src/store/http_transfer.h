/* One call as one libcurl transfer: what is asked, what is accepted of the reply, what an outcome means. It
 * knows nothing of queues and threads: whoever owns the multi handle begins it, adds it, and ends it, on one
 * thread. */
#ifndef LKI_STORE_HTTP_TRANSFER_H
#define LKI_STORE_HTTP_TRANSFER_H

#include "store/http_reply.h"
#include <curl/curl.h>

#define LKI_HTTP_TEXT_READ_MAX ((uint64_t)1 << 20) /* of a body that does not go to the sink */

typedef struct lki_http_transfer {
  lake_env *env;
  lki_http_call *call;
  lki_http_head head;
  struct curl_slist *headers; /* the call's, in libcurl's form; NULL-terminated, in `block` */
  void *block;
  const char *ca_file;    /* for people: NULL: the system's */
  CURL *easy;             /* while it runs */
  uint64_t charged_bytes; /* of the budget */
  void (*charge)(struct lki_http_transfer *transfer,
                 uint64_t bytes); /* the reply is that much larger than charged */
  uint64_t want_bytes;            /* the length of the body, once the head told; UINT64_MAX: chunked */
  uint64_t got_bytes;
  size_t given_bytes; /* of the request's body, to libcurl */
  size_t sink_bytes;  /* of the sink before */
  bool to_sink;
  uint32_t send_count; /* how often the request may have gone out */
  lake_status refused; /* what the callbacks found, with `why`; OK: nothing */
  lake_error why;
  char curl_text[CURL_ERROR_SIZE];
} lki_http_transfer;

/* Checks the request and puts its headers into libcurl's form. INVALID, NOMEM. Any thread. */
lake_status lki_http_transfer_open(lki_http_transfer *transfer, lake_env *env, lki_http_call *call,
                                   lake_error *err);
void lki_http_transfer_close(lki_http_transfer *transfer);

/* A handle with all that is the same for every call. NULL: no memory. */
CURL *lki_http_easy_open(const lki_http_options *options, CURLSH *share);
/* Sets the handle up for this call. False: no memory. */
bool lki_http_transfer_begin(lki_http_transfer *transfer, CURL *easy);
/* The handle has been removed from its multi handle: sets the call's status, reply and error. */
void lki_http_transfer_end(lki_http_transfer *transfer, CURLcode code);
/* As end, where it did not come to an end by itself or did not even begin. */
void lki_http_transfer_stop(lki_http_transfer *transfer, lake_status status, const char *why);

/* "scheme://host:port" of a URL as bytes at its beginning; 0: it is none for us. */
size_t lki_http_origin_bytes(const char *url);

#endif
