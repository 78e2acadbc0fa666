/* The simulated store. Everything runs on the world's one OS thread; an operation blocks its fiber twice: on the way to
 * the store and back. What is in flight belongs to the store, so it lands or not whatever becomes of its sender. */
#include "sim/store.h"
#include "base/buffer.h"
#include "base/error.h"
#include "format/format.h"
#include "format/names.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

typedef struct object {
  UT_hash_handle hh;
  char *key;
  unsigned char *data;
  size_t bytes;       /* kept */
  uint64_t cost_bytes;/* counted */
  uint64_t written_ns;
} object;

typedef struct group { /* objects that share their first component: a LIST looks only at its own */
  UT_hash_handle hh;
  char *name;
  object *objects;
} group;

/* A write that is on its way by itself. */
typedef struct flight {
  struct flight *prev, *next;
  lki_simstore *store;
  char *key;
  unsigned char *data;
  size_t bytes;
  uint64_t cost_bytes;
  bool if_absent;
} flight;

struct lki_simstore {
  lki_world *world;
  lki_sim_model model;
  lki_sim_faults faults;
  lki_sim_observer observer;
  lki_sim_counts counts;
  group *groups;
  flight *flights; /* not landed yet */
  uint64_t object_count;
  uint64_t entries;
  void (*trace)(void *ctx, const char *text);
  void *trace_ctx;
};

typedef struct connection {
  lki_simstore *store;
  lki_process *process;
} connection;

typedef enum fault { F_NONE = -1, F_FAIL, F_LOST, F_LATE, F_DUPLICATE, F_UNDECIDED, F_SLOW } fault;

static void *must(void *p) {
  if (p == NULL) abort(); /* the simulator's own memory */
  return p;
}

static group *group_of(lki_simstore *s, const char *key, bool make) {
  char name[64];
  size_t n = strcspn(key, "/");
  if (n >= sizeof name) n = sizeof name - 1;
  memcpy(name, key, n);
  name[n] = 0;
  group *g = NULL;
  HASH_FIND_STR(s->groups, name, g);
  if (g == NULL && make) {
    g = must(calloc(1, sizeof *g));
    g->name = must(strdup(name));
    HASH_ADD_KEYPTR(hh, s->groups, g->name, strlen(g->name), g);
  }
  return g;
}

static object *find(lki_simstore *s, const char *key) {
  group *g = group_of(s, key, false);
  object *o = NULL;
  if (g != NULL) HASH_FIND_STR(g->objects, key, o);
  return o;
}

static void drop(lki_simstore *s, object *o) {
  group *g = group_of(s, o->key, false);
  HASH_DEL(g->objects, o);
  free(o->key);
  free(o->data);
  free(o);
  s->object_count--;
}

static void trace(lki_simstore *s, const char *op, const char *key, const char *result) {
  if (s->trace == NULL) return;
  lki_process *p = lki_world_current(s->world);
  char line[512];
  snprintf(line, sizeof line, "%" PRIu64 ".%09" PRIu64 " %s %s %s %s", lki_world_now_ns(s->world) / 1000000000u,
           lki_world_now_ns(s->world) % 1000000000u, p != NULL ? lki_process_name(p) : "-", op, key, result);
  s->trace(s->trace_ctx, line);
}

static void forget_old(lki_simstore *s, const char *key) {
  uint64_t version = 0;
  if (s->model.manifests_kept == 0 || !lki_name_manifest_parse(key, &version)) return;
  if (version <= s->model.manifests_kept) return;
  char old[LKI_NAME_BYTES];
  lki_name_manifest(old, version - s->model.manifests_kept);
  object *o = find(s, old);
  if (o != NULL) drop(s, o);
}

