/* Policies of strangers as a C host asks them: in turn, apart, taken back, and when the engine closes;
 * and a process of theirs that has been taken over, which can do no more than deny. */
#include "host.h"
#include "session/session.h"
#include <mooncage/stranger.h>
#include <sys/stat.h>
#include <unistd.h>

static char *install; /* with mooncage-init, and evil_policy as its mooncage-policy */

static mcg_stranger *stranger_of(const char *source)
{
  char policy[512];
  mcg_stranger *made = NULL;
  mcg_error *err = NULL;
  snprintf(policy, sizeof policy, "{\"name\":\"p.lua\",\"source\":\"%s\",\"options\":{\"x\":1}}",
           source);
  if (mcg_stranger_new(engine, policy, strlen(policy), &made, &err) < 0)
    fail_msg("%s", err->message);
  return made;
}

static void take_text(void *data, const char *json, mcg_error *error)
{
  outcome *out = data;
  out->text = json ? strdup(json) : NULL;
  take_done(out, error);
}

static mcg_op *ask(mcg_stranger *stranger, const char *apart, outcome *out)
{
  static const char question[] =
      "{\"kind\":\"guardrail\",\"command\":{\"argv\":[\"ls\"],\"words\":[\"ls\"]},\"context\":{}}";
  mcg_op *op = NULL;
  *out = (outcome){0};
  assert_int_equal(
      mcg_stranger_ask(stranger, apart, question, sizeof question - 1, take_text, out, &op, NULL),
      0);
  return op;
}

static void says(mcg_stranger *stranger, const char *apart, const char *answer)
{
  outcome out;
  ask(stranger, apart, &out);
  until(&out);
  if (out.error) fail_msg("%s", out.error->message);
  assert_string_equal(out.text, answer);
  outcome_fini(&out);
}

static void fails(mcg_stranger *stranger, mcg_code code, const char *why)
{
  outcome out;
  ask(stranger, NULL, &out);
  until(&out);
  assert_non_null(out.error);
  assert_int_equal(out.error->code, code);
  if (!strstr(out.error->message, why)) fail_msg("%s: no %s", out.error->message, why);
  outcome_fini(&out);
}

#define COUNTS                                                                                     \
  "local n = 0 return function(o) return function(c) n = n + o.x return true, tostring(n) end end"

static void each_apart_has_its_own(void **state)
{
  (void)state;
  mcg_stranger *stranger = stranger_of(COUNTS);
  says(stranger, "a", "{\"allow\":true,\"reason\":\"1\"}");
  says(stranger, "a", "{\"allow\":true,\"reason\":\"2\"}");
  says(stranger, "b", "{\"allow\":true,\"reason\":\"1\"}");
  says(stranger, NULL, "{\"allow\":true,\"reason\":\"1\"}");
  mcg_stranger_rest(stranger);
  says(stranger, "a", "{\"allow\":true,\"reason\":\"1\"}");
  mcg_stranger_free(stranger);
}

static void many_at_once_have_their_turn(void **state)
{
  (void)state;
  mcg_stranger *stranger = stranger_of(COUNTS);
  outcome outs[20];
  mcg_op *taken_back = NULL;
  for (int i = 0; i < 20; i++) {
    mcg_op *op = ask(stranger, NULL, &outs[i]);
    if (i == 7) taken_back = op;
  }
  mcg_op_cancel(taken_back);
  mcg_stranger_free(stranger); /* what was asked is still answered */
  for (int i = 0; i < 20; i++) {
    until(&outs[i]);
    assert_int_equal(outs[i].error != NULL, i == 7);
    outcome_fini(&outs[i]);
  }
}

static unsigned jails(void)
{
  unsigned count = 0;
  for (const mcg_session *each = engine->sessions; each; each = each->after)
    count += each->state == MCG_SESSION_STARTING || each->state == MCG_SESSION_RUNNING;
  return count;
}

static int completed(const outcome *outs, int count)
{
  int done = 0;
  for (int i = 0; i < count; i++) done += outs[i].completions;
  return done;
}

/* However many are kept apart, they are not all at once; and one that asks much keeps no other waiting. */
static void more_apart_than_may_be(void **state)
{
  (void)state;
  enum { MANY = 70, GREEDY = 40, CANCELED = 50 };
  outcome outs[MANY + GREEDY];
  unsigned most = 0;
  mcg_op *op, *taken_back = NULL;
  mcg_stranger *stranger = stranger_of(COUNTS);
  for (int i = 0; i < GREEDY; i++) ask(stranger, "greedy", &outs[MANY + i]);
  for (int i = 0; i < MANY; i++) {
    char apart[16];
    snprintf(apart, sizeof apart, "t%d", i);
    op = ask(stranger, apart, &outs[i]);
    if (i == CANCELED) taken_back = op;
  }
  int greedy = 0;
  while (completed(outs, MANY) < MANY) {
    if (completed(outs, MANY) <= MANY / 2) greedy = completed(outs + MANY, GREEDY);
    uv_run(mcg_engine_loop(engine), UV_RUN_ONCE);
    if (taken_back && most > 0) mcg_op_cancel(mcg_steal_pointer(&taken_back));
    most = jails() > most ? jails() : most;
  }
  assert_int_equal(most, 32);
  assert_in_range(greedy, 0, GREEDY / 2);
  for (int i = 0; i < MANY + GREEDY; i++) {
    until(&outs[i]);
    assert_int_equal(outs[i].error != NULL, i == CANCELED);
    outcome_fini(&outs[i]);
  }
  mcg_stranger_free(stranger);
}

