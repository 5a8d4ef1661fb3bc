/* range.h: the ids of a sandbox of profile packages: 65,536 of the host's that nobody else uses. As
 * root out of a part of the numbers kept for this; for an ordinary user those that /etc/subuid and
 * /etc/subgid give it, written by newuidmap and newgidmap. */
#ifndef MCG_INIT_RANGE_H
#define MCG_INIT_RANGE_H

#include "box.h"
#include "jail.h"

#define MCG_RANGE 65536u

/* Chooses the range and makes the pipe: host_uid, host_gid, range, go of the order. */
int mcg_range_choose(mcg_spawner_state *state, mcg_box *box, mcg_jail_order *order,
                     mcg_failure *failure);
/* Writes the maps of the sandbox, which waits for them, and lets it go on. */
int mcg_range_write(const mcg_spawner_state *state, const mcg_box *box, mcg_jail_order *order,
                    mcg_failure *failure);
/* Any range, to a process that is in a user namespace of its own: to see whether it works. */
int mcg_range_give(pid_t pid, uid_t uid, gid_t gid, mcg_failure *failure);

#endif
