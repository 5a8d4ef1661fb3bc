/* Questions to the host: asked from the loop, answered once, at once or later, by a host that may
 * take longer than the one who asks waits. */
#include "decide/ask.h"
#include "host.h"

typedef struct asker {
  mcg_counsel *counsel;
  mcg_op *op;
  int64_t timeout_ms;
  char *answer;
  outcome out;
} asker;

static mcg_question *pending; /* what the host was asked and has not answered */
static int asked, abandoned, released;
static char heard[256];
static unsigned heard_kind;
static const char *at_once; /* answered inside on_question */

static void on_question(void *data, unsigned kind, const char *json, mcg_question *question)
{
  assert_ptr_equal(data, &asked);
  assert_null(mcg_fiber_current(engine));
  asked++;
  heard_kind = kind;
  snprintf(heard, sizeof heard, "%s", json);
  pending = question;
  if (!at_once) return;
  pending = NULL;
  mcg_answer(question, at_once);
}

static void on_abandoned(void *data, mcg_question *question)
{
  assert_ptr_equal(data, &asked);
  assert_null(mcg_fiber_current(engine));
  assert_ptr_equal(question, pending);
  abandoned++;
}

static void on_release(void *data)
{
  assert_ptr_equal(data, &asked);
  released++;
}

static const mcg_deciders deciders = {.size = sizeof deciders,
                                      .asks = MCG_ASK_GUARDRAIL | MCG_ASK_HOOK,
                                      .data = &asked,
                                      .on_question = on_question,
                                      .on_abandoned = on_abandoned,
                                      .on_release = on_release};

static int up(void **state)
{
  pending = NULL;
  at_once = NULL;
  asked = abandoned = released = 0;
  return engine_up(state);
}

static int ask_run(void *arg, mcg_error **err)
{
  asker *self = arg;
  auto_json json_t *question = json_pack("{s:s}", "word", "a\nb");
  json_t *answer = NULL;
  if (mcg_ask_counsel(engine, self->counsel, NULL, MCG_ASK_GUARDRAIL, question, self->timeout_ms,
                      &answer, err) < 0)
    return -1;
  self->answer = json_dumps(answer, JSON_COMPACT | JSON_ENCODE_ANY);
  json_decref(answer);
  return 0;
}

static void ask_complete(void *arg, mcg_error *error)
{
  take_done(&((asker *)arg)->out, error);
}

static void start(asker *self)
{
  assert_int_equal(mcg_counsel_new(&deciders, &self->counsel, NULL), 0);
  assert_int_equal(mcg_op_start(engine, ask_run, ask_complete, self, &self->op, NULL), 0);
}

static void turn_until_asked(void)
{
  while (!asked) uv_run(mcg_engine_loop(engine), UV_RUN_ONCE);
}

static void end(asker *self)
{
  mcg_counsel_unref(self->counsel);
  free(self->answer);
  outcome_fini(&self->out);
}

static void answered_at_once(void **state)
{
  (void)state;
  asker it = {.timeout_ms = -1};
  at_once = "{\"allow\":true}";
  start(&it);
  assert_int_equal(asked, 0); /* never from inside the start */
  until(&it.out);
  assert_null(it.out.error);
  assert_string_equal(it.answer, "{\"allow\":true}");
  assert_int_equal(heard_kind, MCG_ASK_GUARDRAIL);
  assert_string_equal(heard, "{\"word\":\"a\\nb\"}");
  end(&it);
  assert_int_equal(released, 1);
}

static void answered_later(void **state)
{
  (void)state;
  asker it = {.timeout_ms = -1};
  start(&it);
  turn_until_asked();
  turn_for(5);
  assert_int_equal(it.out.completions, 0);
  mcg_answer(pending, NULL);
  until(&it.out);
  assert_string_equal(it.answer, "null");
  end(&it);
}

static void an_object_is_the_answer(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    asker it = {.timeout_ms = -1};
    asked = 0;
    start(&it);
    turn_until_asked();
    mcg_answer_json(pending, i ? NULL : json_pack("{s:b}", "allow", 1));
    until(&it.out);
    assert_string_equal(it.answer, i ? "null" : "{\"allow\":true}");
    end(&it);
  }
}

static void an_error_is_the_answer(void **state)
{
  (void)state;
  asker it = {.timeout_ms = -1};
  start(&it);
  turn_until_asked();
  mcg_answer_error(pending, mcg_error_new(MCG_COMMAND_DENIED, "no\x1b[2J", "ask nicely"));
  until(&it.out);
  assert_int_equal(it.out.error->code, MCG_COMMAND_DENIED);
  assert_null(strchr(it.out.error->message, '\x1b'));
  assert_string_equal(it.out.error->fix, "ask nicely");
  end(&it);
}

