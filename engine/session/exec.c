/* exec.c: one command from start to result: a small state machine on a channel, and no fiber, since
 * a warm exec is to cost little more than the process itself.
 *
 * The end of a command is EXIT, then what is left in its pipes, then (where we killed it) GONE. */
#include "exec.h"
#include "audit/audit.h"
#include "decide/pipeline.h"
#include "keeper.h"
#include "service/signals.h"
#include "stream/stream_parts.h"
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>

#define GRACE_MS 2000 /* how long the output of what was killed is waited for */
#define KILL_MS 10000 /* what a kill may take before the whole sandbox goes: machines are busy */

/* ---- memory ------------------------------------------------------------------------------- */

static void exec_unref(mcg_exec *exec)
{
  if (--exec->refs) return;
  mcg_capture_fini(&exec->captures[0]);
  mcg_capture_fini(&exec->captures[1]);
  mcg_error_free(exec->error);
  mcg_errand_free(exec->errand);
  free(exec->cwd);
  mcg_session_let_go(exec->session);
  free(exec);
}

static void exec_link(mcg_exec *exec)
{
  mcg_session *session = exec->session;
  exec->after = session->execs;
  if (exec->after) exec->after->before = exec;
  session->execs = exec;
}

static void exec_unlink(mcg_exec *exec)
{
  mcg_session *session = exec->session;
  if (exec->before)
    exec->before->after = exec->after;
  else
    session->execs = exec->after;
  if (exec->after) exec->after->before = exec->before;
  if (!session->execs) mcg_wait_wake(session->engine, &session->execs_gone);
}

static void timer_closed(uv_handle_t *handle)
{
  exec_unref(handle->data);
}

/* ---- the end ------------------------------------------------------------------------------ */

/* Each write completes before the command does, whatever became of it. */
static void finish_writes(mcg_exec *exec)
{
  while (exec->writes) {
    mcg_exec_pending *pending = exec->writes;
    exec->writes = pending->after;
    if (exec->writes) exec->writes->before = NULL;
    mcg_error *error = NULL;
    mcg_fail(&error, MCG_UNAVAILABLE, NULL, "the command has ended");
    if (pending->done)
      pending->done(pending->data, error);
    else
      mcg_error_free(error);
    free(pending);
  }
}

static void fill_stream(mcg_exec *exec, int i, const char **bytes, size_t *len, uint64_t *total,
                        bool *cut)
{
  mcg_capture *capture = &exec->captures[i];
  if (!mcg_capture_finish(capture, bytes, len)) {
    *bytes = "";
    *len = 0;
  }
  *total = capture->total;
  *cut = mcg_capture_truncated(capture);
}

static void fill_result(mcg_exec *exec, mcg_result *result)
{
  const mcg_exit *end = &exec->exit;
  *result = (mcg_result){
      .exit_code = end->signo ? -1 : end->code,
      .signal = end->signo ? mcg_signal_name(end->signo, exec->signal_room) : NULL,
      .timed_out = exec->timed_out,
      .oom_killed = exec->oom_killed,
      .not_found =
          !end->signo && end->code == 127 && (end->error == ENOENT || end->error == ENOTDIR),
      .detached = exec->detached,
      .pid = exec->pid,
      .duration_s = (double)(exec->ended_ns - exec->began_ns) / 1e9,
      .cpu_s = (double)end->cpu_us / 1e6,
      .max_rss_mb = (double)end->maxrss_kb / 1024,
  };
  bool started = end->signo || !end->error || (end->code != 126 && end->code != 127);
  if (!started && !exec->timed_out) result->start_error = strerror(end->error);
  if (exec->detached) result->exit_code = -1;
  if (exec->timed_out) { /* whatever its last breath was */
    result->exit_code = -1;
    result->signal = "SIGKILL";
  }
  fill_stream(exec, 0, &result->stdout_data, &result->stdout_len, &result->stdout_bytes,
              &result->stdout_truncated);
  fill_stream(exec, 1, &result->stderr_data, &result->stderr_len, &result->stderr_bytes,
              &result->stderr_truncated);
}

static void count_usage(mcg_exec *exec)
{
  mcg_session *session = exec->session;
  session->exec_ns += exec->ended_ns - exec->began_ns;
  session->cpu_us += exec->exit.cpu_us;
  if (exec->exit.maxrss_kb > session->maxrss_kb) session->maxrss_kb = exec->exit.maxrss_kb;
  if (session->remote)
    mcg_remote_used(session, 0, exec->ended_ns - exec->began_ns, exec->exit.cpu_us,
                    exec->exit.maxrss_kb);
}

