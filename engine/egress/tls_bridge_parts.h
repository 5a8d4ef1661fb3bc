/* tls_bridge_parts.h: what the bridge's files share: tls_bridge.c (its life), tls_side.c (one socket with
 * the TLS on it). */
#ifndef MCG_EGRESS_TLS_BRIDGE_PARTS_H
#define MCG_EGRESS_TLS_BRIDGE_PARTS_H

#include "http_exchange.h"
#include "tls_bridge.h"

enum { MCG_NEAR, MCG_FAR };

typedef struct mcg_tls_side {
  mcg_traffic_waiter waiter;
  mcg_tls_bridge *bridge;
  int fd, events, error; /* error: errno that broke it off */
  uv_poll_t poll;
  mcg_tls *tls;
  bool stands;      /* the handshake is done */
  bool eof;         /* the socket's */
  bool closed;      /* in due form */
  bool broken;      /* no bytes come any more, and it was not closed in due form */
  bool gone;        /* nothing can be sent */
  bool shut;        /* nothing more is to be sent, and the peer knows */
  mcg_bytes plain;  /* came, not yet taken */
  mcg_bytes cipher; /* to be sent */
  uint64_t bytes;   /* that came */
} mcg_tls_side;

struct mcg_tls_bridge {
  mcg_tls_side sides[2];
  mcg_tls_bridge_options options;
  uv_timer_t timer;
  unsigned handles;
  mcg_exchange *exchange;
  mcg_http_rewrite rule;
  mcg_secrets *secrets;
  char *name;
  mcg_bytes texts; /* of the rule's headers */
  mcg_http_set *set;
  uint64_t begun_ms, last_ms, heading_ms, ending_ms; /* heading, ending: 0 while there is none */
  mcg_error *error;
  bool near_ended, far_ended; /* the exchange was told */
  bool lingers;               /* all is said, and sent; the program's end is waited for */
  bool more;                  /* it was others' turn before all was moved */
  bool over;
};

/* What is to be sent before more is read. */
#define MCG_BRIDGE_HELD ((size_t)64 << 10)

/* ---- tls_side.c: each returns whether something moved */

bool mcg_side_send(mcg_tls_side *side);
/* Up to `rounds` pieces, while `other` takes what comes of them. */
bool mcg_side_receive(mcg_tls_side *side, const mcg_tls_side *other);
/* One step; *failed once it cannot be. */
bool mcg_side_shake(mcg_tls_side *side, mcg_error **failed);
bool mcg_side_decrypt(mcg_tls_side *side);
void mcg_side_encrypt(mcg_tls_side *side, mcg_bytes *plain); /* takes all of it */
void mcg_side_close(mcg_tls_side *side, bool in_form);       /* says that nothing follows */
bool mcg_side_wants(const mcg_tls_side *side, const mcg_tls_side *other); /* to read the socket */
void mcg_side_fini(mcg_tls_side *side);

#endif
