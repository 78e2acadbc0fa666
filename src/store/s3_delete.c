/* DeleteObjects: a thousand objects of an S3 bucket with one request. Its reply comes in a 200 whatever became of the
 * objects, so only the body tells: in quiet mode it lists those that failed, and what it does not list is gone. A body
 * that is an error, breaks off or is no XML tells nothing, and then nothing counts as gone. What a name in XML could come to
 * mean another name by, at whatever server, is left to single requests; and so is everything where a server does not
 * know this request, which is remembered for the store. No state but that; safe from any thread. */
#include "base/env.h"
#include "base/error.h"
#include "store/cloud.h"
#include "store/digest.h"
#include "store/xml.h"
#include <stdio.h>
#include <string.h>

#define BODY_BYTES_MAX ((size_t)512 << 10) /* Ceph takes 1 MiB, unless it is set otherwise */
#define REPLY_BYTES_MAX ((size_t)8 << 20)  /* a thousand errors, each with a name in escapes */
#define ESCAPE_BYTES_MAX 5                 /* of "&amp;" */
#define FRAME_BYTES 128                    /* the document but for the names, and the elements about one of them */
#define KEY_SHOWN_BYTES 120
#define ODD_REPLY_COUNT_MAX 3u

/* One request. Which keys went into it, and what its reply says. */
typedef struct batch {
  lki_cloud_store *store;
  const char *const *keys;
  size_t count;
  bool sent[LAKE_REMOVE_MANY_MAX], failed[LAKE_REMOVE_MANY_MAX];
  size_t sent_count;
  lake_buffer body;
  /* The error that is being read. */
  char key[LKI_OBJECT_NAME_BYTES_MAX + 1];
  bool key_too_long;
  char code[80];
  bool understood;   /* the document is a reply to this request */
  bool unknown_name; /* an error tells of a name that was not sent */
  lake_status status; /* the one that counts most, and its text; OK: no key failed */
  lake_error err;
} batch;

/* ---- writing ---- */

static bool is_follower(unsigned char c) { return (c & 0xc0) == 0x80; }

/* The bytes of a character that XML 1.0 carries and no reader changes; 0: it is none. */
static size_t plain_bytes(const unsigned char *p) {
  if (p[0] < 0x80) return p[0] >= 0x20 && p[0] != 0x7f ? 1 : 0;
  if (p[0] < 0xe0) return p[0] >= 0xc2 && is_follower(p[1]) && (p[0] > 0xc2 || p[1] >= 0xa0) ? 2 : 0; /* no C1 controls */
  if (p[0] < 0xf0) {
    if (!is_follower(p[1]) || !is_follower(p[2])) return 0;
    const unsigned code = (unsigned)(p[0] & 0x0f) << 12 | (unsigned)(p[1] & 0x3f) << 6 | (p[2] & 0x3fu);
    return code >= 0x800 && (code < 0xd800 || code > 0xdfff) && code < 0xfffe ? 3 : 0;
  }
  if (p[0] > 0xf4 || !is_follower(p[1]) || !is_follower(p[2]) || !is_follower(p[3])) return 0;
  const unsigned top = (unsigned)(p[0] & 0x07) << 6 | (p[1] & 0x3fu);
  return top >= 0x10 && top < 0x110 ? 4 : 0;
}

/* Blanks at the ends are well-formed, but there are readers that cut them off. */
static bool is_plain(const char *name) {
  const unsigned char *p = (const unsigned char *)name;
  const size_t bytes = strlen(name);
  if (bytes == 0 || name[0] == ' ' || name[bytes - 1] == ' ') return false;
  for (size_t at = 0, one; at < bytes; at += one)
    if ((one = plain_bytes(p + at)) == 0) return false;
  return true;
}

static lake_status add(batch *b, const char *text, size_t bytes, lake_error *err) {
  return lki_buffer_append(&b->body, text, bytes, err);
}

static lake_status add_text(batch *b, const char *text, lake_error *err) { return add(b, text, strlen(text), err); }

static lake_status add_name(batch *b, const char *name, lake_error *err) {
  lake_status s = add_text(b, "<Object><Key>", err);
  while (s == LAKE_OK && *name != 0) {
    const size_t plain = strcspn(name, "&<>");
    s = add(b, name, plain, err);
    name += plain;
    if (s != LAKE_OK || *name == 0) break;
    s = add_text(b, *name == '&' ? "&amp;" : *name == '<' ? "&lt;" : "&gt;", err);
    name++;
  }
  return s == LAKE_OK ? add_text(b, "</Key></Object>", err) : s;
}

