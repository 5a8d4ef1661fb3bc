/* spawner_client.h: stands in for an engine towards `mooncage-init spawner`, for tests: CREATE,
 * DESTROY, STATS and REAP of spawn.h, blocking. The sandboxes it makes are clients of init_client.h. */
#ifndef SPAWNER_CLIENT_H
#define SPAWNER_CLIENT_H

#include "init_client.h"

#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "init/spawn.h"

typedef struct spawner {
  pid_t pid;
  int fd;
  uint32_t last_id;
  unsigned cgroup, can, privileged, landlock;
} spawner;

typedef struct box {
  spawner *owner;
  uint32_t id;
  int pidfd;
  client *c;               /* NULL: it failed */
  char step[64], why[512]; /* of the failure */
  char enforced[1024];     /* lines */
  uint64_t memory_peak, cpu_us, oom_kills, pids_hits;
} box;

/* One packet within WAIT_MS; its length, 0 at the end of the spawner. */
static size_t spawner_read(spawner *s, uint8_t *packet, size_t size, int fds[2], size_t *fd_count)
{
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(2 * sizeof(int))];
  } control;
  struct iovec part = {packet, size};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  struct pollfd ready = {.fd = s->fd, .events = POLLIN};
  assert_int_equal(poll(&ready, 1, WAIT_MS), 1);
  ssize_t len = recvmsg(s->fd, &message, MSG_CMSG_CLOEXEC);
  *fd_count = 0;
  if (len <= 0) return 0;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header && header->cmsg_type == SCM_RIGHTS) {
    *fd_count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(header), *fd_count * sizeof(int));
  }
  return (size_t)len;
}

