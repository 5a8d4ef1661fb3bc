/* words.c: reads shell text as far as it is one simple command of plain words. Whatever the shell would
 * expand, redirect, join or begin a construct with is refused, and so is every byte that shells do not
 * agree on: what is not understood to the last byte is no simple command.
 *
 * Quotes and backslashes are removed as POSIX says (2.2). */
#include "words.h"
#include "pipeline.h"
#include <string.h>

#define TEXT_MAX ((size_t)64 << 10)

typedef struct reader {
  const char *at, *end;
  char *word; /* as long as the text: no word is longer */
  size_t len;
  bool begun; /* there is a word, perhaps empty ('') */
  bool bare;  /* none of it was quoted */
  json_t *words;
  mcg_error **err;
} reader;

static int refuse(reader *r, const char *what)
{
  return mcg_fail(r->err, MCG_INVALID, "give the command as a list of arguments", "%s", what);
}

/* Reserved words begin a construct where they are the first word and not quoted. */
static bool reserved(const char *word)
{
  static const char *const words[] = {
      "!",     "{",     "}",  "if",   "then",   "elif", "else",     "fi", "for", "case",  "esac",
      "while", "until", "do", "done", "select", "time", "function", "[[", "in",  "coproc"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(words[i], word) == 0) return true;
  return false;
}

static bool name_byte(char c, bool first)
{
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (!first && c >= '0' && c <= '9');
}

/* NAME=..., NAME+=... or NAME[...]=... before the command is an assignment. */
static bool assigns(const char *word)
{
  if (!name_byte(*word, true)) return false;
  while (name_byte(*word, false)) word++;
  return *word == '=' || (*word == '+' && word[1] == '=');
}

static int end_word(reader *r)
{
  if (!r->begun) return 0;
  r->word[r->len] = '\0';
  if (json_array_size(r->words) == 0) {
    if (r->len == 0) return refuse(r, "the command's name is empty");
    if (r->bare && reserved(r->word)) return refuse(r, "it begins a construct of the shell");
    if (assigns(r->word)) return refuse(r, "it sets a variable");
  }
  if (json_array_append_new(r->words, mcg_bytes_json(r->word, r->len)) < 0)
    return mcg_fail(r->err, MCG_NOMEM, NULL, "no memory for a command");
  r->len = 0;
  r->begun = false;
  r->bare = true;
  return 0;
}

static void add(reader *r, char c)
{
  r->word[r->len++] = c;
  r->begun = true;
}

static int single_quoted(reader *r)
{
  r->begun = true;
  r->bare = false;
  for (r->at++; r->at < r->end && *r->at != '\''; r->at++) add(r, *r->at);
  if (r->at == r->end) return refuse(r, "a quote is not closed");
  r->at++;
  return 0;
}

static int double_quoted(reader *r)
{
  r->begun = true;
  r->bare = false;
  for (r->at++; r->at < r->end && *r->at != '"'; r->at++) {
    char c = *r->at;
    if (c == '$' || c == '`') return refuse(r, "it expands something ($ or `)");
    if (c == '!') return refuse(r, "there is a ! in double quotes");
    if (c == '\\' && r->at + 1 < r->end && strchr("\\\"$`", r->at[1])) {
      add(r, *++r->at);
      continue;
    }
    if (c == '\\' && r->at + 1 < r->end && r->at[1] == '\n')
      return refuse(r, "it goes on over a line's end");
    add(r, c);
  }
  if (r->at == r->end) return refuse(r, "a quote is not closed");
  r->at++;
  return 0;
}

static int unquoted(reader *r)
{
  unsigned char c = (unsigned char)*r->at;
  if (c == '\n' || strchr("|&;()<>", c)) return refuse(r, "it is more than one simple command");
  if (c == '$' || c == '`') return refuse(r, "it expands something ($ or `)");
  if (strchr("*?[", c)) return refuse(r, "it matches file names (* ? or [)");
  if (strchr("{}", c)) return refuse(r, "there is a brace outside quotes");
  if (c == '~') return refuse(r, "there is a ~ outside quotes");
  if (c == '!') return refuse(r, "there is a ! outside quotes");
  if (c == '#' && !r->begun) return refuse(r, "there is a comment");
  if (c < 0x20 || c == 0x7f) return refuse(r, "there is a control character outside quotes");
  if (c >= 0x80) return refuse(r, "there is a character beyond ASCII outside quotes");
  if (c == '\\') {
    if (r->at + 1 == r->end) return refuse(r, "it ends with a backslash");
    c = (unsigned char)*++r->at;
    if (c < 0x20 || c >= 0x7f) return refuse(r, "there is a backslash before no plain character");
    r->bare = false;
  }
  add(r, (char)c);
  r->at++;
  return 0;
}

static int read_words(reader *r)
{
  while (r->at < r->end) {
    char c = *r->at;
    int rc = 0;
    if (c == ' ' || c == '\t') {
      rc = end_word(r);
      r->at++;
    } else if (c == '\'') {
      rc = single_quoted(r);
    } else if (c == '"') {
      rc = double_quoted(r);
    } else {
      rc = unquoted(r);
    }
    if (rc < 0) return -1;
  }
  if (end_word(r) < 0) return -1;
  return json_array_size(r->words) ? 0 : refuse(r, "there is no command");
}

json_t *mcg_words(const char *text, size_t len, mcg_error **err)
{
  reader r = {.at = text, .end = text + len, .bare = true, .err = err};
  if (len > TEXT_MAX) return refuse(&r, "it is longer than 64 KiB"), NULL;
  if (memchr(text, 0, len)) return refuse(&r, "there is a NUL byte"), NULL;
  auto_free char *word = r.word = malloc(len + 1);
  r.words = json_array();
  if (word && r.words && read_words(&r) == 0) return r.words;
  if (!word || !r.words) mcg_fail(err, MCG_NOMEM, NULL, "no memory for a command");
  json_decref(r.words);
  return NULL;
}

char *mcg_shell_words(const char *text, size_t len, mcg_error **err)
{
  auto_json json_t *words = mcg_words(text, len, err);
  if (!words) return NULL;
  char *out = json_dumps(words, JSON_COMPACT);
  if (!out) mcg_fail(err, MCG_NOMEM, NULL, "no memory for a command");
  return out;
}