/* A write takes effect. */
static lake_status apply_write(lki_simstore *s, const char *key, lake_bytes body, uint64_t cost_bytes,
                               bool if_absent) {
  if (s->model.data_bytes > 0 && strncmp(key, "data/", 5) == 0) { /* not kept: millions of them are written once each */
    s->counts.written_bytes += cost_bytes;
    if (s->observer.written != NULL) s->observer.written(s->observer.ctx, key, body, false);
    return LAKE_OK;
  }
  object *o = find(s, key);
  const bool existed = o != NULL;
  if (existed && if_absent) {
    s->counts.taken++;
    trace(s, "apply", key, "taken");
    return LAKE_EXISTS;
  }
  const uint64_t now_ns = lki_world_now_ns(s->world);
  if (existed && s->model.name_gap_ns > 0 && now_ns - o->written_ns < s->model.name_gap_ns) return LAKE_UNAVAILABLE;
  if (!existed) {
    group *g = group_of(s, key, true);
    o = must(calloc(1, sizeof *o));
    o->key = must(strdup(key));
    HASH_ADD_KEYPTR(hh, g->objects, o->key, strlen(o->key), o);
    s->object_count++;
  }
  free(o->data);
  o->bytes = body.bytes;
  o->data = must(malloc(o->bytes + 1));
  if (o->bytes > 0) memcpy(o->data, body.data, o->bytes);
  o->cost_bytes = cost_bytes;
  o->written_ns = now_ns;
  s->counts.written_bytes += cost_bytes;
  trace(s, "apply", key, existed ? "replaced" : "created");
  if (s->observer.written != NULL) s->observer.written(s->observer.ctx, key, body, existed);
  forget_old(s, key);
  return LAKE_OK;
}

static void end_flight(flight *f) {
  DL_DELETE(f->store->flights, f);
  free(f->key);
  free(f->data);
  free(f);
}

static void land(void *arg) {
  flight *f = arg;
  (void)apply_write(f->store, f->key, (lake_bytes){f->data, f->bytes}, f->cost_bytes, f->if_absent);
  end_flight(f);
}

static void send_later(lki_simstore *s, const char *key, lake_bytes body, uint64_t cost_bytes, bool if_absent) {
  flight *f = must(calloc(1, sizeof *f));
  *f = (flight){.store = s, .key = must(strdup(key)), .data = must(malloc(body.bytes + 1)), .bytes = body.bytes,
                .cost_bytes = cost_bytes, .if_absent = if_absent};
  DL_APPEND(s->flights, f);
  if (body.bytes > 0) memcpy(f->data, body.data, body.bytes);
  lki_rng *rng = lki_world_rng(s->world);
  const uint64_t max_ns = s->faults.late_ns_max >> (4 * lki_rng_below(rng, 3)); /* some only just too late */
  const uint64_t delay_ns = lki_rng_below(rng, max_ns + 1);
  lki_world_at(s->world, lki_world_now_ns(s->world) + delay_ns, land, f);
}

static fault draw(lki_simstore *s, bool write, bool conditional) {
  const unsigned chances[6] = {s->faults.fail_before,          s->faults.lost_reply,
                               write ? s->faults.late : 0,     write ? s->faults.duplicate : 0,
                               conditional ? s->faults.undecided : 0, s->faults.slow};
  unsigned total = 0;
  for (int i = 0; i < 6; i++) total += chances[i];
  if (total == 0) return F_NONE;
  uint64_t roll = lki_rng_below(lki_world_rng(s->world), 1000);
  for (int i = 0; i < 6; i++) {
    if (roll < chances[i]) {
      s->counts.fired[i]++;
      return (fault)i;
    }
    roll -= chances[i];
  }
  return F_NONE;
}

