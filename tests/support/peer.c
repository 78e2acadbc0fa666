/* The server inside a test. One lock guards the counters and the list of connections. */
#include "support/peer.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_BYTES_MAX 65536

typedef struct connection {
  struct connection *next;
  peer *p;
  pthread_t thread;
  int fd;
  bool open;
  unsigned number, served;
  char head[HEAD_BYTES_MAX + 1];
} connection;

struct peer {
  int fd;
  unsigned port;
  peer_fn *fn;
  void *ctx;
  pthread_t thread;
  pthread_mutex_t lock;
  connection *connections;
  unsigned connection_count, request_count, open_count;
  bool closing;
};

bool peer_send(int fd, const void *data, size_t bytes) {
  const char *at = data;
  while (bytes > 0) {
    ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
    if (n <= 0) return false;
    at += n;
    bytes -= (size_t)n;
  }
  return true;
}

bool peer_text(int fd, const char *text) {
  return peer_send(fd, text, strlen(text));
}

static bool read_body(connection *c, size_t have, unsigned char *body, size_t bytes) {
  while (have < bytes) {
    ssize_t n = recv(c->fd, body + have, bytes - have, 0);
    if (n <= 0) return false;
    have += (size_t)n;
  }
  return true;
}

static size_t content_length(const char *head) {
  const char *at = strcasestr(head, "\r\ncontent-length:");
  return at != NULL ? strtoul(at + 17, NULL, 10) : 0;
}

/* One request; *have: bytes of the next one that are in the head's buffer already. */
static bool serve(connection *c, size_t *have) {
  char *end = NULL;
  while (c->head[*have] = 0, (end = strstr(c->head, "\r\n\r\n")) == NULL) {
    if (*have == HEAD_BYTES_MAX) return false;
    ssize_t n = recv(c->fd, c->head + *have, HEAD_BYTES_MAX - *have, 0);
    if (n <= 0) return false;
    *have += (size_t)n;
  }
  size_t head_bytes = (size_t)(end + 4 - c->head);
  size_t rest = *have - head_bytes;
  char *head = strndup(c->head, head_bytes);
  size_t bytes = content_length(head);
  char method[16] = "", path[8192] = "";
  bool ok = sscanf(head, "%15s %8191s", method, path) == 2;
  if (strncmp(path, "/early", 6) == 0) bytes = 0;
  unsigned char *body = malloc(bytes + 1);
  size_t early = rest < bytes ? rest : bytes;
  memcpy(body, c->head + head_bytes, early);
  memmove(c->head, c->head + head_bytes + early, rest - early);
  *have = rest - early;
  ok = ok && read_body(c, early, body, bytes);
  if (ok) {
    pthread_mutex_lock(&c->p->lock);
    c->p->request_count++;
    pthread_mutex_unlock(&c->p->lock);
    peer_request request = {method, path, head, body, bytes, c->number, c->served++};
    ok = c->p->fn(c->p->ctx, &request, c->fd);
  }
  free(body);
  free(head);
  return ok;
}

static void *connection_main(void *arg) {
  connection *c = arg;
  size_t have = 0;
  while (serve(c, &have)) {
  }
  pthread_mutex_lock(&c->p->lock);
  c->open = false;
  c->p->open_count--;
  close(c->fd);
  pthread_mutex_unlock(&c->p->lock);
  return NULL;
}

static void *accept_main(void *arg) {
  peer *p = arg;
  for (;;) {
    int fd = accept(p->fd, NULL, NULL);
    if (fd < 0) return NULL;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection *c = calloc(1, sizeof *c);
    pthread_mutex_lock(&p->lock);
    if (c == NULL || p->closing) {
      pthread_mutex_unlock(&p->lock);
      close(fd);
      free(c);
      continue;
    }
    c->p = p;
    c->fd = fd;
    c->open = true;
    c->number = p->connection_count++;
    c->next = p->connections;
    p->connections = c;
    p->open_count++;
    if (pthread_create(&c->thread, NULL, connection_main, c) != 0) abort();
    pthread_mutex_unlock(&p->lock);
  }
}

peer *peer_open(peer_fn *fn, void *ctx) {
  peer *p = calloc(1, sizeof *p);
  assert_non_null(p);
  p->fn = fn;
  p->ctx = ctx;
  pthread_mutex_init(&p->lock, NULL);
  p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(p->fd >= 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  assert_int_equal(bind(p->fd, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(listen(p->fd, 256), 0);
  socklen_t bytes = sizeof address;
  assert_int_equal(getsockname(p->fd, (struct sockaddr *)&address, &bytes), 0);
  p->port = ntohs(address.sin_port);
  assert_int_equal(pthread_create(&p->thread, NULL, accept_main, p), 0);
  return p;
}

void peer_close(peer *p) {
  pthread_mutex_lock(&p->lock);
  p->closing = true;
  for (connection *c = p->connections; c != NULL; c = c->next)
    if (c->open) shutdown(c->fd, SHUT_RDWR);
  pthread_mutex_unlock(&p->lock);
  shutdown(p->fd, SHUT_RDWR);
  pthread_join(p->thread, NULL);
  close(p->fd);
  while (p->connections != NULL) {
    connection *c = p->connections;
    p->connections = c->next;
    pthread_join(c->thread, NULL);
    free(c);
  }
  pthread_mutex_destroy(&p->lock);
  free(p);
}

unsigned peer_port(const peer *p) {
  return p->port;
}

static unsigned read_locked(peer *p, const unsigned *counter) {
  pthread_mutex_lock(&p->lock);
  unsigned value = *counter;
  pthread_mutex_unlock(&p->lock);
  return value;
}

unsigned peer_connection_count(peer *p) {
  return read_locked(p, &p->connection_count);
}
unsigned peer_request_count(peer *p) {
  return read_locked(p, &p->request_count);
}
unsigned peer_open_count(peer *p) {
  return read_locked(p, &p->open_count);
}
