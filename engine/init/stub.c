/* stub.c: the stub's life, and the child of its vfork. From stub_main down there is no libc: the code
 * runs beside init in the same memory, with the same thread pointer. */
#include "stub.h"
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif
#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x00001000
#endif

#define PAGE ((size_t)4096)
#define STACK ((size_t)16384)
#define STACKS (2 * (PAGE + STACK)) /* each behind a guard: the ready child's, the stub's */
#define SLOT_BYTES (STACKS + PAGE)
#define KERNEL_SIGSET 8
#define OOM_AFTER_NS 1000000
#define OOM_AGAIN_NS 20000
#define OOM_TRIES 500
#define KILL_AGAIN_NS 1000000
#define STARTING_NS 10000000

_Static_assert(sizeof(mcg_slot) <= PAGE, "a slot fits its page");

const char *mcg_step_name(int step)
{
  static const char *const names[] = {"exec",  "fork",     "cwd",    "user",
                                      "limit", "terminal", "streams"};
  return step >= 0 && (size_t)step < sizeof names / sizeof *names ? names[step] : "exec";
}

mcg_slot *mcg_slot_new(void)
{
  char *base = mmap(NULL, SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return NULL;
  if (mprotect(base, PAGE, PROT_NONE) < 0 || mprotect(base + STACKS / 2, PAGE, PROT_NONE) < 0) {
    munmap(base, SLOT_BYTES);
    return NULL;
  }
  mcg_slot *slot = (mcg_slot *)(void *)(base + STACKS);
  slot->pidfd = slot->ready_fd = -1;
  return slot;
}

void mcg_slot_free(mcg_slot *slot)
{
  if (slot) munmap((char *)slot - STACKS, SLOT_BYTES);
}

/* ---- the child ----------------------------------------------------------------------------- */

static void child_fail(mcg_slot *slot, int step, long result)
{
  slot->step = step;
  slot->error = (int)-result;
  for (;;)
    mcg_sys3(SYS_exit_group, slot->error == ENOENT || slot->error == ENOTDIR ? 127 : 126, 0, 0);
}

static bool goes_on(long error)
{
  return error == -ENOENT || error == -ENOTDIR || error == -ESTALE || error == -ENODEV ||
         error == -ETIMEDOUT;
}

/* As execvp: the next directory when the file is not there or may not be run, /bin/sh when it has no
 * format the kernel knows. */
static void child_exec(mcg_slot *slot)
{
  const mcg_launch *launch = slot->launch;
  long refused = 0, result = -ENOENT;
  for (char *const *path = launch->paths; *path; path++) {
    result = mcg_sys3(SYS_execve, (long)*path, (long)(launch->shell_argv + 1), (long)launch->envp);
    if (result == -ENOEXEC) {
      launch->shell_argv[1] = *path;
      result = mcg_sys3(SYS_execve, (long)launch->shell_argv[0], (long)launch->shell_argv,
                        (long)launch->envp);
      break;
    }
    if (result == -EACCES)
      refused = result;
    else if (!goes_on(result))
      break;
  }
  if (refused && goes_on(result)) result = refused;
  child_fail(slot, MCG_STEP_EXEC, result);
}

static void child_limits(mcg_slot *slot)
{
  const mcg_launch *launch = slot->launch;
  for (size_t i = 0; i < launch->limit_count; i++) {
    uint64_t both[2] = {launch->limits[i].soft, launch->limits[i].hard};
    long result = mcg_sys(SYS_prlimit64, 0, (long)launch->limits[i].resource, (long)both, 0, 0);
    if (result < 0) child_fail(slot, MCG_STEP_LIMIT, result);
  }
}

static void child_ids(mcg_slot *slot)
{
  const mcg_launch *launch = slot->launch;
  long gid = (long)launch->gid, uid = (long)launch->uid;
  long result = mcg_sys3(SYS_setgroups, 0, 0, 0);
  if (result == 0) result = mcg_sys3(SYS_setresgid, gid, gid, gid);
  if (result == 0) result = mcg_sys3(SYS_setresuid, uid, uid, uid);
  if (result < 0) child_fail(slot, MCG_STEP_USER, result);
}

static __attribute__((noreturn)) void child_main(mcg_slot *slot)
{
  const mcg_launch *launch = slot->launch;
  long result = 0;
  for (int i = 0; i < 3 && result >= 0; i++) result = mcg_sys3(SYS_dup3, launch->fds[i], i, 0);
  if (result < 0) child_fail(slot, MCG_STEP_STREAMS, result);
  if (launch->terminal) {
    result = mcg_sys3(SYS_ioctl, 0, TIOCSCTTY, 0);
    if (result < 0) child_fail(slot, MCG_STEP_TERMINAL, result);
  }
  child_limits(slot);
  if (launch->change_ids) child_ids(slot);
  if (launch->cwd) {
    result = mcg_sys3(SYS_chdir, (long)launch->cwd, 0, 0);
    if (result < 0) child_fail(slot, MCG_STEP_CWD, result);
  }
  uint64_t none = 0;
  mcg_sys(SYS_rt_sigprocmask, SIG_SETMASK, (long)&none, 0, KERNEL_SIGSET, 0);
  child_exec(slot);
  __builtin_unreachable();
}

static __attribute__((noreturn)) void now_main(mcg_slot *slot)
{
  slot->pid = (int)mcg_sys3(SYS_setsid, 0, 0, 0); /* the stub may be killed before it can say so */
  child_main(slot);
}

static void wait_turn(mcg_slot *slot, int turn)
{
  while (atomic_load(&slot->turn) == turn)
    mcg_sys(SYS_futex, (long)&slot->turn, FUTEX_WAIT, turn, 0, 0);
}

/* What the sandbox sent to who waits is not the command's: pending, it would end that as it begins. */
static void drop_signals(void)
{
  uint64_t all = ~0ull;
  struct timespec none = {0, 0};
  while (mcg_sys(SYS_rt_sigtimedwait, (long)&all, 0, (long)&none, KERNEL_SIGSET, 0) > 0) {
  }
}

static void ready_main(void *data)
{
  mcg_slot *slot = data;
  int pid = (int)mcg_sys3(SYS_setsid, 0, 0, 0);
  atomic_store(&slot->ready, pid);
  wait_turn(slot, slot->ready_turn);
  while (atomic_load(&slot->leave)) mcg_sys3(SYS_exit_group, 0, 0, 0);
  long result = mcg_sys3(SYS_close_range, ~0U, ~0U, CLOSE_RANGE_UNSHARE);
  slot->pid = pid;
  slot->pidfd = slot->ready_fd;
  slot->ready_fd = -1;
  atomic_store(&slot->ready, 0);
  if (result < 0) child_fail(slot, MCG_STEP_STREAMS, result);
  drop_signals();
  child_main(slot);
}

/* Returns in the stub only, when the child has executed its program or ended. */
static __attribute__((noinline)) long start_child(mcg_slot *slot)
{
  long pid = mcg_sys(SYS_clone, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, 0,
                     (long)&slot->pidfd, 0, 0);
  if (pid == 0) now_main(slot);
  return pid;
}

/* Without CLONE_VFORK: who waits in there counts as the machine's load. The descriptors are shared until the
 * turn comes, for the command's own are made then. The pid; or -errno: then there is none, and the stub starts
 * the next command itself. */
static long make_ready(mcg_slot *slot, int turn)
{
  const long flags = CLONE_VM | CLONE_FILES | CLONE_PIDFD | CLONE_CHILD_CLEARTID | SIGCHLD;
  long can = mcg_sys3(SYS_close_range, ~0U, ~0U, 0); /* Linux 5.9 */
  if (can < 0) return can;
  atomic_store(&slot->starting, 1);
  slot->ready_turn = turn;
  long pid = mcg_sys_clone(flags, (char *)slot - STACKS / 2, &slot->ready_fd, &slot->starting,
                           ready_main, slot);
  if (pid < 0) slot->ready_fd = -1;
  return pid;
}

/* ---- the stub ----------------------------------------------------------------------------- */

static void stub_tell(mcg_slot *slot, unsigned flag)
{
  atomic_fetch_or_explicit(&slot->flags, flag, memory_order_release);
}

static void stub_wake(mcg_slot *slot)
{
  uint64_t one = 1;
  mcg_sys3(SYS_write, slot->wake, (long)&one, sizeof one);
}

static size_t put_text(char *out, const char *text)
{
  size_t len = 0;
  while (text[len]) {
    out[len] = text[len];
    len++;
  }
  return len;
}

static size_t put_decimal(char *out, unsigned value)
{
  char digits[12];
  size_t count = 0;
  do digits[count++] = (char)('0' + value % 10);
  while (value /= 10);
  for (size_t i = 0; i < count; i++) out[i] = digits[count - 1 - i];
  return count;
}

static long open_of_process(int pid, const char *file, int flags)
{
  char path[96];
  size_t len = put_text(path, "/proc/");
  len += put_decimal(path + len, (unsigned)pid);
  path[len + put_text(path + len, file)] = 0;
  return mcg_sys(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0, 0);
}

static long write_oom_score(int pid, unsigned adjust)
{
  char value[16];
  size_t digits = put_decimal(value, adjust);
  long fd = open_of_process(pid, "/oom_score_adj", O_WRONLY);
  if (fd < 0) return fd;
  long result = mcg_sys3(SYS_write, fd, (long)value, (long)digits);
  mcg_sys3(SYS_close, fd, 0, 0);
  return result;
}

/* Calls fn with every pid a children file names. Takes fd. */
static void each_child(long fd, void (*fn)(int pid, unsigned value), unsigned value)
{
  char buffer[1024];
  long len, pid = 0;
  if (fd < 0) return;
  while ((len = mcg_sys3(SYS_read, fd, (long)buffer, sizeof buffer)) > 0)
    for (long i = 0; i < len; i++) {
      if (buffer[i] >= '0' && buffer[i] <= '9') {
        pid = pid * 10 + (buffer[i] - '0');
        continue;
      }
      if (pid > 1) fn((int)pid, value);
      pid = 0;
    }
  mcg_sys3(SYS_close, fd, 0, 0);
}

static void raise_child(int pid, unsigned adjust)
{
  write_oom_score(pid, adjust);
}

/* The number of the signal that came, or -EAGAIN: none did for so long. */
static long wait_signal(long seconds, long nanoseconds)
{
  uint64_t signals = 1ull << (SIGCHLD - 1) | 1ull << (SIGUSR1 - 1);
  struct timespec time = {seconds, nanoseconds};
  return mcg_sys(SYS_rt_sigtimedwait, (long)&signals, 0, (long)&time, KERNEL_SIGSET, 0);
}

/* The command becomes what the kernel kills first when memory runs out; not at once, for most are over
 * before they could fill any. Before its exec it cannot be written: the child shares init's memory, and so
 * its files in /proc are not its own, or with hidepid not there. They become its own a moment after vfork
 * lets us go on; what it has forked by then is told too. False: not yet. */
static bool raise_oom_score(int pid, unsigned adjust)
{
  char path[48];
  long result = write_oom_score(pid, adjust);
  if (result == -EACCES || result == -ENOENT) return false;
  if (result < 0) return true;
  size_t len = put_text(path, "/task/");
  len += put_decimal(path + len, (unsigned)pid);
  path[len + put_text(path + len, "/children")] = 0;
  each_child(open_of_process(pid, path, O_RDONLY), raise_child, adjust);
  return true;
}

static void note_exit(mcg_slot *slot, const siginfo_t *info, const struct rusage *usage)
{
  if (info->si_code == CLD_EXITED)
    slot->code = info->si_status;
  else
    slot->signo = info->si_status;
  slot->cpu_us = (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000 +
                 (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
  slot->maxrss_kb = (uint64_t)usage->ru_maxrss;
  stub_tell(slot, MCG_SLOT_EXITED);
}

static bool has_ended(const mcg_slot *slot)
{
  return atomic_load(&slot->flags) & MCG_SLOT_EXITED;
}

/* Takes every dead child. False: there is none left, dead or alive. */
static bool reap(mcg_slot *slot)
{
  for (;;) {
    siginfo_t info;
    struct rusage usage;
    info.si_pid = 0;
    long result =
        mcg_sys(SYS_waitid, P_ALL, 0, (long)&info, WEXITED | WNOHANG | __WALL, (long)&usage);
    if (result == -ECHILD) return false;
    if (result < 0 || info.si_pid == 0) return true;
    if (info.si_pid == slot->pid && !has_ended(slot)) note_exit(slot, &info, &usage);
  }
}

static void kill_child(int pid, unsigned signo)
{
  mcg_sys3(SYS_kill, pid, (long)signo, 0);
}

/* One round over the children of now; their own children become ours as they die. */
static void kill_children(void)
{
  long fd =
      mcg_sys(SYS_openat, AT_FDCWD, (long)"/proc/thread-self/children", O_RDONLY | O_CLOEXEC, 0, 0);
  each_child(fd, kill_child, SIGKILL);
}

/* Until nothing is left of the command. Each wake tells what init was not told yet. */
static void watch_tree(mcg_slot *slot, unsigned oom_adjust)
{
  int tries = oom_adjust ? OOM_TRIES : 0;
  bool told = false, told_end = false;
  for (;;) {
    bool left = reap(slot), ended = has_ended(slot);
    if (!left) stub_tell(slot, MCG_SLOT_GONE);
    if (!left || !told || ended != told_end) stub_wake(slot);
    if (!left) return;
    told = true;
    told_end = ended;
    if (atomic_load_explicit(&slot->kill, memory_order_acquire)) {
      kill_children();
      wait_signal(0, KILL_AGAIN_NS);
    } else if (tries > 0 && !ended) {
      bool first = tries-- == OOM_TRIES;
      if (wait_signal(0, first ? OOM_AFTER_NS : OOM_AGAIN_NS) > 0 && first) continue;
      if (raise_oom_score(slot->pid, oom_adjust)) tries = 0;
    } else {
      wait_signal(60, 0);
    }
  }
}

/* A command that init wants to know of before it ends is one that starts, or has. */
static void wait_started(mcg_slot *slot, long pid)
{
  const struct timespec patience = {0, STARTING_NS};
  while (atomic_load(&slot->starting)) {
    siginfo_t info;
    info.si_pid = 0;
    mcg_sys(SYS_futex, (long)&slot->starting, FUTEX_WAIT, 1, (long)&patience, 0);
    mcg_sys(SYS_waitid, P_PID, pid, (long)&info, WEXITED | WNOHANG | WNOWAIT, 0);
    if (info.si_pid) return;
  }
}

/* One command, from its start to the end of its tree. `ready`: the child that has started it; 0: none. */
static void run_launch(mcg_slot *slot, long ready)
{
  long pid = ready;
  if (ready)
    wait_started(slot, ready);
  else
    pid = start_child(slot);
  if (pid < 0) {
    slot->pidfd =
        -1; /* the kernel may have written a number that it took back: EAGAIN comes late */
    slot->error = (int)-pid;
    slot->step = MCG_STEP_FORK;
    stub_tell(slot, MCG_SLOT_REFUSED | MCG_SLOT_GONE);
    stub_wake(slot);
    return;
  }
  slot->pid = (int)pid; /* a child that was killed before its first step has not noted it */
  if (slot->ready_fd >= 0) slot->pidfd = slot->ready_fd; /* nor that it is a command's now */
  slot->ready_fd = -1;
  int adjust = slot->error == 0 ? slot->launch->oom_adjust : 0;
  stub_tell(slot, MCG_SLOT_STARTED); /* launch is init's to free from here on */
  watch_tree(slot, adjust > 0 ? (unsigned)adjust : 0);
}

/* Until the turn has come, or the ready child has died before it: the sandbox killed it. True: it has taken
 * the turn, or died of it. */
static bool watch_ready(mcg_slot *slot, int turn, long pid)
{
  siginfo_t info;
  for (;;) {
    info.si_pid = 0;
    mcg_sys(SYS_waitid, P_PID, pid, (long)&info, WEXITED | WNOHANG | WNOWAIT, 0);
    if (atomic_load(&slot->turn) != turn) return true;
    if (info.si_pid) break; /* dead, and the turn has not come yet */
    wait_signal(60, 0);
  }
  mcg_sys(SYS_waitid, P_PID, pid, (long)&info, WEXITED, 0);
  atomic_store(&slot->ready, 0);
  mcg_sys3(SYS_close, slot->ready_fd, 0, 0);
  slot->ready_fd = -1;
  return false;
}

static int stub_main(void *data)
{
  mcg_slot *slot = data;
  mcg_sys(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  for (unsigned launches = 0;; launches++) {
    int turn = slot->done_turn;
    /* A sandbox that has had one command may well be over: most are made for one. */
    bool early = launches != 1 && atomic_load(&slot->turn) == turn;
    long ready = early ? make_ready(slot, turn) : 0;
    if (ready > 0 && !watch_ready(slot, turn, ready)) ready = 0;
    wait_turn(slot, turn);
    slot->done_turn = atomic_load(&slot->turn);
    if (atomic_load(&slot->leave)) return 0;
    run_launch(slot, ready > 0 ? ready : 0);
  }
}

void mcg_stub_next(mcg_slot *slot, bool leave)
{
  atomic_store(&slot->leave, leave);
  atomic_fetch_add(&slot->turn, 1);
  mcg_sys3(SYS_futex, (long)&slot->turn, FUTEX_WAKE, 1);
}

void mcg_stub_end_ready(mcg_slot *slot)
{
  siginfo_t info;
  if (slot->ready_fd < 0) return;
  syscall(SYS_pidfd_send_signal, slot->ready_fd, SIGKILL, NULL, 0);
  while (syscall(SYS_waitid, P_PIDFD, slot->ready_fd, &info, WEXITED | __WALL, NULL) < 0 &&
         errno == EINTR) {
  }
  close(slot->ready_fd);
  slot->ready_fd = -1;
  atomic_store(&slot->ready, 0);
}

int mcg_stub_start(mcg_slot *slot, bool idle, int *pidfd)
{
  slot->done_turn = atomic_load(&slot->turn) - !idle;
  int flags = CLONE_VM | CLONE_FILES | CLONE_PIDFD | SIGCHLD;
  int pid = clone(stub_main, slot, flags, slot, pidfd);
  if (pid >= 0) return pid;
  *pidfd = -1; /* as above: whoever has the number now must not find it closed */
  return -errno;
}
