/* The parser of shell text and the table of programs that run others: bounds, places, and that the table
 * can be searched. What shells make of texts is compared in tests/shell. */
#include "decide/shell.h"
#include "decide/shell_wrap.h"
#include "cmocka_all.h"

static void the_table_is_in_order(void **state)
{
  (void)state;
  size_t count;
  const shell_row *rows = mcg__shell_rows(&count);
  for (size_t i = 0; i < count; i++) {
    if (i > 0 && strcmp(rows[i - 1].name, rows[i].name) >= 0)
      fail_msg("%s stands before %s", rows[i - 1].name, rows[i].name);
    assert_ptr_equal(mcg__shell_row(rows[i].name, strlen(rows[i].name)), &rows[i]);
  }
  assert_string_equal(mcg__shell_row("/usr/bin/python3.11", 19)->name, "python3");
  assert_string_equal(mcg__shell_row("/lib64/ld-linux-x86-64.so.2", 27)->name, "ld.so");
  assert_string_equal(mcg__shell_row("perl5.36-x86_64-linux-gnu", 25)->name, "perl");
  assert_string_equal(mcg__shell_row("x86_64-linux-gnu-gcc-12", 23)->name, "gcc");
  assert_string_equal(mcg__shell_row("arm-linux-gnueabihf-g++", 23)->name, "g++");
  assert_null(mcg__shell_row("x-linux-gnu", 11));
  assert_null(mcg__shell_row("-linux-", 7));
  assert_null(mcg__shell_row("ls", 2));
  assert_null(mcg__shell_row("env/", 4));
}

static void take_apart(mcg_shell *shell, const char *text)
{
  mcg_shell_init(shell);
  if (mcg_shell_parse(shell, text, strlen(text)) < 0 || mcg_shell_unwrap(shell) < 0)
    fail_msg("%s: at %zu: %s", text, shell->why_at, shell->why);
}

/* The programs of a text, in the order that they are told. */
static void programs(const char *text, const char *wanted)
{
  char got[512] = "";
  mcg_shell shell;
  take_apart(&shell, text);
  for (const mcg_shell_command *each = shell.first; each; each = each->next)
    snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", *got ? " " : "",
             each->words ? each->words->text : "-");
  mcg_shell_fini(&shell);
  assert_string_equal(got, wanted);
}

static void commands_are_found_where_they_stand(void **state)
{
  (void)state;
  programs("a; b && c || d | e & f", "a b c d e f");
  programs("a \"$(b `c`)\" ${x:-$(d)}", "c b d a");
  programs("if a; then b; else c; fi; case x in y) d;; esac", "a b c d");
  programs("a <<E\n$(b)\nE\nc", "a b c");
  programs("env -S 'nice sh -c \"a; b\"' x", "env env nice sh a b");
  programs("find . -exec a {} + -ok b \\;", "find a b");
  programs("sh -c - 'a'; sh -c + 'b'; sh -ec + - 'c'; bash -o errexit -c 'd'",
           "sh sh sh bash a b c d");
  programs("xargs -I{} -n2 env; xargs -n2 -I{} nice a {}", "xargs xargs env nice a");
  programs("ssh --; ssh -- h a; git --; make --; sh --; env --; sftp --", /* and no more */
           "ssh ssh git make sh env sftp");
  programs("x=1 >f", "-");
  programs("", "");
}

static void refused_at(const char *text, size_t len, size_t at, const char *why)
{
  mcg_shell shell;
  mcg_shell_init(&shell);
  assert_int_equal(mcg_shell_parse(&shell, text, len), -1);
  if (!strstr(shell.why, why)) fail_msg("%.40s: %s", text, shell.why);
  assert_int_equal(shell.why_at, at);
  mcg_shell_fini(&shell);
}

static char *repeated(const char *text, size_t times)
{
  size_t len = strlen(text);
  char *all = malloc(len * times + 1);
  assert_non_null(all);
  for (size_t i = 0; i < times; i++) memcpy(all + i * len, text, len);
  all[len * times] = '\0';
  return all;
}

static void what_is_not_understood_has_a_place(void **state)
{
  (void)state;
  refused_at("ls; [[ x ]]", 11, 4, "only some shells");
  refused_at("ls 'x", 5, 5, "not closed");
  refused_at("a\0b", 3, 0, "NUL");
  refused_at("-c", 2, 0, "option");
}

