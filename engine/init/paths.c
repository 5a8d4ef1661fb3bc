/* paths.c: the paths a request may name. */
#include "beneath.h"
#include "builtin.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *work;
static bool beneath_only;

void paths_init(const char *workdir, bool confined)
{
  work = workdir ? workdir : ".";
  beneath_only = confined;
}

/* The part of an absolute path below the working directory; NULL: it is not below it. */
static const char *inside(const char *path)
{
  size_t len = strlen(work);
  while (len > 1 && work[len - 1] == '/') len--;
  if (strncmp(path, work, len) != 0 || (path[len] != '/' && path[len] != 0)) return NULL;
  path += len;
  while (*path == '/') path++;
  return *path ? path : ".";
}

static bool climbs_out(const char *path)
{
  long depth = 0;
  while (*path) {
    size_t len = strcspn(path, "/");
    if (len == 2 && path[0] == '.' && path[1] == '.')
      depth--;
    else if (len && !(len == 1 && path[0] == '.'))
      depth++;
    if (depth < 0) return true;
    path += len;
    while (*path == '/') path++;
  }
  return false;
}

/* What to hand to the kernel, relative to the working directory or absolute. */
static const char *checked(const char *path)
{
  if (!*path) builtin_fail(EINVAL, "a path is empty");
  if (strlen(path) >= PATH_MAX)
    builtin_fail(ENAMETOOLONG, "a path is longer than %d bytes", PATH_MAX - 1);
  const char *below = *path == '/' ? inside(path) : path;
  if (below && climbs_out(below))
    builtin_fail(EXDEV, "%.200s leaves the working directory by \"..\"", path);
  if (!below && beneath_only) builtin_fail(EXDEV, "%.200s is not in the working directory", path);
  return beneath_only ? below : path;
}

static int open_checked(const char *path, int flags, mode_t mode)
{
  if (!beneath_only) return open(path, flags | O_CLOEXEC, mode);
  struct open_how how = {
      .flags = (unsigned)(flags | O_CLOEXEC),
      .mode = flags & O_CREAT ? mode : 0,
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
  };
  long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
  return fd >= 0 || errno != ENOSYS ? (int)fd : mcg_open_beneath(AT_FDCWD, path, flags, mode);
}

int paths_open(const char *path, int flags, mode_t mode)
{
  return open_checked(checked(path), flags, mode);
}

int paths_need(const char *path, int flags)
{
  int fd = paths_open(path, flags, 0);
  if (fd < 0) builtin_fail(errno, "cannot open %.200s: %s", path, strerror(errno));
  return fd;
}

int paths_parent(const char *path, char name[256])
{
  char copy[PATH_MAX];
  const char *good = checked(path);
  size_t len = strlen(good);
  memcpy(copy, good, len + 1);
  while (len > 1 && copy[len - 1] == '/') copy[--len] = 0;
  char *slash = strrchr(copy, '/');
  const char *last = slash ? slash + 1 : copy;
  if (strlen(last) > NAME_MAX) builtin_fail(ENAMETOOLONG, "the name in %.200s is too long", path);
  if (!*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
    builtin_fail(EINVAL, "%.200s does not name an entry of a directory", path);
  memcpy(name, last, strlen(last) + 1);
  const char *parent = ".";
  if (slash == copy)
    parent = "/";
  else if (slash) {
    *slash = 0;
    parent = copy;
  }
  int fd = open_checked(parent, O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0) builtin_fail(errno, "cannot open the directory of %.200s: %s", path, strerror(errno));
  return fd;
}

/* From the longest part that is there, downwards. */
int paths_make(const char *path, mode_t mode)
{
  char copy[PATH_MAX];
  const char *good = checked(path);
  memcpy(copy, good, strlen(good) + 1);
  int at = open_checked(*copy == '/' ? "/" : ".", O_RDONLY | O_DIRECTORY, 0);
  char *end = copy;
  while (at >= 0 && *(end += strspn(end, "/"))) {
    char *part = end;
    end += strcspn(end, "/");
    char kept = *end;
    *end = 0;
    bool last = end[strspn(end + (kept != 0), "/") + (kept != 0)] == 0;
    close(at);
    at = open_checked(copy, O_RDONLY | O_DIRECTORY, 0);
    if (at < 0 && errno == ENOENT && strcmp(part, "..") != 0) {
      char name[256], parent[PATH_MAX];
      memcpy(parent, copy, strlen(copy) + 1);
      int dir = paths_parent(parent, name);
      int made = mkdirat(dir, name, last ? mode : 0755);
      if (made < 0 && errno != EEXIST)
        builtin_fail(errno, "cannot make directory %.200s: %s", copy, strerror(errno));
      if (made == 0) builtin_give_directory(dir, name);
      close(dir);
      at = open_checked(copy, O_RDONLY | O_DIRECTORY, 0);
    }
    *end = kept;
  }
  if (at < 0)
    builtin_fail(errno == ENOTDIR ? EEXIST : errno, "cannot make directory %.200s: %s", path,
                 errno == ENOTDIR ? "something else is there" : strerror(errno));
  return at;
}
