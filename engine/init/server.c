/* server.c: the loop of init, and which message does what. One thread, one poll; nothing in a turn
 * waits except on purpose in tree.c. */
#include "command.h"
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

#define HUSHED_TICK_MS 1
#define KILL_TICK_MS 10
#define ORPHAN_TICK_MS 250
#define SETTLE_MS 200 /* of quiet, until the main processes are watched, too */

/* ---- messages ----------------------------------------------------------------------------- */

static uint64_t number_of(const uint8_t *body, size_t len, uint16_t tag)
{
  mcg_reader reader = mcg_reader_of(body, len);
  mcg_field field;
  while (mcg_reader_next(&reader, &field))
    if (field.tag == tag) return mcg_field_u64(&field);
  return 0;
}

static bool on_hello(mcg_conn *conn, const uint8_t *body, size_t len)
{
  if (conn->greeted) return false;
  conn->greeted = true;
  if (number_of(body, len, MCG_TAG_VERSION) == MCG_PROTOCOL_VERSION) return true;
  mcg_wire answer;
  mcg_wire_init(&answer);
  mcg_wire_put_str(&answer, MCG_TAG_STEP, "version");
  mcg_wire_put_u64(&answer, MCG_TAG_ERRNO, EPROTONOSUPPORT);
  mcg_wire_put_str(&answer, MCG_TAG_TEXT, "this mooncage-init speaks version 1 of the protocol");
  mcg_conn_send(conn, MCG_F_FAILED, 0, 0, &answer, NULL, 0);
  mcg_wire_fini(&answer);
  return false;
}

/* Nobody in the sandbox has a copy of one: it is sent before there is a command. */
static unsigned take_sockets(int *sockets, mcg_wire *body, int out[MCG_FDS_MAX])
{
  unsigned count = 0;
  for (unsigned i = 0; sockets && i < MCG_SOCKETS; i++) {
    if (sockets[i] < 0) continue;
    mcg_wire_put_u64(body, MCG_TAG_SOCKET, i);
    out[count++] = sockets[i];
    sockets[i] = -1;
  }
  return count;
}

static bool say_hello(mcg_conn *conn, const mcg_server_config *config)
{
  int sockets[MCG_FDS_MAX];
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_u64(&body, MCG_TAG_VERSION, MCG_PROTOCOL_VERSION);
  for (size_t i = 0; config->mechanisms && config->mechanisms[i]; i++)
    mcg_wire_put_str(&body, MCG_TAG_MECHANISM, config->mechanisms[i]);
  if (config->oom_adjust) {
    bool there = access("/proc/self/oom_score_adj", F_OK) == 0;
    mcg_wire_put_str(&body, MCG_TAG_MECHANISM,
                     there ? "oom_score=commands first" : "oom_score=none");
  }
  mcg_wire_put_u64(&body, MCG_TAG_PID, (uint64_t)getpid());
  unsigned count = take_sockets(config->sockets, &body, sockets);
  mcg_conn_send(conn, MCG_F_HELLO, 0, 0, &body, sockets, count);
  while (count) close(sockets[--count]);
  mcg_wire_fini(&body);
  return !conn->dead;
}

static bool add_conn(mcg_server *server, int fd, int carrier)
{
  mcg_conn *conn = mcg_conn_new(fd, carrier);
  if (!conn) return false;
  conn->server = server;
  conn->first = server->conns == NULL;
  mcg_conn **last = &server->conns;
  while (*last) last = &(*last)->next;
  *last = conn;
  say_hello(conn, server->config);
  return true;
}

static bool on_attach(mcg_conn *conn)
{
  int fd = conn->received[0], kind = 0;
  socklen_t size = sizeof kind;
  if (fd < 0 || conn->received[1] >= 0) return false;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size) < 0 || kind != SOCK_SEQPACKET) return false;
  if (add_conn(conn->server, fd, MCG_DIRECT)) conn->received[0] = -1;
  return true;
}

