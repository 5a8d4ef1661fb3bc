/* gateway.c: the life of a session's gateway: its sockets, listeners, limits, its policy and the change
 * of it. What goes through a listener is connection.c's.
 *
 * The sockets were made in the sandbox's network namespace, by rules of protocol.h, and so are what the
 * programs in there reach whatever address they name. Nothing in the sandbox can take them away: init,
 * which makes listeners when asked to, keeps none. */
#include "authority.h"
#include "gateway_parts.h"
#include "spawner.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/resource.h>

#define PAUSE_MS 100

/* ---- descriptors that are watched --------------------------------------------------------- */

static void part_closed(mcg_egress *egress)
{
  egress->handles--;
  mcg_wait_wake(egress->engine, &egress->ended);
}

static void watch_closed(uv_handle_t *handle)
{
  mcg_watch *watch = handle->data;
  part_closed(watch->egress);
  free(watch);
}

static void watch_polled(uv_poll_t *poll, int status, int events)
{
  (void)events;
  mcg_watch *watch = poll->data;
  if (status < 0 && !watch->listens) { /* libuv stopped it: an error of ICMP, to be read away */
    int number;
    socklen_t len = sizeof number;
    getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &number, &len);
    uv_poll_start(poll, UV_READABLE, watch_polled);
  }
  watch->ready(watch);
}

int mcg_egress_watch(mcg_egress *egress, int take_fd, void (*ready)(mcg_watch *watch),
                     mcg_watch **out, mcg_error **err)
{
  mcg_watch *watch = calloc(1, sizeof *watch);
  int rc = watch ? uv_poll_init(egress->engine->loop, &watch->poll, take_fd) : UV_ENOMEM;
  if (rc < 0) {
    free(watch);
    close(take_fd);
    return mcg_fail_errno(err, -rc, NULL, "watch a socket of the gateway");
  }
  watch->egress = egress;
  watch->fd = take_fd;
  watch->ready = ready;
  watch->number = -1;
  watch->poll.data = watch;
  watch->next = egress->watches;
  egress->watches = watch;
  egress->handles++;
  uv_poll_start(&watch->poll, UV_READABLE, watch_polled);
  if (out) *out = watch;
  return 0;
}

void mcg_egress_unwatch(mcg_watch *watch)
{
  mcg_watch **at = &watch->egress->watches;
  while (*at != watch) at = &(*at)->next;
  *at = watch->next;
  uv_close((uv_handle_t *)&watch->poll, watch_closed);
  if (watch->listens) {
    watch->egress->listeners--;
    watch->egress->engine->listeners--;
  }
  if (watch->packets)
    mcg_spawner_close(watch->egress->engine, watch->fd);
  else
    close(watch->fd);
  watch->fd = -1;
}

static void pause_over(uv_timer_t *timer)
{
  mcg_egress *egress = timer->data;
  for (mcg_watch *watch = egress->watches; watch; watch = watch->next) {
    if (!watch->held) continue;
    watch->held = false;
    uv_poll_start(&watch->poll, UV_READABLE, watch_polled);
  }
}

