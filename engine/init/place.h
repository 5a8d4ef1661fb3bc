/* place.h: what a privileged spawner mounts for a sandbox before it is cloned, because the sandbox's
 * own uid may not: directories of users, copy-on-write views of them, disk images. It passes them as
 * detached mounts. An ordinary user's spawner prepares nothing; the child does it with its rights. */
#ifndef MCG_INIT_PLACE_H
#define MCG_INIT_PLACE_H

#include "box.h"
#include "jail.h"

int mcg_place_prepare(mcg_spawner_state *state, mcg_jail_order *order, mcg_failure *failure);

#endif
