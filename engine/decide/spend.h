/* spend.h: what a session, its run and its tenant have cost so far, as far as this engine knows: the
 * facts that a budget decides by. */
#ifndef MCG_SPEND_H
#define MCG_SPEND_H

#include "session/session.h"

typedef struct mcg_spend {
  mcg_spent session, run, tenant;
} mcg_spend;

/* Minutes of sandboxes and their cost, to `told`, which borrows `room`: the run's and the tenant's where
 * the session has one. Of a tenant with a quota it is what all engines together know. */
void mcg_spend_tell(const mcg_session *session, mcg_spend *room, mcg_told *told);
/* The session is over: its run and its tenant keep what it has cost. */
void mcg_spend_keep(mcg_session *session);

#endif
