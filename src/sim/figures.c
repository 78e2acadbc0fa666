/* Figures: producers as actors, an observer that times every commit. No faults: what is measured is the policy. */
#include "sim/figures.h"
#include "base/error.h"
#include "client/namespace.h"
#include "format/names.h"
#include "model/policy.h"
#include "tgb/tgb.h"
#include <inttypes.h>
#include <lakestream/lakestream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uthash.h>

#define SECOND 1000000000.0
#define PENDING_MAX 60000u /* TGBs that the loop of Algorithm 1 takes into one commit */
#define SAMPLE_EVERY 16u   /* one TGB in so many is timed from upload to commit */
#define EDGE_COMMITS 100u

typedef struct upload { /* a timed TGB that is not visible yet */
  UT_hash_handle hh;
  char key[LKI_NAME_BYTES];
  uint64_t at_ns;
} upload;

typedef struct room {
  const lki_figures_options *o;
  lki_figures *f;
  lki_world *world;
  lki_simstore *store;
  lake_env *env; /* for decoding outside of the processes */
  uint64_t begin_ns, count_ns, end_ns;
  upload *uploads;
  double *visible_s;
  size_t visible_count, visible_capacity;
  uint64_t next_step, hour_tgbs[64], window_tgbs;
  double first_bytes, last_bytes[EDGE_COMMITS];
  uint64_t first_count, commit_count;
} room;

/* --- what the observer sees --- */

static void time_upload(room *r, const char *key) {
  char id[LKI_PRODUCER_ID_BYTES_MAX + 1];
  uint64_t epoch = 0, seq = 0;
  if (!lki_name_tgb_parse(key, id, &epoch, &seq) || seq % SAMPLE_EVERY != 0) return;
  upload *u = calloc(1, sizeof *u);
  if (u == NULL) abort();
  snprintf(u->key, sizeof u->key, "%s", key);
  u->at_ns = lki_world_now_ns(r->world);
  HASH_ADD_STR(r->uploads, key, u);
}

static void time_visible(room *r, const char *key) {
  upload *u = NULL;
  HASH_FIND_STR(r->uploads, key, u);
  if (u == NULL) return;
  if (u->at_ns >= r->count_ns) {
    if (r->visible_count == r->visible_capacity) {
      r->visible_capacity = r->visible_capacity > 0 ? r->visible_capacity * 2 : 1024;
      r->visible_s = realloc(r->visible_s, r->visible_capacity * sizeof *r->visible_s);
      if (r->visible_s == NULL) abort();
    }
    r->visible_s[r->visible_count++] = (double)(lki_world_now_ns(r->world) - u->at_ns) / SECOND;
  }
  HASH_DEL(r->uploads, u);
  free(u);
}

static void count_commit(room *r, const lki_manifest *m, uint64_t added, size_t body_bytes) {
  const uint64_t now_ns = lki_world_now_ns(r->world);
  lki_simstore_set_entries(r->store, m->next_step);
  if (now_ns < r->count_ns || now_ns > r->end_ns) return;
  const double bytes = r->o->full_list ? (double)(r->o->entry_bytes * m->next_step) : (double)body_bytes;
  if (r->first_count < EDGE_COMMITS) {
    r->first_bytes += bytes;
    r->first_count++;
  }
  r->last_bytes[r->commit_count++ % EDGE_COMMITS] = bytes;
  const size_t hour = (size_t)((double)(now_ns - r->count_ns) / SECOND / 3600);
  if (hour < sizeof r->hour_tgbs / sizeof r->hour_tgbs[0]) r->hour_tgbs[hour] += added;
  r->window_tgbs += added;
  r->f->commits++;
}

static void written(void *ctx, const char *key, lake_bytes body, bool existed) {
  room *r = ctx;
  uint64_t version = 0;
  if (existed) return;
  if (strncmp(key, "data/", 5) == 0) {
    time_upload(r, key);
    return;
  }
  if (!lki_name_manifest_parse(key, &version)) return;
  lki_manifest *m = NULL;
  if (lki_manifest_decode(r->env, body, NULL, key, &m, NULL) != LAKE_OK) abort();
  for (uint64_t step = r->next_step; step < m->next_step; step++) {
    const lki_descriptor *d = &m->tail[step - m->tail_first_step];
    if (d->seq % SAMPLE_EVERY != 0) continue;
    char name[LKI_NAME_BYTES];
    lki_name_tgb(name, m->producers[d->producer].id, d->epoch, d->seq);
    time_visible(r, name);
  }
  count_commit(r, m, m->next_step - r->next_step, body.bytes);
  r->next_step = m->next_step;
  lki_manifest_release(m);
}

