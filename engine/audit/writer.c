/* writer.c: brings lines to a sink. Where the sink is quick and idle the loop writes itself; else a
 * thread of the sink's own takes all that has gathered as one batch, so that a thousand commands share
 * one fdatasync. The thread comes with the first line that has to wait.
 *
 * Nothing here is shared but the queue, under its lock. The sink belongs to the thread while `busy`,
 * and to the loop otherwise. */
#include "service/thread.h"
#include "sink.h"
#include <stdlib.h>
#include <string.h>

#define OWED_MAX 4096              /* lines kept for a sink that fails */
#define LAST_WAIT_NS 1000000000ULL /* for another process, when the engine ends */

typedef struct waker { /* outlives the writer until libuv has closed it */
  uv_async_t async;
  struct mcg_writer *writer;
} waker;

struct mcg_writer {
  mcg_sink *sink;
  waker *waker; /* NULL: no thread yet */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  /* under the lock */
  mcg_delivery *first, **end;
  mcg_delivery *answered, **answered_end;
  mcg_error *complaint; /* why lines are owed: for the log */
  bool busy, stop;
  /* of whoever has the sink */
  mcg_delivery *owed;
  size_t owed_count;
  bool failing;
  atomic_size_t dropped; /* lines that nobody will write any more */
  atomic_bool stuck;     /* somebody gave up waiting for another process */
};

static void list_add(mcg_delivery ***end, mcg_delivery *delivery)
{
  delivery->next = NULL;
  **end = delivery;
  *end = &delivery->next;
}

static void delivery_free(mcg_delivery *delivery)
{
  mcg_line *line = delivery->line;
  if (delivery != &line->first) free(delivery);
  mcg_line_unref(line);
}

/* ---- one batch, by whoever has the sink ----------------------------------------------------- */

typedef struct mcg_batch {
  mcg_delivery *list;
  mcg_error *error; /* what failed it */
} mcg_batch;

/* 1: it would have to wait; everything is as it was. */
static int batch_write(struct mcg_writer *writer, mcg_batch *batch, bool may_wait)
{
  mcg_delivery **join = &writer->owed;
  while (*join) join = &(*join)->next;
  *join = batch->list; /* what is owed goes first */
  int rc = writer->sink->type->write(writer->sink, writer->owed, may_wait, &batch->error);
  *join = NULL;
  if (rc != 0) return rc;
  writer->failing = false;
  writer->stuck = false;
  writer->owed_count = 0;
  if (writer->owed) { /* now written: to be freed by the loop */
    *join = batch->list;
    batch->list = writer->owed;
    writer->owed = NULL;
  }
  return 0;
}

static mcg_delivery *delivery_begin(mcg_delivery *delivery, mcg_line *line)
{
  if (!delivery) return NULL;
  *delivery = (mcg_delivery){.line = line};
  line->refs++;
  return delivery;
}

static mcg_delivery *delivery_new(mcg_line *line)
{
  return delivery_begin(malloc(sizeof(mcg_delivery)), line);
}

/* The loop's: the line's own one is taken once. */
static mcg_delivery *delivery_first(mcg_line *line)
{
  if (line->sent) return delivery_new(line);
  line->sent = true;
  return delivery_begin(&line->first, line);
}

/* After a failure: lines of what has happened already are kept. */
static void keep_owed(struct mcg_writer *writer, const mcg_delivery *list)
{
  mcg_delivery **end = &writer->owed;
  while (*end) end = &(*end)->next;
  for (; list; list = list->next) {
    if (list->posting && !list->posting->keeps) continue;
    mcg_delivery *kept = writer->owed_count < OWED_MAX ? delivery_new(list->line) : NULL;
    if (!kept) {
      writer->dropped++;
      continue;
    }
    list_add(&end, kept);
    writer->owed_count++;
  }
}

/* On the loop: what was written or has failed is told to those who wait. */
static void answer(mcg_delivery *list)
{
  while (list) {
    mcg_delivery *next = list->next;
    mcg_posting *posting = list->posting;
    if (posting) {
      if (list->error) {
        posting->failed |= 1u << list->index;
        if (!posting->error) posting->error = mcg_steal_pointer(&list->error);
      }
      if (--posting->left == 0) mcg_wait_wake(posting->engine, &posting->wait);
    }
    mcg_error_free(list->error);
    delivery_free(list);
    list = next;
  }
}

static void warn(mcg_sink *sink)
{
  auto_free char *warning = atomic_exchange(&sink->warning, NULL);
  if (warning) mcg_log(sink->engine, MCG_LOG_WARNING, "%s", warning);
}

static void tag_failure(mcg_delivery *list, const mcg_error *error)
{
  for (; list; list = list->next)
    if (list->posting) list->error = mcg_error_copy(error);
}

static void complain(struct mcg_writer *writer, mcg_error *take_error)
{
  mcg_log(writer->sink->engine, MCG_LOG_ERROR, "%s; lines are kept until it can be written again",
          take_error->message);
  mcg_error_free(take_error);
}

