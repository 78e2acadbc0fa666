/* Parts of the text formats: checks at the end of a line or of a JSON document. Pure. */
#ifndef LKI_FORMAT_TEXT_H
#define LKI_FORMAT_TEXT_H

#include "base/error.h"
#include "base/json.h"

/* The low 32 bits of a text's checksum. */
uint32_t lki_text_check(const char *text, size_t bytes);

/* Appends the document with a last member "check": the checksum of every byte before it. */
lake_status lki_json_seal(const lki_json *json, lake_buffer *out, lake_error *err);
/* Parses a document and verifies "kind" and "format". CORRUPT, UNSUPPORTED. The caller frees *out. */
lake_status lki_json_open(lake_bytes bytes, const char *kind, const char *what, lki_json **out,
                          lake_error *err);
/* Verifies "check", once all members were found good: it names no member when it fails. */
lake_status lki_json_seal_check(lake_bytes bytes, const char *what, lake_error *err);

/* Members by name; CORRUPT, naming the member, unless it is there, of the type, and at most max. */
lake_status lki_json_take_u64(const lki_json *json, const char *name, uint64_t max, const char *what,
                              uint64_t *value, lake_error *err);
lake_status lki_json_take_string(const lki_json *json, const char *name, const char *what, const char **value,
                                 lake_error *err);

#endif