static void the_engine_closes_meanwhile(void **state)
{
  (void)state;
  outcome loops, closed = {0};
  mcg_stranger *stranger =
      stranger_of("return function() return function() while true do end end end");
  ask(stranger, NULL, &loops);
  turn_for(30);
  assert_int_equal(mcg_engine_close(engine, take_done, &closed, NULL), 0);
  until(&closed);
  assert_int_equal(loops.completions, 1);
  assert_non_null(loops.error);
  outcome_fini(&loops);
  mcg_stranger_free(stranger);
  mcg_engine_free(engine);
}

static void what_is_no_policy_is_refused(void **state)
{
  (void)state;
  static const char *const wrong[] = {"{}",
                                      "[]",
                                      "{\"name\":\"p\"}",
                                      "{\"name\":1,\"source\":\"\"}",
                                      "{\"name\":\"p\",\"source\":{\"base64\":\"/w==\"}}",
                                      "no"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    mcg_stranger *made = NULL;
    mcg_error *err = NULL;
    assert_int_equal(mcg_stranger_new(engine, wrong[i], strlen(wrong[i]), &made, &err), -1);
    assert_int_equal(err->code, MCG_INVALID);
    mcg_error_free(err);
  }
}

/* ---- one that has been taken over ---------------------------------------------------------- */

static int evil_up(void **state)
{
  (void)state;
  char init[160];
  snprintf(init, sizeof init, "%s/mooncage-init", install);
  mcg_engine_options options = {.size = sizeof options, .init_path = init};
  assert_int_equal(mcg_engine_new(&options, &engine, NULL), 0);
  return 0;
}

static void none_that_was_taken_over_is_believed(void **state)
{
  (void)state;
  static const struct {
    const char *how, *why;
    mcg_code code;
  } ways[] = {{"flood", "more than one line", MCG_PROTOCOL},
              {"nest", "nested deeper", MCG_INVALID},
              {"never", "more than 1 s", MCG_TIMEOUT},
              {"exit", "ended before it had decided", MCG_INVALID},
              {"two", "more than one line", MCG_PROTOCOL},
              {"garbage", "p.lua", MCG_INVALID},
              {"list", "no object", MCG_PROTOCOL},
              {"yes", "its answer is none", MCG_PROTOCOL}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    mcg_stranger *stranger = stranger_of(ways[i].how);
    for (int again = 0; again < 2; again++) fails(stranger, ways[i].code, ways[i].why);
    mcg_stranger_free(stranger);
  }
  mcg_stranger *good = stranger_of("good");
  says(good, NULL, "{\"allow\":true}");
  mcg_stranger_free(good);
}

/* An answer that is there before the question is none: it denies, whichever way it is met. */
static void none_answers_before_it_is_asked(void **state)
{
  (void)state;
  mcg_stranger *stranger = stranger_of("early");
  fails(stranger, MCG_PROTOCOL, "p.lua");
  mcg_stranger_free(stranger);
}

static void without_its_executable_it_is_not_run(void **state)
{
  (void)state;
  char away[160], there[160];
  snprintf(there, sizeof there, "%s/stranger", install);
  snprintf(away, sizeof away, "%s/away", install);
  assert_int_equal(rename(there, away), 0);
  mcg_stranger *stranger = stranger_of("good");
  fails(stranger, MCG_UNENFORCEABLE, "runs in a jail of its own");
  assert_int_equal(rename(away, there), 0);
  says(stranger, NULL, "{\"allow\":true}");
  mcg_stranger_free(stranger);
}

__attribute__((format(printf, 1, 2))) static int run_command(const char *format, ...)
{
  char command[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(command, sizeof command, format, list);
  va_end(list);
  return system(command);
}

static int place(void **state)
{
  (void)state;
  static char directory[] = "/tmp/mooncage-stranger-XXXXXX";
  const char *init = getenv("MOONCAGE_INIT");
  if (!init || !(install = mkdtemp(directory))) return -1;
  if (chmod(install, 0755) < 0 || run_command("mkdir %s/stranger", install) != 0 ||
      run_command("cp %s %s/mooncage-init", init, install) != 0)
    return -1;
  return run_command("cp '%s' %s/stranger/mooncage-policy", EVIL_POLICY, install);
}

static int unplace(void **state)
{
  (void)state;
  return run_command("rm -rf %s", install);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(each_apart_has_its_own, engine_up, engine_down),
      cmocka_unit_test_setup_teardown(many_at_once_have_their_turn, engine_up, engine_down),
      cmocka_unit_test_setup_teardown(more_apart_than_may_be, engine_up, engine_down),
      cmocka_unit_test_setup(the_engine_closes_meanwhile, engine_up),
      cmocka_unit_test_setup_teardown(what_is_no_policy_is_refused, engine_up, engine_down),
  };
  const struct CMUnitTest evil[] = {
      cmocka_unit_test_setup_teardown(none_that_was_taken_over_is_believed, evil_up, engine_down),
      cmocka_unit_test_setup_teardown(none_answers_before_it_is_asked, evil_up, engine_down),
      cmocka_unit_test_setup_teardown(without_its_executable_it_is_not_run, evil_up, engine_down),
  };
  int failed = 0;
  const char *policy = getenv("MOONCAGE_POLICY");
  if (!policy || access(policy, X_OK) < 0)
    puts("skip: there is no mooncage-policy in this build");
  else
    failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed + cmocka_run_group_tests(evil, place, unplace);
}
