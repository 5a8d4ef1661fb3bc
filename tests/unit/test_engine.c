/* An engine's life: options, backends, loops of its own and of the host, log, close. */
#include "turning.h"
#include <sys/resource.h>

typedef struct waiter {
  mcg_engine *engine;
  int completions;
  mcg_code code;
  bool done;
} waiter;

static void note(void *data, mcg_error *error)
{
  waiter *self = data;
  self->completions++;
  self->done = true;
  if (error) self->code = code_of(&error);
}

static void sleeps(waiter *self, int64_t ms)
{
  mcg_error *err = NULL;
  assert_int_equal(mcg_sleep(self->engine, ms, note, self, NULL, &err), 0);
}

/* ---- options -------------------------------------------------------------------------------- */

static void init_comes_from_options_environment_or_installation(void **state)
{
  (void)state;
  char *before = getenv("MOONCAGE_INIT");
  auto_free char *saved = before ? strdup(before) : NULL;
  mcg_engine_options options = {.size = sizeof options, .init_path = "/opt/given"};
  setenv("MOONCAGE_INIT", "/opt/environment", 1);
  mcg_engine *engine = engine_with(&options);
  assert_string_equal(engine->init_path, "/opt/given");
  engine_end(engine);
  engine = engine_with(NULL);
  assert_string_equal(engine->init_path, "/opt/environment");
  engine_end(engine);
  setenv("MOONCAGE_INIT", "", 1);
  engine = engine_with(NULL);
  assert_non_null(strstr(engine->init_path, "/mooncage/mooncage-init"));
  assert_int_equal(engine->init_path[0], '/');
  engine_end(engine);
  unsetenv("MOONCAGE_INIT");
  if (saved) setenv("MOONCAGE_INIT", saved, 1);
}

static void other_versions_of_the_options_are_understood(void **state)
{
  (void)state;
  mcg_engine *engine = NULL;
  mcg_error *err = NULL;
  mcg_engine_options zero = {0};
  assert_int_equal(mcg_engine_new(&zero, &engine, &err), -1);
  assert_non_null(strstr(err->fix, "sizeof"));
  assert_int_equal(code_of(&err), MCG_INVALID);

  mcg_engine_options shorter = {.size = offsetof(mcg_engine_options, max_waits), .max_waits = 1};
  engine = engine_with(&shorter);
  assert_int_equal(engine->max_waits, 16000);
  engine_end(engine);

  struct {
    mcg_engine_options known;
    long unknown;
  } longer = {.known = {.size = sizeof longer, .max_waits = 3}};
  engine = engine_with(&longer.known);
  assert_int_equal(engine->max_waits, 3);
  engine_end(engine);
  longer.unknown = 1;
  assert_int_equal(mcg_engine_new(&longer.known, &engine, &err), -1);
  assert_int_equal(code_of(&err), MCG_UNSUPPORTED);
}

static void backends_are_found_and_added(void **state)
{
  (void)state;
  static const mcg_backend mine = {.id = "mine"}, twin = {.id = "mine"}, nameless = {.id = ""};
  mcg_engine *engine = engine_with(NULL);
  mcg_error *err = NULL;
  assert_null(mcg_engine_backend(engine, "mine"));
  assert_int_equal(mcg_engine_add_backend(engine, &mine, &err), 0);
  assert_ptr_equal(mcg_engine_backend(engine, "mine"), &mine);
  assert_int_equal(mcg_engine_add_backend(engine, &twin, &err), -1);
  assert_int_equal(code_of(&err), MCG_CONFLICT);
  assert_int_equal(mcg_engine_add_backend(engine, &nameless, &err), -1);
  assert_int_equal(code_of(&err), MCG_INVALID);
  assert_int_equal(mcg_engine_add_backend(engine, NULL, &err), -1);
  assert_int_equal(code_of(&err), MCG_INVALID);
  engine_end(engine);
}

/* ---- loops ---------------------------------------------------------------------------------- */

