/* The manifest codec: docs/format/manifest.md. Pure; a decoded manifest has one reference and belongs to the
 * caller. Steps and versions are written relative to each other, so that a commit stays as long at 10^6 steps
 * as at 10^3. */
#include "base/planted.h"
#include "format/descriptor.h"
#include "format/envelope.h"
#include "format/names.h"
#include <inttypes.h>
#include <string.h>

#define WRITER_BYTES_MAX (LKI_PRODUCER_ID_BYTES_MAX + 1 + LKI_OWNER_BYTES_MAX)
#define FLAG_SEALED 1u
#define FLAG_RETIRED 1u
#define PRODUCER_BYTES_MIN 9

static const lki_envelope_kind manifest_kind = {"LAKE-MAN", "manifest", LKI_MANIFEST_BYTES_MAX, true};

static lake_bytes text_bytes(const char *text) {
  lake_bytes bytes = {text != NULL ? text : "", text != NULL ? strlen(text) : 0};
  return bytes;
}

static void put_producer(lki_writer *writer, const lki_producer_entry *producer, uint64_t version) {
  lki_put_u8(writer, producer->retired ? FLAG_RETIRED : 0);
  lki_put_blob(writer, text_bytes(producer->id));
  lki_put_varint(writer, producer->epoch);
  lki_put_varint(writer, producer->next_seq);
  lki_put_varint(writer, producer->offset);
  lki_put_blob(writer, producer->state);
  lki_put_varint(writer, version - producer->last_version);
  lki_put_blob(writer, text_bytes(producer->owner));
}

static lake_status put_body(lake_env *env, const lki_manifest *m, lki_writer *writer, lake_error *err) {
  lki_put_bytes(writer, m->namespace_id.bytes, LKI_ID_BYTES);
  lki_put_bytes(writer, m->attempt.bytes, LKI_ID_BYTES);
  lki_put_bytes(writer, m->previous.bytes, LKI_ID_BYTES);
  lki_put_varint(writer, m->version);
  lki_put_u8(writer, m->sealed ? FLAG_SEALED : 0);
  lki_put_blob(writer, text_bytes(m->writer));
  lki_put_varint(writer, m->next_step);
  lki_put_varint(writer, m->first_live_step);
  lki_put_varint(writer, m->producer_count);
  for (uint32_t i = 0; i < m->producer_count; i++) put_producer(writer, &m->producers[i], m->version);
  lki_put_varint(writer, m->segment_count > 0 ? m->segments[0].first_step : m->tail_first_step);
  lki_put_segment_refs(writer, m->segments, m->segment_count);
  lki_put_varint(writer, m->tail_count);
  lake_status s = lki_put_descriptors(env, writer, m->tail, m->tail_count, m->producer_count, err);
  if (s != LAKE_OK) return s;
  lki_put_varint(writer, m->quarantine_count);
  for (uint32_t i = 0; i < m->quarantine_count; i++)
    lki_put_varint(writer, i == 0 ? m->quarantine[0] : m->quarantine[i] - m->quarantine[i - 1]);
  return LAKE_OK;
}

/* What the model's check leaves to the codec: names and texts fit into their fields. */
static lake_status check_texts(const lki_manifest *m, lake_error *err) {
  if (m->version == 0) return lki_fail(err, LAKE_INVALID, "manifest: version 0 has no object");
  if (m->writer != NULL && strlen(m->writer) > WRITER_BYTES_MAX)
    return lki_fail(err, LAKE_INVALID, "manifest: its writer's name is longer than %d bytes",
                    WRITER_BYTES_MAX);
  for (uint32_t i = 0; i < m->producer_count; i++) {
    const lki_producer_entry *p = &m->producers[i];
    if (!lki_name_component_valid(p->id) || p->state.bytes > LKI_STATE_BYTES_MAX ||
        (p->owner != NULL && strlen(p->owner) > LKI_OWNER_BYTES_MAX) || p->last_version > m->version)
      return lki_fail(err, LAKE_INVALID, "manifest: the entry of producer %u is outside of its limits", i);
  }
  return LAKE_OK;
}

