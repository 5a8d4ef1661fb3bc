/* shell_parse.c: the grammar of the shell (XCU 2.10): lists, pipelines, compound commands, functions,
 * redirections and here-documents. Each simple command is noted where it stands. */
#include "shell_parts.h"
#include <string.h>

typedef enum keyword {
  NONE,
  BANG,
  LEFT, /* { */
  RIGHT,
  IF,
  THEN,
  ELIF,
  ELSE,
  FI,
  FOR,
  CASE,
  ESAC,
  WHILE,
  UNTIL,
  DO,
  DONE,
  IN,
  OTHER, /* of bash and others: what they begin is not read here */
} keyword;

static const struct {
  const char *text;
  keyword means;
} keywords[] = {{"!", BANG},         {"{", LEFT},         {"}", RIGHT},      {"if", IF},
                {"then", THEN},      {"elif", ELIF},      {"else", ELSE},    {"fi", FI},
                {"for", FOR},        {"case", CASE},      {"esac", ESAC},    {"while", WHILE},
                {"until", UNTIL},    {"do", DO},          {"done", DONE},    {"in", IN},
                {"function", OTHER}, {"select", OTHER},   {"coproc", OTHER}, {"[[", OTHER},
                {"]]", OTHER},       {"namespace", OTHER}};

#define BIT(k) (1u << (k))

static int list(shell_reader *r, unsigned ends, keyword *ended);
static int command(shell_reader *r);

static int char_at(const shell_reader *r, size_t n)
{
  return (size_t)(r->end - r->at) > n ? (unsigned char)r->at[n] : -1;
}

/* ---- between words ------------------------------------------------------------------------ */

/* Blanks, comments and line ends that are taken away. The next character, or -1. */
static int next(shell_reader *r)
{
  int c;
  while ((c = mcg__shell_peek(r)) == ' ' || c == '\t') r->at++;
  if (c == '#') {
    while (r->at < r->end && *r->at != '\n') r->at++;
    c = r->at < r->end ? '\n' : -1;
  }
  return c;
}

static size_t line_length(const shell_reader *r)
{
  const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
  return (size_t)((stop ? stop : r->end) - r->at);
}

static bool odd_backslashes(const char *text, size_t len)
{
  size_t n = 0;
  while (n < len && text[len - 1 - n] == '\\') n++;
  return n % 2;
}

static int read_body(shell_reader *r, const shell_here *here)
{
  const char *from = r->at;
  while (r->at < r->end) {
    const char *line = r->at;
    size_t len = line_length(r);
    bool last = line + len == r->end;
    r->at = line + len + (last ? 0 : 1);
    while (here->tabs && len && *line == '\t') line++, len--;
    if (len == here->len && memcmp(line, here->delimiter, len) == 0) {
      shell_reader body = *r;
      if (here->quoted) return 0;
      body.at = from;
      body.end = line;
      body.here = NULL;
      body.here_end = &body.here;
      body.here_outside = 0;
      body.room = mcg__shell_take(r->shell, (size_t)(line - from) + 1);
      return body.room ? mcg__shell_body(&body) : -1;
    }
    if (!here->quoted && !last && odd_backslashes(line, len))
      return mcg__shell_no(r, "a line goes on in a here-document: quote its delimiter");
  }
  return mcg__shell_no(r, "a here-document is not closed");
}

static int end_of_line(shell_reader *r)
{
  if (r->here_outside)
    return mcg__shell_no(r, "a line ends in a substitution while a here-document waits");
  r->at++;
  for (shell_here *here = r->here; here; here = here->next)
    if (read_body(r, here) < 0) return -1;
  r->here = NULL;
  r->here_end = &r->here;
  return 0;
}

/* Past any number of line ends. The next character in *c. */
static int lines(shell_reader *r, int *c)
{
  while ((*c = next(r)) == '\n')
    if (end_of_line(r) < 0) return -1;
  return 0;
}

