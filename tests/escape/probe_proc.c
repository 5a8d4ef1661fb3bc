/* probe_proc.c: attempts on processes, signals, privileges, IPC and terminals. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- who am I -------------------------------------------------------------------------------- */

static int run_ids(int argc, char **argv)
{
  const char *prefix = argc > 0 ? argv[0] : "";
  char text[8192], what[128];
  say(geteuid() == 0 ? "ALLOWED" : "DENIED", "euid", "%d (uid %d)", geteuid(), getuid());
  if (read_some("/proc/self/status", text, sizeof text) < 0) return judge("status", -1), 0;
  static const char *const keys[] = {
      "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:", "Seccomp:"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const char *line = strstr(text, keys[i]);
    if (!line) continue;
    unsigned long long value = strtoull(line + strlen(keys[i]), NULL, 16);
    bool capability = keys[i][0] == 'C';
    bool weak = capability ? value != 0 : value == 0;
    snprintf(what, sizeof what, "%s%s%.*s", prefix, *prefix ? " " : "", (int)strlen(keys[i]) - 1,
             keys[i]);
    say(weak ? "ALLOWED" : "DENIED", what, "%llx", value);
  }
  return 0;
}

static int run_ps(int argc, char **argv)
{
  (void)argc, (void)argv;
  DIR *dir = opendir("/proc");
  if (!dir) return judge("/proc", -1), 0;
  long count = 0, highest = 0;
  for (struct dirent *entry; (entry = readdir(dir));) {
    long pid = strtol(entry->d_name, NULL, 10);
    if (pid <= 0) continue;
    count++;
    if (pid > highest) highest = pid;
  }
  closedir(dir);
  say("ALLOWED", "processes", "%ld", count);
  return 0;
}

static int run_limits(int argc, char **argv)
{
  (void)argc, (void)argv;
  static const struct {
    int id;
    const char *name;
  } limits[] = {{RLIMIT_CORE, "core"},         {RLIMIT_NOFILE, "nofile"},
                {RLIMIT_FSIZE, "fsize"},       {RLIMIT_MEMLOCK, "memlock"},
                {RLIMIT_NICE, "nice"},         {RLIMIT_RTPRIO, "rtprio"},
                {RLIMIT_NPROC, "nproc"},       {RLIMIT_STACK, "stack"},
                {RLIMIT_MSGQUEUE, "msgqueue"}, {RLIMIT_SIGPENDING, "sigpending"}};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    struct rlimit now, more;
    if (getrlimit(limits[i].id, &now) < 0) continue;
    char what[40];
    more = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
    snprintf(what, sizeof what, "raise %s", limits[i].name);
    if (now.rlim_max == RLIM_INFINITY)
      say("ALLOWED", what, "unlimited");
    else if (setrlimit(limits[i].id, &more) < 0)
      say("DENIED", what, "%s at %lld", errno_name(errno), (long long)now.rlim_max);
    else if (getrlimit(limits[i].id, &more) == 0 && more.rlim_cur == now.rlim_cur)
      say("DENIED", what, "in name only, at %lld",
          (long long)now.rlim_cur); /* success was pretended */
    else
      say("ALLOWED", what, "raised");
    say("DENIED", limits[i].name, "%lld", (long long)now.rlim_cur);
  }
  /* With 0 the kernel runs a piped core_pattern's handler; what is said counts less than what is so. */
  struct rlimit none = {0, 0}, after = {0};
  unsigned long *far = mmap((void *)0x7f00000000, 4096, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); /* low half 0 */
  if (far != MAP_FAILED) far[0] = far[1] = 0, syscall(SYS_prlimit64, 0, RLIMIT_CORE, far, NULL);
  syscall(SYS_setrlimit, RLIMIT_CORE, &none);
  getrlimit(RLIMIT_CORE, &after);
  say(after.rlim_cur == 0 ? "ALLOWED" : "DENIED", "lower core", "%lld", (long long)after.rlim_cur);
  return 0;
}

/* ---- other processes ------------------------------------------------------------------------- */

static int run_kill(int argc, char **argv)
{
  if (argc < 2) return 2; /* SIGNAL PID... */
  for (int i = 1; i < argc; i++)
    judge(argv[i], kill((pid_t)number_of(argv[i]), (int)number_of(argv[0])));
  return 0;
}

static long try_attach(void *data)
{
  pid_t pid = *(pid_t *)data;
  long got = ptrace(PTRACE_ATTACH, pid, NULL, NULL);
  if (got == 0) {
    waitpid(pid, NULL, __WALL);
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
  }
  return got;
}

