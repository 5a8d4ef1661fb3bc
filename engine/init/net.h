/* net.h: what a network namespace of a sandbox is given. */
#ifndef MCG_INIT_NET_H
#define MCG_INIT_NET_H

/* In the caller's namespace: loopback up, low ports free. -1 with errno: no loopback. */
int mcg_net_loopback(void);

#endif
