/* place.c: detached mounts for a sandbox, made by a privileged spawner. */
#include "place.h"

#include <sys/stat.h>

#include "kernel.h"

static int detach(const char *path, int *out)
{
  *out = mcg_sys_open_tree(AT_FDCWD, path, MCG_OPEN_TREE_CLONE | MCG_AT_RECURSIVE);
  return *out < 0 ? -1 : 0;
}

int mcg_place_prepare(mcg_spawner_state *state, mcg_jail_order *order, mcg_failure *failure)
{
  if (!state->root) return 0;
  mcg_spawn_spec *spec = &order->spec;
  if (spec->rootfs && detach(spec->rootfs, &order->rootfs) < 0)
    return mcg_failure_set(failure, "rootfs", errno, "%s", spec->rootfs);
  for (size_t i = 0; i < spec->mount_count; i++)
    if (detach(spec->mounts[i].source, &order->mounts[i]) < 0)
      return mcg_failure_set(failure, "bind", errno, "%s", spec->mounts[i].source);
  return 0;
}
