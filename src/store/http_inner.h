/* What the engine's files share: http.c (opening, submission), http_queue.c (who waits and who is admitted),
 * http_io.c (the I/O threads).
 *
 * A call waits in its host's queue until it is admitted; then it belongs to one I/O thread, which alone
 * touches its transfer until done(). One lock guards the queues, the sums and the marks on items; libcurl is
 * never called under it, and neither is done(). Functions that end in _locked want it held. */
#ifndef LKI_STORE_HTTP_INNER_H
#define LKI_STORE_HTTP_INNER_H

#include "store/http_transfer.h"
#include <stdatomic.h>

#define LKI_HTTP_THREADS_MAX 32
#define LKI_HTTP_IDLE_MAX 256 /* of one thread */
#define LKI_HTTP_DIRECT_MAX                                                                                  \
  64 /* transfers on their callers' threads: libcurl opens three descriptors for each */

#define LKI_HTTP_LATE                                                                                        \
  "the deadline passed while it waited for its turn; raise the limit of requests in flight, or the deadline"

typedef struct lki_http_host lki_http_host;
typedef struct lki_http_io lki_http_io;

typedef struct lki_http_item {
  lki_http_transfer transfer; /* first: the transfer's callbacks lead back to the item */
  lki_http *http;
  lki_http_host *host;
  lki_http_io *io;                   /* once admitted */
  struct lki_http_item *prev, *next; /* in a queue, an inbox, or among the running */
  uint64_t order;
  bool admitted;
  bool cancelled;
  struct lki_http_waiter *waiter; /* of lki_http_do(), whose stack the item is on; NULL: it was submitted */
  bool direct;                    /* and whose thread runs the transfer */
  bool running;                   /* in the multi handle */
} lki_http_item;

typedef struct lki_http_list {
  lki_http_item *first, *last;
} lki_http_list;

struct lki_http_host {
  lki_http_host *next;
  lki_http_list queue;
  uint32_t in_flight;
  uint64_t item_count; /* that lead to it: waiting, running, or being ended */
  size_t origin_bytes;
  char origin[]; /* "https://host:port" */
};

struct lki_http_io {
  lki_http *http;
  lki_thread *thread;
  CURLM *multi;
  int epoll_fd, wake_fd;
  uint64_t timer_at_ns;          /* when libcurl wants to be called; the thread's own */
  lki_http_list running;         /* the thread's own */
  CURL *idle[LKI_HTTP_IDLE_MAX]; /* likewise */
  size_t idle_count;
  /* Under the lock. */
  lki_http_list inbox;
  uint32_t load;
  bool asleep; /* or about to be: has to be woken */
  bool marked; /* some item of it was cancelled */
};

/* One who waits, under the engine's lock. Kept for the next. */
typedef struct lki_http_waiter {
  struct lki_http_waiter *next;
  lki_http *http;
  lki_cond *cond;
  bool done;
} lki_http_waiter;

struct lki_http {
  lake_env *env;
  lki_http_options options;
  char *ca_file;
  CURLSH *share;
  lki_mutex *share_locks[CURL_LOCK_DATA_LAST];
  lki_http_io *threads;
  uint32_t thread_count;
  uint32_t direct_max; /* transfers on their callers' threads at once, and handles kept for them */
  atomic_uint_fast64_t call_count, connection_count, reused_count;
  struct {
    lki_mutex *lock;
    lki_http_host *hosts;
    uint64_t order;
    uint64_t in_flight_count, in_flight_bytes, in_flight_bytes_peak;
    uint64_t sweep_at_ns; /* no waiting call's deadline is earlier */
    bool sweep;           /* a waiting call was cancelled */
    bool closing;
    uint32_t threads_left;
    lki_http_waiter *waiters;
    uint32_t direct_count; /* transfers on their callers' threads, or that will be */
    CURL
        *idle[LKI_HTTP_DIRECT_MAX]; /* their handles, each with its connections: the last used is used next */
    size_t idle_count;
  } synced;
};

/* The threads to wake once the lock is released, one bit each. */
typedef uint32_t lki_http_wakes;

static inline void lki_http_list_push(lki_http_list *list, lki_http_item *item) {
  item->next = NULL;
  item->prev = list->last;
  if (list->last != NULL)
    list->last->next = item;
  else
    list->first = item;
  list->last = item;
}

static inline void lki_http_list_remove(lki_http_list *list, lki_http_item *item) {
  if (item->prev != NULL)
    item->prev->next = item->next;
  else
    list->first = item->next;
  if (item->next != NULL)
    item->next->prev = item->prev;
  else
    list->last = item->prev;
  item->prev = item->next = NULL;
}

static inline lki_http_item *lki_http_list_pop(lki_http_list *list) {
  lki_http_item *item = list->first;
  if (item != NULL) lki_http_list_remove(list, item);
  return item;
}

/* ---- http.c ---- */

/* Checks the call and makes the item ready to be queued. On failure call->error is set, and there is nothing
 * to close. */
lake_status lki_http_item_open(lki_http *http, lki_http_call *call, lki_http_item *item);

/* ---- http_queue.c ---- */

/* Puts the item into its host's queue, and on to a thread if there is room. False: no memory. */
bool lki_http_enqueue_locked(lki_http *http, lki_http_item *item, lki_http_wakes *wakes);
/* Moves waiting calls to the inboxes of threads, as far as there is room. */
void lki_http_admit_locked(lki_http *http, lki_http_wakes *wakes);
/* Gives back what the item was charged, and lets others in. */
void lki_http_release_locked(lki_http *http, lki_http_item *item, lki_http_wakes *wakes);
/* Takes calls that wait in vain out of the queues. */
void lki_http_sweep_locked(lki_http *http, lki_http_list *passed, lki_http_list *cancelled);
void lki_http_charge(lki_http_transfer *transfer, uint64_t bytes);
void lki_http_wake_locked(lki_http_io *io, lki_http_wakes *wakes);
void lki_http_wake_threads(lki_http *http, lki_http_wakes wakes);

/* ---- http_do.c ---- */

uint32_t lki_http_do_count_max(void); /* transfers on their callers' threads: LKI_HTTP_DIRECT_MAX, or fewer */
void lki_http_do_close(lki_http *http); /* what waiting calls have left behind */

/* ---- http_io.c ---- */

void lki_http_count_connections(const lki_http_item *item);

/* On failure lki_http_io_close() still has to be called. */
bool lki_http_io_open(lki_http_io *io, lki_http *http);
void lki_http_io_close(lki_http_io *io);
void lki_http_io_wake(lki_http_io *io); /* any thread */
void lki_http_io_main(void *arg);       /* of a lki_http_io */

#endif
