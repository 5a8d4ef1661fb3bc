/* shell.h: shell text as the simple commands that are in it, wherever they stand: in lists, pipelines,
 * compound commands, functions, substitutions, here-documents. What is read is the grammar of POSIX (XCU
 * 2); of what bash adds, and of all that shells do not agree on, nothing is guessed: such a text is not
 * understood, and says where. What the shell would put in at run time is known to be unknown.
 *
 * Nothing here says what may run: policies do. */
#ifndef MCG_SHELL_H
#define MCG_SHELL_H

#include "engine.h"
#include <jansson.h>

#define MCG_SHELL_TEXT ((size_t)64 << 10) /* bytes */
#define MCG_SHELL_COMMANDS 1000
#define MCG_SHELL_DEPTH 24 /* of one thing in another */

typedef struct mcg_shell_word {
  struct mcg_shell_word *next;
  const char *text; /* literal: what the program is given. Else as it is written. No NUL in it */
  size_t len;
  const char *why;    /* NULL: literal. Else what the shell puts in: a constant */
  bool many;          /* not literal: may become no word, or several */
  bool bare;          /* nothing in it was quoted */
  bool plain_start;   /* whatever it becomes begins with a plain character that is no '-' */
  const char *prefix; /* not literal: what stands before anything that is put in */
  size_t equals;      /* an assignment before a command: where its '=' is; else 0 */
  bool append, item;  /* NAME+=; it begins with NAME[ */
  size_t at;          /* where it begins, in bytes from the text's beginning */
} mcg_shell_word;

typedef struct mcg_shell_redirect {
  struct mcg_shell_redirect *next;
  const char *op;         /* "<", ">", ">>", ">|", "<>", "<&", ">&", "&>", "&>>", "<<", "<<<" */
  mcg_shell_word *target; /* of a here-document the delimiter */
} mcg_shell_redirect;

/* Something of a command that cannot be told. */
typedef struct mcg_shell_untold {
  struct mcg_shell_untold *next;
  const char *why;
  size_t word; /* the word that makes it so, from 1; 0: none */
  size_t upto; /* so many bytes of that word do */
  bool code;   /* an interpreter is given code there, not a file of it */
} mcg_shell_untold;

typedef struct mcg_shell_command {
  struct mcg_shell_command *next;
  mcg_shell_word *words, *assigns; /* an assignment's text is all of NAME=VALUE */
  mcg_shell_redirect *redirects;
  size_t count; /* of words */
  size_t at;
  bool fed; /* its standard input is a pipe, a file or a here-document of this text */
  /* Told by mcg_shell_unwrap: */
  struct mcg_shell_command *inside; /* the one that runs it, or NULL */
  const char *via;                  /* how: "env -S", or NULL */
  const char *unclear;              /* it runs something that cannot be told */
  mcg_shell_untold *untold, *last;  /* all that cannot; none where the parser says so */
  bool transparent;                 /* nothing but what it runs is to be judged */
  bool unwrapped;
} mcg_shell_command;

typedef struct mcg_shell {
  mcg_shell_command *first, **end;
  size_t count;
  bool full;       /* there is no more memory, or room, for it */
  bool simple;     /* the whole text is one simple command */
  const char *why; /* not NULL: not understood */
  size_t why_at;
  struct mcg_shell_block *blocks; /* the memory of all this */
  size_t taken;
  unsigned depth;
} mcg_shell;

void mcg_shell_init(mcg_shell *shell);
void mcg_shell_fini(mcg_shell *shell);
/* -1: not understood, or no memory: why and why_at. The text must outlive the result. */
int mcg_shell_parse(mcg_shell *shell, const char *text, size_t len);
/* One command from a list of arguments. */
int mcg_shell_take_argv(mcg_shell *shell, const char *const *argv, const size_t *lens,
                        size_t count);
/* Adds the commands that commands run (env, xargs, sh -c ...), each after the one that runs it. */
int mcg_shell_unwrap(mcg_shell *shell);
/* The program may be one that runs what it is told: false, and its arguments are a command alone. */
bool mcg_shell_runs_others(const char *program);

/* What guardrails are told: a list of commands; or NULL with `invalid` and why not, and with `nomem`.
 * See docs/guard.md for the fields. */
json_t *mcg_shell_commands_json(const char *text, size_t len, mcg_error **err);
json_t *mcg_argv_commands_json(const char *const *argv, const size_t *lens, size_t count,
                               mcg_error **err);

#endif
