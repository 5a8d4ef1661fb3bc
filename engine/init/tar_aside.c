/* tar_aside.c: what a directory held is put aside, and comes back should what takes its place not come. What
 * is mounted in it stays where it is, and so does each directory on the way there: of these only the other
 * entries move, each to a directory of the same path. */
#include "builtin.h"
#include "tar_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NO_REPLACE 1 /* RENAME_NOREPLACE */

static bool try_move(int from, int to, const char *name)
{
  return syscall(SYS_renameat2, from, name, to, name, NO_REPLACE) == 0;
}

/* A directory that its owner may not write to cannot change its "..". */
static bool move(int from, int to, const char *name)
{
  mode_t was;
  if (try_move(from, to, name)) return true;
  int number = errno;
  if ((number != EACCES && number != EPERM) || !builtin_let_in(from, name, &was)) {
    errno = number;
    return false;
  }
  bool moved = try_move(from, to, name);
  number = errno;
  builtin_set_mode(moved ? to : from, name, was);
  errno = number;
  return moved;
}

typedef struct place {
  int from, to;
  char path[PATH_MAX]; /* of both; "" at the top */
} place;

static bool join(const place *at, const char *name, char out[PATH_MAX])
{
  int len = snprintf(out, PATH_MAX, "%s%s%s", at->path, *at->path ? "/" : "", name);
  errno = ENAMETOOLONG;
  return len < PATH_MAX;
}

/* Until a look finds nothing more to move: a list that is read meanwhile may leave out some. */
static bool shift_here(const place *at, const mounted *kept)
{
  static entries list;
  char path[PATH_MAX];
  const char *name;
  for (bool moved = true; moved;) {
    moved = false;
    entries_init(&list, at->from);
    while ((name = entries_next(&list))) {
      if (!*at->path && tar_stage_is(name)) continue;
      if (!join(at, name, path)) return false;
      if (mounted_within(kept, path)) continue;
      if (move(at->from, at->to, name))
        moved = true;
      else if (errno != ENOENT && errno != EEXIST)
        return false;
    }
  }
  return true;
}

/* The next name of `path` below the place; false: it does not lead there, or ends there. */
static bool next_name(const place *at, const char *path, char name[NAME_MAX + 1])
{
  size_t len = strlen(at->path);
  if (strncmp(path, at->path, len) != 0 || (len && path[len] != '/')) return false;
  path += len + (len != 0);
  len = strcspn(path, "/");
  if (!path[len] || len > NAME_MAX) return false;
  memcpy(name, path, len);
  name[len] = 0;
  return true;
}

static bool shift(const place *at, const mounted *kept);

static bool shift_below(const place *at, const char *name, const mounted *kept)
{
  place below = {.from = tar_stage_open(at->from, name)};
  if (below.from < 0) return errno == ENOENT || errno == ENOTDIR;
  mkdirat(at->to, name, 0700); /* it may be there */
  below.to = tar_stage_open(at->to, name);
  bool done = below.to >= 0 && join(at, name, below.path) && shift(&below, kept);
  int number = errno;
  close(below.from);
  if (below.to >= 0) close(below.to);
  errno = number;
  return done;
}

/* As deep as mounts lie, no deeper. A way that two of them share is gone twice, to no harm. */
static bool shift(const place *at, const mounted *kept)
{
  char name[NAME_MAX + 1], path[PATH_MAX];
  if (!shift_here(at, kept)) return false;
  for (size_t i = 0; i < kept->count; i++) {
    if (!next_name(at, kept->paths[i], name)) continue;
    if (!join(at, name, path)) return false;
    if (!mounted_at(kept, path) && !shift_below(at, name, kept)) return false;
  }
  return true;
}

bool tar_aside_shift(int from, int to, const mounted *kept)
{
  place top = {.from = from, .to = to};
  return shift(&top, kept);
}

/* ---- the archive and what is mounted ------------------------------------------------------ */

static _Noreturn void in_the_way(const char *path)
{
  builtin_fail_fix(EEXIST, "leave out what is mounted there, or restore it elsewhere",
                   "the archive has %.140s, where something is mounted; nothing was unpacked",
                   path);
}

/* An empty directory is nothing that it has. */
static void judge_one(int stage, char *path)
{
  int dir = tar_stage_open(stage, ".");
  for (char *at = path, *end; dir >= 0 && (end = strchr(at, '/')); at = end + 1) {
    *end = 0;
    int next = tar_stage_open(dir, at);
    int number = errno;
    close(dir);
    dir = next;
    if (dir < 0 && number != ENOENT) in_the_way(path); /* up to here */
    *end = '/';
    if (dir < 0) return;
  }
  if (dir < 0) builtin_fail(errno, "cannot unpack: %s", strerror(errno));
  const char *slash = strrchr(path, '/');
  if (unlinkat(dir, slash ? slash + 1 : path, AT_REMOVEDIR) < 0 && errno != ENOENT)
    in_the_way(path);
  close(dir);
}

void tar_aside_judge(int stage, const mounted *kept)
{
  for (size_t i = 0; i < kept->count; i++) judge_one(stage, kept->paths[i]);
}