/* Half of an operation's time passes. False: the deadline came first. */
static bool travel(lki_simstore *s, uint64_t bytes, bool slow, lake_deadline deadline) {
  lki_rng *rng = lki_world_rng(s->world);
  double ns = (double)s->model.base_ns / 2;
  if (s->model.bytes_per_s > 0) ns += (double)bytes / s->model.bytes_per_s * 1e9;
  if (s->model.jitter > 0) ns *= 1 + s->model.jitter * lki_rng_unit(rng);
  if (slow) ns += (double)lki_rng_below(rng, 2 * s->faults.late_ns_max + 1);
  const uint64_t until_ns = lki_world_now_ns(s->world) + (uint64_t)ns;
  const bool in_time = until_ns <= deadline.at_ns;
  lki_world_sleep_until(s->world, in_time ? until_ns : deadline.at_ns);
  return in_time;
}

static lake_status timed_out(lake_error *err) { return lki_fail(err, LAKE_TIMEOUT, "the simulated store did not answer"); }
static lake_status failed(lake_error *err) { return lki_fail(err, LAKE_UNAVAILABLE, "simulated failure"); }

/* What a manifest would weigh if it listed each TGB as the paper's does. */
static uint64_t cost_of(lki_simstore *s, const char *key, lake_bytes body) {
  if (s->model.data_bytes > 0 && strncmp(key, "data/", 5) == 0) return s->model.data_bytes;
  uint64_t version = 0;
  if (s->model.entry_bytes > 0 && lki_name_manifest_parse(key, &version)) return s->model.entry_bytes * (s->entries + 1);
  return body.bytes;
}

/* The paper's manifest has no segments: what lies in one here, the manifest itself has paid for. */
static bool is_paid(const lki_simstore *s, const char *key) {
  return s->model.entry_bytes > 0 && strncmp(key, "segment/", 8) == 0;
}

static lake_status write_object(connection *c, const char *key, lake_bytes body, bool if_absent,
                                lake_deadline deadline, lake_error *err) {
  lki_simstore *s = c->store;
  if (if_absent)
    s->counts.put_if_absent++;
  else
    s->counts.put++;
  const uint64_t cost_bytes = cost_of(s, key, body);
  const fault f = draw(s, true, if_absent);
  trace(s, if_absent ? "put_if_absent" : "put", key, "sent");
  if (!travel(s, cost_bytes, f == F_SLOW, deadline)) {
    /* The request is out: it may still arrive. */
    if (lki_rng_below(lki_world_rng(s->world), 2) == 0) send_later(s, key, body, cost_bytes, if_absent);
    return lki_fail(err, LAKE_UNCERTAIN, "the simulated store did not answer");
  }
  if (f == F_FAIL) return failed(err);
  if (f == F_UNDECIDED) return lki_fail(err, LAKE_UNCERTAIN, "simulated 409, undecided");
  if (f == F_LATE) {
    send_later(s, key, body, cost_bytes, if_absent);
    return lki_fail(err, LAKE_UNCERTAIN, "simulated time-out, the write is still on its way");
  }
  lake_status status = apply_write(s, key, body, cost_bytes, if_absent);
  if (f == F_DUPLICATE) send_later(s, key, body, cost_bytes, if_absent);
  if (!travel(s, 0, false, deadline) || f == F_LOST)
    return lki_fail(err, LAKE_UNCERTAIN, "simulated loss of the reply");
  if (status == LAKE_EXISTS) return lki_fail(err, status, "the name is taken");
  return status == LAKE_OK ? status : lki_fail(err, status, "simulated 429");
}

static lake_status sim_put(void *self, const char *key, lake_bytes body, lake_deadline deadline, lake_error *err) {
  const connection *c = self;
  if (is_paid(c->store, key)) return apply_write(c->store, key, body, 0, false);
  return write_object(self, key, body, false, deadline, err);
}

static lake_status sim_put_if_absent(void *self, const char *key, lake_bytes body, lake_deadline deadline,
                                     lake_error *err) {
  return write_object(self, key, body, true, deadline, err);
}

