/* tar_move.c: a tree is moved into another: directories are merged, whatever else has a name is replaced, but
 * a directory only by a directory. One rename for each name that the other does not have, with all that is
 * below it. */
#include "builtin.h"
#include "sparse.h"
#include "tar_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NO_REPLACE 1 /* RENAME_NOREPLACE */

/* ---- two walks side by side --------------------------------------------------------------- */

typedef struct pair {
  tree_walk from, to; /* always in directories of the same name */
} pair;

typedef struct pending { /* directories that both have, of all levels */
  struct pending *next;
  size_t depth;
  char name[];
} pending;

static _Noreturn void cannot(pair *both, const char *name)
{
  int number = errno;
  walk_path(&both->to, name);
  builtin_fail(number, "cannot put %.130s in its place: %s", both->to.path, strerror(number));
}

static void begin(pair *both, int from_dir, int to_dir)
{
  int from = tar_stage_open(from_dir, "."), to = tar_stage_open(to_dir, ".");
  if (from < 0 || to < 0) builtin_fail(errno, "cannot unpack: %s", strerror(errno));
  walk_init(&both->from, from);
  walk_init(&both->to, to);
}

static void down(pair *both, const char *name)
{
  if (!walk_down(&both->from, name) || !walk_down(&both->to, name)) cannot(both, name);
}

static void up(pair *both)
{
  char name[256];
  walk_up(&both->from, name);
  walk_up(&both->to, name);
}

static void finish(pair *both)
{
  walk_fini(&both->from);
  walk_fini(&both->to);
}

static bool is_directory(int dir, const char *name)
{
  struct stat info;
  return fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

/* What the directory of the archive has, and the target has as well: puts directories to `below`. */
static pending *judge_here(pair *both, pending *below)
{
  static entries list;
  const char *name;
  if (faccessat(both->to.fd, ".", W_OK | X_OK, 0) < 0) cannot(both, ".");
  entries_init(&list, both->from.fd);
  while ((name = entries_next(&list))) {
    if (!is_directory(both->to.fd, name)) continue;
    if (!is_directory(both->from.fd, name)) {
      walk_path(&both->to, name);
      builtin_fail_fix(EEXIST, "remove or rename one of them",
                       "%.120s is a directory here, and none in the archive; nothing was unpacked",
                       both->to.path);
    }
    pending *fresh = builtin_alloc(sizeof *fresh + strlen(name) + 1);
    *fresh = (pending){below, both->from.depth};
    memcpy(fresh->name, name, strlen(name) + 1);
    below = fresh;
  }
  return below;
}

void tar_move_judge(int from, int to)
{
  pair both;
  begin(&both, from, to);
  pending *to_do = judge_here(&both, NULL);
  while (to_do) {
    pending *now = to_do;
    to_do = now->next;
    while (both.from.depth > now->depth) up(&both);
    down(&both, now->name);
    to_do = judge_here(&both, to_do);
    free(now);
  }
  finish(&both);
}

/* ---- moving ------------------------------------------------------------------------------- */

static void copy_link(pair *both, const char *name, const struct timespec times[2])
{
  char target[PATH_MAX];
  ssize_t len = readlinkat(both->from.fd, name, target, sizeof target - 1);
  if (len < 0) cannot(both, name);
  target[len] = 0;
  if (symlinkat(target, both->to.fd, name) < 0) cannot(both, name);
  utimensat(both->to.fd, name, times, AT_SYMLINK_NOFOLLOW);
}

static void copy_file(pair *both, const char *name, mode_t mode, const struct timespec times[2])
{
  static uint8_t buffer[65536];
  int from = openat(both->from.fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  int to = openat(both->to.fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  off_t size = 0;
  ssize_t len;
  if (from < 0 || to < 0) cannot(both, name);
  for (; (len = read(from, buffer, sizeof buffer)) > 0; size += len)
    if (mcg_write_sparse(to, buffer, (size_t)len) < 0) cannot(both, name);
  if (len < 0 || ftruncate(to, size) < 0) cannot(both, name);
  builtin_give(both->to.fd, to);
  if (fchmod(to, mode) < 0) cannot(both, name);
  futimens(to, times);
  close(from);
  close(to);
}

/* Where something is mounted in the target nothing can be moved to: it is copied, and a directory made,
 * to be gone down into. */
static void copy(pair *both, const char *name)
{
  struct stat info;
  if (fstatat(both->from.fd, name, &info, AT_SYMLINK_NOFOLLOW) < 0) cannot(both, name);
  if (S_ISDIR(info.st_mode)) {
    if (mkdirat(both->to.fd, name, 0755) < 0) cannot(both, name);
    builtin_give_directory(both->to.fd, name);
    return;
  }
  const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, info.st_mtim};
  if (S_ISLNK(info.st_mode))
    copy_link(both, name, times);
  else
    copy_file(both, name, info.st_mode & 0777, times);
  if (unlinkat(both->from.fd, name, 0) < 0) cannot(both, name);
}

/* False: it is a directory that both have. No plain rename of a directory: it would take the place of
 * an empty one, and of its owner and mode. */
static bool move(pair *both, const char *name)
{
  int from = both->from.fd, to = both->to.fd;
  struct stat there;
  if (syscall(SYS_renameat2, from, name, to, name, NO_REPLACE) == 0) return true;
  bool taken = fstatat(to, name, &there, AT_SYMLINK_NOFOLLOW) == 0;
  bool directory = is_directory(from, name);
  if (taken && directory && S_ISDIR(there.st_mode)) return false;
  if (taken && directory && unlinkat(to, name, 0) < 0) cannot(both, name);
  if (renameat(from, name, to, name) == 0) return true;
  if (errno != EXDEV) cannot(both, name);
  if (taken && !directory && unlinkat(to, name, 0) < 0) cannot(both, name);
  copy(both, name);
  return !directory;
}

/* Until the directory is empty: false when it went down into one that both have. */
static bool move_here(pair *both)
{
  static entries list;
  const char *name;
  entries_init(&list, both->from.fd);
  while ((name = entries_next(&list))) {
    if (move(both, name)) continue;
    down(both, name);
    return false;
  }
  return true;
}

void tar_move(int from, int to)
{
  pair both;
  char name[256];
  begin(&both, from, to);
  for (;;) {
    if (!move_here(&both)) continue;
    if (both.from.depth == 0) break;
    walk_up(&both.from, name);
    if (unlinkat(both.from.fd, name, AT_REMOVEDIR) < 0) cannot(&both, name);
    walk_up(&both.to, name);
  }
  finish(&both);
}
