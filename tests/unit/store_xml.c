/* The door to expat: paths and texts, and what it refuses. */
#include "base/env.h"
#include "store/xml.h"
#include "support/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct heard {
  char text[4096];
  bool refuse; /* the callback has no memory */
} heard;

static bool hear(void *ctx, const char *path, const char *text) {
  heard *h = ctx;
  const size_t used = strlen(h->text);
  snprintf(h->text + used, sizeof h->text - used, "%s=%s;", path, text);
  return !h->refuse;
}

static lake_status walk(const char *document, heard *h) {
  lake_env *env = NULL;
  lake_error err = LAKE_ERROR_INIT;
  memset(h->text, 0, sizeof h->text);
  assert_int_equal(lake_env_open(NULL, &env, NULL), LAKE_OK);
  lake_status s = lki_xml_walk(env, (lake_bytes){document, strlen(document)}, "a reply", hear, h, &err);
  if (s != LAKE_OK) assert_non_null(strstr(err.text, "a reply"));
  lake_env_close(env);
  return s;
}

static void test_paths(void **state) {
  (void)state;
  heard h = {0};
  assert_int_equal(walk("<?xml version=\"1.0\" encoding=\"UTF-8\"?><a xmlns=\"http://x/\"><b>1 &amp; 2</b>\n"
                        "<c k=\"v\"><d/></c><n:e xmlns:n=\"y\"><![CDATA[<&>]]></n:e></a>",
                        &h),
                   LAKE_OK);
  assert_string_equal(h.text, "a/@xmlns=http://x/;a/b=1 & 2;a/c/@k=v;a/c/d=;a/c=;a/e/@n=y;a/e=<&>;a=;");
  assert_int_equal(walk("<a>&#xe4;&#x65e5;</a>", &h), LAKE_OK);
  assert_string_equal(h.text, "a=\xc3\xa4\xe6\x97\xa5;");
  assert_int_equal(walk("<:><b:><n:c :=\"v\"/></b:></:>", &h), LAKE_OK); /* no part of a path is empty */
  assert_string_equal(h.text, ":/b:/c/@:=v;:/b:/c=;:/b:=;:=;");
  assert_string_equal(lki_xml_leaf("a/b/c"), "c");
  assert_string_equal(lki_xml_leaf("a"), "a");
}

/* What came before the fault was handed out: the kept beginning of an error's body is read so. */
static void test_broken(void **state) {
  (void)state;
  heard h = {0};
  static const char *const broken[] = {"", "<", "<a>", "<a></b>", "<a/><b/>", "text", "<a>\x01</a>", "<a>\xff</a>",
                                       "<a>&unknown;</a>", "{\"a\":1}", "<a b=1/>"};
  for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
    assert_int_equal(walk(broken[i], &h), LAKE_UNAVAILABLE);
  assert_int_equal(walk("<Error><Code>SlowDown</Code><Message>Please re", &h), LAKE_UNAVAILABLE);
  assert_string_equal(h.text, "Error/Code=SlowDown;");
}

static void test_limits(void **state) {
  (void)state;
  heard h = {0};
  char deep[256] = "";
  for (int i = 0; i < 16; i++) strncat(deep, "<a>", 4);
  for (int i = 0; i < 16; i++) strncat(deep, "</a>", 5);
  assert_int_equal(walk(deep, &h), LAKE_OK);
  deep[0] = 0;
  for (int i = 0; i < 17; i++) strncat(deep, "<a>", 4);
  for (int i = 0; i < 17; i++) strncat(deep, "</a>", 5);
  assert_int_equal(walk(deep, &h), LAKE_UNAVAILABLE);
  const size_t room = LKI_XML_TEXT_BYTES_MAX + 64;
  char *large = malloc(room);
  assert_non_null(large);
  for (int over = 0; over < 2; over++) {
    const size_t bytes = LKI_XML_TEXT_BYTES_MAX - 1 + (size_t)over;
    memcpy(large, "<a>", 3);
    memset(large + 3, 'x', bytes);
    memcpy(large + 3 + bytes, "</a>", 5);
    assert_int_equal(walk(large, &h), over ? LAKE_UNAVAILABLE : LAKE_OK);
  }
  memcpy(large, "<", 1);
  memset(large + 1, 'n', LKI_XML_PATH_BYTES_MAX + 1);
  memcpy(large + LKI_XML_PATH_BYTES_MAX + 2, "/>", 3);
  assert_int_equal(walk(large, &h), LAKE_UNAVAILABLE);
  free(large);
  h.refuse = true;
  assert_int_equal(walk("<a><b/><c/></a>", &h), LAKE_NOMEM);
  assert_string_equal(h.text, "a/b=;");
}

/* Entities that grow are an old attack on whoever reads XML of others. */
static void test_document_types(void **state) {
  (void)state;
  heard h = {0};
  assert_int_equal(walk("<!DOCTYPE a [<!ENTITY x \"xxxxxxxxxx\"><!ENTITY y \"&x;&x;&x;\">]><a>&y;</a>", &h),
                   LAKE_UNAVAILABLE);
  assert_string_equal(h.text, "");
  assert_int_equal(walk("<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>", &h), LAKE_UNAVAILABLE);
  assert_string_equal(h.text, "");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_paths), cmocka_unit_test(test_broken),
                                     cmocka_unit_test(test_limits), cmocka_unit_test(test_document_types)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
