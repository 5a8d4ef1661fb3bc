/* relay.h: bytes between two connected sockets, from the loop: no fiber, no thread, bounded memory.
 *
 * An end of file is passed on as one and the other direction goes on; a reset is passed on as a reset.
 * Who reads slowly holds back who writes fast. Used by the gateway for the way out, and for ports into
 * a sandbox. */
#ifndef MCG_EGRESS_RELAY_H
#define MCG_EGRESS_RELAY_H

#include "engine.h"
#include "traffic.h"

typedef struct mcg_relay mcg_relay;

typedef enum mcg_relay_reason {
  MCG_RELAY_FINISHED, /* both directions came to their end */
  MCG_RELAY_RESET,    /* one of the two broke off */
  MCG_RELAY_IDLE,     /* nothing moved for the idle time */
  MCG_RELAY_SPENT,    /* the traffic's total is spent */
  MCG_RELAY_CUT       /* mcg_relay_cut */
} mcg_relay_reason;

typedef struct mcg_relay_end {
  mcg_relay_reason reason;
  int number;       /* of a reset: errno, where it is known */
  bool near;        /* of a reset: it was the near one that broke off */
  bool near_over;   /* the near one had said all it had to say, and that was passed on */
  uint64_t in, out; /* far to near, near to far */
} mcg_relay_end;

typedef struct mcg_relay_options {
  int near, far;        /* both are taken, also on failure */
  uint64_t idle_ms;     /* 0: none */
  mcg_traffic *traffic; /* counts there, and keeps to its limits; or NULL. Outlives the relay. */
  /* Exactly once, unless the start failed; both sockets are closed, the relay must not be named again.
   * Also inside mcg_relay_cut, and inside the start, after *out is set. */
  void (*ended)(void *data, const mcg_relay_end *end);
  void *data;
} mcg_relay_options;

int mcg_relay_start(uv_loop_t *loop, const mcg_relay_options *options, mcg_relay **out,
                    mcg_error **err);
void mcg_relay_cut(mcg_relay *relay); /* both sides see a reset */
/* Closes a socket so that its peer sees a reset and not an end of file. */
void mcg_socket_reset(int fd);

#endif
