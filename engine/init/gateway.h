/* gateway.h: what the network namespace of a sandbox is given so that the engine's gateway can stand
 * at its every way out.
 *
 * Every address there is becomes local, so that a connection to any of them ends in that namespace: at a
 * listener of the gateway where the policy opens one, else at nobody, and then the kernel refuses it at
 * once. The sockets are the engine's in the end; what they are is written in protocol.h. Whoever has
 * rights over the namespace does this, while in it; the sandbox is left with none. */
#ifndef MCG_INIT_GATEWAY_H
#define MCG_INIT_GATEWAY_H

#include <stdbool.h>

#include "protocol.h"

typedef struct mcg_gateway {
  int sockets[MCG_SOCKETS]; /* by enum mcg_socket_kind; -1: there is none */
  bool six;                 /* there is IPv6 in it */
  bool redirecting;         /* all else is made */
  const char *failed;       /* after a failure: at what; errno says why */
} mcg_gateway;

void mcg_gateway_init(mcg_gateway *gateway);
void mcg_gateway_close(mcg_gateway *gateway);
/* For the caller's own network namespace, with loopback up. -1 with errno and `failed`; then all of it
 * is closed. No IPv6 in this kernel: none in the sandbox either. */
int mcg_gateway_make(mcg_gateway *gateway, bool redirect);

/* redirect.c: each TCP connection that leaves for another address than loopback's comes to the
 * listeners that are in `gateway`, made by it, which find its destination by SO_ORIGINAL_DST. -1
 * with errno and `failed`. */
int mcg_redirect_make(mcg_gateway *gateway);

#endif
