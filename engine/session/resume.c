/* resume.c: a session that another engine keeps: taken up, asked, let go of. The sandbox stays. */
#include "keeper.h"
#include "audit/audit.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define HELLO_MS 10000
#define ANSWER_MS 30000

typedef struct question {
  struct question *next;
  json_int_t id;
  mcg_wait wait;
  json_t *answer;
} question;

struct mcg_remote {
  mcg_engine *engine;
  mcg_session *session; /* NULL until the session stands */
  char *path, *directory;
  int fd;
  unsigned refs; /* the session, the handle, who waits */
  bool lost, has_poll;
  uv_poll_t poll;
  json_int_t last_id;
  question *questions;
  json_t *hello;
  int stream_fd; /* came with it */
};

/* ---- the connection ----------------------------------------------------------------------- */

static void remote_unref(struct mcg_remote *remote)
{
  if (--remote->refs) return;
  if (remote->stream_fd >= 0) close(remote->stream_fd);
  json_decref(remote->hello);
  free(remote->directory);
  free(remote->path);
  free(remote);
}

static void remote_handle_closed(uv_handle_t *handle)
{
  remote_unref(handle->data);
}

static void remote_cut(struct mcg_remote *remote)
{
  if (remote->lost) return;
  remote->lost = true;
  if (remote->has_poll) uv_close((uv_handle_t *)&remote->poll, remote_handle_closed);
  remote->has_poll = false;
  close(remote->fd);
  remote->fd = -1;
  for (question *q = remote->questions; q; q = q->next) mcg_wait_wake(remote->engine, &q->wait);
}

static void remote_lost(struct mcg_remote *remote)
{
  mcg_error *reason = NULL;
  mcg_session *session = remote->session;
  remote_cut(remote);
  if (!session) return;
  mcg_fail(&reason, MCG_UNAVAILABLE, "open a new session", "the session's keeper has ended");
  mcg_session_end(session, reason);
}

static int passed_fd(struct msghdr *message)
{
  int fd = -1;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
       header = CMSG_NXTHDR(message, header))
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int)))
      memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

static void answer_came(struct mcg_remote *remote, json_t *take_document, int take_fd)
{
  json_int_t id = json_integer_value(json_object_get(take_document, "id"));
  question *q = remote->questions;
  while (q && (q->id != id || q->answer)) q = q->next;
  if (q && take_fd >= 0 && remote->stream_fd < 0) {
    remote->stream_fd = take_fd;
    take_fd = -1;
  }
  if (take_fd >= 0) close(take_fd);
  if (!q) {
    json_decref(take_document);
    return;
  }
  q->answer = take_document;
  mcg_wait_wake(remote->engine, &q->wait);
}

