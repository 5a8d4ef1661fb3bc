/* expose.c: a listener on the host's loopback, or a unix socket, whose connections go on to a port
 * inside. Whoever connects is given a connection that init makes within the sandbox's network, so that
 * no way leads from there to here: what the sandbox has it has from those who asked for it.
 *
 * A connection is a fiber until the other end is there, and a relay from then on. Each is told to the
 * audit log as those of the way out are, but for their direction. */
#include "expose.h"
#include "audit/audit.h"
#include "egress/netlog.h"
#include "keeper.h"
#include "service/linger.h"
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BACKLOG 128
#define VISITS 64        /* at once, of one port, unless it is said: as those of the way out */
#define IDLE_MS 60000    /* the same, in which nothing moves */
#define VISITS_A_TURN 32 /* accepted, before others get their turn */
#define PAUSE_MS 100     /* where this process has no descriptor for another */

typedef struct mcg_exposure exposure;

typedef struct visit { /* one connection */
  struct visit *before, *after;
  exposure *to;
  int fd; /* until the relay has it */
  mcg_relay *relay;
  mcg_net_entry *entry; /* it stands in the log */
} visit;

struct mcg_exposure {
  exposure *next;
  mcg_session *session; /* NULL once it is over; then it is */
  mcg_session *held;    /* by this, for what is still to be told */
  mcg_netlog *log;
  mcg_engine *engine;
  uint16_t port, host_port;
  char *path; /* of a unix socket; or NULL */
  int fd;
  unsigned refs; /* the session, each handle, each visit */
  uv_poll_t poll;
  uv_timer_t pause;
  visit *visits;
  size_t count, most;
  uint64_t idle_ms;
};

/* ---- life --------------------------------------------------------------------------------- */

static void unref(exposure *self)
{
  if (--self->refs) return;
  mcg_netlog_free(self->log);
  if (self->held) mcg_session_let_go(self->held);
  free(self->path);
  free(self);
}

static void handle_closed(uv_handle_t *handle)
{
  unref(handle->data);
}

/* Out of the list first: telling may wait. */
static void visit_end(visit *self, const char *dialled, const mcg_error *error,
                      const mcg_relay_end *end)
{
  exposure *to = self->to;
  mcg_session *session = to->session ? to->session : to->held;
  if (self->before)
    self->before->after = self->after;
  else
    to->visits = self->after;
  if (self->after) self->after->before = self->before;
  to->count--;
  if (self->fd >= 0) mcg_socket_reset(self->fd);
  if (end) {
    session->exposed_in += end->in;
    session->exposed_out += end->out;
  }
  if (self->entry) mcg_netlog_finish(self->entry, dialled, error, end);
  free(self);
  unref(to);
}

static visit *relayed(const exposure *self)
{
  visit *v = self->visits;
  while (v && !v->relay) v = v->after;
  return v;
}

static void exposure_end(exposure *self)
{
  self->held = self->session;
  self->session = NULL;
  mcg_session_hold(self->held);
  uv_close((uv_handle_t *)&self->poll, handle_closed);
  uv_close((uv_handle_t *)&self->pause, handle_closed);
  close(self->fd);
  if (self->path) unlink(self->path);
  visit *v;
  while ((v = relayed(self))) mcg_relay_cut(v->relay); /* those without end themselves */
  unref(self);
}

void mcg_exposures_end(mcg_session *session)
{
  while (session->exposures) {
    exposure *first = session->exposures;
    session->exposures = first->next;
    exposure_end(first);
  }
}

/* ---- a connection ------------------------------------------------------------------------- */

static void relay_ended(void *data, const mcg_relay_end *end)
{
  visit *self = data;
  auto_error mcg_error *error = NULL;
  if (end->reason == MCG_RELAY_IDLE)
    mcg_fail(&error, MCG_TIMEOUT, "give expose a longer idle_s", "nothing moved for %.3g s",
             (double)self->to->idle_ms / 1000);
  else if (end->reason == MCG_RELAY_CUT)
    mcg_fail(&error, MCG_CANCELED, NULL, "the session ended");
  visit_end(self, NULL, error, end);
}

