/* thread.h: a thread of the engine's own. Signals are the host's affair: none is taken on it. */
#ifndef MCG_THREAD_H
#define MCG_THREAD_H

#include <pthread.h>

int mcg_thread_start(pthread_t *thread, void *(*main)(void *arg), void *arg); /* 0, or the errno */

#endif