/* What can only be meant for a command that is there; late ones are harmless. */
static bool on_command(mcg_command *command, const mcg_frame *frame, const uint8_t *body,
                       size_t len)
{
  bool framed = command->conn->carrier == MCG_FRAMED;
  uint64_t signo;
  switch (frame->type) {
  case MCG_F_SIGNAL:
    signo = number_of(body, len, MCG_TAG_SIGNO);
    if (signo < 1 || signo > 64) return false;
    mcg_command_signal(command, (int)signo);
    return true;
  case MCG_F_RESIZE:
    mcg_command_resize(command, (unsigned)number_of(body, len, MCG_TAG_COLS) & 0xffff,
                       (unsigned)number_of(body, len, MCG_TAG_ROWS) & 0xffff);
    return true;
  case MCG_F_KILL: mcg_command_kill(command); return true;
  case MCG_F_CLOSE: mcg_relay_close(command, frame->stream); return true;
  case MCG_F_DATA: return framed && frame->stream == 0 && mcg_relay_data(command, body, len);
  case MCG_F_EOF:
    if (framed && frame->stream == 0) mcg_relay_eof(command);
    return framed;
  case MCG_F_CREDIT:
    return framed && frame->stream != 0 &&
           mcg_relay_credit(command, frame->stream, number_of(body, len, MCG_TAG_BYTES));
  default: return false;
  }
}

static bool on_message(void *data, const mcg_frame *frame, const uint8_t *body, size_t len)
{
  mcg_conn *conn = data;
  mcg_server *server = conn->server;
  if (frame->type == MCG_F_HELLO) return on_hello(conn, body, len);
  if (!conn->greeted || (frame->fds && frame->type != MCG_F_ATTACH)) return false;
  switch (frame->type) {
  case MCG_F_EXEC: return mcg_command_start(server, conn, frame->channel, body, len);
  case MCG_F_LISTEN:
  case MCG_F_CONNECT: return mcg_socket_answer(server, conn, frame, body, len);
  case MCG_F_PING: mcg_conn_send_bytes(conn, MCG_F_PONG, frame->channel, 0, body, len); return true;
  case MCG_F_PONG: return true;
  case MCG_F_ATTACH: return on_attach(conn);
  case MCG_F_STOP: server->stop = true; return true;
  case MCG_F_FAILED:
  case MCG_F_STARTED:
  case MCG_F_ERROR:
  case MCG_F_EXIT:
  case MCG_F_GONE: return false;
  default: break;
  }
  if (frame->type == MCG_F_KILL && frame->channel == 0) return conn->killing = true;
  mcg_command *command = mcg_command_find(server, conn, frame->channel);
  return frame->channel != 0 && (!command || on_command(command, frame, body, len));
}

/* ---- the loop ----------------------------------------------------------------------------- */

enum watch_kind { WATCH_WAKE, WATCH_CONN, WATCH_PARENT, WATCH_ORPHAN, WATCH_MAIN, WATCH_STREAM };

typedef struct mcg_watch {
  enum watch_kind kind;
  mcg_conn *conn;
  mcg_command *command;
  int stream;
} mcg_watch;

typedef struct mcg_poll {
  struct pollfd *fds;
  mcg_watch *watches;
  size_t count, cap;
} mcg_poll;

static bool watch(mcg_poll *set, int fd, short events, mcg_watch what)
{
  if (set->count == set->cap) {
    size_t cap = set->cap ? set->cap * 2 : 32;
    struct pollfd *fds = reallocarray(set->fds, cap, sizeof *fds);
    if (fds) set->fds = fds;
    mcg_watch *watches = reallocarray(set->watches, cap, sizeof *watches);
    if (watches) set->watches = watches;
    if (!fds || !watches) return false; /* it is watched in a later turn */
    set->cap = cap;
  }
  set->fds[set->count] = (struct pollfd){.fd = fd, .events = events};
  set->watches[set->count++] = what;
  return true;
}

/* How a command ended is the stub's to note; but the sandbox may have stopped the stub. */
static bool needs_stub(const mcg_command *command)
{
  return !command->exited && !command->gone && !command->builtin && !command->orphaned;
}

