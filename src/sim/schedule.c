/* Actors and weather of a schedule. The actors use the public API as a program would; what they are told they report
 * to the checkers. */
#include "sim/schedule.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/planted.h"
#include "client/namespace.h"
#include "format/names.h"
#include "sim/actor.h"
#include "sim/check.h"
#include <inttypes.h>
#include <lakestream/lakestream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND LKI_SIM_SECOND
#define IDS_MAX 16
#define CONSUMERS_MAX 32
#define PROCESSES_MAX 512
#define MESH_D LKI_SIM_MESH_D
#define OFFSET_PER_TGB LKI_SIM_OFFSET_PER_TGB

typedef struct scenario scenario;

typedef struct producer_role {
  scenario *sc;
  char id[16];
  uint64_t goal;
} producer_role;

typedef struct consumer_role {
  scenario *sc;
  uint32_t d;
  bool ended;
  char cursor[LAKE_CURSOR_BYTES]; /* of the last checkpoint, which is pinned; "": none yet */
  uint64_t saved_step;            /* that belongs to it */
  uint64_t next_step;
  char pin[24]; /* the checkpoint's name; "": none */
} consumer_role;

struct scenario {
  lki_world *world;
  lki_simstore *store;
  lki_check *check;
  lki_rng rng; /* the scenario's own draws */
  const lki_schedule_options *options;
  lki_schedule_report *report;
  lki_sim_faults faults;
  uint32_t version_block, tail_max;
  uint32_t id_count, consumer_count;
  producer_role ids[IDS_MAX];
  consumer_role consumers[CONSUMERS_MAX];
  lki_process *processes[PROCESSES_MAX];
  void *roles[PROCESSES_MAX]; /* the role of each; NULL: none that is started again */
  uint32_t process_count;
  uint64_t weather_ends_ns;
  bool healed, sealing;
};

/* Opens the namespace, however long the store does not want to. */
static lake_namespace *open_ns(scenario *sc, lki_process *p, lake_store **store) {
  lake_error err = LAKE_ERROR_INIT;
  if (lki_simstore_connect(sc->store, p, store, &err) != LAKE_OK) abort();
  lake_namespace *ns = NULL;
  for (;;) {
    lake_status s = lake_namespace_open_store(lki_process_env(p), *store, lki_sim_in(p, 30 * SECOND), &ns, &err);
    if (s == LAKE_OK) return ns;
    if (s == LAKE_CORRUPT || s == LAKE_INTERNAL) lki_check_fail(sc->check, "open: %s", err.text);
    lki_sim_nap(p, SECOND);
  }
}

/* --- producers --- */

static void check_resume(producer_role *role, const lake_producer_resume *r) {
  uint64_t last = 0;
  if (r->state_bytes == sizeof last) memcpy(&last, r->state, sizeof last);
  if (r->offset != r->seq * OFFSET_PER_TGB || (r->seq > 0 && last != r->seq - 1))
    lki_check_fail(role->sc->check, "I4: %s resumes at seq %" PRIu64 " with offset %" PRIu64 " and state %" PRIu64,
                   role->id, r->seq, r->offset, last);
}

static lake_status append_one(producer_role *role, lki_process *p, lake_producer *producer, uint64_t epoch,
                              uint64_t seq, lake_error *err) {
  char text[MESH_D][64];
  lake_bytes slices[MESH_D];
  for (uint32_t d = 0; d < MESH_D; d++) {
    int n = snprintf(text[d], sizeof text[d], "%s %" PRIu64 " %" PRIu64 " %u", role->id, epoch, seq, d);
    slices[d] = (lake_bytes){text[d], (size_t)n};
  }
  return lake_producer_append(producer, slices, MESH_D, (seq + 1) * OFFSET_PER_TGB, (lake_bytes){&seq, sizeof seq},
                              lki_sim_in(p, 20 * SECOND), err);
}

/* FENCED or END: what it says of the TGBs is final. */
static void check_last(producer_role *role, lake_producer *producer, uint64_t epoch, const lake_error *err) {
  lake_producer_stats stats;
  lake_producer_stats_get(producer, &stats);
  const bool certain = strstr(err->text, "not known") == NULL;
  lki_check_final(role->sc->check, role->id, epoch, stats.committed_count, certain);
  if (!certain) role->sc->report->in_doubt_count++;
}

