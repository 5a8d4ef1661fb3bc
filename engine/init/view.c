/* view.c: --project, as seen from inside. A privileged spawner has made the view and passes it; an
 * ordinary user's sandbox makes its own, with the rights that its user has to the tree. What is
 * written lies on the sandbox's own disk, where no command can see it but through the view. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "jail.h"
#include "kernel.h"

int mcg_jail_project_places(mcg_jail *jail, const char *base)
{
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/mooncage", base);
  if (mkdir(path, 0755) < 0) return mcg_jail_fail(jail, "project", errno, "make /mooncage");
  snprintf(path, sizeof path, "%s/mooncage/a", base);
  if (mkdir(path, 0755) < 0) return mcg_jail_fail(jail, "project", errno, "make /mooncage/a");
  snprintf(path, sizeof path, "%s/mooncage/b", base);
  if (symlink(jail->workdir, path) < 0)
    return mcg_jail_fail(jail, "project", errno, "link /mooncage/b");
  return 0;
}

static int put(mcg_jail *jail, int mount, const char *where)
{
  int target = mcg_jail_target(jail, "project", where, true);
  if (target < 0) return -1;
  int rc = mcg_sys_move_mount(mount, target);
  if (rc < 0) mcg_jail_fail(jail, "project", errno, "mount %s on %s", jail->spec->project, where);
  close(target);
  return rc;
}

/* On the stage too, for the overlay to find. */
static int original(mcg_jail *jail)
{
  mcg_mount_attr attr = {.set = MCG_ATTR_RDONLY | MCG_ATTR_NOSUID | MCG_ATTR_NODEV};
  if (mkdir("p", 0755) < 0 ||
      mcg_sys_mount_setattr(jail->original, "", AT_EMPTY_PATH | MCG_AT_RECURSIVE, &attr) < 0)
    return mcg_jail_fail(jail, "project", errno, "%s", jail->spec->project);
  int stage = open("p", O_PATH | O_DIRECTORY | O_CLOEXEC);
  int rc = stage < 0 ? -1 : mcg_sys_move_mount(jail->original, stage);
  if (stage >= 0) close(stage);
  if (rc < 0)
    return mcg_jail_fail(jail, "project", errno, "%s: not a directory", jail->spec->project);
  int target = mcg_jail_target(jail, "project", "/mooncage/a", true);
  if (target < 0) return -1;
  rc = mcg_jail_bind(jail, "project", "p", target);
  close(target);
  return rc;
}

static int view(mcg_jail *jail)
{
  char place[40];
  if (mkdir("d/view", 0755) < 0 || mkdir("d/view.work", 0755) < 0)
    return mcg_jail_fail(jail, "disk", errno, "make the place of the view");
  int target = mcg_jail_target(jail, "workdir", jail->workdir, true);
  if (target < 0) return -1;
  snprintf(place, sizeof place, "/proc/self/fd/%d", target);
  int rc = mount("overlay", place, "overlay", MS_NOSUID | MS_NODEV,
                 "lowerdir=p,upperdir=d/view,workdir=d/view.work,userxattr");
  if (rc < 0)
    mcg_jail_fail(jail, "project", errno, "mount a copy-on-write view of %s", jail->spec->project);
  close(target);
  return rc;
}

int mcg_jail_project(mcg_jail *jail)
{
  const mcg_jail_order *order = jail->order;
  bool given = order->project >= 0;
  if (given ? put(jail, jail->original, "/mooncage/a") < 0 ||
                  put(jail, order->project, jail->workdir) < 0
            : original(jail) < 0 || view(jail) < 0)
    return -1;
  mcg_jail_note(jail, "project=copy-on-write view");
  return 0;
}
