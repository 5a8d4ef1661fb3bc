/* session_info.c: what a session tells about itself: facts, usage, live figures, processes. */
#include "builtin.h"
#include "egress/gateway.h"
#include "keeper.h"
#include "config/manifest.h"
#include "session.h"
#include <string.h>

#define PROCESSES_MAX ((size_t)8 << 20)

static json_t *optional(const char *text)
{
  return text ? json_string(text) : json_null();
}

static const char *phase_name(const mcg_session *session)
{
  static const char *const names[] = {"starting", "running", "stopping", "closed"};
  return names[session->state];
}

char *mcg_session_info(const mcg_session *session)
{
  const mcg_config *config = session->config;
  json_t *info = json_pack("{s:s, s:s, s:s, s:o, s:o, s:O?, s:f, s:O, s:O, s:o, s:o, s:s}", "id",
                           session->id, "backend", config->backend->id, "name", config->name,
                           "tenant", optional(config->tenant), "run_id", optional(config->run_id),
                           "labels", config->labels, "created_at", session->created_at,
                           "enforcement", session->enforcement, "warnings", session->warnings,
                           "limits", mcg_limits_json(&config->plan.limits), "working_directory",
                           optional(session->placed ? mcg_session_directory(session) : NULL),
                           "state", phase_name(session));
  char hash[65];
  auto_error mcg_error *unhashed = NULL;
  if (config->manifest && mcg_manifest_hash(config->manifest, hash, &unhashed) == 0)
    json_object_set_new(info, "manifest_hash", json_string(hash));
  if (config->plan.project) json_object_set_new(info, "project", json_string(config->plan.project));
  char *text = json_dumps(info, JSON_COMPACT);
  json_decref(info);
  return text;
}

/* What there is a figure for: no bill of a provider yet. */
json_t *mcg_session_usage_json(const mcg_session *session)
{
  uint64_t end = session->ended_ns ? session->ended_ns : uv_hrtime();
  double wall = session->began_ns ? (double)(end - session->began_ns) / 1e9 : 0;
  uint64_t cpu = session->cpu_us > session->place_cpu_us ? session->cpu_us : session->place_cpu_us;
  json_t *usage = json_pack("{s:f, s:f, s:I, s:f, s:f, s:f}", "started_at", session->created_at,
                            "wall_clock_s", wall, "exec_count", (json_int_t)session->exec_count,
                            "exec_s", (double)session->exec_ns / 1e9, "cpu_s", (double)cpu / 1e6,
                            "max_rss_mb", (double)session->maxrss_kb / 1024);
  if (session->ended_ns)
    json_object_set_new(usage, "ended_at", json_real(session->created_at + wall));
  if (session->place_peak)
    json_object_set_new(usage, "memory_peak_mb",
                        json_real((double)session->place_peak / (1 << 20)));
  if (session->snapshot_bytes)
    json_object_set_new(usage, "snapshot_bytes", json_integer((json_int_t)session->snapshot_bytes));
  const mcg_config *config = session->config;
  if (!session->remote &&
      (session->net_ring || (config->policy && config->plan.network != MCG_NETWORK_NONE))) {
    uint64_t in, out;
    mcg_egress_moved(session, &in, &out);
    json_object_set_new(usage, "net_in_bytes", json_integer((json_int_t)in));
    json_object_set_new(usage, "net_out_bytes", json_integer((json_int_t)out));
  }
  if (config->priced)
    json_object_update_new(usage, json_pack("{s:f, s:f, s:s}", "rate_used", config->usd_per_minute,
                                            "estimated_usd", wall / 60 * config->usd_per_minute,
                                            "cost_source", config->cost_source));
  return usage;
}

char *mcg_session_usage(const mcg_session *session)
{
  json_t *usage = mcg_session_usage_json(session);
  char *text = json_dumps(usage, JSON_COMPACT);
  json_decref(usage);
  return text;
}

/* ---- operations that answer with JSON ----------------------------------------------------- */

typedef struct report {
  mcg_session *session;
  mcg_text_done done;
  void *data;
  json_t *out;
} report;

static void report_complete(void *arg, mcg_error *error)
{
  report *self = arg;
  auto_free char *text = NULL;
  if (!error) {
    text = json_dumps(self->out, JSON_COMPACT);
    if (!text) mcg_fail(&error, MCG_NOMEM, NULL, "no memory for the answer");
  }
  mcg_error_set_backend(error, self->session->config->backend->id);
  if (self->done)
    self->done(self->data, text, error);
  else
    mcg_error_free(error);
  json_decref(self->out);
  mcg_session_let_go(self->session);
  free(self);
}

