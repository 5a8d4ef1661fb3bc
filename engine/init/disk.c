/* disk.c: disks made by a privileged spawner, as detached mounts. */
#include "disk.h"

#include <stdio.h>

#include "kernel.h"

static int option(int fs, const char *key, uint64_t value)
{
  char text[24];
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  return mcg_sys_fsconfig(fs, MCG_FSCONFIG_SET_STRING, key, text, 0);
}

static int configure(int fs, uint64_t size, uint32_t uid, uint32_t gid)
{
  if (size && (option(fs, "size", size) < 0 || option(fs, "nr_inodes", mcg_disk_inodes(size)) < 0))
    return -1;
  if (option(fs, "uid", uid) < 0 || option(fs, "gid", gid) < 0) return -1;
  if (mcg_sys_fsconfig(fs, MCG_FSCONFIG_SET_STRING, "mode", "0755", 0) < 0) return -1;
  return mcg_sys_fsconfig(fs, MCG_FSCONFIG_CMD_CREATE, NULL, NULL, 0);
}

int mcg_disk_tmpfs(uint64_t size, uint32_t uid, uint32_t gid)
{
  int fs = mcg_sys_fsopen("tmpfs");
  if (fs < 0) return -1;
  int mount = configure(fs, size, uid, gid);
  if (mount == 0) mount = mcg_sys_fsmount(fs, MCG_ATTR_NOSUID | MCG_ATTR_NODEV);
  int error = errno;
  close(fs);
  errno = error;
  return mount;
}
