/* Sessions: their end in all ways, limits that are the engine's, limits that are the sandbox's, files. */
#include "host.h"
#include <signal.h>
#include <unistd.h>

#define SPEC(...) (&(mcg_exec_spec){.size = sizeof(mcg_exec_spec), __VA_ARGS__})
#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

static void expect_open_error(const char *config, mcg_code code, const char *says)
{
  outcome out = {0};
  mcg_error *err = NULL;
  if (mcg_session_open(engine, config, strlen(config), take_session, &out, NULL, &err) == 0) {
    until(&out);
    err = out.error;
  }
  if (!err) fail_msg("%s was opened", config);
  if (err->code != code || !strstr(err->message, says))
    fail_msg("%s: %s: %s", config, mcg_code_name(err->code), err->message);
  mcg_error_free(err);
}

static bool limited(const mcg_session *session, const char *mechanism)
{
  char *info = mcg_session_info(session);
  char wanted[64];
  snprintf(wanted, sizeof wanted, "\"%s\":\"cgroup", mechanism);
  bool yes = strstr(info, wanted) != NULL;
  free(info);
  return yes;
}

static void expect_dead(mcg_session *session, mcg_code code)
{
  mcg_error *err = NULL;
  assert_int_equal(mcg_exec_start(session, SPEC(.shell = "true"), &plain_events, NULL, NULL, &err),
                   -1);
  assert_int_equal(err->code, code);
  mcg_error_free(err);
}

/* ---- ends --------------------------------------------------------------------------------- */

static void closes_while_commands_run(void **state)
{
  (void)state;
  static const char *const configs[] = {
      "{}", "{\"backend\":{\"id\":\"jail\",\"options\":{\"carrier\":\"framed\"}}}",
      "{\"backend\":\"subprocess\"}"};
  for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
    mcg_session *session = open_session(configs[i]);
    outcome one = {0}, two = {0}, first = {0}, second = {0};
    assert_int_equal(mcg_exec_start(session, SPEC(.shell = "(setsid sleep 77 &); sleep 77"),
                                    &plain_events, &one, NULL, NULL),
                     0);
    assert_int_equal(mcg_exec_start(session, SPEC(.shell = "yes"), &plain_events, &two, NULL, NULL),
                     0);
    turn_for(50);
    assert_int_equal(mcg_session_close(session, take_done, &first, NULL), 0);
    assert_int_equal(mcg_session_close(session, take_done, &second, NULL), 0);
    assert_int_equal(one.completions + first.completions, 0);
    expect_dead(session, MCG_UNAVAILABLE);
    until(&first);
    until(&second);
    assert_int_equal(one.completions, 1); /* before the close, all of them */
    assert_int_equal(two.completions, 1);
    assert_int_equal(one.error->code, MCG_CANCELED);
    assert_int_equal(two.error->code, MCG_CANCELED);
    outcome_fini(&one);
    outcome_fini(&two);
    outcome third = {0};
    assert_int_equal(mcg_session_close(session, take_done, &third, NULL), 0);
    until(&third);
    assert_null(third.error);
    mcg_session_unref(session);
  }
}

static void ends_at_its_wall_limit(void **state)
{
  (void)state;
  mcg_session *session = open_session("{\"limits\":{\"wall_s\":0.3}}");
  outcome out = {0};
  assert_int_equal(
      mcg_exec_start(session, SPEC(.shell = "sleep 60"), &plain_events, &out, NULL, NULL), 0);
  until(&out);
  assert_int_equal(out.error->code, MCG_TIMEOUT);
  assert_non_null(strstr(out.error->message, "wall limit"));
  outcome_fini(&out);
  expect_dead(session, MCG_TIMEOUT);
  close_session(session);
}

