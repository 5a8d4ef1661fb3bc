/* hello.c: the name in the ClientHello of a connection whose rule wants it to be the rule's own. It is
 * looked at and left in the socket: the server outside gets it as it was sent. A server may answer with a
 * HelloRetryRequest (RFC 8446, 4.1.4); then the ClientHello that it goes by is the next one, which is
 * looked at as well. A client cannot know the answer, so nothing else of it passes before that is here. */
#include "await.h"
#include "gateway_parts.h"
#include "sni.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define HELLO_MS 10000 /* for all of a greeting, both ClientHellos and what lies between */
#define RECORDS_MAX                                                                                \
  64 /* between two ClientHellos: a change of ciphers, and data that came too early */
#define RECORD_HEAD 5

enum { CHANGE_CIPHER_SPEC = 20, HANDSHAKE = 22, APPLICATION_DATA = 23, SERVER_HELLO = 2 };

typedef struct hello {
  uint64_t until_ms;
  mcg_sni sni;
  uint8_t bytes[MCG_SNI_BYTES];
} hello;

/* Until more than `len` bytes are there, or no more come. */
static int await_more(const mcg_connection *self, int fd, size_t len, const hello *h,
                      mcg_error **err)
{
  mcg_engine *engine = self->egress->engine;
  const int more = (int)len + 1, one = 1;
  setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &more, sizeof more);
  int rc = mcg_await_readable(engine, fd, mcg_await_left(engine, h->until_ms), err);
  setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
  if (rc < 0 && *err && (*err)->code == MCG_TIMEOUT) {
    mcg_error_free(mcg_steal_pointer(err));
    mcg_fail(err, MCG_TIMEOUT, NULL, "the greeting of TLS takes longer than %d s", HELLO_MS / 1000);
  }
  return rc;
}

static int read_hello(mcg_connection *self, hello *h, mcg_error **err)
{
  size_t len = 0;
  for (;;) {
    if (await_more(self, self->fd, len, h, err) < 0) return -1;
    ssize_t got = recv(self->fd, h->bytes, MCG_SNI_BYTES, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= (ssize_t)len)
      return mcg_fail(err, MCG_UNAVAILABLE, NULL, "the connection ended within its ClientHello");
    len = (size_t)got;
    switch (mcg_sni_read(h->bytes, len, &h->sni)) {
    case MCG_SNI_MORE: break;
    case MCG_SNI_NAME: return 0;
    case MCG_SNI_NONE:
      return mcg_fail(err, MCG_UNAUTHORIZED, NULL, "the ClientHello names no server");
    case MCG_SNI_BAD: return mcg_fail(err, MCG_UNAUTHORIZED, NULL, "no TLS: %s", h->sni.why);
    }
  }
}

static int check(mcg_connection *self, hello *h, const char *which, mcg_error **err)
{
  const char *wanted = self->name ? self->name : "";
  if (read_hello(self, h, err) < 0) return -1;
  if (strcmp(h->sni.name, wanted) != 0)
    return mcg_fail(err, MCG_UNAUTHORIZED, NULL, "the %sClientHello names %s, not %s", which,
                    h->sni.name, *wanted ? wanted : "the address that was connected to");
  if (!h->sni.ech) return 0;
  return mcg_fail(err, MCG_UNAUTHORIZED, NULL, "the %sClientHello hides the name it means (ECH)",
                  which);
}

static hello *hello_new(const mcg_connection *self, mcg_error **err)
{
  hello *h = calloc(1, sizeof *h);
  if (h)
    h->until_ms = mcg_now_ms(self->egress->engine) + HELLO_MS;
  else
    mcg_fail(err, MCG_NOMEM, NULL, "no memory for a ClientHello");
  return h;
}

int mcg_hello_check(mcg_connection *self, mcg_error **err)
{
  hello *h = hello_new(self, err);
  int rc = h ? check(self, h, "", err) : -1;
  free(h);
  return rc;
}

/* ---- once the server is there ----------------------------------------------------------------- */

