/* pipeline.h: the way of a command: allowed tools, guardrail, audit start, hook, the sandbox, hook and
 * audit finish. One errand a command, for exec, start, detach and PTY alike; a session that has nobody
 * to ask and nothing to record has none. */
#ifndef MCG_PIPELINE_H
#define MCG_PIPELINE_H

#include "session/session.h"

struct mcg_errand;

/* The keys "tools" (names of the host's tools), "allowed_tools" and "guardrail" (true: commands need
 * the host's word). */
int mcg_pipeline_read(mcg_config *config, mcg_error **err);
/* `tool_not_allowed` unless the session allows it. */
int mcg_tool_check(const mcg_session *session, const char *tool, mcg_error **err);

bool mcg_errand_needed(const mcg_session *session);
/* Takes the command through the steps before the sandbox and then into it. Copies the spec. */
int mcg_errand_start(mcg_exec *exec, const mcg_exec_spec *spec, mcg_error **err);
/* The sandbox has not seen the command yet: what is written, closed, signalled is kept till then. */
bool mcg_errand_waits(const mcg_exec *exec);
int mcg_errand_write(mcg_exec *exec, const void *bytes, size_t len, mcg_done done, void *data,
                     mcg_error **err);
void mcg_errand_close_stdin(mcg_exec *exec);
int mcg_errand_signal(mcg_exec *exec, int number, mcg_error **err);
int mcg_errand_resize(mcg_exec *exec, uint16_t cols, uint16_t rows);
/* While it waits: ends it, with this error (copied), soon. */
void mcg_errand_abort(mcg_exec *exec, const mcg_error *error);
/* The command has ended: takes the last steps, then mcg_exec_tell. From the loop. */
void mcg_errand_end(mcg_exec *exec);
void mcg_errand_free(struct mcg_errand *errand); /* NULL is fine */

/* facts.c: a command and its outcome for guardrails and hooks; as JSON, NULL: no memory. */
json_t *mcg_bytes_json(const void *bytes, size_t len); /* text, or {"base64":...} */
typedef struct mcg_commands {                          /* what a command runs, as mcg_told has it */
  json_t *words, *list;
  char *unclear;
} mcg_commands;
bool mcg_commands_tell(const mcg_exec_spec *spec, mcg_commands *out); /* false: no memory */
void mcg_commands_fini(mcg_commands *commands);
json_t *mcg_command_json(const mcg_told *told);
json_t *mcg_told_json(unsigned kind, const mcg_told *told); /* the whole question */

typedef struct mcg_decision { /* who decided, for the audit log */
  const char *by;             /* constant; NULL: nobody had to */
  char *rule, *reason;        /* owned, or NULL */
} mcg_decision;
void mcg_decision_fini(mcg_decision *decision);

/* guardrail.c: asks for the host's word about a command, and for that of a person where the guardrail
 * says so. 0: it may run; *rewritten (or NULL) is the list of arguments to run instead. */
int mcg_guardrail_judge(mcg_session *session, const mcg_told *command, json_t **rewritten,
                        mcg_decision *decision, mcg_error **err) MCG_PARKS;

#endif