const mcg_result *mcg_exec_outcome(mcg_exec *exec, mcg_result *room, const mcg_error **error)
{
  *error = exec->error;
  if (exec->error) return NULL;
  fill_result(exec, room);
  return room;
}

void mcg_exec_tell(mcg_exec *exec)
{
  mcg_result result;
  mcg_error *error = mcg_steal_pointer(&exec->error);
  if (!error) fill_result(exec, &result);
  mcg_error_set_backend(error, exec->session->config->backend->id);
  mcg_audit_redact(exec->session->engine, error);
  exec_unlink(exec);
  exec->events.on_done(exec->data, error ? NULL : &result, error);
  exec_unref(exec);
}

/* From the loop, no fiber current. The one place where a command ends. */
static void exec_finish(mcg_exec *exec)
{
  if (exec->finished) return;
  exec->finished = true;
  exec->ended_ns = uv_hrtime();
  if (exec->has_timer) uv_close((uv_handle_t *)&exec->timer, timer_closed);
  exec->has_timer = false;
  if (exec->channel) mcg_channel_tell_writes(exec->channel);
  finish_writes(exec);
  if (exec->channel) {
    mcg_channel_release(exec->channel);
    count_usage(exec);
  }
  if (!exec->error && exec->no_memory)
    mcg_fail(&exec->error, MCG_NOMEM, "ask for less with max_output",
             "no memory for the command's output");
  if (exec->errand)
    mcg_errand_end(exec); /* tells it when the last steps are done */
  else
    mcg_exec_tell(exec);
}

void mcg_exec_fail(mcg_exec *exec, mcg_error *take_error)
{
  if (exec->error)
    mcg_error_free(take_error); /* it was canceled: that is why */
  else
    exec->error = take_error;
  exec_finish(exec);
}

static void finish_later_run(mcg_later *later)
{
  mcg_exec *exec = (mcg_exec *)((char *)later - offsetof(mcg_exec, later));
  exec_finish(exec);
  exec_unref(exec);
}

/* Completes it, with `error` (taken) unless NULL, soon, not now: the caller may be anywhere. */
static void finish_later(mcg_exec *exec, mcg_error *error)
{
  if (exec->finished || exec->finishing) {
    mcg_error_free(error);
    return;
  }
  exec->finishing = true;
  if (error) {
    mcg_error_free(exec->error);
    exec->error = error;
  }
  exec->later.run = finish_later_run;
  exec->refs++;
  mcg_streams_later(exec->session->engine->streams, &exec->later);
}

void mcg_execs_abort(mcg_session *session, const mcg_error *error)
{
  for (mcg_exec *exec = session->execs; exec; exec = exec->after) {
    if (mcg_errand_waits(exec)) /* it has not begun: its fiber ends it */
      mcg_errand_abort(exec, error);
    else if (!exec->doomed)
      finish_later(exec, mcg_error_copy(error));
  }
}

void mcg_execs_end(mcg_session *session)
{
  for (mcg_exec *exec = session->execs; exec; exec = exec->after)
    if (exec->doomed) finish_later(exec, NULL);
}

/* ---- was it the kernel, for memory? ------------------------------------------------------- */

static int oom_run(void *arg, mcg_error **err)
{
  mcg_exec *exec = arg;
  json_t *figures = json_object();
  if (!figures) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for figures");
  int rc = mcg_session_figures(exec->session, figures, err);
  uint64_t kills = (uint64_t)json_integer_value(json_object_get(figures, "oom_kills"));
  json_decref(figures);
  if (!rc && kills > exec->session->oom_kills) {
    exec->session->oom_kills = kills;
    exec->oom_killed = true;
  }
  return rc;
}

static void oom_complete(void *arg, mcg_error *error)
{
  mcg_exec *exec = arg;
  mcg_error_free(error); /* unknown is not a reason to fail the command */
  exec_finish(exec);
  exec_unref(exec);
}

static bool may_be_oom(const mcg_exec *exec)
{
  const mcg_exit *end = &exec->exit;
  return !exec->killed && (end->signo == SIGKILL || (!end->signo && end->code == 128 + SIGKILL)) &&
         exec->session->config->backend->stats;
}

/* Goes on when everything that this end needs is there. */
static void exec_settle(mcg_exec *exec)
{
  if (!exec->exited || !exec->drained || (exec->killed && !exec->gone) || exec->finishing ||
      exec->finished)
    return;
  exec->finishing = true;
  if (may_be_oom(exec)) {
    auto_error mcg_error *ignored = NULL;
    exec->refs++;
    if (mcg_op_start_teardown(exec->session->engine, oom_run, oom_complete, exec, NULL, &ignored) ==
        0)
      return;
    exec->refs--;
  }
  exec_finish(exec);
}