lake_status lki_manifest_encode(lake_env *env, const lki_manifest *manifest, lake_buffer *out,
                                lake_error *err) {
  lake_buffer body;
  lki_writer writer;
  lki_buffer_init(&body, env, LKI_MANIFEST_BYTES_MAX);
  lki_writer_init(&writer, &body);
  lake_status s = LKI_PLANTED_BLIND ? LAKE_OK : lki_manifest_check(manifest, err);
  if (s == LAKE_OK) s = check_texts(manifest, err);
  if (s == LAKE_OK) s = put_body(env, manifest, &writer, err);
  if (s == LAKE_OK && writer.status != LAKE_OK)
    s = lki_fail(err, writer.status, "manifest %" PRIu64 ": out of memory, or above %zu bytes",
                 manifest->version, LKI_MANIFEST_BYTES_MAX);
  if (s == LAKE_OK) s = lki_envelope_write(env, &manifest_kind, lki_buffer_view(&body), out, err);
  lki_buffer_free(&body);
  return s;
}

static void get_id(lki_reader *reader, lki_id *id) {
  lake_bytes bytes = lki_get_bytes(reader, LKI_ID_BYTES);
  if (!reader->bad) memcpy(id->bytes, bytes.data, LKI_ID_BYTES);
}

static lake_status get_producer(lki_reader *reader, uint64_t version, const char *what, lki_arena *arena,
                                lki_producer_entry *producer, lake_error *err) {
  uint8_t flags = lki_get_u8(reader);
  producer->retired = (flags & FLAG_RETIRED) != 0;
  producer->id = lki_get_text(reader, LKI_PRODUCER_ID_BYTES_MAX, arena);
  producer->epoch = lki_get_varint(reader, UINT64_MAX);
  producer->next_seq = lki_get_varint(reader, UINT64_MAX);
  producer->offset = lki_get_varint(reader, UINT64_MAX);
  lake_bytes state = lki_get_blob(reader, LKI_STATE_BYTES_MAX);
  producer->last_version = version - lki_get_varint(reader, version);
  producer->owner = lki_get_text(reader, LKI_OWNER_BYTES_MAX, arena);
  if (reader->bad || (flags & ~FLAG_RETIRED) != 0) return lki_fail_damaged(what, "producer entry", err);
  producer->state.bytes = state.bytes;
  producer->state.data = lki_arena_copy(arena, state.data, state.bytes);
  if (producer->id == NULL || producer->owner == NULL || producer->state.data == NULL)
    return lki_fail_memory(what, err);
  if (!lki_name_component_valid(producer->id)) return lki_fail_damaged(what, "producer id", err);
  return LAKE_OK;
}

static lake_status get_producers(lki_reader *reader, const char *what, lki_manifest *m, lake_error *err) {
  uint32_t count = (uint32_t)lki_get_varint(reader, LKI_PRODUCER_COUNT_MAX);
  if (reader->bad || count > lki_reader_left(reader) / PRODUCER_BYTES_MIN)
    return lki_fail_damaged(what, "more producers than it has bytes for", err);
  m->producers = lki_arena_alloc(&m->arena, count * sizeof *m->producers);
  if (m->producers == NULL) return lki_fail_memory(what, err);
  for (uint32_t i = 0; i < count; i++) {
    lake_status s = get_producer(reader, m->version, what, &m->arena, &m->producers[i], err);
    if (s != LAKE_OK) return s;
  }
  m->producer_count = count;
  return LAKE_OK;
}

static lake_status get_head(lki_reader *reader, const lki_id *namespace_id, const char *what, lki_manifest *m,
                            lake_error *err) {
  get_id(reader, &m->namespace_id);
  get_id(reader, &m->attempt);
  get_id(reader, &m->previous);
  m->version = lki_get_varint(reader, UINT64_MAX);
  uint8_t flags = lki_get_u8(reader);
  m->sealed = (flags & FLAG_SEALED) != 0;
  m->writer = lki_get_text(reader, WRITER_BYTES_MAX, &m->arena);
  m->next_step = lki_get_varint(reader, UINT64_MAX);
  m->first_live_step = lki_get_varint(reader, m->next_step);
  if (reader->bad || (flags & ~FLAG_SEALED) != 0 || m->version == 0)
    return lki_fail_damaged(what, "head", err);
  if (m->writer == NULL) return lki_fail_memory(what, err);
  if (namespace_id != NULL && !lki_id_equal(*namespace_id, m->namespace_id)) {
    char id[37];
    lki_id_format(m->namespace_id, id);
    return lki_fail(err, LAKE_CORRUPT, "%s: belongs to another namespace (%s)", what, id);
  }
  return LAKE_OK;
}