static long try_seize(void *data)
{
  long got = ptrace(PTRACE_SEIZE, *(pid_t *)data, NULL, NULL);
  if (got == 0) ptrace(PTRACE_DETACH, *(pid_t *)data, NULL, NULL);
  return got;
}

static long try_vm_read(void *data)
{
  char byte, *far = (char *)0x400000;
  struct iovec here = {&byte, 1}, there = {far, 1};
  long got = process_vm_readv(*(pid_t *)data, &here, 1, &there, 1, 0);
  return got < 0 && errno == EFAULT ? 0 : got; /* let in; only the address was wrong */
}

static long try_vm_write(void *data)
{
  char byte = 0;
  struct iovec here = {&byte, 1}, there = {NULL, 1};
  long got = process_vm_writev(*(pid_t *)data, &here, 1, &there, 1, 0);
  return got < 0 && errno == EFAULT ? 0 : got;
}

static long try_getfd(void *data)
{
  int handle = (int)syscall(SYS_pidfd_open, *(pid_t *)data, 0);
  return handle < 0 ? -1 : syscall(438 /* pidfd_getfd */, handle, 0, 0);
}

static long try_madvise(void *data)
{
  int handle = (int)syscall(SYS_pidfd_open, *(pid_t *)data, 0);
  struct iovec range = {(void *)0x400000, 4096};
  long got =
      handle < 0 ? -1 : syscall(440 /* process_madvise */, handle, &range, 1, 20 /* COLD */, 0);
  return got < 0 && (errno == ENOMEM || errno == EINVAL) ? 0 : got;
}

static long try_kcmp(void *data)
{
  return syscall(SYS_kcmp, getpid(), *(pid_t *)data, 2, 0, 0);
}

static int run_intrude(int argc, char **argv)
{
  if (argc != 1) return 2;
  pid_t pid = (pid_t)number_of(argv[0]);
  judge_in_child("ptrace attach", try_attach, &pid);
  judge_in_child("ptrace seize", try_seize, &pid);
  judge_in_child("process_vm_readv", try_vm_read, &pid);
  judge_in_child("process_vm_writev", try_vm_write, &pid);
  judge_in_child("pidfd_getfd", try_getfd, &pid);
  judge_in_child("process_madvise", try_madvise, &pid);
  judge_in_child("kcmp", try_kcmp, &pid);
  static const char *const files[] = {"mem",    "environ", "maps",     "auxv", "syscall",
                                      "stack",  "cwd",     "root",     "exe",  "fd",
                                      "fdinfo", "ns/mnt",  "map_files"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, files[i]);
    int fd = open(path, strcmp(files[i], "mem") == 0 ? O_RDWR : O_RDONLY);
    judge(files[i], fd);
    if (fd >= 0) close(fd);
  }
  return 0;
}

/* What may be set on another process by one of the same uid. Harmless values, real effects. */
static int run_tamper(int argc, char **argv)
{
  if (argc != 1) return 2;
  pid_t pid = (pid_t)number_of(argv[0]);
  struct rlimit cpu = {1 << 20, 1 << 20}, files = {512, 512}, space = {1ll << 40, 1ll << 40};
  judge("prlimit cpu", syscall(SYS_prlimit64, pid, RLIMIT_CPU, &cpu, NULL));
  judge("prlimit nofile", syscall(SYS_prlimit64, pid, RLIMIT_NOFILE, &files, NULL));
  judge("prlimit as", syscall(SYS_prlimit64, pid, RLIMIT_AS, &space, NULL));
  judge("prlimit high bits",
        syscall(SYS_prlimit64, (unsigned long)pid | (1ul << 32), RLIMIT_CPU, &cpu, NULL));
  unsigned long mask = 1;
  struct sched_param zero = {0};
  struct {
    unsigned size, policy;
    unsigned long long flags;
    int nice;
    unsigned priority;
    unsigned long long runtime, deadline, period;
  } attr = {.size = 48, .policy = SCHED_BATCH};
  judge("sched_setaffinity", syscall(SYS_sched_setaffinity, pid, sizeof mask, &mask));
  judge("sched_setattr", syscall(SYS_sched_setattr, pid, &attr, 0));
  judge("sched_setparam", syscall(SYS_sched_setparam, pid, &zero));
  judge("setpriority", syscall(SYS_setpriority, PRIO_PROCESS, pid, 19)); /* free to all, ever */
  judge("ioprio_set", syscall(SYS_ioprio_set, 1, pid, (2 << 13) | 7));
  judge("sched_setscheduler", syscall(SYS_sched_setscheduler, pid, SCHED_IDLE, &zero));
  judge("setpgid", setpgid(pid, 0));
  judge("migrate_pages", syscall(SYS_migrate_pages, pid, 1, &mask, &mask));
  judge("move_pages", syscall(SYS_move_pages, pid, 0, NULL, NULL, NULL, 0));
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/oom_score_adj", pid);
  int fd = open(path, O_WRONLY);
  judge("oom_score_adj", fd < 0 ? -1 : write(fd, "1000", 4));
  if (fd >= 0) close(fd);
  return 0;
}

