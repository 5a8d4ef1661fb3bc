/* gateway.h: the way out of one sandbox. Every connection that leaves it comes to a listener of this
 * gateway, is judged by the session's policy, told to the audit log, made outside, and carried. */
#ifndef MCG_EGRESS_GATEWAY_H
#define MCG_EGRESS_GATEWAY_H

#include "policy.h"
#include "session/session.h"

struct mcg_egress;

/* Before the place is made: the authority that it is to believe, where a rule ends TLS here. */
int mcg_egress_prepare(mcg_session *session, mcg_error **err) MCG_PARKS;
/* For a session whose plan has a policy, once its stream stands; else nothing is done. */
int mcg_egress_start(mcg_session *session, mcg_error **err) MCG_PARKS;
/* Cuts what is open and waits until it is told; nothing of it is left then. NULL and never started are
 * fine. On a shielded fiber. */
void mcg_egress_end(mcg_session *session);
/* Another policy: holds for new connections at once, and cuts those that it does not allow. */
int mcg_egress_set(mcg_session *session, mcg_policy *policy, mcg_error **err) MCG_PARKS;
/* What has been moved, in and out of the sandbox, to its exposed ports included. */
void mcg_egress_moved(const mcg_session *session, uint64_t *in, uint64_t *out);

#endif