/* The reserved word that stands here, which is taken if it is one of those. */
static keyword seen(shell_reader *r, unsigned wanted)
{
  const char *from = r->at;
  char text[16];
  size_t len = 0;
  int c;
  while ((c = mcg__shell_peek(r)) >= 0 && !strchr(" \t\n;&|()<>", c) && len < sizeof text)
    text[len++] = (char)c, r->at++;
  for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
    if (strlen(keywords[i].text) == len && memcmp(keywords[i].text, text, len) == 0) {
      if (!(wanted & BIT(keywords[i].means))) r->at = from;
      return keywords[i].means;
    }
  r->at = from;
  return NONE;
}

static int expect(shell_reader *r, keyword wanted, const char *why)
{
  int c;
  if (lines(r, &c) < 0) return -1;
  return seen(r, BIT(wanted)) == wanted ? 0 : mcg__shell_no(r, why);
}

/* ---- redirections ------------------------------------------------------------------------- */

static int add_here(shell_reader *r, const mcg_shell_word *word, bool tabs)
{
  shell_here *here = mcg__shell_take(r->shell, sizeof *here);
  if (!here) return -1;
  if (word->why) return mcg__shell_no(r, "the delimiter of a here-document is no plain word");
  if (memchr(word->text, '\n', word->len))
    return mcg__shell_no(r, "the delimiter of a here-document has more than one line");
  *here =
      (shell_here){.delimiter = word->text, .len = word->len, .quoted = !word->bare, .tabs = tabs};
  *r->here_end = here;
  r->here_end = &here->next;
  return 0;
}

/* "<" and what may follow it. */
static const char *operator_here(shell_reader *r)
{
  static const char *const all[] = {"<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    size_t len = strlen(all[i]);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, all[i], len) != 0) continue;
    r->at += len;
    const char *before = r->at;
    int c = mcg__shell_peek(r);
    if (r->at != before && c >= 0 && strchr("<>&|-", c)) break;
    return all[i];
  }
  return NULL;
}

static int add_redirect(shell_reader *r, const char *op, mcg_shell_redirect ***end)
{
  mcg_shell_redirect *redirect = mcg__shell_take(r->shell, sizeof *redirect);
  if (!redirect) return -1;
  if (next(r) == '\n' || next(r) < 0) return mcg__shell_no(r, "a redirection has no target");
  redirect->op = op;
  redirect->target = mcg__shell_word(r);
  if (!redirect->target) return -1;
  **end = redirect;
  *end = &redirect->next;
  if (op[0] != '<' || op[1] != '<' || op[2] == '<') return 0;
  redirect->op = "<<";
  return add_here(r, redirect->target, op[2] == '-');
}

static int redirect(shell_reader *r, mcg_shell_redirect ***end)
{
  const char *op = operator_here(r);
  if (!op) return mcg__shell_no(r, "a line goes on inside of an operator");
  return add_redirect(r, op, end);
}

/* bash: both outputs to a file. Others: a command in the background, then a redirection of nothing, so
 * there nothing may follow. */
static int redirect_both(shell_reader *r, mcg_shell_redirect ***end)
{
  const char *op = char_at(r, 2) == '>' ? "&>>" : "&>";
  r->at += strlen(op);
  int c = mcg__shell_peek(r);
  if (c >= 0 && strchr("&>|<(", c)) return mcg__shell_no(r, "what follows &> is in few shells");
  if (add_redirect(r, op, end) < 0) return -1;
  c = next(r);
  return c < 0 || strchr("\n;&|)", c) ? 0 : mcg__shell_no(r, "words after &> FILE: shells differ");
}

static bool both(const shell_reader *r)
{
  return char_at(r, 0) == '&' && char_at(r, 1) == '>';
}

static bool feeds(const mcg_shell_redirect *redirects)
{
  for (; redirects; redirects = redirects->next)
    if (redirects->op[0] == '<') return true;
  return false;
}