static void say_held(const struct mcg_writer *writer, mcg_error **err)
{
  const char *place = writer->sink->place;
  mcg_fail(err, MCG_AUDIT_FAILED,
           "end the process that holds it (lslocks shows it), or write elsewhere with --audit FILE",
           "the audit log %s: another process holds its lock", place ? place : "");
}

/* ---- the thread ----------------------------------------------------------------------------- */

static mcg_delivery **take_queue(struct mcg_writer *writer, mcg_delivery **end)
{
  while (*end) end = &(*end)->next;
  *end = writer->first;
  writer->first = NULL;
  return writer->end = &writer->first;
}

static bool gives_up(const mcg_delivery *delivery)
{
  return delivery->posting && delivery->posting->given_up;
}

/* Patience is over: in the batch are left those who gave up, the others have their places again. What
 * is kept is kept together: it stays in its order. */
static void put_back(struct mcg_writer *writer, mcg_batch *batch)
{
  bool keep = writer->stop;
  mcg_delivery **back = take_queue(writer, &batch->list), **left = &batch->list;
  for (mcg_delivery *at = batch->list; at; at = at->next)
    keep |= gives_up(at) && at->posting->keeps;
  for (mcg_delivery *at = batch->list, *next; at; at = next) {
    bool kept = !at->posting || at->posting->keeps;
    next = at->next;
    list_add(writer->stop || gives_up(at) || (keep && kept) ? &left : &back, at);
  }
  *left = NULL;
  writer->end = back;
  if (!writer->stop) writer->sink->patience = 0;
  if (batch->list) writer->stuck = true;
  if (batch->list) say_held(writer, &batch->error);
}

static void thread_batch(struct mcg_writer *writer)
{
  mcg_batch batch = {0};
  take_queue(writer, &batch.list);
  writer->busy = true;
  pthread_mutex_unlock(&writer->lock);
  mcg_error *complaint = NULL;
  int rc = batch_write(writer, &batch, true);
  pthread_mutex_lock(&writer->lock);
  if (rc > 0) put_back(writer, &batch);
  if (batch.error) {
    tag_failure(batch.list, batch.error);
    keep_owed(writer, batch.list);
    if (!writer->failing && writer->owed) complaint = mcg_error_copy(batch.error);
    writer->failing = writer->owed != NULL;
    mcg_error_free(batch.error);
  }
  writer->busy = false;
  *writer->answered_end = batch.list;
  while (*writer->answered_end) writer->answered_end = &(*writer->answered_end)->next;
  if (complaint && !writer->complaint)
    writer->complaint = complaint;
  else
    mcg_error_free(complaint);
  uv_async_send(&writer->waker->async);
}

static void *thread_main(void *arg)
{
  struct mcg_writer *writer = arg;
  pthread_mutex_lock(&writer->lock);
  for (;;) {
    while (!writer->first && !writer->stop) pthread_cond_wait(&writer->wake, &writer->lock);
    if (!writer->first) break;
    thread_batch(writer);
  }
  pthread_mutex_unlock(&writer->lock);
  return NULL;
}

static void take_answers(struct mcg_writer *writer)
{
  pthread_mutex_lock(&writer->lock);
  mcg_delivery *list = writer->answered;
  mcg_error *complaint = mcg_steal_pointer(&writer->complaint);
  writer->answered = NULL;
  writer->answered_end = &writer->answered;
  pthread_mutex_unlock(&writer->lock);
  answer(list);
  warn(writer->sink);
  if (complaint) complain(writer, complaint);
}

static void on_async(uv_async_t *async)
{
  struct mcg_writer *writer = ((waker *)async->data)->writer;
  if (writer) take_answers(writer);
}

static void waker_closed(uv_handle_t *handle)
{
  free(handle->data);
}

static int thread_start(struct mcg_writer *writer, mcg_error **err)
{
  waker *made = calloc(1, sizeof *made);
  if (!made) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the audit log");
  int rc = uv_async_init(writer->sink->engine->loop, &made->async, on_async);
  if (rc < 0) {
    free(made);
    return mcg_fail(err, MCG_AUDIT_FAILED, "raise the limit on open files (ulimit -n)",
                    "the audit log: have its thread wake the loop: %s", uv_strerror(rc));
  }
  uv_unref((uv_handle_t *)&made->async);
  made->async.data = made;
  made->writer = writer;
  writer->waker = made;
  int number = mcg_thread_start(&writer->thread, thread_main, writer);
  if (!number) return 0;
  writer->waker = NULL;
  made->writer = NULL;
  uv_close((uv_handle_t *)&made->async, waker_closed);
  return mcg_fail(err, MCG_AUDIT_FAILED, "raise the limit on processes (ulimit -u)",
                  "the audit log: start its thread: %s", strerror(number));
}

/* ---- the loop's side ------------------------------------------------------------------------ */

int mcg_writer_new(mcg_sink *sink, mcg_error **err)
{
  struct mcg_writer *writer = calloc(1, sizeof *writer);
  if (!writer) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the audit log");
  writer->sink = sink;
  writer->end = &writer->first;
  writer->answered_end = &writer->answered;
  pthread_mutex_init(&writer->lock, NULL);
  pthread_cond_init(&writer->wake, NULL);
  sink->writer = writer;
  return 0;
}

