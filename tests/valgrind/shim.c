/* shim.c: lets the engine open sandboxes under valgrind 3.19, which knows no pidfd calls: preloaded, it
 * has a helper outside of valgrind make them, and takes the descriptors over a socket. */
#define _GNU_SOURCE
#include "pidfd.h"
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
__attribute__((visibility("default"))) long syscall(long number, ...);

static int helper = -1;
static pid_t helper_of; /* a forked child has one of its own */

static int start_helper(void)
{
  int pair[2];
  pid_t pid;
  posix_spawn_file_actions_t actions;
  char *argv[] = {PIDFD_HELPER, NULL}, *no_environment[] = {NULL};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) return -1;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pair[1], 3);
  int rc = posix_spawn(&pid, PIDFD_HELPER, &actions, NULL, argv, no_environment);
  posix_spawn_file_actions_destroy(&actions);
  close(pair[1]);
  if (rc != 0) {
    close(pair[0]);
    errno = rc;
    return -1;
  }
  waitpid(pid, NULL, 0);
  helper = pair[0];
  helper_of = getpid();
  return 0;
}

static long ask(const pidfd_question *question, int fd)
{
  pidfd_question answer;
  int got = -1;
  if (helper_of != getpid() && start_helper() < 0) return -1;
  if (pidfd_send(helper, question, fd) < 0 || pidfd_receive(helper, &answer, &got) <= 0) return -1;
  if (answer.value < 0) {
    errno = answer.number;
    return -1;
  }
  return got >= 0 ? got : answer.value;
}

long syscall(long number, ...)
{
  static long (*real)(long number, ...);
  long a[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_pidfd_open)
    return ask(&(pidfd_question){.what = PIDFD_OPEN, .value = (int)a[0]}, -1);
  if (number == SYS_pidfd_send_signal)
    return ask(&(pidfd_question){.what = PIDFD_SIGNAL, .value = (int)a[1]}, (int)a[0]);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "syscall");
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
