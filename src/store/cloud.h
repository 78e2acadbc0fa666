/* What the stores behind an HTTP API share: settings, engine, credentials, what was learned from replies
 * (clock skew, region, when to come back), and the way of one request: sign, send, judge, mend once what can
 * be mended, send again. A dialect (s3.c, gcs.c, azure.c) says how a request is written and a reply is read;
 * it keeps no state. What a status line means is in verdict.c, for all three. Safe from any thread. */
#ifndef LKI_STORE_CLOUD_H
#define LKI_STORE_CLOUD_H

#include "base/env.h"
#include "store/credentials.h"
#include "store/http.h"
#include "store/request.h"
#include "store/settings.h"
#include "store/sign.h"
#include "store/store.h"
#include <stdatomic.h>

/* url: canonical, "s3://bucket/prefix?…". Fills *ops and *self, as the openers of store/store.h. */
lake_status lki_store_cloud_open(lake_env *env, const char *url, const lake_store_ops **ops, void **self,
                                 lake_error *err);

/* ---- one request, before it is written in a dialect ---- */

#define LKI_OBJECT_NAME_BYTES_MAX 1024 /* what all three accept */

typedef enum lki_verb {
  LKI_VERB_GET,
  LKI_VERB_HEAD,
  LKI_VERB_PUT,
  LKI_VERB_CREATE, /* if absent */
  LKI_VERB_REMOVE,
  LKI_VERB_REMOVE_MANY,
  LKI_VERB_LIST,
  LKI_VERB_VERSIONING,
  LKI_VERB_UPLOAD_BEGIN,
  LKI_VERB_UPLOAD_PART,
  LKI_VERB_UPLOAD_COMPLETE,
  LKI_VERB_UPLOAD_ABORT,
  LKI_VERB_UPLOAD_LIST
} lki_verb;

typedef struct lki_dialect lki_dialect;

/* All borrowed. What a verb does not use stays zero. */
typedef struct lki_ask {
  const lki_dialect *dialect;
  lki_verb verb;
  const char *name;  /* of the object in its bucket: the store's prefix and the key; "" where there is none */
  lake_range range;  /* GET */
  lake_bytes body;   /* PUT, CREATE, UPLOAD_PART, UPLOAD_COMPLETE, REMOVE_MANY */
  const char *md5;   /* REMOVE_MANY: of the body, in base64 */
  lake_buffer *sink; /* the body of a good reply; NULL: it is small and stays in the reply's text */
  const char *etag;  /* GET: only if it still has this one; NULL: whatever it has */
  const char *prefix, *start_after, *token; /* lists; start_after and token may be NULL */
  const char *upload_id;                    /* uploads; UPLOAD_LIST: the second half of the token, or NULL */
  uint32_t part;                            /* from 1 on */
  lake_deadline deadline;
} lki_ask;

/* What a reply's body says of a failure. "" where it does not. */
typedef struct lki_fault {
  char code[80];
  char message[200];
  char region[40];
} lki_fault;

/* One entry of a page of a listing: an object, or an upload that has not been finished. */
typedef struct lki_entry {
  const char *name;
  uint64_t object_bytes;
  const char *upload_id; /* NULL: an object */
} lki_entry;

#define LKI_ENTRY_COUNT_MAX ((size_t)1 << 20)

/* A page as it was read. Texts are the arena's; `entries` holds lki_entry values. */
typedef struct lki_listed {
  lki_arena arena;
  lake_buffer entries;
  const char *token, *token_2; /* of the next page; NULL: this is the last */
} lki_listed;

/* Where requests go, copied for each: a reply may teach another region while others are being written. */
typedef struct lki_place {
  char origin[320]; /* "https://bucket.s3.eu-west-1.amazonaws.com" */
  char base[320];   /* of the path of an object: "/bucket/", or "/" */
  char region[40];
} lki_place;

/* The same bucket in another region. */
void lki_place_move(lki_place *place, const char *region);

