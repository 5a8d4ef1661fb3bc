/* tls_bridge.c: the two sides of a connection, and the requests between them.
 *
 * First the program in the sandbox is given a certificate it believes, then the server is asked for one
 * that this system believes. Where that fails the program's request is answered with 502, which says why:
 * nothing of it has left. */
#include "tls_bridge_parts.h"
#include "service/linger.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define HANDSHAKE_MS 30000
#define HEAD_MS 30000
#define LINGER_MS 2000 /* for the program to read an answer that it did not wait for */
#define TICK_MS 500
#define TURNS 4      /* how often one connection is served before others get their turn */
#define STRIKE_MIN 6 /* shorter values are in every other text */

/* ---- the end ------------------------------------------------------------------------------ */

static void handle_closed(uv_handle_t *handle)
{
  mcg_tls_bridge *bridge = ((mcg_tls_side *)handle->data)->bridge;
  if (--bridge->handles == 0) free(bridge);
}

static void let_go(mcg_tls_bridge *bridge)
{
  for (int i = 0; i < 2; i++) mcg_side_fini(&bridge->sides[i]);
  mcg_exchange_free(bridge->exchange);
  mcg_secrets_free(bridge->secrets);
  mcg_bytes_fini(&bridge->texts);
  free(bridge->set);
  free(bridge->name);
  mcg_error_free(bridge->error);
}

static void bridge_end(mcg_tls_bridge *bridge, mcg_relay_reason reason, int side)
{
  if (bridge->over) return;
  bridge->over = true;
  uv_close((uv_handle_t *)&bridge->timer, handle_closed);
  for (int i = 0; i < 2; i++) {
    uv_close((uv_handle_t *)&bridge->sides[i].poll, handle_closed);
    if (reason == MCG_RELAY_FINISHED)
      mcg_close_now(bridge->sides[i].fd);
    else
      mcg_socket_reset(bridge->sides[i].fd);
  }
  const mcg_tls_bridge_end end = {.relay = {.reason = reason,
                                            .number = bridge->sides[side].error,
                                            .near = side == MCG_NEAR,
                                            .in = bridge->sides[MCG_FAR].bytes,
                                            .out = bridge->sides[MCG_NEAR].bytes},
                                  .error = bridge->error,
                                  .requests = mcg_exchange_requests(bridge->exchange)};
  void (*ended)(void *, const mcg_tls_bridge_end *) = bridge->options.ended;
  ended(bridge->options.data, &end);
  let_go(bridge);
}

void mcg_tls_bridge_cut(mcg_tls_bridge *bridge)
{
  bridge_end(bridge, MCG_RELAY_CUT, MCG_FAR);
}

/* ---- handshakes --------------------------------------------------------------------------- */

/* Nothing is said to the server: it may not be the one it should be. */
static void far_failed(mcg_tls_bridge *bridge, mcg_error *take_error)
{
  mcg_side_send(&bridge->sides[MCG_FAR]); /* an alert */
  bridge->sides[MCG_FAR].gone = bridge->sides[MCG_FAR].broken = true;
  mcg_bytes_fini(&bridge->sides[MCG_FAR].cipher);
  mcg_exchange_fail(bridge->exchange, take_error->message);
  bridge->far_ended = true;
  mcg_error_free(bridge->error);
  bridge->error = take_error;
}

static bool shake(mcg_tls_bridge *bridge)
{
  mcg_tls_side *near = &bridge->sides[MCG_NEAR], *far = &bridge->sides[MCG_FAR];
  mcg_error *failed = NULL;
  bool moved = false;
  if (!near->stands) {
    moved = mcg_side_shake(near, &failed);
    if (failed) {
      mcg_side_send(near);
      mcg_error_free(bridge->error);
      bridge->error = failed;
      bridge_end(bridge, MCG_RELAY_FINISHED, MCG_NEAR); /* no reset: an alert is to be read */
      return false;
    }
  }
  if (!near->stands || far->stands || far->broken) return moved;
  moved |= mcg_side_shake(far, &failed);
  if (failed) far_failed(bridge, failed);
  return moved || failed;
}

/* ---- requests and responses --------------------------------------------------------------- */

