/* The producer's upload threads: take the next appended TGB, make its object durable, tell the committer. A failing
 * store is retried for as long as the producer lives, since giving up would lose what append accepted; flush's
 * deadline is where the caller learns of it. */
#include "base/planted.h"
#include "client/producer.h"
#include "tgb/tgb.h"

static void note_trouble_locked(lake_producer *p, const lake_error *err) {
  p->synced.trouble = *err;
  p->synced.trouble_count++;
  lki_broadcast(p->env, p->synced.progress);
}

/* Sends one object until it is durable or the producer closes. Called and returns with the lock held. */
static void upload_locked(lake_producer *p, lki_pending *item) {
  uint64_t backoff_ns = 100u * 1000 * 1000;
  while (!p->synced.closing) {
    const bool announces = p->carries && p->synced.policy.active > 1; /* alone there is nobody to tell */
    lki_unlock(p->env, p->synced.lock);
    if (LKI_PLANTED(ANNOUNCED_EARLY) && announces) lki_free(p->env, lki_announce(p, item));
    lake_error err = LAKE_ERROR_INIT;
    lake_deadline deadline = {lki_after_ns(p->env, LKI_STORE_CALL_NS)};
    lake_status s = lki_tgb_write(p->ns->store, p->id, p->epoch, item->seq, lki_buffer_view(&item->object), deadline,
                                  &err);
    char *announced = s == LAKE_OK && announces && !atomic_load(&p->stop) ? lki_announce(p, item) : NULL;
    lki_lock(p->env, p->synced.lock);
    if (s == LAKE_OK) {
      item->announced = announced;
      p->synced.upload_bytes -= item->object.capacity;
      p->synced.trouble.status = LAKE_OK;
      lki_buffer_free(&item->object);
      item->durable = true;
      lki_pending **ring = p->synced.ring;
      while (p->synced.durable_end < p->synced.upload_next &&
             ring[p->synced.durable_end % p->pending_count_max]->durable)
        p->synced.durable_end++;
      lki_broadcast(p->env, p->synced.work);
      lki_broadcast(p->env, p->synced.progress);
      return;
    }
    note_trouble_locked(p, &err);
    uint64_t until_ns = lki_after_ns(p->env, backoff_ns / 2 + (uint64_t)((double)(backoff_ns / 2) *
                                                                         lki_random_unit(p->env)));
    if (backoff_ns < 5u * 1000 * 1000 * 1000ull) backoff_ns *= 2;
    while (!p->synced.closing && lki_wait(p->env, p->synced.work, p->synced.lock, until_ns)) {
    }
  }
}

void lki_producer_upload_main(void *arg) {
  lake_producer *p = arg;
  lki_lock(p->env, p->synced.lock);
  while (!p->synced.closing) {
    if (p->synced.upload_next == p->synced.next || p->synced.fatal.status != LAKE_OK) {
      lki_wait(p->env, p->synced.work, p->synced.lock, LKI_NEVER); /* ended by append or close */
      continue;
    }
    lki_pending *item = p->synced.ring[p->synced.upload_next++ % p->pending_count_max];
    upload_locked(p, item);
  }
  lki_unlock(p->env, p->synced.lock);
}