static void an_idle_engine_does_not_keep_a_hosts_loop(void **state)
{
  (void)state;
  uv_loop_t loop;
  assert_int_equal(uv_loop_init(&loop), 0);
  mcg_engine_options options = {.size = sizeof options, .loop = &loop};
  mcg_engine *engine = engine_with(&options);
  assert_ptr_equal(mcg_engine_loop(engine), &loop);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0); /* returns */

  waiter nap = {.engine = engine};
  sleeps(&nap, 20);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0); /* as long as something is under way */
  assert_true(nap.done);

  waiter long_nap = {.engine = engine};
  sleeps(&long_nap, 1000000);
  waiter end = {0};
  mcg_error *err = NULL;
  assert_int_equal(mcg_engine_close(engine, note, &end, &err), 0);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_true(end.done);
  assert_int_equal(long_nap.code, MCG_CANCELED);
  assert_int_equal(uv_loop_close(&loop), 0); /* nothing of ours is in it */
  mcg_engine_free(engine);
}

typedef struct last {
  mcg_engine *engine;
  uv_loop_t *loop;
  bool done;
} last;

static void frees_at_once(void *data, mcg_error *error)
{
  last *self = data;
  assert_null(error);
  mcg_engine_free(self->engine);
  if (self->loop) assert_int_equal(uv_loop_alive(self->loop), 0);
  self->done = true;
}

