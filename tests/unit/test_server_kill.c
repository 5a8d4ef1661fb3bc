/* The end of commands: one command's whole tree and nothing of another's, stubs that the payload kills or
 * stops, clients that leave, and init itself leaving. */
#include "init_client.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static int start_direct(void **state)
{
  return (*state = client_start_with(0, "/tmp")) ? 0 : -1;
}
static int start_framed(void **state)
{
  return (*state = client_start_with(1, "/tmp")) ? 0 : -1;
}
static int start_pid1(void **state)
{
  *state = client_start_in(0, "/tmp", true);
  return 0;
}
static int stop(void **state)
{
  if (*state) assert_int_equal(client_stop(*state), 0);
  return 0;
}

/* Processes that carry the mark in their environment. */
static unsigned marked(const char *mark)
{
  unsigned count = 0;
  DIR *proc = opendir("/proc");
  for (struct dirent *entry; (entry = readdir(proc));) {
    char path[300];
    static char bytes[65536];
    if (*entry->d_name < '0' || *entry->d_name > '9') continue;
    snprintf(path, sizeof path, "/proc/%s/environ", entry->d_name);
    int fd = open(path, O_RDONLY);
    if (fd < 0) continue;
    ssize_t len = read(fd, bytes, sizeof bytes);
    close(fd);
    count += len > 0 && memmem(bytes, (size_t)len, mark, strlen(mark)) != NULL;
  }
  closedir(proc);
  return count;
}

/* Those of a mark that is to live on: all of them, soon. While one of them is in execve its new memory
 * has no environment yet, and it is not seen. */
static void until_marked(const char *mark, unsigned count)
{
  for (int i = 0; marked(mark) != count; i++) {
    assert_true(i < 2000);
    usleep(5000);
  }
}

static char *new_mark(void)
{
  static char mark[64];
  static unsigned count;
  snprintf(mark, sizeof mark, "MCG_MARK=%d.%u.", getpid(), ++count);
  return mark;
}

static job *start_marked(client *c, uint32_t flags, const char *mark, const char *script)
{
  mcg_wire body;
  mcg_wire_init(&body);
  mcg_wire_put_str(&body, MCG_TAG_ARG, "sh");
  mcg_wire_put_str(&body, MCG_TAG_ARG, "-c");
  mcg_wire_put_str(&body, MCG_TAG_ARG, script);
  mcg_wire_put_str(&body, MCG_TAG_ENV, mark);
  return job_open(c, flags, &body);
}

#define ESCAPERS                                                                                   \
  "(setsid sh -c 'sleep 600 & sleep 600 & wait' &) ; (setsid setsid sleep 600 &) ; "               \
  "nohup sleep 600 >/dev/null 2>&1 & sleep 600 & echo up; wait"

static void test_kills_the_tree_of_one(void **state)
{
  client *c = *state;
  char one[64], other[64];
  strcpy(one, new_mark());
  strcpy(other, new_mark());
  job *a = start_marked(c, 0, one, ESCAPERS);
  job *b = start_marked(c, 0, other,
                        "(setsid sleep 600 &) ; sleep 600 & echo up; read line; echo $line");
  client_until(c, a->len[1] && b->len[1]);
  until_marked(one, 7);
  until_marked(other, 3);
  client_send(c, MCG_F_KILL, a->channel, 0, NULL);
  job_finish(c, a);
  assert_int_equal(a->signo, SIGKILL);
  assert_int_equal(marked(one), 0);
  until_marked(other, 3);
  job_write(c, b, "lives\n", 6);
  client_until(c, b->exited);
  client_send(c, MCG_F_KILL, b->channel, 0, NULL);
  job_finish(c, b);
  assert_non_null(strstr(b->data[1], "lives"));
  assert_int_equal(b->code, 0);
  assert_int_equal(marked(other), 0);
}

static void test_background_child_outlives_its_command(void **state)
{
  client *c = *state;
  char *mark = new_mark();
  job *a = start_marked(c, 0, mark, "sleep 600 & echo up");
  client_until(c, a->exited);
  assert_int_equal(a->code, 0);
  assert_false(a->gone);
  until_marked(mark, 1);
  job *b = job_start(c, 0, "echo", "next", NULL);
  job_finish(c, b);
  until_marked(mark, 1);
  client_send(c, MCG_F_KILL, a->channel, 0, NULL);
  job_finish(c, a);
  assert_int_equal(marked(mark), 0);
}

static void test_fork_bomb(void **state)
{
  client *c = *state;
  char *mark = new_mark();
  job *a = start_marked(
      c, 0, mark,
      "for i in 1 2 3 4 5 6 7 8; do (while :; do sleep 0.01 & done) & done; echo up; wait");
  client_until(c, a->len[1]);
  usleep(200000);
  client_send(c, MCG_F_KILL, a->channel, 0, NULL);
  job_finish(c, a);
  assert_int_equal(marked(mark), 0);
}

