/* The I/O threads: each owns a multi handle and the transfers in it, takes what it is given from its inbox,
 * and sleeps in epoll. libcurl says which sockets it waits for and when it wants to be called by itself, so
 * that one event costs the same however many transfers there are. The first thread also ends calls that wait
 * in vain. */
#include "base/env.h"
#include "store/http_inner.h"
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SLEEP_MS_MAX 60000
#define EVENTS_MAX 64

static void count(atomic_uint_fast64_t *counter, uint64_t n) {
  atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* One who waits gets the call back when nothing of it is needed here any more. */
static void complete_waited(lki_http_item *item) {
  lki_http *http = item->http;
  lki_http_waiter *waiter = item->waiter;
  lki_http_wakes wakes = 0;
  lki_lock(http->env, http->synced.lock);
  if (item->io != NULL) item->io->load--;
  lki_http_release_locked(http, item, &wakes);
  waiter->done = true;
  lki_signal(http->env, waiter->cond);
  lki_unlock(http->env, http->synced.lock);
  lki_http_wake_threads(http, wakes);
}

static void complete(lki_http_item *item) {
  lki_http *http = item->http;
  lki_http_call *call = item->transfer.call;
  lki_http_transfer_close(&item->transfer);
  count(&http->call_count, 1);
  if (item->waiter != NULL) {
    complete_waited(item);
    return;
  }
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

void lki_http_count_connections(const lki_http_item *item) {
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
  lki_http_count_connections(item);
  leave(io, item);
  lki_http_transfer_end(&item->transfer, code);
  keep_easy(io, easy, item);
  complete(item);
}

static void stop(lki_http_io *io, lki_http_item *item, bool passed) {
  CURL *easy = item->transfer.easy;
  lki_http_count_connections(item);
  leave(io, item);
  lki_http_transfer_stop(&item->transfer, LAKE_TIMEOUT, passed ? lki_http_late_text(item) : "the request was cancelled");
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

/* Until then, in milliseconds and not earlier. */
static int ms_until(lake_env *env, uint64_t at_ns, int ms_max) {
  if (at_ns == LKI_NEVER) return ms_max;
  uint64_t now_ns = lki_now_ns(env);
  uint64_t ms = at_ns > now_ns ? (at_ns - now_ns + 999999) / 1000000u : 0;
  return ms < (uint64_t)ms_max ? (int)ms : ms_max;
}

/* How long to sleep; 0: something came meanwhile. */
static int sleep_ms(lki_http_io *io) {
  lki_http *http = io->http;
  int ms = ms_until(http->env, io->timer_at_ns, SLEEP_MS_MAX);
  lki_lock(http->env, http->synced.lock);
  bool first = io == &http->threads[0];
  bool left = http->synced.closing && (!first || http->synced.threads_left == 1 || io->running.first != NULL);
  if (io->inbox.first != NULL || io->marked || left || (first && http->synced.sweep)) {
    ms = 0;
  } else {
    io->asleep = true;
    if (first) ms = ms_until(http->env, http->synced.sweep_at_ns, ms);
  }
  lki_unlock(http->env, http->synced.lock);
  return ms;
}

/* ---- libcurl's sockets and timer ---- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known) {
  lki_http_io *io = ctx;
  (void)easy;
  struct epoll_event event = {.data.fd = fd};
  if (what == CURL_POLL_REMOVE) {
    epoll_ctl(io->epoll_fd, EPOLL_CTL_DEL, fd, &event);
    curl_multi_assign(io->multi, fd, NULL);
    return 0;
  }
  if ((what & CURL_POLL_IN) != 0) event.events |= EPOLLIN;
  if ((what & CURL_POLL_OUT) != 0) event.events |= EPOLLOUT;
  int rc = epoll_ctl(io->epoll_fd, known != NULL ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
  /* A number that was closed and came back, or that libcurl has two transfers on. */
  if (rc != 0) rc = epoll_ctl(io->epoll_fd, errno == EEXIST ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
  curl_multi_assign(io->multi, fd, io);
  return rc;
}

static int on_timer(CURLM *multi, long ms, void *ctx) {
  lki_http_io *io = ctx;
  (void)multi;
  io->timer_at_ns = ms < 0 ? LKI_NEVER : lki_after_ns(io->http->env, (uint64_t)ms * 1000000u);
  return 0;
}

bool lki_http_io_open(lki_http_io *io, lki_http *http) {
  io->http = http;
  io->timer_at_ns = LKI_NEVER;
  io->multi = curl_multi_init();
  io->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  io->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (io->multi == NULL || io->epoll_fd < 0 || io->wake_fd < 0) return false;
  struct epoll_event event = {.events = EPOLLIN, .data.fd = io->wake_fd};
  return epoll_ctl(io->epoll_fd, EPOLL_CTL_ADD, io->wake_fd, &event) == 0 &&
         curl_multi_setopt(io->multi, CURLMOPT_SOCKETFUNCTION, on_socket) == CURLM_OK &&
         curl_multi_setopt(io->multi, CURLMOPT_SOCKETDATA, io) == CURLM_OK &&
         curl_multi_setopt(io->multi, CURLMOPT_TIMERFUNCTION, on_timer) == CURLM_OK &&
         curl_multi_setopt(io->multi, CURLMOPT_TIMERDATA, io) == CURLM_OK &&
         curl_multi_setopt(io->multi, CURLMOPT_MAXCONNECTS, (long)http->options.per_host_max) == CURLM_OK;
}

void lki_http_io_close(lki_http_io *io) {
  if (io->multi != NULL) curl_multi_cleanup(io->multi);
  if (io->wake_fd >= 0) close(io->wake_fd);
  if (io->epoll_fd >= 0) close(io->epoll_fd);
}

void lki_http_io_wake(lki_http_io *io) {
  const uint64_t one = 1;
  ssize_t n =
      write(io->wake_fd, &one, sizeof one); /* fails only when it has been written to so often already */
  (void)n;
}

static void sleep_and_act(lki_http_io *io, int ms) {
  struct epoll_event events[EVENTS_MAX];
  int left = 0;
  int count = epoll_wait(io->epoll_fd, events, EVENTS_MAX, ms);
  for (int i = 0; i < count; i++) {
    int fd = events[i].data.fd, what = 0;
    if (fd == io->wake_fd) {
      uint64_t wakes;
      ssize_t n = read(fd, &wakes, sizeof wakes);
      (void)n;
      continue;
    }
    if ((events[i].events & EPOLLIN) != 0) what |= CURL_CSELECT_IN;
    if ((events[i].events & EPOLLOUT) != 0) what |= CURL_CSELECT_OUT;
    if ((events[i].events & (EPOLLERR | EPOLLHUP)) != 0) what |= CURL_CSELECT_ERR;
    curl_multi_socket_action(io->multi, fd, what, &left);
  }
  if (io->timer_at_ns != LKI_NEVER && lki_now_ns(io->http->env) >= io->timer_at_ns) {
    io->timer_at_ns = LKI_NEVER;
    curl_multi_socket_action(io->multi, CURL_SOCKET_TIMEOUT, 0, &left);
  }
}

void lki_http_io_main(void *arg) {
  lki_http_io *io = arg;
  while (take_orders(io)) {
    sleep_and_act(io, sleep_ms(io));
    int left = 0;
    for (CURLMsg *message; (message = curl_multi_info_read(io->multi, &left)) != NULL;) {
      if (message->msg != CURLMSG_DONE) continue;
      CURLcode code = message->data.result;
      void *transfer = NULL;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
      end(io, transfer, code);
    }
  }
  while (io->idle_count > 0) curl_easy_cleanup(io->idle[--io->idle_count]);
}
