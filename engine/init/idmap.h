/* idmap.h: user namespaces that say how the ids of a mounted tree are to be read, for mounts with
 * MOUNT_ATTR_IDMAP. Root only. */
#ifndef MCG_INIT_IDMAP_H
#define MCG_INIT_IDMAP_H

#include <stdint.h>

/* The tree's owner is the sandbox, and every other id one that nobody has: visible, never its own.
 * Returns a descriptor of the namespace, or -1 with errno. */
int mcg_idmap_wide(uint32_t owner_uid, uint32_t owner_gid, uint32_t host_uid, uint32_t host_gid);
/* Ids 0 to 65535 of the tree are those of a sandbox with a range. */
int mcg_idmap_range(uint32_t first);

#endif
