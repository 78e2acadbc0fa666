/* Who waits and who is admitted. Admission is in order of submission, host by host: a full host lets the
 * others pass, a full budget lets nobody pass, so that a large call is not starved by small ones; one call
 * always is admitted. What a call is charged is given back after its done(), when the caller has had its
 * chance to free the bytes. */
#include "base/env.h"
#include "store/http_inner.h"
#include <assert.h>
#include <string.h>

/* ---- hosts ---- */

static lki_http_host *host_locked(lki_http *http, const char *url) {
  size_t bytes = lki_http_origin_bytes(url);
  lki_http_host *host = http->synced.hosts;
  for (; host != NULL; host = host->next)
    if (host->origin_bytes == bytes && memcmp(host->origin, url, bytes) == 0) return host;
  host = lki_new(http->env, sizeof *host + bytes);
  if (host == NULL) return NULL;
  host->origin_bytes = bytes;
  memcpy(host->origin, url, bytes);
  host->next = http->synced.hosts;
  http->synced.hosts = host;
  return host;
}

static void leave_host_locked(lki_http *http, lki_http_host *host) {
  if (--host->item_count > 0) return;
  assert(host->in_flight == 0 && host->queue.first == NULL);
  lki_http_host **at = &http->synced.hosts;
  while (*at != host) at = &(*at)->next;
  *at = host->next;
  lki_free(http->env, host);
}

/* ---- admission ---- */

void lki_http_wake_locked(lki_http_io *io, lki_http_wakes *wakes) {
  if (!io->asleep) return;
  io->asleep = false;
  *wakes |= (lki_http_wakes)1 << (io - io->http->threads);
}

void lki_http_wake_threads(lki_http *http, lki_http_wakes wakes) {
  for (uint32_t i = 0; i < http->thread_count; i++)
    if ((wakes >> i & 1) != 0) lki_http_io_wake(&http->threads[i]);
}

static lki_http_host *next_host_locked(lki_http *http) {
  lki_http_host *best = NULL;
  for (lki_http_host *host = http->synced.hosts; host != NULL; host = host->next) {
    if (host->queue.first == NULL || host->in_flight >= http->options.per_host_max) continue;
    if (best == NULL || host->queue.first->order < best->queue.first->order) best = host;
  }
  return best;
}

/* The least loaded, and among equals the first: calls one after the other then stay on one connection. */
static lki_http_io *next_thread_locked(lki_http *http) {
  lki_http_io *best = &http->threads[0];
  for (uint32_t i = 1; i < http->thread_count; i++)
    if (http->threads[i].load < best->load) best = &http->threads[i];
  return best;
}

static void add_bytes_locked(lki_http *http, uint64_t bytes) {
  http->synced.in_flight_bytes += bytes;
  if (http->synced.in_flight_bytes > http->synced.in_flight_bytes_peak)
    http->synced.in_flight_bytes_peak = http->synced.in_flight_bytes;
}

void lki_http_admit_locked(lki_http *http, lki_http_wakes *wakes) {
  while (!http->synced.closing) {
    lki_http_host *host = next_host_locked(http);
    if (host == NULL) return;
    lki_http_item *item = host->queue.first;
    uint64_t room = http->synced.in_flight_bytes < http->options.in_flight_bytes_max
                        ? http->options.in_flight_bytes_max - http->synced.in_flight_bytes
                        : 0;
    if (http->synced.in_flight_count > 0 && item->transfer.charged_bytes > room) return;
    lki_http_list_remove(&host->queue, item);
    host->in_flight++;
    http->synced.in_flight_count++;
    add_bytes_locked(http, item->transfer.charged_bytes);
    item->admitted = true;
    if (item->direct) {
      lki_signal(http->env, item->waiter->cond);
      continue;
    }
    item->io = next_thread_locked(http);
    item->io->load++;
    lki_http_list_push(&item->io->inbox, item);
    lki_http_wake_locked(item->io, wakes);
  }
}

/* A reply that is larger than was expected is charged without waiting: to wait with a part in hand could be
 * for ever. */
void lki_http_charge(lki_http_transfer *transfer, uint64_t bytes) {
  lki_http_item *item = (lki_http_item *)transfer;
  lki_http *http = item->http;
  lki_lock(http->env, http->synced.lock);
  add_bytes_locked(http, bytes);
  transfer->charged_bytes += bytes;
  lki_unlock(http->env, http->synced.lock);
}

bool lki_http_enqueue_locked(lki_http *http, lki_http_item *item, lki_http_wakes *wakes) {
  const lki_http_request *request = &item->transfer.call->request;
  item->host = host_locked(http, request->url);
  if (item->host == NULL) return false;
  item->host->item_count++;
  item->order = http->synced.order++;
  item->transfer.call->inner = item;
  lki_http_list_push(&item->host->queue, item);
  lki_http_admit_locked(http, wakes);
  if (item->admitted) return true;
  item->kept_waiting = true;
  if (request->deadline.at_ns < http->synced.sweep_at_ns || http->synced.closing) {
    if (request->deadline.at_ns < http->synced.sweep_at_ns)
      http->synced.sweep_at_ns = request->deadline.at_ns;
    lki_http_wake_locked(&http->threads[0], wakes);
  }
  return true;
}

void lki_http_sweep_locked(lki_http *http, lki_http_list *passed, lki_http_list *cancelled) {
  uint64_t now_ns = lki_now_ns(http->env);
  bool closing = http->synced.closing;
  if (!closing && !http->synced.sweep && now_ns < http->synced.sweep_at_ns) return;
  http->synced.sweep = false;
  http->synced.sweep_at_ns = LKI_NEVER;
  for (lki_http_host *host = http->synced.hosts; host != NULL; host = host->next) {
    for (lki_http_item *item = host->queue.first, *next; item != NULL; item = next) {
      next = item->next;
      uint64_t at_ns = item->transfer.call->request.deadline.at_ns;
      if (closing || item->cancelled || at_ns <= now_ns) {
        lki_http_list_remove(&host->queue, item);
        lki_http_list_push(closing || item->cancelled ? cancelled : passed, item);
      } else if (at_ns < http->synced.sweep_at_ns) {
        http->synced.sweep_at_ns = at_ns;
      }
    }
  }
}

void lki_http_release_locked(lki_http *http, lki_http_item *item, lki_http_wakes *wakes) {
  if (item->admitted) {
    item->host->in_flight--;
    http->synced.in_flight_count--;
    http->synced.in_flight_bytes -= item->transfer.charged_bytes;
  }
  leave_host_locked(http, item->host);
  lki_http_admit_locked(http, wakes);
}