/* The keys from *next on, as many as one request holds; *next is where the following one begins. */
static lake_status write_body(batch *b, size_t *next, lake_error *err) {
  char name[LKI_OBJECT_NAME_BYTES_MAX + 1];
  memset(b->sent, 0, sizeof b->sent);
  b->sent_count = 0;
  b->body.bytes = 0;
  lake_status s = add_text(b, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Delete xmlns=\"http://s3.amazonaws.com/"
                              "doc/2006-03-01/\"><Quiet>true</Quiet>", err);
  for (; s == LAKE_OK && *next < b->count; ++*next) {
    if (b->body.bytes + sizeof name * ESCAPE_BYTES_MAX + FRAME_BYTES > BODY_BYTES_MAX) break;
    s = lki_cloud_name(b->store, b->keys[*next], name, err);
    if (s != LAKE_OK || !is_plain(name)) continue;
    s = add_name(b, name, err);
    b->sent[*next] = true;
    b->sent_count++;
  }
  return s == LAKE_OK ? add_text(b, "</Delete>", err) : s;
}

/* ---- reading ---- */

/* What a key's error means. What is neither a refusal nor passes by itself may be about this kind of request: a single
 * one tells. */
typedef struct meaning {
  const char *code;
  lake_status status;
} meaning;

static const meaning meanings[] = {
    {"AccessDenied", LAKE_DENIED},         {"AllAccessDisabled", LAKE_DENIED},
    {"AccountProblem", LAKE_DENIED},       {"InternalError", LAKE_UNAVAILABLE},
    {"SlowDown", LAKE_UNAVAILABLE},        {"ServiceUnavailable", LAKE_UNAVAILABLE},
    {"OperationAborted", LAKE_UNAVAILABLE}, {"RequestTimeout", LAKE_UNAVAILABLE},
    {"TooManyRequests", LAKE_UNAVAILABLE}, {"Throttling", LAKE_UNAVAILABLE},
    {"RequestLimitExceeded", LAKE_UNAVAILABLE}, {"ConcurrentModification", LAKE_UNAVAILABLE},
};

/* Errors are told in these words and not in the reply's, which could repeat what the request proved itself with. */
static meaning meaning_of(const char *code) {
  for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
    if (strcmp(code, meanings[i].code) == 0) return meanings[i];
  return (meaning){"an error of another kind", LAKE_UNSUPPORTED};
}

static int weight(lake_status s) { return s == LAKE_DENIED ? 3 : s == LAKE_UNAVAILABLE ? 2 : s == LAKE_OK ? 0 : 1; }

static const char *shown(const char *key) {
  const size_t bytes = strlen(key);
  return bytes > KEY_SHOWN_BYTES ? key + bytes - KEY_SHOWN_BYTES : key;
}

/* One <Error> has been read: it is about this key, wherever the key was given. */
static void end_error(batch *b) {
  const size_t prefix_bytes = b->store->name_prefix_bytes;
  const bool absent = strcmp(b->code, "NoSuchKey") == 0;
  const meaning m = meaning_of(b->code);
  bool found = false;
  b->code[0] = 0;
  if (absent) return;
  const bool ours = !b->key_too_long && strncmp(b->key, b->store->name_prefix, prefix_bytes) == 0;
  for (size_t i = 0; i < b->count && ours; i++) {
    if (!b->sent[i] || strcmp(b->keys[i], b->key + prefix_bytes) != 0) continue;
    if (!found && weight(m.status) > weight(b->status))
      b->status = lki_fail(&b->err, m.status, "%s: %s%s, one of many to remove", shown(b->keys[i]),
                           m.status == LAKE_DENIED ? "access denied: " : "", m.code);
    b->failed[i] = found = true;
  }
  if (!found) b->unknown_name = true;
}

static void take(char *dst, size_t room, const char *text) { snprintf(dst, room, "%s", text); }

static bool on_reply(void *ctx, const char *path, const char *text) {
  batch *b = ctx;
  if (strcmp(path, "DeleteResult/Error/Key") == 0) {
    b->key_too_long = strlen(text) >= sizeof b->key;
    take(b->key, sizeof b->key, text);
  } else if (strcmp(path, "DeleteResult/Error/Code") == 0 || strcmp(path, "Error/Code") == 0)
    take(b->code, sizeof b->code, text);
  else if (strcmp(path, "DeleteResult/Error") == 0) {
    end_error(b);
    b->key[0] = 0;
  } else if (strcmp(path, "DeleteResult") == 0)
    b->understood = true;
  return true;
}

/* A good status line over what is no reply to this request, as a server sends that takes it for another one, or a proxy
 * that changes what it does not know. That may pass; when it does not, this batch goes one by one. */
static lake_status odd_reply(batch *b, lake_status s, lake_error *err) {
  if (s == LAKE_NOMEM || atomic_fetch_add(&b->store->odd_removal_count, 1) + 1 < ODD_REPLY_COUNT_MAX) return s;
  atomic_store(&b->store->odd_removal_count, 0);
  if (err != NULL) err->status = LAKE_UNSUPPORTED;
  return LAKE_UNSUPPORTED;
}