/* The attack as it was measured: one second of processor time, then the kernel kills the victim. */
static int run_strangle(int argc, char **argv)
{
  if (argc != 1) return 2;
  pid_t pid = (pid_t)number_of(argv[0]);
  struct rlimit cpu = {1, 1}, files = {3, 3};
  judge("prlimit cpu", syscall(SYS_prlimit64, pid, RLIMIT_CPU, &cpu, NULL));
  judge("prlimit nofile", syscall(SYS_prlimit64, pid, RLIMIT_NOFILE, &files, NULL));
  return 0;
}

static int run_signal_flood(int argc, char **argv)
{
  if (argc != 2) return 2; /* PID COUNT */
  pid_t pid = (pid_t)number_of(argv[0]);
  long count = number_of(argv[1]), sent = 0;
  siginfo_t forged;
  memset(&forged, 0, sizeof forged);
  for (long i = 0; i < count; i++) {
    int number = i % 4 == 0 ? SIGCHLD : i % 4 == 1 ? SIGUSR1 : i % 4 == 2 ? SIGIO : SIGRTMIN + 1;
    forged.si_signo = number;
    forged.si_code = -1; /* SI_QUEUE */
    forged.si_pid = 1;
    if (syscall(SYS_rt_sigqueueinfo, pid, number, &forged) == 0) sent++;
  }
  /* Not a thing to deny: what matters is that the receiver lives and lies to nobody. */
  say(sent ? "ALLOWED" : "DENIED", "signals", "%ld of %ld", sent, count);
  return 0;
}

/* ---- namespaces ------------------------------------------------------------------------------ */

static const struct {
  const char *name;
  unsigned long flag;
} namespaces[] = {{"user", CLONE_NEWUSER},     {"mnt", CLONE_NEWNS},        {"pid", CLONE_NEWPID},
                  {"net", CLONE_NEWNET},       {"ipc", CLONE_NEWIPC},       {"uts", CLONE_NEWUTS},
                  {"cgroup", CLONE_NEWCGROUP}, {"time", 0x80 /* NEWTIME */}};

static long try_unshare(void *data)
{
  return syscall(SYS_unshare, *(unsigned long *)data);
}
static long try_clone(void *data)
{
  long pid = syscall(SYS_clone, *(unsigned long *)data | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) _exit(0);
  return pid;
}
static long try_clone_high(void *data)
{
  unsigned long flags = *(unsigned long *)data | (1ul << 40);
  long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) _exit(0);
  return pid;
}
static long try_clone3(void *data)
{
  struct clone_args args = {.flags = *(unsigned long *)data, .exit_signal = SIGCHLD};
  long pid = syscall(SYS_clone3, &args, sizeof args);
  if (pid == 0) _exit(0);
  return pid;
}
static long try_user_then_mount(void *data)
{
  if (syscall(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS) < 0) return -1;
  return syscall(SYS_mount, "x", data, "tmpfs", 0, NULL);
}

static int run_namespaces(int argc, char **argv)
{
  (void)argc, (void)argv;
  char what[48];
  for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++) {
    unsigned long flag = namespaces[i].flag;
    snprintf(what, sizeof what, "unshare %s", namespaces[i].name);
    judge_in_child(what, try_unshare, &flag);
    snprintf(what, sizeof what, "clone3 %s", namespaces[i].name);
    judge_in_child(what, try_clone3, &flag);
    if (flag == 0x80) continue; /* in clone(2) this bit belongs to the exit signal */
    snprintf(what, sizeof what, "clone %s", namespaces[i].name);
    judge_in_child(what, try_clone, &flag);
    snprintf(what, sizeof what, "clone %s high bits", namespaces[i].name);
    judge_in_child(what, try_clone_high, &flag);
  }
  judge_in_child("unshare, then mount", try_user_then_mount, "/tmp");
  return 0;
}

