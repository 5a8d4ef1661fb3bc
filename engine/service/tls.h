/* tls.h: one side of a TLS connection as a machine without sockets: what came from the peer goes in,
 * what is for the peer comes out, and the plain bytes between. TLS 1.2 and 1.3, HTTP/1.1 as the only
 * protocol to be agreed on. Never parks, never blocks; for the loop as for a fiber. */
#ifndef MCG_TLS_H
#define MCG_TLS_H

#include "openssl.h"

typedef struct mcg_tls mcg_tls;

/* ---- whom to believe, for the client's side */

typedef struct mcg_tls_trust mcg_tls_trust;
/* The authorities that this system trusts, and those in `ca_file` (PEM; may be NULL) besides. Nothing in
 * the environment changes it. Reads files: some 20 ms, for a thread. `openssl` outlives it. */
int mcg_tls_trust_new(const mcg_openssl *openssl, const char *ca_file, mcg_tls_trust **out,
                      mcg_error **err);
void mcg_tls_trust_free(mcg_tls_trust *trust);
/* Verifies that the peer is `name`: a host name, or an address. There is no way to leave that out. */
int mcg_tls_connect(const mcg_tls_trust *trust, const char *name, mcg_tls **out, mcg_error **err);

/* ---- whom to be, for the server's side */

typedef struct mcg_tls_identity mcg_tls_identity;
/* Key and certificate stay the caller's. A peer that asks for another name gets an alert. */
int mcg_tls_identity_new(const mcg_openssl *openssl, const char *name, X509 *certificate,
                         EVP_PKEY *key, mcg_tls_identity **out, mcg_error **err);
void mcg_tls_identity_free(mcg_tls_identity *identity);
int mcg_tls_accept(const mcg_tls_identity *identity, mcg_tls **out, mcg_error **err);

/* ---- the machine */

void mcg_tls_free(mcg_tls *tls); /* NULL is fine */
/* From the peer. False: no memory. */
bool mcg_tls_take(mcg_tls *tls, const void *bytes, size_t len);
/* For the peer: how many of `room` bytes were written. To be asked after each of the calls below, also
 * after one that failed: there may be an alert in it. */
size_t mcg_tls_give(mcg_tls *tls, void *bytes, size_t room);
/* 1: the connection stands. 0: the peer has to say more. -1: it never will, and *err is why. */
int mcg_tls_handshake(mcg_tls *tls, mcg_error **err);

enum { MCG_TLS_MORE = 0, MCG_TLS_CLOSED = -1, MCG_TLS_BROKEN = -2 };
/* Plain bytes: how many; or that the peer has to say more, has closed in due form, or broke the rules. */
long mcg_tls_read(mcg_tls *tls, void *bytes, size_t room);
bool mcg_tls_write(mcg_tls *tls, const void *bytes,
                   size_t len);   /* all of it; false: it is broken */
void mcg_tls_close(mcg_tls *tls); /* says that nothing follows */

#endif
