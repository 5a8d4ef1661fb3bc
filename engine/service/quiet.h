/* quiet.h: writing to a pipe that nobody may be reading. write(2) raises SIGPIPE in this thread then,
 * and the host's disposition is not ours to change: the signal is held back for the call, and taken
 * away where the call raised it. */
#ifndef MCG_QUIET_H
#define MCG_QUIET_H

#include <signal.h>
#include <stdbool.h>

typedef struct mcg_quiet {
  sigset_t before;
  bool was_pending;
} mcg_quiet;

void mcg_quiet_begin(mcg_quiet *quiet);
/* `broken`: the write failed with EPIPE. Leaves errno alone. */
void mcg_quiet_end(const mcg_quiet *quiet, bool broken);

#endif
