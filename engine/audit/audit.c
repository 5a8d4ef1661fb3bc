/* audit.c: events of a session to its sinks: starts, finishes, points. What a line looks like is in
 * event.c, how it gets there in writer.c. */
#include "audit.h"
#include "service/base64.h"
#include "engine.h"
#include "sink.h"
#include "sinks.h"
#include <string.h>

struct mcg_audit_op {
  mcg_session *session;
  const char *op;
  uint64_t began_ns;
  unsigned skip; /* sinks that have no start of it */
  char id[];
};

/* How long another process may hold the log. What has happened is kept for later after that. */
#define START_WAIT_MS 30000
#define KEPT_WAIT_MS 5000

static const char no_memory[] = "no memory for an audit event";

static struct mcg_sinks *sinks_of(const mcg_session *session)
{
  return session->unaudited ? NULL : session->config->audit;
}

static mcg_line *line_of(const mcg_session *session, const mcg_event *event, const char *op,
                         const char *phase, const char *id, double duration_s)
{
  const mcg_config *config = session->config;
  const struct mcg_audit *audit = session->engine->audit;
  bool starts = audit && *audit->engine && strcmp(phase, "start") == 0;
  const mcg_stamp stamp = {.op = op,
                           .engine = starts ? audit->engine : NULL,
                           .phase = phase,
                           .id = id,
                           .session = session->id,
                           .backend = config->backend->id,
                           .tenant = config->tenant,
                           .run_id = config->run_id,
                           .duration_s = duration_s};
  return mcg_event_line(event, &stamp, audit ? audit->secrets : NULL);
}

/* Takes the line; a posting is counted up before anything can answer it. */
static void post(const struct mcg_sinks *sinks, mcg_line *line, unsigned skip, mcg_posting *posting)
{
  for (unsigned i = 0; i < sinks->count; i++)
    if (!(skip & 1u << i)) mcg_writer_post(sinks->list[i], line, i, posting);
  mcg_line_unref(line);
}

/* What has happened is worth a moment, but one for all of it. */
static int64_t patience_ms(const mcg_posting *posting, const struct mcg_sinks *sinks)
{
  if (!posting->keeps) return START_WAIT_MS;
  for (unsigned i = 0; i < sinks->count; i++)
    if (mcg_writer_is_stuck(sinks->list[i]->writer)) return 0;
  return KEPT_WAIT_MS;
}

/* False: canceled, or it took too long. `most_ms` < 0: it takes what it takes. */
static bool park(mcg_posting *posting, int64_t most_ms)
{
  auto_error mcg_error *ignored = NULL;
  return mcg_wait_park(posting->engine, &posting->wait, most_ms, &ignored) == 0;
}

/* Not to be left before all have answered: what it waits with is on this stack. */
static void wait_for(mcg_posting *posting, const struct mcg_sinks *sinks)
{
  if (!posting->left) return;
  const int64_t most_ms = patience_ms(posting, sinks);
  if (posting->keeps) mcg_fiber_shield(posting->engine, true);
  while (posting->left && park(posting, most_ms)) continue; /* woken once, or twice */
  if (!posting->keeps) mcg_fiber_shield(posting->engine, true);
  for (unsigned i = 0; posting->left && i < sinks->count; i++)
    mcg_writer_give_up(sinks->list[i]->writer, posting);
  while (posting->left) park(posting, -1);
  mcg_fiber_shield(posting->engine, false);
}

static void posting_init(mcg_posting *posting, mcg_engine *engine)
{
  *posting = (mcg_posting){.engine = engine};
  mcg_wait_init(&posting->wait);
}

static mcg_audit_op *op_new(mcg_session *session, const mcg_event *event, mcg_error **err)
{
  char made[27];
  if (!event->id && mcg_random_id(made, err) < 0) return NULL;
  const char *id = event->id ? event->id : made;
  size_t len = strlen(id) + 1;
  mcg_audit_op *op = malloc(sizeof *op + len);
  if (!op) return mcg_fail(err, MCG_NOMEM, NULL, no_memory), NULL;
  *op = (mcg_audit_op){.session = session, .op = event->op, .began_ns = uv_hrtime()};
  memcpy(op->id, id, len);
  mcg_session_hold(session);
  return op;
}

static void op_free(mcg_audit_op *op)
{
  mcg_session_let_go(op->session);
  free(op);
}