static void everything_has_a_bound(void **state)
{
  (void)state;
  char *text = repeated("a;", MCG_SHELL_COMMANDS + 1);
  refused_at(text, strlen(text), 2 * MCG_SHELL_COMMANDS, "1000 commands");
  free(text);
  text = repeated("$(", 1000);
  refused_at(text, strlen(text), 2 * (MCG_SHELL_DEPTH - 1), "too deeply");
  free(text);
  text = repeated("a", MCG_SHELL_TEXT + 1);
  refused_at(text, MCG_SHELL_TEXT + 1, 0, "64 KiB");
  free(text);
  mcg_shell shell;
  mcg_shell_init(&shell);
  text = repeated("env ", 200);
  assert_int_equal(mcg_shell_parse(&shell, text, strlen(text)), 0);
  assert_int_equal(mcg_shell_unwrap(&shell), 0);
  assert_true(shell.count <= MCG_SHELL_DEPTH + 2);
  mcg_shell_fini(&shell);
  free(text);
}

static void a_list_of_arguments_is_read_as_it_is(void **state)
{
  (void)state;
  const char *const argv[] = {"sudo", "-u", "x", "sh", "-c", "a $(b)"};
  mcg_error *err = NULL;
  char *commands = mcg_argv_commands(argv, NULL, 6, &err);
  assert_non_null(commands);
  assert_non_null(strstr(commands, "{\"words\":[\"b\"]"));
  free(commands);
  commands = mcg_argv_commands((const char *const[]){"$(a)", ";", "b"}, NULL, 3, &err);
  assert_string_equal(commands, "[{\"words\":[\"$(a)\",\";\",\"b\"],\"at\":1}]");
  free(commands);
  size_t len = 3;
  assert_null(mcg_argv_commands((const char *const[]){"a\0b"}, &len, 1, &err));
  assert_non_null(strstr(err->message, "NUL"));
  mcg_error_free(err);
}

/* The words that make the commands of a text unclear, each with its bytes; c: it is code. */
static void untold(const char *text, const char *wanted)
{
  char got[512] = "";
  mcg_shell shell;
  take_apart(&shell, text);
  for (const mcg_shell_command *command = shell.first; command; command = command->next)
    for (const mcg_shell_untold *each = command->untold; each; each = each->next)
      snprintf(got + strlen(got), sizeof got - strlen(got), "%s%zu:%zu%s", *got ? " " : "",
               each->word, each->upto, each->code ? "c" : "");
  mcg_shell_fini(&shell);
  if (strcmp(got, wanted) != 0) fail_msg("%s: %s, not %s", text, got, wanted);
}

static void all_that_is_not_told_has_a_place(void **state)
{
  (void)state;
  untold("git -c core.pager=x -c alias.x=y x", "3:11 5:8 6:1");
  untold("git log --output=f --ext-diff", "3:9 4:10");
  untold("git archive -vof HEAD", "3:3");
  untold("git format-patch -o d --output-dir=d -1", "3:2 5:13");
  untold("curl -so f -K g --conf=h", "2:3 4:2 6:7");
  untold("dd of=a if=b of=c", "2:3 4:3");
  untold("make SHELL=a ' SHELL ?= b' CC=d", "2:6 3:9");
  untold("gcc -B. -c x.c --prefix=d", "2:2 5:8");
  untold("python3 -Bc x -c y", "2:3c");
  untold("perl -e x -le y", "2:2c 4:3c");
  untold("python3", "0:0c");
  untold("python3 /dev/stdin", "2:10c");
  untold("node --frob x -e y", "2:6c 4:2c");
  untold("nice --frob x", "2:6 3:1");
  untold("gdb -batch -ex x", "2:6c 3:3c 4:1c");
  untold("sh -ec \"$x\"", "2:3c");
  untold("env -u $x", "3:2");
  untold("$x", "1:2");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_table_is_in_order),
      cmocka_unit_test(commands_are_found_where_they_stand),
      cmocka_unit_test(what_is_not_understood_has_a_place),
      cmocka_unit_test(all_that_is_not_told_has_a_place),
      cmocka_unit_test(everything_has_a_bound),
      cmocka_unit_test(a_list_of_arguments_is_read_as_it_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
