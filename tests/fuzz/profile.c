/* INI files of credentials and profiles: whatever is in them, a value is one line without blanks around it,
 * and what cannot be read is refused with its line. */
#include "base/buffer.h"
#include "store/profile.h"
#include "support/fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long accepted;

static bool around(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

static void check_value(const char *value) {
  size_t bytes = strlen(value);
  fuzz_expect(strchr(value, '\n') == NULL, "a value of two lines");
  fuzz_expect(bytes == 0 || (!around(value[0]) && !around(value[bytes - 1])), "blanks around a value");
}

static void try_name(lake_bytes text, const char *section, const char *name) {
  lake_error err = LAKE_ERROR_INIT;
  lki_arena arena;
  const char *value = NULL;
  lki_arena_init(&arena, fuzz_env());
  lake_status s = lki_profile_find(&arena, text, "fuzz", section, name, &value, &err);
  if (s == LAKE_OK && value != NULL) {
    accepted++;
    check_value(value);
  } else if (s != LAKE_OK) {
    fuzz_expect(s == LAKE_INVALID, lake_status_name(s));
    fuzz_expect(strstr(err.text, "line ") != NULL, "an error without its line");
  }
  lki_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  lake_bytes text = {data, bytes};
  try_name(text, "default", "aws_access_key_id");
  try_name(text, "profile my prod", "credential_process");
  try_name(text, "profile my prod", "s3.addressing_style");
  fuzz_expect_nothing_left();
  return 0;
}

#ifndef LAKE_LIBFUZZER
int main(int argc, char **argv) {
  static const char *const texts[] = {
      "[default]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = secret # mine\n",
      "[profile \"my prod\"]\r\ncredential_process = cmd 'a;b' # c\r\ns3 =\r\n  addressing_style = path\r\n",
      "# comment\n[ default ]\n  aws_access_key_id : a\n  region = x\n; [gone]\n[profile  my prod]\nx = 1\n  "
      "more\n",
      NULL};
  int rc = fuzz_main_texts(argc, argv, texts);
  printf("%lu accepted\n", accepted);
  fuzz_expect(argc > 1 || accepted > 100, "hardly any input was accepted");
  return rc;
}
#endif