static void remote_polled(uv_poll_t *poll, int status, int events)
{
  (void)status;
  (void)events;
  struct mcg_remote *remote = poll->data;
  auto_free char *text = malloc(MCG_KEEPER_PACKET_MAX);
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec vector = {.iov_base = text, .iov_len = MCG_KEEPER_PACKET_MAX};
  struct msghdr message = {.msg_iov = &vector,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  ssize_t len = text ? recvmsg(remote->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) : 0;
  if (len < 0 && (errno == EAGAIN || errno == EINTR)) return;
  int fd = len > 0 ? passed_fd(&message) : -1;
  auto_error mcg_error *error = NULL;
  json_t *document = len > 0 ? mcg_json_parse(text, (size_t)len, &error) : NULL;
  remote->refs++;
  if (document) {
    answer_came(remote, document, fd);
  } else {
    if (fd >= 0) close(fd);
    remote_lost(remote);
  }
  remote_unref(remote);
}

static int gone(mcg_error **err)
{
  return mcg_fail(err, MCG_UNAVAILABLE, "open a new session", "the session's keeper has ended");
}

static mcg_code code_named(const char *name)
{
#define CODE(code, text)                                                                           \
  if (name && strcmp(name, text) == 0) return MCG_##code;
  MCG_CODES(CODE)
#undef CODE
  return MCG_INTERNAL;
}

static int told_error(const json_t *answer, mcg_error **err)
{
  const json_t *error = json_object_get(answer, "error");
  const char *message = json_string_value(json_object_get(error, "message"));
  if (!error) return 0;
  return mcg_fail(err, code_named(json_string_value(json_object_get(error, "code"))),
                  json_string_value(json_object_get(error, "fix")), "%s",
                  message ? message : "the keeper refused");
}

/* Sends and waits; the answer is the caller's. */
static int ask(struct mcg_remote *remote, json_t *take_question, int64_t ms, json_t **out,
               mcg_error **err)
{
  question q = {.id = json_integer_value(json_object_get(take_question, "id"))};
  mcg_wait_init(&q.wait);
  bool sent = !remote->lost && mcg_keeper_send(remote->fd, take_question, -1);
  json_decref(take_question);
  if (!sent) return gone(err);
  q.next = remote->questions;
  remote->questions = &q;
  remote->refs++;
  int rc = mcg_wait_park(remote->engine, &q.wait, ms, err);
  question **at = &remote->questions;
  while (*at != &q) at = &(*at)->next;
  *at = q.next;
  remote_unref(remote);
  if (!rc && !q.answer) rc = gone(err);
  if (!rc) rc = told_error(q.answer, err);
  if (rc < 0)
    json_decref(q.answer);
  else
    *out = q.answer;
  return rc;
}

/* `key` (NULL: none) is what the question has besides; the value is taken. */
static int remote_ask_with(mcg_session *session, const char *op, const char *key,
                           json_t *take_value, json_t **out, mcg_error **err)
{
  struct mcg_remote *remote = session->remote;
  json_t *asked = json_pack("{s:I, s:s}", "id", ++remote->last_id, "op", op);
  if (key && json_object_set_new(asked, key, take_value) < 0) {
    json_decref(asked);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory to ask the keeper");
  }
  return ask(remote, asked, ANSWER_MS, out, err);
}

static int remote_ask(mcg_session *session, const char *op, json_t **out, mcg_error **err)
{
  return remote_ask_with(session, op, NULL, NULL, out, err);
}

int mcg_remote_figures(mcg_session *session, json_t *out, mcg_error **err)
{
  json_t *answer;
  if (remote_ask(session, "figures", &answer, err) < 0) return -1;
  json_object_update(out, json_object_get(answer, "figures"));
  json_decref(answer);
  return 0;
}

void mcg_remote_used(const mcg_session *session, uint64_t commands, uint64_t exec_ns,
                     uint64_t cpu_us, uint64_t maxrss_kb)
{
  const struct mcg_remote *remote = session->remote;
  if (remote->lost) return;
  auto_json json_t *used = json_pack("{s:s, s:I, s:I, s:I, s:I}", "op", "used", "commands",
                                     (json_int_t)commands, "exec_ns", (json_int_t)exec_ns, "cpu_us",
                                     (json_int_t)cpu_us, "maxrss_kb", (json_int_t)maxrss_kb);
  mcg_keeper_send(remote->fd, used, -1);
}

void mcg_remote_snapshot(const mcg_session *session, uint64_t bytes, const char *parent)
{
  const struct mcg_remote *remote = session->remote;
  if (remote->lost) return;
  auto_json json_t *told =
      json_pack("{s:s, s:I, s:s}", "op", "snapshot", "bytes", (json_int_t)bytes, "parent", parent);
  mcg_keeper_send(remote->fd, told, -1);
}

int mcg_remote_set_network(mcg_session *session, const json_t *network, mcg_error **err)
{
  json_t *answer;
  if (remote_ask_with(session, "set_network", "network", json_deep_copy(network), &answer, err) < 0)
    return -1;
  json_decref(answer);
  return 0;
}

int mcg_remote_network_log(mcg_session *session, json_t *list, mcg_error **err)
{
  size_t total = 0;
  do {
    json_t *answer;
    json_t *from = json_integer((json_int_t)json_array_size(list));
    if (remote_ask_with(session, "network_log", "from", from, &answer, err) < 0) return -1;
    json_t *page = json_object_get(answer, "events");
    total =
        json_array_size(page) ? (size_t)json_integer_value(json_object_get(answer, "total")) : 0;
    int rc = json_array_extend(list, page);
    json_decref(answer);
    if (rc < 0 && total) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the network log");
  } while (json_array_size(list) < total);
  return 0;
}

int mcg_remote_stop(mcg_session *session, mcg_error **err)
{
  json_t *answer;
  if (remote_ask(session, "stop", &answer, err) < 0) return -1;
  json_decref(answer);
  return 0;
}

void mcg_remote_close(mcg_session *session)
{
  struct mcg_remote *remote = session->remote;
  remote->session = NULL;
  remote_cut(remote);
  session->place.working_directory = NULL;
  session->remote = NULL;
  remote_unref(remote);
}

const char *mcg_remote_path(const mcg_session *session)
{
  return session->remote->path;
}

/* ---- taking it up ------------------------------------------------------------------------- */

static int dial(struct mcg_remote *remote, mcg_error **err)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(remote->path) >= sizeof address.sun_path)
    return mcg_fail(err, MCG_INVALID, NULL, "%s is too long for a socket", remote->path);
  strcpy(address.sun_path, remote->path);
  remote->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (remote->fd < 0) return mcg_fail_errno(err, errno, NULL, "make a socket");
  if (connect(remote->fd, (struct sockaddr *)&address, sizeof address) < 0) {
    if (errno == ECONNREFUSED || errno == ENOENT)
      return mcg_fail(err, errno == ENOENT ? MCG_NOT_FOUND : MCG_UNAVAILABLE, "open a new session",
                      "nobody keeps the session on %s", remote->path);
    return mcg_fail_errno(err, errno, NULL, "reach the keeper on %s", remote->path);
  }
  if (!mcg_keeper_peer_ok(remote->fd))
    return mcg_fail(err, MCG_UNAUTHORIZED, NULL, "%s is served by another user", remote->path);
  int rc = uv_poll_init(remote->engine->loop, &remote->poll, remote->fd);
  if (rc < 0) return mcg_fail_errno(err, -rc, NULL, "watch %s", remote->path);
  remote->poll.data = remote;
  remote->has_poll = true;
  remote->refs++;
  uv_poll_start(&remote->poll, UV_READABLE, remote_polled);
  return 0;
}