/* The payload finds its stub (its parent) and kills it. */
static void test_payload_kills_its_stub(void **state)
{
  client *c = *state;
  char *mark = new_mark();
  job *a = start_marked(c, 0, mark,
                        "(setsid sleep 600 &); kill -KILL $PPID; sleep 0.3; echo alive; exit 5");
  client_until(c, a->exited && a->len[1]);
  assert_string_equal(a->data[1], "alive\n");
  assert_int_equal(a->code, 5); /* init took over, and knows how it ended */
  assert_false(a->gone);
  client_send(c, MCG_F_KILL, a->channel, 0, NULL);
  job_finish(c, a);
  assert_int_equal(marked(mark), 0);
}

static void test_killed_stub_and_next_kill(void **state)
{
  client *c = *state;
  char one[64];
  strcpy(one, new_mark());
  job *a = start_marked(c, 0, one, "(setsid sleep 600 &); kill -KILL $PPID; sleep 0.2");
  client_until(c, a->exited);
  job *b = start_marked(c, 0, new_mark(), "echo up; sleep 600");
  client_until(c, b->len[1]);
  client_send(c, MCG_F_KILL, b->channel, 0, NULL); /* orphans under no live stub go with any kill */
  job_finish(c, b);
  job_finish(c, a);
  assert_int_equal(marked(one), 0);
}

static void test_payload_stops_its_stub(void **state)
{
  client *c = *state;
  char *mark = new_mark();
  job *a = start_marked(c, 0, mark, "(setsid sleep 600 &); kill -STOP $PPID; echo up; sleep 600");
  client_until(c, a->len[1]);
  client_send(c, MCG_F_KILL, a->channel, 0, NULL);
  job_finish(c, a);
  assert_int_equal(marked(mark), 0);
}

static void test_forged_signals_to_the_stub(void **state)
{
  client *c = *state;
  job *a = job_start(
      c, 0, "sh", "-c",
      "for s in HUP INT QUIT USR1 USR2 TERM CHLD ALRM PIPE; do kill -$s $PPID; done; exit 3", NULL);
  job_finish(c, a);
  assert_int_equal(a->code, 3);
}

static void test_signals_to_init(void **state)
{
  client *c = *state;
  char script[128];
  snprintf(script, sizeof script,
           "for s in HUP INT QUIT USR1 TERM CHLD ALRM PIPE; do kill -$s %d; done; exit 3", c->pid);
  job *a = job_start(c, 0, "sh", "-c", script, NULL);
  job_finish(c, a);
  assert_int_equal(a->code, 3);
}

static void test_end_of_stream_kills_all(void **state)
{
  client *c = *state;
  char *mark = new_mark();
  job *a = start_marked(c, 0, mark, ESCAPERS);
  job *b = start_marked(c, MCG_EXEC_DETACH, mark, "(setsid sleep 600 &); sleep 600");
  client_until(c, a->len[1] && b->started);
  assert_int_equal(client_stop(c), 0);
  assert_int_equal(marked(mark), 0);
}

static void test_stop_kills_all(void **state)
{
  client *c = *state;
  char *mark = new_mark();
  job *a = start_marked(c, 0, mark, ESCAPERS);
  client_until(c, a->len[1]);
  client_send(c, MCG_F_STOP, 0, 0, NULL);
  client_until(c, c->ended);
  assert_int_equal(client_stop(c), 0);
  assert_int_equal(marked(mark), 0);
}

static client *attach(client *c)
{
  int pair[2];
  client *other = calloc(1, sizeof *other);
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  client_send_fd(c, MCG_F_ATTACH, 0, 0, NULL, 0, pair[1]);
  close(pair[1]);
  other->fd = pair[0];
  client_send_number(other, MCG_F_HELLO, 0, 0, MCG_TAG_VERSION, MCG_PROTOCOL_VERSION);
  client_until(other, other->hello);
  return other;
}

static void test_attached_client(void **state)
{
  client *c = *state;
  char one[64], two[64], three[64];
  strcpy(one, new_mark());
  strcpy(two, new_mark());
  strcpy(three, new_mark());
  client *other = attach(c);
  job *mine = start_marked(c, 0, one, "echo up; sleep 600");
  job *theirs = start_marked(other, 0, two, "(setsid sleep 600 &); echo up; sleep 600");
  job *detached = start_marked(other, MCG_EXEC_DETACH, three, "exec sleep 600");
  client_until(c, mine->len[1]);
  client_until(other, theirs->len[1] && detached->started);
  until_marked(one, 2); /* `up` comes before its sleep does */
  until_marked(three, 1);
  client_send(other, MCG_F_KILL, mine->channel, 0, NULL); /* not its own: nothing happens */
  client_free(other);
  for (int i = 0; marked(two); i++) {
    assert_true(i < 2000);
    usleep(10000);
  }
  until_marked(one, 2);
  until_marked(three, 1);
  client_send(c, MCG_F_KILL, mine->channel, 0, NULL);
  job_finish(c, mine);
  until_marked(three, 1);
  assert_int_equal(client_stop(c), 0);
  assert_int_equal(marked(three), 0);
}

