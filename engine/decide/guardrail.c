/* guardrail.c: may this command run? The host's guardrail says yes, no, "ask", or what to run instead.
 * Everything that is not a plain yes is a no: an error, a time-out, an answer that makes no sense, a
 * question that nobody can be asked. */
#include "pipeline.h"
#include "spend.h"
#include <string.h>

typedef struct verdict {
  bool allow, ask;
  const char *reason, *rule, *warn, *fix; /* borrowed from the answer */
  json_t *rewrite;                        /* borrowed, or NULL */
} verdict;

static const char *text_of(const json_t *answer, const char *key)
{
  return json_string_value(json_object_get(answer, key));
}

static verdict read_verdict(const json_t *answer)
{
  return (verdict){.allow = json_is_true(json_object_get(answer, "allow")),
                   .ask = json_is_true(json_object_get(answer, "ask")),
                   .reason = text_of(answer, "reason"),
                   .rule = text_of(answer, "rule"),
                   .warn = text_of(answer, "warn"),
                   .fix = text_of(answer, "fix"),
                   .rewrite = json_object_get(answer, "rewrite")};
}

void mcg_decision_fini(mcg_decision *decision)
{
  free(decision->rule);
  free(decision->reason);
  *decision = (mcg_decision){0};
}

static void note(mcg_decision *decision, const char *by, const verdict *said)
{
  mcg_decision_fini(decision);
  decision->by = by;
  decision->rule = said->rule ? strdup(said->rule) : NULL;
  decision->reason = said->reason ? strdup(said->reason) : NULL;
}

static int deny(const char *by, const verdict *said, mcg_error **err)
{
  const char *rule = said->rule, *reason = said->reason;
  const char *fix = said->fix ? said->fix : "run something else, or change the guardrail";
  return mcg_fail(err, MCG_COMMAND_DENIED, fix, "%s denied the command%s%s%s: %s", by,
                  rule ? " (rule " : "", rule ? rule : "", rule ? ")" : "",
                  reason ? reason : "no reason given");
}

/* `error` is what went wrong in asking. Canceled: whoever canceled says why. */
static int failed(mcg_session *session, const char *who, mcg_error *take_error, mcg_error **err)
{
  auto_error mcg_error *error = take_error;
  if (error->code == MCG_CANCELED && mcg_fiber_stopped(session->engine)) {
    *err = mcg_steal_pointer(&error);
    return -1;
  }
  return mcg_fail(err, MCG_COMMAND_DENIED,
                  error->fix ? error->fix : "correct the function; nothing runs until it decides",
                  "the command is denied, because %s failed: %s", who, error->message);
}

static int ask_person(mcg_session *session, const mcg_told *command, const verdict *why,
                      mcg_decision *decision, mcg_error **err)
{
  mcg_error *error = NULL;
  json_t *answer = NULL;
  if (!mcg_session_asks(session, MCG_ASK_CONFIRM)) {
    verdict no = {.reason = "it wants a yes, and nobody can be asked",
                  .rule = why->rule,
                  .fix = "run it on a terminal, or give on_ask"};
    note(decision, "guardrail", &no);
    return deny("the guardrail", &no, err);
  }
  mcg_told question = *command;
  question.reason = why->reason;
  question.rule = why->rule;
  if (mcg_ask_told(session, MCG_ASK_CONFIRM, &question, -1, NULL, &answer, &error) < 0)
    return failed(session, "the question", error, err);
  verdict said = read_verdict(answer);
  if (!said.reason)
    said.reason = why->reason ? why->reason : said.allow ? NULL : "the answer was no";
  if (!said.rule) said.rule = why->rule;
  note(decision, "ask", &said);
  int rc = said.allow ? 0 : deny("the one who was asked", &said, err);
  json_decref(answer);
  return rc;
}

static int take_rewrite(json_t *list, json_t **out, mcg_error **err)
{
  size_t i;
  json_t *item;
  bool good = json_array_size(list) > 0;
  json_array_foreach(list, i, item)
  {
    const char *text = json_string_value(item);
    good = good && text && strlen(text) == json_string_length(item) && (i > 0 || *text);
  }
  if (!good)
    return mcg_fail(err, MCG_COMMAND_DENIED, "return { rewrite = { \"program\", \"argument\" } }",
                    "the command is denied: the guardrail's rewrite is no list of arguments");
  *out = json_incref(list);
  return 0;
}

int mcg_guardrail_judge(mcg_session *session, const mcg_told *command, json_t **rewritten,
                        mcg_decision *decision, mcg_error **err)
{
  *rewritten = NULL;
  decision->by = "guardrail";
  if (!mcg_session_asks(session, MCG_ASK_GUARDRAIL))
    return mcg_fail(err, MCG_COMMAND_DENIED, "use the configuration that the session was made with",
                    "the session has a guardrail, and this process does not");
  mcg_told question = *command;
  mcg_spend spend;
  mcg_spend_tell(session, &spend, &question);
  mcg_error *error = NULL;
  json_t *answer = NULL;
  if (mcg_ask_told(session, MCG_ASK_GUARDRAIL, &question, -1, NULL, &answer, &error) < 0)
    return failed(session, "the guardrail", error, err);
  verdict said = read_verdict(answer);
  int rc = 0;
  note(decision, "guardrail", &said);
  if (said.ask)
    rc = ask_person(session, &question, &said, decision, err);
  else if (said.rewrite)
    rc = take_rewrite(said.rewrite, rewritten, err);
  else if (!said.allow)
    rc = deny("the guardrail", &said, err);
  else if (said.warn) /* a yes that somebody should hear of: a budget that is nearly spent */
    mcg_log(session->engine, MCG_LOG_WARNING, "session %.8s: %s", session->id, said.warn);
  json_decref(answer);
  return rc;
}
