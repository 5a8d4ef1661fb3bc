/* tls_side.c: a socket, the TLS on it, and the bytes between the two. */
#include "tls_bridge_parts.h"
#include <errno.h>
#include <sys/socket.h>

#define PIECE ((size_t)16 << 10) /* a record of TLS */
#define PLAIN_MAX (2 * MCG_HTTP_HEAD_MAX)
#define ROUNDS 8

static void collect(mcg_tls_side *side)
{
  for (;;) {
    char *room = mcg_bytes_room(&side->cipher, PIECE);
    size_t got = room ? mcg_tls_give(side->tls, room, PIECE) : 0;
    if (!got) break;
    mcg_bytes_grown(&side->cipher, got);
  }
  if (side->cipher.failed) side->gone = true;
}

bool mcg_side_send(mcg_tls_side *side)
{
  bool moved = false;
  while (side->cipher.len && !side->gone) {
    ssize_t put =
        send(side->fd, mcg_bytes_of(&side->cipher), side->cipher.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && (errno == EAGAIN || errno == ENOBUFS)) break;
    if (put < 0) {
      side->error = errno;
      side->gone = true;
      break;
    }
    mcg_bytes_taken(&side->cipher, (size_t)put);
    moved = true;
  }
  if (side->gone) mcg_bytes_fini(&side->cipher);
  return moved;
}

bool mcg_side_wants(const mcg_tls_side *side, const mcg_tls_side *other)
{
  return !side->eof && !side->broken && !side->waiter.waits && side->plain.len < PLAIN_MAX &&
         side->cipher.len < MCG_BRIDGE_HELD && other->cipher.len < MCG_BRIDGE_HELD;
}

/* How much may be read; 0: nothing for now. What is over the total ends the bridge there. */
static size_t allowance(mcg_tls_side *side)
{
  mcg_traffic *traffic = side->bridge->options.traffic;
  size_t room = traffic ? mcg_traffic_ask(traffic, PIECE) : PIECE;
  if (!room && !mcg_traffic_spent(traffic)) mcg_traffic_wait(traffic, &side->waiter);
  return room;
}

/* One piece. */
static bool receive(mcg_tls_side *side)
{
  mcg_traffic *traffic = side->bridge->options.traffic;
  char piece[PIECE];
  size_t room = allowance(side);
  if (!room) return false;
  ssize_t got;
  do got = recv(side->fd, piece, room, MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return false;
  if (got < 0) {
    side->error = errno;
    side->gone = true;
  }
  if (got <= 0) {
    side->eof = true;
    return true;
  }
  side->bytes += (uint64_t)got;
  if (traffic) mcg_traffic_moved(traffic, side == &side->bridge->sides[MCG_FAR], (size_t)got);
  if (!mcg_tls_take(side->tls, piece, (size_t)got)) side->broken = true;
  return true;
}

bool mcg_side_receive(mcg_tls_side *side, const mcg_tls_side *other)
{
  bool moved = false;
  for (int i = 0; i < ROUNDS && mcg_side_wants(side, other) && receive(side); i++) {
    moved = true;
    if (side->stands) mcg_side_decrypt(side);
  }
  return moved;
}

bool mcg_side_shake(mcg_tls_side *side, mcg_error **failed)
{
  int rc = mcg_tls_handshake(side->tls, failed);
  collect(side);
  side->stands = rc == 1;
  if (rc == 0 && side->eof)
    mcg_fail(failed, MCG_UNAVAILABLE, NULL, "the connection ended before TLS was agreed on");
  return side->stands;
}

bool mcg_side_decrypt(mcg_tls_side *side)
{
  bool moved = false;
  while (side->plain.len < PLAIN_MAX && !side->closed && !side->broken) {
    char *room = mcg_bytes_room(&side->plain, PIECE);
    long got = room ? mcg_tls_read(side->tls, room, PIECE) : MCG_TLS_BROKEN;
    if (got > 0) mcg_bytes_grown(&side->plain, (size_t)got);
    side->closed = got == MCG_TLS_CLOSED;
    side->broken = got == MCG_TLS_BROKEN || (got == MCG_TLS_MORE && side->eof);
    moved |= got != MCG_TLS_MORE || side->broken;
    if (got <= 0) break;
  }
  collect(side); /* answers of TLS itself */
  return moved;
}

void mcg_side_encrypt(mcg_tls_side *side, mcg_bytes *plain)
{
  if (plain->len && side->stands && !mcg_tls_write(side->tls, mcg_bytes_of(plain), plain->len))
    side->gone = true;
  if (plain->failed) side->gone = true;
  mcg_bytes_fini(plain);
  if (side->stands) collect(side);
}

void mcg_side_close(mcg_tls_side *side, bool in_form)
{
  if (side->shut) return;
  side->shut = true;
  if (in_form && side->stands) mcg_tls_close(side->tls);
  if (side->tls) collect(side);
}

void mcg_side_fini(mcg_tls_side *side)
{
  mcg_traffic_leave(&side->waiter);
  mcg_tls_free(side->tls);
  side->tls = NULL;
  mcg_bytes_fini(&side->plain);
  mcg_bytes_fini(&side->cipher);
}