/* KILL on channel 0: whoever's command it is, and what it left behind; built-ins go on. */
static void test_kill_of_all(void **state)
{
  client *c = *state;
  char marks[4][64];
  for (int i = 0; i < 4; i++) strcpy(marks[i], new_mark());
  client *other = c->carrier ? c : attach(c);
  job *mine = start_marked(c, 0, marks[0], "(setsid sleep 600 &); echo up; sleep 600");
  job *theirs = start_marked(other, 0, marks[1], "trap '' TERM HUP; echo up; sleep 600");
  job *detached = start_marked(other, MCG_EXEC_DETACH, marks[2], "exec sleep 600");
  job *over = start_marked(c, 0, marks[3], "sleep 600 & echo up");
  job *builtin = job_start(c, MCG_EXEC_BUILTIN, "write", "file", "644", NULL);
  client_until(c, mine->len[1] && over->exited && builtin->started);
  client_until(other, theirs->len[1] && detached->started);
  until_marked(marks[2], 1);
  until_marked(marks[3], 1);
  client_send(c, MCG_F_KILL, 0, 0, NULL);
  client_until(c, c->all_gone == 1);
  for (int i = 0; i < 4; i++) assert_int_equal(marked(marks[i]), 0);
  job_finish(c, mine);
  job_finish(c, over);
  job_finish(other, theirs);
  assert_int_equal(theirs->signo, SIGKILL);
  job_write(c, builtin, "text", 4);
  job_close_stdin(c, builtin);
  job_finish(c, builtin);
  assert_int_equal(builtin->code, 0);
  client_send(c, MCG_F_KILL, 0, 0, NULL); /* there is nothing */
  client_until(c, c->all_gone == 2);
  if (other != c) client_free(other);
}

static void test_detached_streams(void **state)
{
  client *c = *state;
  job *a = job_start(c, MCG_EXEC_DETACH, "sh", "-c",
                     "echo lost; read x; test -c /dev/stdout && exit 4", NULL);
  job_finish(c, a);
  assert_int_equal(a->len[1], 0);
  assert_int_equal(a->code, 4);
}

static void test_no_more_descriptors(void **state)
{
  client *c = *state;
  char script[160];
  snprintf(script, sizeof script, "prlimit --pid %d --nofile=12:12 && echo done", c->pid);
  job *a = job_start(c, 0, "sh", "-c", script, NULL);
  job_finish(c, a);
  if (strcmp(a->data[1], "done\n") != 0) {
    print_message("skipped: prlimit is not there or not allowed\n");
    skip();
  }
  job *jobs[4];
  unsigned refused = 0;
  for (int i = 0; i < 4; i++) jobs[i] = job_start(c, 0, "cat", NULL);
  for (int i = 0; i < 4; i++) {
    client_until(c, jobs[i]->started || jobs[i]->refused);
    refused += jobs[i]->refused;
    if (jobs[i]->refused) assert_int_equal(jobs[i]->error, EMFILE);
    if (jobs[i]->started) client_send(c, MCG_F_KILL, jobs[i]->channel, 0, NULL);
  }
  assert_true(refused > 0);
  for (int i = 0; i < 4; i++) job_finish(c, jobs[i]);
  a = job_start(c, MCG_EXEC_NO_STDIN, "true", NULL);
  job_finish(c, a);
  assert_true(a->refused || a->code == 0); /* init itself lives on */
}

/* Framed: a client that reads nothing of one command does not hold up another, nor the news. */
static void test_flood_without_credit(void **state)
{
  client *c = *state;
  job *flood = job_start(c, 0, "sh", "-c", "cat /dev/zero", NULL);
  flood->hold[1] = true;
  job *b = job_start(c, 0, "echo", "through", NULL);
  job_finish(c, b);
  assert_string_equal(b->data[1], "through\n");
  assert_true(flood->len[1] <= MCG_WINDOW);
  client_send_fd(c, MCG_F_PING, 0, 0, "x", 1, -1);
  client_until(c, c->pongs == 1);
  client_send(c, MCG_F_KILL, flood->channel, 0, NULL);
  client_until(c, flood->gone);
  assert_int_equal(flood->signo, SIGKILL);
}

static void test_closed_stream_is_drained(void **state)
{
  client *c = *state;
  job *j = job_start(c, 0, "sh", "-c", "head -c 3000000 /dev/zero; echo fine >&2", NULL);
  client_send(c, MCG_F_CLOSE, j->channel, 1, NULL);
  client_until(c, j->gone);
  assert_string_equal(j->data[2], "fine\n");
  assert_true(j->len[1] < 3000000);
}

