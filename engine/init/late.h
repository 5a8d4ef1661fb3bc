/* late.h: a gateway for a sandbox that was made without one. */
#ifndef MCG_INIT_LATE_H
#define MCG_INIT_LATE_H

#include "gateway.h"

/* In the network namespace `net`, with loopback up, which is a sandbox's: by a process of its own. -1 with
 * errno and `failed`; then nothing of it is left. For who made the namespace, or its root. */
int mcg_gateway_late(int net, bool redirect, mcg_gateway *out);
/* The network namespace that a socket is in; -1 with errno. For the same. */
int mcg_net_of_socket(int fd);

#endif
