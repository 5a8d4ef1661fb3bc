/* authority.h: the certificate authority of one session, by which the engine is the server to the
 * programs in the sandbox. Made when the session opens, in memory only; its key never leaves the engine
 * and is wiped with it. Nobody else believes it. */
#ifndef MCG_EGRESS_AUTHORITY_H
#define MCG_EGRESS_AUTHORITY_H

#include "engine.h"
#include "service/tls.h"

typedef struct mcg_authority mcg_authority;

/* Loads OpenSSL and what this system trusts on a thread: some 25 ms. `ca_file`: see tls.h. */
int mcg_authority_new(mcg_engine *engine, const char *session_id, const char *ca_file,
                      mcg_authority **out, mcg_error **err) MCG_PARKS;
/* No connection uses it any more. NULL is fine. */
void mcg_authority_free(mcg_authority *authority);

const char *mcg_authority_pem(const mcg_authority *authority);    /* its certificate */
unsigned long mcg_authority_hash(const mcg_authority *authority); /* as OpenSSL names its file */
const mcg_tls_trust *mcg_authority_trust(const mcg_authority *authority);
/* What the engine shows as `name` (normalised host name, or address): made when first asked for, kept,
 * made anew before it expires. A connection that has begun is not touched by that. */
int mcg_authority_identity(mcg_authority *authority, const char *name, const mcg_tls_identity **out,
                           mcg_error **err);

#endif
