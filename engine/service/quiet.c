/* quiet.c: holds SIGPIPE back around a write. */
#include "quiet.h"
#include <errno.h>
#include <pthread.h>
#include <time.h>

static sigset_t pipe_only(void)
{
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

void mcg_quiet_begin(mcg_quiet *quiet)
{
  const sigset_t set = pipe_only();
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  quiet->was_pending = sigismember(&pending, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, &quiet->before);
}

void mcg_quiet_end(const mcg_quiet *quiet, bool broken)
{
  int saved = errno;
  if (broken && !quiet->was_pending) {
    const sigset_t set = pipe_only();
    const struct timespec now = {0, 0};
    while (sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
  errno = saved;
}
