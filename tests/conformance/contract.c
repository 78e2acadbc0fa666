/* What every store must do, one caller at a time: the contract of <lakestream/sys/store.h>, member by member.
 */
#include "conformance/stores.h"
#include "base/rng.h"

static lake_status put(fixture *f, const char *key, lake_bytes body, lake_error *err) {
  return lki_store_put(f->store, key, body, test_deadline(f->env), err);
}

static lake_status create(fixture *f, const char *key, lake_bytes body, lake_error *err) {
  return lki_store_put_if_absent(f->store, key, body, test_deadline(f->env), err);
}

static void test_missing(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  for (int round = 0; round < 2; round++) { /* before anything was written, and after */
    unsigned char room[4] = {1, 2, 3, 4};
    lake_buffer out;
    lki_buffer_init_fixed(&out, f->env, room, sizeof room);
    out.bytes = 3;
    lake_object_info info = {77};
    assert_status(lki_store_get(f->store, "a/b", lki_range_whole(), &out, &info, test_deadline(f->env), &err),
                  LAKE_NOTFOUND, &err);
    assert_non_null(strstr(err.text, "a/b"));
    assert_non_null(strstr(err.text, lki_store_url(f->store)));
    assert_status(lki_store_head(f->store, "a/b", &info, test_deadline(f->env), &err), LAKE_NOTFOUND, &err);
    assert_int_equal(out.bytes, 3); /* untouched */
    assert_int_equal(info.object_bytes, 77);
    assert_ok(lki_store_remove(f->store, "a/b", test_deadline(f->env), &err), &err);
    assert_ok(put(f, "a/c", text_bytes("x"), &err), &err);
  }
}

static void test_empty_object(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  lake_bytes none = {NULL, 0};
  assert_ok(create(f, "empty/a", none, &err), &err);
  assert_ok(put(f, "empty/b", none, &err), &err);
  assert_object(f, "empty/a", "", 0);
  assert_object(f, "empty/b", "", 0);
  assert_status(create(f, "empty/a", text_bytes("x"), &err), LAKE_EXISTS, &err);
  lake_buffer out;
  lki_buffer_init(&out, f->env, 16);
  assert_ok(lki_store_get(f->store, "empty/a", lki_range_suffix(10), &out, NULL, test_deadline(f->env), &err),
            &err);
  assert_int_equal(out.bytes, 0);
  assert_ok(
      lki_store_get(f->store, "empty/a", lki_range_exact(0, 0), &out, NULL, test_deadline(f->env), &err),
      &err);
  assert_status(
      lki_store_get(f->store, "empty/a", lki_range_exact(0, 1), &out, NULL, test_deadline(f->env), &err),
      LAKE_CORRUPT, &err);
  lki_buffer_free(&out);
}

static unsigned char *pattern(size_t bytes, uint64_t seed) {
  unsigned char *data = malloc(bytes + 8);
  assert_non_null(data);
  lki_rng rng = {seed};
  for (size_t i = 0; i < bytes; i += 8) {
    uint64_t x = lki_rng_next(&rng);
    memcpy(data + i, &x, 8);
  }
  return data;
}

static void assert_range(fixture *f, const char *key, lake_range range, const unsigned char *want,
                         size_t bytes) {
  lake_buffer out;
  lki_buffer_init(&out, f->env, bytes);
  lake_error err = LAKE_ERROR_INIT;
  lake_object_info info = {0};
  assert_ok(lki_store_get(f->store, key, range, &out, &info, test_deadline(f->env), &err), &err);
  assert_int_equal(out.bytes, bytes);
  assert_memory_equal(out.data, want, bytes);
  lki_buffer_free(&out);
}