/* --- producers --- */

static void pace(room *r, lake_env *env, double *next_ns) {
  if (r->o->rate <= 0) return;
  /* Preprocessing takes its time whether or not a commit went on meanwhile: 0.5 to 1.5 times the mean. */
  *next_ns += SECOND / r->o->rate * (0.5 + lki_random_unit(env));
  if (*next_ns > (double)lki_now_ns(env)) lki_sleep_until(env, (uint64_t)*next_ns);
}

static lake_namespace *open_ns(room *r, lki_process *p, lake_store **store) {
  lake_error err = LAKE_ERROR_INIT;
  lake_namespace *ns = NULL;
  if (lki_simstore_connect(r->store, p, store, &err) != LAKE_OK ||
      lake_namespace_open_store(lki_process_env(p), *store, (lake_deadline){LKI_NEVER}, &ns, &err) != LAKE_OK) {
    fprintf(stderr, "lake sim: %s\n", err.text);
    abort();
  }
  return ns;
}

static void name_producer(const room *r, const uint32_t *number, char id[24]) {
  (void)r;
  snprintf(id, 24, "producer-%03u", *number);
}

/* The library's client: uploads and commits go on behind append. */
static void client_main(room *r, lki_process *p, const uint32_t *number) {
  lake_env *env = lki_process_env(p);
  lake_error err = LAKE_ERROR_INIT;
  lake_store *store = NULL;
  lake_namespace *ns = open_ns(r, p, &store);
  char id[24];
  name_producer(r, number, id);
  lake_producer_options o = LAKE_PRODUCER_OPTIONS_INIT;
  o.policy = r->o->policy;
  o.epsilon = r->o->epsilon;
  o.delta = r->o->delta;
  o.alpha = r->o->alpha;
  o.rho = r->o->rho;
  o.upload_threads = 2;
  lake_producer *producer = NULL;
  lake_deadline never = {LKI_NEVER};
  if (lake_producer_open(ns, id, &o, never, NULL, &producer, &err) != LAKE_OK) {
    fprintf(stderr, "lake sim: %s\n", err.text);
    abort();
  }
  double next_ns = (double)lki_now_ns(env);
  lake_bytes slice = {id, strlen(id)};
  for (uint64_t offset = 1; lki_now_ns(env) < r->end_ns; offset++) {
    pace(r, env, &next_ns);
    (void)lake_producer_append(producer, &slice, 1, offset, (lake_bytes){NULL, 0}, never, &err);
  }
  (void)lake_producer_flush(producer, lake_deadline_after_ms(env, 600000), &err);
  lake_producer_close(producer);
  lake_namespace_close(ns);
  lake_store_close(store);
}

/* Algorithm 1: write a TGB, then try to commit if it is due, in one loop. */
typedef struct loop {
  room *r;
  lake_namespace *ns;
  char id[24];
  uint64_t epoch, first_seq, last_ns;
  uint32_t pending;
  lki_descriptor *descriptors;
  lki_policy policy;
} loop;

static void try_commit(loop *l, lake_env *env) {
  lake_error err = LAKE_ERROR_INIT;
  lki_commit_result result;
  lki_change change = {.kind = LKI_CHANGE_APPEND, .producer_id = l->id, .epoch = l->epoch, .first_seq = l->first_seq,
                       .descriptor_count = l->pending, .descriptors = l->descriptors,
                       .offset = l->first_seq + l->pending};
  lake_deadline never = {LKI_NEVER};
  uint64_t looked_ns = 0;
  (void)lki_log_look(l->ns->log, never, &looked_ns, NULL);
  lake_status s = lki_log_try(l->ns->log, &change, NULL, l->id, looked_ns, NULL, never, &result, &err);
  l->last_ns = lki_now_ns(env);
  const bool won = s == LAKE_OK || s == LAKE_EXISTS;
  if (won) {
    l->first_seq += l->pending;
    l->pending = 0;
  }
  lki_policy_observe(&l->policy, result.tau_ns, won, lki_manifest_active_producers(result.manifest),
                     lki_random_unit(env));
  lki_manifest_release(result.manifest);
}

