/* Choosing for a C host: what a selector may answer, the order in which candidates are tried, and what
 * is remembered of them. Backends of the test's own stand beside the jail. */
#include "engine.h"
#include "host.h"
#include <jansson.h>

static int creates; /* of the broken one */

static int broken_create(mcg_session *session, const mcg_plan *plan, mcg_place *out,
                         mcg_error **err)
{
  (void)session, (void)plan, (void)out;
  creates++;
  return mcg_fail(err, MCG_UNAVAILABLE, "wait", "it is broken");
}

/* As hosted vendors are: its network is there, and cannot be denied. */
static void open_traits(const struct json_t *options, mcg_traits *traits)
{
  static const char *const names[] = {"gpu", NULL};
  (void)options;
  traits->capabilities = names;
  traits->networks = MCG_GIVES(MCG_NETWORK_OPEN);
  traits->persistent = true;
}

static const mcg_backend broken = {.id = "broken",
                                   .isolation = MCG_ISOLATION_VM,
                                   .create = broken_create,
                                   .rate = &(const mcg_rate){0.001, "2026-11-01"}};
static const mcg_backend vendor = {.id = "vendor",
                                   .family = MCG_HOSTED,
                                   .isolation = MCG_ISOLATION_VM,
                                   .create = broken_create,
                                   .traits = open_traits,
                                   .rate = &(const mcg_rate){0.5, "2026-11-01"}};
static const mcg_backend no_create = {.id = "no_create", .isolation = MCG_ISOLATION_VM};

static int up(void **state)
{
  creates = 0;
  if (engine_up(state) < 0) return -1;
  assert_int_equal(mcg_engine_add_backend(engine, &broken, NULL), 0);
  assert_int_equal(mcg_engine_add_backend(engine, &vendor, NULL), 0);
  return mcg_engine_add_backend(engine, &no_create, NULL);
}

static void take_text(void *data, const char *json, mcg_error *error)
{
  outcome *out = data;
  if (json) out->text = strdup(json);
  take_done(out, error);
}

/* ---- a host that answers ------------------------------------------------------------------ */

static const char *reply; /* NULL: an error */
static char heard[4096];
static int released;

static void on_question(void *data, unsigned kind, const char *json, mcg_question *question)
{
  (void)data;
  assert_int_equal(kind, MCG_ASK_SELECT);
  snprintf(heard, sizeof heard, "%s", json);
  if (reply)
    mcg_answer(question, reply);
  else
    mcg_answer_error(question, mcg_error_new(MCG_QUOTA, "I am tired", NULL));
}

static void on_release(void *data)
{
  (void)data;
  released++;
}

static const mcg_deciders deciders = {.size = sizeof deciders,
                                      .asks = MCG_ASK_SELECT,
                                      .on_question = on_question,
                                      .on_release = on_release};

static outcome opened(const char *config)
{
  outcome out = {0};
  mcg_error *err = NULL;
  if (mcg_session_open_with(engine, config, strlen(config), &deciders, take_session, &out, NULL,
                            &err) < 0)
    out.error = err;
  else
    until(&out);
  return out;
}

static const char three[] =
    "{\"candidates\":[{\"id\":\"jail\",\"name\":\"a\"},{\"id\":\"jail\",\"name\":\"b\"},"
    "{\"id\":\"subprocess\",\"name\":\"weak\"},\"vendor\"],"
    "\"requirements\":{\"min_isolation\":\"namespace\"}}";

static void answers(void **state)
{
  (void)state;
  static const struct {
    const char *reply;
    mcg_code code;
    const char *says;
  } bad[] = {
      {NULL, MCG_QUOTA, "I am tired"},
      {"{}", MCG_NO_CANDIDATE, "it gave no reason"},
      {"{\"order\":[],\"reason\":\"no\"}", MCG_NO_CANDIDATE, "the selector chose none: no"},
      {"{\"order\":[],\"reason\":7}", MCG_NO_CANDIDATE, "it gave no reason"},
      {"{\"order\":\"a\"}", MCG_INVALID, "no order of candidates"},
      {"{\"order\":[\"a\"]}", MCG_INVALID, "no order of candidates"},
      {"{\"order\":[1.5]}", MCG_INVALID, "no order of candidates"},
      {"{\"order\":[0]}", MCG_INVALID, "no order of candidates"},
      {"{\"order\":[-1]}", MCG_INVALID, "no order of candidates"},
      {"{\"order\":[5]}", MCG_INVALID, "no order of candidates"},
      {"{\"order\":[9223372036854775807]}", MCG_INVALID, "no order of candidates"},
      {"{\"order\":[3]}", MCG_NO_CANDIDATE, "weak, which cannot be used: isolation is none"},
      {"{\"order\":[1,3]}", MCG_NO_CANDIDATE, "weak, which cannot be used"},
      {"{\"order\":[4]}", MCG_NO_CANDIDATE, "vendor, which cannot be used: network"},
  };
  released = 0;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    reply = bad[i].reply;
    outcome out = opened(three);
    assert_null(out.session);
    if (out.error->code != bad[i].code || !strstr(out.error->message, bad[i].says))
      fail_msg("%s: %s: %s", reply, mcg_code_name(out.error->code), out.error->message);
    mcg_error_free(out.error);
  }
  reply = "{\"order\":[2,1,2],\"reason\":\"be\\u001bcause\"}";
  outcome out = opened(three);
  assert_null(out.error);
  char *info = mcg_session_info(out.session);
  assert_non_null(strstr(info, "\"name\":\"b\""));
  free(info);
  close_session(out.session);
  assert_int_equal(released, sizeof bad / sizeof *bad + 1);
}

