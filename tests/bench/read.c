/* Bytes fetched over bytes delivered by all ranks of a mesh, small slices: the manifests, segments and frames that
 * ranks read against the slice bytes they were given. Each rank has a handle of its own, as a process would.
 * usage: bench_read [SLICE_BYTES [D [C [STEPS [live]]]]]   (default 102400 16 8 300; "live": ranks follow a producer) */
#include "base/env.h"
#include "support/support.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(lake_status s, const lake_error *err) {
  if (s == LAKE_OK) return;
  fprintf(stderr, "bench_read: %s\n", err->text);
  exit(1);
}

typedef struct rank {
  lake_env *env;
  lake_mesh mesh;
  lake_coords coords;
  uint64_t fetched, delivered, refreshes;
  pthread_t thread;
} rank;

static void *consume(void *arg) {
  rank *r = arg;
  lake_error err = LAKE_ERROR_INIT;
  lake_deadline deadline = lake_deadline_after_ms(r->env, 600 * 1000);
  lake_namespace *ns = NULL;
  check(lake_namespace_open(r->env, "mem:bench", deadline, &ns, &err), &err);
  lake_consumer_options o = LAKE_CONSUMER_OPTIONS_INIT;
  o.coords = r->coords;
  o.io_threads = 1;
  o.prefetch_steps_max = 4;
  lake_consumer *c = NULL;
  check(lake_consumer_open(ns, &o, deadline, &c, &err), &err);
  for (;;) {
    lake_batch batch;
    lake_status s = lake_consumer_next(c, deadline, &batch, &err);
    if (s == LAKE_END) break;
    check(s, &err);
    lake_consumer_release(c, &batch);
  }
  lake_consumer_stats cs;
  lake_consumer_stats_get(c, &cs);
  r->delivered = cs.delivered_bytes;
  r->refreshes = cs.refresh_count;
  lake_consumer_close(c);
  lake_store_stats ss;
  lake_namespace_stats_get(ns, &ss);
  r->fetched = ss.read_bytes;
  lake_namespace_close(ns);
  return NULL;
}

static void produce(lake_env *env, lake_namespace *ns, lake_mesh mesh, size_t slice_bytes, uint64_t steps, bool live) {
  lake_error err = LAKE_ERROR_INIT;
  lake_deadline deadline = lake_deadline_after_ms(env, 600 * 1000);
  lake_producer *p = NULL;
  check(lake_producer_open(ns, "p", NULL, deadline, NULL, &p, &err), &err);
  const uint32_t count = mesh.d_count * mesh.c_count;
  unsigned char *data = malloc(slice_bytes);
  memset(data, 7, slice_bytes);
  lake_bytes *slices = calloc(count, sizeof *slices);
  for (uint32_t i = 0; i < count; i++) slices[i] = (lake_bytes){data, slice_bytes};
  for (uint64_t step = 0; step < steps; step++) {
    check(lake_producer_append(p, slices, count, step + 1, (lake_bytes){NULL, 0}, deadline, &err), &err);
    if (live) lki_sleep_until(env, lki_after_ns(env, 50u * 1000 * 1000));
  }
  check(lake_producer_retire(p, deadline, &err), &err);
  lake_producer_close(p);
  check(lake_namespace_seal(ns, deadline, NULL, &err), &err);
  free(slices);
  free(data);
}

int main(int argc, char **argv) {
  const size_t slice_bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 102400;
  lake_mesh mesh = {argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 16, argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 8};
  const uint64_t steps = argc > 4 ? strtoull(argv[4], NULL, 10) : 300;
  const bool live = argc > 5;
  lake_env *env = NULL;
  lake_error err = LAKE_ERROR_INIT;
  check(lake_env_open(NULL, &env, &err), &err);
  lake_namespace *ns = NULL;
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.mesh = mesh;
  check(lake_namespace_create(env, "mem:bench", &options, lake_deadline_after_ms(env, 60000), &ns, &err), &err);
  const uint32_t count = mesh.d_count * mesh.c_count;
  rank *ranks = calloc(count, sizeof *ranks);
  if (!live) produce(env, ns, mesh, slice_bytes, steps, false);
  for (uint32_t i = 0; i < count; i++) {
    ranks[i] = (rank){.env = env, .mesh = mesh, .coords = {i / mesh.c_count, i % mesh.c_count}};
    pthread_create(&ranks[i].thread, NULL, consume, &ranks[i]);
  }
  if (live) produce(env, ns, mesh, slice_bytes, steps, true);
  uint64_t fetched = 0, delivered = 0, refreshes = 0;
  for (uint32_t i = 0; i < count; i++) {
    pthread_join(ranks[i].thread, NULL);
    fetched += ranks[i].fetched;
    delivered += ranks[i].delivered;
    refreshes += ranks[i].refreshes;
  }
  printf("{\"bench\":\"read\",\"slice_bytes\":%zu,\"mesh\":\"%ux%u\",\"steps\":%llu,\"live\":%s,\"fetched_bytes\":%llu,"
         "\"delivered_bytes\":%llu,\"manifests_per_rank\":%.1f,\"amplification\":%.4f}\n",
         slice_bytes, mesh.d_count, mesh.c_count, (unsigned long long)steps, live ? "true" : "false",
         (unsigned long long)fetched, (unsigned long long)delivered, (double)refreshes / count,
         (double)fetched / (double)delivered);
  free(ranks);
  lake_namespace_close(ns);
  lake_env_close(env);
  return 0;
}
