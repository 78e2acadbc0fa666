/* What the files of the producer share. */
#ifndef LKI_CLIENT_PRODUCER_H
#define LKI_CLIENT_PRODUCER_H

#include "base/env.h"
#include "client/namespace.h"
#include "model/policy.h"
#include <lakestream/producer.h>
#include <stdatomic.h>

#define LKI_UPLOAD_THREADS_MAX 256
#define LKI_PENDING_COUNT_MAX_MAX (1u << 20)


/* A TGB that was appended and is not yet known to be committed. */
typedef struct lki_pending {
  lki_descriptor descriptor;
  lki_arena arena;    /* the descriptor's packed index */
  lake_buffer object; /* freed once durable */
  char *announced; /* key of its announcement, or NULL */
  uint64_t seq;
  uint64_t offset;
  size_t state_bytes;
  unsigned char state[LAKE_PRODUCER_STATE_BYTES_MAX];
  bool durable;
} lki_pending;

/* A key to be removed when there is time. */
typedef struct lki_withdrawal {
  struct lki_withdrawal *next;
  char *key;
} lki_withdrawal;

struct lake_producer {
  lake_env *env;
  lake_namespace *ns;
  char *id;
  char writer[LKI_PRODUCER_ID_BYTES_MAX + 1 + LKI_OWNER_BYTES_MAX];
  uint64_t epoch;
  bool retired; /* the caller's thread only */
  uint64_t upload_bytes_max;
  uint32_t pending_count_max;
  uint32_t upload_thread_count;
  bool carries; /* policy CARRY: announce, and take the others' along */
  lki_thread **upload_threads;
  lki_thread *commit_thread;
  lki_change *change; /* the committer's own: rebuilt before every attempt */
  lki_descriptor *descriptors;
  lki_fenced_search search; /* the committer's own: where the epoch ended, once it is fenced */
  atomic_bool stop; /* closing, for those who do not hold the lock */
  /* Seqs: committed <= durable_end <= upload_next <= next. Ring slot of a seq: seq % pending_count_max. */
  struct {
    lki_mutex *lock;
    lki_cond *work;     /* something to upload or to commit */
    lki_cond *progress; /* something became durable, committed or failed */
    lki_pending **ring;
    uint64_t committed, durable_end, upload_next, next;
    uint64_t own_version; /* the newest version that was seen to have this producer's epoch */
    uint64_t last_offset;
    uint64_t upload_bytes; /* reserved for objects not yet durable */
    uint32_t flush_waiters;
    bool closing;
    lki_policy policy;
    uint64_t last_attempt_ns; /* when the last attempt ended; 0: none yet */
    bool last_lost;
    uint64_t hurry_ns;  /* wait after a lost attempt while somebody flushes */
    uint64_t look_ns;   /* when to see whether others have carried what is announced; 0: never looked */
    uint64_t retry_ns;  /* not before this, after a failure of the store */
    lki_withdrawal *withdrawals; /* announcements of TGBs that are committed */
    lake_error fatal;   /* status OK: none; else nothing goes on */
    bool in_doubt;      /* FENCED, and what is pending may be committed; until a flush has said so */
    lake_error trouble; /* the last failure that is being retried; OK after a success */
    uint64_t trouble_count;
    lake_producer_stats stats;
  } synced;
};

/* announce.c. Tells the others of a durable TGB; best effort: NULL when it could not be. */
char *lki_announce(lake_producer *producer, const lki_pending *pending);
/* What others have announced and `view` would take, in arena. Best effort: what cannot be read is left out. */
lki_cargo lki_collect_cargo(lake_producer *producer, const lki_manifest *view, lki_arena *arena);

void lki_producer_upload_main(void *producer); /* upload.c */
void lki_producer_commit_main(void *producer); /* committer.c */
void lki_pending_free(lake_env *env, lki_pending *pending);

#endif