/* Redirections of a compound command: a command without words. What is in it is fed by them. */
static int redirects_after(shell_reader *r, mcg_shell_command **first)
{
  mcg_shell_redirect *redirects = NULL, **end = &redirects;
  const char *from = r->at;
  int c;
  while ((c = next(r)) == '<' || c == '>' || both(r) || (c >= '0' && c <= '9')) {
    if (c >= '0' && c <= '9') {
      c = char_at(r, 1);
      if (c != '<' && c != '>') break;
      r->at++;
    }
    if ((both(r) ? redirect_both(r, &end) : redirect(r, &end)) < 0) return -1;
  }
  if (!redirects) return 0;
  if (feeds(redirects))
    for (mcg_shell_command *each = *first; each; each = each->next) each->fed = true;
  mcg_shell_command *alone = mcg__shell_command(r->shell, mcg__shell_place(r, from));
  if (!alone) return -1;
  alone->redirects = redirects;
  mcg__shell_add(r->shell, alone);
  return 0;
}

/* ---- simple commands ---------------------------------------------------------------------- */

typedef struct making {
  mcg_shell_command *command;
  mcg_shell_word **words, **assigns;
  mcg_shell_redirect **redirects;
} making;

static bool all_digits(const mcg_shell_word *word)
{
  for (size_t i = 0; i < word->len; i++)
    if (word->text[i] < '0' || word->text[i] > '9') return false;
  return word->bare;
}

/* NAME=VALUE before the command's name; bash alone has NAME+= and NAME[...]=. */
static int take_word(shell_reader *r, making *m, mcg_shell_word *word)
{
  int c = char_at(r, 0);
  if (c == '<' || c == '>') {
    if (all_digits(word)) {
      if (word->len > 1 || r->joined)
        return mcg__shell_no(r, "a number before a redirection: shells differ");
      return redirect(r, &m->redirects);
    }
    if (word->bare && word->text[0] == '{' && word->text[word->len - 1] == '}' && word->len > 2)
      return mcg__shell_no(r, "{NAME} before a redirection is not in all shells");
  }
  if (m->command->count == 0 && (word->item || (word->equals && word->append)))
    return mcg__shell_no(r, "NAME+= and NAME[...] are not in all shells");
  if (m->command->count == 0 && word->equals) {
    *m->assigns = word;
    m->assigns = &word->next;
    return 0;
  }
  *m->words = word;
  m->words = &word->next;
  m->command->count++;
  return 0;
}

static int body_of_function(shell_reader *r, const making *m)
{
  const mcg_shell_word *name = m->command->words;
  int c;
  if (m->command->count != 1 || m->command->assigns || m->command->redirects || name->why ||
      !name->bare || !mcg__shell_is_name(name->text, name->len))
    return mcg__shell_no(r, "there is a ( where none may be");
  r->at++;
  if (next(r) != ')') return mcg__shell_no(r, "there is a ( where none may be");
  r->at++;
  m->command->unclear = "it defines a function";
  m->command->count = 0;
  m->command->words = NULL;
  mcg__shell_add(r->shell, m->command);
  r->compound = true;
  if (lines(r, &c) < 0) return -1;
  return command(r);
}

static int simple(shell_reader *r)
{
  making m = {.command = mcg__shell_command(r->shell, mcg__shell_place(r, r->at))};
  if (!m.command) return -1;
  m.words = &m.command->words;
  m.assigns = &m.command->assigns;
  m.redirects = &m.command->redirects;
  for (;;) {
    int c = next(r), rc = 0;
    if (both(r)) {
      if (m.command->count == 0) return mcg__shell_no(r, "&> without a command");
      rc = redirect_both(r, &m.redirects);
    } else if (c < 0 || strchr("\n;&|)", c)) {
      break;
    } else if (c == '(') {
      return body_of_function(r, &m);
    } else if ((c == '<' || c == '>') && char_at(r, 1) != '(') {
      rc = redirect(r, &m.redirects);
    } else {
      mcg_shell_word *word = mcg__shell_word(r);
      rc = word ? take_word(r, &m, word) : -1;
    }
    if (rc < 0) return -1;
  }
  if (!m.command->words && !m.command->assigns && !m.command->redirects)
    return mcg__shell_no(r, "a command is missing");
  m.command->fed = r->fed || feeds(m.command->redirects);
  mcg__shell_add(r->shell, m.command);
  return 0;
}

