/* Reads deliver what was asked for; a listing shows what was written and nothing that was removed; what was removed is
 * gone, and its name free. */
#include "client/proof_inner.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- ranges ---- */

#define OBJECT_BYTES 100003u /* prime, so that no block size divides it */

/* Differs at every distance, so that a shifted range shows. */
static unsigned char pattern(size_t i) {
  return (unsigned char)((i * 2654435761u) >> 16 ^ i);
}

static const char *range_text(lake_range range, char out[80]) {
  if (range.kind == LAKE_RANGE_WHOLE) snprintf(out, 80, "the whole object");
  else if (range.kind == LAKE_RANGE_SUFFIX) snprintf(out, 80, "the last %" PRIu64 " bytes", range.bytes);
  else snprintf(out, 80, "%" PRIu64 " bytes from byte %" PRIu64, range.bytes, range.offset);
  return out;
}

static lake_status check_range(lki_proof *p, lake_store *store, const char *key, lake_range range, lake_buffer *buffer, lake_error *err) {
  char what[80];
  lake_object_info info = {0};
  const uint64_t from = range.kind == LAKE_RANGE_SUFFIX ? OBJECT_BYTES - (range.bytes < OBJECT_BYTES ? range.bytes : OBJECT_BYTES) : range.offset;
  const uint64_t want = range.kind == LAKE_RANGE_EXACT ? range.bytes : OBJECT_BYTES - from;
  range_text(range, what);
  buffer->bytes = 0;
  const lake_status s = lki_store_get(store, key, range, buffer, &info, lki_proof_until(p), err);
  if (s == LAKE_NOTFOUND) return lki_proof_refute(err, "an object that was written is not there");
  if (s == LAKE_CORRUPT) return lki_proof_refute(err, "%s: not delivered (%s)", what, err->text);
  if (s != LAKE_OK) return s;
  if (buffer->bytes != want || info.object_bytes != OBJECT_BYTES)
    return lki_proof_refute(err, "%s: %zu came, of an object with %" PRIu64 " where there are %u", what, buffer->bytes, info.object_bytes, OBJECT_BYTES);
  for (size_t i = 0; i < want; i++)
    if (buffer->data[i] != pattern((size_t)from + i)) return lki_proof_refute(err, "%s: byte %zu is wrong", what, i);
  return LAKE_OK;
}

static lake_status check_ranges(lki_proof *p, const char *key, lake_buffer *buffer, lake_error *err) {
  const lake_range ranges[] = {lki_range_exact(0, 1),
                               lki_range_exact(1, 4096),
                               lki_range_exact(65535, 2),
                               lki_range_exact(OBJECT_BYTES - 1, 1),
                               lki_range_exact(0, OBJECT_BYTES),
                               lki_range_suffix(1),
                               lki_range_suffix(4097),
                               lki_range_suffix(OBJECT_BYTES),
                               lki_range_suffix(OBJECT_BYTES + 5)};
  lake_error cause = LAKE_ERROR_INIT, unused = LAKE_ERROR_INIT;
  lake_status s = check_range(p, p->stores[0], key, lki_range_whole(), buffer, err);
  for (size_t i = 0; s == LAKE_OK && i < sizeof ranges / sizeof ranges[0]; i++) {
    s = check_range(p, p->stores[i % 2], key, ranges[i], buffer, &cause);
    if (s == LAKE_OK) continue;
    lki_error_copy(err, &cause);
    /* No answer to a range, but one to the whole: that is not the network. */
    if (s == LAKE_UNAVAILABLE && check_range(p, p->stores[i % 2], key, lki_range_whole(), buffer, &unused) == LAKE_OK)
      s = lki_proof_refute(err, "whole objects are delivered, but not a part of one (%s)", cause.text);
  }
  if (s != LAKE_OK) return s;
  s = lki_store_get(p->stores[0], key, lki_range_exact(OBJECT_BYTES - 1, 2), buffer, NULL, lki_proof_until(p), &cause);
  if (s == LAKE_OK) return lki_proof_refute(err, "a range past the end of an object is answered as if it were there");
  if (s == LAKE_CORRUPT) return LAKE_OK;
  lki_error_copy(err, &cause);
  return s;
}

