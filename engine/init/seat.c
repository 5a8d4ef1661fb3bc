/* seat.c: both sides of a seat. */
#include "seat.h"

#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "kernel.h"

#define BODY_MAX 65536
#define FDS_MAX (4 + MCG_JAIL_MOUNTS_MAX)

/* What precedes the fields of CREATE in the one message to a seat. */
typedef struct take {
  uint32_t host_uid, host_gid, range;
  uint8_t take_uid, rootfs, project, disk; /* the last three: such a descriptor follows */
  uint64_t mounts;                         /* a bit for each mount that has one */
} take;

typedef struct answer {
  int32_t pid, error;
} answer;

/* ---- descriptors along with a message ---------------------------------------------------------- */

static ssize_t send_with(int socket, struct iovec *parts, size_t count, const int *fds, size_t fd_count)
{
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
  } control;
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
  memset(&control, 0, sizeof control);
  if (fd_count) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
  }
  ssize_t sent;
  while ((sent = sendmsg(socket, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {}
  return sent;
}

static ssize_t receive_with(int socket, struct iovec *parts, size_t count, int *fds, size_t *fd_count)
{
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
  } control;
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = count, .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  ssize_t got;
  while ((got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {}
  *fd_count = 0;
  if (got < 0) return -1;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    *fd_count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(fds, CMSG_DATA(header), *fd_count * sizeof(int));
  }
  return got;
}

/* ---- the seat's side --------------------------------------------------------------------------- */

static bool take_fds(mcg_jail_order *order, const take *head, const int *fds, size_t count)
{
  size_t at = 0;
  if (count < 1) return false;
  order->control = fds[at++];
  if (head->rootfs && at < count) order->rootfs = fds[at++];
  if (head->project && at < count) order->project = fds[at++];
  if (head->disk && at < count) order->disk = fds[at++];
  for (size_t i = 0; i < MCG_JAIL_MOUNTS_MAX; i++)
    if (head->mounts >> i & 1 && at < count) order->mounts[i] = fds[at++];
  return at == count;
}

static void seat_serve(int socket, int tied_to) __attribute__((noreturn));
static void seat_serve(int socket, int tied_to)
{
  static uint8_t body[BODY_MAX];
  take head;
  int fds[FDS_MAX], pidfd = -1;
  size_t count;
  struct iovec parts[2] = {{&head, sizeof head}, {body, sizeof body}};
  ssize_t got = receive_with(socket, parts, 2, fds, &count);
  if (got < (ssize_t)sizeof head) _exit(0); /* the spawner is gone or wants it no more */
  mcg_jail_order order;
  mcg_jail_order_init(&order);
  order.spawner_pidfd = tied_to;
  order.take_uid = head.take_uid;
  order.host_uid = head.host_uid;
  order.host_gid = head.host_gid;
  order.range = head.range;
  answer reply = {.pid = -1, .error = EINVAL};
  if (take_fds(&order, &head, fds, count) &&
      mcg_spawn_spec_decode(body, (size_t)got - sizeof head, &order.spec)) {
    reply.pid = mcg_jail_clone(&order, true, &pidfd);
    reply.error = errno;
  }
  struct iovec out = {&reply, sizeof reply};
  send_with(socket, &out, 1, &pidfd, reply.pid > 0 ? 1 : 0);
  _exit(0);
}

/* Keeps nothing of the spawner's but the two: a socket of another seat kept open here would hide that
 * seat's end from the spawner. */
static void keep_two(int a, int b)
{
  unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);
  if (low > 3) mcg_sys_close_range(3, low - 1);
  if (high > low + 1) mcg_sys_close_range(low + 1, high - 1);
  mcg_sys_close_range(high + 1, ~0u);
}

static void seat_child(int socket, int tied_to, const mcg_cgroups *groups, const mcg_cgroup *group)
    __attribute__((noreturn));
static void seat_child(int socket, int tied_to, const mcg_cgroups *groups, const mcg_cgroup *group)
{
  struct pollfd spawner = {.fd = tied_to, .events = POLLIN};
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || poll(&spawner, 1, 0) != 0) _exit(1);
  answer ready = {0};
  if (mcg_cgroup_make(groups, group) < 0 || mcg_cgroup_enter(groups, group) < 0) ready.error = errno;
  keep_two(socket, tied_to);
  struct iovec out = {&ready, sizeof ready};
  if (send_with(socket, &out, 1, NULL, 0) < 0 || ready.error) _exit(1);
  seat_serve(socket, tied_to);
}

