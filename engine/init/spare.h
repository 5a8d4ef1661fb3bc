/* spare.h: control groups made ahead, while nobody asks for anything: three directories on version 1,
 * whose making is a tenth of the time that a sandbox takes. */
#ifndef MCG_INIT_SPARE_H
#define MCG_INIT_SPARE_H

#include "cgroup.h"

typedef struct mcg_spare {
  mcg_cgroup group;           /* no name: nothing here */
  int dir;                    /* v2: to be born in; -1 */
  int doors[MCG_CONTROLLERS]; /* v1: to enter by; -1 */
} mcg_spare;

/* Makes one. -1 with errno; what it made is mcg_spare_drop's all the same. */
int mcg_spare_make(const mcg_cgroups *groups, uint64_t serial, mcg_spare *out);
void mcg_spare_drop(const mcg_cgroups *groups, mcg_spare *spare);

#endif
