/* shell_word.c: reads one word of the shell: quotes, and everything that expands (XCU 2.2, 2.6). Of what
 * is put in at run time only that it is put in is told; the commands in it are read like all others. */
#include "shell_parts.h"
#include <string.h>

#define A_VARIABLE "a variable"
#define A_SUBSTITUTION "what a command prints"
#define A_NUMBER "arithmetic"
#define A_PATTERN "a pattern of file names"
#define A_HOME "a home directory (~)"
#define A_BRACE "a brace expansion"
#define A_QUOTING "a quoting that not all shells have"
#define A_BYTE "characters that not all shells read alike"
#define A_PROCESS "the input or output of a command"

typedef struct maker {
  const char *from; /* in the text */
  size_t start;     /* in the reader's room */
  const char *why;
  char *prefix;
  size_t prefix_len;
  size_t equals;
  bool begun, quoted, many, split, append;
  bool bracket, brace, subscript, joined;
} maker;

int mcg__shell_reader(shell_reader *r, mcg_shell *shell, const char *text, size_t len)
{
  *r = (shell_reader){.shell = shell, .base = text, .at = text, .end = text + len};
  r->here_end = &r->here;
  r->room = mcg__shell_take(shell, len + 1);
  return r->room ? 0 : -1;
}

size_t mcg__shell_place(const shell_reader *r, const char *at)
{
  return r->fixed ? r->offset : r->offset + (size_t)(at - r->base);
}

int mcg__shell_no(const shell_reader *r, const char *why)
{
  return mcg__shell_fail(r->shell, mcg__shell_place(r, r->at), why);
}

static bool joins(const shell_reader *r)
{
  return r->end - r->at >= 2 && r->at[0] == '\\' && r->at[1] == '\n';
}

int mcg__shell_peek(shell_reader *r)
{
  while (joins(r)) r->at += 2;
  return r->at < r->end ? (unsigned char)*r->at : -1;
}

static bool name_byte(int c, bool first)
{
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (!first && c >= '0' && c <= '9');
}

bool mcg__shell_is_name(const char *text, size_t len)
{
  for (size_t i = 0; i < len; i++)
    if (!name_byte((unsigned char)text[i], i == 0)) return false;
  return len > 0;
}

static int at_offset(const shell_reader *r, size_t n)
{
  return (size_t)(r->end - r->at) > n ? (unsigned char)r->at[n] : -1;
}

/* A line that ends while a here-document waits: shells do not agree where its body is. */
static int end_of_line_inside(const shell_reader *r)
{
  return r->here || r->here_outside
             ? mcg__shell_no(r, "a line ends in a word while a here-document waits")
             : 0;
}

/* ---- making a word ------------------------------------------------------------------------ */

static int put_in(const shell_reader *r, maker *m, const char *why, bool quoted)
{
  if (!m->why) {
    m->prefix_len = r->used - m->start;
    m->prefix = mcg__shell_copy(r->shell, r->room + m->start, m->prefix_len);
    if (!m->prefix) return -1;
    m->why = why;
  }
  m->begun = true;
  m->many = m->many || !quoted;
  return 0;
}

static int add(shell_reader *r, maker *m, char c)
{
  m->begun = true;
  r->room[r->used++] = c;
  if (c == ']' && m->bracket) return put_in(r, m, A_PATTERN, false);
  if (c == '\001' || c == '\177') return put_in(r, m, A_BYTE, true);
  return 0;
}

static int expand(shell_reader *r, maker *m, bool quoted);
static int read_double(shell_reader *r, maker *m);

static int read_single(shell_reader *r, maker *m)
{
  m->begun = m->quoted = true;
  for (r->at++; r->at < r->end && *r->at != '\''; r->at++) {
    if (*r->at == '\n' && end_of_line_inside(r) < 0) return -1;
    if (add(r, m, *r->at) < 0) return -1;
  }
  if (r->at == r->end) return mcg__shell_no(r, "a quote is not closed");
  r->at++;
  return 0;
}

