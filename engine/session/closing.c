/* closing.c: ending sessions for those who wait on more than the end itself: a sandbox that a keeper
 * holds, a fiber, every session of an engine. Ending one is session.c's. */
#include "keeper.h"
#include "pool.h"
#include "session.h"

typedef struct stopping {
  mcg_session *session;
  mcg_done done;
  void *data;
} stopping;

static int stop_run(void *arg, mcg_error **err)
{
  stopping *self = arg;
  self->session->stopping = true;
  int rc = self->session->remote ? mcg_remote_stop(self->session, err) : 0;
  self->session->stopping = false;
  return rc;
}

static void stop_complete(void *arg, mcg_error *error)
{
  stopping self = *(stopping *)arg;
  auto_error mcg_error *refused = NULL;
  free(arg);
  if (error) {
    if (self.done)
      self.done(self.data, error);
    else
      mcg_error_free(error);
  } else if (mcg_session_close(self.session, self.done, self.data, &refused) < 0 && self.done) {
    self.done(self.data, mcg_error_copy(refused));
  }
  mcg_session_let_go(self.session);
}

int mcg_session_stop(mcg_session *session, mcg_done done, void *data, mcg_error **err)
{
  if (!session->remote) return mcg_session_close(session, done, data, err);
  stopping *self = malloc(sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to stop a session");
  *self = (stopping){.session = session, .done = done, .data = data};
  mcg_session_hold(session);
  if (mcg_op_start_teardown(session->engine, stop_run, stop_complete, self, NULL, err) == 0)
    return 0;
  mcg_session_let_go(session);
  free(self);
  return -1;
}

typedef struct closing_here {
  mcg_engine *engine;
  mcg_wait wait;
  bool over;
  mcg_error *error;
} closing_here;

static void closed_here(void *data, mcg_error *error)
{
  closing_here *self = data;
  self->over = true;
  self->error = error;
  mcg_wait_wake(self->engine, &self->wait);
}

int mcg_session_close_here(mcg_session *session, mcg_error **err)
{
  closing_here self = {.engine = session->engine};
  mcg_wait_init(&self.wait);
  if (mcg_session_close(session, closed_here, &self, err) < 0) return -1;
  mcg_fiber_shield(self.engine, true);
  while (!self.over) {
    auto_error mcg_error *ignored = NULL;
    if (mcg_wait_park(self.engine, &self.wait, -1, &ignored) < 0) continue;
  }
  mcg_fiber_shield(self.engine, false);
  if (!self.error) return 0;
  *err = self.error;
  return -1;
}

typedef struct closing_all {
  mcg_engine *engine;
  mcg_wait wait;
  size_t left;
  mcg_error *error;
} closing_all;

static void one_closed(void *data, mcg_error *error)
{
  closing_all *all = data;
  if (all->error)
    mcg_error_free(error);
  else
    all->error = error;
  if (--all->left == 0) mcg_wait_wake(all->engine, &all->wait);
}

int mcg_sessions_close(mcg_engine *engine, mcg_error **err)
{
  closing_all all = {.engine = engine};
  mcg_wait_init(&all.wait);
  for (mcg_session *s = engine->sessions; s; s = s->after) {
    mcg_error *error = NULL;
    all.left++;
    if (mcg_session_close(s, one_closed, &all, &error) < 0) one_closed(&all, error);
  }
  while (all.left) {
    auto_error mcg_error *ignored = NULL;
    if (mcg_wait_park(engine, &all.wait, -1, &ignored) < 0) continue;
  }
  mcg_pools_end(engine);
  if (!all.error) return 0;
  *err = all.error;
  return -1;
}
