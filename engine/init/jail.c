/* jail.c: the clone, and the order of the child's steps. */
#include "jail.h"

#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "server.h"
#include "kernel.h"

#define LINGER_MS 2000
#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

void mcg_jail_order_init(mcg_jail_order *order)
{
  *order = (mcg_jail_order){.control = -1,
                            .spawner_pidfd = -1,
                            .cgroup = -1,
                            .idmap = {.fd = -1},
                            .proc = -1,
                            .range = 1,
                            .rootfs = -1,
                            .project = -1,
                            .original = -1,
                            .disk = -1};
  mcg_net_init(&order->net);
  order->go[0] = order->go[1] = -1;
  for (size_t i = 0; i < MCG_CONTROLLERS; i++) order->doors[i] = -1;
  for (size_t i = 0; i < MCG_JAIL_MOUNTS_MAX; i++) order->mounts[i] = -1;
}

static void close_fd(int *fd)
{
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

void mcg_jail_order_fini(mcg_jail_order *order)
{
  close_fd(&order->control);
  close_fd(&order->cgroup);
  mcg_net_close(&order->net);
  mcg_idmap_close(&order->idmap);
  for (size_t i = 0; i < MCG_CONTROLLERS; i++) close_fd(&order->doors[i]);
  close_fd(&order->go[0]);
  close_fd(&order->go[1]);
  close_fd(&order->rootfs);
  close_fd(&order->project);
  close_fd(&order->original);
  close_fd(&order->disk);
  for (size_t i = 0; i < MCG_JAIL_MOUNTS_MAX; i++) close_fd(&order->mounts[i]);
  mcg_spawn_spec_fini(&order->spec);
}

int mcg_jail_fail(mcg_jail *jail, const char *step, int number, const char *format, ...)
{
  if (jail->step) return -1;
  jail->step = step;
  jail->error = number;
  va_list list;
  va_start(list, format);
  vsnprintf(jail->why, sizeof jail->why, format, list);
  va_end(list);
  return -1;
}

/* A socket that closes over an unread HELLO resets the connection, and FAILED may be lost with it. */
void mcg_tell_failed(int fd, uint32_t carrier, const char *step, int number, const char *text)
{
  char unread[512];
  struct pollfd peer = {.fd = fd, .events = POLLIN};
  mcg_send_failed(fd, (int)carrier, step, number, text);
  shutdown(fd, SHUT_WR);
  while (poll(&peer, 1, LINGER_MS) > 0 && recv(fd, unread, sizeof unread, 0) > 0) {
  }
}

void mcg_jail_note(mcg_jail *jail, const char *format, ...)
{
  size_t room = sizeof jail->text - jail->text_len;
  if (jail->mechanism_count == MCG_JAIL_MECHANISMS || room < 2) return;
  char *at = jail->text + jail->text_len;
  va_list list;
  va_start(list, format);
  int len = vsnprintf(at, room, format, list);
  va_end(list);
  if (len < 0 || (size_t)len >= room) return;
  jail->mechanisms[jail->mechanism_count++] = at;
  jail->text_len += (unsigned)len + 1;
}

/* ---- the child ------------------------------------------------------------------------------ */

/* The spawner may have died before the death signal was armed. */
static int tie_to_spawner(mcg_jail *jail)
{
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
    return mcg_jail_fail(jail, "spawner", errno, "cannot be tied to the spawner's life");
  struct pollfd spawner = {.fd = jail->order->spawner_pidfd, .events = POLLIN};
  if (spawner.fd >= 0 && poll(&spawner, 1, 0) != 0) _exit(1);
  return 0;
}

static int standard_streams(mcg_jail *jail)
{
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return mcg_jail_fail(jail, "mounts", errno, "open /dev/null in the sandbox");
  for (int fd = 0; fd < 3; fd++)
    if (dup2(null, fd) < 0) return mcg_jail_fail(jail, "mounts", errno, "standard streams");
  return 0; /* null itself goes with close_range */
}

/* First out of the way of the numbers that they get. */
static int move_sockets(mcg_jail *jail)
{
  int *sockets = jail->gateway.sockets, next = 4;
  for (int i = 0; i < MCG_SOCKETS; i++)
    if (sockets[i] >= 0 && (sockets[i] = fcntl(sockets[i], F_DUPFD_CLOEXEC, 4 + MCG_SOCKETS)) < 0)
      return -1;
  for (int i = 0; i < MCG_SOCKETS; i++)
    if (sockets[i] >= 0 && (sockets[i] = dup3(sockets[i], next++, O_CLOEXEC)) < 0) return -1;
  return next;
}

/* Only the control socket stays, as descriptor 3, and until HELLO those of the gateway behind it. */
static int close_the_rest(mcg_jail *jail)
{
  if (jail->control != 3 && dup3(jail->control, 3, O_CLOEXEC) < 0)
    return mcg_jail_fail(jail, "caps", errno, "move the control socket");
  jail->control = 3;
  int next = move_sockets(jail);
  if (next < 0) return mcg_jail_fail(jail, "caps", errno, "move the gateway's sockets");
  if (mcg_sys_close_range((unsigned)next, ~0u) < 0)
    return mcg_jail_fail(jail, "caps", errno, "close_range: Linux 5.9 or newer is needed");
  return 0;
}

static int confine(mcg_jail *jail)
{
  if (mcg_jail_rlimits(jail) < 0 || mcg_jail_caps(jail) < 0 || mcg_jail_landlock(jail) < 0)
    return -1;
  return close_the_rest(jail) < 0 ? -1 : mcg_jail_seccomp(jail);
}

/* Into its groups first, so that all that follows is counted and limited; then the namespace whose
 * root they are. The spawner's right to move processes is in the descriptors. */
static int enter_groups(mcg_jail *jail)
{
  for (size_t i = 0; i < MCG_CONTROLLERS; i++)
    if (jail->order->doors[i] >= 0 && write(jail->order->doors[i], "0", 1) != 1)
      return mcg_jail_fail(jail, "cgroup", errno, "enter a control group");
  if (jail->order->cgroup >= 0) return 0; /* born in both */
  if (unshare(CLONE_NEWCGROUP) < 0)
    return mcg_jail_fail(jail, "userns", errno, "make the cgroup namespace");
  return 0;
}

static int build(mcg_jail *jail)
{
  umask(0); /* every mode is written out; init sets the commands' */
  if (enter_groups(jail) < 0 || mcg_jail_maps(jail) < 0) return -1;
  if (tie_to_spawner(jail) < 0) return -1; /* after the ids: a change of ids clears the signal */
  mcg_jail_note(jail, "pid_namespace=on");
  if (setsid() < 0 && errno != EPERM) return mcg_jail_fail(jail, "userns", errno, "setsid");
  if (mcg_jail_net(jail) < 0 || mcg_jail_mounts(jail) < 0) return -1;
  if (standard_streams(jail) < 0) return -1;
  return confine(jail);
}

static void serve(mcg_jail *jail, int control) __attribute__((noreturn));
static void serve(mcg_jail *jail, int control)
{
  static const char *const env[] = {
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/home/sandbox",
      "USER=sandbox", "LANG=C.UTF-8", NULL};
  mcg_server_config config = {
      .fd = control,
      .carrier = (int)jail->spec->carrier,
      .workdir = jail->workdir,
      .env = env,
      .mechanisms = jail->mechanisms,
      .sockets = jail->gateway.sockets,
      .range_map = jail->order->range > 1,
      .nofile = jail->spec->nofile,
      .is_pid1 = 1,
      .oom_adjust = 500,
  };
  _exit(mcg_server_main(&config));
}

static void child(const mcg_jail_order *order) __attribute__((noreturn));
static void child(const mcg_jail_order *order)
{
  static mcg_jail jail; /* its text lives as long as init */
  jail = (mcg_jail){
      .order = order, .spec = &order->spec, .control = order->control, .root = -1, .fresh = "r"};
  jail.workdir = order->spec.workdir ? order->spec.workdir : "/workspace";
  bool range = order->range > 1; /* root of its range; `user=` makes a command somebody else */
  jail.uid = range ? 0 : order->spec.uid ? order->spec.uid : 1000;
  jail.gid = range ? 0 : order->spec.gid ? order->spec.gid : 1000;
  jail.foreign = order->spec.rootfs != NULL;
  mcg_gateway_init(&jail.gateway);
  if (jail.foreign) jail.fresh = "x";
  if (order->standing) jail.fresh = "";
  if (build(&jail) < 0) {
    mcg_tell_failed(jail.control, order->spec.carrier, jail.step, jail.error, jail.why);
    _exit(1);
  }
  serve(&jail, jail.control);
}

/* ---- the clone ------------------------------------------------------------------------------ */

/* The new user namespace belongs to whoever is effective at the clone: a bug in the kernel's
 * namespaces then lands on an unprivileged uid. Capabilities stay (SECBIT_NO_SETUID_FIXUP). */
static int become(const mcg_jail_order *order, bool back)
{
  if (!order->take_uid) return 0;
  uid_t uid = back ? 0 : order->host_uid;
  gid_t gid = back ? 0 : order->host_gid;
  if (syscall(SYS_setresgid, -1, gid, -1) < 0) return -1;
  return (int)syscall(SYS_setresuid, -1, uid, -1);
}

pid_t mcg_jail_clone(const mcg_jail_order *order, int *pidfd)
{
  int fd = -1;
  mcg_clone_args args = {.flags = NAMESPACES | CLONE_PIDFD, .pidfd = (uintptr_t)&fd};
  if (order->spec.network != MCG_NET_HOST && order->net.fd < 0) args.flags |= CLONE_NEWNET;
  if (order->cgroup >= 0) {
    args.flags |= MCG_CLONE_INTO_CGROUP | CLONE_NEWCGROUP;
    args.cgroup = (uint64_t)order->cgroup;
  }
  if (become(order, false) < 0) return -1;
  pid_t pid = mcg_sys_clone3(&args);
  if (pid == 0) child(order);
  int error = errno;
  if (become(order, true) < 0) _exit(1); /* a spawner that is not itself any more must not go on */
  errno = error;
  if (pid > 0) *pidfd = fd;
  return pid;
}

/* A child with nothing of its own, which leaves at once: can it be had? */
static bool can_clone(uint64_t flags, int group)
{
  mcg_clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
  if (flags & MCG_CLONE_INTO_CGROUP) args.cgroup = (uint64_t)group;
  siginfo_t info;
  pid_t pid = mcg_sys_clone3(&args);
  if (pid == 0) _exit(0);
  while (pid > 0 && syscall(SYS_waitid, P_PID, pid, &info, WEXITED | __WALL, NULL) < 0 &&
         errno == EINTR)
    ;
  return pid > 0;
}

bool mcg_jail_group_refuses(const mcg_jail_order *order)
{
  if (order->cgroup < 0 || become(order, false) < 0) return false;
  bool refuses = can_clone(0, -1) && !can_clone(MCG_CLONE_INTO_CGROUP, order->cgroup);
  if (become(order, true) < 0) _exit(1);
  return refuses;
}
