/* Sources of credentials: what the chain in credentials.c asks, one after the other, and what those of the
 * three clouds share. A source looks whether it is there at all, and if so gives credentials or fails for
 * good: a source that is configured but broken is not passed over. Called by one thread of a chain at a time.
 */
#ifndef LKI_STORE_SOURCE_H
#define LKI_STORE_SOURCE_H

#include "store/credentials.h"
#include "store/resolver.h"

#define LKI_TOKEN_BYTES_MAX                                                                                  \
  ((size_t)64 << 10) /* files with tokens, replies of token servers, output of commands */

/* One round through the sources. */
typedef struct lki_asking {
  lake_env *env;
  const lki_settings *settings;
  lki_http *http;
  lake_deadline deadline;
  lki_arena *arena; /* of the snapshot: the texts that are found must be in it */
  lki_credentials found;
  bool switched_off;       /* set by a source that the user has switched off: it is not told among those asked */
  const char *passed_over; /* set by a source that belongs to something else: a clause for people, without secrets */
} lki_asking;

/* OK: `found` is filled. NOTFOUND: it is not configured, `err` is untouched. Else it is, and cannot give any:
 * `err` says which source it is and what to do, and never a secret. */
typedef lake_status lki_source_fn(lki_asking *asking, lake_error *err);

typedef struct lki_source {
  const char *name; /* as in "no credentials; asked: …"; "": it gives none, and only refuses what we cannot do */
  lki_source_fn *ask;
} lki_source;

/* In order; the last one's name is NULL. */
extern const lki_source lki_sources_s3[];
extern const lki_source lki_sources_gcs[];
extern const lki_source lki_sources_azure[];

/* ---- source.c: what they share ---- */

/* text in the snapshot's arena; NULL (no memory, or text NULL) makes the caller's lki_source_done fail. */
const char *lki_keep(lki_asking *asking, const char *text);
/* Whether a value can be a part of a header: no control characters, no blanks. */
bool lki_token_valid(const char *text);
/* Checks what is in `found`: nothing that cannot be sent. who names the source. */
lake_status lki_source_done(lki_asking *asking, const char *who, lake_error *err);
/* A secret out of a file, without the blanks around it, read each time. who names the source. The arena's. */
lake_status lki_secret_file(lki_asking *asking, const char *who, const char *path, const char **out,
                            lake_error *err);
/* "2026-01-31T12:00:00Z", with fractions and "+00:00" too, to seconds since 1970; false: not such a text. */
bool lki_parse_time(const char *text, int64_t *out);

/* A request to a server that gives tokens. */
typedef struct lki_token_request {
  const char *who; /* names the source in errors */
  const char *method;
  const char *url;
  const lki_http_header *headers;
  size_t header_count;
  const char *body;    /* NULL: none */
  uint64_t timeout_ms; /* at most; the round's deadline holds as well */
} lki_token_request;

typedef struct lki_token_reply {
  int status;
  int64_t date_s;                     /* the server's clock; 0: it did not say */
  lake_buffer body;                   /* of a 200; wiped by lki_token_reply_free */
  char text[LKI_HTTP_TEXT_BYTES_MAX]; /* of any other: do not show it, it may repeat what was sent */
} lki_token_reply;

/* OK whatever the status. The connection must be https, or http to this machine or to where clouds give
 * tokens. */
lake_status lki_token_ask(lki_asking *asking, const lki_token_request *request, lki_token_reply *reply,
                          lake_error *err);
void lki_token_reply_free(lki_token_reply *reply);
/* The status that a refusal of a token server stands for: UNAVAILABLE for 429 and 5xx, else DENIED, with its
 * code (which a JSON reply may hold as "error" or "Code"). */
lake_status lki_token_refused(const char *who, const lki_token_reply *reply, lake_error *err);
/* {"access_token": …, "expires_in": …}, as RFC 6749 5.1, into found.bearer and found.expires_wall_ns. */
lake_status lki_token_take(lki_asking *asking, const char *who, const lki_token_reply *reply,
                           lake_error *err);
/* Appends "name=value" and '&' before it where need be, the value encoded as in a form. */
lake_status lki_form_add(lake_buffer *form, lki_arena *arena, const char *name, const char *value,
                         lake_error *err);
/* When something that a server's clock calls `expires_s` ends by our clock. now_s: what the server said it
 * was; 0: it did not. */
uint64_t lki_expires_wall_ns(lake_env *env, int64_t expires_s, int64_t now_s);
/* https, or this machine's own: what a secret may be sent to. */
bool lki_url_is_safe(const char *url);

#endif
