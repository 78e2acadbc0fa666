/* An HTTP server inside a test: reads whole requests, and lets the test answer with any bytes it likes. A
 * thread for each connection; the answering function is called from them, several at once. */
#ifndef LAKE_TESTS_PEER_H
#define LAKE_TESTS_PEER_H

#include "support/support.h"

typedef struct peer peer;

typedef struct peer_request {
  const char *method, *path; /* path: with the query, as it came */
  const char *head;          /* the whole head, its lines ending in \r\n */
  const unsigned char *body;
  size_t body_bytes;
  unsigned connection; /* number of the connection, from 0 */
  unsigned nth;        /* request on it, from 0 */
} peer_request;

/* false: the connection is closed. A path that begins with "/early" is answered before its body is read, which then has
 * no bytes here; such an answer has to be the connection's last. */
typedef bool peer_fn(void *ctx, const peer_request *request, int fd);

peer *peer_open(peer_fn *fn, void *ctx); /* on 127.0.0.1; asserts */
void peer_close(peer *p);                /* breaks connections, waits for the threads */
unsigned peer_port(const peer *p);
unsigned peer_connection_count(peer *p);
unsigned peer_request_count(peer *p);
unsigned peer_open_count(peer *p); /* connections that are open now */

/* false: the other side is gone. */
bool peer_send(int fd, const void *data, size_t bytes);
bool peer_text(int fd, const char *text);

#endif
