/* One connection's life: requests are read, met by the faults that the rules ask for, answered by the dialect. Runs in
 * the connection's own thread. */
#include "server.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define CLOCK_TOLERANCE_S 900
#define DRIP_MS_DEFAULT 50
#define EXTRA_BYTES 7

void refuse(const server *s, const request *q, reply *r, refusal why) {
  const refusal_text *t = &s->options.dialect->refusals[why];
  reply_free(r);
  *r = (reply){0};
  if (why == REFUSE_REGION && s->options.region != NULL) reply_header(r, "x-amz-bucket-region", "%s", s->options.region);
  s->options.dialect->error(q, r, t->status, t->code, t->message);
}

/* ---- what dialects share ---- */

bool object_put(server *s, const request *q, blob *b) {
  put_condition condition = q->conditional ? PUT_IF_ABSENT : PUT_ALWAYS;
  if (condition == PUT_IF_ABSENT && q->condition_ignored) condition = PUT_ALWAYS;
  if (condition == PUT_IF_ABSENT && q->condition_inverted) condition = PUT_IF_PRESENT;
  if (q->held) {
    table_hold(s->objects, q->name, b, condition);
    return true;
  }
  return table_put(s->objects, q->name, b, condition);
}

blob *object_get(server *s, const request *q) {
  return q->stale ? table_get_stale(s->objects, q->name) : table_get(s->objects, q->name);
}

bool object_send(const request *q, reply *r, blob *object, const char *range) {
  const range_kind kind = range_parse(range, object->bytes, &r->from, &r->bytes);
  if (kind == RANGE_OUTSIDE) {
    text_free(&r->headers); /* those of the object */
    reply_header(r, "Content-Range", "bytes */%zu", object->bytes);
    blob_drop(object);
    return false;
  }
  r->object = object;
  r->status = kind == RANGE_SOME ? 206 : 200;
  r->ranged = kind == RANGE_SOME;
  r->no_body = q->op == OP_HEAD;
  return true;
}

size_t page_limit(const server *s, const char *asked, size_t most) {
  size_t limit = asked != NULL && *asked ? (size_t)strtoull(asked, NULL, 10) : most;
  if (limit > most) limit = most;
  return s->options.page_max > 0 && limit > s->options.page_max ? s->options.page_max : limit;
}

blob *blob_join(blob **parts, size_t count) {
  size_t bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += parts[i]->bytes;
  blob *whole = blob_new(bytes);
  for (size_t i = 0, at = 0; i < count; at += parts[i++]->bytes)
    memcpy(whole->data + at, parts[i]->data, parts[i]->bytes);
  for (size_t i = 0; i < count; i++) blob_drop(parts[i]);
  return whole;
}

bool etag_fits(const char *value, const blob *object) {
  if (strcmp(value, "*") == 0) return true;
  const size_t bytes = strlen(object->etag);
  if (*value == '"') return strncmp(value + 1, object->etag, bytes) == 0 && strcmp(value + 1 + bytes, "\"") == 0;
  return strcmp(value, object->etag) == 0;
}

/* ---- faults before, instead of and after the answer ---- */

/* The refusal that stands for a fault; REFUSE_LIMIT for faults of other kinds. */
static refusal refusal_of(fault which) {
  switch (which) {
  case FAULT_ERROR_500: return REFUSE_BROKEN;
  case FAULT_SLOWDOWN: return REFUSE_SLOWDOWN;
  case FAULT_THROTTLE: return REFUSE_THROTTLED;
  case FAULT_UNDECIDED: return REFUSE_UNDECIDED;
  case FAULT_EXPIRED_TOKEN: return REFUSE_EXPIRED;
  case FAULT_DENY: return REFUSE_PERMISSION;
  case FAULT_ERROR_200: return REFUSE_BROKEN;
  case FAULT_LATE_PUT: return REFUSE_BROKEN;
  default: return REFUSE_LIMIT;
  }
}

static void answer(server *s, request *q, reply *r) {
  s->options.dialect->answer(s, q, r);
  if (r->missing && (q->op == OP_GET || q->op == OP_HEAD)) table_land(s->objects, q->name);
}

/* Fills the reply by the fault that was hit before; false when there will be no reply. A fault that refuses does so
 * without doing anything, unless its arg is "applied". */