static lake_status sim_get(void *self, const char *key, lake_range range, lake_buffer *out, lake_object_info *info,
                           lake_deadline deadline, lake_error *err) {
  connection *c = self;
  lki_simstore *s = c->store;
  const bool paid = is_paid(s, key);
  if (!paid) s->counts.get++;
  const fault f = draw(s, false, false);
  if (!paid && !travel(s, 0, f == F_SLOW, deadline)) return timed_out(err);
  if (f == F_FAIL) return failed(err);
  object *o = find(s, key);
  trace(s, "get", key, o != NULL ? "found" : "missing");
  if (o == NULL) return travel(s, 0, false, deadline) ? lki_fail(err, LAKE_NOTFOUND, "no such object") : timed_out(err);
  uint64_t from = 0, bytes = o->bytes;
  if (range.kind == LAKE_RANGE_EXACT) {
    if (range.offset > o->bytes || range.bytes > o->bytes - range.offset)
      return lki_fail(err, LAKE_CORRUPT, "the object is shorter than the range");
    from = range.offset;
    bytes = range.bytes;
  } else if (range.kind == LAKE_RANGE_SUFFIX && range.bytes < o->bytes) {
    from = o->bytes - range.bytes;
    bytes = range.bytes;
  }
  lake_status status = lki_buffer_reserve(out, (size_t)bytes, err);
  if (status != LAKE_OK) return status;
  if (bytes > 0) memcpy(out->data, o->data + from, (size_t)bytes);
  const uint64_t object_bytes = o->bytes;
  if (!paid) s->counts.read_bytes += bytes;
  if (!paid && !travel(s, range.kind == LAKE_RANGE_WHOLE ? o->cost_bytes : bytes, false, deadline)) return timed_out(err);
  if (f == F_LOST) return failed(err);
  out->bytes = (size_t)bytes;
  if (info != NULL) info->object_bytes = object_bytes;
  return LAKE_OK;
}

static lake_status sim_head(void *self, const char *key, lake_object_info *info, lake_deadline deadline,
                            lake_error *err) {
  connection *c = self;
  lki_simstore *s = c->store;
  s->counts.head++;
  const fault f = draw(s, false, false);
  if (!travel(s, 0, f == F_SLOW, deadline)) return timed_out(err);
  if (f == F_FAIL) return failed(err);
  object *o = find(s, key);
  const bool found = o != NULL;
  const uint64_t object_bytes = found ? o->bytes : 0;
  trace(s, "head", key, found ? "found" : "missing");
  if (!travel(s, 0, false, deadline)) return timed_out(err);
  if (f == F_LOST) return failed(err);
  if (!found) return lki_fail(err, LAKE_NOTFOUND, "no such object");
  if (info != NULL) info->object_bytes = object_bytes;
  return LAKE_OK;
}

typedef struct listed {
  char *key;
  uint64_t bytes;
} listed;

static int by_key(const void *a, const void *b) { return strcmp(((const listed *)a)->key, ((const listed *)b)->key); }

static bool is_listed(const object *o, const char *prefix, const char *after) {
  return strncmp(o->key, prefix, strlen(prefix)) == 0 && (after == NULL || strcmp(o->key, after) > 0);
}

/* A snapshot at one moment, as a consistent listing gives it: one block of the lister's memory, keys behind the array,
 * which goes with it when it is killed in between. */
static size_t snapshot(const connection *c, const char *prefix, const char *after, listed **out) {
  size_t count = 0, text_bytes = 0;
  listed *keys = NULL;
  char *text = NULL;
  for (int pass = 0; pass < 2; pass++) { /* counts, then copies */
    if (pass == 1) {
      keys = must(lki_alloc(lki_process_env(c->process), count * sizeof *keys + text_bytes + 1));
      text = (char *)(keys + count);
      count = 0;
    }
    for (group *g = c->store->groups; g != NULL; g = g->hh.next) {
      size_t n = strlen(g->name), m = strcspn(prefix, "/");
      if (strchr(prefix, '/') != NULL && (n != m || strncmp(g->name, prefix, m) != 0)) continue;
      for (object *o = g->objects; o != NULL; o = o->hh.next) {
        if (!is_listed(o, prefix, after)) continue;
        const size_t key_bytes = strlen(o->key) + 1;
        if (pass == 1) {
          keys[count] = (listed){memcpy(text, o->key, key_bytes), o->bytes};
          text += key_bytes;
        }
        count++;
        text_bytes += key_bytes;
      }
    }
  }
  if (count > 0) qsort(keys, count, sizeof *keys, by_key);
  *out = keys;
  return count;
}

