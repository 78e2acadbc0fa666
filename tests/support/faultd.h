/* The fault server (tests/support/faultd/) for tests in C: starts it, gives it rules, asks what happened. Everything
 * asserts; a server that a test forgets ends with the test's process. One thread a server handle, except faultd_ask,
 * which any thread may call. */
#ifndef LAKE_TESTS_FAULTD_H
#define LAKE_TESTS_FAULTD_H

#include "support/support.h"
#include <sys/types.h>

typedef struct faultd {
  char url[64]; /* http://127.0.0.1:PORT, or https */
  int port;
  pid_t pid;
  int input; /* its standard input: closing it ends the server */
} faultd;

/* Starts $LAKE_BIN/faultd --dialect DIALECT with the options that follow, a NULL at their end, and waits until it is
 * ready: faultd_start("s3", "--delay-ms", "20", NULL). */
faultd *faultd_start(const char *dialect, ...) __attribute__((sentinel));
void faultd_stop(faultd *f);

/* Adds rules, one a line: <fault> [op=...] [key=<substring>] [count=N|all] [skip=N] [arg=...]; the 27 faults and what
 * they do without op and count are in faultd/faults.c and faultd/README. */
void faultd_rule(faultd *f, const char *rules);
uint64_t faultd_fired(faultd *f, const char *fault); /* how often */
void faultd_reset(faultd *f);                        /* rules, counters and log; the objects stay */
void faultd_clear(faultd *f);                        /* the objects too */
char *faultd_log(faultd *f);                         /* JSON, one request a line; freed by the caller */
size_t faultd_log_count(faultd *f, const char *part); /* lines of the log that have this part */

/* One request on a connection of its own, without any store's code. */
typedef struct faultd_answer {
  int status;     /* 0: the connection ended before a reply's head did */
  char *head;     /* the status line and the headers; "" without */
  char *body;     /* what came of the body, with a zero byte behind it */
  size_t bytes;
  bool complete;  /* the body has exactly its Content-Length and the connection was not broken */
  bool reset;
} faultd_answer;

/* headers: whole lines, "Name: value\r\n" each, or NULL. The body is sent with its Content-Length unless it is NULL.
 * The answer is read until the peer closes, and freed with faultd_answer_free. */
faultd_answer faultd_ask(const faultd *f, const char *method, const char *target, const char *headers,
                         const char *body);
/* The two halves of it: the socket in between; faultd_receive closes it. */
int faultd_send(const faultd *f, const char *method, const char *target, const char *headers, const char *body);
faultd_answer faultd_receive(int fd, const char *method);
void faultd_answer_free(faultd_answer *a);
/* Whether the answer has this header, in any case; its value in out. */
bool faultd_answer_header(const faultd_answer *a, const char *name, char *out, size_t out_max);

#endif
