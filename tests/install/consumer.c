/* consumer: a host that was built against an installed Mooncage: opens an engine, runs one command in a
 * jail, closes. Prints what the command wrote. */
#include <mooncage/mooncage.h>
#include <stdio.h>
#include <string.h>

typedef struct state {
  mcg_engine *engine;
  mcg_session *session;
  bool over;
  int status;
} state;

static void on_closed(void *data, mcg_error *error)
{
  state *s = data;
  mcg_error_free(error);
  s->over = true;
}

static void end(state *s, int status, mcg_error *error)
{
  if (error) fprintf(stderr, "%s: %s\n", mcg_code_name(error->code), error->message);
  mcg_error_free(error);
  s->status = status;
  error = NULL;
  if (mcg_engine_close(s->engine, on_closed, s, &error) < 0) s->over = true;
  mcg_error_free(error);
}

static void on_result(void *data, const mcg_result *result, mcg_error *error)
{
  state *s = data;
  if (error) return end(s, 1, error);
  fwrite(result->stdout_data, 1, result->stdout_len, stdout);
  mcg_session_unref(s->session);
  end(s, result->exit_code, NULL);
}

static void on_open(void *data, mcg_session *session, mcg_error *error)
{
  state *s = data;
  if (error) return end(s, 1, error);
  s->session = session;
  mcg_exec_spec spec = {.size = sizeof spec, .shell = "echo hello | tr a-z A-Z"};
  mcg_exec_events events = {.on_done = on_result};
  mcg_error *refused = NULL;
  if (mcg_exec_start(session, &spec, &events, s, NULL, &refused) < 0) end(s, 1, refused);
}

int main(void)
{
  static const char config[] = "{\"backend\":{\"id\":\"jail\"}}";
  state s = {0};
  mcg_error *error = NULL;
  if (mcg_engine_new(NULL, &s.engine, &error) < 0) {
    fprintf(stderr, "%s\n", error->message);
    return 1;
  }
  if (mcg_session_open(s.engine, config, strlen(config), on_open, &s, NULL, &error) < 0)
    end(&s, 1, error);
  while (!s.over) mcg_engine_turn(s.engine);
  mcg_engine_free(s.engine);
  return s.status;
}
