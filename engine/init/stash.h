/* stash.h: parts of the next sandbox, made ahead by a thread of the spawner: a control group with the
 * limits that were last asked for; a network namespace, which takes longer to make than all the rest of a
 * sandbox; a uid with the id map of what was last bound. What is not there, or does not fit the request, is
 * made when it is asked for.
 *
 * None of them has been used by anybody. A network that a sandbox had comes back only where the kernel
 * shows that nothing was ever done in it (traces.h), as with commands that open no connection; a group
 * only where it can be made as it was (mcg_cgroup_renew). To remove a group and make another costs the
 * kernel more, for long after, than all else that is done for a sandbox.
 *
 * The thread gets jobs by a pipe and shares nothing but the parts, each with one owner at a time. It
 * allocates no memory: the spawner is cloned meanwhile, and a lock that it held would stay locked. */
#ifndef MCG_INIT_STASH_H
#define MCG_INIT_STASH_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cgroup.h"
#include "idmap.h"
#include "net.h"
#include "traces.h"

#define MCG_STASHED 4 /* groups, of which half are made ahead */
#define MCG_NETS 4    /* of networks, of which half are made ahead */
#define MCG_BURIED 16 /* networks that end together */

/* A group, and the descriptors by which a sandbox comes to be in it. */
typedef struct mcg_spare {
  mcg_cgroup group;           /* no name: nothing here */
  mcg_cgroup_limits limits;   /* as written */
  int dir;                    /* v2: to be born in; -1 */
  int doors[MCG_CONTROLLERS]; /* v1: to enter by; -1 */
} mcg_spare;

/* Whose a part is: the thread's while it is being made, else the spawner's. */
enum { MCG_PART_MISSING, MCG_PART_MAKING, MCG_PART_READY, MCG_PART_USED };

typedef struct mcg_stash {
  const mcg_cgroups *cgroups;
  uint64_t serial;        /* of groups */
  mcg_cgroup_limits last; /* that were asked for */
  mcg_spare groups[MCG_STASHED];
  mcg_net nets[MCG_NETS];
  bool gateway, redirect; /* of the network that was asked for last */
  mcg_idmap map;          /* its owner is whose tree was bound last */
  int map_slot;           /* the uid that `map` is for; -1 */
  atomic_int group_state[MCG_STASHED], net_state[MCG_NETS], map_state;
  mcg_traces fresh, seen; /* the thread's: of a network just made, of one that came back */
  atomic_bool reusing;    /* the last one that came back had not been used */
  atomic_bool renewing;   /* the last group that came back serves again */
  int dead[MCG_BURIED];   /* networks that nobody is in any more */
  unsigned dead_count;
  atomic_int closing; /* descriptors that are yet to be closed */
  int home;           /* the spawner's own network namespace; -1: it may not make others */
  int proc;           /* an instance of /proc, the thread's; -1 */
  unsigned proc_uses;
  bool mapping; /* something was bound */
  int jobs[2];  /* a pipe; -1: no thread runs */
  sem_t begun;
  pthread_t thread;
  bool begun_well;
} mcg_stash;

/* `privileged`: it may give a sandbox a network namespace that is not the sandbox's own. */
void mcg_stash_init(mcg_stash *stash, const mcg_cgroups *cgroups, bool privileged);
/* Ends the thread, removes what is left. */
void mcg_stash_fini(mcg_stash *stash);

/* A group with these limits. -1 with errno: `what` could not be limited, or NULL: not be made; `out` is
 * the caller's all the same. */
int mcg_stash_group(mcg_stash *stash, const mcg_cgroup_limits *limits, mcg_spare *out,
                    const char **what);
/* The group of a sandbox that is dead, with the limits it was made with: the next one's if it serves, else
 * removed. False: there is no room, it stays the caller's. */
bool mcg_stash_return_group(mcg_stash *stash, mcg_cgroup *group, const mcg_cgroup_limits *limits);
/* A network namespace with loopback, up, and with a gateway's routes and sockets where that is asked for,
 * that nobody has used; the caller's. False: there is none ready of this kind; the next ones will be. */
bool mcg_stash_net(mcg_stash *stash, bool gateway, bool redirect, mcg_net *out);
/* Into it for the length of a clone. -1 with errno; the way back ends the process where it is barred. */
int mcg_stash_enter_net(int net);
void mcg_stash_leave_net(const mcg_stash *stash);
/* The slot of a map that is ready, and that map; -1: none is. */
int mcg_stash_map(mcg_stash *stash, mcg_idmap *out);

/* Has what is missing made; what cannot be made is missing again. Starts the thread. */
void mcg_stash_refill(mcg_stash *stash);
/* What was bound last; a map without a descriptor says nothing. */
void mcg_stash_saw(mcg_stash *stash, const mcg_idmap *map);
/* A map for this slot and its host id, where mcg_stash_map_missing. False: it cannot be asked for. */
bool mcg_stash_map_missing(mcg_stash *stash);
bool mcg_stash_refill_map(mcg_stash *stash, int slot, uint32_t host);
/* A network of the stash's, without a gateway, that a sandbox had, which is dead: the next one's if it was not used. */
void mcg_stash_return_net(mcg_stash *stash, int net);
/* Lets go of a network, together with others: the end of one costs the kernel more than a millisecond,
 * that of many at once little more. */
void mcg_stash_bury(mcg_stash *stash, int net);
void mcg_stash_bury_all(mcg_stash *stash);
/* Closes a descriptor whose going takes long behind everything else; now, where many wait already. */
void mcg_stash_close(mcg_stash *stash, int fd);

#endif
