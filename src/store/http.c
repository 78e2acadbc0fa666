/* The engine as its users see it: open, submit, cancel, wait, close. Queues and threads are in http_queue.c
 * and http_io.c, a single transfer in http_transfer.c; http_inner.h says how they share. */
#include "store/http.h"
#include "base/env.h"
#include "base/error.h"
#include "store/http_inner.h"
#include <assert.h>
#include <string.h>

/* ---- submission ---- */

/* A call that never got as far as a queue. */
static void fail_now(lki_http_call *call, lake_status status) {
  memset(&call->reply, 0, sizeof call->reply);
  call->inner = NULL;
  call->status = status;
  call->done(call);
}

lake_status lki_http_item_open(lki_http *http, lki_http_call *call, lki_http_item *item) {
  memset(item, 0, sizeof *item);
  memset(&call->reply, 0, sizeof call->reply);
  lake_status s = lki_check_process(http->env, "the store", &call->error);
  if (s == LAKE_OK) s = lki_http_transfer_open(&item->transfer, http->env, call, &call->error);
  item->http = http;
  item->transfer.charge = lki_http_charge;
  return s;
}

void lki_http_submit(lki_http *http, lki_http_call *call) {
  lake_env *env = http->env;
  lki_http_item *item = lki_alloc(env, sizeof *item);
  if (item == NULL) {
    fail_now(call, lki_fail(&call->error, LAKE_NOMEM, "HTTP: out of memory"));
    return;
  }
  lake_status s = lki_http_item_open(http, call, item);
  if (s == LAKE_OK) {
    lki_http_wakes wakes = 0;
    lki_lock(env, http->synced.lock);
    bool queued = lki_http_enqueue_locked(http, item, &wakes);
    lki_unlock(env, http->synced.lock);
    lki_http_wake_threads(http, wakes);
    if (queued) return;
    lki_http_transfer_close(&item->transfer);
    s = lki_fail(&call->error, LAKE_NOMEM, "HTTP: out of memory");
  }
  lki_free(env, item);
  fail_now(call, s);
}

void lki_http_cancel(lki_http *http, lki_http_call *call) {
  if (lki_check_process(http->env, "", NULL) != LAKE_OK) return;
  lki_http_wakes wakes = 0;
  lki_lock(http->env, http->synced.lock);
  lki_http_item *item = call->inner;
  if (item != NULL) {
    item->cancelled = true;
    if (item->io != NULL)
      item->io->marked = true;
    else
      http->synced.sweep = true;
    lki_http_wake_locked(item->io != NULL ? item->io : &http->threads[0], &wakes);
  }
  lki_unlock(http->env, http->synced.lock);
  lki_http_wake_threads(http, wakes);
}

void lki_http_stats_get(const lki_http *http, lki_http_stats *stats) {
  lki_http *h = (lki_http *)(uintptr_t)http; /* only its lock and its counters are touched */
  stats->call_count = atomic_load_explicit(&h->call_count, memory_order_relaxed);
  stats->connection_count = atomic_load_explicit(&h->connection_count, memory_order_relaxed);
  stats->reused_count = atomic_load_explicit(&h->reused_count, memory_order_relaxed);
  lki_lock(h->env, h->synced.lock);
  stats->in_flight_bytes_peak = h->synced.in_flight_bytes_peak;
  lki_unlock(h->env, h->synced.lock);
}

/* ---- open and close ---- */

static void share_lock(CURL *easy, curl_lock_data what, curl_lock_access access, void *ctx) {
  lki_http *http = ctx;
  (void)easy, (void)access;
  lki_lock(http->env, http->share_locks[what]);
}

static void share_unlock(CURL *easy, curl_lock_data what, void *ctx) {
  lki_http *http = ctx;
  (void)easy;
  lki_unlock(http->env, http->share_locks[what]);
}

/* Names and TLS sessions are shared between the threads; connections must not be. */
static bool open_share(lki_http *http) {
  http->share = curl_share_init();
  if (http->share == NULL) return false;
  for (size_t i = 0; i < CURL_LOCK_DATA_LAST; i++) {
    http->share_locks[i] = lki_mutex_open(http->env);
    if (http->share_locks[i] == NULL) return false;
  }
  return curl_share_setopt(http->share, CURLSHOPT_USERDATA, http) == CURLSHE_OK &&
         curl_share_setopt(http->share, CURLSHOPT_LOCKFUNC, share_lock) == CURLSHE_OK &&
         curl_share_setopt(http->share, CURLSHOPT_UNLOCKFUNC, share_unlock) == CURLSHE_OK &&
         curl_share_setopt(http->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS) == CURLSHE_OK &&
         curl_share_setopt(http->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION) == CURLSHE_OK;
}

