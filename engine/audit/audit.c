/* audit.c: events of a session to its sinks: starts, finishes, points. What a line looks like is in
 * event.c, how it gets there in writer.c. */
#include "audit.h"
#include "engine.h"
#include "sink.h"
#include "sinks.h"
#include <string.h>

struct mcg_audit_op {
  mcg_session *session;
  char *id;
  const char *op;
  uint64_t began_ns;
  unsigned skip; /* sinks that have no start of it */
};

static const char no_memory[] = "no memory for an audit event";

static const struct mcg_sinks *sinks_of(const mcg_session *session)
{
  return session->unaudited ? NULL : session->config->audit;
}

static mcg_line *line_of(const mcg_session *session, const mcg_event *event, const char *op,
                         const char *phase, const char *id, double duration_s)
{
  const mcg_config *config = session->config;
  const mcg_stamp stamp = {.op = op,
                           .phase = phase,
                           .id = id,
                           .session = session->id,
                           .backend = config->backend->id,
                           .tenant = config->tenant,
                           .run_id = config->run_id,
                           .duration_s = duration_s};
  return mcg_event_line(event, &stamp,
                        session->engine->audit ? session->engine->audit->secrets : NULL);
}

/* Takes the line; a posting is counted up before anything can answer it. */
static void post(const struct mcg_sinks *sinks, mcg_line *line, unsigned skip, mcg_posting *posting)
{
  for (unsigned i = 0; i < sinks->count; i++)
    if (!(skip & 1u << i)) mcg_writer_post(sinks->list[i], line, i, posting);
  mcg_line_unref(line);
}

/* Short, and not to be left: what it waits with is on this stack. */
static void wait_for(mcg_posting *posting)
{
  if (!posting->left) return;
  mcg_fiber_shield(posting->engine, true);
  while (posting->left) {
    auto_error mcg_error *ignored = NULL;
    if (mcg_wait_park(posting->engine, &posting->wait, -1, &ignored) < 0) continue;
  }
  mcg_fiber_shield(posting->engine, false);
}

static void posting_init(mcg_posting *posting, mcg_engine *engine)
{
  *posting = (mcg_posting){.engine = engine};
  mcg_wait_init(&posting->wait);
}

static mcg_audit_op *op_new(mcg_session *session, const mcg_event *event, mcg_error **err)
{
  char id[27];
  if (!event->id && mcg_random_id(id, err) < 0) return NULL;
  mcg_audit_op *op = calloc(1, sizeof *op);
  char *copy = op ? strdup(event->id ? event->id : id) : NULL;
  if (!copy) {
    free(op);
    return mcg_fail(err, MCG_NOMEM, NULL, no_memory), NULL;
  }
  *op = (mcg_audit_op){.session = session, .id = copy, .op = event->op, .began_ns = uv_hrtime()};
  mcg_session_hold(session);
  return op;
}

static void op_free(mcg_audit_op *op)
{
  mcg_session_let_go(op->session);
  free(op->id);
  free(op);
}

int mcg_audit_start(mcg_session *session, const mcg_event *event, mcg_audit_op **out,
                    mcg_error **err)
{
  const struct mcg_sinks *sinks = sinks_of(session);
  *out = NULL;
  if (!sinks || !sinks->count) return 0;
  mcg_audit_op *op = op_new(session, event, err);
  if (!op) return -1;
  mcg_line *line = line_of(session, event, op->op, "start", op->id, -1);
  if (!line) {
    op_free(op);
    return mcg_fail(err, MCG_NOMEM, NULL, no_memory);
  }
  mcg_posting posting;
  posting_init(&posting, session->engine);
  post(sinks, line, 0, &posting);
  wait_for(&posting);
  if (!posting.error) {
    *out = op;
    return 0;
  }
  /* It does not happen; where the start was written, that is said too. */
  op->skip = posting.failed;
  mcg_audit_finish(op, &(mcg_event){.error = posting.error});
  if (err)
    *err = posting.error;
  else
    mcg_error_free(posting.error);
  return -1;
}

/* What has happened already. Takes the line; NULL: there was no memory for it. */
static void tell(mcg_session *session, mcg_line *line, unsigned skip, const char *what)
{
  const struct mcg_sinks *sinks = sinks_of(session);
  mcg_posting posting;
  if (!line) {
    mcg_log(session->engine, MCG_LOG_ERROR, "%s is not in the audit log: %s", what, no_memory);
  } else if (!mcg_fiber_current(session->engine)) {
    post(sinks, line, skip, NULL);
  } else { /* a failure is kept, and logged, by the writer: nothing is to be undone */
    posting_init(&posting, session->engine);
    posting.keeps = true;
    post(sinks, line, skip, &posting);
    wait_for(&posting);
    mcg_error_free(posting.error);
  }
}

void mcg_audit_finish(mcg_audit_op *op, const mcg_event *outcome)
{
  if (!op) return;
  mcg_session *session = op->session;
  double took = (double)(uv_hrtime() - op->began_ns) / 1e9;
  tell(session, line_of(session, outcome, op->op, "finish", op->id, took), op->skip, op->op);
  op_free(op);
}

static mcg_line *point_line(mcg_session *session, const mcg_event *event)
{
  char id[27];
  auto_error mcg_error *ignored = NULL;
  if (!event->id && mcg_random_id(id, &ignored) < 0) return NULL;
  return line_of(session, event, event->op, "point", event->id ? event->id : id, -1);
}

void mcg_audit_point(mcg_session *session, const mcg_event *event)
{
  const struct mcg_sinks *sinks = sinks_of(session);
  if (!sinks || !sinks->count) return;
  tell(session, point_line(session, event), 0, event->op);
}

int mcg_audit_told(mcg_session *session, const mcg_event *event, mcg_error **err)
{
  const struct mcg_sinks *sinks = sinks_of(session);
  if (!sinks || !sinks->count) return 0;
  mcg_line *line = point_line(session, event);
  if (!line) return mcg_fail(err, MCG_NOMEM, NULL, no_memory);
  mcg_posting posting;
  posting_init(&posting, session->engine);
  post(sinks, line, 0, &posting);
  wait_for(&posting);
  if (!posting.error) return 0;
  if (err)
    *err = posting.error;
  else
    mcg_error_free(posting.error);
  return -1;
}

const char *mcg_audit_op_id(const mcg_audit_op *op)
{
  return op ? op->id : NULL;
}

/* ---- the engine's ------------------------------------------------------------------------- */

struct mcg_audit *mcg_audit_of(mcg_engine *engine, mcg_error **err)
{
  if (engine->audit) return engine->audit;
  struct mcg_audit *audit = calloc(1, sizeof *audit);
  if (audit) audit->secrets = mcg_secrets_new();
  if (audit && audit->secrets) return engine->audit = audit;
  free(audit);
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the audit log"), NULL;
}

int mcg_audit_secret(mcg_engine *engine, const void *bytes, size_t len, mcg_error **err)
{
  struct mcg_audit *audit = mcg_audit_of(engine, err);
  if (!audit) return -1;
  if (mcg_secrets_add(audit->secrets, bytes, len)) return 0;
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a secret");
}

void mcg_audit_end(mcg_engine *engine)
{
  struct mcg_audit *audit = engine->audit;
  if (!audit) return;
  while (audit->sinks) {
    mcg_sink *sink = audit->sinks;
    audit->sinks = sink->next;
    mcg_writer_free(sink->writer);
    free(sink->key);
    sink->type->free(sink);
  }
  mcg_secrets_free(audit->secrets);
  free(audit);
  engine->audit = NULL;
}
