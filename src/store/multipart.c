/* Large objects in parts, several on their way at once. The parts are views of the caller's bytes: nothing is
 * copied. A part that failed in passing is sent again by itself, since the whole object would cost a hundred
 * times as much; when that does not help, the upload is given up and aborted, and the door may begin anew.
 * The object appears whole with the last request or not at all. Threads: the caller's does everything but the
 * completions, which only count. */
#include "base/env.h"
#include "base/error.h"
#include "store/cloud.h"
#include "store/retry.h"
#include <stdio.h>
#include <string.h>

#define PART_COUNT_MAX 10000u
#define LANE_COUNT 8u
#define PART_TRIES_MAX 3u

/* One part on its way. */
typedef struct lane {
  struct upload *upload;
  bool busy;
  bool done; /* guarded by the upload's lock */
  lki_retry retry;
  lki_ask ask;
  lki_try t;
  lki_http_call call;
} lane;

typedef struct upload {
  lki_cloud_store *store;
  const lki_dialect *dialect;
  const char *name;
  const char *upload_id;
  lake_bytes body;
  size_t part_bytes;
  uint32_t part_count, next_part;
  lake_deadline deadline;
  lki_arena arena;
  char (*etags)[128];
  lki_mutex *lock;
  lki_cond *cond; /* a lane is done */
  lane *lanes;
} upload;

static void ask_of(const upload *u, lki_verb verb, lki_ask *ask) {
  memset(ask, 0, sizeof *ask);
  ask->dialect = u->dialect;
  ask->verb = verb;
  ask->name = u->name;
  ask->upload_id = u->upload_id;
  ask->deadline = u->deadline;
}

static lake_status begin_upload(upload *u, lake_error *err) {
  if (u->dialect->upload_begun ==
      NULL) { /* ours to choose; no two uploads of one object may share their parts */
    char text[33];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)lki_random_u64(u->store->env));
    u->upload_id = lki_arena_strndup(&u->arena, text, strlen(text));
    return u->upload_id != NULL ? LAKE_OK : lki_fail(err, LAKE_NOMEM, "out of memory for an upload");
  }
  lki_http_reply reply;
  lki_ask ask;
  lake_buffer body;
  ask_of(u, LKI_VERB_UPLOAD_BEGIN, &ask);
  lki_buffer_init(&body, u->store->env, 65536);
  ask.sink = &body;
  lake_status s = lki_cloud_exchange(u->store, &ask, &reply, err);
  if (s == LAKE_OK) s = u->dialect->upload_begun(&u->arena, lki_buffer_view(&body), &u->upload_id, err);
  lki_buffer_free(&body);
  return s;
}

static void part_done(lki_http_call *call) {
  lane *l = call->ctx;
  upload *u = l->upload;
  lki_lock(u->store->env, u->lock);
  l->done = true;
  lki_signal(u->store->env, u->cond);
  lki_unlock(u->store->env, u->lock);
}

static lake_status send_part(upload *u, lane *l, lake_error *err) {
  lake_status s = lki_try_prepare(u->store, &l->ask, &l->t, err);
  if (s != LAKE_OK) return s;
  memset(&l->call, 0, sizeof l->call);
  l->call.request = l->t.http;
  l->call.done = part_done;
  l->call.ctx = l;
  l->done = false;
  l->busy = true;
  lki_http_submit(u->store->http, &l->call);
  return LAKE_OK;
}

static lake_status start_next(upload *u, lane *l, lake_error *err) {
  const size_t at = (size_t)u->next_part * u->part_bytes;
  const size_t left = u->body.bytes - at;
  ask_of(u, LKI_VERB_UPLOAD_PART, &l->ask);
  l->ask.part = ++u->next_part;
  l->ask.body = (lake_bytes){(const char *)u->body.data + at, left < u->part_bytes ? left : u->part_bytes};
  memset(&l->t, 0, sizeof l->t);
  lki_retry_init(&l->retry, u->store->env, NULL, u->deadline);
  return send_part(u, l, err);
}

/* A lane's call is over: the part is there, or is sent again, or ends the upload. */
static lake_status finish_part(upload *u, lane *l, lake_error *err) {
  l->busy = false;
  lake_status s = LAKE_OK;
  lki_error_copy(err, &l->call.error);
  if (lki_try_again(u->store, &l->ask, &l->t, l->call.status, &l->call.reply, &s, err))
    return send_part(u, l, err);
  if (s == LAKE_OK)
    memcpy(u->etags[l->ask.part - 1], l->call.reply.etag, sizeof u->etags[0]);
  else if (l->retry.try_count < PART_TRIES_MAX && lki_retry_again(&l->retry, s))
    return send_part(u, l, err);
  return s;
}

static lane *wait_for_lane(upload *u) {
  lane *found = NULL;
  lki_lock(u->store->env, u->lock);
  while (found == NULL) {
    for (uint32_t i = 0; i < LANE_COUNT && found == NULL; i++)
      if (u->lanes[i].busy && u->lanes[i].done) found = &u->lanes[i];
    if (found == NULL)
      (void)lki_wait(u->store->env, u->cond, u->lock, LKI_NEVER); /* each call has its deadline */
  }
  lki_unlock(u->store->env, u->lock);
  return found;
}

