/* proxy.h: the HTTP proxy of the host, where connections have to leave through one: by CONNECT, names
 * unresolved. What a name leads to is then the proxy's to know, and only names and ports are judged. */
#ifndef MCG_EGRESS_PROXY_H
#define MCG_EGRESS_PROXY_H

#include "resolve.h"

typedef struct mcg_proxy mcg_proxy;

/* "http://[USER[:PASSWORD]@]HOST[:PORT]". `without`: as the variable no_proxy, or NULL. */
int mcg_proxy_new(const char *url, const char *without, mcg_proxy **out, mcg_error **err);
/* That of the environment (https_proxy, HTTPS_PROXY; no_proxy, NO_PROXY); *out is NULL: there is none. */
int mcg_proxy_of_environment(mcg_proxy **out, mcg_error **err);
void mcg_proxy_free(mcg_proxy *proxy);              /* NULL is fine; the password is wiped */
const char *mcg_proxy_text(const mcg_proxy *proxy); /* "HOST:PORT", for people */

/* Does a connection to there go through it? `name` or, where that is NULL, `address`. False for NULL. */
bool mcg_proxy_covers(const mcg_proxy *proxy, const char *name, const mcg_address *address);
/* A connection through it; *fd is the caller's. */
int mcg_proxy_dial(mcg_engine *engine, mcg_resolver *resolver, const mcg_proxy *proxy,
                   const char *name, const mcg_address *address, uint16_t port, int *fd,
                   mcg_error **err) MCG_PARKS;

#endif
