/* A feeder's input: order, kinds of file, what is skipped, sharing, places. */
#include "support/support.h"
#include "feed/input.h"
#include "feed/place.h"
#include "feed/utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define DOCUMENTS_MAX 64

typedef struct found {
  char *text[DOCUMENTS_MAX];
  lki_input_place place[DOCUMENTS_MAX];
  size_t count;
  lki_input_counts counts;
  lake_status end; /* END, or what stopped it */
  lake_error err;
} found;

static void write_file(const char *folder, const char *name, const void *data, size_t bytes) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

static void write_text(const char *folder, const char *name, const char *text) {
  write_file(folder, name, text, strlen(text));
}

static void write_gz(const char *folder, const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  gzFile file = gzopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(gzwrite(file, text, (unsigned)strlen(text)), (int)strlen(text));
  assert_int_equal(gzclose(file), Z_OK);
}

static void make_folder(const char *folder, const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  assert_int_equal(mkdir(path, 0777), 0);
}

static void drain(lki_input *in, found *f) {
  lki_document document;
  while ((f->end = lki_input_next(in, &document, &f->err)) == LAKE_OK) {
    assert_true(f->count < DOCUMENTS_MAX);
    f->place[f->count] = document.place;
    f->text[f->count++] = strndup(document.text.data, document.text.bytes);
  }
  f->counts = lki_input_counts_get(in);
}

static found read_all(const char *folder, lki_input_options options) {
  lki_input *in = NULL;
  lake_error err = LAKE_ERROR_INIT;
  found f = {0};
  if (options.count == 0) options.count = 1;
  assert_ok(lki_input_open(&folder, 1, &options, &in, &err), &err);
  drain(in, &f);
  lki_input_close(in);
  return f;
}

static void forget(found *f) {
  for (size_t i = 0; i < f->count; i++) free(f->text[i]);
}

static void assert_texts(found *f, const char *const *want, size_t count) {
  assert_int_equal(f->end, LAKE_END);
  for (size_t i = 0; i < f->count && i < count; i++) assert_string_equal(f->text[i], want[i]);
  assert_int_equal(f->count, count);
  forget(f);
}

#define ASSERT_TEXTS(f, ...)                                                                                          \
  do {                                                                                                                \
    const char *const want_[] = {__VA_ARGS__};                                                                        \
    assert_texts((f), want_, sizeof want_ / sizeof want_[0]);                                                         \
  } while (0)

static void test_order_and_kinds(void **state) {
  (void)state;
  const char *folder = test_scratch();
  make_folder(folder, "b");
  make_folder(folder, "b/deep");
  write_text(folder, "c.txt", "last");
  write_text(folder, "b/deep/x.txt", "deep");
  write_text(folder, "b.txt", "with dot"); /* '.' sorts before '/' */
  write_text(folder, "b/a.jsonl", "{\"text\":\"one\"}\n{\"text\":\"two\",\"n\":1}\r\n\r\n{\"text\":\"three\"}");
  write_gz(folder, "a.txt.gz", "zipped\r\ntext");
  write_gz(folder, "b/z.jsonl.gz", "{\"text\":\"four\"}\n{\"text\":\"\"}\n{\"text\":\"caf\\u00e9\"}\n");
  write_text(folder, "b/empty.txt", "");
  found f = read_all(folder, (lki_input_options){0});
  assert_int_equal(f.counts.document_count, 9);
  assert_int_equal(f.counts.empty_count, 3); /* a blank line, an empty text, an empty file */
  assert_int_equal(f.counts.skipped_count, 0);
  ASSERT_TEXTS(&f, "zipped\r\ntext", "with dot", "one", "two", "three", "deep", "four", "caf\xc3\xa9", "last");
}

static void count_warning(void *ctx, const char *line) {
  char *all = ctx;
  size_t used = strlen(all);
  snprintf(all + used, 4096 - used, "%s\n", line);
}

