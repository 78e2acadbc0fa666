/* Listings of a cloud store, page by page. A page is read and parsed whole before its first key is handed
 * out: a reply that breaks off delivers nothing, and the caller may use the store from its callback. What is
 * not one of our keys (such as the "folder/" that a console makes) is passed over.
 *
 * A listing gets on, or fails: keys ascend from the first page to the last, no token comes back, and pages without a
 * key of ours, which servers may send while they look for some, have a limit in a row. */
#include "base/env.h"
#include "base/error.h"
#include "store/bookmark.h"
#include "store/cloud.h"
#include <string.h>

#define PAGE_BYTES_MAX ((size_t)64 << 20)
#define IDLE_PAGE_COUNT_MAX 10000u /* in a row: ten million names that are not ours */
#define SHOWN_TOKEN_BYTES 80

bool lki_listed_add(lki_listed *page, const lki_entry *entry) {
  return lki_buffer_append(&page->entries, entry, sizeof *entry, NULL) == LAKE_OK;
}

static void listed_init(lki_listed *page, lake_env *env) {
  memset(page, 0, sizeof *page);
  lki_arena_init(&page->arena, env);
  lki_buffer_init(&page->entries, env, LKI_ENTRY_COUNT_MAX * sizeof(lki_entry));
}

static void listed_free(lki_listed *page) {
  lki_buffer_free(&page->entries);
  lki_arena_free(&page->arena);
}

/* One listing of either kind: fn or upload_fn is set. Two pages take turns, since a page's token is needed
 * until the next one is there. */
typedef struct listing {
  lki_cloud_store *store;
  lki_ask ask;
  lake_list_fn *fn;
  lake_upload_fn *upload_fn;
  void *ctx;
  bool stopped;
  char prefix[LKI_OBJECT_NAME_BYTES_MAX + 1]; /* what is listed */
  size_t prefix_bytes;
  char sent_prefix[LKI_OBJECT_NAME_BYTES_MAX + 1]; /* what is asked for: it, or less */
  char start_after[LKI_OBJECT_NAME_BYTES_MAX + 1]; /* "": from the first */
  char sent_start_after[LKI_OBJECT_NAME_BYTES_MAX + 1];
  char name[1];
  lki_listed pages[2];
  unsigned turn;
  lki_arena arena; /* of a bookmark */
  char last[LKI_OBJECT_NAME_BYTES_MAX + 1]; /* the name of the last key of ours that a page had; "": none yet */
  uint32_t idle_page_count; /* pages since one had any */
  /* Tokens that come round again, however many they are, by one that is kept: of page 1, 2, 4, 8 ... (Brent). */
  lake_buffer kept_token; /* both halves, each with its zero byte; empty: none yet */
  uint64_t page_count, keep_at;
} listing;

/* A prefix may end in the middle of a character, and servers repeat what was asked in XML, which then is none. So only what is
 * well-formed text is asked for, and the rest is left to hand_out(). */
static size_t sendable_bytes(const char *text) {
  const unsigned char *p = (const unsigned char *)text;
  size_t at = 0;
  while (p[at] >= 0x20 && p[at] != 0x7f) {
    const size_t bytes = p[at] < 0x80 ? 1 : p[at] >= 0xf0 ? 4 : p[at] >= 0xe0 ? 3 : p[at] >= 0xc2 ? 2 : 0;
    if (bytes == 0 || p[at] > 0xf4) break;
    size_t i = 1;
    while (i < bytes && (p[at + i] & 0xc0) == 0x80) i++;
    if (i < bytes) break;
    at += bytes;
  }
  return at;
}

static lake_status read_page(listing *l, lki_listed *page, lake_error *err) {
  lki_cloud_store *store = l->store;
  lki_http_reply reply;
  lake_buffer body;
  lki_buffer_init(&body, store->env, PAGE_BYTES_MAX);
  l->ask.sink = &body;
  lake_status s = lki_cloud_exchange(store, &l->ask, &reply, err);
  if (s == LAKE_OK) s = l->ask.dialect->listed(&l->ask, lki_buffer_view(&body), page, err);
  l->ask.sink = NULL;
  lki_buffer_free(&body);
  return s;
}