lake_status lki_proof_ranges(lki_proof *p, lake_error *err) {
  char key[LKI_PROOF_KEY_BYTES];
  lake_object_info info = {0};
  lake_buffer body, got;
  lki_buffer_init(&body, p->env, OBJECT_BYTES);
  lki_buffer_init(&got, p->env, OBJECT_BYTES + 64);
  lki_proof_key(p, LKI_PROOF_READ, 0, key);
  lake_status s = lki_buffer_reserve(&body, OBJECT_BYTES, err);
  if (s == LAKE_OK) {
    for (size_t i = 0; i < OBJECT_BYTES; i++) body.data[i] = pattern(i);
    body.bytes = OBJECT_BYTES;
    p->written[LKI_PROOF_READ] = 1;
    s = lki_store_put(p->stores[0], key, lki_buffer_view(&body), lki_proof_until(p), err);
  }
  if (s == LAKE_OK) s = lki_store_head(p->stores[1], key, &info, lki_proof_until(p), err);
  if (s == LAKE_NOTFOUND) s = lki_proof_refute(err, "an object that was written is not there");
  if (s == LAKE_OK && info.object_bytes != OBJECT_BYTES)
    s = lki_proof_refute(err, "an object of %u bytes is said to have %" PRIu64, OBJECT_BYTES, info.object_bytes);
  if (s == LAKE_OK) s = check_ranges(p, key, &got, err);
  if (s == LAKE_OK) snprintf(p->said, sizeof p->said, "whole objects, ranges and ends are delivered as asked");
  lki_buffer_free(&got);
  lki_buffer_free(&body);
  return s;
}

/* ---- listing ---- */

/* What a listing has to show: the objects of the list, by number, perhaps without every third. */
typedef struct walk {
  const lki_proof *p;
  bool thinned;
  uint32_t next;    /* expected; steps over what was removed */
  uint32_t left;    /* entries until the walk is broken off */
  char last[LKI_PROOF_KEY_BYTES];
  bool wrong;
  char got[120];
} walk;

static void step_over(walk *w) {
  while (w->thinned && w->next < w->p->written[LKI_PROOF_LIST] && w->next % 3 == 0) w->next++;
}

static bool take(void *ctx, const char *key, uint64_t object_bytes) {
  walk *w = ctx;
  char want[LKI_PROOF_KEY_BYTES], text[LKI_PROOF_BODY_BYTES];
  step_over(w);
  lki_proof_key(w->p, LKI_PROOF_LIST, w->next, want);
  if (w->next >= w->p->written[LKI_PROOF_LIST] || strcmp(key, want) != 0 || object_bytes != lki_proof_body(w->p, 0, w->next, text).bytes) {
    snprintf(w->got, sizeof w->got, "%s with %" PRIu64 " bytes", key, object_bytes);
    w->wrong = true;
    return false;
  }
  memcpy(w->last, want, sizeof w->last);
  w->next++;
  return --w->left > 0;
}

static lake_status say_wrong(walk *w, lake_error *err) {
  char want[LKI_PROOF_KEY_BYTES];
  step_over(w);
  const bool more = w->next < w->p->written[LKI_PROOF_LIST];
  if (w->next == 0 && w->wrong && strstr(w->got, "/list/0/0 ") != NULL && !w->thinned)
    return lki_proof_refute(err, "keys are not in the order of their bytes in a listing: 0/0 comes before 0-/0, as where folders "
                            "are kept (on Azure: take an account without a hierarchical namespace)");
  lki_proof_key(w->p, LKI_PROOF_LIST, w->next, want);
  return lki_proof_refute(err, "a listing is not what was written%s: after %" PRIu32 " entries comes %s where %s was due", w->thinned ? " and not removed" : "",
                          w->next, w->wrong ? w->got : "its end", more ? want : "its end");
}

/* Lists all, broken off once in the middle and gone on with from there. */
static lake_status check_listing(lki_proof *p, lake_store *store, bool thinned, lake_error *err) {
  const uint32_t count = p->written[LKI_PROOF_LIST];
  walk w = {.p = p, .thinned = thinned, .left = count / 4 + 1};
  char prefix[LKI_PROOF_KEY_BYTES];
  lki_proof_key(p, LKI_PROOF_LIST, count, prefix); /* one like most */
  *(strrchr(prefix, '/') + 1) = 0;
  lake_status s = lki_store_list(store, prefix, NULL, take, &w, lki_proof_until(p), err);
  if (s == LAKE_OK && !w.wrong && w.left > 0) return say_wrong(&w, err);
  if (s == LAKE_OK && !w.wrong) {
    w.left = count + 1;
    s = lki_store_list(store, prefix, w.last, take, &w, lki_proof_until(p), err);
  }
  if (s == LAKE_CORRUPT) return lki_proof_refute(err, "a listing is not in order (%s)", err->text);
  if (s != LAKE_OK) return s;
  step_over(&w);
  return w.wrong || w.next < count ? say_wrong(&w, err) : LAKE_OK;
}