static long try_setns(void *data)
{
  int fd = open(data, O_RDONLY | O_CLOEXEC);
  return fd < 0 ? -1 : syscall(SYS_setns, fd, 0);
}

static int run_setns(int argc, char **argv)
{
  if (argc < 1) return 2;
  for (int i = 0; i < argc; i++) judge_in_child(argv[i], try_setns, argv[i]);
  return 0;
}

/* ---- privileges ------------------------------------------------------------------------------ */

static int run_relax(int argc, char **argv)
{
  (void)argc, (void)argv;
  struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {1, &allow};
  judge("securebits", prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0));
  judge("ambient raise", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0));
  judge("bounding drop", prctl(PR_CAPBSET_DROP, 21, 0, 0, 0));
  judge("no_new_privs off", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
  judge("set_mm", prctl(PR_SET_MM, PR_SET_MM_BRK, 0, 0, 0));
  judge("setuid 0", syscall(SYS_setuid, 0));
  judge("setgid 0", syscall(SYS_setgid, 0));
  gid_t group = 0;
  judge("setgroups", syscall(SYS_setgroups, 1, &group));
  unsigned header[2] = {0x20080522, 0}, sets[6] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u};
  judge("capset", syscall(SYS_capset, header, sets));
  /* An allow-all filter may be stacked; it must not lift the one below. */
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  unsigned long flag = CLONE_NEWUSER;
  judge_in_child("unshare after allow-all", try_unshare, &flag);
  return 0;
}

static int run_priority(int argc, char **argv)
{
  (void)argc, (void)argv;
  struct sched_param high = {.sched_priority = 50};
  judge("nice -20", syscall(SYS_setpriority, PRIO_PROCESS, 0, -20));
  judge("SCHED_FIFO", syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &high));
  judge("SCHED_RR", syscall(SYS_sched_setscheduler, 0, SCHED_RR, &high));
  judge("ioprio realtime", syscall(SYS_ioprio_set, 1, 0, 1 << 13));
  void *big = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  judge("mlock 64 MiB", mlock(big, 64 << 20));
  return 0;
}

/* ---- IPC ------------------------------------------------------------------------------------- */

static long connect_unix(const char *name, bool abstract)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(name);
  if (length + 1 > sizeof address.sun_path) return errno = ENAMETOOLONG, -1;
  memcpy(address.sun_path + (abstract ? 1 : 0), name, length);
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  long got = connect(fd, (struct sockaddr *)&address, size);
  int saved = errno;
  close(fd);
  errno = saved;
  return got;
}

static int run_abstract(int argc, char **argv)
{
  if (argc < 1) return 2;
  for (int i = 0; i < argc; i++) judge(argv[i], connect_unix(argv[i], true));
  return 0;
}

static int run_unix(int argc, char **argv)
{
  if (argc < 1) return 2;
  for (int i = 0; i < argc; i++) judge(argv[i], connect_unix(argv[i], false));
  return 0;
}

/* KEY NAME: does what the host made under these names show? */
static int run_ipc(int argc, char **argv)
{
  if (argc != 2) return 2;
  key_t key = (key_t)number_of(argv[0]);
  char path[80];
  judge("shm", syscall(SYS_shmget, key, 0, 0));
  judge("sem", syscall(SYS_semget, key, 0, 0));
  judge("msg", syscall(SYS_msgget, key, 0));
  judge("mqueue", syscall(SYS_mq_open, argv[1], O_RDONLY, 0, NULL));
  snprintf(path, sizeof path, "/dev/shm/%s", argv[1]);
  judge("/dev/shm", open(path, O_RDONLY | O_CLOEXEC));
  return 0;
}

static int run_ipc_make(int argc, char **argv)
{
  if (argc != 3) return 2; /* KEY NAME make|remove */
  key_t key = (key_t)number_of(argv[0]);
  if (strcmp(argv[2], "make") == 0) {
    judge("shm", syscall(SYS_shmget, key, 4096, IPC_CREAT | 0666));
    judge("sem", syscall(SYS_semget, key, 1, IPC_CREAT | 0666));
    judge("msg", syscall(SYS_msgget, key, IPC_CREAT | 0666));
    judge("mqueue", syscall(SYS_mq_open, argv[1], O_RDWR | O_CREAT, 0666, NULL));
    return 0;
  }
  judge("shm", syscall(SYS_shmctl, syscall(SYS_shmget, key, 0, 0), IPC_RMID, NULL));
  judge("sem", syscall(SYS_semctl, syscall(SYS_semget, key, 0, 0), 0, IPC_RMID, 0));
  judge("msg", syscall(SYS_msgctl, syscall(SYS_msgget, key, 0), IPC_RMID, NULL));
  judge("mqueue", syscall(SYS_mq_unlink, argv[1]));
  return 0;
}

