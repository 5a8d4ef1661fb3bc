/* pipeline.c: the six steps of a command. Those before the sandbox run on a fiber, which may ask the
 * host; the command is there meanwhile, and can be written to, signalled and canceled. Those after it
 * run on another one. Whatever happens between, a start that was told has exactly one end. */
#include "pipeline.h"
#include "audit/audit.h"
#include "session/exec.h"
#include "hooks.h"
#include <string.h>

#define SHELL_TOOL "shell"

typedef struct step { /* asked for before the sandbox has the command; in order */
  struct step *next;
  int signal; /* or a write: */
  void *bytes;
  size_t len;
  mcg_done done;
  void *data;
} step;

struct mcg_errand {
  mcg_exec_spec spec; /* its texts are ours */
  char **argv, **env;
  mcg_commands commands; /* what it runs, once that was asked for */
  bool looked;
  char id[27];
  mcg_op *op; /* the steps before the sandbox, while they are taken */
  bool waits;
  bool begun; /* the start was told, or nobody wants to hear of it: its end must be, too */
  bool stdin_closed;
  mcg_decision decision;
  json_t *detail; /* {"asked": what the guardrail put something else in the place of}; or NULL */
  mcg_audit_op *audit; /* from the start to the finish; or NULL */
  step *steps, **steps_end;
};
typedef struct mcg_errand errand;

/* ---- what a session asks for -------------------------------------------------------------- */

static const char *const builtin_tools[] = {"shell",     "read_file",  "write_file",
                                            "edit_file", "list_files", "search_files"};

static bool known_tool(const mcg_config *config, const char *name)
{
  for (size_t i = 0; i < sizeof builtin_tools / sizeof *builtin_tools; i++)
    if (strcmp(builtin_tools[i], name) == 0) return true;
  const json_t *tools = json_object_get(config->root, "tools");
  for (size_t i = 0; i < json_array_size(tools); i++)
    if (strcmp(json_string_value(json_array_get(tools, i)), name) == 0) return true;
  return false;
}

static int read_names(const json_t *list, const mcg_where *where, mcg_error **err)
{
  const char *text;
  if (mcg_check_list(list, where, err) < 0) return -1;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const mcg_where at = {.up = where, .index = i};
    if (mcg_check_string(json_array_get(list, i), &at, &text, err) < 0) return -1;
  }
  return 0;
}

/* A name that no tool has is a mistyped one: it would be allowed, and the one that was meant not. */
static int check_known(const mcg_config *config, const char *name, const mcg_where *where,
                       mcg_error **err)
{
  const char *names[64] = {NULL};
  size_t n = sizeof builtin_tools / sizeof *builtin_tools;
  const json_t *tools = json_object_get(config->root, "tools");
  if (known_tool(config, name)) return 0;
  memcpy(names, builtin_tools, sizeof builtin_tools);
  for (size_t i = 0; i < json_array_size(tools) && n < 63; i++)
    names[n++] = json_string_value(json_array_get(tools, i));
  const char *near = mcg_nearest(name, names);
  auto_free char *fix = near ? mcg_format("did you mean `%s`?", near)
                             : mcg_format("name a tool of `tools`, or shell, read_file, "
                                          "write_file, edit_file, list_files, search_files");
  return mcg_check_fail(where, err, fix, "there is no tool \"%s\"", name);
}

int mcg_pipeline_read(mcg_config *config, mcg_error **err)
{
  const mcg_where tools = {.key = "tools"}, allowed = {.key = "allowed_tools"};
  const mcg_where guard = {.key = "guardrail"};
  const json_t *names = json_object_get(config->root, "tools");
  const json_t *list = json_object_get(config->root, "allowed_tools");
  const json_t *guarded = json_object_get(config->root, "guardrail");
  if (names && read_names(names, &tools, err) < 0) return -1;
  if (list && read_names(list, &allowed, err) < 0) return -1;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const mcg_where at = {.up = &allowed, .index = i};
    if (check_known(config, json_string_value(json_array_get(list, i)), &at, err) < 0) return -1;
  }
  config->allowed_tools = list;
  return guarded ? mcg_check_bool(guarded, &guard, &config->guarded, err) : 0;
}

int mcg_tool_check(const mcg_session *session, const char *tool, mcg_error **err)
{
  const json_t *list = session->config->allowed_tools;
  if (!list) return 0;
  for (size_t i = 0; i < json_array_size(list); i++)
    if (strcmp(json_string_value(json_array_get(list, i)), tool) == 0) return 0;
  return mcg_fail(err, MCG_TOOL_NOT_ALLOWED, "add it to allowed_tools, or do without it",
                  "the tool \"%s\" is not allowed here", tool);
}

