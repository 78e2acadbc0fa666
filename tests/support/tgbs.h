/* TGBs made one by one and without threads: real objects and real commits of which a test chooses every moment. The
 * namespaces have a 1 by 1 mesh; a slice says its producer's number, epoch and seq. */
#ifndef LAKE_TESTS_TGBS_H
#define LAKE_TESTS_TGBS_H

#include "client/namespace.h"
#include "support/support.h"

typedef struct tgb_mark {
  uint32_t producer; /* "p<number>" */
  uint32_t epoch;
  uint64_t seq;
} tgb_mark;

typedef struct tgb_totals {
  uint64_t count, bytes; /* of objects */
} tgb_totals;

/* A namespace on "mem:NAME" with these tail_max and version_block. */
lake_namespace *tgb_namespace_new(lake_env *env, const char *url, uint32_t tail_max, uint32_t version_block);
lake_namespace *tgb_namespace_open(lake_env *env, const char *url);

uint64_t tgb_claim(lake_namespace *ns, uint32_t producer); /* the epoch */
/* Makes the object durable; the descriptor's length goes with the mark. */
void tgb_upload(lake_namespace *ns, tgb_mark mark);
/* Commits `count` uploaded TGBs from mark on. */
lake_status tgb_commit(lake_namespace *ns, tgb_mark mark, uint32_t count, lake_error *err);
void tgb_append(lake_namespace *ns, tgb_mark mark); /* both, asserted */

/* Reads a step by a fresh look at the newest version. */
lake_status tgb_read(lake_namespace *ns, uint64_t step, tgb_mark *mark, lake_error *err);
/* Every live step can be read, is the mark that `marks` (indexed by step, next_step of them) says, and none is
 * missing; returns the first live step. */
uint64_t tgb_check_all(lake_namespace *ns, const tgb_mark *marks, uint64_t next_step);

/* A cursor at a step, pinned as checkpoint `name` of group "g". */
lake_status tgb_pin(lake_namespace *ns, const char *name, uint64_t step, lake_deadline deadline, lake_error *err);
void tgb_unpin(lake_namespace *ns, const char *name);

tgb_totals tgb_count_objects(lake_namespace *ns, const char *prefix);

#endif
