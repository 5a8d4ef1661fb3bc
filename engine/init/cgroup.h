/* cgroup.h: limits of a sandbox by control groups, version 1 and 2, one interface.
 *
 * A sandbox's group is named mcg-<engine pid>-<engine start time>-<serial> so that whoever finds it
 * later can judge whether its owner lives. */
#ifndef MCG_INIT_CGROUP_H
#define MCG_INIT_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "spawn.h"

enum { MCG_CAN_MEMORY = 1, MCG_CAN_CPU = 2, MCG_CAN_PIDS = 4 };
enum { MCG_C_MEMORY, MCG_C_CPU, MCG_C_PIDS, MCG_CONTROLLERS };

typedef struct mcg_cgroups {
  enum mcg_cgroup_mode mode;
  unsigned can;
  int base[MCG_CONTROLLERS]; /* v1: one directory a controller; v2: base[0]. -1: none */
  char owner[48];            /* "mcg-PID-START" */
} mcg_cgroups;

typedef struct mcg_cgroup {
  bool made;
  char name[80];
  int dir[MCG_CONTROLLERS]; /* v2: dir[0] */
} mcg_cgroup;

void mcg_cgroups_open(mcg_cgroups *groups, pid_t engine, uint64_t start);
/* 0, or -1 with errno. */
int mcg_cgroup_make(const mcg_cgroups *groups, uint64_t serial, mcg_cgroup *out);
/* Writes the limits of the spec; a limit that cannot be written is an error (-1, `what` names it).
 * Puts ENFORCED texts, for every limit that was asked for. */
int mcg_cgroup_limit(const mcg_cgroups *groups, const mcg_cgroup *group, const mcg_spawn_spec *spec,
                     mcg_wire *enforced, const char **what);
void mcg_cgroup_counters(const mcg_cgroups *groups, const mcg_cgroup *group, mcg_wire *out);
int mcg_cgroup_attach(const mcg_cgroups *groups, const mcg_cgroup *group, pid_t pid);
/* SIGKILL to all in it. */
void mcg_cgroup_kill(const mcg_cgroups *groups, const mcg_cgroup *group);
/* 0: it is gone. -1: somebody is still in it. */
int mcg_cgroup_remove(const mcg_cgroups *groups, mcg_cgroup *group);

#endif
