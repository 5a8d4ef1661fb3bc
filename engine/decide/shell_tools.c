/* shell_tools.c: programs that run others in ways of their own: find, tar, git, ssh, make; and builtins
 * of the shell that set variables by their arguments. */
#include "shell_wrap.h"
#include <string.h>
#include <strings.h>

static bool in_list(const char *word, size_t len, const char *list)
{
  for (const char *at = list; *at; at += strspn(at, " ")) {
    size_t n = strcspn(at, " ");
    if (n == len && memcmp(at, word, len) == 0) return true;
    at += n;
  }
  return false;
}

static bool starts(const char *text, const char *with)
{
  return strncmp(text, with, strlen(with)) == 0;
}

static bool ends_with(const char *text, const char *end)
{
  size_t len = strlen(text), n = strlen(end);
  return len >= n && strcmp(text + len - n, end) == 0;
}

/* Can a word of which this much is known begin with that? */
static bool may_begin(const char *prefix, const char *with)
{
  size_t len = strlen(prefix), n = strlen(with);
  return strncmp(prefix, with, len < n ? len : n) == 0;
}

static int maybe_option(shell_look *look, size_t word)
{
  return mcg__shell_unclear(look, word,
                            "what is put in at run time may be an option: put ./ before it");
}

/* ---- find --------------------------------------------------------------------------------- */

/* The command after -exec, to its ';' or '+'; each {} is a name that find puts in. */
static int find_exec(shell_look *look)
{
  mcg_shell_word *first = NULL, **end = &first;
  size_t count = 0, from = look->at++;
  for (; look->at < look->count; look->at++) {
    const mcg_shell_word *word = look->words[look->at];
    if (mcg__shell_word_is(word, ";")) break;
    if (mcg__shell_word_is(word, "+") && mcg__shell_word_is(look->words[look->at - 1], "{}")) break;
    *end = mcg__shell_copy_word(look->shell, word);
    if (!*end) return -1;
    if (!word->why && strstr(word->text, "{}")) {
      bool start = word->text[0] != '{';
      (*end)->why = "a file that find has found";
      (*end)->prefix = "";
      (*end)->plain_start = start && word->plain_start;
    }
    end = &(*end)->next;
    count++;
  }
  if (look->at >= look->count || !count)
    return mcg__shell_unclear(look, from, "its -exec has no end");
  return mcg__shell_inner_words(look, first, count, NULL);
}

int mcg__shell_find(shell_look *look)
{
  static const char execs[] = "-exec -execdir -ok -okdir";
  static const char writes[] = "-delete -fprint -fprint0 -fprintf -fls -files0-from";
  for (; look->at < look->count; look->at++) {
    const mcg_shell_word *word = look->words[look->at];
    if (word->why) {
      if (!word->plain_start) maybe_option(look, look->at);
    } else if (in_list(word->text, word->len, execs)) {
      if (find_exec(look) < 0) return -1;
    } else if (in_list(word->text, word->len, writes)) {
      mcg__shell_unclear(look, look->at, "an option of it deletes or writes files");
    }
  }
  return 0;
}

/* ---- tar ---------------------------------------------------------------------------------- */

static int checkpoint_action(shell_look *look, const shell_option *option)
{
  if (!option->argument || option->unknown_argument)
    return mcg__shell_note(look, option, "what its option runs is put in at run time", false);
  if (starts(option->argument, "exec="))
    return mcg__shell_inner_text(look, option->word, option->argument + 5, option->len - 5);
  return 0; /* dot, echo, sleep ... */
}

/* tar cIf PROGRAM FILE: the first word is options, without a dash. */
static int old_style(shell_look *look)
{
  if (look->count < 2 || look->words[1]->text[0] == '-') return 0;
  if (look->words[1]->why)
    return look->words[1]->plain_start && look->words[1]->prefix[0] != '.' ? maybe_option(look, 1)
                                                                           : 0;
  if (strpbrk(look->words[1]->text, "IF"))
    return mcg__shell_unclear(look, 1, "an option of it runs something that is not told");
  look->at = 2;
  return 0;
}

int mcg__shell_tar(shell_look *look)
{
  shell_option option;
  old_style(look);
  while (look->at < look->count) {
    size_t before = look->at;
    int rc = mcg__shell_option(look, &option);
    if (rc == 1) {
      bool action = option.what == '^' && starts(option.name, "checkpoint-action");
      if ((action ? checkpoint_action(look, &option) : mcg__shell_take_option(look, &option)) < 0)
        return -1;
      continue;
    }
    if (rc < 0) maybe_option(look, look->at);
    if (rc == 0 && look->at > before) return 0;
    look->at++;
  }
  return 0;
}