/* Takes the line. NULL: all have it; else why not, and in *skip who has not. */
static mcg_error *write_line(mcg_session *session, struct mcg_sinks *sinks, mcg_line *line,
                             unsigned *skip)
{
  mcg_posting posting;
  posting_init(&posting, session->engine);
  line->refs++;
  post(sinks, line, 0, &posting);
  wait_for(&posting, sinks);
  *skip = posting.failed;
  if (sinks->callback && posting.error)
    *skip |= MCG_SKIP_CALLBACK;
  else if (sinks->callback && mcg_callback_tell(session, sinks, line, &posting.error) < 0)
    *skip |= MCG_SKIP_CALLBACK;
  mcg_line_unref(line);
  return posting.error;
}

static int give(mcg_error *take_error, mcg_error **err)
{
  if (err)
    *err = take_error;
  else
    mcg_error_free(take_error);
  return -1;
}

bool mcg_audit_on(const mcg_session *session)
{
  return mcg_sinks_any(sinks_of(session));
}

int mcg_audit_start(mcg_session *session, const mcg_event *event, mcg_audit_op **out,
                    mcg_error **err)
{
  struct mcg_sinks *sinks = sinks_of(session);
  *out = NULL;
  if (!mcg_sinks_any(sinks)) return 0;
  mcg_audit_op *op = op_new(session, event, err);
  if (!op) return -1;
  mcg_line *line = line_of(session, event, op->op, "start", op->id, -1);
  if (!line) {
    op_free(op);
    return mcg_fail(err, MCG_NOMEM, NULL, no_memory);
  }
  mcg_error *error = write_line(session, sinks, line, &op->skip);
  if (!error) {
    *out = op;
    return 0;
  }
  /* It does not happen; where the start was written, that is said too. */
  mcg_audit_finish(op, &(mcg_event){.error = error});
  return give(error, err);
}

static void tell_callback(mcg_session *session, struct mcg_sinks *sinks, mcg_line *line)
{
  auto_error mcg_error *error = NULL;
  if (!mcg_fiber_current(session->engine)) {
    mcg_callback_tell_later(session, line);
    return;
  }
  mcg_fiber_shield(session->engine, true);
  if (mcg_callback_tell(session, sinks, line, &error) < 0)
    mcg_log(session->engine, MCG_LOG_ERROR, "%s", error->message);
  mcg_fiber_shield(session->engine, false);
}

/* What has happened already. Takes the line; NULL: there was no memory for it. */
static void tell(mcg_engine *engine, mcg_session *session, struct mcg_sinks *sinks, mcg_line *line,
                 unsigned skip, const char *what)
{
  mcg_posting posting;
  if (line && session && sinks->callback && !(skip & MCG_SKIP_CALLBACK))
    tell_callback(session, sinks, line);
  if (!line) {
    sinks->audit->lost++;
    mcg_log(engine, MCG_LOG_ERROR, "%s is not in the audit log: %s", what, no_memory);
  } else if (!mcg_fiber_current(engine)) {
    post(sinks, line, skip, NULL);
  } else { /* a failure is kept, and logged, by the writer: nothing is to be undone */
    posting_init(&posting, engine);
    posting.keeps = true;
    post(sinks, line, skip, &posting);
    wait_for(&posting, sinks);
    mcg_error_free(posting.error);
  }
}

void mcg_audit_finish(mcg_audit_op *op, const mcg_event *outcome)
{
  if (!op) return;
  mcg_session *session = op->session;
  double took = (double)(uv_hrtime() - op->began_ns) / 1e9;
  tell(session->engine, session, sinks_of(session),
       line_of(session, outcome, op->op, "finish", op->id, took), op->skip, op->op);
  op_free(op);
}

int mcg_audit_around(mcg_session *session, const mcg_event *event,
                     int (*run)(void *arg, mcg_error **err), void *arg, mcg_error **err)
{
  mcg_audit_op *op;
  if (mcg_audit_start(session, event, &op, err) < 0) return -1;
  int rc = run(arg, err);
  mcg_event outcome = {.error = rc < 0 ? *err : NULL};
  mcg_audit_finish(op, &outcome);
  return rc;
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
  struct mcg_sinks *sinks = sinks_of(session);
  if (mcg_sinks_any(sinks))
    tell(session->engine, session, sinks, point_line(session, event), 0, event->op);
}

