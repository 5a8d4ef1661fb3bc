/* idmap.c: a namespace lives as long as a process or a descriptor: a child is born in a new one, is
 * given its maps, and may go as soon as the descriptor is there. */
#include "idmap.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "kernel.h"
#include "sys.h"

/* Host ids that belong to nobody; above them are those that sandboxes get. */
#define NOBODY_FIRST 0x60000000u
#define NOBODY_COUNT 0x10000000u

static int put(pid_t pid, const char *file, const char *text)
{
  char path[48];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
  int fd = openat(AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t put = write(fd, text, strlen(text));
  int error = errno;
  close(fd);
  errno = error;
  return put < 0 ? -1 : 0;
}

static int made(pid_t pid, const char *uids, const char *gids)
{
  char path[48];
  if (put(pid, "uid_map", uids) < 0 || put(pid, "gid_map", gids) < 0) return -1;
  snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
  return openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
}

/* In the spawner's memory, so that none is copied: nothing of libc, which has one errno for both. */
static int wait_for_the_end(void *unused)
{
  (void)unused;
  mcg_sys(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  for (;;) mcg_sys(SYS_ppoll, 0, 0, 0, 0, 0); /* nothing, for ever */
  return 0;
}

static int make(const char *uids, const char *gids)
{
  _Alignas(16) char stack[4096];
  pid_t pid =
      clone(wait_for_the_end, stack + sizeof stack, CLONE_VM | CLONE_NEWUSER | SIGCHLD, NULL);
  if (pid < 0) return -1;
  int fd = made(pid, uids, gids);
  int error = errno;
  kill(pid, SIGKILL); /* not waited for yet: the number is its own */
  while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR) {
  }
  errno = error;
  return fd;
}

/* A line of a map reads: id on the file system, id on the host, how many. */
static void wide(char out[160], uint32_t owner, uint32_t host)
{
  int len = snprintf(out, 160, "%u %u 1\n", owner, host);
  if (owner > 0 && owner < NOBODY_COUNT)
    len += snprintf(out + len, 160 - (size_t)len, "0 %u %u\n", NOBODY_FIRST, owner);
  if (owner + 1 < NOBODY_COUNT)
    snprintf(out + len, 160 - (size_t)len, "%u %u %u\n", owner + 1, NOBODY_FIRST + owner + 1,
             NOBODY_COUNT - owner - 1);
  else
    snprintf(out + len, 160 - (size_t)len, "0 %u %u\n", NOBODY_FIRST, NOBODY_COUNT);
}

int mcg_idmap_wide(mcg_idmap *map, uint32_t owner_uid, uint32_t owner_gid, uint32_t host_uid,
                   uint32_t host_gid)
{
  char uids[160], gids[160];
  if (map->fd >= 0 && map->owner_uid == owner_uid && map->owner_gid == owner_gid) return map->fd;
  mcg_idmap_close(map);
  wide(uids, owner_uid, host_uid);
  wide(gids, owner_gid, host_gid);
  *map = (mcg_idmap){make(uids, gids), owner_uid, owner_gid};
  return map->fd;
}

int mcg_idmap_range(mcg_idmap *map, uint32_t first)
{
  char text[48];
  if (map->fd >= 0) return map->fd;
  snprintf(text, sizeof text, "0 %u 65536\n", first);
  map->fd = make(text, text);
  return map->fd;
}

void mcg_idmap_close(mcg_idmap *map)
{
  if (map->fd >= 0) close(map->fd);
  map->fd = -1;
}