/* ---- what expands ------------------------------------------------------------------------- */

/* ${x=word} and arithmetic set variables: a command without words. */
static int tell_assignment(const shell_reader *r, const char *name, size_t len, const char *at)
{
  mcg_shell_command *command = mcg__shell_command(r->shell, mcg__shell_place(r, at));
  mcg_shell_word *word = command ? mcg__shell_take(r->shell, sizeof *word) : NULL;
  char *text = word ? mcg__shell_take(r->shell, len + 2) : NULL;
  if (!text) return -1;
  memcpy(text, name, len);
  text[len] = '=';
  *word = (mcg_shell_word){.text = text,
                           .len = len + 1,
                           .why = A_VARIABLE,
                           .equals = len,
                           .prefix = text,
                           .at = command->at};
  command->assigns = word;
  mcg__shell_add(r->shell, command);
  return 0;
}

static int tell_unclear(const shell_reader *r, const char *why, const char *at)
{
  mcg_shell_command *command = mcg__shell_command(r->shell, mcg__shell_place(r, at));
  if (!command) return -1;
  command->unclear = why;
  mcg__shell_add(r->shell, command);
  return 0;
}

/* The word in ${x:-word}, to its '}'. */
static int read_in_braces(shell_reader *r, bool quoted)
{
  maker m = {.start = r->used, .from = r->at};
  int rc = 0;
  while (rc == 0 && r->at < r->end && *r->at != '}') {
    char c = *r->at;
    if (c == '$' || c == '`') {
      rc = expand(r, &m, quoted);
    } else if (quoted && strchr("'\"\\", c)) {
      rc = mcg__shell_no(r, "there is a quote in ${...} in double quotes");
    } else if (c == '\'') {
      rc = read_single(r, &m);
    } else if (c == '"') {
      rc = read_double(r, &m);
    } else if (c == '{' || (!quoted && (c == '<' || c == '>') && at_offset(r, 1) == '(')) {
      rc = mcg__shell_no(r, "there is something in ${...} that shells do not read alike");
    } else {
      if (c == '\n') rc = end_of_line_inside(r);
      r->at += c == '\\' && r->at + 1 < r->end ? 2 : 1;
    }
  }
  r->used = m.start;
  if (rc < 0) return -1;
  if (r->at == r->end) return mcg__shell_no(r, "${ is not closed");
  r->at++;
  return 0;
}

/* The name in ${name...}: its length; 0: none that all shells have. */
static size_t parameter(const shell_reader *r)
{
  int c = at_offset(r, 0);
  size_t len = 1;
  if (c < 0) return 0;
  if (c >= '0' && c <= '9') {
    while (at_offset(r, len) >= '0' && at_offset(r, len) <= '9') len++;
    return len;
  }
  if (!name_byte(c, true)) return strchr("@*#?-$!", c) ? 1 : 0;
  while (name_byte(at_offset(r, len), false)) len++;
  return len;
}

static int unknown_braces(const shell_reader *r)
{
  return mcg__shell_no(r, "it is a form of ${...} that not all shells have");
}

static int read_braces(shell_reader *r, bool quoted)
{
  const char *from = r->at;
  r->at += 2;
  if (at_offset(r, 0) == '#' && at_offset(r, 1) != '}') { /* a length */
    r->at++;
    size_t len = parameter(r);
    if (!len || at_offset(r, len) != '}' || strchr("#-?", *r->at)) return unknown_braces(r);
    r->at += len + 1;
    return 0;
  }
  const char *name = r->at;
  size_t len = parameter(r);
  if (!len) return unknown_braces(r);
  r->at += len;
  int c = at_offset(r, 0);
  if (c == '}') {
    r->at++;
    return 0;
  }
  bool colon = c == ':';
  if (colon) r->at++;
  c = at_offset(r, 0);
  if (c < 0 || *name == '!' || !strchr(colon ? "-=?+" : "-=?+%#", c)) return unknown_braces(r);
  r->at++;
  if ((c == '%' || c == '#') && at_offset(r, 0) == c) r->at++;
  if (c == '=' && tell_assignment(r, name, len, from) < 0) return -1;
  return read_in_braces(r, quoted);
}

