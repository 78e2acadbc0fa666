/* Percent encoding, for random texts: decoding gives the text back, the encoded text holds only what may stand in a URL,
 * and a decoder takes nothing that an encoder could not have meant. */
#include "support/support.h"

#include "base/env.h"
#include "base/rng.h"
#include "store/request.h"
#include <string.h>

#define CASE_COUNT 20000

static void random_text(lki_rng *rng, char *text, size_t room) {
  static const char odd[] = "=@ +%~/?&#.-_!'()*;:,$[]\"<>\\^`{|}\x7f\x01";
  const size_t bytes = (size_t)lki_rng_below(rng, room);
  for (size_t i = 0; i < bytes; i++)
    text[i] = lki_rng_below(rng, 2) ? odd[lki_rng_below(rng, sizeof odd - 1)] : (char)(1 + lki_rng_below(rng, 255));
  text[bytes] = 0;
}

static void test_round_trip(void **state) {
  (void)state;
  lki_rng rng = {test_seed()};
  lake_env *env = NULL;
  assert_int_equal(lake_env_open(NULL, &env, NULL), LAKE_OK);
  for (int i = 0; i < CASE_COUNT; i++) {
    char text[64], back[64 * 3 + 1], again[64 * 3 + 1];
    lki_arena arena;
    lki_arena_init(&arena, env);
    random_text(&rng, text, sizeof text);
    const bool keep_slash = lki_rng_below(&rng, 2) == 1;
    const char *encoded = lki_percent_encode(&arena, text, keep_slash);
    assert_non_null(encoded);
    static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%/";
    assert_int_equal(strspn(encoded, safe), strlen(encoded));
    if (!keep_slash) assert_null(strchr(encoded, '/'));
    assert_true(lki_percent_decode(encoded, back));
    assert_string_equal(back, text);
    /* Any text that decodes at all is the same text after another round. */
    if (lki_percent_decode(text, back)) {
      encoded = lki_percent_encode(&arena, back, keep_slash);
      assert_true(lki_percent_decode(encoded, again));
      assert_string_equal(again, back);
    }
    lki_arena_free(&arena);
  }
  lake_env_close(env);
}

static void test_broken_escapes(void **state) {
  (void)state;
  static const char *const bad[] = {"%", "a%", "%2", "%zz", "%2g", "%00", "a%00b", "%%41", "% 41"};
  char out[16];
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    if (lki_percent_decode(bad[i], out)) fail_msg("\"%s\" was decoded", bad[i]);
  assert_true(lki_percent_decode("a+b%2b%2B%41", out));
  assert_string_equal(out, "a+b++A");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_broken_escapes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
