/* refusal.c: TCP's RST and ICMP's port unreachable, of IPv4 (RFC 791, 792, 9293) and IPv6 (RFC 8200,
 * 4443). Extension headers and options of IPv6 are not followed: the kernel puts none there. */
#include "refusal.h"

#include <string.h>

#define HEADER_4 20
#define HEADER_6 40
#define TCP_HEADER 20
#define ICMP_HEADER 8

enum { PROTOCOL_ICMP = 1, PROTOCOL_TCP = 6, PROTOCOL_UDP = 17, PROTOCOL_ICMP6 = 58 };
enum { FLAGS_SEEN = 0x17, RST_ACK = 0x14 }; /* FIN, SYN, RST, ACK */

typedef struct packet { /* an IP packet; after its header, what it carries */
  mcg_address source, destination;
  uint8_t protocol;
  const uint8_t *body;
  size_t len;
} packet;

static uint16_t number(const uint8_t *at)
{
  return (uint16_t)(at[0] << 8 | at[1]);
}

static bool read_4(const uint8_t *bytes, size_t len, packet *out)
{
  size_t header = (size_t)(bytes[0] & 15) * 4;
  if (header < HEADER_4 || len < header || number(bytes + 6) & 0x1fff) return false;
  *out = (packet){.protocol = bytes[9], .body = bytes + header, .len = len - header};
  memcpy(out->source.bytes, bytes + 12, 4);
  memcpy(out->destination.bytes, bytes + 16, 4);
  return true;
}

static bool read_6(const uint8_t *bytes, size_t len, packet *out)
{
  if (len < HEADER_6) return false;
  *out = (packet){.source.six = true,
                  .destination.six = true,
                  .protocol = bytes[6],
                  .body = bytes + HEADER_6,
                  .len = len - HEADER_6};
  memcpy(out->source.bytes, bytes + 8, 16);
  memcpy(out->destination.bytes, bytes + 24, 16);
  return true;
}

static bool read_packet(const uint8_t *bytes, size_t len, packet *out)
{
  if (len < HEADER_4) return false;
  if (bytes[0] >> 4 == 4) return read_4(bytes, len, out);
  return bytes[0] >> 4 == 6 && read_6(bytes, len, out);
}

/* The answer to a SYN comes from where that was sent to, and has no sequence number of its own. */
static bool read_reset(const packet *reset, mcg_refusal *out)
{
  static const uint8_t zero[4];
  if (reset->len < TCP_HEADER || (reset->body[13] & FLAGS_SEEN) != RST_ACK ||
      memcmp(reset->body + 4, zero, sizeof zero) != 0)
    return false;
  *out = (mcg_refusal){.address = reset->source, .port = number(reset->body)};
  return true;
}

/* In it is the beginning of the datagram that nobody wanted. */
static bool read_unreachable(const packet *answer, mcg_refusal *out)
{
  packet sent;
  uint8_t type = answer->source.six ? 1 : 3, code = answer->source.six ? 4 : 3;
  if (answer->len < ICMP_HEADER || answer->body[0] != type || answer->body[1] != code ||
      !read_packet(answer->body + ICMP_HEADER, answer->len - ICMP_HEADER, &sent) ||
      sent.source.six != answer->source.six || sent.protocol != PROTOCOL_UDP || sent.len < 4)
    return false;
  *out = (mcg_refusal){.address = sent.destination, .port = number(sent.body + 2), .udp = true};
  return true;
}

bool mcg_refusal_parse(const uint8_t *bytes, size_t len, mcg_refusal *out)
{
  packet came;
  if (!read_packet(bytes, len, &came)) return false;
  if (came.protocol == PROTOCOL_TCP) return read_reset(&came, out);
  if (came.protocol != (came.source.six ? PROTOCOL_ICMP6 : PROTOCOL_ICMP)) return false;
  return read_unreachable(&came, out);
}
