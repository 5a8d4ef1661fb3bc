/* spawner.c: starts the spawner process, asks it, notices its death. What a sandbox is made of is the
 * spawner's business; what a backend wants is in backends/.
 *
 * Answers are matched by id and kind. Who asks is a fiber; whatever comes for nobody is dropped, its
 * descriptors closed. */
#include "spawner.h"
#include "engine.h"
#include "init/protocol.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define READY_MS 15000
#define CREATE_MS 60000
#define ANSWER_MS 10000
#define STOP_MS 5000
#define PACKET_MAX 65536
#define FDS_MAX MCG_SOCKETS
#define PACKETS_A_TURN 64

typedef struct request {
  struct request *next;
  uint32_t id, answer; /* the op that answers it; MCG_S_FAILED does too */
  mcg_wait wait;
  bool done;
  uint32_t op;
  uint8_t *body;
  size_t len;
  int fds[FDS_MAX];
  size_t fd_count;
} request;

struct mcg_jailed {
  mcg_spawner *spawner; /* NULL once that is dead */
  mcg_jailed *next;
  uint32_t id;
};

struct mcg_spawner {
  mcg_engine *engine;
  int fd, pidfd;
  unsigned refs; /* the engine, each open handle, each fiber in here */
  bool ready, dead, has_polls, exited;
  uv_poll_t poll, death;
  mcg_machine machine;
  uint32_t last_id;
  request *requests, **requests_last;
  mcg_jailed *jailed;
  mcg_wait stopped;
  uint8_t packet[PACKET_MAX];
};

/* ---- its death ---------------------------------------------------------------------------- */

static void spawner_unref(mcg_spawner *spawner)
{
  if (--spawner->refs == 0) free(spawner);
}

static void handle_closed(uv_handle_t *handle)
{
  spawner_unref(handle->data);
}

/* The host may have taken the status before us, or ignore SIGCHLD: no status is needed. */
static void reap(mcg_spawner *spawner)
{
  siginfo_t info;
  while (waitid(P_PIDFD, (id_t)spawner->pidfd, &info, WEXITED | WNOHANG) < 0 && errno == EINTR) {
  }
}

static void close_handles(mcg_spawner *spawner)
{
  if (spawner->has_polls) {
    uv_close((uv_handle_t *)&spawner->poll, handle_closed);
    uv_close((uv_handle_t *)&spawner->death, handle_closed);
    spawner->has_polls = false;
  }
  if (spawner->fd >= 0) close(spawner->fd);
  if (spawner->pidfd >= 0) close(spawner->pidfd);
  spawner->fd = spawner->pidfd = -1;
}

/* Everything it held died with it. Who waits hears of it; the next who asks starts another one. */
static void spawner_died(mcg_spawner *spawner)
{
  if (spawner->dead) return;
  spawner->dead = true;
  mcg_engine *engine = spawner->engine;
  if (engine->spawner == spawner) engine->spawner = NULL;
  for (request *r = spawner->requests; r; r = r->next) mcg_wait_wake(engine, &r->wait);
  for (mcg_jailed *j = spawner->jailed; j; j = j->next) j->spawner = NULL;
  spawner->jailed = NULL;
  close_handles(spawner);
  mcg_wait_wake(engine, &spawner->stopped);
  spawner_unref(spawner);
}

static int spawner_start(mcg_engine *engine, mcg_error **err);

/* Groups and directories outlive a spawner that was killed. Another one removes them, now: this engine
 * may be idle for long. Its answer is awaited by nobody. */
