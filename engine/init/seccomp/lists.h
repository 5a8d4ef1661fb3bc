/* lists.h: which calls a sandbox may make. Read by compile.c alone, at build time.
 *
 * The base is the list that container runtimes share, taken with no capability granted, and then
 * tightened: what reaches another process of the same uid, the kernel's rarely used doors, and what
 * gives namespaces. Docker's list is the measure for "a program may expect this to work". */
#ifndef MCG_SECCOMP_LISTS_H
#define MCG_SECCOMP_LISTS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

enum { PROFILE_DEFAULT, PROFILE_STRICT, PROFILE_PACKAGES, PROFILE_DEBUG };
static const char *const PROFILE_NAMES[] = {"default", "strict", "packages", "debug"};

typedef struct call {
  const char *name;
  int number; /* where libseccomp 2.5.4 lacks the name; the same on every architecture */
  int answer; /* errno, 0: allowed */
  bool debug; /* the debug profile allows it */
} call;

/* clang-format off: tables */
static const call ALLOWED[] = {
    /* files */
    {.name = "access"},
    {.name = "chdir"},
    {.name = "chmod"},
    {.name = "chown"},
    {.name = "close"},
    {.name = "close_range"},
    {.name = "copy_file_range"},
    {.name = "creat"},
    {.name = "dup"},
    {.name = "dup2"},
    {.name = "dup3"},
    {.name = "faccessat"},
    {.name = "faccessat2"},
    {.name = "fadvise64"},
    {.name = "fallocate"},
    {.name = "fchdir"},
    {.name = "fchmod"},
    {.name = "fchmodat"},
    {.name = "fchmodat2", .number = 452},
    {.name = "fchown"},
    {.name = "fchownat"},
    {.name = "fcntl"},
    {.name = "fdatasync"},
    {.name = "fgetxattr"},
    {.name = "flistxattr"},
    {.name = "flock"},
    {.name = "fremovexattr"},
    {.name = "fsetxattr"},
    {.name = "fstat"},
    {.name = "fstatfs"},
    {.name = "fsync"},
    {.name = "ftruncate"},
    {.name = "futimesat"},
    {.name = "getcwd"},
    {.name = "getdents"},
    {.name = "getdents64"},
    {.name = "getxattr"},
    {.name = "inotify_add_watch"},
    {.name = "inotify_init"},
    {.name = "inotify_init1"},
    {.name = "inotify_rm_watch"},
    {.name = "lchown"},
    {.name = "lgetxattr"},
    {.name = "link"},
    {.name = "linkat"},
    {.name = "listxattr"},
    {.name = "llistxattr"},
    {.name = "lremovexattr"},
    {.name = "lseek"},
    {.name = "lsetxattr"},
    {.name = "lstat"},
    {.name = "memfd_create"},
    {.name = "mkdir"},
    {.name = "mkdirat"},
    {.name = "mknod"},
    {.name = "mknodat"},
    {.name = "newfstatat"},
    {.name = "open"},
    {.name = "openat"},
    {.name = "openat2"},
    {.name = "pread64"},
    {.name = "preadv"},
    {.name = "preadv2"},
    {.name = "pwrite64"},
    {.name = "pwritev"},
    {.name = "pwritev2"},
    {.name = "read"},
    {.name = "readahead"},
    {.name = "readlink"},
    {.name = "readlinkat"},
    {.name = "readv"},
    {.name = "removexattr"},
    {.name = "rename"},
    {.name = "renameat"},
    {.name = "renameat2"},
    {.name = "rmdir"},
    {.name = "sendfile"},
    {.name = "setxattr"},
    {.name = "splice"},
    {.name = "stat"},
    {.name = "statfs"},
    {.name = "statx"},
    {.name = "symlink"},
    {.name = "symlinkat"},
    {.name = "sync"},
    {.name = "sync_file_range"},
    {.name = "syncfs"},
    {.name = "tee"},
    {.name = "truncate"},
    {.name = "umask"},
    {.name = "unlink"},
    {.name = "unlinkat"},
    {.name = "utime"},
    {.name = "utimensat"},
    {.name = "utimes"},
    {.name = "vmsplice"},
    {.name = "write"},
    {.name = "writev"},
    {.name = "cachestat", .number = 451},
    /* waiting and time */
    {.name = "alarm"},
    {.name = "clock_getres"},
    {.name = "clock_gettime"},
    {.name = "clock_nanosleep"},
    {.name = "epoll_create"},
    {.name = "epoll_create1"},
    {.name = "epoll_ctl"},
    {.name = "epoll_pwait"},
    {.name = "epoll_pwait2"},
    {.name = "epoll_wait"},
    {.name = "eventfd"},
    {.name = "eventfd2"},
    {.name = "getitimer"},
    {.name = "gettimeofday"},
    {.name = "nanosleep"},
    {.name = "pause"},
    {.name = "pipe"},
    {.name = "pipe2"},
    {.name = "poll"},
    {.name = "ppoll"},
    {.name = "pselect6"},
    {.name = "select"},
    {.name = "setitimer"},
    {.name = "time"},
    {.name = "timer_create"},
    {.name = "timer_delete"},
    {.name = "timer_getoverrun"},
    {.name = "timer_gettime"},
    {.name = "timer_settime"},
    {.name = "timerfd_create"},
    {.name = "timerfd_gettime"},
    {.name = "timerfd_settime"},
    {.name = "times"},
    /* memory */
    {.name = "brk"},
    {.name = "madvise"},
    {.name = "map_shadow_stack", .number = 453},
    {.name = "membarrier"},
    {.name = "mincore"},
    {.name = "mlock"},
    {.name = "mlock2"},
    {.name = "mlockall"},
    {.name = "mmap"},
    {.name = "mprotect"},
    {.name = "mremap"},
    {.name = "mseal", .number = 462},
    {.name = "msync"},
    {.name = "munlock"},
    {.name = "munlockall"},
    {.name = "munmap"},
    {.name = "pkey_alloc"},
    {.name = "pkey_free"},
    {.name = "pkey_mprotect"},
    {.name = "remap_file_pages"},
    /* processes, threads, signals */
    {.name = "arch_prctl"},
    {.name = "execve"},
    {.name = "execveat"},
    {.name = "exit"},
    {.name = "exit_group"},
    {.name = "fork"},
    {.name = "futex"},
    {.name = "futex_requeue", .number = 456},
    {.name = "futex_wait", .number = 455},
    {.name = "futex_waitv", .number = 449},
    {.name = "futex_wake", .number = 454},
    {.name = "get_robust_list"},
    {.name = "get_thread_area"},
    {.name = "getcpu"},
    {.name = "getpgid"},
    {.name = "getpgrp"},
    {.name = "getpid"},
    {.name = "getppid"},
    {.name = "getpriority"},
    {.name = "getrandom"},
    {.name = "getrlimit"},
    {.name = "getrusage"},
    {.name = "getsid"},
    {.name = "gettid"},
    {.name = "ioprio_get"},
    {.name = "kill"},
    {.name = "landlock_add_rule", .number = 445},
    {.name = "landlock_create_ruleset", .number = 444},
    {.name = "landlock_restrict_self", .number = 446},
    {.name = "pidfd_open"},
    {.name = "pidfd_send_signal"},
    {.name = "process_mrelease", .number = 448},
    {.name = "restart_syscall"},
    {.name = "rseq"},
    {.name = "rt_sigaction"},
    {.name = "rt_sigpending"},
    {.name = "rt_sigprocmask"},
    {.name = "rt_sigqueueinfo"},
    {.name = "rt_sigreturn"},
    {.name = "rt_sigsuspend"},
    {.name = "rt_sigtimedwait"},
    {.name = "rt_tgsigqueueinfo"},
    {.name = "sched_get_priority_max"},
    {.name = "sched_get_priority_min"},
    {.name = "sched_getaffinity"},
    {.name = "sched_getattr"},
    {.name = "sched_getparam"},
    {.name = "sched_getscheduler"},
    {.name = "sched_rr_get_interval"},
    {.name = "sched_yield"},
    {.name = "seccomp"},
    {.name = "set_robust_list"},
    {.name = "set_thread_area"},
    {.name = "set_tid_address"},
    {.name = "setpgid"},
    {.name = "setsid"},
    {.name = "sigaltstack"},
    {.name = "signalfd"},
    {.name = "signalfd4"},
    {.name = "sysinfo"},
    {.name = "tgkill"},
    {.name = "tkill"},
    {.name = "uname"},
    {.name = "vfork"},
    {.name = "wait4"},
    {.name = "waitid"},
    /* who one is; without capabilities they can only repeat it */
    {.name = "capget"},
    {.name = "capset"},
    {.name = "getegid"},
    {.name = "geteuid"},
    {.name = "getgid"},
    {.name = "getgroups"},
    {.name = "getresgid"},
    {.name = "getresuid"},
    {.name = "getuid"},
    {.name = "setfsgid"},
    {.name = "setfsuid"},
    {.name = "setgid"},
    {.name = "setgroups"},
    {.name = "setregid"},
    {.name = "setresgid"},
    {.name = "setresuid"},
    {.name = "setreuid"},
    {.name = "setuid"},
    /* System V and POSIX IPC, of the sandbox's own namespace */
    {.name = "mq_getsetattr"},
    {.name = "mq_notify"},
    {.name = "mq_open"},
    {.name = "mq_timedreceive"},
    {.name = "mq_timedsend"},
    {.name = "mq_unlink"},
    {.name = "msgctl"},
    {.name = "msgget"},
    {.name = "msgrcv"},
    {.name = "msgsnd"},
    {.name = "semctl"},
    {.name = "semget"},
    {.name = "semop"},
    {.name = "semtimedop"},
    {.name = "shmat"},
    {.name = "shmctl"},
    {.name = "shmdt"},
    {.name = "shmget"},
    /* sockets; making one is judged by its arguments below */
    {.name = "accept"},
    {.name = "accept4"},
    {.name = "bind"},
    {.name = "connect"},
    {.name = "getpeername"},
    {.name = "getsockname"},
    {.name = "getsockopt"},
    {.name = "listen"},
    {.name = "recvfrom"},
    {.name = "recvmmsg"},
    {.name = "recvmsg"},
    {.name = "sendmmsg"},
    {.name = "sendmsg"},
    {.name = "sendto"},
    {.name = "setsockopt"},
    {.name = "shutdown"},
};

