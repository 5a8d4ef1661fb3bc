/* Fibers: waits, wakes, deadlines, cancel, shields, stacks. */
#include "turning.h"
#include <fenv.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* What a fiber under test does, and what it has seen. */
typedef struct actor {
  mcg_engine *engine;
  mcg_wait *wait;
  int64_t timeout_ms;
  int rc;
  mcg_error *error;
  bool started, done;
  uint64_t from_ms, to_ms;
} actor;

static void parks(void *arg)
{
  actor *self = arg;
  self->started = true;
  self->from_ms = mcg_now_ms(self->engine);
  self->rc = mcg_wait_park(self->engine, self->wait, self->timeout_ms, &self->error);
  uv_update_time(self->engine->loop);
  self->to_ms = mcg_now_ms(self->engine);
  self->done = true;
}

static mcg_fiber *start(mcg_engine *engine, mcg_fiber_fn fn, void *arg)
{
  mcg_fiber *fiber = NULL;
  mcg_error *err = NULL;
  assert_int_equal(mcg_fiber_start(engine, fn, arg, &fiber, &err), 0);
  assert_null(err);
  return fiber;
}

static void turns(mcg_engine *engine, int count)
{
  while (count-- > 0) mcg_engine_turn(engine);
}

static void first_runs_on_a_later_turn(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  mcg_wait wait = {0};
  mcg_wait_wake(engine, &wait);
  actor a = {.engine = engine, .wait = &wait, .timeout_ms = -1};
  start(engine, parks, &a);
  assert_false(a.started);
  assert_int_equal(mcg_engine_timeout(engine), 0);
  turn_until(engine, &a.done);
  assert_int_equal(a.rc, 0);
  assert_null(mcg_fiber_current(engine));
  engine_end(engine);
}

static void a_wake_before_the_park_is_kept_once(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  mcg_wait wait;
  mcg_wait_init(&wait);
  mcg_wait_wake(engine, &wait);
  mcg_wait_wake(engine, &wait);
  actor a = {.engine = engine, .wait = &wait, .timeout_ms = -1};
  start(engine, parks, &a);
  turn_until(engine, &a.done);
  assert_int_equal(a.rc, 0);
  actor b = {.engine = engine, .wait = &wait, .timeout_ms = 5};
  start(engine, parks, &b);
  turn_until(engine, &b.done);
  assert_int_equal(b.rc, -1);
  assert_int_equal(code_of(&b.error), MCG_TIMEOUT);
  assert_true(b.to_ms - b.from_ms >= 5);
  engine_end(engine);
}

static void a_wake_from_outside_resumes_by_the_loop(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  mcg_wait wait = {0};
  actor a = {.engine = engine, .wait = &wait, .timeout_ms = -1};
  start(engine, parks, &a);
  turns(engine, 3);
  assert_true(a.started);
  assert_int_equal(mcg_engine_timeout(engine), -1);
  mcg_wait_wake(engine, &wait);
  assert_false(a.done);
  assert_int_equal(mcg_engine_timeout(engine), 0);
  turn_until(engine, &a.done);
  engine_end(engine);
}

/* Woken and then woken again before it has run: the second one must not be there for the next wait. */
static void a_wake_after_the_wait_is_dropped(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  mcg_wait wait = {0};
  actor a = {.engine = engine, .wait = &wait, .timeout_ms = -1};
  mcg_fiber *fiber = start(engine, parks, &a);
  turns(engine, 2);
  mcg_wait_wake(engine, &wait);
  mcg_wait_wake(engine, &wait);
  mcg_fiber_cancel(fiber); /* too late for this wait */
  turn_until(engine, &a.done);
  assert_int_equal(a.rc, 0);
  actor b = {.engine = engine, .wait = &wait, .timeout_ms = 1};
  start(engine, parks, &b);
  turn_until(engine, &b.done);
  assert_int_equal(code_of(&b.error), MCG_TIMEOUT);

  actor c = {.engine = engine, .wait = &wait, .timeout_ms = -1};
  fiber = start(engine, parks, &c);
  turns(engine, 2);
  mcg_fiber_cancel(fiber);
  mcg_wait_wake(engine, &wait); /* too late */
  turn_until(engine, &c.done);
  assert_int_equal(code_of(&c.error), MCG_CANCELED);
  actor d = {.engine = engine, .wait = &wait, .timeout_ms = 1};
  start(engine, parks, &d);
  turn_until(engine, &d.done);
  assert_int_equal(code_of(&d.error), MCG_TIMEOUT);
  engine_end(engine);
}

