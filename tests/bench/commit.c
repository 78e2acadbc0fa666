/* Bytes that a commit writes, with its share of sealed segments, as the history grows: one TGB a commit, through the
 * real log on a mem: store. Prints one JSON line a point and the ratio of the last point to the first.
 * usage: bench_commit [STEPS [PRODUCERS]]   (default 102,000 steps, 4 producers) */
#include "base/env.h"
#include "client/namespace.h"
#include "format/names.h"
#include "support/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 1000u /* commits averaged at a point */

static void check(lake_status s, const lake_error *err) {
  if (s == LAKE_OK) return;
  fprintf(stderr, "bench_commit: %s\n", err->text);
  exit(1);
}

/* Old versions are dropped as reclaim will do, or a million of them would not fit into memory. */
static void drop_old(lake_namespace *ns, uint64_t version, lake_deadline deadline) {
  char name[LKI_NAME_BYTES];
  if (version < 64) return;
  lki_name_manifest(name, version - 64);
  lake_error err = LAKE_ERROR_INIT;
  check(lki_store_remove(ns->store, name, deadline, &err), &err);
}

int main(int argc, char **argv) {
  const uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 102000;
  const uint32_t producers = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 4;
  lake_env *env = NULL;
  lake_error err = LAKE_ERROR_INIT;
  check(lake_env_open(NULL, &env, &err), &err);
  lake_deadline deadline = lake_deadline_after_ms(env, 3600 * 1000);
  lake_namespace *ns = NULL;
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.mesh = (lake_mesh){16, 8};
  check(lake_namespace_create(env, "mem:bench", &options, deadline, &ns, &err), &err);
  lki_commit_result result;
  char ids[64][24];
  for (uint32_t i = 0; i < producers; i++) {
    snprintf(ids[i], sizeof ids[i], "producer-%u", i);
    lki_change claim = {.kind = LKI_CHANGE_CLAIM, .producer_id = ids[i], .owner = "host:1"};
    check(lki_log_commit(ns->log, &claim, ids[i], deadline, &result, &err), &err);
    lki_manifest_release(result.manifest);
  }
  lki_descriptor d = {.epoch = 1, .slice_count = 128, .footer_bytes = 300, .layout = LKI_LAYOUT_UNIFORM,
                      .frame_bytes = 100064};
  d.object_bytes = LKI_TGB_HEADER_BYTES + 128 * ((d.frame_bytes + 63) / 64 * 64) + d.footer_bytes;
  lake_store_stats before = {0};
  double first = 0, last = 0;
  uint64_t begin_ns = 0;
  for (uint64_t step = 0; step < steps; step++) {
    if (step % WINDOW == 0) {
      lake_namespace_stats_get(ns, &before);
      begin_ns = lki_now_ns(env);
    }
    const uint64_t seq = step / producers;
    const char *id = ids[step % producers];
    d.seq = seq;
    lki_change append = {.kind = LKI_CHANGE_APPEND, .producer_id = id, .epoch = 1, .first_seq = seq,
                         .descriptor_count = 1, .descriptors = &d, .offset = seq + 1, .state = {"state", 5}};
    check(lki_log_commit(ns->log, &append, id, deadline, &result, &err), &err);
    drop_old(ns, result.manifest->version, deadline);
    lki_manifest_release(result.manifest);
    if (step % WINDOW != WINDOW - 1) continue;
    const uint64_t point = step + 1 - WINDOW;
    if (point != 1000 && point != 10000 && point != 100000 && point != 999000 && step + 1 != steps) continue;
    lake_store_stats after;
    lake_namespace_stats_get(ns, &after);
    last = (double)(after.written_bytes - before.written_bytes) / WINDOW;
    if (first == 0) first = last;
    printf("{\"bench\":\"commit\",\"step\":%llu,\"producers\":%u,\"bytes_per_commit\":%.1f,\"us_per_commit\":%.1f}\n",
           (unsigned long long)point, producers, last, (double)(lki_now_ns(env) - begin_ns) / 1e3 / WINDOW);
    fflush(stdout);
  }
  printf("{\"bench\":\"commit\",\"ratio_last_to_first\":%.3f}\n", last / first);
  lake_namespace_close(ns);
  lake_env_close(env);
  return 0;
}
