/* disk.h: what a sandbox writes to, when its spawner and not itself makes it. Root only. */
#ifndef MCG_INIT_DISK_H
#define MCG_INIT_DISK_H

#include <stdint.h>

/* How many files a disk of that size may hold. */
static inline uint64_t mcg_disk_inodes(uint64_t size)
{
  return size / 4096 < 4096 ? 4096 : size / 4096;
}

/* A detached tmpfs of `size` bytes (0: the kernel's own limit) whose root belongs to the sandbox.
 * Returns a descriptor of the mount, or -1 with errno. */
int mcg_disk_tmpfs(uint64_t size, uint32_t uid, uint32_t gid);

#endif