static void the_waker_may_free_the_wait(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  mcg_wait *wait = calloc(1, sizeof *wait);
  actor a = {.engine = engine, .wait = wait, .timeout_ms = -1};
  start(engine, parks, &a);
  turns(engine, 2);
  mcg_wait_wake(engine, wait);
  free(wait);
  turn_until(engine, &a.done);
  assert_int_equal(a.rc, 0);
  engine_end(engine);
}

static void parks_twice(void *arg)
{
  actor *self = arg;
  self->started = true;
  self->rc = mcg_wait_park(self->engine, self->wait, -1, &self->error);
  assert_int_equal(self->rc, -1);
  assert_int_equal(code_of(&self->error), MCG_CANCELED);
  self->rc = mcg_wait_park(self->engine, self->wait, -1, &self->error);
  self->done = true;
}

static void cancel_ends_this_wait_and_every_later_one(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  mcg_wait wait = {0};
  actor a = {.engine = engine, .wait = &wait};
  mcg_fiber *fiber = start(engine, parks_twice, &a);
  turns(engine, 2);
  assert_false(mcg_fiber_canceled(fiber));
  mcg_fiber_cancel(fiber);
  mcg_fiber_cancel(fiber);
  assert_true(mcg_fiber_canceled(fiber));
  turn_until(engine, &a.done);
  assert_int_equal(code_of(&a.error), MCG_CANCELED);

  actor b = {.engine = engine, .wait = &wait};
  fiber = start(engine, parks_twice, &b); /* cancelled before it has run at all */
  mcg_fiber_cancel(fiber);
  turn_until(engine, &b.done);
  assert_int_equal(code_of(&b.error), MCG_CANCELED);
  engine_end(engine);
}

static void shielded(void *arg)
{
  actor *self = arg;
  mcg_fiber_shield(self->engine, true);
  mcg_fiber_shield(self->engine, true);
  self->rc = mcg_fiber_sleep(self->engine, 3, &self->error);
  assert_int_equal(self->rc, 0);
  mcg_fiber_shield(self->engine, false);
  self->rc = mcg_wait_park(self->engine, self->wait, -1, &self->error);
  assert_int_equal(self->rc, 0);
  mcg_fiber_shield(self->engine, false);
  self->rc = mcg_fiber_sleep(self->engine, 3, &self->error);
  self->done = true;
}

static void a_shield_holds_cancel_off(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  mcg_wait wait = {0};
  actor a = {.engine = engine, .wait = &wait};
  mcg_fiber *fiber = start(engine, shielded, &a);
  turns(engine, 2);
  mcg_fiber_cancel(fiber);
  turns(engine, 2);
  assert_false(a.done);
  mcg_wait_wake(engine, &wait);
  turn_until(engine, &a.done);
  assert_int_equal(a.rc, -1);
  assert_int_equal(code_of(&a.error), MCG_CANCELED);
  engine_end(engine);
}

static void waiting_outside_is_an_error(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  mcg_wait wait = {0};
  mcg_error *err = NULL;
  assert_int_equal(mcg_wait_park(engine, &wait, 1, &err), -1);
  assert_int_equal(code_of(&err), MCG_INTERNAL);
  assert_int_equal(mcg_fiber_sleep(engine, 1, &err), -1);
  assert_int_equal(code_of(&err), MCG_INTERNAL);
  engine_end(engine);
}

static void two_may_not_park_at_one_wait(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  mcg_wait wait = {0};
  actor a = {.engine = engine, .wait = &wait, .timeout_ms = -1};
  actor b = a;
  start(engine, parks, &a);
  start(engine, parks, &b);
  turn_until(engine, &b.done);
  assert_int_equal(code_of(&b.error), MCG_INTERNAL);
  assert_false(a.done);
  mcg_wait_wake(engine, &wait);
  turn_until(engine, &a.done);
  assert_int_equal(a.rc, 0);
  engine_end(engine);
}

/* ---- work on a thread -------------------------------------------------------------------------- */

