/* shell_option.c: reads the options of a program as getopt_long does, by its row: clusters, glued and
 * separate arguments, abbreviations. */
#include "shell_wrap.h"
#include <string.h>

typedef struct item {
  const char *name;
  size_t len;
  char what;
} item;

static bool is_mark(char c)
{
  return c && strchr("=?!@%^~#&.*/", c);
}

/* A mark for which the option must not be overlooked. */
static bool tells(char what)
{
  return what && !strchr(" =?/", what);
}

static bool takes_argument(char what)
{
  return what && strchr("=!@%^#", what);
}

static char mark_after(const char *at)
{
  while (*at && *at != ' ' && !is_mark(*at)) at++;
  return is_mark(*at) ? *at : ' ';
}

/* The item of a name: itself, or a long one that it abbreviates. Of several that it may mean, one that
 * tells goes before. */
static item lookup(const char *options, const char *name, size_t len)
{
  item found = {0};
  for (const char *at = options; *at;) {
    size_t whole = strcspn(at, ", ");
    size_t n = whole && is_mark(at[whole - 1]) ? whole - 1 : whole;
    bool same = n == len && memcmp(at, name, len) == 0;
    bool abbreviated = len > 1 && n > len && memcmp(at, name, len) == 0;
    if (same || (abbreviated && !tells(found.what))) {
      found = (item){.name = at, .len = n, .what = mark_after(at)};
      if (same) return found;
    }
    at += whole;
    while (*at == ',' || *at == ' ') at++;
  }
  return found;
}

static void argument_of_next(shell_look *look, shell_option *option)
{
  if (look->at + 1 >= look->count) return;
  mcg_shell_word *word = look->words[++look->at];
  option->whole = word;
  option->argument = word->text;
  option->len = word->len;
  option->unknown_argument = word->why != NULL;
  if (word->many) /* and the others follow it */
    mcg__shell_unclear(look, look->at, "what is put in at run time may be several words: quote it");
}

/* The digits of an option, or what follows its ':' or 'x'. */
static void skip_digits(shell_look *look)
{
  if (*look->cluster == ':' || *look->cluster == 'x')
    look->cluster += strlen(look->cluster);
  else
    look->cluster += strspn(look->cluster, "0123456789");
}

static int long_option(shell_look *look, shell_option *option, const char *text, size_t len,
                       bool unknown)
{
  const char *equals = memchr(text, '=', len);
  size_t name_len = equals ? (size_t)(equals - text) : len;
  item found = name_len > 1 ? lookup(look->row->options, text, name_len) : (item){0};
  option->what = found.what;
  option->name = found.name ? found.name : text;
  option->name_len = found.name ? found.len : name_len;
  option->upto = strlen("--") + name_len + (equals != NULL);
  if (equals) {
    option->argument = equals + 1;
    option->len = len - name_len - 1;
    option->unknown_argument = unknown;
  } else if (takes_argument(found.what)) {
    argument_of_next(look, option);
  }
  look->at++;
  return 1;
}

static int short_option(shell_look *look, shell_option *option)
{
  item found = lookup(look->row->options, look->cluster, 1);
  option->what = found.what;
  option->name = look->cluster++;
  option->name_len = 1;
  option->word = look->at;
  option->upto = (size_t)(look->cluster - look->words[look->at]->text);
  if (found.what == '/') skip_digits(look);
  if (takes_argument(found.what) || found.what == '?') {
    if (*look->cluster) {
      option->argument = look->cluster;
      option->len = strlen(look->cluster);
    } else if (found.what != '?') {
      argument_of_next(look, option);
    }
    look->cluster = NULL;
  } else if (!*look->cluster) {
    look->cluster = NULL;
  }
  if (!look->cluster) look->at++;
  return 1;
}

int mcg__shell_option(shell_look *look, shell_option *option)
{
  *option = (shell_option){.word = look->at};
  if (look->cluster) return short_option(look, option);
  if (look->at >= look->count) return 0;
  const mcg_shell_word *word = look->words[look->at];
  if (word->why) {
    const char *prefix = word->prefix ? word->prefix : "";
    if (!word->many && strncmp(prefix, "--", 2) == 0 && strchr(prefix, '='))
      return long_option(look, option, prefix + 2, strlen(prefix) - 2, true);
    return word->plain_start ? 0 : -1;
  }
  if (word->text[0] == '+' && look->row->flags & SHELL_PLUS) {
    *option =
        (shell_option){.what = '^', .name = "+", .name_len = 1, .word = look->at++, .upto = 1};
    return 1;
  }
  if (word->text[0] != '-' || !word->text[1]) return 0;
  if (word->text[1] != '-') {
    look->cluster = word->text + 1;
    return short_option(look, option);
  }
  if (word->text[2]) return long_option(look, option, word->text + 2, word->len - 2, false);
  look->at++; /* "--" */
  return 0;
}
