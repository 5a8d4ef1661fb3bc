/* keeper.c: the side that holds the sandbox: a listening socket, its clients, what they ask. */
#include "keeper.h"
#include "audit/audit.h"
#include "egress/netlog.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BACKLOG 16
#define CLIENTS_MAX 64
#define EVENTS_PAGE 150 /* of the network log in one packet */

typedef struct client {
  struct client *next;
  struct mcg_keeper *keeper; /* NULL once it is cut off */
  mcg_session *session;
  int fd;
  unsigned refs; /* the list, its handle, each question under way */
  bool greeted;
  uv_poll_t poll;
} client;

struct mcg_keeper {
  mcg_session *session;
  char *path;
  int fd;
  unsigned refs; /* the session, its handle */
  size_t count;
  client *clients;
  uv_poll_t poll;
};

/* ---- packets ------------------------------------------------------------------------------ */

bool mcg_keeper_peer_ok(int fd)
{
  struct ucred peer;
  socklen_t len = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == geteuid();
}

bool mcg_keeper_send(int fd, const json_t *document, int pass_fd)
{
  auto_free char *text = json_dumps(document, JSON_COMPACT);
  if (!text || strlen(text) > MCG_KEEPER_PACKET_MAX) return false;
  struct iovec vector = {.iov_base = text, .iov_len = strlen(text)};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  if (pass_fd >= 0) {
    memset(&control, 0, sizeof control);
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &pass_fd, sizeof(int));
  }
  return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

static json_t *error_document(json_int_t id, const mcg_error *error)
{
  json_t *told =
      json_pack("{s:s, s:s}", "code", mcg_code_name(error->code), "message", error->message);
  if (told && error->fix) json_object_set_new(told, "fix", json_string(error->fix));
  return json_pack("{s:I, s:o}", "id", id, "error", told);
}

/* ---- one client --------------------------------------------------------------------------- */

static void client_unref(client *self)
{
  if (--self->refs) return;
  mcg_session_let_go(self->session);
  free(self);
}

static void client_closed(uv_handle_t *handle)
{
  client_unref(handle->data);
}

static void client_cut(client *self)
{
  struct mcg_keeper *keeper = self->keeper;
  if (!keeper) return;
  self->keeper = NULL;
  client **at = &keeper->clients;
  while (*at != self) at = &(*at)->next;
  *at = self->next;
  keeper->count--;
  uv_close((uv_handle_t *)&self->poll, client_closed);
  close(self->fd);
  self->fd = -1;
  client_unref(self);
}

static void client_tell(client *self, json_t *take_document)
{
  if (self->keeper && !mcg_keeper_send(self->fd, take_document, -1)) client_cut(self);
  json_decref(take_document);
}