static int greet(struct mcg_remote *remote, mcg_error **err)
{
  if (ask(remote, json_pack("{s:i}", "version", MCG_KEEPER_VERSION), HELLO_MS, &remote->hello,
          err) < 0)
    return -1;
  if (json_integer_value(json_object_get(remote->hello, "version")) != MCG_KEEPER_VERSION ||
      remote->stream_fd < 0)
    return mcg_fail(err, MCG_PROTOCOL, "use the same version of mooncage",
                    "the keeper speaks another language");
  return 0;
}

/* What the keeper says of the session, over what its configuration says. */
static int adopt(mcg_session *session, struct mcg_remote *remote, mcg_error **err)
{
  const json_t *facts = json_object_get(remote->hello, "session");
  const char *id = json_string_value(json_object_get(facts, "id"));
  const char *directory = json_string_value(json_object_get(facts, "working_directory"));
  if (!id || strlen(id) >= sizeof session->id)
    return mcg_fail(err, MCG_PROTOCOL, NULL, "the keeper's session has no id");
  strcpy(session->id, id);
  session->created_at = json_number_value(json_object_get(facts, "created_at"));
  const json_t *since = json_object_get(remote->hello, "since");
  session->since = (struct timespec){.tv_sec = json_integer_value(json_array_get(since, 0)),
                                     .tv_nsec = json_integer_value(json_array_get(since, 1))};
  json_object_update(session->enforcement, json_object_get(facts, "enforcement"));
  const char *parent = json_string_value(json_object_get(remote->hello, "parent"));
  session->parent = parent ? strdup(parent) : NULL;
  json_array_extend(session->warnings, json_object_get(facts, "warnings"));
  if (directory && !(remote->directory = strdup(directory)))
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session");
  session->place = (mcg_place){
      .stream_fd = -1, .carrier = MCG_CARRIER_DIRECT, .working_directory = remote->directory};
  return 0;
}

