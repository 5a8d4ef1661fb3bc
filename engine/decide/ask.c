/* ask.c: questions to the host, and their answers. Nothing here knows what is asked.
 *
 * A question is queued, its fiber parks, and the loop hands it over as soon as that fiber is off its
 * stack. One whose asker has left stays until the host has answered it. */
#include "ask.h"
#include "pipeline.h"
#include <assert.h>
#include <string.h>

typedef enum question_state {
  QUEUED,   /* not handed over yet */
  ASKED,    /* the host has it */
  ANSWERED, /* the asker has not gone on yet */
  LEAVING,  /* the asker is gone, the host is not told yet */
  LEFT      /* the answer finds nobody */
} question_state;

struct mcg_question {
  mcg_engine *engine;
  mcg_counsel *counsel;
  mcg_session *session;
  mcg_question *next; /* in engine->questions */
  question_state state;
  unsigned kind;
  const mcg_told *told; /* of a command, while its asker is there */
  bool *heard;          /* his: whether the host was given it; or NULL */
  json_t *asked;        /* NULL: nobody has looked at it, and it is made of `told` */
  mcg_wait wait;
  json_t *answer;
  mcg_error *error;
};

/* ---- who is asked ------------------------------------------------------------------------- */

int mcg_counsel_new(const mcg_deciders *given, mcg_counsel **out, mcg_error **err)
{
  *out = NULL;
  if (!given) return 0;
  if (given->size < sizeof given->size)
    return mcg_fail(err, MCG_INVALID, "set .size = sizeof(mcg_deciders)",
                    "the deciders say they are %zu bytes long", given->size);
  const unsigned char *bytes = (const unsigned char *)given;
  for (size_t i = sizeof *given; i < given->size; i++)
    if (bytes[i])
      return mcg_fail(err, MCG_UNSUPPORTED, "install a newer libmooncage, or leave new fields zero",
                      "the deciders hold something this version (" MCG_VERSION ") does not know");
  mcg_counsel *counsel = calloc(1, sizeof *counsel);
  if (!counsel) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a session");
  counsel->refs = 1;
  memcpy(&counsel->deciders, given, given->size < sizeof *given ? given->size : sizeof *given);
  if (!counsel->deciders.on_question) counsel->deciders.asks = 0;
  *out = counsel;
  return 0;
}

mcg_counsel *mcg_counsel_ref(mcg_counsel *counsel)
{
  if (counsel) counsel->refs++;
  return counsel;
}

void mcg_counsel_unref(mcg_counsel *counsel)
{
  if (!counsel || --counsel->refs) return;
  if (counsel->deciders.on_release) counsel->deciders.on_release(counsel->deciders.data);
  free(counsel);
}

bool mcg_session_asks(const mcg_session *session, unsigned kind)
{
  return mcg_counsel_has(session->counsel, kind);
}

/* ---- the queue ---------------------------------------------------------------------------- */

static void enqueue(mcg_question *question)
{
  mcg_question **end = &question->engine->questions;
  while (*end) end = &(*end)->next; /* it holds what one fiber has asked: one, seldom two */
  question->next = NULL;
  *end = question;
}

static void dequeue(mcg_question *question)
{
  mcg_question **at = &question->engine->questions;
  while (*at && *at != question) at = &(*at)->next;
  if (*at) *at = question->next;
}

/* On a fiber the counsel is never the last one: its session holds it. */
static void question_free(mcg_question *question)
{
  mcg_counsel_unref(question->counsel);
  json_decref(question->answer);
  mcg_error_free(question->error);
  json_decref(question->asked);
  free(question);
}

static void hand_over(mcg_question *question)
{
  const mcg_deciders *deciders = &question->counsel->deciders;
  auto_free char *text = NULL;
  if (!deciders->parsed) text = json_dumps(mcg_question_json(question), JSON_COMPACT);
  question->state = ASKED;
  if (question->heard) *question->heard = true;
  if (text || deciders->parsed)
    deciders->on_question(deciders->data, question->kind, text, question);
  else
    mcg_answer_error(question, mcg_error_new(MCG_NOMEM, "no memory for a question", NULL));
}

void mcg_questions_deliver(mcg_engine *engine)
{
  assert(!mcg_fiber_current(engine));
  while (engine->questions) {
    mcg_question *question = engine->questions;
    const mcg_deciders *deciders = &question->counsel->deciders;
    engine->questions = question->next;
    if (question->state == QUEUED) {
      hand_over(question);
    } else if (question->state == LEAVING) {
      question->state = LEFT;
      question->session = NULL;
      if (deciders->on_abandoned) deciders->on_abandoned(deciders->data, question);
    }
  }
}

