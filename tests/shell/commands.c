/* Reads texts, each with a NUL after it, from standard input; writes a line for each: its commands as
 * mcg_shell_commands tells them, or null. */
#include <mooncage/mooncage.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
  char *text = NULL;
  size_t room = 0;
  ssize_t got;
  while ((got = getdelim(&text, &room, '\0', stdin)) > 0) {
    size_t len = (size_t)got - (text[got - 1] == '\0');
    mcg_error *err = NULL;
    char *commands = mcg_shell_commands(text, len, &err);
    puts(commands ? commands : "null");
    free(commands);
    mcg_error_free(err);
  }
  free(text);
  return 0;
}