static void the_completion_of_close_may_free(void **state)
{
  (void)state;
  uv_loop_t loop;
  assert_int_equal(uv_loop_init(&loop), 0);
  mcg_error *err = NULL;
  mcg_engine_options options = {.size = sizeof options, .loop = &loop};
  last borrowed = {.engine = engine_with(&options), .loop = &loop};
  waiter nap = {.engine = borrowed.engine};
  sleeps(&nap, 1000000);
  assert_int_equal(mcg_engine_close(borrowed.engine, frees_at_once, &borrowed, &err), 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  assert_true(borrowed.done);
  assert_int_equal(uv_loop_close(&loop), 0);

  last own = {.engine = engine_with(NULL)};
  assert_int_equal(mcg_engine_close(own.engine, frees_at_once, &own, &err), 0);
  while (!own.done) mcg_engine_turn(own.engine); /* frees it behind the callback */
}

static void a_foreign_loop_sleeps_when_there_is_nothing_to_do(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  assert_int_equal(mcg_engine_turn(engine), 0); /* the first puts the loop's own into epoll */
  assert_int_equal(mcg_engine_timeout(engine), -1);
  waiter nap = {.engine = engine};
  sleeps(&nap, 100000);
  assert_int_equal(mcg_engine_timeout(engine), 0);
  assert_true(mcg_engine_turn(engine) > 0);
  assert_true(mcg_engine_turn(engine) > 0);
  int timeout = mcg_engine_timeout(engine);
  assert_true(timeout > 90000 && timeout <= 100001);
  struct pollfd ready = {.fd = mcg_engine_fd(engine), .events = POLLIN};
  assert_int_equal(poll(&ready, 1, 0), 0);
  engine_end(engine);
}

/* A descriptor that the engine watches without being kept alive by it, as it does its spawner. */
static void on_ready(uv_poll_t *handle, int status, int events)
{
  (void)status;
  (void)events;
  *(bool *)handle->data = true;
  uv_poll_stop(handle);
}

static void an_idle_engine_still_sees_what_it_watches(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  int fds[2];
  assert_int_equal(pipe(fds), 0);
  bool seen = false;
  uv_poll_t watch = {.data = &seen};
  assert_int_equal(uv_poll_init(engine->loop, &watch, fds[0]), 0);
  uv_poll_start(&watch, UV_READABLE, on_ready);
  uv_unref((uv_handle_t *)&watch);
  mcg_engine_turn(engine);
  assert_int_equal(mcg_engine_timeout(engine), -1);
  assert_int_equal(write(fds[1], "x", 1), 1);
  struct pollfd ready = {.fd = mcg_engine_fd(engine), .events = POLLIN};
  assert_int_equal(poll(&ready, 1, 1000), 1);
  mcg_engine_turn(engine);
  assert_true(seen);
  uv_close((uv_handle_t *)&watch, NULL);
  engine_end(engine);
  close(fds[0]);
  close(fds[1]);
}

static void turns_inside(void *data, mcg_error *error)
{
  waiter *self = data;
  assert_null(error);
  assert_int_equal(mcg_engine_turn(self->engine), -1);
  self->done = true;
}

static void loops_do_not_nest(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  waiter self = {.engine = engine};
  mcg_error *err = NULL;
  assert_int_equal(mcg_sleep(engine, 0, turns_inside, &self, NULL, &err), 0);
  turn_until(engine, &self.done);
  engine_end(engine);
}

/* ---- two ------------------------------------------------------------------------------------ */

typedef struct swing {
  mcg_engine *engine;
  struct swing *other;
  int left;
  bool done;
} swing;

static void swings(void *data, mcg_error *error)
{
  swing *self = data;
  assert_null(error);
  mcg_error *err = NULL;
  if (self->other->left > 0 && self->other->left-- > 0)
    assert_int_equal(mcg_sleep(self->other->engine, 0, swings, self->other, NULL, &err), 0);
  else
    self->done = self->other->done = true;
}

static void two_engines(mcg_engine *one, mcg_engine *two)
{
  swing a = {.engine = one, .left = 200}, b = {.engine = two, .other = &a, .left = 200};
  a.other = &b;
  mcg_error *err = NULL;
  assert_int_equal(mcg_sleep(one, 0, swings, &a, NULL, &err), 0);
  while (!a.done) {
    mcg_engine_turn(one);
    mcg_engine_turn(two);
  }
}

static void two_engines_in_one_process(void **state)
{
  (void)state;
  mcg_engine *one = engine_with(NULL), *two = engine_with(NULL);
  assert_int_not_equal(mcg_engine_fd(one), mcg_engine_fd(two));
  two_engines(one, two);
  engine_end(one);
  waiter nap = {.engine = two}; /* one's end is not the other's */
  sleeps(&nap, 1);
  turn_until(two, &nap.done);
  engine_end(two);
}

static void two_engines_on_one_loop(void **state)
{
  (void)state;
  uv_loop_t loop;
  assert_int_equal(uv_loop_init(&loop), 0);
  mcg_engine_options options = {.size = sizeof options, .loop = &loop};
  mcg_engine *one = engine_with(&options), *two = engine_with(&options);
  two_engines(one, two);
  waiter nap = {.engine = two};
  sleeps(&nap, 3);
  engine_end(one);
  turn_until(two, &nap.done);
  assert_int_equal(nap.completions, 1);
  engine_end(two);
  assert_int_equal(uv_loop_close(&loop), 0);
}

/* ---- log ------------------------------------------------------------------------------------ */

typedef struct ears {
  mcg_engine *engine;
  char heard[512];
  bool done;
} ears;

static void hear(void *data, mcg_log_level level, const char *message)
{
  ears *self = data;
  if (self->engine) assert_null(mcg_fiber_current(self->engine));
  size_t used = strlen(self->heard);
  snprintf(self->heard + used, sizeof self->heard - used, "%d %s|", (int)level, message);
}

static void speaks(void *arg)
{
  ears *self = arg;
  mcg_log(self->engine, MCG_LOG_WARNING, "from a %s\n", "fiber");
  assert_string_equal(self->heard, ""); /* not on this stack */
}

static void spoken(void *arg)
{
  ears *self = arg;
  assert_string_equal(self->heard, "2 from a fiber\\n|"); /* before what it explains completes */
  self->done = true;
}

static void the_log_is_heard_from_the_loop(void **state)
{
  (void)state;
  ears self = {.engine = NULL};
  mcg_engine_options options = {.size = sizeof options, .on_log = hear, .data = &self};
  mcg_engine *engine = engine_with(&options);
  self.engine = engine;
  mcg_error *err = NULL;
  assert_int_equal(mcg_fiber_run(engine, speaks, spoken, &self, false, NULL, &err), 0);
  turn_until(engine, &self.done);
  mcg_log(engine, MCG_LOG_DEBUG, "outside");
  assert_int_equal(mcg_engine_timeout(engine), 0);
  mcg_engine_turn(engine);
  assert_non_null(strstr(self.heard, "|0 outside|"));
  mcg_log(engine, MCG_LOG_ERROR, "at last");
  engine_end(engine);
  assert_non_null(strstr(self.heard, "|3 at last|"));
  engine = engine_with(NULL);
  mcg_log(engine, MCG_LOG_ERROR, "nobody listens");
  engine_end(engine);
}

/* ---- close ---------------------------------------------------------------------------------- */

static void close_cancels_and_refuses(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  enum { MANY = 2000 };
  waiter *naps = calloc(MANY, sizeof *naps);
  for (size_t i = 0; i < MANY; i++) {
    naps[i].engine = engine;
    sleeps(&naps[i], 1000000);
    if (i == MANY / 2) mcg_engine_turn(engine);
  }
  mcg_error *err = NULL;
  waiter end = {0};
  assert_int_equal(mcg_engine_close(engine, note, &end, &err), 0);
  assert_int_equal(mcg_sleep(engine, 0, note, NULL, NULL, &err), -1);
  assert_false(err->retryable);
  assert_int_equal(code_of(&err), MCG_UNAVAILABLE);
  assert_int_equal(mcg_engine_close(engine, note, NULL, &err), -1);
  assert_int_equal(code_of(&err), MCG_UNAVAILABLE);
  turn_until(engine, &end.done);
  assert_int_equal(end.completions, 1);
  for (size_t i = 0; i < MANY; i++) {
    assert_int_equal(naps[i].completions, 1);
    assert_int_equal(naps[i].code, MCG_CANCELED);
  }
  free(naps);
  assert_int_equal(mcg_engine_timeout(engine), -1);
  assert_int_equal(mcg_engine_turn(engine), 0);
  assert_int_equal(mcg_sleep(engine, 0, note, NULL, NULL, &err), -1);
  assert_int_equal(code_of(&err), MCG_UNAVAILABLE);
  mcg_engine_free(engine);
  mcg_engine_free(NULL);
}

static void close_wants_no_callback(void **state)
{
  (void)state;
  mcg_engine *engine = engine_with(NULL);
  mcg_error *err = NULL;
  assert_int_equal(mcg_engine_close(engine, NULL, NULL, &err), 0);
  while (mcg_engine_turn(engine) > 0) {
  }
  mcg_engine_free(engine);
}

static void no_descriptors_left_is_quota(void **state)
{
  (void)state;
  struct rlimit before, none = {0, 0};
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  none.rlim_max = before.rlim_max;
  mcg_engine *engine = NULL;
  mcg_error *err = NULL;
  setrlimit(RLIMIT_NOFILE, &none);
  int rc = mcg_engine_new(NULL, &engine, &err);
  setrlimit(RLIMIT_NOFILE, &before);
  assert_int_equal(rc, -1);
  assert_non_null(strstr(err->fix, "ulimit"));
  assert_int_equal(code_of(&err), MCG_QUOTA);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(init_comes_from_options_environment_or_installation),
      cmocka_unit_test(other_versions_of_the_options_are_understood),
      cmocka_unit_test(backends_are_found_and_added),
      cmocka_unit_test(an_idle_engine_does_not_keep_a_hosts_loop),
      cmocka_unit_test(the_completion_of_close_may_free),
      cmocka_unit_test(a_foreign_loop_sleeps_when_there_is_nothing_to_do),
      cmocka_unit_test(an_idle_engine_still_sees_what_it_watches),
      cmocka_unit_test(loops_do_not_nest),
      cmocka_unit_test(two_engines_in_one_process),
      cmocka_unit_test(two_engines_on_one_loop),
      cmocka_unit_test(the_log_is_heard_from_the_loop),
      cmocka_unit_test(close_cancels_and_refuses),
      cmocka_unit_test(close_wants_no_callback),
      cmocka_unit_test(no_descriptors_left_is_quota),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
