/* dial.h: a connection to one of several addresses, whichever answers first. The addresses were judged
 * before; nothing is looked up here. */
#ifndef MCG_EGRESS_DIAL_H
#define MCG_EGRESS_DIAL_H

#include "address.h"
#include "engine.h"

/* IPv6 and IPv4 in turn, beginning with the first of the list; the next is tried when one has failed, or
 * has not answered for a quarter of a second. *fd is the caller's, *which its number in the list.
 * `unavailable` when none answers, with what the first one said. */
int mcg_dial(mcg_engine *engine, const mcg_address *list, size_t count, uint16_t port,
             int64_t timeout_ms, int *fd, size_t *which, mcg_error **err) MCG_PARKS;
/* "1.2.3.4:80", "[2001:db8::1]:80". */
#define MCG_ENDPOINT_TEXT (MCG_ADDRESS_TEXT + 8)
void mcg_endpoint_text(const mcg_address *address, uint16_t port, char out[MCG_ENDPOINT_TEXT]);

#endif