static void test_unusable_documents(void **state) {
  (void)state;
  const char *folder = test_scratch();
  char warnings[4096] = "";
  write_file(folder, "1.txt", "ok\xff\xfeno", 6);
  write_file(folder, "2.jsonl", "{\"text\":\"\xc3\x28\"}\n{\"text\":7}\n{\"body\":\"x\"}\nnot json\n[1]\n"
                                "{\"text\":\"a\\u0000b\"}\n{\"text\":\"back\\\\u0000slash\"}\n",
             strlen("{\"text\":\"\xc3\x28\"}\n{\"text\":7}\n{\"body\":\"x\"}\nnot json\n[1]\n"
                    "{\"text\":\"a\\u0000b\"}\n{\"text\":\"back\\\\u0000slash\"}\n"));
  write_text(folder, "3.txt", "fine");
  found f = read_all(folder, (lki_input_options){.warn = count_warning, .ctx = warnings});
  assert_int_equal(f.counts.skipped_count, 7);
  ASSERT_TEXTS(&f, "back\\u0000slash", "fine");
  assert_non_null(strstr(warnings, "1.txt, byte 0): not UTF-8"));
  assert_non_null(strstr(warnings, "no text in that field"));
  assert_non_null(strstr(warnings, "not a JSON object"));
  assert_non_null(strstr(warnings, "U+0000"));
  found g = read_all(folder, (lki_input_options){.invalid_replace = true});
  assert_int_equal(g.counts.replaced_count, 2);
  ASSERT_TEXTS(&g, "ok\xef\xbf\xbd\xef\xbf\xbdno", "\xef\xbf\xbd(", "back\\u0000slash", "fine");
  found h = read_all(folder, (lki_input_options){.field = "body"});
  ASSERT_TEXTS(&h, "x", "fine");
  found l = read_all(folder, (lki_input_options){.document_bytes_max = 4});
  assert_int_equal(l.counts.skipped_count, 8);
  ASSERT_TEXTS(&l, "fine");
}

/* A megabyte line and a document longer than one block are read whole. */
static void test_long_documents(void **state) {
  (void)state;
  const char *folder = test_scratch();
  size_t n = 3000000;
  char *text = malloc(n + 40);
  assert_non_null(text);
  memcpy(text, "{\"text\":\"", 9);
  for (size_t i = 0; i < n; i++) text[9 + i] = (char)('a' + i % 26);
  memcpy(text + 9 + n, "\"}\n", 4);
  write_text(folder, "1.jsonl", text);
  write_gz(folder, "2.txt.gz", text);
  found f = read_all(folder, (lki_input_options){0});
  assert_int_equal(f.end, LAKE_END);
  assert_int_equal(f.count, 2);
  assert_int_equal(strlen(f.text[0]), n);
  assert_memory_equal(f.text[0], text + 9, n);
  assert_string_equal(f.text[1], text);
  forget(&f);
  free(text);
}

static void fill_shared(const char *folder) {
  char text[4096] = "";
  for (int i = 0; i < 17; i++) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, i % 5 == 3 ? "broken %d\n" : "{\"text\":\"line %d\"}\n", i);
  }
  write_text(folder, "b.jsonl", text);
  write_gz(folder, "d.jsonl.gz", text);
  write_text(folder, "a.txt", "first");
  write_text(folder, "c.txt", "");
  write_text(folder, "e.txt", "last");
}

