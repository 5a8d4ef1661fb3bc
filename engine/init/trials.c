/* trials.c: what is tried. Each trial runs in a process of its own, so it changes that as it likes. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <linux/capability.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "box.h"
#include "cgroup.h"
#include "disk.h"
#include "gateway.h"
#include "idmap.h"
#include "jail.h"
#include "kernel.h"
#include "net.h"
#include "probe.h"
#include "range.h"
#include "seccomp_filters.h"

#define FAIL(what) mcg_trial_failed(detail, what)

static int off(char *detail, const char *why)
{
  snprintf(detail, MCG_PROBE_DETAIL, "%s", why);
  return MCG_PROBE_OFF;
}

static int fine(char *detail, const char *what)
{
  snprintf(detail, MCG_PROBE_DETAIL, "%s", what);
  return 0;
}

static int put(const char *path, const char *text)
{
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t len = write(fd, text, strlen(text));
  int error = errno;
  close(fd);
  errno = error;
  return len < 0 ? -1 : 0;
}

/* Waits for a child that says by its exit status how it went. */
static int ended(pid_t pid)
{
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : EPROTO;
}

/* ---- processes ------------------------------------------------------------------------------ */

static int try_clone3(char *detail)
{
  int pidfd = -1;
  mcg_clone_args args = {.flags = CLONE_PIDFD, .pidfd = (uintptr_t)&pidfd, .exit_signal = SIGCHLD};
  int pid = mcg_sys_clone3(&args);
  if (pid < 0) return FAIL("clone3 with a pidfd");
  if (pid == 0) _exit(0);
  return ended(pid) == 0 && pidfd >= 0 ? fine(detail, "with a pidfd") : FAIL("clone3");
}

static int try_pidfd(char *detail)
{
  siginfo_t info = {0};
  pid_t pid = fork();
  if (pid == 0)
    for (;;) pause();
  int fd = pid < 0 ? -1 : mcg_sys_pidfd_open(pid);
  int error = fd < 0 ? FAIL("pidfd_open") : 0;
  if (!error && mcg_sys_pidfd_kill(fd, SIGKILL) < 0) error = FAIL("pidfd_send_signal");
  if (error && pid > 0) kill(pid, SIGKILL);
  if (!error && waitid((idtype_t)P_PIDFD, (id_t)fd, &info, WEXITED) < 0)
    error = FAIL("wait by a pidfd");
  return error ? error : fine(detail, "opened, signalled, waited for");
}

static int try_close_range(char *detail)
{
  int fd = fcntl(0, F_DUPFD, 100);
  if (fd < 0) fd = open("/", O_PATH);
  if (mcg_sys_close_range((unsigned)fd, (unsigned)fd) < 0) return FAIL("close_range");
  return fcntl(fd, F_GETFD) < 0 ? fine(detail, "closes what it is told") : EPROTO;
}

static int try_openat2(char *detail)
{
  int root = open("/usr", O_PATH | O_DIRECTORY | O_CLOEXEC);
  int inside = mcg_sys_openat2(root, ".", O_PATH, MCG_RESOLVE_BENEATH);
  if (inside < 0) return FAIL("openat2");
  if (mcg_sys_openat2(root, "../etc", O_PATH, MCG_RESOLVE_BENEATH) >= 0) {
    errno = EPROTO;
    return FAIL("a path came out of its directory");
  }
  return fine(detail, "paths stay beneath their directory");
}

/* ---- namespaces ----------------------------------------------------------------------------- */

static int map_self(uid_t uid, gid_t gid)
{
  char uids[40], gids[40];
  snprintf(uids, sizeof uids, "0 %u 1\n", (unsigned)uid);
  snprintf(gids, sizeof gids, "0 %u 1\n", (unsigned)gid);
  if (put("/proc/self/setgroups", "deny") < 0 && errno != ENOENT) return -1;
  return put("/proc/self/uid_map", uids) < 0 ? -1 : put("/proc/self/gid_map", gids);
}

/* Root of a user namespace of its own, as a sandbox is made. */
static int enter_user(char *detail)
{
  uid_t uid = geteuid();
  gid_t gid = getegid();
  if (unshare(CLONE_NEWUSER) < 0) return FAIL("make a user namespace");
  return map_self(uid, gid) < 0 ? FAIL("map a uid in it") : 0;
}

