/* connection.c: one connection of a sandbox, from accept to its end: where it wants to go, whether it
 * may, the connection outside, and the relay between the two. All of it on one fiber, but for the bytes. */
#include "dial.h"
#include "gateway_parts.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#define DIAL_MS 15000

/* ---- the list ----------------------------------------------------------------------------- */

static void link_in(mcg_connection *self)
{
  mcg_egress *egress = self->egress;
  self->after = egress->connections;
  if (self->after) self->after->before = self;
  egress->connections = self;
  egress->connection_count++;
}

static void unlink_from(mcg_connection *self)
{
  mcg_egress *egress = self->egress;
  if (self->before)
    self->before->after = self->after;
  else
    egress->connections = self->after;
  if (self->after) self->after->before = self->before;
  egress->connection_count--;
}

/* ---- what is told ------------------------------------------------------------------------- */

static void denied(mcg_connection *self, const mcg_address *address, const char *rule,
                   const char *reason)
{
  char text[MCG_ADDRESS_TEXT];
  if (address) mcg_address_text(address, text);
  mcg_netlog_denied(self->egress->log, &(mcg_net_event){.name = self->name,
                                                        .address = address ? text : NULL,
                                                        .port = self->port,
                                                        .protocol = "tcp",
                                                        .rule = rule,
                                                        .reason = reason});
}

/* ---- may it? ------------------------------------------------------------------------------ */

static bool judge(mcg_connection *self, const mcg_address *address, mcg_verdict *verdict)
{
  const mcg_target target = {.name = self->name, .address = address, .port = self->port};
  mcg_policy *before = self->policy;
  self->policy = mcg_policy_ref(self->egress->policy);
  mcg_policy_unref(before);
  return mcg_policy_judge(self->policy, &target, verdict);
}

/* Does the rule want a name in TLS that nobody has looked at yet? */
static bool owes_greeting(const mcg_connection *self, const mcg_verdict *verdict)
{
  return verdict->sni && !verdict->terminate_tls && !self->greeted;
}

static int greet(mcg_connection *self, mcg_error **err)
{
  if (mcg_hello_check(self, err) < 0) return -1;
  self->greeted = true;
  return 0;
}

/* Also what was ended from outside before it was let through. Takes the error. */
static int denied_by(mcg_connection *self, const char *rule, mcg_error *take_error)
{
  const char *why = take_error->code != MCG_CANCELED ? take_error->message : self->cut;
  if (why) denied(self, NULL, rule, why);
  mcg_error_free(take_error);
  return -1;
}

/* Name and port before anything is looked up, then every address that the name has. -1: it was told why
 * not. */
static int decide(mcg_connection *self, mcg_resolved *resolved, mcg_verdict *verdict)
{
  mcg_error *error = NULL;
  mcg_proxy *proxy = self->egress->proxy;
  self->proxied = mcg_proxy_covers(proxy, self->name, self->name ? NULL : &self->wanted);
  if (!self->name) {
    *resolved = (mcg_resolved){.count = 1, .list = {self->wanted}};
  } else if (!judge(self, NULL, verdict)) {
    denied(self, NULL, verdict->rule, verdict->reason);
    return -1;
  } else if (self->proxied) { /* what is behind the name the proxy knows */
    *resolved = (mcg_resolved){.count = 0};
  } else if (mcg_resolve(self->egress->resolver, self->name, resolved, &error) < 0) {
    return denied_by(self, NULL, error);
  } else if (resolved->status != MCG_RESOLVED) {
    char reason[160];
    snprintf(reason, sizeof reason, "%s",
             *resolved->reason ? resolved->reason : "the name has no address");
    denied(self, NULL, NULL, reason);
    return -1;
  }
  for (size_t i = 0; i < resolved->count; i++) {
    if (judge(self, &resolved->list[i], verdict)) continue;
    denied(self, &resolved->list[i], verdict->rule, verdict->reason);
    return -1;
  }
  if (!owes_greeting(self, verdict) || greet(self, &error) == 0) return 0;
  return denied_by(self, verdict->rule, error);
}