static bool carry_out(mcg_tls_bridge *bridge)
{
  mcg_tls_side *near = &bridge->sides[MCG_NEAR], *far = &bridge->sides[MCG_FAR];
  mcg_bytes out = {0}, back = {0};
  bool ready = (far->stands || far->broken) && far->cipher.len < MCG_BRIDGE_HELD;
  size_t took = ready && near->plain.len
                    ? mcg_exchange_near(bridge->exchange, mcg_bytes_of(&near->plain),
                                        near->plain.len, &out, &back)
                    : 0;
  mcg_bytes_taken(&near->plain, took);
  bool moved = took || out.len || back.len;
  mcg_side_encrypt(far, &out);
  mcg_side_encrypt(near, &back);
  bool heading = mcg_exchange_heading(bridge->exchange);
  bool last = near->closed || near->broken;
  if (last && !bridge->near_ended && !moved && ready && (!near->plain.len || heading)) {
    bridge->near_ended = moved = true;
    mcg_exchange_near_ended(bridge->exchange);
    if (mcg_exchange_raw(bridge->exchange)) mcg_side_close(far, near->closed);
  }
  return moved;
}

static bool carry_back(mcg_tls_bridge *bridge)
{
  mcg_tls_side *near = &bridge->sides[MCG_NEAR], *far = &bridge->sides[MCG_FAR];
  mcg_bytes back = {0};
  bool ready = far->stands && near->cipher.len < MCG_BRIDGE_HELD;
  size_t took =
      ready && far->plain.len
          ? mcg_exchange_far(bridge->exchange, mcg_bytes_of(&far->plain), far->plain.len, &back)
          : 0;
  mcg_bytes_taken(&far->plain, took);
  bool moved = took || back.len;
  if (ready && (far->closed || far->broken) && !moved && !bridge->far_ended) {
    bridge->far_ended = moved = true;
    mcg_exchange_far_ended(bridge->exchange, far->closed, &back);
  }
  mcg_side_encrypt(near, &back);
  return moved;
}

/* A head that is begun has to end. */
static void mind_heads(mcg_tls_bridge *bridge)
{
  bool begun = mcg_exchange_heading(bridge->exchange) && bridge->sides[MCG_NEAR].plain.len;
  if (!begun)
    bridge->heading_ms = 0;
  else if (!bridge->heading_ms)
    bridge->heading_ms = uv_now(bridge->timer.loop);
}

