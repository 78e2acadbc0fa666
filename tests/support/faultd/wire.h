/* One connection: a socket, plain or TLS, with a read buffer. Used by the one thread that serves it. */
#ifndef FAULTD_WIRE_H
#define FAULTD_WIRE_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct conn {
  int fd;
  SSL *ssl; /* NULL: plain */
  uint64_t number;
  size_t at, end; /* unread bytes of buffer */
  char buffer[65536];
} conn;

/* Takes the socket. With tls set, a first byte that begins a TLS record makes it a TLS connection. NULL when the
 * handshake fails; the socket is closed then. */
conn *conn_open(int fd, uint64_t number, SSL_CTX *tls);
void conn_close(conn *c);
/* Closes so that the peer sees a reset. */
void conn_reset(conn *c);

bool conn_fill(conn *c);                                   /* reads some more; false at the end or with a full buffer */
bool conn_read(conn *c, void *to, size_t bytes);           /* exactly these many */
bool conn_write(conn *c, const void *data, size_t bytes, bool more); /* more follows at once */
/* Waits so long (-1: for ever), or until the peer has gone; false in that case. */
bool conn_wait(conn *c, int ms);

int listen_local(int port, int *bound_port); /* a listening socket on 127.0.0.1; ends the program on failure */
SSL_CTX *tls_open(const char *cert, const char *key);

#endif