static void loop_main(room *r, lki_process *p, const uint32_t *number) {
  lake_env *env = lki_process_env(p);
  lake_error err = LAKE_ERROR_INIT;
  lake_store *store = NULL;
  loop l = {.r = r, .ns = open_ns(r, p, &store)};
  name_producer(r, number, l.id);
  lki_change claim = {.kind = LKI_CHANGE_CLAIM, .producer_id = l.id, .owner = "sim:1"};
  lki_commit_result result;
  lake_deadline never = {LKI_NEVER};
  l.descriptors = lki_new(env, sizeof *l.descriptors * PENDING_MAX);
  if (l.descriptors == NULL ||
      lki_policy_init(&l.policy, r->o->policy, r->o->epsilon, r->o->delta, r->o->alpha, r->o->rho, &err) != LAKE_OK ||
      lki_log_commit(l.ns->log, &claim, l.id, never, &result, &err) != LAKE_OK) {
    fprintf(stderr, "lake sim: %s\n", err.text);
    abort();
  }
  l.epoch = 1;
  lki_manifest_release(result.manifest);
  double next_ns = (double)lki_now_ns(env);
  while (lki_now_ns(env) < r->end_ns) {
    pace(r, env, &next_ns);
    if (l.pending == PENDING_MAX) { /* nothing to do until the commit is due */
      const uint64_t due_ns = l.last_ns + l.policy.gap_ns;
      lki_sleep_until(env, due_ns > lki_now_ns(env) ? due_ns : lki_after_ns(env, 1000000));
    } else {
      const uint64_t seq = l.first_seq + l.pending;
      if (lki_tgb_write(l.ns->store, l.id, l.epoch, seq, (lake_bytes){l.id, 1}, never, &err) == LAKE_OK)
        l.descriptors[l.pending++] = (lki_descriptor){.epoch = l.epoch, .seq = seq, .slice_count = 1,
                                                      .footer_bytes = 100, .frame_bytes = 64,
                                                      .layout = LKI_LAYOUT_UNIFORM, .object_bytes = 64 + 64 + 100};
    }
    if (lki_policy_due(&l.policy, l.last_ns == 0 ? LKI_NEVER : lki_now_ns(env) - l.last_ns, l.pending))
      try_commit(&l, env);
  }
  lki_free(env, l.descriptors);
  lake_namespace_close(l.ns);
  lake_store_close(store);
}

typedef struct role {
  room *r;
  uint32_t number;
} role;

static void producer_main(lki_process *p, void *arg) {
  role *me = arg;
  if (me->r->o->full_list)
    loop_main(me->r, p, &me->number);
  else
    client_main(me->r, p, &me->number);
}

static void founder_main(lki_process *p, void *arg) {
  room *r = arg;
  lake_store *store = NULL;
  if (lki_simstore_connect(r->store, p, &store, NULL) != LAKE_OK ||
      lake_namespace_create_store(lki_process_env(p), store, NULL, (lake_deadline){LKI_NEVER}, NULL, NULL) != LAKE_OK)
    abort();
  lake_store_close(store);
}