static void set_options(lki_http_options *to, const lki_http_options *from) {
  if (from != NULL) *to = *from;
  if (to->thread_count == 0) to->thread_count = 2;
  if (to->thread_count > LKI_HTTP_THREADS_MAX) to->thread_count = LKI_HTTP_THREADS_MAX;
  if (to->per_host_max == 0) to->per_host_max = 256;
  if (to->in_flight_bytes_max == 0) to->in_flight_bytes_max = (uint64_t)256 << 20;
  if (to->connect_ms == 0) to->connect_ms = 10000;
  if (to->stall_ms == 0) to->stall_ms = 30000;
  if (to->connect_ms > INT32_MAX) to->connect_ms = INT32_MAX;
  if (to->stall_ms > INT32_MAX) to->stall_ms = INT32_MAX;
}

static bool open_threads(lki_http *http) {
  http->threads = lki_new(http->env, http->options.thread_count * sizeof *http->threads);
  if (http->threads == NULL) return false;
  for (uint32_t i = 0; i < http->options.thread_count; i++) {
    lki_http_io *io = &http->threads[i];
    http->thread_count++;
    if (!lki_http_io_open(io, http)) return false;
  }
  /* Only now: a thread looks at all of them. */
  for (uint32_t i = 0; i < http->thread_count; i++) {
    lki_http_io *io = &http->threads[i];
    io->thread = lki_thread_start(http->env, "lake-http", lki_http_io_main, io);
    if (io->thread == NULL) return false;
    lki_lock(http->env, http->synced.lock);
    http->synced.threads_left++;
    lki_unlock(http->env, http->synced.lock);
  }
  return true;
}

lake_status lki_http_open(lake_env *env, const lki_http_options *options, lki_http **out, lake_error *err) {
  /* Counts its callers and is safe from any thread since libcurl 7.84. There is no clean-up: names may still
   * be being looked up by threads that libcurl has let go. */
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return lki_fail(err, LAKE_UNSUPPORTED, "HTTP: libcurl cannot be started");
  lki_http *http = lki_new(env, sizeof *http);
  if (http == NULL) return lki_fail(err, LAKE_NOMEM, "HTTP: out of memory");
  http->env = env;
  set_options(&http->options, options);
  http->direct_max = lki_http_do_count_max();
  http->synced.sweep_at_ns = LKI_NEVER;
  http->synced.lock = lki_mutex_open(env);
  if (http->options.ca_file != NULL) {
    http->ca_file = lki_strdup(env, http->options.ca_file);
    http->options.ca_file = http->ca_file;
  }
  bool ok =
      http->synced.lock != NULL && (options == NULL || options->ca_file == NULL || http->ca_file != NULL);
  if (!ok || !open_share(http) || !open_threads(http)) {
    lki_http_close(http);
    return lki_fail(err, LAKE_NOMEM, "HTTP: no memory, or no threads to be had");
  }
  if (http->options.insecure)
    lki_note(env, LAKE_LOG_WARN,
             "HTTP: certificates are not verified: anybody on the way can read and change all");
  *out = http;
  return LAKE_OK;
}

void lki_http_close(lki_http *http) {
  if (http == NULL || lki_check_process(http->env, "", NULL) != LAKE_OK) return;
  lake_env *env = http->env;
  if (http->synced.lock != NULL) {
    lki_lock(env, http->synced.lock);
    http->synced.closing = true;
    for (uint32_t i = 0; i < http->thread_count; i++) http->threads[i].asleep = false;
    lki_unlock(env, http->synced.lock);
  }
  for (uint32_t i = 0; i < http->thread_count; i++) lki_http_io_wake(&http->threads[i]);
  for (uint32_t i = http->thread_count; i-- > 0;) lki_thread_join(env, http->threads[i].thread);
  for (uint32_t i = 0; i < http->thread_count; i++) lki_http_io_close(&http->threads[i]);
  lki_free(env, http->threads);
  lki_http_do_close(http);
  if (http->share != NULL) curl_share_cleanup(http->share);
  for (size_t i = 0; i < CURL_LOCK_DATA_LAST; i++) lki_mutex_close(env, http->share_locks[i]);
  assert(http->synced.hosts == NULL);
  lki_mutex_close(env, http->synced.lock);
  lki_free(env, http->ca_file);
  lki_free(env, http);
}