/* Uploads come in any order. */
static lake_status check_order(listing *l, const char *name, const char *key, lake_error *err) {
  const size_t bytes = strlen(name);
  if (l->upload_fn != NULL || bytes >= sizeof l->last) return LAKE_OK;
  if (l->last[0] != 0 && strcmp(name, l->last) <= 0)
    return lki_fail(err, LAKE_CORRUPT, "the store lists keys out of order: \"%.100s\" comes after \"%.100s\"", key,
                    l->last + l->store->name_prefix_bytes);
  memcpy(l->last, name, bytes + 1);
  return LAKE_OK;
}

static lake_status hand_out(listing *l, const lki_listed *page, lake_error *err) {
  const lki_entry *entries = (const lki_entry *)(const void *)page->entries.data;
  const size_t count = page->entries.bytes / sizeof(lki_entry);
  const size_t own_bytes = l->store->name_prefix_bytes;
  lake_status s = LAKE_OK;
  l->idle_page_count++;
  for (size_t i = 0; i < count && !l->stopped && s == LAKE_OK; i++) {
    const lki_entry *entry = &entries[i];
    if (strncmp(entry->name, l->prefix, l->prefix_bytes) != 0) continue;
    const char *key = entry->name + own_bytes;
    if (!lki_key_valid(key)) continue;
    s = check_order(l, entry->name, key, err);
    l->idle_page_count = 0;
    if (s != LAKE_OK || strcmp(entry->name, l->start_after) <= 0) continue;
    const bool more = l->upload_fn != NULL ? l->upload_fn(l->ctx, key, entry->upload_id)
                                           : l->fn(l->ctx, key, entry->object_bytes);
    l->stopped = !more;
  }
  return s;
}