static lake_status get_steps(lake_env *env, lki_reader *reader, const char *what, lki_manifest *m,
                             lake_error *err) {
  uint64_t first_step = lki_get_varint(reader, m->next_step);
  lake_status s = lki_get_segment_refs(reader, first_step, LKI_SEGMENT_REF_COUNT_MAX, what, &m->arena,
                                       &m->segments, &m->segment_count, err);
  if (s != LAKE_OK) return s;
  uint32_t tail_count = (uint32_t)lki_get_varint(reader, LKI_DESCRIPTOR_COUNT_MAX);
  if (reader->bad || tail_count > m->next_step) return lki_fail_damaged(what, "tail", err);
  m->tail_first_step = m->next_step - tail_count;
  /* The model's check sees a gap between segments and tail only where there is a segment. */
  if (m->segment_count == 0 && first_step != m->tail_first_step) return lki_fail_damaged(what, "tail", err);
  s = lki_get_descriptors(env, reader, tail_count, m->producer_count, what, &m->arena, &m->tail, err);
  if (s == LAKE_OK) m->tail_count = tail_count;
  return s;
}

static lake_status get_quarantine(lki_reader *reader, const char *what, lki_manifest *m, lake_error *err) {
  uint32_t count = (uint32_t)lki_get_varint(reader, LKI_QUARANTINE_COUNT_MAX);
  if (reader->bad || count > lki_reader_left(reader)) return lki_fail_damaged(what, "quarantine", err);
  m->quarantine = lki_arena_alloc(&m->arena, count * sizeof *m->quarantine);
  if (m->quarantine == NULL) return lki_fail_memory(what, err);
  uint64_t step = 0;
  for (uint32_t i = 0; i < count; i++) {
    step += lki_get_varint(reader, UINT64_MAX - step);
    if (reader->bad || (i > 0 && step == m->quarantine[i - 1]))
      return lki_fail_damaged(what, "quarantine", err);
    m->quarantine[i] = step;
  }
  m->quarantine_count = count;
  return LAKE_OK;
}

lake_status lki_manifest_decode(lake_env *env, lake_bytes bytes, const lki_id *namespace_id, const char *what,
                                lki_manifest **out, lake_error *err) {
  lake_buffer scratch;
  lake_bytes body;
  lki_reader reader;
  lki_manifest *m = NULL;
  lki_buffer_init(&scratch, env, LKI_MANIFEST_BYTES_MAX);
  lake_status s = lki_envelope_read(&manifest_kind, bytes, what, &scratch, &body, err);
  if (s != LAKE_OK) goto done;
  lki_reader_init(&reader, body);
  m = lki_manifest_new(env);
  if (m == NULL) {
    s = lki_fail_memory(what, err);
    goto done;
  }
  s = get_head(&reader, namespace_id, what, m, err);
  if (s == LAKE_OK) s = get_producers(&reader, what, m, err);
  if (s == LAKE_OK) s = get_steps(env, &reader, what, m, err);
  if (s == LAKE_OK) s = get_quarantine(&reader, what, m, err);
  if (s == LAKE_OK && lki_reader_left(&reader) != 0) s = lki_fail_damaged(what, "bytes after its end", err);
  if (s == LAKE_OK && !LKI_PLANTED_BLIND && (s = lki_manifest_check(m, err)) != LAKE_OK) lki_error_prefix(err, "%s", what);
  if (s == LAKE_OK) {
    *out = m;
    m = NULL;
  }
done:
  lki_manifest_release(m);
  lki_buffer_free(&scratch);
  return s;
}