/* The engine's own limits on one command. */
static void limits_commands(void **state)
{
  (void)state;
  mcg_session *session = open_session("{\"limits\":{\"exec_s\":0.3,\"output_mb\":1}}");
  outcome out;
  run_spec(session, SPEC(.shell = "sleep 60", .timeout_ms = 60000), &out);
  assert_true(out.result.timed_out);
  outcome_fini(&out);
  run_spec(session, SPEC(.shell = "yes"), &out);
  assert_non_null(out.error);
  assert_int_equal(out.error->code, MCG_QUOTA);
  assert_non_null(strstr(out.error->fix, "output_mb"));
  outcome_fini(&out);
  run_shell(session, "echo lives", &out);
  assert_string_equal(out.result.stdout_data, "lives\n");
  outcome_fini(&out);
  close_session(session);
}

static void survives_memory(void **state)
{
  (void)state;
  mcg_session *session =
      open_session("{\"limits\":{\"memory_mb\":64},\"enforcement\":\"best_effort\"}");
  if (!limited(session, "memory")) {
    print_message("skipped: no memory cgroup for this user\n");
    close_session(session);
    skip();
  }
  outcome out;
  run_spec(session, SPEC(.argv = ARGV("sh", "-c", "exec tail /dev/zero")), &out);
  assert_null(out.error);
  assert_string_equal(out.result.signal, "SIGKILL");
  assert_true(out.result.oom_killed);
  assert_false(out.result.timed_out);
  outcome_fini(&out);
  run_shell(session, "kill -KILL $$", &out); /* not again: it was not the kernel */
  assert_false(out.result.oom_killed);
  outcome_fini(&out);
  close_session(session);
}

static void survives_a_fork_bomb(void **state)
{
  (void)state;
  mcg_session *session =
      open_session("{\"limits\":{\"pid_limit\":16},\"enforcement\":\"best_effort\"}");
  if (!limited(session, "pids")) {
    print_message("skipped: no pids cgroup for this user\n");
    close_session(session);
    skip();
  }
  outcome bomb = {0}, out;
  mcg_exec *exec;
  assert_int_equal(
      mcg_exec_start(
          session,
          SPEC(.argv = ARGV("perl", "-e",
                            "while (1) { defined fork() or select(undef, undef, undef, 0.01) }")),
          &plain_events, &bomb, &exec, NULL),
      0);
  turn_for(700);
  run_spec(session, SPEC(.shell = "sleep 0.01; echo x"), &out);
  assert_true(out.error ? out.error->code == MCG_QUOTA : out.result.exit_code != 0);
  outcome_fini(&out);
  mcg_exec_cancel(exec);
  until(&bomb);
  outcome_fini(&bomb);
  run_shell(session, "sleep 0.01; echo lives", &out);
  assert_string_equal(out.result.stdout_data, "lives\n");
  outcome_fini(&out);
  close_session(session);
}

static void says_when_the_disk_is_full(void **state)
{
  (void)state;
  mcg_session *session = open_session("{\"limits\":{\"disk_mb\":16}}");
  outcome out;
  run_shell(session, "head -c 100000000 /dev/zero > big", &out);
  assert_int_equal(out.result.exit_code, 1);
  assert_non_null(strstr(out.result.stderr_data, "No space left"));
  assert_false(out.result.oom_killed);
  outcome_fini(&out);
  close_session(session);
}

/* ---- refusals ----------------------------------------------------------------------------- */

static void refuses_what_cannot_be(void **state)
{
  (void)state;
  expect_open_error("{\"backend\":{\"id\":\"jail\",\"options\":{\"rootfs\":\"/no/such/rootfs\"}}}",
                    MCG_NOT_FOUND, "/no/such/rootfs");
  expect_open_error("{\"backend\":{\"id\":\"jail\",\"options\":{\"profile\":\"lax\"}}}",
                    MCG_INVALID, "lax");
  expect_open_error("{\"backend\":{\"id\":\"jail\",\"options\":{\"user\":\"root\"}}}",
                    MCG_UNSUPPORTED, "user");
  expect_open_error("{\"user\":\"root\"}", MCG_UNSUPPORTED, "user");
  expect_open_error("{\"backend\":\"subprocess\",\"user\":\"root\"}", MCG_UNSUPPORTED, "user");
  expect_open_error("{\"working_directory\":\"relative\"}", MCG_INVALID, "relative");
  expect_open_error(
      "{\"backend\":{\"id\":\"subprocess\",\"options\":{\"working_directory\":\"/no/such\"}}}",
      MCG_NOT_FOUND, "/no/such");
}