bool mcg_errand_needed(const mcg_session *session)
{
  const mcg_config *config = session->config;
  return config->allowed_tools || config->guarded ||
         mcg_session_hooked(session, MCG_HOOK_EXEC_START | MCG_HOOK_EXEC_END) ||
         mcg_audit_on(session);
}

/* ---- the copy of what was asked for ------------------------------------------------------- */

static char **copy_list(const char *const *list)
{
  size_t count = 0;
  while (list[count]) count++;
  char **copy = calloc(count + 1, sizeof *copy);
  for (size_t i = 0; copy && i < count; i++)
    if (!(copy[i] = strdup(list[i]))) {
      mcg_environment_free(copy);
      return NULL;
    }
  return copy;
}

static bool copy_text(const char **out, const char *text)
{
  *out = text ? strdup(text) : NULL;
  return *out || !text;
}

/* Turns every borrowed text of the spec into one of ours; false: no memory, some of it is. */
static bool own(errand *self, const mcg_exec_spec *given)
{
  mcg_exec_spec *spec = &self->spec;
  *spec = *given;
  spec->shell = spec->cwd = spec->user = spec->tool = NULL;
  spec->argv = spec->env = NULL;
  spec->stdin_data = NULL;
  if (!copy_text(&spec->shell, given->shell) || !copy_text(&spec->cwd, given->cwd) ||
      !copy_text(&spec->user, given->user) ||
      !copy_text(&spec->tool, given->tool ? given->tool : SHELL_TOOL))
    return false;
  if (given->argv && !(self->argv = copy_list(given->argv))) return false;
  if (given->env && !(self->env = copy_list(given->env))) return false;
  spec->argv = (const char *const *)self->argv;
  spec->env = (const char *const *)self->env;
  if (!given->stdin_len) return true;
  void *bytes = malloc(given->stdin_len);
  if (bytes) memcpy(bytes, given->stdin_data, given->stdin_len);
  spec->stdin_data = bytes;
  return bytes != NULL;
}

static void step_free(step *it)
{
  free(it->bytes);
  free(it);
}

void mcg_errand_free(errand *self)
{
  if (!self) return;
  free((void *)self->spec.shell);
  free((void *)self->spec.cwd);
  free((void *)self->spec.user);
  free((void *)self->spec.tool);
  free((void *)self->spec.stdin_data);
  mcg_environment_free(self->argv);
  mcg_environment_free(self->env);
  mcg_decision_fini(&self->decision);
  json_decref(self->detail);
  mcg_commands_fini(&self->commands);
  while (self->steps) {
    step *it = self->steps;
    self->steps = it->next;
    step_free(it);
  }
  free(self);
}

/* ---- what is asked of it while it waits --------------------------------------------------- */

bool mcg_errand_waits(const mcg_exec *exec)
{
  return exec->errand && exec->errand->waits;
}

static step *add_step(errand *self, mcg_error **err)
{
  step *it = calloc(1, sizeof *it);
  if (!it) {
    mcg_fail(err, MCG_NOMEM, NULL, "no memory for a command");
    return NULL;
  }
  *self->steps_end = it;
  self->steps_end = &it->next;
  return it;
}

int mcg_errand_write(mcg_exec *exec, const void *bytes, size_t len, mcg_done done, void *data,
                     mcg_error **err)
{
  void *copy = malloc(len ? len : 1);
  if (!copy) return mcg_fail(err, MCG_NOMEM, NULL, "no memory to write to a command");
  if (len) memcpy(copy, bytes, len);
  step *it = add_step(exec->errand, err);
  if (!it) {
    free(copy);
    return -1;
  }
  it->bytes = copy;
  it->len = len;
  it->done = done;
  it->data = data;
  return 0;
}

void mcg_errand_close_stdin(mcg_exec *exec)
{
  exec->errand->stdin_closed = true;
}

int mcg_errand_signal(mcg_exec *exec, int number, mcg_error **err)
{
  step *it = add_step(exec->errand, err);
  if (!it) return -1;
  it->signal = number;
  return 0;
}

int mcg_errand_resize(mcg_exec *exec, uint16_t cols, uint16_t rows)
{
  exec->errand->spec.cols = cols;
  exec->errand->spec.rows = rows;
  return 0;
}

void mcg_errand_abort(mcg_exec *exec, const mcg_error *error)
{
  if (!exec->error) exec->error = mcg_error_copy(error);
  mcg_op_cancel(exec->errand->op);
}

