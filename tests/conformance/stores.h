/* The stores under conformance test. Each test gets a fresh, empty store of each kind; a further kind is the
 * store that $LAKE_CONFORMANCE_URL names, below which a fresh prefix is made; $LAKE_CONFORMANCE_ONLY_URL leaves
 * out all others. The kinds file-rename and
 * file-claim are the file: store made to believe that its file system lacks hard links, or renameat2(2) as
 * well. */
#ifndef LAKE_TESTS_CONFORMANCE_STORES_H
#define LAKE_TESTS_CONFORMANCE_STORES_H

#include "support/support.h"

#include "base/buffer.h"
#include "base/env.h"
#include "store/file.h"
#include "store/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum store_kind {
  KIND_MEM,
  KIND_FILE,
  KIND_FILE_RENAME,
  KIND_FILE_CLAIM,
  KIND_FILE_OLD,
  KIND_URL,
  KIND_COUNT
} store_kind;

typedef struct fixture {
  store_kind kind;
  lake_env *env;
  lake_store *store;
  char *url;
} fixture;

static const char *const kind_names[KIND_COUNT] = {"mem",        "file",     "file-rename",
                                                   "file-claim", "file-old", "url"};

/* Another handle of the fixture's store, in an environment of the caller's. */
static inline lake_store *open_kind(lake_env *env, store_kind kind, const char *url) {
  lake_store *store = NULL;
  lake_error err = LAKE_ERROR_INIT;
  if (kind != KIND_FILE_RENAME && kind != KIND_FILE_CLAIM && kind != KIND_FILE_OLD) {
    lake_status s = lake_store_open(env, url, &store, &err);
    if (s != LAKE_OK) fprintf(stderr, "cannot open %s: %s\n", url, err.text);
    return store;
  }
  const lake_store_ops *ops = NULL;
  void *self = NULL;
  if (lki_store_file_open(env, url + strlen("file:"), &ops, &self, &err) != LAKE_OK) return NULL;
  lki_file_store *fs = self;
  if (kind == KIND_FILE_RENAME) atomic_store(&fs->publish, LKI_PUBLISH_RENAME);
  if (kind == KIND_FILE_CLAIM) atomic_store(&fs->publish, LKI_PUBLISH_CLAIM);
  if (kind == KIND_FILE_OLD) atomic_store(&fs->no_openat2, true);
  return lake_store_wrap(env, ops, self, url, &store, &err) == LAKE_OK ? store : NULL;
}

/* The prefix goes before the options of the URL. */
static inline void url_of_server(unsigned long long unique, char out[1024]) {
  const char *url = getenv("LAKE_CONFORMANCE_URL"), *options = strchrnul(url, '?');
  snprintf(out, 1024, "%.*s/t%016llx%s", (int)(options - url), url, unique, options);
}

static inline int fixture_setup(void **state) {
  store_kind kind = *(store_kind *)*state;
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  f->kind = kind;
  assert_int_equal(lake_env_open(NULL, &f->env, NULL), LAKE_OK);
  f->url = malloc(1024);
  assert_non_null(f->url);
  unsigned long long unique = lki_random_u64(f->env);
  if (kind == KIND_MEM)
    snprintf(f->url, 1024, "mem:t%016llx", unique);
  else if (kind == KIND_URL)
    url_of_server(unique, f->url);
  else
    snprintf(f->url, 1024, "file:%s/deep/store", test_scratch());
  f->store = open_kind(f->env, kind, f->url);
  assert_non_null(f->store);
  *state = f;
  return 0;
}

static inline int fixture_teardown(void **state) {
  fixture *f = *state;
  lake_store_close(f->store);
  lake_env_close(f->env);
  free(f->url);
  free(f);
  return 0;
}

/* Runs every test on every kind; the count of failed tests. */
static inline int run_on_all_kinds(const struct CMUnitTest *tests, size_t count) {
  static store_kind kinds[KIND_COUNT];
  const bool url = getenv("LAKE_CONFORMANCE_URL") != NULL;
  const bool others = getenv("LAKE_CONFORMANCE_ONLY_URL") == NULL;
  int failed = 0;
  if (!url && !others) {
    fprintf(stderr, "LAKE_CONFORMANCE_ONLY_URL wants LAKE_CONFORMANCE_URL\n");
    return 1;
  }
  for (int kind = 0; kind < KIND_COUNT; kind++) {
    if (kind == KIND_URL ? !url : !others) continue;
    kinds[kind] = (store_kind)kind;
    struct CMUnitTest *copy = calloc(count, sizeof *copy);
    if (copy == NULL) return 1;
    for (size_t i = 0; i < count; i++) {
      copy[i] = tests[i];
      copy[i].setup_func = fixture_setup;
      copy[i].teardown_func = fixture_teardown;
      copy[i].initial_state = &kinds[kind];
    }
    failed += _cmocka_run_group_tests(kind_names[kind], copy, count, NULL, NULL);
    free(copy);
  }
  return failed;
}

static inline lake_bytes text_bytes(const char *text) {
  lake_bytes bytes = {text, strlen(text)};
  return bytes;
}

/* The object has exactly these bytes. */
static inline void assert_object(fixture *f, const char *key, const void *data, size_t bytes) {
  lake_buffer got;
  lki_buffer_init(&got, f->env, (size_t)64 << 20);
  lake_error err = LAKE_ERROR_INIT;
  lake_object_info info = {0};
  assert_ok(lki_store_get(f->store, key, lki_range_whole(), &got, &info, test_deadline(f->env), &err), &err);
  assert_int_equal(got.bytes, bytes);
  assert_int_equal(info.object_bytes, bytes);
  if (bytes > 0) assert_memory_equal(got.data, data, bytes);
  lki_buffer_free(&got);
}

#endif