/* ---- killing ------------------------------------------------------------------------------ */

static void kill_timed_out(uv_timer_t *timer)
{
  mcg_exec *exec = timer->data;
  if (exec->exited && exec->gone) { /* its output is what nobody takes */
    finish_later(exec, NULL);
    return;
  }
  if (!exec->overdue) {
    exec->overdue = true;
    uv_timer_start(timer, kill_timed_out, KILL_MS - GRACE_MS, 0);
    return;
  }
  exec->doomed = true; /* it completes as it would have, once nothing of it can live */
  mcg_error *reason = NULL;
  mcg_fail(&reason, MCG_UNAVAILABLE, "open a new session",
           "the sandbox did not end a command within %d ms, and was destroyed", KILL_MS);
  mcg_session_end(exec->session, reason);
}

static void exec_kill(mcg_exec *exec)
{
  if (exec->killed || exec->finished || exec->finishing) return;
  exec->killed = true;
  mcg_channel_kill(exec->channel);
  if (exec->has_timer) {
    uv_update_time(exec->session->engine->loop);
    uv_timer_start(&exec->timer, kill_timed_out, GRACE_MS, 0);
  }
}

static void deadline_reached(uv_timer_t *timer)
{
  mcg_exec *exec = timer->data;
  exec->timed_out = true;
  exec_kill(exec);
}

void mcg_exec_cancel(mcg_exec *exec)
{
  if (exec->killed || exec->finished || exec->finishing) return;
  auto_error mcg_error *canceled = NULL;
  mcg_fail(&canceled, MCG_CANCELED, NULL, "the command was canceled");
  if (mcg_errand_waits(exec)) {
    mcg_errand_abort(exec, canceled);
    return;
  }
  if (!exec->error) exec->error = mcg_steal_pointer(&canceled);
  exec_kill(exec);
}

/* ---- what the channel tells --------------------------------------------------------------- */

static void on_started(void *data, int pid)
{
  mcg_exec *exec = data;
  exec->pid = pid;
  if (exec->events.on_started && !exec->finishing) exec->events.on_started(exec->data, pid);
  if (!exec->detached || exec->killed || exec->finishing || exec->finished) return;
  exec->finishing = true;
  exec_finish(exec);
}

static void too_much_output(mcg_exec *exec, uint64_t limit)
{
  if (exec->killed) return;
  mcg_fail(&exec->error, MCG_QUOTA, "raise limits.output_mb",
           "the command wrote more than its limit of %.3g MiB", (double)limit / (1 << 20));
  exec_kill(exec);
}

static bool on_data(void *data, int stream, const void *bytes, size_t len)
{
  mcg_exec *exec = data;
  uint64_t limit = exec->session->config->plan.limits.output_bytes.value;
  if (exec->error || exec->finishing) return true; /* it is being ended: nobody wants this */
  if (!mcg_capture_add(&exec->captures[stream - 1], bytes, len)) exec->no_memory = true;
  if (limit && exec->captures[0].total + exec->captures[1].total > limit) {
    too_much_output(exec, limit);
    return true;
  }
  return !exec->events.on_output || exec->events.on_output(exec->data, stream, bytes, len);
}

static void on_drained(void *data)
{
  mcg_exec *exec = data;
  exec->drained = true;
  exec_settle(exec);
}

/* A directory or user that is not there is the caller's mistake, not the program's answer. */
static mcg_error *setup_failure(const char *cwd, int number, const char *step, const char *text)
{
  mcg_error *error = NULL;
  bool directory = strcmp(step, "cwd") == 0 || strcmp(step, "chdir") == 0;
  if (directory && (number == ENOENT || number == ENOTDIR))
    mcg_fail(&error, MCG_NOT_FOUND, "make it first, or name another cwd",
             "working directory %s: %s", cwd ? cwd : "of the session", strerror(number));
  else if (strcmp(step, "user") == 0)
    mcg_fail(&error, number == ENOENT ? MCG_NOT_FOUND : MCG_UNSUPPORTED,
             "leave `user` out, or use the jail's profile \"packages\"", "user: %s", text);
  else if (number == EAGAIN)
    mcg_fail(&error, MCG_QUOTA, "raise limits.pid_limit, or end commands that run",
             "the sandbox has no processes left for another command");
  else if (number == EMFILE || number == ENFILE)
    mcg_fail(&error, MCG_QUOTA,
             "raise the limit of this process on open files (ulimit -n), or run fewer "
             "commands at once",
             "no descriptors left for another command (%s)", step);
  else if (number == ENOMEM)
    mcg_fail(&error, MCG_QUOTA, "raise limits.memory_mb",
             "the sandbox has no memory for another command");
  else
    mcg_fail_errno(&error, number, NULL, "start the command: %s: %s", step, text);
  return error;
}

