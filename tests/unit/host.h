/* host.h: a small host for tests of the engine: turns the loop until what was started has completed,
 * and keeps copies of what came. */
#ifndef TEST_HOST_H
#define TEST_HOST_H

#include <mooncage/mooncage.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>
#include <cmocka.h>

#define UNUSED __attribute__((unused))

typedef struct outcome { /* of one operation */
  int completions;
  mcg_error *error;
  mcg_session *session;
  mcg_result result; /* its texts are copies */
  char *text;        /* JSON or bytes */
  size_t len;
  int pid, starts;
  size_t heard; /* bytes of output, with heard_events */
} outcome;

static mcg_engine *engine;
static char last_warning[1024];

UNUSED static void take_log(void *data, mcg_log_level level, const char *message)
{
  (void)data;
  if (level == MCG_LOG_WARNING) snprintf(last_warning, sizeof last_warning, "%s", message);
}

UNUSED static int engine_up(void **state)
{
  (void)state;
  mcg_error *err = NULL;
  mcg_engine_options options = {.size = sizeof options, .on_log = take_log};
  assert_int_equal(mcg_engine_new(&options, &engine, &err), 0);
  return 0;
}

UNUSED static void take_done(void *data, mcg_error *error)
{
  outcome *out = data;
  out->completions++;
  out->error = error;
}

UNUSED static void until(outcome *out)
{
  while (!out->completions) uv_run(mcg_engine_loop(engine), UV_RUN_ONCE);
  assert_int_equal(out->completions, 1);
}

UNUSED static void turn_for(unsigned ms)
{
  outcome out = {0};
  assert_int_equal(mcg_sleep(engine, ms, take_done, &out, NULL, NULL), 0);
  until(&out);
}

UNUSED static int engine_down(void **state)
{
  (void)state;
  outcome out = {0};
  assert_int_equal(mcg_engine_close(engine, take_done, &out, NULL), 0);
  until(&out);
  assert_null(out.error);
  mcg_engine_free(engine);
  return 0;
}

UNUSED static void outcome_fini(outcome *out)
{
  mcg_error_free(out->error);
  free((void *)out->result.stdout_data);
  free((void *)out->result.stderr_data);
  free(out->text);
  *out = (outcome){0};
}

UNUSED static void take_session(void *data, mcg_session *session, mcg_error *error)
{
  outcome *out = data;
  out->session = session;
  take_done(out, error);
}

UNUSED static mcg_session *open_session(const char *config)
{
  outcome out = {0};
  mcg_error *err = NULL;
  if (mcg_session_open(engine, config, strlen(config), take_session, &out, NULL, &err) < 0)
    fail_msg("%s: %s", config, err->message);
  until(&out);
  if (out.error) fail_msg("%s: %s", config, out.error->message);
  return out.session;
}

UNUSED static void close_session(mcg_session *session)
{
  outcome out = {0};
  assert_int_equal(mcg_session_close(session, take_done, &out, NULL), 0);
  until(&out);
  assert_null(out.error);
  mcg_session_unref(session);
}

UNUSED static char *copy_bytes(const void *bytes, size_t len)
{
  char *copy = malloc(len + 1);
  assert_non_null(copy);
  if (len) memcpy(copy, bytes, len);
  copy[len] = '\0';
  return copy;
}

UNUSED static void take_result(void *data, const mcg_result *result, mcg_error *error)
{
  outcome *out = data;
  assert_true(!result != !error);
  if (result) {
    out->result = *result;
    out->result.stdout_data = copy_bytes(result->stdout_data, result->stdout_len);
    out->result.stderr_data = copy_bytes(result->stderr_data, result->stderr_len);
  }
  take_done(out, error);
}

UNUSED static void take_start(void *data, int pid)
{
  outcome *out = data;
  out->pid = pid;
  out->starts++;
}

UNUSED static const mcg_exec_events plain_events = {.on_started = take_start,
                                                    .on_done = take_result};

/* The same, and `heard` counts what has come: to go on when a command has said something. */
UNUSED static bool hear(void *data, int stream, const void *bytes, size_t len)
{
  (void)stream, (void)bytes;
  ((outcome *)data)->heard += len;
  return true;
}

UNUSED static const mcg_exec_events heard_events = {
    .on_started = take_start, .on_output = hear, .on_done = take_result};

UNUSED static void until_heard(outcome *out, size_t len)
{
  while (out->heard < len && !out->completions) uv_run(mcg_engine_loop(engine), UV_RUN_ONCE);
}

UNUSED static void run_spec(mcg_session *session, const mcg_exec_spec *spec, outcome *out)
{
  mcg_error *err = NULL;
  *out = (outcome){0};
  if (mcg_exec_start(session, spec, &plain_events, out, NULL, &err) < 0) {
    out->error = err;
    return;
  }
  assert_int_equal(out->completions, 0);
  until(out);
}

UNUSED static void run_shell(mcg_session *session, const char *text, outcome *out)
{
  run_spec(session, &(mcg_exec_spec){.size = sizeof(mcg_exec_spec), .shell = text}, out);
  if (out->error) fail_msg("%s: %s", text, out->error->message);
}

#endif
