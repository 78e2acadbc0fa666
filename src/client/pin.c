/* Pins: what a checkpoint needs kept. One small write-once object each; paper section 5.3. */
#include "base/env.h"
#include "client/namespace.h"
#include "format/names.h"
#include "store/checked.h"
#include <inttypes.h>
#include <lakestream/consumer.h>

static lake_status check_names(const char *group, const char *checkpoint, lake_error *err) {
  if (group == NULL || !lki_name_component_valid(group))
    return lki_fail(err, LAKE_INVALID, "pin: group \"%s\" must be 1 to 64 of [A-Za-z0-9._-], not beginning with '.'",
                    group != NULL ? group : "");
  if (checkpoint == NULL || !lki_name_component_valid(checkpoint))
    return lki_fail(err, LAKE_INVALID,
                    "pin: checkpoint \"%s\" must be 1 to 64 of [A-Za-z0-9._-], not beginning with '.'",
                    checkpoint != NULL ? checkpoint : "");
  return LAKE_OK;
}

/* A cursor of this namespace. */
static lake_status parse_cursor(const lake_namespace *ns, const char *text, lki_cursor *cursor, lake_error *err) {
  if (text == NULL) return lki_fail(err, LAKE_INVALID, "cursor: no text");
  lake_status s = lki_cursor_parse(text, cursor, err);
  if (s != LAKE_OK) return s;
  if (lki_id_equal(cursor->namespace_id, ns->schema->namespace_id)) return LAKE_OK;
  char theirs[37], ours[37];
  lki_id_format(cursor->namespace_id, theirs);
  lki_id_format(ns->schema->namespace_id, ours);
  return lki_fail(err, LAKE_INVALID,
                  "cursor belongs to namespace %s, %s is %s; open the namespace that the checkpoint was made from",
                  theirs, lki_store_url(ns->store), ours);
}

static uint64_t rows_per_step(const lki_schema *schema) {
  return (uint64_t)schema->mesh.d_count * schema->rows_per_slice;
}

lake_status lake_cursor_parse(const lake_namespace *ns, const char *text, uint64_t *row, uint64_t *step,
                              lake_error *err) {
  lki_cursor cursor;
  lake_status s = parse_cursor(ns, text, &cursor, err);
  if (s != LAKE_OK) return s;
  *row = cursor.row;
  *step = cursor.row / rows_per_step(ns->schema);
  return LAKE_OK;
}

static lake_status check_pin(void *ctx, lake_bytes bytes, const lake_object_info *info, lake_error *err) {
  (void)info;
  return lki_pin_decode(bytes, "pin", ctx, err);
}

lake_status lake_pin_create(lake_namespace *ns, const char *group, const char *checkpoint, const char *cursor_text,
                            lake_deadline deadline, lake_error *err) {
  lki_cursor cursor;
  lake_status s = check_names(group, checkpoint, err);
  if (s == LAKE_OK) s = parse_cursor(ns, cursor_text, &cursor, err);
  if (s != LAKE_OK) return s;
  lki_pin pin = {cursor.namespace_id, cursor.row, cursor.row / rows_per_step(ns->schema), cursor.version};
  char name[LKI_NAME_BYTES];
  lki_name_pin(name, group, checkpoint);
  lake_buffer bytes, back;
  lki_buffer_init(&bytes, ns->env, 65536);
  lki_buffer_init(&back, ns->env, 65536);
  s = lki_pin_encode(&pin, &bytes, err);
  if (s == LAKE_OK) s = lki_store_put_if_absent(ns->store, name, lki_buffer_view(&bytes), deadline, err);
  if (s == LAKE_EXISTS || s == LAKE_UNCERTAIN) {
    /* Ours from an earlier try, or the same checkpoint again: fine if it pins the same row. */
    lki_pin found;
    lake_status r = lki_store_get_checked(ns->store, name, lki_range_whole(), &back, check_pin, &found, deadline, err);
    if (r != LAKE_OK)
      s = r == LAKE_NOTFOUND ? LAKE_UNCERTAIN : r;
    else if (found.row == pin.row && lki_id_equal(found.namespace_id, pin.namespace_id))
      s = LAKE_OK;
    else
      s = lki_fail(err, LAKE_EXISTS,
                   "checkpoint %s of group %s is already pinned at row %" PRIu64 ", not %" PRIu64
                   "; remove that pin, or name the checkpoint differently",
                   checkpoint, group, found.row, pin.row);
  }
  lki_buffer_free(&bytes);
  lki_buffer_free(&back);
  return s;
}

lake_status lake_pin_remove(lake_namespace *ns, const char *group, const char *checkpoint, lake_deadline deadline,
                            lake_error *err) {
  lake_status s = check_names(group, checkpoint, err);
  if (s != LAKE_OK) return s;
  char name[LKI_NAME_BYTES];
  lki_name_pin(name, group, checkpoint);
  return lki_store_remove(ns->store, name, deadline, err);
}
