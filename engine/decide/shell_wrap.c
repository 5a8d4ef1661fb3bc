/* shell_wrap.c: finds the commands that commands run: env, xargs, sh -c and their like, as deep as they
 * are nested; and says where that cannot be told. Which programs those are stands in the table. */
#include "shell_wrap.h"
#include <stdio.h>
#include <string.h>

/* ---- what is found ------------------------------------------------------------------------ */

static int note(shell_look *look, size_t word, size_t upto, const char *why, bool code)
{
  mcg_shell_command *command = look->command;
  mcg_shell_untold *last = command->last;
  size_t place = word == SIZE_MAX ? 0 : word + 1;
  if (!command->unclear) command->unclear = why;
  if (last && last->word == place && last->code == code) {
    if (last->upto < upto) last->upto = upto;
    return 0;
  }
  mcg_shell_untold *untold = mcg__shell_take(look->shell, sizeof *untold);
  if (!untold) return 0; /* the parse has failed: unwrap() sees it */
  *untold = (mcg_shell_untold){.why = why, .word = place, .upto = upto, .code = code};
  if (last)
    last->next = untold;
  else
    command->untold = untold;
  command->last = untold;
  return 0;
}

int mcg__shell_unclear(shell_look *look, size_t word, const char *why)
{
  const mcg_shell_word *it = word < look->count ? look->words[word] : NULL;
  const char *equals = it ? strchr(it->text, '=') : NULL;
  return note(look, word, equals ? (size_t)(equals - it->text) + 1 : it ? it->len : 0, why, false);
}

int mcg__shell_code(shell_look *look, size_t word, const char *why)
{
  return note(look, word, word < look->count ? look->words[word]->len : 0, why, true);
}

int mcg__shell_note(shell_look *look, const shell_option *option, const char *why, bool code)
{
  return note(look, option->word, option->upto, why, code);
}

int mcg__shell_lost(shell_look *look, size_t word, const char *why)
{
  bool script = look->row->kind == SHELL_INTERPRETER || look->row->kind == SHELL_AWK;
  note(look, word, look->words[word]->len, why, script);
  for (size_t i = word + 1; i < look->count; i++) {
    const mcg_shell_word *next = look->words[i];
    if (!script || next->why || next->text[0] == '-' || mcg__shell_is_input(next->text))
      note(look, i, next->len, "it follows an option that is not known", script);
  }
  return 0;
}

mcg_shell_word *mcg__shell_copy_word(mcg_shell *shell, const mcg_shell_word *word)
{
  mcg_shell_word *copy = mcg__shell_take(shell, sizeof *copy);
  if (copy) *copy = *word;
  if (copy) copy->next = NULL;
  return copy;
}

bool mcg__shell_word_is(const mcg_shell_word *word, const char *text)
{
  return !word->why && strcmp(word->text, text) == 0;
}

static unsigned level_of(const mcg_shell_command *command)
{
  unsigned level = 0;
  for (; command; command = command->inside) level++;
  return level;
}

int mcg__shell_inner_words(shell_look *look, mcg_shell_word *words, size_t count,
                           mcg_shell_word *assigns)
{
  if (level_of(look->command) > MCG_SHELL_DEPTH)
    return mcg__shell_unclear(look, SIZE_MAX, "programs run programs, nested too deeply");
  mcg_shell_command *inner = mcg__shell_command(look->shell, words->at);
  if (!inner) return -1;
  inner->words = words;
  inner->count = count;
  inner->assigns = assigns;
  inner->fed = look->command->fed;
  inner->inside = look->command;
  inner->via = look->row->name;
  mcg__shell_add(look->shell, inner);
  if (words->why || words->text[0] != '-') return 0;
  return mcg__shell_unclear(look, SIZE_MAX, "an option stands where the command's name should be");
}

int mcg__shell_inner_text(shell_look *look, size_t word, const char *text, size_t len)
{
  mcg_shell *shell = look->shell;
  mcg_shell_command **from = shell->end;
  unsigned depth = shell->depth;
  size_t at = word < look->count ? look->words[word]->at : look->command->at;
  if (level_of(look->command) > MCG_SHELL_DEPTH)
    return mcg__shell_unclear(look, SIZE_MAX, "programs run programs, nested too deeply");
  int rc = mcg__shell_text(shell, text, len, at, true, look->command->fed);
  shell->depth = depth;
  for (mcg_shell_command *each = *from; each; each = each->next) {
    each->inside = look->command;
    each->via = look->row->name;
  }
  if (rc == 0) return 0;
  if (shell->full) return -1;
  const char *why = shell->why;
  shell->why = NULL;
  return mcg__shell_unclear(look, word, why);
}

