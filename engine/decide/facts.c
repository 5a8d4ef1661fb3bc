/* facts.c: a command and its outcome as JSON: what guardrails and hooks of the host are told. */
#include "service/base64.h"
#include "pipeline.h"
#include "shell.h"
#include "words.h"
#include <string.h>

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

static json_t *words_json(const mcg_exec_spec *spec)
{
  if (spec->argv) return list_json(spec->argv);
  auto_error mcg_error *why = NULL;
  json_t *words = mcg_words(spec->shell, strlen(spec->shell), &why);
  return words ? words : json_null();
}

/* The commands that run, those in others too; or why they cannot be told. */
static int set_commands(json_t *out, const mcg_exec_spec *spec)
{
  auto_error mcg_error *why = NULL;
  size_t count = 0;
  json_t *commands;
  if (spec->argv) {
    while (spec->argv[count]) count++;
    commands = mcg_argv_commands_json(spec->argv, NULL, count, &why);
  } else {
    commands = mcg_shell_commands_json(spec->shell, strlen(spec->shell), &why);
  }
  if (commands) return json_object_set_new(out, "commands", commands);
  return json_object_set_new(out, "unclear", text_json(why->message));
}

json_t *mcg_command_json(const mcg_exec_spec *spec)
{
  json_t *out = json_object();
  int rc = json_object_set_new(out, spec->argv ? "argv" : "shell",
                               spec->argv ? list_json(spec->argv) : text_json(spec->shell));
  rc += json_object_set_new(out, "words", words_json(spec));
  rc += set_commands(out, spec);
  rc += json_object_set_new(out, "env_names", names_json(spec->env));
  rc += json_object_set_new(out, "tool", text_json(spec->tool ? spec->tool : "shell"));
  rc += json_object_set_new(out, "has_stdin", json_boolean(spec->stdin_mode != MCG_STDIN_EMPTY));
  rc += json_object_set_new(out, "pty", json_boolean(spec->pty));
  if (spec->cwd) rc += json_object_set_new(out, "cwd", text_json(spec->cwd));
  if (!rc) return out;
  json_decref(out);
  return NULL;
}

json_t *mcg_result_json(const mcg_result *r)
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

json_t *mcg_error_json(const mcg_error *error)
{
  return json_pack("{s:s, s:s, s:s*, s:b}", "code", mcg_code_name(error->code), "message",
                   error->message, "fix", error->fix, "retryable", error->retryable);
}
