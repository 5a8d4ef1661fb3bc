/* cgroup.h: limits of a sandbox by control groups, version 1 and 2, one interface.
 *
 * A sandbox's group is named mcg-OWNER-SERIAL, so that whoever finds it later can judge whether its
 * owner lives. On version 1 there is one directory of that name in each
 * hierarchy; a group has no descriptor, only its name, so that many cost nothing.
 *
 * Attaching a process to a group waits for an RCU grace period, 14 ms where attaches are rare. On
 * version 2 a sandbox is born in its group instead (CLONE_INTO_CGROUP). On version 1 a thread that moves
 * itself, by writing 0 to `tasks`, takes no such lock, 0.2 ms for three groups: the sandbox's first act
 * is to walk through doors that the spawner opened for it. */
#ifndef MCG_INIT_CGROUP_H
#define MCG_INIT_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "owner.h"
#include "spawn.h"

enum { MCG_CAN_MEMORY = 1, MCG_CAN_CPU = 2, MCG_CAN_PIDS = 4 };
enum { MCG_C_MEMORY, MCG_C_CPU, MCG_C_PIDS, MCG_CONTROLLERS };

typedef struct mcg_cgroups {
  enum mcg_cgroup_mode mode;
  unsigned can;              /* MCG_CAN_* */
  int base[MCG_CONTROLLERS]; /* v1: a directory for each controller or -1; v2: base[0] */
  const char *why;           /* there is none, or not all: the reason */
  const mcg_owner *owner;
} mcg_cgroups;

typedef struct mcg_cgroup {
  char name[80]; /* "mcg-OWNER-SERIAL"; empty: no group */
} mcg_cgroup;

/* The owner is the caller's, and stays. */
void mcg_cgroups_open(mcg_cgroups *groups, const mcg_owner *owner);
void mcg_cgroup_name(const mcg_cgroups *groups, uint64_t serial, mcg_cgroup *out);
/* The directories. 0, or -1 with errno; what was made is mcg_cgroup_remove's. */
int mcg_cgroup_make(const mcg_cgroups *groups, const mcg_cgroup *group);
int mcg_cgroup_open(const mcg_cgroups *groups, const mcg_cgroup *group); /* v2: for clone3 */
/* v1: descriptors to be written "0" to by whoever is to be in it; -1 where there is no controller. */
int mcg_cgroup_doors(const mcg_cgroups *groups, const mcg_cgroup *group, int out[MCG_CONTROLLERS]);

typedef struct mcg_cgroup_limits {
  uint64_t memory; /* bytes; 0, here and below: none */
  uint32_t cpu_milli, pids;
} mcg_cgroup_limits;
/* Writes those that this machine can keep. -1 with errno: one could not be written; `what` names it. */
int mcg_cgroup_limit(const mcg_cgroups *groups, const mcg_cgroup *group,
                     const mcg_cgroup_limits *limits, const char **what);
/* An ENFORCED text for each that is asked for: how it is enforced, or "none: why". */
void mcg_cgroup_tell(const mcg_cgroups *groups, const mcg_cgroup_limits *limits,
                     mcg_wire *enforced);

typedef struct mcg_cgroup_use {
  uint64_t memory, memory_peak, cpu_us, pids, oom_kills, pids_hits;
} mcg_cgroup_use;
/* `live`: also what is 0 once nobody is left, memory and pids. */
void mcg_cgroup_read(const mcg_cgroups *groups, const mcg_cgroup *group, bool live,
                     mcg_cgroup_use *out);

void mcg_cgroup_kill(const mcg_cgroups *groups, const mcg_cgroup *group); /* SIGKILL to all in it */
int mcg_cgroup_remove(const mcg_cgroups *groups,
                      mcg_cgroup *group); /* -1: somebody is still in it */
/* A group that everybody has left, as if it had just been made with these limits. False: it does not
 * serve again, be it that it counts what cannot be set back, holds too much memory, or is not empty. */
bool mcg_cgroup_renew(const mcg_cgroups *groups, const mcg_cgroup *group,
                      const mcg_cgroup_limits *limits);

/* ---- shared by the two versions ------------------------------------------------------------- */

#define MCG_PIDS_RESERVE 2 /* init, and a stub */
#define MCG_CPU_PERIOD_US 100000

bool mcg_cgroup_put(int base, const char *group, const char *file, const char *text);
bool mcg_cgroup_put_number(int base, const char *group, const char *file, uint64_t value);
/* Of a file "key value\n"…; `key` NULL: the file is one number. 0 where there is none. */
uint64_t mcg_cgroup_get(int base, const char *group, const char *file, const char *key);
/* The path of `controller` ("" for version 2) in /proc/self/cgroup. */
bool mcg_cgroup_own_path(const char *controller, char *out, size_t size);
void mcg_cgroup_kill_listed(int base, const char *group); /* all in cgroup.procs */
bool mcg_cgroup_is_empty(int base, const char *group);

void mcg_cgroups_open_v1(mcg_cgroups *groups);
void mcg_cgroups_open_v2(mcg_cgroups *groups);
int mcg_cgroup_limit_v1(const mcg_cgroups *groups, const char *group,
                        const mcg_cgroup_limits *limits, const char **what);
int mcg_cgroup_limit_v2(const mcg_cgroups *groups, const char *group,
                        const mcg_cgroup_limits *limits, const char **what);
void mcg_cgroup_read_v1(const mcg_cgroups *groups, const char *group, bool live,
                        mcg_cgroup_use *out);
bool mcg_cgroup_renew_v1(const mcg_cgroups *groups, const char *group,
                         const mcg_cgroup_limits *limits);
void mcg_cgroup_read_v2(const mcg_cgroups *groups, const char *group, bool live,
                        mcg_cgroup_use *out);

#endif
