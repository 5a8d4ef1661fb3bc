/* beneath.h: opening a path that must stay beneath a directory and pass through no link at all. */
#ifndef MCG_BENEATH_H
#define MCG_BENEATH_H

#include <sys/types.h>

/* -1 with errno: ELOOP where a component (the last too) is a link, EXDEV where the path would leave
 * by "..", an absolute name or a magic link. Works where openat2 is missing: then the components are
 * walked one by one. */
int mcg_open_beneath(int dir, const char *path, int flags, mode_t mode);

#endif
