/* Commands through the whole engine: real sandboxes, both carriers, with and without walls. Each case
 * runs on all of them. SIGPIPE keeps its default disposition here: a write that raises it is a crash. */
#include "host.h"
#include <ctype.h>
#include <signal.h>

static const char *const configs[] = {
    "{\"backend\":{\"id\":\"jail\"}}",
    "{\"backend\":{\"id\":\"jail\",\"options\":{\"carrier\":\"framed\"}}}",
    "{\"backend\":{\"id\":\"subprocess\"}}",
    "{\"backend\":{\"id\":\"subprocess\",\"options\":{\"carrier\":\"framed\"}}}",
};
#define CONFIGS (sizeof configs / sizeof *configs)

static mcg_session *sessions[CONFIGS];
static mcg_session *session; /* the one of this round */

static int all_up(void **state)
{
  signal(SIGPIPE, SIG_DFL);
  engine_up(state);
  for (size_t i = 0; i < CONFIGS; i++) sessions[i] = open_session(configs[i]);
  return 0;
}

static int all_down(void **state)
{
  for (size_t i = 0; i < CONFIGS; i++) close_session(sessions[i]);
  return engine_down(state);
}

static void everywhere(void (*test)(void))
{
  for (size_t i = 0; i < CONFIGS; i++) {
    session = sessions[i];
    test();
  }
}
#define CASE(name)                                                                                 \
  static void name##_here(void);                                                                   \
  static void name(void **state)                                                                   \
  {                                                                                                \
    (void)state;                                                                                   \
    everywhere(name##_here);                                                                       \
  }                                                                                                \
  static void name##_here(void)

#define SPEC(...) (&(mcg_exec_spec){.size = sizeof(mcg_exec_spec), __VA_ARGS__})
#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

static void expect_text(const char *shell, const char *text)
{
  outcome out;
  run_shell(session, shell, &out);
  assert_string_equal(out.result.stdout_data, text);
  outcome_fini(&out);
}

static void expect_refused(const mcg_exec_spec *spec, mcg_code code, const char *says)
{
  outcome out;
  run_spec(session, spec, &out);
  assert_non_null(out.error);
  if (out.error->code != code || !strstr(out.error->message, says))
    fail_msg("%s: %s", mcg_code_name(out.error->code), out.error->message);
  outcome_fini(&out);
}

/* ---- results ------------------------------------------------------------------------------ */

CASE(keeps_streams_apart)
{
  outcome out;
  run_shell(session, "echo out; echo err >&2; exit 3", &out);
  assert_int_equal(out.result.exit_code, 3);
  assert_null(out.result.signal);
  assert_string_equal(out.result.stdout_data, "out\n");
  assert_string_equal(out.result.stderr_data, "err\n");
  assert_int_equal(out.result.stdout_bytes, 4);
  assert_false(out.result.stdout_truncated);
  assert_false(out.result.timed_out);
  assert_int_equal(out.starts, 1);
  assert_true(out.pid > 0 && out.pid == out.result.pid);
  assert_true(out.result.duration_s > 0);
  outcome_fini(&out);
}

CASE(tells_signals)
{
  outcome out;
  run_shell(session, "kill -TERM $$", &out);
  assert_int_equal(out.result.exit_code, -1);
  assert_string_equal(out.result.signal, "SIGTERM");
  assert_false(out.result.timed_out);
  outcome_fini(&out);
  run_shell(session, "kill -KILL $$", &out);
  assert_string_equal(out.result.signal, "SIGKILL");
  assert_false(out.result.oom_killed);
  outcome_fini(&out);
}

CASE(tells_what_could_not_run)
{
  outcome out;
  run_spec(session, SPEC(.argv = ARGV("no-such-program")), &out);
  assert_null(out.error);
  assert_int_equal(out.result.exit_code, 127);
  assert_true(out.result.not_found);
  outcome_fini(&out);
  run_spec(session, SPEC(.argv = ARGV("/etc/passwd")), &out);
  assert_null(out.error);
  assert_int_equal(out.result.exit_code, 126);
  assert_false(out.result.not_found);
  assert_string_equal(out.result.start_error, "Permission denied");
  outcome_fini(&out);
  run_shell(session, "exit 127", &out);
  assert_int_equal(out.result.exit_code, 127);
  assert_false(out.result.not_found);
  assert_null(out.result.start_error);
  outcome_fini(&out);
}

/* ---- what goes in ------------------------------------------------------------------------- */

CASE(passes_bytes_through)
{
  size_t len = 3 << 20;
  char *bytes = malloc(len);
  assert_non_null(bytes);
  for (size_t i = 0; i < len; i++) bytes[i] = (char)((i * 2654435761u) >> 13);
  outcome out;
  run_spec(session,
           SPEC(.argv = ARGV("cat"), .stdin_mode = MCG_STDIN_DATA, .stdin_data = bytes,
                .stdin_len = len, .max_output = len),
           &out);
  assert_null(out.error);
  assert_int_equal(out.result.stdout_len, len);
  assert_false(out.result.stdout_truncated);
  assert_memory_equal(out.result.stdout_data, bytes, len);
  outcome_fini(&out);
  free(bytes);
}

CASE(has_an_empty_stdin_by_default)
{
  outcome out;
  run_spec(session, SPEC(.argv = ARGV("wc", "-c")), &out);
  assert_string_equal(out.result.stdout_data, "0\n");
  outcome_fini(&out);
}

CASE(takes_arguments_as_they_are)
{
  outcome out;
  run_spec(session,
           SPEC(.argv = ARGV("printf", "%s|", "a b", "", "line\nline", "*", "\"'$x", "\xff\xfe")),
           &out);
  assert_string_equal(out.result.stdout_data, "a b||line\nline|*|\"'$x|\xff\xfe|");
  outcome_fini(&out);
}

CASE(sets_directory_and_environment)
{
  outcome out;
  run_spec(session, SPEC(.shell = "pwd; echo $A-$B", .cwd = "/usr", .env = ARGV("A=1", "B=x=y z")),
           &out);
  assert_string_equal(out.result.stdout_data, "/usr\n1-x=y z\n");
  outcome_fini(&out);
  run_shell(session, "mkdir -p sub/dir && echo $A", &out);
  assert_string_equal(out.result.stdout_data, "\n");
  outcome_fini(&out);
  run_spec(session, SPEC(.shell = "pwd", .cwd = "sub/dir"), &out);
  assert_true(out.result.stdout_len > 9);
  assert_string_equal(out.result.stdout_data + out.result.stdout_len - 9, "/sub/dir\n");
  outcome_fini(&out);
  expect_refused(SPEC(.shell = "pwd", .cwd = "/no/such"), MCG_NOT_FOUND, "directory");
}

CASE(refuses_what_is_no_command)
{
  static char big[(1 << 17) + 1]; /* a NUL, and one more than fits */
  memset(big, 'x', sizeof big - 1);
  const char *many[16];
  for (int i = 0; i < 15; i++) many[i] = big + 1;
  many[15] = NULL;
  expect_refused(SPEC(.shell = NULL), MCG_INVALID, "either");
  expect_refused(SPEC(.shell = "x", .argv = ARGV("x")), MCG_INVALID, "either");
  expect_refused(SPEC(.argv = ARGV("")), MCG_INVALID, "empty");
  expect_refused(SPEC(.argv = ARGV("true", big)), MCG_INVALID, "128 KiB");
  expect_refused(SPEC(.argv = many), MCG_INVALID, "1 MiB");
  expect_refused(SPEC(.shell = "x", .env = ARGV("NOVALUE")), MCG_INVALID, "NOVALUE");
  expect_refused(SPEC(.shell = "x", .env = ARGV("A\nB=1")), MCG_INVALID, "variable");
  expect_refused(SPEC(.shell = "x", .timeout_ms = -1), MCG_INVALID, "negative");
  expect_refused(SPEC(.shell = "x", .detach = true, .pty = true), MCG_INVALID, "detached");
}

/* ---- what comes out ----------------------------------------------------------------------- */

CASE(bounds_what_it_keeps)
{
  outcome out;
  run_spec(
      session,
      SPEC(.shell = "printf head; head -c 30000000 /dev/zero; printf tail", .max_output = 1000),
      &out);
  assert_null(out.error);
  assert_int_equal(out.result.stdout_bytes, 30000008);
  assert_int_equal(out.result.stdout_len, 1000);
  assert_true(out.result.stdout_truncated);
  assert_memory_equal(out.result.stdout_data, "head\0", 5);
  assert_memory_equal(out.result.stdout_data + 995, "\0tail", 5);
  outcome_fini(&out);
  run_spec(session, SPEC(.shell = "echo x", .max_output = MCG_CAPTURE_NONE), &out);
  assert_int_equal(out.result.stdout_bytes, 2);
  assert_int_equal(out.result.stdout_len, 0);
  outcome_fini(&out);
}

typedef struct slow {
  outcome out;
  mcg_exec *exec;
  uint64_t bytes;
  unsigned pauses;
  bool paused;
} slow;

static bool pause_each_time(void *data, int stream, const void *bytes, size_t len)
{
  slow *self = data;
  (void)bytes;
  assert_int_equal(stream, 1);
  assert_false(self->paused);
  self->bytes += len;
  self->paused = true;
  self->pauses++;
  return false;
}

static void slow_done(void *data, const mcg_result *result, mcg_error *error)
{
  take_result(&((slow *)data)->out, result, error);
}

/* A receiver that pauses gets everything, one piece at a time, and the command waits for it. */
CASE(pauses_and_resumes)
{
  slow self = {0};
  mcg_exec_events events = {.on_output = pause_each_time, .on_done = slow_done};
  assert_int_equal(mcg_exec_start(session, SPEC(.shell = "head -c 3000000 /dev/zero"), &events,
                                  &self, &self.exec, NULL),
                   0);
  while (!self.paused) uv_run(mcg_engine_loop(engine), UV_RUN_ONCE);
  turn_for(50);
  assert_int_equal(self.pauses, 1);
  assert_int_equal(self.out.completions, 0);
  while (!self.out.completions) {
    if (self.paused) {
      self.paused = false;
      mcg_exec_resume(self.exec, 1);
    }
    uv_run(mcg_engine_loop(engine), UV_RUN_ONCE);
  }
  assert_int_equal(self.bytes, 3000000);
  assert_int_equal(self.out.result.stdout_bytes, 3000000);
  outcome_fini(&self.out);
}

CASE(lets_a_background_child_hold_stdout)
{
  outcome out;
  run_shell(session, "sleep 20 & echo done", &out);
  assert_string_equal(out.result.stdout_data, "done\n");
  assert_true(out.result.duration_s < 10);
  outcome_fini(&out);
  run_shell(session, "yes background & echo mine; exec sleep 0.05", &out);
  assert_int_equal(out.result.exit_code, 0);
  outcome_fini(&out);
}

CASE(can_reopen_its_stdout)
{
  outcome out;
  run_shell(session, "echo a > /dev/stdout; echo b >&1; echo c > /dev/stderr", &out);
  assert_string_equal(out.result.stdout_data, "a\nb\n");
  assert_string_equal(out.result.stderr_data, "c\n");
  outcome_fini(&out);
}

/* ---- stdin while it runs ------------------------------------------------------------------ */

CASE(writes_until_closed)
{
  outcome out = {0}, one = {0}, two = {0};
  mcg_exec *exec;
  assert_int_equal(mcg_exec_start(session, SPEC(.argv = ARGV("cat"), .stdin_mode = MCG_STDIN_PIPE),
                                  &plain_events, &out, &exec, NULL),
                   0);
  assert_int_equal(mcg_exec_write(exec, "one ", 4, take_done, &one, NULL), 0);
  assert_int_equal(one.completions, 0);
  until(&one);
  assert_null(one.error);
  assert_int_equal(mcg_exec_write(exec, "two", 3, take_done, &two, NULL), 0);
  mcg_exec_close_stdin(exec);
  mcg_error *err = NULL;
  assert_int_equal(mcg_exec_write(exec, "x", 1, NULL, NULL, &err), -1);
  assert_int_equal(err->code, MCG_UNAVAILABLE);
  mcg_error_free(err);
  until(&out);
  assert_int_equal(two.completions, 1);
  assert_null(two.error);
  assert_string_equal(out.result.stdout_data, "one two");
  outcome_fini(&out);
}

/* More than any buffer between: the write completes only once someone reads. */
CASE(holds_back_a_writer)
{
  size_t len = 4 << 20;
  char *bytes = calloc(1, len);
  outcome out = {0}, written = {0}, told;
  mcg_exec *exec;
  assert_int_equal(mcg_exec_start(session,
                                  SPEC(.shell = "until [ -e read ]; do sleep 0.02; done; wc -c",
                                       .stdin_mode = MCG_STDIN_PIPE),
                                  &plain_events, &out, &exec, NULL),
                   0);
  assert_int_equal(mcg_exec_write(exec, bytes, len, take_done, &written, NULL), 0);
  free(bytes);
  turn_for(100);
  assert_int_equal(written.completions, 0);
  run_shell(session, "touch read", &told);
  outcome_fini(&told);
  until(&written);
  assert_null(written.error);
  mcg_exec_close_stdin(exec);
  until(&out);
  assert_string_equal(out.result.stdout_data, "4194304\n");
  outcome_fini(&out);
}

/* The command reads nothing: its end, or its closing of stdin, is an answer, and no signal. */
CASE(answers_writes_that_nobody_reads)
{
  size_t len = 4 << 20;
  char *bytes = calloc(1, len);
  outcome out = {0}, written = {0};
  mcg_exec *exec;
  assert_int_equal(
      mcg_exec_start(session, SPEC(.shell = "exec <&-; sleep 0.2", .stdin_mode = MCG_STDIN_PIPE),
                     &plain_events, &out, &exec, NULL),
      0);
  assert_int_equal(mcg_exec_write(exec, bytes, len, take_done, &written, NULL), 0);
  free(bytes);
  until(&out);
  assert_int_equal(written.completions, 1);
  assert_non_null(written.error);
  assert_int_equal(written.error->code, MCG_UNAVAILABLE);
  assert_int_equal(out.result.exit_code, 0);
  outcome_fini(&written);
  outcome_fini(&out);
}

/* ---- its end, brought about --------------------------------------------------------------- */

CASE(times_out_with_its_tree)
{
  outcome out;
  run_spec(session,
           SPEC(.shell = "(setsid sleep 4711 &); (sleep 4711 &); echo started; sleep 4711",
                .timeout_ms = 1000),
           &out);
  assert_null(out.error);
  assert_true(out.result.timed_out);
  assert_string_equal(out.result.signal, "SIGKILL");
  assert_int_equal(out.result.exit_code, -1);
  assert_string_equal(out.result.stdout_data, "started\n");
  assert_true(out.result.duration_s >= 1.0);
  outcome_fini(&out);
  run_shell(session,
            "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done 2>/dev/null | grep -c "
            "'^sleep 4711 $'",
            &out);
  assert_string_equal(out.result.stdout_data, "0\n");
  outcome_fini(&out);
}

CASE(times_out_alone)
{
  outcome other = {0}, out;
  assert_int_equal(
      mcg_exec_start(session,
                     SPEC(.shell = "(setsid sh -c 'until [ -e go ]; do sleep 0.02; done; "
                                   "echo late; touch went' &); "
                                   "until [ -e went ]; do sleep 0.02; done; echo end"),
                     &plain_events, &other, NULL, NULL),
      0);
  run_spec(session, SPEC(.shell = "(setsid sleep 60 &); sleep 60", .timeout_ms = 200), &out);
  assert_true(out.result.timed_out);
  outcome_fini(&out);
  run_shell(session, "touch go", &out); /* both of the other's processes have outlived that */
  outcome_fini(&out);
  until(&other);
  assert_int_equal(other.result.exit_code, 0);
  assert_string_equal(other.result.stdout_data, "late\nend\n");
  outcome_fini(&other);
}

CASE(is_canceled_at_any_moment)
{
  for (unsigned ms = 0; ms < 12; ms += 3) {
    outcome out = {0};
    mcg_exec *exec;
    assert_int_equal(mcg_exec_start(session, SPEC(.shell = "(setsid sleep 60 &); sleep 60"),
                                    &plain_events, &out, &exec, NULL),
                     0);
    if (ms) turn_for(ms);
    mcg_exec_cancel(exec);
    assert_int_equal(out.completions, 0);
    mcg_exec_cancel(exec);
    until(&out);
    assert_non_null(out.error);
    assert_int_equal(out.error->code, MCG_CANCELED);
    outcome_fini(&out);
  }
}

CASE(gets_signals)
{
  outcome out = {0};
  mcg_exec *exec;
  mcg_error *err = NULL;
  assert_int_equal(
      mcg_exec_start(
          session,
          SPEC(.shell = "trap 'echo got; exit 9' USR1; echo ready; while :; do sleep 0.02; done"),
          &heard_events, &out, &exec, NULL),
      0);
  assert_int_equal(mcg_exec_signal(exec, "SIGNONSENSE", &err), -1);
  assert_int_equal(err->code, MCG_INVALID);
  mcg_error_free(err);
  until_heard(&out, strlen("ready\n"));
  assert_int_equal(mcg_exec_signal(exec, "usr1", NULL), 0);
  until(&out);
  assert_int_equal(out.result.exit_code, 9);
  assert_string_equal(out.result.stdout_data, "ready\ngot\n");
  outcome_fini(&out);
}

/* ---- terminals and detached commands ------------------------------------------------------ */

CASE(has_a_terminal)
{
  outcome out = {0};
  mcg_exec *exec;
  assert_int_equal(
      mcg_exec_start(
          session,
          SPEC(.shell = "stty size; tty -s && echo tty; read line; stty size; echo \"<$line>\"",
               .pty = true, .cols = 90, .rows = 31, .stdin_mode = MCG_STDIN_PIPE),
          &heard_events, &out, &exec, NULL),
      0);
  until_heard(&out, strlen("31 90\r\ntty\r\n"));
  assert_int_equal(mcg_exec_resize(exec, 100, 40, NULL), 0);
  assert_int_equal(mcg_exec_write(exec, "hello\n", 6, NULL, NULL, NULL), 0);
  until(&out);
  assert_null(out.error);
  assert_int_equal(out.result.exit_code, 0);
  assert_non_null(strstr(out.result.stdout_data, "31 90\r\ntty\r\n"));
  assert_non_null(strstr(out.result.stdout_data, "40 100\r\n<hello>\r\n"));
  assert_int_equal(out.result.stderr_len, 0);
  outcome_fini(&out);
  run_spec(session, SPEC(.argv = ARGV("cat"), .pty = true),
           &out); /* its end of file is a character */
  assert_null(out.error);
  assert_int_equal(out.result.exit_code, 0);
  outcome_fini(&out);
}

CASE(detaches)
{
  outcome out;
  run_spec(session, SPEC(.shell = "sleep 0.2; echo lived > detached", .detach = true), &out);
  assert_null(out.error);
  assert_true(out.result.detached);
  assert_int_equal(out.result.exit_code, -1);
  assert_true(out.result.pid > 0);
  outcome_fini(&out);
  turn_for(500);
  expect_text("cat detached", "lived\n");
}

/* ---- many --------------------------------------------------------------------------------- */

CASE(runs_many_at_once)
{
  enum { MANY = 60 };
  outcome outs[MANY] = {0};
  char text[MANY][64];
  for (int i = 0; i < MANY; i++) {
    snprintf(text[i], sizeof text[i], "sleep 0.0%d; echo %d; exit %d", i % 5, i, i);
    assert_int_equal(
        mcg_exec_start(session, SPEC(.shell = text[i]), &plain_events, &outs[i], NULL, NULL), 0);
  }
  for (int i = 0; i < MANY; i++) {
    until(&outs[i]);
    assert_null(outs[i].error);
    assert_int_equal(outs[i].result.exit_code, i);
    assert_int_equal(atoi(outs[i].result.stdout_data), i);
    outcome_fini(&outs[i]);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_streams_apart),
      cmocka_unit_test(tells_signals),
      cmocka_unit_test(tells_what_could_not_run),
      cmocka_unit_test(passes_bytes_through),
      cmocka_unit_test(has_an_empty_stdin_by_default),
      cmocka_unit_test(takes_arguments_as_they_are),
      cmocka_unit_test(sets_directory_and_environment),
      cmocka_unit_test(refuses_what_is_no_command),
      cmocka_unit_test(bounds_what_it_keeps),
      cmocka_unit_test(pauses_and_resumes),
      cmocka_unit_test(lets_a_background_child_hold_stdout),
      cmocka_unit_test(can_reopen_its_stdout),
      cmocka_unit_test(writes_until_closed),
      cmocka_unit_test(holds_back_a_writer),
      cmocka_unit_test(answers_writes_that_nobody_reads),
      cmocka_unit_test(times_out_with_its_tree),
      cmocka_unit_test(times_out_alone),
      cmocka_unit_test(is_canceled_at_any_moment),
      cmocka_unit_test(gets_signals),
      cmocka_unit_test(has_a_terminal),
      cmocka_unit_test(detaches),
      cmocka_unit_test(runs_many_at_once),
  };
  return cmocka_run_group_tests(tests, all_up, all_down);
}
