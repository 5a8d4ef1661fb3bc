/* seat.h: a process that already sits in a fresh group of every cgroup v1 controller, waiting.
 *
 * Attaching waits for an RCU grace period, so it is done beforehand, by the seat itself. A jail is then
 * cloned out of the seat: born in the seat's groups, and a child of the spawner (CLONE_PARENT). A seat
 * has the spawner's memory as of its fork; everything about the sandbox travels in the message. */
#ifndef MCG_INIT_SEAT_H
#define MCG_INIT_SEAT_H

#include "cgroup.h"
#include "jail.h"

typedef struct mcg_seat {
  pid_t pid;
  int pidfd;
  int socket;  /* -1: no seat */
  bool ready;  /* it said that it sits */
  mcg_cgroup cgroup;
} mcg_seat;

/* Starts one; it sits down by itself. 0, or -1 with errno. `tied_to`: a pidfd of the spawner. */
int mcg_seat_start(mcg_seat *seat, const mcg_cgroups *groups, uint64_t serial, int tied_to);
/* Waits until it sits. 0, or -1 with errno: the seat is over, its group is the caller's to remove. */
int mcg_seat_wait(mcg_seat *seat);
/* Clones a jail out of it, whereupon the seat leaves and its group is the jail's; seat->pid is still to
 * be waited for, with __WALL. Returns the jail's pid, or -1 with errno and no seat. `body`: the fields of CREATE that order->spec was read from. */
pid_t mcg_seat_clone(mcg_seat *seat, const mcg_jail_order *order, const void *body, size_t len,
                     int *pidfd);
void mcg_seat_end(mcg_seat *seat); /* kills it; its group is the caller's to remove */

#endif
