/* Fuzzing that also runs without a fuzzer: each program of tests/fuzz has libFuzzer's entry and calls
 * fuzz_main from its main, which feeds it the golden objects and mutations of them. */
#ifndef LAKE_TESTS_FUZZ_H
#define LAKE_TESTS_FUZZ_H

#include "format/format.h"

/* libFuzzer's entry: the program's own. It must take any bytes, and abort() where a decoder answers wrongly.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Runs the entry on each golden object whose name ends in one of suffixes (NULL-terminated), then on 20,000 mutations
 * ($LAKE_FUZZ_COUNT for another number, $LAKE_FUZZ_SECONDS for as many as that time allows). With file names as
 * arguments: on these alone. $LAKE_FUZZ_WRITE: a folder into which what it begins with is written, for libFuzzer. */
int fuzz_main(int argc, char **argv, const char *const *suffixes);
/* The same, beginning with these texts (NULL-terminated, none of them empty). */
int fuzz_main_texts(int argc, char **argv, const char *const *texts);

/* The environment of the run: every allocation is counted; more than 256 MiB at once ends the run. */
lake_env *fuzz_env(void);
/* Aborts when anything is still allocated. */
void fuzz_expect_nothing_left(void);
/* Aborts, saying why, unless status is one that damaged bytes may get, and err is filled to match. */
void fuzz_expect_refusal(lake_status status, const lake_error *err);
void fuzz_expect(bool truth, const char *why);

#endif
