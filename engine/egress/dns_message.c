/* dns_message.c: one question, no compression (there is nothing to refer back to), nothing behind it
 * but one OPT record; all else is FORMERR. */
#include "dns_message.h"
#include <string.h>

#define HEADER 12
#define TYPE_OPT 41
#define CLASS_IN 1
#define UDP_SIZE 1232 /* what we say that we take; the internet's usual */
#define ANSWERS_MAX 4

/* Flags of the header. */
#define QR 0x8000u
#define OPCODE 0x7800u
#define TC 0x0200u
#define RD 0x0100u
#define RA 0x0080u
#define CD 0x0010u

static uint16_t get16(const uint8_t *at)
{
  return (uint16_t)(at[0] << 8 | at[1]);
}

static uint8_t *put16(uint8_t *at, uint32_t value)
{
  at[0] = (uint8_t)(value >> 8);
  at[1] = (uint8_t)value;
  return at + 2;
}

/* ---- reading ------------------------------------------------------------------------------ */

static bool name_byte(uint8_t c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

/* Labels up to the root; how long they are, 0: they are malformed. */
static size_t read_name(const uint8_t *bytes, size_t len, mcg_dns_query *out)
{
  size_t at = 0, to = 0;
  bool plain = true;
  for (;;) {
    if (at >= len || bytes[at] > 63) return 0; /* 64 and up: a pointer, or nothing that is in use */
    size_t label = bytes[at++];
    if (label == 0) break;
    if (label > len - at || at + label + 1 > 255) return 0;
    if (to) out->shown[to++] = '.';
    for (size_t end = at + label; at < end; at++) {
      plain &= name_byte(bytes[at]);
      out->shown[to++] = bytes[at] > ' ' && bytes[at] < 127 ? (char)bytes[at] : '?';
    }
  }
  mcg_address ignored;
  const char *why;
  out->shown[to] = '\0';
  out->named =
      plain && mcg_name_normalise(out->shown, to, out->name, &ignored, &why) == MCG_NAME_HOST;
  if (!out->named) out->name[0] = '\0';
  return at;
}

/* OPT, and nothing else, up to the end. */
static mcg_dns_code read_opt(const uint8_t *bytes, size_t len, mcg_dns_query *out)
{
  if (len < 11 || bytes[0] != 0 || get16(bytes + 1) != TYPE_OPT || get16(bytes + 9) != len - 11)
    return MCG_DNS_FORMERR;
  for (size_t at = 11; at < len;) { /* its options: only that they are whole */
    if (len - at < 4 || get16(bytes + at + 2) > len - at - 4) return MCG_DNS_FORMERR;
    at += 4u + get16(bytes + at + 2);
  }
  out->edns = true;
  out->dnssec = bytes[7] & 0x80;
  return bytes[6] == 0 ? MCG_DNS_OK : MCG_DNS_BADVERS;
}

static mcg_dns_code read_question(const uint8_t *bytes, size_t len, mcg_dns_query *out)
{
  const uint8_t *counts = bytes + 4;
  bool one = get16(counts) == 1 && get16(counts + 2) == 0 && get16(counts + 4) == 0;
  uint16_t more = get16(counts + 6);
  if (!one || more > 1 || len > MCG_DNS_QUERY_MAX) return MCG_DNS_FORMERR;
  size_t used = read_name(bytes + HEADER, len - HEADER, out);
  size_t end = HEADER + used + 4;
  if (!used || end > len) return MCG_DNS_FORMERR;
  out->type = get16(bytes + end - 4);
  out->question_len = used + 4;
  memcpy(out->question, bytes + HEADER, used + 4);
  mcg_dns_code code =
      more ? read_opt(bytes + end, len - end, out) : (end == len ? MCG_DNS_OK : MCG_DNS_FORMERR);
  if (code != MCG_DNS_OK) return code;
  if (get16(bytes + end - 2) != CLASS_IN) return MCG_DNS_REFUSED;
  /* A pseudo-type, or a transfer of a zone: nothing that a name has. */
  return out->type == TYPE_OPT || (out->type >= 249 && out->type <= 254) ? MCG_DNS_REFUSED
                                                                         : MCG_DNS_OK;
}

bool mcg_dns_read(const uint8_t *bytes, size_t len, mcg_dns_query *out)
{
  memset(out, 0, sizeof *out);
  if (len < HEADER) return false;
  uint16_t flags = get16(bytes + 2);
  if (flags & QR) return false;
  out->id = get16(bytes);
  out->recursion = flags & RD;
  out->opcode = (flags & OPCODE) >> 11;
  out->checking_off = flags & CD;
  if (flags & OPCODE)
    out->code = MCG_DNS_NOTIMP;
  else if (flags & TC)
    out->code = MCG_DNS_FORMERR;
  else
    out->code = read_question(bytes, len, out);
  return true;
}

/* ---- answering ---------------------------------------------------------------------------- */

static uint8_t *put_record(uint8_t *at, const mcg_address *address, uint32_t ttl)
{
  size_t len = address->six ? 16 : 4;
  at = put16(at, 0xc000u | HEADER); /* the name of the question */
  at = put16(at, address->six ? MCG_DNS_AAAA : MCG_DNS_A);
  at = put16(at, CLASS_IN);
  at = put16(at, ttl >> 16);
  at = put16(at, ttl);
  at = put16(at, (uint32_t)len);
  memcpy(at, address->bytes, len);
  return at + len;
}

static uint8_t *put_opt(uint8_t *at, const mcg_dns_query *query, mcg_dns_code code)
{
  *at++ = 0; /* the root */
  at = put16(at, TYPE_OPT);
  at = put16(at, UDP_SIZE);
  *at++ = (uint8_t)(code >> 4);
  *at++ = 0; /* version */
  at = put16(at, query->dnssec ? 0x8000u : 0);
  return put16(at, 0);
}

size_t mcg_dns_answer(const mcg_dns_query *query, mcg_dns_code code, const mcg_address *addresses,
                      size_t count, uint32_t ttl, uint8_t *out)
{
  uint8_t *at = out + HEADER;
  uint32_t answers = 0;
  memcpy(at, query->question, query->question_len);
  at += query->question_len;
  for (size_t i = 0; i < count && code == MCG_DNS_OK && answers < ANSWERS_MAX; i++) {
    if (query->type != (addresses[i].six ? MCG_DNS_AAAA : MCG_DNS_A)) continue;
    at = put_record(at, &addresses[i], ttl);
    answers++;
  }
  if (query->edns) at = put_opt(at, query, code);
  uint8_t *head = put16(out, query->id);
  head = put16(head, QR | RA | (query->recursion ? RD : 0) | (query->checking_off ? CD : 0) |
                         (uint32_t)query->opcode << 11 | ((uint32_t)code & 15u));
  head = put16(head, query->question_len ? 1 : 0);
  head = put16(head, answers);
  head = put16(head, 0);
  put16(head, query->edns ? 1 : 0);
  return (size_t)(at - out);
}

/* ---- TCP ---------------------------------------------------------------------------------- */

int mcg_dns_framed(const uint8_t *bytes, size_t len)
{
  if (len < 2) return 0;
  uint16_t message = get16(bytes);
  if (message < HEADER || message > MCG_DNS_QUERY_MAX) return -1;
  return len - 2 < message ? 0 : message + 2;
}

void mcg_dns_frame(uint8_t out[2], size_t message_len)
{
  put16(out, (uint32_t)message_len);
}
