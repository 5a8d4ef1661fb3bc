/* idmap.h: user namespaces that say how the ids of a mounted tree are to be read, for mounts with
 * MOUNT_ATTR_IDMAP. Root only. */
#ifndef MCG_INIT_IDMAP_H
#define MCG_INIT_IDMAP_H

#include <stdint.h>

/* One, kept for the next tree of the same owner. */
typedef struct mcg_idmap {
  int fd;                        /* -1: none yet */
  uint32_t owner_uid, owner_gid; /* of the tree */
} mcg_idmap;

/* The tree's owner is the sandbox, and every other id one that nobody has: visible, never its own.
 * Returns a descriptor of the namespace, which is the map's, or -1 with errno. */
int mcg_idmap_wide(mcg_idmap *map, uint32_t owner_uid, uint32_t owner_gid, uint32_t host_uid,
                   uint32_t host_gid);
/* Ids 0 to 65535 of the tree are those of a sandbox with a range. */
int mcg_idmap_range(mcg_idmap *map, uint32_t first);
void mcg_idmap_close(mcg_idmap *map);

#endif
