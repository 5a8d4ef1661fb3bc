/* tar_stage.c: unpacked beside, then moved. An archive that comes through a pipe is read once, so it cannot
 * be judged before it is unpacked; and a copy of it to judge first would need its room twice, and the time.
 * Moving needs neither.
 *
 * What is replaced is put aside first and goes when all that is new is there: until then it can come back.
 *
 * A lock on each such directory tells one in use from one whose built-in was killed. */
#include "tar_stage.h"
#include "builtin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define UNPACK ".mooncage-unpack-"
#define ASIDE ".mooncage-aside-"

typedef struct own {
  int fd; /* -1: not made */
  char name[48];
} own;

static const own none = {.fd = -1};
static int above = -1;
static own stage, aside;
static bool coming; /* all that was there is aside: what is there now is new */
static mounted kept;

static bool begins(const char *name, const char *with)
{
  return strncmp(name, with, strlen(with)) == 0;
}

bool tar_stage_is(const char *name)
{
  return begins(name, UNPACK) || begins(name, ASIDE);
}

bool tar_stage_kept(const char *path)
{
  return mounted_at(&kept, path);
}

int tar_stage_open(int dir, const char *name)
{
  return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
}

/* ---- ours --------------------------------------------------------------------------------- */

static bool make(own *self, const char *prefix, unsigned i)
{
  char name[sizeof self->name];
  snprintf(name, sizeof name, "%s%u-%u", prefix, (unsigned)getpid(), i);
  if (mkdirat(above, name, 0700) == 0) {
    memcpy(self->name, name, sizeof name);
    return true;
  }
  if (errno != EEXIST || i == 1000)
    builtin_fail(errno, "cannot make a directory to unpack in: %s", strerror(errno));
  return false;
}

static void open_fresh(own *self, const char *prefix)
{
  for (unsigned i = 0; !make(self, prefix, i); i++) continue;
  self->fd = tar_stage_open(above, self->name);
  if (self->fd < 0) builtin_fail(errno, "cannot unpack: %s", strerror(errno));
  flock(self->fd, LOCK_EX | LOCK_NB);
}

/* A leftover is held by nobody. Where the disk has no locks nothing is known, and nothing removed. */
static void sweep_one(int target, const char *name)
{
  mounted there = {0};
  bool brought = true;
  int fd = tar_stage_open(target, name);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
    if (begins(name, ASIDE)) {
      mounted_read(target, &there);
      brought = tar_aside_shift(fd, target, &there);
    }
    if (brought) tree_discard(target, name);
  }
  if (fd >= 0) close(fd);
}

static void sweep(int target)
{
  static entries list;
  const char *name;
  int copy = tar_stage_open(target, ".");
  if (copy < 0) return;
  entries_init(&list, copy);
  while ((name = entries_next(&list)))
    if (tar_stage_is(name)) sweep_one(target, name);
  close(copy);
}

/* ---- the whole ---------------------------------------------------------------------------- */

static void undo(void)
{
  if (aside.fd >= 0) { /* what cannot come back now stays there: the next unpacking tries again */
    bool cleared = !coming || tar_aside_shift(above, stage.fd, &kept);
    if (tar_aside_shift(aside.fd, above, &kept) && cleared) tree_discard(above, aside.name);
    close(aside.fd);
  }
  if (*stage.name) tree_discard(above, stage.name);
  if (stage.fd >= 0) close(stage.fd);
}

int tar_stage_begin(int target)
{
  sweep(target);
  above = target;
  stage = aside = none;
  coming = false;
  builtin_on_failure(undo); /* before there is anything: it may be told to end at any time */
  open_fresh(&stage, UNPACK);
  builtin_give(target, stage.fd);
  return stage.fd;
}

/* The old ones are rubbish from here on, which a name says that is swept up. */
static void put_away(void)
{
  own old;
  snprintf(old.name, sizeof old.name, "%.40s-old", stage.name);
  if (renameat(above, aside.name, above, old.name) < 0)
    builtin_fail(errno, "cannot unpack: %s", strerror(errno));
  builtin_on_failure(NULL);
  tree_discard(above, old.name);
  close(aside.fd);
}

static void replace(void)
{
  mounted_read(above, &kept);
  tar_aside_judge(stage.fd, &kept);
  open_fresh(&aside, ASIDE);
  if (!tar_aside_shift(above, aside.fd, &kept))
    builtin_fail(errno, "cannot put aside what is there: %s; nothing was changed", strerror(errno));
  coming = true;
  tar_move(stage.fd, above);
  put_away();
}

void tar_stage_merge(bool replaces)
{
  builtin_lock(true);
  if (replaces) {
    replace();
  } else {
    tar_move_judge(stage.fd, above);
    tar_move(stage.fd, above);
    builtin_on_failure(NULL);
  }
  unlinkat(above, stage.name, AT_REMOVEDIR);
  close(stage.fd);
}
