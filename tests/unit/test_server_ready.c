/* The child that a stub has ready for the next command: that the command is told of as any other, and what
 * the sandbox can do to that child or to its stub while it waits. */
#include "init_client.h"

#include <dirent.h>
#include <sys/stat.h>

#define PATIENCE 4000 /* looks, 5 ms apart */

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
  if (*state) assert_int_equal(client_stop(*state), 0);
  return 0;
}

static pid_t only_child(pid_t pid)
{
  char path[64], text[64];
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
  int fd = open(path, O_RDONLY);
  if (fd < 0) return 0;
  ssize_t len = read(fd, text, sizeof text - 1);
  close(fd);
  text[len > 0 ? len : 0] = 0;
  return atoi(text);
}

static char state_of(pid_t pid)
{
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY);
  if (fd < 0) return 0;
  ssize_t len = read(fd, text, sizeof text - 1);
  close(fd);
  text[len > 0 ? len : 0] = 0;
  const char *name_end = strrchr(text, ')');
  return name_end && name_end[1] ? name_end[2] : 0;
}

static void until_state(pid_t pid, char wanted)
{
  for (int i = 0; state_of(pid) != wanted; i++) {
    assert_true(i < PATIENCE);
    usleep(5000);
  }
}

static void say(client *c, const char *word, const char *expected)
{
  job *a = job_start(c, MCG_EXEC_NO_STDIN, "echo", word, NULL);
  job_finish(c, a);
  assert_int_equal(a->code, 0);
  assert_string_equal(a->data[1], expected);
  client_forget(c);
}

/* A stub with two commands behind it has a child ready; one that was killed is followed by a new one. */
static pid_t until_ready(client *c, pid_t *stub)
{
  pid_t ready = 0;
  for (int i = 0; !(*stub = only_child(c->pid)) || !(ready = only_child(*stub)); i++) {
    assert_true(i < PATIENCE);
    if (i % 100 < 2) say(c, "again", "again\n");
    usleep(5000);
  }
  until_state(ready, 'S'); /* what waits uninterruptibly would count as the machine's load */
  until_state(*stub, 'S');
  return ready;
}

static void test_takes_the_next_command(void **state)
{
  client *c = *state;
  pid_t stub, ready = until_ready(c, &stub);
  job *a = job_start(c, MCG_EXEC_NO_STDIN, "sh", "-c", "echo $$ $PPID; exit 3", NULL);
  job_finish(c, a);
  char expected[64];
  snprintf(expected, sizeof expected, "%d %d\n", ready, stub);
  assert_string_equal(a->data[1], expected);
  assert_int_equal(a->pid, ready);
  assert_int_equal(a->code, 3);
}

static void test_start_is_told_before_the_end(void **state)
{
  client *c = *state;
  pid_t stub;
  until_ready(c, &stub);
  job *a = job_start(c, MCG_EXEC_NO_STDIN, "sleep", "600", NULL);
  client_until(c, a->started);
  assert_false(a->exited);
  client_send(c, MCG_F_KILL, a->channel, 0, NULL);
  job_finish(c, a);
  assert_int_equal(a->signo, SIGKILL);
}

static void test_input_reaches_it(void **state)
{
  client *c = *state;
  pid_t stub;
  until_ready(c, &stub);
  job *a = job_start(c, 0, "cat", NULL);
  job_write(c, a, "through\n", 8);
  job_close_stdin(c, a);
  job_finish(c, a);
  assert_string_equal(a->data[1], "through\n");
}

static void test_missing_program(void **state)
{
  client *c = *state;
  pid_t stub;
  until_ready(c, &stub);
  job *a = job_start(c, MCG_EXEC_NO_STDIN, "no-such-program", NULL);
  job_finish(c, a);
  assert_int_equal(a->code, 127);
  assert_int_equal(a->error, ENOENT);
  say(c, "next", "next\n");
}

static void test_killed_at_once(void **state)
{
  client *c = *state;
  pid_t stub;
  for (int i = 0; i < 30; i++) { /* at different moments of its start */
    until_ready(c, &stub);
    job *a = job_start(c, MCG_EXEC_NO_STDIN, "sleep", "600", NULL);
    if (i % 3) usleep((useconds_t)(i % 3) * 300);
    client_send(c, MCG_F_KILL, a->channel, 0, NULL);
    job_finish(c, a);
    assert_int_equal(a->signo, SIGKILL);
    client_forget(c);
  }
}

