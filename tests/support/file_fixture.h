/* A file: store in a scratch folder, opened without the door's retries in between: for the fault tests of the store. */
#ifndef LAKE_TESTS_FILE_FIXTURE_H
#define LAKE_TESTS_FILE_FIXTURE_H

#include "support/support.h"

#include "base/buffer.h"
#include "store/file.h"
#include "store/store.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
  lake_env *env;
  char root[PATH_MAX];
  lki_file_store *fs;
  lake_store *store;
} fixture;

static inline void open_store(fixture *f) {
  const lake_store_ops *ops = NULL;
  void *self = NULL;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lki_store_file_open(f->env, f->root, &ops, &self, &err), &err);
  f->fs = self;
  assert_ok(lake_store_wrap(f->env, ops, self, "file", &f->store, &err), &err);
}

static inline int setup(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  assert_int_equal(lake_env_open(NULL, &f->env, NULL), LAKE_OK);
  snprintf(f->root, sizeof f->root, "%s/root", test_scratch());
  open_store(f);
  *state = f;
  return 0;
}

static inline int teardown(void **state) {
  fixture *f = *state;
  lake_store_close(f->store);
  lake_env_close(f->env);
  free(f);
  return 0;
}

static inline lake_bytes text_bytes(const char *text) {
  lake_bytes bytes = {text, strlen(text)};
  return bytes;
}

static inline lake_status put(fixture *f, const char *key, const char *text, lake_error *err) {
  return lki_store_put(f->store, key, text_bytes(text), test_deadline(f->env), err);
}

static inline lake_status create(fixture *f, const char *key, const char *text, lake_error *err) {
  return lki_store_put_if_absent(f->store, key, text_bytes(text), test_deadline(f->env), err);
}

static inline lake_status get(fixture *f, const char *key, char *text, size_t room, lake_error *err) {
  lake_buffer out;
  lki_buffer_init_fixed(&out, f->env, text, room - 1);
  lake_status s = lki_store_get(f->store, key, lki_range_whole(), &out, NULL, test_deadline(f->env), err);
  if (s == LAKE_OK) text[out.bytes] = 0;
  return s;
}

static inline void assert_text(fixture *f, const char *key, const char *want) {
  char text[256];
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(get(f, key, text, sizeof text, &err), &err);
  assert_string_equal(text, want);
}

#endif