static void counts_sessions_of_a_candidate(void **state)
{
  (void)state;
  const char *config = "{\"backend\":{\"id\":\"jail\",\"name\":\"few\",\"max_sessions\":1}}";
  mcg_session *session = open_session(config);
  expect_open_error(config, MCG_QUOTA, "few");
  close_session(session);
  close_session(open_session(config));
}

static void warns_about_no_walls(void **state)
{
  (void)state;
  last_warning[0] = '\0';
  mcg_session *session = open_session("{\"backend\":\"subprocess\"}");
  turn_for(1);
  assert_non_null(strstr(last_warning, "isolates nothing"));
  char *info = mcg_session_info(session);
  assert_non_null(strstr(info, "\"warnings\":[\"subprocess isolates nothing"));
  free(info);
  close_session(session);
}

/* What is relaxed stands on the session. */
static void tells_what_it_relaxed(void **state)
{
  (void)state;
  mcg_session *session =
      open_session("{\"backend\":\"subprocess\",\"enforcement\":\"best_effort\",\"limits\":{"
                   "\"memory_mb\":64,\"open_files\":77}}");
  char *info = mcg_session_info(session);
  assert_non_null(strstr(info, "\"memory\":\"none"));
  assert_non_null(strstr(info, "the limit on memory is not enforced"));
  free(info);
  outcome out;
  run_shell(session, "ulimit -n", &out);
  assert_string_equal(out.result.stdout_data, "77\n");
  outcome_fini(&out);
  close_session(session);
}

/* A host that forgets a session is told, and the sandbox ends all the same. */
static void notices_a_leak(void **state)
{
  (void)state;
  mcg_session *session = open_session("{}");
  mcg_session_unref(session);
  turn_for(100);
}

static void is_opened_and_canceled(void **state)
{
  (void)state;
  for (int i = 0; i < 4; i++) {
    outcome out = {0};
    mcg_op *op;
    assert_int_equal(mcg_session_open(engine, "{}", 2, take_session, &out, &op, NULL), 0);
    if (i) turn_for((unsigned)i);
    if (!out.completions) mcg_op_cancel(op);
    until(&out);
    if (out.error)
      assert_int_equal(out.error->code, MCG_CANCELED);
    else
      close_session(out.session);
    mcg_error_free(out.error);
  }
}

/* The first child of this process: the spawner. 0: there is none. */
static pid_t spawner_pid(void)
{
  int pid = 0;
  FILE *file = fopen("/proc/thread-self/children", "re");
  if (!file || fscanf(file, "%d", &pid) != 1) pid = 0;
  if (file) fclose(file);
  return pid;
}

/* Its sandboxes die with it; who waits hears of it, and the next session has a new one. */
static void outlives_its_spawner(void **state)
{
  (void)state;
  mcg_session *one = open_session("{}"), *two = open_session("{\"backend\":\"subprocess\"}");
  outcome first = {0}, second = {0};
  pid_t pid = spawner_pid();
  assert_true(pid > 0);
  assert_int_equal(
      mcg_exec_start(one, SPEC(.shell = "sleep 60"), &plain_events, &first, NULL, NULL), 0);
  assert_int_equal(
      mcg_exec_start(two, SPEC(.shell = "sleep 60"), &plain_events, &second, NULL, NULL), 0);
  turn_for(50);
  assert_int_equal(kill(pid, SIGKILL), 0);
  until(&first);
  assert_int_equal(first.error->code, MCG_UNAVAILABLE);
  outcome_fini(&first);
  close_session(one);
  mcg_session *next = open_session("{}");
  assert_int_not_equal(spawner_pid(), pid);
  run_shell(next, "echo lives", &first);
  assert_string_equal(first.result.stdout_data, "lives\n");
  outcome_fini(&first);
  close_session(next);
  close_session(two); /* a plain init may live on until its stream ends */
  assert_int_equal(second.completions, 1);
  outcome_fini(&second);
}

