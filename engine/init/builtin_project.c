/* builtin_project.c: the built-ins of the project view: changes, changeset, apply. */
#include "builtin.h"
#include "project.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void ended(int rc, const mcg_trouble *trouble)
{
  if (rc < 0) builtin_fail(trouble->number, "%s", trouble->text);
}

void builtin_changes(int argc, char **argv)
{
  (void)argc;
  int old_dir = paths_need(argv[1], O_RDONLY | O_DIRECTORY);
  int new_dir = paths_need(argv[2], O_RDONLY | O_DIRECTORY);
  mcg_trouble trouble = {0};
  ended(mcg_project_scan(old_dir, new_dir, strcmp(argv[0], "changeset") == 0, 1, &trouble),
        &trouble);
}

static int64_t number(const char *text)
{
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || !*text || *end || value < 0) builtin_fail(EINVAL, "\"%s\" is not a number", text);
  return value;
}

enum { APPLY_GIT = 1, APPLY_JUDGE = 2 };

void builtin_apply(int argc, char **argv)
{
  (void)argc;
  int dir = paths_need(argv[1], O_RDONLY | O_DIRECTORY);
  int64_t how = number(argv[4]);
  mcg_apply_options options = {.since_s = number(argv[2]),
                               .since_ns = (uint32_t)number(argv[3]),
                               .git = how & APPLY_GIT,
                               .judge_only = how & APPLY_JUDGE};
  mcg_trouble trouble = {0};
  ended(mcg_project_write_back(dir, &options, 0, 1, &trouble), &trouble);
}