static bool answer_with(server *s, request *q, reply *r, const fault_hit *hit) {
  const bool of_keys = hit->which == FAULT_ERROR_200 && strchr(hit->arg, ':') != NULL;
  const refusal instead = of_keys ? REFUSE_LIMIT : refusal_of(hit->which);
  q->key_fault = of_keys ? hit->arg : NULL;
  q->held = hit->which == FAULT_LATE_PUT;
  q->stale = hit->which == FAULT_STALE_MANIFEST;
  q->condition_ignored = hit->which == FAULT_IGNORE_CONDITION;
  q->condition_inverted = hit->which == FAULT_INVERT_CONDITION;
  if (hit->which == FAULT_STALE_LIST) q->list_undo = hit->arg[0] ? (unsigned)strtoul(hit->arg, NULL, 10) : 1;
  if (instead == REFUSE_LIMIT || q->held || strcmp(hit->arg, "applied") == 0) answer(s, q, r);
  if (hit->which == FAULT_DUPLICATE) {
    reply_free(r);
    *r = (reply){0};
    answer(s, q, r);
  }
  if (hit->which == FAULT_DROP_REPLY || (q->held && strcmp(hit->arg, "drop") == 0)) return false;
  if (instead != REFUSE_LIMIT) refuse(s, q, r, instead);
  if (hit->which == FAULT_ERROR_200 && !of_keys) r->status = 200;
  if (instead == REFUSE_SLOWDOWN || instead == REFUSE_THROTTLED)
    reply_header(r, "Retry-After", "%s", hit->arg[0] >= '0' && hit->arg[0] <= '9' ? hit->arg : "1");
  return true;
}

/* What a fault makes of a reply that is ready; the shape is how its body goes out. */
static body_shape spoil(const server *s, const request *q, reply *r, const fault_hit *hit) {
  switch (hit->which) {
  case FAULT_TAKEN_409: refuse(s, q, r, REFUSE_TAKEN_409); break;
  case FAULT_TAKEN_304:
    reply_free(r);
    *r = (reply){.status = 304};
    break;
  case FAULT_RANGE_IGNORED:
    r->status = 200, r->ranged = false;
    r->from = 0, r->bytes = r->object->bytes;
    break;
  case FAULT_RANGE_WRONG: r->range_lie = hit->arg[0] ? strtoull(hit->arg, NULL, 10) : 1; break;
  case FAULT_EXTRA_BYTES:
    if (strcmp(hit->arg, "range") != 0 || !r->ranged) return BODY_EXTRA;
    /* A longer range than was asked for, honestly told: behind it where the object goes on, else before it. */
    if (r->from + r->bytes + EXTRA_BYTES <= r->object->bytes) r->bytes += EXTRA_BYTES;
    else r->from -= r->from < EXTRA_BYTES ? r->from : EXTRA_BYTES, r->bytes = r->object->bytes - r->from;
    break;
  case FAULT_SHORT_BODY: return BODY_SHORT;
  case FAULT_CLOSE_DELIMITED: return BODY_CLOSE_DELIMITED;
  case FAULT_BIT_FLIP: return BODY_FLIPPED;
  case FAULT_RESET: return BODY_RESET;
  case FAULT_DRIP: return BODY_DRIP;
  default: break;
  }
  return BODY_TRUE;
}

/* What there is of a reply for a fault to spoil. */
static int spoilable(const reply *r) {
  const bool body = r->status / 100 == 2 && !r->no_body && (r->object != NULL ? r->bytes : r->page.bytes) > 0;
  return (r->taken ? NEED_TAKEN : 0) | (body ? NEED_BODY : 0) | (body && r->ranged ? NEED_RANGE : 0);
}

/* The date by which a request says that it was signed; false when it has none. */
static bool request_date(const request *q, int64_t *unix_s) {
  static const char *const NAMES[] = {"x-amz-date", "x-goog-date", "x-ms-date", "date"};
  for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
    const char *value = request_header(q, NAMES[i]);
    if (value != NULL) return date_parse(value, unix_s);
  }
  return false;
}

/* Only requests that are signed go stale: a bearer token needs no date. */
static bool too_skewed(const server *s, const request *q, int64_t now_unix_s, int64_t skew_s) {
  const char *authorization = request_header(q, "authorization");
  int64_t date = 0;
  if ((s->options.auth_key == NULL && skew_s == 0) || !request_date(q, &date)) return false;
  if (authorization != NULL && strncasecmp(authorization, "Bearer ", 7) == 0) return false;
  return date < now_unix_s - CLOCK_TOLERANCE_S || date > now_unix_s + CLOCK_TOLERANCE_S;
}

