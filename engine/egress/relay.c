/* relay.c: two sockets, two flows between them, a buffer of 64 KiB each, made when there is something to
 * move.
 *
 * A socket is watched for reading while the flow out of it is empty, for writing while the flow into it
 * is not: so a reader that stops also stops the writer, by TCP's own window. */
#include "relay.h"
#include "service/linger.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define BUFFER ((size_t)64 << 10)
#define ROUNDS 8 /* how often one flow is served before others get their turn */

enum { NEAR, FAR };

typedef struct flow { /* flows[NEAR] is what comes from the near side */
  mcg_traffic_waiter waiter;
  mcg_relay *relay;
  uint8_t *buffer;
  size_t start, len;
  uint64_t bytes;
  bool eof, shut;
} flow;

struct mcg_relay {
  int fds[2];
  int events[2];
  uv_poll_t polls[2];
  uv_timer_t timer; /* idle */
  unsigned handles;
  flow flows[2];
  mcg_relay_options options;
  uint64_t last_ms; /* something moved */
  bool over;
};

void mcg_socket_reset(int fd)
{
  const struct linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close(fd);
}

/* ---- the end ------------------------------------------------------------------------------ */

static void handle_closed(uv_handle_t *handle)
{
  mcg_relay *relay = handle->data;
  if (--relay->handles == 0) free(relay);
}

static void relay_end(mcg_relay *relay, mcg_relay_reason reason, int number, int side)
{
  if (relay->over) return;
  relay->over = true;
  uv_close((uv_handle_t *)&relay->timer, handle_closed);
  for (int i = 0; i < 2; i++) {
    uv_close((uv_handle_t *)&relay->polls[i], handle_closed);
    mcg_traffic_leave(&relay->flows[i].waiter);
    free(relay->flows[i].buffer);
    if (reason == MCG_RELAY_FINISHED)
      mcg_close_now(relay->fds[i]);
    else
      mcg_socket_reset(relay->fds[i]);
  }
  const mcg_relay_end end = {.reason = reason,
                             .number = number,
                             .near = side == NEAR,
                             .near_over = relay->flows[NEAR].shut,
                             .in = relay->flows[FAR].bytes,
                             .out = relay->flows[NEAR].bytes};
  relay->options.ended(relay->options.data, &end);
}

void mcg_relay_cut(mcg_relay *relay)
{
  relay_end(relay, MCG_RELAY_CUT, 0, FAR);
}

static void on_idle(uv_timer_t *timer)
{
  mcg_relay *relay = timer->data;
  uint64_t quiet = uv_now(timer->loop) - relay->last_ms;
  if (quiet >= relay->options.idle_ms)
    relay_end(relay, MCG_RELAY_IDLE, 0, FAR);
  else
    uv_timer_start(timer, on_idle, relay->options.idle_ms - quiet, 0);
}

/* ---- one flow ----------------------------------------------------------------------------- */

typedef enum step { GO_ON, WAIT, OVER } step;

static step drain(flow *self, int from)
{
  mcg_relay *relay = self->relay;
  while (self->len) {
    ssize_t put =
        send(relay->fds[!from], self->buffer + self->start, self->len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && (errno == EAGAIN || errno == ENOBUFS)) return WAIT;
    if (put < 0) {
      relay_end(relay, MCG_RELAY_RESET, errno, !from);
      return OVER;
    }
    self->start += (size_t)put;
    self->len -= (size_t)put;
    relay->last_ms = uv_now(relay->timer.loop);
  }
  self->start = 0;
  return GO_ON;
}

