/* What tests say to the server itself: POST /_faults (rules), GET /_faults (how often each fired), POST /_reset (no
 * rules, counters at 0, an empty log; with the body "objects" no objects either), GET /_log (the requests seen). */
#include "server.h"
#include <stdlib.h>
#include <string.h>

void control_answer(server *s, request *q, reply *r) {
  const bool post = strcmp(q->method, "POST") == 0, get = strcmp(q->method, "GET") == 0;
  char *body = must_copy((const char *)q->body->data, q->body->bytes);
  r->status = 200;
  if (post && strcmp(q->path, "/_faults") == 0) {
    if (!faults_add(s->rules, body, &r->page)) r->status = 400;
  } else if (post && strcmp(q->path, "/_reset") == 0) {
    faults_reset(s->rules);
    request_log_reset(s->log);
    if (strncmp(body, "objects", 7) == 0) table_clear(s->objects);
  } else if (get && strcmp(q->path, "/_faults") == 0) {
    faults_report(s->rules, &r->page);
  } else if (get && strcmp(q->path, "/_log") == 0) {
    request_log_report(s->log, &r->page);
  } else {
    r->status = 404;
    text_add(&r->page, "POST or GET /_faults, POST /_reset, GET /_log\n");
  }
  reply_header(r, "Content-Type", r->page.bytes > 0 && (*r->page.data == '{' || *r->page.data == '[')
                                      ? "application/json" : "text/plain");
  free(body);
}
