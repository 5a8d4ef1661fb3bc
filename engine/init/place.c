/* place.c: detached mounts for a sandbox, made by a privileged spawner. The user's trees are mounted
 * with their owner's ids read as the sandbox's, so that the sandbox may do there what the owner may,
 * and nobody else's ids are its own. */
#include "place.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "disk.h"
#include "idmap.h"
#include "kernel.h"

typedef struct job {
  mcg_jail_order *order;
  mcg_failure *failure;
  const char *step;
} job;

static int failed(const job *j, const char *path)
{
  return mcg_failure_set(j->failure, j->step, errno, "%s", path);
}

static int idmap_of(const job *j, const struct stat *st)
{
  mcg_jail_order *order = j->order;
  if (order->range > 1) return mcg_idmap_range(&order->idmap, order->host_uid);
  return mcg_idmap_wide(&order->idmap, st->st_uid, st->st_gid, order->host_uid, order->host_gid);
}

/* A clone of the mount at `path`, ids mapped where its file system can; `must`: or else fail. */
static int detach(const job *j, const char *path, unsigned flags, uint64_t attributes, bool must,
                  int *out)
{
  struct stat st;
  int mount = mcg_sys_open_tree(AT_FDCWD, path, MCG_OPEN_TREE_CLONE | flags);
  if (mount < 0) return failed(j, path);
  *out = mount; /* the order owns it from here */
  if (fstat(mount, &st) < 0) return failed(j, path);
  int space = idmap_of(j, &st);
  if (space < 0) return mcg_failure_set(j->failure, "userns", errno, "make an id map for %s", path);
  mcg_mount_attr attr = {.set = attributes | MCG_ATTR_IDMAP, .userns_fd = (uint64_t)space};
  int rc = mcg_sys_mount_setattr(mount, "", AT_EMPTY_PATH | flags, &attr);
  if (rc == 0) return 0;
  if (must)
    return mcg_failure_set(j->failure, j->step, errno, "%s: its file system cannot map ids", path);
  attr = (mcg_mount_attr){.set = attributes};
  return attributes && mcg_sys_mount_setattr(mount, "", AT_EMPTY_PATH | flags, &attr) < 0
             ? failed(j, path)
             : 0;
}

/* ---- a project --------------------------------------------------------------------------------- */

static int set(int fs, const char *key, const char *value)
{
  return mcg_sys_fsconfig(fs, MCG_FSCONFIG_SET_STRING, key, value, 0);
}

/* The directory that shows through as the root of the view is the upper one: it must look like the
 * project's own. */
static int upper(int disk, const char *name, const char *work, int original)
{
  struct stat st;
  if (fstat(original, &st) < 0 || mkdirat(disk, name, 0700) < 0 || mkdirat(disk, work, 0700) < 0)
    return -1;
  if (fchownat(disk, name, st.st_uid, st.st_gid, 0) < 0) return -1;
  return fchmodat(disk, name, st.st_mode & 0777, 0);
}

static int overlay(int lower, int disk, const char *name)
{
  char text[64], work[32];
  snprintf(work, sizeof work, "%s.work", name);
  if (upper(disk, name, work, lower) < 0) return -1;
  int fs = mcg_sys_fsopen("overlay"), mount = -1;
  if (fs < 0) return -1;
  snprintf(text, sizeof text, "/proc/self/fd/%d", lower);
  int rc = set(fs, "lowerdir", text);
  snprintf(text, sizeof text, "/proc/self/fd/%d/%s", disk, name);
  if (rc == 0) rc = set(fs, "upperdir", text);
  snprintf(text, sizeof text, "/proc/self/fd/%d/%s", disk, work);
  if (rc == 0) rc = set(fs, "workdir", text);
  if (rc == 0) rc = set(fs, "redirect_dir", "on");
  if (rc == 0) rc = mcg_sys_fsconfig(fs, MCG_FSCONFIG_CMD_CREATE, NULL, NULL, 0);
  if (rc == 0) mount = mcg_sys_fsmount(fs, MCG_ATTR_NOSUID | MCG_ATTR_NODEV);
  int error = errno;
  close(fs);
  errno = error;
  return mount;
}