/* SUSPENDED: they were kept once. What was then is still there, and what is deleted leaves a marker. */
typedef enum lki_versioning { LKI_VERSIONING_OFF, LKI_VERSIONING_ON, LKI_VERSIONING_SUSPENDED } lki_versioning;

typedef struct lki_cloud_store lki_cloud_store;

struct lki_dialect {
  const char *place; /* what holds the objects, for people: "bucket" */
  const char *taken_code; /* a 409 with this code tells that the name is taken; NULL: a 409 never does */
  bool suffix;            /* knows "the last n bytes" */
  bool region;            /* learns regions */
  bool uploads;           /* unfinished uploads are listed and aborted by us; else the service sees to them */
  /* Everything of a request but what signs it. request->failed tells of a lack of memory. */
  void (*write)(const lki_cloud_store *store, const lki_place *place, const lki_ask *ask,
                lki_request *request);
  lake_status (*sign)(lki_cloud_store *store, const lki_place *place, const lki_credentials *credentials,
                      int64_t wall_s, lki_request *request, lake_error *err);
  /* The absolute URL where it is not the request's own path and query, in the arena; NULL member: it always
   * is. */
  const char *(*url)(const lki_cloud_store *store, const lki_place *place, const lki_ask *ask,
                     lki_arena *arena);
  void (*fault)(lake_env *env, const lki_http_reply *reply, lki_fault *fault);
  lake_status (*listed)(const lki_ask *ask, lake_bytes body, lki_listed *page, lake_error *err);
  /* HEAD. NULL: the length of the reply tells. */
  lake_status (*head)(lake_bytes body, uint64_t *object_bytes, lake_error *err);
  /* VERSIONING: whether old versions of names are kept. NULL: not known, and not asked. */
  lake_status (*versioned)(lake_env *env, lake_bytes body, lki_versioning *versioning, lake_error *err);
  /* A multipart upload: its id from the reply to UPLOAD_BEGIN, NULL member: we choose it, and there is no
   * such request; the body of UPLOAD_COMPLETE from the parts' tags (count of them, `etags` may be ignored).
   * NULL: no such thing. */
  lake_status (*upload_begun)(lki_arena *arena, lake_bytes body, const char **upload_id, lake_error *err);
  const char *put_done; /* what the reply to a good PUT or CREATE has in its body; NULL: it need not have one */
  const char *upload_done; /* what the reply to a good UPLOAD_COMPLETE has in its body; NULL: that tells nothing */
  lake_status (*upload_manifest)(lki_arena *arena, const char *upload_id, char (*etags)[128], uint32_t count,
                                 lake_bytes *out, lake_error *err);
};

/* Chosen by the URL; GCS by the credentials as well, since keys and tokens speak to different APIs of it. */
extern const lki_dialect lki_dialect_s3;
extern const lki_dialect lki_dialect_gcs_xml;
extern const lki_dialect lki_dialect_gcs_json;
extern const lki_dialect lki_dialect_azure;

typedef struct lki_hedge lki_hedge;
typedef struct lki_bookmarks lki_bookmarks;

struct lki_cloud_store {
  lake_env *env;
  lki_settings settings;
  lki_http *http;
  lki_credentials_chain *chain;
  lki_day_key *day;
  lki_hedge *hedge;         /* NULL: off */
  lki_bookmarks *bookmarks; /* where listings were left; NULL: the dialect does not need them */
  char name_prefix[LKI_OBJECT_NAME_BYTES_MAX]; /* "" or "run/7/" */
  size_t name_prefix_bytes;
  bool https;
  uint64_t process_id;
  atomic_int_fast64_t skew_s;         /* the server's clock less ours */
  atomic_uint_fast64_t not_before_ns; /* Retry-After */
  atomic_bool no_remove_many;         /* the server has refused such a request as one that it does not know */
  atomic_uint odd_removal_count;      /* replies to such requests, in a row, that were none */
  atomic_uint_fast64_t gate_ms;       /* how long it was, the last time */
  struct {
    lki_mutex *lock;
    lki_place place;
  } synced;
};

/* ---- one request on its way ---- */

