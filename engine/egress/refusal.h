/* refusal.h: what the kernel of a sandbox's network refused by itself, since nobody listens there, read
 * from the packet by which it said so. Pure. The packets come from the `refused` socket of a stream,
 * which sees nothing but these; they were made by the kernel, and are read as if they were not. */
#ifndef MCG_REFUSAL_H
#define MCG_REFUSAL_H

#include "address.h"

#define MCG_REFUSAL_PACKET 256 /* more of one is not needed */

typedef struct mcg_refusal {
  mcg_address address; /* where somebody in the sandbox wanted to go */
  uint16_t port;
  bool udp; /* a datagram; else a TCP connection */
} mcg_refusal;

/* From the IP header on. False: it is no refusal. */
bool mcg_refusal_parse(const uint8_t *bytes, size_t len, mcg_refusal *out);

#endif
