/* shell_scripts.c: the small languages of sed and awk, as far as it takes to see whether a script of
 * theirs may run a command or write a file. */
#include "shell_wrap.h"
#include <string.h>

/* ---- sed ---------------------------------------------------------------------------------- */

typedef struct sed_reader {
  const char *at, *end;
} sed_reader;

static char sed_char(const sed_reader *r)
{
  return r->at < r->end ? *r->at : '\0';
}

static void sed_blanks(sed_reader *r)
{
  while (r->at < r->end && strchr(" \t", *r->at)) r->at++;
}

/* To the delimiter, which is taken. In a bracket of a regular expression it stands for itself. */
static bool sed_part(sed_reader *r, char delimiter, bool regex)
{
  while (r->at < r->end && *r->at != delimiter) {
    if (*r->at == '\\') {
      r->at++;
    } else if (*r->at == '[' && regex) {
      r->at++;
      if (sed_char(r) == '^') r->at++;
      if (sed_char(r) == ']') r->at++;
      while (r->at < r->end && *r->at != ']') {
        if (*r->at == '[' || *r->at == delimiter || *r->at == '\\')
          return false; /* [:x:]: leave it */
        r->at++;
      }
    }
    if (r->at < r->end) r->at++;
  }
  if (r->at >= r->end) return false;
  r->at++;
  return true;
}

static bool sed_address(sed_reader *r)
{
  for (;;) {
    sed_blanks(r);
    char c = sed_char(r);
    if (c == '/') {
      r->at++;
      if (!sed_part(r, '/', true)) return false;
      while (sed_char(r) && strchr("IM", sed_char(r))) r->at++;
    } else if (c == '\\' && r->end - r->at > 1 && r->at[1] != '\n' && r->at[1] != '\\') {
      char delimiter = r->at[1];
      r->at += 2;
      if (!sed_part(r, delimiter, true)) return false;
    } else if (c && strchr("0123456789$,~+!", c)) {
      r->at++;
    } else {
      return true;
    }
  }
}

/* a, i, c: text to the end of the line; a backslash takes the next one, too. */
static void sed_text(sed_reader *r)
{
  while (r->at < r->end && *r->at != '\n') r->at += *r->at == '\\' ? 2 : 1;
  if (r->at > r->end) r->at = r->end;
}

static bool sed_substitutes(sed_reader *r)
{
  char delimiter = sed_char(r);
  if (!delimiter || delimiter == '\n' || delimiter == '\\') return false;
  r->at++;
  if (!sed_part(r, delimiter, true) || !sed_part(r, delimiter, false)) return false;
  while (sed_char(r) && strchr("0123456789gpiImM", sed_char(r))) r->at++;
  sed_blanks(r);
  return !sed_char(r) || strchr(";}\n#", sed_char(r));
}

static bool sed_command(sed_reader *r)
{
  char c = sed_char(r);
  r->at++;
  if (c == 's') return sed_substitutes(r);
  if (c == 'y') {
    char delimiter = sed_char(r);
    if (!delimiter || delimiter == '\n' || delimiter == '\\') return false;
    r->at++;
    return sed_part(r, delimiter, false) && sed_part(r, delimiter, false);
  }
  if (strchr("aic", c)) {
    sed_text(r);
    return true;
  }
  if (c == '#') {
    while (r->at < r->end && *r->at != '\n') r->at++;
    return true;
  }
  if (strchr("btT:", c)) { /* GNU's label ends at a blank, and a command may follow on the line */
    sed_blanks(r);
    while (r->at < r->end && !strchr(" \t\n\v\f\r;}", *r->at)) r->at++;
    return true;
  }
  if (strchr("qQlL", c)) {
    sed_blanks(r);
    while (sed_char(r) >= '0' && sed_char(r) <= '9') r->at++;
    return true;
  }
  return strchr("{}dDgGhHnNpPxz=", c) != NULL;
}

/* True: it does nothing but edit what it prints. */
static bool sed_is_plain(const char *text, size_t len)
{
  sed_reader r = {text, text + len};
  while (r.at < r.end) {
    if (strchr(" \t\n;", *r.at)) {
      r.at++;
      continue;
    }
    if (!sed_address(&r)) return false;
    if (r.at < r.end && !sed_command(&r)) return false;
  }
  return true;
}

static int sed_script(shell_look *look, size_t word, const char *text, size_t len, bool unknown)
{
  if (unknown) return mcg__shell_code(look, word, "its script is put in at run time");
  if (sed_is_plain(text, len)) return 0;
  return mcg__shell_code(look, word, "its script may run commands or write files");
}

int mcg__shell_sed(shell_look *look)
{
  shell_option option;
  size_t first = 0;
  bool given = false;
  while (look->at < look->count) {
    size_t before = look->at;
    int rc = mcg__shell_option(look, &option);
    if (rc == 1) {
      if (!option.what || option.what == '.') continue;
      bool script = option.what == '=' && option.name[0] == 'e';
      bool file = option.what == '=' && option.name[0] == 'f' && strncmp(option.name, "follow", 6);
      if (script)
        sed_script(look, option.word + (option.whole != NULL),
                   option.argument ? option.argument : "", option.len, option.unknown_argument);
      else if (file)
        mcg__shell_note(look, &option, "its script may run commands or write files", true);
      given = given || script || file;
      continue;
    }
    if (rc < 0 && first)
      mcg__shell_unclear(look, look->at,
                         "what is put in at run time may be an option: put ./ before it");
    if (rc == 0 && look->at > before && look->at >= look->count) break;
    if (!first) first = look->at;
    look->at++;
    if (rc == 0 && look->at > before + 1) break; /* after -- there are no more */
  }
  if (given || !first) return 0;
  const mcg_shell_word *script = look->words[first];
  return sed_script(look, first, script->text, script->len, script->why != NULL);
}

/* ---- awk ---------------------------------------------------------------------------------- */

/* What runs commands, reads them, or writes files needs one of these. */
static bool awk_is_plain(const char *text)
{
  return !strstr(text, "system") && !strpbrk(text, "|@") && !strstr(text, "getline") &&
         !(strchr(text, '>') && strstr(text, "print"));
}

int mcg__shell_awk(shell_look *look)
{
  shell_option option;
  bool file = false;
  int rc;
  while ((rc = mcg__shell_option(look, &option)) == 1) {
    if (mcg__shell_take_option(look, &option) < 0) return -1;
    if (option.what == '.') return 0;
    if (!option.what)
      return mcg__shell_lost(look, option.word, "it has an option that is not known");
    if (option.what != '=') continue;
    char name = option.name[0];
    if (name == 'e' || name == 'E' || strncmp(option.name, "source", 6) == 0)
      mcg__shell_note(look, &option, "its program may run commands or write files", true);
    if (name == 'f' && strncmp(option.name, "field", 5) != 0) {
      file = true;
      if (!option.argument || option.unknown_argument || mcg__shell_is_input(option.argument) ||
          strncmp(option.argument, "/dev/", 5) == 0)
        mcg__shell_code(look, option.word + (option.whole != NULL), "it runs what it reads");
    }
  }
  if (rc < 0) return mcg__shell_lost(look, look->at, "its program is put in at run time");
  if (file || look->at >= look->count) return 0;
  const mcg_shell_word *program = look->words[look->at];
  if (program->why) return mcg__shell_code(look, look->at, "its program is put in at run time");
  if (awk_is_plain(program->text)) return 0;
  return mcg__shell_code(look, look->at, "its program may run commands or write files");
}