#define NO(call)                                                                                   \
  {                                                                                                \
    .name = #call, .answer = EPERM                                                                 \
  }
#define NO_N(call, n)                                                                              \
  {                                                                                                \
    .name = #call, .number = (n), .answer = EPERM                                                  \
  }
#define NO_BUT_DEBUG(call)                                                                         \
  {                                                                                                \
    .name = #call, .answer = EPERM, .debug = true                                                  \
  }

/* clone3 is on neither list: its flags lie in memory, where no filter can look, and ENOSYS makes a
 * libc fall back to clone. Nor are io_setup and its like: fs.aio-max-nr is one number for the whole
 * machine, and any one process may take all of it; who uses them has another way for ENOSYS. */
static const call REFUSED[] = {
    /* other processes */
    NO_BUT_DEBUG(ptrace),
    NO_BUT_DEBUG(process_vm_readv),
    NO_BUT_DEBUG(process_vm_writev),
    NO_BUT_DEBUG(kcmp),
    NO(pidfd_getfd),
    NO(process_madvise),
    /* rarely used and often broken */
    NO(io_uring_setup),
    NO(io_uring_enter),
    NO(io_uring_register),
    NO(userfaultfd),
    NO(perf_event_open),
    NO(bpf),
    NO(add_key),
    NO(keyctl),
    NO(request_key),
    NO(lookup_dcookie),
    NO(nfsservctl),
    NO_N(memfd_secret, 447),
    NO(fanotify_init),
    NO(vhangup),
    NO(syslog),
    NO(modify_ldt),
    NO(iopl),
    NO(ioperm),
    NO(uselib),
    NO(ustat),
    NO(sysfs),
    NO(_sysctl),
    /* files by handle, quotas, accounting, swap */
    NO(name_to_handle_at),
    NO(open_by_handle_at),
    NO(quotactl),
    NO_N(quotactl_fd, 443),
    NO(acct),
    NO(swapon),
    NO(swapoff),
    /* the machine */
    NO(reboot),
    NO(kexec_load),
    NO(kexec_file_load),
    NO(init_module),
    NO(finit_module),
    NO(delete_module),
    NO(create_module),
    NO(query_module),
    NO(get_kernel_syms),
    NO(settimeofday),
    NO(stime),
    NO(clock_settime),
    NO(clock_adjtime),
    NO(adjtimex),
    NO(sethostname),
    NO(setdomainname),
    /* mounts and namespaces */
    NO(mount),
    NO(umount2),
    NO(pivot_root),
    NO(chroot),
    NO(move_mount),
    NO(open_tree),
    NO_N(open_tree_attr, 467),
    NO(fsopen),
    NO(fsconfig),
    NO(fsmount),
    NO(fspick),
    NO_N(mount_setattr, 442),
    NO_N(statmount, 457),
    NO_N(listmount, 458),
    NO_N(listns, 470),
    NO(setns),
    NO(unshare),
};
/* clang-format on */

