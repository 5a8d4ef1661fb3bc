/* shell_interpreter.c: programs that are given code as an option, or a script, or read it; and Python's
 * modules that do. */
#include "shell_wrap.h"
#include <string.h>

static const char reads[] = "it runs what it reads";

/* ---- python -m MODULE --------------------------------------------------------------------- */

#define PROFILE_OPTIONS "m o,outfile= s,sort= h,help."

/* Modules that run another one, or a script: their options. */
static const shell_row runners[] = {
    {"cProfile", SHELL_INTERPRETER, PROFILE_OPTIONS, 0, 0},
    {"profile", SHELL_INTERPRETER, PROFILE_OPTIONS, 0, 0},
    {"runpy", SHELL_INTERPRETER, "", 0, 0},
    {"trace", SHELL_INTERPRETER,
     "help. version. c,count t,trace l,listfuncs T,trackcalls f,file= C,coverdir= m,missing "
     "s,summary R,no-report g,timing r,report module ignore-module= ignore-dir=",
     0, 0},
};

static bool is_one_of(const char *module, const char *const *list)
{
  size_t len = strcspn(module, "."); /* asyncio.__main__ */
  for (; *list; list++)
    if (strlen(*list) == len && memcmp(*list, module, len) == 0) return true;
  return false;
}

static const shell_row *runner_of(const char *module)
{
  for (size_t i = 0; i < sizeof runners / sizeof *runners; i++)
    if (is_one_of(module, (const char *const[]){runners[i].name, NULL})) return &runners[i];
  return NULL;
}

/* Words after a module that runs the file it is given; or that is a program, too. */
static int words_of_module(shell_look *look, const char *module)
{
  if (is_one_of(module, (const char *const[]){"pip", NULL})) {
    look->row = mcg__shell_row("pip", strlen("pip"));
    return mcg__shell_tool(look);
  }
  static const char *const files[] = {"doctest", "pickle", "pydoc", NULL};
  for (size_t i = look->at; is_one_of(module, files) && i < look->count; i++)
    if (look->words[i]->why ? !look->words[i]->plain_start
                            : mcg__shell_is_input(look->words[i]->text))
      mcg__shell_code(look, i, reads);
  return 0;
}

/* To the module or the script that this one runs. 1: it is at look->at. */
static int past_runner(shell_look *look, const shell_row *runner)
{
  shell_look inner = *look;
  shell_option option;
  int rc;
  inner.row = runner;
  while ((rc = mcg__shell_option(&inner, &option)) == 1) {
    if (option.what == '.') return 0;
    if (!option.what)
      return mcg__shell_lost(&inner, option.word,
                             "its module has an option that "
                             "is not known");
  }
  if (rc < 0)
    return mcg__shell_lost(&inner, inner.at, "what is put in at run time may be an option");
  look->at = inner.at;
  return look->at < look->count;
}

/* `name` stands in the word before look->at: of the modules that come with Python some are given code,
 * or read it, and some run others. */
static int python_module(shell_look *look, const char *name)
{
  static const char *const code[] = {"asyncio",  "code",    "idlelib", "imaplib", "pdb",
                                     "timeit",   "sqlite3", "_pyrepl", "IPython", "bpython",
                                     "ptpython", "debugpy", NULL};
  for (;;) {
    const shell_row *runner = runner_of(name);
    if (is_one_of(name, code))
      return mcg__shell_code(look, look->at - 1, "its module runs code that is not understood");
    if (!runner) return words_of_module(look, name);
    int rc = past_runner(look, runner);
    if (rc <= 0) return rc;
    const mcg_shell_word *next = look->words[look->at++];
    if (mcg__shell_reads_input(next)) return mcg__shell_code(look, look->at - 1, reads);
    if (next->why) return 0; /* ./ or the like stands before it: a script */
    name = next->text;
  }
}

static int module_option(shell_look *look)
{
  if (look->cluster) {
    const char *name = look->cluster;
    look->cluster = NULL;
    look->at++;
    return python_module(look, name);
  }
  if (look->at >= look->count) return 0;
  const mcg_shell_word *word = look->words[look->at++];
  if (word->why) return mcg__shell_code(look, look->at - 1, "its module is put in at run time");
  return python_module(look, word->text);
}

/* ---- interpreters ------------------------------------------------------------------------- */

static bool row_begins(const shell_look *look, const char *with)
{
  return strncmp(look->row->name, with, strlen(with)) == 0;
}

/* A word that is no script, but has it take up code. */
static bool is_own_word(const shell_look *look, const mcg_shell_word *word)
{
  if (row_begins(look, "node"))
    return mcg__shell_word_is(word, "inspect") || mcg__shell_word_is(word, "debug");
  return row_begins(look, "bun") &&
         (mcg__shell_word_is(word, "exec") || mcg__shell_word_is(word, "x") ||
          mcg__shell_word_is(word, "repl"));
}

/* A file as an option, which may be what it reads; and perl goes on after a blank. */
static int look_into(shell_look *look, const shell_option *option)
{
  bool file = option->what == '=' && option->name[0] == 'f';
  if (file &&
      (!option->argument || option->unknown_argument || mcg__shell_is_input(option->argument)))
    mcg__shell_code(look, option->word + (option->whole != NULL), reads);
  if (option->what == '?' && option->argument && strpbrk(option->argument, " \t\n\v\f\r"))
    mcg__shell_code(look, option->word, "options may follow a blank in it");
  return 0;
}

int mcg__shell_interpreter(shell_look *look)
{
  shell_option option;
  bool given = false;
  int rc;
  while ((rc = mcg__shell_option(look, &option)) == 1) {
    if (mcg__shell_take_option(look, &option) < 0) return -1;
    look_into(look, &option);
    given = given || option.what == '#';
    if (option.what == '#' && look->row->flags & SHELL_LAST) return 0;
    if (option.what == '.' && row_begins(look, "py") && option.name[0] == 'm')
      return module_option(look);
    if (option.what == '.') return 0;
    if (!option.what)
      return mcg__shell_lost(look, option.word, "it has an option that is not known");
  }
  if (rc < 0) return mcg__shell_lost(look, look->at, "what is put in at run time may be an option");
  if (given) return 0;
  if (look->at >= look->count) return mcg__shell_code(look, SIZE_MAX, reads);
  if (mcg__shell_reads_input(look->words[look->at]) || is_own_word(look, look->words[look->at]))
    return mcg__shell_code(look, look->at, reads);
  return 0;
}
