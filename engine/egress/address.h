/* address.h: addresses of IPv4 and IPv6 as the gateway judges them: how they are spelt, which network
 * they lie in, and which of them are no ordinary place of the internet. Pure: no look-ups, no I/O. */
#ifndef MCG_ADDRESS_H
#define MCG_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define MCG_ADDRESS_TEXT 46 /* with its NUL */

typedef struct mcg_address {
  uint8_t bytes[16]; /* of IPv4 the first four; the rest is zero */
  bool six;
} mcg_address;

/* Every spelling that inet_aton takes (0x7f.1, 2130706433, 0177.0.0.1), and IPv6 without brackets and
 * zone. An IPv4 address written as IPv6 (::ffff:127.0.0.1) is the IPv4 address. */
bool mcg_address_parse(const char *text, size_t len, mcg_address *out);
/* The one usual spelling, RFC 5952. */
void mcg_address_text(const mcg_address *address, char out[MCG_ADDRESS_TEXT]);
/* False for another family than these two. ::ffff:0:0/96 becomes IPv4 here, too. */
bool mcg_address_of(const struct sockaddr *from, mcg_address *out);
/* The length of what is filled in. */
socklen_t mcg_address_sockaddr(const mcg_address *address, uint16_t port,
                               struct sockaddr_storage *out);

bool mcg_address_equal(const mcg_address *a, const mcg_address *b);
/* Is it of that family, with the same first `bits`? */
bool mcg_address_within(const mcg_address *address, const mcg_address *network, unsigned bits);

/* What a special range is: "loopback", "private", "link-local" ..., for an address that has an IPv4
 * address inside (NAT64, 6to4, Teredo, ISATAP) also where that one is special. NULL: an ordinary one.
 * Instance metadata of a cloud is "metadata", wherever it lies. */
const char *mcg_address_special(const mcg_address *address);
bool mcg_address_is_metadata(const mcg_address *address); /* also one with such inside */
/* The whole network is of one special range. */
bool mcg_address_network_special(const mcg_address *network, unsigned bits);
/* The IPv4 addresses that an IPv6 address stands for; how many there are, at most 2. */
size_t mcg_address_inside(const mcg_address *address, mcg_address out[2]);

#endif