/* An init that answers nothing: the time-out holds all the same, at the price of the session. */
static void ends_what_init_does_not(void **state)
{
  (void)state;
  mcg_session *session = open_session("{}");
  outcome out, other = {0};
  char path[64];
  int pid = 0, spawner = spawner_pid();
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", spawner, spawner);
  FILE *file = fopen(path, "re");
  assert_non_null(file);
  for (int child;
       fscanf(file, "%d", &child) == 1;) { /* the init, not a seat: it sits in /workspace */
    char link[64], target[64] = "";
    snprintf(link, sizeof link, "/proc/%d/cwd", child);
    if (readlink(link, target, sizeof target - 1) > 0 && strstr(target, "workspace")) pid = child;
  }
  fclose(file);
  if (!pid) {
    print_message("skipped: the sandbox's init cannot be told from others\n");
    close_session(session);
    skip();
  }
  assert_int_equal(
      mcg_exec_start(session, SPEC(.shell = "sleep 60"), &plain_events, &other, NULL, NULL), 0);
  turn_for(50);
  assert_int_equal(kill(pid, SIGSTOP), 0);
  run_spec(session, SPEC(.shell = "sleep 60", .timeout_ms = 100), &out);
  assert_null(out.error);
  assert_true(out.result.timed_out);
  assert_string_equal(out.result.signal, "SIGKILL");
  outcome_fini(&out);
  until(&other);
  assert_int_equal(other.error->code, MCG_UNAVAILABLE);
  outcome_fini(&other);
  expect_dead(session, MCG_UNAVAILABLE);
  close_session(session);
}

/* ---- figures ------------------------------------------------------------------------------ */

static void tells_its_usage(void **state)
{
  (void)state;
  mcg_session *session = open_session("{\"labels\":{\"team\":\"a\"},\"tenant\":\"t\"}");
  outcome out;
  run_shell(session, "sleep 0.05", &out);
  outcome_fini(&out);
  char *usage = mcg_session_usage(session), *info = mcg_session_info(session);
  assert_non_null(strstr(usage, "\"exec_count\":1"));
  assert_non_null(strstr(info, "\"labels\":{\"team\":\"a\"}"));
  assert_non_null(strstr(info, "\"tenant\":\"t\""));
  assert_non_null(strstr(info, "\"state\":\"running\""));
  free(usage);
  free(info);
  close_session(session);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(closes_while_commands_run),
      cmocka_unit_test(ends_at_its_wall_limit),
      cmocka_unit_test(limits_commands),
      cmocka_unit_test(survives_memory),
      cmocka_unit_test(survives_a_fork_bomb),
      cmocka_unit_test(says_when_the_disk_is_full),
      cmocka_unit_test(refuses_what_cannot_be),
      cmocka_unit_test(counts_sessions_of_a_candidate),
      cmocka_unit_test(warns_about_no_walls),
      cmocka_unit_test(tells_what_it_relaxed),
      cmocka_unit_test(notices_a_leak),
      cmocka_unit_test(is_opened_and_canceled),
      cmocka_unit_test(ends_what_init_does_not),
      cmocka_unit_test(outlives_its_spawner),
      cmocka_unit_test(tells_its_usage),
  };
  return cmocka_run_group_tests(tests, engine_up, engine_down);
}