/* ---- carrying ----------------------------------------------------------------------------- */

static void relay_ended(void *data, const mcg_relay_end *end)
{
  mcg_connection *self = data;
  self->relay = NULL;
  self->end = *end;
  self->end.in += self->early_in;
  self->end.out += self->early_out;
  self->relayed = true;
  mcg_wait_wake(self->egress->engine, &self->wait);
}

static void bridge_ended(void *data, const mcg_tls_bridge_end *end)
{
  mcg_connection *self = data;
  self->bridge = NULL;
  if (end->error) self->failed = mcg_error_copy(end->error);
  relay_ended(self, &end->relay);
}

/* TLS ends here, on both sides. */
static int start_bridge(mcg_connection *self, const mcg_verdict *verdict, int take_far,
                        mcg_error **err)
{
  mcg_egress *egress = self->egress;
  char text[MCG_ADDRESS_TEXT];
  if (!self->name) mcg_address_text(&self->wanted, text);
  const mcg_tls_bridge_options options = {.near = mcg_steal_fd(&self->fd),
                                          .far = take_far,
                                          .idle_ms = mcg_policy_limits(egress->policy)->idle_ms,
                                          .traffic = &egress->traffic,
                                          .authority = egress->session->authority,
                                          .name = self->name ? self->name : text,
                                          .port = self->port,
                                          .rules = verdict->rules,
                                          .rule_count = verdict->rule_count,
                                          .ended = bridge_ended,
                                          .data = self};
  return mcg_tls_bridge_start(egress->engine->loop, &options, &self->bridge, err);
}

static int start_relay(mcg_connection *self, int take_far, mcg_error **err)
{
  mcg_egress *egress = self->egress;
  const mcg_relay_options options = {.near = mcg_steal_fd(&self->fd),
                                     .far = take_far,
                                     .idle_ms = mcg_policy_limits(egress->policy)->idle_ms,
                                     .traffic = &egress->traffic,
                                     .ended = relay_ended,
                                     .data = self};
  return mcg_relay_start(egress->engine->loop, &options, &self->relay, err);
}

static int carry(mcg_connection *self, const mcg_verdict *verdict, int take_far, mcg_error **err)
{
  mcg_egress *egress = self->egress;
  int rc = verdict->terminate_tls ? start_bridge(self, verdict, take_far, err)
                                  : start_relay(self, take_far, err);
  if (rc < 0) return -1;
  mcg_error *canceled = NULL;
  while (!self->relayed && mcg_wait_park(egress->engine, &self->wait, -1, &canceled) == 0) continue;
  mcg_error_free(canceled);
  if (self->relay) mcg_relay_cut(self->relay);
  if (self->bridge) mcg_tls_bridge_cut(self->bridge);
  return 0;
}

static int dial(mcg_connection *self, const mcg_resolved *resolved, int *far, mcg_error **err)
{
  mcg_egress *egress = self->egress;
  size_t which;
  if (self->proxied)
    return mcg_proxy_dial(egress->engine, egress->resolver, egress->proxy, self->name,
                          &self->wanted, self->port, far, err);
  if (mcg_dial(egress->engine, resolved->list, resolved->count, self->port, DIAL_MS, far, &which,
               err) < 0)
    return -1;
  self->dialled = resolved->list[which];
  self->connected = true;
  return 0;
}

/* By the policy there is now, and with the address that was dialled, where that is known. */
static bool judge_now(mcg_connection *self, mcg_verdict *verdict)
{
  const mcg_address *address = self->connected ? &self->dialled : self->name ? NULL : &self->wanted;
  return judge(self, address, verdict);
}