static int run_keyring(int argc, char **argv)
{
  (void)argc, (void)argv;
  judge("join session", syscall(SYS_keyctl, 1 /* JOIN_SESSION_KEYRING */, NULL));
  judge("add_key", syscall(SYS_add_key, "user", "sbx", "y", 1, -3 /* session keyring */));
  judge("search", syscall(SYS_keyctl, 10 /* SEARCH */, -3, "user", "sbx", 0));
  long got = syscall(SYS_request_key, "user", "sbx-none", NULL, -3);
  if (got < 0 && errno == ENOKEY)
    say("ALLOWED", "request_key", "reached");
  else
    judge("request_key", got);
  return 0;
}

/* ---- terminals ------------------------------------------------------------------------------- */

static long tty_ioctl(unsigned long command, void *argument)
{
  return syscall(SYS_ioctl, 0, command, argument);
}

static int run_tty(int argc, char **argv)
{
  if (argc != 1) return 2; /* the byte to push into the terminal's input */
  judge("TIOCSTI", tty_ioctl(TIOCSTI, argv[0]));
  judge("TIOCSTI high bits", tty_ioctl(TIOCSTI | (1ul << 32), argv[0]));
  int own = open("/dev/tty", O_RDWR | O_CLOEXEC);
  judge("TIOCSTI on /dev/tty", own < 0 ? -1 : syscall(SYS_ioctl, own, TIOCSTI, argv[0]));
  int discipline = 0;
  judge("TIOCSETD", tty_ioctl(TIOCSETD, &discipline));
  judge("TIOCSETD high bits", tty_ioctl(TIOCSETD | (1ul << 32), &discipline));
  judge("TIOCCONS", tty_ioctl(TIOCCONS, NULL));
  char paste[] = {3};
  judge("TIOCLINUX", tty_ioctl(TIOCLINUX, paste));
  judge("TIOCLINUX high bits", tty_ioctl(TIOCLINUX | (1ul << 32), paste));
  return 0;
}

/* ---- trees that do not want to die ----------------------------------------------------------- */

static int run_zombies(int argc, char **argv)
{
  if (argc != 2) return 2; /* COUNT SECONDS: make them, then hold them */
  long count = number_of(argv[0]), made = 0;
  for (; made < count; made++) {
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    if (pid < 0) break;
  }
  judge("zombies", made ? made : -1);
  sleep((unsigned)number_of(argv[1]));
  return 0;
}

/* Forks for ever, each child in a session of its own, ignoring what can be ignored. */
static int run_storm(int argc, char **argv)
{
  if (argc != 1) return 2; /* how many alive at once, roughly */
  long width = number_of(argv[0]);
  for (int i = 1; i < 32; i++) signal(i, SIG_IGN);
  say("ALLOWED", "storm", "started");
  for (long i = 0; i < width; i++) {
    if (fork() != 0) continue;
    setsid();
    for (;;) {
      pid_t next = fork();
      if (next > 0) _exit(0); /* the child goes on under another pid */
      if (next == 0) setsid();
    }
  }
  for (;;) pause();
}

const attempt attempts_proc[] = {
    {"ids", "[PREFIX]", run_ids},
    {"ps", "", run_ps},
    {"limits", "", run_limits},
    {"kill", "SIGNAL PID...", run_kill},
    {"intrude", "PID", run_intrude},
    {"tamper", "PID", run_tamper},
    {"strangle", "PID", run_strangle},
    {"signal-flood", "PID COUNT", run_signal_flood},
    {"namespaces", "", run_namespaces},
    {"setns", "PATH...", run_setns},
    {"relax", "", run_relax},
    {"priority", "", run_priority},
    {"abstract", "NAME...", run_abstract},
    {"unix", "PATH...", run_unix},
    {"ipc", "KEY NAME", run_ipc},
    {"ipc-make", "KEY NAME make|remove", run_ipc_make},
    {"keyring", "", run_keyring},
    {"tty", "BYTE", run_tty},
    {"zombies", "COUNT SECONDS", run_zombies},
    {"storm", "WIDTH", run_storm},
    {NULL, NULL, NULL},
};