/* How much may be read, or that there is nothing to be had for now. */
static step allowance(flow *self, int from, size_t *out)
{
  mcg_traffic *traffic = self->relay->options.traffic;
  *out = traffic ? mcg_traffic_ask(traffic, BUFFER) : BUFFER;
  if (*out) return GO_ON;
  if (!mcg_traffic_spent(traffic)) {
    mcg_traffic_wait(traffic, &self->waiter);
    return WAIT;
  }
  char byte; /* an end of file is still passed on */
  if (recv(self->relay->fds[from], &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
    relay_end(self->relay, MCG_RELAY_SPENT, 0, from);
    return OVER;
  }
  *out = 1;
  return GO_ON;
}

static step fill(flow *self, int from)
{
  mcg_relay *relay = self->relay;
  size_t room;
  step next = allowance(self, from, &room);
  if (next != GO_ON) return next;
  if (!self->buffer && !(self->buffer = malloc(BUFFER))) {
    relay_end(relay, MCG_RELAY_RESET, ENOMEM, from);
    return OVER;
  }
  ssize_t got;
  do got = recv(relay->fds[from], self->buffer, room, MSG_DONTWAIT);
  while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return WAIT;
  if (got < 0) {
    relay_end(relay, MCG_RELAY_RESET, errno, from);
    return OVER;
  }
  relay->last_ms = uv_now(relay->timer.loop);
  self->eof = got == 0;
  self->len = (size_t)got;
  self->bytes += (uint64_t)got;
  if (relay->options.traffic) mcg_traffic_moved(relay->options.traffic, from == FAR, (size_t)got);
  return GO_ON;
}

static step finish(flow *self, int from)
{
  mcg_relay *relay = self->relay;
  self->shut = true;
  free(self->buffer);
  self->buffer = NULL;
  if (relay->flows[!from].shut) { /* closing says the same */
    relay_end(relay, MCG_RELAY_FINISHED, 0, FAR);
    return OVER;
  }
  shutdown(relay->fds[!from], SHUT_WR);
  return WAIT;
}

/* False: the relay is over. */
static bool pump(mcg_relay *relay, int from)
{
  flow *self = &relay->flows[from];
  step next = self->shut || self->waiter.waits ? WAIT : GO_ON;
  for (int i = 0; next == GO_ON && (i < ROUNDS || self->eof); i++) { /* an end is seen through */
    next = drain(self, from);
    if (next == GO_ON) next = self->eof ? finish(self, from) : fill(self, from);
  }
  return next != OVER;
}

/* ---- watching ----------------------------------------------------------------------------- */

static void watch(mcg_relay *relay);

static void on_poll(uv_poll_t *poll, int status, int events)
{
  mcg_relay *relay = poll->data;
  int side = poll == &relay->polls[FAR];
  if (status < 0) { /* libuv no longer watches it; what is there is read first, then the error */
    relay->events[side] = 0;
    events = UV_READABLE | UV_WRITABLE;
  }
  if (events & UV_READABLE && !pump(relay, side)) return;
  if (events & UV_WRITABLE && !pump(relay, !side)) return;
  watch(relay);
}

static void watch(mcg_relay *relay)
{
  for (int side = 0; side < 2; side++) {
    const flow *from = &relay->flows[side], *into = &relay->flows[!side];
    int events = 0;
    if (!from->eof && !from->len && !from->waiter.waits) events |= UV_READABLE;
    if (into->len) events |= UV_WRITABLE;
    if (events == relay->events[side]) continue;
    relay->events[side] = events;
    if (events)
      uv_poll_start(&relay->polls[side], events, on_poll);
    else
      uv_poll_stop(&relay->polls[side]);
  }
}

static void on_allowed(mcg_traffic_waiter *waiter)
{
  flow *self = (flow *)((char *)waiter - offsetof(flow, waiter));
  mcg_relay *relay = self->relay;
  if (pump(relay, self == &relay->flows[FAR])) watch(relay);
}

int mcg_relay_start(uv_loop_t *loop, const mcg_relay_options *options, mcg_relay **out,
                    mcg_error **err)
{
  mcg_relay *relay = calloc(1, sizeof *relay);
  const int fds[2] = {options->near, options->far};
  int rc = relay ? 0 : UV_ENOMEM;
  for (int i = 0; i < 2 && rc == 0; i++) {
    relay->fds[i] = fds[i];
    relay->flows[i].relay = relay;
    relay->flows[i].waiter.resume = on_allowed;
    rc = uv_poll_init(loop, &relay->polls[i], fds[i]);
    if (rc < 0) break;
    relay->polls[i].data = relay;
    relay->handles++;
  }
  if (rc < 0) {
    for (int i = 0; i < 2; i++) {
      if (relay && (unsigned)i < relay->handles)
        uv_close((uv_handle_t *)&relay->polls[i], handle_closed);
      mcg_socket_reset(fds[i]);
    }
    if (relay && !relay->handles) free(relay);
    return mcg_fail_errno(err, -rc, NULL, "watch a connection");
  }
  relay->options = *options;
  uv_timer_init(loop, &relay->timer);
  relay->timer.data = relay;
  relay->handles++;
  relay->last_ms = uv_now(loop);
  if (options->idle_ms) uv_timer_start(&relay->timer, on_idle, options->idle_ms, 0);
  *out = relay;
  if (pump(relay, NEAR)) watch(relay); /* who connected has mostly spoken already */
  return 0;
}
