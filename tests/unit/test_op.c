/* Operations: exactly one completion, from the loop, whatever happens and whenever. */
#include "turning.h"
#include <time.h>

typedef struct outcome {
  mcg_engine *engine;
  mcg_op *op;
  int completions;
  mcg_code code; /* when it failed */
  bool failed, done;
} outcome;

static void note(void *data, mcg_error *error)
{
  outcome *self = data;
  assert_null(mcg_fiber_current(self->engine));
  self->completions++;
  self->failed = error != NULL;
  if (error) self->code = code_of(&error);
  self->done = true;
}

static void sleeps(mcg_engine *engine, int64_t ms, outcome *out)
{
  mcg_error *err = NULL;
  *out = (outcome){.engine = engine};
  assert_int_equal(mcg_sleep(engine, ms, note, out, &out->op, &err), 0);
  assert_null(err);
  assert_int_equal(out->completions, 0);
}

static int64_t now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000ll + now.tv_nsec / 1000;
}

static void a_sleep_is_never_early(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  for (int ms = 0; ms < 12; ms++) {
    outcome it;
    int64_t from = now_us();
    sleeps(engine, ms, &it);
    turn_until(engine, &it.done);
    assert_false(it.failed);
    assert_true(now_us() - from >= ms * 1000);
  }
  engine_end(engine);
}

static void a_sleep_below_zero_is_refused(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  mcg_error *err = NULL;
  assert_int_equal(mcg_sleep(engine, -1, note, NULL, NULL, &err), -1);
  assert_int_equal(code_of(&err), MCG_INVALID);
  assert_int_equal(mcg_sleep(engine, 1, NULL, NULL, NULL, &err), 0); /* nobody wants to know */
  engine_end(engine);
}

static void cancel_before_it_began(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  outcome it;
  sleeps(engine, INT64_MAX, &it);
  mcg_op_cancel(it.op);
  mcg_op_cancel(it.op);
  assert_int_equal(it.completions, 0); /* never from inside a call */
  turn_until(engine, &it.done);
  assert_true(it.failed);
  assert_int_equal(it.code, MCG_CANCELED);
  assert_int_equal(it.completions, 1);
  engine_end(engine);
}

static void cancel_while_it_waits(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  outcome it;
  sleeps(engine, 1000000, &it);
  mcg_engine_turn(engine);
  mcg_engine_turn(engine);
  assert_true(mcg_engine_timeout(engine) > 0);
  mcg_op_cancel(it.op);
  assert_int_equal(it.completions, 0);
  turn_until(engine, &it.done);
  assert_int_equal(it.code, MCG_CANCELED);
  engine_end(engine);
}

typedef struct gate {
  outcome outcome;
  mcg_wait wait;
  mcg_engine *engine;
} gate;

static int gate_run(void *arg, mcg_error **err)
{
  gate *self = arg;
  return mcg_wait_park(self->engine, &self->wait, -1, err);
}

static void gate_complete(void *arg, mcg_error *error)
{
  gate *self = arg;
  mcg_op_cancel(self->outcome.op); /* still valid, and no use any more */
  note(&self->outcome, error);
}

static void cancel_when_it_had_finished(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  mcg_error *err = NULL;
  gate self = {.engine = engine, .outcome.engine = engine};
  assert_int_equal(mcg_op_start(engine, gate_run, gate_complete, &self, &self.outcome.op, &err), 0);
  mcg_engine_turn(engine);
  mcg_engine_turn(engine);
  mcg_wait_wake(engine, &self.wait); /* its wait is over: cancel comes too late */
  mcg_op_cancel(self.outcome.op);
  turn_until(engine, &self.outcome.done);
  assert_false(self.outcome.failed);
  assert_int_equal(self.outcome.completions, 1);
  engine_end(engine);
}

/* ---- errors of the operation itself --------------------------------------------------------- */

static int fails(void *arg, mcg_error **err)
{
  (void)arg;
  return mcg_fail(err, MCG_CONFLICT, NULL, "it was taken");
}

static void its_error_is_the_completions(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  outcome it = {.engine = engine};
  mcg_error *err = NULL;
  assert_int_equal(mcg_op_start(engine, fails, note, &it, NULL, &err), 0);
  turn_until(engine, &it.done);
  assert_int_equal(it.code, MCG_CONFLICT);
  engine_end(engine);
}

/* ---- completions that start more ------------------------------------------------------------ */

typedef struct chain {
  mcg_engine *engine;
  int left;
  bool inside, done;
} chain;