/* Conditions of a rule hold together; the first rule that holds answers: an errno, 0 to allow, or
 * PRETEND: the call is not made, and says that it was. */
enum { PRETEND = -1, HIGH = 8 /* with an argument's number: its upper half */ };
typedef struct arg_condition {
  int argument;
  uint32_t mask, value;
} arg_condition;
typedef struct arg_rule {
  int answer;
  unsigned conditions;
  arg_condition condition[4];
} arg_rule;
typedef struct arg_block {
  struct call call;
  const arg_rule *rules;
  unsigned count;
  int otherwise;
} arg_block;

#define ALL UINT32_MAX
#define ONE(answer_, a, m, v)                                                                      \
  {                                                                                                \
    .answer = (answer_), .conditions = 1, .condition = { {a, m, v} }                               \
  }
#define TWO(answer_, a, m, v, b, n, w)                                                             \
  {                                                                                                \
    .answer = (answer_), .conditions = 2, .condition = { {a, m, v}, {b, n, w} }                    \
  }
#define THREE(answer_, a, m, v, b, n, w, c, o, x)                                                  \
  {                                                                                                \
    .answer = (answer_), .conditions = 3, .condition = { {a, m, v}, {b, n, w}, {c, o, x} }         \
  }

/* NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. NEWTIME lies in the bits of the
 * exit signal, which clone(2) ignores; it is refused all the same. */