int mcg__shell_sets(shell_look *look, const mcg_shell_word *word)
{
  mcg_shell_word *copy = mcg__shell_copy_word(look->shell, word);
  if (!copy) return -1;
  const char *text = word->why ? word->prefix : word->text;
  const char *equals = text ? strchr(text, '=') : NULL;
  if (word->why && !equals) {
    size_t place = 0;
    while (place + 1 < look->count && look->words[place] != word) place++;
    return mcg__shell_unclear(look, place, "which variable it sets cannot be told");
  }
  copy->equals = equals ? (size_t)(equals - text) : word->len;
  copy->next = look->command->assigns;
  look->command->assigns = copy;
  return 0;
}

/* ---- options ------------------------------------------------------------------------------ */

static int split_text(shell_look *look, const shell_option *option);

int mcg__shell_take_option(shell_look *look, const shell_option *option)
{
  const char *const untold = "an option of it runs or writes something that is not told";
  switch (option->what) {
  case '^':
  case '~': mcg__shell_note(look, option, untold, false); return 1;
  case '&': mcg__shell_note(look, option, "it runs what it reads", true); return 1;
  case '#':
    mcg__shell_note(look, option, "it is given code that is not understood", true);
    return 1;
  case '!':
  case '@':
    if (!option->argument || option->unknown_argument)
      mcg__shell_note(look, option, "what its option runs is put in at run time", false);
    else if (mcg__shell_inner_text(look, option->word + (option->whole != NULL), option->argument,
                                   option->len) < 0)
      return -1;
    return 1;
  default: return 0;
  }
}

typedef struct outcome { /* of the options of a program that runs another */
  bool nothing;          /* it runs nothing: --help, sudo -v */
  bool direct, text, split, bad;
} outcome;

static int read_options(shell_look *look, outcome *out)
{
  shell_option option;
  int rc;
  while ((rc = mcg__shell_option(look, &option)) == 1) {
    int took = mcg__shell_take_option(look, &option);
    if (took < 0) return -1;
    if (option.what == '.') out->nothing = true;
    if (option.what == '*') out->direct = true;
    if (option.what == '!') out->text = true;
    if (option.what == '%') {
      out->split = true;
      return split_text(look, &option);
    }
    if (option.what) continue;
    out->bad = true;
    return mcg__shell_lost(look, option.word, "it has an option that is not known");
  }
  if (rc == 0) return 0;
  out->bad = true;
  return mcg__shell_lost(look, look->at, "what is put in at run time may be an option");
}

/* ---- kinds -------------------------------------------------------------------------------- */

static int rest(shell_look *look, mcg_shell_word *assigns)
{
  mcg_shell_word *first = look->words[look->at];
  return mcg__shell_inner_words(look, first, look->count - look->at, assigns);
}

static int starts_shell(shell_look *look)
{
  return mcg__shell_code(look, SIZE_MAX, "it starts a shell that runs what it reads");
}

/* In bash `time` is a reserved word, which others may follow. */
static bool time_of_bash(const shell_look *look)
{
  static const char *const words[] = {"!",     "{",    "if", "for",    "case",   "while",
                                      "until", "time", "[[", "select", "coproc", "function"};
  const mcg_shell_word *next = look->words[look->at];
  if (strcmp(look->row->name, "time") != 0 || !next->bare) return false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(words[i], next->text) == 0) return true;
  return memchr(next->text, '=', next->len) != NULL;
}

static int run(shell_look *look)
{
  outcome out = {0};
  if (read_options(look, &out) < 0) return -1;
  if (out.nothing || out.bad) return 0;
  for (size_t i = 0; i < look->row->own && look->at < look->count; i++, look->at++)
    if (look->words[look->at]->many)
      return mcg__shell_unclear(look, look->at, "what is put in at run time may be several words");
  if (look->at >= look->count) return look->row->flags & SHELL_OR_SHELL ? starts_shell(look) : 0;
  if (look->row->flags & SHELL_LATE && (mcg__shell_word_is(look->words[look->at], "-c") ||
                                        mcg__shell_word_is(look->words[look->at], "--command"))) {
    if (look->at + 1 >= look->count || look->words[look->at + 1]->why)
      return mcg__shell_unclear(look, look->at, "what its option runs is put in at run time");
    const mcg_shell_word *text = look->words[look->at + 1];
    return mcg__shell_inner_text(look, look->at + 1, text->text, text->len);
  }
  if (time_of_bash(look))
    return mcg__shell_unclear(look, look->at, "`time` before a construct is not in all shells");
  return rest(look, NULL);
}

