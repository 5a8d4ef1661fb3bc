/* Commands of mooncage-init as a server, over both carriers: streams, exit codes, signals, programs that
 * cannot be executed, limits, and what a client may get wrong. */
#include "init_client.h"

#include <sys/resource.h>

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

static void test_streams_apart(void **state)
{
  client *c = *state;
  job *j = job_start(c, 0, "sh", "-c", "printf out; printf err >&2; exit 7", NULL);
  job_finish(c, j);
  assert_string_equal(j->data[1], "out");
  assert_string_equal(j->data[2], "err");
  assert_int_equal(j->code, 7);
  assert_int_equal(j->signo, 0);
  assert_int_equal(j->error, 0);
  assert_true(j->pid > 1);
  assert_true(j->maxrss_kb > 100);
}

static void test_stdin_half_close(void **state)
{
  client *c = *state;
  job *j = job_start(c, 0, "sh", "-c", "cat; echo after", NULL);
  job_write(c, j, "hello ", 6);
  job_close_stdin(c, j);
  job_finish(c, j);
  assert_string_equal(j->data[1], "hello after\n");
}

static void test_big_both_ways(void **state)
{
  client *c = *state;
  size_t len = 3 << 20;
  char *bytes = malloc(len);
  for (size_t i = 0; i < len; i++) bytes[i] = (char)(i * 7 + (i >> 11));
  job *j = job_start(c, 0, "cat", NULL);
  job_write(c, j, bytes, len);
  job_close_stdin(c, j);
  job_finish(c, j);
  assert_int_equal(j->len[1], len);
  assert_memory_equal(j->data[1], bytes, len);
  free(bytes);
}

static void test_no_stdin(void **state)
{
  client *c = *state;
  job *j = job_start(c, MCG_EXEC_NO_STDIN, "cat", NULL);
  job_finish(c, j);
  assert_int_equal(j->code, 0);
  assert_int_equal(j->len[1], 0);
}

static void test_killed_by_signal(void **state)
{
  client *c = *state;
  job *j = job_start(c, 0, "sh", "-c", "kill -TERM $$", NULL);
  job_finish(c, j);
  assert_int_equal(j->signo, SIGTERM);
}

static void test_signal_reaches_main_process(void **state)
{
  client *c = *state;
  job *j = job_start(c, 0, "sh", "-c",
                     "trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done", NULL);
  client_until(c, j->len[1] > 0);
  client_send_number(c, MCG_F_SIGNAL, j->channel, 0, MCG_TAG_SIGNO, SIGUSR1);
  job_finish(c, j);
  assert_int_equal(j->code, 9);
}

static void test_missing_program(void **state)
{
  client *c = *state;
  job *j = job_start(c, 0, "no-such-program-anywhere", NULL);
  job_finish(c, j);
  assert_int_equal(j->code, 127);
  assert_int_equal(j->error, ENOENT);
  assert_string_equal(j->step, "exec");
  j = job_start(c, 0, "/etc/passwd/x", NULL);
  job_finish(c, j);
  assert_int_equal(j->code, 127);
  assert_int_equal(j->error, ENOTDIR);
  j = job_start(c, 0, "", NULL);
  job_finish(c, j);
  assert_int_equal(j->code, 127);
}

static void test_not_executable(void **state)
{
  client *c = *state;
  job *j = job_start(c, 0, "/etc/passwd", NULL);
  job_finish(c, j);
  assert_int_equal(j->code, 126);
  assert_int_equal(j->error, EACCES);
}

static void test_path_search_like_execvp(void **state)
{
  client *c = *state;
  char dir[] = "/tmp/mcg-path-XXXXXX", command[400];
  assert_non_null(mkdtemp(dir));
  snprintf(command, sizeof command,
           "cd %s && mkdir a b && echo 'echo script $1' > b/tool && chmod 755 b/tool && "
           "echo x > a/tool && chmod 644 a/tool",
           dir);
  assert_int_equal(system(command), 0);
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_ARG, "tool");
  mcg_wire_put_str(&body, MCG_TAG_ARG, "one");
  snprintf(command, sizeof command, "PATH=%s/a:%s/b", dir, dir);
  mcg_wire_put_str(&body, MCG_TAG_ENV, command);
  job *j =
      job_open(c, 0, &body); /* a/tool may not be run: the next one; no shebang: by the shell */
  job_finish(c, j);
  assert_string_equal(j->data[1], "script one\n");
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_ARG, "tool");
  snprintf(command, sizeof command, "PATH=%s/a:%s/none", dir, dir);
  mcg_wire_put_str(&body, MCG_TAG_ENV, command);
  j = job_open(c, 0, &body);
  job_finish(c, j);
  assert_int_equal(j->code, 126);
  assert_int_equal(j->error, EACCES);
  snprintf(command, sizeof command, "rm -rf %s", dir);
  assert_int_equal(system(command), 0);
}

