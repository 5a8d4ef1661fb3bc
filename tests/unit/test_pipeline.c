/* The way of a command, as a host in C goes it: asked by questions, told by hooks, told once each. */
#include "decide/ask.h"
#include "host.h"
#include <limits.h>
#include <unistd.h>

static char order[1024]; /* what the host was asked and told, in order */
static const char *verdict, *confirmation;
static bool late; /* the guardrail's question stays open */
static mcg_question *open_one;
static int abandoned;

static void note(const char *what)
{
  size_t len = strlen(order);
  snprintf(order + len, sizeof order - len, "%s;", what);
}

static const char *hook_in(const char *json)
{
  static const char *const names[] = {"on_sandbox_exec_start", "on_sandbox_exec_end"};
  for (int i = 0; i < 2; i++)
    if (strstr(json, names[i])) return names[i] + strlen("on_sandbox_exec_");
  return "other";
}

static void on_question(void *data, unsigned kind, const char *json, mcg_question *question)
{
  (void)data;
  if (kind == MCG_ASK_HOOK) {
    note(hook_in(json));
    mcg_answer(question, NULL);
  } else if (kind == MCG_ASK_CONFIRM) {
    note("confirm");
    mcg_answer(question, confirmation);
  } else {
    note("guardrail");
    open_one = question;
    if (!late) mcg_answer(question, verdict);
  }
}

static void on_abandoned(void *data, mcg_question *question)
{
  (void)data;
  assert_ptr_equal(question, open_one);
  abandoned++;
}

static mcg_deciders deciders = {.size = sizeof deciders,
                                .asks = MCG_ASK_GUARDRAIL | MCG_ASK_CONFIRM | MCG_ASK_HOOK,
                                .on_question = on_question,
                                .on_abandoned = on_abandoned};

static int up(void **state)
{
  *order = '\0';
  verdict = "{\"allow\":true}";
  confirmation = NULL;
  late = false;
  abandoned = 0;
  deciders.parsed = false;
  deciders.on_question = on_question;
  return engine_up(state);
}

/* What a host is told as C has it is what the JSON says. */
static void same_command(const mcg_told *told, const json_t *asked)
{
  const json_t *command = json_object_get(asked, "command");
  size_t count = json_array_size(json_object_get(command, "argv"));
  auto_free char *parsed = mcg_argv_commands(told->spec->argv, NULL, count, NULL);
  auto_free char *said = json_dumps(json_object_get(command, "commands"), JSON_COMPACT);
  for (size_t i = 0; i < count; i++)
    assert_string_equal(told->spec->argv[i],
                        json_string_value(json_array_get(json_object_get(command, "argv"), i)));
  assert_null(told->spec->argv[count]);
  assert_string_equal(said, parsed); /* also where nobody had to take it apart */
  assert_int_equal(json_array_size(told->commands), count > 2 ? 2 : 0);
  assert_null(told->unclear);
}

static void on_told(void *data, unsigned kind, const char *json, mcg_question *question)
{
  const mcg_told *told = mcg_question_told(question);
  (void)data;
  assert_null(json);
  open_one = question;
  if (late) return; /* it is looked at when nobody waits any more */
  const json_t *asked = mcg_question_json(question);
  same_command(told, asked);
  if (kind == MCG_ASK_HOOK) {
    assert_string_equal(told->hook, json_string_value(json_object_get(asked, "hook")));
    assert_int_equal(strlen(told->id), 26);
    assert_null(told->session);
    assert_int_equal(told->result ? told->result->stdout_len : 3, 3);
    note(told->result ? "ended" : "starts");
  } else {
    assert_null(told->hook);
    assert_false(told->session->unpriced && told->session->usd > 0);
    assert_null(told->tenant);
    note("guardrail");
  }
  mcg_answer(question, verdict);
}

static mcg_session *open_config(const char *config)
{
  outcome out = {0};
  mcg_error *err = NULL;
  if (mcg_session_open_with(engine, config, strlen(config), &deciders, take_session, &out, NULL,
                            &err) < 0)
    fail_msg("%s", err->message);
  until(&out);
  if (out.error) fail_msg("%s", out.error->message);
  return out.session;
}

static mcg_session *open_guarded(const char *more)
{
  char config[512];
  snprintf(config, sizeof config,
           "{\"backend\":\"subprocess\",\"audit\":false,\"guardrail\":true,"
           "\"hooks\":[\"on_sandbox_exec_start\",\"on_sandbox_exec_end\"]%s}",
           more);
  return open_config(config);
}