/* One incarnation's life. True: the role is done, or this process has to stop. */
static bool produce(producer_role *role, lki_process *p, lake_namespace *ns) {
  scenario *sc = role->sc;
  lake_error err = LAKE_ERROR_INIT;
  lake_producer_options o = LAKE_PRODUCER_OPTIONS_INIT;
  o.upload_threads = 1 + (uint32_t)(lki_random_u64(lki_process_env(p)) % 2);
  o.policy = lki_random_u64(lki_process_env(p)) % 3 == 0 ? LAKE_POLICY_DAC : LAKE_POLICY_CARRY;
  o.pending_count_max = 2 + (uint32_t)(lki_random_u64(lki_process_env(p)) % 6);
  lake_producer *producer = NULL;
  lake_producer_resume resume;
  lake_status s = lake_producer_open(ns, role->id, &o, lki_sim_in(p, 30 * SECOND), &resume, &producer, &err);
  if (s != LAKE_OK) {
    if (s == LAKE_INTERNAL || s == LAKE_CORRUPT) lki_check_fail(sc->check, "producer %s: %s", role->id, err.text);
    lki_sim_nap(p, SECOND);
    return s == LAKE_END;
  }
  check_resume(role, &resume);
  lki_check_claimed(sc->check, role->id, resume.epoch, resume.seq);
  uint64_t seq = resume.seq, told = resume.seq;
  while (s == LAKE_OK || s == LAKE_TIMEOUT || s == LAKE_UNCERTAIN || s == LAKE_UNAVAILABLE) {
    if (seq < role->goal) {
      s = append_one(role, p, producer, resume.epoch, seq, &err);
      if (s == LAKE_OK) seq++;
    }
    if (s == LAKE_OK && (seq == role->goal || lki_random_u64(lki_process_env(p)) % 3 == 0)) {
      s = lake_producer_flush(producer, lki_sim_in(p, 10 * SECOND), &err);
      if (s == LAKE_OK) {
        lki_check_acknowledged(sc->check, role->id, resume.epoch, resume.seq, seq);
        told = seq;
      }
    }
    if (s == LAKE_OK && told == role->goal) break;
    lki_sim_nap(p, SECOND);
  }
  if (s == LAKE_FENCED) sc->report->fenced_count++;
  if (s == LAKE_FENCED || s == LAKE_END) check_last(role, producer, resume.epoch, &err);
  if (s == LAKE_INTERNAL || s == LAKE_CORRUPT) lki_check_fail(sc->check, "producer %s: %s", role->id, err.text);
  if (s == LAKE_OK && lki_random_u64(lki_process_env(p)) % 2 == 0)
    (void)lake_producer_retire(producer, lki_sim_in(p, 10 * SECOND), &err);
  lake_producer_close(producer);
  return true;
}

static void producer_main(lki_process *p, void *arg) {
  producer_role *role = arg;
  lake_store *store = NULL;
  lake_namespace *ns = open_ns(role->sc, p, &store);
  while (!produce(role, p, ns)) {
  }
  lake_namespace_close(ns);
  lake_store_close(store);
}

/* --- consumers --- */

static void check_batch(consumer_role *role, const lake_batch *batch) {
  char text[64] = "", id[16] = "";
  uint64_t epoch = 0, seq = 0;
  unsigned d = 0;
  if (batch->bytes < sizeof text) memcpy(text, batch->data, batch->bytes);
  lki_check *check = role->sc->check;
  if (sscanf(text, "%7s %" SCNu64 " %" SCNu64 " %u", id, &epoch, &seq, &d) != 4 || d != role->d)
    lki_check_fail(check, "I2: step %" PRIu64 " delivered \"%s\" to d=%u", batch->step, text, role->d);
  else if (batch->step != role->next_step)
    lki_check_fail(check, "I3: d=%u was given step %" PRIu64 " after %" PRIu64, role->d, batch->step,
                   role->next_step - 1);
  else
    lki_check_delivered(check, batch->step, id, epoch, seq);
}

/* A checkpoint: a pin where the consumer stands, and then the one before it is dropped. What could not be pinned is no
 * checkpoint, and a restart goes back to the last that could. */