static int connect_to(mcg_engine *engine, const char *path, struct mcg_remote **out,
                      mcg_error **err)
{
  struct mcg_remote *remote = calloc(1, sizeof *remote);
  if (!remote) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session");
  *remote = (struct mcg_remote){
      .engine = engine, .fd = -1, .stream_fd = -1, .refs = 1, .path = strdup(path)};
  int rc =
      remote->path ? dial(remote, err) : mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session");
  if (!rc) rc = greet(remote, err);
  if (rc < 0) {
    remote_cut(remote);
    remote_unref(remote);
    return -1;
  }
  *out = remote;
  return 0;
}

/* Both lists where there are two: what one of them does not allow is not allowed. */
static int narrow_tools(json_t *config, const json_t *list)
{
  const json_t *kept = json_object_get(config, "allowed_tools");
  if (!kept) return json_object_set(config, "allowed_tools", (json_t *)list);
  json_t *both = json_array();
  for (size_t i = 0; i < json_array_size(kept); i++)
    for (size_t k = 0; k < json_array_size(list); k++)
      if (json_equal(json_array_get(kept, i), json_array_get(list, k)))
        json_array_append(both, json_array_get(kept, i));
  return json_object_set_new(config, "allowed_tools", both);
}

/* What the host that takes it up says of its functions, over what the keeper's configuration says: the
 * hooks and tools are this host's; a guardrail and a list of tools only come to those that are there. */
static int put_over(json_t *config, const json_t *over)
{
  static const char *const own[] = {"hooks", "hook_timeout_s", "tools"};
  int rc = 0;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    json_t *value = json_object_get(over, own[i]);
    if (value)
      rc += json_object_set(config, own[i], value);
    else if (i < 2)
      json_object_del(config, own[i]);
  }
  const json_t *list = json_object_get(over, "allowed_tools");
  if (list) rc += narrow_tools(config, list);
  if (json_is_true(json_object_get(over, "guardrail")))
    rc += json_object_set_new(config, "guardrail", json_true());
  return rc;
}

static mcg_session *session_of(struct mcg_remote *remote, const json_t *over, mcg_error **err)
{
  json_t *kept = json_object_get(remote->hello, "config");
  mcg_config *config;
  if (put_over(kept, over) < 0)
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session"), NULL;
  auto_free char *text = json_dumps(kept, JSON_COMPACT | JSON_ENCODE_ANY);
  if (!text) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session"), NULL;
  if (mcg_audit_learn_secrets(remote->engine, json_object_get(remote->hello, "secrets"), err) < 0 ||
      mcg_config_read(remote->engine, text, strlen(text), &config, err) < 0)
    return NULL;
  mcg_session *session = mcg_session_make(remote->engine, config, err);
  if (!session) return NULL;
  session->remote = remote;
  mcg_session_enlist(session);
  return session;
}

/* Kills that were counted before us are not our commands'. */
static void note_kills(mcg_session *session)
{
  auto_error mcg_error *ignored = NULL;
  auto_json json_t *figures = json_object();
  if (figures && session->config->backend->stats &&
      mcg_remote_figures(session, figures, &ignored) == 0)
    session->oom_kills = (uint64_t)json_integer_value(json_object_get(figures, "oom_kills"));
}

typedef struct resuming {
  mcg_engine *engine;
  char *path;
  json_t *over; /* or NULL */
  mcg_counsel *counsel;
  mcg_session *session;
  mcg_session_done done;
  void *data;
} resuming;

