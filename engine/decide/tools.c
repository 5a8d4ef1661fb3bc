/* tools.c: a tool of the host's own: allowed or not, and in the log from its start to its finish. What
 * it does in between is the host's; the commands it runs go their own way through the pipeline. */
#include "audit/audit.h"
#include "pipeline.h"
#include <string.h>

struct mcg_tool {
  mcg_session *session;
  char *name, *path;
  bool on_host;
  mcg_audit_op *audit;
  mcg_tool_done done;
  void *data;
};

static void tool_free(mcg_tool *tool)
{
  mcg_session_let_go(tool->session);
  free(tool->name);
  free(tool->path);
  free(tool);
}

static int start_run(void *arg, mcg_error **err)
{
  mcg_tool *tool = arg;
  auto_json json_t *detail = tool->on_host ? json_pack("{s:b}", "sandbox", 0) : NULL;
  mcg_event event = {.op = "tool", .tool = tool->name, .path = tool->path, .detail = detail};
  mcg_error *denied = NULL;
  if (mcg_tool_check(tool->session, tool->name, &denied) == 0)
    return mcg_audit_start(tool->session, &event, &tool->audit, err);
  event.error = denied;
  event.decision.by = "allowed_tools";
  mcg_audit_point(tool->session, &event);
  *err = denied;
  return -1;
}

static void start_complete(void *arg, mcg_error *error)
{
  mcg_tool *tool = arg;
  mcg_tool_done done = tool->done;
  void *data = tool->data;
  mcg_error_set_backend(error, tool->session->config->backend->id);
  if (error) {
    tool_free(tool);
    tool = NULL;
  }
  done(data, tool, error);
}

int mcg_tool_start(mcg_session *session, const char *name, const char *path, bool on_host,
                   mcg_tool_done done, void *data, mcg_op **op, mcg_error **err)
{
  if (mcg_session_alive(session, err) < 0) return -1;
  mcg_tool *tool = calloc(1, sizeof *tool);
  if (!tool) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a tool");
  *tool = (mcg_tool){.session = session,
                     .name = strdup(name),
                     .path = path ? strdup(path) : NULL,
                     .on_host = on_host,
                     .done = done,
                     .data = data};
  mcg_session_hold(session);
  int rc = tool->name && (tool->path || !path)
               ? mcg_op_start(session->engine, start_run, start_complete, tool, op, err)
               : mcg_fail(err, MCG_NOMEM, NULL, "no memory for a tool");
  if (rc < 0) tool_free(tool);
  return rc;
}

void mcg_tool_finish(mcg_tool *tool, mcg_error *take_error)
{
  auto_error mcg_error *error = take_error;
  mcg_audit_finish(tool->audit, &(mcg_event){.error = error});
  tool_free(tool);
}
