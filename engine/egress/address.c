/* address.c: spellings by the rules of inet_aton and inet_pton; special ranges by IANA's registries of
 * special-purpose addresses (RFC 6890, 8190 and what was added since), plus what is deprecated there
 * and the metadata services of clouds. Of IPv6 only 2000::/3 is ordinary. */
#include "address.h"
#include <arpa/inet.h>
#include <string.h>

typedef struct range {
  const char *network;
  unsigned bits;
  const char *name; /* NULL: ordinary after all */
} range;

/* The first that holds it counts: exceptions stand before what they are taken out of. */
static const range ranges4[] = {
    {"169.254.169.254", 32, "metadata"}, /* nearly all of them */
    {"169.254.170.2", 32, "metadata"},   /* AWS ECS */
    {"169.254.170.23", 32, "metadata"},  /* AWS EKS */
    {"169.254.42.42", 32, "metadata"},   /* Scaleway */
    {"100.100.100.200", 32, "metadata"}, /* Alibaba */
    {"168.63.129.16", 32, "metadata"},   /* Azure: a public address */
    {"192.0.0.192", 32, "metadata"},     /* Oracle */
    {"0.0.0.0", 8, "reserved"},
    {"10.0.0.0", 8, "private"},
    {"100.64.0.0", 10, "carrier-grade NAT"},
    {"127.0.0.0", 8, "loopback"},
    {"169.254.0.0", 16, "link-local"},
    {"172.16.0.0", 12, "private"},
    {"192.0.0.9", 32, NULL}, /* anycast of PCP and TURN */
    {"192.0.0.10", 32, NULL},
    {"192.0.0.0", 24, "reserved"},
    {"192.0.2.0", 24, "reserved"},
    {"192.88.99.0", 24, "reserved"},
    {"192.168.0.0", 16, "private"},
    {"198.18.0.0", 15, "reserved"},
    {"198.51.100.0", 24, "reserved"},
    {"203.0.113.0", 24, "reserved"},
    {"224.0.0.0", 4, "multicast"},
    {"240.0.0.0", 4, "reserved"},
};

static const range ranges6[] = {
    {"fd00:ec2::254", 128, "metadata"}, /* AWS */
    {"fd00:ec2::23", 128, "metadata"},
    {"fd20:ce::254", 128, "metadata"}, /* Google */
    {"fd00:42::42", 128, "metadata"},  /* Scaleway */
    {"::", 128, "reserved"},
    {"::1", 128, "loopback"},
    {"64:ff9b::", 96, NULL}, /* NAT64: what is inside decides */
    {"64:ff9b:1::", 48, "private"},
    {"100::", 64, "reserved"},
    {"2001::", 32, NULL},     /* Teredo: what is inside decides */
    {"2001:1::1", 128, NULL}, /* anycast of PCP, TURN and DNS-SD */
    {"2001:1::2", 128, NULL},
    {"2001:1::3", 128, NULL},
    {"2001:3::", 32, NULL},
    {"2001:4:112::", 48, NULL},
    {"2001:20::", 28, NULL},
    {"2001:30::", 28, NULL},
    {"2001::", 23, "reserved"},
    {"2001:db8::", 32, "reserved"},
    {"2002::", 16, NULL}, /* 6to4: what is inside decides */
    {"3fff::", 20, "reserved"},
    {"2000::", 3, NULL},
    {"fc00::", 7, "private"},
    {"fe80::", 10, "link-local"},
    {"fec0::", 10, "private"},
    {"ff00::", 8, "multicast"},
    {"::", 0, "reserved"},
};

/* ---- spellings ---------------------------------------------------------------------------- */

