/* cgroup.c: which version is here, and where this user may make groups. */
#include "cgroup.h"

#include <stdio.h>

void mcg_cgroups_open(mcg_cgroups *groups, pid_t engine, uint64_t start)
{
  *groups = (mcg_cgroups){.base = {-1, -1, -1}};
  snprintf(groups->owner, sizeof groups->owner, "mcg-%d-%llu", (int)engine, (unsigned long long)start);
}

int mcg_cgroup_make(const mcg_cgroups *groups, uint64_t serial, mcg_cgroup *out)
{
  (void)groups, (void)serial;
  *out = (mcg_cgroup){.dir = {-1, -1, -1}};
  return 0;
}

int mcg_cgroup_limit(const mcg_cgroups *groups, const mcg_cgroup *group, const mcg_spawn_spec *spec,
                     mcg_wire *enforced, const char **what)
{
  (void)groups, (void)group, (void)spec, (void)enforced, (void)what;
  return 0;
}

void mcg_cgroup_counters(const mcg_cgroups *groups, const mcg_cgroup *group, mcg_wire *out)
{
  (void)groups, (void)group, (void)out;
}

int mcg_cgroup_attach(const mcg_cgroups *groups, const mcg_cgroup *group, pid_t pid)
{
  (void)groups, (void)group, (void)pid;
  return 0;
}

void mcg_cgroup_kill(const mcg_cgroups *groups, const mcg_cgroup *group)
{
  (void)groups, (void)group;
}

int mcg_cgroup_remove(const mcg_cgroups *groups, mcg_cgroup *group)
{
  (void)groups, (void)group;
  return 0;
}