static void test_ranges(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  const size_t bytes = (size_t)5 * 1024 * 1024 + 13;
  unsigned char *data = pattern(bytes, 7);
  lake_bytes body = {data, bytes};
  assert_ok(create(f, "big", body, &err), &err);
  assert_object(f, "big", data, bytes);
  lake_object_info info = {0};
  assert_ok(lki_store_head(f->store, "big", &info, test_deadline(f->env), &err), &err);
  assert_int_equal(info.object_bytes, bytes);
  assert_range(f, "big", lki_range_exact(0, 1), data, 1);
  assert_range(f, "big", lki_range_exact(0, bytes), data, bytes);
  assert_range(f, "big", lki_range_exact(1234567, 100001), data + 1234567, 100001);
  assert_range(f, "big", lki_range_exact(bytes - 1, 1), data + bytes - 1, 1);
  assert_range(f, "big", lki_range_suffix(1), data + bytes - 1, 1);
  assert_range(f, "big", lki_range_suffix(4096), data + bytes - 4096, 4096);
  assert_range(f, "big", lki_range_suffix(bytes), data, bytes);
  assert_range(f, "big", lki_range_suffix(bytes + 999), data, bytes);
  const lake_range past[] = {lki_range_exact(0, bytes + 1),      lki_range_exact(bytes, 1),
                             lki_range_exact(bytes - 1, 2),      lki_range_exact(bytes + 5, 1),
                             lki_range_exact(UINT64_MAX - 8, 4), lki_range_exact(bytes + 1, 0)};
  for (size_t i = 0; i < sizeof past / sizeof past[0]; i++) {
    unsigned char *room = malloc(bytes + 1);
    lake_buffer out;
    lki_buffer_init_fixed(&out, f->env, room, bytes + 1);
    out.bytes = 5;
    assert_status(lki_store_get(f->store, "big", past[i], &out, NULL, test_deadline(f->env), &err),
                  LAKE_CORRUPT, &err);
    assert_int_equal(out.bytes, 5);
    free(room);
  }
  lake_buffer out;
  lki_buffer_init(&out, f->env, 100);
  assert_status(lki_store_get(f->store, "big", lki_range_whole(), &out, NULL, test_deadline(f->env), &err),
                LAKE_CORRUPT, &err); /* does not fit */
  assert_status(
      lki_store_get(f->store, "big", lki_range_exact(0, 101), &out, NULL, test_deadline(f->env), &err),
      LAKE_INVALID, &err);
  assert_status(
      lki_store_get(f->store, "big", lki_range_exact(UINT64_MAX, 2), &out, NULL, test_deadline(f->env), &err),
      LAKE_INVALID, &err);
  lki_buffer_free(&out);
  free(data);
}

static void test_put_replaces(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(put(f, "dir/k", text_bytes("first"), &err), &err);
  assert_ok(put(f, "dir/k", text_bytes("the second is longer"), &err), &err);
  assert_object(f, "dir/k", "the second is longer", 20);
  assert_ok(put(f, "dir/k", text_bytes("3"), &err), &err);
  assert_object(f, "dir/k", "3", 1);
}

static void test_create_never_overwrites(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(create(f, "m/1", text_bytes("winner"), &err), &err);
  assert_status(create(f, "m/1", text_bytes("loser"), &err), LAKE_EXISTS, &err);
  assert_status(create(f, "m/1", text_bytes("winner"), &err), LAKE_EXISTS, &err);
  assert_object(f, "m/1", "winner", 6);
  assert_ok(put(f, "m/2", text_bytes("put"), &err), &err);
  assert_status(create(f, "m/2", text_bytes("loser"), &err), LAKE_EXISTS, &err);
  assert_object(f, "m/2", "put", 3);
  for (int i = 0; i < 3; i++) { /* a removed name is free again */
    assert_ok(lki_store_remove(f->store, "m/1", test_deadline(f->env), &err), &err);
    assert_status(lki_store_head(f->store, "m/1", &(lake_object_info){0}, test_deadline(f->env), &err),
                  LAKE_NOTFOUND, &err);
    assert_ok(create(f, "m/1", text_bytes("again"), &err), &err);
    assert_object(f, "m/1", "again", 5);
    assert_status(create(f, "m/1", text_bytes("loser"), &err), LAKE_EXISTS, &err);
  }
}