static int reach(mcg_connection *self, const mcg_resolved *resolved, mcg_verdict *verdict,
                 mcg_error **err)
{
  int far, rc = 0;
  if (dial(self, resolved, &far, err) < 0) return -1;
  if (self->cut) { /* before it was dialled, perhaps, which then did not wait */
    mcg_socket_reset(far);
    return mcg_fail(err, MCG_CANCELED, NULL, "%s", self->cut);
  }
  bool may = judge_now(self, verdict); /* the policy may have been changed meanwhile */
  if (may && verdict->sni && !verdict->terminate_tls) {
    rc = mcg_hello_pass(self, far, err);
    self->greeted = rc == 0;
    may = rc == 0 && judge_now(self, verdict);
  }
  if (may) return carry(self, verdict, far, err);
  mcg_socket_reset(far);
  return rc < 0 ? -1 : mcg_fail(err, MCG_CANCELED, NULL, "%s", verdict->reason);
}

static mcg_error *why_cut(mcg_connection *self)
{
  mcg_error *error = NULL;
  if (self->relayed && self->egress->ending && self->end.near_over) {
    self->cut = NULL; /* the program had ended it: only the other side had not */
    self->end.reason = MCG_RELAY_FINISHED;
  }
  if (self->cut) mcg_fail(&error, MCG_CANCELED, NULL, "%s", self->cut);
  if (error || !self->relayed) return error;
  const mcg_egress_limits *limits = mcg_policy_limits(self->egress->policy);
  if (self->end.reason == MCG_RELAY_IDLE)
    mcg_fail(&error, MCG_TIMEOUT, "raise network.idle_s", "nothing moved for %.3g s",
             (double)limits->idle_ms / 1000);
  else if (self->end.reason == MCG_RELAY_SPENT)
    mcg_fail(&error, MCG_QUOTA, "raise network.bytes_total", "the session has moved %llu bytes",
             (unsigned long long)limits->bytes_total);
  else if (self->failed)
    error = mcg_error_copy(self->failed);
  return error;
}

static void connect_and_tell(mcg_connection *self, const mcg_resolved *resolved,
                             mcg_verdict *verdict)
{
  mcg_net_entry *entry;
  mcg_error *error = NULL;
  char text[MCG_ADDRESS_TEXT];
  if (resolved->count) mcg_address_text(&resolved->list[0], text);
  const mcg_net_event event = {.name = self->name,
                               .address = resolved->count ? text : NULL,
                               .proxy = self->proxied ? mcg_proxy_text(self->egress->proxy) : NULL,
                               .port = self->port,
                               .protocol = "tcp",
                               .rule = verdict->rule};
  if (mcg_netlog_start(self->egress->log, &event, &entry, &error) < 0) {
    mcg_log(self->egress->engine, MCG_LOG_ERROR, "session %.8s: a connection was refused: %s",
            self->egress->session->id, error->message);
    mcg_error_free(error);
    return;
  }
  int rc = reach(self, resolved, verdict, &error);
  if (rc == 0 || self->cut) {
    mcg_error *cut = why_cut(self);
    if (cut) {
      mcg_error_free(error);
      error = cut;
    }
  }
  if (self->connected) mcg_address_text(&self->dialled, text);
  mcg_netlog_finish(entry, self->connected ? text : NULL, error, self->relayed ? &self->end : NULL);
  mcg_error_free(error);
}

static void connection_main(void *arg)
{
  mcg_connection *self = arg;
  mcg_resolved resolved;
  mcg_verdict verdict;
  if (decide(self, &resolved, &verdict) == 0) connect_and_tell(self, &resolved, &verdict);
  if (self->fd >= 0) mcg_socket_reset(self->fd);
  unlink_from(self);
  mcg_policy_unref(self->policy);
  mcg_error_free(self->failed);
  free(self);
}

/* ---- accepting ---------------------------------------------------------------------------- */

static bool is_loopback(const mcg_address *address)
{
  static const uint8_t six[16] = {[15] = 1};
  return address->six ? memcmp(address->bytes, six, sizeof six) == 0 : address->bytes[0] == 127;
}