/* ---- compound commands -------------------------------------------------------------------- */

static int subshell(shell_reader *r)
{
  if (char_at(r, 1) == '(') return mcg__shell_no(r, "((...)) is not in all shells");
  r->at++;
  if (list(r, 0, NULL) < 0) return -1;
  if (next(r) != ')') return mcg__shell_no(r, "a ( is not closed");
  r->at++;
  return 0;
}

static int group(shell_reader *r)
{
  keyword ended;
  if (list(r, BIT(RIGHT), &ended) < 0) return -1;
  return ended == RIGHT ? 0 : mcg__shell_no(r, "a { is not closed");
}

static int do_group(shell_reader *r)
{
  keyword ended;
  if (expect(r, DO, "a `do` is missing") < 0 || list(r, BIT(DONE), &ended) < 0) return -1;
  return ended == DONE ? 0 : mcg__shell_no(r, "a `do` has no `done`");
}

static int loop(shell_reader *r)
{
  keyword ended;
  if (list(r, BIT(DO), &ended) < 0) return -1;
  if (ended != DO) return mcg__shell_no(r, "a `do` is missing");
  if (list(r, BIT(DONE), &ended) < 0) return -1;
  return ended == DONE ? 0 : mcg__shell_no(r, "a `do` has no `done`");
}

static int branches(shell_reader *r)
{
  keyword ended;
  do {
    if (list(r, BIT(THEN), &ended) < 0) return -1;
    if (ended != THEN) return mcg__shell_no(r, "a `then` is missing");
    if (list(r, BIT(ELIF) | BIT(ELSE) | BIT(FI), &ended) < 0) return -1;
  } while (ended == ELIF);
  if (ended == ELSE && list(r, BIT(FI), &ended) < 0) return -1;
  return ended == FI ? 0 : mcg__shell_no(r, "an `if` has no `fi`");
}

/* The variable that a loop sets: told as an assignment of what is not known. */
static int loop_variable(shell_reader *r)
{
  if (next(r) < 0 || strchr("\n;&|()<>", next(r))) return mcg__shell_no(r, "`for` has no name");
  mcg_shell_command *told = mcg__shell_command(r->shell, mcg__shell_place(r, r->at));
  mcg_shell_word *name = told ? mcg__shell_word(r) : NULL;
  if (!name) return -1;
  if (name->why || !name->bare || !mcg__shell_is_name(name->text, name->len))
    return mcg__shell_no(r, "`for` has no name");
  char *text = mcg__shell_take(r->shell, name->len + 2);
  if (!text) return -1;
  memcpy(text, name->text, name->len);
  text[name->len] = '=';
  name->equals = name->len++;
  name->text = name->prefix = text;
  name->why = "a variable";
  told->assigns = name;
  mcg__shell_add(r->shell, told);
  return 0;
}

static int for_loop(shell_reader *r)
{
  int c;
  if (loop_variable(r) < 0) return -1;
  if (next(r) == ';') { /* for NAME; do */
    r->at++;
    return do_group(r);
  }
  if (lines(r, &c) < 0) return -1;
  if (seen(r, BIT(IN)) != IN) return do_group(r);
  while ((c = next(r)) >= 0 && c != '\n' && c != ';') {
    if (strchr("&|()", c) || ((c == '<' || c == '>') && char_at(r, 1) != '('))
      return mcg__shell_no(r, "there is more than words in a `for`");
    if (!mcg__shell_word(r)) return -1;
  }
  if (c == ';') r->at++;
  return do_group(r);
}

