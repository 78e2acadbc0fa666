/* JSON, the one door to cJSON. Documents are values of an opaque tree; 64-bit integers are decimal strings, since
 * JSON numbers are doubles. Not thread-safe per tree. */
#ifndef LKI_BASE_JSON_H
#define LKI_BASE_JSON_H

#include <lakestream/sys/store.h>

typedef struct cJSON lki_json;

#define LKI_JSON_BYTES_MAX ((size_t)1 << 20)

/* Parses one document, and nothing but blanks after it. `what` names it in the error, which says line and column. */
lake_status lki_json_parse(lake_bytes text, const char *what, lki_json **out, lake_error *err);
/* The same with a limit of the caller's, for users' own documents. */
lake_status lki_json_parse_max(lake_bytes text, size_t bytes_max, const char *what, lki_json **out, lake_error *err);
/* Text of a tree onto a buffer; pretty: with line breaks and a final newline. */
lake_status lki_json_print(const lki_json *json, bool pretty, lake_buffer *out, lake_error *err);
void lki_json_free(lki_json *json); /* NULL accepted */

/* Building. Each returns NULL when memory is short or parent is NULL; the child belongs to parent. name NULL: parent
 * is an array. */
lki_json *lki_json_new_object(void);
lki_json *lki_json_new_array(void);
lki_json *lki_json_add_object(lki_json *parent, const char *name);
lki_json *lki_json_add_array(lki_json *parent, const char *name);
lki_json *lki_json_add_string(lki_json *parent, const char *name, const char *value);
lki_json *lki_json_add_u64(lki_json *parent, const char *name, uint64_t value);    /* a decimal string */
lki_json *lki_json_add_number(lki_json *parent, const char *name, double value);   /* a JSON number */
lki_json *lki_json_add_bool(lki_json *parent, const char *name, bool value);
lki_json *lki_json_add_null(lki_json *parent, const char *name);

/* Reading. */
const lki_json *lki_json_get(const lki_json *object, const char *name); /* NULL: absent or not an object */
const lki_json *lki_json_first(const lki_json *parent); /* child of an object or array; NULL: none */
const lki_json *lki_json_next(const lki_json *child);
const char *lki_json_name(const lki_json *child); /* its name in its object; NULL in an array */
size_t lki_json_count(const lki_json *parent);
bool lki_json_is_object(const lki_json *json);
bool lki_json_is_array(const lki_json *json);
const char *lki_json_string(const lki_json *json); /* NULL: not a string */
bool lki_json_u64(const lki_json *json, uint64_t *value); /* a decimal string, or a whole number below 2^53 */
bool lki_json_number(const lki_json *json, double *value);
bool lki_json_bool(const lki_json *json, bool *value);

#endif