static void tell_write(step *it, mcg_error *error)
{
  if (it->done)
    it->done(it->data, error);
  else
    mcg_error_free(error);
}

/* Its turn has come: in the order it was asked for. */
static void take_step(mcg_exec *exec, step *it)
{
  mcg_error *error = NULL;
  if (it->signal) {
    auto_error mcg_error *ignored = NULL; /* it has ended: there is nobody to signal */
    if (mcg_channel_signal(exec->channel, it->signal, &ignored) < 0) return;
  } else if (mcg_exec_write(exec, it->bytes, it->len, it->done, it->data, &error) < 0) {
    tell_write(it, error);
  }
}

static void drop_step(step *it)
{
  mcg_error *error = NULL;
  if (it->signal) return;
  mcg_fail(&error, MCG_UNAVAILABLE, NULL, "the command has ended");
  tell_write(it, error);
}

static step *next_step(errand *self)
{
  step *it = self->steps;
  self->steps = it->next;
  if (!self->steps) self->steps_end = &self->steps;
  return it;
}

/* ---- before ------------------------------------------------------------------------------- */

/* What the host is told of it; borrowed. */
static int tell_command(errand *self, mcg_told *out, mcg_error **err)
{
  if (!self->looked && !mcg_commands_tell(&self->spec, &self->commands))
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a command");
  self->looked = true;
  *out = (mcg_told){.id = self->id,
                    .spec = &self->spec,
                    .words = self->commands.words,
                    .commands = self->commands.list,
                    .unclear = self->commands.unclear};
  return 0;
}

static int fire(mcg_exec *exec, mcg_hook hook, const mcg_result *result, const mcg_error *error,
                bool *heard, mcg_error **err)
{
  mcg_told facts;
  auto_error mcg_error *why = NULL;
  int rc = tell_command(exec->errand, &facts, &why);
  facts.result = result;
  facts.error = error;
  return mcg_hook_tell(exec->session, hook, rc < 0 ? NULL : &facts, heard, err);
}

static bool told(const mcg_exec *exec, mcg_hook hook)
{
  const mcg_exec_spec *spec = &exec->errand->spec;
  return !spec->pty && !spec->quiet && mcg_session_hooked(exec->session, hook);
}

/* The guardrail's own arguments take the place of what was asked for. */
static int rewrite(errand *self, const json_t *list, const mcg_told *asked, mcg_error **err)
{
  size_t count = json_array_size(list);
  self->detail = json_pack("{s:o}", "asked", mcg_command_json(asked));
  char **argv = calloc(count + 1, sizeof *argv);
  bool good = argv && self->detail;
  for (size_t i = 0; good && i < count; i++)
    good = (argv[i] = strdup(json_string_value(json_array_get(list, i)))) != NULL;
  if (!good) {
    if (argv) mcg_environment_free(argv);
    return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a command");
  }
  mcg_commands_fini(&self->commands); /* it is another one now */
  self->looked = false;
  mcg_environment_free(self->argv);
  free((void *)self->spec.shell);
  self->spec.shell = NULL;
  self->argv = argv;
  self->spec.argv = (const char *const *)argv;
  return 0;
}

/* What the log says of the command, whatever the event. */
static mcg_event event_of(const errand *self, const char *op)
{
  const mcg_exec_spec *spec = &self->spec;
  const mcg_decision *decision = &self->decision;
  return (mcg_event){.op = op,
                     .id = self->id,
                     .argv = spec->argv,
                     .shell = spec->shell,
                     .tool = spec->tool,
                     .cwd = spec->cwd,
                     .detail = self->detail,
                     .decision = {decision->by, decision->rule, decision->reason}};
}

static int guard(mcg_exec *exec, mcg_told *command, json_t **rewritten, mcg_error **err)
{
  errand *self = exec->errand;
  self->decision.by = "guardrail";
  if (tell_command(self, command, err) < 0) return -1;
  return mcg_guardrail_judge(exec->session, command, rewritten, &self->decision, err);
}

/* Steps 1 and 2. What is denied is in the log; that the log fails changes nothing about that. */
static int judge(mcg_exec *exec, mcg_error **err)
{
  errand *self = exec->errand;
  auto_json json_t *rewritten = NULL;
  mcg_error *denied = NULL;
  mcg_told command;
  const char *op = "tool";
  if (mcg_tool_check(exec->session, self->spec.tool, &denied) < 0)
    self->decision.by = "allowed_tools";
  else if (exec->session->config->guarded && guard(exec, &command, &rewritten, &denied) < 0)
    op = "guardrail";
  if (!denied) return rewritten ? rewrite(self, rewritten, &command, err) : 0;
  if (denied->code != MCG_CANCELED) {
    mcg_event event = event_of(self, op);
    event.error = denied;
    mcg_audit_point(exec->session, &event);
  }
  *err = denied;
  return -1;
}