static lake_status read_reply(batch *b, lake_bytes text, bool *gone, lake_error *err) {
  memset(b->failed, 0, sizeof b->failed);
  b->key[0] = b->code[0] = 0;
  b->key_too_long = b->understood = b->unknown_name = false;
  b->status = LAKE_OK;
  /* A server that takes its time sends blanks first, which would not be XML. */
  const char *at = text.data;
  size_t bytes = text.bytes;
  while (bytes > 0 && strchr(" \t\r\n", *at) != NULL && *at != 0) at++, bytes--;
  lake_status s = lki_xml_walk(b->store->env, (lake_bytes){at, bytes}, "the reply to a removal of many", on_reply, b, err);
  if (s == LAKE_OK && !b->understood)
    s = lki_fail(err, LAKE_UNCERTAIN, "a removal of many was answered, in a good reply, by %s",
                 b->code[0] ? meaning_of(b->code).code : "what is no <DeleteResult>");
  if (s != LAKE_OK) return odd_reply(b, s, err);
  atomic_store(&b->store->odd_removal_count, 0);
  if (b->unknown_name)
    return lki_fail(err, LAKE_UNSUPPORTED, "the reply to a removal of many has errors of objects that were not in it");
  for (size_t i = 0; i < b->count; i++)
    if (b->sent[i] && !b->failed[i]) gone[i] = true;
  if (b->status != LAKE_OK) lki_error_copy(err, &b->err);
  return b->status;
}

/* ---- asking ---- */

/* What of the whole request was refused. Ceph looks for the right to it at the bucket, where a policy that grants the
 * removal of each of its objects may say nothing: a single removal tells. */
static lake_status refused(lki_cloud_store *store, lake_status s, lake_error *err) {
  if (s == LAKE_UNSUPPORTED && !atomic_exchange(&store->no_remove_many, true))
    lki_note(store->env, LAKE_LOG_INFO, "store: bucket %s: objects are removed one by one: %s", store->settings.bucket,
             err->text);
  if (s != LAKE_DENIED) return s;
  err->status = LAKE_UNSUPPORTED;
  return LAKE_UNSUPPORTED;
}

static lake_status ask_many(batch *b, bool *gone, lake_deadline deadline, lake_error *err) {
  lki_http_reply reply;
  unsigned char md5[LKI_MD5_BYTES];
  char md5_text[4 * ((LKI_MD5_BYTES + 2) / 3) + 1];
  lake_buffer text;
  lki_buffer_init(&text, b->store->env, REPLY_BYTES_MAX);
  lki_ask ask = {.dialect = &lki_dialect_s3, .verb = LKI_VERB_REMOVE_MANY, .name = "", .body = lki_buffer_view(&b->body),
                 .sink = &text, .md5 = md5_text, .deadline = deadline};
  lake_status s = LAKE_OK;
  if (!lki_md5(ask.body, md5)) {
    s = lki_fail(err, LAKE_UNSUPPORTED, "MD5 is not to be had from OpenSSL");
    goto done;
  }
  lki_base64((lake_bytes){md5, sizeof md5}, md5_text);
  s = lki_cloud_exchange(b->store, &ask, &reply, err);
  if (s == LAKE_OK) s = read_reply(b, lki_buffer_view(&text), gone, err);
  else s = refused(b->store, s, err);
done:
  lki_buffer_free(&text);
  return s;
}

lake_status lki_s3_remove_many(void *self, const char *const *keys, size_t count, bool *gone, lake_deadline deadline,
                               lake_error *err) {
  lki_cloud_store *store = self;
  lake_error e = LAKE_ERROR_INIT;
  lake_status s = lki_check_process(store->env, "the store", err);
  if (s != LAKE_OK) return s;
  if (atomic_load_explicit(&store->no_remove_many, memory_order_relaxed))
    return lki_fail(err, LAKE_UNSUPPORTED, "the store has no removal of many");
  batch *b = lki_new(store->env, sizeof *b);
  if (b == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for a removal of %zu objects", count);
  b->store = store;
  b->keys = keys;
  b->count = count;
  lki_buffer_init(&b->body, store->env, BODY_BYTES_MAX);
  for (size_t next = 0; s == LAKE_OK && next < count;) {
    const size_t first = next;
    s = write_body(b, &next, &e);
    if (s == LAKE_OK && b->sent_count > 0) s = ask_many(b, gone, deadline, &e);
    if (s != LAKE_OK && b->status == LAKE_OK) lki_error_prefix(&e, "%s", shown(keys[first]));
  }
  for (size_t i = 0; i < count && s == LAKE_OK; i++)
    if (!gone[i]) s = lki_fail(&e, LAKE_UNSUPPORTED, "%s: a removal of many cannot name it", shown(keys[i]));
  if (s != LAKE_OK) lki_error_copy(err, &e);
  lki_buffer_free(&b->body);
  lki_free(store->env, b);
  return s;
}