typedef struct labour {
  actor actor;
  long sum;
} labour;

static void sums(void *arg)
{
  labour *self = arg;
  for (long i = 1; i <= 1000; i++) self->sum += i;
}

static void works(void *arg)
{
  labour *self = arg;
  self->actor.started = true;
  self->actor.rc = mcg_fiber_work(self->actor.engine, sums, self, &self->actor.error);
  self->actor.done = true;
}

static void work_runs_on_a_thread_and_ignores_cancel(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  labour job = {.actor.engine = engine};
  mcg_fiber *fiber = start(engine, works, &job);
  turns(engine, 1);
  if (!job.actor.done) mcg_fiber_cancel(fiber);
  turn_until(engine, &job.actor.done);
  assert_int_equal(job.actor.rc, 0);
  assert_int_equal(job.sum, 500500);

  labour refused = {.actor.engine = engine};
  mcg_fiber_cancel(start(engine, works, &refused));
  turn_until(engine, &refused.actor.done);
  assert_int_equal(code_of(&refused.actor.error), MCG_CANCELED);
  assert_int_equal(refused.sum, 0);
  engine_end(engine);
}

/* ---- many -------------------------------------------------------------------------------------- */

typedef struct crowd {
  mcg_engine *engine;
  unsigned left, errors;
  bool done;
} crowd;

static void naps(void *arg)
{
  crowd *all = arg;
  mcg_error *err = NULL;
  if (mcg_fiber_sleep(all->engine, 20, &err) < 0) {
    all->errors++;
    mcg_error_free(err);
  }
  if (--all->left == 0) all->done = true;
}

static void ten_thousand_wait_at_once_and_one_more_is_quota(void **state)
{
  (void)state;
  mcg_engine_options options = {.size = sizeof options, .max_waits = 10000};
  mcg_engine *engine = engine_with(&options);
  mcg_error *err = NULL;
  for (int round = 0; round < 2; round++) { /* the second one on used stacks */
    crowd all = {.engine = engine, .left = 10000};
    for (unsigned i = 0; i < all.left; i++) start(engine, naps, &all);
    assert_int_equal(mcg_fiber_start(engine, naps, &all, NULL, &err), -1);
    assert_non_null(strstr(err->fix, "max_waits"));
    assert_true(err->retryable);
    assert_int_equal(code_of(&err), MCG_QUOTA);
    turn_until(engine, &all.done);
    assert_int_equal(all.errors, 0);
  }
  engine_end(engine);
}

typedef struct player {
  mcg_engine *engine;
  mcg_wait wait;
  struct player *other;
  unsigned hits;
  bool done;
} player;

static void plays(void *arg)
{
  player *self = arg;
  mcg_error *err = NULL;
  for (; self->hits < 1000; self->hits++) {
    mcg_wait_wake(self->engine, &self->other->wait);
    assert_int_equal(mcg_wait_park(self->engine, &self->wait, 5000, &err), 0);
  }
  mcg_wait_wake(self->engine, &self->other->wait);
  self->done = true;
}

static void fibers_wake_each_other(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  player a = {.engine = engine}, b = {.engine = engine, .other = &a};
  a.other = &b;
  start(engine, plays, &a);
  start(engine, plays, &b);
  turn_until(engine, &a.done);
  turn_until(engine, &b.done);
  assert_int_equal(a.hits + b.hits, 2000);
  engine_end(engine);
}

/* ---- stacks and registers ---------------------------------------------------------------------- */

static double third(double x)
{
  return x / 3.0;
}

static void rounds_up(void *arg)
{
  actor *self = arg;
  double (*volatile divide)(double) = third;
  fesetround(FE_UPWARD);
  double before = divide(1.0);
  self->rc = mcg_fiber_sleep(self->engine, 2, &self->error);
  self->started = divide(1.0) == before && fegetround() == FE_UPWARD;
  self->done = true;
}

static void the_rounding_mode_is_each_stacks_own(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  int mode = fegetround();
  actor a = {.engine = engine};
  start(engine, rounds_up, &a);
  turns(engine, 2);
  assert_int_equal(fegetround(), mode);
  turn_until(engine, &a.done);
  assert_true(a.started);
  assert_int_equal(fegetround(), mode);
  engine_end(engine);
}

