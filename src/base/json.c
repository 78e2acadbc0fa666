/* The one door to cJSON. */
#include "base/json.h"
#include "base/buffer.h"
#include "base/error.h"
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

lake_status lki_json_parse(lake_bytes text, const char *what, lki_json **out, lake_error *err) {
  return lki_json_parse_max(text, LKI_JSON_BYTES_MAX, what, out, err);
}

lake_status lki_json_parse_max(lake_bytes text, size_t bytes_max, const char *what, lki_json **out, lake_error *err) {
  if (text.bytes > bytes_max)
    return lki_fail(err, LAKE_INVALID, "%s: %zu bytes of JSON; at most %zu are read", what, text.bytes, bytes_max);
  if (text.bytes == 0) text.data = ""; /* which may be NULL, and nothing can be added to that */
  const char *end = NULL;
  cJSON *json = text.bytes > 0 ? cJSON_ParseWithLengthOpts(text.data, text.bytes, &end, 0) : NULL;
  const char *p = text.data, *stop = p + text.bytes;
  if (json != NULL) {
    const char *rest = end;
    while (rest < stop && (*rest == ' ' || *rest == '\n' || *rest == '\r' || *rest == '\t' || *rest == 0)) rest++;
    if (rest == stop) {
      *out = json;
      return LAKE_OK;
    }
    end = rest;
    cJSON_Delete(json);
  }
  size_t line = 1, column = 1;
  for (; p < stop && end != NULL && p < end; p++) {
    column++;
    if (*p == '\n') {
      line++;
      column = 1;
    }
  }
  return lki_fail(err, LAKE_INVALID, "%s: not valid JSON at line %zu column %zu", what, line, column);
}

lake_status lki_json_print(const lki_json *json, bool pretty, lake_buffer *out, lake_error *err) {
  char *text = pretty ? cJSON_Print(json) : cJSON_PrintUnformatted(json);
  if (text == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory while printing JSON");
  lake_status s = lki_buffer_append(out, text, strlen(text), err);
  if (s == LAKE_OK && pretty) s = lki_buffer_append(out, "\n", 1, err);
  cJSON_free(text);
  return s;
}

void lki_json_free(lki_json *json) { cJSON_Delete(json); }
lki_json *lki_json_new_object(void) { return cJSON_CreateObject(); }
lki_json *lki_json_new_array(void) { return cJSON_CreateArray(); }

static lki_json *add(lki_json *parent, const char *name, cJSON *item) {
  if (parent == NULL || item == NULL ||
      !(name != NULL ? cJSON_AddItemToObject(parent, name, item) : cJSON_AddItemToArray(parent, item))) {
    cJSON_Delete(item);
    return NULL;
  }
  return item;
}

lki_json *lki_json_add_object(lki_json *parent, const char *name) { return add(parent, name, cJSON_CreateObject()); }
lki_json *lki_json_add_array(lki_json *parent, const char *name) { return add(parent, name, cJSON_CreateArray()); }

lki_json *lki_json_add_string(lki_json *parent, const char *name, const char *value) {
  return add(parent, name, cJSON_CreateString(value));
}

lki_json *lki_json_add_u64(lki_json *parent, const char *name, uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, value);
  return add(parent, name, cJSON_CreateString(text));
}

lki_json *lki_json_add_number(lki_json *parent, const char *name, double value) {
  return add(parent, name, cJSON_CreateNumber(value));
}

lki_json *lki_json_add_bool(lki_json *parent, const char *name, bool value) {
  return add(parent, name, cJSON_CreateBool(value));
}

lki_json *lki_json_add_null(lki_json *parent, const char *name) { return add(parent, name, cJSON_CreateNull()); }

const lki_json *lki_json_get(const lki_json *object, const char *name) {
  return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, name) : NULL;
}

const lki_json *lki_json_first(const lki_json *parent) { return parent != NULL ? parent->child : NULL; }
const lki_json *lki_json_next(const lki_json *child) { return child->next; }
const char *lki_json_name(const lki_json *child) { return child->string; }

size_t lki_json_count(const lki_json *parent) {
  size_t n = 0;
  for (const cJSON *child = lki_json_first(parent); child != NULL; child = child->next) n++;
  return n;
}

bool lki_json_is_object(const lki_json *json) { return cJSON_IsObject(json); }
bool lki_json_is_array(const lki_json *json) { return cJSON_IsArray(json); }
const char *lki_json_string(const lki_json *json) { return cJSON_IsString(json) ? json->valuestring : NULL; }

bool lki_json_u64(const lki_json *json, uint64_t *value) {
  if (cJSON_IsNumber(json)) {
    double d = json->valuedouble;
    if (!(d >= 0 && d <= 9007199254740991.0) || d != (double)(uint64_t)d) return false;
    *value = (uint64_t)d;
    return true;
  }
  const char *text = lki_json_string(json);
  if (text == NULL || *text == 0 || (text[0] == '0' && text[1] != 0)) return false;
  uint64_t v = 0;
  for (; *text != 0; text++) {
    if (*text < '0' || *text > '9') return false;
    uint64_t digit = (uint64_t)(*text - '0');
    if (v > (UINT64_MAX - digit) / 10) return false;
    v = v * 10 + digit;
  }
  *value = v;
  return true;
}

bool lki_json_number(const lki_json *json, double *value) {
  if (!cJSON_IsNumber(json)) return false;
  *value = json->valuedouble;
  return true;
}

bool lki_json_bool(const lki_json *json, bool *value) {
  if (!cJSON_IsBool(json)) return false;
  *value = cJSON_IsTrue(json);
  return true;
}