enum { LKI_MEND_CREDENTIALS = 1, LKI_MEND_SKEW = 2, LKI_MEND_REGION = 4 };

/* One request and its tries. Zero it, then prepare; release after the last reply. */
typedef struct lki_try {
  const lki_credentials *credentials;
  const lki_credentials *rejected; /* what the server has called expired */
  lki_place place;
  int64_t wall_s; /* signed with */
  lki_request request;
  bool prepared;
  unsigned mended; /* LKI_MEND_: each once */
  lki_http_request http;
} lki_try;

/* Waits until the store may be asked, gets credentials, writes and signs. On failure nothing was sent. */
lake_status lki_try_prepare(lki_cloud_store *store, const lki_ask *ask, lki_try *t, lake_error *err);
/* Without any wait: AGAIN where the store may not be asked yet, or credentials have to be got first. */
lake_status lki_try_prepare_now(lki_cloud_store *store, const lki_ask *ask, lki_try *t, lake_error *err);
/* Judges what came of it: true, and it is to be prepared and sent again; or false, and *out is the outcome.
 */
bool lki_try_again(lki_cloud_store *store, const lki_ask *ask, lki_try *t, lake_status sent,
                   const lki_http_reply *reply, lake_status *out, lake_error *err);
void lki_try_release(lki_cloud_store *store, lki_try *t);
/* All of it. The reply is the last one's, also on failure. */
lake_status lki_cloud_exchange(lki_cloud_store *store, const lki_ask *ask, lki_http_reply *reply,
                               lake_error *err);
/* The dialect in use; for GCS the credentials decide. */
lake_status lki_cloud_dialect(lki_cloud_store *store, lake_deadline deadline, const lki_dialect **out,
                              lake_error *err);

/* ---- verdict.c: what a reply means ---- */

typedef struct lki_verdict {
  lake_status status;
  unsigned mend; /* what could be mended: LKI_MEND_ */
} lki_verdict;

/* sent: what the engine said; err gets the engine's text on entry where there is one. Pure but for what it
 * says. */
lki_verdict lki_verdict_of(const lki_ask *ask, const char *bucket, lake_status sent,
                           const lki_http_reply *reply, const lki_fault *fault, lake_error *err);
/* Whether it says that who asks is known and may not do this: not a wrong key, secret, token or clock. */
bool lki_verdict_missing_right(const lki_http_reply *reply, const lki_fault *fault);

/* ---- the operations that need more than one request ---- */

lake_status lki_cloud_put_parts(lki_cloud_store *store, const lki_dialect *dialect, const char *name,
                                lake_bytes body, lake_deadline deadline, lake_error *err);
lake_status lki_cloud_list(void *self, const char *prefix, const char *start_after, lake_list_fn *fn,
                           void *ctx, lake_deadline deadline, lake_error *err);
lake_status lki_cloud_list_uploads(void *self, const char *prefix, lake_upload_fn *fn, void *ctx,
                                   lake_deadline deadline, lake_error *err);
lake_status lki_cloud_abort_upload(void *self, const char *key, const char *upload_id, lake_deadline deadline,
                                   lake_error *err);

/* s3_delete.c */
lake_status lki_s3_remove_many(void *self, const char *const *keys, size_t count, bool *gone, lake_deadline deadline,
                               lake_error *err);

/* prefix and key, or INVALID: longer than a store accepts. */
lake_status lki_cloud_name(const lki_cloud_store *store, const char *key,
                           char out[LKI_OBJECT_NAME_BYTES_MAX + 1], lake_error *err);
/* "Authorization: Bearer …" */
void lki_request_bearer(lki_request *request, const char *token);
/* Whether the bucket's own settings spoil what the library relies on. UNSUPPORTED: they do, and what to do.
 */
lake_status lki_cloud_check(void *self, lake_deadline deadline, lake_error *err);
/* Appends an entry to a page; the texts must be the page's. false: no memory, or too many. */
bool lki_listed_add(lki_listed *page, const lki_entry *entry);

#endif
