/* A C host that says what tenants get: sessions are opened with it, denied, or given up; quotas. */
#include "host.h"
#include <unistd.h>

#define BASE "{\"backend\":\"subprocess\",\"audit\":false,\"tenant\":\"acme\",\"network\":\"host\"}"

static const char *said;      /* what the host answers, at once */
static mcg_question *pending; /* where it answers later */
static int asked, released;
static char heard[256];

static void on_question(void *data, unsigned kind, const char *json, mcg_question *question)
{
  (void)data;
  assert_int_equal(kind, MCG_ASK_TENANT);
  asked++;
  snprintf(heard, sizeof heard, "%s", json);
  if (said)
    mcg_answer(question, said);
  else
    pending = question;
}

static void on_release(void *data)
{
  (void)data;
  released++;
}

static const mcg_deciders deciders = {.size = sizeof deciders,
                                      .asks = MCG_ASK_TENANT,
                                      .on_question = on_question,
                                      .on_release = on_release};

static int up(void **state)
{
  said = NULL;
  pending = NULL;
  asked = released = 0;
  return engine_up(state);
}

static void start(const char *config, outcome *out, mcg_op **op)
{
  mcg_error *err = NULL;
  if (mcg_session_open_with(engine, config, strlen(config), &deciders, take_session, out, op,
                            &err) < 0)
    fail_msg("%s", err->message);
}

static void refused(const char *config, mcg_code code, const char *says)
{
  outcome out = {0};
  start(config, &out, NULL);
  until(&out);
  assert_null(out.session);
  if (out.error->code != code || !strstr(out.error->message, says))
    fail_msg("%s: %s", mcg_code_name(out.error->code), out.error->message);
  outcome_fini(&out);
}

static mcg_session *opened(const char *config)
{
  outcome out = {0};
  start(config, &out, NULL);
  until(&out);
  if (out.error) fail_msg("%s", out.error->message);
  return out.session;
}

static void gets_what_is_its_own(void **state)
{
  (void)state;
  said = "{\"overrides\":{\"limits\":{\"exec_s\":7},\"labels\":{\"plan\":\"small\"}}}";
  mcg_session *session = opened(BASE);
  char *info = mcg_session_info(session);
  assert_non_null(strstr(info, "\"exec_s\":7"));
  assert_non_null(strstr(info, "\"plan\":\"small\""));
  assert_non_null(strstr(heard, "\"tenant\":\"acme\""));
  assert_non_null(strstr(heard, "\"key\":\"822b33ad87c148a0a20a5ba7cd5ebcaa\""));
  free(info);
  close_session(session);
  assert_int_equal(asked, 1);
  assert_int_equal(released, 1);
}

static void is_denied(void **state)
{
  (void)state;
  static const char *const answers[] = {"{}", "{\"denied\":\"no more\"}", "{\"denied\":7}",
                                        "{\"overrides\":null,\"denied\":\"x\"}"};
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    said = answers[i];
    refused(BASE, i == 3 ? MCG_INVALID : MCG_NO_CANDIDATE, "tenant \"acme\"");
  }
  said = "{\"overrides\":{\"enforcement\":\"best_effort\"}}";
  refused(BASE, MCG_INVALID, "enforcement");
  assert_int_equal(released, 5);
}

/* The one who opens leaves while the host thinks; the answer comes to nobody. */
static void opening_is_given_up(void **state)
{
  (void)state;
  outcome out = {0};
  mcg_op *op;
  start(BASE, &out, &op);
  while (!pending) uv_run(mcg_engine_loop(engine), UV_RUN_ONCE);
  mcg_op_cancel(op);
  until(&out);
  assert_int_equal(out.error->code, MCG_CANCELED);
  outcome_fini(&out);
  mcg_answer(pending, "{\"overrides\":{}}");
  turn_for(20);
  assert_int_equal(released, 1);
}

static void quota_of_sessions(void **state)
{
  (void)state;
  said = "{\"overrides\":{\"quota\":{\"sessions\":1,\"minutes\":60}}}";
  mcg_session *first = opened(BASE);
  refused(BASE, MCG_QUOTA, "1 session already");
  close_session(first);
  mcg_session *second = opened(BASE);
  close_session(second);
}

static void quota_of_minutes(void **state)
{
  (void)state;
  said = "{\"overrides\":{\"quota\":{\"minutes\":0.02}}}";
  mcg_session *session =
      opened("{\"backend\":\"subprocess\",\"audit\":false,\"tenant\":\"short\"}");
  outcome out = {0};
  const mcg_exec_spec spec = {.size = sizeof spec, .shell = "sleep 60"};
  assert_int_equal(mcg_exec_start(session, &spec, &plain_events, &out, NULL, NULL), 0);
  until(&out);
  assert_int_equal(out.error->code, MCG_QUOTA);
  outcome_fini(&out);
  close_session(session);
  refused("{\"backend\":\"subprocess\",\"audit\":false,\"tenant\":\"short\"}", MCG_QUOTA,
          "has used");
}

int main(void)
{
  char state[] = "/tmp/mooncage-tenant-XXXXXX";
  if (!mkdtemp(state)) return 1;
  setenv("XDG_STATE_HOME", state, 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(gets_what_is_its_own, up, engine_down),
      cmocka_unit_test_setup_teardown(is_denied, up, engine_down),
      cmocka_unit_test_setup_teardown(opening_is_given_up, up, engine_down),
      cmocka_unit_test_setup_teardown(quota_of_sessions, up, engine_down),
      cmocka_unit_test_setup_teardown(quota_of_minutes, up, engine_down),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", state);
  return system(command) == 0 ? failed : 1;
}