static client *need_pid1(void **state)
{
  if (!*state) {
    print_message("skipped: no user and pid namespaces here\n");
    skip();
  }
  assert_int_equal(((client *)*state)->server_pid, 1); /* what follows uses kill(-1) */
  return *state;
}

#define BOMB "for i in 1 2 3 4 5 6 7 8; do (while :; do sleep 0.01 & done) & done; echo up; wait"

static void test_bomb_as_pid1(void **state)
{
  client *c = need_pid1(state);
  char *mark = new_mark();
  job *a = start_marked(c, 0, mark, BOMB);
  client_until(c, a->len[1]);
  usleep(100000);
  client_send(c, MCG_F_KILL, a->channel, 0, NULL);
  job_finish(c, a);
  assert_int_equal(a->signo, SIGKILL);
  assert_int_equal(marked(mark), 0);
  job *b = job_start(c, 0, "echo", "next", NULL);
  job_finish(c, b);
  assert_string_equal(b->data[1], "next\n");
}

/* Keeps its stub from working: only stopping everything else lets it finish. */
static void test_stub_held_beside_another(void **state)
{
  client *c = need_pid1(state);
  char one[64], other[64];
  strcpy(one, new_mark());
  strcpy(other, new_mark());
  job *b = start_marked(c, 0, other, "sleep 600 & echo up; read line; echo $line; kill $!");
  job *a = start_marked(
      c, 0, one,
      "s=$PPID; for i in 1 2 3; do (setsid sh -c \"while :; do kill -STOP $s; done\" &); done; "
      "echo up; " BOMB);
  client_until(c, a->len[1] && b->len[1]);
  usleep(100000);
  client_send(c, MCG_F_KILL, a->channel, 0, NULL);
  job_finish(c, a);
  assert_int_equal(marked(one), 0);
  until_marked(other, 2);
  job_write(c, b, "lives\n", 6);
  job_finish(c, b);
  assert_non_null(strstr(b->data[1], "lives"));
}

/* kill(-1) of one command reaches every other and every stub: the sandbox's own fault, but init lives,
 * and says how each ended. */
static void test_payload_kills_everything(void **state)
{
  client *c = need_pid1(state);
  for (int i = 0; i < 20; i++) { /* at different moments of the stubs' lives */
    job *a = job_start(c, 0, "sh", "-c", "echo up; exec sleep 600", NULL);
    client_until(c, a->len[1]);
    job *b = job_start(c, 0, "sh", "-c", "kill -KILL -1; echo still here; exit 6", NULL);
    client_until(c, b->exited && a->exited);
    job_finish(c, a);
    job_finish(c, b);
    assert_int_equal(a->signo, SIGKILL);
    assert_true(b->code == 6 || b->signo == SIGKILL);
    job *d = job_start(c, 0, "echo", "next", NULL);
    job_finish(c, d);
    assert_string_equal(d->data[1], "next\n");
    client_forget(c);
  }
}

#define BOTH(test)                                                                                 \
  {#test " (direct)", test, start_direct, stop, NULL},                                             \
  {                                                                                                \
#test " (framed)", test, start_framed, stop, NULL                                              \
  }
#define BOTH_LEAVE(test)                                                                           \
  {#test " (direct)", test, start_direct, NULL, NULL},                                             \
  {                                                                                                \
#test " (framed)", test, start_framed, NULL, NULL                                              \
  }

int main(void)
{
  const struct CMUnitTest tests[] = {
      BOTH(test_kills_the_tree_of_one),
      BOTH(test_background_child_outlives_its_command),
      BOTH(test_fork_bomb),
      BOTH(test_payload_kills_its_stub),
      BOTH(test_killed_stub_and_next_kill),
      BOTH(test_payload_stops_its_stub),
      BOTH(test_forged_signals_to_the_stub),
      BOTH(test_signals_to_init),
      BOTH_LEAVE(test_end_of_stream_kills_all),
      BOTH_LEAVE(test_stop_kills_all),
      {"test_attached_client", test_attached_client, start_direct, NULL, NULL},
      BOTH(test_kill_of_all),
      BOTH(test_detached_streams),
      BOTH(test_no_more_descriptors),
      {"test_bomb_as_pid1", test_bomb_as_pid1, start_pid1, stop, NULL},
      {"test_stub_held_beside_another", test_stub_held_beside_another, start_pid1, stop, NULL},
      {"test_payload_kills_everything", test_payload_kills_everything, start_pid1, stop, NULL},
      {"test_flood_without_credit", test_flood_without_credit, start_framed, stop, NULL},
      {"test_closed_stream_is_drained", test_closed_stream_is_drained, start_framed, stop, NULL},
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
