/* tenant.h: what a tenant may change of a configuration. The host's function says what it is to have;
 * here it is checked that this only tightens. */
#ifndef MCG_TENANT_H
#define MCG_TENANT_H

#include "config/check.h"

struct mcg_session;
struct mcg_counsel;

#define MCG_TENANT_KEY 33 /* with its NUL */

/* A quota of one tenant, over all its sessions; 0: none. */
typedef struct mcg_quota {
  unsigned sessions; /* at once */
  double usd, minutes;
  enum { MCG_PER_EVER, MCG_PER_MONTH, MCG_PER_DAY } per;
} mcg_quota;

/* Letters, digits, '-' and '_', 1 to 64 of them; else `invalid`. */
int mcg_tenant_check(const json_t *id, const mcg_where *where, mcg_error **err);
/* What names the tenant in paths: 32 hexadecimal digits that no other id shares. */
void mcg_tenant_key(const char *id, char key[MCG_TENANT_KEY]);

/* The configuration `base` with the overrides of a tenant: *out is fresh. A value that is looser than
 * the configuration's: `invalid`, naming it. `quota` is zeroed and filled. */
int mcg_tenant_apply(mcg_engine *engine, const json_t *base, const char *tenant,
                     const json_t *overrides, json_t **out, mcg_quota *quota, mcg_error **err);

/* What both `base`, the network of a tenant's session so far (NULL: none), and `given` allow: *out is
 * fresh. Looser, as above: `invalid`. */
int mcg_tenant_network(const json_t *base, const json_t *given, const mcg_where *where,
                       json_t **out, mcg_error **err);

/* tenant_open.c: asks the host about a tenant (NULL: a session of none): *root is the configuration
 * `base` with what that one gets. The host's nil: `no_candidate`. `session` is the one that is being
 * opened, or NULL. */
int mcg_tenant_resolve(mcg_engine *engine, struct mcg_counsel *counsel, struct mcg_session *session,
                       const char *tenant, const json_t *base, json_t **root, mcg_quota *quota,
                       mcg_error **err) MCG_PARKS;

#endif
