/* shell_wrap.h: programs that run what they are told, as data: what the files of that share. */
#ifndef MCG_SHELL_WRAP_H
#define MCG_SHELL_WRAP_H

#include "shell_parts.h"

typedef enum shell_kind {
  SHELL_RUN,         /* options, words of its own, then a command */
  SHELL_ENV,         /* options, NAME=VALUE, then a command */
  SHELL_SHELL,       /* sh -c TEXT, a script, or what it reads */
  SHELL_JOIN,        /* options, then words that are joined to a text for the shell */
  SHELL_TEXT,        /* a text for the shell as an option; a shell without it */
  SHELL_XARGS,       /* a command, and words that are read */
  SHELL_TRAP,        /* a text for the shell, then conditions */
  SHELL_TOOL,        /* an ordinary program, but for some options; others are no matter */
  SHELL_INTERPRETER, /* code as an option, a script, or what it reads */
  SHELL_SET,         /* NAME or NAME=VALUE */
  SHELL_NAMES,       /* names of variables that it sets */
  SHELL_OPAQUE,      /* what it runs cannot be told */
  SHELL_FIND,
  SHELL_TAR,
  SHELL_GIT,
  SHELL_SSH,
  SHELL_SED,
  SHELL_AWK,
  SHELL_MAKE,
  SHELL_TEST,
  SHELL_PRINTF,
  SHELL_GETOPTS,
  SHELL_DD,
  SHELL_COMPILER,
} shell_kind;

enum {                     /* flags of a row */
       SHELL_THROUGH = 1,  /* changes nothing that matters: only what it runs is to be judged */
       SHELL_OR_SHELL = 2, /* without a command it starts a shell */
       SHELL_CODE = 4,     /* opaque: because it is given code */
       SHELL_LATE = 8,     /* -c TEXT may come after its own words */
       SHELL_PLUS = 16,    /* +COMMAND is an option, too */
       SHELL_LAST = 32,    /* after code there are no more options */
};

/* options: "x,name,other=" ... What may end an item:
 *   (nothing) a flag   = has an argument   ? may have one, glued
 *   ! its argument is text for the shell   @ its argument is the words of a command
 *   % env -S   ^ has an argument, and cannot be told   ~ a flag that cannot be told
 *   # has an argument, which is code   & a flag: code is read   . a flag: nothing is run
 *   * a flag: the words are run as they are   / may have digits, glued, and the cluster goes on */
typedef struct shell_row {
  const char *name;
  shell_kind kind;
  const char *options;
  uint8_t own, flags;
} shell_row;

const shell_row *mcg__shell_row(const char *program, size_t len);
const shell_row *mcg__shell_rows(size_t *count); /* in order of their names */

/* One command that is being looked at. */
typedef struct shell_look {
  mcg_shell *shell;
  mcg_shell_command *command;
  const shell_row *row;
  mcg_shell_word **words; /* all of them */
  size_t count, at;       /* at: the next word to look at */
  const char *cluster;    /* within "-abc": what is left of it */
} shell_look;

typedef struct shell_option {
  char what;        /* the end of its item; ' ' for a flag; 0: not in the row */
  const char *name; /* "x" or "name" in the row */
  size_t name_len;
  size_t word;          /* its place, from 0 */
  size_t upto;          /* the bytes of that word that name it */
  const char *argument; /* NULL: none */
  size_t len;
  mcg_shell_word *whole; /* the word that is its argument, or NULL where that is glued */
  bool unknown_argument; /* it is not literal */
} shell_option;

/* 1: an option; 0: an operand is next, or nothing; -1: a word that may become an option. */
int mcg__shell_option(shell_look *look, shell_option *option);
/* Marks the command; `word` from 0, or SIZE_MAX. Each returns 0, so that it may end a function. Of a
 * word that makes it unclear all counts up to a '=', of code all. */
int mcg__shell_unclear(shell_look *look, size_t word, const char *why);
int mcg__shell_code(shell_look *look, size_t word, const char *why);
int mcg__shell_note(shell_look *look, const shell_option *option, const char *why, bool code);
/* What begins with this word cannot be told: an option is not known, and may have arguments. */
int mcg__shell_lost(shell_look *look, size_t word, const char *why);
/* Adds commands that this one runs. -1: no memory, or too much of it all. */
int mcg__shell_inner_words(shell_look *look, mcg_shell_word *words, size_t count,
                           mcg_shell_word *assigns);
int mcg__shell_inner_text(shell_look *look, size_t word, const char *text, size_t len);
mcg_shell_word *mcg__shell_copy_word(mcg_shell *shell, const mcg_shell_word *word);
bool mcg__shell_word_is(const mcg_shell_word *word, const char *text);
/* Is a file of this name what a program reads, rather than one that lies there? */
bool mcg__shell_is_input(const char *file);
/* May this script be what it reads? */
bool mcg__shell_reads_input(const mcg_shell_word *script);
/* An option that the row says something of: takes what it runs. 1: done; 0: an ordinary one. */
int mcg__shell_take_option(shell_look *look, const shell_option *option);
/* An ordinary program but for the options in its row, wherever they stand. */
int mcg__shell_tool(shell_look *look);
/* Notes that the command sets a variable; the name is all before a '='. */
int mcg__shell_sets(shell_look *look, const mcg_shell_word *word);

/* shell_tools.c: kinds with a way of their own */
int mcg__shell_find(shell_look *look);
int mcg__shell_tar(shell_look *look);
int mcg__shell_git(shell_look *look);
int mcg__shell_ssh(shell_look *look);
int mcg__shell_make(shell_look *look);
int mcg__shell_dd(shell_look *look);
int mcg__shell_compiler(shell_look *look);
int mcg__shell_test(shell_look *look);
int mcg__shell_printf(shell_look *look);
/* shell_interpreter.c */
int mcg__shell_interpreter(shell_look *look);
/* shell_scripts.c */
int mcg__shell_sed(shell_look *look);
int mcg__shell_awk(shell_look *look);

#endif