static bool assigns(const mcg_shell_word *word)
{
  const char *text = word->why ? word->prefix : word->text;
  return text && strchr(text, '=') && text[0] != '=';
}

static int env(shell_look *look)
{
  outcome out = {0};
  if (read_options(look, &out) < 0) return -1;
  if (out.nothing || out.bad || out.split) return 0;
  if (look->at < look->count && mcg__shell_word_is(look->words[look->at], "-")) look->at++;
  for (; look->at < look->count && assigns(look->words[look->at]); look->at++) {
    if (look->words[look->at]->many)
      return mcg__shell_unclear(look, look->at, "what is put in at run time may be several words");
    if (mcg__shell_sets(look, look->words[look->at]) < 0) return -1;
  }
  return look->at < look->count ? rest(look, NULL) : 0;
}

typedef struct words_list {
  mcg_shell_word *first, **end;
  size_t count;
} words_list;

/* A copy of a word, with its own text. 1: it is not literal. */
static int append(shell_look *look, words_list *list, const mcg_shell_word *word, size_t at)
{
  mcg_shell_word *copy = mcg__shell_copy_word(look->shell, word);
  if (word->why) return 1;
  if (!copy) return -1;
  copy->text = mcg__shell_copy(look->shell, word->text, word->len);
  copy->prefix = NULL;
  copy->at = at;
  *list->end = copy;
  list->end = &copy->next;
  list->count++;
  return copy->text ? 0 : -1;
}

/* The words that env makes of a text: those of a shell, where nothing in it is special. */
static int append_text(shell_look *look, words_list *list, const shell_option *option, size_t at)
{
  mcg_shell inner;
  mcg_shell_init(&inner);
  int rc = mcg__shell_text(&inner, option->argument, option->len, 0, true, false) < 0;
  const mcg_shell_command *command = inner.first;
  if (!rc) rc = !inner.simple || command->redirects || command->unclear;
  for (const mcg_shell_word *word = rc ? NULL : command->assigns; !rc && word; word = word->next)
    rc = append(look, list, word, at);
  for (const mcg_shell_word *word = rc ? NULL : command->words; !rc && word; word = word->next)
    rc = append(look, list, word, at);
  mcg_shell_fini(&inner);
  return rc;
}

/* env -S TEXT: the words of the text, before the others; options of env may be among them. */
static int split_text(shell_look *look, const shell_option *option)
{
  words_list list = {0};
  list.end = &list.first;
  size_t at = look->words[option->word]->at;
  int rc = 1;
  if (option->argument && !option->unknown_argument &&
      !memchr(option->argument, '\\', option->len)) {
    rc = append(look, &list, look->words[0], at);
    if (!rc) rc = append_text(look, &list, option, at);
  }
  if (rc > 0) return mcg__shell_lost(look, option->word, "what env -S runs cannot be told");
  if (rc < 0) return -1;
  if (look->at < look->count) *list.end = look->words[look->at];
  return mcg__shell_inner_words(look, list.first, list.count + look->count - look->at, NULL);
}

/* By its last name, too: `cd /dev; sh stdin`. */
bool mcg__shell_is_input(const char *file)
{
  const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
  return strcmp(file, "-") == 0 || strstr(file, "/dev/stdin") || strstr(file, "/fd/") ||
         strncmp(file, "fd/", 3) == 0 || strcmp(name, "stdin") == 0 ||
         (*name && !name[strspn(name, "0123456789")]);
}

/* Can a name that begins so be one below this directory? */
static bool may_be_below(const char *prefix, const char *directory)
{
  size_t len = strlen(prefix), whole = strlen(directory);
  return strncmp(prefix, directory, len < whole ? len : whole) == 0;
}

bool mcg__shell_reads_input(const mcg_shell_word *script)
{
  if (!script->why) return mcg__shell_is_input(script->text);
  const char *prefix = script->prefix ? script->prefix : "";
  return !script->plain_start || script->many || strstr(prefix, "..") ||
         may_be_below(prefix, "/dev/") || may_be_below(prefix, "/proc/") ||
         strncmp(prefix, "//", 2) == 0;
}

