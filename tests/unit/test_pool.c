/* Parked sandboxes: of one kind, never used before, never used twice, gone with the engine. */
#include "host.h"
#include "session/session.h"

static const char *const pooled = "{\"pool\":{\"size\":2},\"labels\":{\"n\":\"1\"}}";

static char *id_of(const mcg_session *session)
{
  char *info = mcg_session_info(session), *id = strstr(info, "\"id\":\"") + 6;
  id = copy_bytes(id, 26);
  free(info);
  return id;
}

static bool is_fresh(mcg_session *session)
{
  outcome out;
  run_shell(session, "ls -A; ls -A /tmp; echo used > here; echo $A", &out);
  bool fresh = strcmp(out.result.stdout_data, "\n") == 0;
  outcome_fini(&out);
  return fresh;
}

static void gives_each_sandbox_once(void **state)
{
  (void)state;
  char *ids[8];
  for (int i = 0; i < 8; i++) {
    mcg_session *session = open_session(pooled);
    ids[i] = id_of(session);
    assert_true(is_fresh(session));
    for (int k = 0; k < i; k++) assert_string_not_equal(ids[i], ids[k]);
    close_session(session);
    if (i % 2) turn_for(100); /* it fills up */
  }
  for (int i = 0; i < 8; i++) free(ids[i]);
}

/* What commands and people see of a session is its own; what the walls are made of is not mixed up. */
static void tells_kinds_apart(void **state)
{
  (void)state;
  close_session(open_session(pooled));
  turn_for(150);
  outcome out;
  mcg_session *session = open_session(
      "{\"pool\":{\"size\":2},\"environment\":{\"A\":\"mine\"},\"labels\":{\"n\":\"2\"}}");
  run_shell(session, "echo $A", &out);
  assert_string_equal(out.result.stdout_data, "mine\n");
  outcome_fini(&out);
  char *info = mcg_session_info(session);
  assert_non_null(strstr(info, "\"labels\":{\"n\":\"2\"}"));
  free(info);
  close_session(session);
  session = open_session("{\"pool\":{\"size\":2},\"limits\":{\"disk_mb\":8}}");
  run_shell(session, "df -k . | tail -n 1 | tr -s ' ' | cut -d ' ' -f 2", &out);
  assert_string_equal(out.result.stdout_data, "8192\n");
  outcome_fini(&out);
  close_session(session);
}

/* The deadline of a session starts when it is opened, not when it was made. */
static void counts_time_from_open(void **state)
{
  (void)state;
  const char *config = "{\"pool\":{\"size\":1},\"limits\":{\"wall_s\":1}}";
  close_session(open_session(config));
  turn_for(1300);
  mcg_session *session = open_session(config);
  assert_true(is_fresh(session));
  close_session(session);
}

static unsigned parked(void)
{
  unsigned count = 0;
  for (const mcg_session *s = engine->sessions; s; s = s->after)
    count += s->pool && s->state == MCG_SESSION_RUNNING;
  return count;
}

static void until_parked(unsigned count)
{
  for (int i = 0; i < 3000 && parked() != count; i++) turn_for(10);
  assert_int_equal(parked(), count);
}

/* Its own engine: the pools of the other cases are filled, too. */
static void is_not_filled_while_commands_are_at_work(void **state)
{
  (void)state;
  const char *config = "{\"pool\":{\"size\":3}}";
  close_session(open_session(config));
  until_parked(3);
  uint64_t began = uv_hrtime();
  mcg_session *session = open_session(config);
  outcome out;
  for (int i = 0; i < 3; i++) {
    run_shell(session, "sleep 0.06", &out);
    outcome_fini(&out);
  }
  unsigned during = parked();
  if (uv_hrtime() - began < 900000000) /* else it may have been made for the lack of a pause */
    assert_int_equal(during, 2);
  else
    puts("skip: this machine takes a second for three short commands");
  until_parked(3);
  close_session(session);
}

static void is_filled_beside_a_command_that_goes_on_and_on(void **state)
{
  (void)state;
  const char *config = "{\"pool\":{\"size\":3}}";
  mcg_session *session = open_session(config);
  outcome out = {0};
  mcg_exec_spec spec = {.size = sizeof spec, .shell = "sleep 1000"};
  assert_int_equal(mcg_exec_start(session, &spec, &plain_events, &out, NULL, NULL), 0);
  until_parked(3);
  close_session(session);
  until(&out);
  outcome_fini(&out);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_each_sandbox_once),
      cmocka_unit_test(tells_kinds_apart),
      cmocka_unit_test(counts_time_from_open),
  };
  const struct CMUnitTest pauses[] = {
      cmocka_unit_test(is_not_filled_while_commands_are_at_work),
      cmocka_unit_test(is_filled_beside_a_command_that_goes_on_and_on),
  };
  int failed = cmocka_run_group_tests(tests, engine_up, engine_down);
  return failed + cmocka_run_group_tests(pauses, engine_up, engine_down);
}
