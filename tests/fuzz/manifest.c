/* Manifests and segments: any bytes, as they are and with lengths and checksum put right, so that the body's
 * decoder is reached too. What is accepted encodes again, and to something that decodes to the same. */
#include "base/buffer.h"
#include "base/checksum.h"
#include "support/dump.h"
#include "support/fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long accepted;

static void put_u64(uint8_t *p, uint64_t value) {
  for (int i = 0; i < 8; i++) p[i] = (uint8_t)(value >> (8 * i));
}

static void check_manifest(lki_manifest *m) {
  lake_error err = LAKE_ERROR_INIT;
  lake_buffer out;
  lki_manifest *again = NULL;
  lki_buffer_init(&out, fuzz_env(), LKI_MANIFEST_BYTES_MAX);
  fuzz_expect(lki_manifest_encode(fuzz_env(), m, &out, &err) == LAKE_OK, err.text);
  fuzz_expect(lki_manifest_decode(fuzz_env(), lki_buffer_view(&out), NULL, "again", &again, &err) == LAKE_OK,
              err.text);
  char *want = dump_manifest(m), *got = dump_manifest(again);
  fuzz_expect(strcmp(want, got) == 0, "an accepted manifest changed when encoded again");
  free(want);
  free(got);
  lki_manifest_release(again);
  lki_buffer_free(&out);
}

static void check_segment(lki_segment *s) {
  lake_error err = LAKE_ERROR_INIT;
  lake_buffer out;
  lki_segment *again = NULL;
  lki_buffer_init(&out, fuzz_env(), LKI_SEGMENT_BYTES_MAX);
  fuzz_expect(lki_segment_encode(fuzz_env(), s, &out, &err) == LAKE_OK, err.text);
  fuzz_expect(lki_segment_decode(fuzz_env(), lki_buffer_view(&out), NULL, "again", &again, &err) == LAKE_OK,
              err.text);
  char *want = dump_segment(s), *got = dump_segment(again);
  fuzz_expect(strcmp(want, got) == 0, "an accepted segment changed when encoded again");
  free(want);
  free(got);
  lki_segment_release(again);
  lki_buffer_free(&out);
}

static void decode_both(lake_bytes object) {
  lake_error err = LAKE_ERROR_INIT;
  lki_manifest *m = NULL;
  lki_segment *s = NULL;
  lake_status status = lki_manifest_decode(fuzz_env(), object, NULL, "fuzz", &m, &err);
  if (status == LAKE_OK) {
    accepted++;
    check_manifest(m);
  } else {
    fuzz_expect_refusal(status, &err);
    fuzz_expect(m == NULL, "refused, but filled its output");
  }
  lki_manifest_release(m);
  status = lki_segment_decode(fuzz_env(), object, NULL, "fuzz", &s, &err);
  if (status == LAKE_OK) {
    accepted++;
    check_segment(s);
  } else {
    fuzz_expect_refusal(status, &err);
    fuzz_expect(s == NULL, "refused, but filled its output");
  }
  lki_segment_release(s);
  fuzz_expect_nothing_left();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  lake_bytes object = {data, bytes};
  decode_both(object);
  if (bytes < 40) return 0;
  uint8_t *fixed = malloc(bytes);
  if (fixed == NULL) abort();
  memcpy(fixed, data, bytes);
  fixed[8] = 1;
  memset(fixed + 9, 0, 7);
  fixed[10] = data[10] & 1;
  put_u64(fixed + 16, bytes - 40);
  if (fixed[10] == 0) put_u64(fixed + 24, bytes - 40);
  put_u64(fixed + 32, lki_checksum(fixed + 40, bytes - 40, lki_checksum(fixed, 32, 0)));
  object.data = fixed;
  decode_both(object);
  free(fixed);
  return 0;
}

#ifndef LAKE_LIBFUZZER
int main(int argc, char **argv) {
  static const char *const suffixes[] = {".manifest", ".segment", NULL};
  int rc = fuzz_main(argc, argv, suffixes);
  /* Else the mutations never came past the envelope, and the run proves little. */
  printf("%lu accepted\n", accepted);
  fuzz_expect(argc > 1 || accepted > 100, "hardly any input was accepted");
  return rc;
}
#endif
