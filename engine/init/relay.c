/* relay.c: a command's bytes over the framed carrier. Out: from the pipe straight into the connection's
 * buffer, as far as credit goes. In: to the pipe, and what it does not take waits here, bounded by the
 * window. */
#include "command.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define GRANT_AT (MCG_WINDOW / 4)
#define CREDIT_MAX (1u << 30)
#define PTY_ROOM 65536u /* more than a terminal holds */

void mcg_relay_init(mcg_relay *relay)
{
  *relay = (mcg_relay){.fd = -1};
}

static void relay_close_fd(mcg_relay *relay)
{
  if (relay->fd >= 0) close(relay->fd);
  relay->fd = -1;
}

void mcg_relay_fini(mcg_relay *relay)
{
  relay_close_fd(relay);
  free(relay->bytes);
  *relay = (mcg_relay){.fd = -1};
}

bool mcg_relay_wants(const mcg_command *command, int stream)
{
  const mcg_relay *relay = &command->relay[stream];
  if (relay->fd < 0) return false;
  if (stream == 0) return relay->len > 0;
  if (!command->started) return false;
  if (relay->drop || relay->ended) return true;
  return relay->credit > 0 && command->conn && command->conn->queued < MCG_CONN_FULL;
}

/* ---- out ---------------------------------------------------------------------------------- */

static void out_end(mcg_command *command, int stream)
{
  mcg_relay *relay = &command->relay[stream];
  if (!relay->ended && command->conn)
    mcg_conn_send(command->conn, MCG_F_EOF, command->channel, (uint8_t)stream, NULL, NULL, 0);
  relay->ended = true;
}

static void drop_some(mcg_relay *relay)
{
  static uint8_t sink[MCG_FRAME_MAX];
  ssize_t len = read(relay->fd, sink, sizeof sink);
  if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR)) relay_close_fd(relay);
}

/* A terminal's queue is asked by poll, which waits for what is on its way there; its count does not. */
static bool terminal_is_empty(const mcg_command *command, const mcg_relay *relay)
{
  struct pollfd look = {.fd = relay->fd, .events = POLLIN};
  return command->flags & MCG_EXEC_PTY && poll(&look, 1, 0) == 0;
}

static void out_ready(mcg_command *command, int stream)
{
  mcg_relay *relay = &command->relay[stream];
  if (relay->drop || relay->ended || !command->conn) {
    drop_some(relay);
    if (relay->fd < 0) out_end(command, stream);
    return;
  }
  size_t most = relay->credit < MCG_FRAME_MAX ? relay->credit : MCG_FRAME_MAX;
  if (relay->counted && relay->left < most) most = (size_t)relay->left;
  uint8_t *room = mcg_conn_data_room(command->conn);
  if (!room) {
    command->conn->dead = true;
    return;
  }
  ssize_t len = read(relay->fd, room, most);
  if (len > 0) {
    mcg_conn_data_done(command->conn, command->channel, (uint8_t)stream, (size_t)len);
    relay->credit -= (uint32_t)len;
    relay->left -= relay->counted ? (uint64_t)len : 0;
    if (relay->counted && (relay->left == 0 || terminal_is_empty(command, relay)))
      out_end(command, stream);
    return;
  }
  if (len < 0 && (errno == EAGAIN || errno == EINTR)) return;
  relay_close_fd(relay); /* a terminal without a slave says EIO */
  out_end(command, stream);
}

/* What is in the pipe now still belongs to the command. A terminal is hung up with its session, but it
 * says so only when nobody holds it any more. */
void mcg_relay_exited(mcg_command *command)
{
  for (int stream = 1; stream < 3; stream++) {
    mcg_relay *relay = &command->relay[stream];
    int held = 0;
    if (relay->fd < 0 || relay->ended) continue;
    relay->counted = true;
    if (command->flags & MCG_EXEC_PTY) {
      relay->left = PTY_ROOM;
      if (terminal_is_empty(command, relay)) out_end(command, stream);
      continue;
    }
    if (ioctl(relay->fd, FIONREAD, &held) < 0 || held < 0) held = 0;
    relay->left = (uint64_t)held;
    if (held == 0) out_end(command, stream);
  }
}

