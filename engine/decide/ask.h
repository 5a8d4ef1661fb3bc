/* ask.h: questions to the host: what the engine does not decide itself. The fiber that asks parks;
 * the host is called from the loop with no fiber current, and answers once, at once or later. */
#ifndef MCG_ASK_H
#define MCG_ASK_H

#include "engine.h"
#include <jansson.h>

/* What a host gave with mcg_session_open_with, counted: the session holds one, each open question
 * another. The last one let go of calls on_release, so let go of it from the loop only. */
typedef struct mcg_counsel {
  unsigned refs;
  mcg_deciders deciders;
} mcg_counsel;

/* `deciders` NULL: *out is NULL, nobody is asked. */
int mcg_counsel_new(const mcg_deciders *deciders, mcg_counsel **out, mcg_error **err);
mcg_counsel *mcg_counsel_ref(mcg_counsel *counsel); /* NULL is fine, here and below */
void mcg_counsel_unref(mcg_counsel *counsel);

static inline bool mcg_counsel_has(const mcg_counsel *counsel, unsigned kind)
{
  return counsel && (counsel->deciders.asks & kind);
}

/* Asks, and waits for at most timeout_ms (< 0: for ever). 0: *answer is the caller's (json null when
 * the host had nothing to say). -1: what the host said went wrong, `timeout`, or `canceled`; then the
 * host may still answer, and nobody hears it. `session` is what mcg_question_session tells; or NULL. */
int mcg_ask_counsel(mcg_engine *engine, mcg_counsel *counsel, mcg_session *session, unsigned kind,
                    const json_t *question, int64_t timeout_ms, json_t **answer,
                    mcg_error **err) MCG_PARKS;
/* The counsel of a session, without a time limit. Ask mcg_session_asks first. */
int mcg_ask(mcg_session *session, unsigned kind, const json_t *question, json_t **answer,
            mcg_error **err) MCG_PARKS;
/* The same of a command; `told` is only looked at until it returns. *heard, which may be NULL, becomes
 * true as the host is given the question: one that is canceled before that it never hears of. */
int mcg_ask_told(mcg_session *session, unsigned kind, const mcg_told *told, int64_t timeout_ms,
                 bool *heard, json_t **answer, mcg_error **err) MCG_PARKS;
bool mcg_session_asks(const mcg_session *session, unsigned kind);

/* Hands over what was asked on the fiber that has just parked. Called by fiber.c from the loop. */
void mcg_questions_deliver(mcg_engine *engine);

#endif