static void on_exit_status(void *data, const mcg_exit *status)
{
  mcg_exec *exec = data;
  exec->exited = true;
  exec->exit = *status;
  exec->exit.step = exec->exit.text = NULL;
  if (status->error && status->step && strcmp(status->step, "exec") != 0 && !exec->error)
    exec->error = setup_failure(exec->cwd, status->error, status->step,
                                status->text ? status->text : strerror(status->error));
  mcg_channel_drain(exec->channel, on_drained, exec);
}

static void on_refused(void *data, int number, const char *step, const char *text)
{
  mcg_exec *exec = data;
  if (!exec->error) exec->error = setup_failure(exec->cwd, number, step, text);
  exec->exited = exec->drained = exec->gone = true;
  exec_settle(exec);
}

static void on_gone(void *data)
{
  mcg_exec *exec = data;
  exec->gone = true;
  exec_settle(exec);
}

static void on_lost(void *data, const mcg_error *error)
{
  mcg_exec *exec = data;
  if (!exec->doomed) finish_later(exec, mcg_error_copy(error));
}

static const mcg_channel_events channel_events = {
    .on_started = on_started,
    .on_data = on_data,
    .on_exit = on_exit_status,
    .on_refused = on_refused,
    .on_gone = on_gone,
    .on_lost = on_lost,
};

/* ---- start -------------------------------------------------------------------------------- */

static int arm_timer(mcg_exec *exec, int64_t timeout_ms)
{
  uint64_t limit = exec->session->config->plan.limits.exec_ms.value;
  uint64_t wait = timeout_ms > 0 ? (uint64_t)timeout_ms : 0;
  if (limit && (!wait || limit < wait)) wait = limit;
  if (exec->detached && timeout_ms <= 0) wait = 0;
  uv_loop_t *loop = exec->session->engine->loop;
  uv_timer_init(loop, &exec->timer);
  exec->timer.data = exec;
  exec->has_timer = true;
  exec->refs++;
  if (!wait) return 0;
  uv_update_time(loop);
  return uv_timer_start(&exec->timer, deadline_reached, wait, 0);
}

static int feed_stdin(mcg_exec *exec, const mcg_exec_spec *spec, mcg_error **err)
{
  if (spec->stdin_mode == MCG_STDIN_PIPE) return 0;
  if (spec->stdin_mode == MCG_STDIN_DATA && spec->stdin_len &&
      mcg_channel_write(exec->channel, spec->stdin_data, spec->stdin_len, NULL, NULL, err) < 0)
    return -1;
  mcg_channel_close_stdin(exec->channel);
  return 0;
}

static uint32_t flags_of(const mcg_exec_spec *spec)
{
  uint32_t flags = 0;
  if (spec->pty) flags |= MCG_EXEC_PTY;
  if (spec->detach) flags |= MCG_EXEC_DETACH | MCG_EXEC_NO_STDIN;
  if (!spec->pty && (spec->stdin_mode == MCG_STDIN_EMPTY ||
                     (spec->stdin_mode == MCG_STDIN_DATA && !spec->stdin_len)))
    flags |= MCG_EXEC_NO_STDIN;
  return flags;
}

static mcg_exec *exec_new(mcg_session *session, const mcg_exec_spec *spec,
                          const mcg_exec_events *events, void *data)
{
  mcg_exec *exec = calloc(1, sizeof *exec);
  if (!exec) return NULL;
  exec->session = session;
  exec->events = *events;
  exec->data = data;
  exec->refs = 1;
  exec->detached = spec->detach;
  if (spec->cwd) exec->cwd = strdup(spec->cwd);
  size_t keep = !spec->max_output                      ? MCG_CAPTURE_DEFAULT
                : spec->max_output == MCG_CAPTURE_NONE ? 0
                                                       : spec->max_output;
  mcg_capture_init(&exec->captures[0], keep);
  mcg_capture_init(&exec->captures[1], keep);
  mcg_session_hold(session);
  return exec;
}

