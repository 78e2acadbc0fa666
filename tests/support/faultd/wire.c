/* Sockets; see wire.h. */
#define _GNU_SOURCE
#include "wire.h"
#include "text.h"
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

conn *conn_open(int fd, uint64_t number, SSL_CTX *tls) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  conn *c = malloc(sizeof *c);
  if (c == NULL) abort();
  c->fd = fd;
  c->ssl = NULL;
  c->number = number;
  c->at = c->end = 0;
  unsigned char first = 0;
  if (tls == NULL || recv(fd, &first, 1, MSG_PEEK) != 1 || first != 22) return c;
  c->ssl = SSL_new(tls);
  if (c->ssl != NULL && SSL_set_fd(c->ssl, fd) == 1 && SSL_accept(c->ssl) == 1) return c;
  conn_close(c);
  return NULL;
}

void conn_close(conn *c) {
  if (c->ssl != NULL) {
    ERR_clear_error();
    SSL_free(c->ssl);
  }
  close(c->fd);
  free(c);
}

void conn_reset(conn *c) {
  const struct linger linger = {.l_onoff = 1, .l_linger = 0};
  setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
  conn_close(c);
}

static ssize_t receive(conn *c, void *to, size_t bytes) {
  if (c->ssl != NULL) return SSL_read(c->ssl, to, bytes > INT_MAX ? INT_MAX : (int)bytes);
  ssize_t n;
  do n = recv(c->fd, to, bytes, 0);
  while (n < 0 && errno == EINTR);
  return n;
}

bool conn_fill(conn *c) {
  if (c->at == c->end) c->at = c->end = 0;
  if (c->at > 0 && c->end == sizeof c->buffer) {
    memmove(c->buffer, c->buffer + c->at, c->end - c->at);
    c->end -= c->at;
    c->at = 0;
  }
  if (c->end == sizeof c->buffer) return false;
  const ssize_t n = receive(c, c->buffer + c->end, sizeof c->buffer - c->end);
  if (n <= 0) return false;
  c->end += (size_t)n;
  return true;
}

bool conn_read(conn *c, void *to, size_t bytes) {
  char *at = to;
  size_t ready = c->end - c->at;
  if (ready > bytes) ready = bytes;
  memcpy(at, c->buffer + c->at, ready);
  c->at += ready;
  for (at += ready, bytes -= ready; bytes > 0;) {
    const ssize_t n = receive(c, at, bytes);
    if (n <= 0) return false;
    at += n;
    bytes -= (size_t)n;
  }
  return true;
}

bool conn_write(conn *c, const void *data, size_t bytes, bool more) {
  const char *at = data;
  while (bytes > 0) {
    ssize_t n;
    if (c->ssl != NULL) n = SSL_write(c->ssl, at, bytes > INT_MAX ? INT_MAX : (int)bytes);
    else n = send(c->fd, at, bytes, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
    if (n < 0 && c->ssl == NULL && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= (size_t)n;
  }
  return true;
}

bool conn_wait(conn *c, int ms) {
  struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
  int n;
  do n = poll(&p, 1, ms);
  while (n < 0 && errno == EINTR);
  return n == 0;
}

static void die(const char *what) {
  fprintf(stderr, "faultd: %s: %s\n", what, strerror(errno));
  exit(1);
}

int listen_local(int port, int *bound_port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) die("socket");
  const int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  if (bind(fd, (struct sockaddr *)&address, bytes) != 0) die("bind");
  if (listen(fd, 1024) != 0) die("listen");
  if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) die("getsockname");
  *bound_port = ntohs(address.sin_port);
  return fd;
}

SSL_CTX *tls_open(const char *cert, const char *key) {
  SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
  if (tls == NULL || SSL_CTX_use_certificate_chain_file(tls, cert) != 1 ||
      SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1) {
    fprintf(stderr, "faultd: %s or %s is no certificate chain or key in PEM\n", cert, key);
    exit(1);
  }
  return tls;
}