/* Whatever the number of feeders, each document goes to exactly one. */
static void test_feeders_share(void **state) {
  (void)state;
  const char *folder = test_scratch();
  fill_shared(folder);
  found whole = read_all(folder, (lki_input_options){0});
  assert_int_equal(whole.count, 30); /* 2 + 2*17 lines less 2*3 broken */
  for (uint64_t count = 1; count <= 5; count++) {
    found parts[5];
    size_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
      parts[i] = read_all(folder, (lki_input_options){.index = i, .count = count});
      assert_int_equal(parts[i].end, LAKE_END);
      sum += parts[i].count;
    }
    assert_int_equal(sum, whole.count);
    size_t at[5] = {0};
    for (size_t k = 0; k < whole.count; k++) {
      uint64_t owner = whole.place[k].ordinal % count;
      assert_true(at[owner] < parts[owner].count);
      assert_int_equal(parts[owner].place[at[owner]].ordinal, whole.place[k].ordinal);
      assert_string_equal(parts[owner].text[at[owner]++], whole.text[k]);
    }
    for (uint64_t i = 0; i < count; i++) forget(&parts[i]);
  }
  forget(&whole);
}

/* From the place of any document, and from the place behind it, the rest is the rest. */
static void test_seek(void **state) {
  (void)state;
  const char *folder = test_scratch();
  fill_shared(folder);
  for (uint64_t index = 0; index < 3; index++) {
    lki_input_options options = {.index = index, .count = 3};
    found whole = read_all(folder, options);
    lake_error err = LAKE_ERROR_INIT;
    for (size_t k = 0; k < whole.count; k++) {
      lki_input *in = NULL;
      lki_document document;
      assert_ok(lki_input_open(&folder, 1, &options, &in, &err), &err);
      assert_ok(lki_input_seek(in, whole.place[k], &err), &err);
      assert_ok(lki_input_next(in, &document, &err), &err);
      assert_int_equal(document.text.bytes, strlen(whole.text[k]));
      assert_memory_equal(document.text.data, whole.text[k], document.text.bytes);
      lki_input_place behind = lki_input_place_get(in);
      found rest = {0};
      assert_ok(lki_input_seek(in, behind, &err), &err);
      drain(in, &rest);
      assert_texts(&rest, (const char *const *)whole.text + k + 1, whole.count - k - 1);
      lki_input_close(in);
    }
    forget(&whole);
  }
}

static void test_damaged_gz(void **state) {
  (void)state;
  const char *folder = test_scratch();
  char path[512], bytes[4096];
  char text[20001];
  for (size_t i = 0; i + 1 < sizeof text; i++) text[i] = (char)('a' + (i * i / 7) % 26);
  text[sizeof text - 1] = 0;
  write_gz(folder, "a.txt.gz", text);
  snprintf(path, sizeof path, "%s/a.txt.gz", folder);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t n = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  assert_true(n > 100);
  assert_int_equal(truncate(path, (off_t)(n / 2 < 2000 ? n / 2 : 2000)), 0);
  found f = read_all(folder, (lki_input_options){0});
  assert_status(f.end, LAKE_CORRUPT, &f.err);
  assert_non_null(strstr(f.err.text, "a.txt.gz"));
  assert_non_null(strstr(f.err.text, "cut short"));
  assert_int_equal(f.count, 0);
}

static void test_lists(void **state) {
  (void)state;
  const char *folder = test_scratch();
  char link[512], inside[512];
  lake_error err = LAKE_ERROR_INIT;
  lki_input *in = NULL, *twice = NULL;
  lki_input_options options = {.count = 1};
  assert_status(lki_input_open(&folder, 1, &options, &in, &err), LAKE_INVALID, &err); /* no files */
  const char *missing = "/nonexistent/input";
  assert_status(lki_input_open(&missing, 1, &options, &in, &err), LAKE_NOTFOUND, &err);
  lki_input_options beyond = {.index = 2, .count = 2};
  assert_status(lki_input_open(&folder, 1, &beyond, &in, &err), LAKE_INVALID, &err);
  write_text(folder, "a.txt", "a");
  snprintf(link, sizeof link, "%s/loop", folder);
  assert_int_equal(symlink(folder, link), 0); /* a folder that holds itself is no endless walk */
  snprintf(inside, sizeof inside, "%s/a.txt", folder);
  const char *both[] = {inside, folder};
  assert_ok(lki_input_open(&folder, 1, &options, &in, &err), &err);
  assert_ok(lki_input_open(both, 2, &options, &twice, &err), &err);
  assert_int_equal(lki_input_file_count(in), 1);
  assert_int_equal(lki_input_file_count(twice), 1); /* named twice, fed once */
  uint64_t hash = lki_input_hash(in);
  assert_int_equal(hash, lki_input_hash(twice));
  assert_status(lki_input_seek(in, (lki_input_place){2, 0, 0}, &err), LAKE_INVALID, &err);
  lki_input_close(in);
  lki_input_close(twice);
  write_text(folder, "a.txt", "ab"); /* another size */
  assert_ok(lki_input_open(&folder, 1, &options, &in, &err), &err);
  assert_true(lki_input_hash(in) != hash);
  lki_input_close(in);
}