static int try_user(char *detail)
{
  int error = enter_user(detail);
  return error ? error : fine(detail, "made, with a uid in it");
}

static int enter(char *detail, int flag, const char *what)
{
  int error = enter_user(detail);
  if (error) return error;
  return unshare(flag) < 0 ? FAIL(what) : 0;
}

/* A mount namespace whose /usr is an empty tmpfs, which is the working directory. */
static int enter_mount(char *detail)
{
  int error = enter(detail, CLONE_NEWNS, "make a mount namespace");
  if (error) return error;
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) return FAIL("make / private");
  if (mount("probe", "/usr", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") < 0)
    return FAIL("mount a tmpfs");
  return chdir("/usr") < 0 ? FAIL("enter it") : 0;
}

static int try_mount(char *detail)
{
  int error = enter_mount(detail);
  if (error) return error;
  if (syscall(SYS_pivot_root, ".", ".") < 0) return FAIL("pivot_root");
  if (umount2(".", MNT_DETACH) < 0) return FAIL("leave the old root");
  return access("/etc", F_OK) < 0 ? fine(detail, "made, and pivoted into") : EPROTO;
}

static int in_new_pid_namespace(void)
{
  if (getpid() != 1) return EPROTO;
  return mount("proc", ".", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=invisible") < 0
             ? errno
             : 0;
}

static int try_pid(char *detail)
{
  int error = enter(detail, CLONE_NEWPID, "make a pid namespace");
  if (error) return error;
  pid_t pid = fork();
  if (pid == 0) _exit(getpid() == 1 ? 0 : EPROTO);
  errno = pid < 0 ? errno : ended(pid);
  return errno ? FAIL("a first process in it") : fine(detail, "made");
}

static int try_proc(char *detail)
{
  int error = enter_mount(detail);
  if (error) return error;
  if (unshare(CLONE_NEWPID) < 0) return FAIL("make a pid namespace");
  pid_t pid = fork();
  if (pid == 0) _exit(in_new_pid_namespace());
  errno = pid < 0 ? errno : ended(pid);
  return errno ? FAIL("mount a whole /proc") : fine(detail, "mounted whole, with hidepid");
}

static int try_ipc(char *detail)
{
  int error = enter(detail, CLONE_NEWIPC, "make an IPC namespace");
  return error ? error : fine(detail, "made");
}

static int try_uts(char *detail)
{
  int error = enter(detail, CLONE_NEWUTS, "make a UTS namespace");
  if (error) return error;
  return sethostname("probe", 5) < 0 ? FAIL("set its host name") : fine(detail, "made");
}

static int try_cgroup_namespace(char *detail)
{
  int error = enter(detail, CLONE_NEWCGROUP, "make a cgroup namespace");
  return error ? error : fine(detail, "made");
}

static int enter_net(char *detail)
{
  int error = enter(detail, CLONE_NEWNET, "make a network namespace");
  if (error) return error;
  return mcg_net_loopback() < 0 ? FAIL("bring up loopback in it") : 0;
}

static int try_net(char *detail)
{
  int error = enter_net(detail);
  return error ? error : fine(detail, "made, with loopback up");
}

static int try_packet(char *detail)
{
  int error = enter_net(detail);
  if (error) return error;
  int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) return FAIL("a packet socket");
  struct sockaddr_ll where = {.sll_family = AF_PACKET,
                              .sll_protocol = (unsigned short)(ETH_P_ALL >> 8 | ETH_P_ALL << 8),
                              .sll_ifindex = (int)if_nametoindex("lo")};
  if (bind(fd, (struct sockaddr *)&where, sizeof where) < 0) return FAIL("bind it to loopback");
  return fine(detail, "sees loopback of a sandbox");
}

static int make_gateway(char *detail, bool redirect)
{
  mcg_gateway gateway;
  int error = enter_net(detail);
  if (error) return error;
  mcg_gateway_init(&gateway);
  if (mcg_gateway_make(&gateway, redirect) == 0) return 0;
  return FAIL(gateway.failed ? gateway.failed : "make the sockets of a gateway");
}

static int try_gateway(char *detail)
{
  int error = make_gateway(detail, false);
  return error ? error : fine(detail, "every address is local to a sandbox, its sockets made");
}

static int try_redirect(char *detail)
{
  int error = make_gateway(detail, true);
  return error ? error : fine(detail, "connections to any port are redirected");
}

/* ---- mounts --------------------------------------------------------------------------------- */

static int try_mount_api(char *detail)
{
  mcg_mount_attr attr = {.set = MCG_ATTR_RDONLY};
  int error = enter_mount(detail);
  if (error) return error;
  int tmpfs = mcg_disk_tmpfs(1 << 20, 0, 0);
  if (tmpfs < 0) return FAIL("fsopen, fsconfig, fsmount");
  if (mkdir("a", 0755) < 0) return FAIL("make a directory");
  int to = open("a", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (mcg_sys_move_mount(tmpfs, to) < 0) return FAIL("move_mount");
  int tree = mcg_sys_open_tree(AT_FDCWD, "a", MCG_OPEN_TREE_CLONE | MCG_AT_RECURSIVE);
  if (tree < 0) return FAIL("open_tree");
  if (mcg_sys_mount_setattr(tree, "", AT_EMPTY_PATH | MCG_AT_RECURSIVE, &attr) < 0)
    return FAIL("mount_setattr");
  errno = 0;
  if (mkdirat(tree, "x", 0755) == 0 || errno != EROFS) return FAIL("a read-only mount");
  return fine(detail, "fsopen, open_tree, mount_setattr, move_mount");
}

static int try_overlay(char *detail)
{
  int error = enter_mount(detail);
  if (error) return error;
  if (mkdir("l", 0755) < 0 || mkdir("u", 0755) < 0 || mkdir("w", 0755) < 0 || mkdir("m", 0755) < 0)
    return FAIL("make directories");
  if (mount("overlay", "m", "overlay", 0, "lowerdir=l,upperdir=u,workdir=w,userxattr") < 0)
    return FAIL("mount an overlay");
  if (mkdir("m/x", 0755) < 0 || access("u/x", F_OK) < 0) return FAIL("write to it");
  return fine(detail, "mounted, and written to");
}

static int try_idmap(char *detail)
{
  mcg_idmap map = {.fd = -1};
  if (geteuid() != 0) return off(detail, "for root only: an ordinary user needs none");
  if (mcg_idmap_wide(&map, 0, 0, 1000, 1000) < 0) return FAIL("make an id map");
  mcg_mount_attr attr = {.set = MCG_ATTR_IDMAP, .userns_fd = (uint64_t)map.fd};
  int tree = mcg_sys_open_tree(AT_FDCWD, "/usr", MCG_OPEN_TREE_CLONE);
  if (tree < 0) return FAIL("open_tree");
  if (mcg_sys_mount_setattr(tree, "", AT_EMPTY_PATH, &attr) < 0) return FAIL("map the ids of /usr");
  struct stat st;
  if (fstat(tree, &st) < 0 || st.st_uid != 1000) {
    errno = EPROTO;
    return FAIL("the owner in the mapped mount");
  }
  return fine(detail, "ids of a mount are mapped");
}

/* ---- ids ------------------------------------------------------------------------------------ */

static int try_range(char *detail)
{
  int ready[2];
  mcg_failure failure = {0};
  if (pipe2(ready, O_CLOEXEC) < 0) return FAIL("make a pipe");
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWUSER) == 0) (void)!write(ready[1], "x", 1);
    close(ready[1]);
    for (;;) pause();
  }
  close(ready[1]);
  char byte;
  int rc = pid > 0 && read(ready[0], &byte, 1) == 1 ? 0 : FAIL("make a user namespace");
  if (rc == 0 && mcg_range_give(pid, geteuid(), getegid(), &failure) < 0) {
    rc = failure.error ? failure.error : EPROTO;
    snprintf(detail, MCG_PROBE_DETAIL, "%.*s", MCG_PROBE_DETAIL - 1, failure.text);
  }
  if (pid > 0) kill(pid, SIGKILL);
  return rc ? rc : fine(detail, geteuid() ? "by newuidmap and newgidmap" : "by root");
}

