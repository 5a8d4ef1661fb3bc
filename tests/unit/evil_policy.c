/* evil_policy.c: stands in for mooncage-policy, for test_stranger.c: what the process of a policy could
 * do if it had been taken over. What it does is the first word of the policy's source. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say(const char *text)
{
  size_t len = strlen(text);
  while (len) {
    ssize_t put = write(1, text, len);
    if (put <= 0) _exit(1);
    text += put;
    len -= (size_t)put;
  }
}

static char line[65536]; /* begins with 26 bytes and a blank, which its answer has to begin with */

static void answer(const char *text)
{
  char mark[27];
  memcpy(mark, line, 26);
  mark[26] = '\0';
  say(mark);
  say(text);
}

static void flood(void)
{
  static char many[65536];
  memset(many, 'x', sizeof many - 1);
  for (;;) say(many);
}

static void nest(void)
{
  answer("");
  for (int i = 0; i < 10000; i++) say("{\"answer\":");
  say("1\n");
}

int main(void)
{
  if (!fgets(line, sizeof line, stdin)) return 1;
  const char *how = strstr(line, "\"source\":\"");
  if (!how) return 2;
  how += strlen("\"source\":\"");
  bool early = strncmp(how, "early", 5) == 0;
  char word[16] = "";
  sscanf(how, "%15[a-z]", word);
  answer("{\"answer\":{}}\n");
  if (early) answer("{\"answer\":{\"allow\":true}}\n");
  while (fgets(line, sizeof line, stdin)) {
    if (strcmp(word, "flood") == 0) flood();
    if (strcmp(word, "nest") == 0) nest();
    if (strcmp(word, "never") == 0) pause();
    if (strcmp(word, "exit") == 0) return 0;
    if (strcmp(word, "two") == 0)
      answer("{\"answer\":{\"allow\":true}}\n{\"answer\":{\"allow\":true}}\n");
    if (strcmp(word, "garbage") == 0) answer("\xff\xfe{]\n");
    if (strcmp(word, "list") == 0) answer("[true]\n");
    if (strcmp(word, "yes") == 0) answer("{\"answer\":true}\n");
    if (strcmp(word, "good") == 0)
      answer("{\"answer\":{\"allow\":true},\"log\":\"a\\nb\\u001b\"}\n");
  }
  return 0;
}