static void checkpoint(consumer_role *role, lki_process *p, lake_namespace *ns, lake_consumer *c) {
  scenario *sc = role->sc;
  char group[24], name[24], cursor[LAKE_CURSOR_BYTES], old[24];
  lake_error err = LAKE_ERROR_INIT;
  snprintf(group, sizeof group, "g%u", (unsigned)(role - sc->consumers));
  snprintf(name, sizeof name, "s%" PRIu64, role->next_step);
  lake_consumer_cursor(c, cursor);
  if (strcmp(name, role->pin) == 0) return;
  lake_status s = lake_pin_create(ns, group, name, cursor, lki_sim_in(p, 30 * SECOND), &err);
  if (s == LAKE_CORRUPT || s == LAKE_INTERNAL) lki_check_fail(sc->check, "pin: %s", err.text);
  if (s != LAKE_OK) return;
  lki_check_pin(sc->check, role->next_step, true);
  if (role->pin[0] != 0) lki_check_pin(sc->check, role->saved_step, false);
  memcpy(old, role->pin, sizeof old);
  memcpy(role->pin, name, sizeof name);
  memcpy(role->cursor, cursor, sizeof cursor);
  role->saved_step = role->next_step;
  if (old[0] != 0) (void)lake_pin_remove(ns, group, old, lki_sim_in(p, 30 * SECOND), &err);
}

static void consume(consumer_role *role, lki_process *p, lake_namespace *ns) {
  scenario *sc = role->sc;
  lake_env *env = lki_process_env(p);
  lake_error err = LAKE_ERROR_INIT;
  lake_consumer_options o = LAKE_CONSUMER_OPTIONS_INIT;
  o.coords.d = role->d;
  o.io_threads = 1 + (uint32_t)(lki_random_u64(env) % 2);
  o.prefetch_steps_max = 1 + (uint32_t)(lki_random_u64(env) % 5);
  o.prefetch_bytes_max = lki_random_u64(env) % 2 == 0 ? 1 : 0;
  const bool pinned = role->cursor[0] != 0;
  bool first = !pinned; /* without a checkpoint it begins at the first live step, wherever that is */
  o.cursor = pinned ? role->cursor : NULL;
  role->next_step = role->saved_step;
  lake_consumer *c = NULL;
  lake_status s = lake_consumer_open(ns, &o, lki_sim_in(p, 30 * SECOND), &c, &err);
  if (s == LAKE_CORRUPT || s == LAKE_INTERNAL || s == LAKE_INVALID || s == LAKE_RECLAIMED)
    lki_check_fail(sc->check, "consumer d=%u: %s", role->d, err.text);
  if (s != LAKE_OK) return;
  while (s == LAKE_OK || s == LAKE_TIMEOUT) {
    lake_batch batch;
    s = lake_consumer_next(c, lki_sim_in(p, 5 * SECOND), &batch, &err);
    if (s == LAKE_OK) {
      if (first) role->next_step = batch.step;
      first = false;
      check_batch(role, &batch);
      role->next_step = batch.step + 1;
      lake_consumer_release(c, &batch);
      if (lki_random_u64(env) % 4 == 0) checkpoint(role, p, ns, c);
    }
    if (s == LAKE_RECLAIMED && role->cursor[0] != 0)
      lki_check_fail(sc->check, "I6: d=%u has pinned step %" PRIu64 ", but: %s", role->d, role->saved_step, err.text);
    if (s == LAKE_END) {
      role->ended = true;
      if (first) role->next_step = lki_check_step_count(sc->check); /* all was reclaimed before it came */
      if (!lki_check_sealed(sc->check) || role->next_step != lki_check_step_count(sc->check))
        lki_check_fail(sc->check, "I3: d=%u ended after %" PRIu64 " steps of %" PRIu64, role->d, role->next_step,
                       lki_check_step_count(sc->check));
    }
    if (s == LAKE_CORRUPT || s == LAKE_INTERNAL) lki_check_fail(sc->check, "consumer d=%u: %s", role->d, err.text);
    if (lki_random_u64(env) % 16 == 0) break; /* closes, and goes on from its cursor */
    lki_sim_nap(p, SECOND / 2);
  }
  lake_consumer_close(c);
}

static void consumer_main(lki_process *p, void *arg) {
  consumer_role *role = arg;
  lake_store *store = NULL;
  lake_namespace *ns = open_ns(role->sc, p, &store);
  while (!role->ended) {
    consume(role, p, ns);
    lki_sim_nap(p, SECOND);
  }
  lake_namespace_close(ns);
  lake_store_close(store);
}

/* --- the reclaimer of manifest names --- */

typedef struct old_names {
  uint64_t below;
  uint32_t count;
  char names[64][LKI_NAME_BYTES];
} old_names;

static bool take_old(void *ctx, const char *key, uint64_t object_bytes) {
  (void)object_bytes;
  old_names *old = ctx;
  uint64_t version = 0;
  if (lki_name_manifest_parse(key, &version) && version < old->below)
    snprintf(old->names[old->count++], LKI_NAME_BYTES, "%s", key);
  return old->count < 64;
}