static void test_cwd_and_env(void **state)
{
  client *c = *state;
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_ARG, "sh");
  mcg_wire_put_str(&body, MCG_TAG_ARG, "-c");
  mcg_wire_put_str(&body, MCG_TAG_ARG, "pwd; echo $A; echo $LANG; env | grep -c '^A='");
  mcg_wire_put_str(&body, MCG_TAG_CWD, "/usr");
  mcg_wire_put_str(&body, MCG_TAG_ENV, "A=first");
  mcg_wire_put_str(&body, MCG_TAG_ENV, "A=last=one");
  mcg_wire_put_str(&body, MCG_TAG_ENV, "LANG=C");
  job *j = job_open(c, 0, &body);
  job_finish(c, j);
  assert_string_equal(j->data[1], "/usr\nlast=one\nC\n1\n");
  j = job_start(c, 0, "pwd", NULL);
  job_finish(c, j);
  assert_string_equal(j->data[1], "/tmp\n");
}

static void test_bad_cwd(void **state)
{
  client *c = *state;
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_ARG, "true");
  mcg_wire_put_str(&body, MCG_TAG_CWD, "/no/such/place");
  job *j = job_open(c, 0, &body);
  job_finish(c, j);
  assert_int_equal(j->error, ENOENT);
  assert_string_equal(j->step, "cwd");
  assert_int_not_equal(j->code, 0);
}

static void test_refused(void **state)
{
  client *c = *state;
  mcg_wire body;
  mcg_wire_init(&body);
  job *j = job_open(c, 0, &body);
  job_finish(c, j);
  assert_true(j->refused);
  assert_int_equal(j->error, EINVAL);
  mcg_wire_init(&body);
  mcg_wire_put(&body, MCG_TAG_ARG, "a\0b", 3);
  j = job_open(c, 0, &body);
  job_finish(c, j);
  assert_true(j->refused);
  assert_string_equal(j->step, "argv");
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_ARG, "true");
  mcg_wire_put_str(&body, MCG_TAG_ENV, "no equals sign");
  j = job_open(c, 0, &body);
  job_finish(c, j);
  assert_true(j->refused);
  assert_string_equal(j->step, "env");
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_ARG, "true");
  mcg_wire_put_str(&body, MCG_TAG_USER, "nobody-of-this-name");
  j = job_open(c, 0, &body);
  job_finish(c, j);
  assert_true(j->refused);
  assert_string_equal(j->step, "user");
  j = job_start(c, MCG_EXEC_PTY | MCG_EXEC_DETACH, "true", NULL);
  job_finish(c, j);
  assert_true(j->refused);
  assert_string_equal(j->step, "flags");
}

static void put_limit(mcg_wire *body, uint32_t resource, uint64_t value)
{
  uint8_t bytes[16] = {0};
  memcpy(bytes, &resource, 4);
  memcpy(bytes + 8, &value, 8);
  mcg_wire_put(body, MCG_TAG_LIMIT, bytes, sizeof bytes);
}

static void test_limits(void **state)
{
  client *c = *state;
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_ARG, "sh");
  mcg_wire_put_str(&body, MCG_TAG_ARG, "-c");
  mcg_wire_put_str(&body, MCG_TAG_ARG, "ulimit -n; ulimit -f");
  put_limit(&body, RLIMIT_NOFILE, 77);
  put_limit(&body, RLIMIT_FSIZE, 512 * 10);
  job *j = job_open(c, 0, &body);
  job_finish(c, j);
  assert_string_equal(j->data[1], "77\n10\n");
}

/* What init itself is must not leak into commands. */
static void test_clean_process(void **state)
{
  client *c = *state;
  job *j = job_start(
      c, 0, "sh", "-c",
      "for i in $(seq 0 99); do [ -e /proc/$$/fd/$i ] && printf '%s ' $i; done; umask; "
      "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status; ps -o sid= -p $$ | tr -d ' '; echo $$",
      NULL);
  job_finish(c, j);
  char *rest = strchr(j->data[1], '\n');
  assert_non_null(rest);
  assert_non_null(strstr(j->data[1], "0 1 2 "));
  assert_null(strstr(j->data[1], " 3 "));
  assert_non_null(strstr(j->data[1], "0022\n"));
  assert_non_null(strstr(rest, "SigBlk:\t0000000000000000"));
  assert_non_null(strstr(rest, "SigIgn:\t0000000000000000"));
  long sid = 0, pid = -1;
  char *line = strstr(rest, "SigCgt");
  assert_int_equal(sscanf(strchr(line, '\n'), "%ld %ld", &sid, &pid), 2);
  assert_int_equal(sid, pid);
}

