/* facts.c: a command and its outcome as JSON: what guardrails and hooks of the host are told. */
#include "service/base64.h"
#include "pipeline.h"
#include "shell.h"
#include "words.h"
#include <string.h>

#define ALONE_WORDS 256
#define ALONE_BYTES ((size_t)64 << 10)

json_t *mcg_bytes_json(const void *bytes, size_t len)
{
  if (!bytes || !len) return json_string("");
  json_t *text = memchr(bytes, 0, len) ? NULL : json_stringn(bytes, len);
  if (text) return text;
  auto_free char *coded = mcg_base64_encode(bytes, len);
  return coded ? json_pack("{s:s}", "base64", coded) : NULL;
}

static json_t *text_json(const char *text)
{
  return text ? mcg_bytes_json(text, strlen(text)) : json_null();
}

static json_t *list_json(const char *const *list)
{
  json_t *out = json_array();
  for (; list && *list; list++)
    if (json_array_append_new(out, text_json(*list)) < 0) {
      json_decref(out);
      return NULL;
    }
  return out;
}

/* Names only: values may be secrets. */
static json_t *names_json(const char *const *env)
{
  json_t *out = json_array();
  for (; env && *env; env++)
    if (json_array_append_new(out, mcg_bytes_json(*env, strcspn(*env, "="))) < 0) {
      json_decref(out);
      return NULL;
    }
  return out;
}

/* Programs that run what they are told have to be looked into; and what is long is taken apart within
 * the bounds of that. Nothing else: then the arguments are the only command. */
static bool alone(const char *const *argv)
{
  size_t total = 0;
  for (size_t i = 0; argv[i]; i++) {
    total += strlen(argv[i]) + 1;
    if (i == ALONE_WORDS || total > ALONE_BYTES) return false;
  }
  return !mcg_shell_runs_others(argv[0]);
}

bool mcg_commands_tell(const mcg_exec_spec *spec, mcg_commands *out)
{
  auto_error mcg_error *why = NULL, *ignored = NULL;
  size_t count = 0;
  *out = (mcg_commands){0};
  if (spec->argv && alone(spec->argv)) return true;
  if (spec->argv) {
    while (spec->argv[count]) count++;
    out->list = mcg_argv_commands_json(spec->argv, NULL, count, &why);
  } else {
    out->words = mcg_words(spec->shell, strlen(spec->shell), &ignored);
    out->list = mcg_shell_commands_json(spec->shell, strlen(spec->shell), &why);
  }
  if (!out->list) out->unclear = strdup(why->message);
  return out->list || out->unclear;
}

void mcg_commands_fini(mcg_commands *commands)
{
  json_decref(commands->words);
  json_decref(commands->list);
  free(commands->unclear);
  *commands = (mcg_commands){0};
}

/* The commands that run, those in others too; or why they cannot be told. */
static int set_commands(json_t *out, const mcg_told *told)
{
  const char *const *argv = told->spec->argv;
  if (told->unclear) return json_object_set_new(out, "unclear", text_json(told->unclear));
  if (told->commands) return json_object_set(out, "commands", (json_t *)told->commands);
  return json_object_set_new(out, "commands",
                             json_pack("[{s:o, s:i}]", "words", list_json(argv), "at", 1));
}

static json_t *words_json(const mcg_told *told)
{
  if (told->spec->argv) return list_json(told->spec->argv);
  return told->words ? json_incref((json_t *)told->words) : json_null();
}

json_t *mcg_command_json(const mcg_told *told)
{
  const mcg_exec_spec *spec = told->spec;
  json_t *out = json_object();
  int rc = json_object_set_new(out, spec->argv ? "argv" : "shell",
                               spec->argv ? list_json(spec->argv) : text_json(spec->shell));
  rc += json_object_set_new(out, "words", words_json(told));
  rc += set_commands(out, told);
  rc += json_object_set_new(out, "env_names", names_json(spec->env));
  rc += json_object_set_new(out, "tool", text_json(spec->tool ? spec->tool : "shell"));
  rc += json_object_set_new(out, "has_stdin", json_boolean(spec->stdin_mode != MCG_STDIN_EMPTY));
  rc += json_object_set_new(out, "pty", json_boolean(spec->pty));
  if (spec->cwd) rc += json_object_set_new(out, "cwd", text_json(spec->cwd));
  if (!rc) return out;
  json_decref(out);
  return NULL;
}

static json_t *result_json(const mcg_result *r)
{
  json_t *out =
      json_pack("{s:o, s:I, s:b, s:o, s:I, s:b, s:b, s:b, s:b, s:f, s:f, s:f}", "stdout",
                mcg_bytes_json(r->stdout_data, r->stdout_len), "stdout_bytes",
                (json_int_t)r->stdout_bytes, "stdout_truncated", r->stdout_truncated, "stderr",
                mcg_bytes_json(r->stderr_data, r->stderr_len), "stderr_bytes",
                (json_int_t)r->stderr_bytes, "stderr_truncated", r->stderr_truncated, "timed_out",
                r->timed_out, "oom_killed", r->oom_killed, "not_found", r->not_found, "duration",
                r->duration_s, "cpu_s", r->cpu_s, "max_rss_mb", r->max_rss_mb);
  bool exited = !r->signal && !r->detached;
  int rc = json_object_set_new(out, "ok", json_boolean(exited && r->exit_code == 0));
  if (exited) rc += json_object_set_new(out, "exit_code", json_integer(r->exit_code));
  if (r->start_error) rc += json_object_set_new(out, "start_error", json_string(r->start_error));
  if (r->signal) rc += json_object_set_new(out, "signal", json_string(r->signal));
  if (r->detached) rc += json_object_set_new(out, "detached", json_true());
  if (r->pid > 0) rc += json_object_set_new(out, "pid", json_integer(r->pid));
  if (!rc) return out;
  json_decref(out);
  return NULL;
}

static json_t *error_json(const mcg_error *error)
{
  return json_pack("{s:s, s:s, s:s*, s:b}", "code", mcg_code_name(error->code), "message",
                   error->message, "fix", error->fix, "retryable", error->retryable);
}

static json_t *spent_json(const mcg_spent *s)
{
  if (!s) return NULL;
  return json_pack("{s:f, s:f, s:b}", "minutes", s->minutes, "usd", s->usd, "unpriced",
                   s->unpriced);
}

static int set_spend(json_t *out, const mcg_told *told)
{
  return json_object_set_new(out, "spend",
                             json_pack("{s:o, s:o*, s:o*}", "session", spent_json(told->session),
                                       "run", spent_json(told->run), "tenant",
                                       spent_json(told->tenant)));
}

static int set_exec(json_t *out, const mcg_told *told)
{
  int rc = json_object_set_new(out, "hook", json_string(told->hook));
  json_t *exec = json_pack("{s:s}", "id", told->id);
  if (told->error) rc += json_object_set_new(exec, "error", error_json(told->error));
  rc += json_object_set_new(out, "exec", exec);
  if (told->result) rc += json_object_set_new(out, "result", result_json(told->result));
  return rc;
}

json_t *mcg_told_json(unsigned kind, const mcg_told *told)
{
  json_t *out = json_object();
  int rc = json_object_set_new(out, "command", mcg_command_json(told));
  rc += kind == MCG_ASK_HOOK ? set_exec(out, told) : set_spend(out, told);
  if (kind == MCG_ASK_CONFIRM) {
    rc += json_object_set_new(out, "reason", text_json(told->reason));
    rc += json_object_set_new(out, "rule", text_json(told->rule));
  }
  if (!rc) return out;
  json_decref(out);
  return NULL;
}
