/* http_exchange.h: the requests and responses of one connection, as they pass from the program in the
 * sandbox (near) to the server (far) and back. One request after the other: the next is not looked at
 * before the response to this one is complete. Pure: plain bytes in, plain bytes out.
 *
 * Each request gets the headers of the rule. Of what comes back each of the secrets is struck out, its
 * bytes replaced by as many asterisks: in heads, in bodies across their pieces, and in what follows an
 * upgrade. What the server does to a secret beyond the spellings of mcg_secrets, and what it compresses or
 * encrypts although it was asked not to, cannot be caught. */
#ifndef MCG_EGRESS_HTTP_EXCHANGE_H
#define MCG_EGRESS_HTTP_EXCHANGE_H

#include "audit/canonical.h"
#include "http_body.h"

typedef struct mcg_exchange mcg_exchange;

/* Both are borrowed, and outlive it. `secrets` may be NULL. NULL: no memory. */
mcg_exchange *mcg_exchange_new(const mcg_http_rewrite *rule, const mcg_secrets *secrets);
void mcg_exchange_free(mcg_exchange *exchange);

/* How many of the bytes were taken; what is not comes again with what follows it. Buffers of the caller
 * hold at least MCG_HTTP_HEAD_MAX. `far` and `near` get what goes on. */
size_t mcg_exchange_near(mcg_exchange *exchange, const char *bytes, size_t len, mcg_bytes *far,
                         mcg_bytes *near);
size_t mcg_exchange_far(mcg_exchange *exchange, const char *bytes, size_t len, mcg_bytes *near);
/* The server has said its last, in due form or not. */
void mcg_exchange_far_ended(mcg_exchange *exchange, bool in_form, mcg_bytes *near);
/* The program sends no more. */
void mcg_exchange_near_ended(mcg_exchange *exchange);
/* There is no server to speak to: the next request is answered with this. */
void mcg_exchange_fail(mcg_exchange *exchange, const char *why);
/* Too slow: a request that has begun is answered with 408. */
void mcg_exchange_late(mcg_exchange *exchange, mcg_bytes *near);

typedef enum mcg_exchange_state {
  MCG_EXCHANGE_OPEN,
  MCG_EXCHANGE_FINISHED, /* what `near` holds is the last; then the connection ends in due form */
  MCG_EXCHANGE_BROKEN    /* it must not look complete: no close in due form */
} mcg_exchange_state;
mcg_exchange_state mcg_exchange_state_of(const mcg_exchange *exchange);
const char *mcg_exchange_why(const mcg_exchange *exchange); /* refused or broken: why; or NULL */
bool mcg_exchange_heading(const mcg_exchange *exchange);    /* a request's head is owed */
bool mcg_exchange_raw(const mcg_exchange *exchange);        /* upgraded: no HTTP any more */
unsigned mcg_exchange_requests(const mcg_exchange *exchange);

#endif