__attribute__((noinline)) static int dig(volatile char *above, int depth)
{
  volatile char room[1024];
  memset((void *)room, depth, sizeof room);
  if (depth > 0) dig(room, depth - 1);
  return room[0] + (above ? above[0] : 0);
}

static void digs(void *arg)
{
  actor *self = arg;
  dig(NULL, (int)self->timeout_ms);
  self->done = true;
}

static void a_stack_is_deep_and_its_depth_is_known(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  actor a = {.engine = engine, .timeout_ms = 1};
  start(engine, digs, &a);
  turn_until(engine, &a.done);
  size_t shallow = mcg_fibers_high_water(engine);
  assert_true(shallow > 0 && shallow <= 64 << 10);
  a = (actor){.engine = engine, .timeout_ms = 150};
  start(engine, digs, &a);
  turn_until(engine, &a.done);
  assert_true(mcg_fibers_high_water(engine) >= 150 << 10);
  engine_end(engine);
}

static void an_overrun_hits_the_guard(void **state)
{
  (void)state;
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (int i = 1; i < 32; i++) signal(i, SIG_DFL);
    if (!freopen("/dev/null", "w", stderr)) _exit(1);
    mcg_engine *engine = engine_with(NULL);
    actor a = {.engine = engine, .timeout_ms = 100000};
    start(engine, digs, &a);
    turn_until(engine, &a.done);
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  bool faulted = WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
  bool reported = WIFEXITED(status) && WEXITSTATUS(status) > 1; /* AddressSanitizer's way */
  assert_true(faulted || reported);
}

typedef struct guest {
  mcg_engine *engine;
  mcg_fiber *fiber;
  unsigned errands, where; /* how often on the main stack; and then on the fiber */
  bool done;
  mcg_wait wait;
  int rc;
} guest;

static void errand(void *arg)
{
  guest *self = arg;
  assert_null(mcg_fiber_current(self->engine));
  if (++self->errands == 2) mcg_wait_wake(self->engine, &self->wait); /* before it waits */
  if (self->errands == 3) mcg_fiber_cancel(self->fiber);
}

static void goes_out(void *arg)
{
  guest *self = arg;
  mcg_wait_init(&self->wait);
  for (int i = 0; i < 2; i++) {
    mcg_fiber_leave(self->engine, errand, self);
    self->where += mcg_fiber_current(self->engine) == self->fiber;
  }
  assert_int_equal(mcg_wait_park(self->engine, &self->wait, -1, NULL), 0);
  mcg_fiber_leave(self->engine, errand, self);
  auto_error mcg_error *err = NULL;
  assert_int_equal(mcg_wait_park(self->engine, &self->wait, -1, &err), -1);
  self->rc = (int)err->code;
  self->done = true;
}

static void an_errand_is_run_on_the_main_stack(void **state)
{
  (void)state;
  guest g = {.engine = engine_with(NULL)};
  g.fiber = start(g.engine, goes_out, &g);
  turn_until(g.engine, &g.done);
  assert_int_equal(g.errands, 3);
  assert_int_equal(g.where, 2);
  assert_int_equal(g.rc, MCG_CANCELED);
  engine_end(g.engine);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_runs_on_a_later_turn),
      cmocka_unit_test(a_wake_before_the_park_is_kept_once),
      cmocka_unit_test(a_wake_from_outside_resumes_by_the_loop),
      cmocka_unit_test(a_wake_after_the_wait_is_dropped),
      cmocka_unit_test(the_waker_may_free_the_wait),
      cmocka_unit_test(cancel_ends_this_wait_and_every_later_one),
      cmocka_unit_test(a_shield_holds_cancel_off),
      cmocka_unit_test(waiting_outside_is_an_error),
      cmocka_unit_test(two_may_not_park_at_one_wait),
      cmocka_unit_test(work_runs_on_a_thread_and_ignores_cancel),
      cmocka_unit_test(ten_thousand_wait_at_once_and_one_more_is_quota),
      cmocka_unit_test(fibers_wake_each_other),
      cmocka_unit_test(the_rounding_mode_is_each_stacks_own),
      cmocka_unit_test(a_stack_is_deep_and_its_depth_is_known),
      cmocka_unit_test(an_overrun_hits_the_guard),
      cmocka_unit_test(an_errand_is_run_on_the_main_stack),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
