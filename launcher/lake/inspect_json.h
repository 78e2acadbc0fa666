/* Decoded objects as JSON trees, for people and programs. Pure: each fills `json`, an object. */
#ifndef LKI_LAUNCHER_INSPECT_JSON_H
#define LKI_LAUNCHER_INSPECT_JSON_H

#include "base/json.h"
#include "format/format.h"

const char *lki_layout_name(lki_layout_kind layout);
/* producer_id NULL: leave it out. */
void lki_inspect_descriptor(lki_json *json, uint64_t step, const char *producer_id, const lki_descriptor *descriptor);
void lki_inspect_producer(lki_json *json, const lki_producer_entry *producer);
void lki_inspect_manifest(lki_json *json, const lki_manifest *manifest);
void lki_inspect_segment(lki_json *json, const lki_segment *segment);
void lki_inspect_pin(lki_json *json, const lki_pin *pin);

#endif
