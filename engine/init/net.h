/* net.h: what a network namespace of a sandbox is given, by whoever is in it. */
#ifndef MCG_INIT_NET_H
#define MCG_INIT_NET_H

#include <stdbool.h>

#include "gateway.h"
#include "spawn.h"

/* /etc/resolv.conf. Without this line every library asks there, too. */
#define MCG_RESOLVER                                                                               \
  "# Names are answered by the gateway of this sandbox, if it has one.\n"                          \
  "nameserver 127.0.0.1\n"

/* One that was made ahead (stash.h). What kind it is says whom it serves. */
typedef struct mcg_net {
  int fd; /* -1: nothing here */
  bool gateway, redirect;
  mcg_gateway ways; /* its sockets; none without a gateway */
} mcg_net;

void mcg_net_init(mcg_net *net);
void mcg_net_close(mcg_net *net);

int mcg_net_loopback(void);        /* up; -1 with errno */
void mcg_net_free_ports(int proc); /* low ports are anybody's; `proc` is a /proc */

#endif