static int resume_run(void *arg, mcg_error **err)
{
  resuming *self = arg;
  struct mcg_remote *remote = NULL;
  if (connect_to(self->engine, self->path, &remote, err) < 0) return -1;
  mcg_session *session = self->session = session_of(remote, self->over, err);
  if (!session) {
    remote_cut(remote);
    remote_unref(remote);
    return -1;
  }
  session->counsel = mcg_steal_pointer(&self->counsel);
  if (adopt(session, remote, err) < 0 ||
      mcg_stream_open(self->engine, mcg_steal_fd(&remote->stream_fd), MCG_CARRIER_DIRECT,
                      mcg_session_mechanism, mcg_session_stream_lost, session, &session->stream,
                      err) < 0)
    return -1;
  note_kills(session);
  if (remote->lost || !session->stream) return gone(err);
  remote->session = session;
  session->began_ns = uv_hrtime();
  session->state = MCG_SESSION_RUNNING;
  return 0;
}

static void resume_complete(void *arg, mcg_error *error)
{
  resuming self = *(resuming *)arg;
  free(arg);
  free(self.path);
  json_decref(self.over);
  mcg_counsel_unref(self.counsel);
  if (error && self.session) {
    mcg_stream_close(self.session->stream);
    self.session->stream = NULL;
    mcg_remote_close(self.session);
    mcg_session_discard(self.session);
  }
  self.done(self.data, error ? NULL : self.session, error);
}

static char *socket_in(const char *text, size_t len, mcg_error **err)
{
  auto_json json_t *state = mcg_json_parse(text, len, err);
  if (!state) return NULL;
  const char *path = json_string_value(json_object_get(state, "socket"));
  if (json_integer_value(json_object_get(state, "version")) != MCG_KEEPER_VERSION || !path) {
    mcg_fail(err, MCG_INVALID, "give the text of mcg_session_state",
             "this is no state of a session");
    return NULL;
  }
  char *copy = strdup(path);
  if (!copy) mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session");
  return copy;
}

int mcg_session_resume(mcg_engine *engine, const char *state, size_t len, mcg_session_done done,
                       void *data, mcg_op **op, mcg_error **err)
{
  return mcg_session_resume_with(engine, state, len, NULL, NULL, done, data, op, err);
}

static int read_over(const char *text, json_t **out, mcg_error **err)
{
  static const char *const known[] = {"hooks",         "hook_timeout_s", "tools",
                                      "allowed_tools", "guardrail",      NULL};
  *out = NULL;
  if (!text) return 0;
  json_t *over = mcg_json_parse(text, strlen(text), err);
  if (!over) return mcg_wrap(err, "configuration");
  if (json_array_size(over) == 0 && json_is_array(over)) { /* an empty table of Lua */
    json_decref(over);
    return 0;
  }
  if (mcg_check_keys(over, known, NULL, err) < 0) {
    json_decref(over);
    return mcg_wrap(err, "configuration");
  }
  *out = over;
  return 0;
}

int mcg_session_resume_with(mcg_engine *engine, const char *state, size_t len, const char *config,
                            const mcg_deciders *deciders, mcg_session_done done, void *data,
                            mcg_op **op, mcg_error **err)
{
  mcg_counsel *counsel = NULL;
  auto_json json_t *over = NULL;
  if (mcg_engine_check_open(engine, err) < 0 || read_over(config, &over, err) < 0) return -1;
  auto_free char *path = socket_in(state, len, err);
  if (!path || mcg_counsel_new(deciders, &counsel, err) < 0) return -1;
  resuming *self = malloc(sizeof *self);
  if (self)
    *self = (resuming){.engine = engine,
                       .path = path,
                       .over = over,
                       .counsel = counsel,
                       .done = done,
                       .data = data};
  if (self && mcg_op_start(engine, resume_run, resume_complete, self, op, err) == 0) {
    path = NULL;
    over = NULL;
    return 0;
  }
  if (!self) mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session");
  free(self);
  free(counsel); /* the host keeps what it is about */
  return -1;
}