static lake_status put_one(lki_proof *p, lake_store *store, uint32_t i, void *ctx, lake_error *err) {
  (void)ctx;
  char key[LKI_PROOF_KEY_BYTES], text[LKI_PROOF_BODY_BYTES];
  lki_proof_key(p, LKI_PROOF_LIST, i, key);
  return lki_store_put(store, key, lki_proof_body(p, 0, i, text), lki_proof_until(p), err);
}

lake_status lki_proof_listing(lki_proof *p, lake_error *err) {
  const uint32_t count = lki_proof_count(p, p->options->list_count);
  p->written[LKI_PROOF_LIST] = count;
  lake_status s = lki_proof_each(p, count, 16, put_one, NULL, err);
  if (s == LAKE_OK) s = check_listing(p, p->stores[1], false, err);
  if (s == LAKE_OK) s = check_listing(p, p->stores[0], false, err);
  if (s == LAKE_OK) snprintf(p->said, sizeof p->said, "%" PRIu32 " objects are listed in order as soon as they are written", count);
  return s;
}

/* ---- removal ---- */

#define THIRDS_COUNT 8u /* in a batch */

static uint32_t third_count(const lki_proof *p) { return (p->written[LKI_PROOF_LIST] + 2) / 3; }

/* The very first one by itself, the others many at once, which may be a request of its own kind. */
static lake_status remove_thirds(lki_proof *p, lake_store *store, uint32_t batch, void *ctx, lake_error *err) {
  (void)ctx;
  char texts[THIRDS_COUNT][LKI_PROOF_KEY_BYTES];
  const char *keys[THIRDS_COUNT];
  uint32_t count = 0;
  for (uint32_t i = batch * THIRDS_COUNT; count < THIRDS_COUNT && i < third_count(p); i++, count++) {
    lki_proof_key(p, LKI_PROOF_LIST, i * 3, texts[count]);
    keys[count] = texts[count];
  }
  lake_status s = batch == 0 && count > 0 ? lki_store_remove(store, keys[0], lki_proof_until(p), err) : LAKE_OK;
  return s == LAKE_OK ? lki_store_remove_many(store, keys, count, NULL, lki_proof_until(p), err) : s;
}

lake_status lki_proof_none(lki_proof *p, const char *key, const char *refutation, lake_error *err) {
  char got[LKI_PROOF_BODY_BYTES];
  size_t bytes = 0;
  lake_object_info info;
  for (int i = 0; i < 2; i++) {
    lake_status s = lki_proof_read(p->stores[i], key, got, sizeof got, &bytes, lki_proof_until(p), err);
    if (s == LAKE_NOTFOUND) s = lki_store_head(p->stores[i], key, &info, lki_proof_until(p), err);
    if (s == LAKE_OK || s == LAKE_CORRUPT) return lki_proof_refute(err, "%s", refutation);
    if (s != LAKE_NOTFOUND) return s;
  }
  return LAKE_OK;
}

lake_status lki_proof_removal(lki_proof *p, lake_error *err) {
  char key[LKI_PROOF_KEY_BYTES], text[LKI_PROOF_BODY_BYTES];
  lake_status s = p->keeps_all ? LAKE_DENIED : lki_proof_each(p, (third_count(p) + THIRDS_COUNT - 1) / THIRDS_COUNT, 16, remove_thirds, NULL, err);
  if (s == LAKE_DENIED) { /* a producer may be kept from it; whoever runs lake reclaim needs it */
    p->result = LKI_PROOF_WARN;
    p->keeps_all = true;
    snprintf(p->said, sizeof p->said, "these credentials may not remove objects: lake reclaim needs others, and what this check wrote stays");
    return LAKE_OK;
  }
  lki_proof_key(p, LKI_PROOF_LIST, 0, key);
  if (s == LAKE_OK) s = lki_proof_none(p, key, "an object that was removed is still there", err);
  if (s == LAKE_OK) s = lki_store_remove(p->stores[0], key, lki_proof_until(p), err); /* nothing is there: fine too */
  if (s == LAKE_OK) s = check_listing(p, p->stores[1], true, err);
  if (s != LAKE_OK) return s;
  const lake_bytes body = lki_proof_body(p, 3, 0, text);
  s = lki_proof_create_for_sure(p, p->stores[1], key, body, err);
  const bool taken = s == LAKE_EXISTS;
  if (s == LAKE_OK || taken) s = lki_proof_read_back(p, p->stores[0], key, body, err);
  if (s == LAKE_UNSUPPORTED && taken)
    return lki_proof_refute(err, "the name of an object that was removed cannot be created again");
  if (s == LAKE_OK) snprintf(p->said, sizeof p->said, "what is removed is gone at once, also from listings");
  return s;
}