/* ---- requests ---- */

/* What becomes of the connection. */
typedef enum fate { FATE_LIVE, FATE_CLOSE, FATE_RESET } fate;

static void add_request_id(server *s, reply *r) {
  const dialect *d = s->options.dialect;
  const char *name = d == &dialect_s3 ? "x-amz-request-id" : d == &dialect_gcs ? "x-guploader-uploadid" : "x-ms-request-id";
  reply_header(r, name, "%016llX", atomic_fetch_add(&s->request_count, 1) + 1);
}

/* Spoils and sends what was answered. before: the fault that was met so far. */
static fate send_reply(server *s, conn *c, const request *q, reply *r, int64_t now_unix_s, uint64_t entry, fault before) {
  fault_hit hit = {.which = FAULT_NONE};
  faults_take(s->rules, spoilable(r), q, &hit);
  const body_shape shape = spoil(s, q, r, &hit);
  const int drip_ms = hit.which == FAULT_DRIP && hit.arg[0] ? (int)strtol(hit.arg, NULL, 10) : DRIP_MS_DEFAULT;
  request_log_end(s->log, entry, r->status, before, hit.which); /* whoever has the reply finds it in the log */
  add_request_id(s, r);
  if (strcmp(q->method, "HEAD") == 0) r->no_body = true;
  const bool alive = reply_send(c, q, r, shape, drip_ms, now_unix_s);
  return shape == BODY_RESET ? FATE_RESET : alive ? FATE_LIVE : FATE_CLOSE;
}

static fate serve_object(server *s, conn *c, request *q) {
  reply r = {0};
  fault_hit hit = {.which = FAULT_NONE};
  refusal why = REFUSE_LIMIT;
  s->options.dialect->classify(s, q);
  const uint64_t entry = request_log_add(s->log, c, q);
  faults_take(s->rules, NEED_NOTHING, q, &hit);
  const int64_t skew_s = faults_skew(s->rules, q);
  const int64_t now_unix_s = (int64_t)time(NULL) + skew_s;
  if (hit.which == FAULT_STALL) conn_wait(c, -1);
  if (hit.which == FAULT_STALL || hit.which == FAULT_DROP_REQUEST) goto done;
  if (s->options.delay_ms > 0 && !conn_wait(c, s->options.delay_ms)) goto done;
  if (too_skewed(s, q, now_unix_s, skew_s)) refuse(s, q, &r, REFUSE_SKEWED);
  else if (!auth_check(s, q, now_unix_s, &why)) refuse(s, q, &r, why);
  else if (!answer_with(s, q, &r, &hit)) goto done;
  const fate end = send_reply(s, c, q, &r, now_unix_s, entry, hit.which);
  reply_free(&r);
  return end;
done:
  request_log_end(s->log, entry, 0, hit.which, FAULT_NONE);
  reply_free(&r);
  return FATE_CLOSE;
}

/* Rules and questions about them; in clear also where the objects are behind TLS. */
static fate serve_control(server *s, conn *c, request *q) {
  reply r = {0};
  q->op = OP_COUNT;
  control_answer(s, q, &r);
  const bool alive = reply_send(c, q, &r, BODY_TRUE, 0, (int64_t)time(NULL));
  reply_free(&r);
  return alive ? FATE_LIVE : FATE_CLOSE;
}

static fate refuse_garbage(conn *c, const request *q, int status) {
  reply r = {.status = status};
  reply_send(c, q, &r, BODY_TRUE, 0, (int64_t)time(NULL));
  reply_free(&r);
  return FATE_CLOSE;
}

void serve_connection(server *s, conn *c) {
  fate end = FATE_LIVE;
  while (end == FATE_LIVE) {
    request q;
    const int status = request_read(c, &q);
    if (status == 0) end = FATE_CLOSE;
    else if (status != 1) end = refuse_garbage(c, &q, status);
    else if (strncmp(q.path, "/_", 2) == 0) end = serve_control(s, c, &q);
    else if (s->tls != NULL && c->ssl == NULL) end = refuse_garbage(c, &q, 400);
    else end = serve_object(s, c, &q);
    request_free(&q);
  }
  if (end == FATE_RESET) conn_reset(c);
  else conn_close(c);
}
