/* Shell text as words: what is one simple command of plain words, checked against /bin/sh itself, and
 * what is not. */
#include "decide/words.h"
#include "cmocka_all.h"
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static char *words_of(const char *text, mcg_error **err)
{
  return mcg_shell_words(text, strlen(text), err);
}

/* What /bin/sh makes of the words, each on a line of its own. */
static void by_shell(const char *text, char *out, size_t cap)
{
  char script[512];
  snprintf(script, sizeof script, "printf '[%%s]' %s", text);
  FILE *pipe = NULL;
  int fds[2];
  assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
  pid_t pid = fork();
  if (pid == 0) {
    dup2(fds[1], 1);
    execl("/bin/sh", "sh", "-c", script, (char *)NULL);
    _exit(127);
  }
  close(fds[1]);
  pipe = fdopen(fds[0], "r");
  size_t got = fread(out, 1, cap - 1, pipe);
  out[got] = '\0';
  fclose(pipe);
  waitpid(pid, NULL, 0);
}

static void are_those_of_the_shell(void **state)
{
  (void)state;
  static const char *const texts[] = {
      "ls -la /tmp",
      "  a\tb  c ",
      "'one two' \"three four\" five",
      "a'b'\"c\"d",
      "'' \"\" x",
      "'$HOME' '`x`' '*' 'a;b'",
      "\"a'b\" 'a\"b'",
      "\"a\\\"b\" \"c\\\\d\" \"e\\$f\" \"g\\hi\"",
      "a\\ b c\\;d \\$x \\*",
      "x=1 --flag=\"a b\" a#b",
      "'caf\303\251' \"\303\251\"",
      "'line\nbreak' \"in\nside\"",
      "if then for",
      "li\\\nne \"a!b\" !x # no word",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char text[256], wanted[512], got[512] = "";
    mcg_error *err = NULL;
    by_shell(texts[i], wanted, sizeof wanted);
    snprintf(text, sizeof text, "cmd %s", texts[i]);
    json_t *words = mcg_words(text, strlen(text), &err);
    if (!words) fail_msg("%s: %s", text, err->message);
    assert_string_equal(json_string_value(json_array_get(words, 0)), "cmd");
    for (size_t k = 1; k < json_array_size(words); k++) {
      const char *word = json_string_value(json_array_get(words, k));
      snprintf(got + strlen(got), sizeof got - strlen(got), "[%s]", word);
    }
    assert_string_equal(got, wanted);
    json_decref(words);
  }
}

static void all_else_is_no_simple_command(void **state)
{
  (void)state;
  static const char *const texts[] = {
      "",
      "   ",
      "# only a comment",
      "true; x",
      "true && x",
      "true || x",
      "true | x",
      "true & x",
      "x &",
      "(x)",
      "{ x; }",
      "! x",
      "true\nx",
      "a\rb",
      "ls $(x)",
      "ls \"$(x)\"",
      "ls `x`",
      "ls \"`x`\"",
      "ls <(x)",
      "ls ${x:-y}",
      "echo $x",
      "echo \"$x\"",
      "echo${IFS}x",
      "{echo,x}",
      "$'\\x65cho' x",
      "/bin/ech?",
      "ls *",
      "ls [a]",
      "ls ~",
      "ls ~root",
      "x > y",
      "x < y",
      "x 2>&1",
      "x <<E",
      "A=1 x",
      "PATH=. ls",
      "A+=1 x",
      "if x",
      "while x",
      "for i",
      "case x",
      "function x",
      "time x",
      "[[ x",
      "coproc x",
      "'open",
      "\"open",
      "x \\",
      "'' x",
      "\302\240rm x",
      "\357\275\205cho x",
      "r\342\200\215m x",
      "\342\200\256rm",
      "x\001",
      "f() x",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    mcg_error *err = NULL;
    char *words = words_of(texts[i], &err);
    if (words) fail_msg("%s became %s", texts[i], words);
    assert_int_equal(err->code, MCG_INVALID);
    mcg_error_free(err);
  }
}

static void nul_and_length(void **state)
{
  (void)state;
  mcg_error *err = NULL;
  assert_null(mcg_shell_words("a\0b", 3, &err));
  assert_non_null(strstr(err->message, "NUL"));
  mcg_error_free(err);
  size_t len = (64 << 10) + 1;
  char *text = malloc(len);
  assert_non_null(text);
  memset(text, 'a', len);
  err = NULL;
  assert_null(mcg_shell_words(text, len, &err));
  mcg_error_free(err);
  err = NULL;
  char *words = mcg_shell_words(text, len - 1, &err);
  assert_non_null(words);
  free(words);
  free(text);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(are_those_of_the_shell),
      cmocka_unit_test(all_else_is_no_simple_command),
      cmocka_unit_test(nul_and_length),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
