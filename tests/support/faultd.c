#include "support/faultd.h"
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

#define OPTIONS_MAX 24

/* ---- the process ---- */

static void spawn(faultd *f, char **argv, int input, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  const int failed = posix_spawn(&f->pid, argv[0], &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) print_error("cannot start %s: %s\n", argv[0], strerror(failed));
  assert_int_equal(failed, 0);
}

/* The one line that says where it listens. */
static void read_url(faultd *f, int output) {
  size_t bytes = 0;
  while (bytes + 1 < sizeof f->url) {
    const ssize_t n = read(output, f->url + bytes, 1);
    assert_int_equal(n, 1);
    if (f->url[bytes] == '\n') break;
    bytes++;
  }
  f->url[bytes] = 0;
  const char *colon = strrchr(f->url, ':');
  assert_non_null(colon);
  f->port = (int)strtol(colon + 1, NULL, 10);
  assert_true(f->port > 0);
}

faultd *faultd_start(const char *dialect, ...) {
  const char *folder = getenv("LAKE_BIN");
  char program[1024];
  char *argv[OPTIONS_MAX + 4];
  size_t count = 0;
  assert_non_null(folder);
  snprintf(program, sizeof program, "%s/faultd", folder);
  const char *const fixed[] = {program, "--dialect", dialect};
  for (size_t i = 0; i < 3; i++) argv[count++] = strdup(fixed[i]);
  va_list args;
  va_start(args, dialect);
  for (const char *option; (option = va_arg(args, const char *)) != NULL;) {
    assert_true(count < OPTIONS_MAX);
    argv[count++] = strdup(option);
  }
  va_end(args);
  argv[count] = NULL;
  faultd *f = calloc(1, sizeof *f);
  int input[2], output[2];
  assert_non_null(f);
  /* Other children of the test must not hold these open: the end of the pipe ends the server. */
  assert_int_equal(pipe2(input, O_CLOEXEC), 0);
  assert_int_equal(pipe2(output, O_CLOEXEC), 0);
  spawn(f, argv, input[0], output[1]);
  close(input[0]);
  close(output[1]);
  f->input = input[1];
  read_url(f, output[0]);
  close(output[0]);
  for (size_t i = 0; i < count; i++) free(argv[i]);
  return f;
}

void faultd_stop(faultd *f) {
  if (f == NULL) return;
  close(f->input);
  kill(f->pid, SIGTERM);
  while (waitpid(f->pid, NULL, 0) < 0 && errno == EINTR) {}
  free(f);
}

/* ---- one request by hand ---- */

static int connect_to(const faultd *f) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)f->port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
  return fd;
}

static void send_all(int fd, const char *data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = send(fd, data, bytes, MSG_NOSIGNAL);
    if (n <= 0) return; /* the reply, or its absence, tells */
    data += n;
    bytes -= (size_t)n;
  }
}

