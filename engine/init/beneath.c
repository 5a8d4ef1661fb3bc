/* beneath.c: openat2 with every RESOLVE flag that keeps a path inside, or the same walk by hand. */
#include "beneath.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int walk(int dir, char *path, int flags, mode_t mode)
{
  int at = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  char *part = path;
  while (at >= 0) {
    char *slash = strchr(part, '/');
    if (slash) *slash = 0;
    if (strcmp(part, "..") == 0 || *part == 0) {
      close(at);
      errno = EXDEV;
      return -1;
    }
    int next = slash ? openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                     : openat(at, part, flags | O_NOFOLLOW | O_CLOEXEC, mode);
    int number = slash && next < 0 && errno == ENOTDIR ? ELOOP : errno;
    close(at);
    errno = number;
    if (!slash) return next;
    at = next;
    part = slash + 1;
  }
  return -1;
}

int mcg_open_beneath(int dir, const char *path, int flags, mode_t mode)
{
  struct open_how how = {
      .flags = (unsigned)flags | O_CLOEXEC | O_NOFOLLOW,
      .mode = flags & (O_CREAT | O_TMPFILE) & ~O_DIRECTORY ? mode : 0,
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
  };
  long fd = syscall(SYS_openat2, dir, path, &how, sizeof how);
  if (fd >= 0 || errno != ENOSYS) return (int)fd;
  char copy[PATH_MAX];
  size_t len = strlen(path);
  if (len >= sizeof copy) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(copy, path, len + 1);
  return walk(dir, copy, flags, mode);
}