/* Handles see each other's writes at once. */
static void test_second_handle(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  lake_store *other = open_kind(f->env, f->kind, f->url);
  assert_non_null(other);
  assert_ok(lki_store_put(other, "seen", text_bytes("yes"), test_deadline(f->env), &err), &err);
  lake_store_close(other);
  assert_object(f, "seen", "yes", 3);
}

static const char *const odd_keys[] = {
    "=",
    "a=b/c=d",
    "user@host",
    "with space/and another",
    " lead",
    "trail ",
    "plus+plus",
    "100%",
    "%41",
    "%2F",
    "%2e%2e/x",
    "\xc3\xa4\xc3\xb6/\xe6\x97\xa5\xe6\x9c\xac",
    "\xf0\x9f\x8c\x8a",
    "e\xcc\x81",
    "semi;colon",
    "q?x=1&y",
    "hash#tag",
    "tilde~",
    "star*",
    "back\\slash",
    "quote'\"",
    "<xml>&amp;",
    "...",
    "..a",
    ".hidden/.x",
    ".lake",
    "a:b",
    "comma,dot.",
    "-dash/--",
    "!$()[]{}^`|",
};

static bool collect(void *ctx, const char *key, uint64_t object_bytes);

typedef struct keys {
  size_t count, capacity, stop_after;
  char **names;
  uint64_t *sizes;
} keys;

static bool collect(void *ctx, const char *key, uint64_t object_bytes) {
  keys *k = ctx;
  if (k->count == k->capacity) {
    k->capacity = k->capacity * 2 + 64;
    k->names = realloc(k->names, k->capacity * sizeof *k->names);
    k->sizes = realloc(k->sizes, k->capacity * sizeof *k->sizes);
    if (k->names == NULL || k->sizes == NULL) abort();
  }
  k->names[k->count] = strdup(key);
  k->sizes[k->count++] = object_bytes;
  return k->count != k->stop_after;
}