static void next_link(void *data, mcg_error *error)
{
  chain *self = data;
  assert_null(error);
  assert_false(self->inside);
  if (--self->left == 0) {
    self->done = true;
    return;
  }
  mcg_error *err = NULL;
  self->inside = true;
  assert_int_equal(mcg_sleep(self->engine, 0, next_link, self, NULL, &err), 0);
  self->inside = false;
}

static void a_completion_may_start_more(void **state)
{
  (void)state;
  mcg_engine_options options = {.size = sizeof options, .max_waits = 1};
  mcg_engine *engine = engine_with(&options); /* the one that completes counts no more */
  chain self = {.engine = engine, .left = 1000};
  mcg_error *err = NULL;
  assert_int_equal(mcg_sleep(engine, 0, next_link, &self, NULL, &err), 0);
  turn_until(engine, &self.done);
  engine_end(engine);
}

typedef struct killer {
  outcome *victims;
  size_t count;
  mcg_engine *engine;
  bool done;
} killer;

static void cancels_the_rest(void *data, mcg_error *error)
{
  killer *self = data;
  assert_null(error);
  for (size_t i = 0; i < self->count; i++)
    if (!self->victims[i].done) mcg_op_cancel(self->victims[i].op);
  self->done = true;
}

static void a_completion_may_cancel_others(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  outcome victims[64];
  for (size_t i = 0; i < 64; i++) sleeps(engine, i < 32 ? 3 : 1000000, &victims[i]);
  killer self = {.victims = victims, .count = 64, .engine = engine};
  mcg_error *err = NULL;
  assert_int_equal(mcg_sleep(engine, 3, cancels_the_rest, &self, NULL, &err), 0);
  turn_until(engine, &self.done);
  for (size_t i = 0; i < 64; i++) {
    turn_until(engine, &victims[i].done);
    assert_int_equal(victims[i].completions, 1);
    if (i >= 32) assert_int_equal(victims[i].code, MCG_CANCELED);
  }
  engine_end(engine);
}

/* ---- ten thousand --------------------------------------------------------------------------- */

static void ten_thousand_sleep_and_half_are_canceled(void **state)
{
  (void)state;
  enum { MANY = 10000 };
  mcg_engine *engine = engine_with(NULL);
  outcome *all = calloc(MANY, sizeof *all);
  for (size_t i = 0; i < MANY; i++) sleeps(engine, i % 2 ? 1000000 : 50, &all[i]);
  mcg_engine_turn(engine);
  for (size_t i = 1; i < MANY; i += 2) mcg_op_cancel(all[i].op);
  for (size_t i = 0; i < MANY; i++) turn_until(engine, &all[i].done);
  for (size_t i = 0; i < MANY; i++) {
    assert_int_equal(all[i].completions, 1);
    assert_int_equal(all[i].failed, i % 2);
  }
  free(all);
  engine_end(engine);
}

static void past_the_cap_is_quota_and_passes(void **state)
{
  (void)state;
  mcg_engine_options options = {.size = sizeof options, .max_waits = 2};
  mcg_engine *engine = engine_with(&options);
  outcome a, b, c = {.engine = engine};
  sleeps(engine, 1, &a);
  sleeps(engine, 1, &b);
  mcg_error *err = NULL;
  assert_int_equal(mcg_sleep(engine, 1, note, &c, &c.op, &err), -1);
  assert_non_null(err->fix);
  assert_int_equal(code_of(&err), MCG_QUOTA);
  turn_until(engine, &a.done);
  sleeps(engine, 1, &c);
  turn_until(engine, &c.done);
  turn_until(engine, &b.done);
  engine_end(engine);
}

/* ---- in any order --------------------------------------------------------------------------- */

typedef struct actor {
  mcg_engine *engine;
  mcg_op *op;
  mcg_wait wait;
  unsigned seed;
  int started, completions;
} actor;

static unsigned dice(unsigned *seed)
{
  *seed = *seed * 1103515245 + 12345;
  return *seed >> 16 & 0x7fff;
}

