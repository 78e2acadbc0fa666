/* The newest requests, as JSON objects. What is secret in a request is left out: the log may be shown. */
#include "server.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 4096

typedef struct log_entry {
  uint64_t id;
  text head; /* all but how it ended */
  int status;
  fault before, after;
  bool ended;
} log_entry;

struct request_log {
  pthread_mutex_t lock;
  uint64_t next_id, first_id;
  log_entry ring[ENTRIES_MAX];
};

request_log *request_log_new(void) {
  request_log *l = must_alloc(sizeof *l);
  pthread_mutex_init(&l->lock, NULL);
  return l;
}

static bool worth_showing(const char *name) {
  static const char *const NAMES[] = {"range", "if-match", "if-none-match", "content-length", "content-type", "content-md5",
                                      "expect", "accept-encoding", "host", "date", "user-agent", "connection"};
  if (strstr(name, "token") != NULL || strstr(name, "customer-key") != NULL) return false;
  if (strncmp(name, "x-", 2) == 0) return true;
  for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
    if (strcmp(name, NAMES[i]) == 0) return true;
  return false;
}

/* A target may hold a signature or a token of its own. */
static void put_target(text *t, const char *target) {
  static const char *const SECRETS[] = {"sig=", "X-Amz-Signature=", "X-Goog-Signature=", "X-Amz-Security-Token="};
  text shown = {0};
  while (*target) {
    text_put(&shown, target, 1);
    const char begin = *target++;
    if (begin != '?' && begin != '&') continue;
    for (size_t i = 0; i < sizeof SECRETS / sizeof *SECRETS; i++) {
      if (strncmp(target, SECRETS[i], strlen(SECRETS[i])) != 0) continue;
      text_add(&shown, "%s***", SECRETS[i]);
      target += strcspn(target, "&");
    }
  }
  text_json(t, text_of(&shown));
  text_free(&shown);
}

static void put_head(text *t, const conn *c, const request *q) {
  text_add(t, "\"connection\":%llu,\"method\":\"%s\",\"op\":\"%s\",\"target\":\"", (unsigned long long)c->number,
           q->method, op_name(q->op));
  put_target(t, q->target);
  text_add(t, "\",\"headers\":{");
  const char *authorization = request_header(q, "authorization");
  text_add(t, "\"authorization\":\"%s\"", authorization != NULL ? "present" : "absent");
  for (size_t i = 0; i < q->header_count; i++) {
    if (!worth_showing(q->headers[i].name)) continue;
    text_add(t, ",\"");
    text_json(t, q->headers[i].name);
    text_add(t, "\":\"");
    text_json(t, q->headers[i].value);
    text_add(t, "\"");
  }
  text_add(t, "}");
}

uint64_t request_log_add(request_log *l, const conn *c, const request *q) {
  text head = {0};
  put_head(&head, c, q);
  pthread_mutex_lock(&l->lock);
  const uint64_t id = l->next_id++;
  log_entry *e = &l->ring[id % ENTRIES_MAX];
  text_free(&e->head);
  *e = (log_entry){.id = id, .head = head, .before = FAULT_NONE, .after = FAULT_NONE};
  pthread_mutex_unlock(&l->lock);
  return id;
}

void request_log_end(request_log *l, uint64_t id, int status, fault before, fault after) {
  pthread_mutex_lock(&l->lock);
  log_entry *e = &l->ring[id % ENTRIES_MAX];
  if (e->id == id) e->status = status, e->before = before, e->after = after, e->ended = true;
  pthread_mutex_unlock(&l->lock);
}

void request_log_report(request_log *l, text *json) {
  pthread_mutex_lock(&l->lock);
  uint64_t from = l->next_id > ENTRIES_MAX ? l->next_id - ENTRIES_MAX : 0;
  if (from < l->first_id) from = l->first_id;
  text_add(json, "[");
  for (uint64_t id = from; id < l->next_id; id++) {
    const log_entry *e = &l->ring[id % ENTRIES_MAX];
    text_add(json, "%s{\"n\":%llu,%s", id == from ? "\n" : ",\n", (unsigned long long)id, text_of(&e->head));
    if (e->before != FAULT_NONE) text_add(json, ",\"fault\":\"%s\"", fault_name(e->before));
    if (e->after != FAULT_NONE) text_add(json, ",\"reply_fault\":\"%s\"", fault_name(e->after));
    /* Status 0: no reply was sent, or not yet. */
    text_add(json, ",\"status\":%d,\"ended\":%s}", e->status, e->ended ? "true" : "false");
  }
  text_add(json, "\n]\n");
  pthread_mutex_unlock(&l->lock);
}

void request_log_reset(request_log *l) {
  pthread_mutex_lock(&l->lock);
  l->first_id = l->next_id; /* ids go on, so that a request that is still served ends its own entry */
  pthread_mutex_unlock(&l->lock);
}
