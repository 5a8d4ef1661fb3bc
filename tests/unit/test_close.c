/* The end of an engine in the middle of everything: sandboxes opening, commands of all kinds running,
 * files being written. Every operation completes once, no process and no descriptor is left, and the
 * host's loop is empty. Through the public header, as a host would. */
#include "turning.h"
#include <dirent.h>
#include <ftw.h>
#include <sys/wait.h>
#include <time.h>

enum { SESSIONS = 8, COMMANDS = 4, ROUNDS = 12 };

/* One started operation: it must complete once. */
typedef struct ticket {
  struct crowd *crowd;
  mcg_op *op;
  mcg_exec *exec;
  mcg_session *session;
  int completions;
} ticket;

typedef struct crowd {
  mcg_engine *engine;
  const char *config;
  unsigned seed;
  ticket *tickets;
  size_t count, room;
  bool closing, closed;
  char directory[60]; /* on the host, for downloads */
  char why_not[300];  /* nothing can be opened on this machine */
  int opened;
} crowd;

static unsigned dice(crowd *self, unsigned sides)
{
  self->seed = self->seed * 1103515245 + 12345;
  return (self->seed >> 16 & 0x7fff) % sides;
}

static ticket *ticket_new(crowd *self)
{
  assert_true(self->count < self->room);
  ticket *it = &self->tickets[self->count++];
  *it = (ticket){.crowd = self};
  return it;
}

/* It was refused: there is nothing to wait for, and the reason must be a good one. */
static void give_back(ticket *it, mcg_error *err)
{
  crowd *self = it->crowd;
  assert_non_null(err);
  if (err->code == MCG_INTERNAL || err->code == MCG_PROTOCOL || err->code == MCG_INVALID)
    fail_msg("refused: %s (%s)", err->message, mcg_code_name(err->code));
  mcg_error_free(err);
  assert_ptr_equal(it, &self->tickets[self->count - 1]);
  self->count--;
}

static void complete(ticket *it, mcg_error *error)
{
  crowd *self = it->crowd;
  assert_null(mcg_fiber_current(self->engine));
  assert_false(self->closed);
  it->completions++;
  it->op = NULL;
  it->exec = NULL;
  if (!error) return;
  if (error->code == MCG_INTERNAL || error->code == MCG_PROTOCOL)
    fail_msg("%s (%s)", error->message, mcg_code_name(error->code));
  mcg_error_free(error);
}

static void done(void *data, mcg_error *error)
{
  complete(data, error);
}

static void text_done(void *data, const char *json, mcg_error *error)
{
  assert_true((json != NULL) == (error == NULL));
  complete(data, error);
}

static void bytes_done(void *data, const void *bytes, size_t len, mcg_error *error)
{
  (void)bytes;
  (void)len;
  complete(data, error);
}

static bool on_output(void *data, int stream, const void *bytes, size_t len)
{
  ticket *it = data;
  assert_true(stream == 1 || stream == 2);
  assert_true(bytes && len > 0);
  assert_int_equal(it->completions, 0);
  return dice(it->crowd, 10) != 0; /* some are paused for ever */
}

static void on_done(void *data, const mcg_result *result, mcg_error *error)
{
  assert_true((result != NULL) == (error == NULL));
  complete(data, error);
}

static void start_command(crowd *self, mcg_session *session)
{
  static const char *const commands[] = {
      "sleep 100",       "yes | head -c 3000000",
      "exec cat",        "(setsid sleep 100 &) ; sleep 0.01",
      "no-such-program", "trap '' TERM HUP INT; while :; do sleep 0.01; done",
      "exit 3",
  };
  static const mcg_exec_events events = {.on_output = on_output, .on_done = on_done};
  ticket *it = ticket_new(self);
  mcg_error *err = NULL;
  mcg_exec_spec spec = {.size = sizeof spec,
                        .shell = commands[dice(self, sizeof commands / sizeof *commands)],
                        .stdin_mode = (mcg_stdin)dice(self, 3),
                        .stdin_data = "some text",
                        .stdin_len = 9,
                        .timeout_ms = dice(self, 4) ? 0 : 1 + dice(self, 60),
                        .pty = dice(self, 5) == 0};
  if (dice(self, 8) == 0) {
    spec.detach = true;
    spec.pty = false;
    spec.stdin_mode = MCG_STDIN_EMPTY;
  }
  if (mcg_exec_start(session, &spec, &events, it, &it->exec, &err) < 0) {
    give_back(it, err);
    return;
  }
  if (spec.stdin_mode != MCG_STDIN_PIPE) return;
  char bytes[5000];
  memset(bytes, 'x', sizeof bytes);
  ticket *written = ticket_new(self);
  if (mcg_exec_write(it->exec, bytes, sizeof bytes, done, written, &err) < 0)
    give_back(written, err);
}

