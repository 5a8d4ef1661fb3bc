/* probe_kernel.c: attempts on the kernel's surface: every system call that a sandbox has no use for.
 * Arguments are chosen so that even a privileged caller does no harm: the kernel refuses them after
 * it has looked at them, with another errno than a filter's. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct call {
  const char *name;
  long number;
  unsigned long a[6];
} call;

#define BAD ((unsigned long)-1)
static const char no_path[] = "/nonexistent/sbx";
#define PATH_ ((unsigned long)no_path)

static const call dangerous[] = {
    {"io_uring_setup", 425, {0, 0}},
    {"io_uring_enter", 426, {BAD, 0, 0, 0, 0, 0}},
    {"io_uring_register", 427, {BAD, 0, 0, 0}},
    {"bpf", 321, {5, 0, 0}},
    {"bpf map", 321, {0, 0, 0}},
    {"perf_event_open", 298, {0, 0, BAD, BAD, 0}},
    {"userfaultfd", 323, {BAD}},
    {"kexec_load", 246, {0, 0, 0, BAD}},
    {"kexec_file_load", 320, {BAD, BAD, 0, 0, BAD}},
    {"init_module", 175, {0, 0, 0}},
    {"finit_module", 313, {BAD, 0, 0}},
    {"delete_module", 176, {PATH_, 0}},
    {"reboot", 169, {0, 0, 0, 0}},
    {"swapon", 167, {PATH_, 0}},
    {"swapoff", 168, {PATH_}},
    {"acct", 163, {PATH_}},
    {"quotactl", 179, {0x800007u << 8, PATH_, 0, 0}},
    {"quotactl_fd", 443, {BAD, 0x800007u << 8, 0, 0}},
    {"syslog", 103, {10, 0, 0}},
    {"ptrace", 101, {BAD, BAD, 0, 0}},
    {"ptrace traceme", 101, {0, 0, 0, 0}},
    {"process_vm_readv", 310, {BAD, 0, 0, 0, 0, 0}},
    {"process_vm_writev", 311, {BAD, 0, 0, 0, 0, 0}},
    {"process_madvise", 440, {BAD, 0, 0, 0, 0}},
    {"process_mrelease", 448, {BAD, 0}},
    {"pidfd_getfd", 438, {BAD, 0, 0}},
    {"kcmp", 312, {BAD, BAD, 0, 0, 0}},
    {"name_to_handle_at", 303, {BAD, PATH_, 0, 0, 0}},
    {"open_by_handle_at", 304, {BAD, 0, 0}},
    {"mount", 165, {PATH_, PATH_, PATH_, 0, 0}},
    {"umount2", 166, {PATH_, 0}},
    {"pivot_root", 155, {PATH_, PATH_}},
    {"chroot", 161, {PATH_}},
    {"unshare", 272, {0}},
    {"setns", 308, {BAD, 0}},
    {"fsopen", 430, {PATH_, 0}},
    {"fsconfig", 431, {BAD, 0, 0, 0, 0}},
    {"fsmount", 432, {BAD, 0, 0}},
    {"fspick", 433, {BAD, PATH_, 0}},
    {"open_tree", 428, {BAD, PATH_, 0}},
    {"open_tree clone", 428, {BAD, (unsigned long)"/tmp", 1}},
    {"move_mount", 429, {BAD, PATH_, BAD, PATH_, 0}},
    {"mount_setattr", 442, {BAD, PATH_, 0, 0, 0}},
    {"open_tree_attr", 467, {BAD, PATH_, 0, 0, 0}},
    {"statmount", 457, {0, 0, 0, 0}},
    {"listmount", 458, {0, 0, 0, 0}},
    {"fanotify_init", 300, {BAD, 0}},
    {"lookup_dcookie", 212, {0, 0, 0}},
    {"vhangup", 153, {0}},
    {"personality", 135, {0x0400000 | 0x0040000}},
    {"modify_ldt", 154, {1, 0, 0}},
    {"iopl", 172, {BAD}},
    {"ioperm", 173, {BAD, BAD, 1}},
    {"settimeofday", 164, {0, 1}},
    {"clock_settime", 227, {0, 0}},
    {"clock_adjtime", 305, {0, 0}},
    {"adjtimex", 159, {0}},
    {"sethostname", 170, {0, BAD}},
    {"setdomainname", 171, {0, BAD}},
    {"keyctl", 250, {BAD, 0, 0, 0, 0}},
    {"add_key", 248, {0, 0, 0, 0, 0}},
    {"request_key", 249, {0, 0, 0, 0}},
    {"memfd_secret", 447, {BAD}},
    {"migrate_pages", 256, {BAD, 0, 0, 0}},
    {"move_pages", 279, {BAD, 0, 0, 0, 0, 0}},
    {"set_mempolicy_home_node", 450, {0, 0, BAD, BAD}},
    {"nfsservctl", 180, {0, 0, 0}},
    {"uselib", 134, {PATH_}},
    {"_sysctl", 156, {0}},
    {"create_module", 174, {0}},
    {"ustat", 136, {0, 0}},
    {"sysfs", 139, {BAD, 0, 0}},
    {"lsm_set_self_attr", 460, {0, 0, 0, 0}},
    {"file_setattr", 469, {BAD, PATH_, 0, 0, 0}},
    {"map_shadow_stack", 453, {0, BAD, BAD}},
    {"cachestat", 451, {BAD, 0, 0, BAD}},
};

static long make_call(void *data)
{
  const call *c = data;
  setsid(); /* vhangup, where it works, finds no terminal */
  long result = syscall(c->number, c->a[0], c->a[1], c->a[2], c->a[3], c->a[4], c->a[5]);
  if (result >= 0xfffff001l && result <= 0xffffffffl) { /* modify_ldt: an int, not widened */
    errno = (int)(0x100000000l - result);
    return -1;
  }
  return result;
}

