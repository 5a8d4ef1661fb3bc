/* late.c: a gateway for a sandbox that was made without one, while it runs.
 *
 * Its init has no right over its own network, and keeps none. A process for this alone enters that
 * network, makes there what gateway.c makes, and ends; it shares the spawner's descriptors, and so the
 * sockets are the spawner's. Where the network belongs to the host's root, the spawner's rights over it
 * are enough; else it belongs to the sandbox's user namespace, which is entered first: whoever made that
 * is its owner. */
#include "late.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <linux/sockios.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel.h"

typedef struct late { /* shared with the process that does it */
  mcg_gateway ways;
  int error; /* 0: made */
} late;

static bool enter(int net)
{
  if (setns(net, CLONE_NEWNET) == 0) return true;
  int owner = ioctl(net, NS_GET_USERNS);
  return owner >= 0 && setns(owner, CLONE_NEWUSER) == 0 && setns(net, CLONE_NEWNET) == 0;
}

static void work(late *shared, int net, bool redirect) __attribute__((noreturn));
static void work(late *shared, int net, bool redirect)
{
  if (!enter(net)) {
    shared->ways.failed = "enter the sandbox's network";
    shared->error = errno ? errno : EPERM;
  } else {
    shared->error = mcg_gateway_make(&shared->ways, redirect) < 0 ? errno : 0;
  }
  _exit(0);
}

/* Never the network that we are in ourselves, whatever was handed over. */
static bool is_ours(int net)
{
  struct stat theirs, ours;
  return fstat(net, &theirs) < 0 || stat("/proc/self/ns/net", &ours) < 0 ||
         (theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev);
}

static int run(late *shared, int net, bool redirect)
{
  mcg_clone_args args = {.flags = CLONE_FILES, .exit_signal = SIGCHLD};
  siginfo_t info;
  shared->error = EPROTO; /* unless it says otherwise */
  shared->ways.failed = "a process that ended early";
  pid_t pid = mcg_sys_clone3(&args);
  if (pid == 0) work(shared, net, redirect);
  if (pid < 0) {
    shared->ways.failed = "start a process";
    return -1;
  }
  while (waitid(P_PID, (id_t)pid, &info, WEXITED) < 0 && errno == EINTR) {
  }
  errno = shared->error;
  return shared->error ? -1 : 0;
}

int mcg_gateway_late(int net, bool redirect, mcg_gateway *out)
{
  mcg_gateway_init(out);
  if (net < 0 || is_ours(net)) {
    out->failed = "find the sandbox's network";
    if (net >= 0) errno = EINVAL;
    return -1;
  }
  late *shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    out->failed = "get memory";
    return -1;
  }
  mcg_gateway_init(&shared->ways);
  int rc = run(shared, net, redirect), error = errno;
  *out = shared->ways;
  munmap(shared, sizeof *shared);
  errno = error;
  return rc;
}

int mcg_net_of_socket(int fd)
{
  return ioctl(fd, SIOCGSKNS);
}