static uint32_t busy_count(const upload *u) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < LANE_COUNT; i++) count += u->lanes[i].busy;
  return count;
}

static lake_status send_parts(upload *u, lake_error *err) {
  lake_status s = LAKE_OK;
  for (;;) {
    for (uint32_t i = 0; i < LANE_COUNT && s == LAKE_OK && u->next_part < u->part_count; i++)
      if (!u->lanes[i].busy) s = start_next(u, &u->lanes[i], err);
    if (busy_count(u) == 0) break;
    if (s != LAKE_OK) /* the others need not run to their end */
      for (uint32_t i = 0; i < LANE_COUNT; i++)
        if (u->lanes[i].busy) lki_http_cancel(u->store->http, &u->lanes[i].call);
    lane *l = wait_for_lane(u);
    if (s == LAKE_OK)
      s = finish_part(u, l, err);
    else
      l->busy = false;
    if (!l->busy) lki_try_release(u->store, &l->t);
  }
  return s;
}

static lake_status complete(upload *u, lake_error *err) {
  lki_http_reply reply;
  lki_ask ask;
  ask_of(u, LKI_VERB_UPLOAD_COMPLETE, &ask);
  lake_status s =
      u->dialect->upload_manifest(&u->arena, u->upload_id, u->etags, u->part_count, &ask.body, err);
  if (s == LAKE_OK) s = lki_cloud_exchange(u->store, &ask, &reply, err);
  /* The status line comes before the work is done, so a good one is not enough. */
  const char *mark = u->dialect->upload_done;
  if (s == LAKE_OK && mark != NULL && strstr(reply.text, mark) == NULL)
    s = lki_fail(err, LAKE_UNCERTAIN, "the reply to the last request of an upload in parts does not tell what became of it");
  return s;
}

/* Parts that nobody completes cost money for ever. What this cannot abort any more, reclaim does. */
static void abort_parts(upload *u) {
  lki_http_reply reply;
  lki_ask ask;
  if (!u->dialect->uploads || u->upload_id == NULL) return;
  ask_of(u, LKI_VERB_UPLOAD_ABORT, &ask);
  (void)lki_cloud_exchange(u->store, &ask, &reply, NULL);
}

lake_status lki_cloud_put_parts(lki_cloud_store *store, const lki_dialect *dialect, const char *name,
                                lake_bytes body, lake_deadline deadline, lake_error *err) {
  lake_env *env = store->env;
  upload u = {.store = store, .dialect = dialect, .name = name, .body = body, .deadline = deadline};
  lki_arena_init(&u.arena, env);
  const size_t least = (body.bytes + PART_COUNT_MAX - 1) / PART_COUNT_MAX;
  u.part_bytes = store->settings.part_bytes > least ? (size_t)store->settings.part_bytes : least;
  u.part_count = (uint32_t)((body.bytes + u.part_bytes - 1) / u.part_bytes);
  u.etags = lki_arena_alloc(&u.arena, u.part_count * sizeof u.etags[0]);
  u.lanes = lki_arena_alloc(&u.arena, LANE_COUNT * sizeof u.lanes[0]);
  u.lock = lki_mutex_open(env);
  u.cond = lki_cond_open(env);
  lake_error e = LAKE_ERROR_INIT;
  lake_status s = LAKE_OK;
  if (u.etags == NULL || u.lanes == NULL || u.lock == NULL || u.cond == NULL) {
    s = lki_fail(&e, LAKE_NOMEM, "out of memory for an upload of %u parts", u.part_count);
    goto done;
  }
  for (uint32_t i = 0; i < LANE_COUNT; i++) u.lanes[i].upload = &u;
  s = begin_upload(&u, &e);
  if (s == LAKE_OK) s = send_parts(&u, &e);
  if (s == LAKE_OK) s = complete(&u, &e);
  if (s != LAKE_OK) abort_parts(&u);
done:
  if (s != LAKE_OK) lki_error_copy(err, &e);
  lki_cond_close(env, u.cond);
  lki_mutex_close(env, u.lock);
  lki_arena_free(&u.arena);
  return s;
}

lake_status lki_cloud_abort_upload(void *self, const char *key, const char *upload_id, lake_deadline deadline,
                                   lake_error *err) {
  lki_cloud_store *store = self;
  char name[LKI_OBJECT_NAME_BYTES_MAX + 1];
  lki_http_reply reply;
  lki_ask ask = {.verb = LKI_VERB_UPLOAD_ABORT, .name = name, .upload_id = upload_id, .deadline = deadline};
  lake_status s = lki_check_process(store->env, "the store", err);
  if (s == LAKE_OK) s = lki_cloud_name(store, key, name, err);
  if (s == LAKE_OK) s = lki_cloud_dialect(store, deadline, &ask.dialect, err);
  if (s == LAKE_OK && !ask.dialect->uploads) return LAKE_OK;
  return s == LAKE_OK ? lki_cloud_exchange(store, &ask, &reply, err) : s;
}
