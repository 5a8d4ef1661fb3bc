/* image.h: a sandbox's disk as a file system of its own on a loop device, where the disk is to be
 * larger than memory: writing past it is ENOSPC, and what is written can be reclaimed. Root only.
 *
 * The file never has a name (O_TMPFILE), the device clears itself with its last mount, and that mount
 * is in the sandbox alone: whatever is killed, nothing is left. */
#ifndef MCG_INIT_IMAGE_H
#define MCG_INIT_IMAGE_H

#include <stdint.h>

/* An empty file system of the size that was asked for last, to copy from. */
typedef struct mcg_image {
  int fd; /* 0: none yet */
  uint64_t size;
} mcg_image;

/* A detached mount whose root belongs to the sandbox, or -1 with errno; `what` says which part failed. */
int mcg_image_mount(mcg_image *image, uint64_t size, uint32_t uid, uint32_t gid, const char **what);
/* Gives up what is not written yet: ending a sandbox must not wait for its garbage to reach a disk. */
void mcg_image_abandon(int directory);

#endif
