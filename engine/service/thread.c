/* thread.c: starting a thread on which no signal is taken. */
#include "thread.h"
#include <signal.h>

int mcg_thread_start(pthread_t *thread, void *(*main)(void *arg), void *arg)
{
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int number = pthread_create(thread, NULL, main, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return number;
}