static void in_order(void **state)
{
  (void)state;
  mcg_session *session = open_guarded("");
  outcome out;
  run_shell(session, "echo hi", &out);
  assert_string_equal(out.result.stdout_data, "hi\n");
  assert_string_equal(order, "guardrail;start;end;");
  outcome_fini(&out);
  close_session(session);
}

static void no_answer_is_a_no(void **state)
{
  (void)state;
  static const char *const answers[] = {
      NULL, "{}", "{\"allow\":1}", "{\"allow\":\"true\"}", "[]", "{\"ask\":true}", "rubbish"};
  mcg_session *session = open_guarded("");
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    outcome out;
    verdict = answers[i];
    *order = '\0';
    run_spec(session, &(mcg_exec_spec){.size = sizeof(mcg_exec_spec), .shell = "echo hi"}, &out);
    assert_non_null(out.error);
    assert_int_equal(out.error->code, MCG_COMMAND_DENIED);
    assert_null(strstr(order, "start")); /* and no hook is told of what does not begin */
    outcome_fini(&out);
  }
  close_session(session);
}

static void a_person_is_asked(void **state)
{
  (void)state;
  mcg_session *session = open_guarded("");
  outcome out;
  verdict = "{\"ask\":true,\"reason\":\"sure?\"}";
  confirmation = "{\"allow\":true}";
  run_shell(session, "true", &out);
  assert_string_equal(order, "guardrail;confirm;start;end;");
  outcome_fini(&out);
  close_session(session);
}

static void told_as_c_has_it(void **state)
{
  (void)state;
  static const char *const alone[] = {"echo", "hi", NULL}, *const within[] = {"env", "echo", "hi",
                                                                              NULL};
  deciders.parsed = true;
  deciders.on_question = on_told;
  mcg_session *session = open_guarded("");
  for (int i = 0; i < 2; i++) {
    outcome out;
    *order = '\0';
    run_spec(session, &(mcg_exec_spec){.size = sizeof(mcg_exec_spec), .argv = i ? within : alone},
             &out);
    assert_null(out.error);
    assert_string_equal(order, "guardrail;starts;ended;");
    outcome_fini(&out);
  }
  outcome out = {0};
  mcg_exec *exec;
  mcg_exec_spec spec = {.size = sizeof spec, .argv = alone};
  late = true;
  assert_int_equal(mcg_exec_start(session, &spec, &plain_events, &out, &exec, NULL), 0);
  turn_for(5);
  mcg_exec_cancel(exec);
  until(&out);
  assert_null(mcg_question_told(open_one)); /* who asked is gone, and what he asked stays */
  assert_non_null(json_object_get(mcg_question_json(open_one), "command"));
  mcg_answer(open_one, verdict);
  outcome_fini(&out);
  close_session(session);
}

static void what_is_canceled_while_it_is_judged(void **state)
{
  (void)state;
  mcg_session *session = open_guarded("");
  mcg_exec_spec spec = {.size = sizeof spec, .shell = "cat", .stdin_mode = MCG_STDIN_PIPE};
  outcome out = {0}, written = {0};
  mcg_exec *exec;
  late = true;
  assert_int_equal(mcg_exec_start(session, &spec, &plain_events, &out, &exec, NULL), 0);
  assert_true(mcg_exec_waits(exec));
  assert_int_equal(mcg_exec_write(exec, "x", 1, take_done, &written, NULL), 0);
  turn_for(5);
  assert_int_equal(out.completions, 0);
  mcg_exec_cancel(exec);
  until(&out);
  assert_int_equal(out.error->code, MCG_CANCELED);
  assert_int_equal(written.completions, 1); /* each write completes, before the command does */
  assert_int_equal(written.error->code, MCG_UNAVAILABLE);
  assert_int_equal(abandoned, 1);
  mcg_answer(open_one, verdict);
  assert_string_equal(order, "guardrail;");
  outcome_fini(&written);
  outcome_fini(&out);
  close_session(session);
}

/* Canceled at each turn of the loop, while its line is on its way to the disk among them: a hook that did
 * not hear of the start does not hear of the end. */