int mcg_exec_launch(mcg_exec *exec, const mcg_exec_spec *spec, mcg_error **err)
{
  mcg_session *session = exec->session;
  mcg_wire body;
  mcg_wire_init(&body);
  exec->began_ns = uv_hrtime();
  int rc = mcg_exec_encode(session, spec, &body, err);
  if (!rc)
    rc = mcg_channel_open(session->stream, &body, flags_of(spec), &channel_events, exec,
                          &exec->channel, err);
  mcg_wire_fini(&body);
  if (rc == 0 && feed_stdin(exec, spec, err) < 0) {
    mcg_channel_kill(exec->channel);
    mcg_channel_release(exec->channel);
    exec->channel = NULL;
    rc = -1;
  }
  if (rc < 0) return -1;
  arm_timer(exec, spec->timeout_ms);
  session->exec_count++;
  if (session->remote) mcg_remote_used(session, 1, 0, 0, 0);
  return 0;
}

/* What can be refused at once is; without anybody to ask it starts at once, too. */
int mcg_exec_start(mcg_session *session, const mcg_exec_spec *given, const mcg_exec_events *events,
                   void *data, mcg_exec **out, mcg_error **err)
{
  mcg_exec_spec spec;
  if (mcg_session_alive(session, err) < 0 || mcg_exec_spec_read(given, &spec, err) < 0) return -1;
  mcg_exec *exec = exec_new(session, &spec, events, data);
  if (!exec) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a command");
  int rc = mcg_errand_needed(session) ? mcg_errand_start(exec, &spec, err)
                                      : mcg_exec_launch(exec, &spec, err);
  if (rc < 0) {
    exec_unref(exec);
    mcg_audit_redact(session->engine, *err);
    return -1;
  }
  exec_link(exec);
  if (out) *out = exec;
  return 0;
}

/* ---- while it runs ------------------------------------------------------------------------ */

static void write_taken(void *data, mcg_error *error)
{
  mcg_exec_pending *pending = data;
  mcg_exec *exec = pending->exec;
  if (pending->before)
    pending->before->after = pending->after;
  else
    exec->writes = pending->after;
  if (pending->after) pending->after->before = pending->before;
  if (pending->done)
    pending->done(pending->data, error);
  else
    mcg_error_free(error);
  free(pending);
}

int mcg_exec_write(mcg_exec *exec, const void *bytes, size_t len, mcg_done done, void *data,
                   mcg_error **err)
{
  if (exec->finished || exec->exited)
    return mcg_fail(err, MCG_UNAVAILABLE, NULL, "the command has ended");
  mcg_exec_pending *pending = malloc(sizeof *pending);
  if (!pending) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to write to a command");
  if (mcg_errand_waits(exec)) {
    free(pending);
    return mcg_errand_write(exec, bytes, len, done, data, err);
  }
  *pending = (mcg_exec_pending){.exec = exec, .done = done, .data = data, .after = exec->writes};
  if (mcg_channel_write(exec->channel, bytes, len, write_taken, pending, err) < 0) {
    free(pending);
    return -1;
  }
  if (pending->after) pending->after->before = pending;
  exec->writes = pending;
  return 0;
}

bool mcg_exec_waits(const mcg_exec *exec)
{
  return mcg_errand_waits(exec);
}

void mcg_exec_close_stdin(mcg_exec *exec)
{
  if (mcg_errand_waits(exec))
    mcg_errand_close_stdin(exec);
  else if (!exec->finished)
    mcg_channel_close_stdin(exec->channel);
}

void mcg_exec_resume(mcg_exec *exec, int stream)
{
  if (!exec->finished && exec->channel) mcg_channel_resume(exec->channel, stream);
}

int mcg_exec_signal(mcg_exec *exec, const char *name, mcg_error **err)
{
  int number = mcg_signal_number(name);
  if (!number) {
    const char *near = mcg_nearest(name, mcg_signal_list());
    auto_free char *fix = near ? mcg_format("did you mean `%s`?", near) : NULL;
    return mcg_fail(err, MCG_INVALID, fix, "there is no signal \"%s\"", name);
  }
  if (exec->finished || exec->exited)
    return mcg_fail(err, MCG_NOT_FOUND, NULL, "the command has ended");
  if (mcg_errand_waits(exec)) return mcg_errand_signal(exec, number, err);
  return mcg_channel_signal(exec->channel, number, err);
}

int mcg_exec_resize(mcg_exec *exec, uint16_t cols, uint16_t rows, mcg_error **err)
{
  if (exec->finished || exec->exited)
    return mcg_fail(err, MCG_NOT_FOUND, NULL, "the command has ended");
  if (mcg_errand_waits(exec)) return mcg_errand_resize(exec, cols, rows);
  return mcg_channel_resize(exec->channel, cols, rows, err);
}