static lake_status sim_list(void *self, const char *prefix, const char *start_after, lake_list_fn *fn, void *ctx,
                            lake_deadline deadline, lake_error *err) {
  connection *c = self;
  lki_simstore *s = c->store;
  s->counts.list++;
  const fault f = draw(s, false, false);
  if (!travel(s, 0, f == F_SLOW, deadline)) return timed_out(err);
  if (f == F_FAIL) return failed(err);
  listed *keys = NULL;
  size_t count = snapshot(c, prefix, start_after, &keys);
  trace(s, "list", prefix, "");
  const bool in_time = travel(s, 0, false, deadline);
  bool more = in_time && f != F_LOST;
  for (size_t i = 0; i < count; i++) {
    /* A thousand keys a page; the next page is another request. */
    if (more && i > 0 && i % 1000 == 0) {
      s->counts.list++;
      more = travel(s, 0, false, deadline) && travel(s, 0, false, deadline);
    }
    if (more) more = fn(ctx, keys[i].key, keys[i].bytes);
  }
  lki_free(lki_process_env(c->process), keys);
  if (!in_time) return timed_out(err);
  return f == F_LOST ? failed(err) : LAKE_OK;
}

static void apply_remove(lki_simstore *s, const char *key) {
  object *o = find(s, key);
  trace(s, "remove", key, o != NULL ? "found" : "missing");
  if (o == NULL) return;
  if (s->observer.removed != NULL) s->observer.removed(s->observer.ctx, key);
  drop(s, o);
}

static lake_status sim_remove(void *self, const char *key, lake_deadline deadline, lake_error *err) {
  connection *c = self;
  lki_simstore *s = c->store;
  s->counts.remove++;
  const fault f = draw(s, false, false);
  if (!travel(s, 0, f == F_SLOW, deadline)) return timed_out(err);
  if (f == F_FAIL) return failed(err);
  apply_remove(s, key);
  if (!travel(s, 0, false, deadline)) return timed_out(err);
  return f == F_LOST ? failed(err) : LAKE_OK;
}

/* What a batch has come to for one of its keys. */
typedef struct removal {
  size_t key;
  bool done;
} removal;

/* An order that the seed chooses. The block is the sender's, and goes with it when it is killed in between. */
static removal *shuffled(const connection *c, size_t count) {
  lki_rng *rng = lki_world_rng(c->store->world);
  removal *order = must(lki_alloc(lki_process_env(c->process), count * sizeof *order));
  for (size_t i = 0; i < count; i++) {
    const size_t j = (size_t)lki_rng_below(rng, i + 1);
    order[i] = order[j];
    order[j] = (removal){i, false};
  }
  return order;
}

