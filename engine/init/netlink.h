/* netlink.h: messages to the kernel's netlink families, as many as fit at once, and what came of each. */
#ifndef MCG_INIT_NETLINK_H
#define MCG_INIT_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MCG_NETLINK_ROOM 4096
#define MCG_NETLINK_MESSAGES 24

/* Zeroed is empty. A message is begun, given attributes, and ends where the next begins. */
typedef struct mcg_netlink {
  _Alignas(4) uint8_t bytes[MCG_NETLINK_ROOM];
  size_t len, begin; /* of the message that is being written */
  uint32_t count;    /* of messages; the number of each is its place, from 0 */
  bool full;         /* something did not fit: nothing will be sent */
  bool answered[MCG_NETLINK_MESSAGES];
  int errors[MCG_NETLINK_MESSAGES]; /* after mcg_netlink_send: errno of each, 0: done */
} mcg_netlink;

/* `flags` come on top of NLM_F_REQUEST. `body` is the family's own header. */
void mcg_netlink_begin(mcg_netlink *netlink, uint16_t type, uint16_t flags, const void *body,
                       size_t len);
void mcg_netlink_put(mcg_netlink *netlink, uint16_t type, const void *bytes, size_t len);
void mcg_netlink_put_text(mcg_netlink *netlink, uint16_t type, const char *text); /* with its NUL */
void mcg_netlink_put_be32(mcg_netlink *netlink, uint16_t type, uint32_t value);
/* Attributes that come until the close are inside of this one. */
size_t mcg_netlink_open(mcg_netlink *netlink, uint16_t type);
void mcg_netlink_close(mcg_netlink *netlink, size_t opened);

/* Sends all of it in one piece to `family` (NETLINK_ROUTE ...) and takes the answers of those that were
 * begun with NLM_F_ACK. -1 with errno: nothing is known of them. */
int mcg_netlink_send(mcg_netlink *netlink, int family);

#endif
