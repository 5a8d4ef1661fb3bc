/* Parked sandboxes: of one kind, never used before, never used twice, gone with the engine. */
#include "host.h"

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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_each_sandbox_once),
      cmocka_unit_test(tells_kinds_apart),
      cmocka_unit_test(counts_time_from_open),
  };
  return cmocka_run_group_tests(tests, engine_up, engine_down);
}