typedef struct shell_start { /* what the options of a shell say, by the word that does */
  size_t text, input;
} shell_start;

/* The options of a shell: -c, -s, -o NAME, +o NAME ... 1: they are known, and it starts. */
static int shell_options(shell_look *look, shell_start *start)
{
  static const char known[] = "abcefhklmnostuvxBCEHPTpO";
  for (look->at = 1; look->at < look->count; look->at++) {
    const mcg_shell_word *word = look->words[look->at];
    size_t place = look->at;
    if (word->why || (word->text[0] != '-' && word->text[0] != '+')) break;
    if (strcmp(word->text, "--") == 0 || strcmp(word->text, "-") == 0) {
      look->at++;
      break;
    }
    if (word->text[1] == '-') {
      if (strcmp(word->text, "--help") == 0 || strcmp(word->text, "--version") == 0) return 0;
      if (strcmp(word->text, "--norc") && strcmp(word->text, "--noprofile") &&
          strcmp(word->text, "--posix") && strcmp(word->text, "--login"))
        return mcg__shell_lost(look, place, "it has an option that is not known");
      continue;
    }
    if (strspn(word->text + 1, known) != word->len - 1)
      return mcg__shell_lost(look, place, "it has an option that is not known");
    if (strchr(word->text, 'c')) start->text = place;
    if (strchr(word->text, 's')) start->input = place;
    for (const char *at = word->text + 1; *at; at++)
      if ((*at == 'o' || *at == 'O') && ++look->at < look->count && look->words[look->at]->many)
        mcg__shell_unclear(look, look->at,
                           "what is put in at run time may be several words: quote it");
  }
  return 1;
}

/* sh [options] [-c TEXT [NAME ARG...] | SCRIPT ARG...] */
static int shell_itself(shell_look *look)
{
  const char *const reads = "it runs what it reads";
  shell_start start = {0};
  int rc = shell_options(look, &start);
  if (rc <= 0) return rc;
  const mcg_shell_word *first = look->at < look->count ? look->words[look->at] : NULL;
  if (start.input && !start.text) return mcg__shell_code(look, start.input, reads);
  if (!first) return mcg__shell_code(look, SIZE_MAX, reads);
  if (!start.text && mcg__shell_reads_input(first)) return mcg__shell_code(look, look->at, reads);
  if (!start.text) return 0;
  if (first->why)
    return mcg__shell_code(look, start.text, "the text that it runs is put in at run time");
  return mcg__shell_inner_text(look, look->at, first->text, first->len);
}

/* The words from here, with blanks between them: what eval and watch give to a shell. */
static int join(shell_look *look)
{
  outcome out = {0};
  if (read_options(look, &out) < 0) return -1;
  if (out.nothing || out.bad || look->at >= look->count) return 0;
  if (out.direct) return rest(look, NULL);
  size_t len = 0, first = look->at;
  for (size_t i = first; i < look->count; i++) {
    if (look->words[i]->why)
      return mcg__shell_unclear(look, i, "the text that it runs is put in at run time");
    len += look->words[i]->len + 1;
  }
  char *text = mcg__shell_take(look->shell, len + 1), *at = text;
  if (!text) return -1;
  for (size_t i = first; i < look->count; i++) {
    memcpy(at, look->words[i]->text, look->words[i]->len);
    at += look->words[i]->len;
    if (i + 1 < look->count) *at++ = ' ';
  }
  return mcg__shell_inner_text(look, first, text, (size_t)(at - text));
}

/* su, script: the text is an option, wherever it stands; a shell is started without one. */
static int text_option(shell_look *look)
{
  outcome out = {0};
  size_t operands = 0;
  while (look->at < look->count) {
    if (read_options(look, &out) < 0) return -1;
    if (out.nothing || out.bad) return 0;
    if (look->at >= look->count) break;
    if (!mcg__shell_word_is(look->words[look->at], "-") && ++operands > look->row->own)
      mcg__shell_unclear(look, look->at, "its words are given to a shell");
    look->at++;
  }
  return out.text ? 0 : starts_shell(look);
}

static mcg_shell_word *unknown_word(mcg_shell *shell, const char *why, bool many, size_t at)
{
  mcg_shell_word *word = mcg__shell_take(shell, sizeof *word);
  if (word)
    *word =
        (mcg_shell_word){.text = "...", .len = 3, .why = why, .many = many, .prefix = "", .at = at};
  return word;
}

