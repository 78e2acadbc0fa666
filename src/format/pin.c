/* Pins: docs/format/pin.md. Pure. */
#include "base/error.h"
#include "base/json.h"
#include "format/format.h"
#include "format/text.h"

#define KIND "lakestream-pin"

lake_status lki_pin_encode(const lki_pin *pin, lake_buffer *out, lake_error *err) {
  char id[37];
  lki_id_format(pin->namespace_id, id);
  lki_json *json = lki_json_new_object();
  bool built = lki_json_add_string(json, "kind", KIND) &&
               lki_json_add_number(json, "format", LKI_FORMAT_VERSION) &&
               lki_json_add_string(json, "namespace", id) && lki_json_add_u64(json, "row", pin->row) &&
               lki_json_add_u64(json, "step", pin->step) && lki_json_add_u64(json, "version", pin->version);
  lake_status s =
      built ? lki_json_seal(json, out, err) : lki_fail(err, LAKE_NOMEM, "out of memory for a pin");
  lki_json_free(json);
  return s;
}

lake_status lki_pin_decode(lake_bytes bytes, const char *what, lki_pin *pin, lake_error *err) {
  lki_json *json = NULL;
  lki_pin p;
  const char *id = NULL;
  lake_status s = lki_json_open(bytes, KIND, what, &json, err);
  if (s == LAKE_OK) s = lki_json_take_string(json, "namespace", what, &id, err);
  if (s == LAKE_OK && !lki_id_parse(id, &p.namespace_id))
    s = lki_fail(err, LAKE_CORRUPT, "%s: \"namespace\" is not an id", what);
  if (s == LAKE_OK) s = lki_json_take_u64(json, "row", UINT64_MAX, what, &p.row, err);
  if (s == LAKE_OK) s = lki_json_take_u64(json, "step", UINT64_MAX, what, &p.step, err);
  if (s == LAKE_OK) s = lki_json_take_u64(json, "version", UINT64_MAX, what, &p.version, err);
  if (s == LAKE_OK) s = lki_json_seal_check(bytes, what, err);
  if (s == LAKE_OK) *pin = p;
  lki_json_free(json);
  return s;
}