/* ---- what is given up ----------------------------------------------------------------------- */

static int try_capabilities(char *detail)
{
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[2] = {{0}};
  int error = enter_user(detail);
  if (error) return error;
  if (prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) < 0) return FAIL("drop from the bounding set");
  if (syscall(SYS_capset, &header, none) < 0) return FAIL("give capabilities up");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return FAIL("no_new_privs");
  return sethostname("probe", 5) < 0 ? fine(detail, "dropped, and no_new_privs set") : EPROTO;
}

static int try_seccomp(char *detail)
{
  struct sock_fprog program = {.len = (unsigned short)mcg_seccomp_filters[0].len,
                               .filter = (struct sock_filter *)mcg_seccomp_filters[0].code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return FAIL("no_new_privs");
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
    return FAIL("load the filter");
  if (personality(PER_LINUX32) >= 0 || errno != EPERM) {
    errno = EPROTO;
    return FAIL("the filter lets personality(PER_LINUX32) through");
  }
  snprintf(detail, MCG_PROBE_DETAIL, "the filter `%s` loads, and refuses",
           mcg_seccomp_filters[0].name);
  return 0;
}

static int try_landlock(char *detail)
{
  struct {
    uint64_t fs, net, scoped;
  } attr = {.fs = 1 << 2}; /* reading files */
  int abi = mcg_landlock_abi();
  if (abi == 0) {
    if (!errno) errno = ENOSYS;
    return FAIL("landlock_create_ruleset");
  }
  int ruleset = (int)syscall(MCG_NR_LANDLOCK_CREATE_RULESET, &attr, (size_t)8, 0);
  if (ruleset < 0) return FAIL("make a ruleset");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return FAIL("no_new_privs");
  if (syscall(MCG_NR_LANDLOCK_RESTRICT_SELF, ruleset, 0) < 0) return FAIL("restrict oneself");
  if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES) {
    errno = EPROTO;
    return FAIL("a file can be read all the same");
  }
  snprintf(detail, MCG_PROBE_DETAIL, "ABI %d, and it refuses", abi);
  return 0;
}

