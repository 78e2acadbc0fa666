/* The segment codec: docs/format/segment.md. Never compressed: a segment's name holds the checksum of its
 * bytes, so equal segments must be equal bytes whatever version of zstd is there. Pure. */
#include "format/descriptor.h"
#include "format/envelope.h"
#include "format/names.h"
#include <inttypes.h>
#include <string.h>

static const lki_envelope_kind segment_kind = {"LAKE-SEG", "segment", LKI_SEGMENT_BYTES_MAX, false};

static lake_status put_body(lake_env *env, const lki_segment *segment, lki_writer *writer, lake_error *err) {
  lki_put_bytes(writer, segment->namespace_id.bytes, LKI_ID_BYTES);
  lki_put_varint(writer, segment->level);
  lki_put_varint(writer, segment->first_step);
  if (segment->level > 0) {
    lki_put_segment_refs(writer, segment->children, segment->child_count);
    return LAKE_OK;
  }
  lki_put_varint(writer, segment->producer_count);
  for (uint32_t i = 0; i < segment->producer_count; i++) {
    const char *id = segment->producer_ids[i];
    if (!lki_name_component_valid(id))
      return lki_fail(err, LAKE_INVALID, "segment: producer %u has no valid id", i);
    lake_bytes bytes = {id, strlen(id)};
    lki_put_blob(writer, bytes);
  }
  lki_put_varint(writer, segment->descriptor_count);
  return lki_put_descriptors(env, writer, segment->descriptors, segment->descriptor_count,
                             segment->producer_count, err);
}

lake_status lki_segment_encode(lake_env *env, const lki_segment *segment, lake_buffer *out, lake_error *err) {
  lake_buffer body;
  lki_writer writer;
  lki_buffer_init(&body, env, LKI_SEGMENT_BYTES_MAX);
  lki_writer_init(&writer, &body);
  lake_status s = lki_segment_check(segment, err);
  if (s == LAKE_OK) s = put_body(env, segment, &writer, err);
  if (s == LAKE_OK && writer.status != LAKE_OK)
    s = lki_fail(err, writer.status, "segment at step %" PRIu64 ": out of memory, or above %zu bytes",
                 segment->first_step, LKI_SEGMENT_BYTES_MAX);
  if (s == LAKE_OK) s = lki_envelope_write(env, &segment_kind, lki_buffer_view(&body), out, err);
  lki_buffer_free(&body);
  return s;
}

static lake_status get_producer_ids(lki_reader *reader, const char *what, lki_segment *segment,
                                    lake_error *err) {
  uint32_t count = (uint32_t)lki_get_varint(reader, LKI_PRODUCER_COUNT_MAX);
  if (reader->bad || count > lki_reader_left(reader) / 2)
    return lki_fail_damaged(what, "more producers than it has bytes for", err);
  segment->producer_ids = lki_arena_alloc(&segment->arena, count * sizeof *segment->producer_ids);
  if (segment->producer_ids == NULL) return lki_fail_memory(what, err);
  for (uint32_t i = 0; i < count; i++) {
    const char *id = lki_get_text(reader, LKI_PRODUCER_ID_BYTES_MAX, &segment->arena);
    if (reader->bad) return lki_fail_damaged(what, "producer id", err);
    if (id == NULL) return lki_fail_memory(what, err);
    if (!lki_name_component_valid(id)) return lki_fail_damaged(what, "producer id", err);
    segment->producer_ids[i] = id;
  }
  segment->producer_count = count;
  return LAKE_OK;
}

static lake_status get_children(lki_reader *reader, const char *what, lki_segment *segment, lake_error *err) {
  lake_status s = lki_get_segment_refs(reader, segment->first_step, LKI_SEGMENT_REF_COUNT_MAX, what,
                                       &segment->arena, &segment->children, &segment->child_count, err);
  for (uint32_t i = 0; s == LAKE_OK && i < segment->child_count; i++)
    segment->step_count += segment->children[i].step_count;
  return s;
}

static lake_status get_descriptors(lake_env *env, lki_reader *reader, const char *what, lki_segment *segment,
                                   lake_error *err) {
  lake_status s = get_producer_ids(reader, what, segment, err);
  if (s != LAKE_OK) return s;
  uint32_t count = (uint32_t)lki_get_varint(reader, LKI_DESCRIPTOR_COUNT_MAX);
  if (reader->bad || count > UINT64_MAX - segment->first_step)
    return lki_fail_damaged(what, "step count", err);
  s = lki_get_descriptors(env, reader, count, segment->producer_count, what, &segment->arena,
                          &segment->descriptors, err);
  if (s != LAKE_OK) return s;
  segment->descriptor_count = count;
  segment->step_count = count;
  return LAKE_OK;
}

static lake_status get_body(lake_env *env, lki_reader *reader, const lki_id *namespace_id, const char *what,
                            lki_segment *segment, lake_error *err) {
  lake_bytes id = lki_get_bytes(reader, LKI_ID_BYTES);
  segment->level = (uint32_t)lki_get_varint(reader, LKI_SEGMENT_LEVEL_MAX);
  segment->first_step = lki_get_varint(reader, UINT64_MAX);
  if (reader->bad) return lki_fail_damaged(what, "head", err);
  memcpy(segment->namespace_id.bytes, id.data, LKI_ID_BYTES);
  if (namespace_id != NULL && !lki_id_equal(*namespace_id, segment->namespace_id)) {
    char text[37];
    lki_id_format(segment->namespace_id, text);
    return lki_fail(err, LAKE_CORRUPT, "%s: belongs to another namespace (%s)", what, text);
  }
  lake_status s = segment->level > 0 ? get_children(reader, what, segment, err)
                                     : get_descriptors(env, reader, what, segment, err);
  if (s == LAKE_OK && lki_reader_left(reader) != 0) s = lki_fail_damaged(what, "bytes after its end", err);
  return s;
}

lake_status lki_segment_decode(lake_env *env, lake_bytes bytes, const lki_id *namespace_id, const char *what,
                               lki_segment **out, lake_error *err) {
  lake_buffer scratch;
  lake_bytes body;
  lki_reader reader;
  lki_segment *segment = NULL;
  lki_buffer_init(&scratch, env, LKI_SEGMENT_BYTES_MAX);
  lake_status s = lki_envelope_read(&segment_kind, bytes, what, &scratch, &body, err);
  if (s != LAKE_OK) goto done;
  lki_reader_init(&reader, body);
  segment = lki_segment_new(env);
  if (segment == NULL) {
    s = lki_fail_memory(what, err);
    goto done;
  }
  s = get_body(env, &reader, namespace_id, what, segment, err);
  if (s == LAKE_OK && (s = lki_segment_check(segment, err)) != LAKE_OK) lki_error_prefix(err, "%s", what);
  if (s == LAKE_OK) {
    *out = segment;
    segment = NULL;
  }
done:
  lki_segment_release(segment);
  lki_buffer_free(&scratch);
  return s;
}