/* One pattern list with its commands; *last: `esac` has been taken. */
static int case_item(shell_reader *r, bool *last)
{
  int c;
  keyword ended = NONE;
  if (lines(r, &c) < 0) return -1;
  if (c != '(' && seen(r, BIT(ESAC)) == ESAC) {
    *last = true;
    return 0;
  }
  if (c == '(') r->at++;
  for (;;) {
    next(r);
    if (!mcg__shell_word(r)) return -1;
    c = next(r);
    if (c == ')') break;
    if (c != '|') return mcg__shell_no(r, "a pattern of `case` has no )");
    r->at++;
  }
  r->at++;
  if (list(r, BIT(ESAC), &ended) < 0) return -1;
  if (ended == ESAC) {
    *last = true;
    return 0;
  }
  if (char_at(r, 0) != ';' || char_at(r, 1) != ';')
    return mcg__shell_no(r, "a `case` has no `esac`");
  r->at += 2;
  c = mcg__shell_peek(r);
  return c == '&' || c == ';' ? mcg__shell_no(r, ";;& is not in all shells") : 0;
}

static int case_of(shell_reader *r)
{
  bool last = false;
  if (next(r) < 0 || strchr("\n;&|()<>", next(r))) return mcg__shell_no(r, "`case` has no word");
  if (!mcg__shell_word(r)) return -1;
  if (expect(r, IN, "`case` has no `in`") < 0) return -1;
  while (!last)
    if (case_item(r, &last) < 0) return -1;
  return 0;
}

static int compound(shell_reader *r, keyword which)
{
  switch (which) {
  case LEFT: return group(r);
  case IF: return branches(r);
  case FOR: return for_loop(r);
  case CASE: return case_of(r);
  case WHILE:
  case UNTIL: return loop(r);
  case NONE: return subshell(r);
  default: return mcg__shell_no(r, "a reserved word stands where none may be");
  }
}

static int command(shell_reader *r)
{
  const unsigned begins = BIT(LEFT) | BIT(IF) | BIT(FOR) | BIT(CASE) | BIT(WHILE) | BIT(UNTIL);
  int c = next(r);
  keyword which = NONE;
  if (c != '(') {
    which = seen(r, begins);
    if (which == OTHER) return mcg__shell_no(r, "it begins what only some shells have");
    if (which == NONE || which == IN) return simple(r);
  }
  mcg_shell_command **before = r->shell->end;
  r->compound = true;
  if (mcg__shell_deeper(r->shell, mcg__shell_place(r, r->at)) < 0) return -1;
  int rc = compound(r, which);
  r->shell->depth--;
  return rc < 0 ? -1 : redirects_after(r, before);
}

/* ---- lists -------------------------------------------------------------------------------- */

/* A second character of an operator, which no line end may stand before. */
static bool doubled(shell_reader *r, char c)
{
  r->at++;
  if (char_at(r, 0) != c) return false;
  r->at++;
  return true;
}

static int operator_goes_on(shell_reader *r, const char *with)
{
  const char *before = r->at;
  int c = mcg__shell_peek(r);
  return before != r->at && c >= 0 && strchr(with, c)
             ? mcg__shell_no(r, "a line goes on inside of an operator")
             : 0;
}

static int pipeline(shell_reader *r)
{
  bool fed = r->fed;
  int c = next(r);
  while (c != '(' && seen(r, BIT(BANG)) == BANG) {
    r->compound = true;
    c = next(r);
  }
  for (;;) {
    if (command(r) < 0) return -1;
    if (next(r) != '|' || char_at(r, 1) == '|') break;
    r->at++;
    if (char_at(r, 0) == '&') r->at++; /* bash: standard error too; elsewhere no syntax */
    if (operator_goes_on(r, "|&") < 0 || lines(r, &c) < 0) return -1;
    r->compound = true;
    r->fed = true;
  }
  r->fed = fed;
  return 0;
}