int mcg_audit_told(mcg_session *session, const mcg_event *event, mcg_error **err)
{
  struct mcg_sinks *sinks = sinks_of(session);
  unsigned skip;
  if (!mcg_sinks_any(sinks)) return 0;
  mcg_line *line = point_line(session, event);
  if (!line) return mcg_fail(err, MCG_NOMEM, NULL, no_memory);
  mcg_error *error = write_line(session, sinks, line, &skip);
  return error ? give(error, err) : 0;
}

void mcg_audit_engine_point(mcg_engine *engine, const mcg_event *event)
{
  char id[27];
  auto_error mcg_error *error = NULL;
  struct mcg_sinks *sinks;
  if (mcg_audit_read(engine, NULL, &sinks, &error) < 0 || mcg_random_id(id, &error) < 0) {
    mcg_log(engine, MCG_LOG_ERROR, "%s is not in the audit log: %s", event->op, error->message);
    return;
  }
  const mcg_stamp stamp = {.op = event->op, .phase = "point", .id = id, .duration_s = -1};
  mcg_line *line = mcg_event_line(event, &stamp, engine->audit->secrets);
  tell(engine, NULL, sinks, line, 0, event->op);
  mcg_sinks_free(sinks);
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
  if (audit) audit->refs = 1;
  if (audit && audit->secrets) return engine->audit = audit;
  free(audit);
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the audit log"), NULL;
}

int mcg_engine_secret(mcg_engine *engine, const void *bytes, size_t len, mcg_error **err)
{
  struct mcg_audit *audit = mcg_audit_of(engine, err);
  if (!audit) return -1;
  if (mcg_secrets_add(audit->secrets, bytes, len)) return 0;
  return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a secret");
}

json_t *mcg_audit_secrets(const mcg_engine *engine)
{
  return engine->audit ? mcg_secrets_json(engine->audit->secrets) : json_array();
}

int mcg_audit_learn_secrets(mcg_engine *engine, const json_t *list, mcg_error **err)
{
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *item = json_array_get(list, i);
    size_t len;
    char *bytes = json_is_string(item)
                      ? mcg_base64_decode(json_string_value(item), json_string_length(item), &len)
                      : NULL;
    if (!bytes) return mcg_fail(err, MCG_PROTOCOL, NULL, "the keeper's secrets make no sense");
    int rc = mcg_engine_secret(engine, bytes, len, err);
    explicit_bzero(bytes, len);
    free(bytes);
    if (rc < 0) return -1;
  }
  return 0;
}

/* Messages cut what they quote: what is left of a secret then is its start. */
char *mcg_audit_redact_text(const mcg_engine *engine, char *take_text)
{
  size_t len;
  auto_free char *fresh = NULL, *text = take_text;
  if (!engine->audit || !text) return mcg_steal_pointer(&text);
  const char *clean = mcg_redact(engine->audit->secrets, text, strlen(text), &len, &fresh);
  return clean ? mcg_redact_parts(engine->audit->secrets, clean, len) : NULL;
}

char *mcg_engine_redact(const mcg_engine *engine, const char *text)
{
  return mcg_audit_redact_text(engine, strdup(text));
}

void mcg_audit_redact(const mcg_engine *engine, mcg_error *error)
{
  for (; engine->audit && error && error->code != MCG_NOMEM; error = error->cause) {
    error->message = mcg_audit_redact_text(engine, error->message);
    error->fix = mcg_audit_redact_text(engine, error->fix);
    if (!error->message) error->message = strdup("");
  }
}

void mcg_audit_unref(struct mcg_audit *audit)
{
  if (--audit->refs) return;
  mcg_secrets_free(audit->secrets);
  free(audit);
}

bool mcg_engine_owes(const mcg_engine *engine)
{
  if (!engine->audit) return false;
  for (const mcg_sink *sink = engine->audit->sinks; sink; sink = sink->next)
    if (mcg_writer_owes(sink->writer)) return true;
  return engine->audit->lost > 0;
}

int mcg_audit_end(mcg_engine *engine, mcg_error **err)
{
  struct mcg_audit *audit = engine->audit;
  if (!audit) return 0;
  mcg_sinks_close(audit, true);
  size_t lost = audit->lost;
  engine->audit = NULL;
  mcg_audit_unref(audit);
  if (!lost) return 0;
  return mcg_fail(err, MCG_AUDIT_FAILED, "see the log of the engine, which says why",
                  "the audit log: %zu line%s lost", lost, lost == 1 ? " is" : "s are");
}