static void after_quiet(mcg_server *server)
{
  for (mcg_command *command = server->commands; command; command = command->next) {
    if (needs_stub(command) && !command->started) mcg_command_rouse(command);
    command->settled = command->started;
  }
}

static void watch_all(mcg_server *server, mcg_poll *set)
{
  set->count = 0;
  watch(set, server->wake, POLLIN, (mcg_watch){.kind = WATCH_WAKE});
  if (server->idle) watch(set, server->idle_fd, POLLIN, (mcg_watch){.kind = WATCH_PARENT});
  for (mcg_conn *conn = server->conns; conn; conn = conn->next) {
    short events =
        (short)((conn->queued < MCG_CONN_FULL ? POLLIN : 0) | (conn->queued ? POLLOUT : 0));
    watch(set, conn->fd, events, (mcg_watch){.kind = WATCH_CONN, .conn = conn});
  }
  for (mcg_command *command = server->commands; command; command = command->next) {
    mcg_watch what = {.kind = WATCH_PARENT, .command = command};
    if (command->parent_fd >= 0) watch(set, command->parent_fd, POLLIN, what);
    what.kind = WATCH_ORPHAN;
    if (command->orphaned && !command->exited && command->slot && command->slot->pidfd >= 0)
      watch(set, command->slot->pidfd, POLLIN, what);
    what.kind = WATCH_MAIN;
    if (command->settled && needs_stub(command) && command->slot->pidfd >= 0)
      watch(set, command->slot->pidfd, POLLIN, what);
    what.kind = WATCH_STREAM;
    for (what.stream = 0; what.stream < 3; what.stream++)
      if (mcg_relay_wants(command, what.stream))
        watch(set, command->relay[what.stream].fd, what.stream ? POLLIN : POLLOUT, what);
  }
}

static void on_ready(mcg_server *server, const mcg_watch *what, short events)
{
  uint64_t count;
  switch (what->kind) {
  case WATCH_WAKE:
    if (read(server->wake, &count, sizeof count) < 0) return;
    break;
  case WATCH_CONN:
    if (events & POLLOUT) mcg_conn_flush(what->conn);
    if (!what->conn->dead && (events & (POLLIN | POLLHUP | POLLERR)))
      mcg_conn_receive(what->conn, on_message);
    break;
  case WATCH_PARENT: mcg_tree_reap(server); break;
  case WATCH_ORPHAN:
    server->orphans = true;
    mcg_tree_reap(server);
    break;
  case WATCH_MAIN:
    mcg_command_insist(what->command);
    what->command->settled = false; /* until it is quiet again */
    break;
  case WATCH_STREAM: mcg_relay_ready(what->command, what->stream); break;
  }
}

static void sweep_conns(mcg_server *server)
{
  for (mcg_conn **at = &server->conns; *at;) {
    mcg_conn *conn = *at;
    if (!conn->dead) {
      at = &conn->next;
      continue;
    }
    if (conn->first) server->stop = true;
    for (mcg_command *command = server->commands; command; command = command->next)
      if (command->conn == conn) mcg_command_leave(command);
    *at = conn->next;
    mcg_conn_free(conn);
  }
}

static void step_all(mcg_server *server)
{
  for (mcg_command **at = &server->commands; *at;) {
    mcg_command *command = *at;
    mcg_command_step(command);
    if (mcg_command_over(command)) {
      *at = command->next;
      mcg_command_free(command);
    } else {
      at = &command->next;
    }
  }
}

/* A step may find out about the death of another command's stub. */
static void sweep_commands(mcg_server *server)
{
  do {
    server->reaped = false;
    step_all(server);
  } while (server->reaped);
}

/* Those that have been silent for too long are asked. */
static void unhush_commands(const mcg_server *server)
{
  for (mcg_command *command = server->commands; command; command = command->next)
    mcg_command_unhush(command);
}

static int next_timeout(const mcg_server *server)
{
  for (const mcg_command *command = server->commands; command; command = command->next)
    if (mcg_command_is_hushed(command)) return HUSHED_TICK_MS;
  for (const mcg_command *command = server->commands; command; command = command->next)
    if (command->killing && !command->gone) return KILL_TICK_MS;
  for (const mcg_command *command = server->commands; command; command = command->next)
    if (!command->settled && needs_stub(command)) return SETTLE_MS;
  return server->orphans ? ORPHAN_TICK_MS : -1;
}