static const arg_rule CLONE_RULES[] = {ONE(0, 0, 0x7E020080u, 0)};

/* TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD: typing into, painting on and taking over a terminal. */
static const arg_rule IOCTL_RULES[] = {ONE(EPERM, 1, ALL, 0x5412), ONE(EPERM, 1, ALL, 0x541C),
                                       ONE(EPERM, 1, ALL, 0x541D), ONE(EPERM, 1, ALL, 0x5423)};

enum {
  UNIX = 1,
  INET = 2,
  INET6 = 10,
  NETLINK = 16,
  STREAM = 1,
  DGRAM = 2,
  RAW = 3,
  SEQ = 5,
  TCP = 6,
  UDP = 17,
  TYPE = 0xf
};
#define OF_INET(family)                                                                            \
  THREE(0, 0, ALL, family, 1, TYPE, STREAM, 2, ALL, 0),                                            \
      THREE(0, 0, ALL, family, 1, TYPE, STREAM, 2, ALL, TCP),                                      \
      THREE(0, 0, ALL, family, 1, TYPE, DGRAM, 2, ALL, 0),                                         \
      THREE(0, 0, ALL, family, 1, TYPE, DGRAM, 2, ALL, UDP)
#define OF_UNIX                                                                                    \
  THREE(0, 0, ALL, UNIX, 1, TYPE, STREAM, 2, ALL, 0),                                              \
      THREE(0, 0, ALL, UNIX, 1, TYPE, DGRAM, 2, ALL, 0),                                           \
      THREE(0, 0, ALL, UNIX, 1, TYPE, SEQ, 2, ALL, 0)
/* NETLINK_ROUTE: getifaddrs(3) and what stands on it; nobody here may change a route. */
static const arg_rule SOCKET_RULES[] = {OF_UNIX, OF_INET(INET), OF_INET(INET6),
                                        THREE(0, 0, ALL, NETLINK, 1, TYPE, RAW, 2, ALL, 0),
                                        THREE(0, 0, ALL, NETLINK, 1, TYPE, DGRAM, 2, ALL, 0)};
static const arg_rule SOCKETPAIR_RULES[] = {OF_UNIX};

/* PR_SET_MM rewrites what /proc says of oneself; PR_SET_PTRACER opens oneself to others. */
static const arg_rule PRCTL_RULES[] = {ONE(EPERM, 0, ALL, 35), ONE(EPERM, 0, ALL, 0x59616d61)};

static const arg_rule PERSONALITY_RULES[] = {ONE(0, 0, ALL, 0), ONE(0, 0, ALL, 0xffffffffu)};