static void keys_free(keys *k) {
  for (size_t i = 0; i < k->count; i++) free(k->names[i]);
  free(k->names);
  free(k->sizes);
  memset(k, 0, sizeof *k);
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Azure turns a backslash in a name into a slash, so az: refuses it rather than store another key. */
static bool cannot_hold(const fixture *f, const char *key) {
  return strncmp(f->url, "az:", 3) == 0 && strchr(key, '\\') != NULL;
}

static void test_odd_keys(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  char *sorted[sizeof odd_keys / sizeof odd_keys[0]];
  size_t count = 0;
  for (size_t i = 0; i < sizeof odd_keys / sizeof odd_keys[0]; i++) {
    if (cannot_hold(f, odd_keys[i])) {
      assert_status(create(f, odd_keys[i], text_bytes("no"), &err), LAKE_INVALID, &err);
      assert_status(put(f, odd_keys[i], text_bytes("no"), &err), LAKE_INVALID, &err);
      continue;
    }
    assert_ok(create(f, odd_keys[i], text_bytes(odd_keys[i]), &err), &err);
    assert_status(create(f, odd_keys[i], text_bytes("no"), &err), LAKE_EXISTS, &err);
    memcpy(&sorted[count++], &odd_keys[i], sizeof sorted[0]);
  }
  qsort(sorted, count, sizeof sorted[0], by_text);
  for (size_t i = 0; i < count; i++) assert_object(f, sorted[i], sorted[i], strlen(sorted[i]));
  keys got = {0};
  assert_ok(lki_store_list(f->store, "", NULL, collect, &got, test_deadline(f->env), &err), &err);
  assert_int_equal(got.count, count);
  for (size_t i = 0; i < count; i++) assert_string_equal(got.names[i], sorted[i]);
  for (size_t i = 0; i < count; i++) {
    keys_free(&got);
    assert_ok(lki_store_list(f->store, sorted[i], NULL, collect, &got, test_deadline(f->env), &err), &err);
    assert_true(got.count >= 1); /* each is a prefix of itself */
    assert_string_equal(got.names[0], sorted[i]);
    assert_ok(lki_store_remove(f->store, sorted[i], test_deadline(f->env), &err), &err);
  }
  keys_free(&got);
  assert_ok(lki_store_list(f->store, "", NULL, collect, &got, test_deadline(f->env), &err), &err);
  assert_int_equal(got.count, 0);
  keys_free(&got);
}

static void test_longest_key(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  char key[LKI_KEY_BYTES_MAX + 2];
  memset(key, 'k', sizeof key);
  for (size_t i = 225; i < LKI_KEY_BYTES_MAX; i += 226) key[i] = '/';
  key[LKI_KEY_BYTES_MAX] = 0;
  assert_ok(create(f, key, text_bytes("long"), &err), &err);
  assert_object(f, key, "long", 4);
  keys got = {0};
  assert_ok(lki_store_list(f->store, "kk", NULL, collect, &got, test_deadline(f->env), &err), &err);
  assert_int_equal(got.count, 1);
  assert_string_equal(got.names[0], key);
  keys_free(&got);
  key[LKI_KEY_BYTES_MAX] = 'k';
  key[LKI_KEY_BYTES_MAX + 1] = 0;
  assert_status(create(f, key, text_bytes("long"), &err), LAKE_INVALID, &err);
}

/* Compares one listing with what a sorted array of all keys says. */
static void check_listing(fixture *f, char *const *all, size_t count, const char *prefix, const char *after,
                          size_t stop_after) {
  lake_error err = LAKE_ERROR_INIT;
  keys got = {0};
  got.stop_after = stop_after;
  assert_ok(lki_store_list(f->store, prefix, after, collect, &got, test_deadline(f->env), &err), &err);
  size_t n = 0;
  for (size_t i = 0; i < count && (stop_after == 0 || n < stop_after); i++) {
    if (strncmp(all[i], prefix, strlen(prefix)) != 0 || (after != NULL && strcmp(all[i], after) <= 0))
      continue;
    if (n >= got.count || strcmp(got.names[n], all[i]) != 0)
      fail_msg("prefix \"%s\" after \"%s\": at %zu expected %s, got %s", prefix,
               after != NULL ? after : "(null)", n, all[i], n < got.count ? got.names[n] : "(end)");
    assert_int_equal(got.sizes[n], strlen(all[i]));
    n++;
  }
  assert_int_equal(got.count, n);
  keys_free(&got);
}

/* 2,500 keys whose order a walk by folders gets wrong unless '/' takes part in it. */
static void test_listing(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  lki_rng rng = {test_seed()};
  enum { COUNT = 2500 };
  static const char *const parts[] = {"a", "a.x", "a-", "a0", "b", "b!", "ab", "z~", "A", "\xc3\xa9"};
  char *all[COUNT];
  for (size_t i = 0; i < COUNT; i++) {
    char key[200] = "";
    uint64_t depth = lki_rng_below(&rng, 4);
    for (uint64_t d = 0; d < depth; d++) {
      strncat(key, parts[lki_rng_below(&rng, 10)], 20);
      strncat(key, "/", 2);
    }
    size_t used = strlen(key);
    /* 'o' and a number never name a folder, so no key is the folder of another. */
    snprintf(key + used, sizeof key - used, "%so%zu", parts[lki_rng_below(&rng, 10)], i);
    all[i] = strdup(key);
    assert_non_null(all[i]);
    assert_ok(lki_store_put(f->store, key, text_bytes(key), test_deadline(f->env), &err), &err);
  }
  qsort(all, COUNT, sizeof all[0], by_text);
  check_listing(f, all, COUNT, "", NULL, 0);
  check_listing(f, all, COUNT, "", "", 0);
  static const char *const prefixes[] = {"a",      "a/",      "a.",           "a.x/",      "a/a/", "a/a",
                                         "b!/z~/", "nothing", "nothing/here", "z~/z~/z~/", "\xc3"};
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
    check_listing(f, all, COUNT, prefixes[i], NULL, 0);
    check_listing(f, all, COUNT, prefixes[i], "a/a.x/", 0);
    check_listing(f, all, COUNT, prefixes[i], "a/b", 7);
    check_listing(f, all, COUNT, prefixes[i], "zzz", 0);
    check_listing(f, all, COUNT, prefixes[i], prefixes[i], 3);
  }
  for (int i = 0; i < 40; i++) {
    const char *after = all[lki_rng_below(&rng, COUNT)];
    check_listing(f, all, COUNT, "", after, 1 + lki_rng_below(&rng, 50));
    check_listing(f, all, COUNT, "a", after, 0);
  }
  check_listing(f, all, COUNT, "", all[COUNT - 1], 0);
  check_listing(f, all, COUNT, "", NULL, 1);
  for (size_t i = 0; i < COUNT; i++) free(all[i]);
}