static int project(const job *j)
{
  mcg_jail_order *order = j->order;
  const char *path = order->spec.project;
  struct stat st;
  if (stat(path, &st) < 0) return failed(j, path);
  if (!S_ISDIR(st.st_mode)) return mcg_failure_set(j->failure, j->step, ENOTDIR, "%s", path);
  if (detach(j, path, 0, MCG_ATTR_RDONLY | MCG_ATTR_NOSUID | MCG_ATTR_NODEV, true,
             &order->original) < 0)
    return -1;
  order->project = overlay(order->original, order->disk, "view");
  if (order->project < 0)
    return mcg_failure_set(j->failure, j->step, errno, "mount a copy-on-write view of %s", path);
  return 0;
}

/* ---- all of it --------------------------------------------------------------------------------- */

static int binds(const job *j)
{
  const mcg_spawn_spec *spec = &j->order->spec;
  for (size_t i = 0; i < spec->mount_count; i++) {
    uint64_t attributes = MCG_ATTR_NOSUID | MCG_ATTR_NODEV;
    if (!spec->mounts[i].writable) attributes |= MCG_ATTR_RDONLY;
    if (detach(j, spec->mounts[i].source, MCG_AT_RECURSIVE, attributes, false,
               &j->order->mounts[i]) < 0)
      return -1;
  }
  return 0;
}

/* A writable one is an overlay, made here: its files are of many owners, and a file of an id that the
 * sandbox has not could not be copied up by itself. */
static int rootfs(const job *j)
{
  mcg_jail_order *order = j->order;
  const char *path = order->spec.rootfs;
  int lower = -1;
  if (!order->spec.rootfs_rw) {
    if (order->range > 1) return detach(j, path, 0, 0, true, &order->rootfs);
    order->rootfs = mcg_sys_open_tree(AT_FDCWD, path, MCG_OPEN_TREE_CLONE | MCG_AT_RECURSIVE);
    return order->rootfs < 0 ? failed(j, path) : 0;
  }
  int rc = detach(j, path, 0, 0, true, &lower);
  if (rc == 0) order->rootfs = overlay(lower, order->disk, "root");
  if (rc == 0 && order->rootfs < 0) rc = failed(j, path);
  if (lower >= 0) close(lower); /* the overlay has its own */
  return rc;
}

/* The tmpfs is the child's own to make, unless something is put on it before. */
static int disk(mcg_spawner_state *state, mcg_jail_order *order, mcg_failure *failure)
{
  const mcg_spawn_spec *spec = &order->spec;
  const char *what = "mount the sandbox's tmpfs";
  if (spec->disk_image)
    order->disk =
        mcg_image_mount(&state->image, spec->disk, order->host_uid, order->host_gid, &what);
  else if (spec->project || (spec->rootfs && spec->rootfs_rw))
    order->disk = mcg_disk_tmpfs(spec->disk, order->host_uid, order->host_gid);
  else
    return 0;
  return order->disk < 0 ? mcg_failure_set(failure, "disk", errno, "%s", what) : 0;
}

int mcg_place_prepare(mcg_spawner_state *state, mcg_jail_order *order, mcg_failure *failure)
{
  const mcg_spawn_spec *spec = &order->spec;
  if (!state->root && !spec->disk_image) return 0;
  if (!state->root) return mcg_failure_set(failure, "disk", EPERM, "a disk image needs root");
  if (disk(state, order, failure) < 0) return -1;
  if (spec->rootfs && rootfs(&(job){order, failure, "rootfs"}) < 0) return -1;
  if (spec->project && project(&(job){order, failure, "project"}) < 0) return -1;
  return binds(&(job){order, failure, "bind"});
}