static int report_start(mcg_session *session, json_t *out, int (*run)(void *arg, mcg_error **err),
                        mcg_text_done done, void *data, mcg_error **err)
{
  report *self = mcg_session_alive(session, err) < 0 ? NULL : malloc(sizeof *self);
  if (!self || !out) {
    if (err && !*err) mcg_fail(err, MCG_NOMEM, NULL, "no memory for an operation");
    free(self);
    json_decref(out);
    return -1;
  }
  *self = (report){.session = session, .done = done, .data = data, .out = out};
  mcg_session_hold(session);
  if (mcg_op_start(session->engine, run, report_complete, self, NULL, err) == 0) return 0;
  mcg_session_let_go(session);
  json_decref(out);
  free(self);
  return -1;
}

/* ---- figures ------------------------------------------------------------------------------ */

int mcg_session_figures(mcg_session *session, json_t *out, mcg_error **err)
{
  const mcg_backend *backend = session->config->backend;
  if (session->remote) return mcg_remote_figures(session, out, err);
  if (!backend->stats || !session->placed)
    return mcg_fail(err, MCG_UNSUPPORTED, NULL, "%s has no figures of its sandboxes", backend->id);
  return backend->stats(session, &session->place, out, err);
}

/* "used total files" of the file system that the workspace is on. */
static int disk_figures(mcg_session *session, json_t *out, mcg_error **err)
{
  const char *const argv[] = {"disk", ".", NULL};
  mcg_builtin disk = {.argv = argv, .max_output = 256};
  int rc = mcg_builtin_run(session->engine, session->stream, &disk, err);
  unsigned long long used, total, files;
  if (!rc && disk.output && sscanf(disk.output, "%llu %llu %llu", &used, &total, &files) == 3) {
    json_object_set_new(out, "disk_used_bytes", json_integer((json_int_t)used));
    json_object_set_new(out, "disk_total_bytes", json_integer((json_int_t)total));
    json_object_set_new(out, "files", json_integer((json_int_t)files));
  }
  free(disk.output);
  return rc;
}

static int stats_run(void *arg, mcg_error **err)
{
  report *self = arg;
  mcg_session *session = self->session;
  if (session->config->backend->stats && mcg_session_figures(session, self->out, err) < 0)
    return -1;
  return mcg_session_alive(session, err) < 0 ? -1 : disk_figures(session, self->out, err);
}

int mcg_session_stats(mcg_session *session, mcg_text_done done, void *data, mcg_error **err)
{
  return report_start(session, json_object(), stats_run, done, data, err);
}

/* ---- processes ---------------------------------------------------------------------------- */

/* A command line as people read it: its NULs as blanks. */
static json_t *command_text(const char *bytes, size_t len)
{
  auto_free char *copy = strndup("", 0);
  while (len && !bytes[len - 1]) len--;
  char *whole = realloc(copy, len + 1);
  if (!whole) return NULL;
  copy = whole;
  for (size_t i = 0; i < len; i++) copy[i] = bytes[i] ? bytes[i] : ' ';
  copy[len] = '\0';
  auto_free char *safe = mcg_one_line(copy);
  return safe ? json_string(safe) : NULL;
}

static int read_processes(const mcg_builtin *ran, json_t *out, mcg_error **err)
{
  const uint8_t *at = (const uint8_t *)ran->output, *end = at + ran->output_len;
  while (at && at < end) {
    mcg_process_entry entry;
    if ((size_t)(end - at) < MCG_PROCESS_HEADER) break;
    mcg_process_decode(at, &entry);
    at += MCG_PROCESS_HEADER;
    if ((size_t)(end - at) < entry.command_len) break;
    char state[2] = {(char)(entry.state > ' ' && entry.state < 127 ? entry.state : '?'), 0};
    json_t *process = json_pack("{s:i, s:i, s:i, s:s, s:I, s:o}", "pid", (int)entry.pid, "ppid",
                                (int)entry.ppid, "uid", (int)entry.uid, "state", state, "rss_bytes",
                                (json_int_t)(entry.rss_kb * 1024), "command",
                                command_text((const char *)at, entry.command_len));
    if (!process || json_array_append_new(out, process) < 0)
      return mcg_fail(err, MCG_NOMEM, NULL, "no memory for the processes");
    at += entry.command_len;
  }
  return at == end
             ? 0
             : mcg_fail(err, MCG_PROTOCOL, NULL, "the sandbox's list of processes is cut off");
}

static int processes_run(void *arg, mcg_error **err)
{
  report *self = arg;
  const char *const argv[] = {"processes", NULL};
  mcg_builtin ran = {.argv = argv, .max_output = PROCESSES_MAX};
  int rc = mcg_builtin_run(self->session->engine, self->session->stream, &ran, err);
  if (!rc) rc = read_processes(&ran, self->out, err);
  free(ran.output);
  return rc;
}

int mcg_session_processes(mcg_session *session, mcg_text_done done, void *data, mcg_error **err)
{
  return report_start(session, json_array(), processes_run, done, data, err);
}