/* What was written is in the very next listing, and what was removed is not. */
static void test_listing_follows_writes(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  for (size_t i = 0; i < 50; i++) {
    char key[64];
    snprintf(key, sizeof key, "w/%zu/%02zu", i % 3, i);
    assert_ok(create(f, key, text_bytes("x"), &err), &err);
    keys got = {0};
    assert_ok(lki_store_list(f->store, key, NULL, collect, &got, test_deadline(f->env), &err), &err);
    assert_int_equal(got.count, 1);
    keys_free(&got);
    if (i % 2 == 1) {
      assert_ok(lki_store_remove(f->store, key, test_deadline(f->env), &err), &err);
      assert_ok(lki_store_list(f->store, key, NULL, collect, &got, test_deadline(f->env), &err), &err);
      assert_int_equal(got.count, 0);
      keys_free(&got);
    }
  }
  keys got = {0};
  assert_ok(lki_store_list(f->store, "w/", NULL, collect, &got, test_deadline(f->env), &err), &err);
  assert_int_equal(got.count, 25);
  keys_free(&got);
}

typedef struct removal {
  fixture *f;
  size_t count;
} removal;

static bool remove_listed(void *ctx, const char *key, uint64_t object_bytes) {
  removal *r = ctx;
  (void)object_bytes;
  lake_error err = LAKE_ERROR_INIT;
  if (lki_store_remove(r->f->store, key, test_deadline(r->f->env), &err) == LAKE_OK) r->count++;
  return true;
}

/* A callback may use the store. */
static void test_remove_while_listing(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  for (size_t i = 0; i < 300; i++) {
    char key[64];
    snprintf(key, sizeof key, "r/%zu/%zu", i % 7, i);
    assert_ok(put(f, key, text_bytes("x"), &err), &err);
  }
  removal r = {f, 0};
  assert_ok(lki_store_list(f->store, "r/", NULL, remove_listed, &r, test_deadline(f->env), &err), &err);
  assert_int_equal(r.count, 300);
  keys got = {0};
  assert_ok(lki_store_list(f->store, "", NULL, collect, &got, test_deadline(f->env), &err), &err);
  assert_int_equal(got.count, 0);
}

