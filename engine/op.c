/* op.c: operations: a fiber with exactly one completion. Every public start function is built of it.
 *
 * The completion comes on the main stack once the fiber has ended, so it may start what it likes. */
#include "audit/audit.h"
#include "engine.h"
#include <assert.h>

struct mcg_op {
  mcg_engine *engine;
  mcg_fiber *fiber; /* NULL once run has returned */
  int (*run)(void *arg, mcg_error **err);
  void (*complete)(void *arg, mcg_error *error);
  void *arg;
  mcg_error *error;
  bool teardown;
  mcg_op *before, *after; /* in engine->ops, unless for taking down */
};

static void op_link(mcg_op *op)
{
  if (op->teardown) return;
  op->after = op->engine->ops;
  if (op->after) op->after->before = op;
  op->engine->ops = op;
}

static void op_unlink(mcg_op *op)
{
  if (op->teardown) return;
  if (op->before)
    op->before->after = op->after;
  else
    op->engine->ops = op->after;
  if (op->after) op->after->before = op->before;
}

static void op_main(void *data)
{
  mcg_op *op = data;
  int rc;
  if (!op->teardown && mcg_fiber_canceled(op->fiber)) /* before it began: nothing to undo */
    rc = mcg_fail(&op->error, MCG_CANCELED, NULL, "canceled");
  else
    rc = op->run(op->arg, &op->error);
  assert((rc < 0) == (op->error != NULL));
  if (rc < 0 && !op->error) mcg_fail(&op->error, MCG_INTERNAL, NULL, "failed without a reason");
  op->fiber = NULL;
}

static void op_ended(void *data)
{
  mcg_op *op = data;
  assert(!mcg_fiber_current(op->engine));
  op_unlink(op);
  mcg_audit_redact(op->engine, op->error);
  op->complete(op->arg, op->error); /* until it returns the host may still name the op */
  free(op);
}

static int op_start(mcg_engine *engine, int (*run)(void *arg, mcg_error **err),
                    void (*complete)(void *arg, mcg_error *error), void *arg, bool teardown,
                    mcg_op **out, mcg_error **err)
{
  auto_free mcg_op *op = calloc(1, sizeof *op);
  if (!op) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an operation");
  *op = (mcg_op){
      .engine = engine, .run = run, .complete = complete, .arg = arg, .teardown = teardown};
  if (mcg_fiber_run(engine, op_main, op_ended, op, teardown, &op->fiber, err) < 0) return -1;
  op_link(op);
  if (out) *out = op;
  op = NULL;
  return 0;
}

int mcg_op_start(mcg_engine *engine, int (*run)(void *arg, mcg_error **err),
                 void (*complete)(void *arg, mcg_error *error), void *arg, mcg_op **out,
                 mcg_error **err)
{
  if (mcg_engine_check_open(engine, err) < 0) return -1;
  return op_start(engine, run, complete, arg, false, out, err);
}

int mcg_op_start_teardown(mcg_engine *engine, int (*run)(void *arg, mcg_error **err),
                          void (*complete)(void *arg, mcg_error *error), void *arg, mcg_op **out,
                          mcg_error **err)
{
  return op_start(engine, run, complete, arg, true, out, err);
}

void mcg_op_cancel(mcg_op *op)
{
  if (op && op->fiber && !op->teardown) mcg_fiber_cancel(op->fiber);
}

void mcg_ops_cancel(mcg_engine *engine)
{
  for (mcg_op *op = engine->ops; op; op = op->after) mcg_op_cancel(op);
}

/* ---- sleep ------------------------------------------------------------------------------------ */

typedef struct nap {
  mcg_engine *engine;
  int64_t ms;
  mcg_done done;
  void *data;
} nap;

static int nap_run(void *arg, mcg_error **err)
{
  nap *self = arg;
  return mcg_fiber_sleep(self->engine, self->ms, err);
}

static void nap_complete(void *arg, mcg_error *error)
{
  nap self = *(nap *)arg;
  free(arg);
  if (self.done)
    self.done(self.data, error);
  else
    mcg_error_free(error);
}

int mcg_sleep(mcg_engine *engine, int64_t ms, mcg_done done, void *data, mcg_op **op,
              mcg_error **err)
{
  if (ms < 0)
    return mcg_fail(err, MCG_INVALID, "give milliseconds, 0 or more", "cannot sleep for %lld ms",
                    (long long)ms);
  auto_free nap *self = malloc(sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an operation");
  *self = (nap){.engine = engine, .ms = ms, .done = done, .data = data};
  if (mcg_op_start(engine, nap_run, nap_complete, self, op, err) < 0) return -1;
  self = NULL;
  return 0;
}
