/* fiber.c: fibers and their one scheduler: stacks, the run queue, waits with deadlines.
 *
 * The queue is drained by the loop: by a check handle right after it has looked at descriptors, and
 * by a prepare handle right before, when all that runs on each turn has had its. An idle handle is
 * active while something is queued and so keeps the loop from sleeping.
 * Queueing is a pointer store: no system call. The check handle also keeps the loop alive while any
 * fiber lives. A fiber keeps its stack and its timer through all its lives; they go when the engine
 * closes. Nothing here knows what runs on a fiber. */
#include "decide/ask.h"
#include "fiber_switch.h"
#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN
#endif
#endif
#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define STACK_SIZE ((size_t)512 << 10)
#else
#define STACK_SIZE ((size_t)256 << 10)
#endif
#if defined(__has_include) && !defined(FIBER_ASAN)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif
#ifndef VALGRIND_STACK_REGISTER
#define VALGRIND_STACK_REGISTER(start, end) 0
#define VALGRIND_STACK_DEREGISTER(id) (void)(id)
#endif

#define WARM_MAX 128 /* resting stacks that keep their pages */

typedef enum wake_reason { BY_WAKE, BY_TIMEOUT, BY_CANCEL } wake_reason;
typedef enum fiber_state { RESTING, QUEUED, RUNNING, PARKED, ENDED } fiber_state;

typedef struct mcg_fibers mcg_fibers;

struct mcg_fiber {
  mcg_fibers *fibers;
  mcg_fiber *next;     /* in the run queue, or among the resting */
  mcg_fiber *all_next; /* of the engine */
  mcg_fiber_fn fn, ended;
  void *arg;
  fiber_state state;
  wake_reason reason;
  bool canceled;
  unsigned shields;
  mcg_wait *wait;            /* where it is parked */
  void (*errand)(void *arg); /* on the main stack, after which it goes on; or NULL */
  void *errand_arg;
  uv_timer_t timer;
  char *stack; /* above its guard page */
  unsigned stack_id;
  switch_context context;
#ifdef FIBER_ASAN
  void *fake_stack;
#endif
};

struct mcg_fibers {
  mcg_engine *engine;
  mcg_fiber *current;
  mcg_fiber *first, **end; /* run queue */
  size_t queued;
  mcg_fiber *warm, *cold; /* resting */
  unsigned warm_count, live;
  mcg_fiber *all;
  bool draining, held, log_waits;
  uv_idle_t idle;
  uv_prepare_t prepare;
  uv_check_t check;
  switch_context main_context;
#ifdef FIBER_ASAN
  const void *main_stack;
  size_t main_stack_size;
#endif
  size_t handles; /* still to be closed */
  void (*closed)(mcg_engine *engine);
};