static int acts(void *arg, mcg_error **err)
{
  actor *self = arg;
  for (unsigned i = dice(&self->seed) % 4; i > 0; i--) {
    mcg_error *late = NULL;
    switch (dice(&self->seed) % 4) {
    case 0:
      if (mcg_fiber_sleep(self->engine, dice(&self->seed) % 3, err) < 0) return -1;
      break;
    case 1: /* a deadline is no failure here, cancel is */
      if (mcg_wait_park(self->engine, &self->wait, dice(&self->seed) % 3, &late) == 0) break;
      if (late->code == MCG_TIMEOUT) {
        mcg_error_free(late);
        break;
      }
      *err = late;
      return -1;
    case 2:
      mcg_fiber_shield(self->engine, true);
      assert_int_equal(mcg_fiber_sleep(self->engine, 1, &late), 0);
      mcg_fiber_shield(self->engine, false);
      break;
    default: return mcg_wait_park(self->engine, &self->wait, -1, err);
    }
  }
  return 0;
}

static void acted(void *arg, mcg_error *error)
{
  actor *self = arg;
  assert_null(mcg_fiber_current(self->engine));
  if (error) assert_int_equal(error->code, MCG_CANCELED);
  mcg_error_free(error);
  self->completions++;
  self->op = NULL;
}

static void whatever_the_order_one_completion_each(void **state)
{
  (void)state;
  enum { ACTORS = 200 };
  mcg_engine *engine = engine_with(NULL);
  actor *all = calloc(ACTORS, sizeof *all);
  unsigned seed = (unsigned)now_us();
  printf("seed %u\n", seed);
  for (unsigned i = 0; i < ACTORS; i++) all[i] = (actor){.engine = engine, .seed = seed + i};
  for (int round = 0; round < 20000; round++) {
    actor *it = &all[dice(&seed) % ACTORS];
    mcg_error *err = NULL;
    unsigned act = dice(&seed) % 8;
    if (!it->op && act < 5) {
      mcg_wait_init(&it->wait);
      assert_int_equal(mcg_op_start(engine, acts, acted, it, &it->op, &err), 0);
      it->started++;
    } else if (act == 5) {
      mcg_op_cancel(it->op);
    } else if (act == 6) {
      mcg_wait_wake(engine, &it->wait);
    } else {
      mcg_engine_turn(engine);
    }
    assert_int_equal(it->started - it->completions, it->op ? 1 : 0);
  }
  engine_end(engine); /* in the middle of it */
  for (unsigned i = 0; i < ACTORS; i++) {
    assert_null(all[i].op);
    assert_int_equal(all[i].started, all[i].completions);
    assert_true(all[i].started > 0);
  }
  free(all);
}

/* ---- taking down ---------------------------------------------------------------------------- */

static void taking_down_is_not_canceled_and_not_capped(void **state)
{
  (void)state;
  mcg_engine_options options = {.size = sizeof options, .max_waits = 1};
  mcg_engine *engine = engine_with(&options);
  outcome nap;
  sleeps(engine, 1000000, &nap);
  gate self = {.engine = engine, .outcome.engine = engine};
  mcg_error *err = NULL;
  assert_int_equal(
      mcg_op_start_teardown(engine, gate_run, gate_complete, &self, &self.outcome.op, &err), 0);
  mcg_op_cancel(self.outcome.op);
  mcg_engine_turn(engine);
  mcg_op_cancel(self.outcome.op);
  mcg_engine_turn(engine);
  assert_false(self.outcome.done);
  bool closed = false;
  assert_int_equal(mcg_engine_close(engine, note_closed, &closed, &err), 0);
  gate late = {.engine = engine, .outcome.engine = engine};
  assert_int_equal(
      mcg_op_start_teardown(engine, gate_run, gate_complete, &late, &late.outcome.op, &err), 0);
  for (int i = 0; i < 5; i++) mcg_engine_turn(engine);
  assert_true(nap.done);
  assert_false(closed);
  mcg_wait_wake(engine, &self.wait);
  mcg_wait_wake(engine, &late.wait);
  turn_until(engine, &closed);
  assert_false(self.outcome.failed);
  assert_false(late.outcome.failed);
  mcg_engine_free(engine);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_sleep_is_never_early),
      cmocka_unit_test(a_sleep_below_zero_is_refused),
      cmocka_unit_test(cancel_before_it_began),
      cmocka_unit_test(cancel_while_it_waits),
      cmocka_unit_test(cancel_when_it_had_finished),
      cmocka_unit_test(its_error_is_the_completions),
      cmocka_unit_test(a_completion_may_start_more),
      cmocka_unit_test(a_completion_may_cancel_others),
      cmocka_unit_test(ten_thousand_sleep_and_half_are_canceled),
      cmocka_unit_test(past_the_cap_is_quota_and_passes),
      cmocka_unit_test(whatever_the_order_one_completion_each),
      cmocka_unit_test(taking_down_is_not_canceled_and_not_capped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