static int digit(char c)
{
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

/* One part: decimal, 0octal or 0xhex; how long it is, 0: it is none, or too large. */
static size_t part4(const char *text, size_t len, uint32_t *out)
{
  int base = 10;
  size_t at = 0, digits = 0;
  uint64_t value = 0;
  if (len == 0 || digit(text[0]) > 9) return 0;
  if (text[0] == '0' && len > 1 && (text[1] == 'x' || text[1] == 'X')) {
    base = 16;
    at = 2;
  } else if (text[0] == '0') {
    base = 8;
  }
  for (; at < len && digit(text[at]) < base; at++, digits++) {
    value = value * (unsigned)base + (unsigned)digit(text[at]);
    if (value > UINT32_MAX) return 0;
  }
  *out = (uint32_t)value;
  return digits ? at : 0;
}

static bool parse4(const char *text, size_t len, mcg_address *out)
{
  uint32_t value = 0, part;
  for (unsigned parts = 0; parts < 4; parts++) {
    size_t used = part4(text, len, &part);
    if (!used) return false;
    text += used;
    len -= used;
    if (len == 0) { /* the last fills all that is left */
      if ((uint64_t)part >> (32 - 8 * parts)) return false;
      value |= part;
      value = htonl(value);
      *out = (mcg_address){.six = false};
      memcpy(out->bytes, &value, 4);
      return true;
    }
    if (*text != '.' || part > 255) return false;
    value |= part << (24 - 8 * parts);
    text++;
    len--;
  }
  return false;
}

static void unmap(mcg_address *address)
{
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
  if (!address->six || memcmp(address->bytes, mapped, sizeof mapped) != 0) return;
  memmove(address->bytes, address->bytes + 12, 4);
  memset(address->bytes + 4, 0, 12);
  address->six = false;
}

bool mcg_address_parse(const char *text, size_t len, mcg_address *out)
{
  char copy[MCG_ADDRESS_TEXT];
  if (parse4(text, len, out)) return true;
  if (len >= sizeof copy || memchr(text, '\0', len)) return false;
  memcpy(copy, text, len);
  copy[len] = '\0';
  *out = (mcg_address){.six = true};
  if (inet_pton(AF_INET6, copy, out->bytes) != 1) return false;
  unmap(out);
  return true;
}

void mcg_address_text(const mcg_address *address, char out[MCG_ADDRESS_TEXT])
{
  if (!inet_ntop(address->six ? AF_INET6 : AF_INET, address->bytes, out, MCG_ADDRESS_TEXT))
    *out = 0;
}

bool mcg_address_of(const struct sockaddr *from, mcg_address *out)
{
  *out = (mcg_address){.six = from->sa_family == AF_INET6};
  if (from->sa_family == AF_INET) {
    memcpy(out->bytes, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    return true;
  }
  if (!out->six) return false;
  memcpy(out->bytes, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, 16);
  unmap(out);
  return true;
}

socklen_t mcg_address_sockaddr(const mcg_address *address, uint16_t port,
                               struct sockaddr_storage *out)
{
  memset(out, 0, sizeof *out);
  if (address->six) {
    struct sockaddr_in6 *to = (struct sockaddr_in6 *)out;
    to->sin6_family = AF_INET6;
    to->sin6_port = htons(port);
    memcpy(&to->sin6_addr, address->bytes, 16);
    return sizeof *to;
  }
  struct sockaddr_in *to = (struct sockaddr_in *)out;
  to->sin_family = AF_INET;
  to->sin_port = htons(port);
  memcpy(&to->sin_addr, address->bytes, 4);
  return sizeof *to;
}

/* ---- networks ----------------------------------------------------------------------------- */

bool mcg_address_equal(const mcg_address *a, const mcg_address *b)
{
  return mcg_address_within(a, b, b->six ? 128 : 32);
}

bool mcg_address_within(const mcg_address *address, const mcg_address *network, unsigned bits)
{
  if (address->six != network->six) return false;
  if (memcmp(address->bytes, network->bytes, bits / 8) != 0) return false;
  unsigned rest = bits % 8;
  return rest == 0 || (address->bytes[bits / 8] ^ network->bytes[bits / 8]) >> (8 - rest) == 0;
}

static const range *range_of(const mcg_address *address)
{
  const range *list = address->six ? ranges6 : ranges4;
  size_t count = address->six ? sizeof ranges6 / sizeof *list : sizeof ranges4 / sizeof *list;
  for (size_t i = 0; i < count; i++) {
    mcg_address network = {.six = address->six};
    inet_pton(address->six ? AF_INET6 : AF_INET, list[i].network, network.bytes);
    if (mcg_address_within(address, &network, list[i].bits)) return &list[i];
  }
  return NULL;
}

static size_t inside(const uint8_t *bytes, uint8_t mask, mcg_address *out)
{
  *out = (mcg_address){.six = false};
  for (size_t i = 0; i < 4; i++) out->bytes[i] = bytes[i] ^ mask;
  return 1;
}

size_t mcg_address_inside(const mcg_address *address, mcg_address out[2])
{
  static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b}, teredo[4] = {0x20, 0x01};
  const uint8_t *bytes = address->bytes;
  if (!address->six) return 0;
  if (memcmp(bytes, nat64, sizeof nat64) == 0) return inside(bytes + 12, 0, &out[0]);
  if (bytes[0] == 0x20 && bytes[1] == 0x02) return inside(bytes + 2, 0, &out[0]);
  if (memcmp(bytes, teredo, sizeof teredo) == 0)
    return inside(bytes + 4, 0, &out[0]) + inside(bytes + 12, 0xff, &out[1]);
  /* ISATAP, RFC 5214: 0000:5efe or 0200:5efe before the address. */
  if ((bytes[8] & 0xfd) == 0 && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe)
    return inside(bytes + 12, 0, &out[0]);
  return 0;
}

const char *mcg_address_special(const mcg_address *address)
{
  mcg_address list[2];
  const range *of = range_of(address);
  const char *name = of ? of->name : NULL;
  for (size_t i = mcg_address_inside(address, list); i > 0 && !name; i--)
    name = mcg_address_special(&list[i - 1]);
  return name;
}

bool mcg_address_is_metadata(const mcg_address *address)
{
  mcg_address list[2];
  const range *of = range_of(address);
  if (of && of->name && strcmp(of->name, "metadata") == 0) return true;
  for (size_t i = mcg_address_inside(address, list); i > 0; i--)
    if (mcg_address_is_metadata(&list[i - 1])) return true;
  return false;
}

bool mcg_address_network_special(const mcg_address *network, unsigned bits)
{
  const range *of = range_of(network);
  if (of && of->name) return bits >= of->bits;
  return bits == (network->six ? 128u : 32u) && mcg_address_special(network);
}