/* What is between commands: taken. 0: more may follow; 1: it is the end of the list. */
static int separator(shell_reader *r)
{
  int c = next(r);
  if (c < 0 || c == ')') return 1;
  r->compound = true;
  if (c == '\n') return lines(r, &c) < 0 ? -1 : 0;
  if (c == ';') {
    if (char_at(r, 1) == ';') return 1;
    if (char_at(r, 1) == '&') return mcg__shell_no(r, ";& is not in all shells");
    r->at++;
    return operator_goes_on(r, ";&") < 0 || lines(r, &c) < 0 ? -1 : 0;
  }
  if (c == '&' || c == '|') {
    bool two = doubled(r, (char)c);
    if (c == '|' && !two) return mcg__shell_no(r, "a | stands where none may be");
    if (operator_goes_on(r, "&|>") < 0 || lines(r, &c) < 0) return -1;
    if (two && (c < 0 || strchr(";&|)", c))) return mcg__shell_no(r, "a command is missing");
    return 0;
  }
  return -2; /* a compound command has ended: a reserved word may follow at once */
}

/* Commands up to one of the reserved words, which is taken and told; or to the end, a ')' or a ';;'. */
static int list(shell_reader *r, unsigned ends, keyword *ended)
{
  int c, rc = 0;
  bool any = false;
  if (ended) *ended = NONE;
  if (lines(r, &c) < 0) return -1;
  for (;;) {
    c = next(r);
    if (c < 0 || c == ')' || (c == ';' && char_at(r, 1) == ';')) return 0;
    if (c != '(' && ended) {
      keyword word = seen(r, ends);
      if (word != NONE && (ends & BIT(word))) {
        if (!any && !(ends & (BIT(ESAC)))) return mcg__shell_no(r, "a command is missing");
        *ended = word;
        return 0;
      }
    }
    if (rc == -2) return mcg__shell_no(r, "a separator is missing");
    if (pipeline(r) < 0) return -1;
    any = true;
    rc = separator(r);
    if (rc == -1) return -1;
  }
}

int mcg__shell_substitution(shell_reader *r, bool fed)
{
  shell_here *here = r->here;
  bool fed_outside = r->fed;
  r->here = NULL;
  r->here_end = &r->here;
  r->here_outside += here != NULL;
  r->fed = fed;
  r->compound = true;
  if (list(r, 0, NULL) < 0) return -1;
  if (next(r) != ')') return mcg__shell_no(r, "a substitution is not closed");
  if (r->here) return mcg__shell_no(r, "a here-document is not closed in a substitution");
  r->at++;
  r->fed = fed_outside;
  r->here_outside -= here != NULL;
  r->here = here;
  r->here_end = &r->here;
  while (*r->here_end) r->here_end = &(*r->here_end)->next;
  return 0;
}

int mcg__shell_text(mcg_shell *shell, const char *text, size_t len, size_t offset, bool fixed,
                    bool fed)
{
  shell_reader r;
  if (memchr(text, 0, len)) return mcg__shell_fail(shell, offset, "there is a NUL byte");
  if (mcg__shell_reader(&r, shell, text, len) < 0) return -1;
  r.offset = offset;
  r.fixed = fixed;
  r.fed = fed;
  if (mcg__shell_deeper(shell, offset) < 0 || list(&r, 0, NULL) < 0) return -1;
  shell->depth--;
  if (r.at != r.end)
    return mcg__shell_no(&r, *r.at == ')' ? "a ) opens nothing" : "a ;; stands alone");
  if (r.here) return mcg__shell_no(&r, "a here-document is not closed");
  shell->simple = !r.compound && shell->count == 1;
  return 0;
}

int mcg_shell_parse(mcg_shell *shell, const char *text, size_t len)
{
  if (len > MCG_SHELL_TEXT) return mcg__shell_fail(shell, 0, "it is longer than 64 KiB");
  if (len && (*text == '-' || *text == '+'))
    return mcg__shell_fail(shell, 0, "the shell may take it for an option");
  return mcg__shell_text(shell, text, len, 0, false, false);
}
