/* Decoded objects as one line of JSON, the same line that decoder/decode.py prints: tests compare objects by
 * it. */
#ifndef LAKE_TESTS_DUMP_H
#define LAKE_TESTS_DUMP_H

#include "format/format.h"

/* Each returns malloc'd text without a line break, or ends the program when memory is short. */
char *dump_manifest(const lki_manifest *manifest);
char *dump_segment(const lki_segment *segment);
char *dump_schema(const lki_schema *schema);
char *dump_pin(const lki_pin *pin);
char *dump_cursor(const lki_cursor *cursor);
char *dump_hint(uint64_t version);

/* Decodes an object of any kind (told by its first bytes) and dumps it; verifies every frame of a TGB.
 * *text: malloc'd. */
lake_status dump_object(lake_env *env, lake_bytes object, char **text, lake_error *err);

#endif