static int pass(mcg_connection *self, bool into, int far, hello *h, size_t len, mcg_error **err)
{
  mcg_engine *engine = self->egress->engine;
  int from = into ? far : self->fd, to = into ? self->fd : far;
  if (mcg_await_recv(engine, from, h->bytes, len, mcg_await_left(engine, h->until_ms), err) < 0 ||
      mcg_await_send(engine, to, h->bytes, len, mcg_await_left(engine, h->until_ms), err) < 0)
    return -1;
  mcg_traffic_moved(&self->egress->traffic, into, len);
  *(into ? &self->early_in : &self->early_out) += len;
  return 0;
}

/* How many of the first `want` bytes are there, once they all are, or no more come. -1: *err is set. */
static ssize_t peek(const mcg_connection *self, int fd, hello *h, size_t want, mcg_error **err)
{
  size_t len = 0;
  while (len < want) {
    if (await_more(self, fd, len, h, err) < 0) return -1;
    ssize_t got = recv(fd, h->bytes, want, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= (ssize_t)len) break;
    len = (size_t)got;
  }
  return (ssize_t)len;
}

/* The record that was peeked at: its head is in `h`. */
static int pass_record(mcg_connection *self, bool into, int far, hello *h, mcg_error **err)
{
  size_t len = (size_t)(h->bytes[3] << 8 | h->bytes[4]);
  if (len > MCG_SNI_BYTES - RECORD_HEAD)
    return mcg_fail(err, MCG_UNAUTHORIZED, NULL, "no TLS: a record has no sensible length");
  return pass(self, into, far, h, RECORD_HEAD + len, err);
}

/* 1: another ClientHello is wanted. 0: none is, or the server says something else. -1: *err is set. */
static int is_retry(const mcg_connection *self, int far, hello *h, mcg_error **err)
{
  static const uint8_t retry[32] = {0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11,
                                    0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
                                    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e,
                                    0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c};
  const size_t random = RECORD_HEAD + 4 + 2, all = random + sizeof retry;
  ssize_t got = peek(self, far, h, RECORD_HEAD + 1, err);
  if (got < 0) return -1;
  if (got <= RECORD_HEAD || h->bytes[0] != HANDSHAKE || h->bytes[RECORD_HEAD] != SERVER_HELLO)
    return 0;
  if ((size_t)(h->bytes[3] << 8 | h->bytes[4]) < all - RECORD_HEAD)
    return mcg_fail(err, MCG_UNAUTHORIZED, NULL, "the server's first message comes in pieces");
  got = peek(self, far, h, all, err);
  if (got < 0) return -1;
  return got == (ssize_t)all && memcmp(h->bytes + random, retry, sizeof retry) == 0;
}

/* Up to the second ClientHello, which stays in the socket, or to whatever ends the handshake instead. */
static int pass_second(mcg_connection *self, int far, hello *h, mcg_error **err)
{
  if (pass_record(self, true, far, h, err) < 0) return -1;
  for (int i = 0; i < RECORDS_MAX; i++) {
    ssize_t got = peek(self, self->fd, h, RECORD_HEAD, err);
    if (got < 0) return -1;
    if (got < RECORD_HEAD) return 0;
    if (h->bytes[0] == HANDSHAKE) return check(self, h, "second ", err);
    if (h->bytes[0] != CHANGE_CIPHER_SPEC && h->bytes[0] != APPLICATION_DATA) return 0;
    if (pass_record(self, false, far, h, err) < 0) return -1;
  }
  return mcg_fail(err, MCG_UNAUTHORIZED, NULL, "the second ClientHello does not come");
}

int mcg_hello_pass(mcg_connection *self, int far, mcg_error **err)
{
  hello *h = hello_new(self, err);
  int rc = h ? check(self, h, "", err) : -1;
  if (rc == 0) rc = pass(self, false, far, h, h->sni.length, err);
  if (rc == 0) rc = is_retry(self, far, h, err);
  if (rc > 0) rc = pass_second(self, far, h, err);
  free(h);
  return rc;
}