/* ---- git ---------------------------------------------------------------------------------- */

/* Settings that change nothing but what is shown and who is named. */
static bool harmless_setting(const char *setting)
{
  static const char *const names[] = {
      "user.name=",          "user.email=",          "color.",   "core.quotepath=", "advice.",
      "init.defaultBranch=", "commit.gpgsign=false", "gc.auto=", "core.autocrlf="};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncasecmp(setting, names[i], strlen(names[i])) == 0) return true;
  return false;
}

static const char git_verbs[] =
    "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore "
    "check-mailmap check-ref-format checkout checkout-index cherry cherry-pick clean clone column "
    "commit commit-graph commit-tree count-objects describe diff diff-files diff-index diff-tree "
    "fetch for-each-ref format-patch fsck gc grep hash-object help index-pack init log ls-files "
    "ls-remote ls-tree merge merge-base merge-file merge-tree mktag mktree mv name-rev notes "
    "pack-objects pack-refs prune pull push range-diff read-tree rebase reflog remote repack "
    "replace request-pull rerere reset restore rev-list rev-parse revert rm shortlog show "
    "show-branch show-ref sparse-checkout stash status stripspace submodule switch symbolic-ref "
    "tag unpack-objects update-index update-ref var verify-commit verify-pack verify-tag version "
    "whatchanged worktree write-tree config";

/* Long options of verbs by which something is run; they may be abbreviated. */
static const char *const git_options[] = {"upload-pack",
                                          "receive-pack",
                                          "exec",
                                          "ext-diff",
                                          "textconv",
                                          "extcmd",
                                          "template",
                                          "config",
                                          "open-files-in-pager",
                                          "output",
                                          "server-option",
                                          "gpg-sign",
                                          "recurse-submodules-default",
                                          "tool"};

static bool git_long(const char *text)
{
  size_t len = strcspn(text, "=");
  for (size_t i = 0; len && i < sizeof git_options / sizeof *git_options; i++)
    if (strncmp(git_options[i], text, len) == 0) return true;
  return false;
}

/* What of single verbs runs something, or writes a file that a word of it names: short options, a long
 * one, a word. */
static const struct git_way {
  const char *verb, *shorts, *longer, *word;
} git_ways[] = {
    {"archive", "o", "", ""},
    {"bisect", "", "", "run"},
    {"bundle", "", "", "create"},
    {"checkout-index", "", "prefix", ""},
    {"clone", "uc", "", ""},
    {"format-patch", "o", "output-directory", ""},
    {"grep", "O", "", ""},
    {"index-pack", "o", "", ""},
    {"read-tree", "", "index-output", ""},
    {"rebase", "x", "", ""},
    {"submodule", "", "", "foreach"},
};

static const struct git_way *git_way_of(const char *verb)
{
  static const struct git_way none = {"", "", "", ""};
  for (size_t i = 0; i < sizeof git_ways / sizeof *git_ways; i++)
    if (strcmp(git_ways[i].verb, verb) == 0) return &git_ways[i];
  return &none;
}

/* Of how many bytes of a word it is that git runs or writes something; 0: it does not. */
static size_t git_word_runs(const char *verb, const mcg_shell_word *word)
{
  const struct git_way *way = git_way_of(verb);
  const char *text = word->why ? word->prefix : word->text, *transport = strstr(text, "ext::");
  if (!transport) transport = strstr(text, "fd::");
  if (transport) return (size_t)(strstr(transport, "::") - text) + 2;
  if (word->why) return *way->word && may_begin(text, way->word);
  size_t name = strcspn(text, "=");
  if (text[0] == '-' && text[1] == '-')
    return git_long(text + 2) || (name > 2 && strncmp(way->longer, text + 2, name - 2) == 0)
               ? name + (text[name] == '=')
               : 0;
  const char *letter = text[0] == '-' ? strpbrk(text + 1, way->shorts) : NULL;
  if (letter) return (size_t)(letter - text) + 1;
  return *way->word && strcmp(text, way->word) == 0 ? word->len : 0;
}

/* git config only reads when it is told to: by its first word, or by options before the others. */
static bool git_config_reads(const shell_look *look)
{
  static const shell_row config = {
      "git", SHELL_TOOL,
      "get. get-all. get-regexp. get-urlmatch. get-color. get-colorbool. l,list. f,file= blob= "
      "default= comment= value= t,type= e,edit~ global system local worktree bool int bool-or-int "
      "bool-or-str path expiry-date z,null name-only includes no-includes show-origin show-scope",
      0, 0};
  shell_look inner = *look;
  shell_option option;
  inner.row = &config;
  if (look->at >= look->count) return true;
  if (in_list(look->words[look->at]->text, look->words[look->at]->len, "get list")) return true;
  while (mcg__shell_option(&inner, &option) == 1) {
    if (option.what == '.') return true;
    if (option.what != ' ' && option.what != '=') return false;
  }
  return false;
}

