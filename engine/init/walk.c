/* walk.c: through a tree that its owner may change meanwhile. Going up is by "..", and only to the very
 * directory one came from: were it moved, the walk ends rather than wander off. */
#include "builtin.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void walk_init(tree_walk *walk, int fd)
{
  *walk = (tree_walk){.fd = fd, .path_cap = 4096, .path = builtin_alloc(4096)};
}

void walk_fini(tree_walk *walk)
{
  close(walk->fd);
  free(walk->levels);
  free(walk->path);
}

/* The current directory's own path ends at the last level's path_len. */
static size_t here(const tree_walk *walk)
{
  return walk->depth ? walk->levels[walk->depth - 1].path_len : 0;
}

void walk_path(tree_walk *walk, const char *name)
{
  size_t base = here(walk), len = strlen(name);
  if (base + len + 2 > walk->path_cap) {
    walk->path_cap = (base + len + 2) * 2;
    walk->path = realloc(walk->path, walk->path_cap);
    if (!walk->path) builtin_fail(ENOMEM, "out of memory");
  }
  if (base) walk->path[base++] = '/';
  memcpy(walk->path + base, name, len + 1);
  walk->path_len = base + len;
}

bool walk_down(tree_walk *walk, const char *name)
{
  struct stat now;
  if (fstat(walk->fd, &now) < 0) return false;
  int fd = openat(walk->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  if (walk->depth == walk->cap) {
    walk->cap = walk->cap ? walk->cap * 2 : 64;
    walk->levels = reallocarray(walk->levels, walk->cap, sizeof *walk->levels);
    if (!walk->levels) builtin_fail(ENOMEM, "out of memory");
  }
  walk_path(walk, name);
  walk->levels[walk->depth++] = (walk_level){now.st_dev, now.st_ino, walk->path_len};
  close(walk->fd);
  walk->fd = fd;
  return true;
}

bool walk_up(tree_walk *walk, char name[256])
{
  struct stat above;
  if (walk->depth == 0) return false;
  walk_level *level = &walk->levels[walk->depth - 1];
  int fd = openat(walk->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &above) < 0)
    builtin_fail(errno, "cannot go back up: %s", strerror(errno));
  if (above.st_dev != level->dev || above.st_ino != level->ino)
    builtin_fail(EBUSY, "the tree was moved while it was walked");
  close(walk->fd);
  walk->fd = fd;
  walk->path[level->path_len] = 0;
  walk->path_len = level->path_len;
  const char *slash = strrchr(walk->path, '/');
  const char *last = slash ? slash + 1 : walk->path;
  memcpy(name, last, strlen(last) + 1); /* a name, so at most 255 bytes */
  walk->depth--;
  walk->path_len = here(walk);
  return true;
}

void entries_init(entries *list, int fd)
{
  list->fd = fd;
  list->at = list->len = 0;
  lseek(fd, 0, SEEK_SET);
}

const char *entries_next(entries *list)
{
  for (;;) {
    if (list->at >= list->len) {
      long len = syscall(SYS_getdents64, list->fd, list->bytes, sizeof list->bytes);
      if (len < 0) builtin_fail(errno, "cannot list a directory: %s", strerror(errno));
      if (len == 0) return NULL;
      list->at = 0;
      list->len = (size_t)len;
    }
    const char *entry = list->bytes + list->at;
    unsigned short size;
    memcpy(&size, entry + 16, sizeof size); /* d_ino, d_off, d_reclen, d_type, d_name */
    list->at += size;
    const char *name = entry + 19;
    if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) return name;
  }
}
