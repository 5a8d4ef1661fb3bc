/* sandbox.c: libmooncage from a C host, one operation after another: each call turns the engine's loop
 * until its completion has come. */
#include "bench.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

static mcg_engine *engine;

static void fail_if(mcg_error *error, const char *what)
{
  if (!error) return;
  bench_die("%s: %s: %s (%s)", what, mcg_code_name(error->code), error->message,
            error->fix ? error->fix : "no fix known");
}

static void turn_until(const bool *done)
{
  while (!*done) uv_run(mcg_engine_loop(engine), UV_RUN_ONCE);
}

static void on_done(void *data, mcg_error *error)
{
  fail_if(error, "wait");
  *(bool *)data = true;
}

void sandbox_engine_open(void)
{
  mcg_engine_options options = {.size = sizeof options};
  mcg_error *error = NULL;
  if (mcg_engine_new(&options, &engine, &error) < 0) fail_if(error, "engine");
}

void sandbox_engine_close(void)
{
  bool done = false;
  mcg_error *error = NULL;
  if (mcg_engine_close(engine, on_done, &done, &error) < 0) fail_if(error, "close engine");
  turn_until(&done);
  mcg_engine_free(engine);
  engine = NULL;
}

void sandbox_wait(unsigned ms)
{
  bool done = false;
  mcg_error *error = NULL;
  if (mcg_sleep(engine, ms, on_done, &done, NULL, &error) < 0) fail_if(error, "sleep");
  turn_until(&done);
}

typedef struct opening {
  mcg_session *session;
  bool done;
} opening;

static void on_open(void *data, mcg_session *session, mcg_error *error)
{
  opening *o = data;
  fail_if(error, "open");
  o->session = session;
  o->done = true;
}

mcg_session *sandbox_open(const char *config)
{
  opening o = {0};
  mcg_error *error = NULL;
  if (mcg_session_open(engine, config, strlen(config), on_open, &o, NULL, &error) < 0)
    fail_if(error, "open");
  turn_until(&o.done);
  return o.session;
}

void sandbox_close(mcg_session *session)
{
  bool done = false;
  mcg_error *error = NULL;
  if (mcg_session_close(session, on_done, &done, &error) < 0) fail_if(error, "close");
  turn_until(&done);
  mcg_session_unref(session);
}

typedef struct running {
  uint64_t bytes;
  size_t kept;
  bool done;
} running;

static void on_exit_of(void *data, const mcg_result *result, mcg_error *error)
{
  running *r = data;
  fail_if(error, "exec");
  if (result->exit_code != 0)
    bench_die("the program in the sandbox exited with %d: %.*s", result->exit_code,
              (int)result->stderr_len, result->stderr_data ? result->stderr_data : "");
  r->bytes = result->stdout_bytes;
  r->kept = result->stdout_len;
  r->done = true;
}

static running run_in(mcg_session *session, const char *const *argv)
{
  running r = {0};
  mcg_exec_spec spec = {.size = sizeof spec, .argv = argv};
  mcg_exec_events events = {.on_done = on_exit_of};
  mcg_error *error = NULL;
  if (mcg_exec_start(session, &spec, &events, &r, NULL, &error) < 0) fail_if(error, "exec");
  turn_until(&r.done);
  return r;
}

double sandbox_warm(void *data)
{
  const sandbox_warm_job *job = data;
  double start = bench_now_ms();
  run_in(job->session, job->argv);
  return bench_now_ms() - start;
}

static double cold(const sandbox_job *job, bool until_reply)
{
  double start = bench_now_ms();
  mcg_session *session = sandbox_open(job->config);
  run_in(session, job->argv);
  double reply = bench_now_ms();
  sandbox_close(session);
  return (until_reply ? reply : bench_now_ms()) - start;
}

double sandbox_cold(void *data)
{
  return cold(data, false);
}

double sandbox_cold_reply(void *data)
{
  return cold(data, true);
}

double sandbox_stream(mcg_session *session, const char *const *argv, uint64_t bytes)
{
  double start = bench_now_ms();
  running r = run_in(session, argv);
  double took = bench_now_ms() - start;
  if (r.bytes != bytes)
    bench_die("stdout carried %llu bytes instead of %llu", (unsigned long long)r.bytes,
              (unsigned long long)bytes);
  return (double)r.bytes / 1e3 / took;
}

/* "mechanism: value" of every mechanism; a value that says it is not there ends the run. */
void sandbox_check_enforcement(mcg_session *session)
{
  static const char *const wanted[] = {"user_namespace",
                                       "mount_namespace",
                                       "pid_namespace",
                                       "network",
                                       "capabilities",
                                       "no_new_privs",
                                       "seccomp",
                                       "landlock",
                                       "rlimits",
                                       "proc",
                                       "memory",
                                       "pids",
                                       "cpu",
                                       "disk"};
  static const char *const absent[] = {"none", "off", "absent", "not", "degraded", "unavailable"};
  char *text = mcg_session_info(session);
  json_t *info = text ? json_loads(text, 0, NULL) : NULL;
  json_t *enforcement = info ? json_object_get(info, "enforcement") : NULL;
  if (!json_is_object(enforcement)) bench_die("the session does not say what is in force");
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    const char *said = json_string_value(json_object_get(enforcement, wanted[i]));
    bool none_is_good = strcmp(wanted[i], "capabilities") == 0;
    if (!said) bench_die("nothing is said about %s: a figure would not count", wanted[i]);
    for (size_t k = 0; k < sizeof absent / sizeof *absent && !none_is_good; k++)
      if (strncmp(said, absent[k], strlen(absent[k])) == 0)
        bench_die("%s is not in force (%s): a figure would not count", wanted[i], said);
  }
  const char *name;
  json_t *value;
  json_object_foreach(enforcement, name, value)
      printf("enforcement\t%s\t%s\n", name, json_is_string(value) ? json_string_value(value) : "");
  json_decref(info);
  free(text);
}