typedef struct xargs_options {
  const char *replace; /* NULL: none */
  bool nothing;        /* --help, or it cannot be told */
  bool counts;         /* how many words, or lines: -n, -L, -l */
} xargs_options;

static int xargs_options_of(shell_look *look, xargs_options *out)
{
  shell_option option;
  int rc;
  while ((rc = mcg__shell_option(look, &option)) == 1) {
    if (mcg__shell_take_option(look, &option) < 0) return -1;
    out->nothing = option.what == '.' || !option.what || option.unknown_argument;
    if (!option.what) mcg__shell_lost(look, option.word, "it has an option that is not known");
    if (option.unknown_argument)
      mcg__shell_lost(look, option.word, "what is put in at run time changes what it runs");
    if (out->nothing) return 0;
    bool longer = option.name_len > 1;
    if (strchr("Ii", option.name[0]) ? !longer : strncmp(option.name, "replace", 7) == 0)
      out->replace = option.argument && option.len ? option.argument : "{}";
    if (longer ? strncmp(option.name, "max-", 4) == 0 : strchr("nLl", option.name[0]) != NULL)
      out->counts = true;
  }
  out->nothing = rc < 0 || look->at >= look->count; /* no command: echo */
  return rc < 0 ? mcg__shell_lost(look, look->at, "what is put in at run time may be an option")
                : 0;
}

/* A command, and words that it reads at its end; with -I words that it changes. Not all agree on -I
 * together with -n or -L, so both are expected then. */
static int xargs(shell_look *look)
{
  xargs_options options = {0};
  if (xargs_options_of(look, &options) < 0) return -1;
  if (options.nothing) return 0;
  mcg_shell_word *first = NULL, **end = &first;
  size_t count = look->count - look->at, at = look->words[look->at]->at;
  for (size_t i = look->at; i < look->count; i++) {
    bool changed = options.replace && strstr(look->words[i]->text, options.replace);
    *end = changed ? unknown_word(look->shell, "what it reads", false, at)
                   : mcg__shell_copy_word(look->shell, look->words[i]);
    if (!*end) return -1;
    end = &(*end)->next;
  }
  if (!options.replace || options.counts) {
    *end = unknown_word(look->shell, "what it reads", true, at);
    if (!*end) return -1;
    count++;
  }
  return mcg__shell_inner_words(look, first, count, NULL);
}

static int trap(shell_look *look)
{
  outcome out = {0};
  if (read_options(look, &out) < 0) return -1;
  if (out.nothing || out.bad || look->at >= look->count) return 0;
  const mcg_shell_word *text = look->words[look->at];
  if (look->at + 1 >= look->count || mcg__shell_word_is(text, "-") || mcg__shell_word_is(text, ""))
    return 0;
  if (text->why)
    return mcg__shell_unclear(look, look->at, "the text that it runs is put in at run time");
  return mcg__shell_inner_text(look, look->at, text->text, text->len);
}

int mcg__shell_tool(shell_look *look)
{
  shell_option option;
  while (look->at < look->count) {
    size_t before = look->at;
    int rc = mcg__shell_option(look, &option);
    if (rc == 1 && mcg__shell_take_option(look, &option) < 0) return -1;
    if (rc == 1) continue;
    if (rc < 0)
      mcg__shell_unclear(look, look->at,
                         "what is put in at run time may be an option: put ./ before it");
    if (rc == 0 && look->at > before) return 0; /* -- */
    look->at++;
  }
  return 0;
}

static int set(shell_look *look)
{
  for (; look->at < look->count; look->at++) {
    const mcg_shell_word *word = look->words[look->at];
    if (!word->why && word->text[0] == '-') {
      if (strspn(word->text, "-pxgrfFu") != word->len)
        mcg__shell_unclear(look, look->at, "it has an option that not all shells have");
    } else if (word->why || strchr(word->text, '=')) {
      if (mcg__shell_sets(look, word) < 0) return -1;
    }
  }
  return 0;
}

static int names(shell_look *look)
{
  shell_option option;
  int rc;
  while ((rc = mcg__shell_option(look, &option)) == 1) {
    if (option.what != '=' || option.name[0] != 'a') continue;
    if (!option.whole)
      mcg__shell_unclear(look, option.word, "which variable it sets cannot be told");
    else if (mcg__shell_sets(look, option.whole) < 0)
      return -1;
  }
  for (; look->at < look->count; look->at++)
    if (mcg__shell_sets(look, look->words[look->at]) < 0) return -1;
  return 0;
}