/* What the program still says is for nobody. False: it says nothing more. */
static bool discard(const mcg_tls_side *near)
{
  char rest[4096];
  ssize_t got = near->eof ? 0 : 1;
  for (int i = 0; i < 16 && got > 0; i++) got = recv(near->fd, rest, sizeof rest, MSG_DONTWAIT);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

/* The exchange is over: its last bytes go out, then the end, and the program may take its time. */
static bool wind_up(mcg_tls_bridge *bridge)
{
  mcg_tls_side *near = &bridge->sides[MCG_NEAR], *far = &bridge->sides[MCG_FAR];
  mcg_exchange_state state = mcg_exchange_state_of(bridge->exchange);
  const char *why = mcg_exchange_why(bridge->exchange);
  uint64_t now = uv_now(bridge->timer.loop);
  if (state == MCG_EXCHANGE_OPEN) return false;
  if (!bridge->ending_ms) {
    bridge->ending_ms = now;
    if (why && !bridge->error) mcg_fail(&bridge->error, MCG_PROTOCOL, NULL, "%s", why);
    mcg_side_close(near, state == MCG_EXCHANGE_FINISHED);
    mcg_side_close(far, state == MCG_EXCHANGE_FINISHED);
  }
  if (mcg_side_send(near)) bridge->last_ms = now;
  mcg_side_send(far);
  if (!near->cipher.len && !bridge->lingers) {
    shutdown(near->fd, SHUT_WR);
    bridge->lingers = true;
    bridge->ending_ms = now;
  }
  if (near->gone || (bridge->lingers && !discard(near)))
    bridge_end(bridge, MCG_RELAY_FINISHED, MCG_NEAR);
  return true;
}

/* ---- the turn ----------------------------------------------------------------------------- */

static void watch(mcg_tls_bridge *bridge);

static bool turn(mcg_tls_bridge *bridge)
{
  mcg_tls_side *near = &bridge->sides[MCG_NEAR], *far = &bridge->sides[MCG_FAR];
  bool moved = false;
  moved |= mcg_side_receive(near, far);
  if (near->stands && !far->broken) moved |= mcg_side_receive(far, near);
  if (!near->stands || (!far->stands && !far->broken)) moved |= shake(bridge);
  if (bridge->over) return false;
  for (int i = 0; i < 2; i++)
    if (bridge->sides[i].stands) moved |= mcg_side_decrypt(&bridge->sides[i]);
  if (near->stands) moved |= carry_out(bridge);
  if (near->stands) moved |= carry_back(bridge);
  for (int i = 0; i < 2; i++) moved |= mcg_side_send(&bridge->sides[i]);
  return moved;
}

/* Something that came is still on its way. */
static bool has_more(const mcg_tls_bridge *bridge)
{
  return bridge->sides[MCG_NEAR].cipher.len || bridge->sides[MCG_FAR].cipher.len;
}

static void pump(mcg_tls_bridge *bridge)
{
  unsigned turns = 0;
  while (mcg_exchange_state_of(bridge->exchange) == MCG_EXCHANGE_OPEN && turns < TURNS &&
         turn(bridge))
    turns++;
  if (bridge->over) return;
  mcg_traffic *traffic = bridge->options.traffic;
  if (turns) bridge->last_ms = uv_now(bridge->timer.loop);
  bridge->more = turns == TURNS;
  mind_heads(bridge);
  if (wind_up(bridge)) {
    if (!bridge->over) watch(bridge);
  } else if (bridge->sides[MCG_NEAR].gone) {
    bridge_end(bridge, MCG_RELAY_RESET, MCG_NEAR);
  } else if (bridge->sides[MCG_FAR].gone && bridge->sides[MCG_FAR].stands) {
    bridge_end(bridge, MCG_RELAY_RESET, MCG_FAR);
  } else if (traffic && mcg_traffic_spent(traffic) && !has_more(bridge)) {
    bridge_end(bridge, MCG_RELAY_SPENT, MCG_FAR);
  } else {
    watch(bridge);
  }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
  (void)events;
  mcg_tls_side *side = poll->data;
  if (status < 0) side->events = 0; /* libuv watches it no more; what is wrong is read below */
  pump(side->bridge);
}

static void watch(mcg_tls_bridge *bridge)
{
  for (int i = 0; i < 2; i++) {
    mcg_tls_side *side = &bridge->sides[i];
    int events = 0;
    if (bridge->ending_ms ? i == MCG_NEAR && bridge->lingers
                          : mcg_side_wants(side, &bridge->sides[!i]))
      events |= UV_READABLE;
    if (i == MCG_FAR && !bridge->sides[MCG_NEAR].stands) events = 0;
    /* Where it was others' turn, whichever can be written to wakes it: at once, in most cases. */
    if ((side->cipher.len || bridge->more) && !side->gone) events |= UV_WRITABLE;
    if (events == side->events) continue;
    side->events = events;
    if (events)
      uv_poll_start(&side->poll, events, on_poll);
    else
      uv_poll_stop(&side->poll);
  }
}

static void on_allowed(mcg_traffic_waiter *waiter)
{
  mcg_tls_side *side = (mcg_tls_side *)((char *)waiter - offsetof(mcg_tls_side, waiter));
  pump(side->bridge);
}

static void on_tick(uv_timer_t *timer)
{
  mcg_tls_side *side = timer->data;
  mcg_tls_bridge *bridge = side->bridge;
  uint64_t now = uv_now(timer->loop);
  bool shaken = bridge->sides[MCG_NEAR].stands &&
                (bridge->sides[MCG_FAR].stands || bridge->sides[MCG_FAR].broken);
  if (bridge->lingers) {
    if (now - bridge->ending_ms >= LINGER_MS) bridge_end(bridge, MCG_RELAY_FINISHED, MCG_NEAR);
  } else if (!bridge->ending_ms && !shaken && now - bridge->begun_ms >= HANDSHAKE_MS) {
    mcg_fail(&bridge->error, MCG_TIMEOUT, NULL, "TLS was not agreed on in %d s",
             HANDSHAKE_MS / 1000);
    bridge_end(bridge, MCG_RELAY_RESET, MCG_FAR);
  } else if (!bridge->ending_ms && bridge->heading_ms && now - bridge->heading_ms >= HEAD_MS) {
    mcg_bytes back = {0};
    mcg_exchange_late(bridge->exchange, &back);
    mcg_side_encrypt(&bridge->sides[MCG_NEAR], &back);
    pump(bridge);
  } else if (bridge->options.idle_ms && now - bridge->last_ms >= bridge->options.idle_ms) {
    bridge_end(bridge, MCG_RELAY_IDLE, MCG_FAR);
  }
}

/* ---- the beginning ------------------------------------------------------------------------ */

static int no_memory(mcg_error **err)
{
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a connection");
}

/* The value, and what of it is the secret itself: what was said to be one, and "Bearer SECRET". */
static bool strike(mcg_tls_bridge *bridge, const char *value, const char *secrets)
{
  const char *word = strrchr(value, ' ');
  for (size_t len; secrets && (len = strlen(secrets)) > 0; secrets += len + 1)
    if (len >= STRIKE_MIN && !mcg_secrets_add(bridge->secrets, secrets, len)) return false;
  if (strlen(value) >= STRIKE_MIN && !mcg_secrets_add(bridge->secrets, value, strlen(value)))
    return false;
  return !word || strlen(word + 1) < STRIKE_MIN ||
         mcg_secrets_add(bridge->secrets, word + 1, strlen(word + 1));
}

static bool is_set(const mcg_tls_bridge *bridge, const char *name)
{
  for (size_t i = 0; i < bridge->rule.count; i++)
    if (strcasecmp(bridge->set[i].name, name) == 0) return true;
  return false;
}

/* Copies, for the policy may be another before the connection ends. */
static bool copy_headers(mcg_tls_bridge *bridge)
{
  const mcg_tls_bridge_options *options = &bridge->options;
  size_t count = 0, len = 0;
  for (size_t i = 0; i < options->rule_count; i++)
    for (size_t k = 0; k < options->rules[i]->header_count; k++, count++)
      len += strlen(options->rules[i]->headers[k].name) +
             strlen(options->rules[i]->headers[k].value) + 2;
  bridge->set = calloc(count + 1, sizeof *bridge->set);
  char *at = mcg_bytes_room(&bridge->texts, len + 1);
  if (!bridge->set || !at) return false;
  for (size_t i = 0; i < options->rule_count; i++)
    for (size_t k = 0; k < options->rules[i]->header_count; k++) {
      const mcg_header *header = &options->rules[i]->headers[k];
      if (is_set(bridge, header->name)) continue;
      mcg_http_set *set = &bridge->set[bridge->rule.count];
      set->name = at;
      at = stpcpy(at, header->name) + 1;
      set->value = at;
      at = stpcpy(at, header->value) + 1;
      bridge->rule.count++;
      if (!strike(bridge, set->value, header->secrets)) return false;
    }
  return true;
}

static int prepare(mcg_tls_bridge *bridge, mcg_error **err)
{
  const mcg_tls_bridge_options *options = &bridge->options;
  const mcg_tls_identity *identity;
  bridge->name = strdup(options->name);
  bridge->secrets = mcg_secrets_new();
  if (!bridge->name || !bridge->secrets || !copy_headers(bridge)) return no_memory(err);
  bridge->rule.host = bridge->name;
  bridge->rule.port = options->port;
  bridge->rule.set = bridge->set;
  bridge->rule.plain = bridge->rule.count > 0;
  bridge->exchange = mcg_exchange_new(&bridge->rule, bridge->secrets);
  if (!bridge->exchange) return no_memory(err);
  if (mcg_authority_identity(options->authority, options->name, &identity, err) < 0 ||
      mcg_tls_accept(identity, &bridge->sides[MCG_NEAR].tls, err) < 0)
    return -1;
  return mcg_tls_connect(mcg_authority_trust(options->authority), options->name,
                         &bridge->sides[MCG_FAR].tls, err);
}

static int watch_both(mcg_tls_bridge *bridge, uv_loop_t *loop, mcg_error **err)
{
  for (int i = 0; i < 2; i++) {
    int rc = uv_poll_init(loop, &bridge->sides[i].poll, bridge->sides[i].fd);
    if (rc < 0) return mcg_fail_errno(err, -rc, NULL, "watch a connection");
    bridge->sides[i].poll.data = &bridge->sides[i];
    bridge->handles++;
  }
  return 0;
}

static void abandon(mcg_tls_bridge *bridge)
{
  let_go(bridge);
  for (unsigned i = 0; i < 2; i++) {
    if (i < bridge->handles) uv_close((uv_handle_t *)&bridge->sides[i].poll, handle_closed);
    mcg_socket_reset(bridge->sides[i].fd);
  }
  if (!bridge->handles) free(bridge);
}

int mcg_tls_bridge_start(uv_loop_t *loop, const mcg_tls_bridge_options *options,
                         mcg_tls_bridge **out, mcg_error **err)
{
  mcg_tls_bridge *bridge = calloc(1, sizeof *bridge);
  if (!bridge) {
    mcg_socket_reset(options->near);
    mcg_socket_reset(options->far);
    return no_memory(err);
  }
  bridge->options = *options;
  for (int i = 0; i < 2; i++) {
    bridge->sides[i].bridge = bridge;
    bridge->sides[i].fd = i == MCG_NEAR ? options->near : options->far;
    bridge->sides[i].waiter.resume = on_allowed;
  }
  if (prepare(bridge, err) < 0 || watch_both(bridge, loop, err) < 0) {
    abandon(bridge);
    return -1;
  }
  uv_timer_init(loop, &bridge->timer);
  bridge->timer.data = &bridge->sides[MCG_NEAR];
  bridge->handles++;
  bridge->options.name = NULL; /* copied, as the rules were */
  bridge->options.rules = NULL;
  bridge->begun_ms = bridge->last_ms = uv_now(loop);
  uv_timer_start(&bridge->timer, on_tick, TICK_MS, TICK_MS);
  watch(bridge);
  *out = bridge;
  return 0;
}