/* A table, every row said. With names, those only. */
static int run_syscalls(int argc, char **argv)
{
  for (size_t i = 0; i < sizeof dangerous / sizeof *dangerous; i++) {
    bool wanted = argc == 0;
    for (int k = 0; k < argc; k++) wanted = wanted || strcmp(argv[k], dangerous[i].name) == 0;
    if (wanted) judge_in_child(dangerous[i].name, make_call, (void *)&dangerous[i]);
  }
  return 0;
}

/* Numbers that no kernel has yet: programs must see ENOSYS and fall back. */
static int run_unknown(int argc, char **argv)
{
  (void)argc, (void)argv;
  /* Not 335 and 336: the kernel answers uretprobe and uprobe before any filter, with SIGILL. */
  static const long numbers[] = {350, 423, 480, 511, 600, 1000, 4096, 0x3fffffff};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    call c = {.number = numbers[i]};
    char what[32];
    snprintf(what, sizeof what, "number %ld", numbers[i]);
    judge_in_child(what, make_call, &c);
  }
  return 0;
}

static long try_int80(void *data)
{
  long result = *(int *)data;
#if defined(__x86_64__)
  __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
  if ((int)result < 0) return errno = -(int)result, -1;
  return (int)result;
#else
  return (void)result, errno = ENOSYS, -1;
#endif
}

static long try_x32(void *data)
{
  return syscall(*(long *)data | 0x40000000);
}

/* The other two doors into the kernel of an x86-64 process. */
static int run_abi(int argc, char **argv)
{
  (void)argc, (void)argv;
  int getppid32 = 64, mount32 = 21, unshare32 = 310;
  judge_in_child("int 0x80 getppid", try_int80, &getppid32);
  judge_in_child("int 0x80 mount", try_int80, &mount32);
  judge_in_child("int 0x80 unshare", try_int80, &unshare32);
  long getpid64 = SYS_getpid, unshare64 = SYS_unshare;
  judge_in_child("x32 getpid", try_x32, &getpid64);
  judge_in_child("x32 unshare", try_x32, &unshare64);
  return 0;
}

/* ---- sockets --------------------------------------------------------------------------------- */

static int run_families(int argc, char **argv)
{
  (void)argc, (void)argv;
  for (int family = 0; family <= 46; family++) {
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};
    long got = -1;
    int why = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types && got < 0; i++) {
      got = socket(family, types[i] | SOCK_CLOEXEC, 0);
      /* The most telling refusal is the one that is not about the type. */
      if (got < 0 && (why == 0 || why == ESOCKTNOSUPPORT || why == EPROTONOSUPPORT)) why = errno;
    }
    char what[24];
    snprintf(what, sizeof what, "family %d", family);
    errno = why;
    judge(what, got);
    if (got >= 0) close((int)got);
  }
  return 0;
}

static int run_protocols(int argc, char **argv)
{
  (void)argc, (void)argv;
  static const struct {
    const char *name;
    long family, type, protocol;
  } sockets[] = {
      {"mptcp", AF_INET, SOCK_STREAM, 262},
      {"mptcp 6", AF_INET6, SOCK_STREAM, 262},
      {"sctp", AF_INET, SOCK_STREAM, 132},
      {"sctp seqpacket", AF_INET, SOCK_SEQPACKET, 132},
      {"udplite", AF_INET, SOCK_DGRAM, 136},
      {"dccp", AF_INET, 6, 33},
      {"raw icmp", AF_INET, SOCK_RAW, 1},
      {"raw tcp", AF_INET, SOCK_RAW, 6},
      {"raw 6", AF_INET6, SOCK_RAW, 58},
      {"packet", 17, SOCK_RAW, 0x300},
      {"vsock", 40, SOCK_STREAM, 0},
      {"alg", 38, SOCK_SEQPACKET, 0},
      {"netlink netfilter", 16, SOCK_RAW, 12},
      {"netlink audit", 16, SOCK_RAW, 9},
      {"netlink crypto", 16, SOCK_RAW, 21},
      {"netlink uevent", 16, SOCK_DGRAM, 15},
      {"xdp", 44, SOCK_RAW, 0},
      {"mptcp high bits", AF_INET, SOCK_STREAM, 262 | (1l << 32)},
      {"packet high bits", 17 | (1l << 32), SOCK_RAW, 0},
  };
  for (size_t i = 0; i < sizeof sockets / sizeof *sockets; i++) {
    long fd = syscall(SYS_socket, sockets[i].family, sockets[i].type, sockets[i].protocol);
    judge(sockets[i].name, fd);
    if (fd >= 0) close((int)fd);
  }
  return 0;
}