/* RLIMIT_CORE stays 1: at 0 the kernel would start a piped core_pattern's handler, as root of the host
 * (lockdown.c). Programs that set it to keep their secrets out of cores have what they want already.
 * Reading it, with no new limit given, is answered by the kernel. */
#define CORE 4
static const arg_rule SETRLIMIT_RULES[] = {ONE(PRETEND, 0, ALL, CORE)};
static const arg_rule PRLIMIT_RULES[] = {
    {.answer = 0,
     .conditions = 4,
     .condition = {{0, ALL, 0}, {1, ALL, CORE}, {2, ALL, 0}, {2 | HIGH, ALL, 0}}},
    TWO(PRETEND, 0, ALL, 0, 1, ALL, CORE),
    ONE(0, 0, ALL, 0)};

/* These judge by uid alone, and init has the payload's uid: on oneself only. */
static const arg_rule PID_SELF[] = {ONE(0, 0, ALL, 0)};
static const arg_rule PRIORITY_SELF[] = {TWO(0, 0, ALL, 0, 1, ALL, 0)}; /* PRIO_PROCESS, oneself */
static const arg_rule IOPRIO_SELF[] = {TWO(0, 0, ALL, 1, 1, ALL, 0)};   /* IOPRIO_WHO_PROCESS */

#define BLOCK(name_, rules_, otherwise_)                                                           \
  {                                                                                                \
    .call = {.name = name_}, .rules = rules_, .count = sizeof(rules_) / sizeof *(rules_),          \
    .otherwise = (otherwise_)                                                                      \
  }
static const arg_block ARG_BLOCKS[] = {
    BLOCK("clone", CLONE_RULES, EPERM),
    BLOCK("ioctl", IOCTL_RULES, 0),
    BLOCK("socket", SOCKET_RULES, EPERM),
    BLOCK("socketpair", SOCKETPAIR_RULES, EPERM),
    BLOCK("prctl", PRCTL_RULES, 0),
    BLOCK("personality", PERSONALITY_RULES, EPERM),
    BLOCK("prlimit64", PRLIMIT_RULES, EPERM),
    BLOCK("setrlimit", SETRLIMIT_RULES, 0),
    BLOCK("sched_setaffinity", PID_SELF, EPERM),
    BLOCK("sched_setscheduler", PID_SELF, EPERM),
    BLOCK("sched_setparam", PID_SELF, EPERM),
    BLOCK("sched_setattr", PID_SELF, EPERM),
    BLOCK("setpriority", PRIORITY_SELF, EPERM),
    BLOCK("ioprio_set", IOPRIO_SELF, EPERM),
    BLOCK("migrate_pages", PID_SELF, EPERM),
    BLOCK("move_pages", PID_SELF, EPERM),
};

/* ---- no set-id bits: a second filter, for sandboxes with a writable bind --------------------- */

/* A file that is written there belongs to the bind's owner on the host. With a set-user-id bit it would
 * give that owner's rights, root's even, to whoever runs it there: nosuid keeps only the sandbox from
 * it. openat2 has its mode in memory, where no filter can look: ENOSYS, and libraries use openat. */
enum { SETID = 06000, MAKES = 0100 | 020000000 /* O_CREAT, __O_TMPFILE */ };
static const arg_rule MODE_IN_1[] = {ONE(0, 1, SETID, 0)};
static const arg_rule MODE_IN_2[] = {ONE(0, 2, SETID, 0)};
static const arg_rule OPEN_RULES[] = {ONE(0, 1, MAKES, 0), ONE(0, 2, SETID, 0)};
static const arg_rule OPENAT_RULES[] = {ONE(0, 2, MAKES, 0), ONE(0, 3, SETID, 0)};

static const arg_block SETID_BLOCKS[] = {
    BLOCK("chmod", MODE_IN_1, EPERM),
    BLOCK("fchmod", MODE_IN_1, EPERM),
    BLOCK("fchmodat", MODE_IN_2, EPERM),
    BLOCK("creat", MODE_IN_1, EPERM),
    BLOCK("open", OPEN_RULES, EPERM),
    BLOCK("openat", OPENAT_RULES, EPERM),
    BLOCK("mknod", MODE_IN_1, EPERM),
    BLOCK("mknodat", MODE_IN_2, EPERM),
    {.call = {.name = "fchmodat2", .number = 452},
     .rules = MODE_IN_2,
     .count = 1,
     .otherwise = EPERM},
    {.call = {.name = "openat2"}, .otherwise = ENOSYS},
};

#endif
