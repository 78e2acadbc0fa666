/* faultd: an object store for tests that speaks S3, GCS (its XML API) or Azure over real sockets, has an exact
 * create-if-absent, and misbehaves by rules (POST /_faults, see faults.h and control.c).
 *
 *   faultd --dialect s3|gcs|azure [--port N] [--delay-ms N] [--tls CERT KEY] [--auth KEY SECRET] [--token T]
 *          [--region R] [--page ROWS] [--part-min BYTES] [--versioned] [--suspended]
 *          [--no-delete-many 400|405|501]
 *
 * Prints its URL when it is ready and ends on SIGTERM or, where its standard input is a pipe, when that ends, so that
 * no test leaves it behind. Objects are in memory; every connection has a thread. --auth: requests must be signed with this key (for
 * azure: account and base64 key); --token: the session token of such requests, or the bearer token of others; --region:
 * a request signed for another one gets a 301; --delay-ms: before each reply. */
#define _GNU_SOURCE
#include "server.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define STACK_BYTES (512 * 1024)
#define PART_MIN_DEFAULT (5u << 20)

static void usage(const char *wrong) {
  fprintf(stderr, "faultd: %s\n"
                  "usage: faultd --dialect s3|gcs|azure [--port N] [--delay-ms N] [--tls CERT KEY] [--auth KEY SECRET]\n"
                  "              [--token T] [--region R] [--page ROWS] [--part-min BYTES] [--versioned] [--suspended]\n"
                  "              [--no-delete-many 400|405|501]\n", wrong);
  exit(2);
}

static long number(const char *value) {
  char *end = NULL;
  const long n = strtol(value, &end, 10);
  if (*value < '0' || *value > '9' || *end) usage("not a number");
  return n;
}

static const dialect *dialect_of(const char *name) {
  static const dialect *const ALL[] = {&dialect_s3, &dialect_gcs, &dialect_azure};
  for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++)
    if (strcmp(name, ALL[i]->name) == 0) return ALL[i];
  usage("no such dialect");
  return NULL;
}

static void parse_options(server_options *o, char **at) {
  *o = (server_options){.part_min = PART_MIN_DEFAULT};
  for (; *at != NULL; at++) {
    const char *name = *at, *value = at[1], *second = value != NULL ? at[2] : NULL;
    if (strcmp(name, "--versioned") == 0) {
      o->versioned = true;
      continue;
    }
    if (strcmp(name, "--suspended") == 0) { /* says so of its versioning, and keeps none */
      o->suspended = true;
      continue;
    }
    if (value == NULL) usage(name);
    at++;
    if (strcmp(name, "--dialect") == 0) o->dialect = dialect_of(value);
    else if (strcmp(name, "--port") == 0) o->port = (int)number(value);
    else if (strcmp(name, "--delay-ms") == 0) o->delay_ms = (int)number(value);
    else if (strcmp(name, "--token") == 0) o->token = value;
    else if (strcmp(name, "--region") == 0) o->region = value;
    else if (strcmp(name, "--page") == 0) o->page_max = (size_t)number(value);
    else if (strcmp(name, "--no-delete-many") == 0) o->no_delete_many = (int)number(value);
    else if (strcmp(name, "--part-min") == 0) o->part_min = (size_t)number(value);
    else if (second != NULL && strcmp(name, "--tls") == 0) o->tls_cert = value, o->tls_key = second, at++;
    else if (second != NULL && strcmp(name, "--auth") == 0) o->auth_key = value, o->auth_secret = second, at++;
    else usage(name);
  }
  if (o->dialect == NULL) usage("--dialect is missing");
}

/* What a connection's thread is given. */
typedef struct visit {
  server *s;
  int fd;
  uint64_t number;
} visit;

static void *run_connection(void *arg) {
  visit v = *(visit *)arg;
  free(arg);
  conn *c = conn_open(v.fd, v.number, v.s->tls);
  if (c != NULL) serve_connection(v.s, c);
  return NULL;
}

static void accept_one(server *s, int listener, uint64_t nth, const pthread_attr_t *detached) {
  pthread_t thread;
  const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) return;
  visit *v = must_alloc(sizeof *v);
  *v = (visit){s, fd, nth};
  if (pthread_create(&thread, detached, run_connection, v) == 0) return;
  close(fd);
  free(v);
}

/* The end of a pipe tells that whoever started this has ended; of /dev/null and terminals nothing follows. */
static int watched_input(void) {
  struct stat st;
  return fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) ? STDIN_FILENO : -1;
}

int main(int argc, char **argv) {
  (void)argc;
  server s = {0};
  parse_options(&s.options, argv + 1);
  signal(SIGPIPE, SIG_IGN);
  s.objects = table_new();
  s.rules = faults_new();
  s.log = request_log_new();
  if (s.options.tls_cert != NULL) s.tls = tls_open(s.options.tls_cert, s.options.tls_key);
  int port = 0;
  const int listener = listen_local(s.options.port, &port);
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&detached, STACK_BYTES);
  printf("%s://127.0.0.1:%d\n", s.tls != NULL ? "https" : "http", port);
  fflush(stdout);
  struct pollfd fds[2] = {{.fd = listener, .events = POLLIN}, {.fd = watched_input(), .events = POLLIN}};
  for (uint64_t nth = 1;;) {
    if (poll(fds, 2, -1) < 0 && errno != EINTR) break;
    char byte;
    if (fds[1].revents != 0 && read(STDIN_FILENO, &byte, 1) <= 0) break;
    if (fds[0].revents & POLLIN) accept_one(&s, listener, nth++, &detached);
  }
  /* Connections may be in the middle of anything: the process ends around them. */
  _exit(0);
}