/* ---- cgroups -------------------------------------------------------------------------------- */

static bool is_v2(void)
{
  return access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
}

/* A group to try with, below that of this process or, for root, the top. */
static int own_group(char *path, size_t size)
{
  char own[3000];
  if (geteuid() == 0) own[0] = 0;
  if (geteuid() != 0 && !mcg_cgroup_own_path("", own, sizeof own)) return -1;
  snprintf(path, size, "/sys/fs/cgroup%s/mooncage-probe-%d", own, (int)getpid());
  return mkdir(path, 0755);
}

static int born_in(const char *path)
{
  mcg_clone_args args = {.flags = MCG_CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
  int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  args.cgroup = (uint64_t)dir;
  int pid = dir < 0 ? -1 : mcg_sys_clone3(&args);
  if (pid == 0)
    for (;;) pause();
  return pid;
}

static int try_cgroup_v2(char *detail)
{
  char path[3100], file[3200];
  if (!is_v2()) return off(detail, "this machine has cgroup v1");
  if (own_group(path, sizeof path) < 0) {
    if (geteuid() != 0 && (errno == EACCES || errno == EPERM))
      return off(detail, "the cgroup that this was started in is not this user's: one is asked of "
                         "its systemd");
    return FAIL("make a cgroup");
  }
  int error = 0, pid = born_in(path);
  if (pid < 0) error = FAIL("clone3 into a cgroup");
  snprintf(file, sizeof file, "%s/cgroup.kill", path);
  if (!error && put(file, "1") < 0) {
    error = FAIL("cgroup.kill (Linux 5.14)");
    kill(pid, SIGKILL);
  }
  if (pid > 0) ended(pid);
  rmdir(path);
  return error ? error : fine(detail, "a process is born in it, and killed with it");
}

const mcg_trial mcg_trials[] = {
    {"clone3", try_clone3},
    {"pidfd", try_pidfd},
    {"close_range", try_close_range},
    {"openat2", try_openat2},
    {"user namespace", try_user},
    {"mount namespace", try_mount},
    {"pid namespace", try_pid},
    {"ipc namespace", try_ipc},
    {"uts namespace", try_uts},
    {"cgroup namespace", try_cgroup_namespace},
    {"network namespace", try_net},
    {"proc", try_proc},
    {"mount calls", try_mount_api},
    {"capabilities", try_capabilities},
    {"seccomp", try_seccomp},
    {"landlock", try_landlock},
    {"cgroup v2", try_cgroup_v2},
    {"overlay", try_overlay},
    {"idmapped mounts", try_idmap},
    {"id range", try_range},
    {"packet sockets", try_packet},
    {"network gateway", try_gateway},
    {"nf_tables redirect", try_redirect},
    {NULL, NULL},
};
