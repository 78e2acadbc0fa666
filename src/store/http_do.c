/* Calls that are waited for. The one who waits has a thread with nothing to do, so over http the transfer
 * runs there: no hand-over to another thread and back, which for small objects costs as much as the request.
 * It is queued, admitted and charged like all others.
 *
 * Over https it runs on an I/O thread: libcurl keeps the certificates that it trusts, which take long to
 * read, with a multi handle, and OpenSSL writes to sockets in a way that may raise SIGPIPE, which those
 * threads have blocked. */
#include "base/env.h"
#include "base/error.h"
#include "store/http_inner.h"
#include <string.h>
#include <sys/resource.h>

/* Handles hold descriptors also while nobody uses them. A process that may open few keeps most for its connections and
 * its files: 96 of 1024 at most are theirs, and the other calls go over the I/O threads. */
#define LIMIT_PART 32u

uint32_t lki_http_do_count_max(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return limit.rlim_cur / LIMIT_PART < LKI_HTTP_DIRECT_MAX ? (uint32_t)(limit.rlim_cur / LIMIT_PART) : LKI_HTTP_DIRECT_MAX;
}

/* ---- waiters ---- */

static lki_http_waiter *new_waiter(lki_http *http) {
  lki_http_waiter *waiter = lki_new(http->env, sizeof *waiter);
  if (waiter == NULL) return NULL;
  waiter->http = http;
  waiter->cond = lki_cond_open(http->env);
  if (waiter->cond != NULL) return waiter;
  lki_free(http->env, waiter);
  return NULL;
}

/* One that was kept, or a new one; the lock is released meanwhile. */
static lki_http_waiter *take_waiter_locked(lki_http *http) {
  lki_http_waiter *waiter = http->synced.waiters;
  if (waiter != NULL) {
    http->synced.waiters = waiter->next;
  } else {
    lki_unlock(http->env, http->synced.lock);
    waiter = new_waiter(http);
    lki_lock(http->env, http->synced.lock);
  }
  if (waiter != NULL) waiter->done = false;
  return waiter;
}

static void keep_waiter_locked(lki_http *http, lki_http_waiter *waiter) {
  waiter->next = http->synced.waiters;
  http->synced.waiters = waiter;
}

void lki_http_do_close(lki_http *http) {
  while (http->synced.waiters != NULL) {
    lki_http_waiter *waiter = http->synced.waiters;
    http->synced.waiters = waiter->next;
    lki_cond_close(http->env, waiter->cond);
    lki_free(http->env, waiter);
  }
  while (http->synced.idle_count > 0) curl_easy_cleanup(http->synced.idle[--http->synced.idle_count]);
}

/* ---- on the caller's own thread ---- */

static void run(lki_http *http, lki_http_item *item, CURL *easy, lki_http_waiter *waiter) {
  lki_http_transfer *transfer = &item->transfer;
  lki_http_wakes wakes = 0;
  bool late = lki_deadline_passed(http->env, transfer->call->request.deadline);
  if (easy == NULL && !late) easy = lki_http_easy_open(&http->options, http->share);
  if (late) {
    lki_http_transfer_stop(transfer, LAKE_TIMEOUT, LKI_HTTP_LATE);
  } else if (easy != NULL && lki_http_transfer_begin(transfer, easy)) {
    CURLcode code = curl_easy_perform(easy);
    lki_http_count_connections(item);
    lki_http_transfer_end(transfer, code);
  } else {
    lki_http_transfer_stop(transfer, LAKE_NOMEM, "out of memory");
  }
  atomic_fetch_add_explicit(&http->call_count, 1, memory_order_relaxed);
  lki_lock(http->env, http->synced.lock);
  http->synced.direct_count--;
  bool kept = easy != NULL && transfer->send_count <= 1 && http->synced.idle_count < http->direct_max;
  if (kept) http->synced.idle[http->synced.idle_count++] = easy;
  keep_waiter_locked(http, waiter);
  lki_http_release_locked(http, item, &wakes);
  lki_unlock(http->env, http->synced.lock);
  lki_http_wake_threads(http, wakes);
  if (!kept) curl_easy_cleanup(easy);
}

/* Queues the item and waits until it is over, or admitted to run here. The lock is taken twice in all where
 * there is room at once: many wait for it, and one who loses the processor with it in hand holds them all up.
 */
static lake_status wait_and_run(lki_http *http, lki_http_item *item, bool direct) {
  lake_env *env = http->env;
  lki_http_wakes wakes = 0;
  CURL *easy = NULL;
  bool queued = false, admitted = false;
  lki_lock(env, http->synced.lock);
  lki_http_waiter *waiter = take_waiter_locked(http);
  if (waiter != NULL) {
    item->waiter = waiter;
    item->direct = direct && http->synced.direct_count < http->direct_max;
    queued = lki_http_enqueue_locked(http, item, &wakes);
  }
  if (queued) {
    if (item->direct) http->synced.direct_count++;
    if (wakes != 0) {
      lki_unlock(env, http->synced.lock);
      lki_http_wake_threads(http, wakes);
      lki_lock(env, http->synced.lock);
    }
    /* The engine keeps the deadline. */
    while (!waiter->done && !(item->direct && item->admitted))
      lki_wait(env, waiter->cond, http->synced.lock, LKI_NEVER);
    admitted = !waiter->done;
    if (admitted && http->synced.idle_count > 0) easy = http->synced.idle[--http->synced.idle_count];
    if (item->direct && !admitted) http->synced.direct_count--;
  }
  if (waiter != NULL && !admitted) keep_waiter_locked(http, waiter);
  lki_unlock(env, http->synced.lock);
  if (admitted) run(http, item, easy, waiter);
  return queued ? LAKE_OK : LAKE_NOMEM;
}

lake_status lki_http_do(lki_http *http, const lki_http_request *request, lki_http_reply *reply,
                        lake_error *err) {
  lki_http_item item;
  lki_http_call call;
  call.request = *request;
  call.error = (lake_error)LAKE_ERROR_INIT;
  lake_status s = lki_http_item_open(http, &call, &item);
  if (s == LAKE_OK) {
    s = wait_and_run(http, &item, strncmp(request->url, "http://", 7) == 0);
    if (s == LAKE_OK)
      s = call.status;
    else
      lki_fail(&call.error, s, "HTTP: out of memory");
    lki_http_transfer_close(&item.transfer);
  }
  *reply = call.reply;
  if (s != LAKE_OK) lki_error_copy(err, &call.error);
  return s;
}