static size_t page_size(void)
{
  return (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- switching, with what the sanitizers must be told ---------------------------------------- */

static void switch_in(mcg_fiber *fiber)
{
  mcg_fibers *fibers = fiber->fibers;
#ifdef FIBER_ASAN
  void *fake_stack;
  __sanitizer_start_switch_fiber(&fake_stack, fiber->stack, STACK_SIZE);
#endif
  switch_to(&fibers->main_context, &fiber->context);
#ifdef FIBER_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, NULL, NULL);
#endif
}

static void switched_in(mcg_fiber *fiber)
{
#ifdef FIBER_ASAN
  __sanitizer_finish_switch_fiber(fiber->fake_stack, &fiber->fibers->main_stack,
                                  &fiber->fibers->main_stack_size);
#else
  (void)fiber;
#endif
}

static void switch_out(mcg_fiber *fiber)
{
  mcg_fibers *fibers = fiber->fibers;
#ifdef FIBER_ASAN
  __sanitizer_start_switch_fiber(fiber->state == ENDED ? NULL : &fiber->fake_stack,
                                 fibers->main_stack, fibers->main_stack_size);
#endif
  switch_to(&fiber->context, &fibers->main_context);
  switched_in(fiber);
}

static void fiber_main(void *arg)
{
  mcg_fiber *fiber = arg;
  switched_in(fiber);
  fiber->fn(fiber->arg);
  fiber->state = ENDED;
  switch_out(fiber);
  abort(); /* an ended fiber is never resumed */
}

/* ---- the run queue ---------------------------------------------------------------------------- */

static void on_idle(uv_idle_t *idle);

static void enqueue(mcg_fiber *fiber)
{
  mcg_fibers *fibers = fiber->fibers;
  fiber->state = QUEUED;
  fiber->next = NULL;
  *fibers->end = fiber;
  fibers->end = &fiber->next;
  fibers->queued++;
  uv_idle_start(&fibers->idle, on_idle);
}

static mcg_fiber *dequeue(mcg_fibers *fibers)
{
  mcg_fiber *fiber = fibers->first;
  fibers->first = fiber->next;
  if (!fibers->first) fibers->end = &fibers->first;
  fibers->queued--;
  return fiber;
}

static void keep_alive(mcg_fibers *fibers)
{
  if (uv_is_closing((uv_handle_t *)&fibers->check)) return;
  if (fibers->live > 0 || fibers->held)
    uv_ref((uv_handle_t *)&fibers->check);
  else
    uv_unref((uv_handle_t *)&fibers->check);
}

static void rest(mcg_fiber *fiber)
{
  mcg_fibers *fibers = fiber->fibers;
#ifdef FIBER_ASAN
  ASAN_UNPOISON_MEMORY_REGION(fiber->stack, STACK_SIZE);
#endif
  fiber->state = RESTING;
  mcg_fiber **list = &fibers->warm;
  if (fibers->warm_count < WARM_MAX) {
    fibers->warm_count++;
  } else {
    madvise(fiber->stack, STACK_SIZE, MADV_DONTNEED);
    list = &fibers->cold;
  }
  fiber->next = *list;
  *list = fiber;
  fibers->live--;
  keep_alive(fibers);
  mcg_wait_wake(fibers->engine, &fibers->engine->fiber_ended);
}

static void say_log(mcg_fibers *fibers)
{
  if (!fibers->log_waits) return;
  fibers->log_waits = false;
  mcg_engine_flush_log(fibers->engine);
}

/* It parked, was woken by what its question was answered at once, and nobody else waits: it goes on
 * without another turn of the loop. */
static bool take_back(mcg_fiber *fiber)
{
  mcg_fibers *fibers = fiber->fibers;
  if (fiber->state != QUEUED || fibers->first != fiber || fibers->queued != 1) return false;
  dequeue(fibers);
  return true;
}

static bool run_errand(mcg_fiber *fiber)
{
  void (*errand)(void *arg) = fiber->errand;
  fiber->errand = NULL;
  if (errand) errand(fiber->errand_arg);
  return errand != NULL;
}

static void resume(mcg_fiber *fiber)
{
  mcg_fibers *fibers = fiber->fibers;
  bool again;
  do {
    fiber->state = RUNNING;
    fibers->current = fiber;
    switch_in(fiber);
    fibers->current = NULL;
    say_log(fibers); /* before the completion that it explains */
    again = run_errand(fiber);
    if (again || !fibers->engine->questions) continue;
    mcg_questions_deliver(fibers->engine);
    again = take_back(fiber);
  } while (again);
  if (fiber->state != ENDED) return;
  mcg_fiber_fn ended = fiber->ended;
  void *arg = fiber->arg;
  rest(fiber);
  if (ended) ended(arg);
}

/* Runs what is queued now. What that queues runs on the next turn, so that descriptors get theirs. */
static void drain(mcg_fibers *fibers)
{
  if (fibers->draining || fibers->current) return;
  fibers->draining = true;
  if (fibers->queued > 0) uv_update_time(fibers->engine->loop); /* deadlines count from now */
  for (size_t left = fibers->queued; left > 0; left--) resume(dequeue(fibers));
  fibers->draining = false;
  say_log(fibers);
  if (fibers->queued == 0 && !fibers->log_waits) uv_idle_stop(&fibers->idle);
}

static void on_idle(uv_idle_t *idle)
{
  (void)idle;
}

static void on_prepare(uv_prepare_t *prepare)
{
  drain(prepare->data);
}

static void on_check(uv_check_t *check)
{
  drain(check->data);
}

void mcg_fibers_kick(mcg_engine *engine)
{
  mcg_fibers *fibers = engine->fibers;
  if (!fibers || uv_is_closing((uv_handle_t *)&fibers->idle)) return;
  fibers->log_waits = true;
  uv_idle_start(&fibers->idle, on_idle);
}

void mcg_fibers_hold(mcg_engine *engine, bool on)
{
  if (!engine->fibers) return;
  engine->fibers->held = on;
  keep_alive(engine->fibers);
}

/* ---- starting --------------------------------------------------------------------------------- */

static int new_stack(mcg_fiber *fiber, mcg_error **err)
{
  size_t guard = page_size();
  char *base =
      mmap(NULL, guard + STACK_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (base == MAP_FAILED || mprotect(base + guard, STACK_SIZE, PROT_READ | PROT_WRITE) < 0) {
    int number = errno;
    if (base != MAP_FAILED) munmap(base, guard + STACK_SIZE);
    return mcg_fail_errno(
        err, number,
        "run fewer operations at once, or raise vm.max_map_count (two mappings for "
        "each) and the limit on address space",
        "map a stack for an operation");
  }
  fiber->stack = base + guard;
  fiber->stack_id = VALGRIND_STACK_REGISTER(fiber->stack, fiber->stack + STACK_SIZE);
  return 0;
}

static mcg_fiber *new_fiber(mcg_fibers *fibers, mcg_error **err)
{
  auto_free mcg_fiber *fiber = calloc(1, sizeof *fiber);
  if (!fiber) {
    mcg_fail(err, MCG_NOMEM, NULL, "no memory for an operation");
    return NULL;
  }
  if (new_stack(fiber, err) < 0) return NULL;
  fiber->fibers = fibers;
  uv_timer_init(fibers->engine->loop, &fiber->timer);
  fiber->timer.data = fiber;
  fiber->all_next = fibers->all;
  fibers->all = fiber;
  return mcg_steal_pointer(&fiber);
}

static mcg_fiber *take_resting(mcg_fibers *fibers)
{
  mcg_fiber **list = fibers->warm ? &fibers->warm : &fibers->cold;
  mcg_fiber *fiber = *list;
  if (!fiber) return NULL;
  if (list == &fibers->warm) fibers->warm_count--;
  *list = fiber->next;
  return fiber;
}

int mcg_fiber_run(mcg_engine *engine, mcg_fiber_fn fn, mcg_fiber_fn ended, void *arg, bool reserved,
                  mcg_fiber **out, mcg_error **err)
{
  mcg_fibers *fibers = engine->fibers;
  if (fibers->closed)
    return mcg_fail(err, MCG_UNAVAILABLE, "open a new engine", "the engine is closed");
  if (!reserved && fibers->live >= engine->max_waits)
    return mcg_fail(
        err, MCG_QUOTA, "wait for some to complete, or give mcg_engine_new a larger max_waits",
        "%u operations are under way, which is the most this engine takes", fibers->live);
  mcg_fiber *fiber = take_resting(fibers);
  if (!fiber) fiber = new_fiber(fibers, err);
  if (!fiber) return -1;
  fiber->fn = fn;
  fiber->ended = ended;
  fiber->arg = arg;
  fiber->canceled = false;
  fiber->shields = reserved ? 1 : 0;
  fiber->wait = NULL;
#ifdef FIBER_ASAN
  fiber->fake_stack = NULL;
#endif
  switch_prepare(&fiber->context, fiber->stack, STACK_SIZE, fiber_main, fiber);
  fibers->live++;
  keep_alive(fibers);
  enqueue(fiber);
  if (out) *out = fiber;
  return 0;
}

int mcg_fiber_start(mcg_engine *engine, mcg_fiber_fn fn, void *arg, mcg_fiber **out,
                    mcg_error **err)
{
  return mcg_fiber_run(engine, fn, NULL, arg, false, out, err);
}

mcg_fiber *mcg_fiber_current(const mcg_engine *engine)
{
  return engine->fibers ? engine->fibers->current : NULL;
}

/* ---- waiting ---------------------------------------------------------------------------------- */

/* The first to end a wait decides how it ended. */
static void unpark(mcg_fiber *fiber, wake_reason reason)
{
  if (fiber->state != PARKED) return;
  fiber->reason = reason;
  enqueue(fiber);
}

static void on_timer(uv_timer_t *timer)
{
  unpark(timer->data, BY_TIMEOUT);
}

static wake_reason park(mcg_fiber *fiber, mcg_wait *wait, int64_t timeout_ms)
{
  if (timeout_ms >= 0) uv_timer_start(&fiber->timer, on_timer, (uint64_t)timeout_ms, 0);
  fiber->wait = wait;
  wait->fiber = fiber;
  fiber->state = PARKED;
  switch_out(fiber);
  if (timeout_ms >= 0) uv_timer_stop(&fiber->timer);
  fiber->wait = NULL;
  /* Whoever woke it may have freed the wait since; otherwise it is the caller's and still there. */
  if (fiber->reason != BY_WAKE) *wait = (mcg_wait){0};
  return fiber->reason;
}

static bool is_parked_at(const mcg_wait *wait)
{
  return wait->fiber && wait->fiber->wait == wait;
}

static bool must_stop(const mcg_fiber *fiber)
{
  return fiber->canceled && fiber->shields == 0;
}

static int fail_canceled(mcg_error **err)
{
  return mcg_fail(err, MCG_CANCELED, NULL, "canceled");
}

static int fail_outside(mcg_error **err)
{
  return mcg_fail(err, MCG_INTERNAL, "start an operation and wait in it",
                  "a wait outside an operation");
}

void mcg_wait_init(mcg_wait *wait)
{
  *wait = (mcg_wait){0};
}

int mcg_wait_park(mcg_engine *engine, mcg_wait *wait, int64_t timeout_ms, mcg_error **err)
{
  mcg_fiber *fiber = engine->fibers->current;
  if (!fiber) return fail_outside(err);
  if (must_stop(fiber)) return fail_canceled(err);
  if (is_parked_at(wait))
    return mcg_fail(err, MCG_INTERNAL, NULL, "two operations wait at one point");
  if (wait->woken) {
    wait->woken = false;
    return 0;
  }
  wake_reason reason = timeout_ms == 0 ? BY_TIMEOUT : park(fiber, wait, timeout_ms);
  if (reason == BY_CANCEL) return fail_canceled(err);
  if (reason == BY_TIMEOUT)
    return mcg_fail(err, MCG_TIMEOUT, NULL, "timed out after %lld ms", (long long)timeout_ms);
  return 0;
}

void mcg_wait_wake(mcg_engine *engine, mcg_wait *wait)
{
  (void)engine;
  if (is_parked_at(wait))
    unpark(wait->fiber, BY_WAKE);
  else
    wait->woken = true;
}

int mcg_fiber_sleep(mcg_engine *engine, int64_t ms, mcg_error **err)
{
  mcg_fiber *fiber = engine->fibers->current;
  if (!fiber) return fail_outside(err);
  if (must_stop(fiber)) return fail_canceled(err);
  /* The loop's clock has whole milliseconds: one more, so that it is never early. */
  int64_t ticks = ms <= 0 ? 0 : ms < INT64_MAX ? ms + 1 : ms;
  mcg_wait wait;
  mcg_wait_init(&wait);
  return park(fiber, &wait, ticks) == BY_CANCEL ? fail_canceled(err) : 0;
}

void mcg_fiber_leave(mcg_engine *engine, void (*fn)(void *arg), void *arg)
{
  mcg_fiber *fiber = engine->fibers->current;
  assert(fiber);
  fiber->errand = fn;
  fiber->errand_arg = arg;
  switch_out(fiber);
}

void mcg_fiber_cancel(mcg_fiber *fiber)
{
  fiber->canceled = true;
  if (fiber->shields == 0) unpark(fiber, BY_CANCEL);
}

bool mcg_fiber_canceled(const mcg_fiber *fiber)
{
  return fiber->canceled;
}

bool mcg_fiber_stopped(const mcg_engine *engine)
{
  const mcg_fiber *fiber = engine->fibers->current;
  return fiber && must_stop(fiber);
}

void mcg_fiber_shield(mcg_engine *engine, bool on)
{
  mcg_fiber *fiber = engine->fibers->current;
  if (!fiber) return;
  if (on)
    fiber->shields++;
  else if (fiber->shields > 0)
    fiber->shields--;
}

typedef struct work {
  uv_work_t request;
  mcg_engine *engine;
  void (*fn)(void *arg);
  void *arg;
  bool done;
  mcg_wait wait;
} work;

static void on_work(uv_work_t *request)
{
  work *job = request->data;
  job->fn(job->arg);
}

static void on_work_done(uv_work_t *request, int status)
{
  (void)status; /* nobody cancels the request */
  work *job = request->data;
  job->done = true;
  mcg_wait_wake(job->engine, &job->wait);
}

int mcg_fiber_work(mcg_engine *engine, void (*fn)(void *arg), void *arg, mcg_error **err)
{
  mcg_fiber *fiber = engine->fibers->current;
  if (!fiber) return fail_outside(err);
  if (must_stop(fiber)) return fail_canceled(err);
  work job = {.engine = engine, .fn = fn, .arg = arg};
  job.request.data = &job;
  int rc = uv_queue_work(engine->loop, &job.request, on_work, on_work_done);
  if (rc < 0) return mcg_fail_errno(err, -rc, NULL, "hand work to a thread");
  mcg_fiber_shield(engine, true); /* the job is on this stack */
  while (!job.done) park(fiber, &job.wait, -1);
  mcg_fiber_shield(engine, false);
  return 0;
}

uint64_t mcg_now_ms(const mcg_engine *engine)
{
  return uv_now(engine->loop);
}

/* ---- all of them ------------------------------------------------------------------------------ */

int mcg_fibers_new(mcg_engine *engine, mcg_error **err)
{
  mcg_fibers *fibers = calloc(1, sizeof *fibers);
  if (!fibers) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an engine");
  fibers->engine = engine;
  fibers->end = &fibers->first;
  uv_idle_init(engine->loop, &fibers->idle);
  fibers->idle.data = fibers;
  uv_prepare_init(engine->loop, &fibers->prepare);
  fibers->prepare.data = fibers;
  uv_prepare_start(&fibers->prepare, on_prepare);
  uv_unref((uv_handle_t *)&fibers->prepare);
  uv_check_init(engine->loop, &fibers->check);
  fibers->check.data = fibers;
  uv_check_start(&fibers->check, on_check);
  uv_unref((uv_handle_t *)&fibers->check);
  engine->fibers = fibers;
  return 0;
}

unsigned mcg_fibers_live(const mcg_engine *engine)
{
  return engine->fibers->live;
}

void mcg_fibers_cancel_all(mcg_engine *engine)
{
  for (mcg_fiber *fiber = engine->fibers->all; fiber; fiber = fiber->all_next)
    if (fiber->state != RESTING && fiber != engine->fibers->current) mcg_fiber_cancel(fiber);
}

static void closed_one(mcg_fibers *fibers)
{
  if (--fibers->handles == 0) fibers->closed(fibers->engine);
}

static void on_timer_closed(uv_handle_t *timer)
{
  closed_one(((mcg_fiber *)timer->data)->fibers);
}

static void on_handle_closed(uv_handle_t *handle)
{
  closed_one(handle->data);
}

/* A turn later than whatever else was being closed: when ours are gone, so is that. */
static void on_check_closed(uv_handle_t *check)
{
  mcg_fibers *fibers = check->data;
  for (mcg_fiber *fiber = fibers->all; fiber; fiber = fiber->all_next) {
    fibers->handles++;
    uv_close((uv_handle_t *)&fiber->timer, on_timer_closed);
  }
  fibers->handles += 2;
  uv_close((uv_handle_t *)&fibers->idle, on_handle_closed);
  uv_close((uv_handle_t *)&fibers->prepare, on_handle_closed);
}

void mcg_fibers_close(mcg_engine *engine, void (*closed)(mcg_engine *engine))
{
  engine->fibers->closed = closed;
  uv_close((uv_handle_t *)&engine->fibers->check, on_check_closed);
}

void mcg_fibers_free(mcg_engine *engine)
{
  mcg_fibers *fibers = engine->fibers;
  if (!fibers) return;
  while (fibers->all) {
    mcg_fiber *fiber = fibers->all;
    fibers->all = fiber->all_next;
    VALGRIND_STACK_DEREGISTER(fiber->stack_id);
    munmap(fiber->stack - page_size(), page_size() + STACK_SIZE);
    free(fiber);
  }
  free(fibers);
  engine->fibers = NULL;
}

size_t mcg_fibers_high_water(const mcg_engine *engine)
{
  size_t page = page_size(), pages = STACK_SIZE / page, most = 0;
  for (const mcg_fiber *fiber = engine->fibers->all; fiber; fiber = fiber->all_next) {
    for (size_t i = 0; i < pages; i++) {
      unsigned char resident = 0;
      if (mincore(fiber->stack + i * page, page, &resident) < 0 || !(resident & 1)) continue;
      if (pages - i > most) most = pages - i;
      break;
    }
  }
  return most * page;
}