/* For those who want no command to live: false when none does. */
static bool kill_commands(mcg_server *server)
{
  bool living = false;
  for (mcg_command *command = server->commands; command; command = command->next) {
    if (command->builtin || command->gone) continue;
    living = true;
    if (!command->killing) mcg_command_kill(command);
  }
  if (server->orphans) mcg_tree_kill_orphans(server);
  return living || mcg_tree_has_orphans(server);
}

static void answer_kills(mcg_server *server)
{
  bool wanted = false;
  for (const mcg_conn *conn = server->conns; conn; conn = conn->next) wanted |= conn->killing;
  if (!wanted || kill_commands(server)) return;
  for (mcg_conn *conn = server->conns; conn; conn = conn->next) {
    if (conn->killing) mcg_conn_send(conn, MCG_F_GONE, 0, 0, NULL, NULL, 0);
    conn->killing = false;
  }
}

static void serve(mcg_server *server)
{
  mcg_poll set = {0};
  while (!server->stop) {
    watch_all(server, &set);
    unhush_commands(server);
    int timeout = next_timeout(server);
    int ready = poll(set.fds, set.count, timeout);
    if (ready < 0 && errno != EINTR && errno != EAGAIN && errno != ENOMEM) break;
    for (size_t i = 0; ready > 0 && i < set.count; i++)
      if (set.fds[i].revents) on_ready(server, &set.watches[i], set.fds[i].revents);
    if (ready == 0) after_quiet(server);
    if (timeout >= 0) mcg_tree_tick(server);
    sweep_commands(server);
    answer_kills(server);
    sweep_conns(server);
  }
  free(set.fds);
  free(set.watches);
}

/* ---- starting ----------------------------------------------------------------------------- */

/* A command's pipe must never get a number its child is about to overwrite. */
static bool hold_standard(void)
{
  int fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd < 3) fd = dup(fd);
  if (fd >= 0) close(fd);
  return fd >= 0 || (fcntl(0, F_GETFD) >= 0 && fcntl(1, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0);
}

static void reset_signals(void)
{
  struct sigaction standard = {.sa_handler = SIG_DFL};
  for (int signo = 1; signo < 65; signo++)
    if (signo != SIGKILL && signo != SIGSTOP) sigaction(signo, &standard, NULL);
  uint64_t all = ~(uint64_t)0;
  mcg_sys(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, 0, sizeof all, 0);
}

static void raise_nofile(mcg_server *server)
{
  struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(RLIMIT_NOFILE, &limit);
  server->nofile_soft = limit.rlim_cur;
  server->nofile_hard = limit.rlim_max;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

static const char *prepare(mcg_server *server)
{
  const mcg_server_config *config = server->config;
  if (!hold_standard()) return "streams";
  reset_signals();
  umask(022);
  raise_nofile(server);
  mcg_sys3(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC);
  if (!config->is_pid1 && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) return "subreaper";
  if (config->workdir && chdir(config->workdir) < 0) return "workdir";
  server->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (server->wake < 0) return "eventfd";
  if (config->carrier == MCG_FRAMED)
    fcntl(config->fd, F_SETFL, fcntl(config->fd, F_GETFL) | O_NONBLOCK);
  return NULL;
}

int mcg_server_main(const mcg_server_config *config)
{
  mcg_server server = {.config = config, .wake = -1, .null_fd = -1, .idle_fd = -1, .trees = -1};
  const char *failed = prepare(&server);
  int number = errno;
  if (!failed && !add_conn(&server, config->fd, config->carrier)) failed = "memory";
  if (failed) {
    mcg_send_failed(config->fd, config->carrier, failed, number, strerror(number));
    return 1;
  }
  if (config->is_pid1) mcg_idle_start(&server);
  serve(&server);
  mcg_tree_kill_all(&server);
  return 0;
}