static void what_is_canceled_while_it_is_logged(void **state)
{
  (void)state;
  const char *log = getenv("XDG_STATE_HOME");
  char path[PATH_MAX], config[PATH_MAX + 256];
  unsigned unheard = 0;
  snprintf(path, sizeof path, "%s/pipeline-%d.jsonl", log ? log : "/tmp", (int)getpid());
  snprintf(
      config, sizeof config,
      "{\"backend\":\"subprocess\",\"hooks\":[\"on_sandbox_exec_start\","
      "\"on_sandbox_exec_end\"],\"audit\":{\"type\":\"jsonl\",\"path\":\"%s\",\"durable\":true}}",
      path);
  mcg_session *session = open_config(config);
  for (int turns = 0; turns < 8; turns++) {
    static const char *const argv[] = {"true", NULL};
    mcg_exec_spec spec = {.size = sizeof spec, .argv = argv};
    outcome out = {0};
    mcg_exec *exec;
    *order = '\0';
    assert_int_equal(mcg_exec_start(session, &spec, &plain_events, &out, &exec, NULL), 0);
    for (int i = 0; i < turns; i++) uv_run(mcg_engine_loop(engine), UV_RUN_NOWAIT);
    mcg_exec_cancel(exec);
    until(&out);
    assert_int_equal(out.error->code, MCG_CANCELED);
    if (strcmp(order, "start;end;") != 0) assert_string_equal(order, "");
    unheard += !*order;
    outcome_fini(&out);
  }
  assert_true(unheard > 0);
  close_session(session);
  unlink(path);
}

static void closing_ends_what_is_judged(void **state)
{
  (void)state;
  mcg_session *session = open_guarded("");
  mcg_exec_spec spec = {.size = sizeof spec, .shell = "true"};
  outcome out = {0};
  late = true;
  assert_int_equal(mcg_exec_start(session, &spec, &plain_events, &out, NULL, NULL), 0);
  turn_for(5);
  close_session(session);
  assert_int_equal(out.completions, 1);
  assert_int_equal(out.error->code, MCG_CANCELED);
  mcg_answer_error(open_one, mcg_error_new(MCG_INTERNAL, "too late", NULL));
  outcome_fini(&out);
}

static void one_without_the_host_that_guards_it(void **state)
{
  (void)state;
  const char *config = "{\"backend\":\"subprocess\",\"audit\":false,\"guardrail\":true}";
  mcg_session *session = open_session(config);
  outcome out;
  run_spec(session, &(mcg_exec_spec){.size = sizeof(mcg_exec_spec), .shell = "true"}, &out);
  assert_int_equal(out.error->code, MCG_COMMAND_DENIED);
  outcome_fini(&out);
  close_session(session);
}

static void take_tool(void *data, mcg_tool *tool, mcg_error *error)
{
  outcome *out = data;
  out->text = (char *)tool;
  take_done(out, error);
}

static void tools_of_the_host(void **state)
{
  (void)state;
  mcg_session *session =
      open_guarded(",\"tools\":[\"mine\",\"other\"],\"allowed_tools\":[\"mine\",\"shell\"]");
  outcome out = {0};
  assert_int_equal(mcg_tool_start(session, "mine", NULL, true, take_tool, &out, NULL, NULL), 0);
  until(&out);
  assert_null(out.error);
  mcg_tool_finish((mcg_tool *)out.text, NULL);
  out = (outcome){0};
  assert_int_equal(mcg_tool_start(session, "other", NULL, false, take_tool, &out, NULL, NULL), 0);
  until(&out);
  assert_null(out.text);
  assert_int_equal(out.error->code, MCG_TOOL_NOT_ALLOWED);
  outcome_fini(&out);
  mcg_exec_spec spec = {.size = sizeof spec, .shell = "true", .tool = "other"};
  run_spec(session, &spec, &out);
  assert_int_equal(out.error->code, MCG_TOOL_NOT_ALLOWED);
  assert_string_equal(order, ""); /* nobody was asked */
  outcome_fini(&out);
  close_session(session);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, up, engine_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      CASE(in_order),
      CASE(no_answer_is_a_no),
      CASE(a_person_is_asked),
      CASE(told_as_c_has_it),
      CASE(what_is_canceled_while_it_is_judged),
      CASE(what_is_canceled_while_it_is_logged),
      CASE(closing_ends_what_is_judged),
      CASE(one_without_the_host_that_guards_it),
      CASE(tools_of_the_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
