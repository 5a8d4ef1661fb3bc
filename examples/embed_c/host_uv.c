/* host_uv.c: a C program that has a libuv loop of its own runs a command in a sandbox on it, and goes
 * on with its own work meanwhile.
 *
 *   cc host_uv.c $(pkg-config --cflags --libs mooncage libuv) -o host_uv
 *   ./host_uv                              a command of ours
 *   ./host_uv 'id; cat /etc/shadow'        yours
 *   ./host_uv 'pwd' '{"backend":{"id":"subprocess"}}'      and a sandbox of your own making */
#include <mooncage/mooncage.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

typedef struct host {
  uv_loop_t loop;
  uv_timer_t work; /* stands for whatever else the program does */
  unsigned worked;
  mcg_engine *engine;
  mcg_session *session;
  const char *command;
  int status;
} host;

/* Says what went wrong and what to do about it; the error is ours to free. */
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
  mcg_engine_free(self->engine);
}

/* From here on the loop runs out of things to do, and uv_run returns. */
static void end(host *self)
{
  mcg_error *error = NULL;
  uv_close((uv_handle_t *)&self->work, NULL);
  mcg_session_unref(self->session);
  if (mcg_engine_close(self->engine, engine_closed, self, &error) < 0)
    complain(self, "close the engine", error);
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

static void command_done(void *data, const mcg_result *result, mcg_error *error)
{
  host *self = data;
  if (error) {
    complain(self, "run the command", error);
  } else {
    fwrite(result->stdout_data, 1, result->stdout_len, stdout);
    fwrite(result->stderr_data, 1, result->stderr_len, stderr);
    if (result->signal)
      printf("ended by %s", result->signal);
    else
      printf("exit code %d", result->exit_code);
    printf(" after %.1f ms; meanwhile this program did its own work %s\n",
           result->duration_s * 1000, self->worked ? "too" : "not at all");
  }
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
  const mcg_exec_spec spec = {.size = sizeof spec, .shell = self->command, .timeout_ms = 10000};
  const mcg_exec_events events = {.on_done = command_done};
  if (mcg_exec_start(session, &spec, &events, self, NULL, &error) == 0) return;
  complain(self, "start the command", error);
  close_session(self);
}

static void does_its_own_work(uv_timer_t *timer)
{
  ((host *)timer->data)->worked++;
}

int main(int argc, char **argv)
{
  host self = {.command = argc > 1 ? argv[1] : "echo hello from $(hostname); sleep 0.1"};
  const char *config = argc > 2 ? argv[2] : "{\"backend\":{\"id\":\"jail\"}}";
  mcg_error *error = NULL;

  uv_loop_init(&self.loop);
  uv_timer_init(&self.loop, &self.work);
  self.work.data = &self;
  uv_timer_start(&self.work, does_its_own_work, 1, 1);

  const mcg_engine_options options = {.size = sizeof options, .loop = &self.loop};
  if (mcg_engine_new(&options, &self.engine, &error) < 0) {
    complain(&self, "start the engine", error);
    return self.status;
  }
  if (mcg_session_open(self.engine, config, strlen(config), session_open, &self, NULL, &error) <
      0) {
    complain(&self, "open a sandbox", error);
    end(&self);
  }
  uv_run(&self.loop, UV_RUN_DEFAULT);
  if (uv_loop_close(&self.loop) != 0) {
    fprintf(stderr, "the engine left something in the loop\n");
    return 1;
  }
  return self.status;
}