int mcg_egress_accept(const mcg_watch *listener)
{
  if (fcntl(listener->fd, F_SETFL, O_NONBLOCK) < 0) return -1;
  return accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

void mcg_egress_accept_failed(mcg_watch *listener, int number)
{
  mcg_egress *egress = listener->egress;
  if (number == EAGAIN) return;
  if (!uv_is_active((uv_handle_t *)&egress->pause))
    mcg_log(egress->engine, MCG_LOG_WARNING, "session %.8s: the gateway takes no connections: %s",
            egress->session->id, strerror(number));
  uv_poll_stop(&listener->poll);
  listener->held = true;
  uv_timer_start(&egress->pause, pause_over, PAUSE_MS, 0);
}

/* ---- fibers ------------------------------------------------------------------------------- */

static void task_main(void *arg)
{
  mcg_egress_task *task = arg;
  task->fn(task->arg);
}

static void task_link(mcg_egress_task *task)
{
  task->after = task->egress->tasks;
  if (task->after) task->after->before = task;
  task->egress->tasks = task;
}

static void task_unlink(mcg_egress_task *task)
{
  mcg_egress *egress = task->egress;
  if (task->before)
    task->before->after = task->after;
  else
    egress->tasks = task->after;
  if (task->after) task->after->before = task->before;
  mcg_wait_wake(egress->engine, &egress->ended);
}

static void task_ended(void *arg)
{
  task_unlink(arg);
  free(arg);
}

int mcg_egress_start_task(mcg_egress *egress, mcg_fiber_fn fn, void *arg, mcg_fiber **out,
                          mcg_error **err)
{
  mcg_egress_task *task = calloc(1, sizeof *task);
  if (!task) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a connection");
  task->egress = egress;
  task->fn = fn;
  task->arg = arg;
  if (mcg_fiber_run(egress->engine, task_main, task_ended, task, false, &task->fiber, err) < 0) {
    free(task);
    return -1;
  }
  task_link(task);
  if (out) *out = task->fiber;
  return 0;
}

/* ---- listeners ---------------------------------------------------------------------------- */

static mcg_watch *listener_of(const mcg_egress *egress, int number, bool six, uint16_t port)
{
  mcg_watch *watch = egress->watches;
  while (watch && !(watch->listens && !watch->redirect && watch->number == number &&
                    watch->six == six && watch->port == port))
    watch = watch->next;
  return watch;
}

static int take_listener(mcg_egress *egress, int take_fd, const mcg_watch *what, mcg_error **err)
{
  const int on = 1;
  mcg_watch *watch = NULL;
  setsockopt(take_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* its connections have it, too */
  if (mcg_egress_watch(egress, take_fd, mcg_connections_accept, &watch, err) < 0) return -1;
  watch->listens = true;
  egress->listeners++;
  egress->engine->listeners++;
  watch->redirect = what->redirect;
  watch->number = what->number;
  watch->six = what->six;
  watch->port = what->port;
  return 0;
}

/* Half of the process's descriptors are for listeners, and each session may have half of what the others
 * leave of them: one that asks for name after name leaves room for others, however many do. */
static int check_room(const mcg_egress *egress, mcg_error **err)
{
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur == RLIM_INFINITY) return 0;
  rlim_t others = egress->engine->listeners - egress->listeners;
  if (others + 2 * (rlim_t)egress->listeners < files.rlim_cur / 2) return 0;
  return mcg_fail(
      err, MCG_QUOTA, "name fewer ports, or raise the limit (ulimit -n)",
      "the session has %u listeners, and of the %llu descriptors of this process no more "
      "are for it",
      egress->listeners, (unsigned long long)files.rlim_cur);
}

/* A port that is listened on for addresses is so for names, too: theirs are addresses like others. */
static bool for_all(const mcg_egress *egress, bool six, uint16_t port)
{
  return mcg_policy_address_port(egress->policy, six, (uint16_t)(port - 1)) == port;
}

/* Unless there is one. */
static int listen_on(mcg_egress *egress, int number, bool six, uint16_t port, mcg_error **err)
{
  mcg_address address = {.six = six};
  struct sockaddr_storage at;
  int fd;
  if (listener_of(egress, number, six, port) || (number >= 0 && for_all(egress, six, port)))
    return 0;
  if (check_room(egress, err) < 0) return -1;
  if (number >= 0) mcg_synthetic_address(number, six, &address);
  mcg_address_sockaddr(&address, port, &at);
  mcg_error *error = NULL;
  if (mcg_stream_listen(egress->session->stream, (struct sockaddr *)&at, &fd, &error) < 0) {
    bool there = error->code == MCG_CONFLICT && listener_of(egress, number, six, port);
    if (there)
      mcg_error_free(error); /* another question was quicker */
    else
      *err = error;
    return there ? 0 : -1;
  }
  return take_listener(egress, fd, &(mcg_watch){.number = number, .six = six, .port = port}, err);
}

/* The same in IPv6, where there is any: else it is done without from here on. */
static int listen_on_six(mcg_egress *egress, int number, uint16_t port, mcg_error **err)
{
  mcg_error *error = NULL;
  if (!egress->six || listen_on(egress, number, true, port, &error) == 0) return 0;
  if (error->code == MCG_CANCELED || error->code == MCG_CONFLICT || error->code == MCG_QUOTA) {
    *err = error;
    return -1;
  }
  mcg_log(egress->engine, MCG_LOG_DEBUG, "session %.8s: no IPv6 in the sandbox: %s",
          egress->session->id, error->message);
  mcg_error_free(error);
  egress->six = false;
  return 0;
}

int mcg_egress_listen_for(mcg_egress *egress, int number, mcg_error **err)
{
  const char *name = mcg_synthetic_at(egress->names, number);
  if (egress->redirected) return 0;
  for (uint16_t port = 0; (port = mcg_policy_name_port(egress->policy, name, port));)
    if (listen_on(egress, number, false, port, err) < 0 ||
        listen_on_six(egress, number, port, err) < 0)
      return -1;
  return 0;
}

static bool listener_wanted(const mcg_egress *egress, const mcg_watch *watch)
{
  if (watch->number < 0 || for_all(egress, watch->six, watch->port))
    return watch->number < 0 && for_all(egress, watch->six, watch->port);
  const char *name = mcg_synthetic_at(egress->names, watch->number);
  return mcg_policy_name_port(egress->policy, name, (uint16_t)(watch->port - 1)) == watch->port;
}

/* Those that the policy has no use for go, those that it wants come. */
static int listen_as_told(mcg_egress *egress, mcg_error **err)
{
  if (egress->redirected) return 0;
  for (mcg_watch *watch = egress->watches, *next; watch; watch = next) {
    next = watch->next;
    if (watch->listens && !listener_wanted(egress, watch)) mcg_egress_unwatch(watch);
  }
  for (uint16_t port = 0; (port = mcg_policy_address_port(egress->policy, false, port));)
    if (listen_on(egress, -1, false, port, err) < 0) return -1;
  for (uint16_t port = 0; (port = mcg_policy_address_port(egress->policy, true, port));)
    if (listen_on_six(egress, -1, port, err) < 0) return -1;
  for (int number = 0; number < mcg_synthetic_count(egress->names); number++)
    if (mcg_egress_listen_for(egress, number, err) < 0) return -1;
  return 0;
}

/* ---- the beginning ------------------------------------------------------------------------ */

static void traffic_closed(void *data)
{
  part_closed(data);
}

static void pause_closed(uv_handle_t *handle)
{
  part_closed(handle->data);
}

static int find_proxy(const mcg_policy *policy, mcg_proxy **out, mcg_error **err)
{
  const char *url = mcg_policy_proxy(policy);
  if (!url) return mcg_proxy_of_environment(out, err);
  return *url ? mcg_proxy_new(url, NULL, out, err) : 0;
}

static mcg_egress *egress_new(mcg_session *session, mcg_policy *policy, mcg_error **err)
{
  mcg_engine *engine = session->engine;
  mcg_egress *egress = calloc(1, sizeof *egress);
  if (!egress) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a gateway"), NULL;
  egress->session = session;
  egress->engine = engine;
  egress->names = mcg_synthetic_new();
  if (!egress->names) mcg_fail(err, MCG_NOMEM, NULL, "no memory for a gateway");
  if (!egress->names || mcg_resolver_new(engine, &egress->resolver, err) < 0 ||
      find_proxy(policy, &egress->proxy, err) < 0 ||
      mcg_netlog_new(session, &egress->log, err) < 0) {
    mcg_proxy_free(egress->proxy);
    mcg_resolver_free(egress->resolver);
    mcg_synthetic_free(egress->names);
    free(egress);
    return NULL;
  }
  egress->policy = mcg_policy_ref(policy);
  const mcg_egress_limits *limits = mcg_policy_limits(egress->policy);
  mcg_wait_init(&egress->ended);
  mcg_traffic_init(&egress->traffic, engine->loop, limits->bytes_per_s, limits->bytes_total);
  uv_timer_init(engine->loop, &egress->pause);
  egress->pause.data = egress;
  egress->handles = 2;
  return egress;
}

/* Those that came with the sandbox; each is taken, also on failure. */
static int take_sockets(mcg_egress *egress, mcg_gateway_sockets *sockets, mcg_error **err)
{
  if (sockets->stub_udp < 0 || sockets->stub_tcp < 0)
    return mcg_fail(err, MCG_UNENFORCEABLE, NULL, "the sandbox has no sockets for a gateway");
  if (mcg_stub_start(egress, mcg_steal_fd(&sockets->stub_udp), mcg_steal_fd(&sockets->stub_tcp),
                     err) < 0)
    return -1;
  if (sockets->refused >= 0 && mcg_refused_start(egress, mcg_steal_fd(&sockets->refused), err) < 0)
    return -1;
  egress->six = true; /* until a listener says otherwise */
  for (int six = 0; six < 2; six++) {
    if (sockets->redirected[six] < 0) {
      if (six && egress->redirected) egress->six = false;
      continue;
    }
    egress->redirected = true;
    if (take_listener(egress, mcg_steal_fd(&sockets->redirected[six]),
                      &(mcg_watch){.number = -1, .redirect = true, .six = six}, err) < 0)
      return -1;
  }
  return 0;
}

static void close_sockets(const mcg_gateway_sockets *sockets)
{
  const int all[] = {sockets->stub_udp, sockets->stub_tcp, sockets->refused, sockets->redirected[0],
                     sockets->redirected[1]};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] >= 0) close(all[i]);
}

