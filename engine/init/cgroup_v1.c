/* cgroup_v1.c: one hierarchy a controller. Root makes groups below "mooncage" at each one's top; an
 * ordinary user below its own group, where somebody has given it that. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cgroup.h"
#include "kernel.h"

#define CGROUP1_MAGIC 0x27e0eb
/* Bytes that the dead may leave charged: the kernel's own, for names and inodes that it keeps. */
#define RESIDUE_MAX (1u << 20)

static const struct controller {
  const char *name;
  unsigned bit;
} CONTROLLERS[MCG_CONTROLLERS] = {
    [MCG_C_MEMORY] = {"memory", MCG_CAN_MEMORY},
    [MCG_C_CPU] = {"cpu", MCG_CAN_CPU},
    [MCG_C_PIDS] = {"pids", MCG_CAN_PIDS},
};

static int open_base(const char *name)
{
  char path[PATH_MAX], own[PATH_MAX - 64];
  struct statfs fs;
  if (geteuid() == 0) {
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s/mooncage", name);
    if (mkdir(path, 0755) < 0 && errno != EEXIST) return -1;
  } else {
    if (!mcg_cgroup_own_path(name, own, sizeof own)) return -1;
    snprintf(path, sizeof path, "/sys/fs/cgroup/%s%s", name, own);
  }
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  if (fstatfs(fd, &fs) == 0 && (unsigned long)fs.f_type == CGROUP1_MAGIC &&
      faccessat(fd, ".", W_OK, AT_EACCESS) == 0)
    return fd;
  close(fd);
  return -1;
}

void mcg_cgroups_open_v1(mcg_cgroups *groups)
{
  for (size_t i = 0; i < MCG_CONTROLLERS; i++) {
    groups->base[i] = open_base(CONTROLLERS[i].name);
    if (groups->base[i] >= 0) groups->can |= CONTROLLERS[i].bit;
  }
  if (groups->can) groups->mode = MCG_CGROUP_V1;
  groups->why = geteuid() == 0 ? "this cgroup v1 controller is not mounted or not writable"
                               : "this user has no writable cgroup v1 directory of its own";
}

static int limit_memory(int base, const char *group, uint64_t bytes)
{
  if (!mcg_cgroup_put_number(base, group, "memory.limit_in_bytes", bytes)) return -1;
  /* Memory and swap together; the file is absent where swap is not accounted. */
  if (!mcg_cgroup_put_number(base, group, "memory.memsw.limit_in_bytes", bytes) && errno != ENOENT)
    return -1;
  return 0;
}

int mcg_cgroup_limit_v1(const mcg_cgroups *groups, const char *group,
                        const mcg_cgroup_limits *limits, const char **what)
{
  const int *base = groups->base;
  *what = "memory";
  if (limits->memory && base[MCG_C_MEMORY] >= 0 &&
      limit_memory(base[MCG_C_MEMORY], group, limits->memory) < 0)
    return -1;
  *what = "cpu"; /* the period is the kernel's default, MCG_CPU_PERIOD_US */
  if (limits->cpu_milli && base[MCG_C_CPU] >= 0 &&
      !mcg_cgroup_put_number(base[MCG_C_CPU], group, "cpu.cfs_quota_us",
                             (uint64_t)limits->cpu_milli * MCG_CPU_PERIOD_US / 1000))
    return -1;
  *what = "pids";
  if (limits->pids && base[MCG_C_PIDS] >= 0 &&
      !mcg_cgroup_put_number(base[MCG_C_PIDS], group, "pids.max", limits->pids + MCG_PIDS_RESERVE))
    return -1;
  return 0;
}

void mcg_cgroup_read_v1(const mcg_cgroups *groups, const char *group, bool live,
                        mcg_cgroup_use *out)
{
  int memory = groups->base[MCG_C_MEMORY], pids = groups->base[MCG_C_PIDS];
  if (live) out->memory = mcg_cgroup_get(memory, group, "memory.usage_in_bytes", NULL);
  out->memory_peak = mcg_cgroup_get(memory, group, "memory.max_usage_in_bytes", NULL);
  out->oom_kills = mcg_cgroup_get(memory, group, "memory.oom_control", "oom_kill");
  if (live) out->pids = mcg_cgroup_get(pids, group, "pids.current", NULL);
  out->pids_hits = mcg_cgroup_get(pids, group, "pids.events", "max");
}

/* Nobody in it, or who was in it, shows: not by what was counted, nor by a quota that is used up, which
 * the writing of it fills. */
bool mcg_cgroup_renew_v1(const mcg_cgroups *groups, const char *group,
                         const mcg_cgroup_limits *limits)
{
  const char *what;
  int memory = groups->base[MCG_C_MEMORY];
  mcg_cgroup_use use;
  for (size_t i = 0; i < MCG_CONTROLLERS; i++)
    if (groups->base[i] >= 0 && !mcg_cgroup_is_empty(groups->base[i], group)) return false;
  if (memory >= 0 && !mcg_cgroup_put_number(memory, group, "memory.max_usage_in_bytes", 0))
    return false;
  mcg_cgroup_read_v1(groups, group, true, &use);
  if (use.memory > RESIDUE_MAX || use.oom_kills || use.pids || use.pids_hits) return false;
  return mcg_cgroup_limit_v1(groups, group, limits, &what) == 0;
}