static bool sink(void *data, const void *bytes, size_t len)
{
  (void)bytes;
  ticket *it = data;
  assert_int_equal(it->completions, 0);
  assert_true(len > 0);
  return dice(it->crowd, 3) != 0;
}

static long source(void *data, void *buffer, size_t cap)
{
  ticket *it = data;
  assert_int_equal(it->completions, 0);
  memset(buffer, 0, cap); /* the end of an archive, again and again */
  return dice(it->crowd, 5) == 0 ? (long)dice(it->crowd, 2) - 1 : (long)cap;
}

static void start_other(crowd *self, mcg_session *session)
{
  ticket *it = ticket_new(self);
  mcg_error *err = NULL;
  int rc = 0;
  switch (dice(self, 13)) {
  case 0: rc = mcg_file_write(session, "a/b", "text", 4, 0644, done, it, &err); break;
  case 1: rc = mcg_file_read(session, "a/b", 100, bytes_done, it, &err); break;
  case 2: rc = mcg_session_stats(session, text_done, it, &err); break;
  case 3: rc = mcg_session_processes(session, text_done, it, &err); break;
  case 4: rc = mcg_file_remove(session, "a", done, it, &err); break;
  case 5: rc = mcg_session_close(session, done, it, &err); break;
  case 6: rc = mcg_workspace_persist(session, sink, done, it, &it->op, &err); break;
  case 7: rc = mcg_workspace_restore(session, source, done, it, &it->op, &err); break;
  case 8: rc = mcg_file_upload(session, "/etc/passwd", "up", done, it, &it->op, &err); break;
  case 9: rc = mcg_file_download(session, ".", self->directory, done, it, &it->op, &err); break;
  case 10: rc = mcg_doctor(self->engine, text_done, it, &err); break;
  case 11: rc = mcg_reap(self->engine, true, text_done, it, &err); break;
  default: rc = mcg_sleep(self->engine, dice(self, 50), done, it, &it->op, &err); break;
  }
  if (rc < 0) give_back(it, err);
}

static void on_open(void *data, mcg_session *session, mcg_error *error)
{
  ticket *it = data;
  crowd *self = it->crowd;
  assert_true((session != NULL) == (error == NULL));
  if (error && (error->code == MCG_UNAUTHORIZED || error->code == MCG_UNENFORCEABLE))
    snprintf(self->why_not, sizeof self->why_not, "%s", error->message);
  complete(it, error);
  if (!session) return;
  self->opened++;
  it->session = session;
  for (int i = 0; i < COMMANDS; i++) start_command(self, session);
  for (int i = 0; i < COMMANDS; i++) start_other(self, session);
}

static void cancel_some(crowd *self)
{
  ticket *it = &self->tickets[dice(self, (unsigned)self->count)];
  if (it->op)
    mcg_op_cancel(it->op);
  else if (it->exec && dice(self, 2))
    mcg_exec_cancel(it->exec);
  else if (it->exec)
    mcg_exec_close_stdin(it->exec);
}

static void on_closed(void *data, mcg_error *error)
{
  crowd *self = data;
  if (error) fail_msg("close: %s", error->message);
  assert_false(self->closed);
  self->closed = true;
}

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *place)
{
  (void)about;
  (void)type;
  (void)place;
  return remove(path);
}

