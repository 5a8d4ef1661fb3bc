/* callback.c: events told to the host, as questions that it answers when it has them. Their chain is
 * the session's own, and begins with it: what the host does with the lines is its affair. */
#include "decide/ask.h"
#include "sinks.h"
#include <string.h>

static json_t *question_of(struct mcg_sinks *sinks, const mcg_line *line)
{
  mcg_text text = {0};
  json_t *question = NULL;
  if (mcg_chain_append(&sinks->callback_chain, &text, line)) /* a newline at its end */
    question = json_pack("{s:s%}", "line", text.data, text.len - 1);
  mcg_text_fini(&text);
  return question;
}

int mcg_callback_tell(mcg_session *session, struct mcg_sinks *sinks, const mcg_line *line,
                      mcg_error **err)
{
  if (!mcg_session_asks(session, MCG_ASK_EVENT))
    return mcg_fail(err, MCG_AUDIT_FAILED, "open it where the function is",
                    "the audit callback: nobody here has one");
  auto_json json_t *question = question_of(sinks, line);
  if (!question) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an audit event");
  auto_error mcg_error *failed = NULL;
  json_t *answer = NULL;
  int rc = mcg_ask_counsel(session->engine, session->counsel, session, MCG_ASK_EVENT, question,
                           session->config->hook_ms, &answer, &failed);
  json_decref(answer);
  if (rc == 0) return 0;
  if (failed->code == MCG_CANCELED) {
    *err = mcg_steal_pointer(&failed);
    return -1;
  }
  return mcg_fail(err, MCG_AUDIT_FAILED, "correct the function given to mooncage.audit.callback",
                  "the audit callback: %s", failed->message);
}

/* ---- from the loop: an operation of its own ---------------------------------------------------- */

typedef struct telling {
  mcg_session *session;
  mcg_line *line;
} telling;

static int telling_run(void *arg, mcg_error **err)
{
  telling *self = arg;
  return mcg_callback_tell(self->session, self->session->config->audit, self->line, err);
}

static void telling_complete(void *arg, mcg_error *error)
{
  telling *self = arg;
  if (error) mcg_log(self->session->engine, MCG_LOG_ERROR, "%s", error->message);
  mcg_error_free(error);
  mcg_line_unref(self->line);
  mcg_session_let_go(self->session);
  free(self);
}

void mcg_callback_tell_later(mcg_session *session, mcg_line *line)
{
  auto_error mcg_error *error = NULL;
  telling *self = malloc(sizeof *self);
  if (self) {
    line->refs++;
    *self = (telling){.session = session, .line = line};
    mcg_session_hold(session);
    if (mcg_op_start_teardown(session->engine, telling_run, telling_complete, self, NULL, &error) ==
        0)
      return;
    mcg_session_let_go(session);
    mcg_line_unref(line);
    free(self);
  }
  mcg_log(session->engine, MCG_LOG_ERROR, "an audit event is not told: %s",
          error ? error->message : "no memory");
}
