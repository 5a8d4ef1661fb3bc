/* spare.c: a group, and the descriptors by which a sandbox comes to be in it. */
#include "spare.h"

#include <unistd.h>

int mcg_spare_make(const mcg_cgroups *groups, uint64_t serial, mcg_spare *out)
{
  *out = (mcg_spare){.dir = -1, .doors = {-1, -1, -1}};
  mcg_cgroup_name(groups, serial, &out->group);
  if (mcg_cgroup_make(groups, &out->group) < 0) return -1;
  if (groups->mode == MCG_CGROUP_V1) return mcg_cgroup_doors(groups, &out->group, out->doors);
  out->dir = mcg_cgroup_open(groups, &out->group);
  return out->dir < 0 ? -1 : 0;
}

void mcg_spare_drop(const mcg_cgroups *groups, mcg_spare *spare)
{
  if (!spare->group.name[0]) return;
  if (spare->dir >= 0) close(spare->dir);
  for (size_t i = 0; i < MCG_CONTROLLERS; i++)
    if (spare->doors[i] >= 0) close(spare->doors[i]);
  mcg_cgroup_remove(groups, &spare->group);
  spare->group.name[0] = 0;
}