/* Where it was meant to go. */
static bool destination(const mcg_watch *listener, int fd, mcg_address *address, uint16_t *port)
{
  struct sockaddr_storage at = {0};
  socklen_t len = sizeof at;
  auto_error mcg_error *unknown = NULL;
  int rc = listener->redirect ? mcg_redirected_destination(fd, &at, &unknown)
                              : getsockname(fd, (struct sockaddr *)&at, &len);
  if (rc < 0 || !mcg_address_of((struct sockaddr *)&at, address)) return false;
  *port = ntohs(at.ss_family == AF_INET ? ((struct sockaddr_in *)&at)->sin_port
                                        : ((struct sockaddr_in6 *)&at)->sin6_port);
  return true;
}

/* Whether it may be judged at all; else it was told why not. */
static bool acceptable(mcg_connection *self)
{
  mcg_egress *egress = self->egress;
  bool ours;
  char reason[96];
  unsigned most = mcg_policy_limits(egress->policy)->connections;
  self->name = mcg_synthetic_name(egress->names, &self->wanted, &ours);
  if (is_loopback(&self->wanted))
    denied(self, &self->wanted, NULL, "nothing of the sandbox listens there");
  else if (ours && !self->name)
    denied(self, &self->wanted, NULL, "no name has this address");
  else if (most && egress->connection_count >= most) {
    snprintf(reason, sizeof reason, "%u connections are open, which is network.connections", most);
    denied(self, self->name ? NULL : &self->wanted, "connections", reason);
  } else if (mcg_traffic_spent(&egress->traffic))
    denied(self, self->name ? NULL : &self->wanted, "bytes_total",
           "the session has moved network.bytes_total already");
  else
    return true;
  return false;
}

static void take(mcg_watch *listener, int fd)
{
  mcg_error *error = NULL;
  mcg_connection *self = calloc(1, sizeof *self);
  if (!self) {
    mcg_socket_reset(fd);
    return;
  }
  self->egress = listener->egress;
  self->fd = fd;
  mcg_wait_init(&self->wait);
  if (!destination(listener, fd, &self->wanted, &self->port))
    denied(self, NULL, NULL, "where it was meant to go is not known");
  else if (acceptable(self)) {
    link_in(self);
    if (mcg_egress_start_task(self->egress, connection_main, self, &self->fiber, &error) == 0)
      return;
    unlink_from(self);
    denied(self, self->name ? NULL : &self->wanted, NULL, error->message);
    mcg_error_free(error);
  }
  mcg_socket_reset(fd);
  free(self);
}

/* One: the loop comes back while there are more, and nearly always there is no second one to be found. */
void mcg_connections_accept(mcg_watch *listener)
{
  int fd = mcg_egress_accept(listener);
  if (fd >= 0)
    take(listener, fd);
  else if (errno != EINTR && errno != ECONNABORTED)
    mcg_egress_accept_failed(listener, errno);
}

/* ---- from outside ------------------------------------------------------------------------- */

void mcg_connection_cut(mcg_connection *self, const char *why)
{
  if (!self->cut) self->cut = why;
  if (self->relay)
    mcg_relay_cut(self->relay);
  else if (self->bridge)
    mcg_tls_bridge_cut(self->bridge);
  else
    mcg_fiber_cancel(self->fiber);
}

/* What a bridge sets in requests is by the rules that it began with: it does not outlive them. */
void mcg_connection_judge_again(mcg_connection *self)
{
  mcg_verdict verdict;
  const mcg_address *address = self->connected ? &self->dialled : self->name ? NULL : &self->wanted;
  const mcg_target target = {.name = self->name, .address = address, .port = self->port};
  if (!mcg_policy_judge(self->egress->policy, &target, &verdict))
    mcg_connection_cut(self, "the network policy was changed, and allows it no longer");
  else if (self->bridge || (self->relay && verdict.terminate_tls))
    mcg_connection_cut(self, "the network policy was changed, and with it where TLS ends");
  else if (self->relay && owes_greeting(self, &verdict))
    mcg_connection_cut(self, "the network policy was changed, and wants a name in TLS (sni)");
}