/* ---- the spawner's side ------------------------------------------------------------------------ */

int mcg_seat_start(mcg_seat *seat, const mcg_cgroups *groups, uint64_t serial, int tied_to)
{
  int pair[2];
  *seat = (mcg_seat){.socket = -1, .pidfd = -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) return -1;
  mcg_cgroup_name(groups, serial, &seat->cgroup);
  int pidfd = -1;
  /* No exit signal: a jail cloned out of it as a sibling inherits that. */
  mcg_clone_args args = {.flags = CLONE_PIDFD, .pidfd = (uintptr_t)&pidfd};
  seat->pid = mcg_sys_clone3(&args);
  if (seat->pid == 0) seat_child(pair[1], tied_to, groups, &seat->cgroup);
  int error = errno;
  close(pair[1]);
  if (seat->pid < 0) {
    close(pair[0]);
    seat->cgroup.name[0] = 0;
    errno = error;
    return -1;
  }
  seat->socket = pair[0];
  seat->pidfd = pidfd;
  return 0;
}

static void let_go(mcg_seat *seat)
{
  close(seat->socket);
  close(seat->pidfd);
  seat->socket = seat->pidfd = -1;
}

void mcg_seat_end(mcg_seat *seat)
{
  if (seat->socket < 0) return;
  mcg_sys_pidfd_kill(seat->pidfd, SIGKILL);
  while (waitpid(seat->pid, NULL, __WALL) < 0 && errno == EINTR) {}
  let_go(seat);
}

int mcg_seat_wait(mcg_seat *seat)
{
  answer ready = {.error = ECHILD};
  size_t count;
  if (seat->ready) return 0;
  struct iovec in = {&ready, sizeof ready};
  ssize_t got = receive_with(seat->socket, &in, 1, NULL, &count);
  if (got == (ssize_t)sizeof ready && ready.error == 0) {
    seat->ready = true;
    return 0;
  }
  mcg_seat_end(seat);
  errno = ready.error;
  return -1;
}

static size_t put_fds(const mcg_jail_order *order, take *head, int fds[FDS_MAX])
{
  size_t count = 0;
  fds[count++] = order->control;
  head->rootfs = order->rootfs >= 0;
  if (head->rootfs) fds[count++] = order->rootfs;
  head->project = order->project >= 0;
  if (head->project) fds[count++] = order->project;
  head->disk = order->disk >= 0;
  if (head->disk) fds[count++] = order->disk;
  for (size_t i = 0; i < MCG_JAIL_MOUNTS_MAX; i++) {
    if (order->mounts[i] < 0) continue;
    head->mounts |= (uint64_t)1 << i;
    fds[count++] = order->mounts[i];
  }
  return count;
}

pid_t mcg_seat_clone(mcg_seat *seat, const mcg_jail_order *order, const void *body, size_t len,
                     int *pidfd)
{
  int fds[FDS_MAX];
  take head = {.host_uid = order->host_uid, .host_gid = order->host_gid, .range = order->range,
               .take_uid = order->take_uid};
  size_t count = put_fds(order, &head, fds);
  struct iovec parts[2] = {{&head, sizeof head}, {(void *)body, len}};
  answer reply = {.pid = -1, .error = ECHILD};
  struct iovec in = {&reply, sizeof reply};
  if (send_with(seat->socket, parts, 2, fds, count) < 0) {
    reply.error = errno;
  } else if (receive_with(seat->socket, &in, 1, fds, &count) != (ssize_t)sizeof reply ||
             (reply.pid > 0 && count != 1)) {
    reply = (answer){.pid = -1, .error = ECHILD};
  }
  if (reply.pid > 0) {
    *pidfd = fds[0];
    let_go(seat); /* it leaves by itself; the caller waits for it when there is time */
  } else {
    mcg_seat_end(seat);
  }
  errno = reply.error;
  return reply.pid;
}
