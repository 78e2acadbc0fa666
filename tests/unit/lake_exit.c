/* The table from status to exit code and class: programs and scripts rely on it. */
#include "support/support.h"
#include "exit.h"

static void test_table(void **state) {
  (void)state;
  static const struct {
    lake_status status;
    int code;
    const char *name;
  } rows[] = {
      {LAKE_OK, 0, "ok"},                {LAKE_INVALID, 2, "usage"},      {LAKE_EXISTS, 4, "conflict"},
      {LAKE_NOTFOUND, 3, "notfound"},    {LAKE_AGAIN, 4, "conflict"},     {LAKE_END, 4, "conflict"},
      {LAKE_UNCERTAIN, 5, "transient"},  {LAKE_UNAVAILABLE, 5, "transient"}, {LAKE_FENCED, 4, "conflict"},
      {LAKE_RECLAIMED, 3, "notfound"},   {LAKE_CORRUPT, 6, "corrupt"},    {LAKE_TIMEOUT, 7, "timeout"},
      {LAKE_CANCELED, 1, "other"},       {LAKE_NOMEM, 1, "other"},        {LAKE_UNSUPPORTED, 9, "unsupported"},
      {LAKE_DENIED, 8, "credentials"},   {LAKE_INTERNAL, 1, "other"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_int_equal(lki_exit_code(rows[i].status), rows[i].code);
    assert_string_equal(lki_exit_class(rows[i].code), rows[i].name);
  }
  assert_int_equal(lki_exit_code((lake_status)99), 1);
  assert_string_equal(lki_exit_class(-1), "other");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
