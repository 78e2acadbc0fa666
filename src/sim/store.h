/* The simulated object store: what an object store is allowed to do, on a virtual clock. An operation takes
 * base + bytes/bandwidth with jitter, and is applied at one moment within; faults lose requests, replies, order and
 * certainty, never an object that was acknowledged. Create-if-absent is exact. */
#ifndef LKI_SIM_STORE_H
#define LKI_SIM_STORE_H

#include "sim/world.h"
#include "store/store.h"

typedef struct lki_simstore lki_simstore;

typedef struct lki_sim_model {
  uint64_t base_ns;           /* one operation without bytes */
  double bytes_per_s;         /* 0: no limit */
  double jitter;              /* an operation takes 1 to 1 + jitter times as long */
  uint64_t name_gap_ns;       /* writes of one name closer than this are refused (429); 0: no limit */
  uint64_t data_bytes;        /* objects under data/ cost as if they had so many bytes, and are written and forgotten; 0: kept as they are */
  uint64_t entry_bytes;       /* a manifest costs so much for each TGB of lki_simstore_set_entries; 0: its own bytes */
  uint64_t manifests_kept;    /* older ones are forgotten, for runs without readers; 0: all are kept */
} lki_sim_model;

/* Chances per mille, for each operation that it can happen to. */
typedef struct lki_sim_faults {
  unsigned fail_before; /* 5xx or a dropped request: nothing done, UNAVAILABLE; of a removal of many each key, too */
  unsigned lost_reply;  /* done, UNCERTAIN */
  unsigned late;        /* a write: UNCERTAIN, and applied up to late_ns_max later */
  unsigned duplicate;   /* a write: done, and applied once more later */
  unsigned undecided;   /* a conditional put: 409, nothing done, UNCERTAIN */
  unsigned slow;        /* takes up to twice late_ns_max longer: past the caller's patience, now and then */
  uint64_t late_ns_max;
} lki_sim_faults;

typedef struct lki_sim_counts {
  uint64_t get, put, put_if_absent, head, list, remove;
  uint64_t remove_many;    /* of those in remove: removals of many */
  uint64_t remove_part;    /* of those: with a key left, for whatever reason */
  uint64_t taken;          /* conditional puts that found the name taken */
  uint64_t written_bytes, read_bytes;
  uint64_t fired[6];       /* faults, in the order of lki_sim_faults */
} lki_sim_counts;

/* What the store tells a checker, at the moment an operation is applied. body is NULL for data objects not kept. */
typedef struct lki_sim_observer {
  void (*written)(void *ctx, const char *key, lake_bytes body, bool existed);
  void (*removed)(void *ctx, const char *key);
  void *ctx;
} lki_sim_observer;

lki_simstore *lki_simstore_new(lki_world *world, const lki_sim_model *model);
void lki_simstore_free(lki_simstore *store);
void lki_simstore_observe(lki_simstore *store, lki_sim_observer observer);
void lki_simstore_set_faults(lki_simstore *store, const lki_sim_faults *faults); /* NULL: none from now on */
/* A connection for a process, to be closed with lake_store_close. */
lake_status lki_simstore_connect(lki_simstore *store, lki_process *process, lake_store **out, lake_error *err);
/* How many TGBs the newest manifest lists, where entry_bytes prices them. */
void lki_simstore_set_entries(lki_simstore *store, uint64_t count);
bool lki_simstore_has(lki_simstore *store, const char *key);
/* An object as it stands, borrowed until the next write; false: there is none. For checkers: costs nothing. */
bool lki_simstore_peek(lki_simstore *store, const char *key, lake_bytes *body);
uint64_t lki_simstore_object_count(lki_simstore *store);
const lki_sim_counts *lki_simstore_counts(const lki_simstore *store);
/* One line an applied or answered operation; NULL: none. */
void lki_simstore_trace(lki_simstore *store, void (*line)(void *ctx, const char *text), void *ctx);

#endif
