/* doctor_trial.c: waits on a fiber for what completes by callback. What was started must complete before
 * the stack goes: nothing here is canceled half-way, and everything has a time-out of its own. */
#include "doctor.h"
#include "session/session.h"
#include <string.h>

#define RUN_MS 10000

typedef struct answer {
  mcg_engine *engine;
  mcg_wait wait;
  bool done;
  mcg_session *session;
  mcg_error *error;
  int exit_code;
  char **out;
} answer;

static void answered(answer *self)
{
  self->done = true;
  mcg_wait_wake(self->engine, &self->wait);
}

static void opened(void *data, mcg_session *session, mcg_error *error)
{
  answer *self = data;
  self->session = session;
  self->error = error;
  answered(self);
}

static void closed(void *data, mcg_error *error)
{
  answer *self = data;
  mcg_error_free(error);
  answered(self);
}

static void ran(void *data, const mcg_result *result, mcg_error *error)
{
  answer *self = data;
  self->exit_code = result ? result->exit_code : -1;
  if (result && self->out) *self->out = strndup(result->stdout_data, result->stdout_len);
  self->error = error;
  answered(self);
}

static void await(answer *self)
{
  mcg_fiber_shield(self->engine, true);
  while (!self->done) {
    auto_error mcg_error *ignored = NULL;
    if (mcg_wait_park(self->engine, &self->wait, -1, &ignored) < 0) continue;
  }
  mcg_fiber_shield(self->engine, false);
}

mcg_session *mcg_doctor_open(mcg_engine *engine, const char *config, mcg_error **err)
{
  answer self = {.engine = engine};
  mcg_wait_init(&self.wait);
  if (mcg_session_open(engine, config, strlen(config), opened, &self, NULL, err) < 0) return NULL;
  await(&self);
  *err = self.error;
  return self.session;
}

int mcg_doctor_run(mcg_session *session, const char *shell, char **out, mcg_error **err)
{
  answer self = {.engine = session->engine, .exit_code = -1, .out = out};
  const mcg_exec_spec spec = {.size = sizeof spec, .shell = shell, .timeout_ms = RUN_MS};
  const mcg_exec_events events = {.on_done = ran};
  mcg_wait_init(&self.wait);
  if (mcg_exec_start(session, &spec, &events, &self, NULL, err) < 0) return -1;
  await(&self);
  *err = self.error;
  return self.exit_code;
}

void mcg_doctor_close(mcg_session *session)
{
  answer self = {.engine = session->engine};
  auto_error mcg_error *ignored = NULL;
  mcg_wait_init(&self.wait);
  if (mcg_session_close(session, closed, &self, &ignored) == 0) await(&self);
  mcg_session_unref(session);
}
