/* Pins: what a checkpoint needs kept. One small write-once object each; paper section 5.3. A pin that was created
 * holds only if no reclaimer had listed the pins before: whoever creates one finds out before it says so. */
#include "client/pin.h"
#include "base/env.h"
#include "client/line.h"
#include "client/page.h"
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

static lake_status reclaimed(const lki_pin *pin, const char *name, uint64_t first_live_step, lake_error *err) {
  return lki_fail(err, LAKE_RECLAIMED, "%s: step %" PRIu64 " was reclaimed, the first live one is %" PRIu64
                  "; resume from a checkpoint that is still pinned, and pin that", name, pin->step, first_live_step);
}

/* Whether the pin, which is durable by now, holds. Reclaim puts its line, lists the pins, commits its step as the
 * first live one, and takes the line back, in this order. So it is looked for in the same order: first the lines, then
 * the newest manifest. A line that was not there yet is put after the pin, whose listing will show the pin. One that
 * was gone already has left its step in the manifest. One that stands is waited for: it is decided by its first live
 * step, or by being taken back, or by the versions it was meant for being all there. */
static lake_status check_holds(lake_namespace *ns, const lki_pin *pin, const char *name, lake_deadline deadline,
                               lake_error *err) {
  uint64_t wait_ns = 10u * 1000 * 1000;
  for (;;) { /* ended by a decision or the deadline */
    lki_line line;
    bool found = false;
    lake_status s = lki_line_find_above(ns, pin->step, deadline, &found, &line, err);
    if (s == LAKE_OK) s = lki_log_catch_up(ns->log, deadline, err);
    if (s != LAKE_OK) return s;
    lki_manifest *view = lki_log_view(ns->log);
    const uint64_t first_live_step = view->first_live_step, version = view->version;
    lki_manifest_release(view);
    if (first_live_step > pin->step) return reclaimed(pin, name, first_live_step, err);
    if (!found || line.version_max <= version) return LAKE_OK;
    if (lki_deadline_passed(ns->env, deadline))
      return lki_fail(err, LAKE_UNCERTAIN, "%s stands, but it is not known whether it holds: reclaim is about to trim to "
                      "step %" PRIu64 " (undecided up to version %" PRIu64 ", now %" PRIu64 "); call again, or run lake "
                      "reclaim if none is running", name, line.step, line.version_max, version);
    const uint64_t until_ns = lki_after_ns(ns->env, (uint64_t)((double)wait_ns * lki_random_unit(ns->env)));
    lki_sleep_until(ns->env, until_ns < deadline.at_ns ? until_ns : deadline.at_ns);
    if (wait_ns < 1000u * 1000 * 1000) wait_ns *= 2;
  }
}

lake_status lake_pin_create(lake_namespace *ns, const char *group, const char *checkpoint, const char *cursor_text,
                            lake_deadline deadline, lake_error *err) {
  lki_cursor cursor;
  lake_status s = lki_check_process(ns->env, "the namespace", err);
  if (s == LAKE_OK) s = check_names(group, checkpoint, err);
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
      s = r == LAKE_NOTFOUND ? lki_fail(err, LAKE_UNCERTAIN, "it is not known whether %s was written; call again", name) : r;
    else if (found.row == pin.row && lki_id_equal(found.namespace_id, pin.namespace_id))
      s = LAKE_OK;
    else
      s = lki_fail(err, LAKE_EXISTS,
                   "checkpoint %s of group %s is already pinned at row %" PRIu64 ", not %" PRIu64
                   "; remove that pin, or name the checkpoint differently",
                   checkpoint, group, found.row, pin.row);
  }
  if (s == LAKE_OK) s = check_holds(ns, &pin, name, deadline, err);
  /* Nothing changed for whoever is told so. Only a pin that is surely void is taken back: another caller may have been
   * told that this one holds. */
  if (s == LAKE_RECLAIMED) (void)lki_store_remove(ns->store, name, deadline, NULL);
  lki_buffer_free(&bytes);
  lki_buffer_free(&back);
  return s;
}

static lki_page_verdict take_all(void *ctx, const char *key, uint64_t object_bytes) {
  (void)ctx, (void)key, (void)object_bytes;
  return LKI_PAGE_TAKE;
}

/* *gone: it was removed since it was listed. */
static lake_status read_pin(lake_namespace *ns, const char *key, lake_buffer *bytes, lki_pin *pin, bool *gone,
                            lake_deadline deadline, lake_error *err) {
  lake_error local = LAKE_ERROR_INIT;
  lake_status s = lki_store_get_checked(ns->store, key, lki_range_whole(), bytes, check_pin, pin, deadline, &local);
  *gone = s == LAKE_NOTFOUND;
  if (*gone) return LAKE_OK;
  if (s == LAKE_OK && !lki_id_equal(pin->namespace_id, ns->schema->namespace_id))
    s = lki_fail(&local, LAKE_CORRUPT, "%s belongs to another namespace", key);
  if (s == LAKE_INVALID) s = local.status = LAKE_CORRUPT; /* longer than any pin */
  if (s == LAKE_OK) return LAKE_OK;
  lki_error_copy(err, &local);
  if (s == LAKE_CORRUPT || s == LAKE_UNSUPPORTED)
    lki_error_prefix(err, "nothing is reclaimed while a pin cannot be read, repair or remove it");
  return s;
}

lake_status lki_pin_visit(lake_namespace *ns, lki_pin_fn *fn, void *ctx, lake_deadline deadline, lake_error *err) {
  lki_page *page = lki_new(ns->env, sizeof *page);
  if (page == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory while listing pins");
  lki_page_init(page, ns->env);
  lake_buffer bytes;
  lki_buffer_init(&bytes, ns->env, 65536);
  lake_status s = LAKE_OK;
  while (s == LAKE_OK && !page->last) { /* each page goes on behind the one before */
    s = lki_page_read(page, ns->store, LKI_NAME_PIN_PREFIX, take_all, NULL, deadline, err);
    for (uint32_t i = 0; s == LAKE_OK && i < page->count; i++) {
      lki_pin pin;
      bool gone = false;
      s = read_pin(ns, page->keys[i], &bytes, &pin, &gone, deadline, err);
      if (s == LAKE_OK && !gone) s = fn(ctx, page->keys[i], &pin, err);
    }
  }
  lki_buffer_free(&bytes);
  lki_page_free(page);
  lki_free(ns->env, page);
  return s;
}

lake_status lake_pin_remove(lake_namespace *ns, const char *group, const char *checkpoint, lake_deadline deadline,
                            lake_error *err) {
  lake_status s = lki_check_process(ns->env, "the namespace", err);
  if (s == LAKE_OK) s = check_names(group, checkpoint, err);
  if (s != LAKE_OK) return s;
  char name[LKI_NAME_BYTES];
  lki_name_pin(name, group, checkpoint);
  return lki_store_remove(ns->store, name, deadline, err);
}
