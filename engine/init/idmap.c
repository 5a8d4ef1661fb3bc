/* idmap.c: a namespace lives as long as a process or a descriptor: a child is born in a new one, is
 * given its maps, and may go as soon as the descriptor is there. */
#include "idmap.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "kernel.h"

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

static int make(const char *uids, const char *gids)
{
  mcg_clone_args args = {.flags = CLONE_NEWUSER};
  pid_t pid = mcg_sys_clone3(&args);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
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

int mcg_idmap_wide(uint32_t owner_uid, uint32_t owner_gid, uint32_t host_uid, uint32_t host_gid)
{
  char uids[160], gids[160];
  wide(uids, owner_uid, host_uid);
  wide(gids, owner_gid, host_gid);
  return make(uids, gids);
}

int mcg_idmap_range(uint32_t first)
{
  char map[48];
  snprintf(map, sizeof map, "0 %u 65536\n", first);
  return make(map, map);
}