static void replace(mcg_engine *engine)
{
  auto_error mcg_error *ignored = NULL;
  uint32_t head[2] = {MCG_S_REAP, 0};
  if (engine->spawner || engine->closing || spawner_start(engine, &ignored) < 0) return;
  while (send(engine->spawner->fd, head, sizeof head, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

static void death_polled(uv_poll_t *poll, int status, int events)
{
  (void)status;
  (void)events;
  mcg_spawner *spawner = poll->data;
  reap(spawner);
  spawner->exited = true;
  mcg_engine *engine = spawner->jailed ? spawner->engine : NULL;
  spawner_died(spawner);
  if (engine) replace(engine);
}

/* ---- what it says ------------------------------------------------------------------------- */

static void read_ready(mcg_spawner *spawner, const uint8_t *body, size_t len)
{
  mcg_machine *machine = &spawner->machine;
  mcg_reader reader = mcg_reader_of(body, len);
  mcg_field field;
  while (mcg_reader_next(&reader, &field)) {
    uint64_t number = mcg_field_u64(&field);
    switch (field.tag) {
    case MCG_ST_CGROUP: machine->cgroup = (enum mcg_cgroup_mode)number; break;
    case MCG_ST_CGROUP_CAN:
      machine->can_memory = number & 1;
      machine->can_cpu = number & 2;
      machine->can_pids = number & 4;
      break;
    case MCG_ST_PRIVILEGED: machine->privileged = number != 0; break;
    case MCG_ST_LANDLOCK: machine->landlock = (unsigned)number; break;
    default: break;
    }
  }
  spawner->ready = true;
  for (request *r = spawner->requests; r; r = r->next)
    if (r->answer == MCG_S_READY) {
      r->done = true;
      mcg_wait_wake(spawner->engine, &r->wait);
    }
}

static bool answers(const request *r, uint32_t op, uint32_t id)
{
  return !r->done && r->id == id && (r->answer == op || op == MCG_S_FAILED);
}

static void packet_came(mcg_spawner *spawner, size_t len, int *fds, size_t count)
{
  if (len < 8) return;
  uint32_t op, id;
  memcpy(&op, spawner->packet, 4); /* one machine: its byte order is ours */
  memcpy(&id, spawner->packet + 4, 4);
  const uint8_t *body = spawner->packet + 8;
  if (op == MCG_S_READY) {
    read_ready(spawner, body, len - 8);
    return;
  }
  request *r = spawner->requests;
  while (r && !answers(r, op, id)) r = r->next;
  if (!r) return;
  r->done = true;
  r->op = op;
  r->body = malloc(len); /* one more than needed, so that nothing is not NULL */
  r->len = len - 8;
  if (r->body) memcpy(r->body, body, len - 8);
  for (size_t i = 0; i < count && i < FDS_MAX; i++) r->fds[r->fd_count++] = mcg_steal_fd(&fds[i]);
  mcg_wait_wake(spawner->engine, &r->wait);
}

static size_t take_descriptors(struct msghdr *message, int fds[FDS_MAX])
{
  size_t count = 0;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
       header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < here && count < FDS_MAX; i++)
      memcpy(&fds[count++], CMSG_DATA(header) + i * sizeof(int), sizeof(int));
  }
  return count;
}

static void spawner_polled(uv_poll_t *poll, int status, int events)
{
  (void)status;
  (void)events;
  mcg_spawner *spawner = poll->data;
  for (int i = 0; i < PACKETS_A_TURN && spawner->fd >= 0; i++) {
    union {
      struct cmsghdr align;
      char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control;
    struct iovec vector = {.iov_base = spawner->packet, .iov_len = PACKET_MAX};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t len = recvmsg(spawner->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (len < 0 && errno == EINTR) continue;
    if (len < 0 && errno == EAGAIN) return;
    if (len <= 0) { /* its pidfd tells of the death itself */
      uv_poll_stop(poll);
      return;
    }
    int fds[FDS_MAX];
    size_t count = take_descriptors(&message, fds);
    packet_came(spawner, (size_t)len, fds, count);
    for (size_t k = 0; k < count; k++)
      if (fds[k] >= 0) close(fds[k]);
  }
}

/* ---- starting it -------------------------------------------------------------------------- */

/* Only what systemd's client needs to find its user manager; nothing of the host's secrets. */
static size_t small_environment(char *out[4])
{
  static const char *const names[] = {"PATH", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"};
  size_t count = 0;
  for (size_t i = 0; i < 3; i++) {
    const char *value = getenv(names[i]);
    if (value) out[count] = mcg_format("%s=%s", names[i], value);
    if (value && out[count]) count++;
  }
  out[count] = NULL;
  return count;
}

static int run_init(mcg_engine *engine, int socket, int self, pid_t *pid)
{
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  /* Nothing of the host's stays open in it: whoever reads the host's output waits for its end. */
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_adddup2(&actions, 0, 1);
  posix_spawn_file_actions_adddup2(&actions, 0, 2);
  posix_spawn_file_actions_adddup2(&actions, socket, 3);
  posix_spawn_file_actions_adddup2(&actions, self, 4);
  posix_spawn_file_actions_addclosefrom_np(&actions, 5);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  /* A session of its own: Ctrl-C at the host's terminal is not for it. */
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  char *arguments[] = {engine->init_path, (char *)"spawner", NULL};
  char *environment[4];
  size_t count = small_environment(environment);
  int rc = posix_spawn(pid, engine->init_path, &actions, &attributes, arguments, environment);
  while (count) free(environment[--count]);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return rc;
}

/* Above 4, so that neither is in the other's way when they become 3 and 4. */
static int move_up(int fd)
{
  if (fd < 0) return -1;
  int moved = fcntl(fd, F_DUPFD_CLOEXEC, 10);
  int error = errno;
  close(fd);
  errno = error;
  return moved;
}

#define CALLS_FIX                                                                                  \
  "use Linux 5.13 or newer; in a container, let its seccomp profile allow clone3, pidfd_open and " \
  "pidfd_send_signal"

/* By which all that is made here is found and ended: without them nothing is begun. */
static int open_self(int *out, mcg_error **err)
{
  *out = move_up((int)syscall(SYS_pidfd_open, getpid(), 0));
  if (*out < 0)
    return mcg_fail(err, MCG_UNENFORCEABLE, CALLS_FIX, "open a process's descriptor: %s",
                    strerror(errno));
  if (syscall(SYS_pidfd_send_signal, *out, 0, NULL, 0) < 0)
    return mcg_fail(err, MCG_UNENFORCEABLE, CALLS_FIX, "signal by a process's descriptor: %s",
                    strerror(errno));
  return 0;
}

static int start_process(mcg_spawner *spawner, mcg_error **err)
{
  mcg_engine *engine = spawner->engine;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
    return mcg_fail_errno(err, errno, NULL, "make a socket for the spawner");
  spawner->fd = pair[0];
  auto_fd int theirs = move_up(pair[1]);
  if (theirs < 0) return mcg_fail_errno(err, errno, NULL, "prepare the spawner");
  auto_fd int self = -1;
  if (open_self(&self, err) < 0) return -1;
  pid_t pid;
  int rc = run_init(engine, theirs, self, &pid);
  if (rc == EPERM)
    return mcg_fail(err, MCG_UNENFORCEABLE, CALLS_FIX, "start a process: %s", strerror(rc));
  if (rc)
    return mcg_fail_errno(err, rc, "install mooncage, or name its helper with MOONCAGE_INIT",
                          "start %s", engine->init_path);
  spawner->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (spawner->pidfd >= 0) return 0;
  return mcg_fail_errno(err, errno, NULL, "watch the spawner");
}

static int watch(mcg_spawner *spawner, mcg_error **err)
{
  uv_loop_t *loop = spawner->engine->loop;
  int rc = uv_poll_init(loop, &spawner->poll, spawner->fd);
  if (rc < 0) return mcg_fail_errno(err, -rc, NULL, "watch the spawner's socket");
  spawner->poll.data = spawner->death.data = spawner;
  spawner->refs++;
  rc = uv_poll_init(loop, &spawner->death, spawner->pidfd);
  if (rc < 0) {
    uv_close((uv_handle_t *)&spawner->poll, handle_closed);
    return mcg_fail_errno(err, -rc, NULL, "watch the spawner");
  }
  spawner->refs++;
  spawner->has_polls = true;
  uv_poll_start(&spawner->poll, UV_READABLE, spawner_polled);
  uv_poll_start(&spawner->death, UV_READABLE, death_polled);
  uv_unref((uv_handle_t *)&spawner->poll); /* an idle spawner keeps no loop alive */
  uv_unref((uv_handle_t *)&spawner->death);
  return 0;
}

static int spawner_start(mcg_engine *engine, mcg_error **err)
{
  mcg_spawner *spawner = calloc(1, sizeof *spawner);
  if (!spawner) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the spawner");
  spawner->engine = engine;
  spawner->fd = spawner->pidfd = -1;
  spawner->refs = 1;
  spawner->requests_last = &spawner->requests;
  mcg_wait_init(&spawner->stopped);
  if (start_process(spawner, err) < 0 || watch(spawner, err) < 0) {
    close_handles(spawner); /* a spawner that did start leaves at the socket's end */
    spawner_unref(spawner);
    return -1;
  }
  engine->spawner = spawner;
  return 0;
}

/* ---- asking it ---------------------------------------------------------------------------- */

static void request_begin(mcg_spawner *spawner, request *r, uint32_t id, uint32_t answer)
{
  *r = (request){.id = id, .answer = answer};
  mcg_wait_init(&r->wait);
  *spawner->requests_last = r;
  spawner->requests_last = &r->next;
  spawner->refs++;
}

static void request_unlink(mcg_spawner *spawner, request *r)
{
  request **at = &spawner->requests;
  while (*at != r) at = &(*at)->next;
  *at = r->next;
  if (!r->next) spawner->requests_last = at;
  spawner_unref(spawner);
}

static void request_fini(request *r)
{
  free(r->body);
  for (size_t i = 0; i < r->fd_count; i++)
    if (r->fds[i] >= 0) close(r->fds[i]);
}

static int died(mcg_error **err)
{
  mcg_fail(err, MCG_UNAVAILABLE, "open a new session; its sandboxes are gone with it",
           "the spawner process ended");
  if (err && *err) (*err)->retryable = true;
  return -1;
}

typedef union attachment { /* room for a descriptor that goes with a message */
  struct cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
} attachment;

static void attach(struct msghdr *message, attachment *room, int fd)
{
  memset(room, 0, sizeof *room);
  message->msg_control = room->bytes;
  message->msg_controllen = sizeof room->bytes;
  room->header = (struct cmsghdr){
      .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
  memcpy(CMSG_DATA(&room->header), &fd, sizeof fd);
}

/* `fd` goes with it, unless it is -1. */
static int send_packet(mcg_spawner *spawner, uint32_t op, uint32_t id, const mcg_wire *body, int fd,
                       mcg_error **err)
{
  uint8_t head[8];
  memcpy(head, &op, 4);
  memcpy(head + 4, &id, 4);
  struct iovec parts[2] = {{.iov_base = head, .iov_len = sizeof head},
                           {.iov_base = body ? body->data : NULL, .iov_len = body ? body->len : 0}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  attachment room;
  if (fd >= 0) attach(&message, &room, fd);
  while (!spawner->dead) {
    if (sendmsg(spawner->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return 0;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != ENOBUFS) break;
    if (mcg_fiber_sleep(spawner->engine, 1, err) < 0)
      return -1; /* it is busy with those before us */
  }
  return died(err);
}

/* Sends and waits; on success `r` has the answer, and request_fini is the caller's. */
static int ask_with(mcg_spawner *spawner, request *r, uint32_t op, uint32_t id, uint32_t answer,
                    const mcg_wire *body, int fd, int64_t timeout_ms, mcg_error **err)
{
  request_begin(spawner, r, id, answer);
  int rc = op ? send_packet(spawner, op, id, body, fd, err) : 0;
  if (!rc && !r->done && !spawner->dead)
    rc = mcg_wait_park(spawner->engine, &r->wait, timeout_ms, err);
  if (!rc && !r->done) rc = died(err);
  if (!rc && op && !r->body)
    rc = mcg_fail(err, MCG_NOMEM, NULL, "no memory for the spawner's answer");
  request_unlink(spawner, r);
  if (rc < 0) request_fini(r);
  return rc;
}

static int ask(mcg_spawner *spawner, request *r, uint32_t op, uint32_t id, uint32_t answer,
               const mcg_wire *body, int64_t timeout_ms, mcg_error **err)
{
  return ask_with(spawner, r, op, id, answer, body, -1, timeout_ms, err);
}

void mcg_engine_warm(mcg_engine *engine)
{
  auto_error mcg_error *ignored = NULL;
  if (!engine->spawner && !engine->closing && spawner_start(engine, &ignored) < 0)
    mcg_log(engine, MCG_LOG_DEBUG, "warm: %s", ignored->message);
}

static int get_ready(mcg_engine *engine, mcg_spawner **out, mcg_error **err)
{
  if (!engine->spawner && spawner_start(engine, err) < 0) return -1;
  mcg_spawner *spawner = engine->spawner;
  request r;
  if (!spawner->ready) {
    if (ask(spawner, &r, 0, 0, MCG_S_READY, NULL, READY_MS, err) < 0)
      return mcg_wrap(err, "start the spawner %s", engine->init_path);
    request_fini(&r);
    if (engine->spawner != spawner) return died(err);
  }
  *out = spawner;
  return 0;
}

int mcg_spawner_machine(mcg_engine *engine, mcg_machine *out, mcg_error **err)
{
  mcg_spawner *spawner;
  if (get_ready(engine, &spawner, err) < 0) return -1;
  *out = spawner->machine;
  return 0;
}

/* ---- sandboxes ---------------------------------------------------------------------------- */

static void read_enforced(mcg_session *session, const request *r)
{
  mcg_reader reader = mcg_reader_of(r->body, r->len);
  mcg_field field;
  while (mcg_reader_next(&reader, &field)) {
    if (!session || field.tag != MCG_ST_ENFORCED) continue;
    auto_free char *text = mcg_field_str(&field);
    char *value = text ? strchr(text, '=') : NULL;
    if (!value) continue;
    *value = '\0';
    mcg_session_enforce(session, text, value + 1);
  }
}

static int create_failed(const request *r, mcg_error **err)
{
  auto_free char *step = NULL, *text = NULL;
  int number = 0;
  mcg_reader reader = mcg_reader_of(r->body, r->len);
  mcg_field field;
  while (mcg_reader_next(&reader, &field)) {
    if (field.tag == MCG_ST_ERRNO) number = (int)mcg_field_u64(&field);
    if (field.tag == MCG_ST_STEP && !step) step = mcg_field_str(&field);
    if (field.tag == MCG_ST_TEXT && !text) text = mcg_field_str(&field);
  }
  return mcg_spawner_setup_error(err, step ? step : "create", number, text ? text : "");
}

/* A create that was given up may still have made something. */
static void destroy_shielded(mcg_spawner *spawner, uint32_t id)
{
  auto_error mcg_error *ignored = NULL;
  request r;
  mcg_fiber_shield(spawner->engine, true);
  if (ask(spawner, &r, MCG_S_DESTROY, id, MCG_S_GONE, NULL, ANSWER_MS, &ignored) == 0)
    request_fini(&r);
  mcg_fiber_shield(spawner->engine, false);
}

static int create(mcg_spawner *spawner, mcg_session *session, const mcg_spawn_spec *spec,
                  uint32_t id, int *stream_fd, mcg_error **err)
{
  request r;
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_spawn_spec_encode(spec, &body);
  int rc;
  if (body.too_long)
    rc = mcg_fail(err, MCG_INVALID, "bind fewer paths", "the sandbox's description is too long");
  else if (body.failed)
    rc = mcg_fail(err, MCG_NOMEM, NULL, "no memory for a sandbox's description");
  else
    rc = ask(spawner, &r, MCG_S_CREATE, id, MCG_S_CREATED, &body, CREATE_MS, err);
  mcg_wire_fini(&body);
  if (rc < 0) {
    if (!spawner->dead) destroy_shielded(spawner, id);
    return -1;
  }
  if (r.op == MCG_S_FAILED) {
    rc = create_failed(&r, err);
  } else if (r.fd_count < 1) {
    destroy_shielded(spawner, id);
    rc = mcg_fail(err, MCG_QUOTA,
                  "raise the limit of this process on open files (ulimit -n), or keep "
                  "fewer sessions",
                  "no descriptors left for another session");
  } else {
    read_enforced(session, &r);
    *stream_fd = mcg_steal_fd(&r.fds[0]);
  }
  request_fini(&r);
  return rc;
}

int mcg_spawner_create(mcg_engine *engine, mcg_session *session, const mcg_spawn_spec *spec,
                       mcg_jailed **out, int *stream_fd, mcg_error **err)
{
  mcg_spawner *spawner;
  if (get_ready(engine, &spawner, err) < 0) return -1;
  mcg_jailed *jailed = malloc(sizeof *jailed);
  if (!jailed) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a sandbox");
  spawner->refs++;
  uint32_t id = ++spawner->last_id;
  int rc = create(spawner, session, spec, id, stream_fd, err);
  if (!rc) {
    *jailed =
        (mcg_jailed){.spawner = spawner->dead ? NULL : spawner, .next = spawner->jailed, .id = id};
    if (!spawner->dead) spawner->jailed = jailed;
    *out = jailed;
  } else {
    free(jailed);
  }
  spawner_unref(spawner);
  return rc;
}

static void read_counters(const request *r, mcg_counters *out)
{
  mcg_reader reader = mcg_reader_of(r->body, r->len);
  mcg_field field;
  while (mcg_reader_next(&reader, &field)) {
    uint64_t number = mcg_field_u64(&field);
    switch (field.tag) {
    case MCG_ST_MEMORY_NOW: out->memory = number; break;
    case MCG_ST_MEMORY_PEAK: out->memory_peak = number; break;
    case MCG_ST_CPU_US: out->cpu_us = number; break;
    case MCG_ST_PIDS_NOW: out->pids = number; break;
    case MCG_ST_OOM_KILLS: out->oom_kills = number; break;
    case MCG_ST_PIDS_HITS: out->pids_hits = number; break;
    default: break;
    }
  }
}

static int ask_counters(mcg_jailed *jailed, uint32_t op, uint32_t answer, mcg_counters *out,
                        mcg_error **err)
{
  mcg_spawner *spawner = jailed->spawner;
  if (!spawner) return died(err);
  request r;
  spawner->refs++;
  int rc = ask(spawner, &r, op, jailed->id, answer, NULL, ANSWER_MS, err);
  spawner_unref(spawner);
  if (rc < 0) return -1;
  *out = (mcg_counters){0};
  if (r.op == MCG_S_FAILED)
    rc = create_failed(&r, err);
  else
    read_counters(&r, out);
  request_fini(&r);
  return rc;
}

int mcg_spawner_stats(mcg_jailed *jailed, mcg_counters *out, mcg_error **err)
{
  return ask_counters(jailed, MCG_S_STATS, MCG_S_STATS, out, err);
}

/* -1 for each that is not among them. */
static void take_ways(request *r, mcg_gateway_sockets *out)
{
  int *places[MCG_SOCKETS] = {
      [MCG_SOCKET_STUB_UDP] = &out->stub_udp,        [MCG_SOCKET_STUB_TCP] = &out->stub_tcp,
      [MCG_SOCKET_REFUSED] = &out->refused,          [MCG_SOCKET_REDIRECT_4] = &out->redirected[0],
      [MCG_SOCKET_REDIRECT_6] = &out->redirected[1],
  };
  for (size_t kind = 0; kind < MCG_SOCKETS; kind++) *places[kind] = -1;
  mcg_reader reader = mcg_reader_of(r->body, r->len);
  mcg_field field;
  size_t next = 0;
  while (mcg_reader_next(&reader, &field)) {
    uint64_t kind = mcg_field_u64(&field);
    if (field.tag == MCG_TAG_SOCKET && kind < MCG_SOCKETS && next < r->fd_count)
      *places[kind] = mcg_steal_fd(&r->fds[next++]);
  }
}

int mcg_spawner_gateway(mcg_jailed *jailed, int of_network, bool redirect, mcg_gateway_sockets *out,
                        mcg_error **err)
{
  mcg_spawner *spawner = jailed->spawner;
  if (!spawner) return died(err);
  request r;
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_u64(&body, MCG_ST_REDIRECT, redirect);
  spawner->refs++;
  int rc = ask_with(spawner, &r, MCG_S_GATEWAY, jailed->id, MCG_S_WAYS, &body, of_network,
                    ANSWER_MS, err);
  spawner_unref(spawner);
  mcg_wire_fini(&body);
  if (rc < 0) return -1;
  if (r.op == MCG_S_FAILED)
    rc = create_failed(&r, err);
  else
    take_ways(&r, out);
  request_fini(&r);
  return rc;
}

int mcg_spawner_destroy(mcg_jailed *jailed, mcg_counters *counters, mcg_error **err)
{
  mcg_counters unwanted;
  int rc = 0;
  if (jailed->spawner) /* else it died with its spawner */
    rc = ask_counters(jailed, MCG_S_DESTROY, MCG_S_GONE, counters ? counters : &unwanted, err);
  if (rc < 0 && !jailed->spawner) { /* the spawner died meanwhile, and the sandbox with it */
    mcg_error_free(*err);
    *err = NULL;
    rc = 0;
  }
  if (jailed->spawner) {
    mcg_jailed **at = &jailed->spawner->jailed;
    while (*at != jailed) at = &(*at)->next;
    *at = jailed->next;
  }
  free(jailed);
  return rc;
}

void mcg_spawner_close(mcg_engine *engine, int fd)
{
  uint32_t head[2] = {MCG_S_CLOSE, 0};
  struct iovec vector = {.iov_base = head, .iov_len = sizeof head};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  attachment room;
  attach(&message, &room, fd);
  /* Where the message finds no room, closing it here takes its time. */
  if (engine->spawner) sendmsg(engine->spawner->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  close(fd);
}

int mcg_spawner_reap(mcg_engine *engine, bool dry_run, struct json_t *removed, mcg_error **err)
{
  mcg_spawner *spawner;
  if (get_ready(engine, &spawner, err) < 0) return -1;
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_u64(&body, MCG_ST_CODE, dry_run);
  request r;
  spawner->refs++;
  int rc = ask(spawner, &r, MCG_S_REAP, ++spawner->last_id, MCG_S_REAPED, &body, CREATE_MS, err);
  spawner_unref(spawner);
  mcg_wire_fini(&body);
  if (rc < 0) return -1;
  mcg_reader reader = mcg_reader_of(r.body, r.len);
  mcg_field field;
  while (mcg_reader_next(&reader, &field)) {
    auto_free char *text = field.tag == MCG_ST_TEXT ? mcg_field_str(&field) : NULL;
    char *name = text ? strchr(text, ' ') : NULL;
    if (!name) continue;
    *name = '\0';
    json_array_append_new(removed, json_pack("{s:s, s:s}", "kind", text, "name", name + 1));
  }
  request_fini(&r);
  return 0;
}

/* ---- stopping it -------------------------------------------------------------------------- */

static void wait_for_end(mcg_spawner *spawner, int64_t ms)
{
  auto_error mcg_error *ignored = NULL;
  while (!spawner->dead && !ignored)
    if (mcg_wait_park(spawner->engine, &spawner->stopped, ms, &ignored) < 0) break;
}

void mcg_spawner_stop(mcg_engine *engine)
{
  mcg_spawner *spawner = engine->spawner;
  if (!spawner) return;
  spawner->refs++;
  engine->spawner = NULL;
  shutdown(spawner->fd, SHUT_RDWR); /* it takes down what there is, and leaves */
  mcg_fiber_shield(engine, true);
  wait_for_end(spawner, STOP_MS);
  if (!spawner->dead && spawner->pidfd >= 0) {
    syscall(SYS_pidfd_send_signal, spawner->pidfd, SIGKILL, NULL, 0);
    wait_for_end(spawner, STOP_MS);
  }
  mcg_fiber_shield(engine, false);
  spawner_died(spawner);
  spawner_unref(spawner);
}
