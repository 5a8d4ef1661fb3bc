/* net.h: what a network namespace of a sandbox is given, by whoever is in it. */
#ifndef MCG_INIT_NET_H
#define MCG_INIT_NET_H

int mcg_net_loopback(void);        /* up; -1 with errno */
void mcg_net_free_ports(int proc); /* low ports are anybody's; `proc` is a /proc */

#endif
