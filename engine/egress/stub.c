/* stub.c: the name server of a sandbox, on 127.0.0.1:53 in there. It knows the names that some rule
 * names, and for each one address of its own; what lies behind a name only the gateway knows.
 *
 * A question of IPv4 or IPv6 asks the host's resolver too, so that a name which does not exist does not
 * exist in the sandbox, and one without IPv6 has none there. Listeners stand before the answer goes. */
#include "await.h"
#include "dns_message.h"
#include "gateway_parts.h"
#include "service/linger.h"
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#define QUESTIONS_MAX 64 /* at once, over UDP and TCP together; those beyond are not answered */
#define PACKETS 32       /* at once; then the loop looks at the rest */
#define TCP_IDLE_MS 10000
#define TTL_S 60       /* an address stays its name's for as long as the session lives */
#define AGAIN_MS 1000  /* so soon the same refusal is not told again */
#define ANSWER_MAX 512 /* bytes: ours are never longer */

typedef struct question {
  mcg_egress *egress;
  int fd; /* UDP: the stub's, borrowed; TCP: the connection, owned */
  struct sockaddr_storage from;
  socklen_t from_len;
  size_t len;
  uint8_t bytes[MCG_DNS_QUERY_MAX];
} question;

/* ---- the answer --------------------------------------------------------------------------- */

static void tell_refused(mcg_egress *egress, const char *name, const char *rule, const char *reason)
{
  uint64_t now = mcg_now_ms(egress->engine);
  char told[sizeof egress->denied];
  snprintf(told, sizeof told, "%s %s", name, reason);
  if (strcmp(egress->denied, told) == 0 && now - egress->denied_ms < AGAIN_MS) return;
  strcpy(egress->denied, told);
  egress->denied_ms = now;
  mcg_netlog_denied(
      egress->log,
      &(mcg_net_event){.name = name, .protocol = "dns", .rule = rule, .reason = reason});
}

/* The name's number, when there is something to answer; else *rcode says what. */
static int number_of(mcg_egress *egress, const char *name, mcg_dns_code *rcode)
{
  char reason[96];
  int number = mcg_synthetic_number(egress->names, name);
  if (number >= 0) return number;
  snprintf(reason, sizeof reason,
           number == -1 ? "%d names were asked for, which is the most of a session" : "no memory",
           MCG_SYNTHETIC_MAX);
  tell_refused(egress, name, NULL, reason);
  *rcode = MCG_DNS_SERVFAIL;
  return -1;
}

static bool has_family(const mcg_resolved *resolved, bool six)
{
  for (size_t i = 0; i < resolved->count; i++)
    if (resolved->list[i].six == six) return true;
  return false;
}

/* Fills `address` and returns true, or says with *rcode why there is none: 0 is "no such data". */
static bool find(mcg_egress *egress, const char *name, bool six, mcg_address *address,
                 mcg_dns_code *rcode)
{
  mcg_resolved resolved;
  mcg_error *error = NULL;
  *rcode = MCG_DNS_SERVFAIL;
  if (mcg_proxy_covers(egress->proxy, name, NULL)) { /* what is behind the name the proxy knows */
    resolved = (mcg_resolved){.count = 1};
  } else if (mcg_resolve(egress->resolver, name, &resolved, &error) < 0) {
    if (error->code != MCG_CANCELED) tell_refused(egress, name, NULL, error->message);
    mcg_error_free(error);
    return false;
  }
  if (resolved.status == MCG_RESOLVE_FAILED) {
    tell_refused(egress, name, NULL, *resolved.reason ? resolved.reason : "no answer");
    return false;
  }
  *rcode = resolved.status == MCG_RESOLVE_NO_NAME ? MCG_DNS_NXDOMAIN : MCG_DNS_OK;
  if (!has_family(&resolved, six)) return false;
  int number = number_of(egress, name, rcode);
  if (number < 0) return false;
  if (mcg_egress_listen_for(egress, number, &error) < 0) {
    if (error->code != MCG_CANCELED) tell_refused(egress, name, NULL, error->message);
    mcg_error_free(error);
    *rcode = MCG_DNS_SERVFAIL;
    return false;
  }
  if (six && !egress->six) return false; /* found out by listening */
  mcg_synthetic_address(number, six, address);
  return true;
}