static int run_socketpairs(int argc, char **argv)
{
  (void)argc, (void)argv;
  int pair[2];
  judge("unix", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  judge("tipc", socketpair(30, SOCK_STREAM, 0, pair));
  judge("inet", socketpair(AF_INET, SOCK_STREAM, 0, pair));
  return 0;
}

/* PORT on 127.0.0.1 and on the first other address given: bytes without connect(2). */
static int run_reach(int argc, char **argv)
{
  if (argc != 1) return 2;
  struct sockaddr_in to = {.sin_family = AF_INET,
                           .sin_port = htons((unsigned short)number_of(argv[0])),
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  judge("connect", connect(fd, (struct sockaddr *)&to, sizeof to));
  close(fd);
  fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  judge("fast open", sendto(fd, "sbx", 3, MSG_FASTOPEN, (struct sockaddr *)&to, sizeof to));
  close(fd);
  fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  judge("datagram", sendto(fd, "sbx", 3, 0, (struct sockaddr *)&to, sizeof to));
  close(fd);
  return 0;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static int run_time(int argc, char **argv)
{
  (void)argc, (void)argv;
  struct timespec wrong = {.tv_nsec = -1};
  judge("clock_settime", syscall(SYS_clock_settime, 0, &wrong));
  struct {
    unsigned modes;
    char rest[252];
  } nothing = {0};
  judge("adjtimex", syscall(SYS_adjtimex, &nothing));
  judge("sethostname", syscall(SYS_sethostname, "sbx-evil", 8));
  judge("setdomainname", syscall(SYS_setdomainname, "sbx-evil", 8));
  return 0;
}

static int run_devices(int argc, char **argv)
{
  (void)argc, (void)argv;
  static const char *const nodes[] = {"/dev/fuse",
                                      "/dev/kvm",
                                      "/dev/mem",
                                      "/dev/kmsg",
                                      "/dev/net/tun",
                                      "/dev/vhost-net",
                                      "/dev/vsock",
                                      "/dev/vda",
                                      "/dev/sda",
                                      "/dev/loop0",
                                      "/dev/loop-control",
                                      "/dev/console",
                                      "/dev/tty0",
                                      "/dev/vcs",
                                      "/dev/btrfs-control",
                                      "/dev/userfaultfd",
                                      "/dev/cpu_dma_latency",
                                      "/dev/dri/card0",
                                      "/dev/autofs",
                                      "/dev/port",
                                      "/dev/hwrng",
                                      "/dev/zram0"};
  for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
    int fd = open(nodes[i], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    judge(nodes[i], fd);
    if (fd >= 0) close(fd);
  }
  return 0;
}

static long try_mknod_block(void *data)
{
  return mknod(data, S_IFBLK | 0600, 0x800);
}
static long try_mknod_char(void *data)
{
  return mknod(data, S_IFCHR | 0600, 0x101);
}

static int run_mknod(int argc, char **argv)
{
  if (argc != 1) return 2;
  judge_in_child("mknod block 8:0", try_mknod_block, argv[0]);
  unlink(argv[0]);
  judge_in_child("mknod char 1:1", try_mknod_char, argv[0]);
  unlink(argv[0]);
  return 0;
}

static long try_cgroup1(void *data)
{
  return syscall(SYS_mount, "x", data, "cgroup", 0, "memory");
}
static long try_cgroup2(void *data)
{
  return syscall(SYS_mount, "x", data, "cgroup2", 0, NULL);
}

static int run_cgroup(int argc, char **argv)
{
  if (argc != 1) return 2; /* an empty directory */
  judge_in_child("mount cgroup", try_cgroup1, argv[0]);
  judge_in_child("mount cgroup2", try_cgroup2, argv[0]);
  static const char *const files[] = {
      "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs",
      "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/memory/release_agent"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    int fd = open(files[i], O_WRONLY | O_CLOEXEC);
    judge(files[i], fd);
    if (fd >= 0) close(fd);
  }
  return 0;
}

const attempt attempts_kernel[] = {
    {"syscalls", "[NAME...]", run_syscalls},
    {"unknown", "", run_unknown},
    {"abi", "", run_abi},
    {"families", "", run_families},
    {"protocols", "", run_protocols},
    {"socketpairs", "", run_socketpairs},
    {"reach", "PORT", run_reach},
    {"time", "", run_time},
    {"devices", "", run_devices},
    {"mknod", "PATH", run_mknod},
    {"cgroup", "DIR", run_cgroup},
    {NULL, NULL, NULL},
};