/* Those that may be chosen, by their numbers, with facts; not those that cannot be candidates. */
static void is_asked_about_candidates(void **state)
{
  (void)state;
  reply = "{\"order\":[1]}";
  outcome out = opened(three);
  close_session(out.session);
  json_t *question = json_loads(heard, 0, NULL);
  assert_int_equal(json_array_size(json_object_get(question, "candidates")), 3);
  json_t *numbers = json_object_get(question, "numbers");
  assert_int_equal(json_integer_value(json_array_get(numbers, 2)), 3);
  json_t *first = json_array_get(json_object_get(question, "candidates"), 0);
  assert_string_equal(json_string_value(json_object_get(first, "isolation")), "namespace");
  assert_true(json_is_true(json_object_get(json_object_get(first, "capabilities"), "pty")));
  json_decref(question);
}

/* ---- failover ----------------------------------------------------------------------------- */

static void fails_over(void **state)
{
  (void)state;
  mcg_session *session = open_session("{\"candidates\":[\"jail\",\"broken\"]}");
  assert_int_equal(creates, 1);
  char *info = mcg_session_info(session);
  assert_non_null(strstr(info, "broken could not be opened (it is broken): jail is tried instead"));
  free(info);
  close_session(session);
}

static void fails_with_all_reasons(void **state)
{
  (void)state;
  static const struct {
    const char *config;
    mcg_code code;
    const char *says;
    int tries;
  } cases[] = {
      {"{\"candidates\":[\"broken\",\"broken\"]}", MCG_UNAVAILABLE,
       "no candidate could be opened: broken: it is broken; broken: it is broken", 2},
      {"{\"candidates\":[\"broken\",\"jail\"],\"failover\":false}", MCG_UNAVAILABLE,
       "broken: it is broken; jail: fits", 1},
      {"{\"candidates\":[\"broken\",\"subprocess\"],\"limits\":{\"pid_limit\":5}}", MCG_UNAVAILABLE,
       "subprocess: limits.pid_limit: subprocess cannot enforce it", 1},
      {"{\"backend\":\"broken\"}", MCG_UNAVAILABLE, "it is broken", 1},
      {"{\"candidates\":[\"vendor\",\"no_create\"]}", MCG_NO_CANDIDATE,
       "vendor: network: vendor cannot keep its commands from the network; no_create: backend "
       "no_create cannot make sandboxes",
       0},
      {"{\"backend\":\"no_create\"}", MCG_UNSUPPORTED, "cannot make sandboxes", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    outcome out = {0};
    mcg_error *err = NULL;
    const char *config = cases[i].config;
    creates = 0;
    if (mcg_session_open(engine, config, strlen(config), take_session, &out, NULL, &err) < 0)
      out.error = err;
    else
      until(&out);
    assert_null(out.session);
    if (out.error->code != cases[i].code || !strstr(out.error->message, cases[i].says))
      fail_msg("%s: %s: %s", config, mcg_code_name(out.error->code), out.error->message);
    assert_int_equal(creates, cases[i].tries);
    mcg_error_free(out.error);
  }
}

/* A message has an end, however many there are. */
static void says_how_many_more(void **state)
{
  (void)state;
  enum { MANY = 500 };
  auto_free char *config = malloc(MANY * 16 + 64);
  size_t len = (size_t)sprintf(config, "{\"candidates\":[");
  for (int i = 0; i < MANY; i++) len += (size_t)sprintf(config + len, "%s\"vendor\"", i ? "," : "");
  sprintf(config + len, "]}");
  outcome out = {0};
  assert_int_equal(
      mcg_session_open(engine, config, strlen(config), take_session, &out, NULL, &out.error), 0);
  until(&out);
  assert_int_equal(out.error->code, MCG_NO_CANDIDATE);
  assert_true(strlen(out.error->message) < 2400);
  const char *more = strstr(out.error->message, "; and ");
  int left = 0, said = 0;
  assert_non_null(more);
  assert_int_equal(sscanf(more, "; and %d more", &left), 1);
  for (const char *at = out.error->message; (at = strstr(at, "vendor: network")); at++) said++;
  assert_int_equal(said + left, MANY);
  mcg_error_free(out.error);
}

/* What was decided is logged of the session that is opened, also of one that was parked. */
static void logs_whom_it_is_about(void **state)
{
  (void)state;
  char path[] = "/tmp/mcg-choice-XXXXXX", config[256], text[16384];
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  unlink(path);
  snprintf(
      config, sizeof config,
      "{\"candidates\":[{\"id\":\"jail\",\"pool\":{\"size\":1}},\"subprocess\"],\"audit\":false}");
  close_session(open_session(config));
  turn_for(300); /* until one is parked */
  snprintf(config, sizeof config,
           "{\"candidates\":[{\"id\":\"jail\",\"pool\":{\"size\":1}},\"subprocess\"],"
           "\"audit\":{\"type\":\"jsonl\",\"path\":\"%s\"}}",
           path);
  mcg_session *session = open_session(config);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  unlink(path);
  char *info = mcg_session_info(session);
  json_t *facts = json_loads(info, 0, NULL);
  int lines = 0;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
    json_t *event = json_loads(line, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(event, "session")),
                        json_string_value(json_object_get(facts, "id")));
    json_decref(event);
  }
  assert_int_equal(lines, 3); /* select, open and its finish */
  json_decref(facts);
  free(info);
  close_session(session);
}

