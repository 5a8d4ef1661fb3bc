/* remove.c: a tree goes, however deep it is and whatever its owner does to it meanwhile. */
#include "builtin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Write-protected directories do not protect what is in them from their owner. */
static void enter(tree_walk *walk, const char *name)
{
  struct stat info;
  if (!walk_down(walk, name))
    builtin_fail(errno, "cannot enter %.150s of %.80s: %s", name, walk->path, strerror(errno));
  if (fstat(walk->fd, &info) == 0 && (info.st_mode & 0300) != 0300) fchmod(walk->fd, 0700);
}

static _Noreturn void failed(const char *name)
{
  builtin_fail(errno, "cannot remove %.200s: %s", name, strerror(errno));
}

/* What stays, since something is mounted there or beneath: only tree_empty has any. */
static struct stat *kept;
static size_t kept_count;
static bool keeps;

static bool is_kept(int dir, const char *name)
{
  struct stat info;
  if (!kept_count || fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) < 0) return false;
  for (size_t i = 0; i < kept_count; i++)
    if (kept[i].st_dev == info.st_dev && kept[i].st_ino == info.st_ino) return true;
  return false;
}

static void keep(int dir, const char *name)
{
  struct stat *grown = reallocarray(kept, kept_count + 1, sizeof *kept);
  if (!grown) builtin_fail(ENOMEM, "out of memory");
  kept = grown;
  if (fstatat(dir, name, &kept[kept_count], AT_SYMLINK_NOFOLLOW) == 0) kept_count++;
}

/* Removes what it can of the current directory: false when it went down into a subdirectory. */
static bool empty_here(tree_walk *walk)
{
  static entries list;
  const char *name;
  entries_init(&list, walk->fd);
  while ((name = entries_next(&list))) {
    if (unlinkat(walk->fd, name, 0) == 0 || errno == ENOENT || (keeps && errno == EBUSY)) continue;
    if (errno != EISDIR && errno != EPERM) failed(name);
    if (is_kept(walk->fd, name)) continue;
    if (unlinkat(walk->fd, name, AT_REMOVEDIR) == 0 || (keeps && errno == EBUSY)) continue;
    if (errno != ENOTEMPTY && errno != EEXIST) failed(name);
    enter(walk, name);
    return false;
  }
  return true;
}

void tree_empty(int dir, int but)
{
  char name[256];
  tree_walk walk;
  keeps = true;
  kept_count = 0;
  keep(but, ".");
  walk_init(&walk, dir);
  for (;;) {
    if (!empty_here(&walk)) continue; /* one down */
    if (!walk_up(&walk, name)) break;
    if (unlinkat(walk.fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) keep(walk.fd, name);
  }
  walk_fini(&walk);
}

void tree_remove(int dir, const char *what)
{
  char name[256];
  tree_walk walk;
  if (unlinkat(dir, what, 0) == 0) return;
  if (errno != EISDIR && errno != EPERM) failed(what);
  if (unlinkat(dir, what, AT_REMOVEDIR) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) failed(what);
  int own = fcntl(dir, F_DUPFD_CLOEXEC, 0);
  if (own < 0) failed(what);
  keeps = false;
  kept_count = 0;
  walk_init(&walk, own);
  enter(&walk, what);
  while (walk.depth) {
    if (!empty_here(&walk)) continue;
    walk_up(&walk, name);
    if (unlinkat(walk.fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) failed(name);
  }
  walk_fini(&walk);
}