static int before_run(void *arg, mcg_error **err)
{
  mcg_exec *exec = arg;
  errand *self = exec->errand;
  if (judge(exec, err) < 0) return -1;
  mcg_event event = event_of(self, self->spec.pty ? "pty" : "exec");
  if (mcg_audit_start(exec->session, &event, &self->audit, err) < 0) return -1;
  self->begun = !told(exec, MCG_HOOK_EXEC_START);
  if (!self->begun && fire(exec, MCG_HOOK_EXEC_START, NULL, NULL, &self->begun, err) < 0) return -1;
  if (exec->session->state != MCG_SESSION_RUNNING && !exec->session->ended)
    return mcg_fail(err, MCG_CANCELED, NULL, "the session was closed");
  return mcg_session_alive(exec->session, err);
}

static void before_complete(void *arg, mcg_error *error)
{
  mcg_exec *exec = arg;
  errand *self = exec->errand;
  self->op = NULL;
  self->waits = false;
  if (!error && !exec->error && mcg_exec_launch(exec, &self->spec, &error) == 0) {
    while (self->steps) {
      step *it = next_step(self);
      take_step(exec, it);
      step_free(it);
    }
    if (self->stdin_closed) mcg_exec_close_stdin(exec);
    return;
  }
  if (!error) error = mcg_error_copy(exec->error);
  mcg_exec_fail(exec, error);
}

int mcg_errand_start(mcg_exec *exec, const mcg_exec_spec *spec, mcg_error **err)
{
  mcg_wire body;
  mcg_wire_init(&body);
  int rc = mcg_exec_encode(exec->session, spec, &body, err); /* what is wrong with it is told now */
  mcg_wire_fini(&body);
  if (rc < 0) return -1;
  errand *self = exec->errand = calloc(1, sizeof *self);
  if (!self || !own(self, spec)) return mcg_fail(err, MCG_NOMEM, NULL, "no memory for a command");
  self->steps_end = &self->steps;
  self->waits = true;
  if (mcg_random_id(self->id, err) < 0) return -1;
  return mcg_op_start(exec->session->engine, before_run, before_complete, exec, &self->op, err);
}

/* ---- after -------------------------------------------------------------------------------- */

static void finish_audit(mcg_exec *exec)
{
  mcg_result room;
  const mcg_error *error;
  const mcg_result *result = mcg_exec_outcome(exec, &room, &error);
  mcg_event event = {.error = error};
  if (result)
    event = (mcg_event){.ended = !result->detached,
                        .exit_code = result->exit_code,
                        .signal = result->signal,
                        .timed_out = result->timed_out,
                        .counted = true,
                        .bytes = result->stdout_bytes + result->stderr_bytes};
  mcg_audit_finish(mcg_steal_pointer(&exec->errand->audit), &event);
}

static int after_run(void *arg, mcg_error **err)
{
  mcg_exec *exec = arg;
  mcg_result room;
  const mcg_error *error;
  const mcg_result *result = mcg_exec_outcome(exec, &room, &error);
  return fire(exec, MCG_HOOK_EXEC_END, result, error, NULL, err);
}

static void after_complete(void *arg, mcg_error *error)
{
  mcg_error_free(error); /* shielded: there is none */
  finish_audit(arg); /* here and not on the fiber: who waits for the command does not wait for it */
  mcg_exec_tell(arg);
}

/* Steps 6. Without a hook no fiber is needed: the log does not wait for a finish. */
void mcg_errand_end(mcg_exec *exec)
{
  errand *self = exec->errand;
  auto_error mcg_error *refused = NULL;
  self->waits = false;
  while (self->steps) {
    step *it = next_step(self);
    drop_step(it);
    step_free(it);
  }
  if (self->begun && told(exec, MCG_HOOK_EXEC_END)) {
    if (mcg_op_start_teardown(exec->session->engine, after_run, after_complete, exec, NULL,
                              &refused) == 0)
      return;
    mcg_log(exec->session->engine, MCG_LOG_ERROR, "session %.8s: the end of a command: %s",
            exec->session->id, refused->message);
  }
  finish_audit(exec);
  mcg_exec_tell(exec);
}
