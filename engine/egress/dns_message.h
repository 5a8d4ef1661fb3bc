/* dns_message.h: queries as programs send them to the stub, and its answers. Strict, pure, without
 * allocation; what is answered is stub.c's to know. RFC 1035, 6891 (EDNS0), 7766 (TCP). */
#ifndef MCG_DNS_MESSAGE_H
#define MCG_DNS_MESSAGE_H

#include "name.h"

#define MCG_DNS_ANSWER_ROOM 512 /* whatever mcg_dns_answer writes, and its TCP length */
#define MCG_DNS_QUERY_MAX 4096  /* a longer one is no query of a stub's clients */

typedef enum mcg_dns_type {
  MCG_DNS_A = 1,
  MCG_DNS_AAAA = 28,
  MCG_DNS_SVCB = 64,
  MCG_DNS_HTTPS = 65,
} mcg_dns_type;

typedef enum mcg_dns_code {
  MCG_DNS_OK = 0,      /* also for "there is none of that type" (NODATA): without addresses */
  MCG_DNS_FORMERR = 1, /* it is not understood */
  MCG_DNS_SERVFAIL = 2,
  MCG_DNS_NXDOMAIN = 3,
  MCG_DNS_NOTIMP = 4, /* no query */
  MCG_DNS_REFUSED = 5,
  MCG_DNS_BADVERS = 16, /* a later EDNS */
} mcg_dns_code;

typedef struct mcg_dns_query {
  uint16_t id, type;
  uint8_t opcode; /* 0, but where it is no query */
  bool recursion, checking_off, edns, dnssec;
  mcg_dns_code code; /* not OK: what to answer at once; the rest may be empty then */
  bool named;        /* `name` is a host's, normalised */
  char name[MCG_NAME_ROOM];
  char shown[MCG_NAME_ROOM]; /* the name for people, whatever it is: printable ASCII, perhaps "" */
  uint8_t question[260];     /* as it was asked, to be said again in the answer */
  size_t question_len;
} mcg_dns_query;

/* False: it deserves no answer (too short for one, or itself an answer). */
bool mcg_dns_read(const uint8_t *bytes, size_t len, mcg_dns_query *out);
/* An answer with those `addresses` that are of the family that was asked for; its length, at most
 * MCG_DNS_ANSWER_ROOM - 2; with at most 4 of them. */
size_t mcg_dns_answer(const mcg_dns_query *query, mcg_dns_code code, const mcg_address *addresses,
                      size_t count, uint32_t ttl, uint8_t *out);

/* Over TCP a length of two bytes stands before each message. The whole message that `bytes` start
 * with: its length with those two; 0: more is to come; -1: it is none that is read here. */
int mcg_dns_framed(const uint8_t *bytes, size_t len);
/* Writes the length of a message that stands behind it. */
void mcg_dns_frame(uint8_t out[2], size_t message_len);

#endif