static void test_child_is_killed(void **state)
{
  client *c = *state;
  pid_t stub, ready = until_ready(c, &stub);
  assert_int_equal(kill(ready, SIGKILL), 0);
  until_state(ready, 0);
  say(c, "next", "next\n");
  say(c, "after", "after\n");
}

static void test_child_is_stopped(void **state)
{
  client *c = *state;
  pid_t stub, ready = until_ready(c, &stub);
  assert_int_equal(kill(ready, SIGSTOP), 0);
  until_state(ready, 'T');
  say(c, "next", "next\n");
}

static void test_child_is_stopped_and_killed(void **state)
{
  client *c = *state;
  pid_t stub, ready = until_ready(c, &stub);
  assert_int_equal(kill(ready, SIGSTOP), 0);
  until_state(ready, 'T');
  job *a = job_start(c, MCG_EXEC_NO_STDIN, "sleep", "600", NULL);
  client_send(c, MCG_F_KILL, a->channel, 0, NULL);
  job_finish(c, a);
  assert_int_equal(a->signo, SIGKILL);
  until_state(ready, 0);
}

/* What waits in it for its signals to be let through would be the command's end. */
static void test_child_is_signalled(void **state)
{
  client *c = *state;
  pid_t stub, ready = until_ready(c, &stub);
  for (int signo = 1; signo <= SIGRTMAX; signo++)
    if (signo != SIGKILL && signo != SIGSTOP)
      for (int i = 0; i < 3; i++) kill(ready, signo);
  say(c, "next", "next\n");
  until_ready(c, &stub);
  say(c, "after", "after\n");
}

/* Nobody is left to wait for the child's turn: it must not come with the slot's next use. */
static void test_stub_is_killed(void **state)
{
  client *c = *state;
  for (int i = 0; i < 10; i++) {
    pid_t stub, ready = until_ready(c, &stub);
    assert_int_equal(kill(stub, SIGKILL), 0);
    if (i % 2) until_state(ready, 0); /* the other times the next command comes first */
    say(c, "next", "next\n");
    until_state(ready, 0);
    until_state(stub, 0);
  }
}

/* Whoever dies at whatever moment: a command runs once or not at all, and its end is told. */
static void deaths(client *c, bool of_stub)
{
  char file[] = "/tmp/mooncage-ready-XXXXXX", script[128];
  int fd = mkstemp(file);
  assert_true(fd >= 0);
  snprintf(script, sizeof script, "echo ran >>%s", file);
  for (int i = 0; i < 60; i++) {
    pid_t stub, ready = until_ready(c, &stub);
    struct stat before, after;
    assert_int_equal(fstat(fd, &before), 0);
    job *a = job_start(c, MCG_EXEC_NO_STDIN, "sh", "-c", script, NULL);
    for (volatile int spin = 0; spin < i * 400; spin++) {
    }
    pid_t victim = of_stub ? stub : ready;
    kill(victim, SIGKILL);
    client_until(c, a->exited || a->refused);
    client_send(c, MCG_F_KILL, a->channel, 0, NULL);
    job_finish(c, a);
    assert_int_equal(fstat(fd, &after), 0);
    off_t grown = after.st_size - before.st_size;
    assert_true(grown == 0 || grown == 4);
    if (!a->refused && !a->signo) assert_int_equal(grown, 4);
    until_state(victim, 0); /* who is still dying would be taken for the next one's */
    client_forget(c);
  }
  close(fd);
  unlink(file);
}

static void test_child_dies_at_any_moment(void **state)
{
  deaths(*state, false);
}

static void test_stub_dies_at_any_moment(void **state)
{
  deaths(*state, true);
}

#define BOTH(test)                                                                                 \
  {#test " (direct)", test, start_direct, stop, NULL},                                             \
  {                                                                                                \
#test " (framed)", test, start_framed, stop, NULL                                              \
  }

int main(void)
{
  const struct CMUnitTest tests[] = {
      BOTH(test_takes_the_next_command),   BOTH(test_start_is_told_before_the_end),
      BOTH(test_input_reaches_it),         BOTH(test_missing_program),
      BOTH(test_killed_at_once),           BOTH(test_child_is_killed),
      BOTH(test_child_is_stopped),         BOTH(test_child_is_stopped_and_killed),
      BOTH(test_child_is_signalled),       BOTH(test_stub_is_killed),
      BOTH(test_child_dies_at_any_moment), BOTH(test_stub_dies_at_any_moment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
