/* range.c: ranges as root and by the helpers of package uidmap. */
#include "range.h"

#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

/* Below those of mounts (idmap.c) and single uids (spawner.c). */
#define FIRST 0x20000000u
#define RANGES 16384u

static int pipe_for(mcg_jail_order *order, mcg_failure *failure)
{
  order->range = MCG_RANGE;
  if (pipe2(order->go, O_CLOEXEC) == 0) return 0;
  return mcg_failure_set(failure, "maps", errno, "make a pipe");
}

int mcg_range_choose(mcg_spawner_state *state, mcg_box *box, mcg_jail_order *order,
                     mcg_failure *failure)
{
  if (state->root) {
    uint32_t number = ((uint32_t)state->self * 61 + (uint32_t)box->slot) % RANGES;
    order->host_uid = order->host_gid = FIRST + number * MCG_RANGE;
  }
  return pipe_for(order, failure);
}

/* ---- an ordinary user --------------------------------------------------------------------------- */

/* The first line of at least a range less one for this user, by name or number. */
static uint32_t given(const char *path, uid_t uid)
{
  char line[512], number[16];
  const struct passwd *who = getpwuid(uid);
  FILE *file = fopen(path, "re");
  uint32_t found = 0;
  snprintf(number, sizeof number, "%u", (unsigned)uid);
  while (file && !found && fgets(line, sizeof line, file)) {
    char *save, *name = strtok_r(line, ":", &save), *first = strtok_r(NULL, ":", &save);
    char *count = strtok_r(NULL, ":\n", &save);
    if (!count || (strcmp(name, number) != 0 && (!who || strcmp(name, who->pw_name) != 0)))
      continue;
    if (strtoul(count, NULL, 10) >= MCG_RANGE - 1) found = (uint32_t)strtoul(first, NULL, 10);
  }
  if (file) fclose(file);
  return found;
}

/* Root inside is the user itself; the rest are the user's subordinate ids. */
static bool run_helper(const char *helper, pid_t pid, uint32_t own, uint32_t first)
{
  char target[16], self[16], start[16], count[16];
  int status = -1;
  snprintf(target, sizeof target, "%d", (int)pid);
  snprintf(self, sizeof self, "%u", own);
  snprintf(start, sizeof start, "%u", first);
  snprintf(count, sizeof count, "%u", MCG_RANGE - 1);
  pid_t child = fork();
  if (child == 0) {
    char *env[] = {(char *)"PATH=/usr/bin:/bin", NULL};
    char path[64];
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(null, fd);
    mcg_sys_close_range(3, ~0u);
    char *argv[] = {path, target, (char *)"0", self, (char *)"1", (char *)"1", start, count, NULL};
    snprintf(path, sizeof path, "/usr/bin/%s", helper);
    execve(path, argv, env);
    _exit(127);
  }
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status == 0;
}

static int by_helpers(pid_t pid, uid_t uid, gid_t gid, mcg_failure *failure)
{
  uint32_t uids = given("/etc/subuid", uid), gids = given("/etc/subgid", uid);
  if (!uids || !gids)
    return mcg_failure_set(
        failure, "maps", ENOENT,
        "profile packages: no range of 65536 in /etc/subuid and /etc/subgid for uid %u", uid);
  if (run_helper("newuidmap", pid, uid, uids) && run_helper("newgidmap", pid, gid, gids)) return 0;
  return mcg_failure_set(failure, "maps", ENOENT,
                         "profile packages: newuidmap and newgidmap (package uidmap) failed");
}

/* ---- both --------------------------------------------------------------------------------------- */

static int put(pid_t pid, const char *name, uint32_t first)
{
  char path[48], line[48];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  int len = snprintf(line, sizeof line, "0 %u %u\n", first, MCG_RANGE);
  int fd = openat(AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t put = write(fd, line, (size_t)len);
  int error = errno;
  close(fd);
  errno = error;
  return put == len ? 0 : -1;
}

static int by_root(pid_t pid, uint32_t uids, uint32_t gids, mcg_failure *failure)
{
  if (put(pid, "uid_map", uids) == 0 && put(pid, "gid_map", gids) == 0) return 0;
  return mcg_failure_set(failure, "maps", errno, "map a range of uids");
}

int mcg_range_give(pid_t pid, uid_t uid, gid_t gid, mcg_failure *failure)
{
  return uid == 0 ? by_root(pid, FIRST, FIRST, failure) : by_helpers(pid, uid, gid, failure);
}

int mcg_range_write(const mcg_spawner_state *state, const mcg_box *box, mcg_jail_order *order,
                    mcg_failure *failure)
{
  int rc = 0;
  if (!state->root)
    rc = by_helpers(box->pid, state->uid, state->gid, failure);
  else
    rc = by_root(box->pid, order->host_uid, order->host_gid, failure);
  if (rc == 0 && write(order->go[1], "g", 1) != 1)
    rc = mcg_failure_set(failure, "maps", errno, "wake the sandbox");
  return rc;
}
