/* host_poll.c: a C program with a poll() loop of its own, and no libuv in sight, feeds its stdin to a
 * command in a sandbox and shows what comes back as it comes.
 *
 *   cc host_poll.c $(pkg-config --cflags --libs mooncage) -o host_poll
 *   echo hello | ./host_poll 'tr a-z A-Z'
 *   ./host_poll 'pwd' '{"backend":{"id":"subprocess"}}' < /dev/null
 *
 * Three calls embed the engine: poll mcg_engine_fd for at most mcg_engine_timeout, then
 * mcg_engine_turn. The timeout is asked for anew each time: any call may have changed it. */
#include <mooncage/mooncage.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct host {
  mcg_engine *engine;
  mcg_session *session;
  mcg_exec *exec; /* while it runs */
  const char *command;
  bool reading; /* our stdin is wanted: the sandbox has taken what it was given */
  bool done;
  int status;
} host;

static void complain(host *self, const char *what, mcg_error *error)
{
  fprintf(stderr, "%s: %s (%s)\n", what, error->message, mcg_code_name(error->code));
  if (error->fix) fprintf(stderr, "  %s\n", error->fix);
  mcg_error_free(error);
  self->status = 1;
}

static void engine_closed(void *data, mcg_error *error)
{
  host *self = data;
  if (error) complain(self, "close the engine", error);
  self->done = true;
}

/* The engine closes what sessions there are. */
static void end(host *self)
{
  mcg_error *error = NULL;
  mcg_session_unref(self->session);
  if (mcg_engine_close(self->engine, engine_closed, self, &error) == 0) return;
  complain(self, "close the engine", error);
  self->done = true;
}

static void session_closed(void *data, mcg_error *error)
{
  host *self = data;
  if (error) complain(self, "close the sandbox", error);
  end(self);
}

static void close_session(host *self)
{
  mcg_error *error = NULL;
  if (mcg_session_close(self->session, session_closed, self, &error) == 0) return;
  complain(self, "close the sandbox", error);
  end(self);
}

static bool show(void *data, int stream, const void *bytes, size_t len)
{
  (void)data;
  fwrite(bytes, 1, len, stream == 2 ? stderr : stdout);
  return true; /* false would hold the command back until mcg_exec_resume */
}

static void command_done(void *data, const mcg_result *result, mcg_error *error)
{
  host *self = data;
  self->exec = NULL;
  self->reading = false;
  if (error)
    complain(self, "run the command", error);
  else if (result->exit_code != 0)
    self->status = result->signal ? 128 : result->exit_code;
  close_session(self);
}

static void session_open(void *data, mcg_session *session, mcg_error *error)
{
  host *self = data;
  if (error) {
    complain(self, "open a sandbox", error);
    end(self);
    return;
  }
  self->session = session;
  const mcg_exec_spec spec = {.size = sizeof spec,
                              .shell = self->command,
                              .stdin_mode = MCG_STDIN_PIPE,
                              .max_output = MCG_CAPTURE_NONE};
  const mcg_exec_events events = {.on_output = show, .on_done = command_done};
  if (mcg_exec_start(session, &spec, &events, self, &self->exec, &error) < 0) {
    complain(self, "start the command", error);
    close_session(self);
    return;
  }
  self->reading = true;
}

static void taken(void *data, mcg_error *error)
{
  host *self = data;
  self->reading = self->exec && !error; /* a command that no longer reads is no failure */
  mcg_error_free(error);
}

static void feed(host *self)
{
  char bytes[65536];
  mcg_error *error = NULL;
  ssize_t len = read(STDIN_FILENO, bytes, sizeof bytes);
  self->reading = false; /* until these are taken */
  if (len <= 0)
    mcg_exec_close_stdin(self->exec);
  else if (mcg_exec_write(self->exec, bytes, (size_t)len, taken, self, &error) < 0)
    mcg_error_free(error); /* it has closed its stdin: fine */
}

int main(int argc, char **argv)
{
  host self = {.command = argc > 1 ? argv[1] : "tr a-z A-Z"};
  const char *config = argc > 2 ? argv[2] : "{\"backend\":{\"id\":\"jail\"}}";
  mcg_error *error = NULL;
  if (mcg_engine_new(NULL, &self.engine, &error) < 0) {
    complain(&self, "start the engine", error);
    return self.status;
  }
  if (mcg_session_open(self.engine, config, strlen(config), session_open, &self, NULL, &error) <
      0) {
    complain(&self, "open a sandbox", error);
    end(&self);
  }
  while (!self.done) {
    struct pollfd fds[] = {
        {.fd = mcg_engine_fd(self.engine), .events = POLLIN},
        {.fd = self.reading ? STDIN_FILENO : -1, .events = POLLIN},
    };
    poll(fds, 2, mcg_engine_timeout(self.engine));
    if (self.reading && fds[1].revents) feed(&self);
    mcg_engine_turn(self.engine);
  }
  mcg_engine_free(self.engine);
  return self.status;
}
