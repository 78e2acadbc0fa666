/* What is text: lakestream.json, pins, cursors, hints, ids and object names; JSON also with its check put
 * right. */
#include "base/buffer.h"
#include "base/checksum.h"
#include "format/names.h"
#include "support/dump.h"
#include "support/fuzz.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEAL_BYTES 31

static unsigned long accepted;

/* The limits that a schema promises hold for each one that was accepted. */
static void check_schema(const lki_schema *schema) {
  uint64_t offset = 0, bytes = 0, end = 0;
  fuzz_expect((uint64_t)schema->mesh.d_count * schema->mesh.c_count <= LAKE_MESH_MAX, "mesh above its limit");
  fuzz_expect(schema->mesh.d_count > 0 && schema->mesh.c_count > 0 && schema->rows_per_slice > 0,
              "a zero size");
  for (uint32_t i = 0; i < schema->tensor_count; i++) {
    lki_schema_tensor_range(schema, i, &offset, &bytes);
    fuzz_expect(offset == end && bytes > 0, "tensors do not follow each other");
    end = (offset + bytes + 63) / 64 * 64;
  }
  fuzz_expect(end == schema->slice_bytes && end <= LKI_SLICE_BYTES_MAX, "slice length");
}

static void try_json(lake_bytes object) {
  lake_error err = LAKE_ERROR_INIT;
  lki_schema *schema = NULL;
  lki_pin pin;
  lake_status s = lki_namespace_decode(fuzz_env(), object, "fuzz", &schema, &err);
  if (s == LAKE_OK) {
    accepted++;
    check_schema(schema);
  } else {
    fuzz_expect_refusal(s, &err);
  }
  lki_schema_free(schema);
  s = lki_pin_decode(object, "fuzz", &pin, &err);
  if (s == LAKE_OK)
    accepted++;
  else
    fuzz_expect_refusal(s, &err);
}

static void try_line(const char *text, lake_bytes object) {
  lake_error err = LAKE_ERROR_INIT;
  lki_cursor cursor;
  lki_id id;
  uint64_t version = 0, epoch = 0, seq = 0;
  char again[LKI_NAME_BYTES], producer[LKI_PRODUCER_ID_BYTES_MAX + 1];
  lake_status s = lki_cursor_parse(text, &cursor, &err);
  fuzz_expect(s == LAKE_OK || s == LAKE_INVALID || s == LAKE_UNSUPPORTED, err.text);
  if (s == LAKE_OK) {
    accepted++;
    lki_cursor_format(&cursor, again);
    fuzz_expect(strcmp(again, text) == 0, "two texts for one cursor");
  }
  s = lki_hint_decode(object, &version, &err);
  if (s != LAKE_OK) fuzz_expect_refusal(s, &err);
  if (lki_id_parse(text, &id)) {
    lki_id_format(id, again);
    fuzz_expect(strcmp(again, text) == 0, "two texts for one id");
  }
  if (lki_name_manifest_parse(text, &version)) {
    lki_name_manifest(again, version);
    fuzz_expect(strcmp(again, text) == 0, "two names for one manifest");
  }
  if (lki_name_tgb_parse(text, producer, &epoch, &seq)) {
    lki_name_tgb(again, producer, epoch, seq);
    fuzz_expect(strcmp(again, text) == 0, "two names for one TGB");
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  lake_bytes object = {data, bytes};
  char *copy = malloc(bytes + 1);
  if (copy == NULL) abort();
  memcpy(copy, data, bytes);
  copy[bytes] = 0;
  try_json(object);
  try_line(copy, object);
  if (bytes > SEAL_BYTES) {
    char seal[SEAL_BYTES + 1];
    size_t checked = bytes - SEAL_BYTES;
    snprintf(seal, sizeof seal, "\t\"check\":\t\"%016" PRIx64 "\"\n}\n", lki_checksum(copy, checked, 0));
    memcpy(copy + checked, seal, SEAL_BYTES);
    object.data = copy;
    try_json(object);
  }
  free(copy);
  fuzz_expect_nothing_left();
  return 0;
}

#ifndef LAKE_LIBFUZZER
int main(int argc, char **argv) {
  static const char *const suffixes[] = {".namespace", ".pin", ".cursor", ".hint", NULL};
  int rc = fuzz_main(argc, argv, suffixes);
  printf("%lu accepted\n", accepted);
  fuzz_expect(argc > 1 || accepted > 100, "hardly any input was accepted");
  return rc;
}
#endif