/* One key as the folder of another: a store may refuse it, but then nothing changes. */
static void test_key_is_a_folder(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(put(f, "a/b", text_bytes("object"), &err), &err);
  const char *const keys_below[] = {"a/b/c", "a", "a/b/c/d"};
  for (size_t i = 0; i < 3; i++) {
    for (int way = 0; way < 2; way++) {
      lake_status s = way == 0 ? put(f, keys_below[i], text_bytes("x"), &err)
                               : create(f, keys_below[i], text_bytes("x"), &err);
      if (s == LAKE_OK) {
        assert_object(f, keys_below[i], "x", 1);
        assert_ok(lki_store_remove(f->store, keys_below[i], test_deadline(f->env), &err), &err);
      } else {
        assert_status(s, LAKE_INVALID, &err);
      }
      lake_object_info info;
      assert_status(lki_store_head(f->store, keys_below[i], &info, test_deadline(f->env), &err),
                    LAKE_NOTFOUND, &err);
      assert_ok(lki_store_remove(f->store, keys_below[i], test_deadline(f->env), &err), &err);
      assert_object(f, "a/b", "object", 6);
    }
  }
  keys got = {0};
  assert_ok(lki_store_list(f->store, "", NULL, collect, &got, test_deadline(f->env), &err), &err);
  assert_int_equal(got.count, 1);
  assert_string_equal(got.names[0], "a/b");
  keys_free(&got);
}

static void test_bad_keys(void **state) {
  fixture *f = *state;
  lake_error err = LAKE_ERROR_INIT;
  static const char *const bad[] = {"",     "/",      "/a",  "a/",   "a//b", ".",           "..",
                                    "../a", "a/../b", "a/.", "a/..", "./a",  ".lake-tmp/x", "a/.lake-x"};
  lake_buffer out;
  lki_buffer_init(&out, f->env, 100);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    assert_status(put(f, bad[i], text_bytes("x"), &err), LAKE_INVALID, &err);
    assert_status(create(f, bad[i], text_bytes("x"), &err), LAKE_INVALID, &err);
    assert_status(lki_store_get(f->store, bad[i], lki_range_whole(), &out, NULL, test_deadline(f->env), &err),
                  LAKE_INVALID, &err);
    assert_status(lki_store_remove(f->store, bad[i], test_deadline(f->env), &err), LAKE_INVALID, &err);
  }
  keys got = {0};
  assert_status(lki_store_list(f->store, "../", NULL, collect, &got, test_deadline(f->env), &err),
                LAKE_INVALID, &err);
  assert_ok(lki_store_list(f->store, "..", NULL, collect, &got, test_deadline(f->env), &err), &err);
  assert_ok(lki_store_list(f->store, "", NULL, collect, &got, test_deadline(f->env), &err), &err);
  assert_int_equal(got.count, 0);
}

/* On success a NULL err is fine, on failure too. */
static void test_no_error_place(void **state) {
  fixture *f = *state;
  lake_buffer out;
  lki_buffer_init(&out, f->env, 100);
  assert_int_equal(lki_store_get(f->store, "no", lki_range_whole(), &out, NULL, test_deadline(f->env), NULL),
                   LAKE_NOTFOUND);
  assert_int_equal(lki_store_put_if_absent(f->store, "k", text_bytes("v"), test_deadline(f->env), NULL),
                   LAKE_OK);
  assert_int_equal(lki_store_put_if_absent(f->store, "k", text_bytes("v"), test_deadline(f->env), NULL),
                   LAKE_EXISTS);
  lake_store_stats stats;
  lake_store_stats_get(f->store, &stats);
  assert_int_equal(stats.get_count, 1);
  assert_int_equal(stats.put_if_absent_count, 2);
  assert_int_equal(stats.failed_count, 0);
  assert_int_equal(stats.written_bytes, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_missing),
      cmocka_unit_test(test_empty_object),
      cmocka_unit_test(test_ranges),
      cmocka_unit_test(test_put_replaces),
      cmocka_unit_test(test_create_never_overwrites),
      cmocka_unit_test(test_second_handle),
      cmocka_unit_test(test_odd_keys),
      cmocka_unit_test(test_longest_key),
      cmocka_unit_test(test_listing),
      cmocka_unit_test(test_listing_follows_writes),
      cmocka_unit_test(test_remove_while_listing),
      cmocka_unit_test(test_key_is_a_folder),
      cmocka_unit_test(test_bad_keys),
      cmocka_unit_test(test_no_error_place),
  };
  return run_on_all_kinds(tests, sizeof tests / sizeof tests[0]);
}