bool mcg_relay_done(const mcg_command *command)
{
  for (int stream = 1; stream < 3; stream++) {
    const mcg_relay *relay = &command->relay[stream];
    if (relay->fd < 0 || relay->ended || relay->drop) continue;
    if (!command->killing || relay->credit > 0) return false;
  }
  return true;
}

void mcg_relay_close(mcg_command *command, int stream)
{
  mcg_relay *relay = &command->relay[stream];
  if (stream) relay->drop = true;
}

bool mcg_relay_credit(mcg_command *command, int stream, uint64_t bytes)
{
  mcg_relay *relay = &command->relay[stream];
  if (bytes > CREDIT_MAX || relay->credit + bytes > CREDIT_MAX) return false;
  relay->credit += (uint32_t)bytes;
  return true;
}

/* ---- in ----------------------------------------------------------------------------------- */

static void grant(mcg_command *command)
{
  mcg_relay *relay = &command->relay[0];
  if (relay->owed == 0 || (relay->owed < GRANT_AT && relay->len) || !command->conn) return;
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_u64(&body, MCG_TAG_BYTES, relay->owed);
  mcg_conn_send(command->conn, MCG_F_CREDIT, command->channel, 0, &body, NULL, 0);
  mcg_wire_fini(&body);
  relay->credit += relay->owed;
  relay->owed = 0;
}

/* The end of a terminal's input is a character in it. */
static void end_input(mcg_command *command)
{
  mcg_relay *relay = &command->relay[0];
  struct termios mode;
  if ((command->flags & MCG_EXEC_PTY) && relay->fd >= 0) {
    uint8_t end = tcgetattr(relay->fd, &mode) == 0 ? mode.c_cc[VEOF] : 4;
    if (write(relay->fd, &end, 1) < 0 && errno == EAGAIN)
      return; /* its buffer is full: it is not reading */
  }
  relay_close_fd(relay);
}

/* Bytes the command does not want any more are consumed too. */
static void in_ready(mcg_command *command)
{
  mcg_relay *relay = &command->relay[0];
  while (relay->len) {
    ssize_t len = relay->fd < 0 ? (ssize_t)relay->len
                                : write(relay->fd, relay->bytes + relay->at, relay->len);
    if (len < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (len < 0) { /* nobody reads it any more, and the engine may as well know */
      relay_close_fd(relay);
      if (command->conn)
        mcg_conn_send(command->conn, MCG_F_EOF, command->channel, 0, NULL, NULL, 0);
      continue;
    }
    relay->at += (size_t)len;
    relay->len -= (size_t)len;
    relay->owed += (uint32_t)len;
  }
  if (relay->len == 0) relay->at = 0;
  grant(command);
  if (relay->len == 0 && relay->ended) end_input(command);
}

bool mcg_relay_data(mcg_command *command, const uint8_t *bytes, size_t len)
{
  mcg_relay *relay = &command->relay[0];
  if (relay->ended || len > relay->credit) return false;
  relay->credit -= (uint32_t)len;
  if (relay->at + relay->len + len > relay->cap) {
    size_t cap = relay->cap ? relay->cap : 4096;
    while (cap < relay->len + len) cap *= 2;
    uint8_t *grown = malloc(cap);
    if (!grown) return false;
    if (relay->len) memcpy(grown, relay->bytes + relay->at, relay->len);
    free(relay->bytes);
    relay->bytes = grown;
    relay->cap = cap;
    relay->at = 0;
  }
  if (len) memcpy(relay->bytes + relay->at + relay->len, bytes, len);
  relay->len += len;
  in_ready(command);
  return true;
}

void mcg_relay_eof(mcg_command *command)
{
  mcg_relay *relay = &command->relay[0];
  relay->ended = true;
  if (relay->len == 0) end_input(command);
}

void mcg_relay_ready(mcg_command *command, int stream)
{
  if (command->relay[stream].fd < 0) return;
  if (stream == 0)
    in_ready(command);
  else
    out_ready(command, stream);
}
