/* turning.h: what tests of the engine share: an engine that is turned until something has happened,
 * and is closed so that nothing of it is left. */
#ifndef MCG_TEST_TURNING_H
#define MCG_TEST_TURNING_H

#include "cmocka_all.h"
#include "engine.h"

static inline mcg_engine *engine_with(const mcg_engine_options *options)
{
  mcg_engine *engine = NULL;
  mcg_error *err = NULL;
  if (mcg_engine_new(options, &engine, &err) < 0) fail_msg("mcg_engine_new: %s", err->message);
  assert_null(err);
  return engine;
}

/* As a host with its own loop would: sleeps in poll() when told to. */
static inline void turn_until(mcg_engine *engine, const bool *happened)
{
  while (!*happened) {
    struct pollfd ready = {.fd = mcg_engine_fd(engine), .events = POLLIN};
    int timeout = mcg_engine_timeout(engine);
    assert_true(poll(&ready, 1, timeout) >= 0 || errno == EINTR);
    mcg_engine_turn(engine);
  }
}

static inline void note_closed(void *data, mcg_error *error)
{
  assert_null(error);
  *(bool *)data = true;
}

static inline void engine_end(mcg_engine *engine)
{
  mcg_error *err = NULL;
  bool closed = false;
  assert_int_equal(mcg_engine_close(engine, note_closed, &closed, &err), 0);
  turn_until(engine, &closed);
  mcg_engine_free(engine);
}

/* The code of an error, which is freed. */
static inline mcg_code code_of(mcg_error **err)
{
  assert_non_null(*err);
  mcg_code code = (*err)->code;
  mcg_error_free(*err);
  *err = NULL;
  return code;
}

#endif