void mcg_writer_give_up(struct mcg_writer *writer, mcg_posting *posting)
{
  if (!writer->waker) return; /* all of it was answered */
  pthread_mutex_lock(&writer->lock);
  posting->given_up = true;
  writer->sink->patience = 1; /* long past */
  pthread_mutex_unlock(&writer->lock);
}

bool mcg_writer_is_stuck(const struct mcg_writer *writer)
{
  return writer->stuck;
}

static bool idle(struct mcg_writer *writer)
{
  if (!writer->waker) return true;
  pthread_mutex_lock(&writer->lock);
  bool nothing = !writer->busy && !writer->first;
  pthread_mutex_unlock(&writer->lock);
  return nothing;
}

bool mcg_writer_at_rest(struct mcg_writer *writer)
{
  if (!writer->waker) return !writer->owed;
  pthread_mutex_lock(&writer->lock);
  bool rests = !writer->busy && !writer->first && !writer->answered && !writer->owed;
  pthread_mutex_unlock(&writer->lock);
  return rests;
}

bool mcg_writer_owes(struct mcg_writer *writer)
{
  return !mcg_writer_at_rest(writer) || writer->dropped;
}

/* True: it was written, or has failed, here and now. */
static bool try_here(struct mcg_writer *writer, mcg_delivery *delivery)
{
  mcg_batch batch = {.list = delivery};
  if (!writer->sink->quick || !idle(writer)) return false;
  int rc = batch_write(writer, &batch, false);
  if (rc > 0) return false;
  if (rc < 0) {
    tag_failure(batch.list, batch.error);
    keep_owed(writer, batch.list);
    if (!writer->failing && writer->owed)
      complain(writer, mcg_steal_pointer(&batch.error));
    else
      mcg_error_free(batch.error);
    writer->failing = writer->owed != NULL;
  }
  answer(batch.list);
  warn(writer->sink);
  return true;
}

/* Of what has happened already nobody else will say so. */
static void lose(struct mcg_writer *writer, const mcg_posting *posting, const mcg_error *error)
{
  if (posting && !posting->keeps) return;
  writer->dropped++;
  mcg_log(writer->sink->engine, MCG_LOG_ERROR, "an audit line is lost: %s", error->message);
}

static void refuse_post(mcg_sink *sink, unsigned index, mcg_posting *posting)
{
  mcg_error *error = NULL;
  mcg_fail(&error, MCG_NOMEM, NULL, "no memory for the audit log");
  lose(sink->writer, posting, error);
  if (posting) posting->failed |= 1u << index;
  if (posting && !posting->error) posting->error = mcg_steal_pointer(&error);
  mcg_error_free(error);
}

void mcg_writer_post(mcg_sink *sink, mcg_line *line, unsigned index, mcg_posting *posting)
{
  struct mcg_writer *writer = sink->writer;
  mcg_error *error = NULL;
  mcg_delivery *delivery = delivery_first(line);
  if (!delivery) {
    refuse_post(sink, index, posting);
    return;
  }
  if (posting) posting->left++;
  delivery->posting = posting;
  delivery->index = index;
  if (try_here(writer, delivery)) return;
  if (!writer->waker && thread_start(writer, &error) < 0) {
    delivery->error = error;
    lose(writer, posting, error);
    answer(delivery);
    return;
  }
  pthread_mutex_lock(&writer->lock);
  list_add(&writer->end, delivery);
  if (!writer->busy) pthread_cond_signal(&writer->wake);
  pthread_mutex_unlock(&writer->lock);
}

/* The last try for what is owed. */
static size_t settle(struct mcg_writer *writer)
{
  mcg_batch batch = {0};
  int rc = writer->owed ? batch_write(writer, &batch, true) : 0;
  if (rc > 0) say_held(writer, &batch.error);
  size_t lost = writer->dropped + (rc != 0 ? writer->owed_count : 0);
  if (lost)
    mcg_log(writer->sink->engine, MCG_LOG_ERROR, "%zu audit line%s lost%s%s", lost,
            lost == 1 ? " is" : "s are", batch.error ? ": " : "",
            batch.error ? batch.error->message : "");
  mcg_error_free(batch.error);
  answer(batch.list);
  answer(writer->owed);
  return lost;
}

size_t mcg_writer_free(struct mcg_writer *writer)
{
  if (!writer) return 0;
  writer->sink->patience = uv_hrtime() + LAST_WAIT_NS;
  if (writer->waker) {
    pthread_mutex_lock(&writer->lock);
    writer->stop = true;
    pthread_cond_signal(&writer->wake);
    pthread_mutex_unlock(&writer->lock);
    pthread_join(writer->thread, NULL);
    take_answers(writer);
    writer->waker->writer = NULL;
    uv_close((uv_handle_t *)&writer->waker->async, waker_closed);
  }
  size_t lost = settle(writer);
  pthread_mutex_destroy(&writer->lock);
  pthread_cond_destroy(&writer->wake);
  free(writer);
  return lost;
}