static bool same_text(const char *a, const char *b) {
  return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* The next page's token, before it is asked with. */
static lake_status check_token(listing *l, const lki_listed *page, lake_error *err) {
  const char *token = page->token, *token_2 = page->token_2 != NULL ? page->token_2 : "";
  const size_t bytes = strlen(token) + 1, bytes_2 = strlen(token_2) + 1;
  lake_buffer *kept = &l->kept_token;
  const bool again = kept->bytes == bytes + bytes_2 && memcmp(kept->data, token, bytes) == 0 &&
                     memcmp(kept->data + bytes, token_2, bytes_2) == 0;
  if (again || (same_text(l->ask.token, token) && same_text(l->ask.upload_id, page->token_2)))
    return lki_fail(err, LAKE_UNAVAILABLE,
                    "the listing goes round in circles: after %llu pages the store gives token \"%.*s\" again",
                    (unsigned long long)l->page_count, SHOWN_TOKEN_BYTES, token);
  if (l->idle_page_count > IDLE_PAGE_COUNT_MAX)
    return lki_fail(err, LAKE_CORRUPT, "the listing has %u pages in a row without a key, and goes on with token \"%.*s\"",
                    l->idle_page_count, SHOWN_TOKEN_BYTES, token);
  if (++l->page_count < l->keep_at) return LAKE_OK;
  l->keep_at = 2 * l->page_count;
  kept->bytes = 0;
  lake_status s = lki_buffer_append(kept, token, bytes, err);
  return s == LAKE_OK ? lki_buffer_append(kept, token_2, bytes_2, err) : s;
}

static lake_status run(listing *l, lake_error *err) {
  lki_bookmarks *marks = l->store->bookmarks;
  lake_status s = LAKE_OK;
  bool marked = l->ask.token != NULL; /* the first token is a bookmark's, which may be stale */
  for (;;) {
    lki_listed *page = &l->pages[l->turn];
    listed_free(page);
    listed_init(page, l->store->env);
    const char *token = l->ask.token;
    s = read_page(l, page, err);
    if (marked && (s == LAKE_INVALID || s == LAKE_NOTFOUND)) {
      lki_bookmarks_drop(marks, token);
      l->ask.token = NULL;
      marked = false;
      continue;
    }
    if (s != LAKE_OK) return s;
    if (marks != NULL && token != NULL && page->entries.bytes > 0 && l->upload_fn == NULL)
      lki_bookmarks_keep(marks, l->ask.prefix, ((const lki_entry *)(const void *)page->entries.data)->name,
                         token);
    marked = false;
    s = hand_out(l, page, err);
    if (s != LAKE_OK || l->stopped || page->token == NULL || page->token[0] == 0) return s;
    s = check_token(l, page, err);
    if (s != LAKE_OK) return s;
    l->ask.token = page->token;
    l->ask.upload_id = page->token_2;
    l->turn ^= 1;
  }
}

static lake_status list(lki_cloud_store *store, lki_verb verb, const char *prefix, const char *start_after,
                        lake_list_fn *fn, lake_upload_fn *upload_fn, void *ctx, lake_deadline deadline,
                        lake_error *err) {
  lake_status s = lki_check_process(store->env, "the store", err);
  if (s != LAKE_OK) return s;
  if (store->settings.cloud == LKI_CLOUD_AZURE && strchr(prefix, '\\') != NULL)
    return LAKE_OK; /* no key has one */
  listing *l = lki_new(store->env, sizeof *l);
  if (l == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for a listing");
  l->store = store;
  l->fn = fn;
  l->upload_fn = upload_fn;
  l->ctx = ctx;
  lki_arena_init(&l->arena, store->env);
  lki_buffer_init(&l->kept_token, store->env, 2 * PAGE_BYTES_MAX);
  for (int i = 0; i < 2; i++) listed_init(&l->pages[i], store->env);
  s = lki_cloud_name(store, prefix, l->prefix, err);
  if (s == LAKE_OK && start_after != NULL) s = lki_cloud_name(store, start_after, l->start_after, err);
  if (s == LAKE_OK) s = lki_cloud_dialect(store, deadline, &l->ask.dialect, err);
  if (s == LAKE_OK) {
    l->ask.verb = verb;
    l->ask.name = l->name;
    l->prefix_bytes = strlen(l->prefix);
    memcpy(l->sent_prefix, l->prefix, sendable_bytes(l->prefix));
    l->ask.prefix = l->sent_prefix;
    l->ask.deadline = deadline;
    memcpy(l->sent_start_after, l->start_after, sendable_bytes(l->start_after));
    /* A start below the first key of the prefix says nothing. */
    if (strcmp(l->sent_start_after, l->sent_prefix) > 0) l->ask.start_after = l->sent_start_after;
    if (store->bookmarks != NULL && l->ask.start_after != NULL)
      l->ask.token = lki_bookmarks_find(store->bookmarks, l->sent_prefix, l->start_after, &l->arena);
    s = run(l, err);
  }
  for (int i = 0; i < 2; i++) listed_free(&l->pages[i]);
  lki_buffer_free(&l->kept_token);
  lki_arena_free(&l->arena);
  lki_free(store->env, l);
  return s;
}

lake_status lki_cloud_list(void *self, const char *prefix, const char *start_after, lake_list_fn *fn,
                           void *ctx, lake_deadline deadline, lake_error *err) {
  return list(self, LKI_VERB_LIST, prefix, start_after, fn, NULL, ctx, deadline, err);
}

lake_status lki_cloud_list_uploads(void *self, const char *prefix, lake_upload_fn *fn, void *ctx,
                                   lake_deadline deadline, lake_error *err) {
  lki_cloud_store *store = self;
  const lki_dialect *dialect = NULL;
  lake_status s = lki_check_process(store->env, "the store", err);
  if (s == LAKE_OK) s = lki_cloud_dialect(store, deadline, &dialect, err);
  if (s != LAKE_OK || !dialect->uploads) return s; /* the service sees to them itself, or there are none */
  return list(store, LKI_VERB_UPLOAD_LIST, prefix, NULL, NULL, fn, ctx, deadline, err);
}
