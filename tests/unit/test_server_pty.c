/* Terminals of mooncage-init: a controlling terminal, its size, its signals, its end. */
#include "init_client.h"

static int start_direct(void **state)
{
  return (*state = client_start_with(0, "/tmp")) ? 0 : -1;
}
static int start_framed(void **state)
{
  return (*state = client_start_with(1, "/tmp")) ? 0 : -1;
}
static int stop(void **state)
{
  assert_int_equal(client_stop(*state), 0);
  return 0;
}

static job *terminal(client *c, const char *script, unsigned cols, unsigned rows)
{
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_ARG, "sh");
  mcg_wire_put_str(&body, MCG_TAG_ARG, "-c");
  mcg_wire_put_str(&body, MCG_TAG_ARG, script);
  if (cols) mcg_wire_put_u64(&body, MCG_TAG_COLS, cols);
  if (rows) mcg_wire_put_u64(&body, MCG_TAG_ROWS, rows);
  return job_open(c, MCG_EXEC_PTY, &body);
}

/* Direct: the master is one descriptor for both ways. */
static void type(client *c, job *j, const char *text)
{
  if (c->carrier == 1)
    job_write(c, j, text, strlen(text));
  else
    assert_int_equal(write(j->fds[1], text, strlen(text)), strlen(text));
}

static void test_is_a_terminal(void **state)
{
  client *c = *state;
  job *j = terminal(c,
                    "test -t 0 && test -t 1 && test -t 2 && echo yes; stty size; "
                    "echo err >&2; : > /dev/tty && echo controlling; exit 3",
                    120, 33);
  job_finish(c, j);
  assert_int_equal(j->code, 3);
  assert_string_equal(j->data[1], "yes\r\n33 120\r\nerr\r\ncontrolling\r\n");
  assert_int_equal(j->len[2], 0);
}

static void test_default_size(void **state)
{
  client *c = *state;
  job *j = terminal(c, "stty size", 0, 0);
  job_finish(c, j);
  assert_string_equal(j->data[1], "24 80\r\n");
}

static void test_input_and_echo(void **state)
{
  client *c = *state;
  job *j = terminal(c, "echo ready; read line; echo got:$line", 80, 24);
  client_until(c, strstr(j->data[1], "ready"));
  type(c, j, "hello\n");
  job_finish(c, j);
  assert_string_equal(j->data[1], "ready\r\nhello\r\ngot:hello\r\n");
}

static void test_end_of_input(void **state)
{
  client *c = *state;
  job *j = terminal(c, "stty -echo; echo ready; cat; echo after", 80, 24);
  client_until(c, strstr(j->data[1], "ready"));
  type(c, j, "x\n");
  if (c->carrier == 1)
    job_close_stdin(c, j);
  else
    type(c, j, "\004");
  job_finish(c, j);
  assert_string_equal(j->data[1], "ready\r\nx\r\nafter\r\n");
}

static void test_resize(void **state)
{
  client *c = *state;
  job *j =
      terminal(c, "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done", 80, 24);
  client_until(c, strstr(j->data[1], "ready"));
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_u64(&body, MCG_TAG_COLS, 101);
  mcg_wire_put_u64(&body, MCG_TAG_ROWS, 47);
  client_send(c, MCG_F_RESIZE, j->channel, 0, &body);
  mcg_wire_fini(&body);
  job_finish(c, j);
  assert_string_equal(j->data[1], "ready\r\n47 101\r\n");
}

/* To whoever is in front, not to the shell behind it. */
static void test_signal_to_foreground_group(void **state)
{
  client *c = *state;
  job *j = terminal(c,
                    "set -m; echo ready; sh -c 'trap \"echo front; exit 4\" USR1; echo in; while "
                    ":; do sleep 0.05; done'; "
                    "echo status:$?",
                    80, 24);
  client_until(c, strstr(j->data[1], "in\r\n"));
  client_send_number(c, MCG_F_SIGNAL, j->channel, 0, MCG_TAG_SIGNO, SIGUSR1);
  job_finish(c, j);
  assert_non_null(strstr(j->data[1], "front\r\nstatus:4\r\n"));
}

static void test_interrupt_character(void **state)
{
  client *c = *state;
  job *j = terminal(c, "echo ready; exec sleep 600", 80, 24);
  client_until(c, strstr(j->data[1], "ready"));
  type(c, j, "\003");
  job_finish(c, j);
  assert_int_equal(j->signo, SIGINT);
}

static void test_kill(void **state)
{
  client *c = *state;
  job *j = terminal(c, "(setsid sleep 600 &); echo ready; sleep 600", 80, 24);
  client_until(c, strstr(j->data[1], "ready"));
  client_send(c, MCG_F_KILL, j->channel, 0, NULL);
  job_finish(c, j);
  assert_int_equal(j->signo, SIGKILL);
}

static void test_much_output(void **state)
{
  client *c = *state;
  job *j = terminal(c, "seq 1 20000", 80, 24);
  job_finish(c, j);
  assert_int_equal(j->len[1], 108894 + 20000); /* the digits and newlines of seq, and one CR each */
  assert_non_null(strstr(j->data[1], "\r\n20000\r\n"));
}

#define BOTH(test)                                                                                 \
  {#test " (direct)", test, start_direct, stop, NULL},                                             \
  {                                                                                                \
#test " (framed)", test, start_framed, stop, NULL                                              \
  }

int main(void)
{
  const struct CMUnitTest tests[] = {
      BOTH(test_is_a_terminal),
      BOTH(test_default_size),
      BOTH(test_input_and_echo),
      BOTH(test_end_of_input),
      BOTH(test_resize),
      BOTH(test_signal_to_foreground_group),
      BOTH(test_interrupt_character),
      BOTH(test_kill),
      BOTH(test_much_output),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
