/* mounted.c: reads /proc/self/mountinfo, whose fifth field is where something is mounted. */
#include "mounted.h"
#include "builtin.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POINT 4 /* fields before it */

static _Noreturn void unknown(void)
{
  builtin_fail(errno ? errno : EIO, "cannot see what is mounted: %s", strerror(errno));
}

/* Blanks, tabs, newlines and backslashes stand there as \ooo. */
static void unescape(char *text)
{
  char *to = text;
  for (const char *at = text; *at; to++) {
    unsigned value;
    if (*at == '\\' && sscanf(at + 1, "%3o", &value) == 1 && strlen(at) > 3) {
      *to = (char)value;
      at += 4;
    } else {
      *to = *at++;
    }
  }
  *to = 0;
}

/* The field itself, cut off in the line; NULL: it has none. */
static char *point_of(char *line)
{
  for (int i = 0; line && i < POINT; i++)
    if ((line = strchr(line, ' '))) line++;
  char *end = line ? strchr(line, ' ') : NULL;
  if (!end) return NULL;
  *end = 0;
  unescape(line);
  return line;
}

static void add(mounted *self, const char *path)
{
  char **grown = reallocarray(self->paths, self->count + 1, sizeof *grown);
  if (!grown) builtin_fail(ENOMEM, "out of memory");
  self->paths = grown;
  grown[self->count] = builtin_alloc(strlen(path) + 1);
  memcpy(grown[self->count++], path, strlen(path) + 1);
}

void mounted_read(int dir, mounted *out)
{
  char own[PATH_MAX + 1], link[32], *line = NULL;
  size_t cap = 0;
  *out = (mounted){0};
  snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
  ssize_t len = readlink(link, own, sizeof own - 1);
  errno = len == (ssize_t)sizeof own - 1 ? ENAMETOOLONG : errno;
  if (len <= 0 || len == (ssize_t)sizeof own - 1) unknown();
  if (own[len - 1] == '/') len--; /* the root */
  FILE *file = fopen("/proc/self/mountinfo", "re");
  if (!file) unknown();
  while (getline(&line, &cap, file) > 0) {
    const char *point = point_of(line);
    if (point && strncmp(point, own, (size_t)len) == 0 && point[len] == '/' && point[len + 1])
      add(out, point + len + 1);
  }
  if (ferror(file)) unknown();
  free(line);
  fclose(file);
}

bool mounted_at(const mounted *self, const char *path)
{
  for (size_t i = 0; i < self->count; i++)
    if (strcmp(self->paths[i], path) == 0) return true;
  return false;
}

bool mounted_within(const mounted *self, const char *path)
{
  size_t len = strlen(path);
  for (size_t i = 0; i < self->count; i++) {
    const char *one = self->paths[i];
    if (strncmp(one, path, len) == 0 && (!one[len] || one[len] == '/')) return true;
  }
  return false;
}
