/* hello.c: the name in the ClientHello of a connection whose rule wants it to be the rule's own. It is
 * looked at and left in the socket: the server outside gets it as it was sent. */
#include "await.h"
#include "gateway_parts.h"
#include "sni.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define HELLO_MS 10000

/* Until more than `len` bytes are there, or no more come. */
static int await_more(mcg_connection *self, size_t len, mcg_error **err)
{
  const int more = (int)len + 1, one = 1;
  setsockopt(self->fd, SOL_SOCKET, SO_RCVLOWAT, &more, sizeof more);
  int rc = mcg_await_readable(self->egress->engine, self->fd, HELLO_MS, err);
  setsockopt(self->fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
  return rc;
}

static int read_hello(mcg_connection *self, uint8_t *bytes, mcg_sni *sni, mcg_error **err)
{
  size_t len = 0;
  for (;;) {
    if (await_more(self, len, err) < 0) return -1;
    ssize_t got = recv(self->fd, bytes, MCG_SNI_BYTES, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= (ssize_t)len)
      return mcg_fail(err, MCG_UNAVAILABLE, NULL, "the connection ended within its ClientHello");
    len = (size_t)got;
    switch (mcg_sni_read(bytes, len, sni)) {
    case MCG_SNI_MORE: break;
    case MCG_SNI_NAME: return 0;
    case MCG_SNI_NONE:
      return mcg_fail(err, MCG_UNAUTHORIZED, NULL, "the ClientHello names no server");
    case MCG_SNI_BAD: return mcg_fail(err, MCG_UNAUTHORIZED, NULL, "no TLS: %s", sni->why);
    }
  }
}

int mcg_hello_check(mcg_connection *self, mcg_error **err)
{
  mcg_sni *sni = calloc(1, sizeof *sni);
  uint8_t *bytes = malloc(MCG_SNI_BYTES);
  int rc = sni && bytes ? read_hello(self, bytes, sni, err)
                        : mcg_fail(err, MCG_NOMEM, NULL, "no memory for a ClientHello");
  if (rc == 0 && strcmp(sni->name, self->name ? self->name : "") != 0)
    rc = mcg_fail(err, MCG_UNAUTHORIZED, NULL, "the ClientHello names %s, not %s", sni->name,
                  self->name ? self->name : "the address that was connected to");
  if (rc == 0 && sni->ech)
    rc = mcg_fail(err, MCG_UNAUTHORIZED, NULL, "the ClientHello hides the name it means (ECH)");
  free(sni);
  free(bytes);
  return rc;
}
