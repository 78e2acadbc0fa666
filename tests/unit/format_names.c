/* Object names, ids and cursors: exact texts, both ways, and what is no name. */
#include "base/checksum.h"
#include "base/env.h"
#include "format/names.h"
#include "format/format.h"
#include "support/support.h"
#include <stdio.h>
#include <string.h>

static void components(void **state) {
  (void)state;
  static const char *const good[] = {"a",
                                     "feeder-0",
                                     "A.b_C-9",
                                     "-x",
                                     "_",
                                     "0",
                                     "0123456789012345678901234567890123456789012345678901234567890123"};
  static const char *const bad[] = {"",
                                    ".",
                                    "..",
                                    ".hidden",
                                    "a/b",
                                    "a b",
                                    "a\n",
                                    "\xc3\xa4",
                                    "a=b",
                                    "a@b",
                                    "a+b",
                                    "a%b",
                                    "01234567890123456789012345678901234567890123456789012345678901234"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_true(lki_name_component_valid(good[i]));
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(lki_name_component_valid(bad[i]));
}

static void manifests(void **state) {
  (void)state;
  char name[LKI_NAME_BYTES];
  uint64_t version = 99;
  static const char *const bad[] = {"",
                                    "manifest/",
                                    "manifest/hint",
                                    "manifest/1.manifest",
                                    "manifest/0000000000000000000a.manifest",
                                    "manifest/000000000000000000001.manifest",
                                    "manifest/00000000000000000001.manifest.tmp",
                                    "manifest/00000000000000000001",
                                    "manifest/18446744073709551616.manifest",
                                    "segment/00000000000000000001.manifest",
                                    "manifest/+0000000000000000001.manifest",
                                    "xmanifest/00000000000000000001.manifest"};
  lki_name_manifest(name, 1234567);
  assert_string_equal(name, "manifest/00000000000001234567.manifest");
  lki_name_manifest(name, UINT64_MAX);
  assert_string_equal(name, "manifest/18446744073709551615.manifest");
  assert_true(lki_name_manifest_parse(name, &version));
  assert_true(version == UINT64_MAX);
  version = 99;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert_false(lki_name_manifest_parse(bad[i], &version));
  assert_int_equal(version, 99);
}

static void segments(void **state) {
  (void)state;
  char name[LKI_NAME_BYTES];
  lki_segment_ref ref = {
      .first_step = 100, .step_count = 5, .level = 12, .object_bytes = 1, .version = 7, .checksum = 0xabc};
  lki_name_segment(name, &ref);
  assert_string_equal(name, "segment/12/00000000000000000100-00000000000000000007-0000000000000abc.segment");
  lki_segment_ref back = {0};
  assert_true(lki_name_segment_parse(name, &back));
  assert_int_equal(back.level, 12);
  assert_int_equal(back.first_step, 100);
  assert_int_equal(back.version, 7);
  assert_int_equal(back.checksum, 0xabc);
  assert_false(lki_name_segment_parse("segment/13/00000000000000000100-00000000000000000007-0000000000000abc.segment", &back));
  assert_false(lki_name_segment_parse("segment/12/00000000000000000100-00000000000000000007-0000000000000ABC.segment", &back));
  assert_false(lki_name_segment_parse("segment/12/100-00000000000000000007-0000000000000abc.segment", &back));
  lki_name_boundary(name, 12);
  assert_string_equal(name, "boundary/00000000000000000012");
  const lki_line line = {31, 99, 0xfedcba9876543210u};
  lki_line again = {0};
  lki_name_line(name, &line);
  assert_string_equal(name, "boundary/line/00000000000000000031-00000000000000000099-fedcba9876543210");
  assert_true(lki_name_line_parse(name, &again));
  assert_memory_equal(&line, &again, sizeof line);
  assert_false(lki_name_line_parse("boundary/00000000000000000012", &again));
  assert_false(lki_name_line_parse("boundary/line/31-99-fedcba9876543210", &again));
  assert_false(lki_name_line_parse("boundary/line/00000000000000000031-00000000000000000099-FEDCBA9876543210", &again));
  assert_false(lki_name_line_parse("boundary/line/00000000000000000031-00000000000000000099-fedcba987654321", &again));
}

static void tgbs(void **state) {
  (void)state;
  char name[LKI_NAME_BYTES], want[LKI_NAME_BYTES], id[LKI_PRODUCER_ID_BYTES_MAX + 1] = "untouched";
  uint64_t epoch = 1, seq = 2;
  const char *rest = "feeder-0/0000000003-00000000000000000040";
  snprintf(want, sizeof want, "data/%02x/%s.tgb", (unsigned)(lki_checksum(rest, strlen(rest), 0) & 255),
           rest);
  lki_name_tgb(name, "feeder-0", 3, 40);
  assert_string_equal(name, want);
  static const char *const bad[] = {
      "",
      "data/",
      "data/00/feeder-0/0000000003-00000000000000000040.tgb", /* the wrong spread */
      "data/0/feeder-0/3-40.tgb",
      "data/00/.x/0000000003-00000000000000000040.tgb",
      "data/00//3-4.tgb",
      "data/00/feeder-0/",
      "data/00/feeder-0",
      "data/00/feeder-0/0000000003_00000000000000000040.tgb"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert_false(lki_name_tgb_parse(bad[i], id, &epoch, &seq));
  /* Right but for one change each. */
  char changed[LKI_NAME_BYTES + 8];
  snprintf(changed, sizeof changed, "%s.tmp", want);
  assert_false(lki_name_tgb_parse(changed, id, &epoch, &seq));
  for (size_t i = 0; want[i] != 0; i++) {
    snprintf(changed, sizeof changed, "%s", want);
    changed[i] = changed[i] == '1' ? '2' : '1';
    assert_false(lki_name_tgb_parse(changed, id, &epoch, &seq));
  }
  assert_string_equal(id, "untouched");
  assert_true(epoch == 1 && seq == 2);
  assert_true(lki_name_tgb_parse(want, id, &epoch, &seq));
  assert_string_equal(id, "feeder-0");
  assert_true(epoch == 3 && seq == 40);
  /* The longest name fits, and the store takes it (240 bytes in a component, 900 in all). */
  lki_name_tgb(name, "0123456789012345678901234567890123456789012345678901234567890123", UINT64_MAX,
               UINT64_MAX);
  assert_true(lki_name_tgb_parse(name, id, &epoch, &seq));
  assert_true(epoch == UINT64_MAX && seq == UINT64_MAX && strlen(name) < 200);
}

static void pins(void **state) {
  (void)state;
  char name[LKI_NAME_BYTES];
  lki_name_pin(name, "default", "step-000120");
  assert_string_equal(name, "watermark/default/step-000120.json");
}

static void ids(void **state) {
  (void)state;
  static const char text[] = "10325476-98ba-4cfe-8101-020304050607";
  static const char *const bad[] = {"",
                                    "10325476-98ba-4cfe-8101-02030405060",
                                    "10325476-98ba-4cfe-8101-0203040506070",
                                    "10325476-98BA-4cfe-8101-020304050607",
                                    "1032547698ba-4cfe-8101-020304050607-",
                                    "10325476-98ba-4cfe-8101-02030405060g",
                                    "10325476 98ba-4cfe-8101-020304050607"};
  lki_id id = {{0}};
  char back[37];
  assert_true(lki_id_parse(text, &id));
  assert_int_equal(id.bytes[0], 0x10);
  assert_int_equal(id.bytes[15], 0x07);
  lki_id_format(id, back);
  assert_string_equal(back, text);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(lki_id_parse(bad[i], &id));
  assert_int_equal(id.bytes[0], 0x10);
}

static void cursors(void **state) {
  (void)state;
  lake_error err = LAKE_ERROR_INIT;
  lki_cursor cursor = {{{0x10, 0x32}}, UINT64_MAX, UINT64_MAX}, back = {{{0}}, 5, 6};
  char text[LAKE_CURSOR_BYTES], changed[LAKE_CURSOR_BYTES + 8];
  lki_cursor_format(&cursor, text);
  assert_int_equal(strlen(text), 6 + 32 + 1 + 20 + 1 + 20 + 1 + 8); /* the longest there is */
  assert_int_equal(strncmp(text, "lake1-10320000000000000000000000000000-18446744073709551615-", 60), 0);
  assert_ok(lki_cursor_parse(text, &back, &err), &err);
  assert_true(back.row == UINT64_MAX && back.version == UINT64_MAX &&
              lki_id_equal(back.namespace_id, cursor.namespace_id));
  back.row = 5;
  snprintf(changed, sizeof changed, "%s ", text);
  assert_status(lki_cursor_parse(changed, &back, &err), LAKE_INVALID, &err);
  assert_non_null(strstr(err.text, "damaged"));
  for (size_t n = 0; n < strlen(text); n++) {
    memcpy(changed, text, n);
    changed[n] = 0;
    assert_status(lki_cursor_parse(changed, &back, &err), LAKE_INVALID, &err);
  }
  text[4] = '2';
  assert_status(lki_cursor_parse(text, &back, &err), LAKE_UNSUPPORTED, &err);
  assert_string_equal(err.text, "cursor: written by a newer Lakestream (format 2); upgrade");
  assert_status(lki_cursor_parse("step 17", &back, &err), LAKE_INVALID, &err);
  assert_string_equal(err.text, "cursor \"step 17\": not a Lakestream cursor; one begins with lake1-");
  assert_int_equal(back.row, 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(components), cmocka_unit_test(manifests), cmocka_unit_test(segments),
      cmocka_unit_test(tgbs),       cmocka_unit_test(pins),      cmocka_unit_test(ids),
      cmocka_unit_test(cursors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