static int read_backquoted(shell_reader *r, bool quoted)
{
  const char *from = r->at++;
  char *text = mcg__shell_take(r->shell, (size_t)(r->end - r->at) + 1);
  size_t len = 0;
  if (!text) return -1;
  for (; r->at < r->end && *r->at != '`'; r->at++) {
    if (*r->at == '\n' && end_of_line_inside(r) < 0) return -1;
    if (*r->at == '\\' && r->at + 1 < r->end) {
      if (quoted && r->at[1] == '"')
        return mcg__shell_no(r, "there is \\\" in backquotes in double quotes");
      if (strchr("\\`$", r->at[1])) r->at++;
    }
    text[len++] = *r->at;
  }
  if (r->at == r->end) return mcg__shell_no(r, "a backquote is not closed");
  r->at++;
  return mcg__shell_text(r->shell, text, len, mcg__shell_place(r, from), true, r->fed);
}

static int read_arithmetic(shell_reader *r)
{
  const char *from = r->at;
  bool names = false;
  unsigned open = 2;
  for (r->at += 3; r->at < r->end;) {
    int c = (unsigned char)*r->at, rc = 0;
    if (c == '(') {
      open++;
    } else if (c == ')') {
      if (--open == 1) {
        if (at_offset(r, 1) != ')')
          return mcg__shell_no(r, "$(( is no arithmetic: write $( ( for a subshell");
        r->at += 2;
        return names
                   ? tell_unclear(r, "arithmetic with variables, whose values bash evaluates", from)
                   : 0;
      }
    } else if (c == '$' || c == '`') {
      maker m = {.start = r->used};
      names = names || (at_offset(r, 1) != '#' && at_offset(r, 1) != '?');
      rc = expand(r, &m, true);
      r->used = m.start;
      if (rc < 0) return -1;
      continue;
    } else if (strchr("'\"\\[;{}", c)) {
      return mcg__shell_no(r, "there is something in $((...)) that shells do not read alike");
    } else if (c == '\n') {
      rc = end_of_line_inside(r);
    } else if (name_byte(c, true)) {
      names = true; /* its value is evaluated in its turn: bash runs what stands in a subscript */
      while (name_byte(at_offset(r, 0), false)) r->at++;
      continue;
    } else if (c >= '0' && c <= '9') {
      while (name_byte(at_offset(r, 0), false) || at_offset(r, 0) == '#') r->at++;
      continue;
    }
    if (rc < 0) return -1;
    r->at++;
  }
  return mcg__shell_no(r, "$(( is not closed");
}

/* bash: $'...'. Others: a dollar, and '...'. Where it ends they agree only without backslashes. */
static int read_other_quoting(shell_reader *r)
{
  for (r->at += 2; r->at < r->end && *r->at != '\''; r->at++) {
    if (*r->at == '\\') return mcg__shell_no(r, "$'...' with a backslash is not in all shells");
    if (*r->at == '\n' && end_of_line_inside(r) < 0) return -1;
  }
  if (r->at == r->end) return mcg__shell_no(r, "a quote is not closed");
  r->at++;
  return 0;
}

static int read_substitution(shell_reader *r)
{
  r->at += 2;
  return mcg__shell_substitution(r, r->fed);
}

static int read_name(shell_reader *r)
{
  for (r->at += 2; name_byte(at_offset(r, 0), false);) r->at++;
  return joins(r) ? mcg__shell_no(r, "a line goes on inside of a variable's name") : 0;
}