static int git_verb(shell_look *look)
{
  const char *const runs = "a word of it has git run something";
  const mcg_shell_word *verb = look->words[look->at++];
  if (verb->why || !in_list(verb->text, verb->len, git_verbs))
    return mcg__shell_unclear(look, look->at - 1,
                              "it may be an alias, or a program that git does not come with");
  if (strcmp(verb->text, "config") == 0 && !git_config_reads(look))
    return mcg__shell_unclear(look, look->at - 1, "it changes what git runs later");
  for (bool paths = false; look->at < look->count; look->at++) {
    const mcg_shell_word *word = look->words[look->at];
    if (mcg__shell_word_is(word, "--")) paths = true;
    if (paths) continue;
    if (word->why && !word->plain_start) maybe_option(look, look->at);
    size_t upto = git_word_runs(verb->text, word);
    if (upto) mcg__shell_note(look, &(shell_option){.word = look->at, .upto = upto}, runs, false);
  }
  return 0;
}

int mcg__shell_git(shell_look *look)
{
  shell_option option;
  int rc;
  while ((rc = mcg__shell_option(look, &option)) == 1) {
    if (mcg__shell_take_option(look, &option) < 0) return -1;
    if (option.what == '.') return 0;
    if (!option.what)
      return mcg__shell_lost(look, option.word, "it has an option that is not known");
    if (option.name[0] != 'c' || option.name_len != 1) continue;
    if (!option.argument || option.unknown_argument || !harmless_setting(option.argument))
      mcg__shell_unclear(look, option.word + (option.whole ? 1 : 0),
                         "a setting of it may be a program that git runs");
  }
  if (rc < 0) return mcg__shell_lost(look, look->at, "what is put in at run time may be an option");
  return look->at < look->count ? git_verb(look) : 0;
}

/* ---- ssh, make, dd ------------------------------------------------------------------------ */

static bool ssh_setting_runs(const char *setting)
{
  static const char *const names[] = {
      "proxycommand",   "localcommand",        "permitlocalcommand", "include", "knownhostscommand",
      "pkcs11provider", "securitykeyprovider", "xauthlocation",      "match",   "smartcarddevice"};
  setting += strspn(setting, " \t\r\n\f=\""); /* which ssh passes over */
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncasecmp(setting, names[i], strlen(names[i])) == 0) return true;
  return false;
}

/* Options may follow the host, too; the word after it is what runs there. */
int mcg__shell_ssh(shell_look *look)
{
  shell_option option;
  bool shell = ends_with(look->row->name, "ssh");
  for (size_t operands = 0; look->at < look->count;) {
    size_t before = look->at;
    int rc = mcg__shell_option(look, &option);
    if (rc == 1) {
      if (mcg__shell_take_option(look, &option) < 0) return -1;
      if (option.name[0] == 'o' &&
          (!option.argument || option.unknown_argument || ssh_setting_runs(option.argument)))
        mcg__shell_unclear(look, option.word + (option.whole != NULL),
                           "a setting of it runs something that is not told");
      continue;
    }
    if (rc == 0 && look->at > before) continue; /* -- */
    if (rc < 0) maybe_option(look, look->at);
    if (rc == 0 && shell && operands++ > 0) return 0;
    look->at++;
  }
  if (strcmp(look->row->name, "sftp") == 0)
    mcg__shell_code(look, SIZE_MAX, "it runs what it reads");
  return 0;
}

/* Names of variables, with blanks between them, which make and its own rules run. */
static const char make_programs[] =
    "AR AS CC CO CPP CTANGLE CWEAVE CXX F77 FC GET LD LEX LINT M2C MAKEINFO OBJC PC RM TANGLE TEX "
    "TEXI2DVI WEAVE YACC";

/* NAME=VALUE with all ways to write it: a name between blanks, and := ::= :::= ?= += !=. */
static int make_variable(shell_look *look, size_t word)
{
  const char *text = look->words[word]->text, *equals = strchr(text, '=');
  if (!equals) return 0;
  const char *name = text + strspn(text, " \t\n\v\f\r"), *end = equals;
  while (end > name && strchr(":?+!", end[-1])) end--;
  bool runs = memchr(end, '!', (size_t)(equals - end)) != NULL;
  while (end > name && strchr(" \t\n\v\f\r", end[-1])) end--;
  size_t len = (size_t)(end - name);
  runs = runs || in_list(name, len, "SHELL .SHELLFLAGS GNUMAKEFLAGS") || starts(name, "MAKE") ||
         starts(name, "COMPILE.") || starts(name, "LINK.") || starts(name, "PREPROCESS.") ||
         strpbrk(name, "$") || strpbrk(equals, ";&|`<>()#\n") || memchr(name, ' ', len) ||
         memchr(name, '\t', len);
  if (runs) return mcg__shell_unclear(look, word, "a variable of it may be run");
  if (!in_list(name, len, make_programs) || !equals[1 + strspn(equals + 1, " \t")]) return 0;
  return mcg__shell_inner_text(look, word, equals + 1, strlen(equals + 1));
}

