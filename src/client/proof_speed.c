/* How fast a store is, roughly: the median of small requests one after another, and what several streams of large ones
 * carry together. Estimates for people; nothing is decided by them. */
#include "client/proof_inner.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_COUNT_MAX 101
#define PROBE_BYTES 4096u
#define STREAM_COUNT 4u

static int order(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static uint64_t median(uint64_t *times_ns, uint32_t count) {
  qsort(times_ns, count, sizeof times_ns[0], order);
  return times_ns[count / 2] > 0 ? times_ns[count / 2] : 1;
}

static lake_status probe(lki_proof *p, uint32_t count, lake_error *err) {
  uint64_t put_ns[PROBE_COUNT_MAX], get_ns[PROBE_COUNT_MAX];
  unsigned char body[PROBE_BYTES], got[PROBE_BYTES];
  size_t bytes = 0;
  lake_status s = LAKE_OK;
  memset(body, 'x', sizeof body);
  for (uint32_t i = 0; s == LAKE_OK && i < count; i++) {
    char key[LKI_PROOF_KEY_BYTES];
    lki_proof_key(p, LKI_PROOF_PROBE, i, key);
    p->written[LKI_PROOF_PROBE] = i + 1;
    const uint64_t begin_ns = lki_now_ns(p->env);
    s = lki_store_put(p->stores[0], key, (lake_bytes){body, sizeof body}, lki_proof_until(p), err);
    const uint64_t middle_ns = lki_now_ns(p->env);
    if (s == LAKE_OK) s = lki_proof_read(p->stores[0], key, got, sizeof got, &bytes, lki_proof_until(p), err);
    if (s == LAKE_NOTFOUND) s = lki_proof_refute(err, "an object that was written is not there");
    put_ns[i] = middle_ns - begin_ns;
    get_ns[i] = lki_now_ns(p->env) - middle_ns;
  }
  if (s != LAKE_OK || count == 0) return s;
  p->report->put_ns = median(put_ns, count);
  p->report->get_ns = median(get_ns, count);
  return LAKE_OK;
}

static lake_status put_bulk(lki_proof *p, lake_store *store, uint32_t i, void *ctx, lake_error *err) {
  const lake_buffer *body = ctx;
  char key[LKI_PROOF_KEY_BYTES];
  lki_proof_key(p, LKI_PROOF_BULK, i, key);
  return lki_store_put(store, key, lki_buffer_view(body), lki_proof_until(p), err);
}

static lake_status get_bulk(lki_proof *p, lake_store *store, uint32_t i, void *ctx, lake_error *err) {
  const lake_buffer *body = ctx;
  lake_buffer got;
  char key[LKI_PROOF_KEY_BYTES];
  lki_proof_key(p, LKI_PROOF_BULK, i, key);
  lki_buffer_init(&got, p->env, body->bytes);
  lake_status s = lki_store_get(store, key, lki_range_whole(), &got, NULL, lki_proof_until(p), err);
  if (s == LAKE_NOTFOUND) s = lki_proof_refute(err, "an object that was written is not there");
  if (s == LAKE_OK && (got.bytes != body->bytes || memcmp(got.data, body->data, got.bytes) != 0))
    s = lki_proof_refute(err, "an object of %zu bytes comes back with other bytes", body->bytes);
  lki_buffer_free(&got);
  return s;
}

static uint64_t per_second(uint64_t bytes, uint64_t ns) {
  return ns > 0 ? (uint64_t)((double)bytes * 1e9 / (double)ns) : 0;
}

static lake_status bulk(lki_proof *p, lake_error *err) {
  lake_buffer body;
  const uint64_t total = (uint64_t)STREAM_COUNT * p->options->bulk_bytes;
  lki_buffer_init(&body, p->env, p->options->bulk_bytes);
  lake_status s = lki_buffer_reserve(&body, p->options->bulk_bytes, err);
  if (s == LAKE_OK) {
    body.bytes = p->options->bulk_bytes;
    lki_random(p->env, body.data, body.bytes); /* nothing on the way can make it smaller */
    p->written[LKI_PROOF_BULK] = STREAM_COUNT;
    const uint64_t begin_ns = lki_now_ns(p->env);
    s = lki_proof_each(p, STREAM_COUNT, STREAM_COUNT, put_bulk, &body, err);
    const uint64_t middle_ns = lki_now_ns(p->env);
    if (s == LAKE_OK) s = lki_proof_each(p, STREAM_COUNT, STREAM_COUNT, get_bulk, &body, err);
    if (s == LAKE_OK) {
      p->report->put_bytes_per_s = per_second(total, middle_ns - begin_ns);
      p->report->get_bytes_per_s = per_second(total, lki_now_ns(p->env) - middle_ns);
    }
  }
  lki_buffer_free(&body);
  return s;
}

lake_status lki_proof_speed(lki_proof *p, lake_error *err) {
  if (p->options->probe_count == 0) return LAKE_OK;
  if (p->keeps_all) {
    p->result = LKI_PROOF_SKIPPED;
    snprintf(p->said, sizeof p->said, "not measured: what it writes could not be removed");
    return LAKE_OK;
  }
  lake_status s = probe(p, p->options->probe_count < PROBE_COUNT_MAX ? p->options->probe_count : PROBE_COUNT_MAX, err);
  if (s == LAKE_OK && p->options->bulk_bytes > 0) s = bulk(p, err);
  if (s == LAKE_OK)
    snprintf(p->said, sizeof p->said, "get %.2f ms, put %.2f ms (medians of %u, %u bytes); get %.0f MB/s, put %.0f MB/s (%u streams)",
             (double)p->report->get_ns / 1e6, (double)p->report->put_ns / 1e6, p->options->probe_count, PROBE_BYTES,
             (double)p->report->get_bytes_per_s / 1e6, (double)p->report->put_bytes_per_s / 1e6, STREAM_COUNT);
  return s;
}
