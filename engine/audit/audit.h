/* audit.h: what every part of the engine says to the audit log. A thing that lasts is a start and one
 * finish; one that does not, a point. The start is in the kernel, in every sink, before mcg_audit_start
 * returns 0; when it returns -1 the thing must not happen.
 *
 *   mcg_event event = {.op = "exec", .argv = argv, .cwd = cwd};
 *   mcg_audit_op *op;
 *   if (mcg_audit_start(session, &event, &op, err) < 0) return -1;
 *   ... run it ...
 *   event = (mcg_event){.ended = true, .exit_code = 0, .error = error};
 *   mcg_audit_finish(op, &event);
 *
 * Strings are borrowed for the call. They may hold anything: secrets are struck out here, control
 * bytes and broken UTF-8 escaped, what is too long is cut. */
#ifndef MCG_AUDIT_H
#define MCG_AUDIT_H

#include "session/session.h"

typedef struct mcg_audit_op mcg_audit_op;

typedef struct mcg_event {
  /* select open close exec pty tool guardrail read write snapshot restore net expose limit hook_error reap
   * recovered: a constant string. Of a finish: not looked at, it is the start's. */
  const char *op;
  const char *id;                /* of an exec that has one; NULL: made here */
  const char *const *argv;       /* or */
  const char *shell;             /* text for the shell; or neither */
  const char *tool, *cwd, *path; /* NULL: none */
  struct {
    const char *by, *rule, *reason; /* "guardrail", "allowed_tools" ...; NULL: none */
  } decision;
  const mcg_error *error; /* NULL: it went well */
  bool ended;             /* of a command: the next three hold */
  int exit_code;          /* -1: a signal ended it */
  const char *signal;
  bool timed_out;
  bool counted; /* bytes holds */
  uint64_t bytes;
  const json_t *detail; /* what has no field of its own: an object */
  const json_t *enforcement, *usage;
} mcg_event;

/* Somebody is told of what this session does. */
bool mcg_audit_on(const mcg_session *session);
/* Parks only where a sink must be waited for; a cancel ends the wait for another process that holds the
 * log. *out is NULL for a session without a log, which is fine for the calls below. -1 is
 * `audit_failed`. */
int mcg_audit_start(mcg_session *session, const mcg_event *event, mcg_audit_op **out,
                    mcg_error **err) MCG_PARKS;
/* Exactly once for each start; frees `op`. On a fiber it waits until the sinks have it; from the loop it
 * does not. A sink that fails now is logged, keeps the line, and takes no start before it. */
void mcg_audit_finish(mcg_audit_op *op, const mcg_event *outcome);
/* What neither begins nor ends, or has been decided already: waits and fails as finish does. */
void mcg_audit_point(mcg_session *session, const mcg_event *event);
/* As point, but -1 when it is not written: for what must not go on then. */
int mcg_audit_told(mcg_session *session, const mcg_event *event, mcg_error **err) MCG_PARKS;
/* A start, what it begins (on a fiber), and its finish: what `run` returned is returned. */
int mcg_audit_around(mcg_session *session, const mcg_event *event,
                     int (*run)(void *arg, mcg_error **err), void *arg, mcg_error **err) MCG_PARKS;
/* What the engine does for no session, in the default log: never parks. */
void mcg_audit_engine_point(mcg_engine *engine, const mcg_event *event);
/* Unique in all logs; valid until finish. NULL for NULL. */
const char *mcg_audit_op_id(const mcg_audit_op *op);

/* What leaves the engine for its host's eyes: secrets are struck out of an error and its causes (NULL is
 * fine), and of a text, which is taken; another one, or the same, is returned. NULL: no memory. */
void mcg_audit_redact(const mcg_engine *engine, mcg_error *error);
char *mcg_audit_redact_text(const mcg_engine *engine, char *take_text);

/* For `detail`: text of any bytes, {"base64":...} where it is not UTF-8; NULL: no memory. */
json_t *mcg_json_bytes(const char *text);

/* ---- for session.c and engine.c ------------------------------------------------------------ */

struct mcg_sinks; /* the sinks of one configuration */

/* config.c: the values in a configuration that are secret: those of manifest.environment that say so,
 * and the headers of rules of the network. */
int mcg_audit_learn(mcg_engine *engine, const json_t *root, mcg_error **err);
int mcg_audit_learn_network(mcg_engine *engine, const json_t *network, mcg_error **err);
/* keeper.c and resume.c: what one engine of a user knows, for another that uses its session. */
json_t *mcg_audit_secrets(const mcg_engine *engine); /* a list, maybe empty; NULL: no memory */
int mcg_audit_learn_secrets(mcg_engine *engine, const json_t *list, mcg_error **err);
/* config.c: judges the key `audit`; opens nothing. */
int mcg_audit_read(mcg_engine *engine, const json_t *audit, struct mcg_sinks **out,
                   mcg_error **err);
/* config.c: a log lies in no directory that the sandbox may write to. */
int mcg_audit_apart(const struct mcg_sinks *sinks, const mcg_bind *binds, size_t count,
                    mcg_error **err);
/* Which of the binds lets a sandbox write `place`, or what would be made there; NULL: none. */
const char *mcg_bind_over(const char *place, const mcg_bind *binds, size_t count);
void mcg_sinks_free(struct mcg_sinks *sinks);
/* When no session is left: waits for the writers to end. `audit_failed` where lines are lost. */
int mcg_audit_end(mcg_engine *engine, mcg_error **err);

#endif