static void rubbish_is_an_error(void **state)
{
  (void)state;
  asker it = {.timeout_ms = -1};
  at_once = "{\"allow\":";
  start(&it);
  until(&it.out);
  assert_int_equal(it.out.error->code, MCG_INVALID);
  assert_non_null(strstr(it.out.error->message, "the host's answer"));
  end(&it);
}

static void one_who_was_canceled_is_not_answered(void **state)
{
  (void)state;
  asker it = {.timeout_ms = -1};
  start(&it);
  turn_until_asked();
  mcg_op_cancel(it.op);
  until(&it.out);
  assert_int_equal(it.out.error->code, MCG_CANCELED);
  assert_int_equal(abandoned, 1);
  end(&it);
  assert_int_equal(released, 0); /* the question is open still */
  assert_null(mcg_question_session(pending));
  json_t *late = json_pack("{s:b}", "allow", 1);
  mcg_answer_json(pending, json_incref(late));
  assert_int_equal(released, 1);
  assert_int_equal(late->refcount, 1); /* it was taken, and let go of */
  json_decref(late);
}

static void one_who_is_canceled_before_he_asks_asks_nothing(void **state)
{
  (void)state;
  asker it = {.timeout_ms = -1};
  start(&it);
  mcg_op_cancel(it.op);
  until(&it.out);
  assert_int_equal(it.out.error->code, MCG_CANCELED);
  assert_int_equal(asked, 0);
  end(&it);
  assert_int_equal(released, 1);
}

static void an_answer_that_takes_too_long(void **state)
{
  (void)state;
  asker it = {.timeout_ms = 5};
  start(&it);
  until(&it.out);
  assert_int_equal(it.out.error->code, MCG_TIMEOUT);
  assert_int_equal(asked, 1);
  assert_int_equal(abandoned, 1);
  end(&it);
  mcg_answer_error(pending, mcg_error_new(MCG_INTERNAL, "too late", NULL));
  assert_int_equal(released, 1);
}

static void answer_and_cancel_in_one_turn(void **state)
{
  (void)state;
  asker it = {.timeout_ms = -1};
  start(&it);
  turn_until_asked();
  mcg_answer(pending, "{}");
  mcg_op_cancel(it.op);
  until(&it.out);
  assert_int_equal(abandoned, 0);
  end(&it);
  assert_int_equal(released, 1);
}

static void deciders_of_another_size(void **state)
{
  (void)state;
  mcg_error *err = NULL;
  mcg_counsel *counsel;
  mcg_deciders small = {.size = 4};
  assert_int_equal(mcg_counsel_new(&small, &counsel, &err), -1);
  assert_int_equal(err->code, MCG_INVALID);
  mcg_error_free(err);
  struct {
    mcg_deciders known;
    long more;
  } large = {.known = deciders, .more = 1};
  large.known.size = sizeof large;
  assert_int_equal(mcg_counsel_new(&large.known, &counsel, &err), -1);
  assert_int_equal(err->code, MCG_UNSUPPORTED);
  mcg_error_free(err);
}

static outcome open_with(const char *config)
{
  outcome out = {0};
  assert_int_equal(mcg_session_open_with(engine, config, strlen(config), &deciders, take_session,
                                         &out, NULL, NULL),
                   0);
  until(&out);
  return out;
}

static void a_session_lets_go_of_them_when_it_is_closed(void **state)
{
  (void)state;
  outcome out = open_with("{\"backend\":\"subprocess\"}");
  assert_null(out.error);
  assert_int_equal(released, 0);
  mcg_session_ref(out.session);
  close_session(out.session);
  assert_int_equal(released, 1);
  mcg_session_unref(out.session);
  assert_int_equal(released, 1);
}

static void also_when_it_cannot_be_opened(void **state)
{
  (void)state;
  outcome out = open_with("{\"backend\":{\"id\":\"subprocess\",\"options\":"
                          "{\"working_directory\":\"/nonexistent\"}}}");
  assert_non_null(out.error);
  assert_int_equal(released, 1);
  outcome_fini(&out);
}

static void a_refused_open_keeps_nothing(void **state)
{
  (void)state;
  mcg_error *err = NULL;
  assert_int_equal(mcg_session_open_with(engine, "{\"bakend\":1}", 12, &deciders, take_session,
                                         NULL, NULL, &err),
                   -1);
  mcg_error_free(err);
  assert_int_equal(released, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, up, engine_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      CASE(answered_at_once),
      CASE(answered_later),
      CASE(an_object_is_the_answer),
      CASE(an_error_is_the_answer),
      CASE(rubbish_is_an_error),
      CASE(one_who_was_canceled_is_not_answered),
      CASE(one_who_is_canceled_before_he_asks_asks_nothing),
      CASE(an_answer_that_takes_too_long),
      CASE(answer_and_cancel_in_one_turn),
      CASE(deciders_of_another_size),
      CASE(a_session_lets_go_of_them_when_it_is_closed),
      CASE(also_when_it_cannot_be_opened),
      CASE(a_refused_open_keeps_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