static void reclaim_once(scenario *sc, lki_process *p, lake_namespace *ns) {
  lake_error err = LAKE_ERROR_INIT;
  lake_deadline deadline = lki_sim_in(p, 60 * SECOND);
  if (lki_log_refresh(ns->log, deadline, NULL, &err) != LAKE_OK) return;
  lki_manifest *view = lki_log_view(ns->log);
  const uint64_t blocks = view->version / sc->version_block + (LKI_PLANTED(RECLAIM_TAKES_NEWEST) ? 2 : 0);
  lki_manifest_release(view);
  if (blocks < 2) return;
  old_names *old = lki_new(ns->env, sizeof *old);
  old->below = (blocks - 1) * sc->version_block;
  lake_status s = LAKE_OK;
  for (uint64_t b = 0; b < blocks - 1 && s == LAKE_OK && !LKI_PLANTED(RECLAIM_BEFORE_MARK); b++)
    s = lki_log_raise(ns->log, b, deadline, &err);
  if (s == LAKE_OK) s = lki_store_list(ns->store, LKI_NAME_MANIFEST_PREFIX, NULL, take_old, old, deadline, &err);
  for (uint32_t i = 0; i < old->count && s == LAKE_OK; i++)
    s = lki_store_remove(ns->store, old->names[i], deadline, &err);
  lki_free(ns->env, old);
}

static void reclaimer_main(lki_process *p, void *arg) {
  scenario *sc = arg;
  lake_store *store = NULL;
  lake_namespace *ns = open_ns(sc, p, &store);
  while (!lki_check_sealed(sc->check)) {
    lki_sim_nap(p, 20 * SECOND);
    lake_error err = LAKE_ERROR_INIT;
    if (lki_random_u64(ns->env) % 2 == 0)
      reclaim_once(sc, p, ns);
    else if (lake_reclaim(ns, NULL, lki_sim_in(p, 120 * SECOND), NULL, &err) == LAKE_INTERNAL)
      lki_check_fail(sc->check, "reclaim: %s", err.text);
  }
  lake_namespace_close(ns);
  lake_store_close(store);
}

/* --- the auditor: what the log tells of each attempt (I5), with claims of an id that nobody else uses --- */

static void lapper_main(lki_process *p, void *arg) {
  scenario *sc = arg;
  lake_store *store = NULL;
  lake_namespace *ns = open_ns(sc, p, &store);
  lki_sim_lap(sc->check, p, ns);
  lake_namespace_close(ns);
  lake_store_close(store);
}

static void auditor_main(lki_process *p, void *arg) {
  scenario *sc = arg;
  lake_store *store = NULL;
  lake_namespace *ns = open_ns(sc, p, &store);
  lki_sim_audit(sc->check, p, ns);
  lake_namespace_close(ns);
  lake_store_close(store);
}

static void sealer_main(lki_process *p, void *arg) {
  scenario *sc = arg;
  lake_store *store = NULL;
  lake_namespace *ns = open_ns(sc, p, &store);
  lake_error err = LAKE_ERROR_INIT;
  while (lake_namespace_seal(ns, lki_sim_in(p, 30 * SECOND), NULL, &err) != LAKE_OK) lki_sim_nap(p, SECOND);
  lake_namespace_close(ns);
  lake_store_close(store);
}

static void founder_main(lki_process *p, void *arg) {
  scenario *sc = arg;
  lake_error err = LAKE_ERROR_INIT;
  lake_store *store = NULL;
  if (lki_simstore_connect(sc->store, p, &store, &err) != LAKE_OK) abort();
  lake_namespace_options o = LAKE_NAMESPACE_OPTIONS_INIT;
  o.mesh.d_count = MESH_D;
  o.mesh.c_count = 1;
  o.tail_max = sc->tail_max;
  o.version_block = sc->version_block;
  if (lake_namespace_create_store(lki_process_env(p), store, &o, lki_sim_in(p, 60 * SECOND), NULL, &err) != LAKE_OK)
    lki_check_fail(sc->check, "create: %s", err.text);
  lake_store_close(store);
}

/* --- the weather --- */

static void start(scenario *sc, const char *name, void (*fn)(lki_process *, void *), void *arg, void *role) {
  if (sc->process_count == PROCESSES_MAX) return;
  lki_process *p = lki_world_spawn(sc->world, name, fn, arg);
  if (p == NULL) abort();
  sc->roles[sc->process_count] = role;
  sc->processes[sc->process_count++] = p;
}