static int read_dollar(shell_reader *r, maker *m, bool quoted)
{
  int c = at_offset(r, 1);
  if (c == '\\' && at_offset(r, 2) == '\n') return mcg__shell_no(r, "a line goes on after a $");
  if (c == '(' && at_offset(r, 2) == '(')
    return put_in(r, m, A_NUMBER, quoted) < 0 ? -1 : read_arithmetic(r);
  if (c == '(') return put_in(r, m, A_SUBSTITUTION, quoted) < 0 ? -1 : read_substitution(r);
  if (c == '{') {
    bool all = at_offset(r, 2) == '@';
    return put_in(r, m, A_VARIABLE, quoted && !all) < 0 ? -1 : read_braces(r, quoted);
  }
  if (c == '[') return mcg__shell_no(r, "$[...] is not in all shells");
  if (name_byte(c, true)) return put_in(r, m, A_VARIABLE, quoted) < 0 ? -1 : read_name(r);
  if (c >= 0 && strchr("0123456789@*#?-$!", c)) {
    if (put_in(r, m, A_VARIABLE, quoted && c != '@') < 0) return -1;
    r->at += 2;
    return 0;
  }
  if (c == '\'' && !quoted) return put_in(r, m, A_QUOTING, true) < 0 ? -1 : read_other_quoting(r);
  if (c == '"' && !quoted && put_in(r, m, A_QUOTING, true) < 0) return -1;
  r->at++;
  return add(r, m, '$');
}

static int expand(shell_reader *r, maker *m, bool quoted)
{
  m->split = m->split || !quoted;
  if (mcg__shell_deeper(r->shell, mcg__shell_place(r, r->at)) < 0) return -1;
  int rc;
  if (*r->at == '$')
    rc = read_dollar(r, m, quoted);
  else
    rc = put_in(r, m, A_SUBSTITUTION, quoted) < 0 ? -1 : read_backquoted(r, quoted);
  r->shell->depth--;
  return rc;
}

static int read_double(shell_reader *r, maker *m)
{
  m->begun = m->quoted = true;
  for (r->at++; r->at < r->end && *r->at != '"';) {
    char c = *r->at;
    if (c == '\n' && end_of_line_inside(r) < 0) return -1;
    if (c == '$' || c == '`') {
      if (expand(r, m, true) < 0) return -1;
      continue;
    }
    if (joins(r)) {
      r->at += 2;
      continue;
    }
    if (c == '\\' && r->at + 1 < r->end && strchr("\\\"$`", r->at[1])) c = *++r->at;
    if (add(r, m, c) < 0) return -1;
    r->at++;
  }
  if (r->at == r->end) return mcg__shell_no(r, "a quote is not closed");
  r->at++;
  return 0;
}

/* <(...) and >(...) of bash; a syntax error elsewhere. */
static int read_process(shell_reader *r, maker *m)
{
  bool fed = *r->at == '>';
  if (put_in(r, m, A_PROCESS, true) < 0) return -1;
  if (mcg__shell_deeper(r->shell, mcg__shell_place(r, r->at)) < 0) return -1;
  r->at += 2;
  int rc = mcg__shell_substitution(r, fed || r->fed);
  r->shell->depth--;
  return rc;
}

/* ---- unquoted characters ------------------------------------------------------------------ */

static void see_equals(const shell_reader *r, maker *m)
{
  const char *text = r->room + m->start;
  size_t len = r->used - m->start;
  if (m->equals || m->quoted || (m->why && !m->subscript)) return;
  bool append = len > 1 && text[len - 1] == '+';
  if (!m->subscript && !mcg__shell_is_name(text, append ? len - 1 : len)) return;
  m->equals = len;
  m->append = append;
}

