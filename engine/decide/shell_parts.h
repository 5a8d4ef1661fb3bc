/* shell_parts.h: what the files of the shell parser share. */
#ifndef MCG_SHELL_PARTS_H
#define MCG_SHELL_PARTS_H

#include "shell.h"

/* A here-document whose body begins after the next end of line. */
typedef struct shell_here {
  struct shell_here *next;
  const char *delimiter;
  size_t len;
  bool quoted, tabs;
} shell_here;

/* The reader of one text: all of it, or what stands in backquotes, or in a here-document. */
typedef struct shell_reader {
  mcg_shell *shell;
  const char *base, *at, *end;
  size_t offset; /* of base in the whole text; `fixed`: of all of it, for it was unescaped */
  bool fixed;
  bool fed; /* what is read now gets its input from this text */
  char *room;
  size_t used; /* of room: the words that are being made */
  shell_here *here, **here_end;
  unsigned here_outside; /* here-documents wait outside of the substitution that is read */
  bool compound;         /* something other than one simple command was seen */
  bool joined;           /* a line went on in the word before */
} shell_reader;

/* shell_memory.c */
void *mcg__shell_take(mcg_shell *shell, size_t size); /* zeroed; NULL: the parse has failed */
char *mcg__shell_copy(mcg_shell *shell, const char *text, size_t len); /* ends with a NUL */
int mcg__shell_fail(mcg_shell *shell, size_t at, const char *why);     /* the first one stays */
mcg_shell_command *mcg__shell_command(mcg_shell *shell, size_t at);
void mcg__shell_add(mcg_shell *shell, mcg_shell_command *command);
int mcg__shell_deeper(mcg_shell *shell, size_t at);

/* shell_word.c */
int mcg__shell_reader(shell_reader *reader, mcg_shell *shell, const char *text, size_t len);
size_t mcg__shell_place(const shell_reader *r, const char *at);
int mcg__shell_no(const shell_reader *r, const char *why); /* fails where it is */
/* The next character, past line ends that are taken away; -1: none. */
int mcg__shell_peek(shell_reader *r);
bool mcg__shell_is_name(const char *text, size_t len);
/* A word that begins here. `pattern`: of a case, where a pattern is no list of files. */
mcg_shell_word *mcg__shell_word(shell_reader *r);
/* The commands in text that is expanded like a double-quoted word: the body of a here-document. */
int mcg__shell_body(shell_reader *r);

/* shell_parse.c */
/* The list in a substitution, to the ')' that ends it, which is taken. */
int mcg__shell_substitution(shell_reader *r, bool fed);
int mcg__shell_text(mcg_shell *shell, const char *text, size_t len, size_t offset, bool fixed,
                    bool fed);

#endif