static bool spawner_send(spawner *s, uint32_t op, uint32_t id, const mcg_wire *body)
{
  uint32_t head[2] = {op, id};
  struct iovec parts[2] = {{head, sizeof head}, {body ? body->data : NULL, body ? body->len : 0}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  return sendmsg(s->fd, &message, MSG_NOSIGNAL) >= 0;
}

/* Waits for the answer `op` (or FAILED) to `id`; false: the spawner ended. */
static bool spawner_answer(spawner *s, uint32_t op, uint32_t id, uint32_t *got, uint8_t *packet,
                           size_t size, size_t *len, int fds[2], size_t *fd_count)
{
  for (;;) {
    uint32_t head[2];
    *len = spawner_read(s, packet, size, fds, fd_count);
    if (*len < sizeof head) return false;
    memcpy(head, packet, sizeof head);
    *got = head[0];
    if (head[1] == id && (head[0] == op || head[0] == MCG_S_FAILED)) return true;
  }
}

/* Version 1 only: the group that the next spawner starts in, of each controller. NULL: ours. */
static const char *spawner_group;

static void enter_group(void)
{
  static const char *const names[] = {"memory", "cpu", "pids"};
  for (size_t i = 0; spawner_group && i < 3; i++) {
    char path[256];
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s/%s/cgroup.procs", names[i], spawner_group);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1) _exit(96);
    close(fd);
  }
}

static void spawner_exec(int socket, int engine, uid_t uid) __attribute__((noreturn));
static void spawner_exec(int socket, int engine, uid_t uid)
{
  int a = fcntl(socket, F_DUPFD, 20), b = fcntl(engine, F_DUPFD, 20);
  const char *path = getenv("MOONCAGE_INIT");
  if (dup2(a, 3) < 0 || dup2(b, 4) < 0) _exit(98);
  syscall(SYS_close_range, 5, ~0U, 0);
  setsid();
  enter_group();
  if (uid && (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0)) _exit(97);
  execl(path, path, "spawner", (char *)NULL);
  _exit(99);
}

/* `uid` 0: as we are. */
static spawner spawner_start(uid_t uid)
{
  spawner s = {0};
  uint8_t packet[4096];
  int pair[2], self = (int)syscall(SYS_pidfd_open, getpid(), 0), fds[2];
  size_t fd_count;
  assert_non_null(getenv("MOONCAGE_INIT"));
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  signal(SIGPIPE, SIG_IGN);
  s.pid = fork();
  if (s.pid == 0) spawner_exec(pair[1], self, uid);
  close(pair[1]);
  close(self);
  s.fd = pair[0];
  size_t len = spawner_read(&s, packet, sizeof packet, fds, &fd_count);
  assert_true(len > 8);
  mcg_reader reader = mcg_reader_of(packet + 8, len - 8);
  mcg_field field;
  while (mcg_reader_next(&reader, &field)) {
    unsigned value = (unsigned)mcg_field_u64(&field);
    if (field.tag == MCG_ST_CGROUP) s.cgroup = value;
    if (field.tag == MCG_ST_CGROUP_CAN) s.can = value;
    if (field.tag == MCG_ST_PRIVILEGED) s.privileged = value;
    if (field.tag == MCG_ST_LANDLOCK) s.landlock = value;
  }
  return s;
}

/* As an engine that closes. */
static void spawner_stop(spawner *s)
{
  int status;
  close(s->fd);
  assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void box_text(char *out, size_t size, const mcg_field *field)
{
  size_t used = strlen(out);
  snprintf(out + used, size - used, "%.*s\n", (int)field->len, (const char *)field->bytes);
}

/* False: the spawner ended meanwhile. A failure is in box->step and why. */
static bool box_create(spawner *s, const mcg_spawn_spec *spec, box *out)
{
  uint8_t packet[4096];
  uint32_t op;
  int fds[2] = {-1, -1};
  size_t len, fd_count;
  mcg_wire body;
  *out = (box){.owner = s, .id = ++s->last_id, .pidfd = -1};
  mcg_wire_init(&body);
  mcg_spawn_spec_encode(spec, &body);
  bool sent = spawner_send(s, MCG_S_CREATE, out->id, &body);
  mcg_wire_fini(&body);
  if (!sent ||
      !spawner_answer(s, MCG_S_CREATED, out->id, &op, packet, sizeof packet, &len, fds, &fd_count))
    return false;
  mcg_reader reader = mcg_reader_of(packet + 8, len - 8);
  mcg_field field;
  while (mcg_reader_next(&reader, &field)) {
    if (field.tag == MCG_ST_ENFORCED) box_text(out->enforced, sizeof out->enforced, &field);
    if (field.tag == MCG_ST_STEP) copy_text(out->step, sizeof out->step, &field);
    if (field.tag == MCG_ST_TEXT) copy_text(out->why, sizeof out->why, &field);
  }
  if (op == MCG_S_FAILED) return true;
  assert_int_equal(fd_count, 2);
  out->pidfd = fds[1];
  out->c = calloc(1, sizeof *out->c);
  assert_non_null(out->c);
  out->c->fd = fds[0];
  out->c->carrier = (int)spec->carrier;
  return true;
}

/* HELLO; a set-up that failed in the sandbox is told in box->step and why, and its client is freed. */
static void box_hello(box *b)
{
  client *c = b->c;
  if (!c) return;
  client_send_number(c, MCG_F_HELLO, 0, 0, MCG_TAG_VERSION, MCG_PROTOCOL_VERSION);
  client_until(c, c->hello || c->ended);
  if (c->hello) return;
  snprintf(b->step, sizeof b->step, "%s", c->failed);
  close(c->fd);
  free(c);
  b->c = NULL;
}

static void box_counters(box *b, const uint8_t *packet, size_t len)
{
  mcg_reader reader = mcg_reader_of(packet + 8, len - 8);
  mcg_field field;
  while (mcg_reader_next(&reader, &field)) {
    if (field.tag == MCG_ST_MEMORY_PEAK) b->memory_peak = mcg_field_u64(&field);
    if (field.tag == MCG_ST_CPU_US) b->cpu_us = mcg_field_u64(&field);
    if (field.tag == MCG_ST_OOM_KILLS) b->oom_kills = mcg_field_u64(&field);
    if (field.tag == MCG_ST_PIDS_HITS) b->pids_hits = mcg_field_u64(&field);
  }
}

/* DESTROY or STATS. False: the spawner ended meanwhile. */
static bool box_ask(box *b, uint32_t op, uint32_t answer)
{
  uint8_t packet[4096];
  uint32_t got;
  int fds[2];
  size_t len, fd_count;
  if (!spawner_send(b->owner, op, b->id, NULL) ||
      !spawner_answer(b->owner, answer, b->id, &got, packet, sizeof packet, &len, fds, &fd_count))
    return false;
  box_counters(b, packet, len);
  return got == answer;
}

static bool box_destroy(box *b)
{
  bool gone = box_ask(b, MCG_S_DESTROY, MCG_S_GONE);
  if (b->c) {
    for (unsigned i = 0; i < b->c->job_count; i++)
      for (int k = 0; k < 3; k++) {
        if (b->c->jobs[i].fds[k] >= 0) close(b->c->jobs[i].fds[k]);
        free(b->c->jobs[i].data[k]);
      }
    close(b->c->fd);
    free(b->c);
  }
  if (b->pidfd >= 0) close(b->pidfd);
  return gone;
}

#endif
