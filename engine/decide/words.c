/* words.c: shell text that is one simple command of plain words, as its words. */
#include "words.h"
#include "pipeline.h"
#include "shell.h"
#include <string.h>

static int refuse(mcg_error **err, const char *what, const char *more)
{
  return mcg_fail(err, MCG_INVALID, "give the command as a list of arguments", "%s%s", what, more);
}

static int check(const mcg_shell *shell, mcg_error **err)
{
  const mcg_shell_command *command = shell->first;
  if (!command) return refuse(err, "there is no command", "");
  if (command->assigns) return refuse(err, "it sets a variable", "");
  if (!shell->simple || command->redirects || command->unclear)
    return refuse(err, "it is more than one simple command", "");
  for (const mcg_shell_word *word = command->words; word; word = word->next)
    if (word->why) return refuse(err, "a word is put in at run time: ", word->why);
  if (!command->words->len) return refuse(err, "the command's name is empty", "");
  if (command->words->bare && strcmp(command->words->text, "time") == 0)
    return refuse(err, "it begins a construct of some shells", "");
  return 0;
}

static json_t *list(const mcg_shell_word *word, mcg_error **err)
{
  json_t *words = json_array();
  for (; word; word = word->next)
    if (json_array_append_new(words, mcg_bytes_json(word->text, word->len)) < 0) {
      mcg_fail(err, MCG_NOMEM, NULL, "no memory for a command");
      json_decref(words);
      return NULL;
    }
  return words;
}

json_t *mcg_words(const char *text, size_t len, mcg_error **err)
{
  mcg_shell shell;
  json_t *words = NULL;
  mcg_shell_init(&shell);
  if (mcg_shell_parse(&shell, text, len) < 0)
    refuse(err, shell.why, "");
  else if (check(&shell, err) == 0)
    words = list(shell.first->words, err);
  mcg_shell_fini(&shell);
  return words;
}

char *mcg_shell_words(const char *text, size_t len, mcg_error **err)
{
  auto_json json_t *words = mcg_words(text, len, err);
  if (!words) return NULL;
  char *out = json_dumps(words, JSON_COMPACT);
  if (!out) mcg_fail(err, MCG_NOMEM, NULL, "no memory for a command");
  return out;
}
