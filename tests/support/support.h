/* Helpers that several tests share. Scratch folders live under $TMPDIR or /tmp and are removed at exit. */
#ifndef LAKE_TESTS_SUPPORT_H
#define LAKE_TESTS_SUPPORT_H

/* cmocka needs these four, in this order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <lakestream/lakestream.h>

/* A fresh folder, removed with all it holds when the test program ends. Static storage per call is not used: the
 * text is malloc'd and lives until exit. */
const char *test_scratch(void);

/* Seed for a property or fault test: $LAKE_SEED if set, else fresh; printed, so that a failure can be replayed. */
uint64_t test_seed(void);

/* Asserts OK and shows the error's text otherwise. */
#define assert_ok(status, err) test_assert_status((status), LAKE_OK, (err), __FILE__, __LINE__)
#define assert_status(status, want, err) test_assert_status((status), (want), (err), __FILE__, __LINE__)
void test_assert_status(lake_status got, lake_status want, const lake_error *err, const char *file, int line);

/* Deadline far enough for any test step to succeed: 60 s. */
lake_deadline test_deadline(lake_env *env);

#endif