static int getopts(shell_look *look)
{
  return look->count > 2 ? mcg__shell_sets(look, look->words[2]) : 0;
}

static int opaque(shell_look *look)
{
  bool code = look->row->flags & SHELL_CODE;
  const char *why = code ? "it runs what it is given or reads" : "what it runs cannot be told";
  if (look->count < 2) note(look, SIZE_MAX, 0, why, code);
  for (; look->at < look->count; look->at++)
    note(look, look->at, look->words[look->at]->len, why, code);
  return 0;
}

static int look_at(shell_look *look)
{
  switch (look->row->kind) {
  case SHELL_RUN: return run(look);
  case SHELL_ENV: return env(look);
  case SHELL_SHELL: return shell_itself(look);
  case SHELL_JOIN: return join(look);
  case SHELL_TEXT: return text_option(look);
  case SHELL_XARGS: return xargs(look);
  case SHELL_TRAP: return trap(look);
  case SHELL_TOOL: return mcg__shell_tool(look);
  case SHELL_INTERPRETER: return mcg__shell_interpreter(look);
  case SHELL_SET: return set(look);
  case SHELL_NAMES: return names(look);
  case SHELL_OPAQUE: return opaque(look);
  case SHELL_FIND: return mcg__shell_find(look);
  case SHELL_TAR: return mcg__shell_tar(look);
  case SHELL_GIT: return mcg__shell_git(look);
  case SHELL_SSH: return mcg__shell_ssh(look);
  case SHELL_SED: return mcg__shell_sed(look);
  case SHELL_AWK: return mcg__shell_awk(look);
  case SHELL_MAKE: return mcg__shell_make(look);
  case SHELL_TEST: return mcg__shell_test(look);
  case SHELL_PRINTF: return mcg__shell_printf(look);
  case SHELL_GETOPTS: return getopts(look);
  case SHELL_DD: return mcg__shell_dd(look);
  case SHELL_COMPILER: return mcg__shell_compiler(look);
  }
  return 0;
}

static int unwrap(mcg_shell *shell, mcg_shell_command *command)
{
  const mcg_shell_word *name = command->words;
  command->unwrapped = true;
  if (!name || command->unclear) return 0;
  shell_look look = {.shell = shell, .command = command, .at = 1, .count = command->count};
  look.words = mcg__shell_take(shell, sizeof *look.words * (command->count + 1));
  if (!look.words) return -1;
  size_t i = 0;
  for (mcg_shell_word *word = command->words; word; word = word->next) look.words[i++] = word;
  if (name->why) return mcg__shell_unclear(&look, 0, "which program it is, is put in at run time");
  const shell_row *row = mcg__shell_row(name->text, name->len);
  if (!row) return 0;
  look.row = row;
  mcg_shell_command **before = shell->end;
  if (look_at(&look) < 0 || shell->full) return -1;
  bool inner = *before != NULL || row->kind == SHELL_SET;
  command->transparent =
      inner && !command->unclear && (row->flags & SHELL_THROUGH || row->kind == SHELL_SHELL);
  return 0;
}

bool mcg_shell_runs_others(const char *program)
{
  return program && mcg__shell_row(program, strlen(program));
}

int mcg_shell_unwrap(mcg_shell *shell)
{
  for (mcg_shell_command *each = shell->first; each; each = each->next)
    if (!each->unwrapped && unwrap(shell, each) < 0) return -1;
  return 0;
}

int mcg_shell_take_argv(mcg_shell *shell, const char *const *argv, const size_t *lens, size_t count)
{
  mcg_shell_command *command = mcg__shell_command(shell, 0);
  if (!command) return -1;
  mcg_shell_word **end = &command->words;
  for (size_t i = 0; i < count; i++) {
    mcg_shell_word *word = mcg__shell_take(shell, sizeof *word);
    if (!word) return -1;
    size_t len = lens ? lens[i] : strlen(argv[i]);
    *word = (mcg_shell_word){.text = mcg__shell_copy(shell, argv[i], len),
                             .len = len,
                             .plain_start = len && argv[i][0] != '-'};
    if (!word->text) return -1;
    if (memchr(word->text, 0, len)) return mcg__shell_fail(shell, 0, "there is a NUL byte");
    *end = word;
    end = &word->next;
  }
  command->count = count;
  shell->simple = true;
  mcg__shell_add(shell, command);
  return 0;
}