static int add_bare(shell_reader *r, maker *m)
{
  unsigned char c = (unsigned char)*r->at;
  size_t len = r->used - m->start;
  char before = len ? r->room[r->used - 1] : '\0';
  int rc = 0;
  if ((c < 0x20 && c != '\n') || c == 0x7f)
    return mcg__shell_no(r, "there is a control character outside of quotes");
  if (c >= 0x80) rc = put_in(r, m, A_BYTE, true);
  if (c == '*' || c == '?') rc = put_in(r, m, A_PATTERN, false);
  if (c == '~' && (!m->begun || before == '=' || before == ':')) rc = put_in(r, m, A_HOME, true);
  if (c == '[') {
    m->bracket = true;
    if (!m->why && !m->quoted && mcg__shell_is_name(r->room + m->start, len)) m->subscript = true;
  }
  if (c == '{') m->brace = true;
  if (m->brace && (c == ',' || (c == '.' && before == '.'))) rc = put_in(r, m, A_BRACE, false);
  if (c == '=') see_equals(r, m);
  if (rc < 0) return -1;
  r->at++;
  return add(r, m, (char)c);
}

static int read_escaped(shell_reader *r, maker *m)
{
  if (joins(r)) {
    r->at += 2;
    m->joined = true;
    return 0;
  }
  if (r->at + 1 == r->end) return mcg__shell_no(r, "it ends with a backslash");
  unsigned char c = (unsigned char)r->at[1];
  if (c < 0x20 || c == 0x7f)
    return mcg__shell_no(r, "there is a backslash before a control character");
  m->quoted = true;
  if (c >= 0x80 && put_in(r, m, A_BYTE, true) < 0) return -1;
  r->at += 2;
  return add(r, m, (char)c);
}

static bool ends_word(const shell_reader *r)
{
  char c = *r->at;
  if ((c == '<' || c == '>') && at_offset(r, 1) == '(') return false;
  return strchr(" \t\n;&|()<>", c) != NULL;
}

static mcg_shell_word *finish(shell_reader *r, const maker *m)
{
  mcg_shell_word *word = mcg__shell_take(r->shell, sizeof *word);
  if (!word) return NULL;
  const char *text = m->why ? m->from : r->room + m->start;
  word->len = m->why ? (size_t)(r->at - m->from) : r->used - m->start;
  word->text = mcg__shell_copy(r->shell, text, word->len);
  if (!word->text) return NULL;
  word->why = m->why;
  word->many = m->many;
  word->bare = !m->quoted && !m->why;
  word->prefix = m->prefix;
  word->plain_start =
      m->why ? m->prefix_len && *m->prefix != '-' && !m->split : word->len && *word->text != '-';
  word->equals = m->equals;
  word->append = m->append;
  word->item = m->subscript;
  word->at = mcg__shell_place(r, m->from);
  r->used = m->start;
  r->joined = m->joined;
  return word;
}

mcg_shell_word *mcg__shell_word(shell_reader *r)
{
  maker m = {.from = r->at, .start = r->used};
  int rc = 0;
  while (rc == 0 && r->at < r->end && !ends_word(r)) {
    switch (*r->at) {
    case '\'': rc = read_single(r, &m); break;
    case '"': rc = read_double(r, &m); break;
    case '\\': rc = read_escaped(r, &m); break;
    case '$':
    case '`': rc = expand(r, &m, false); break;
    case '<':
    case '>': rc = read_process(r, &m); break;
    default: rc = add_bare(r, &m);
    }
  }
  if (rc == 0 && !m.begun) rc = mcg__shell_no(r, "a word is missing");
  if (rc == 0 && m.subscript && !memchr(m.from, ']', (size_t)(r->at - m.from)))
    rc = mcg__shell_no(r, "a [ after a name is not closed: shells differ");
  return rc < 0 ? NULL : finish(r, &m);
}

int mcg__shell_body(shell_reader *r)
{
  maker m = {.from = r->at};
  while (r->at < r->end) {
    r->used = 0;
    if (*r->at == '\\' && r->at + 1 < r->end)
      r->at += 2;
    else if (*r->at != '$' && *r->at != '`')
      r->at++;
    else if (expand(r, &m, true) < 0)
      return -1;
  }
  return 0;
}
