/* doctor_egress.c: the whole way out: two listeners of the doctor's own, on an address of this machine, a
 * sandbox whose policy allows one of them, and a program in it that tries both. */
#include "doctor.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <jansson.h>
#include <net/if.h>
#include <string.h>
#include <uv.h>

#define NAME "egress gateway"
#define GREETING "let out"

/* bash can connect, and is in most sandboxes. */
static const char command[] = "command -v bash >/dev/null || exit 77\n"
                              "bash -c 'exec 3<>/dev/tcp/%s/%d && cat <&3' 2>/dev/null || exit 1\n"
                              "! bash -c 'exec 3<>/dev/tcp/%s/%d' 2>/dev/null || exit 2\n";

typedef struct listener {
  uv_tcp_t handle;
  mcg_engine *engine;
  mcg_wait *gone; /* the doctor waits until it is closed */
  int port, met;
  bool closed;
} listener;

typedef struct visitor {
  uv_tcp_t handle;
  uv_write_t write;
} visitor;

static void free_visitor(uv_handle_t *handle)
{
  free(handle->data);
}

static void greeted(uv_write_t *write, int status)
{
  visitor *self = write->data;
  (void)status;
  uv_close((uv_handle_t *)&self->handle, free_visitor);
}

static void on_connection(uv_stream_t *server, int status)
{
  listener *self = server->data;
  visitor *one = status == 0 ? calloc(1, sizeof *one) : NULL;
  uv_buf_t text = uv_buf_init((char *)GREETING, sizeof GREETING - 1);
  if (!one) return;
  if (uv_tcp_init(server->loop, &one->handle) != 0) {
    free(one);
    return;
  }
  self->met++;
  one->handle.data = one->write.data = one;
  if (uv_accept(server, (uv_stream_t *)&one->handle) != 0 ||
      uv_write(&one->write, (uv_stream_t *)&one->handle, &text, 1, greeted) != 0)
    uv_close((uv_handle_t *)&one->handle, free_visitor);
}

static void on_closed(uv_handle_t *handle)
{
  listener *self = handle->data;
  self->closed = true;
  mcg_wait_wake(self->engine, self->gone);
}

static int listen_on(listener *self, mcg_engine *engine, mcg_wait *gone, struct in_addr address)
{
  struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr = address};
  int len = sizeof where;
  *self = (listener){.engine = engine, .gone = gone};
  int rc = uv_tcp_init(mcg_engine_loop(engine), &self->handle);
  if (rc != 0) {
    self->closed = true;
    return rc;
  }
  self->handle.data = self;
  rc = uv_tcp_bind(&self->handle, (struct sockaddr *)&where, 0);
  if (rc == 0) rc = uv_listen((uv_stream_t *)&self->handle, 8, on_connection);
  if (rc == 0) rc = uv_tcp_getsockname(&self->handle, (struct sockaddr *)&where, &len);
  self->port = ntohs(where.sin_port);
  return rc;
}

static void close_both(mcg_engine *engine, mcg_wait *gone, listener both[2])
{
  for (int i = 0; i < 2; i++)
    if (!both[i].closed) uv_close((uv_handle_t *)&both[i].handle, on_closed);
  mcg_fiber_shield(engine, true);
  while (!both[0].closed || !both[1].closed) {
    auto_error mcg_error *ignored = NULL;
    if (mcg_wait_park(engine, gone, -1, &ignored) < 0) continue;
  }
  mcg_fiber_shield(engine, false);
}

/* A sandbox's own loopback is its own: one of the machine's other addresses is needed. */
static bool find_address(struct in_addr *out)
{
  struct ifaddrs *list = NULL;
  bool found = false;
  if (getifaddrs(&list) < 0) return false;
  for (const struct ifaddrs *at = list; at && !found; at = at->ifa_next) {
    found = at->ifa_addr && at->ifa_addr->sa_family == AF_INET && at->ifa_flags & IFF_UP &&
            !(at->ifa_flags & IFF_LOOPBACK);
    if (found) *out = ((const struct sockaddr_in *)(const void *)at->ifa_addr)->sin_addr;
  }
  freeifaddrs(list);
  return found;
}

static void say(json_t *checks, mcg_check_state state, const char *detail, const char *fix)
{
  mcg_doctor_add(checks,
                 &(mcg_check){.name = NAME,
                              .state = state,
                              .detail = detail,
                              .costs = "no network policy: a sandbox has no network, or all of it",
                              .fix = fix});
}

static void judge(json_t *checks, int code, const char *out, const listener both[2])
{
  if (code == 77)
    say(checks, MCG_CHECK_OFF, "there is no bash in a sandbox to try it with", NULL);
  else if (code == 2 || both[1].met)
    say(checks, MCG_CHECK_NO, "a port that the policy does not name was reached",
        "this is a fault of mooncage's: report it");
  else if (code != 0 || !out || strcmp(out, GREETING) != 0)
    say(checks, MCG_CHECK_NO, "a port that the policy names was not reached",
        "look at what a firewall of this machine does with connections to its own address");
  else
    say(checks, MCG_CHECK_OK, "a sandbox reached the port that it may, and not the other", NULL);
}

static void try_policy(mcg_engine *engine, json_t *checks, const char *address,
                       const listener both[2])
{
  auto_error mcg_error *error = NULL;
  auto_free char *out = NULL;
  auto_free char *config =
      mcg_format("{\"audit\":false,\"network\":{\"proxy\":false,\"allow\":[\"%s:%d\"]}}", address,
                 both[0].port);
  auto_free char *shell = mcg_format(command, address, both[0].port, address, both[1].port);
  mcg_session *session = config && shell ? mcg_doctor_open(engine, config, &error) : NULL;
  if (session) {
    int code = mcg_doctor_run(session, shell, &out, &error);
    mcg_doctor_close(session);
    if (!error) {
      judge(checks, code, out, both);
      return;
    }
  }
  say(checks, MCG_CHECK_NO, error ? error->message : "no memory",
      error && error->fix ? error->fix : "see network gateway");
}

void mcg_doctor_egress(mcg_engine *engine, json_t *checks)
{
  struct in_addr address;
  char text[INET_ADDRSTRLEN];
  listener both[2] = {{.closed = true}, {.closed = true}};
  mcg_wait gone;
  if (!find_address(&address)) {
    say(checks, MCG_CHECK_OFF, "this machine has no address but loopback to try it with", NULL);
    return;
  }
  inet_ntop(AF_INET, &address, text, sizeof text);
  mcg_wait_init(&gone);
  int rc = listen_on(&both[0], engine, &gone, address);
  if (rc == 0) rc = listen_on(&both[1], engine, &gone, address);
  if (rc == 0)
    try_policy(engine, checks, text, both);
  else
    say(checks, MCG_CHECK_NO, uv_strerror(rc), "let this user listen on a port");
  close_both(engine, &gone, both);
}