static bool is_consumer(const scenario *sc, const void *role) {
  return role >= (const void *)sc->consumers && role < (const void *)(sc->consumers + CONSUMERS_MAX);
}

static void start_role(scenario *sc, void *role) {
  if (is_consumer(sc, role))
    start(sc, "consumer", consumer_main, role, role);
  else
    start(sc, ((producer_role *)role)->id, producer_main, role, role);
}

static void wake(void *arg) {
  if (!lki_process_ended(arg)) lki_process_resume(arg);
}

static void weather(void *arg);

static void pause_for(scenario *sc, lki_process *p, uint64_t ns) {
  lki_process_pause(p);
  sc->report->pause_count++;
  lki_world_at(sc->world, lki_world_now_ns(sc->world) + ns, wake, p);
}

/* One stroke: kill and start again, kill and leave, pause, or start a second process with the same role. */
static void strike(scenario *sc) {
  const uint32_t i = (uint32_t)lki_rng_below(&sc->rng, sc->process_count);
  lki_process *p = sc->processes[i];
  void *role = sc->roles[i];
  if (lki_process_ended(p) || role == NULL) return;
  const uint64_t roll = lki_rng_below(&sc->rng, 10);
  if (roll < 4) {
    lki_process_kill(p);
    sc->report->kill_count++;
    start_role(sc, role);
  } else if (roll < 8) {
    if (!lki_process_paused(p)) pause_for(sc, p, lki_rng_below(&sc->rng, 90 * SECOND));
    if (!is_consumer(sc, role) && lki_rng_below(&sc->rng, 2) == 0)
      start_role(sc, role); /* a supervisor takes it for dead: now it is a zombie */
  } else if (!is_consumer(sc, role)) {
    start_role(sc, role); /* two live processes, one producer id */
  }
}

static void weather(void *arg) {
  scenario *sc = arg;
  const uint64_t now_ns = lki_world_now_ns(sc->world);
  if (now_ns >= sc->weather_ends_ns) return;
  strike(sc);
  lki_world_at(sc->world, now_ns + lki_rng_below(&sc->rng, 8 * SECOND), weather, sc);
}

/* The weather clears: no more faults, the paused go on, and every id has a process that will reach its goal. */
static void heal(void *arg) {
  scenario *sc = arg;
  lki_simstore_set_faults(sc->store, NULL);
  for (uint32_t i = 0; i < sc->process_count; i++)
    if (!lki_process_ended(sc->processes[i]) && lki_process_paused(sc->processes[i]))
      lki_process_resume(sc->processes[i]);
  sc->healed = true;
}

static bool has_live(const scenario *sc, const void *role) {
  for (uint32_t i = 0; i < sc->process_count; i++)
    if (sc->roles[i] == role && !lki_process_ended(sc->processes[i])) return true;
  return false;
}

static void seal(scenario *sc) {
  if (sc->sealing) return;
  sc->sealing = true;
  start(sc, "sealer", sealer_main, sc, NULL);
}

static void seal_early(void *arg) { seal(arg); }

/* After healing: starts what is missing, seals when all is in. */
static void tend(void *arg) {
  scenario *sc = arg;
  bool all_in = true;
  for (uint32_t i = 0; sc->healed && !sc->sealing && i < sc->id_count; i++) {
    if (lki_check_committed(sc->check, sc->ids[i].id) >= sc->ids[i].goal) continue;
    all_in = false;
    if (!has_live(sc, &sc->ids[i])) start_role(sc, &sc->ids[i]);
  }
  for (uint32_t i = 0; sc->healed && i < sc->consumer_count; i++)
    if (!sc->consumers[i].ended && !has_live(sc, &sc->consumers[i])) start_role(sc, &sc->consumers[i]);
  if (sc->healed && all_in) seal(sc);
  lki_world_at(sc->world, lki_world_now_ns(sc->world) + SECOND, tend, sc);
}

static void begin(void *arg) {
  scenario *sc = arg;
  for (uint32_t i = 0; i < sc->id_count; i++) start_role(sc, &sc->ids[i]);
  for (uint32_t i = 0; i < sc->consumer_count; i++) start_role(sc, &sc->consumers[i]);
  start(sc, "reclaimer", reclaimer_main, sc, NULL);
  start(sc, "auditor", auditor_main, sc, NULL);
  start(sc, "lapper", lapper_main, sc, NULL);
  if (!sc->options->calm) lki_simstore_set_faults(sc->store, &sc->faults);
}