static void remove_tree(const char *path)
{
  assert_int_equal(nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static int descriptors(void)
{
  int count = 0;
  DIR *dir = opendir("/proc/self/fd");
  while (readdir(dir)) count++;
  closedir(dir);
  return count;
}

static int64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

static void open_all(crowd *self)
{
  mcg_error *err = NULL;
  for (int i = 0; i < SESSIONS; i++) {
    ticket *it = ticket_new(self);
    if (mcg_session_open(self->engine, self->config, strlen(self->config), on_open, it, &it->op,
                         &err) < 0)
      give_back(it, err);
  }
}

static void check_all(crowd *self)
{
  for (size_t i = 0; i < self->count; i++) {
    assert_int_equal(self->tickets[i].completions, 1);
    if (self->tickets[i].session) mcg_session_unref(self->tickets[i].session);
  }
}

/* Lives for `life_ms`, with somebody canceling here and there, and then the engine is closed. */
static crowd one_round(const char *config, unsigned seed, int64_t life_ms)
{
  uv_loop_t loop;
  assert_int_equal(uv_loop_init(&loop), 0);
  mcg_engine_options options = {.size = sizeof options, .loop = &loop};
  crowd self = {.engine = engine_with(&options), .config = config, .seed = seed};
  self.room = SESSIONS * (1 + COMMANDS * 3);
  self.tickets = calloc(self.room, sizeof *self.tickets);
  strcpy(self.directory, "/tmp/mooncage-close-XXXXXX");
  assert_non_null(mkdtemp(self.directory));
  open_all(&self);
  mcg_error *err = NULL;
  for (int64_t end = now_ms() + life_ms; now_ms() < end;) {
    struct pollfd ready = {.fd = mcg_engine_fd(self.engine), .events = POLLIN};
    int timeout = mcg_engine_timeout(self.engine);
    poll(&ready, 1, timeout < 0 || timeout > 2 ? 2 : timeout);
    mcg_engine_turn(self.engine);
    if (dice(&self, 30) == 0) cancel_some(&self);
  }
  assert_int_equal(mcg_engine_close(self.engine, on_closed, &self, &err), 0);
  turn_until(self.engine, &self.closed);
  check_all(&self);
  size_t stack = mcg_fibers_high_water(self.engine);
  print_message("deepest stack: %zu KiB\n", stack >> 10);
  assert_true(stack > 0 && stack <= 128 << 10); /* of 256, of 512 under AddressSanitizer */
  remove_tree(self.directory);
  mcg_engine_free(self.engine);
  assert_int_equal(uv_loop_close(&loop), 0);
  assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1); /* no child of ours, dead or alive */
  assert_int_equal(errno, ECHILD);
  free(self.tickets);
  return self;
}

static void rounds(const char *config)
{
  unsigned seed = (unsigned)now_ms();
  int before = 0, opened = 0;
  for (unsigned i = 0; i < ROUNDS; i++) {
    print_message("round %u, seed %u\n", i, seed + i);
    crowd it = one_round(config, seed + i, (int64_t)i * i * 5);
    opened += it.opened;
    if (!opened && *it.why_not) {
      print_message("skipped: %s\n", it.why_not);
      skip();
    }
    if (i == 3) before = descriptors(); /* what is kept for the process is there now */
  }
  assert_int_equal(descriptors(), before);
  assert_true(opened > 0);
}

static void on_jails(void **state)
{
  (void)state;
  rounds("{\"backend\":{\"id\":\"jail\"}}");
}

static void on_framed_jails(void **state)
{
  (void)state;
  rounds("{\"backend\":{\"id\":\"jail\",\"options\":{\"carrier\":\"framed\"}}}");
}

static void on_subprocesses(void **state)
{
  (void)state;
  rounds("{\"backend\":{\"id\":\"subprocess\"}}");
}

/* ---- two engines ----------------------------------------------------------------------------- */

typedef struct guest {
  mcg_engine *engine;
  mcg_session *session;
  mcg_code code; /* of the open, when it failed */
  bool done;
  int exit_code;
} guest;

static void guest_open(void *data, mcg_session *session, mcg_error *error)
{
  guest *self = data;
  self->session = session;
  if (error) self->code = code_of(&error);
  self->done = true;
}

static void guest_done(void *data, const mcg_result *result, mcg_error *error)
{
  guest *self = data;
  if (error) fail_msg("%s", error->message);
  self->exit_code = result->exit_code;
  self->done = true;
}

static void guest_start(guest *self, const char *command)
{
  static const mcg_exec_events events = {.on_done = guest_done};
  const mcg_exec_spec spec = {.size = sizeof spec, .shell = command};
  mcg_error *err = NULL;
  self->done = false;
  assert_int_equal(mcg_exec_start(self->session, &spec, &events, self, NULL, &err), 0);
}

/* The same process, the same loop, the same moment; and one's end is not the other's. */
static void two_engines_with_jails(void **state)
{
  (void)state;
  uv_loop_t loop;
  assert_int_equal(uv_loop_init(&loop), 0);
  mcg_engine_options options = {.size = sizeof options, .loop = &loop};
  guest one = {.engine = engine_with(&options)}, two = {.engine = engine_with(&options)};
  guest *const both[] = {&one, &two};
  static const char config[] = "{\"backend\":{\"id\":\"jail\"}}";
  mcg_error *err = NULL;
  for (int i = 0; i < 2; i++)
    assert_int_equal(
        mcg_session_open(both[i]->engine, config, strlen(config), guest_open, both[i], NULL, &err),
        0);
  for (int i = 0; i < 2; i++) turn_until(both[i]->engine, &both[i]->done);
  bool opened = one.session && two.session;
  if (opened) {
    guest_start(&two, "sleep 0.3; exit 5");
    guest_start(&one, "exit 4");
    turn_until(one.engine, &one.done);
    assert_int_equal(one.exit_code, 4);
  } else {
    assert_true(one.code == MCG_UNAUTHORIZED);
  }
  mcg_session_unref(one.session);
  engine_end(one.engine);
  if (opened) {
    turn_until(two.engine, &two.done);
    assert_int_equal(two.exit_code, 5);
    guest_start(&two, "exit 6");
    turn_until(two.engine, &two.done);
    assert_int_equal(two.exit_code, 6);
  }
  mcg_session_unref(two.session);
  engine_end(two.engine);
  assert_int_equal(uv_loop_close(&loop), 0);
  if (!opened) {
    print_message("skipped: no jail can be made here\n");
    skip();
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(on_jails),
      cmocka_unit_test(on_framed_jails),
      cmocka_unit_test(on_subprocesses),
      cmocka_unit_test(two_engines_with_jails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
