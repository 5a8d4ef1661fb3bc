/* tls_bridge.h: a connection whose TLS ends at the engine, on both sides: to the program in the sandbox
 * the engine is the server, by a certificate of the session's authority; to the server it is a client
 * that verifies whom it speaks to. Between the two, requests of HTTP/1.1 get the headers of the rule.
 *
 * It stands where a relay stands otherwise (relay.h), and ends as one does: from the loop, with bounded
 * memory, and what reads slowly holds back what writes fast. */
#ifndef MCG_EGRESS_TLS_BRIDGE_H
#define MCG_EGRESS_TLS_BRIDGE_H

#include "authority.h"
#include "relay.h"
#include "rule.h"

typedef struct mcg_tls_bridge mcg_tls_bridge;

typedef struct mcg_tls_bridge_end {
  mcg_relay_end relay; /* bytes as they were on the wire */
  const mcg_error
      *error;        /* why it came to nothing: a certificate, a broken rule of HTTP; or NULL */
  unsigned requests; /* that went on to the server */
} mcg_tls_bridge_end;

typedef struct mcg_tls_bridge_options {
  int near, far;        /* both are taken, also on failure */
  uint64_t idle_ms;     /* 0: none */
  mcg_traffic *traffic; /* or NULL. Outlives the bridge, as the next one does */
  mcg_authority *authority;
  const char *name; /* judged and normalised; or an address. Copied, as the next ones are */
  uint16_t port;
  const mcg_rule *const *rules; /* whose headers are set: the first that has one wins */
  size_t rule_count;
  /* As a relay's: exactly once, unless the start failed. */
  void (*ended)(void *data, const mcg_tls_bridge_end *end);
  void *data;
} mcg_tls_bridge_options;

int mcg_tls_bridge_start(uv_loop_t *loop, const mcg_tls_bridge_options *options,
                         mcg_tls_bridge **out, mcg_error **err);
void mcg_tls_bridge_cut(mcg_tls_bridge *bridge); /* both sides see a reset */

#endif