/* Servers stand on either loopback: one of "localhost" may have taken either. */
static int connect_inside(const exposure *to, int *fd, mcg_error **err)
{
  const struct sockaddr_in four = {.sin_family = AF_INET,
                                   .sin_port = htons(to->port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const struct sockaddr_in6 six = {
      .sin6_family = AF_INET6, .sin6_port = htons(to->port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  auto_error mcg_error *first = NULL;
  if (mcg_stream_connect(to->session->stream, (const void *)&four, fd, &first) == 0) return 0;
  if (first->code == MCG_UNAVAILABLE && to->session)
    return mcg_stream_connect(to->session->stream, (const void *)&six, fd, err);
  *err = mcg_steal_pointer(&first);
  return -1;
}

static void visit_run(void *arg)
{
  visit *self = arg;
  exposure *to = self->to;
  auto_error mcg_error *error = NULL;
  int inside = -1;
  const mcg_net_event event = {
      .direction = "in", .port = to->port, .protocol = "tcp", .rule = "expose"};
  if (to->session && mcg_netlog_start(to->log, &event, &self->entry, &error) == 0 && to->session &&
      connect_inside(to, &inside, &error) == 0 && to->session) {
    const mcg_relay_options options = {.near = mcg_steal_fd(&inside),
                                       .far = mcg_steal_fd(&self->fd),
                                       .idle_ms = to->idle_ms,
                                       .ended = relay_ended,
                                       .data = self};
    if (mcg_relay_start(to->engine->loop, &options, &self->relay, &error) == 0) return;
  }
  if (inside >= 0) mcg_close_now(inside);
  if (error && error->code != MCG_UNAVAILABLE && error->code != MCG_CANCELED)
    mcg_log(to->engine, MCG_LOG_WARNING, "a connection to port %u of a sandbox: %s", to->port,
            error->message);
  visit_end(self, NULL, error, NULL);
}

static void tell_too_many(const exposure *to)
{
  char reason[96];
  snprintf(reason, sizeof reason, "%zu connections to it are open, which is its `connections`",
           to->most);
  mcg_netlog_denied(to->log, &(mcg_net_event){.direction = "in",
                                              .port = to->port,
                                              .protocol = "tcp",
                                              .rule = "connections",
                                              .reason = reason});
}

static void visit_begin(exposure *to, int take_fd)
{
  auto_error mcg_error *error = NULL;
  visit *self = to->count < to->most ? calloc(1, sizeof *self) : NULL;
  if (!self) {
    if (to->count >= to->most) tell_too_many(to);
    mcg_socket_reset(take_fd);
    return;
  }
  *self = (visit){.to = to, .after = to->visits, .fd = take_fd};
  if (self->after) self->after->before = self;
  to->visits = self;
  to->count++;
  to->refs++;
  if (mcg_fiber_start(to->engine, visit_run, self, NULL, &error) < 0)
    visit_end(self, NULL, NULL, NULL);
}

static void listener_polled(uv_poll_t *poll, int status, int events);

static void pause_over(uv_timer_t *timer)
{
  exposure *self = timer->data;
  uv_poll_start(&self->poll, UV_READABLE, listener_polled);
}

static void listener_polled(uv_poll_t *poll, int status, int events)
{
  (void)status;
  (void)events;
  exposure *self = poll->data;
  for (int i = 0; i < VISITS_A_TURN; i++) {
    int fd = accept4(self->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
      uv_poll_stop(&self->poll);
      uv_timer_start(&self->pause, pause_over, PAUSE_MS, 0);
    }
    if (fd < 0) return;
    if (self->path && !mcg_keeper_peer_ok(fd))
      close(fd);
    else
      visit_begin(self, fd);
  }
}

/* ---- where it listens --------------------------------------------------------------------- */

static int listen_failed(uint16_t port, int number, mcg_error **err)
{
  if (number == EADDRINUSE)
    return mcg_fail(err, MCG_CONFLICT, "choose another host_port, or leave it out for a free one",
                    "expose: port %u of 127.0.0.1 is taken on the host", port);
  if (number == EACCES)
    return mcg_fail(err, MCG_UNAUTHORIZED, "choose a host_port above 1023",
                    "expose: this user may not listen on port %u of the host", port);
  return mcg_fail_errno(err, number, NULL, "expose: listen on port %u of 127.0.0.1", port);
}

static int listen_on_loopback(exposure *self, mcg_error **err)
{
  struct sockaddr_in name = {.sin_family = AF_INET,
                             .sin_port = htons(self->host_port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof name;
  int yes = 1;
  self->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (self->fd < 0 || setsockopt(self->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) < 0 ||
      bind(self->fd, (const void *)&name, size) < 0 || listen(self->fd, BACKLOG) < 0 ||
      getsockname(self->fd, (void *)&name, &size) < 0)
    return listen_failed(self->host_port, errno, err);
  self->host_port = ntohs(name.sin_port);
  return 0;
}

static int watch(exposure *self, mcg_error **err)
{
  int rc = uv_poll_init(self->engine->loop, &self->poll, self->fd);
  if (rc < 0) return mcg_fail_errno(err, -rc, NULL, "expose: watch a listener");
  uv_timer_init(self->engine->loop, &self->pause);
  self->poll.data = self->pause.data = self;
  self->refs += 2;
  uv_poll_start(&self->poll, UV_READABLE, listener_polled);
  return 0;
}

/* ---- asking for it -------------------------------------------------------------------------- */

typedef struct asking {
  mcg_session *session;
  uint16_t port, host_port;
  size_t connections;
  uint64_t idle_ms;
  char *path;
  char url[160];
  mcg_text_done done;
  void *data;
} asking;

static exposure *make(asking *ask, mcg_error **err)
{
  exposure *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an exposed port"), NULL;
  *self = (exposure){.session = ask->session,
                     .engine = ask->session->engine,
                     .port = ask->port,
                     .host_port = ask->host_port,
                     .most = ask->connections ? ask->connections : VISITS,
                     .idle_ms = ask->idle_ms ? ask->idle_ms : IDLE_MS,
                     .fd = -1,
                     .refs = 1};
  int rc = mcg_netlog_new(ask->session, &self->log, err);
  if (rc == 0)
    rc = ask->path ? mcg_keeper_listen(ask->path, SOCK_STREAM, &self->fd, err)
                   : listen_on_loopback(self, err);
  if (rc == 0) {
    self->path = mcg_steal_pointer(&ask->path);
    if (self->path)
      snprintf(ask->url, sizeof ask->url, "unix:%s", self->path);
    else
      snprintf(ask->url, sizeof ask->url, "http://127.0.0.1:%u", self->host_port);
    return self;
  }
  if (self->fd >= 0) close(self->fd);
  unref(self);
  return NULL;
}

/* Nobody is let in before it stands in the log. The session may end meanwhile. */
static int expose_run(void *arg, mcg_error **err)
{
  asking *ask = arg;
  mcg_session *session = ask->session;
  exposure *self = mcg_session_alive(session, err) == 0 ? make(ask, err) : NULL;
  if (!self) return -1;
  auto_json json_t *detail = json_pack("{s:i, s:s}", "port", ask->port, "url", ask->url);
  if (mcg_audit_told(session, &(mcg_event){.op = "expose", .detail = detail}, err) == 0 &&
      mcg_session_alive(session, err) == 0 && watch(self, err) == 0) {
    self->next = session->exposures;
    session->exposures = self;
    return 0;
  }
  close(self->fd);
  if (self->path) unlink(self->path);
  unref(self);
  return -1;
}

static void expose_complete(void *arg, mcg_error *error)
{
  asking *ask = arg;
  ask->done(ask->data, error ? NULL : ask->url, error);
  mcg_session_let_go(ask->session);
  free(ask->path);
  free(ask);
}

static int check(const mcg_session *session, const mcg_expose_spec *spec, mcg_error **err)
{
  if (mcg_session_alive(session, err) < 0) return -1;
  if (!spec->port)
    return mcg_fail(err, MCG_INVALID, "name a port from 1 to 65535", "expose: 0 is no port");
  if (spec->path && spec->host_port)
    return mcg_fail(err, MCG_INVALID, "leave one of them out",
                    "expose: host_port and path exclude each other");
  if (spec->path && *spec->path != '/')
    return mcg_fail(err, MCG_INVALID, "write an absolute path", "expose: path \"%s\" is relative",
                    spec->path);
  const mcg_config *config = session->config;
  if (config->plan.network == MCG_NETWORK_HOST || config->backend->isolation == MCG_ISOLATION_NONE)
    return mcg_fail(err, MCG_UNSUPPORTED, "connect to its port on 127.0.0.1: it is the host's",
                    "expose: this session has no network of its own");
  if (session->place.carrier != MCG_CARRIER_DIRECT)
    return mcg_fail(err, MCG_UNSUPPORTED, "leave carrier = \"framed\" out",
                    "expose: sockets of a sandbox's network need the direct carrier");
  return 0;
}

int mcg_session_expose(mcg_session *session, const mcg_expose_spec *spec, mcg_text_done done,
                       void *data, mcg_op **op, mcg_error **err)
{
  if (check(session, spec, err) < 0) return -1;
  asking *ask = calloc(1, sizeof *ask);
  if (!ask || (spec->path && !(ask->path = strdup(spec->path)))) {
    free(ask);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an exposed port");
  }
  ask->session = session;
  ask->port = spec->port;
  ask->host_port = spec->host_port;
  if (spec->size > offsetof(mcg_expose_spec, idle_ms)) { /* a caller of an older header has none */
    ask->connections = spec->connections;
    ask->idle_ms = spec->idle_ms;
  }
  ask->done = done;
  ask->data = data;
  mcg_session_hold(session);
  if (mcg_op_start(session->engine, expose_run, expose_complete, ask, op, err) == 0) return 0;
  mcg_session_let_go(session);
  free(ask->path);
  free(ask);
  return -1;
}
