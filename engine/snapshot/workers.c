/* workers.c: a queue, and up to two threads that take jobs from it. What is shared is the two lists and
 * the counts, under the lock; the loop is woken to tell of what is over. */
#include "workers.h"
#include "engine.h"
#include "service/thread.h"
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 2

typedef struct waker { /* outlives the workers until libuv has closed it */
  uv_async_t async;
  struct mcg_workers *workers;
} waker;

struct mcg_workers {
  mcg_engine *engine;
  waker *waker;
  pthread_t threads[THREADS_MAX];
  unsigned started, under_way; /* the loop's */
  pthread_mutex_t lock;
  pthread_cond_t wake;
  /* under the lock */
  mcg_job *first, **end;
  mcg_job *over, **over_end;
  unsigned idle;
  bool stop;
};

/* ---- the threads -------------------------------------------------------------------------- */

static void *thread_main(void *arg)
{
  struct mcg_workers *workers = arg;
  pthread_mutex_lock(&workers->lock);
  for (;;) {
    workers->idle++;
    while (!workers->first && !workers->stop) pthread_cond_wait(&workers->wake, &workers->lock);
    workers->idle--;
    mcg_job *job = workers->first;
    if (!job) break;
    workers->first = job->next;
    if (!workers->first) workers->end = &workers->first;
    pthread_mutex_unlock(&workers->lock);
    job->run(job);
    pthread_mutex_lock(&workers->lock);
    job->next = NULL;
    *workers->over_end = job;
    workers->over_end = &job->next;
    uv_async_send(&workers->waker->async);
  }
  pthread_mutex_unlock(&workers->lock);
  return NULL;
}

/* ---- the loop's side ---------------------------------------------------------------------- */

static void on_async(uv_async_t *async)
{
  struct mcg_workers *workers = ((waker *)async->data)->workers;
  if (!workers) return;
  pthread_mutex_lock(&workers->lock);
  mcg_job *list = workers->over;
  workers->over = NULL;
  workers->over_end = &workers->over;
  pthread_mutex_unlock(&workers->lock);
  while (list) {
    mcg_job *job = list;
    list = job->next;
    if (--workers->under_way == 0) uv_unref((uv_handle_t *)async);
    job->done(job);
  }
}

static void waker_closed(uv_handle_t *handle)
{
  free(handle->data);
}

static struct mcg_workers *workers_new(mcg_engine *engine, mcg_error **err)
{
  struct mcg_workers *workers = calloc(1, sizeof *workers);
  waker *made = calloc(1, sizeof *made);
  int rc = workers && made ? uv_async_init(engine->loop, &made->async, on_async) : UV_ENOMEM;
  if (rc < 0) {
    free(workers);
    free(made);
    return mcg_fail_errno(err, -rc, "raise the limit on open files (ulimit -n)",
                          "have a thread for archives wake the loop"),
           NULL;
  }
  uv_unref((uv_handle_t *)&made->async);
  made->async.data = made;
  made->workers = workers;
  *workers = (struct mcg_workers){.engine = engine, .waker = made};
  workers->end = &workers->first;
  workers->over_end = &workers->over;
  pthread_mutex_init(&workers->lock, NULL);
  pthread_cond_init(&workers->wake, NULL);
  return workers;
}

/* One more, where nobody waits for work. With one there is already a failure is no matter. */
static int add_thread(struct mcg_workers *workers, mcg_error **err)
{
  pthread_mutex_lock(&workers->lock);
  bool needed = !workers->idle;
  pthread_mutex_unlock(&workers->lock);
  if (workers->started && (!needed || workers->started == THREADS_MAX)) return 0;
  int number = mcg_thread_start(&workers->threads[workers->started], thread_main, workers);
  if (!number) workers->started++;
  if (!number || workers->started) return 0;
  return mcg_fail_errno(err, number, "raise the limit on processes (ulimit -u)",
                        "start a thread for archives");
}

int mcg_workers_post(mcg_engine *engine, mcg_job *job, mcg_error **err)
{
  if (!engine->workers && !(engine->workers = workers_new(engine, err))) return -1;
  struct mcg_workers *workers = engine->workers;
  if (add_thread(workers, err) < 0) return -1;
  if (workers->under_way++ == 0) uv_ref((uv_handle_t *)&workers->waker->async);
  pthread_mutex_lock(&workers->lock);
  job->next = NULL;
  *workers->end = job;
  workers->end = &job->next;
  pthread_cond_signal(&workers->wake);
  pthread_mutex_unlock(&workers->lock);
  return 0;
}

typedef struct errand {
  mcg_job job;
  mcg_engine *engine;
  void (*fn)(void *arg);
  void *arg;
  mcg_wait wait;
  bool over;
} errand;

static void errand_run(mcg_job *job)
{
  errand *self = (errand *)job;
  self->fn(self->arg);
}

static void errand_done(mcg_job *job)
{
  errand *self = (errand *)job;
  self->over = true;
  mcg_wait_wake(self->engine, &self->wait);
}

int mcg_workers_run(mcg_engine *engine, void (*fn)(void *arg), void *arg, mcg_error **err)
{
  errand self = {
      .job = {.run = errand_run, .done = errand_done}, .engine = engine, .fn = fn, .arg = arg};
  mcg_wait_init(&self.wait);
  if (mcg_workers_post(engine, &self.job, err) < 0) return -1;
  mcg_fiber_shield(engine, true);
  while (!self.over) {
    auto_error mcg_error *ignored = NULL;
    if (mcg_wait_park(engine, &self.wait, -1, &ignored) < 0) continue;
  }
  mcg_fiber_shield(engine, false);
  return 0;
}

void mcg_workers_end(mcg_engine *engine)
{
  struct mcg_workers *workers = mcg_steal_pointer(&engine->workers);
  if (!workers) return;
  pthread_mutex_lock(&workers->lock);
  workers->stop = true;
  pthread_cond_broadcast(&workers->wake);
  pthread_mutex_unlock(&workers->lock);
  for (unsigned i = 0; i < workers->started; i++) pthread_join(workers->threads[i], NULL);
  workers->waker->workers = NULL;
  uv_close((uv_handle_t *)&workers->waker->async, waker_closed);
  pthread_mutex_destroy(&workers->lock);
  pthread_cond_destroy(&workers->wake);
  free(workers);
}