int mcg_egress_prepare(mcg_session *session, mcg_error **err)
{
  mcg_config *config = session->config;
  if (session->authority || !config->policy || !mcg_policy_terminates(config->policy)) return 0;
  if (mcg_authority_new(session->engine, session->id, mcg_policy_ca_file(config->policy),
                        &session->authority, err) < 0)
    return mcg_wrap(err, "network");
  config->plan.authority = mcg_authority_pem(session->authority);
  config->plan.authority_hash = (uint32_t)mcg_authority_hash(session->authority);
  return 0;
}

static void tell_enforced(const mcg_egress *egress)
{
  auto_free char *how =
      egress->proxy ? mcg_format("gateway, through the proxy %s", mcg_proxy_text(egress->proxy))
                    : NULL;
  mcg_session_enforce(egress->session, "network", how ? how : "gateway");
}

int mcg_egress_start(mcg_session *session, mcg_error **err)
{
  mcg_network network = session->config->plan.network;
  if (session->egress || (network != MCG_NETWORK_OPEN && network != MCG_NETWORK_RULES)) return 0;
  mcg_egress *egress = egress_new(session, session->config->policy, err);
  if (!egress) return -1;
  session->egress = egress;
  mcg_gateway_sockets sockets;
  mcg_stream_gateway_sockets(session->stream, &sockets);
  int rc = take_sockets(egress, &sockets, err);
  close_sockets(&sockets);
  if (rc == 0) rc = listen_as_told(egress, err);
  if (rc == 0) {
    tell_enforced(egress);
    return 0;
  }
  mcg_wrap(err, "network");
  mcg_fiber_shield(session->engine, true);
  mcg_egress_end(session);
  mcg_fiber_shield(session->engine, false);
  return -1;
}