int mcg__shell_make(shell_look *look)
{
  shell_option option;
  for (bool operands = false; look->at < look->count;) { /* operands: after -- */
    size_t before = look->at;
    int rc = operands ? 0 : mcg__shell_option(look, &option);
    if (rc == 1) {
      if (mcg__shell_take_option(look, &option) < 0) return -1;
      bool file = option.what == '=' && (option.name[0] == 'f' || starts(option.name, "makefile"));
      if (file && option.argument &&
          (option.unknown_argument || mcg__shell_is_input(option.argument)))
        mcg__shell_code(look, option.word + (option.whole != NULL), "it runs what it reads");
      continue;
    }
    operands = operands || (rc == 0 && look->at > before);
    if (look->at >= look->count) return 0;
    if (look->words[look->at]->why)
      mcg__shell_unclear(look, look->at, "what is put in at run time may be a variable of it");
    else if (make_variable(look, look->at) < 0)
      return -1;
    look->at++;
  }
  return 0;
}

int mcg__shell_dd(shell_look *look)
{
  for (; look->at < look->count; look->at++) {
    const mcg_shell_word *word = look->words[look->at];
    if (word->why ? !word->plain_start || word->many || may_begin(word->prefix, "of=")
                  : starts(word->text, "of="))
      mcg__shell_unclear(look, look->at, "an option of it writes a file");
  }
  return 0;
}

/* ---- builtins ----------------------------------------------------------------------------- */

/* bash runs what stands in a subscript: test -v 'x[$(command)]'. Words that are split may bring one. */
int mcg__shell_test(shell_look *look)
{
  for (; look->at < look->count; look->at++) {
    const mcg_shell_word *word = look->words[look->at];
    bool variable = mcg__shell_word_is(word, "-v") || mcg__shell_word_is(word, "-R");
    const mcg_shell_word *next = look->at + 1 < look->count ? look->words[look->at + 1] : NULL;
    if (variable && next && (next->why || strchr(next->text, '[')) && strcmp(next->text, "]") != 0)
      mcg__shell_unclear(look, look->at, "bash evaluates a subscript there");
    if (word->many && !word->plain_start)
      mcg__shell_unclear(look, look->at,
                         "what is put in at run time may be several words: quote it");
  }
  return 0;
}

int mcg__shell_printf(shell_look *look)
{
  if (look->at >= look->count) return 0;
  const mcg_shell_word *first = look->words[1];
  if (first->why && !first->plain_start)
    return mcg__shell_unclear(look, 1,
                              "what is put in at run time may be an option: printf '%s' ...");
  if (first->why || !starts(first->text, "-v")) return 0;
  if (first->len > 2 || look->count < 3)
    return mcg__shell_unclear(look, 1, "which variable it sets cannot be told");
  return mcg__shell_sets(look, look->words[2]);
}

/* What makes a compiler run or load something else: other programs, plugins, files of options. */
int mcg__shell_compiler(shell_look *look)
{
  static const char *const options[] = {
      "-wrapper", "-fplugin",  "-fpass-plugin", "-specs",         "--specs",         "-B",
      "-Xclang",  "@",         "--prefix",      "-gcc-toolchain", "--gcc-toolchain", "-cc1",
      "--config", "--ld-path", "-fuse-ld=/",    "-fuse-ld=."};
  for (; look->at < look->count; look->at++) {
    const mcg_shell_word *word = look->words[look->at];
    const char *found = NULL;
    if (word->why && !word->plain_start) maybe_option(look, look->at);
    for (size_t i = 0; !word->why && i < sizeof options / sizeof *options; i++)
      if (starts(word->text, options[i])) found = options[i];
    bool linker = !word->why && (starts(word->text, "-Wl,") ||
                                 mcg__shell_word_is(look->words[look->at - 1], "-Xlinker"));
    if (linker && (strstr(word->text, "-plugin") || strchr(word->text, '@'))) found = word->text;
    if (found)
      mcg__shell_note(look, &(shell_option){.word = look->at, .upto = strlen(found)},
                      "an option of it runs or loads something that is not told", false);
  }
  return 0;
}
