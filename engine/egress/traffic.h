/* traffic.h: what the connections of one session have moved and what they may still move: counts both
 * ways, a total, and a rate that all of them share. */
#ifndef MCG_EGRESS_TRAFFIC_H
#define MCG_EGRESS_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* Somebody who may go on when there are bytes again. Embedded; linked while it waits. */
typedef struct mcg_traffic_waiter {
  struct mcg_traffic_waiter *before, *after;
  bool waits;
  void (*resume)(struct mcg_traffic_waiter *waiter);
} mcg_traffic_waiter;

typedef struct mcg_traffic {
  uint64_t in, out;        /* into the sandbox, out of it */
  uint64_t rate, total;    /* bytes a second, bytes in all; 0: no limit */
  uint64_t tokens, at_ms;  /* what may be moved now, as of when */
  uv_timer_t timer;        /* runs while somebody waits */
  mcg_traffic_waiter wait; /* head of the ring of those who do */
  void (*closed)(void *data);
  void *data;
} mcg_traffic;

void mcg_traffic_init(mcg_traffic *traffic, uv_loop_t *loop, uint64_t rate, uint64_t total);
/* Nobody waits any more. `closed` comes from the loop; until then the memory stays. */
void mcg_traffic_close(mcg_traffic *traffic, void (*closed)(void *data), void *data);
void mcg_traffic_limit(mcg_traffic *traffic, uint64_t rate, uint64_t total); /* from now on */

/* How many of `want` bytes may be moved now; 0: wait, unless the total is spent. */
size_t mcg_traffic_ask(mcg_traffic *traffic, size_t want);
bool mcg_traffic_spent(const mcg_traffic *traffic); /* the total is */
void mcg_traffic_moved(mcg_traffic *traffic, bool into, size_t bytes);
void mcg_traffic_wait(mcg_traffic *traffic, mcg_traffic_waiter *waiter);
void mcg_traffic_leave(mcg_traffic_waiter *waiter); /* fine for one that does not wait */

#endif
