/* remove.c: a tree goes, however deep it is and whatever its owner does to it meanwhile. */
#include "builtin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* By descriptor, which follows no link. */
static bool change_mode(int dir, const char *name, mode_t with, mode_t mask, mode_t *was)
{
  char link[32];
  struct stat info;
  int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  bool done = fstat(fd, &info) == 0 && chmod(link, (info.st_mode & mask) | with) == 0;
  int number = errno;
  close(fd);
  errno = number;
  if (done) *was = info.st_mode & 07777;
  return done;
}

bool builtin_let_in(int dir, const char *name, mode_t *was)
{
  return change_mode(dir, name, 0700, 07777, was);
}

bool builtin_set_mode(int dir, const char *name, mode_t mode)
{
  mode_t was;
  return change_mode(dir, name, mode, 0, &was);
}

/* Directories that keep their owner out do not protect what is in them from their owner. */
static bool enter(tree_walk *walk, const char *name)
{
  struct stat info;
  mode_t was;
  if (!walk_down(walk, name) &&
      (errno != EACCES || !builtin_let_in(walk->fd, name, &was) || !walk_down(walk, name)))
    return false;
  if (fstat(walk->fd, &info) == 0 && (info.st_mode & 0300) != 0300) fchmod(walk->fd, 0700);
  return true;
}

typedef enum { EMPTY, WENT_DOWN, STUCK } outcome;

/* Removes what it can of the current directory, until it goes down into a subdirectory. */
static outcome empty_here(tree_walk *walk)
{
  static entries list;
  const char *name;
  entries_init(&list, walk->fd);
  while ((name = entries_next(&list))) {
    if (unlinkat(walk->fd, name, 0) == 0 || errno == ENOENT) continue;
    if (errno != EISDIR && errno != EPERM) break;
    if (unlinkat(walk->fd, name, AT_REMOVEDIR) == 0) continue;
    if ((errno != ENOTEMPTY && errno != EEXIST) || !enter(walk, name)) break;
    return WENT_DOWN;
  }
  if (!name) return EMPTY;
  int number = errno;
  walk_path(walk, name); /* for the message */
  errno = number;
  return STUCK;
}

/* False, errno and the walk's path: what stays. */
static bool remove_beneath(tree_walk *walk, const char *what)
{
  char name[256];
  if (!enter(walk, what)) {
    int number = errno;
    walk_path(walk, what);
    errno = number;
    return false;
  }
  while (walk->depth) {
    outcome came = empty_here(walk);
    if (came == STUCK) return false;
    if (came == WENT_DOWN) continue;
    walk_up(walk, name);
    if (unlinkat(walk->fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT) {
      int number = errno;
      walk_path(walk, name);
      errno = number;
      return false;
    }
  }
  return true;
}

static bool remove_all(int dir, const char *what, bool must)
{
  tree_walk walk;
  if (unlinkat(dir, what, 0) == 0) return true;
  bool directory = errno == EISDIR || errno == EPERM;
  if (directory && unlinkat(dir, what, AT_REMOVEDIR) == 0) return true;
  bool full = directory && (errno == ENOTEMPTY || errno == EEXIST);
  int own = full ? fcntl(dir, F_DUPFD_CLOEXEC, 0) : -1;
  if (own < 0 && must) builtin_fail(errno, "cannot remove %.200s: %s", what, strerror(errno));
  if (own < 0) return false;
  walk_init(&walk, own);
  bool removed = remove_beneath(&walk, what);
  if (!removed && must) builtin_fail(errno, "cannot remove %.200s: %s", walk.path, strerror(errno));
  walk_fini(&walk);
  return removed;
}

void tree_remove(int dir, const char *name)
{
  remove_all(dir, name, true);
}

bool tree_discard(int dir, const char *name)
{
  return remove_all(dir, name, false);
}
