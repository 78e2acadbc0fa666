/* What reclaim costs where objects can be removed together, against the same store asked for them one by one: the orphans of
 * a crashed producer, on a store of one's own. JSON lines; both sides take turns, and the ratios are of medians.
 * usage: bench_reclaim URL [OBJECTS [ROUNDS]]   (2,000 objects, 3 rounds), after `bash tests/servers/rgw.sh start DIR` as
 * tests/servers/use.inc has it */
#include "base/env.h"
#include "client/namespace.h"
#include "support/hook.h"
#include "support/tgbs.h"
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS_MAX 99

typedef struct cost {
  double seconds;
  uint64_t request_count; /* all kinds */
} cost;

static void check(lake_status s, const lake_error *err) {
  if (s == LAKE_OK) return;
  fprintf(stderr, "bench_reclaim: %s\n", err->text);
  exit(1);
}

static uint64_t requests(const lake_store *store) {
  lake_store_stats s;
  lake_store_stats_get(store, &s);
  return s.get_count + s.put_count + s.put_if_absent_count + s.head_count + s.list_count + s.remove_count;
}

static cost reclaim_once(lake_env *env, const char *root, uint32_t object_count, bool together) {
  char url[512];
  lake_error err = LAKE_ERROR_INIT;
  lake_deadline deadline = lake_deadline_after_ms(env, 3600 * 1000);
  snprintf(url, sizeof url, "%s/bench-%016llx", root, (unsigned long long)lki_random_u64(env));
  lake_namespace *ns = tgb_namespace_new(env, url, 64, 64);
  (void)tgb_claim(ns, 1);
  for (uint32_t i = 0; i < object_count; i++) tgb_upload(ns, (tgb_mark){1, 1, i});
  (void)tgb_claim(ns, 1); /* the epoch of those is over */
  lake_namespace_close(ns);
  lake_store *store = NULL;
  check(lake_store_open(env, url, &store, &err), &err);
  lake_store *asked = together ? store : hook_open(env, store, NULL, NULL); /* which forwards each key by itself */
  check(lake_namespace_open_store(env, asked, deadline, &ns, &err), &err);
  const uint64_t before = requests(store), begin_ns = lki_now_ns(env);
  lake_reclaim_report report;
  check(lake_reclaim(ns, NULL, deadline, &report, &err), &err);
  const cost c = {(double)(lki_now_ns(env) - begin_ns) / 1e9, requests(store) - before};
  if (report.tgb_count != object_count) fprintf(stderr, "bench_reclaim: %llu were deleted\n", (unsigned long long)report.tgb_count);
  printf("{\"bench\":\"reclaim\",\"objects\":%u,\"together\":%s,\"requests\":%llu,\"seconds\":%.3f}\n", object_count,
         together ? "true" : "false", (unsigned long long)c.request_count, c.seconds);
  fflush(stdout);
  lake_namespace_close(ns);
  if (asked != store) lake_store_close(asked);
  lake_store_close(store);
  return c;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: bench_reclaim URL [OBJECTS [ROUNDS]]\n");
    return 1;
  }
  const uint32_t object_count = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2000;
  unsigned rounds = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 3;
  if (rounds == 0 || rounds > ROUNDS_MAX) rounds = 3;
  lake_env *env = NULL;
  lake_error err = LAKE_ERROR_INIT;
  check(lake_env_open(NULL, &env, &err), &err);
  double seconds[2][ROUNDS_MAX];
  uint64_t request_count[2] = {0, 0};
  for (unsigned i = 0; i < rounds; i++) {
    for (int together = 0; together < 2; together++) {
      const cost c = reclaim_once(env, argv[1], object_count, together == 1);
      seconds[together][i] = c.seconds;
      request_count[together] = c.request_count;
    }
  }
  for (int i = 0; i < 2; i++) qsort(seconds[i], rounds, sizeof seconds[i][0], by_size);
  printf("{\"bench\":\"reclaim\",\"requests_ratio\":%.4f,\"seconds_ratio\":%.4f}\n",
         (double)request_count[1] / (double)request_count[0], seconds[1][rounds / 2] / seconds[0][rounds / 2]);
  lake_env_close(env);
  return 0;
}
