/* The I/O threads: each owns a multi handle and the transfers in it, takes what it is given from its inbox,
 * and sleeps in libcurl's poll. The first one also ends calls that wait in vain. */
#include "base/env.h"
#include "store/http_inner.h"

#define POLL_MS_MAX 60000

static void count(atomic_uint_fast64_t *counter, uint64_t n) {
  atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* The call is over: from here on only done() knows it. What it was charged is given back afterwards. */
static void complete(lki_http_item *item) {
  lki_http *http = item->http;
  lki_http_call *call = item->transfer.call;
  lki_http_transfer_close(&item->transfer);
  count(&http->call_count, 1);
  lki_lock(http->env, http->synced.lock);
  call->inner = NULL;                     /* a late cancel finds nothing */
  if (item->io != NULL) item->io->load--; /* now: the next call may be submitted before done() returns */
  lki_unlock(http->env, http->synced.lock);
  call->done(call);
  lki_http_wakes wakes = 0;
  lki_lock(http->env, http->synced.lock);
  lki_http_release_locked(http, item, &wakes);
  lki_unlock(http->env, http->synced.lock);
  lki_http_wake_threads(http, wakes);
  lki_free(http->env, item);
}

/* A handle that libcurl has sent a request with twice is not used again: it would count such repeats over all
 * its transfers, and refuse the sixth. */
static void keep_easy(lki_http_io *io, CURL *easy, const lki_http_item *item) {
  if (easy == NULL) return;
  if (item->transfer.send_count <= 1 && io->idle_count < LKI_HTTP_IDLE_MAX)
    io->idle[io->idle_count++] = easy;
  else
    curl_easy_cleanup(easy);
}

static void count_connections(const lki_http_item *item) {
  long connects = 0;
  if (item->transfer.easy == NULL) return;
  curl_easy_getinfo(item->transfer.easy, CURLINFO_NUM_CONNECTS, &connects);
  count(&item->http->connection_count, connects > 0 ? (uint64_t)connects : 0);
  if (connects == 0 && item->transfer.send_count > 0) count(&item->http->reused_count, 1);
}

static void leave(lki_http_io *io, lki_http_item *item) {
  if (!item->running) return;
  curl_multi_remove_handle(io->multi, item->transfer.easy);
  lki_http_list_remove(&io->running, item);
  item->running = false;
}

static void end(lki_http_io *io, lki_http_item *item, CURLcode code) {
  CURL *easy = item->transfer.easy;
  count_connections(item);
  leave(io, item);
  lki_http_transfer_end(&item->transfer, code);
  keep_easy(io, easy, item);
  complete(item);
}

static void stop(lki_http_io *io, lki_http_item *item, bool passed) {
  CURL *easy = item->transfer.easy;
  count_connections(item);
  leave(io, item);
  lki_http_transfer_stop(
      &item->transfer, LAKE_TIMEOUT,
      passed ? "the deadline passed while it waited for its turn; raise the limit of requests in "
               "flight, or the deadline"
             : "the request was cancelled");
  keep_easy(io, easy, item);
  complete(item);
}

static void begin(lki_http_io *io, lki_http_item *item) {
  lki_http *http = io->http;
  if (lki_deadline_passed(http->env, item->transfer.call->request.deadline)) {
    stop(io, item, true);
    return;
  }
  CURL *easy =
      io->idle_count > 0 ? io->idle[--io->idle_count] : lki_http_easy_open(&http->options, http->share);
  bool ok = easy != NULL && lki_http_transfer_begin(&item->transfer, easy);
  if (ok && curl_multi_add_handle(io->multi, easy) == CURLM_OK) {
    item->running = true;
    lki_http_list_push(&io->running, item);
    return;
  }
  lki_http_transfer_stop(&item->transfer, LAKE_NOMEM, "out of memory");
  keep_easy(io, easy, item);
  complete(item);
}

static void take_marked_locked(lki_http_io *io, lki_http_list *from, lki_http_list *to) {
  bool closing = io->http->synced.closing;
  for (lki_http_item *item = from->first, *next; item != NULL; item = next) {
    next = item->next;
    if (!closing && !item->cancelled) continue;
    lki_http_list_remove(from, item);
    lki_http_list_push(to, item);
    if (from == &io->running) item->running = false;
  }
}

/* What others have left for this thread. False: all is over. */
static bool take_orders(lki_http_io *io) {
  lki_http *http = io->http;
  lki_http_list fresh = {NULL, NULL}, passed = {NULL, NULL}, cancelled = {NULL, NULL}, broken = {NULL, NULL};
  bool first = io == &http->threads[0];
  bool over = false;
  lki_http_wakes wakes = 0;
  lki_lock(http->env, http->synced.lock);
  io->asleep = false;
  if (first) lki_http_sweep_locked(http, &passed, &cancelled);
  if (io->marked || http->synced.closing) {
    io->marked = false;
    take_marked_locked(io, &io->inbox, &cancelled);
    take_marked_locked(io, &io->running, &broken);
  }
  fresh = io->inbox;
  io->inbox = (lki_http_list){NULL, NULL};
  /* The first thread leaves last: a done() on another may still submit. */
  over = http->synced.closing && cancelled.first == NULL && broken.first == NULL &&
         (!first || http->synced.threads_left == 1);
  if (over && --http->synced.threads_left == 1) lki_http_wake_locked(&http->threads[0], &wakes);
  lki_unlock(http->env, http->synced.lock);
  lki_http_wake_threads(http, wakes);
  for (lki_http_item *item; (item = lki_http_list_pop(&passed)) != NULL;) stop(io, item, true);
  for (lki_http_item *item; (item = lki_http_list_pop(&cancelled)) != NULL;) stop(io, item, false);
  for (lki_http_item *item; (item = lki_http_list_pop(&broken)) != NULL;) {
    curl_multi_remove_handle(io->multi, item->transfer.easy);
    stop(io, item, false);
  }
  for (lki_http_item *item; (item = lki_http_list_pop(&fresh)) != NULL;) begin(io, item);
  return !over;
}

/* How long to sleep; 0: something came meanwhile. */
static int sleep_ms(lki_http_io *io) {
  lki_http *http = io->http;
  int ms = POLL_MS_MAX;
  lki_lock(http->env, http->synced.lock);
  bool first = io == &http->threads[0];
  bool left = http->synced.closing && (!first || http->synced.threads_left == 1 || io->running.first != NULL);
  if (io->inbox.first != NULL || io->marked || left || (first && http->synced.sweep)) {
    ms = 0;
  } else {
    io->asleep = true;
    if (first && http->synced.sweep_at_ns != LKI_NEVER) {
      uint64_t now_ns = lki_now_ns(http->env);
      uint64_t wait_ms =
          http->synced.sweep_at_ns > now_ns ? (http->synced.sweep_at_ns - now_ns) / 1000000u + 1 : 0;
      if (wait_ms < POLL_MS_MAX) ms = (int)wait_ms;
    }
  }
  lki_unlock(http->env, http->synced.lock);
  return ms;
}

void lki_http_io_main(void *arg) {
  lki_http_io *io = arg;
  while (take_orders(io)) {
    int left = 0;
    curl_multi_perform(io->multi, &left);
    for (CURLMsg *message; (message = curl_multi_info_read(io->multi, &left)) != NULL;) {
      if (message->msg != CURLMSG_DONE) continue;
      CURLcode code = message->data.result;
      void *transfer = NULL;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
      end(io, transfer, code);
    }
    int ms = sleep_ms(io);
    if (ms > 0) curl_multi_poll(io->multi, NULL, 0, ms, NULL);
  }
  while (io->idle_count > 0) curl_easy_cleanup(io->idle[--io->idle_count]);
}