/* How long the answer is; 0: nothing is said. May park. */
static size_t answer(mcg_egress *egress, const question *asked, uint8_t *out)
{
  mcg_dns_query query;
  mcg_address address;
  bool found = false;
  if (!mcg_dns_read(asked->bytes, asked->len, &query)) return 0;
  mcg_dns_code rcode = query.code;
  if (rcode == MCG_DNS_OK && (!query.named || !mcg_policy_names(egress->policy, query.name))) {
    tell_refused(egress, query.shown, NULL, "no rule names it");
    rcode = MCG_DNS_NXDOMAIN;
  } else if (rcode == MCG_DNS_OK && (query.type == MCG_DNS_A || query.type == MCG_DNS_AAAA)) {
    found = find(egress, query.name, query.type == MCG_DNS_AAAA, &address, &rcode);
  }
  return mcg_dns_answer(&query, rcode, &address, found ? 1 : 0, TTL_S, out);
}

/* ---- UDP ---------------------------------------------------------------------------------- */

static void udp_main(void *arg)
{
  question *self = arg;
  mcg_egress *egress = self->egress;
  uint8_t out[MCG_DNS_ANSWER_ROOM];
  size_t len = answer(egress, self, out);
  if (len && !egress->ending)
    sendto(self->fd, out, len, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&self->from,
           self->from_len);
  egress->questions--;
  free(self);
}

/* One more question, unless there are too many: NULL. */
static question *question_new(mcg_egress *egress, int fd)
{
  question *self = egress->questions < QUESTIONS_MAX ? malloc(sizeof *self) : NULL;
  if (!self) return NULL;
  self->egress = egress;
  self->fd = fd;
  egress->questions++;
  return self;
}

static void udp_ready(mcg_watch *watch)
{
  for (int i = 0; i < PACKETS; i++) {
    mcg_error *error = NULL;
    struct sockaddr_storage from;
    socklen_t from_len = sizeof from;
    uint8_t bytes[MCG_DNS_QUERY_MAX];
    ssize_t len = recvfrom(watch->fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_TRUNC,
                           (struct sockaddr *)&from, &from_len);
    if (len < 0 && errno == EINTR) continue;
    if (len < 0) return;
    if ((size_t)len > sizeof bytes) continue;
    question *self = question_new(watch->egress, watch->fd);
    if (!self) continue;
    self->from = from;
    self->from_len = from_len;
    self->len = (size_t)len;
    memcpy(self->bytes, bytes, self->len);
    if (mcg_egress_start_task(watch->egress, udp_main, self, NULL, &error) == 0) continue;
    mcg_error_free(error);
    watch->egress->questions--;
    free(self);
  }
}

/* ---- TCP: a length of two bytes before each message ------------------------------------------ */

static int tcp_one(question *self, mcg_error **err)
{
  mcg_engine *engine = self->egress->engine;
  uint8_t head[2], out[MCG_DNS_ANSWER_ROOM];
  if (mcg_await_recv(engine, self->fd, head, 2, TCP_IDLE_MS, err) < 0) return -1;
  self->len = (size_t)head[0] << 8 | head[1];
  if (self->len > sizeof self->bytes)
    return mcg_fail(err, MCG_INVALID, NULL, "a question of %zu bytes", self->len);
  if (mcg_await_recv(engine, self->fd, self->bytes, self->len, TCP_IDLE_MS, err) < 0) return -1;
  size_t len = answer(self->egress, self, out + 2);
  if (!len) return mcg_fail(err, MCG_INVALID, NULL, "no question");
  mcg_dns_frame(out, len);
  return mcg_await_send(engine, self->fd, out, len + 2, TCP_IDLE_MS, err);
}

static void tcp_main(void *arg)
{
  question *self = arg;
  mcg_error *error = NULL;
  while (tcp_one(self, &error) == 0) continue;
  mcg_error_free(error); /* the other side has gone, or talks nonsense: nobody wants to know */
  mcg_close_now(self->fd);
  self->egress->questions--;
  free(self);
}

static void tcp_ready(mcg_watch *watch)
{
  for (int i = 0; i < PACKETS; i++) {
    mcg_error *error = NULL;
    int fd = mcg_egress_accept(watch);
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (fd < 0) {
      mcg_egress_accept_failed(watch, errno);
      return;
    }
    question *self = question_new(watch->egress, fd);
    if (self && mcg_egress_start_task(watch->egress, tcp_main, self, NULL, &error) == 0) continue;
    mcg_error_free(error);
    if (self) watch->egress->questions--;
    free(self);
    mcg_close_now(fd);
  }
}

int mcg_stub_start(mcg_egress *egress, int take_udp, int take_tcp, mcg_error **err)
{
  if (mcg_egress_watch(egress, take_udp, udp_ready, NULL, err) < 0) {
    close(take_tcp);
    return -1;
  }
  return mcg_egress_watch(egress, take_tcp, tcp_ready, NULL, err);
}