/* --- the run --- */
static int by_number(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double percentile(const room *r, double p) {
  return r->visible_count > 0 ? r->visible_s[(size_t)((double)(r->visible_count - 1) * p)] : 0;
}

static void conclude(room *r, uint64_t attempts_before) {
  lki_figures *f = r->f;
  const lki_figures_options *o = r->o;
  const double megabyte = 1e6;
  f->counts = *lki_simstore_counts(r->store);
  f->attempts = f->counts.put_if_absent - attempts_before;
  f->success_pct = f->attempts > 0 ? 100.0 * (double)f->commits / (double)f->attempts : 0;
  f->tgbs = r->window_tgbs;
  f->ingest_mb_s = (double)r->window_tgbs * (double)o->tgb_bytes / megabyte / (o->hours * 3600);
  const size_t hours = (size_t)o->hours;
  if (hours > 0) {
    f->ingest_first_hour_mb_s = (double)r->hour_tgbs[0] * (double)o->tgb_bytes / megabyte / 3600;
    f->ingest_last_hour_mb_s = (double)r->hour_tgbs[hours - 1] * (double)o->tgb_bytes / megabyte / 3600;
  }
  if (r->visible_count > 0) qsort(r->visible_s, r->visible_count, sizeof *r->visible_s, by_number);
  f->visible_p50_s = percentile(r, 0.5);
  f->visible_p95_s = percentile(r, 0.95);
  if (r->first_count > 0) f->manifest_bytes_first = r->first_bytes / (double)r->first_count;
  const uint64_t edge = r->commit_count < EDGE_COMMITS ? r->commit_count : EDGE_COMMITS;
  double sum = 0;
  for (uint64_t i = 0; i < edge; i++) sum += r->last_bytes[i];
  if (edge > 0) f->manifest_bytes_last = sum / (double)edge;
}

static lake_status check_options(const lki_figures_options *o, lake_error *err) {
  if (o->producers == 0 || o->producers > 4096 || !(o->hours > 0 && o->hours <= 60) || o->tgb_bytes == 0 ||
      !(o->latency_ms > 0) || !(o->bandwidth_mb_s > 0) || o->rate < 0 || o->jitter < 0 || o->warmup_s < 0)
    return lki_fail(err, LAKE_INVALID, "sim: 1 to 4096 producers, up to 60 hours, and everything else above 0");
  lki_policy policy;
  return lki_policy_init(&policy, o->policy, o->epsilon, o->delta, o->alpha, o->rho, err);
}

lake_status lki_figures_run(const lki_figures_options *o, lki_figures *f, lake_error *err) {
  lake_status s = check_options(o, err);
  if (s != LAKE_OK) return s;
  const clock_t cpu_begin = clock();
  memset(f, 0, sizeof *f);
  room *r = calloc(1, sizeof *r);
  role *roles = calloc(o->producers, sizeof *roles);
  if (r == NULL || roles == NULL) abort();
  r->o = o;
  r->f = f;
  if ((s = lake_env_open(NULL, &r->env, err)) != LAKE_OK) goto done;
  r->world = lki_world_new(o->seed);
  const lki_sim_model model = {.base_ns = (uint64_t)(o->latency_ms * 1e6),
                               .bytes_per_s = o->bandwidth_mb_s * 1e6,
                               .jitter = o->jitter,
                               .data_bytes = o->tgb_bytes,
                               .entry_bytes = o->full_list ? o->entry_bytes : 0,
                               .manifests_kept = 100000};
  r->store = lki_simstore_new(r->world, &model);
  lki_simstore_observe(r->store, (lki_sim_observer){written, NULL, r});
  if (lki_world_spawn(r->world, "founder", founder_main, r) == NULL) abort();
  (void)lki_world_run(r->world, LKI_NEVER, NULL, NULL);
  r->begin_ns = lki_world_now_ns(r->world);
  r->count_ns = r->begin_ns + (uint64_t)(o->warmup_s * SECOND);
  r->end_ns = r->count_ns + (uint64_t)(o->hours * 3600 * SECOND);
  for (uint32_t i = 0; i < o->producers; i++) {
    roles[i] = (role){r, i};
    if (lki_world_spawn(r->world, "producer", producer_main, &roles[i]) == NULL) abort();
  }
  (void)lki_world_run(r->world, r->count_ns, NULL, NULL);
  const uint64_t attempts_before = lki_simstore_counts(r->store)->put_if_absent;
  (void)lki_world_run(r->world, r->end_ns, NULL, NULL);
  conclude(r, attempts_before);
  upload *u, *next;
  HASH_ITER(hh, r->uploads, u, next) {
    HASH_DEL(r->uploads, u);
    free(u);
  }
  lki_world_free(r->world);
  lki_simstore_free(r->store);
  lake_env_close(r->env);
  f->cpu_s = (double)(clock() - cpu_begin) / CLOCKS_PER_SEC;
done:
  free(r->visible_s);
  free(roles);
  free(r);
  return s;
}