/* Between two keys others act, and the sender may be killed: then the rest stays. A key may fail by itself. */
static lake_status sim_remove_many(void *self, const char *const *keys, size_t count, bool *gone, lake_deadline deadline,
                                   lake_error *err) {
  connection *c = self;
  lki_simstore *s = c->store;
  lki_rng *rng = lki_world_rng(s->world);
  s->counts.remove++;
  const fault f = draw(s, false, false);
  if (!travel(s, 0, f == F_SLOW, deadline)) return timed_out(err);
  if (f == F_FAIL) return failed(err);
  removal *order = shuffled(c, count);
  const char *refused = NULL;
  size_t left = count;
  bool in_time = true;
  s->counts.remove_many++;
  s->counts.remove_part++; /* until it has come to its end: a sender that is killed does not come back */
  for (size_t i = 0; i < count && in_time; i++) {
    order[i].done = lki_rng_below(rng, 1000) >= s->faults.fail_before;
    if (order[i].done) apply_remove(s, keys[order[i].key]);
    else refused = keys[order[i].key];
    if (order[i].done && --left == 0) s->counts.remove_part--;
    const uint64_t until_ns = lki_world_now_ns(s->world) + lki_rng_below(rng, s->model.base_ns / 8 + 1);
    in_time = until_ns <= deadline.at_ns;
    lki_world_sleep_until(s->world, in_time ? until_ns : deadline.at_ns);
  }
  in_time = in_time && travel(s, 0, false, deadline);
  for (size_t i = 0; i < count && in_time && f != F_LOST; i++) gone[order[i].key] = order[i].done;
  lki_free(lki_process_env(c->process), order);
  if (!in_time) return timed_out(err);
  if (f == F_LOST) return failed(err);
  return refused == NULL ? LAKE_OK : lki_fail(err, LAKE_UNAVAILABLE, "%s: simulated failure of one of many", refused);
}

static void sim_disconnect(void *self) { lki_free(lki_process_env(((connection *)self)->process), self); }

static const lake_store_ops sim_ops = {
    .size = sizeof(lake_store_ops), .scheme = "sim", .get = sim_get, .put = sim_put,
    .put_if_absent = sim_put_if_absent, .head = sim_head, .list = sim_list, .remove = sim_remove,
    .close = sim_disconnect, .remove_many = sim_remove_many,
};

lki_simstore *lki_simstore_new(lki_world *world, const lki_sim_model *model) {
  lki_simstore *s = calloc(1, sizeof *s);
  if (s == NULL) return NULL;
  s->world = world;
  s->model = *model;
  return s;
}

void lki_simstore_free(lki_simstore *s) {
  if (s == NULL) return;
  group *g, *next_group;
  HASH_ITER(hh, s->groups, g, next_group) {
    object *o, *next;
    HASH_ITER(hh, g->objects, o, next) drop(s, o);
    HASH_DEL(s->groups, g);
    free(g->name);
    free(g);
  }
  flight *f, *next_flight;
  DL_FOREACH_SAFE(s->flights, f, next_flight) end_flight(f); /* the world ended before they landed */
  free(s);
}

void lki_simstore_observe(lki_simstore *s, lki_sim_observer observer) { s->observer = observer; }

void lki_simstore_set_faults(lki_simstore *s, const lki_sim_faults *faults) {
  const lki_sim_faults none = {0};
  s->faults = faults != NULL ? *faults : none;
}

lake_status lki_simstore_connect(lki_simstore *s, lki_process *process, lake_store **out, lake_error *err) {
  lake_env *env = lki_process_env(process);
  connection *c = lki_new(env, sizeof *c);
  if (c == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory");
  c->store = s;
  c->process = process;
  lake_status status = lake_store_wrap(env, &sim_ops, c, "sim:", out, err);
  if (status != LAKE_OK) lki_free(env, c);
  return status;
}

void lki_simstore_set_entries(lki_simstore *s, uint64_t count) { s->entries = count; }
bool lki_simstore_has(lki_simstore *s, const char *key) { return find(s, key) != NULL; }

bool lki_simstore_peek(lki_simstore *s, const char *key, lake_bytes *body) {
  const object *o = find(s, key);
  if (o != NULL) *body = (lake_bytes){o->data, o->bytes};
  return o != NULL;
}

uint64_t lki_simstore_object_count(lki_simstore *s) { return s->object_count; }
const lki_sim_counts *lki_simstore_counts(const lki_simstore *s) { return &s->counts; }

void lki_simstore_trace(lki_simstore *s, void (*line)(void *ctx, const char *text), void *ctx) {
  s->trace = line;
  s->trace_ctx = ctx;
}
