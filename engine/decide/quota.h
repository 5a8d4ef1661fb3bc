/* quota.h: a session that counts against the quota of its tenant. */
#ifndef MCG_QUOTA_H
#define MCG_QUOTA_H

#include "tenant.h"

typedef struct mcg_quota_seat mcg_quota_seat;

/* Before anything is made: `quota` when the tenant has all it may have. Nothing for a quota of zeros. */
int mcg_quota_enter(mcg_session *session, const mcg_quota *quota, mcg_error **err) MCG_PARKS;
/* It runs: from now on it costs; it is ended when nothing is left. `unenforceable` where the quota is
 * in dollars and nobody knows what this candidate costs. */
int mcg_quota_start(mcg_session *session, mcg_error **err);
/* What the tenant has spent in the quota's period, everywhere; unchanged where that cannot be read. */
void mcg_quota_spent(const mcg_session *session, double *usd, double *minutes);
/* It is over: charges it. Idempotent, and fine for a session without a quota. */
void mcg_quota_leave(mcg_session *session);

#endif