static bool over(void *arg) {
  const scenario *sc = arg;
  if (lki_check_violation(sc->check) != NULL) return true;
  for (uint32_t i = 0; i < sc->consumer_count; i++)
    if (!sc->consumers[i].ended) return false;
  return true;
}

static uint32_t draw_between(lki_rng *rng, uint32_t low, uint32_t high) {
  return low + (uint32_t)lki_rng_below(rng, high - low + 1);
}

static void cast(scenario *sc, const lki_schedule_options *o) {
  lki_rng *rng = &sc->rng;
  sc->id_count = o->producers > 0 ? o->producers : draw_between(rng, 2, 8);
  sc->consumer_count = o->consumers > 0 ? o->consumers : draw_between(rng, 4, 16);
  if (sc->id_count > IDS_MAX) sc->id_count = IDS_MAX;
  if (sc->consumer_count > CONSUMERS_MAX) sc->consumer_count = CONSUMERS_MAX;
  sc->version_block = draw_between(rng, 1, 6);
  sc->tail_max = draw_between(rng, 1, 8);
  for (uint32_t i = 0; i < sc->id_count; i++) {
    sc->ids[i].sc = sc;
    snprintf(sc->ids[i].id, sizeof sc->ids[i].id, "p%u", i);
    sc->ids[i].goal = o->tgbs > 0 ? o->tgbs : draw_between(rng, 4, 14);
  }
  for (uint32_t i = 0; i < sc->consumer_count; i++) {
    sc->consumers[i].sc = sc;
    sc->consumers[i].d = i % MESH_D;
  }
  const unsigned level = draw_between(rng, 0, 3); /* from fair to foul */
  sc->faults = (lki_sim_faults){10 * level, 10 * level, 10 * level, 8 * level, 8 * level, 5 * level, 20 * SECOND};
}

bool lki_schedule_run(uint64_t seed, const lki_schedule_options *options, lki_schedule_report *report) {
  const lki_schedule_options none = {0};
  scenario *sc = calloc(1, sizeof *sc);
  if (sc == NULL) abort();
  memset(report, 0, sizeof *report);
  sc->options = options != NULL ? options : &none;
  sc->report = report;
  sc->rng.state = seed ^ 0x5eed5eed5eed5eedu;
  sc->world = lki_world_new(seed);
  const lki_sim_model model = {.base_ns = 20u * 1000 * 1000, .bytes_per_s = 1e8, .jitter = 1.0};
  sc->store = lki_simstore_new(sc->world, &model);
  cast(sc, sc->options);
  sc->check = lki_check_new(sc->world, sc->store, sc->version_block);
  if (sc->options->trace != NULL) lki_simstore_trace(sc->store, sc->options->trace, sc->options->trace_ctx);
  start(sc, "founder", founder_main, sc, NULL);
  (void)lki_world_run(sc->world, LKI_NEVER, NULL, NULL);
  const uint64_t begin_ns = lki_world_now_ns(sc->world);
  sc->weather_ends_ns = begin_ns + draw_between(&sc->rng, 5, 60) * SECOND;
  lki_world_at(sc->world, begin_ns, begin, sc);
  if (!sc->options->calm) lki_world_at(sc->world, begin_ns + SECOND, weather, sc);
  if (!sc->options->calm && lki_rng_below(&sc->rng, 8) == 0) /* among writers that are not done */
    lki_world_at(sc->world, begin_ns + lki_rng_below(&sc->rng, sc->weather_ends_ns - begin_ns), seal_early, sc);
  lki_world_at(sc->world, sc->weather_ends_ns, heal, sc);
  lki_world_at(sc->world, sc->weather_ends_ns, tend, sc);
  report->switches = lki_world_run(sc->world, begin_ns + 3600 * SECOND, over, sc);
  if (!over(sc)) lki_check_fail(sc->check, "I10: an hour after the weather cleared not everybody is done");
  report->virtual_ns = lki_world_now_ns(sc->world) - begin_ns;
  report->step_count = lki_check_step_count(sc->check);
  report->counts = *lki_simstore_counts(sc->store);
  report->digest = lki_check_digest(sc->check);
  const char *violation = lki_check_violation(sc->check);
  if (violation != NULL) snprintf(report->violation, sizeof report->violation, "%s", violation);
  lki_world_free(sc->world);
  lki_check_free(sc->check);
  lki_simstore_free(sc->store);
  free(sc);
  return report->violation[0] == 0;
}
