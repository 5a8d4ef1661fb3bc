/* shell_json.c: the commands of a text as JSON: what guardrails and policies are told. */
#include "pipeline.h"
#include "shell.h"
#include <string.h>

static int set_text(json_t *out, const char *key, const char *text)
{
  return text ? json_object_set_new(out, key, mcg_bytes_json(text, strlen(text))) : 0;
}

static json_t *words_json(const mcg_shell_command *command, json_t *put_in)
{
  json_t *out = json_array();
  size_t place = 0;
  int rc = out ? 0 : -1;
  for (const mcg_shell_word *word = command->words; word && place < command->count && rc == 0;
       word = word->next) {
    rc = json_array_append_new(out, mcg_bytes_json(word->text, word->len));
    place++;
    if (word->why && rc == 0)
      rc = json_array_append_new(
          put_in, json_pack("{s:I, s:s, s:b, s:b, s:o}", "word", (json_int_t)place, "why",
                            word->why, "many", word->many, "no_option", word->plain_start, "prefix",
                            mcg_bytes_json(word->prefix, word->prefix ? strlen(word->prefix) : 0)));
  }
  if (rc == 0) return out;
  json_decref(out);
  return NULL;
}

static json_t *assigns_json(const mcg_shell_word *word)
{
  json_t *out = json_array();
  for (; word; word = word->next)
    if (json_array_append_new(out, mcg_bytes_json(word->text, word->equals)) < 0) {
      json_decref(out);
      return NULL;
    }
  return out;
}

static json_t *redirects_json(const mcg_shell_redirect *redirect)
{
  json_t *out = json_array();
  for (; redirect; redirect = redirect->next) {
    const mcg_shell_word *target = redirect->target;
    json_t *item = json_pack("{s:s, s:o, s:s*}", "op", redirect->op, "to",
                             mcg_bytes_json(target->text, target->len), "why",
                             strcmp(redirect->op, "<<") == 0 ? NULL : target->why);
    if (json_array_append_new(out, item) < 0) {
      json_decref(out);
      return NULL;
    }
  }
  return out;
}

static json_t *untold_json(const mcg_shell_untold *each)
{
  json_t *out = json_array();
  for (; each; each = each->next) {
    json_t *item = json_pack("{s:s}", "why", each->why);
    int rc = item ? 0 : -1;
    if (rc == 0 && each->code) rc = json_object_set_new(item, "code", json_true());
    if (rc == 0 && each->word)
      rc = json_object_update_new(item, json_pack("{s:I, s:I}", "word", (json_int_t)each->word,
                                                  "upto", (json_int_t)each->upto));
    if (rc < 0) json_decref(item);
    if (rc < 0 || json_array_append_new(out, item) < 0) {
      json_decref(out);
      return NULL;
    }
  }
  return out;
}

/* The place of a command in the list, from 1. */
static size_t place_of(const mcg_shell *shell, const mcg_shell_command *command)
{
  size_t place = 1;
  for (const mcg_shell_command *each = shell->first; each != command; each = each->next) place++;
  return place;
}

static json_t *command_json(const mcg_shell *shell, const mcg_shell_command *command)
{
  json_t *out = json_object(), *put_in = json_array();
  int rc = out && put_in ? 0 : -1;
  if (rc == 0) rc = json_object_set_new(out, "words", words_json(command, put_in));
  if (rc == 0 && json_array_size(put_in)) rc = json_object_set(out, "put_in", put_in);
  if (rc == 0) rc = json_object_set_new(out, "at", json_integer((json_int_t)command->at + 1));
  if (rc == 0 && command->assigns)
    rc = json_object_set_new(out, "assigns", assigns_json(command->assigns));
  if (rc == 0 && command->redirects)
    rc = json_object_set_new(out, "redirects", redirects_json(command->redirects));
  if (rc == 0 && command->fed) rc = json_object_set_new(out, "fed", json_true());
  if (rc == 0 && command->inside) {
    size_t place = place_of(shell, command->inside);
    rc = json_object_set_new(out, "inside", json_integer((json_int_t)place));
    if (rc == 0) rc = set_text(out, "via", command->via);
  }
  if (rc == 0 && command->transparent) rc = json_object_set_new(out, "only_runs", json_true());
  if (rc == 0) rc = set_text(out, "unclear", command->unclear);
  if (rc == 0 && command->untold)
    rc = json_object_set_new(out, "untold", untold_json(command->untold));
  json_decref(put_in);
  if (rc == 0) return out;
  json_decref(out);
  return NULL;
}

static json_t *all_json(mcg_shell *shell, mcg_error **err)
{
  json_t *out = json_array();
  if (mcg_shell_unwrap(shell) < 0) {
    mcg_fail(err, MCG_INVALID, "write it more simply", "%s", shell->why ? shell->why : "no memory");
    json_decref(out);
    return NULL;
  }
  for (const mcg_shell_command *each = shell->first; each; each = each->next)
    if (json_array_append_new(out, command_json(shell, each)) < 0) {
      mcg_fail(err, MCG_NOMEM, NULL, "no memory for a command");
      json_decref(out);
      return NULL;
    }
  return out;
}

json_t *mcg_shell_commands_json(const char *text, size_t len, mcg_error **err)
{
  mcg_shell shell;
  json_t *out = NULL;
  mcg_shell_init(&shell);
  if (mcg_shell_parse(&shell, text, len) == 0)
    out = all_json(&shell, err);
  else
    mcg_fail(err, MCG_INVALID, "write it more simply", "at byte %zu: %s", shell.why_at + 1,
             shell.why);
  mcg_shell_fini(&shell);
  return out;
}

json_t *mcg_argv_commands_json(const char *const *argv, const size_t *lens, size_t count,
                               mcg_error **err)
{
  mcg_shell shell;
  json_t *out = NULL;
  mcg_shell_init(&shell);
  if (mcg_shell_take_argv(&shell, argv, lens, count) == 0)
    out = all_json(&shell, err);
  else
    mcg_fail(err, MCG_INVALID, NULL, "%s", shell.why ? shell.why : "no memory for a command");
  mcg_shell_fini(&shell);
  return out;
}

static char *dumped(json_t *take_list, mcg_error **err)
{
  if (!take_list) return NULL;
  char *text = json_dumps(take_list, JSON_COMPACT);
  json_decref(take_list);
  if (!text) mcg_fail(err, MCG_NOMEM, NULL, "no memory for a command");
  return text;
}

char *mcg_shell_commands(const char *text, size_t len, mcg_error **err)
{
  return dumped(mcg_shell_commands_json(text, len, err), err);
}

char *mcg_argv_commands(const char *const *argv, const size_t *lens, size_t count, mcg_error **err)
{
  return dumped(mcg_argv_commands_json(argv, lens, count, err), err);
}