/* Reads until the peer closes, as the request asked it to. */
static char *receive_all(int fd, size_t *bytes, bool *reset) {
  size_t capacity = 4096;
  char *data = malloc(capacity + 1);
  assert_non_null(data);
  *bytes = 0;
  *reset = false;
  for (;;) {
    if (*bytes == capacity) {
      data = realloc(data, (capacity *= 2) + 1);
      assert_non_null(data);
    }
    const ssize_t n = recv(fd, data + *bytes, capacity - *bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    *reset = n < 0 && errno == ECONNRESET;
    if (n <= 0) break;
    *bytes += (size_t)n;
  }
  data[*bytes] = 0;
  return data;
}

bool faultd_answer_header(const faultd_answer *a, const char *name, char *out, size_t out_max) {
  const size_t bytes = strlen(name);
  for (const char *line = strstr(a->head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
    line += 2;
    if (strncasecmp(line, name, bytes) != 0 || line[bytes] != ':') continue;
    const char *value = line + bytes + 1 + strspn(line + bytes + 1, " ");
    snprintf(out, out_max, "%.*s", (int)strcspn(value, "\r"), value);
    return true;
  }
  return false;
}

static void cut(faultd_answer *a, char *data, size_t bytes, bool bodiless) {
  const char *end = strstr(data, "\r\n\r\n");
  if (end == NULL) {
    a->head = strdup("");
    a->body = strdup("");
    free(data);
    return;
  }
  const size_t head_bytes = (size_t)(end - data) + 4;
  a->head = strndup(data, head_bytes);
  a->bytes = bytes - head_bytes;
  memmove(data, data + head_bytes, a->bytes + 1);
  a->body = data;
  assert_int_equal(sscanf(a->head, "HTTP/1.1 %d", &a->status), 1);
  char length[32];
  const bool told = faultd_answer_header(a, "Content-Length", length, sizeof length);
  a->complete = !a->reset && (bodiless || a->status == 204 || a->status == 304
                                  ? a->bytes == 0 : told && strtoull(length, NULL, 10) == a->bytes);
}

int faultd_send(const faultd *f, const char *method, const char *target, const char *headers, const char *body) {
  const size_t body_bytes = body != NULL ? strlen(body) : 0;
  const size_t head_max = strlen(target) + (headers != NULL ? strlen(headers) : 0) + 256;
  char *head = malloc(head_max), length[64] = "";
  assert_non_null(head);
  if (body != NULL) snprintf(length, sizeof length, "Content-Length: %zu\r\n", body_bytes);
  const int n = snprintf(head, head_max, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n%s%s\r\n", method,
                         target, f->port, headers != NULL ? headers : "", length);
  const int fd = connect_to(f);
  send_all(fd, head, (size_t)n);
  if (body != NULL) send_all(fd, body, body_bytes);
  free(head);
  return fd;
}

faultd_answer faultd_receive(int fd, const char *method) {
  faultd_answer a = {0};
  size_t bytes = 0;
  char *data = receive_all(fd, &bytes, &a.reset);
  close(fd);
  cut(&a, data, bytes, strcmp(method, "HEAD") == 0);
  return a;
}

faultd_answer faultd_ask(const faultd *f, const char *method, const char *target, const char *headers,
                         const char *body) {
  return faultd_receive(faultd_send(f, method, target, headers, body), method);
}

void faultd_answer_free(faultd_answer *a) {
  free(a->head);
  free(a->body);
  *a = (faultd_answer){0};
}

/* ---- rules and questions ---- */

static void tell(faultd *f, const char *target, const char *body) {
  faultd_answer a = faultd_ask(f, "POST", target, NULL, body);
  if (a.status != 200) print_error("faultd: %s", a.body);
  assert_int_equal(a.status, 200);
  faultd_answer_free(&a);
}

void faultd_rule(faultd *f, const char *rules) { tell(f, "/_faults", rules); }
void faultd_reset(faultd *f) { tell(f, "/_reset", ""); }
void faultd_clear(faultd *f) { tell(f, "/_reset", "objects"); }

uint64_t faultd_fired(faultd *f, const char *fault) {
  char name[64];
  snprintf(name, sizeof name, "\"%s\":", fault);
  faultd_answer a = faultd_ask(f, "GET", "/_faults", NULL, NULL);
  assert_int_equal(a.status, 200);
  const char *at = strstr(a.body, name);
  assert_non_null(at);
  const uint64_t count = strtoull(at + strlen(name), NULL, 10);
  faultd_answer_free(&a);
  return count;
}

char *faultd_log(faultd *f) {
  faultd_answer a = faultd_ask(f, "GET", "/_log", NULL, NULL);
  assert_int_equal(a.status, 200);
  char *log = a.body;
  free(a.head);
  return log;
}

size_t faultd_log_count(faultd *f, const char *part) {
  char *log = faultd_log(f), *rest = log;
  size_t count = 0;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;)
    if (strstr(line, part) != NULL) count++;
  free(log);
  return count;
}