/* ---- the end ------------------------------------------------------------------------------ */

void mcg_egress_end(mcg_session *session)
{
  mcg_egress *egress = session->egress;
  if (!egress) {
    mcg_authority_free(mcg_steal_pointer(&session->authority));
    return;
  }
  egress->ending = true;
  while (egress->watches) mcg_egress_unwatch(egress->watches);
  for (mcg_connection *one = egress->connections, *after; one; one = after) {
    after = one->after;
    mcg_connection_cut(one, "the session ended");
  }
  for (mcg_egress_task *task = egress->tasks; task; task = task->after)
    mcg_fiber_cancel(task->fiber);
  mcg_traffic_close(&egress->traffic, traffic_closed, egress);
  uv_close((uv_handle_t *)&egress->pause, pause_closed);
  while (egress->tasks || egress->handles) {
    auto_error mcg_error *ignored = NULL;
    if (mcg_wait_park(egress->engine, &egress->ended, -1, &ignored) < 0) break;
  }
  session->egress = NULL;
  session->net_in = egress->traffic.in;
  session->net_out = egress->traffic.out;
  mcg_resolver_free(egress->resolver);
  mcg_proxy_free(egress->proxy);
  mcg_netlog_free(egress->log);
  mcg_synthetic_free(egress->names);
  mcg_policy_unref(egress->policy);
  mcg_authority_free(mcg_steal_pointer(&session->authority));
  free(egress);
}

/* ---- while it runs ------------------------------------------------------------------------ */

static bool same_ca_file(const mcg_policy *policy, const mcg_policy *other)
{
  const char *one = mcg_policy_ca_file(policy), *two = mcg_policy_ca_file(other);
  return one && two ? strcmp(one, two) == 0 : one == two;
}

/* Another could not be put in force in this sandbox as it was made. */
static int check_change(const mcg_session *session, const mcg_policy *policy, mcg_error **err)
{
  const mcg_egress *egress = session->egress;
  if (egress && egress->ending)
    return mcg_fail(err, MCG_UNAVAILABLE, NULL, "the session is closed");
  if (egress && mcg_policy_redirects(policy) && !egress->redirected)
    return mcg_fail(err, MCG_UNENFORCEABLE,
                    "name single ports, or open the session with a policy that has as many",
                    "the session's gateway was made for single ports, and cannot redirect all");
  if (mcg_policy_terminates(policy) && !session->authority)
    return mcg_fail(err, MCG_UNENFORCEABLE, "open the session with a rule that has terminate_tls",
                    "the sandbox was made without an authority that it believes in");
  if (mcg_policy_terminates(policy) && !same_ca_file(policy, session->config->policy))
    return mcg_fail(err, MCG_UNENFORCEABLE, "write the ca_file that it was opened with",
                    "network.ca_file: whom the engine believes is settled when a session opens");
  return 0;
}