static void client_greet(client *self)
{
  mcg_session *session = self->session;
  int pair[2];
  mcg_error *error = NULL;
  if (mcg_session_alive(session, &error) == 0 &&
      socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
    mcg_fail_errno(&error, errno, NULL, "make a stream for a client");
  if (!error && mcg_stream_attach(session->stream, pair[1], &error) < 0) close(pair[0]);
  if (error) {
    client_tell(self, error_document(0, error));
    mcg_error_free(error);
    client_cut(self);
    return;
  }
  auto_free char *info = mcg_session_info(session);
  json_t *facts = info ? json_loads(info, 0, NULL) : NULL;
  json_t *hello =
      json_pack("{s:i, s:O, s:o, s:[I,I], s:o, s:s?}", "version", MCG_KEEPER_VERSION, "config",
                session->config->root, "session", facts, "since", (json_int_t)session->since.tv_sec,
                (json_int_t)session->since.tv_nsec, "secrets", mcg_audit_secrets(session->engine),
                "parent", session->parent);
  self->greeted = true;
  if (!hello || !mcg_keeper_send(self->fd, hello, pair[0])) client_cut(self);
  json_decref(hello);
  close(pair[0]);
}

typedef struct question {
  client *client;
  json_int_t id;
  json_t *figures;
  json_t *network; /* to be set; or NULL */
} question;

static int figures_run(void *arg, mcg_error **err)
{
  question *asked = arg;
  if (mcg_session_alive(asked->client->session, err) < 0) return -1;
  return mcg_session_figures(asked->client->session, asked->figures, err);
}

static void question_answered(question *asked, json_t *take_answer)
{
  client_tell(asked->client, take_answer);
  client_unref(asked->client);
  json_decref(asked->figures);
  json_decref(asked->network);
  free(asked);
}

static void figures_complete(void *arg, mcg_error *error)
{
  question *asked = arg;
  question_answered(asked,
                    error ? error_document(asked->id, error)
                          : json_pack("{s:I, s:O}", "id", asked->id, "figures", asked->figures));
  mcg_error_free(error);
}

static int network_run(void *arg, mcg_error **err)
{
  question *asked = arg;
  return mcg_session_change_network(asked->client->session, asked->network, err);
}

static void network_complete(void *arg, mcg_error *error)
{
  question *asked = arg;
  question_answered(asked, error ? error_document(asked->id, error)
                                 : json_pack("{s:I, s:b}", "id", asked->id, "set", 1));
  mcg_error_free(error);
}

/* A page of the network log, from the event of that number. */
static json_t *log_page(const question *asked, const json_t *document)
{
  size_t from = (size_t)json_integer_value(json_object_get(document, "from"));
  auto_json json_t *all = mcg_netlog_json(asked->client->session);
  json_t *page = json_array();
  for (size_t i = from; i < json_array_size(all) && i - from < EVENTS_PAGE; i++)
    json_array_append(page, json_array_get(all, i));
  return json_pack("{s:I, s:o, s:I}", "id", asked->id, "events", page, "total",
                   (json_int_t)json_array_size(all));
}

static void stopped(void *data, mcg_error *error)
{
  question *asked = data;
  question_answered(asked, error ? error_document(asked->id, error)
                                 : json_pack("{s:I, s:b}", "id", asked->id, "stopped", 1));
  mcg_error_free(error);
}

static uint64_t figure(const json_t *document, const char *key)
{
  json_int_t value = json_integer_value(json_object_get(document, key));
  return value > 0 ? (uint64_t)value : 0;
}

/* Commands run between the client and init; the client says what they used. */
static void client_used(mcg_session *session, const json_t *document)
{
  uint64_t maxrss_kb = figure(document, "maxrss_kb");
  session->exec_count += figure(document, "commands");
  session->exec_ns += figure(document, "exec_ns");
  session->cpu_us += figure(document, "cpu_us");
  if (maxrss_kb > session->maxrss_kb) session->maxrss_kb = maxrss_kb;
}

static void client_snapshot(mcg_session *session, const json_t *document)
{
  const char *parent = json_string_value(json_object_get(document, "parent"));
  session->snapshot_bytes += figure(document, "bytes");
  if (!parent) return;
  free(session->parent);
  session->parent = strdup(parent);
}

static void client_asks(client *self, const json_t *document)
{
  const char *op = json_string_value(json_object_get(document, "op"));
  if (op && strcmp(op, "used") == 0) {
    client_used(self->session, document);
    return;
  }
  if (op && strcmp(op, "snapshot") == 0) {
    client_snapshot(self->session, document);
    return;
  }
  question *asked = op ? malloc(sizeof *asked) : NULL;
  mcg_error *error = NULL;
  if (!asked) {
    client_cut(self);
    return;
  }
  *asked = (question){.client = self,
                      .id = json_integer_value(json_object_get(document, "id")),
                      .figures = json_object(),
                      .network = json_incref(json_object_get(document, "network"))};
  self->refs++;
  if (strcmp(op, "figures") == 0)
    mcg_op_start(self->session->engine, figures_run, figures_complete, asked, NULL, &error);
  else if (strcmp(op, "set_network") == 0)
    mcg_op_start(self->session->engine, network_run, network_complete, asked, NULL, &error);
  else if (strcmp(op, "network_log") == 0)
    question_answered(asked, log_page(asked, document));
  else if (strcmp(op, "stop") == 0)
    mcg_session_close(self->session, stopped, asked, &error);
  else
    mcg_fail(&error, MCG_PROTOCOL, NULL, "a keeper does not know \"%.32s\"", op);
  if (!error) return;
  question_answered(asked, error_document(asked->id, error));
  mcg_error_free(error);
}

static void client_polled(uv_poll_t *poll, int status, int events)
{
  (void)status;
  (void)events;
  client *self = poll->data;
  auto_free char *text = malloc(MCG_KEEPER_PACKET_MAX);
  ssize_t len = text ? recv(self->fd, text, MCG_KEEPER_PACKET_MAX, MSG_DONTWAIT) : 0;
  if (len < 0 && (errno == EAGAIN || errno == EINTR)) return;
  self->refs++;
  mcg_error *error = NULL;
  json_t *document = len > 0 ? mcg_json_parse(text, (size_t)len, &error) : NULL;
  if (!document)
    client_cut(self);
  else if (self->greeted)
    client_asks(self, document);
  else if (json_integer_value(json_object_get(document, "version")) == MCG_KEEPER_VERSION)
    client_greet(self);
  else
    client_cut(self);
  json_decref(document);
  mcg_error_free(error);
  client_unref(self);
}

/* ---- the listener ------------------------------------------------------------------------- */

static void keeper_unref(struct mcg_keeper *keeper)
{
  if (--keeper->refs) return;
  free(keeper->path);
  free(keeper);
}

static void listener_closed(uv_handle_t *handle)
{
  keeper_unref(handle->data);
}

static void take_client(struct mcg_keeper *keeper, int fd)
{
  client *self =
      keeper->count < CLIENTS_MAX && mcg_keeper_peer_ok(fd) ? calloc(1, sizeof *self) : NULL;
  if (!self || uv_poll_init(keeper->session->engine->loop, &self->poll, fd) < 0) {
    free(self);
    close(fd);
    return;
  }
  self->keeper = keeper;
  self->session = keeper->session;
  mcg_session_hold(self->session);
  self->fd = fd;
  self->refs = 2;
  self->poll.data = self;
  self->next = keeper->clients;
  keeper->clients = self;
  keeper->count++;
  uv_poll_start(&self->poll, UV_READABLE, client_polled);
}

static void listener_polled(uv_poll_t *poll, int status, int events)
{
  (void)status;
  (void)events;
  struct mcg_keeper *keeper = poll->data;
  int fd = accept4(keeper->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) take_client(keeper, fd);
}

/* ---- where it listens --------------------------------------------------------------------- */

static int check_directory(const char *path, mcg_error **err)
{
  auto_free char *copy = strdup(path);
  struct stat about;
  const char *directory = copy ? dirname(copy) : "";
  if (mkdir(directory, 0700) < 0 && errno != EEXIST)
    return mcg_fail_errno(err, errno, NULL, "make %s", directory);
  if (lstat(directory, &about) < 0)
    return mcg_fail_errno(err, errno, NULL, "look at %s", directory);
  if (S_ISDIR(about.st_mode) && about.st_uid == geteuid() && !(about.st_mode & 077)) return 0;
  auto_free char *fix = mcg_format("chmod 700 %s, or use a directory of your own", directory);
  return mcg_fail(err, MCG_UNAUTHORIZED, fix, "%s is not a directory of this user alone",
                  directory);
}

static int address_of(const char *path, struct sockaddr_un *out, mcg_error **err)
{
  *out = (struct sockaddr_un){.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof out->sun_path)
    return mcg_fail(err, MCG_INVALID, "use a shorter directory", "%s is too long for a socket",
                    path);
  strcpy(out->sun_path, path);
  return 0;
}

/* A socket file that nobody listens on is what a dead keeper left. */
static int clear_path(const struct sockaddr_un *address, int type, mcg_error **err)
{
  auto_fd int probe = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return mcg_fail_errno(err, errno, NULL, "make a socket");
  if (connect(probe, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN ||
      errno == EPROTOTYPE)
    return mcg_fail(err, MCG_CONFLICT, NULL, "%s is served by another process", address->sun_path);
  if (errno == ECONNREFUSED) unlink(address->sun_path);
  return 0;
}

int mcg_keeper_listen(const char *path, int type, int *out, mcg_error **err)
{
  struct sockaddr_un address;
  if (address_of(path, &address, err) < 0 || check_directory(path, err) < 0 ||
      clear_path(&address, type, err) < 0)
    return -1;
  auto_fd int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
      listen(fd, BACKLOG) < 0)
    return mcg_fail_errno(err, errno, NULL, "listen on %s", path);
  *out = mcg_steal_fd(&fd);
  return 0;
}

int mcg_session_keep(mcg_session *session, const char *path, mcg_error **err)
{
  if (mcg_session_alive(session, err) < 0) return -1;
  if (session->keeper)
    return mcg_fail(err, MCG_CONFLICT, "use it there", "the session is kept on %s already",
                    session->keeper->path);
  if (session->remote || session->place.carrier != MCG_CARRIER_DIRECT)
    return mcg_fail(err, MCG_UNSUPPORTED, "open one in a jail of this machine",
                    "only a session of one's own on this machine can be kept");
  struct mcg_keeper *keeper = calloc(1, sizeof *keeper);
  if (!keeper || !(keeper->path = strdup(path))) {
    free(keeper);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a keeper");
  }
  keeper->session = session;
  keeper->refs = 1;
  if (mcg_keeper_listen(path, SOCK_SEQPACKET, &keeper->fd, err) < 0) {
    keeper_unref(keeper);
    return -1;
  }
  int rc = uv_poll_init(session->engine->loop, &keeper->poll, keeper->fd);
  if (rc < 0) {
    close(keeper->fd);
    unlink(path);
    keeper_unref(keeper);
    return mcg_fail_errno(err, -rc, NULL, "watch %s", path);
  }
  keeper->poll.data = keeper;
  keeper->refs++;
  uv_poll_start(&keeper->poll, UV_READABLE, listener_polled);
  session->keeper = keeper;
  return 0;
}

void mcg_keeper_deaf(mcg_session *session)
{
  struct mcg_keeper *keeper = session->keeper;
  if (!keeper || keeper->fd < 0) return;
  unlink(keeper->path);
  uv_close((uv_handle_t *)&keeper->poll, listener_closed);
  close(keeper->fd);
  keeper->fd = -1;
}

void mcg_keeper_end(mcg_session *session)
{
  struct mcg_keeper *keeper = session->keeper;
  if (!keeper) return;
  mcg_keeper_deaf(session);
  session->keeper = NULL;
  while (keeper->clients) client_cut(keeper->clients);
  keeper_unref(keeper);
}

char *mcg_session_state(const mcg_session *session, mcg_error **err)
{
  const char *path = session->keeper   ? session->keeper->path
                     : session->remote ? mcg_remote_path(session)
                                       : NULL;
  if (!path) {
    mcg_fail(err, MCG_UNSUPPORTED, "keep it first (mooncage create, or mcg_session_keep)",
             "the session ends with its process: it has no keeper");
    return NULL;
  }
  json_t *state = json_pack("{s:i, s:s, s:s, s:s}", "version", MCG_KEEPER_VERSION, "id",
                            session->id, "backend", session->config->backend->id, "socket", path);
  char *text = json_dumps(state, JSON_COMPACT);
  json_decref(state);
  if (!text) mcg_fail(err, MCG_NOMEM, NULL, "no memory for the state");
  return text;
}
