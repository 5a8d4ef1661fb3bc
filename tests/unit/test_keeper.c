/* Sessions that stay: one engine keeps, another takes up, works, lets go, stops. Both are in this
 * process, on one loop, and know nothing of each other but the socket. */
#include "host.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SPEC(...) (&(mcg_exec_spec){.size = sizeof(mcg_exec_spec), __VA_ARGS__})

static mcg_engine *other;
static char directory[64], path[96];

static int both_up(void **state)
{
  engine_up(state);
  mcg_engine_options options = {.size = sizeof options, .loop = mcg_engine_loop(engine)};
  assert_int_equal(mcg_engine_new(&options, &other, NULL), 0);
  strcpy(directory, "/tmp/mcg-keeper-XXXXXX");
  assert_non_null(mkdtemp(directory));
  snprintf(path, sizeof path, "%s/run/it.sock", directory);
  return 0;
}

static int both_down(void **state)
{
  outcome out = {0};
  char inner[80];
  assert_int_equal(mcg_engine_close(other, take_done, &out, NULL), 0);
  until(&out);
  mcg_engine_free(other);
  unlink(path);
  snprintf(inner, sizeof inner, "%s/run", directory);
  rmdir(inner);
  assert_int_equal(rmdir(directory), 0);
  return engine_down(state);
}

static mcg_session *kept(const char *config)
{
  mcg_session *session = open_session(config);
  mcg_error *err = NULL;
  if (mcg_session_keep(session, path, &err) < 0) fail_msg("%s", err->message);
  return session;
}

static void resume(const char *state, outcome *out)
{
  *out = (outcome){0};
  mcg_error *err = NULL;
  if (mcg_session_resume(other, state, strlen(state), take_session, out, NULL, &err) < 0)
    out->error = err;
  else
    until(out);
}

static mcg_session *resumed(mcg_session *session)
{
  char *state = mcg_session_state(session, NULL);
  assert_non_null(state);
  outcome out;
  resume(state, &out);
  if (out.error) fail_msg("%s", out.error->message);
  free(state);
  return out.session;
}

static bool in_info(const mcg_session *session, const char *text)
{
  char *info = mcg_session_info(session);
  bool there = strstr(info, text) != NULL;
  free(info);
  return there;
}

static void works_from_outside(void **state)
{
  (void)state;
  mcg_session *session = kept("{\"environment\":{\"A\":\"kept\"},\"labels\":{\"x\":\"y\"}}"),
              *mine = resumed(session);
  outcome out;
  run_shell(session, "echo inside > file", &out);
  outcome_fini(&out);
  run_shell(mine, "cat file; echo $A; pwd", &out);
  assert_string_equal(out.result.stdout_data, "inside\nkept\n/workspace\n");
  outcome_fini(&out);
  assert_true(in_info(mine, "\"labels\":{\"x\":\"y\"}"));
  assert_true(in_info(mine, "seccomp"));
  close_session(mine);
  run_shell(session, "cat file", &out); /* it stays */
  assert_string_equal(out.result.stdout_data, "inside\n");
  outcome_fini(&out);
  close_session(session);
  struct stat about;
  assert_int_equal(stat(path, &about), -1);
}

/* What a client started ends with it, unless it was detached. */
static void ends_what_a_client_left(void **state)
{
  (void)state;
  mcg_session *session = kept("{}"), *mine = resumed(session);
  outcome running = {0}, out;
  assert_int_equal(
      mcg_exec_start(mine, SPEC(.shell = "exec sleep 7171"), &plain_events, &running, NULL, NULL),
      0);
  run_spec(mine, SPEC(.shell = "exec sleep 7272", .detach = true), &out);
  assert_null(out.error);
  outcome_fini(&out);
  close_session(mine);
  assert_int_equal(running.completions, 1);
  assert_int_equal(running.error->code, MCG_CANCELED);
  outcome_fini(&running);
  turn_for(300);
  run_shell(session, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -o 's[l]eep 7[0-9]*'", &out);
  assert_string_equal(out.result.stdout_data, "sleep 7272\n");
  outcome_fini(&out);
  close_session(session);
}

static void is_stopped_from_outside(void **state)
{
  (void)state;
  mcg_session *session = kept("{}"), *mine = resumed(session);
  outcome out = {0}, gone;
  assert_int_equal(mcg_session_stop(mine, take_done, &out, NULL), 0);
  until(&out);
  assert_null(out.error);
  assert_true(in_info(session, "\"state\":\"closed\""));
  mcg_session_unref(mine);
  char text[200];
  snprintf(text, sizeof text, "{\"version\":1,\"id\":\"x\",\"backend\":\"jail\",\"socket\":\"%s\"}",
           path);
  resume(text, &gone);
  assert_int_equal(gone.error->code, MCG_NOT_FOUND);
  outcome_fini(&gone);
  close_session(session);
}

/* The keeper goes while a client is there. */
static void tells_clients_of_its_end(void **state)
{
  (void)state;
  mcg_session *session = kept("{}"), *mine = resumed(session);
  outcome running = {0};
  assert_int_equal(
      mcg_exec_start(mine, SPEC(.shell = "sleep 60"), &plain_events, &running, NULL, NULL), 0);
  close_session(session);
  until(&running);
  assert_int_equal(running.error->code, MCG_UNAVAILABLE);
  outcome_fini(&running);
  close_session(mine);
}

static void refuses_what_is_no_keeper(void **state)
{
  (void)state;
  static const char *const texts[] = {"", "{}", "{\"version\":9,\"socket\":\"/x\"}", "[]",
                                      "{\"version\":1}"};
  outcome out;
  mcg_error *err = NULL;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    resume(texts[i], &out);
    assert_int_equal(out.error->code, MCG_INVALID);
    outcome_fini(&out);
  }
  mcg_session *session = open_session("{}");
  assert_null(mcg_session_state(session, &err));
  assert_int_equal(err->code, MCG_UNSUPPORTED);
  mcg_error_free(err);
  err = NULL;
  assert_int_equal(mcg_session_keep(session, "/tmp/it.sock", &err),
                   -1); /* a directory for everyone */
  assert_int_equal(err->code, MCG_UNAUTHORIZED);
  mcg_error_free(err);
  close_session(session);
}

/* Garbage on the keeper's socket cuts that client off, and only that one. */
static void survives_garbage(void **state)
{
  (void)state;
  static const char *const garbage[] = {
      "", "x", "{}", "{\"version\":2}", "{\"id\":1,\"op\":\"stop\"}", "[[[[[[[[[["};
  mcg_session *session = kept("{}");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, path);
  for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_true(send(fd, garbage[i], strlen(garbage[i]), MSG_NOSIGNAL) >= 0);
    if (!*garbage[i]) shutdown(fd, SHUT_WR);
    char answer[16];
    ssize_t len = -1;
    for (int turns = 0; turns < 100 && len < 0; turns++) {
      turn_for(2);
      len = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
    }
    assert_int_equal(len, 0);
    close(fd);
  }
  close_session(resumed(session));
  close_session(session);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(works_from_outside),        cmocka_unit_test(ends_what_a_client_left),
      cmocka_unit_test(is_stopped_from_outside),   cmocka_unit_test(tells_clients_of_its_end),
      cmocka_unit_test(refuses_what_is_no_keeper), cmocka_unit_test(survives_garbage),
  };
  return cmocka_run_group_tests(tests, both_up, both_down);
}