static void test_utf8(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t valid;
  } cases[] = {{"plain", 5},          {"\xc3\xa9", 2},         {"\xe2\x82\xac", 3}, {"\xf0\x9f\x98\x80", 4},
               {"\xc0\x80", 0},       {"\xe0\x80\x80", 0},     {"\xed\xa0\x80", 0}, {"\xf4\x90\x80\x80", 0},
               {"\xf0\x80\x80\x80", 0}, {"a\x80", 1},          {"\xe2\x82", 0},     {"\xf5\x80\x80\x80", 0},
               {"\xf4\x8f\xbf\xbf", 4}, {"\xed\x9f\xbf", 3}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    lake_bytes text = {cases[i].text, strlen(cases[i].text)};
    assert_int_equal(lki_utf8_valid_bytes(text), cases[i].valid);
  }
}

static void test_place(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  char text[LKI_FEED_STATE_BYTES];
  lki_feed_place most = {UINT64_MAX, UINT64_MAX, UINT64_MAX, {UINT64_MAX, UINT64_MAX, UINT64_MAX}, UINT64_MAX}, back;
  lki_feed_place some = {1, 2, 3, {4, 5, 6}, 7};
  size_t n = lki_feed_place_format(&most, text);
  assert_true(n < LKI_FEED_STATE_BYTES);
  assert_int_equal(strlen(text), n);
  assert_ok(lki_feed_place_parse((lake_bytes){text, n}, &back, &err), &err);
  assert_memory_equal(&back, &most, sizeof back);
  n = lki_feed_place_format(&some, text);
  assert_string_equal(text, "text1 list=0000000000000001 config=0000000000000002 pass=3 file=4 document=5 at=6 token=7");
  assert_ok(lki_feed_place_parse((lake_bytes){text, n}, &back, &err), &err);
  assert_memory_equal(&back, &some, sizeof back);
  for (size_t cut = 0; cut < n; cut++)
    assert_status(lki_feed_place_parse((lake_bytes){text, cut}, &back, &err), LAKE_INVALID, &err);
  static const char *const bad[] = {
      "", "text2 list=0000000000000001 config=0000000000000002 pass=3 file=4 document=5 at=6 token=7",
      "text1 list=0000000000000001 config=0000000000000002 pass=3 file=4 document=5 at=6 token=-7",
      "text1 list=0000000000000001 config=0000000000000002 pass=3 file=4 document=5 at=6 token=07",
      "text1 list=0000000000000001 config=0000000000000002 pass=3 file=4 document=5 at=6 token=7 "};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert_status(lki_feed_place_parse((lake_bytes){bad[i], strlen(bad[i])}, &back, &err), LAKE_INVALID, &err);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order_and_kinds), cmocka_unit_test(test_unusable_documents),
      cmocka_unit_test(test_long_documents),  cmocka_unit_test(test_feeders_share),
      cmocka_unit_test(test_seek),            cmocka_unit_test(test_damaged_gz),
      cmocka_unit_test(test_lists),           cmocka_unit_test(test_utf8),
      cmocka_unit_test(test_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
