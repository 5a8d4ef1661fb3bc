/* project_session.c: what a session's view of a project changed, and writing it back: the public
 * calls. Applying ends the session: the view is unmounted before anything is written beneath it. One
 * that a keeper holds is asked beforehand whether anything would be refused, and stays if so. */
#include "audit/audit.h"
#include "host.h"
#include "keeper.h"
#include "project.h"
#include "session.h"
#include <string.h>

typedef struct call {
  mcg_session *session;
  json_t *answer;
  bool git;
  mcg_text_done done;
  void *data;
  int (*run)(void *arg, mcg_error **err);
} call;

static int check(const mcg_session *session, mcg_error **err)
{
  if (mcg_session_alive(session, err) < 0) return -1;
  if (session->config->plan.project) return 0;
  return mcg_fail(err, MCG_UNSUPPORTED, "open it with project = DIRECTORY (--project DIR)",
                  "the session has no view of a project");
}

static void complete(void *arg, mcg_error *error)
{
  call self = *(call *)arg;
  free(arg);
  auto_free char *text = error ? NULL : json_dumps(self.answer, JSON_COMPACT);
  json_decref(self.answer);
  if (!error && !text) mcg_fail(&error, MCG_NOMEM, NULL, "no memory for the changes");
  mcg_error_set_backend(error, self.session->config->backend->id);
  self.done(self.data, text, error);
  mcg_session_let_go(self.session);
}

static int run(void *arg, mcg_error **err);

static int start(mcg_session *session, int (*runs)(void *arg, mcg_error **err), bool git,
                 mcg_text_done done, void *data, mcg_error **err)
{
  call *self = calloc(1, sizeof *self);
  if (!self) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for an operation");
  *self = (call){.session = session, .git = git, .done = done, .data = data, .run = runs};
  if (mcg_op_start(session->engine, run, complete, self, NULL, err) < 0) {
    free(self);
    return -1;
  }
  mcg_session_hold(session);
  return 0;
}

static int apply_run(void *arg, mcg_error **err);

static int run(void *arg, mcg_error **err)
{
  call *self = arg;
  bool writes = self->run == apply_run;
  if (check(self->session, err) < 0) return -1;
  auto_json json_t *detail =
      json_pack("{s:s, s:o}", "call", writes ? "project_apply" : "project_diff", "host",
                mcg_json_bytes(self->session->config->plan.project));
  return mcg_audit_around(
      self->session, &(mcg_event){.op = writes ? "write" : "read", .path = ".", .detail = detail},
      self->run, self, err);
}

static int diff_run(void *arg, mcg_error **err)
{
  call *self = arg;
  if (check(self->session, err) < 0) return -1;
  return mcg_project_changes(self->session->engine, self->session->stream, &self->answer, err);
}

int mcg_project_diff(mcg_session *session, mcg_text_done done, void *data, mcg_error **err)
{
  return check(session, err) < 0 ? -1 : start(session, diff_run, false, done, data, err);
}

static int unmount(void *data, mcg_error **err)
{
  mcg_session *session = data;
  if (!session->remote) return mcg_session_close_here(session, err);
  session->stopping = true;
  int rc = mcg_remote_stop(session, err);
  session->stopping = false;
  return rc;
}

static int judge(const mcg_project_write *write, mcg_engine *engine, mcg_error **err)
{
  mcg_project_write asked = *write;
  auto_json json_t *nothing = NULL;
  asked.judge = true;
  return mcg_project_carry(engine, &asked, &nothing, err);
}

static int apply_run(void *arg, mcg_error **err)
{
  call *self = arg;
  mcg_session *session = self->session;
  if (check(session, err) < 0) return -1;
  mcg_host *host = NULL;
  if (mcg_host_open(session->engine, session->config->plan.project, &host, err) < 0) return -1;
  const mcg_project_write write = {.view = session->stream,
                                   .project = mcg_host_stream(host),
                                   .since = session->since,
                                   .git = self->git,
                                   .unmount = unmount,
                                   .data = session};
  if (session->remote && judge(&write, session->engine, err) < 0) {
    mcg_host_close(host);
    return -1;
  }
  mcg_error *over = NULL;
  mcg_fail(&over, MCG_CANCELED, NULL, "the project's changes are being applied");
  mcg_execs_abort(session, over);
  mcg_error_free(over);
  int rc = mcg_project_carry(session->engine, &write, &self->answer, err);
  mcg_host_close(host);
  auto_error mcg_error *late = NULL;
  if (mcg_session_close_here(session, &late) < 0 &&
      rc == 0) { /* again, where it did not come to it */
    *err = mcg_steal_pointer(&late);
    rc = -1;
  }
  return rc;
}

int mcg_project_apply(mcg_session *session, const char *options, mcg_text_done done, void *data,
                      mcg_error **err)
{
  static const char *const keys[] = {"git", NULL};
  const mcg_where where = {.key = "git"};
  bool git = false;
  if (check(session, err) < 0) return -1;
  auto_json json_t *given =
      mcg_json_parse(options ? options : "{}", options ? strlen(options) : 2, err);
  if (!given || mcg_check_keys(given, keys, NULL, err) < 0) return -1;
  const json_t *value = json_object_get(given, "git");
  if (value && mcg_check_bool(value, &where, &git, err) < 0) return -1;
  return start(session, apply_run, git, done, data, err);
}