/* ---- a dry run ---------------------------------------------------------------------------- */

static json_t *selected(const char *config, const mcg_deciders *who)
{
  outcome out = {0};
  mcg_error *err = NULL;
  if (mcg_select(engine, config, strlen(config), who, take_text, &out, NULL, &err) < 0)
    fail_msg("%s", err->message);
  until(&out);
  if (out.error) fail_msg("%s", out.error->message);
  json_t *told = json_loads(out.text, 0, NULL);
  free(out.text);
  assert_int_equal(creates, 0);
  return told;
}

static void tries_without_opening(void **state)
{
  (void)state;
  json_t *told = selected("{\"candidates\":[\"jail\",\"vendor\",\"broken\"],"
                          "\"requirements\":{\"network\":true,\"capabilities\":[\"gpu\"]}}",
                          NULL);
  assert_int_equal(json_integer_value(json_object_get(told, "chosen")), 2);
  assert_int_equal(json_array_size(json_object_get(told, "candidates")), 3);
  json_decref(told);
  told = selected("{\"backend\":\"jail\",\"requirements\":{\"persistent\":true}}", NULL);
  assert_null(json_object_get(told, "chosen"));
  assert_string_equal(json_string_value(json_object_get(json_object_get(told, "error"), "code")),
                      "no_candidate");
  json_decref(told);
  reply = "{\"order\":[2,1]}";
  released = 0;
  told = selected(three, &deciders);
  assert_int_equal(json_integer_value(json_object_get(told, "chosen")), 2);
  assert_int_equal(released, 1);
  json_decref(told);
}

static void refuses_at_once(void **state)
{
  (void)state;
  static const char *const bad[] = {"{",
                                    "[]x",
                                    "{\"candidates\":[\"jial\"]}",
                                    "{\"backend\":\"jail\",\"candidates\":[\"jail\"]}",
                                    "{\"selector\":\"luck\"}",
                                    "{\"selector\":5}",
                                    "{\"failover\":1}"};
  released = 0;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    outcome out = {0};
    mcg_error *err = NULL;
    assert_int_equal(
        mcg_select(engine, bad[i], strlen(bad[i]), &deciders, take_text, &out, NULL, &err), -1);
    assert_int_equal(err->code, MCG_INVALID);
    mcg_error_free(err);
    err = NULL;
    assert_int_equal(mcg_session_open_with(engine, bad[i], strlen(bad[i]), &deciders, take_session,
                                           &out, NULL, &err),
                     -1);
    mcg_error_free(err);
  }
  assert_int_equal(released, 0);
}

/* A selector that has not answered when the open is canceled: it may still answer. */
static mcg_question *held;

static void hold_question(void *data, unsigned kind, const char *json, mcg_question *question)
{
  (void)data, (void)kind, (void)json;
  held = question;
}

static void cancels_while_asking(void **state)
{
  (void)state;
  const mcg_deciders slow = {.size = sizeof slow,
                             .asks = MCG_ASK_SELECT,
                             .on_question = hold_question,
                             .on_release = on_release};
  outcome out = {0};
  mcg_op *op;
  released = 0;
  assert_int_equal(
      mcg_session_open_with(engine, three, strlen(three), &slow, take_session, &out, &op, NULL), 0);
  while (!held) uv_run(mcg_engine_loop(engine), UV_RUN_ONCE);
  mcg_op_cancel(op);
  until(&out);
  assert_int_equal(out.error->code, MCG_CANCELED);
  mcg_error_free(out.error);
  mcg_answer(held, "{\"order\":[1]}");
  assert_int_equal(released, 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(answers, up, engine_down),
      cmocka_unit_test_setup_teardown(is_asked_about_candidates, up, engine_down),
      cmocka_unit_test_setup_teardown(fails_over, up, engine_down),
      cmocka_unit_test_setup_teardown(fails_with_all_reasons, up, engine_down),
      cmocka_unit_test_setup_teardown(says_how_many_more, up, engine_down),
      cmocka_unit_test_setup_teardown(logs_whom_it_is_about, up, engine_down),
      cmocka_unit_test_setup_teardown(tries_without_opening, up, engine_down),
      cmocka_unit_test_setup_teardown(refuses_at_once, up, engine_down),
      cmocka_unit_test_setup_teardown(cancels_while_asking, up, engine_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