static void test_reopen_dev_stdout(void **state)
{
  client *c = *state;
  job *j = job_start(c, 0, "sh", "-c", "echo one > /dev/stdout; echo two > /dev/stderr", NULL);
  job_finish(c, j);
  assert_string_equal(j->data[1], "one\n");
  assert_string_equal(j->data[2], "two\n");
}

static void test_background_child_keeps_nothing_waiting(void **state)
{
  client *c = *state;
  job *j = job_start(c, 0, "sh", "-c", "sleep 600 & echo done", NULL);
  client_until(c, j->exited);
  assert_false(j->gone);
  client_send(c, MCG_F_KILL, j->channel, 0, NULL);
  job_finish(c, j);
  assert_string_equal(j->data[1], "done\n");
  assert_int_equal(j->code, 0);
}

static void test_long_message(void **state)
{
  client *c = *state;
  mcg_wire body;
  mcg_wire_init(&body);
  size_t len = 100000;
  char *text = malloc(len + 1);
  memset(text, 'x', len);
  text[len] = 0;
  mcg_wire_put_str(&body, MCG_TAG_ARG, "printf");
  mcg_wire_put_str(&body, MCG_TAG_ARG, "%s%s");
  mcg_wire_put_str(&body, MCG_TAG_ARG, text);
  mcg_wire_put_str(&body, MCG_TAG_ARG, text);
  assert_true(body.len > 3 * MCG_FRAME_MAX);
  job *j = job_open(c, 0, &body);
  job_finish(c, j);
  assert_int_equal(j->len[1], 2 * len);
  free(text);
}

static void test_many_at_once(void **state)
{
  client *c = *state;
  job *jobs[10];
  for (int i = 0; i < 10; i++) jobs[i] = job_start(c, 0, "sh", "-c", "sleep 0.2; echo $$", NULL);
  for (int i = 0; i < 10; i++) {
    job_finish(c, jobs[i]);
    assert_int_equal(atoi(jobs[i]->data[1]), jobs[i]->pid);
  }
}

static void test_many_in_a_row(void **state)
{
  client *c = *state;
  for (int i = 0; i < 200; i++) {
    job *j = job_start(c, MCG_EXEC_NO_STDIN, "true", NULL);
    job_finish(c, j);
    assert_int_equal(j->code, 0);
    client_forget(c);
  }
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd", c->pid);
  unsigned count = 0;
  job *j = job_start(c, 0, "ls", path, NULL);
  job_finish(c, j);
  for (char *at = j->data[1]; *at; at++) count += *at == '\n';
  assert_true(count < 20); /* nothing was left open */
}

static void test_late_messages_are_harmless(void **state)
{
  client *c = *state;
  job *j = job_start(c, 0, "true", NULL);
  job_finish(c, j);
  client_send(c, MCG_F_KILL, j->channel, 0, NULL);
  client_send_number(c, MCG_F_SIGNAL, j->channel, 0, MCG_TAG_SIGNO, SIGTERM);
  client_send(c, MCG_F_CLOSE, j->channel, 1, NULL);
  client_send_fd(c, MCG_F_PING, 0, 0, "x", 1, -1);
  client_until(c, c->pongs == 1);
}

#define BOTH(test)                                                                                 \
  {#test " (direct)", test, start_direct, stop, NULL},                                             \
  {                                                                                                \
#test " (framed)", test, start_framed, stop, NULL                                              \
  }

int main(void)
{
  const struct CMUnitTest tests[] = {
      BOTH(test_streams_apart),
      BOTH(test_stdin_half_close),
      BOTH(test_big_both_ways),
      BOTH(test_no_stdin),
      BOTH(test_killed_by_signal),
      BOTH(test_signal_reaches_main_process),
      BOTH(test_missing_program),
      BOTH(test_not_executable),
      BOTH(test_path_search_like_execvp),
      BOTH(test_cwd_and_env),
      BOTH(test_bad_cwd),
      BOTH(test_refused),
      BOTH(test_limits),
      BOTH(test_clean_process),
      BOTH(test_reopen_dev_stdout),
      BOTH(test_background_child_keeps_nothing_waiting),
      BOTH(test_long_message),
      BOTH(test_many_at_once),
      BOTH(test_many_in_a_row),
      BOTH(test_late_messages_are_harmless),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
