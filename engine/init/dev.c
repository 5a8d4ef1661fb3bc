/* dev.c: /dev. Nodes are the host's own, bound and then looked at: what is there must be the character
 * device that it is called. A rootfs contributes nothing (CVE-2025-31133 was a /dev/null it brought). */
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "jail.h"
#include "kernel.h"

static const struct node {
  const char *name;
  unsigned major, minor;
} NODES[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
             {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
#define NODE_COUNT (sizeof NODES / sizeof *NODES)

static const char *const LINKS[][2] = {{"fd", "/proc/self/fd"},
                                       {"stdin", "/proc/self/fd/0"},
                                       {"stdout", "/proc/self/fd/1"},
                                       {"stderr", "/proc/self/fd/2"},
                                       {"ptmx", "pts/ptmx"}};

/* kernel.pty.max is one number for all: a sandbox gets no more than this of it. */
#define PTS_OPTIONS "newinstance,ptmxmode=0666,mode=620,max=64"

static void name_in_dev(const mcg_jail *jail, const char *name, char out[static 64])
{
  snprintf(out, 64, "%s/dev/%s", jail->fresh, name);
}

int mcg_jail_dev_places(mcg_jail *jail)
{
  char path[64];
  for (size_t i = 0; i < NODE_COUNT; i++) {
    name_in_dev(jail, NODES[i].name, path);
    if (mknod(path, S_IFREG | 0644, 0) < 0)
      return mcg_jail_fail(jail, "mounts", errno, "make /dev/%s", NODES[i].name);
  }
  for (size_t i = 0; i < sizeof LINKS / sizeof *LINKS; i++) {
    name_in_dev(jail, LINKS[i][0], path);
    if (symlink(LINKS[i][1], path) < 0)
      return mcg_jail_fail(jail, "mounts", errno, "link /dev/%s", LINKS[i][0]);
  }
  static const char *const dirs[] = {"pts", "shm"};
  for (size_t i = 0; i < 2; i++) {
    name_in_dev(jail, dirs[i], path);
    if (mkdir(path, 0755) < 0) return mcg_jail_fail(jail, "mounts", errno, "make /dev/%s", dirs[i]);
  }
  return 0;
}

static int node(mcg_jail *jail, const struct node *wanted)
{
  char source[32], path[64];
  struct stat st;
  snprintf(source, sizeof source, "/dev/%s", wanted->name);
  name_in_dev(jail, wanted->name, path);
  if (mount(source, path, NULL, MS_BIND, NULL) < 0)
    return mcg_jail_fail(jail, "mounts", errno, "bind %s", source);
  if (stat(path, &st) < 0 || !S_ISCHR(st.st_mode) ||
      st.st_rdev != makedev(wanted->major, wanted->minor))
    return mcg_jail_fail(jail, "mounts", EINVAL, "%s of the host is not the device of that name",
                         source);
  return 0;
}

int mcg_jail_dev(mcg_jail *jail)
{
  for (size_t i = 0; i < NODE_COUNT; i++)
    if (node(jail, &NODES[i]) < 0) return -1;
  return 0;
}

int mcg_jail_pts(mcg_jail *jail)
{
  char path[64];
  name_in_dev(jail, "pts", path);
  if (mount("devpts", path, "devpts", MS_NOSUID | MS_NOEXEC, PTS_OPTIONS) < 0)
    return mcg_jail_fail(jail, "mounts", errno, "mount devpts");
  return 0;
}
