/* What the files of the consumer share. */
#ifndef LKI_CLIENT_CONSUMER_H
#define LKI_CLIENT_CONSUMER_H

#include "base/env.h"
#include "client/namespace.h"
#include "client/steps.h"
#include "tgb/tgb.h"
#include <lakestream/consumer.h>

#define LKI_IO_THREADS_MAX 256
#define LKI_PREFETCH_STEPS_MAX_MAX 65536u

#define LKI_POLL_NS_MIN ((uint64_t)5 * 1000 * 1000)
#define LKI_POLL_NS_MAX ((uint64_t)1000 * 1000 * 1000)

typedef enum lki_slot_stage {
  LKI_SLOT_EMPTY = 0,
  LKI_SLOT_FETCHING = 1,
  LKI_SLOT_READY = 2,
  LKI_SLOT_FAILED = 3
} lki_slot_stage;

/* One step of the prefetch window. */
typedef struct lki_slot {
  lki_slot_stage stage;
  uint64_t step;
  uint64_t reserved_bytes; /* of the budget */
  lki_slice slice;
  char name[LKI_NAME_BYTES]; /* of the TGB, once it is known */
  bool reported;    /* FAILED: the caller has been told */
  lake_error error; /* FAILED: final; FETCHING: the last failure that is being retried, if any */
} lki_slot;

/* A batch that the caller holds. */
typedef struct lki_held {
  struct lki_held *next, *previous;
  lki_slice slice;
  uint64_t reserved_bytes;
  lake_tensor tensors[]; /* as many as the schema has */
} lki_held;

struct lake_consumer {
  lake_env *env;
  lake_namespace *ns;
  lki_steps *steps;
  char *rank_label;
  uint32_t slice;           /* d*C + c */
  uint64_t rows_per_step;
  uint64_t prefetch_bytes_max;
  uint32_t window;          /* slots */
  uint32_t thread_count;
  lki_thread **threads;
  /* deliver <= fetch <= deliver + window. Slot of a step: step % window. */
  struct {
    lki_mutex *lock;
    lki_cond *work;     /* room, or new steps, or the time to poll */
    lki_cond *progress; /* a slot changed, or the end is known */
    lki_manifest *view;
    lki_slot *slots;
    uint64_t deliver;   /* next step for the caller */
    uint64_t fetch;     /* next step to be taken by a thread */
    uint64_t used_bytes;/* reserved by slots and held batches */
    bool polling;       /* one thread at a time looks for a new version */
    uint64_t poll_ns;   /* current interval */
    uint64_t poll_at_ns;
    lake_error trouble; /* of the last poll; OK after a success */
    bool closing;
    lki_held *held;
    lake_consumer_stats stats;
  } synced;
};

/* prefetch.c */
void lki_consumer_io_main(void *consumer);
/* One try to fill a slot, which is FETCHING and the caller's; it is READY or FAILED afterwards, or still FETCHING if
 * the failure may pass. Called and returns with the lock held, which it drops meanwhile. */
lake_status lki_consumer_fetch_locked(lake_consumer *consumer, lki_slot *slot, lake_deadline deadline);

#endif