/* ---- asking ------------------------------------------------------------------------------- */

static mcg_question *question_new(mcg_engine *engine, mcg_counsel *counsel, mcg_session *session,
                                  unsigned kind, mcg_error **err)
{
  if (!mcg_counsel_has(counsel, kind)) {
    mcg_fail(err, MCG_INTERNAL, NULL, "a question that the host does not take");
    return NULL;
  }
  mcg_question *question = calloc(1, sizeof *question);
  if (!question) {
    mcg_fail(err, MCG_NOMEM, NULL, "no memory for a question to the host");
    return NULL;
  }
  *question = (mcg_question){
      .engine = engine, .counsel = mcg_counsel_ref(counsel), .session = session, .kind = kind};
  mcg_wait_init(&question->wait);
  return question;
}

/* The wait was over before the answer came. */
static void leave(mcg_question *question)
{
  switch (question->state) {
  case QUEUED:
    dequeue(question);
    question_free(question);
    return;
  case ASKED:
    (void)mcg_question_json(question); /* the host may look at it yet */
    question->told = NULL;
    question->state = LEAVING;
    enqueue(question);
    return;
  default: question_free(question); return; /* both in one turn */
  }
}

static int ask(mcg_question *question, int64_t timeout_ms, json_t **answer, mcg_error **err)
{
  enqueue(question);
  if (mcg_wait_park(question->engine, &question->wait, timeout_ms, err) < 0) {
    leave(question);
    return -1;
  }
  int rc = question->error ? -1 : 0;
  if (rc < 0)
    *err = mcg_steal_pointer(&question->error);
  else
    *answer = mcg_steal_pointer(&question->answer);
  question_free(question);
  return rc;
}

int mcg_ask_counsel(mcg_engine *engine, mcg_counsel *counsel, mcg_session *session, unsigned kind,
                    const json_t *asked, int64_t timeout_ms, json_t **answer, mcg_error **err)
{
  if (!asked) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a question to the host");
  mcg_question *question = question_new(engine, counsel, session, kind, err);
  if (!question) return -1;
  question->asked = json_incref((json_t *)asked);
  return ask(question, timeout_ms, answer, err);
}

int mcg_ask_told(mcg_session *session, unsigned kind, const mcg_told *told, int64_t timeout_ms,
                 bool *heard, json_t **answer, mcg_error **err)
{
  mcg_question *question = question_new(session->engine, session->counsel, session, kind, err);
  if (!question) return -1;
  question->told = told;
  question->heard = heard;
  return ask(question, timeout_ms, answer, err);
}

int mcg_ask(mcg_session *session, unsigned kind, const json_t *asked, json_t **answer,
            mcg_error **err)
{
  return mcg_ask_counsel(session->engine, session->counsel, session, kind, asked, -1, answer, err);
}

/* ---- answering ---------------------------------------------------------------------------- */

/* True: somebody waits for it. */
static bool take(mcg_question *question)
{
  assert(question->state != QUEUED && question->state != ANSWERED);
  if (question->state == ASKED) return true;
  if (question->state == LEAVING) dequeue(question);
  question_free(question);
  return false;
}

static void answered(mcg_question *question)
{
  question->state = ANSWERED;
  mcg_wait_wake(question->engine, &question->wait);
}

void mcg_answer(mcg_question *question, const char *json)
{
  if (!take(question)) return;
  if (!json) {
    question->answer = json_null();
  } else {
    question->answer = mcg_json_parse(json, strlen(json), &question->error);
    if (!question->answer) mcg_wrap(&question->error, "the host's answer");
  }
  answered(question);
}

void mcg_answer_json(mcg_question *question, json_t *take_answer)
{
  if (!take(question)) {
    json_decref(take_answer);
    return;
  }
  question->answer = take_answer ? take_answer : json_null();
  answered(question);
}

void mcg_answer_error(mcg_question *question, mcg_error *take_error)
{
  if (!take(question)) {
    mcg_error_free(take_error);
    return;
  }
  question->error = take_error;
  if (!take_error) mcg_fail(&question->error, MCG_INTERNAL, NULL, "the host gave no reason");
  answered(question);
}

const json_t *mcg_question_json(const mcg_question *question)
{
  if (!question->asked &&
      question->told) /* made when it is first looked at: nothing asked changes */
    ((mcg_question *)question)->asked = mcg_told_json(question->kind, question->told);
  return question->asked;
}

const mcg_told *mcg_question_told(const mcg_question *question)
{
  return question->told;
}

mcg_session *mcg_question_session(const mcg_question *question)
{
  return question->session;
}
