/* spend.h: what a session, its run and its tenant have cost so far, as far as this engine knows: the
 * facts that a budget decides by. */
#ifndef MCG_SPEND_H
#define MCG_SPEND_H

#include "session/session.h"

/* {"session":{"minutes","usd","unpriced"},"run":...,"tenant":...}: minutes of sandboxes and their cost;
 * `unpriced` where some of it has no price. "run" and "tenant" where the session has one. Of a tenant
 * with a quota it is what all engines together know. NULL: no memory. */
json_t *mcg_spend_facts(const mcg_session *session);
/* The session is over: its run and its tenant keep what it has cost. */
void mcg_spend_keep(mcg_session *session);

#endif