/* ---- for a sandbox that was made without ----------------------------------------------------- */

static int check_late(const mcg_session *session, mcg_error **err)
{
  const mcg_config *config = session->config;
  if (session->egress_coming)
    return mcg_fail(err, MCG_CONFLICT, "wait for the first change",
                    "the session's network is being changed");
  if (config->plan.network == MCG_NETWORK_HOST)
    return mcg_fail(err, MCG_UNSUPPORTED, "open it with network = \"none\", or with rules",
                    "the session shares the host's network, which cannot be changed");
  if (!config->backend->gateway)
    return mcg_fail(err, MCG_UNSUPPORTED, "use the jail backend",
                    "the backend %s has no network that could be changed", config->backend->id);
  if (session->place.carrier != MCG_CARRIER_DIRECT)
    return mcg_fail(err, MCG_UNSUPPORTED, "leave carrier = \"framed\" out",
                    "a network policy needs the direct carrier");
  return 0;
}

/* A socket of the sandbox's network says where that is. The port is one that the stub takes, so that a
 * program that is in its way is told of by name. */
static int ask_sockets(mcg_session *session, bool redirect, mcg_gateway_sockets *out,
                       mcg_error **err)
{
  const struct sockaddr_in near = {.sin_family = AF_INET,
                                   .sin_port = htons(53),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 0x34)};
  auto_fd int within = -1;
  if (mcg_stream_listen(session->stream, (const void *)&near, &within, err) < 0 ||
      mcg_session_alive(session, err) < 0 ||
      session->config->backend->gateway(session, &session->place, within, redirect, out, err) < 0)
    return -1;
  if (mcg_session_alive(session, err) == 0) return 0;
  close_sockets(out);
  return -1;
}

/* One that allows nothing as yet: what it is to allow comes as every change does. */
static int start_late(mcg_session *session, mcg_policy *policy, mcg_error **err)
{
  mcg_gateway_sockets sockets;
  if (check_late(session, err) < 0) return -1;
  session->egress_coming = true;
  int rc = ask_sockets(session, mcg_policy_redirects(policy), &sockets, err);
  session->egress_coming = false;
  if (rc < 0) return mcg_wrap(err, "network");
  mcg_egress *egress = egress_new(session, policy, err);
  if (egress) {
    session->egress = egress;
    rc = take_sockets(egress, &sockets, err);
    egress->ending = rc < 0; /* nothing leaves; it goes with the session */
    if (!rc) tell_enforced(egress);
  }
  close_sockets(&sockets);
  return egress ? rc : -1;
}

int mcg_egress_set(mcg_session *session, mcg_policy *policy, mcg_error **err)
{
  if (check_change(session, policy, err) < 0) return -1;
  if (!session->egress) {
    if (mcg_policy_allows_nothing(policy) && session->config->plan.network == MCG_NETWORK_NONE &&
        !session->egress_coming)
      return 0; /* as it is */
    if (start_late(session, policy, err) < 0) return -1;
  }
  mcg_egress *egress = session->egress;
  mcg_policy_ref(policy);
  mcg_policy_unref(egress->policy);
  egress->policy = policy;
  const mcg_egress_limits *limits = mcg_policy_limits(policy);
  mcg_traffic_limit(&egress->traffic, limits->bytes_per_s, limits->bytes_total);
  /* The gateway stays until this fiber has gone from it. */
  mcg_egress_task self = {.egress = egress, .fiber = mcg_fiber_current(egress->engine)};
  task_link(&self);
  mcg_netlog_point(egress->log, "set_network", NULL);
  for (mcg_connection *one = egress->connections, *after; one; one = after) {
    after = one->after;
    mcg_connection_judge_again(one);
  }
  int rc = listen_as_told(egress, err);
  task_unlink(&self);
  return rc;
}

void mcg_egress_moved(const mcg_session *session, uint64_t *in, uint64_t *out)
{
  *in = session->exposed_in + (session->egress ? session->egress->traffic.in : session->net_in);
  *out = session->exposed_out + (session->egress ? session->egress->traffic.out : session->net_out);
}
